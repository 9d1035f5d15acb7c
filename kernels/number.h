// SPDX-License-Identifier: MIT
// Numbers of every element type as double, which holds each of them exactly, and back: the same bits on every device.
#ifndef GWB_KERNEL_NUMBER_H
#define GWB_KERNEL_NUMBER_H

#include "bytes.h"

GWB_FN double gwb_double_from_bits(uint64_t bits)
{
#if defined(__CUDACC__)
    return __longlong_as_double((long long)bits);
#else
    double v;
    memcpy(&v, &bits, 8);
    return v;
#endif
}

GWB_FN uint64_t gwb_double_bits(double v)
{
#if defined(__CUDACC__)
    return (uint64_t)__double_as_longlong(v);
#else
    uint64_t bits;
    memcpy(&bits, &v, 8);
    return bits;
#endif
}

GWB_FN float gwb_float_from_bits(uint32_t bits)
{
#if defined(__CUDACC__)
    return __uint_as_float(bits);
#else
    float v;
    memcpy(&v, &bits, 4);
    return v;
#endif
}

GWB_FN uint32_t gwb_float_bits(float v)
{
#if defined(__CUDACC__)
    return __float_as_uint(v);
#else
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return bits;
#endif
}

// a * b + c with one rounding, on every device: the only way in which a product and a sum become one here (prelude.h). Without such an instruction,
// on processors before 2013, it is slow.
GWB_FN float gwb_fma(float a, float b, float c)
{
#if defined(__CUDACC__)
    return __fmaf_rn(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

// f16: 1 sign, 5 exponent (bias 15), 10 fraction bits.
GWB_FN double gwb_half_to_double(uint32_t half)
{
    const uint32_t magnitude = half & 0x7fff;
    const uint64_t sign = (uint64_t)(half & 0x8000) << 48;
    const uint64_t normal = ((uint64_t)magnitude << 42) + ((uint64_t)(1023 - 15) << 52);
    const uint64_t beyond = (uint64_t)magnitude << 42 | (uint64_t)0x7ff << 52;                  // infinity, NaN
    const uint64_t tiny = gwb_double_bits((double)(int32_t)magnitude * (1.0 / 16777216.0));     // units of 2^-24
    return gwb_double_from_bits(sign | (magnitude < 0x400 ? tiny : magnitude < 0x7c00 ? normal : beyond));
}

// To the nearest, ties to even, at once from the double: an f32 in between would round twice. Every NaN becomes 0x7e00.
GWB_FN uint32_t gwb_double_to_half(double v)
{
    const uint64_t bits = gwb_double_bits(v), magnitude = bits & ~((uint64_t)1 << 63);
    const double positive = gwb_double_from_bits(magnitude);
    // adding half a unit less one, and one more where the kept part is odd, carries into the exponent by itself
    const uint64_t rounded = magnitude + (((uint64_t)1 << 41) - 1) + (magnitude >> 42 & 1);
    const uint32_t normal = (uint32_t)(rounded >> 42) - ((1023 - 15) << 10);
    // 1.5 * 2^28 has units of 2^-24, so the sum's low bits are the rounded count of them
    const uint32_t tiny = (uint32_t)gwb_double_bits(positive + 402653184.0) & 0xfff;
    const uint32_t half = positive < 1.0 / 16384.0 ? tiny : positive < 65520.0 ? normal : 0x7c00;
    return v == v ? half | (uint32_t)(bits >> 48 & 0x8000) : 0x7e00;
}

// A whole number; mode: 0 to nearest even, 1 towards zero, 2 down, 3 up.
GWB_FN double gwb_number_round(double v, int mode)
{
    return mode == 0 ? rint(v) : mode == 1 ? trunc(v) : mode == 2 ? floor(v) : ceil(v);
}

// Into low .. high; NaN becomes 0.
GWB_FN double gwb_number_clamp(double v, double low, double high)
{
    const double number = v == v ? v : 0.0;
    return number < low ? low : number > high ? high : number;
}

// NAME, and the name in functions, of every gwb_type, in its order.
#define GWB_NUMBERS(_) _(U8, u8) _(I8, i8) _(U16, u16) _(I16, i16) _(U32, u32) _(I32, i32) _(F16, f16) _(F32, f32) _(F64, f64)

// gwb_number_load_TYPE: the number at `p`, any address.
GWB_FN double gwb_number_load_u8(const uint8_t *p) { return (double)*p; }
GWB_FN double gwb_number_load_i8(const uint8_t *p) { return (double)(int8_t)*p; }
GWB_FN double gwb_number_load_u16(const uint8_t *p) { return (double)gwb_read16(p); }
GWB_FN double gwb_number_load_i16(const uint8_t *p) { return (double)(int16_t)gwb_read16(p); }
GWB_FN double gwb_number_load_u32(const uint8_t *p) { return (double)gwb_read32(p); }
GWB_FN double gwb_number_load_i32(const uint8_t *p) { return (double)(int32_t)gwb_read32(p); }
GWB_FN double gwb_number_load_f16(const uint8_t *p) { return gwb_half_to_double(gwb_read16(p)); }
GWB_FN double gwb_number_load_f32(const uint8_t *p) { return (double)gwb_float_from_bits(gwb_read32(p)); }
GWB_FN double gwb_number_load_f64(const uint8_t *p) { return gwb_double_from_bits(gwb_read64(p)); }

// gwb_number_store_TYPE: `v` as a number at `p`, any address. Whole numbers are rounded by `mode` and saturate; f16 and f32 are rounded to nearest
// even and go to infinity. A NaN is 0 as a whole number, else the type's plain quiet NaN, since devices keep different bits of it.
GWB_FN int32_t gwb_number_whole(double v, int mode, double low, double high)
{
    return (int32_t)gwb_number_clamp(gwb_number_round(v, mode), low, high);
}
GWB_FN void gwb_number_store_u8(uint8_t *p, double v, int mode) { *p = (uint8_t)gwb_number_whole(v, mode, 0.0, 255.0); }
GWB_FN void gwb_number_store_i8(uint8_t *p, double v, int mode) { *p = (uint8_t)gwb_number_whole(v, mode, -128.0, 127.0); }
GWB_FN void gwb_number_store_u16(uint8_t *p, double v, int mode) { gwb_write16(p, (uint32_t)gwb_number_whole(v, mode, 0.0, 65535.0)); }
GWB_FN void gwb_number_store_i16(uint8_t *p, double v, int mode) { gwb_write16(p, (uint32_t)gwb_number_whole(v, mode, -32768.0, 32767.0)); }
GWB_FN void gwb_number_store_u32(uint8_t *p, double v, int mode)
{
    gwb_write32(p, (uint32_t)gwb_number_clamp(gwb_number_round(v, mode), 0.0, 4294967295.0));
}
GWB_FN void gwb_number_store_i32(uint8_t *p, double v, int mode)
{
    gwb_write32(p, (uint32_t)gwb_number_whole(v, mode, -2147483648.0, 2147483647.0));
}
GWB_FN void gwb_number_store_f16(uint8_t *p, double v, int mode) { (void)mode, gwb_write16(p, gwb_double_to_half(v)); }
GWB_FN void gwb_number_store_f32(uint8_t *p, double v, int mode) { (void)mode, gwb_write32(p, v == v ? gwb_float_bits((float)v) : 0x7fc00000u); }
GWB_FN void gwb_number_store_f64(uint8_t *p, double v, int mode) { (void)mode, gwb_write64(p, v == v ? gwb_double_bits(v) : (uint64_t)0x7ff8 << 48); }

// Bytes of a number of gwb_type `type`.
GWB_FN int gwb_number_size(int type)
{
    return type <= GWB_I8 ? 1 : type <= GWB_I16 || type == GWB_F16 ? 2 : type == GWB_F64 ? 8 : 4;
}

// A number of `size` bytes as it is.
GWB_FN void gwb_number_copy(uint8_t *dst, const uint8_t *src, int size)
{
    switch (size) {
    case 1: *dst = *src; break;
    case 2: gwb_write16(dst, gwb_read16(src)); break;
    case 4: gwb_write32(dst, gwb_read32(src)); break;
    default: gwb_write64(dst, gwb_read64(src)); break;
    }
}

#endif
