// SPDX-License-Identifier: MIT
// Reductions on the host device: the numbers of a row become doubles in a small array, whose lanes the compiler can add at once.
#include "host/kernels.h"

#include "host/clones.h"
#include "reduce.h"

// Adds n numbers, at most one a lane.
#define LANES_LOOP(NAME, name) \
    GWB_CLONES static void load_##name(double *v, const uint8_t *p, int pixel, int n) \
    { \
        for (int i = 0; i < n; i++) \
            v[i] = gwb_number_load_##name(p + i * pixel); \
    }
GWB_NUMBERS(LANES_LOOP)
#define LOAD_ENTRY(NAME, name) load_##name,
static void (*const loads[GWB_TYPES])(double *, const uint8_t *, int, int) = {GWB_NUMBERS(LOAD_ENTRY)};

#define JOIN(what) case what: for (int i = 0; i < n; i++) lanes[i] = gwb_reduce_join(what, lanes[i], gwb_reduce_value(what, v[i])); break;
GWB_CLONES static void join(int what, double *restrict lanes, const double *restrict v, int n)
{
    switch (what) {
    JOIN(GWB_REDUCE_SUM)
    JOIN(GWB_REDUCE_MIN)
    JOIN(GWB_REDUCE_MAX)
    JOIN(GWB_REDUCE_ABS)
    JOIN(GWB_REDUCE_SQUARES)
    JOIN(GWB_REDUCE_NONZERO)
    }
}

// The same sums in the same order as gwb_reduce_lane makes them, lane by lane.
static double reduce_tile(const gwb_reduce_args *a, int tx, int ty, int channel)
{
    double lanes[GWB_REDUCE_LANES], v[GWB_REDUCE_LANES];
    const int size = gwb_number_size(a->type), pixel = size * a->channels;
    const int64_t x0 = (int64_t)tx * a->run, y0 = (int64_t)ty * a->rows;
    const int64_t x1 = x0 + a->run < a->src.width ? x0 + a->run : a->src.width, y1 = y0 + a->rows < a->src.height ? y0 + a->rows : a->src.height;
    for (int i = 0; i < GWB_REDUCE_LANES; i++)
        lanes[i] = gwb_reduce_start(a->what);
    for (int64_t y = y0; y < y1; y++) {
        const uint8_t *row = a->src.data + y * a->src.step + channel * size;
        for (int64_t x = x0; x < x1; x += GWB_REDUCE_LANES) {
            const int n = (int)(x1 - x < GWB_REDUCE_LANES ? x1 - x : GWB_REDUCE_LANES);
            loads[a->type](v, row + x * pixel, pixel, n);
            join(a->what, lanes, v, n);
        }
    }
    for (int half = GWB_REDUCE_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] = gwb_reduce_join(a->what, lanes[i], lanes[i + half]);
    return lanes[0];
}

void gwb_host_reduce(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z)
{
    (void)nx;
    const gwb_reduce_args *a = args;
    for (int32_t ty = y0; ty < y1; ty++)
        for (int32_t tx = 0; tx < a->tiles_x; tx++)
            *gwb_reduce_out(a, tx, ty, z) = reduce_tile(a, tx, ty, z);
}
