// SPDX-License-Identifier: MIT
// libFuzzer's door to the readers (scripts/fuzz.sh): the last byte chooses how to read, the rest is the file.
#include "codec/codec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

// The codecs are linked alone; of the rest they want these.
static const struct { const char *name; int size; } types[GWB_TYPES] = {
    {"u8", 1}, {"i8", 1}, {"u16", 2}, {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f16", 2}, {"f32", 4}, {"f64", 8},
};
const char *gwb_type_name(int type) { return type >= 0 && type < GWB_TYPES ? types[type].name : NULL; }
int gwb_type_size(int type) { return type >= 0 && type < GWB_TYPES ? types[type].size : 0; }

uint8_t *gwb_room_rows(gwb_picture *out, int32_t width, int32_t height, int32_t type, int32_t channels, bool locked) { return NULL; }
void gwb_room_free(gwb_picture *picture) {}
bool gwb_interrupted(void) { return false; }

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 2) return 0;
    int how = bytes[size - 1];
    gwb_read_params params = {.max_pixels = 1 << 16, .max_bytes = 1 << 22, .lenient = how & 1, .as_stored = how >> 1 & 1, .unscaled = how >> 2 & 1,
                              .native = how >> 3 & 1, .header_only = (how & 0x30) == 0x30, .frame = how >> 7};
    gwb_codec_libraries(how >> 6 & 1);
    gwb_picture picture;
    int rc = gwb_decode(bytes, (int64_t)size - 1, "fuzz", &params, &picture);
    if (rc == 0 && picture.memory) { // every byte of every plane is there
        volatile uint8_t sum = 0;
        for (int i = 0; i < picture.planes; i++) {
            const gwb_plane *p = &picture.plane[i];
            for (int32_t y = 0; y < p->height; y++) {
                for (int64_t x = 0; x < (int64_t)p->width * p->channels * gwb_type_size(p->type); x++) sum ^= p->data[y * p->step + x];
            }
        }
        gwb_bytes out = {0};
        const char *kinds[] = {"png", "jpg", "qoi", "npy"};
        gwb_encode(&picture, kinds[how & 3], NULL, &out);
        gwb_bytes_free(&out);
    }
    if (rc == GWB_INTERNAL) abort();
    gwb_picture_free(&picture);
    return 0;
}
