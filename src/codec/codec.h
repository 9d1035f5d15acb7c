// SPDX-License-Identifier: MIT
// Files to pixels in host memory and back: what the codecs share. Nothing here knows a device or Lua.
#ifndef GWB_CODEC_H
#define GWB_CODEC_H

#include "error.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

// Default limits of gwb_read_params.
#define GWB_MAX_PIXELS (INT64_C(1) << 28)
#define GWB_MAX_BYTES (INT64_C(4) << 30)

// What a decoder reads.
typedef struct gwb_input {
    const uint8_t *bytes;
    int64_t size;               // at least 1
    const char *name;           // what messages call it
    gwb_read_params params;     // limits are filled in
} gwb_input;

// One file format.
typedef struct gwb_codec {
    const char *name;           // "png": what format= takes
    const char *extensions;     // "jpg jpeg jpe", the name first
    bool (*recognise)(const uint8_t *bytes, int64_t size);      // NULL: not by content
    int (*decode)(const gwb_input *in, gwb_picture *out);       // NULL: not read
    int (*encode)(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);    // NULL: not written
    uint32_t types;             // bit n: gwb_type n can be written; 0: `encode` looks for itself, at several planes too
    uint32_t channels;          // bit n: n channels can be written
} gwb_codec;

// src/codec/NAME.c. Decoders fill a zeroed picture, whose memory the caller frees on failure too; encoders add to `out`.
bool gwb_png_recognise(const uint8_t *bytes, int64_t size);
int gwb_png_decode(const gwb_input *in, gwb_picture *out);
int gwb_png_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);
bool gwb_jpg_recognise(const uint8_t *bytes, int64_t size);
bool gwb_jpg_plain(const uint8_t *bytes, int64_t size);     // its markers tell of a whole gray or YCbCr picture that any decoder gives the same
int gwb_jpg_decode(const gwb_input *in, gwb_picture *out);
int gwb_jpg_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);
bool gwb_bmp_recognise(const uint8_t *bytes, int64_t size);
int gwb_bmp_decode(const gwb_input *in, gwb_picture *out);
int gwb_bmp_runs(const gwb_input *in, gwb_picture *out, int64_t width, int64_t height, int bits);     // src/codec/bmp_runs.c: its run-length kinds
bool gwb_tga_recognise(const uint8_t *bytes, int64_t size);
int gwb_tga_decode(const gwb_input *in, gwb_picture *out);
bool gwb_gif_recognise(const uint8_t *bytes, int64_t size);
int gwb_gif_decode(const gwb_input *in, gwb_picture *out);
bool gwb_psd_recognise(const uint8_t *bytes, int64_t size);
int gwb_psd_decode(const gwb_input *in, gwb_picture *out);
bool gwb_hdr_recognise(const uint8_t *bytes, int64_t size);
int gwb_hdr_decode(const gwb_input *in, gwb_picture *out);
bool gwb_qoi_recognise(const uint8_t *bytes, int64_t size);
int gwb_qoi_decode(const gwb_input *in, gwb_picture *out);
int gwb_qoi_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);
bool gwb_pnm_recognise(const uint8_t *bytes, int64_t size);
int gwb_pnm_decode(const gwb_input *in, gwb_picture *out);
int gwb_pnm_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);
bool gwb_pfm_recognise(const uint8_t *bytes, int64_t size);
int gwb_pfm_decode(const gwb_input *in, gwb_picture *out);
int gwb_pfm_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);
bool gwb_npy_recognise(const uint8_t *bytes, int64_t size);
int gwb_npy_decode(const gwb_input *in, gwb_picture *out);
int gwb_npy_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);
bool gwb_npz_recognise(const uint8_t *bytes, int64_t size);
int gwb_npz_decode(const gwb_input *in, gwb_picture *out);
bool gwb_y4m_recognise(const uint8_t *bytes, int64_t size);
int gwb_y4m_decode(const gwb_input *in, gwb_picture *out);
int gwb_y4m_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);
int gwb_raw_encode(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);

// The header line of a y4m file, without its line feed: sets sizes, tags and tight planes whose data is an offset from NULL; the sum
// of their bytes goes to out->bytes.
int gwb_y4m_header(const gwb_input *in, const char *line, gwb_picture *out);

// src/codec/gif.c. Frame after frame; the bytes must outlive the reader. gwb_gif_next: as gwb_frames_next.
typedef struct gwb_gif gwb_gif;
int gwb_gif_open(const gwb_input *in, gwb_gif **gif);
int gwb_gif_next(gwb_gif *gif, gwb_picture *out);
void gwb_gif_close(gwb_gif *gif);

// src/codec/frames.c. A reader that owns `file`, which is closed on failure too; `size` is the file's, -1 where it has none; `start` is
// what was read from it already.
int gwb_frames_from(FILE *file, int64_t size, const char *start, const char *name, int64_t frame_bytes,
                    const gwb_read_params *params, gwb_frames **frames);
int gwb_frames_take(gwb_frames *frames, gwb_picture *out);  // the next frame as a picture of its own; closes the reader
int gwb_frames_describe(gwb_frames *frames, gwb_picture *out);      // without pixels, the frames counted where that needs no reading; closes the reader

// src/codec/file.c. *size is -1 for what is no regular file.
int gwb_file_open(const char *path, FILE **file, int64_t *size);
// Adds what follows; closes the file.
int gwb_file_rest(FILE *file, int64_t size, const char *name, int64_t max_bytes, gwb_bytes *bytes);
// A new file beside `path`, whose owner and mode it gets: a descriptor, or a failure that leaves nothing. `target` is what it shall replace, a link
// followed; `part` its name, which ends with `end`. Then it is renamed, or removed where that fails.
int gwb_file_part(const char *path, const char *end, char target[PATH_MAX], char part[PATH_MAX]);
int gwb_file_replace(const char *path, const char *target, char part[PATH_MAX], int sync);

// src/codec/codec.c: opens the optional libraries and fills tables, which a process without rights cannot.
void gwb_codec_prepare(void);

// src/codec/stb.c: the decoders and encoders of stb_image, fenced in.
int gwb_stb_size(const gwb_input *in, int32_t *width, int32_t *height, int32_t *channels);
// out->width and height are checked. `checked`: that the file has all its bytes is known; else it is found out while decoding.
int gwb_stb_decode(const gwb_input *in, gwb_picture *out, int32_t type, bool checked);
int gwb_stb_encode_bmp(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);
int gwb_stb_encode_tga(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);
int gwb_stb_encode_hdr(const gwb_picture *p, const gwb_write_params *params, gwb_bytes *out);

// What a stream comes to.
typedef enum gwb_inflated { GWB_INFLATE_OK, GWB_INFLATE_BAD, GWB_INFLATE_MORE /* than `room` */, GWB_INFLATE_MEMORY } gwb_inflated;
// The component planes of a JPEG as they are coded, 8 bits each.
int gwb_stb_jpeg_planes(const gwb_input *in, gwb_picture *out);

// src/codec/deflate.c
bool gwb_libraries_off(void);
uint32_t gwb_crc(const uint8_t *bytes, int64_t size);       // CRC-32 as PNG and zip have it
// A deflate stream, or zlib's, whose checksum must be right. *made: bytes in `out`; gwb_inflate_own tells them of a damaged stream too.
gwb_inflated gwb_inflate_own(const uint8_t *in, int64_t size, uint8_t *out, int64_t room, bool zlib, int64_t *made);
gwb_inflated gwb_inflate(const uint8_t *in, int64_t size, uint8_t *out, int64_t room, bool zlib, int64_t *made);
int gwb_deflate(const uint8_t *bytes, int64_t size, int level, gwb_bytes *out);         // adds a zlib stream; level 1 to 12
int gwb_deflate_own(const uint8_t *bytes, int64_t size, int level, gwb_bytes *out);     // src/codec/deflate_own.c

// src/codec/turbo.c: libjpeg-turbo's TurboJPEG, where it is there.
bool gwb_turbo_ready(void);
// Into the planes of `out`, which are there: RGB or gray (cmyk: of four components, inverted as Adobe does), or Y, Cb, Cr, whose rows have room for
// whole groups of samples.
int gwb_turbo_decode(const gwb_input *in, gwb_picture *out, int channels, bool cmyk);
int gwb_turbo_planes(const gwb_input *in, gwb_picture *out);
int gwb_turbo_encode(const gwb_picture *p, int quality, int subsampling, gwb_bytes *out);      // gray, RGB, or planes of that subsampling

// src/codec/exif.c: the orientation in an EXIF block (a small TIFF), 0 where it does not say or is damaged.
int gwb_exif_orientation(const uint8_t *bytes, int64_t size);

// src/codec/room.c: the pool of the host device, which keeps memory whose pages are there. All of them return NULL where there is none.
uint8_t *gwb_room_rows(gwb_picture *out, int32_t width, int32_t height, int32_t type, int32_t channels, bool locked);  // rows of the plane's step
uint8_t *gwb_room_block(gwb_picture *out, int64_t bytes);
void gwb_room_free(gwb_picture *picture);
const gwb_mat *gwb_room_mat(const gwb_picture *picture);     // the mat that is the whole picture

// src/codec/picture.c
gwb_read_params gwb_read_defaults(const gwb_read_params *params);   // with the limits filled in; NULL is all defaults
// Fails with "NAME: text".
int gwb_refuse(const gwb_input *in, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
// A fault that strict reading refuses: fails so, or notes the text as the picture's warning and returns 0.
int gwb_doubt(const gwb_input *in, gwb_picture *out, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Refuses sizes below 1, sizes over the limits, and more pixels than the file's bytes can make (`capacity`), before memory is taken.
// `pixel_bytes` is what a pixel needs in memory.
int gwb_check_size(const gwb_input *in, int64_t width, int64_t height, int64_t pixel_bytes, int64_t capacity);
// Memory for rows, one plane; sets the pixel format by type and channels. The sizes are checked. gwb_picture_alloc: tight rows;
// gwb_picture_rows: of a step that is the plane's, in the host device's pool where params.room says so.
int gwb_picture_rows(const gwb_input *in, gwb_picture *out, int32_t width, int32_t height, int32_t type, int32_t channels);
int gwb_picture_alloc(const gwb_input *in, gwb_picture *out, int32_t width, int32_t height, int32_t type, int32_t channels);
void gwb_picture_describe(gwb_picture *out, uint8_t *data, int32_t width, int32_t height, int32_t type, int32_t channels);
const char *gwb_pixel_format(int type, int channels);       // "rgb24"; "" where there is none
// Turns the picture upright as its EXIF orientation says.
int gwb_picture_orient(const gwb_input *in, gwb_picture *p);
int gwb_bytes_add(gwb_bytes *b, const void *data, int64_t size);    // fails once and stays failed: the last call's result tells
uint8_t *gwb_bytes_room(gwb_bytes *b, int64_t size);        // adds `size` bytes to be filled; NULL with the error set
int gwb_bytes_text(gwb_bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline uint16_t gwb_be16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static inline uint16_t gwb_le16(const uint8_t *p) { return (uint16_t)(p[1] << 8 | p[0]); }
static inline uint32_t gwb_be32(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }
static inline uint32_t gwb_le32(const uint8_t *p) { return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0]; }

static inline void gwb_put_be32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

#endif
