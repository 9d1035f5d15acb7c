// SPDX-License-Identifier: MIT
// Samples in memory to numbers.
#ifndef GWB_KERNEL_LOAD_H
#define GWB_KERNEL_LOAD_H

#include "number.h"

#include "convert_args.h"

// A whole number below 2^16, without the slow conversion where it is slow.
GWB_FN float gwb_small_float(uint32_t v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return gwb_float_from_bits(0x4b000000 | v) - 8388608.0f;
#else
    return (float)(int)v;
#endif
}

// A half, exactly. Without a branch, so that a loop over it is vectorised.
GWB_FN float gwb_half_float(uint32_t half)
{
#if defined(__CUDACC__)
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((uint16_t)half));
    return f;
#else
    const uint32_t magnitude = (half & 0x7fff) << 13;
    const uint32_t scaled = gwb_float_bits(gwb_float_from_bits(magnitude) * 0x1p112f);
    const uint32_t special = magnitude | 0x7f800000;    // infinities and NaN
    return gwb_float_from_bits((magnitude >= 0x0f800000 ? special : scaled) | (half & 0x8000) << 16);
#endif
}

// The nearest half, ties to even; too large becomes infinity, every NaN 0x7e00. Without a branch.
GWB_FN uint32_t gwb_float_half(float value)
{
#if defined(__CUDACC__)
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return value == value ? half : 0x7e00;
#else
    const uint32_t bits = gwb_float_bits(value), magnitude = bits & 0x7fffffff;
    const uint32_t sign = magnitude > 0x7f800000 ? 0 : bits >> 16 & 0x8000, special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    // below 2^-14 the sum with 0.5 leaves the half's bits at the bottom of the word, rounded
    const uint32_t small = gwb_float_bits(gwb_float_from_bits(magnitude) + 0.5f) - 0x3f000000;
    const uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    return sign | (magnitude >= 0x47800000 ? special : magnitude < 0x38800000 ? small : normal);
#endif
}

// The value of sample x of the row that begins at `row`. `kind` is a constant wherever speed counts.
GWB_FN float gwb_load_sample(int kind, const uint8_t *row, int64_t x, int pitch, int lane, int shift, int mask)
{
    const uint8_t *p = row + x * pitch;
    switch (kind) {
    case GWB_SAMPLE_U8:
        return gwb_small_float(*p);
    case GWB_SAMPLE_U16:
        return gwb_small_float((uint32_t)*(const uint16_t *)p >> shift & (uint32_t)mask);
    case GWB_SAMPLE_U32:
        return gwb_small_float(*(const uint32_t *)p >> shift & (uint32_t)mask);
    case GWB_SAMPLE_F16:
        return gwb_half_float(*(const uint16_t *)p);
    case GWB_SAMPLE_F32:
        return *(const float *)p;
    default: {
        const int64_t slot = x * pitch + lane;
        return gwb_small_float(((const uint32_t *)row)[slot / 3] >> (int)(slot % 3) * 10 & 1023);
    }
    }
}

#endif
