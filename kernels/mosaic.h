// SPDX-License-Identifier: MIT
// Red, green and blue of a pixel from a colour filter mosaic.
#ifndef GWB_KERNEL_MOSAIC_H
#define GWB_KERNEL_MOSAIC_H

#include "sample.h"

// The index within 0..last that an index up to 2 outside mirrors to, so that colours keep their places.
GWB_FN int gwb_mirror(int i, int last)
{
    i = i < 0 ? -i : i;
    i = i > last ? 2 * last - i : i;
    return gwb_clamp(i, last);
}

// What a pixel's neighbours sum to: beside it, above and below, at the corners, and two away along the row and the column.
typedef struct gwb_around {
    float self, row, column, corners, far_row, far_column;
} gwb_around;

// `site`: 0 at red, 1 at green between reds, 2 at green between blues, 3 at blue. Bilinear, or the gradient-corrected linear filters of Malvar, He
// and Cutler. All weights are multiples of 1/16, so that sums of codes are exact.
GWB_FN void gwb_demosaic(const gwb_around *n, int site, int bilinear, float c[3])
{
    const float green = bilinear ? (n->row + n->column) * 0.25f
        : (n->self * 4.0f + (n->row + n->column) * 2.0f - (n->far_row + n->far_column)) * 0.125f;
    const float across = bilinear ? n->row * 0.5f
        : (n->self * 5.0f + n->row * 4.0f - n->corners - n->far_row + n->far_column * 0.5f) * 0.125f;
    const float down = bilinear ? n->column * 0.5f
        : (n->self * 5.0f + n->column * 4.0f - n->corners - n->far_column + n->far_row * 0.5f) * 0.125f;
    const float other = bilinear ? n->corners * 0.25f
        : (n->self * 6.0f + n->corners * 2.0f - (n->far_row + n->far_column) * 1.5f) * 0.125f;
    c[0] = site == 0 ? n->self : site == 1 ? across : site == 2 ? down : other;
    c[1] = site == 0 || site == 3 ? green : n->self;
    c[2] = site == 3 ? n->self : site == 2 ? across : site == 1 ? down : other;
}

// The site of pixel (x, y); red: position of red in the 2x2 block, x + 2 y.
GWB_FN int gwb_mosaic_site(int red, int x, int y)
{
    return ((x ^ red) & 1) + 2 * ((y ^ red >> 1) & 1);
}

GWB_FN void gwb_demosaic_at(int kind, const gwb_samples *s, int width, int height, int red, int bilinear, int x, int y, float c[3])
{
    const int l = width - 1, b = height - 1;
    const int x1 = gwb_mirror(x - 1, l), x2 = gwb_mirror(x + 1, l), y1 = gwb_mirror(y - 1, b), y2 = gwb_mirror(y + 1, b);
    gwb_around n;
    n.self = gwb_sample_at(kind, s, x, y);
    n.row = gwb_sample_at(kind, s, x1, y) + gwb_sample_at(kind, s, x2, y);
    n.column = gwb_sample_at(kind, s, x, y1) + gwb_sample_at(kind, s, x, y2);
    n.corners = (gwb_sample_at(kind, s, x1, y1) + gwb_sample_at(kind, s, x2, y1)) + (gwb_sample_at(kind, s, x1, y2) + gwb_sample_at(kind, s, x2, y2));
    n.far_row = gwb_sample_at(kind, s, gwb_mirror(x - 2, l), y) + gwb_sample_at(kind, s, gwb_mirror(x + 2, l), y);
    n.far_column = gwb_sample_at(kind, s, x, gwb_mirror(y - 2, b)) + gwb_sample_at(kind, s, x, gwb_mirror(y + 2, b));
    gwb_demosaic(&n, gwb_mosaic_site(red, x, y), bilinear, c);
}

#endif
