// SPDX-License-Identifier: MIT
// The table of pixel formats, expanded from format.h, and the names of a picture's tags.
#include "format.h"

#include <string.h>

#define NONE {-1, 0, 0, 0, 0}
#define SIZE(type) SIZE_##type
enum { SIZE_U8 = 1, SIZE_U16 = 2, SIZE_U32 = 4, SIZE_F16 = 2, SIZE_F32 = 4 };

// A component that is sample `at` of `n` in each pixel of a plane; -1: none.
#define AT(plane, at, n, type, shift, depth) {(at) < 0 ? -1 : (plane), (at) < 0 ? 0 : (at) * SIZE(type), (n) * SIZE(type), shift, depth}
#define IN_PLANE(plane, type, depth) {plane, 0, SIZE(type), 0, depth}
#define FIELD(type, shift, depth) {(depth) > 0 ? 0 : -1, 0, SIZE(type), shift, depth}

#define INTERLEAVED(id, m, t, bits, n, r, g, b, a, has_alpha) \
    {.name = #id, .model = GWB_MODEL_##m, .layout = GWB_LAYOUT_INTERLEAVED, .planes = 1, .type = GWB_##t, .depth = bits, .alpha = has_alpha, \
     .group = 1, .row_align = 1, .component = {AT(0, r, n, t, 0, bits), AT(0, g, n, t, 0, bits), AT(0, b, n, t, 0, bits), AT(0, a, n, t, 0, bits)}},
#define PLANAR(id, m, t, bits, n, r, g, b, a, lw, lh) \
    {.name = #id, .model = GWB_MODEL_##m, .layout = GWB_LAYOUT_PLANAR, .planes = n, .type = GWB_##t, .depth = bits, .log2_w = lw, .log2_h = lh, \
     .alpha = (a) >= 0, .group = 1, .row_align = 1, \
     .component = {IN_PLANE(r, t, bits), IN_PLANE(g, t, bits), IN_PLANE(b, t, bits), IN_PLANE(a, t, bits)}},
#define SEMIPLANAR(id, t, bits, shift, u, v, lw, lh) \
    {.name = #id, .model = GWB_MODEL_YUV, .layout = GWB_LAYOUT_SEMIPLANAR, .planes = 2, .type = GWB_##t, .depth = bits, .log2_w = lw, \
     .log2_h = lh, .group = 1, .row_align = 1, \
     .component = {AT(0, 0, 1, t, shift, bits), AT(1, u, 2, t, shift, bits), AT(1, v, 2, t, shift, bits), NONE}},
#define PACKED422(id, t, bits, shift, y, u, v) \
    {.name = #id, .model = GWB_MODEL_YUV, .layout = GWB_LAYOUT_PACKED422, .planes = 1, .type = GWB_##t, .depth = bits, .log2_w = 1, \
     .group = 2, .row_align = 1, \
     .component = {AT(0, y, 2, t, shift, bits), AT(0, u, 4, t, shift, bits), AT(0, v, 4, t, shift, bits), NONE}},
#define WORD(id, m, t, rb, gb, bb, pad, rs, gs, bs, ps) \
    {.name = #id, .model = GWB_MODEL_##m, .layout = GWB_LAYOUT_WORD, .planes = 1, .type = GWB_##t, .depth = (gb), .group = 1, .row_align = 1, \
     .component = {FIELD(t, rs, rb), FIELD(t, gs, gb), FIELD(t, bs, bb), FIELD(t, ps, pad)}},
#define V210(id) \
    {.name = #id, .model = GWB_MODEL_YUV, .layout = GWB_LAYOUT_V210, .planes = 1, .type = GWB_U32, .depth = 10, .log2_w = 1, .group = 6, \
     .row_align = 128, .component = {{0, 1, 2, 0, 10}, {0, 0, 4, 0, 10}, {0, 2, 4, 0, 10}, NONE}},
#define BAYER(id, t, bits, red) \
    {.name = #id, .model = GWB_MODEL_BAYER, .layout = GWB_LAYOUT_BAYER, .planes = 1, .type = GWB_##t, .depth = bits, .group = 1, .row_align = 1, \
     .pattern = red, .component = {AT(0, 0, 1, t, 0, bits), NONE, NONE, NONE}},

static const gwb_format_info formats[GWB_FORMAT_COUNT] = {
    GWB_FORMATS_INTERLEAVED(INTERLEAVED) GWB_FORMATS_PLANAR(PLANAR) GWB_FORMATS_SEMIPLANAR(SEMIPLANAR)
    GWB_FORMATS_PACKED422(PACKED422) GWB_FORMATS_WORD(WORD) GWB_FORMATS_V210(V210) GWB_FORMATS_BAYER(BAYER)
};

static const struct { const char *name; int format, range, swapped; } aliases[] = {
#define ROW(alias, format, range, swapped) {alias, GWB_FORMAT_##format, GWB_RANGE_##range, swapped},
    GWB_FORMAT_ALIASES(ROW)
#undef ROW
};

static const struct { const char *tag, *name; int value; } tags[] = {
#define ROW(id, name, kr, kb) {"matrix", name, GWB_MATRIX_##id},
    GWB_MATRICES(ROW)
#undef ROW
#define ROW(id, name) {"range", name, GWB_RANGE_##id},
    GWB_RANGES(ROW)
#undef ROW
#define ROW(id, name, x, y) {"siting", name, GWB_SITING_##id},
    GWB_SITINGS(ROW)
#undef ROW
#define ROW(id, name) {"transfer", name, GWB_TRANSFER_##id},
    GWB_TRANSFERS(ROW)
#undef ROW
#define ROW(id, name, ...) {"primaries", name, GWB_PRIMARIES_##id},
    GWB_PRIMARIES_LIST(ROW)
#undef ROW
};

static const struct { const char *tag, *alias, *name; } tag_aliases[] = {
#define ROW(tag, alias, name) {tag, alias, name},
    GWB_TAG_ALIASES(ROW)
#undef ROW
};

enum { ALIASES = sizeof aliases / sizeof *aliases, TAGS = sizeof tags / sizeof *tags, TAG_ALIASES = sizeof tag_aliases / sizeof *tag_aliases };

static int ceil_shift(int n, int log2)
{
    return (int)(((int64_t)n + (1 << log2) - 1) >> log2);
}

static int element_size(const gwb_format_info *f)
{
    return gwb_type_size(f->type);
}

int gwb_format_count(void)
{
    return GWB_FORMAT_COUNT;
}

const gwb_format_info *gwb_format_get(int format)
{
    return format >= 0 && format < GWB_FORMAT_COUNT ? &formats[format] : NULL;
}

// A name, or the name without the "le" that all our words are.
static int names(const char *given, const char *name)
{
    size_t n = strlen(given);
    return strcmp(given, name) == 0 || (strncmp(given, name, n) == 0 && n > 0 && strcmp(name + n, "le") == 0);
}

int gwb_format_find(const char *name, int *range, int *swapped)
{
    int format = -1, alias_range = GWB_RANGE_UNKNOWN, alias_swapped = 0;
    for (int i = 0; name && i < GWB_FORMAT_COUNT && format < 0; i++) {
        if (names(name, formats[i].name))
            format = i;
    }
    for (int i = 0; name && i < ALIASES && format < 0; i++) {
        if (strcmp(name, aliases[i].name) == 0) {
            format = aliases[i].format;
            alias_range = aliases[i].range;
            alias_swapped = aliases[i].swapped;
        }
    }
    if (format < 0)
        return gwb_fail(GWB_BAD_ARGUMENT, "no pixel format is named \"%.40s\": gpu.formats() lists them", name ? name : "");
    if (range)
        *range = alias_range;
    if (swapped)
        *swapped = alias_swapped;
    return format;
}

const char *gwb_format_alias(int position, const char **format)
{
    if (position < 0 || position >= ALIASES)
        return NULL;
    if (format)
        *format = formats[aliases[position].format].name;
    return aliases[position].name;
}

// Of one plane, without its place in a frame.
static void plane_shape(const gwb_format_info *f, int plane, int width, int height, gwb_plane_info *info)
{
    int chroma = f->layout == GWB_LAYOUT_PLANAR ? plane == f->component[1].plane || plane == f->component[2].plane : plane == 1;
    int group_log2 = chroma ? f->log2_w : 0;
    info->width = f->group > 1 ? (int)(((int64_t)width + f->group - 1) / f->group) : ceil_shift(width, group_log2);
    info->height = chroma ? ceil_shift(height, f->log2_h) : height;
    info->type = f->type;
    info->channels = 1;
    if (f->layout == GWB_LAYOUT_INTERLEAVED) {
        info->channels = f->component[0].pitch / element_size(f);
    } else if (f->layout == GWB_LAYOUT_SEMIPLANAR) {
        info->channels = plane == 1 ? 2 : 1;
    } else if (f->layout == GWB_LAYOUT_PACKED422 || f->layout == GWB_LAYOUT_V210) {
        info->channels = 4;
    }
    int64_t row = (int64_t)info->width * info->channels * element_size(f);
    info->step = (row + f->row_align - 1) / f->row_align * f->row_align;
}

int gwb_format_plane(int format, int plane, int32_t width, int32_t height, gwb_plane_info *info)
{
    const gwb_format_info *f = gwb_format_get(format);
    if (!f)
        return gwb_fail(GWB_BAD_ARGUMENT, "no pixel format has the position %d", format);
    if (plane < 0 || plane >= f->planes)
        return gwb_fail(GWB_BAD_ARGUMENT, "plane %d was asked for and %s has %d", plane + 1, f->name, f->planes);
    if (width < 0 || height < 0)
        return gwb_fail(GWB_BAD_ARGUMENT, "a picture of %d x %d pixels was given: sizes are 0 or more", width, height);
    int64_t offset = 0, next = 0;
    for (int i = 0; i <= plane; i++) {
        plane_shape(f, i, width, height, info);
        if (info->height > 0 && info->step > INT64_MAX / 8 / info->height)
            return gwb_fail(GWB_LIMIT, "%d x %d pixels of %s are more than any memory", width, height, f->name);
        offset = next;
        next += info->step * info->height;
    }
    info->offset = offset;
    return 0;
}

int64_t gwb_format_bytes(int format, int32_t width, int32_t height)
{
    const gwb_format_info *f = gwb_format_get(format);
    gwb_plane_info last;
    int rc = gwb_format_plane(format, f ? f->planes - 1 : 0, width, height, &last);
    return rc ? rc : last.offset + last.step * last.height;
}

int gwb_format_is_float(const gwb_format_info *f)
{
    return f->type == GWB_F16 || f->type == GWB_F32;
}

int gwb_tag_find(const char *tag, const char *name)
{
    if (!tag || !name)
        return gwb_fail(GWB_BAD_ARGUMENT, "a tag and a name are wanted");
    const char *wanted = name;
    for (int i = 0; i < TAG_ALIASES; i++) {
        if (strcmp(tag, tag_aliases[i].tag) == 0 && strcmp(name, tag_aliases[i].alias) == 0)
            wanted = tag_aliases[i].name;
    }
    char known[200] = "";
    for (int i = 0; i < TAGS; i++) {
        if (strcmp(tag, tags[i].tag) == 0) {
            if (strcmp(wanted, tags[i].name) == 0)
                return tags[i].value;
            strncat(known, known[0] ? ", " : "", sizeof known - strlen(known) - 1);
            strncat(known, tags[i].name, sizeof known - strlen(known) - 1);
        }
    }
    if (!known[0])
        return gwb_fail(GWB_BAD_ARGUMENT, "an image has no tag \"%.40s\"", tag);
    return gwb_fail(GWB_BAD_ARGUMENT, "%s is \"%.40s\" and must be one of %s", tag, name, known);
}

const char *gwb_tag_name(const char *tag, int value)
{
    for (int i = 0; tag && i < TAGS; i++) {
        if (strcmp(tag, tags[i].tag) == 0 && tags[i].value == value)
            return tags[i].name;
    }
    return NULL;
}

void gwb_matrix_weights(int matrix, double *kr, double *kb)
{
    static const double weights[GWB_MATRIX_COUNT][2] = {
#define ROW(id, name, kr, kb) [GWB_MATRIX_##id] = {kr, kb},
        GWB_MATRICES(ROW)
#undef ROW
    };
    *kr = weights[matrix][0];
    *kb = weights[matrix][1];
}

void gwb_siting_quarters(int siting, int *x, int *y)
{
    static const int quarters[GWB_SITING_COUNT][2] = {
        [GWB_SITING_UNKNOWN] = {0, 2},
#define ROW(id, name, x, y) [GWB_SITING_##id] = {x, y},
        GWB_SITINGS(ROW)
#undef ROW
    };
    *x = quarters[siting][0];
    *y = quarters[siting][1];
}

void gwb_primaries_xy(int primaries, double xy[8])
{
    static const double table[GWB_PRIMARIES_COUNT][6] = {
#define ROW(id, name, ...) [GWB_PRIMARIES_##id] = {__VA_ARGS__},
        GWB_PRIMARIES_LIST(ROW)
#undef ROW
    };
    memcpy(xy, table[primaries], sizeof table[primaries]);
    xy[6] = 0.3127;
    xy[7] = 0.3290;
}
