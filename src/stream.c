// SPDX-License-Identifier: MIT
// Streams and the ordering by data.
#include "stream.h"

#include "mat.h"
#include "trace.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- queues

static gwb_queue *all_queues;   // under gwb_lock

static int open_queue(gwb_queue **out, gwb_device *dev, const gwb_stream_params *params)
{
    gwb_queue *q = calloc(1, sizeof *q);
    if (!q)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    q->dev = dev;
    q->refs = 1;
    q->foreign = params->foreign != 0;
    q->epoch = dev->epoch;
    q->number = ++dev->queues;
    int rc = dev->ops->queue_open(q, params);
    if (rc < 0) {
        free(q);
        return rc;
    }
    q->next = all_queues;
    all_queues = q;
    *out = q;
    return 0;
}

void gwb_queue_retain(gwb_queue *q)
{
    q->refs++;
}

void gwb_queue_release(gwb_queue *q)
{
    if (gwb_forked || --q->refs > 0)
        return;
    gwb_queue **at = &all_queues;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->dev->ops->queue_close(q);
    free(q);
}

gwb_queue *gwb_queue_default(gwb_device *dev)
{
    static const gwb_stream_params plain;
    if (!dev->default_queue && open_queue(&dev->default_queue, dev, &plain) < 0)
        return NULL;
    return dev->default_queue;
}

gwb_queue *gwb_queue_legacy(gwb_device *dev)
{
    static const gwb_stream_params legacy = {.handle = (void *)1, .foreign = 1};
    if (!dev->legacy_queue && open_queue(&dev->legacy_queue, dev, &legacy) < 0)
        return NULL;
    return dev->legacy_queue;
}

// Another queue over the same stream, as where it was wrapped twice or is one of gpuwb's own.
static bool twins(const gwb_queue *a, const gwb_queue *b)
{
    return a != b && a->dev == b->dev && a->handle && a->handle == b->handle && !a->dead && !gwb_queue_lost(a);
}

static bool twin_records(const gwb_queue *q)
{
    const gwb_queue *other = gwb_graph_recording() ? all_queues : NULL;
    while (other && !(other->graph && twins(other, q)))
        other = other->next;
    return other != NULL;
}

static int check_twins(const gwb_queue *q)
{
    return twin_records(q) ? gwb_fail(GWB_UNSUPPORTED, "the stream is recording under another of its wrappers; use that one until its stream:capture ends")
                           : 0;
}

void gwb_queue_mark_twins(const gwb_queue *q)
{
    for (gwb_queue *other = all_queues; other; other = other->next)
        if (twins(other, q) && other->issued > 0)
            other->dev->ops->queue_done(other, other->issued);
}

// Numbers what the queue holds now, work of others included, so that a wait for that number covers it.
static int number_now(gwb_queue *q)
{
    if (q->graph) {     // what another library enqueued is recorded
        gwb_graph_count(q->graph);
        return 0;
    }
    q->issued++;
    if (q->dev->info.cuda)
        return 0;       // an event recorded later covers it
    int rc = q->dev->ops->sleep(q, 0);
    if (rc < 0)
        q->issued--;
    return rc;
}

// ---- waits that a person at the prompt may break off: they ask again and again, since what blocks in a driver hears nothing

static atomic_bool breakable, interrupted;

void gwb_waits_break_off(int on)
{
    breakable = on != 0;
    interrupted = false;
}

void gwb_interrupt(void)
{
    interrupted = true;
}

bool gwb_interrupted(void)
{
    return interrupted;
}

int gwb_wait_asks(void)
{
    return !breakable ? 0 : interrupted ? gwb_fail(GWB_INTERRUPTED, "interrupted while it waited for an event; the work goes on") : 1;
}

int gwb_queue_wait(gwb_queue *q, uint64_t seq)
{
    for (int turns = 0; breakable; turns++) {
        int done = q->dev->ops->queue_done(q, seq);
        if (done != 0)
            break;      // queue_wait tells failures
        if (interrupted)
            return gwb_fail(GWB_INTERRUPTED, "interrupted while it waited for %s, whose work goes on", q->dev->info.name);
        if (turns < 200)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return q->dev->ops->queue_wait(q, seq);
}

int gwb_device_wait(gwb_device *d)
{
    int rc = 0;
    if (breakable) {
        gwb_lock();
        int count = 0;
        for (gwb_queue *q = all_queues; q; q = q->next)
            count += q->dev == d && q->issued > 0 && !q->dead && !gwb_queue_lost(q);
        struct { gwb_queue *queue; uint64_t seq; } *list = calloc((size_t)count + 1, sizeof *list);
        count = 0;
        for (gwb_queue *q = list ? all_queues : NULL; q; q = q->next)
            if (q->dev == d && q->issued > 0 && !q->dead && !q->graph && !gwb_queue_lost(q) && number_now(q) >= 0) {
                gwb_queue_retain(q);
                list[count].queue = q;
                list[count++].seq = q->issued;
            }
        gwb_unlock();
        for (int i = 0; i < count; i++) {
            int one = rc < 0 ? rc : gwb_queue_wait(list[i].queue, list[i].seq);
            rc = one < 0 ? one : rc;
        }
        gwb_lock();
        for (int i = 0; i < count; i++)
            gwb_queue_release(list[i].queue);
        gwb_unlock();
        free(list);
    }
    return rc < 0 ? rc : d->ops->synchronize(d);
}

// ---- operations

int gwb_op_begin(gwb_op *op, int device, const gwb_stream *s)
{
    op->queue = NULL;
    op->note = NULL;
    op->bytes_read = op->bytes_written = 0;
    op->count = 0;
    int rc = s ? gwb_stream_check(s, "stream") : 0;
    if (rc < 0)
        return rc;
    gwb_device *dev = gwb_device_at(device);
    if (!dev)
        return GWB_NO_DEVICE;
    gwb_lock();
    if (s && s->device != device) {
        gwb_unlock();
        gwb_device *other = gwb_device_at(s->device);
        return gwb_fail(GWB_BAD_ARGUMENT, "stream belongs to %s, the memory to %s; use a stream of %s", other ? other->info.name : "another device",
                        dev->info.name, dev->info.name);
    }
    op->queue = s ? s->queue : gwb_queue_default(dev);
    rc = op->queue ? check_twins(op->queue) : GWB_DEVICE;
    if (rc < 0) {
        gwb_unlock();
        return rc;
    }
    gwb_queue_retain(op->queue);
    return 0;
}

void gwb_op_use(gwb_op *op, gwb_buf *b, bool write)
{
    if (!b)
        return;
    for (int i = 0; i < op->count; i++)
        if (op->use[i].buf == b) {
            op->use[i].write |= write;
            return;
        }
    if (op->count == GWB_OP_USES)   // more buffers than any operation names
        abort();
    op->use[op->count].buf = b;
    op->use[op->count++].write = write;
}

void gwb_op_read(gwb_op *op, const gwb_mat *m)
{
    op->bytes_read += (int64_t)m->width * m->height * m->elem_size;
    gwb_op_use(op, m->buf, false);
}

void gwb_op_write(gwb_op *op, const gwb_mat *m)
{
    op->bytes_written += (int64_t)m->width * m->height * m->elem_size;
    gwb_op_use(op, m->buf, true);
}

int gwb_queue_before(gwb_queue *q, gwb_buf *b, bool write)
{
    return q->graph ? gwb_graph_use(q->graph, b, write) : gwb_buf_order(b, q, write);
}

int gwb_queue_behind(gwb_queue *q, gwb_buf *b, uint64_t seq, bool write)
{
    return q->graph ? 0 : gwb_buf_used(b, q, seq, write);
}

int gwb_op_ready(gwb_op *op)
{
    int rc = 0;
    for (int i = 0; i < op->count && rc >= 0; i++)
        rc = op->use[i].buf->lost ? gwb_fail(GWB_CLOSED, "memory that the operation uses was lost when %s was reset", op->use[i].buf->dev->info.name)
                                  : gwb_queue_before(op->queue, op->use[i].buf, op->use[i].write);
    if (op->note)
        gwb_trace_begin(op);
    gwb_op_again(op);       // also after a failure: gwb_op_end takes it back
    return rc;
}

void gwb_op_again(gwb_op *op)
{
    if (op->queue->graph)
        gwb_graph_count(op->queue->graph);
    else
        op->queue->issued++;
}

// $GPUWB_SYNC=1, to find out which operation fails: each is waited for.
static bool waits_for_all(void)
{
    static atomic_int known = -1;
    if (known < 0) {
        const char *sync = getenv("GPUWB_SYNC");
        known = sync && sync[0] && strcmp(sync, "0") != 0;
    }
    return known;
}

int gwb_op_end(gwb_op *op, int rc)
{
    const bool recording = op->queue->graph;
    if (rc < 0 && !recording)
        op->queue->issued--;
    for (int i = 0; i < op->count; i++) {
        // after a failure a part may have been enqueued: kept beside the earlier uses, which it may not have waited for
        int used = gwb_queue_behind(op->queue, op->use[i].buf, op->queue->issued, rc >= 0 && op->use[i].write);
        if (rc >= 0)
            rc = used;
    }
    if (op->note)
        gwb_trace_end(op, rc);
    if (rc >= 0 && !recording && waits_for_all()) {
        const uint64_t seq = op->queue->issued;
        gwb_unlock();
        rc = op->queue->dev->ops->queue_wait(op->queue, seq);
        gwb_lock();
    }
    gwb_queue_release(op->queue);
    gwb_unlock();
    return rc < 0 ? rc : 0;
}

// ---- streams

int gwb_queue_check_recording(const gwb_queue *q, const char *what)
{
    return q->graph ? gwb_fail(GWB_UNSUPPORTED, "%s waits for a stream that is recording; do that outside of stream:capture", what) : check_twins(q);
}

int gwb_stream_records(int device, const gwb_stream *s)
{
    gwb_lock();
    const gwb_queue *q = s ? s->queue : gwb_device_peek(device)->default_queue;
    const int records = q && (q->graph || twin_records(q));
    gwb_unlock();
    return records;
}

int gwb_stream_check(const gwb_stream *s, const char *what)
{
    if (gwb_check_fork() < 0)
        return GWB_NO_DEVICE;
    if (s && s->tag == GWB_STREAM_TAG && gwb_queue_lost(s->queue))
        return gwb_fail(GWB_CLOSED, "%s was lost when %s was reset; make a new one", what, s->queue->dev->info.name);
    if (s && s->tag == GWB_STREAM_TAG)
        return 0;
    return gwb_fail(s && s->tag == 0 ? GWB_CLOSED : GWB_BAD_ARGUMENT, s && s->tag == 0 ? "%s is closed" : "%s is no stream", what);
}

static void adopt(gwb_stream *s, gwb_queue *q)
{
    *s = (gwb_stream){.tag = GWB_STREAM_TAG, .device = q->dev->position, .handle = q->handle, .queue = q};
}

int gwb_stream_create(gwb_stream *s, int device, const gwb_stream_params *params)
{
    static const gwb_stream_params plain;
    gwb_device *dev = gwb_device_at(device);
    if (!dev)
        return GWB_NO_DEVICE;
    if (!params)
        params = &plain;
    if (params->foreign && !dev->info.cuda)
        return gwb_fail(GWB_BAD_ARGUMENT, "a foreign stream is one of CUDA's; the device is %s", dev->info.name);
    gwb_queue *q = NULL;
    gwb_lock();
    int rc = open_queue(&q, dev, params);
    if (rc >= 0)
        adopt(s, q);
    gwb_unlock();
    return rc;
}

int gwb_stream_default(gwb_stream *s, int device)
{
    gwb_device *dev = gwb_device_at(device);
    if (!dev)
        return GWB_NO_DEVICE;
    gwb_lock();
    gwb_queue *q = gwb_queue_default(dev);
    if (q) {
        gwb_queue_retain(q);
        adopt(s, q);
    }
    gwb_unlock();
    return q ? 0 : GWB_DEVICE;
}

int gwb_stream_share(gwb_stream *s, const gwb_stream *other)
{
    int rc = gwb_stream_check(other, "stream");
    if (rc < 0)
        return rc;
    if (other->queue->foreign)      // closing one retires its queue
        return gwb_stream_create(s, other->device, &(gwb_stream_params){.handle = other->handle, .foreign = 1});
    gwb_lock();
    gwb_queue_retain(other->queue);
    adopt(s, other->queue);
    gwb_unlock();
    return 0;
}

void gwb_stream_close(gwb_stream *s)
{
    if (!s || s->tag != GWB_STREAM_TAG)
        return;
    gwb_lock();
    gwb_queue *q = s->queue;
    *s = (gwb_stream){0};
    if (q->foreign && q->refs > 1 && !gwb_forked && !q->dead && !gwb_queue_lost(q)) {    // buffers remember it, but its owner may destroy it from here on
        q->dev->ops->queue_retire(q);
        q->dead = true;
    }
    gwb_queue_release(q);
    gwb_unlock();
}

int gwb_stream_synchronize(const gwb_stream *s)
{
    int rc = gwb_stream_check(s, "stream");
    if (rc < 0)
        return rc;
    gwb_lock();
    gwb_queue *q = s->queue;
    gwb_queue_retain(q);
    rc = gwb_queue_check_recording(q, "this");
    if (rc >= 0)
        rc = number_now(q); // covers waits too, which are no operations
    uint64_t seq = q->issued;
    gwb_unlock();
    if (rc >= 0)
        rc = gwb_queue_wait(q, seq);
    gwb_lock();
    gwb_queue_release(q);
    gwb_unlock();
    return rc;
}

int gwb_stream_query(const gwb_stream *s)
{
    int rc = gwb_stream_check(s, "stream");
    if (rc < 0)
        return rc;
    gwb_lock();
    gwb_queue *q = s->queue;
    rc = gwb_queue_check_recording(q, "this");
    if (rc >= 0 && q->dev->info.cuda)
        number_now(q);
    if (rc >= 0)
        rc = q->dev->ops->queue_done(q, q->issued);
    gwb_unlock();
    return rc;
}

int gwb_stream_wait_stream(const gwb_stream *s, const gwb_stream *other)
{
    int rc = gwb_stream_check(s, "stream");
    if (rc >= 0)
        rc = gwb_stream_check(other, "the other stream");
    if (rc < 0 || s->queue == other->queue)
        return rc;
    gwb_lock();
    rc = gwb_queue_check_recording(s->queue, "this");
    if (rc >= 0)
        rc = gwb_queue_check_recording(other->queue, "this");
    if (rc >= 0)
        rc = number_now(other->queue);
    if (rc >= 0)
        rc = s->queue->dev->ops->queue_after(s->queue, other->queue, other->queue->issued);
    gwb_unlock();
    return rc;
}

int gwb_stream_sleep(const gwb_stream *s, double ms)
{
    int rc = gwb_stream_check(s, "stream");
    if (rc < 0)
        return rc;
    if (!(ms >= 0 && ms <= 10000))
        return gwb_fail(GWB_BAD_ARGUMENT, "a sleep of %g ms; wanted 0..10000", ms);
    gwb_op op;
    rc = gwb_op_begin(&op, s->device, s);
    if (rc < 0)
        return rc;
    gwb_trace_note(&op, "wait", "sleep", "\"ms\":%g", ms);
    rc = gwb_op_ready(&op);
    if (rc >= 0)
        rc = op.queue->dev->ops->sleep(op.queue, ms);
    return gwb_op_end(&op, rc);
}

int gwb_mat_record_stream(const gwb_mat *m, const gwb_stream *s, int write)
{
    int rc = gwb_mat_check(m, "mat");
    if (rc >= 0)
        rc = gwb_stream_check(s, "stream");
    if (rc < 0 || !m->buf)
        return rc;
    gwb_lock();
    if (s->queue->graph) {      // for work of other libraries on the handle, which is recorded with it
        rc = gwb_graph_use(s->queue->graph, m->buf, write != 0);
        gwb_unlock();
        return rc;
    }
    rc = check_twins(s->queue);
    if (write && rc >= 0)      // takes the place of all earlier uses, so the stream must be behind them
        rc = gwb_buf_order(m->buf, s->queue, true);
    if (rc >= 0)
        rc = number_now(s->queue);
    if (rc >= 0)
        rc = gwb_buf_used(m->buf, s->queue, s->queue->issued, write != 0);
    gwb_unlock();
    return rc;
}

int gwb_mat_ready(const gwb_mat *m, const gwb_stream *s)
{
    int rc = gwb_mat_check(m, "mat");
    if (rc >= 0 && s)
        rc = gwb_stream_check(s, "stream");
    if (rc < 0 || !m->buf)
        return rc;
    gwb_lock();
    rc = s ? check_twins(s->queue) : 0;
    if (rc >= 0)
        rc = s ? gwb_queue_before(s->queue, m->buf, true) : gwb_buf_wait(m->buf, true);
    gwb_unlock();
    return rc;
}

// ---- calls of other libraries

static int check_uses(const gwb_stream *s, const gwb_mat *const *mats, int count, bool write)
{
    for (int i = 0; i < count; i++) {
        int rc = write ? gwb_mat_check_writable(mats[i], "mat") : gwb_mat_check(mats[i], "mat");
        if (rc < 0)
            return rc;
        if (mats[i]->buf && mats[i]->device != s->device)
            return gwb_fail(GWB_BAD_ARGUMENT, "a mat belongs to %s and the stream to %s; all must be of one device",
                            gwb_device_peek(mats[i]->device)->info.name, s->queue->dev->info.name);
    }
    return 0;
}

int gwb_library_begin(const gwb_stream *s, const gwb_mat *const *reads, int read_count, const gwb_mat *const *writes, int write_count, void **outer)
{
    *outer = NULL;
    int rc = gwb_stream_check(s, "stream");
    if (rc >= 0)
        rc = check_uses(s, reads, read_count, false);
    if (rc >= 0)
        rc = check_uses(s, writes, write_count, true);
    if (rc < 0)
        return rc;
    gwb_lock();
    rc = check_twins(s->queue);
    for (int i = 0; i < read_count + write_count && rc >= 0; i++) {
        const gwb_mat *m = i < read_count ? reads[i] : writes[i - read_count];
        if (m->buf)
            rc = gwb_queue_before(s->queue, m->buf, i >= read_count);
    }
    gwb_unlock();
    if (rc >= 0)
        *outer = s->queue->dev->ops->enter(s->queue->dev);
    return rc < 0 ? rc : 0;
}

int gwb_library_end(const gwb_stream *s, const gwb_mat *const *reads, int read_count, const gwb_mat *const *writes, int write_count, void *outer)
{
    int rc = gwb_stream_check(s, "stream");
    if (rc < 0)
        return rc;
    s->queue->dev->ops->leave(s->queue->dev, outer);
    gwb_lock();
    rc = number_now(s->queue);
    for (int i = 0; i < read_count + write_count && rc >= 0; i++) {
        const gwb_mat *m = i < read_count ? reads[i] : writes[i - read_count];
        if (m->tag == GWB_MAT_TAG && m->buf)
            rc = gwb_queue_behind(s->queue, m->buf, s->queue->issued, i >= read_count);
    }
    gwb_unlock();
    return rc < 0 ? rc : 0;
}
