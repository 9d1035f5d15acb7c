// SPDX-License-Identifier: MIT
// 4:2:0 and 4:4:4 to R, G and B, four pixels of two rows a thread: the conversions that video asks for most, with as few instructions as it takes,
// since on a GPU those and not the memory bound them. The bits are those of convert.h: chroma of 12 bits or less is resampled exactly, so in whole numbers as
// well as in floats, sixteen times as large; and a product with a zero of the matrix changes no sum. src/convert_plan.c says where it holds.
#ifndef GWB_KERNEL_YUV_RGB_H
#define GWB_KERNEL_YUV_RGB_H

#include "convert.h"
#include "run.h"

// Byte i of the result is byte (selector >> 4 * i & 7) of a (0..3) and b (4..7).
GWB_FN uint32_t gwb_permute(uint32_t a, uint32_t b, uint32_t selector)
{
#if defined(__CUDACC__)
    return __byte_perm(a, b, selector);
#else
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= (uint32_t)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return r;
#endif
}

// Chroma samples x - 1 .. x + 2, x even, of the rows that begin at pu and pv: U in the low half of each word, V in the high half. The first one and the
// last are read where `first` and `end` say so.
GWB_FN void gwb_yuv_rgb_chroma(const gwb_convert_args *a, int kind, int pairs, const uint8_t *pu, const uint8_t *pv, int x, bool first, bool end, uint32_t c[4])
{
    const int last = a->up_x.last, before = x > 0 ? x - 1 : 0, behind = x + 2 <= last ? x + 2 : last, lane = a->src[1].lane;
    c[0] = c[3] = 0;
    if (kind == GWB_SAMPLE_U8 && pairs) {
        const uint32_t odd = lane ? 0x4041 : 0x4140, even = lane ? 0x4243 : 0x4342, w = *(const uint32_t *)(pu + 2 * x);
        c[1] = gwb_permute(w, 0, odd);
        c[2] = gwb_permute(w, 0, even);
        if (first)
            c[0] = gwb_permute(*(const uint16_t *)(pu + 2 * before), 0, odd);
        if (end)
            c[3] = gwb_permute(*(const uint16_t *)(pu + 2 * behind), 0, odd);
    } else if (kind == GWB_SAMPLE_U8) {
        const uint32_t w = *(const uint16_t *)(pu + x) | (uint32_t)*(const uint16_t *)(pv + x) << 16;
        c[1] = w & 0x00ff00ff;
        c[2] = w >> 8 & 0x00ff00ff;
        if (first)
            c[0] = pu[before] | (uint32_t)pv[before] << 16;
        if (end)
            c[3] = pu[behind] | (uint32_t)pv[behind] << 16;
    } else {
        const uint32_t *p = (const uint32_t *)pu, mask = (uint32_t)a->src[1].mask * 0x10001;
        const int shift = a->src[1].shift;
        uint32_t w[4];
        gwb_load_words((const uint8_t *)(p + x), 8, w);
        c[1] = w[0] >> shift & mask;
        c[2] = w[1] >> shift & mask;
        if (first)
            c[0] = p[before] >> shift & mask;
        if (end)
            c[3] = p[behind] >> shift & mask;
        if (lane)
            for (int i = 0; i < 4; i++)
                c[i] = c[i] >> 16 | c[i] << 16;
    }
}

// The codes 0..255 of four values: rounded half up, cut; NaN is 0.
GWB_FN uint32_t gwb_code_bytes(const float v[4])
{
#if defined(__CUDACC__)
    uint32_t low, all;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(low) : "r"(__float2int_rd(v[3] + 0.5f)), "r"(__float2int_rd(v[2] + 0.5f)));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(all) : "r"(__float2int_rd(v[1] + 0.5f)), "r"(__float2int_rd(v[0] + 0.5f)), "r"(low));
    return all;
#else
    uint32_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= gwb_code_bits(v[i], 255.0f) << 8 * i;
    return r;
#endif
}

// Four pixels of R, G and B to row y.
GWB_FN void gwb_yuv_rgb_store(const gwb_convert_args *a, int kind, int shape, int x, int y, float rgb[3][4])
{
    const gwb_samples *d = a->dst;
    if (shape == GWB_SHAPE_PLANES) {
        GWB_UNROLL
        for (int i = 0; i < 3; i++) {
            uint8_t *p = d[i].data + y * d[i].step + (int64_t)x * gwb_kind_size(kind);
            if (kind == GWB_SAMPLE_U8)
                *(uint32_t *)p = gwb_code_bytes(rgb[i]);
            else
                gwb_store_run(kind, 4, p, d[i].shift, a->limit[i], rgb[i]);
        }
        return;
    }
    uint32_t component[3], lane[4];
    GWB_UNROLL
    for (int i = 0; i < 3; i++)
        component[i] = gwb_code_bytes(rgb[i]);
    const uint32_t alpha = (uint32_t)a->alpha_fill * 0x01010101u;
    GWB_UNROLL
    for (int k = 0; k < 4; k++)
        lane[k] = d[0].lane == k ? component[0] : d[1].lane == k ? component[1] : d[2].lane == k ? component[2] : alpha;
    if (shape == GWB_SHAPE_3) {
        uint32_t *p = (uint32_t *)(d[0].data - d[0].lane + y * d[0].step + 3 * (int64_t)x);
        p[0] = gwb_permute(gwb_permute(lane[0], lane[1], 0x1040), lane[2], 0x3410);
        p[1] = gwb_permute(gwb_permute(lane[1], lane[2], 0x2051), lane[0], 0x3610);
        p[2] = gwb_permute(gwb_permute(lane[2], lane[0], 0x3072), lane[1], 0x3710);
        return;
    }
    uint8_t *p = d[0].data - d[0].lane + y * d[0].step + 4 * (int64_t)x;
    const uint32_t low = gwb_permute(lane[0], lane[1], 0x5140), low2 = gwb_permute(lane[2], lane[3], 0x5140);
    const uint32_t high = gwb_permute(lane[0], lane[1], 0x7362), high2 = gwb_permute(lane[2], lane[3], 0x7362);
    const uint32_t w[4] = {gwb_permute(low, low2, 0x5410), gwb_permute(low, low2, 0x7632), gwb_permute(high, high2, 0x5410), gwb_permute(high, high2, 0x7632)};
    if (((uint64_t)p & 15) == 0) {
        gwb_store_words(p, 16, w);
        return;
    }
    GWB_UNROLL
    for (int i = 0; i < 4; i++)
        ((uint32_t *)p)[i] = w[i];
}

// The row of four pixels: luma codes come as 2^23 + code, chroma with u_zero and v_zero added, all as the bits of floats.
GWB_FN void gwb_yuv_rgb_row(const gwb_convert_args *a, const uint32_t luma[4], const uint32_t u[4], const uint32_t v[4], float uv_zero, float part, float rgb[3][4])
{
    const gwb_mix *m = &a->mix;
    const float y_zero = 8388608.0f + m->from[0];
    const float vr = m->m[0][2] * part, ug = m->m[1][1] * part, vg = m->m[1][2] * part, ub = m->m[2][1] * part;
    GWB_UNROLL
    for (int k = 0; k < 4; k++) {
        const float cb = gwb_float_from_bits(u[k]) - uv_zero, cr = gwb_float_from_bits(v[k]) - uv_zero;
        const float luminance = m->m[0][0] * (gwb_float_from_bits(luma[k]) - y_zero);
        rgb[0][k] = luminance + vr * cr;
        rgb[1][k] = (luminance + ug * cb) + vg * cr;
        rgb[2][k] = luminance + ub * cb;
    }
}

// 2^23 + byte k of a word, as the bits of a float.
GWB_FN uint32_t gwb_yuv_rgb_byte(uint32_t word, int k)
{
    return gwb_permute(word, 0x4b000000, 0x7650 | k);
}

// The tile at (x, y) of three full planes of bytes.
GWB_FN void gwb_yuv_rgb_full(const gwb_convert_args *a, int dst_kind, int dst_shape, int x, int y)
{
    GWB_UNROLL
    for (int r = 0; r < 2; r++) {
        uint32_t c[3][4];
        GWB_UNROLL
        for (int i = 0; i < 3; i++) {
            const uint32_t word = *(const uint32_t *)(a->src[i].data + (y + r) * a->src[i].step + x);
            GWB_UNROLL
            for (int k = 0; k < 4; k++)
                c[i][k] = gwb_yuv_rgb_byte(word, k);
        }
        float rgb[3][4];
        gwb_yuv_rgb_row(a, c[0], c[1], c[2], 8388608.0f + a->mix.from[1], 1.0f, rgb);
        gwb_yuv_rgb_store(a, dst_kind, dst_shape, x, y + r, rgb);
    }
}

// The tile at (x, y). `left`: chroma lies where MPEG-2 and H.264 have it, so that the weights are constants.
GWB_FN void gwb_yuv_rgb_tile(const gwb_convert_args *a, int src_kind, int src_shape, int dst_kind, int dst_shape, bool left, int x, int y)
{
    const int pairs = src_shape == GWB_SHAPE_420_PAIRS, size = gwb_kind_size(src_kind), row = y >> 1;
    const gwb_samples *s = a->src;
    uint32_t luma[2][4], chroma[3][4];
    const uint8_t *py = s[0].data + y * s[0].step + (int64_t)x * size;
    gwb_load_words(py, 4 * size, luma[0]);
    gwb_load_words(py + s[0].step, 4 * size, luma[1]);
    const bool first = !left && (a->quarter_x[0][0] | a->quarter_x[1][0]), end = left || (a->quarter_x[0][2] | a->quarter_x[1][2]);
    const uint8_t *pu = s[1].data - (pairs ? s[1].lane * size : 0) + row * s[1].step, *pv = s[2].data + row * s[2].step;
    const bool above = row > 0, below = row < a->up_y.last;
    gwb_yuv_rgb_chroma(a, src_kind, pairs, above ? pu - s[1].step : pu, above ? pv - s[2].step : pv, x >> 1, first, end, chroma[0]);
    gwb_yuv_rgb_chroma(a, src_kind, pairs, pu, pv, x >> 1, first, end, chroma[1]);
    gwb_yuv_rgb_chroma(a, src_kind, pairs, below ? pu + s[1].step : pu, below ? pv + s[2].step : pv, x >> 1, first, end, chroma[2]);

    const float times = left ? 8.0f : 16.0f;    // chroma comes that many times as large
    GWB_UNROLL
    for (int r = 0; r < 2; r++) {
        uint32_t column[4], code[4], u[4], v[4];
        GWB_UNROLL
        for (int k = 0; k < 4; k++)
            column[k] = left ? 3 * chroma[1][k] + chroma[2 * r][k]
                : a->quarter_y[r][0] * chroma[0][k] + a->quarter_y[r][1] * chroma[1][k] + a->quarter_y[r][2] * chroma[2][k];
        GWB_UNROLL
        for (int k = 0; k < 4; k++) {
            const uint32_t *w = a->quarter_x[k & 1], *c = column + k / 2;
            const uint32_t uv = !left ? w[0] * c[0] + w[1] * c[1] + w[2] * c[2] : k & 1 ? c[1] + c[2] : 2 * c[1];
            code[k] = src_kind == GWB_SAMPLE_U8 ? gwb_yuv_rgb_byte(luma[r][0], k)
                : 0x4b000000 | ((luma[r][k / 2] >> 16 * (k & 1) & 0xffff) >> s[0].shift & (uint32_t)s[0].mask);
            u[k] = gwb_permute(uv, 0x4b000000, 0x7610);
            v[k] = gwb_permute(uv, 0x4b000000, 0x7632);
        }
        float rgb[3][4];
        gwb_yuv_rgb_row(a, code, u, v, 8388608.0f + times * a->mix.from[1], left ? 0.125f : 0.0625f, rgb);
        gwb_yuv_rgb_store(a, dst_kind, dst_shape, x, y + r, rgb);
    }
}

// A work item: a tile as in convert_tile.h, where the picture has all of it.
GWB_FN void gwb_yuv_rgb_at(const gwb_convert_args *a, int src_kind, int src_shape, int dst_kind, int dst_shape, int tx, int y_in_band, int band)
{
    const int x = tx * GWB_TILE_W, y = (band * GWB_BAND + y_in_band) * GWB_TILE_H;
    if (a->width - x < GWB_TILE_W || a->height - y < GWB_TILE_H)
        return;
    if (src_shape == GWB_SHAPE_PLANES)
        gwb_yuv_rgb_full(a, dst_kind, dst_shape, x, y);
    else if (a->quick == GWB_QUICK_LEFT)
        gwb_yuv_rgb_tile(a, src_kind, src_shape, dst_kind, dst_shape, true, x, y);
    else
        gwb_yuv_rgb_tile(a, src_kind, src_shape, dst_kind, dst_shape, false, x, y);
}

#endif
