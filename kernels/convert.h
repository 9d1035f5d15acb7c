// SPDX-License-Identifier: MIT
// Any pixel format to any other, one block of the destination at a time.
#ifndef GWB_KERNEL_CONVERT_H
#define GWB_KERNEL_CONVERT_H

#include "colour.h"
#include "dither.h"
#include "mosaic.h"
#include "store.h"
#include "transfer.h"

// The source's components at pixel (x, y), alpha in c[3]. A component that is not needed is `zero`, where its contribution is none.
GWB_FN void gwb_fetch_codes(const gwb_convert_args *a, int x, int y, int needs, const float *zero, float *c)
{
    const int sub = a->src_log2_w | a->src_log2_h;
    if (a->mosaic) {
        gwb_demosaic_at(a->src_kind, &a->src[0], a->width, a->height, a->red, a->bilinear, x, y, c);
        for (int i = 0; i < 3; i++)
            c[i] = needs >> i & 1 ? c[i] : zero[i];
        c[3] = 0.0f;
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (!(needs >> i & 1))
            c[i] = zero[i];
        else if (i == 0 || !sub)
            c[i] = gwb_sample_at(a->src_kind, &a->src[i], x, y);
        else
            c[i] = gwb_resample(a->src_kind, &a->src[i], &a->up_x, &a->up_y, x, y);
    }
    c[3] = a->src[3].data ? gwb_sample_at(a->src_kind, &a->src[3], x, y) : 0.0f;
    if (a->blend_scale != 0.0f)
        for (int i = 0; i < 3; i++)
            if (needs >> i & 1)
                c[i] = gwb_blend(c[i], a->background[i], c[3] * a->blend_scale);
}

// The same in the destination's light: R G B, where that differs from the source's.
GWB_FN void gwb_fetch(const gwb_convert_args *a, int x, int y, int needs, float *c)
{
    if (!a->light.on) {
        gwb_fetch_codes(a, x, y, needs, a->mix.from, c);
        return;
    }
    float code[4], rgb[3];
    gwb_fetch_codes(a, x, y, a->source_needs, a->source_mix.from, code);
    for (int i = 0; i < 3; i++)
        rgb[i] = gwb_mix_one(&a->source_mix, i, code[0], code[1], code[2]);
    gwb_convert_light(&a->light, rgb);
    c[0] = rgb[0], c[1] = rgb[1], c[2] = rgb[2], c[3] = code[3];
}

// The source's components at chroma sample (x, y) of the destination.
GWB_FN void gwb_fetch_chroma(const gwb_convert_args *a, int x, int y, float *c)
{
    for (int i = 0; i < 3; i++)
        c[i] = a->mix.from[i];
    if ((a->src_log2_w | a->src_log2_h) && !a->light.on) {      // from grid to grid; luma never takes part
        const float alpha = a->blend_scale != 0.0f ? gwb_resample(a->src_kind, &a->src[3], &a->alpha_x, &a->alpha_y, x, y) : 0.0f;
        for (int i = 1; i < 3; i++) {
            if (!(a->chroma_needs >> i & 1))
                continue;
            c[i] = gwb_resample(a->src_kind, &a->src[i], &a->down_x, &a->down_y, x, y);
            if (a->blend_scale != 0.0f)
                c[i] = gwb_blend(c[i], a->background[i], alpha * a->blend_scale);
        }
        return;
    }
    if (!a->chroma_needs)
        return;
    const gwb_taps *tx = &a->down_x, *ty = &a->down_y;
    const int x0 = gwb_taps_first(tx, x), y0 = gwb_taps_first(ty, y);
    float sum[3] = {0.0f, 0.0f, 0.0f};
    for (int i = 0; i < tx->count; i++) {
        float v[3] = {0.0f, 0.0f, 0.0f};
        for (int j = 0; j < ty->count; j++) {
            float pixel[4];
            gwb_fetch(a, gwb_clamp(x0 + i, tx->last), gwb_clamp(y0 + j, ty->last), a->chroma_needs, pixel);
            for (int k = 0; k < 3; k++)
                v[k] = j == 0 ? ty->weight[0][0] * pixel[k] : v[k] + ty->weight[0][j] * pixel[k];
        }
        for (int k = 0; k < 3; k++)
            sum[k] = i == 0 ? tx->weight[0][0] * v[k] : sum[k] + tx->weight[0][i] * v[k];
    }
    for (int k = 0; k < 3; k++)
        if (a->chroma_needs >> k & 1)
            c[k] = sum[k];
}

// Component i of the destination from the source's components.
GWB_FN float gwb_convert_component(const gwb_convert_args *a, int i, const float *c)
{
    if (i == 3)
        return a->alpha_scale != 0.0f ? c[3] * a->alpha_scale : a->alpha_fill;
    return a->mix.diagonal ? gwb_mix_diagonal(&a->mix, i, c[i]) : gwb_mix_one(&a->mix, i, c[0], c[1], c[2]);
}

// Stores a sample, or adds it to the words of its group.
GWB_FN void gwb_put(const gwb_convert_args *a, int i, int x, int y, float value, uint32_t *word)
{
    const gwb_samples *d = &a->dst[i];
    if (a->dither && i < 3)
        value = value + gwb_dither_offset(a->dither, x, y);
    if (!a->word) {
        gwb_store_sample(a->dst_kind, d->data + d->step * y, x, d->pitch, d->shift, a->limit[i], value);
        return;
    }
    const uint32_t code = gwb_code(value, a->limit[i]);
    if (a->dst_kind == GWB_SAMPLE_V210) {
        const int slot = (x * d->pitch + d->lane) % 12;
        for (int w = 0; w < 4; w++)     // a loop, so that the words stay in registers
            word[w] |= w == slot / 3 ? code << slot % 3 * 10 : 0;
    } else {
        word[0] |= code << d->shift;
    }
}

GWB_FN void gwb_put_words(const gwb_convert_args *a, int x, int y, const uint32_t *word)
{
    uint8_t *row = a->dst[0].data + a->dst[0].step * y;
    if (a->dst_kind == GWB_SAMPLE_U16) {
        ((uint16_t *)row)[x] = (uint16_t)word[0];
    } else if (a->dst_kind == GWB_SAMPLE_U32) {
        ((uint32_t *)row)[x] = word[0];
    } else {
        for (int w = 0; w < 4; w++)
            ((uint32_t *)row)[(int64_t)x / 6 * 4 + w] = word[w];
    }
}

// Block (bx, by): block_w x block_h pixels and the chroma samples among them. Where a group sticks out of the picture, its last pixel is repeated.
GWB_FN void gwb_convert_block(const gwb_convert_args *a, int bx, int by)
{
    const int sub = a->dst_log2_w | a->dst_log2_h;
    const int x0 = bx * a->block_w, y0 = by * a->block_h;
    const int row_end = (a->width + a->group - 1) / a->group * a->group;
    const int x1 = row_end - x0 < a->block_w ? row_end : x0 + a->block_w;
    const int y1 = a->height - y0 < a->block_h ? a->height : y0 + a->block_h;
    uint32_t word[4] = {0, 0, 0, 0};
    float c[4];
    if (sub) {
        const int last = (a->width - 1) >> a->dst_log2_w;
        for (int x = x0 >> a->dst_log2_w; x <= (x1 - 1) >> a->dst_log2_w; x++) {
            gwb_fetch_chroma(a, x < last ? x : last, by, c);
            for (int i = 1; i < 3; i++)
                gwb_put(a, i, x, by, gwb_convert_component(a, i, c), word);
        }
    }
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++) {
            gwb_fetch(a, x < a->width ? x : a->width - 1, y, a->luma_needs, c);
            for (int i = 0; i < 4; i++)
                if (a->dst[i].data && (i == 0 || i == 3 || !sub))
                    gwb_put(a, i, x, y, gwb_convert_component(a, i, c), word);
        }
    if (a->word)
        gwb_put_words(a, x0, y0, word);
}

// A work item: a block, whose rows are counted in bands.
GWB_FN void gwb_convert_item(const gwb_convert_args *a, int x, int y, int band)
{
    const int64_t by = (int64_t)band * GWB_BAND + y + a->first_y;
    if (by < ((int64_t)a->height + a->block_h - 1) / a->block_h)
        gwb_convert_block(a, x + a->first_x, (int)by);
}

#endif
