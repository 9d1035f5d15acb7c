// SPDX-License-Identifier: MIT
// Splits interleaved channels into planes, or merges planes.
#ifndef GWB_KERNEL_CHANNELS_H
#define GWB_KERNEL_CHANNELS_H

#include "args.h"
#include "number.h"

// Pixels of a cuda thread, one every GWB_CHANNELS_STRIDE: see cast.h.
enum { GWB_CHANNELS_RUN = 4, GWB_CHANNELS_STRIDE = 32 };

GWB_FN uint64_t gwb_channels_read(const uint8_t *p, int size)
{
    return size == 1 ? *p : size == 2 ? gwb_read16(p) : size == 4 ? gwb_read32(p) : gwb_read64(p);
}

GWB_FN void gwb_channels_write(uint8_t *p, uint64_t v, int size)
{
    if (size == 1)
        *p = (uint8_t)v;
    else if (size == 2)
        gwb_write16(p, (uint32_t)v);
    else if (size == 4)
        gwb_write32(p, (uint32_t)v);
    else
        gwb_write64(p, v);
}

// The pixels x, x + `stride` .. of row y that the row has, at most `run` <= 4; all loads come before the first store. `size` is a constant
// where this is called, so that the compiler drops the other sizes.
GWB_FN void gwb_channels_run(const gwb_channels_args *args, int32_t x, int32_t y, int run, int stride, int size)
{
    const int left = (args->wide.width - x + stride - 1) / stride, n = left < run ? left : run;
    uint8_t *wide = args->wide.data + y * args->wide.step + (int64_t)x * args->count * size;
    uint64_t v[4][4] = {{0}};
    GWB_UNROLL
    for (int c = 0; c < 4; c++) {
        if (c >= args->count)
            break;
        const uint8_t *from = args->merge ? args->plane[c].data + y * args->plane[c].step + (int64_t)x * size : wide + c * size;
        const int64_t step = (int64_t)stride * size * (args->merge ? 1 : args->count);
        GWB_UNROLL
        for (int i = 0; i < 4; i++)
            if (i < n)
                v[c][i] = gwb_channels_read(from + i * step, size);
    }
    GWB_UNROLL
    for (int c = 0; c < 4; c++) {
        if (c >= args->count)
            break;
        uint8_t *to = args->merge ? wide + c * size : args->plane[c].data + y * args->plane[c].step + (int64_t)x * size;
        const int64_t step = (int64_t)stride * size * (args->merge ? args->count : 1);
        GWB_UNROLL
        for (int i = 0; i < 4; i++)
            if (i < n)
                gwb_channels_write(to + i * step, v[c][i], size);
    }
}

#endif
