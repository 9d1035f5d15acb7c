// SPDX-License-Identifier: MIT
// Which bytes rows with a step touch, and how many of them two such patterns share.
#include "buf.h"

int64_t gwb_footprint_end(gwb_footprint f)
{
    return f.width > 0 && f.rows > 0 ? f.first + (f.rows - 1) * f.step + f.width : f.first;
}

// Bytes of [0, n) of rows of `width` every `step` bytes.
static int64_t covered(int64_t n, int64_t step, int64_t width, int64_t rows)
{
    if (n <= 0)
        return 0;
    int64_t full = n / step;
    if (full >= rows)
        return rows * width;
    int64_t part = n - full * step;
    return full * width + (part < width ? part : width);
}

int64_t gwb_footprint_shared(gwb_footprint a, gwb_footprint b)
{
    if (a.rows > b.rows) {
        gwb_footprint swap = a;
        a = b, b = swap;
    }
    if (a.width <= 0 || a.rows <= 0 || b.width <= 0 || b.rows <= 0 || a.first >= gwb_footprint_end(b) || b.first >= gwb_footprint_end(a))
        return 0;
    int64_t shared = 0;
    for (int64_t r = 0; r < a.rows; r++) {
        int64_t from = a.first + r * a.step - b.first;
        shared += covered(from + a.width, b.step, b.width, b.rows) - covered(from, b.step, b.width, b.rows);
    }
    return shared;
}
