// SPDX-License-Identifier: MIT
// Copies: one side of a raw 2D copy made plain, for issuing it and for checking it.
#ifndef GWB_COPY_H
#define GWB_COPY_H

#include "mat.h"

// Where a side of a raw 2D copy begins and what memory that is.
typedef struct gwb_side {
    uint8_t *data;          // first byte touched
    int64_t step;           // bytes
    gwb_buf *buf;           // the allocation, NULL where gpuwb does not know it
    int space;              // a device's position, GWB_SPACE_PINNED or GWB_SPACE_PAGEABLE
    const gwb_mat *mat;     // the mat that was given, or NULL
} gwb_side;

// Validates the copy as the driver would, and the extents against the allocations. 1: there is something to copy, 0: nothing is touched.
// Under gwb_lock.
int gwb_copy2d_sides(const gwb_copy2d_params *c, gwb_side *dst, gwb_side *src);

// Remembers a packed raw copy for rule P3. Under gwb_lock.
void gwb_copy2d_track(const gwb_side *side, int64_t width, int64_t rows);

#endif
