// SPDX-License-Identifier: MIT
// What kernel text may rely on, whoever compiles it: the host's C compiler, nvcc (C++) or NVRTC (C++, without system headers).
#ifndef GWB_PRELUDE_H
#define GWB_PRELUDE_H

#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#elif !defined(GWB_H)
#include <stdint.h>
#endif

#if defined(__CUDACC__)
#define GWB_FN static __device__ __forceinline__
#define GWB_RESTRICT __restrict__
#define GWB_UNROLL _Pragma("unroll")
#define GWB_NO_UNROLL _Pragma("unroll 1")
// A kernel's argument struct is read where it lies; without this, indexing it at run time makes a copy for each thread.
#if __CUDACC_VER_MAJOR__ > 11 || __CUDACC_VER_MINOR__ >= 7
#define GWB_ARGS const __grid_constant__
#else
#define GWB_ARGS const
#endif
#else
#include <math.h>
#include <stdbool.h>
#include <string.h>
#define GWB_UNROLL
#define GWB_NO_UNROLL
#define GWB_FN static inline __attribute__((always_inline))
#define GWB_RESTRICT restrict
#endif

// First in every kernel of gpuwb's own on cuda: lets the next kernel of the stream be set up already, and waits for the one before and its writes.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GWB_AFTER() asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory")
#else
#define GWB_AFTER() (void)0
#endif

#if !defined(GWB_H)         // C on the host has the types from gwb.h already
#include "abi_types.h"
#endif

// No expression is contracted into a fused multiply-add by a compiler (-ffp-contract=off, -fmad=false), so that devices agree to the last bit: where one is
// meant, gwb_fma (number.h) says so.

#endif
