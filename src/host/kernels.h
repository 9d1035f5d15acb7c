// SPDX-License-Identifier: MIT
// The built-in kernels on the host device.
#ifndef GWB_HOST_KERNELS_H
#define GWB_HOST_KERNELS_H

#include "gwb.h"

#include "prelude.h"

#include "args.h"
#include "list.h"

// Rows y0 .. y1 - 1 of slice z, all of x. May run on several threads at once for different rows; waits for nothing and cannot fail.
typedef void gwb_host_kernel(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z);

#define GWB_HOST_KERNEL(name, args, bx, by) gwb_host_kernel gwb_host_##name;
GWB_KERNELS(GWB_HOST_KERNEL)
#undef GWB_HOST_KERNEL

extern gwb_host_kernel *const gwb_host_kernels[GWB_KERNEL_COUNT];   // by GWB_KERNEL_NAME

#endif
