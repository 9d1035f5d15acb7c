// SPDX-License-Identifier: MIT
// Reading a component between its samples.
#ifndef GWB_KERNEL_SAMPLE_H
#define GWB_KERNEL_SAMPLE_H

#include "load.h"

// Input index of tap 0 of output i, before clamping.
GWB_FN int gwb_taps_first(const gwb_taps *t, int i)
{
    return (i >> t->phase_bits) * t->scale + t->base[i & ((1 << t->phase_bits) - 1)];
}

GWB_FN int gwb_clamp(int i, int last)
{
    return i < 0 ? 0 : i > last ? last : i;
}

GWB_FN float gwb_sample_at(int kind, const gwb_samples *s, int x, int y)
{
    return gwb_load_sample(kind, s->data + s->step * y, x, s->pitch, s->lane, s->shift, s->mask);
}

// Output (x, y) of a component that is resampled by tx and ty: first down each column, then along the row.
GWB_FN float gwb_resample(int kind, const gwb_samples *s, const gwb_taps *tx, const gwb_taps *ty, int x, int y)
{
    const int x0 = gwb_taps_first(tx, x), y0 = gwb_taps_first(ty, y);
    const float *wx = tx->weight[x & ((1 << tx->phase_bits) - 1)], *wy = ty->weight[y & ((1 << ty->phase_bits) - 1)];
    float sum = 0.0f;
    for (int i = 0; i < tx->count; i++) {
        const int column = gwb_clamp(x0 + i, tx->last);
        float v = wy[0] * gwb_sample_at(kind, s, column, gwb_clamp(y0, ty->last));
        for (int j = 1; j < ty->count; j++)
            v = v + wy[j] * gwb_sample_at(kind, s, column, gwb_clamp(y0 + j, ty->last));
        sum = i == 0 ? wx[0] * v : sum + wx[i] * v;
    }
    return sum;
}

#endif
