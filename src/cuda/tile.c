/* SPDX-License-Identifier: MIT
 *
 * Layout "tile" (byte by byte in args.h): shapes, the packer, and its slow inverse for tests.
 *
 * Of two rows eight apart, an mma fragment interleaves pairs of columns: packing a dense format is zipping the dwords
 * (f32: the quadwords) of rows g and g + 8, 64 (128) bytes at a time, which compilers turn into two kinds of shuffle.
 * Quantised formats become a byte a weight, or half of one, with the scale and the offset that the file's fields give
 * exactly.
 */
#include "cuda/cuda.h"

#include <string.h>

#if defined(__clang__)
#define FAST
#else
#define FAST __attribute__((optimize("O3")))
#endif

enum { HALF = B1I_TILE_ROWS / 2, COLS = B1I_TILE_COLS, LINE = B1I_TILE_ROWS * 4 /* bytes of a line of scales */ };

/* ---- dense formats ---- */

/* Rows g and g + 8 of half a block: 8 dwords of each. */
static inline void zip_dwords(const uint8_t *low, const uint8_t *high, uint8_t *out)
{
    uint32_t a[8], b[8], o[16];
    memcpy(a, low, sizeof a);
    memcpy(b, high, sizeof b);
    for (int i = 0; i < 8; i++) {
        o[2 * i] = a[i];
        o[2 * i + 1] = b[i];
    }
    memcpy(out, o, sizeof o);
}

/* The same of f32: 8 quadwords of each. */
static inline void zip_quadwords(const uint8_t *low, const uint8_t *high, uint8_t *out)
{
    uint64_t a[8], b[8], o[16];
    memcpy(a, low, sizeof a);
    memcpy(b, high, sizeof b);
    for (int i = 0; i < 8; i++) {
        o[2 * i] = a[i];
        o[2 * i + 1] = b[i];
    }
    memcpy(out, o, sizeof o);
}

/* Blocks [0, blocks) of rows g and g + 8; `out` is the first block's. A row's block has `row` = 64 bytes (f32: 128),
 * the panel's 16 times as many. */
FAST static void zip_rows(const uint8_t *low, const uint8_t *high, int blocks, size_t row, int g, uint8_t *out)
{
    if (row == 64) {
        for (int b = 0; b < blocks; b++)
            for (int j = 0; j < 2; j++)
                zip_dwords(low + 64 * b + 32 * j, high + 64 * b + 32 * j, out + 1024 * b + 512 * j + 64 * g);
    } else {
        for (int b = 0; b < blocks; b++)
            for (int j = 0; j < 2; j++)
                zip_quadwords(low + 128 * b + 64 * j, high + 128 * b + 64 * j, out + 2048 * b + 1024 * j + 128 * g);
    }
}

/* Blocks that are done row pair by row pair: long enough for the file's lines, few enough for the first cache. */
enum { RUN = 8, ROW_MAX = COLS * 4 };
static const uint8_t zeros[RUN * ROW_MAX];

static void pack_dense(const b1i_tile_matrix *m, size_t element, const uint8_t *rows, int count, uint8_t *out)
{
    const size_t row_bytes = (size_t)m->cols * element, row = COLS * element;
    const int whole = m->cols / COLS;
    uint8_t tail[B1I_TILE_ROWS][ROW_MAX];
    for (int at = 0; at < whole; at += RUN) {
        int n = whole - at < RUN ? whole - at : RUN;
        for (int g = 0; g < HALF && g < count; g++) {
            const uint8_t *low = rows + (size_t)g * row_bytes + (size_t)at * row;
            const uint8_t *high = g + HALF < count ? low + HALF * row_bytes : zeros;
            zip_rows(low, high, n, row, g, out + (size_t)at * (size_t)m->block_bytes);
        }
        for (int g = count; g < HALF; g++) zip_rows(zeros, zeros, n, row, g, out + (size_t)at * (size_t)m->block_bytes);
    }
    if (whole == m->blocks) return;
    memset(tail, 0, sizeof tail);
    for (int r = 0; r < count; r++)
        memcpy(tail[r], rows + (size_t)r * row_bytes + (size_t)whole * row, row_bytes - (size_t)whole * row);
    for (int g = 0; g < HALF; g++)
        zip_rows(tail[g], tail[g + HALF], 1, row, g, out + (size_t)whole * (size_t)m->block_bytes);
}

/* ---- quantised formats ---- */

static float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return b1i_f16_to_f32(h);
}

/* 32 columns of one row: columns 16h … 16h + 15 are scale[h]·q + offset. */
typedef struct quants {
    int8_t q[COLS];
    float scale[2], offset;
} quants;

/* `part`: which 32 columns of the file's block. */
typedef void (*unpack_fn)(const uint8_t *block, int part, quants *out);

static inline void nibbles(const uint8_t *from, int less, int8_t *q)
{
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((from[i] & 15) - less);
        q[i + 16] = (int8_t)((from[i] >> 4) - less);
    }
}

/* Nibbles with bit i of `high` as the fifth of column i. */
static inline void nibbles_fifth(const uint8_t *high, const uint8_t *from, int less, int8_t *q)
{
    uint32_t bits;
    memcpy(&bits, high, sizeof bits);
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)(((from[i] & 15) | (bits >> i & 1) << 4) - less);
        q[i + 16] = (int8_t)((from[i] >> 4 | (bits >> (i + 16) & 1) << 4) - less);
    }
}

FAST static void unpack_q8_0(const uint8_t *b, int part, quants *o)
{
    (void)part;
    o->scale[0] = half_at(b);
    memcpy(o->q, b + 2, COLS);
}

FAST static void unpack_q4_0(const uint8_t *b, int part, quants *o)
{
    (void)part;
    o->scale[0] = half_at(b);
    nibbles(b + 2, 8, o->q);
}

FAST static void unpack_q4_1(const uint8_t *b, int part, quants *o)
{
    (void)part;
    o->scale[0] = half_at(b);
    o->offset = half_at(b + 2);
    nibbles(b + 4, 0, o->q);
}

FAST static void unpack_q5_0(const uint8_t *b, int part, quants *o)
{
    (void)part;
    o->scale[0] = half_at(b);
    nibbles_fifth(b + 2, b + 6, 16, o->q);
}

FAST static void unpack_q5_1(const uint8_t *b, int part, quants *o)
{
    (void)part;
    o->scale[0] = half_at(b);
    o->offset = half_at(b + 2);
    nibbles_fifth(b + 4, b + 8, 0, o->q);
}

/* Scale and offset of sub-block j of a q4_k or q5_k block: d·(6 bits), −dmin·(6 bits), both exact. The bits of the
 * first four lie in the low six of bytes 0-3 and 4-7, whose upper two are those of the last four, whose lower four are
 * the nibbles of bytes 8-11. */
static void scale_of(const uint8_t *b, int j, quants *o)
{
    const uint8_t *s = b + 4;
    int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
    int min = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
    o->scale[0] = half_at(b) * (float)scale;
    o->offset = -(half_at(b + 2) * (float)min);
}

FAST static void unpack_q4_k(const uint8_t *b, int part, quants *o)
{
    const uint8_t *q = b + 16 + part / 2 * COLS;
    const int shift = part % 2 * 4;
    scale_of(b, part, o);
    for (int i = 0; i < COLS; i++) o->q[i] = (int8_t)(q[i] >> shift & 15);
}

FAST static void unpack_q5_k(const uint8_t *b, int part, quants *o)
{
    const uint8_t *q = b + 48 + part / 2 * COLS, *high = b + 16;
    const int shift = part % 2 * 4;
    scale_of(b, part, o);
    for (int i = 0; i < COLS; i++) o->q[i] = (int8_t)((q[i] >> shift & 15) | (high[i] >> part & 1) << 4);
}

/* Quarter `part` % 4 of half `part` / 4. */
FAST static void unpack_q6_k(const uint8_t *b, int part, quants *o)
{
    const int half = part / 4, quarter = part % 4, low = quarter / 2 * 4, high = quarter * 2;
    const uint8_t *q = b + 64 * half + 32 * (quarter % 2), *top = b + 128 + 32 * half;
    const float d = half_at(b + 208);
    for (int h = 0; h < 2; h++) o->scale[h] = d * (float)(int8_t)b[192 + 2 * part + h];
    for (int i = 0; i < COLS; i++) o->q[i] = (int8_t)(((q[i] >> low & 15) | (top[i] >> high & 3) << 4) - 32);
}

/* What a file's format becomes. */
static const struct {
    b1i_tile_format tile;
    int scales, offsets;
    unpack_fn unpack;
} kinds[b1i_format_count] = {
    [b1i_f32] = {b1i_tile_f32, 0, 0, NULL},        [b1i_f16] = {b1i_tile_f16, 0, 0, NULL},
    [b1i_bf16] = {b1i_tile_bf16, 0, 0, NULL},      [b1i_q8_0] = {b1i_tile_i8, 1, 0, unpack_q8_0},
    [b1i_q4_0] = {b1i_tile_i4, 1, 0, unpack_q4_0}, [b1i_q4_1] = {b1i_tile_i4, 1, 1, unpack_q4_1},
    [b1i_q5_0] = {b1i_tile_i8, 1, 0, unpack_q5_0}, [b1i_q5_1] = {b1i_tile_i8, 1, 1, unpack_q5_1},
    [b1i_q4_k] = {b1i_tile_i4, 1, 1, unpack_q4_k}, [b1i_q5_k] = {b1i_tile_i8, 1, 1, unpack_q5_k},
    [b1i_q6_k] = {b1i_tile_i8, 2, 0, unpack_q6_k},
};

static const int body_bytes[b1i_tile_count] = {1024, 1024, 2048, 512, 256};

/* Of i4: what scale · (q − less) takes off, and the bytes of a line. */
static int less_of(const b1i_tile_matrix *m) { return m->offsets ? 0 : 8; }
static int line_bytes(const b1i_tile_matrix *m)
{
    return m->format == b1i_tile_i4 && !m->offsets ? B1I_TILE_ROWS * 2 : LINE;
}

/* Row r of a block of i8 or i4; rows come in their order. */
static void put_bytes(const quants *k, int r, uint8_t *block)
{
    uint8_t *to = block + r % HALF * 64 + r / HALF * 4;
    for (int t = 0; t < 4; t++) {
        memcpy(to + 16 * t, k->q + 4 * t, 4);
        memcpy(to + 16 * t + 8, k->q + 16 + 4 * t, 4);
    }
}

/* Four columns of a row are four bytes, the middle ones exchanged, and in each the half that the row has. */
static void put_nibbles(const quants *k, int r, int less, uint8_t *block)
{
    const uint32_t sign = (uint32_t)less * 0x01010101u; /* of four bits, q + 8 is q with its sign turned */
    for (int i = 0; i < 8; i++) {
        uint8_t *to = block + r % HALF * 32 + 8 * (i % 4) + i / 4 * 4;
        uint32_t q, other = 0;
        memcpy(&q, k->q + 4 * i, sizeof q);
        q = (q & 0x0f0f0f0fu) ^ sign;
        q = (q & 0xff0000ffu) | (q & 0xff00u) << 8 | (q >> 8 & 0xff00u);
        if (r >= HALF) memcpy(&other, to, sizeof other);
        q = r < HALF ? q : q << 4 | other;
        memcpy(to, &q, sizeof q);
    }
}

static void pack_quants(b1i_format_id format, const b1i_tile_matrix *m, const uint8_t *rows, int count, uint8_t *out)
{
    const b1i_format *f = &b1i_formats[format];
    const int parts = f->block / COLS;
    const size_t row_bytes = (size_t)b1i_format_bytes(format, (uint64_t)m->cols);
    const unpack_fn unpack = kinds[format].unpack;
    quants k = {{0}, {0}, 0};
    if (count < B1I_TILE_ROWS) memset(out, 0, (size_t)m->blocks * (size_t)m->block_bytes);
    for (int b = 0; b < m->blocks; b++, out += m->block_bytes) {
        const uint8_t *from = rows + (size_t)(b / parts) * (size_t)f->block_bytes;
        uint8_t *scales = out + body_bytes[m->format], *offsets = scales + m->scales * LINE;
        for (int r = 0; r < count; r++) {
            unpack(from + (size_t)r * row_bytes, b % parts, &k);
            if (m->format == b1i_tile_i8)
                put_bytes(&k, r, out);
            else
                put_nibbles(&k, r, less_of(m), out);
            if (line_bytes(m) == LINE) {
                for (int s = 0; s < m->scales; s++) memcpy(scales + LINE * s + 4 * r, &k.scale[s], 4);
            } else {
                const uint16_t half = b1i_f32_to_f16(k.scale[0]);
                memcpy(scales + 2 * r, &half, 2);
            }
            if (m->offsets) memcpy(offsets + 4 * r, &k.offset, 4);
        }
    }
}

/* ---- both ---- */

void b1i_tile_shape(const b1i_tensor *t, b1i_tile_matrix *out)
{
    const b1i_tile_format tile = kinds[t->format].tile;
    *out = (b1i_tile_matrix){.format = (int32_t)tile,
                             .rows = (int32_t)t->rows,
                             .cols = (int32_t)t->cols,
                             .panels = (int32_t)((t->rows + B1I_TILE_ROWS - 1) / B1I_TILE_ROWS),
                             .blocks = (int32_t)((t->cols + COLS - 1) / COLS),
                             .scales = kinds[t->format].scales,
                             .offsets = kinds[t->format].offsets};
    out->block_bytes = body_bytes[tile] + (out->scales + out->offsets) * line_bytes(out);
    out->panel_stride = (uint64_t)out->blocks * (uint64_t)out->block_bytes;
}

void b1i_tile_pack(b1i_format_id format, const b1i_tile_matrix *m, const uint8_t *rows, int count, uint8_t *out)
{
    if (kinds[format].unpack)
        pack_quants(format, m, rows, count, out);
    else
        pack_dense(m, (size_t)b1i_formats[format].block_bytes, rows, count, out);
}

float b1i_tile_get(const b1i_tile_matrix *m, const uint8_t *panel, int row, int col)
{
    const uint8_t *block = panel + (size_t)(col / COLS) * (size_t)m->block_bytes;
    const int g = row % HALF, high = row / HALF, c = col % COLS, j = c / 16, t = c % 16 / 4, e = c % 4;
    const int lane = 4 * g + t;
    if (m->format != b1i_tile_i8 && m->format != b1i_tile_i4) {
        /* register e / 2 · 2 + high of the lane's four, its element e % 2 */
        size_t at = (size_t)(((j * 32 + lane) * 4 + e / 2 * 2 + high) * 2 + e % 2);
        float value;
        uint16_t bits;
        if (m->format == b1i_tile_f32) {
            memcpy(&value, block + 4 * at, sizeof value);
            return value;
        }
        memcpy(&bits, block + 2 * at, sizeof bits);
        return m->format == b1i_tile_f16 ? b1i_f16_to_f32(bits) : b1i_bf16_to_f32(bits);
    }
    const uint8_t *lines = block + body_bytes[m->format];
    float scale, offset, q;
    if (m->format == b1i_tile_i8)
        q = (float)(int8_t)block[16 * lane + 8 * j + 4 * high + e];
    else
        q = (float)((block[8 * lane + 4 * j + e / 2 + e % 2 * 2] >> 4 * high & 15) - less_of(m));
    if (line_bytes(m) == LINE)
        memcpy(&scale, lines + (m->scales == 2 ? j : 0) * LINE + 4 * row, sizeof scale);
    else
        scale = half_at(lines + 2 * row);
    if (!m->offsets) return scale * q;
    memcpy(&offset, lines + m->scales * LINE + 4 * row, sizeof offset);
    return scale * q + offset;
}
