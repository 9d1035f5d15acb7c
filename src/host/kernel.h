// SPDX-License-Identifier: MIT
// Kernels that a script brings, on the host device.
#ifndef GWB_HOST_KERNEL_H
#define GWB_HOST_KERNEL_H

#include "device.h"

// The functions of the table. A kernel that reads or writes outside its memory ends the process, as in any C program: a fault of the processor cannot
// be caught safely. What the fibres find (a deadlock, a lane outside its mask) becomes an error of the next call that waits.
int gwb_host_kernel_open(gwb_device *d, const gwb_kernel_job *job, void **module);
void gwb_host_kernel_close(gwb_device *d, void *module, bool lost);
int gwb_host_kernel_launch(gwb_queue *q, const gwb_kernel_run *run);

// host.c: the first failure of work that nobody has heard of yet, raised by the next call that waits.
void gwb_host_fault(const char *text);

#endif
