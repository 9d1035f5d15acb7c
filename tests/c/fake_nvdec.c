// SPDX-License-Identifier: MIT
// NVDEC for the fake driver: what libavcodec asks of libnvcuvid.so.1 and, beyond gpuwb, of libcuda.so.1. Nothing is decoded: the n-th picture that is handed
// over, from 0, has (n + x + 3 * y) % 256 in its luma bytes and (n + x + 5 * y + 128) % 256 in those of chroma. A picture is shown by a copy on the caller's
// stream; more of them at once than were asked for, or one that is still shown when the decoder goes, end the process. FAKE_NVDEC=off: no codec is
// supported.
#include "cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default"))) CUresult
CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr memory);
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);

// Layouts by NVIDIA's documentation; what is not looked at is left out at the end.
typedef struct caps {
    int codec, chroma;
    unsigned depth_minus_8, reserved[3];
    unsigned char supported, decoders;
    unsigned short outputs;
    unsigned most_width, most_height, most_blocks;
    unsigned short least_width, least_height;
} caps;
typedef struct create {
    unsigned long width, height, surfaces;
    int codec, chroma;
    unsigned long flags, depth_minus_8, intra_only, most_width, most_height, reserved;
    short area[4];
    int format, deinterlace;
    unsigned long target_width, target_height, outputs;
} create;
typedef struct picture { int width_blocks, height_blocks, index; } picture;
typedef struct process {
    int progressive, second_field, top_first, unpaired;
    unsigned flags, zero;
    unsigned long long raw_input;
    unsigned raw_pitch, raw_format;
    unsigned long long raw_output;
    unsigned output_pitch, reserved;
    CUstream stream;
} process;

enum { SURFACES = 64, PITCH = 512, INVALID = 1 };
typedef struct decoder {
    create c;
    size_t bytes;
    int count;                  // pictures so far
    int shown;
    CUdeviceptr surface[SURFACES];
} decoder;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t pitch_of(const create *c)
{
    return (c->target_width * (c->depth_minus_8 ? 2 : 1) + PITCH - 1) / PITCH * PITCH;
}

API cuvidGetDecoderCaps(caps *c)
{
    const char *off = getenv("FAKE_NVDEC");
    c->supported = !(off && strcmp(off, "off") == 0);
    c->most_width = c->most_height = 8192;
    c->most_blocks = 1 << 20;
    c->least_width = c->least_height = 16;
    return 0;
}

API cuvidCreateDecoder(decoder **out, const create *c)
{
    decoder *d = calloc(1, sizeof *d);
    CUcontext context = NULL;
    cuCtxGetCurrent(&context);
    if (!d || !context || c->surfaces > 32 || c->outputs > SURFACES) {
        fprintf(stderr, "fake NVDEC: a decoder of %lu surfaces\n", c->surfaces);
        free(d);
        return INVALID;
    }
    d->c = *c;
    d->bytes = pitch_of(c) * c->target_height * 3 / 2;
    for (unsigned long i = 0; i < c->surfaces; i++)
        if (cuMemAlloc_v2(&d->surface[i], d->bytes) != 0)
            abort();
    *out = d;
    return 0;
}

API cuvidDecodePicture(decoder *d, const picture *p)
{
    uint8_t *to = (uint8_t *)(uintptr_t)d->surface[p->index];
    const size_t pitch = pitch_of(&d->c), rows = d->bytes / pitch;
    for (size_t y = 0; y < rows; y++) {
        const size_t luma = d->c.target_height;
        for (size_t x = 0; x < pitch; x++)
            to[y * pitch + x] = (uint8_t)((size_t)d->count + x + (y < luma ? 3 * y : 5 * (y - luma) + 128));
    }
    d->count++;
    return 0;
}

API cuvidMapVideoFrame64(decoder *d, int index, CUdeviceptr *memory, unsigned *pitch, const process *p)
{
    pthread_mutex_lock(&lock);
    if (++d->shown > (int)d->c.outputs) {
        fprintf(stderr, "fake NVDEC: more than %lu pictures are shown\n", d->c.outputs);
        abort();
    }
    pthread_mutex_unlock(&lock);
    *pitch = (unsigned)pitch_of(&d->c);
    const CUresult result = cuMemAlloc_v2(memory, d->bytes);
    memset((void *)(uintptr_t)*memory, 0xee, d->bytes);
    return result ? result : cuMemcpyAsync(*memory, d->surface[index], d->bytes, p->stream);
}

API cuvidUnmapVideoFrame64(decoder *d, CUdeviceptr memory)
{
    pthread_mutex_lock(&lock);
    d->shown--;
    pthread_mutex_unlock(&lock);
    memset((void *)(uintptr_t)memory, 0xdd, d->bytes);
    return cuMemFree_v2(memory);
}

API cuvidDestroyDecoder(decoder *d)
{
    if (d->shown > 0) {
        fprintf(stderr, "fake NVDEC: %d pictures are shown still\n", d->shown);
        abort();
    }
    for (unsigned long i = 0; i < d->c.surfaces; i++)
        cuMemFree_v2(d->surface[i]);
    free(d);
    return 0;
}

// ---- of the driver

static __thread CUcontext outer[16];
static __thread int depth;

API cuCtxPushCurrent_v2(CUcontext context)
{
    if (depth == 16)
        abort();
    cuCtxGetCurrent(&outer[depth++]);
    return cuCtxSetCurrent(context);
}

API cuCtxPopCurrent_v2(CUcontext *context)
{
    if (depth == 0)
        abort();
    cuCtxGetCurrent(context);
    return cuCtxSetCurrent(outer[--depth]);
}

// Looked up and not called.
#define REST(name) CUresult name(void) __attribute__((weak, visibility("default"))); CUresult name(void) { return 801; }
REST(cuDeviceComputeCapability) REST(cuCtxCreate_v2) REST(cuCtxSetLimit) REST(cuCtxDestroy_v2) REST(cuCtxGetDevice)
REST(cuMemAllocPitch_v2) REST(cuMemsetD8Async) REST(cuMemcpy) REST(cuMemcpy2D_v2) REST(cuMemcpyHtoD_v2) REST(cuMemcpyHtoDAsync_v2)
REST(cuMemcpyDtoH_v2) REST(cuMemcpyDtoHAsync_v2) REST(cuMemcpyDtoD_v2) REST(cuMemcpyDtoDAsync_v2)
REST(cuDevicePrimaryCtxRelease) REST(cuDevicePrimaryCtxSetFlags) REST(cuDevicePrimaryCtxGetState) REST(cuDevicePrimaryCtxReset)
REST(cuStreamCreate) REST(cuStreamSynchronize) REST(cuStreamAddCallback) REST(cuLinkCreate) REST(cuLinkAddData) REST(cuLinkComplete) REST(cuLinkDestroy)
REST(cuModuleGetGlobal) REST(cuTexObjectCreate) REST(cuTexObjectDestroy) REST(cuGLGetDevices_v2) REST(cuGraphicsGLRegisterImage)
REST(cuGraphicsUnregisterResource) REST(cuGraphicsMapResources) REST(cuGraphicsUnmapResources) REST(cuGraphicsSubResourceGetMappedArray)
REST(cuGraphicsResourceGetMappedPointer_v2) REST(cuArray3DCreate_v2) REST(cuArrayDestroy)
REST(cuvidGetDecodeStatus) REST(cuvidReconfigureDecoder) REST(cuvidCtxLockCreate) REST(cuvidCtxLockDestroy) REST(cuvidCtxLock) REST(cuvidCtxUnlock)
REST(cuvidCreateVideoSource) REST(cuvidCreateVideoSourceW) REST(cuvidDestroyVideoSource) REST(cuvidSetVideoSourceState)
REST(cuvidGetVideoSourceState) REST(cuvidGetSourceVideoFormat) REST(cuvidGetSourceAudioFormat) REST(cuvidCreateVideoParser)
REST(cuvidParseVideoData) REST(cuvidDestroyVideoParser)
