// SPDX-License-Identifier: MIT
// Pictures written behind: the producer hands copies over and goes on; threads encode and write them.
#include "loader.h"

#include "codec/codec.h"
#include "device.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    struct job *next;
    gwb_picture picture;        // a copy of its own
    gwb_write_params params;
    char kind[8];
    int64_t id;
    int status;                 // once it failed
    char message[1024];
    char path[];
} job;

struct gwb_writer {
    job *first, **last;         // waiting
    job *failed, **last_failed;
    int64_t waiting, running, ahead, ids;
    pthread_t *threads;
    int thread_count;
    bool stop;
    pthread_mutex_t lock;
    pthread_cond_t came, went;
};

int gwb_picture_copy(const gwb_picture *from, gwb_picture *to)
{
    int64_t size = 0, used = 0;
    for (int i = 0; i < from->planes; i++) {
        const gwb_plane *p = &from->plane[i];
        size += ((int64_t)p->width * p->channels * gwb_type_size(p->type) * p->height + 63) / 64 * 64;
    }
    *to = *from;
    to->mapped = 0;
    to->memory = NULL;
    to->room = NULL;
    uint8_t *data = gwb_room_block(to, size);
    if (!data) data = to->memory = malloc((size_t)size + (size == 0));
    to->icc = NULL;
    if (from->icc && (to->icc = malloc((size_t)from->icc_size))) memcpy(to->icc, from->icc, (size_t)from->icc_size);
    if (!data || (from->icc && !to->icc)) {
        gwb_picture_free(to);
        return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a copy of %lld bytes", (long long)size);
    }
    for (int i = 0; i < from->planes; i++) {
        const gwb_plane *p = &from->plane[i];
        int64_t row = (int64_t)p->width * p->channels * gwb_type_size(p->type);
        to->plane[i].data = data + used;
        to->plane[i].step = row;
        for (int32_t y = 0; y < p->height; y++) memcpy(to->plane[i].data + y * row, p->data + y * p->step, (size_t)row);
        used += (row * p->height + 63) / 64 * 64;
    }
    return 0;
}

static void free_job(job *j)
{
    gwb_picture_free(&j->picture);
    free(j);
}

static void *work(void *user)
{
    gwb_writer *w = user;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->first && !w->stop) pthread_cond_wait(&w->came, &w->lock);
        job *j = w->first;
        if (!j) break;
        w->first = j->next;
        if (!w->first) w->last = &w->first;
        w->waiting--;
        w->running++;
        pthread_mutex_unlock(&w->lock);
        gwb_bytes bytes = {0};
        int rc = gwb_encode(&j->picture, j->kind, &j->params, &bytes);
        if (rc == 0) rc = gwb_file_write(j->path, bytes.data, bytes.size, j->params.sync);
        gwb_bytes_free(&bytes);
        if (rc < 0) {
            j->status = rc;
            snprintf(j->message, sizeof j->message, "%s", gwb_error_message());
            gwb_picture_free(&j->picture);
        }
        pthread_mutex_lock(&w->lock);
        w->running--;
        if (rc < 0) {
            j->next = NULL;
            *w->last_failed = j;
            w->last_failed = &j->next;
        } else {
            free_job(j);
        }
        pthread_cond_broadcast(&w->went);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int gwb_writer_open(int threads, int ahead, gwb_writer **writer)
{
    *writer = NULL;
    if (threads < 0 || threads > 64 || ahead < 0 || ahead > 4096) return gwb_fail(GWB_BAD_ARGUMENT, "%d threads, %d pictures ahead", threads, ahead);
    gwb_writer *w = calloc(1, sizeof *w);
    threads = gwb_default_threads(threads);
    if (w) w->threads = calloc((size_t)threads, sizeof *w->threads);
    if (!w || !w->threads) {
        free(w);
        return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a writer");
    }
    w->last = &w->first;
    w->last_failed = &w->failed;
    w->ahead = ahead > 0 ? ahead : 2 * threads;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->came, NULL);
    pthread_cond_init(&w->went, NULL);
    for (; w->thread_count < threads; w->thread_count++) if (pthread_create(&w->threads[w->thread_count], NULL, work, w) != 0) break;
    if (w->thread_count > 0) {
        *writer = w;
        return 0;
    }
    gwb_writer_close(w);
    return gwb_fail(GWB_OUT_OF_MEMORY, "no thread for a writer");
}

// Pixels in a mat that is the writer's now need no copy.
static int keep_picture(const gwb_picture *from, gwb_picture *to)
{
    *to = *from;
    to->memory = NULL;
    to->mapped = 0;
    to->icc = NULL;
    if (!from->icc) return 0;
    to->icc = malloc((size_t)from->icc_size);
    if (!to->icc) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a colour profile");
    memcpy(to->icc, from->icc, (size_t)from->icc_size);
    return 0;
}

int gwb_writer_put(gwb_writer *w, const gwb_picture *picture, const char *kind, const gwb_write_params *params, const char *path)
{
    if (gwb_check_fork() < 0) return GWB_NO_DEVICE;
    size_t length = strlen(path) + 1;
    job *j = calloc(1, sizeof *j + length);
    if (!j) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for one more picture");
    int rc = picture->room ? keep_picture(picture, &j->picture) : gwb_picture_copy(picture, &j->picture);
    if (rc < 0) {
        free(j);
        return rc;
    }
    j->params = *params;
    snprintf(j->kind, sizeof j->kind, "%s", kind);
    memcpy(j->path, path, length);
    pthread_mutex_lock(&w->lock);
    while (w->waiting + w->running >= w->ahead) pthread_cond_wait(&w->went, &w->lock);
    *w->last = j;
    w->last = &j->next;
    w->waiting++;
    pthread_cond_signal(&w->came);
    pthread_mutex_unlock(&w->lock);
    return 0;
}

void gwb_writer_wait(gwb_writer *w)
{
    if (gwb_forked) return;     // they are the parent's to write
    pthread_mutex_lock(&w->lock);
    while (w->waiting + w->running > 0) pthread_cond_wait(&w->went, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

int gwb_writer_failed(gwb_writer *w, gwb_bytes *path)
{
    if (gwb_forked) return 0;
    pthread_mutex_lock(&w->lock);
    job *j = w->failed;
    if (j) {
        w->failed = j->next;
        if (!w->failed) w->last_failed = &w->failed;
    }
    pthread_mutex_unlock(&w->lock);
    if (!j) return 0;
    size_t length = strlen(j->path);
    path->data = malloc(length + 1);
    if (path->data) {
        memcpy(path->data, j->path, length + 1);
        path->size = path->capacity = (int64_t)length;
    }
    int rc = gwb_fail(j->status, "%s", j->message);
    free_job(j);
    return rc;
}

void gwb_writer_close(gwb_writer *w)
{
    if (!w || gwb_forked) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->came);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->thread_count; i++) pthread_join(w->threads[i], NULL);
    while (w->failed) {
        job *j = w->failed;
        w->failed = j->next;
        free_job(j);
    }
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->came);
    pthread_cond_destroy(&w->went);
    free(w->threads);
    free(w);
}
