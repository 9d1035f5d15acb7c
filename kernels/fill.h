// SPDX-License-Identifier: MIT
// Fills a rectangle with one pixel. The rows are cut into chunks of 16 bytes at 16-byte borders of memory, as in copy.h.
#ifndef GWB_KERNEL_FILL_H
#define GWB_KERNEL_FILL_H

#include "args.h"
#include "bytes.h"

// The pixel, repeated: 16 bytes from any of its bytes on, in whole words.
enum { GWB_FILL_WORDS = (32 + 16 + 4) / 4 };

GWB_FN uint32_t gwb_fill_word(const gwb_fill_args *args, int i)
{
    uint32_t word = 0;
    for (int j = 0; j < 4; j++)
        word |= (uint32_t)args->pattern[(4 * i + j) % args->elem_size] << 8 * j;
    return word;
}

// Chunks that a row of `width` pixels can have.
GWB_FN int64_t gwb_fill_chunks(int32_t width, int32_t elem_size)
{
    return ((int64_t)width * elem_size + 30) / 16;
}

// Chunk x of row y. `words` are all gwb_fill_word.
GWB_FN void gwb_fill_chunk(const gwb_fill_args *args, const uint32_t *words, int32_t x, int32_t y)
{
    const int32_t size = args->elem_size;
    uint8_t *row = args->dst.data + y * args->dst.step;
    const int before = (int)((uint64_t)row & 15);
    const int64_t left = before + (int64_t)args->dst.width * size - 16 * (int64_t)x;
    const int first = x ? 0 : before, end = left < 16 ? (int)left : 16;
    if (end <= first)
        return;
    const int phase = (16 * (x % size) + 16 * size - before) % size;    // byte of the pixel at the chunk's border
    const uint32_t *w = words + phase / 4;
    const int shift = 8 * (phase & 3);
    gwb_bytes16 v;
    for (int i = 0; i < 4; i++)
        v.w[i] = gwb_funnel(w[i], w[i + 1], shift);
    uint8_t *to = row - before + 16 * (int64_t)x;
    if (first == 0 && end == 16)
        gwb_store16(to, v);
    else
        gwb_store_part(to, v, first, end);
}

#endif
