/* SPDX-License-Identifier: MIT
 *
 * Stages: the pieces of a step that run without a synchronisation inside. Every worker does its share of a stage; a
 * stage begins when all workers have done the one before. The executors `separate`, `fused` and `persistent` differ in
 * the list (by op or by group) and in what stands between stages.
 */
#ifndef B1I_STAGES_H
#define B1I_STAGES_H

#include "cpu/state.h"

typedef struct b1i_stage b1i_stage;
typedef void (*b1i_stage_fn)(const b1i_cpu_state *s, const b1i_stage *stage, int worker, int workers);
struct b1i_stage {
    b1i_stage_fn run;
    const b1i_op *op; /* the op, or the group's first */
    int item;         /* index of the op or group that it belongs to, for stop-after and times */
    int matrices; /* weights that it streams: their panels are contiguous in the arena from `op`'s first linear on */
    int first_linear; /* offset of that linear from `op` */
};

typedef struct b1i_stage_list {
    b1i_stage *stages;
    int count;
} b1i_stage_list;

/* How many rows a list is for: one, up to B1I_DECODE_ROWS, more. */
typedef enum b1i_rows { b1i_rows_one, b1i_rows_few, b1i_rows_many, b1i_rows_count } b1i_rows;
static inline b1i_rows b1i_rows_of(int n)
{
    return n == 1 ? b1i_rows_one : n <= B1I_DECODE_ROWS ? b1i_rows_few : b1i_rows_many;
}

b1_status b1i_stages_separate(const b1i_plan *plan, b1i_rows rows, b1i_stage_list *out, b1_error *err);
b1_status b1i_stages_fused(const b1i_resident *w, const b1i_kernels *kernels, b1i_rows rows, b1i_stage_list *out,
                           b1_error *err);
void b1i_stages_free(b1i_stage_list *list);

/* Where this worker's share of the stage's weights begins; NULL where it has none. *bytes is the share's size. */
const uint8_t *b1i_stage_weights(const b1i_cpu_state *s, const b1i_stage *stage, int worker, int workers,
                                 size_t *bytes);

/* ---- shared by the two lists ---- */
/* Appends the stages of one op as `item`. The list has room for two an op. */
void b1i_stages_add_op(b1i_stage_list *list, const b1i_op *op, b1i_rows rows, int item);
void b1i_st_attend_rows(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers);
/* Panels [begin, end) of a linear op: its rows from `x`, out into its value (added to it where `add`). */
void b1i_linear_panels(const b1i_cpu_state *s, const b1i_op *op, const b1i_act *x, bool add, b1i_value out,
                       int64_t begin, int64_t end);
/* Rows that the op computes: the LM head only those whose logits are wanted. */
int b1i_op_first_row(const b1i_cpu_state *s, const b1i_op *op);
/* The shared input buffer, or this worker's own, for a linear op. */
b1i_act b1i_shared_act(const b1i_cpu_state *s, const b1i_op *linear);
b1i_act b1i_private_act(const b1i_cpu_state *s, const b1i_op *linear, int worker);
/* A worker's f32 row behind its private act: [widest]. */
float *b1i_private_row(const b1i_cpu_state *s, int worker);

/* The parts of decode attention, every sequence's KV heads times its ranges, are shared out by the positions that they
 * cover. A walk gives this worker's, one after the other. */
typedef struct b1i_part {
    const b1i_sequence *of;
    int head, range, from, to; /* KV head; positions [from, to) */
} b1i_part;
typedef struct b1i_part_walk {
    int64_t at, begin, end; /* positions before the next part; this worker's parts begin in [begin, end) */
    int sequence, head, range;
} b1i_part_walk;
b1i_part_walk b1i_parts_of(const b1i_cpu_state *s, int worker, int workers);
/* false: there are no more */
bool b1i_next_part(const b1i_cpu_state *s, b1i_part_walk *walk, b1i_part *out);
/* Where results of `row` for the first query head of the part lie among the partials. */
static inline int64_t b1i_part_index(const b1i_cpu_state *s, const b1i_part *p, int row)
{
    const int heads = s->c->heads;
    return ((int64_t)p->range * s->n + row) * heads + (int64_t)p->head * (heads / s->c->kv_heads);
}

/* Attention of query heads of KV head `head` for rows [row, row + rows) of one sequence over positions [begin, end),
 * begin a multiple of B1I_KV_BLOCK: maximum, sum and weighted values [rows × group](× head_dim). `q` is [rows] at
 * q_stride floats. */
void b1i_attend(const b1i_cpu_state *s, int layer, int head, int row, int rows, const float *q, int64_t q_stride,
                int begin, int end, float *max, float *sum, float *out);
/* This worker's buffer for the group's queries: [B1I_ATTEND_ROWS][group × head_dim]. */
float *b1i_attend_q(const b1i_cpu_state *s, int worker);
/* And for one key [head_dim]. */
float *b1i_attend_k(const b1i_cpu_state *s, int worker);
/* Sums the parts of decode attention for `row` into out [heads × head_dim]. */
void b1i_merge_row(const b1i_cpu_state *s, int row, float *out);

#endif
