// SPDX-License-Identifier: MIT
// y4m (YUV4MPEG2) and raw planes: video frames as they are. frames.c reads files of many.
#include "codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Chroma tag, its format, the size of its chroma planes as 1/2^x and 1/2^y, planes, and siting. A depth is added behind both names:
// 420p10 is yuv420p10le.
static const struct { const char *tag, *format; int shift_x, shift_y, planes; const char *siting; } tags[] = {
    {"420jpeg", "yuv420p", 1, 1, 3, "center"},
    {"420mpeg2", "yuv420p", 1, 1, 3, "left"},
    {"420paldv", "yuv420p", 1, 1, 3, "topleft"},
    {"420", "yuv420p", 1, 1, 3, ""},
    {"422", "yuv422p", 1, 0, 3, ""},
    {"444alpha", "yuva444p", 0, 0, 4, ""},
    {"444", "yuv444p", 0, 0, 3, ""},
    {"411", "yuv411p", 2, 0, 3, ""},
    {"440", "yuv440p", 0, 1, 3, ""},
    {"410", "yuv410p", 2, 2, 3, ""},
    {"mono", "gray", 0, 0, 1, ""},
};
enum { TAGS = sizeof tags / sizeof tags[0] };

// Where the format ends and its depth begins: "p10" behind a chroma tag, "10" behind mono. 8 where nothing follows, -1 for no depth.
static int depth_of(const char *rest, bool mono)
{
    if (!*rest) return 8;
    if (!mono && *rest++ != 'p') return -1;
    char *end;
    long depth = strtol(rest, &end, 10);
    return *rest >= '0' && *rest <= '9' && !*end && depth >= 8 && depth <= 16 ? (int)depth : -1;
}

// size / 2^shift, rounded up
static int32_t part_of(int32_t size, int shift)
{
    return (int32_t)(((int64_t)size + (1 << shift) - 1) >> shift);
}

// The pixel format of a tag and a depth; false where there is none.
static bool name_format(gwb_picture *out, int tag, int depth)
{
    if (depth == 8) snprintf(out->format, sizeof out->format, "%s", tags[tag].format);
    else snprintf(out->format, sizeof out->format, "%s%dle", tags[tag].format, depth);
    return gwb_format_find(out->format, NULL, NULL) >= 0;
}

static int set_planes(const gwb_input *in, gwb_picture *out, int tag, int depth)
{
    int bytes = depth > 8 ? 2 : 1;
    int64_t left = in->params.max_bytes;
    snprintf(out->siting, sizeof out->siting, "%s", tags[tag].siting);
    out->planes = tags[tag].planes;
    out->depth = depth;
    out->bytes = 0;
    for (int i = 0; i < out->planes; i++) {
        bool chroma = i == 1 || i == 2;
        int32_t width = chroma ? part_of(out->width, tags[tag].shift_x) : out->width;
        int32_t height = chroma ? part_of(out->height, tags[tag].shift_y) : out->height;
        int64_t step = (int64_t)width * bytes;
        out->plane[i] = (gwb_plane){(uint8_t *)(uintptr_t)out->bytes, step, width, height, bytes == 2 ? GWB_U16 : GWB_U8, 1};
        if (height > left / step) {
            return gwb_refuse(in, GWB_LIMIT,
                              "a frame of %s %dx%d is more than the limit of %" PRId64 " bytes; gpu.limits{bytes=...} raises it",
                              out->format, out->width, out->height, in->params.max_bytes);
        }
        left -= step * height;
        out->bytes += step * height;
    }
    return 0;
}

int gwb_y4m_header(const gwb_input *in, const char *line, gwb_picture *out)
{
    char word[64], chroma[32] = "420";
    for (line += strlen("YUV4MPEG2"); *line; line += strcspn(line, " ")) {
        line += strspn(line, " ");
        snprintf(word, sizeof word, "%.*s", (int)strcspn(line, " "), line);
        if (word[0] == 'W' || word[0] == 'H') {
            char *end;
            long value = strtol(word + 1, &end, 10);
            if (value < 1 || value > INT32_MAX || *end) return gwb_refuse(in, GWB_BAD_FILE, "damaged y4m: a size of '%s'", word);
            if (word[0] == 'W') out->width = (int32_t)value; else out->height = (int32_t)value;
        } else if (word[0] == 'C') {
            snprintf(chroma, sizeof chroma, "%.31s", word + 1);
        } else if (word[0] == 'F') {
            int rate[2];
            if (sscanf(word, "F%d:%d", &rate[0], &rate[1]) == 2 && rate[0] > 0 && rate[1] > 0) memcpy(out->rate, rate, sizeof rate);
        } else if (strcmp(word, "XCOLORRANGE=FULL") == 0) {
            strcpy(out->range, "full");
        } else if (strcmp(word, "XCOLORRANGE=LIMITED") == 0) {
            strcpy(out->range, "limited");
        }
    }
    if (!out->width || !out->height) return gwb_refuse(in, GWB_BAD_FILE, "damaged y4m: its header has no size (W, H)");
    for (int i = 0; i < TAGS; i++) {
        size_t length = strlen(tags[i].tag);
        if (strncmp(chroma, tags[i].tag, length) != 0) continue;
        int depth = depth_of(chroma + length, tags[i].planes == 1);
        if (depth > 0 && name_format(out, i, depth)) return set_planes(in, out, i, depth);
    }
    return gwb_refuse(in, GWB_UNSUPPORTED,
                      "a y4m of chroma '%s'; read are 420 420jpeg 420mpeg2 420paldv 422 444 444alpha 411 440 410 mono, and 9, 10, 12, 14 and 16 bits "
                      "of 420 422 444 mono, as 420p10 and mono10 (10, 12 and 16 of 411 440 410)", chroma);
}

bool gwb_y4m_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 10 && (memcmp(bytes, "YUV4MPEG2 ", 10) == 0 || memcmp(bytes, "YUV4MPEG2\n", 10) == 0);
}

// The tag for a format and a siting, with its depth; false where y4m has none.
static bool tag_of(const gwb_picture *p, char tag[64])
{
    for (int i = 0; i < TAGS; i++) {
        size_t length = strlen(tags[i].format);
        if (strncmp(p->format, tags[i].format, length) != 0) continue;
        char rest[32];
        snprintf(rest, sizeof rest, "%.16s", p->format + length);
        size_t end = strlen(rest);
        if (end > 2 && strcmp(rest + end - 2, "le") == 0) rest[end - 2] = 0;
        int depth = depth_of(rest, true);
        if (depth < 0 || (*rest && tags[i].siting[0])) continue; // a siting is told of 8 bits only
        if (depth == 8 && strcmp(p->siting, tags[i].siting) != 0 && tags[i].shift_y == 1 && tags[i].shift_x == 1) continue;
        snprintf(tag, 64, "%s%s%s", tags[i].tag, *rest && tags[i].planes > 1 ? "p" : "", rest);
        return true;
    }
    return false;
}

// The first frame, or the one asked for.
int gwb_y4m_decode(const gwb_input *in, gwb_picture *out)
{
    FILE *file = fmemopen((void *)(uintptr_t)in->bytes, (size_t)in->size, "rb");
    if (!file) return gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory to read it");
    gwb_frames *frames;
    int rc = gwb_frames_from(file, in->size, "", in->name, 0, &in->params, &frames);
    return rc < 0 ? rc : in->params.header_only ? gwb_frames_describe(frames, out) : gwb_frames_take(frames, out);
}

int gwb_y4m_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    char tag[64];
    if (!tag_of(p, tag)) {
        return gwb_fail(GWB_UNSUPPORTED,
                        "y4m holds planar YUV and gray frames (yuv420p yuv422p yuv444p yuv411p yuv440p yuva444p gray, 8 to 16 bits), "
                        "not %s; convert first", p->format[0] ? p->format : "a matrix without a format");
    }
    const char *range = strcmp(p->range, "full") == 0 ? " XCOLORRANGE=FULL" : strcmp(p->range,
                                                                                     "limited") == 0 ? " XCOLORRANGE=LIMITED" : "";
    if (!params->further) {
        gwb_bytes_text(out, "YUV4MPEG2 W%d H%d F%d:%d Ip A1:1 C%s%s\n", p->width, p->height, params->rate[0], params->rate[1], tag,
                       range);
    }
    gwb_bytes_text(out, "FRAME\n");
    return gwb_raw_encode(p, params, out);
}

int gwb_raw_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out)
{
    (void)params;
    int format = p->format[0] ? gwb_format_find(p->format, NULL, NULL) : -1;
    for (int i = 0; i < p->planes; i++) {
        const gwb_plane *plane = &p->plane[i];
        gwb_plane_info info;
        int64_t row = (int64_t)plane->width * plane->channels * gwb_type_size(plane->type), step = row;
        if (format >= 0 && gwb_format_plane(format, i, p->width, p->height, &info) == 0 && info.step > row) {
            step = info.step; // v210 pads its rows
        }
        uint8_t *to = gwb_bytes_room(out, step * plane->height);
        if (!to) return GWB_OUT_OF_MEMORY;
        for (int32_t y = 0; y < plane->height; y++, to += step) {
            memcpy(to, plane->data + y * plane->step, (size_t)row);
            memset(to + row, 0, (size_t)(step - row));
        }
    }
    return 0;
}
