/* SPDX-License-Identifier: MIT
 *
 * What a CPU executor works on: the KV cache, one buffer per value of the plan, scratch of each worker, and the step at
 * hand. The work itself is stages.h (kernels) and reference.h (plain C).
 *
 * Invariants: rows of a step are consecutive positions of one sequence, or one position of each of several, in one
 * order; every position below a sequence's first row is in its KV cache already.
 */
#ifndef B1I_CPU_STATE_H
#define B1I_CPU_STATE_H

#include "cpu/kernels.h"
#include "plan/resident.h"

/* ---- the KV cache of a session ---- */
typedef struct b1i_kv {
    b1i_type type; /* f32, bf16, f16 */
    int layers, heads, head_dim;
    int64_t capacity;  /* positions, a multiple of B1I_KV_BLOCK */
    size_t head_bytes; /* of the keys of one head; the values follow */
    uint8_t *data;
    size_t bytes;
} b1i_kv;

/* Bytes of a cache of `context` positions. */
size_t b1i_kv_cache_bytes(const b1i_config *config, int context, b1i_type type);
b1_status b1i_kv_create(const b1i_config *config, int context, b1i_type type, b1i_kv *out, b1_error *err);
void b1i_kv_free(b1i_kv *kv);
/* Keys and values of positions [0, count) become deterministic filler, uniform in ±1.7, so of variance about 1. */
void b1i_kv_fill(const b1i_kv *kv, const b1i_kernels *kernels, int workers, int count);
static inline b1i_kv_head b1i_kv_at(const b1i_kv *kv, int layer, int head)
{
    uint8_t *keys = kv->data + ((size_t)layer * (size_t)kv->heads + (size_t)head) * 2 * kv->head_bytes;
    return (b1i_kv_head){kv->type, kv->head_dim, keys, keys + kv->head_bytes};
}

/* ---- a step ---- */
enum {
    B1I_DECODE_ROWS = 8,    /* up to here attention is split over the context, past it over rows */
    B1I_PREFILL_ROWS = 128, /* most rows of one pass */
    B1I_ATTEND_ROWS = 8,    /* rows that one attention item of a longer pass takes */
    B1I_RANGES = 16         /* parts of the context in decode attention, about */
};

/* Types that the reference rounds to, so that it has the precision of the executor that it is compared with. */
typedef struct b1i_precision {
    b1i_type dense; /* inputs of f32, f16 and bf16 weights: f32 or bf16 */
    b1i_type quant; /* inputs of quantised weights: f32 or i8 */
} b1i_precision;

/* A sequence of the step at hand: rows [row, row + rows) are its positions from `position` on. */
typedef struct b1i_sequence {
    const b1i_kv *kv;
    int row, rows, position;
    int range, ranges; /* positions of a part of decode attention; parts */
} b1i_sequence;

typedef struct b1i_cpu_state {
    const b1i_kernels *kernels;
    const b1i_resident *w;
    const b1i_config *c;
    b1i_precision precision;
    int workers, max_rows, logit_rows;
    b1i_kv *kv;

    float *value[b1i_value_count];   /* [max_rows] rows at stride; logits [logit_rows] */
    int64_t stride[b1i_value_count]; /* floats */
    uint8_t *act_data;               /* the input of the linear op at hand, [max_rows] of the widest row */
    uint8_t *scratch;                /* [workers][scratch_bytes] */
    size_t scratch_bytes;
    float *part_max, *part_sum, *part_out; /* [B1I_RANGES + 1][rows ≤ 8 × heads] (× head_dim): attention partials */
    float *cos, *sin;                      /* [max_rows][rope_stride] of the step's positions */
    int rope_stride;
    float *inverse; /* [head_dim / 2] inverse frequencies */
    float rope_factor;
    int *first, *limit; /* [max_rows] visible positions of each row: first .. limit − 1 */
    void *block;        /* the memory behind all of these */
    size_t block_bytes;

    /* the step at hand */
    int n;
    const int32_t *tokens; /* [n] */
    int logits_from;       /* logits of rows [logits_from, n) */
    int sequences;         /* 1, or n */
    b1i_sequence sequence[B1I_DECODE_ROWS];
} b1i_cpu_state;

b1_status b1i_cpu_state_create(const b1i_resident *w, const b1i_kernels *kernels, int workers, int logit_rows,
                               b1i_cpu_state *out, b1_error *err);
void b1i_cpu_state_free(b1i_cpu_state *s);
/* These set the step at hand: RoPE's cos and sin, visible positions, attention's parts. n positions of s->kv's
 * sequence: */
void b1i_cpu_state_step(b1i_cpu_state *s, const int32_t *tokens, int n, int position, int logits_from);
/* One position of each of n ≤ 8 sequences: */
void b1i_cpu_state_step_rows(b1i_cpu_state *s, const int32_t *tokens, const b1i_kv *const *kv, const int *positions,
                             int n);

static inline const b1i_sequence *b1i_sequence_of(const b1i_cpu_state *s, int row)
{
    return &s->sequence[s->sequences > 1 ? row : 0];
}
static inline int b1i_position_of(const b1i_cpu_state *s, int row)
{
    const b1i_sequence *q = b1i_sequence_of(s, row);
    return q->position + row - q->row;
}

static inline float *b1i_row(const b1i_cpu_state *s, b1i_value v, int row) { return s->value[v] + s->stride[v] * row; }

#endif
