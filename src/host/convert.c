// SPDX-License-Identifier: MIT
// Conversion on the host: pieces of rows that stay in the L1 cache go through unpack, resample, mix and pack. What a sample undergoes, and in
// which order, is what kernels/convert.h states, so that both devices give the same bits.
#include "host/kernels.h"

#include "host/convert_rows.h"

#include "mosaic.h"

#include <string.h>

// Pixels of a piece: a multiple of every group and phase; and room for taps beyond both ends.
enum { PIECE = 480, ROOM = PIECE + 32 };

typedef float line[ROOM];

typedef struct piece {
    line c[4];      // source components, at pixels or at the destination's chroma samples
    line d[4];      // destination components
    line chroma[3]; // 1 and 2: the destination's chroma where it is subsampled
    line sum[4];    // weighted sums of rows
    line mean[3];   // and of rows of pixels, which may need sums themselves
    line raw[5];    // rows as they were unpacked
} piece;

static void fill(float *out, float value, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = value;
}

static int sample_size(int kind)
{
    return kind == GWB_SAMPLE_U8 ? 1 : kind == GWB_SAMPLE_U16 || kind == GWB_SAMPLE_F16 ? 2 : 4;
}

// ---- rows in memory

// The components of the mask that lie interleaved with component i, as whole samples of one plane; i itself among them.
static int companions(const gwb_samples *s, int size, int mask, int i)
{
    int list = 1 << i, lanes = 1 << s[i].lane;
    for (int k = i + 1; k < 4; k++)
        if (mask >> k & 1 && s[k].pitch == s[i].pitch && s[k].data - s[k].lane * size == s[i].data - s[i].lane * size && !(lanes >> s[k].lane & 1)) {
            list |= 1 << k;
            lanes |= 1 << s[k].lane;
        }
    return list;
}

// Samples x0 .. x0+n-1 of row y of the masked components. `c` and `spare` hold four lines each.
static void unpack(const gwb_convert_args *a, int mask, int y, int x0, int n, line *c, line *spare)
{
    const int kind = a->src_kind, size = sample_size(kind);
    for (int i = 0; i < 4; i++) {
        const gwb_samples *s = &a->src[i];
        if (!(mask >> i & 1))
            continue;
        const uint8_t *row = s->data + y * s->step;
        if (kind == GWB_SAMPLE_V210) {
            gwb_rows_unpack_v210(s, row, x0, n, c[i]);
            continue;
        }
        float *out[4] = {spare[0], spare[1], spare[2], spare[3]};
        const int list = companions(a->src, size, mask, i);
        for (int k = i; k < 4; k++)
            if (list >> k & 1)
                out[a->src[k].lane] = c[k];
        gwb_rows_unpack(kind, s->pitch / size, row - s->lane * size + (int64_t)x0 * s->pitch, s->shift, s->mask, n, out);
        mask &= ~list;
    }
}

// The same to the destination, where groups are no more than pixels: every plane's samples are all in the mask, or none.
static void pack(const gwb_convert_args *a, int mask, int y, int x0, int n, line *d)
{
    const int kind = a->dst_kind, size = sample_size(kind);
    for (int i = 0; i < 4; i++) {
        const gwb_samples *s = &a->dst[i];
        if (!(mask >> i & 1))
            continue;
        const float *in[4] = {0};
        const int list = companions(a->dst, size, mask, i);
        for (int k = i; k < 4; k++)
            if (list >> k & 1)
                in[a->dst[k].lane] = d[k];
        gwb_rows_pack(kind, s->pitch / size, s->data - s->lane * size + y * s->step + (int64_t)x0 * s->pitch, s->shift, a->limit[i], n, in);
        mask &= ~list;
    }
}

// The same where a group is more than a pixel, or shares words: n pixels are whole groups, with their chroma.
static void pack_groups(const gwb_convert_args *a, int y, int x0, int n, piece *p)
{
    const gwb_samples *s = &a->dst[0];
    uint8_t *row = s->data + y * s->step;
    const int size = sample_size(a->dst_kind);
    if (a->dst_kind == GWB_SAMPLE_V210) {
        gwb_rows_pack_v210((uint32_t *)(row + (int64_t)x0 / 6 * 16), a->limit[0], n / 6, p->d[0], p->chroma[1], p->chroma[2]);
    } else if (a->word) {
        const float *in[3] = {p->d[0], p->d[1], p->d[2]};
        gwb_rows_pack_words(a->dst, a->dst_kind, row + (int64_t)x0 * size, a->limit, n, in, a->alpha_fill);
    } else {
        const float *in[4];
        in[s->lane] = p->raw[0];
        in[s->lane + 2] = p->raw[1];
        in[a->dst[1].lane] = p->chroma[1];
        in[a->dst[2].lane] = p->chroma[2];
        gwb_rows_split(p->d[0], n / 2, p->raw[0], p->raw[1]);
        gwb_rows_pack(a->dst_kind, 4, row - s->lane * size + (int64_t)x0 * 2 * size, s->shift, a->limit[0], n / 2, in);
    }
}

// ---- source components

// The inputs of outputs x0 .. x0+n-1: `low` is the first tap's, and `first`, `end` are what of them exists.
typedef struct span {
    int low, high, first, end;
} span;

static span span_of(const gwb_taps *t, int x0, int n)
{
    int least = t->base[0], most = t->base[0];
    for (int p = 1; p < 1 << t->phase_bits; p++) {
        least = t->base[p] < least ? t->base[p] : least;
        most = t->base[p] > most ? t->base[p] : most;
    }
    span s = {.low = (x0 >> t->phase_bits) * t->scale + least, .high = ((x0 + n - 1) >> t->phase_bits) * t->scale + most + t->count - 1};
    s.first = gwb_clamp(s.low, t->last);
    s.end = gwb_clamp(s.high, t->last) + 1;
    return s;
}

// Repeats the outermost inputs that exist where taps reach beyond them; `in[0]` is input s.low.
static void extend(float *in, span s)
{
    for (int i = s.low; i < s.first; i++)
        in[i - s.low] = in[s.first - s.low];
    for (int i = s.end; i <= s.high; i++)
        in[i - s.low] = in[s.end - 1 - s.low];
}

// Outputs x0 .. x0+n-1 of row y of the masked components, into `out`.
static void resample(const gwb_convert_args *a, piece *p, int mask, const gwb_taps *tx, const gwb_taps *ty, int y, int x0, int n, line *out)
{
    const span s = span_of(tx, x0, n);
    const int row = gwb_taps_first(ty, y), shift = s.first - s.low, count = s.end - s.first;
    const float *weight = ty->weight[y & ((1 << ty->phase_bits) - 1)];
    for (int j = 0; j < ty->count; j++) {
        unpack(a, mask, gwb_clamp(row + j, ty->last), s.first, count, p->raw, out);
        for (int i = 0; i < 4; i++)
            if (mask >> i & 1)
                gwb_rows_add(p->sum[i] + shift, p->raw[i], weight[j], j == 0, count);
    }
    for (int i = 0; i < 4; i++)
        if (mask >> i & 1) {
            extend(p->sum[i], s);
            gwb_rows_resample(tx, p->sum[i], s.low, x0, n, out[i]);
        }
}

static void blend(const gwb_convert_args *a, piece *p, int needs, int n)
{
    for (int i = 0; i < 3; i++)
        if (needs >> i & 1)
            gwb_rows_blend(p->c[i], a->background[i], p->c[3], a->blend_scale, n);
}

// Pixels x0 .. x0+n-1 of row y of a mosaic, into p->c.
static void demosaic(const gwb_convert_args *a, piece *p, int y, int x0, int n)
{
    const int last = a->width - 1, first = gwb_clamp(x0 - 2, last), end = gwb_clamp(x0 + n + 1, last) + 1;
    const float *rows[5];
    for (int j = 0; j < 5; j++) {
        float *row = p->raw[j];     // index 0 is x0 - 2
        gwb_rows_unpack(a->src_kind, 1, a->src[0].data + gwb_mirror(y + j - 2, a->height - 1) * a->src[0].step + (int64_t)first * a->src[0].pitch, 0,
            a->src[0].mask, end - first, (float *[4]){row + first - (x0 - 2)});
        for (int x = x0 - 2; x < first; x++)
            row[x - (x0 - 2)] = row[gwb_mirror(x, last) - (x0 - 2)];
        for (int x = end; x < x0 + n + 2; x++)
            row[x - (x0 - 2)] = row[gwb_mirror(x, last) - (x0 - 2)];
        rows[j] = row + 2;
    }
    gwb_rows_demosaic(rows, a->red, a->bilinear, x0, y, n, (float *[3]){p->c[0], p->c[1], p->c[2]});
}

// The source's components at pixels x0 .. x0+n-1 of row y, into p->c.
static void fetch_codes(const gwb_convert_args *a, piece *p, int needs, int y, int x0, int n)
{
    if (a->mosaic) {
        demosaic(a, p, y, x0, n);
        return;
    }
    const int sub = a->src_log2_w | a->src_log2_h;
    const int whole = (sub ? needs & 1 : needs) | (a->src[3].data ? 8 : 0);
    if (sub && needs & 6)
        resample(a, p, needs & 6, &a->up_x, &a->up_y, y, x0, n, p->c);
    unpack(a, whole, y, x0, n, p->c, p->raw);
    if (a->blend_scale != 0)
        blend(a, p, needs, n);
}

// The same in the destination's light.
static void fetch(const gwb_convert_args *a, piece *p, int needs, int y, int x0, int n)
{
    fetch_codes(a, p, a->light.on ? a->source_needs : needs, y, x0, n);
    if (!a->light.on)
        return;
    for (int i = 0; i < 3; i++)
        if (!(a->source_needs >> i & 1))
            fill(p->c[i], a->source_mix.from[i], n);
    const float *code[3] = {p->c[0], p->c[1], p->c[2]};
    for (int i = 0; i < 3; i++)
        gwb_rows_mix(&a->source_mix, i, code, n, p->raw[i]);
    gwb_rows_light(&a->light, n, p->raw[0], p->raw[1], p->raw[2]);
    for (int i = 0; i < 3; i++)
        memcpy(p->c[i], p->raw[i], (size_t)n * sizeof(float));
}

// The same at chroma samples x0 .. x0+n-1 of row y of the destination.
static void fetch_chroma(const gwb_convert_args *a, piece *p, int y, int x0, int n)
{
    const int needs = a->chroma_needs;
    if (!needs)
        return;
    if ((a->src_log2_w | a->src_log2_h) && !a->light.on) {
        resample(a, p, needs, &a->down_x, &a->down_y, y, x0, n, p->c);
        if (a->blend_scale != 0) {
            resample(a, p, 8, &a->alpha_x, &a->alpha_y, y, x0, n, p->c);
            blend(a, p, needs, n);
        }
        return;
    }
    const gwb_taps *tx = &a->down_x, *ty = &a->down_y;
    const span s = span_of(tx, x0, n);
    const int row = gwb_taps_first(ty, y), count = s.end - s.first;
    for (int j = 0; j < ty->count; j++) {
        fetch(a, p, needs, gwb_clamp(row + j, ty->last), s.first, count);
        for (int i = 0; i < 3; i++)
            if (needs >> i & 1)
                gwb_rows_add(p->mean[i] + s.first - s.low, p->c[i], ty->weight[0][j], j == 0, count);
    }
    for (int i = 0; i < 3; i++)
        if (needs >> i & 1) {
            extend(p->mean[i], s);
            gwb_rows_resample(tx, p->mean[i], s.low, x0, n, p->c[i]);
        }
}

// ---- destination components

// Components of the mask from p->c into `out`.
static void mix(const gwb_convert_args *a, piece *p, int needs, int mask, int n, line *out)
{
    for (int i = 0; i < 3; i++)
        if (!(needs >> i & 1) && (!a->mix.diagonal || mask >> i & 1))
            fill(p->c[i], a->mix.from[i], n);
    const float *c[3] = {p->c[0], p->c[1], p->c[2]};
    for (int i = 0; i < 3; i++)
        if (mask >> i & 1)
            gwb_rows_mix(&a->mix, i, c, n, out[i]);
    if (mask & 8) {
        if (a->alpha_scale != 0)
            gwb_rows_scale(p->c[3], a->alpha_scale, n, out[3]);
        else
            fill(out[3], a->alpha_fill, n);
    }
}

static void dither(const gwb_convert_args *a, int mask, int y, int x0, int n, line *d)
{
    for (int i = 0; a->dither && i < 3; i++)
        if (mask >> i & 1)
            gwb_rows_dither(a->dither, x0, y, n, d[i]);
}

static void repeat_last(float *out, int n, int stored)
{
    for (int i = n; i < stored; i++)
        out[i] = out[n - 1];
}

// Row `by` of blocks, pixels x0 .. x0+n-1.
static void convert_piece(const gwb_convert_args *a, piece *p, int by, int x0, int n)
{
    const int sub = a->dst_log2_w | a->dst_log2_h, stored = (n + a->group - 1) / a->group * a->group;
    const int y0 = by * a->block_h, y1 = a->height - y0 < a->block_h ? a->height : y0 + a->block_h;
    int present = 0;
    for (int i = 0; i < 4; i++)
        present |= a->dst[i].data ? 1 << i : 0;
    if (sub) {
        const int cx = x0 >> a->dst_log2_w, cn = ((x0 + n - 1) >> a->dst_log2_w) + 1 - cx;
        const int chroma_stored = ((x0 + stored - 1) >> a->dst_log2_w) + 1 - cx;
        fetch_chroma(a, p, by, cx, cn);
        mix(a, p, a->chroma_needs, 6, cn, p->chroma);
        for (int i = 1; i < 3; i++)
            repeat_last(p->chroma[i], cn, chroma_stored);
        dither(a, 6, by, cx, chroma_stored, p->chroma);
        if (a->group == 1)
            pack(a, 6, by, cx, chroma_stored, p->chroma);
    }
    const int mask = sub ? present & 9 : present;
    for (int y = y0; y < y1; y++) {
        fetch(a, p, a->luma_needs, y, x0, n);
        mix(a, p, a->luma_needs, mask, n, p->d);
        repeat_last(p->d[0], n, stored);
        dither(a, mask, y, x0, stored, p->d);
        if (a->word || a->group > 1)
            pack_groups(a, y, x0, stored, p);
        else
            pack(a, mask, y, x0, stored, p->d);
    }
}

void gwb_host_convert(const void *args, int32_t nx, int32_t y0, int32_t y1, int32_t z)
{
    (void)nx;
    const gwb_convert_args *a = args;
    const int64_t first = (int64_t)z * GWB_BAND, rows = ((int64_t)a->height + a->block_h - 1) / a->block_h;
    piece p;
    for (int64_t by = first + y0; by < first + y1 && by < rows; by++)
        for (int64_t x0 = 0; x0 < a->width; x0 += PIECE)
            convert_piece(a, &p, (int)by, (int)x0, a->width - x0 < PIECE ? (int)(a->width - x0) : PIECE);
}
