// SPDX-License-Identifier: MIT
// NVRTC, NVIDIA's run-time compiler for CUDA C++: found at run time, its results kept on disk.
#ifndef GWB_CUDA_NVRTC_H
#define GWB_CUDA_NVRTC_H

#include "../error.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct gwb_nvrtc_job {
    const char *source;             // CUDA C++; may include abi_types.h and every header of kernels/ by its name
    const char *name;               // what the compiler's text calls the source
    const char *const *options;     // besides the architecture
    int option_count;
    const char *arch;               // "sm_90" gives machine code, "compute_90" PTX
    char *log;                      // gets the compiler's text, cut at log_size bytes with the zero; NULL: not wanted
    int64_t log_size;
    bool uncached;                  // includes files that the cache's key does not cover
} gwb_nvrtc_job;

// Compiles, or takes the result from the cache: *image of *size bytes, the caller's to free, a zero behind it. Waits (some 100 ms for a compilation).
// Thread-safe. GWB_UNSUPPORTED where there is no NVRTC, GWB_COMPILE where the source has errors.
int gwb_nvrtc_build(const gwb_nvrtc_job *job, void **image, size_t *size);

// The architecture to compile for on a device of capability major.minor: its own, or PTX of the newest that this NVRTC knows and the device runs.
int gwb_nvrtc_arch(int major, int minor, char arch[24]);

#endif
