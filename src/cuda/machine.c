/* SPDX-License-Identifier: MIT
 *
 * Owns the machine: the device memory that a step works in, and the pinned memory through which the host gives a step
 * its parameters and gets its result.
 */
#include "cuda/cuda.h"

#include <string.h>

b1_status b1i_cuda_supports(const b1i_model *m, b1_error *err)
{
    const b1i_config *c = &m->config;
    if (c->head_dim % 2 != 0 || !b1i_cuda_dim(c->head_dim))
        return b1i_fail(err, B1_UNSUPPORTED, "%s: heads of %d dimensions; the CUDA executors take even ones up to 256",
                        c->name, c->head_dim);
    if (c->heads / c->kv_heads > 64)
        return b1i_fail(err, B1_UNSUPPORTED, "%s: %d query heads a KV head; the CUDA executors take up to 64", c->name,
                        c->heads / c->kv_heads);
    return B1_OK;
}

bool b1i_cuda_value_is_bf16(b1i_value v) { return v == b1i_v_norm || v == b1i_v_att || v == b1i_v_act; }

static int64_t padded(int64_t cols) { return (cols + B1I_TILE_COLS - 1) / B1I_TILE_COLS * B1I_TILE_COLS; }

/* Attention's blocks should fill the SMs: a part of the context each. */
static int splits_of(const b1i_config *c, int sms)
{
    int splits = sms / c->kv_heads;
    return splits < 1 ? 1 : splits > B1I_SPLITS_MAX ? B1I_SPLITS_MAX : splits;
}

/* Hands out pieces of one block; with base 0 it only adds sizes up. */
typedef struct carver {
    b1i_gpu_ptr base;
    size_t used;
} carver;

static b1i_gpu_ptr carve(carver *k, size_t bytes)
{
    b1i_gpu_ptr p = k->base + k->used;
    k->used += (bytes + 255) / 256 * 256;
    return p;
}

static void lay_out(b1i_cuda_machine *m, const b1i_config *c, int sms, carver *k)
{
    const size_t rows = B1I_CUDA_ROWS, half = (size_t)c->head_dim / 2;
    const size_t passes = ((size_t)(c->heads / c->kv_heads) + B1I_HEADS_PASS - 1) / B1I_HEADS_PASS;
    const size_t places = rows * passes * (size_t)c->kv_heads;
    m->splits = splits_of(c, sms);
    for (int v = b1i_v_x; v < b1i_v_logits; v++) {
        m->stride[v] = padded(b1i_value_cols(c, (b1i_value)v));
        m->value[v] = carve(k, rows * (size_t)m->stride[v] * (b1i_cuda_value_is_bf16((b1i_value)v) ? 2 : 4));
    }
    m->step = carve(k, sizeof(b1i_step_params));
    m->cos = carve(k, rows * half * sizeof(float));
    m->sin = carve(k, rows * half * sizeof(float));
    m->inverse = carve(k, half * sizeof(float));
    m->part_bytes = places * (size_t)m->splits * B1I_ATTENTION_PART((size_t)b1i_cuda_dim(c->head_dim)) * sizeof(float);
    m->part = carve(k, m->part_bytes);
    m->begun = carve(k, places * sizeof(uint32_t));
    m->head_arrived = carve(k, sizeof(uint32_t));
    m->best = carve(k, B1I_CUDA_BLOCKS_MAX * rows * 2 * sizeof(float));
}

uint64_t b1i_cuda_machine_bytes(const b1i_model *model, int sms)
{
    b1i_cuda_machine m = {0};
    carver k = {0};
    lay_out(&m, &model->config, sms, &k);
    return k.used;
}

static b1_status create(b1i_cuda_machine *m, b1_error *err)
{
    b1_status st;
    const b1i_config *c = &m->w->model->config;
    const int sms = b1i_gpu_get_info(m->gpu)->sms;
    void *host;
    float inverse[128];
    m->block_bytes = (size_t)b1i_cuda_machine_bytes(m->w->model, sms);
    B1I_TRY(b1i_gpu_alloc(m->gpu, m->block_bytes, "the buffers of a step", &m->block, err));
    carver k = {m->block, 0};
    lay_out(m, c, sms, &k);
    /* Zeros past a value's columns are part of every product, counters begin at 0, and attention's parts empty. */
    B1I_TRY(b1i_gpu_fill(m->gpu, m->block, 0, m->block_bytes, err));
    B1I_TRY(b1i_gpu_fill(m->gpu, m->part, 0xff, m->part_bytes, err));
    B1I_TRY(b1i_gpu_host_alloc(m->gpu, sizeof *m->staged, "a step's parameters", &host, &m->staged_device, err));
    m->staged = host;
    B1I_TRY(b1i_gpu_host_alloc(m->gpu, sizeof *m->result, "a step's result", &host, &m->result_device, err));
    m->result = host;
    b1i_rope_frequencies(c, inverse, &m->rope_factor);
    B1I_TRY(b1i_gpu_upload(m->gpu, m->inverse, inverse, (size_t)c->head_dim / 2 * sizeof *inverse, err));
    return B1_OK;
fail:
    return st;
}

b1_status b1i_cuda_machine_create(const b1i_cuda_weights *w, b1i_cuda_machine *m, b1_error *err)
{
    *m = (b1i_cuda_machine){.w = w, .gpu = w->gpu};
    pthread_mutex_init(&m->lock, NULL);
    b1_status st = create(m, err);
    if (st != B1_OK) b1i_cuda_machine_free(m);
    return st;
}

void b1i_cuda_machine_free(b1i_cuda_machine *m)
{
    if (!m->w) return;
    for (int f = 0; f < b1i_cuda_forms; f++)
        for (int i = 0; i < b1i_cuda_widths; i++) b1i_free(m->program[f][i].launches);
    if (m->result) b1i_gpu_host_free(m->gpu, (void *)m->result);
    if (m->staged) b1i_gpu_host_free(m->gpu, m->staged);
    if (m->block) b1i_gpu_free(m->gpu, m->block);
    pthread_mutex_destroy(&m->lock);
    memset(m, 0, sizeof *m);
}
