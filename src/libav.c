// SPDX-License-Identifier: MIT
// Finds and opens gpuwb_av.so: beside the command or the library that this code is in, where they are installed, or by the library path.
#include "libav.h"

#include "error.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const gwb_av_calls *calls;
static char why[1000];

// Places by the folder of this code: a build's, lib/libgpuwb.so, bin/gpuwb, lib/lua/5.1/gpuwb.so.
static const char *const places[] = {"", "gpuwb/", "../lib/gpuwb/", "../../gpuwb/"};

static void *open_at(const char *path)
{
    if (strchr(path, '/') && access(path, F_OK) != 0)
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *error = library ? NULL : dlerror();
    if (error && strchr(path, '/'))     // one that is there and does not open is what a person wants to know of
        snprintf(why, sizeof why, "%s does not open: %s", GWB_AV_NAME, error);
    return library;
}

static void *open_beside(const char *file)
{
    char folder[PATH_MAX], path[PATH_MAX + 64];
    if (!realpath(file, folder))
        return NULL;
    *strrchr(folder, '/') = 0;
    void *library = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++) {
        snprintf(path, sizeof path, "%s/%s%s", folder, places[i], GWB_AV_NAME);
        library = open_at(path);
    }
    return library;
}

static void open_once(void)
{
    Dl_info info;
    void *library = NULL;
    if (dladdr((void *)(uintptr_t)gwb_libav_calls, &info) && info.dli_fname && strchr(info.dli_fname, '/'))
        library = open_beside(info.dli_fname);
    if (!library)
        library = open_beside("/proc/self/exe");
    if (!library)
        library = open_at(GWB_AV_NAME);
    if (!library) {
        if (!why[0])
            snprintf(why, sizeof why, "there is no %s, which is built where the development packages of libavformat and libavcodec are", GWB_AV_NAME);
        return;
    }
    const gwb_av_calls *(*entry)(void);
    void *symbol = dlsym(library, GWB_AV_ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    const gwb_av_calls *found = symbol ? entry() : NULL;
    if (found && found->version == GWB_AV_VERSION && found->size == (int32_t)sizeof *found)
        calls = found;
    else
        snprintf(why, sizeof why, "%s is of another version of gpuwb", GWB_AV_NAME);
}

const gwb_av_calls *gwb_libav_calls(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    if (!calls)
        gwb_fail(GWB_UNSUPPORTED, "%s", why);
    return calls;
}

const char *gwb_libav(void)
{
    return gwb_libav_calls() ? calls->libraries : NULL;
}
