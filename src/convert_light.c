// SPDX-License-Identifier: MIT
// The plan of a change of light: transfer curves, primaries, tone mapping.
#include "convert.h"

#include <math.h>

typedef struct matrix {
    double m[3][3];
} matrix;

static gwb_curve curve_of(int transfer)
{
    switch (transfer) {
    case GWB_TRANSFER_SRGB: return (gwb_curve){GWB_CURVE_SRGB, 0};
    case GWB_TRANSFER_BT709:        // as displays show it (BT.1886)
    case GWB_TRANSFER_BT1886: return (gwb_curve){GWB_CURVE_POWER, 2.4f};
    case GWB_TRANSFER_GAMMA22: return (gwb_curve){GWB_CURVE_POWER, 2.2f};
    case GWB_TRANSFER_GAMMA28: return (gwb_curve){GWB_CURVE_POWER, 2.8f};
    case GWB_TRANSFER_PQ: return (gwb_curve){GWB_CURVE_PQ, 0};
    case GWB_TRANSFER_HLG: return (gwb_curve){GWB_CURVE_HLG, 0};
    default: return (gwb_curve){GWB_CURVE_LINEAR, 0};
    }
}

static bool same_curve(int a, int b)
{
    gwb_curve x = curve_of(a), y = curve_of(b);
    return a == b || (a && b && x.kind == y.kind && x.gamma == y.gamma);
}

static matrix inverse(const matrix *a)
{
    matrix r;
    double det = 0;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            const int r0 = (j + 1) % 3, r1 = (j + 2) % 3, c0 = (i + 1) % 3, c1 = (i + 2) % 3;
            r.m[i][j] = a->m[r0][c0] * a->m[r1][c1] - a->m[r0][c1] * a->m[r1][c0];
        }
        det += r.m[i][0] * a->m[0][i];
    }
    for (int i = 0; i < 9; i++)
        r.m[i / 3][i % 3] /= det;
    return r;
}

// R G B in linear light to X Y Z, Y of white 1.
static matrix to_xyz(int primaries)
{
    double xy[8];
    gwb_primaries_xy(primaries, xy);
    matrix m;
    for (int i = 0; i < 3; i++) {
        m.m[0][i] = xy[2 * i] / xy[2 * i + 1];
        m.m[1][i] = 1;
        m.m[2][i] = (1 - xy[2 * i] - xy[2 * i + 1]) / xy[2 * i + 1];
    }
    const double white[3] = {xy[6] / xy[7], 1, (1 - xy[6] - xy[7]) / xy[7]};
    const matrix inv = inverse(&m);
    for (int i = 0; i < 3; i++) {
        const double scale = inv.m[i][0] * white[0] + inv.m[i][1] * white[1] + inv.m[i][2] * white[2];
        for (int j = 0; j < 3; j++)
            m.m[j][i] *= scale;
    }
    return m;
}

static bool is_hdr(int transfer)
{
    return transfer == GWB_TRANSFER_PQ || transfer == GWB_TRANSFER_HLG;
}

static bool differ(int a, int b)
{
    return a && b && a != b;
}

int gwb_convert_light_differs(const gwb_image *dst, const gwb_image *src)
{
    return (dst->transfer && src->transfer && !same_curve(dst->transfer, src->transfer)) || differ(dst->primaries, src->primaries);
}

int gwb_convert_light_settle(const gwb_image *dst, const gwb_image *src, const gwb_convert_params *params)
{
    if (params->color != 1) {
        if (params->color == 0 && gwb_convert_light_differs(dst, src)) {
            const char *tag = differ(dst->primaries, src->primaries) ? "primaries" : "transfer";
            const int from = *tag == 'p' ? src->primaries : src->transfer, to = *tag == 'p' ? dst->primaries : dst->transfer;
            return gwb_fail(GWB_BAD_ARGUMENT, "the source's %s are %s and the destination's %s: say color = \"convert\" to convert the numbers, or \"keep\" "
                "to keep them and change the tag", tag, gwb_tag_name(tag, from), gwb_tag_name(tag, to));
        }
        return 0;
    }
    const bool need_transfer = differ(dst->primaries, src->primaries);
    for (int i = 0; i < 2; i++) {
        const gwb_image *image = i ? src : dst, *other = i ? dst : src;
        const char *tag = !image->transfer && (other->transfer || need_transfer) ? "transfer" : !image->primaries && other->primaries ? "primaries" : NULL;
        if (tag)
            return gwb_fail(GWB_BAD_ARGUMENT, "color = \"convert\" needs the %s of the %s, which nobody gave: set its tag, or say %s = {%s = …}", tag,
                i ? "source" : "destination", i ? "from" : "to", tag);
    }
    return 0;
}

int gwb_convert_plan_light(gwb_light *l, const gwb_image *dst, const gwb_image *src, const gwb_convert_params *params)
{
    l->on = params->color == 1 && gwb_convert_light_differs(dst, src);
    if (!l->on)
        return 0;
    const int from = src->primaries ? src->primaries : GWB_PRIMARIES_BT2020, to = dst->primaries ? dst->primaries : from;
    const matrix source = to_xyz(from), target = to_xyz(to), back = inverse(&target);
    l->from = curve_of(src->transfer);
    l->to = curve_of(dst->transfer);
    for (int i = 0; i < 3; i++) {
        l->from_luma[i] = (float)source.m[1][i];
        l->to_luma[i] = (float)target.m[1][i];
        for (int j = 0; j < 3; j++)
            l->primaries[i][j] = from == to ? (float)(i == j)
                : (float)(back.m[i][0] * source.m[0][j] + back.m[i][1] * source.m[1][j] + back.m[i][2] * source.m[2][j]);
    }
    const double peak = params->peak == 0 ? 1000 : params->peak;
    if (!(peak >= 1 && peak <= 10000))
        return gwb_fail(GWB_BAD_ARGUMENT, "a peak of %g cd/m2 was given: wanted 1..10000", peak);
    if (is_hdr(src->transfer) && !is_hdr(dst->transfer) && peak > 203) {
        l->tone = params->tone;
        l->peak = (float)(peak / 203);
    }
    return 0;
}
