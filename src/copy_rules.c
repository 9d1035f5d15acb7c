// SPDX-License-Identifier: MIT
// The plane-copy rules: what a raw 2D copy that the driver would accept tells about a mistake. Each looks at one side of the copy.
//
// P1  the copy's step is not the view's, and the view's rows have gaps
// P2  bytes are touched that lie outside the view
// P3  bytes are touched that another packed copy of the same shape touched, from another place: planes that are siblings never overlap
// P4  the copy has the shape of a plane of the declared frame, and begins elsewhere
// P5  (an error of gwb_copy2d itself) the extent leaves the allocation
// P6  (asked of the content, lua/gpuwb/copy.lua) the rows are the sibling's rows, moved by one
// P7  the copy takes parts of more than one declared plane, where a plane does not end at the end of a row of the view
#include "copy.h"

#include <stdlib.h>
#include <string.h>

enum { P1 = 1 << 1, P2 = 1 << 2, P3 = 1 << 3, P4 = 1 << 4, P7 = 1 << 7 };

void gwb_copy2d_track(const gwb_side *side, int64_t width, int64_t rows)
{
    gwb_buf *b = side->buf;
    if (!b || side->step != width || rows < 2)
        return;
    gwb_footprint f = {side->data - b->base, side->step, width, rows};
    for (int i = 0; i < b->tracks; i++)
        if (memcmp(&b->track[i], &f, sizeof f) == 0)
            return;
    if (b->tracks < GWB_BUF_TRACKS)
        b->tracks++;
    memmove(b->track + 1, b->track, (size_t)(b->tracks - 1) * sizeof f);
    b->track[0] = f;
}

// The mat that was given, or the one that begins at the raw pointer and explains the copy best.
static bool find_view(const gwb_side *side, const gwb_copy2d_params *c, bool is_dst, gwb_footprint f, gwb_footprint *view)
{
    if (side->mat) {
        *view = gwb_mat_footprint(side->mat);
        return true;
    }
    const gwb_buf *b = side->buf;
    int64_t origin = (uint8_t *)(is_dst ? c->dst_ptr : c->src_ptr) - b->base, best = -1;
    int kept = b->views < GWB_BUF_VIEWS ? b->views : GWB_BUF_VIEWS;
    for (int i = 1; i <= kept; i++) {       // newest first
        gwb_footprint v = b->view[(b->views - i) % GWB_BUF_VIEWS];
        int64_t shared = gwb_footprint_shared(f, v);
        if (v.first == origin && shared > best) {
            best = shared;
            *view = v;
        }
    }
    return best >= 0;
}

static gwb_footprint plane_footprint(const gwb_buf *b, int plane)
{
    gwb_plane_info info;
    if (gwb_format_plane(b->frame_format, plane, b->frame_width, b->frame_height, &info) < 0)
        return (gwb_footprint){0};
    return (gwb_footprint){b->frame_first + info.offset, info.step, (int64_t)info.width * info.channels * gwb_type_size(info.type), info.height};
}

static uint32_t check_planes(const gwb_buf *b, gwb_footprint f, gwb_copy_side *out)
{
    const gwb_format_info *format = gwb_format_get(b->frame_format);
    if (!format)
        return 0;
    int64_t nearest = INT64_MAX;
    bool in_place = false, cut = false;
    int touched = 0;
    for (int k = 0; k < format->planes; k++) {
        gwb_footprint p = plane_footprint(b, k);
        int64_t shared = gwb_footprint_shared(f, p), whole = p.width * p.rows;
        touched += shared > 0;
        cut = cut || (shared > 0 && shared < whole);
        if (p.width != f.width || p.rows != f.rows)
            continue;
        bool taken = false;     // by an earlier copy: then this one is hardly meant for the same plane
        for (int i = 0; i < b->tracks; i++)
            taken = taken || (b->track[i].first == p.first && f.first != p.first);
        int64_t distance = llabs(p.first - f.first) + (taken ? INT64_MAX / 4 : 0);
        in_place = in_place || (p.first == f.first && (p.step == f.step || f.rows == 1));
        if (distance < nearest) {
            nearest = distance;
            out->plane = k + 1;
            out->plane_format = b->frame_format;
            out->plane_first = p.first;
            out->plane_step = p.step;
        }
    }
    uint32_t rules = 0;
    if (in_place)
        out->plane = 0;
    else if (out->plane)
        rules |= P4;
    bool ragged = format->planes > 1 && (b->frame_width % 2 || b->frame_height % 4);
    if (touched > 1 && cut && ragged)
        rules |= P7;
    return rules;
}

static uint32_t check_side(const gwb_side *side, const gwb_copy2d_params *c, bool is_dst, gwb_copy_side *out)
{
    uint32_t rules = 0;
    *out = (gwb_copy_side){.device = side->space > 0 ? side->space : 0, .step = side->step, .twin_first = -1, .touched = c->width * c->height};
    gwb_buf *b = side->buf;
    if (!b)
        return 0;
    gwb_footprint f = {side->data - b->base, side->step, c->width, c->height}, view;
    out->known = 1;
    out->buf_bytes = b->bytes;
    out->first = f.first;
    out->behind = gwb_footprint_end(f);
    if (find_view(side, c, is_dst, f, &view)) {
        out->has_view = 1;
        out->view_first = view.first;
        out->view_width = view.width;
        out->view_height = view.rows;
        out->view_step = view.step;
        out->contiguous = view.step == view.width || view.rows <= 1;
        out->outside = out->touched - gwb_footprint_shared(f, view);
        if (f.rows > 1 && f.step != view.step && !out->contiguous)
            rules |= P1;
        if (out->outside > 0)
            rules |= P2;
    }
    for (int i = 0; i < b->tracks && f.step == f.width; i++) {
        gwb_footprint t = b->track[i];
        int64_t shared = t.width == f.width && t.rows == f.rows && t.first != f.first ? gwb_footprint_shared(f, t) : 0;
        if (shared > out->twin_shared) {
            out->twin_first = t.first;
            out->twin_shared = shared;
            out->twin_expected = f.first > t.first ? gwb_footprint_end(t) : t.first - f.width * f.rows;
            rules |= P3;
        }
    }
    if (b->frame_format >= 0)
        rules |= check_planes(b, f, out);
    return rules;
}

int gwb_copy2d_check(const gwb_copy2d_params *copy, gwb_copy_report *report)
{
    *report = (gwb_copy_report){.dst = {.twin_first = -1}, .src = {.twin_first = -1}};
    gwb_side dst, src;
    gwb_lock();
    int rc = gwb_copy2d_sides(copy, &dst, &src);
    if (rc > 0) {
        report->dst_rules = check_side(&dst, copy, true, &report->dst);
        report->src_rules = check_side(&src, copy, false, &report->src);
        report->rules = report->dst_rules | report->src_rules;
    }
    gwb_unlock();
    return rc < 0 ? rc : 0;
}
