// SPDX-License-Identifier: MIT
// Frames of a video through gpuwb_av.so: a thread decodes ahead, at most a few frames; the consumer gets each one's planes as mats. Where the decoder's
// memory is the device's own and nobody else reads it the mats show it, and it goes back to the decoder when no mat and no work uses it; else the
// planes are copied.
#include "device.h"
#include "libav.h"
#include "mat.h"
#include "stream.h"
#include "trace.h"

#include "host/parallel.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_AHEAD = 8,             // frames of the host
    NVDEC_AHEAD = 2,            // NVDEC has few surfaces for its frames, at most 32 with those that decoding needs
    NVDEC_SHOWN = 3,            // of them, that mats may show: from then on frames are copied on the device
    NVDEC_COPIED = 2,           // more, that may be under way to other memory
    PATIENCE = 50               // ms until a wait looks whether it is broken off
};
static const int64_t ahead_bytes = 64 << 20;

// Frames of NVDEC that are out of the ring and not given back. Lives as long as one of the decoder's frames does.
typedef struct tally {
    const gwb_av_calls *av;
    atomic_int refs;            // the decoder's, and one a frame
    atomic_int shown, copied;   // by mats; to other memory, which may still be under way
    int device;                 // position of the cuda device whose memory they are; 0: host memory
    int resets;                 // of that device, when it was opened: after another one there is nothing to give back
} tally;

// A frame: held by the ring, and by each plane's mat.
typedef struct frame {
    atomic_int refs;
    tally *tally;
    atomic_int *counted;        // in one of the tally's numbers; NULL: in none
    gwb_av_frame av;
    struct frame *lost;         // the next one in the list of those whose device was reset
} frame;

struct gwb_decoder {
    const gwb_av_calls *av;
    gwb_av *source;
    gwb_decoder_params params;  // without the path
    tally *tally;
    gwb_stream stream;          // NVDEC's frames become ready on it
    int format;                 // of the first frame
    char format_name[32];
    int32_t width, height;
    int64_t given;

    pthread_t thread;
    bool runs;                  // the thread is there to be joined; the caller's
    atomic_bool stop;
    pthread_mutex_t lock;       // over all below
    pthread_cond_t changed;
    frame *ring[MOST_AHEAD];
    int room, at, filled;
    bool feeds;                 // the consumer answers to `hunger`
    enum { FED, HUNGRY, TOLD } hunger;      // memory ran out, and a collection may help: the consumer is to be told, it was told
    bool ended;
    int rc;                     // then: how
    char message[GWB_AV_TEXT];

    gwb_decoder *previous, *next;       // the open ones, under `open_lock`
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static gwb_decoder *open_decoders;
static frame *lost_frames;      // reachable, so that nobody takes them for a leak

// ---- frames

static void let_go(tally *t)
{
    if (atomic_fetch_sub(&t->refs, 1) == 1)
        free(t);
}

// One reference less; from any thread, without gwb_lock. Also what is called when the memory of a plane is no longer used.
static void drop(void *arg)
{
    frame *f = arg;
    if (atomic_fetch_sub(&f->refs, 1) > 1)
        return;
    tally *t = f->tally;
    if (t->device > 0 && gwb_resets(t->device) != t->resets) {  // the driver gave the memory back, and knows nothing of the frame any more
        pthread_mutex_lock(&open_lock);
        f->lost = lost_frames;
        lost_frames = f;
        pthread_mutex_unlock(&open_lock);
        return;
    }
    t->av->release(f->av.handle);
    if (f->counted)
        atomic_fetch_sub(f->counted, 1);
    free(f);
    let_go(t);
}

// ---- memory that decoders on the host write to: page-locked where there is a cuda device to copy from it

// Waits until the script has collected what it dropped; false where nobody will.
static bool wait_for_food(gwb_decoder *d)
{
    pthread_mutex_lock(&d->lock);
    const bool feeds = d->feeds;
    if (feeds && d->hunger == FED)
        d->hunger = HUNGRY;
    pthread_cond_broadcast(&d->changed);
    while (feeds && d->hunger != FED && !atomic_load(&d->stop))
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
    return feeds && !atomic_load(&d->stop);
}

static void *take(void *arg, int64_t bytes, void **memory)
{
    const gwb_mat_params pinned = {.packed = 1, .pinned = 1};
    const int64_t width = bytes < 1 << 20 ? bytes : 1 << 20;
    gwb_mat *m = calloc(1, sizeof *m);
    for (int turn = 0; m && gwb_mat_create(m, 0, (int32_t)width, (int32_t)((bytes + width - 1) / width), GWB_U8, 1, &pinned) < 0; turn++) {
        if (turn > 0 || !wait_for_food(arg)) {
            free(m);
            m = NULL;
        }
    }
    if (m)
        *memory = m->data;
    return m;
}

static void give(void *token)
{
    gwb_mat_close(token);
    free(token);
}

// ---- the thread

static int stops(void *arg)
{
    return atomic_load(&((gwb_decoder *)arg)->stop);
}

static int tag_of(const char *tag, const char *name)
{
    const int value = name ? gwb_tag_find(tag, name) : 0;
    return value > 0 ? value : 0;
}

// The next frame in *out, the caller's; 1, 0, or a status with v->message set.
static int pull(gwb_decoder *d, frame **out)
{
    frame *f = calloc(1, sizeof *f);
    if (!f) {
        snprintf(d->message, sizeof d->message, "out of host memory");
        return GWB_OUT_OF_MEMORY;
    }
    int rc = d->av->next(d->source, &f->av, d->message);
    if (rc <= 0) {
        free(f);
        return rc;
    }
    f->refs = 1;
    f->tally = d->tally;
    atomic_fetch_add(&d->tally->refs, 1);
    *out = f;
    return 1;
}

// A frame that nobody gets. What makes it visible is still under way on the stream, perhaps.
static void discard(const gwb_decoder *d, frame *f)
{
    if (f->av.on_device)
        gwb_stream_synchronize(&d->stream);
    drop(f);
}

static bool is_alike(const gwb_decoder *d, const gwb_av_frame *f)
{
    return f->width == d->width && f->height == d->height && strcmp(f->format, d->format_name) == 0;
}

static void put(gwb_decoder *d, frame *f)
{
    pthread_mutex_lock(&d->lock);
    while (d->filled == d->room && !atomic_load(&d->stop))
        pthread_cond_wait(&d->changed, &d->lock);
    const bool stop = atomic_load(&d->stop);
    if (!stop)
        d->ring[(d->at + d->filled++) % d->room] = f;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (stop)
        discard(d, f);
}

static void *decode(void *arg)
{
    gwb_decoder *d = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);     // signals are the script's
    int rc = 1;
    for (int64_t n = 1; rc == 1 && !atomic_load(&d->stop); n++) {
        frame *f = NULL;
        rc = pull(d, &f);
        if (rc == 1 && !is_alike(d, &f->av)) {
            discard(d, f);
            snprintf(d->message, sizeof d->message, "the size or the pixel format of its frames changes; they were %s %dx%d", d->format_name, d->width,
                     d->height);
            rc = GWB_BAD_FILE;
        } else if (rc == 1 && n < d->params.frame) {
            discard(d, f);
        } else if (rc == 1) {
            put(d, f);
        }
    }
    pthread_mutex_lock(&d->lock);
    d->rc = rc == GWB_BAD_FILE && d->params.lenient ? 0 : rc < 0 ? rc : 0;
    d->ended = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static void stop_thread(gwb_decoder *d)
{
    if (!d->runs)
        return;
    pthread_mutex_lock(&d->lock);
    atomic_store(&d->stop, true);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    d->runs = false;
}

// Gives back all that the consumer does not hold.
static void shut(gwb_decoder *d)
{
    stop_thread(d);
    if (d->stream.tag)      // libavcodec too has a frame in hand that is being made visible
        gwb_stream_synchronize(&d->stream);
    for (; d->filled > 0; d->filled--, d->at = (d->at + 1) % d->room)
        drop(d->ring[d->at]);
    if (d->source)
        d->av->close(d->source);
    d->source = NULL;
    gwb_stream_close(&d->stream);
}

// ---- opening and closing

// Called without other calls under way.
static void stop_all(void)
{
    pthread_mutex_lock(&open_lock);
    gwb_decoder *first = open_decoders;
    pthread_mutex_unlock(&open_lock);
    for (gwb_decoder *d = first; d; d = d->next) {
        shut(d);
        d->ended = true;
        d->rc = GWB_CLOSED;
        snprintf(d->message, sizeof d->message, "the video was lost when a device was reset; open it again");
    }
}

// Before the libraries and the driver, which were loaded earlier, go down under the threads. A forked process has none.
static pid_t process;

static void stop_at_exit(void)
{
    if (getpid() == process)
        stop_all();
}

static void enter(gwb_decoder *d)
{
    gwb_call_before_reset(stop_all);
    pthread_mutex_lock(&open_lock);
    if (process != getpid())
        atexit(stop_at_exit);
    process = getpid();
    d->next = open_decoders;
    if (d->next)
        d->next->previous = d;
    open_decoders = d;
    pthread_mutex_unlock(&open_lock);
}

static void leave(gwb_decoder *d)
{
    pthread_mutex_lock(&open_lock);
    if (d->next)
        d->next->previous = d->previous;
    if (d->previous)
        d->previous->next = d->next;
    else if (open_decoders == d)
        open_decoders = d->next;
    pthread_mutex_unlock(&open_lock);
}

void gwb_decoder_close(gwb_decoder *decoder)
{
    gwb_decoder *d = decoder;
    if (!d || gwb_forked)
        return;
    leave(d);
    shut(d);
    let_go(d->tally);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static int open_source(gwb_decoder *d, const char *path, gwb_decoder_info *info)
{
    gwb_av_info av = {0};
    const int threads = gwb_parallel_threads();
    gwb_av_params p = {.path = path, .max_pixels = d->params.max_pixels, .threads = threads < 16 ? threads : 16, .arg = d, .stop = stops,
                       .take = take, .give = give};
    if (d->params.nvdec) {
        gwb_device *device = gwb_device_at(d->params.device);
        int rc = device ? gwb_stream_create(&d->stream, d->params.device, NULL) : GWB_NO_DEVICE;
        if (rc < 0)
            return rc;
        p.cuda_context = gwb_cuda_context(device);
        p.cuda_stream = d->stream.handle;
        p.spare = NVDEC_AHEAD + NVDEC_SHOWN + NVDEC_COPIED + 1;
        d->tally->device = d->params.device;
        d->tally->resets = gwb_resets(d->params.device);
    }
    int rc = d->av->open(&d->source, &p, &av, d->message);
    if (rc < 0)
        return gwb_fail(rc, "%s", d->message);
    *info = (gwb_decoder_info){.width = av.width, .height = av.height, .turn = av.turn};
    snprintf(info->codec, sizeof info->codec, "%s", av.codec);
    snprintf(info->format, sizeof info->format, "%s", av.format);
    return 0;
}

int gwb_decoder_open(gwb_decoder **decoder, const gwb_decoder_params *params, gwb_decoder_info *info)
{
    *decoder = NULL;
    if (gwb_check_fork() < 0)
        return GWB_NO_DEVICE;
    const gwb_av_calls *av = gwb_libav_calls();
    if (!av)
        return GWB_UNSUPPORTED;
    if (params->nvdec && params->device < 1)
        return gwb_fail(GWB_UNSUPPORTED, "NVDEC decodes for cuda devices, and this is the host");
    gwb_decoder *d = calloc(1, sizeof *d);
    tally *t = calloc(1, sizeof *t);
    if (!d || !t) {
        free(d);
        free(t);
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    }
    d->av = t->av = av;
    d->tally = t;
    t->refs = 1;
    d->room = 1;
    d->params = *params;
    d->params.path = NULL;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    enter(d);
    int rc = open_source(d, params->path, info);
    if (rc < 0)
        gwb_decoder_close(d);
    else
        *decoder = d;
    return rc;
}

// What a frame is, without its planes.
static void describe(const gwb_decoder *d, const gwb_av_frame *f, gwb_picture *p)
{
    static const char *const tags[GWB_AV_TAGS] = {"matrix", "range", "siting", "transfer", "primaries"};
    *p = (gwb_picture){.width = f->width, .height = f->height, .planes = f->planes, .frames = d->given};
    char *const to[GWB_AV_TAGS] = {p->matrix, p->range, p->siting, p->transfer, p->primaries};
    snprintf(p->kind, sizeof p->kind, "video");
    snprintf(p->format, sizeof p->format, "%s", f->format);
    for (int i = 0; i < GWB_AV_TAGS; i++) {
        const char *ours = gwb_tag_name(tags[i], tag_of(tags[i], f->tag[i]));
        snprintf(to[i], sizeof p->matrix, "%s", ours ? ours : "");
    }
}

int gwb_decoder_begin(gwb_decoder *decoder, gwb_picture *first)
{
    gwb_decoder *d = decoder;
    frame *f = NULL;
    if (!d->source)
        return gwb_fail(GWB_CLOSED, "%s", d->message);
    int rc = d->av->begin(d->source, d->message);
    if (rc >= 0)
        rc = pull(d, &f);
    if (rc < 0)
        return gwb_fail(rc, "%s", d->message);
    int64_t bytes = 1;
    for (int i = 0; i < f->av.planes; i++)
        bytes += f->av.step[i] * f->av.height;
    d->room = d->params.nvdec ? NVDEC_AHEAD : bytes > ahead_bytes / 2 ? 2 : bytes > ahead_bytes / MOST_AHEAD ? (int)(ahead_bytes / bytes) : MOST_AHEAD;
    d->width = f->av.width;
    d->height = f->av.height;
    d->format = gwb_format_find(f->av.format, NULL, NULL);
    snprintf(d->format_name, sizeof d->format_name, "%s", f->av.format);
    describe(d, &f->av, first);
    if (d->params.frame > 0)
        discard(d, f);
    else
        put(d, f);
    gwb_trace_say("video: %s %s %dx%d, decoded by %s", d->params.nvdec ? "NVDEC" : "libavcodec", d->format_name, d->width, d->height, d->av->libraries);
    pthread_mutex_lock(&d->lock);
    d->feeds = true;
    pthread_mutex_unlock(&d->lock);
    if (pthread_create(&d->thread, NULL, decode, d) != 0)
        return gwb_fail(GWB_OUT_OF_MEMORY, "a thread cannot be started");
    d->runs = true;
    pthread_setname_np(d->thread, "gpuwb-video");
    return 0;
}

// ---- what the consumer does

// Waits for a frame: 1, 0, or a status. It stays in the ring.
static int wait_frame(gwb_decoder *d, frame **out)
{
    int rc = 0;
    bool told = false;
    pthread_mutex_lock(&d->lock);
    while (d->filled == 0 && !d->ended && rc >= 0) {
        if (gwb_interrupted())
            rc = gwb_fail(GWB_INTERRUPTED, "interrupted while it waited for a frame");
        if (rc < 0)
            break;
        if (d->hunger == HUNGRY) {      // the caller collects, and calls again
            d->hunger = TOLD;
            rc = gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a frame");
            told = true;
            break;
        }
        if (d->hunger == TOLD) {
            d->hunger = FED;
            pthread_cond_broadcast(&d->changed);
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PATIENCE * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&d->changed, &d->lock, &until);
    }
    if (rc >= 0 && d->filled > 0)
        *out = d->ring[d->at], rc = 1;
    else if (rc >= 0)
        rc = d->rc;
    pthread_mutex_unlock(&d->lock);
    return rc < 0 && rc != GWB_INTERRUPTED && !told ? gwb_fail(rc, "%s", d->message) : rc;
}

static void take_out(gwb_decoder *d, frame *f)
{
    pthread_mutex_lock(&d->lock);
    d->at = (d->at + 1) % d->room;
    d->filled--;
    d->given++;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    drop(f);
}

static void close_all(gwb_mat *mats, int count)
{
    for (int i = 0; i < count; i++)
        gwb_mat_close(&mats[i]);
}

// Mats over the frame's planes.
static int wrap(const gwb_decoder *d, frame *f, gwb_mat *mats)
{
    for (int i = 0; i < f->av.planes; i++) {
        gwb_plane_info p;
        int rc = gwb_format_plane(d->format, i, d->width, d->height, &p);
        const gwb_wrap_params w = {.ptr = f->av.data[i], .step = f->av.step[i], .width = p.width, .height = p.height, .type = p.type,
                                   .channels = p.channels, .device = f->av.on_device ? d->params.device : 0};
        if (rc >= 0)
            rc = gwb_mat_wrap_known(&mats[i], &w, (gwb_owner){.drop = drop, .arg = f});
        if (rc < 0) {
            close_all(mats, i);
            return rc;
        }
        atomic_fetch_add(&f->refs, 1);
        rc = f->av.on_device ? gwb_mat_record_stream(&mats[i], &d->stream, 1) : 0;
        if (rc < 0) {
            close_all(mats, i + 1);
            return rc;
        }
    }
    return 0;
}

static int copy(const gwb_decoder *d, gwb_mat *to, const gwb_mat *from, int count, const gwb_stream *stream)
{
    const gwb_mat *targets[GWB_MAX_PLANES], *sources[GWB_MAX_PLANES];
    for (int i = 0; i < count; i++) {
        int rc = gwb_mat_create(&to[i], d->params.device, from[i].width, from[i].height, from[i].type, from[i].channels, NULL);
        if (rc < 0) {
            close_all(to, i);
            return rc;
        }
        targets[i] = &to[i];
        sources[i] = &from[i];
    }
    int rc = gwb_copy_planes(targets, sources, count, stream);
    if (rc < 0)
        close_all(to, count);
    return rc;
}

int gwb_decoder_next(gwb_decoder *decoder, const gwb_stream *stream, gwb_picture *picture, gwb_mat *const *mats)
{
    if (gwb_check_fork() < 0)
        return GWB_NO_DEVICE;
    gwb_decoder *d = decoder;
    frame *f = NULL;
    gwb_mat shown[GWB_MAX_PLANES] = {0}, made[GWB_MAX_PLANES] = {0};
    if (d->format < 0)
        return gwb_fail(GWB_UNSUPPORTED, "its pixel format %s is none of gpuwb's", d->format_name);
    int rc = wait_frame(d, &f);
    *picture = (gwb_picture){.frames = d->given};
    if (rc <= 0)
        return rc;
    rc = wrap(d, f, shown);
    if (rc < 0)
        return rc;
    const int count = f->av.planes;
    const bool surface = f->av.on_device, many = surface && atomic_load(&d->tally->shown) >= NVDEC_SHOWN;
    const bool copies = many || f->av.shared || (d->params.device > 0 && !surface);
    if (copies) {
        rc = copy(d, made, shown, count, stream);
        // where too many copies are under way, the surface is free when this one is done
        if (rc >= 0 && surface && atomic_load(&d->tally->copied) >= NVDEC_COPIED)
            rc = gwb_mat_wait(&made[0], 0);
        close_all(shown, count);
        if (rc < 0) {
            close_all(made, count);
            return rc;
        }
    }
    if (surface) {
        f->counted = copies ? &d->tally->copied : &d->tally->shown;
        atomic_fetch_add(f->counted, 1);
    }
    describe(d, &f->av, picture);
    picture->frames = d->given + 1;
    for (int i = 0; i < count; i++)
        *mats[i] = copies ? made[i] : shown[i];
    take_out(d, f);
    return count;
}

void gwb_decoder_say(const char *text)
{
    gwb_trace_say("video: %s", text);
}
