// SPDX-License-Identifier: MIT
// What JPEG's reader knows from the markers.
#ifndef GWB_JPG_H
#define GWB_JPG_H

#include "codec.h"

typedef struct gwb_jpg {
    int coding;                 // the SOF marker; 0: none yet
    int precision, width, height, components;
    int id[4], h[4], v[4];      // of each component: its name and sampling
    int h_max, v_max;
    bool adobe, jfif, complete;
    int transform;              // Adobe's colour transform
    bool pixels;                // a scan begins
    bool bad_codes;             // Huffman tables that stb_image would write past its own
    uint64_t fine[4];           // progressive, of each component: a bit for each coefficient that scans bring to its last bit
    int orientation;
    int profiles;               // ICC segments
    int64_t profile_bytes;
} gwb_jpg;

// src/codec/jpg_check.c: goes through all coded data without making pixels. Writes what is wrong to `text`; "" where every block is there and the
// codes are right. *damage: the bytes in front of what is wrong.
int gwb_jpg_check(const gwb_input *in, const gwb_jpg *f, char text[96], int64_t *damage);

// src/codec/jpg_rgb.c: Y, Cb, Cr, these 1 / (h, v) of the size, as RGB.
int gwb_jpg_to_rgb(const gwb_picture *coded, int h, int v, const gwb_plane *rgb);

// src/codec/jpg_write.c. Planes of 8 bits: gray, or Y, Cb, Cr at full size and 1 / (h, v) of it.
int gwb_jpg_write(const gwb_plane *planes, int count, int h, int v, int quality, gwb_bytes *out);

#endif
