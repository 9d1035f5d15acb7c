// SPDX-License-Identifier: MIT
// Kernels that a script brings, on cuda: compiled by NVRTC, loaded, launched; and which launch a fault may come from.
#include "cuda.h"
#include "nvrtc.h"

#include "../signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_SIZE = 64 << 10, PLAIN_SHARED = 48 << 10 };    // bytes; shared memory that needs no asking for

// ---- modules

typedef struct function {
    CUfunction function;        // NULL where an #if left it out
    int most_threads;           // of a block, by its registers
    int shared;                 // bytes of static shared memory
    uint32_t allowed;           // bytes of dynamic shared memory that were asked for
} function;

typedef struct module {
    CUmodule module;
    function list[];            // by the source's list
} module;

// Every function gets the plain name, so that it can be found; what only the compiler knows is told by the sizes of variables that nobody uses.
static char *write_text(const gwb_source *s)
{
    gwb_edits e = {0};
    for (int i = 0; i < s->count; i++) {
        const gwb_signature *f = &s->list[i];
        gwb_edits_unlink(&e, s, f);
        gwb_edits_add(&e, f->mark, 0, "extern \"C\" ");
        if (!f->end)
            continue;
        gwb_edits_add(&e, f->end, 0, " extern \"C\" { __device__ char gwb_line_%s[%d]; }", f->name, f->line);
        for (int k = 0; k < f->count; k++)
            if (f->params[k].kind == GWB_PARAM_STRUCT)
                gwb_edits_add(&e, f->end, 0, " extern \"C\" { __device__ char gwb_size_%s_%d[sizeof(%s)]; }", f->name, k, f->params[k].type);
    }
    return gwb_edits_apply(&e, s, "#include \"prelude.h\"\n", "\n");
}

static bool mentions(const gwb_kernel_job *job, const char *word)
{
    for (int i = 0; i < job->option_count; i++)
        if (strstr(job->options[i], word))
            return true;
    return false;
}

static int compile(gwb_device *d, const gwb_kernel_job *job, const char *text, void **image, size_t *size)
{
    char arch[24], *log = job->log ? malloc(LOG_SIZE) : NULL;
    const char **options = calloc((size_t)job->option_count + 3, sizeof *options);
    int count = 0, rc = options ? gwb_nvrtc_arch(d->info.major, d->info.minor, arch) : gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    if (rc >= 0) {
        for (int i = 0; i < job->option_count; i++)
            if (!gwb_source_definition(job->options[i]))
                options[count++] = job->options[i];
        if (!mentions(job, "fmad") && !mentions(job, "use_fast_math"))
            options[count++] = "--fmad=false";      // the same bits as on the host device
        if (!mentions(job, "-std="))
            options[count++] = "--std=c++17";
        if (!mentions(job, "-default-device") && !mentions(job, "device-as-default"))
            options[count++] = "-default-device";
        const gwb_nvrtc_job nvrtc = {.source = text, .name = "kernel.cu", .options = options, .option_count = count, .arch = arch, .log = log,
                                     .log_size = LOG_SIZE, .uncached = job->source->includes};
        rc = gwb_nvrtc_build(&nvrtc, image, size);
    }
    free(options);
    if (log && rc == GWB_COMPILE) {
        free(job->log->data);
        *job->log = (gwb_bytes){(uint8_t *)log, (int64_t)strlen(log), LOG_SIZE};
    } else {
        free(log);
    }
    return rc;
}

// The bytes of a variable of the module; 0 where it has none of that name.
static int size_of(const module *m, const char *kind, const char *name, int index)
{
    char variable[320];
    CUdeviceptr where = 0;
    size_t bytes = 0;
    snprintf(variable, sizeof variable, index < 0 ? "gwb_%s_%s" : "gwb_%s_%s_%d", kind, name, index);
    return gwb_cuda.ModuleGetGlobal(&where, &bytes, m->module, variable) == 0 ? (int)bytes : 0;
}

static int find_functions(module *m, gwb_source *s)
{
    for (int i = 0; i < s->count; i++) {
        gwb_signature *f = &s->list[i];
        function *to = &m->list[i];
        f->present = f->end && size_of(m, "line", f->name, -1) == f->line && gwb_cuda.ModuleGetFunction(&to->function, m->module, f->name) == 0;
        if (!f->present)
            continue;
        int rc = gwb_cuda_check(gwb_cuda.FuncGetAttribute(&to->most_threads, GWB_CUDA_FUNCTION_THREADS, to->function),
                                "asking for the size of %s", f->name);
        if (rc >= 0)
            rc = gwb_cuda_check(gwb_cuda.FuncGetAttribute(&to->shared, GWB_CUDA_FUNCTION_SHARED, to->function), "asking for the size of %s", f->name);
        if (rc < 0)
            return rc;
        for (int k = 0; k < f->count; k++)
            if (f->params[k].kind == GWB_PARAM_STRUCT)
                f->params[k].size = size_of(m, "size", f->name, k);
    }
    return 0;
}

int gwb_cuda_kernel_open(gwb_device *d, const gwb_kernel_job *job, void **out)
{
    char *text = write_text(job->source);
    if (!text)
        return GWB_OUT_OF_MEMORY;
    void *image = NULL;
    size_t size = 0;
    int rc = compile(d, job, text, &image, &size);
    free(text);
    module *m = rc >= 0 ? calloc(1, sizeof *m + (size_t)job->source->count * sizeof *m->list) : NULL;
    if (rc >= 0 && !m)
        rc = gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    CUDA_SCOPE(d);
    if (rc >= 0)
        rc = gwb_cuda_check(gwb_cuda.ModuleLoadData(&m->module, image), "loading the compiled kernel on %s", d->info.name);
    free(image);
    if (rc >= 0) {
        rc = find_functions(m, job->source);
        if (rc < 0)
            gwb_cuda.ModuleUnload(m->module);
    }
    if (rc < 0)
        free(m);
    else
        *out = m;
    return rc;
}

static void unload(gwb_device *d, CUmodule module)
{
    CUDA_SCOPE(d);
    gwb_cuda.ModuleUnload(module);
}

void gwb_cuda_kernel_close(gwb_device *d, void *opened, bool lost)
{
    module *m = opened;
    if (!lost)
        unload(d, m->module);
    free(m);
}

// ---- launches

int gwb_cuda_kernel_launch(gwb_queue *q, const gwb_kernel_run *run)
{
    module *m = run->module;
    function *f = &m->list[run->function];
    const gwb_cuda_device *c = gwb_cuda_of(q->dev);
    const char *name = run->signature->name;
    const int64_t threads = (int64_t)run->block[0] * run->block[1] * run->block[2];
    if (threads > f->most_threads)
        return gwb_fail(GWB_BAD_ARGUMENT, "block has %lld threads; %s takes so many registers that %d is the most on %s", (long long)threads, name,
                        f->most_threads, q->dev->info.name);
    if ((int64_t)f->shared + run->shared > c->most_shared)
        return gwb_fail(GWB_BAD_ARGUMENT, "shared is %u bytes, beside %d that %s declares; %s has %d for a block", run->shared, f->shared, name,
                        q->dev->info.name, c->most_shared);
    CUDA_SCOPE(q->dev);
    if (f->shared + run->shared > PLAIN_SHARED && run->shared > f->allowed) {
        const int rc = gwb_cuda_check(gwb_cuda.FuncSetAttribute(f->function, GWB_CUDA_FUNCTION_DYNAMIC_SHARED, (int)run->shared),
                                      "giving %s %u bytes of shared memory", name, run->shared);
        if (rc < 0)
            return rc;
        f->allowed = run->shared;
    }
    gwb_cuda_queue_begin(q);
    gwb_cuda_note(q, name);
    const uint32_t *g = run->grid, *b = run->block;
    return gwb_cuda_check(gwb_cuda.LaunchKernel(f->function, g[0], g[1], g[2], b[0], b[1], b[2], run->shared, gwb_cuda_stream(q),
                                                (void **)(uintptr_t)run->args, NULL), "launching %s on %s", name, q->dev->info.name);
}

// ---- which launch a fault comes from. The device tells a fault late, so the launches that may still have been under way are remembered.

void gwb_cuda_note(gwb_queue *q, const char *name)
{
    gwb_cuda_device *c = gwb_cuda_of(q->dev);
    pthread_mutex_lock(&c->lock);
    gwb_cuda_launch_note *n = &c->notes[c->noted++ % GWB_CUDA_NOTES];
    n->queue = (uintptr_t)q;
    n->seq = q->issued;
    snprintf(n->name, sizeof n->name, "%s", name);
    pthread_mutex_unlock(&c->lock);
}

void gwb_cuda_note_done(gwb_queue *q, uint64_t seq)
{
    gwb_cuda_device *c = gwb_cuda_of(q->dev);
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < GWB_CUDA_NOTES; i++)
        if (c->notes[i].queue == (uintptr_t)q && c->notes[i].seq <= seq)
            c->notes[i].queue = 0;
    pthread_mutex_unlock(&c->lock);
}

// Adds to `text` which kernels may have failed on the device of the current context, and what to do.
void gwb_cuda_blame(char *text, size_t size)
{
    CUcontext current = NULL;
    const gwb_device *d = NULL;
    gwb_cuda.CtxGetCurrent(&current);
    for (int i = 1; !d && i < gwb_device_count(); i++)
        d = gwb_cuda_opened(i) && gwb_cuda_of(gwb_cuda_opened(i))->context == current ? gwb_cuda_opened(i) : NULL;
    size_t used = strlen(text);
    if (!d)
        return;
    gwb_cuda_device *c = gwb_cuda_of(d);
    int found = 0;
    pthread_mutex_lock(&c->lock);
    for (uint64_t n = c->noted; n > 0 && n + GWB_CUDA_NOTES > c->noted && used < size; n--) {
        const gwb_cuda_launch_note *note = &c->notes[(n - 1) % GWB_CUDA_NOTES];
        if (note->queue == 0)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", found ? ", " : "; kernels launched and not known to have ended, newest first: ",
                                 note->name);
        found++;
    }
    pthread_mutex_unlock(&c->lock);
    if (used < size)
        snprintf(text + used, size - used, "%s; gpu.reset(\"%s\") reopens the device where the driver allows it, its mats and streams are lost",
                 found > 1 && !getenv("GPUWB_SYNC") ? " (GPUWB_SYNC=1 in the environment finds the one)" : "", d->info.name);
}
