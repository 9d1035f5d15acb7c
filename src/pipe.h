// SPDX-License-Identifier: MIT
// Pipelines inside: a chain of steps becomes passes, a pass is links over one source; src/pipe_text.c writes it as a kernel, src/host/pipe.c runs it.
#ifndef GWB_PIPE_H
#define GWB_PIPE_H

#include "convert.h"
#include "ops.h"

#include "pipe_args.h"

// The functions of kernels/stages.h that change a pixel: gwb_stage_NAME.
#define GWB_PIPE_VALUES(_) _(mix) _(scale) _(clamp) _(abs) _(threshold) _(pow) _(swizzle) _(lut) _(lut3d) _(blend)

typedef enum gwb_link_kind {
    GWB_LINK_VALUE, GWB_LINK_MOVE, GWB_LINK_NEAREST, GWB_LINK_BILINEAR, GWB_LINK_CUBIC, GWB_LINK_TABLE_X, GWB_LINK_TABLE_Y, GWB_LINK_PAD,
    GWB_LINK_WARP, GWB_LINK_REMAP
} gwb_link_kind;

#define GWB_PIPE_VALUE_ID(name) GWB_PIPE_VALUE_##name,
enum { GWB_PIPE_VALUES(GWB_PIPE_VALUE_ID) GWB_PIPE_VALUE_COUNT };
#undef GWB_PIPE_VALUE_ID

typedef struct gwb_link {
    int kind;           // gwb_link_kind
    int value;          // GWB_PIPE_VALUE_name
    int k;              // its args.stage
    int m;              // its item.move
} gwb_link;

enum { GWB_PIPE_LINKS = 16, GWB_PIPE_PASSES = 4, GWB_PIPE_TABLES = 16 };

// One launch: reads pictures of one kind, writes pictures of one kind.
typedef struct gwb_pass {
    gwb_pipe_args args;
    gwb_pipe_item item;         // all but the pointers and steps
    gwb_link link[GWB_PIPE_LINKS];
    int links;
    int src_components, dst_components;     // a bit each
    int32_t width, height;      // of the result
    int channels;               // of an intermediate result, which is interleaved f32; 0: this is the last pass
    int nx, ny;                 // blocks of the result
    void *kernel[2];            // on cuda: one picture, a batch; found on first use
} gwb_pass;

typedef struct gwb_plan {
    gwb_image src;              // what it was made for, planes aside
    int device;
    unsigned epoch;             // of the device: tables and kernels of an older one went with its context
    int32_t crop[4];            // the region of the source that it was made for; width 0: all
    gwb_pass pass[GWB_PIPE_PASSES];
    int passes;
    gwb_pipe_plan out;
    gwb_mat table[GWB_PIPE_TABLES];     // on the device
    int tables;
} gwb_plan;

struct gwb_pipe {
    gwb_pipe_step *step;
    gwb_mat *operand;           // one a step, holding what the step borrowed; closed where there is none
    int steps;
    gwb_plan *plan;             // the last one; NULL before the first
    char *text;                 // of gwb_pipe_text
};

// Makes the plan for a source, of which planes[0] gives the device, and a region of it (NULL: all). The plan's tables are to be closed.
int gwb_pipe_make_plan(const gwb_pipe *pipe, const gwb_image *src, const int32_t *crop, gwb_plan *plan);
void gwb_pipe_free_plan(gwb_plan *plan);

// Samples of one component of planes in memory: the pointers of an item.
void gwb_pipe_source_item(const gwb_image *src, gwb_pipe_item *item);
void gwb_pipe_plain_item(gwb_mat *const *planes, int channels, bool planar, uint8_t **data, int64_t *step);

// The CUDA C of a pass; the caller frees it. NULL without memory.
char *gwb_pipe_write(const gwb_pass *pass, bool batch);

// src/host/pipe.c and src/cuda/pipe.c: enqueue one pass over `count` items; `more` is the items in device memory (cuda, count > 1).
int gwb_host_pipe(gwb_queue *q, const gwb_pass *pass, const gwb_pipe_item *items, int count);
int gwb_cuda_pipe(gwb_queue *q, gwb_pass *pass, const gwb_pipe_item *items, const gwb_pipe_item *more, int count);

#endif
