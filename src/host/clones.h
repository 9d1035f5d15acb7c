// SPDX-License-Identifier: MIT
// GWB_CLONES before a function compiles it for several instruction sets; the processor's best is taken when the program starts.
#ifndef GWB_HOST_CLONES_H
#define GWB_HOST_CLONES_H

// Sanitizers cannot run the resolver of such a function, and other compilers have none or a different one.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GWB_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GWB_CLONES
#endif

#endif
