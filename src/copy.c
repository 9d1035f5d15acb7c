// SPDX-License-Identifier: MIT
// Copies between mats, pointers and devices; fills, casts, channels.
#include "copy.h"

#include "list.h"
#include "args.h"
#include "number.h"
#include "stream.h"
#include "trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Pageable memory goes through page-locked blocks of at most this many bytes, so that a large picture needs no second one of its size.
static const int64_t stage_bytes = 64 << 20;

static int space_of(const gwb_mat *m)
{
    return m->device > 0 ? m->device : m->flags & GWB_MAT_PINNED ? GWB_SPACE_PINNED : GWB_SPACE_PAGEABLE;
}

static gwb_side side_of(const gwb_mat *m)
{
    return (gwb_side){m->data, m->step, m->buf, space_of(m), m};
}

static void copy_rows(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, int64_t width, int64_t rows)
{
    if (dst_step == width && src_step == width) {
        memcpy(dst, src, (size_t)(width * rows));
        return;
    }
    for (int64_t y = 0; y < rows; y++)
        memcpy(dst + y * dst_step, src + y * src_step, (size_t)width);
}

// ---- rectangles

// Issues rectangles between memories that `device` reaches by itself.
static int issue(int device, const gwb_side *dst, const gwb_side *src, const gwb_rect *rects, int count, const gwb_stream *s)
{
    gwb_op op;
    int rc = gwb_op_begin(&op, device, s);
    if (rc < 0)
        return rc;
    for (int i = 0; i < count; i++) {
        gwb_op_use(&op, src[i].buf, false);
        gwb_op_use(&op, dst[i].buf, true);
    }
    gwb_trace_copy(&op, rects, count);
    rc = gwb_op_ready(&op);
    if (rc >= 0)
        rc = op.queue->dev->ops->copy(op.queue, rects, count);
    return gwb_op_end(&op, rc);
}

// Rows from memory that may go away on return: into staging memory at once, from there on the stream.
static int copy_in(int device, const gwb_side *dst, const uint8_t *src, int64_t src_step, int64_t width, int64_t rows, const gwb_stream *s)
{
    gwb_device *host = gwb_device_at(0);
    int64_t chunk = stage_bytes / width < 1 ? 1 : stage_bytes / width;
    for (int64_t y = 0; y < rows; y += chunk) {
        int64_t n = rows - y < chunk ? rows - y : chunk;
        gwb_buf *stage = NULL;
        gwb_lock();
        int rc = gwb_buf_create(&stage, host, n * width, device > 0, NULL);
        gwb_unlock();
        if (rc < 0)
            return rc;
        copy_rows(stage->base, width, src + y * src_step, src_step, width, n);
        gwb_side from = {stage->base, width, stage, device > 0 ? GWB_SPACE_PINNED : GWB_SPACE_PAGEABLE, NULL};
        gwb_side to = *dst;
        to.data += y * dst->step;
        gwb_rect rect = {to.data, from.data, to.step, width, width, n, to.space, from.space};
        rc = issue(device, &to, &from, &rect, 1, s);
        gwb_lock();
        gwb_buf_release(stage);
        gwb_unlock();
        if (rc < 0)
            return rc;
    }
    return 0;
}

// Rows of a cuda device to pageable memory: by page-locked blocks, the next on its way while one is unpacked. Waits.
static int copy_out(int device, uint8_t *dst, int64_t dst_step, const gwb_side *src, int64_t width, int64_t rows, const gwb_stream *s)
{
    gwb_device *host = gwb_device_at(0);
    int64_t chunk = stage_bytes / 2 / width < 1 ? 1 : stage_bytes / 2 / width;
    gwb_buf *stage[2] = {NULL, NULL};
    gwb_lock();
    int rc = src->buf ? gwb_graph_check_result(src->buf) : 0;
    gwb_unlock();
    for (int64_t y = 0, k = 0; rc >= 0 && (y < rows || stage[(k + 1) % 2]); y += chunk, k++) {
        gwb_buf **next = &stage[k % 2], **full = &stage[(k + 1) % 2];
        if (y < rows) {
            int64_t n = rows - y < chunk ? rows - y : chunk;
            gwb_lock();
            rc = gwb_buf_create(next, host, n * width, true, NULL);
            gwb_unlock();
            if (rc < 0)
                break;
            gwb_side to = {(*next)->base, width, *next, GWB_SPACE_PINNED, NULL};
            gwb_side from = *src;
            from.data += y * src->step;
            gwb_rect rect = {to.data, from.data, width, from.step, width, n, to.space, from.space};
            rc = issue(device, &to, &from, &rect, 1, s);
        }
        if (rc >= 0 && *full) {
            gwb_lock();
            rc = gwb_buf_wait(*full, false);
            gwb_unlock();
            int64_t done = y - chunk, n = rows - done < chunk ? rows - done : chunk;
            if (rc >= 0)
                copy_rows(dst + done * dst_step, dst_step, (*full)->base, width, width, n);
        }
        gwb_lock();
        if (*full)
            gwb_buf_release(*full);
        *full = NULL;
        gwb_unlock();
    }
    gwb_lock();
    for (int i = 0; i < 2; i++)
        if (stage[i])
            gwb_buf_release(stage[i]);
    gwb_unlock();
    return rc;
}

// Plain memory is copied from or to while the caller waits. s: NULL for the default stream of the device.
static int check_plain(int device, const gwb_stream *s, const char *direction)
{
    const gwb_queue *q = s ? s->queue : gwb_device_peek(device)->default_queue;
    return q && q->graph ? gwb_fail(GWB_UNSUPPORTED, "a copy %s plain memory cannot be recorded, since it is done when the call returns; use a mat of "
        "gpu.host_mat there", direction) : 0;
}

// One rectangle between any two memories. Sides without a known allocation are not held, so the call then waits for the copy.
static int copy_side(const gwb_side *dst, const gwb_side *src, int64_t width, int64_t rows, const gwb_stream *s)
{
    int device = dst->space > 0 ? dst->space : src->space > 0 ? src->space : 0;
    if (s && dst->space > 0 && src->space > 0 && s->device == src->space)
        device = src->space;
    // a cuda device reaches it through staging memory, also where it is a mat's
    const bool to = dst->space == GWB_SPACE_PAGEABLE && (device > 0 || !dst->buf), from = src->space == GWB_SPACE_PAGEABLE && (device > 0 || !src->buf);
    const int plain = to || from ? check_plain(device, s, to ? "to" : "from") : 0;
    if (plain < 0)
        return plain;
    if (device > 0 && src->space == GWB_SPACE_PAGEABLE) {
        gwb_lock();
        int rc = src->buf ? gwb_buf_wait(src->buf, false) : 0;
        gwb_unlock();
        return rc < 0 ? rc : copy_in(device, dst, src->data, src->step, width, rows, s);
    }
    if (device > 0 && dst->space == GWB_SPACE_PAGEABLE) {
        gwb_lock();
        int rc = dst->buf ? gwb_buf_wait(dst->buf, true) : 0;
        gwb_unlock();
        return rc < 0 ? rc : copy_out(device, dst->data, dst->step, src, width, rows, s);
    }
    gwb_rect rect = {dst->data, src->data, dst->step, src->step, width, rows, dst->space, src->space};
    int rc = issue(device, dst, src, &rect, 1, s);
    if (rc < 0 || device > 0 || (dst->buf && src->buf))
        return rc;
    gwb_queue *q = s ? s->queue : gwb_device_at(0)->default_queue;
    gwb_lock();
    uint64_t seq = q->issued;
    gwb_unlock();
    return q->dev->ops->queue_wait(q, seq);
}

// ---- mats

static bool overlap(const gwb_mat *a, const gwb_mat *b)
{
    return a->buf && a->buf == b->buf && gwb_footprint_shared(gwb_mat_footprint(a), gwb_mat_footprint(b)) > 0;
}

static int check_pair(const gwb_mat *dst, const gwb_mat *src)
{
    int rc = gwb_mat_check_writable(dst, "dst");
    if (rc >= 0)
        rc = gwb_mat_check(src, "src");
    if (rc < 0)
        return rc;
    char to[96], from[96];
    if (dst->width != src->width || dst->height != src->height || dst->type != src->type || dst->channels != src->channels)
        return gwb_fail(GWB_SHAPE, "dst (%s) and src (%s) must have the same size and type; use cast() or resize() between them",
                        gwb_mat_text(dst, to), gwb_mat_text(src, from));
    if (overlap(dst, src))
        return gwb_fail(GWB_BAD_ARGUMENT, "dst and src share bytes of one buffer; copy through a clone()");
    return 0;
}

int gwb_copy(const gwb_mat *dst, const gwb_mat *src, const gwb_stream *stream)
{
    return gwb_copy_planes(&dst, &src, 1, stream);
}

int gwb_copy_planes(const gwb_mat *const *dst, const gwb_mat *const *src, int count, const gwb_stream *stream)
{
    if (count < 1 || count > GWB_MAX_PLANES)
        return gwb_fail(GWB_BAD_ARGUMENT, "%d planes; wanted 1..%d", count, GWB_MAX_PLANES);
    gwb_side to[GWB_MAX_PLANES], from[GWB_MAX_PLANES];
    gwb_rect rects[GWB_MAX_PLANES];
    int n = 0, device = 0;
    bool together = true;   // one device call can do them all
    for (int i = 0; i < count; i++) {
        int rc = check_pair(dst[i], src[i]);
        if (rc < 0)
            return rc;
        for (int k = 0; k < i; k++)
            if (overlap(dst[i], dst[k]) || overlap(dst[i], src[k]) || overlap(dst[k], src[i]))
                return gwb_fail(GWB_BAD_ARGUMENT, "planes %d and %d share bytes that are written", k + 1, i + 1);
        if (gwb_mat_empty(dst[i]))
            continue;
        to[n] = side_of(dst[i]);
        from[n] = side_of(src[i]);
        rects[n] = (gwb_rect){to[n].data, from[n].data, to[n].step, from[n].step, gwb_mat_row_bytes(dst[i]), dst[i]->height,
                              to[n].space, from[n].space};
        together = together && to[n].space == to[0].space && from[n].space == from[0].space;
        n++;
    }
    if (n == 0)
        return stream ? gwb_stream_check(stream, "stream") : 0;
    int a = to[0].space, b = from[0].space;
    device = a > 0 ? a : b > 0 ? b : 0;
    if (together && (device == 0 || (a != GWB_SPACE_PAGEABLE && b != GWB_SPACE_PAGEABLE && (a == b || a < 0 || b < 0))))
        return issue(device, to, from, rects, n, stream);
    int rc = 0;
    for (int i = 0; i < n && rc >= 0; i++)
        rc = copy_side(&to[i], &from[i], rects[i].width, rects[i].rows, stream);
    return rc;
}

static int check_step(const gwb_mat *m, int64_t *step, const char *what)
{
    int64_t row = gwb_mat_row_bytes(m);
    if (*step == 0)
        *step = row;
    if (*step < row)
        return gwb_fail(GWB_BAD_ARGUMENT, "%s step %" PRId64 " is less than a row of %" PRId64 " bytes; steps are in bytes", what, *step, row);
    return 0;
}

int gwb_upload(const gwb_mat *dst, const void *src, int64_t step, const gwb_stream *stream)
{
    int rc = gwb_mat_check_writable(dst, "mat");
    if (rc >= 0 && stream)
        rc = gwb_stream_check(stream, "stream");
    if (rc >= 0 && stream)
        rc = check_plain(dst->device, stream, "from");
    if (rc >= 0)
        rc = check_step(dst, &step, "source");
    if (rc < 0 || gwb_mat_empty(dst))
        return rc;
    if (!src)
        return gwb_fail(GWB_BAD_ARGUMENT, "the source is NULL");
    gwb_side to = side_of(dst);
    if (dst->device == 0 && !stream && !gwb_mat_pending(dst)) {     // nothing to wait for: done at once
        copy_rows(to.data, to.step, src, step, gwb_mat_row_bytes(dst), dst->height);
        return 0;
    }
    rc = check_plain(dst->device, stream, "from");
    if (rc < 0)
        return rc;
    return copy_in(dst->device, &to, src, step, gwb_mat_row_bytes(dst), dst->height, stream);
}

int gwb_download(void *dst, int64_t step, const gwb_mat *src, const gwb_stream *stream)
{
    int rc = gwb_mat_check(src, "mat");
    if (rc >= 0 && stream)
        rc = gwb_stream_check(stream, "stream");
    if (rc >= 0 && (stream || src->device > 0))
        rc = check_plain(src->device, stream, "to");
    if (rc >= 0)
        rc = check_step(src, &step, "destination");
    if (rc < 0 || gwb_mat_empty(src))
        return rc;
    if (!dst)
        return gwb_fail(GWB_BAD_ARGUMENT, "the destination is NULL");
    gwb_side from = side_of(src);
    if (src->device > 0)
        return copy_out(src->device, dst, step, &from, gwb_mat_row_bytes(src), src->height, stream);
    rc = gwb_mat_wait(src, 0);
    if (rc >= 0)
        copy_rows(dst, step, from.data, from.step, gwb_mat_row_bytes(src), src->height);
    return rc;
}

// ---- raw 2D copies

static int resolve(gwb_side *side, const gwb_mat *mat, void *ptr, int64_t step, int64_t x, int64_t y, int64_t width, int64_t height, const char *what)
{
    if (mat) {
        int rc = gwb_mat_check(mat, what);
        if (rc < 0)
            return rc;
        *side = side_of(mat);
        if (step)
            side->step = step;
    } else {
        *side = (gwb_side){ptr, step, gwb_buf_find(ptr, -1), GWB_SPACE_PAGEABLE, NULL};
        if (height == 1 && !step)
            side->step = width;
    }
    if (side->step <= 0)
        return gwb_fail(GWB_BAD_ARGUMENT, "%s pitch %" PRId64 "; wanted at least the width of %" PRId64 " bytes (m:fill(row) repeats one row)", what,
                        side->step, width);
    if (width > side->step && height > 1)
        return gwb_fail(GWB_BAD_ARGUMENT, "width_bytes %" PRId64 " > %s pitch %" PRId64 ": rows would run into each other; both are in bytes", width,
                        what, side->step);
    if (x < 0 || y < 0)
        return gwb_fail(GWB_BAD_ARGUMENT, "%s_x %" PRId64 ", %s_y %" PRId64 "; wanted 0 or more", what, x, what, y);
    int64_t offset, body, end;
    if (__builtin_mul_overflow(y, side->step, &offset) || __builtin_add_overflow(offset, x, &offset) ||
        __builtin_mul_overflow(height - 1, side->step, &body) || __builtin_add_overflow(body, width, &body) ||
        __builtin_add_overflow(offset, body, &end) || end > INT64_MAX / 2)
        return gwb_fail(GWB_BAD_ARGUMENT, "%s: %" PRId64 " rows of pitch %" PRId64 " are more than any memory", what, height, side->step);
    if (!side->data)
        return gwb_fail(GWB_BAD_ARGUMENT, mat ? "%s holds no pixels" : "%s is NULL", what);
    side->data += offset;
    const uint8_t *first = NULL;
    int64_t bytes = 0;
    if (side->buf) {
        first = side->buf->base;
        bytes = side->buf->bytes;
        side->space = side->buf->dev->position > 0 ? side->buf->dev->position : side->buf->flags & GWB_MAT_PINNED ? GWB_SPACE_PINNED : GWB_SPACE_PAGEABLE;
    } else if (gwb_device_count() > 1 && gwb_cuda_pointer(side->data, &side->space, &first, &bytes) != 1) {
        first = NULL;
    }
    if (first && (side->data < first || side->data + body > first + bytes))
        return gwb_fail(GWB_BAD_ARGUMENT, "rule P5: %s: the copy touches bytes %" PRId64 "..%" PRId64 " of an allocation of %" PRId64 " bytes", what,
                        (int64_t)(side->data - first), (int64_t)(side->data - first) + body, bytes);
    return 1;
}

int gwb_copy2d_sides(const gwb_copy2d_params *c, gwb_side *dst, gwb_side *src)
{
    if (c->width < 0 || c->height < 0)
        return gwb_fail(GWB_BAD_ARGUMENT, "width %" PRId64 ", height %" PRId64 "; wanted 0 or more (bytes, rows)", c->width, c->height);
    int rc = c->dst_mat ? gwb_mat_check_writable(c->dst_mat, "dst") : 0;
    if (rc < 0 || c->width == 0 || c->height == 0)
        return rc;
    rc = resolve(dst, c->dst_mat, c->dst_ptr, c->dst_step, c->dst_x, c->dst_y, c->width, c->height, "dst");
    if (rc >= 0)
        rc = resolve(src, c->src_mat, c->src_ptr, c->src_step, c->src_x, c->src_y, c->width, c->height, "src");
    if (rc < 0)
        return rc;
    gwb_footprint a = {0, dst->step, c->width, c->height}, b = {src->data - dst->data, src->step, c->width, c->height};
    bool one_memory = dst->space == src->space || (dst->space < 0 && src->space < 0);
    int64_t shared = one_memory ? gwb_footprint_shared(a, b) : 0;
    if (shared)
        return gwb_fail(GWB_BAD_ARGUMENT, "dst and src share %" PRId64 " bytes; copy through memory of its own", shared);
    return 1;
}

int gwb_copy2d(const gwb_copy2d_params *copy, const gwb_stream *stream)
{
    int rc = stream ? gwb_stream_check(stream, "stream") : 0;
    if (rc < 0)
        return rc;
    gwb_side dst, src;
    gwb_lock();
    rc = gwb_copy2d_sides(copy, &dst, &src);
    if (rc > 0) {   // held, so that another thread's close cannot take them away meanwhile
        if (dst.buf)
            gwb_buf_retain(dst.buf);
        if (src.buf)
            gwb_buf_retain(src.buf);
    }
    gwb_unlock();
    if (rc <= 0)
        return rc;
    rc = copy_side(&dst, &src, copy->width, copy->height, stream);
    gwb_lock();
    if (rc >= 0) {
        gwb_copy2d_track(&dst, copy->width, copy->height);
        gwb_copy2d_track(&src, copy->width, copy->height);
    }
    if (dst.buf)
        gwb_buf_release(dst.buf);
    if (src.buf)
        gwb_buf_release(src.buf);
    gwb_unlock();
    return rc;
}

// ---- kernels over mats

static int launch(int device, const gwb_stream *s, const gwb_mat *const *reads, int read_count, const gwb_mat *const *writes, int write_count,
                  const gwb_launch *work)
{
    gwb_op op;
    int rc = gwb_op_begin(&op, device, s);
    if (rc < 0)
        return rc;
    for (int i = 0; i < read_count; i++)
        gwb_op_read(&op, reads[i]);
    for (int i = 0; i < write_count; i++)
        gwb_op_write(&op, writes[i]);
    gwb_trace_launch(&op, work);
    rc = gwb_op_ready(&op);
    if (rc >= 0)
        rc = op.queue->dev->ops->launch(op.queue, work);
    return gwb_op_end(&op, rc);
}

// A number as an element of `type`, or a failure: setters never wrap and never round.
static int element(int type, double v, uint8_t out[8])
{
    static const double least[GWB_TYPES] = {0, -128, 0, -32768, 0, -2147483648.0, -65504, -3.4028234663852886e38, -INFINITY};
    static const double most[GWB_TYPES] = {255, 127, 65535, 32767, 4294967295.0, 2147483647, 65504, 3.4028234663852886e38, INFINITY};
    bool integer = type < GWB_F16;
    if (integer ? !(v >= least[type] && v <= most[type] && v == floor(v)) : isfinite(v) && !(v >= least[type] && v <= most[type]))
        return gwb_fail(GWB_BAD_ARGUMENT, "%.17g does not fit %s (%s%.17g..%.17g)", v, gwb_type_name(type), integer ? "whole numbers " : "",
                        least[type], most[type]);
#define STORE(T, t) case GWB_##T: gwb_number_store_##t(out, v, 0); break;
    switch (type) {
    GWB_NUMBERS(STORE)
    }
#undef STORE
    return 0;
}

int gwb_fill(const gwb_mat *m, const double *values, const gwb_stream *stream)
{
    int rc = gwb_mat_check_writable(m, "mat");
    if (rc < 0)
        return rc;
    gwb_fill_args args = {.dst = gwb_mat_to_view(m), .elem_size = m->elem_size};
    int size = gwb_type_size(m->type);
    for (int c = 0; c < m->channels; c++) {
        uint8_t bytes[8];
        rc = element(m->type, values[c], bytes);
        if (rc < 0)
            return rc;
        memcpy(args.pattern + c * size, bytes, (size_t)size);
    }
    if (gwb_mat_empty(m))
        return stream ? gwb_stream_check(stream, "stream") : 0;
    return launch(m->device, stream, NULL, 0, &m, 1, &(gwb_launch){GWB_KERNEL_fill, &args, sizeof args, m->width, m->height, 1});
}

int gwb_fill_rows(const gwb_mat *m, const gwb_mat *row, const gwb_stream *stream)
{
    int rc = gwb_mat_check_writable(m, "mat");
    if (rc >= 0)
        rc = gwb_mat_check(row, "row");
    if (rc < 0)
        return rc;
    char to[96], from[96];
    if (row->height != 1 || row->width != m->width || row->type != m->type || row->channels != m->channels || row->device != m->device)
        return gwb_fail(GWB_SHAPE, "the row (%s) must be one row of the mat's width, type and device (%s)", gwb_mat_text(row, from), gwb_mat_text(m, to));
    if (overlap(m, row))
        return gwb_fail(GWB_BAD_ARGUMENT, "the row is a part of the mat; fill from its clone()");
    if (gwb_mat_empty(m))
        return stream ? gwb_stream_check(stream, "stream") : 0;
    gwb_side dst = side_of(m), src = side_of(row);
    gwb_rect rect = {dst.data, src.data, dst.step, 0, gwb_mat_row_bytes(m), m->height, dst.space, src.space};
    return issue(m->device, &dst, &src, &rect, 1, stream);
}

int gwb_cast(const gwb_mat *dst, const gwb_mat *src, double scale, double offset, int round, const gwb_stream *stream)
{
    int rc = gwb_mat_check_writable(dst, "dst");
    if (rc >= 0)
        rc = gwb_mat_check(src, "src");
    if (rc < 0)
        return rc;
    char to[96], from[96];
    if (dst->width != src->width || dst->height != src->height || dst->channels != src->channels || dst->device != src->device)
        return gwb_fail(GWB_SHAPE, "dst (%s) and src (%s) must have the same size, channels and device", gwb_mat_text(dst, to), gwb_mat_text(src, from));
    if (round < 0 || round > 3)
        return gwb_fail(GWB_BAD_ARGUMENT, "rounding %d; wanted 0..3", round);
    if ((int64_t)dst->width * dst->channels > INT32_MAX)
        return gwb_fail(GWB_UNSUPPORTED, "a row of %d pixels x %d channels; at most 2147483647 values", dst->width, dst->channels);
    if (overlap(dst, src) && !(dst->data == src->data && dst->step == src->step && gwb_type_size(dst->type) == gwb_type_size(src->type)))
        return gwb_fail(GWB_BAD_ARGUMENT, "dst and src share bytes of one buffer");
    if (gwb_mat_empty(dst))
        return stream ? gwb_stream_check(stream, "stream") : 0;
    gwb_cast_args args = {.dst = gwb_mat_to_view(dst), .src = gwb_mat_to_view(src), .dst_type = dst->type, .src_type = src->type, .round = round,
                          .scale = scale, .offset = offset};
    args.dst.width = args.src.width = dst->width * dst->channels;
    return launch(dst->device, stream, &src, 1, &dst, 1, &(gwb_launch){GWB_KERNEL_cast, &args, sizeof args, args.dst.width, dst->height, 1});
}

static int channels(const gwb_mat *wide, const gwb_mat *const *planes, bool merge, const gwb_stream *stream)
{
    int rc = merge ? gwb_mat_check_writable(wide, "dst") : gwb_mat_check(wide, "src");
    if (rc < 0)
        return rc;
    gwb_channels_args args = {.wide = gwb_mat_to_view(wide), .count = wide->channels, .size = gwb_type_size(wide->type), .merge = merge};
    for (int c = 0; c < wide->channels; c++) {
        const gwb_mat *p = planes[c];
        char name[24], a[96], b[96];
        snprintf(name, sizeof name, "plane %d", c + 1);
        rc = merge ? gwb_mat_check(p, name) : gwb_mat_check_writable(p, name);
        if (rc < 0)
            return rc;
        if (p->channels != 1 || p->type != wide->type || p->width != wide->width || p->height != wide->height || p->device != wide->device)
            return gwb_fail(GWB_SHAPE, "%s (%s) must be a single channel of the mat with %d (%s), on the same device", name, gwb_mat_text(p, a),
                            wide->channels, gwb_mat_text(wide, b));
        if (overlap(p, wide))
            return gwb_fail(GWB_BAD_ARGUMENT, "%s shares bytes with the interleaved mat", name);
        for (int k = 0; k < c && !merge; k++)
            if (overlap(p, planes[k]))
                return gwb_fail(GWB_BAD_ARGUMENT, "planes %d and %d share bytes that are written", k + 1, c + 1);
        args.plane[c] = gwb_mat_to_view(p);
    }
    if (gwb_mat_empty(wide))
        return stream ? gwb_stream_check(stream, "stream") : 0;
    gwb_launch work = {GWB_KERNEL_channels, &args, sizeof args, wide->width, wide->height, 1};
    return merge ? launch(wide->device, stream, planes, wide->channels, &wide, 1, &work)
                 : launch(wide->device, stream, &wide, 1, planes, wide->channels, &work);
}

int gwb_split(const gwb_mat *const *dst, const gwb_mat *src, const gwb_stream *stream)
{
    return channels(src, dst, false, stream);
}

int gwb_merge(const gwb_mat *dst, const gwb_mat *const *src, const gwb_stream *stream)
{
    return channels(dst, src, true, stream);
}

int gwb_mat_at(const gwb_mat *m, int32_t x, int32_t y, double *values)
{
    gwb_mat pixel;
    int rc = gwb_mat_view(&pixel, m, x, y, 1, 1);
    if (rc < 0)
        return rc;
    uint8_t bytes[32];
    rc = gwb_download(bytes, 0, &pixel, NULL);
    int size = gwb_type_size(m->type);
#define LOAD(T, t) case GWB_##T: values[c] = gwb_number_load_##t(bytes + c * size); break;
    for (int c = 0; rc >= 0 && c < m->channels; c++) {
        switch (m->type) {
        GWB_NUMBERS(LOAD)
        }
        if (isnan(values[c]))
            values[c] = NAN;    // a script's number may carry no payload
    }
#undef LOAD
    gwb_mat_close(&pixel);
    return rc;
}
