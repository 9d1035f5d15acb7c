// SPDX-License-Identifier: MIT
// Loops over runs of samples, compiled for several instruction sets; the processor's best is taken. The arithmetic of a sample is the kernels'.
// Nobody traps and nobody reads errno: values may be computed that a condition then drops, which vectors need. No result changes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math", "no-math-errno")
#endif

#include "host/convert_rows.h"

#include "host/clones.h"

#include "colour.h"
#include "dither.h"
#include "mosaic.h"
#include "store.h"
#include "transfer.h"

#define INLINE static inline __attribute__((always_inline))

INLINE int size_of(int kind)
{
    return kind == GWB_SAMPLE_U8 ? 1 : kind == GWB_SAMPLE_U16 || kind == GWB_SAMPLE_F16 ? 2 : 4;
}

// ---- interleaved samples

INLINE void unpack(int kind, int channels, const uint8_t *restrict p, int shift, int mask, int n, float *restrict a, float *restrict b,
    float *restrict c, float *restrict d)
{
    const int size = size_of(kind);
    for (int i = 0; i < n; i++) {
        a[i] = gwb_load_sample(kind, p, (int64_t)i * channels, size, 0, shift, mask);
        if (channels > 1)
            b[i] = gwb_load_sample(kind, p, (int64_t)i * channels + 1, size, 0, shift, mask);
        if (channels > 2)
            c[i] = gwb_load_sample(kind, p, (int64_t)i * channels + 2, size, 0, shift, mask);
        if (channels > 3)
            d[i] = gwb_load_sample(kind, p, (int64_t)i * channels + 3, size, 0, shift, mask);
    }
}

INLINE void pack(int kind, int channels, uint8_t *restrict p, int shift, float limit, int n, const float *restrict a, const float *restrict b,
    const float *restrict c, const float *restrict d)
{
    const int size = size_of(kind);
    for (int i = 0; i < n; i++) {
        gwb_store_sample(kind, p, (int64_t)i * channels, size, shift, limit, a[i]);
        if (channels > 1)
            gwb_store_sample(kind, p, (int64_t)i * channels + 1, size, shift, limit, b[i]);
        if (channels > 2)
            gwb_store_sample(kind, p, (int64_t)i * channels + 2, size, shift, limit, c[i]);
        if (channels > 3)
            gwb_store_sample(kind, p, (int64_t)i * channels + 3, size, shift, limit, d[i]);
    }
}

#define CASE(kind, n, call) case (kind) * 8 + (n): call(kind, n, p, shift, range, count, ch[0], ch[1], ch[2], ch[3]); break;
#define CASES(kind, call) CASE(kind, 1, call) CASE(kind, 2, call) CASE(kind, 3, call) CASE(kind, 4, call)

GWB_CLONES void gwb_rows_unpack(int kind, int channels, const uint8_t *p, int shift, int range, int count, float *const ch[4])
{
    switch (kind * 8 + channels) {
    CASES(GWB_SAMPLE_U8, unpack)
    CASES(GWB_SAMPLE_U16, unpack)
    CASE(GWB_SAMPLE_U32, 1, unpack)
    CASES(GWB_SAMPLE_F16, unpack)
    CASES(GWB_SAMPLE_F32, unpack)
    }
}

GWB_CLONES void gwb_rows_pack(int kind, int channels, uint8_t *p, int shift, float range, int count, const float *const ch[4])
{
    switch (kind * 8 + channels) {
    CASES(GWB_SAMPLE_U8, pack)
    CASES(GWB_SAMPLE_U16, pack)
    CASES(GWB_SAMPLE_F16, pack)
    CASES(GWB_SAMPLE_F32, pack)
    }
}

// ---- samples that share words

// Every `pitch`-th slot from slot `first` of the words; in 32 bits, so that it is vectorised.
INLINE void gather_v210(const uint32_t *restrict words, uint32_t first, uint32_t pitch, int n, float *restrict out)
{
    for (int i = 0; i < n; i++) {
        const uint32_t slot = first + (uint32_t)i * pitch, word = slot / 3;
        out[i] = gwb_small_float(words[word] >> (slot - 3 * word) * 10 & 1023);
    }
}

GWB_CLONES void gwb_rows_unpack_v210(const gwb_samples *s, const uint8_t *row, int64_t x0, int n, float *out)
{
    const int64_t slot = x0 * s->pitch + s->lane;
    gather_v210((const uint32_t *)row + slot / 3, (uint32_t)(slot % 3), (uint32_t)s->pitch, n, out);
}

INLINE void pack_words(const gwb_samples *s, int kind, uint8_t *restrict p, const float *limit, int n, const float *restrict a,
    const float *restrict b, const float *restrict c, uint32_t fill)
{
    const int s0 = s[0].shift, s1 = s[1].shift, s2 = s[2].shift;
    const float l0 = limit[0], l1 = limit[1], l2 = limit[2];
    for (int i = 0; i < n; i++) {
        const uint32_t word = gwb_code(a[i], l0) << s0 | gwb_code(b[i], l1) << s1 | gwb_code(c[i], l2) << s2 | fill;
        if (kind == GWB_SAMPLE_U16)
            ((uint16_t *)p)[i] = (uint16_t)word;
        else
            ((uint32_t *)p)[i] = word;
    }
}

GWB_CLONES void gwb_rows_pack_words(const gwb_samples *s, int kind, uint8_t *p, const float *limit, int n, const float *const *in, float fill)
{
    const uint32_t bits = s[3].data ? gwb_code(fill, limit[3]) << s[3].shift : 0;
    if (kind == GWB_SAMPLE_U16)
        pack_words(s, GWB_SAMPLE_U16, p, limit, n, in[0], in[1], in[2], bits);
    else
        pack_words(s, GWB_SAMPLE_U32, p, limit, n, in[0], in[1], in[2], bits);
}

GWB_CLONES void gwb_rows_pack_v210(uint32_t *restrict p, float limit, int groups, const float *restrict y, const float *restrict u,
    const float *restrict v)
{
    for (int i = 0; i < groups; i++, p += 4, y += 6, u += 3, v += 3) {
        uint32_t slot[12];
        for (int k = 0; k < 6; k++)
            slot[2 * k + 1] = gwb_code(y[k], limit);
        for (int k = 0; k < 3; k++) {
            slot[4 * k] = gwb_code(u[k], limit);
            slot[4 * k + 2] = gwb_code(v[k], limit);
        }
        for (int k = 0; k < 4; k++)
            p[k] = slot[3 * k] | slot[3 * k + 1] << 10 | slot[3 * k + 2] << 20;
    }
}

GWB_CLONES void gwb_rows_split(const float *restrict in, int pairs, float *restrict even, float *restrict odd)
{
    for (int i = 0; i < pairs; i++) {
        even[i] = in[2 * i];
        odd[i] = in[2 * i + 1];
    }
}

// ---- arithmetic

GWB_CLONES void gwb_rows_add(float *restrict sum, const float *restrict in, float weight, int first, int n)
{
    if (first)
        for (int i = 0; i < n; i++)
            sum[i] = weight * in[i];
    else
        for (int i = 0; i < n; i++)
            sum[i] = sum[i] + weight * in[i];
}

// All phases of an enlarging resampling with one or two taps: whole periods from q0.
INLINE void enlarge(int phases, int taps, const gwb_taps *t, const float *restrict in, int low, int q0, int periods, float *restrict out)
{
    int at[GWB_PHASES];
    for (int p = 0; p < phases; p++)
        at[p] = q0 + t->base[p] - low;
    for (int q = 0; q < periods; q++)
        for (int p = 0; p < phases; p++)
            out[q * phases + p] = taps == 1 ? t->weight[p][0] * in[at[p] + q]
                : t->weight[p][0] * in[at[p] + q] + t->weight[p][1] * in[at[p] + q + 1];
}

INLINE void shrink(int scale, const gwb_taps *t, const float *restrict in, int n, float *restrict out)
{
    const float *w = t->weight[0];
    for (int i = 0; i < n; i++)
        out[i] = w[0] * in[i * scale];
    for (int k = 1; k < t->count; k++)
        for (int i = 0; i < n; i++)
            out[i] = out[i] + w[k] * in[i * scale + k];
}

GWB_CLONES void gwb_rows_resample(const gwb_taps *t, const float *in, int low, int i0, int n, float *out)
{
    if (t->phase_bits == 0) {
        in += (int64_t)i0 * t->scale + t->base[0] - low;
        if (t->scale == 1)
            shrink(1, t, in, n, out);
        else if (t->scale == 2)
            shrink(2, t, in, n, out);
        else
            shrink(4, t, in, n, out);
        return;
    }
    const int phases = 1 << t->phase_bits;
    int whole = 0;
    if (t->count <= 2 && i0 % phases == 0) {
        whole = n / phases;
        if (phases == 2 && t->count == 2)
            enlarge(2, 2, t, in, low, i0 / 2, whole, out);
        else if (phases == 2)
            enlarge(2, 1, t, in, low, i0 / 2, whole, out);
        else if (t->count == 2)
            enlarge(4, 2, t, in, low, i0 / 4, whole, out);
        else
            enlarge(4, 1, t, in, low, i0 / 4, whole, out);
    }
    for (int i = whole * phases; i < n; i++) {
        const float *w = t->weight[(i0 + i) & (phases - 1)];
        const float *v = in + gwb_taps_first(t, i0 + i) - low;
        out[i] = w[0] * v[0];
        for (int k = 1; k < t->count; k++)
            out[i] = out[i] + w[k] * v[k];
    }
}

GWB_CLONES void gwb_rows_blend(float *restrict value, float background, const float *restrict alpha, float scale, int n)
{
    for (int i = 0; i < n; i++)
        value[i] = gwb_blend(value[i], background, alpha[i] * scale);
}

GWB_CLONES void gwb_rows_scale(const float *restrict in, float scale, int n, float *restrict out)
{
    for (int i = 0; i < n; i++)
        out[i] = in[i] * scale;
}

GWB_CLONES void gwb_rows_mix(const gwb_mix *mix, int row, const float *const c[3], int n, float *restrict out)
{
    const gwb_mix m = *mix;
    const float *restrict a = c[0], *restrict b = c[1], *restrict d = c[2];
    if (m.diagonal)
        for (int i = 0; i < n; i++)
            out[i] = gwb_mix_diagonal(&m, row, c[row][i]);
    else
        for (int i = 0; i < n; i++)
            out[i] = gwb_mix_one(&m, row, a[i], b[i], d[i]);
}

INLINE void demosaic(int bilinear, const float *restrict a, const float *restrict b, const float *restrict m, const float *restrict d,
    const float *restrict e, int red, int x0, int y, int n, float *restrict r, float *restrict g, float *restrict u)
{
    for (int i = 0; i < n; i++) {
        const gwb_around around = {
            .self = m[i], .row = m[i - 1] + m[i + 1], .column = b[i] + d[i], .corners = (b[i - 1] + b[i + 1]) + (d[i - 1] + d[i + 1]),
            .far_row = m[i - 2] + m[i + 2], .far_column = a[i] + e[i],
        };
        float rgb[3];
        gwb_demosaic(&around, gwb_mosaic_site(red, x0 + i, y), bilinear, rgb);
        r[i] = rgb[0], g[i] = rgb[1], u[i] = rgb[2];
    }
}

GWB_CLONES void gwb_rows_demosaic(const float *const rows[5], int red, int bilinear, int x0, int y, int n, float *const c[3])
{
    if (bilinear)
        demosaic(1, rows[0], rows[1], rows[2], rows[3], rows[4], red, x0, y, n, c[0], c[1], c[2]);
    else
        demosaic(0, rows[0], rows[1], rows[2], rows[3], rows[4], red, x0, y, n, c[0], c[1], c[2]);
}

GWB_CLONES void gwb_rows_dither(int dither, int x0, int y, int n, float *restrict value)
{
    if (dither == GWB_DITHER_BLUE_NOISE)
        for (int i = 0; i < n; i++)
            value[i] = value[i] + gwb_dither_offset(GWB_DITHER_BLUE_NOISE, x0 + i, y);
    else
        for (int i = 0; i < n; i++)
            value[i] = value[i] + gwb_dither_offset(GWB_DITHER_ORDERED, x0 + i, y);
}

INLINE void curve(const gwb_curve *curve, int kind, int to_linear, int n, float *restrict v)
{
    const gwb_curve c = {kind, curve->gamma};
    for (int i = 0; i < n; i++)
        v[i] = to_linear ? gwb_to_linear(&c, v[i]) : gwb_from_linear(&c, v[i]);
}

INLINE void all_curves(const gwb_curve *c, int to_linear, int n, float *v)
{
    switch (c->kind) {
    case GWB_CURVE_POWER: curve(c, GWB_CURVE_POWER, to_linear, n, v); break;
    case GWB_CURVE_SRGB: curve(c, GWB_CURVE_SRGB, to_linear, n, v); break;
    case GWB_CURVE_PQ: curve(c, GWB_CURVE_PQ, to_linear, n, v); break;
    case GWB_CURVE_HLG: curve(c, GWB_CURVE_HLG, to_linear, n, v); break;
    }
}

// What a stage does to a pixel, over a run of them.
#define PIXELS(stage) \
    for (int i = 0; i < n; i++) { \
        float c[3] = {r[i], g[i], b[i]}; \
        stage; \
        r[i] = c[0], g[i] = c[1], b[i] = c[2]; \
    }

INLINE void ootf(const float *luma, int inverse, int n, float *restrict r, float *restrict g, float *restrict b)
{
    const float weights[3] = {luma[0], luma[1], luma[2]};
    PIXELS(gwb_hlg_ootf(weights, inverse, c))
}

INLINE void tone(int kind, float peak, int n, float *restrict r, float *restrict g, float *restrict b)
{
    PIXELS(gwb_tone_map(kind, peak, c))
}

GWB_CLONES void gwb_rows_light(const gwb_light *light, int n, float *restrict r, float *restrict g, float *restrict b)
{
    const gwb_light l = *light;
    all_curves(&l.from, 1, n, r);
    all_curves(&l.from, 1, n, g);
    all_curves(&l.from, 1, n, b);
    if (l.from.kind == GWB_CURVE_HLG)
        ootf(l.from_luma, 0, n, r, g, b);
    PIXELS(gwb_change_primaries(&l, c))
    if (l.tone == GWB_TONE_BT2390)
        tone(GWB_TONE_BT2390, l.peak, n, r, g, b);
    else if (l.tone == GWB_TONE_REINHARD)
        tone(GWB_TONE_REINHARD, l.peak, n, r, g, b);
    else if (l.tone == GWB_TONE_HABLE)
        tone(GWB_TONE_HABLE, l.peak, n, r, g, b);
    if (l.to.kind == GWB_CURVE_HLG)
        ootf(l.to_luma, 1, n, r, g, b);
    all_curves(&l.to, 0, n, r);
    all_curves(&l.to, 0, n, g);
    all_curves(&l.to, 0, n, b);
}
