// SPDX-License-Identifier: MIT
// Numbers to samples in memory.
#ifndef GWB_KERNEL_STORE_H
#define GWB_KERNEL_STORE_H

#include "load.h"

// What is added before a value is cut: less than a half by the last bit, so that the greatest float below a half does not become 1, and every half still rounds up.
#define GWB_HALF 0.49999997f

#if defined(__CUDACC__)
// A value rounded half up as a whole number, cut to 0..65536; NaN is 0. Floats saturate to 0..1 for nothing, so the sum is taken 2^-16 times as large, which
// changes no bit of it; times the smallest float, and cut, it is the whole number itself.
GWB_FN uint32_t gwb_whole(float value)
{
    return gwb_float_bits(__fmul_rz(__saturatef(__fmaf_rn(value, 0x1p-16f, GWB_HALF * 0x1p-16f)), 0x1p-133f));
}

// A number, not NaN, rounded half up: 256 times as large, as floats below the normal ones count; less than 0 is negative.
GWB_FN uint32_t gwb_whole256(float value)
{
    return gwb_float_bits(__fmaf_rd(value, 0x1p-141f, 0x1p-142f));
}
#endif

// The code of a value: rounded half up, cut to 0..limit, which is at most 65535; NaN is 0.
GWB_FN uint32_t gwb_code(float value, float limit)
{
#if defined(__CUDACC__)
    return min(gwb_whole(value), (uint32_t)limit);
#else
    float v = value + GWB_HALF;
    v = v > 0.0f ? v : 0.0f;
    v = v < limit ? v : limit;
    return (uint32_t)(int)v;
#endif
}

// The codes 0..255 of four values, the first one lowest. `numbers`: none of them is NaN, which is faster.
GWB_FN uint32_t gwb_code_bytes(bool numbers, float v0, float v1, float v2, float v3)
{
#if defined(__CUDACC__)
    uint32_t low, high;
    if (numbers) {
        asm("cvt.pack.sat.u16.s32 %0, %1, %2;" : "=r"(low) : "r"(gwb_whole256(v1)), "r"(gwb_whole256(v0)));
        asm("cvt.pack.sat.u16.s32 %0, %1, %2;" : "=r"(high) : "r"(gwb_whole256(v3)), "r"(gwb_whole256(v2)));
        return gwb_permute(low, high, 0x7531);
    }
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(high) : "r"(gwb_whole(v3)), "r"(gwb_whole(v2)));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(low) : "r"(gwb_whole(v1)), "r"(gwb_whole(v0)), "r"(high));
    return low;
#else
    (void)numbers;
    return gwb_code(v0, 255.0f) | gwb_code(v1, 255.0f) << 8 | gwb_code(v2, 255.0f) << 16 | gwb_code(v3, 255.0f) << 24;
#endif
}

// Stores sample x of the row that begins at `row`. Not for samples that share a word.
GWB_FN void gwb_store_sample(int kind, uint8_t *row, int64_t x, int pitch, int shift, float limit, float value)
{
    uint8_t *p = row + x * pitch;
    switch (kind) {
    case GWB_SAMPLE_U8:
        *p = (uint8_t)gwb_code(value, limit);
        break;
    case GWB_SAMPLE_U16:
        *(uint16_t *)p = (uint16_t)(gwb_code(value, limit) << shift);
        break;
    case GWB_SAMPLE_F16:
        *(uint16_t *)p = (uint16_t)gwb_float_half(value);
        break;
    default:
        *(float *)p = value;
        break;
    }
}

#endif
