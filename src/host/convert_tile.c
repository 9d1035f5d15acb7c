// SPDX-License-Identifier: MIT
// The kernel of tiles on the host, where it is only for comparing: host/convert.c is faster there.
#include "host/kernels.h"

#include "convert_tile.h"
#include "rgb_yuv.h"
#include "yuv_rgb.h"

// What sticks out of the last whole tiles; on cuda that is launches of their own.
static void rest(const gwb_convert_args *a, int x, int y)
{
    for (int by = y / a->block_h; by * a->block_h < a->height && by * a->block_h < y + GWB_TILE_H; by++)
        for (int bx = x / a->block_w; bx * a->block_w < a->width && bx * a->block_w < x + a->tile_w; bx++)
            gwb_convert_block(a, bx, by);
}

void gwb_host_convert_tile(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z)
{
    const gwb_convert_args *a = args;
    for (int32_t y = y0; y < y1; y++)
        for (int32_t x = 0; x < nx; x++) {
            const int px = x * a->tile_w, py = (z * GWB_BAND + y) * GWB_TILE_H;
            if (py < a->height && (a->width - px < a->tile_w || a->height - py < GWB_TILE_H))
                rest(a, px, py);
            else if (a->quick == GWB_QUICK_DOWN)
                gwb_rgb_yuv_item(a, a->src_shape, a->dst_shape, px, py);
            else if (a->quick)
                gwb_yuv_rgb_item(a, a->src_kind, a->src_shape, a->dst_kind, a->dst_shape, a->quick == GWB_QUICK_LEFT, px, py, 0, 1);
            else
                gwb_convert_tile_item(a, x, y, z);
        }
}
