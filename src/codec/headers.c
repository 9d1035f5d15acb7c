// SPDX-License-Identifier: MIT
// BMP, TGA, PSD and HDR: what the header promises is held against what the file can hold, then stb_image reads it.
#include "codec.h"

#include <string.h>

// `capacity`: the most pixels that a file of this size can make.
static int decode(const gwb_input *in, gwb_picture *out, int type, int64_t capacity)
{
    int32_t width, height, channels;
    int rc = gwb_stb_size(in, &width, &height, &channels);
    if (rc == 0) rc = gwb_check_size(in, width, height, (int64_t)channels * gwb_type_size(type), capacity);
    if (rc < 0) return rc;
    if (in->params.header_only) {
        gwb_picture_describe(out, NULL, width, height, type, channels);
        return 0;
    }
    out->width = width;
    out->height = height;
    return gwb_stb_decode(in, out, type, false);
}

// A strict reader wants every pixel of an uncompressed file; a lenient one takes what is there, from a file that has any.
static int64_t rows_of(const gwb_input *in, int64_t start, int64_t row_bytes, int64_t width, int64_t height)
{
    if (start < 0 || start >= in->size || row_bytes < 1) return 0;
    int64_t rows = (in->size - start) / row_bytes;
    if (in->params.lenient && rows > 0) rows = rows * 64 > height ? height : rows;
    return rows * width;
}

bool gwb_bmp_recognise(const uint8_t *bytes, int64_t size)
{
    if (size < 18 || bytes[0] != 'B' || bytes[1] != 'M') return false;
    uint32_t header = gwb_le32(bytes + 14);
    return header == 12 || header == 40 || header == 52 || header == 56 || header == 64 || header == 108 || header == 124;
}

int gwb_bmp_decode(const gwb_input *in, gwb_picture *out)
{
    const uint8_t *b = in->bytes;
    uint32_t header = gwb_le32(b + 14);
    if (header == 52 || header == 64) return gwb_refuse(in, GWB_UNSUPPORTED, "a BMP with the rare header of %u bytes", header);
    if (in->size < 14 + (int64_t)header) return gwb_refuse(in, GWB_BAD_FILE, "truncated: the header is cut");
    bool old = header == 12;
    int64_t width = old ? gwb_le16(b + 18) : (int32_t)gwb_le32(b + 18);
    int64_t height = old ? gwb_le16(b + 20) : (int32_t)gwb_le32(b + 22);
    int bits = gwb_le16(b + (old ? 24 : 28));
    uint32_t packing = old ? 0 : gwb_le32(b + 30);
    if (height == INT32_MIN) return gwb_refuse(in, GWB_BAD_FILE, "damaged BMP: a height of %lld", (long long)height);
    if (packing == 1 || packing == 2) return gwb_bmp_runs(in, out, width, height, packing == (bits == 4 ? 2 : 1) ? bits : 0);
    if (packing != 0 && packing != 3) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "a BMP of packing %u (only plain pixels and bit masks are read)", packing);
    }
    if (height < 0) height = -height; // the top row comes first
    return decode(in, out, GWB_U8, rows_of(in, gwb_le32(b + 10), (width * bits + 31) / 32 * 4, width, height));
}

bool gwb_tga_recognise(const uint8_t *b, int64_t size)
{
    if (size < 18 || b[1] > 1) return false;
    bool palette = b[1] == 1;
    int kind = b[2], bits = b[16], palette_bits = b[7];
    if (gwb_le16(b + 12) == 0 || gwb_le16(b + 14) == 0) return false;
    if (palette) {
        return (kind == 1 || kind == 9) && (bits == 8 || bits == 16) && gwb_le16(b + 5) > 0
            && (palette_bits == 15 || palette_bits == 16 || palette_bits == 24 || palette_bits == 32);
    }
    return (kind == 2 || kind == 3 || kind == 10 || kind == 11) && (bits == 8 || bits == 15 || bits == 16 || bits == 24 || bits == 32);
}

// Samples of 5 bits, which stb_image scales and rounds down, as BMP has them: the high bits repeated below.
static void widen(const gwb_plane *p)
{
    for (int64_t y = 0; y < p->height; y++) {
        uint8_t *row = p->data + y * p->step;
        for (int64_t x = 0; x < (int64_t)p->width * p->channels; x++) {
            int v = (row[x] * 31 + 254) / 255;
            row[x] = (uint8_t)(v << 3 | v >> 2);
        }
    }
}

int gwb_tga_decode(const gwb_input *in, gwb_picture *out)
{
    const uint8_t *b = in->bytes;
    int64_t width = gwb_le16(b + 12), height = gwb_le16(b + 14), pixel = (b[16] + 7) / 8;
    int64_t start = 18 + b[0] + (b[1] ? (int64_t)gwb_le16(b + 5) * ((b[7] + 7) / 8) : 0);
    // A packet of runs makes up to 128 pixels.
    int rc = decode(in, out, GWB_U8, b[2] < 8 ? rows_of(in, start, width * pixel, width, height) : in->size / (1 + pixel) * 128);
    int bits = b[1] ? b[7] : b[16];
    if (rc == 0 && !in->params.header_only && (b[1] || b[2] % 8 == 2) && (bits == 15 || bits == 16)) widen(&out->plane[0]);
    return rc;
}

bool gwb_psd_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 26 && memcmp(bytes, "8BPS", 4) == 0;
}

int gwb_psd_decode(const gwb_input *in, gwb_picture *out)
{
    if (gwb_be16(in->bytes + 4) != 1) return gwb_refuse(in, GWB_UNSUPPORTED, "a large-document Photoshop file (PSB)");
    static const char *const modes[] = {"bitmap", "gray", "palette", "RGB", "CMYK", "", "", "multichannel", "duotone", "Lab"};
    int mode = gwb_be16(in->bytes + 24);
    if (mode != 3) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "a Photoshop file in %s colour; only RGB is read", mode < 10 ? modes[mode] : "unknown");
    }
    return decode(in, out, gwb_be16(in->bytes + 22) == 16 ? GWB_U16 : GWB_U8, in->size * 64); // two bytes make a run of 128
}

bool gwb_hdr_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 11 && (memcmp(bytes, "#?RADIANCE\n", 11) == 0 || memcmp(bytes, "#?RGBE\n", 7) == 0);
}

int gwb_hdr_decode(const gwb_input *in, gwb_picture *out)
{
    return decode(in, out, GWB_F32, in->size * 16); // eight bytes, four runs, make up to 127 pixels
}
