// SPDX-License-Identifier: MIT
// 4:2:0 and 4:4:4 to R, G and B, four or eight pixels of two or four rows at a time: the conversions that video asks for most, with as few instructions as it takes,
// since on a GPU those and not the memory bound them. The bits are those of convert.h: chroma of 12 bits or less is resampled exactly, so in whole numbers as
// well as in floats; and a product with a zero of the matrix changes no sum. src/convert_plan.c and src/pipe_plan.c say where it holds.
#ifndef GWB_KERNEL_YUV_RGB_H
#define GWB_KERNEL_YUV_RGB_H

#include "convert.h"
#include "interleave.h"
#include "pairs.h"
#include "run.h"

// A picture, and numbers of its matrix. Shape, kind and siting come beside it as constants, and so do the pixels of a row that are done at once, `w`, 4 or 8,
// and the rows, `h`, 2 or 4.
typedef struct gwb_yuv_rgb {
    const uint8_t *y, *u, *v;   // row 0 of Y, U and V; of pairs: u is the first byte of both
    int32_t y_step, u_step, v_step;     // bytes
    int32_t v_first;            // pairs: V lies before U
    int32_t shift, mask;        // of 16-bit samples: bits below the value, 2^depth - 1
    int32_t last_x, last_y;     // chroma samples of a row and of a column, less one
    int32_t height;             // pixels
    const gwb_quick_numbers *m;
    uint32_t quarter_x[2][3], quarter_y[2][3];  // convert_args.h; not for GWB_QUICK_LEFT
} gwb_yuv_rgb;

// The samples of w pixels of h rows, and the chroma from one sample before to one behind, and a row before to one behind.
typedef struct gwb_yuv_rgb_samples {
    uint32_t luma[4][4];        // as they lie in memory
    uint32_t chroma[4][6];      // U low, V high; bytes: pairs.h, less the code of no colour; else whole codes. Of 4:4:4: a row of U, a row of V, as luma
} gwb_yuv_rgb_samples;

// The chroma sample at u and v, bytes of a pair or of two planes.
GWB_FN uint32_t gwb_yuv_rgb_one(const gwb_yuv_rgb *s, int kind, int pairs, const uint8_t *u, const uint8_t *v)
{
    if (kind == GWB_SAMPLE_U8)
        return pairs ? gwb_permute(*(const uint16_t *)u, 0, s->v_first ? 0x4041 : 0x4140) : *u | (uint32_t)*v << 16;
    const uint32_t both = pairs ? *(const uint32_t *)u : *(const uint16_t *)u | (uint32_t)*(const uint16_t *)v << 16;
    const uint32_t code = both >> s->shift & (uint32_t)s->mask * 0x10001u;
    return pairs && s->v_first ? gwb_permute(code, 0, 0x1032) : code;
}

// Chroma samples x - 1 .. x + w / 2 of row y into c. The first one and the last are read where `first` and `end` say so.
GWB_FN void gwb_yuv_rgb_chroma(const gwb_yuv_rgb *s, int kind, int pairs, int w, int x, int y, bool first, bool end, uint32_t c[6])
{
    const int n = w / 2, before = x > 0 ? x - 1 : 0;
    const int size = gwb_kind_size(kind), pitch = pairs ? 2 * size : size;
    const uint8_t *u = gwb_near(s->u, s->u_step, y, x * pitch), *v = gwb_near(s->v, s->v_step, y, x * pitch);
    uint32_t wu[4] = {0, 0, 0, 0}, wv[4] = {0, 0, 0, 0};
    gwb_load_words(u, n * pitch, wu);
    if (!pairs)
        gwb_load_words(v, n * pitch, wv);
    GWB_UNROLL
    for (int i = 0; i < n; i++) {
        if (kind == GWB_SAMPLE_U8 && pairs)
            c[i + 1] = gwb_permute(wu[i / 2], 0, i & 1 ? (s->v_first ? 0x4243 : 0x4342) : (s->v_first ? 0x4041 : 0x4140));
        else if (kind == GWB_SAMPLE_U8)
            c[i + 1] = gwb_permute(wu[0], wv[0], (uint32_t)(i | (4 + i) << 8)) & 0x00ff00ff;
        else if (pairs)
            c[i + 1] = gwb_permute(wu[i] >> s->shift & (uint32_t)s->mask * 0x10001u, 0, s->v_first ? 0x1032 : 0x3210);
        else
            c[i + 1] = gwb_permute(wu[i / 2] >> s->shift & (uint32_t)s->mask * 0x10001u, wv[i / 2] >> s->shift & (uint32_t)s->mask * 0x10001u,
                i & 1 ? 0x7632 : 0x5410);
    }
    c[0] = c[n + 1] = 0;
    if (first)
        c[0] = gwb_yuv_rgb_one(s, kind, pairs, gwb_near(s->u, s->u_step, y, before * pitch), gwb_near(s->v, s->v_step, y, before * pitch));
    if (end)        // none behind: the last one again
        c[n + 1] = x + n > s->last_x ? c[n] : gwb_yuv_rgb_one(s, kind, pairs, u + n * pitch, v + n * pitch);
    if (kind == GWB_SAMPLE_U8) {
        GWB_UNROLL
        for (int i = 0; i < n + 2; i++)
            c[i] = gwb_pair_sub(c[i], s->m->from[1]);
    }
}

// The samples at (x, y), x a multiple of w, y of h. The first two rows are in the picture; what is below it is its last row.
GWB_FN void gwb_yuv_rgb_load(const gwb_yuv_rgb *s, int kind, int shape, bool left, int w, int h, int x, int y, gwb_yuv_rgb_samples *t)
{
    const int size = gwb_kind_size(kind), row = y >> 1, pairs = shape == GWB_SHAPE_420_PAIRS, last = s->height - 1;
    const bool first = !left && (s->quarter_x[0][0] | s->quarter_x[1][0]), end = left || (s->quarter_x[0][2] | s->quarter_x[1][2]);
    GWB_UNROLL
    for (int r = 0; r < h; r++) {
        const int at = r < 2 || y + r < last ? y + r : last;
        gwb_load_words(gwb_near(s->y, s->y_step, at, x * size), w * size, t->luma[r]);
        if (shape == GWB_SHAPE_PLANES) {
            gwb_load_words(gwb_near(s->u, s->u_step, at, x), w, t->chroma[r]);
            gwb_load_words(gwb_near(s->v, s->v_step, at, x), w, t->chroma[r] + 2);
        }
    }
    if (shape == GWB_SHAPE_PLANES)
        return;
    GWB_UNROLL
    for (int r = 0; r < h / 2 + 2; r++) {
        const int at = row + r - 1;
        gwb_yuv_rgb_chroma(s, kind, pairs, w, x >> 1, r == 0 ? (row > 0 ? at : 0) : r == 1 || at < s->last_y ? at : s->last_y, first, end, t->chroma[r]);
    }
}

// Row r of the samples as R, G and B.
GWB_FN void gwb_yuv_rgb_row(const gwb_yuv_rgb *s, int kind, int shape, bool left, int w, const gwb_yuv_rgb_samples *t, int r, float rgb[3][8])
{
    float y[8], u[8], v[8];
    GWB_UNROLL
    for (int k = 0; k < w; k += 4) {
        if (kind == GWB_SAMPLE_U8)
            gwb_pair_bytes(t->luma[r][k / 4], s->m->from[0], y + k);
        else
            GWB_UNROLL
            for (int i = k; i < k + 4; i++)
                y[i] = gwb_small_float((t->luma[r][i / 2] >> 16 * (i & 1) & 0xffff) >> s->shift & (uint32_t)s->mask) - (float)s->m->from[0];
        if (shape == GWB_SHAPE_PLANES) {
            gwb_pair_bytes(t->chroma[r][k / 4], s->m->from[1], u + k);
            gwb_pair_bytes(t->chroma[r][k / 4 + 2], s->m->from[1], v + k);
        }
    }
    if (shape != GWB_SHAPE_PLANES) {
        const uint32_t *wy = s->quarter_y[r & 1];
        uint32_t column[6], uv;
        GWB_UNROLL
        for (int k = 0; k < w / 2 + 2; k++) {   // 4 times as large
            const uint32_t above = t->chroma[r / 2][k], at = t->chroma[r / 2 + 1][k], below = t->chroma[r / 2 + 2][k], nearer = r & 1 ? below : above;
            if (left)
                column[k] = kind == GWB_SAMPLE_U8 ? gwb_pair_mad(3, at, nearer) : 3 * at + nearer;
            else if (kind == GWB_SAMPLE_U8)
                column[k] = gwb_pair_mad(wy[0], above, gwb_pair_mad(wy[1], at, gwb_pair_mad(wy[2], below, 0)));
            else
                column[k] = wy[0] * above + wy[1] * at + wy[2] * below;
        }
        GWB_UNROLL
        for (int k = 0; k < w; k++) {   // for `left` 4 times as large at even pixels and 8 times at odd ones, else 16 times
            const uint32_t *wx = s->quarter_x[k & 1], *c = column + k / 2;
            if (left)
                uv = !(k & 1) ? c[1] : kind == GWB_SAMPLE_U8 ? gwb_pair_add(c[1], c[2]) : c[1] + c[2];
            else if (kind == GWB_SAMPLE_U8)
                uv = gwb_pair_mad(wx[0], c[0], gwb_pair_mad(wx[1], c[1], gwb_pair_mad(wx[2], c[2], 0)));
            else
                uv = wx[0] * c[0] + wx[1] * c[1] + wx[2] * c[2];
            if (kind == GWB_SAMPLE_U8) {
                gwb_pair_floats(uv, &u[k], &v[k]);
            } else {
                const float zero = (float)s->m->from[1] * (left ? (k & 1 ? 8.0f : 4.0f) : 16.0f);
                u[k] = gwb_small_float(uv & 0xffff) - zero;
                v[k] = gwb_small_float(uv >> 16) - zero;
            }
        }
    }
    GWB_UNROLL
    for (int k = 0; k < w; k++) {
        const int odd = k & 1;
        const float luminance = s->m->luma * y[k];
        rgb[0][k] = gwb_fma(s->m->vr[odd], v[k], luminance);
        rgb[1][k] = gwb_fma(s->m->vg[odd], v[k], gwb_fma(s->m->ug[odd], u[k], luminance));
        rgb[2][k] = gwb_fma(s->m->ub[odd], u[k], luminance);
    }
}

// ---- as a conversion

GWB_FN gwb_yuv_rgb gwb_yuv_rgb_of(const gwb_convert_args *a, int kind, int shape)
{
    const gwb_samples *s = a->src;
    const int pairs = shape == GWB_SHAPE_420_PAIRS;
    gwb_yuv_rgb r;
    r.y = s[0].data, r.u = s[1].data - (pairs ? s[1].lane * gwb_kind_size(kind) : 0), r.v = s[2].data;
    r.y_step = (int32_t)s[0].step, r.u_step = (int32_t)s[1].step, r.v_step = (int32_t)s[2].step;
    r.v_first = pairs && s[1].lane, r.shift = s[0].shift, r.mask = s[0].mask;
    r.last_x = a->up_x.last, r.last_y = a->up_y.last;
    r.height = a->height;
    r.m = &a->quick_numbers;
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < 3; i++)
            r.quarter_x[p][i] = a->quarter_x[p][i], r.quarter_y[p][i] = a->quarter_y[p][i];
    return r;
}

// Two rows of `w` pixels from (x, y) on, to planes.
GWB_FN void gwb_yuv_rgb_planes(const gwb_convert_args *a, int kind, int w, int x, int y, float rgb[2][3][8])
{
    GWB_UNROLL
    for (int r = 0; r < 2; r++)
        GWB_UNROLL
        for (int i = 0; i < 3; i++) {
            const gwb_samples *d = &a->dst[i];
            uint8_t *p = gwb_near(d->data, (int32_t)d->step, y + r, x * gwb_kind_size(kind));
            uint32_t words[4];
            if (kind == GWB_SAMPLE_U8) {
                words[0] = gwb_code_bytes(true, rgb[r][i][0], rgb[r][i][1], rgb[r][i][2], rgb[r][i][3]);
                words[1] = gwb_code_bytes(true, rgb[r][i][4], rgb[r][i][5], rgb[r][i][6], rgb[r][i][7]);
                gwb_store_words(p, 8, words);
            } else {
                gwb_store_run(kind, w, p, d->shift, a->limit[i], rgb[r][i]);
            }
        }
}

// Four pixels of bytes that lie together, a, b and c first, d behind where there are four.
GWB_FN void gwb_yuv_rgb_words(int lanes, const float *a, const float *b, const float *c, const float *d, uint32_t *w)
{
    if (lanes == 3) {
        w[0] = gwb_code_bytes(true, a[0], b[0], c[0], a[1]);
        w[1] = gwb_code_bytes(true, b[1], c[1], a[2], b[2]);
        w[2] = gwb_code_bytes(true, c[2], a[3], b[3], c[3]);
        return;
    }
    GWB_UNROLL
    for (int k = 0; k < 4; k++)
        w[k] = gwb_code_bytes(true, a[k], b[k], c[k], d[k]);
}

// Two rows of 8 pixels of bytes that lie together, the lanes of a warp side by side from pixel x0 on.
GWB_FN void gwb_yuv_rgb_interleaved(const gwb_convert_args *a, int shape, int x0, int y, int lane, int lanes, float rgb[2][3][8])
{
    const gwb_samples *d = a->dst;
    const int samples = shape == GWB_SHAPE_3 || shape == GWB_SHAPE_RGB || shape == GWB_SHAPE_BGR ? 3 : 4;
    const float alpha[4] = {a->alpha_fill, a->alpha_fill, a->alpha_fill, a->alpha_fill};
    const bool any = shape == GWB_SHAPE_3 || shape == GWB_SHAPE_4;      // order
    const bool red_first = any ? d[0].lane < d[2].lane : shape == GWB_SHAPE_RGB || shape == GWB_SHAPE_RGBA;
    const bool alpha_first = shape == GWB_SHAPE_4 && (d[0].lane == 1 || d[2].lane == 1);
    uint32_t w[2][8];
    GWB_UNROLL
    for (int r = 0; r < 2; r++)
        GWB_UNROLL
        for (int k = 0; k < 8; k += 4) {
            const float *red = rgb[r][0] + k, *green = rgb[r][1] + k, *blue = rgb[r][2] + k;
            uint32_t *to = w[r] + k / 4 * samples;
            if (!alpha_first && red_first)
                gwb_yuv_rgb_words(samples, red, green, blue, alpha, to);
            else if (!alpha_first)
                gwb_yuv_rgb_words(samples, blue, green, red, alpha, to);
            else if (red_first)
                gwb_yuv_rgb_words(samples, alpha, red, green, blue, to);
            else
                gwb_yuv_rgb_words(samples, alpha, blue, green, red, to);
        }
    gwb_store_side_by_side(2 * samples, d[0].data - (any ? d[0].lane : red_first ? 0 : 2), (int32_t)d[0].step, y, samples * x0, lane, lanes, w);
}

// A work item: GWB_QUICK_WIDTH pixels of two rows, from row y on and from pixel x0 plus `lane` times as many, where the picture has all of them. `left`:
// GWB_QUICK_LEFT. On cuda all lanes of a warp come here together, and `lanes` of them have an item.
GWB_FN void gwb_yuv_rgb_item(const gwb_convert_args *a, int src_kind, int src_shape, int dst_kind, int dst_shape, bool left, int x0, int y, int lane, int lanes)
{
    const int w = GWB_QUICK_WIDTH(dst_kind), x = x0 + w * (lane < lanes ? lane : lanes - 1);    // a lane too many does what the last one does
    const gwb_yuv_rgb s = gwb_yuv_rgb_of(a, src_kind, src_shape);
    gwb_yuv_rgb_samples t;
    float rgb[2][3][8];
    gwb_yuv_rgb_load(&s, src_kind, src_shape, left, w, 2, x, y, &t);
    GWB_UNROLL
    for (int r = 0; r < 2; r++)
        gwb_yuv_rgb_row(&s, src_kind, src_shape, left, w, &t, r, rgb[r]);
    if (dst_shape == GWB_SHAPE_PLANES)
        gwb_yuv_rgb_planes(a, dst_kind, w, x, y, rgb);
    else
        gwb_yuv_rgb_interleaved(a, dst_shape, x0, y, lane, lanes, rgb);
}

#endif
