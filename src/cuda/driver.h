// SPDX-License-Identifier: MIT
// The CUDA driver as far as gpuwb uses it: its types (no CUDA header is needed to build), its functions once they are loaded, its errors.
#ifndef GWB_CUDA_DRIVER_H
#define GWB_CUDA_DRIVER_H

#include "../device.h"

#include <stddef.h>
#include <stdint.h>

typedef unsigned int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;     // under unified addressing the same number as a pointer
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

// The driver's numbers that are used here.
enum {
    GWB_CUDA_NO_DEVICE = 100,
    GWB_CUDA_NOT_READY = 600,
    GWB_CUDA_FIRST_FAULT = 700, GWB_CUDA_LAST_FAULT = 719,      // what a kernel can do wrong: an illegal address ...

    GWB_CUDA_ATTRIBUTE_MAX_PITCH = 11,
    GWB_CUDA_ATTRIBUTE_UNITS = 16,          // multiprocessors
    GWB_CUDA_ATTRIBUTE_MAJOR = 75,
    GWB_CUDA_ATTRIBUTE_MINOR = 76,

    GWB_CUDA_POINTER_MEMORY_TYPE = 2,
    GWB_CUDA_POINTER_MANAGED = 8,
    GWB_CUDA_POINTER_ORDINAL = 9,
    GWB_CUDA_POINTER_RANGE_START = 11,
    GWB_CUDA_POINTER_RANGE_SIZE = 12,

    GWB_CUDA_MEMORY_HOST = 1,
    GWB_CUDA_MEMORY_DEVICE = 2,
    GWB_CUDA_MEMORY_UNIFIED = 4,

    GWB_CUDA_ATTRIBUTE_SHARED = 97,         // bytes a block can have when it asks for them

    GWB_CUDA_FUNCTION_THREADS = 0,          // most threads of a block
    GWB_CUDA_FUNCTION_SHARED = 1,           // bytes of static shared memory
    GWB_CUDA_FUNCTION_DYNAMIC_SHARED = 8,   // most bytes of dynamic shared memory

    GWB_CUDA_STREAM_NON_BLOCKING = 1,
    GWB_CUDA_EVENT_DISABLE_TIMING = 2,
    GWB_CUDA_EVENT_INTERPROCESS = 4,
    GWB_CUDA_HOST_PORTABLE = 1,
    GWB_CUDA_IPC_PEER_ACCESS = 1
};

// CUuuid; CUipcMemHandle and CUipcEventHandle, which are passed by value.
typedef struct gwb_cuda_uuid { unsigned char bytes[16]; } gwb_cuda_uuid;
typedef struct gwb_cuda_ipc { unsigned char bytes[64]; } gwb_cuda_ipc;

// CUDA_MEMCPY2D. All sizes in bytes or rows.
typedef struct gwb_cuda_copy2d {
    size_t src_x, src_y;
    int src_type;               // GWB_CUDA_MEMORY_
    const void *src_host;
    CUdeviceptr src;
    void *src_array;
    size_t src_step;
    size_t dst_x, dst_y;
    int dst_type;
    void *dst_host;
    CUdeviceptr dst;
    void *dst_array;
    size_t dst_step;
    size_t width, rows;
} gwb_cuda_copy2d;

// CUDA_MEMCPY3D_PEER
typedef struct gwb_cuda_copy3d_peer {
    size_t src_x, src_y, src_z, src_lod;
    int src_type;
    const void *src_host;
    CUdeviceptr src;
    void *src_array;
    CUcontext src_context;
    size_t src_step, src_height;
    size_t dst_x, dst_y, dst_z, dst_lod;
    int dst_type;
    void *dst_host;
    CUdeviceptr dst;
    void *dst_array;
    CUcontext dst_context;
    size_t dst_step, dst_height;
    size_t width, rows, depth;
} gwb_cuda_copy3d_peer;

// CUlaunchAttribute and CUlaunchConfig.
enum { GWB_CUDA_LAUNCH_PROGRAMMATIC = 6 };      // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
typedef struct gwb_cuda_launch_attribute {
    int id;
    int pad;
    union { int allowed; char bytes[64]; } value;
} gwb_cuda_launch_attribute;

typedef struct gwb_cuda_launch_config {
    unsigned int grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
    CUstream stream;
    gwb_cuda_launch_attribute *attributes;
    unsigned int attribute_count;
} gwb_cuda_launch_config;

// CUgraphExecUpdateResultInfo
typedef struct gwb_cuda_graph_update {
    int result;
    void *error_node, *error_from_node;
} gwb_cuda_graph_update;
enum { GWB_CUDA_CAPTURE_RELAXED = 2 };

#include "symbols.h"

// The driver's functions, as in gwb_cuda.MemAlloc(...). All are there once gwb_cuda_count has found a device, else none.
typedef struct gwb_cuda_driver {
#define GWB_CUDA_FIELD(name, symbol, params) CUresult (*name) params;
    GWB_CUDA_SYMBOLS(GWB_CUDA_FIELD)
    GWB_CUDA_NEWER_SYMBOLS(GWB_CUDA_FIELD)
#undef GWB_CUDA_FIELD
    int version;        // of CUDA that the driver serves: 13000 for 13.0
} gwb_cuda_driver;
extern gwb_cuda_driver gwb_cuda;

// 0 where `result` is success; else keeps a sentence that begins with the formatted text (what was tried) and says what the driver answered and
// what it means, and returns the gwb_status for it.
int gwb_cuda_check(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));

// kernel.c: adds to a text which launches a fault in the current context may come from, and what to do.
void gwb_cuda_blame(char *text, size_t size);

#endif
