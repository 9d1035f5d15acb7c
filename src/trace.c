// SPDX-License-Identifier: MIT
// The trace: notes of operations, their times by events (cuda) or by jobs in the queue that look at the clock (host), and the file in the JSON that Perfetto
// and chrome://tracing read. All is "complete" events, a begin with its duration, so that a trace that ends early is a whole one.
#include "trace.h"

#include "../kernels/prelude.h"

#include "../kernels/args.h"
#include "../kernels/list.h"
#include "signature.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_DEVICES = 64, POLL_FROM = 128 };   // notes that wait for their times before the oldest are asked for

struct gwb_trace_op {
    gwb_trace_op *next;
    char category[8], name[64];
    char *args;                     // of the JSON object, without its braces
    int device;                     // position
    unsigned queue;                 // number
    bool traced, failed;
    gwb_event begin, end;           // cuda
    double begin_us, end_us;        // host: of the trace's clock; under `stamps`
    bool has_begun, has_ended;      // host: these are there
};

static FILE *file;                  // of the trace under way; all of this but the stamps is under gwb_lock
static char *path;
static int failure;                 // errno of a write that failed
static bool first_line;
static double started;              // us of the monotonic clock
static gwb_trace_op *waiting, **last_waiting = &waiting;
static int waiting_count;
static struct {
    gwb_event base;                 // cuda: a moment whose time is known
    double base_us;
    unsigned rows;                  // queues up to this number have their names
    bool has_base, has_name;
} rows_of[MOST_DEVICES];
static struct { int64_t id; double begin_us; char *name; } *ranges;     // that are open
static int range_count, range_room;
static int64_t last_range;

static pthread_mutex_t stamps = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stamped = PTHREAD_COND_INITIALIZER;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static bool logging(void)
{
    static atomic_int known = -1;
    if (known < 0) {
        const char *level = getenv("GPUWB_LOG");
        known = level && strcmp(level, "debug") == 0;
        if (level && *level && !known)
            fprintf(stderr, "gpuwb: GPUWB_LOG=%s says nothing; wanted debug\n", level);
    }
    return known;
}

bool gwb_trace_wanted(void)
{
    return file || logging();
}

void gwb_trace_say(const char *format, ...)
{
    if (!logging())
        return;
    va_list args;
    char line[512];
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "gpuwb: %s\n", line);
}

// ---- notes

// Text that grows; "" after a failure.
typedef struct text {
    char *bytes;
    size_t size, room;
} text;

static void add_list(text *t, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (size < 0)
        return;
    if (t->size + (size_t)size + 1 > t->room) {
        const size_t room = 2 * (t->size + (size_t)size + 1);
        char *grown = realloc(t->bytes, room);
        if (!grown)
            return;
        t->bytes = grown;
        t->room = room;
    }
    t->size += (size_t)vsnprintf(t->bytes + t->size, t->room - t->size, format, args);
}

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_list(t, format, args);
    va_end(args);
}

// Takes `args`.
static void make_note(gwb_op *op, const char *category, const char *name, char *args)
{
    gwb_trace_op *n = calloc(1, sizeof *n);
    if (!n) {
        free(args);
        return;
    }
    snprintf(n->category, sizeof n->category, "%s", category);
    snprintf(n->name, sizeof n->name, "%s", name);
    n->args = args;
    n->device = op->queue->dev->position;
    n->queue = op->queue->number;
    op->note = n;
}

static void free_note(gwb_trace_op *n)
{
    free(n->args);
    free(n);
}

void gwb_trace_note(gwb_op *op, const char *category, const char *name, const char *args, ...)
{
    if (!gwb_trace_wanted())
        return;
    text t = {0};
    va_list list;
    va_start(list, args);
    add_list(&t, args, list);
    va_end(list);
    make_note(op, category, name, t.bytes);
}

static const char *space_name(int space)
{
    if (space < 0)
        return space == GWB_SPACE_PINNED ? "pinned" : "host";
    return gwb_device_peek(space)->info.name;
}

void gwb_trace_copy(gwb_op *op, const gwb_rect *rects, int count)
{
    if (!gwb_trace_wanted())
        return;
    text t = {0};
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += rects[i].width * rects[i].rows;
    add(&t, "\"bytes\":%" PRId64 ",\"from\":\"%s\",\"to\":\"%s\",\"rows\":[", bytes, space_name(rects[0].src_space), space_name(rects[0].dst_space));
    for (int i = 0; i < count; i++)
        add(&t, "%s\"%" PRId64 " x %" PRId64 " bytes, step %" PRId64 " to %" PRId64 "\"", i ? "," : "", rects[i].rows, rects[i].width, rects[i].src_step,
            rects[i].dst_step);
    add(&t, "]");
    make_note(op, "copy", "copy", t.bytes);
}

void gwb_trace_launch(gwb_op *op, const gwb_launch *launch)
{
#define KERNEL_NAME(name, args, x, y) #name,
    static const char *const names[] = {GWB_KERNELS(KERNEL_NAME)};
    gwb_trace_note(op, "kernel", names[launch->kernel], "\"items\":[%d,%d,%d],\"bytes_read\":%" PRId64 ",\"bytes_written\":%" PRId64, launch->nx, launch->ny,
                   launch->nz, op->bytes_read, op->bytes_written);
}

static void add_value(text *t, const gwb_arg *a)
{
    const gwb_mat *m = a->pointer;
    switch (a->kind) {
    case GWB_ARG_NULL: add(t, "null"); break;
    case GWB_ARG_NUMBER: add(t, a->number - a->number == 0 ? "%.17g" : "\"%g\"", a->number); break;
    case GWB_ARG_SIGNED: case GWB_ARG_BOOL: add(t, "%" PRId64, a->whole); break;
    case GWB_ARG_UNSIGNED: add(t, "%" PRIu64, (uint64_t)a->whole); break;
    case GWB_ARG_MAT: add(t, "\"mat %dx%d %sx%d step %" PRId64 "\"", m->width, m->height, gwb_type_name(m->type), m->channels, m->step); break;
    case GWB_ARG_POINTER: add(t, "\"%p\"", a->pointer); break;
    case GWB_ARG_BYTES: add(t, "\"%" PRId64 " bytes\"", a->whole); break;
    default: add(t, "\"vector of %" PRId64 "\"", a->whole); break;
    }
}

void gwb_trace_kernel(gwb_op *op, const gwb_kernel_run *run, const gwb_kernel_call *call)
{
    if (!gwb_trace_wanted())
        return;
    text t = {0};
    int64_t bytes = 0;
    for (int i = 0; i < call->arg_count; i++) {
        const gwb_mat *m = call->args[i].pointer;
        bytes += call->args[i].kind == GWB_ARG_MAT ? (int64_t)m->width * m->height * m->elem_size : 0;
    }
    add(&t, "\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"shared\":%u,\"bytes\":%" PRId64 ",\"args\":{", run->grid[0], run->grid[1], run->grid[2], run->block[0],
        run->block[1], run->block[2], run->shared, bytes);
    for (int i = 0; i < call->arg_count; i++) {
        const char *name = run->signature->params[i].name;
        if (*name)
            add(&t, "%s\"%s\":", i ? "," : "", name);
        else
            add(&t, "%s\"%d\":", i ? "," : "", i + 1);
        add_value(&t, &call->args[i]);
    }
    add(&t, "}");
    make_note(op, "kernel", run->signature->name, t.bytes);
}

// ---- the file

static void write_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void write_line(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (fputs(first_line ? "\n" : ",\n", file) < 0 || vfprintf(file, format, args) < 0)
        failure = failure ? failure : errno;
    va_end(args);
    first_line = false;
}

// A name of the script's as the inside of a JSON string; the caller frees it. NULL: out of memory.
static char *escaped(const char *name)
{
    text t = {0};
    add(&t, "%s", "");
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c == '"' || *c == '\\')
            add(&t, "\\%c", *c);
        else if (*c < 32 || *c == 127)
            add(&t, "\\u%04x", *c);
        else
            add(&t, "%c", *c);
    }
    return t.bytes;
}

// Rows are threads of a process: process 0 is the script, 1 + position a device, its threads the streams.
static void name_row(int device, unsigned queue)
{
    const gwb_device *d = gwb_device_peek(device);
    if (!rows_of[device].has_name)
        write_line("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"%s %s\"}}", device + 1, d->info.name, d->info.model);
    rows_of[device].has_name = true;
    for (; rows_of[device].rows < queue; rows_of[device].rows++) {
        const unsigned number = rows_of[device].rows + 1;
        write_line("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":\"stream %u\"}}", device + 1, number, number);
    }
}

static void write_note(const gwb_trace_op *n, double begin, double end)
{
    name_row(n->device, n->queue);
    write_line("{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s}}", n->category, n->name,
               n->device + 1, n->queue, begin, end > begin ? end - begin : 0, n->args ? n->args : "");
}

// ---- times

static void stamp_begin(void *note)
{
    gwb_trace_op *n = note;
    pthread_mutex_lock(&stamps);
    n->begin_us = now_us() - started;
    n->has_begun = true;
    pthread_cond_broadcast(&stamped);
    pthread_mutex_unlock(&stamps);
}

static void stamp_end(void *note)
{
    gwb_trace_op *n = note;
    pthread_mutex_lock(&stamps);
    n->end_us = now_us() - started;
    n->has_ended = true;
    pthread_cond_broadcast(&stamped);
    pthread_mutex_unlock(&stamps);
}

// An event of ours in a queue: no operation, so that the queue's numbers stay as they are. False where the device refuses.
static bool mark(gwb_event *e, gwb_queue *q)
{
    *e = (gwb_event){.tag = GWB_EVENT_TAG, .device = q->dev->position, .timing = 1, .epoch = q->dev->epoch};
    if (q->dev->ops->event_open(e, q->dev) < 0)
        return false;
    e->recorded = q->dev->ops->event_record(e, q) >= 0;
    return e->recorded;
}

static void drop(gwb_event *e)
{
    if (e->handle)
        gwb_device_peek(e->device)->ops->event_close(e);
    *e = (gwb_event){0};
}

// A moment of the device whose time is known, on a stream that is empty and so reaches it at once.
static bool find_base(gwb_device *d)
{
    if (rows_of[d->position].has_base && rows_of[d->position].base.epoch == d->epoch)
        return true;
    drop(&rows_of[d->position].base);
    rows_of[d->position].has_base = false;
    gwb_stream s;
    if (gwb_stream_create(&s, d->position, &(gwb_stream_params){.nonblocking = 1}) < 0)
        return false;
    gwb_event *base = &rows_of[d->position].base;
    bool ok = mark(base, s.queue) && d->ops->event_wait(base) >= 0;
    if (ok) {       // the first time warms up
        drop(base);
        ok = mark(base, s.queue) && d->ops->event_wait(base) >= 0;
    }
    rows_of[d->position].base_us = now_us() - started;
    rows_of[d->position].has_base = ok;
    gwb_stream_close(&s);
    return ok;
}

void gwb_trace_begin(gwb_op *op)
{
    gwb_trace_op *n = op->note;
    gwb_device *d = op->queue->dev;
    if (!n || !file || op->queue->graph || d->position >= MOST_DEVICES)     // what is recorded runs later, as a graph
        return;
    n->traced = d->info.cuda ? find_base(d) && mark(&n->begin, op->queue) : d->ops->call(op->queue, stamp_begin, n, NULL) >= 0;
    if (!n->traced)
        drop(&n->begin);
}

// 1: the note's times are known and it is written; 0: not yet; -1: they will never be known.
static int settle(gwb_trace_op *n, bool wait)
{
    gwb_device *d = gwb_device_peek(n->device);
    if (!d->info.cuda) {
        pthread_mutex_lock(&stamps);
        while (wait && !(n->has_ended || (n->failed && n->has_begun)))
            pthread_cond_wait(&stamped, &stamps);
        const bool ended = n->has_ended, begun = n->has_begun;
        pthread_mutex_unlock(&stamps);
        if (ended)
            write_note(n, n->begin_us, n->end_us);
        return ended ? 1 : n->failed && begun ? -1 : 0;
    }
    if (n->failed || !d->is_open || d->epoch != n->begin.epoch || !find_base(d))
        return -1;
    if (!wait && d->ops->event_query(&n->end) == 0)
        return 0;
    double begin, length;
    if (d->ops->event_wait(&n->end) < 0 || d->ops->event_elapsed(&rows_of[n->device].base, &n->begin, &begin) < 0 ||
        d->ops->event_elapsed(&n->begin, &n->end, &length) < 0)
        return -1;
    const double at = rows_of[n->device].base_us + begin * 1e3;
    write_note(n, at, at + length * 1e3);
    if (begin > 100) {      // the driver's times are single floats: from a near moment they are finer
        drop(&rows_of[n->device].base);
        rows_of[n->device].base = n->begin;
        rows_of[n->device].base_us = at;
        n->begin = (gwb_event){0};
    }
    return 1;
}

static void settle_waiting(bool wait)
{
    while (waiting && settle(waiting, wait) != 0) {
        gwb_trace_op *n = waiting;
        waiting = n->next;
        waiting_count--;
        if (!waiting)
            last_waiting = &waiting;
        drop(&n->begin);
        drop(&n->end);
        free_note(n);
    }
}

void gwb_trace_end(gwb_op *op, int rc)
{
    gwb_trace_op *n = op->note;
    op->note = NULL;
    if (!n)
        return;
    gwb_queue *q = op->queue;
    if (logging())
        fprintf(stderr, "gpuwb: %s stream %u: %s {%s}%s%s\n", q->dev->info.name, n->queue, n->name, n->args ? n->args : "",
                rc < 0 ? " failed: " : q->graph ? " recorded" : "", rc < 0 ? gwb_error_message() : "");
    if (!n->traced) {
        free_note(n);
        return;
    }
    n->failed = rc < 0 || !(q->dev->info.cuda ? mark(&n->end, q) : q->dev->ops->call(q, stamp_end, n, NULL) >= 0);
    *last_waiting = n;
    last_waiting = &n->next;
    if (++waiting_count > POLL_FROM)
        settle_waiting(false);
}

// ---- the script's calls

static void stop_at_exit(void)
{
    gwb_trace_stop();
}

int gwb_trace_start(const char *to)
{
    static bool registered;
    gwb_lock();
    int rc = file ? gwb_fail(GWB_BAD_ARGUMENT, "a trace is being written to %s; one at a time", path) : 0;
    FILE *f = rc < 0 ? NULL : fopen(to, "we");
    char *name = f ? strdup(to) : NULL;
    if (rc >= 0 && !f)
        rc = gwb_fail(GWB_IO, "%s cannot be written: %s", to, strerror(errno));
    else if (f && !name) {
        fclose(f);
        rc = gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    }
    if (rc >= 0) {
        if (!registered)
            atexit(stop_at_exit);     // os.exit runs no finalizer
        registered = true;
        file = f;
        path = name;
        failure = 0;
        started = now_us();
        memset(rows_of, 0, sizeof rows_of);
        first_line = true;
        fputs("[", file);
        write_line("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"tid\":0,\"args\":{\"name\":\"script\"}}");
    }
    gwb_unlock();
    return rc;
}

// Writes the range at a place of the list of open ones, and takes it off.
static void end_range(int i)
{
    char *name = escaped(ranges[i].name);
    const double now = now_us() - started;
    if (file && name)
        write_line("{\"ph\":\"X\",\"cat\":\"range\",\"name\":\"%s\",\"pid\":0,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f}", name, ranges[i].begin_us,
                   now - ranges[i].begin_us);
    free(name);
    free(ranges[i].name);
    memmove(ranges + i, ranges + i + 1, (size_t)(range_count - i - 1) * sizeof *ranges);
    range_count--;
}

int gwb_trace_stop(void)
{
    gwb_lock();
    int rc = 0;
    if (file && gwb_forked) {   // what is not written yet is the parent's to write
        __fpurge(file);
        file = NULL;
    } else if (file) {
        settle_waiting(true);
        while (range_count > 0)
            end_range(range_count - 1);
        for (int i = 0; i < MOST_DEVICES; i++)
            drop(&rows_of[i].base);
        if (fputs("\n]\n", file) < 0 && !failure)
            failure = errno;
        if (fclose(file) != 0 && !failure)
            failure = errno;
        file = NULL;
        if (failure)
            rc = gwb_fail(GWB_IO, "%s cannot be written: %s", path, strerror(failure));
        free(path);
        path = NULL;
    }
    gwb_unlock();
    return rc;
}

int64_t gwb_trace_range(const char *name)
{
    if (gwb_forked)
        return 0;
    gwb_lock();
    int64_t id = 0;
    if (file && range_count == range_room) {
        const int room = range_room ? 2 * range_room : 16;
        void *grown = realloc(ranges, (size_t)room * sizeof *ranges);
        if (grown) {
            ranges = grown;
            range_room = room;
        }
    }
    char *copy = file && range_count < range_room ? strdup(name) : NULL;
    if (copy) {
        id = ++last_range;
        ranges[range_count].id = id;
        ranges[range_count].name = copy;
        ranges[range_count++].begin_us = now_us() - started;
    }
    gwb_unlock();
    return id;
}

void gwb_trace_range_end(int64_t id)
{
    if (gwb_forked)
        return;
    gwb_lock();
    for (int i = range_count - 1; i >= 0; i--)
        if (ranges[i].id == id) {
            end_range(i);
            break;
        }
    gwb_unlock();
}
