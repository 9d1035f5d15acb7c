// SPDX-License-Identifier: MIT
// The plan of a pipeline: each step against the picture that reaches it, the constants of each stage, the passes.
#include "pipe.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The picture at one point of the chain. Values are the codes of `image`, every component at every pixel.
typedef struct state {
    gwb_plan *plan;
    gwb_pass *pass;
    gwb_image image;        // format, size and tags
    int channels;           // that carry values, alpha included
    int colours;            // of those, not alpha
    bool place;             // the pass moves pixels already, so that further taps multiply
    int step;               // counts from 0, for messages
    int op;
    int k, m;               // used in args.stage, item.move
} state;

static const char *const op_names[] = {
#define ROW(name, kind, params, text) #name,
    GWB_OPS(ROW)
#undef ROW
};

static int fail(const state *s, int status, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gwb_fail(status, "stage %d (%s): %s", s->step + 1, op_names[s->op], text);
}

static double max_code(const gwb_image *image)
{
    const gwb_format_info *f = gwb_format_get(image->format);
    return gwb_format_is_float(f) ? 1 : ldexp(1, f->depth) - 1;
}

static void set_format(state *s, const gwb_image *image)
{
    const gwb_format_info *f = gwb_format_get(image->format);
    s->image = *image;
    s->colours = f->model == GWB_MODEL_GRAY ? 1 : 3;
    s->channels = s->colours + (f->alpha ? 1 : 0);
}

// ---- links

static gwb_link *add_link(state *s, int kind)
{
    gwb_pass *p = s->pass;
    if (p->links == GWB_PIPE_LINKS || s->k == GWB_PIPE_STAGES || s->m == GWB_PIPE_MOVES) {
        fail(s, GWB_UNSUPPORTED, "the chain is too long for one pass (%d stages with numbers, %d that move pixels); split it in two pipelines",
             GWB_PIPE_STAGES, GWB_PIPE_MOVES);
        return NULL;
    }
    gwb_link *l = &p->link[p->links++];
    *l = (gwb_link){.kind = kind, .k = -1, .m = -1};
    return l;
}

static gwb_pipe_stage *add_stage(state *s, gwb_link *l)
{
    l->k = s->k++;
    return &s->pass->args.stage[l->k];
}

static gwb_pipe_stage *add_value(state *s, int value)
{
    gwb_link *l = add_link(s, GWB_LINK_VALUE);
    if (!l)
        return NULL;
    l->value = value;
    return add_stage(s, l);
}

static gwb_pipe_move *add_move(state *s, gwb_link *l)
{
    l->m = s->m++;
    gwb_pipe_move *m = &s->pass->item.move[l->m];
    m->width = s->image.width;
    m->height = s->image.height;
    return m;
}

// A step's color: `keep` where the channel keeps its value (alpha, or NaN).
static void color(const state *s, const double *v, double keep, float *out)
{
    for (int k = 0; k < 4; k++)
        out[k] = (float)(k < s->channels && !isnan(v[k]) ? v[k] : keep);
}

// ---- passes

// Components in the order R G B A (Y U V A) of an image whose planes may be unknown.
static gwb_image without_planes(const gwb_image *image, gwb_mat *dummy)
{
    gwb_image r = *image;
    *dummy = (gwb_mat){.tag = GWB_MAT_TAG};
    for (int i = 0; i < GWB_MAX_PLANES; i++)
        r.plane[i] = dummy;
    return r;
}

static int begin_source(state *s, const gwb_image *src)
{
    const gwb_format_info *f = gwb_format_get(src->format);
    if (f->model == GWB_MODEL_BAYER)
        return gwb_fail(GWB_UNSUPPORTED, "%s is a mosaic of one colour a pixel; convert() it before the pipeline", f->name);
    static const gwb_convert_params none;
    gwb_convert_args *io = &s->pass->args.io;
    gwb_mat dummy;
    gwb_image image = without_planes(src, &dummy);
    int rc = gwb_convert_plan(io, &image, &image, &none);
    if (rc < 0)
        return rc;
    set_format(s, src);
    if (f->alpha && f->model == GWB_MODEL_GRAY)
        s->pass->src_components = 1 | 8;
    else
        s->pass->src_components = (1 << s->colours) - 1 + (f->alpha ? 8 : 0);
    return 0;
}

// The destination's side of the last pass, in a format.
static int end_format(state *s)
{
    static const gwb_convert_params none;
    gwb_mat dummy;
    gwb_image out = without_planes(&s->image, &dummy), full = out;
    const gwb_format_info *f = gwb_format_get(out.format);
    if (f->log2_w || f->log2_h)
        full.format = gwb_format_find("yuv444p", NULL, NULL);
    gwb_convert_args d, *io = &s->pass->args.io;
    int rc = gwb_convert_plan(&d, &out, &full, &none);
    if (rc < 0)
        return rc;
    memcpy(io->dst, d.dst, sizeof io->dst);
    memcpy(io->limit, d.limit, sizeof io->limit);
    io->dst_kind = d.dst_kind;
    io->dst_log2_w = d.dst_log2_w;
    io->dst_log2_h = d.dst_log2_h;
    io->block_w = d.block_w;
    io->block_h = d.block_h;
    io->group = d.group;
    io->word = d.word;
    io->down_x = d.down_x;
    io->down_y = d.down_y;
    s->pass->dst_components = 0;
    for (int k = 0; k < 4; k++)
        if (f->component[k].plane >= 0)
            s->pass->dst_components |= 1 << k;
    return 0;
}

// The destination's side where it is plain channels: interleaved in one mat, or one after the other.
static void end_plain(state *s, int type, int channels, bool planar)
{
    gwb_convert_args *io = &s->pass->args.io;
    int size = gwb_type_size(type);
    io->dst_kind = type == GWB_U8 ? GWB_SAMPLE_U8 : type == GWB_U16 ? GWB_SAMPLE_U16 : type == GWB_F16 ? GWB_SAMPLE_F16 : GWB_SAMPLE_F32;
    io->dst_log2_w = io->dst_log2_h = 0;
    io->block_w = io->block_h = io->group = 1;
    io->word = 0;
    for (int k = 0; k < 4; k++) {
        io->dst[k] = (gwb_samples){.pitch = planar ? size : size * channels, .mask = 0};
        io->limit[k] = type == GWB_U8 ? 255.0f : 65535.0f;
    }
    // gray with alpha has its second channel in component 3
    s->pass->dst_components = channels == 2 ? 1 | 8 : (1 << channels) - 1;
}

static void close_pass(state *s, int channels)
{
    gwb_pass *p = s->pass;
    p->width = p->args.io.width = s->image.width;
    p->height = p->args.io.height = s->image.height;
    p->channels = channels;
    p->nx = (p->width + p->args.io.block_w - 1) / p->args.io.block_w;
    p->ny = (p->height + p->args.io.block_h - 1) / p->args.io.block_h;
}

// Ends the pass with an interleaved f32 picture, from which the next one reads.
static int break_pass(state *s)
{
    if (s->plan->passes == GWB_PIPE_PASSES)
        return fail(s, GWB_UNSUPPORTED, "the chain needs more than %d passes; split it in two pipelines", GWB_PIPE_PASSES);
    end_plain(s, GWB_F32, s->channels, false);
    close_pass(s, s->channels);
    gwb_pass *next = &s->plan->pass[s->plan->passes++];
    memset(next, 0, sizeof *next);
    gwb_convert_args *io = &next->args.io;
    io->src_kind = GWB_SAMPLE_F32;
    for (int k = 0; k < 4; k++)
        io->src[k] = (gwb_samples){.pitch = 4 * s->channels};
    next->src_components = s->pass->dst_components;
    next->item.src_width = s->image.width;
    next->item.src_height = s->image.height;
    s->pass = next;
    s->k = s->m = 0;
    s->place = false;
    return 0;
}

// ---- tables on the device

static int add_table(state *s, const void *data, int32_t width, int32_t height, gwb_mat **out)
{
    gwb_plan *p = s->plan;
    if (p->tables == GWB_PIPE_TABLES)
        return fail(s, GWB_UNSUPPORTED, "more than %d tables in a chain", GWB_PIPE_TABLES);
    gwb_mat *m = &p->table[p->tables];
    int rc = gwb_mat_create(m, p->device, width, height, GWB_F32, 1, NULL);
    if (rc < 0)
        return rc;
    p->tables++;
    *out = m;
    return gwb_upload(m, data, 0, NULL);
}

// The operand of a step on the plan's device.
static int operand_here(state *s, const gwb_mat *operand, const gwb_mat **out)
{
    gwb_plan *p = s->plan;
    *out = operand;
    if (operand->device == p->device)
        return 0;
    if (p->tables == GWB_PIPE_TABLES)
        return fail(s, GWB_UNSUPPORTED, "more than %d tables in a chain", GWB_PIPE_TABLES);
    gwb_mat *m = &p->table[p->tables];
    int rc = gwb_mat_create(m, p->device, operand->width, operand->height, operand->type, operand->channels, NULL);
    if (rc < 0)
        return rc;
    p->tables++;
    *out = m;
    return gwb_copy(m, operand, NULL);
}

// ---- resizing

typedef struct kernel {
    double radius;
    double (*weight)(double);
} kernel;

static double triangle(double x)
{
    return fmax(0, 1 - fabs(x));
}

static double cubic(double a, double x)
{
    x = fabs(x);
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double catmull_rom(double x)
{
    return cubic(-0.5, x);
}

static double cubic_opencv(double x)
{
    return cubic(-0.75, x);
}

static double sinc(double x)
{
    const double t = 3.14159265358979323846 * x;
    return x == 0 ? 1 : sin(t) / t;
}

static double lanczos3(double x)
{
    return fabs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

enum { NEAREST, BILINEAR, BICUBIC, BICUBIC_OPENCV, AREA, LANCZOS3 };
static const kernel kernels[] = {
    [BILINEAR] = {1, triangle}, [BICUBIC] = {2, catmull_rom}, [BICUBIC_OPENCV] = {2, cubic_opencv}, [LANCZOS3] = {3, lanczos3},
};

// Taps that each output of a table has.
static int table_taps(int filter, int in, int out, bool antialias)
{
    const double scale = (double)in / out, widen = antialias && scale > 1 ? scale : 1;
    return filter == AREA ? (int)ceil(scale) + 1 : (int)ceil(2 * kernels[filter].radius * widen) + 1;
}

// Row 0: the first tap of each output (int32); row 1 + t: the weights of tap t.
static void fill_table(float *table, int taps, int filter, int in, int out, bool antialias)
{
    const double scale = (double)in / out, widen = antialias && scale > 1 ? scale : 1;
    for (int i = 0; i < out; i++) {
        const double centre = (i + 0.5) * scale;
        const double reach = filter == AREA ? scale / 2 : kernels[filter].radius * widen;
        const int first = filter == AREA ? (int)floor(centre - reach) : (int)ceil(centre - reach - 0.5);
        double sum = 0;
        for (int t = 0; t < taps; t++) {
            double w;
            if (filter == AREA) {   // the share of the tap's pixel that lies in the box
                const double begin = fmax(centre - reach, first + t), end = fmin(centre + reach, first + t + 1);
                w = fmax(0, end - begin);
            } else {
                w = kernels[filter].weight((first + t + 0.5 - centre) / widen);
            }
            table[(1 + t) * (int64_t)out + i] = (float)w;
            sum += w;
        }
        for (int t = 0; t < taps; t++)
            table[(1 + t) * (int64_t)out + i] = (float)(table[(1 + t) * (int64_t)out + i] / sum);
        memcpy(&table[i], &(int32_t){first}, 4);
    }
}

static int add_table_link(state *s, int axis, int filter, int size, bool antialias)
{
    const int in = axis ? s->image.height : s->image.width, taps = table_taps(filter, in, size, antialias);
    gwb_link *l = add_link(s, axis ? GWB_LINK_TABLE_Y : GWB_LINK_TABLE_X);
    if (!l)
        return GWB_UNSUPPORTED;
    add_move(s, l);
    gwb_pipe_stage *stage = add_stage(s, l);
    float *table = malloc((size_t)size * (size_t)(taps + 1) * sizeof *table);
    if (!table)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    fill_table(table, taps, filter, in, size, antialias);
    gwb_mat *m = NULL;
    int rc = add_table(s, table, size, taps + 1, &m);
    free(table);
    if (rc < 0)
        return rc;
    stage->table = m->data;
    stage->step = m->step;
    stage->i[0] = taps;
    *(axis ? &s->image.height : &s->image.width) = size;
    s->place = true;
    return 0;
}

static int add_resize(state *s, int width, int height, int filter, bool antialias)
{
    const bool wide = width != s->image.width, high = height != s->image.height;
    if (!wide && !high)
        return 0;
    const bool shrinks = width < s->image.width || height < s->image.height;
    if (filter == AREA || filter == LANCZOS3 || (antialias && shrinks && filter != NEAREST)) {
        // one axis after the other, the cheaper order of which is nearly always the width first; both in one pass only where that saves work
        const int taps = table_taps(filter, s->image.width, width, antialias) * table_taps(filter, s->image.height, height, antialias);
        int rc = s->place && (wide || high) ? break_pass(s) : 0;
        if (rc >= 0 && wide)
            rc = add_table_link(s, 0, filter, width, antialias);
        if (rc >= 0 && wide && high && taps > 16)
            rc = break_pass(s);
        return rc >= 0 && high ? add_table_link(s, 1, filter, height, antialias) : rc;
    }
    gwb_link *l = add_link(s, filter == NEAREST ? GWB_LINK_NEAREST : filter == BILINEAR ? GWB_LINK_BILINEAR : GWB_LINK_CUBIC);
    if (!l)
        return GWB_UNSUPPORTED;
    gwb_pipe_move *m = add_move(s, l);
    const int64_t in[2] = {s->image.width, s->image.height}, out[2] = {width, height};
    for (int axis = 0; axis < 2; axis++) {
        m->scale[axis] = filter == NEAREST ? in[axis] : ((in[axis] << 32) + out[axis] / 2) / out[axis];
        m->offset[axis] = filter == NEAREST ? out[axis] : ((in[axis] - out[axis]) * ((int64_t)1 << 31)) / out[axis];
    }
    if (filter == BICUBIC || filter == BICUBIC_OPENCV)
        add_stage(s, l)->f[0] = filter == BICUBIC ? -0.5f : -0.75f;
    s->image.width = width;
    s->image.height = height;
    s->place = true;
    return 0;
}

// ---- the other places

static int add_moved(state *s, int xx, int xy, int yx, int yy, int ax, int ay, int width, int height)
{
    gwb_link *l = add_link(s, GWB_LINK_MOVE);
    if (!l)
        return GWB_UNSUPPORTED;
    gwb_pipe_move *m = add_move(s, l);
    m->m[0] = xx, m->m[1] = xy, m->m[2] = yx, m->m[3] = yy;
    m->at[0] = ax, m->at[1] = ay;
    s->image.width = width;
    s->image.height = height;
    return 0;
}

static int add_pad(state *s, int64_t left, int64_t top, int64_t right, int64_t bottom, int mode, const double *value)
{
    const int64_t width = left + right + s->image.width, height = top + bottom + s->image.height;
    if (left < 0 || top < 0 || right < 0 || bottom < 0 || width > INT32_MAX || height > INT32_MAX)
        return fail(s, GWB_BAD_ARGUMENT, "padding of %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 " pixels; wanted 0 or more, and a result of at most "
                    "2147483647 each way (crop removes pixels)", left, top, right, bottom);
    gwb_link *l = add_link(s, GWB_LINK_PAD);
    if (!l)
        return GWB_UNSUPPORTED;
    gwb_pipe_move *m = add_move(s, l);
    m->at[0] = (int32_t)-left;
    m->at[1] = (int32_t)-top;
    gwb_pipe_stage *stage = add_stage(s, l);
    stage->i[0] = mode;
    color(s, value, max_code(&s->image), stage->f);
    s->image.width = (int32_t)width;
    s->image.height = (int32_t)height;
    return 0;
}

static int add_warp(state *s, const gwb_pipe_step *p, bool remap)
{
    const int at = remap ? 0 : 2;
    if (s->place && p->n[at] == 1) {
        int rc = break_pass(s);
        if (rc < 0)
            return rc;
    }
    gwb_link *l = add_link(s, remap ? GWB_LINK_REMAP : GWB_LINK_WARP);
    if (!l)
        return GWB_UNSUPPORTED;
    add_move(s, l);
    gwb_pipe_stage *stage = add_stage(s, l);
    stage->i[0] = p->n[at + 1];     // border
    stage->i[1] = p->n[at];         // bilinear
    color(s, p->v + (remap ? 0 : 9), max_code(&s->image), stage->f + 12);
    if (remap) {
        const gwb_mat *map = NULL;
        if (p->operand->type != GWB_F32 || p->operand->channels != 2 || gwb_mat_empty(p->operand))
            return fail(s, GWB_SHAPE, "the map must be an f32x2 mat of the result's size, at least one pixel");
        int rc = operand_here(s, p->operand, &map);
        if (rc < 0)
            return rc;
        stage->table = map->data;
        stage->step = map->step;
        s->image.width = map->width;
        s->image.height = map->height;
    } else {
        for (int i = 0; i < 9; i++)
            stage->f[i] = (float)p->v[i];
        if (p->n[0])
            s->image.width = p->n[0];
        if (p->n[1])
            s->image.height = p->n[1];
    }
    s->place = true;
    return 0;
}

// ---- values

static int add_convert(state *s, const gwb_image *target)
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
        dst.matrix = dst.range = 0;
    }
    int rc = gwb_convert_settle(&dst, &src, &none);
    if (rc < 0)
        return rc;
    gwb_mat dummy;
    gwb_image to = without_planes(&dst, &dummy), from = without_planes(&src, &dummy);
    gwb_convert_args a;
    rc = gwb_convert_plan(&a, &to, &from, &none);
    if (rc < 0)
        return rc;
    gwb_pipe_stage *stage = add_value(s, GWB_PIPE_VALUE_mix);
    if (!stage)
        return GWB_UNSUPPORTED;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++)
            stage->f[3 * i + j] = a.mix.m[i][j];
        stage->f[9 + i] = a.mix.from[i];
        stage->f[12 + i] = a.mix.to[i];
    }
    const gwb_format_info *fd = gwb_format_get(dst.format), *fs = gwb_format_get(src.format);
    stage->i[0] = a.mix.diagonal;
    stage->i[1] = fs->alpha && fd->alpha;
    const double opaque = gwb_format_is_float(fd) ? 1 : ldexp(1, fd->component[3].depth) - 1;
    const double was = gwb_format_is_float(fs) ? 1 : ldexp(1, fs->component[3].depth) - 1;
    stage->f[15] = (float)(stage->i[1] ? opaque / was : opaque);
    if (s->pass->links == 1) {      // straight from the source: read only what is asked for
        int needs = a.luma_needs | a.chroma_needs;
        s->pass->src_components &= needs | (stage->i[1] ? 8 : 0);
    }
    set_format(s, &dst);
    return 0;
}

static int add_scale(state *s, const double *mul, const double *add)
{
    gwb_pipe_stage *stage = add_value(s, GWB_PIPE_VALUE_scale);
    if (!stage)
        return GWB_UNSUPPORTED;
    for (int k = 0; k < 4; k++) {
        const bool keeps = k >= s->channels || (s->colours < s->channels && k == 3 && (isnan(mul[k]) || isnan(add[k]))) || isnan(mul[k]) || isnan(add[k]);
        stage->f[k] = keeps ? 1 : (float)mul[k];
        stage->f[4 + k] = keeps ? 0 : (float)add[k];
        if (!isfinite(stage->f[k]) || !isfinite(stage->f[4 + k]))
            return fail(s, GWB_BAD_ARGUMENT, "the numbers of channel %d become %g * value + %g", k + 1, (double)stage->f[k], (double)stage->f[4 + k]);
    }
    return 0;
}

// A number that the script left to the format: NaN stands for its largest code.
static float or_max(const state *s, double v)
{
    return (float)(isnan(v) ? max_code(&s->image) : v);
}

static int add_swizzle(state *s, const gwb_pipe_step *p)
{
    // n: per channel 0..3 a channel, 4 zero, 5 one; count: channels of the result
    if (gwb_format_get(s->image.format)->model == GWB_MODEL_YUV)
        return fail(s, GWB_UNSUPPORTED, "%s has no red, green and blue; convert to rgb first", gwb_format_get(s->image.format)->name);
    const bool alpha = s->channels > s->colours;
    for (int k = 0; k < p->count; k++)
        if ((p->n[k] == 3 && !alpha) || (p->n[k] < 3 && p->n[k] >= s->colours && s->colours > 1))
            return fail(s, GWB_SHAPE, "the picture has no channel %c", "rgba"[p->n[k]]);
    gwb_pipe_stage *stage = add_value(s, GWB_PIPE_VALUE_swizzle);
    if (!stage)
        return GWB_UNSUPPORTED;
    // gray holds its value in component 0, gray with alpha its alpha in component 3
    for (int k = 0; k < 4; k++) {
        int from = k < p->count ? p->n[k] : 5;
        if (p->count == 2 && k == 3)
            from = p->n[1];
        stage->i[k] = from < 3 && s->colours == 1 ? 0 : from;
    }
    stage->f[1] = (float)max_code(&s->image);
    const gwb_format_info *f = gwb_format_get(s->image.format);
    static const char *const names[4][4] = {{"gray", "ya8", "rgb24", "rgba"}, {"gray16le", "ya16le", "rgb48le", "rgba64le"},
                                            {"grayf16le", NULL, "rgbf16le", "rgbaf16le"}, {"grayf32le", NULL, "rgbf32le", "rgbaf32le"}};
    const int row = f->type == GWB_U8 ? 0 : f->type == GWB_U16 && f->depth == 16 ? 1 : f->type == GWB_F16 ? 2 : f->type == GWB_F32 ? 3 : -1;
    if (row < 0 || !names[row][p->count - 1])
        return fail(s, GWB_UNSUPPORTED, "there is no interleaved format for %d channels of %s", p->count, f->name);
    gwb_image image = s->image;
    image.format = gwb_format_find(names[row][p->count - 1], NULL, NULL);
    set_format(s, &image);
    return 0;
}

static int add_lut(state *s, const gwb_pipe_step *p, bool cube)
{
    const gwb_mat *table = NULL;
    int rc = operand_here(s, p->operand, &table);
    if (rc < 0)
        return rc;
    if (!cube && table->height != 1 && table->height != s->colours)
        return fail(s, GWB_SHAPE, "%d tables for %d channels; give one, or one a channel", table->height, s->colours);
    if (cube && s->colours != 3)
        return fail(s, GWB_SHAPE, "a cube wants three channels, and the picture has %d", s->colours);
    const double low = p->v[0], high = or_max(s, p->v[1]);
    if (!(high > low))
        return fail(s, GWB_BAD_ARGUMENT, "the table's range is %g..%g; high must be greater than low", low, high);
    gwb_pipe_stage *stage = add_value(s, cube ? GWB_PIPE_VALUE_lut3d : GWB_PIPE_VALUE_lut);
    if (!stage)
        return GWB_UNSUPPORTED;
    stage->table = table->data;
    stage->step = table->step;
    if (cube) {
        const int n = p->count;
        stage->i[0] = n;
        for (int k = 0; k < 3; k++) {
            stage->f[k] = (float)low;
            stage->f[3 + k] = (float)((n - 1) / (high - low));
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

static int add_blend(state *s, const gwb_pipe_step *p)
{
    const gwb_mat *with = p->operand;
    const gwb_format_info *f = gwb_format_get(p->target.format);
    if (with->device != s->plan->device)
        return fail(s, GWB_BAD_ARGUMENT, "the picture to blend with is on another device; copy it first");
    if (with->width != s->image.width || with->height != s->image.height)
        return fail(s, GWB_SHAPE, "the picture to blend with is %dx%d, this one %dx%d", with->width, with->height, s->image.width, s->image.height);
    const int channels = f->planes == 1 ? (f->model == GWB_MODEL_GRAY ? 1 : 3) + (f->alpha ? 1 : 0) : 0;
    if (!channels || f->layout != GWB_LAYOUT_INTERLEAVED || f->component[0].offset != 0 || f->model == GWB_MODEL_YUV ||
        gwb_format_get(s->image.format)->model == GWB_MODEL_YUV)
        return fail(s, GWB_UNSUPPORTED, "blending wants gray, rgb or rgba pictures of interleaved channels on both sides, got %s and %s",
                    gwb_format_get(s->image.format)->name, f->name);
    gwb_pipe_stage *stage = add_value(s, GWB_PIPE_VALUE_blend);
    if (!stage)
        return GWB_UNSUPPORTED;
    const double max = gwb_format_is_float(f) ? 1 : ldexp(1, f->depth) - 1;
    stage->table = with->data;
    stage->step = with->step;
    stage->i[0] = channels;
    stage->i[1] = f->type == GWB_U8 ? GWB_SAMPLE_U8 : f->type == GWB_U16 ? GWB_SAMPLE_U16 : f->type == GWB_F16 ? GWB_SAMPLE_F16 : GWB_SAMPLE_F32;
    stage->i[2] = p->n[0];
    stage->i[3] = f->alpha ? channels - 1 : -1;
    stage->i[4] = s->colours;
    stage->f[0] = (float)p->v[0];
    stage->f[1] = (float)(1 / max_code(&s->image));
    stage->f[2] = (float)(1 / max);
    if (max != max_code(&s->image))
        return fail(s, GWB_SHAPE, "the picture to blend with has codes up to %g, this one up to %g; convert one of them", max, max_code(&s->image));
    return 0;
}

// ---- all steps

static int add_step(state *s, const gwb_pipe_step *p, const gwb_mat *operand)
{
    static const double none[4] = {0, 0, 0, 0}, ones[4] = {1, 1, 1, 1};
    const int w = s->image.width, h = s->image.height;
    gwb_pipe_step with = *p;
    with.operand = operand;
    double mul[4], add[4];
    switch (p->op) {
    case GWB_OP_convert: {
        int rc = add_convert(s, &p->target);
        char why[1024];
        snprintf(why, sizeof why, "%s", gwb_error_message());
        return rc < 0 ? fail(s, rc, "%s", why) : 0;
    }
    case GWB_OP_crop:
        if (p->n[0] < 0 || p->n[1] < 0 || (int64_t)p->n[0] + p->n[2] > w || (int64_t)p->n[1] + p->n[3] > h)
            return fail(s, GWB_BAD_ARGUMENT, "a region of %dx%d at (%d, %d) leaves the picture of %dx%d", p->n[2], p->n[3], p->n[0], p->n[1], w, h);
        return add_moved(s, 1, 0, 0, 1, p->n[0], p->n[1], p->n[2], p->n[3]);
    case GWB_OP_resize:
        return add_resize(s, p->n[0], p->n[1], p->n[2], p->n[3]);
    case GWB_OP_flip: {
        const bool x = p->n[0] != 1, y = p->n[0] != 0;
        return add_moved(s, x ? -1 : 1, 0, 0, y ? -1 : 1, x ? w - 1 : 0, y ? h - 1 : 0, w, h);
    }
    case GWB_OP_rotate:
        return p->n[0] == 0 ? 0 : p->n[0] == 1 ? add_moved(s, 0, 1, -1, 0, 0, h - 1, h, w)
             : p->n[0] == 2 ? add_moved(s, -1, 0, 0, -1, w - 1, h - 1, w, h) : add_moved(s, 0, -1, 1, 0, w - 1, 0, h, w);
    case GWB_OP_transpose:
        return add_moved(s, 0, 1, 1, 0, 0, 0, h, w);
    case GWB_OP_pad:
        return add_pad(s, p->n[0], p->n[1], p->n[2], p->n[3], p->n[4], p->v);
    case GWB_OP_letterbox: {
        // the larger scale that fits, rounded to whole pixels, in the middle
        int64_t fit_w = p->n[0], fit_h = ((int64_t)2 * h * p->n[0] + w) / (2 * (int64_t)w);
        if (fit_h > p->n[1]) {
            fit_h = p->n[1];
            fit_w = ((int64_t)2 * w * p->n[1] + h) / (2 * (int64_t)h);
        }
        fit_w = fit_w < 1 ? 1 : fit_w > p->n[0] ? p->n[0] : fit_w;
        fit_h = fit_h < 1 ? 1 : fit_h;
        int rc = add_resize(s, (int)fit_w, (int)fit_h, p->n[2], p->n[3]);
        const int64_t left = (p->n[0] - fit_w) / 2, top = (p->n[1] - fit_h) / 2;
        return rc < 0 ? rc : add_pad(s, left, top, p->n[0] - fit_w - left, p->n[1] - fit_h - top, 0, p->v);
    }
    case GWB_OP_warp:
        return add_warp(s, &with, false);
    case GWB_OP_remap:
        return add_warp(s, &with, true);
    case GWB_OP_normalize:
        for (int k = 0; k < 4; k++) {
            if (k < s->colours && !(p->v[4 + k] != 0))
                return fail(s, GWB_BAD_ARGUMENT, "the deviation of channel %d is %g; wanted a number that is not 0", k + 1, p->v[4 + k]);
            mul[k] = p->v[8] / p->v[4 + k];
            add[k] = -p->v[k] / p->v[4 + k];
        }
        return add_scale(s, mul, add);
    case GWB_OP_mul:
        return add_scale(s, p->v, none);
    case GWB_OP_add:
        return add_scale(s, ones, p->v);
    case GWB_OP_sub:
        for (int k = 0; k < 4; k++)
            add[k] = -p->v[k];
        return add_scale(s, ones, add);
    case GWB_OP_div:
        for (int k = 0; k < 4; k++) {
            if (p->v[k] == 0)
                return fail(s, GWB_BAD_ARGUMENT, "division of channel %d by 0", k + 1);
            mul[k] = 1 / p->v[k];
        }
        return add_scale(s, mul, none);
    case GWB_OP_matrix: {
        if (s->colours != 3)
            return fail(s, GWB_SHAPE, "a matrix wants three channels, and the picture has %d", s->colours);
        gwb_pipe_stage *stage = add_value(s, GWB_PIPE_VALUE_mix);
        if (!stage)
            return GWB_UNSUPPORTED;
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++)
                stage->f[3 * i + j] = (float)p->v[4 * i + j];
            stage->f[12 + i] = (float)p->v[4 * i + 3];
        }
        stage->i[1] = 1;
        stage->f[15] = 1;
        return 0;
    }
    case GWB_OP_swizzle:
        return add_swizzle(s, p);
    case GWB_OP_lut:
        return add_lut(s, &with, false);
    case GWB_OP_cube:
        return add_lut(s, &with, true);
    case GWB_OP_blend:
        return add_blend(s, &with);
    default:
        break;
    }
    // the stages that take a number a channel
    static const int values[GWB_OP_COUNT] = {[GWB_OP_clamp] = GWB_PIPE_VALUE_clamp, [GWB_OP_abs] = GWB_PIPE_VALUE_abs, [GWB_OP_pow] = GWB_PIPE_VALUE_pow,
                                             [GWB_OP_gamma] = GWB_PIPE_VALUE_pow, [GWB_OP_threshold] = GWB_PIPE_VALUE_threshold};
    gwb_pipe_stage *stage = add_value(s, values[p->op]);
    if (!stage)
        return GWB_UNSUPPORTED;
    stage->i[0] = s->colours;
    if (p->op == GWB_OP_clamp) {
        color(s, p->v, -INFINITY, stage->f);
        color(s, p->v + 4, INFINITY, stage->f + 4);
        for (int k = 0; k < 4; k++)
            if (!(stage->f[k] <= stage->f[4 + k]))
                return fail(s, GWB_BAD_ARGUMENT, "the range of channel %d is %g..%g", k + 1, (double)stage->f[k], (double)stage->f[4 + k]);
    } else if (p->op == GWB_OP_threshold) {
        color(s, p->v, 0, stage->f);
        stage->f[4] = (float)p->v[4];
        stage->f[5] = or_max(s, p->v[5]);
    } else if (p->op == GWB_OP_pow || p->op == GWB_OP_gamma) {
        for (int k = 0; k < s->colours; k++) {
            if (p->op == GWB_OP_gamma && !(p->v[k] > 0))
                return fail(s, GWB_BAD_ARGUMENT, "the gamma of channel %d is %g; wanted more than 0", k + 1, p->v[k]);
            stage->f[k] = (float)(p->op == GWB_OP_gamma ? 1 / p->v[k] : p->v[k]);
        }
        stage->f[4] = p->op == GWB_OP_gamma ? (float)max_code(&s->image) : 1;
    }
    return 0;
}

static int end_to(state *s, const gwb_pipe_step *p)
{
    const int layout = p->n[0], type = p->n[1];
    if (type != GWB_U8 && type != GWB_U16 && type != GWB_F16 && type != GWB_F32)
        return fail(s, GWB_UNSUPPORTED, "a pipeline writes u8, u16, f16 or f32, not %s; cast() the result", gwb_type_name(type));
    gwb_pipe_plan *out = &s->plan->out;
    out->layout = layout + 1;
    out->type = type;
    out->channels = s->channels;
    end_plain(s, type, s->channels, layout == 1 || layout == 3);
    out->out.format = -1;
    return 0;
}

int gwb_pipe_make_plan(const gwb_pipe *pipe, const gwb_image *src, const int32_t *crop, gwb_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->src = *src;
    plan->device = src->plane[0]->device;
    plan->epoch = gwb_device_peek(plan->device)->epoch;
    plan->passes = 1;
    state s = {.plan = plan, .pass = &plan->pass[0]};
    if (src->width == 0 || src->height == 0)
        return gwb_fail(GWB_SHAPE, "the source is %dx%d; a pipeline wants at least one pixel", src->width, src->height);
    gwb_image source = *src;
    if (pipe->steps && pipe->step[0].op == GWB_OP_convert && pipe->step[0].target.siting && gwb_format_get(src->format)->model == GWB_MODEL_YUV &&
        gwb_format_get(pipe->step[0].target.format)->model != GWB_MODEL_YUV)
        source.siting = pipe->step[0].target.siting;
    int rc = begin_source(&s, &source);
    s.pass->item.src_width = src->width;
    s.pass->item.src_height = src->height;
    if (rc >= 0 && crop) {
        memcpy(plan->crop, crop, sizeof plan->crop);
        if (crop[0] < 0 || crop[1] < 0 || crop[2] < 1 || crop[3] < 1 || (int64_t)crop[0] + crop[2] > src->width || (int64_t)crop[1] + crop[3] > src->height)
            return gwb_fail(GWB_BAD_ARGUMENT, "a crop of %dx%d at (%d, %d) leaves the source of %dx%d", crop[2], crop[3], crop[0], crop[1], src->width,
                            src->height);
        rc = add_moved(&s, 1, 0, 0, 1, crop[0], crop[1], crop[2], crop[3]);
    }
    bool ended = false;
    for (int i = 0; i < pipe->steps && rc >= 0; i++) {
        s.step = i;
        s.op = pipe->step[i].op;
        if (ended)
            return fail(&s, GWB_BAD_ARGUMENT, "nothing may follow to()");
        if (s.op == GWB_OP_to) {
            ended = true;
            rc = end_to(&s, &pipe->step[i]);
        } else {
            rc = add_step(&s, &pipe->step[i], pipe->operand[i].tag ? &pipe->operand[i] : NULL);
        }
    }
    plan->out.out.width = s.image.width;
    if (rc >= 0 && !ended) {
        rc = end_format(&s);
        plan->out.out = s.image;
        plan->out.type = gwb_format_get(s.image.format)->type;
        plan->out.channels = s.channels;
    }
    if (rc < 0) {
        gwb_pipe_free_plan(plan);
        return rc;
    }
    plan->out.out.width = s.image.width;
    plan->out.out.height = s.image.height;
    close_pass(&s, 0);
    plan->out.launches = plan->passes;
    return 0;
}

void gwb_pipe_free_plan(gwb_plan *plan)
{
    for (int i = 0; i < plan->tables; i++)
        gwb_mat_close(&plan->table[i]);
    plan->tables = 0;
}
