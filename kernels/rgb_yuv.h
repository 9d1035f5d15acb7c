// SPDX-License-Identifier: MIT
// R, G and B of bytes to 4:2:0 of bytes with the usual siting, eight pixels of two rows at a time: what encoders ask for. The bits are those of convert.h:
// sums of bytes are exact, whatever their order. src/convert_plan.c says where it holds.
#ifndef GWB_KERNEL_RGB_YUV_H
#define GWB_KERNEL_RGB_YUV_H

#include "convert.h"
#include "pairs.h"
#include "run.h"

// The four bytes of a word as floats, times 2^-24.
GWB_FN void gwb_rgb_yuv_bytes(uint32_t word, float v[4])
{
    gwb_pair_floats(gwb_permute(word, 0, 0x4240), &v[0], &v[2]);
    gwb_pair_floats(gwb_permute(word, 0, 0x4341), &v[1], &v[3]);
}

// Component k of pixels x - 1 .. x + 7 of row y into c[k][0] .. c[k][8]; before the first pixel lies that one again. `shape` is RGB, BGR, RGBA, BGRA or PLANES.
GWB_FN void gwb_rgb_yuv_load(const gwb_convert_args *a, int shape, int x, int y, float c[3][9])
{
    const bool planes = shape == GWB_SHAPE_PLANES, red_first = shape == GWB_SHAPE_RGB || shape == GWB_SHAPE_RGBA;
    const int lanes = planes ? 1 : shape == GWB_SHAPE_RGB || shape == GWB_SHAPE_BGR ? 3 : 4;
    GWB_UNROLL
    for (int plane = 0; plane < (planes ? 3 : 1); plane++) {
        const gwb_samples *s = &a->src[plane];
        const uint8_t *p = gwb_near(s->data - (planes || red_first ? 0 : 2), (int32_t)s->step, y, x * lanes);
        float v[4], run[32];
        uint32_t w[4], before[4] = {0};
        GWB_UNROLL
        for (int i = 0; i < 2 * lanes; i += 2) {
            gwb_load_words(p + 4 * i, 8, w);
            gwb_rgb_yuv_bytes(w[0], run + 4 * i);
            gwb_rgb_yuv_bytes(w[1], run + 4 * i + 4);
        }
        if (x > 0)
            gwb_load_words(p - 4, 4, before);
        gwb_rgb_yuv_bytes(before[0], v);
        GWB_UNROLL
        for (int k = planes ? plane : 0; k < (planes ? plane + 1 : 3); k++) {
            const int lane = planes ? 0 : red_first ? k : 2 - k;
            c[k][0] = x > 0 ? v[4 - lanes + lane] : run[lane];
            GWB_UNROLL
            for (int i = 0; i < 8; i++)
                c[k][i + 1] = run[lanes * i + lane];
        }
    }
}

GWB_FN float gwb_rgb_yuv_mix(const gwb_convert_args *a, int i, float r, float g, float b)
{
    const float *m = a->down_numbers[i];
    return gwb_fma(m[2], b, gwb_fma(m[1], g, m[0] * r)) + a->mix.to[i];
}

// A work item: the pixels from (x, y) on, where the picture has all of them.
GWB_FN void gwb_rgb_yuv_item(const gwb_convert_args *a, int src_shape, int dst_shape, int x, int y)
{
    float c[3][9], sum[3][9];
    GWB_UNROLL
    for (int r = 0; r < 2; r++) {
        gwb_rgb_yuv_load(a, src_shape, x, y + r, r ? sum : c);
        float (*p)[9] = r ? sum : c;
        float v[8];
        uint32_t w[4];
        GWB_UNROLL
        for (int i = 0; i < 8; i++)
            v[i] = gwb_rgb_yuv_mix(a, 0, p[0][i + 1], p[1][i + 1], p[2][i + 1]);
        w[0] = gwb_code_bytes(true, v[0], v[1], v[2], v[3]);
        w[1] = gwb_code_bytes(true, v[4], v[5], v[6], v[7]);
        gwb_store_words(gwb_near(a->dst[0].data, (int32_t)a->dst[0].step, y + r, x), 8, w);
    }
    GWB_UNROLL
    for (int k = 0; k < 3; k++)
        GWB_UNROLL
        for (int i = 0; i < 9; i++)
            sum[k][i] = sum[k][i] + c[k][i];
    float uv[2][4];
    GWB_UNROLL
    for (int i = 0; i < 4; i++) {
        float at[3];    // eight times the mean
        GWB_UNROLL
        for (int k = 0; k < 3; k++)
            at[k] = gwb_fma(2.0f, sum[k][2 * i + 1], sum[k][2 * i] + sum[k][2 * i + 2]);
        uv[0][i] = gwb_rgb_yuv_mix(a, 1, at[0], at[1], at[2]);
        uv[1][i] = gwb_rgb_yuv_mix(a, 2, at[0], at[1], at[2]);
    }
    uint32_t w[4];
    if (dst_shape == GWB_SHAPE_420_PAIRS) {
        const int v_first = a->dst[2].lane < a->dst[1].lane;
        const uint32_t u = gwb_code_bytes(true, uv[0][0], uv[0][1], uv[0][2], uv[0][3]), v = gwb_code_bytes(true, uv[1][0], uv[1][1], uv[1][2], uv[1][3]);
        w[0] = gwb_permute(u, v, v_first ? 0x1504 : 0x5140);
        w[1] = gwb_permute(u, v, v_first ? 0x3726 : 0x7362);
        gwb_store_words(gwb_near(a->dst[1].data - a->dst[1].lane, (int32_t)a->dst[1].step, y >> 1, x), 8, w);
        return;
    }
    GWB_UNROLL
    for (int i = 0; i < 2; i++) {
        w[0] = gwb_code_bytes(true, uv[i][0], uv[i][1], uv[i][2], uv[i][3]);
        gwb_store_words(gwb_near(a->dst[i + 1].data, (int32_t)a->dst[i + 1].step, y >> 1, x >> 1), 4, w);
    }
}

#endif
