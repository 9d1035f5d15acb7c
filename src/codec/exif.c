// SPDX-License-Identifier: MIT
// EXIF, of which the orientation counts.
#include "codec.h"

#include <string.h>

int gwb_exif_orientation(const uint8_t *p, int64_t size)
{
    if (size >= 6 && memcmp(p, "Exif\0\0", 6) == 0) { // JPEG has this in front, PNG has not
        p += 6;
        size -= 6;
    }
    if (size < 8) return 0;
    bool little = p[0] == 'I';
    if (memcmp(p, little ? "II*\0" : "MM\0*", 4) != 0) return 0;
    int64_t at = little ? gwb_le32(p + 4) : gwb_be32(p + 4);
    if (at + 2 > size) return 0;
    int entries = little ? gwb_le16(p + at) : gwb_be16(p + at);
    for (at += 2; entries-- > 0 && at + 12 <= size; at += 12) {
        int tag = little ? gwb_le16(p + at) : gwb_be16(p + at);
        int value = little ? gwb_le16(p + at + 8) : gwb_be16(p + at + 8);
        if (tag == 0x0112) return value >= 1 && value <= 8 ? value : 0;
    }
    return 0;
}
