// SPDX-License-Identifier: MIT
// JPEG: a walk over the markers tells what stb_image cannot (coding, end of the picture, EXIF orientation), then stb_image decodes.
#include "codec.h"

#include <string.h>

typedef struct facts {
    int coding;                 // the SOF marker; 0: none yet
    int precision, width, height, components;
    bool adobe, complete;
    bool pixels;                // a scan begins
    bool bad_codes;             // Huffman tables that stb_image would write past its own
    int orientation;
} facts;

bool gwb_jpg_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

// The orientation in an EXIF block (a small TIFF), 0 where it does not say or is damaged.
static int exif_orientation(const uint8_t *p, int64_t size)
{
    if (size < 14 || memcmp(p, "Exif\0\0", 6) != 0) return 0;
    p += 6;
    size -= 6;
    bool little = p[0] == 'I';
    if (memcmp(p, little ? "II*\0" : "MM\0*", 4) != 0) return 0;
    int64_t at = little ? gwb_le32(p + 4) : gwb_be32(p + 4);
    if (at + 2 > size) return 0;
    int entries = little ? gwb_le16(p + at) : gwb_be16(p + at);
    for (at += 2; entries-- > 0 && at + 12 <= size; at += 12) {
        int tag = little ? gwb_le16(p + at) : gwb_be16(p + at);
        int value = little ? gwb_le16(p + at + 8) : gwb_be16(p + at + 8);
        if (tag == 0x0112) return value >= 1 && value <= 8 ? value : 0;
    }
    return 0;
}

// Whether a DHT segment is made of Huffman tables with at most 256 codes each.
static bool tables_fit(const uint8_t *p, int64_t size)
{
    while (size >= 17) {
        int codes = 0;
        for (int i = 1; i <= 16; i++) codes += p[i];
        if (codes > 256) return false;
        p += 17 + codes;
        size -= 17 + codes;
    }
    return size == 0;
}

static bool is_sof(int marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Goes from marker to marker until the end of the picture. Leaves `complete` unset where the file ends before.
static void walk(const uint8_t *b, int64_t size, facts *f)
{
    int64_t at = 2;
    for (;;) {
        while (at < size && b[at] != 0xff) at++;        // the coded pixels, behind a scan's header
        while (at < size && b[at] == 0xff) at++;        // fill bytes
        if (at >= size) return;
        int marker = b[at++];
        if (marker == 0xd9) {
            f->complete = true;
            return;
        }
        if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8)) continue; // no length follows
        if (at + 2 > size) return;
        int64_t length = gwb_be16(b + at);
        const uint8_t *p = b + at + 2;
        if (marker == 0xc4 && !tables_fit(p, (at + length > size ? size - at : length) - 2)) f->bad_codes = true;
        if (length < 2 || at + length > size) return;
        if (is_sof(marker) && !f->coding && length >= 8) {
            f->coding = marker;
            f->precision = p[0];
            f->height = gwb_be16(p + 1);
            f->width = gwb_be16(p + 3);
            f->components = p[5];
        } else if (marker == 0xe1 && !f->orientation) {
            f->orientation = exif_orientation(p, length - 2);
        } else if (marker == 0xee && length >= 14 && memcmp(p, "Adobe", 5) == 0) {
            f->adobe = true;
        } else if (marker == 0xda) {
            f->pixels = true;
        }
        at += length;
    }
}

int gwb_jpg_decode(const gwb_input *in, gwb_picture *out)
{
    facts f = {0};
    walk(in->bytes, in->size, &f);
    if (!f.coding || !(f.pixels || f.complete)) return gwb_refuse(in, GWB_BAD_FILE, "truncated JPEG: it ends before its pixels begin");
    if (f.coding == 0xc3) return gwb_refuse(in, GWB_UNSUPPORTED, "a lossless JPEG (only baseline and progressive ones are read)");
    if (f.coding >= 0xc5 && f.coding <= 0xc7) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "a hierarchical JPEG (only baseline and progressive ones are read)");
    }
    if (f.coding > 0xc8) return gwb_refuse(in, GWB_UNSUPPORTED, "an arithmetic-coded JPEG (only Huffman-coded ones are read)");
    if (f.precision != 8) return gwb_refuse(in, GWB_UNSUPPORTED, "a JPEG of %d bits (only 8 are read)", f.precision);
    if (f.height == 0) return gwb_refuse(in, GWB_UNSUPPORTED, "a JPEG whose height follows its pixels (DNL)");
    if (f.components == 4 && !f.adobe) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "a CMYK JPEG without Adobe's mark: whether its colours are inverted is not known");
    }
    if (f.bad_codes) return gwb_refuse(in, GWB_BAD_FILE, "damaged JPEG: its Huffman tables are none");
    int channels = f.components >= 3 ? 3 : 1;
    // A block of 8x8 pixels takes at least one bit.
    int rc = gwb_check_size(in, f.width, f.height, channels, in->size * 512);
    if (rc == 0 && !f.complete) rc = gwb_doubt(in, out, "truncated JPEG: it has no end-of-image mark");
    if (rc < 0) return rc;
    out->width = f.width;
    out->height = f.height;
    out->orientation = f.orientation;
    if (f.complete) return gwb_stb_decode(in, out, GWB_U8, true);
    // stb_image fills the rest with gray where the end mark comes early, and gives up where there is none.
    gwb_bytes closed = {0};
    gwb_bytes_add(&closed, in->bytes, in->size);
    rc = gwb_bytes_add(&closed, "\xff\xd9", 2);
    gwb_input with_end = *in;
    with_end.bytes = closed.data;
    with_end.size = closed.size;
    if (rc == 0) rc = gwb_stb_decode(&with_end, out, GWB_U8, true);
    gwb_bytes_free(&closed);
    return rc;
}
