// SPDX-License-Identifier: MIT
// NumPy's npz: a zip archive of npy files, stored or deflated. Each entry's CRC is checked.
#include "codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    char name[64];              // without ".npy"
    int method;
    uint32_t crc;
    int64_t packed, size, header;       // bytes; where its local header is
} entry;

static uint64_t le64(const uint8_t *p) { return gwb_le32(p) | (uint64_t)gwb_le32(p + 4) << 32; }

bool gwb_npz_recognise(const uint8_t *bytes, int64_t size)
{
    if (size < 40 || memcmp(bytes, "PK\3\4", 4) != 0) return false;
    int length = gwb_le16(bytes + 26);
    return length > 4 && 30 + length <= size && memcmp(bytes + 30 + length - 4, ".npy", 4) == 0;
}

// The end of the central directory: how many entries, and where the first one is. False where there is none.
static bool find_directory(const gwb_input *in, int64_t *count, int64_t *at)
{
    const uint8_t *b = in->bytes;
    for (int64_t i = in->size - 22; i >= 0 && i >= in->size - 22 - 65535; i--) {
        if (memcmp(b + i, "PK\5\6", 4) != 0) continue;
        *count = gwb_le16(b + i + 10);
        *at = gwb_le32(b + i + 16);
        if ((*count == 0xffff || *at == 0xffffffff) && i >= 20 && memcmp(b + i - 20, "PK\6\7", 4) == 0) {
            uint64_t far = le64(b + i - 20 + 8);
            if (far > (uint64_t)in->size || in->size - (int64_t)far < 56 || memcmp(b + far, "PK\6\6", 4) != 0) return false;
            *count = (int64_t)le64(b + far + 32);
            *at = (int64_t)le64(b + far + 48);
        }
        return *at >= 0 && *count >= 0;
    }
    return false;
}

// The entry at `at`, which moves behind it. False where it is none.
static bool read_entry(const gwb_input *in, int64_t *at, entry *e)
{
    const uint8_t *b = in->bytes + *at;
    if (*at < 0 || in->size - *at < 46 || memcmp(b, "PK\1\2", 4) != 0) return false;
    int64_t name = gwb_le16(b + 28), extra = gwb_le16(b + 30), all = 46 + name + extra + gwb_le16(b + 32);
    if (in->size - *at < all) return false;
    *e = (entry){.method = gwb_le16(b + 10), .crc = gwb_le32(b + 16), .packed = gwb_le32(b + 20), .size = gwb_le32(b + 24), .header = gwb_le32(b + 42)};
    int length = name >= 4 && memcmp(b + 46 + name - 4, ".npy", 4) == 0 ? (int)name - 4 : (int)name;
    snprintf(e->name, sizeof e->name, "%.*s", length < 63 ? length : 63, (const char *)b + 46);
    const uint8_t *x = b + 46 + name, *end = x + extra;
    for (int64_t n; end - x >= 4 && end - x >= 4 + (n = gwb_le16(x + 2)); x += 4 + n) {
        if (gwb_le16(x) != 1) continue;         // ZIP64: what did not fit, in this order
        const uint8_t *v = x + 4, *stop = v + n;
        int64_t *const fields[] = {&e->size, &e->packed, &e->header};
        for (int i = 0; i < 3; i++) {
            if (*fields[i] != 0xffffffff || stop - v < 8) continue;
            *fields[i] = (int64_t)le64(v);
            v += 8;
        }
    }
    *at += all;
    return e->packed >= 0 && e->size >= 0 && e->header >= 0;
}

static int decode_entry(const gwb_input *in, gwb_picture *out, const entry *e)
{
    const uint8_t *b = in->bytes;
    if (e->header > in->size - 30 || memcmp(b + e->header, "PK\3\4", 4) != 0) return gwb_refuse(in, GWB_BAD_FILE, "damaged npz: %s has no header", e->name);
    int64_t data = e->header + 30 + gwb_le16(b + e->header + 26) + gwb_le16(b + e->header + 28);
    if (data > in->size || e->packed > in->size - data) return gwb_refuse(in, GWB_BAD_FILE, "truncated npz: the data of %s is cut", e->name);
    if (e->method != 0 && e->method != 8) return gwb_refuse(in, GWB_UNSUPPORTED, "an npz packed by method %d (stored and deflated are read)", e->method);
    if (e->size > in->params.max_bytes) {
        return gwb_refuse(in, GWB_LIMIT, "%s has %" PRId64 " bytes; the limit is %" PRId64 "; gpu.limits{bytes=...} raises it", e->name, e->size,
                          in->params.max_bytes);
    }
    if (e->method == 0 ? e->size != e->packed : e->size > e->packed * 1032) {
        return gwb_refuse(in, GWB_BAD_FILE, "damaged npz: %s has %" PRId64 " bytes made of %" PRId64, e->name, e->size, e->packed);
    }
    uint8_t *memory = NULL;
    gwb_input inner = *in;
    inner.bytes = b + data;
    inner.size = e->size;
    int rc = e->size > 0 ? 0 : gwb_refuse(in, GWB_BAD_FILE, "damaged npz: %s is empty", e->name);
    if (rc == 0 && e->method == 8) {
        int64_t made = 0, behind = in->size - data;     // the decoder may look at a few bytes behind the stream
        memory = malloc((size_t)e->size);
        gwb_inflated got = memory ? gwb_inflate(b + data, e->packed + 8 < behind ? e->packed + 8 : behind, memory, e->size, false, &made) : GWB_INFLATE_MEMORY;
        inner.bytes = memory;
        if (got == GWB_INFLATE_MEMORY) rc = gwb_refuse(in, GWB_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes", e->size);
        else if (got != GWB_INFLATE_OK || made != e->size) rc = gwb_refuse(in, GWB_BAD_FILE, "damaged npz: %s does not decompress", e->name);
    }
    if (rc == 0) {
        uint32_t right = gwb_crc(inner.bytes, e->size);
        if (right != e->crc) rc = gwb_doubt(in, out, "damaged npz: the CRC of %s is %08x, its content has %08x", e->name, e->crc, right);
    }
    if (rc == 0 && !gwb_npy_recognise(inner.bytes, inner.size)) rc = gwb_refuse(in, GWB_BAD_FILE, "%s is no npy", e->name);
    if (rc == 0) rc = gwb_npy_decode(&inner, out);
    free(memory);
    return rc;
}

int gwb_npz_decode(const gwb_input *in, gwb_picture *out)
{
    int64_t count = 0, at = 0, named = 0;
    entry e, chosen = {0};
    char names[sizeof out->coding] = "";
    size_t used = 0;
    bool found = false;
    if (!find_directory(in, &count, &at)) return gwb_refuse(in, GWB_BAD_FILE, "truncated npz: it has no directory");
    for (int64_t i = 0; i < count; i++) {
        if (!read_entry(in, &at, &e)) return gwb_refuse(in, GWB_BAD_FILE, "damaged npz: its directory has %" PRId64 " of %" PRId64 " entries", i, count);
        if (used < sizeof names) used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", e.name);
        named++;
        if (!found && (!in->params.array || strcmp(in->params.array, e.name) == 0)) {
            chosen = e;
            found = true;
        }
    }
    if (!found) {
        return gwb_refuse(in, GWB_BAD_ARGUMENT, "no array %s: it has %s", in->params.array ? in->params.array : "", names[0] ? names : "none");
    }
    if (!in->params.array && named > 1 && !in->params.header_only) {
        return gwb_refuse(in, GWB_BAD_ARGUMENT, "%" PRId64 " arrays (%s): choose one with array=", named, names);
    }
    int rc = decode_entry(in, out, &chosen);
    strcpy(out->coding, names);
    out->frames = named;
    return rc;
}
