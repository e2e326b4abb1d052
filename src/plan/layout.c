/* SPDX-License-Identifier: MIT
 *
 * Owns packing. Every quantised format is a pair of functions that put one row's block into its lane of a panel and
 * get it back; unpacking rebuilds the file's block and leaves the arithmetic to the dequantiser, so that the two
 * cannot differ.
 */
#include "plan/row16.h"

#include <string.h>

/* One block of one row: `scale` is the row's half in the scale line (halfs of one kind lie 2 bytes apart, the second
 * kind 16 halfs on), `body` the block's body at the row's lane (a dword; the next dword of the row lies a line on). */
typedef struct row16_format {
    int body, per_line; /* bytes of a body; blocks that share a scale line */
    void (*put)(const uint8_t *block, uint8_t *scale, uint8_t *body, int lane);
    void (*get)(const uint8_t *scale, const uint8_t *body, int lane, uint8_t *block);
} row16_format;

static uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static void store32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }

static void put_words(const uint8_t *from, int words, uint8_t *to)
{
    for (int i = 0; i < words; i++) store32(to + i * B1I_LINE, load32(from + 4 * i));
}
static void get_words(const uint8_t *from, int words, uint8_t *to)
{
    for (int i = 0; i < words; i++) store32(to + 4 * i, load32(from + i * B1I_LINE));
}

/* Bit 4g + j to bit 8j + g, and back. */
static uint32_t spread_bits(uint32_t h)
{
    uint32_t out = 0;
    for (int g = 0; g < 8; g++) out |= ((h >> 4 * g & 15) * 0x00204081u & 0x01010101u) << g;
    return out;
}
static uint32_t gather_bits(uint32_t h)
{
    uint32_t out = 0;
    for (int g = 0; g < 8; g++)
        for (int j = 0; j < 4; j++) out |= (h >> (8 * j + g) & 1) << (4 * g + j);
    return out;
}

/* ---- blocks of 32 ---- */

static void put_q8_0(const uint8_t *block, uint8_t *scale, uint8_t *body, int lane)
{
    (void)lane;
    memcpy(scale, block, 2);
    put_words(block + 2, 8, body);
}
static void get_q8_0(const uint8_t *scale, const uint8_t *body, int lane, uint8_t *block)
{
    (void)lane;
    memcpy(block, scale, 2);
    get_words(body, 8, block + 2);
}

static void put_q4_0(const uint8_t *block, uint8_t *scale, uint8_t *body, int lane)
{
    (void)lane;
    memcpy(scale, block, 2);
    put_words(block + 2, 4, body);
}
static void get_q4_0(const uint8_t *scale, const uint8_t *body, int lane, uint8_t *block)
{
    (void)lane;
    memcpy(block, scale, 2);
    get_words(body, 4, block + 2);
}

static void put_q4_1(const uint8_t *block, uint8_t *scale, uint8_t *body, int lane)
{
    (void)lane;
    memcpy(scale, block, 2);
    memcpy(scale + 32, block + 2, 2);
    put_words(block + 4, 4, body);
}
static void get_q4_1(const uint8_t *scale, const uint8_t *body, int lane, uint8_t *block)
{
    (void)lane;
    memcpy(block, scale, 2);
    memcpy(block + 2, scale + 32, 2);
    get_words(body, 4, block + 4);
}

static void put_q5_0(const uint8_t *block, uint8_t *scale, uint8_t *body, int lane)
{
    (void)lane;
    memcpy(scale, block, 2);
    store32(body, spread_bits(load32(block + 2)));
    put_words(block + 6, 4, body + B1I_LINE);
}
static void get_q5_0(const uint8_t *scale, const uint8_t *body, int lane, uint8_t *block)
{
    (void)lane;
    memcpy(block, scale, 2);
    store32(block + 2, gather_bits(load32(body)));
    get_words(body + B1I_LINE, 4, block + 6);
}

static void put_q5_1(const uint8_t *block, uint8_t *scale, uint8_t *body, int lane)
{
    (void)lane;
    memcpy(scale, block, 2);
    memcpy(scale + 32, block + 2, 2);
    store32(body, spread_bits(load32(block + 4)));
    put_words(block + 8, 4, body + B1I_LINE);
}
static void get_q5_1(const uint8_t *scale, const uint8_t *body, int lane, uint8_t *block)
{
    (void)lane;
    memcpy(block, scale, 2);
    memcpy(block + 2, scale + 32, 2);
    store32(block + 4, gather_bits(load32(body)));
    get_words(body + B1I_LINE, 4, block + 8);
}

/* ---- blocks of 256 ---- */

/* GGUF's 12 bytes: scales and mins 0 to 3 are the low 6 bits of bytes 0 to 3 and 4 to 7; of 4 to 7 the low 4 bits lie
 * in the nibbles of bytes 8 to 11, the high 2 bits on top of bytes 0 to 7. */
static void put_scales(const uint8_t *s, uint8_t *body)
{
    uint32_t low = load32(s), mid = load32(s + 4), high = load32(s + 8), pair[4], m6 = 0x3f3f3f3f;
    uint32_t sc[2] = {low & m6, (high & 0x0f0f0f0f) | (low >> 2 & 0x30303030)};
    uint32_t mn[2] = {mid & m6, (high >> 4 & 0x0f0f0f0f) | (mid >> 2 & 0x30303030)};
    for (int p = 0; p < 4; p++) {
        uint32_t a = sc[p / 2] >> 16 * (p % 2), b = mn[p / 2] >> 16 * (p % 2);
        pair[p] = (a & 63) | (b & 63) << 6 | (a >> 8 & 63) << 12 | (b >> 8 & 63) << 18;
    }
    for (int p = 0; p < 3; p++) store32(body + p * B1I_LINE, pair[p] | (pair[3] >> 8 * p & 255) << 24);
}
static void get_scales(const uint8_t *body, uint8_t *s)
{
    uint32_t pair[4] = {0};
    uint8_t sc[8], mn[8];
    for (int p = 0; p < 3; p++) {
        uint32_t v = load32(body + p * B1I_LINE);
        pair[p] = v & 0xffffff;
        pair[3] |= (v >> 24) << 8 * p;
    }
    for (int i = 0; i < 8; i++) {
        uint32_t v = pair[i / 2] >> 12 * (i % 2);
        sc[i] = v & 63;
        mn[i] = v >> 6 & 63;
    }
    for (int i = 0; i < 4; i++) {
        s[i] = (uint8_t)(sc[i] | sc[i + 4] >> 4 << 6);
        s[i + 4] = (uint8_t)(mn[i] | mn[i + 4] >> 4 << 6);
        s[i + 8] = (uint8_t)((sc[i + 4] & 15) | (mn[i + 4] & 15) << 4);
    }
}

/* 32 nibbles of a K block: the low or the high ones of 32 bytes. */
static void put_nibbles(const uint8_t *q, int shift, uint8_t *to)
{
    for (int i = 0; i < 4; i++) {
        uint32_t a = load32(q + 4 * i) >> shift & 0x0f0f0f0f, b = load32(q + 16 + 4 * i) >> shift & 0x0f0f0f0f;
        store32(to + i * B1I_LINE, a | b << 4);
    }
}
static void get_nibbles(const uint8_t *from, int shift, uint8_t *q)
{
    for (int i = 0; i < 4; i++) {
        uint32_t v = load32(from + i * B1I_LINE), a = v & 0x0f0f0f0f, b = v >> 4 & 0x0f0f0f0f;
        store32(q + 4 * i, load32(q + 4 * i) | a << shift);
        store32(q + 16 + 4 * i, load32(q + 16 + 4 * i) | b << shift);
    }
}

static void put_q4_k(const uint8_t *block, uint8_t *scale, uint8_t *body, int lane)
{
    (void)lane;
    memcpy(scale, block, 2);
    memcpy(scale + 32, block + 2, 2);
    put_scales(block + 4, body);
    for (int s = 0; s < 8; s++) put_nibbles(block + 16 + s / 2 * 32, s % 2 * 4, body + (3 + 4 * s) * B1I_LINE);
}
static void get_q4_k(const uint8_t *scale, const uint8_t *body, int lane, uint8_t *block)
{
    (void)lane;
    memset(block, 0, 144);
    memcpy(block, scale, 2);
    memcpy(block + 2, scale + 32, 2);
    get_scales(body, block + 4);
    for (int s = 0; s < 8; s++) get_nibbles(body + (3 + 4 * s) * B1I_LINE, s % 2 * 4, block + 16 + s / 2 * 32);
}

static void put_q5_k(const uint8_t *block, uint8_t *scale, uint8_t *body, int lane)
{
    (void)lane;
    memcpy(scale, block, 2);
    memcpy(scale + 32, block + 2, 2);
    put_scales(block + 4, body);
    for (int s = 0; s < 8; s++) {
        uint8_t *to = body + (3 + 5 * s) * B1I_LINE;
        uint32_t plane = 0;
        for (int g = 0; g < 8; g++) plane |= (load32(block + 16 + 4 * g) >> s & 0x01010101) << g;
        store32(to, plane);
        put_nibbles(block + 48 + s / 2 * 32, s % 2 * 4, to + B1I_LINE);
    }
}
static void get_q5_k(const uint8_t *scale, const uint8_t *body, int lane, uint8_t *block)
{
    (void)lane;
    memset(block, 0, 176);
    memcpy(block, scale, 2);
    memcpy(block + 2, scale + 32, 2);
    get_scales(body, block + 4);
    for (int s = 0; s < 8; s++) {
        const uint8_t *from = body + (3 + 5 * s) * B1I_LINE;
        uint32_t plane = load32(from);
        for (int g = 0; g < 8; g++) {
            uint8_t *qh = block + 16 + 4 * g;
            store32(qh, load32(qh) | (plane >> g & 0x01010101) << s);
        }
        get_nibbles(from + B1I_LINE, s % 2 * 4, block + 48 + s / 2 * 32);
    }
}

/* Q6_K, columns 32k + c of half h = k / 4, m = k % 4: nibble (ql[64h + 32(m & 1) + c] >> (m < 2 ? 0 : 4)) & 15, high
 * bits (qh[32h + c] >> 2m) & 3. The scale of a lane is a byte, not a dword. */
static void put_q6_k(const uint8_t *block, uint8_t *scale, uint8_t *body, int lane)
{
    uint8_t *scales = body - 4 * lane + lane;
    memcpy(scale, block + 208, 2);
    for (int i = 0; i < 16; i++) scales[16 * i] = block[192 + i];
    for (int k = 0; k < 8; k++) {
        uint8_t *to = body + (4 + 6 * k) * B1I_LINE;
        const uint8_t *qh = block + 128 + k / 4 * 32;
        int m = k % 4;
        for (int p = 0; p < 2; p++) {
            uint32_t plane = 0;
            for (int g = 0; g < 4; g++) plane |= (load32(qh + 16 * p + 4 * g) >> 2 * m & 0x03030303) << 2 * g;
            store32(to + p * B1I_LINE, plane);
        }
        put_nibbles(block + k / 4 * 64 + m % 2 * 32, m < 2 ? 0 : 4, to + 2 * B1I_LINE);
    }
}
static void get_q6_k(const uint8_t *scale, const uint8_t *body, int lane, uint8_t *block)
{
    const uint8_t *scales = body - 4 * lane + lane;
    memset(block, 0, 210);
    memcpy(block + 208, scale, 2);
    for (int i = 0; i < 16; i++) block[192 + i] = scales[16 * i];
    for (int k = 0; k < 8; k++) {
        const uint8_t *from = body + (4 + 6 * k) * B1I_LINE;
        int m = k % 4;
        for (int i = 0; i < 8; i++) {
            uint8_t *qh = block + 128 + k / 4 * 32 + 4 * i;
            uint32_t plane = load32(from + i / 4 * B1I_LINE);
            store32(qh, load32(qh) | (plane >> i % 4 * 2 & 0x03030303) << 2 * m);
        }
        get_nibbles(from + 2 * B1I_LINE, m < 2 ? 0 : 4, block + k / 4 * 64 + m % 2 * 32);
    }
}

static const row16_format row16_formats[b1i_format_count] = {
    [b1i_q8_0] = {B1I_BODY_Q8_0, 2, put_q8_0, get_q8_0}, [b1i_q4_0] = {B1I_BODY_Q4_0, 2, put_q4_0, get_q4_0},
    [b1i_q4_1] = {B1I_BODY_Q4_1, 1, put_q4_1, get_q4_1}, [b1i_q5_0] = {B1I_BODY_Q5_0, 2, put_q5_0, get_q5_0},
    [b1i_q5_1] = {B1I_BODY_Q5_1, 1, put_q5_1, get_q5_1}, [b1i_q4_k] = {B1I_BODY_Q4_K, 1, put_q4_k, get_q4_k},
    [b1i_q5_k] = {B1I_BODY_Q5_K, 1, put_q5_k, get_q5_k}, [b1i_q6_k] = {B1I_BODY_Q6_K, 2, put_q6_k, get_q6_k},
};

/* Where block b of a panel has its scale line and its body. */
static size_t unit_offset(const row16_format *f, int64_t b)
{
    return (size_t)(b / f->per_line) * (size_t)(B1I_LINE + f->per_line * f->body);
}
static size_t scale_offset(const row16_format *f, int64_t b)
{
    return unit_offset(f, b) + (size_t)(b % f->per_line) * 32;
}
static size_t body_offset(const row16_format *f, int64_t b)
{
    return unit_offset(f, b) + B1I_LINE + (size_t)(b % f->per_line) * (size_t)f->body;
}

/* ---- row16 ---- */

static size_t row16_panel_bytes(b1i_format_id format, int64_t cols)
{
    const row16_format *f = &row16_formats[format];
    size_t even = (size_t)(cols + 1) / 2 * 2;
    if (!f->body) return B1I_PANEL * even * (size_t)b1i_formats[format].block_bytes;
    int64_t blocks = cols / b1i_formats[format].block;
    return (size_t)blocks * (size_t)f->body + (size_t)((blocks + f->per_line - 1) / f->per_line) * B1I_LINE;
}

/* Words of `word` bytes, [words] a row, to [words][16 rows]; lines of a row are read whole before the next row's. */
static void transpose(const uint8_t *rows, size_t row_bytes, int count, size_t word, uint8_t *out)
{
    size_t words = row_bytes / word, step = B1I_LINE / word;
    for (size_t at = 0; at < words; at += step) {
        size_t n = words - at < step ? words - at : step;
        for (int r = 0; r < count; r++) {
            const uint8_t *from = rows + (size_t)r * row_bytes + at * word;
            uint8_t *to = out + (at * B1I_PANEL + (size_t)r) * word;
            if (word == 4)
                for (size_t i = 0; i < n; i++) memcpy(to + i * B1I_PANEL * 4, from + i * 4, 4);
            else
                for (size_t i = 0; i < n; i++) memcpy(to + i * B1I_PANEL * 2, from + i * 2, 2);
        }
    }
}

static void row16_pack(b1i_format_id format, int64_t cols, const uint8_t *rows, int count, uint8_t *out)
{
    const row16_format *f = &row16_formats[format];
    const b1i_format *ff = &b1i_formats[format];
    size_t row_bytes = b1i_format_bytes(format, (uint64_t)cols);
    bool tail = !f->body ? cols % 2 != 0 : cols / ff->block % f->per_line != 0;
    if (count < B1I_PANEL || tail) memset(out, 0, row16_panel_bytes(format, cols));
    if (format == b1i_bf16) {
        transpose(rows, row_bytes, count, 4, out);
        if (cols % 2)
            for (int r = 0; r < count; r++)
                memcpy(out + (cols / 2 * B1I_PANEL + r) * 4, rows + (size_t)(r + 1) * row_bytes - 2, 2);
        return;
    }
    if (!f->body) {
        transpose(rows, row_bytes, count, (size_t)ff->block_bytes, out);
        return;
    }
    int64_t blocks = cols / ff->block;
    for (int64_t b = 0; b < blocks; b++) {
        uint8_t *scale = out + scale_offset(f, b), *body = out + body_offset(f, b);
        const uint8_t *block = rows + (size_t)b * (size_t)ff->block_bytes;
        for (int r = 0; r < count; r++) f->put(block + (size_t)r * row_bytes, scale + 2 * r, body + 4 * r, r);
    }
}

static void row16_unpack_row(b1i_format_id format, int64_t cols, const uint8_t *panel, int lane, float *out)
{
    const row16_format *f = &row16_formats[format];
    const b1i_format *ff = &b1i_formats[format];
    uint8_t block[256];
    if (!f->body) {
        size_t word = (size_t)ff->block_bytes;
        for (int64_t c = 0; c < cols; c++) {
            size_t i = (size_t)(format == b1i_bf16 ? (c / 2 * B1I_PANEL + lane) * 2 + c % 2 : c * B1I_PANEL + lane);
            ff->dequantise(panel + i * word, 1, out + c);
        }
        return;
    }
    for (int64_t b = 0; b < cols / ff->block; b++) {
        f->get(panel + scale_offset(f, b) + 2 * lane, panel + body_offset(f, b) + 4 * lane, lane, block);
        ff->dequantise(block, ff->block, out + b * ff->block);
    }
}

/* ---- plain ---- */

static size_t plain_panel_bytes(b1i_format_id format, int64_t cols) { return b1i_format_bytes(format, (uint64_t)cols); }

static void plain_pack(b1i_format_id format, int64_t cols, const uint8_t *rows, int count, uint8_t *out)
{
    if (count > 0) memcpy(out, rows, plain_panel_bytes(format, cols));
}

static void plain_unpack_row(b1i_format_id format, int64_t cols, const uint8_t *panel, int lane, float *out)
{
    (void)lane;
    b1i_formats[format].dequantise(panel, cols, out);
}

const b1i_layout b1i_layouts[b1i_layout_count] = {
    [b1i_layout_plain] = {"plain", 1, plain_panel_bytes, plain_pack, plain_unpack_row},
    [b1i_layout_row16] = {"row16", B1I_PANEL, row16_panel_bytes, row16_pack, row16_unpack_row},
};

/* ---- packed weights ---- */

void b1i_packed_shape(const b1i_tensor *t, b1i_layout_id layout, b1i_packed *out)
{
    const b1i_layout *l = &b1i_layouts[layout];
    out->format = t->format;
    out->layout = layout;
    out->rows = t->rows;
    out->cols = t->cols;
    out->panels = (t->rows + l->panel_rows - 1) / l->panel_rows;
    out->panel_bytes = l->panel_bytes(t->format, t->cols);
}

size_t b1i_packed_bytes(const b1i_packed *p) { return (size_t)p->panels * p->panel_bytes; }

void b1i_pack_panels(const b1i_tensor *t, b1i_packed *out, int64_t begin, int64_t end, uint8_t *scratch)
{
    const b1i_layout *l = &b1i_layouts[out->layout];
    bool direct = t->data && t->permuted_heads == 0;
    size_t row_bytes = b1i_format_bytes(t->format, (uint64_t)t->cols);
    for (int64_t p = begin; p < end; p++) {
        int64_t row = p * l->panel_rows, left = t->rows - row;
        int count = left < l->panel_rows ? (int)left : l->panel_rows;
        const uint8_t *rows = direct ? t->data + (size_t)row * row_bytes : scratch;
        if (!direct) b1i_tensor_rows(t, row, count, scratch);
        l->pack(out->format, out->cols, rows, count, out->data + (size_t)p * out->panel_bytes);
    }
}

void b1i_packed_row(const b1i_packed *p, int64_t row, float *out)
{
    const b1i_layout *l = &b1i_layouts[p->layout];
    const uint8_t *panel = p->data + (size_t)(row / l->panel_rows) * p->panel_bytes;
    l->unpack_row(p->format, p->cols, panel, (int)(row % l->panel_rows), out);
}
