// SPDX-License-Identifier: MIT
// Reduces the numbers of a channel: sums, extremes, counts, in double. The picture is cut into tiles by its size alone, and a tile is summed in a fixed
// order, so that every device gives the same bits.
#ifndef GWB_KERNEL_REDUCE_H
#define GWB_KERNEL_REDUCE_H

#include "args.h"
#include "number.h"

// Lane l of a tile takes its pixels l, l + GWB_REDUCE_LANES … of each row, row after row; then the lanes are joined in halves.
enum { GWB_REDUCE_LANES = 256 };

GWB_FN double gwb_reduce_start(int what)
{
    return what == GWB_REDUCE_MIN ? gwb_double_from_bits((uint64_t)0x7ff << 52) : what == GWB_REDUCE_MAX ? gwb_double_from_bits((uint64_t)0xfff << 52) : 0.0;
}

// What a number counts as.
GWB_FN double gwb_reduce_value(int what, double v)
{
    return what == GWB_REDUCE_SQUARES ? v * v : what == GWB_REDUCE_ABS ? fabs(v) : what == GWB_REDUCE_NONZERO ? (v != 0.0 ? 1.0 : 0.0) : v;
}

// A NaN stays one, also as an extreme.
GWB_FN double gwb_reduce_join(int what, double a, double b)
{
    switch (what) {
    case GWB_REDUCE_MIN: return a != a || a < b ? a : b;
    case GWB_REDUCE_MAX: return a != a || a > b ? a : b;
    default: return a + b;
    }
}

// Where the result of a tile goes.
GWB_FN double *gwb_reduce_out(const gwb_reduce_args *a, int tx, int ty, int channel)
{
    return a->out + ((int64_t)channel * a->tiles_y + ty) * a->tiles_x + tx;
}

#define GWB_REDUCE_LOAD(NAME, name) case GWB_##NAME: return gwb_number_load_##name(p);
GWB_FN double gwb_reduce_load(int type, const uint8_t *p)
{
    switch (type) { GWB_NUMBERS(GWB_REDUCE_LOAD) }
    return 0.0;
}
#undef GWB_REDUCE_LOAD

// What lane `lane` of a tile finds.
GWB_FN double gwb_reduce_lane(const gwb_reduce_args *a, int lane, int tx, int ty, int channel)
{
    const int size = gwb_number_size(a->type), pixel = size * a->channels;
    const int64_t x0 = (int64_t)tx * a->run, y0 = (int64_t)ty * a->rows;
    const int64_t x1 = x0 + a->run < a->src.width ? x0 + a->run : a->src.width, y1 = y0 + a->rows < a->src.height ? y0 + a->rows : a->src.height;
    double sum = gwb_reduce_start(a->what);
    for (int64_t y = y0; y < y1; y++) {
        const uint8_t *row = a->src.data + y * a->src.step + channel * size;
        for (int64_t x = x0 + lane; x < x1; x += GWB_REDUCE_LANES)
            sum = gwb_reduce_join(a->what, sum, gwb_reduce_value(a->what, gwb_reduce_load(a->type, row + x * pixel)));
    }
    return sum;
}

#endif
