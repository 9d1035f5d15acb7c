// SPDX-License-Identifier: MIT
// Goes through a JPEG's coded data, baseline or progressive, code by code, and makes no pixels: whether every block is there, and no more.
#include "jpg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct table {
    bool there;
    int32_t limit[18];          // codes of a length, left-justified to 16 bits, are below this; [17] is above all
    int32_t offset[17];         // from a code of a length to its value
    uint8_t values[256];
    uint8_t fast[512];          // by the next nine bits: the length of the code; 0: longer
} table;

typedef struct component {
    int32_t across, down;       // blocks that the picture needs
    int32_t row;                // blocks of a row in `seen`
    uint64_t *seen;             // progressive: a bit for each coefficient that is not 0
    int dc, ac;                 // tables
    bool coded;                 // a scan brings its DC
} component;

typedef struct check {
    const gwb_jpg *f;
    const uint8_t *at, *end;
    const uint8_t *sound;       // what stands in front of it is right, and no segment is cut there
    uint64_t word;              // the next bits, `bits` of them, at the low end
    int bits;
    bool dry;                   // more was needed than there is before the next marker
    bool bad;                   // a code that is none
    table tables[2][4];         // DC, AC
    component part[4];
    int restart;                // MCUs between restart marks; 0: none
    int first, last, high, low; // of a progressive scan
    int run;                    // blocks that are still at their end
} check;

static void build(table *t, const uint8_t *counts, const uint8_t *values)
{
    int code = 0, k = 0;
    memset(t, 0, sizeof *t);
    t->there = true;
    for (int length = 1; length <= 16; length++, code <<= 1) {
        t->offset[length] = k - code;
        for (int i = 0; i < counts[length - 1]; i++, k++, code++) {
            t->values[k] = values[k];
            if (length > 9) continue;
            int from = code << (9 - length);
            for (int j = 0; j < 1 << (9 - length) && from + j < 512; j++) t->fast[from + j] = (uint8_t)length;
        }
        t->limit[length] = code << (16 - length);
    }
    t->limit[17] = INT32_MAX;
}

static void fill(check *c)
{
    while (c->bits <= 48) {
        int byte = 0;
        if (c->at < c->end && (c->at[0] != 0xff || (c->at + 1 < c->end && c->at[1] == 0))) {
            byte = c->at[0];
            c->at += byte == 0xff ? 2 : 1;
        } else {
            return;
        }
        c->word = c->word << 8 | (unsigned)byte;
        c->bits += 8;
    }
}

// The next n bits (up to 16), zeros behind the end.
static int peek(check *c, int n)
{
    if (c->bits < n) fill(c);
    if (c->bits >= n) return (int)(c->word >> (c->bits - n) & ((1u << n) - 1));
    return (int)(c->word << (n - c->bits) & ((1u << n) - 1));
}

static void drop(check *c, int n)
{
    if (c->bits < n) {
        c->dry = true;
        c->bits = 0;
    } else {
        c->bits -= n;
    }
}

static int take(check *c, int n)
{
    int v = n ? peek(c, n) : 0;
    drop(c, n);
    return v;
}

static int decode(check *c, const table *t)
{
    int next = peek(c, 16), length = t->fast[next >> 7];
    if (!length) for (length = 1; next >= t->limit[length]; length++) continue;
    if (length > 16) {
        c->bad = true;
        return 0;
    }
    drop(c, length);
    return t->values[((next >> (16 - length)) + t->offset[length]) & 255];
}

static void block_baseline(check *c, component *p)
{
    int size = decode(c, &c->tables[0][p->dc]);
    if (size > 11) c->bad = true;
    take(c, size & 15);
    const table *t = &c->tables[1][p->ac];
    for (int k = 1; k < 64 && !c->bad; k++) {
        int code = decode(c, t), bits = code & 15;
        if (!bits && code != 0xf0) break;
        k += code >> 4;
        if (k > 63) c->bad = true;
        take(c, bits);
    }
}

// A refining scan: what is not 0 already takes a bit, and up to `zeros` others are passed. Returns where it stops.
static int refine(check *c, uint64_t seen, int k, int zeros)
{
    for (; k <= c->last; k++) {
        if (seen >> k & 1) take(c, 1);
        else if (zeros-- == 0) break;
    }
    return k;
}

static void block_progressive(check *c, component *p, uint64_t *seen)
{
    if (c->first == 0) {
        int size = c->high ? 1 : decode(c, &c->tables[0][p->dc]);
        if (size > 15) c->bad = true;
        take(c, size & 15);
        return;
    }
    const table *t = &c->tables[1][p->ac];
    int k = c->first;
    while (c->run == 0 && k <= c->last && !c->bad && !c->dry) {
        int code = decode(c, t), zeros = code >> 4, bits = code & 15;
        if (!bits && zeros < 15) {
            c->run = (1 << zeros) + take(c, zeros);
            break;
        }
        if (c->high) {
            if (bits > 1) c->bad = true;
            take(c, bits);
            k = refine(c, *seen, k, zeros);
        } else {
            k += zeros;
            take(c, bits);
        }
        if (bits && k > c->last) c->bad = true;
        else if (bits) *seen |= UINT64_C(1) << k;
        k++;
    }
    if (c->run > 0) {
        if (c->high) refine(c, *seen, k, 64);
        c->run--;
    }
}

static void block(check *c, component *p, int32_t x, int32_t y)
{
    if (p->seen) block_progressive(c, p, &p->seen[(int64_t)y * p->row + x]);
    else block_baseline(c, p);
}

// Behind the last block of a scan or an interval: less than a byte may be left, and what stands before the next marker means nothing.
static bool at_marker(check *c)
{
    if (c->bits >= 8) return false;
    c->bits = 0;
    c->run = 0;
    while (c->at < c->end && (c->at[0] == 0 || (c->at[0] == 0xff && (c->at + 1 >= c->end || c->at[1] == 0xff || c->at[1] == 0)))) c->at++;
    return c->at + 1 < c->end && c->at[0] == 0xff;
}

// The blocks of a scan with these components. False with the reason in `text`.
static bool scan(check *c, component *const parts[], const int h[], const int v[], int count, char text[96])
{
    bool alone = count == 1;
    int32_t across = alone ? parts[0]->across : (c->f->width + 8 * c->f->h_max - 1) / (8 * c->f->h_max);
    int32_t down = alone ? parts[0]->down : (c->f->height + 8 * c->f->v_max - 1) / (8 * c->f->v_max);
    int64_t left = c->restart;
    int mark = 0;
    const uint8_t *begin = c->at;
    c->bits = c->run = 0;
    c->dry = c->bad = false;
    for (int32_t y = 0; y < down; y++) {
        for (int32_t x = 0; x < across; x++, left--) {
            if (c->restart && left == 0) {
                if (!at_marker(c) || c->at[1] != 0xd0 + mark) {
                    snprintf(text, 96, "restart mark %d is missing in block row %d of %d", mark, y, down);
                    c->sound = c->at;
                    return false;
                }
                c->at += 2;
                mark = (mark + 1) & 7;
                left = c->restart;
            }
            for (int i = 0; i < count; i++) {
                for (int b = 0; b < (alone ? 1 : h[i] * v[i]); b++) {
                    block(c, parts[i], alone ? x : x * h[i] + b % h[i], alone ? y : y * v[i] + b / h[i]);
                }
            }
            if (c->bad || c->dry) {
                c->sound = c->bad && c->at - begin > 16 ? c->at - 16 : c->bad ? begin : c->at;     // some bytes were read ahead
                snprintf(text, 96, "%s in block row %d of %d", c->bad ? "a code that is none" : "its data ends", y, down);
                return false;
            }
        }
    }
    c->sound = c->at;
    if (at_marker(c)) return true;
    snprintf(text, 96, "more data than its blocks need");
    return false;
}

static bool read_tables(check *c, const uint8_t *p, int64_t size)
{
    while (size >= 17) {
        int codes = 0;
        for (int i = 1; i <= 16; i++) codes += p[i];
        if (codes > 256 || size < 17 + codes || p[0] >> 4 > 1 || (p[0] & 15) > 3) return false;
        build(&c->tables[p[0] >> 4][p[0] & 15], p + 1, p + 17);
        p += 17 + codes;
        size -= 17 + codes;
    }
    return size == 0;
}

static bool begin_scan(check *c, const uint8_t *p, int64_t size, char text[96])
{
    component *parts[4];
    int h[4], v[4], count = size > 0 ? p[0] : 0, blocks = 0;
    snprintf(text, 96, "a scan's header that is none");
    if (count < 1 || count > c->f->components || size != 4 + 2 * count) return false;
    c->first = p[1 + 2 * count];
    c->last = p[2 + 2 * count];
    c->high = p[3 + 2 * count] >> 4;
    c->low = p[3 + 2 * count] & 15;
    bool progressive = c->f->coding == 0xc2;
    if (progressive && (c->first > c->last || c->last > 63 || (c->first == 0) != (c->last == 0) || (c->first > 0 && count > 1))) return false;
    for (int i = 0; i < count; i++) {
        int which = 0;
        while (which < c->f->components && c->f->id[which] != p[1 + 2 * i]) which++;
        if (which == c->f->components) return false;
        parts[i] = &c->part[which];
        parts[i]->dc = p[2 + 2 * i] >> 4 & 3;
        parts[i]->ac = p[2 + 2 * i] & 3;
        parts[i]->coded = parts[i]->coded || !progressive || c->first == 0;
        h[i] = c->f->h[which];
        v[i] = c->f->v[which];
        blocks += h[i] * v[i];
        bool dc = !progressive || (c->first == 0 && !c->high), ac = !progressive || c->first > 0;
        if ((dc && !c->tables[0][parts[i]->dc].there) || (ac && !c->tables[1][parts[i]->ac].there)) {
            snprintf(text, 96, "a scan without its Huffman table");
            return false;
        }
    }
    if (count > 1 && blocks > 10) return false;
    text[0] = 0;
    return scan(c, parts, h, v, count, text);
}

static void walk(check *c, char text[96])
{
    while (c->at + 1 < c->end) {
        c->sound = c->at;
        if (c->at[0] != 0xff) {
            snprintf(text, 96, "bytes between its segments that belong to none");
            return;
        }
        int marker = c->at[1];
        if (marker == 0xff) {
            c->at++;
            continue;
        }
        c->at += 2;
        if (marker == 0xd9) break;
        if (marker == 1 || (marker >= 0xd0 && marker <= 0xd8)) continue;
        int64_t length = c->end - c->at >= 2 ? gwb_be16(c->at) : 0;
        const uint8_t *p = c->at + 2;
        if (length < 2 || length > c->end - c->at) {
            snprintf(text, 96, "a segment that is cut");
            return;
        }
        c->at += length;
        bool good = true;
        if (marker == 0xc4) good = read_tables(c, p, length - 2);
        else if (marker == 0xdd && length == 4) c->restart = gwb_be16(p);
        else if (marker == 0xda) {
            if (!begin_scan(c, p, length - 2, text)) return;
        }
        if (!good) {
            snprintf(text, 96, "Huffman tables that are none");
            return;
        }
    }
    for (int i = 0; i < c->f->components; i++) {
        if (!c->part[i].coded) snprintf(text, 96, "component %d has no scan", i + 1);
    }
}

int gwb_jpg_check(const gwb_input *in, const gwb_jpg *f, char text[96], int64_t *damage)
{
    check *c = calloc(1, sizeof *c);
    bool memory = c;
    text[0] = 0;
    if (c) {
        c->f = f;
        c->at = in->bytes + 2;
        c->sound = c->at;
        c->end = in->bytes + in->size;
    }
    for (int i = 0; memory && i < f->components; i++) {
        component *p = &c->part[i];
        p->across = (int32_t)((((int64_t)f->width * f->h[i] + f->h_max - 1) / f->h_max + 7) / 8);
        p->down = (int32_t)((((int64_t)f->height * f->v[i] + f->v_max - 1) / f->v_max + 7) / 8);
        p->row = (f->width + 8 * f->h_max - 1) / (8 * f->h_max) * f->h[i];
        int64_t rows = (f->height + 8 * f->v_max - 1) / (8 * f->v_max) * f->v[i];
        if (f->coding == 0xc2) memory = (p->seen = calloc((size_t)(p->row * rows), sizeof *p->seen));
    }
    if (memory) walk(c, text);
    if (memory) *damage = c->sound - in->bytes;
    for (int i = 0; c && i < f->components; i++) free(c->part[i].seen);
    free(c);
    return memory ? 0 : gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory to check it");
}
