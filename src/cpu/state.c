/* SPDX-License-Identifier: MIT
 *
 * Owns the memory of a CPU executor: the KV cache and one block that holds every buffer of a step.
 */
#include "cpu/state.h"

#include "base/threads.h"

#include <math.h>
#include <string.h>

static size_t type_bytes(b1i_type type) { return type == b1i_type_f32 ? 4 : 2; }
static size_t up64(size_t bytes) { return (bytes + 63) / 64 * 64; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* In 64 bits: a context of INT_MAX is refused for want of memory, not wrapped. */
static int64_t kv_capacity(int64_t context) { return (context + B1I_KV_BLOCK - 1) / B1I_KV_BLOCK * B1I_KV_BLOCK; }

static size_t kv_head_bytes(const b1i_config *c, int context, b1i_type type)
{
    return up64((size_t)kv_capacity(context) * (size_t)c->head_dim * type_bytes(type));
}

size_t b1i_kv_cache_bytes(const b1i_config *c, int context, b1i_type type)
{
    return 2 * (size_t)c->layers * (size_t)c->kv_heads * kv_head_bytes(c, context, type);
}

b1_status b1i_kv_create(const b1i_config *c, int context, b1i_type type, b1i_kv *kv, b1_error *err)
{
    *kv = (b1i_kv){.type = type, .layers = c->layers, .heads = c->kv_heads, .head_dim = c->head_dim};
    kv->capacity = kv_capacity(context);
    kv->head_bytes = kv_head_bytes(c, context, type);
    kv->bytes = b1i_kv_cache_bytes(c, context, type);
    kv->data = b1i_pages_alloc(kv->bytes);
    if (!kv->data)
        return b1i_fail(err, B1_MEMORY, "the KV cache of %d positions needs %.1f MB, which cannot be had", context,
                        (double)kv->bytes / 1e6);
    return B1_OK;
}

void b1i_kv_free(b1i_kv *kv)
{
    if (kv->data) b1i_pages_free(kv->data, kv->bytes);
    *kv = (b1i_kv){0};
}

/* ---- filler ---- */

typedef struct filling {
    const b1i_kv *kv;
    const b1i_kernels *kernels;
    int count;
} filling;

/* Layers × heads shared out. */
static void fill_share(void *arg, int worker, int workers)
{
    const filling *f = arg;
    const b1i_kv *kv = f->kv;
    _Alignas(64) float k[512], v[512];
    int64_t begin, end;
    b1i_share((int64_t)kv->layers * kv->heads, 1, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        b1i_kv_head head = b1i_kv_at(kv, (int)(i / kv->heads), (int)(i % kv->heads));
        for (int pos = 0; pos < f->count; pos++) {
            for (int d = 0; d < kv->head_dim; d++) {
                uint64_t x = b1i_mix64(((uint64_t)i << 40) ^ ((uint64_t)pos << 16) ^ (uint64_t)d);
                k[d] = (float)((int32_t)x >> 8) * (1.7f / (1 << 23));
                v[d] = (float)((int32_t)(x >> 32) >> 8) * (1.7f / (1 << 23));
            }
            f->kernels->kv_put(&head, pos, k, v);
        }
    }
}

void b1i_kv_fill(const b1i_kv *kv, const b1i_kernels *kernels, int workers, int count)
{
    filling f = {kv, kernels, count};
    b1i_pool_run(workers, fill_share, &f);
}

/* ---- the buffers of a step ---- */

/* Hands out pieces of one block: a first pass with base NULL only adds sizes up. */
typedef struct carver {
    uint8_t *base;
    size_t used;
} carver;

static void *carve(carver *c, size_t bytes)
{
    void *p = c->base ? c->base + c->used : NULL;
    c->used += up64(bytes);
    return p;
}

static void lay_out(b1i_cpu_state *s, carver *k)
{
    const b1i_config *c = s->c;
    size_t rows = (size_t)s->max_rows, hd = (size_t)c->head_dim, heads = (size_t)c->heads;
    int64_t widest = max64(max64(c->hidden, c->ffn), (int64_t)c->heads * c->head_dim);
    for (int v = b1i_v_x; v < b1i_value_count; v++) {
        size_t n = v == b1i_v_logits ? (size_t)s->logit_rows : rows;
        s->stride[v] = b1i_act_padded(b1i_value_cols(c, (b1i_value)v));
        s->value[v] = carve(k, n * (size_t)s->stride[v] * sizeof(float));
    }
    s->act_data = carve(k, rows * b1i_act_stride(b1i_type_f32, widest));
    /* scratch: one act row and one f32 row for decode, or an attention item's queries, values, maxima, sums and key */
    size_t group = heads / (size_t)c->kv_heads;
    size_t row_bytes = 2 * b1i_act_stride(b1i_type_f32, widest) + up64(hd * sizeof(float)) * 2;
    size_t item = B1I_ATTEND_ROWS * group;
    size_t attend_bytes =
        2 * up64(item * hd * sizeof(float)) + 2 * up64(item * sizeof(float)) + up64(hd * sizeof(float));
    size_t reference_bytes = 12 * (size_t)widest + 4096; /* input, weights and file bytes of one row */
    s->scratch_bytes = up64((size_t)max64(max64((int64_t)row_bytes, (int64_t)attend_bytes), (int64_t)reference_bytes));
    s->scratch = carve(k, s->scratch_bytes * (size_t)s->workers);
    size_t parts = (B1I_RANGES + 1) * B1I_DECODE_ROWS * heads;
    s->part_max = carve(k, parts * sizeof(float));
    s->part_sum = carve(k, parts * sizeof(float));
    s->part_out = carve(k, parts * hd * sizeof(float));
    s->rope_stride = (int)((hd / 2 + 15) / 16 * 16);
    s->cos = carve(k, rows * (size_t)s->rope_stride * sizeof(float));
    s->sin = carve(k, rows * (size_t)s->rope_stride * sizeof(float));
    s->inverse = carve(k, hd * sizeof(float));
    s->first = carve(k, rows * sizeof(int));
    s->limit = carve(k, rows * sizeof(int));
}

b1_status b1i_cpu_state_create(const b1i_resident *w, const b1i_kernels *kernels, int workers, int logit_rows,
                               b1i_cpu_state *s, b1_error *err)
{
    *s = (b1i_cpu_state){.kernels = kernels,
                         .w = w,
                         .c = &w->model->config,
                         .workers = workers,
                         .max_rows = B1I_PREFILL_ROWS,
                         .logit_rows = logit_rows};
    carver k = {0};
    lay_out(s, &k);
    s->block_bytes = k.used;
    s->block = b1i_pages_alloc(s->block_bytes);
    if (!s->block)
        return b1i_fail(err, B1_MEMORY, "the buffers of a step need %.1f MB, which cannot be had",
                        (double)s->block_bytes / 1e6);
    k = (carver){s->block, 0};
    lay_out(s, &k);
    b1i_rope_frequencies(s->c, s->inverse, &s->rope_factor);
    return B1_OK;
}

void b1i_cpu_state_free(b1i_cpu_state *s)
{
    if (s->block) b1i_pages_free(s->block, s->block_bytes);
    *s = (b1i_cpu_state){0};
}

/* ---- the step at hand ---- */

/* The next rows of the step: `rows` positions of one sequence. */
static void add_sequence(b1i_cpu_state *s, const b1i_kv *kv, int rows, int position)
{
    const int half = s->c->head_dim / 2, window = s->c->sliding_window, limit = position + rows;
    b1i_sequence *q = &s->sequence[s->sequences++];
    *q = (b1i_sequence){.kv = kv, .row = s->n, .rows = rows, .position = position};
    for (int r = s->n; r < s->n + rows; r++) {
        float *cs = s->cos + r * s->rope_stride, *sn = s->sin + r * s->rope_stride;
        for (int j = 0; j < half; j++) {
            float angle = (float)(position + r - s->n) * s->inverse[j];
            cs[j] = cosf(angle) * s->rope_factor;
            sn[j] = sinf(angle) * s->rope_factor;
        }
        s->limit[r] = position + r - s->n + 1;
        s->first[r] = window > 0 && s->limit[r] > window ? s->limit[r] - window : 0;
    }
    s->n += rows;
    /* About B1I_RANGES parts of at least 64 positions: enough to balance workers, few enough to merge cheaply. A
     * function of the context alone, so that results do not depend on the number of workers. */
    q->range = ((limit + B1I_RANGES - 1) / B1I_RANGES + 63) / 64 * 64;
    q->ranges = (limit + q->range - 1) / q->range;
}

void b1i_cpu_state_step(b1i_cpu_state *s, const int32_t *tokens, int n, int position, int logits_from)
{
    s->tokens = tokens;
    s->n = s->sequences = 0;
    s->logits_from = logits_from;
    add_sequence(s, s->kv, n, position);
}

void b1i_cpu_state_step_rows(b1i_cpu_state *s, const int32_t *tokens, const b1i_kv *const *kv, const int *positions,
                             int n)
{
    s->tokens = tokens;
    s->n = s->sequences = s->logits_from = 0;
    for (int i = 0; i < n; i++) add_sequence(s, kv[i], 1, positions[i]);
}
