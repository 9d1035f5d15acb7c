// SPDX-License-Identifier: MIT
// Pipelines on the host: the stages of kernels/stages.h over lists of pixels that stay in the L1 cache, spread over the threads. A stage that moves
// pixels asks the stage before it for the list of those it needs, so nothing is computed that is not looked at.
#include "pipe.h"

#include "host/clones.h"
#include "host/parallel.h"

#include "../../kernels/pipe.h"

#include <stdlib.h>
#include <string.h>

enum { LIST = 120 };    // pixels of a list: a multiple of every block's width

typedef struct run {
    gwb_pass pass;
    int count;
    gwb_pipe_item item[];
} run;

// ---- the source

#define EACH_KIND(_) \
    switch (io->src_kind) { \
    case GWB_SAMPLE_U8: _(GWB_SAMPLE_U8) break; \
    case GWB_SAMPLE_U16: _(GWB_SAMPLE_U16) break; \
    case GWB_SAMPLE_U32: _(GWB_SAMPLE_U32) break; \
    case GWB_SAMPLE_F16: _(GWB_SAMPLE_F16) break; \
    case GWB_SAMPLE_F32: _(GWB_SAMPLE_F32) break; \
    default: _(GWB_SAMPLE_V210) break; \
    }

GWB_CLONES static void read_source(const run *r, const gwb_pipe_item *item, int n, const int *xs, const int *ys, gwb_px *out)
{
    const gwb_pipe_args *a = &r->pass.args;
    const gwb_convert_args *io = &a->io;
    const int w = io->src_log2_w, h = io->src_log2_h;
    for (int k = 0; k < 4; k++) {
        if (!(r->pass.src_components >> k & 1)) {
            for (int i = 0; i < n; i++)
                out[i].c[k] = 0.0f;
        } else if (k == 0 || k == 3 || !(w | h)) {
#define PLAIN(kind) \
            for (int i = 0; i < n; i++) \
                out[i].c[k] = gwb_pipe_sample(kind, &io->src[k], item->src[k], item->src_step[k], xs[i], ys[i]);
            EACH_KIND(PLAIN)
        } else {
#define BETWEEN(kind) \
            for (int i = 0; i < n; i++) \
                out[i].c[k] = gwb_pipe_resample(a, item, kind, k, w, h, xs[i], ys[i]);
            EACH_KIND(BETWEEN)
        }
    }
}

// ---- stages

static void evaluate(const run *r, const gwb_pipe_item *item, int link, int n, const int *xs, const int *ys, gwb_px *out);

GWB_CLONES static void change_values(const gwb_pipe_stage *s, int value, int n, const int *xs, const int *ys, gwb_px *out)
{
    switch (value) {
#define ROW(name) \
    case GWB_PIPE_VALUE_##name: \
        for (int i = 0; i < n; i++) \
            out[i] = gwb_stage_##name(s, out[i], xs[i], ys[i]); \
        break;
    GWB_PIPE_VALUES(ROW)
#undef ROW
    }
}

static void between_lines(const run *r, const gwb_pipe_item *item, int link, const gwb_pipe_move *m, int n, const int *xs, const int *ys, gwb_px *out)
{
    int x0[LIST] = {0}, x1[LIST] = {0}, y0[LIST] = {0}, y1[LIST] = {0};
    float tx[LIST], ty[LIST];
    gwb_px p10[LIST], p01[LIST], p11[LIST];
    for (int i = 0; i < n; i++) {
        tx[i] = gwb_at_linear(m, 0, xs[i], &x0[i], &x1[i]);
        ty[i] = gwb_at_linear(m, 1, ys[i], &y0[i], &y1[i]);
    }
    evaluate(r, item, link - 1, n, x0, y0, out);
    evaluate(r, item, link - 1, n, x1, y0, p10);
    evaluate(r, item, link - 1, n, x0, y1, p01);
    evaluate(r, item, link - 1, n, x1, y1, p11);
    for (int i = 0; i < n; i++)
        out[i] = gwb_pipe_bilinear(out[i], p10[i], p01[i], p11[i], tx[i], ty[i]);
}

static void cubic(const run *r, const gwb_pipe_item *item, int link, const gwb_pipe_stage *s, const gwb_pipe_move *m, int n, const int *xs,
                  const int *ys, gwb_px *out)
{
    int x[LIST] = {0}, y[LIST] = {0};
    float wx[LIST][4], wy[LIST][4];
    gwb_px tap[LIST], row[LIST];
    for (int i = 0; i < n; i++) {
        int unused[2];
        gwb_cubic(s->f[0], gwb_at_linear(m, 0, xs[i], &unused[0], &unused[1]), wx[i]);
        gwb_cubic(s->f[0], gwb_at_linear(m, 1, ys[i], &unused[0], &unused[1]), wy[i]);
        out[i] = gwb_pipe_zero();
    }
    for (int j = 0; j < 4; j++) {
        for (int i = 0; i < n; i++) {
            y[i] = gwb_clamp((int)((m->offset[1] + m->scale[1] * ys[i]) >> 32) - 1 + j, m->height - 1);
            row[i] = gwb_pipe_zero();
        }
        for (int t = 0; t < 4; t++) {
            for (int i = 0; i < n; i++)
                x[i] = gwb_clamp((int)((m->offset[0] + m->scale[0] * xs[i]) >> 32) - 1 + t, m->width - 1);
            evaluate(r, item, link - 1, n, x, y, tap);
            for (int i = 0; i < n; i++)
                row[i] = gwb_pipe_add(row[i], tap[i], wx[i][t]);
        }
        for (int i = 0; i < n; i++)
            out[i] = gwb_pipe_add(out[i], row[i], wy[i][j]);
    }
}

static void weigh(const run *r, const gwb_pipe_item *item, int link, const gwb_pipe_stage *s, const gwb_pipe_move *m, int axis, int n, const int *xs,
                  const int *ys, gwb_px *out)
{
    int at[LIST] = {0};
    gwb_px tap[LIST];
    const int *along = axis ? ys : xs;
    const int last = (axis ? m->height : m->width) - 1;
    for (int i = 0; i < n; i++)
        out[i] = gwb_pipe_zero();
    for (int t = 0; t < s->i[0]; t++) {
        const float *weights = (const float *)(s->table + (1 + t) * s->step);
        for (int i = 0; i < n; i++)
            at[i] = gwb_clamp(((const int32_t *)s->table)[along[i]] + t, last);
        evaluate(r, item, link - 1, n, axis ? xs : at, axis ? at : ys, tap);
        for (int i = 0; i < n; i++)
            out[i] = gwb_pipe_add(out[i], tap[i], weights[along[i]]);
    }
}

// Pixels that may lie outside: inside ones are asked for, the others are the border's.
static void bordered(const run *r, const gwb_pipe_item *item, int link, int mode, gwb_px border, const gwb_pipe_move *m, int n, const int *xs, const int *ys,
                     gwb_px *out)
{
    int x[LIST] = {0}, y[LIST] = {0}, inside[LIST];
    for (int i = 0; i < n; i++)
        inside[i] = gwb_border(mode, xs[i], m->width, &x[i]) & gwb_border(mode, ys[i], m->height, &y[i]);
    evaluate(r, item, link - 1, n, x, y, out);
    for (int i = 0; i < n; i++)
        if (!inside[i])
            out[i] = border;
}

static void warp(const run *r, const gwb_pipe_item *item, int link, const gwb_pipe_stage *s, const gwb_pipe_move *m, bool remap, int n, const int *xs,
                 const int *ys, gwb_px *out)
{
    int x0[LIST] = {0}, x1[LIST] = {0}, y0[LIST] = {0}, y1[LIST] = {0};
    float tx[LIST], ty[LIST];
    gwb_px p10[LIST], p01[LIST], p11[LIST], border = {{s->f[12], s->f[13], s->f[14], s->f[15]}};
    for (int i = 0; i < n; i++) {
        float sx, sy;
        if (remap)
            gwb_at_remap(s, xs[i], ys[i], &sx, &sy);
        else
            gwb_at_warp(s, xs[i], ys[i], &sx, &sy);
        x0[i] = gwb_floor_tap(s->i[1] ? sx : sx + 0.5f, m->width, &tx[i]);
        y0[i] = gwb_floor_tap(s->i[1] ? sy : sy + 0.5f, m->height, &ty[i]);
        x1[i] = x0[i] + 1;
        y1[i] = y0[i] + 1;
    }
    bordered(r, item, link, s->i[0], border, m, n, x0, y0, out);
    if (!s->i[1])
        return;
    bordered(r, item, link, s->i[0], border, m, n, x1, y0, p10);
    bordered(r, item, link, s->i[0], border, m, n, x0, y1, p01);
    bordered(r, item, link, s->i[0], border, m, n, x1, y1, p11);
    for (int i = 0; i < n; i++)
        out[i] = gwb_pipe_bilinear(out[i], p10[i], p01[i], p11[i], tx[i], ty[i]);
}

// The pixels (xs[i], ys[i]) behind link `link` of the pass; link 0 is the source.
static void evaluate(const run *r, const gwb_pipe_item *item, int link, int n, const int *xs, const int *ys, gwb_px *out)
{
    if (link == 0) {
        read_source(r, item, n, xs, ys, out);
        return;
    }
    const gwb_link *l = &r->pass.link[link - 1];
    const gwb_pipe_stage *s = l->k >= 0 ? &r->pass.args.stage[l->k] : NULL;
    const gwb_pipe_move *m = l->m >= 0 ? &item->move[l->m] : NULL;
    int x[LIST] = {0}, y[LIST] = {0};
    switch (l->kind) {
    case GWB_LINK_VALUE:
        evaluate(r, item, link - 1, n, xs, ys, out);
        change_values(s, l->value, n, xs, ys, out);
        break;
    case GWB_LINK_MOVE:
        for (int i = 0; i < n; i++)
            gwb_at_move(m, xs[i], ys[i], &x[i], &y[i]);
        evaluate(r, item, link - 1, n, x, y, out);
        break;
    case GWB_LINK_NEAREST:
        for (int i = 0; i < n; i++) {
            x[i] = gwb_at_nearest(m, 0, xs[i]);
            y[i] = gwb_at_nearest(m, 1, ys[i]);
        }
        evaluate(r, item, link - 1, n, x, y, out);
        break;
    case GWB_LINK_BILINEAR: between_lines(r, item, link, m, n, xs, ys, out); break;
    case GWB_LINK_CUBIC: cubic(r, item, link, s, m, n, xs, ys, out); break;
    case GWB_LINK_TABLE_X: weigh(r, item, link, s, m, 0, n, xs, ys, out); break;
    case GWB_LINK_TABLE_Y: weigh(r, item, link, s, m, 1, n, xs, ys, out); break;
    case GWB_LINK_PAD:
        for (int i = 0; i < n; i++) {
            x[i] = xs[i] + m->at[0];
            y[i] = ys[i] + m->at[1];
        }
        bordered(r, item, link, s->i[0], gwb_pipe_constant(s), m, n, x, y, out);
        break;
    case GWB_LINK_WARP: warp(r, item, link, s, m, false, n, xs, ys, out); break;
    case GWB_LINK_REMAP: warp(r, item, link, s, m, true, n, xs, ys, out); break;
    }
}

// ---- the destination

static void store(const run *r, const gwb_pipe_item *item, int k, int n, const int *xs, int y, const gwb_px *px)
{
    const gwb_convert_args *io = &r->pass.args.io;
    const gwb_samples *d = &io->dst[k];
    uint8_t *row = item->dst[k] + item->dst_step[k] * y;
    switch (io->dst_kind) {
#define STORE(kind) \
    case kind: \
        for (int i = 0; i < n; i++) \
            gwb_store_sample(kind, row, xs[i], d->pitch, d->shift, io->limit[k], px[i].c[k]); \
        break;
    STORE(GWB_SAMPLE_U8)
    STORE(GWB_SAMPLE_U16)
    STORE(GWB_SAMPLE_F16)
    STORE(GWB_SAMPLE_F32)
    }
}

// Adds component k of pixel position x to the words of its group.
static void add_word(const run *r, int k, int x, float value, uint32_t *word)
{
    const gwb_convert_args *io = &r->pass.args.io;
    const gwb_samples *d = &io->dst[k];
    const uint32_t code = gwb_code(value, io->limit[k]);
    if (io->dst_kind == GWB_SAMPLE_V210) {
        const int slot = (x * d->pitch + d->lane) % 12;
        word[slot / 3] |= code << slot % 3 * 10;
    } else {
        word[0] |= code << d->shift;
    }
}

static void put_words(const run *r, const gwb_pipe_item *item, int x, int y, const uint32_t *word)
{
    uint8_t *row = item->dst[0] + item->dst_step[0] * y;
    const int kind = r->pass.args.io.dst_kind;
    if (kind == GWB_SAMPLE_U16)
        ((uint16_t *)row)[x] = (uint16_t)word[0];
    else if (kind == GWB_SAMPLE_U32)
        ((uint32_t *)row)[x] = word[0];
    else
        memcpy(row + (int64_t)x / 6 * 16, word, 16);
}

// Blocks of block row `by` that begin at pixels x0 .. end-1, as gwb_pipe_block in kernels/pipe.h does them one by one.
static void block_row(const run *r, const gwb_pipe_item *item, int by, int x0, int end)
{
    const gwb_convert_args *io = &r->pass.args.io;
    const int width = io->width, height = io->height, links = r->pass.links, sub = io->dst_log2_w | io->dst_log2_h;
    int xs[LIST], ys[LIST], stored[LIST], chroma_at[LIST], chroma = 0;
    gwb_px px[LIST], sum[LIST], tap[LIST];
    if (sub) {
        const gwb_taps *tx = &io->down_x, *ty = &io->down_y;
        const int last = (width - 1) >> io->dst_log2_w;
        for (int cx = x0 >> io->dst_log2_w; cx <= (end - 1) >> io->dst_log2_w; cx++)
            chroma_at[chroma++] = cx;
        for (int i = 0; i < chroma; i++)
            sum[i] = gwb_pipe_zero();
        for (int j = 0; j < ty->count; j++)
            for (int t = 0; t < tx->count; t++) {
                for (int i = 0; i < chroma; i++) {
                    const int at = chroma_at[i] < last ? chroma_at[i] : last;
                    xs[i] = gwb_clamp(at * tx->scale + tx->base[0] + t, width - 1);
                    ys[i] = gwb_clamp(by * ty->scale + ty->base[0] + j, height - 1);
                }
                evaluate(r, item, links, chroma, xs, ys, tap);
                for (int i = 0; i < chroma; i++)
                    sum[i] = gwb_pipe_add(sum[i], tap[i], tx->weight[0][t] * ty->weight[0][j]);
            }
        for (int k = 1; k < 3 && !io->word; k++)
            store(r, item, k, chroma, chroma_at, by, sum);
    }
    for (int y = by * io->block_h; y < (by + 1) * io->block_h && y < height; y++) {
        int n = 0;
        for (int x = x0; x < end; x++, n++) {
            stored[n] = x;
            xs[n] = x < width ? x : width - 1;
            ys[n] = y;
        }
        evaluate(r, item, links, n, xs, ys, px);
        if (io->word) {
            for (int i = 0; i < n; i += io->block_w) {
                uint32_t word[4] = {0, 0, 0, 0};
                for (int j = i; j < i + io->block_w && j < n; j++)
                    for (int k = 0; k < 4; k++)
                        if (r->pass.dst_components >> k & 1 && (k == 0 || k == 3 || !sub))
                            add_word(r, k, stored[j], px[j].c[k], word);
                for (int c = i >> io->dst_log2_w; sub && c < (i + io->block_w) >> io->dst_log2_w && c < chroma; c++)
                    for (int k = 1; k < 3; k++)
                        add_word(r, k, chroma_at[c], sum[c].c[k], word);
                put_words(r, item, stored[i], y, word);
            }
            continue;
        }
        for (int k = 0; k < 4; k++)
            if (r->pass.dst_components >> k & 1 && (k == 0 || k == 3 || !sub))
                store(r, item, k, n, stored, y, px);
    }
}

static void run_rows(void *context, int64_t first, int64_t end)
{
    const run *r = context;
    const gwb_convert_args *io = &r->pass.args.io;
    const int row_end = (io->width + io->group - 1) / io->group * io->group;
    for (int64_t row = first; row < end; row++) {
        const gwb_pipe_item *item = &r->item[row / r->pass.ny];
        for (int x = 0; x < row_end; x += LIST)
            block_row(r, item, (int)(row % r->pass.ny), x, row_end - x < LIST ? row_end : x + LIST);
    }
}

static void run_all(void *context)
{
    run *r = context;
    gwb_parallel((int64_t)r->count * r->pass.ny, 1 + 4096 / r->pass.width, run_rows, r);
    free(r);
}

int gwb_host_pipe(gwb_queue *q, const gwb_pass *pass, const gwb_pipe_item *items, int count)
{
    run *r = malloc(sizeof *r + (size_t)count * sizeof *items);
    if (!r)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    r->pass = *pass;
    r->count = count;
    memcpy(r->item, items, (size_t)count * sizeof *items);
    int rc = q->dev->ops->call(q, run_all, r);
    if (rc < 0)
        free(r);
    return rc;
}
