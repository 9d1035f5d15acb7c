// SPDX-License-Identifier: MIT
// Conversions between pixel formats: the tags settled, the door, and the launch.
#include "convert.h"
#include "stream.h"
#include "trace.h"

#include "list.h"

int gwb_convert_model(const gwb_image *image)
{
    int model = gwb_format_get(image->format)->model;
    return model == GWB_MODEL_BAYER || (model == GWB_MODEL_YUV && image->matrix == GWB_MATRIX_GBR) ? GWB_MODEL_RGB : model;
}

static void inherit(int32_t *tag, int32_t from)
{
    if (!*tag)
        *tag = from;
}

static int fail_unknown(const gwb_image *dst, const gwb_image *src, bool matrix, bool range, const char *whose)
{
    return gwb_fail(GWB_BAD_ARGUMENT, "%s to %s needs the %s of the %s, which nobody gave: say %s%s%s, as options or as the image's tags",
        gwb_format_get(src->format)->name, gwb_format_get(dst->format)->name, matrix && range ? "matrix and range" : matrix ? "matrix" : "range", whose,
        matrix ? "matrix = \"bt601\", \"bt709\", \"bt2020nc\", \"smpte240m\", \"fcc\" or \"ycgco\"" : "", matrix && range ? " and " : "",
        range ? "range = \"limited\" or \"full\"" : "");
}

int gwb_convert_settle(gwb_image *dst, gwb_image *src, const gwb_convert_params *params)
{
    int rc = gwb_image_check_tags(dst, "the destination");
    if (!rc)
        rc = gwb_image_check_tags(src, "the source");
    if (rc)
        return rc;
    const gwb_format_info *fd = gwb_format_get(dst->format), *fs = gwb_format_get(src->format);
    const bool dst_yuv = fd->model == GWB_MODEL_YUV, src_yuv = fs->model == GWB_MODEL_YUV;
    const bool dst_sub = fd->log2_w || fd->log2_h, src_sub = fs->log2_w || fs->log2_h;
    if (fd->model == GWB_MODEL_BAYER)
        return gwb_fail(GWB_UNSUPPORTED, "%s is a mosaic of one colour a pixel: it is converted from, not to", fd->name);
    if (!src_yuv && src->matrix == GWB_MATRIX_GBR)      // says nothing there
        src->matrix = GWB_MATRIX_UNKNOWN;
    if (!dst_yuv && dst->matrix == GWB_MATRIX_GBR)
        dst->matrix = GWB_MATRIX_UNKNOWN;

    if (src_yuv && dst_yuv && !(src->matrix == GWB_MATRIX_GBR && dst_sub))
        inherit(&dst->matrix, src->matrix);
    const int to = gwb_convert_model(dst), from = gwb_convert_model(src);
    if (from == GWB_MODEL_YUV && !dst_yuv)
        inherit(&src->matrix, dst->matrix);
    if (!src_yuv)
        inherit(&dst->matrix, src->matrix);
    if (src_yuv && dst_yuv)
        inherit(&dst->range, src->range);
    if (!src_yuv)
        inherit(&src->range, GWB_RANGE_FULL);
    if (!dst_yuv)
        inherit(&dst->range, GWB_RANGE_FULL);

    inherit(&dst->transfer, src->transfer);
    inherit(&dst->primaries, src->primaries);
    rc = gwb_convert_light_settle(dst, src, params);
    if (rc)
        return rc;
    const bool by_rgb = params->color == 1 && gwb_convert_light_differs(dst, src);      // whatever the formats are
    const bool same = !by_rgb && from == GWB_MODEL_YUV && to == GWB_MODEL_YUV && src->matrix == dst->matrix;
    const bool keeps_codes = !src->range && !dst->range && fs->depth == fd->depth && !by_rgb &&
        (same || (from == to && src_yuv && dst_yuv));
    const bool no_src_matrix = from == GWB_MODEL_YUV && !src->matrix && 
        (by_rgb || to == GWB_MODEL_RGB || (to == GWB_MODEL_YUV && !same));
    const bool no_dst_matrix = (from == GWB_MODEL_RGB || (by_rgb && from == GWB_MODEL_YUV)) && to != GWB_MODEL_RGB && !dst->matrix;
    const bool no_src_range = !src->range && !keeps_codes, no_dst_range = !dst->range && !keeps_codes;
    if (no_src_matrix || no_src_range)
        return fail_unknown(dst, src, no_src_matrix, no_src_range, "source");
    if (no_dst_matrix || no_dst_range)
        return fail_unknown(dst, src, no_dst_matrix, no_dst_range, "destination");

    if (src->matrix != GWB_MATRIX_GBR)
        inherit(&dst->matrix, src->matrix);
    if (dst_sub)
        inherit(&dst->siting, src_sub && src->siting ? src->siting : GWB_SITING_LEFT);
    return 0;
}

static const gwb_convert_params defaults;

int gwb_convert_tags(gwb_image *dst, const gwb_image *src, const gwb_convert_params *params)
{
    if (!dst || !src)
        return gwb_fail(GWB_BAD_ARGUMENT, "two images are wanted");
    gwb_image to = *dst, from = *src;
    int rc = gwb_convert_settle(&to, &from, params ? params : &defaults);
    if (!rc)
        *dst = to;
    return rc;
}

static int check_overlap(const gwb_image *dst, const gwb_image *src)
{
    for (int i = 0; i < dst->planes; i++) {
        const gwb_mat *d = dst->plane[i];
        for (int j = 0; j < src->planes; j++)
            if (d->buf == src->plane[j]->buf && gwb_footprint_shared(gwb_mat_footprint(d), gwb_mat_footprint(src->plane[j])) > 0)
                return gwb_fail(GWB_BAD_ARGUMENT, "plane %d of the destination overlaps plane %d of the source: convert into memory of its own", i + 1,
                    j + 1);
        for (int j = 0; j < i; j++)
            if (d->buf == dst->plane[j]->buf && gwb_footprint_shared(gwb_mat_footprint(d), gwb_mat_footprint(dst->plane[j])) > 0)
                return gwb_fail(GWB_BAD_ARGUMENT, "planes %d and %d of the destination overlap", j + 1, i + 1);
    }
    return 0;
}

// Items of w x h pixels over a part of the picture.
static int launch(gwb_op *op, int kernel, const gwb_convert_args *args, int w, int h, int64_t width, int64_t height)
{
    const int64_t rows = (height + h - 1) / h;
    gwb_launch launch = {
        .kernel = kernel, .args = args, .args_size = sizeof *args, .nx = (int32_t)((width + w - 1) / w), .ny = (int32_t)(rows < GWB_BAND ? rows : GWB_BAND),
        .nz = (int32_t)((rows + GWB_BAND - 1) / GWB_BAND),
    };
    return op->queue->dev->ops->launch(op->queue, &launch);
}

// Whole tiles, and what sticks out at the right and at the lower edge by the general kernel.
static int launch_tiles(gwb_op *op, gwb_convert_args *args)
{
    const int width = args->width / args->tile_w * args->tile_w, height = args->height / GWB_TILE_H * GWB_TILE_H;
    int rc = 0, launches = 0;
    if (width && height)
        rc = launch(op, GWB_KERNEL_convert_tile, args, args->tile_w, GWB_TILE_H, width, height), launches++;
    if (rc >= 0 && width < args->width) {
        if (launches++)
            gwb_op_again(op);
        args->first_x = width / args->block_w;
        rc = launch(op, GWB_KERNEL_convert, args, args->block_w, args->block_h, args->width - width, args->height);
    }
    if (rc >= 0 && height < args->height && width) {
        if (launches++)
            gwb_op_again(op);
        args->first_x = 0;
        args->first_y = height / args->block_h;
        rc = launch(op, GWB_KERNEL_convert, args, args->block_w, args->block_h, width, args->height - height);
    }
    return rc;
}

int gwb_convert(const gwb_image *dst, const gwb_image *src, const gwb_convert_params *params, const gwb_stream *stream)
{
    params = params ? params : &defaults;
    int rc = gwb_image_check_as(dst, "the destination");
    if (!rc)
        rc = gwb_image_check_as(src, "the source");
    for (int i = 0; !rc && i < dst->planes; i++)
        rc = gwb_mat_check_writable(dst->plane[i], "a plane of the destination");
    if (rc)
        return rc;
    if (dst->width != src->width || dst->height != src->height)
        return gwb_fail(GWB_SHAPE, "the destination is %d x %d pixels and the source %d x %d: a conversion keeps the size", dst->width, dst->height,
            src->width, src->height);
    if (dst->plane[0]->device != src->plane[0]->device)
        return gwb_fail(GWB_BAD_ARGUMENT, "the destination is on device %d and the source on device %d: copy one of them first", dst->plane[0]->device,
            src->plane[0]->device);
    gwb_image to = *dst, from = *src;
    gwb_convert_args args;
    rc = gwb_convert_settle(&to, &from, params);
    if (!rc)
        rc = gwb_convert_plan(&args, &to, &from, params);
    if (!rc)
        rc = check_overlap(dst, src);
    if (rc || dst->width == 0 || dst->height == 0)
        return rc;
    if (params->kernel == 2 && !args.src_shape)
        return gwb_fail(GWB_UNSUPPORTED, "%s to %s with these addresses, sitings and options is not done in tiles", gwb_format_get(src->format)->name,
            gwb_format_get(dst->format)->name);

    gwb_op op;
    rc = gwb_op_begin(&op, dst->plane[0]->device, stream);
    if (rc)
        return rc;
    for (int i = 0; i < src->planes; i++)
        gwb_op_read(&op, src->plane[i]);
    for (int i = 0; i < dst->planes; i++)
        gwb_op_write(&op, dst->plane[i]);
    gwb_trace_note(&op, "kernel", "convert", "\"from\":\"%s\",\"to\":\"%s\",\"width\":%d,\"height\":%d,\"bytes_read\":%lld,\"bytes_written\":%lld",
        gwb_format_get(src->format)->name, gwb_format_get(dst->format)->name, dst->width, dst->height, (long long)op.bytes_read,
        (long long)op.bytes_written);
    rc = gwb_op_ready(&op);
    const bool tiles = args.src_shape && args.dst_shape && (params->kernel == 2 || (params->kernel == 0 && op.queue->dev->info.cuda));
    if (!rc)
        rc = tiles && op.queue->dev->info.cuda ? launch_tiles(&op, &args) : launch(&op, tiles ? GWB_KERNEL_convert_tile : GWB_KERNEL_convert, &args,
            tiles ? args.tile_w : args.block_w, tiles ? GWB_TILE_H : args.block_h, args.width, args.height);
    return gwb_op_end(&op, rc);
}
