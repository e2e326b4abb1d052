/* SPDX-License-Identifier: MIT
 *
 * Tiles of quantised weights: 16 outputs × T rows of x in int8 blocks of 32 (plan/row16.h says how the panel lies).
 * A block's dots are exact integers; they become float once a block, times the scales of 16 rows and of x. Weights are
 * unpacked once for all T rows. Zero points (8, 16, 32) start the integer sum as −zero · Σ x; mins add
 * −min · (scale · Σ x) in float. Bytes moved: the panel once, x from the first-level cache.
 */
#include "cpu/simd/simd.h"
#include "plan/row16.h"

typedef const b1i_act_block *rows_of_x;

#define EACH_ROW B1I_UNROLL for (int t = 0; t < T; t++)

/* sum[t] += the dot of 32 columns in form N (4 bits) or H N (5 bits) with block b of x. */
B1I_OP void dots(int bits, int T, const uint8_t *body, const rows_of_x *x, int64_t b, vi *sum)
{
    const vi nibble = vi_set(0x0f0f0f0f), fifth = vi_set(0x10101010), upper = vi_set((int)0xf0f0f0f0);
    /* Dots that take whole bytes leave the high nibbles where they are: 16 times too large, summed apart. */
    const bool unshifted = VD_BYTES && bits == 4 && T <= 2;
    const vi plane = bits == 5 ? vi_load(body) : vi_zero();
    const uint8_t *q = bits == 5 ? body + B1I_LINE : body;
    vd d[8], e[8];
    if (bits == 5) v_ahead(body);
    EACH_ROW d[t] = vd_begin(sum[t]);
    if (unshifted) EACH_ROW e[t] = vd_begin(vi_zero());
    B1I_UNROLL for (int i = 0; i < 4; i++)
    {
        vi w = vi_load(q + i * B1I_LINE);
        v_keep(w);
        v_ahead(q + i * B1I_LINE);
        vi low = vi_and(w, nibble);
        if (bits == 5) low = vi_or_and(low, vi_shl(plane, 4 - i), fifth);
        EACH_ROW d[t] = vd_dot(d[t], low, x[t][b].q + 4 * i);
        vi high = unshifted ? vi_and(w, upper) : vi_and(vi_shr(w, 4), nibble);
        if (bits == 5) high = vi_or_and(high, vi_shr(plane, i), fifth);
        EACH_ROW
        {
            if (unshifted)
                e[t] = vd_dot(e[t], high, x[t][b].q + 16 + 4 * i);
            else
                d[t] = vd_dot(d[t], high, x[t][b].q + 16 + 4 * i);
        }
        if (bits == 5 && i == 1 && VD_RUN) EACH_ROW
            {
                sum[t] = vd_end(sum[t], d[t]);
                d[t] = vd_begin(sum[t]);
            }
    }
    EACH_ROW sum[t] = vd_end(sum[t], d[t]);
    if (unshifted) EACH_ROW sum[t] = vi_add(sum[t], vi_sar(vd_end(vi_zero(), e[t]), 4));
}

/* The block's own scale of x. */
B1I_OP vf scaled(vi sum, const b1i_act_block *x) { return vf_mul(vf_from(sum), vf_set(x->scale)); }

/* 4 or 5 bits with a zero point. */
B1I_OP void block_zero(int bits, int T, const uint8_t *scale, const uint8_t *body, const rows_of_x *x, int64_t b,
                       vf *acc)
{
    vi sum[8];
    EACH_ROW sum[t] = vi_mul_halves(vi_set(x[t][b].sum), bits == 4 ? -8 : -16, 0);
    dots(bits, T, body, x, b, sum);
    vf d = vf_load_f16((const uint16_t *)scale);
    EACH_ROW acc[t] = vf_fma(scaled(sum[t], &x[t][b]), d, acc[t]);
}

/* 4 or 5 bits with scales d and mins m, which are added. */
B1I_OP void block_min(int bits, int T, vf d, vf m, const uint8_t *body, const rows_of_x *x, int64_t b, vf *acc)
{
    vi sum[8];
    EACH_ROW sum[t] = vi_zero();
    dots(bits, T, body, x, b, sum);
    EACH_ROW
    {
        acc[t] = vf_fma(scaled(sum[t], &x[t][b]), d, acc[t]);
        acc[t] = vf_fma(vf_set(x[t][b].scaled_sum), m, acc[t]);
    }
}

B1I_OP void block_q8_0(int T, const uint8_t *scale, const uint8_t *body, const rows_of_x *x, int64_t b, vf *acc)
{
    vi sum[8];
    EACH_ROW sum[t] = VS_ZERO ? vi_mul_halves(vi_set(x[t][b].sum), -VS_ZERO, 0) : vi_zero();
    B1I_UNROLL for (int i = 0; i < 8; i++)
    {
        vi w = vs_weights(vi_load(body + i * B1I_LINE));
        v_ahead(body + i * B1I_LINE);
        EACH_ROW sum[t] = vs_dot(sum[t], w, x[t][b].q + 4 * i);
    }
    vf d = vf_load_f16((const uint16_t *)scale);
    EACH_ROW acc[t] = vf_fma(scaled(sum[t], &x[t][b]), d, acc[t]);
}

/* Units of two blocks that share a scale line; a last one may be alone. */
#define PAIRS(name, body_bytes, block)                                                              \
    B1I_OP void tile_##name(int T, const uint8_t *panel, int64_t cols, const rows_of_x *x, vf *acc) \
    {                                                                                               \
        const int64_t blocks = cols / 32;                                                           \
        for (int64_t b = 0; b + 2 <= blocks; b += 2, panel += B1I_LINE + 2 * body_bytes) {          \
            v_ahead(panel);                                                                         \
            block(T, panel, panel + B1I_LINE, x, b, acc);                                           \
            block(T, panel + 32, panel + B1I_LINE + body_bytes, x, b + 1, acc);                     \
        }                                                                                           \
        if (blocks % 2) block(T, panel, panel + B1I_LINE, x, blocks - 1, acc);                      \
    }
#define BLOCK_Q4_0(T, scale, body, x, b, acc) block_zero(4, T, scale, body, x, b, acc)
#define BLOCK_Q5_0(T, scale, body, x, b, acc) block_zero(5, T, scale, body, x, b, acc)
PAIRS(q8_0, B1I_BODY_Q8_0, block_q8_0)
PAIRS(q4_0, B1I_BODY_Q4_0, BLOCK_Q4_0)
PAIRS(q5_0, B1I_BODY_Q5_0, BLOCK_Q5_0)

B1I_OP void tile_min(int bits, int T, const uint8_t *panel, int64_t cols, const rows_of_x *x, vf *acc)
{
    const int64_t blocks = cols / 32;
    for (int64_t b = 0; b < blocks; b++, panel += B1I_LINE + (bits == 4 ? B1I_BODY_Q4_1 : B1I_BODY_Q5_1)) {
        vf d = vf_load_f16((const uint16_t *)panel), m = vf_load_f16((const uint16_t *)panel + 16);
        v_ahead(panel);
        block_min(bits, T, d, m, panel + B1I_LINE, x, b, acc);
    }
}
#define tile_q4_1(T, panel, cols, x, acc) tile_min(4, T, panel, cols, x, acc)
#define tile_q5_1(T, panel, cols, x, acc) tile_min(5, T, panel, cols, x, acc)

/* Eight sub-blocks against one row of x. Scales and mins are used where they lie in their dwords, 2^6, 2^12 and 2^18
 * times too large, and have sums of their own. */
B1I_OP void superblock_one(int bits, vf d, vf m, const vi *pair, const uint8_t *body, const rows_of_x *x, int64_t b,
                           vf *acc)
{
    const int step = bits == 4 ? 256 : 320;
    vf low = vf_zero(), high = vf_zero(), low_min = vf_zero(), high_min = vf_zero();
    for (int p = 0; p < 4; p++, b += 2, body += 2 * step) {
        const b1i_act_block *one = x[0] + b;
        vi s = pair[p], sum[2] = {vi_zero(), vi_zero()};
        dots(bits, 1, body, x, b, &sum[0]);
        dots(bits, 1, body + step, x, b + 1, &sum[1]);
        low = vf_fma(scaled(sum[0], one), vf_from(vi_and(s, vi_set(63))), low);
        high = vf_fma(scaled(sum[1], one + 1), vf_from(vi_and(s, vi_set(63 << 12))), high);
        low_min = vf_fma(vf_set(one->scaled_sum), vf_from(vi_and(s, vi_set(63 << 6))), low_min);
        high_min = vf_fma(vf_set(one[1].scaled_sum), vf_from(vi_and(s, vi_set(63 << 18))), high_min);
    }
    acc[0] = vf_fma(vf_fma(high, vf_set(0x1p-12f), low), d, acc[0]);
    acc[0] = vf_fma(vf_fma(high_min, vf_set(0x1p-12f), low_min), vf_mul(m, vf_set(0x1p-6f)), acc[0]);
}

/* Q4_K and Q5_K. */
B1I_OP void tile_k(int bits, int T, const uint8_t *panel, int64_t cols, const rows_of_x *x, vf *acc)
{
    const vi six = vi_set(63), byte = vi_set(255);
    const int step = bits == 4 ? 256 : 320;
    for (int64_t b = 0; b < cols / 32; b += 8) {
        vf d = vf_load_f16((const uint16_t *)panel);
        vf m = vf_sub(vf_zero(), vf_load_f16((const uint16_t *)panel + 16));
        vi pair[4];
        B1I_UNROLL for (int i = 0; i < 4; i++) v_ahead(panel + i * B1I_LINE);
        for (int p = 0; p < 3; p++) pair[p] = vi_load(panel + (1 + p) * B1I_LINE);
        pair[3] = vi_or(vi_shr(pair[0], 24), vi_shl(vi_shr(pair[1], 24), 8));
        pair[3] = vi_or(pair[3], vi_shl(vi_and(vi_shr(pair[2], 24), byte), 16));
        panel += 4 * B1I_LINE;
        if (T == 1) {
            superblock_one(bits, d, m, pair, panel, x, b, acc);
            panel += 8 * step;
            continue;
        }
        for (int p = 0; p < 4; p++, panel += 2 * step) {
            vi s = pair[p];
            vf d0 = vf_mul(d, vf_from(vi_and(s, six))), m0 = vf_mul(m, vf_from(vi_and(vi_shr(s, 6), six)));
            vf d1 = vf_mul(d, vf_from(vi_and(vi_shr(s, 12), six)));
            vf m1 = vf_mul(m, vf_from(vi_and(vi_shr(s, 18), six)));
            block_min(bits, T, d0, m0, panel, x, b + 2 * p, acc);
            block_min(bits, T, d1, m1, panel + step, x, b + 2 * p + 1, acc);
        }
    }
}
#define tile_q4_k(T, panel, cols, x, acc) tile_k(4, T, panel, cols, x, acc)
#define tile_q5_k(T, panel, cols, x, acc) tile_k(5, T, panel, cols, x, acc)

/* 32 columns of Q6_K, P P N: sub-blocks of 16, so that the low and the high nibbles have sums of their own. */
B1I_OP void block_q6(int T, vf d0, vf d1, const uint8_t *body, const rows_of_x *x, int64_t b, vf *acc)
{
    const vi nibble = vi_set(0x0f0f0f0f), high2 = vi_set(0x30303030);
    const vi p0 = vi_load(body), p1 = vi_load(body + B1I_LINE);
    vi s0[8], s1[8];
    vd e0[8], e1[8];
    v_ahead(body);
    v_ahead(body + B1I_LINE);
    EACH_ROW
    {
        vi half = vi_set(b1i_word(x[t][b].half));
        s0[t] = vi_mul_halves(half, -32, 0);
        s1[t] = vi_mul_halves(half, 0, -32);
        e0[t] = vd_begin(s0[t]);
        e1[t] = vd_begin(s1[t]);
    }
    B1I_UNROLL for (int i = 0; i < 4; i++)
    {
        vi w = vi_load(body + (2 + i) * B1I_LINE);
        v_ahead(body + (2 + i) * B1I_LINE);
        vi q0 = i == 0 ? vi_shl(p0, 4) : i == 1 ? vi_shl(p0, 2) : i == 2 ? p0 : vi_shr(p0, 2);
        vi q1 = i == 0 ? vi_shl(p1, 4) : i == 1 ? vi_shl(p1, 2) : i == 2 ? p1 : vi_shr(p1, 2);
        vi low = vi_or_and(vi_and(w, nibble), q0, high2);
        vi high = vi_or_and(vi_and(vi_shr(w, 4), nibble), q1, high2);
        EACH_ROW e0[t] = vd_dot(e0[t], low, x[t][b].q + 4 * i);
        EACH_ROW e1[t] = vd_dot(e1[t], high, x[t][b].q + 16 + 4 * i);
        if (i == 1 && VD_RUN) EACH_ROW
            {
                s0[t] = vd_end(s0[t], e0[t]);
                s1[t] = vd_end(s1[t], e1[t]);
                e0[t] = vd_begin(s0[t]);
                e1[t] = vd_begin(s1[t]);
            }
    }
    EACH_ROW
    {
        vf f = vf_mul(vf_from(vd_end(s0[t], e0[t])), d0);
        f = vf_fma(vf_from(vd_end(s1[t], e1[t])), d1, f);
        acc[t] = vf_fma(f, vf_set(x[t][b].scale), acc[t]);
    }
}

B1I_OP void tile_q6_k(int T, const uint8_t *panel, int64_t cols, const rows_of_x *x, vf *acc)
{
    const uint8_t *line = panel;
    for (int64_t k = 0; k < cols / 256; k++) {
        if (k % 2 == 0) {
            line = panel;
            panel += B1I_LINE;
        }
        vf d = vf_load_f16((const uint16_t *)line + k % 2 * 16);
        const int8_t *scales = (const int8_t *)panel;
        B1I_UNROLL for (int i = 0; i < 4; i++) v_ahead(panel + i * B1I_LINE);
        panel += 256;
        for (int s = 0; s < 8; s++, panel += 384) {
            vf d0 = vf_mul(d, vf_from(vi_load_i8(scales + 32 * s)));
            vf d1 = vf_mul(d, vf_from(vi_load_i8(scales + 32 * s + 16)));
            block_q6(T, d0, d1, panel, x, k * 8 + s, acc);
        }
    }
}

/* One function per format and T. */
#define TILE(format, T)                                                                                 \
    static void format##_##T(const uint8_t *panel, int64_t cols, const b1i_act *a, int row, float *out) \
    {                                                                                                   \
        rows_of_x x[T];                                                                                 \
        vf acc[T];                                                                                      \
        B1I_UNROLL for (int t = 0; t < T; t++)                                                          \
        {                                                                                               \
            x[t] = b1i_act_i8(a, row + t);                                                              \
            acc[t] = vf_zero();                                                                         \
        }                                                                                               \
        tile_##format(T, panel, cols, x, acc);                                                          \
        B1I_UNROLL for (int t = 0; t < T; t++) vf_store(out + 16 * t, acc[t]);                          \
    }
#if B1I_QUANT_TILE == 8
#define TILES(format) TILE(format, 1) TILE(format, 2) TILE(format, 4) TILE(format, 8)
#define ROW(format)   [b1i_##format] = {format##_1, format##_2, format##_4, format##_8},
#elif B1I_QUANT_TILE == 4
#define TILES(format) TILE(format, 1) TILE(format, 2) TILE(format, 4)
#define ROW(format)   [b1i_##format] = {format##_1, format##_2, format##_4},
#else
#define TILES(format) TILE(format, 1) TILE(format, 2)
#define ROW(format)   [b1i_##format] = {format##_1, format##_2},
#endif

#define QUANT_FORMATS(X) X(q8_0) X(q4_0) X(q4_1) X(q5_0) X(q5_1) X(q4_k) X(q5_k) X(q6_k)
QUANT_FORMATS(TILES)

typedef void (*tile_fn)(const uint8_t *panel, int64_t cols, const b1i_act *a, int row, float *out);
static const tile_fn tiles[b1i_format_count][4] = {QUANT_FORMATS(ROW)};

void B1I_NAME(quant_tile)(b1i_format_id format, const uint8_t *panel, int64_t cols, const b1i_act *x, int row, int rows,
                          float *out)
{
    tiles[format][rows >= 8 ? 3 : rows / 2](panel, cols, x, row, out);
}
