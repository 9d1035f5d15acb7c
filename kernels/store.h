// SPDX-License-Identifier: MIT
// Numbers to samples in memory.
#ifndef GWB_KERNEL_STORE_H
#define GWB_KERNEL_STORE_H

#include "load.h"

// The code of a value in the low 16 bits: rounded half up, cut to 0..limit; NaN is 0. What is above them is any.
GWB_FN uint32_t gwb_code_bits(float value, float limit)
{
#if defined(__CUDACC__)     // the same, without comparisons and the slow conversion
    return gwb_float_bits(__fadd_rd(fminf(fmaxf(value + 0.5f, 0.0f), limit), 8388608.0f));
#else
    float v = value + 0.5f;
    v = v > 0.0f ? v : 0.0f;
    v = v < limit ? v : limit;
    return (uint32_t)(int)v;
#endif
}

GWB_FN uint32_t gwb_code(float value, float limit)
{
    return gwb_code_bits(value, limit) & 0xffff;
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
