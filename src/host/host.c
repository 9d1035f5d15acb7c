// SPDX-License-Identifier: MIT
// The host device: memory, and streams that are real queues, each with a worker thread of its own.
#include "device.h"
#include "host/kernel.h"
#include "host/kernels.h"
#include "host/parallel.h"
#include "host/share.h"
#include "stream.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COPY_RECTS = 4, WORK_GRAIN = 64 << 10 };    // bytes that pay for waking another thread

// One operation in a queue.
typedef struct job {
    struct job *next;
    void (*run)(struct job *);
    uint64_t seq;               // 0: no operation of its own, only a wait
    union {
        gwb_launch launch;      // its args follow the job
        struct { gwb_rect rect[COPY_RECTS]; int count; } copy;
        struct { gwb_queue *queue; uint64_t seq; } wait;
        struct { void (*fn)(void *); void *arg; void (*drop)(void *); } call;
        struct timespec sleep;
        struct host_event *event;
        struct record *record;
    };
} job;

// Jobs that are run together, any number of times. Counted: the graph and each job that will run it.
typedef struct record {
    atomic_int refs;
    job *first, **last;
} record;

typedef struct host_queue {
    pthread_mutex_t lock;
    pthread_cond_t came, ended;     // a job came; a job ended
    job *first, **last;
    uint64_t done;                  // newest operation that ended
    record *record;                 // gets what is enqueued, while the queue records; under gwb_lock
    bool closing;                   // the worker leaves, and frees this, once the queue is empty
    bool started;
} host_queue;

// A point in a host queue. Counted: the gwb_event and each job that will reach it.
typedef struct host_event {
    atomic_int refs;
    gwb_queue *queue;               // referenced; under gwb_lock
    uint64_t seq;
    _Atomic double time;            // ms of the monotonic clock
} host_event;

// Jobs that ended and hold a queue reference, which only a thread with gwb_lock gives up: a worker must never wait for that lock, whose
// holder may be waiting for the worker.
static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_ended = PTHREAD_COND_INITIALIZER;
static job *ended_waits;
static int64_t outstanding;     // jobs enqueued and not ended, over all queues
static char fault[640];         // of work that failed, until a waiting call takes it; "" where there is none

// Under gwb_lock.
static void release_ended(void)
{
    pthread_mutex_lock(&ended_lock);
    job *list = ended_waits;
    ended_waits = NULL;
    pthread_mutex_unlock(&ended_lock);
    while (list) {
        job *j = list;
        list = j->next;
        gwb_queue_release(j->wait.queue);
        free(j);
    }
}

// ---- failures of work under way

void gwb_host_fault(const char *text)
{
    pthread_mutex_lock(&ended_lock);
    if (!fault[0])
        snprintf(fault, sizeof fault, "%s", text);
    pthread_mutex_unlock(&ended_lock);
}

static int take_fault(void)
{
    char text[sizeof fault];
    pthread_mutex_lock(&ended_lock);
    memcpy(text, fault, sizeof fault);
    fault[0] = 0;
    pthread_mutex_unlock(&ended_lock);
    return text[0] ? gwb_fail(GWB_DEVICE, "host: %s", text) : 0;
}

// ---- jobs

typedef struct rows_context {
    const gwb_launch *launch;
    int32_t z;
} rows_context;

static void launch_rows(void *context, int64_t first, int64_t end)
{
    const rows_context *c = context;
    gwb_host_kernels[c->launch->kernel](c->launch->args, c->launch->nx, (int32_t)first, (int32_t)end, c->z);
}

static void run_launch(job *j)
{
    j->launch.args = j + 1;
    int64_t grain = WORK_GRAIN / j->launch.nx;
    for (int32_t z = 0; z < j->launch.nz; z++)
        gwb_parallel(j->launch.ny, grain < 1 ? 1 : grain, launch_rows, &(rows_context){&j->launch, z});
}

static void copy_rows(void *context, int64_t first, int64_t end)
{
    const gwb_rect *r = context;
    if (r->dst_step == r->width && r->src_step == r->width) {
        memcpy(r->dst + first * r->width, r->src + first * r->width, (size_t)((end - first) * r->width));
        return;
    }
    for (int64_t y = first; y < end; y++)
        memcpy(r->dst + y * r->dst_step, r->src + y * r->src_step, (size_t)r->width);
}

static void run_copy(job *j)
{
    for (int i = 0; i < j->copy.count; i++) {
        gwb_rect *r = &j->copy.rect[i];
        if (r->dst_step == r->width && r->src_step == r->width && r->rows < 64 && r->width * r->rows > 4 * WORK_GRAIN) {
            // one run of bytes: cut into rows for the threads, the odd end by itself
            int64_t bytes = r->width * r->rows, rows = bytes / WORK_GRAIN;
            gwb_rect cut = *r;
            cut.width = cut.dst_step = cut.src_step = WORK_GRAIN;
            gwb_parallel(rows, 4, copy_rows, &cut);
            memcpy(r->dst + rows * WORK_GRAIN, r->src + rows * WORK_GRAIN, (size_t)(bytes - rows * WORK_GRAIN));
            continue;
        }
        gwb_parallel(r->rows, 1 + 4 * WORK_GRAIN / r->width, copy_rows, r);
    }
}

static void wait_done(host_queue *h, uint64_t seq)
{
    pthread_mutex_lock(&h->lock);
    while (h->done < seq)
        pthread_cond_wait(&h->ended, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void run_wait(job *j)
{
    gwb_queue *q = j->wait.queue;
    if (q->dev->ops == &gwb_host_ops)
        wait_done(q->impl, j->wait.seq);        // a failure is for whoever waits in a call
    else
        q->dev->ops->queue_wait(q, j->wait.seq);
}

static void run_call(job *j)
{
    j->call.fn(j->call.arg);
}

static void run_sleep(job *j)
{
    struct timespec left = j->sleep;
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static void free_job(job *j)
{
    if (j->run == run_call && j->call.drop)
        j->call.drop(j->call.arg);
    free(j);
}

static void run_record(job *j)
{
    for (job *each = j->record->first; each; each = each->next)
        each->run(each);
}

static void record_unref(record *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    while (r->first) {
        job *next = r->first->next;
        free_job(r->first);
        r->first = next;
    }
    free(r);
}

static void event_unref(host_event *e)
{
    if (atomic_fetch_sub(&e->refs, 1) == 1)
        free(e);
}

static void run_event(job *j)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    j->event->time = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

// ---- the worker

static void *work(void *arg)
{
    host_queue *h = arg;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        job *j = h->first;
        if (!j && h->closing)
            break;
        if (!j) {
            pthread_cond_wait(&h->came, &h->lock);
            continue;
        }
        h->first = j->next;
        if (!h->first)
            h->last = &h->first;
        pthread_mutex_unlock(&h->lock);
        j->run(j);
        if (j->run == run_event)
            event_unref(j->event);
        else if (j->run == run_record)
            record_unref(j->record);
        pthread_mutex_lock(&h->lock);
        if (j->seq)
            h->done = j->seq;
        pthread_cond_broadcast(&h->ended);
        pthread_mutex_lock(&ended_lock);
        if (j->run == run_wait) {
            j->next = ended_waits;
            ended_waits = j;
        } else {
            free_job(j);
        }
        if (--outstanding == 0)
            pthread_cond_broadcast(&all_ended);
        pthread_mutex_unlock(&ended_lock);
    }
    pthread_mutex_unlock(&h->lock);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->came);
    pthread_cond_destroy(&h->ended);
    free(h);
    return NULL;
}

static job *new_job(gwb_queue *q, void (*run)(job *), size_t extra)
{
    release_ended();
    job *j = calloc(1, sizeof *j + extra);
    if (!j) {
        gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
        return NULL;
    }
    j->run = run;
    j->seq = q->issued;
    return j;
}

static int enqueue(gwb_queue *q, job *j)
{
    host_queue *h = q->impl;
    if (h->record) {
        *h->record->last = j;
        h->record->last = &j->next;
        return 0;
    }
    pthread_mutex_lock(&h->lock);
    if (!h->started) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, h) != 0) {
            pthread_mutex_unlock(&h->lock);
            free_job(j);
            return gwb_fail(GWB_OUT_OF_MEMORY, "no thread could be started for a stream of the host device");
        }
        pthread_detach(thread);
        h->started = true;
    }
    pthread_mutex_lock(&ended_lock);
    outstanding++;
    pthread_mutex_unlock(&ended_lock);
    *h->last = j;
    h->last = &j->next;
    pthread_cond_signal(&h->came);
    pthread_mutex_unlock(&h->lock);
    return 0;
}

// ---- the device's functions

void gwb_host_describe(gwb_device_info *info)
{
    info->units = gwb_parallel_threads();
    info->memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    snprintf(info->model, sizeof info->model, "host processor");
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "model name : %127[^\n]", info->model) == 1)
            break;
    if (f)
        fclose(f);
}

static int host_open(gwb_device *d)
{
    (void)d;
    return 0;
}

static int host_memory(gwb_device *d, int64_t *free_bytes, int64_t *total)
{
    *total = d->info.memory;
    *free_bytes = (int64_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
    FILE *f = fopen("/proc/meminfo", "re");     // what the page cache would give up counts as free
    char line[128];
    long long kib;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
            *free_bytes = kib * 1024;
    if (f)
        fclose(f);
    return 0;
}

static int host_alloc(gwb_device *d, int64_t bytes, void **out)
{
    // The kernel promises more than there is and kills later, so what cannot fit is refused here.
    void *memory = NULL;
    if (bytes > d->info.memory || posix_memalign(&memory, 64, (size_t)bytes) != 0)
        return gwb_fail(GWB_OUT_OF_MEMORY, "host: no room for %lld bytes", (long long)bytes);
    *out = memory;
    return 0;
}

static void host_release(gwb_device *d, void *memory, int64_t bytes)
{
    (void)d, (void)bytes;
    free(memory);
}

static int host_queue_open(gwb_queue *q, const gwb_stream_params *params)
{
    (void)params;
    host_queue *h = calloc(1, sizeof *h);
    if (!h)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->came, NULL);
    pthread_cond_init(&h->ended, NULL);
    h->last = &h->first;
    q->impl = q->handle = h;
    return 0;
}

static void host_queue_close(gwb_queue *q)
{
    host_queue *h = q->impl;
    pthread_mutex_lock(&h->lock);
    bool started = h->started;
    h->closing = true;
    pthread_cond_signal(&h->came);
    pthread_mutex_unlock(&h->lock);
    if (!started) {
        pthread_mutex_destroy(&h->lock);
        pthread_cond_destroy(&h->came);
        pthread_cond_destroy(&h->ended);
        free(h);
    }
}

static void host_queue_retire(gwb_queue *q)
{
    (void)q;    // no host queue is foreign
}

static int host_queue_done(gwb_queue *q, uint64_t seq)
{
    host_queue *h = q->impl;
    pthread_mutex_lock(&h->lock);
    int done = h->done >= seq;
    pthread_mutex_unlock(&h->lock);
    return done;
}

static int host_queue_wait(gwb_queue *q, uint64_t seq)
{
    wait_done(q->impl, seq);
    return take_fault();
}

static int host_queue_after(gwb_queue *q, gwb_queue *other, uint64_t seq)
{
    job *j = new_job(q, run_wait, 0);
    if (!j)
        return GWB_OUT_OF_MEMORY;
    j->seq = 0;
    j->wait.queue = other;
    j->wait.seq = seq;
    gwb_queue_retain(other);
    int rc = enqueue(q, j);
    if (rc < 0)
        gwb_queue_release(other);
    return rc;
}

static int host_synchronize(gwb_device *d)
{
    (void)d;
    pthread_mutex_lock(&ended_lock);
    while (outstanding > 0)
        pthread_cond_wait(&all_ended, &ended_lock);
    pthread_mutex_unlock(&ended_lock);
    return take_fault();
}

static int host_event_open(gwb_event *e, gwb_device *d)
{
    (void)d;
    if (e->shared)
        return gwb_host_event_create(e);
    host_event *h = calloc(1, sizeof *h);
    if (!h)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    h->refs = 1;
    e->handle = h;
    return 0;
}

static void host_event_close(gwb_event *e)
{
    if (e->shared) {
        gwb_host_event_leave(e);
        return;
    }
    host_event *h = e->handle;
    if (h->queue)
        gwb_queue_release(h->queue);
    h->queue = NULL;
    event_unref(h);
    e->handle = NULL;
}

static int host_event_record(gwb_event *e, gwb_queue *q)
{
    if (e->shared)
        return gwb_host_event_record(e, q);
    host_event *h = e->handle;
    job *j = new_job(q, run_event, 0);
    if (!j)
        return GWB_OUT_OF_MEMORY;
    j->event = h;
    atomic_fetch_add(&h->refs, 1);
    int rc = enqueue(q, j);
    if (rc < 0) {
        event_unref(h);
        return rc;
    }
    gwb_queue_retain(q);
    if (h->queue)
        gwb_queue_release(h->queue);
    h->queue = q;
    h->seq = q->issued;
    return 0;
}

static int host_event_after(gwb_queue *q, const gwb_event *e)
{
    if (e->shared)
        return gwb_host_event_after(q, e);
    host_event *h = e->handle;
    return h->queue == q ? 0 : host_queue_after(q, h->queue, h->seq);
}

static int host_event_query(const gwb_event *e)
{
    if (e->shared)
        return gwb_host_event_query(e);
    host_event *h = e->handle;
    return host_queue_done(h->queue, h->seq);
}

static int host_event_wait(const gwb_event *e)
{
    if (e->shared)
        return gwb_host_event_wait(e);
    host_event *h = e->handle;
    return host_queue_wait(h->queue, h->seq);
}

static int host_event_elapsed(const gwb_event *a, const gwb_event *b, double *ms)
{
    *ms = ((host_event *)b->handle)->time - ((host_event *)a->handle)->time;
    return 0;
}

static int host_copy(gwb_queue *q, const gwb_rect *rects, int count)
{
    job *j = new_job(q, run_copy, 0);
    if (!j)
        return GWB_OUT_OF_MEMORY;
    memcpy(j->copy.rect, rects, (size_t)count * sizeof *rects);
    j->copy.count = count;
    return enqueue(q, j);
}

static int host_launch(gwb_queue *q, const gwb_launch *launch)
{
    job *j = new_job(q, run_launch, (size_t)launch->args_size);
    if (!j)
        return GWB_OUT_OF_MEMORY;
    j->launch = *launch;
    memcpy(j + 1, launch->args, (size_t)launch->args_size);
    return enqueue(q, j);
}

static int host_sleep(gwb_queue *q, double ms)
{
    job *j = new_job(q, run_sleep, 0);
    if (!j)
        return GWB_OUT_OF_MEMORY;
    j->sleep.tv_sec = (time_t)(ms / 1000);
    j->sleep.tv_nsec = (long)((ms - 1000 * (double)j->sleep.tv_sec) * 1e6);
    return enqueue(q, j);
}

static int host_call(gwb_queue *q, void (*fn)(void *), void *arg, void (*drop)(void *))
{
    job *j = new_job(q, run_call, 0);
    if (!j) {
        if (drop)
            drop(arg);
        return GWB_OUT_OF_MEMORY;
    }
    j->call.drop = drop;
    j->call.fn = fn;
    j->call.arg = arg;
    return enqueue(q, j);
}

static int host_record_begin(gwb_queue *q)
{
    record *r = calloc(1, sizeof *r);
    if (!r)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    r->refs = 1;
    r->last = &r->first;
    ((host_queue *)q->impl)->record = r;
    return 0;
}

static int host_record_end(gwb_queue *q, void **recorded)
{
    host_queue *h = q->impl;
    record *r = h->record;
    h->record = NULL;
    if (recorded)
        *recorded = r;
    else
        record_unref(r);
    return 0;
}

static int host_record_launch(gwb_queue *q, void *recorded)
{
    job *j = new_job(q, run_record, 0);
    if (!j)
        return GWB_OUT_OF_MEMORY;
    j->record = recorded;
    atomic_fetch_add(&j->record->refs, 1);
    int rc = enqueue(q, j);
    if (rc < 0)
        record_unref(recorded);
    return rc;
}

static void host_record_replace(gwb_device *d, void *old, void *recorded)
{
    (void)d, (void)old, (void)recorded;
}

static void host_record_close(gwb_device *d, void *recorded, bool lost)
{
    (void)d, (void)lost;
    record_unref(recorded);
}

// Libraries of the processor know no device.
static void *host_enter(gwb_device *d)
{
    (void)d;
    return NULL;
}

static void host_leave(gwb_device *d, void *outer)
{
    (void)d;
    (void)outer;
}

// The queues live on until their streams are closed; memory is the heap's.
static void host_reset(gwb_device *d)
{
    (void)d;
}

const gwb_device_ops gwb_host_ops = {
    .open = host_open, .memory = host_memory, .alloc = host_alloc, .release = host_release, .synchronize = host_synchronize,
    .queue_open = host_queue_open, .queue_close = host_queue_close, .queue_retire = host_queue_retire,
    .queue_done = host_queue_done, .queue_wait = host_queue_wait, .queue_after = host_queue_after,
    .event_open = host_event_open, .event_close = host_event_close, .event_record = host_event_record, .event_after = host_event_after,
    .event_query = host_event_query, .event_wait = host_event_wait, .event_elapsed = host_event_elapsed,
    .share_create = gwb_host_share_create, .share_open = gwb_host_share_open, .share_close = gwb_host_share_close,
    .event_share = gwb_host_event_share, .event_join = gwb_host_event_join, .identify = gwb_host_identify,
    .copy = host_copy, .launch = host_launch, .sleep = host_sleep, .call = host_call,
    .record_begin = host_record_begin, .record_end = host_record_end, .record_launch = host_record_launch, .record_replace = host_record_replace,
    .record_close = host_record_close,
    .kernel_open = gwb_host_kernel_open, .kernel_close = gwb_host_kernel_close, .kernel_launch = gwb_host_kernel_launch, .enter = host_enter, .leave = host_leave,
    .reset = host_reset,
};
