// SPDX-License-Identifier: MIT
// Pixels in memory of the host device's pool: its pages are there already, while malloc takes a page fault for each 4 KiB of a large picture; and a mat
// takes it over as it is.
#include "codec.h"

#include "mat.h"

#include <stdlib.h>

static uint8_t *take(gwb_picture *out, int32_t width, int32_t height, int type, int channels, const gwb_mat_params *params)
{
    gwb_mat *m = calloc(1, sizeof *m);
    if (m && gwb_mat_create(m, 0, width, height, type, channels, params) == 0) {
        out->room = m;
        return m->data;
    }
    free(m);
    return NULL;
}

uint8_t *gwb_room_rows(gwb_picture *out, int32_t width, int32_t height, int32_t type, int32_t channels, bool locked)
{
    uint8_t *data = take(out, width, height, type, channels, &(gwb_mat_params){.pinned = locked});
    if (data) out->plane[0].step = out->room->step;
    return data;
}

uint8_t *gwb_room_block(gwb_picture *out, int64_t bytes)
{
    enum { ROW = 1 << 16 };
    int64_t rows = (bytes + ROW - 1) / ROW;
    return rows < 1 || rows > INT32_MAX ? NULL : take(out, ROW, (int32_t)rows, GWB_U8, 1, &(gwb_mat_params){.packed = 1});
}

void gwb_room_free(gwb_picture *picture)
{
    if (!picture->room) return;
    gwb_mat_close(picture->room);
    free(picture->room);
    picture->room = NULL;
}

const gwb_mat *gwb_room_mat(const gwb_picture *picture)
{
    const gwb_plane *p = &picture->plane[0];
    const gwb_mat *m = picture->room;
    bool same = m && picture->planes == 1 && m->data == p->data && m->step == p->step && m->width == p->width && m->height == p->height
        && m->type == p->type && m->channels == p->channels;
    return same ? m : NULL;
}

int gwb_picture_keep(gwb_picture *picture, gwb_mat *mat)
{
    gwb_mat *m = malloc(sizeof *m);
    if (!m) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory to keep a picture");
    *m = *mat;
    *mat = (gwb_mat){0};
    gwb_room_free(picture);
    picture->room = m;
    return 0;
}

int gwb_picture_move(gwb_picture *picture, gwb_mat *mat)
{
    const gwb_mat *m = gwb_room_mat(picture);
    if (!m) return 0;
    *mat = *m;
    free(picture->room);
    picture->room = NULL;
    return 1;
}
