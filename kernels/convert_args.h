// SPDX-License-Identifier: MIT
// The arguments of a conversion between pixel formats: what src/convert.c works out once, and every kernel and the host read.
#ifndef GWB_CONVERT_ARGS_H
#define GWB_CONVERT_ARGS_H

// How a sample lies in memory.
typedef enum gwb_sample_kind {
    GWB_SAMPLE_U8,      // one byte
    GWB_SAMPLE_U16,     // bits of a 16-bit word
    GWB_SAMPLE_U32,     // bits of a 32-bit word
    GWB_SAMPLE_F16,
    GWB_SAMPLE_F32,
    GWB_SAMPLE_V210     // ten bits, three to a 32-bit word
} gwb_sample_kind;

// Transfer curves by their form.
typedef enum gwb_curve_kind {
    GWB_CURVE_LINEAR,
    GWB_CURVE_POWER,
    GWB_CURVE_SRGB,
    GWB_CURVE_PQ,
    GWB_CURVE_HLG
} gwb_curve_kind;

typedef struct gwb_curve {
    int32_t kind;           // gwb_curve_kind
    float gamma;            // GWB_CURVE_POWER: of the display
} gwb_curve;

// How light above the SDR white is brought under it.
typedef enum gwb_tone {
    GWB_TONE_NONE,
    GWB_TONE_BT2390,
    GWB_TONE_REINHARD,
    GWB_TONE_HABLE
} gwb_tone;

// A change of transfer curve and primaries (transfer.h).
typedef struct gwb_light {
    int32_t on;
    gwb_curve from, to;
    int32_t tone;           // gwb_tone
    float peak;             // brightest light of the source, in SDR whites
    float primaries[3][3];  // in linear light
    float from_luma[3], to_luma[3];     // luminance of R G B
} gwb_light;

// What is added before a value is rounded.
typedef enum gwb_dither {
    GWB_DITHER_NONE,
    GWB_DITHER_ORDERED,     // an 8x8 threshold matrix
    GWB_DITHER_BLUE_NOISE   // a 64x64 one without low frequencies
} gwb_dither;

// How a side lies in memory, where the kernel of tiles (convert_tile.h) can take it.
typedef enum gwb_shape {
    GWB_SHAPE_NONE,         // it cannot
    GWB_SHAPE_LUMA,         // one component
    GWB_SHAPE_PLANES,       // three full planes
    GWB_SHAPE_3,            // three or four interleaved samples a pixel
    GWB_SHAPE_4,
    GWB_SHAPE_RGB,          // the same in a known order, for GWB_QUICK_LEFT and _DOWN
    GWB_SHAPE_BGR,
    GWB_SHAPE_RGBA,
    GWB_SHAPE_BGRA,
    GWB_SHAPE_420,          // a full plane, and two of a sample for 2x2 pixels
    GWB_SHAPE_420_PAIRS     // the same two, interleaved
} gwb_shape;

// What yuv_rgb.h and rgb_yuv.h can make of a conversion.
typedef enum gwb_quick {
    GWB_QUICK_NO,
    GWB_QUICK_FULL,         // 4:4:4
    GWB_QUICK,              // with any siting
    GWB_QUICK_LEFT,         // with the usual one, to an order that has a kernel: faster
    GWB_QUICK_DOWN          // the other way, with the usual one (rgb_yuv.h)
} gwb_quick;

// The samples of one component.
typedef struct gwb_samples {
    uint8_t *data;      // first sample of row 0 (v210: first byte of row 0); NULL: there is no such component
    int64_t step;       // bytes from one row to the next
    int32_t pitch;      // bytes from one sample to the next (v210: slots of ten bits)
    int32_t lane;       // position among the samples of its pixel (v210: slot of the first sample)
    int32_t shift;      // bits below the value
    int32_t mask;       // 2^depth - 1
} gwb_samples;

enum { GWB_TAPS = 5, GWB_PHASES = 4 };
enum { GWB_TILE_W = 4, GWB_TILE_H = 2 };     // pixels of a tile
enum { GWB_BAND = 1 << 18 };    // item rows of a band: a launch's z counts bands, since cuda's y ends at 65535 blocks

// Resampling along one axis: output i is the sum over t of weight[p][t] * input[clamp(q * scale + base[p] + t)], where p is i's low
// `phase_bits` bits and q the rest. Weights are multiples of 1/8, so that sums of integer codes are exact in float.
typedef struct gwb_taps {
    int32_t phase_bits; // 0..2: enlarges by 1 << phase_bits
    int32_t scale;      // shrinks by 1, 2 or 4
    int32_t count;      // 1..GWB_TAPS
    int32_t last;       // inputs - 1, for clamping
    int32_t base[GWB_PHASES];
    float weight[GWB_PHASES][GWB_TAPS];
} gwb_taps;

// From source codes to destination codes: d[i] = sum over j of m[i][j] * (c[j] - from[j]), plus to[i].
typedef struct gwb_mix {
    float from[3];
    float m[3][3];
    float to[3];
    int32_t diagonal;   // 1: only m[i][i] count
} gwb_mix;

// The matrix of yuv_rgb.h, as large as its samples want it: at even and at odd pixels.
typedef struct gwb_quick_numbers {
    uint32_t from[2];           // codes of black and of no colour; of bytes in both halves (pairs.h)
    float luma;
    float vr[2], ug[2], vg[2], ub[2];
} gwb_quick_numbers;

// Pixels of a row that yuv_rgb.h and rgb_yuv.h do at once, for the kind of the result.
#define GWB_QUICK_WIDTH(dst_kind) ((dst_kind) == GWB_SAMPLE_U8 ? 8 : 4)

typedef struct gwb_convert_args {
    gwb_samples src[4], dst[4]; // R G B A or Y U V A
    int32_t src_kind, dst_kind; // gwb_sample_kind
    int32_t width, height;      // pixels
    int32_t src_log2_w, src_log2_h;     // chroma subsampling
    int32_t dst_log2_w, dst_log2_h;
    int32_t first_x, first_y;   // block of work item 0: where a launch does a part of the picture (cuda)
    int32_t block_w, block_h;   // pixels of a work item: whole chroma samples, and a whole group of the destination
    int32_t group;              // pixels of a destination group: 1, 2 or 6
    int32_t mosaic;             // 1: the source's only plane holds one of R G B a pixel
    int32_t red;                // mosaic: position of red in the 2x2 block, x + 2 y
    int32_t bilinear;           // mosaic: 1 bilinear, 0 gradient-corrected
    int32_t dither;             // gwb_dither
    int32_t word;               // 1: all components of a destination group share 32-bit or 16-bit words and are stored at once
    int32_t luma_needs;         // bit j: component j of the source is needed for the destination's full-size components
    int32_t chroma_needs;       // bit j: ... for its subsampled ones
    gwb_taps up_x, up_y;        // source chroma to pixels
    gwb_taps down_x, down_y;    // source chroma to destination chroma
    gwb_taps alpha_x, alpha_y;  // pixels to destination chroma, for blending
    uint32_t quarter_x[2][3], quarter_y[2][3];      // yuv_rgb.h: weights of the chroma samples before, at and behind, for even and odd pixels, in quarters
    int32_t quick;              // gwb_quick
    gwb_quick_numbers quick_numbers;
    float down_numbers[3][3];   // rgb_yuv.h: the matrix for bytes as pairs.h has them, chroma for eight times as much
    int32_t tile_w;             // pixels of a tile's row where the kernel of tiles, yuv_rgb.h or rgb_yuv.h does it
    gwb_mix mix;                // with light.on: from R G B in 0..1
    gwb_mix source_mix;         // with light.on: from source codes to R G B in 0..1
    gwb_light light;
    int32_t source_needs;       // with light.on: bit j: component j of the source is needed
    float limit[4];             // greatest destination code
    float alpha_scale;          // source alpha to destination alpha; 0: it is alpha_fill
    float alpha_fill;           // opaque
    float blend_scale;          // source alpha to 0..1; 0: no blending
    float background[3];        // in source codes
    int32_t src_shape, dst_shape;       // gwb_shape; both are something where tiles will do
} gwb_convert_args, gwb_convert_tile_args;

#endif
