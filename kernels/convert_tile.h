// SPDX-License-Identifier: MIT
// The conversions that everybody uses, four pixels of two rows at a time with vector loads and stores: cuda's fast way. The arithmetic of each
// sample is that of convert.h, in the same order, so that both give the same bits; src/convert_plan.c says which conversions come here. What is
// left of a picture at its right and lower edge goes through convert.h.
#ifndef GWB_KERNEL_CONVERT_TILE_H
#define GWB_KERNEL_CONVERT_TILE_H

#include "convert.h"
#include "run.h"

// A component of a tile: four pixels of each row.
typedef struct gwb_tile {
    float c[4][2][4];
} gwb_tile;

// ---- rows of four pixels

// Four pixels of `lanes` interleaved samples each; `s` is any of the components.
GWB_FN void gwb_load_pixels(int kind, int lanes, const gwb_samples *s, int x, int y, float v[16])
{
    const int size = gwb_kind_size(kind);
    const uint8_t *p = s->data - (lanes > 1 ? s->lane * size : 0) + y * s->step + (int64_t)x * lanes * size;
    GWB_UNROLL
    for (int i = 0; i < lanes; i++)
        gwb_load_run(kind, 4, p + i * 4 * size, s->shift, s->mask, v + 4 * i);
}

GWB_FN void gwb_store_pixels(int kind, int lanes, const gwb_samples *d, int x, int y, float limit, const float v[16])
{
    const int size = gwb_kind_size(kind);
    uint8_t *p = d->data - (lanes > 1 ? d->lane * size : 0) + y * d->step + (int64_t)x * lanes * size;
    GWB_UNROLL
    for (int i = 0; i < lanes; i++)
        gwb_store_run(kind, 4, p + i * 4 * size, d->shift, limit, v + 4 * i);
}

// One of a pixel's samples; `lane` is known at run time only, and the array stays in registers.
GWB_FN float gwb_pick(const float *v, int lanes, int lane)
{
    const float low = lane & 1 ? v[1] : v[0], high = lanes == 4 && lane & 1 ? v[3] : v[2];
    return lane & 2 ? high : low;
}

// The four pixels of row y into row r of the tile.
GWB_FN void gwb_load_interleaved(int kind, int lanes, const gwb_convert_args *a, int x, int y, int r, gwb_tile *t)
{
    float v[16];
    gwb_load_pixels(kind, lanes, &a->src[0], x, y, v);
    GWB_UNROLL
    for (int k = 0; k < 4; k++) {
        GWB_UNROLL
        for (int i = 0; i < 3; i++)
            t->c[i][r][k] = gwb_pick(v + k * lanes, lanes, a->src[i].lane);
        if (lanes == 4)
            t->c[3][r][k] = gwb_pick(v + k * lanes, lanes, a->src[3].lane);
    }
}

GWB_FN void gwb_store_interleaved(int kind, int lanes, const gwb_convert_args *a, int x, int y, int r, const gwb_tile *t)
{
    float v[16];
    GWB_UNROLL
    for (int k = 0; k < 4; k++)
        GWB_UNROLL
        for (int lane = 0; lane < lanes; lane++) {
            float value = lanes == 4 ? t->c[3][r][k] : 0.0f;
            GWB_UNROLL
            for (int i = 0; i < 3; i++)
                value = a->dst[i].lane == lane ? t->c[i][r][k] : value;
            v[k * lanes + lane] = value;
        }
    gwb_store_pixels(kind, lanes, &a->dst[0], x, y, a->limit[0], v);
}

// ---- 4:2:0 chroma

// Chroma samples x - 1 .. x + 2 of row y, in columns 0..3 of u and v. `edges`: bit 0 column 0 is wanted, bit 1 column 3.
GWB_FN void gwb_load_chroma(int kind, int pairs, const gwb_convert_args *a, int x, int y, int edges, float u[4], float v[4])
{
    const gwb_samples *s = &a->src[1], *t = &a->src[2];
    const int size = gwb_kind_size(kind), last = a->up_x.last, pitch = pairs ? 2 * size : size;
    const uint8_t *su = s->data + y * s->step, *sv = t->data + y * t->step;
    if (pairs) {
        float both[4];
        const int swapped = s->lane;
        gwb_load_run(kind, 4, su - swapped * size + (int64_t)x * pitch, s->shift, s->mask, both);
        u[1] = swapped ? both[1] : both[0], v[1] = swapped ? both[0] : both[1];
        u[2] = swapped ? both[3] : both[2], v[2] = swapped ? both[2] : both[3];
    } else {
        gwb_load_run(kind, 2, su + (int64_t)x * pitch, s->shift, s->mask, u + 1);
        gwb_load_run(kind, 2, sv + (int64_t)x * pitch, t->shift, t->mask, v + 1);
    }
    u[0] = u[1], v[0] = v[1], u[3] = u[2], v[3] = v[2];
    if (edges & 1) {
        const int before = gwb_clamp(x - 1, last);
        u[0] = gwb_load_sample(kind, su, before, pitch, 0, s->shift, s->mask);
        v[0] = gwb_load_sample(kind, sv, before, pitch, 0, t->shift, t->mask);
    }
    if (edges & 2) {
        const int behind = gwb_clamp(x + 2, last);
        u[3] = gwb_load_sample(kind, su, behind, pitch, 0, s->shift, s->mask);
        v[3] = gwb_load_sample(kind, sv, behind, pitch, 0, t->shift, t->mask);
    }
}

// One component at the four pixels of a row, from the chroma rows above and below it: first down each column, then along the row.
GWB_FN void gwb_enlarge(const gwb_taps *tx, const float *wy, const float above[4], const float below[4], float out[4])
{
    float column[4];
    GWB_UNROLL
    for (int k = 0; k < 4; k++)
        column[k] = wy[0] * above[k] + wy[1] * below[k];
    const int before = tx->base[0] < 0;
    GWB_UNROLL
    for (int k = 0; k < 2; k++) {
        const float first = before ? column[k] : column[k + 1], second = before ? column[k + 1] : column[k + 2];
        out[2 * k] = tx->weight[0][0] * first + tx->weight[0][1] * second;
        out[2 * k + 1] = tx->weight[1][0] * column[k + 1] + tx->weight[1][1] * column[k + 2];
    }
}

// U and V of the tile at (x, y), both even, resampled to pixels. Where there is one tap the second weight is 0, and its sample any.
GWB_FN void gwb_load_420(int kind, int pairs, const gwb_convert_args *a, int x, int y, gwb_tile *t)
{
    const gwb_taps *tx = &a->up_x, *ty = &a->up_y;
    const int edges = (tx->base[0] < 0 ? 1 : 0) | (tx->count == 2 ? 2 : 0), row = y >> 1;
    float u[3][4], v[3][4];     // of the rows above, at and below
    gwb_load_chroma(kind, pairs, a, x >> 1, row, edges, u[1], v[1]);
    if (ty->count == 2)
        gwb_load_chroma(kind, pairs, a, x >> 1, gwb_clamp(row + 1, ty->last), edges, u[2], v[2]);
    else
        GWB_UNROLL
        for (int k = 0; k < 4; k++)
            u[2][k] = u[1][k], v[2][k] = v[1][k];
    if (ty->base[0] < 0) {
        gwb_load_chroma(kind, pairs, a, x >> 1, gwb_clamp(row - 1, ty->last), edges, u[0], v[0]);
        gwb_enlarge(tx, ty->weight[0], u[0], u[1], t->c[1][0]);
        gwb_enlarge(tx, ty->weight[0], v[0], v[1], t->c[2][0]);
    } else {
        gwb_enlarge(tx, ty->weight[0], u[1], u[2], t->c[1][0]);
        gwb_enlarge(tx, ty->weight[0], v[1], v[2], t->c[2][0]);
    }
    gwb_enlarge(tx, ty->weight[1], u[1], u[2], t->c[1][1]);
    gwb_enlarge(tx, ty->weight[1], v[1], v[2], t->c[2][1]);
}

// ---- whole tiles

GWB_FN void gwb_tile_load(int kind, int shape, const gwb_convert_args *a, int needs, int x, int y, gwb_tile *t)
{
    GWB_UNROLL
    for (int r = 0; r < 2; r++) {
        if (shape == GWB_SHAPE_3) {
            gwb_load_interleaved(kind, 3, a, x, y + r, r, t);
        } else if (shape == GWB_SHAPE_4) {
            gwb_load_interleaved(kind, 4, a, x, y + r, r, t);
        } else {
            GWB_UNROLL
            for (int i = 0; i < 3; i++)
                if (needs >> i & 1 && (i == 0 || shape == GWB_SHAPE_PLANES))
                    gwb_load_pixels(kind, 1, &a->src[i], x, y + r, t->c[i][r]);
        }
    }
    if (kind > GWB_SAMPLE_U16 || !(needs & 6))
        return;
    if (shape == GWB_SHAPE_420_PAIRS)
        gwb_load_420(kind, 1, a, x, y, t);
    else if (shape == GWB_SHAPE_420)
        gwb_load_420(kind, 0, a, x, y, t);
}

// The source's components at the destination's two chroma samples of the tile.
GWB_FN void gwb_tile_chroma(int kind, int shape, const gwb_convert_args *a, const gwb_tile *t, int x, int y, float c[3][2])
{
    const gwb_taps *tx = &a->down_x, *ty = &a->down_y;
    const int needs = a->chroma_needs;
    if (!needs)
        return;
    if (kind <= GWB_SAMPLE_U16 && (shape == GWB_SHAPE_420 || shape == GWB_SHAPE_420_PAIRS)) {    // from sample to sample
        float u[4], v[4];
        if (shape == GWB_SHAPE_420)
            gwb_load_chroma(kind, 0, a, x >> 1, y >> 1, 0, u, v);
        else
            gwb_load_chroma(kind, 1, a, x >> 1, y >> 1, 0, u, v);
        c[1][0] = u[1], c[1][1] = u[2], c[2][0] = v[1], c[2][1] = v[2];
        return;
    }
    GWB_UNROLL
    for (int i = 0; i < 3; i++) {
        if (!(needs >> i & 1))
            continue;
        float column[5];        // of the pixels x - 1 .. x + 3
        GWB_UNROLL
        for (int k = 0; k < 4; k++)
            column[k + 1] = ty->count == 2 ? ty->weight[0][0] * t->c[i][0][k] + ty->weight[0][1] * t->c[i][1][k] : ty->weight[0][0] * t->c[i][0][k];
        column[0] = 0.0f;
        if (tx->base[0] < 0) {
            const int before = gwb_clamp(x - 1, tx->last);
            column[0] = ty->weight[0][0] * gwb_sample_at(kind, &a->src[i], before, y);
            if (ty->count == 2)
                column[0] = column[0] + ty->weight[0][1] * gwb_sample_at(kind, &a->src[i], before, y + 1);
        }
        const float *w = tx->weight[0];
        GWB_UNROLL
        for (int j = 0; j < 2; j++) {
            const float a0 = column[2 * j], a1 = column[2 * j + 1], a2 = column[2 * j + 2];
            c[i][j] = tx->base[0] < 0 ? (w[0] * a0 + w[1] * a1) + w[2] * a2 : tx->count == 2 ? w[0] * a1 + w[1] * a2 : w[0] * a1;
        }
    }
}

GWB_FN void gwb_tile_store_chroma(int kind, int shape, const gwb_convert_args *a, int x, int y, float d[3][2])
{
    const gwb_samples *u = &a->dst[1], *v = &a->dst[2];
    const int size = gwb_kind_size(kind), swapped = u->lane;
    uint8_t *pu = u->data + y * u->step, *pv = v->data + y * v->step;
    if (shape == GWB_SHAPE_420_PAIRS) {
        const float both[4] = {swapped ? d[2][0] : d[1][0], swapped ? d[1][0] : d[2][0], swapped ? d[2][1] : d[1][1], swapped ? d[1][1] : d[2][1]};
        gwb_store_run(kind, 4, pu - swapped * size + (int64_t)x * 2 * size, u->shift, a->limit[1], both);
    } else {
        gwb_store_run(kind, 2, pu + (int64_t)x * size, u->shift, a->limit[1], d[1]);
        gwb_store_run(kind, 2, pv + (int64_t)x * size, v->shift, a->limit[2], d[2]);
    }
}

GWB_FN float gwb_tile_mix(const gwb_convert_args *a, int i, const float *c)
{
    return a->mix.diagonal ? gwb_mix_diagonal(&a->mix, i, c[i]) : gwb_mix_one(&a->mix, i, c[0], c[1], c[2]);
}

GWB_FN void gwb_tile_store(int kind, int shape, const gwb_convert_args *a, int x, int y, const gwb_tile *d)
{
    GWB_UNROLL
    for (int r = 0; r < 2; r++) {
        if (shape == GWB_SHAPE_3) {
            gwb_store_interleaved(kind, 3, a, x, y + r, r, d);
        } else if (shape == GWB_SHAPE_4) {
            gwb_store_interleaved(kind, 4, a, x, y + r, r, d);
        } else {
            GWB_UNROLL
            for (int i = 0; i < 3; i++)
                if (i == 0 || shape == GWB_SHAPE_PLANES)
                    gwb_store_pixels(kind, 1, &a->dst[i], x, y + r, a->limit[i], d->c[i][r]);
        }
    }
}

// A statement for one kind, which it sees as the constant K.
#define GWB_EACH_KIND(kind, ...) \
    switch (kind) { \
    case GWB_SAMPLE_U8: { const int K = GWB_SAMPLE_U8; __VA_ARGS__ break; } \
    case GWB_SAMPLE_U16: { const int K = GWB_SAMPLE_U16; __VA_ARGS__ break; } \
    case GWB_SAMPLE_F16: { const int K = GWB_SAMPLE_F16; __VA_ARGS__ break; } \
    default: { const int K = GWB_SAMPLE_F32; __VA_ARGS__ break; } \
    }

// A work item: pixels 4 tx .. 4 tx + 3 of rows 2 ty and 2 ty + 1, where the picture has all of them; rows are counted in bands. The kinds and shapes are
// those of the arguments; the pairs of GWB_TILES (list.h) have a kernel each, in which they are constants.
GWB_FN void gwb_convert_tile_at(const gwb_convert_args *a, int src_kind, int src_shape, int dst_kind, int dst_shape, int tx, int y_in_band, int band)
{
    const int ty = band * GWB_BAND + y_in_band, x = tx * GWB_TILE_W, y = ty * GWB_TILE_H;
    if (a->width - x < GWB_TILE_W || a->height - y < GWB_TILE_H)
        return;
    const int sub = dst_shape == GWB_SHAPE_420 || dst_shape == GWB_SHAPE_420_PAIRS;
    const int from_sub = src_shape == GWB_SHAPE_420 || src_shape == GWB_SHAPE_420_PAIRS;
    gwb_tile t;
    float chroma[3][2];
    GWB_UNROLL
    for (int i = 0; i < 3; i++)
        chroma[i][0] = chroma[i][1] = a->mix.from[i];
    GWB_EACH_KIND(src_kind,
        gwb_tile_load(K, src_shape, a, a->luma_needs | (sub && !from_sub ? a->chroma_needs : 0), x, y, &t);
        if (sub)
            gwb_tile_chroma(K, src_shape, a, &t, x, y, chroma);
    )
    gwb_tile d;
    GWB_UNROLL
    for (int k = 0; k < 8; k++) {
        const int r = k / 4, j = k % 4;
        float c[3];
        GWB_UNROLL
        for (int i = 0; i < 3; i++)
            c[i] = a->luma_needs >> i & 1 ? t.c[i][r][j] : a->mix.from[i];
        GWB_UNROLL
        for (int i = 0; i < 3; i++)
            d.c[i][r][j] = gwb_tile_mix(a, i, c);
        d.c[3][r][j] = src_shape == GWB_SHAPE_4 && a->alpha_scale != 0.0f ? t.c[3][r][j] * a->alpha_scale : a->alpha_fill;
    }
    float dc[3][2];
    GWB_UNROLL
    for (int k = 0; k < 2; k++) {
        const float c[3] = {chroma[0][k], chroma[1][k], chroma[2][k]};
        dc[1][k] = gwb_tile_mix(a, 1, c);
        dc[2][k] = gwb_tile_mix(a, 2, c);
    }
    GWB_EACH_KIND(dst_kind,
        gwb_tile_store(K, dst_shape, a, x, y, &d);
        if (sub && K <= GWB_SAMPLE_U16)
            gwb_tile_store_chroma(K, dst_shape, a, x >> 1, ty, dc);
    )
}

GWB_FN void gwb_convert_tile_item(const gwb_convert_args *a, int tx, int y, int band)
{
    gwb_convert_tile_at(a, a->src_kind, a->src_shape, a->dst_kind, a->dst_shape, tx, y, band);
}

#endif
