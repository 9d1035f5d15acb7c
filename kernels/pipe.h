// SPDX-License-Identifier: MIT
// The frame of a generated pipeline kernel: how the source is read, how stages are chained, how a pixel is stored. The generated text defines one
// function a stage by the macros here, in the order of the chain, then GWB_PIPE_ENTRY.
// Constants that shape the code (formats, filters) are literals of that text: GWB_SRC_… and GWB_DST_… below.
#ifndef GWB_KERNEL_PIPE_H
#define GWB_KERNEL_PIPE_H

#include "stages.h"

#include "sample.h"
#include "store.h"

#define GWB_PIPE_PARAMS const gwb_pipe_args *a, const gwb_pipe_item *item, int x, int y

// ---- the source

GWB_FN float gwb_pipe_sample(int kind, const gwb_samples *s, const uint8_t *data, int64_t step, int x, int y)
{
    return gwb_load_sample(kind, data + step * y, x, s->pitch, s->lane, s->shift, s->mask);
}

// Component k between its samples: gwb_resample with the item's pointers and sizes.
GWB_FN float gwb_pipe_resample(const gwb_pipe_args *a, const gwb_pipe_item *item, int kind, int k, int log2_w, int log2_h, int x, int y)
{
    const gwb_taps *tx = &a->io.up_x, *ty = &a->io.up_y;
    const int last_x = ((item->src_width - 1) >> log2_w), last_y = ((item->src_height - 1) >> log2_h);
    const int px = x & ((1 << tx->phase_bits) - 1), py = y & ((1 << ty->phase_bits) - 1);
    const int x0 = (x >> tx->phase_bits) + tx->base[px], y0 = (y >> ty->phase_bits) + ty->base[py];
    float sum = 0.0f;
    for (int i = 0; i < tx->count; i++) {
        const int column = gwb_clamp(x0 + i, last_x);
        float v = ty->weight[py][0] * gwb_pipe_sample(kind, &a->io.src[k], item->src[k], item->src_step[k], column, gwb_clamp(y0, last_y));
        for (int j = 1; j < ty->count; j++)
            v = v + ty->weight[py][j] * gwb_pipe_sample(kind, &a->io.src[k], item->src[k], item->src_step[k], column, gwb_clamp(y0 + j, last_y));
        sum = i == 0 ? tx->weight[px][0] * v : sum + tx->weight[px][i] * v;
    }
    return sum;
}

// Pixel (x, y) of the source, inside it. `components`: a bit for each that there is.
GWB_FN gwb_px gwb_pipe_source(GWB_PIPE_PARAMS, int kind, int components, int log2_w, int log2_h)
{
    gwb_px p;
    for (int k = 0; k < 4; k++) {
        if (!(components >> k & 1))
            p.c[k] = 0.0f;
        else if (k == 0 || k == 3 || !(log2_w | log2_h))
            p.c[k] = gwb_pipe_sample(kind, &a->io.src[k], item->src[k], item->src_step[k], x, y);
        else
            p.c[k] = gwb_pipe_resample(a, item, kind, k, log2_w, log2_h, x, y);
    }
    return p;
}

// ---- one pixel from several: the same on the host, which calls these with the pixels it has

GWB_FN gwb_px gwb_pipe_bilinear(gwb_px p00, gwb_px p10, gwb_px p01, gwb_px p11, float tx, float ty)
{
    return gwb_between(gwb_between(p00, p10, tx), gwb_between(p01, p11, tx), ty);
}

GWB_FN gwb_px gwb_pipe_zero(void)
{
    gwb_px p = {{0.0f, 0.0f, 0.0f, 0.0f}};
    return p;
}

GWB_FN gwb_px gwb_pipe_add(gwb_px sum, gwb_px p, float w)
{
    for (int k = 0; k < 4; k++)
        sum.c[k] = sum.c[k] + p.c[k] * w;
    return sum;
}

GWB_FN gwb_px gwb_pipe_constant(const gwb_pipe_stage *s)
{
    gwb_px p = {{s->f[0], s->f[1], s->f[2], s->f[3]}};
    return p;
}

// A tap of a warp: a pixel of the picture before, or the border.
#define GWB_PIPE_TAP(PREV, s, m, tx, ty, out) \
    do { \
        int to_x, to_y; \
        const int in = gwb_border((s)->i[0], tx, (m)->width, &to_x) & gwb_border((s)->i[0], ty, (m)->height, &to_y); \
        out = in ? PREV(a, item, to_x, to_y) : gwb_px{{(s)->f[12], (s)->f[13], (s)->f[14], (s)->f[15]}}; \
    } while (0)

#if defined(__CUDACC__)
// ---- stages of a generated kernel: NAME is the function to define, PREV the stage before, K its number in args.stage, M in item.move

#define GWB_PIPE_SOURCE(NAME) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) { return gwb_pipe_source(a, item, x, y, GWB_SRC_KIND, GWB_SRC_COMPONENTS, GWB_SRC_LOG2_W, GWB_SRC_LOG2_H); }

#define GWB_PIPE_VALUE(NAME, PREV, K, FN) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) { return FN(&a->stage[K], PREV(a, item, x, y), x, y); }

#define GWB_PIPE_MOVE(NAME, PREV, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        int sx, sy; \
        gwb_at_move(&item->move[M], x, y, &sx, &sy); \
        return PREV(a, item, sx, sy); \
    }

#define GWB_PIPE_NEAREST(NAME, PREV, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) { return PREV(a, item, gwb_at_nearest(&item->move[M], 0, x), gwb_at_nearest(&item->move[M], 1, y)); }

#define GWB_PIPE_BILINEAR(NAME, PREV, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        int x0, x1, y0, y1; \
        const float tx = gwb_at_linear(&item->move[M], 0, x, &x0, &x1), ty = gwb_at_linear(&item->move[M], 1, y, &y0, &y1); \
        const gwb_px p00 = PREV(a, item, x0, y0), p10 = PREV(a, item, x1, y0), p01 = PREV(a, item, x0, y1), p11 = PREV(a, item, x1, y1); \
        return gwb_pipe_bilinear(p00, p10, p01, p11, tx, ty); \
    }

#define GWB_PIPE_CUBIC(NAME, PREV, K, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        int x0, x1, y0, y1; \
        const float tx = gwb_at_linear(&item->move[M], 0, x, &x0, &x1), ty = gwb_at_linear(&item->move[M], 1, y, &y0, &y1); \
        const int bx = (int)((item->move[M].offset[0] + item->move[M].scale[0] * x) >> 32) - 1; \
        const int by = (int)((item->move[M].offset[1] + item->move[M].scale[1] * y) >> 32) - 1; \
        float wx[4], wy[4]; \
        gwb_cubic(a->stage[K].f[0], tx, wx); \
        gwb_cubic(a->stage[K].f[0], ty, wy); \
        gwb_px sum = gwb_pipe_zero(); \
        for (int j = 0; j < 4; j++) { \
            gwb_px row = gwb_pipe_zero(); \
            for (int i = 0; i < 4; i++) \
                row = gwb_pipe_add(row, PREV(a, item, gwb_clamp(bx + i, item->move[M].width - 1), gwb_clamp(by + j, item->move[M].height - 1)), wx[i]); \
            sum = gwb_pipe_add(sum, row, wy[j]); \
        } \
        return sum; \
    }

// A table of weights along one axis: i[0] taps; row 0 of the table holds the first tap of each output, the next i[0] rows the weights.
#define GWB_PIPE_TABLE(NAME, PREV, K, M, AXIS) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        const gwb_pipe_stage *s = &a->stage[K]; \
        const int at = AXIS ? y : x, last = (AXIS ? item->move[M].height : item->move[M].width) - 1; \
        const int first = ((const int32_t *)s->table)[at]; \
        gwb_px sum = gwb_pipe_zero(); \
        for (int i = 0; i < s->i[0]; i++) { \
            const int tap = gwb_clamp(first + i, last); \
            sum = gwb_pipe_add(sum, AXIS ? PREV(a, item, x, tap) : PREV(a, item, tap, y), ((const float *)(s->table + (1 + i) * s->step))[at]); \
        } \
        return sum; \
    }

#define GWB_PIPE_PAD(NAME, PREV, K, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        int sx, sy; \
        const int in_x = gwb_border(a->stage[K].i[0], x + item->move[M].at[0], item->move[M].width, &sx); \
        const int in_y = gwb_border(a->stage[K].i[0], y + item->move[M].at[1], item->move[M].height, &sy); \
        return in_x && in_y ? PREV(a, item, sx, sy) : gwb_pipe_constant(&a->stage[K]); \
    }

#define GWB_PIPE_WARP(NAME, PREV, K, M, AT) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        const gwb_pipe_stage *s = &a->stage[K]; \
        const gwb_pipe_move *m = &item->move[M]; \
        float sx, sy, tx, ty; \
        AT(s, x, y, &sx, &sy); \
        const int x0 = gwb_floor_tap(s->i[1] ? sx : sx + 0.5f, m->width, &tx), y0 = gwb_floor_tap(s->i[1] ? sy : sy + 0.5f, m->height, &ty); \
        gwb_px p00, p10, p01, p11; \
        GWB_PIPE_TAP(PREV, s, m, x0, y0, p00); \
        if (!s->i[1]) \
            return p00; \
        GWB_PIPE_TAP(PREV, s, m, x0 + 1, y0, p10); \
        GWB_PIPE_TAP(PREV, s, m, x0, y0 + 1, p01); \
        GWB_PIPE_TAP(PREV, s, m, x0 + 1, y0 + 1, p11); \
        return gwb_pipe_bilinear(p00, p10, p01, p11, tx, ty); \
    }

// ---- the destination

GWB_FN void gwb_pipe_put(const gwb_pipe_args *a, const gwb_pipe_item *item, int k, int x, int y, float value, uint32_t *word)
{
    const gwb_samples *d = &a->io.dst[k];
    if (!GWB_DST_WORD) {
        gwb_store_sample(GWB_DST_KIND, item->dst[k] + item->dst_step[k] * y, x, d->pitch, d->shift, a->io.limit[k], value);
        return;
    }
    const uint32_t code = gwb_code(value, a->io.limit[k]);
    if (GWB_DST_KIND == GWB_SAMPLE_V210) {
        const int slot = (x * d->pitch + d->lane) % 12;
        for (int w = 0; w < 4; w++)
            word[w] |= w == slot / 3 ? code << slot % 3 * 10 : 0;
    } else {
        word[0] |= code << d->shift;
    }
}

GWB_FN void gwb_pipe_put_words(const gwb_pipe_item *item, int x, int y, const uint32_t *word)
{
    uint8_t *row = item->dst[0] + item->dst_step[0] * y;
    if (GWB_DST_KIND == GWB_SAMPLE_U16)
        ((uint16_t *)row)[x] = (uint16_t)word[0];
    else if (GWB_DST_KIND == GWB_SAMPLE_U32)
        ((uint32_t *)row)[x] = word[0];
    else
        for (int w = 0; w < 4; w++)
            ((uint32_t *)row)[(int64_t)x / 6 * 4 + w] = word[w];
}

// A block of the result: whole chroma samples, whole groups (see convert.h).
#define GWB_PIPE_ITEM(LAST) \
    GWB_FN void gwb_pipe_block(const gwb_pipe_args *a, const gwb_pipe_item *item, int bx, int by) \
    { \
        const int sub = GWB_DST_LOG2_W | GWB_DST_LOG2_H, width = a->io.width, height = a->io.height; \
        const int x0 = bx * GWB_DST_BLOCK_W, y0 = by * GWB_DST_BLOCK_H; \
        const int row_end = (width + GWB_DST_GROUP - 1) / GWB_DST_GROUP * GWB_DST_GROUP; \
        uint32_t word[4] = {0, 0, 0, 0}; \
        if (sub) { \
            const gwb_taps *tx = &a->io.down_x, *ty = &a->io.down_y; \
            const int last = (width - 1) >> GWB_DST_LOG2_W, end = row_end - x0 < GWB_DST_BLOCK_W ? row_end : x0 + GWB_DST_BLOCK_W; \
            for (int cx = x0 >> GWB_DST_LOG2_W; cx <= (end - 1) >> GWB_DST_LOG2_W; cx++) { \
                const int at = cx < last ? cx : last, fx = at * tx->scale + tx->base[0], fy = by * ty->scale + ty->base[0]; \
                gwb_px sum = gwb_pipe_zero(); \
                for (int j = 0; j < ty->count; j++) \
                    for (int i = 0; i < tx->count; i++) \
                        sum = gwb_pipe_add(sum, LAST(a, item, gwb_clamp(fx + i, width - 1), gwb_clamp(fy + j, height - 1)), \
                            tx->weight[0][i] * ty->weight[0][j]); \
                for (int k = 1; k < 3; k++) \
                    gwb_pipe_put(a, item, k, cx, by, sum.c[k], word); \
            } \
        } \
        for (int y = y0; y < y0 + GWB_DST_BLOCK_H && y < height; y++) \
            for (int x = x0; x < x0 + GWB_DST_BLOCK_W && x < row_end; x++) { \
                const gwb_px p = LAST(a, item, x < width ? x : width - 1, y); \
                for (int k = 0; k < 4; k++) \
                    if (GWB_DST_COMPONENTS >> k & 1 && (k == 0 || k == 3 || !sub)) \
                        gwb_pipe_put(a, item, k, x, y, p.c[k], word); \
            } \
        if (GWB_DST_WORD) \
            gwb_pipe_put_words(item, x0, y0, word); \
    }

// One picture: everything by value. Thread: a block of the result.
#define GWB_PIPE_ENTRY \
    extern "C" __global__ void __launch_bounds__(256) gwb_pipe_one(const __grid_constant__ gwb_pipe_args a, const __grid_constant__ gwb_pipe_item item, int nx, int ny) \
    { \
        GWB_AFTER(); \
        const int bx = (int)(blockIdx.x * blockDim.x + threadIdx.x), by = (int)(blockIdx.y * blockDim.y + threadIdx.y); \
        if (bx < nx && by < ny) \
            gwb_pipe_block(&a, &item, bx, by); \
    }

// A batch: blockIdx.z is the picture, whose description lies in device memory.
#define GWB_PIPE_BATCH_ENTRY \
    extern "C" __global__ void __launch_bounds__(256) gwb_pipe_batch(const __grid_constant__ gwb_pipe_args a, int nx, int ny) \
    { \
        GWB_AFTER(); \
        const int bx = (int)(blockIdx.x * blockDim.x + threadIdx.x), by = (int)(blockIdx.y * blockDim.y + threadIdx.y); \
        if (bx < nx && by < ny) \
            gwb_pipe_block(&a, a.more + blockIdx.z, bx, by); \
    }
#endif

#endif
