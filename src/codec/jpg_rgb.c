// SPDX-License-Identifier: MIT
// A JPEG's planes as RGB, in the whole numbers of libjpeg: triangle weights for chroma of half the width or height, then BT.601, full range.
#include "jpg.h"

#include <stdlib.h>
#include <string.h>

// A row of chroma at twice its width.
static void widen(const int16_t *in, uint8_t *out, int32_t n, int shift, int one, int other)
{
    for (int32_t i = 0; i < n; i++) {
        int before = in[i > 0 ? i - 1 : 0], after = in[i < n - 1 ? i + 1 : n - 1];
        out[2 * i] = (uint8_t)((3 * in[i] + before + one) >> shift);
        out[2 * i + 1] = (uint8_t)((3 * in[i] + after + other) >> shift);
    }
}

// Row y of a chroma plane at the picture's size; `work` has room for a row of it. libjpeg repeats the samples of rows of one or two.
static void grow_row(const gwb_plane *p, int h, int v, int32_t y, int32_t width, int16_t *work, uint8_t *out)
{
    int32_t own = y / v;
    const uint8_t *row = p->data + own * p->step;
    int32_t next = y % v == 0 ? own - 1 : own + 1;
    const uint8_t *far = p->data + (next < 0 ? 0 : next >= p->height ? p->height - 1 : next) * p->step;
    if (h == 2 && v == 2 && p->width > 2) {
        for (int32_t i = 0; i < p->width; i++) work[i] = (int16_t)(3 * row[i] + far[i]);
        widen(work, out, p->width, 4, 8, 7);
    } else if (h == 2 && v == 1 && p->width > 2) {
        for (int32_t i = 0; i < p->width; i++) work[i] = row[i];
        widen(work, out, p->width, 2, 1, 2);
    } else if (h == 1 && v == 2) {
        for (int32_t i = 0; i < p->width; i++) out[i] = (uint8_t)((3 * row[i] + far[i] + (y % 2 ? 2 : 1)) >> 2);
    } else {
        for (int32_t i = 0; i < width; i++) out[i] = row[i / h];
    }
}

static uint8_t clamp(int v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

int gwb_jpg_to_rgb(const gwb_picture *coded, int h, int v, const gwb_plane *rgb)
{
    int32_t width = rgb->width;
    size_t room = ((size_t)width + 8) & ~(size_t)7;
    uint8_t *cb = malloc(room * 4);
    if (!cb) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory for a row of %d pixels", width);
    uint8_t *cr = cb + room;
    int16_t *work = (int16_t *)(void *)(cr + room);
    for (int32_t y = 0; y < rgb->height; y++) {
        const uint8_t *luma = coded->plane[0].data + y * coded->plane[0].step;
        uint8_t *to = rgb->data + y * rgb->step;
        grow_row(&coded->plane[1], h, v, y, width, work, cb);
        grow_row(&coded->plane[2], h, v, y, width, work, cr);
        for (int32_t x = 0; x < width; x++, to += 3) {
            int b = cb[x] - 128, r = cr[x] - 128;
            to[0] = clamp(luma[x] + ((91881 * r + 32768) >> 16));
            to[1] = clamp(luma[x] + ((-22554 * b - 46802 * r + 32768) >> 16));
            to[2] = clamp(luma[x] + ((116130 * b + 32768) >> 16));
        }
    }
    free(cb);
    return 0;
}
