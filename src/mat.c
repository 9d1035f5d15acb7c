// SPDX-License-Identifier: MIT
// Mats and their views, validation included.
#include "mat.h"

#include "stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VERSION "0.1.0"

static const struct { const char *name; int size; } types[GWB_TYPES] = {
    [GWB_U8] = {"u8", 1}, [GWB_I8] = {"i8", 1}, [GWB_U16] = {"u16", 2}, [GWB_I16] = {"i16", 2}, [GWB_U32] = {"u32", 4},
    [GWB_I32] = {"i32", 4}, [GWB_F16] = {"f16", 2}, [GWB_F32] = {"f32", 4}, [GWB_F64] = {"f64", 8},
};

const char *gwb_version(void)
{
    return VERSION;
}

const char *gwb_type_name(int type)
{
    return type >= 0 && type < GWB_TYPES ? types[type].name : NULL;
}

int gwb_type_size(int type)
{
    return type >= 0 && type < GWB_TYPES ? types[type].size : 0;
}

int64_t gwb_abi_size(const char *type)
{
#define SIZE(name) if (strcmp(type, #name) == 0) return (int64_t)sizeof(name)
    SIZE(gwb_mat);
    SIZE(gwb_stream);
    SIZE(gwb_event);
    SIZE(gwb_view);
    SIZE(gwb_image);
    SIZE(gwb_component);
    SIZE(gwb_format_info);
    SIZE(gwb_plane_info);
    SIZE(gwb_convert_params);
    SIZE(gwb_mat_params);
    SIZE(gwb_wrap_params);
    SIZE(gwb_array);
    SIZE(gwb_dl_tensor);
    SIZE(gwb_dl_managed);
    SIZE(gwb_dl_versioned);
    SIZE(gwb_stream_params);
    SIZE(gwb_device_info);
    SIZE(gwb_memory);
    SIZE(gwb_copy2d_params);
    SIZE(gwb_copy_side);
    SIZE(gwb_copy_report);
    SIZE(gwb_kernel_params);
    SIZE(gwb_kernel_function);
    SIZE(gwb_arg);
    SIZE(gwb_kernel_call);
    SIZE(gwb_pipe_step);
    SIZE(gwb_pipe_plan);
    SIZE(gwb_bytes);
    SIZE(gwb_plane);
    SIZE(gwb_picture);
    SIZE(gwb_loader_params);
    SIZE(gwb_decoder_params);
    SIZE(gwb_decoder_info);
    SIZE(gwb_nvjpeg);
    SIZE(gwb_read_params);
    SIZE(gwb_write_params);
#undef SIZE
    return -1;
}

// ---- checks

int gwb_mat_check(const gwb_mat *m, const char *what)
{
    if (!m)
        return gwb_fail(GWB_BAD_ARGUMENT, "%s is missing; wanted a mat", what);
    if (m->tag == 0)
        return gwb_fail(GWB_CLOSED, "%s is closed", what);
    if (m->tag != GWB_MAT_TAG)
        return gwb_fail(GWB_BAD_ARGUMENT, "%s is no mat", what);
    if (gwb_check_fork() < 0)
        return GWB_NO_DEVICE;
    if (m->buf && m->buf->lost)
        return gwb_fail(GWB_CLOSED, "%s was lost when %s was reset; make a new one", what, m->buf->dev->info.name);
    return 0;
}

int gwb_mat_check_writable(const gwb_mat *m, const char *what)
{
    int rc = gwb_mat_check(m, what);
    if (rc >= 0 && m->flags & GWB_MAT_READONLY)
        return gwb_fail(GWB_READ_ONLY, "%s is read-only; write to a clone()", what);
    return rc;
}

static int check_shape(int64_t width, int64_t height, int type, int channels)
{
    if (width < 0 || height < 0 || width > INT32_MAX || height > INT32_MAX)
        return gwb_fail(GWB_BAD_ARGUMENT, "a size of %" PRId64 "x%" PRId64 "; wanted 0..2147483647 each way", width, height);
    if (!gwb_type_size(type))
        return gwb_fail(GWB_BAD_ARGUMENT, "element type %d; wanted 0..%d", type, GWB_TYPES - 1);
    if (channels < 1 || channels > GWB_MAX_CHANNELS)
        return gwb_fail(GWB_BAD_ARGUMENT, "%d channels; wanted 1..%d", channels, GWB_MAX_CHANNELS);
    return 0;
}

const char *gwb_mat_text(const gwb_mat *m, char text[96])
{
    char channels[16] = "";
    if (m->channels > 1)
        snprintf(channels, sizeof channels, "x%d", m->channels);
    snprintf(text, 96, "%dx%d %s%s, step %" PRId64, m->width, m->height, gwb_type_name(m->type), channels, m->step);
    return text;
}

// ---- making and closing

// Fills *m; takes over the caller's reference to `b`, NULL for an empty mat.
static void fill_mat(gwb_mat *m, gwb_buf *b, gwb_device *dev, uint8_t *data, int64_t step, int32_t width, int32_t height, int type, int channels,
                     uint32_t flags)
{
    *m = (gwb_mat){.tag = GWB_MAT_TAG, .flags = flags, .width = width, .height = height, .type = type, .channels = channels,
                   .elem_size = types[type].size * channels, .device = dev->position, .step = step, .buf = b,
                   .data = width && height ? data : NULL};
    if (b)
        b->view[b->views++ % GWB_BUF_VIEWS] = gwb_mat_footprint(m);
}

int gwb_mat_measure(int device, int32_t width, int32_t height, int type, int channels, const gwb_mat_params *params,
                    int64_t *step, int64_t *bytes)
{
    static const gwb_mat_params plain;
    if (!params)
        params = &plain;
    int rc = check_shape(width, height, type, channels);
    if (rc < 0)
        return rc;
    gwb_device *dev = gwb_device_at(device);
    if (!dev)
        return GWB_NO_DEVICE;
    if (params->align < 0 || params->align > 1 << 20 || (params->align & (params->align - 1)))
        return gwb_fail(GWB_BAD_ARGUMENT, "an alignment of %d bytes; wanted a power of two up to 1048576", params->align);
    if (params->packed && params->align)
        return gwb_fail(GWB_BAD_ARGUMENT, "packed and align exclude each other; give one of them");
    if (params->pinned && device != 0)
        return gwb_fail(GWB_BAD_ARGUMENT, "page-locked memory belongs to the host device, not to %s", dev->info.name);
    // 256 bytes: what the driver's own pitched allocation gives, and whole sectors for 16-byte loads; the host: a cache line
    int64_t align = params->packed ? 1 : params->align ? params->align : dev->info.cuda ? 256 : 64;
    *step = ((int64_t)width * types[type].size * channels + align - 1) / align * align;
    if (__builtin_mul_overflow(*step, (int64_t)height, bytes))
        return gwb_fail(GWB_OUT_OF_MEMORY, "%s: a mat of %dx%d %s x %d does not fit any memory", dev->info.name, width, height,
                        types[type].name, channels);
    return 0;
}

int gwb_mat_create(gwb_mat *m, int device, int32_t width, int32_t height, int type, int channels, const gwb_mat_params *params)
{
    int64_t step = 0, bytes = 0;
    int rc = gwb_mat_measure(device, width, height, type, channels, params, &step, &bytes);
    if (rc < 0)
        return rc;
    const bool pinned = params && params->pinned;
    gwb_device *dev = gwb_device_at(device);
    gwb_lock();
    gwb_buf *b = NULL;
    if (bytes > 0)
        rc = gwb_buf_create(&b, dev, bytes, pinned, dev->default_queue);
    if (rc >= 0)
        fill_mat(m, b, dev, b ? b->base : NULL, step, width, height, type, channels, pinned ? GWB_MAT_PINNED : 0);
    gwb_unlock();
    return rc;
}

// The step in bytes, or a failure; *bytes of all rows.
static int check_wrap(const gwb_wrap_params *p, int64_t *step, int64_t *bytes)
{
    int rc = check_shape(p->width, p->height, p->type, p->channels);
    if (rc < 0)
        return rc;
    int64_t row = (int64_t)p->width * types[p->type].size * p->channels;
    *step = p->step ? p->step : row;
    if (*step < row)
        return gwb_fail(GWB_BAD_ARGUMENT, "step %" PRId64 " is less than a row of %" PRId64 " bytes (%d pixels of %s x %d); steps are in bytes",
                        *step, row, p->width, types[p->type].name, p->channels);
    if (__builtin_mul_overflow(*step, (int64_t)p->height, bytes))
        return gwb_fail(GWB_BAD_ARGUMENT, "step %" PRId64 " times %d rows is more than any memory", *step, p->height);
    const bool empty = p->width == 0 || p->height == 0;
    if (!p->ptr && !empty)
        return gwb_fail(GWB_BAD_ARGUMENT, "ptr is NULL; wanted the address of %d rows", p->height);
    if ((uintptr_t)p->ptr % (uintptr_t)types[p->type].size || *step % types[p->type].size)
        return gwb_fail(GWB_BAD_ARGUMENT, "ptr %p and step %" PRId64 " must be multiples of the %d bytes of %s", p->ptr, *step,
                        types[p->type].size, types[p->type].name);
    *bytes = empty ? 0 : *bytes - *step + row;
    return 0;
}

// A mat over `extent` bytes of foreign memory that lies on `dev`; no bytes: an empty one.
static int adopt(gwb_mat *m, const gwb_wrap_params *p, gwb_device *dev, int64_t step, int64_t extent, bool pinned, gwb_owner owner)
{
    int rc = 0;
    gwb_lock();
    // memory that mats show already keeps one record of who uses it, or work on it could not be ordered
    gwb_buf *b = extent ? gwb_buf_find(p->ptr, dev->position) : NULL;
    if (b && (uint8_t *)p->ptr + extent <= b->base + b->bytes)
        gwb_buf_retain(b);
    else
        b = extent ? gwb_buf_take_up(p->ptr, extent, dev->position) : NULL;
    if (b) {
        rc = owner.key || owner.drop ? gwb_buf_add_owner(b, owner) : 0;
        if (rc < 0)
            gwb_buf_release(b);
    } else {
        rc = gwb_buf_wrap(&b, dev, p->ptr, extent, owner, pinned);
    }
    if (rc >= 0)
        fill_mat(m, b, dev, p->ptr, step, p->width, p->height, p->type, p->channels,
                 (b->flags & (GWB_MAT_PINNED | GWB_MAT_FOREIGN)) | (p->readonly ? GWB_MAT_READONLY : 0));
    gwb_unlock();
    return rc;
}

int gwb_mat_wrap_owned(gwb_mat *m, const gwb_wrap_params *p, int64_t whole, gwb_owner owner)
{
    int64_t step = 0, known = 0, extent = 0;
    int rc = check_wrap(p, &step, &extent), space = GWB_SPACE_PAGEABLE;
    if (rc < 0)
        return rc;
    const bool empty = p->width == 0 || p->height == 0;
    const uint8_t *first = NULL;
    extent = extent > whole ? extent : whole;
    if (!empty && gwb_device_count() > 1 && gwb_cuda_pointer(p->ptr, &space, &first, &known) == 1 &&
        extent > known - ((const uint8_t *)p->ptr - first))
        return gwb_fail(GWB_BAD_ARGUMENT, "%d rows of step %" PRId64 " need %" PRId64 " bytes; the allocation holds %" PRId64 " from ptr on",
                        p->height, step, extent, known - (int64_t)((const uint8_t *)p->ptr - first));
    int device = space >= 0 ? space : 0;
    if (p->device >= 0 && p->device != device && !empty) {
        gwb_device *said = gwb_device_at(p->device), *found = gwb_device_at(device);
        return gwb_fail(GWB_BAD_ARGUMENT, "ptr %p is memory of %s, not of %s", p->ptr, found ? found->info.name : "?", said ? said->info.name : "?");
    }
    gwb_device *dev = gwb_device_at(empty && p->device >= 0 ? p->device : device);
    return dev ? adopt(m, p, dev, step, empty ? 0 : extent, space == GWB_SPACE_PINNED, owner) : GWB_NO_DEVICE;
}

int gwb_mat_wrap_known(gwb_mat *m, const gwb_wrap_params *p, gwb_owner owner)
{
    int64_t step = 0, extent = 0;
    int rc = check_wrap(p, &step, &extent);
    gwb_device *dev = rc < 0 ? NULL : gwb_device_at(p->device);
    return rc < 0 ? rc : dev ? adopt(m, p, dev, step, extent, false, owner) : GWB_NO_DEVICE;
}

int gwb_mat_wrap(gwb_mat *m, const gwb_wrap_params *p)
{
    return gwb_mat_wrap_owned(m, p, 0, (gwb_owner){.key = p->owner});
}

static void make_view(gwb_mat *m, const gwb_mat *parent, int64_t offset, int64_t step, int32_t width, int32_t height, int type, int channels)
{
    gwb_lock();
    if (parent->buf)
        gwb_buf_retain(parent->buf);
    fill_mat(m, parent->buf, gwb_device_at(parent->device), parent->data ? parent->data + offset : NULL, step, width, height, type, channels,
             parent->flags | GWB_MAT_VIEW);
    gwb_unlock();
}

void gwb_mat_shift(gwb_mat *m, const gwb_mat *parent, int64_t offset)
{
    make_view(m, parent, offset, parent->step, parent->width, parent->height, parent->type, parent->channels);
}

int gwb_mat_view(gwb_mat *m, const gwb_mat *parent, int32_t x, int32_t y, int32_t width, int32_t height)
{
    int rc = gwb_mat_check(parent, "mat");
    if (rc < 0)
        return rc;
    if (x < 0 || y < 0 || width < 0 || height < 0 || (int64_t)x + width > parent->width || (int64_t)y + height > parent->height)
        return gwb_fail(GWB_BAD_ARGUMENT, "a region of %dx%d at (%d, %d) leaves the mat of %dx%d", width, height, x, y, parent->width, parent->height);
    make_view(m, parent, width && height ? y * parent->step + (int64_t)x * parent->elem_size : 0, parent->step, width, height, parent->type,
              parent->channels);
    return 0;
}

int gwb_mat_reshape(gwb_mat *m, const gwb_mat *parent, int32_t width, int32_t height, int type, int channels)
{
    int rc = gwb_mat_check(parent, "mat");
    if (rc >= 0)
        rc = check_shape(width, height, type, channels);
    if (rc < 0)
        return rc;
    char text[96];
    if (!gwb_mat_contiguous(parent))
        return gwb_fail(GWB_SHAPE, "the mat is not contiguous (%s): its rows have gaps, so no other shape shows the same bytes; reshape packed()",
                        gwb_mat_text(parent, text));
    int64_t row = (int64_t)width * types[type].size * channels, have = gwb_mat_row_bytes(parent) * parent->height, want;
    if (__builtin_mul_overflow(row, (int64_t)height, &want) || want != have)
        return gwb_fail(GWB_SHAPE, "%dx%d of %d bytes a pixel do not hold the %" PRId64 " bytes of the mat (%s)", width, height,
                        types[type].size * channels, have, gwb_mat_text(parent, text));
    if ((uintptr_t)parent->data % (uintptr_t)types[type].size)
        return gwb_fail(GWB_SHAPE, "the mat's address %p is no multiple of the %d bytes of %s", (void *)parent->data, types[type].size, types[type].name);
    make_view(m, parent, 0, row, width, height, type, channels);
    return 0;
}

int gwb_mat_slice(gwb_mat *m, const gwb_mat *parent, int64_t offset, int64_t step, int32_t width, int32_t height, int type, int channels)
{
    int rc = gwb_mat_check(parent, "mat");
    if (rc >= 0)
        rc = check_shape(width, height, type, channels);
    if (rc < 0)
        return rc;
    int64_t row = (int64_t)width * types[type].size * channels, have = gwb_mat_bytes(parent), body, need;
    if (step < row)
        return gwb_fail(GWB_BAD_ARGUMENT, "step %" PRId64 " is less than a row of %" PRId64 " bytes", step, row);
    bool over = __builtin_mul_overflow(step, (int64_t)(height > 0 ? height - 1 : 0), &body) || __builtin_add_overflow(body, row, &need) ||
                __builtin_add_overflow(need, offset, &need);
    if (width && height && (over || offset < 0 || need > have))
        return gwb_fail(GWB_SHAPE, "%d rows of step %" PRId64 " from byte %" PRId64 " on leave the mat's %" PRId64 " bytes", height, step, offset, have);
    if (width && height && ((uintptr_t)(parent->data + offset) % (uintptr_t)types[type].size || step % types[type].size))
        return gwb_fail(GWB_SHAPE, "offset %" PRId64 " and step %" PRId64 " must keep the %d-byte alignment of %s", offset, step, types[type].size,
                        types[type].name);
    make_view(m, parent, width && height ? offset : 0, step, width, height, type, channels);
    return 0;
}

void gwb_mat_close(gwb_mat *m)
{
    if (!m || m->tag != GWB_MAT_TAG)
        return;
    gwb_lock();
    gwb_buf *b = m->buf;
    *m = (gwb_mat){0};
    if (b)
        gwb_buf_release(b);
    gwb_unlock();
}

void gwb_mat_lent(const gwb_mat *m)
{
    if (!m || m->tag != GWB_MAT_TAG || !m->buf)
        return;
    gwb_lock();
    gwb_buf_lent(m->buf);
    gwb_unlock();
}

// ---- facts

int gwb_mat_contiguous(const gwb_mat *m)
{
    return m->step == gwb_mat_row_bytes(m) || m->height <= 1 || m->width == 0;
}

int64_t gwb_mat_bytes(const gwb_mat *m)
{
    return gwb_mat_empty(m) ? 0 : (m->height - 1) * m->step + gwb_mat_row_bytes(m);
}

int64_t gwb_mat_offset(const gwb_mat *m)
{
    return m->buf && m->data ? m->data - m->buf->base : 0;
}

int64_t gwb_mat_buffer_bytes(const gwb_mat *m)
{
    return m->buf ? m->buf->bytes : 0;
}

int gwb_mat_same(const gwb_mat *a, const gwb_mat *b)
{
    return a->tag == b->tag && a->buf == b->buf && a->data == b->data && a->width == b->width && a->height == b->height && a->type == b->type &&
           a->channels == b->channels && a->step == b->step && a->device == b->device;
}

int64_t gwb_mat_shared(const gwb_mat *a, const gwb_mat *b)
{
    return a->buf && a->buf == b->buf ? gwb_footprint_shared(gwb_mat_footprint(a), gwb_mat_footprint(b)) : 0;
}

gwb_footprint gwb_mat_footprint(const gwb_mat *m)
{
    return (gwb_footprint){gwb_mat_offset(m), m->step, gwb_mat_row_bytes(m), m->width ? m->height : 0};
}

gwb_view gwb_mat_to_view(const gwb_mat *m)
{
    return (gwb_view){m->data, m->step, m->width, m->height};
}

int gwb_mat_wait(const gwb_mat *m, int for_write)
{
    int rc = gwb_mat_check(m, "mat");
    if (rc < 0 || !m->buf)
        return rc;
    gwb_lock();
    rc = gwb_buf_wait(m->buf, for_write != 0);
    gwb_unlock();
    return rc;
}

int gwb_mat_pending(const gwb_mat *m)
{
    if (gwb_mat_check(m, "mat") < 0 || !m->buf)
        return 0;
    gwb_lock();
    int pending = !gwb_buf_idle(m->buf);
    gwb_unlock();
    return pending;
}

int gwb_mat_declare(const gwb_mat *frame, int format, int32_t width, int32_t height)
{
    int rc = gwb_mat_check(frame, "frame");
    if (rc < 0 || !frame->buf)
        return rc;
    gwb_lock();
    frame->buf->frame_format = format;
    frame->buf->frame_width = width;
    frame->buf->frame_height = height;
    frame->buf->frame_first = gwb_mat_offset(frame);
    gwb_unlock();
    return 0;
}
