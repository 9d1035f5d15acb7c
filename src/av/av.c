// SPDX-License-Identifier: MIT
// Frames of video files by libavformat and libavcodec: on the host, or with NVDEC in the memory of a cuda device.
#include "av.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/hwcontext.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// The header wants cuda.h for these two names alone.
#define CUDA_VERSION 0
typedef void *CUcontext;
typedef void *CUstream;
#include <libavutil/hwcontext_cuda.h>

enum { SAID = 1000 };

struct gwb_av {
    gwb_av_params params;       // without the path
    AVFormatContext *file;
    AVStream *stream;
    AVCodecContext *codec;
    AVBufferRef *device;        // with NVDEC
    AVPacket *packet;
    AVFrame *first;             // decoded by begin, until next gives it
    bool drains;                // the file has no more packets
    bool damaged;
    bool refused;               // NVDEC does not take the stream
    atomic_bool starved;        // there was no memory for a frame
    char said[SAID];            // errors of the libraries, under `lock`
    gwb_av *next;               // in the list of open ones
};

// ---- what the libraries say. Their log is one for the process: what does not concern a file that is open here goes where it went before.

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gwb_av *open_ones;
static __thread gwb_av *at_work;        // whose call runs on this thread

// Whom the libraries' object belongs to, as far as it tells.
static const void *owner_of(const void *object, int depth)
{
    const AVClass *class = object ? *(const AVClass *const *)object : NULL;
    const char *name = class ? class->class_name : NULL;
    if (!name || depth > 4) return NULL;
    if (strcmp(name, "AVCodecContext") == 0) return ((const AVCodecContext *)object)->opaque;
    if (strcmp(name, "AVFormatContext") == 0) return ((const AVFormatContext *)object)->opaque;
    if (strcmp(name, "AVHWDeviceContext") == 0) return ((const AVHWDeviceContext *)object)->user_opaque;
    if (strcmp(name, "AVHWFramesContext") == 0) return ((const AVHWFramesContext *)object)->device_ctx->user_opaque;
    if (class->parent_log_context_offset <= 0) return NULL;
    const void *parent = *(const void *const *)(const void *)((const char *)object + class->parent_log_context_offset);
    return owner_of(parent, depth + 1);
}

// Under `lock`.
static void add_said(gwb_av *a, const char *line)
{
    size_t at = strlen(a->said);
    if (at + 8 > SAID || strstr(a->said, line)) return;     // decoders say the same for each row
    snprintf(a->said + at, SAID - at, "%s%s", at ? "; " : "", line);
}

static void hear(void *object, int level, const char *format, va_list args)
{
    const void *owner = owner_of(object, 0);
    if (!owner) owner = at_work;
    pthread_mutex_lock(&lock);
    gwb_av *a = open_ones;
    while (a && a != owner) a = a->next;
    if (a && (level & 0xff) <= AV_LOG_ERROR) {
        char line[256];
        vsnprintf(line, sizeof line, format, args);
        for (size_t n = strlen(line); n > 0 && (unsigned char)line[n - 1] <= ' '; n--) line[n - 1] = 0;
        for (char *c = line; *c; c++) if ((unsigned char)*c < ' ') *c = ' ';
        if (line[0]) add_said(a, line);
    }
    pthread_mutex_unlock(&lock);
    if (!a) av_log_default_callback(object, level, format, args);
}

static void enter(gwb_av *a)
{
    static bool listens;
    pthread_mutex_lock(&lock);
    if (!listens) av_log_set_callback(hear);
    listens = true;
    a->next = open_ones;
    open_ones = a;
    pthread_mutex_unlock(&lock);
}

static void leave(gwb_av *a)
{
    pthread_mutex_lock(&lock);
    gwb_av **at = &open_ones;
    while (*at && *at != a) at = &(*at)->next;
    if (*at) *at = a->next;
    pthread_mutex_unlock(&lock);
}

static void clear_said(gwb_av *a)
{
    pthread_mutex_lock(&lock);
    a->said[0] = 0;
    pthread_mutex_unlock(&lock);
}

// Fills the text: what was wrong, and what the libraries say to it, which is forgotten then.
static int fail(gwb_av *a, int status, char text[GWB_AV_TEXT], const char *what)
{
    pthread_mutex_lock(&lock);
    snprintf(text, GWB_AV_TEXT, "%.500s%s%.900s%s", what, a->said[0] ? ": libav says: " : "", a->said,
             status == GWB_BAD_FILE && a->damaged ? " (strict=false takes what there is)" : "");
    a->said[0] = 0;
    pthread_mutex_unlock(&lock);
    return status;
}

static void note(gwb_av *a, const char *what, int error)
{
    char reason[AV_ERROR_MAX_STRING_SIZE] = "", line[160];
    av_strerror(error, reason, sizeof reason);
    snprintf(line, sizeof line, "%s: %s", what, reason);
    pthread_mutex_lock(&lock);
    add_said(a, line);
    pthread_mutex_unlock(&lock);
    a->damaged = true;
}

static int status_of(int error)
{
    switch (error) {
    case AVERROR(ENOENT): return GWB_NO_FILE;
    case AVERROR(ENOMEM): return GWB_OUT_OF_MEMORY;
    case AVERROR(EACCES): case AVERROR(EISDIR): case AVERROR(EIO): case AVERROR(EPERM): return GWB_IO;
    case AVERROR_EXIT: return GWB_CLOSED;
    default: return GWB_BAD_FILE;
    }
}

// ---- memory of frames

static void give_back(void *token, uint8_t *memory)
{
    (void)memory;
    void **both = token;        // {the function, its argument}
    void (*give)(void *token);
    memcpy(&give, &both[0], sizeof give);
    give(both[1]);
    free(both);
}

// Frames lie in memory of the caller's, which a cuda device copies from by itself where it has one. Rows and planes begin as decoders want them.
static int get_buffer(AVCodecContext *c, AVFrame *f, int flags)
{
    gwb_av *a = c->opaque;
    const AVPixFmtDescriptor *format = av_pix_fmt_desc_get(f->format);
    if (!format || !(c->codec->capabilities & AV_CODEC_CAP_DR1) || format->flags & (AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_PAL)) {
        return avcodec_default_get_buffer2(c, f, flags);
    }
    enum { PLANE = 64, BEHIND = 128 };      // rows and planes begin at multiples of the first; decoders may read so many bytes behind a plane
    int width = f->width, height = f->height, align[AV_NUM_DATA_POINTERS], step[4], error = 0;
    avcodec_align_dimensions2(c, &width, &height, align);
    ptrdiff_t steps[4];
    size_t sizes[4], bytes = 0;
    for (bool even = false; !even && error >= 0; width += PLANE - width % PLANE) {
        error = av_image_fill_linesizes(step, f->format, width);
        even = true;
        for (int i = 0; i < 4 && error >= 0; i++) {
            steps[i] = step[i];
            even = even && step[i] % PLANE == 0;
        }
    }
    if (error >= 0) error = av_image_fill_plane_sizes(sizes, f->format, height, steps);
    if (error < 0) return error;
    for (int i = 0; i < 4; i++) bytes += sizes[i] ? (sizes[i] + BEHIND + PLANE - 1) / PLANE * PLANE : 0;
    void *memory = NULL, **both = malloc(2 * sizeof *both), *token = both ? a->params.take(a->params.arg, (int64_t)bytes, &memory) : NULL;
    if (!token) {
        free(both);
        a->starved = true;
        return AVERROR(ENOMEM);
    }
    memcpy(&both[0], &a->params.give, sizeof a->params.give);
    both[1] = token;
    f->buf[0] = av_buffer_create(memory, bytes, give_back, both, 0);
    if (!f->buf[0]) {
        give_back(both, NULL);
        return AVERROR(ENOMEM);
    }
    uint8_t *at = memory;
    for (int i = 0; i < 4 && sizes[i]; i++) {
        f->data[i] = at;
        f->linesize[i] = step[i];
        at += (sizes[i] + BEHIND + PLANE - 1) / PLANE * PLANE;
    }
    f->extended_data = f->data;
    return 0;
}

// ---- opening

static int stops(void *arg)
{
    const gwb_av *a = arg;
    return a->params.stop(a->params.arg);
}

// How the picture is to be turned, from the matrix that maps its points: exact for quarters, 0 for the rest.
static int turn_of(const AVStream *stream)
{
#if LIBAVCODEC_VERSION_MAJOR >= 61
    const AVPacketSideData *side = av_packet_side_data_get(stream->codecpar->coded_side_data, stream->codecpar->nb_coded_side_data,
                                                           AV_PKT_DATA_DISPLAYMATRIX);
    const int32_t *m = side ? (const int32_t *)(const void *)side->data : NULL;
#else
    const int32_t *m = (const int32_t *)(const void *)av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, NULL);
#endif
    if (!m) return 1;
    // The image of (1, 0) and of (0, 1), y down, to a few thousandths.
    double a = m[0], b = m[1], c = m[3], d = m[4], x = hypot(a, b), y = hypot(c, d);
    if (!(x > 0 && y > 0)) return 1;
    const double in[4] = {a / x, b / x, c / y, d / y};
    int unit[4];
    for (int i = 0; i < 4; i++) {
        unit[i] = (int)lround(in[i]);
        if (fabs(in[i] - unit[i]) > 0.02) return 0;
    }
    static const int turns[8][4] = {
        {1, 0, 0, 1}, {-1, 0, 0, 1}, {-1, 0, 0, -1}, {1, 0, 0, -1}, {0, 1, 1, 0}, {0, 1, -1, 0}, {0, -1, -1, 0}, {0, -1, 1, 0},
    };
    for (int i = 0; i < 8; i++) if (memcmp(unit, turns[i], sizeof unit) == 0) return i + 1;
    return 0;
}

static void close_file(gwb_av *a)
{
    if (!a) return;
    at_work = a;
    av_frame_free(&a->first);
    av_packet_free(&a->packet);
    avcodec_free_context(&a->codec);
    av_buffer_unref(&a->device);
    avformat_close_input(&a->file);
    at_work = NULL;
    leave(a);
    free(a);
}

static int find_stream(gwb_av *a, gwb_av_info *info, char text[GWB_AV_TEXT])
{
    for (unsigned i = 0; i < a->file->nb_streams; i++) {
        AVStream *s = a->file->streams[i];
        if (s->codecpar->codec_type == AVMEDIA_TYPE_VIDEO && !(s->disposition & AV_DISPOSITION_ATTACHED_PIC) && !a->stream) a->stream = s;
        else s->discard = AVDISCARD_ALL;
    }
    if (!a->stream) return fail(a, GWB_BAD_FILE, text, "no video in it");
    const AVCodecParameters *p = a->stream->codecpar;
    const char *format = av_get_pix_fmt_name((enum AVPixelFormat)p->format);
    *info = (gwb_av_info){.width = p->width, .height = p->height, .turn = turn_of(a->stream)};
    snprintf(info->codec, sizeof info->codec, "%s", avcodec_get_name(p->codec_id));
    snprintf(info->format, sizeof info->format, "%s", format ? format : "");
    char what[160];
    if (!avcodec_find_decoder(p->codec_id)) {
        snprintf(what, sizeof what, "libavcodec has no decoder for its %s", info->codec);
        return fail(a, GWB_UNSUPPORTED, text, what);
    }
    if (p->width < 1 || p->height < 1) return fail(a, GWB_BAD_FILE, text, "no video in it that libavcodec can decode");
    clear_said(a);      // looking is no decoding: what counts as damage is said again
    return 0;
}

static int open_file(gwb_av **av, const gwb_av_params *params, gwb_av_info *info, char text[GWB_AV_TEXT])
{
    gwb_av *a = calloc(1, sizeof *a);
    size_t length = strlen(params->path) + 6;
    char *url = malloc(length);
    *av = NULL;
    text[0] = 0;
    if (a && url) a->file = avformat_alloc_context();
    if (a && a->file) a->packet = av_packet_alloc();
    if (!a || !url || !a->file || !a->packet) {
        if (a) avformat_free_context(a->file);
        free(a);
        free(url);
        snprintf(text, GWB_AV_TEXT, "out of host memory");
        return GWB_OUT_OF_MEMORY;
    }
    a->params = *params;
    a->params.path = NULL;
    a->file->opaque = a;
    a->file->interrupt_callback = (AVIOInterruptCB){stops, a};
    snprintf(url, length, "file:%s", params->path);     // so that no name is taken for an address
    enter(a);
    at_work = a;
    int error = avformat_open_input(&a->file, url, NULL, NULL);
    free(url);
    if (error >= 0) error = avformat_find_stream_info(a->file, NULL);
    int rc = 0;
    if (error < 0) {
        char reason[AV_ERROR_MAX_STRING_SIZE] = "";
        av_strerror(error, reason, sizeof reason);
        rc = fail(a, status_of(error), text, reason);
    } else {
        rc = find_stream(a, info, text);
    }
    at_work = NULL;
    if (rc < 0) close_file(a);
    else *av = a;
    return rc;
}

// ---- decoding

// The decoder of libavcodec's own that hands its work to NVDEC.
static const AVCodec *nvdec_codec(enum AVCodecID id)
{
    void *at = NULL;
    for (const AVCodec *c; (c = av_codec_iterate(&at));) {
        if (c->id != id || !av_codec_is_decoder(c) || c->capabilities & (AV_CODEC_CAP_HARDWARE | AV_CODEC_CAP_EXPERIMENTAL)) continue;
        const AVCodecHWConfig *way;
        for (int i = 0; (way = avcodec_get_hw_config(c, i)); i++) {
            if (way->pix_fmt == AV_PIX_FMT_CUDA && way->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX) return c;
        }
    }
    return NULL;
}

static enum AVPixelFormat choose_cuda(AVCodecContext *c, const enum AVPixelFormat *formats)
{
    gwb_av *a = c->opaque;
    for (int i = 0; formats[i] != AV_PIX_FMT_NONE; i++) if (formats[i] == AV_PIX_FMT_CUDA) return formats[i];
    a->refused = true;
    return AV_PIX_FMT_NONE;
}

static int open_device(gwb_av *a)
{
    a->device = av_hwdevice_ctx_alloc(AV_HWDEVICE_TYPE_CUDA);
    if (!a->device) return AVERROR(ENOSYS);
    AVHWDeviceContext *device = (AVHWDeviceContext *)(void *)a->device->data;
    AVCUDADeviceContext *cuda = device->hwctx;
    device->user_opaque = a;
    cuda->cuda_ctx = a->params.cuda_context;
    cuda->stream = a->params.cuda_stream;
    return av_hwdevice_ctx_init(a->device);
}

static int open_codec(gwb_av *a, char text[GWB_AV_TEXT])
{
    const bool hardware = a->params.cuda_context;
    const enum AVCodecID id = a->stream->codecpar->codec_id;
    const AVCodec *codec = hardware ? nvdec_codec(id) : avcodec_find_decoder(id);
    char what[160];
    if (!codec) {
        snprintf(what, sizeof what, "this libavcodec has no NVDEC for %s", avcodec_get_name(id));
        return fail(a, GWB_UNSUPPORTED, text, what);
    }
    if (hardware && open_device(a) < 0) return fail(a, GWB_UNSUPPORTED, text, "libavcodec cannot decode on a cuda device");
    AVCodecContext *c = a->codec = avcodec_alloc_context3(codec);
    if (!c || avcodec_parameters_to_context(c, a->stream->codecpar) < 0) return fail(a, GWB_OUT_OF_MEMORY, text, "out of host memory");
    c->opaque = a;
    c->pkt_timebase = a->stream->time_base;
    c->max_pixels = a->params.max_pixels;
    c->thread_count = hardware ? 1 : a->params.threads;
    if (hardware) {
        c->hw_device_ctx = av_buffer_ref(a->device);
        c->get_format = choose_cuda;
        c->extra_hw_frames = a->params.spare;
#ifdef AV_HWACCEL_FLAG_UNSAFE_OUTPUT
        c->hwaccel_flags |= AV_HWACCEL_FLAG_UNSAFE_OUTPUT;  // NVDEC's own surfaces, of which `spare` are asked for, not copies of them
#endif
    } else {
        c->get_buffer2 = get_buffer;
#if LIBAVCODEC_VERSION_MAJOR < 60
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        c->thread_safe_callbacks = 1;
#pragma GCC diagnostic pop
#endif
    }
    int error = avcodec_open2(c, codec, NULL);
    if (error < 0) {
        snprintf(what, sizeof what, "the decoder %s does not open", codec->name);
        return fail(a, error == AVERROR(ENOMEM) ? GWB_OUT_OF_MEMORY : GWB_UNSUPPORTED, text, what);
    }
    return 0;
}

// Hands the next packet over; past the last one, the decoder is told of the end.
static void feed(gwb_av *a)
{
    int error = 0;
    do {
        av_packet_unref(a->packet);
        error = av_read_frame(a->file, a->packet);
    } while (error >= 0 && a->packet->stream_index != a->stream->index);
    if (error == AVERROR(EAGAIN)) return;
    if (error < 0) {
        if (error != AVERROR_EOF) note(a, "reading it", error);
        a->drains = true;
        avcodec_send_packet(a->codec, NULL);
        return;
    }
    if (a->packet->size == 0) return;       // which would mean the end
    error = avcodec_send_packet(a->codec, a->packet);
    av_packet_unref(a->packet);
    if (error < 0 && error != AVERROR_EOF) note(a, "a packet", error);
}

// 1 and a frame, 0 at the end, or a status: GWB_BAD_FILE, without a text, at the end of a damaged file. A damaged packet is passed over, as the frames
// behind it may be whole.
static int decode(gwb_av *a, AVFrame *frame, char text[GWB_AV_TEXT])
{
    for (;;) {
        if (stops(a)) return fail(a, GWB_CLOSED, text, "it is closed");
        int error = avcodec_receive_frame(a->codec, frame);
        if (error >= 0) return 1;
        if (a->refused) return GWB_BAD_FILE;
        if (a->starved || error == AVERROR(ENOMEM)) {
            clear_said(a);
            return fail(a, GWB_OUT_OF_MEMORY, text, "no memory for a frame; close images and mats, or raise gpu.limit of the host");
        }
        if (error == AVERROR_EOF) break;
        if (error == AVERROR(EAGAIN)) {
            if (a->drains) break;
            feed(a);
        } else {
            note(a, "a frame", error);
            if (a->drains) break;
        }
    }
    pthread_mutex_lock(&lock);
    a->damaged = a->damaged || a->said[0];
    pthread_mutex_unlock(&lock);
    return a->damaged ? GWB_BAD_FILE : 0;
}

static int begin(gwb_av *a, char text[GWB_AV_TEXT])
{
    text[0] = 0;
    at_work = a;
    int rc = open_codec(a, text);
    a->first = rc < 0 ? NULL : av_frame_alloc();
    if (rc == 0 && !a->first) rc = fail(a, GWB_OUT_OF_MEMORY, text, "out of host memory");
    if (rc == 0) rc = decode(a, a->first, text);
    if (a->params.cuda_context && (rc == 0 || rc == GWB_BAD_FILE || (rc == 1 && a->first->format != AV_PIX_FMT_CUDA))) {
        rc = fail(a, GWB_UNSUPPORTED, text, "NVDEC does not decode it");
    } else if (rc == 0 || rc == GWB_BAD_FILE) {
        rc = fail(a, GWB_BAD_FILE, text, rc == 0 ? "no frame in it" : "damaged");
    }
    at_work = NULL;
    return rc < 0 ? rc : 0;
}

// A known value's name; values 0 and 2 mean "not said" in these lists, and in that of ranges 0 alone.
static const char *known(int value, bool range, const char *name)
{
    return value == 0 ? (range ? NULL : name) : !range && value == 2 ? NULL : name;
}

static int show(AVFrame *f, gwb_av_frame *out)
{
    enum AVPixelFormat format = (enum AVPixelFormat)f->format;
    const bool on_device = format == AV_PIX_FMT_CUDA;
    if (on_device) format = ((const AVHWFramesContext *)(const void *)f->hw_frames_ctx->data)->sw_format;
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(format);
    int pixel[4];               // bytes from one to the next, by plane
    av_image_fill_max_pixsteps(pixel, NULL, d);
    *out = (gwb_av_frame){.handle = f, .format = d->name, .width = f->width, .height = f->height, .planes = av_pix_fmt_count_planes(format),
                          .on_device = on_device, .shared = !on_device && !av_frame_is_writable(f)};
    out->tag[GWB_AV_MATRIX] = known(f->colorspace, false, av_color_space_name(f->colorspace));
    out->tag[GWB_AV_RANGE] = known(f->color_range, true, av_color_range_name(f->color_range));
    out->tag[GWB_AV_SITING] = known(f->chroma_location, true, av_chroma_location_name(f->chroma_location));
    out->tag[GWB_AV_TRANSFER] = known(f->color_trc, false, av_color_transfer_name(f->color_trc));
    out->tag[GWB_AV_PRIMARIES] = known(f->color_primaries, false, av_color_primaries_name(f->color_primaries));
    for (int i = 0; i < out->planes && i < 4; i++) {
        const int chroma = i == 1 || i == 2;
        out->step[i] = f->linesize[i];
        out->data[i] = f->data[i];
        if (on_device) {        // where libavcodec does not cut at the left and at the top
            out->data[i] += (int64_t)(f->crop_top >> (chroma ? d->log2_chroma_h : 0)) * f->linesize[i]
                + (int64_t)(f->crop_left >> (chroma ? d->log2_chroma_w : 0)) * pixel[i];
        }
    }
    if (on_device) {
        out->width -= (int)f->crop_left;
        out->height -= (int)f->crop_top;
    }
    return 1;
}

// Rows that run upwards are put in order, in a frame of their own.
static int set_upright(AVFrame *f)
{
    bool up = f->format != AV_PIX_FMT_CUDA && f->linesize[0] < 0;
    if (!up) return 0;
    AVFrame *copy = av_frame_alloc();
    if (!copy) return AVERROR(ENOMEM);
    copy->format = f->format;
    copy->width = f->width;
    copy->height = f->height;
    int error = av_frame_get_buffer(copy, 0);
    if (error >= 0) error = av_frame_copy(copy, f);
    if (error >= 0) error = av_frame_copy_props(copy, f);
    if (error >= 0) {
        av_frame_unref(f);
        av_frame_move_ref(f, copy);
    }
    av_frame_free(&copy);
    return error;
}

static int next_frame(gwb_av *a, gwb_av_frame *out, char text[GWB_AV_TEXT])
{
    AVFrame *f = a->first ? a->first : av_frame_alloc();
    at_work = a;
    text[0] = 0;
    int rc = !f ? fail(a, GWB_OUT_OF_MEMORY, text, "out of host memory") : a->first ? 1 : decode(a, f, text);
    a->first = NULL;
    if (a->refused) rc = fail(a, GWB_UNSUPPORTED, text, "NVDEC does not decode what follows");
    else if (rc == GWB_BAD_FILE) rc = fail(a, rc, text, "damaged");
    if (rc == 1 && set_upright(f) < 0) rc = fail(a, GWB_OUT_OF_MEMORY, text, "no memory for a frame");
    at_work = NULL;
    if (rc == 1) return show(f, out);
    av_frame_free(&f);
    return rc;
}

static void release(void *handle)
{
    AVFrame *f = handle;
    av_frame_free(&f);
}

__attribute__((visibility("default"))) const gwb_av_calls *gwb_av_open_calls(void);

const gwb_av_calls *gwb_av_open_calls(void)
{
    static char libraries[96];
    static const gwb_av_calls calls = {GWB_AV_VERSION, sizeof calls, libraries, open_file, begin, next_frame, release, close_file};
    const unsigned f = avformat_version(), c = avcodec_version();
    snprintf(libraries, sizeof libraries, "libavformat %u.%u.%u, libavcodec %u.%u.%u", f >> 16, f >> 8 & 0xff, f & 0xff, c >> 16, c >> 8 & 0xff, c & 0xff);
    return &calls;
}
