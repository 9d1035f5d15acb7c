// SPDX-License-Identifier: MIT
// CUDA C++ on the host device: what NVRTC knows by itself, for the C++ or C compiler at hand. Stands before the text of a kernel (src/host/kernel.c).
//
// `__global__` functions get four parameters in front, threadIdx, blockIdx, blockDim and gridDim, which hide the variables of these names below: so a
// kernel's own positions are plain values that the compiler can see through, and functions that it calls find them too.
#ifndef GWB_HOST_CUDA_H
#define GWB_HOST_CUDA_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
#include <cmath>
#include <math.h>
#define restrict __restrict__
#else
#include <tgmath.h>
#undef I
#endif

#include "host_api.h"
#include "prelude.h"

// GWB_OVERLOAD(f, type) names the function f for a type: in C++ they are overloads, in C a macro f chooses among them by GWB_CHOOSE.
#ifdef __cplusplus
#define GWB_OVERLOAD(f, t) f
#else
#define GWB_OVERLOAD(f, t) gwb_##f##_##t
#define GWB_CHOOSE(f, value) _Generic((value), GWB_CHOICES(f), float: gwb_##f##_float, double: gwb_##f##_double)
#define GWB_CHOOSE_WHOLE(f, value) _Generic((value), GWB_CHOICES(f))
#define GWB_CHOICES(f) \
    int: gwb_##f##_int, unsigned: gwb_##f##_uint, long: gwb_##f##_long, unsigned long: gwb_##f##_ulong, long long: gwb_##f##_longlong, \
    unsigned long long: gwb_##f##_ulonglong, char: gwb_##f##_int, signed char: gwb_##f##_int, unsigned char: gwb_##f##_int, short: gwb_##f##_int, \
    unsigned short: gwb_##f##_int, _Bool: gwb_##f##_int
#endif
#define GWB_INLINE static inline __attribute__((unused))

// ---- words

#define __global__ static
#define __device__
#define __host__
#define __constant__
#define __shared__ static __thread
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __maxnreg__(n)
#define __grid_constant__
#define __builtin_assume(x) ((void)0)
#define __ldg(p) (*(p))
#define __ldca(p) (*(p))
#define __ldcg(p) (*(p))
#define __ldcs(p) (*(p))
#define __ldcv(p) (*(p))
#define __ldlu(p) (*(p))
#define __stcg(p, v) (*(p) = (v))
#define __stcs(p, v) (*(p) = (v))
#define __stwb(p, v) (*(p) = (v))
#define __stwt(p, v) (*(p) = (v))

// ---- vectors

// type, name, and the alignments of 2 and 4 of them
#define GWB_VECTORS(_) \
    _(signed char, char, 2, 4) _(unsigned char, uchar, 2, 4) _(short, short, 4, 8) _(unsigned short, ushort, 4, 8) _(int, int, 8, 16) \
    _(unsigned, uint, 8, 16) _(long, long, 16, 16) _(unsigned long, ulong, 16, 16) _(long long, longlong, 16, 16) \
    _(unsigned long long, ulonglong, 16, 16) _(float, float, 8, 16) _(double, double, 16, 16)
#define GWB_VECTOR(T, name, align2, align4) \
    typedef struct name##1 { T x; } name##1; \
    typedef struct __attribute__((aligned(align2))) name##2 { T x, y; } name##2; \
    typedef struct name##3 { T x, y, z; } name##3; \
    typedef struct __attribute__((aligned(align4))) name##4 { T x, y, z, w; } name##4; \
    GWB_INLINE name##1 make_##name##1(T x) { name##1 v = {x}; return v; } \
    GWB_INLINE name##2 make_##name##2(T x, T y) { name##2 v = {x, y}; return v; } \
    GWB_INLINE name##3 make_##name##3(T x, T y, T z) { name##3 v = {x, y, z}; return v; } \
    GWB_INLINE name##4 make_##name##4(T x, T y, T z, T w) { name##4 v = {x, y, z, w}; return v; }
GWB_VECTORS(GWB_VECTOR)

typedef struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { uint3 v = {x, y, z}; return v; }
#endif
} dim3;

// ---- position, and the threads of a block

static __thread uint3 threadIdx __attribute__((unused)), blockIdx __attribute__((unused));
static __thread dim3 blockDim __attribute__((unused)), gridDim __attribute__((unused));
// Aligned as no header of the C library's is, which leak checkers look for in front of a thread's variables.
static __thread gwb_host_block *gwb_block __attribute__((aligned(64)));
static __thread const gwb_host_calls *gwb_calls;
#ifdef __cplusplus
static const int warpSize __attribute__((unused)) = 32;
#else
enum { warpSize = 32 };
#endif

GWB_INLINE uint3 gwb_uint3(gwb_idx i) { return make_uint3(i.x, i.y, i.z); }
GWB_INLINE dim3 gwb_dim3(gwb_idx i)
{
    dim3 d = {i.x, i.y, i.z};
    return d;
}
// Other threads of the block have run: this one finds its own position again.
GWB_INLINE void gwb_resume(void) { threadIdx = gwb_uint3(gwb_block->thread); }

GWB_INLINE int __syncthreads_count(int predicate)
{
    const int count = gwb_calls->barrier(gwb_block, predicate != 0);
    gwb_resume();
    return count;
}
GWB_INLINE void __syncthreads(void) { __syncthreads_count(0); }
GWB_INLINE int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
GWB_INLINE int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }
GWB_INLINE void __trap(void) { gwb_calls->fail(gwb_block, "__trap() was called"); }

GWB_INLINE uint64_t gwb_warp(int operation, unsigned mask, uint64_t value, int lane, int width)
{
    const uint64_t result = gwb_calls->warp(gwb_block, operation, mask, value, lane, width);
    gwb_resume();
    return result;
}
#ifdef __cplusplus
GWB_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { gwb_warp(GWB_WARP_SYNC, mask, 0, 0, 32); }
#else
#define __syncwarp(...) gwb_warp(GWB_WARP_SYNC, (0xffffffffu, ##__VA_ARGS__), 0, 0, 32)
#endif
GWB_INLINE unsigned __ballot_sync(unsigned mask, int predicate) { return (unsigned)gwb_warp(GWB_WARP_BALLOT, mask, predicate != 0, 0, 32); }
GWB_INLINE int __any_sync(unsigned mask, int predicate) { return (int)gwb_warp(GWB_WARP_ANY, mask, predicate != 0, 0, 32); }
GWB_INLINE int __all_sync(unsigned mask, int predicate) { return (int)gwb_warp(GWB_WARP_ALL, mask, predicate != 0, 0, 32); }
GWB_INLINE unsigned __reduce_and_sync(unsigned mask, unsigned v) { return (unsigned)gwb_warp(GWB_WARP_AND, mask, v, 0, 32); }
GWB_INLINE unsigned __reduce_or_sync(unsigned mask, unsigned v) { return (unsigned)gwb_warp(GWB_WARP_OR, mask, v, 0, 32); }
GWB_INLINE unsigned __reduce_xor_sync(unsigned mask, unsigned v) { return (unsigned)gwb_warp(GWB_WARP_EXCLUSIVE_OR, mask, v, 0, 32); }

// Each number type, and its name in functions. Whole numbers alone, then all.
#define GWB_WHOLE(_) \
    _(int, int) _(unsigned, uint) _(long, long) _(unsigned long, ulong) _(long long, longlong) _(unsigned long long, ulonglong)
#define GWB_NUMERIC(_) GWB_WHOLE(_) _(float, float) _(double, double)

#ifdef __cplusplus
#define GWB_WIDTH int width = 32
#else
#define GWB_WIDTH int width
#endif
#define GWB_SHUFFLE(T, t, name, operation) \
    GWB_INLINE T GWB_OVERLOAD(name, t)(unsigned mask, T v, int lane, GWB_WIDTH) \
    { \
        uint64_t bits = 0; \
        memcpy(&bits, &v, sizeof v); \
        bits = gwb_warp(operation, mask, bits, lane, width); \
        memcpy(&v, &bits, sizeof v); \
        return v; \
    }
#define GWB_MATCH(T, t, name, signature, operation, after) \
    GWB_INLINE unsigned GWB_OVERLOAD(name, t) signature \
    { \
        uint64_t bits = 0; \
        memcpy(&bits, &v, sizeof v); \
        const unsigned lanes = (unsigned)gwb_warp(operation, mask, bits, 0, 32); \
        after; \
        return lanes; \
    }
#define GWB_WARP_FUNCTIONS(T, t) \
    GWB_SHUFFLE(T, t, __shfl_sync, GWB_WARP_INDEX) GWB_SHUFFLE(T, t, __shfl_up_sync, GWB_WARP_UP) \
    GWB_SHUFFLE(T, t, __shfl_down_sync, GWB_WARP_DOWN) GWB_SHUFFLE(T, t, __shfl_xor_sync, GWB_WARP_XOR) \
    GWB_MATCH(T, t, __match_any_sync, (unsigned mask, T v), GWB_WARP_MATCH_ANY, (void)0) \
    GWB_MATCH(T, t, __match_all_sync, (unsigned mask, T v, int *all), GWB_WARP_MATCH_ALL, *all = lanes != 0)
GWB_NUMERIC(GWB_WARP_FUNCTIONS)

#define GWB_REDUCE(T, t, name, operation) \
    GWB_INLINE T GWB_OVERLOAD(name, t)(unsigned mask, T v) { return (T)gwb_warp(operation, mask, (uint64_t)v, 0, 32); }
GWB_REDUCE(int, int, __reduce_add_sync, GWB_WARP_ADD)
GWB_REDUCE(unsigned, uint, __reduce_add_sync, GWB_WARP_ADD)
GWB_REDUCE(int, int, __reduce_min_sync, GWB_WARP_MIN)
GWB_REDUCE(unsigned, uint, __reduce_min_sync, GWB_WARP_UNSIGNED_MIN)
GWB_REDUCE(int, int, __reduce_max_sync, GWB_WARP_MAX)
GWB_REDUCE(unsigned, uint, __reduce_max_sync, GWB_WARP_UNSIGNED_MAX)

#ifndef __cplusplus
#define GWB_SHUFFLE_CALL(name, mask, v, lane, width, ...) GWB_CHOOSE(name, v)(mask, v, lane, width)
#define __shfl_sync(mask, v, ...) GWB_SHUFFLE_CALL(__shfl_sync, mask, v, __VA_ARGS__, 32, 0)
#define __shfl_up_sync(mask, v, ...) GWB_SHUFFLE_CALL(__shfl_up_sync, mask, v, __VA_ARGS__, 32, 0)
#define __shfl_down_sync(mask, v, ...) GWB_SHUFFLE_CALL(__shfl_down_sync, mask, v, __VA_ARGS__, 32, 0)
#define __shfl_xor_sync(mask, v, ...) GWB_SHUFFLE_CALL(__shfl_xor_sync, mask, v, __VA_ARGS__, 32, 0)
#define __match_any_sync(mask, v) GWB_CHOOSE(__match_any_sync, v)(mask, v)
#define __match_all_sync(mask, v, all) GWB_CHOOSE(__match_all_sync, v)(mask, v, all)
#define GWB_SIGNED_OR_NOT(f, v) _Generic((v), unsigned: gwb_##f##_uint, default: gwb_##f##_int)
#define __reduce_add_sync(mask, v) GWB_SIGNED_OR_NOT(__reduce_add_sync, v)(mask, v)
#define __reduce_min_sync(mask, v) GWB_SIGNED_OR_NOT(__reduce_min_sync, v)(mask, v)
#define __reduce_max_sync(mask, v) GWB_SIGNED_OR_NOT(__reduce_max_sync, v)(mask, v)
#endif

// ---- memory that all blocks see

#define __threadfence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __threadfence_block() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __threadfence_system() __atomic_thread_fence(__ATOMIC_SEQ_CST)

// Blocks run on several processors at once, so these are real atomics.
#define GWB_ATOMIC_LOOP(T, p, next) \
    T old, wanted; \
    __atomic_load(p, &old, __ATOMIC_RELAXED); \
    do \
        wanted = (next); \
    while (!__atomic_compare_exchange(p, &old, &wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); \
    return old;
#define GWB_ATOMICS_WHOLE(T, t) \
    GWB_INLINE T GWB_OVERLOAD(atomicAdd, t)(T *p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); } \
    GWB_INLINE T GWB_OVERLOAD(atomicSub, t)(T *p, T v) { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); } \
    GWB_INLINE T GWB_OVERLOAD(atomicAnd, t)(T *p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); } \
    GWB_INLINE T GWB_OVERLOAD(atomicOr, t)(T *p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); } \
    GWB_INLINE T GWB_OVERLOAD(atomicXor, t)(T *p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); } \
    GWB_INLINE T GWB_OVERLOAD(atomicExch, t)(T *p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); } \
    GWB_INLINE T GWB_OVERLOAD(atomicMin, t)(T *p, T v) { GWB_ATOMIC_LOOP(T, p, old < v ? old : v) } \
    GWB_INLINE T GWB_OVERLOAD(atomicMax, t)(T *p, T v) { GWB_ATOMIC_LOOP(T, p, old > v ? old : v) } \
    GWB_INLINE T GWB_OVERLOAD(atomicCAS, t)(T *p, T expected, T v) \
    { \
        __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
        return expected; \
    }
#define GWB_ATOMICS_REAL(T, t) \
    GWB_INLINE T GWB_OVERLOAD(atomicAdd, t)(T *p, T v) { GWB_ATOMIC_LOOP(T, p, old + v) } \
    GWB_INLINE T GWB_OVERLOAD(atomicExch, t)(T *p, T v) { GWB_ATOMIC_LOOP(T, p, v) }
GWB_WHOLE(GWB_ATOMICS_WHOLE)
GWB_ATOMICS_REAL(float, float)
GWB_ATOMICS_REAL(double, double)
GWB_INLINE unsigned atomicInc(unsigned *p, unsigned v) { GWB_ATOMIC_LOOP(unsigned, p, old >= v ? 0 : old + 1) }
GWB_INLINE unsigned atomicDec(unsigned *p, unsigned v) { GWB_ATOMIC_LOOP(unsigned, p, old == 0 || old > v ? v : old - 1) }

#ifndef __cplusplus
#define atomicAdd(p, v) GWB_CHOOSE(atomicAdd, *(p))((void *)(p), v)
#define atomicExch(p, v) GWB_CHOOSE(atomicExch, *(p))((void *)(p), v)
#define atomicSub(p, v) GWB_CHOOSE_WHOLE(atomicSub, *(p))((void *)(p), v)
#define atomicAnd(p, v) GWB_CHOOSE_WHOLE(atomicAnd, *(p))((void *)(p), v)
#define atomicOr(p, v) GWB_CHOOSE_WHOLE(atomicOr, *(p))((void *)(p), v)
#define atomicXor(p, v) GWB_CHOOSE_WHOLE(atomicXor, *(p))((void *)(p), v)
#define atomicMin(p, v) GWB_CHOOSE_WHOLE(atomicMin, *(p))((void *)(p), v)
#define atomicMax(p, v) GWB_CHOOSE_WHOLE(atomicMax, *(p))((void *)(p), v)
#define atomicCAS(p, expected, v) GWB_CHOOSE_WHOLE(atomicCAS, *(p))((void *)(p), expected, v)
#endif
#define atomicAdd_block atomicAdd
#define atomicAdd_system atomicAdd
#define atomicMin_block atomicMin
#define atomicMax_block atomicMax
#define atomicCAS_block atomicCAS

// ---- whole numbers

GWB_INLINE int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
GWB_INLINE int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
GWB_INLINE int __ffs(int v) { return __builtin_ffs(v); }
GWB_INLINE int __ffsll(long long v) { return __builtin_ffsll(v); }
GWB_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
GWB_INLINE int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
GWB_INLINE unsigned __brev(unsigned v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}
GWB_INLINE unsigned long long __brevll(unsigned long long v) { return (unsigned long long)__brev((unsigned)v) << 32 | __brev((unsigned)(v >> 32)); }
GWB_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned byte = (unsigned)(bytes >> 8 * (selector >> 4 * i & 7)) & 0xff;
        result |= (selector >> 4 * i & 8 ? (byte & 0x80 ? 0xffu : 0) : byte) << 8 * i;
    }
    return result;
}
GWB_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) { return (unsigned)(((uint64_t)high << 32 | low) << (n & 31) >> 32); }
GWB_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) { return (unsigned)(((uint64_t)high << 32 | low) >> (n & 31)); }
GWB_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned n) { return n >= 32 ? low : __funnelshift_l(low, high, n); }
GWB_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned n) { return n >= 32 ? high : __funnelshift_r(low, high, n); }
GWB_INLINE int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
GWB_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
GWB_INLINE int __mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
GWB_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
GWB_INLINE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
GWB_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
GWB_INLINE unsigned __sad(int a, int b, unsigned c) { return c + (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a); }
GWB_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
GWB_INLINE int __hadd(int a, int b) { return (int)(((int64_t)a + b) >> 1); }
GWB_INLINE int __rhadd(int a, int b) { return (int)(((int64_t)a + b + 1) >> 1); }
GWB_INLINE unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a + b) >> 1); }
GWB_INLINE unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a + b + 1) >> 1); }
#define GWB_DOT(T, t, byte) \
    GWB_INLINE T GWB_OVERLOAD(__dp4a, t)(T a, T b, T c) \
    { \
        for (int i = 0; i < 32; i += 8) \
            c += (T)(byte)((unsigned)a >> i) * (T)(byte)((unsigned)b >> i); \
        return c; \
    }
GWB_DOT(int, int, int8_t)
GWB_DOT(unsigned, uint, uint8_t)
#ifndef __cplusplus
#define __dp4a(a, b, c) GWB_SIGNED_OR_NOT(__dp4a, a)(a, b, c)
#endif

#define GWB_EXTREMES(T, t) \
    GWB_INLINE T GWB_OVERLOAD(gwb_min, t)(T a, T b) { return a < b ? a : b; } \
    GWB_INLINE T GWB_OVERLOAD(gwb_max, t)(T a, T b) { return a > b ? a : b; }
GWB_WHOLE(GWB_EXTREMES)
GWB_INLINE float GWB_OVERLOAD(gwb_min, float)(float a, float b) { return fminf(a, b); }
GWB_INLINE float GWB_OVERLOAD(gwb_max, float)(float a, float b) { return fmaxf(a, b); }
GWB_INLINE double GWB_OVERLOAD(gwb_min, double)(double a, double b) { return fmin(a, b); }
GWB_INLINE double GWB_OVERLOAD(gwb_max, double)(double a, double b) { return fmax(a, b); }
#ifdef __cplusplus
template <class A, class B> static inline auto min(A a, B b) -> decltype(a + b) { return gwb_min((decltype(a + b))a, (decltype(a + b))b); }
template <class A, class B> static inline auto max(A a, B b) -> decltype(a + b) { return gwb_max((decltype(a + b))a, (decltype(a + b))b); }
#else
#define min(a, b) GWB_CHOOSE(gwb_min, (a) + (b))(a, b)
#define max(a, b) GWB_CHOOSE(gwb_max, (a) + (b))(a, b)
#define abs(v) _Generic((v), float: fabsf, double: (fabs), long: labs, long long: llabs, default: (abs))(v)
#endif

// ---- real numbers. The fast approximations are the exact functions here.

GWB_INLINE float rsqrtf(float v) { return 1.0f / sqrtf(v); }
GWB_INLINE float rcbrtf(float v) { return 1.0f / cbrtf(v); }
GWB_INLINE double rcbrt(double v) { return 1.0 / cbrt(v); }
GWB_INLINE float sinpif(float v) { return (float)sin(3.14159265358979323846 * remainder((double)v, 2.0)); }
GWB_INLINE float cospif(float v) { return (float)cos(3.14159265358979323846 * remainder((double)v, 2.0)); }
GWB_INLINE float fdividef(float a, float b) { return a / b; }
GWB_INLINE float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }
#ifdef __cplusplus
static inline float rsqrt(float v) { return 1.0f / sqrtf(v); }
static inline double rsqrt(double v) { return 1.0 / sqrt(v); }
#else
#define rsqrt(v) (1 / sqrt(v))
#endif
// glibc has names of its own that begin like these, so they are macros.
#define __sinf(v) sinf(v)
#define __cosf(v) cosf(v)
#define __tanf(v) tanf(v)
#define __expf(v) expf(v)
#define __exp10f(v) exp10f(v)
#define __logf(v) logf(v)
#define __log2f(v) log2f(v)
#define __log10f(v) log10f(v)
#define __powf(a, b) powf(a, b)
#define __sincosf(v, s, c) sincosf(v, s, c)
#define __fdividef(a, b) ((float)(a) / (float)(b))
#define __fadd_rn(a, b) ((float)(a) + (float)(b))
#define __fsub_rn(a, b) ((float)(a) - (float)(b))
#define __fmul_rn(a, b) ((float)(a) * (float)(b))
#define __fdiv_rn(a, b) ((float)(a) / (float)(b))
#define __frcp_rn(v) (1.0f / (float)(v))
#define __fsqrt_rn(v) sqrtf(v)
#define __frsqrt_rn(v) rsqrtf(v)
#define __fmaf_rn(a, b, c) fmaf(a, b, c)
#define __dadd_rn(a, b) ((double)(a) + (double)(b))
#define __dsub_rn(a, b) ((double)(a) - (double)(b))
#define __dmul_rn(a, b) ((double)(a) * (double)(b))
#define __ddiv_rn(a, b) ((double)(a) / (double)(b))
#define __drcp_rn(v) (1.0 / (double)(v))
#define __dsqrt_rn(v) sqrt((double)(v))
#define __fma_rn(a, b, c) fma((double)(a), (double)(b), (double)(c))

// Real numbers to whole ones saturate, NaN is 0. rn: to nearest even, rz: towards zero, rd: down, ru: up.
#define GWB_TO_WHOLE(from, to, R, T, low, high) \
    GWB_INLINE T gwb_##from##2##to(R v) { return v != v ? 0 : v >= (R)(high) ? (high) : v <= (R)(low) ? (low) : (T)v; } \
    GWB_INLINE T __##from##2##to##_rn(R v) { return gwb_##from##2##to((R)rint((double)v)); } \
    GWB_INLINE T __##from##2##to##_rz(R v) { return gwb_##from##2##to(v); } \
    GWB_INLINE T __##from##2##to##_rd(R v) { return gwb_##from##2##to((R)floor((double)v)); } \
    GWB_INLINE T __##from##2##to##_ru(R v) { return gwb_##from##2##to((R)ceil((double)v)); }
#define GWB_TO_WHOLES(from, R) \
    GWB_TO_WHOLE(from, int, R, int, INT32_MIN, INT32_MAX) GWB_TO_WHOLE(from, uint, R, unsigned, 0, UINT32_MAX) \
    GWB_TO_WHOLE(from, ll, R, long long, INT64_MIN, INT64_MAX) GWB_TO_WHOLE(from, ull, R, unsigned long long, 0, UINT64_MAX)
GWB_TO_WHOLES(float, float)
GWB_TO_WHOLES(double, double)
#define __int2float_rn(v) ((float)(int)(v))
#define __uint2float_rn(v) ((float)(unsigned)(v))
#define __ll2float_rn(v) ((float)(long long)(v))
#define __ull2float_rn(v) ((float)(unsigned long long)(v))
#define __int2double_rn(v) ((double)(int)(v))
#define __uint2double_rn(v) ((double)(unsigned)(v))
#define __ll2double_rn(v) ((double)(long long)(v))
#define __double2float_rn(v) ((float)(double)(v))

#define GWB_BITS(name, from, to) \
    GWB_INLINE to name(from v) { to r; memcpy(&r, &v, sizeof r); return r; }
GWB_BITS(__float_as_int, float, int)
GWB_BITS(__float_as_uint, float, unsigned)
GWB_BITS(__int_as_float, int, float)
GWB_BITS(__uint_as_float, unsigned, float)
GWB_BITS(__double_as_longlong, double, long long)
GWB_BITS(__longlong_as_double, long long, double)
GWB_INLINE int __double2hiint(double v) { return (int)(__double_as_longlong(v) >> 32); }
GWB_INLINE int __double2loint(double v) { return (int)__double_as_longlong(v); }
GWB_INLINE double __hiloint2double(int high, int low) { return __longlong_as_double((long long)((uint64_t)(unsigned)high << 32 | (unsigned)low)); }

// ---- time

#define __nanosleep(ns) ((void)(ns))

// ---- how gpuwb calls a kernel

// Around the call of a kernel for each thread of the blocks first .. end - 1.
#define GWB_EACH_THREAD(run, first, end) \
    const dim3 gwb_d = gwb_dim3((run)->block), gwb_g = gwb_dim3((run)->grid); \
    blockDim = gwb_d, gridDim = gwb_g; \
    for (int64_t gwb_n = (first); gwb_n < (end); gwb_n++) { \
        const uint3 gwb_b = {(unsigned)(gwb_n % gwb_g.x), (unsigned)(gwb_n / gwb_g.x % gwb_g.y), (unsigned)(gwb_n / gwb_g.x / gwb_g.y)}; \
        blockIdx = gwb_b; \
        for (unsigned gwb_z = 0; gwb_z < gwb_d.z; gwb_z++) \
            for (unsigned gwb_y = 0; gwb_y < gwb_d.y; gwb_y++) \
                for (unsigned gwb_x = 0; gwb_x < gwb_d.x; gwb_x++) { \
                    const uint3 gwb_t = {gwb_x, gwb_y, gwb_z}; \
                    threadIdx = gwb_t;
#define GWB_EACH_END }}

// Before the call of a kernel for one fibre.
#define GWB_FIBRE(run, b, index) \
    const dim3 gwb_d = gwb_dim3((run)->block), gwb_g = gwb_dim3((run)->grid); \
    const uint3 gwb_t = gwb_uint3((b)->thread), gwb_b = gwb_uint3(index); \
    gwb_block = (b), gwb_calls = (run)->calls; \
    threadIdx = gwb_t, blockIdx = gwb_b, blockDim = gwb_d, gridDim = gwb_g;

#ifdef __cplusplus
#define GWB_ENTRY(name) \
    extern "C" __attribute__((visibility("default"), used)) const gwb_host_entry gwb_entry_##name; \
    const gwb_host_entry gwb_entry_##name
#else
#define GWB_ENTRY(name) __attribute__((visibility("default"), used)) const gwb_host_entry gwb_entry_##name
#endif

#endif
