// SPDX-License-Identifier: MIT
// The argument structs of the built-in kernels: plain data, passed by value, the same on every device.
#ifndef GWB_KERNEL_ARGS_H
#define GWB_KERNEL_ARGS_H

#include "convert_args.h"

// Up to four rectangles of bytes in one launch. Items: z is the rectangle, y its row, x the whole row.
typedef struct gwb_copy_rect {
    uint8_t *dst;
    const uint8_t *src;
    int64_t dst_step, src_step;     // bytes
    int64_t width;                  // bytes of a row, at least 1
    int64_t rows;                   // at least 1
    // how the cuda device deals it out (copy.h); the host device does not read these
    uint32_t block;                 // number of its first block; UINT32_MAX where the rectangle is not used
    uint32_t chunks;                // of a row: pieces of 16 bytes; rows * chunks is below 2^31
    uint32_t magic;                 // n / chunks is n * magic >> 32 >> shift
    uint32_t shift;
} gwb_copy_rect;

typedef struct gwb_copy_args {
    gwb_copy_rect rect[4];
} gwb_copy_args;

// Every pixel becomes `pattern`. Items: x pixels, y rows.
typedef struct gwb_fill_args {
    gwb_view dst;
    int32_t elem_size;              // bytes of a pixel, 1..32
    uint8_t pattern[32];
} gwb_fill_args;

// dst = saturate(round(src * scale + offset)), in double. Items: x channels of a row (width * channels), y rows.
typedef struct gwb_cast_args {
    gwb_view dst, src;              // width in channels
    int32_t dst_type, src_type;     // gwb_type
    int32_t round;                  // 0 nearest even, 1 towards zero, 2 down, 3 up
    double scale, offset;
} gwb_cast_args;

// Splits `wide` into `count` planes, or merges them. Items: x pixels, y rows.
typedef struct gwb_channels_args {
    gwb_view wide;                  // interleaved
    gwb_view plane[4];
    int32_t count;                  // channels
    int32_t size;                   // bytes of a channel: 1, 2, 4, 8
    int32_t merge;                  // 1: planes to wide
} gwb_channels_args;

// A number for each tile of each channel (reduce.h). Items on the host: x pixels of a row of tiles, y rows of tiles, z channels; on cuda x is a thread.
typedef struct gwb_reduce_args {
    gwb_view src;
    double *out;                    // tiles_x * tiles_y for each channel
    int32_t type;                   // gwb_type
    int32_t channels;
    int32_t what;                   // gwb_reduction
    int32_t run, rows;              // pixels and rows of a tile
    int32_t tiles_x, tiles_y;
} gwb_reduce_args;

#endif
