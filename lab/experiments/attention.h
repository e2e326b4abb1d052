/* SPDX-License-Identifier: MIT
 *
 * The experiment `attention`, and its variants as operations on one layer.
 */
#ifndef LAB_EXPERIMENTS_ATTENTION_H
#define LAB_EXPERIMENTS_ATTENTION_H

#include "lab/kernels/attention_args.h"
#include "lab/lab.h"
#include "lab/oracle_attention.h"
#include "lab/work.h"

extern const b1i_experiment b1i_experiment_attention;

typedef enum b1i_attn_variant {
    b1i_attn_math,     /* unfused: scores, softmax, values */
    b1i_attn_onepass,  /* one part: a block, or a worker, a KV head */
    b1i_attn_split,    /* parts of the context, then their merge */
    b1i_attn_unified,  /* the same with a maximum that was known before */
    b1i_attn_fallback, /* the same with one so far off that every part walks twice */
    b1i_attn_engine,   /* the kernel that the CUDA executors launch: see attention_engine.c */
    b1i_attn_variants
} b1i_attn_variant;
extern const char *const b1i_attn_variant_names[b1i_attn_variants];

/* Heads of a published model; `dim` is 64 or 128. */
typedef struct b1i_attn_shape {
    const char *name;
    int kv_heads, group, dim, layers; /* query heads of a KV head; of the model */
} b1i_attn_shape;

/* ---- operations ---- */
enum { B1I_ATTN_OPS_MOST = 3 };

/* Parts of the context that fill the device. */
int b1i_attn_parts(b1i_lab_device *device, const b1i_attn_shape *shape, int positions);
/* Fills `ops` for a layer, of any variant but the engine's, and returns how many there are. Of `args`, parts and part
 * are those of the variants that split, and `unified` is set here. */
int b1i_attn_ops(b1i_attn_variant variant, const b1i_attn_args *args, b1i_lab_op *ops);
int b1i_attn_kernels(b1i_attn_variant variant); /* how many that is; the engine's: 1 */
/* How far an output may lie from the oracle's; the engine's with its own `parts`. */
b1i_oracle_bounds b1i_attn_bounds(b1i_attn_variant variant, bool gpu, int dim, int positions, int parts);

/* Queries [kv_heads · group][dim], keys or values [kv_heads][positions][dim] of a layer, as bf16. */
typedef enum b1i_attn_data { b1i_attn_q, b1i_attn_k, b1i_attn_v } b1i_attn_data;
void b1i_attn_make(uint16_t *to, const b1i_attn_shape *shape, int positions, int layer, b1i_attn_data kind);
size_t b1i_attn_count(const b1i_attn_shape *shape, int positions, b1i_attn_data kind);

/* ---- the engine's kernel ---- */
typedef struct b1i_attn_of_engine {
    int parts, layers, positions;
    uint64_t kv;      /* its own layout, [layers][kv_heads]; the last position's keys and values are not there */
    uint64_t step;    /* its parameters: one row at the last position */
    uint64_t q, k, v; /* f32 [layers]: the step's queries, keys, values */
    uint64_t turns;   /* cos and sin of no turn */
    uint64_t part, begun;
} b1i_attn_of_engine;

/* `device` is a GPU, else B1_UNSUPPORTED. */
b1_status b1i_attn_engine_make(b1i_lab_device *device, const b1i_attn_shape *shape, int positions, int layers,
                               b1i_attn_of_engine *out, b1_error *err);
void b1i_attn_engine_free(b1i_lab_device *device, b1i_attn_of_engine *engine);
/* The launch of a layer, whose output, bf16, goes to `out`. `early`: in a graph with programmatic edges. */
void b1i_attn_engine_op(b1i_lab_device *device, const b1i_attn_of_engine *engine, const b1i_attn_shape *shape,
                        int layer, bool early, uint64_t out, b1i_lab_op *op);
/* Its bytes in memory besides keys and values are few; those are as many as the plain ones, rounded up to its blocks.
 */
uint64_t b1i_attn_engine_kv_bytes(const b1i_attn_shape *shape, int positions);

#endif
