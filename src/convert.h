// SPDX-License-Identifier: MIT
// Conversions between pixel formats: which tags they need, and the plan that the kernels follow.
//
// Tags, once for all pairs:
// - The range of gray and RGB that carry none is full. The range of YUV is never guessed: it may stay unknown only where both sides are YUV of
//   the same depth and neither says, and then codes are kept.
// - The matrix between YUV and RGB, and from RGB to gray, is the tag of the YUV (gray) side, else the tag of the other side; nobody's is an error.
//   From YUV to YUV a destination without a matrix has the source's; with a matrix of its own, the source's must be known. Between gray and
//   YUV there is no matrix: gray is Y, and U and V are neutral.
// - YUV with the matrix gbr is RGB whose planes are G, B, R.
// - Siting that nobody gave is left (MPEG-2, H.264): co-sited in width, between the rows in height. A subsampled destination has the source's.
// - Alpha goes to alpha; where the source has none it is opaque; where the destination has none it is dropped, or, with a background, blended
//   in the source's codes. Where the source's chroma is subsampled and the destination's too, alpha is averaged for the chroma.
// - Transfer and primaries that the destination does not name are the source's. Where both name them and they differ, the caller says whether the
//   numbers are converted: decoded to R G B, to linear light, to the other primaries, tone-mapped where that leads from pq or hlg to SDR, and
//   back. bt709 is the curve of bt1886, with which it is shown. Linear 1.0 is the SDR white, 203 cd/m2 of pq; hlg's display has 1000 cd/m2.
//
// Arithmetic: chroma is resampled on codes, from the source's grid to the destination's; bilinear where it gets finer, the exact mean over the
// destination's sample where it gets coarser, edges repeated. One 3x3 matrix in float32, computed in double for the two depths, leads from
// source codes to destination codes; then rounding half up and saturation. Floats are neither rounded nor cut.
#ifndef GWB_CONVERT_H
#define GWB_CONVERT_H

#include "image.h"

#include "convert_args.h"

// Fills what the tags of both leave open, as above; a tag stays unknown where it does not matter. Changes nothing it should not on failure but
// the two structs given.
int gwb_convert_settle(gwb_image *dst, gwb_image *src, const gwb_convert_params *params);
// Fills the arguments. Both images have passed gwb_image_check_as and their tags are settled. GWB_BAD_ARGUMENT for a background that needs an
// unknown matrix.
int gwb_convert_plan(gwb_convert_args *args, const gwb_image *dst, const gwb_image *src, const gwb_convert_params *params);
// Weights in quarters of the samples before, at and behind an even and an odd output, all set; false where they are no such.
bool gwb_convert_quarters(const gwb_taps *taps, uint32_t quarter[2][3]);
// Where yuv_rgb.h gives the bits of convert.h: the gwb_quick of subsampled chroma, whose weights it sets, GWB_QUICK_NO where they are no quarters; and
// whether a matrix (row by row), what is taken off before and what is added behind are of YUV to RGB, its rows differing in chroma alone.
int gwb_convert_quick_chroma(const gwb_taps *taps_x, const gwb_taps *taps_y, uint32_t quarter_x[2][3], uint32_t quarter_y[2][3]);
bool gwb_convert_quick_matrix(const float *m, const float *from, const float *to);
// yuv_rgb.h's numbers of a matrix from Y, U and V to R, G and B, whose 9 numbers lie row by row, and the codes that are taken off before, for a gwb_sample_kind
// and a gwb_quick.
void gwb_convert_quick_numbers(gwb_quick_numbers *numbers, const float *m, const float *from, int kind, int quick);
// The model of an image: YUV with the matrix gbr counts as RGB, and so does a mosaic.
int gwb_convert_model(const gwb_image *image);

// convert_light.c. 1 where transfer or primaries are known on both sides and differ.
int gwb_convert_light_differs(const gwb_image *dst, const gwb_image *src);
// GWB_BAD_ARGUMENT where the caller has to say more.
int gwb_convert_light_settle(const gwb_image *dst, const gwb_image *src, const gwb_convert_params *params);
int gwb_convert_plan_light(gwb_light *light, const gwb_image *dst, const gwb_image *src, const gwb_convert_params *params);

#endif
