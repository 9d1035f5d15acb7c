// SPDX-License-Identifier: MIT
// The stage resize: which filter runs how, and the tables of weights.
#include "pipe_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct kernel {
    double radius;
    double (*weight)(double);
} kernel;

static double triangle(double x)
{
    return fmax(0, 1 - fabs(x));
}

static double cubic(double a, double x)
{
    x = fabs(x);
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double catmull_rom(double x)
{
    return cubic(-0.5, x);
}

static double cubic_opencv(double x)
{
    return cubic(-0.75, x);
}

static double sinc(double x)
{
    const double t = 3.14159265358979323846 * x;
    return x == 0 ? 1 : sin(t) / t;
}

static double lanczos3(double x)
{
    return fabs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

enum { NEAREST, BILINEAR, BICUBIC, BICUBIC_OPENCV, AREA, LANCZOS3 };    // as GWB_FILTERS names them
static const kernel kernels[] = {
    [BILINEAR] = {1, triangle}, [BICUBIC] = {2, catmull_rom}, [BICUBIC_OPENCV] = {2, cubic_opencv}, [LANCZOS3] = {3, lanczos3},
};

// ---- tables

// The weights along an axis of `in` pixels that becomes `out`.
typedef struct axis {
    int filter, in, out;
    double scale, reach, widen;     // source pixels: a pixel, half the filter's width, the filter's unit
} axis;

static axis axis_of(int filter, int in, int out, bool antialias)
{
    const double scale = (double)in / out, widen = antialias && scale > 1 ? scale : 1;
    return (axis){filter, in, out, scale, filter == AREA ? scale / 2 : kernels[filter].radius * widen, widen};
}

// The first pixel that output i touches, and how many there are.
static int64_t first_tap(const axis *a, int i, int64_t *count)
{
    const double low = (i + 0.5) * a->scale - a->reach, high = (i + 0.5) * a->scale + a->reach;
    // an area filter takes part of a pixel, the others see its centre
    const int64_t first = (int64_t)(a->filter == AREA ? floor(low + 1e-9) : floor(low - 0.5) + 1);
    const int64_t last = (int64_t)(a->filter == AREA ? ceil(high - 1e-9) - 1 : ceil(high - 0.5) - 1);
    *count = last < first ? 1 : last - first + 1;
    return first;
}

static int64_t most_taps(const axis *a)
{
    int64_t most = 1, count;
    for (int i = 0; i < a->out; i++) {
        first_tap(a, i, &count);
        most = count > most ? count : most;
    }
    return most;
}

static double tap_weight(const axis *a, int i, int64_t tap)
{
    const double centre = (i + 0.5) * a->scale;
    if (a->filter == AREA)
        return fmax(0, fmin(centre + a->reach, (double)tap + 1) - fmax(centre - a->reach, (double)tap));
    return kernels[a->filter].weight(((double)tap + 0.5 - centre) / a->widen);
}

// Row 0: the first tap of each output (int32); row 1 + t: the weights of tap t, which add up to 1.
static void fill_table(float *table, const axis *a, int64_t taps)
{
    for (int i = 0; i < a->out; i++) {
        int64_t count;
        const int64_t first = first_tap(a, i, &count);
        double sum = 0;
        for (int64_t t = 0; t < taps; t++)
            sum += t < count ? tap_weight(a, i, first + t) : 0;
        for (int64_t t = 0; t < taps; t++)
            table[(1 + t) * a->out + i] = t < count ? (float)(tap_weight(a, i, first + t) / sum) : 0;
        memcpy(&table[i], &(int32_t){(int32_t)first}, 4);
    }
}

static int add_table_link(gwb_pipe_state *s, bool vertical, const axis *a, int64_t taps)
{
    gwb_link *l = gwb_pipe_add_link(s, vertical ? GWB_LINK_TABLE_Y : GWB_LINK_TABLE_X, GWB_BEFORE_AFFINE);
    gwb_pipe_move *m = l ? gwb_pipe_add_move(s, l) : NULL;
    if (!m)
        return GWB_UNSUPPORTED;
    float *table = malloc((size_t)a->out * (size_t)(taps + 1) * sizeof *table);
    if (!table)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    fill_table(table, a, taps);
    gwb_mat *mat = NULL;
    int rc = gwb_pipe_add_table(s, table, a->out, (int32_t)taps + 1, &mat);
    free(table);
    if (rc < 0)
        return rc;
    if (mat->step > INT32_MAX)
        return gwb_pipe_fail(s, GWB_UNSUPPORTED, "a table of %d weights a row", a->out);
    m->table = mat->data;
    m->step = (int32_t)mat->step;
    m->taps = (int32_t)taps;
    *(vertical ? &s->image.height : &s->image.width) = a->out;
    s->taps *= taps;
    return 0;
}

// One axis after the other, the width first, which is nearly always cheaper. In one pass only where few pixels are looked at twice.
static int add_tables(gwb_pipe_state *s, int width, int height, int filter, bool antialias)
{
    enum { FEW = 16, MOST = 1 << 26 };
    const bool wide = width != s->image.width, high = height != s->image.height;
    const axis x = axis_of(filter, s->image.width, width, antialias), y = axis_of(filter, s->image.height, height, antialias);
    const axis *longest = x.reach * x.out > y.reach * y.out ? &x : &y;
    if ((2 * longest->reach + 2) * longest->out > MOST)
        return gwb_pipe_fail(s, GWB_UNSUPPORTED, "from %d to %d pixels takes more than %d weights; resize in steps, or with antialias = false", longest->in,
                             longest->out, MOST);
    const int64_t tx = wide ? most_taps(&x) : 1, ty = high ? most_taps(&y) : 1;
    int rc = s->taps > 1 && s->taps * tx * ty > FEW ? gwb_pipe_break(s) : 0;
    if (rc >= 0 && wide)
        rc = add_table_link(s, false, &x, tx);
    if (rc >= 0 && wide && high && tx * ty > FEW)
        rc = gwb_pipe_break(s);
    return rc >= 0 && high ? add_table_link(s, true, &y, ty) : rc;
}

// ---- filters with few taps, whose weights are worked out pixel by pixel

int gwb_pipe_add_resize(gwb_pipe_state *s, int width, int height, int filter, bool antialias)
{
    const int64_t in[2] = {s->image.width, s->image.height}, out[2] = {width, height};
    if (out[0] == in[0] && out[1] == in[1])
        return 0;
    const bool shrinks = out[0] < in[0] || out[1] < in[1];
    if (filter == AREA || filter == LANCZOS3 || (antialias && shrinks && filter != NEAREST))
        return add_tables(s, width, height, filter, antialias);
    const bool nearest = filter == NEAREST;
    const int rc = gwb_pipe_take_taps(s, nearest ? 1 : filter == BILINEAR ? 4 : 16);
    if (rc < 0)
        return rc;
    gwb_link *l = gwb_pipe_add_link(s, nearest ? GWB_LINK_NEAREST : filter == BILINEAR ? GWB_LINK_BILINEAR : GWB_LINK_CUBIC,
                                    nearest ? GWB_BEFORE_VALUES : GWB_BEFORE_AFFINE);
    gwb_pipe_move *m = l ? gwb_pipe_add_move(s, l) : NULL;
    if (!m)
        return GWB_UNSUPPORTED;
    for (int i = 0; i < 2; i++) {
        m->scale[i] = nearest ? (in[i] << 32) / (2 * out[i]) : ((in[i] << 32) + out[i] / 2) / out[i];
        m->offset[i] = nearest ? out[i] : (in[i] - out[i]) * ((int64_t)1 << 31) / out[i];
    }
    if (l->kind == GWB_LINK_CUBIC) {
        gwb_pipe_stage *stage = gwb_pipe_add_stage(s, l);
        if (!stage)
            return GWB_UNSUPPORTED;
        stage->f[0] = filter == BICUBIC ? -0.5f : -0.75f;
    }
    s->image.width = width;
    s->image.height = height;
    return 0;
}
