// SPDX-License-Identifier: MIT
// Dither: what is added to a value before it is rounded, so that means survive a fall in depth.
#ifndef GWB_KERNEL_DITHER_H
#define GWB_KERNEL_DITHER_H

#include "blue_noise.h"
#include "convert_args.h"

// In -0.5..0.5, for sample (x, y) of any component: the same for all, so that gray stays gray.
GWB_FN float gwb_dither_offset(int dither, int x, int y)
{
    if (dither == GWB_DITHER_BLUE_NOISE)
        return ((float)gwb_blue_noise[(y & 63) * 64 + (x & 63)] + 0.5f) * (1.0f / 256.0f) - 0.5f;
    // Bits of x ^ y and y, interleaved in reverse: the recursive 8x8 matrix.
    const int q = x ^ y;
    const int rank = (q & 1) << 5 | (y & 1) << 4 | (q & 2) << 2 | (y & 2) << 1 | (q & 4) >> 1 | (y & 4) >> 2;
    return ((float)rank + 0.5f) * (1.0f / 64.0f) - 0.5f;
}

#endif
