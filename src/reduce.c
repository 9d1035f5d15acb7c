// SPDX-License-Identifier: MIT
// Sums, extremes and counts of a mat's channels: the device gives a number for each tile, which are joined here in order.
#include "copy.h"
#include "stream.h"
#include "trace.h"

#include "list.h"
#include "reduce.h"

#include <stdlib.h>

enum { RUN = 1024, ROWS = 8, MOST_TILES = 4096 };     // pixels and rows of a tile, tiles each way: tiles grow where there would be more

static int32_t tile_size(int32_t size, int32_t least)
{
    int64_t wanted = ((int64_t)size + MOST_TILES - 1) / MOST_TILES;
    return (int32_t)(wanted <= least ? least : (wanted + GWB_REDUCE_LANES - 1) / GWB_REDUCE_LANES * GWB_REDUCE_LANES);
}

static int launch(const gwb_mat *m, const gwb_mat *tiles, gwb_reduce_args *args, const gwb_stream *stream)
{
    args->out = (double *)(void *)tiles->data;
    const int64_t pixels = (int64_t)m->width * args->rows;
    const gwb_launch l = {.kernel = GWB_KERNEL_reduce, .args = args, .args_size = sizeof *args, .nx = (int32_t)(pixels < INT32_MAX ? pixels : INT32_MAX),
                          .ny = args->tiles_y, .nz = m->channels};
    gwb_op op;
    int rc = gwb_op_begin(&op, m->device, stream);
    if (rc < 0)
        return rc;
    gwb_op_read(&op, m);
    gwb_op_write(&op, tiles);
    gwb_trace_launch(&op, &l);
    rc = gwb_op_ready(&op);
    if (rc >= 0)
        rc = op.queue->dev->ops->launch(op.queue, &l);
    return gwb_op_end(&op, rc);
}

int gwb_reduce(const gwb_mat *m, int what, double *out, const gwb_stream *stream)
{
    int rc = gwb_mat_check(m, "mat");
    if (rc < 0)
        return rc;
    if (what < 0 || what >= GWB_REDUCTIONS)
        return gwb_fail(GWB_BAD_ARGUMENT, "reduction %d; wanted 0..%d", what, GWB_REDUCTIONS - 1);
    for (int c = 0; c < m->channels; c++)
        out[c] = gwb_reduce_start(what);
    if (gwb_mat_empty(m))
        return 0;
    gwb_reduce_args args = {.src = gwb_mat_to_view(m), .type = m->type, .channels = m->channels, .what = what, .run = tile_size(m->width, RUN),
                            .rows = tile_size(m->height, ROWS)};
    args.tiles_x = (m->width - 1) / args.run + 1;
    args.tiles_y = (m->height - 1) / args.rows + 1;
    const int64_t count = (int64_t)args.tiles_x * args.tiles_y;
    const gwb_mat_params packed = {.packed = 1};
    gwb_mat tiles;
    rc = gwb_mat_create(&tiles, m->device, args.tiles_x, args.tiles_y * m->channels, GWB_F64, 1, &packed);
    if (rc < 0)
        return rc;
    double *numbers = malloc((size_t)count * (size_t)m->channels * sizeof *numbers);
    rc = numbers ? launch(m, &tiles, &args, stream) : gwb_fail(GWB_OUT_OF_MEMORY, "out of host memory");
    if (rc >= 0)
        rc = gwb_download(numbers, 0, &tiles, stream);
    for (int c = 0; c < m->channels && rc >= 0; c++)
        for (int64_t i = 0; i < count; i++)
            out[c] = gwb_reduce_join(what, out[c], numbers[c * count + i]);
    free(numbers);
    gwb_mat_close(&tiles);
    return rc;
}
