// SPDX-License-Identifier: MIT
// The built-in kernels of a cuda device: where their code comes from, and their launches.
#include "cuda.h"

#include "../embedded.h"
#include "../../kernels/cast.h"
#include "../../kernels/channels.h"
#include "../../kernels/fill.h"
#include "../../kernels/reduce.h"
#include "nvrtc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- code

// The fatbin was made from the embedded sources; a checkout that GPUWB_ROOT names may hold others.
static bool sources_changed(void)
{
    for (size_t i = 0; i < gwb_embedded_count; i++) {
        const gwb_embedded *built = &gwb_embedded_files[i], *now = gwb_embedded_find(built->name);
        if (strncmp(built->name, "lua/", 4) != 0 && now && (now->size != built->size || memcmp(now->data, built->data, now->size) != 0))
            return true;
    }
    return false;
}

static int load_fatbin(gwb_device *d)
{
    if (gwb_embedded_fatbin_size == 0)
        return gwb_fail(GWB_NO_DEVICE, "gpuwb was built without nvcc");
    if (sources_changed())
        return gwb_fail(GWB_NO_DEVICE, "the kernels in GPUWB_ROOT differ from those compiled into gpuwb");
    return gwb_cuda_check(gwb_cuda.ModuleLoadData(&gwb_cuda_of(d)->module, gwb_embedded_fatbin), "loading the compiled kernels");
}

static int load_compiled(gwb_device *d)
{
    static const char *const options[] = {"--fmad=false", "-default-device", "--std=c++17"};
    const gwb_embedded *source = gwb_embedded_find("kernels/builtin.cu");
    if (!source)
        return gwb_fail(GWB_NO_FILE, "kernels/builtin.cu is not in the checkout that GPUWB_ROOT names");
    char arch[24];
    int rc = gwb_nvrtc_arch(d->info.major, d->info.minor, arch);
    void *image = NULL;
    size_t size = 0;
    const gwb_nvrtc_job job = {.source = (const char *)source->data, .name = "builtin.cu", .options = options,
                               .option_count = sizeof options / sizeof *options, .arch = arch};
    if (rc >= 0)
        rc = gwb_nvrtc_build(&job, &image, &size);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.ModuleLoadData(&gwb_cuda_of(d)->module, image), "loading the kernels that NVRTC compiled");
    free(image);
    return rc;
}

static int find_function(gwb_device *d, const char *name, CUfunction *function)
{
    return gwb_cuda_check(gwb_cuda.ModuleGetFunction(function, gwb_cuda_of(d)->module, name), "finding the kernel %s", name);
}

int gwb_cuda_module_open(gwb_device *d)
{
    gwb_cuda_device *c = gwb_cuda_of(d);
    char why[1024];
    int rc = load_fatbin(d);
    if (rc < 0) {
        snprintf(why, sizeof why, "%s", gwb_error_message());
        rc = load_compiled(d);
    }
    if (rc < 0) {
        char other[1024];
        snprintf(other, sizeof other, "%s", gwb_error_message());
        return gwb_fail(GWB_NO_DEVICE, "%s (%s) has no kernels: %s; and %s", d->info.name, d->info.model, why, other);
    }
#define FIND(name, args, bx, by) \
    if (rc >= 0) \
        rc = find_function(d, "gwb_" #name, &c->kernels[GWB_KERNEL_##name]);
    GWB_KERNELS(FIND)
#undef FIND
#define FIND(fn, sk, ss, dk, ds) \
    if (rc >= 0) \
        rc = find_function(d, "gwb_tile_" #fn "_" #sk "_" #ss "_" #dk "_" #ds, &c->tiles[GWB_TILE_##fn##_##sk##_##ss##_##dk##_##ds]);
    GWB_TILES(FIND)
#undef FIND
    if (rc >= 0)
        rc = find_function(d, "gwb_copy_any", &c->copy_any);
    if (rc >= 0)
        rc = find_function(d, "gwb_spin", &c->spin);
    return rc;
}

// ---- launches

#define SIZE(name, args, bx, by) [GWB_KERNEL_##name] = {#name, sizeof(args), bx, by},
static const struct { const char *name; int32_t args_size, bx, by; } shapes[GWB_KERNEL_COUNT] = {GWB_KERNELS(SIZE)};
#undef SIZE

// Threads that a row of nx items takes: one each, except where builtin.cu says otherwise.
static int64_t threads_of_row(const gwb_launch *launch)
{
    const int64_t nx = launch->nx, cast = GWB_CAST_RUN * GWB_CAST_STRIDE, channels = GWB_CHANNELS_RUN * GWB_CHANNELS_STRIDE;
    switch (launch->kernel) {
    case GWB_KERNEL_fill: {
        const gwb_fill_args *a = launch->args;
        return gwb_fill_chunks(a->dst.width, a->elem_size);
    }
    case GWB_KERNEL_cast: return (nx + cast - 1) / cast * GWB_CAST_STRIDE;
    case GWB_KERNEL_channels: return (nx + channels - 1) / channels * GWB_CHANNELS_STRIDE;
    case GWB_KERNEL_reduce: return (int64_t)((const gwb_reduce_args *)launch->args)->tiles_x * GWB_REDUCE_LANES;
    default: return nx;
    }
}

CUresult gwb_cuda_start(gwb_queue *q, CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, void **params)
{
    if (q->dev->info.major < 9 || !gwb_cuda.LaunchKernelEx || q->graph)     // a graph knows by itself what follows what
        return gwb_cuda.LaunchKernel(function, gx, gy, gz, bx, by, 1, 0, gwb_cuda_stream(q), params, NULL);
    gwb_cuda_launch_attribute early = {.id = GWB_CUDA_LAUNCH_PROGRAMMATIC, .value.allowed = 1};
    const gwb_cuda_launch_config config = {gx, gy, gz, bx, by, 1, 0, gwb_cuda_stream(q), &early, 1};
    return gwb_cuda.LaunchKernelEx(&config, function, params, NULL);
}

// The kernel made for a conversion's kinds and shapes, or the one for all.
static CUfunction tile_of(const gwb_cuda_device *c, const gwb_convert_args *a)
{
    const bool yuv_rgb_left = a->quick == GWB_QUICK_LEFT, rgb_yuv = a->quick == GWB_QUICK_DOWN, convert_tile = a->quick == GWB_QUICK_NO;
    const bool yuv_rgb = a->quick == GWB_QUICK || a->quick == GWB_QUICK_FULL;
#define PICK(fn, sk, ss, dk, ds) \
    if (fn && a->src_kind == GWB_SAMPLE_##sk && a->src_shape == GWB_SHAPE_##ss && a->dst_kind == GWB_SAMPLE_##dk && a->dst_shape == GWB_SHAPE_##ds) \
        return c->tiles[GWB_TILE_##fn##_##sk##_##ss##_##dk##_##ds];
    GWB_TILES(PICK)
#undef PICK
    return c->kernels[GWB_KERNEL_convert_tile];
}

int gwb_cuda_launch(gwb_queue *q, const gwb_launch *launch)
{
    assert(launch->kernel != GWB_KERNEL_copy);      // that one is launched by gwb_cuda_copy
    assert(launch->args_size == shapes[launch->kernel].args_size);
    CUDA_SCOPE(q->dev);
    gwb_cuda_queue_begin(q);
    const int64_t bx = shapes[launch->kernel].bx, by = shapes[launch->kernel].by, threads = threads_of_row(launch);
    const int64_t across = (threads + bx - 1) / bx, down = (launch->ny + by - 1) / by;
    int nx = (int)threads, ny = launch->ny, nz = launch->nz;
    void *params[] = {(void *)launch->args, &nx, &ny, &nz};
    const gwb_cuda_device *c = gwb_cuda_of(q->dev);
    const CUfunction function = launch->kernel == GWB_KERNEL_convert_tile ? tile_of(c, launch->args) : c->kernels[launch->kernel];
    gwb_cuda_note(q, shapes[launch->kernel].name);
    return gwb_cuda_check(gwb_cuda_start(q, function, (unsigned)across, (unsigned)(down < 65535 ? down : 65535),
                                         (unsigned)nz, (unsigned)bx, (unsigned)by, params),
                          "launching a kernel on %s", q->dev->info.name);
}

int gwb_cuda_sleep(gwb_queue *q, double ms)
{
    CUDA_SCOPE(q->dev);
    gwb_cuda_queue_begin(q);
    long long ns = (long long)(ms * 1e6);
    void *params[] = {&ns};
    return gwb_cuda_check(gwb_cuda.LaunchKernel(gwb_cuda_of(q->dev)->spin, 1, 1, 1, 1, 1, 1, 0, gwb_cuda_stream(q), params, NULL), "keeping a stream of %s busy",
                          q->dev->info.name);
}
