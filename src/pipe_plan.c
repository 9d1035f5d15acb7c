// SPDX-License-Identifier: MIT
// The plan of a pipeline: passes and links, and what is known of both ends.
#include "pipe_plan.h"

#include "stream.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gwb_pipe_fail(const gwb_pipe_state *s, int status, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gwb_fail(status, "stage %d (%s): %s", s->step + 1, gwb_op_name(s->op), text);
}

double gwb_pipe_max_code(const gwb_image *image)
{
    const gwb_format_info *f = gwb_format_get(image->format);
    return gwb_format_is_float(f) ? 1 : ldexp(1, f->depth) - 1;
}

int gwb_pipe_components(const gwb_image *image)
{
    const gwb_format_info *f = gwb_format_get(image->format);
    return (f->model == GWB_MODEL_GRAY ? 1 : 7) | (f->alpha ? 8 : 0);
}

void gwb_pipe_set_format(gwb_pipe_state *s, const gwb_image *image)
{
    s->image = *image;
    s->colours = gwb_format_get(image->format)->model == GWB_MODEL_GRAY ? 1 : 3;
    s->channels = s->colours + (gwb_format_get(image->format)->alpha ? 1 : 0);
}

// ---- links

static bool is_affine(const gwb_link *l)
{
#define ROW(name, affine) affine,
    static const bool table[] = {GWB_PIPE_VALUES(ROW)};
#undef ROW
    return l->kind == GWB_LINK_VALUE && table[l->value];
}

static bool may_run_before(const gwb_link *l, int place)
{
    return place == GWB_BEFORE_AFFINE ? is_affine(l) : place == GWB_BEFORE_VALUES && l->kind == GWB_LINK_VALUE && l->value != GWB_PIPE_VALUE_blend;
}

static int fail_full(const gwb_pipe_state *s)
{
    return gwb_pipe_fail(s, GWB_UNSUPPORTED, "the chain is too long for one pass (%d stages with numbers, %d that move pixels); split it in two pipelines",
                         GWB_PIPE_STAGES, GWB_PIPE_MOVES);
}

gwb_link *gwb_pipe_add_link(gwb_pipe_state *s, int kind, int place)
{
    gwb_pipe_code *c = &s->pass->code;
    if (c->links == GWB_PIPE_LINKS) {
        fail_full(s);
        return NULL;
    }
    int at = c->links++, had = gwb_pipe_components(&s->image);
    for (; at > 0 && may_run_before(&c->link[at - 1], place); at--) {
        c->link[at] = c->link[at - 1];
        had = s->had[at] = s->had[at - 1];
    }
    s->had[at] = had;
    c->link[at] = (gwb_link){.kind = kind, .k = -1, .m = -1};
    return &c->link[at];
}

gwb_pipe_stage *gwb_pipe_add_stage(gwb_pipe_state *s, gwb_link *link)
{
    if (s->pass->code.stages == GWB_PIPE_STAGES) {
        fail_full(s);
        return NULL;
    }
    link->k = s->pass->code.stages++;
    return &s->pass->stage[link->k];
}

gwb_pipe_move *gwb_pipe_add_move(gwb_pipe_state *s, gwb_link *link)
{
    if (s->pass->code.moves == GWB_PIPE_MOVES) {
        fail_full(s);
        return NULL;
    }
    link->m = s->pass->code.moves++;
    gwb_pipe_move *m = &s->pass->shape.move[link->m];
    m->width = s->image.width;
    m->height = s->image.height;
    return m;
}

gwb_pipe_stage *gwb_pipe_add_value(gwb_pipe_state *s, int value)
{
    gwb_link *l = gwb_pipe_add_link(s, GWB_LINK_VALUE, GWB_BEHIND_ALL);
    if (!l)
        return NULL;
    l->value = value;
    return gwb_pipe_add_stage(s, l);
}

int gwb_pipe_add_crop(gwb_pipe_state *s, int x, int y, int width, int height)
{
    gwb_pass *p = s->pass;
    gwb_pipe_code *c = &p->code;
    int values = c->links;      // at the end
    while (values > 0 && may_run_before(&c->link[values - 1], GWB_BEFORE_VALUES))
        values--;
    s->image.width = width;
    s->image.height = height;
    if (values > 1 || (values == 1 && c->link[0].kind != GWB_LINK_CROP)) {
        gwb_link *l = gwb_pipe_add_link(s, GWB_LINK_MOVE, GWB_BEFORE_VALUES);
        gwb_pipe_move *m = l ? gwb_pipe_add_move(s, l) : NULL;
        if (!m)
            return GWB_UNSUPPORTED;
        m->m[0] = m->m[3] = 1;
        m->at[0] = x;
        m->at[1] = y;
        return 0;
    }
    p->at[0] += x;
    p->at[1] += y;
    p->region[0] = width;
    p->region[1] = height;
    return values == 1 || gwb_pipe_add_link(s, GWB_LINK_CROP, GWB_BEFORE_VALUES) ? 0 : GWB_UNSUPPORTED;
}

int gwb_pipe_take_taps(gwb_pipe_state *s, int taps)
{
    enum { MANY = 64 };
    int rc = s->taps > 1 && s->taps * taps > MANY ? gwb_pipe_break(s) : 0;
    if (rc >= 0)
        s->taps *= taps;
    return rc;
}

// ---- the sides of a pass

// Component k lies where component at[k] of the format does: YUV that is really G, B, R is taken in the order R, G, B.
static const int *order_of(const gwb_image *image)
{
    static const int plain[4] = {0, 1, 2, 3}, gbr[4] = {2, 0, 1, 3};
    return gwb_format_get(image->format)->model == GWB_MODEL_YUV && image->matrix == GWB_MATRIX_GBR ? gbr : plain;
}

static int kind_of_type(int type)
{
    return type == GWB_U8 ? GWB_SAMPLE_U8 : type == GWB_U16 ? GWB_SAMPLE_U16 : type == GWB_U32 ? GWB_SAMPLE_U32 : type == GWB_F16 ? GWB_SAMPLE_F16
                                                                                                                              : GWB_SAMPLE_F32;
}

// Fills lanes and pairs from the rest.
static void note_runs(gwb_pipe_side *s)
{
    if (s->kind == GWB_SAMPLE_U32 || s->kind == GWB_SAMPLE_V210)
        return;
    const int size = s->kind == GWB_SAMPLE_U8 ? 1 : s->kind == GWB_SAMPLE_F32 ? 4 : 2;
    bool one = true;
    for (int k = 0; k < 4; k++)
        if (s->components >> k & 1)
            one &= s->plane[k] == 0 && s->pitch[k] == s->pitch[0] && s->mask[k] == s->mask[0] && s->shift[k] == s->shift[0] &&
                   s->offset[k] % size == 0 && s->offset[k] < s->pitch[0];
    // samples of less than their word are a pixel's only ones, or share the word (rgb565le)
    s->lanes = one && !(s->log2_w | s->log2_h) && s->pitch[0] % size == 0 && s->pitch[0] <= 4 * size ? s->pitch[0] / size : 0;
    if (s->kind == GWB_SAMPLE_U16 && s->lanes == 1 && s->components != 1)
        s->lanes = 0;
    s->pairs = (s->components & 6) == 6 && s->plane[1] == s->plane[2] && s->plane[1] != s->plane[0] && s->pitch[1] == 2 * size &&
               s->pitch[2] == 2 * size;
}

static gwb_pipe_side side_of(const gwb_image *image, bool padding)
{
    const gwb_format_info *f = gwb_format_get(image->format);
    gwb_pipe_side s = {.kind = f->layout == GWB_LAYOUT_V210 ? (int)GWB_SAMPLE_V210 : kind_of_type(f->type), .log2_w = f->log2_w, .log2_h = f->log2_h};
    s.components = gwb_pipe_components(image);
    if (padding && f->component[3].plane >= 0)
        s.components |= 8;
    for (int k = 0; k < 4; k++) {
        const gwb_component *c = &f->component[order_of(image)[k]];
        if (!(s.components >> k & 1))
            continue;
        s.plane[k] = c->plane;
        s.offset[k] = c->offset;
        s.pitch[k] = c->pitch;
        s.shift[k] = c->shift;
        s.mask[k] = (int32_t)(((int64_t)1 << c->depth) - 1);
    }
    note_runs(&s);
    return s;
}

// Plain channels: the components interleaved in one mat, or one mat each.
static gwb_pipe_side plain_side(int type, int components, bool planar)
{
    gwb_pipe_side s = {.kind = kind_of_type(type), .components = components};
    const int size = gwb_type_size(type), channels = __builtin_popcount((unsigned)components);
    for (int k = 0, n = 0; k < 4; k++)
        if (components >> k & 1) {
            s.plane[k] = planar ? n : 0;
            s.offset[k] = planar ? 0 : n * size;
            s.pitch[k] = planar ? size : size * channels;
            s.mask[k] = type == GWB_U8 ? 255 : 65535;
            n++;
        }
    note_runs(&s);
    return s;
}

// How chroma is resampled between two formats; no tag but siting matters.
static int taps_between(const gwb_image *dst, const gwb_image *src, gwb_convert_args *a)
{
    static const gwb_convert_params none;
    gwb_mat dummy = {.tag = GWB_MAT_TAG};
    gwb_image to = *dst, from = *src;
    for (int i = 0; i < GWB_MAX_PLANES; i++)
        to.plane[i] = from.plane[i] = &dummy;
    to.matrix = from.matrix = GWB_MATRIX_BT601;
    to.range = from.range = GWB_RANGE_FULL;
    to.transfer = to.primaries = from.transfer = from.primaries = 0;
    int rc = gwb_convert_plan(a, &to, &from, &none);
    a->up_x.last = a->up_y.last = a->down_x.last = a->down_y.last = 0;
    return rc;
}

static int begin_source(gwb_pipe_state *s, const gwb_image *src)
{
    const gwb_format_info *f = gwb_format_get(src->format);
    if (f->model == GWB_MODEL_BAYER)
        return gwb_fail(GWB_UNSUPPORTED, "%s is a mosaic of one colour a pixel; convert() it before the pipeline", f->name);
    gwb_convert_args a;
    int rc = taps_between(src, src, &a);
    if (rc < 0)
        return rc;
    s->pass->code.src = side_of(src, false);
    s->pass->code.up_x = a.up_x;
    s->pass->code.up_y = a.up_y;
    s->pass->shape.src_width = src->width;
    s->pass->shape.src_height = src->height;
    gwb_pipe_set_format(s, src);
    return 0;
}

static void end_plain(gwb_pass *p, int type, int components, bool planar)
{
    gwb_pipe_code *c = &p->code;
    c->dst = plain_side(type, components, planar);
    c->group = c->block_w = c->block_h = 1;
    for (int k = 0; k < 4; k++)
        c->limit[k] = type == GWB_U8 ? 255.0f : 65535.0f;
}

// Whether every link works on chroma samples as well as on pixels: values alone, U and V without looking at Y.
static bool keeps_grid(const gwb_pass *p)
{
    for (int i = 0; i < p->code.links; i++) {
        const gwb_link *l = &p->code.link[i];
        if (l->kind == GWB_LINK_CROP)
            continue;
        if (l->kind != GWB_LINK_VALUE || l->value == GWB_PIPE_VALUE_blend || l->value == GWB_PIPE_VALUE_lut3d || l->value == GWB_PIPE_VALUE_swizzle)
            return false;
        if (l->value <= GWB_PIPE_VALUE_yuv && (p->stage[l->k].f[3] != 0 || p->stage[l->k].f[6] != 0))
            return false;
    }
    return true;
}

static int end_format(gwb_pipe_state *s, const gwb_image *src)
{
    gwb_pipe_code *c = &s->pass->code;
    const gwb_image *out = &s->image;
    const gwb_format_info *f = gwb_format_get(out->format), *fs = gwb_format_get(src->format);
    gwb_image full = *out;
    if (f->log2_w || f->log2_h)
        full.format = GWB_FORMAT_yuv444p;
    gwb_convert_args a;
    int rc = taps_between(out, &full, &a);
    if (rc < 0)
        return rc;
    c->dst = side_of(out, true);
    c->ones = c->dst.components & 8 && !f->alpha;
    memcpy(c->limit, a.limit, sizeof c->limit);
    c->word = a.word;
    c->group = a.group;
    c->block_w = a.block_w;
    c->block_h = a.block_h;
    c->down_x = a.down_x;
    c->down_y = a.down_y;
    const bool both_yuv = gwb_convert_model(out) == GWB_MODEL_YUV && gwb_convert_model(src) == GWB_MODEL_YUV;
    c->grid = s->plan->passes == 1 && both_yuv && (f->log2_w || f->log2_h) && (fs->log2_w || fs->log2_h) && keeps_grid(s->pass);
    if (c->grid) {
        gwb_image sized = *src;
        sized.width = out->width, sized.height = out->height;
        rc = taps_between(out, &sized, &a);
        c->across_x = a.down_x;
        c->across_y = a.down_y;
    }
    return rc;
}

// ---- tiles

// Whether a side's rows can be moved in runs of four pixels.
static bool side_has_runs(const gwb_pipe_side *s)
{
    const int size = s->kind == GWB_SAMPLE_U8 ? 1 : s->kind == GWB_SAMPLE_F32 ? 4 : 2, sub = s->log2_w | s->log2_h;
    if (s->kind == GWB_SAMPLE_U32 || s->kind == GWB_SAMPLE_V210 || s->log2_w > 1 || (s->log2_h && s->log2_w != 1) || s->log2_h > 1)
        return false;
    if (s->lanes)
        return true;
    for (int k = 0; k < 4; k++) {
        const bool chroma = sub && (k == 1 || k == 2);
        if (s->components >> k & 1 && s->pitch[k] != size && !(chroma && s->pairs))
            return false;
    }
    return true;
}

static bool can_tile(const gwb_pass *p)
{
    const gwb_pipe_code *c = &p->code;
    for (int i = 0; i < c->links; i++) {
        const gwb_link *l = &c->link[i];
        const bool light = l->kind == GWB_LINK_VALUE && l->value <= GWB_PIPE_VALUE_threshold;
        if (l->kind != GWB_LINK_CROP && !light)
            return false;
    }
    return !c->word && !(c->dst.log2_w | c->dst.log2_h) && side_has_runs(&c->src) && side_has_runs(&c->dst) && (!c->src.log2_w || gwb_pipe_packs_chroma(c));
}

// Says where the chain begins with what yuv_rgb.h does: YUV of 4:2:0 or 4:4:4 to RGB by a matrix whose rows differ in chroma alone.
static void plan_quick(gwb_pass *p)
{
    gwb_pipe_code *c = &p->code;
    const gwb_pipe_side *s = &c->src;
    const gwb_link *l = c->link;
    while (l < c->link + c->links && l->kind == GWB_LINK_CROP)
        l++;
    if (!c->tiles || l == c->link + c->links || l->kind != GWB_LINK_VALUE || l->value != GWB_PIPE_VALUE_yuv || s->lanes || s->components != 7)
        return;
    const float *m = p->stage[l->k].f, *from = m + 9, *to = m + 12;
    uint32_t x[2][3], y[2][3];
    if (!gwb_convert_quick_matrix(m, from, to) || c->stages == GWB_PIPE_STAGES)
        return;
    if (s->log2_w == 1 && s->log2_h == 1) {     // chroma fits a word, else there were no tiles
        c->quick = gwb_convert_quick_chroma(&c->up_x, &c->up_y, x, y);
        c->quick_shape = s->pairs ? GWB_SHAPE_420_PAIRS : GWB_SHAPE_420;
    } else if (!s->log2_w && !s->log2_h && s->kind == GWB_SAMPLE_U8) {
        c->quick = GWB_QUICK_FULL;
        c->quick_shape = GWB_SHAPE_PLANES;
    } else {
        return;
    }
    c->quick_numbers = c->stages++;
    memset(&p->stage[c->quick_numbers], 0, sizeof *p->stage);
    gwb_convert_quick_numbers((gwb_quick_numbers *)p->stage[c->quick_numbers].f, m, from, s->kind, c->quick);
    c->tiles = GWB_QUICK_WIDTH(c->dst.kind);
}

// Whether no number of a result of f32 or bytes can be NaN: the source has whole numbers, and no link makes more of what it is given than floats hold.
static bool is_finite(const gwb_pass *p)
{
    const gwb_pipe_code *c = &p->code;
    double most = 65535;
    for (int i = 0; i < c->links; i++) {
        const gwb_link *l = &c->link[i];
        if (l->kind == GWB_LINK_CUBIC || l->kind == GWB_LINK_TABLE_X || l->kind == GWB_LINK_TABLE_Y)
            most *= 16;     // weights of both signs, whose sum is 1
        if (l->kind == GWB_LINK_EXPR || l->kind > GWB_LINK_TABLE_Y || (l->kind == GWB_LINK_VALUE && l->value > GWB_PIPE_VALUE_scale))
            return false;
        if (l->kind != GWB_LINK_VALUE)
            continue;
        double sum = 0;
        for (int k = 0; k < 16; k++)
            sum += fabs((double)p->stage[l->k].f[k]);
        most = sum * (most + sum) + sum;        // factors, what is taken off before, what is added behind
    }
    return (c->dst.kind == GWB_SAMPLE_F32 || c->dst.kind == GWB_SAMPLE_U8) && c->src.kind != GWB_SAMPLE_F32 && c->src.kind != GWB_SAMPLE_F16 && most < 1e30;
}

// Whether pixels one below the other share much of their work, and ask for little more: all but the filters that look at many pixels.
static bool is_light(const gwb_pipe_code *c)
{
    for (int i = 0; i < c->links; i++) {
        const int kind = c->link[i].kind;
        if (kind != GWB_LINK_VALUE && kind != GWB_LINK_CROP && kind != GWB_LINK_NEAREST && kind != GWB_LINK_BILINEAR)
            return false;
    }
    return true;
}

static void close_pass(gwb_pipe_state *s, int channels)
{
    s->pass->shape.width = s->image.width;
    s->pass->shape.height = s->image.height;
    s->pass->channels = channels;
    s->pass->code.finite = is_finite(s->pass);
    s->pass->code.tiles = can_tile(s->pass) ? GWB_TILE_W : 0;
    plan_quick(s->pass);
    s->pass->code.light = is_light(&s->pass->code);
}

int gwb_pipe_break(gwb_pipe_state *s)
{
    gwb_plan *plan = s->plan;
    gwb_pass *p = s->pass;
    gwb_pipe_code *c = &p->code;
    if (plan->passes == GWB_PIPE_PASSES)
        return gwb_pipe_fail(s, GWB_UNSUPPORTED, "the chain needs more than %d passes; split it in two pipelines", GWB_PIPE_PASSES);
    int kept = c->links;        // those behind are affine and go to the next pass
    while (kept > 0 && is_affine(&c->link[kept - 1]))
        kept--;
    int components = kept < c->links ? s->had[kept] : gwb_pipe_components(&s->image);
    bool changed = false;
    for (int i = 0; i < kept; i++)
        changed |= c->link[i].kind == GWB_LINK_VALUE || c->link[i].kind == GWB_LINK_EXPR;
    if (!changed)               // what nobody reads is not passed on either
        components &= c->src.components;
    gwb_pass *next = &plan->pass[plan->passes++];
    memset(next, 0, sizeof *next);
    for (int i = kept; i < c->links; i++) {
        gwb_link l = c->link[i];
        next->stage[next->code.stages] = p->stage[l.k];
        memset(&p->stage[l.k], 0, sizeof p->stage[l.k]);
        l.k = next->code.stages++;
        s->had[next->code.links] = s->had[i];
        next->code.link[next->code.links++] = l;
        c->link[i] = (gwb_link){0};
    }
    c->links = kept;
    end_plain(p, GWB_F32, components, false);
    close_pass(s, __builtin_popcount((unsigned)components));
    next->code.src = plain_side(GWB_F32, components, false);
    next->shape.src_width = s->image.width;
    next->shape.src_height = s->image.height;
    s->pass = next;
    s->taps = 1;
    return 0;
}

// ---- mats of the plan

// On a stream of its own while the default one records: plans are kept, so it must be done now.
static int upload_now(const gwb_mat *m, const float *data)
{
    const gwb_queue *q = gwb_device_peek(m->device)->default_queue;
    if (!q || !q->graph)
        return gwb_upload(m, data, 0, NULL);
    gwb_stream own;
    int rc = gwb_stream_create(&own, m->device, NULL);
    if (rc < 0)
        return rc;
    rc = gwb_upload(m, data, 0, &own);
    gwb_stream_close(&own);
    return rc;
}

int gwb_pipe_add_table(gwb_pipe_state *s, const float *data, int32_t width, int32_t height, gwb_mat **out)
{
    gwb_plan *p = s->plan;
    if (p->tables == GWB_PIPE_TABLES)
        return gwb_pipe_fail(s, GWB_UNSUPPORTED, "more than %d tables of weights in a chain", GWB_PIPE_TABLES);
    *out = &p->table[p->tables];
    int rc = gwb_mat_create(*out, p->key.device, width, height, GWB_F32, 1, NULL);
    p->tables += rc >= 0;
    return rc < 0 ? rc : upload_now(*out, data);
}

// ---- all of it

static int end_to(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    const int layout = p->n[0], type = p->n[1];
    if (type != GWB_U8 && type != GWB_U16 && type != GWB_F16 && type != GWB_F32)
        return gwb_pipe_fail(s, GWB_UNSUPPORTED, "a pipeline writes u8, u16, f16 or f32, not %s; cast() the result", gwb_type_name(type));
    gwb_pipe_plan *out = &s->plan->out;
    out->layout = layout + 1;
    out->type = type;
    end_plain(s->pass, type, gwb_pipe_components(&s->image), layout == 1 || layout == 3);
    out->out.format = -1;
    return 0;
}

// The siting of the source's chroma is the picture's, or what the first conversion says that leaves YUV.
static void take_siting(const gwb_pipe *pipe, gwb_image *src)
{
    for (int i = 0; i < pipe->steps; i++) {
        const gwb_pipe_step *p = &pipe->step[i];
        if (p->op != GWB_OP_convert)
            continue;
        if (p->target.siting && gwb_format_get(src->format)->model == GWB_MODEL_YUV && gwb_format_get(p->target.format)->model != GWB_MODEL_YUV)
            src->siting = p->target.siting;
        return;
    }
}

static int add_steps(gwb_pipe_state *s, bool *ended)
{
    const gwb_pipe_step *step = s->pipe->step;
    int rc = 0;
    for (int i = 0; i < s->pipe->steps && rc >= 0; i++) {
        s->step = i;
        s->op = step[i].op;
        if (*ended)
            return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "nothing may follow to()");
        *ended = s->op == GWB_OP_to;
        rc = *ended ? end_to(s, &step[i]) : gwb_pipe_add_step(s, &step[i]);
    }
    return rc;
}

int gwb_pipe_make_plan(gwb_pipe *pipe, const gwb_pipe_key *key, gwb_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->key = *key;
    plan->passes = 1;
    gwb_pipe_state s = {.pipe = pipe, .plan = plan, .pass = &plan->pass[0], .taps = 1};
    if (key->src.width == 0 || key->src.height == 0)
        return gwb_fail(GWB_SHAPE, "the source is %dx%d; a pipeline wants at least one pixel", key->src.width, key->src.height);
    gwb_image source = key->src;
    take_siting(pipe, &source);
    plan->from = source;
    int rc = begin_source(&s, &source);
    if (rc >= 0 && key->cropped)
        rc = gwb_pipe_add_crop(&s, 0, 0, key->width, key->height);
    bool ended = false;
    if (rc >= 0)
        rc = add_steps(&s, &ended);
    if (rc >= 0 && !ended)
        rc = end_format(&s, &source);
    if (rc < 0)
        return rc;
    if (!ended) {
        plan->out.out = s.image;
        plan->out.type = gwb_format_get(s.image.format)->type;
    }
    plan->out.channels = s.channels;
    plan->out.out.width = s.image.width;
    plan->out.out.height = s.image.height;
    close_pass(&s, 0);
    plan->convert = !key->cropped && !ended && (pipe->steps == 0 || (pipe->steps == 1 && pipe->step[0].op == GWB_OP_convert));
    plan->out.launches = plan->passes;
    return 0;
}

void gwb_pipe_free_plan(gwb_plan *plan)
{
    for (int i = 0; i < plan->tables; i++)
        gwb_mat_close(&plan->table[i]);
    free(plan);
}
