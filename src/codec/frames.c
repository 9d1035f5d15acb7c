// SPDX-License-Identifier: MIT
// Frame after frame from a y4m file, an animated GIF or a raw file, also from a pipe.
#include "codec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum { MAX_LINE = 4096 };       // of a header

struct gwb_frames {
    FILE *file;
    char *name;                 // owned; in.name is the same
    gwb_input in;               // no bytes: name and params for messages
    bool raw;
    gwb_gif *gif;               // then there is no `file`
    gwb_bytes bytes;            // the GIF's
    gwb_picture layout;         // each frame's; planes as offsets
    uint8_t *block;             // layout.bytes
    int64_t index;              // the next frame
};

void gwb_frames_close(gwb_frames *frames)
{
    if (!frames) return;
    if (frames->file) fclose(frames->file);
    gwb_gif_close(frames->gif);
    gwb_bytes_free(&frames->bytes);
    free(frames->block);
    free(frames->name);
    free(frames);
}

// Adds to `line` up to a line feed, which is dropped. Returns the length; -1 where the file ends first, or where the line is no text.
static int read_line(FILE *file, char line[MAX_LINE], int length)
{
    for (int c; (c = getc(file)) != '\n'; line[length++] = (char)c) {
        if (c == EOF || c == 0 || length == MAX_LINE - 1) return -1;
    }
    line[length] = 0;
    return length;
}

// Reads up to the frame's pixels. 1; 0 at the end of the file.
static int begin_frame(gwb_frames *f)
{
    int c = getc(f->file);
    if (c == EOF) return ferror(f->file) ? gwb_refuse(&f->in, GWB_IO, "cannot read: %s", strerror(errno)) : 0;
    ungetc(c, f->file);
    if (f->raw) return 1;
    char line[MAX_LINE];
    if (read_line(f->file, line, 0) < 5 || memcmp(line, "FRAME", 5) != 0 || (line[5] && line[5] != ' ')) {
        return gwb_refuse(&f->in, GWB_BAD_FILE, "damaged y4m: frame %" PRId64 " does not begin with a FRAME line", f->index);
    }
    return 1;
}

int gwb_frames_next(gwb_frames *frames, gwb_picture *picture)
{
    gwb_frames *f = frames;
    if (f->gif) {
        *picture = (gwb_picture){0};
        return gwb_gif_next(f->gif, picture);
    }
    int rc = begin_frame(f);
    if (rc <= 0) return rc;
    int64_t got = (int64_t)fread(f->block, 1, (size_t)f->layout.bytes, f->file);
    if (got < f->layout.bytes) {
        if (ferror(f->file)) return gwb_refuse(&f->in, GWB_IO, "cannot read: %s", strerror(errno));
        if (f->in.params.lenient) return 0;
        return gwb_refuse(&f->in, GWB_BAD_FILE,
                          "truncated: frame %" PRId64 " has %" PRId64 " of %" PRId64 " bytes (strict=false stops before it)",
                          f->index, got, f->layout.bytes);
    }
    *picture = f->layout;
    for (int i = 0; i < picture->planes; i++) picture->plane[i].data = f->block + (uintptr_t)picture->plane[i].data;
    if (f->raw) picture->plane[0].data = f->block;
    f->index++;
    return 1;
}

static int skip_to(gwb_frames *f, int64_t frame)
{
    for (; f->index < frame; f->index++) {
        int rc = begin_frame(f);
        if (rc < 0) return rc;
        bool there = rc == 1 && (fseeko(f->file, f->layout.bytes, SEEK_CUR) == 0
                                 || fread(f->block, 1, (size_t)f->layout.bytes, f->file) == (size_t)f->layout.bytes);
        if (!there) break;
    }
    if (f->index == frame) return 0;
    return gwb_refuse(&f->in, GWB_BAD_ARGUMENT, "no frame %" PRId64 "; frames count from 0", frame);
}

static int begin_raw(gwb_frames *f, int64_t size)
{
    int64_t bytes = f->layout.bytes, whole = size / bytes, frame = f->in.params.frame;
    if (size < 0) return 0;
    if (size % bytes && !f->in.params.lenient) {
        return gwb_refuse(&f->in, GWB_BAD_FILE,
                          "%" PRId64 " bytes are no whole number of frames of %" PRId64 " bytes (%" PRId64 " frames and %" PRId64
                          " bytes more): check format, width and height, or name a frame with frame=", size, bytes, whole, size % bytes);
    }
    if (frame >= whole) {
        return gwb_refuse(&f->in, GWB_BAD_ARGUMENT,
                          "no frame %" PRId64 ": %" PRId64 " bytes hold %" PRId64 " frames of %" PRId64 " bytes; frames count from 0",
                          frame, size, whole, bytes);
    }
    return 0;
}

static int begin_y4m(gwb_frames *f, const char *start, int64_t size)
{
    char line[MAX_LINE];
    int length = (int)strlen(start);
    memcpy(line, start, (size_t)length);
    if (length && line[length - 1] == '\n') line[--length] = 0;
    else length = read_line(f->file, line, length);
    if (length < 0) return gwb_refuse(&f->in, GWB_BAD_FILE, "damaged y4m: no header line");
    if (!gwb_y4m_recognise((const uint8_t *)line, length + 1)) {
        return gwb_refuse(&f->in, GWB_BAD_FILE, "not a y4m file; for raw frames give format, width and height");
    }
    int rc = gwb_y4m_header(&f->in, line, &f->layout);
    if (rc < 0) return rc;
    if (size >= 0 && f->layout.bytes > size - length) {
        return gwb_refuse(&f->in, GWB_BAD_FILE, "truncated: a %s frame of %dx%d has %" PRId64 " bytes, the file has %" PRId64,
                          f->layout.format,
                          f->layout.width, f->layout.height, f->layout.bytes, size);
    }
    strcpy(f->layout.kind, "y4m");
    return 0;
}

// A GIF is read whole. Takes f over.
static int begin_gif(gwb_frames *f, int64_t size, const char *start, gwb_frames **frames)
{
    gwb_bytes_add(&f->bytes, start, (int64_t)strlen(start));
    FILE *file = f->file;
    f->file = NULL;
    int rc = gwb_file_rest(file, size, f->name, f->in.params.max_bytes, &f->bytes);
    f->in.bytes = f->bytes.data;
    f->in.size = f->bytes.size;
    if (rc == 0) rc = gwb_gif_open(&f->in, &f->gif);
    gwb_picture passed = {0};
    for (int64_t i = 0; i < f->in.params.frame && rc >= 0; i++) {
        rc = gwb_gif_next(f->gif, &passed);
        if (rc == 0) rc = gwb_refuse(&f->in, GWB_BAD_ARGUMENT, "no frame %" PRId64 "; frames count from 0", f->in.params.frame);
    }
    if (rc >= 0) *frames = f;
    else gwb_frames_close(f);
    return rc < 0 ? rc : 0;
}

int gwb_frames_from(FILE *file, int64_t size, const char *start, const char *name, int64_t frame_bytes,
                    const gwb_read_params *params, gwb_frames **frames)
{
    *frames = NULL;
    gwb_frames *f = calloc(1, sizeof *f);
    if (!f) {
        fclose(file);
        return gwb_fail(GWB_OUT_OF_MEMORY, "%s: no memory to read it", name);
    }
    f->file = file;
    f->name = strdup(name);
    f->raw = frame_bytes > 0;
    f->layout.bytes = frame_bytes;
    f->in = (gwb_input){.size = size, .name = f->name ? f->name : "", .params = gwb_read_defaults(params)};
    if (!f->raw && gwb_gif_recognise((const uint8_t *)start, (int64_t)strlen(start))) return begin_gif(f, size, start, frames);
    int rc = f->raw ? begin_raw(f, size) : begin_y4m(f, start, size);
    if (rc == 0) {
        f->block = f->layout.bytes <= f->in.params.max_bytes ? malloc((size_t)f->layout.bytes) : NULL;
        if (!f->block) rc = gwb_refuse(&f->in, GWB_OUT_OF_MEMORY, "no memory for a frame of %" PRId64 " bytes", f->layout.bytes);
    }
    if (rc == 0) rc = skip_to(f, f->in.params.frame);
    if (rc == 0) *frames = f;
    else gwb_frames_close(f);
    return rc;
}

int gwb_frames_open(const char *path, int64_t frame_bytes, const gwb_read_params *params, gwb_frames **frames)
{
    FILE *file = NULL;
    int64_t size = -1;
    *frames = NULL;
    int rc = gwb_file_open(path, &file, &size);
    if (rc < 0) return rc;
    char start[7] = "";
    if (frame_bytes <= 0) start[fread(start, 1, 6, file)] = 0;
    return gwb_frames_from(file, size, start, path, frame_bytes, params, frames);
}

int gwb_frames_known(const char *path)
{
    FILE *file = NULL;
    int64_t size = -1;
    uint8_t start[10];
    int rc = gwb_file_open(path, &file, &size);
    if (rc < 0) return rc;
    // What is no regular file cannot be looked at twice.
    int64_t got = size < 0 ? 0 : (int64_t)fread(start, 1, sizeof start, file);
    int known = size < 0 || gwb_y4m_recognise(start, got) || gwb_gif_recognise(start, got);
    fclose(file);
    return known;
}

int gwb_frames_take(gwb_frames *frames, gwb_picture *out)
{
    int rc = gwb_frames_next(frames, out);
    if (rc == 1) {
        out->memory = frames->block;
        frames->block = NULL;
        rc = 0;
    } else if (rc == 0) {
        rc = gwb_refuse(&frames->in, frames->index ? GWB_BAD_ARGUMENT : GWB_BAD_FILE,
                        "no whole frame %" PRId64 "; frames count from 0", frames->index);
    }
    gwb_frames_close(frames);
    return rc;
}

int gwb_frames_describe(gwb_frames *frames, gwb_picture *out)
{
    gwb_frames *f = frames;
    *out = f->layout;
    for (int i = 0; i < out->planes; i++) out->plane[i].data = NULL;
    int rc = 0;
    int64_t end = f->in.size;
    for (out->frames = 0; end >= 0; out->frames++) {
        rc = begin_frame(f);
        if (rc <= 0 || fseeko(f->file, f->layout.bytes, SEEK_CUR) != 0 || ftello(f->file) > end) break;
    }
    if (end < 0) out->frames = -1;
    gwb_frames_close(f);
    return rc < 0 ? rc : 0;
}
