// SPDX-License-Identifier: MIT
// Running pipelines: the plans that are kept, what the results must be, and the launches.
#include "pipe.h"

#include "stream.h"
#include "trace.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_llong launches;

int64_t gwb_pipe_launches(void)
{
    return launches;
}

// ---- the plans that are kept

void gwb_pipe_forget_plans(gwb_pipe *pipe, int keep)
{
    while (pipe->plans > keep) {
        int oldest = 0;
        for (int i = 1; i < pipe->plans; i++)
            if (pipe->plan[i]->used < pipe->plan[oldest]->used)
                oldest = i;
        gwb_pipe_free_plan(pipe->plan[oldest]);
        pipe->plan[oldest] = pipe->plan[--pipe->plans];
    }
}

static int make_key(const gwb_image *src, const int32_t *crop, gwb_pipe_key *key)
{
    memset(key, 0, sizeof *key);
    key->src.format = src->format;
    key->src.width = src->width;
    key->src.height = src->height;
    key->src.matrix = src->matrix;
    key->src.range = src->range;
    key->src.siting = src->siting;
    key->src.transfer = src->transfer;
    key->src.primaries = src->primaries;
    key->device = src->plane[0]->device;
    key->epoch = gwb_device_peek(key->device)->epoch;
    if (!crop)
        return 0;
    if (crop[0] < 0 || crop[1] < 0 || crop[2] < 1 || crop[3] < 1 || (int64_t)crop[0] + crop[2] > src->width || (int64_t)crop[1] + crop[3] > src->height)
        return gwb_fail(GWB_BAD_ARGUMENT, "a crop of %dx%d at (%d, %d) leaves the source of %dx%d", crop[2], crop[3], crop[0], crop[1], src->width,
                        src->height);
    key->cropped = 1;
    key->width = crop[2];
    key->height = crop[3];
    return 0;
}

int gwb_pipe_find_plan(gwb_pipe *pipe, const gwb_image *src, const int32_t *crop, gwb_plan **out)
{
    gwb_pipe_key key;
    int rc = make_key(src, crop, &key);
    if (rc < 0)
        return rc;
    pipe->clock++;
    for (int i = 0; i < pipe->plans; i++)
        if (memcmp(&pipe->plan[i]->key, &key, sizeof key) == 0) {
            *out = pipe->plan[i];
            (*out)->used = pipe->clock;
            return 0;
        }
    if (pipe->plans == pipe->plan_room) {
        const int room = pipe->plan_room ? 2 * pipe->plan_room : 4;
        gwb_plan **grown = realloc(pipe->plan, (size_t)room * sizeof(gwb_plan *));
        if (!grown)
            return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
        pipe->plan = grown;
        pipe->plan_room = room;
    }
    gwb_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    rc = gwb_pipe_make_plan(pipe, &key, plan);
    if (rc < 0) {
        gwb_pipe_free_plan(plan);
        return rc;
    }
    plan->used = pipe->clock;
    pipe->plan[pipe->plans++] = *out = plan;
    return 0;
}

// ---- what results must be

static bool is_planar(const gwb_pipe_plan *out)
{
    return out->layout == 2 || out->layout == 4;
}

static int check_step(const gwb_mat *m, const char *what)
{
    return m->step <= INT32_MAX ? 0 : gwb_fail(GWB_UNSUPPORTED, "%s has rows of 2 GiB or more apart; a pipeline takes less", what);
}

static int check_dst(const gwb_plan *plan, const gwb_image *dst)
{
    const gwb_pipe_plan *out = &plan->out;
    const int planes = is_planar(out) ? out->channels : out->layout ? 1 : dst->planes;
    int rc = 0;
    if (!out->layout) {
        rc = gwb_image_check_as(dst, "out");
        if (rc >= 0 && (dst->format != out->out.format || dst->width != out->out.width || dst->height != out->out.height))
            rc = gwb_fail(GWB_SHAPE, "out is %s %dx%d, and the pipeline gives %s %dx%d", gwb_format_get(dst->format)->name, dst->width, dst->height,
                          gwb_format_get(out->out.format)->name, out->out.width, out->out.height);
    } else if (dst->planes != planes) {
        rc = gwb_fail(GWB_SHAPE, "out has %d planes, and the pipeline gives %d", dst->planes, planes);
    }
    for (int i = 0; i < planes && rc >= 0; i++) {
        const gwb_mat *m = dst->plane[i];
        char text[96];
        rc = gwb_mat_check_writable(m, "out");
        if (rc >= 0 && out->layout && (m->width != out->out.width || m->height != out->out.height || m->type != out->type ||
                                       m->channels != (is_planar(out) ? 1 : out->channels)))
            rc = gwb_fail(GWB_SHAPE, "out is %s, and the pipeline gives %dx%d %s x %d", gwb_mat_text(m, text), out->out.width, out->out.height,
                          gwb_type_name(out->type), is_planar(out) ? 1 : out->channels);
        if (rc >= 0 && m->device != plan->key.device)
            rc = gwb_fail(GWB_BAD_ARGUMENT, "out is on another device than the source");
        if (rc >= 0)
            rc = check_step(m, "out");
    }
    return rc;
}

static bool overlap(const gwb_mat *a, const gwb_mat *b)
{
    return a->buf && a->buf == b->buf && gwb_footprint_shared(gwb_mat_footprint(a), gwb_mat_footprint(b)) > 0;
}

// The mats that a call reads and writes, each where it differs from the one before.
typedef struct mats {
    const gwb_mat **list;
    int count;
} mats;

static void add_mat(mats *m, const gwb_mat *mat)
{
    if (m->count == 0 || !gwb_mat_same(m->list[m->count - 1], mat))     // crops of one picture come one after the other
        m->list[m->count++] = mat;
}

static int check_overlaps(const mats *reads, const mats *writes)
{
    bool in_order = true;       // planes of one buffer that follow each other, as those of a batch mat do
    for (int i = 0; i < writes->count; i++) {
        const gwb_mat *m = writes->list[i], *before = i ? writes->list[i - 1] : NULL;
        for (int k = 0; k < reads->count; k++)
            if (overlap(m, reads->list[k]))
                return gwb_fail(GWB_BAD_ARGUMENT, "out shares bytes with what the pipeline reads; give it memory of its own");
        in_order &= !before || (m->buf == before->buf && m->data >= before->data + gwb_mat_bytes(before));
    }
    for (int i = 1; i < writes->count && !in_order; i++)
        for (int k = 0; k < i; k++)
            if (overlap(writes->list[i], writes->list[k]))
                return gwb_fail(GWB_BAD_ARGUMENT, "two results share bytes; give each memory of its own");
    return 0;
}

// ---- pictures

// Whether `bytes` at once can be moved from each row of a plane on.
static bool aligned(const uint8_t *data, int32_t step, int64_t bytes)
{
    return ((uintptr_t)data % (uintptr_t)bytes | (uintptr_t)step % (uintptr_t)bytes) == 0;
}

static int size_of_kind(int kind)
{
    return kind == GWB_SAMPLE_U8 ? 1 : kind == GWB_SAMPLE_F32 || kind == GWB_SAMPLE_U32 ? 4 : 2;
}

// Pixels, and pairs of chroma samples, at once.
static bool allows_wide(const gwb_pipe_side *s, uint8_t *const *data, const int32_t *step)
{
    const int size = size_of_kind(s->kind);
    if ((s->lanes == 2 || s->lanes == 4) && !aligned(data[0], step[0], s->lanes * size))
        return false;
    return !s->pairs || aligned(data[s->plane[1]], step[s->plane[1]], 2 * size);
}

// Runs of `w` samples, 4 or 8, from pixel (x, y) on.
static bool allows_tiles(const gwb_pipe_side *s, uint8_t *const *data, const int32_t *step, int w, int x, int y)
{
    const int size = size_of_kind(s->kind);
    if (s->lanes)
        return aligned(data[0] + (int64_t)x * s->lanes * size, step[0], 4 * size);
    if ((s->log2_w && x % w) || (s->log2_h && y % 2))
        return false;
    for (int k = 0; k < 4; k++) {
        if (!(s->components >> k & 1))
            continue;
        const bool chroma = s->log2_w && (k == 1 || k == 2);
        const uint8_t *plane = data[s->plane[k]];
        if (chroma ? !aligned(plane + (int64_t)(x / 2) * (s->pairs ? 2 : 1) * size, step[s->plane[k]], s->pairs ? w * size : w / 2 * size)
                   : !aligned(plane + (int64_t)x * size, step[s->plane[k]], w * size))
            return false;
    }
    return true;
}

static void set_planes(uint8_t **data, int32_t *step, gwb_mat *const *mats, int count)
{
    for (int i = 0; i < count; i++) {
        data[i] = mats[i]->data;
        step[i] = (int32_t)mats[i]->step;
    }
}

// Whether tiles reach all of a side by 32 bits (bytes.h, gwb_near).
static bool is_near(const int32_t *step, int height)
{
    for (int i = 0; i < 4; i++)
        if ((int64_t)step[i] * height > UINT32_MAX)
            return false;
    return true;
}

static void set_flags(const gwb_pass *pass, gwb_pipe_item *item)
{
    const gwb_pipe_code *c = &pass->code;
    const int x = item->at[0], y = item->at[1];
    const int grid_w = 1 << (c->src.log2_w > c->dst.log2_w ? c->src.log2_w : c->dst.log2_w);
    const int grid_h = 1 << (c->src.log2_h > c->dst.log2_h ? c->src.log2_h : c->dst.log2_h);
    const bool words = c->dst.lanes > 1 ? aligned(item->dst[0], item->dst_step[0], 4) : allows_tiles(&c->dst, item->dst, item->dst_step, GWB_TILE_W, 0, 0);
    const bool near = is_near(item->src_step, pass->shape.src_height) && is_near(item->dst_step, pass->shape.height);
    if (c->tiles && words && near && allows_tiles(&c->src, item->src, item->src_step, c->tiles, x, y))
        item->flags |= GWB_PIPE_TILES;
    if (c->grid && x % grid_w == 0 && y % grid_h == 0)
        item->flags |= GWB_PIPE_GRID;
}

// ---- launches

// Buffers that a launch uses.
typedef struct uses {
    struct { gwb_buf *buf; bool write; } *list;
    int count, room;
} uses;

static int add_use(uses *u, gwb_buf *buf, bool write)
{
    if (!buf || (u->count && u->list[u->count - 1].buf == buf && u->list[u->count - 1].write == write))
        return 0;
    if (u->count == u->room) {
        const int room = u->room ? 2 * u->room : 32;
        void *grown = realloc(u->list, (size_t)room * sizeof *u->list);
        if (!grown)
            return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
        u->list = grown;
        u->room = room;
    }
    u->list[u->count].buf = buf;
    u->list[u->count++].write = write;
    return 0;
}

// A call under way.
typedef struct call {
    gwb_pipe *pipe;
    const gwb_image *dst, *src;
    const int32_t *crops;       // NULL: none
    const gwb_stream *stream;
    gwb_plan **plan;            // of each picture
    int count;
    uses uses;
    gwb_pipe_item *items;       // room for all pictures
    gwb_pipe_shape *shapes;     // the same
} call;

// Copies what the kernel reads from memory to there; `room` is page-locked.
static int send(gwb_op *op, const gwb_pipe_launch *l, gwb_buf *room, gwb_buf *there)
{
    const size_t shapes = (size_t)l->shape_count * sizeof *l->shapes, items = (size_t)l->count * sizeof *l->items;
    memcpy(room->base, l->shapes, shapes);
    memcpy(room->base + shapes, l->items, items);
    const int64_t bytes = (int64_t)(shapes + items);
    const gwb_rect rect = {there->base, room->base, bytes, bytes, bytes, 1, op->queue->dev->position, GWB_SPACE_PINNED};
    return op->queue->dev->ops->copy(op->queue, &rect, 1);
}

static void note(gwb_op *op, const call *c, const gwb_pipe_launch *l, const int *list, int pass)
{
    if (!gwb_trace_wanted())
        return;
    int64_t read = 0, written = 0;
    for (int i = 0; i < l->count; i++)
        gwb_pipe_add_bytes(c->plan[list[i]], &c->src[list[i]], pass, &read, &written);
    gwb_trace_note(op, "kernel", "pipe", "\"pictures\":%d,\"width\":%d,\"height\":%d,\"bytes_read\":%lld,\"bytes_written\":%lld", l->count,
                   l->width, l->height, (long long)read, (long long)written);
}

// Pass `pass` over the pictures of `list`.
static int enqueue(const call *c, gwb_pipe_launch *l, const int *list, int pass)
{
    const int device = c->plan[0]->key.device;
    gwb_device *dev = gwb_device_at(device);
    if (!dev)
        return GWB_NO_DEVICE;
    gwb_buf *room = NULL, *there = NULL;
    int rc = dev->info.cuda ? gwb_cuda_pipe_prepare(dev, l) : 0;
    if (rc >= 0 && dev->info.cuda && gwb_cuda_pipe_needs_memory(dev, l)) {
        const int64_t bytes = (int64_t)l->shape_count * (int64_t)sizeof *l->shapes + (int64_t)l->count * (int64_t)sizeof *l->items;
        gwb_lock();
        rc = gwb_buf_create(&room, gwb_device_at(0), bytes, true, NULL);
        if (rc >= 0)
            rc = gwb_buf_create(&there, dev, bytes, false, c->stream ? c->stream->queue : gwb_queue_default(dev));
        gwb_unlock();
    }
    gwb_op op;
    if (rc >= 0)
        rc = gwb_op_begin(&op, device, c->stream);
    if (rc >= 0) {
        for (int i = 0; i < c->uses.count && rc >= 0; i++)
            rc = gwb_queue_before(op.queue, c->uses.list[i].buf, c->uses.list[i].write);
        if (there) {
            gwb_op_use(&op, room, false);
            gwb_op_use(&op, there, true);
        }
        note(&op, c, l, list, pass);
        const int ready = gwb_op_ready(&op);
        rc = rc < 0 ? rc : ready;
        if (rc >= 0 && there) {
            rc = send(&op, l, room, there);
            l->memory = there->base;
            if (rc >= 0)
                gwb_op_again(&op);
        }
        if (rc >= 0)
            rc = dev->info.cuda ? gwb_cuda_pipe(op.queue, l) : gwb_host_pipe(op.queue, l);
        // after a failure a part may have been enqueued: kept as a use beside the earlier ones, as gwb_op_end does
        const uint64_t seq = op.queue->issued - (rc < 0);
        for (int i = 0; i < c->uses.count; i++) {
            const int used = gwb_queue_behind(op.queue, c->uses.list[i].buf, seq, rc >= 0 && c->uses.list[i].write);
            rc = rc < 0 ? rc : used;
        }
        rc = gwb_op_end(&op, rc);
        launches += rc >= 0;
    }
    gwb_lock();
    if (room)
        gwb_buf_release(room);
    if (there)
        gwb_buf_release(there);
    gwb_unlock();
    return rc;
}

// ---- groups of pictures that share their launches

// Whether two plans differ in nothing but what their pictures' sizes decide.
static bool same_launches(const gwb_plan *a, const gwb_plan *b)
{
    if (a->passes != b->passes)
        return false;
    for (int i = 0; i < a->passes; i++)
        if (memcmp(&a->pass[i].code, &b->pass[i].code, sizeof a->pass[i].code) != 0 || a->pass[i].channels != b->pass[i].channels ||
            memcmp(a->pass[i].stage, b->pass[i].stage, sizeof a->pass[i].stage) != 0)
            return false;
    return true;
}

static int64_t intermediate_floats(const gwb_pass *p)
{
    return ((int64_t)p->shape.width * p->shape.height * p->channels + 63) / 64 * 64;
}

// Memory for intermediate results one behind the other.
static int make_between(const call *c, const int *list, int count, int pass, gwb_mat *m)
{
    enum { ROW = 65536 };
    int64_t floats = 0;
    for (int i = 0; i < count; i++) {
        const gwb_pass *p = &c->plan[list[i]]->pass[pass];
        if ((int64_t)p->shape.width * p->channels * 4 > INT32_MAX)
            return gwb_fail(GWB_UNSUPPORTED, "an intermediate picture %d pixels wide; split the chain", p->shape.width);
        floats += intermediate_floats(p);
    }
    const gwb_mat_params packed = {.packed = 1};
    if (floats / ROW >= INT32_MAX)
        return gwb_fail(GWB_OUT_OF_MEMORY, "intermediate pictures of %lld bytes", (long long)floats * 4);
    return gwb_mat_create(m, c->plan[0]->key.device, ROW, (int32_t)(floats / ROW) + 1, GWB_F32, 1, &packed);
}

// Adds a picture's shape where it differs from those there are; returns its position.
static int shape_of(gwb_pipe_shape *shapes, int *count, const gwb_pipe_shape *shape)
{
    for (int i = *count - 1; i >= 0; i--)
        if (memcmp(&shapes[i], shape, sizeof *shape) == 0)
            return i;
    shapes[*count] = *shape;
    return (*count)++;
}

static void make_item(const call *c, int i, int pass, gwb_pipe_item *item)
{
    const gwb_plan *plan = c->plan[i];
    const gwb_pass *p = &plan->pass[pass];
    const gwb_pipe_plan *out = &plan->out;
    memset(item, 0, sizeof *item);
    item->at[0] = p->at[0];
    item->at[1] = p->at[1];
    if (pass == 0) {
        if (c->crops) {
            item->at[0] += c->crops[4 * i];
            item->at[1] += c->crops[4 * i + 1];
        }
        set_planes(item->src, item->src_step, c->src[i].plane, c->src[i].planes);
    }
    if (!p->channels)
        set_planes(item->dst, item->dst_step, c->dst[i].plane, is_planar(out) ? out->channels : out->layout ? 1 : c->dst[i].planes);
}

// Pass `pass` over `count` pictures of a group: from `before` where it is not the first, to `behind` where it is not the last.
static int run_pass(call *c, const int *list, int count, int pass, bool batch, const gwb_mat *before, const gwb_mat *behind)
{
    gwb_pass *first = &c->plan[list[0]]->pass[pass];
    gwb_pipe_launch l = {.pass = first, .items = c->items, .shapes = c->shapes, .count = count, .batch = batch, .wide = true};
    int64_t from = 0, to = 0;
    for (int i = 0; i < count; i++) {
        const gwb_plan *plan = c->plan[list[i]];
        const gwb_pass *p = &plan->pass[pass];
        gwb_pipe_item *item = &c->items[i];
        make_item(c, list[i], pass, item);
        if (pass > 0) {
            const gwb_pass *earlier = &plan->pass[pass - 1];
            item->src[0] = before->data + 4 * from;
            item->src_step[0] = earlier->shape.width * earlier->channels * 4;
            from += intermediate_floats(earlier);
        }
        if (p->channels) {
            item->dst[0] = behind->data + 4 * to;
            item->dst_step[0] = p->shape.width * p->channels * 4;
            to += intermediate_floats(p);
        }
        item->shape = shape_of(c->shapes, &l.shape_count, &p->shape);
        set_flags(p, item);
        l.wide = l.wide && allows_wide(&p->code.src, item->src, item->src_step) && allows_wide(&p->code.dst, item->dst, item->dst_step);
        l.width = p->shape.width > l.width ? p->shape.width : l.width;
        l.height = p->shape.height > l.height ? p->shape.height : l.height;
    }
    return enqueue(c, &l, list, pass);
}

static int run_group(call *c, const int *list, int count, bool batch)
{
    const int64_t most = (int64_t)512 << 20;    // bytes of intermediate results at once
    const int passes = c->plan[list[0]]->passes, uses = c->uses.count;
    int rc = 0;
    for (int i = 0; i < count && rc >= 0; i++)
        for (int k = 0; k < c->plan[list[i]]->tables && rc >= 0; k++)
            rc = add_use(&c->uses, c->plan[list[i]]->table[k].buf, false);
    for (int first = 0, next; first < count && rc >= 0; first = next) {
        int64_t bytes = 0;
        for (next = first; next < count && (next == first || bytes < most); next++)
            for (int p = 0; p < passes; p++)
                bytes += 4 * intermediate_floats(&c->plan[list[next]]->pass[p]);
        gwb_mat between[2] = {{0}, {0}};
        for (int p = 0; p < passes && rc >= 0; p++) {
            gwb_mat *behind = &between[p % 2], *before = &between[(p + 1) % 2];
            const int known = c->uses.count;
            gwb_mat_close(behind);
            if (p + 1 < passes)
                rc = make_between(c, list + first, next - first, p, behind);
            if (rc >= 0)
                rc = add_use(&c->uses, before->tag ? before->buf : NULL, false);
            if (rc >= 0)
                rc = add_use(&c->uses, behind->tag ? behind->buf : NULL, true);
            if (rc >= 0)
                rc = run_pass(c, list + first, next - first, p, batch, before, behind);
            c->uses.count = known;
        }
        gwb_mat_close(&between[0]);
        gwb_mat_close(&between[1]);
    }
    c->uses.count = uses;
    return rc;
}

// ---- a call

static int fail_picture(int i, int count, int rc)
{
    char why[1024];
    if (count == 1)
        return rc;
    snprintf(why, sizeof why, "%s", gwb_error_message());
    return gwb_fail(rc, "picture %d: %s", i + 1, why);
}

static int check_sources(const gwb_image *src, int count)
{
    for (int i = 0; i < count; i++) {
        int rc = gwb_image_check_as(&src[i], "the source");
        for (int k = 0; rc >= 0 && k < src[i].planes; k++)
            rc = check_step(src[i].plane[k], "the source");
        if (rc < 0)
            return fail_picture(i, count, rc);
        if (src[i].format != src[0].format || src[i].matrix != src[0].matrix || src[i].range != src[0].range || src[i].siting != src[0].siting ||
            src[i].plane[0]->device != src[0].plane[0]->device)
            return gwb_fail(GWB_SHAPE, "picture %d differs from the first in format, tags or device; a batch has one", i + 1);
    }
    return 0;
}

static int find_plans(call *c)
{
    for (int i = 0; i < c->count; i++) {
        int rc = gwb_pipe_find_plan(c->pipe, &c->src[i], c->crops ? c->crops + 4 * i : NULL, &c->plan[i]);
        const gwb_pipe_plan *out = rc >= 0 ? &c->plan[i]->out : NULL, *first = &c->plan[0]->out;
        if (rc >= 0 && (out->out.width != first->out.width || out->out.height != first->out.height))
            rc = gwb_fail(GWB_SHAPE, "the result is %dx%d and the first one %dx%d; a batch gives one size", out->out.width, out->out.height,
                          first->out.width, first->out.height);
        if (rc >= 0)
            rc = check_dst(c->plan[i], &c->dst[i]);
        if (rc < 0)
            return fail_picture(i, c->count, rc);
    }
    return 0;
}

static int find_uses(call *c)
{
    const size_t most = (size_t)c->count * GWB_MAX_PLANES;
    mats reads = {malloc((most + (size_t)c->pipe->steps) * sizeof(gwb_mat *)), 0}, writes = {malloc(most * sizeof(gwb_mat *)), 0};
    int rc = reads.list && writes.list ? 0 : gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    for (int i = 0; i < c->count && rc >= 0; i++) {
        for (int k = 0; k < c->src[i].planes; k++)
            add_mat(&reads, c->src[i].plane[k]);
        for (int k = 0; k < c->dst[i].planes; k++)
            writes.list[writes.count++] = c->dst[i].plane[k];
    }
    for (int i = 0; i < c->pipe->steps && rc >= 0; i++) {
        const gwb_mat *operand = c->pipe->operand[i].tag ? gwb_pipe_operand_on(c->pipe, i, c->plan[0]->key.device) : NULL;
        if (operand)
            add_mat(&reads, operand);
        else if (c->pipe->operand[i].tag)
            rc = GWB_OUT_OF_MEMORY;
    }
    if (rc >= 0)
        rc = check_overlaps(&reads, &writes);
    for (int i = 0; i < reads.count && rc >= 0; i++)
        rc = add_use(&c->uses, reads.list[i]->buf, false);
    for (int i = 0; i < writes.count && rc >= 0; i++)
        rc = add_use(&c->uses, writes.list[i]->buf, true);
    free(reads.list);
    free(writes.list);
    return rc;
}

// The pictures whose plans share their launches, group by group.
static int run_groups(call *c, bool batch)
{
    int *list = malloc((size_t)c->count * sizeof *list);
    bool *done = calloc((size_t)c->count, sizeof *done);
    int rc = list && done ? 0 : gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    for (int i = 0; i < c->count && rc >= 0; i++) {
        int count = 0;
        for (int k = i; k < c->count; k++)
            if (!done[k] && (c->plan[k] == c->plan[i] || same_launches(c->plan[k], c->plan[i]))) {
                done[k] = true;
                list[count++] = k;
            }
        if (count > 0)
            rc = run_group(c, list, count, batch);
    }
    free(list);
    free(done);
    return rc;
}

// gwb_convert has kernels at hand for what it can do, one picture at a time: on cuda that is for one picture, on the host, where a launch costs little, for all.
static bool takes_convert(const call *c)
{
    return c->plan[0]->convert && (c->count == 1 || !gwb_device_peek(c->plan[0]->key.device)->info.cuda);
}

static int run_convert(const call *c)
{
    int rc = 0;
    for (int i = 0; i < c->count && rc >= 0; i++) {
        gwb_image to = c->plan[i]->out.out, from = c->plan[i]->from;
        to.planes = c->dst[i].planes;
        from.planes = c->src[i].planes;
        memcpy(to.plane, c->dst[i].plane, sizeof to.plane);
        memcpy(from.plane, c->src[i].plane, sizeof from.plane);
        rc = gwb_convert(&to, &from, NULL, c->stream);
    }
    launches++;
    return rc;
}

int gwb_pipe_run(gwb_pipe *pipe, const gwb_image *dst, const gwb_image *src, const int32_t *crops, int count, const gwb_stream *stream)
{
    if (count < 1)
        return count < 0 ? gwb_fail(GWB_BAD_ARGUMENT, "%d pictures", count) : 0;
    if (!dst || !src)
        return gwb_fail(GWB_BAD_ARGUMENT, "the %s are missing", src ? "results" : "sources");
    int rc = check_sources(src, count);
    if (rc >= 0 && stream)
        rc = gwb_stream_check(stream, "stream");
    if (rc < 0)
        return rc;
    call c = {.pipe = pipe, .dst = dst, .src = src, .crops = crops, .stream = stream, .count = count};
    c.plan = calloc((size_t)count, sizeof *c.plan);
    c.items = malloc((size_t)count * sizeof *c.items);
    c.shapes = malloc((size_t)count * sizeof *c.shapes);
    if (!c.plan || !c.items || !c.shapes)
        rc = gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    pthread_mutex_lock(&pipe->lock);
    if (rc >= 0)
        rc = find_plans(&c);
    if (rc >= 0)
        rc = find_uses(&c);
    if (rc >= 0)
        rc = takes_convert(&c) ? run_convert(&c) : run_groups(&c, count > 1);
    gwb_pipe_forget_plans(pipe, GWB_PIPE_PLANS);
    pthread_mutex_unlock(&pipe->lock);
    free(c.plan);
    free(c.items);
    free(c.shapes);
    free(c.uses.list);
    return rc;
}
