// SPDX-License-Identifier: MIT
// The arguments of a pipeline: what src/pipe_plan.c works out, and the generated kernels and the host read.
#ifndef GWB_PIPE_ARGS_H
#define GWB_PIPE_ARGS_H

#include "convert_args.h"

enum { GWB_PIPE_STAGES = 12, GWB_PIPE_MOVES = 4 };

// A number of a value stage: which ones it uses is its row of the stage table (src/ops.h).
typedef struct gwb_pipe_stage {
    float f[16];
    int32_t i[8];
    const uint8_t *table;       // f32 tables, or row 0 of another picture
    int64_t step;               // bytes from one row of it to the next
} gwb_pipe_stage;

// Where a stage that moves pixels looks in the picture before it. `width` and `height` are that picture's.
typedef struct gwb_pipe_move {
    int32_t width, height;      // pixels, at least 1
    int32_t m[4];               // move: x' = m[0] * x + m[1] * y + at[0], y' = m[2] * x + m[3] * y + at[1]
    int32_t at[2];
    int64_t scale[2];           // resize: 32.32 fixed point, source pixels a pixel
    int64_t offset[2];          // and the source position of pixel 0
} gwb_pipe_move;

// One picture of a batch: all that may differ between them.
typedef struct gwb_pipe_item {
    uint8_t *src[4], *dst[4];   // first sample of each component, as in gwb_samples.data
    int64_t src_step[4], dst_step[4];
    int32_t src_width, src_height;
    int32_t pad[2];
    gwb_pipe_move move[GWB_PIPE_MOVES];
} gwb_pipe_item;

typedef struct gwb_pipe_args {
    gwb_convert_args io;        // src: the source's side; dst: the destination's; width, height: the result's. Its pointers are the item's
    gwb_pipe_stage stage[GWB_PIPE_STAGES];
    int32_t items;
    int32_t pad;
    const gwb_pipe_item *more;  // the items where there are too many to pass by value
} gwb_pipe_args;

#endif
