// SPDX-License-Identifier: MIT
// Copies on a cuda stream: within the device by a kernel, all rectangles in one launch; to and from page-locked memory and between devices by
// the driver.
#include "cuda.h"

#include "../../kernels/copy.h"

#include <stdint.h>

// From this size on a copy without gaps is the driver's: there its launch no longer counts and its kernel is the best there is. A 4K picture (12 MB)
// takes it 11.6 us, a plain kernel 9.2.
static const int64_t driver_from = 256 << 20;   // bytes

// ---- the kernel's batch

typedef struct batch {
    gwb_copy_args args;
    int count;
    uint32_t blocks;
    bool aligned;       // every rectangle's addresses and steps are multiples of 16
} batch;

static const batch empty = {.args = {{{.block = UINT32_MAX}, {.block = UINT32_MAX}, {.block = UINT32_MAX}, {.block = UINT32_MAX}}}, .aligned = true};

static int flush(gwb_queue *q, batch *b)
{
    if (!b->count)
        return 0;
    const gwb_cuda_device *c = gwb_cuda_of(q->dev);
    int unused = 0;
    void *params[] = {&b->args, &unused, &unused, &unused};
    gwb_cuda_note(q, "copy");
    int rc = gwb_cuda_check(gwb_cuda_start(q, b->aligned ? c->kernels[GWB_KERNEL_copy] : c->copy_any, b->blocks, 1, 1, GWB_COPY_THREADS, 1, params),
                            "copying on %s", q->dev->info.name);
    *b = empty;
    return rc;
}

static const uint32_t most_chunks = INT32_MAX;  // of a rectangle

// 16-byte chunks of a row at the destination's 16-byte borders, for the worst of the rows.
static int64_t chunks_of(const gwb_rect *r)
{
    const int64_t before = r->rows == 1 || r->dst_step % 16 == 0 ? (intptr_t)r->dst & 15 : 15;
    return (before + r->width + 15) / 16;
}

// n / d == n * magic >> 32 >> shift for every n below 2^31: magic is 2^(32 + shift) / d rounded up, with 2^shift < d <= 2^(shift + 1).
static void set_divider(gwb_copy_rect *r, uint32_t d)
{
    r->chunks = d;
    if (d == 1)     // the kernel does not divide
        return;
    while (UINT64_C(2) << r->shift < d)
        r->shift++;
    r->magic = (uint32_t)(((UINT64_C(1) << (32 + r->shift)) + d - 1) / d);
}

static void add(batch *b, const gwb_rect *r, int64_t chunks)
{
    gwb_copy_rect *to = &b->args.rect[b->count++];
    *to = (gwb_copy_rect){.dst = r->dst, .src = r->src, .dst_step = r->dst_step, .src_step = r->src_step, .width = r->width, .rows = r->rows,
                          .block = b->blocks};
    set_divider(to, (uint32_t)chunks);
    const int64_t of_block = GWB_COPY_THREADS * GWB_COPY_RUN;
    b->blocks += (uint32_t)((r->rows * chunks + of_block - 1) / of_block);
    b->aligned &= (((uintptr_t)r->dst | (uintptr_t)r->src | (uintptr_t)r->dst_step | (uintptr_t)r->src_step) & 15) == 0;
}

// Adds `r`, in pieces where it has more chunks than one rectangle may.
static int copy_by_kernel(gwb_queue *q, batch *b, gwb_rect r)
{
    int rc = 0;
    const int64_t chunks = chunks_of(&r), most_rows = most_chunks / chunks;
    for (int64_t left = r.rows; left > 0 && rc >= 0; left -= r.rows) {
        if (b->count == 4)
            rc = flush(q, b);
        r.rows = left < most_rows ? left : most_rows;
        add(b, &r, chunks);
        r.dst += r.rows * r.dst_step;
        r.src += r.rows * r.src_step;
    }
    return rc;
}

// ---- the driver's copies

static int copy_run(gwb_queue *q, uint8_t *dst, const uint8_t *src, int64_t bytes)
{
    return gwb_cuda_check(gwb_cuda.MemcpyAsync((uintptr_t)dst, (uintptr_t)src, (size_t)bytes, gwb_cuda_stream(q)), "copying %lld bytes on %s",
                          (long long)bytes, q->dev->info.name);
}

static int copy_row_by_row(gwb_queue *q, const gwb_rect *r)
{
    int rc = 0;
    for (int64_t y = 0; y < r->rows && rc >= 0; y++)
        rc = copy_run(q, r->dst + y * r->dst_step, r->src + y * r->src_step, r->width);
    return rc;
}

// Between the device and page-locked memory.
static int copy_rows(gwb_queue *q, const gwb_rect *r)
{
    const int64_t most = gwb_cuda_of(q->dev)->max_step;
    if (r->dst_step > most || r->src_step > most)
        return copy_row_by_row(q, r);
    const gwb_cuda_copy2d copy = {
        .src_type = r->src_space == GWB_SPACE_PINNED ? GWB_CUDA_MEMORY_HOST : GWB_CUDA_MEMORY_DEVICE,
        .src_host = r->src, .src = (uintptr_t)r->src, .src_step = (size_t)r->src_step,
        .dst_type = r->dst_space == GWB_SPACE_PINNED ? GWB_CUDA_MEMORY_HOST : GWB_CUDA_MEMORY_DEVICE,
        .dst_host = r->dst, .dst = (uintptr_t)r->dst, .dst_step = (size_t)r->dst_step,
        .width = (size_t)r->width, .rows = (size_t)r->rows,
    };
    return gwb_cuda_check(gwb_cuda.Memcpy2DAsync(&copy, gwb_cuda_stream(q)), "copying %lld rows of %lld bytes on %s", (long long)r->rows,
                          (long long)r->width, q->dev->info.name);
}

// Lets `from` reach the memory of `to` by itself where the machine can: without it the driver copies by way of the host. Asked once.
static void reach(gwb_device *from, gwb_device *to)
{
    gwb_cuda_device *c = gwb_cuda_of(from);
    const uint64_t bit = UINT64_C(1) << to->info.index;
    int can = 0;
    if (from == to || c->peers & bit)
        return;
    c->peers |= bit;
    CUDA_SCOPE(from);
    if (gwb_cuda.DeviceCanAccessPeer(&can, from->info.index, to->info.index) == 0 && can)
        gwb_cuda.CtxEnablePeerAccess(gwb_cuda_of(to)->context, 0);      // a refusal leaves the way by the host
}

static int copy_between(gwb_queue *q, const gwb_rect *r, gwb_device *dst, gwb_device *src)
{
    reach(dst, src);
    reach(src, dst);
    if (r->rows == 1)
        return copy_run(q, r->dst, r->src, r->width);
    const int64_t most = gwb_cuda_of(q->dev)->max_step;
    if (r->dst_step > most || r->src_step > most)
        return copy_row_by_row(q, r);
    const gwb_cuda_copy3d_peer copy = {
        .src_type = GWB_CUDA_MEMORY_DEVICE, .src = (uintptr_t)r->src, .src_context = gwb_cuda_of(src)->context, .src_step = (size_t)r->src_step,
        .dst_type = GWB_CUDA_MEMORY_DEVICE, .dst = (uintptr_t)r->dst, .dst_context = gwb_cuda_of(dst)->context, .dst_step = (size_t)r->dst_step,
        .width = (size_t)r->width, .rows = (size_t)r->rows, .depth = 1,
    };
    return gwb_cuda_check(gwb_cuda.Memcpy3DPeerAsync(&copy, gwb_cuda_stream(q)), "copying %lld rows of %lld bytes from %s to %s", (long long)r->rows,
                          (long long)r->width, src->info.name, dst->info.name);
}

// ---- all of them

static int copy_one(gwb_queue *q, batch *b, gwb_rect r)
{
    const int own = q->dev->position;
    if (r.dst_step == r.width && r.src_step == r.width) {
        r.width *= r.rows;
        r.rows = 1;
    }
    if (r.rows == 1)
        r.dst_step = r.src_step = 0;
    const bool host_dst = r.dst_space == GWB_SPACE_PINNED, host_src = r.src_space == GWB_SPACE_PINNED;
    if ((r.dst_space == own && r.src_space == own) || (host_dst && host_src)) {
        if (r.rows == 1 && r.width >= driver_from)
            return copy_run(q, r.dst, r.src, r.width);
        return chunks_of(&r) > most_chunks ? copy_row_by_row(q, &r) : copy_by_kernel(q, b, r);
    }
    if (!host_dst && !host_src) {
        gwb_device *dst = gwb_device_at(r.dst_space), *src = gwb_device_at(r.src_space);
        return dst && src ? copy_between(q, &r, dst, src) : GWB_NO_DEVICE;
    }
    return r.rows == 1 ? copy_run(q, r.dst, r.src, r.width) : copy_rows(q, &r);
}

int gwb_cuda_copy(gwb_queue *q, const gwb_rect *rects, int count)
{
    CUDA_SCOPE(q->dev);
    gwb_cuda_queue_begin(q);
    batch b = empty;
    int rc = 0;
    for (int i = 0; i < count && rc >= 0; i++)
        rc = copy_one(q, &b, rects[i]);
    return rc < 0 ? rc : flush(q, &b);
}
