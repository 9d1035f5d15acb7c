// SPDX-License-Identifier: MIT
// Two small whole numbers in a word, low and high, worked on at once. On a GPU they are the halves n * 2^-24, whose bits are n itself up to 2047: so that bytes
// become numbers without an instruction, and all of it is done by the units for floats, of which there are twice as many as for integers. Exact while
// every result is within -2048 .. 2048.
#ifndef GWB_KERNEL_PAIRS_H
#define GWB_KERNEL_PAIRS_H

#include "number.h"

#if !defined(__CUDACC__)
GWB_FN uint32_t gwb_pair_of(int low, int high)
{
    return ((uint32_t)low & 0xffff) | (uint32_t)high << 16;
}
GWB_FN int gwb_pair_low(uint32_t p) { return (int16_t)(p & 0xffff); }
GWB_FN int gwb_pair_high(uint32_t p) { return (int16_t)(p >> 16); }
#endif

GWB_FN uint32_t gwb_pair_add(uint32_t a, uint32_t b)
{
#if defined(__CUDACC__)
    uint32_t r;
    asm("add.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return gwb_pair_of(gwb_pair_low(a) + gwb_pair_low(b), gwb_pair_high(a) + gwb_pair_high(b));
#endif
}

GWB_FN uint32_t gwb_pair_sub(uint32_t a, uint32_t b)
{
#if defined(__CUDACC__)
    uint32_t r;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return gwb_pair_of(gwb_pair_low(a) - gwb_pair_low(b), gwb_pair_high(a) - gwb_pair_high(b));
#endif
}

// n times each number of a, and c; n is 0..4.
GWB_FN uint32_t gwb_pair_mad(uint32_t n, uint32_t a, uint32_t c)
{
#if defined(__CUDACC__)
    const uint32_t half = n < 2 ? (n ? 0x3c003c00 : 0) : n == 2 ? 0x40004000 : n == 3 ? 0x42004200 : 0x44004400;
    uint32_t r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(half), "r"(a), "r"(c));
    return r;
#else
    const int k = (int)n;
    return gwb_pair_of(k * gwb_pair_low(a) + gwb_pair_low(c), k * gwb_pair_high(a) + gwb_pair_high(c));
#endif
}

// Both as floats, times 2^-24.
GWB_FN void gwb_pair_floats(uint32_t p, float *low, float *high)
{
#if defined(__CUDACC__)
    asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %2;\n\tcvt.f32.f16 %0, l;\n\tcvt.f32.f16 %1, h;\n\t}" : "=f"(*low), "=f"(*high) : "r"(p));
#else
    *low = (float)gwb_pair_low(p) * 0x1p-24f;
    *high = (float)gwb_pair_high(p) * 0x1p-24f;
#endif
}

// The four bytes of a word less a whole number, which both halves of `from` hold, as such floats.
GWB_FN void gwb_pair_bytes(uint32_t word, uint32_t from, float v[4])
{
    gwb_pair_floats(gwb_pair_sub(gwb_permute(word, 0, 0x4240), from), &v[0], &v[2]);
    gwb_pair_floats(gwb_pair_sub(gwb_permute(word, 0, 0x4341), from), &v[1], &v[3]);
}

#endif
