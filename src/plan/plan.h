/* SPDX-License-Identifier: MIT
 *
 * The plan: one decode step as data. An ordered list of ops on named values (activations) and weight slots, built once
 * per model, and its fusion: groups of consecutive ops that one kernel or dispatch does.
 */
#ifndef B1I_PLAN_H
#define B1I_PLAN_H

#include "plan/layout.h"

typedef enum b1i_op_id {
#define B1I_OP(id, inputs, state, reads, split, grade) b1i_op_##id,
#include "plan/ops.def"
#undef B1I_OP
    b1i_op_count
} b1i_op_id;

typedef enum b1i_reads { b1i_reads_row, b1i_reads_head, b1i_reads_same, b1i_reads_context, b1i_reads_token } b1i_reads;
typedef enum b1i_split {
    b1i_split_rows,
    b1i_split_panels,
    b1i_split_heads,
    b1i_split_chunks,
    b1i_split_cols
} b1i_split;
typedef enum b1i_grade { b1i_grade_exact, b1i_grade_element, b1i_grade_sum, b1i_grade_softmax } b1i_grade;
typedef enum b1i_state_change { b1i_state_none, b1i_state_kv } b1i_state_change;

typedef struct b1i_op_class {
    const char *name;
    int inputs;
    b1i_state_change state;
    b1i_reads reads;
    b1i_split split;
    b1i_grade grade;
} b1i_op_class;
extern const b1i_op_class b1i_op_classes[b1i_op_count];

/* Values: one row a token. X(id, columns of a row) */
#define B1I_VALUES(X)                                                              \
    X(tokens, 1)                                                                   \
    X(x, c->hidden) /* the residual stream */                                      \
    X(norm, c->hidden)                                                             \
    X(q, c->heads * c->head_dim)                                                   \
    X(k, c->kv_heads * c->head_dim)                                                \
    X(v, c->kv_heads * c->head_dim)                                                \
    X(att, c->heads * c->head_dim)                                                 \
    X(out, c->hidden) /* of the output and down projections, before it is added */ \
    X(gate, c->ffn)                                                                \
    X(up, c->ffn)                                                                  \
    X(act, c->ffn) /* silu(gate) · up */                                          \
    X(logits, c->vocab)
typedef enum b1i_value {
#define B1I_VALUE_ENUM(id, cols) b1i_v_##id,
    B1I_VALUES(B1I_VALUE_ENUM)
#undef B1I_VALUE_ENUM
        b1i_value_count,
    b1i_v_none
} b1i_value;
extern const char *const b1i_value_names[b1i_value_count];
int b1i_value_cols(const b1i_config *config, b1i_value value);

/* Weight slots: 0 embedding, 1 final norm, 2 LM head (slot 0's tensor where tied), 3 + layer·b1i_layer_weights + w. */
enum { b1i_slot_none = -1, b1i_slot_embedding, b1i_slot_final_norm, b1i_slot_head, b1i_slot_layers };
static inline int b1i_slot(int layer, b1i_weight w) { return b1i_slot_layers + layer * b1i_layer_weights + (int)w; }
int b1i_slot_count(const b1i_model *model);
/* The slot's tensor; rows == 0 where the model has none. */
const b1i_tensor *b1i_slot_tensor(const b1i_model *model, int slot);
static inline bool b1i_slot_is_matrix(const b1i_model *model, int slot)
{
    return b1i_slot_tensor(model, slot)->rows > 1;
}
/* A slot that comes before this one wherever weights are laid out, and has its values by definition, so that they need
 * not be made again: the first layer's, or the embedding's for the head. b1i_slot_none: there is none. */
int b1i_slot_same(const b1i_model *model, int slot);
/* The tied head is the embedding's slot seen twice. */
static inline bool b1i_slot_is_alias(const b1i_model *model, int slot)
{
    return slot == b1i_slot_head && model->config.tied;
}

typedef struct b1i_op {
    b1i_op_id id;
    int layer; /* -1 outside the layers */
    b1i_value in[2];
    b1i_value out;
    int weight, bias; /* slots or b1i_slot_none */
} b1i_op;

#define B1I_GROUPS(X) X(embed) X(qkv) X(attention) X(out) X(gate_up) X(down) X(head)
typedef enum b1i_group_id {
#define B1I_GROUP_ENUM(id) b1i_group_##id,
    B1I_GROUPS(B1I_GROUP_ENUM)
#undef B1I_GROUP_ENUM
        b1i_group_count
} b1i_group_id;
extern const char *const b1i_group_names[b1i_group_count];

/* Ops [first, first + count) done as one. */
typedef struct b1i_group {
    b1i_group_id id;
    int layer;
    int first, count;
} b1i_group;

typedef struct b1i_plan {
    b1i_op *ops;
    int op_count;
    b1i_group *groups; /* cover all ops in order */
    int group_count;
} b1i_plan;

b1_status b1i_plan_build(const b1i_model *model, b1i_plan *out, b1_error *err);
void b1i_plan_free(b1i_plan *plan);

/* ---- traffic (DESIGN's W and K) ---- */
/* W: bytes of all weights that a step reads, in the format's own size: layers, norms, biases, final norm, LM head or
 * the tied embedding once, and one row of an untied embedding. */
uint64_t b1i_traffic_weights(const b1i_model *model);
/* The same of one op of the plan. The embedding lookup of a tied model counts nothing: the head reads it. */
uint64_t b1i_op_weight_bytes(const b1i_model *model, const b1i_op *op);
/* K = 2 · layers · kv_heads · head_dim · context · bytes of the type. A sliding window bounds the context. */
uint64_t b1i_traffic_kv(const b1i_config *config, int context, b1i_type type);

/* ---- tolerance ---- */
/* How far an op may lie from its reference on the same inputs, relative to the largest magnitude of its output:
 * `type` is that of the activations it reads, `length` its reduction length. f32 sums in another order differ by about
 * sqrt(length) · 2^-24 of the terms; an input that is rounded to bf16 or int8 may round the other way where it lies on
 * an edge, which moves one term by 2^-8 or 1/127 of it: that much over sqrt(length) for a few of them. */
float b1i_op_tolerance(b1i_op_id id, b1i_type type, int64_t length);

#endif
