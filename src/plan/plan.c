/* SPDX-License-Identifier: MIT
 *
 * Owns the building of the plan, its fusion into groups, and the sums of traffic. Every architecture that the loaders
 * accept is Llama-shaped; what differs (biases, q/k norms, tying) is whether a slot's tensor exists.
 */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

const b1i_op_class b1i_op_classes[b1i_op_count] = {
#define B1I_OP(id, inputs, state, reads, split, grade) \
    {#id, inputs, b1i_state_##state, b1i_reads_##reads, b1i_split_##split, b1i_grade_##grade},
#include "plan/ops.def"
#undef B1I_OP
};

const char *const b1i_value_names[b1i_value_count] = {
#define B1I_VALUE_NAME(id, cols) #id,
    B1I_VALUES(B1I_VALUE_NAME)};

const char *const b1i_group_names[b1i_group_count] = {
#define B1I_GROUP_NAME(id) #id,
    B1I_GROUPS(B1I_GROUP_NAME)};

int b1i_value_cols(const b1i_config *c, b1i_value value)
{
    switch (value) {
#define B1I_VALUE_COLS(id, cols) \
    case b1i_v_##id:             \
        return cols;
        B1I_VALUES(B1I_VALUE_COLS)
    default:
        return 0;
    }
}

int b1i_slot_count(const b1i_model *m) { return b1i_slot_layers + m->config.layers * b1i_layer_weights; }

const b1i_tensor *b1i_slot_tensor(const b1i_model *m, int slot)
{
    switch (slot) {
    case b1i_slot_embedding:
        return &m->embedding;
    case b1i_slot_final_norm:
        return &m->final_norm;
    case b1i_slot_head:
        return m->config.tied ? &m->embedding : &m->head;
    default:
        return &m->layer[slot - b1i_slot_layers];
    }
}

int b1i_slot_same(const b1i_model *m, int slot)
{
    int other = b1i_slot_none;
    if (slot == b1i_slot_head && !m->config.tied) other = b1i_slot_embedding;
    if (slot >= b1i_slot_layers + b1i_layer_weights)
        other = b1i_slot_layers + (slot - b1i_slot_layers) % b1i_layer_weights;
    if (other == b1i_slot_none) return other;
    return b1i_tensor_same(b1i_slot_tensor(m, slot), b1i_slot_tensor(m, other)) ? other : b1i_slot_none;
}

/* Ops and groups of one layer are at most this many. */
enum { OPS_A_LAYER = 20, GROUPS_A_LAYER = 5, OPS_OUTSIDE = 3, GROUPS_OUTSIDE = 2 };

static int slot_if(const b1i_model *m, int layer, b1i_weight w)
{
    return b1i_model_layer(m, layer, w)->rows > 0 ? b1i_slot(layer, w) : b1i_slot_none;
}

static void add(b1i_plan *p, b1i_op_id id, int layer, b1i_value in0, b1i_value in1, b1i_value out, int weight, int bias)
{
    p->ops[p->op_count++] = (b1i_op){id, layer, {in0, in1}, out, weight, bias};
}

/* Closes a group over the ops added since the last one. */
static void close_group(b1i_plan *p, b1i_group_id id, int layer)
{
    int first = p->group_count ? p->groups[p->group_count - 1].first + p->groups[p->group_count - 1].count : 0;
    p->groups[p->group_count++] = (b1i_group){id, layer, first, p->op_count - first};
}

static void add_layer(b1i_plan *p, const b1i_model *m, int l)
{
    const b1i_value none = b1i_v_none;
    add(p, b1i_op_rmsnorm, l, b1i_v_x, none, b1i_v_norm, b1i_slot(l, b1i_w_attn_norm), b1i_slot_none);
    add(p, b1i_op_linear, l, b1i_v_norm, none, b1i_v_q, b1i_slot(l, b1i_w_q), slot_if(m, l, b1i_w_q_bias));
    add(p, b1i_op_linear, l, b1i_v_norm, none, b1i_v_k, b1i_slot(l, b1i_w_k), slot_if(m, l, b1i_w_k_bias));
    add(p, b1i_op_linear, l, b1i_v_norm, none, b1i_v_v, b1i_slot(l, b1i_w_v), slot_if(m, l, b1i_w_v_bias));
    close_group(p, b1i_group_qkv, l);
    if (m->config.qk_norm) {
        add(p, b1i_op_headnorm, l, b1i_v_q, none, b1i_v_q, b1i_slot(l, b1i_w_q_norm), b1i_slot_none);
        add(p, b1i_op_headnorm, l, b1i_v_k, none, b1i_v_k, b1i_slot(l, b1i_w_k_norm), b1i_slot_none);
    }
    add(p, b1i_op_rope, l, b1i_v_q, none, b1i_v_q, b1i_slot_none, b1i_slot_none);
    add(p, b1i_op_rope, l, b1i_v_k, none, b1i_v_k, b1i_slot_none, b1i_slot_none);
    add(p, b1i_op_kv_append, l, b1i_v_k, b1i_v_v, none, b1i_slot_none, b1i_slot_none);
    add(p, b1i_op_attention, l, b1i_v_q, none, b1i_v_att, b1i_slot_none, b1i_slot_none);
    close_group(p, b1i_group_attention, l);
    add(p, b1i_op_linear, l, b1i_v_att, none, b1i_v_out, b1i_slot(l, b1i_w_o), slot_if(m, l, b1i_w_o_bias));
    add(p, b1i_op_add, l, b1i_v_x, b1i_v_out, b1i_v_x, b1i_slot_none, b1i_slot_none);
    close_group(p, b1i_group_out, l);
    add(p, b1i_op_rmsnorm, l, b1i_v_x, none, b1i_v_norm, b1i_slot(l, b1i_w_ffn_norm), b1i_slot_none);
    add(p, b1i_op_linear, l, b1i_v_norm, none, b1i_v_gate, b1i_slot(l, b1i_w_gate), b1i_slot_none);
    add(p, b1i_op_linear, l, b1i_v_norm, none, b1i_v_up, b1i_slot(l, b1i_w_up), b1i_slot_none);
    add(p, b1i_op_silu_mul, l, b1i_v_gate, b1i_v_up, b1i_v_act, b1i_slot_none, b1i_slot_none);
    close_group(p, b1i_group_gate_up, l);
    add(p, b1i_op_linear, l, b1i_v_act, none, b1i_v_out, b1i_slot(l, b1i_w_down), b1i_slot_none);
    add(p, b1i_op_add, l, b1i_v_x, b1i_v_out, b1i_v_x, b1i_slot_none, b1i_slot_none);
    close_group(p, b1i_group_down, l);
}

b1_status b1i_plan_build(const b1i_model *m, b1i_plan *p, b1_error *err)
{
    size_t layers = (size_t)m->config.layers;
    *p = (b1i_plan){0};
    p->ops = b1i_calloc(OPS_OUTSIDE + OPS_A_LAYER * layers, sizeof *p->ops);
    p->groups = b1i_calloc(GROUPS_OUTSIDE + GROUPS_A_LAYER * layers, sizeof *p->groups);
    if (!p->ops || !p->groups) {
        b1i_plan_free(p);
        return b1i_fail_memory(err, OPS_A_LAYER * layers * sizeof *p->ops);
    }
    add(p, b1i_op_embed, -1, b1i_v_tokens, b1i_v_none, b1i_v_x, b1i_slot_embedding, b1i_slot_none);
    close_group(p, b1i_group_embed, -1);
    for (int l = 0; l < m->config.layers; l++) add_layer(p, m, l);
    add(p, b1i_op_rmsnorm, -1, b1i_v_x, b1i_v_none, b1i_v_norm, b1i_slot_final_norm, b1i_slot_none);
    add(p, b1i_op_linear, -1, b1i_v_norm, b1i_v_none, b1i_v_logits, b1i_slot_head, b1i_slot_none);
    close_group(p, b1i_group_head, -1);
    return B1_OK;
}

void b1i_plan_free(b1i_plan *p)
{
    b1i_free(p->ops);
    b1i_free(p->groups);
    *p = (b1i_plan){0};
}

uint64_t b1i_op_weight_bytes(const b1i_model *m, const b1i_op *op)
{
    uint64_t bytes = 0;
    if (op->weight != b1i_slot_none) {
        const b1i_tensor *t = b1i_slot_tensor(m, op->weight);
        if (op->id != b1i_op_embed)
            bytes = b1i_tensor_bytes(t);
        else if (!m->config.tied)
            bytes = b1i_format_bytes(t->format, (uint64_t)t->cols);
    }
    if (op->bias != b1i_slot_none) bytes += b1i_tensor_bytes(b1i_slot_tensor(m, op->bias));
    return bytes;
}

uint64_t b1i_traffic_weights(const b1i_model *m)
{
    uint64_t bytes = b1i_tensor_bytes(&m->final_norm) + b1i_tensor_bytes(b1i_slot_tensor(m, b1i_slot_head));
    if (!m->config.tied) bytes += b1i_format_bytes(m->embedding.format, (uint64_t)m->embedding.cols);
    for (int s = b1i_slot_layers; s < b1i_slot_count(m); s++) {
        const b1i_tensor *t = b1i_slot_tensor(m, s);
        if (t->rows > 0) bytes += b1i_tensor_bytes(t);
    }
    return bytes;
}

uint64_t b1i_traffic_kv(const b1i_config *c, int context, b1i_type type)
{
    uint64_t seen = (uint64_t)context;
    if (c->sliding_window > 0 && context > c->sliding_window) seen = (uint64_t)c->sliding_window;
    return 2 * (uint64_t)c->layers * (uint64_t)c->kv_heads * (uint64_t)c->head_dim * seen *
           (type == b1i_type_f32 ? 4 : 2);
}

float b1i_op_tolerance(b1i_op_id id, b1i_type type, int64_t length)
{
    const float ulp = 0x1p-24f, root = sqrtf((float)length);
    float edge = type == b1i_type_f32 ? 0 : (type == b1i_type_i8 ? 1.0f / 127 : 0x1p-8f) * 4 / root;
    switch (b1i_op_classes[id].grade) {
    case b1i_grade_exact:
        return 0;
    case b1i_grade_element:
        return 8 * ulp;
    case b1i_grade_sum:
        return 8 * ulp * root + edge;
    case b1i_grade_softmax:
        return 16 * ulp * root + edge;
    }
    return 0;
}
