// SPDX-License-Identifier: MIT
// A pass as CUDA C: what is known of both sides, written with the macros of kernels/pipe_links.h; a line a link; the entries.
#include "pipe.h"

#include "expr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A text under way.
typedef struct writer {
    FILE *f;
    const gwb_pipe_code *code;
    bool wide;
} writer;

#define PUT(...) fprintf(w->f, __VA_ARGS__)

static const char *const kinds[] = {[GWB_SAMPLE_U8] = "U8", [GWB_SAMPLE_U16] = "U16", [GWB_SAMPLE_U32] = "U32", [GWB_SAMPLE_F16] = "F16",
                                    [GWB_SAMPLE_F32] = "F32", [GWB_SAMPLE_V210] = "V210"};

static int size_of(const gwb_pipe_side *s)
{
    return s->kind == GWB_SAMPLE_U8 ? 1 : s->kind == GWB_SAMPLE_F32 ? 4 : 2;
}

static bool subsampled(const gwb_pipe_side *s)
{
    return s->log2_w || s->log2_h;
}

// Whether component k has a sample at every pixel.
static bool is_full(const gwb_pipe_side *s, int k)
{
    return s->components >> k & 1 && (k == 0 || k == 3 || !subsampled(s));
}

// ---- chroma of the source

// Whether there is such, and U and V fit a word together, in sixteenths.
static bool is_packed(const gwb_pipe_code *c)
{
    uint32_t x[2][3], y[2][3];
    const gwb_pipe_side *s = &c->src;
    const bool fits = s->kind == GWB_SAMPLE_U8 || (s->kind == GWB_SAMPLE_U16 && s->mask[1] < 4096);
    return subsampled(s) && s->components & 6 && fits && gwb_convert_quarters(&c->up_x, x) && gwb_convert_quarters(&c->up_y, y);
}

static void write_up(const writer *w, char axis, const gwb_taps *t)
{
    const int phases = 1 << t->phase_bits;
    PUT("#define GWB_UP_%c_FIRST(i) (((i) >> %d) + ", axis, t->phase_bits);
    if (phases == 2)
        PUT("((i) & 1 ? %d : %d))\n", t->base[1], t->base[0]);
    else
        PUT("(%d))\n", t->base[0]);
    PUT("#define GWB_UP_%c_WEIGHT(i, n) (uint32_t)(", axis);
    for (int p = phases - 1; p >= 0; p--) {
        PUT("%s", p ? "(i) & 1 ? " : "");
        if (t->count == 2)
            PUT("((n) ? %d : %d)", (int)(4 * t->weight[p][1]), (int)(4 * t->weight[p][0]));
        else
            PUT("%d", (int)(4 * t->weight[p][0]));
        PUT("%s", p ? " : " : ")\n");
    }
}

// The packed chroma sample at (x, y) of the source's grid.
static void write_chroma_sample(const writer *w)
{
    const gwb_pipe_side *s = &w->code->src;
    const bool v_first = s->offset[2] < s->offset[1];
    PUT("GWB_FN uint32_t c0(GWB_PIPE_PARAMS)\n{\n    GWB_CHROMA_PLACE;\n    return ");
    if (w->wide && s->pairs && s->kind == GWB_SAMPLE_U8)
        PUT("GWB_CHROMA_PAIR_U8(%d, %d, %d)", s->plane[1], s->offset[v_first ? 2 : 1], v_first);
    else if (w->wide && s->pairs)
        PUT("GWB_CHROMA_PAIR_U16(%d, %d, %d, %d, %du)", s->plane[1], s->offset[v_first ? 2 : 1], v_first, s->shift[1], s->mask[1]);
    else if (s->kind == GWB_SAMPLE_U8)
        PUT("GWB_CHROMA_U8(%d, %d, %d, %d, %d)", s->plane[1], s->offset[1], s->plane[2], s->offset[2], s->pitch[1]);
    else
        PUT("GWB_CHROMA_U16(%d, %d, %d, %d, %d, %d, %du)", s->plane[1], s->offset[1], s->plane[2], s->offset[2], s->pitch[1], s->shift[1], s->mask[1]);
    PUT(";\n}\n");
}

static void write_four(const writer *w, const int32_t v[4])
{
    PUT(", {%d, %d, %d, %d}", v[0], v[1], v[2], v[3]);
}

// For gwb_pipe_chroma of pipe.h, which takes any chroma by any taps.
static void write_side(const writer *w)
{
    const gwb_pipe_side *s = &w->code->src;
    PUT("GWB_FN gwb_pipe_side gwb_src(void)\n{\n    const gwb_pipe_side s = {%d, %d, %d, %d, %d, %d", s->kind, s->components, s->log2_w, s->log2_h, s->lanes,
        s->pairs);
    write_four(w, s->plane);
    write_four(w, s->offset);
    write_four(w, s->pitch);
    write_four(w, s->shift);
    write_four(w, s->mask);
    PUT("};\n    return s;\n}\n");
}

static void write_taps(const writer *w, const char *name, const gwb_taps *t)
{
    const int phases = 1 << t->phase_bits;
    PUT("GWB_FN gwb_taps %s(void)\n{\n    const gwb_taps t = {%d, %d, %d, 0, ", name, t->phase_bits, t->scale, t->count);
    for (int p = 0; p < phases; p++)
        PUT("%s%d", p ? ", " : "{", t->base[p]);
    for (int p = 0; p < phases; p++)
        for (int i = 0; i < t->count; i++)      // multiples of 1/8
            PUT("%s%.3ff%s", i ? ", " : p ? ", {" : "}, {{", (double)t->weight[p][i], i == t->count - 1 ? "}" : "");
    PUT("}};\n    return t;\n}\n");
}

// NAME: chroma by these taps, whatever the source.
static void write_any_chroma(const writer *w, const char *name, const char *taps, const gwb_taps *x, const gwb_taps *y)
{
    char of_x[32], of_y[32];
    snprintf(of_x, sizeof of_x, "gwb_%s_x", taps);
    snprintf(of_y, sizeof of_y, "gwb_%s_y", taps);
    write_taps(w, of_x, x);
    write_taps(w, of_y, y);
    PUT("GWB_FN void %s(GWB_PIPE_PARAMS, gwb_px *p)\n{\n    const gwb_pipe_side s = gwb_src();\n    const gwb_taps tx = %s(), ty = %s();\n"
        "    gwb_pipe_chroma(&s, 0, &tx, &ty, g, x, y, p);\n}\n", name, of_x, of_y);
}

// Inputs that two neighbouring outputs look at together, without those of no weight.
static int span_of(const gwb_taps *t)
{
    const int phases = 1 << t->phase_bits;
    int most = 1;
    for (int p = 0; p < phases; p++) {
        const int next = (p + 1) % phases, moved = (p + 1) / phases + t->base[next] - t->base[p];
        const int here = t->count > 1 && t->weight[p][1] != 0 ? 2 : 1, there = moved + (t->count > 1 && t->weight[next][1] != 0 ? 2 : 1);
        most = here > most ? here : most;
        most = there > most ? there : most;
    }
    return most;
}

// ---- the source

// l0: what has a sample at every pixel.
static void write_full(const writer *w, const char *name)
{
    const gwb_pipe_side *s = &w->code->src;
    const bool lanes = w->wide && (s->lanes == 2 || s->lanes == 4);
    PUT("GWB_FN gwb_px %s(GWB_PIPE_PARAMS)\n{\n    gwb_px p = gwb_pipe_zero();\n", name);
    if (lanes)
        PUT("    GWB_GET_LANES(GWB_SAMPLE_%s, %d, %d, %du);\n", kinds[s->kind], s->lanes, s->shift[0], s->mask[0]);
    for (int k = 0; k < 4; k++) {
        if (!is_full(s, k))
            continue;
        PUT("    p.c[%d] = ", k);
        if (lanes)
            PUT("v[%d];\n", s->offset[k] / size_of(s));
        else if (s->kind == GWB_SAMPLE_V210)
            PUT("GWB_GET_V210(%d, %d);\n", s->pitch[k], s->offset[k]);
        else if (s->kind == GWB_SAMPLE_U16 || s->kind == GWB_SAMPLE_U32)
            PUT("GWB_GET_%s(%d, %d, %d, %d, %du);\n", kinds[s->kind], s->plane[k], s->pitch[k], s->offset[k], s->shift[k], s->mask[k]);
        else
            PUT("GWB_GET_%s(%d, %d, %d);\n", kinds[s->kind], s->plane[k], s->pitch[k], s->offset[k]);
    }
    PUT("    return p;\n}\n");
}

// s0, and q0 where it is asked for.
static void write_source(const writer *w, bool quad)
{
    const gwb_pipe_code *c = w->code;
    const bool chroma = subsampled(&c->src) && c->src.components & 6, packed = is_packed(c);
    if ((chroma && !packed) || c->grid)
        write_side(w);
    if (!chroma) {
        write_full(w, "s0");
    } else {
        write_full(w, "l0");
        if (packed) {
            PUT("#define GWB_SRC_LOG2_W %d\n#define GWB_SRC_LOG2_H %d\n", c->src.log2_w, c->src.log2_h);
            write_up(w, 'X', &c->up_x);
            write_up(w, 'Y', &c->up_y);
            write_chroma_sample(w);
            PUT("GWB_PIPE_COLUMN(d0, c0, %d, GWB_UP_Y_FIRST, GWB_UP_Y_WEIGHT)\nGWB_PIPE_CHROMA(c1, d0, %d, GWB_UP_X_FIRST, GWB_UP_X_WEIGHT)\n", c->up_y.count,
                c->up_x.count);
        } else {
            write_any_chroma(w, "c1", "up", &c->up_x, &c->up_y);
        }
        PUT("GWB_FN gwb_px s0(GWB_PIPE_PARAMS)\n{\n    gwb_px p = l0(g, x, y);\n    %s;\n    return p;\n}\n",
            packed ? "gwb_unpack_chroma(c1(g, x, y), &p)" : "c1(g, x, y, &p)");
    }
    if (quad && packed)
        PUT("GWB_QUAD_CHROMA(c4, c0, %d, %d, GWB_UP_X_FIRST, GWB_UP_X_WEIGHT, %d, %d, GWB_UP_Y_FIRST, GWB_UP_Y_WEIGHT)\nGWB_QUAD_SOURCE(q0, l0, c4)\n",
            c->up_x.count, span_of(&c->up_x), c->up_y.count, span_of(&c->up_y));
    else if (quad)
        PUT("GWB_QUAD_ANY(q0, s0)\n");
}

// ---- links

static const char *const values[] = {
#define ROW(name, affine) #name,
    GWB_PIPE_VALUES(ROW)
#undef ROW
};

static void write_expression(const writer *w, int n, const gwb_link *l)
{
    static const struct { const char *name; int operands; } ops[] = {
#define ROW(name, operands, value) {#name, operands},
        GWB_EXPR_OPS(ROW)
#undef ROW
    };
    int stack[GWB_EXPR_DEPTH], depth = 0, made = 0;
    PUT("GWB_FN gwb_px v%d(const gwb_pipe_at *g, gwb_px p, int x, int y)\n{\n    gwb_px r = p;\n", n);
    for (int i = l->first; i < l->first + l->size; i += 2) {
        const int op = w->code->program[i], arg = w->code->program[i + 1];
        if (op == GWB_EXPR_store) {
            PUT("    r.c[%d] = t%d;\n", arg, stack[depth - 1]);
            continue;
        }
        if (op == GWB_EXPR_drop) {
            depth--;
            continue;
        }
        PUT("    const float t%d = ", made);
        if (op == GWB_EXPR_number) {
            PUT("g->stage[%d].f[%d];\n", l->k, arg);
        } else if (op == GWB_EXPR_component) {
            PUT("p.c[%d];\n", arg);
        } else if (op == GWB_EXPR_place && arg < 2) {
            PUT("(float)%c;\n", arg ? 'y' : 'x');
        } else if (op == GWB_EXPR_place) {
            PUT("(float)g->shape->move[%d].%s;\n", l->m, arg == 2 ? "width" : "height");
        } else {
            PUT("gwb_expr_%s(", ops[op].name);
            depth -= ops[op].operands;
            for (int k = 0; k < ops[op].operands; k++)
                PUT("%st%d", k ? ", " : "", stack[depth + k]);
            PUT(");\n");
        }
        stack[depth++] = made++;
    }
    PUT("    return r;\n}\nGWB_PIPE_APPLY(s%d, v%d, s%d)\n", n, n, n - 1);
}

// Link n: a line that defines sn from s(n-1), and vn where it is of values alone.
static void write_link(const writer *w, int n)
{
    const gwb_pipe_code *c = w->code;
    const gwb_link *l = &c->link[n - 1];
    const int p = n - 1;
    switch (l->kind) {
    case GWB_LINK_VALUE: PUT("GWB_PIPE_VALUE(s%d, v%d, s%d, %d, gwb_stage_%s)\n", n, n, p, l->k, values[l->value]); break;
    case GWB_LINK_EXPR: write_expression(w, n, l); break;
    case GWB_LINK_CROP: PUT("GWB_PIPE_CROP(s%d, s%d, 0, 0)\n", n, p); break;
    case GWB_LINK_MOVE: PUT("GWB_PIPE_MOVE(s%d, s%d, %d)\n", n, p, l->m); break;
    case GWB_LINK_NEAREST: PUT("GWB_PIPE_NEAREST(s%d, s%d, %d)\n", n, p, l->m); break;
    case GWB_LINK_BILINEAR: PUT("GWB_PIPE_BILINEAR(s%d, q%d, %d)\n", n, p, l->m); break;
    case GWB_LINK_CUBIC: PUT("GWB_PIPE_CUBIC(s%d, s%d, %d, %d)\n", n, p, l->k, l->m); break;
    case GWB_LINK_TABLE_X:
        if (is_packed(c) && (n == 1 || (n == 2 && c->link[0].kind == GWB_LINK_CROP)))
            PUT("GWB_PIPE_TABLE_CHROMA(s%d, l0, d0, %d, GWB_UP_X_FIRST, GWB_UP_X_WEIGHT, %d, %d)\n", n, c->up_x.count, l->m, n - 1);
        else
            PUT("GWB_PIPE_TABLE(s%d, s%d, %d, 0)\n", n, p, l->m);
        break;
    case GWB_LINK_TABLE_Y: PUT("GWB_PIPE_TABLE(s%d, s%d, %d, 1)\n", n, p, l->m); break;
    case GWB_LINK_PAD: PUT("GWB_PIPE_PAD(s%d, s%d, %d, %d)\n", n, p, l->k, l->m); break;
    case GWB_LINK_WARP: PUT("GWB_PIPE_WARP(s%d, s%d, %d, %d, gwb_at_warp)\n", n, p, l->k, l->m); break;
    case GWB_LINK_REMAP: PUT("GWB_PIPE_WARP(s%d, s%d, %d, %d, gwb_at_remap)\n", n, p, l->k, l->m); break;
    }
}

static void write_links(const writer *w)
{
    const gwb_pipe_code *c = w->code;
    for (int n = 1; n <= c->links; n++) {
        write_link(w, n);
        if (n == c->links || c->link[n].kind != GWB_LINK_BILINEAR)
            continue;
        if (n == 1 && c->link[0].kind == GWB_LINK_CROP)
            PUT("GWB_QUAD_CROP(q1, q0)\n");
        else
            PUT("GWB_QUAD_ANY(q%d, s%d)\n", n, n);
    }
    if (!c->grid)
        return;
    write_any_chroma(w, "c2", "across", &c->across_x, &c->across_y);
    PUT("GWB_FN gwb_px k0(GWB_PIPE_PARAMS)\n{\n    gwb_px p = gwb_pipe_zero();\n    c2(g, x, y, &p);\n    return p;\n}\n");
    for (int n = 1; n <= c->links; n++)
        if (c->link[n - 1].kind == GWB_LINK_CROP)
            PUT("GWB_PIPE_CROP(k%d, k%d, %d, %d)\n", n, n - 1, c->dst.log2_w, c->dst.log2_h);
        else
            PUT("GWB_PIPE_APPLY(k%d, v%d, k%d)\n", n, n, n - 1);
}

// ---- the result

// What is stored of component k.
static const char *value_of(const gwb_pipe_code *c, int k, char text[32])
{
    if (k == 3 && c->ones)
        snprintf(text, 32, "%.1ff", (double)c->limit[3]);
    else
        snprintf(text, 32, "p.c[%d]", k);
    return text;
}

static void write_put(const writer *w, int k)
{
    const gwb_pipe_side *d = &w->code->dst;
    const double limit = (double)w->code->limit[k];
    char text[32];
    const char *v = value_of(w->code, k, text);
    if (d->kind == GWB_SAMPLE_V210)
        PUT("    GWB_PUT_V210(%d, %d, %.1ff, %s);\n", d->pitch[k], d->offset[k], limit, v);
    else if (w->code->word)
        PUT("    GWB_PUT_BITS(%d, %.1ff, %s);\n", d->shift[k], limit, v);
    else if (d->kind == GWB_SAMPLE_U8)
        PUT("    GWB_PUT_U8(%d, %d, %d, %.1ff, %s);\n", d->plane[k], d->pitch[k], d->offset[k], limit, v);
    else if (d->kind == GWB_SAMPLE_U16)
        PUT("    GWB_PUT_U16(%d, %d, %d, %d, %.1ff, %s);\n", d->plane[k], d->pitch[k], d->offset[k], d->shift[k], limit, v);
    else
        PUT("    GWB_PUT_%s(%d, %d, %d, %s);\n", kinds[d->kind], d->plane[k], d->pitch[k], d->offset[k], v);
}

static void write_result(const writer *w)
{
    const gwb_pipe_code *c = w->code;
    const gwb_pipe_side *d = &c->dst;
    PUT("GWB_FN void gwb_put_pixel(GWB_PIPE_PARAMS, gwb_px p, uint32_t *word)\n{\n");
    if (w->wide && d->lanes == 4) {
        int of_lane[4] = {0, 0, 0, 0};
        char text[4][32];
        for (int k = 0; k < 4; k++)
            of_lane[d->offset[k] / size_of(d)] = k;
        PUT("    GWB_PUT_LANES(GWB_SAMPLE_%s, %d, %.1ff", kinds[d->kind], d->shift[0], (double)c->limit[0]);
        for (int i = 0; i < 4; i++)
            PUT(d->kind == GWB_SAMPLE_F32 ? ", GWB_NUMBER(%s)" : ", %s", value_of(c, of_lane[i], text[i]));
        PUT(");\n");
    } else {
        for (int k = 0; k < 4; k++)
            if (is_full(d, k))
                write_put(w, k);
    }
    PUT("}\n");
    if (subsampled(d)) {
        PUT("GWB_FN void gwb_put_chroma(GWB_PIPE_PARAMS, gwb_px p, uint32_t *word)\n{\n");
        write_put(w, 1);
        write_put(w, 2);
        PUT("}\n");
    }
    if (subsampled(d) || c->word)
        PUT("GWB_FN void gwb_put_words(GWB_PIPE_PARAMS, const uint32_t *word)\n{\n%s}\n",
            !c->word ? "" : d->kind == GWB_SAMPLE_U16 ? "    *(uint16_t *)GWB_TO(0, 2, 0) = (uint16_t)word[0];\n"
            : d->kind == GWB_SAMPLE_U32 ? "    *(uint32_t *)GWB_TO(0, 4, 0) = word[0];\n"
            : "    x /= 6;\n    for (int i = 0; i < 4; i++)\n        ((uint32_t *)GWB_TO(0, 16, 0))[i] = word[i];\n");
}

// Weights from pixels to the result's chroma.
static void write_down(const writer *w, char axis, const gwb_taps *t)
{
    PUT("#define GWB_DOWN_%c_COUNT %d\n#define GWB_DOWN_%c_FIRST(i) ((i) * %d + (%d))\n#define GWB_DOWN_%c_WEIGHT(n) (", axis, t->count, axis, t->scale,
        t->base[0], axis);
    for (int i = 0; i < t->count; i++)
        if (i < t->count - 1)
            PUT("(n) == %d ? %.3ff : ", i, (double)t->weight[0][i]);
        else
            PUT("%.3ff)\n", (double)t->weight[0][i]);
}

// ---- tiles

static void write_quarters(const writer *w, const char *name, const gwb_taps *t)
{
    uint32_t q[2][3];
    gwb_convert_quarters(t, q);
    PUT("#define %s {{%u, %u, %u}, {%u, %u, %u}}\n", name, q[0][0], q[0][1], q[0][2], q[1][0], q[1][1], q[1][2]);
}

static void write_tile_row(const writer *w)
{
    const gwb_pipe_side *s = &w->code->src;
    PUT("GWB_FN void gwb_tile_row(GWB_PIPE_PARAMS, gwb_px p[4])\n{\n");
    if (s->lanes)
        PUT("    GWB_TILE_LANES(GWB_SAMPLE_%s, %d, %d, %du);\n", kinds[s->kind], s->lanes, s->shift[0], s->mask[0]);
    for (int k = 0; k < 4; k++) {
        if (!is_full(s, k))
            PUT("    GWB_EACH4 p[i].c[%d] = 0.0f;\n", k);
        else if (s->lanes)
            PUT("    GWB_TILE_LANE(%d, %d, %d);\n", k, s->lanes, s->offset[k] / size_of(s));
        else
            PUT("    GWB_TILE_PLANE(%d, GWB_SAMPLE_%s, %d, %d, %d, %du);\n", k, kinds[s->kind], s->plane[k], s->offset[k], s->shift[k], s->mask[k]);
    }
    PUT("}\n");
}

// The chroma samples that a row of a tile looks at.
static void write_tile_chroma(const writer *w)
{
    const gwb_pipe_code *c = w->code;
    const gwb_pipe_side *s = &c->src;
    const bool v_first = s->offset[2] < s->offset[1];
    uint32_t q[2][3];
    gwb_convert_quarters(&c->up_x, q);
    PUT("GWB_FN void gwb_tile_chroma_row(GWB_PIPE_PARAMS, uint32_t c[4])\n{\n    y = gwb_clamp(y, (g->shape->src_height - 1) >> GWB_SRC_LOG2_H);\n    ");
    if (s->pairs)
        PUT("GWB_TILE_PAIRS_%s(%d, %d, %d", kinds[s->kind], s->plane[1], s->offset[v_first ? 2 : 1], v_first);
    else
        PUT("GWB_TILE_PLANES_%s(%d, %d, %d, %d", kinds[s->kind], s->plane[1], s->offset[1], s->plane[2], s->offset[2]);
    if (s->kind == GWB_SAMPLE_U16)
        PUT(", %d, %du", s->shift[1], s->mask[1]);
    PUT(");\n    c[0] = %s;\n    c[3] = %s;\n}\n", q[0][0] | q[1][0] ? "c0(g, x - 1, y)" : "0", q[0][2] | q[1][2] ? "c0(g, x + 2, y)" : "0");
    write_quarters(w, "GWB_UP_X_QUARTERS", &c->up_x);
    write_quarters(w, "GWB_UP_Y_QUARTERS", &c->up_y);
    PUT("GWB_TILE_CHROMA(gwb_tile_chroma, gwb_tile_chroma_row, GWB_UP_X_QUARTERS, GWB_UP_Y_QUARTERS)\n");
}

static void write_tile_store(const writer *w)
{
    const gwb_pipe_code *c = w->code;
    const gwb_pipe_side *d = &c->dst;
    char text[32];
    const char *number = d->kind == GWB_SAMPLE_F32 ? "GWB_NUMBER" : "";
    PUT("GWB_FN void gwb_tile_store(const gwb_pipe_at *g, int x0, int y0, int lane, int lanes, const gwb_px tile[GWB_TILE_H][GWB_TILES])\n{\n");
    if (d->lanes > 1) {
        PUT("    float v[GWB_TILE_H][GWB_TILES * %d] = {{0.0f}};\n    GWB_EACH_PIXEL {\n        const gwb_px p = tile[r][i];\n", d->lanes);
        for (int k = 0; k < 4; k++)
            if (d->components >> k & 1)
                PUT("        v[r][i * %d + %d] = %s(%s);\n", d->lanes, d->offset[k] / size_of(d), number, value_of(c, k, text));
        PUT("    }\n    gwb_tile_lanes<GWB_SAMPLE_%s, %d>(g, x0, y0, lane, lanes, %d, %.1ff, v);\n}\n", kinds[d->kind], d->lanes, d->shift[0],
            (double)c->limit[0]);
        return;
    }
    PUT("    const int x = x0 + GWB_TILES * lane;\n    if (lane >= lanes)\n        return;\n    GWB_UNROLL\n    for (int r = 0; r < GWB_TILE_H; r++) {\n"
        "        const int y = y0 + r;\n");
    for (int k = 0; k < 4; k++)
        if (d->components >> k & 1)
            PUT("        GWB_TILE_TO_PLANE(GWB_SAMPLE_%s, %d, %d, %d, %.1ff, %s(tile[r][i].c[%d]));\n", kinds[d->kind], d->plane[k], d->offset[k],
                d->shift[k], (double)c->limit[k], number, k);
    PUT("    }\n}\n");
}

// The tiles of a source that yuv_rgb.h takes, whose alpha is in stage k: pixels of R, G and B.
static void write_quick(const writer *w, int k)
{
    const gwb_pipe_code *c = w->code;
    const gwb_pipe_side *s = &c->src;
    const bool v_first = s->pairs && s->offset[2] < s->offset[1];
    uint32_t x[2][3], y[2][3];
    gwb_convert_quarters(&c->up_x, x);
    gwb_convert_quarters(&c->up_y, y);
    PUT("GWB_FN gwb_yuv_rgb gwb_tile_source(const gwb_pipe_at *g)\n{\n    const gwb_pipe_item *item = g->item;\n"
        "    const gwb_yuv_rgb s = {item->src[%d] + %d, item->src[%d] + %d, item->src[%d] + %d,\n"
        "        item->src_step[%d], item->src_step[%d], item->src_step[%d], %d, %d, %d, (g->shape->src_width - 1) >> %d, (g->shape->src_height - 1) >> %d,\n"
        "        g->shape->src_height, (const gwb_quick_numbers *)g->stage[%d].f, {{%u, %u, %u}, {%u, %u, %u}}, {{%u, %u, %u}, {%u, %u, %u}}};\n"
        "    return s;\n}\n",
        s->plane[0], s->offset[0], s->plane[1], s->offset[v_first ? 2 : 1], s->plane[2], s->offset[2], s->plane[0], s->plane[1], s->plane[2], v_first,
        s->shift[0], s->mask[0], s->log2_w, s->log2_h, c->quick_numbers, x[0][0], x[0][1], x[0][2], x[1][0], x[1][1], x[1][2], y[0][0], y[0][1], y[0][2],
        y[1][0], y[1][1], y[1][2]);
    PUT("GWB_TILE_QUICK(GWB_SAMPLE_%s, %d, %s, g->stage[%d].f[15])\n", kinds[s->kind], c->quick_shape, c->quick == GWB_QUICK_LEFT ? "true" : "false", k);
}

static void write_tiles(const writer *w)
{
    const gwb_pipe_code *c = w->code;
    const bool chroma = subsampled(&c->src) && c->src.components & 6;
    int first = 1;
    if (c->quick) {
        while (c->link[first - 1].kind != GWB_LINK_VALUE)
            first++;
        write_quick(w, c->link[first++ - 1].k);
    } else {
        write_tile_row(w);
        if (chroma)
            write_tile_chroma(w);
        PUT("GWB_TILE_PLAIN(%s)\n", chroma ? "gwb_tile_chroma(g, x, y, p)" : "");
    }
    PUT("GWB_FN gwb_px gwb_values(const gwb_pipe_at *g, gwb_px p, int x, int y)\n{\n");
    for (int n = first; n <= c->links; n++)
        if (c->link[n - 1].kind == GWB_LINK_VALUE)
            PUT("    p = v%d(g, p, x, y);\n", n);
    PUT("    return p;\n}\n");
    write_tile_store(w);
}

// ---- all of it

static void write_end(const writer *w)
{
    const gwb_pipe_code *c = w->code;
    const int last = c->links;
    PUT("#define gwb_last s%d\n", last);
    if (subsampled(&c->dst)) {
        const int before = gwb_pipe_averaged_link(c);
        write_down(w, 'X', &c->down_x);
        write_down(w, 'Y', &c->down_y);
        PUT("#define gwb_before s%d\n", before);
        if (before < last)
            PUT("#define gwb_after v%d\n", last);
        else
            PUT("#define gwb_after(g, p, x, y) p\n");
        if (c->grid)
            PUT("#define gwb_across k%d\n", last);
    }
    write_result(w);
    if (c->tiles)
        write_tiles(w);
}

int gwb_pipe_tile_rows(const gwb_pipe_code *c, bool batch)
{
    return c->tiles == 2 * GWB_TILE_W && batch ? 2 * GWB_TILE_H : GWB_TILE_H;
}

int gwb_pipe_pixel_rows(const gwb_pipe_code *c, bool batch)
{
    return !c->light ? 2 : batch ? 4 : 1;
}

int gwb_pipe_averaged_link(const gwb_pipe_code *c)
{
    const gwb_link *l = c->links ? &c->link[c->links - 1] : NULL;
    return c->links - (l && l->kind == GWB_LINK_VALUE && l->value <= GWB_PIPE_VALUE_diagonal);
}

bool gwb_pipe_packs_chroma(const gwb_pipe_code *c)
{
    return is_packed(c);
}

char *gwb_pipe_write(const gwb_pipe_code *c, bool batch, bool wide, int few)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    const writer writing = {f, c, wide}, *w = &writing;
    bool expressions = false;
    for (int i = 0; i < c->links; i++)
        expressions |= c->link[i].kind == GWB_LINK_EXPR;
    const bool crop = c->links > 0 && c->link[0].kind == GWB_LINK_CROP;
    PUT("#define GWB_BATCH %d\n#define GWB_STAGES %d\n#define GWB_FEW %d\n", batch, c->stages ? c->stages : 1, few);
    PUT("#define GWB_SUB %d\n#define GWB_WORD %d\n#define GWB_GROUP %d\n#define GWB_BLOCK_W %d\n#define GWB_BLOCK_H %d\n#define GWB_DST_LOG2_W %d\n",
        subsampled(&c->dst), c->word, c->group, c->block_w, c->word || subsampled(&c->dst) ? c->block_h : gwb_pipe_pixel_rows(c, batch), c->dst.log2_w);
    const bool lean = c->quick == GWB_QUICK_LEFT && !batch && c->src.kind == GWB_SAMPLE_U8 && c->dst.kind == GWB_SAMPLE_U8 && c->links - crop == 1;
    PUT("#define GWB_BLOCKS %d\n", lean ? 8 : c->light && batch ? 5 : 1);
    PUT("#define GWB_GRID %d\n#define GWB_TILES %d\n#define GWB_TILE_ROWS %d\n#define GWB_CROPS %d\n#define GWB_FINITE %d\n#include \"pipe_links.h\"\n%s%s\n", c->grid, c->tiles,
        gwb_pipe_tile_rows(c, batch), crop, c->finite, c->quick ? "#include \"pipe_quick.h\"\n" : "", expressions ? "#include \"expr.h\"\n" : "");
    write_source(w, c->links > crop && c->link[crop].kind == GWB_LINK_BILINEAR);
    write_links(w);
    write_end(w);
    PUT("\n#include \"pipe_entry.h\"\n");
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
