// SPDX-License-Identifier: MIT
// Stands in for NPP, cuBLAS, cuFFT, cuRAND, nvJPEG and NVML beside fake_driver.c: each function checks what it is given, and does its simplest work in
// the stream, on the device that is current. Where the toolkit's own headers are there, the compiler holds these functions against them.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_TYPES(header) !defined(USE_HEADERS) || !__has_include(header)

#if OWN_TYPES(<nppi.h>)
typedef int NppStatus;
typedef struct { int width, height; } NppiSize;
typedef struct { int x, y; } NppiPoint;
typedef struct { int x, y, width, height; } NppiRect;
typedef int NppiMaskSize, NppiBorderType;
typedef struct {
    void *hStream;
    int nCudaDeviceId, nMultiProcessorCount, nMaxThreadsPerMultiProcessor, nMaxThreadsPerBlock;
    size_t nSharedMemPerBlock;
    int nCudaDevAttrComputeCapabilityMajor, nCudaDevAttrComputeCapabilityMinor;
    unsigned nStreamFlags, nReserved0;
} NppStreamContext;
typedef struct { int major, minor, build; } NppLibraryVersion;
typedef uint8_t Npp8u;
typedef float Npp32f;
typedef int Npp32s;
#else
#include <npp.h>
#endif
#if OWN_TYPES(<nvjpeg.h>)
typedef int nvjpegStatus_t, nvjpegOutputFormat_t, nvjpegInputFormat_t, nvjpegChromaSubsampling_t;
typedef void *nvjpegHandle_t, *nvjpegJpegState_t, *nvjpegEncoderState_t, *nvjpegEncoderParams_t;
typedef struct { unsigned char *channel[4]; size_t pitch[4]; } nvjpegImage_t;
#define NVJPEGAPI
#else
#include <nvjpeg.h>
#endif
#if OWN_TYPES(<cublas_v2.h>)
typedef int cublasStatus_t, cublasOperation_t, cudaDataType, cublasComputeType_t, cublasGemmAlgo_t;
typedef void *cublasHandle_t;
#else
#include <cublas_v2.h>
#endif
#if OWN_TYPES(<cufft.h>)
typedef int cufftResult, cufftHandle, cufftType;
typedef float cufftReal;
typedef struct { float x, y; } cufftComplex;
#else
#include <cufft.h>
#endif
#if OWN_TYPES(<curand.h>)
typedef int curandStatus_t, curandRngType_t;
typedef void *curandGenerator_t;
#else
#include <curand.h>
#endif
#if OWN_TYPES(<nvml.h>)
typedef int nvmlReturn_t, nvmlTemperatureSensors_t, nvmlClockType_t;
typedef void *nvmlDevice_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
#else
#include <nvml.h>
#endif

#define API __attribute__((visibility("default")))
typedef struct CUstream_st *stream_handle;
extern unsigned cuLaunchHostFunc(stream_handle stream, void (*fn)(void *), void *arg);  // libcuda.so.1: the fake driver, which panics in another device's context
#define SIZE_ERROR (-6)

// ---- work in a stream. A struct with what it needs is copied.

static int later(void *stream, void (*work)(void *), const void *what, size_t size)
{
    void *copy = malloc(size);
    memcpy(copy, what, size);
    return cuLaunchHostFunc((stream_handle)stream, work, copy) == 0 ? 0 : -1;
}

// ---- NPP

typedef struct {
    const uint8_t *a, *b;
    uint8_t *dst[3];
    int a_step, b_step, dst_step[3], width, height, src_width, src_height, kind;
    float constant[3];
} pixels;

static int context_is_wrong(const NppStreamContext *c)
{
    return !c->hStream || c->nCudaDeviceId < 0 || c->nCudaDeviceId > 1 || c->nMultiProcessorCount < 1 || c->nMaxThreadsPerMultiProcessor < 1 ||
        c->nMaxThreadsPerBlock < 1 || c->nSharedMemPerBlock < 1 || c->nCudaDevAttrComputeCapabilityMajor != 9 || c->nStreamFlags != 1 || c->nReserved0;
}

enum { NV12, RESIZE, COPY, ADD, SUB, MULC, SPLIT, FLOAT };

static void run_pixels(void *what)
{
    pixels *p = what;
    for (int y = 0; y < p->height; y++) {
        for (int x = 0; x < p->width; x++) {
            uint8_t *d = p->dst[0] + (int64_t)y * p->dst_step[0];
            const uint8_t *a = p->a + (int64_t)y * p->a_step, *b = p->b ? p->b + (int64_t)y * p->b_step : NULL;
            for (int c = 0; c < 3; c++) {
                int i = 3 * x + c;
                if (p->kind == NV12) d[i] = c ? (p->b + (int64_t)(y / 2) * p->a_step)[x / 2 * 2 + c - 1] : a[x];
                else if (p->kind == RESIZE) d[i] = (p->a + (int64_t)(y * p->src_height / p->height) * p->a_step)[x * p->src_width / p->width * 3 + c];
                else if (p->kind == COPY) d[i] = a[i];
                else if (p->kind == ADD) d[i] = (uint8_t)((a[i] + b[i] + 1) / 2);
                else if (p->kind == SUB) d[i] = b[i] > a[i] ? (uint8_t)(b[i] - a[i]) : 0;
                else if (p->kind == MULC) ((float *)d)[i] = ((const float *)a)[i] * p->constant[c];
                else if (p->kind == SPLIT) ((float *)(p->dst[c] + (int64_t)y * p->dst_step[0]))[x] = ((const float *)a)[i];
                else ((float *)d)[i] = a[i];
            }
        }
    }
    free(p);
}

static NppStatus start(pixels p, const NppStreamContext *c)
{
    if (context_is_wrong(c)) return -13;
    if (p.width > 2000) return SIZE_ERROR;
    return later(c->hStream, run_pixels, &p, sizeof p);
}

API const NppLibraryVersion *nppGetLibVersion(void)
{
    static const NppLibraryVersion version = {13, 7, 5};
    return &version;
}
API NppStatus nppiNV12ToRGB_709CSC_8u_P2C3R_Ctx(const Npp8u *const src[2], int step, Npp8u *dst, int dst_step, NppiSize size, NppStreamContext context)
{
    return start((pixels){.kind = NV12, .a = src[0], .b = src[1], .a_step = step, .dst = {dst}, .dst_step = {dst_step}, .width = size.width,
                          .height = size.height}, &context);
}
API NppStatus nppiResize_8u_C3R_Ctx(const Npp8u *src, int step, NppiSize src_size, NppiRect roi, Npp8u *dst, int dst_step, NppiSize size, NppiRect dst_roi,
                                    int filter, NppStreamContext context)
{
    if (roi.x || roi.y || roi.width != src_size.width || dst_roi.height != size.height || filter != 2) return -5;
    return start((pixels){.kind = RESIZE, .a = src, .a_step = step, .src_width = src_size.width, .src_height = src_size.height, .dst = {dst},
                          .dst_step = {dst_step}, .width = size.width, .height = size.height}, &context);
}
API NppStatus nppiFilterGaussBorder_8u_C3R_Ctx(const Npp8u *src, Npp32s step, NppiSize whole, NppiPoint offset, Npp8u *dst, Npp32s dst_step, NppiSize size,
                                               NppiMaskSize mask, NppiBorderType border, NppStreamContext context)
{
    if (whole.width != size.width || offset.x || offset.y || (int)mask != 201 || (int)border != 2) return -5;
    return start((pixels){.kind = COPY, .a = src, .a_step = step, .dst = {dst}, .dst_step = {dst_step}, .width = size.width, .height = size.height}, &context);
}
API NppStatus nppiFilterBoxBorder_8u_C3R_Ctx(const Npp8u *src, Npp32s step, NppiSize whole, NppiPoint offset, Npp8u *dst, Npp32s dst_step, NppiSize size,
                                             NppiSize mask, NppiPoint anchor, NppiBorderType border, NppStreamContext context)
{
    if (whole.width != size.width || offset.x || mask.width != 5 || mask.height != 3 || anchor.x != 2 || anchor.y != 1 || (int)border != 2) return -5;
    return start((pixels){.kind = COPY, .a = src, .a_step = step, .dst = {dst}, .dst_step = {dst_step}, .width = size.width, .height = size.height}, &context);
}
API NppStatus nppiAdd_8u_C3RSfs_Ctx(const Npp8u *a, int a_step, const Npp8u *b, int b_step, Npp8u *dst, int dst_step, NppiSize size, int shift,
                                    NppStreamContext context)
{
    if (shift != 1) return -12;
    return start((pixels){.kind = ADD, .a = a, .b = b, .a_step = a_step, .b_step = b_step, .dst = {dst}, .dst_step = {dst_step}, .width = size.width,
                          .height = size.height}, &context);
}
API NppStatus nppiSub_8u_C3RSfs_Ctx(const Npp8u *a, int a_step, const Npp8u *b, int b_step, Npp8u *dst, int dst_step, NppiSize size, int shift,
                                    NppStreamContext context)
{
    if (shift) return -12;
    return start((pixels){.kind = SUB, .a = a, .b = b, .a_step = a_step, .b_step = b_step, .dst = {dst}, .dst_step = {dst_step}, .width = size.width,
                          .height = size.height}, &context);
}
API NppStatus nppiMulC_32f_C3R_Ctx(const Npp32f *a, int step, const Npp32f constant[3], Npp32f *dst, int dst_step, NppiSize size, NppStreamContext context)
{
    return start((pixels){.kind = MULC, .a = (const uint8_t *)a, .a_step = step, .dst = {(uint8_t *)dst}, .dst_step = {dst_step}, .width = size.width,
                          .height = size.height, .constant = {constant[0], constant[1], constant[2]}}, &context);
}
API NppStatus nppiConvert_8u32f_C3R_Ctx(const Npp8u *src, int step, Npp32f *dst, int dst_step, NppiSize size, NppStreamContext context)
{
    return start((pixels){.kind = FLOAT, .a = src, .a_step = step, .dst = {(uint8_t *)dst}, .dst_step = {dst_step}, .width = size.width,
                          .height = size.height}, &context);
}
API NppStatus nppiCopy_32f_C3P3R_Ctx(const Npp32f *src, int step, Npp32f *const dst[3], int dst_step, NppiSize size, NppStreamContext context)
{
    return start((pixels){.kind = SPLIT, .a = (const uint8_t *)src, .a_step = step, .dst = {(uint8_t *)dst[0], (uint8_t *)dst[1], (uint8_t *)dst[2]},
                          .dst_step = {dst_step}, .width = size.width, .height = size.height}, &context);
}

// ---- objects with a stream

typedef struct object { int tag, alive; void *stream; unsigned long long next; } object;
static object objects[64];
static int made, destroyed;

static object *make(int tag)
{
    object *o = &objects[made++];
    *o = (object){tag, 1, NULL, 0};
    return o;
}
static int destroy(void *what)
{
    object *o = what;
    if (!o->alive) abort();
    o->alive = 0;
    destroyed++;
    return 0;
}
API int fake_objects(void)      // that were made and not destroyed
{
    return made - destroyed;
}

// ---- cuBLAS

typedef struct { int ta, tb, m, n, k, lda, ldb, ldc; float alpha, beta; const float *a, *b; float *c; } product;

static void run_product(void *what)
{
    product *p = what;
    for (int j = 0; j < p->n; j++) {
        for (int i = 0; i < p->m; i++) {
            double sum = 0;
            for (int l = 0; l < p->k; l++) {
                sum += (double)p->a[p->ta ? l + (int64_t)i * p->lda : i + (int64_t)l * p->lda] *
                    (double)p->b[p->tb ? j + (int64_t)l * p->ldb : l + (int64_t)j * p->ldb];
            }
            float *c = &p->c[i + (int64_t)j * p->ldc];
            *c = p->alpha * (float)sum + (p->beta != 0 ? p->beta * *c : 0);
        }
    }
    free(p);
}

API cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) { return *handle = (void *)make(1), (cublasStatus_t)0; }
API cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) { return (cublasStatus_t)destroy(handle); }
API cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) { return (void)handle, *version = 130700, (cublasStatus_t)0; }
#if OWN_TYPES(<cublas_v2.h>)
API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, void *stream)
#else
API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
#endif
{
    return ((object *)handle)->stream = stream, (cublasStatus_t)0;
}
API cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *alpha, const void *a,
                                cudaDataType a_type, int lda, const void *b, cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type,
                                int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    if ((int)a_type != 0 || (int)b_type != 0 || (int)c_type != 0 || (int)compute != 68 || (int)algorithm != -1) return (cublasStatus_t)15;
    if (lda < ((int)ta ? k : m) || ldb < ((int)tb ? n : k) || ldc < m) return (cublasStatus_t)7;
    product p = {(int)ta, (int)tb, m, n, k, lda, ldb, ldc, *(const float *)alpha, *(const float *)beta, a, b, c};
    return (cublasStatus_t)later(((object *)handle)->stream, run_product, &p, sizeof p);
}

// ---- cuFFT: by its definition

typedef struct { int rank, n[2], in_row, in_distance, out_row, out_distance, batch, kind; void *stream; } plan;
static plan plans[64];
static int plan_count;
typedef struct { plan p; float *in, *out; int direction; } transform;

static void run_transform(void *what)
{
    transform *t = what;
    const plan *p = &t->p;
    const int h = p->rank == 2 ? p->n[0] : 1, w = p->n[p->rank - 1], half = w / 2 + 1;
    double *values = malloc(sizeof *values * 2 * (size_t)(w * h));
    for (int i = 0; i < p->batch; i++) {
        for (int y = 0; y < h; y++) {
            for (int x = 0; x < w; x++) {
                int64_t at = (int64_t)i * p->in_distance + (int64_t)y * p->in_row;
                double *v = &values[2 * (y * w + x)];
                if (p->kind == 0x2a) {
                    v[0] = t->in[at + x];
                    v[1] = 0;
                } else if (p->kind == 0x29 || x < half) {
                    v[0] = t->in[2 * (at + x)];
                    v[1] = t->in[2 * (at + x) + 1];
                } else {
                    at = (int64_t)i * p->in_distance + (int64_t)((h - y) % h) * p->in_row;
                    v[0] = t->in[2 * (at + w - x)];
                    v[1] = -t->in[2 * (at + w - x) + 1];
                }
            }
        }
        for (int v = 0; v < h; v++) {
            for (int u = 0; u < (p->kind == 0x2a ? half : w); u++) {
                double re = 0, im = 0;
                for (int y = 0; y < h; y++) {
                    for (int x = 0; x < w; x++) {
                        const double angle = t->direction * 2 * 3.14159265358979323846 * ((double)u * x / w + (double)v * y / h);
                        const double *s = &values[2 * (y * w + x)];
                        re += s[0] * cos(angle) - s[1] * sin(angle);
                        im += s[0] * sin(angle) + s[1] * cos(angle);
                    }
                }
                int64_t at = (int64_t)i * p->out_distance + (int64_t)v * p->out_row + u;
                if (p->kind == 0x2c) t->out[at] = (float)re;
                else t->out[2 * at] = (float)re, t->out[2 * at + 1] = (float)im;
            }
        }
    }
    if (p->kind == 0x2c) t->in[0] = NAN;     // what cuFFT reads there it does not keep
    free(values);
    free(t);
}

API cufftResult cufftGetVersion(int *version) { return *version = 12700, (cufftResult)0; }
API cufftResult cufftPlanMany(cufftHandle *handle, int rank, int *n, int *in_embed, int in_stride, int in_distance, int *out_embed, int out_stride,
                              int out_distance, cufftType type, int batch)
{
    if (in_stride != 1 || out_stride != 1) return (cufftResult)4;
    plans[plan_count] = (plan){rank, {n[0], rank == 2 ? n[1] : 0}, in_embed[rank - 1], in_distance, out_embed[rank - 1], out_distance, batch, (int)type, NULL};
    *handle = plan_count++;
    make(2);
    return (cufftResult)0;
}
API cufftResult cufftDestroy(cufftHandle handle) { return (void)handle, destroyed++, (cufftResult)0; }
#if OWN_TYPES(<cufft.h>)
API cufftResult cufftSetStream(cufftHandle handle, void *stream)
#else
API cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream)
#endif
{
    return plans[handle].stream = stream, (cufftResult)0;
}
static cufftResult execute(cufftHandle handle, int kind, void *in, void *out, int direction)
{
    if (plans[handle].kind != kind) return (cufftResult)3;
    transform t = {plans[handle], in, out, direction};
    return (cufftResult)later(plans[handle].stream, run_transform, &t, sizeof t);
}
API cufftResult cufftExecR2C(cufftHandle handle, cufftReal *in, cufftComplex *out) { return execute(handle, 0x2a, in, out, -1); }
API cufftResult cufftExecC2R(cufftHandle handle, cufftComplex *in, cufftReal *out) { return execute(handle, 0x2c, in, out, 1); }
API cufftResult cufftExecC2C(cufftHandle handle, cufftComplex *in, cufftComplex *out, int direction) { return execute(handle, 0x29, in, out, direction); }

// ---- cuRAND: counts

typedef struct { unsigned long long from; size_t n; float *real; unsigned *bits; float scale, offset; } numbers;

static void run_numbers(void *what)
{
    numbers *p = what;
    for (size_t i = 0; i < p->n; i++) {
        if (p->bits) p->bits[i] = (unsigned)(p->from + i);
        else p->real[i] = (float)(p->from + i) * p->scale + p->offset;
    }
    free(p);
}
static curandStatus_t count_on(curandGenerator_t generator, numbers p)
{
    object *o = (object *)generator;
    p.from = o->next;
    o->next += p.n;
    return (curandStatus_t)later(o->stream, run_numbers, &p, sizeof p);
}
API curandStatus_t curandCreateGenerator(curandGenerator_t *generator, curandRngType_t type)
{
    return *generator = (void *)make(3), (curandStatus_t)((int)type == 161 ? 103 : 0);
}
API curandStatus_t curandDestroyGenerator(curandGenerator_t generator) { return (curandStatus_t)destroy(generator); }
#if OWN_TYPES(<curand.h>)
API curandStatus_t curandSetStream(curandGenerator_t generator, void *stream)
#else
API curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream)
#endif
{
    return ((object *)generator)->stream = stream, (curandStatus_t)0;
}
API curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed)
{
    return ((object *)generator)->next = seed, (curandStatus_t)0;
}
API curandStatus_t curandGenerate(curandGenerator_t generator, unsigned *out, size_t n) { return count_on(generator, (numbers){.n = n, .bits = out}); }
API curandStatus_t curandGenerateUniform(curandGenerator_t generator, float *out, size_t n)
{
    return count_on(generator, (numbers){.n = n, .real = out, .scale = 0.5f});
}
API curandStatus_t curandGenerateNormal(curandGenerator_t generator, float *out, size_t n, float mean, float deviation)
{
    return n % 2 ? (curandStatus_t)105 : count_on(generator, (numbers){.n = n, .real = out, .scale = deviation, .offset = mean});
}

// ---- nvJPEG: a "JPEG" is the letters JPEG, components, subsampling, width, height and a value. Of a real one the markers are read: a comment's first
// byte is the value that its pixels get, and a second one the status of its decoding.

typedef struct { int components, subsampling, widths[4], heights[4], value, status; } parsed;

static int parse(const unsigned char *d, size_t length, parsed *p)
{
    *p = (parsed){.value = 0};
    if (length >= 9 && memcmp(d, "JPEG", 4) == 0) {
        *p = (parsed){d[4], d[5], {d[6]}, {d[7]}, d[8], 0};
        return 0;
    }
    if (length < 4 || d[0] != 0xff || d[1] != 0xd8) return 3;
    for (size_t at = 2; at + 4 <= length && d[at] == 0xff; at += 2 + (size_t)(d[at + 2] << 8 | d[at + 3])) {
        const unsigned char *s = d + at + 4;
        if (d[at + 1] == 0xfe) {
            p->value = s[0];
            p->status = d[at + 3] > 3 ? s[1] : 0;
        } else if (d[at + 1] == 0xc0 || d[at + 1] == 0xc2) {
            p->components = s[5];
            int h = s[5] > 1 ? s[7] >> 4 : 1, v = s[5] > 1 ? s[7] & 15 : 1;
            for (int i = 0; i < p->components && i < 4; i++) {
                int dx = i ? h : 1, dy = i ? v : 1;
                p->widths[i] = ((s[3] << 8 | s[4]) + dx - 1) / dx;
                p->heights[i] = ((s[1] << 8 | s[2]) + dy - 1) / dy;
            }
        }
    }
    return p->components ? 0 : 3;
}

typedef struct { nvjpegImage_t image; int width[4], height[4], value, channels, planes; } fill;

static void run_fill(void *what)
{
    fill *f = what;
    for (int i = 0; i < f->planes; i++) {
        for (int y = 0; y < f->height[i]; y++) {
            uint8_t *row = f->image.channel[i] + (size_t)y * f->image.pitch[i];
            for (int x = 0; x < f->width[i] * f->channels; x++) row[x] = (uint8_t)(f->value + i + x % f->channels);
        }
    }
    free(f);
}
#if OWN_TYPES(<nvjpeg.h>)
#define STREAM void *
#else
#define STREAM cudaStream_t
#endif

API nvjpegStatus_t NVJPEGAPI nvjpegCreateSimple(nvjpegHandle_t *handle) { return *handle = (void *)make(4), (nvjpegStatus_t)0; }
API nvjpegStatus_t NVJPEGAPI nvjpegDestroy(nvjpegHandle_t handle) { return (nvjpegStatus_t)destroy(handle); }
API nvjpegStatus_t NVJPEGAPI nvjpegJpegStateCreate(nvjpegHandle_t handle, nvjpegJpegState_t *state)
{
    return (void)handle, *state = (void *)make(5), (nvjpegStatus_t)0;
}
API nvjpegStatus_t NVJPEGAPI nvjpegJpegStateDestroy(nvjpegJpegState_t state) { return (nvjpegStatus_t)destroy(state); }
API nvjpegStatus_t NVJPEGAPI nvjpegGetImageInfo(nvjpegHandle_t handle, const unsigned char *data, size_t length, int *components,
                                                nvjpegChromaSubsampling_t *subsampling, int *widths, int *heights)
{
    parsed p;
    (void)handle;
    if (parse(data, length, &p) != 0) return (nvjpegStatus_t)3;
    *components = p.components;
    *subsampling = (nvjpegChromaSubsampling_t)p.subsampling;
    memcpy(widths, p.widths, sizeof p.widths);
    memcpy(heights, p.heights, sizeof p.heights);
    return (nvjpegStatus_t)0;
}
static nvjpegStatus_t decode(const unsigned char *data, size_t length, int format, nvjpegImage_t *out, void *stream)
{
    parsed p;
    if (parse(data, length, &p) != 0) return (nvjpegStatus_t)3;
    if (p.status) return (nvjpegStatus_t)p.status;
    fill f = {.image = *out, .value = p.value, .channels = format >= 5 ? 3 : 1, .planes = format == 1 ? p.components : 1};
    memcpy(f.width, p.widths, sizeof f.width);
    memcpy(f.height, p.heights, sizeof f.height);
    return (nvjpegStatus_t)later(stream, run_fill, &f, sizeof f);
}
static int batch;
API nvjpegStatus_t NVJPEGAPI nvjpegDecode(nvjpegHandle_t handle, nvjpegJpegState_t state, const unsigned char *data, size_t length, nvjpegOutputFormat_t format,
                                          nvjpegImage_t *out, STREAM stream)
{
    return (void)handle, (void)state, decode(data, length, (int)format, out, stream);
}
API nvjpegStatus_t NVJPEGAPI nvjpegDecodeBatchedInitialize(nvjpegHandle_t handle, nvjpegJpegState_t state, int count, int threads, nvjpegOutputFormat_t format)
{
    return (void)handle, (void)state, batch = count, (nvjpegStatus_t)(threads == 1 && (int)format == 5 ? 0 : 2);
}
API nvjpegStatus_t NVJPEGAPI nvjpegDecodeBatched(nvjpegHandle_t handle, nvjpegJpegState_t state, const unsigned char *const *data, const size_t *lengths,
                                                 nvjpegImage_t *out, STREAM stream)
{
    (void)handle;
    (void)state;
    for (int i = 0; i < batch; i++) {
        if (lengths[i] < 9 || (int)decode(data[i], lengths[i], 5, &out[i], stream) != 0) return (nvjpegStatus_t)2;
    }
    return (nvjpegStatus_t)0;
}
API nvjpegStatus_t NVJPEGAPI nvjpegEncoderStateCreate(nvjpegHandle_t handle, nvjpegEncoderState_t *state, STREAM stream)
{
    return (void)handle, (void)stream, *state = (void *)make(6), (nvjpegStatus_t)0;
}
API nvjpegStatus_t NVJPEGAPI nvjpegEncoderStateDestroy(nvjpegEncoderState_t state) { return (nvjpegStatus_t)destroy(state); }
API nvjpegStatus_t NVJPEGAPI nvjpegEncoderParamsCreate(nvjpegHandle_t handle, nvjpegEncoderParams_t *params, STREAM stream)
{
    return (void)handle, (void)stream, *params = (void *)make(7), (nvjpegStatus_t)0;
}
API nvjpegStatus_t NVJPEGAPI nvjpegEncoderParamsDestroy(nvjpegEncoderParams_t params) { return (nvjpegStatus_t)destroy(params); }
API nvjpegStatus_t NVJPEGAPI nvjpegEncoderParamsSetQuality(nvjpegEncoderParams_t params, const int quality, STREAM stream)
{
    return (void)stream, ((object *)params)->next = (unsigned)quality, (nvjpegStatus_t)0;
}
API nvjpegStatus_t NVJPEGAPI nvjpegEncoderParamsSetSamplingFactors(nvjpegEncoderParams_t params, const nvjpegChromaSubsampling_t subsampling, STREAM stream)
{
    return (void)params, (void)stream, (nvjpegStatus_t)((int)subsampling == 2 ? 0 : 2);
}
static const nvjpegImage_t *encoded;
static int encoded_size[2];
API nvjpegStatus_t NVJPEGAPI nvjpegEncodeImage(nvjpegHandle_t handle, nvjpegEncoderState_t state, const nvjpegEncoderParams_t params, const nvjpegImage_t *source,
                                               nvjpegInputFormat_t format, int width, int height, STREAM stream)
{
    (void)handle;
    ((object *)state)->next = ((object *)params)->next;
    ((object *)state)->stream = stream;
    encoded = source;
    encoded_size[0] = width;
    encoded_size[1] = height;
    return (nvjpegStatus_t)((int)format == 5 ? 0 : 2);
}
API nvjpegStatus_t NVJPEGAPI nvjpegEncodeRetrieveBitstream(nvjpegHandle_t handle, nvjpegEncoderState_t state, unsigned char *data, size_t *length, STREAM stream)
{
    (void)handle;
    (void)stream;
    *length = 10;
    if (data) {
        const unsigned char bytes[10] = {'J', 'P', 'E', 'G', 3, 2, (unsigned char)encoded_size[0], (unsigned char)encoded_size[1], encoded->channel[0][0],
                                         (unsigned char)((object *)state)->next};
        memcpy(data, bytes, 10);
    }
    return (nvjpegStatus_t)0;
}

// ---- NVML

API nvmlReturn_t nvmlInit_v2(void) { return (nvmlReturn_t)0; }
API const char *nvmlErrorString(nvmlReturn_t result) { return (int)result == 6 ? "Not Found" : "other"; }
API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) { return snprintf(version, length, "580.1"), (nvmlReturn_t)0; }
API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    *device = (void *)(uintptr_t)4096;
    return (nvmlReturn_t)(strcmp(uuid, "MIG-00112233-4455-6677-8899-aabbccddeeff") == 0 ? 0 : 6);
}
API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) { return (void)device, snprintf(name, length, "Fake"), (nvmlReturn_t)0; }
API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *celsius)
{
    return (void)device, *celsius = 41, (nvmlReturn_t)((int)sensor == 0 ? 0 : 2);
}
API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *u) { return (void)device, u->gpu = 12, u->memory = 34, (nvmlReturn_t)0; }
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *m)
{
    return (void)device, m->total = 1ull << 37, m->free = 1ull << 36, m->used = 1ull << 36, (nvmlReturn_t)0;
}
API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) { return (void)device, *milliwatts = 123456, (nvmlReturn_t)0; }
API nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts) { return (void)device, (void)milliwatts, (nvmlReturn_t)3; }
API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t clock, unsigned *megahertz)
{
    return (void)device, *megahertz = 1000 + (unsigned)clock, (nvmlReturn_t)0;
}
