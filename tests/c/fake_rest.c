// SPDX-License-Identifier: MIT
// What fake_driver.c leaves out of the functions that gpuwb takes from the driver: all of it is "not supported".
#include "cuda/driver.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define REST(name, symbol, params) \
    CUresult rest_##name params __asm__(symbol) __attribute__((weak, visibility("default"))); \
    CUresult rest_##name params \
    { \
        return 801; \
    }
GWB_CUDA_SYMBOLS(REST)
