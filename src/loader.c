// SPDX-License-Identifier: MIT
// Pictures decoded ahead: a ring of slots, threads that fill free ones in the order of the list, and a consumer that takes them in order or as they come.
#include "loader.h"

#include "codec/codec.h"
#include "device.h"
#include "nvjpeg.h"

#include "host/parallel.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int gwb_default_threads(int wanted)
{
    int threads = wanted > 0 ? wanted : gwb_parallel_threads();
    return threads < 1 ? 1 : threads > 64 ? 64 : threads;
}

typedef enum state { FREE, BUSY, READY } state;

typedef struct slot {
    state state;
    int64_t index;              // of the file in the list
    int status;                 // of the decoder
    char message[1024];
    gwb_picture picture;        // without memory where `mats` hold the pixels
    int mats;
    gwb_mat mat[GWB_MAX_PLANES];
} slot;

struct gwb_loader {
    gwb_loader_params params;
    char *array;                // owned; params.read.array is the same
    char **paths;
    int64_t count, next, taken; // files; the next one to begin; how many the consumer has had
    slot *slots;
    int slot_count;
    pthread_t *threads;
    int thread_count;
    bool stop;
    gwb_jpeg_decoder *jpeg;     // NULL: none
    pthread_mutex_t lock;
    pthread_cond_t freed, filled;
};

// On a cuda device the pixels go through page-locked memory, where large ones are decoded to, so that the copy needs no further hand and runs beside
// other work.
static int upload(gwb_mat *to, gwb_picture *picture, int plane, int device, const gwb_stream *stream)
{
    const gwb_plane *p = &picture->plane[plane];
    *to = (gwb_mat){0};     // where an older one's struct may still stand, which is the consumer's now
    if (device == 0 && gwb_picture_move(picture, to)) return 0;
    int rc = gwb_mat_create(to, device, p->width, p->height, p->type, p->channels, &(gwb_mat_params){0});
    if (rc < 0 || device == 0) return rc < 0 ? rc : gwb_upload(to, p->data, p->step, NULL);
    const gwb_mat *locked = gwb_room_mat(picture);
    if (locked && locked->flags & GWB_MAT_PINNED) return gwb_copy(to, locked, stream);
    gwb_mat pinned = {0};
    rc = gwb_mat_create(&pinned, 0, p->width, p->height, p->type, p->channels, &(gwb_mat_params){.pinned = 1});
    if (rc == 0) rc = gwb_upload(&pinned, p->data, p->step, NULL);
    if (rc == 0) rc = gwb_copy(to, &pinned, stream);
    gwb_mat_close(&pinned);
    return rc;
}

// The consumer uploads by itself where memory runs out here: it can first let go of what it does not need any more.
static void place(slot *s, int device, const gwb_stream *stream)
{
    gwb_picture *p = &s->picture;
    if (!p->format[0]) return;      // numbers of an npy want tight rows, which the consumer makes
    int rc = 0;
    for (s->mats = 0; s->mats < p->planes && rc == 0; s->mats++) rc = upload(&s->mat[s->mats], p, s->mats, device, stream);
    if (rc < 0) {
        while (s->mats > 0) gwb_mat_close(&s->mat[--s->mats]);
        return;
    }
    uint8_t *icc = p->icc;          // stays
    p->icc = NULL;
    gwb_picture kept = *p;
    gwb_picture_free(p);
    *p = kept;
    p->memory = NULL;
    p->room = NULL;
    p->mapped = 0;
    p->icc = icc;
}

static slot *free_slot(gwb_loader *l)
{
    for (int i = 0; i < l->slot_count; i++) if (l->slots[i].state == FREE) return &l->slots[i];
    return NULL;
}

static bool is_jpeg(const char *path)
{
    struct stat info;
    uint8_t start[3] = {0};
    FILE *file = stat(path, &info) == 0 && S_ISREG(info.st_mode) ? fopen(path, "rbe") : NULL;
    bool is = file && fread(start, 1, 3, file) == 3 && gwb_jpg_recognise(start, 3);
    if (file) fclose(file);
    return is;
}

static void decode(gwb_loader *l, slot *s, const char *path, gwb_jpeg_state *jpeg)
{
    const gwb_read_params *read = &l->params.read;
    bool nvjpeg = jpeg->decoder && is_jpeg(path);
    if (!nvjpeg && jpeg->decoder && l->params.only) {
        s->status = gwb_fail(GWB_UNSUPPORTED, "%s: no JPEG file, which is all that nvJPEG decodes; decode=\"auto\" gives others to the host", path);
    } else if (!nvjpeg) {
        s->status = (l->params.isolated ? gwb_load_isolated : gwb_load)(path, read, &s->picture);
    } else {
        gwb_bytes file = {0};
        s->status = gwb_file_read(path, gwb_read_defaults(read).max_bytes, &file);
        bool there = s->status == 0;
        if (there) s->status = gwb_jpeg_decode(jpeg, &file, path, read, &s->picture, s->mat);
        if (s->status == 0) s->mats = s->picture.planes;
        else if (there && !l->params.only) s->status = gwb_decode(file.data, file.size, path, read, &s->picture);
        gwb_bytes_free(&file);
    }
}

static void *work(void *user)
{
    gwb_loader *l = user;
    gwb_stream stream = {0};
    bool own = l->params.device > 0 && gwb_stream_create(&stream, l->params.device, NULL) == 0;
    gwb_jpeg_state jpeg = {own ? l->jpeg : NULL, &stream, NULL};
    pthread_mutex_lock(&l->lock);
    while (!l->stop && l->next < l->count) {
        slot *s = free_slot(l);
        if (!s) {
            pthread_cond_wait(&l->freed, &l->lock);
            continue;
        }
        s->state = BUSY;
        s->index = l->next++;
        pthread_mutex_unlock(&l->lock);
        decode(l, s, l->paths[s->index], &jpeg);
        if (s->status < 0) snprintf(s->message, sizeof s->message, "%s", gwb_error_message());
        else if (s->mats == 0) place(s, l->params.device, own ? &stream : NULL);
        pthread_mutex_lock(&l->lock);
        s->state = READY;
        pthread_cond_broadcast(&l->filled);
    }
    pthread_mutex_unlock(&l->lock);
    gwb_jpeg_state_close(&jpeg);
    if (own) gwb_stream_close(&stream);
    return NULL;
}

static void empty(slot *s)
{
    while (s->mats > 0) gwb_mat_close(&s->mat[--s->mats]);
    gwb_picture_free(&s->picture);
    s->state = FREE;
}

void gwb_loader_close(gwb_loader *l)
{
    if (!l || gwb_forked) return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->freed);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->thread_count; i++) pthread_join(l->threads[i], NULL);
    for (int i = 0; i < l->slot_count; i++) if (l->slots[i].state == READY) empty(&l->slots[i]);
    for (int64_t i = 0; l->paths && i < l->count; i++) free(l->paths[i]);
    gwb_jpeg_decoder_close(l->jpeg);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->freed);
    pthread_cond_destroy(&l->filled);
    free(l->paths);
    free(l->slots);
    free(l->threads);
    free(l->array);
    free(l);
}

int gwb_loader_open(const char *const *paths, int64_t count, const gwb_loader_params *params, gwb_loader **loader)
{
    *loader = NULL;
    if (count < 0 || params->threads < 0 || params->threads > 64 || params->prefetch < 0 || params->prefetch > 4096 || params->device < 0
        || params->device >= gwb_device_count()) {
        return gwb_fail(GWB_BAD_ARGUMENT, "a list of %lld files, %d threads, %d pictures ahead on device %d", (long long)count, params->threads,
                        params->prefetch, params->device);
    }
    gwb_loader *l = calloc(1, sizeof *l);
    if (!l) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a list of %lld files", (long long)count);
    enum { MOST_OF_NVJPEG = 4 };    // its calls take turns inside: on 16 threads it took twice as long as on 2 to 8
    int threads = gwb_default_threads(params->threads);
    if (params->threads == 0 && params->nvjpeg.create && threads > MOST_OF_NVJPEG) threads = MOST_OF_NVJPEG;
    l->params = *params;
    l->params.read.room = params->device > 0 ? 2 : 1;
    l->count = count;
    l->slot_count = params->prefetch > 0 ? params->prefetch : 2 * threads;
    if (threads > l->slot_count) threads = l->slot_count;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->freed, NULL);
    pthread_cond_init(&l->filled, NULL);
    l->paths = calloc((size_t)count + 1, sizeof *l->paths);
    l->slots = calloc((size_t)l->slot_count, sizeof *l->slots);
    l->threads = calloc((size_t)threads, sizeof *l->threads);
    if (params->read.array) l->params.read.array = l->array = strdup(params->read.array);
    bool good = l->paths && l->slots && l->threads && (l->array || !params->read.array);
    for (int64_t i = 0; good && i < count; i++) good = (l->paths[i] = strdup(paths[i]));
    int rc = good && params->nvjpeg.create && params->device > 0 ? gwb_jpeg_decoder_open(&params->nvjpeg, params->device, &l->jpeg) : 0;
    for (int i = 0; good && rc == 0 && i < threads && i < count; i++) {
        if (pthread_create(&l->threads[i], NULL, work, l) == 0) l->thread_count++;
        else good = i > 0;
    }
    if (good && rc == 0) {
        *loader = l;
        return 0;
    }
    if (!l->slots) l->slot_count = 0;
    gwb_loader_close(l);
    return rc < 0 ? rc : gwb_fail(GWB_OUT_OF_MEMORY, "no memory or no threads for a list of %lld files", (long long)count);
}

int gwb_loader_next(gwb_loader *l, gwb_picture *picture, gwb_mat *const *mats, int64_t *index)
{
    *picture = (gwb_picture){0};
    if (gwb_check_fork() < 0) return GWB_NO_DEVICE;
    if (l->taken == l->count) return 0;
    slot *s = NULL;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        for (int i = 0; i < l->slot_count && !s; i++) {
            slot *one = &l->slots[i];
            if (one->state == READY && (l->params.unordered || one->index == l->taken)) s = one;
        }
        if (s) break;
        pthread_cond_wait(&l->filled, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    int rc = 1;
    *index = s->index;
    if (s->status < 0) {
        rc = gwb_fail(s->status, "%s", s->message);
    } else {
        *picture = s->picture;
        for (int i = 0; i < s->mats; i++) *mats[i] = s->mat[i];
        if (s->mats > 0) rc = 1 + s->mats;
    }
    s->picture = (gwb_picture){0};
    s->mats = 0;
    pthread_mutex_lock(&l->lock);
    l->taken++;
    s->state = FREE;
    pthread_cond_signal(&l->freed);
    pthread_mutex_unlock(&l->lock);
    return rc;
}
