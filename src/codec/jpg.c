// SPDX-License-Identifier: MIT
// JPEG: a walk over the markers tells what a file is (coding, planes, profile, EXIF, where it ends); libjpeg-turbo or stb_image decodes. With stb_image,
// which fills gaps silently, a second walk over the coded data finds them.
#include "jpg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gwb_jpg_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

// Whether a DHT segment is made of Huffman tables with at most 256 codes each; of a cut one, whether what is there is.
static bool tables_fit(const uint8_t *p, int64_t size, bool cut)
{
    while (size >= 17) {
        int codes = 0;
        for (int i = 1; i <= 16; i++) codes += p[i];
        if (codes > 256) return false;
        p += 17 + codes;
        size -= 17 + codes;
    }
    return size == 0 || cut;
}

static bool is_sof(int marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

static void read_frame(gwb_jpg *f, int marker, const uint8_t *p, int64_t length)
{
    f->coding = marker;
    f->precision = p[0];
    f->height = gwb_be16(p + 1);
    f->width = gwb_be16(p + 3);
    f->components = p[5];
    for (int i = 0; i < f->components && i < 4 && 6 + 3 * i + 2 < length; i++) {
        f->id[i] = p[6 + 3 * i];
        f->h[i] = p[7 + 3 * i] >> 4;
        f->v[i] = p[7 + 3 * i] & 15;
        if (f->h[i] > f->h_max) f->h_max = f->h[i];
        if (f->v[i] > f->v_max) f->v_max = f->v[i];
    }
}

// The part of an ICC profile in an APP2 segment: its number from 1, or 0.
static int profile_part(const uint8_t *p, int64_t length, int *parts)
{
    if (length < 15 || memcmp(p, "ICC_PROFILE", 12) != 0) return 0;
    *parts = p[13];
    return p[12];
}

static void read_scan(gwb_jpg *f, const uint8_t *p, int64_t size)
{
    int count = size > 0 ? p[0] : 0;
    f->pixels = true;
    if (count < 1 || count > 4 || size < 4 + 2 * count) return;
    int first = p[1 + 2 * count] & 63, last = p[2 + 2 * count] & 63, low = p[3 + 2 * count] & 15;
    for (int i = 0; i < count && low == 0; i++) {
        for (int c = 0; c < f->components && c < 4; c++) {
            if (f->id[c] == p[1 + 2 * i] && first <= last) f->fine[c] |= (UINT64_MAX >> (63 - (last - first))) << first;
        }
    }
}

// Some scans of a progressive file are missing. libjpeg smooths such a picture by guess.
static bool is_coarse(const gwb_jpg *f)
{
    for (int i = 0; i < f->components; i++) if (f->coding == 0xc2 && f->fine[i] != UINT64_MAX) return true;
    return false;
}

// Goes from marker to marker until the end of the picture. Leaves `complete` unset where the file ends before. Gathers the ICC profile into `icc`
// where that is not NULL, which has profile_bytes.
static void walk(const uint8_t *b, int64_t size, gwb_jpg *f, uint8_t *icc)
{
    int64_t at = 2;
    for (;;) {
        const uint8_t *next = at < size ? memchr(b + at, 0xff, (size_t)(size - at)) : NULL; // behind a scan's header come the coded pixels
        if (!next) return;
        at = next - b;
        while (at < size && b[at] == 0xff) at++;        // fill bytes
        if (at >= size) return;
        int marker = b[at++];
        if (marker == 0xd9) {
            f->complete = true;
            return;
        }
        if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8)) continue; // no length follows
        if (at + 2 > size) return;
        int64_t length = gwb_be16(b + at), content = length - 2;
        const uint8_t *p = b + at + 2;
        bool cut = at + length > size;
        if (marker == 0xc4 && !tables_fit(p, (cut ? size - at : length) - 2, cut)) f->bad_codes = true;
        if (length < 2 || cut) return;
        int parts = 0;
        if (is_sof(marker) && !f->coding && length >= 8) {
            read_frame(f, marker, p, content);
        } else if (marker == 0xe0 && content >= 5 && memcmp(p, "JFIF", 5) == 0) {
            f->jfif = true;
        } else if (marker == 0xe1 && !f->orientation) {
            if (content >= 6 && memcmp(p, "Exif\0\0", 6) == 0) f->orientation = gwb_exif_orientation(p, content);
        } else if (marker == 0xe2 && profile_part(p, content, &parts) == f->profiles + 1 && f->profiles < parts) {
            if (icc) memcpy(icc + f->profile_bytes, p + 14, (size_t)(content - 14));
            f->profile_bytes += content - 14;
            f->profiles++;
        } else if (marker == 0xee && length >= 14 && memcmp(p, "Adobe", 5) == 0) {
            f->adobe = true;
            f->transform = p[11];
        } else if (marker == 0xda) {
            read_scan(f, p, content);
        }
        at += length;
    }
}

static int refuse_kinds(const gwb_input *in, const gwb_jpg *f)
{
    if (!f->coding || !(f->pixels || f->complete)) return gwb_refuse(in, GWB_BAD_FILE, "truncated JPEG: it ends before its pixels begin");
    if (f->coding == 0xc3) return gwb_refuse(in, GWB_UNSUPPORTED, "a lossless JPEG (only baseline and progressive ones are read)");
    if (f->coding >= 0xc5 && f->coding <= 0xc7) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "a hierarchical JPEG (only baseline and progressive ones are read)");
    }
    if (f->coding > 0xc8) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "an arithmetic-coded JPEG (only Huffman-coded ones are read; jpegtran -optimize makes one of it)");
    }
    if (f->precision != 8) return gwb_refuse(in, GWB_UNSUPPORTED, "a JPEG of %d bits (only 8 are read)", f->precision);
    if (f->height == 0) return gwb_refuse(in, GWB_UNSUPPORTED, "a JPEG whose height follows its pixels (DNL)");
    if (f->components != 1 && f->components != 3 && f->components != 4) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged JPEG: %d components", f->components);
    }
    for (int i = 0; i < f->components; i++) {
        if (f->h[i] < 1 || f->h[i] > 4 || f->v[i] < 1 || f->v[i] > 4) return gwb_refuse(in, GWB_BAD_FILE, "damaged JPEG: its sampling is none");
    }
    if (f->components == 4 && !f->adobe) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "a CMYK JPEG without Adobe's mark: whether its colours are inverted is not known");
    }
    if (f->bad_codes) return gwb_refuse(in, GWB_BAD_FILE, "damaged JPEG: its Huffman tables are none");
    return 0;
}

// The three components are red, green and blue.
static bool is_rgb(const gwb_jpg *f)
{
    if (f->jfif) return false;
    if (f->adobe) return f->transform == 0;
    return f->id[0] == 'R' && f->id[1] == 'G' && f->id[2] == 'B';
}

// 444, 422, ... for Y at full size and two planes of one smaller size; 0 for anything else.
static int subsampling_of(const gwb_jpg *f)
{
    static const struct { int h, v, name; } known[] = {{1, 1, 444}, {2, 1, 422}, {2, 2, 420}, {1, 2, 440}, {4, 1, 411}};
    if (f->components != 3 || f->h[0] != f->h_max || f->v[0] != f->v_max || f->h[1] != f->h[2] || f->v[1] != f->v[2]) return 0;
    for (int i = 0; i < 5; i++) {
        if (known[i].h * f->h[1] == f->h_max && known[i].v * f->v[1] == f->v_max) return known[i].name;
    }
    return 0;
}

// Sets native and its tags; "" where the planes have no format here.
static void name_planes(const gwb_jpg *f, gwb_picture *out)
{
    int subsampling = subsampling_of(f);
    if (f->components == 1) strcpy(out->native, "gray");
    else if (is_rgb(f)) strcpy(out->native, subsampling == 444 ? "rgbp" : "");
    else if (subsampling) snprintf(out->native, sizeof out->native, "yuv%dp", subsampling);
}

static int decode_native(const gwb_input *in, gwb_picture *out, const gwb_jpg *f, bool turbo)
{
    if (!out->native[0]) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "format=\"native\": a JPEG of %d components sampled %dx%d %dx%d %dx%d has no pixel format here; "
                          "load it as RGB", f->components, f->h[0], f->v[0], f->h[1], f->v[1], f->h[2], f->v[2]);
    }
    int64_t offset = 0;
    strcpy(out->format, out->native);
    out->planes = f->components;
    if (f->components == 3 && out->native[0] == 'y') {
        strcpy(out->matrix, "bt601");
        strcpy(out->range, "full");
        strcpy(out->siting, "center");
    }
    out->bytes = 0;
    for (int i = 0; i < f->components; i++) {
        int dx = f->components == 1 ? 1 : f->h_max / f->h[i], dy = f->components == 1 ? 1 : f->v_max / f->v[i];
        int32_t width = (f->width + dx - 1) / dx, height = (f->height + dy - 1) / dy;
        // libjpeg-turbo fills whole groups of samples.
        int64_t step = ((int64_t)f->width + f->h_max - 1) / f->h_max * f->h_max / dx, rows = ((int64_t)f->height + f->v_max - 1) / f->v_max * f->v_max / dy;
        out->plane[i] = (gwb_plane){(uint8_t *)(uintptr_t)offset, step, width, height, GWB_U8, 1};
        offset += step * rows;
        out->bytes += (int64_t)width * height;
    }
    if (in->params.header_only) return 0;
    out->memory = calloc(1, (size_t)offset);
    if (!out->memory) return gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes of planes", offset);
    for (int i = 0; i < f->components; i++) out->plane[i].data = (uint8_t *)out->memory + (uintptr_t)out->plane[i].data;
    return turbo ? gwb_turbo_planes(in, out) : gwb_stb_jpeg_planes(in, out);
}

// By stb_image, whose chroma is wrong in the last columns but one: its planes, and the rest as libjpeg does it.
static int decode_built_in(const gwb_input *in, gwb_picture *out, const gwb_jpg *f)
{
    if (out->native[0] != 'y') return gwb_stb_decode(in, out, GWB_U8, true);
    gwb_picture coded = {.width = f->width, .height = f->height};
    strcpy(coded.native, out->native);
    int rc = decode_native(in, &coded, f, false);
    if (rc == 0) rc = gwb_picture_rows(in, out, f->width, f->height, GWB_U8, 3);
    if (rc == 0) rc = gwb_jpg_to_rgb(&coded, f->h_max / f->h[1], f->v_max / f->v[1], &out->plane[0]);
    gwb_picture_free(&coded);
    return rc;
}

static int decode(const gwb_input *in, gwb_picture *out, const gwb_jpg *f)
{
    bool native = in->params.native && f->components > 1;
    // Of planes libjpeg-turbo knows the usual samplings as they are usually written.
    bool turbo = gwb_turbo_ready() && !is_coarse(f) && (!native || (out->native[0] == 'y' && f->h[1] == 1 && f->v[1] == 1));
    if (turbo && !native) {
        int rc = gwb_picture_rows(in, out, f->width, f->height, GWB_U8, f->components >= 3 ? 3 : 1);
        return rc < 0 ? rc : gwb_turbo_decode(in, out, f->components >= 3 ? 3 : 1, f->components == 4);
    }
    if (turbo) return decode_native(in, out, f, true);
    // stb_image stops at a wrong code: from a damaged file it gets what comes before.
    char text[96] = "";
    int64_t damage = 0;
    gwb_bytes sound = {0};
    gwb_input given = *in;
    int rc = gwb_jpg_check(in, f, text, &damage);
    if (rc == 0 && text[0]) rc = gwb_doubt(in, out, "damaged JPEG: %s", text);
    if (rc == 0 && text[0]) {
        gwb_bytes_add(&sound, in->bytes, damage);
        rc = gwb_bytes_add(&sound, "\xff\xd9", 2);
        given.bytes = sound.data;
        given.size = sound.size;
    }
    if (rc == 0) rc = native ? decode_native(&given, out, f, false) : decode_built_in(&given, out, f);
    gwb_bytes_free(&sound);
    return rc;
}

bool gwb_jpg_plain(const uint8_t *bytes, int64_t size)
{
    gwb_jpg f = {0};
    walk(bytes, size, &f, NULL);
    bool colour = f.components == 3 && !is_rgb(&f) && subsampling_of(&f);
    return f.complete && !f.bad_codes && !is_coarse(&f) && (f.components == 1 || colour);
}

static int take_profile(const gwb_input *in, gwb_picture *out, const gwb_jpg *f)
{
    if (!f->profile_bytes) return 0;
    gwb_jpg again = {0};
    out->icc = malloc((size_t)f->profile_bytes);
    if (!out->icc) return gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory for a colour profile");
    walk(in->bytes, in->size, &again, out->icc);
    out->icc_size = f->profile_bytes;
    return 0;
}

int gwb_jpg_decode(const gwb_input *in, gwb_picture *out)
{
    gwb_jpg f = {0};
    walk(in->bytes, in->size, &f, NULL);
    int rc = refuse_kinds(in, &f);
    if (rc < 0) return rc;
    int channels = f.components >= 3 ? 3 : 1;
    // A block of 8x8 pixels takes at least one bit; of a cut file less is there.
    rc = gwb_check_size(in, f.width, f.height, channels, in->size * (in->params.lenient ? 4096 : 512));
    if (rc == 0 && !f.complete && !in->params.header_only) rc = gwb_doubt(in, out, "truncated JPEG: it has no end-of-image mark");
    if (rc == 0) rc = take_profile(in, out, &f);
    if (rc < 0) return rc;
    out->width = f.width;
    out->height = f.height;
    out->orientation = f.orientation;
    out->depth = 8;
    snprintf(out->coding, sizeof out->coding, "%s%s", f.coding == 0xc2 ? "progressive" : "baseline",
             f.components == 4 ? f.transform == 2 ? " YCCK" : " CMYK" : "");
    name_planes(&f, out);
    if (in->params.header_only && (!in->params.native || channels == 1)) {
        gwb_picture_describe(out, NULL, f.width, f.height, GWB_U8, channels);
        return 0;
    }
    if (f.complete || in->params.header_only) return in->params.header_only ? decode_native(in, out, &f, false) : decode(in, out, &f);
    // stb_image fills the rest with gray where the end mark comes early, and gives up where there is none.
    gwb_bytes closed = {0};
    gwb_bytes_add(&closed, in->bytes, in->size);
    rc = gwb_bytes_add(&closed, "\xff\xd9", 2);
    gwb_input with_end = *in;
    with_end.bytes = closed.data;
    with_end.size = closed.size;
    if (rc == 0) rc = decode(&with_end, out, &f);
    gwb_bytes_free(&closed);
    return rc;
}

// ---- writing

// Puts the profile behind the first segment, in parts of what a segment holds.
static int insert_profile(const gwb_picture *p, gwb_bytes *out, int64_t start)
{
    enum { PART = 65519 };
    int64_t parts = (p->icc_size + PART - 1) / PART, added = p->icc_size + parts * 18;
    int64_t at = start + 2 + (out->data[start + 3] == 0xe0 ? 2 + gwb_be16(out->data + start + 4) : 0), old = out->size;
    if (parts > 255) return gwb_fail(GWB_UNSUPPORTED, "a colour profile of %" PRId64 " bytes is more than JPEG holds", p->icc_size);
    if (!gwb_bytes_room(out, added)) return GWB_OUT_OF_MEMORY;
    memmove(out->data + at + added, out->data + at, (size_t)(old - at));
    uint8_t *to = out->data + at;
    for (int64_t i = 0; i < parts; i++) {
        int64_t size = p->icc_size - i * PART < PART ? p->icc_size - i * PART : PART;
        memcpy(to, (uint8_t[4]){0xff, 0xe2, (uint8_t)((size + 16) >> 8), (uint8_t)(size + 16)}, 4);
        memcpy(to + 4, "ICC_PROFILE", 12);
        to[16] = (uint8_t)(i + 1);
        to[17] = (uint8_t)parts;
        memcpy(to + 18, p->icc + i * PART, (size_t)size);
        to += 18 + size;
    }
    return 0;
}

// Y, Cb and Cr of BT.601, full range, from R, G, B; chroma is the mean of h x v pixels, the edge repeated.
static int from_rgb(const gwb_plane *rgb, int h, int v, int quality, gwb_bytes *out)
{
    int32_t w = rgb->width, height = rgb->height, cw = (w + h - 1) / h, ch = (height + v - 1) / v;
    gwb_bytes memory = {0};
    uint8_t *y_plane = gwb_bytes_room(&memory, (int64_t)w * height + 2 * (int64_t)cw * ch);
    if (!y_plane) return GWB_OUT_OF_MEMORY;
    uint8_t *cb = y_plane + (int64_t)w * height, *cr = cb + (int64_t)cw * ch;
    for (int32_t y = 0; y < height; y++) {
        const uint8_t *p = rgb->data + y * rgb->step;
        uint8_t *to = y_plane + (int64_t)y * w;
        for (int32_t x = 0; x < w; x++, p += 3) to[x] = (uint8_t)((19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 32768) >> 16);
    }
    for (int32_t y = 0; y < ch; y++) {
        for (int32_t x = 0; x < cw; x++) {
            int r = 0, g = 0, b = 0, n = h * v;
            for (int i = 0; i < n; i++) {
                int32_t sx = x * h + i % h, sy = y * v + i / h;
                const uint8_t *p = rgb->data + (sy < height ? sy : height - 1) * rgb->step + 3 * (int64_t)(sx < w ? sx : w - 1);
                r += p[0];
                g += p[1];
                b += p[2];
            }
            int64_t i = (int64_t)y * cw + x;
            cb[i] = (uint8_t)((-11059 * r - 21709 * g + 32768 * b + n * (128 * 65536 + 32767)) / (n * 65536));
            cr[i] = (uint8_t)((32768 * r - 27439 * g - 5329 * b + n * (128 * 65536 + 32767)) / (n * 65536));
        }
    }
    gwb_plane planes[3] = {{y_plane, w, w, height, GWB_U8, 1}, {cb, cw, cw, ch, GWB_U8, 1}, {cr, cw, cw, ch, GWB_U8, 1}};
    int rc = gwb_jpg_write(planes, 3, h, v, quality, out);
    gwb_bytes_free(&memory);
    return rc;
}

int gwb_jpg_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    static const struct { const char *format; int name, h, v; } kinds[] = {
        {"yuv444p", 444, 1, 1}, {"yuv422p", 422, 2, 1}, {"yuv420p", 420, 2, 2}, {"yuv440p", 440, 1, 2}, {"yuv411p", 411, 4, 1},
    };
    const gwb_plane *first = &p->plane[0];
    for (int i = 0; i < p->planes; i++) {
        if (p->plane[i].step > INT32_MAX) return gwb_fail(GWB_UNSUPPORTED, "a step of more than 2 GB: save a packed copy");
    }
    if (first->width > 65500 || first->height > 65500) {
        return gwb_fail(GWB_UNSUPPORTED, "%dx%d pixels: a side of a JPEG has at most 65500", first->width, first->height);
    }
    int wanted = params->subsampling ? params->subsampling : params->quality > 90 ? 444 : 420, kind = -1;
    for (int i = 0; i < 5; i++) {
        if (p->planes == 1 ? kinds[i].name == wanted : strcmp(p->format, kinds[i].format) == 0) kind = i;
    }
    if (kind < 0) {
        return p->planes == 1 ? gwb_fail(GWB_BAD_ARGUMENT, "subsampling %d: want 444, 422, 420, 440 or 411", wanted)
            : gwb_fail(GWB_UNSUPPORTED, "jpg holds RGB, gray, or planes of yuv444p yuv422p yuv420p yuv440p yuv411p, not %s: convert first", p->format);
    }
    if (p->planes > 1 && params->subsampling && params->subsampling != kinds[kind].name) {
        return gwb_fail(GWB_BAD_ARGUMENT, "subsampling %d for planes of %s, which are written as they are", params->subsampling, p->format);
    }
    if (p->planes > 1 && (strcmp(p->matrix, "bt601") != 0 || strcmp(p->range, "full") != 0)) {
        return gwb_fail(GWB_UNSUPPORTED, "jpg holds YUV of matrix bt601 and full range; this is %s, %s: convert first, as in "
                        "img:convert(\"%s\", {matrix = \"bt601\", range = \"full\", siting = \"center\"})", p->matrix[0] ? p->matrix : "of no known matrix",
                        p->range[0] ? p->range : "of no known range", p->format);
    }
    if (p->planes > 1 && kinds[kind].h * kinds[kind].v > 1 && p->siting[0] && strcmp(p->siting, "center") != 0) {
        return gwb_fail(GWB_UNSUPPORTED, "jpg holds chroma sited in the center; this is sited %s: convert first, as in "
                        "img:convert(\"%s\", {siting = \"center\"})", p->siting, p->format);
    }
    int64_t start = out->size;
    int rc;
    if (gwb_turbo_ready()) rc = gwb_turbo_encode(p, params->quality, kinds[kind].name, out);
    else if (p->planes == 1 && first->channels == 3) rc = from_rgb(first, kinds[kind].h, kinds[kind].v, params->quality, out);
    else rc = gwb_jpg_write(p->plane, p->planes, kinds[kind].h, kinds[kind].v, params->quality, out);
    return rc == 0 && p->icc ? insert_profile(p, out, start) : rc;
}
