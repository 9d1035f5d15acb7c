// SPDX-License-Identifier: MIT
// Blocks whose threads wait for each other: each thread is a fibre, all fibres of a block share the processor thread that runs the block.
#ifndef GWB_HOST_FIBRE_H
#define GWB_HOST_FIBRE_H

#include "host_api.h"

#include <stdatomic.h>

// Why a launch ended early: the first failure of any of its blocks.
typedef struct gwb_fibre_fault {
    atomic_int state;           // 0 none, 1 being written, 2 written
    char text[512];
} gwb_fibre_fault;

// Runs the blocks first .. end - 1 of a launch, until one of them, here or on another thread, fails. Waits. Thread-safe. run->calls is set here.
void gwb_fibre_blocks(const gwb_host_entry *entry, const gwb_host_run *run, gwb_fibre_fault *fault, int64_t first, int64_t end);

#endif
