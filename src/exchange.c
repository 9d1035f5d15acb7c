// SPDX-License-Identifier: MIT
// Memory handed to other libraries and taken from them: DLPack's structs, and arrays that are described by shape and strides.
#include "mat.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

// Offsets and sizes as every other library's compiler sees them.
_Static_assert(sizeof(gwb_dl_tensor) == 48 && offsetof(gwb_dl_tensor, dtype) == 20 && offsetof(gwb_dl_tensor, strides) == 32, "DLTensor");
_Static_assert(sizeof(gwb_dl_managed) == 64 && offsetof(gwb_dl_managed, deleter) == 56, "DLManagedTensor");
_Static_assert(sizeof(gwb_dl_versioned) == 80 && offsetof(gwb_dl_versioned, flags) == 24 && offsetof(gwb_dl_versioned, dl_tensor) == 32,
               "DLManagedTensorVersioned");

enum { DL_MAJOR = 1, DL_MINOR = 1, DL_READ_ONLY = 1, MOST_DIMENSIONS = 3 };
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_INT, DL_UINT, DL_FLOAT };

static const gwb_dl_type types[GWB_TYPES] = {
    [GWB_U8] = {DL_UINT, 8, 1}, [GWB_I8] = {DL_INT, 8, 1}, [GWB_U16] = {DL_UINT, 16, 1}, [GWB_I16] = {DL_INT, 16, 1}, [GWB_U32] = {DL_UINT, 32, 1},
    [GWB_I32] = {DL_INT, 32, 1}, [GWB_F16] = {DL_FLOAT, 16, 1}, [GWB_F32] = {DL_FLOAT, 32, 1}, [GWB_F64] = {DL_FLOAT, 64, 1},
};

// Keeps the code of a function in memory from here on: a script may let go of a library (ffi.load) before its tensors are deleted, and a process of
// gpuwb's module before those that it gave out are.
static void pin(uintptr_t function)
{
    Dl_info info;
    const bool found = function && dladdr((void *)function, &info) && info.dli_fname;
    void *library = found ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : NULL;
    if (library)
        dlclose(library);
}

// ---- out

int gwb_mat_dl_device(const gwb_mat *m, gwb_dl_device *device)
{
    int rc = gwb_mat_check(m, "mat"), space = GWB_SPACE_PAGEABLE;
    const uint8_t *first;
    int64_t bytes;
    if (rc < 0)
        return rc;
    if (m->data)
        gwb_cuda_pointer(m->data, &space, &first, &bytes);
    if (m->data && gwb_cuda_managed(m->data))
        *device = (gwb_dl_device){DL_CUDA_MANAGED, 0};
    else if (space >= 0)
        *device = (gwb_dl_device){DL_CUDA, space - 1};
    else if (m->device > 0)     // without a pixel there is no pointer to ask about
        *device = (gwb_dl_device){DL_CUDA, m->device - 1};
    else
        *device = (gwb_dl_device){space == GWB_SPACE_PINNED ? DL_CUDA_HOST : DL_CPU, 0};
    return 0;
}

// A tensor given out: what its consumer sees, and the reference to the buffer that it holds.
typedef struct tensor {
    gwb_later later;            // first, so that gwb_buf_release_later frees all of it
    union { gwb_dl_managed plain; gwb_dl_versioned versioned; } dl;
    int64_t shape[MOST_DIMENSIONS], strides[MOST_DIMENSIONS];
} tensor;

// The consumer's thread may hold locks of its own, or be the driver's: nothing is done here but to note it.
static void release(tensor *t, bool lent)
{
    t->later.lent = lent;
    gwb_buf_release_later(&t->later);
}

static void delete_plain(gwb_dl_managed *self)
{
    if (self)
        release(self->manager_ctx, true);
}

static void delete_versioned(gwb_dl_versioned *self)
{
    if (self)
        release(self->manager_ctx, true);
}

// Sets the even distance of planes in bytes, or says why they are no tensor.
static int check_planes(const gwb_mat *const *planes, int count, int64_t *distance)
{
    const gwb_mat *first = planes[0];
    *distance = first->step * first->height;
    for (int i = 0; i < count; i++) {
        const gwb_mat *m = planes[i];
        if (m->channels != 1 || m->type != first->type || m->width != first->width || m->height != first->height || m->step != first->step)
            return gwb_fail(GWB_SHAPE, "plane %d is %dx%d %s x %d with step %" PRId64 ", plane 1 is %dx%d %s x %d with step %" PRId64
                            "; one tensor of planes wants them alike, with one channel", i + 1, m->width, m->height, gwb_type_name(m->type), m->channels,
                            m->step, first->width, first->height, gwb_type_name(first->type), first->channels, first->step);
        if (m->buf != first->buf)
            return gwb_fail(GWB_SHAPE, "plane %d lies in another allocation than plane 1, and a tensor has one; make the planes in one mat, as "
                            "gpu.mat(w, %d * h, ...):planes(...) does, or export them one by one", i + 1, count);
        if (i == 1 && m->data)
            *distance = m->data - first->data;
        if (m->data && (*distance <= 0 || m->data - first->data != i * *distance))
            return gwb_fail(GWB_SHAPE, "plane %d begins %" PRId64 " bytes from plane 1, where even distances want %" PRId64 " and more than 0; a "
                            "tensor's planes lie one behind the other, so copy them, or export them one by one", i + 1,
                            (int64_t)(m->data - first->data), i * *distance);
    }
    return 0;
}

int gwb_dlpack_export(void **managed, const gwb_mat *const *planes, int count, int versioned)
{
    *managed = NULL;
    if (count < 1 || count > GWB_MAX_PLANES)
        return gwb_fail(GWB_BAD_ARGUMENT, "%d planes; wanted 1..%d", count, GWB_MAX_PLANES);
    bool readonly = false;
    for (int i = 0; i < count; i++) {
        int rc = gwb_mat_check(planes[i], "mat");
        if (rc < 0)
            return rc;
        readonly = readonly || planes[i]->flags & GWB_MAT_READONLY;
    }
    const gwb_mat *m = planes[0];
    const int size = gwb_type_size(m->type);
    if (readonly && !versioned)
        return gwb_fail(GWB_READ_ONLY, "the mat is read-only, which DLManagedTensor cannot say; export {versioned = true}, or a clone()");
    int64_t distance = 0;
    int rc = count > 1 ? check_planes(planes, count, &distance) : 0;
    if (rc < 0)
        return rc;
    if (m->step % size || distance % size)
        return gwb_fail(GWB_SHAPE, "%s of %" PRId64 " bytes is no multiple of the %d bytes of %s, and DLPack counts strides in elements; export packed()",
                        m->step % size ? "a step" : "a distance of planes", m->step % size ? m->step : distance, size, gwb_type_name(m->type));
    tensor *t = calloc(1, sizeof *t);
    if (!t)
        return gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    gwb_dl_tensor dl = {.data = m->data, .dtype = types[m->type], .shape = t->shape, .strides = t->strides};
    rc = gwb_mat_dl_device(m, &dl.device);
    if (rc < 0) {
        free(t);
        return rc;
    }
    if (count > 1) {
        t->shape[dl.ndim] = count;
        t->strides[dl.ndim++] = distance / size;
    }
    t->shape[dl.ndim] = m->height;
    t->strides[dl.ndim++] = m->step / size;
    t->shape[dl.ndim] = m->width;
    t->strides[dl.ndim++] = m->channels;
    if (m->channels > 1) {
        t->shape[dl.ndim] = m->channels;
        t->strides[dl.ndim++] = 1;
    }
    if (versioned)
        t->dl.versioned = (gwb_dl_versioned){{DL_MAJOR, DL_MINOR}, t, delete_versioned, readonly ? DL_READ_ONLY : 0, dl};
    else
        t->dl.plain = (gwb_dl_managed){dl, t, delete_plain};
    t->later.buf = m->buf;
    pin((uintptr_t)delete_versioned);
    gwb_lock();
    if (m->buf)
        gwb_buf_retain(m->buf);
    gwb_unlock();
    *managed = &t->dl;
    return 0;
}

// ---- in

// A stride as its library counts it: in elements for DLPack (unit: bytes of one), else in bytes.
static int bad_stride(int dimension, const gwb_array *a, int64_t wanted, const char *more, int size, int unit)
{
    const char *count = unit > 1 ? "elements" : "bytes";
    return gwb_fail(GWB_SHAPE, "dimension %d of %" PRId64 " has a stride of %" PRId64 " %s; wanted %" PRId64 "%s (elements have %d bytes): a mat's "
                    "rows run forward and its pixels lie tight, so make the array contiguous first", dimension, a->shape[dimension], a->strides[dimension] / unit,
                    count, wanted / unit, more, size);
}

// *count is the number of mats made; where that is 0 the owner is the caller's still.
static int wrap_array(gwb_mat *const *mats, int *count, const gwb_array *a, int unit, gwb_owner owner)
{
    *count = 0;
    const int size = gwb_type_size(a->type);
    if (!size)
        return gwb_fail(GWB_BAD_ARGUMENT, "element type %d; wanted 0..%d", a->type, GWB_TYPES - 1);
    if (a->ndim < 1 || a->ndim > MOST_DIMENSIONS || (a->planar && a->ndim != 3))
        return gwb_fail(GWB_SHAPE, "the array has %d dimensions; wanted %s", a->ndim, a->planar ? "3: planes, height, width"
                        : "1 (width), 2 (height, width) or 3 (height, width, channels)");
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] < 0 || a->shape[i] > INT32_MAX)
            return gwb_fail(GWB_SHAPE, "dimension %d has %" PRId64 " elements; wanted 0..2147483647", i, a->shape[i]);
    // Which dimension counts what; -1: none does.
    const int outer = a->planar ? 0 : -1, y = a->planar ? 1 : a->ndim > 1 ? 0 : -1, x = y + 1, inner = a->ndim == 3 && !a->planar ? 2 : -1;
    const int64_t channels = inner < 0 ? 1 : a->shape[inner], planes = outer < 0 ? 1 : a->shape[outer];
    const int64_t width = a->shape[x], height = y < 0 ? 1 : a->shape[y];
    if (channels < 1 || channels > GWB_MAX_CHANNELS)
        return gwb_fail(GWB_SHAPE, "dimension 2 has %" PRId64 " channels; wanted 1..%d (height, width, channels); for planes x height x width say "
                        "layout = \"chw\"", channels, GWB_MAX_CHANNELS);
    if (planes < 1 || planes > GWB_MAX_PLANES)
        return gwb_fail(GWB_SHAPE, "dimension 0 has %" PRId64 " planes; wanted 1..%d (planes, height, width)", planes, GWB_MAX_PLANES);
    const bool empty = width == 0 || height == 0;
    int64_t row = width * size * channels, step = row, distance, whole;
    // An extent of 1 makes its stride meaningless.
    if (!a->compact && !empty) {
        if (inner >= 0 && channels > 1 && a->strides[inner] != size)
            return bad_stride(inner, a, size, "", size, unit);
        if (width > 1 && a->strides[x] != size * channels)
            return bad_stride(x, a, size * channels, "", size, unit);
        if (height > 1 && a->strides[y] < row)
            return bad_stride(y, a, row, " or more", size, unit);
        if (height > 1 && a->strides[y] % size)
            return gwb_fail(GWB_SHAPE, "dimension %d has a stride of %" PRId64 " bytes; wanted a multiple of the %d bytes of an element", y,
                            a->strides[y], size);
        step = height > 1 ? a->strides[y] : row;
    }
    if (__builtin_mul_overflow(step, height, &distance))
        return gwb_fail(GWB_SHAPE, "%" PRId64 " rows of %" PRId64 " bytes are more than any memory", height, step);
    if (!a->compact && !empty && planes > 1) {
        if (a->strides[outer] < 1 || a->strides[outer] % size)
            return bad_stride(outer, a, distance, ", or another positive multiple of the element", size, unit);
        distance = a->strides[outer];
    }
    int64_t last, end;
    if (__builtin_mul_overflow(distance, planes - 1, &last) || __builtin_add_overflow(last, step * height, &end))
        return gwb_fail(GWB_SHAPE, "%" PRId64 " planes at distances of %" PRId64 " bytes are more than any memory", planes, distance);
    whole = empty ? 0 : last + (height - 1) * step + row;
    if (!empty && !a->ptr)
        return gwb_fail(GWB_BAD_ARGUMENT, "the array's pointer is NULL, and its shape says that it has elements");
    const gwb_wrap_params p = {.ptr = empty ? NULL : a->ptr, .step = empty ? 0 : step, .width = (int32_t)width, .height = (int32_t)height,
                               .type = a->type, .channels = (int32_t)channels, .device = a->device, .readonly = a->readonly};
    int rc = gwb_mat_wrap_owned(mats[0], &p, whole, owner);
    for (int i = 1; i < planes && rc >= 0; i++)
        gwb_mat_shift(mats[i], mats[0], i * distance);
    *count = rc < 0 ? 0 : (int)planes;
    return rc;
}

int gwb_array_wrap(gwb_mat *const *mats, int *count, const gwb_array *array)
{
    return wrap_array(mats, count, array, 1, (gwb_owner){.key = array->owner});
}

int gwb_array_wrap_owned(gwb_mat *const *mats, int *count, const gwb_array *array, void (*drop)(void *arg), void *arg)
{
    return wrap_array(mats, count, array, 1, (gwb_owner){.drop = drop, .arg = arg});
}

void gwb_dlpack_delete(void *managed, int versioned)
{
    gwb_dl_managed *plain = managed;
    gwb_dl_versioned *new = managed;
    if (managed && versioned && new->deleter == delete_versioned)    // nobody but gpuwb has seen it
        release(new->manager_ctx, false);
    else if (managed && !versioned && plain->deleter == delete_plain)
        release(plain->manager_ctx, false);
    else if (managed && versioned && new->deleter)
        new->deleter(new);
    else if (managed && !versioned && plain->deleter)
        plain->deleter(plain);
}

static void drop_plain(void *managed)
{
    gwb_dlpack_delete(managed, 0);
}

static void drop_versioned(void *managed)
{
    gwb_dlpack_delete(managed, 1);
}

static int read_type(gwb_dl_type t, int *type)
{
    static const char *const names[] = {"int", "uint", "float", "opaque handle", "bfloat", "complex", "bool"};
    for (*type = 0; *type < GWB_TYPES; ++*type)
        if (types[*type].code == t.code && types[*type].bits == t.bits && t.lanes == 1)
            return 0;
    return gwb_fail(GWB_UNSUPPORTED, "dtype code %u (%s), %u bits, %u lanes is no element type of a mat; wanted int or uint of 8, 16 or 32 bits, or "
                    "float of 16, 32 or 64 bits, with 1 lane%s", t.code, t.code < sizeof names / sizeof *names ? names[t.code] : "unknown", t.bits, t.lanes,
                    t.code == 6 ? "; view it as uint8" : "");
}

// Sets the position in the list of devices, or -1 where the driver is to say it.
static int read_device(gwb_dl_device d, int *device)
{
    *device = d.device_type == DL_CUDA ? d.device_id + 1 : d.device_type == DL_CUDA_MANAGED ? -1 : 0;
    if (d.device_type == DL_CPU)
        return 0;
    if (d.device_type != DL_CUDA && d.device_type != DL_CUDA_HOST && d.device_type != DL_CUDA_MANAGED)
        return gwb_fail(GWB_UNSUPPORTED, "device type %d is not one of 1 (host memory), 2 (CUDA), 3 (page-locked) and 13 (managed); copy the tensor to "
                        "one of these first", d.device_type);
    if (gwb_device_count() < 2 || (d.device_type == DL_CUDA && (d.device_id < 0 || *device >= gwb_device_count())))
        return gwb_fail(GWB_NO_DEVICE, "the tensor lies on device type %d number %d, and there are %d cuda devices here%s%s", d.device_type, d.device_id,
                        gwb_device_count() - 1, gwb_cuda_absent() ? ": " : "", gwb_cuda_absent() ? gwb_cuda_absent() : "");
    return 0;
}

static int read_tensor(gwb_mat *const *mats, int *count, const gwb_dl_tensor *t, bool readonly, int planar, gwb_owner owner)
{
    gwb_array a = {.ndim = t->ndim, .compact = !t->strides, .readonly = readonly, .planar = planar};
    int rc = read_type(t->dtype, &a.type);
    if (rc >= 0)
        rc = read_device(t->device, &a.device);
    if (rc < 0)
        return rc;
    if (t->data && __builtin_add_overflow((uintptr_t)t->data, t->byte_offset, (uintptr_t *)&a.ptr))
        return gwb_fail(GWB_BAD_ARGUMENT, "byte_offset %" PRIu64 " leads from %p past the end of memory", t->byte_offset, t->data);
    const int size = gwb_type_size(a.type);
    for (int i = 0; i < t->ndim && t->ndim <= MOST_DIMENSIONS; i++) {
        if (!t->shape)
            return gwb_fail(GWB_BAD_ARGUMENT, "the tensor has %d dimensions and no shape", t->ndim);
        a.shape[i] = t->shape[i];
        if (t->strides && __builtin_mul_overflow(t->strides[i], (int64_t)size, &a.strides[i])) {
            if (t->shape[i] > 1)
                return gwb_fail(GWB_SHAPE, "dimension %d has a stride of %" PRId64 " elements, more than any memory", i, t->strides[i]);
            a.strides[i] = 0;
        }
    }
    return wrap_array(mats, count, &a, size, owner);
}

int gwb_dlpack_import(gwb_mat *const *mats, int *count, void *managed, int versioned, int planar)
{
    *count = 0;
    if (!managed)
        return gwb_fail(GWB_BAD_ARGUMENT, "the tensor is a NULL pointer");
    const gwb_dl_managed *plain = managed;
    const gwb_dl_versioned *new = managed;
    int rc;
    if (versioned && new->version.major != DL_MAJOR)    // the rest may lie anywhere
        rc = gwb_fail(GWB_UNSUPPORTED, "the tensor is of DLPack %u.%u, and gpuwb reads %d.x; ask its library for max_version=(1, 0)", new->version.major,
                      new->version.minor, DL_MAJOR);
    else if (versioned)
        rc = read_tensor(mats, count, &new->dl_tensor, new->flags & DL_READ_ONLY, planar, (gwb_owner){.drop = drop_versioned, .arg = managed});
    else
        rc = read_tensor(mats, count, &plain->dl_tensor, false, planar, (gwb_owner){.drop = drop_plain, .arg = managed});
    if (rc < 0)
        gwb_dlpack_delete(managed, versioned);
    else
        pin(versioned ? (uintptr_t)new->deleter : (uintptr_t)plain->deleter);
    return rc;
}
