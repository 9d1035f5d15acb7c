// SPDX-License-Identifier: MIT
// NVRTC: finding it, compiling with gpuwb's own headers, and the cache.
#include "nvrtc.h"

#include "driver.h"
#include "../embedded.h"
#include "../kcache.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvrtc_program *nvrtcProgram;

static struct {
#define FIELD(name, symbol, result, params) result (*name) params;
    GWB_NVRTC_SYMBOLS(FIELD)
#undef FIELD
} nvrtc;
static int version;             // 13000 for 13.0; 0: not found
static char absent[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int check(int result, const char *what)
{
    return result == 0 ? 0 : gwb_fail(GWB_COMPILE, "NVRTC cannot %s: %s", what, nvrtc.GetErrorString(result));
}

// ---- loading

static void *open_library(const char *soname)
{
    const char *home = getenv("CUDA_HOME");
    char path[512];
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!library && home && snprintf(path, sizeof path, "%s/lib64/%s", home, soname) < (int)sizeof path)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(path, sizeof path, "/usr/local/cuda/lib64/%s", soname);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

// The newest that the driver's CUDA version covers, since an older driver may refuse what a newer compiler makes; else whatever is there.
static void load(void)
{
    static const struct { int major; const char *soname; } known[] = {{13, "libnvrtc.so.13"}, {12, "libnvrtc.so.12"}, {11, "libnvrtc.so.11.2"}};
    enum { KNOWN = sizeof known / sizeof *known };
    const int driver = gwb_cuda.version ? gwb_cuda.version / 1000 : known[0].major;
    void *library = NULL;
    for (int i = 0; i < KNOWN && !library; i++)
        if (known[i].major <= driver)
            library = open_library(known[i].soname);
    for (int i = KNOWN - 1; i >= 0 && !library; i--)
        if (known[i].major > driver)
            library = open_library(known[i].soname);
    if (!library) {
        snprintf(absent, sizeof absent, "there is no NVRTC: libnvrtc.so.13, .12 and .11.2 are neither in the library path nor in $CUDA_HOME/lib64 or "
                 "/usr/local/cuda/lib64; install the CUDA toolkit's NVRTC");
        return;
    }
#define LOAD(name, symbol, result, params) \
    if (!(*(void **)&nvrtc.name = dlsym(library, symbol))) { \
        snprintf(absent, sizeof absent, "the NVRTC at hand lacks %s: it is older than 11.2", symbol); \
        return; \
    }
    GWB_NVRTC_SYMBOLS(LOAD)
#undef LOAD
    int major, minor;
    if (check(nvrtc.Version(&major, &minor), "tell its version") < 0)
        snprintf(absent, sizeof absent, "%s", gwb_error_message());
    else
        version = 1000 * major + 10 * minor;
}

int gwb_nvrtc_version(void)
{
    pthread_once(&once, load);
    return version ? version : gwb_fail(GWB_UNSUPPORTED, "%s", absent);
}

int gwb_nvrtc_arch(int major, int minor, char arch[24])
{
    int rc = gwb_nvrtc_version(), count = 0, archs[128], best = 0;
    if (rc < 0)
        return rc;
    rc = check(nvrtc.GetNumSupportedArchs(&count), "list its architectures");
    if (rc >= 0 && count > (int)(sizeof archs / sizeof *archs))
        rc = gwb_fail(GWB_INTERNAL, "NVRTC knows %d architectures", count);
    if (rc >= 0)
        rc = check(nvrtc.GetSupportedArchs(archs), "list its architectures");
    if (rc < 0)
        return rc;
    const int own = 10 * major + minor;
    for (int i = 0; i < count; i++)
        if (archs[i] <= own && archs[i] > best)
            best = archs[i];
    if (!best)
        return gwb_fail(GWB_UNSUPPORTED, "NVRTC %d.%d no longer compiles for devices of capability %d.%d", version / 1000, version % 1000 / 10, major, minor);
    snprintf(arch, 24, "%s_%d", best == own ? "sm" : "compute", best);
    return 0;
}

// ---- compiling

enum { MOST_HEADERS = 64, MOST_OPTIONS = 64 };
typedef struct headers {
    int count;
    const char *names[MOST_HEADERS], *texts[MOST_HEADERS];
} headers;

// abi_types.h has no preprocessor line, so no guard against a second #include: this stands in its place.
static const char guarded_types[] = "#ifndef GWB_ABI_TYPES\n#define GWB_ABI_TYPES\n#include \"gwb_abi_types\"\n#endif\n";

static int find_headers(headers *h)
{
    h->count = 1;
    h->names[0] = "abi_types.h";
    h->texts[0] = guarded_types;
    for (size_t i = 0; i < gwb_embedded_count; i++) {
        const char *path = gwb_embedded_files[i].name, *name = strrchr(path, '/') + 1, *dot = strrchr(name, '.');
        if (!dot || strcmp(dot, ".h") != 0 || (strncmp(path, "kernels/", 8) != 0 && strcmp(name, "abi_types.h") != 0))
            continue;
        const gwb_embedded *file = gwb_embedded_find(path);
        if (!file)
            return gwb_fail(GWB_NO_FILE, "%s is not in the checkout that GPUWB_ROOT names", path);
        if (h->count == MOST_HEADERS)
            return gwb_fail(GWB_INTERNAL, "more than %d kernel headers", MOST_HEADERS);
        h->names[h->count] = strcmp(name, "abi_types.h") == 0 ? "gwb_abi_types" : name;
        h->texts[h->count++] = (const char *)file->data;
    }
    return 0;
}

static gwb_kcache_key key_of(const gwb_nvrtc_job *job, const headers *h)
{
    gwb_kcache_key key = GWB_KCACHE_KEY;
    gwb_kcache_add(&key, &version, sizeof version);
    gwb_kcache_add_text(&key, job->arch);
    gwb_kcache_add_text(&key, job->name);
    gwb_kcache_add_text(&key, job->source);
    for (int i = 0; i < job->option_count; i++)
        gwb_kcache_add_text(&key, job->options[i]);
    for (int i = 0; i < h->count; i++) {
        gwb_kcache_add_text(&key, h->names[i]);
        gwb_kcache_add_text(&key, h->texts[i]);
    }
    return key;
}

// Keeps the compiler's text for the job, and its first error line for the message.
static void take_log(nvrtcProgram program, const gwb_nvrtc_job *job, char line[256])
{
    size_t size = 0;
    char *text = nvrtc.GetProgramLogSize(program, &size) == 0 && size > 0 ? calloc(1, size + 1) : NULL;
    snprintf(line, 256, "the compiler gives no reason");
    if (text && nvrtc.GetProgramLog(program, text) == 0) {
        const char *error = strstr(text, "error");
        while (error && error > text && error[-1] != '\n')
            error--;
        error = error ? error : text;
        snprintf(line, 256, "%.*s", (int)strcspn(error, "\n"), error);
        if (job->log)
            snprintf(job->log, (size_t)job->log_size, "%s", text);
    }
    free(text);
}

static int take_image(nvrtcProgram program, bool ptx, void **image, size_t *size)
{
    int rc = check(ptx ? nvrtc.GetPTXSize(program, size) : nvrtc.GetCUBINSize(program, size), "give its result");
    if (rc < 0)
        return rc;
    char *data = calloc(1, *size + 1);
    if (!data)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    rc = check(ptx ? nvrtc.GetPTX(program, data) : nvrtc.GetCUBIN(program, data), "give its result");
    if (rc < 0)
        free(data);
    else
        *image = data;
    return rc;
}

static int compile(const gwb_nvrtc_job *job, const headers *h, void **image, size_t *size)
{
    char arch[64], line[256];
    const char *options[MOST_OPTIONS + 1] = {arch};
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", job->arch);
    for (int i = 0; i < job->option_count; i++)
        options[1 + i] = job->options[i];

    nvrtcProgram program;
    int rc = check(nvrtc.CreateProgram(&program, job->source, job->name, h->count, h->texts, h->names), "take the source");
    if (rc < 0)
        return rc;
    const int result = nvrtc.CompileProgram(program, job->option_count + 1, options);
    take_log(program, job, line);
    if (result == 0)
        rc = take_image(program, strncmp(job->arch, "compute", 7) == 0, image, size);
    else
        rc = gwb_fail(GWB_COMPILE, "%s does not compile for %s (%s): %s", job->name, job->arch, nvrtc.GetErrorString(result), line);
    nvrtc.DestroyProgram(&program);
    return rc;
}

int gwb_nvrtc_build(const gwb_nvrtc_job *job, void **image, size_t *size)
{
    int rc = gwb_nvrtc_version();
    if (rc < 0)
        return rc;
    if (job->option_count < 0 || job->option_count > MOST_OPTIONS)
        return gwb_fail(GWB_BAD_ARGUMENT, "%d compiler options; wanted 0..%d", job->option_count, MOST_OPTIONS);
    if (job->log && job->log_size > 0)
        job->log[0] = 0;
    headers h;
    rc = find_headers(&h);
    if (rc < 0)
        return rc;
    const gwb_kcache_key key = key_of(job, &h);
    if (!job->uncached && gwb_kcache_load(key, image, size))
        return 0;
    rc = compile(job, &h, image, size);
    gwb_kcache_compiled();
    if (rc >= 0 && !job->uncached)
        gwb_kcache_store(key, *image, *size);
    return rc;
}

int gwb_nvrtc_compile(const char *source, const char *name, const char *const *options, int option_count, const char *arch, char *log, int64_t log_size,
                      int64_t *image_size)
{
    if (!source || !name || !arch || (!options && option_count != 0))
        return gwb_fail(GWB_BAD_ARGUMENT, "gwb_nvrtc_compile wants a source, a name and an architecture as \"sm_90\"");
    const gwb_nvrtc_job job = {.source = source, .name = name, .options = options, .option_count = option_count, .arch = arch,
                               .log = log_size > 0 ? log : NULL, .log_size = log_size};
    void *image = NULL;
    size_t size = 0;
    int rc = gwb_nvrtc_build(&job, &image, &size);
    free(image);
    if (rc >= 0 && image_size)
        *image_size = (int64_t)size;
    return rc;
}
