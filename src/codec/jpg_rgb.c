// SPDX-License-Identifier: MIT
// A JPEG's planes as RGB, in the whole numbers of libjpeg: triangle weights for chroma of half the width or height, then BT.601, full range.
#include "jpg.h"

#include "host/clones.h"

#include <stdlib.h>
#include <string.h>

// A row of chroma at twice its width.
static inline void widen(const int16_t *restrict in, uint8_t *restrict out, int32_t n, int shift, int16_t one, int16_t other)
{
    out[0] = (uint8_t)((4 * in[0] + one) >> shift);
    out[2 * n - 1] = (uint8_t)((4 * in[n - 1] + other) >> shift);
    for (int32_t i = 0; i < n - 1; i++) {
        out[2 * i + 1] = (uint8_t)((int16_t)(3 * in[i] + in[i + 1] + other) >> shift);
        out[2 * i + 2] = (uint8_t)((int16_t)(3 * in[i + 1] + in[i] + one) >> shift);
    }
}

// Row y of a chroma plane at the picture's size; `work` has room for a row of it. libjpeg repeats the samples of rows of one or two.
GWB_CLONES static void grow_row(const gwb_plane *p, int h, int v, int32_t y, int32_t width, int16_t *restrict work, uint8_t *restrict out)
{
    int32_t own = y / v, n = p->width;
    const uint8_t *row = p->data + own * p->step;
    int32_t next = y % v == 0 ? own - 1 : own + 1;
    const uint8_t *far = p->data + (next < 0 ? 0 : next >= p->height ? p->height - 1 : next) * p->step;
    if (h == 2 && v == 2 && n > 2) {
        for (int32_t i = 0; i < n; i++) work[i] = (int16_t)(3 * row[i] + far[i]);
        widen(work, out, n, 4, 8, 7);
    } else if (h == 2 && v == 1 && n > 2) {
        for (int32_t i = 0; i < n; i++) work[i] = row[i];
        widen(work, out, n, 2, 1, 2);
    } else if (h == 1 && v == 2) {
        int one = y % 2 ? 2 : 1;
        for (int32_t i = 0; i < n; i++) out[i] = (uint8_t)((3 * row[i] + far[i] + one) >> 2);
    } else {
        for (int32_t i = 0; i < width; i++) out[i] = row[i / h];
    }
}

static inline uint8_t clamp(int v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

GWB_CLONES static void mix_row(const uint8_t *restrict luma, const uint8_t *restrict cb, const uint8_t *restrict cr, uint8_t *restrict to, int32_t width)
{
    for (int32_t x = 0; x < width; x++) {
        int l = luma[x], b = cb[x] - 128, r = cr[x] - 128;
        to[3 * x] = clamp(l + ((91881 * r + 32768) >> 16));
        to[3 * x + 1] = clamp(l + ((-22554 * b - 46802 * r + 32768) >> 16));
        to[3 * x + 2] = clamp(l + ((116130 * b + 32768) >> 16));
    }
}

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
        grow_row(&coded->plane[1], h, v, y, width, work, cb);
        grow_row(&coded->plane[2], h, v, y, width, work, cr);
        mix_row(luma, cb, cr, rgb->data + y * rgb->step, width);
    }
    free(cb);
    return 0;
}
