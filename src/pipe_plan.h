// SPDX-License-Identifier: MIT
// Making a plan: the picture as each stage meets it, and what the stages add to a pass.
#ifndef GWB_PIPE_PLAN_H
#define GWB_PIPE_PLAN_H

#include "pipe.h"

// The picture at one point of the chain. Values are the codes of `image`, every component at every pixel.
typedef struct gwb_pipe_state {
    gwb_pipe *pipe;
    gwb_plan *plan;
    gwb_pass *pass;
    gwb_image image;        // format, size and tags
    int channels;           // that carry values, alpha included
    int colours;            // of those, not alpha
    int64_t taps;           // pixels of the source that a pixel of the pass looks at
    int step;               // of the chain, from 0
    int op;
    int had[GWB_PIPE_LINKS];    // components before each link
} gwb_pipe_state;

// Sets the error, with the stage's number and name before it; returns `status`.
int gwb_pipe_fail(const gwb_pipe_state *s, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
void gwb_pipe_set_format(gwb_pipe_state *s, const gwb_image *image);
double gwb_pipe_max_code(const gwb_image *image);
int gwb_pipe_components(const gwb_image *image);    // a bit for each that carries values

// What a new link may run before: nothing, stages that only look at a pixel's values, affine ones of these.
enum { GWB_BEHIND_ALL, GWB_BEFORE_VALUES, GWB_BEFORE_AFFINE };
// Each of these gives NULL, with the error set, where the pass is full. A link of a place comes with its move, any other with its stage.
gwb_link *gwb_pipe_add_link(gwb_pipe_state *s, int kind, int place);
gwb_pipe_stage *gwb_pipe_add_stage(gwb_pipe_state *s, gwb_link *link);
gwb_pipe_move *gwb_pipe_add_move(gwb_pipe_state *s, gwb_link *link);
gwb_pipe_stage *gwb_pipe_add_value(gwb_pipe_state *s, int value);

// A crop that a pass begins with takes its place from the item.
int gwb_pipe_add_crop(gwb_pipe_state *s, int x, int y, int width, int height);
// Ends the pass with an f32 picture, from which the next one reads. Affine stages at its end come after the break.
int gwb_pipe_break(gwb_pipe_state *s);
// Notes that each pixel will look at `taps` pixels before it, which multiplies what those look at; ends the pass where that would be too many.
int gwb_pipe_take_taps(gwb_pipe_state *s, int taps);
// A mat of the plan's on its device.
int gwb_pipe_add_table(gwb_pipe_state *s, const float *data, int32_t width, int32_t height, gwb_mat **out);

// src/pipe_resize.c
int gwb_pipe_add_resize(gwb_pipe_state *s, int width, int height, int filter, bool antialias);
// src/pipe_stages.c
int gwb_pipe_add_step(gwb_pipe_state *s, const gwb_pipe_step *p);

#endif
