// SPDX-License-Identifier: MIT
// The arguments of a pipeline's pass: what src/pipe_plan.c works out, and the generated kernels and the host read.
#ifndef GWB_PIPE_ARGS_H
#define GWB_PIPE_ARGS_H

#include "convert_args.h"

enum {
    GWB_PIPE_STAGES = 12,       // stages with numbers in a pass
    GWB_PIPE_MOVES = 8,         // links that ask for a size or a place
    GWB_PIPE_FEW = 64           // pictures of a batch that travel with the launch; more lie in device memory
};

// How one side of a pass lies in memory. Components are R G B A or Y U V A; k-th number: of component k. Known when the kernel is written.
typedef struct gwb_pipe_side {
    int32_t kind;               // gwb_sample_kind
    int32_t components;         // a bit for each that is there
    int32_t log2_w, log2_h;     // chroma subsampling
    int32_t lanes;              // samples of a pixel in its plane, where all have one plane and whole samples; else 0
    int32_t pairs;              // 1: components 1 and 2 alternate in a plane of their own
    int32_t plane[4];
    int32_t offset[4];          // bytes from the row's begin to the first sample (v210: ten-bit slots)
    int32_t pitch[4];           // bytes from one sample to the next (v210: ten-bit slots)
    int32_t shift[4];           // bits below the value
    int32_t mask[4];            // 2^depth - 1
} gwb_pipe_side;

// The numbers of a stage: which ones it uses is said where it is defined (stages.h).
typedef struct gwb_pipe_stage {
    float f[16];
    int32_t i[8];
    const uint8_t *table;       // f32 tables, or row 0 of another picture
    int64_t step;               // bytes from one row of it to the next
} gwb_pipe_stage;

// What a link depends on that the picture's size decides. `width` and `height` are those of the picture before it.
typedef struct gwb_pipe_move {
    int32_t width, height;      // pixels, at least 1
    int32_t m[4];               // move: x' = m[0] * x + m[1] * y + at[0], y' = m[2] * x + m[3] * y + at[1]
    int32_t at[2];
    int64_t scale[2];           // resize: 32.32 fixed point, source pixels a pixel; nearest: of half pixels
    int64_t offset[2];          // the source position of pixel 0; nearest: the result's size
    const uint8_t *table;       // weights along one axis: row 0 the first tap of each output, then a row a tap
    int32_t step;               // bytes from one row of it to the next
    int32_t taps;
} gwb_pipe_move;

// All that follows from the size of a picture.
typedef struct gwb_pipe_shape {
    int32_t width, height;      // of the result
    int32_t src_width, src_height;
    gwb_pipe_move move[GWB_PIPE_MOVES];
} gwb_pipe_shape;

// gwb_pipe_item.flags
enum {
    GWB_PIPE_TILES = 1,         // addresses and places allow the loads and stores of whole tiles
    GWB_PIPE_GRID = 2           // the crop keeps to the chroma samples of both sides
};

// One picture.
typedef struct gwb_pipe_item {
    uint8_t *src[4], *dst[4];   // first byte of row 0 of each plane
    int32_t src_step[4], dst_step[4];   // bytes
    int32_t at[2];              // of the crop that the pass begins with
    int32_t shape;              // position in the launch's list of shapes
    int32_t flags;
} gwb_pipe_item;

#endif
