// SPDX-License-Identifier: MIT
// Copies up to four rectangles of bytes in one launch, whatever their alignment.
//
// A copy is bound by memory: per byte it costs one byte read and one written, and a processor of a large GPU needs some 48 KB in flight to
// keep the memory busy. So a thread moves 16 bytes at once, four times, all loads before the first store. A rectangle's rows are cut
// into chunks of 16 bytes at the destination's own 16-byte borders, the chunks of all rows are counted through, and each thread finds its row by
// a multiplication: no thread idles, whatever the width. A picture in 4K is then a single wave of blocks.
// - gwb_copy_aligned, where all addresses are multiples of 16: one load and one store a chunk.
// - gwb_copy_any: a row's first and last chunk are partial, stored in words and bytes; the source's 16 bytes come from the one or two aligned blocks that
//   hold them, shifted into place. A block holds at least one byte of the row, and is read only where it lies within the rectangle
//   from its first to its last byte, so nothing outside the allocation is touched; at the two ends single bytes are read.
#ifndef GWB_KERNEL_COPY_H
#define GWB_KERNEL_COPY_H

#include "args.h"
#include "bytes.h"

enum { GWB_COPY_THREADS = 256, GWB_COPY_RUN = 4 };  // threads of a block, chunks of a thread

// A chunk under way: the 16 bytes from `skip` on of a, b go to the 16-byte border dst; of these only bytes first .. end - 1.
typedef struct gwb_copy_chunk {
    uint8_t *dst;
    int first, end, skip;
    gwb_bytes16 a, b;
} gwb_copy_chunk;

// n / chunks, for n below 2^31.
GWB_FN uint32_t gwb_copy_row(const gwb_copy_rect *r, uint32_t n)
{
#if defined(__CUDACC__)
    const uint32_t product = __umulhi(n, r->magic);
#else
    const uint32_t product = (uint32_t)((uint64_t)n * r->magic >> 32);
#endif
    return r->chunks == 1 ? n : product >> r->shift;
}

GWB_FN void gwb_copy_load(const gwb_copy_rect *r, uint32_t n, gwb_copy_chunk *c)
{
    const uint32_t row = gwb_copy_row(r, n);
    const int64_t at = 16 * (int64_t)(n - row * r->chunks);     // from the 16-byte border at or before the row's first byte
    uint8_t *to = r->dst + row * r->dst_step;
    const int before = (int)((uint64_t)to & 15);                // bytes between that border and the row
    const int64_t left = before + r->width - at;
    c->dst = to - before + at;
    c->first = at ? 0 : before;
    c->end = left < 16 ? (int)left : 16;
    if (c->end <= c->first)
        return;

    const uint64_t from = (uint64_t)r->src + row * r->src_step + at - before;
    const uint64_t low = (uint64_t)r->src, high = low + (r->rows - 1) * r->src_step + r->width;
    c->skip = (int)(from & 15);
    const uint64_t a = from - c->skip, b = a + 16;
    const bool wants_a = c->first + c->skip < 16, wants_b = c->end + c->skip > 16;
    if ((!wants_a || (a >= low && a + 16 <= high)) && (!wants_b || (b >= low && b + 16 <= high))) {
        if (wants_a)
            c->a = gwb_load16((const uint8_t *)a);
        if (wants_b)
            c->b = gwb_load16((const uint8_t *)b);
        return;
    }
    c->skip = 0;
    for (int i = 0; i < 4; i++) {
        c->a.w[i] = 0;
        for (int j = 4 * i; j < 4 * i + 4; j++)
            if (c->first <= j && j < c->end)
                c->a.w[i] |= (uint32_t)((const uint8_t *)from)[j] << 8 * (j & 3);
    }
}

GWB_FN void gwb_copy_store(const gwb_copy_chunk *c)
{
    if (c->end <= c->first)
        return;
    const gwb_bytes16 v = gwb_join16(c->a, c->b, c->skip);
    if (c->first == 0 && c->end == 16)
        gwb_store16(c->dst, v);
    else
        gwb_store_part(c->dst, v, c->first, c->end);
}

GWB_FN const gwb_copy_rect *gwb_copy_find(const gwb_copy_args *args, uint32_t block)
{
    int which = 0;
    for (int i = 1; i < 4; i++)
        if (block >= args->rect[i].block)
            which = i;
    return &args->rect[which];
}

// The work of one thread of one block, where every rectangle is aligned: both addresses and steps are multiples of 16.
GWB_FN void gwb_copy_aligned(const gwb_copy_args *args, uint32_t block, uint32_t thread)
{
    const gwb_copy_rect *r = gwb_copy_find(args, block);
    const uint32_t count = (uint32_t)r->rows * r->chunks;
    const uint32_t start = (block - r->block) * GWB_COPY_THREADS * GWB_COPY_RUN + thread;
    gwb_bytes16 v[GWB_COPY_RUN];
    uint8_t *to[GWB_COPY_RUN];
    uint32_t part = 0;  // bit i: chunk i is a row's last and not whole
    GWB_UNROLL
    for (int i = 0; i < GWB_COPY_RUN; i++) {
        const uint32_t n = start + i * GWB_COPY_THREADS, row = gwb_copy_row(r, n);
        const int64_t at = 16 * (int64_t)(n - row * r->chunks);
        const bool whole = at + 16 <= r->width;
        to[i] = n < count && whole ? r->dst + row * r->dst_step + at : (uint8_t *)0;
        if (to[i])
            v[i] = gwb_load16(r->src + row * r->src_step + at);
        part |= (uint32_t)(n < count && !whole) << i;
    }
    GWB_UNROLL
    for (int i = 0; i < GWB_COPY_RUN; i++)
        if (to[i])
            gwb_store16(to[i], v[i]);
    GWB_NO_UNROLL
    for (int i = 0; part >> i; i++)
        if (part >> i & 1) {
            gwb_copy_chunk c;
            gwb_copy_load(r, start + i * GWB_COPY_THREADS, &c);
            gwb_copy_store(&c);
        }
}

// The same at any alignment, two chunks at once: four would take too many registers.
GWB_FN void gwb_copy_any(const gwb_copy_args *args, uint32_t block, uint32_t thread)
{
    const gwb_copy_rect *r = gwb_copy_find(args, block);
    const uint32_t count = (uint32_t)r->rows * r->chunks;
    const uint32_t start = (block - r->block) * GWB_COPY_THREADS * GWB_COPY_RUN + thread;
    GWB_NO_UNROLL
    for (int i = 0; i < GWB_COPY_RUN; i += 2) {
        gwb_copy_chunk c[2];
        GWB_UNROLL
        for (int j = 0; j < 2; j++) {
            const uint32_t n = start + (i + j) * GWB_COPY_THREADS;
            c[j].first = c[j].end = 0;
            if (n < count)
                gwb_copy_load(r, n, &c[j]);
        }
        GWB_UNROLL
        for (int j = 0; j < 2; j++)
            gwb_copy_store(&c[j]);
    }
}

#endif
