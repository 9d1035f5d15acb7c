// SPDX-License-Identifier: MIT
// The begin of a generated kernel's tiles where a chain begins with YUV to RGB as yuv_rgb.h does it.
#ifndef GWB_KERNEL_PIPE_QUICK_H
#define GWB_KERNEL_PIPE_QUICK_H

#include "yuv_rgb.h"

// gwb_tile_samples and gwb_tile_pixels (pipe_tile.h) of gwb_tile_source.
#define GWB_TILE_QUICK(KIND, SHAPE, LEFT, ALPHA) \
    typedef gwb_yuv_rgb_samples gwb_tile_samples; \
    GWB_FN void gwb_tile_begin(GWB_PIPE_PARAMS, gwb_tile_samples *samples) \
    { \
        const gwb_yuv_rgb s = gwb_tile_source(g); \
        gwb_yuv_rgb_load(&s, KIND, SHAPE, LEFT, GWB_TILES, GWB_TILE_ROWS, x, y, samples); \
    } \
    GWB_FN void gwb_tile_pixels(GWB_PIPE_PARAMS, const gwb_tile_samples *samples, int row, gwb_px p[GWB_TILE_H][GWB_TILES]) \
    { \
        const gwb_yuv_rgb s = gwb_tile_source(g); \
        GWB_UNROLL \
        for (int r = 0; r < GWB_TILE_H; r++) { \
            float rgb[3][8]; \
            gwb_yuv_rgb_row(&s, KIND, SHAPE, LEFT, GWB_TILES, samples, row + r, rgb); \
            GWB_UNROLL \
            for (int i = 0; i < GWB_TILES; i++) { \
                p[r][i].c[0] = rgb[0][i]; \
                p[r][i].c[1] = rgb[1][i]; \
                p[r][i].c[2] = rgb[2][i]; \
                p[r][i].c[3] = ALPHA; \
            } \
        } \
    }

#endif
