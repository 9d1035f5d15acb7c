// SPDX-License-Identifier: MIT
// The end of a generated kernel: blocks of the result, and the entries. The text before has defined
// - gwb_last, a pixel of the result; gwb_before and gwb_after, the same in two steps, between which chroma is averaged; gwb_across, chroma of the result
//   where it stays on its grid;
// - gwb_put_pixel, which stores the components that there are at every pixel (or adds them to the words of a group), gwb_put_chroma, gwb_put_words.
#ifndef GWB_KERNEL_PIPE_ENTRY_H
#define GWB_KERNEL_PIPE_ENTRY_H

#if GWB_SUB || GWB_WORD
// ---- blocks of a picture whose chroma is subsampled or whose samples share words: whole chroma samples, whole groups

#if GWB_SUB
GWB_FN gwb_px gwb_mean_chroma(GWB_PIPE_PARAMS)
{
    const int fx = GWB_DOWN_X_FIRST(x), fy = GWB_DOWN_Y_FIRST(y), last_x = g->shape->width - 1, last_y = g->shape->height - 1;
    gwb_px sum = gwb_pipe_zero();
    GWB_NO_UNROLL
    for (int i = 0; i < GWB_DOWN_X_COUNT; i++) {
        gwb_px v = gwb_pipe_zero();
        GWB_NO_UNROLL
        for (int j = 0; j < GWB_DOWN_Y_COUNT; j++) {
            const gwb_px p = gwb_before(g, gwb_clamp(fx + i, last_x), gwb_clamp(fy + j, last_y));
            v = j == 0 ? gwb_pipe_scaled(p, GWB_DOWN_Y_WEIGHT(j)) : gwb_pipe_add(v, p, GWB_DOWN_Y_WEIGHT(j));
        }
        sum = i == 0 ? gwb_pipe_scaled(v, GWB_DOWN_X_WEIGHT(i)) : gwb_pipe_add(sum, v, GWB_DOWN_X_WEIGHT(i));
    }
    return gwb_after(g, sum, x, y);
}

GWB_FN gwb_px gwb_chroma(GWB_PIPE_PARAMS)
{
#if GWB_GRID
    if (g->item->flags & GWB_PIPE_GRID)
        return gwb_across(g, x, y);
#endif
    return gwb_mean_chroma(g, x, y);
}
#endif

GWB_FN void gwb_block(const gwb_pipe_at *g, int bx, int by)
{
    const int width = g->shape->width, height = g->shape->height;
    const int x0 = bx * GWB_BLOCK_W, y0 = by * GWB_BLOCK_H, row_end = (width + GWB_GROUP - 1) / GWB_GROUP * GWB_GROUP;
    uint32_t word[4] = {0, 0, 0, 0};
#if GWB_SUB
    const int last = (width - 1) >> GWB_DST_LOG2_W, end = row_end - x0 < GWB_BLOCK_W ? row_end : x0 + GWB_BLOCK_W;
    GWB_NO_UNROLL
    for (int cx = x0 >> GWB_DST_LOG2_W; cx <= (end - 1) >> GWB_DST_LOG2_W; cx++)
        gwb_put_chroma(g, cx, by, gwb_chroma(g, cx < last ? cx : last, by), word);
#endif
    GWB_NO_UNROLL
    for (int y = y0; y < y0 + GWB_BLOCK_H && y < height; y++)
        GWB_NO_UNROLL
        for (int x = x0; x < x0 + GWB_BLOCK_W && x < row_end; x++)
            gwb_put_pixel(g, x, y, gwb_last(g, x < width ? x : width - 1, y), word);
    gwb_put_words(g, x0, y0, word);
}

#else
// ---- blocks of whole pixels: GWB_BLOCK_H of them, one below the other, all worked out before the first is stored

GWB_FN void gwb_block(const gwb_pipe_at *g, int bx, int by)
{
    const int last = g->shape->height - 1, y0 = by * GWB_BLOCK_H;
    gwb_px p[GWB_BLOCK_H];
    GWB_UNROLL
    for (int r = 0; r < GWB_BLOCK_H; r++)
        p[r] = gwb_last(g, bx, y0 + r < last ? y0 + r : last);
    if (y0 + GWB_BLOCK_H - 1 <= last) {     // without a question between them, addresses are worked out for all at once
        GWB_UNROLL
        for (int r = 0; r < GWB_BLOCK_H; r++)
            gwb_put_pixel(g, bx, y0 + r, p[r], nullptr);
        return;
    }
    for (int r = 0; r < GWB_BLOCK_H; r++)
        if (y0 + r <= last)
            gwb_put_pixel(g, bx, y0 + r, p[r], nullptr);
}
#endif

#if GWB_TILES
#include "pipe_tile.h"
#endif

// A thread's part of a picture. Rows of blocks beyond what a launch's y holds are counted in bands.
GWB_FN void gwb_pipe_thread(const gwb_pipe_at *g, int band)
{
    const int bx = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const int by = (band * (int)gridDim.y + (int)blockIdx.y) * (int)blockDim.y + (int)threadIdx.y;
#if GWB_TILES
    if (by <= (g->shape->height - 1) / GWB_TILE_ROWS)
        gwb_pipe_tile(g, bx, by);
#else
    if (bx <= (g->shape->width - 1) / GWB_BLOCK_W && by <= (g->shape->height - 1) / GWB_BLOCK_H)
        gwb_block(g, bx, by);
#endif
}

typedef struct gwb_pipe_stages {
    gwb_pipe_stage s[GWB_STAGES];
} gwb_pipe_stages;

typedef struct gwb_pipe_items {
    gwb_pipe_item s[GWB_FEW];
} gwb_pipe_items;

// GWB_BLOCKS: how many blocks a multiprocessor is to have room for. Conversions of bytes do with 32 registers, and then it has its most threads.
#define GWB_PIPE_KERNEL extern "C" __global__ void __launch_bounds__(256, GWB_BLOCKS)

#if !GWB_BATCH
// One picture: all by value.
GWB_PIPE_KERNEL gwb_pipe_one(GWB_ARGS gwb_pipe_stages stages, GWB_ARGS gwb_pipe_shape shape, GWB_ARGS gwb_pipe_item item)
{
    GWB_AFTER();
    const gwb_pipe_at g = {stages.s, &shape, &item};
    gwb_pipe_thread(&g, (int)blockIdx.z);
}
#else
// Up to GWB_FEW pictures of one size: all by value. z counts the bands of all pictures.
GWB_PIPE_KERNEL gwb_pipe_few(GWB_ARGS gwb_pipe_stages stages, GWB_ARGS gwb_pipe_shape shape, GWB_ARGS gwb_pipe_items items, int bands)
{
    GWB_AFTER();
    const gwb_pipe_at g = {stages.s, &shape, &items.s[bands == 1 ? (int)blockIdx.z : (int)blockIdx.z / bands]};
    gwb_pipe_thread(&g, bands == 1 ? 0 : (int)blockIdx.z % bands);
}

// Any number and sizes, described in memory.
GWB_PIPE_KERNEL gwb_pipe_many(GWB_ARGS gwb_pipe_stages stages, const gwb_pipe_shape *shapes, const gwb_pipe_item *items, int bands)
{
    GWB_AFTER();
    const gwb_pipe_item *item = items + (bands == 1 ? (int)blockIdx.z : (int)blockIdx.z / bands);
    const gwb_pipe_at g = {stages.s, shapes + item->shape, item};
    gwb_pipe_thread(&g, bands == 1 ? 0 : (int)blockIdx.z % bands);
}
#endif

#endif
