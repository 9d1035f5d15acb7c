// SPDX-License-Identifier: MIT
// Images: planes checked against a format.
#include "image.h"

#include <stdio.h>

int gwb_image_check_tags(const gwb_image *image, const char *what)
{
    const gwb_format_info *f = image ? gwb_format_get(image->format) : NULL;
    if (!f)
        return gwb_fail(GWB_BAD_ARGUMENT, "%s has no known pixel format", what);
    if (image->width < 0 || image->height < 0)
        return gwb_fail(GWB_BAD_ARGUMENT, "%s is %d x %d pixels: sizes are 0 or more", what, image->width, image->height);
    if (image->matrix < 0 || image->matrix >= GWB_MATRIX_COUNT || image->range < 0 || image->range >= GWB_RANGE_COUNT || image->siting < 0 ||
        image->siting >= GWB_SITING_COUNT || image->transfer < 0 || image->transfer >= GWB_TRANSFER_COUNT || image->primaries < 0 ||
        image->primaries >= GWB_PRIMARIES_COUNT)
        return gwb_fail(GWB_BAD_ARGUMENT, "%s has a tag that no list knows (matrix %d, range %d, siting %d, transfer %d, primaries %d)", what,
            image->matrix, image->range, image->siting, image->transfer, image->primaries);
    if (image->range == GWB_RANGE_LIMITED && gwb_format_is_float(f))
        return gwb_fail(GWB_BAD_ARGUMENT, "%s is limited range, and %s holds 0..1: leave its range out or say full", what, f->name);
    if (image->matrix == GWB_MATRIX_GBR && f->model == GWB_MODEL_YUV && (f->log2_w || f->log2_h))
        return gwb_fail(GWB_BAD_ARGUMENT, "%s has the matrix gbr, which goes with 4:4:4 and not with the subsampled %s", what, f->name);
    return 0;
}

// A plane as errors call it. Only they do: text costs more than the rest of a check, which every operation makes.
static const char *plane_name(int i, const char *what, char text[96])
{
    snprintf(text, 96, "plane %d of %s", i + 1, what);
    return text;
}

int gwb_image_check_as(const gwb_image *image, const char *what)
{
    int rc = gwb_image_check_tags(image, what);
    if (rc)
        return rc;
    const gwb_format_info *f = gwb_format_get(image->format);
    if (image->planes != f->planes)
        return gwb_fail(GWB_SHAPE, "%s has %d planes and %s wants %d", what, image->planes, f->name, f->planes);
    for (int i = 0; i < f->planes; i++) {
        char name[96], text[96];
        const gwb_mat *m = image->plane[i];
        if (gwb_mat_check(m, what))
            return gwb_mat_check(m, plane_name(i, what, name));
        gwb_plane_info want;
        gwb_format_plane(image->format, i, image->width, image->height, &want);
        if (m->width != want.width || m->height != want.height || m->type != want.type || m->channels != want.channels)
            return gwb_fail(GWB_SHAPE, "%s is %s, and a %d x %d %s image wants %d x %d of %s with %d channel%s there", plane_name(i, what, name),
                gwb_mat_text(m, text), image->width, image->height, f->name, want.width, want.height, gwb_type_name(want.type), want.channels,
                want.channels > 1 ? "s" : "");
        if (m->device != image->plane[0]->device)
            return gwb_fail(GWB_BAD_ARGUMENT, "%s is on device %d and plane 1 on device %d: copy one of them first", plane_name(i, what, name), m->device,
                image->plane[0]->device);
    }
    return 0;
}

int gwb_image_check(const gwb_image *image)
{
    return gwb_image_check_as(image, "the image");
}
