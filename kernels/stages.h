// SPDX-License-Identifier: MIT
// What each stage of a pipeline does to a pixel: the definition, on every device. A pixel has four components (R G B A, Y U V A, or the channels of
// a mat) in the codes of its format. gwb_stage_NAME changes the values; gwb_at_NAME says where a stage that moves pixels looks.
#ifndef GWB_KERNEL_STAGES_H
#define GWB_KERNEL_STAGES_H

#include "colour.h"
#include "load.h"
#include "pipe_args.h"
#include "power.h"

typedef struct gwb_px {
    float c[4];
} gwb_px;

// ---- values

// f: m[3][3], from[3], to[3]. Alpha is multiplied by f[15] where i[0] is 1, else it becomes f[15].
GWB_FN gwb_px gwb_stage_mix(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    gwb_px r;
    for (int k = 0; k < 3; k++) {
        const float a = s->f[3 * k] * (p.c[0] - s->f[9]);
        r.c[k] = gwb_fma(s->f[3 * k + 2], p.c[2] - s->f[11], gwb_fma(s->f[3 * k + 1], p.c[1] - s->f[10], a)) + s->f[12 + k];
    }
    r.c[3] = s->i[0] ? p.c[3] * s->f[15] : s->f[15];
    return r;
}

// The same where m[0][1] and m[2][2] are zero, as from Y, U, V to R, G, B: products with them change no sum.
GWB_FN gwb_px gwb_stage_yuv(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    const float l = p.c[0] - s->f[9], u = p.c[1] - s->f[10], v = p.c[2] - s->f[11];
    gwb_px r;
    r.c[0] = gwb_fma(s->f[2], v, s->f[0] * l) + s->f[12];
    r.c[1] = gwb_fma(s->f[5], v, gwb_fma(s->f[4], u, s->f[3] * l)) + s->f[13];
    r.c[2] = gwb_fma(s->f[7], u, s->f[6] * l) + s->f[14];
    r.c[3] = s->i[0] ? p.c[3] * s->f[15] : s->f[15];
    return r;
}

// The same where only the diagonal of m counts.
GWB_FN gwb_px gwb_stage_diagonal(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    gwb_px r;
    for (int k = 0; k < 3; k++)
        r.c[k] = s->f[4 * k] * (p.c[k] - s->f[9 + k]) + s->f[12 + k];
    r.c[3] = s->i[0] ? p.c[3] * s->f[15] : s->f[15];
    return r;
}

// c * f[k] + f[4 + k]
GWB_FN gwb_px gwb_stage_scale(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    gwb_px r;
    for (int k = 0; k < 4; k++)
        r.c[k] = gwb_fma(p.c[k], s->f[k], s->f[4 + k]);
    return r;
}

// into f[k] .. f[4 + k]; NaN becomes f[k]
GWB_FN gwb_px gwb_stage_clamp(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    gwb_px r;
    for (int k = 0; k < 4; k++) {
        const float v = p.c[k] > s->f[k] ? p.c[k] : s->f[k];
        r.c[k] = v < s->f[4 + k] ? v : s->f[4 + k];
    }
    return r;
}

GWB_FN gwb_px gwb_stage_abs(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)s, (void)x, (void)y;
    gwb_px r;
    for (int k = 0; k < 4; k++)
        r.c[k] = k < s->i[0] ? gwb_float_from_bits(gwb_float_bits(p.c[k]) & 0x7fffffff) : p.c[k];
    return r;
}

// f[5] where c > f[k], else f[4], for the first i[0] components
GWB_FN gwb_px gwb_stage_threshold(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    gwb_px r;
    for (int k = 0; k < 4; k++)
        r.c[k] = k >= s->i[0] ? p.c[k] : p.c[k] > s->f[k] ? s->f[5] : s->f[4];
    return r;
}

// f[4] * (c / f[4]) ^ f[k] for the first i[0] components
GWB_FN gwb_px gwb_stage_pow(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    gwb_px r;
    for (int k = 0; k < 4; k++)
        r.c[k] = k < s->i[0] ? s->f[4] * gwb_pow(p.c[k] / s->f[4], s->f[k]) : p.c[k];
    return r;
}

// Component k is component i[k] of the pixel; 4 is f[0], 5 is f[1].
GWB_FN gwb_px gwb_stage_swizzle(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    gwb_px r;
    for (int k = 0; k < 4; k++) {
        const int from = s->i[k];
        r.c[k] = from == 0 ? p.c[0] : from == 1 ? p.c[1] : from == 2 ? p.c[2] : from == 3 ? p.c[3] : from == 4 ? s->f[0] : s->f[1];
    }
    return r;
}

// A table of i[1] numbers a channel, over f[0] .. f[1], linear between them; one channel of it for all where i[2] is 1. The first i[0] components.
GWB_FN gwb_px gwb_stage_lut(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    gwb_px r = p;
    const float last = (float)(s->i[1] - 1);
    for (int k = 0; k < 4; k++) {
        if (k >= s->i[0])
            continue;
        float t = (p.c[k] - s->f[0]) * s->f[2];
        t = t > 0.0f ? t : 0.0f;
        t = t < last ? t : last;
        const int at = (int)t, next = at + 1 < s->i[1] ? at + 1 : at;
        const float *table = (const float *)(s->table + (s->i[2] == 1 ? 0 : k) * s->step);
        r.c[k] = table[at] + (table[next] - table[at]) * (t - (float)at);
    }
    return r;
}

// A cube of i[0]^3 colours, red running fastest, over f[0..2] .. with f[3..5] steps a unit; trilinear.
GWB_FN gwb_px gwb_stage_lut3d(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    (void)x, (void)y;
    gwb_px r = p;
    const int n = s->i[0];
    int at[3], next[3];
    float t[3];
    for (int k = 0; k < 3; k++) {
        float v = (p.c[k] - s->f[k]) * s->f[3 + k];
        v = v > 0.0f ? v : 0.0f;
        v = v < (float)(n - 1) ? v : (float)(n - 1);
        at[k] = (int)v;
        next[k] = at[k] + 1 < n ? at[k] + 1 : at[k];
        t[k] = v - (float)at[k];
    }
    const float *table = (const float *)s->table;
    for (int k = 0; k < 3; k++) {
        float plane[2];
        for (int z = 0; z < 2; z++) {
            const int64_t bz = (int64_t)(z ? next[2] : at[2]) * n;
            const float *r0 = table + ((bz + at[1]) * n) * 3 + k, *r1 = table + ((bz + next[1]) * n) * 3 + k;
            const float a = r0[3 * at[0]] + (r0[3 * next[0]] - r0[3 * at[0]]) * t[0];
            const float b = r1[3 * at[0]] + (r1[3 * next[0]] - r1[3 * at[0]]) * t[0];
            plane[z] = a + (b - a) * t[1];
        }
        r.c[k] = plane[0] + (plane[1] - plane[0]) * t[2];
    }
    return r;
}

// Another picture of the same size: i[0] channels of sample kind i[1], i[5] of them colours, alpha channel i[3] (negative: none). i[2]: 0 over, by its
// alpha, 1 add, 2 multiply. i[4] colours of this picture, i[6]: 1 where it has alpha. f[0]: opacity; f[1]: 1 / f[2], the largest code.
GWB_FN gwb_px gwb_stage_blend(const gwb_pipe_stage *s, gwb_px p, int x, int y)
{
    gwb_px r = p;
    const uint8_t *row = s->table + y * s->step;
    const int size = s->i[1] == GWB_SAMPLE_U8 ? 1 : s->i[1] == GWB_SAMPLE_F32 ? 4 : 2;
    const int mask = s->i[1] == GWB_SAMPLE_U8 ? 255 : 65535, pitch = size * s->i[0];
    float alpha = s->f[0], below = 1.0f, both = 1.0f;
    if (s->i[2] == 0 && s->i[3] >= 0)
        alpha = alpha * (gwb_load_sample(s->i[1], row + s->i[3] * size, x, pitch, 0, 0, mask) * s->f[1]);
    if (s->i[2] == 0 && s->i[6]) {      // over a picture that is not opaque itself: what is left of it, and both together
        below = (p.c[3] * s->f[1]) * (1.0f - alpha);
        both = alpha + below;
        r.c[3] = both * s->f[2];
    }
    for (int k = 0; k < 3; k++) {
        if (k >= s->i[4])
            continue;
        const float v = gwb_load_sample(s->i[1], row + (k < s->i[5] ? k : 0) * size, x, pitch, 0, 0, mask);
        if (s->i[2] == 1)
            r.c[k] = p.c[k] + v * alpha;
        else if (s->i[2] == 2)
            r.c[k] = p.c[k] + (p.c[k] * (v * s->f[1]) - p.c[k]) * alpha;
        else if (s->i[6])
            r.c[k] = both > 0.0f ? (v * alpha + p.c[k] * below) / both : p.c[k];
        else
            r.c[k] = p.c[k] + (v - p.c[k]) * alpha;
    }
    return r;
}

// ---- places. Each gives the position in the picture before the stage, inside it.

// crop, flip, rotate, transpose
GWB_FN void gwb_at_move(const gwb_pipe_move *m, int x, int y, int *sx, int *sy)
{
    *sx = m->m[0] * x + m->m[1] * y + m->at[0];
    *sy = m->m[2] * x + m->m[3] * y + m->at[1];
}

// resize to the nearest: floor((2x + 1) * source / (2 * size)), exactly. The fixed-point estimate is that number or one less.
GWB_FN int gwb_at_nearest(const gwb_pipe_move *m, int axis, int x)
{
    const int64_t half = 2 * (int64_t)x + 1, last = (half * m->scale[axis]) >> 32;
    return (int)(last + ((last + 1) * (2 * m->offset[axis]) <= half * (axis ? m->height : m->width)));
}

// resize by lines between pixel centres: taps *a and *b, which are inside, and the share of *b
GWB_FN float gwb_at_linear(const gwb_pipe_move *m, int axis, int x, int *a, int *b)
{
    const int64_t at = m->offset[axis] + m->scale[axis] * x;
    const int last = (axis ? m->height : m->width) - 1, i = (int)(at >> 32);
    *a = i < 0 ? 0 : i > last ? last : i;
    *b = i + 1 < 0 ? 0 : i + 1 > last ? last : i + 1;
    return (float)(uint32_t)at * 0x1p-32f;
}

// the same for four taps, of which the first is *first
GWB_FN float gwb_at_cubic(const gwb_pipe_move *m, int axis, int x, int *first)
{
    const int64_t at = m->offset[axis] + m->scale[axis] * x;
    *first = (int)(at >> 32) - 1;
    return (float)(uint32_t)at * 0x1p-32f;
}

GWB_FN gwb_px gwb_between(gwb_px p, gwb_px q, float t)
{
    gwb_px r;
    for (int k = 0; k < 4; k++)
        r.c[k] = gwb_fma(q.c[k] - p.c[k], t, p.c[k]);
    return r;
}

// Weights of a cubic with parameter a at distance t behind tap 1 of four.
GWB_FN void gwb_cubic(float a, float t, float *w)
{
    const float u = 1.0f - t;
    w[0] = ((a * u) * t) * u;
    w[1] = ((a + 2.0f) * t - (a + 3.0f)) * t * t + 1.0f;
    w[2] = ((a + 2.0f) * u - (a + 3.0f)) * u * u + 1.0f;
    w[3] = ((a * t) * u) * t;
}

// pad, warp, remap: 1 where `v` of 0 .. n-1 counts as inside; *to is where the border mode looks: 0 value (0 outside), 1 edge, 2 reflect, 3 wrap
GWB_FN int gwb_border(int mode, int v, int n, int *to)
{
    int inside = v >= 0 && v < n;
    if (mode == 2 && !inside) {
        const int period = n > 1 ? 2 * n - 2 : 1;
        int r = v % period;
        r = r < 0 ? r + period : r;
        v = r < n ? r : period - r;
    } else if (mode == 3 && !inside) {
        v = v % n;
        v = v < 0 ? v + n : v;
    }
    *to = v < 0 ? 0 : v >= n ? n - 1 : v;
    return mode != 0 || inside;
}

// what pad, warp and remap put where they look outside
GWB_FN gwb_px gwb_stage_border(const gwb_pipe_stage *s)
{
    gwb_px p = {{s->f[12], s->f[13], s->f[14], s->f[15]}};
    return p;
}

// affine and perspective: f[0..8], row by row, on pixel corners
GWB_FN void gwb_at_warp(const gwb_pipe_stage *s, int x, int y, float *sx, float *sy)
{
    const double u = (double)x + 0.5, v = (double)y + 0.5;
    const double w = ((double)s->f[6] * u + (double)s->f[7] * v) + (double)s->f[8];
    *sx = (float)(((((double)s->f[0] * u + (double)s->f[1] * v) + (double)s->f[2]) / w) - 0.5);
    *sy = (float)(((((double)s->f[3] * u + (double)s->f[4] * v) + (double)s->f[5]) / w) - 0.5);
}

// remap: a two-channel f32 picture of source positions
GWB_FN void gwb_at_remap(const gwb_pipe_stage *s, int x, int y, float *sx, float *sy)
{
    const float *at = (const float *)(s->table + y * s->step) + 2 * (int64_t)x;
    *sx = at[0];
    *sy = at[1];
}

// A position between pixels as its first tap and the share of the next; NaN and what is beyond any picture is far outside.
GWB_FN int gwb_floor_tap(float v, float *t)
{
    const float far = 1073741824.0f, c = v > -far ? (v < far ? v : far) : -far, whole = floorf(c);
    *t = c - whole;
    return (int)whole;
}

#endif
