// SPDX-License-Identifier: MIT
// The C or C++ compiler at hand, which makes kernels for the host device.
#ifndef GWB_HOST_COMPILER_H
#define GWB_HOST_COMPILER_H

#include "../device.h"

// A program to run, found once per call: $CC, which may hold options too and is then the only choice, else cc, gcc or clang in $PATH.
typedef struct gwb_compiler {
    char path[1024];
    char *words[16];            // $CC's further words, in `text`
    int word_count;
    char text[1024];
    int64_t stamp[3];           // size and time of its file: another compiler is another key for the cache
} gwb_compiler;

int gwb_compiler_find(gwb_compiler *c);     // GWB_UNSUPPORTED with the reason where there is none

typedef struct gwb_compile {
    const char *source;
    const char *const *options; // the caller's, checked
    int option_count;
    gwb_bytes *log;             // gets the compiler's text; may be NULL
} gwb_compile;

// Compiles C++, or C where the compiler knows no C++, to a shared object: *image of *size bytes, the caller's to free. Waits (some 200 ms). Thread-safe.
int gwb_compiler_run(const gwb_compiler *c, const gwb_compile *job, void **image, size_t *size);

// What all compilations have in common, for the cache's key: options and headers.
int gwb_compiler_environment(void (*add)(void *context, const char *text), void *context);

#endif
