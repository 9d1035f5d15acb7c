// SPDX-License-Identifier: MIT
// A zlib stream without a library: the newest places of the same four bytes are tried for a repeat, and each block of repeats and literals gets codes
// that are made for it.
#include "codec.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 15, HASH_BITS = 15, SHORTEST = 4, LONGEST = 258, TOKENS = 1 << 15, LITERALS = 286, DISTANCES = 30, LENGTHS = 19 };

// How much is tried, by level from 1: places for a repeat; a repeat this long is taken without a look at the next byte's, 0: any is.
static const struct { int places, lazy; } efforts[] = {
    {1, 0}, {2, 0}, {4, 0}, {6, 0}, {8, 16}, {16, 32}, {32, 64}, {64, 128}, {128, 258}, {256, 258}, {512, 258}, {1024, 258},
};

typedef struct code {
    uint16_t bits[LITERALS];    // the first one lowest
    uint8_t length[LITERALS];
} code;

typedef struct deflater {
    const uint8_t *in;
    int32_t size;
    gwb_bytes *out;
    uint64_t word;              // bits that are not in `out` yet, the first one lowest
    int count;
    int32_t head[1 << HASH_BITS], before[WINDOW];       // the newest place of a hash; the one before a place; -1: none
    uint32_t token[TOKENS];     // a literal; or a distance << 16 | a length, from 3
    int tokens;
    uint32_t literals[LITERALS], distances[DISTANCES];  // how often each code is used
} deflater;

static const uint16_t length_base[] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_extra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};

static int length_symbol(int length)
{
    if (length == LONGEST) return 28;
    int v = length - 3, top = v < 8 ? 0 : 31 - __builtin_clz((unsigned)v) - 2;
    return 4 * top + (v >> top);
}

// Symbol 2n and 2n + 1 stand for a half each of the distances with n + 1 bits.
static int distance_symbol(int distance)
{
    int v = distance - 1, top = v < 4 ? 0 : 31 - __builtin_clz((unsigned)v) - 1;
    return 2 * top + (v >> top);
}

static int distance_extra(int symbol) { return symbol < 4 ? 0 : symbol / 2 - 1; }
static int distance_base(int symbol) { return symbol < 4 ? symbol + 1 : ((2 + symbol % 2) << distance_extra(symbol)) + 1; }

// ---- codes

typedef struct leaf { uint32_t uses; int symbol; } leaf;

static int by_uses(const void *a, const void *b)
{
    const leaf *x = a, *y = b;
    return x->uses != y->uses ? (x->uses < y->uses ? -1 : 1) : x->symbol - y->symbol;
}

// The lengths of Huffman codes, at most `most` bits; at least two symbols are used.
static void make_lengths(const uint32_t *uses, int n, int most, uint8_t *length)
{
    leaf leaves[LITERALS];
    uint32_t sum[2 * LITERALS];
    int parent[2 * LITERALS], depth[2 * LITERALS], count = 0, per_length[64] = {0};
    memset(length, 0, (size_t)n);
    for (int i = 0; i < n; i++) if (uses[i]) leaves[count++] = (leaf){uses[i], i};
    qsort(leaves, (size_t)count, sizeof *leaves, by_uses);
    for (int i = 0; i < count; i++) sum[i] = leaves[i].uses;
    // The two rarest become one: of leaves and of what was made, both in order.
    int leaf_at = 0, made_at = count, end = 2 * count - 1;
    for (int next = count; next < end; next++) {
        sum[next] = 0;
        for (int i = 0; i < 2; i++) {
            int least = leaf_at < count && (made_at == next || sum[leaf_at] <= sum[made_at]) ? leaf_at++ : made_at++;
            sum[next] += sum[least];
            parent[least] = next;
        }
    }
    depth[end - 1] = 0;
    int64_t room = INT64_C(1) << most, taken = 0;
    for (int i = end - 2; i >= 0; i--) {
        depth[i] = depth[parent[i]] + 1;
        if (i >= count) continue;
        int bits = depth[i] < most ? depth[i] : most;
        per_length[bits]++;
        taken += room >> bits;
    }
    // Codes that were cut to `most` take more room than there is: the longest of the others give some.
    while (taken > room) {
        int bits = most - 1;
        while (!per_length[bits]) bits--;
        per_length[bits]--;
        per_length[bits + 1]++;
        taken -= room >> (bits + 1);
    }
    for (; taken < room; taken++) {     // that may be more than was wanted, and a code must take all
        per_length[most]--;
        per_length[most - 1]++;
    }
    for (int bits = most, i = 0; bits > 0; bits--) for (int k = 0; k < per_length[bits]; k++) length[leaves[i++].symbol] = (uint8_t)bits;
}

static void make_bits(code *c, int n)
{
    unsigned next[17] = {0}, per_length[16] = {0};
    for (int i = 0; i < n; i++) per_length[c->length[i]]++;
    per_length[0] = 0;
    for (int bits = 1; bits < 16; bits++) next[bits + 1] = (next[bits] + per_length[bits]) << 1;
    for (int i = 0; i < n; i++) {
        unsigned value = c->length[i] ? next[c->length[i]]++ : 0, turned = 0;
        for (int b = 0; b < c->length[i]; b++) turned |= (value >> b & 1) << (c->length[i] - 1 - b);
        c->bits[i] = (uint16_t)turned;
    }
}

// ---- a block. There is room in `out` for what is put.

static void put(deflater *d, uint64_t bits, int count)
{
    d->word |= bits << d->count;
    d->count += count;
    if (d->count < 32) return;
    memcpy(d->out->data + d->out->size, (uint8_t[4]){(uint8_t)d->word, (uint8_t)(d->word >> 8), (uint8_t)(d->word >> 16), (uint8_t)(d->word >> 24)}, 4);
    d->out->size += 4;
    d->word >>= 32;
    d->count -= 32;
}

// The lengths of both codes as runs: 16 repeats the last one, 17 and 18 are zeros. Returns how many symbols; an extra value each.
static int run_lengths(const uint8_t *length, int n, uint8_t symbol[], uint8_t extra[])
{
    int made = 0;
    for (int i = 0; i < n;) {
        int value = length[i], run = 1;
        while (i + run < n && length[i + run] == value && run < 138) run++;
        if (value == 0 && run >= 3) {
            symbol[made] = run < 11 ? 17 : 18;
            extra[made++] = (uint8_t)(run - (run < 11 ? 3 : 11));
        } else if (i > 0 && length[i - 1] == value && run >= 3) {
            run = run > 6 ? 6 : run;
            symbol[made] = 16;
            extra[made++] = (uint8_t)(run - 3);
        } else {
            run = 1;
            symbol[made] = (uint8_t)value;
            extra[made++] = 0;
        }
        i += run;
    }
    return made;
}

static void put_codes(deflater *d, const code *literals, const code *distances)
{
    static const uint8_t order[LENGTHS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}, bits_of[3] = {2, 3, 7};
    uint8_t all[LITERALS + DISTANCES], symbol[LITERALS + DISTANCES], extra[LITERALS + DISTANCES];
    uint32_t uses[LENGTHS] = {0};
    code lengths;
    int shown = LENGTHS;
    memcpy(all, literals->length, LITERALS);
    memcpy(all + LITERALS, distances->length, DISTANCES);
    int count = run_lengths(all, LITERALS + DISTANCES, symbol, extra);
    for (int i = 0; i < count; i++) uses[symbol[i]]++;
    for (int i = 0; i < 2; i++) if (!uses[i]) uses[i] = 1;
    make_lengths(uses, LENGTHS, 7, lengths.length);
    make_bits(&lengths, LENGTHS);
    while (shown > 4 && !lengths.length[order[shown - 1]]) shown--;
    put(d, LITERALS - 257, 5);
    put(d, DISTANCES - 1, 5);
    put(d, (uint64_t)shown - 4, 4);
    for (int i = 0; i < shown; i++) put(d, lengths.length[order[i]], 3);
    for (int i = 0; i < count; i++) {
        put(d, lengths.bits[symbol[i]], lengths.length[symbol[i]]);
        if (symbol[i] >= 16) put(d, extra[i], bits_of[symbol[i] - 16]);
    }
}

static int put_block(deflater *d, bool last)
{
    code literals, distances;
    d->literals[256]++;         // the end
    for (int i = 0; i < 2; i++) {       // two symbols at least
        if (!d->literals[i]) d->literals[i] = 1;
        if (!d->distances[i]) d->distances[i] = 1;
    }
    make_lengths(d->literals, LITERALS, 15, literals.length);
    make_lengths(d->distances, DISTANCES, 15, distances.length);
    make_bits(&literals, LITERALS);
    make_bits(&distances, DISTANCES);
    int64_t bound = 6 * (int64_t)d->tokens + 1024;     // a token has at most 48 bits
    if (!gwb_bytes_room(d->out, bound)) return GWB_OUT_OF_MEMORY;
    d->out->size -= bound;
    put(d, last, 1);
    put(d, 2, 2);
    put_codes(d, &literals, &distances);
    for (int i = 0; i < d->tokens; i++) {
        uint32_t t = d->token[i];
        int distance = (int)(t >> 16), length = (int)(t & 0xffff);
        if (!distance) {
            put(d, literals.bits[t], literals.length[t]);
            continue;
        }
        int s = length_symbol(length);
        put(d, literals.bits[257 + s] | (uint64_t)(length - length_base[s]) << literals.length[257 + s], literals.length[257 + s] + length_extra[s]);
        s = distance_symbol(distance);
        put(d, distances.bits[s] | (uint64_t)(distance - distance_base(s)) << distances.length[s], distances.length[s] + distance_extra(s));
    }
    put(d, literals.bits[256], literals.length[256]);
    d->tokens = 0;
    memset(d->literals, 0, sizeof d->literals);
    memset(d->distances, 0, sizeof d->distances);
    return 0;
}

// ---- repeats

static uint32_t hash_of(const uint8_t *p) { return gwb_le32(p) * 2654435761u >> (32 - HASH_BITS); }

static void remember(deflater *d, int32_t at)
{
    if (at + SHORTEST > d->size) return;
    uint32_t h = hash_of(d->in + at);
    d->before[at % WINDOW] = d->head[h];
    d->head[h] = at;
}

static int same(const uint8_t *a, const uint8_t *b, int most)
{
    int n = 0;
    for (uint64_t x, y; n + 8 <= most; n += 8) {
        memcpy(&x, a + n, 8);
        memcpy(&y, b + n, 8);
        if (x == y) continue;
        while (a[n] == b[n]) n++;
        return n;
    }
    while (n < most && a[n] == b[n]) n++;
    return n;
}

// The longest repeat at `at` among the newest places, longer than `longest`; 0: there is none.
static int find(const deflater *d, int32_t at, int places, int longest, int *distance)
{
    int most = d->size - at < LONGEST ? d->size - at : LONGEST, best = longest;
    if (most < SHORTEST || best >= most) return 0;
    const uint8_t *here = d->in + at;
    for (int32_t from = d->head[hash_of(here)]; from >= 0 && at - from < WINDOW && places > 0; from = d->before[from % WINDOW], places--) {
        const uint8_t *there = d->in + from;
        if (there[best] != here[best]) continue;
        int length = same(here, there, most);
        if (length <= best) continue;
        best = length;
        *distance = at - from;
        if (best == most) break;
    }
    return best > longest ? best : 0;
}

static void add_literal(deflater *d, uint8_t value)
{
    d->token[d->tokens++] = value;
    d->literals[value]++;
}

static void add_repeat(deflater *d, int length, int distance)
{
    d->token[d->tokens++] = (uint32_t)distance << 16 | (uint32_t)length;
    d->literals[257 + length_symbol(length)]++;
    d->distances[distance_symbol(distance)]++;
}

static int compress(deflater *d, int places, int lazy)
{
    for (int32_t at = 0; at < d->size;) {
        int distance = 0, length = find(d, at, places, SHORTEST - 1, &distance);
        remember(d, at);
        while (length && length < lazy && at + 1 < d->size) {   // the next byte's may be longer
            int better = find(d, at + 1, places, length, &distance);
            if (!better) break;
            add_literal(d, d->in[at++]);
            remember(d, at);
            length = better;
            if (d->tokens == TOKENS && put_block(d, false) < 0) return GWB_OUT_OF_MEMORY;
        }
        if (length) {
            add_repeat(d, length, distance);
            for (int32_t end = at++ + length; at < end; at++) remember(d, at);
        } else {
            add_literal(d, d->in[at++]);
        }
        if (d->tokens == TOKENS && put_block(d, false) < 0) return GWB_OUT_OF_MEMORY;
    }
    return put_block(d, true);
}

static uint32_t adler(const uint8_t *p, int64_t size)
{
    uint32_t a = 1, b = 0;
    while (size > 0) {
        int64_t n = size < 5552 ? size : 5552;     // as many as no sum overflows
        for (int64_t i = 0; i < n; i++) b += a += p[i];
        a %= 65521;
        b %= 65521;
        p += n;
        size -= n;
    }
    return b << 16 | a;
}

int gwb_deflate_own(const uint8_t *bytes, int64_t size, int level, gwb_bytes *out)
{
    if (size > INT32_MAX - 65536) return gwb_fail(GWB_UNSUPPORTED, "more than 2 GB of pixels in one PNG");
    deflater *d = calloc(1, sizeof *d);
    if (!d) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory to compress %lld bytes", (long long)size);
    d->in = bytes;
    d->size = (int32_t)size;
    d->out = out;
    memset(d->head, 0xff, sizeof d->head);
    gwb_bytes_add(out, "\x78\x9c", 2);
    int rc = compress(d, efforts[level - 1].places, efforts[level - 1].lazy);
    while (rc == 0 && d->count > 0) {
        rc = gwb_bytes_add(out, &(uint8_t){(uint8_t)d->word}, 1);
        d->word >>= 8;
        d->count -= 8;
    }
    uint8_t sum[4];
    gwb_put_be32(sum, adler(bytes, size));
    free(d);
    return rc < 0 ? rc : gwb_bytes_add(out, sum, 4);
}
