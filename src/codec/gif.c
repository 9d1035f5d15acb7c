// SPDX-License-Identifier: MIT
// GIF: all frames as whole pictures (RGBA), put together as browsers do: the canvas is clear at first, each frame is drawn over what its forerunner's
// disposal left. The background colour is ignored.
#include "codec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct gwb_gif {
    gwb_input in;
    int64_t at;                     // in the file
    int32_t width, height;
    uint8_t global[256][4];         // RGBA
    int global_colours;
    uint8_t *canvas;                // width * height * 4
    uint8_t *before;                // the canvas under a frame that is taken away again (disposal 3)
    // The frame that was drawn last, and what its successor needs to know of it.
    int32_t x, y, w, h;
    int disposal;
    // Of the next frame, from the block in front of it.
    int next_disposal, clear, delay;        // clear: the transparent index, -1: none; delay in ms
    int64_t index;                  // the next frame
};

bool gwb_gif_recognise(const uint8_t *bytes, int64_t size)
{
    return size >= 6 && (memcmp(bytes, "GIF87a", 6) == 0 || memcmp(bytes, "GIF89a", 6) == 0);
}

// Reads a table of colours at `at`. False where the file ends first.
static bool read_colours(gwb_gif *g, uint8_t colours[256][4], int count)
{
    if (g->at + 3 * count > g->in.size) return false;
    for (int i = 0; i < 256; i++) {
        const uint8_t *from = g->in.bytes + g->at + 3 * i;
        if (i < count) memcpy(colours[i], from, 3);
        else memset(colours[i], 0, 3);
        colours[i][3] = 255;
    }
    g->at += 3 * count;
    return true;
}

void gwb_gif_close(gwb_gif *g)
{
    if (!g) return;
    free(g->canvas);
    free(g->before);
    free(g);
}

int gwb_gif_open(const gwb_input *in, gwb_gif **gif)
{
    *gif = NULL;
    const uint8_t *b = in->bytes;
    if (in->size < 13) return gwb_refuse(in, GWB_BAD_FILE, "truncated GIF: the header is cut");
    gwb_gif *g = calloc(1, sizeof *g);
    if (!g) return gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory to read it");
    g->in = *in;
    g->width = gwb_le16(b + 6);
    g->height = gwb_le16(b + 8);
    g->clear = -1;
    g->at = 13;
    if (b[10] & 0x80) g->global_colours = 2 << (b[10] & 7);
    // A code of 12 bits makes up to 4096 pixels; a small frame may stand on a canvas of a reasonable size.
    int64_t capacity = in->size * 2731 > 1 << 24 ? in->size * 2731 : 1 << 24;
    int rc = gwb_check_size(in, g->width, g->height, 4, capacity);
    if (rc == 0 && g->global_colours && !read_colours(g, g->global, g->global_colours)) {
        rc = gwb_refuse(in, GWB_BAD_FILE, "truncated GIF: its colours are cut");
    }
    if (rc == 0 && !in->params.header_only) {
        g->canvas = calloc((size_t)g->width * (size_t)g->height, 4);
        if (!g->canvas) rc = gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory for %dx%d pixels", g->width, g->height);
    }
    if (rc == 0) *gif = g;
    else gwb_gif_close(g);
    return rc;
}

// Passes sub-blocks up to the empty one. False where the file ends first.
static bool skip_blocks(gwb_gif *g)
{
    while (g->at < g->in.size) {
        int n = g->in.bytes[g->at++];
        if (n == 0) return true;
        g->at += n;
    }
    return false;
}

// Goes to the next frame's descriptor. 1; 0 at the end; -1 where the file ends before its end mark or holds something else.
static int find_frame(gwb_gif *g)
{
    const uint8_t *b = g->in.bytes;
    while (g->at < g->in.size) {
        int block = b[g->at++];
        if (block == 0x3b) return 0;
        if (block == 0x2c) return g->at + 9 <= g->in.size ? 1 : -1;
        if (block == 0) continue;       // fill, as some writers leave it
        if (block != 0x21 || g->at >= g->in.size) return -1;
        bool control = b[g->at++] == 0xf9;
        if (control && g->at + 6 <= g->in.size && b[g->at] == 4) {
            g->next_disposal = b[g->at + 1] >> 2 & 7;
            g->delay = 10 * gwb_le16(b + g->at + 2);
            g->clear = b[g->at + 1] & 1 ? b[g->at + 4] : -1;
        }
        if (!skip_blocks(g)) return -1;
    }
    return -1;
}

// What the last frame leaves for the next one.
static void dispose(gwb_gif *g)
{
    if (g->disposal < 2 || g->disposal > 3) return;
    if (g->disposal == 3 && !g->before) return;
    for (int32_t y = 0; y < g->h; y++) {
        int64_t at = ((int64_t)(g->y + y) * g->width + g->x) * 4;
        if (g->disposal == 3) memcpy(g->canvas + at, g->before + at, (size_t)g->w * 4);
        else memset(g->canvas + at, 0, (size_t)g->w * 4);
    }
}

typedef struct placer {
    gwb_gif *g;
    uint8_t (*colours)[4];
    int32_t left, top, w, h;        // the frame as it is coded; parts may lie outside of the canvas
    int32_t x, y;
    bool interlaced;
    int pass;
    int64_t count;
} placer;

static void next_row(placer *p)
{
    static const int first[] = {0, 4, 2, 1}, apart[] = {8, 8, 4, 2};
    p->x = 0;
    p->y += p->interlaced ? apart[p->pass] : 1;
    while (p->interlaced && p->y >= p->h && p->pass < 3) p->y = first[++p->pass];
}

static void place(placer *p, int index)
{
    if (p->y >= p->h) return;
    int64_t x = p->left + p->x, y = p->top + p->y;
    if (index != p->g->clear && x < p->g->width && y < p->g->height) memcpy(p->g->canvas + (y * p->g->width + x) * 4, p->colours[index], 4);
    p->count++;
    if (++p->x == p->w) next_row(p);
}

// The frame's LZW codes. False where they are damaged or the file ends.
static bool draw(placer *p)
{
    gwb_gif *g = p->g;
    const uint8_t *b = g->in.bytes;
    uint16_t prefix[4096];
    uint8_t suffix[4096], stack[4096], first[4096];
    if (g->at >= g->in.size) return false;
    int root = b[g->at++];
    if (root < 1 || root > 11) return false;
    int clear = 1 << root, end = clear + 1, next = end + 1, width = root + 1, last = -1, bits = 0, left = 0;
    uint32_t word = 0;
    bool good = true;
    for (int i = 0; i < clear; i++) {
        suffix[i] = first[i] = (uint8_t)i;
        prefix[i] = 0;
    }
    for (;;) {
        while (bits < width) {
            if (left == 0) {
                left = g->at < g->in.size ? b[g->at++] : 0;
                if (left == 0) return p->y >= p->h && g->at <= g->in.size && good;      // no end code; all pixels may be there
            }
            if (g->at >= g->in.size) return false;
            word |= (uint32_t)b[g->at++] << bits;
            bits += 8;
            left--;
        }
        int code = (int)(word & ((1u << width) - 1));
        word >>= width;
        bits -= width;
        if (code == end) break;
        if (code == clear) {
            next = end + 1;
            width = root + 1;
            last = -1;
            continue;
        }
        if (code > next || (code == next && (last < 0 || next > 4095)) || (code >= clear && last < 0)) {
            good = false;
            break;
        }
        int n = 0, walk = code;
        if (code == next) {     // the code that is about to be made: the last string and its first pixel
            stack[n++] = first[last];
            walk = last;
        }
        for (; walk >= clear; walk = prefix[walk]) stack[n++] = suffix[walk];
        stack[n++] = (uint8_t)walk;
        if (last >= 0 && next < 4096) {
            prefix[next] = (uint16_t)last;
            suffix[next] = stack[n - 1];
            first[next] = first[last];
            next++;
            if (next == 1 << width && width < 12) width++;
        }
        last = code;
        while (n > 0) place(p, stack[--n]);
    }
    g->at += left;
    return skip_blocks(g) && good && p->y >= p->h;
}

int gwb_gif_next(gwb_gif *g, gwb_picture *out)
{
    int found = find_frame(g);
    if (found == 0) return 0;
    if (found < 0) {
        // Many writers leave the end mark away: what is there is whole.
        if (g->index > 0 && g->at >= g->in.size) return 0;
        return g->in.params.lenient && g->index > 0 ? 0
            : gwb_refuse(&g->in, GWB_BAD_FILE, "damaged GIF: %s (frame %" PRId64 ")", g->at >= g->in.size ? "truncated" : "a block that is none", g->index);
    }
    const uint8_t *d = g->in.bytes + g->at;
    placer p = {.g = g, .left = gwb_le16(d), .top = gwb_le16(d + 2), .w = gwb_le16(d + 4), .h = gwb_le16(d + 6), .interlaced = d[8] & 0x40,
                .colours = g->global};
    uint8_t local[256][4];
    g->at += 9;
    if (d[8] & 0x80) {
        if (!read_colours(g, local, 2 << (d[8] & 7))) return gwb_refuse(&g->in, GWB_BAD_FILE, "truncated GIF: the colours of frame %" PRId64, g->index);
        p.colours = local;
    } else if (!g->global_colours) {
        return gwb_refuse(&g->in, GWB_BAD_FILE, "damaged GIF: frame %" PRId64 " has no colours", g->index);
    }
    if (!g->in.params.lenient && (int64_t)p.w * p.h > (g->in.size - g->at) * 2731) {
        return gwb_refuse(&g->in, GWB_BAD_FILE, "damaged GIF: frame %" PRId64 " of %dx%d pixels is more than %" PRId64 " bytes can make", g->index, p.w,
                          p.h, g->in.size - g->at);
    }
    dispose(g);
    g->x = p.left < g->width ? p.left : g->width;
    g->y = p.top < g->height ? p.top : g->height;
    g->w = p.left + p.w < g->width ? p.w : g->width - g->x;
    g->h = p.top + p.h < g->height ? p.h : g->height - g->y;
    g->disposal = g->next_disposal;
    if (g->disposal == 3) {
        size_t bytes = (size_t)g->width * (size_t)g->height * 4;
        if (!g->before) g->before = malloc(bytes);
        if (!g->before) return gwb_refuse(&g->in, GWB_OUT_OF_MEMORY, "no memory for a second canvas");
        memcpy(g->before, g->canvas, bytes);
    }
    bool whole = p.w == 0 || p.h == 0 ? skip_blocks(g) : draw(&p);
    if (!whole) {
        int rc = gwb_doubt(&g->in, out, "%s GIF: frame %" PRId64 " has %" PRId64 " of its %" PRId64 " pixels", g->at >= g->in.size ? "truncated" : "damaged",
                           g->index, p.count, (int64_t)p.w * p.h);
        if (rc < 0) return rc;
        g->at = g->in.size;     // nothing behind it is to be trusted
    }
    gwb_picture_describe(out, g->canvas, g->width, g->height, GWB_U8, 4);
    strcpy(out->kind, "gif");
    out->depth = 8;
    out->delay = g->delay;
    g->next_disposal = g->delay = 0;
    g->clear = -1;
    g->index++;
    return 1;
}

// Counts the frames without decoding them.
static int64_t count(gwb_gif *g)
{
    while (find_frame(g) == 1) {
        int flags = g->in.bytes[g->at + 8];
        g->at += 9 + (flags & 0x80 ? 3 * (2 << (flags & 7)) : 0) + 1;
        if (!skip_blocks(g)) break;
        g->index++;
    }
    return g->index;
}

int gwb_gif_decode(const gwb_input *in, gwb_picture *out)
{
    gwb_gif *g;
    int rc = gwb_gif_open(in, &g);
    if (rc < 0) return rc;
    if (in->params.header_only) {
        gwb_picture_describe(out, NULL, g->width, g->height, GWB_U8, 4);
        out->frames = count(g);
    } else {
        int64_t frame = in->params.frame;
        do rc = gwb_gif_next(g, out); while (rc == 1 && frame-- > 0);
        if (rc == 0) {
            rc = gwb_refuse(in, g->index ? GWB_BAD_ARGUMENT : GWB_BAD_FILE, "no frame %" PRId64 ": it has %" PRId64 "; frames count from 0",
                            in->params.frame, g->index);
        } else if (rc == 1) {
            out->memory = g->canvas;
            g->canvas = NULL;
            rc = 0;
        }
    }
    gwb_gif_close(g);
    return rc;
}
