// SPDX-License-Identifier: MIT
// The begin of a generated kernel's tiles where a chain begins with YUV to RGB as yuv_rgb.h does it.
#ifndef GWB_KERNEL_PIPE_QUICK_H
#define GWB_KERNEL_PIPE_QUICK_H

#include "yuv_rgb.h"

// From source `s` at x and y, which stand above, into p.
#define GWB_TILE_QUICK(KIND, SHAPE, LEFT, ALPHA) \
    gwb_yuv_rgb_samples samples; \
    gwb_yuv_rgb_load(&s, KIND, SHAPE, LEFT, GWB_TILES, x, y, &samples); \
    GWB_UNROLL \
    for (int r = 0; r < GWB_TILE_H; r++) { \
        float rgb[3][8]; \
        gwb_yuv_rgb_row(&s, KIND, SHAPE, LEFT, GWB_TILES, &samples, r, rgb); \
        GWB_UNROLL \
        for (int i = 0; i < GWB_TILES; i++) { \
            p[r][i].c[0] = rgb[0][i]; \
            p[r][i].c[1] = rgb[1][i]; \
            p[r][i].c[2] = rgb[2][i]; \
            p[r][i].c[3] = ALPHA; \
        } \
    }

#endif
