// SPDX-License-Identifier: MIT
// The plan of a conversion: where the samples lie, how chroma is resampled, and the matrix from source codes to destination codes.
#include "convert.h"

#include <math.h>
#include <string.h>

// ---- what codes mean

// A component's code is off + span * value; value is 0..1, or -0.5..0.5 for chroma.
typedef struct scale {
    double off, span;
} scale;

// Position in the format of component i of the model: YUV that is really G, B, R is taken in the order R, G, B.
static int position(const gwb_image *image, int i)
{
    static const int gbr[4] = {2, 0, 1, 3};
    const gwb_format_info *f = gwb_format_get(image->format);
    if (f->layout == GWB_LAYOUT_BAYER && i < 3)     // all in one place
        return 0;
    return f->model == GWB_MODEL_YUV && image->matrix == GWB_MATRIX_GBR ? gbr[i] : i;
}

static bool is_chroma(const gwb_image *image, int component)
{
    return gwb_convert_model(image) == GWB_MODEL_YUV && (component == 1 || component == 2);
}

static scale scale_of(const gwb_image *image, int component, int depth)
{
    if (gwb_format_is_float(gwb_format_get(image->format)))
        return (scale){0, 1};
    const double unit = ldexp(1, depth - 8), max = ldexp(1, depth) - 1;
    const bool limited = image->range == GWB_RANGE_LIMITED;
    if (is_chroma(image, component))
        return (scale){128 * unit, limited ? 224 * unit : max};
    return limited ? (scale){16 * unit, 219 * unit} : (scale){0, max};
}

static double alpha_max(const gwb_format_info *f, int depth)
{
    return gwb_format_is_float(f) ? 1 : ldexp(1, depth) - 1;
}

// ---- matrices between values

typedef struct matrix {
    double m[3][3];
} matrix;

static matrix to_rgb(int kind)
{
    if (kind == GWB_MATRIX_YCGCO)
        return (matrix){{{1, -1, 1}, {1, 1, 0}, {1, -1, -1}}};
    double kr, kb;
    gwb_matrix_weights(kind, &kr, &kb);
    const double kg = 1 - kr - kb;
    return (matrix){{{1, 0, 2 * (1 - kr)}, {1, -2 * kb * (1 - kb) / kg, -2 * kr * (1 - kr) / kg}, {1, 2 * (1 - kb), 0}}};
}

static matrix from_rgb(int kind)
{
    if (kind == GWB_MATRIX_YCGCO)
        return (matrix){{{0.25, 0.5, 0.25}, {-0.25, 0.5, -0.25}, {0.5, 0, -0.5}}};
    double kr, kb;
    gwb_matrix_weights(kind, &kr, &kb);
    const double kg = 1 - kr - kb;
    return (matrix){{{kr, kg, kb}, {-kr / (2 * (1 - kb)), -kg / (2 * (1 - kb)), 0.5}, {0.5, -kg / (2 * (1 - kr)), -kb / (2 * (1 - kr))}}};
}

static matrix multiply(const matrix *a, const matrix *b)
{
    matrix r;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            r.m[i][j] = a->m[i][0] * b->m[0][j] + a->m[i][1] * b->m[1][j] + a->m[i][2] * b->m[2][j];
    return r;
}

// From the source's values to the destination's.
static matrix value_matrix(const gwb_image *dst, const gwb_image *src)
{
    static const matrix identity = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}, luma = {{{1}}}, gray = {{{1}, {1}, {1}}};
    const int to = gwb_convert_model(dst), from = gwb_convert_model(src);
    if (from == GWB_MODEL_GRAY)
        return to == GWB_MODEL_RGB ? gray : luma;
    if (to == GWB_MODEL_GRAY) {
        if (from == GWB_MODEL_YUV)
            return luma;
        matrix r = {{{0}}}, m = from_rgb(dst->matrix);
        memcpy(r.m[0], m.m[0], sizeof r.m[0]);
        return r;
    }
    if (from == to && (from == GWB_MODEL_RGB || src->matrix == dst->matrix))
        return identity;
    if (from == GWB_MODEL_RGB)
        return from_rgb(dst->matrix);
    matrix rgb = to_rgb(src->matrix);
    if (to == GWB_MODEL_RGB)
        return rgb;
    matrix m = from_rgb(dst->matrix), r = multiply(&m, &rgb);
    r.m[0][0] = 1;      // what it is but for rounding: luma stays, and says nothing about chroma
    r.m[1][0] = r.m[2][0] = 0;
    return r;
}

// From source codes to destination codes; bit j of needs[i] says that component i of the destination needs component j of the source.
static void plan_mix(gwb_mix *mix, const gwb_image *dst, const gwb_image *src, int needs[3])
{
    const gwb_format_info *fd = gwb_format_get(dst->format), *fs = gwb_format_get(src->format);
    const matrix values = value_matrix(dst, src);
    const int used = gwb_convert_model(dst) == GWB_MODEL_GRAY ? 1 : 3;
    mix->diagonal = 1;
    for (int i = 0; i < 3; i++) {
        const scale d = scale_of(dst, i, fd->component[position(dst, i)].depth);
        mix->to[i] = (float)d.off;
        mix->from[i] = (float)scale_of(src, i, fs->component[position(src, i)].depth).off;
        needs[i] = 0;
        for (int j = 0; j < 3; j++) {
            const scale s = scale_of(src, j, fs->component[position(src, j)].depth);
            mix->m[i][j] = i < used && values.m[i][j] != 0 ? (float)(values.m[i][j] * (d.span / s.span)) : 0;
            if (mix->m[i][j] != 0) {
                needs[i] |= 1 << j;
                mix->diagonal &= i == j;
            }
        }
    }
}

// ---- resampling

// From a grid of `fs` pixels a sample, the first of which is `os` pixels in, to one of `fd` and `od`; `inputs` samples.
static gwb_taps make_taps(int fs, double os, int fd, double od, int inputs, bool nearest)
{
    gwb_taps t = {.scale = 1, .count = 1, .last = inputs - 1};
    const int phases = fs > fd ? fs / fd : 1;
    t.phase_bits = phases == 4 ? 2 : phases - 1;
    t.scale = fs > fd ? 1 : fd / fs;
    const double width = fs > fd ? 1 : (double)fd / fs;     // of the box; on the finer grid it is the two-sample line
    for (int p = 0; p < phases; p++) {
        if (nearest) {
            t.weight[p][0] = 1;
            continue;
        }
        const double at = (p * fd + od - os) / fs, low = at - width / 2, high = at + width / 2;
        t.base[p] = (int)floor(low + 0.5);
        for (int i = 0; i < GWB_TAPS; i++) {
            const double begin = fmax(low, t.base[p] + i - 0.5), end = fmin(high, t.base[p] + i + 0.5);
            t.weight[p][i] = (float)(end > begin ? (end - begin) / width : 0);
            if (t.weight[p][i] != 0 && i >= t.count)
                t.count = i + 1;
        }
    }
    return t;
}

// Pixels from the picture's edge to the first sample of a subsampled component.
static double siting_offset(int quarters, int log2)
{
    return ((1 << log2) - 1) * quarters / 4.0;
}

static void plan_taps(gwb_convert_args *a, const gwb_image *dst, const gwb_image *src, bool nearest)
{
    const gwb_format_info *fd = gwb_format_get(dst->format), *fs = gwb_format_get(src->format);
    int sx, sy, dx, dy;
    gwb_siting_quarters(src->siting, &sx, &sy);
    gwb_siting_quarters(dst->siting, &dx, &dy);
    const double sox = siting_offset(sx, fs->log2_w), soy = siting_offset(sy, fs->log2_h);
    const double dox = siting_offset(dx, fd->log2_w), doy = siting_offset(dy, fd->log2_h);
    const int sw = 1 << fs->log2_w, sh = 1 << fs->log2_h, dw = 1 << fd->log2_w, dh = 1 << fd->log2_h;
    const int columns = (int)(((int64_t)src->width + sw - 1) / sw), rows = (int)(((int64_t)src->height + sh - 1) / sh);
    a->up_x = make_taps(sw, sox, 1, 0, columns, nearest);
    a->up_y = make_taps(sh, soy, 1, 0, rows, nearest);
    a->down_x = make_taps(sw, sox, dw, dox, columns, nearest);
    a->down_y = make_taps(sh, soy, dh, doy, rows, nearest);
    a->alpha_x = make_taps(1, 0, dw, dox, src->width, nearest);
    a->alpha_y = make_taps(1, 0, dh, doy, src->height, nearest);
}

// ---- memory

static int sample_kind(const gwb_format_info *f)
{
    if (f->layout == GWB_LAYOUT_V210)
        return GWB_SAMPLE_V210;
    return f->type == GWB_U8 ? GWB_SAMPLE_U8 : f->type == GWB_U16 ? GWB_SAMPLE_U16 : f->type == GWB_U32 ? GWB_SAMPLE_U32 :
        f->type == GWB_F16 ? GWB_SAMPLE_F16 : GWB_SAMPLE_F32;
}

static gwb_samples samples_of(const gwb_image *image, int component)
{
    const gwb_format_info *f = gwb_format_get(image->format);
    const gwb_component *c = &f->component[component];
    if (c->plane < 0)
        return (gwb_samples){0};
    const gwb_mat *m = image->plane[c->plane];
    const bool v210 = f->layout == GWB_LAYOUT_V210;
    return (gwb_samples){
        .data = m->data ? m->data + (v210 ? 0 : c->offset) : NULL, .step = m->step, .pitch = c->pitch,
        .lane = v210 ? c->offset : c->offset / gwb_type_size(f->type), .shift = c->shift, .mask = (int32_t)(((int64_t)1 << c->depth) - 1),
    };
}

// ---- the background

static int plan_background(gwb_convert_args *a, const gwb_image *src, const float *rgb)
{
    const gwb_format_info *f = gwb_format_get(src->format);
    const int model = gwb_convert_model(src);
    double value[3] = {rgb[0], rgb[1], rgb[2]};
    for (int i = 0; i < 3; i++)
        if (!(rgb[i] >= 0 && rgb[i] <= 1))
            return gwb_fail(GWB_BAD_ARGUMENT, "the background's components are 0..1, got %g %g %g", rgb[0], rgb[1], rgb[2]);
    if (model != GWB_MODEL_RGB) {
        const bool neutral = rgb[0] == rgb[1] && rgb[1] == rgb[2];
        if (!neutral && !src->matrix)
            return gwb_fail(GWB_BAD_ARGUMENT, "a coloured background behind %s needs the source's matrix: bt601, bt709, …", f->name);
        matrix m = {{{0}}};
        if (!neutral)
            m = from_rgb(src->matrix);
        for (int i = 0; i < 3; i++)
            value[i] = neutral ? (i == 0 ? rgb[0] : 0) : m.m[i][0] * rgb[0] + m.m[i][1] * rgb[1] + m.m[i][2] * rgb[2];
    }
    for (int i = 0; i < 3; i++) {
        scale s = scale_of(src, i, f->component[position(src, i)].depth);
        a->background[i] = (float)(s.off + s.span * value[i]);
    }
    a->blend_scale = (float)(1 / alpha_max(f, f->component[3].depth));
    return 0;
}

// ---- tiles

// What a side is to the kernel of tiles; `chroma`: more than its first component takes part.
static int shape_of(const gwb_format_info *f, const gwb_samples *s, int height, bool alpha, bool chroma)
{
    const int size = gwb_type_size(f->type), channels = s[0].pitch / size;
    int shape = GWB_SHAPE_NONE, run[3] = {4 * size, 4 * size, 4 * size};    // bytes moved at once
    if (f->layout == GWB_LAYOUT_INTERLEAVED && channels != 2)
        shape = channels == 1 ? GWB_SHAPE_LUMA : channels == 3 ? GWB_SHAPE_3 : GWB_SHAPE_4;
    else if (f->layout == GWB_LAYOUT_PLANAR && !alpha && !f->log2_w && !f->log2_h)
        shape = GWB_SHAPE_PLANES;
    else if (!chroma && (f->layout == GWB_LAYOUT_PLANAR || f->layout == GWB_LAYOUT_SEMIPLANAR) && !alpha)
        shape = GWB_SHAPE_LUMA;
    else if (f->layout == GWB_LAYOUT_PLANAR && !alpha && f->log2_w == 1 && f->log2_h == 1)
        shape = GWB_SHAPE_420, run[1] = run[2] = 2 * size;
    else if (f->layout == GWB_LAYOUT_SEMIPLANAR && f->log2_w == 1 && f->log2_h == 1)
        shape = GWB_SHAPE_420_PAIRS;
    for (int i = 0; i < (shape == GWB_SHAPE_LUMA ? 1 : 3); i++)
        if (((uintptr_t)s[i].data - (uintptr_t)(s[i].lane * size)) % (uintptr_t)run[i] || s[i].step % run[i] || s[i].step * height > UINT32_MAX)
            return GWB_SHAPE_NONE;
    return shape;
}

static bool is_420(int shape)
{
    return shape == GWB_SHAPE_420 || shape == GWB_SHAPE_420_PAIRS;
}

// Sets both shapes where the kernel of tiles can do the conversion.
static void plan_tiles(gwb_convert_args *a, const gwb_format_info *fd, const gwb_format_info *fs)
{
    const int from = shape_of(fs, a->src, a->height, a->src[3].data, (a->luma_needs | a->chroma_needs) & 6);
    const int to = shape_of(fd, a->dst, a->height, a->dst[3].data, true);
    bool taps = true;
    if (is_420(to) && is_420(from))
        taps = a->down_x.count == 1 && a->down_y.count == 1;
    else if (is_420(to) && a->chroma_needs)
        taps = a->down_y.base[0] == 0 && a->down_y.count <= 2 && a->down_x.count <= 2 + (a->down_x.base[0] < 0);
    if (from && to && taps && a->blend_scale == 0 && !a->dither && !a->light.on && !a->mosaic && (a->chroma_needs == 0 || !is_420(to) || from != GWB_SHAPE_LUMA)) {
        a->src_shape = from;
        a->dst_shape = to;
    }
}

bool gwb_convert_quarters(const gwb_taps *t, uint32_t quarter[2][3])
{
    memset(quarter, 0, 2 * sizeof *quarter);
    if (t->phase_bits > 1 || t->count > 2)
        return false;
    for (int p = 0; p < 1 << t->phase_bits; p++)
        for (int i = 0; i < t->count; i++) {
            const float w = 4 * t->weight[p][i];
            const int at = t->base[p] + i + 1;
            if (w != (float)(int)w || (w != 0 && (at < 0 || at > 2)))
                return false;
            if (w != 0)
                quarter[p][at] += (uint32_t)w;
        }
    return true;
}

int gwb_convert_quick_chroma(const gwb_taps *tx, const gwb_taps *ty, uint32_t x[2][3], uint32_t y[2][3])
{
    static const uint32_t left_x[2][3] = {{0, 4, 0}, {0, 2, 2}}, left_y[2][3] = {{1, 3, 0}, {0, 3, 1}};
    if (!gwb_convert_quarters(tx, x) || !gwb_convert_quarters(ty, y))
        return GWB_QUICK_NO;
    return memcmp(x, left_x, sizeof left_x) == 0 && memcmp(y, left_y, sizeof left_y) == 0 ? GWB_QUICK_LEFT : GWB_QUICK;
}

bool gwb_convert_quick_matrix(const float *m, const float *from, const float *to)
{
    return m[1] == 0 && m[8] == 0 && m[3] == m[0] && m[6] == m[0] && from[0] == (float)(int)from[0] && from[1] == (float)(int)from[1] &&
        from[2] == from[1] && to[0] == 0 && to[1] == 0 && to[2] == 0;
}

void gwb_convert_quick_numbers(gwb_quick_numbers *n, const float *m, const float *from, int kind, int quick)
{
    const float one = kind == GWB_SAMPLE_U8 ? 0x1p24f : 1.0f;   // pairs.h
    for (int i = 0; i < 2; i++)
        n->from[i] = (uint32_t)from[i] * (kind == GWB_SAMPLE_U8 ? 0x10001u : 1u);
    n->luma = m[0] * one;
    for (int odd = 0; odd < 2; odd++) {
        const float unit = one * (quick == GWB_QUICK_FULL ? 1.0f : quick == GWB_QUICK ? 0.0625f : odd ? 0.125f : 0.25f);
        n->vr[odd] = m[2] * unit;
        n->ug[odd] = m[4] * unit;
        n->vg[odd] = m[5] * unit;
        n->ub[odd] = m[7] * unit;
    }
}

// Whether rows whose samples have `size` bytes begin at multiples of `bytes`.
static bool begins_at(const gwb_samples *s, int size, int bytes)
{
    return ((uintptr_t)s->data - (uintptr_t)(s->lane * size)) % (uintptr_t)bytes == 0 && s->step % bytes == 0;
}

// Whether runs of `pixels` pixels lie where they can be loaded and stored at once.
static bool has_runs(const gwb_convert_args *a, int pixels)
{
    const int size = a->src_kind == GWB_SAMPLE_U8 ? 1 : 2, run = pixels * size;
    for (int i = 0; i < 3; i++) {
        const bool half_from = i && a->src_shape == GWB_SHAPE_420, half_to = i && a->dst_shape == GWB_SHAPE_420;
        const bool stores = a->dst_kind == GWB_SAMPLE_U8 && (a->dst_shape == GWB_SHAPE_PLANES || is_420(a->dst_shape));
        if (!begins_at(&a->src[i], size, half_from ? run / 2 : run) || (stores && !begins_at(&a->dst[i], 1, half_to ? pixels / 2 : pixels)))
            return false;
    }
    return true;
}

// The order of interleaved samples as a shape, which stays where there is no kernel for it.
static int order_of(int shape, const gwb_samples *s)
{
    const int red = s[0].lane, blue = s[2].lane;
    if (s[1].lane != 1 || red + blue != 2)
        return shape;
    if (shape == GWB_SHAPE_3)
        return red == 0 ? GWB_SHAPE_RGB : GWB_SHAPE_BGR;
    if (shape == GWB_SHAPE_4)
        return red == 0 ? GWB_SHAPE_RGBA : GWB_SHAPE_BGRA;
    return shape;
}

// Says where rgb_yuv.h gives the same.
static void plan_down(gwb_convert_args *a)
{
    const gwb_mix *m = &a->mix;
    const int shape = order_of(a->src_shape, a->src);
    const gwb_taps *x = &a->down_x, *y = &a->down_y;
    const bool usual = x->count == 3 && x->base[0] == -1 && x->weight[0][0] == 0.25f && x->weight[0][1] == 0.5f && x->weight[0][2] == 0.25f &&
        y->count == 2 && y->base[0] == 0 && y->weight[0][0] == 0.5f && y->weight[0][1] == 0.5f;
    if (a->src_kind != GWB_SAMPLE_U8 || a->dst_kind != GWB_SAMPLE_U8 || !is_420(a->dst_shape) || !usual || m->diagonal || a->luma_needs != 7 ||
        a->chroma_needs != 7 || m->from[0] != 0 || m->from[1] != 0 || m->from[2] != 0 ||
        (shape != GWB_SHAPE_PLANES && shape < GWB_SHAPE_RGB) || shape > GWB_SHAPE_BGRA || !has_runs(a, 8))
        return;
    a->src_shape = shape;
    a->quick = GWB_QUICK_DOWN;
    a->tile_w = 8;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            a->down_numbers[i][j] = m->m[i][j] * (i ? 0x1p21f : 0x1p24f);
}

// Says where yuv_rgb.h gives the same: YUV of up to 12 bits to RGB by a matrix whose rows differ in chroma alone.
static void plan_quick(gwb_convert_args *a)
{
    const gwb_mix *m = &a->mix;
    const int pixels = GWB_QUICK_WIDTH(a->dst_kind);
    const bool rgb = (a->dst_kind == GWB_SAMPLE_U8 || a->dst_kind == GWB_SAMPLE_F32) &&
        (a->dst_shape == GWB_SHAPE_PLANES || (a->dst_kind == GWB_SAMPLE_U8 && (a->dst_shape == GWB_SHAPE_3 || a->dst_shape == GWB_SHAPE_4)));
    const bool full = a->src_shape == GWB_SHAPE_PLANES && a->src_kind == GWB_SAMPLE_U8;
    const bool video = is_420(a->src_shape) && (a->src_kind == GWB_SAMPLE_U8 || (a->src_kind == GWB_SAMPLE_U16 &&
        a->src_shape == GWB_SHAPE_420_PAIRS)) && a->src[0].mask < 4096 && a->up_x.phase_bits == 1 && a->up_y.phase_bits == 1;
    const bool plain = gwb_convert_quick_matrix(&m->m[0][0], m->from, m->to) && !m->diagonal && a->luma_needs == 7;
    const bool between = a->dst_shape == GWB_SHAPE_PLANES || 2 * a->dst[1].lane == a->dst[0].lane + a->dst[2].lane;    // G lies between R and B
    a->tile_w = GWB_TILE_W;
    if (!rgb || !plain || (!full && !video) || !between || !has_runs(a, pixels))
        return;
    a->quick = full ? GWB_QUICK_FULL : gwb_convert_quick_chroma(&a->up_x, &a->up_y, a->quarter_x, a->quarter_y);
    if (!a->quick)
        return;
    if (a->quick == GWB_QUICK_LEFT) {
        a->dst_shape = order_of(a->dst_shape, a->dst);
        a->quick = a->dst_shape == GWB_SHAPE_4 ? GWB_QUICK : GWB_QUICK_LEFT;
    }
    a->tile_w = pixels;
    gwb_convert_quick_numbers(&a->quick_numbers, &m->m[0][0], m->from, a->src_kind, a->quick);
}

// ---- all of it

int gwb_convert_plan(gwb_convert_args *a, const gwb_image *dst, const gwb_image *src, const gwb_convert_params *params)
{
    const gwb_format_info *fd = gwb_format_get(dst->format), *fs = gwb_format_get(src->format);
    memset(a, 0, sizeof *a);
    a->src_kind = sample_kind(fs);
    a->dst_kind = sample_kind(fd);
    a->width = src->width;
    a->height = src->height;
    a->src_log2_w = fs->log2_w;
    a->src_log2_h = fs->log2_h;
    a->dst_log2_w = fd->log2_w;
    a->dst_log2_h = fd->log2_h;
    a->group = fd->group;
    a->block_w = fd->group > 1 << fd->log2_w ? fd->group : 1 << fd->log2_w;
    a->block_h = 1 << fd->log2_h;
    if (fs->layout == GWB_LAYOUT_BAYER) {
        a->mosaic = 1;
        a->red = fs->pattern;
        a->bilinear = params->bilinear;
    }
    if (!gwb_format_is_float(fd) && (fd->depth < fs->depth || gwb_format_is_float(fs)))
        a->dither = params->dither;
    a->word = fd->layout == GWB_LAYOUT_WORD || fd->layout == GWB_LAYOUT_V210;

    int rc = gwb_convert_plan_light(&a->light, dst, src, params);
    if (rc)
        return rc;
    const bool sub = fd->log2_w || fd->log2_h;
    int needs[3] = {0};
    if (a->light.on) {
        const gwb_image rgb = {.format = GWB_FORMAT_rgbf32le, .range = GWB_RANGE_FULL};
        gwb_image to = *dst;
        if (!to.matrix)     // of gray, whatever the matrix
            to.matrix = GWB_MATRIX_BT601;
        plan_mix(&a->source_mix, &rgb, src, needs);
        a->source_needs = needs[0] | needs[1] | needs[2];
        plan_mix(&a->mix, &to, &rgb, needs);
    } else {
        plan_mix(&a->mix, dst, src, needs);
    }
    a->luma_needs = needs[0] | (sub ? 0 : needs[1] | needs[2]);
    a->chroma_needs = sub ? needs[1] | needs[2] : 0;
    for (int i = 0; i < 3; i++) {
        a->dst[i] = samples_of(dst, position(dst, i));
        a->src[i] = samples_of(src, position(src, i));
        a->limit[i] = (float)(((int64_t)1 << fd->component[position(dst, i)].depth) - 1);
    }
    plan_taps(a, dst, src, params->nearest);
    if (a->light.on) {      // chroma is made from converted pixels
        a->down_x = a->alpha_x;
        a->down_y = a->alpha_y;
    }

    a->dst[3] = samples_of(dst, 3);
    if (fd->component[3].plane >= 0) {
        const double max = alpha_max(fd, fd->component[3].depth);
        a->limit[3] = a->alpha_fill = (float)max;
        if (fs->alpha && fd->alpha)
            a->alpha_scale = (float)(max / alpha_max(fs, fs->component[3].depth));
    }
    const bool blends = params->blend && fs->alpha && !fd->alpha;
    if (fs->alpha && (fd->alpha || blends))
        a->src[3] = samples_of(src, 3);
    rc = blends ? plan_background(a, src, params->background) : 0;
    plan_tiles(a, fd, fs);
    plan_quick(a);
    plan_down(a);
    return rc;
}
