// SPDX-License-Identifier: MIT
// Pipelines: the stage table, opening and closing, and what a pipeline says of itself.
#include "pipe.h"

#include "mat.h"

#include "expr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the stage table

#define ROW(name, kind, params, text) {#name, #kind, params, text},
static const struct { const char *name, *kind, *params, *text; } ops[] = {GWB_OPS(ROW)};
#undef ROW

int gwb_op_count(void)
{
    return GWB_OP_COUNT;
}

static bool is_op(int op)
{
    return op >= 0 && op < GWB_OP_COUNT;
}

const char *gwb_op_name(int op)
{
    return is_op(op) ? ops[op].name : NULL;
}

const char *gwb_op_kind(int op)
{
    return is_op(op) ? ops[op].kind : NULL;
}

const char *gwb_op_params(int op)
{
    return is_op(op) ? ops[op].params : NULL;
}

const char *gwb_op_text(int op)
{
    return is_op(op) ? ops[op].text : NULL;
}

const char *gwb_expr_name(int op)
{
    static const char *const names[GWB_EXPR_COUNT] = {
#define ROW(name, operands, value) #name,
        GWB_EXPR_OPS(ROW)
#undef ROW
        "number", "component", "place", "store", "drop", "channel", "next",
    };
    return op >= 0 && op < GWB_EXPR_COUNT ? names[op] : NULL;
}

// ---- the arguments of a step

typedef struct checker {
    const gwb_pipe_step *step;
    int number;                 // of the step, from 1
    int n, v;                   // the next of each
} checker;

static bool is_type(const char *type, size_t size, const char *name)
{
    return size == strlen(name) && memcmp(type, name, size) == 0;
}

static int choices(const char *type, size_t size)
{
    int count = 1;
    for (size_t i = 0; i < size; i++)
        count += type[i] == '|';
    return count;
}

static int fail_param(const checker *c, const char *name, size_t size, const char *wanted)
{
    return gwb_fail(GWB_BAD_ARGUMENT, "stage %d (%s): %.*s must be %s", c->number, ops[c->step->op].name, (int)size, name, wanted);
}

// A parameter NAME:TYPE[=DEFAULT], `name_size` and `type_size` characters long.
static int check_param(checker *c, const char *name, size_t name_size, const char *type, size_t type_size)
{
    const gwb_pipe_step *s = c->step;
    const char *def = type[type_size] == '=' ? type + type_size + 1 : "";
    if (is_type(type, type_size, "int")) {
        c->n++;
    } else if (is_type(type, type_size, "size")) {
        if (s->n[c->n++] < (def[0] != '0' && def[0] != 'a'))
            return fail_param(c, name, name_size, "a number of pixels");
    } else if (is_type(type, type_size, "type")) {
        if (!gwb_type_size(s->n[c->n++]))
            return fail_param(c, name, name_size, "an element type");
    } else if (is_type(type, type_size, "bool") || memchr(type, '|', type_size)) {
        const int count = is_type(type, type_size, "bool") ? 2 : choices(type, type_size), n = s->n[c->n++];
        if (n < 0 || n >= count)
            return fail_param(c, name, name_size, "one of its choices");
    } else if (is_type(type, type_size, "number")) {
        if (isnan(s->v[c->v++]) && strncmp(def, "max", 3) != 0)
            return fail_param(c, name, name_size, "a number, not NaN");
    } else if (is_type(type, type_size, "color")) {
        if (isnan(s->v[c->v]) && strncmp(def, "black", 5) != 0)
            return fail_param(c, name, name_size, "a number, or one a channel");
        c->v += 4;
    } else if (is_type(type, type_size, "matrix9") || is_type(type, type_size, "matrix12")) {
        for (int i = 0; i < (type_size == 7 ? 9 : 12); i++)
            if (isnan(s->v[c->v++]))
                return fail_param(c, name, name_size, "numbers, not NaN");
    } else if (is_type(type, type_size, "list") || is_type(type, type_size, "mat")) {
        if (!s->operand)
            return fail_param(c, name, name_size, "a mat");
    } else if (is_type(type, type_size, "image")) {
        if (!s->operand || !gwb_format_get(s->target.format))
            return fail_param(c, name, name_size, "a picture of one plane");
    } else if (is_type(type, type_size, "format")) {
        if (!gwb_format_get(s->target.format))
            return fail_param(c, name, name_size, "a pixel format");
    } else if (is_type(type, type_size, "expression")) {
        if (!s->program || s->program_size < 2 || s->program_size > GWB_PIPE_PROGRAM || s->program_size % 2)
            return fail_param(c, name, name_size, "a program of 1..256 operations");
    } else if (s->count < 1 || s->count > 4) {      // text
        return fail_param(c, name, name_size, "one to four letters");
    }
    return 0;
}

static int check_step(const gwb_pipe_step *s, int number)
{
    if (!is_op(s->op))
        return gwb_fail(GWB_BAD_ARGUMENT, "stage %d is none of the stage table", number);
    int rc = s->operand ? gwb_mat_check(s->operand, "the operand") : 0;
    checker c = {s, number, 0, 0};
    for (const char *p = ops[s->op].params; *p && rc >= 0;) {
        const size_t all = strcspn(p, " "), name = strcspn(p, ":"), type = strcspn(p + name + 1, "= ");
        rc = check_param(&c, p, name, p + name + 1, type);
        p += all + (p[all] == ' ');
    }
    return rc;
}

// ---- opening

int gwb_pipe_open(gwb_pipe **out, const gwb_pipe_step *steps, int count)
{
    if (count < 0 || count > 64)
        return gwb_fail(GWB_BAD_ARGUMENT, "%d stages; wanted 0..64", count);
    for (int i = 0; i < count; i++) {
        int rc = check_step(&steps[i], i + 1);
        if (rc < 0)
            return rc;
    }
    gwb_pipe *p = calloc(1, sizeof *p);
    if (!p)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    pthread_mutex_init(&p->lock, NULL);
    p->step = calloc((size_t)count + 1, sizeof *p->step);
    p->operand = calloc((size_t)count + 1, sizeof *p->operand);
    p->program = calloc((size_t)count + 1, sizeof *p->program);
    p->copy = calloc((size_t)count + 1, sizeof *p->copy);
    p->copy_epoch = calloc((size_t)count + 1, sizeof *p->copy_epoch);
    bool full = p->step && p->operand && p->program && p->copy && p->copy_epoch;
    for (int i = 0; i < count && full; i++) {
        const gwb_pipe_step *s = &steps[i];
        p->steps = i + 1;
        p->step[i] = *s;
        p->step[i].operand = NULL;
        p->step[i].program = NULL;
        if (s->operand)
            gwb_mat_view(&p->operand[i], s->operand, 0, 0, s->operand->width, s->operand->height);
        if (s->program && s->program_size > 0) {
            p->program[i] = malloc((size_t)s->program_size);
            full = p->program[i] != NULL;
            if (full)
                memcpy(p->program[i], s->program, (size_t)s->program_size);
        }
    }
    if (!full) {
        gwb_pipe_close(p);
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    }
    *out = p;
    return 0;
}

void gwb_pipe_close(gwb_pipe *pipe)
{
    if (!pipe)
        return;
    for (int i = 0; i < pipe->steps; i++) {
        gwb_mat_close(&pipe->operand[i]);
        gwb_mat_close(&pipe->copy[i]);
        free(pipe->program[i]);
    }
    gwb_pipe_forget_plans(pipe, 0);
    pthread_mutex_destroy(&pipe->lock);
    free(pipe->step);
    free(pipe->operand);
    free(pipe->program);
    free(pipe->copy);
    free(pipe->copy_epoch);
    free(pipe->plan);
    free(pipe->text);
    free(pipe);
}

const gwb_mat *gwb_pipe_operand_on(gwb_pipe *pipe, int step, int device)
{
    const gwb_mat *own = &pipe->operand[step];
    gwb_mat *copy = &pipe->copy[step];
    if (own->device == device)
        return own;
    if (copy->tag && copy->device == device && pipe->copy_epoch[step] == gwb_device_peek(device)->epoch)
        return copy;
    gwb_mat_close(copy);
    int rc = gwb_mat_create(copy, device, own->width, own->height, own->type, own->channels, NULL);
    if (rc >= 0)
        rc = gwb_copy(copy, own, NULL);
    if (rc < 0) {
        gwb_mat_close(copy);
        return NULL;
    }
    pipe->copy_epoch[step] = gwb_device_peek(device)->epoch;
    return copy;
}

// ---- what it says of itself

// Bytes of a region of planes that hold a picture of some size.
static int64_t region_bytes(const gwb_image *image, int64_t width, int64_t height)
{
    const gwb_format_info *f = gwb_format_get(image->format);
    int64_t bytes = 0;
    for (int i = 0; i < f->planes; i++) {
        gwb_plane_info info;
        if (gwb_format_plane(image->format, i, (int32_t)width, (int32_t)height, &info) >= 0)
            bytes += (int64_t)info.width * info.height * info.channels * gwb_type_size(info.type);
    }
    return bytes;
}

void gwb_pipe_add_bytes(const gwb_plan *plan, const gwb_image *src, int pass, int64_t *read, int64_t *written)
{
    const gwb_pass *p = &plan->pass[pass];
    if (pass == 0) {
        const bool cropped = p->code.links > 0 && p->code.link[0].kind == GWB_LINK_CROP;
        *read += region_bytes(src, cropped ? p->region[0] : src->width, cropped ? p->region[1] : src->height);
    } else {
        const gwb_pass *earlier = &plan->pass[pass - 1];
        *read += (int64_t)earlier->shape.width * earlier->shape.height * earlier->channels * 4;
    }
    const gwb_pipe_plan *out = &plan->out;
    if (pass + 1 < plan->passes)
        *written += (int64_t)p->shape.width * p->shape.height * p->channels * 4;
    else
        *written += out->layout ? (int64_t)out->out.width * out->out.height * out->channels * gwb_type_size(out->type)
                                : region_bytes(&out->out, out->out.width, out->out.height);
}

int gwb_pipe_describe(gwb_pipe *pipe, const gwb_image *src, const int32_t *crop, gwb_pipe_plan *out)
{
    int rc = src ? gwb_image_check_as(src, "the source") : gwb_fail(GWB_BAD_ARGUMENT, "the source is missing");
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&pipe->lock);
    gwb_plan *plan = NULL;
    rc = gwb_pipe_find_plan(pipe, src, crop, &plan);
    if (rc >= 0) {
        *out = plan->out;
        for (int i = 0; i < plan->passes; i++)
            gwb_pipe_add_bytes(plan, src, i, &out->bytes_read, &out->bytes_written);
    }
    gwb_pipe_forget_plans(pipe, GWB_PIPE_PLANS);
    pthread_mutex_unlock(&pipe->lock);
    return rc;
}

const char *gwb_pipe_text(gwb_pipe *pipe, const gwb_image *src, int pass, int batch)
{
    if (!src || gwb_image_check_as(src, "the source") < 0)
        return NULL;
    pthread_mutex_lock(&pipe->lock);
    gwb_plan *plan = NULL;
    free(pipe->text);
    pipe->text = NULL;
    if (gwb_pipe_find_plan(pipe, src, NULL, &plan) >= 0) {
        if (pass >= 0 && pass < plan->passes)
            pipe->text = gwb_pipe_write(&plan->pass[pass].code, batch != 0, true, GWB_PIPE_FEW);
        else
            gwb_fail(GWB_BAD_ARGUMENT, "pass %d; the pipeline has %d for such a source", pass + 1, plan->passes);
    }
    pthread_mutex_unlock(&pipe->lock);
    return pipe->text;
}
