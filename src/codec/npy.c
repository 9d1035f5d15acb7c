// SPDX-License-Identifier: MIT
// NumPy's npy files, versions 1 to 3: arrays to matrices and back. Nothing here depends on the locale.
#include "codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIMS 8

typedef struct header {
    int type;               // gwb_type
    bool swap;              // big-endian
    bool fortran;
    int dims;
    int64_t shape[MAX_DIMS];
    int64_t data;           // where the numbers begin
} header;

// The text of the header, a Python dict; `at` moves over it.
typedef struct text {
    const char *at, *end;
} text;

static void blank(text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\n')) t->at++;
}

static bool accept(text *t, char c)
{
    blank(t);
    if (t->at == t->end || *t->at != c) return false;
    t->at++;
    return true;
}

static bool quoted(text *t, char out[32])
{
    blank(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"')) return false;
    char quote = *t->at++;
    size_t n = 0;
    while (t->at < t->end && *t->at != quote && n < 31) out[n++] = *t->at++;
    out[n] = 0;
    return accept(t, quote);
}

static bool word(text *t, const char *w)
{
    size_t n = strlen(w);
    blank(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, w, n) != 0) return false;
    t->at += n;
    return true;
}

static const struct { const char *code; int type; } codes[] = {
    {"b1", GWB_U8}, {"u1", GWB_U8}, {"i1", GWB_I8}, {"u2", GWB_U16}, {"i2", GWB_I16}, {"u4", GWB_U32}, {"i4", GWB_I32},
    {"f2", GWB_F16}, {"f4", GWB_F32}, {"f8", GWB_F64},
};

// "<u2". Fails for what a matrix cannot hold.
static int parse_type(const gwb_input *in, const char *descr, header *h)
{
    const char *code = descr;
    if (*code && strchr("<>|=", *code)) h->swap = *code++ == '>';
    if (strcmp(code, "?") == 0) code = "b1";
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (strcmp(code, codes[i].code) == 0) {
            h->type = codes[i].type;
            return 0;
        }
    }
    return gwb_refuse(in, GWB_UNSUPPORTED,
                      "an npy of element type '%s'; read are bool, u1 i1 u2 i2 u4 i4 f2 f4 f8 in both byte orders", descr);
}

static bool parse_shape(text *t, header *h)
{
    if (!accept(t, '(')) return false;
    while (!accept(t, ')')) {
        int64_t n = -1;
        blank(t);
        for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
            n = (n < 0 ? 0 : n) * 10 + *t->at - '0';
            if (n > INT64_C(1) << 48) return false;
        }
        if (n < 0 || h->dims == MAX_DIMS) return false;
        h->shape[h->dims++] = n;
        accept(t, 'L'); // Python 2 wrote 3L
        if (!accept(t, ',')) return accept(t, ')');
    }
    return true;
}

static int parse(const gwb_input *in, text t, header *h)
{
    bool descr = false, order = false, shape = false;
    char key[32], value[32];
    if (!accept(&t, '{')) goto bad;
    while (!accept(&t, '}')) {
        if (!quoted(&t, key) || !accept(&t, ':')) goto bad;
        if (strcmp(key, "descr") == 0) {
            blank(&t);
            if (t.at < t.end && (*t.at == '[' || *t.at == '(')) {
                return gwb_refuse(in, GWB_UNSUPPORTED,
                                  "an npy of records (a structured dtype); save the field that you want as an array of its own");
            }
            if (!quoted(&t, value)) goto bad;
            int rc = parse_type(in, value, h);
            if (rc < 0) return rc;
            descr = true;
        } else if (strcmp(key, "fortran_order") == 0) {
            h->fortran = word(&t, "True");
            if (!h->fortran && !word(&t, "False")) goto bad;
            order = true;
        } else if (strcmp(key, "shape") == 0) {
            if (!parse_shape(&t, h)) goto bad;
            shape = true;
        } else {
            goto bad;
        }
        if (!accept(&t, ',')) {
            if (!accept(&t, '}')) goto bad;
            break;
        }
    }
    if (descr && order && shape) return 0;
bad:
    return gwb_refuse(in, GWB_BAD_FILE, "damaged npy: its header is not the dict of descr, fortran_order and shape");
}

bool gwb_npy_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0;
}

static void put(uint8_t *to, const uint8_t *from, int size, bool swap)
{
    for (int i = 0; i < size; i++) to[i] = from[swap ? size - 1 - i : i];
}

// From the file's order to rows. In Fortran order the first index runs fastest: a C-order place is walked digit by digit.
static void arrange(const header *h, const uint8_t *from, uint8_t *to, int64_t count)
{
    int size = gwb_type_size(h->type);
    if (!h->fortran || h->dims < 2) {
        if (!h->swap || size == 1) memcpy(to, from, (size_t)(count * size));
        else for (int64_t i = 0; i < count; i++) put(to + i * size, from + i * size, size, true);
        return;
    }
    int64_t stride[MAX_DIMS], index[MAX_DIMS] = {0}, place = 0;
    for (int d = 0; d < h->dims; d++) stride[d] = d ? stride[d - 1] * h->shape[d - 1] : size;
    for (int64_t i = 0; i < count; i++) {
        put(to + i * size, from + place, size, h->swap);
        for (int d = h->dims - 1; d >= 0; d--) {
            place += stride[d];
            if (++index[d] < h->shape[d]) break;
            place -= stride[d] * h->shape[d];
            index[d] = 0;
        }
    }
}

// () is one number, (n) a row, (h, w) a matrix, (h, w, 1..4) one of several channels; what stands further to the left multiplies the
// height.
int gwb_npy_decode(const gwb_input *in, gwb_picture *out)
{
    const uint8_t *b = in->bytes;
    if (in->size < 12) return gwb_refuse(in, GWB_BAD_FILE, "truncated npy: the header is cut");
    int version = b[6];
    if (version < 1 || version > 3) return gwb_refuse(in, GWB_UNSUPPORTED, "an npy of version %d (1 to 3 are read)", version);
    int64_t start = version == 1 ? 10 : 12, length = version == 1 ? gwb_le16(b + 8) : gwb_le32(b + 8);
    if (start + length > in->size) {
        return gwb_refuse(in, GWB_BAD_FILE, "truncated npy: a header of %" PRId64 " bytes in a file of %" PRId64, length, in->size);
    }
    header h = {.data = start + length};
    int rc = parse(in, (text){(const char *)b + start, (const char *)b + h.data}, &h);
    if (rc < 0) return rc;

    int channels_at = h.dims >= 3 && h.shape[h.dims - 1] >= 1 && h.shape[h.dims - 1] <= 4 ? h.dims - 1 : h.dims;
    int64_t channels = channels_at < h.dims ? h.shape[channels_at] : 1;
    int64_t width = channels_at > 0 ? h.shape[channels_at - 1] : 1, height = 1;
    for (int d = 0; d < channels_at - 1; d++) {
        if (h.shape[d] && height > (INT64_C(1) << 48) / h.shape[d]) {
            return gwb_refuse(in, GWB_BAD_FILE, "an npy of more numbers than memory");
        }
        height *= h.shape[d];
    }
    int size = gwb_type_size(h.type);
    gwb_input exact = *in;
    exact.params.max_pixels = INT64_MAX; // the file has the bytes already
    rc = gwb_check_size(&exact, width, height, size * channels, (in->size - h.data) / size / channels);
    if (rc == 0 && in->params.header_only) {
        gwb_picture_describe(out, NULL, (int32_t)width, (int32_t)height, h.type, (int32_t)channels);
        out->format[0] = 0;
        return 0;
    }
    if (rc == 0) rc = gwb_picture_alloc(in, out, (int32_t)width, (int32_t)height, h.type, (int32_t)channels);
    if (rc < 0) return rc;
    out->format[0] = 0;
    arrange(&h, b + h.data, out->memory, width * height * channels);
    return 0;
}

// One plane as (h, w) or (h, w, c); several planes one behind the other, as a video decoder's array: (rows of the first plane's width).
int gwb_npy_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    (void)params;
    static const char *const descr[GWB_TYPES] = {"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<f2", "<f4", "<f8"};
    const gwb_plane *first = &p->plane[0];
    int64_t row = (int64_t)first->width * gwb_type_size(first->type) * first->channels, total = 0;
    for (int i = 0; i < p->planes; i++) {
        const gwb_plane *plane = &p->plane[i];
        total += (int64_t)plane->width * gwb_type_size(plane->type) * plane->channels * plane->height;
        if (plane->type != first->type) {
            return gwb_fail(GWB_UNSUPPORTED, "planes of several element types in one npy; save them one by one");
        }
    }
    if (total % row) {
        return gwb_fail(GWB_UNSUPPORTED,
                        "the planes of %s %dx%d together are no whole rows of %" PRId64 " bytes, as an npy of a frame wants; "
                        "save them one by one, or as y4m", p->format, p->width, p->height, row);
    }
    char dict[128], channels[16] = "";
    if (first->channels > 1) snprintf(channels, sizeof channels, ", %d", first->channels);
    int length = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ", %d%s), }",
                          descr[first->type], total / row, first->width, channels);
    int padded = (10 + length + 1 + 63) / 64 * 64 - 10;
    uint8_t magic[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)padded, (uint8_t)(padded >> 8)};
    gwb_bytes_add(out, magic, sizeof magic);
    gwb_bytes_add(out, dict, length);
    uint8_t *room = gwb_bytes_room(out, padded - length);
    if (!room) return GWB_OUT_OF_MEMORY;
    memset(room, ' ', (size_t)(padded - length));
    room[padded - length - 1] = '\n';
    return gwb_raw_encode(p, params, out);
}
