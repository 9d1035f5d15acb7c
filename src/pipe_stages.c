// SPDX-License-Identifier: MIT
// What each stage of the stage table adds to a plan.
#include "pipe_plan.h"

#include "expr.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// A color of a step is four numbers: a list has as many as were given and then NaN, a single number stands for three. Says whether it fits the picture:
// one a channel, alpha or not.
static int check_color(const gwb_pipe_state *s, const double *v, const char *name)
{
    int n = 0;
    while (n < 4 && !isnan(v[n]))
        n++;
    if (n == 0 || n == 3 || n == s->colours || n == s->channels)
        return 0;
    return gwb_pipe_fail(s, GWB_SHAPE, "%s has %d numbers for the %d channels of %s; give one for all, or a list with one a channel", name, n, s->channels,
                         gwb_format_get(s->image.format)->name);
}

// A number for each component; `keep` where the color has none.
static void color(const gwb_pipe_state *s, const double *v, double keep, float *out)
{
    for (int k = 0; k < 4; k++)
        out[k] = (float)(k < s->colours && !isnan(v[k]) ? v[k] : keep);
    if (s->channels == 4 && !isnan(v[3]))
        out[3] = (float)v[3];
    if (s->channels == 2 && !isnan(v[1]) && isnan(v[2]))
        out[3] = (float)v[1];
}

// The picture's black, opaque, where the step says no color; a color's alpha is opaque where it has none.
static int border(const gwb_pipe_state *s, const double *v, float *out)
{
    const double max = gwb_pipe_max_code(&s->image);
    int rc = check_color(s, v, "value");
    color(s, v, max, out);
    if (isnan(v[0])) {
        const bool limited = s->image.range == GWB_RANGE_LIMITED, yuv = gwb_convert_model(&s->image) == GWB_MODEL_YUV;
        const double unit = (max + 1) / 256;
        for (int k = 0; k < s->colours; k++)
            out[k] = (float)(yuv && k > 0 ? 128 * unit : limited ? 16 * unit : 0);
    }
    return rc;
}

// A number that the script left to the format: NaN stands for its largest code.
static float or_max(const gwb_pipe_state *s, double v)
{
    return (float)(isnan(v) ? gwb_pipe_max_code(&s->image) : v);
}

static void set_size(gwb_pipe_state *s, int64_t width, int64_t height)
{
    s->image.width = (int32_t)width;
    s->image.height = (int32_t)height;
}

// ---- places

static int add_moved(gwb_pipe_state *s, const int m[4], int x, int y, int width, int height)
{
    gwb_link *l = gwb_pipe_add_link(s, GWB_LINK_MOVE, GWB_BEFORE_VALUES);
    gwb_pipe_move *move = l ? gwb_pipe_add_move(s, l) : NULL;
    if (!move)
        return GWB_UNSUPPORTED;
    memcpy(move->m, m, sizeof move->m);
    move->at[0] = x, move->at[1] = y;
    set_size(s, width, height);
    return 0;
}

static int add_crop(gwb_pipe_state *s, const int32_t *n)
{
    const int w = s->image.width, h = s->image.height;
    if (n[0] < 0 || n[1] < 0 || (int64_t)n[0] + n[2] > w || (int64_t)n[1] + n[3] > h)
        return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "a region of %dx%d at (%d, %d) leaves the picture of %dx%d", n[2], n[3], n[0], n[1], w, h);
    return gwb_pipe_add_crop(s, n[0], n[1], n[2], n[3]);
}

static int add_flip(gwb_pipe_state *s, bool x, bool y)
{
    const int w = s->image.width, h = s->image.height;
    return add_moved(s, (const int[4]){x ? -1 : 1, 0, 0, y ? -1 : 1}, x ? w - 1 : 0, y ? h - 1 : 0, w, h);
}

static int add_rotate(gwb_pipe_state *s, int quarters)
{
    const int w = s->image.width, h = s->image.height;
    switch (quarters) {
    case 1: return add_moved(s, (const int[4]){0, 1, -1, 0}, 0, h - 1, h, w);
    case 2: return add_flip(s, true, true);
    case 3: return add_moved(s, (const int[4]){0, -1, 1, 0}, w - 1, 0, h, w);
    default: return 0;
    }
}

// One side may be 0: as the proportions want it, at least a pixel.
static int add_resize(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    const int64_t w = s->image.width, h = s->image.height;
    int64_t width = p->n[0], height = p->n[1];
    if (!width && !height)
        return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "neither width nor height is given; wanted one of them at least, in pixels");
    if (!width)
        width = (2 * w * height + h) / (2 * h);
    else if (!height)
        height = (2 * h * width + w) / (2 * w);
    if (width > INT32_MAX || height > INT32_MAX)
        return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "%" PRId64 "x%" PRId64 " pixels, by the proportions of %dx%d; wanted at most 2147483647 each way", width, height,
                             s->image.width, s->image.height);
    return gwb_pipe_add_resize(s, width < 1 ? 1 : (int)width, height < 1 ? 1 : (int)height, p->n[2], p->n[3]);
}

static int add_pad(gwb_pipe_state *s, int64_t left, int64_t top, int64_t right, int64_t bottom, int mode, const double *value)
{
    const int64_t width = left + right + s->image.width, height = top + bottom + s->image.height;
    if (left < 0 || top < 0 || right < 0 || bottom < 0 || width > INT32_MAX || height > INT32_MAX)
        return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "padding of %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 " pixels; wanted 0 or more, and a result of "
                             "at most 2147483647 each way (crop removes pixels)", left, top, right, bottom);
    gwb_link *l = gwb_pipe_add_link(s, GWB_LINK_PAD, GWB_BEHIND_ALL);
    gwb_pipe_move *m = l ? gwb_pipe_add_move(s, l) : NULL;
    gwb_pipe_stage *stage = m ? gwb_pipe_add_stage(s, l) : NULL;
    if (!stage)
        return GWB_UNSUPPORTED;
    m->at[0] = (int32_t)-left;
    m->at[1] = (int32_t)-top;
    stage->i[0] = mode;
    int rc = border(s, value, stage->f + 12);
    set_size(s, width, height);
    return rc;
}

// The larger scale that fits, rounded to whole pixels, in the middle.
static int add_letterbox(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    const int64_t w = s->image.width, h = s->image.height;
    int64_t fit_w = p->n[0], fit_h = (2 * h * p->n[0] + w) / (2 * w);
    if (fit_h > p->n[1]) {
        fit_h = p->n[1];
        fit_w = (2 * w * p->n[1] + h) / (2 * h);
    }
    fit_w = fit_w < 1 ? 1 : fit_w > p->n[0] ? p->n[0] : fit_w;
    fit_h = fit_h < 1 ? 1 : fit_h;
    int rc = gwb_pipe_add_resize(s, (int)fit_w, (int)fit_h, p->n[2], p->n[3]);
    const int64_t left = (p->n[0] - fit_w) / 2, top = (p->n[1] - fit_h) / 2;
    return rc < 0 ? rc : add_pad(s, left, top, p->n[0] - fit_w - left, p->n[1] - fit_h - top, 0, p->v);
}

static int add_warp(gwb_pipe_state *s, const gwb_pipe_step *p, bool remap)
{
    const int at = remap ? 0 : 2;
    int rc = gwb_pipe_take_taps(s, p->n[at] ? 4 : 1);
    if (rc < 0)
        return rc;
    gwb_link *l = gwb_pipe_add_link(s, remap ? GWB_LINK_REMAP : GWB_LINK_WARP, GWB_BEHIND_ALL);
    gwb_pipe_stage *stage = l && gwb_pipe_add_move(s, l) ? gwb_pipe_add_stage(s, l) : NULL;
    if (!stage)
        return GWB_UNSUPPORTED;
    stage->i[0] = p->n[at + 1];     // border mode
    stage->i[1] = p->n[at];         // 1: bilinear
    rc = border(s, p->v + (remap ? 0 : 9), stage->f + 12);
    if (rc < 0)
        return rc;
    if (!remap) {
        for (int i = 0; i < 9; i++)
            stage->f[i] = (float)p->v[i];
        set_size(s, p->n[0] ? p->n[0] : s->image.width, p->n[1] ? p->n[1] : s->image.height);
        return 0;
    }
    const gwb_mat *map = gwb_pipe_operand_on(s->pipe, s->step, s->plan->key.device);
    if (!map)
        return GWB_OUT_OF_MEMORY;
    if (map->type != GWB_F32 || map->channels != 2 || gwb_mat_empty(map))
        return gwb_pipe_fail(s, GWB_SHAPE, "the map must be an f32x2 mat of the result's size, at least one pixel");
    stage->table = map->data;
    stage->step = map->step;
    set_size(s, map->width, map->height);
    return 0;
}

// ---- values

static int add_convert(gwb_pipe_state *s, const gwb_image *target)
{
    static const gwb_convert_params none;
    gwb_image dst = *target, src = s->image;
    dst.width = src.width;
    dst.height = src.height;
    if (gwb_format_get(src.format)->model == GWB_MODEL_YUV && gwb_format_get(dst.format)->model != GWB_MODEL_YUV) {
        if (dst.matrix)         // the tags of a stage speak of the YUV side
            src.matrix = dst.matrix;
        if (dst.range)
            src.range = dst.range;
        dst.matrix = dst.range = dst.siting = 0;
    }
    int rc = gwb_convert_settle(&dst, &src, &none);
    gwb_convert_args a;
    gwb_mat dummy = {.tag = GWB_MAT_TAG};
    gwb_image to = dst, from = src;
    for (int i = 0; i < GWB_MAX_PLANES; i++)
        to.plane[i] = from.plane[i] = &dummy;
    if (rc >= 0)
        rc = gwb_convert_plan(&a, &to, &from, &none);
    if (rc < 0) {
        char why[1024];
        snprintf(why, sizeof why, "%s", gwb_error_message());
        return gwb_pipe_fail(s, rc, "%s", why);
    }
    gwb_pipe_code *c = &s->pass->code;
    bool first = true;
    for (int i = 0; i < c->links; i++)
        first &= c->link[i].kind != GWB_LINK_VALUE && c->link[i].kind != GWB_LINK_EXPR;
    const gwb_format_info *fd = gwb_format_get(dst.format), *fs = gwb_format_get(src.format);
    const bool alpha = fs->alpha && fd->alpha;
    if (first) {                // read only what is asked for; U and V of subsampled chroma go together
        const int needs = a.luma_needs | a.chroma_needs;
        c->src.components &= needs | (alpha ? 8 : 0) | (needs & 6 && (fs->log2_w || fs->log2_h) ? 6 : 0);
    }
    const bool yuv = a.mix.m[0][1] == 0 && a.mix.m[2][2] == 0;
    gwb_pipe_stage *stage = gwb_pipe_add_value(s, a.mix.diagonal ? GWB_PIPE_VALUE_diagonal : yuv ? GWB_PIPE_VALUE_yuv : GWB_PIPE_VALUE_mix);
    if (!stage)
        return GWB_UNSUPPORTED;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            stage->f[3 * i + j] = a.mix.m[i][j];
        stage->f[9 + i] = a.mix.from[i];
        stage->f[12 + i] = a.mix.to[i];
    }
    const double opaque = gwb_format_is_float(fd) ? 1 : ldexp(1, fd->component[3].depth) - 1;
    const double was = gwb_format_is_float(fs) ? 1 : ldexp(1, fs->component[3].depth) - 1;
    stage->i[0] = alpha;
    stage->f[15] = (float)(alpha ? opaque / was : opaque);
    if (s->step == 0) {
        s->plan->from.matrix = src.matrix;
        s->plan->from.range = src.range;
    }
    gwb_pipe_set_format(s, &dst);
    return 0;
}

// Works value * m + a into the stage before, where that is affine itself; false where it cannot be.
static bool fold_scale(gwb_pipe_state *s, const float m[4], const float a[4])
{
    const gwb_pipe_code *c = &s->pass->code;
    const gwb_link *l = c->links ? &c->link[c->links - 1] : NULL;
    if (!l || l->kind != GWB_LINK_VALUE || l->value > GWB_PIPE_VALUE_scale)
        return false;
    float f[16], *numbers = s->pass->stage[l->k].f;
    memcpy(f, numbers, sizeof f);
    const bool scales = l->value == GWB_PIPE_VALUE_scale, keeps_alpha = !scales && s->pass->stage[l->k].i[0];
    if (keeps_alpha && a[3] != 0)
        return false;
    for (int k = 0; k < (scales ? 4 : 3); k++) {
        float *to = &f[scales ? 4 + k : 12 + k];
        *to = (float)((double)*to * m[k] + a[k]);
        for (int j = 0; j < (scales ? 1 : 3); j++)
            f[scales ? k : 3 * k + j] *= m[k];
    }
    if (!scales)
        f[15] = (float)((double)f[15] * m[3] + a[3]);
    for (int i = 0; i < 16; i++)
        if (!isfinite(f[i]))
            return false;
    memcpy(numbers, f, sizeof f);
    return true;
}

static int add_scale(gwb_pipe_state *s, const double *mul, const double *add)
{
    double m[4], a[4];
    for (int k = 0; k < 4; k++) {
        const bool keeps = isnan(mul[k]) || isnan(add[k]);
        m[k] = keeps ? 1 : mul[k];
        a[k] = keeps ? 0 : add[k];
        if (k < s->channels && (!isfinite((float)m[k]) || !isfinite((float)a[k])))
            return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "the numbers of channel %d become value * %g + %g", k + 1, m[k], a[k]);
    }
    float by[4], plus[4];
    color(s, m, 1, by);
    color(s, a, 0, plus);
    if (fold_scale(s, by, plus))
        return 0;
    gwb_pipe_stage *stage = gwb_pipe_add_value(s, GWB_PIPE_VALUE_scale);
    if (!stage)
        return GWB_UNSUPPORTED;
    memcpy(stage->f, by, sizeof by);
    memcpy(stage->f + 4, plus, sizeof plus);
    return 0;
}

static int add_arithmetic(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    static const double none[4] = {0, 0, 0, 0}, ones[4] = {1, 1, 1, 1};
    double mul[4], add[4];
    int rc = check_color(s, p->v, p->op == GWB_OP_normalize ? "mean" : "by");
    if (rc >= 0 && p->op == GWB_OP_normalize)
        rc = check_color(s, p->v + 4, "std");
    if (rc < 0)
        return rc;
    for (int k = 0; k < 4; k++) {
        const double v = p->v[k];
        if (k < s->channels && p->op == GWB_OP_div && v == 0)
            return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "division of channel %d by 0", k + 1);
        if (k < s->channels && p->op == GWB_OP_normalize && p->v[4 + k] == 0)
            return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "the deviation of channel %d is 0", k + 1);
        mul[k] = p->op == GWB_OP_normalize ? p->v[8] / p->v[4 + k] : 1 / v;
        add[k] = p->op == GWB_OP_normalize ? -v / p->v[4 + k] : -v;
    }
    switch (p->op) {
    case GWB_OP_normalize: return add_scale(s, mul, add);
    case GWB_OP_mul: return add_scale(s, p->v, none);
    case GWB_OP_add: return add_scale(s, ones, p->v);
    case GWB_OP_sub: return add_scale(s, ones, add);
    default: return add_scale(s, mul, none);
    }
}

static int add_matrix(gwb_pipe_state *s, const double *m)
{
    if (s->colours != 3)
        return gwb_pipe_fail(s, GWB_SHAPE, "a matrix wants three channels, and the picture has %d", s->channels);
    gwb_pipe_stage *stage = gwb_pipe_add_value(s, GWB_PIPE_VALUE_mix);
    if (!stage)
        return GWB_UNSUPPORTED;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            stage->f[3 * i + j] = (float)m[4 * i + j];
        stage->f[12 + i] = (float)m[4 * i + 3];
    }
    stage->i[0] = 1;
    stage->f[15] = 1;
    return 0;
}

static int add_swizzle(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    // n: per channel 0..3 a channel, 4 zero, 5 one; count: channels of the result
    static const char *const names[4][4] = {{"gray", "ya8", "rgb24", "rgba"}, {"gray16le", "ya16le", "rgb48le", "rgba64le"},
                                            {"grayf16le", NULL, "rgbf16le", "rgbaf16le"}, {"grayf32le", NULL, "rgbf32le", "rgbaf32le"}};
    const gwb_format_info *f = gwb_format_get(s->image.format);
    if (f->model == GWB_MODEL_YUV)
        return gwb_pipe_fail(s, GWB_UNSUPPORTED, "%s has no red, green and blue; convert to rgb first", f->name);
    for (int k = 0; k < p->count; k++)
        if (p->n[k] < 0 || p->n[k] > 5 || (p->n[k] == 3 && s->channels == s->colours))
            return gwb_pipe_fail(s, GWB_SHAPE, "%s has no channel a", f->name);
    const int row = f->type == GWB_U8 ? 0 : f->type == GWB_U16 && f->depth == 16 ? 1 : f->type == GWB_F16 ? 2 : f->type == GWB_F32 ? 3 : -1;
    if (row < 0 || p->count < 1 || p->count > 4 || !names[row][p->count - 1])
        return gwb_pipe_fail(s, GWB_UNSUPPORTED, "there is no interleaved format of %d channels like %s", p->count, f->name);
    gwb_pipe_stage *stage = gwb_pipe_add_value(s, GWB_PIPE_VALUE_swizzle);
    if (!stage)
        return GWB_UNSUPPORTED;
    // gray holds its value in component 0, and a second channel is alpha, in component 3
    for (int k = 0; k < 4; k++) {
        const int from = p->count == 2 && k == 3 ? p->n[1] : k < p->count ? p->n[k] : 5;
        stage->i[k] = from < 3 && s->colours == 1 ? 0 : from;
    }
    stage->f[1] = (float)gwb_pipe_max_code(&s->image);
    gwb_image image = s->image;
    image.format = gwb_format_find(names[row][p->count - 1], NULL, NULL);
    gwb_pipe_set_format(s, &image);
    return 0;
}

static int add_lut(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    const bool cube = p->op == GWB_OP_cube;
    const gwb_mat *table = gwb_pipe_operand_on(s->pipe, s->step, s->plan->key.device);
    if (!table)
        return GWB_OUT_OF_MEMORY;
    if (table->type != GWB_F32 || table->channels != 1 || table->width < 2 || table->height < 1)
        return gwb_pipe_fail(s, GWB_SHAPE, "the table must be an f32 mat of two numbers or more a row");
    if (!cube && table->height != 1 && table->height != s->colours)
        return gwb_pipe_fail(s, GWB_SHAPE, "%d tables for %d channels; give one, or one a channel", table->height, s->colours);
    if (cube && s->colours != 3)
        return gwb_pipe_fail(s, GWB_SHAPE, "a cube wants three channels, and the picture has %d", s->channels);
    if (cube && (p->count < 2 || p->count > 129 || table->width != 3 * p->count * p->count * p->count))
        return gwb_pipe_fail(s, GWB_SHAPE, "a cube of %d^3 colours in a row of %d numbers", p->count, table->width);
    const double low = p->v[0], high = or_max(s, p->v[1]);
    if (!(high > low) || !isfinite(high - low))
        return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "the table's range is %g..%g; high must be greater than low", low, high);
    gwb_pipe_stage *stage = gwb_pipe_add_value(s, cube ? GWB_PIPE_VALUE_lut3d : GWB_PIPE_VALUE_lut);
    if (!stage)
        return GWB_UNSUPPORTED;
    stage->table = table->data;
    stage->step = table->step;
    if (cube) {
        stage->i[0] = p->count;
        for (int k = 0; k < 3; k++) {
            stage->f[k] = (float)low;
            stage->f[3 + k] = (float)((p->count - 1) / (high - low));
        }
        return 0;
    }
    stage->i[0] = s->colours;
    stage->i[1] = table->width;
    stage->i[2] = table->height;
    stage->f[0] = (float)low;
    stage->f[1] = (float)high;
    stage->f[2] = (float)((table->width - 1) / (high - low));
    return 0;
}

static int add_blend(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    const gwb_mat *with = &s->pipe->operand[s->step];
    const gwb_format_info *f = gwb_format_get(p->target.format), *own = gwb_format_get(s->image.format);
    if (with->device != s->plan->key.device)
        return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "the picture to blend with is on another device; copy it first");
    if (with->width != s->image.width || with->height != s->image.height)
        return gwb_pipe_fail(s, GWB_SHAPE, "the picture to blend with is %dx%d, this one %dx%d", with->width, with->height, s->image.width,
                             s->image.height);
    const int channels = f->planes == 1 ? (f->model == GWB_MODEL_GRAY ? 1 : 3) + (f->alpha ? 1 : 0) : 0;
    bool in_order = f->layout == GWB_LAYOUT_INTERLEAVED && with->channels == channels && with->type == f->type;
    for (int k = 0; k < channels && in_order; k++)
        in_order = f->component[channels == 2 && k == 1 ? 3 : k].offset == k * gwb_type_size(f->type);
    if (!in_order || f->model == GWB_MODEL_YUV || own->model == GWB_MODEL_YUV)
        return gwb_pipe_fail(s, GWB_UNSUPPORTED, "blending wants gray, rgb or rgba pictures of interleaved channels in that order, got %s and %s", own->name,
                             f->name);
    const double max = gwb_format_is_float(f) ? 1 : ldexp(1, f->depth) - 1;
    if (max != gwb_pipe_max_code(&s->image))
        return gwb_pipe_fail(s, GWB_SHAPE, "the picture to blend with has codes up to %g, this one up to %g; convert one of them", max,
                             gwb_pipe_max_code(&s->image));
    if (channels - f->alpha > s->colours)
        return gwb_pipe_fail(s, GWB_SHAPE, "the picture to blend with is %s, this one %s; convert one of them", f->name, own->name);
    gwb_pipe_stage *stage = gwb_pipe_add_value(s, GWB_PIPE_VALUE_blend);
    if (!stage)
        return GWB_UNSUPPORTED;
    stage->table = with->data;
    stage->step = with->step;
    stage->i[0] = channels;
    stage->i[1] = f->type == GWB_U8 ? GWB_SAMPLE_U8 : f->type == GWB_U16 ? GWB_SAMPLE_U16 : f->type == GWB_F16 ? GWB_SAMPLE_F16 : GWB_SAMPLE_F32;
    stage->i[2] = p->n[0];
    stage->i[3] = f->alpha ? channels - 1 : -1;
    stage->i[4] = s->colours;
    stage->i[5] = channels - f->alpha;
    stage->i[6] = s->channels > s->colours;
    stage->f[0] = (float)p->v[0];
    stage->f[1] = (float)(1 / max);
    stage->f[2] = (float)max;
    return 0;
}

// Stages that take a number a channel.
static int add_numbers(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    static const int values[GWB_OP_COUNT] = {[GWB_OP_clamp] = GWB_PIPE_VALUE_clamp, [GWB_OP_abs] = GWB_PIPE_VALUE_abs, [GWB_OP_pow] = GWB_PIPE_VALUE_pow,
                                             [GWB_OP_gamma] = GWB_PIPE_VALUE_pow, [GWB_OP_threshold] = GWB_PIPE_VALUE_threshold};
    int rc = p->op == GWB_OP_abs ? 0 : check_color(s, p->v, p->op == GWB_OP_clamp ? "low" : p->op == GWB_OP_threshold ? "at" : gwb_op_name(p->op));
    if (rc >= 0 && p->op == GWB_OP_clamp)
        rc = check_color(s, p->v + 4, "high");
    if (rc < 0)
        return rc;
    gwb_pipe_stage *stage = gwb_pipe_add_value(s, values[p->op]);
    if (!stage)
        return GWB_UNSUPPORTED;
    stage->i[0] = s->colours;
    switch (p->op) {
    case GWB_OP_clamp:
        color(s, p->v, -INFINITY, stage->f);
        color(s, p->v + 4, INFINITY, stage->f + 4);
        for (int k = 0; k < 4; k++)
            if (stage->f[k] > stage->f[4 + k])
                return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "the range of channel %d is %g..%g", k + 1, (double)stage->f[k], (double)stage->f[4 + k]);
        break;
    case GWB_OP_threshold:
        color(s, p->v, INFINITY, stage->f);
        stage->f[4] = (float)p->v[4];
        stage->f[5] = or_max(s, p->v[5]);
        break;
    case GWB_OP_pow:
    case GWB_OP_gamma:
        for (int k = 0; k < s->colours; k++) {
            if (p->op == GWB_OP_gamma && !(p->v[k] > 0))
                return gwb_pipe_fail(s, GWB_BAD_ARGUMENT, "the gamma of channel %d is %g; wanted more than 0", k + 1, p->v[k]);
            stage->f[k] = isnan(p->v[k]) ? 1.0f : (float)(p->op == GWB_OP_gamma ? 1 / p->v[k] : p->v[k]);
        }
        stage->f[4] = p->op == GWB_OP_gamma ? (float)gwb_pipe_max_code(&s->image) : 1;
        break;
    default:
        break;
    }
    return 0;
}

// ---- expressions

typedef struct writer {
    const gwb_pipe_state *s;
    gwb_link *link;
} writer;

static int emit(writer *w, int op, int n)
{
    gwb_pipe_code *c = &w->s->pass->code;
    if (w->link->first + w->link->size + 2 > GWB_PIPE_PROGRAM)
        return gwb_pipe_fail(w->s, GWB_UNSUPPORTED, "the expressions of a pass are too long; split the chain in two pipelines");
    c->program[w->link->first + w->link->size++] = (uint8_t)op;
    c->program[w->link->first + w->link->size++] = (uint8_t)n;
    return 0;
}

// Component that channel n holds; -1: there is none.
static int component_of(const gwb_pipe_state *s, int n)
{
    return n >= s->channels ? -1 : s->channels == 2 && n == 1 ? 3 : n;
}

// Copies the expression from pair `at` on, for channel `own`; leaves one value. Returns the pair behind it, or a failure.
static int copy_expression(writer *w, const uint8_t *program, int at, int pairs, int own)
{
    static const int operands[] = {
#define ROW(name, operands, value) operands,
        GWB_EXPR_OPS(ROW)
#undef ROW
    };
    int depth = 0;
    for (; at < pairs && program[2 * at] != GWB_EXPR_next; at++) {
        int op = program[2 * at], n = program[2 * at + 1], take = 0;
        if (op < GWB_EXPR_number) {
            take = operands[op];
        } else if (op == GWB_EXPR_channel) {
            const int k = component_of(w->s, n == 4 ? own : n == 3 ? w->s->channels - 1 : n);
            if (n > 4 || k < 0 || (n == 3 && w->s->channels == w->s->colours))
                return gwb_pipe_fail(w->s, GWB_SHAPE, "%s has no channel %s", gwb_format_get(w->s->image.format)->name,
                                     n == 3 ? "a (c4)" : n == 2 ? "b (c3)" : "g (c2)");
            op = GWB_EXPR_component, n = k;
        } else if ((op != GWB_EXPR_number || n > 15) && (op != GWB_EXPR_place || n > 3)) {
            return gwb_pipe_fail(w->s, GWB_BAD_ARGUMENT, "operation %d of the expression is unknown", op);
        }
        depth += 1 - take;
        if (depth < 1 || depth > GWB_EXPR_DEPTH - 1)
            return gwb_pipe_fail(w->s, GWB_UNSUPPORTED, "the expression is nested too deeply: at most %d values may wait for each other", GWB_EXPR_DEPTH - 1);
        int rc = emit(w, op, n);
        if (rc < 0)
            return rc;
    }
    return depth == 1 ? at + 1 : gwb_pipe_fail(w->s, GWB_BAD_ARGUMENT, "the expression leaves %d values; wanted one", depth);
}

static int add_expr(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    const uint8_t *program = s->pipe->program[s->step];
    const int pairs = p->program_size / 2;
    int count = 0, used = 0, rc = 0;
    bool own = false, sized = false;
    for (int i = 0; i < pairs; i++) {
        count += program[2 * i] == GWB_EXPR_next;
        own |= program[2 * i] == GWB_EXPR_channel && program[2 * i + 1] == 4;
        sized |= program[2 * i] == GWB_EXPR_place && program[2 * i + 1] >= 2;
    }
    if (count != 1 && count != s->colours && count != s->channels)
        return gwb_pipe_fail(s, GWB_SHAPE, "%d expressions for %d channels; give one, or one a channel", count, s->channels);
    for (int i = 0; i < s->pass->code.links; i++)
        used += s->pass->code.link[i].size;
    gwb_link *l = gwb_pipe_add_link(s, GWB_LINK_EXPR, GWB_BEHIND_ALL);
    gwb_pipe_stage *stage = l ? gwb_pipe_add_stage(s, l) : NULL;
    if (!stage || (sized && !gwb_pipe_add_move(s, l)))
        return GWB_UNSUPPORTED;
    l->first = used;
    for (int i = 0; i < 16; i++)
        stage->f[i] = (float)p->v[i];
    writer w = {s, l};
    int at = 0;
    for (int k = 0; k < (count == 1 ? s->colours : count) && rc >= 0; k++) {
        if (k == 0 || own || count > 1)
            rc = at = copy_expression(&w, program, count == 1 ? 0 : at, pairs, k);
        if (rc >= 0)
            rc = emit(&w, GWB_EXPR_store, component_of(s, k));
        if (rc >= 0 && (own || count > 1 || k + 1 == s->colours))
            rc = emit(&w, GWB_EXPR_drop, 0);
    }
    return rc < 0 ? rc : 0;
}

// ---- all of them

int gwb_pipe_add_step(gwb_pipe_state *s, const gwb_pipe_step *p)
{
    switch (p->op) {
    case GWB_OP_convert: return add_convert(s, &p->target);
    case GWB_OP_crop: return add_crop(s, p->n);
    case GWB_OP_resize: return add_resize(s, p);
    case GWB_OP_flip: return add_flip(s, p->n[0] != 1, p->n[0] != 0);
    case GWB_OP_rotate: return add_rotate(s, p->n[0]);
    case GWB_OP_transpose: return add_moved(s, (const int[4]){0, 1, 1, 0}, 0, 0, s->image.height, s->image.width);
    case GWB_OP_pad: return add_pad(s, p->n[0], p->n[1], p->n[2], p->n[3], p->n[4], p->v);
    case GWB_OP_letterbox: return add_letterbox(s, p);
    case GWB_OP_warp: return add_warp(s, p, false);
    case GWB_OP_remap: return add_warp(s, p, true);
    case GWB_OP_normalize: case GWB_OP_mul: case GWB_OP_add: case GWB_OP_sub: case GWB_OP_div: return add_arithmetic(s, p);
    case GWB_OP_matrix: return add_matrix(s, p->v);
    case GWB_OP_swizzle: return add_swizzle(s, p);
    case GWB_OP_lut: case GWB_OP_cube: return add_lut(s, p);
    case GWB_OP_blend: return add_blend(s, p);
    case GWB_OP_expr: return add_expr(s, p);
    default: return add_numbers(s, p);
    }
}
