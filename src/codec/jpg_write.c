// SPDX-License-Identifier: MIT
// A baseline JPEG writer for planes, with the tables of the standard's annex K. Used where libjpeg-turbo is not there.
#include "jpg.h"

#include "host/clones.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static const uint8_t zigzag[64] = {
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};
static const uint8_t base[2][64] = {    // K.1 and K.2, row by row
    {16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29, 51, 87, 80, 62,
     18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99},
    {17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99, 99, 99, 99, 99,
     99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99},
};
// K.3 to K.6: how many codes of each length from 1, and their values.
static const uint8_t dc_counts[2][16] = {{0, 1, 5, 1, 1, 1, 1, 1, 1}, {0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
static const uint8_t dc_values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static const uint8_t ac_counts[2][16] = {{0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d}, {0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77}};
static const uint8_t ac_values[2][162] = {
    {0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08,
     0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28,
     0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
     0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
     0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6,
     0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
     0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa},
    {0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91,
     0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26,
     0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
     0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
     0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4,
     0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
     0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa},
};

typedef struct code { uint16_t bits; uint8_t length; } code;

static code dc_codes[2][256], ac_codes[2][256];
static float cosines[8][8], turned[8][8];       // of the transform: [frequency][place] and [place][frequency], scaled

static void assign(code *codes, const uint8_t counts[16], const uint8_t *values)
{
    unsigned next = 0;
    for (int length = 1; length <= 16; length++, next <<= 1) {
        for (int i = 0; i < counts[length - 1]; i++) codes[*values++] = (code){(uint16_t)next++, (uint8_t)length};
    }
}

static void prepare(void)
{
    for (int i = 0; i < 2; i++) {
        assign(dc_codes[i], dc_counts[i], dc_values);
        assign(ac_codes[i], ac_counts[i], ac_values[i]);
    }
    for (int u = 0; u < 8; u++) {
        for (int x = 0; x < 8; x++) {
            cosines[u][x] = turned[x][u] = (float)(cos((2 * x + 1) * u * 3.14159265358979323846 / 16) * (u ? 0.5 : 0.35355339059327376));
        }
    }
}

typedef struct writer {
    gwb_bytes *out;
    uint8_t *to;                // where the next coded byte goes; there is room
    uint64_t word;
    int bits;
    float quant[2][64];         // 1 / step, row by row
} writer;

static void put(writer *w, unsigned value, int count)
{
    w->word = w->word << count | value;
    for (w->bits += count; w->bits >= 8; w->bits -= 8) {
        uint8_t byte = (uint8_t)(w->word >> (w->bits - 8));
        *w->to++ = byte;
        if (byte == 0xff) *w->to++ = 0;
    }
}

static int size_of(int v)
{
    int n = 0;
    for (v = v < 0 ? -v : v; v; v >>= 1) n++;
    return n;
}

static void put_value(writer *w, int v, int size) { put(w, (unsigned)(v < 0 ? v + (1 << size) - 1 : v), size); }

// The 8x8 samples from (x, y), the plane's edge repeated.
static void take_block(const gwb_plane *p, int32_t x, int32_t y, float block[8][8])
{
    for (int j = 0; j < 8; j++) {
        const uint8_t *row = p->data + (y + j < p->height ? y + j : p->height - 1) * p->step;
        for (int i = 0; i < 8; i++) block[j][i] = (float)row[x + i < p->width ? x + i : p->width - 1] - 128;
    }
}

// The 8x8 cosine transform, the columns and then the rows; each inner loop is one vector.
GWB_CLONES static void transform(float block[8][8], float full[8][8])
{
    float half[8][8];
    for (int u = 0; u < 8; u++) {
        for (int i = 0; i < 8; i++) half[u][i] = 0;
        for (int j = 0; j < 8; j++) for (int i = 0; i < 8; i++) half[u][i] += cosines[u][j] * block[j][i];
    }
    for (int u = 0; u < 8; u++) {
        for (int v = 0; v < 8; v++) full[u][v] = 0;
        for (int i = 0; i < 8; i++) for (int v = 0; v < 8; v++) full[u][v] += turned[i][v] * half[u][i];
    }
}

static void encode_block(writer *w, const gwb_plane *p, int32_t x, int32_t y, int table, int *last)
{
    float block[8][8], full[8][8];
    int values[64];
    take_block(p, x, y, block);
    transform(block, full);
    for (int i = 0; i < 64; i++) {
        float v = full[zigzag[i] >> 3][zigzag[i] & 7] * w->quant[table][zigzag[i]];
        values[i] = (int)(v < 0 ? v - 0.5f : v + 0.5f);
    }
    int difference = values[0] - *last, size = size_of(difference), run = 0;
    *last = values[0];
    put(w, dc_codes[table][size].bits, dc_codes[table][size].length);
    put_value(w, difference, size);
    for (int i = 1; i < 64; i++) {
        if (!values[i]) {
            run++;
            continue;
        }
        for (; run > 15; run -= 16) put(w, ac_codes[table][0xf0].bits, ac_codes[table][0xf0].length);
        size = size_of(values[i]);
        code c = ac_codes[table][run << 4 | size];
        put(w, c.bits, c.length);
        put_value(w, values[i], size);
        run = 0;
    }
    if (run) put(w, ac_codes[table][0].bits, ac_codes[table][0].length);
}

static void segment(gwb_bytes *out, int marker, int64_t length)
{
    gwb_bytes_add(out, (uint8_t[4]){0xff, (uint8_t)marker, (uint8_t)((length + 2) >> 8), (uint8_t)(length + 2)}, 4);
}

static void put_table(gwb_bytes *out, int id, const uint8_t counts[16], const uint8_t *values)
{
    int n = 0;
    for (int i = 0; i < 16; i++) n += counts[i];
    segment(out, 0xc4, 17 + n);
    gwb_bytes_add(out, &(uint8_t){(uint8_t)id}, 1);
    gwb_bytes_add(out, counts, 16);
    gwb_bytes_add(out, values, n);
}

static void put_headers(writer *w, const gwb_plane *planes, int count, int h, int v, int quality)
{
    gwb_bytes *out = w->out;
    int tables = count > 1 ? 2 : 1, scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
    gwb_bytes_add(out, "\xff\xd8\xff\xe0\0\20JFIF\0\1\1\0\0\1\0\1\0\0", 20);
    for (int t = 0; t < tables; t++) {
        uint8_t steps[65] = {(uint8_t)t};
        for (int i = 0; i < 64; i++) {
            int step = (base[t][i] * scale + 50) / 100;
            step = step < 1 ? 1 : step > 255 ? 255 : step;
            w->quant[t][i] = 1.0f / (float)step;
            for (int k = 0; k < 64; k++) if (zigzag[k] == i) steps[1 + k] = (uint8_t)step;
        }
        segment(out, 0xdb, 65);
        gwb_bytes_add(out, steps, 65);
    }
    segment(out, 0xc0, 6 + 3 * count);
    gwb_bytes_add(out, (uint8_t[6]){8, (uint8_t)(planes->height >> 8), (uint8_t)planes->height, (uint8_t)(planes->width >> 8), (uint8_t)planes->width,
                                    (uint8_t)count}, 6);
    for (int c = 0; c < count; c++) {
        gwb_bytes_add(out, (uint8_t[3]){(uint8_t)(c + 1), (uint8_t)(c || count == 1 ? 0x11 : h << 4 | v), c > 0}, 3);
    }
    for (int t = 0; t < tables; t++) {
        put_table(out, t, dc_counts[t], dc_values);
        put_table(out, 0x10 | t, ac_counts[t], ac_values[t]);
    }
    segment(out, 0xda, 4 + 2 * count);
    gwb_bytes_add(out, &(uint8_t){(uint8_t)count}, 1);
    for (int c = 0; c < count; c++) gwb_bytes_add(out, (uint8_t[2]){(uint8_t)(c + 1), c ? 0x11 : 0}, 2);
    gwb_bytes_add(out, "\0\77", 3);
}

int gwb_jpg_write(const gwb_plane *planes, int count, int h, int v, int quality, gwb_bytes *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    writer w = {.out = out};
    int last[3] = {0};
    if (count == 1) h = v = 1;
    put_headers(&w, planes, count, h, v, quality);
    int32_t across = (planes->width + 8 * h - 1) / (8 * h), down = (planes->height + 8 * v - 1) / (8 * v);
    for (int32_t y = 0; y < down; y++) {
        // 64 coefficients of at most 27 bits, each byte with a zero behind it.
        w.to = gwb_bytes_room(out, (int64_t)across * (h * v + count - 1) * 512 + 2);
        if (!w.to) return GWB_OUT_OF_MEMORY;
        for (int32_t x = 0; x < across; x++) {
            for (int i = 0; i < h * v; i++) encode_block(&w, planes, (x * h + i % h) * 8, (y * v + i / h) * 8, 0, &last[0]);
            for (int c = 1; c < count; c++) encode_block(&w, &planes[c], x * 8, y * 8, 1, &last[c]);
        }
        if (y == down - 1 && w.bits) put(&w, (1u << (8 - w.bits)) - 1, 8 - w.bits);
        out->size = w.to - out->data;
    }
    return gwb_bytes_add(out, "\xff\xd9", 2);
}
