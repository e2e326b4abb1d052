/* SPDX-License-Identifier: MIT
 *
 * Owns prefill: a pass of up to 512 tokens of one sequence, its buffers, and the order of its kernels and products.
 *
 * Linear ops go through cuBLASLt. Weights lie in tile layout for decode, so each matrix is first unpacked to plain rows
 * of bf16, in pieces of at most SCRATCH bytes. That reads and writes the weights once more, before their products and
 * not beside them, and costs the same however many tokens a pass has: passes are long. What bf16 does not hold exactly
 * becomes two matrices, high and low, and two products: a pass agrees with decode, whose weights are exact too.
 *
 * Precision: as decode's (inputs of linear ops, keys and values are bf16, all else f32) but for attention, see
 * prefill_attention.cu.
 *
 * Invariant: columns past a value's own, to the next multiple of 32, are zeros in every buffer.
 */
#include "cuda/prefill.h"
#include "cuda/cublaslt.h"

#include <math.h>
#include <string.h>

enum { ROWS = B1I_CUDA_PREFILL_ROWS, SCRATCH = 64 << 20 };

/* Everything that a pass writes, in one block of memory. */
typedef struct buffers {
    b1i_gpu_ptr x, q, k, v, gate, up;       /* f32 [512][stride] */
    b1i_gpu_ptr norm, att, act, turned;     /* bf16 [512][stride]; turned: q for attention, [512][heads][dim] */
    b1i_gpu_ptr tokens, inverse, cos, sin;  /* int32 [512]; f32 [half], [512][half] */
    b1i_gpu_ptr high, low, part, workspace; /* low: 0 where every matrix is bf16 */
} buffers;

struct b1i_cuda_prefill {
    const b1i_cuda_weights *w;
    b1i_gpu *gpu;
    b1i_cublaslt *lt;
    b1i_prefill_kernels kernels;
    b1i_gpu_ptr block; /* the memory behind the buffers */
    buffers b;
    float rope_factor;
};

/* ---- memory ---- */

static int64_t stride_of(int64_t cols) { return (cols + B1I_TILE_COLS - 1) / B1I_TILE_COLS * B1I_TILE_COLS; }

static int64_t value_stride(const b1i_config *c, b1i_value v) { return stride_of(b1i_value_cols(c, v)); }

/* Panels that are unpacked at once: pieces of about the same size, of at most SCRATCH bytes or one panel. */
static int piece_of(const b1i_tile_matrix *m)
{
    const int64_t panel = (int64_t)B1I_TILE_ROWS * B1I_TILE_COLS * 2 * m->blocks;
    const int most = panel < SCRATCH ? (int)(SCRATCH / panel) : 1, pieces = (m->panels + most - 1) / most;
    return pieces > 0 ? (m->panels + pieces - 1) / pieces : 1;
}

/* Bytes of the largest piece of any matrix, and of those that need a low part. */
static void scratch_bytes(const b1i_model *model, size_t *high, size_t *low)
{
    *high = *low = 0;
    for (int s = 0; s < b1i_slot_count(model); s++) {
        const b1i_tensor *t = b1i_slot_tensor(model, s);
        b1i_tile_matrix m;
        if (t->rows <= 1 || (s == b1i_slot_embedding && !model->config.tied))
            continue; /* absent, a vector, looked up */
        b1i_tile_shape(t, &m);
        size_t bytes = (size_t)piece_of(&m) * B1I_TILE_ROWS * B1I_TILE_COLS * 2 * (size_t)m.blocks;
        if (bytes > *high) *high = bytes;
        if (!b1i_prefill_exact(&m) && bytes > *low) *low = bytes;
    }
}

static void carve(uint64_t *used, b1i_gpu_ptr base, b1i_gpu_ptr *out, size_t bytes)
{
    *out = bytes && base ? base + *used : 0;
    *used += (bytes + 255) / 256 * 256;
}

/* The buffers within a block at `base`; how many bytes they are. With base 0 only the sum. */
static uint64_t lay_out(const b1i_model *model, b1i_gpu_ptr base, buffers *b)
{
    const b1i_config *c = &model->config;
    const int dim = b1i_cuda_dim(c->head_dim);
    const size_t half = (size_t)c->head_dim / 2;
    uint64_t used = 0;
    size_t high, low;
    const struct {
        b1i_gpu_ptr *to;
        b1i_value value;
        size_t bytes;
    } values[] = {{&b->x, b1i_v_x, 4},       {&b->q, b1i_v_q, 4},       {&b->k, b1i_v_k, 4},
                  {&b->v, b1i_v_v, 4},       {&b->gate, b1i_v_gate, 4}, {&b->up, b1i_v_up, 4},
                  {&b->norm, b1i_v_norm, 2}, {&b->att, b1i_v_att, 2},   {&b->act, b1i_v_act, 2}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        carve(&used, base, values[i].to, ROWS * (size_t)value_stride(c, values[i].value) * values[i].bytes);
    carve(&used, base, &b->turned, ROWS * (size_t)c->heads * (size_t)dim * 2);
    carve(&used, base, &b->tokens, ROWS * sizeof(int32_t));
    carve(&used, base, &b->inverse, half * sizeof(float));
    carve(&used, base, &b->cos, ROWS * half * sizeof(float));
    carve(&used, base, &b->sin, ROWS * half * sizeof(float));
    scratch_bytes(model, &high, &low);
    carve(&used, base, &b->high, high);
    carve(&used, base, &b->low, low);
    carve(&used, base, &b->part, b1i_prefill_part_bytes(dim));
    carve(&used, base, &b->workspace, B1I_CUBLASLT_WORKSPACE);
    return used;
}

uint64_t b1i_cuda_prefill_bytes(const b1i_model *model)
{
    buffers b;
    return lay_out(model, 0, &b);
}

static b1_status upload_frequencies(b1i_cuda_prefill *p, b1_error *err)
{
    const b1i_config *c = &p->w->model->config;
    const size_t bytes = (size_t)c->head_dim / 2 * sizeof(float);
    float *inverse = b1i_malloc(bytes);
    if (!inverse) return b1i_fail_memory(err, bytes);
    b1i_rope_frequencies(c, inverse, &p->rope_factor);
    b1_status st = b1i_gpu_upload(p->gpu, p->b.inverse, inverse, bytes, err);
    b1i_free(inverse);
    return st;
}

b1_status b1i_cuda_prefill_create(const b1i_cuda_weights *w, b1i_cuda_prefill **out, b1_error *err)
{
    b1_status st;
    const b1i_config *c = &w->model->config;
    const uint64_t bytes = b1i_cuda_prefill_bytes(w->model);
    *out = NULL;
    b1i_cuda_prefill *p = b1i_calloc(1, sizeof *p);
    if (!p) return b1i_fail_memory(err, sizeof *p);
    p->w = w;
    p->gpu = w->gpu;
    B1I_TRY(b1i_prefill_kernels_get(p->gpu, b1i_cuda_dim(c->head_dim), &p->kernels, err));
    B1I_TRY(b1i_cublaslt_open(p->gpu, &p->lt, err));
    B1I_TRY(b1i_gpu_alloc(p->gpu, bytes, "the buffers of prefill", &p->block, err));
    lay_out(w->model, p->block, &p->b);
    B1I_TRY(b1i_gpu_fill(p->gpu, p->block, 0, bytes, err));
    B1I_TRY(upload_frequencies(p, err));
    *out = p;
    return B1_OK;
fail:
    b1i_cuda_prefill_free(p);
    return st;
}

void b1i_cuda_prefill_free(b1i_cuda_prefill *p)
{
    if (!p) return;
    b1i_cublaslt_close(p->lt);
    if (p->block) b1i_gpu_free(p->gpu, p->block);
    b1i_free(p);
}

/* ---- a pass ---- */

typedef struct pass {
    const b1i_cuda_prefill *p;
    const b1i_config *c;
    const b1i_cuda_kv *kv;
    int n, position;
} pass;

/* y [n][y_stride] (+)= W x, of slot `slot`: piece by piece unpacked and multiplied. */
static b1_status linear(const pass *s, int slot, b1i_gpu_ptr x, int n, b1i_gpu_ptr y, int64_t y_stride, bool add,
                        b1_error *err)
{
    b1_status st;
    const b1i_cuda_prefill *p = s->p;
    const b1i_tile_matrix *m = &p->w->matrix[slot];
    const char *name = b1i_slot_tensor(p->w->model, slot)->name;
    const int piece = piece_of(m);
    for (int first = 0; first < m->panels; first += piece) {
        const int count = m->panels - first < piece ? m->panels - first : piece, row = first * B1I_TILE_ROWS;
        b1i_product product = {.w = p->b.high,
                               .x = x,
                               .y = y + (uint64_t)row * sizeof(float),
                               .rows = m->rows - row < count * B1I_TILE_ROWS ? m->rows - row : count * B1I_TILE_ROWS,
                               .n = n,
                               .k = m->blocks * B1I_TILE_COLS,
                               .x_stride = stride_of(m->cols),
                               .y_stride = y_stride,
                               .add = add};
        B1I_TRY(b1i_prefill_unpack(&p->kernels, m, first, count, p->b.high, p->b.low, err));
        B1I_TRY(b1i_cublaslt_run(p->lt, &product, p->b.workspace, name, err));
        if (b1i_prefill_exact(m)) continue;
        product.w = p->b.low;
        product.add = true;
        B1I_TRY(b1i_cublaslt_run(p->lt, &product, p->b.workspace, name, err));
    }
    return B1_OK;
fail:
    return st;
}

/* norm = the n rows of x from `first`, normalised. */
static b1_status normalise(const pass *s, int slot, int first, int n, b1_error *err)
{
    const int64_t x_stride = value_stride(s->c, b1i_v_x), out_stride = value_stride(s->c, b1i_v_norm);
    const b1i_prefill_norm_args a = {.x = s->p->b.x + (uint64_t)(first * x_stride) * sizeof(float),
                                     .weight = s->p->w->vector[slot],
                                     .out = s->p->b.norm,
                                     .x_stride = x_stride,
                                     .out_stride = out_stride,
                                     .cols = s->c->hidden,
                                     .eps = s->c->norm_eps};
    return b1i_prefill_norm(&s->p->kernels, &a, n, err);
}

static b1_status begin(const pass *s, b1_error *err)
{
    const b1i_cuda_prefill *p = s->p;
    const b1i_prefill_begin_args a = {.tokens = p->b.tokens,
                                      .embedding = p->w->matrix[b1i_slot_embedding],
                                      .x = p->b.x,
                                      .x_stride = value_stride(s->c, b1i_v_x),
                                      .inverse = p->b.inverse,
                                      .cos = p->b.cos,
                                      .sin = p->b.sin,
                                      .half = s->c->head_dim / 2,
                                      .position = s->position,
                                      .rope_factor = p->rope_factor};
    return b1i_prefill_begin(&p->kernels, &a, s->n, err);
}

/* Bias, q/k norms and RoPE; k and v go to the cache, q to where attention reads it; then attention. */
static b1_status attend(const pass *s, int layer, b1_error *err)
{
    b1_status st;
    const b1i_cuda_prefill *p = s->p;
    const b1i_config *c = s->c;
    const b1i_gpu_ptr *vector = p->w->vector;
    const uint64_t kv = s->kv->data + (uint64_t)layer * (uint64_t)c->kv_heads * s->kv->head_bytes;
    const b1i_prefill_heads_args heads = {.q = p->b.q,
                                          .k = p->b.k,
                                          .v = p->b.v,
                                          .q_stride = value_stride(c, b1i_v_q),
                                          .k_stride = value_stride(c, b1i_v_k),
                                          .v_stride = value_stride(c, b1i_v_v),
                                          .q_bias = vector[b1i_slot(layer, b1i_w_q_bias)],
                                          .k_bias = vector[b1i_slot(layer, b1i_w_k_bias)],
                                          .v_bias = vector[b1i_slot(layer, b1i_w_v_bias)],
                                          .q_norm = vector[b1i_slot(layer, b1i_w_q_norm)],
                                          .k_norm = vector[b1i_slot(layer, b1i_w_k_norm)],
                                          .cos = p->b.cos,
                                          .sin = p->b.sin,
                                          .kv = kv,
                                          .head_bytes = s->kv->head_bytes,
                                          .q_out = p->b.turned,
                                          .heads = c->heads,
                                          .kv_heads = c->kv_heads,
                                          .head_dim = c->head_dim,
                                          .dim = p->kernels.dim,
                                          .position = s->position,
                                          .scale = 1 / sqrtf((float)c->head_dim),
                                          .eps = c->norm_eps};
    b1i_prefill_attention_args attention = {.q = p->b.turned,
                                            .kv = kv,
                                            .head_bytes = s->kv->head_bytes,
                                            .out = p->b.att,
                                            .out_stride = value_stride(c, b1i_v_att),
                                            .part = p->b.part,
                                            .rows = s->n,
                                            .position = s->position,
                                            .group = c->heads / c->kv_heads,
                                            .kv_heads = c->kv_heads,
                                            .head_dim = c->head_dim,
                                            .window = c->sliding_window};
    B1I_TRY(b1i_prefill_heads(&p->kernels, &heads, s->n, err));
    B1I_TRY(b1i_prefill_attention(&p->kernels, &attention, err));
fail:
    return st;
}

static b1_status run_layer(const pass *s, int l, b1_error *err)
{
    b1_status st;
    const buffers *b = &s->p->b;
    const b1i_config *c = s->c;
    const int64_t x_stride = value_stride(c, b1i_v_x), ffn = value_stride(c, b1i_v_act);
    const b1i_gpu_ptr o_bias = s->p->w->vector[b1i_slot(l, b1i_w_o_bias)];
    const b1i_prefill_cols_args bias = {.a = b->x, .b = o_bias, .a_stride = x_stride, .cols = c->hidden};
    const b1i_prefill_cols_args silu = {
        .a = b->gate, .b = b->up, .out = b->act, .a_stride = ffn, .b_stride = ffn, .out_stride = ffn, .cols = c->ffn};
    B1I_TRY(normalise(s, b1i_slot(l, b1i_w_attn_norm), 0, s->n, err));
    B1I_TRY(linear(s, b1i_slot(l, b1i_w_q), b->norm, s->n, b->q, value_stride(c, b1i_v_q), false, err));
    B1I_TRY(linear(s, b1i_slot(l, b1i_w_k), b->norm, s->n, b->k, value_stride(c, b1i_v_k), false, err));
    B1I_TRY(linear(s, b1i_slot(l, b1i_w_v), b->norm, s->n, b->v, value_stride(c, b1i_v_v), false, err));
    B1I_TRY(attend(s, l, err));
    B1I_TRY(linear(s, b1i_slot(l, b1i_w_o), b->att, s->n, b->x, x_stride, true, err));
    if (o_bias) B1I_TRY(b1i_prefill_bias(&s->p->kernels, &bias, s->n, err));
    B1I_TRY(normalise(s, b1i_slot(l, b1i_w_ffn_norm), 0, s->n, err));
    B1I_TRY(linear(s, b1i_slot(l, b1i_w_gate), b->norm, s->n, b->gate, ffn, false, err));
    B1I_TRY(linear(s, b1i_slot(l, b1i_w_up), b->norm, s->n, b->up, ffn, false, err));
    B1I_TRY(b1i_prefill_silu(&s->p->kernels, &silu, s->n, err));
    B1I_TRY(linear(s, b1i_slot(l, b1i_w_down), b->act, s->n, b->x, x_stride, true, err));
fail:
    return st;
}

b1_status b1i_cuda_prefill_run(b1i_cuda_prefill *p, const b1i_cuda_kv *kv, const int32_t *tokens, int n, int position,
                               int logits_from, b1i_gpu_ptr logits, b1_error *err)
{
    b1_status st;
    const b1i_config *c = &p->w->model->config;
    const pass s = {.p = p, .c = c, .kv = kv, .n = n, .position = position};
    const int wanted = n - logits_from;
    if (n < 1 || n > ROWS || position < 0 || logits_from < 0 || wanted < 0 || (int64_t)position + n > kv->capacity)
        return b1i_fail(err, B1_ARGUMENT, "a pass of %d tokens at position %d, logits from %d, of a context of %lld", n,
                        position, logits_from, (long long)kv->capacity);
    B1I_TRY(b1i_gpu_upload(p->gpu, p->b.tokens, tokens, (size_t)n * sizeof *tokens, err));
    B1I_TRY(begin(&s, err));
    for (int l = 0; l < c->layers; l++) B1I_TRY(run_layer(&s, l, err));
    if (wanted > 0) {
        B1I_TRY(normalise(&s, b1i_slot_final_norm, logits_from, wanted, err));
        B1I_TRY(linear(&s, b1i_slot_head, p->b.norm, wanted, logits, c->vocab, false, err));
    }
    return b1i_gpu_sync(p->gpu, err);
fail:
    (void)b1i_gpu_sync(p->gpu, NULL); /* nothing of the pass is under way when the caller reads the error */
    return st;
}
