// SPDX-License-Identifier: MIT
// The operations of the stage expr: what each gives, in float32. The host runs a program of them, a kernel has it as text.
#ifndef GWB_KERNEL_EXPR_H
#define GWB_KERNEL_EXPR_H

#include "power.h"

// Name, operands, value. Truth is 1 or 0, and all but 0 is true. A comparison with NaN is false, min and max then give the second one.
#define GWB_EXPR_OPS(_) \
    _(neg, 1, -a) \
    _(not, 1, a == 0.0f ? 1.0f : 0.0f) \
    _(abs, 1, gwb_float_from_bits(gwb_float_bits(a) & 0x7fffffff)) \
    _(floor, 1, floorf(a)) \
    _(ceil, 1, ceilf(a)) \
    _(round, 1, floorf(a + 0.5f)) \
    _(sqrt, 1, gwb_root(a)) \
    _(exp, 1, (float)gwb_exp2((double)a * 1.4426950408889634)) \
    _(exp2, 1, (float)gwb_exp2((double)a)) \
    _(log, 1, (float)(gwb_logarithm(a) * 0.69314718055994531)) \
    _(log2, 1, (float)gwb_logarithm(a)) \
    _(sin, 1, (float)gwb_sine((double)a)) \
    _(cos, 1, (float)gwb_sine((double)a + 1.5707963267948966)) \
    _(add, 2, a + b) \
    _(sub, 2, a - b) \
    _(mul, 2, a * b) \
    _(div, 2, a / b) \
    _(mod, 2, a - floorf(a / b) * b) \
    _(pow, 2, gwb_signed_power(a, b)) \
    _(min, 2, a < b ? a : b) \
    _(max, 2, a > b ? a : b) \
    _(lt, 2, a < b ? 1.0f : 0.0f) \
    _(le, 2, a <= b ? 1.0f : 0.0f) \
    _(gt, 2, a > b ? 1.0f : 0.0f) \
    _(ge, 2, a >= b ? 1.0f : 0.0f) \
    _(eq, 2, a == b ? 1.0f : 0.0f) \
    _(ne, 2, a != b ? 1.0f : 0.0f) \
    _(and, 2, a != 0.0f && b != 0.0f ? 1.0f : 0.0f) \
    _(or, 2, a != 0.0f || b != 0.0f ? 1.0f : 0.0f) \
    _(if, 3, a != 0.0f ? b : c)

#define GWB_EXPR_ID(name, operands, value) GWB_EXPR_##name,
typedef enum gwb_expr_op {
    GWB_EXPR_OPS(GWB_EXPR_ID)
    // these take a number, n
    GWB_EXPR_number,        // number n of the stage
    GWB_EXPR_component,     // component n of the pixel
    GWB_EXPR_place,         // 0 x, 1 y, 2 width, 3 height
    GWB_EXPR_store,         // the value becomes component n of the result, and stays
    GWB_EXPR_drop,
    // and these two stand in programs as they are given: the planner puts the ones above in their place
    GWB_EXPR_channel,       // channel n, counted from 0; 4: the one whose value is worked out
    GWB_EXPR_next,          // the expression ends here
    GWB_EXPR_COUNT
} gwb_expr_op;
#undef GWB_EXPR_ID

enum { GWB_EXPR_DEPTH = 16 };   // values at once

GWB_FN float gwb_nan(void)
{
    return gwb_float_from_bits(0x7fc00000u);
}

GWB_FN float gwb_root(float a)
{
#if defined(__CUDACC__)
    return a < 0.0f ? gwb_nan() : __fsqrt_rn(a);
#else
    return a < 0.0f ? gwb_nan() : sqrtf(a);
#endif
}

// To base 2: -infinity for 0, NaN for less and for NaN.
GWB_FN double gwb_logarithm(float a)
{
    const float infinity = gwb_float_from_bits(0x7f800000u);
    return a > 0.0f ? (a < infinity ? gwb_log2((double)a) : (double)infinity) : a == 0.0f ? -(double)infinity : (double)gwb_nan();
}

// Of negative numbers only whole powers are defined; else NaN.
GWB_FN float gwb_signed_power(float v, float e)
{
    const float infinity = gwb_float_from_bits(0x7f800000u), magnitude = v < 0.0f ? -v : v;
    if (e == 0.0f)
        return 1.0f;
    if (!(magnitude < infinity) || v != v || e != e)
        return v != v || e != e || v < 0.0f ? gwb_nan() : e > 0.0f ? infinity : 0.0f;
    if (magnitude == 0.0f)
        return e > 0.0f ? 0.0f : infinity;
    const float r = gwb_pow(magnitude, e);
    return v > 0.0f ? r : floorf(e) != e ? gwb_nan() : floorf(e * 0.5f) * 2.0f == e ? r : -r;
}

// By its series after taking whole turns away: good to 1e-7 for |v| up to a million, beyond which floats leave little of an angle. NaN for infinity.
GWB_FN double gwb_sine(double v)
{
    const double turns = floor(v * 0.15915494309189535 + 0.5), t = (v - turns * 6.283185307179586) - turns * 2.4492935982947064e-16, q = t * t;
    if (!(v < 1e15 && v > -1e15))
        return (double)gwb_nan();
    double sum = 1.0;
    GWB_UNROLL
    for (int k = 26; k >= 2; k -= 2)
        sum = 1.0 - sum * q * (1.0 / (double)(k * (k + 1)));
    return t * sum;
}

#define GWB_EXPR_FN1(name, value) GWB_FN float gwb_expr_##name(float a) { return value; }
#define GWB_EXPR_FN2(name, value) GWB_FN float gwb_expr_##name(float a, float b) { return value; }
#define GWB_EXPR_FN3(name, value) GWB_FN float gwb_expr_##name(float a, float b, float c) { return value; }
#define GWB_EXPR_FN(name, operands, value) GWB_EXPR_FN##operands(name, value)
GWB_EXPR_OPS(GWB_EXPR_FN)

#endif
