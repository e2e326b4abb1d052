/* SPDX-License-Identifier: MIT
 *
 * 16 lanes as one 512-bit register. Included by simd.h alone, for avx512, avx512vnni and avx512bf16.
 */
#include <immintrin.h>

typedef __m512 vf;
typedef __m512i vi;

/* A value that the compiler must have in a register here, as it is. */
#define v_keep(x) __asm__("" : "+v"(x))

B1I_OP vf vf_zero(void) { return _mm512_setzero_ps(); }
B1I_OP vf vf_set(float x) { return _mm512_set1_ps(x); }
B1I_OP vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
B1I_OP void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
B1I_OP vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
B1I_OP vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
B1I_OP vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
B1I_OP vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
B1I_OP vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
B1I_OP vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
B1I_OP vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }

B1I_OP vi vi_zero(void) { return _mm512_setzero_si512(); }
B1I_OP vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
B1I_OP vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
B1I_OP void vi_store(void *p, vi a) { _mm512_storeu_si512(p, a); }
B1I_OP vi vi_load_i8(const int8_t *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }
B1I_OP vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
B1I_OP vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
B1I_OP vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
B1I_OP vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
B1I_OP vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
B1I_OP vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
/* a | (b & c) */
B1I_OP vi vi_or_and(vi a, vi b, vi c) { return _mm512_ternarylogic_epi32(a, b, c, 0xf8); }
#define vi_shl(a, n) _mm512_slli_epi32(a, n)
#define vi_shr(a, n) _mm512_srli_epi32(a, n)
#define vi_sar(a, n) _mm512_srai_epi32(a, n)

B1I_OP vf vf_from(vi a) { return _mm512_cvtepi32_ps(a); }
B1I_OP vi vi_round(vf a) { return _mm512_cvtps_epi32(a); }
B1I_OP vf vf_bits(vi a) { return _mm512_castsi512_ps(a); }
B1I_OP vi vi_bits(vf a) { return _mm512_castps_si512(a); }

B1I_OP vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
B1I_OP void vf_store_f16(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, 0)); }
B1I_OP vf vf_load_bf16(const uint16_t *p)
{
    return vf_bits(vi_shl(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
/* The low halves of 16 dwords. */
B1I_OP void vi_store_u16(uint16_t *p, vi a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(a)); }
/* 16 dwords as int8, saturated. */
B1I_OP void vi_store_i8(int8_t *p, vi a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(a)); }

/* a.low · low + a.high · high of each dword's 16-bit halves */
B1I_OP vi vi_mul_halves(vi a, int16_t low, int16_t high)
{
    return _mm512_madd_epi16(a, _mm512_set1_epi32((int32_t)((uint16_t)low | (uint32_t)(uint16_t)high << 16)));
}

#if defined(__AVX512VNNI__)
enum { VD_RUN = 0, VD_BYTES = 1 };
typedef vi vd;
B1I_OP vd vd_begin(vi sum) { return sum; }
B1I_OP vd vd_dot(vd a, vi w, const int8_t *x) { return _mm512_dpbusd_epi32(a, w, vi_set(b1i_word(x))); }
B1I_OP vi vd_end(vi sum, vd a)
{
    (void)sum;
    return a;
}
enum { VS_ZERO = 128 };
B1I_OP vi vs_weights(vi w) { return vi_xor(w, vi_set((int)0x80808080)); }
B1I_OP vi vs_dot(vi a, vi w, const int8_t *x) { return _mm512_dpbusd_epi32(a, w, vi_set(b1i_word(x))); }
#else
enum { VD_RUN = 1, VD_BYTES = 0 };
typedef vi vd; /* 32 sums of 16 bits */
B1I_OP vd vd_begin(vi sum)
{
    (void)sum;
    return vi_zero();
}
B1I_OP vd vd_dot(vd a, vi w, const int8_t *x)
{
    a = _mm512_add_epi16(a, _mm512_maddubs_epi16(w, vi_set(b1i_word(x))));
    v_keep(a); /* else the compiler makes trees of these sums, and lacks registers for their leaves */
    return a;
}
B1I_OP vi vd_end(vi sum, vd a) { return vi_add(sum, _mm512_madd_epi16(a, _mm512_set1_epi16(1))); }
enum { VS_ZERO = 0 };
B1I_OP vi vs_weights(vi w) { return w; }
B1I_OP vi vs_dot(vi a, vi w, const int8_t *x)
{
    vi b = vi_set(b1i_word(x));
    b = _mm512_mask_sub_epi8(b, _mm512_movepi8_mask(w), vi_zero(), b);
    a = vi_add(a, _mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_abs_epi8(w), b), _mm512_set1_epi16(1)));
    v_keep(a);
    return a;
}
#endif

#if defined(__AVX512BF16__)
#define VB_DOT 1
/* a + w.low · x[0] + w.high · x[1], bfloat16 */
B1I_OP vf vb_dot(vf a, vi w, const uint16_t *x)
{
    return _mm512_dpbf16_ps(a, (__m512bh)w, (__m512bh)vi_set(b1i_word(x)));
}
#endif

/* Accumulators that hide the adder's latency; rows of x a tile takes; vectors of values side by side; query
 * heads that share a key or value; blocks of keys that share a query;
 * scores up to which even and odd elements have sums of their own. */
#define B1I_DENSE_SUMS  8
#define B1I_DENSE_TILE  8
#define B1I_QUANT_TILE  8
#define B1I_VALUE_WIDTH 2
#define B1I_HEADS       8
#define B1I_KEY_BLOCKS  2
#define B1I_SCORE_SUMS  8

/* What is loaded from here is loaded anew. */
#define v_keep_pointer(p) __asm__("" : "+r"(p))
#define v_prefetch(p)     _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define v_prefetch_far(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)
