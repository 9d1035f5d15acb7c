// SPDX-License-Identifier: MIT
// Loops over runs of samples, compiled for several instruction sets; the processor's best is taken.
#ifndef GWB_HOST_CONVERT_ROWS_H
#define GWB_HOST_CONVERT_ROWS_H

#include "gwb.h"

#include "convert_args.h"

// n pixels of `channels` (1..4) samples each from p to one array a channel, and back. Not for v210; U32 only unpacked, one channel.
void gwb_rows_unpack(int kind, int channels, const uint8_t *p, int shift, int mask, int n, float *const out[4]);
void gwb_rows_pack(int kind, int channels, uint8_t *p, int shift, float limit, int n, const float *const in[4]);
// n samples from x0 of a row of v210.
void gwb_rows_unpack_v210(const gwb_samples *s, const uint8_t *row, int64_t x0, int n, float *out);
// Groups of six pixels: 6 of y, 3 of u and of v each.
void gwb_rows_pack_v210(uint32_t *p, float limit, int groups, const float *y, const float *u, const float *v);
// The words of n pixels whose three components, and the padding `fill`, share one.
void gwb_rows_pack_words(const gwb_samples *s, int kind, uint8_t *p, const float *limit, int n, const float *const *in, float fill);

void gwb_rows_split(const float *in, int pairs, float *even, float *odd);

// sum = weight * in, or with first = 0 sum = sum + weight * in.
void gwb_rows_add(float *sum, const float *in, float weight, int first, int n);
// Outputs i0 .. i0+n-1 of a resampling; in[0] is input `low`, and the edges are repeated there already.
void gwb_rows_resample(const gwb_taps *t, const float *in, int low, int i0, int n, float *out);
void gwb_rows_blend(float *value, float background, const float *alpha, float scale, int n);
void gwb_rows_scale(const float *in, float scale, int n, float *out);
// Component i of the destination. In a mix that is diagonal only c[i] is read.
void gwb_rows_mix(const gwb_mix *mix, int i, const float *const c[3], int n, float *out);
// Pixels x0 .. x0+n-1 of row y of a mosaic; rows[2] is that row and rows[0] the one two above; index 0 is x0, and two on each side are there.
void gwb_rows_demosaic(const float *const rows[5], int red, int bilinear, int x0, int y, int n, float *const c[3]);
// R G B in the source's light to the destination's, in place.
void gwb_rows_light(const gwb_light *light, int n, float *r, float *g, float *b);
void gwb_rows_dither(int dither, int x0, int y, int n, float *value);

#endif
