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
#else
#include <math.h>
#include <string.h>
#define GWB_FN static inline __attribute__((always_inline))
#define GWB_RESTRICT restrict
#endif

#if !defined(GWB_H)         // C on the host has the types from gwb.h already
#include "abi_types.h"
#endif

// No expression is contracted into a fused multiply-add anywhere (-ffp-contract=off, -fmad=false), so that devices agree to the last bit.

#endif
