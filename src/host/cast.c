// SPDX-License-Identifier: MIT
// Conversion of numbers on the host device: runs of numbers go through an array of doubles that stays in the first-level cache, so that each type
// needs one loop to load it and one to store it, and the compiler can use vectors in all of them.
#include "host/kernels.h"

#include "cast.h"
#include "host/clones.h"

enum { RUN = 512 };     // numbers

#define LOAD_LOOP(NAME, name) \
    GWB_CLONES static void load_##name(double *v, const uint8_t *p, int n) \
    { \
        for (int i = 0; i < n; i++) \
            v[i] = gwb_number_load_##name(p + i * gwb_number_size(GWB_##NAME)); \
    }
#define STORE_LOOP(NAME, name) \
    GWB_CLONES static void store_##name(uint8_t *p, const double *v, int n, int mode) \
    { \
        switch (mode) { \
        case 0: for (int i = 0; i < n; i++) gwb_number_store_##name(p + i * gwb_number_size(GWB_##NAME), v[i], 0); break; \
        case 1: for (int i = 0; i < n; i++) gwb_number_store_##name(p + i * gwb_number_size(GWB_##NAME), v[i], 1); break; \
        case 2: for (int i = 0; i < n; i++) gwb_number_store_##name(p + i * gwb_number_size(GWB_##NAME), v[i], 2); break; \
        default: for (int i = 0; i < n; i++) gwb_number_store_##name(p + i * gwb_number_size(GWB_##NAME), v[i], 3); break; \
        } \
    }
GWB_NUMBERS(LOAD_LOOP)
GWB_NUMBERS(STORE_LOOP)

GWB_CLONES static void scale_run(double *v, int n, double scale, double offset)
{
    for (int i = 0; i < n; i++)
        v[i] = v[i] * scale + offset;
}

#define LOAD_ENTRY(NAME, name) load_##name,
#define STORE_ENTRY(NAME, name) store_##name,
static void (*const loads[GWB_TYPES])(double *, const uint8_t *, int) = {GWB_NUMBERS(LOAD_ENTRY)};
static void (*const stores[GWB_TYPES])(uint8_t *, const double *, int, int) = {GWB_NUMBERS(STORE_ENTRY)};

void gwb_host_cast(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z)
{
    (void)z;
    const gwb_cast_args *a = args;
    const int64_t src_size = gwb_number_size(a->src_type), dst_size = gwb_number_size(a->dst_type);
    const bool plain = gwb_cast_plain(a);
    double v[RUN];
    for (int64_t y = y0; y < y1; y++) {
        const uint8_t *src = a->src.data + y * a->src.step;
        uint8_t *dst = a->dst.data + y * a->dst.step;
        if (plain && a->src_type == a->dst_type) {
            memmove(dst, src, (size_t)(nx * src_size));     // the two may be the same
            continue;
        }
        for (int32_t x = 0, n; x < nx; x += n) {
            n = nx - x < RUN ? nx - x : RUN;
            loads[a->src_type](v, src + x * src_size, n);
            if (!plain)
                scale_run(v, n, a->scale, a->offset);
            stores[a->dst_type](dst + x * dst_size, v, n, a->round);
        }
    }
}
