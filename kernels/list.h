// SPDX-License-Identifier: MIT
// The built-in kernels. One row each: name, argument struct (args.h), threads of a block in x and y.
//
// A kernel NAME is written once, as a function over its work items in kernels/NAME.h, and is reached in two ways:
// - cuda: `extern "C" __global__ void gwb_NAME(const gwb_NAME_args a, int nx, int ny, int nz)` in kernels/builtin.cu; the grid covers nx * ny * nz items.
//   GWB_ENTRY_ITEM(NAME) there makes it from gwb_NAME_item(args, x, y, z), a thread an item; a kernel whose threads do more has a line in
//   src/cuda/module.c, threads_of_row.
// - host: `void gwb_host_NAME(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z)` in src/host/: rows y0..y1-1 of slice z, all of x; called
//   from several threads at once for different rows.
#ifndef GWB_KERNEL_LIST_H
#define GWB_KERNEL_LIST_H

#define GWB_KERNELS(_) \
    _(copy, gwb_copy_args, 32, 8) \
    _(fill, gwb_fill_args, 32, 8) \
    _(cast, gwb_cast_args, 32, 8) \
    _(channels, gwb_channels_args, 32, 8) \
    _(convert, gwb_convert_args, 32, 8) \
    _(convert_tile, gwb_convert_tile_args, 32, 8) \
    _(reduce, gwb_reduce_args, 256, 1)

// What a cuda device runs in place of convert_tile where both sides are one of these: a kernel gwb_tile_… each, by gwb_start_FUNCTION (builtin.cu). Function, kind and shape
// (convert_args.h) of the source, kind and shape of the destination.
#define GWB_TILES_FROM(_, fn, kind, shape) \
    _(fn, kind, shape, U8, 3) \
    _(fn, kind, shape, U8, 4) \
    _(fn, kind, shape, U8, PLANES) \
    _(fn, kind, shape, F32, PLANES)
#define GWB_TILES_LEFT(_, kind, shape) \
    _(yuv_rgb_left, kind, shape, U8, RGB) \
    _(yuv_rgb_left, kind, shape, U8, BGR) \
    _(yuv_rgb_left, kind, shape, U8, RGBA) \
    _(yuv_rgb_left, kind, shape, U8, BGRA) \
    _(yuv_rgb_left, kind, shape, U8, PLANES) \
    _(yuv_rgb_left, kind, shape, F32, PLANES)
#define GWB_TILES_DOWN(_, shape) \
    _(rgb_yuv, U8, shape, U8, 420_PAIRS) \
    _(rgb_yuv, U8, shape, U8, 420)
#define GWB_TILES(_) \
    GWB_TILES_DOWN(_, RGB) \
    GWB_TILES_DOWN(_, BGR) \
    GWB_TILES_DOWN(_, RGBA) \
    GWB_TILES_DOWN(_, BGRA) \
    GWB_TILES_DOWN(_, PLANES) \
    GWB_TILES_LEFT(_, U8, 420_PAIRS) \
    GWB_TILES_LEFT(_, U8, 420) \
    GWB_TILES_LEFT(_, U16, 420_PAIRS) \
    GWB_TILES_FROM(_, yuv_rgb, U8, 420_PAIRS) \
    GWB_TILES_FROM(_, yuv_rgb, U8, 420) \
    GWB_TILES_FROM(_, yuv_rgb, U16, 420_PAIRS) \
    GWB_TILES_FROM(_, yuv_rgb, U8, PLANES) \
    GWB_TILES_FROM(_, convert_tile, U8, PLANES) \
    GWB_TILES_FROM(_, convert_tile, U8, 3) \
    GWB_TILES_FROM(_, convert_tile, U8, 4) \
    _(convert_tile, U8, 3, U8, 420_PAIRS) \
    _(convert_tile, U8, 3, U8, 420) \
    _(convert_tile, U8, 4, U8, 420_PAIRS) \
    _(convert_tile, U8, 4, U8, 420) \
    _(convert_tile, U8, PLANES, U8, 420_PAIRS) \
    _(convert_tile, U8, PLANES, U8, 420) \
    _(convert_tile, U8, 420_PAIRS, U8, 420) \
    _(convert_tile, U8, 420, U8, 420_PAIRS) \
    _(convert_tile, U16, 420_PAIRS, U8, 420_PAIRS)

#define GWB_TILE_ID(fn, sk, ss, dk, ds) GWB_TILE_##fn##_##sk##_##ss##_##dk##_##ds,
enum { GWB_TILES(GWB_TILE_ID) GWB_TILE_COUNT };
#undef GWB_TILE_ID

#define GWB_KERNEL_ID(name, args, bx, by) GWB_KERNEL_##name,
enum { GWB_KERNELS(GWB_KERNEL_ID) GWB_KERNEL_COUNT };
#undef GWB_KERNEL_ID

#endif
