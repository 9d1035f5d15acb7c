// SPDX-License-Identifier: MIT
// The kernel of tiles on the host, where it is only for comparing: host/convert.c is faster there.
#include "host/kernels.h"

#include "convert_tile.h"

void gwb_host_convert_tile(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z)
{
    for (int32_t y = y0; y < y1; y++)
        for (int32_t x = 0; x < nx; x++)
            gwb_convert_tile_item(args, x, y, z);
}
