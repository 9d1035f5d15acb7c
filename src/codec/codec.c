// SPDX-License-Identifier: MIT
// The table of file formats, and the two doors: bytes to a picture, a picture to bytes.
#include "codec.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TYPE(t) (1u << GWB_##t)
#define CHANNELS(a, b, c, d) ((a) << 1 | (b) << 2 | (c) << 3 | (d) << 4)

// In the order of recognition: TGA, which has no mark of its own, is the last.
static const gwb_codec codecs[] = {
    {"png", "png", gwb_png_recognise, gwb_png_decode, gwb_png_encode, TYPE(U8) | TYPE(U16), CHANNELS(1, 1, 1, 1)},
    {"jpg", "jpg jpeg jpe jfif", gwb_jpg_recognise, gwb_jpg_decode, gwb_jpg_encode, TYPE(U8), CHANNELS(1, 0, 1, 0)},
    {"bmp", "bmp dib", gwb_bmp_recognise, gwb_bmp_decode, gwb_stb_encode_bmp, TYPE(U8), CHANNELS(1, 0, 1, 1)},
    {"gif", "gif", gwb_gif_recognise, gwb_gif_decode, NULL, 0, 0},
    {"psd", "psd", gwb_psd_recognise, gwb_psd_decode, NULL, 0, 0},
    {"hdr", "hdr rgbe", gwb_hdr_recognise, gwb_hdr_decode, gwb_stb_encode_hdr, TYPE(F32), CHANNELS(1, 0, 1, 0)},
    {"qoi", "qoi", gwb_qoi_recognise, gwb_qoi_decode, gwb_qoi_encode, TYPE(U8), CHANNELS(0, 0, 1, 1)},
    {"pnm", "pnm pgm ppm pam pbm", gwb_pnm_recognise, gwb_pnm_decode, gwb_pnm_encode, TYPE(U8) | TYPE(U16), CHANNELS(1, 1, 1, 1)},
    {"pfm", "pfm", gwb_pfm_recognise, gwb_pfm_decode, gwb_pfm_encode, TYPE(F32), CHANNELS(1, 0, 1, 0)},
    {"npy", "npy", gwb_npy_recognise, gwb_npy_decode, gwb_npy_encode, 0, 0},
    {"npz", "npz", gwb_npz_recognise, gwb_npz_decode, NULL, 0, 0},
    {"y4m", "y4m", gwb_y4m_recognise, gwb_y4m_decode, gwb_y4m_encode, 0, 0},
    {"yuv", "yuv raw", NULL, NULL, gwb_raw_encode, 0, 0},
    {"tga", "tga", gwb_tga_recognise, gwb_tga_decode, gwb_stb_encode_tga, TYPE(U8), CHANNELS(1, 1, 1, 1)},
};
enum { CODECS = sizeof codecs / sizeof codecs[0] };

const char *gwb_file_kinds(int writing)
{
    return writing ? "png jpg bmp tga hdr qoi pnm pfm npy y4m yuv" : "png jpg bmp tga gif psd hdr qoi pnm pfm npy npz y4m";
}

static const gwb_codec *find_codec(const char *extension)
{
    size_t length = strlen(extension);
    for (int i = 0; i < CODECS && length > 0; i++) {
        for (const char *word = codecs[i].extensions; *word; word += strspn(word, " ")) {
            size_t n = strcspn(word, " ");
            if (n == length && strncasecmp(word, extension, n) == 0) return &codecs[i];
            word += n;
        }
    }
    return NULL;
}

const char *gwb_file_kind(const char *extension)
{
    const gwb_codec *codec = find_codec(extension);
    return codec ? codec->name : NULL;
}

// Files that people try and that are not read, by the bytes at their start or behind the first four.
static const struct { int at; const char *mark, *name; } others[] = {
    {0, "II*", "a TIFF file"}, {0, "MM", "a TIFF file"}, {8, "WEBP", "a WebP file"}, {4, "ftypavif", "an AVIF file"},
    {4, "ftyphei", "a HEIC file"}, {4, "ftypmif1", "a HEIF file"}, {0, "v/1\1", "an OpenEXR file"}, {4, "JXL ", "a JPEG XL file"},
    {0, "\xff\x0a", "a JPEG XL file"}, {4, "jP  ", "a JPEG 2000 file"}, {4, "ftyp", "an MP4 or QuickTime video, which gpu.frames reads"},
    {0, "\x1a\x45\xdf\xa3", "a Matroska or WebM video, which gpu.frames reads"},
    {8, "AVI ", "an AVI video, which gpu.frames reads"}, {0, "DDS ", "a DDS texture"}, {0, "PK\3\4", "a zip archive, and no npz"}, {0, "%PDF", "a PDF file"},
    {0, "<svg", "an SVG drawing"}, {0, "<?xml", "an XML file"}, {0, "<!", "an HTML page"}, {0, "\x1f\x8b", "a gzip file"},
};

static int unknown(const gwb_input *in)
{
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        int64_t length = (int64_t)strlen(others[i].mark);
        if (in->size >= others[i].at + length && memcmp(in->bytes + others[i].at, others[i].mark, (size_t)length) == 0) {
            return gwb_refuse(in, GWB_UNSUPPORTED, "%s; read are %s", others[i].name, gwb_file_kinds(0));
        }
    }
    char start[32] = "";
    for (int i = 0; i < 8 && i < in->size; i++) snprintf(start + 3 * i, 4, " %02x", in->bytes[i]);
    return gwb_refuse(in, GWB_BAD_FILE,
                      "no picture that is known here (it begins with the bytes%s); read are %s; raw frames want their format and size "
                      "(gpu.load_raw)", start, gwb_file_kinds(0));
}

void gwb_codec_prepare(void)
{
    gwb_codec_library("png");
    gwb_codec_library("jpg");
}

int gwb_decode(const void *bytes, int64_t size, const char *name, const gwb_read_params *params, gwb_picture *picture)
{
    *picture = (gwb_picture){0};
    gwb_input in = {bytes, size, name ? name : "picture", gwb_read_defaults(params)};
    if (size <= 0) return gwb_refuse(&in, GWB_BAD_FILE, "it is empty");
    const gwb_codec *codec = NULL;
    for (int i = 0; i < CODECS && !codec; i++) {
        if (codecs[i].recognise && codecs[i].recognise(bytes, size)) codec = &codecs[i];
    }
    if (!codec) return unknown(&in);
    if (in.params.frame != 0 && codec->decode != gwb_y4m_decode && codec->decode != gwb_gif_decode) {
        return gwb_refuse(&in, GWB_BAD_ARGUMENT, "frame %lld of a %s file, which has one picture", (long long)in.params.frame,
                          codec->name);
    }
    int rc = codec->decode(&in, picture);
    if (rc == 0 && !in.params.as_stored && !in.params.native) rc = gwb_picture_orient(&in, picture);
    if (rc < 0) gwb_picture_free(picture);
    else strcpy(picture->kind, codec->name);
    if (!picture->depth && picture->planes) picture->depth = 8 * gwb_type_size(picture->plane[0].type);
    if (!picture->frames) picture->frames = 1;
    return rc;
}

int gwb_load(const char *path, const gwb_read_params *params, gwb_picture *picture)
{
    FILE *file = NULL;
    int64_t size = -1;
    *picture = (gwb_picture){0};
    int rc = gwb_file_open(path, &file, &size);
    if (rc < 0) return rc;
    // A video may be larger than memory: of a y4m only the frame is read.
    char start[11] = "";
    size_t got = fread(start, 1, 10, file);
    if (gwb_y4m_recognise((const uint8_t *)start, (int64_t)got)) {
        gwb_frames *frames;
        rc = gwb_frames_from(file, size, start, path, 0, params, &frames);
        if (rc == 0) rc = params && params->header_only ? gwb_frames_describe(frames, picture) : gwb_frames_take(frames, picture);
        return rc;
    }
    gwb_bytes bytes = {0};
    gwb_bytes_add(&bytes, start, (int64_t)got);
    rc = gwb_file_rest(file, size, path, gwb_read_defaults(params).max_bytes, &bytes);
    if (rc == 0) rc = gwb_decode(bytes.data, bytes.size, path, params, picture);
    gwb_bytes_free(&bytes);
    return rc;
}

// "u8 or u16 with 1, 3 or 4 channels"
static const char *describe(const gwb_codec *codec, char text[96])
{
    int used = 0;
    const char *between = "";
    for (int t = 0; t < GWB_TYPES; t++) {
        if (!(codec->types >> t & 1)) continue;
        used += snprintf(text + used, 96 - (size_t)used, "%s%s", between, gwb_type_name(t));
        between = " or ";
    }
    between = " with ";
    for (int n = 1; n <= 4; n++) {
        if (!(codec->channels >> n & 1)) continue;
        used += snprintf(text + used, 96 - (size_t)used, "%s%d", between, n);
        between = ", ";
    }
    snprintf(text + used, 96 - (size_t)used, " channels");
    return text;
}

static int check(const gwb_picture *p, const gwb_codec *codec)
{
    char can[96];
    const gwb_plane *plane = &p->plane[0];
    if (p->planes > 1 && codec->encode != gwb_jpg_encode) {
        return gwb_fail(GWB_UNSUPPORTED,
                        "%s holds no separate planes, as %s has them: convert first, as in image:convert(\"rgb24\", {matrix=...})",
                        codec->name, p->format);
    }
    if (p->planes == 1 && (!(codec->types >> plane->type & 1) || !(codec->channels >> plane->channels & 1))) {
        return gwb_fail(GWB_UNSUPPORTED, "%s holds %s; this is %s with %d", codec->name, describe(codec, can),
                        gwb_type_name(plane->type), plane->channels);
    }
    return 0;
}

// Alpha blended over the background, in whole numbers, rounded. The result has one channel less.
static int flatten(const gwb_picture *p, const gwb_write_params *params, gwb_picture *flat)
{
    const gwb_plane *from = &p->plane[0];
    const gwb_input in = {.name = "background"};
    int n = from->channels - 1, max = from->type == GWB_U8 ? 255 : 65535;
    *flat = *p;
    flat->memory = NULL;
    flat->room = NULL;
    flat->mapped = 0;
    int rc = gwb_picture_alloc(&in, flat, from->width, from->height, from->type, n);
    for (int c = 0; c < n && rc == 0; c++) {
        if (params->background[c] < 0 || params->background[c] > max) {
            rc = gwb_fail(GWB_BAD_ARGUMENT, "background=%d: want 0 to %d", params->background[c], max);
        }
    }
    for (int32_t y = 0; y < from->height && rc == 0; y++) {
        const uint8_t *row = from->data + y * from->step;
        uint8_t *to = flat->plane[0].data + y * flat->plane[0].step;
        for (int32_t x = 0; x < from->width; x++) {
            for (int c = 0; c < n; c++) {
                int64_t i = (int64_t)x * (n + 1), o = (int64_t)x * n + c;
                int64_t value = from->type == GWB_U8 ? row[i + c] : ((const uint16_t *)(const void *)row)[i + c];
                int64_t alpha = from->type == GWB_U8 ? row[i + n] : ((const uint16_t *)(const void *)row)[i + n];
                int64_t mixed = (value * alpha + params->background[c] * (max - alpha) + max / 2) / max;
                if (from->type == GWB_U8) to[o] = (uint8_t)mixed;
                else ((uint16_t *)(void *)to)[o] = (uint16_t)mixed;
            }
        }
    }
    return rc;
}

// Fills in the defaults, and refuses what no format takes.
static int check_writing(const gwb_picture *picture, gwb_write_params *p)
{
    if (p->quality < 0 || p->quality > 100) return gwb_fail(GWB_BAD_ARGUMENT, "quality %d: want 1 to 100", p->quality);
    if (p->level < 0 || p->level > 12) return gwb_fail(GWB_BAD_ARGUMENT, "level %d: want 1 to 12", p->level);
    if (p->rate[0] < 0 || p->rate[1] < 0) return gwb_fail(GWB_BAD_ARGUMENT, "rate %d:%d: want positive numbers", p->rate[0], p->rate[1]);
    if (!p->quality) p->quality = 90;
    if (!p->level) p->level = 4;
    if (!p->rate[0] || !p->rate[1]) {
        p->rate[0] = 25;
        p->rate[1] = 1;
    }
    if (picture->planes < 1 || picture->planes > GWB_MAX_PLANES) {
        return gwb_fail(GWB_BAD_ARGUMENT, "a picture of %d planes", picture->planes);
    }
    for (int i = 0; i < picture->planes; i++) {
        const gwb_plane *plane = &picture->plane[i];
        if (plane->width < 1 || plane->height < 1) {
            return gwb_fail(GWB_SHAPE, "%dx%d pixels: there is nothing to write", plane->width, plane->height);
        }
        if (!gwb_type_size(plane->type) || plane->channels < 1 || plane->channels > 4 || !plane->data) {
            return gwb_fail(GWB_BAD_ARGUMENT, "plane %d is no plane", i + 1);
        }
    }
    return 0;
}

// Whether the format would take the picture, were it not for its alpha.
static bool has_alpha_too_many(const gwb_picture *p, const gwb_codec *codec)
{
    int channels = p->plane[0].channels;
    return p->planes == 1 && (channels == 2 || channels == 4) && codec->types >> p->plane[0].type & 1
        && !(codec->channels >> channels & 1) && codec->channels >> (channels - 1) & 1;
}

int gwb_encode(const gwb_picture *picture, const char *kind, const gwb_write_params *params, gwb_bytes *bytes)
{
    const gwb_codec *codec = find_codec(kind);
    if (!codec || !codec->encode) {
        return gwb_fail(GWB_UNSUPPORTED, "%s%s is no format that is written; written are %s", kind, *kind ? "" : "an empty name",
                        gwb_file_kinds(1));
    }
    gwb_write_params p = params ? *params : (gwb_write_params){0};
    int rc = check_writing(picture, &p);
    if (rc < 0) return rc;
    gwb_picture flat = {0};
    if (has_alpha_too_many(picture, codec)) {
        if (!p.flatten) {
            return gwb_fail(GWB_UNSUPPORTED, "%s holds no alpha: drop it, or name what shines through with background=", codec->name);
        }
        rc = picture->plane[0].type <= GWB_U16
            ? flatten(picture, &p, &flat)
            : gwb_fail(GWB_UNSUPPORTED, "background= is for u8 and u16: convert first (image:convert takes background= too)");
        picture = &flat;
    }
    if (rc == 0 && codec->types) rc = check(picture, codec);
    if (rc == 0) rc = codec->encode(picture, &p, bytes);
    flat.icc = NULL;    // the given picture's
    gwb_picture_free(&flat);
    return rc == 0 && bytes->capacity < 0 ? GWB_OUT_OF_MEMORY : rc;
}
