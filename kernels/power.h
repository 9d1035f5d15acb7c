// SPDX-License-Identifier: MIT
// Powers that give the same bits on every device: libm and CUDA differ.
#ifndef GWB_KERNEL_POWER_H
#define GWB_KERNEL_POWER_H

#include "number.h"

// log2 and exp2 in double by their series, so that devices agree; good to 1e-12.
GWB_FN double gwb_log2(double v)
{
    const uint64_t bits = gwb_double_bits(v);
    int e = (int)(bits >> 52 & 2047) - 1023;
    double m = gwb_double_from_bits((bits & 0xfffffffffffffu) | (uint64_t)1023 << 52);
    if (m > 1.4142135623730951) {
        m = m * 0.5;
        e = e + 1;
    }
    const double t = (m - 1.0) / (m + 1.0), q = t * t;
    double sum = 1.0 / 21.0;
    for (int k = 19; k >= 1; k -= 2)
        sum = sum * q + 1.0 / (double)k;
    return (double)e + 2.8853900817779268 * t * sum;
}

GWB_FN double gwb_exp2(double v)
{
    const double whole = floor(v + 0.5), t = (v - whole) * 0.69314718055994531;
    if (whole < -1000.0)
        return 0.0;
    if (whole > 1000.0)
        return gwb_double_from_bits((uint64_t)2047 << 52);
    double sum = 1.0;
    for (int k = 14; k >= 1; k--)
        sum = 1.0 + sum * t / (double)k;
    return sum * gwb_double_from_bits((uint64_t)((int64_t)whole + 1023) << 52);
}

// v ^ e for v > 0, else 0.
GWB_FN double gwb_power(double v, double e)
{
    return v > 0.0 ? gwb_exp2(e * gwb_log2(v)) : 0.0;
}

// v ^ e; 0 for v <= 0 (and for NaN), but 1 for e = 0
GWB_FN float gwb_pow(float v, float e)
{
    return e == 0.0f ? 1.0f : (float)gwb_power((double)v, (double)e);
}

#endif
