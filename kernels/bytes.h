// SPDX-License-Identifier: MIT
// Bytes in memory: 16 at once where the address allows it, single numbers at any address.
#ifndef GWB_KERNEL_BYTES_H
#define GWB_KERNEL_BYTES_H

#include "prelude.h"

// 16 bytes in registers: byte i is bits 8 * (i % 4) .. of w[i / 4].
typedef struct gwb_bytes16 {
    uint32_t w[4];
} gwb_bytes16;

// `p` must be a multiple of 16.
GWB_FN gwb_bytes16 gwb_load16(const uint8_t *p)
{
    gwb_bytes16 b;
#if defined(__CUDACC__)
    const uint4 v = *(const uint4 *)p;
    b.w[0] = v.x, b.w[1] = v.y, b.w[2] = v.z, b.w[3] = v.w;
#else
    memcpy(&b, p, 16);
#endif
    return b;
}

// `p` must be a multiple of 16.
GWB_FN void gwb_store16(uint8_t *p, gwb_bytes16 b)
{
#if defined(__CUDACC__)
    *(uint4 *)p = make_uint4(b.w[0], b.w[1], b.w[2], b.w[3]);
#else
    memcpy(p, &b, 16);
#endif
}

// The low half of high:low >> shift; shift 0..31.
GWB_FN uint32_t gwb_funnel(uint32_t low, uint32_t high, int shift)
{
#if defined(__CUDACC__)
    return __funnelshift_r(low, high, (unsigned)shift);
#else
    return (uint32_t)(((uint64_t)high << 32 | low) >> shift);
#endif
}

// Byte x of row y of what begins at `p`, within its first 4 GiB: one multiplication, where 64 bits take three and some additions.
GWB_FN uint8_t *gwb_near(const uint8_t *p, int step, int y, int x)
{
    return (uint8_t *)p + ((uint32_t)step * (uint32_t)y + (uint32_t)x);
}

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

// Bytes skip .. skip + 15 of the 32 bytes a, b; skip 0..15. Selects words, then shifts, so that nothing is indexed at run time.
GWB_FN gwb_bytes16 gwb_join16(gwb_bytes16 a, gwb_bytes16 b, int skip)
{
    const int by8 = skip & 8, by4 = skip & 4, shift = 8 * (skip & 3);
    const uint32_t w0 = by8 ? a.w[2] : a.w[0], w1 = by8 ? a.w[3] : a.w[1], w2 = by8 ? b.w[0] : a.w[2];
    const uint32_t w3 = by8 ? b.w[1] : a.w[3], w4 = by8 ? b.w[2] : b.w[0], w5 = by8 ? b.w[3] : b.w[1];
    const uint32_t v0 = by4 ? w1 : w0, v1 = by4 ? w2 : w1, v2 = by4 ? w3 : w2, v3 = by4 ? w4 : w3, v4 = by4 ? w5 : w4;
    gwb_bytes16 r;
    r.w[0] = gwb_funnel(v0, v1, shift);
    r.w[1] = gwb_funnel(v1, v2, shift);
    r.w[2] = gwb_funnel(v2, v3, shift);
    r.w[3] = gwb_funnel(v3, v4, shift);
    return r;
}

// Numbers at any address. A kernel reads and writes them at once where they are aligned, else byte by byte: a misaligned access would
// cost the context.
GWB_FN uint32_t gwb_read16(const uint8_t *p)
{
#if defined(__CUDACC__)
    return (uint64_t)p & 1 ? p[0] | (uint32_t)p[1] << 8 : *(const uint16_t *)p;
#else
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
#endif
}

GWB_FN uint32_t gwb_read32(const uint8_t *p)
{
#if defined(__CUDACC__)
    return (uint64_t)p & 3 ? gwb_read16(p) | gwb_read16(p + 2) << 16 : *(const uint32_t *)p;
#else
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
#endif
}

GWB_FN uint64_t gwb_read64(const uint8_t *p)
{
#if defined(__CUDACC__)
    return (uint64_t)p & 7 ? gwb_read32(p) | (uint64_t)gwb_read32(p + 4) << 32 : *(const uint64_t *)p;
#else
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
#endif
}

GWB_FN void gwb_write16(uint8_t *p, uint32_t v)
{
#if defined(__CUDACC__)
    if ((uint64_t)p & 1)
        p[0] = (uint8_t)v, p[1] = (uint8_t)(v >> 8);
    else
        *(uint16_t *)p = (uint16_t)v;
#else
    const uint16_t low = (uint16_t)v;
    memcpy(p, &low, 2);
#endif
}

GWB_FN void gwb_write32(uint8_t *p, uint32_t v)
{
#if defined(__CUDACC__)
    if ((uint64_t)p & 3)
        gwb_write16(p, v), gwb_write16(p + 2, v >> 16);
    else
        *(uint32_t *)p = v;
#else
    memcpy(p, &v, 4);
#endif
}

GWB_FN void gwb_write64(uint8_t *p, uint64_t v)
{
#if defined(__CUDACC__)
    if ((uint64_t)p & 7)
        gwb_write32(p, (uint32_t)v), gwb_write32(p + 4, (uint32_t)(v >> 32));
    else
        *(uint64_t *)p = v;
#else
    memcpy(p, &v, 8);
#endif
}

// Stores bytes first .. end - 1 of `b` to p + first ..; 0 <= first < end <= 16, `p` is a multiple of 16.
GWB_FN void gwb_store_part(uint8_t *p, gwb_bytes16 b, int first, int end)
{
    for (int i = 0; i < 4; i++) {
        if (first <= 4 * i && 4 * i + 4 <= end) {
            gwb_write32(p + 4 * i, b.w[i]);
            continue;
        }
        for (int j = 4 * i; j < 4 * i + 4; j++)
            if (first <= j && j < end)
                p[j] = (uint8_t)(b.w[i] >> 8 * (j & 3));
    }
}

#endif
