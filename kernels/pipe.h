// SPDX-License-Identifier: MIT
// How a pipeline reads its source, puts several pixels together, and stores: the same on the host, which runs a pass link by link over lists of
// pixels (src/host/pipe.c), and in a generated kernel (pipe_links.h).
#ifndef GWB_KERNEL_PIPE_H
#define GWB_KERNEL_PIPE_H

#include "stages.h"

#include "run.h"
#include "sample.h"

// What a pixel is worked out from.
typedef struct gwb_pipe_at {
    const gwb_pipe_stage *stage;
    const gwb_pipe_shape *shape;
    const gwb_pipe_item *item;
} gwb_pipe_at;

// ---- the source

GWB_FN const uint8_t *gwb_pipe_row(const gwb_pipe_item *item, int plane, int y)
{
    return item->src[plane] + (int64_t)item->src_step[plane] * y;
}

GWB_FN float gwb_pipe_sample(const gwb_pipe_side *s, const gwb_pipe_item *item, int k, int x, int y)
{
    const uint8_t *row = gwb_pipe_row(item, s->plane[k], y);
    const int v210 = s->kind == GWB_SAMPLE_V210;
    return gwb_load_sample(s->kind, v210 ? row : row + s->offset[k], x, s->pitch[k], v210 ? s->offset[k] : 0, s->shift[k], s->mask[k]);
}

// The low `phase_bits` bits of an output's number choose its weights. Selected rather than indexed, so that known weights vanish from the code.
GWB_FN int gwb_tap_base(const gwb_taps *t, int phase)
{
    return phase & 2 ? (phase & 1 ? t->base[3] : t->base[2]) : phase & 1 ? t->base[1] : t->base[0];
}

GWB_FN float gwb_tap_weight(const gwb_taps *t, int phase, int i)
{
    return phase & 2 ? (phase & 1 ? t->weight[3][i] : t->weight[2][i]) : phase & 1 ? t->weight[1][i] : t->weight[0][i];
}

GWB_FN int gwb_tap_phase(const gwb_taps *t, int i)
{
    return i & ((1 << t->phase_bits) - 1);
}

GWB_FN int gwb_tap_first(const gwb_taps *t, int i)
{
    return (i >> t->phase_bits) * t->scale + gwb_tap_base(t, gwb_tap_phase(t, i));
}

// Components 1 and 2 of chroma sample (x, y). `wide`: addresses allow a pair to be loaded at once.
GWB_FN void gwb_pipe_pair(const gwb_pipe_side *s, int wide, const gwb_pipe_item *item, int x, int y, float c[2])
{
    if (wide && s->pairs) {
        const int size = gwb_kind_size(s->kind), first = s->offset[1] < s->offset[2] ? 1 : 2;
        float both[2];
        gwb_load_run(s->kind, 2, gwb_pipe_row(item, s->plane[1], y) + s->offset[first] + (int64_t)x * (2 * size), s->shift[1], s->mask[1], both);
        c[0] = first == 1 ? both[0] : both[1];
        c[1] = first == 1 ? both[1] : both[0];
        return;
    }
    c[0] = s->components & 2 ? gwb_pipe_sample(s, item, 1, x, y) : 0.0f;
    c[1] = s->components & 4 ? gwb_pipe_sample(s, item, 2, x, y) : 0.0f;
}

// Components 1 and 2 at output (x, y) of the taps, from the source's chroma samples: as gwb_resample does, first down each column.
GWB_FN void gwb_pipe_chroma(const gwb_pipe_side *s, int wide, const gwb_taps *tx, const gwb_taps *ty, const gwb_pipe_at *g, int x, int y, gwb_px *p)
{
    const int last_x = (g->shape->src_width - 1) >> s->log2_w, last_y = (g->shape->src_height - 1) >> s->log2_h;
    const int px = gwb_tap_phase(tx, x), py = gwb_tap_phase(ty, y), x0 = gwb_tap_first(tx, x), y0 = gwb_tap_first(ty, y);
    GWB_UNROLL
    for (int i = 0; i < tx->count; i++) {
        float v[2] = {0.0f, 0.0f}, c[2];
        GWB_UNROLL
        for (int j = 0; j < ty->count; j++) {
            gwb_pipe_pair(s, wide, g->item, gwb_clamp(x0 + i, last_x), gwb_clamp(y0 + j, last_y), c);
            const float w = gwb_tap_weight(ty, py, j);
            v[0] = j == 0 ? w * c[0] : v[0] + w * c[0];
            v[1] = j == 0 ? w * c[1] : v[1] + w * c[1];
        }
        const float w = gwb_tap_weight(tx, px, i);
        p->c[1] = i == 0 ? w * v[0] : p->c[1] + w * v[0];
        p->c[2] = i == 0 ? w * v[1] : p->c[2] + w * v[1];
    }
}

// ---- one pixel from several

GWB_FN gwb_px gwb_pipe_zero(void)
{
    gwb_px p = {{0.0f, 0.0f, 0.0f, 0.0f}};
    return p;
}

GWB_FN gwb_px gwb_pipe_scaled(gwb_px p, float w)
{
    for (int k = 0; k < 4; k++)
        p.c[k] = w * p.c[k];
    return p;
}

GWB_FN gwb_px gwb_pipe_add(gwb_px sum, gwb_px p, float w)
{
    for (int k = 0; k < 4; k++)
        sum.c[k] = sum.c[k] + w * p.c[k];
    return sum;
}

// The same with one rounding, for the taps of a resize. (Chroma is averaged as conversions do it.)
GWB_FN gwb_px gwb_pipe_tap(gwb_px sum, gwb_px p, float w)
{
    for (int k = 0; k < 4; k++)
        sum.c[k] = gwb_fma(w, p.c[k], sum.c[k]);
    return sum;
}

GWB_FN gwb_px gwb_pipe_bilinear(gwb_px p00, gwb_px p10, gwb_px p01, gwb_px p11, float tx, float ty)
{
    return gwb_between(gwb_between(p00, p10, tx), gwb_between(p01, p11, tx), ty);
}

// ---- the destination

// The same bits for every NaN, since devices make different ones.
GWB_FN float gwb_pipe_number(float v)
{
    return v == v ? v : gwb_float_from_bits(0x7fc00000u);
}

// Component k of a pixel of the result as it is stored: padding is ones.
GWB_FN float gwb_pipe_component(gwb_px p, int k, int kind, int ones, float limit)
{
    const float v = k == 3 && ones ? limit : p.c[k];
    return kind == GWB_SAMPLE_F32 ? gwb_pipe_number(v) : v;
}

// Stores component k, which shares no word with another.
GWB_FN void gwb_pipe_store(const gwb_pipe_side *d, float limit, const gwb_pipe_item *item, int k, int x, int y, float value)
{
    uint8_t *row = item->dst[d->plane[k]] + (int64_t)item->dst_step[d->plane[k]] * y + d->offset[k];
    gwb_store_sample(d->kind, row, x, d->pitch[k], d->shift[k], limit, value);
}

// Adds component k of sample x to the words of its group.
GWB_FN void gwb_pipe_collect(const gwb_pipe_side *d, float limit, int k, int x, float value, uint32_t word[4])
{
    const uint32_t code = gwb_code(value, limit);
    if (d->kind == GWB_SAMPLE_V210) {
        const int slot = (x * d->pitch[k] + d->offset[k]) % 12;
        GWB_UNROLL
        for (int w = 0; w < 4; w++)     // a loop, so that the words stay in registers
            word[w] |= w == slot / 3 ? code << slot % 3 * 10 : 0;
    } else {
        word[0] |= code << d->shift[k];
    }
}

GWB_FN void gwb_pipe_put_words(const gwb_pipe_side *d, const gwb_pipe_item *item, int x, int y, const uint32_t word[4])
{
    uint8_t *row = item->dst[0] + (int64_t)item->dst_step[0] * y;
    if (d->kind == GWB_SAMPLE_U16) {
        ((uint16_t *)row)[x] = (uint16_t)word[0];
    } else if (d->kind == GWB_SAMPLE_U32) {
        ((uint32_t *)row)[x] = word[0];
    } else {
        GWB_UNROLL
        for (int w = 0; w < 4; w++)
            ((uint32_t *)row)[(int64_t)x / 6 * 4 + w] = word[w];
    }
}

#endif
