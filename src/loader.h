// SPDX-License-Identifier: MIT
// Many files: threads that read, decode and upload ahead of their consumer, and threads that encode and write behind their producer.
#ifndef GWB_LOADER_H
#define GWB_LOADER_H

#include "error.h"

// Threads where the caller leaves the number open (0): the processors this process may use, at most 64.
int gwb_default_threads(int wanted);

// A deep copy with tight rows, in one block of memory. The caller frees it.
int gwb_picture_copy(const gwb_picture *from, gwb_picture *to);

#endif
