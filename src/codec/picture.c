// SPDX-License-Identifier: MIT
// What every codec needs: refusing with the file's name, sizes checked before memory is taken, growing bytes, turning upright.
#include "codec.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int gwb_refuse(const gwb_input *in, int status, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gwb_fail(status, "%s: %s", in->name, text);
}

int gwb_doubt(const gwb_input *in, gwb_picture *out, const char *format, ...)
{
    char text[sizeof out->warning];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!in->params.lenient) return gwb_fail(GWB_BAD_FILE, "%s: %s (strict=false gives what is there)", in->name, text);
    if (!out->warning[0]) memcpy(out->warning, text, sizeof text);
    return 0;
}

gwb_read_params gwb_read_defaults(const gwb_read_params *params)
{
    gwb_read_params p = params ? *params : (gwb_read_params){0};
    if (p.max_pixels <= 0) p.max_pixels = GWB_MAX_PIXELS;
    if (p.max_bytes <= 0) p.max_bytes = GWB_MAX_BYTES;
    return p;
}

// "2.1 GB"
static const char *amount(double bytes, char text[32])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 6) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

int gwb_check_size(const gwb_input *in, int64_t width, int64_t height, int64_t pixel_bytes, int64_t capacity)
{
    char need[32], have[32];
    if (width < 1 || height < 1) return gwb_refuse(in, GWB_BAD_FILE, "a picture of %" PRId64 "x%" PRId64 " pixels", width, height);
    if (width > INT32_MAX || height > INT32_MAX) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "%" PRId64 "x%" PRId64 " pixels; a side has at most %d", width, height, INT32_MAX);
    }
    int64_t pixels = width * height; // below 2^62
    amount((double)pixels * (double)pixel_bytes, need);
    if (pixels > capacity) {
        return gwb_refuse(in, GWB_BAD_FILE,
                          "%" PRId64 "x%" PRId64 " pixels need %s, but %s of file hold at most %" PRId64 " of the %" PRId64
                          " pixels: it is cut or damaged", width, height, need, amount((double)in->size, have), capacity, pixels);
    }
    if (pixels > in->params.max_pixels) {
        return gwb_refuse(in, GWB_LIMIT, "%" PRId64 "x%" PRId64 " pixels need %s; the limit is %" PRId64 " pixels, these are %" PRId64
                          "; gpu.limits{pixels=...} raises it", width, height, need, in->params.max_pixels, pixels);
    }
    if (pixels > in->params.max_bytes / pixel_bytes) {
        return gwb_refuse(in, GWB_LIMIT, "%" PRId64 "x%" PRId64 " pixels need %s; the limit is %s; gpu.limits{bytes=...} raises it",
                          width, height, need, amount((double)in->params.max_bytes, have));
    }
    return 0;
}

const char *gwb_pixel_format(int type, int channels)
{
    static const char *const u8[] = {"gray", "ya8", "rgb24", "rgba"};
    static const char *const u16[] = {"gray16le", "ya16le", "rgb48le", "rgba64le"};
    static const char *const f32[] = {"grayf32le", "yaf32le", "rgbf32le", "rgbaf32le"};
    return type == GWB_U8 ? u8[channels - 1] : type == GWB_U16 ? u16[channels - 1] : type == GWB_F32 ? f32[channels - 1] : "";
}

void gwb_picture_describe(gwb_picture *out, uint8_t *data, int32_t width, int32_t height, int32_t type, int32_t channels)
{
    int64_t step = (int64_t)width * gwb_type_size(type) * channels;
    snprintf(out->format, sizeof out->format, "%s", gwb_pixel_format(type, channels));
    out->width = width;
    out->height = height;
    out->planes = 1;
    out->plane[0] = (gwb_plane){data, step, width, height, type, channels};
    out->bytes = step * height;
}

int gwb_picture_alloc(const gwb_input *in, gwb_picture *out, int32_t width, int32_t height, int32_t type, int32_t channels)
{
    char need[32];
    size_t bytes = (size_t)width * height * gwb_type_size(type) * channels;
    out->memory = in->params.lenient ? calloc(1, bytes) : malloc(bytes);    // what a damaged file leaves out is zero
    if (!out->memory) {
        return gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory for %dx%d pixels (%s)", width, height, amount((double)bytes, need));
    }
    gwb_picture_describe(out, out->memory, width, height, type, channels);
    return 0;
}

int gwb_picture_rows(const gwb_input *in, gwb_picture *out, int32_t width, int32_t height, int32_t type, int32_t channels)
{
    enum { LARGE = 1 << 20 };
    int64_t row = (int64_t)width * gwb_type_size(type) * channels;
    uint8_t *data = in->params.room && row * height >= LARGE ? gwb_room_rows(out, width, height, type, channels, in->params.room == 2) : NULL;
    if (!data) return gwb_picture_alloc(in, out, width, height, type, channels);
    int64_t step = out->plane[0].step;
    gwb_picture_describe(out, data, width, height, type, channels);
    out->plane[0].step = step;
    for (int32_t y = 0; y < height && in->params.lenient; y++) memset(data + y * step, 0, (size_t)row);
    return 0;
}

void gwb_picture_free(gwb_picture *picture)
{
    if (!picture) return;
    gwb_room_free(picture);
    if (picture->mapped) munmap(picture->memory, (size_t)picture->mapped);
    else free(picture->memory);
    free(picture->icc);
    picture->memory = NULL;
    picture->icc = NULL;
    picture->mapped = picture->icc_size = 0;
    picture->planes = 0;
}

// Rows of `size`-byte pixels: out[x, y] comes from the place in the source that EXIF's orientation means.
#define ORIENT(pixel) \
    for (int32_t y = 0; y < out.height; y++) { \
        pixel *to = (pixel *)(out.plane[0].data + y * out.plane[0].step); \
        for (int32_t x = 0; x < out.width; x++) { \
            int32_t from_x = swap ? y : x, from_y = swap ? x : y; \
            if (flip_x) from_x = p->width - 1 - from_x; \
            if (flip_y) from_y = p->height - 1 - from_y; \
            to[x] = ((const pixel *)(p->plane[0].data + from_y * p->plane[0].step))[from_x]; \
        } \
    }

int gwb_picture_orient(const gwb_input *in, gwb_picture *p)
{
    typedef struct { uint8_t byte[3]; } pixel3;
    typedef struct { uint16_t word[3]; } pixel6;
    typedef struct { float value[3]; } pixel12;
    int o = p->orientation;
    const gwb_plane *plane = &p->plane[0];
    if (o < 2 || o > 8 || p->planes != 1) return 0;
    bool swap = o >= 5, flip_x = o == 2 || o == 3 || o == 7 || o == 8, flip_y = o == 3 || o == 4 || o == 6 || o == 7;
    gwb_picture out = *p;
    out.orientation = 1;
    if (in->params.header_only) {
        gwb_picture_describe(p, NULL, swap ? p->height : p->width, swap ? p->width : p->height, plane->type, plane->channels);
        return 0;
    }
    out.memory = NULL;
    out.room = NULL;
    int rc = gwb_picture_rows(in, &out, swap ? p->height : p->width, swap ? p->width : p->height, plane->type, plane->channels);
    if (rc < 0) return rc;
    switch (plane->channels * gwb_type_size(plane->type)) {
    case 1: ORIENT(uint8_t) break;
    case 2: ORIENT(uint16_t) break;
    case 3: ORIENT(pixel3) break;
    case 4: ORIENT(uint32_t) break;
    case 6: ORIENT(pixel6) break;
    case 8: ORIENT(uint64_t) break;
    default: ORIENT(pixel12)
    }
    gwb_room_free(p);
    free(p->memory);
    *p = out;
    return 0;
}

uint8_t *gwb_bytes_room(gwb_bytes *b, int64_t size)
{
    if (b->capacity < 0) return NULL; // failed before
    if (size > b->capacity - b->size) {
        int64_t capacity = b->capacity + b->capacity / 2;
        if (capacity < b->size + size) capacity = b->size + size;
        uint8_t *data = realloc(b->data, (size_t)capacity + (capacity == 0));
        if (!data) {
            b->capacity = -1;
            gwb_fail(GWB_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of a file", capacity);
            return NULL;
        }
        b->data = data;
        b->capacity = capacity;
    }
    b->size += size;
    return b->data + b->size - size;
}

int gwb_bytes_add(gwb_bytes *b, const void *data, int64_t size)
{
    uint8_t *room = gwb_bytes_room(b, size);
    if (room && size > 0) memcpy(room, data, (size_t)size);
    return b->capacity < 0 ? GWB_OUT_OF_MEMORY : 0;
}

int gwb_bytes_text(gwb_bytes *b, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gwb_bytes_add(b, text, size);
}

void gwb_bytes_free(gwb_bytes *bytes)
{
    if (!bytes) return;
    free(bytes->data);
    *bytes = (gwb_bytes){0};
}
