// SPDX-License-Identifier: MIT
// Loops over runs of samples, compiled for several instruction sets; the processor's best is taken. The arithmetic of a sample is the kernels'.
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

// ---- samples apart

INLINE void gather(int kind, int pitch, const uint8_t *restrict row, int64_t x0, int lane, int shift, int mask, int n, float *restrict out)
{
    for (int i = 0; i < n; i++)
        out[i] = gwb_load_sample(kind, row, x0 + i, pitch, lane, shift, mask);
}

GWB_CLONES void gwb_rows_gather(const gwb_samples *s, int kind, const uint8_t *row, int64_t x0, int n, float *out)
{
#define GATHER(k, p) if (kind == (k) && s->pitch == (p)) gather(k, p, row, x0, s->lane, s->shift, s->mask, n, out); else
    GATHER(GWB_SAMPLE_U8, 2)
    GATHER(GWB_SAMPLE_U8, 4)
    GATHER(GWB_SAMPLE_U16, 4)
    GATHER(GWB_SAMPLE_U16, 8)
    gather(kind, s->pitch, row, x0, s->lane, s->shift, s->mask, n, out);
}

GWB_CLONES void gwb_rows_scatter(const gwb_samples *s, int kind, uint8_t *row, int64_t x0, float limit, int n, const float *in)
{
    if (kind == GWB_SAMPLE_V210) {
        for (int i = 0; i < n; i++) {
            const int64_t slot = (x0 + i) * s->pitch + s->lane;
            uint32_t *word = (uint32_t *)row + slot / 3;
            const int shift = (int)(slot % 3) * 10;
            *word |= gwb_code(in[i], limit) << shift;
        }
        return;
    }
    for (int i = 0; i < n; i++)
        gwb_store_sample(kind, row, x0 + i, s->pitch, s->shift, limit, in[i]);
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

// All phases of an enlarging resampling with two taps: whole periods from q0.
INLINE void enlarge(int phases, const gwb_taps *t, const float *restrict in, int low, int q0, int periods, float *restrict out)
{
    int at[GWB_PHASES];
    for (int p = 0; p < phases; p++)
        at[p] = q0 + t->base[p] - low;
    for (int q = 0; q < periods; q++)
        for (int p = 0; p < phases; p++)
            out[q * phases + p] = t->weight[p][0] * in[at[p] + q] + t->weight[p][1] * in[at[p] + q + 1];
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
    if (t->count == 2 && i0 % phases == 0) {
        whole = n / phases;
        if (phases == 2)
            enlarge(2, t, in, low, i0 / 2, whole, out);
        else
            enlarge(4, t, in, low, i0 / 4, whole, out);
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

GWB_CLONES void gwb_rows_demosaic(const float *const rows[5], int red, int bilinear, int x0, int y, int n, float *const c[3])
{
    const float *restrict a = rows[0], *restrict b = rows[1], *restrict m = rows[2], *restrict d = rows[3], *restrict e = rows[4];
    float *restrict r = c[0], *restrict g = c[1], *restrict u = c[2];
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

GWB_CLONES void gwb_rows_dither(int dither, int x0, int y, int n, float *restrict value)
{
    if (dither == GWB_DITHER_BLUE_NOISE)
        for (int i = 0; i < n; i++)
            value[i] = value[i] + gwb_dither_offset(GWB_DITHER_BLUE_NOISE, x0 + i, y);
    else
        for (int i = 0; i < n; i++)
            value[i] = value[i] + gwb_dither_offset(GWB_DITHER_ORDERED, x0 + i, y);
}

GWB_CLONES void gwb_rows_light(const gwb_mix *mix, const gwb_light *light, int n, float *const c[3])
{
    for (int i = 0; i < n; i++) {
        float rgb[3];
        for (int k = 0; k < 3; k++)
            rgb[k] = gwb_mix_one(mix, k, c[0][i], c[1][i], c[2][i]);
        gwb_convert_light(light, rgb);
        for (int k = 0; k < 3; k++)
            c[k][i] = rgb[k];
    }
}
