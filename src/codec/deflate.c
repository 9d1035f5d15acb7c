// SPDX-License-Identifier: MIT
// Deflate and zlib streams, CRC-32: by libdeflate where it is there (opened at run time), else by inflate.c and deflate_own.c. What is read is the same.
#include "codec.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

// libdeflate's calls, by its documentation; the structs are its own affair.
static struct {
    void *(*alloc_compressor)(int level);
    void (*free_compressor)(void *compressor);
    size_t (*zlib_bound)(void *compressor, size_t size);
    size_t (*zlib_compress)(void *compressor, const void *in, size_t size, void *out, size_t room);
    void *(*alloc_decompressor)(void);
    void (*free_decompressor)(void *decompressor);
    int (*inflate)(void *decompressor, const void *in, size_t size, void *out, size_t room, size_t *used, size_t *made);
    int (*zlib_inflate)(void *decompressor, const void *in, size_t size, void *out, size_t room, size_t *used, size_t *made);
    uint32_t (*crc)(uint32_t start, const void *bytes, size_t size);
} lib;
static bool lib_open;
static atomic_bool libraries_off;
static uint32_t crc_table[8][256];

static void open_once(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
        crc_table[0][i] = c;
    }
    for (int t = 1; t < 8; t++) {
        for (int i = 0; i < 256; i++) {
            uint32_t c = crc_table[t - 1][i];
            crc_table[t][i] = crc_table[0][c & 255] ^ c >> 8;
        }
    }
    void *handle = dlopen("libdeflate.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return;
    static const struct { const char *name; void *to; } calls[] = {
        {"libdeflate_alloc_compressor", &lib.alloc_compressor}, {"libdeflate_free_compressor", &lib.free_compressor},
        {"libdeflate_zlib_compress_bound", &lib.zlib_bound}, {"libdeflate_zlib_compress", &lib.zlib_compress},
        {"libdeflate_alloc_decompressor", &lib.alloc_decompressor}, {"libdeflate_free_decompressor", &lib.free_decompressor},
        {"libdeflate_deflate_decompress_ex", &lib.inflate}, {"libdeflate_zlib_decompress_ex", &lib.zlib_inflate},
        {"libdeflate_crc32", &lib.crc},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *call = dlsym(handle, calls[i].name);
        if (!call) return;  // another version: left alone
        memcpy(calls[i].to, &call, sizeof call);
    }
    lib_open = true;
}

static bool library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return lib_open && !atomic_load(&libraries_off);
}

bool gwb_libraries_off(void) { return atomic_load(&libraries_off); }

int gwb_codec_libraries(int use)
{
    int before = !atomic_load(&libraries_off);
    if (use >= 0) atomic_store(&libraries_off, !use);
    return before;
}

const char *gwb_codec_library(const char *kind)
{
    if (strcmp(kind, "png") == 0) return library() ? "libdeflate" : "built in";
    if (strcmp(kind, "jpg") == 0) return gwb_turbo_ready() ? "libjpeg-turbo" : "built in";
    return "built in";
}

uint32_t gwb_crc(const uint8_t *p, int64_t size)
{
    if (library()) return lib.crc(0, p, (size_t)size);
    uint32_t c = UINT32_MAX;
    for (; size >= 8; size -= 8, p += 8) {      // eight bytes a step, by as many tables
        uint32_t a = c ^ gwb_le32(p), b = gwb_le32(p + 4);
        c = crc_table[7][a & 255] ^ crc_table[6][a >> 8 & 255] ^ crc_table[5][a >> 16 & 255] ^ crc_table[4][a >> 24]
          ^ crc_table[3][b & 255] ^ crc_table[2][b >> 8 & 255] ^ crc_table[1][b >> 16 & 255] ^ crc_table[0][b >> 24];
    }
    for (; size > 0; size--, p++) c = crc_table[0][(c ^ *p) & 255] ^ c >> 8;
    return ~c;
}

gwb_inflated gwb_inflate(const uint8_t *in, int64_t size, uint8_t *out, int64_t room, bool zlib, int64_t *made)
{
    *made = 0;
    if (library()) {
        void *decompressor = lib.alloc_decompressor();
        if (!decompressor) return GWB_INFLATE_MEMORY;
        size_t used = 0, got = 0;
        int rc = (zlib ? lib.zlib_inflate : lib.inflate)(decompressor, in, (size_t)size, out, (size_t)room, &used, &got);
        lib.free_decompressor(decompressor);
        *made = rc == 0 ? (int64_t)got : 0;
        return rc == 0 ? GWB_INFLATE_OK : rc == 3 ? GWB_INFLATE_MORE : GWB_INFLATE_BAD;
    }
    return gwb_inflate_own(in, size, out, room, zlib, made);
}

int gwb_deflate(const uint8_t *bytes, int64_t size, int level, gwb_bytes *out)
{
    if (!library()) return gwb_deflate_own(bytes, size, level, out);
    void *compressor = lib.alloc_compressor(level);
    int64_t bound = compressor ? (int64_t)lib.zlib_bound(compressor, (size_t)size) : 0;
    uint8_t *room = compressor ? gwb_bytes_room(out, bound) : NULL;
    size_t made = room ? lib.zlib_compress(compressor, bytes, (size_t)size, room, (size_t)bound) : 0;
    if (compressor) lib.free_compressor(compressor);
    if (!made) return gwb_fail(GWB_OUT_OF_MEMORY, "no memory to compress %lld bytes", (long long)size);
    out->size += (int64_t)made - bound;
    return 0;
}
