// SPDX-License-Identifier: MIT
// Arithmetic on the components of one pixel. The order of the operations is the definition: every device does these, in this order.
#ifndef GWB_KERNEL_COLOUR_H
#define GWB_KERNEL_COLOUR_H

#include "number.h"

#include "convert_args.h"

// Component i of the destination from the source's components.
GWB_FN float gwb_mix_one(const gwb_mix *mix, int i, float c0, float c1, float c2)
{
    const float *m = mix->m[i];
    return gwb_fma(m[2], c2 - mix->from[2], gwb_fma(m[1], c1 - mix->from[1], m[0] * (c0 - mix->from[0]))) + mix->to[i];
}

GWB_FN float gwb_mix_diagonal(const gwb_mix *mix, int i, float c)
{
    return mix->m[i][i] * (c - mix->from[i]) + mix->to[i];
}

// A component over the background, by alpha in 0..1.
GWB_FN float gwb_blend(float value, float background, float alpha)
{
    return background + (value - background) * alpha;
}

#endif
