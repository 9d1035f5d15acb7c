// SPDX-License-Identifier: MIT
// Samples that follow each other, moved with one load or store.
#ifndef GWB_KERNEL_RUN_H
#define GWB_KERNEL_RUN_H

#include "store.h"

GWB_FN int gwb_kind_size(int kind)
{
    return kind == GWB_SAMPLE_U8 ? 1 : kind == GWB_SAMPLE_F32 ? 4 : 2;
}

// `bytes` (2, 4, 8 or 16) bytes at p, a multiple of them.
GWB_FN void gwb_load_words(const uint8_t *p, int bytes, uint32_t w[4])
{
#if defined(__CUDACC__)
    if (bytes == 16) {
        const uint4 v = *(const uint4 *)p;
        w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
    } else if (bytes == 8) {
        const uint2 v = *(const uint2 *)p;
        w[0] = v.x, w[1] = v.y;
    } else {
        w[0] = bytes == 4 ? *(const uint32_t *)p : *(const uint16_t *)p;
    }
#else
    memcpy(w, p, (size_t)bytes);
#endif
}

GWB_FN void gwb_store_words(uint8_t *p, int bytes, const uint32_t w[4])
{
#if defined(__CUDACC__)
    if (bytes == 16)
        *(uint4 *)p = make_uint4(w[0], w[1], w[2], w[3]);
    else if (bytes == 8)
        *(uint2 *)p = make_uint2(w[0], w[1]);
    else if (bytes == 4)
        *(uint32_t *)p = w[0];
    else
        *(uint16_t *)p = (uint16_t)w[0];
#else
    memcpy(p, w, (size_t)bytes);
#endif
}

// `n` (2 or 4) samples that follow each other from p, which is a multiple of all their bytes.
GWB_FN void gwb_load_run(int kind, int n, const uint8_t *p, int shift, int mask, float *v)
{
    uint32_t w[4] = {0, 0, 0, 0};
    gwb_load_words(p, gwb_kind_size(kind) * n, w);
    GWB_UNROLL
    for (int i = 0; i < n; i++) {
        if (kind == GWB_SAMPLE_U8)
            v[i] = gwb_small_float(w[0] >> 8 * i & 255);
        else if (kind == GWB_SAMPLE_U16)
            v[i] = gwb_small_float((w[i / 2] >> 16 * (i & 1) & 0xffff) >> shift & (uint32_t)mask);
        else if (kind == GWB_SAMPLE_F16)
            v[i] = gwb_half_float(w[i / 2] >> 16 * (i & 1) & 0xffff);
        else
            v[i] = gwb_float_from_bits(w[i]);
    }
}

// The words of `n` samples: the first one lowest. Bytes have codes up to 255.
GWB_FN void gwb_run_words(int kind, int n, int shift, float limit, const float *v, uint32_t *w)
{
    if (kind == GWB_SAMPLE_U8) {
        w[0] = gwb_code_bytes(false, v[0], v[1], n == 4 ? v[2] : 0.0f, n == 4 ? v[3] : 0.0f);
        return;
    }
    GWB_UNROLL
    for (int i = 0; i < (gwb_kind_size(kind) * n + 3) / 4; i++)
        w[i] = 0;
    GWB_UNROLL
    for (int i = 0; i < n; i++) {
        if (kind == GWB_SAMPLE_U16)
            w[i / 2] |= gwb_code(v[i], limit) << shift << 16 * (i & 1);
        else if (kind == GWB_SAMPLE_F16)
            w[i / 2] |= gwb_float_half(v[i]) << 16 * (i & 1);
        else
            w[i] = gwb_float_bits(v[i]);
    }
}

GWB_FN void gwb_store_run(int kind, int n, uint8_t *p, int shift, float limit, const float *v)
{
    uint32_t w[4];
    gwb_run_words(kind, n, shift, limit, v, w);
    gwb_store_words(p, gwb_kind_size(kind) * n, w);
}

#endif
