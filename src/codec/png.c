// SPDX-License-Identifier: MIT
// PNG: a walk over the chunks checks what stb_image does not (CRCs, the end), then stb_image decodes; and a writer for 8 and 16 bits.
#include "codec.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

static uint32_t crc_table[8][256];

static void fill_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
        crc_table[0][i] = c;
    }
    for (int t = 1; t < 8; t++) {
        for (int i = 0; i < 256; i++) {
            uint32_t c = crc_table[t - 1][i];
            crc_table[t][i] = crc_table[0][c & 255] ^ c >> 8;
        }
    }
}

// Eight bytes a step, by as many tables.
static uint32_t crc(const uint8_t *p, int64_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_crc_table);
    uint32_t c = UINT32_MAX;
    for (; size >= 8; size -= 8, p += 8) {
        uint32_t a = c ^ gwb_le32(p), b = gwb_le32(p + 4);
        c = crc_table[7][a & 255] ^ crc_table[6][a >> 8 & 255] ^ crc_table[5][a >> 16 & 255] ^ crc_table[4][a >> 24]
          ^ crc_table[3][b & 255] ^ crc_table[2][b >> 8 & 255] ^ crc_table[1][b >> 16 & 255] ^ crc_table[0][b >> 24];
    }
    for (; size > 0; size--, p++) c = crc_table[0][(c ^ *p) & 255] ^ c >> 8;
    return ~c;
}

// A damaged signature counts too: what is wrong is then said.
bool gwb_png_recognise(const uint8_t *bytes, int64_t size)
{
    return (size >= 4 && memcmp(bytes + 1, signature + 1, 3) == 0) || (size >= 16 && memcmp(bytes + 12, "IHDR", 4) == 0);
}

// Code points of ITU-T H.273, which the chunk cICP holds.
static const struct { int code; const char *name; } transfers[] = {
    {13, "srgb"}, {1, "bt709"}, {4, "gamma22"}, {5, "gamma28"}, {8, "linear"}, {16, "pq"}, {18, "hlg"}, {6, "bt709"}, {14, "bt709"}, {15, "bt709"},
}, primaries[] = {{1, "bt709"}, {9, "bt2020"}, {12, "display-p3"}, {5, "bt601-625"}, {6, "bt601-525"}};

enum { TRANSFERS = sizeof transfers / sizeof *transfers, PRIMARIES = sizeof primaries / sizeof *primaries };

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
        transfer = gamma == 100000 ? "linear" : gamma >= 45450 && gamma <= 45460 ? "gamma22" : gamma >= 35710 && gamma <= 35720 ? "gamma28" : "";
    }
    if (found <= *rank) return;
    *rank = found;
    strcpy(out->transfer, transfer);
    strcpy(out->primaries, primary);
}

// The walk. Sets what IHDR says, and whether IEND was reached.
static int check_chunks(const gwb_input *in, gwb_picture *out, const uint8_t **header)
{
    const uint8_t *b = in->bytes;
    bool pixels = false;
    int rank = 0;
    for (int64_t at = 8; at < in->size;) {
        if (in->size - at < 12) break;
        int64_t length = gwb_be32(b + at);
        const uint8_t *name = b + at + 4;
        for (int i = 0; i < 4; i++) {
            if ((name[i] | 32) < 'a' || (name[i] | 32) > 'z') {
                return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: no chunk begins at byte %" PRId64, at);
            }
        }
        if (!*header && memcmp(name, "CgBI", 4) == 0) return gwb_refuse(in, GWB_UNSUPPORTED, "a PNG in Apple's own variant (CgBI)");
        if (!*header && (memcmp(name, "IHDR", 4) != 0 || length != 13)) {
            return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: it does not begin with its header");
        }
        if (length > in->size - at - 12) {
            if (!*header) break;
            return gwb_doubt(in, out, "truncated PNG: chunk %.4s has %" PRId64 " bytes, %" PRId64 " are there", (const char *)name,
                             length, in->size - at - 8);
        }
        uint32_t given = gwb_be32(b + at + 8 + length), right = crc(name, length + 4);
        if (given != right) {
            int rc = gwb_doubt(in, out, "damaged PNG: the CRC of chunk %.4s at byte %" PRId64 " is %08x, its content has %08x",
                               (const char *)name, at, given, right);
            if (rc < 0) return rc;
        }
        if (memcmp(name, "IHDR", 4) == 0) *header = b + at + 8;
        if (memcmp(name, "IDAT", 4) == 0) pixels = true;
        if (!pixels) read_colour(name, b + at + 8, length, out, &rank);
        if (memcmp(name, "IEND", 4) == 0) return pixels ? 0 : gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: it has no pixels (IDAT)");
        at += 12 + length;
    }
    if (!*header) return gwb_refuse(in, GWB_BAD_FILE, "truncated PNG: the header is cut");
    return gwb_doubt(in, out, "truncated PNG: it has no end (IEND)");
}

int gwb_png_decode(const gwb_input *in, gwb_picture *out)
{
    if (in->size < 8 || memcmp(in->bytes, signature, 8) != 0) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: its first 8 bytes are wrong, as after a transfer in text mode");
    }
    const uint8_t *header = NULL;
    int rc = check_chunks(in, out, &header);
    if (rc < 0) return rc;
    uint32_t width = gwb_be32(header), height = gwb_be32(header + 4);
    int depth = header[8], colour = header[9];
    static const uint8_t samples[] = {1, 0, 3, 1, 2, 0, 4};
    static const uint32_t depths[] = {1 << 1 | 1 << 2 | 1 << 4 | 1 << 8 | 1 << 16, 0, 1 << 8 | 1 << 16, 1 << 1 | 1 << 2 | 1 << 4 | 1 << 8,
                                      1 << 8 | 1 << 16, 0, 1 << 8 | 1 << 16};
    if (colour > 6 || !samples[colour]) return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: there is no colour type %d", colour);
    if (depth > 16 || !(depths[colour] >> depth & 1)) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: colour type %d has no samples of %d bits", colour, depth);
    }
    if (header[10] || header[11] || header[12] > 1) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged PNG: unknown compression, filter or interlacing");
    }
    int64_t bits = (int64_t)samples[colour] * depth, bytes = (colour == 3 ? 4 : samples[colour]) * (depth == 16 ? 2 : 1);
    rc = gwb_check_size(in, width, height, bytes, in->size * 1032 * 8 / bits); // deflate makes at most 1032 bytes of one
    if (rc < 0) return rc;
    out->width = (int32_t)width;
    out->height = (int32_t)height;
    return gwb_stb_decode(in, out, depth == 16 ? GWB_U16 : GWB_U8, true);
}

// ---- writing

// One row filtered the way `filter` says; `prior` is the row above (zeros for the first), `pixel` the bytes of a pixel. Returns the sum
// of the results' distances from 0, which is low where the row will compress well.
static int64_t filter_row(uint8_t *out, const uint8_t *row, const uint8_t *prior, int64_t bytes, int pixel, int filter)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < bytes; i++) {
        int left = i >= pixel ? row[i - pixel] : 0, up = prior[i], corner = i >= pixel ? prior[i - pixel] : 0;
        int guess = 0;
        if (filter == 1) guess = left;
        else if (filter == 2) guess = up;
        else if (filter == 3) guess = (left + up) >> 1;
        else if (filter == 4) {
            int to_left = abs(up - corner), to_up = abs(left - corner), to_corner = abs(left + up - 2 * corner);
            guess = to_left <= to_up && to_left <= to_corner ? left : to_up <= to_corner ? up : corner;
        }
        out[i] = (uint8_t)(row[i] - guess);
        sum += abs((int8_t)out[i]);
    }
    return sum;
}

// PNG is big-endian.
static void take_row(uint8_t *to, const gwb_plane *p, int32_t y, int64_t bytes)
{
    const uint8_t *from = p->data + y * p->step;
    memcpy(to, from, (size_t)bytes);
    if (p->type != GWB_U16) return;
    for (int64_t i = 0; i < bytes; i += 2) {
        to[i] = from[i + 1];
        to[i + 1] = from[i];
    }
}

// All rows with a filter byte each, as they are then compressed. The caller frees them.
static uint8_t *filtered(const gwb_plane *p, int64_t bytes)
{
    int pixel = gwb_type_size(p->type) * p->channels;
    uint8_t *all = malloc((size_t)((bytes + 1) * p->height)), *work = calloc(4, (size_t)bytes);
    if (all && work) {
        uint8_t *row = work, *prior = work + bytes, *trial = work + 2 * bytes;
        for (int32_t y = 0; y < p->height; y++) {
            uint8_t *best = all + y * (bytes + 1);
            int64_t least = INT64_MAX;
            take_row(row, p, y, bytes);
            for (int filter = 0; filter < 5; filter++) {
                int64_t sum = filter_row(trial, row, prior, bytes, pixel, filter);
                if (sum >= least) continue;
                least = sum;
                best[0] = (uint8_t)filter;
                memcpy(best + 1, trial, (size_t)bytes);
            }
            uint8_t *swap = row;
            row = prior;
            prior = swap;
        }
    } else {
        free(all);
        all = NULL;
    }
    free(work);
    return all;
}

// Opens a chunk; returns where it begins.
static int64_t begin_chunk(gwb_bytes *out, const char *name)
{
    int64_t at = out->size;
    gwb_bytes_add(out, "\0\0\0", 4);
    gwb_bytes_add(out, name, 4);
    return at;
}

static int end_chunk(gwb_bytes *out, int64_t at)
{
    int64_t length = out->size - at - 8;
    uint8_t *check = gwb_bytes_room(out, 4);
    if (!check) return GWB_OUT_OF_MEMORY;
    gwb_put_be32(out->data + at, (uint32_t)length);
    gwb_put_be32(check, crc(out->data + at + 4, length + 4));
    return 0;
}

// sRGB for what it means, else cICP where both tags have a code; nothing where there are no tags.
static int write_colour(const gwb_picture *p, gwb_bytes *out)
{
    if (strcmp(p->transfer, "srgb") == 0 && (!p->primaries[0] || strcmp(p->primaries, "bt709") == 0)) {
        int64_t at = begin_chunk(out, "sRGB");
        gwb_bytes_add(out, (const uint8_t[]){0}, 1);
        return end_chunk(out, at);
    }
    uint8_t codes[4] = {0, 0, 0, 1};    // RGB, full range
    for (int i = TRANSFERS - 1; i >= 0; i--) if (strcmp(p->transfer, transfers[i].name) == 0) codes[1] = (uint8_t)transfers[i].code;
    for (int i = 0; i < PRIMARIES; i++) if (strcmp(p->primaries, primaries[i].name) == 0) codes[0] = (uint8_t)primaries[i].code;
    if (!codes[0] || !codes[1]) return 0;
    int64_t at = begin_chunk(out, "cICP");
    gwb_bytes_add(out, codes, 4);
    return end_chunk(out, at);
}

int gwb_png_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    static const uint8_t colours[] = {0, 4, 2, 6};
    const gwb_plane *plane = &p->plane[0];
    int64_t bytes = (int64_t)plane->width * plane->channels * gwb_type_size(plane->type);
    if ((bytes + 1) * plane->height > INT32_MAX - 65536) {
        return gwb_fail(GWB_UNSUPPORTED, "%dx%d pixels are more than 2 GB, which PNG's compression here does not take",
                        plane->width, plane->height);
    }
    uint8_t header[13] = {[8] = (uint8_t)(gwb_type_size(plane->type) * 8), [9] = colours[plane->channels - 1]};
    gwb_put_be32(header, (uint32_t)plane->width);
    gwb_put_be32(header + 4, (uint32_t)plane->height);
    gwb_bytes_add(out, signature, 8);
    int64_t at = begin_chunk(out, "IHDR");
    gwb_bytes_add(out, header, sizeof header);
    int rc = end_chunk(out, at);
    if (rc == 0) rc = write_colour(p, out);
    if (rc < 0) return rc;
    uint8_t *rows = filtered(plane, bytes);
    if (!rows) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory to encode %dx%d pixels", plane->width, plane->height);
    at = begin_chunk(out, "IDAT");
    rc = gwb_stb_deflate(rows, (bytes + 1) * plane->height, params->level, out);
    free(rows);
    if (rc == 0) rc = end_chunk(out, at);
    if (rc == 0) rc = end_chunk(out, begin_chunk(out, "IEND"));
    return rc;
}
