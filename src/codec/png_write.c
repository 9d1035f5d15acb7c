// SPDX-License-Identifier: MIT
// PNG's writer, for 8 and 16 bits and 1 to 4 channels.
#include "png.h"

#include "host/clones.h"

#include <stdlib.h>
#include <string.h>

// One row filtered the way `filter` says; `prior` is the row above (zeros for the first), `n` the bytes of a pixel. A loop a filter: the compiler makes
// vectors of each.
GWB_CLONES static void filter_row(uint8_t *restrict out, const uint8_t *restrict row, const uint8_t *restrict prior, int64_t bytes, int n, int filter)
{
    const uint8_t *left = row - n, *corner = prior - n;
    int64_t head = n < bytes ? n : bytes;
    switch (filter) {
    case 0:
        memcpy(out, row, (size_t)bytes);
        return;
    case 1:
        memcpy(out, row, (size_t)head);
        for (int64_t i = n; i < bytes; i++) out[i] = (uint8_t)(row[i] - left[i]);
        return;
    case 2:
        for (int64_t i = 0; i < bytes; i++) out[i] = (uint8_t)(row[i] - prior[i]);
        return;
    case 3:
        for (int64_t i = 0; i < head; i++) out[i] = (uint8_t)(row[i] - (prior[i] >> 1));
        for (int64_t i = n; i < bytes; i++) out[i] = (uint8_t)(row[i] - ((left[i] + prior[i]) >> 1));
        return;
    default:
        for (int64_t i = 0; i < head; i++) out[i] = (uint8_t)(row[i] - prior[i]);
        for (int64_t i = n; i < bytes; i++) {
            int16_t a = left[i], b = prior[i], c = corner[i];
            int16_t to_left = (int16_t)(b > c ? b - c : c - b), to_up = (int16_t)(a > c ? a - c : c - a), both = (int16_t)(a + b - 2 * c);
            int16_t to_corner = both < 0 ? (int16_t)-both : both;
            int16_t guess = to_up <= to_corner ? b : c;
            guess = (to_left <= to_up) & (to_left <= to_corner) ? a : guess;
            out[i] = (uint8_t)(row[i] - guess);
        }
    }
}

// The sum of the bytes' distances from 0, which is low where the row will compress well.
GWB_CLONES static int64_t weight(const uint8_t *p, int64_t bytes)
{
    int64_t sum = 0;
    while (bytes > 0) {
        uint32_t part = 0;
        int64_t n = bytes < 65536 ? bytes : 65536;
        for (int64_t i = 0; i < n; i++) part += p[i] < 128 ? p[i] : 256u - p[i];
        sum += part;
        p += n;
        bytes -= n;
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
                filter_row(trial, row, prior, bytes, pixel, filter);
                int64_t sum = weight(trial, bytes);
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
    gwb_put_be32(check, gwb_crc(out->data + at + 4, length + 4));
    return 0;
}

// One chunk of these bytes.
static int write_chunk(gwb_bytes *out, const char *name, const void *data, int64_t size)
{
    int64_t at = begin_chunk(out, name);
    gwb_bytes_add(out, data, size);
    return end_chunk(out, at);
}

// sRGB for what it means, else cICP where both tags have a code, else gAMA; the profile in front; nothing where there are no tags.
static int write_colour(const gwb_picture *p, gwb_bytes *out)
{
    if (p->icc) {
        int64_t at = begin_chunk(out, "iCCP");
        gwb_bytes_add(out, "profile\0", 9);
        int rc = gwb_deflate(p->icc, p->icc_size, 9, out);
        if (rc == 0) rc = end_chunk(out, at);
        if (rc < 0) return rc;
    } else if (strcmp(p->transfer, "srgb") == 0 && (!p->primaries[0] || strcmp(p->primaries, "bt709") == 0)) {
        return write_chunk(out, "sRGB", "", 1);         // iCCP and sRGB exclude each other
    }
    uint8_t codes[4] = {0, 0, 0, 1}, gamma[4];          // RGB, full range
    for (int i = TRANSFERS - 1; i >= 0; i--) if (strcmp(p->transfer, transfers[i].name) == 0) codes[1] = (uint8_t)transfers[i].code;
    for (int i = 0; i < PRIMARIES; i++) if (strcmp(p->primaries, primaries[i].name) == 0) codes[0] = (uint8_t)primaries[i].code;
    if (codes[0] && codes[1]) return write_chunk(out, "cICP", codes, 4);
    gwb_put_be32(gamma, (uint32_t)p->gamma);
    return p->gamma > 0 && !p->icc ? write_chunk(out, "gAMA", gamma, 4) : 0;
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
    gwb_bytes_add(out, png_signature, 8);
    int64_t at = begin_chunk(out, "IHDR");
    gwb_bytes_add(out, header, sizeof header);
    int rc = end_chunk(out, at);
    if (rc == 0) rc = write_colour(p, out);
    if (rc < 0) return rc;
    uint8_t *rows = filtered(plane, bytes);
    if (!rows) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory to encode %dx%d pixels", plane->width, plane->height);
    at = begin_chunk(out, "IDAT");
    rc = gwb_deflate(rows, (bytes + 1) * plane->height, params->level, out);
    free(rows);
    if (rc == 0) rc = end_chunk(out, at);
    if (rc == 0) rc = end_chunk(out, begin_chunk(out, "IEND"));
    return rc;
}
