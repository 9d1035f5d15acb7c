// SPDX-License-Identifier: MIT
// QOI, the "quite OK image" format: 8 bits, RGB or RGBA, without loss.
#include "codec.h"

#include <string.h>

typedef struct colour {
    uint8_t r, g, b, a;
} colour;

static int place(colour c) { return (c.r * 3 + c.g * 5 + c.b * 7 + c.a * 11) % 64; }

static bool equal(colour a, colour b) { return a.r == b.r && a.g == b.g && a.b == b.b && a.a == b.a; }

bool gwb_qoi_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 4 && memcmp(bytes, "qoif", 4) == 0;
}

int gwb_qoi_decode(const gwb_input *in, gwb_picture *out)
{
    const uint8_t *b = in->bytes;
    if (in->size < 14) return gwb_refuse(in, GWB_BAD_FILE, "truncated QOI: the header is cut");
    int channels = b[12];
    if (channels != 3 && channels != 4) return gwb_refuse(in, GWB_BAD_FILE, "damaged QOI: %d channels", channels);
    uint32_t width = gwb_be32(b + 4), height = gwb_be32(b + 8);
    int rc = gwb_check_size(in, width, height, channels, (in->size - 14) * 62); // a byte makes a run of up to 62
    if (rc == 0 && in->params.header_only) {
        gwb_picture_describe(out, NULL, (int32_t)width, (int32_t)height, GWB_U8, channels);
        return 0;
    }
    if (rc == 0) rc = gwb_picture_alloc(in, out, (int32_t)width, (int32_t)height, GWB_U8, channels);
    if (rc < 0) return rc;
    colour seen[64] = {{0}}, c = {0, 0, 0, 255};
    int run = 0;
    int64_t at = 14, end = in->size, pixels = (int64_t)width * height;
    uint8_t *to = out->memory;
    for (int64_t i = 0; i < pixels; i++, to += channels) {
        if (run > 0) {
            run--;
        } else {
            int op = at < end ? b[at] : -1, length = op == 0xff ? 5 : op == 0xfe ? 4 : op >= 0x80 && op < 0xc0 ? 2 : 1;
            if (op < 0 || at + length > end) {
                memset(to, 0, (size_t)((pixels - i) * channels));
                return gwb_doubt(in, out, "truncated QOI: it ends in row %lld of %u", (long long)(i / width), height);
            }
            const uint8_t *p = b + at;
            at += length;
            if (length >= 4) {
                c = (colour){p[1], p[2], p[3], length == 5 ? p[4] : c.a};
            } else if (op < 0x40) {
                c = seen[op];
            } else if (op < 0x80) {
                c.r = (uint8_t)(c.r + (op >> 4 & 3) - 2);
                c.g = (uint8_t)(c.g + (op >> 2 & 3) - 2);
                c.b = (uint8_t)(c.b + (op & 3) - 2);
            } else if (op < 0xc0) {
                int green = (op & 63) - 32;
                c.r = (uint8_t)(c.r + green + (p[1] >> 4) - 8);
                c.g = (uint8_t)(c.g + green);
                c.b = (uint8_t)(c.b + green + (p[1] & 15) - 8);
            } else {
                run = op & 63;
            }
            seen[place(c)] = c;
        }
        memcpy(to, &c, (size_t)channels);
    }
    if (end - at < 8 || memcmp(b + at, "\0\0\0\0\0\0\0\1", 8) != 0) {
        return gwb_doubt(in, out, "damaged QOI: the pixels do not end where the file ends");
    }
    return 0;
}

// The shortest code for `c` behind `last`; neither a run nor a colour seen before. Returns its bytes.
static int code(colour c, colour last, uint8_t p[5])
{
    int8_t r = (int8_t)(c.r - last.r), g = (int8_t)(c.g - last.g), b = (int8_t)(c.b - last.b);
    if (c.a != last.a) {
        memcpy(p, (uint8_t[5]){0xff, c.r, c.g, c.b, c.a}, 5);
        return 5;
    }
    if (r >= -2 && r <= 1 && g >= -2 && g <= 1 && b >= -2 && b <= 1) {
        p[0] = (uint8_t)(0x40 | (r + 2) << 4 | (g + 2) << 2 | (b + 2));
        return 1;
    }
    int red = r - g, blue = b - g;
    if (g >= -32 && g <= 31 && red >= -8 && red <= 7 && blue >= -8 && blue <= 7) {
        p[0] = (uint8_t)(0x80 | (g + 32));
        p[1] = (uint8_t)((red + 8) << 4 | (blue + 8));
        return 2;
    }
    memcpy(p, (uint8_t[4]){0xfe, c.r, c.g, c.b}, 4);
    return 4;
}

int gwb_qoi_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    (void)params;
    const gwb_plane *plane = &p->plane[0];
    uint8_t header[14] = {'q', 'o', 'i', 'f', [12] = (uint8_t)plane->channels};
    gwb_put_be32(header + 4, (uint32_t)plane->width);
    gwb_put_be32(header + 8, (uint32_t)plane->height);
    gwb_bytes_add(out, header, sizeof header);
    colour seen[64] = {{0}}, last = {0, 0, 0, 255};
    int run = 0;
    for (int32_t y = 0; y < plane->height; y++) {
        const uint8_t *from = plane->data + y * plane->step;
        uint8_t *to = gwb_bytes_room(out, (int64_t)plane->width * 5 + 1);
        if (!to) return GWB_OUT_OF_MEMORY;
        for (int32_t x = 0; x < plane->width; x++, from += plane->channels) {
            colour c = {from[0], from[1], from[2], plane->channels == 4 ? from[3] : 255};
            bool same = equal(c, last);
            if (same) run++;
            if (run > 0 && (!same || run == 62)) {
                *to++ = (uint8_t)(0xc0 | (run - 1));
                run = 0;
            }
            if (same) continue;
            if (equal(seen[place(c)], c)) *to++ = (uint8_t)place(c);
            else to += code(c, last, to);
            seen[place(c)] = c;
            last = c;
        }
        out->size = to - out->data;
    }
    if (run > 0) {
        uint8_t end = (uint8_t)(0xc0 | (run - 1));
        gwb_bytes_add(out, &end, 1);
    }
    return gwb_bytes_add(out, "\0\0\0\0\0\0\0\1", 8);
}
