// SPDX-License-Identifier: MIT
// Deflate streams (RFC 1951) undone: used where libdeflate is not there, and for damaged streams, of which it gives all that comes before the damage.
#include "codec.h"

#include <string.h>

enum { FAST = 10 };             // bits that the first table looks at

typedef struct table {
    uint16_t fast[1 << FAST];   // symbol << 4 | length; 0: longer, or no code
    uint16_t counts[16], symbols[288];
} table;

typedef struct stream {
    const uint8_t *at, *end;
    uint64_t word;              // the next bits, the first one lowest
    int bits;                   // of them that count; zeros stand in for what the stream does not have
    int missing;                // bytes of zeros among them
    uint8_t *out;
    int64_t made, room;
} stream;

static void refill(stream *s)
{
    while (s->bits <= 56) {
        if (s->at < s->end) s->word |= (uint64_t)*s->at++ << s->bits;
        else s->missing++;
        s->bits += 8;
    }
}

// Whether bits were taken that the stream does not have.
static bool dry(const stream *s) { return s->missing * 8 > s->bits; }

static unsigned take(stream *s, int n)
{
    if (s->bits < n) refill(s);
    unsigned v = (unsigned)(s->word & ((UINT64_C(1) << n) - 1));
    s->word >>= n;
    s->bits -= n;
    return v;
}

// False where the lengths make no code: too many, or too few of them but for a code of one symbol.
static bool build(table *t, const uint8_t *lengths, int n)
{
    uint16_t next[16], offset[16];
    memset(t, 0, sizeof *t);
    for (int i = 0; i < n; i++) t->counts[lengths[i]]++;
    int left = 1, symbols = n - t->counts[0];
    t->counts[0] = 0;
    next[0] = offset[0] = offset[1] = 0;
    for (int length = 1, code = 0; length < 16; length++) {
        left = 2 * left - t->counts[length];
        if (left < 0) return false;
        code = (code + t->counts[length - 1]) << 1;
        next[length] = (uint16_t)code;
        if (length < 15) offset[length + 1] = (uint16_t)(offset[length] + t->counts[length]);
    }
    if (left > 0 && symbols > 1) return false;
    for (int i = 0; i < n; i++) {
        int length = lengths[i];
        if (!length) continue;
        t->symbols[offset[length]++] = (uint16_t)i;
        unsigned code = next[length]++, reversed = 0;
        for (int b = 0; b < length; b++) reversed |= (code >> b & 1) << (length - 1 - b);
        for (unsigned j = reversed; length <= FAST && j < 1 << FAST; j += 1u << length) t->fast[j] = (uint16_t)(i << 4 | length);
    }
    return true;
}

// The next symbol, or -1.
static int decode(stream *s, const table *t)
{
    if (s->bits < 16) refill(s);
    int entry = t->fast[s->word & ((1 << FAST) - 1)];
    if (entry) {
        s->word >>= entry & 15;
        s->bits -= entry & 15;
        return entry >> 4;
    }
    int code = 0, first = 0, index = 0;
    for (int length = 1; length < 16; length++) {
        code |= (int)(s->word >> (length - 1) & 1);
        int count = t->counts[length];
        if (code - count < first) {
            s->word >>= length;
            s->bits -= length;
            return t->symbols[index + code - first];
        }
        index += count;
        first = (first + count) << 1;
        code <<= 1;
    }
    return -1;
}

static gwb_inflated stored(stream *s)
{
    take(s, s->bits & 7);
    unsigned length = take(s, 16), check = take(s, 16);
    if (dry(s) || length != (check ^ 0xffff)) return GWB_INFLATE_BAD;
    while (s->bits > 0 && length > 0 && !dry(s) && s->made < s->room) {     // what was read ahead
        if (s->bits == 8 * s->missing) return GWB_INFLATE_BAD;
        s->out[s->made++] = (uint8_t)take(s, 8);
        length--;
    }
    int64_t n = length, there = s->end - s->at;
    gwb_inflated rc = GWB_INFLATE_OK;
    if (n > there) {
        n = there;
        rc = GWB_INFLATE_BAD;
    }
    if (n > s->room - s->made) {
        n = s->room - s->made;
        rc = GWB_INFLATE_MORE;
    }
    if (n > 0) memcpy(s->out + s->made, s->at, (size_t)n);
    s->at += n;
    s->made += n;
    return rc;
}

static gwb_inflated coded(stream *s, const table *literals, const table *distances)
{
    static const uint16_t length_base[29] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const uint8_t length_bits[29] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static const uint16_t distance_base[30] = {1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073,
                                               4097, 6145, 8193, 12289, 16385, 24577};
    static const uint8_t distance_bits[30] = {0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
    for (;;) {
        int symbol = decode(s, literals);
        if (symbol < 0 || symbol > 285 || dry(s)) return GWB_INFLATE_BAD;
        if (symbol == 256) return GWB_INFLATE_OK;
        if (symbol < 256) {
            if (s->made == s->room) return GWB_INFLATE_MORE;
            s->out[s->made++] = (uint8_t)symbol;
            continue;
        }
        int64_t length = length_base[symbol - 257] + take(s, length_bits[symbol - 257]);
        symbol = decode(s, distances);
        if (symbol < 0 || symbol > 29) return GWB_INFLATE_BAD;
        int64_t distance = distance_base[symbol] + take(s, distance_bits[symbol]);
        if (dry(s) || distance > s->made) return GWB_INFLATE_BAD;
        bool more = length > s->room - s->made;
        if (more) length = s->room - s->made;
        uint8_t *to = s->out + s->made;
        const uint8_t *from = to - distance;
        s->made += length;
        if (distance >= length) memcpy(to, from, (size_t)length);
        else for (; length > 0; length--) *to++ = *from++;
        if (more) return GWB_INFLATE_MORE;
    }
}

static gwb_inflated dynamic(stream *s)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    table literals, distances;
    uint8_t lengths[320] = {0};
    int literal_count = 257 + (int)take(s, 5), distance_count = 1 + (int)take(s, 5), order_count = 4 + (int)take(s, 4);
    for (int i = 0; i < order_count; i++) lengths[order[i]] = (uint8_t)take(s, 3);
    if (literal_count > 286 || distance_count > 30 || !build(&literals, lengths, 19)) return GWB_INFLATE_BAD;
    memset(lengths, 0, sizeof lengths);
    for (int i = 0; i < literal_count + distance_count;) {
        int symbol = decode(s, &literals), last = 0, repeat = 1;
        if (symbol < 0 || dry(s)) return GWB_INFLATE_BAD;
        if (symbol < 16) last = symbol;
        else if (symbol == 16 && i == 0) return GWB_INFLATE_BAD;
        else if (symbol == 16) {
            last = lengths[i - 1];
            repeat = 3 + (int)take(s, 2);
        } else {
            repeat = symbol == 17 ? 3 + (int)take(s, 3) : 11 + (int)take(s, 7);
        }
        if (i + repeat > literal_count + distance_count) return GWB_INFLATE_BAD;
        while (repeat-- > 0) lengths[i++] = (uint8_t)last;
    }
    if (!lengths[256] || !build(&literals, lengths, literal_count) || !build(&distances, lengths + literal_count, distance_count)) return GWB_INFLATE_BAD;
    return coded(s, &literals, &distances);
}

static gwb_inflated fixed(stream *s)
{
    table literals, distances;
    uint8_t lengths[288];
    for (int i = 0; i < 288; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    build(&literals, lengths, 288);
    memset(lengths, 5, 32);
    build(&distances, lengths, 32);
    return coded(s, &literals, &distances);
}

static uint32_t adler(const uint8_t *p, int64_t size)
{
    uint32_t a = 1, b = 0;
    while (size > 0) {
        int n = size < 5552 ? (int)size : 5552; // no overflow before
        size -= n;
        while (n-- > 0) {
            a += *p++;
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return b << 16 | a;
}

gwb_inflated gwb_inflate_own(const uint8_t *in, int64_t size, uint8_t *out, int64_t room, bool zlib, int64_t *made)
{
    stream s = {.at = in, .out = out, .room = room};
    gwb_inflated rc = GWB_INFLATE_OK;
    *made = 0;
    if (size <= 0) return GWB_INFLATE_BAD;
    s.end = in + size;
    if (zlib) {
        if (size < 2 || (in[0] & 15) != 8 || in[0] >> 4 > 7 || in[1] & 32 || (in[0] << 8 | in[1]) % 31) return GWB_INFLATE_BAD;
        s.at += 2;
    }
    for (bool last = false; !last && rc == GWB_INFLATE_OK;) {
        last = take(&s, 1);
        switch (take(&s, 2)) {
        case 0: rc = stored(&s); break;
        case 1: rc = fixed(&s); break;
        case 2: rc = dynamic(&s); break;
        default: rc = GWB_INFLATE_BAD;
        }
        if (rc == GWB_INFLATE_OK && dry(&s)) rc = GWB_INFLATE_BAD;
    }
    *made = s.made;
    if (rc != GWB_INFLATE_OK || !zlib) return rc;
    take(&s, s.bits & 7);
    uint32_t sum = 0;
    for (int i = 0; i < 4; i++) sum = sum << 8 | take(&s, 8);
    return dry(&s) || sum != adler(out, s.made) ? GWB_INFLATE_BAD : GWB_INFLATE_OK;
}
