// SPDX-License-Identifier: MIT
// Pipelines inside: a chain of stages becomes passes, a pass is links over one source. src/pipe_plan.c makes the plan for a source,
// src/pipe_text.c writes a pass as a kernel, src/host/pipe.c runs it on the host.
#ifndef GWB_PIPE_H
#define GWB_PIPE_H

#include "convert.h"
#include "ops.h"

#include "pipe_args.h"

#include <pthread.h>

// The functions of kernels/stages.h that change a pixel, gwb_stage_NAME. 1: affine, so that it may run behind a filter as well as before it.
#define GWB_PIPE_VALUES(_) \
    _(mix, 1) _(yuv, 1) _(diagonal, 1) _(scale, 1) _(swizzle, 1) _(clamp, 0) _(abs, 0) _(threshold, 0) _(pow, 0) _(lut, 0) _(lut3d, 0) _(blend, 0)

#define GWB_PIPE_VALUE_ID(name, affine) GWB_PIPE_VALUE_##name,
enum { GWB_PIPE_VALUES(GWB_PIPE_VALUE_ID) GWB_PIPE_VALUE_COUNT };
#undef GWB_PIPE_VALUE_ID

typedef enum gwb_link_kind {
    GWB_LINK_VALUE, GWB_LINK_EXPR, GWB_LINK_CROP, GWB_LINK_MOVE, GWB_LINK_NEAREST, GWB_LINK_BILINEAR, GWB_LINK_CUBIC, GWB_LINK_TABLE_X, GWB_LINK_TABLE_Y,
    GWB_LINK_PAD, GWB_LINK_WARP, GWB_LINK_REMAP
} gwb_link_kind;

typedef struct gwb_link {
    int32_t kind;           // gwb_link_kind
    int32_t value;          // GWB_PIPE_VALUE_name
    int32_t k;              // its stage; -1: none
    int32_t m;              // its move; -1: none
    int32_t first, size;    // expr: its program, in the pass's
} gwb_link;

enum { GWB_PIPE_LINKS = 24, GWB_PIPE_PASSES = 4, GWB_PIPE_TABLES = 16, GWB_PIPE_PROGRAM = 512, GWB_PIPE_PLANS = 16 };

// All that shapes a kernel's text; what is not used is zero, so that two of them compare as bytes.
typedef struct gwb_pipe_code {
    gwb_pipe_side src, dst;
    gwb_taps up_x, up_y;            // source chroma to pixels
    gwb_taps down_x, down_y;        // pixels to the result's chroma
    gwb_taps across_x, across_y;    // source chroma to the result's chroma
    float limit[4];                 // greatest codes of the result
    int32_t word;                   // 1: components of a group share words
    int32_t ones;                   // 1: component 3 of the result is padding
    int32_t group, block_w, block_h;    // pixels (convert_args.h)
    int32_t light;                  // 1: pixels one below the other share much of their work
    int32_t finite;                 // 1: no number of the result, which is f32 or bytes, can be NaN
    int32_t grid;                   // 1: chroma stays on its grid where the crop allows it
    int32_t tiles;                  // pixels of a tile's row, 4 or 8 (pipe_tile.h); 0: it can't be done in tiles
    int32_t quick;                  // gwb_quick: the chain begins with YUV to RGB, which yuv_rgb.h does
    int32_t quick_shape;            // gwb_shape of the source for it
    int32_t quick_numbers;          // the stage whose numbers begin with a gwb_quick_numbers
    int32_t stages, moves, links;   // used
    gwb_link link[GWB_PIPE_LINKS];
    uint8_t program[GWB_PIPE_PROGRAM];  // pairs of gwb_expr_op and number
} gwb_pipe_code;

// A launch: reads pictures of one kind, writes pictures of one kind.
typedef struct gwb_pass {
    gwb_pipe_code code;
    gwb_pipe_stage stage[GWB_PIPE_STAGES];
    gwb_pipe_shape shape;
    int32_t at[2];              // of the crop it begins with, beside the caller's
    int32_t region[2];          // its size
    int32_t channels;           // of an intermediate result, which is interleaved f32; 0: this is the last pass
    void *kernel[3][2];         // on cuda: gwb_pipe_one, _few, _many (pipe_entry.h); without and with wide loads. NULL before the first use
} gwb_pass;

// The region that counts of a source of some size: its place is no part of a plan.
typedef struct gwb_pipe_key {
    gwb_image src;              // planes aside, which are zero
    int32_t device;
    unsigned epoch;             // of the device
    int32_t cropped;            // 1: of width x height
    int32_t width, height;
} gwb_pipe_key;

typedef struct gwb_plan {
    gwb_pipe_key key;
    int64_t used;               // when it was last asked for
    gwb_pass pass[GWB_PIPE_PASSES];
    int passes;
    bool convert;               // the chain is one conversion, or none at all: gwb_convert does that for one picture
    gwb_image from;             // the source with the tags that the chain gave it
    gwb_pipe_plan out;
    gwb_mat table[GWB_PIPE_TABLES];     // on the device
    int tables;
} gwb_plan;

struct gwb_pipe {
    gwb_pipe_step *step;
    gwb_mat *operand;           // one a step, holding what the step borrowed; closed where there is none
    uint8_t **program;          // one a step, or NULL
    int steps;
    pthread_mutex_t lock;       // over what follows; taken before gwb_lock, never within
    gwb_mat *copy;              // one a step: the operand on a device that it does not lie on, where a plan asked for it
    unsigned *copy_epoch;       // of that device
    gwb_plan **plan;            // GWB_PIPE_PLANS at most between calls, the last ones used
    int plans, plan_room;
    int64_t clock;
    char *text;                 // of gwb_pipe_text
};

// src/pipe_plan.c. Makes the plan for a key. gwb_pipe_free_plan must follow, whatever the result; it frees `plan` itself too.
int gwb_pipe_make_plan(gwb_pipe *pipe, const gwb_pipe_key *key, gwb_plan *plan);
void gwb_pipe_free_plan(gwb_plan *plan);

// The operand of a step on a device, copied where it lies on another; NULL with the error set.
const gwb_mat *gwb_pipe_operand_on(gwb_pipe *pipe, int step, int device);

// src/pipe_run.c. The plan for a source and a region of it (NULL: all), kept or new; it stays at least until gwb_pipe_forget_plans. Under pipe->lock.
int gwb_pipe_find_plan(gwb_pipe *pipe, const gwb_image *src, const int32_t *crop, gwb_plan **out);
void gwb_pipe_forget_plans(gwb_pipe *pipe, int keep);   // all but the `keep` that were used last

// src/pipe.c. Adds the bytes that a pass reads of such a source, at most, or of the pass before it, and what it writes.
void gwb_pipe_add_bytes(const gwb_plan *plan, const gwb_image *src, int pass, int64_t *read, int64_t *written);

// src/pipe_text.c. The CUDA C of a pass; the caller frees it. NULL without memory. wide: for pictures whose addresses allow a pixel's samples, or a pair of
// chroma samples, to be moved at once. few: pictures of a batch that travel with the launch.
char *gwb_pipe_write(const gwb_pipe_code *code, bool batch, bool wide, int few);

// Rows of a tile, and pixels, one below the other, that a thread does where neither tiles nor blocks are asked for: of many pictures more, which share work,
// of one picture fewer, since its last threads then end sooner.
int gwb_pipe_tile_rows(const gwb_pipe_code *code, bool batch);
int gwb_pipe_pixel_rows(const gwb_pipe_code *code, bool batch);
// The link behind which the result's chroma is averaged: a conversion at the end comes after that, as i:convert does it.
int gwb_pipe_averaged_link(const gwb_pipe_code *code);
// Whether the source's U and V fit a word together between samples too: then tiles take it.
bool gwb_pipe_packs_chroma(const gwb_pipe_code *code);

// A pass over `count` pictures as the devices run it. All is borrowed for the call.
typedef struct gwb_pipe_launch {
    gwb_pass *pass;
    const gwb_pipe_shape *shapes;   // of which the items name theirs
    const gwb_pipe_item *items;
    int shape_count, count;
    bool batch;                     // asked for as a batch
    bool wide;                      // as for gwb_pipe_write
    int32_t width, height;          // pixels of the largest result
    uint8_t *memory;                // cuda: where the shapes and, behind them, the items lie on the device; NULL: they travel with the launch
} gwb_pipe_launch;

// src/host/pipe.c and src/cuda/pipe.c enqueue a launch.
int gwb_host_pipe(gwb_queue *q, const gwb_pipe_launch *launch);
int gwb_cuda_pipe(gwb_queue *q, const gwb_pipe_launch *launch);
// Finds the kernel that a launch wants, compiled where it was not yet. May take long: not under gwb_lock.
int gwb_cuda_pipe_prepare(gwb_device *dev, const gwb_pipe_launch *launch);
// Whether the launch needs `memory`.
bool gwb_cuda_pipe_needs_memory(const gwb_device *dev, const gwb_pipe_launch *launch);

#endif
