// SPDX-License-Identifier: MIT
// Kernels that a script brings, on the host device: their text made into C++ for the compiler at hand, the image loaded, launches.
#include "kernel.h"

#include "../kcache.h"
#include "../signature.h"
#include "compiler.h"
#include "fibre.h"
#include "parallel.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// ---- what the host cannot do

#define HALF "numbers of type half (pass uint16_t, and use gwb_half_to_double of number.h)"
// Words that name something missing here, each with what it is. A '*' ends a beginning.
static const struct { const char *word, *what; } missing[] = {
    {"tex1D*", "textures"}, {"tex2D*", "textures"}, {"tex3D*", "textures"}, {"texCubemap*", "textures"}, {"cudaTextureObject_t", "textures"},
    {"surf1D*", "surfaces"}, {"surf2D*", "surfaces"}, {"surf3D*", "surfaces"}, {"cudaSurfaceObject_t", "surfaces"},
    {"cooperative_groups", "cooperative groups"}, {"asm", "inline PTX"}, {"__asm__", "inline PTX"}, {"__asm", "inline PTX"},
    {"__half*", HALF}, {"__nv_bfloat16*", "bfloat16"}, {"__nv_fp8*", "fp8"},
    {"__activemask", "__activemask(): which threads run together is the GPU's choice; name the lanes in a mask"},
    {"__shfl", "__shfl() without _sync, which GPUs no longer have either"}, {"__shfl_up", "__shfl_up() without _sync"},
    {"__shfl_down", "__shfl_down() without _sync"}, {"__shfl_xor", "__shfl_xor() without _sync"}, {"__ballot", "__ballot() without _sync"},
    {"__any", "__any() without _sync"}, {"__all", "__all() without _sync"}, {"__managed__", "managed memory"},
    {"__cluster_dims__", "clusters of blocks"}, {"cudaLaunchDevice*", "launches by kernels"}, {"cudaDeviceSynchronize", "launches by kernels"},
    {"cudaGetParameterBuffer*", "launches by kernels"},
    {"clock64", "clock64(): use the times of events"},
};
// Headers that come with CUDA and bring words of their own.
static const struct { const char *file, *what; } missing_headers[] = {
    {"cooperative_groups", "cooperative groups"}, {"cuda_fp16", HALF},
    {"cuda_bf16", "bfloat16"}, {"cuda_fp8", "fp8"}, {"mma.h", "tensor cores (wmma)"}, {"cuda/", "the CUDA C++ library (cuda::)"}, {"cub/", "CUB"},
    {"thrust/", "Thrust"}, {"curand", "cuRAND"},
};

static bool named(const char *word, size_t size, const char *pattern)
{
    const size_t n = strlen(pattern);
    return pattern[n - 1] == '*' ? size >= n - 1 && memcmp(word, pattern, n - 1) == 0 : size == n && memcmp(word, pattern, n) == 0;
}

// __vadd4 and the like: arithmetic on packed bytes or halves.
static bool is_packed(const char *word, size_t size)
{
    return size > 4 && memcmp(word, "__v", 3) == 0 && (word[size - 1] == '2' || word[size - 1] == '4');
}

static int refuse(const gwb_source *s, size_t at, const char *what)
{
    return gwb_fail(GWB_UNSUPPORTED, "kernel.cu:%d: the host device has no %s; run this kernel on a cuda device", gwb_source_line(s, at), what);
}

static int check_words(const gwb_source *s)
{
    size_t at = 0, size;
    for (const char *word; (word = gwb_source_word(s, &at, s->size, &size));) {
        for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
            if (named(word, size, missing[i].word))
                return refuse(s, at - size, missing[i].what);
        if (is_packed(word, size))
            return refuse(s, at - size, "arithmetic on packed numbers (__vadd4 and the like)");
    }
    for (size_t i = 0; i < s->size; i++) {
        const char *file = s->text + i + 1;
        if (s->clean[i] != GWB_MARK_INCLUDE)
            continue;
        file += strspn(file, " \t") + strlen("include");
        file += strspn(file, " \t");
        for (size_t k = 0; *file && k < sizeof missing_headers / sizeof *missing_headers; k++)
            if (strncmp(file + 1, missing_headers[k].file, strlen(missing_headers[k].file)) == 0)
                return refuse(s, i, missing_headers[k].what);
    }
    const char *launch = strstr(s->clean, "<<<");
    return launch ? refuse(s, (size_t)(launch - s->clean), "launches by kernels") : 0;
}

// NVRTC's options: those that say what the source means are passed on, those that tune code for a GPU mean nothing here.
typedef struct host_options {
    int count;
    const char *list[64];
    char text[16 << 10];
} host_options;

static int take_options(const gwb_kernel_job *job, host_options *o)
{
    static const char *const ignored[] = {
        "--fmad=", "-fmad=", "--use_fast_math", "-use_fast_math", "--ftz=", "-ftz=", "--prec-div=", "-prec-div=", "--prec-sqrt=", "-prec-sqrt=",
        "--maxrregcount=", "-maxrregcount=", "-lineinfo", "--generate-line-info", "-G", "--device-debug", "-default-device",
        "--device-as-default-execution-space", "-restrict", "--restrict", "-extra-device-vectorization", "--extra-device-vectorization",
        "-w", "--disable-warnings", "--Ofast-compile=", "-Ofc=", "-dopt", "--dopt=", "--split-compile=", "-arch=", "--gpu-architecture=",
    };
    static const struct { const char *nvrtc, *cc; } passed[] = {
        {"-U", "-U"}, {"--undefine-macro=", "-U"}, {"-I", "-I"}, {"--include-path=", "-I"}, {"-std=", "-std="},
        {"--std=", "-std="},
    };
    char *to = o->text, *const end = o->text + sizeof o->text;
    for (int i = 0; i < job->option_count; i++) {
        bool known = gwb_source_definition(job->options[i]) != NULL;     // in the text already
        for (size_t k = 0; k < sizeof ignored / sizeof *ignored && !known; k++) {
            const size_t n = strlen(ignored[k]);
            known = ignored[k][n - 1] == '=' ? strncmp(job->options[i], ignored[k], n) == 0 : strcmp(job->options[i], ignored[k]) == 0;
        }
        for (size_t k = 0; k < sizeof passed / sizeof *passed && !known; k++) {
            const size_t n = strlen(passed[k].nvrtc);
            if (strncmp(job->options[i], passed[k].nvrtc, n) != 0)
                continue;
            const size_t size = (size_t)snprintf(to, (size_t)(end - to), "%s%s", passed[k].cc, job->options[i] + n) + 1;
            if (o->count == 64 || size > (size_t)(end - to))
                return gwb_fail(GWB_BAD_ARGUMENT, "too many compiler options; at most 64, of 16384 bytes in all");
            o->list[o->count++] = to;
            to += size;
            known = true;
        }
        if (!known)
            return gwb_fail(GWB_BAD_ARGUMENT, "the host device does not know the compiler option %s; it takes -D, -U, -I, --std, and those of NVRTC "
                            "that only tune code for a GPU", job->options[i]);
    }
    return 0;
}

// ---- the text

static bool has_word(const gwb_source *s, size_t at, size_t end, const char *wanted)
{
    size_t size;
    for (const char *word; (word = gwb_source_word(s, &at, end, &size));)
        if (size == strlen(wanted) && memcmp(word, wanted, size) == 0)
            return true;
    return false;
}

// Shared memory becomes memory of the worker's thread. Of `extern __shared__ T name[]` there is one, under the name that all of them mean.
static void edit_shared(const gwb_source *s, gwb_edits *e, bool *dynamic)
{
    size_t at = 0, size;
    for (const char *word; (word = gwb_source_word(s, &at, s->size, &size));) {
        if (size != strlen("__shared__") || memcmp(word, "__shared__", size) != 0)
            continue;
        size_t first = at - size;
        while (first > 0 && !strchr(";{}", s->clean[first - 1]) && s->clean[first - 1] > GWB_MARK_LAST)
            first--;
        const size_t end = at + strcspn(s->clean + at, ";");
        const bool external = has_word(s, first, end, "extern");
        size_t from = first, length;
        for (const char *w; (w = gwb_source_word(s, &from, at - size, &length));)
            if (length == 6 && (memcmp(w, "static", 6) == 0 || memcmp(w, "extern", 6) == 0))
                gwb_edits_add(e, (size_t)(w - s->clean), 6, external ? "extern __thread" : "      ");
        if (external) {
            *dynamic = true;
            gwb_edits_add(e, at - size, size, "%*s", (int)size, "");
            gwb_edits_add(e, end, 0, " __asm__(\"gwb_dynamic\")");
        }
    }
}

// Behind the body: a function that calls the kernel, and the entry that gpuwb finds.
static void edit_entry(const gwb_source *s, const gwb_signature *f, gwb_edits *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        e->failed = true;
        return;
    }
    const bool fibres = s->waits || s->includes || f->waits;
    fprintf(out, " static const int gwb_sizes_%s[] = {0", f->name);
    for (int i = 0; i < f->count; i++)
        fprintf(out, ", (int)sizeof(%s)", f->params[i].type);
    fprintf(out, "}; static void gwb_run_%s(const gwb_host_run *gwb_r, %s) { ", f->name,
            fibres ? "gwb_host_block *gwb_h, gwb_idx gwb_i" : "int64_t gwb_first, int64_t gwb_end");
    for (int i = 0; i < f->count; i++)
        fprintf(out, "%s gwb_a%d = *(%s *)gwb_r->args[%d]; ", f->params[i].type, i, f->params[i].type, i);
    fprintf(out, fibres ? "GWB_FIBRE(gwb_r, gwb_h, gwb_i) " : "GWB_EACH_THREAD(gwb_r, gwb_first, gwb_end) ");
    fprintf(out, "gwb_k_%s(gwb_t, gwb_b, gwb_d, gwb_g", f->name);
    for (int i = 0; i < f->count; i++)
        fprintf(out, ", gwb_a%d", i);
    fprintf(out, "); %s} GWB_ENTRY(%s) = {%d, gwb_sizes_%s, %s%s, %s%s};", fibres ? "" : "GWB_EACH_END ", f->name, f->line, f->name,
            fibres ? "0" : "gwb_run_", fibres ? "" : f->name, fibres ? "gwb_run_" : "0", fibres ? f->name : "");
    if (fclose(out) != 0)
        e->failed = true;
    else
        gwb_edits_add(e, f->end, 0, "%s", text);
    free(text);
}

// The whole text for the compiler, the caller's to free; NULL with the error set.
static char *write_text(const gwb_source *s)
{
    static const char head[] = "#include \"host_cuda.h\"\n";
    char tail[160] = "\n";
    gwb_edits e = {0};
    bool dynamic = false;
    edit_shared(s, &e, &dynamic);
    for (int i = 0; i < s->count; i++) {
        const gwb_signature *f = &s->list[i];
        const char *comma = f->count > 0 ? ", " : "";
        gwb_edits_unlink(&e, s, f);
        gwb_edits_add(&e, f->name_at, 0, "gwb_k_");
        gwb_edits_add(&e, f->params_at, f->count > 0 ? 0 : strcspn(s->clean + f->params_at, ")"),
                      "const uint3 threadIdx, const uint3 blockIdx, const dim3 blockDim, const dim3 gridDim%s", comma);
        if (f->end)
            edit_entry(s, f, &e);
    }
    if (dynamic)
        snprintf(tail, sizeof tail, "\n__attribute__((visibility(\"hidden\"), aligned(256), used)) "
                 "__thread char gwb_dynamic_memory[%d] __asm__(\"gwb_dynamic\");\n", GWB_HOST_SHARED);
    return gwb_edits_apply(&e, s, head, tail);
}

// ---- modules

typedef struct module {
    int file;               // memory that holds the image; open as long as it is loaded, so that its name means this image alone
    void *library;
    const gwb_host_entry *entries[];    // by the source's list; NULL where an #if left it out
} module;

static void add_to_key(void *key, const char *text)
{
    gwb_kcache_add_text(key, text);
}

static int key_of(const gwb_compiler *c, const char *text, const host_options *options, gwb_kcache_key *key)
{
    *key = GWB_KCACHE_KEY;
    gwb_kcache_add_text(key, "host");
    gwb_kcache_add_text(key, c->path);
    gwb_kcache_add(key, c->stamp, sizeof c->stamp);
    for (int i = 0; i < c->word_count; i++)
        gwb_kcache_add_text(key, c->words[i]);
    gwb_kcache_add_text(key, text);
    for (int i = 0; i < options->count; i++)
        gwb_kcache_add_text(key, options->list[i]);
    return gwb_compiler_environment(add_to_key, key);
}

static int load_image(module *m, const void *image, size_t size)
{
    char path[64];
    m->file = memfd_create("gpuwb-kernel", MFD_CLOEXEC);
    for (size_t done = 0; m->file >= 0 && done < size;) {
        const ssize_t n = write(m->file, (const char *)image + done, size - done);
        if (n <= 0)
            return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a kernel's image of %zu bytes", size);
        done += (size_t)n;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", m->file);
    m->library = m->file >= 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (m->library)
        return 0;
    return gwb_fail(GWB_DEVICE, "the compiled kernel cannot be loaded: %s", m->file >= 0 ? dlerror() : "no file in memory could be made");
}

static void close_module(module *m)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", m->file);
    if (m->library)
        dlclose(m->library);
    // the loader knows images by name: one that it still keeps must go on owning this name
    void *kept = m->library ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (kept)
        dlclose(kept);
    else if (m->file >= 0)
        close(m->file);
    free(m);
}

static int find_entries(module *m, gwb_source *s)
{
    for (int i = 0; i < s->count; i++) {
        gwb_signature *f = &s->list[i];
        char name[256];
        snprintf(name, sizeof name, "gwb_entry_%s", f->name);
        const gwb_host_entry *entry = f->end ? dlsym(m->library, name) : NULL;
        f->present = entry && entry->line == f->line;
        m->entries[i] = f->present ? entry : NULL;
        for (int k = 0; f->present && k < f->count; k++) {
            if (f->params[k].size && f->params[k].size != entry->sizes[k + 1])
                return gwb_fail(GWB_COMPILE, "the parameter %s %s of %s has %d bytes here, not the %d of the type of that name; rename the type",
                                f->params[k].type, f->params[k].name, f->name, entry->sizes[k + 1], f->params[k].size);
            f->params[k].size = entry->sizes[k + 1];
        }
    }
    return 0;
}

int gwb_host_kernel_open(gwb_device *d, const gwb_kernel_job *job, void **out)
{
    (void)d;
    gwb_compiler compiler;
    gwb_kcache_key key;
    host_options *options = calloc(1, sizeof *options);
    int rc = options ? check_words(job->source) : gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    if (rc >= 0)
        rc = take_options(job, options);
    if (rc >= 0)
        rc = gwb_compiler_find(&compiler);
    char *text = rc >= 0 ? write_text(job->source) : NULL;
    if (rc >= 0 && !text)
        rc = GWB_OUT_OF_MEMORY;
    if (rc >= 0)
        rc = key_of(&compiler, text, options, &key);
    void *image = NULL;
    size_t size = 0;
    // a file that is included from elsewhere may change without a sign
    const bool cached = rc >= 0 && !job->source->includes;
    if (rc >= 0 && !(cached && gwb_kcache_load(key, &image, &size))) {
        const gwb_compile compile = {.source = text, .options = options->list, .option_count = options->count, .log = job->log};
        rc = gwb_compiler_run(&compiler, &compile, &image, &size);
        if (rc >= 0 && cached)
            gwb_kcache_store(key, image, size);
    }
    free(text);
    free(options);
    module *m = rc >= 0 ? calloc(1, sizeof *m + (size_t)job->source->count * sizeof *m->entries) : NULL;
    if (rc >= 0 && !m)
        rc = gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    if (rc >= 0)
        rc = load_image(m, image, size);
    free(image);
    if (rc >= 0)
        rc = find_entries(m, job->source);
    if (rc < 0 && m)
        close_module(m);
    else
        *out = m;
    return rc;
}

void gwb_host_kernel_close(gwb_device *d, void *module, bool lost)
{
    (void)d, (void)lost;
    close_module(module);
}

// ---- launches

typedef struct launch {
    const gwb_host_entry *entry;
    gwb_host_run run;
    gwb_fibre_fault fault;
    char name[64];
    void *args[];           // then the arguments
} launch;

static void run_blocks(void *context, int64_t first, int64_t end)
{
    launch *l = context;
    if (l->entry->blocks)
        l->entry->blocks(&l->run, first, end);
    else
        gwb_fibre_blocks(l->entry, &l->run, &l->fault, first, end);
}

static void run_launch(void *arg)
{
    launch *l = arg;
    const gwb_idx grid = l->run.grid, block = l->run.block;
    const int64_t blocks = (int64_t)grid.x * grid.y * grid.z, threads = (int64_t)block.x * block.y * block.z;
    gwb_parallel(blocks, 1 + 2048 / threads, run_blocks, l);
    if (l->fault.state) {
        char text[640];
        snprintf(text, sizeof text, "the kernel %s failed, %s", l->name, l->fault.text);
        gwb_host_fault(text);
        memset(&l->fault, 0, sizeof l->fault);
    }
}

int gwb_host_kernel_launch(gwb_queue *q, const gwb_kernel_run *run)
{
    const gwb_signature *f = run->signature;
    const module *m = run->module;
    if (run->shared > GWB_HOST_SHARED)
        return gwb_fail(GWB_BAD_ARGUMENT, "shared is %u bytes; the host device has %d for a block", run->shared, GWB_HOST_SHARED);
    enum { SLOT = 32 };     // more than any type's alignment
    size_t bytes = sizeof(launch) + (size_t)f->count * sizeof(void *) + SLOT;
    for (int i = 0; i < f->count; i++)
        bytes += ((size_t)f->params[i].size + SLOT - 1) / SLOT * SLOT;
    launch *l = calloc(1, bytes);
    if (!l)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    l->entry = m->entries[run->function];
    l->run = (gwb_host_run){.args = l->args, .grid = {run->grid[0], run->grid[1], run->grid[2]},
                            .block = {run->block[0], run->block[1], run->block[2]}};
    snprintf(l->name, sizeof l->name, "%s", f->name);
    char *to = (char *)(((uintptr_t)(l->args + f->count) + SLOT - 1) / SLOT * SLOT);
    for (int i = 0; i < f->count; i++) {
        l->args[i] = memcpy(to, run->args[i], (size_t)f->params[i].size);
        to += ((size_t)f->params[i].size + SLOT - 1) / SLOT * SLOT;
    }
    return q->dev->ops->call(q, run_launch, l, free);
}
