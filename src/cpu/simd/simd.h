/* SPDX-License-Identifier: MIT
 *
 * The vector that all kernels are written over: 16 lanes of 32 bits, vf (float) and vi (int32), and a dot accumulator
 * vd. Every file of this folder is compiled once per instruction set, with B1I_ISA its name; the v_*.h of the set
 * gives the operations, all inlined. Nothing here is seen outside the folder but the tables' names in isa.h.
 *
 * Dots of 4 columns, w [16 lanes] of 4 bytes, x 4 int8 that all lanes share:
 *   vd_dot   w is unsigned, below 128 but where VD_BYTES is 1. Where VD_RUN is 1 a vd holds 16-bit sums, which take 8
 * dots of 4-bit weights, 4 of 5-bit or 2 of 6-bit ones before vd_end() must empty it; else a vd is a vi. Use: d =
 * vd_begin(sum); d = vd_dot(d, w, x) …; sum = vd_end(sum, d). vs_dot   w is signed, and has gone through vs_weights();
 * the result is too large by VS_ZERO · Σ x.
 */
#ifndef B1I_SIMD_H
#define B1I_SIMD_H

#include "cpu/kernels.h"

#include <math.h>
#include <string.h>

#define B1I_OP              static inline __attribute__((always_inline, unused))
#define B1I_PASTE(a, b, c)  a##b##_##c
#define B1I_EXPAND(a, b, c) B1I_PASTE(a, b, c)
/* B1I_NAME(linear) is b1i_avx2_linear where B1I_ISA is avx2. */
#define B1I_NAME(name) B1I_EXPAND(b1i_, B1I_ISA, name)
#define B1I_UNROLL     _Pragma("GCC unroll 16")

/* 4 bytes as they lie. */
B1I_OP int32_t b1i_word(const void *p)
{
    int32_t v;
    memcpy(&v, p, 4);
    return v;
}

#if defined(__AVX512F__)
#include "cpu/simd/v_avx512.h"
#elif defined(__AVX2__)
#include "cpu/simd/v_avx2.h"
#else
#include "cpu/simd/v_quarters.h"
#endif

/* ---- over any of them ---- */

enum { B1I_FAR = 12288, B1I_NEAR = 3072 };
/* Asks for what lies ahead in the stream of weights, across a panel's end too: every line far ahead into the
 * second-level cache, where it does not hold one of the first level's few buffers for as long as memory takes, and
 * nearer into the first. One of both, at any distance, keeps up less well. */
B1I_OP void v_ahead(const uint8_t *p)
{
    v_prefetch_far(p + B1I_FAR);
    v_prefetch(p + B1I_NEAR);
}

/* The lanes' sum and maximum, always in the same order. */
B1I_OP float vf_sum(vf a)
{
    float t[16];
    vf_store(t, a);
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++) t[i] += t[i + n];
    return t[0];
}
B1I_OP float vf_most(vf a)
{
    float t[16];
    vf_store(t, a);
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++) t[i] = t[i] > t[i + n] ? t[i] : t[i + n];
    return t[0];
}

/* The first n < 16 lanes; the others are 0, or not written. */
B1I_OP vf vf_load_part(const float *p, int64_t n)
{
    float t[16] = {0};
    memcpy(t, p, (size_t)n * 4);
    return vf_load(t);
}
B1I_OP void vf_store_part(float *p, int64_t n, vf a)
{
    float t[16];
    vf_store(t, a);
    memcpy(p, t, (size_t)n * 4);
}

/* Rounded to nearest even, in the low halves; NaN stays NaN. */
B1I_OP vi vi_to_bf16(vf a)
{
    vi bits = vi_bits(a);
    vi nan = vi_sar(vi_sub(vi_set(0x7f800000), vi_and(bits, vi_set(0x7fffffff))), 31);
    vi odd = vi_and(vi_shr(bits, 16), vi_set(1));
    vi r = vi_shr(vi_add(vi_add(bits, vi_set(0x7fff)), odd), 16);
    return vi_or_and(r, nan, vi_set(0x7fc0));
}
/* The two bfloat16 of each dword, as floats. */
B1I_OP vf vf_low_bf16(vi a) { return vf_bits(vi_shl(a, 16)); }
B1I_OP vf vf_high_bf16(vi a) { return vf_bits(vi_and(a, vi_set((int32_t)0xffff0000))); }

/* e^x for x of 88.3 at most: 2^n · p(r), |r| ≤ ln 2 / 2, p of degree 6 (its own error 0.2 ulp); exactly 0 below −87.7;
 * NaN stays NaN. n + 127 is rounded into the low bits of a large number, from where it moves into the exponent. */
B1I_OP vf vf_exp_below(vf x)
{
    const vf large = vf_set(12582912.0f + 127.0f);
    x = vf_max(vf_set(-88.0f), x);
    vf n = vf_fma(x, vf_set(1.44269504f), large), f = vf_sub(n, large);
    vf r = vf_fma(f, vf_set(-3.19461833e-05f), vf_fma(f, vf_set(-0.693115234f), x));
    vf p = vf_fma(r, vf_set(0.00139261817f), vf_set(0.008363178f));
    p = vf_fma(p, r, vf_set(0.0416665561f));
    p = vf_fma(p, r, vf_set(0.166665763f));
    p = vf_fma(p, r, vf_set(0.5f));
    p = vf_fma(p, r, vf_set(1));
    p = vf_fma(p, r, vf_set(1));
    return vf_mul(p, vf_bits(vi_shl(vi_bits(n), 23)));
}
/* Infinity above 88.3. */
B1I_OP vf vf_exp(vf x) { return vf_exp_below(vf_min(vf_set(88.7f), x)); }

/* ---- doors between the files of one instruction set ---- */

/* One tile: `T` rows of x from `row` against one panel; the sums go to out[T][16]. */
void B1I_NAME(linear)(const b1i_linear *args, int64_t begin, int64_t end);
void B1I_NAME(dense_tile)(b1i_format_id format, const uint8_t *panel, int64_t cols, const b1i_act *x, int row, int rows,
                          float *out);
void B1I_NAME(quant_tile)(b1i_format_id format, const uint8_t *panel, int64_t cols, const b1i_act *x, int row, int rows,
                          float *out);
void B1I_NAME(convert)(const float *x, b1i_act *out, int row);
void B1I_NAME(rmsnorm)(const float *x, const float *weight, int64_t count, float eps, float *out);
void B1I_NAME(rope)(float *x, int head_dim, const float *cos, const float *sin);
void B1I_NAME(kv_put)(const b1i_kv_head *kv, int pos, const float *k, const float *v);
void B1I_NAME(attention)(const b1i_attention *args);
void B1I_NAME(attention_merge)(const float *max, const float *sum, int64_t ms_stride, const float *out,
                               int64_t out_stride, int chunks, int head_dim, float *result);
void B1I_NAME(silu_mul)(const float *gate, const float *up, int64_t count, float *out);
void B1I_NAME(add)(float *y, const float *x, int64_t count);
void B1I_NAME(prefetch)(const void *p, size_t bytes);

#endif
