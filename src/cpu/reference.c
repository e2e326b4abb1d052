/* SPDX-License-Identifier: MIT
 *
 * Owns the meaning of every op. Nothing here is fast, and nothing here is shared with the kernels but the layout of
 * the KV cache, which is read and written element by element.
 */
#include "cpu/reference.h"

#include "base/threads.h"

#include <math.h>
#include <string.h>

/* ---- precision ---- */

void b1i_ref_round(b1i_type type, float *x, int64_t count)
{
    if (type == b1i_type_bf16)
        for (int64_t i = 0; i < count; i++) x[i] = b1i_bf16_to_f32(b1i_f32_to_bf16(x[i]));
    if (type == b1i_type_f16)
        for (int64_t i = 0; i < count; i++) x[i] = b1i_f16_to_f32(b1i_f32_to_f16(x[i]));
    if (type != b1i_type_i8) return;
    for (int64_t b = 0; b < count; b += 32) {
        int64_t n = count - b < 32 ? count - b : 32;
        float most = 0;
        for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[b + i]));
        float scale = most < 0x1p-100f ? 0 : most / 127, inverse = most < 0x1p-100f ? 0 : 127 / most;
        for (int64_t i = 0; i < n; i++) x[b + i] = rintf(x[b + i] * inverse) * scale;
    }
}

static b1i_type input_type(const b1i_cpu_state *s, b1i_format_id weights)
{
    return weights <= b1i_bf16 ? s->precision.dense : s->precision.quant;
}

/* ---- KV cache, element by element ---- */

static size_t kv_index(const b1i_kv_head *kv, bool value, int pos, int d)
{
    size_t block = (size_t)(pos / B1I_KV_BLOCK) * B1I_KV_BLOCK * (size_t)kv->head_dim, p = (size_t)pos % B1I_KV_BLOCK;
    if (value) return block + p * (size_t)kv->head_dim + (size_t)d;
    if (kv->type != b1i_type_bf16) return block + (size_t)d * B1I_KV_BLOCK + p;
    return block + ((size_t)d / 2 * B1I_KV_BLOCK + p) * 2 + (size_t)d % 2;
}

float b1i_ref_kv_get(const b1i_kv_head *kv, bool value, int pos, int d)
{
    const uint8_t *base = value ? kv->values : kv->keys;
    size_t i = kv_index(kv, value, pos, d);
    if (kv->type == b1i_type_f32) return ((const float *)base)[i];
    uint16_t h = ((const uint16_t *)base)[i];
    return kv->type == b1i_type_bf16 ? b1i_bf16_to_f32(h) : b1i_f16_to_f32(h);
}

static void kv_set(const b1i_kv_head *kv, bool value, int pos, int d, float x)
{
    uint8_t *base = value ? kv->values : kv->keys;
    size_t i = kv_index(kv, value, pos, d);
    if (kv->type == b1i_type_f32)
        ((float *)base)[i] = x;
    else
        ((uint16_t *)base)[i] = kv->type == b1i_type_bf16 ? b1i_f32_to_bf16(x) : b1i_f32_to_f16(x);
}

void b1i_ref_kv_put(const b1i_kv_head *kv, int pos, const float *k, const float *v)
{
    for (int d = 0; d < kv->head_dim; d++) {
        kv_set(kv, false, pos, d, k[d]);
        kv_set(kv, true, pos, d, v[d]);
    }
}

/* ---- ops; all but linear and attention are worker 0's alone ---- */

static void ref_embed(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers)
{
    (void)workers;
    if (worker != 0) return;
    for (int r = 0; r < s->n; r++)
        b1i_tensor_rows_f32(b1i_slot_tensor(s->w->model, op->weight), s->tokens[r], 1, s->scratch,
                            b1i_row(s, op->out, r));
}

/* y = x / sqrt(mean(x²) + eps) · weight */
static void norm(const float *x, const float *weight, int count, float eps, float *y)
{
    double sum = 0;
    for (int i = 0; i < count; i++) sum += (double)x[i] * x[i];
    float inverse = 1 / sqrtf((float)(sum / count) + eps);
    for (int i = 0; i < count; i++) y[i] = x[i] * inverse * weight[i];
}

static void ref_rmsnorm(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers)
{
    (void)workers;
    if (worker != 0) return;
    for (int r = 0; r < s->n; r++)
        norm(b1i_row(s, op->in[0], r), s->w->vector[op->weight], s->c->hidden, s->c->norm_eps, b1i_row(s, op->out, r));
}

static void ref_headnorm(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers)
{
    (void)workers;
    if (worker != 0) return;
    const int hd = s->c->head_dim;
    for (int r = 0; r < s->n; r++)
        for (int at = 0; at < b1i_value_cols(s->c, op->out); at += hd) {
            float *x = b1i_row(s, op->out, r) + at;
            norm(x, s->w->vector[op->weight], hd, s->c->norm_eps, x);
        }
}

/* y = W x + b over this worker's outputs; the LM head only for the rows whose logits are wanted. */
static void ref_linear(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers)
{
    const b1i_tensor *t = b1i_slot_tensor(s->w->model, op->weight);
    const int from = op->out == b1i_v_logits ? s->logits_from : 0;
    float *x = (float *)(s->scratch + s->scratch_bytes * (size_t)worker), *weights = x + t->cols;
    uint8_t *file_row = (uint8_t *)(weights + t->cols);
    int64_t begin, end;
    b1i_share(t->rows, 1, worker, workers, &begin, &end);
    for (int r = from; r < s->n; r++) {
        float *y = b1i_row(s, op->out, r - from);
        memcpy(x, b1i_row(s, op->in[0], r), (size_t)t->cols * sizeof *x);
        b1i_ref_round(input_type(s, t->format), x, t->cols);
        for (int64_t o = begin; o < end; o++) {
            b1i_tensor_rows_f32(t, o, 1, file_row, weights);
            double sum[8] = {0}; /* eight sums, so that the compiler may use its vectors */
            int64_t i = 0;
            for (; i + 8 <= t->cols; i += 8)
                for (int j = 0; j < 8; j++) sum[j] += (double)weights[i + j] * (double)x[i + j];
            for (; i < t->cols; i++) sum[0] += (double)weights[i] * (double)x[i];
            double all = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
            y[o] = (float)all + (op->bias == b1i_slot_none ? 0 : s->w->vector[op->bias][o]);
        }
    }
}

/* Pairs (j, j + head_dim / 2) of each head turn by the angle of the row's position. */
static void ref_rope(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers)
{
    (void)workers;
    if (worker != 0) return;
    const int hd = s->c->head_dim, half = hd / 2;
    for (int r = 0; r < s->n; r++)
        for (int at = 0; at < b1i_value_cols(s->c, op->out); at += hd)
            for (int j = 0; j < half; j++) {
                float *x = b1i_row(s, op->out, r) + at, a = x[j], b = x[j + half];
                float cs = s->cos[r * s->rope_stride + j], sn = s->sin[r * s->rope_stride + j];
                x[j] = a * cs - b * sn;
                x[j + half] = b * cs + a * sn;
            }
}

static void ref_kv_append(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers)
{
    (void)workers;
    if (worker != 0) return;
    for (int r = 0; r < s->n; r++)
        for (int h = 0; h < s->c->kv_heads; h++) {
            b1i_kv_head kv = b1i_kv_at(b1i_sequence_of(s, r)->kv, op->layer, h);
            b1i_ref_kv_put(&kv, b1i_position_of(s, r), b1i_row(s, op->in[0], r) + h * kv.head_dim,
                           b1i_row(s, op->in[1], r) + h * kv.head_dim);
        }
}

/* One query head of one row: softmax(q Kᵀ / sqrt(head_dim)) V over the visible positions, in two passes (maximum,
 * then exponents), so that it is independent of how a kernel splits the context. */
static void attend_head(const b1i_cpu_state *s, const b1i_kv_head *kv, int row, const float *q, float *out)
{
    const int hd = kv->head_dim;
    const float scale = 1 / sqrtf((float)hd);
    float most = -INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        double total = 0, sum[256] = {0};
        for (int p = s->first[row]; p < s->limit[row]; p++) {
            double dot = 0;
            for (int d = 0; d < hd; d++) dot += (double)q[d] * (double)b1i_ref_kv_get(kv, false, p, d);
            float score = (float)dot * scale;
            if (pass == 0) {
                most = fmaxf(most, score);
                continue;
            }
            double e = exp((double)(score - most));
            total += e;
            for (int d = 0; d < hd; d++) sum[d] += e * (double)b1i_ref_kv_get(kv, true, p, d);
        }
        for (int d = 0; pass == 1 && d < hd; d++) out[d] = (float)(sum[d] / total);
    }
}

static void ref_attention(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers)
{
    const int hd = s->c->head_dim, group = s->c->heads / s->c->kv_heads;
    int64_t begin, end;
    b1i_share((int64_t)s->n * s->c->heads, 1, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int row = (int)(i / s->c->heads), head = (int)(i % s->c->heads);
        b1i_kv_head kv = b1i_kv_at(b1i_sequence_of(s, row)->kv, op->layer, head / group);
        attend_head(s, &kv, row, b1i_row(s, op->in[0], row) + head * hd, b1i_row(s, op->out, row) + head * hd);
    }
}

static void ref_add(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers)
{
    (void)workers;
    if (worker != 0) return;
    for (int r = 0; r < s->n; r++)
        for (int i = 0; i < b1i_value_cols(s->c, op->out); i++)
            b1i_row(s, op->out, r)[i] = b1i_row(s, op->in[0], r)[i] + b1i_row(s, op->in[1], r)[i];
}

static void ref_silu_mul(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers)
{
    (void)workers;
    if (worker != 0) return;
    for (int r = 0; r < s->n; r++)
        for (int i = 0; i < s->c->ffn; i++) {
            float g = b1i_row(s, op->in[0], r)[i];
            b1i_row(s, op->out, r)[i] = g / (1 + expf(-g)) * b1i_row(s, op->in[1], r)[i];
        }
}

const b1i_ref_fn b1i_ref_ops[b1i_op_count] = {
#define B1I_OP(id, inputs, state, reads, split, grade) ref_##id,
#include "plan/ops.def"
#undef B1I_OP
};
