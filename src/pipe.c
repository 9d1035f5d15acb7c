// SPDX-License-Identifier: MIT
// Pipelines: the door, the plan that is kept between calls, and the launches.
#include "pipe.h"

#include "stream.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the stage table

#define ROW_NAME(name, kind, params, text) #name,
#define ROW_KIND(name, kind, params, text) #kind,
#define ROW_PARAMS(name, kind, params, text) params,
#define ROW_TEXT(name, kind, params, text) text,
static const char *const names[] = {GWB_OPS(ROW_NAME)}, *const kinds[] = {GWB_OPS(ROW_KIND)};
static const char *const params[] = {GWB_OPS(ROW_PARAMS)}, *const texts[] = {GWB_OPS(ROW_TEXT)};

int gwb_op_count(void)
{
    return GWB_OP_COUNT;
}

const char *gwb_op_name(int op)
{
    return op >= 0 && op < GWB_OP_COUNT ? names[op] : NULL;
}

const char *gwb_op_kind(int op)
{
    return op >= 0 && op < GWB_OP_COUNT ? kinds[op] : NULL;
}

const char *gwb_op_params(int op)
{
    return op >= 0 && op < GWB_OP_COUNT ? params[op] : NULL;
}

const char *gwb_op_text(int op)
{
    return op >= 0 && op < GWB_OP_COUNT ? texts[op] : NULL;
}

// ---- opening

int gwb_pipe_open(gwb_pipe **out, const gwb_pipe_step *steps, int count)
{
    if (count < 0 || count > 64)
        return gwb_fail(GWB_BAD_ARGUMENT, "%d stages; wanted 0..64", count);
    for (int i = 0; i < count; i++) {
        if (steps[i].op < 0 || steps[i].op >= GWB_OP_COUNT)
            return gwb_fail(GWB_BAD_ARGUMENT, "stage %d is none of the stage table", i + 1);
        int rc = steps[i].operand ? gwb_mat_check(steps[i].operand, "the operand") : 0;
        if (rc < 0)
            return rc;
        if (strstr(params[steps[i].op], ":list") && !steps[i].operand)
            return gwb_fail(GWB_BAD_ARGUMENT, "stage %d (%s) has no table", i + 1, names[steps[i].op]);
    }
    gwb_pipe *p = calloc(1, sizeof *p);
    if (p) {
        p->step = calloc((size_t)count + 1, sizeof *p->step);
        p->operand = calloc((size_t)count + 1, sizeof *p->operand);
    }
    if (!p || !p->step || !p->operand) {
        gwb_pipe_close(p);
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    }
    p->steps = count;
    for (int i = 0; i < count; i++) {
        p->step[i] = steps[i];
        p->step[i].operand = NULL;
        if (steps[i].operand)
            gwb_mat_view(&p->operand[i], steps[i].operand, 0, 0, steps[i].operand->width, steps[i].operand->height);
    }
    *out = p;
    return 0;
}

void gwb_pipe_close(gwb_pipe *pipe)
{
    if (!pipe)
        return;
    for (int i = 0; i < pipe->steps; i++)
        gwb_mat_close(&pipe->operand[i]);
    if (pipe->plan)
        gwb_pipe_free_plan(pipe->plan);
    free(pipe->plan);
    free(pipe->step);
    free(pipe->operand);
    free(pipe->text);
    free(pipe);
}

// ---- the plan that is kept

static bool same_source(const gwb_plan *plan, const gwb_image *src, const int32_t *crop)
{
    static const int32_t all[4];
    const gwb_image *p = &plan->src;
    return p->format == src->format && p->width == src->width && p->height == src->height && p->matrix == src->matrix && p->range == src->range &&
           p->siting == src->siting && p->transfer == src->transfer && p->primaries == src->primaries && plan->device == src->plane[0]->device &&
           plan->epoch == gwb_device_peek(plan->device)->epoch &&
           memcmp(plan->crop, crop ? crop : all, sizeof plan->crop) == 0;
}

// Moving a crop changes no more than where its stage looks.
static bool same_but_place(const gwb_plan *plan, const gwb_image *src, const int32_t *crop)
{
    if (!crop || plan->crop[2] != crop[2] || plan->crop[3] != crop[3] || crop[0] < 0 || crop[1] < 0 || (int64_t)crop[0] + crop[2] > src->width ||
        (int64_t)crop[1] + crop[3] > src->height)
        return false;
    return same_source(plan, src, plan->crop);
}

// The plan for a source, from the last call where it fits. The kernels of the one before are kept where the kinds are the same: only numbers moved.
static int find_plan(gwb_pipe *pipe, const gwb_image *src, const int32_t *crop, gwb_plan **out)
{
    if (pipe->plan && same_source(pipe->plan, src, crop)) {
        *out = pipe->plan;
        return 0;
    }
    gwb_plan *plan = malloc(sizeof *plan);
    if (!plan)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    int rc = gwb_pipe_make_plan(pipe, src, crop, plan);
    if (rc < 0) {
        free(plan);
        return rc;
    }
    if (pipe->plan)
        gwb_pipe_free_plan(pipe->plan);
    free(pipe->plan);
    *out = pipe->plan = plan;
    return 0;
}

static int check_source(const gwb_image *src)
{
    return src ? gwb_image_check_as(src, "the source") : gwb_fail(GWB_BAD_ARGUMENT, "the source is missing");
}

static int64_t image_bytes(const gwb_image *image)
{
    int64_t bytes = 0;
    for (int i = 0; i < image->planes; i++)
        bytes += gwb_mat_row_bytes(image->plane[i]) * image->plane[i]->height;
    return bytes;
}

int gwb_pipe_describe(gwb_pipe *pipe, const gwb_image *src, const int32_t *crop, gwb_pipe_plan *out)
{
    int rc = check_source(src);
    if (rc < 0)
        return rc;
    gwb_lock();
    gwb_plan *plan = NULL;
    rc = find_plan(pipe, src, crop, &plan);
    if (rc >= 0) {
        *out = plan->out;
        out->bytes_read = image_bytes(src);
        for (int i = 0; i < plan->passes; i++) {
            const gwb_pass *p = &plan->pass[i];
            if (p->channels) {
                out->bytes_read += (int64_t)p->width * p->height * p->channels * 4;
                out->bytes_written += (int64_t)p->width * p->height * p->channels * 4;
            }
        }
        out->bytes_written += plan->out.layout ? (int64_t)out->out.width * out->out.height * out->channels * gwb_type_size(out->type)
                                               : gwb_format_bytes(out->out.format, out->out.width, out->out.height);
    }
    gwb_unlock();
    return rc;
}

const char *gwb_pipe_text(gwb_pipe *pipe, const gwb_image *src, int pass)
{
    if (check_source(src) < 0)
        return NULL;
    gwb_lock();
    gwb_plan *plan = NULL;
    free(pipe->text);
    pipe->text = NULL;
    if (find_plan(pipe, src, NULL, &plan) >= 0 && pass >= 0 && pass < plan->passes)
        pipe->text = gwb_pipe_write(&plan->pass[pass], false);
    gwb_unlock();
    return pipe->text;
}

// ---- pointers

void gwb_pipe_source_item(const gwb_image *src, gwb_pipe_item *item)
{
    static const int in_order[4] = {0, 1, 2, 3}, gbr[4] = {2, 0, 1, 3};
    const gwb_format_info *f = gwb_format_get(src->format);
    const int *at = f->model == GWB_MODEL_YUV && src->matrix == GWB_MATRIX_GBR ? gbr : in_order;
    for (int k = 0; k < 4; k++) {
        const gwb_component *c = &f->component[at[k]];
        const gwb_mat *m = c->plane >= 0 ? src->plane[c->plane] : NULL;
        item->src[k] = m ? m->data + (f->layout == GWB_LAYOUT_V210 ? 0 : c->offset) : NULL;
        item->src_step[k] = m ? m->step : 0;
    }
    item->src_width = src->width;
    item->src_height = src->height;
}

static void format_dst(const gwb_image *dst, gwb_pipe_item *item)
{
    gwb_pipe_item as_source = {0};
    gwb_pipe_source_item(dst, &as_source);
    memcpy(item->dst, as_source.src, sizeof item->dst);
    memcpy(item->dst_step, as_source.src_step, sizeof item->dst_step);
}

// Channel k lies in component k, but the second of two in component 3: gray with alpha.
void gwb_pipe_plain_item(gwb_mat *const *planes, int channels, bool planar, uint8_t **data, int64_t *step)
{
    for (int k = 0; k < channels; k++) {
        const int component = channels == 2 && k == 1 ? 3 : k;
        const gwb_mat *m = planes[planar ? k : 0];
        data[component] = m->data + (planar ? 0 : k * gwb_type_size(m->type));
        step[component] = m->step;
    }
}

// ---- running

static int check_dst(const gwb_plan *plan, const gwb_image *dst, const gwb_image *src)
{
    const gwb_pipe_plan *out = &plan->out;
    const bool planar = out->layout == 2 || out->layout == 4;
    int planes = out->layout ? (planar ? out->channels : 1) : dst->planes, rc = 0;
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
        rc = gwb_mat_check_writable(m, "out");
        char text[96];
        if (rc >= 0 && out->layout && (m->width != out->out.width || m->height != out->out.height || m->type != out->type ||
                                       m->channels != (planar ? 1 : out->channels)))
            rc = gwb_fail(GWB_SHAPE, "out is %s, and the pipeline gives %dx%d %s x %d", gwb_mat_text(m, text), out->out.width, out->out.height,
                          gwb_type_name(out->type), planar ? 1 : out->channels);
        if (rc >= 0 && m->device != plan->device)
            rc = gwb_fail(GWB_BAD_ARGUMENT, "out is on another device than the source");
        for (int k = 0; k < src->planes && rc >= 0; k++)
            if (m->buf && m->buf == src->plane[k]->buf && gwb_footprint_shared(gwb_mat_footprint(m), gwb_mat_footprint(src->plane[k])))
                rc = gwb_fail(GWB_BAD_ARGUMENT, "out shares bytes with the source; give it memory of its own");
    }
    return rc;
}

static void use_tables(gwb_op *op, const gwb_pipe *pipe, const gwb_plan *plan)
{
    for (int i = 0; i < plan->tables; i++)
        gwb_op_read(op, &plan->table[i]);
    for (int i = 0; i < pipe->steps; i++)
        if (pipe->operand[i].tag && pipe->operand[i].device == plan->device)
            gwb_op_read(op, &pipe->operand[i]);
}

static int start(gwb_op *op, gwb_pass *pass, const gwb_pipe_item *items, const gwb_pipe_item *more, int count)
{
    return op->queue->dev->info.cuda ? gwb_cuda_pipe(op->queue, pass, items, more, count) : gwb_host_pipe(op->queue, pass, items, count);
}

// All passes for one picture.
static int run_one(gwb_pipe *pipe, gwb_plan *plan, const gwb_image *dst, const gwb_image *src, const gwb_stream *stream)
{
    gwb_mat between[2] = {{0}, {0}};
    int rc = 0;
    for (int i = 0; i < plan->passes && rc >= 0; i++) {
        gwb_pass *pass = &plan->pass[i];
        gwb_pipe_item item = pass->item;
        gwb_mat *result = &between[i % 2], *before = &between[(i + 1) % 2];
        if (i == 0)
            gwb_pipe_source_item(src, &item);
        else
            gwb_pipe_plain_item(&before, plan->pass[i - 1].channels, false, item.src, item.src_step);
        if (pass->channels) {
            gwb_mat_close(result);
            rc = gwb_mat_create(result, plan->device, pass->width, pass->height, GWB_F32, pass->channels, NULL);
            if (rc < 0)
                break;
            gwb_pipe_plain_item(&result, pass->channels, false, item.dst, item.dst_step);
        } else if (plan->out.layout) {
            gwb_pipe_plain_item(dst->plane, plan->out.channels, plan->out.layout == 2 || plan->out.layout == 4, item.dst, item.dst_step);
        } else {
            format_dst(dst, &item);
        }
        gwb_op op;
        rc = gwb_op_begin(&op, plan->device, stream);
        if (rc < 0)
            break;
        use_tables(&op, pipe, plan);
        if (i == 0)
            for (int k = 0; k < src->planes; k++)
                gwb_op_read(&op, src->plane[k]);
        else
            gwb_op_read(&op, before);
        if (pass->channels)
            gwb_op_write(&op, result);
        for (int k = 0; k < dst->planes && !pass->channels; k++)
            gwb_op_write(&op, dst->plane[k]);
        rc = gwb_op_ready(&op);
        if (rc >= 0)
            rc = start(&op, pass, &item, NULL, 1);
        rc = gwb_op_end(&op, rc);
    }
    gwb_mat_close(&between[0]);
    gwb_mat_close(&between[1]);
    return rc;
}

// One launch for all pictures. The buffers in use may be more than an operation names, so they are recorded one by one.
static int run_batch(gwb_pipe *pipe, gwb_plan *plan, const gwb_pipe_item *items, const gwb_image *dst, const gwb_image *src, int count,
                     const gwb_stream *stream)
{
    gwb_buf *stage = NULL, *there = NULL;
    const int64_t bytes = (int64_t)count * (int64_t)sizeof *items;
    gwb_op op;
    int rc = gwb_op_begin(&op, plan->device, stream);
    if (rc < 0)
        return rc;
    use_tables(&op, pipe, plan);
    for (int i = 0; i < count && rc >= 0; i++) {
        for (int k = 0; k < src[i].planes && rc >= 0; k++)
            rc = gwb_buf_order(src[i].plane[k]->buf, op.queue, false);
        for (int k = 0; k < dst[i].planes && rc >= 0; k++)
            rc = gwb_buf_order(dst[i].plane[k]->buf, op.queue, true);
    }
    if (rc >= 0 && plan->device > 0) {
        rc = gwb_buf_create(&stage, gwb_device_at(0), bytes, true, NULL);
        if (rc >= 0)
            rc = gwb_buf_create(&there, gwb_device_at(plan->device), bytes, false, op.queue);
        if (rc >= 0) {
            memcpy(stage->base, items, (size_t)bytes);
            gwb_op_use(&op, stage, false);
            gwb_op_use(&op, there, true);
        }
    }
    int ready = gwb_op_ready(&op);
    if (rc >= 0)
        rc = ready;
    if (rc >= 0 && there) {
        gwb_rect rect = {there->base, stage->base, bytes, bytes, bytes, 1, plan->device, GWB_SPACE_PINNED};
        rc = op.queue->dev->ops->copy(op.queue, &rect, 1);
        if (rc >= 0)
            gwb_op_again(&op);
    }
    if (rc >= 0)
        rc = start(&op, &plan->pass[0], items, there ? (const gwb_pipe_item *)there->base : NULL, count);
    for (int i = 0; i < count && rc >= 0; i++) {
        for (int k = 0; k < src[i].planes && rc >= 0; k++)
            rc = gwb_buf_used(src[i].plane[k]->buf, op.queue, op.queue->issued, false);
        for (int k = 0; k < dst[i].planes && rc >= 0; k++)
            rc = gwb_buf_used(dst[i].plane[k]->buf, op.queue, op.queue->issued, true);
    }
    rc = gwb_op_end(&op, rc);
    gwb_lock();
    if (stage)
        gwb_buf_release(stage);
    if (there)
        gwb_buf_release(there);
    gwb_unlock();
    return rc;
}

// The item of picture i, whose size may differ from the one that the plan was made for.
static int make_item(const gwb_pipe *pipe, const gwb_plan *plan, const gwb_image *src, const int32_t *crop, gwb_pipe_item *item)
{
    *item = plan->pass[0].item;
    if (same_source(plan, src, crop))
        return 0;
    if (same_but_place(plan, src, crop)) {
        item->move[0].at[0] = crop[0];
        item->move[0].at[1] = crop[1];
        return 0;
    }
    gwb_plan *other = malloc(sizeof *other);
    if (!other)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    int rc = gwb_pipe_make_plan(pipe, src, crop, other);
    if (rc >= 0) {
        *item = other->pass[0].item;
        if (other->out.out.width != plan->out.out.width || other->out.out.height != plan->out.out.height)
            rc = gwb_fail(GWB_SHAPE, "its result is %dx%d and the first one's %dx%d; a batch gives one size", other->out.out.width, other->out.out.height,
                          plan->out.out.width, plan->out.out.height);
        gwb_pipe_free_plan(other);
    }
    free(other);
    return rc;
}

// Whether a picture of another size can share the launch: tables of weights are made for one size.
static bool tables_depend(const gwb_plan *plan)
{
    for (int i = 0; i < plan->pass[0].links; i++)
        if (plan->pass[0].link[i].kind == GWB_LINK_TABLE_X || plan->pass[0].link[i].kind == GWB_LINK_TABLE_Y)
            return true;
    return plan->passes > 1;
}

int gwb_pipe_run(gwb_pipe *pipe, const gwb_image *dst, const gwb_image *src, const int32_t *crops, int count, const gwb_stream *stream)
{
    if (count < 1)
        return count < 0 ? gwb_fail(GWB_BAD_ARGUMENT, "%d pictures", count) : 0;
    int rc = 0;
    for (int i = 0; i < count && rc >= 0; i++) {
        rc = check_source(&src[i]);
        if (rc >= 0 && (src[i].format != src[0].format || src[i].matrix != src[0].matrix || src[i].range != src[0].range || src[i].siting != src[0].siting ||
                        src[i].plane[0]->device != src[0].plane[0]->device))
            rc = gwb_fail(GWB_SHAPE, "picture %d differs from the first in format, tags or device; a batch has one", i + 1);
    }
    if (rc < 0)
        return rc;
    gwb_lock();     // the plan is the pipeline's; another thread must not change it meanwhile
    gwb_plan *plan = NULL;
    rc = find_plan(pipe, &src[0], crops, &plan);
    for (int i = 0; i < count && rc >= 0; i++)
        rc = check_dst(plan, &dst[i], &src[i]);
    bool together = plan && count > 1 && plan->passes == 1;
    for (int i = 1; i < count && together; i++)
        together = !tables_depend(plan) || (src[i].width == src[0].width && src[i].height == src[0].height &&
                                            (!crops || (crops[4 * i + 2] == crops[2] && crops[4 * i + 3] == crops[3])));
    if (rc >= 0 && together) {
        gwb_pipe_item *items = calloc((size_t)count, sizeof *items);
        if (!items)
            rc = gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
        for (int i = 0; i < count && rc >= 0; i++) {
            rc = make_item(pipe, plan, &src[i], crops ? crops + 4 * i : NULL, &items[i]);
            if (rc < 0) {
                char why[1024];
                snprintf(why, sizeof why, "%s", gwb_error_message());
                gwb_fail(rc, "picture %d: %s", i + 1, why);
                break;
            }
            gwb_pipe_source_item(&src[i], &items[i]);
            if (plan->out.layout)
                gwb_pipe_plain_item(dst[i].plane, plan->out.channels, plan->out.layout == 2 || plan->out.layout == 4, items[i].dst, items[i].dst_step);
            else
                format_dst(&dst[i], &items[i]);
        }
        if (rc >= 0)
            rc = run_batch(pipe, plan, items, dst, src, count, stream);
        free(items);
    } else {
        for (int i = 0; i < count && rc >= 0; i++) {
            const int width = plan->out.out.width, height = plan->out.out.height;
            rc = find_plan(pipe, &src[i], crops ? crops + 4 * i : NULL, &plan);
            if (rc >= 0 && (plan->out.out.width != width || plan->out.out.height != height))
                rc = gwb_fail(GWB_SHAPE, "picture %d gives %dx%d and the first one %dx%d; a batch gives one size", i + 1, plan->out.out.width,
                              plan->out.out.height, width, height);
            if (rc >= 0)
                rc = run_one(pipe, plan, &dst[i], &src[i], stream);
        }
    }
    gwb_unlock();
    return rc;
}
