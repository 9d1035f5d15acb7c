// SPDX-License-Identifier: MIT
// The table of pixel formats and of what a picture's numbers mean. One row is one format; C, Lua and the kernels' arguments all come from it.
//
// Rules, once for all formats:
// - Names are FFmpeg's where it has one. Words are little-endian. Positions count from a pixel's first byte.
// - A size need not be a multiple of anything: a subsampled plane has ceil(width / 2^log2_w) samples a row, a group that is only partly
//   in the picture is there as a whole, and what lies beyond the picture in it repeats the last pixel.
// - Limited range at depth n: Y (and gray, R, G, B) 16..235, U and V 16..240, times 2^(n-8); full range: 0..2^n-1, chroma centre 2^(n-1).
//   Alpha is always 0..2^n-1. Float is 0..1, always full range, and not cut to 0..1.
// - Alpha that the source lacks is opaque. Padding (the 0 of rgb0, the x of x2rgb10le) is not read and is written as ones.
// - Where the value is in the high bits of its word (p010le), the low bits are not read and are written as zeros.
#ifndef GWB_FORMAT_H
#define GWB_FORMAT_H

#include "error.h"

// Interleaved: name, model, type, bits, channels of the plane, positions of R G B A (or Y U V A; -1: none), 1 where A is alpha and 0 where it is padding.
#define GWB_FORMATS_INTERLEAVED(_) \
    _(gray,       GRAY, U8,   8, 1,  0, -1, -1, -1, 0) \
    _(gray9le,    GRAY, U16,  9, 1,  0, -1, -1, -1, 0) \
    _(gray10le,   GRAY, U16, 10, 1,  0, -1, -1, -1, 0) \
    _(gray12le,   GRAY, U16, 12, 1,  0, -1, -1, -1, 0) \
    _(gray14le,   GRAY, U16, 14, 1,  0, -1, -1, -1, 0) \
    _(gray16le,   GRAY, U16, 16, 1,  0, -1, -1, -1, 0) \
    _(grayf16le,  GRAY, F16, 16, 1,  0, -1, -1, -1, 0) \
    _(grayf32le,  GRAY, F32, 32, 1,  0, -1, -1, -1, 0) \
    _(ya8,        GRAY, U8,   8, 2,  0, -1, -1,  1, 1) \
    _(ya16le,     GRAY, U16, 16, 2,  0, -1, -1,  1, 1) \
    _(rgb24,      RGB,  U8,   8, 3,  0,  1,  2, -1, 0) \
    _(bgr24,      RGB,  U8,   8, 3,  2,  1,  0, -1, 0) \
    _(rgba,       RGB,  U8,   8, 4,  0,  1,  2,  3, 1) \
    _(bgra,       RGB,  U8,   8, 4,  2,  1,  0,  3, 1) \
    _(argb,       RGB,  U8,   8, 4,  1,  2,  3,  0, 1) \
    _(abgr,       RGB,  U8,   8, 4,  3,  2,  1,  0, 1) \
    _(rgb0,       RGB,  U8,   8, 4,  0,  1,  2,  3, 0) \
    _(bgr0,       RGB,  U8,   8, 4,  2,  1,  0,  3, 0) \
    _(0rgb,       RGB,  U8,   8, 4,  1,  2,  3,  0, 0) \
    _(0bgr,       RGB,  U8,   8, 4,  3,  2,  1,  0, 0) \
    _(rgb48le,    RGB,  U16, 16, 3,  0,  1,  2, -1, 0) \
    _(bgr48le,    RGB,  U16, 16, 3,  2,  1,  0, -1, 0) \
    _(rgba64le,   RGB,  U16, 16, 4,  0,  1,  2,  3, 1) \
    _(bgra64le,   RGB,  U16, 16, 4,  2,  1,  0,  3, 1) \
    _(rgbf16le,   RGB,  F16, 16, 3,  0,  1,  2, -1, 0) \
    _(rgbaf16le,  RGB,  F16, 16, 4,  0,  1,  2,  3, 1) \
    _(rgbf32le,   RGB,  F32, 32, 3,  0,  1,  2, -1, 0) \
    _(rgbaf32le,  RGB,  F32, 32, 4,  0,  1,  2,  3, 1) \
    _(vuya,       YUV,  U8,   8, 4,  2,  1,  0,  3, 1)

// Planar: name, model, type, bits, planes, planes of R G B A (or Y U V A), log2 of the chroma subsampling in width and height.
#define GWB_FORMATS_PLANAR(_) \
    _(gbrp,        RGB, U8,   8, 3,  2, 0, 1, -1,  0, 0) \
    _(gbrp10le,    RGB, U16, 10, 3,  2, 0, 1, -1,  0, 0) \
    _(gbrp12le,    RGB, U16, 12, 3,  2, 0, 1, -1,  0, 0) \
    _(gbrp16le,    RGB, U16, 16, 3,  2, 0, 1, -1,  0, 0) \
    _(gbrpf32le,   RGB, F32, 32, 3,  2, 0, 1, -1,  0, 0) \
    _(gbrap,       RGB, U8,   8, 4,  2, 0, 1,  3,  0, 0) \
    _(gbrapf32le,  RGB, F32, 32, 4,  2, 0, 1,  3,  0, 0) \
    _(rgbp,        RGB, U8,   8, 3,  0, 1, 2, -1,  0, 0) \
    _(rgbpf16le,   RGB, F16, 16, 3,  0, 1, 2, -1,  0, 0) \
    _(rgbpf32le,   RGB, F32, 32, 3,  0, 1, 2, -1,  0, 0) \
    _(yuv420p,     YUV, U8,   8, 3,  0, 1, 2, -1,  1, 1) \
    _(yuv422p,     YUV, U8,   8, 3,  0, 1, 2, -1,  1, 0) \
    _(yuv444p,     YUV, U8,   8, 3,  0, 1, 2, -1,  0, 0) \
    _(yuv440p,     YUV, U8,   8, 3,  0, 1, 2, -1,  0, 1) \
    _(yuv411p,     YUV, U8,   8, 3,  0, 1, 2, -1,  2, 0) \
    _(yuv410p,     YUV, U8,   8, 3,  0, 1, 2, -1,  2, 2) \
    _(yuv420p9le,  YUV, U16,  9, 3,  0, 1, 2, -1,  1, 1) \
    _(yuv422p9le,  YUV, U16,  9, 3,  0, 1, 2, -1,  1, 0) \
    _(yuv444p9le,  YUV, U16,  9, 3,  0, 1, 2, -1,  0, 0) \
    _(yuv420p10le, YUV, U16, 10, 3,  0, 1, 2, -1,  1, 1) \
    _(yuv422p10le, YUV, U16, 10, 3,  0, 1, 2, -1,  1, 0) \
    _(yuv444p10le, YUV, U16, 10, 3,  0, 1, 2, -1,  0, 0) \
    _(yuv440p10le, YUV, U16, 10, 3,  0, 1, 2, -1,  0, 1) \
    _(yuv411p10le, YUV, U16, 10, 3,  0, 1, 2, -1,  2, 0) \
    _(yuv410p10le, YUV, U16, 10, 3,  0, 1, 2, -1,  2, 2) \
    _(yuv420p12le, YUV, U16, 12, 3,  0, 1, 2, -1,  1, 1) \
    _(yuv422p12le, YUV, U16, 12, 3,  0, 1, 2, -1,  1, 0) \
    _(yuv444p12le, YUV, U16, 12, 3,  0, 1, 2, -1,  0, 0) \
    _(yuv440p12le, YUV, U16, 12, 3,  0, 1, 2, -1,  0, 1) \
    _(yuv411p12le, YUV, U16, 12, 3,  0, 1, 2, -1,  2, 0) \
    _(yuv410p12le, YUV, U16, 12, 3,  0, 1, 2, -1,  2, 2) \
    _(yuv420p14le, YUV, U16, 14, 3,  0, 1, 2, -1,  1, 1) \
    _(yuv422p14le, YUV, U16, 14, 3,  0, 1, 2, -1,  1, 0) \
    _(yuv444p14le, YUV, U16, 14, 3,  0, 1, 2, -1,  0, 0) \
    _(yuv420p16le, YUV, U16, 16, 3,  0, 1, 2, -1,  1, 1) \
    _(yuv422p16le, YUV, U16, 16, 3,  0, 1, 2, -1,  1, 0) \
    _(yuv444p16le, YUV, U16, 16, 3,  0, 1, 2, -1,  0, 0) \
    _(yuv440p16le, YUV, U16, 16, 3,  0, 1, 2, -1,  0, 1) \
    _(yuv411p16le, YUV, U16, 16, 3,  0, 1, 2, -1,  2, 0) \
    _(yuv410p16le, YUV, U16, 16, 3,  0, 1, 2, -1,  2, 2) \
    _(yuva420p,    YUV, U8,   8, 4,  0, 1, 2,  3,  1, 1) \
    _(yuva444p,    YUV, U8,   8, 4,  0, 1, 2,  3,  0, 0)

// Semi-planar: name, type, bits, bits below the value, positions of U and V in their plane, log2 of the subsampling.
#define GWB_FORMATS_SEMIPLANAR(_) \
    _(nv12,   U8,   8, 0,  0, 1,  1, 1) \
    _(nv21,   U8,   8, 0,  1, 0,  1, 1) \
    _(nv16,   U8,   8, 0,  0, 1,  1, 0) \
    _(nv24,   U8,   8, 0,  0, 1,  0, 0) \
    _(nv42,   U8,   8, 0,  1, 0,  0, 0) \
    _(p010le, U16, 10, 6,  0, 1,  1, 1) \
    _(p012le, U16, 12, 4,  0, 1,  1, 1) \
    _(p016le, U16, 16, 0,  0, 1,  1, 1) \
    _(p210le, U16, 10, 6,  0, 1,  1, 0) \
    _(p410le, U16, 10, 6,  0, 1,  0, 0)

// Groups of two pixels in four samples: name, type, bits, bits below the value, positions of the first Y, of U and of V.
#define GWB_FORMATS_PACKED422(_) \
    _(yuyv422, U8,   8, 0,  0, 1, 3) \
    _(uyvy422, U8,   8, 0,  1, 0, 2) \
    _(yvyu422, U8,   8, 0,  0, 3, 1) \
    _(y210le,  U16, 10, 6,  0, 1, 3)

// Bit fields of one word: name, model, type, bits of R G B (Y U V), bits of padding, their shifts.
#define GWB_FORMATS_WORD(_) \
    _(rgb565le,   RGB, U16,  5, 6, 5,    0,  11, 5, 0,     0) \
    _(rgb555le,   RGB, U16,  5, 5, 5,    1,  10, 5, 0,    15) \
    _(x2rgb10le,  RGB, U32,  10, 10, 10, 2,  20, 10, 0,   30) \
    _(x2bgr10le,  RGB, U32,  10, 10, 10, 2,  0, 10, 20,   30) \
    _(xv30le,     YUV, U32,  10, 10, 10, 2,  10, 0, 20,   30)

#define GWB_FORMATS_V210(_) \
    _(v210)

// Colour filter mosaics, sources only: name, type, bits, position of red in the 2x2 block (x + 2 * y).
#define GWB_FORMATS_BAYER(_) \
    _(bayer_rggb8,    U8,   8, 0) \
    _(bayer_bggr8,    U8,   8, 3) \
    _(bayer_gbrg8,    U8,   8, 2) \
    _(bayer_grbg8,    U8,   8, 1) \
    _(bayer_rggb16le, U16, 16, 0) \
    _(bayer_bggr16le, U16, 16, 3) \
    _(bayer_gbrg16le, U16, 16, 2) \
    _(bayer_grbg16le, U16, 16, 1)

#define GWB_FORMAT_ID(name, ...) GWB_FORMAT_##name,
#define GWB_FORMAT_ID1(name) GWB_FORMAT_##name,
typedef enum gwb_format {
    GWB_FORMATS_INTERLEAVED(GWB_FORMAT_ID) GWB_FORMATS_PLANAR(GWB_FORMAT_ID) GWB_FORMATS_SEMIPLANAR(GWB_FORMAT_ID)
    GWB_FORMATS_PACKED422(GWB_FORMAT_ID) GWB_FORMATS_WORD(GWB_FORMAT_ID) GWB_FORMATS_V210(GWB_FORMAT_ID1) GWB_FORMATS_BAYER(GWB_FORMAT_ID)
    GWB_FORMAT_COUNT
} gwb_format;
#undef GWB_FORMAT_ID
#undef GWB_FORMAT_ID1

// Other names: alias, format, range that it implies, 1 where V lies before U in a packed frame.
#define GWB_FORMAT_ALIASES(_) \
    _("i420", yuv420p, UNKNOWN, 0) \
    _("iyuv", yuv420p, UNKNOWN, 0) \
    _("yv12", yuv420p, UNKNOWN, 1) \
    _("i422", yuv422p, UNKNOWN, 0) \
    _("yv16", yuv422p, UNKNOWN, 1) \
    _("i444", yuv444p, UNKNOWN, 0) \
    _("yv24", yuv444p, UNKNOWN, 1) \
    _("yuvj420p", yuv420p, FULL, 0) \
    _("yuvj422p", yuv422p, FULL, 0) \
    _("yuvj444p", yuv444p, FULL, 0) \
    _("yuvj440p", yuv440p, FULL, 0) \
    _("yuvj411p", yuv411p, FULL, 0) \
    _("gray8", gray, UNKNOWN, 0) \
    _("grey", gray, UNKNOWN, 0) \
    _("y8", gray, UNKNOWN, 0) \
    _("y800", gray, UNKNOWN, 0) \
    _("gray8a", ya8, UNKNOWN, 0) \
    _("rgb", rgb24, UNKNOWN, 0) \
    _("bgr", bgr24, UNKNOWN, 0) \
    _("rgbx", rgb0, UNKNOWN, 0) \
    _("bgrx", bgr0, UNKNOWN, 0) \
    _("xrgb", 0rgb, UNKNOWN, 0) \
    _("xbgr", 0bgr, UNKNOWN, 0) \
    _("yuyv", yuyv422, UNKNOWN, 0) \
    _("yuy2", yuyv422, UNKNOWN, 0) \
    _("uyvy", uyvy422, UNKNOWN, 0) \
    _("yvyu", yvyu422, UNKNOWN, 0) \
    _("ayuv", vuya, UNKNOWN, 0) /* as Direct3D and Media Foundation call it: the word AYUV, whose bytes are V U Y A */ \
    _("y410", xv30le, UNKNOWN, 0)

// What a picture's numbers mean. Position 0 of each list is "unknown".
// Matrices: name, Kr, Kb; those without a Kr are handled by name.
#define GWB_MATRICES(_) \
    _(BT601,     "bt601",     0.299,  0.114) \
    _(BT709,     "bt709",     0.2126, 0.0722) \
    _(BT2020,    "bt2020nc",  0.2627, 0.0593) \
    _(SMPTE240M, "smpte240m", 0.212,  0.087) \
    _(FCC,       "fcc",       0.30,   0.11) \
    _(YCGCO,     "ycgco",     0, 0) \
    _(GBR,       "gbr",       0, 0)
#define GWB_RANGES(_) \
    _(LIMITED, "limited") \
    _(FULL,    "full")
// Where a chroma sample lies among the pixels that it stands for: name, quarters of the way from the first to the last pixel in x and y.
#define GWB_SITINGS(_) \
    _(LEFT,       "left",       0, 2) \
    _(CENTER,     "center",     2, 2) \
    _(TOPLEFT,    "topleft",    0, 0) \
    _(TOP,        "top",        2, 0) \
    _(BOTTOMLEFT, "bottomleft", 0, 4) \
    _(BOTTOM,     "bottom",     2, 4)
#define GWB_TRANSFERS(_) \
    _(SRGB,    "srgb") \
    _(BT709,   "bt709") \
    _(BT1886,  "bt1886") \
    _(GAMMA22, "gamma22") \
    _(GAMMA28, "gamma28") \
    _(LINEAR,  "linear") \
    _(PQ,      "pq") \
    _(HLG,     "hlg")
// Name, chromaticities x y of R, G and B; white is D65.
#define GWB_PRIMARIES_LIST(_) \
    _(BT709,      "bt709",      0.640, 0.330, 0.300, 0.600, 0.150, 0.060) \
    _(BT2020,     "bt2020",     0.708, 0.292, 0.170, 0.797, 0.131, 0.046) \
    _(DISPLAY_P3, "display-p3", 0.680, 0.320, 0.265, 0.690, 0.150, 0.060) \
    _(BT601_525,  "bt601-525",  0.630, 0.340, 0.310, 0.595, 0.155, 0.070) \
    _(BT601_625,  "bt601-625",  0.640, 0.330, 0.290, 0.600, 0.150, 0.060)

// Other names of a tag's values.
#define GWB_TAG_ALIASES(_) \
    _("matrix", "smpte170m", "bt601") \
    _("matrix", "bt470bg", "bt601") \
    _("matrix", "bt2020", "bt2020nc") \
    _("matrix", "identity", "gbr") \
    _("matrix", "rgb", "gbr") \
    _("range", "tv", "limited") \
    _("range", "mpeg", "limited") \
    _("range", "pc", "full") \
    _("range", "jpeg", "full") \
    _("siting", "centre", "center") \
    _("siting", "mpeg2", "left") \
    _("siting", "mpeg1", "center") \
    _("siting", "jpeg", "center") \
    _("transfer", "smpte2084", "pq") \
    _("transfer", "arib-std-b67", "hlg") \
    _("transfer", "iec61966-2-1", "srgb") \
    _("transfer", "smpte170m", "bt709") \
    _("primaries", "smpte170m", "bt601-525") \
    _("primaries", "bt470bg", "bt601-625") \
    _("primaries", "smpte432", "display-p3")

typedef enum gwb_matrix {
    GWB_MATRIX_UNKNOWN,
#define ROW(id, name, kr, kb) GWB_MATRIX_##id,
    GWB_MATRICES(ROW) GWB_MATRIX_COUNT
#undef ROW
} gwb_matrix;
typedef enum gwb_range {
    GWB_RANGE_UNKNOWN,
#define ROW(id, name) GWB_RANGE_##id,
    GWB_RANGES(ROW) GWB_RANGE_COUNT
#undef ROW
} gwb_range;
typedef enum gwb_siting {
    GWB_SITING_UNKNOWN,
#define ROW(id, name, x, y) GWB_SITING_##id,
    GWB_SITINGS(ROW) GWB_SITING_COUNT
#undef ROW
} gwb_siting;
typedef enum gwb_transfer {
    GWB_TRANSFER_UNKNOWN,
#define ROW(id, name) GWB_TRANSFER_##id,
    GWB_TRANSFERS(ROW) GWB_TRANSFER_COUNT
#undef ROW
} gwb_transfer;
typedef enum gwb_primaries {
    GWB_PRIMARIES_UNKNOWN,
#define ROW(id, ...) GWB_PRIMARIES_##id,
    GWB_PRIMARIES_LIST(ROW) GWB_PRIMARIES_COUNT
#undef ROW
} gwb_primaries;

// Kr and Kb of a matrix; 0 where it has none (ycgco, gbr).
void gwb_matrix_weights(int matrix, double *kr, double *kb);
// Quarters of the way from the first to the last pixel of those a chroma sample stands for. GWB_SITING_UNKNOWN is left.
void gwb_siting_quarters(int siting, int *x, int *y);
// x and y of R, G, B and white.
void gwb_primaries_xy(int primaries, double xy[8]);
// 1 where the samples are floating point.
int gwb_format_is_float(const gwb_format_info *f);

#endif
