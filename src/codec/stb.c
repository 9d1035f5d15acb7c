// SPDX-License-Identifier: MIT
// stb_image and stb_image_write, fenced in: memory has a budget and is all given back, a failed assertion or allocation ends the call and
// not the process, reading past the end is noticed, and a reason is never an older call's. Messages come from gwb_refuse.
#include "codec.h"

#include <limits.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

// What a call has allocated, newest first. The header's size keeps the pixels behind it aligned as the host device's mats are.
typedef union block {
    struct {
        union block *newer, *older;
        size_t size;
    };
    char pad[64];
} block;

typedef struct fence {
    jmp_buf escape;
    block *newest;
    int64_t budget;             // bytes that may still be allocated
    const char *trouble;        // why `escape` was taken
    const gwb_input *in;        // reading: the file,
    int64_t at;                 // how much of it is taken,
    void *buffer;               // the decoder's own buffer, which is filled ahead of need,
    bool past_end;              // whether bytes were needed that are not there,
    bool strict;                // and whether that ends the call
    gwb_bytes *out;             // writing
} fence;

static _Thread_local fence *current;

static _Noreturn void escape(const char *trouble)
{
    current->trouble = trouble;
    longjmp(current->escape, 1);
}

static void fence_free(void *memory)
{
    if (!memory) return;
    block *b = (block *)memory - 1;
    if (b->newer) b->newer->older = b->older; else current->newest = b->older;
    if (b->older) b->older->newer = b->newer;
    current->budget += (int64_t)b->size;
    free(b);
}

// Cleared, so that what a cut file leaves out is zero and not somebody's memory.
static void *fence_malloc(size_t size)
{
    if (size > PTRDIFF_MAX - sizeof(block) || (int64_t)size > current->budget) {
        escape("its data needs more memory than its size explains");
    }
    block *b = calloc(1, sizeof(block) + size);
    if (!b) escape("out of memory");
    b->size = size;
    b->older = current->newest;
    if (b->older) b->older->newer = b;
    current->newest = b;
    current->budget -= (int64_t)size;
    return b + 1;
}

static void *fence_realloc(void *memory, size_t size)
{
    void *moved = fence_malloc(size);
    if (memory) {
        size_t old = ((block *)memory - 1)->size;
        memcpy(moved, memory, old < size ? old : size);
        fence_free(memory);
    }
    return moved;
}

static void fence_close(fence *f)
{
    while (f->newest) fence_free(f->newest + 1);
    current = NULL;
}

#pragma GCC diagnostic ignored "-Wunused-function" // asked at the end of the file
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
#define STBI_NO_STDIO
#define STBI_NO_PIC
#define STBI_NO_PNM
#define STBI_NO_PNG
#define STBI_NO_GIF
#define STBI_ASSERT(x) ((x) ? (void)0 : escape("the decoder stopped at what it did not expect"))
#define STBI_MALLOC(size) fence_malloc(size)
#define STBI_REALLOC(memory, size) fence_realloc(memory, size)
#define STBI_FREE(memory) fence_free(memory)
#define STBIW_ASSERT(x) STBI_ASSERT(x)
#define STBIW_MALLOC(size) fence_malloc(size)
#define STBIW_REALLOC(memory, size) fence_realloc(memory, size)
#define STBIW_FREE(memory) fence_free(memory)
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
// The sanitizer need not report what is meant: the JPEG writer shifts bits out at the top, and the PSD reader converts floats that do
// not fit.
#ifdef __clang__
#pragma clang attribute push(__attribute__((no_sanitize("shift", "float-cast-overflow"))), apply_to = function)
#else
#pragma GCC diagnostic ignored "-Wattributes" // on variables
#define static __attribute__((no_sanitize("shift"))) static
#endif
#include <stb_image.h>
#include <stb_image_write.h>
#ifdef __clang__
#pragma clang attribute pop
#else
#undef static
#endif
#pragma GCC diagnostic pop

// Bytes are needed that are not there. A lenient reader gets zeros, on which stb's HDR decoder would turn forever.
static void run_out(fence *f)
{
    f->past_end = true;
    if (f->strict) escape("truncated");
}

static int take(void *user, char *data, int size)
{
    fence *f = user;
    int64_t left = f->in->size - f->at;
    if (size > left) {
        if (left == 0 || data != f->buffer) run_out(f);
        size = (int)left;
    }
    memcpy(data, f->in->bytes + f->at, (size_t)size);
    f->at += size;
    return size;
}

static void skip(void *user, int size)
{
    fence *f = user;
    f->at += size;
    if (f->at > f->in->size) {
        run_out(f);
        f->at = f->in->size;
    }
    if (f->at < 0) f->at = 0;
}

static int at_end(void *user)
{
    const fence *f = user;
    return f->at == f->in->size;
}

static stbi_io_callbacks callbacks = {take, skip, at_end};

int gwb_stb_size(const gwb_input *in, int32_t *width, int32_t *height, int32_t *channels)
{
    if (in->size > INT_MAX) return gwb_refuse(in, GWB_UNSUPPORTED, "more than 2 GB of a compressed picture");
    fence f = {.in = in, .budget = 1 << 20};
    current = &f;
    stbi__g_failure_reason = NULL;
    int ok = 0, w = 0, h = 0, n = 0;
    if (setjmp(f.escape) == 0) {
        ok = stbi_info_from_memory(in->bytes, (int)in->size, &w, &h, &n);
        *width = w;
        *height = h < 0 && h > INT_MIN ? -h : h; // a BMP whose top row comes first
        *channels = n;
    }
    fence_close(&f);
    if (ok) return 0;
    const char *reason = f.trouble ? f.trouble : stbi__g_failure_reason;
    return gwb_refuse(in, GWB_BAD_FILE, "its header is damaged (%s)", reason ? reason : "no reason given");
}

int gwb_stb_decode(const gwb_input *in, gwb_picture *out, int32_t type, bool checked)
{
    if (checked && in->size > INT_MAX) return gwb_refuse(in, GWB_UNSUPPORTED, "more than 2 GB of a compressed picture");
    // Coefficients, planes, a padded copy and the result: no decoder needs more than this for a pixel.
    fence f = {.in = in, .budget = (INT64_C(1) << 24) + INT64_C(48) * out->width * out->height,
               .strict = !in->params.lenient || type == GWB_F32};
    current = &f;
    stbi__g_failure_reason = NULL;
    stbi__context context;
    f.buffer = context.buffer_start;
    void *volatile pixels = NULL;
    int w = 0, h = 0, n = 0;
    if (setjmp(f.escape) == 0) {
        if (checked) stbi__start_mem(&context, in->bytes, (int)in->size);
        else stbi__start_callbacks(&context, &callbacks, &f);
        if (type == GWB_F32) pixels = stbi__loadf_main(&context, &w, &h, &n, 0);
        else if (type == GWB_U16) pixels = stbi__load_and_postprocess_16bit(&context, &w, &h, &n, 0);
        else pixels = stbi__load_and_postprocess_8bit(&context, &w, &h, &n, 0);
    }
    if (pixels) { // keep it: unlink it from what fence_close frees
        block *b = (block *)pixels - 1;
        if (b->newer) b->newer->older = b->older; else f.newest = b->older;
        if (b->older) b->older->newer = b->newer;
        out->memory = b;
        gwb_picture_describe(out, pixels, w, h, type, n);
    }
    fence_close(&f);
    const char *reason = f.trouble ? f.trouble : stbi__g_failure_reason;
    if (!pixels && f.past_end) return gwb_refuse(in, GWB_BAD_FILE, "truncated: its data ends in the middle of the picture");
    if (!pixels) return gwb_refuse(in, GWB_BAD_FILE, "its data is damaged (%s)", reason ? reason : "no reason given");
    if (f.past_end) return gwb_doubt(in, out, "truncated: its data ends in the middle of the picture");
    return 0;
}

int gwb_stb_jpeg_planes(const gwb_input *in, gwb_picture *out)
{
    if (in->size > INT_MAX) return gwb_refuse(in, GWB_UNSUPPORTED, "more than 2 GB of a compressed picture");
    fence f = {.in = in, .budget = (INT64_C(1) << 24) + INT64_C(48) * out->width * out->height};
    current = &f;
    stbi__g_failure_reason = NULL;
    stbi__context context;
    int ok = 0;
    if (setjmp(f.escape) == 0) {
        stbi__jpeg *j = fence_malloc(sizeof *j);
        stbi__start_mem(&context, in->bytes, (int)in->size);
        j->s = &context;
        stbi__setup_jpeg(j);
        ok = stbi__decode_jpeg_image(j) && context.img_n == out->planes;
        for (int i = 0; ok && i < out->planes; i++) {
            const gwb_plane *p = &out->plane[i];
            ok = j->img_comp[i].x == p->width && j->img_comp[i].y == p->height;
            for (int32_t y = 0; ok && y < p->height; y++) {
                memcpy(p->data + y * p->step, j->img_comp[i].data + (int64_t)y * j->img_comp[i].w2, (size_t)p->width);
            }
        }
    }
    fence_close(&f);
    const char *reason = f.trouble ? f.trouble : stbi__g_failure_reason;
    return ok ? 0 : gwb_refuse(in, GWB_BAD_FILE, "its data is damaged (%s)", reason ? reason : "no reason given");
}

static void give(void *user, void *data, int size)
{
    fence *f = user;
    gwb_bytes_add(f->out, data, size);
}

// stb takes tight rows: the picture's own where they are, else a copy inside the fence.
static const void *tight(const gwb_plane *p)
{
    size_t row = (size_t)p->width * p->channels * gwb_type_size(p->type);
    if (p->step == (int64_t)row) return p->data;
    uint8_t *copy = fence_malloc(row * p->height);
    for (int32_t y = 0; y < p->height; y++) memcpy(copy + y * row, p->data + y * p->step, row);
    return copy;
}

typedef enum writer { WRITE_BMP, WRITE_TGA, WRITE_HDR } writer;

static int encode(const gwb_picture *p, gwb_bytes *out, writer kind)
{
    const gwb_plane *plane = &p->plane[0];
    int w = plane->width, h = plane->height, n = plane->channels;
    if ((int64_t)w * h > INT_MAX / 4 / n) return gwb_fail(GWB_UNSUPPORTED, "%dx%d pixels are more than this format's writer takes", w, h);
    fence f = {.out = out, .budget = INT64_MAX};
    current = &f;
    int ok = 0;
    if (setjmp(f.escape) == 0) {
        const void *pixels = tight(plane);
        if (kind == WRITE_BMP) ok = stbi_write_bmp_to_func(give, &f, w, h, n, pixels);
        else if (kind == WRITE_TGA) ok = stbi_write_tga_to_func(give, &f, w, h, n, pixels);
        else ok = stbi_write_hdr_to_func(give, &f, w, h, n, pixels);
    }
    fence_close(&f);
    if (f.trouble || out->capacity < 0) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory to encode %dx%d pixels", w, h);
    return ok ? 0 : gwb_fail(GWB_INTERNAL, "the encoder refused %dx%d pixels", w, h);
}

int gwb_stb_encode_bmp(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    (void)params;
    return encode(p, out, WRITE_BMP);
}

int gwb_stb_encode_tga(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    (void)params;
    return encode(p, out, WRITE_TGA);
}

int gwb_stb_encode_hdr(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    (void)params;
    return encode(p, out, WRITE_HDR);
}
