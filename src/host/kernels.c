// SPDX-License-Identifier: MIT
// Copy, fill, and channels on the host device, and the table of all its kernels.
#include "host/kernels.h"

#include "host/clones.h"

#define KERNEL(name, args, bx, by) [GWB_KERNEL_##name] = gwb_host_##name,
gwb_host_kernel *const gwb_host_kernels[GWB_KERNEL_COUNT] = {GWB_KERNELS(KERNEL)};
#undef KERNEL

void gwb_host_copy(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z)
{
    (void)nx;
    const gwb_copy_rect *r = &((const gwb_copy_args *)args)->rect[z];
    for (int64_t y = y0; y < y1 && y < r->rows; y++)
        memcpy(r->dst + y * r->dst_step, r->src + y * r->src_step, (size_t)r->width);
}

// A row is filled by doubling what it has, the further rows are copies of it.
void gwb_host_fill(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z)
{
    (void)nx, (void)z;
    const gwb_fill_args *a = args;
    const int64_t bytes = (int64_t)a->dst.width * a->elem_size;
    uint8_t *first = a->dst.data + y0 * a->dst.step;
    memcpy(first, a->pattern, (size_t)a->elem_size);
    for (int64_t have = a->elem_size; have < bytes;) {
        const int64_t more = have < bytes - have ? have : bytes - have;
        memcpy(first + have, first, (size_t)more);
        have += more;
    }
    for (int64_t y = y0 + 1; y < y1; y++)
        memcpy(a->dst.data + y * a->dst.step, first, (size_t)bytes);
}

// ---- channels: for each size and count a loop of its own, which the compiler can turn into shuffles

typedef uint8_t any8;
typedef uint16_t any16 __attribute__((aligned(1), may_alias));
typedef uint32_t any32 __attribute__((aligned(1), may_alias));
typedef uint64_t any64 __attribute__((aligned(1), may_alias));

#define CHANNEL_LOOPS(type) \
    GWB_CLONES static void split_##type(const type *restrict w, type *restrict a, type *restrict b, type *restrict c, type *restrict d, int64_t n, \
                                        int count) \
    { \
        switch (count) { \
        case 1: for (int64_t i = 0; i < n; i++) a[i] = w[i]; break; \
        case 2: for (int64_t i = 0; i < n; i++) a[i] = w[2 * i], b[i] = w[2 * i + 1]; break; \
        case 3: for (int64_t i = 0; i < n; i++) a[i] = w[3 * i], b[i] = w[3 * i + 1], c[i] = w[3 * i + 2]; break; \
        default: for (int64_t i = 0; i < n; i++) a[i] = w[4 * i], b[i] = w[4 * i + 1], c[i] = w[4 * i + 2], d[i] = w[4 * i + 3]; break; \
        } \
    } \
    GWB_CLONES static void merge_##type(type *restrict w, const type *restrict a, const type *restrict b, const type *restrict c, \
                                        const type *restrict d, int64_t n, int count) \
    { \
        switch (count) { \
        case 1: for (int64_t i = 0; i < n; i++) w[i] = a[i]; break; \
        case 2: for (int64_t i = 0; i < n; i++) w[2 * i] = a[i], w[2 * i + 1] = b[i]; break; \
        case 3: for (int64_t i = 0; i < n; i++) w[3 * i] = a[i], w[3 * i + 1] = b[i], w[3 * i + 2] = c[i]; break; \
        default: for (int64_t i = 0; i < n; i++) w[4 * i] = a[i], w[4 * i + 1] = b[i], w[4 * i + 2] = c[i], w[4 * i + 3] = d[i]; break; \
        } \
    } \
    static void channels_##type(uint8_t *w, uint8_t *const p[4], int64_t n, int count, int merge) \
    { \
        if (merge) \
            merge_##type((type *)w, (const type *)p[0], (const type *)p[1], (const type *)p[2], (const type *)p[3], n, count); \
        else \
            split_##type((const type *)w, (type *)p[0], (type *)p[1], (type *)p[2], (type *)p[3], n, count); \
    }
CHANNEL_LOOPS(any8)
CHANNEL_LOOPS(any16)
CHANNEL_LOOPS(any32)
CHANNEL_LOOPS(any64)

void gwb_host_channels(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z)
{
    (void)z;
    const gwb_channels_args *a = args;
    for (int64_t y = y0; y < y1; y++) {
        uint8_t *wide = a->wide.data + y * a->wide.step, *plane[4] = {0};
        for (int c = 0; c < a->count; c++)
            plane[c] = a->plane[c].data + y * a->plane[c].step;
        switch (a->size) {
        case 1: channels_any8(wide, plane, nx, a->count, a->merge); break;
        case 2: channels_any16(wide, plane, nx, a->count, a->merge); break;
        case 4: channels_any32(wide, plane, nx, a->count, a->merge); break;
        default: channels_any64(wide, plane, nx, a->count, a->merge); break;
        }
    }
}
