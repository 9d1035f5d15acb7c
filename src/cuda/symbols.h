// SPDX-License-Identifier: MIT
// Every function that is taken from the driver and from NVRTC: name here, name there, parameters.
#ifndef GWB_CUDA_SYMBOLS_H
#define GWB_CUDA_SYMBOLS_H

// Of libcuda.so.1, all of them in CUDA 11.2 and later. The names with _v2 are those that cuda.h puts in place of the plain ones.
#define GWB_CUDA_SYMBOLS(_) \
    _(Init, "cuInit", (unsigned int flags)) \
    _(DriverGetVersion, "cuDriverGetVersion", (int *version)) \
    _(GetErrorName, "cuGetErrorName", (CUresult error, const char **text)) \
    _(GetErrorString, "cuGetErrorString", (CUresult error, const char **text)) \
    _(DeviceGetCount, "cuDeviceGetCount", (int *count)) \
    _(DeviceGet, "cuDeviceGet", (CUdevice *device, int ordinal)) \
    _(DeviceGetName, "cuDeviceGetName", (char *name, int size, CUdevice device)) \
    _(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device)) \
    _(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *bytes, CUdevice device)) \
    _(DeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int *can, CUdevice device, CUdevice peer)) \
    _(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *context, CUdevice device)) \
    _(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device)) \
    _(DevicePrimaryCtxReset, "cuDevicePrimaryCtxReset_v2", (CUdevice device)) \
    _(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext *context)) \
    _(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext context)) \
    _(CtxSynchronize, "cuCtxSynchronize", (void)) \
    _(CtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int *least, int *greatest)) \
    _(CtxEnablePeerAccess, "cuCtxEnablePeerAccess", (CUcontext peer, unsigned int flags)) \
    _(MemGetInfo, "cuMemGetInfo_v2", (size_t *free, size_t *total)) \
    _(MemAlloc, "cuMemAlloc_v2", (CUdeviceptr *memory, size_t bytes)) \
    _(MemFree, "cuMemFree_v2", (CUdeviceptr memory)) \
    _(MemHostAlloc, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned int flags)) \
    _(MemFreeHost, "cuMemFreeHost", (void *memory)) \
    _(PointerGetAttributes, "cuPointerGetAttributes", (unsigned int count, int *attributes, void **values, CUdeviceptr pointer)) \
    _(StreamCreateWithPriority, "cuStreamCreateWithPriority", (CUstream *stream, unsigned int flags, int priority)) \
    _(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream)) \
    _(StreamGetCtx, "cuStreamGetCtx", (CUstream stream, CUcontext *context)) \
    _(StreamQuery, "cuStreamQuery", (CUstream stream)) \
    _(StreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned int flags)) \
    _(DeviceGetUuid, "cuDeviceGetUuid", (gwb_cuda_uuid *uuid, CUdevice device)) \
    _(IpcGetMemHandle, "cuIpcGetMemHandle", (gwb_cuda_ipc *handle, CUdeviceptr memory)) \
    _(IpcOpenMemHandle, "cuIpcOpenMemHandle_v2", (CUdeviceptr *memory, gwb_cuda_ipc handle, unsigned int flags)) \
    _(IpcCloseMemHandle, "cuIpcCloseMemHandle", (CUdeviceptr memory)) \
    _(IpcGetEventHandle, "cuIpcGetEventHandle", (gwb_cuda_ipc *handle, CUevent event)) \
    _(IpcOpenEventHandle, "cuIpcOpenEventHandle", (CUevent *event, gwb_cuda_ipc handle)) \
    _(EventCreate, "cuEventCreate", (CUevent *event, unsigned int flags)) \
    _(EventDestroy, "cuEventDestroy_v2", (CUevent event)) \
    _(EventRecord, "cuEventRecord", (CUevent event, CUstream stream)) \
    _(EventQuery, "cuEventQuery", (CUevent event)) \
    _(EventSynchronize, "cuEventSynchronize", (CUevent event)) \
    _(EventElapsedTime, "cuEventElapsedTime", (float *ms, CUevent start, CUevent end)) \
    _(MemcpyAsync, "cuMemcpyAsync", (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)) \
    _(Memcpy2DAsync, "cuMemcpy2DAsync_v2", (const gwb_cuda_copy2d *copy, CUstream stream)) \
    _(Memcpy3DPeerAsync, "cuMemcpy3DPeerAsync", (const gwb_cuda_copy3d_peer *copy, CUstream stream)) \
    _(ModuleLoadData, "cuModuleLoadData", (CUmodule *module, const void *image)) \
    _(ModuleGetFunction, "cuModuleGetFunction", (CUfunction *function, CUmodule module, const char *name)) \
    _(ModuleGetGlobal, "cuModuleGetGlobal_v2", (CUdeviceptr *where, size_t *bytes, CUmodule module, const char *name)) \
    _(ModuleUnload, "cuModuleUnload", (CUmodule module)) \
    _(FuncGetAttribute, "cuFuncGetAttribute", (int *value, int attribute, CUfunction function)) \
    _(FuncSetAttribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value)) \
    _(LaunchKernel, "cuLaunchKernel", (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, \
      unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream, void **params, void **extra))

// Of libcuda.so.1 where the driver is new enough, else NULL.
#define GWB_CUDA_NEWER_SYMBOLS(_) \
    _(LaunchKernelEx, "cuLaunchKernelEx", (const gwb_cuda_launch_config *config, CUfunction function, void **params, void **extra)) \
    _(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream stream, int mode)) \
    _(StreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph *graph)) \
    _(GraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
    _(GraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream)) \
    _(GraphExecUpdate, "cuGraphExecUpdate_v2", (CUgraphExec exec, CUgraph graph, gwb_cuda_graph_update *result)) \
    _(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec)) \
    _(GraphDestroy, "cuGraphDestroy", (CUgraph graph))

// Of libnvrtc.so.
#define GWB_NVRTC_SYMBOLS(_) \
    _(GetErrorString, "nvrtcGetErrorString", const char *, (int result)) \
    _(Version, "nvrtcVersion", int, (int *major, int *minor)) \
    _(GetNumSupportedArchs, "nvrtcGetNumSupportedArchs", int, (int *count)) \
    _(GetSupportedArchs, "nvrtcGetSupportedArchs", int, (int *archs)) \
    _(CreateProgram, "nvrtcCreateProgram", int, (nvrtcProgram *program, const char *source, const char *name, int headers, \
      const char *const *texts, const char *const *names)) \
    _(DestroyProgram, "nvrtcDestroyProgram", int, (nvrtcProgram *program)) \
    _(CompileProgram, "nvrtcCompileProgram", int, (nvrtcProgram program, int count, const char *const *options)) \
    _(GetProgramLogSize, "nvrtcGetProgramLogSize", int, (nvrtcProgram program, size_t *size)) \
    _(GetProgramLog, "nvrtcGetProgramLog", int, (nvrtcProgram program, char *text)) \
    _(GetCUBINSize, "nvrtcGetCUBINSize", int, (nvrtcProgram program, size_t *size)) \
    _(GetCUBIN, "nvrtcGetCUBIN", int, (nvrtcProgram program, char *data)) \
    _(GetPTXSize, "nvrtcGetPTXSize", int, (nvrtcProgram program, size_t *size)) \
    _(GetPTX, "nvrtcGetPTX", int, (nvrtcProgram program, char *data))

#endif
