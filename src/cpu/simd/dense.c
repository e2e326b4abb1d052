/* SPDX-License-Identifier: MIT
 *
 * Tiles of f32, f16 and bf16 weights: 16 outputs × T rows of x. Two columns a turn; the columns' sums alternate
 * between S accumulators, so that the adder's latency is hidden where T is small.
 * Bytes moved: the panel once, x from the first-level cache. x is f32, or bf16 where the set multiplies bf16 itself.
 */
#include "cpu/simd/simd.h"

/* Columns c and c + 1 of 16 rows, c even. */
B1I_OP void weights(b1i_format_id format, const uint8_t *panel, int64_t c, vf *w0, vf *w1)
{
    if (format == b1i_f32) {
        *w0 = vf_load((const float *)panel + c * 16);
        *w1 = vf_load((const float *)panel + c * 16 + 16);
        v_ahead(panel + c * 64);
        v_ahead(panel + c * 64 + 64);
    } else if (format == b1i_f16) {
        *w0 = vf_load_f16((const uint16_t *)panel + c * 16);
        *w1 = vf_load_f16((const uint16_t *)panel + c * 16 + 16);
        v_ahead(panel + c * 32);
    } else {
        vi both = vi_load(panel + c * 32);
        *w0 = vf_low_bf16(both);
        *w1 = vf_high_bf16(both);
        v_ahead(panel + c * 32);
    }
}

/* Column c of a row of x in all lanes. */
B1I_OP vf x_at(const uint8_t *x, int64_t c)
{
#ifdef VB_DOT
    return vf_set(b1i_bf16_to_f32(((const uint16_t *)x)[c]));
#else
    return vf_set(((const float *)x)[c]);
#endif
}

/* Two columns into one sum of each row (sums apart where S > 1). */
B1I_OP void turn(b1i_format_id format, int T, int S, const uint8_t *panel, int64_t c, const uint8_t *const *x, vf *s0,
                 vf *s1)
{
    (void)S;
#ifdef VB_DOT
    if (format == b1i_bf16) {
        vi w = vi_load(panel + c * 32);
        v_ahead(panel + c * 32);
        B1I_UNROLL for (int t = 0; t < T; t++) s0[t] = vb_dot(s0[t], w, (const uint16_t *)x[t] + c);
        return;
    }
#endif
    vf w0, w1;
    if (format == b1i_bf16 && T >= 6) { /* one column after the other: registers are short */
        const uint8_t *p = panel + c * 32;
        w0 = vf_low_bf16(vi_load(p));
        v_ahead(p);
        B1I_UNROLL for (int t = 0; t < T; t++) s0[t] = vf_fma(w0, x_at(x[t], c), s0[t]);
        v_keep_pointer(p);
        w1 = vf_high_bf16(vi_load(p));
        B1I_UNROLL for (int t = 0; t < T; t++) s1[t] = vf_fma(w1, x_at(x[t], c + 1), s1[t]);
        return;
    }
    weights(format, panel, c, &w0, &w1);
    B1I_UNROLL for (int t = 0; t < T; t++)
    {
        s0[t] = vf_fma(w0, x_at(x[t], c), s0[t]);
        s1[t] = vf_fma(w1, x_at(x[t], c + 1), s1[t]);
    }
}

/* S: 1, 2 or 4 sums a row. */
B1I_OP void tile(b1i_format_id format, int T, const uint8_t *panel, int64_t cols, const b1i_act *a, int row, float *out)
{
    const int S = B1I_DENSE_SUMS >= 4 * T ? 4 : B1I_DENSE_SUMS >= 2 * T ? 2 : 1;
    const uint8_t *x[8];
    vf s[4][8];
    int64_t c = 0, even = (cols + 1) / 2 * 2;
    B1I_UNROLL for (int t = 0; t < T; t++) x[t] = a->data + (size_t)(row + t) * a->stride;
    B1I_UNROLL for (int i = 0; i < S; i++) B1I_UNROLL for (int t = 0; t < T; t++) s[i][t] = vf_zero();
    for (; c + 4 <= even; c += 4) {
        turn(format, T, S, panel, c, x, s[0], s[S > 1]);
        turn(format, T, S, panel, c + 2, x, s[S > 2 ? 2 : 0], s[S > 2 ? 3 : S > 1]);
    }
    if (c < even) turn(format, T, S, panel, c, x, s[0], s[S > 1]);
    B1I_UNROLL for (int t = 0; t < T; t++)
    {
        vf sum = s[0][t];
        if (S == 2) sum = vf_add(sum, s[1][t]);
        if (S == 4) sum = vf_add(vf_add(sum, s[1][t]), vf_add(s[2][t], s[3][t]));
        vf_store(out + 16 * t, sum);
    }
}

#if B1I_DENSE_TILE > 2
#define MANY(format)                                                  \
    case 4:                                                           \
        tile(b1i_##format, 4, panel, cols, a, row, out);              \
        break;                                                        \
    default:                                                          \
        tile(b1i_##format, B1I_DENSE_TILE, panel, cols, a, row, out); \
        break;
#else
#define MANY(format)
#endif
#define TILES(format)                                                                                              \
    static void tile_##format(const uint8_t *panel, int64_t cols, const b1i_act *a, int row, int rows, float *out) \
    {                                                                                                              \
        switch (rows) {                                                                                            \
        case 1:                                                                                                    \
            tile(b1i_##format, 1, panel, cols, a, row, out);                                                       \
            break;                                                                                                 \
        case 2:                                                                                                    \
            tile(b1i_##format, 2, panel, cols, a, row, out);                                                       \
            break;                                                                                                 \
            MANY(format)                                                                                           \
        }                                                                                                          \
    }
TILES(f32)
TILES(f16)
TILES(bf16)

void B1I_NAME(dense_tile)(b1i_format_id format, const uint8_t *panel, int64_t cols, const b1i_act *x, int row, int rows,
                          float *out)
{
    if (format == b1i_f32)
        tile_f32(panel, cols, x, row, rows, out);
    else if (format == b1i_f16)
        tile_f16(panel, cols, x, row, rows, out);
    else
        tile_bf16(panel, cols, x, row, rows, out);
}
