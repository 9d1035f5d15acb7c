// SPDX-License-Identifier: MIT
// Mats and events between processes of one machine. A handle is a line of text: what it is, the device, who made it, and how it lies in that memory.
#include "mat.h"
#include "stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

// Memory that a mat of ours made for other processes, or that another process made: the owner of its buffer.
typedef struct shared {
    gwb_device *dev;
    unsigned epoch;         // of the device, when the memory came up
    uint64_t maker;         // the process that made it
    uint64_t serial;        // its number there
    gwb_share share;
} shared;

// Under gwb_lock.
static uint64_t serials;
static uint64_t this_process(void)
{
    static uint64_t id;
    static pid_t of;
    if (of != getpid()) {   // a fork is another process
        of = getpid();
        if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
            id = (uint64_t)of << 32 ^ (uintptr_t)&id;
    }
    return id;
}

static void drop(void *arg)
{
    shared *s = arg;
    if (s->dev->epoch == s->epoch || !s->dev->info.cuda)    // else it went with the context
        s->dev->ops->share_close(s->dev, &s->share);
    free(s);
}

static const shared *shared_of(const gwb_mat *m)
{
    return m->buf && m->buf->owner.drop == drop ? m->buf->owner.arg : NULL;
}

static void mark(gwb_mat *m)
{
    m->flags = (m->flags & ~(uint32_t)GWB_MAT_FOREIGN) | GWB_MAT_SHARED;
}

// Fills *m, whose pixels begin `offset` bytes into the memory of `s`, at most `bytes` of it; takes `s` over in any case.
static int adopt(gwb_mat *m, shared *s, gwb_wrap_params p, int64_t offset, int64_t bytes)
{
    const gwb_wrap_params first = {.ptr = s->share.memory, .width = 1, .height = 1, .type = GWB_U8, .channels = 1, .device = p.device};
    gwb_mat whole;      // makes the record of all the memory, in which later handles may lie too
    s->epoch = s->dev->epoch;
    int rc = gwb_mat_wrap_owned(&whole, &first, bytes, (gwb_owner){.drop = drop, .arg = s});
    if (rc < 0) {
        drop(s);
        return rc;
    }
    p.ptr = (uint8_t *)s->share.memory + offset;
    rc = gwb_mat_wrap(m, &p);
    if (rc >= 0)
        mark(m);
    gwb_mat_close(&whole);
    return rc;
}

int gwb_mat_create_shared(gwb_mat *m, int device, int32_t width, int32_t height, int type, int channels, const gwb_mat_params *params)
{
    gwb_wrap_params p = {.width = width, .height = height, .type = type, .channels = channels, .device = device};
    int64_t bytes = 0;
    int rc = gwb_mat_measure(device, width, height, type, channels, params, &p.step, &bytes);
    if (rc < 0 || bytes == 0)
        return rc < 0 ? rc : gwb_mat_create(m, device, width, height, type, channels, params);
    shared *s = calloc(1, sizeof *s);
    if (!s)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    s->dev = gwb_device_at(device);
    s->share.bytes = bytes;
    gwb_lock();
    s->maker = this_process();
    s->serial = ++serials;
    gwb_unlock();
    rc = s->dev->ops->share_create(s->dev, &s->share);
    if (rc < 0) {
        free(s);
        return rc;
    }
    return adopt(m, s, p, 0, bytes);
}

// ---- handles of mats: gpuwb1:mat:DEVICE:MAKER:SERIAL:BYTES:OFFSET:STEP:WIDTHxHEIGHT:TYPE:CHANNELS:READONLY:MEMORY

int gwb_ipc_identify(int device, char *text, int64_t size)
{
    gwb_device *dev = gwb_device_at(device);
    char name[GWB_SHARE_TEXT];
    int rc = dev ? dev->ops->identify(dev, name) : GWB_NO_DEVICE;
    if (rc >= 0 && snprintf(text, (size_t)size, "%s", name) >= size)
        rc = gwb_fail(GWB_BAD_ARGUMENT, "%" PRId64 " bytes are too few for a device's identity", size);
    return rc;
}

int gwb_mat_ipc_handle(const gwb_mat *m, char *text, int64_t size)
{
    char device[GWB_SHARE_TEXT];
    int rc = gwb_mat_check(m, "mat");
    if (rc < 0)
        return rc;
    const shared *s = shared_of(m);
    if (!s && !gwb_mat_empty(m))
        return gwb_fail(GWB_UNSUPPORTED, "the mat's memory cannot be opened by other processes; make it by gpu.mat(w, h, type, {shared = true}), "
                        "or copy it to one");
    rc = gwb_ipc_identify(m->device, device, (int64_t)sizeof device);
    if (rc >= 0)
        rc = gwb_mat_wait(m, 1);
    if (rc < 0)
        return rc;
    const int written = snprintf(text, (size_t)size, "gpuwb1:mat:%s:%" PRIx64 ":%" PRIx64 ":%" PRId64 ":%" PRId64 ":%" PRId64 ":%dx%d:%s:%d:%d:%s",
                                 device, s ? s->maker : 0, s ? s->serial : 0, s ? s->share.bytes : 0, gwb_mat_offset(m), m->step, m->width, m->height,
                                 gwb_type_name(m->type), m->channels, (m->flags & GWB_MAT_READONLY) != 0, s ? s->share.text : "-");
    return written < size ? 0 : gwb_fail(GWB_BAD_ARGUMENT, "%" PRId64 " bytes are too few for a handle of %d", size, written + 1);
}

typedef struct parsed {
    char device[GWB_SHARE_TEXT], memory[GWB_SHARE_TEXT];
    uint64_t maker, serial;
    int64_t bytes, offset;
    int64_t extent;     // bytes from the mat's first to behind its last
    gwb_wrap_params wrap;
} parsed;

static int damaged(const char *handle, const char *what)
{
    return gwb_fail(GWB_BAD_ARGUMENT, "\"%.60s\" is no handle of %s; wanted the text that ipc_handle() of this version of gpuwb gave", handle, what);
}

static int find_device(parsed *h)
{
    h->wrap.device = -1;
    for (int i = 0; i < gwb_device_count() && h->wrap.device < 0; i++) {
        char name[GWB_SHARE_TEXT];
        gwb_device *dev = gwb_device_peek(i);
        if (dev->ops->identify(dev, name) >= 0 && strcmp(name, h->device) == 0)
            h->wrap.device = i;
    }
    if (h->wrap.device < 0)
        return gwb_fail(GWB_NO_DEVICE, "the memory lies on the cuda device with the UUID %s, which this process does not see "
                        "(CUDA_VISIBLE_DEVICES?)", h->device);
    return 0;
}

static int parse(parsed *h, const char *handle)
{
    char type[16];
    int end = -1;
    *h = (parsed){0};
    const int fields = sscanf(handle, "gpuwb1:mat:%159[^: ]:%" SCNx64 ":%" SCNx64 ":%" SCNd64 ":%" SCNd64 ":%" SCNd64 ":%" SCNd32 "x%" SCNd32
                              ":%15[^: ]:%" SCNd32 ":%" SCNd32 ":%159[^: \n]%n", h->device, &h->maker, &h->serial, &h->bytes, &h->offset, &h->wrap.step,
                              &h->wrap.width, &h->wrap.height, type, &h->wrap.channels, &h->wrap.readonly, h->memory, &end);
    if (fields != 12 || end < 0 || handle[end] || h->bytes < 0 || h->offset < 0)
        return damaged(handle, "a mat");
    h->wrap.type = -1;
    for (int i = 0; i < GWB_TYPES; i++)
        if (strcmp(gwb_type_name(i), type) == 0)
            h->wrap.type = i;
    if (h->wrap.type < 0)
        return damaged(handle, "a mat");
    int rc = find_device(h);
    if (rc < 0)
        return rc;
    const int64_t row = (int64_t)h->wrap.width * gwb_type_size(h->wrap.type) * h->wrap.channels;
    int64_t body = 0, end_of = 0;
    const bool over = __builtin_mul_overflow(h->wrap.step, (int64_t)h->wrap.height, &body) || __builtin_add_overflow(body, h->offset, &end_of);
    if (h->wrap.width == 0 || h->wrap.height == 0)
        return 0;
    // only of a handle that is CUDA's alone the size is not known; the driver tells it then
    const bool sized = h->bytes > 0 || (h->maker == 0 && h->wrap.device > 0);
    if (over || h->wrap.step < row || !sized || (h->bytes > 0 && end_of - h->wrap.step + row > h->bytes))
        return damaged(handle, "a mat that lies in its memory");
    h->extent = body - h->wrap.step + row;
    return 0;
}

// Shows memory that this process has open already. 1 where it has.
static int open_again(gwb_mat *m, const parsed *h)
{
    int rc = 0;
    gwb_lock();
    for (gwb_buf *b = gwb_buf_first(); b && rc == 0; b = b->next) {
        const shared *s = b->owner.drop == drop && !b->lost ? b->owner.arg : NULL;
        if (!s || s->serial != h->serial || s->maker != h->maker)
            continue;
        gwb_wrap_params p = h->wrap;
        p.ptr = b->base + h->offset;
        rc = h->offset + h->extent > b->bytes ? gwb_fail(GWB_BAD_ARGUMENT, "the handle is damaged: its mat leaves the memory") : gwb_mat_wrap(m, &p);
        rc = rc < 0 ? rc : 1;
    }
    const bool ours = h->maker == this_process();
    gwb_unlock();
    if (rc == 0 && ours)
        return gwb_fail(GWB_CLOSED, "this process made the memory and has closed it");
    if (rc == 1)
        mark(m);
    return rc;
}

int gwb_mat_ipc_open(gwb_mat *m, const char *handle)
{
    parsed h;
    int rc = parse(&h, handle);
    if (rc < 0)
        return rc;
    if (h.wrap.width == 0 || h.wrap.height == 0)
        return gwb_mat_wrap(m, &h.wrap);
    rc = h.maker ? open_again(m, &h) : 0;
    if (rc != 0)
        return rc < 0 ? rc : 0;
    gwb_device *dev = gwb_device_at(h.wrap.device);
    if (!dev)
        return GWB_NO_DEVICE;
    shared *s = calloc(1, sizeof *s);
    if (!s)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    *s = (shared){.dev = dev, .maker = h.maker, .serial = h.serial, .share.bytes = h.bytes};
    memcpy(s->share.text, h.memory, sizeof s->share.text);
    rc = dev->ops->share_open(dev, &s->share, h.wrap.readonly != 0);
    if (rc < 0) {
        free(s);
        return rc;
    }
    return adopt(m, s, h.wrap, h.offset, h.bytes ? h.bytes : h.offset + h.extent);
}

// ---- events: gpuwb1:event:DEVICE:MAKER:EVENT

int gwb_event_create_shared(gwb_event *e, int device)
{
    gwb_device *dev = gwb_device_at(device);
    if (!dev)
        return GWB_NO_DEVICE;
    gwb_event made = {.device = device, .shared = 1, .recorded = 1, .epoch = dev->epoch};    // whether it is recorded is for the shared state to say
    int rc = dev->ops->event_open(&made, dev);
    if (rc < 0)
        return rc;
    made.tag = GWB_EVENT_TAG;
    *e = made;
    return 0;
}

int gwb_event_ipc_handle(const gwb_event *e, char *text, int64_t size)
{
    int rc = gwb_event_check(e);
    if (rc < 0)
        return rc;
    if (!e->shared)
        return gwb_fail(GWB_UNSUPPORTED, "the event cannot be opened by other processes; make it by gpu.event{shared = true}");
    char device[GWB_SHARE_TEXT], event[GWB_SHARE_TEXT];
    gwb_device *dev = gwb_device_at(e->device);
    rc = gwb_ipc_identify(e->device, device, (int64_t)sizeof device);
    if (rc >= 0)
        rc = dev->ops->event_share(e, event);
    if (rc < 0)
        return rc;
    gwb_lock();
    const uint64_t maker = this_process();
    gwb_unlock();
    const int written = snprintf(text, (size_t)size, "gpuwb1:event:%s:%" PRIx64 ":%s", device, maker, event);
    return written < size ? 0 : gwb_fail(GWB_BAD_ARGUMENT, "%" PRId64 " bytes are too few for a handle of %d", size, written + 1);
}

int gwb_event_ipc_open(gwb_event *e, const char *handle)
{
    parsed h = {.wrap.device = -1};
    int end = -1;
    if (sscanf(handle, "gpuwb1:event:%159[^: ]:%" SCNx64 ":%159[^: \n]%n", h.device, &h.maker, h.memory, &end) != 3 || end < 0 || handle[end])
        return damaged(handle, "an event");
    int rc = find_device(&h);
    if (rc < 0)
        return rc;
    gwb_lock();
    const bool ours = h.maker == this_process();
    gwb_unlock();
    if (ours)
        return gwb_fail(GWB_BAD_ARGUMENT, "this process made the event: use the event itself");
    gwb_device *dev = gwb_device_at(h.wrap.device);
    if (!dev)
        return GWB_NO_DEVICE;
    gwb_event made = {.device = h.wrap.device, .shared = 1, .recorded = 1, .epoch = dev->epoch};
    rc = dev->ops->event_join(&made, dev, h.memory);
    if (rc < 0)
        return rc;
    made.tag = GWB_EVENT_TAG;
    *e = made;
    return 0;
}
