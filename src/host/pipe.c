// SPDX-License-Identifier: MIT
// Pipelines on the host: the links of a pass over lists of pixels that stay in the L1 cache, spread over the threads. A link that moves pixels asks
// the link before it for the list of those it needs, so nothing is worked out that is not looked at.
#include "pipe.h"

#include "host/clones.h"
#include "host/parallel.h"

#include "../../kernels/pipe.h"

#include "../../kernels/expr.h"

#include <stdlib.h>
#include <string.h>

enum { LIST = 120 };    // pixels of a list: a multiple of every block's width

// Pixels of a list, a row a component.
typedef struct pixels {
    float c[4][LIST];
} pixels;

// Places of a list. A run is n pixels of a row that follow each other.
typedef struct places {
    int n;
    bool run;
    int x[LIST], y[LIST];
} places;

// A launch under way: a copy of what the call lent.
typedef struct run {
    gwb_pass pass;
    int count, rows;            // pictures; rows of blocks of the largest one
    gwb_pipe_shape *shapes;
    gwb_pipe_item *items;
    int64_t space[];            // of both
} run;

// What a list is worked out from.
typedef struct context {
    const gwb_pass *pass;
    gwb_pipe_at at;
} context;

static inline gwb_px get(const pixels *p, int i)
{
    gwb_px r = {{p->c[0][i], p->c[1][i], p->c[2][i], p->c[3][i]}};
    return r;
}

static inline void set(pixels *p, int i, gwb_px v)
{
    for (int k = 0; k < 4; k++)
        p->c[k][i] = v.c[k];
}

// ---- the source

#define EACH_KIND(kind, _) \
    switch (kind) { \
    case GWB_SAMPLE_U8: _(GWB_SAMPLE_U8) break; \
    case GWB_SAMPLE_U16: _(GWB_SAMPLE_U16) break; \
    case GWB_SAMPLE_U32: _(GWB_SAMPLE_U32) break; \
    case GWB_SAMPLE_F16: _(GWB_SAMPLE_F16) break; \
    case GWB_SAMPLE_F32: _(GWB_SAMPLE_F32) break; \
    default: _(GWB_SAMPLE_V210) break; \
    }

// Component k, which has a sample a pixel.
GWB_CLONES static void read_samples(const context *c, int k, const places *at, float *out)
{
    gwb_pipe_side s = c->pass->code.src;
    const gwb_pipe_item *item = c->at.item;
    const int x0 = at->x[0], y0 = at->y[0], n = at->n;
#define READ(KIND) \
    s.kind = KIND; \
    if (at->run) \
        for (int i = 0; i < n; i++) \
            out[i] = gwb_pipe_sample(&s, item, k, x0 + i, y0); \
    else \
        for (int i = 0; i < n; i++) \
            out[i] = gwb_pipe_sample(&s, item, k, at->x[i], at->y[i]);
    EACH_KIND(s.kind, READ)
#undef READ
}

// Components 1 and 2 from chroma samples, by these taps.
GWB_CLONES static void read_chroma(const context *c, const gwb_taps *tx, const gwb_taps *ty, const places *at, pixels *out)
{
    gwb_pipe_side s = c->pass->code.src;
#define READ(KIND) \
    s.kind = KIND; \
    for (int i = 0; i < at->n; i++) { \
        gwb_px p = gwb_pipe_zero(); \
        gwb_pipe_chroma(&s, 0, tx, ty, &c->at, at->x[i], at->y[i], &p); \
        out->c[1][i] = p.c[1]; \
        out->c[2][i] = p.c[2]; \
    }
    EACH_KIND(s.kind, READ)
#undef READ
}

// The same for a run of pixels that chroma is enlarged for: each column is worked out once.
GWB_CLONES static void read_chroma_run(const context *c, const gwb_taps *tx, const gwb_taps *ty, const places *at, pixels *out)
{
    gwb_pipe_side s = c->pass->code.src;
    const gwb_pipe_shape *shape = c->at.shape;
    const int last_x = (shape->src_width - 1) >> s.log2_w, last_y = (shape->src_height - 1) >> s.log2_h, x0 = at->x[0], y = at->y[0];
    const int py = gwb_tap_phase(ty, y), y0 = gwb_tap_first(ty, y);
    int first = gwb_tap_first(tx, x0), end = first;
    for (int i = 0; i < at->n; i++) {
        const int f = gwb_tap_first(tx, x0 + i);
        first = f < first ? f : first;
        end = f + tx->count > end ? f + tx->count : end;
    }
    float column[LIST + 2 * GWB_TAPS];
    for (int k = 1; k < 3; k++) {
        memset(out->c[k], 0, (size_t)at->n * sizeof out->c[k][0]);
        if (!(s.components >> k & 1))
            continue;
        for (int j = 0; j < ty->count; j++) {
            const int row = gwb_clamp(y0 + j, last_y);
            const float w = ty->weight[py][j];
#define READ(KIND) \
            s.kind = KIND; \
            for (int i = 0; i < end - first; i++) { \
                const float v = w * gwb_pipe_sample(&s, c->at.item, k, gwb_clamp(first + i, last_x), row); \
                column[i] = j == 0 ? v : column[i] + v; \
            }
            EACH_KIND(s.kind, READ)
#undef READ
        }
        for (int i = 0; i < at->n; i++) {
            const int p = gwb_tap_phase(tx, x0 + i), f = gwb_tap_first(tx, x0 + i) - first;
            float sum = tx->weight[p][0] * column[f];
            for (int t = 1; t < tx->count; t++)
                sum = sum + tx->weight[p][t] * column[f + t];
            out->c[k][i] = sum;
        }
    }
}

static void read_source(const context *c, const places *at, pixels *out)
{
    const gwb_pipe_code *code = &c->pass->code;
    const bool sub = code->src.log2_w | code->src.log2_h;
    for (int k = 0; k < 4; k++) {
        if (!(code->src.components >> k & 1))
            memset(out->c[k], 0, (size_t)at->n * sizeof out->c[k][0]);
        else if (k == 0 || k == 3 || !sub)
            read_samples(c, k, at, out->c[k]);
    }
    if (sub && code->src.components & 6)
        (at->run ? read_chroma_run : read_chroma)(c, &code->up_x, &code->up_y, at, out);
}

// ---- values

GWB_CLONES static void change_values(const gwb_pipe_stage *s, int value, const places *at, pixels *p)
{
    switch (value) {
#define ROW(name, affine) \
    case GWB_PIPE_VALUE_##name: \
        for (int i = 0; i < at->n; i++) \
            set(p, i, gwb_stage_##name(s, get(p, i), at->x[i], at->y[i])); \
        break;
    GWB_PIPE_VALUES(ROW)
#undef ROW
    }
}

#define APPLY1(name, value) \
    for (int i = 0; i < n; i++) \
        top[0][i] = gwb_expr_##name(top[0][i]);
#define APPLY2(name, value) \
    for (int i = 0; i < n; i++) \
        top[0][i] = gwb_expr_##name(top[0][i], top[1][i]);
#define APPLY3(name, value) \
    for (int i = 0; i < n; i++) \
        top[0][i] = gwb_expr_##name(top[0][i], top[1][i], top[2][i]);

// Runs the program of an expression: each operation over the whole list.
GWB_CLONES static void run_program(const context *c, const gwb_link *l, const places *at, pixels *p)
{
    const gwb_pipe_stage *s = &c->pass->stage[l->k];
    const gwb_pipe_move *m = l->m >= 0 ? &c->at.shape->move[l->m] : NULL;
    const uint8_t *program = c->pass->code.program + l->first;
    const int n = at->n;
    float stack[GWB_EXPR_DEPTH][LIST];
    pixels result = *p;
    int depth = 0;
    for (int pair = 0; pair < l->size; pair += 2) {
        const int arg = program[pair + 1];
        float (*top)[LIST] = stack + depth;
        switch (program[pair]) {
#define ROW(name, operands, value) \
        case GWB_EXPR_##name: \
            top = stack + depth - operands; \
            APPLY##operands(name, value) \
            depth += 1 - operands; \
            break;
        GWB_EXPR_OPS(ROW)
#undef ROW
        case GWB_EXPR_number:
            for (int i = 0; i < n; i++)
                top[0][i] = s->f[arg];
            depth++;
            break;
        case GWB_EXPR_component:
            memcpy(top[0], p->c[arg], (size_t)n * sizeof top[0][0]);
            depth++;
            break;
        case GWB_EXPR_place:
            for (int i = 0; i < n; i++)
                top[0][i] = (float)(arg == 0 ? at->x[i] : arg == 1 ? at->y[i] : arg == 2 ? m->width : m->height);
            depth++;
            break;
        case GWB_EXPR_store:
            memcpy(result.c[arg], stack[depth - 1], (size_t)n * sizeof top[0][0]);
            break;
        default:    // drop
            depth--;
            break;
        }
    }
    *p = result;
}

// ---- places

static void evaluate(const context *c, int link, const places *at, pixels *out);

GWB_CLONES static void between(pixels *p00, const pixels *p10, const pixels *p01, const pixels *p11, int n, const float *tx, const float *ty)
{
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < n; i++) {
            const float above = gwb_fma(p10->c[k][i] - p00->c[k][i], tx[i], p00->c[k][i]);
            const float below = gwb_fma(p11->c[k][i] - p01->c[k][i], tx[i], p01->c[k][i]);
            p00->c[k][i] = gwb_fma(below - above, ty[i], above);
        }
}

GWB_CLONES static void add(pixels *sum, const pixels *p, int n, const float *w)
{
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < n; i++)
            sum->c[k][i] = gwb_fma(w[i], p->c[k][i], sum->c[k][i]);
}

static void between_lines(const context *c, int link, const gwb_pipe_move *m, const places *at, pixels *out)
{
    places q[4];
    pixels p[3];
    float tx[LIST], ty[LIST];
    for (int j = 0; j < 4; j++)
        q[j].n = at->n, q[j].run = false;
    for (int i = 0; i < at->n; i++) {
        tx[i] = gwb_at_linear(m, 0, at->x[i], &q[0].x[i], &q[1].x[i]);
        ty[i] = gwb_at_linear(m, 1, at->y[i], &q[0].y[i], &q[2].y[i]);
        q[2].x[i] = q[0].x[i], q[3].x[i] = q[1].x[i];
        q[1].y[i] = q[0].y[i], q[3].y[i] = q[2].y[i];
    }
    evaluate(c, link - 1, &q[0], out);
    for (int j = 1; j < 4; j++)
        evaluate(c, link - 1, &q[j], &p[j - 1]);
    between(out, &p[0], &p[1], &p[2], at->n, tx, ty);
}

static void cubic(const context *c, int link, const gwb_pipe_stage *s, const gwb_pipe_move *m, const places *at, pixels *out)
{
    places q = {.n = at->n};
    pixels tap, row;
    int bx[LIST], by[LIST];
    float wx[4][LIST], wy[4][LIST];
    for (int i = 0; i < at->n; i++) {
        float w[4];
        gwb_cubic(s->f[0], gwb_at_cubic(m, 0, at->x[i], &bx[i]), w);
        for (int t = 0; t < 4; t++)
            wx[t][i] = w[t];
        gwb_cubic(s->f[0], gwb_at_cubic(m, 1, at->y[i], &by[i]), w);
        for (int t = 0; t < 4; t++)
            wy[t][i] = w[t];
    }
    memset(out, 0, sizeof *out);
    for (int j = 0; j < 4; j++) {
        memset(&row, 0, sizeof row);
        for (int i = 0; i < at->n; i++)
            q.y[i] = gwb_clamp(by[i] + j, m->height - 1);
        for (int t = 0; t < 4; t++) {
            for (int i = 0; i < at->n; i++)
                q.x[i] = gwb_clamp(bx[i] + t, m->width - 1);
            evaluate(c, link - 1, &q, &tap);
            add(&row, &tap, at->n, wx[t]);
        }
        add(out, &row, at->n, wy[j]);
    }
}

static void weigh(const context *c, int link, const gwb_pipe_move *m, int axis, const places *at, pixels *out)
{
    places q = *at;
    pixels tap;
    float w[LIST];
    const int *along = axis ? at->y : at->x;
    const int last = (axis ? m->height : m->width) - 1;
    q.run = axis && at->run;
    memset(out, 0, sizeof *out);
    for (int t = 0; t < m->taps; t++) {
        const float *weights = (const float *)(m->table + (int64_t)(1 + t) * m->step);
        for (int i = 0; i < at->n; i++) {
            (axis ? q.y : q.x)[i] = gwb_clamp(((const int32_t *)m->table)[along[i]] + t, last);
            w[i] = weights[along[i]];
        }
        evaluate(c, link - 1, &q, &tap);
        add(out, &tap, at->n, w);
    }
}

// Pixels that may lie outside: inside ones are asked for, the others are the border's.
static void bordered(const context *c, int link, const gwb_pipe_stage *s, const gwb_pipe_move *m, const places *at, pixels *out)
{
    places q = {.n = at->n};
    int inside[LIST];
    const gwb_px border = gwb_stage_border(s);
    for (int i = 0; i < at->n; i++)
        inside[i] = gwb_border(s->i[0], at->x[i], m->width, &q.x[i]) & gwb_border(s->i[0], at->y[i], m->height, &q.y[i]);
    evaluate(c, link - 1, &q, out);
    for (int i = 0; i < at->n; i++)
        if (!inside[i])
            set(out, i, border);
}

static void warp(const context *c, int link, const gwb_pipe_stage *s, const gwb_pipe_move *m, bool remap, const places *at, pixels *out)
{
    places q = {.n = at->n}, next = {.n = at->n};
    pixels p[3];
    float tx[LIST], ty[LIST];
    const bool bilinear = s->i[1];
    for (int i = 0; i < at->n; i++) {
        float sx, sy;
        if (remap)
            gwb_at_remap(s, at->x[i], at->y[i], &sx, &sy);
        else
            gwb_at_warp(s, at->x[i], at->y[i], &sx, &sy);
        q.x[i] = gwb_floor_tap(bilinear ? sx : sx + 0.5f, &tx[i]);
        q.y[i] = gwb_floor_tap(bilinear ? sy : sy + 0.5f, &ty[i]);
    }
    bordered(c, link, s, m, &q, out);
    for (int j = 1; j < 4 && bilinear; j++) {
        for (int i = 0; i < at->n; i++) {
            next.x[i] = q.x[i] + (j & 1);
            next.y[i] = q.y[i] + (j >> 1);
        }
        bordered(c, link, s, m, &next, &p[j - 1]);
    }
    if (bilinear)
        between(out, &p[0], &p[1], &p[2], at->n, tx, ty);
}

// The pixels behind link `link` of the pass; link 0 is the source.
static void evaluate(const context *c, int link, const places *at, pixels *out)
{
    if (link == 0) {
        read_source(c, at, out);
        return;
    }
    const gwb_link *l = &c->pass->code.link[link - 1];
    const gwb_pipe_stage *s = l->k >= 0 ? &c->pass->stage[l->k] : NULL;
    const gwb_pipe_move *m = l->m >= 0 ? &c->at.shape->move[l->m] : NULL;
    places q;
    switch (l->kind) {
    case GWB_LINK_VALUE:
        evaluate(c, link - 1, at, out);
        change_values(s, l->value, at, out);
        return;
    case GWB_LINK_EXPR:
        evaluate(c, link - 1, at, out);
        run_program(c, l, at, out);
        return;
    case GWB_LINK_BILINEAR: between_lines(c, link, m, at, out); return;
    case GWB_LINK_CUBIC: cubic(c, link, s, m, at, out); return;
    case GWB_LINK_TABLE_X: weigh(c, link, m, 0, at, out); return;
    case GWB_LINK_TABLE_Y: weigh(c, link, m, 1, at, out); return;
    case GWB_LINK_WARP: warp(c, link, s, m, false, at, out); return;
    case GWB_LINK_REMAP: warp(c, link, s, m, true, at, out); return;
    default: break;
    }
    q.n = at->n;
    q.run = at->run && l->kind == GWB_LINK_CROP;
    for (int i = 0; i < at->n; i++)
        switch (l->kind) {
        case GWB_LINK_MOVE:
            gwb_at_move(m, at->x[i], at->y[i], &q.x[i], &q.y[i]);
            break;
        case GWB_LINK_NEAREST:
            q.x[i] = gwb_at_nearest(m, 0, at->x[i]);
            q.y[i] = gwb_at_nearest(m, 1, at->y[i]);
            break;
        case GWB_LINK_PAD:
            q.x[i] = at->x[i] + m->at[0];
            q.y[i] = at->y[i] + m->at[1];
            break;
        default:    // crop
            q.x[i] = at->x[i] + c->at.item->at[0];
            q.y[i] = at->y[i] + c->at.item->at[1];
            break;
        }
    if (l->kind == GWB_LINK_PAD)
        bordered(c, link, s, m, &q, out);
    else
        evaluate(c, link - 1, &q, out);
}

// ---- the destination

// Adds `w` times `p`; the first one starts the sum.
GWB_CLONES static void average(pixels *sum, const pixels *p, int n, float w, bool first)
{
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < n; i++)
            sum->c[k][i] = first ? w * p->c[k][i] : sum->c[k][i] + w * p->c[k][i];
}

// Chroma samples `at` of the result, in components 1 and 2: first down each column, then along the row.
static void mean_chroma(const context *c, const places *at, pixels *out)
{
    const gwb_pipe_code *code = &c->pass->code;
    const gwb_taps *tx = &code->down_x, *ty = &code->down_y;
    const int before = gwb_pipe_averaged_link(code), last_x = c->at.shape->width - 1, last_y = c->at.shape->height - 1;
    places q = {.n = at->n};
    pixels tap, column;
    for (int t = 0; t < tx->count; t++) {
        for (int j = 0; j < ty->count; j++) {
            for (int i = 0; i < at->n; i++) {
                q.x[i] = gwb_clamp(gwb_tap_first(tx, at->x[i]) + t, last_x);
                q.y[i] = gwb_clamp(gwb_tap_first(ty, at->y[i]) + j, last_y);
            }
            evaluate(c, before, &q, &tap);
            average(&column, &tap, at->n, ty->weight[0][j], j == 0);
        }
        average(out, &column, at->n, tx->weight[0][t], t == 0);
    }
    if (before < code->links) {
        const gwb_link *l = &code->link[before];
        change_values(&c->pass->stage[l->k], l->value, at, out);
    }
}

// The same where chroma stays on its grid.
static void grid_chroma(const context *c, const places *at, pixels *out)
{
    const gwb_pipe_code *code = &c->pass->code;
    places q = *at;
    const bool crop = code->link[0].kind == GWB_LINK_CROP;
    for (int i = 0; i < at->n && crop; i++) {
        q.x[i] += c->at.item->at[0] >> code->dst.log2_w;
        q.y[i] += c->at.item->at[1] >> code->dst.log2_h;
    }
    memset(out, 0, sizeof *out);
    read_chroma(c, &code->across_x, &code->across_y, &q, out);
    for (int i = crop; i < code->links; i++)
        change_values(&c->pass->stage[code->link[i].k], code->link[i].value, at, out);
}

GWB_CLONES static void store(const context *c, int k, const places *at, const pixels *p)
{
    const gwb_pipe_code *code = &c->pass->code;
    gwb_pipe_side d = code->dst;
#define STORE(KIND) \
    d.kind = KIND; \
    for (int i = 0; i < at->n; i++) \
        gwb_pipe_store(&d, code->limit[k], c->at.item, k, at->x[i], at->y[i], gwb_pipe_component(get(p, i), k, KIND, code->ones, code->limit[k]));
    switch (d.kind) {
    case GWB_SAMPLE_U8: STORE(GWB_SAMPLE_U8) break;
    case GWB_SAMPLE_U16: STORE(GWB_SAMPLE_U16) break;
    case GWB_SAMPLE_F16: STORE(GWB_SAMPLE_F16) break;
    default: STORE(GWB_SAMPLE_F32) break;
    }
#undef STORE
}

// Pixels and chroma samples of a row that share words: group by group.
static void store_words(const context *c, const places *at, const pixels *p, const places *chroma_at, const pixels *chroma)
{
    const gwb_pipe_code *code = &c->pass->code;
    const gwb_pipe_side *d = &code->dst;
    const bool sub = d->log2_w | d->log2_h;
    for (int i = 0; i < at->n; i += code->block_w) {
        uint32_t word[4] = {0, 0, 0, 0};
        for (int j = i; j < i + code->block_w && j < at->n; j++)
            for (int k = 0; k < 4; k++)
                if (d->components >> k & 1 && (k == 0 || k == 3 || !sub))
                    gwb_pipe_collect(d, code->limit[k], k, at->x[j], gwb_pipe_component(get(p, j), k, d->kind, code->ones, code->limit[k]), word);
        for (int j = i >> d->log2_w; sub && j < (i + code->block_w) >> d->log2_w && j < chroma_at->n; j++)
            for (int k = 1; k < 3; k++)
                gwb_pipe_collect(d, code->limit[k], k, chroma_at->x[j], chroma->c[k][j], word);
        gwb_pipe_put_words(d, c->at.item, at->x[i], at->y[i], word);
    }
}

// Pixels x0 .. end-1 of row y; what sticks out of the picture repeats its last pixel.
static void pixel_row(const context *c, int x0, int end, int y, const places *chroma_at, const pixels *chroma)
{
    const gwb_pipe_code *code = &c->pass->code;
    const gwb_pipe_side *d = &code->dst;
    const int width = c->at.shape->width;
    places wanted = {.n = end - x0, .run = end <= width}, stored = wanted;
    pixels p;
    for (int i = 0; i < end - x0; i++) {
        stored.x[i] = x0 + i;
        wanted.x[i] = x0 + i < width ? x0 + i : width - 1;
        wanted.y[i] = stored.y[i] = y;
    }
    evaluate(c, code->links, &wanted, &p);
    if (code->word) {
        store_words(c, &stored, &p, chroma_at, chroma);
        return;
    }
    const bool sub = d->log2_w | d->log2_h;
    for (int k = 0; k < 4; k++)
        if (d->components >> k & 1 && (k == 0 || k == 3 || !sub))
            store(c, k, &stored, &p);
}

// Blocks of block row `by` from pixel x0 to end-1, as gwb_block in kernels/pipe_entry.h does them one by one.
static void block_row(const context *c, int by, int x0, int end)
{
    const gwb_pipe_code *code = &c->pass->code;
    const gwb_pipe_side *d = &code->dst;
    const int width = c->at.shape->width, height = c->at.shape->height;
    places wanted = {.n = 0}, stored = {.n = 0};
    pixels chroma;
    if (d->log2_w | d->log2_h) {
        const int last = (width - 1) >> d->log2_w;
        for (int cx = x0 >> d->log2_w; cx <= (end - 1) >> d->log2_w; cx++) {
            stored.x[stored.n] = cx;
            wanted.x[stored.n] = cx < last ? cx : last;
            wanted.y[stored.n] = stored.y[stored.n] = by;
            wanted.n = ++stored.n;
        }
        if (code->grid && c->at.item->flags & GWB_PIPE_GRID)
            grid_chroma(c, &wanted, &chroma);
        else
            mean_chroma(c, &wanted, &chroma);
        for (int k = 1; k < 3 && !code->word; k++)
            store(c, k, &stored, &chroma);
    }
    for (int y = by * code->block_h; y < (by + 1) * code->block_h && y < height; y++)
        pixel_row(c, x0, end, y, &stored, &chroma);
}

static void run_rows(void *data, int64_t first, int64_t end)
{
    const run *r = data;
    const int group = r->pass.code.group, block_h = r->pass.code.block_h;
    for (int64_t row = first; row < end; row++) {
        const gwb_pipe_item *item = &r->items[row / r->rows];
        const gwb_pipe_shape *shape = &r->shapes[item->shape];
        const context c = {&r->pass, {r->pass.stage, shape, item}};
        const int by = (int)(row % r->rows), row_end = (shape->width + group - 1) / group * group;
        if (by * (int64_t)block_h >= shape->height)
            continue;
        for (int x = 0; x < row_end; x += LIST)
            block_row(&c, by, x, row_end - x < LIST ? row_end : x + LIST);
    }
}

static void run_all(void *data)
{
    run *r = data;
    gwb_parallel((int64_t)r->count * r->rows, 1 + 4096 / r->shapes[0].width, run_rows, r);
}

int gwb_host_pipe(gwb_queue *q, const gwb_pipe_launch *l)
{
    const size_t shapes = (size_t)l->shape_count * sizeof *l->shapes, items = (size_t)l->count * sizeof *l->items;
    run *r = malloc(sizeof *r + shapes + items);
    if (!r)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    r->pass = *l->pass;
    r->count = l->count;
    r->rows = (l->height - 1) / r->pass.code.block_h + 1;
    r->shapes = (gwb_pipe_shape *)r->space;
    r->items = (gwb_pipe_item *)((uint8_t *)r->space + shapes);
    memcpy(r->shapes, l->shapes, shapes);
    memcpy(r->items, l->items, items);
    return q->dev->ops->call(q, run_all, r, free);
}
