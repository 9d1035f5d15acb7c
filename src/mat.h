// SPDX-License-Identifier: MIT
// Mats and their views, validation included.
#ifndef GWB_MAT_H
#define GWB_MAT_H

#include "buf.h"

// GWB_OK where `m` is a live mat whose fields agree with each other, else a failure that calls it `what`.
int gwb_mat_check(const gwb_mat *m, const char *what);
// The same, and that operations may write to it.
int gwb_mat_check_writable(const gwb_mat *m, const char *what);

static inline int64_t gwb_mat_row_bytes(const gwb_mat *m)
{
    return (int64_t)m->width * m->elem_size;
}

static inline bool gwb_mat_empty(const gwb_mat *m)
{
    return m->width == 0 || m->height == 0;
}

// Step and size in bytes that gwb_mat_create gives such a mat, after its checks; opens the device.
int gwb_mat_measure(int device, int32_t width, int32_t height, int type, int channels, const gwb_mat_params *params, int64_t *step, int64_t *bytes);
// gwb_mat_wrap with an owner of any kind, for memory of which `whole` bytes from ptr on come with it (0: what the mat shows). Where `owner` has a drop,
// that is called when neither this mat nor work on it uses the memory any more; after a failure it is the caller's still.
int gwb_mat_wrap_owned(gwb_mat *m, const gwb_wrap_params *p, int64_t whole, gwb_owner owner);

// The same for memory that lies on p->device for certain, whatever the driver knows of it: a decoder's.
int gwb_mat_wrap_known(gwb_mat *m, const gwb_wrap_params *p, gwb_owner owner);

// A view of the parent's shape and step, `offset` bytes behind it in the same buffer, where the caller knows that it lies.
void gwb_mat_shift(gwb_mat *m, const gwb_mat *parent, int64_t offset);

gwb_footprint gwb_mat_footprint(const gwb_mat *m);  // of its bytes in its buffer
gwb_view gwb_mat_to_view(const gwb_mat *m);
// "64x32 u8x3, step 192": into `text`, which is returned.
const char *gwb_mat_text(const gwb_mat *m, char text[96]);

#endif
