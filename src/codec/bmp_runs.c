// SPDX-License-Identifier: MIT
// Run-length BMP: runs, literal pixels, ends of rows and jumps, from the bottom row up. What no run reaches has the first colour.
#include "codec.h"

#include <string.h>

typedef struct runs {
    const uint8_t *palette;     // blue, green, red, 0
    int colours, bits;
    gwb_plane *to;
    int32_t x, y;               // the next pixel; rows from the bottom
    bool outside, unknown;      // a pixel beyond the picture; a colour that the palette does not have
} runs;

static void put(runs *r, int index)
{
    if (r->x >= r->to->width || r->y >= r->to->height) {
        r->outside = true;
        return;
    }
    r->unknown = r->unknown || index >= r->colours;
    if (index < r->colours) {
        const uint8_t *from = r->palette + 4 * index;
        memcpy(r->to->data + (r->to->height - 1 - r->y) * r->to->step + 3 * (int64_t)r->x, (uint8_t[3]){from[2], from[1], from[0]}, 3);
    }
    r->x++;
}

// Pixel i of the bytes from `p` on, two in a byte where they have 4 bits.
static int pixel(const runs *r, const uint8_t *p, int i)
{
    return r->bits == 8 ? p[i] : i % 2 ? p[i / 2] & 15 : p[i / 2] >> 4;
}

// False where the bytes end before their end mark.
static bool expand(runs *r, const uint8_t *p, const uint8_t *end)
{
    while (end - p >= 2) {
        int count = p[0], second = p[1];
        p += 2;
        if (count > 0) {
            const uint8_t pair[2] = {(uint8_t)second, (uint8_t)second};
            for (int i = 0; i < count; i++) put(r, r->bits == 8 ? second : pixel(r, pair, i & 1));
        } else if (second == 0) {
            r->x = 0;
            r->y += r->y < r->to->height;
        } else if (second == 1) {
            return true;
        } else if (second == 2) {
            if (end - p < 2) return false;
            r->x = p[0] < r->to->width - r->x ? r->x + p[0] : r->to->width;
            r->y = p[1] < r->to->height - r->y ? r->y + p[1] : r->to->height;
            p += 2;
        } else {
            int bytes = r->bits == 8 ? second : (second + 1) / 2;
            for (int i = 0; i < second && (r->bits == 8 ? i : i / 2) < end - p; i++) put(r, pixel(r, p, i));
            bytes += bytes % 2;
            if (bytes > end - p) return false;
            p += bytes;
        }
    }
    return r->y >= r->to->height - 1 && (r->x >= r->to->width || r->y == r->to->height);
}

int gwb_bmp_runs(const gwb_input *in, gwb_picture *out, int64_t width, int64_t height, int bits)
{
    const uint8_t *b = in->bytes;
    int64_t header = gwb_le32(b + 14), start = gwb_le32(b + 10), colours = gwb_le32(b + 46);
    if (height < 0) return gwb_refuse(in, GWB_BAD_FILE, "damaged BMP: runs with the top row first");
    if (bits != 4 && bits != 8) return gwb_refuse(in, GWB_BAD_FILE, "damaged BMP: runs of %d bits", bits);
    if (colours < 1 || colours > 1 << bits) colours = 1 << bits;
    if (14 + header + 4 * colours > in->size || start < 14 + header || start > in->size) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged BMP: its palette or its pixels lie behind the end of the file");
    }
    // Two bytes make a run of 255 pixels, or end a row.
    int rc = gwb_check_size(in, width, height, 3, (in->size - start) / 2 * (width > 255 ? width : 255));
    if (rc < 0) return rc;
    out->depth = bits;
    strcpy(out->coding, "palette run-length");
    if (in->params.header_only) {
        gwb_picture_describe(out, NULL, (int32_t)width, (int32_t)height, GWB_U8, 3);
        return 0;
    }
    rc = gwb_picture_rows(in, out, (int32_t)width, (int32_t)height, GWB_U8, 3);
    if (rc < 0) return rc;
    gwb_plane *plane = &out->plane[0];
    runs r = {.palette = b + 14 + header, .colours = (int)colours, .bits = bits, .to = plane};
    for (r.y = 0; r.y < plane->height; r.y++) for (r.x = 0; r.x < plane->width;) put(&r, 0);
    r.x = r.y = 0;
    r.outside = false;
    bool whole = expand(&r, b + start, b + in->size);
    if (!whole) rc = gwb_doubt(in, out, "truncated BMP: its runs have no end mark");
    if (rc == 0 && r.outside) rc = gwb_doubt(in, out, "damaged BMP: runs beyond its %lldx%lld pixels", (long long)width, (long long)height);
    if (rc == 0 && r.unknown) rc = gwb_doubt(in, out, "damaged BMP: pixels of colours that its palette of %d does not have", r.colours);
    return rc;
}
