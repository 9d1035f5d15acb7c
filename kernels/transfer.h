// SPDX-License-Identifier: MIT
// From one picture's light to another's: transfer curves, primaries, tone mapping. Linear light counts in units of the SDR white, 203 cd/m2
// (ITU-R BT.2408). Curves are evaluated in double, and negative values mirror positive ones.
#ifndef GWB_KERNEL_TRANSFER_H
#define GWB_KERNEL_TRANSFER_H

#include "convert_args.h"
#include "power.h"

// SMPTE ST 2084, 1.0 is 10000 cd/m2.
GWB_FN double gwb_pq_to_linear(double v)
{
    const double p = gwb_power(v, 32.0 / 2523.0), n = p - 107.0 / 128.0;
    return gwb_power((n > 0.0 ? n : 0.0) / (2413.0 / 128.0 - 2392.0 / 128.0 * p), 8192.0 / 1305.0);
}

GWB_FN double gwb_linear_to_pq(double v)
{
    const double p = gwb_power(v, 1305.0 / 8192.0);
    return gwb_power((107.0 / 128.0 + 2413.0 / 128.0 * p) / (1.0 + 2392.0 / 128.0 * p), 2523.0 / 32.0);
}

// ITU-R BT.2100 HLG, the curve alone: signal to scene light.
GWB_FN double gwb_hlg_to_scene(double v)
{
    const double low = v * v * (1.0 / 3.0), high = (gwb_exp2((v - 0.55991073) * (1.4426950408889634 / 0.17883277)) + 0.28466892) * (1.0 / 12.0);
    return v <= 0.5 ? low : high;
}

GWB_FN double gwb_scene_to_hlg(double v)
{
    const double low = sqrt(3.0 * v), high = 0.17883277 * 0.69314718055994531 * gwb_log2(12.0 * v - 0.28466892) + 0.55991073;
    return v <= 1.0 / 12.0 ? low : high;
}

GWB_FN float gwb_mirrored(float sign, double magnitude)
{
    return sign < 0.0f ? -(float)magnitude : (float)magnitude;
}

GWB_FN double gwb_srgb_to_linear(double v)
{
    const double low = v * (1.0 / 12.92), high = gwb_power((v + 0.055) * (1.0 / 1.055), 2.4);
    return v <= 0.04045 ? low : high;
}

GWB_FN double gwb_linear_to_srgb(double v)
{
    const double low = v * 12.92, high = 1.055 * gwb_power(v, 1.0 / 2.4) - 0.055;
    return v <= 0.0031308 ? low : high;
}

// A component's code in 0..1 to linear light; of HLG, to scene light.
GWB_FN float gwb_to_linear(const gwb_curve *c, float value)
{
    const double v = value < 0.0f ? -(double)value : (double)value;
    switch (c->kind) {
    case GWB_CURVE_POWER:
        return gwb_mirrored(value, gwb_power(v, c->gamma));
    case GWB_CURVE_SRGB:
        return gwb_mirrored(value, gwb_srgb_to_linear(v));
    case GWB_CURVE_PQ:
        return gwb_mirrored(value, gwb_pq_to_linear(v) * (10000.0 / 203.0));
    case GWB_CURVE_HLG:
        return gwb_mirrored(value, gwb_hlg_to_scene(v));
    default:
        return value;
    }
}

GWB_FN float gwb_from_linear(const gwb_curve *c, float value)
{
    const double v = value < 0.0f ? -(double)value : (double)value;
    switch (c->kind) {
    case GWB_CURVE_POWER:
        return gwb_mirrored(value, gwb_power(v, 1.0 / c->gamma));
    case GWB_CURVE_SRGB:
        return gwb_mirrored(value, gwb_linear_to_srgb(v));
    case GWB_CURVE_PQ:
        return gwb_mirrored(value, gwb_linear_to_pq(v * (203.0 / 10000.0)));
    case GWB_CURVE_HLG:
        return gwb_mirrored(value, gwb_scene_to_hlg(v));
    default:
        return value;
    }
}

// HLG's system: from scene light to the light of a display of 1000 cd/m2, by the pixel's luminance; and back.
GWB_FN void gwb_hlg_ootf(const float luma[3], int inverse, float c[3])
{
    const double y = (double)luma[0] * c[0] + (double)luma[1] * c[1] + (double)luma[2] * c[2];
    const double gain = inverse ? (203.0 / 1000.0) * gwb_power(y * (203.0 / 1000.0), -1.0 / 6.0) : (1000.0 / 203.0) * gwb_power(y, 0.2);
    for (int i = 0; i < 3; i++)
        c[i] = (float)(c[i] * gain);
}

// ITU-R BT.2390's curve for the brightest component m, from a peak to the SDR white.
GWB_FN double gwb_tone_bt2390(double m, double peak)
{
    const double top = gwb_linear_to_pq(peak * (203.0 / 10000.0)), most = gwb_linear_to_pq(203.0 / 10000.0) / top, knee = 1.5 * most - 0.5;
    const double given = gwb_linear_to_pq(m * (203.0 / 10000.0)) / top, e = given < 1.0 ? given : 1.0;
    const double t = (e - knee) / (1.0 - knee), t2 = t * t, t3 = t2 * t;
    const double shoulder = (2.0 * t3 - 3.0 * t2 + 1.0) * knee + (t3 - 2.0 * t2 + t) * (1.0 - knee) + (3.0 * t2 - 2.0 * t3) * most;
    return gwb_pq_to_linear((e > knee ? shoulder : e) * top) * (10000.0 / 203.0);
}

GWB_FN double gwb_hable(double v)
{
    return (v * (0.15 * v + 0.05) + 0.004) / (v * (0.15 * v + 0.5) + 0.06) - 0.02 / 0.3;
}

// All components by the factor that brings the brightest from 0..peak into 0..1, so that hues stay.
GWB_FN void gwb_tone_map(int tone, float peak, float c[3])
{
    const float red = c[0], green = c[1], blue = c[2], more = red > green ? red : green;
    const double m = more > blue ? more : blue, p = peak;
    const double mapped = tone == GWB_TONE_BT2390 ? gwb_tone_bt2390(m, p)
        : tone == GWB_TONE_REINHARD ? m * (1.0 + m / (p * p)) / (1.0 + m) : gwb_hable(m) / gwb_hable(p);
    const double ratio = mapped / m, gain = m > 0.0 ? ratio : 1.0;
    c[0] = (float)(red * gain);
    c[1] = (float)(green * gain);
    c[2] = (float)(blue * gain);
}

GWB_FN void gwb_change_primaries(const gwb_light *l, float c[3])
{
    const float r = c[0], g = c[1], b = c[2];
    for (int i = 0; i < 3; i++)
        c[i] = (l->primaries[i][0] * r + l->primaries[i][1] * g) + l->primaries[i][2] * b;
}

// A pixel's R G B, 0..1 in the source's curve and primaries, into the destination's.
GWB_FN void gwb_convert_light(const gwb_light *l, float c[3])
{
    for (int i = 0; i < 3; i++)
        c[i] = gwb_to_linear(&l->from, c[i]);
    if (l->from.kind == GWB_CURVE_HLG)
        gwb_hlg_ootf(l->from_luma, 0, c);
    gwb_change_primaries(l, c);
    if (l->tone)
        gwb_tone_map(l->tone, l->peak, c);
    if (l->to.kind == GWB_CURVE_HLG)
        gwb_hlg_ootf(l->to_luma, 1, c);
    for (int i = 0; i < 3; i++)
        c[i] = gwb_from_linear(&l->to, c[i]);
}

#endif
