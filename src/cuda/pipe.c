// SPDX-License-Identifier: MIT
// Pipelines on cuda: a pass is written as CUDA C, compiled once for each kind, and launched.
#include "cuda.h"
#include "nvrtc.h"
#include "pipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ONE, FEW, MANY };        // gwb_pass.kernel: the entries of kernels/pipe_entry.h
enum { BLOCK_X = 32, BLOCK_Y = 8, MOST_Y = 65535, MOST_Z = 65535, FEW_OF_OLD = 8 };

// A kernel by its text, on one device. The list lives as long as the process.
typedef struct kernel {
    struct kernel *next;
    const gwb_device *dev;
    unsigned epoch;         // of the device: a kernel of an older one went with its context
    char *text;
    CUmodule module;
    CUfunction function[3];
} kernel;

static kernel *kernels;
static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;

// Pictures that travel with a launch: since CUDA 12.1 its arguments may take 32 kB, before 4 kB.
static int few_of(const gwb_device *d)
{
    return gwb_cuda.version >= 12010 && d->info.major >= 7 && gwb_nvrtc_version() >= 12010 ? GWB_PIPE_FEW : FEW_OF_OLD;
}

// ---- making kernels

// $GPUWB_DUMP names a folder that gets the text of each kernel.
static void dump(const char *text)
{
    static int count;
    const char *dir = getenv("GPUWB_DUMP");
    char path[4096];
    if (!dir || !dir[0] || snprintf(path, sizeof path, "%s/pipe%d.cu", dir, ++count) >= (int)sizeof path)
        return;
    FILE *f = fopen(path, "we");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

static int compile(gwb_device *d, const char *text, bool batch, kernel *k)
{
    static const char *const options[] = {"--fmad=false", "-default-device", "--std=c++17"};
    char arch[24], log[2000] = "";
    int rc = gwb_nvrtc_arch(d->info.major, d->info.minor, arch);
    void *image = NULL;
    size_t size = 0;
    const gwb_nvrtc_job job = {.source = text, .name = "pipeline.cu", .options = options, .option_count = sizeof options / sizeof *options, .arch = arch,
                               .log = log, .log_size = sizeof log};
    if (rc >= 0)
        rc = gwb_nvrtc_build(&job, &image, &size);
    if (rc == GWB_COMPILE)
        gwb_fail(rc, "a generated kernel does not compile, which is a fault in gpuwb: %s", log);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.ModuleLoadData(&k->module, image), "loading a pipeline's kernel");
    free(image);
    static const char *const names[] = {[ONE] = "gwb_pipe_one", [FEW] = "gwb_pipe_few", [MANY] = "gwb_pipe_many"};
    for (int i = batch ? FEW : ONE; i <= (batch ? MANY : ONE) && rc >= 0; i++)
        rc = gwb_cuda_check(gwb_cuda.ModuleGetFunction(&k->function[i], k->module, names[i]), "finding the kernel %s", names[i]);
    return rc;
}

// The kernel of that text, which it takes over. Under kernels_lock.
static int find_kernel(gwb_device *d, char *text, bool batch, kernel **out)
{
    for (kernel *k = kernels; k; k = k->next)
        if (k->dev == d && k->epoch == d->epoch && strcmp(k->text, text) == 0) {
            free(text);
            *out = k;
            return 0;
        }
    dump(text);
    kernel *k = calloc(1, sizeof *k);
    int rc = k ? compile(d, text, batch, k) : gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    if (rc < 0) {
        free(k);
        free(text);
        return rc;
    }
    k->dev = d;
    k->epoch = d->epoch;
    k->text = text;
    k->next = kernels;
    kernels = *out = k;
    return 0;
}

int gwb_cuda_pipe_prepare(gwb_device *d, const gwb_pipe_launch *l)
{
    gwb_pass *pass = l->pass;
    if (pass->kernel[l->batch ? MANY : ONE][l->wide])
        return 0;
    char *text = gwb_pipe_write(&pass->code, l->batch, l->wide, few_of(d));
    if (!text)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    CUDA_SCOPE(d);
    kernel *k = NULL;
    pthread_mutex_lock(&kernels_lock);
    int rc = find_kernel(d, text, l->batch, &k);
    pthread_mutex_unlock(&kernels_lock);
    for (int i = ONE; i <= MANY && rc >= 0; i++)
        if (k->function[i])
            pass->kernel[i][l->wide] = k->function[i];
    return rc;
}

// ---- launches

// Blocks in x and y that cover the largest picture, and the bands that its rows are counted in where y does not hold them.
typedef struct grid {
    int64_t x, y, bands;
} grid;

static grid grid_of(const gwb_pipe_launch *l)
{
    const gwb_pipe_code *c = &l->pass->code;
    const bool pixels = !c->word && !(c->dst.log2_w | c->dst.log2_h);
    const int64_t w = c->tiles ? c->tiles : c->block_w, h = c->tiles ? gwb_pipe_tile_rows(c, l->batch) : pixels ? gwb_pipe_pixel_rows(c, l->batch) : c->block_h;
    const int64_t x = (l->width + w * BLOCK_X - 1) / (w * BLOCK_X), y = (l->height + h * BLOCK_Y - 1) / (h * BLOCK_Y);
    return (grid){x, y < MOST_Y ? y : MOST_Y, (y + MOST_Y - 1) / MOST_Y};
}

bool gwb_cuda_pipe_needs_memory(const gwb_device *d, const gwb_pipe_launch *l)
{
    return l->batch && (l->shape_count > 1 || l->count > few_of(d) || l->count * grid_of(l).bands > MOST_Z);
}

static int start(gwb_queue *q, const gwb_pipe_launch *l, int entry, const grid *g, int count, void **params)
{
    return gwb_cuda_check(gwb_cuda_start(q, l->pass->kernel[entry][l->wide], (unsigned)g->x, (unsigned)g->y, (unsigned)(count * g->bands), BLOCK_X, BLOCK_Y,
                                         params), "launching a pipeline on %s", q->dev->info.name);
}

int gwb_cuda_pipe(gwb_queue *q, const gwb_pipe_launch *l)
{
    CUDA_SCOPE(q->dev);
    gwb_cuda_queue_begin(q);
    gwb_cuda_note(q, "a pipeline");
    const grid g = grid_of(l);
    int bands = (int)g.bands;
    if (!l->batch) {
        void *params[] = {l->pass->stage, (void *)l->shapes, (void *)l->items};
        return start(q, l, ONE, &g, 1, params);
    }
    if (!l->memory) {
        gwb_pipe_item items[GWB_PIPE_FEW];
        memcpy(items, l->items, (size_t)l->count * sizeof *items);
        memset(items + l->count, 0, (size_t)(GWB_PIPE_FEW - l->count) * sizeof *items);
        void *params[] = {l->pass->stage, (void *)l->shapes, items, &bands};
        return start(q, l, FEW, &g, l->count, params);
    }
    int rc = 0;
    const int at_once = (int)(MOST_Z / g.bands);
    for (int first = 0; first < l->count && rc >= 0; first += at_once) {
        uint8_t *shapes = l->memory, *items = shapes + (size_t)l->shape_count * sizeof *l->shapes + (size_t)first * sizeof *l->items;
        void *params[] = {l->pass->stage, &shapes, &items, &bands};
        rc = start(q, l, MANY, &g, l->count - first < at_once ? l->count - first : at_once, params);
    }
    return rc;
}
