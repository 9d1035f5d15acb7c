// SPDX-License-Identifier: MIT
// PNM (P1 to P6, and P7 = PAM) and PFM. Our own readers, for the byte order, the maximum and the comments.
#include "codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

// Skips white space and comments.
static int64_t blank(const gwb_input *in, int64_t at)
{
    while (at < in->size && (is_space(in->bytes[at]) || in->bytes[at] == '#')) {
        if (in->bytes[at] == '#') while (at < in->size && in->bytes[at] != '\n' && in->bytes[at] != '\r') at++;
        else at++;
    }
    return at;
}

// The next number, or -1 where there is none; a number is at most 2^40.
static int64_t number(const gwb_input *in, int64_t *at)
{
    int64_t i = blank(in, *at), value = -1;
    for (; i < in->size && is_digit(in->bytes[i]); i++) {
        value = (value < 0 ? 0 : value) * 10 + in->bytes[i] - '0';
        if (value > INT64_C(1) << 40) return -1;
    }
    *at = i;
    return value;
}

typedef struct header {
    int64_t width, height, maxval, channels;
    int64_t pixels;     // where they begin
} header;

// The lines of a PAM header, up to ENDHDR.
static bool pam_header(const gwb_input *in, header *h)
{
    static const char *const keys[] = {"WIDTH", "HEIGHT", "MAXVAL", "DEPTH"};
    int64_t *const values[] = {&h->width, &h->height, &h->maxval, &h->channels};
    for (int64_t at = 2; at < in->size;) {
        at = blank(in, at);
        int64_t word = at;
        while (at < in->size && !is_space(in->bytes[at])) at++;
        int64_t length = at - word;
        const char *text = (const char *)in->bytes + word;
        if (length == 6 && memcmp(text, "ENDHDR", 6) == 0) {
            h->pixels = at + 1;
            return true;
        }
        bool known = false;
        for (int i = 0; i < 4; i++) {
            if ((int64_t)strlen(keys[i]) != length || memcmp(text, keys[i], (size_t)length) != 0) continue;
            *values[i] = number(in, &at);
            known = true;
        }
        if (!known) while (at < in->size && in->bytes[at] != '\n') at++; // TUPLTYPE
    }
    return false;
}

static bool pnm_header(const gwb_input *in, int kind, header *h)
{
    int64_t at = 2;
    h->width = number(in, &at);
    h->height = number(in, &at);
    h->maxval = kind == 1 || kind == 4 ? 1 : number(in, &at);
    h->channels = kind == 3 || kind == 6 ? 3 : 1;
    h->pixels = kind <= 3 ? at : at + 1; // one white space stands before binary pixels
    return h->width >= 0 && h->height >= 0 && h->maxval >= 0 && at < in->size && (kind <= 3 || is_space(in->bytes[at]));
}

bool gwb_pnm_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' && (is_space(bytes[2]) || bytes[2] == '#');
}

// The samples of a row as numbers. Returns how many there are before the file ends; *bad is set where something else stands.
static int64_t read_row(const gwb_input *in, int kind, const header *h, int64_t *at, uint16_t *row, bool *bad)
{
    int64_t samples = h->width * h->channels, i = 0;
    const uint8_t *b = in->bytes;
    if (kind == 4) {
        int64_t bytes = (h->width + 7) / 8;
        for (; i < samples && *at + i / 8 < in->size; i++) row[i] = !(b[*at + i / 8] >> (7 - i % 8) & 1);
        *at += bytes;
    } else if (kind >= 5) {
        int size = h->maxval > 255 ? 2 : 1;
        for (; i < samples && *at + size <= in->size; i++, *at += size) row[i] = size == 2 ? gwb_be16(b + *at) : b[*at];
    } else {
        for (; i < samples; i++) {
            int64_t value;
            if (kind == 1) { // digits may stand close together
                *at = blank(in, *at);
                value = *at < in->size && (b[*at] == '0' || b[*at] == '1') ? '1' - b[*at] : -1;
                *at += *at < in->size && value >= 0;
            } else {
                value = number(in, at);
            }
            if (value < 0) {
                *bad = *at < in->size;
                break;
            }
            row[i] = value > UINT16_MAX ? UINT16_MAX : (uint16_t)value;
        }
    }
    return i;
}

int gwb_pnm_decode(const gwb_input *in, gwb_picture *out)
{
    int kind = in->bytes[1] - '0';
    header h = {0};
    if (!(kind == 7 ? pam_header(in, &h) : pnm_header(in, kind, &h))) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged PNM: its header is cut or no header");
    }
    if (h.maxval < 1 || h.maxval > UINT16_MAX) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged PNM: a maximum of %" PRId64 " (1 to 65535)", h.maxval);
    }
    if (h.channels < 1 || h.channels > 4) {
        return gwb_refuse(in, GWB_UNSUPPORTED, "a PAM of %" PRId64 " channels (1 to 4 are read)", h.channels);
    }
    int type = h.maxval > 255 ? GWB_U16 : GWB_U8, bytes = gwb_type_size(type) * (int)h.channels;
    int64_t left = h.pixels < in->size ? in->size - h.pixels : 0;
    // The least that a pixel takes in the file: a bit, a digit and a space (the last one without), or its samples.
    int64_t capacity = kind == 4 ? left * 8 : kind == 1 ? left : kind <= 3 ? (left + 1) / 2 / h.channels : left / bytes;
    if (in->params.lenient && capacity > 0 && capacity <= INT64_MAX / 64) capacity *= 64;
    int rc = gwb_check_size(in, h.width, h.height, bytes, capacity);
    while (h.maxval >> out->depth) out->depth++;
    if (rc == 0 && in->params.header_only) {
        gwb_picture_describe(out, NULL, (int32_t)h.width, (int32_t)h.height, type, (int32_t)h.channels);
        return 0;
    }
    if (rc == 0) rc = gwb_picture_alloc(in, out, (int32_t)h.width, (int32_t)h.height, type, (int32_t)h.channels);
    gwb_bytes work = {0};
    uint16_t *row = rc == 0 ? (uint16_t *)gwb_bytes_room(&work, h.width * h.channels * 2) : NULL;
    if (rc == 0 && !row) rc = GWB_OUT_OF_MEMORY;
    uint32_t max = (uint32_t)h.maxval, white = in->params.unscaled ? max : type == GWB_U16 ? 65535 : 255;
    int64_t samples = h.width * h.channels, at = h.pixels;
    for (int32_t y = 0; rc == 0 && y < h.height; y++) {
        bool bad = false;
        int64_t got = read_row(in, kind, &h, &at, row, &bad);
        if (got < samples) {
            rc = bad ? gwb_doubt(in, out, "damaged PNM: no number at byte %" PRId64, at)
                     : gwb_doubt(in, out, "truncated PNM: it ends in row %d of %" PRId64, y, h.height);
            memset(row + got, 0, (size_t)(samples - got) * 2);
        }
        uint8_t *to = out->plane[0].data + y * out->plane[0].step;
        for (int64_t i = 0; i < samples && rc == 0; i++) {
            uint32_t value = row[i];
            if (value > max) {
                rc = gwb_doubt(in, out, "damaged PNM: a sample of %u over the maximum of %u", value, max);
                value = max;
            }
            if (white != max) value = (value * white + max / 2) / max;
            if (type == GWB_U8) to[i] = (uint8_t)value;
            else ((uint16_t *)(void *)to)[i] = (uint16_t)value;
        }
        if (bad || (kind <= 3 && got < samples)) at = in->size;
    }
    gwb_bytes_free(&work);
    return rc;
}

int gwb_pnm_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    (void)params;
    static const char *const tuples[] = {"", "GRAYSCALE_ALPHA", "", "RGB_ALPHA"};
    const gwb_plane *plane = &p->plane[0];
    int n = plane->channels, max = plane->type == GWB_U16 ? 65535 : 255;
    int64_t bytes = (int64_t)plane->width * n * gwb_type_size(plane->type);
    if (n == 1 || n == 3) gwb_bytes_text(out, "P%d\n%d %d\n%d\n", n == 1 ? 5 : 6, plane->width, plane->height, max);
    else gwb_bytes_text(out, "P7\nWIDTH %d\nHEIGHT %d\nDEPTH %d\nMAXVAL %d\nTUPLTYPE %s\nENDHDR\n", plane->width, plane->height, n,
                        max, tuples[n - 1]);
    for (int32_t y = 0; y < plane->height; y++) {
        const uint8_t *from = plane->data + y * plane->step;
        uint8_t *to = gwb_bytes_room(out, bytes);
        if (!to) return GWB_OUT_OF_MEMORY;
        if (plane->type == GWB_U8) memcpy(to, from, (size_t)bytes);
        else for (int64_t i = 0; i < bytes; i++) to[i] = from[i ^ 1]; // big-endian
    }
    return 0;
}

// ---- PFM: floats, the bottom row first; the sign of the third number tells the byte order. Its size is not applied.

bool gwb_pfm_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 3 && bytes[0] == 'P' && (bytes[1] == 'F' || bytes[1] == 'f') && is_space(bytes[2]);
}

int gwb_pfm_decode(const gwb_input *in, gwb_picture *out)
{
    int64_t at = 2, width = number(in, &at), height = number(in, &at);
    int channels = in->bytes[1] == 'F' ? 3 : 1;
    at = blank(in, at);
    int64_t word = at;
    while (at < in->size && !is_space(in->bytes[at])) at++;
    if (width < 0 || height < 0 || at == word || at >= in->size) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged PFM: its header is cut or no header");
    }
    bool little = in->bytes[word] == '-';
    if (!little && !is_digit(in->bytes[word]) && in->bytes[word] != '+' && in->bytes[word] != '.') {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged PFM: no number for the scale");
    }
    at++;
    int64_t samples = width * channels;
    int rc = gwb_check_size(in, width, height, 4 * channels, (in->size - at) / 4 / channels);
    if (rc == 0 && in->params.header_only) {
        gwb_picture_describe(out, NULL, (int32_t)width, (int32_t)height, GWB_F32, channels);
        return 0;
    }
    if (rc == 0) rc = gwb_picture_alloc(in, out, (int32_t)width, (int32_t)height, GWB_F32, channels);
    if (rc < 0) return rc;
    for (int64_t y = height - 1; y >= 0; y--) {
        uint8_t *to = out->plane[0].data + y * out->plane[0].step;
        for (int64_t i = 0; i < samples; i++, at += 4) {
            uint32_t value = little ? gwb_le32(in->bytes + at) : gwb_be32(in->bytes + at);
            memcpy(to + 4 * i, &value, 4);
        }
    }
    return 0;
}

int gwb_pfm_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    (void)params;
    const gwb_plane *plane = &p->plane[0];
    gwb_bytes_text(out, "P%c\n%d %d\n-1.0\n", plane->channels == 3 ? 'F' : 'f', plane->width, plane->height);
    for (int32_t y = plane->height - 1; y >= 0; y--) {
        if (gwb_bytes_add(out, plane->data + y * plane->step, (int64_t)plane->width * plane->channels * 4) < 0) return GWB_OUT_OF_MEMORY;
    }
    return 0;
}
