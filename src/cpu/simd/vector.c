/* SPDX-License-Identifier: MIT
 *
 * Ops on single rows: rounding of activations, RMSNorm, RoPE, SiLU, add, storing keys and values, prefetch.
 */
#include "cpu/simd/simd.h"

B1I_OP vf load_upto(const float *p, int64_t n) { return n >= 16 ? vf_load(p) : vf_load_part(p, n > 0 ? n : 0); }

/* ---- activations ---- */

static void convert_i8(const float *x, int64_t cols, b1i_act_block *out)
{
    const vi magnitude = vi_set(0x7fffffff);
    for (int64_t c = 0; c < cols; c += 32, out++) {
        vf a = load_upto(x + c, cols - c), b = load_upto(x + c + 16, cols - c - 16);
        /* compared as integers, so that NaN is the largest of all */
        int32_t most[16];
        vi_store(most, vi_max(vi_and(vi_bits(a), magnitude), vi_and(vi_bits(b), magnitude)));
        for (int n = 8; n; n /= 2)
            for (int i = 0; i < n; i++) most[i] = most[i] > most[i + n] ? most[i] : most[i + n];
        float max;
        memcpy(&max, most, 4);
        float inverse = max >= 0x1p-100f && max < INFINITY ? 127 / max : 0;
        out->scale = max < 0x1p-100f ? 0 : max / 127;
        vi_store_i8(out->q, vi_round(vf_mul(a, vf_set(inverse))));
        vi_store_i8(out->q + 16, vi_round(vf_mul(b, vf_set(inverse))));
        int sum[2] = {0};
        for (int i = 0; i < 16; i++) {
            sum[0] += out->q[i];
            sum[1] += out->q[16 + i];
        }
        out->half[0] = (int16_t)sum[0];
        out->half[1] = (int16_t)sum[1];
        out->sum = sum[0] + sum[1];
        out->scaled_sum = out->scale * (float)out->sum;
    }
}

void B1I_NAME(convert)(const float *x, b1i_act *out, int row)
{
    uint8_t *to = out->data + (size_t)row * out->stride;
    int64_t padded = b1i_act_padded(out->cols);
    if (out->type == b1i_type_i8) {
        convert_i8(x, out->cols, (b1i_act_block *)to);
        return;
    }
    for (int64_t c = 0; c < padded; c += 16) {
        vf v = load_upto(x + c, out->cols - c);
        if (out->type == b1i_type_f32)
            vf_store((float *)to + c, v);
        else if (out->type == b1i_type_bf16)
            vi_store_u16((uint16_t *)to + c, vi_to_bf16(v));
        else
            vf_store_f16((uint16_t *)to + c, v);
    }
}

/* ---- norms and elementwise ---- */

void B1I_NAME(rmsnorm)(const float *x, const float *weight, int64_t count, float eps, float *out)
{
    vf s0 = vf_zero(), s1 = vf_zero();
    int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        vf a = vf_load(x + i), b = vf_load(x + i + 16);
        s0 = vf_fma(a, a, s0);
        s1 = vf_fma(b, b, s1);
    }
    for (; i < count; i += 16) {
        vf a = load_upto(x + i, count - i);
        s0 = vf_fma(a, a, s0);
    }
    const float factor = 1 / sqrtf(vf_sum(vf_add(s0, s1)) / (float)count + eps);
    const vf f = vf_set(factor);
    for (i = 0; i + 16 <= count; i += 16) vf_store(out + i, vf_mul(vf_mul(vf_load(x + i), f), vf_load(weight + i)));
    for (; i < count; i++) out[i] = x[i] * factor * weight[i];
}

void B1I_NAME(rope)(float *x, int head_dim, const float *cos, const float *sin)
{
    const int half = head_dim / 2;
    float *y = x + half;
    int j = 0;
    for (; j + 16 <= half; j += 16) {
        vf a = vf_load(x + j), b = vf_load(y + j), c = vf_load(cos + j), s = vf_load(sin + j);
        vf_store(x + j, vf_sub(vf_mul(a, c), vf_mul(b, s)));
        vf_store(y + j, vf_add(vf_mul(b, c), vf_mul(a, s)));
    }
    for (; j < half; j++) {
        float a = x[j], b = y[j];
        x[j] = a * cos[j] - b * sin[j];
        y[j] = b * cos[j] + a * sin[j];
    }
}

B1I_OP vf silu(vf gate, vf up)
{
    vf e = vf_exp(vf_sub(vf_zero(), gate));
    return vf_mul(vf_div(gate, vf_add(e, vf_set(1))), up);
}

void B1I_NAME(silu_mul)(const float *gate, const float *up, int64_t count, float *out)
{
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) vf_store(out + i, silu(vf_load(gate + i), vf_load(up + i)));
    if (i < count)
        vf_store_part(out + i, count - i, silu(vf_load_part(gate + i, count - i), vf_load_part(up + i, count - i)));
}

void B1I_NAME(add)(float *y, const float *x, int64_t count)
{
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) vf_store(y + i, vf_add(vf_load(y + i), vf_load(x + i)));
    for (; i < count; i++) y[i] += x[i];
}

/* ---- keys and values ---- */

/* 16 values in the KV's type, 2 or 4 bytes each. */
B1I_OP void round_to(b1i_type type, vf v, uint8_t *out)
{
    if (type == b1i_type_f32)
        vf_store((float *)out, v);
    else if (type == b1i_type_bf16)
        vi_store_u16((uint16_t *)out, vi_to_bf16(v));
    else
        vf_store_f16((uint16_t *)out, v);
}

void B1I_NAME(kv_put)(const b1i_kv_head *kv, int pos, const float *k, const float *v)
{
    const size_t size = kv->type == b1i_type_f32 ? 4 : 2, d = (size_t)kv->head_dim;
    const size_t block = (size_t)(pos / B1I_KV_BLOCK) * B1I_KV_BLOCK * d * size, p = (size_t)(pos % B1I_KV_BLOCK);
    uint8_t *keys = kv->keys + block, *values = kv->values + block + p * d * size;
    /* a key's element, or pair of elements, is 64 bytes from the next */
    const size_t word = kv->type == b1i_type_f16 ? 2 : 4, stride = word * B1I_KV_BLOCK;
    for (size_t i = 0; i < d; i += 16) {
        int64_t left = (int64_t)(d - i);
        size_t n = left < 16 ? (size_t)left : 16;
        uint8_t t[64];
        round_to(kv->type, load_upto(k + i, left), t);
        for (size_t at = 0; at < n * size; at += word)
            memcpy(keys + (i * size + at) / word * stride + p * word, t + at, word);
        round_to(kv->type, load_upto(v + i, left), t);
        memcpy(values + i * size, t, n * size);
    }
}

void B1I_NAME(prefetch)(const void *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) v_prefetch_far((const char *)p + i);
}
