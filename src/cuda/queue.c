// SPDX-License-Identifier: MIT
// Streams and events. Operations are counted, and nothing is recorded while they are enqueued: only when somebody asks for a number that no mark covers
// yet, an event is put into the stream, behind everything enqueued so far, and remembered with that number.
#include "cuda.h"

#include <stdlib.h>

// An event in the stream: once it is reached, operations 1 .. seq are done.
typedef struct mark {
    struct mark *next;
    CUevent event;
    uint64_t seq;
    int waiters;            // threads that wait for the event, or make a stream wait: it may not be recorded anew
    bool listed;
} mark;

typedef struct cuda_queue {
    pthread_mutex_t lock;   // over all below; never held while waiting for the device
    mark *first, *last;     // not reached when last looked at, by seq
    uint64_t done;          // operations 1 .. done are done
    uint64_t current;       // the operation being enqueued, or the last one that was
    uint64_t complete;      // operations 1 .. complete are enqueued to the end
    bool retired;           // the handle may be gone
} cuda_queue;

// ---- events without timing, kept for the next mark

static int take_event(gwb_device *d, CUevent *event)
{
    gwb_cuda_device *c = gwb_cuda_of(d);
    *event = NULL;
    pthread_mutex_lock(&c->lock);
    if (c->spares > 0)
        *event = c->spare[--c->spares];
    pthread_mutex_unlock(&c->lock);
    return *event ? 0 : gwb_cuda_check(gwb_cuda.EventCreate(event, GWB_CUDA_EVENT_DISABLE_TIMING), "making an event on %s", d->info.name);
}

static void keep_event(gwb_device *d, CUevent event)
{
    gwb_cuda_device *c = gwb_cuda_of(d);
    pthread_mutex_lock(&c->lock);
    if (c->spares == c->spare_room) {
        int room = c->spare_room ? 2 * c->spare_room : 16;
        CUevent *grown = realloc(c->spare, (size_t)room * sizeof *grown);
        if (grown) {
            c->spare = grown;
            c->spare_room = room;
        }
    }
    bool kept = c->spares < c->spare_room;
    if (kept)
        c->spare[c->spares++] = event;
    pthread_mutex_unlock(&c->lock);
    if (!kept)
        gwb_cuda.EventDestroy(event);
}

// ---- marks. All of these run under the queue's lock, in the device's context.

static void drop_mark(gwb_device *d, mark *m)
{
    if (m->listed || m->waiters > 0)
        return;
    keep_event(d, m->event);
    free(m);
}

static void unlist_first(gwb_queue *q)
{
    cuda_queue *c = q->impl;
    mark *m = c->first;
    c->first = m->next;
    if (!c->first)
        c->last = NULL;
    m->listed = false;
    drop_mark(q->dev, m);
}

static void reached(gwb_queue *q, uint64_t seq)
{
    cuda_queue *c = q->impl;
    if (c->done < seq)
        c->done = seq;
    gwb_cuda_note_done(q, c->done);
    while (c->first && c->first->seq <= c->done)
        unlist_first(q);
}

// Takes the marks that the device has reached off the list. 0, or a failure.
static int poll_marks(gwb_queue *q)
{
    cuda_queue *c = q->impl;
    while (c->first) {
        CUresult result = gwb_cuda.EventQuery(c->first->event);
        if (result == GWB_CUDA_NOT_READY)
            return 0;
        if (result != 0)
            return gwb_cuda_check(result, "asking %s how far a stream is", q->dev->info.name);
        reached(q, c->first->seq);
    }
    return 0;
}

// A mark that covers `seq`, recorded now where there is none. *out is NULL where `seq` is done.
static int find_mark(gwb_queue *q, uint64_t seq, mark **out)
{
    cuda_queue *c = q->impl;
    *out = NULL;
    if (seq <= c->done)
        return 0;
    for (mark *m = c->first; m; m = m->next)
        if (m->seq >= seq) {
            *out = m;
            return 0;
        }
    if (c->retired)     // its marks covered all that it ever held
        return 0;
    mark *m = calloc(1, sizeof *m);
    if (!m)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    int rc = take_event(q->dev, &m->event);
    if (rc < 0) {
        free(m);
        return rc;
    }
    rc = gwb_cuda_check(gwb_cuda.EventRecord(m->event, gwb_cuda_stream(q)), "marking a stream of %s", q->dev->info.name);
    if (rc < 0) {
        drop_mark(q->dev, m);
        return rc;
    }
    m->seq = seq > c->complete ? seq : c->complete;
    m->listed = true;
    if (c->last)
        c->last->next = m;
    else
        c->first = m;
    c->last = m;
    *out = m;
    return 0;
}

// ---- queues

void gwb_cuda_queue_begin(gwb_queue *q)
{
    cuda_queue *c = q->impl;
    pthread_mutex_lock(&c->lock);
    if (q->issued > c->current) {   // operations are numbered one after the other, so the ones before are whole
        c->complete = q->issued - 1;
        c->current = q->issued;
    }
    pthread_mutex_unlock(&c->lock);
}

static int check_foreign(gwb_device *d, CUstream stream)
{
    CUcontext context = NULL;
    if ((uintptr_t)stream <= 2)     // CUDA's two default streams are those of whatever context is current
        return 0;
    int rc = gwb_cuda_check(gwb_cuda.StreamGetCtx(stream, &context), "taking the stream %p", (void *)stream);
    if (rc >= 0 && context != gwb_cuda_of(d)->context)
        rc = gwb_fail(GWB_BAD_ARGUMENT, "the stream %p does not belong to %s (or to a context of its own there); wanted one of its primary context",
                      (void *)stream, d->info.name);
    return rc;
}

int gwb_cuda_queue_open(gwb_queue *q, const gwb_stream_params *params)
{
    CUDA_SCOPE(q->dev);
    const gwb_cuda_device *d = gwb_cuda_of(q->dev);
    cuda_queue *c = calloc(1, sizeof *c);
    if (!c)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    CUstream stream = params->handle;
    int rc;
    if (params->foreign) {
        rc = check_foreign(q->dev, stream);
    } else {
        int priority = params->priority;
        priority = priority > d->least_priority ? d->least_priority : priority < d->greatest_priority ? d->greatest_priority : priority;
        rc = gwb_cuda_check(gwb_cuda.StreamCreateWithPriority(&stream, params->nonblocking ? GWB_CUDA_STREAM_NON_BLOCKING : 0, priority),
                            "making a stream on %s", q->dev->info.name);
    }
    if (rc < 0) {
        free(c);
        return rc;
    }
    pthread_mutex_init(&c->lock, NULL);
    q->handle = stream;
    q->impl = c;
    return 0;
}

static void close_handles(gwb_queue *q)
{
    CUDA_SCOPE(q->dev);
    cuda_queue *c = q->impl;
    while (c->first)
        unlist_first(q);    // an event may be recorded elsewhere although it was not reached here
    if (!q->foreign)
        gwb_cuda.StreamDestroy(gwb_cuda_stream(q));     // what it holds still runs
}

void gwb_cuda_queue_close(gwb_queue *q)
{
    cuda_queue *c = q->impl;
    if (!gwb_queue_lost(q))
        close_handles(q);
    while (c->first) {      // of a lost queue: its events went with their context
        mark *next = c->first->next;
        free(c->first);
        c->first = next;
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int gwb_cuda_queue_mark(gwb_queue *q)
{
    CUDA_SCOPE(q->dev);
    cuda_queue *c = q->impl;
    mark *m;
    pthread_mutex_lock(&c->lock);
    c->complete = q->issued;    // nothing is being enqueued
    const int rc = find_mark(q, q->issued, &m);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

void gwb_cuda_queue_retire(gwb_queue *q)
{
    CUDA_SCOPE(q->dev);
    cuda_queue *c = q->impl;
    mark *m;
    pthread_mutex_lock(&c->lock);
    if (!c->retired && find_mark(q, q->issued, &m) < 0) {
        gwb_cuda.CtxSynchronize();      // it cannot be marked, so it is waited for
        reached(q, q->issued);
    }
    c->retired = true;
    pthread_mutex_unlock(&c->lock);
}

static int lost(const gwb_queue *q)
{
    return gwb_fail(GWB_CLOSED, "a stream of %s was lost when the device was reset", q->dev->info.name);
}

int gwb_cuda_queue_done(gwb_queue *q, uint64_t seq)
{
    if (gwb_queue_lost(q))
        return lost(q);
    CUDA_SCOPE(q->dev);
    cuda_queue *c = q->impl;
    mark *m;
    pthread_mutex_lock(&c->lock);
    int rc = seq <= c->done ? 0 : poll_marks(q);
    if (rc >= 0 && seq > c->done && !c->retired && (!c->last || c->last->seq < seq)) {
        // no mark would tell: perhaps the stream is empty, else it gets one
        CUresult result = gwb_cuda.StreamQuery(gwb_cuda_stream(q));
        if (result == 0)
            reached(q, seq > c->complete ? seq : c->complete);
        else
            rc = result == GWB_CUDA_NOT_READY ? find_mark(q, seq, &m) : gwb_cuda_check(result, "asking %s how far a stream is", q->dev->info.name);
    }
    int done = seq <= c->done || (c->retired && !c->first);
    pthread_mutex_unlock(&c->lock);
    return rc < 0 ? rc : done;
}

int gwb_cuda_queue_wait(gwb_queue *q, uint64_t seq)
{
    if (gwb_queue_lost(q))
        return lost(q);
    CUDA_SCOPE(q->dev);
    cuda_queue *c = q->impl;
    mark *m;
    pthread_mutex_lock(&c->lock);
    int rc = find_mark(q, seq, &m);
    if (rc >= 0 && m) {
        m->waiters++;
        pthread_mutex_unlock(&c->lock);
        rc = gwb_cuda_check(gwb_cuda.EventSynchronize(m->event), "waiting for a stream of %s", q->dev->info.name);
        pthread_mutex_lock(&c->lock);
        if (rc >= 0)
            reached(q, m->seq);
        m->waiters--;
        drop_mark(q->dev, m);
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

int gwb_cuda_queue_after(gwb_queue *q, gwb_queue *other, uint64_t seq)
{
    if (q == other)
        return 0;
    if (other->dev->ops != &gwb_cuda_ops)   // no stream of CUDA's can wait for another device's thread without a risk of deadlock: this one does
        return other->dev->ops->queue_wait(other, seq);
    cuda_queue *c = other->impl;
    mark *m;
    pthread_mutex_lock(&c->lock);
    int rc;
    {
        CUDA_SCOPE(other->dev);
        rc = find_mark(other, seq, &m);
    }
    if (rc >= 0 && m)
        m->waiters++;
    pthread_mutex_unlock(&c->lock);
    if (rc < 0 || !m)
        return rc;
    {
        CUDA_SCOPE(q->dev);
        rc = gwb_cuda_check(gwb_cuda.StreamWaitEvent(gwb_cuda_stream(q), m->event, 0), "making a stream of %s wait", q->dev->info.name);
    }
    pthread_mutex_lock(&c->lock);
    m->waiters--;
    drop_mark(other->dev, m);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

// ---- events that a caller made

int gwb_cuda_event_open(gwb_event *e, gwb_device *d)
{
    CUDA_SCOPE(d);
    CUevent event = NULL;
    const unsigned flags = e->shared ? GWB_CUDA_EVENT_DISABLE_TIMING | GWB_CUDA_EVENT_INTERPROCESS : e->timing ? 0 : GWB_CUDA_EVENT_DISABLE_TIMING;
    int rc = gwb_cuda_check(gwb_cuda.EventCreate(&event, flags), "making an event on %s", d->info.name);
    e->handle = event;
    return rc;
}

static void destroy_event(gwb_event *e)
{
    CUDA_SCOPE(gwb_cuda_opened(e->device));
    gwb_cuda.EventDestroy(e->handle);
}

void gwb_cuda_event_close(gwb_event *e)
{
    if (gwb_device_peek(e->device)->epoch == e->epoch)      // else it went with its context
        destroy_event(e);
    e->handle = NULL;
}

int gwb_cuda_event_record(gwb_event *e, gwb_queue *q)
{
    CUDA_SCOPE(q->dev);
    gwb_cuda_queue_begin(q);
    return gwb_cuda_check(gwb_cuda.EventRecord(e->handle, gwb_cuda_stream(q)), "recording an event on %s", q->dev->info.name);
}

int gwb_cuda_event_after(gwb_queue *q, const gwb_event *e)
{
    CUDA_SCOPE(q->dev);
    return gwb_cuda_check(gwb_cuda.StreamWaitEvent(gwb_cuda_stream(q), e->handle, 0), "making a stream of %s wait for an event", q->dev->info.name);
}

int gwb_cuda_event_query(const gwb_event *e)
{
    const gwb_device *d = gwb_cuda_opened(e->device);
    CUDA_SCOPE(d);
    CUresult result = gwb_cuda.EventQuery(e->handle);
    if (result == GWB_CUDA_NOT_READY)
        return 0;
    int rc = gwb_cuda_check(result, "asking for an event of %s", d->info.name);
    return rc < 0 ? rc : 1;
}

int gwb_cuda_event_wait(const gwb_event *e)
{
    const gwb_device *d = gwb_cuda_opened(e->device);
    CUDA_SCOPE(d);
    return gwb_cuda_check(gwb_cuda.EventSynchronize(e->handle), "waiting for an event of %s", d->info.name);
}

int gwb_cuda_event_elapsed(const gwb_event *a, const gwb_event *b, double *ms)
{
    const gwb_device *d = gwb_cuda_opened(a->device);
    CUDA_SCOPE(d);
    float time = 0;
    int rc = gwb_cuda_check(gwb_cuda.EventElapsedTime(&time, a->handle, b->handle), "taking the time between two events of %s", d->info.name);
    *ms = time;
    return rc;
}
