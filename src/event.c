// SPDX-License-Identifier: MIT
// Events: points in the work of a stream that others wait for, and that keep the time.
#include "stream.h"

#include <math.h>
#include <time.h>

// The device was reset after the event was recorded: what it had there is gone.
static bool event_lost(const gwb_event *e)
{
    return e->handle && gwb_device_peek(e->device)->epoch != e->epoch;
}

int gwb_event_check(const gwb_event *e)
{
    if (gwb_check_fork() < 0)
        return GWB_NO_DEVICE;
    if (e && e->tag == GWB_EVENT_TAG && event_lost(e))
        return gwb_fail(GWB_CLOSED, "the event was lost when its device was reset; %s", e->shared ? "make a new one" : "record it again");
    if (e && e->tag == GWB_EVENT_TAG)
        return 0;
    return gwb_fail(e && e->tag == 0 ? GWB_CLOSED : GWB_BAD_ARGUMENT, e && e->tag == 0 ? "event is closed" : "that is no event");
}

int gwb_event_create(gwb_event *e, int timing)
{
    *e = (gwb_event){.tag = GWB_EVENT_TAG, .device = -1, .timing = timing != 0};
    return 0;
}

void gwb_event_close(gwb_event *e)
{
    if (!e || e->tag != GWB_EVENT_TAG)
        return;
    gwb_lock();
    if (e->handle && !gwb_forked)
        gwb_device_peek(e->device)->ops->event_close(e);
    *e = (gwb_event){0};
    gwb_unlock();
}

int gwb_event_record(gwb_event *e, const gwb_stream *s)
{
    if (e && e->tag == GWB_EVENT_TAG && event_lost(e) && !e->shared) {
        gwb_lock();
        gwb_device_peek(e->device)->ops->event_close(e);
        gwb_unlock();
        e->recorded = 0;
    }
    int rc = gwb_event_check(e);
    if (rc >= 0)
        rc = gwb_stream_check(s, "stream");
    if (rc < 0)
        return rc;
    if (e->shared && e->device != s->device)
        return gwb_fail(GWB_BAD_ARGUMENT, "a shared event stays on its device, and the stream is of another one");
    gwb_op op;
    rc = gwb_op_begin(&op, s->device, s);
    if (rc < 0)
        return rc;
    gwb_device *dev = op.queue->dev;
    rc = gwb_queue_check_recording(op.queue, "an event");
    if (rc < 0)
        return gwb_op_end(&op, rc);
    if (e->handle && e->device != s->device) {      // events belong to a device: this one moves
        gwb_device_at(e->device)->ops->event_close(e);
        e->handle = NULL;
        e->recorded = 0;
    }
    if (!e->handle) {
        rc = dev->ops->event_open(e, dev);
        if (rc >= 0) {
            e->device = s->device;
            e->epoch = dev->epoch;
        }
    }
    int ready = gwb_op_ready(&op);
    if (rc >= 0)
        rc = ready;
    if (rc >= 0)
        rc = dev->ops->event_record(e, op.queue);
    if (rc >= 0)
        e->recorded = 1;
    return gwb_op_end(&op, rc);
}

int gwb_stream_wait_event(const gwb_stream *s, const gwb_event *e)
{
    int rc = gwb_stream_check(s, "stream");
    if (rc >= 0)
        rc = gwb_event_check(e);
    if (rc >= 0)
        rc = gwb_queue_check_recording(s->queue, "this");
    if (rc < 0 || !e->recorded)     // as in CUDA: an event that was never recorded is no wait
        return rc;
    gwb_device *dev = gwb_device_at(e->device);
    if (s->device != e->device && !(s->queue->dev->info.cuda && dev->info.cuda))
        return dev->ops->event_wait(e);
    gwb_lock();
    rc = s->queue->dev->ops->event_after(s->queue, e);
    gwb_unlock();
    return rc;
}

int gwb_event_synchronize(const gwb_event *e)
{
    int rc = gwb_event_check(e);
    if (rc < 0 || !e->recorded)
        return rc;
    const gwb_device_ops *ops = gwb_device_at(e->device)->ops;
    while ((rc = gwb_wait_asks()) > 0 && ops->event_query(e) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    return rc < 0 ? rc : ops->event_wait(e);
}

int gwb_event_query(const gwb_event *e)
{
    int rc = gwb_event_check(e);
    return rc < 0 ? rc : !e->recorded ? 1 : gwb_device_at(e->device)->ops->event_query(e);
}

int gwb_event_elapsed(const gwb_event *start, const gwb_event *end, double *ms)
{
    *ms = NAN;
    int rc = gwb_event_check(start);
    if (rc >= 0)
        rc = gwb_event_check(end);
    if (rc < 0)
        return rc;
    if (!start->recorded || !end->recorded)
        return gwb_fail(GWB_NOT_READY, "the %s event was not recorded; record it on a stream first", start->recorded ? "second" : "first");
    if (!start->timing || !end->timing)
        return gwb_fail(GWB_BAD_ARGUMENT, "the %s event keeps no time; make it with gpu.event{timing=true}", start->timing ? "second" : "first");
    if (start->device != end->device)
        return gwb_fail(GWB_BAD_ARGUMENT, "the events are of different devices; their clocks cannot be compared");
    rc = gwb_event_synchronize(start);
    if (rc >= 0)
        rc = gwb_event_synchronize(end);
    return rc < 0 ? rc : gwb_device_at(start->device)->ops->event_elapsed(start, end, ms);
}
