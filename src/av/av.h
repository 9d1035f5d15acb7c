// SPDX-License-Identifier: MIT
// What gpuwb_av.so does for gpuwb: frames of video files by libavformat and libavcodec. It is a shared object of its own, opened at run time, so that
// nothing else depends on these libraries; it uses nothing of gpuwb's but this header. Failures are a gwb_status with a sentence in the text that the
// caller brings.
#ifndef GWB_AV_H
#define GWB_AV_H

#include "gwb.h"

typedef struct gwb_av gwb_av;   // an open file

enum {
    GWB_AV_VERSION = 1,         // of this header
    GWB_AV_TEXT = 1600          // bytes of a failure's text
};
#define GWB_AV_NAME "gpuwb_av.so"
#define GWB_AV_ENTRY "gwb_av_open_calls"    // const gwb_av_calls *(void)

typedef struct gwb_av_params {
    const char *path;
    int64_t max_pixels;         // of a frame
    int32_t threads;            // that decode on the host, at least 1
    int32_t spare;              // NVDEC: frames that are held at once, beside those that decoding needs
    void *cuda_context;         // CUcontext to decode in, with NVDEC; NULL: on the host
    void *cuda_stream;          // CUstream on which its frames become ready
    void *arg;                  // of `stop` and `take`
    int (*stop)(void *arg);     // 1: what waits for the file shall end. Called from any thread
    // Memory for frames on the host, from any thread: `bytes` of it at *memory, aligned to 64; a token for `give`, or NULL where there is none.
    void *(*take)(void *arg, int64_t bytes, void **memory);
    void (*give)(void *token);
} gwb_av_params;

// Of the first video stream that is no cover picture. Names are libav's.
typedef struct gwb_av_info {
    char codec[32];
    char format[32];            // pixel format; "" where it is not known yet
    int32_t width;              // pixels, as stored
    int32_t height;             // rows
    int32_t turn;               // as EXIF counts, 1..8, how it is to be shown; 0: by another angle
} gwb_av_info;

enum { GWB_AV_MATRIX, GWB_AV_RANGE, GWB_AV_SITING, GWB_AV_TRANSFER, GWB_AV_PRIMARIES, GWB_AV_TAGS };

typedef struct gwb_av_frame {
    void *handle;               // for `release`
    const char *format;         // pixel format; static
    const char *tag[GWB_AV_TAGS];   // static; NULL: not said
    int32_t width;              // pixels
    int32_t height;             // rows
    int32_t planes;
    int32_t on_device;          // 1: the planes are memory of the cuda device, ready once the stream has done what it holds
    int32_t shared;             // 1: others read the memory, so that nobody may write to it
    int32_t pad;
    uint8_t *data[4];
    int64_t step[4];            // bytes, positive
} gwb_av_frame;

typedef struct gwb_av_calls {
    int32_t version;            // GWB_AV_VERSION
    int32_t size;               // sizeof(gwb_av_calls)
    const char *libraries;      // "libavformat 59.27.100, libavcodec 59.37.100"; static
    // Opens the file and fills info. GWB_NO_FILE, GWB_IO, GWB_BAD_FILE, GWB_UNSUPPORTED (no decoder), GWB_LIMIT. *av is the caller's until `close`.
    int (*open)(gwb_av **av, const gwb_av_params *params, gwb_av_info *info, char text[GWB_AV_TEXT]);
    // Opens the decoder and decodes the first frame, which the first `next` gives. GWB_UNSUPPORTED where NVDEC was asked for and does not do it.
    int (*begin)(gwb_av *av, char text[GWB_AV_TEXT]);
    // 1: the next frame, the caller's until `release`; 0: there is none; GWB_BAD_FILE at the end of a damaged file, behind all frames that it gives.
    int (*next)(gwb_av *av, gwb_av_frame *frame, char text[GWB_AV_TEXT]);
    void (*release)(void *handle);      // from any thread, also after `close`
    void (*close)(gwb_av *av);          // NULL is fine
} gwb_av_calls;

#endif
