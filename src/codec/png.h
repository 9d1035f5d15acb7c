// SPDX-License-Identifier: MIT
// What PNG's reader and writer share.
#ifndef GWB_PNG_H
#define GWB_PNG_H

#include "codec.h"

static const uint8_t png_signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

// Code points of ITU-T H.273, which the chunk cICP holds.
static const struct { int code; const char *name; } transfers[] = {
    {13, "srgb"}, {1, "bt709"}, {4, "gamma22"}, {5, "gamma28"}, {8, "linear"}, {16, "pq"}, {18, "hlg"}, {6, "bt709"}, {14, "bt709"}, {15, "bt709"},
}, primaries[] = {{1, "bt709"}, {9, "bt2020"}, {12, "display-p3"}, {5, "bt601-625"}, {6, "bt601-525"}};

enum { TRANSFERS = sizeof transfers / sizeof *transfers, PRIMARIES = sizeof primaries / sizeof *primaries };

#endif
