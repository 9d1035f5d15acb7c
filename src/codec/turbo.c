// SPDX-License-Identifier: MIT
// libjpeg-turbo by its TurboJPEG interface, opened at run time: several times as fast as stb_image, and it tells of gaps in a file.
#include "codec.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// The interface of version 2, which 3 keeps. Names and numbers by its documentation.
static struct {
    void *(*init_compress)(void);
    void *(*init_decompress)(void);
    int (*destroy)(void *handle);
    char *(*error)(void *handle);
    int (*error_code)(void *handle);        // 0: a warning, the picture is there
    unsigned long (*bound)(int width, int height, int subsampling);
    int (*decompress)(void *handle, const unsigned char *file, unsigned long size, unsigned char *to, int width, int step, int height, int format,
                      int flags);
    int (*decompress_planes)(void *handle, const unsigned char *file, unsigned long size, unsigned char **planes, int width, int *steps, int height,
                             int flags);
    int (*compress)(void *handle, const unsigned char *from, int width, int step, int height, int format, unsigned char **to, unsigned long *size,
                    int subsampling, int quality, int flags);
    int (*compress_planes)(void *handle, const unsigned char **planes, int width, const int *steps, int height, int subsampling, unsigned char **to,
                           unsigned long *size, int quality, int flags);
} lib;
static bool lib_open;

enum { RGB = 0, GRAY = 6, CMYK = 11 };                  // TJPF_
enum { NO_REALLOC = 1024, ACCURATE_DCT = 4096, LIMIT_SCANS = 32768 };   // TJFLAG_

static void open_once(void)
{
    void *handle = dlopen("libturbojpeg.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return;
    static const struct { const char *name; void *to; } calls[] = {
        {"tjInitCompress", &lib.init_compress}, {"tjInitDecompress", &lib.init_decompress}, {"tjDestroy", &lib.destroy},
        {"tjGetErrorStr2", &lib.error}, {"tjGetErrorCode", &lib.error_code}, {"tjBufSize", &lib.bound}, {"tjDecompress2", &lib.decompress},
        {"tjDecompressToYUVPlanes", &lib.decompress_planes}, {"tjCompress2", &lib.compress}, {"tjCompressFromYUVPlanes", &lib.compress_planes},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *call = dlsym(handle, calls[i].name);
        if (!call) return;
        memcpy(calls[i].to, &call, sizeof call);
    }
    lib_open = true;
}

bool gwb_turbo_ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return lib_open && !gwb_libraries_off();
}

// A warning means a gap or data that is none: the picture goes on behind it.
static int judge(const gwb_input *in, gwb_picture *out, void *handle, int rc)
{
    if (rc == 0) return 0;
    const char *text = lib.error(handle);
    if (lib.error_code(handle) == 0) return gwb_doubt(in, out, "damaged JPEG: %s", text);
    return gwb_refuse(in, GWB_BAD_FILE, "damaged JPEG: %s", text);
}

static int number_of(int subsampling)   // TJSAMP_
{
    return subsampling == 444 ? 0 : subsampling == 422 ? 1 : subsampling == 420 ? 2 : subsampling == 440 ? 4 : 5;
}

int gwb_turbo_decode(const gwb_input *in, gwb_picture *out, int channels, bool cmyk)
{
    void *handle = lib.init_decompress();
    const gwb_plane *p = &out->plane[0];
    uint8_t *to = p->data, *four = NULL;
    if (cmyk) to = four = calloc((size_t)p->width * (size_t)p->height, 4);
    int rc;
    if (!handle || !to) {
        rc = gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory to decode it");
    } else {
        rc = lib.decompress(handle, in->bytes, (unsigned long)in->size, to, p->width, cmyk ? 0 : (int)p->step, p->height, cmyk ? CMYK : channels == 3 ? RGB : GRAY,
                            ACCURATE_DCT | LIMIT_SCANS);
        rc = judge(in, out, handle, rc);
    }
    if (rc == 0 && cmyk) {      // inverted: what shines through the four inks
        const uint8_t *ink = four;
        for (int32_t y = 0; y < p->height; y++) {
            uint8_t *row = p->data + y * p->step;
            for (int32_t x = 0; x < p->width; x++, ink += 4) {
                for (int c = 0; c < 3; c++) row[3 * x + c] = (uint8_t)((ink[c] * ink[3] + 127) / 255);
            }
        }
    }
    free(four);
    if (handle) lib.destroy(handle);
    return rc;
}

int gwb_turbo_planes(const gwb_input *in, gwb_picture *out)
{
    void *handle = lib.init_decompress();
    if (!handle) return gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory to decode it");
    unsigned char *planes[3] = {out->plane[0].data, out->plane[1].data, out->plane[2].data};
    int steps[3] = {(int)out->plane[0].step, (int)out->plane[1].step, (int)out->plane[2].step};
    int rc = lib.decompress_planes(handle, in->bytes, (unsigned long)in->size, planes, out->width, steps, out->height, ACCURATE_DCT | LIMIT_SCANS);
    rc = judge(in, out, handle, rc);
    lib.destroy(handle);
    return rc;
}

// Planes whose sizes are whole groups of samples, as the library reads them: the edge repeated.
static int pad_planes(const gwb_picture *p, int h, int v, gwb_plane planes[3], gwb_bytes *memory)
{
    int64_t width = (p->width + h - 1) / h * h, height = (p->height + v - 1) / v * v;
    uint8_t *to = gwb_bytes_room(memory, width * height * 3);
    if (!to) return GWB_OUT_OF_MEMORY;
    for (int i = 0; i < 3; i++) {
        int64_t w = i ? width / h : width, rows = i ? height / v : height;
        const gwb_plane *from = &p->plane[i];
        planes[i] = (gwb_plane){to, w, (int32_t)w, (int32_t)rows, GWB_U8, 1};
        for (int64_t y = 0; y < rows; y++, to += w) {
            const uint8_t *row = from->data + (y < from->height ? y : from->height - 1) * from->step;
            memcpy(to, row, (size_t)from->width);
            memset(to + from->width, row[from->width - 1], (size_t)(w - from->width));
        }
    }
    return 0;
}

int gwb_turbo_encode(const gwb_picture *p, int quality, int subsampling, gwb_bytes *out)
{
    const gwb_plane *first = &p->plane[0];
    int kind = first->channels == 1 && p->planes == 1 ? 3 : number_of(subsampling);
    unsigned long size = lib.bound(first->width, first->height, kind);
    void *handle = lib.init_compress();
    unsigned char *to = handle ? gwb_bytes_room(out, (int64_t)size) : NULL;
    int64_t bound = (int64_t)size;
    int rc = to ? 0 : gwb_fail(GWB_OUT_OF_MEMORY, "no memory to encode %dx%d pixels", first->width, first->height);
    gwb_bytes memory = {0};
    if (rc == 0 && p->planes == 1) {
        rc = lib.compress(handle, first->data, first->width, (int)first->step, first->height, first->channels == 3 ? RGB : GRAY, &to, &size, kind, quality,
                          NO_REALLOC | ACCURATE_DCT);
    } else if (rc == 0) {
        int h = kind == 1 || kind == 2 ? 2 : kind == 5 ? 4 : 1, v = kind == 2 || kind == 4 ? 2 : 1;
        gwb_plane planes[3] = {p->plane[0], p->plane[1], p->plane[2]};
        if (p->width % h || p->height % v) rc = pad_planes(p, h, v, planes, &memory);
        const unsigned char *data[3] = {planes[0].data, planes[1].data, planes[2].data};
        int steps[3] = {(int)planes[0].step, (int)planes[1].step, (int)planes[2].step};
        if (rc == 0) {
            rc = lib.compress_planes(handle, data, p->width, steps, p->height, kind, &to, &size, quality, NO_REALLOC | ACCURATE_DCT);
        }
    }
    if (rc == -1 && to) rc = gwb_fail(GWB_INTERNAL, "libjpeg-turbo refused %dx%d pixels: %s", first->width, first->height, lib.error(handle));
    if (to) out->size += (int64_t)size - bound;
    gwb_bytes_free(&memory);
    if (handle) lib.destroy(handle);
    return rc;
}
