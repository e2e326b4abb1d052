/* SPDX-License-Identifier: MIT
 *
 * Owns the stages of the `fused` list: one a group of the plan where one row is decoded, two where the input of a
 * linear op is worth sharing out. For one row every worker makes the whole input of its panels itself (norm, merge,
 * rounding to the kernel's type): some thousand elements, less than a synchronisation costs.
 */
#include "cpu/stages.h"

#include "base/threads.h"

#include <math.h>
#include <string.h>

/* The first linear op of a group. */
static const b1i_op *linear_of(const b1i_stage *st) { return st->op + st->first_linear; }

/* ---- inputs ---- */

/* norm(x) of `row` in the type of the linear op that follows. */
static void norm_row(const b1i_cpu_state *s, const b1i_stage *st, int row, b1i_act *x, int at, int worker)
{
    float *f32 = b1i_private_row(s, worker);
    s->kernels->rmsnorm(b1i_row(s, st->op->in[0], row), s->w->vector[st->op->weight], s->c->hidden, s->c->norm_eps,
                        f32);
    s->kernels->convert(f32, x, at);
}

static void st_norm_rows(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    b1i_act x = b1i_shared_act(s, linear_of(st));
    int64_t begin, end;
    b1i_share(x.rows, 1, worker, workers, &begin, &end);
    for (int64_t r = begin; r < end; r++)
        norm_row(s, st, (int)r + b1i_op_first_row(s, linear_of(st)), &x, (int)r, worker);
}

static b1i_act norm_input(const b1i_cpu_state *s, const b1i_stage *st, int worker)
{
    if (s->n > 1) return b1i_shared_act(s, linear_of(st));
    b1i_act x = b1i_private_act(s, linear_of(st), worker);
    norm_row(s, st, 0, &x, 0, worker);
    return x;
}

static void st_convert_rows(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const b1i_op *op = linear_of(st);
    b1i_act x = b1i_shared_act(s, op);
    int64_t begin, end;
    b1i_share(x.rows, 1, worker, workers, &begin, &end);
    for (int64_t r = begin; r < end; r++) s->kernels->convert(b1i_row(s, op->in[0], (int)r), &x, (int)r);
}

static void st_merge_rows(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const b1i_op *op = linear_of(st);
    b1i_act x = b1i_shared_act(s, op);
    int64_t begin, end;
    b1i_share(x.rows, 1, worker, workers, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        b1i_merge_row(s, (int)r, b1i_row(s, op->in[0], (int)r));
        s->kernels->convert(b1i_row(s, op->in[0], (int)r), &x, (int)r);
    }
}

/* ---- linear stages ---- */

/* The part of [0, panels) of matrix i that falls into [begin, end) of all matrices' panels one after the other. */
static void segment(int64_t at, int64_t panels, int64_t begin, int64_t end, int64_t *from, int64_t *to)
{
    *from = begin > at ? begin - at : 0;
    *to = end - at < panels ? end - at : panels;
    if (*from > panels) *from = panels;
    if (*to < *from) *to = *from;
}

/* q, k and v (or the LM head) as one matrix: norm, product, bias. */
static void st_norm_linear(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const b1i_op *op = linear_of(st);
    b1i_act x = norm_input(s, st, worker);
    int64_t panels = 0, at = 0, begin, end, from, to;
    for (int i = 0; i < st->matrices; i++) panels += s->w->row16[op[i].weight].panels;
    b1i_share(panels, 1, worker, workers, &begin, &end);
    for (int i = 0; i < st->matrices; i++) {
        segment(at, s->w->row16[op[i].weight].panels, begin, end, &from, &to);
        at += s->w->row16[op[i].weight].panels;
        b1i_linear_panels(s, &op[i], &x, false, op[i].out, from, to);
    }
}

/* This worker's panels of the output or down projection, added to the residual stream. For one row the input is `row`,
 * which every worker rounds for itself; for several it has been shared out. */
static void project(const b1i_cpu_state *s, const b1i_op *op, const float *row, int worker, int workers)
{
    b1i_act x = s->n == 1 ? b1i_private_act(s, op, worker) : b1i_shared_act(s, op);
    if (s->n == 1) s->kernels->convert(row, &x, 0);
    int64_t begin, end;
    b1i_share(s->w->row16[op->weight].panels, 1, worker, workers, &begin, &end);
    b1i_linear_panels(s, op, &x, true, b1i_v_x, begin, end);
}

static void st_out(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    float *merged = b1i_private_row(s, worker);
    if (s->n == 1) b1i_merge_row(s, 0, merged);
    project(s, linear_of(st), merged, worker, workers);
}

static void st_down(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    project(s, linear_of(st), b1i_row(s, b1i_v_act, 0), worker, workers);
}

static void st_gate_up(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const b1i_op *op = linear_of(st);
    b1i_act x = norm_input(s, st, worker);
    int64_t begin, end;
    b1i_share(s->w->row16[op->weight].panels, 1, worker, workers, &begin, &end);
    b1i_linear_panels(s, &op[0], &x, false, b1i_v_gate, begin, end);
    b1i_linear_panels(s, &op[1], &x, false, b1i_v_up, begin, end);
    int64_t from = begin * B1I_PANEL, to = end * B1I_PANEL < s->c->ffn ? end * B1I_PANEL : s->c->ffn;
    for (int r = 0; r < s->n && from < to; r++)
        s->kernels->silu_mul(b1i_row(s, b1i_v_gate, r) + from, b1i_row(s, b1i_v_up, r) + from, to - from,
                             b1i_row(s, b1i_v_act, r) + from);
}

/* ---- attention ---- */

/* One head in place: norm (where the model has one), then RoPE. */
static void turn(const b1i_cpu_state *s, const b1i_op *norm, float *x, int row)
{
    const int hd = s->c->head_dim;
    if (norm) s->kernels->rmsnorm(x, s->w->vector[norm->weight], hd, s->c->norm_eps, x);
    s->kernels->rope(x, hd, s->cos + row * s->rope_stride, s->sin + row * s->rope_stride);
}

static const b1i_op *norm_of(const b1i_stage *st, int which)
{
    return st->op->id == b1i_op_headnorm ? st->op + which : NULL;
}

/* Key and value of `row` into the cache. `k` is this worker's room for one head. */
static void append(const b1i_cpu_state *s, const b1i_stage *st, int head, int row, float *k)
{
    const int hd = s->c->head_dim;
    b1i_kv_head kv = b1i_kv_at(b1i_sequence_of(s, row)->kv, st->op->layer, head);
    memcpy(k, b1i_row(s, b1i_v_k, row) + head * hd, (size_t)hd * sizeof *k);
    turn(s, norm_of(st, 1), k, row);
    s->kernels->kv_put(&kv, b1i_position_of(s, row), k, b1i_row(s, b1i_v_v, row) + head * hd);
}

/* Whoever has a part appends the positions that fall into it first, so that nobody waits for another's append; queries
 * are turned again for each part, which costs less than sharing them. */
static void st_attend_parts(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const int hd = s->c->head_dim, group = s->c->heads / s->c->kv_heads;
    float *q = b1i_attend_q(s, worker), *k = b1i_attend_k(s, worker);
    b1i_part_walk walk = b1i_parts_of(s, worker, workers);
    for (b1i_part p; b1i_next_part(s, &walk, &p);) {
        const int first = p.of->row, end = p.of->row + p.of->rows;
        for (int r = first; r < end; r++)
            if (b1i_position_of(s, r) >= p.from && b1i_position_of(s, r) < p.to) append(s, st, p.head, r, k);
        for (int r = first; r < end; r++) {
            const int64_t at = b1i_part_index(s, &p, r);
            memcpy(q, b1i_row(s, b1i_v_q, r) + p.head * group * hd, (size_t)(group * hd) * sizeof *q);
            for (int g = 0; g < group; g++) turn(s, norm_of(st, 0), q + g * hd, r);
            b1i_attend(s, st->op->layer, p.head, r, 1, q, (int64_t)group * hd, p.from, p.to, s->part_max + at,
                       s->part_sum + at, s->part_out + at * hd);
        }
    }
}

/* Longer passes: every key must be there before a row attends, so queries and keys are turned in a stage of their own.
 */
static void st_turn_rows(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const int hd = s->c->head_dim;
    int64_t begin, end;
    b1i_share(s->n, 1, worker, workers, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        for (int h = 0; h < s->c->kv_heads; h++) append(s, st, h, (int)r, b1i_attend_k(s, worker));
        for (int h = 0; h < s->c->heads; h++) turn(s, norm_of(st, 0), b1i_row(s, b1i_v_q, (int)r) + h * hd, (int)r);
    }
}

/* ---- the list ---- */

/* Stages of a group: for one row, for few, for many. `linear` is the first linear op's offset, `matrices` how many of
 * them the last stage streams. */
typedef struct group_stages {
    b1i_stage_fn run[b1i_rows_count][2];
    int linear, matrices;
} group_stages;

static const group_stages table[b1i_group_count] = {
    [b1i_group_qkv] = {{{st_norm_linear}, {st_norm_rows, st_norm_linear}, {st_norm_rows, st_norm_linear}}, 1, 3},
    [b1i_group_attention] = {{{st_attend_parts}, {st_attend_parts}, {st_turn_rows, b1i_st_attend_rows}}, 0, 0},
    [b1i_group_out] = {{{st_out}, {st_merge_rows, st_out}, {st_convert_rows, st_out}}, 0, 1},
    [b1i_group_gate_up] = {{{st_gate_up}, {st_norm_rows, st_gate_up}, {st_norm_rows, st_gate_up}}, 1, 2},
    [b1i_group_down] = {{{st_down}, {st_convert_rows, st_down}, {st_convert_rows, st_down}}, 0, 1},
    [b1i_group_head] = {{{st_norm_linear}, {st_norm_rows, st_norm_linear}, {st_norm_rows, st_norm_linear}}, 1, 1},
};

/* Whether the group's matrices take their input in one type, so that they can share it. */
static bool one_input(const b1i_resident *w, const b1i_kernels *kernels, const b1i_op *first, int matrices)
{
    for (int i = 1; i < matrices; i++)
        if (b1i_kernels_act(kernels, w->row16[first[i].weight].format) !=
            b1i_kernels_act(kernels, w->row16[first->weight].format))
            return false;
    return true;
}

b1_status b1i_stages_fused(const b1i_resident *w, const b1i_kernels *kernels, b1i_rows rows, b1i_stage_list *out,
                           b1_error *err)
{
    const b1i_plan *plan = w->plan;
    *out = (b1i_stage_list){b1i_calloc((size_t)plan->op_count * 2, sizeof *out->stages), 0};
    if (!out->stages) return b1i_fail_memory(err, (size_t)plan->op_count * 2 * sizeof *out->stages);
    for (int g = 0; g < plan->group_count; g++) {
        const b1i_op *op = &plan->ops[plan->groups[g].first];
        const group_stages *t = &table[plan->groups[g].id];
        if (!t->run[rows][0] || !one_input(w, kernels, op + t->linear, t->matrices)) {
            for (int i = 0; i < plan->groups[g].count; i++) b1i_stages_add_op(out, op + i, rows, g);
            continue;
        }
        for (int i = 0; i < 2 && t->run[rows][i]; i++) {
            bool last = i == 1 || !t->run[rows][1];
            out->stages[out->count++] = (b1i_stage){t->run[rows][i], op, g, last ? t->matrices : 0, t->linear};
        }
    }
    return B1_OK;
}

const uint8_t *b1i_stage_weights(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers, size_t *bytes)
{
    const b1i_op *op = linear_of(st);
    int64_t panels = 0, at = 0, begin, end, from, to;
    const int matrices = st->run == st_gate_up ? 1 : st->matrices; /* gate and up are shared out side by side */
    for (int i = 0; i < matrices; i++) panels += s->w->row16[op[i].weight].panels;
    b1i_share(panels, 1, worker, workers, &begin, &end);
    for (int i = 0; i < matrices; i++) {
        const b1i_packed *w = &s->w->row16[op[i].weight];
        segment(at, w->panels, begin, end, &from, &to);
        at += w->panels;
        if (from >= to) continue;
        *bytes = (size_t)(to - from) * w->panel_bytes;
        return w->data + (size_t)from * w->panel_bytes;
    }
    return NULL;
}
