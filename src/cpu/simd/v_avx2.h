/* SPDX-License-Identifier: MIT
 *
 * 16 lanes as two 256-bit registers. Included by simd.h alone, for avx2 and avxvnni.
 */
#include <immintrin.h>

typedef struct vf {
    __m256 a, b;
} vf;
typedef struct vi {
    __m256i a, b;
} vi;

/* A value that the compiler must have in registers here, as it is. */
#define v_keep(x) __asm__("" : "+x"((x).a), "+x"((x).b))

#define B1I_F1(name, expr)                                         \
    B1I_OP __m256 name##_half(__m256 x, __m256 y) { return expr; } \
    B1I_OP vf name(vf x, vf y) { return (vf){name##_half(x.a, y.a), name##_half(x.b, y.b)}; }
#define B1I_I1(name, expr)                                            \
    B1I_OP __m256i name##_half(__m256i x, __m256i y) { return expr; } \
    B1I_OP vi name(vi x, vi y) { return (vi){name##_half(x.a, y.a), name##_half(x.b, y.b)}; }

B1I_OP vf vf_zero(void) { return (vf){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
B1I_OP vf vf_set(float x) { return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
B1I_OP vf vf_load(const float *p) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
B1I_OP void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
B1I_F1(vf_add, _mm256_add_ps(x, y))
B1I_F1(vf_sub, _mm256_sub_ps(x, y))
B1I_F1(vf_mul, _mm256_mul_ps(x, y))
B1I_F1(vf_div, _mm256_div_ps(x, y))
B1I_F1(vf_max, _mm256_max_ps(x, y))
B1I_F1(vf_min, _mm256_min_ps(x, y))
B1I_OP vf vf_fma(vf x, vf y, vf z) { return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }

B1I_OP vi vi_zero(void) { return (vi){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
B1I_OP vi vi_set(int32_t x) { return (vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
B1I_OP vi vi_load(const void *p)
{
    return (vi){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
B1I_OP void vi_store(void *p, vi x)
{
    _mm256_storeu_si256((__m256i *)p, x.a);
    _mm256_storeu_si256((__m256i *)p + 1, x.b);
}
B1I_OP vi vi_load_i8(const int8_t *p)
{
    return (vi){_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}
B1I_I1(vi_and, _mm256_and_si256(x, y))
B1I_I1(vi_or, _mm256_or_si256(x, y))
B1I_I1(vi_xor, _mm256_xor_si256(x, y))
B1I_I1(vi_add, _mm256_add_epi32(x, y))
B1I_I1(vi_sub, _mm256_sub_epi32(x, y))
B1I_I1(vi_max, _mm256_max_epi32(x, y))
B1I_OP vi vi_or_and(vi x, vi y, vi z) { return vi_or(x, vi_and(y, z)); }
#define vi_shl(x, n) ((vi){_mm256_slli_epi32((x).a, n), _mm256_slli_epi32((x).b, n)})
#define vi_shr(x, n) ((vi){_mm256_srli_epi32((x).a, n), _mm256_srli_epi32((x).b, n)})
#define vi_sar(x, n) ((vi){_mm256_srai_epi32((x).a, n), _mm256_srai_epi32((x).b, n)})

B1I_OP vf vf_from(vi x) { return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
B1I_OP vi vi_round(vf x) { return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
B1I_OP vf vf_bits(vi x) { return (vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
B1I_OP vi vi_bits(vf x) { return (vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }

B1I_OP vf vf_load_f16(const uint16_t *p)
{
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p + 1))};
}
B1I_OP void vf_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, 0));
    _mm_storeu_si128((__m128i *)p + 1, _mm256_cvtps_ph(x.b, 0));
}
/* 8 halves, in both lanes, to the upper halves of 8 dwords. */
B1I_OP __m256 widen_half(const uint16_t *p)
{
    const __m256i pick = _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1, -1,
                                          10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
    __m256i both = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_shuffle_epi8(both, pick));
}
B1I_OP vf vf_load_bf16(const uint16_t *p) { return (vf){widen_half(p), widen_half(p + 8)}; }
B1I_OP void vi_store_u16(uint16_t *p, vi x)
{
    vi low = vi_and(x, vi_set(0xffff));
    __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(low.a, low.b), 0xd8);
    _mm256_storeu_si256((__m256i *)p, both);
}
B1I_OP void vi_store_i8(int8_t *p, vi x)
{
    __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    _mm_storeu_si128((__m128i *)p, bytes);
}

B1I_OP vi vi_mul_halves(vi x, int16_t low, int16_t high)
{
    __m256i y = _mm256_set1_epi32((int32_t)((uint16_t)low | (uint32_t)(uint16_t)high << 16));
    return (vi){_mm256_madd_epi16(x.a, y), _mm256_madd_epi16(x.b, y)};
}

#if defined(__AVXVNNI__)
enum { VD_RUN = 0, VD_BYTES = 1 };
typedef vi vd;
B1I_OP vd vd_begin(vi sum) { return sum; }
B1I_OP vd vd_dot(vd s, vi w, const int8_t *x)
{
    __m256i y = _mm256_set1_epi32(b1i_word(x));
    return (vi){_mm256_dpbusd_avx_epi32(s.a, w.a, y), _mm256_dpbusd_avx_epi32(s.b, w.b, y)};
}
B1I_OP vi vd_end(vi sum, vd s)
{
    (void)sum;
    return s;
}
enum { VS_ZERO = 128 };
B1I_OP vi vs_weights(vi w) { return vi_xor(w, vi_set((int)0x80808080)); }
B1I_OP vi vs_dot(vi s, vi w, const int8_t *x) { return vd_dot(s, w, x); }
#else
enum { VD_RUN = 1, VD_BYTES = 0 };
typedef vi vd; /* 32 sums of 16 bits */
B1I_OP vd vd_begin(vi sum)
{
    (void)sum;
    return vi_zero();
}
/* Kept as written: the compiler would make trees of these sums, and then lack registers for their leaves. */
B1I_OP vd vd_dot(vd s, vi w, const int8_t *x)
{
    __m256i y = _mm256_set1_epi32(b1i_word(x));
    s.a = _mm256_add_epi16(s.a, _mm256_maddubs_epi16(w.a, y));
    s.b = _mm256_add_epi16(s.b, _mm256_maddubs_epi16(w.b, y));
    v_keep(s);
    return s;
}
B1I_OP vi vd_end(vi sum, vd s)
{
    __m256i one = _mm256_set1_epi16(1);
    return vi_add(sum, (vi){_mm256_madd_epi16(s.a, one), _mm256_madd_epi16(s.b, one)});
}
enum { VS_ZERO = 0 };
B1I_OP vi vs_weights(vi w) { return w; }
B1I_OP __m256i vs_dot_half(__m256i s, __m256i w, __m256i y)
{
    __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(y, w));
    return _mm256_add_epi32(s, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
}
B1I_OP vi vs_dot(vi s, vi w, const int8_t *x)
{
    __m256i y = _mm256_set1_epi32(b1i_word(x));
    s.a = vs_dot_half(s.a, w.a, y);
    s.b = vs_dot_half(s.b, w.b, y);
    v_keep(s);
    return s;
}
#endif

/* Accumulators that hide the adder's latency; rows of x a tile takes; vectors of values side by side; query
 * heads that share a key or value; blocks of keys that share a query;
 * scores up to which even and odd elements have sums of their own. */
#define B1I_DENSE_SUMS  4
#define B1I_DENSE_TILE  6
#define B1I_QUANT_TILE  4
#define B1I_VALUE_WIDTH 1
#define B1I_HEADS       4
#define B1I_KEY_BLOCKS  1
#define B1I_SCORE_SUMS  2

/* What is loaded from here is loaded anew. */
#define v_keep_pointer(p) __asm__("" : "+r"(p))
#define v_prefetch(p)     _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define v_prefetch_far(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)
