// SPDX-License-Identifier: MIT
// Converts numbers: dst = saturate(round(src * scale + offset)), in double. Scale 1 and offset 0 leave a number as it is, and then the same
// type keeps its bits.
#ifndef GWB_KERNEL_CAST_H
#define GWB_KERNEL_CAST_H

#include "args.h"
#include "number.h"

GWB_FN bool gwb_cast_plain(const gwb_cast_args *args)
{
    return args->scale == 1.0 && args->offset == 0.0;
}

// Numbers of a cuda thread: one every GWB_CAST_STRIDE, so that a warp's accesses lie side by side and need no alignment; all loads before
// the first store.
enum { GWB_CAST_RUN = 4, GWB_CAST_STRIDE = 32 };

#define GWB_CAST_LOAD(NAME, name) \
    case GWB_##NAME: \
        GWB_UNROLL \
        for (int i = 0; i < GWB_CAST_RUN; i++) \
            v[i] = i < count ? gwb_number_load_##name(src + i * GWB_CAST_STRIDE * src_size) : 0.0; \
        break;
#define GWB_CAST_STORE(NAME, name) \
    case GWB_##NAME: \
        GWB_UNROLL \
        for (int i = 0; i < GWB_CAST_RUN; i++) \
            if (i < count) \
                gwb_number_store_##name(dst + i * GWB_CAST_STRIDE * dst_size, v[i], args->round); \
        break;

// The numbers x, x + GWB_CAST_STRIDE .. of row y that the row has, at most GWB_CAST_RUN.
GWB_FN void gwb_cast_run(const gwb_cast_args *args, int32_t x, int32_t y)
{
    const int src_size = gwb_number_size(args->src_type), dst_size = gwb_number_size(args->dst_type);
    const uint8_t *src = args->src.data + y * args->src.step + (int64_t)x * src_size;
    uint8_t *dst = args->dst.data + y * args->dst.step + (int64_t)x * dst_size;
    const int count = (args->dst.width - x + GWB_CAST_STRIDE - 1) / GWB_CAST_STRIDE;
    const bool plain = gwb_cast_plain(args);

    if (plain && args->src_type == args->dst_type) {
        for (int i = 0; i < GWB_CAST_RUN && i < count; i++)
            gwb_number_copy(dst + i * GWB_CAST_STRIDE * src_size, src + i * GWB_CAST_STRIDE * src_size, src_size);
        return;
    }
    double v[GWB_CAST_RUN] = {0};
    switch (args->src_type) { GWB_NUMBERS(GWB_CAST_LOAD) }
    if (!plain) {
        GWB_UNROLL
        for (int i = 0; i < GWB_CAST_RUN; i++)
            v[i] = v[i] * args->scale + args->offset;
    }
    switch (args->dst_type) { GWB_NUMBERS(GWB_CAST_STORE) }
}

#undef GWB_CAST_LOAD
#undef GWB_CAST_STORE

#endif
