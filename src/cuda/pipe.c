// SPDX-License-Identifier: MIT
// Pipelines on cuda: a pass is written as CUDA C, compiled once for each kind, and launched.
#include "cuda.h"
#include "nvrtc.h"
#include "pipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A kernel by its text, on one device. The list lives as long as the process.
typedef struct kernel {
    struct kernel *next;
    const gwb_device *dev;
    unsigned epoch;         // of the device: a kernel of an older one went with its context
    char *text;
    CUmodule module;
    CUfunction function;
} kernel;

static kernel *kernels;     // under gwb_lock

// $GPUWB_DUMP names a folder that gets the text of each kernel.
static void dump(const char *text)
{
    static int count;
    const char *dir = getenv("GPUWB_DUMP");
    if (!dir || !dir[0])
        return;
    char path[4096];
    snprintf(path, sizeof path, "%s/pipe%d.cu", dir, ++count);
    FILE *f = fopen(path, "we");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

static int compile(gwb_device *d, const char *text, const char *entry, CUmodule *module, CUfunction *function)
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
        rc = gwb_cuda_check(gwb_cuda.ModuleLoadData(module, image), "loading a pipeline's kernel");
    free(image);
    if (rc < 0)
        return rc;
    return gwb_cuda_check(gwb_cuda.ModuleGetFunction(function, *module, entry), "finding the kernel %s", entry);
}

static int find_kernel(gwb_device *d, const gwb_pass *pass, bool batch, void **out)
{
    char *text = gwb_pipe_write(pass, batch);
    if (!text)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    kernel *k = kernels;
    while (k && (k->dev != d || k->epoch != d->epoch || strcmp(k->text, text) != 0))
        k = k->next;
    int rc = 0;
    if (!k) {
        dump(text);
        k = calloc(1, sizeof *k);
        rc = k ? compile(d, text, batch ? "gwb_pipe_batch" : "gwb_pipe_one", &k->module, &k->function) : gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
        if (rc < 0) {
            free(k);
            free(text);
            return rc;
        }
        k->dev = d;
        k->epoch = d->epoch;
        k->text = text;
        k->next = kernels;
        kernels = k;
    } else {
        free(text);
    }
    *out = k->function;
    return 0;
}

int gwb_cuda_pipe(gwb_queue *q, gwb_pass *pass, const gwb_pipe_item *items, const gwb_pipe_item *more, int count)
{
    const bool batch = count > 1;
    CUDA_SCOPE(q->dev);
    if (!pass->kernel[batch]) {
        int rc = find_kernel(q->dev, pass, batch, &pass->kernel[batch]);
        if (rc < 0)
            return rc;
    }
    gwb_cuda_queue_begin(q);
    gwb_pipe_args args = pass->args;
    args.items = count;
    args.more = more;
    int nx = pass->nx, ny = pass->ny;
    gwb_cuda_note(q, "a pipeline");
    void *single[] = {&args, (void *)items, &nx, &ny}, *many[] = {&args, &nx, &ny};
    const int bx = 32, by = 4;
    return gwb_cuda_check(gwb_cuda_start(q, pass->kernel[batch], (unsigned)((nx + bx - 1) / bx), (unsigned)((ny + by - 1) / by), (unsigned)count,
                                         (unsigned)bx, (unsigned)by, batch ? many : single),
                          "launching a pipeline on %s", q->dev->info.name);
}
