/* SPDX-License-Identifier: MIT
 *
 * 16 lanes as four 128-bit vectors of the compiler: "generic" for any machine, and the base of "neon" and "neondot",
 * which add what the compiler does not find by itself. Included by simd.h alone.
 */
typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef uint32_t u32x4 __attribute__((vector_size(16)));

typedef struct vf {
    f32x4 q[4];
} vf;
typedef struct vi {
    i32x4 q[4];
} vi;

/* A body that is repeated for the quarters i = 0 … 3 of the result r. */
#define B1I_EACH(type, expr)          \
    do {                              \
        type r_;                      \
        for (int i = 0; i < 4; i++) { \
            r_.q[i] = (expr);         \
        }                             \
        return r_;                    \
    } while (0)

B1I_OP vf vf_set(float x) { B1I_EACH(vf, ((f32x4){x, x, x, x})); }
B1I_OP vf vf_zero(void) { return vf_set(0); }
B1I_OP vf vf_load(const float *p)
{
    vf r;
    memcpy(&r, p, 64);
    return r;
}
B1I_OP void vf_store(float *p, vf x) { memcpy(p, &x, 64); }
B1I_OP vf vf_add(vf x, vf y) { B1I_EACH(vf, x.q[i] + y.q[i]); }
B1I_OP vf vf_sub(vf x, vf y) { B1I_EACH(vf, x.q[i] - y.q[i]); }
B1I_OP vf vf_mul(vf x, vf y) { B1I_EACH(vf, x.q[i] * y.q[i]); }
B1I_OP vf vf_div(vf x, vf y) { B1I_EACH(vf, x.q[i] / y.q[i]); }

B1I_OP vi vi_set(int32_t x) { B1I_EACH(vi, ((i32x4){x, x, x, x})); }
B1I_OP vi vi_zero(void) { return vi_set(0); }
B1I_OP vi vi_load(const void *p)
{
    vi r;
    memcpy(&r, p, 64);
    return r;
}
B1I_OP void vi_store(void *p, vi x) { memcpy(p, &x, 64); }
B1I_OP vi vi_and(vi x, vi y) { B1I_EACH(vi, x.q[i] & y.q[i]); }
B1I_OP vi vi_or(vi x, vi y) { B1I_EACH(vi, x.q[i] | y.q[i]); }
B1I_OP vi vi_xor(vi x, vi y) { B1I_EACH(vi, x.q[i] ^ y.q[i]); }
B1I_OP vi vi_add(vi x, vi y) { B1I_EACH(vi, x.q[i] + y.q[i]); }
B1I_OP vi vi_sub(vi x, vi y) { B1I_EACH(vi, x.q[i] - y.q[i]); }
B1I_OP vi vi_or_and(vi x, vi y, vi z) { return vi_or(x, vi_and(y, z)); }
B1I_OP vi vi_shl(vi x, int n) { B1I_EACH(vi, (i32x4)((u32x4)x.q[i] << n)); }
B1I_OP vi vi_shr(vi x, int n) { B1I_EACH(vi, (i32x4)((u32x4)x.q[i] >> n)); }
B1I_OP vi vi_sar(vi x, int n) { B1I_EACH(vi, x.q[i] >> n); }
B1I_OP vi vi_select(vi mask, vi x, vi y) { return vi_or(vi_and(mask, x), vi_and(vi_xor(mask, vi_set(-1)), y)); }
B1I_OP vi vi_max(vi x, vi y)
{
    vi mask;
    for (int i = 0; i < 4; i++) mask.q[i] = x.q[i] > y.q[i];
    return vi_select(mask, x, y);
}

B1I_OP vf vf_bits(vi x)
{
    vf r;
    memcpy(&r, &x, 64);
    return r;
}
B1I_OP vi vi_bits(vf x)
{
    vi r;
    memcpy(&r, &x, 64);
    return r;
}
B1I_OP vf vf_load_bf16(const uint16_t *p)
{
    vi r;
    for (int i = 0; i < 16; i++) r.q[i / 4][i % 4] = (int32_t)((uint32_t)p[i] << 16);
    return vf_bits(r);
}
B1I_OP void vi_store_u16(uint16_t *p, vi x)
{
    for (int i = 0; i < 16; i++) p[i] = (uint16_t)x.q[i / 4][i % 4];
}
B1I_OP void vi_store_i8(int8_t *p, vi x)
{
    for (int i = 0; i < 16; i++) {
        int32_t v = x.q[i / 4][i % 4];
        p[i] = (int8_t)(v > 127 ? 127 : v < -128 ? -128 : v);
    }
}
B1I_OP vi vi_load_i8(const int8_t *p)
{
    vi r;
    for (int i = 0; i < 16; i++) r.q[i / 4][i % 4] = p[i];
    return r;
}
B1I_OP vi vi_mul_halves(vi x, int16_t low, int16_t high)
{
    B1I_EACH(vi, (x.q[i] << 16 >> 16) * low + (x.q[i] >> 16) * high);
}

enum { VD_RUN = 0, VD_BYTES = 0, VS_ZERO = 0 };
typedef vi vd;
B1I_OP vd vd_begin(vi sum) { return sum; }
B1I_OP vi vd_end(vi sum, vd s)
{
    (void)sum;
    return s;
}
B1I_OP vi vs_weights(vi w) { return w; }

#if defined(__ARM_NEON)
#include <arm_neon.h>

B1I_OP vf vf_fma(vf x, vf y, vf z)
{
    B1I_EACH(vf, (f32x4)vfmaq_f32((float32x4_t)z.q[i], (float32x4_t)x.q[i], (float32x4_t)y.q[i]));
}
B1I_OP vf vf_from(vi x) { B1I_EACH(vf, (f32x4)vcvtq_f32_s32((int32x4_t)x.q[i])); }
B1I_OP vi vi_round(vf x) { B1I_EACH(vi, (i32x4)vcvtnq_s32_f32((float32x4_t)x.q[i])); }
B1I_OP vf vf_load_f16(const uint16_t *p)
{
    B1I_EACH(vf, (f32x4)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))));
}
B1I_OP void vf_store_f16(uint16_t *p, vf x)
{
    for (int i = 0; i < 4; i++) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x.q[i])));
}
/* The second where either is NaN, as on x86. */
B1I_OP vf vf_max(vf x, vf y)
{
    B1I_EACH(vf, (f32x4)vbslq_f32(vcgtq_f32((float32x4_t)x.q[i], (float32x4_t)y.q[i]), (float32x4_t)x.q[i],
                                  (float32x4_t)y.q[i]));
}
B1I_OP vf vf_min(vf x, vf y)
{
    B1I_EACH(vf, (f32x4)vbslq_f32(vcltq_f32((float32x4_t)x.q[i], (float32x4_t)y.q[i]), (float32x4_t)x.q[i],
                                  (float32x4_t)y.q[i]));
}
B1I_OP vd vs_dot(vd s, vi w, const int8_t *x)
{
    int8x16_t y = vreinterpretq_s8_s32(vdupq_n_s32(b1i_word(x)));
#if defined(__ARM_FEATURE_DOTPROD)
    B1I_EACH(vi, (i32x4)vdotq_s32((int32x4_t)s.q[i], (int8x16_t)w.q[i], y));
#else
    vi r;
    for (int i = 0; i < 4; i++) {
        int16x8_t low = vmull_s8(vget_low_s8((int8x16_t)w.q[i]), vget_low_s8(y));
        int16x8_t high = vmull_high_s8((int8x16_t)w.q[i], y);
        r.q[i] = (i32x4)vaddq_s32((int32x4_t)s.q[i], vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
    }
    return r;
#endif
}
#else
B1I_OP vf vf_fma(vf x, vf y, vf z) { B1I_EACH(vf, x.q[i] * y.q[i] + z.q[i]); }
B1I_OP vf vf_from(vi x) { B1I_EACH(vf, __builtin_convertvector(x.q[i], f32x4)); }
B1I_OP vi vi_round(vf x)
{
    vi r;
    for (int i = 0; i < 16; i++) {
        float v = x.q[i / 4][i % 4];
        r.q[i / 4][i % 4] = v > -2147483520.0f && v < 2147483520.0f ? (int32_t)rintf(v) : INT32_MIN;
    }
    return r;
}
B1I_OP vf vf_load_f16(const uint16_t *p)
{
    vf r;
    for (int i = 0; i < 16; i++) r.q[i / 4][i % 4] = b1i_f16_to_f32(p[i]);
    return r;
}
B1I_OP void vf_store_f16(uint16_t *p, vf x)
{
    for (int i = 0; i < 16; i++) p[i] = b1i_f32_to_f16(x.q[i / 4][i % 4]);
}
B1I_OP vf vf_max(vf x, vf y)
{
    vi mask;
    for (int i = 0; i < 4; i++) mask.q[i] = x.q[i] > y.q[i];
    return vf_bits(vi_select(mask, vi_bits(x), vi_bits(y)));
}
B1I_OP vf vf_min(vf x, vf y)
{
    vi mask;
    for (int i = 0; i < 4; i++) mask.q[i] = x.q[i] < y.q[i];
    return vf_bits(vi_select(mask, vi_bits(x), vi_bits(y)));
}
B1I_OP vd vs_dot(vd s, vi w, const int8_t *x)
{
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++) s.q[i] += ((i32x4)((u32x4)w.q[i] << (24 - 8 * j)) >> 24) * x[j];
    return s;
}
#endif

/* Quants below 128 are the same signed. */
B1I_OP vd vd_dot(vd s, vi w, const int8_t *x) { return vs_dot(s, w, x); }

/* Accumulators that hide the adder's latency; rows of x a tile takes; vectors of values side by side; query
 * heads that share a key or value; blocks of keys that share a query;
 * scores up to which even and odd elements have sums of their own. */
#if defined(__ARM_NEON)
#define B1I_DENSE_SUMS 2
#define B1I_DENSE_TILE 4
#define B1I_QUANT_TILE 4
#else
#define B1I_DENSE_SUMS 1
#define B1I_DENSE_TILE 2
#define B1I_QUANT_TILE 2
#endif
#define B1I_VALUE_WIDTH 1
#define B1I_HEADS       4
#define B1I_KEY_BLOCKS  1
#define B1I_SCORE_SUMS  2

#define v_keep(x) (void)(x)
/* What is loaded from here is loaded anew. */
#define v_keep_pointer(p) __asm__("" : "+r"(p))
#define v_prefetch(p)     __builtin_prefetch(p, 0, 3)
#define v_prefetch_far(p) __builtin_prefetch(p, 0, 2)
