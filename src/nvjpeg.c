// SPDX-License-Identifier: MIT
// JPEG by nvJPEG on threads: gpuwb's own reader tells from the markers what a file is and holds, nvJPEG makes the pixels on the device.
#include "nvjpeg.h"

#include "codec/codec.h"

#include <stdlib.h>

typedef struct image { unsigned char *channel[4]; size_t pitch[4]; } image;     // nvjpegImage_t

struct gwb_jpeg_decoder {
    gwb_nvjpeg lib;
    int device, resets;
    void *handle;
};

// Calls of nvJPEG stand between these two.
static int begin(const gwb_stream *stream, gwb_mat *const *mats, int count, void **outer)
{
    return gwb_library_begin(stream, NULL, 0, (const gwb_mat *const *)mats, count, outer);
}

static int end(const gwb_stream *stream, gwb_mat *const *mats, int count, void *outer)
{
    return gwb_library_end(stream, NULL, 0, (const gwb_mat *const *)mats, count, outer);
}

static bool lost(const gwb_jpeg_decoder *d) { return gwb_resets(d->device) != d->resets; }

// Makes (or with `made` NULL destroys) nvJPEG's handle, with the device current.
static int with_device(gwb_jpeg_decoder *d, int *made)
{
    gwb_stream stream = {0};
    void *outer;
    int rc = gwb_stream_create(&stream, d->device, NULL);
    if (rc == 0) rc = begin(&stream, NULL, 0, &outer);
    if (rc == 0) {
        if (made) *made = d->lib.create(&d->handle);
        else d->lib.destroy(d->handle);
        rc = end(&stream, NULL, 0, outer);
    }
    gwb_stream_close(&stream);
    return rc;
}

int gwb_jpeg_decoder_open(const gwb_nvjpeg *lib, int device, gwb_jpeg_decoder **decoder)
{
    int status = 0;
    gwb_jpeg_decoder *d = calloc(1, sizeof *d);
    if (!d) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a JPEG decoder");
    *d = (gwb_jpeg_decoder){.lib = *lib, .device = device, .resets = gwb_resets(device)};
    int rc = with_device(d, &status);
    if (rc == 0 && status != 0) rc = gwb_fail(GWB_DEVICE, "nvJPEG: nvjpegCreateSimple gave status %d", status);
    if (rc == 0) *decoder = d;
    else free(d);
    return rc;
}

void gwb_jpeg_decoder_close(gwb_jpeg_decoder *d)
{
    if (!d) return;
    if (!lost(d)) with_device(d, NULL);
    free(d);
}

void gwb_jpeg_state_close(gwb_jpeg_state *s)
{
    void *outer;
    if (!s->handle || lost(s->decoder) || begin(s->stream, NULL, 0, &outer) < 0) return;
    s->decoder->lib.state_destroy(s->handle);
    end(s->stream, NULL, 0, outer);
    s->handle = NULL;
}

static int refused(const gwb_input *in, const char *call, int status)
{
    switch (status) {
    case 3: case 10: return gwb_refuse(in, GWB_BAD_FILE, "damaged JPEG: %s gave status %d", call, status);
    case 5: return gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory for nvJPEG: %s gave status %d", call, status);
    case 4: case 9: return gwb_refuse(in, GWB_UNSUPPORTED, "a JPEG that nvJPEG does not decode: %s gave status %d", call, status);
    default: return gwb_refuse(in, GWB_DEVICE, "nvJPEG: %s gave status %d", call, status);
    }
}

// Between begin and end. The sizes that nvJPEG reads must be those that the mats were made for.
static int decode(gwb_jpeg_state *s, const gwb_input *in, const gwb_picture *picture, gwb_mat *const mats[])
{
    const gwb_nvjpeg *lib = &s->decoder->lib;
    enum { YUV = 1, Y = 2, RGBI = 5 };      // nvjpegOutputFormat_t
    int components = 0, subsampling = 0, widths[4] = {0}, heights[4] = {0};
    int status = s->handle ? 0 : lib->state_create(s->decoder->handle, &s->handle);
    if (status) return refused(in, "nvjpegJpegStateCreate", status);
    status = lib->info(s->decoder->handle, in->bytes, (uint64_t)in->size, &components, &subsampling, widths, heights);
    if (status) return refused(in, "nvjpegGetImageInfo", status);
    image to = {{0}, {0}};
    for (int i = 0; i < picture->planes; i++) {
        if (widths[i] != picture->plane[i].width || heights[i] != picture->plane[i].height) {
            return gwb_refuse(in, GWB_UNSUPPORTED, "nvJPEG takes it for %dx%d pixels, not %dx%d", widths[i], heights[i], picture->plane[i].width,
                              picture->plane[i].height);
        }
        to.channel[i] = mats[i]->data;
        to.pitch[i] = (size_t)mats[i]->step;
    }
    int format = picture->planes == 3 ? YUV : picture->plane[0].channels == 3 ? RGBI : Y;
    status = lib->decode(s->decoder->handle, s->handle, in->bytes, (uint64_t)in->size, format, &to, s->stream->handle);
    return status ? refused(in, "nvjpegDecode", status) : 0;
}

int gwb_jpeg_decode(gwb_jpeg_state *s, const gwb_bytes *file, const char *name, const gwb_read_params *read, gwb_picture *picture,
                    gwb_mat mats[GWB_MAX_PLANES])
{
    const gwb_input in = {file->data, file->size, name, gwb_read_defaults(read)};
    gwb_read_params header = *read;
    header.header_only = header.as_stored = 1;
    int rc = gwb_decode(file->data, file->size, name, &header, picture), made = 0;
    if (rc < 0) return rc;
    if (lost(s->decoder)) rc = gwb_refuse(&in, GWB_CLOSED, "its device was reset meanwhile");
    else if (!gwb_jpg_plain(file->data, file->size)) {
        rc = gwb_refuse(&in, GWB_UNSUPPORTED, "a JPEG that is cut, coarse or neither gray nor YCbCr is not for nvJPEG; decode=\"auto\" gives it to the host");
    }
    gwb_mat *list[GWB_MAX_PLANES];
    for (; made < picture->planes && rc == 0; made++) {
        const gwb_plane *p = &picture->plane[made];
        list[made] = &mats[made];
        mats[made] = (gwb_mat){0};
        rc = gwb_mat_create(list[made], s->decoder->device, p->width, p->height, p->type, p->channels, NULL);
        if (rc < 0) break;
    }
    void *outer;
    if (rc == 0) rc = begin(s->stream, list, made, &outer);
    if (rc == 0) {
        rc = decode(s, &in, picture, list);
        int ended = end(s->stream, list, made, outer), waited;
        do {        // nvJPEG reads the bytes meanwhile
            waited = gwb_stream_synchronize(s->stream);
        } while (waited == GWB_INTERRUPTED);
        rc = rc < 0 ? rc : ended < 0 ? ended : waited < 0 ? waited : 0;
    }
    if (rc == 0) return 0;
    while (made > 0) gwb_mat_close(&mats[--made]);
    gwb_picture_free(picture);
    return rc;
}
