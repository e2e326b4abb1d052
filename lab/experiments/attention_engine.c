/* SPDX-License-Identifier: MIT
 *
 * The engine's own attention kernel as an operation of the lab: what the CUDA executors launch for a layer of a step,
 * by the same code in the same binary (see fatbins.h), with arguments made here as src/cuda/program.c makes them; a
 * test holds the two together. docs/decisions/0007 says why it is done so.
 *
 * The kernel does more than the lab's: RoPE of the query and the key, and the append of the step's key and value. It
 * turns by no angle here, so that its output is what the others' is, and the last position of the cache is its own to
 * write.
 */
#include "lab/experiments/attention.h"

#include "cuda/args.h"
#include "lab/fatbins.h"

#include <math.h>
#include <string.h>

enum { TILE = B1I_KV_TILE };

_Static_assert(sizeof(b1i_attention_args) <= B1I_LAB_ARGS_MAX, "the engine's arguments are an operation's");

/* Elements of a block's keys or values where position p and dimension d lie; see args.h. */
static size_t key_at(int p, int d, int dim)
{
    return (size_t)(((p % 8 / 2 * (dim / 32) + d / 32) * 32 + (2 * (p / 8) + p % 2) * 4 + d % 32 / 8) * 8 + d % 8);
}
static size_t value_at(int p, int d) { return (size_t)((d / 8 * 32 + d % 8 * 4 + p / 8) * 8 + p % 8); }

static size_t head_bytes(const b1i_attn_shape *shape, int positions)
{
    return (size_t)((positions + TILE - 1) / TILE) * 2 * TILE * (size_t)shape->dim * sizeof(uint16_t);
}

uint64_t b1i_attn_engine_kv_bytes(const b1i_attn_shape *shape, int positions)
{
    return (uint64_t)shape->kv_heads * head_bytes(shape, positions);
}

static size_t part_bytes(const b1i_attn_of_engine *e, const b1i_attn_shape *shape)
{
    return (size_t)shape->kv_heads * (size_t)e->parts * B1I_ATTENTION_PART((size_t)shape->dim) * sizeof(float);
}

/* A layer's keys and values `k`, `v` [kv_heads][positions][dim] as the engine lays them out, all but the last
 * position's (what stands there in `to` is zero). */
static void lay_out(uint16_t *to, const uint16_t *k, const uint16_t *v, const b1i_attn_shape *shape, int positions)
{
    const size_t dim = (size_t)shape->dim, row = head_bytes(shape, positions) / sizeof *to;
    for (size_t head = 0; head < (size_t)shape->kv_heads; head++)
        for (int p = 0; p < positions - 1; p++) {
            uint16_t *block = to + head * row + (size_t)(p / TILE) * 2 * TILE * dim;
            const size_t from = (head * (size_t)positions + (size_t)p) * dim;
            for (int d = 0; d < shape->dim; d++) {
                block[key_at(p % TILE, d, shape->dim)] = k[from + (size_t)d];
                block[TILE * dim + value_at(p % TILE, d)] = v[from + (size_t)d];
            }
        }
}

static void widen(float *to, const uint16_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* What a step brings: queries, and the last position's keys and values, as floats of the layer. */
static b1_status put_step(b1i_lab_device *device, const b1i_attn_of_engine *e, const b1i_attn_shape *shape, int layer,
                          const uint16_t *q, const uint16_t *k, const uint16_t *v, b1_error *err)
{
    b1_status st;
    const size_t dim = (size_t)shape->dim, kv = (size_t)shape->kv_heads * dim, heads = kv * (size_t)shape->group;
    float *x = b1i_malloc(heads * sizeof *x);
    if (!x) return b1i_fail_memory(err, heads * sizeof *x);
    widen(x, q, heads);
    B1I_TRY(b1i_lab_put(device, e->q + (size_t)layer * heads * sizeof *x, x, heads * sizeof *x, err));
    for (int i = 0; i < 2; i++) {
        for (size_t head = 0; head < (size_t)shape->kv_heads; head++)
            widen(x + head * dim, (i ? v : k) + ((head + 1) * (size_t)e->positions - 1) * dim, dim);
        B1I_TRY(b1i_lab_put(device, (i ? e->v : e->k) + (size_t)layer * kv * sizeof *x, x, kv * sizeof *x, err));
    }
fail:
    b1i_free(x);
    return st;
}

static b1_status put_layers(b1i_lab_device *device, const b1i_attn_of_engine *e, const b1i_attn_shape *shape,
                            b1_error *err)
{
    b1_status st = B1_OK;
    const size_t q_count = b1i_attn_count(shape, e->positions, b1i_attn_q);
    const size_t count = b1i_attn_count(shape, e->positions, b1i_attn_k);
    const size_t laid = (size_t)b1i_attn_engine_kv_bytes(shape, e->positions);
    const size_t bytes = (q_count + 2 * count) * sizeof(uint16_t) + laid;
    uint16_t *q = b1i_malloc(bytes), *k, *v, *to;
    if (!q) return b1i_fail_memory(err, bytes);
    k = q + q_count;
    v = k + count;
    to = v + count;
    memset(to, 0, laid);
    for (int layer = 0; layer < e->layers; layer++) {
        b1i_attn_make(q, shape, e->positions, layer, b1i_attn_q);
        b1i_attn_make(k, shape, e->positions, layer, b1i_attn_k);
        b1i_attn_make(v, shape, e->positions, layer, b1i_attn_v);
        lay_out(to, k, v, shape, e->positions);
        B1I_TRY(b1i_lab_put(device, e->kv + (size_t)layer * laid, to, laid, err));
        B1I_TRY(put_step(device, e, shape, layer, q, k, v, err));
    }
fail:
    b1i_free(q);
    return st;
}

/* No turn, the step's parameters, empty parts, and nobody who has begun. */
static b1_status put_rest(b1i_lab_device *device, const b1i_attn_of_engine *e, const b1i_attn_shape *shape,
                          b1_error *err)
{
    b1_status st;
    float turns[2 * B1I_CUDA_ROWS * 64] = {0};
    const size_t angles = B1I_CUDA_ROWS * (size_t)shape->dim / 2;
    b1i_step_params step = {.n = 1};
    step.row[0] =
        (b1i_step_row){.position = e->positions - 1, .kv = e->kv, .head_bytes = head_bytes(shape, e->positions)};
    for (size_t i = 0; i < angles; i++) turns[i] = 1;
    B1I_TRY(b1i_lab_put(device, e->turns, turns, 2 * angles * sizeof *turns, err));
    B1I_TRY(b1i_lab_put(device, e->step, &step, sizeof step, err));
    B1I_TRY(b1i_lab_fill(device, e->part, 0xff, part_bytes(e, shape), err));
    B1I_TRY(b1i_lab_fill(device, e->begun, 0, (size_t)shape->kv_heads * sizeof(uint32_t), err));
fail:
    return st;
}

b1_status b1i_attn_engine_make(b1i_lab_device *device, const b1i_attn_shape *shape, int positions, int layers,
                               b1i_attn_of_engine *out, b1_error *err)
{
    b1_status st;
    b1i_gpu *gpu = b1i_lab_device_gpu(device);
    const char *what = "the engine's attention";
    const size_t kv = (size_t)shape->kv_heads * (size_t)shape->dim * sizeof(float), some = (size_t)layers;
    b1i_attn_of_engine e = {.layers = layers, .positions = positions};
    *out = e;
    if (!gpu) {
        return b1i_fail(err, B1_UNSUPPORTED,
                        "on the CPU the engine's attention is part of its executors' steps and cannot be run alone; "
                        "`batchone explain` shows its part of a step");
    }
    e.parts = b1i_gpu_get_info(gpu)->sms / shape->kv_heads;
    e.parts = e.parts < 1 ? 1 : e.parts > B1I_SPLITS_MAX ? B1I_SPLITS_MAX : e.parts;
    B1I_TRY(b1i_lab_load_attention(gpu, err));
    B1I_TRY(b1i_lab_alloc(device, some * (size_t)b1i_attn_engine_kv_bytes(shape, positions), what, &e.kv, err));
    B1I_TRY(b1i_lab_alloc(device, sizeof(b1i_step_params), what, &e.step, err));
    B1I_TRY(b1i_lab_alloc(device, some * kv * (size_t)shape->group, what, &e.q, err));
    B1I_TRY(b1i_lab_alloc(device, some * kv, what, &e.k, err));
    B1I_TRY(b1i_lab_alloc(device, some * kv, what, &e.v, err));
    B1I_TRY(b1i_lab_alloc(device, B1I_CUDA_ROWS * (size_t)shape->dim * sizeof(float), what, &e.turns, err));
    B1I_TRY(b1i_lab_alloc(device, part_bytes(&e, shape), what, &e.part, err));
    B1I_TRY(b1i_lab_alloc(device, (size_t)shape->kv_heads * sizeof(uint32_t), what, &e.begun, err));
    B1I_TRY(put_layers(device, &e, shape, err));
    B1I_TRY(put_rest(device, &e, shape, err));
    *out = e;
    return B1_OK;
fail:
    b1i_attn_engine_free(device, &e);
    return st;
}

void b1i_attn_engine_free(b1i_lab_device *device, b1i_attn_of_engine *engine)
{
    const uint64_t made[] = {engine->kv, engine->step,  engine->q,    engine->k,
                             engine->v,  engine->turns, engine->part, engine->begun};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) b1i_lab_free(device, made[i]);
    *engine = (b1i_attn_of_engine){0};
}

void b1i_attn_engine_op(b1i_lab_device *device, const b1i_attn_of_engine *e, const b1i_attn_shape *shape, int layer,
                        bool early, uint64_t out, b1i_lab_op *op)
{
    const int64_t kv = (int64_t)shape->kv_heads * shape->dim, heads = kv * shape->group;
    const uint64_t at = (uint64_t)layer * sizeof(float);
    const bool small = b1i_gpu_get_info(b1i_lab_device_gpu(device))->shared_bytes_block < B1I_SHARED_SMALL;
    const int slots = small ? B1I_ATTENTION_SLOTS(shape->dim, true) : B1I_ATTENTION_SLOTS(shape->dim, false);
    const b1i_attention_args a = {
        .step = e->step,
        .q = e->q + at * (uint64_t)heads,
        .k = e->k + at * (uint64_t)kv,
        .v = e->v + at * (uint64_t)kv,
        .q_stride = heads,
        .k_stride = kv,
        .v_stride = kv,
        .prologue = 1,
        .head_dim = shape->dim,
        .group = shape->group,
        .kv_heads = shape->kv_heads,
        .splits = e->parts,
        .scale = 1 / sqrtf((float)shape->dim),
        .eps = 1e-5f,
        .cos = e->turns,
        .sin = e->turns + B1I_CUDA_ROWS * (uint64_t)shape->dim / 2 * sizeof(float),
        .layer = layer,
        .early = early,
        .out = out,
        .out_stride = heads,
        .part = e->part,
        .begun = e->begun,
    };
    *op = (b1i_lab_op){.kernel = shape->dim == 128 ? "k_attention_128" : "k_attention_64",
                       .grid = (unsigned)e->parts,
                       .grid_y = (unsigned)shape->kv_heads,
                       .threads = B1I_ATTENTION_WARPS * 32,
                       .shared_bytes = (unsigned)(B1I_ATTENTION_WARPS * slots * TILE * shape->dim * 2),
                       .arg_bytes = sizeof a};
    memcpy(op->args, &a, sizeof a);
}
