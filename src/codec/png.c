// SPDX-License-Identifier: MIT
// PNG's reader: every chunk's CRC is checked, the stream's Adler too, and each pixel is what the file says: 1 to 16 bits, palettes, tRNS, interlacing.
#include "png.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct png {
    const uint8_t *header;      // IHDR's 13 bytes
    int32_t width, height;
    int depth, colour;          // as IHDR has them
    bool interlaced, pixels;    // pixels: there is an IDAT
    int rank;                   // of the best colour chunk so far
    uint8_t palette[256][4];
    int colours;                // of the palette
    bool clear;                 // there is a tRNS:
    uint16_t key[3];            // the sample values that are transparent
    gwb_bytes stream;           // IDAT's bytes, borrowed where they are in one piece
    bool borrowed;
} png;

// A damaged signature counts too: what is wrong is then said.
bool gwb_png_recognise(const uint8_t *bytes, int64_t size)
{
    return (size >= 4 && memcmp(bytes + 1, png_signature + 1, 3) == 0) || (size >= 16 && memcmp(bytes + 12, "IHDR", 4) == 0);
}

// What a chunk says of the numbers' meaning. cICP counts before sRGB, and that before gAMA, whatever their order; `rank` is that of the best so far.
static void read_colour(const uint8_t *name, const uint8_t *data, int64_t length, gwb_picture *out, int *rank)
{
    const char *transfer = "", *primary = "";
    int found = 0;
    if (memcmp(name, "cICP", 4) == 0 && length == 4) {
        found = 3;
        for (int i = 0; i < TRANSFERS; i++) if (transfers[i].code == data[1]) transfer = transfers[i].name;
        for (int i = 0; i < PRIMARIES; i++) if (primaries[i].code == data[0]) primary = primaries[i].name;
    } else if (memcmp(name, "sRGB", 4) == 0 && length == 1) {
        found = 2;
        transfer = "srgb";
        primary = "bt709";
    } else if (memcmp(name, "gAMA", 4) == 0 && length == 4) {
        uint32_t gamma = gwb_be32(data);    // times 100000
        found = 1;
        out->gamma = gamma <= INT32_MAX ? (int32_t)gamma : 0;
        transfer = gamma == 100000 ? "linear" : gamma >= 45450 && gamma <= 45460 ? "gamma22" : gamma >= 35710 && gamma <= 35720 ? "gamma28" : "";
    }
    if (found > 1) out->gamma = 0;  // it says less than these
    if (found <= *rank) return;
    *rank = found;
    strcpy(out->transfer, transfer);
    strcpy(out->primaries, primary);
}

// The ICC profile of a chunk iCCP: a name, a zero, the method, a zlib stream. One that is damaged is left out: the pixels do not depend on it.
static void read_profile(const uint8_t *data, int64_t length, gwb_picture *out)
{
    const uint8_t *end = memchr(data, 0, length < 80 ? (size_t)length : 80);
    int64_t head = end ? end - data + 2 : length;
    if (head >= length || end[1] != 0 || out->icc) return;
    uint8_t first[128];
    int64_t made;
    gwb_inflate_own(data + head, length - head, first, sizeof first, true, &made);  // its size stands at its beginning
    int64_t size = made >= 128 ? gwb_be32(first) : 0;
    if (size < 128 || size > (length - head) * 1032 || size > 64 << 20) return;
    out->icc = malloc((size_t)size);
    if (out->icc && gwb_inflate(data + head, length - head, out->icc, size, true, &made) == GWB_INFLATE_OK && made == size) {
        out->icc_size = size;
        return;
    }
    free(out->icc);
    out->icc = NULL;
}

static int read_palette(const gwb_input *in, png *p, const uint8_t *data, int64_t length)
{
    if (length == 0 || length % 3 || length > 768 || p->colours) return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: a palette that is none");
    p->colours = (int)(length / 3);
    for (int i = 0; i < p->colours; i++) {
        memcpy(p->palette[i], data + 3 * i, 3);
        p->palette[i][3] = 255;
    }
    return 0;
}

static int read_transparency(const gwb_input *in, gwb_picture *out, png *p, const uint8_t *data, int64_t length)
{
    if (p->colour == 3 && length <= p->colours) {
        for (int64_t i = 0; i < length; i++) p->palette[i][3] = data[i];
    } else if ((p->colour == 0 && length == 2) || (p->colour == 2 && length == 6)) {
        for (int64_t i = 0; i < length / 2; i++) p->key[i] = (uint16_t)(gwb_be16(data + 2 * i) & ((1 << p->depth) - 1));
    } else {
        return gwb_doubt(in, out, "damaged PNG: transparency (tRNS) that does not fit its colour type");
    }
    p->clear = true;
    return 0;
}

static int read_header(const gwb_input *in, png *p)
{
    static const uint32_t depths[] = {1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16, 0, 1 << 8 | 1 << 16, 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
                                      1 << 8 | 1 << 16, 0, 1 << 8 | 1 << 16};
    const uint8_t *h = p->header;
    p->depth = h[8];
    p->colour = h[9];
    if (p->colour > 6 || !depths[p->colour]) return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: there is no colour type %d", p->colour);
    if (p->depth > 16 || !(depths[p->colour] >> p->depth & 1)) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: colour type %d has no samples of %d bits", p->colour, p->depth);
    }
    if (h[10] || h[11] || h[12] > 1) return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: unknown compression, filter or interlacing");
    p->interlaced = h[12];
    return 0;
}

static int add_stream(png *p, const uint8_t *data, int64_t length)
{
    if (!p->pixels) {
        p->stream = (gwb_bytes){(uint8_t *)(uintptr_t)data, length, 0};
        p->borrowed = true;
        return 0;
    }
    if (p->borrowed) {
        gwb_bytes first = p->stream;
        p->stream = (gwb_bytes){0};
        p->borrowed = false;
        gwb_bytes_add(&p->stream, first.data, first.size);
    }
    return gwb_bytes_add(&p->stream, data, length);
}

// One chunk whose name and CRC are known to be good.
static int read_chunk(const gwb_input *in, gwb_picture *out, png *p, const uint8_t *name, const uint8_t *data, int64_t length)
{
    if (memcmp(name, "IDAT", 4) == 0) {
        int rc = in->params.header_only ? 0 : add_stream(p, data, length);
        p->pixels = true;
        return rc;
    }
    if (memcmp(name, "IHDR", 4) == 0) {
        if (p->header) return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: a second header");
        p->header = data;
        return read_header(in, p);
    }
    if (memcmp(name, "eXIf", 4) == 0) {
        out->orientation = gwb_exif_orientation(data, length);
        return 0;
    }
    if (p->pixels) return 0;    // what follows belongs in front of them
    if (memcmp(name, "PLTE", 4) == 0) return read_palette(in, p, data, length);
    if (memcmp(name, "tRNS", 4) == 0) return read_transparency(in, out, p, data, length);
    if (memcmp(name, "iCCP", 4) == 0) read_profile(data, length, out);
    else if (!(name[0] & 32) && memcmp(name, "IEND", 4) != 0) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "a PNG with the critical chunk %.4s, which is not known here", (const char *)name);
    }
    read_colour(name, data, length, out, &p->rank);
    return 0;
}

// The walk over all chunks up to IEND.
static int read_chunks(const gwb_input *in, gwb_picture *out, png *p)
{
    const uint8_t *b = in->bytes;
    for (int64_t at = 8; at < in->size;) {
        if (in->size - at < 12) break;
        int64_t length = gwb_be32(b + at), there = in->size - at - 12;
        const uint8_t *name = b + at + 4;
        for (int i = 0; i < 4; i++) {
            if ((name[i] | 32) < 'a' || (name[i] | 32) > 'z') {
                return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: no chunk begins at byte %" PRId64, at);
            }
        }
        if (!p->header && memcmp(name, "CgBI", 4) == 0) return gwb_refuse(in, GWB_UNSUPPORTED, "a PNG in Apple's own variant (CgBI)");
        if (!p->header && (memcmp(name, "IHDR", 4) != 0 || length != 13)) {
            return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: it does not begin with its header");
        }
        if (length > there) {
            if (!p->header) break;
            int rc = gwb_doubt(in, out, "truncated PNG: chunk %.4s has %" PRId64 " bytes, %" PRId64 " are there", (const char *)name, length,
                               there + 4);
            return rc < 0 || memcmp(name, "IDAT", 4) != 0 ? rc : read_chunk(in, out, p, name, b + at + 8, there + 4);
        }
        uint32_t given = gwb_be32(b + at + 8 + length), right = gwb_crc(name, length + 4);
        if (given != right) {
            int rc = gwb_doubt(in, out, "damaged PNG: the CRC of chunk %.4s at byte %" PRId64 " is %08x, its content has %08x",
                               (const char *)name, at, given, right);
            if (rc < 0) return rc;
        }
        int rc = read_chunk(in, out, p, name, b + at + 8, length);
        if (rc < 0) return rc;
        if (memcmp(name, "IEND", 4) == 0) return p->pixels ? 0 : gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: it has no pixels (IDAT)");
        at += 12 + length;
    }
    if (!p->header) return gwb_refuse(in, GWB_BAD_FILE, "truncated PNG: the header is cut");
    return gwb_doubt(in, out, "truncated PNG: it has no end (IEND)");
}

// ---- pixels

// Undoes a row's filter in place; `prior` is the row above, `n` the bytes of a pixel (1 where pixels are smaller).
static inline __attribute__((always_inline)) void unfilter_left(int filter, uint8_t *row, const uint8_t *prior, int64_t bytes, int n)
{
    if (filter == 1) {
        for (int64_t i = n; i < bytes; i++) row[i] = (uint8_t)(row[i] + row[i - n]);
    } else if (filter == 3) {
        for (int64_t i = 0; i < n && i < bytes; i++) row[i] = (uint8_t)(row[i] + (prior[i] >> 1));
        for (int64_t i = n; i < bytes; i++) row[i] = (uint8_t)(row[i] + ((row[i - n] + prior[i]) >> 1));
    } else {
        for (int64_t i = 0; i < n && i < bytes; i++) row[i] = (uint8_t)(row[i] + prior[i]);
        for (int64_t i = n; i < bytes; i++) {
            int left = row[i - n], up = prior[i], corner = prior[i - n];
            int p = up - corner, q = left - corner;
            int to_left = abs(p), to_up = abs(q), to_corner = abs(p + q);
            int guess = to_left <= to_up ? left : up, nearest = to_left <= to_up ? to_left : to_up;
            row[i] = (uint8_t)(row[i] + (nearest <= to_corner ? guess : corner));
        }
    }
}

static void unfilter(int filter, uint8_t *row, const uint8_t *prior, int64_t bytes, int n)
{
    if (filter == 0) return;
    if (filter == 2) {
        for (int64_t i = 0; i < bytes; i++) row[i] = (uint8_t)(row[i] + prior[i]);
        return;
    }
    switch (n) {    // a constant distance lets the compiler keep the neighbours in registers
    case 1: unfilter_left(filter, row, prior, bytes, 1); break;
    case 2: unfilter_left(filter, row, prior, bytes, 2); break;
    case 3: unfilter_left(filter, row, prior, bytes, 3); break;
    case 4: unfilter_left(filter, row, prior, bytes, 4); break;
    case 6: unfilter_left(filter, row, prior, bytes, 6); break;
    default: unfilter_left(filter, row, prior, bytes, 8);
    }
}

static int sample(const uint8_t *row, int32_t i, int depth)
{
    int per = 8 / depth;
    return row[i / per] >> (8 - depth - i % per * depth) & ((1 << depth) - 1);
}

// A row of the file as pixels of the picture, `apart` bytes from one to the next. False where a palette has no such colour.
static bool expand(const png *p, const uint8_t *row, int32_t n, uint8_t *to, int64_t apart, int channels)
{
    bool good = true;
    if (p->depth == 16) {
        int own = channels - p->clear;
        for (int32_t i = 0; i < n; i++, to += apart, row += 2 * own) {
            uint16_t *v = (uint16_t *)(void *)to;
            bool key = p->clear;
            for (int c = 0; c < own; c++) {
                v[c] = gwb_be16(row + 2 * c);
                key = key && v[c] == p->key[c];
            }
            if (p->clear) v[own] = key ? 0 : 65535;
        }
    } else if (p->colour == 3) {
        for (int32_t i = 0; i < n; i++, to += apart) {
            int index = p->depth == 8 ? row[i] : sample(row, i, p->depth);
            good = good && index < p->colours;
            memcpy(to, p->palette[index], (size_t)channels);
        }
    } else if (p->depth < 8) {
        int scale = 255 / ((1 << p->depth) - 1);
        for (int32_t i = 0; i < n; i++, to += apart) {
            int v = sample(row, i, p->depth);
            to[0] = (uint8_t)(v * scale);
            if (p->clear) to[1] = v == p->key[0] ? 0 : 255;
        }
    } else if (p->clear) {
        int own = channels - 1;
        for (int32_t i = 0; i < n; i++, to += apart, row += own) {
            bool key = true;
            for (int c = 0; c < own; c++) {
                to[c] = row[c];
                key = key && row[c] == p->key[c];
            }
            to[own] = key ? 0 : 255;
        }
    } else if (apart == channels) {
        memcpy(to, row, (size_t)n * (size_t)channels);
    } else {
        for (int32_t i = 0; i < n; i++, to += apart, row += channels) memcpy(to, row, (size_t)channels);
    }
    return good;
}

static const struct { int x, y, dx, dy; } passes[] = {
    {0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}, {0, 0, 1, 1},
};
enum { PASSES = sizeof passes / sizeof *passes };       // the last one: not interlaced

static int32_t part(int32_t size, int from, int apart) { return size > from ? (size - from + apart - 1) / apart : 0; }

static int decode(const gwb_input *in, gwb_picture *out, const png *p, int bits, int channels)
{
    int first = p->interlaced ? 0 : PASSES - 1, last = p->interlaced ? PASSES - 1 : PASSES;
    int64_t total = 0;
    for (int i = first; i < last; i++) {
        int64_t w = part(p->width, passes[i].x, passes[i].dx), h = part(p->height, passes[i].y, passes[i].dy);
        if (w > 0) total += ((w * bits + 7) / 8 + 1) * h;
    }
    int64_t widest = ((int64_t)p->width * bits + 7) / 8, made = 0;
    // Of a damaged stream what is not there is zero.
    uint8_t *rows = in->params.lenient ? calloc(1, (size_t)total) : malloc((size_t)total), *zeros = calloc(1, (size_t)widest);
    int rc = rows && zeros ? 0 : gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of pixels", total);
    gwb_inflated got = rc == 0 ? (in->params.lenient ? gwb_inflate_own : gwb_inflate)(p->stream.data, p->stream.size, rows, total, true, &made) : GWB_INFLATE_OK;
    if (got == GWB_INFLATE_MEMORY) rc = gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory to decompress it");
    else if (got == GWB_INFLATE_MORE) rc = gwb_doubt(in, out, "damaged PNG: more pixels than %dx%d", p->width, p->height);
    else if (got == GWB_INFLATE_BAD) rc = gwb_doubt(in, out, "damaged PNG: its pixels do not decompress, or their checksum (Adler) is wrong");
    else if (rc == 0 && made < total) {
        rc = gwb_doubt(in, out, "truncated PNG: %" PRId64 " of the %" PRId64 " bytes of its pixels", made, total);
    }
    bool filters = true, colours = true;
    const uint8_t *at = rows;
    int64_t pixel = channels * (p->depth == 16 ? 2 : 1);
    for (int i = first; i < last && rc == 0; i++) {
        int32_t w = part(p->width, passes[i].x, passes[i].dx), h = part(p->height, passes[i].y, passes[i].dy);
        int64_t bytes = ((int64_t)w * bits + 7) / 8;
        const uint8_t *prior = zeros;
        for (int32_t y = 0; y < h && w > 0; y++, at += bytes + 1) {
            uint8_t *row = rows + (at - rows) + 1;
            filters = filters && at[0] <= 4;
            unfilter(at[0] <= 4 ? at[0] : 0, row, prior, bytes, bits >= 8 ? bits / 8 : 1);
            uint8_t *to = out->plane[0].data + ((int64_t)y * passes[i].dy + passes[i].y) * out->plane[0].step + passes[i].x * pixel;
            colours = expand(p, row, w, to, passes[i].dx * pixel, channels) && colours;
            prior = row;
        }
    }
    free(rows);
    free(zeros);
    if (rc == 0 && !filters) rc = gwb_doubt(in, out, "damaged PNG: a row with a filter that is none");
    if (rc == 0 && !colours) rc = gwb_doubt(in, out, "damaged PNG: pixels of colours that its palette of %d does not have", p->colours);
    return rc;
}

static int read_png(const gwb_input *in, gwb_picture *out, png *p)
{
    static const uint8_t samples[] = {1, 0, 3, 1, 2, 0, 4};
    int rc = read_chunks(in, out, p);
    if (rc < 0) return rc;
    if (!p->pixels && !in->params.header_only) return gwb_refuse(in, GWB_BAD_FILE, "truncated PNG: it ends before its pixels (IDAT)");
    int channels = p->colour == 3 ? p->clear ? 4 : 3 : samples[p->colour] + p->clear, bits = samples[p->colour] * p->depth;
    uint32_t width = gwb_be32(p->header), height = gwb_be32(p->header + 4);
    int type = p->depth == 16 ? GWB_U16 : GWB_U8;
    if (p->colour == 3 && !p->colours) return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: it has no palette (PLTE)");
    rc = gwb_check_size(in, width, height, channels * gwb_type_size(type), in->size * 1032 * 8 / bits); // deflate makes at most 1032 bytes of one
    if (rc < 0) return rc;
    p->width = (int32_t)width;
    p->height = (int32_t)height;
    out->depth = p->depth;
    snprintf(out->coding, sizeof out->coding, "%s%s", p->colour == 3 ? "palette " : "", p->interlaced ? "interlaced" : "");
    if (in->params.header_only) {
        gwb_picture_describe(out, NULL, p->width, p->height, type, channels);
        return 0;
    }
    rc = gwb_picture_rows(in, out, p->width, p->height, type, channels);
    return rc < 0 ? rc : decode(in, out, p, bits, channels);
}

int gwb_png_decode(const gwb_input *in, gwb_picture *out)
{
    if (in->size < 8 || memcmp(in->bytes, png_signature, 8) != 0) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: its first 8 bytes are wrong, as after a transfer in text mode");
    }
    png p = {0};
    int rc = read_png(in, out, &p);
    if (!p.borrowed) gwb_bytes_free(&p.stream);
    return rc;
}
