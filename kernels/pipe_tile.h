// SPDX-License-Identifier: MIT
// Tiles of a generated kernel that only changes values: four or eight pixels of two or four rows at a time, moved with vector loads and stores. The
// arithmetic is that of the general way, in the same order; pictures whose addresses do not allow it (gwb_pipe_item.flags), and edges, go that way. The text
// before has defined gwb_tile_samples, which gwb_tile_begin loads, and what makes two rows of them pixels, works on them, and stores them: gwb_tile_pixels,
// gwb_values and gwb_tile_store.
#ifndef GWB_KERNEL_PIPE_TILE_H
#define GWB_KERNEL_PIPE_TILE_H

// Pixels of a tile one by one. A call, so that the kernel keeps to the registers of whole tiles; by value, so that nothing of it lies in memory.
static __device__ __noinline__ void gwb_tile_slow(gwb_pipe_at at, int x0, int y0)
{
    const gwb_pipe_at *g = &at;
    GWB_NO_UNROLL
    for (int y = y0; y < y0 + GWB_TILE_ROWS && y < g->shape->height; y++)
        GWB_NO_UNROLL
        for (int x = x0; x < x0 + GWB_TILES && x < g->shape->width; x++)
            gwb_put_pixel(g, x, y, gwb_last(g, x, y), nullptr);
}

// All lanes of a warp come here, with the same ty. GWB_TILES is the pixels of a tile's row.
GWB_FN void gwb_pipe_tile(const gwb_pipe_at *g, int tx, int ty)
{
    const int x = tx * GWB_TILES, y = ty * GWB_TILE_ROWS, lane = (int)(threadIdx.x & 31), x0 = x - lane * GWB_TILES, left = g->shape->width - x0;
    const int whole = left < 32 * GWB_TILES ? left / GWB_TILES : 32;
    const int lanes = g->item->flags & GWB_PIPE_TILES && y + GWB_TILE_ROWS <= g->shape->height ? whole : 0;
    if (lane >= lanes && x < g->shape->width)
        gwb_tile_slow(*g, x, y);
    if (lanes <= 0)
        return;
    const int px = x0 + GWB_TILES * (lane < lanes ? lane : lanes - 1);  // a lane too many does what the last one does, and does not store it
    const int sx = px + (GWB_CROPS ? g->item->at[0] : 0), sy = y + (GWB_CROPS ? g->item->at[1] : 0);
    gwb_tile_samples samples;
    gwb_tile_begin(g, sx, sy, &samples);
    GWB_UNROLL
    for (int row = 0; row < GWB_TILE_ROWS; row += GWB_TILE_H) {
        gwb_px p[GWB_TILE_H][GWB_TILES];
        gwb_tile_pixels(g, sx, sy + row, &samples, row, p);
        GWB_UNROLL
        for (int r = 0; r < GWB_TILE_H; r++)
            GWB_UNROLL
            for (int i = 0; i < GWB_TILES; i++)
                p[r][i] = gwb_values(g, p[r][i], px + i, y + row + r);
        gwb_tile_store(g, x0, y + row, lane, lanes, p);
    }
}

#endif
