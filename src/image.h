// SPDX-License-Identifier: MIT
// Images: planes checked against a format.
#ifndef GWB_IMAGE_H
#define GWB_IMAGE_H

#include "format.h"
#include "mat.h"

// What gwb_image_check does, calling the image `what` in its text: format, size, tags, and each plane's type, size and device.
int gwb_image_check_as(const gwb_image *image, const char *what);
// Format, size and tags alone; the planes are not looked at.
int gwb_image_check_tags(const gwb_image *image, const char *what);

#endif
