// SPDX-License-Identifier: MIT
// What generated kernels are written with: reading samples, the links of a chain, storing samples. src/pipe_text.c writes, in this order: numbers that
// shape the code, this header, s0 and what it needs, a line a link, what is done at the end of the chain, pipe_entry.h.
//
// A chain is functions: sN gives the pixel behind link N, vN changes a pixel's values, qN gives four neighbours at once, kN gives the chroma
// behind link N where it stays on its grid. NAME is the function to define, PREV the one of the link before, K its stage, M its move. What a
// source does not have, and what a chain does not ask for, is not in the text: compiling takes longer than anything else here.
#ifndef GWB_KERNEL_PIPE_LINKS_H
#define GWB_KERNEL_PIPE_LINKS_H

#include "interleave.h"
#include "pipe.h"

#pragma nv_diag_suppress 177       // not every chain asks for every function of it

// A number as it is stored.
#define GWB_NUMBER(v) (GWB_FINITE ? (v) : gwb_pipe_number(v))

#define GWB_PIPE_PARAMS const gwb_pipe_at *g, int x, int y
// Columns x0 and x1, rows y0 and y1, all inside; the second of each is the first or the next.
#define GWB_QUAD_PARAMS const gwb_pipe_at *g, int x0, int x1, int y0, int y1

typedef struct gwb_quad {
    gwb_px p00, p10, p01, p11;      // first digit x
} gwb_quad;

// An address in global memory that the compiler takes as it is: else it works out the addresses of all samples of a pixel, and of a column, anew.
GWB_FN const uint8_t *gwb_fixed(const uint8_t *p)
{
    asm("" : "+l"(p));
    __builtin_assume(__isGlobal(p));
    return p;
}

// ---- the source's samples, at x and y: the plane, bytes from one sample to the next, bytes before the first; of U16 and U32 bits below and 2^depth - 1

#define GWB_AT(PLANE, PITCH, OFFSET) (gwb_fixed(gwb_fixed(g->item->src[PLANE] + x * PITCH) + (int64_t)y * g->item->src_step[PLANE]) + OFFSET)
#define GWB_GET_U8(PLANE, PITCH, OFFSET) gwb_small_float(*GWB_AT(PLANE, PITCH, OFFSET))
#define GWB_GET_U16(PLANE, PITCH, OFFSET, SHIFT, MASK) gwb_small_float((uint32_t)*(const uint16_t *)GWB_AT(PLANE, PITCH, OFFSET) >> SHIFT & MASK)
#define GWB_GET_U32(PLANE, PITCH, OFFSET, SHIFT, MASK) gwb_small_float(*(const uint32_t *)GWB_AT(PLANE, PITCH, OFFSET) >> SHIFT & MASK)
#define GWB_GET_F16(PLANE, PITCH, OFFSET) gwb_half_float(*(const uint16_t *)GWB_AT(PLANE, PITCH, OFFSET))
#define GWB_GET_F32(PLANE, PITCH, OFFSET) (*(const float *)GWB_AT(PLANE, PITCH, OFFSET))
#define GWB_GET_V210(PITCH, SLOT) gwb_load_sample(GWB_SAMPLE_V210, gwb_pipe_row(g->item, 0, y), x, PITCH, SLOT, 0, 1023)

// The two or four samples of a pixel at once, in the order of memory, into v.
#define GWB_GET_LANES(KIND, LANES, SHIFT, MASK) \
    float v[4]; \
    gwb_load_run(KIND, LANES, GWB_AT(0, LANES * gwb_kind_size(KIND), 0), SHIFT, MASK, v)

// ---- chroma of up to 12 bits: U in the low half of a word and V in the high half, in sixteenths where it lies between samples. Whole numbers give just
// what the floats of gwb_pipe_chroma do, for both at once.

#define GWB_CHROMA_PLACE \
    x = gwb_clamp(x, (g->shape->src_width - 1) >> GWB_SRC_LOG2_W); \
    y = gwb_clamp(y, (g->shape->src_height - 1) >> GWB_SRC_LOG2_H)
#define GWB_CHROMA_U8(PLANE_U, OFFSET_U, PLANE_V, OFFSET_V, PITCH) (*GWB_AT(PLANE_U, PITCH, OFFSET_U) | (uint32_t)*GWB_AT(PLANE_V, PITCH, OFFSET_V) << 16)
#define GWB_CHROMA_U16(PLANE_U, OFFSET_U, PLANE_V, OFFSET_V, PITCH, SHIFT, MASK) \
    ((*(const uint16_t *)GWB_AT(PLANE_U, PITCH, OFFSET_U) >> SHIFT & MASK) | \
     (uint32_t)(*(const uint16_t *)GWB_AT(PLANE_V, PITCH, OFFSET_V) >> SHIFT & MASK) << 16)
// Pairs that are loaded at once; V_FIRST: V lies before U.
#define GWB_CHROMA_PAIR_U8(PLANE, OFFSET, V_FIRST) __byte_perm(*(const uint16_t *)GWB_AT(PLANE, 2, OFFSET), 0, V_FIRST ? 0x4041 : 0x4140)
#define GWB_CHROMA_PAIR_U16(PLANE, OFFSET, V_FIRST, SHIFT, MASK) \
    __byte_perm(*(const uint32_t *)GWB_AT(PLANE, 4, OFFSET) >> SHIFT & (MASK * 0x10001u), 0, V_FIRST ? 0x1032 : 0x3210)

GWB_FN void gwb_unpack_chroma(uint32_t sixteenths, gwb_px *p)
{
    p->c[1] = gwb_small_float(sixteenths & 0xffff) * 0.0625f;
    p->c[2] = gwb_small_float(sixteenths >> 16) * 0.0625f;
}

// Between samples; FIRST_X (x) is the first one's number, WEIGHT_X (x, i) the i-th's weight in quarters. Down column cx of the samples, for row y of pixels:
#define GWB_PIPE_COLUMN(NAME, SAMPLE, NY, FIRST_Y, WEIGHT_Y) \
    GWB_FN uint32_t NAME(const gwb_pipe_at *g, int cx, int y) \
    { \
        const int cy = FIRST_Y(y); \
        const uint32_t first = WEIGHT_Y(y, 0) * SAMPLE(g, cx, cy); \
        return NY == 2 ? first + WEIGHT_Y(y, 1) * SAMPLE(g, cx, cy + 1) : first; \
    }

// and at a pixel:
#define GWB_PIPE_CHROMA(NAME, COLUMN, NX, FIRST_X, WEIGHT_X) \
    GWB_FN uint32_t NAME(GWB_PIPE_PARAMS) \
    { \
        const int cx = FIRST_X(x); \
        const uint32_t first = WEIGHT_X(x, 0) * COLUMN(g, cx, y); \
        return NX == 2 ? first + WEIGHT_X(x, 1) * COLUMN(g, cx + 1, y) : first; \
    }

// The same for four neighbours, which share most of their samples: SPAN_X columns and SPAN_Y rows, two or three. What has no weight may be any sample.
#define GWB_QUAD_CHROMA(NAME, SAMPLE, NX, SPAN_X, FIRST_X, WEIGHT_X, NY, SPAN_Y, FIRST_Y, WEIGHT_Y) \
    GWB_FN void NAME(GWB_QUAD_PARAMS, uint32_t sum[4]) \
    { \
        const int cx = FIRST_X(x0), dx = FIRST_X(x0 + 1) - cx, cy = FIRST_Y(y0), dy = FIRST_Y(y0 + 1) - cy; \
        uint32_t above[3] = {0, 0, 0}, below[3] = {0, 0, 0}; \
        GWB_UNROLL \
        for (int i = 0; i < SPAN_X; i++) { \
            if (i == 2 && !dx) \
                continue; \
            const uint32_t top = SAMPLE(g, cx + i, cy), next = SPAN_Y > 1 ? SAMPLE(g, cx + i, cy + 1) : 0; \
            const uint32_t last = SPAN_Y > 2 && dy ? SAMPLE(g, cx + i, cy + 2) : 0; \
            above[i] = WEIGHT_Y(y0, 0) * top + (NY == 2 ? WEIGHT_Y(y0, 1) * next : 0); \
            below[i] = WEIGHT_Y(y0 + 1, 0) * (dy ? next : top) + (NY == 2 ? WEIGHT_Y(y0 + 1, 1) * (dy ? last : next) : 0); \
        } \
        const uint32_t left0 = WEIGHT_X(x0, 0), left1 = NX == 2 ? WEIGHT_X(x0, 1) : 0; \
        const uint32_t right0 = WEIGHT_X(x0 + 1, 0), right1 = NX == 2 ? WEIGHT_X(x0 + 1, 1) : 0; \
        sum[0] = left0 * above[0] + left1 * above[1]; \
        sum[2] = left0 * below[0] + left1 * below[1]; \
        sum[1] = x1 == x0 ? sum[0] : right0 * (dx ? above[1] : above[0]) + right1 * (dx ? above[2] : above[1]); \
        sum[3] = x1 == x0 ? sum[2] : right0 * (dx ? below[1] : below[0]) + right1 * (dx ? below[2] : below[1]); \
        if (y1 == y0) \
            sum[2] = sum[0], sum[3] = sum[1]; \
    }

// ---- links

#define GWB_PIPE_VALUE(NAME, V, PREV, K, FN) \
    GWB_FN gwb_px V(const gwb_pipe_at *g, gwb_px p, int x, int y) { return FN(&g->stage[K], p, x, y); } \
    GWB_PIPE_APPLY(NAME, V, PREV)

#define GWB_PIPE_APPLY(NAME, V, PREV) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) { return V(g, PREV(g, x, y), x, y); }

#define GWB_PIPE_CROP(NAME, PREV, SHIFT_W, SHIFT_H) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) { return PREV(g, x + (g->item->at[0] >> SHIFT_W), y + (g->item->at[1] >> SHIFT_H)); }

#define GWB_PIPE_MOVE(NAME, PREV, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        int sx, sy; \
        gwb_at_move(&g->shape->move[M], x, y, &sx, &sy); \
        return PREV(g, sx, sy); \
    }

#define GWB_PIPE_NEAREST(NAME, PREV, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) { return PREV(g, gwb_at_nearest(&g->shape->move[M], 0, x), gwb_at_nearest(&g->shape->move[M], 1, y)); }

// Of a source whose chroma is subsampled: what it has a sample of at every pixel, from S, and its chroma, from C.
#define GWB_QUAD_SOURCE(NAME, S, C) \
    GWB_FN gwb_quad NAME(GWB_QUAD_PARAMS) \
    { \
        uint32_t c[4]; \
        C(g, x0, x1, y0, y1, c); \
        gwb_quad q = {S(g, x0, y0), S(g, x1, y0), S(g, x0, y1), S(g, x1, y1)}; \
        gwb_unpack_chroma(c[0], &q.p00); \
        gwb_unpack_chroma(c[1], &q.p10); \
        gwb_unpack_chroma(c[2], &q.p01); \
        gwb_unpack_chroma(c[3], &q.p11); \
        return q; \
    }

#define GWB_QUAD_CROP(NAME, PREV) \
    GWB_FN gwb_quad NAME(GWB_QUAD_PARAMS) \
    { \
        return PREV(g, x0 + g->item->at[0], x1 + g->item->at[0], y0 + g->item->at[1], y1 + g->item->at[1]); \
    }

#define GWB_QUAD_ANY(NAME, PREV) \
    GWB_FN gwb_quad NAME(GWB_QUAD_PARAMS) \
    { \
        const gwb_quad q = {PREV(g, x0, y0), PREV(g, x1, y0), PREV(g, x0, y1), PREV(g, x1, y1)}; \
        return q; \
    }

#define GWB_PIPE_BILINEAR(NAME, QUAD, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        int x0, x1, y0, y1; \
        const float tx = gwb_at_linear(&g->shape->move[M], 0, x, &x0, &x1), ty = gwb_at_linear(&g->shape->move[M], 1, y, &y0, &y1); \
        const gwb_quad q = QUAD(g, x0, x1, y0, y1); \
        return gwb_pipe_bilinear(q.p00, q.p10, q.p01, q.p11, tx, ty); \
    }

#define GWB_PIPE_CUBIC(NAME, PREV, K, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        const gwb_pipe_move *m = &g->shape->move[M]; \
        int bx, by; \
        float wx[4], wy[4]; \
        gwb_cubic(g->stage[K].f[0], gwb_at_cubic(m, 0, x, &bx), wx); \
        gwb_cubic(g->stage[K].f[0], gwb_at_cubic(m, 1, y, &by), wy); \
        gwb_px sum = gwb_pipe_zero(); \
        GWB_NO_UNROLL \
        for (int j = 0; j < 4; j++) { \
            gwb_px row = gwb_pipe_zero(); \
            GWB_UNROLL \
            for (int i = 0; i < 4; i++) \
                row = gwb_pipe_tap(row, PREV(g, gwb_clamp(bx + i, m->width - 1), gwb_clamp(by + j, m->height - 1)), wx[i]); \
            sum = gwb_pipe_tap(sum, row, j & 2 ? (j & 1 ? wy[3] : wy[2]) : j & 1 ? wy[1] : wy[0]); \
        } \
        return sum; \
    }

// A table of weights along one axis.
#define GWB_PIPE_TABLE(NAME, PREV, M, AXIS) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        const gwb_pipe_move *m = &g->shape->move[M]; \
        const uint8_t *weights = m->table + 4 * (int64_t)(AXIS ? y : x); \
        const int last = (AXIS ? m->height : m->width) - 1, first = *(const int32_t *)weights; \
        gwb_px sum = gwb_pipe_zero(); \
        for (int i = 0; i < m->taps; i++) { \
            const int tap = gwb_clamp(first + i, last); \
            weights += m->step; \
            sum = gwb_pipe_tap(sum, AXIS ? PREV(g, x, tap) : PREV(g, tap, y), *(const float *)weights); \
        } \
        return sum; \
    }

// The same along a row of a source whose chroma is subsampled: S gives what it has at every pixel, and each column of its chroma is worked out once.
#define GWB_PIPE_TABLE_CHROMA(NAME, S, COLUMN, NX, FIRST_X, WEIGHT_X, M, CROPPED) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        const gwb_pipe_move *m = &g->shape->move[M]; \
        const uint8_t *weights = m->table + 4 * (int64_t)x; \
        const int last = m->width - 1, first = *(const int32_t *)weights; \
        const int from_x = CROPPED ? g->item->at[0] : 0, from_y = y + (CROPPED ? g->item->at[1] : 0); \
        int column = FIRST_X(from_x + gwb_clamp(first, last)); \
        uint32_t left = COLUMN(g, column, from_y), right = NX == 2 ? COLUMN(g, column + 1, from_y) : 0; \
        gwb_px sum = gwb_pipe_zero(); \
        for (int i = 0; i < m->taps; i++) { \
            const int tap = from_x + gwb_clamp(first + i, last), at = FIRST_X(tap); \
            if (at != column) { \
                left = NX == 2 && at == column + 1 ? right : COLUMN(g, at, from_y); \
                right = NX == 2 ? COLUMN(g, at + 1, from_y) : 0; \
                column = at; \
            } \
            weights += m->step; \
            gwb_px p = S(g, tap, from_y); \
            gwb_unpack_chroma(WEIGHT_X(tap, 0) * left + (NX == 2 ? WEIGHT_X(tap, 1) * right : 0), &p); \
            sum = gwb_pipe_tap(sum, p, *(const float *)weights); \
        } \
        return sum; \
    }

#define GWB_PIPE_PAD(NAME, PREV, K, M) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        const gwb_pipe_stage *s = &g->stage[K]; \
        const gwb_pipe_move *m = &g->shape->move[M]; \
        int sx, sy; \
        const int in_x = gwb_border(s->i[0], x + m->at[0], m->width, &sx), in_y = gwb_border(s->i[0], y + m->at[1], m->height, &sy); \
        return in_x & in_y ? PREV(g, sx, sy) : gwb_stage_border(s); \
    }

// A tap of a warp: a pixel of the picture before, or the border.
#define GWB_PIPE_TAP(PREV, s, m, tx, ty, out) \
    do { \
        int to_x, to_y; \
        const int in = gwb_border((s)->i[0], tx, (m)->width, &to_x) & gwb_border((s)->i[0], ty, (m)->height, &to_y); \
        out = in ? PREV(g, to_x, to_y) : gwb_stage_border(s); \
    } while (0)

#define GWB_PIPE_WARP(NAME, PREV, K, M, AT) \
    GWB_FN gwb_px NAME(GWB_PIPE_PARAMS) \
    { \
        const gwb_pipe_stage *s = &g->stage[K]; \
        const gwb_pipe_move *m = &g->shape->move[M]; \
        float sx, sy, tx, ty; \
        AT(s, x, y, &sx, &sy); \
        const int x0 = gwb_floor_tap(s->i[1] ? sx : sx + 0.5f, &tx), y0 = gwb_floor_tap(s->i[1] ? sy : sy + 0.5f, &ty); \
        gwb_px p00, p10, p01, p11; \
        GWB_PIPE_TAP(PREV, s, m, x0, y0, p00); \
        if (!s->i[1]) \
            return p00; \
        GWB_PIPE_TAP(PREV, s, m, x0 + 1, y0, p10); \
        GWB_PIPE_TAP(PREV, s, m, x0, y0 + 1, p01); \
        GWB_PIPE_TAP(PREV, s, m, x0 + 1, y0 + 1, p11); \
        return gwb_pipe_bilinear(p00, p10, p01, p11, tx, ty); \
    }

// ---- the result's samples, at x and y

#define GWB_TO(PLANE, PITCH, OFFSET) (g->item->dst[PLANE] + (int64_t)g->item->dst_step[PLANE] * y + (int64_t)x * PITCH + OFFSET)
#define GWB_PUT_U8(PLANE, PITCH, OFFSET, LIMIT, V) (*GWB_TO(PLANE, PITCH, OFFSET) = (uint8_t)gwb_code(V, LIMIT))
#define GWB_PUT_U16(PLANE, PITCH, OFFSET, SHIFT, LIMIT, V) (*(uint16_t *)GWB_TO(PLANE, PITCH, OFFSET) = (uint16_t)(gwb_code(V, LIMIT) << SHIFT))
#define GWB_PUT_F16(PLANE, PITCH, OFFSET, V) (*(uint16_t *)GWB_TO(PLANE, PITCH, OFFSET) = (uint16_t)gwb_float_half(V))
#define GWB_PUT_F32(PLANE, PITCH, OFFSET, V) (*(float *)GWB_TO(PLANE, PITCH, OFFSET) = GWB_NUMBER(V))
#define GWB_PUT_LANES(KIND, SHIFT, LIMIT, V0, V1, V2, V3) \
    const float v[4] = {V0, V1, V2, V3}; \
    gwb_store_run(KIND, 4, GWB_TO(0, 4 * gwb_kind_size(KIND), 0), SHIFT, LIMIT, v)
// Into the words of a group.
#define GWB_PUT_BITS(SHIFT, LIMIT, V) (word[0] |= gwb_code(V, LIMIT) << SHIFT)
#define GWB_PUT_V210(PITCH, SLOT, LIMIT, V) \
    do { \
        const int slot = (x * PITCH + SLOT) % 12; \
        const uint32_t code = gwb_code(V, LIMIT) << slot % 3 * 10; \
        GWB_UNROLL \
        for (int w = 0; w < 4; w++)     /* a loop, so that the words stay in registers */ \
            word[w] |= w == slot / 3 ? code : 0; \
    } while (0)

// ---- tiles (pipe_tile.h): four pixels of a row at once, p[i].c[K] from samples that follow each other

#define GWB_TILE_AT(PLANE, PITCH, OFFSET) (gwb_pipe_row(g->item, PLANE, y) + (int64_t)x * PITCH + OFFSET)
#define GWB_EACH4 GWB_UNROLL for (int i = 0; i < 4; i++)
#define GWB_EACH_PIXEL GWB_UNROLL for (int r = 0; r < GWB_TILE_H; r++) GWB_UNROLL for (int i = 0; i < GWB_TILES; i++)
#define GWB_TILE_PLANE(K, KIND, PLANE, OFFSET, SHIFT, MASK) \
    do { \
        float v[4]; \
        gwb_load_run(KIND, 4, GWB_TILE_AT(PLANE, gwb_kind_size(KIND), OFFSET), SHIFT, MASK, v); \
        GWB_EACH4 p[i].c[K] = v[i]; \
    } while (0)
#define GWB_TILE_LANES(KIND, LANES, SHIFT, MASK) \
    float v[4 * LANES]; \
    GWB_UNROLL \
    for (int i = 0; i < LANES; i++) \
        gwb_load_run(KIND, 4, GWB_TILE_AT(0, LANES * gwb_kind_size(KIND), i * 4 * gwb_kind_size(KIND)), SHIFT, MASK, v + 4 * i)
#define GWB_TILE_LANE(K, LANES, LANE) GWB_EACH4 p[i].c[K] = v[i * LANES + LANE]

// gwb_tile_samples and gwb_tile_pixels (pipe_tile.h) of two rows that gwb_tile_row loads; CHROMA does the rest.
#define GWB_TILE_PLAIN(CHROMA) \
    typedef int gwb_tile_samples; \
    GWB_FN void gwb_tile_begin(GWB_PIPE_PARAMS, gwb_tile_samples *) { (void)g, (void)x, (void)y; } \
    GWB_FN void gwb_tile_pixels(GWB_PIPE_PARAMS, const gwb_tile_samples *, int, gwb_px p[GWB_TILE_H][GWB_TILES]) \
    { \
        gwb_tile_row(g, x, y, p[0]); \
        gwb_tile_row(g, x, y + 1, p[1]); \
        CHROMA; \
    }

// Two chroma samples of a row from sample x on, packed, into c[1] and c[2].
#define GWB_TILE_PAIRS_U8(PLANE, OFFSET, V_FIRST) \
    do { \
        const uint32_t w = *(const uint32_t *)GWB_TILE_AT(PLANE, 2, OFFSET); \
        c[1] = __byte_perm(w, 0, V_FIRST ? 0x4041 : 0x4140), c[2] = __byte_perm(w, 0, V_FIRST ? 0x4243 : 0x4342); \
    } while (0)
#define GWB_TILE_PAIRS_U16(PLANE, OFFSET, V_FIRST, SHIFT, MASK) \
    do { \
        const uint2 w = *(const uint2 *)GWB_TILE_AT(PLANE, 4, OFFSET); \
        c[1] = __byte_perm(w.x >> SHIFT & (MASK * 0x10001u), 0, V_FIRST ? 0x1032 : 0x3210); \
        c[2] = __byte_perm(w.y >> SHIFT & (MASK * 0x10001u), 0, V_FIRST ? 0x1032 : 0x3210); \
    } while (0)
#define GWB_TILE_PLANES_U8(PLANE_U, OFFSET_U, PLANE_V, OFFSET_V) \
    do { \
        const uint32_t w = *(const uint16_t *)GWB_TILE_AT(PLANE_U, 1, OFFSET_U) | (uint32_t)*(const uint16_t *)GWB_TILE_AT(PLANE_V, 1, OFFSET_V) << 16; \
        c[1] = w & 0x00ff00ff, c[2] = w >> 8 & 0x00ff00ff; \
    } while (0)
#define GWB_TILE_PLANES_U16(PLANE_U, OFFSET_U, PLANE_V, OFFSET_V, SHIFT, MASK) \
    do { \
        const uint32_t u = *(const uint32_t *)GWB_TILE_AT(PLANE_U, 2, OFFSET_U) >> SHIFT & (MASK * 0x10001u); \
        const uint32_t w = *(const uint32_t *)GWB_TILE_AT(PLANE_V, 2, OFFSET_V) >> SHIFT & (MASK * 0x10001u); \
        c[1] = __byte_perm(u, w, 0x5410), c[2] = __byte_perm(u, w, 0x7632); \
    } while (0)

// Chroma of a tile: ROW gives the samples x - 1 .. x + 2 of a row; WX and WY are the weights, in quarters, of the samples before, at and behind, for
// even and odd pixels.
#define GWB_TILE_CHROMA(NAME, ROW, WX, WY) \
    GWB_FN void NAME(GWB_PIPE_PARAMS, gwb_px p[GWB_TILE_H][GWB_TILE_W]) \
    { \
        const uint32_t wx[2][3] = WX, wy[2][3] = WY; \
        const int cx = x >> 1, cy = y >> GWB_SRC_LOG2_H; \
        uint32_t c[3][4] = {{0}}; \
        ROW(g, cx, cy, c[1]); \
        if (wy[0][0] | wy[1][0]) \
            ROW(g, cx, cy - 1, c[0]); \
        if (!GWB_SRC_LOG2_H || wy[0][2] | wy[1][2]) \
            ROW(g, cx, cy + 1, c[2]); \
        GWB_UNROLL \
        for (int r = 0; r < 2; r++) { \
            uint32_t column[4]; \
            GWB_EACH4 column[i] = GWB_SRC_LOG2_H ? wy[r][0] * c[0][i] + wy[r][1] * c[1][i] + wy[r][2] * c[2][i] : 4 * c[1 + r][i]; \
            GWB_EACH4 gwb_unpack_chroma(wx[i & 1][0] * column[i / 2] + wx[i & 1][1] * column[i / 2 + 1] + wx[i & 1][2] * column[i / 2 + 2], &p[r][i]); \
        } \
    }

// Stores component V of a row's pixels, in a plane.
#define GWB_TILE_TO_PLANE(KIND, PLANE, OFFSET, SHIFT, LIMIT, V) \
    do { \
        float v[GWB_TILES]; \
        GWB_UNROLL \
        for (int i = 0; i < GWB_TILES; i++) \
            v[i] = V; \
        GWB_UNROLL \
        for (int i = 0; i < GWB_TILES; i += 4) \
            gwb_store_run(KIND, 4, GWB_TO(PLANE, gwb_kind_size(KIND), OFFSET) + i * gwb_kind_size(KIND), SHIFT, LIMIT, v + i); \
    } while (0)

// Two rows of a warp's pixels that interleave their samples, from x0 on. Lane i holds pixels GWB_TILES * i and on from there, their samples in v; `lanes`
// lanes count.
template <int KIND, int LANES> GWB_FN void gwb_tile_lanes(const gwb_pipe_at *g, int x0, int y, int lane, int lanes, int shift, float limit,
    const float v[2][GWB_TILES * LANES])
{
    enum { SIZE = KIND == GWB_SAMPLE_U8 ? 1 : KIND == GWB_SAMPLE_F32 ? 4 : 2, WORDS = GWB_TILES / 4 * LANES * SIZE };
    uint32_t w[2][WORDS];
    GWB_UNROLL
    for (int r = 0; r < 2; r++)
        GWB_UNROLL
        for (int i = 0; i < GWB_TILES / 4 * LANES; i++)
            if (KIND == GWB_SAMPLE_U8)
                w[r][i] = gwb_code_bytes(GWB_FINITE, v[r][4 * i], v[r][4 * i + 1], v[r][4 * i + 2], v[r][4 * i + 3]);
            else
                gwb_run_words(KIND, 4, shift, limit, v[r] + 4 * i, w[r] + i * SIZE);
    gwb_store_warp<WORDS, 2, WORDS>(g->item->dst[0], g->item->dst_step[0], y, x0 * LANES * SIZE, lane, lanes, w);
}

#endif
