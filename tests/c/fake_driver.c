// SPDX-License-Identifier: MIT
// A libcuda.so.1 without a GPU, to test the cuda device's own logic anywhere: two devices whose memory is the host's, streams that are
// threads, and the basic kernels' own source run thread by thread. It is stricter than the driver: a dead handle, a stream of another device, or a
// copy outside an allocation ends the process. FAKE_INIT is what cuInit answers, FAKE_VERSION the CUDA version, FAKE_JITTER delays each operation, and
// a launch of the kernel FAKE_FAULT is an illegal access. Kernels from an image do nothing, but their names and sizes are the image's.
#include "gwb.h"

#include "../../kernels/cast.h"
#include "../../kernels/channels.h"
#include "../../kernels/copy.h"
#include "../../kernels/fill.h"
#include "cuda/driver.h"

#include <elf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) CUresult
enum { DEVICES = 2, MEMORY = 1 << 30, OUT_OF_MEMORY = 2, INVALID_VALUE = 1, INVALID_CONTEXT = 201, NOT_SUPPORTED = 801, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };

struct CUctx_st { int device; };
struct CUfunc_st { char name[32]; bool from_image; };
struct CUmod_st { char *image; };

// A recording of an event.
typedef struct point { int refs; bool reached; double ms; } point;
typedef struct launch {
    char name[32];
    unsigned grid_x, grid_y, block_x, block_y;
    int ny;
    long long ns;
    union { gwb_copy_args copy; gwb_fill_args fill; gwb_cast_args cast; gwb_channels_args channels; } args;
} launch;
typedef struct rows { uint8_t *dst; const uint8_t *src; size_t dst_step, src_step, width, count; } rows;
typedef struct job {
    struct job *next;
    enum { RECORD, WAIT, COPY, KERNEL, CALL } kind;
    point *point;
    union { rows rows; launch launch; struct { void (*fn)(void *); void *arg; } call; } u;
} job;

struct CUgraph_st { job *first, **last; };
struct CUstream_st { int alive, device; job *first, **last; int pending; CUgraph graph; struct CUstream_st *next; };
struct CUevent_st { int alive, device; unsigned flags; point *point; };
// device -1: page-locked; fd: the file of a whole block of 2 MiB, which other processes can open, else -1; opened: how often it was, if another's
typedef struct ipc { int pid, fd; size_t bytes; } ipc;
typedef struct block { struct block *next; uint8_t *data; size_t bytes; int device, context, fd, opened; ipc from; bool managed; } block;

static struct CUctx_st contexts[DEVICES] = {{0}, {1}};
static _Thread_local CUcontext current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    // over all below
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static CUstream streams, legacy[DEVICES];
static block *blocks;
static size_t used;
static CUresult faulted[DEVICES];

static void panic(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fake driver: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    abort();
}

// ---- memory

static block *find_block(const void *p)
{
    for (block *b = blocks; b; b = b->next)
        if ((const uint8_t *)p >= b->data && (const uint8_t *)p < b->data + b->bytes)
            return b;
    return NULL;
}

// Bytes p .. p + n - 1 must be one allocation's; device -2: any.
static void want(const void *p, size_t n, int device, const char *what)
{
    pthread_mutex_lock(&lock);
    const block *b = find_block(p);
    const bool good = b && (const uint8_t *)p + n <= b->data + b->bytes && (device == -2 || b->device == device);
    pthread_mutex_unlock(&lock);
    if (!good)
        panic("%s: %zu bytes at %p are not memory of device %d", what, n, p, device);
}

static void *map_file(int fd, size_t bytes)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        panic("no memory of %zu bytes", bytes);
    return data;
}

static void free_block(block *b)
{
    if (b->fd >= 0) {
        munmap(b->data, b->bytes);
        close(b->fd);
    } else {
        free(b->data);
    }
    free(b);
}

static CUresult take(void **out, size_t bytes, int device)
{
    void *data;
    if (!current || faulted[current->device])
        return current ? faulted[current->device] : INVALID_CONTEXT;
    const int fd = device >= 0 && bytes && bytes % (2 << 20) == 0 && bytes <= MEMORY ? memfd_create("fake", MFD_CLOEXEC) : -1;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        data = map_file(fd, bytes);
    else if (bytes > MEMORY || posix_memalign(&data, 512, bytes) != 0)
        return OUT_OF_MEMORY;
    memset(data, 0xab, bytes);
    block *b = malloc(sizeof *b);
    pthread_mutex_lock(&lock);
    const bool fits = device < 0 || used + bytes <= MEMORY;
    if (fits) {
        *b = (block){.next = blocks, .data = data, .bytes = bytes, .device = device, .context = current->device, .fd = fd};
        blocks = b;
        used += device < 0 ? 0 : bytes;
    }
    pthread_mutex_unlock(&lock);
    if (!fits) {
        *b = (block){.data = data, .bytes = bytes, .fd = fd};
        free_block(b);
        return OUT_OF_MEMORY;
    }
    *out = data;
    return 0;
}

static void wait_for(int device)    // under the lock; -1: all
{
    for (CUstream s = streams; s; s = s->next)
        while ((device < 0 || s->device == device) && s->pending)
            pthread_cond_wait(&moved, &lock);
}

static CUresult give(void *data, bool host)
{
    pthread_mutex_lock(&lock);
    wait_for(-1);
    block **at = &blocks;
    while (*at && (*at)->data != data)
        at = &(*at)->next;
    block *b = *at;
    if (!b || (b->device < 0) != host)
        panic("%p is freed and is no allocation", data);
    *at = b->next;
    used -= host ? 0 : b->bytes;
    pthread_mutex_unlock(&lock);
    free_block(b);
    return 0;
}

API cuMemGetInfo_v2(size_t *left, size_t *total)
{
    pthread_mutex_lock(&lock);
    *left = MEMORY - used;
    pthread_mutex_unlock(&lock);
    *total = MEMORY;
    return current ? 0 : INVALID_CONTEXT;
}
API cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    void *data = NULL;
    const CUresult result = take(&data, bytes, current ? current->device : 0);
    *memory = (uintptr_t)data;
    return result;
}
API cuMemAllocManaged(CUdeviceptr *memory, size_t bytes, unsigned int flags)
{
    const CUresult result = flags == 1 ? cuMemAlloc_v2(memory, bytes) : INVALID_VALUE;
    if (result == 0)
        find_block((void *)(uintptr_t)*memory)->managed = true;
    return result;
}
API cuMemFree_v2(CUdeviceptr memory) { return give((void *)(uintptr_t)memory, false); }
API cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) { return flags == GWB_CUDA_HOST_PORTABLE ? take(memory, bytes, -1) : INVALID_VALUE; }
API cuMemFreeHost(void *memory) { return give(memory, true); }
API cuPointerGetAttributes(unsigned int count, int *attributes, void **values, CUdeviceptr pointer)
{
    pthread_mutex_lock(&lock);
    const block *b = find_block((void *)(uintptr_t)pointer);
    for (unsigned i = 0; i < count; i++) {
        switch (attributes[i]) {
        case GWB_CUDA_POINTER_MEMORY_TYPE: *(unsigned *)values[i] = !b ? 0 : b->device < 0 ? GWB_CUDA_MEMORY_HOST : GWB_CUDA_MEMORY_DEVICE; break;
        case GWB_CUDA_POINTER_MANAGED: *(unsigned *)values[i] = b && b->managed; break;
        case GWB_CUDA_POINTER_ORDINAL: *(int *)values[i] = b && b->device > 0 ? b->device : 0; break;
        case GWB_CUDA_POINTER_RANGE_START: *(CUdeviceptr *)values[i] = b ? (uintptr_t)b->data : 0; break;
        case GWB_CUDA_POINTER_RANGE_SIZE: *(size_t *)values[i] = b ? b->bytes : 0; break;
        default: panic("pointer attribute %d", attributes[i]);
        }
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

// ---- other processes

API cuEventCreate(CUevent *event, unsigned int flags);

API cuDeviceGetUuid(gwb_cuda_uuid *uuid, CUdevice device)
{
    memset(uuid->bytes, 0xf0 + device, sizeof uuid->bytes);
    return 0;
}
API cuIpcGetMemHandle(gwb_cuda_ipc *handle, CUdeviceptr memory)
{
    pthread_mutex_lock(&lock);
    const block *b = find_block((void *)(uintptr_t)memory);
    const ipc from = {getpid(), b ? b->fd : -1, b ? b->bytes : 0};
    pthread_mutex_unlock(&lock);
    if (!b || (uintptr_t)b->data != memory || b->fd < 0 || b->opened)
        return INVALID_VALUE;
    memset(handle, 0x5a, sizeof *handle);
    memcpy(handle, &from, sizeof from);
    return 0;
}
API cuIpcOpenMemHandle_v2(CUdeviceptr *memory, gwb_cuda_ipc handle, unsigned int flags)
{
    ipc from;
    char path[64];
    memcpy(&from, &handle, sizeof from);
    if (!current || flags != GWB_CUDA_IPC_PEER_ACCESS || from.pid == getpid() || handle.bytes[63] != 0x5a)
        return INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    block *b = blocks;
    while (b && !(b->opened && memcmp(&b->from, &from, sizeof from) == 0))
        b = b->next;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", from.pid, from.fd);
    const int fd = b ? b->fd : open(path, O_RDWR | O_CLOEXEC);
    if (!b && fd >= 0) {
        b = malloc(sizeof *b);
        *b = (block){.next = blocks, .data = map_file(fd, from.bytes), .bytes = from.bytes, .device = current->device, .context = current->device,
                     .fd = fd, .from = from};
        blocks = b;
    }
    if (b)
        *memory = (uintptr_t)b->data, b->opened++;
    pthread_mutex_unlock(&lock);
    return b ? 0 : INVALID_VALUE;
}
API cuIpcCloseMemHandle(CUdeviceptr memory)
{
    pthread_mutex_lock(&lock);
    wait_for(-1);
    block **at = &blocks;
    while (*at && (uintptr_t)(*at)->data != memory)
        at = &(*at)->next;
    block *b = *at;
    if (!b || !b->opened)
        panic("%p is closed and is not another process's", (void *)(uintptr_t)memory);
    if (--b->opened == 0) {
        *at = b->next;
        free_block(b);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
// An event of another process counts as reached.
API cuIpcGetEventHandle(gwb_cuda_ipc *handle, CUevent event)
{
    memset(handle, 0x6b, sizeof *handle);
    return event->alive && event->flags == (GWB_CUDA_EVENT_INTERPROCESS | GWB_CUDA_EVENT_DISABLE_TIMING) ? 0 : INVALID_VALUE;
}
API cuIpcOpenEventHandle(CUevent *event, gwb_cuda_ipc handle)
{
    return handle.bytes[0] == 0x6b ? cuEventCreate(event, GWB_CUDA_EVENT_INTERPROCESS | GWB_CUDA_EVENT_DISABLE_TIMING) : INVALID_VALUE;
}

// ---- what the operations of a stream do

static void run_kernel(const launch *l)
{
    uint32_t words[GWB_FILL_WORDS];
    if (strcmp(l->name, "gwb_spin") == 0)
        nanosleep(&(struct timespec){l->ns / 1000000000, l->ns % 1000000000}, NULL);
    for (int i = 0; i < GWB_FILL_WORDS && strcmp(l->name, "gwb_fill") == 0; i++)
        words[i] = gwb_fill_word(&l->args.fill, i);
    for (unsigned by = 0; by < l->grid_y; by++)
        for (unsigned bx = 0; bx < l->grid_x; bx++)
            for (unsigned ty = 0; ty < l->block_y; ty++)
                for (unsigned tx = 0; tx < l->block_x; tx++) {
                    const int x = (int)(bx * l->block_x + tx);
                    if (strcmp(l->name, "gwb_copy") == 0)
                        gwb_copy_aligned(&l->args.copy, bx, tx);
                    else if (strcmp(l->name, "gwb_copy_any") == 0)
                        gwb_copy_any(&l->args.copy, bx, tx);
                    for (unsigned y = by * l->block_y + ty; y < (unsigned)l->ny; y += l->grid_y * l->block_y) {
                        if (strcmp(l->name, "gwb_fill") == 0)
                            gwb_fill_chunk(&l->args.fill, words, x, (int)y);
                        else if (strcmp(l->name, "gwb_cast") == 0)
                            gwb_cast_run(&l->args.cast, (int)(bx * GWB_CAST_RUN * GWB_CAST_STRIDE + tx), (int)y);
                        else if (strcmp(l->name, "gwb_channels") == 0)
                            gwb_channels_run(&l->args.channels, (int)(bx * GWB_CHANNELS_RUN * GWB_CHANNELS_STRIDE + tx), (int)y, GWB_CHANNELS_RUN,
                                             GWB_CHANNELS_STRIDE, l->args.channels.size);
                    }
                }
}

static void release_point(point *p)     // under the lock
{
    if (p && --p->refs == 0)
        free(p);
}

static void run(job *j)
{
    switch (j->kind) {
    case RECORD:
        break;      // the worker does it, at the moment it takes the job off the stream
    case WAIT:
        pthread_mutex_lock(&lock);
        while (!j->point->reached)
            pthread_cond_wait(&moved, &lock);
        pthread_mutex_unlock(&lock);
        break;
    case COPY:
        for (size_t y = 0; y < j->u.rows.count; y++)
            memcpy(j->u.rows.dst + y * j->u.rows.dst_step, j->u.rows.src + y * j->u.rows.src_step, j->u.rows.width);
        break;
    case KERNEL:
        run_kernel(&j->u.launch);
        break;
    case CALL:
        j->u.call.fn(j->u.call.arg);
        break;
    }
}

static void *work(void *arg)
{
    CUstream s = arg;
    const bool jitter = getenv("FAKE_JITTER") != NULL;
    unsigned seed = (unsigned)(uintptr_t)s;
    pthread_mutex_lock(&lock);
    while (s->alive || s->first) {
        job *j = s->first;
        if (!j) {
            pthread_cond_wait(&moved, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        if (jitter)
            usleep((unsigned)rand_r(&seed) % 400);
        run(j);
        pthread_mutex_lock(&lock);
        if (j->kind == RECORD) {
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            j->point->ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
            j->point->reached = true;
        }
        release_point(j->point);
        s->first = j->next;
        if (!s->first)
            s->last = &s->first;
        s->pending--;
        free(j);
        pthread_cond_broadcast(&moved);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

// ---- streams

static CUstream make_stream(int device)
{
    CUstream s = calloc(1, sizeof *s);
    pthread_t thread;
    s->alive = 1;
    s->device = device;
    s->last = &s->first;
    pthread_mutex_lock(&lock);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&lock);
    if (pthread_create(&thread, NULL, work, s) != 0)
        panic("no thread");
    pthread_detach(thread);
    return s;
}

// The stream of a handle, which must be alive and of the current context's device.
static CUstream stream_of(CUstream s)
{
    if (!current)
        panic("a call on a stream without a context");
    if ((uintptr_t)s <= 2) {
        CUstream *own = &legacy[current->device];
        return *own ? *own : (*own = make_stream(current->device));
    }
    if (!s->alive)
        panic("a call on a stream that was destroyed");
    if (s->device != current->device)
        panic("a call on a stream of device %d in the context of device %d", s->device, current->device);
    return s;
}

static CUresult enqueue(CUstream s, job fill)
{
    if (current && faulted[current->device])
        return faulted[current->device];
    job *j = malloc(sizeof *j);
    *j = fill;
    j->next = NULL;
    s = stream_of(s);
    if (s->graph) {
        if (j->point)
            panic("an event is recorded, or waited for, while its stream is captured");
        *s->graph->last = j;
        s->graph->last = &j->next;
        return 0;
    }
    pthread_mutex_lock(&lock);
    *s->last = j;
    s->last = &j->next;
    s->pending++;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    return 0;
}

API cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    if (!current || flags > GWB_CUDA_STREAM_NON_BLOCKING || priority > 0 || priority < -5)
        return INVALID_VALUE;
    *stream = make_stream(current->device);
    return 0;
}
API cuStreamDestroy_v2(CUstream stream)
{
    stream_of(stream);
    pthread_mutex_lock(&lock);
    stream->alive = 0;      // never freed, so that a later use is seen
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    return 0;
}

// ---- graphs: the operations that were captured

API cuStreamBeginCapture_v2(CUstream stream, int mode)
{
    stream = stream_of(stream);
    if (stream->graph || mode != GWB_CUDA_CAPTURE_RELAXED)
        return INVALID_VALUE;
    stream->graph = calloc(1, sizeof *stream->graph);
    stream->graph->last = &stream->graph->first;
    return 0;
}
API cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    stream = stream_of(stream);
    *graph = stream->graph;
    stream->graph = NULL;
    return *graph ? 0 : INVALID_VALUE;
}
static CUgraph copy_graph(CUgraph from)
{
    CUgraph graph = calloc(1, sizeof *graph);
    graph->last = &graph->first;
    for (const job *j = from->first; j; j = j->next) {
        job *copy = malloc(sizeof *copy);
        *copy = *j;
        copy->next = NULL;
        *graph->last = copy;
        graph->last = &copy->next;
    }
    return graph;
}
API cuGraphDestroy(CUgraph graph)
{
    while (graph->first) {
        job *next = graph->first->next;
        free(graph->first);
        graph->first = next;
    }
    free(graph);
    return 0;
}
API cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    *exec = (CUgraphExec)copy_graph(graph);
    return 0;
}
API cuGraphExecDestroy(CUgraphExec exec) { return cuGraphDestroy((CUgraph)exec); }
API cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    if (stream_of(stream)->graph)
        return INVALID_VALUE;
    for (const job *j = ((CUgraph)exec)->first; j; j = j->next)
        enqueue(stream, *j);
    return 0;
}
API cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, gwb_cuda_graph_update *result)
{
    CUgraph old = (CUgraph)exec;
    const job *a = old->first, *b = graph->first;
    while (a && b && a->kind == b->kind && (a->kind != KERNEL || strcmp(a->u.launch.name, b->u.launch.name) == 0))
        a = a->next, b = b->next;
    result->result = a || b;
    if (a || b)
        return 910;
    CUgraph copy = copy_graph(graph), was = calloc(1, sizeof *was);
    *was = *old;
    was->last = &was->first;
    *old = *copy;
    if (!old->first)
        old->last = &old->first;
    free(copy);
    return cuGraphDestroy(was);
}

API cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    *context = &contexts[stream->device];
    return 0;
}
API cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    *flags = stream_of(stream) ? GWB_CUDA_STREAM_NON_BLOCKING : 0;
    return 0;
}
API cuStreamQuery(CUstream stream)
{
    stream = stream_of(stream);
    if (faulted[stream->device])
        return faulted[stream->device];
    pthread_mutex_lock(&lock);
    const bool busy = stream->pending > 0;
    pthread_mutex_unlock(&lock);
    return busy ? GWB_CUDA_NOT_READY : 0;
}
API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    if (!event->alive)
        panic("a wait for an event that was destroyed");
    pthread_mutex_lock(&lock);
    point *p = event->point;
    if (p)
        p->refs++;
    pthread_mutex_unlock(&lock);
    return p ? enqueue(stream, (job){.kind = WAIT, .point = p}) : 0;
}

// ---- events

API cuEventCreate(CUevent *event, unsigned int flags)
{
    if (!current)
        return INVALID_CONTEXT;
    *event = malloc(sizeof **event);
    **event = (struct CUevent_st){1, current->device, flags, NULL};
    return 0;
}
API cuEventDestroy_v2(CUevent event)
{
    pthread_mutex_lock(&lock);
    if (!event->alive)
        panic("an event is destroyed twice");
    release_point(event->point);
    *event = (struct CUevent_st){0};
    pthread_mutex_unlock(&lock);
    return 0;
}
API cuEventRecord(CUevent event, CUstream stream)
{
    if (!event->alive || event->device != stream_of(stream)->device)
        panic("an event is recorded that is dead or of another device");
    point *p = calloc(1, sizeof *p);
    p->refs = 2;
    pthread_mutex_lock(&lock);
    release_point(event->point);
    event->point = p;
    pthread_mutex_unlock(&lock);
    return enqueue(stream, (job){.kind = RECORD, .point = p});
}
API cuEventQuery(CUevent event)
{
    pthread_mutex_lock(&lock);
    if (!event->alive)
        panic("a dead event is queried");
    if (faulted[event->device])
        return pthread_mutex_unlock(&lock), faulted[event->device];
    const bool reached = !event->point || event->point->reached;
    pthread_mutex_unlock(&lock);
    return reached ? 0 : GWB_CUDA_NOT_READY;
}
API cuEventSynchronize(CUevent event)
{
    pthread_mutex_lock(&lock);
    if (!event->alive)
        panic("a dead event is waited for");
    if (faulted[event->device])
        return faulted[event->device];
    point *p = event->point;
    if (p) {
        p->refs++;
        while (!p->reached)
            pthread_cond_wait(&moved, &lock);
        release_point(p);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
API cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    if ((start->flags | end->flags) & GWB_CUDA_EVENT_DISABLE_TIMING)
        return 400;
    pthread_mutex_lock(&lock);
    *ms = (float)(end->point->ms - start->point->ms);
    pthread_mutex_unlock(&lock);
    return 0;
}

// ---- work

static CUresult copy(CUstream stream, rows r)
{
    want(r.dst, (r.count - 1) * r.dst_step + r.width, -2, "a copy's destination");
    want(r.src, (r.count - 1) * r.src_step + r.width, -2, "a copy's source");
    return enqueue(stream, (job){.kind = COPY, .u.rows = r});
}
API cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return copy(stream, (rows){(uint8_t *)(uintptr_t)dst, (const uint8_t *)(uintptr_t)src, 0, 0, bytes, 1});
}
API cuMemcpy2DAsync_v2(const gwb_cuda_copy2d *c, CUstream stream)
{
    if (c->src_step < c->width || c->dst_step < c->width || c->src_step > INT32_MAX || c->dst_step > INT32_MAX)
        return INVALID_VALUE;
    return copy(stream, (rows){c->dst_type == GWB_CUDA_MEMORY_HOST ? c->dst_host : (void *)(uintptr_t)c->dst,
                               c->src_type == GWB_CUDA_MEMORY_HOST ? c->src_host : (const void *)(uintptr_t)c->src, c->dst_step, c->src_step,
                               c->width, c->rows});
}
API cuMemcpy3DPeerAsync(const gwb_cuda_copy3d_peer *c, CUstream stream)
{
    if (c->src_step < c->width || c->dst_step < c->width || c->depth != 1)
        return INVALID_VALUE;
    want((void *)(uintptr_t)c->src, c->width, c->src_context->device, "a copy's source");
    want((void *)(uintptr_t)c->dst, c->width, c->dst_context->device, "a copy's destination");
    return copy(stream, (rows){(uint8_t *)(uintptr_t)c->dst, (const uint8_t *)(uintptr_t)c->src, c->dst_step, c->src_step, c->width, c->rows});
}

// The symbol of an image, or NULL.
static const Elf64_Sym *find_symbol(CUmodule m, const char *name, int type)
{
    const Elf64_Ehdr *e = (const void *)m->image;
    const Elf64_Shdr *s = (const void *)(m->image + e->e_shoff);
    for (int i = 0; i < e->e_shnum; i++)
        for (size_t k = 0; s[i].sh_type == SHT_SYMTAB && k < s[i].sh_size / sizeof(Elf64_Sym); k++) {
            const Elf64_Sym *y = (const Elf64_Sym *)(const void *)(m->image + s[i].sh_offset) + k;
            if (ELF64_ST_TYPE(y->st_info) == type && strcmp(m->image + s[s[i].sh_link].sh_offset + y->st_name, name) == 0)
                return y;
        }
    return NULL;
}

API cuModuleLoadData(CUmodule *module, const void *image)
{
    *module = calloc(1, sizeof **module);
    const Elf64_Ehdr *e = image;
    if (!current || !image)
        return INVALID_CONTEXT;
    if (memcmp(image, ELFMAG, SELFMAG) != 0)    // the fatbin of the basic kernels
        return 0;
    size_t size = e->e_shoff + (size_t)e->e_shnum * e->e_shentsize;
    for (int i = 0; i < e->e_shnum; i++) {
        const Elf64_Shdr *s = (const Elf64_Shdr *)(const void *)((const char *)image + e->e_shoff) + i;
        if (s->sh_type != SHT_NOBITS && s->sh_offset + s->sh_size > size)
            size = s->sh_offset + s->sh_size;
    }
    (*module)->image = malloc(size);
    memcpy((*module)->image, image, size);
    return 0;
}
API cuModuleUnload(CUmodule module)
{
    free(module->image);
    free(module);
    return 0;
}
API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    if (module->image && !find_symbol(module, name, STT_FUNC))
        return NOT_FOUND;
    *function = calloc(1, sizeof **function);
    snprintf((*function)->name, sizeof (*function)->name, "%s", name);
    (*function)->from_image = module->image != NULL;
    return 0;
}
API cuModuleGetGlobal_v2(CUdeviceptr *where, size_t *bytes, CUmodule module, const char *name)
{
    const Elf64_Sym *y = find_symbol(module, name, STT_OBJECT);
    *where = 0;
    *bytes = y ? y->st_size : 0;
    return y ? 0 : NOT_FOUND;
}
API cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    *value = attribute == GWB_CUDA_FUNCTION_THREADS ? 1024 : 0;
    return function ? 0 : INVALID_VALUE;
}
API cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    return function && attribute == GWB_CUDA_FUNCTION_DYNAMIC_SHARED && value <= 227 << 10 ? 0 : INVALID_VALUE;
}
// NVRTC looks for a cache of the driver's by it.
API cuGetExportTable(const void **table, const void *id)
{
    static const size_t empty = sizeof empty;
    (void)id;
    *table = &empty;
    return 0;
}
API cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                   unsigned int block_z, unsigned int shared, CUstream stream, void **params, void **extra)
{
    static const struct { const char *name; size_t size; } known[] = {
        {"gwb_copy", sizeof(gwb_copy_args)}, {"gwb_copy_any", sizeof(gwb_copy_args)}, {"gwb_fill", sizeof(gwb_fill_args)},
        {"gwb_cast", sizeof(gwb_cast_args)}, {"gwb_channels", sizeof(gwb_channels_args)}, {"gwb_spin", 0},
    };
    const char *fault = getenv("FAKE_FAULT");
    if (fault && strcmp(fault, function->name) == 0 && current && !faulted[current->device]) {
        faulted[current->device] = ILLEGAL_ADDRESS;     // told by later calls
        return 0;
    }
    if (function->from_image)
        return enqueue(stream, (job){.kind = KERNEL});
    if (!grid_x || !grid_y || grid_z != 1 || grid_y > 65535 || block_x * block_y > 1024 || block_z != 1 || shared || extra)
        return INVALID_VALUE;
    job j = {.kind = KERNEL, .u.launch = {.grid_x = grid_x, .grid_y = grid_y, .block_x = block_x, .block_y = block_y}};
    memcpy(j.u.launch.name, function->name, sizeof j.u.launch.name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(function->name, known[i].name) != 0)
            continue;
        if (known[i].size) {
            memcpy(&j.u.launch.args, params[0], known[i].size);
            j.u.launch.ny = *(int *)params[2];
        } else {
            j.u.launch.ns = *(long long *)params[0];
        }
        return enqueue(stream, j);
    }
    return NOT_SUPPORTED;
}
API cuLaunchHostFunc(CUstream stream, void (*fn)(void *), void *arg)
{
    return enqueue(stream, (job){.kind = CALL, .u.call = {fn, arg}});
}

// ---- devices

static CUresult from_env(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return (CUresult)(value ? atoi(value) : otherwise);
}
API cuInit(unsigned int flags)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return flags ? INVALID_VALUE : visible && !*visible ? GWB_CUDA_NO_DEVICE : from_env("FAKE_INIT", 0);
}
API cuDriverGetVersion(int *version)
{
    *version = (int)from_env("FAKE_VERSION", 13000);
    return 0;
}
API cuGetErrorName(CUresult error, const char **text)
{
    static _Thread_local char name[32];
    snprintf(name, sizeof name, "CUDA_ERROR_%u", error);
    *text = name;
    return 0;
}
API cuGetErrorString(CUresult error, const char **text)
{
    *text = error ? "the fake driver says so" : "no error";
    return 0;
}
API cuDeviceGetCount(int *count) { return *count = DEVICES, 0; }
API cuDeviceGet(CUdevice *device, int ordinal) { return *device = ordinal, ordinal < DEVICES ? 0 : 101; }
API cuDeviceGetName(char *name, int size, CUdevice device) { return snprintf(name, (size_t)size, "Fake %d", device), 0; }
API cuDeviceGetUuid_v2(unsigned char uuid[16], CUdevice device)
{
    for (int i = 0; i < 16; i++)
        uuid[i] = (unsigned char)(i * 17 + device);
    return 0;
}
API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { return (void)device, *bytes = MEMORY, 0; }
API cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    (void)device;
    *value = attribute == GWB_CUDA_ATTRIBUTE_MAX_PITCH ? INT32_MAX : attribute == GWB_CUDA_ATTRIBUTE_MAJOR ? 9 : attribute == GWB_CUDA_ATTRIBUTE_SHARED ? 227 << 10
             : attribute == 1 ? 1024 : attribute == 8 ? 49152 : attribute == 39 ? 2048   // threads and shared bytes of a block, threads of a multiprocessor
             : attribute == 14 ? 512    // alignment of textures
             : attribute == GWB_CUDA_ATTRIBUTE_UNITS;
    return 0;
}
API cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) { return *can = device != peer, 0; }
API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) { return *context = &contexts[device], 0; }
API cuDevicePrimaryCtxRelease_v2(CUdevice device) { return (void)device, 0; }
API cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    pthread_mutex_lock(&lock);
    wait_for(device);
    for (CUstream s = streams; s; s = s->next)
        s->alive = s->device == device ? 0 : s->alive;
    legacy[device] = NULL;
    for (block **at = &blocks; *at;) {
        block *b = *at;
        if (b->context != device) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        used -= b->device < 0 || b->opened ? 0 : b->bytes;
        free_block(b);
    }
    faulted[device] = 0;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    return 0;
}
API cuCtxGetCurrent(CUcontext *context) { return *context = current, 0; }
API cuCtxSetCurrent(CUcontext context) { return current = context, 0; }
API cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, 0; }
API cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) { return current && peer != current && !flags ? 0 : INVALID_CONTEXT; }
API cuCtxSynchronize(void)
{
    if (!current || faulted[current->device])
        return current ? faulted[current->device] : INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    wait_for(current->device);
    pthread_mutex_unlock(&lock);
    return 0;
}
