// SPDX-License-Identifier: MIT
// Powers that give the same bits on every device: libm and CUDA differ.
#ifndef GWB_KERNEL_POWER_H
#define GWB_KERNEL_POWER_H

#include "number.h"

// log2 (of v > 0) and exp2 in double by their series, so that devices agree; good to 1e-11. Without a branch, so that a loop is vectorised.
GWB_FN double gwb_log2(double v)
{
    // v = m * 2^e with m in sqrt(1/2) .. sqrt(2): the integer difference to sqrt(1/2) carries into the exponent
    const uint64_t bits = gwb_double_bits(v), above = bits - 0x3fe6a09e667f3bcdu;
    const int32_t e = (int32_t)(above >> 52 ^ 2048) - 2048;     // its sign extended from 12 bits
    const double m = gwb_double_from_bits(bits - (above & (uint64_t)4095 << 52));
    const double t = (m - 1.0) / (m + 1.0), q = t * t;
    double sum = 1.0 / 17.0;
    for (int k = 15; k >= 1; k -= 2)
        sum = sum * q + 1.0 / (double)k;
    return (double)e + 2.8853900817779268 * t * sum;
}

// The exponent is cut to -1021 .. 1023.
GWB_FN double gwb_exp2(double v)
{
    const double shifted = v + 6755399441055744.0;      // 1.5 * 2^52: its low bits are the nearest whole number
    const double t = (v - (shifted - 6755399441055744.0)) * 0.69314718055994531;
    const int64_t whole = (int64_t)(gwb_double_bits(shifted) - 0x4338000000000000u), high = whole < 1023 ? whole : 1023;
    const int64_t exponent = high > -1021 ? high : -1021;
    double sum = 1.0 / 39916800.0, factorial = 39916800.0;
    for (int k = 11; k >= 1; k--) {
        factorial = factorial / (double)k;
        sum = sum * t + 1.0 / factorial;
    }
    return sum * gwb_double_from_bits((uint64_t)(exponent + 1023) << 52);
}

// v ^ e for v > 0, else 0.
GWB_FN double gwb_power(double v, double e)
{
    const double power = gwb_exp2(e * gwb_log2(v));
    return v > 0.0 ? power : 0.0;
}

// v ^ e; 0 for v <= 0 (and for NaN), but 1 for e = 0
GWB_FN float gwb_pow(float v, float e)
{
    return e == 0.0f ? 1.0f : (float)gwb_power((double)v, (double)e);
}

#endif
