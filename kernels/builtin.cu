// SPDX-License-Identifier: MIT
// The entries of the built-in kernels on cuda: nvcc compiles this file into the program, or NVRTC when the device is opened.
#include "prelude.h"

#include "args.h"
#include "list.h"

#include "cast.h"
#include "channels.h"
#include "convert.h"
#include "convert_tile.h"
#include "copy.h"
#include "fill.h"
#include "rgb_yuv.h"
#include "yuv_rgb.h"
#include "reduce.h"

#define GWB_ENTRY(name, ...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__) gwb_##name

// y counts on by the grid's height, which cuda limits; unsigned, since the sum may pass 2^31.
#define GWB_EACH_ROW(y, ny) for (uint32_t y = blockIdx.y * blockDim.y + threadIdx.y; y < (uint32_t)(ny); y += gridDim.y * blockDim.y)

// The grid is one row of blocks over all rectangles (src/cuda/copy.c, which takes the second unless all are aligned).
GWB_ENTRY(copy, GWB_COPY_THREADS)(GWB_ARGS gwb_copy_args a, int, int, int)
{
    GWB_AFTER();
    gwb_copy_aligned(&a, blockIdx.x, threadIdx.x);
}

GWB_ENTRY(copy_any, GWB_COPY_THREADS)(GWB_ARGS gwb_copy_args a, int, int, int)
{
    GWB_AFTER();
    gwb_copy_any(&a, blockIdx.x, threadIdx.x);
}

// A thread does one chunk of 16 bytes: nx counts those (src/cuda/module.c).
GWB_ENTRY(fill, 256)(GWB_ARGS gwb_fill_args a, int nx, int ny, int)
{
    GWB_AFTER();
    __shared__ uint32_t words[GWB_FILL_WORDS];
    const int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x), x = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (thread < GWB_FILL_WORDS)
        words[thread] = gwb_fill_word(&a, thread);
    __syncthreads();
    if (x < nx)
        GWB_EACH_ROW(y, ny)
            gwb_fill_chunk(&a, words, x, (int)y);
}

// A thread does GWB_CAST_RUN numbers: nx counts threads.
GWB_ENTRY(cast, 256)(GWB_ARGS gwb_cast_args a, int, int ny, int)
{
    GWB_AFTER();
    const int x = (int)(blockIdx.x * GWB_CAST_RUN * GWB_CAST_STRIDE + threadIdx.x);
    GWB_EACH_ROW(y, ny)
        gwb_cast_run(&a, x, (int)y);
}

// A thread does GWB_CHANNELS_RUN pixels: nx counts threads.
GWB_ENTRY(channels, 256)(GWB_ARGS gwb_channels_args a, int, int ny, int)
{
    GWB_AFTER();
    const int x = (int)(blockIdx.x * GWB_CHANNELS_RUN * GWB_CHANNELS_STRIDE + threadIdx.x);
    GWB_EACH_ROW(y, ny)
        switch (a.size) {
        case 1: gwb_channels_run(&a, x, (int)y, GWB_CHANNELS_RUN, GWB_CHANNELS_STRIDE, 1); break;
        case 2: gwb_channels_run(&a, x, (int)y, GWB_CHANNELS_RUN, GWB_CHANNELS_STRIDE, 2); break;
        case 4: gwb_channels_run(&a, x, (int)y, GWB_CHANNELS_RUN, GWB_CHANNELS_STRIDE, 4); break;
        default: gwb_channels_run(&a, x, (int)y, GWB_CHANNELS_RUN, GWB_CHANNELS_STRIDE, 8); break;
        }
}

// No loop over rows, out of which the compiler would pull more than the registers hold: z counts bands of rows.
GWB_ENTRY(convert, 256)(GWB_ARGS gwb_convert_args a, int nx, int ny, int)
{
    GWB_AFTER();
    const int x = (int)(blockIdx.x * blockDim.x + threadIdx.x), y = (int)(blockIdx.y * blockDim.y + threadIdx.y);
    if (x < nx && y < ny)
        gwb_convert_item(&a, x, y, (int)blockIdx.z);
}

GWB_ENTRY(convert_tile, 256, 4)(GWB_ARGS gwb_convert_tile_args a, int nx, int ny, int)
{
    GWB_AFTER();
    const int x = (int)(blockIdx.x * blockDim.x + threadIdx.x), y = (int)(blockIdx.y * blockDim.y + threadIdx.y);
    if (x < nx && y < ny)
        gwb_convert_tile_item(&a, x, y, (int)blockIdx.z);
}

// The same for one pair of kinds and shapes. Where all is known, from bytes to bytes, 32 registers will do: then a multiprocessor has room for all the
// threads that it can hold.
#define GWB_BLOCKS_convert_tile(sk, dk) 1
#define GWB_BLOCKS_yuv_rgb(sk, dk) 1
#define GWB_BLOCKS_rgb_yuv(sk, dk) 5
#define GWB_BLOCKS_yuv_rgb_left(sk, dk) (dk != GWB_SAMPLE_U8 ? 1 : sk == GWB_SAMPLE_U8 ? 8 : 6)
#define GWB_TILE_ENTRY(fn, sk, ss, dk, ds) \
    GWB_ENTRY(tile_##fn##_##sk##_##ss##_##dk##_##ds, 256, GWB_BLOCKS_##fn(GWB_SAMPLE_##sk, GWB_SAMPLE_##dk))(GWB_ARGS gwb_convert_tile_args a, int nx, int ny, int) \
    { \
        GWB_AFTER(); \
        gwb_start_##fn(&a, GWB_SAMPLE_##sk, GWB_SHAPE_##ss, GWB_SAMPLE_##dk, GWB_SHAPE_##ds, nx, ny); \
    }

GWB_FN void gwb_start_convert_tile(const gwb_convert_args *a, int src_kind, int src_shape, int dst_kind, int dst_shape, int nx, int ny)
{
    const int x = (int)(blockIdx.x * blockDim.x + threadIdx.x), y = (int)(blockIdx.y * blockDim.y + threadIdx.y);
    if (x < nx && y < ny)
        gwb_convert_tile_at(a, src_kind, src_shape, dst_kind, dst_shape, x, y, (int)blockIdx.z);
}

// All lanes of a warp go on while one of them has an item.
GWB_FN void gwb_start_quick(const gwb_convert_args *a, int src_kind, int src_shape, int dst_kind, int dst_shape, bool left, int ny)
{
    const int w = GWB_QUICK_WIDTH(dst_kind), x0 = (int)(blockIdx.x * blockDim.x) * w, y = (int)(blockIdx.y * blockDim.y + threadIdx.y);
    const int row = ((int)blockIdx.z * GWB_BAND + y) * GWB_TILE_H, whole = (a->width - x0) / w;
    if (whole > 0 && y < ny && row + 2 <= a->height)
        gwb_yuv_rgb_item(a, src_kind, src_shape, dst_kind, dst_shape, left, x0, row, (int)threadIdx.x, whole < 32 ? whole : 32);
}

GWB_FN void gwb_start_yuv_rgb(const gwb_convert_args *a, int src_kind, int src_shape, int dst_kind, int dst_shape, int, int ny)
{
    gwb_start_quick(a, src_kind, src_shape, dst_kind, dst_shape, false, ny);
}

GWB_FN void gwb_start_yuv_rgb_left(const gwb_convert_args *a, int src_kind, int src_shape, int dst_kind, int dst_shape, int, int ny)
{
    gwb_start_quick(a, src_kind, src_shape, dst_kind, dst_shape, true, ny);
}

GWB_FN void gwb_start_rgb_yuv(const gwb_convert_args *a, int, int src_shape, int, int dst_shape, int nx, int ny)
{
    const int x = (int)(blockIdx.x * blockDim.x + threadIdx.x), y = (int)(blockIdx.y * blockDim.y + threadIdx.y);
    const int px = x * GWB_QUICK_WIDTH(GWB_SAMPLE_U8), row = ((int)blockIdx.z * GWB_BAND + y) * GWB_TILE_H;
    if (x < nx && y < ny && px + GWB_QUICK_WIDTH(GWB_SAMPLE_U8) <= a->width && row + GWB_TILE_H <= a->height)
        gwb_rgb_yuv_item(a, src_shape, dst_shape, px, row);
}

GWB_TILES(GWB_TILE_ENTRY)

// A block does a tile.
GWB_ENTRY(reduce, GWB_REDUCE_LANES)(GWB_ARGS gwb_reduce_args a, int, int, int)
{
    GWB_AFTER();
    __shared__ double lanes[GWB_REDUCE_LANES];
    const int lane = (int)threadIdx.x;
    lanes[lane] = gwb_reduce_lane(&a, lane, (int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z);
    for (int half = GWB_REDUCE_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half)
            lanes[lane] = gwb_reduce_join(a.what, lanes[lane], lanes[lane + half]);
    }
    if (lane == 0)
        *gwb_reduce_out(&a, (int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z) = lanes[0];
}

// Keeps a stream busy for `ns` nanoseconds.
extern "C" __global__ void gwb_spin(long long ns)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        __nanosleep(1000);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < (unsigned long long)ns);
}
