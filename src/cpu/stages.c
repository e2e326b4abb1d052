/* SPDX-License-Identifier: MIT
 *
 * Owns the stages of the `separate` list (one or two an op, as an eager framework launches them), and the pieces that
 * the fused stages share with them: a linear op's panels, attention of a part of the context, the merge.
 */
#include "cpu/stages.h"

#include "base/threads.h"

#include <math.h>
#include <string.h>

/* ---- pieces ---- */

int b1i_op_first_row(const b1i_cpu_state *s, const b1i_op *op) { return op->out == b1i_v_logits ? s->logits_from : 0; }

static b1i_act act_at(const b1i_cpu_state *s, const b1i_op *linear, uint8_t *data)
{
    const b1i_packed *w = &s->w->row16[linear->weight];
    b1i_type type = b1i_kernels_act(s->kernels, w->format);
    return (b1i_act){type, s->n - b1i_op_first_row(s, linear), w->cols, b1i_act_stride(type, w->cols), data};
}

b1i_act b1i_shared_act(const b1i_cpu_state *s, const b1i_op *linear) { return act_at(s, linear, s->act_data); }

b1i_act b1i_private_act(const b1i_cpu_state *s, const b1i_op *linear, int worker)
{
    return act_at(s, linear, s->scratch + s->scratch_bytes * (size_t)worker);
}

float *b1i_private_row(const b1i_cpu_state *s, int worker)
{
    int64_t widest = 0;
    const b1i_value inputs[] = {b1i_v_norm, b1i_v_att, b1i_v_act};
    for (int i = 0; i < 3; i++)
        if (b1i_value_cols(s->c, inputs[i]) > widest) widest = b1i_value_cols(s->c, inputs[i]);
    return (float *)(s->scratch + s->scratch_bytes * (size_t)worker + b1i_act_stride(b1i_type_f32, widest));
}

void b1i_linear_panels(const b1i_cpu_state *s, const b1i_op *op, const b1i_act *x, bool add, b1i_value out,
                       int64_t begin, int64_t end)
{
    if (begin >= end) return;
    b1i_linear args = {.w = &s->w->row16[op->weight],
                       .x = x,
                       .bias = op->bias == b1i_slot_none ? NULL : s->w->vector[op->bias],
                       .y = s->value[out],
                       .y_stride = s->stride[out],
                       .add = add};
    s->kernels->linear(&args, begin, end);
}

/* A worker's room for attention: the queries of B1I_ATTEND_ROWS rows and one KV head's group, as much of weighted
 * values, their maxima and sums, one key. */
typedef struct attend_room {
    float *q, *out, *max, *sum, *k;
} attend_room;

static attend_room attend_room_of(const b1i_cpu_state *s, int worker)
{
    const size_t pairs = (size_t)(B1I_ATTEND_ROWS * (s->c->heads / s->c->kv_heads)), small = (pairs + 15) / 16 * 16;
    const size_t wide = (pairs * (size_t)s->c->head_dim + 15) / 16 * 16;
    float *q = (float *)(s->scratch + s->scratch_bytes * (size_t)worker);
    return (attend_room){q, q + wide, q + 2 * wide, q + 2 * wide + small, q + 2 * wide + 2 * small};
}

float *b1i_attend_q(const b1i_cpu_state *s, int worker) { return attend_room_of(s, worker).q; }
float *b1i_attend_k(const b1i_cpu_state *s, int worker) { return attend_room_of(s, worker).k; }

void b1i_attend(const b1i_cpu_state *s, int layer, int head, int row, int rows, const float *q, int64_t q_stride,
                int begin, int end, float *max, float *sum, float *out)
{
    b1i_attention args = {.kv = b1i_kv_at(b1i_sequence_of(s, row)->kv, layer, head),
                          .q = q,
                          .q_stride = q_stride,
                          .n = rows,
                          .group = s->c->heads / s->c->kv_heads,
                          .limit = s->limit + row,
                          .first = s->first + row,
                          .scale = 1 / sqrtf((float)s->c->head_dim),
                          .begin = begin,
                          .end = end,
                          .max = max,
                          .sum = sum,
                          .out = out};
    s->kernels->attention(&args);
}

b1i_part_walk b1i_parts_of(const b1i_cpu_state *s, int worker, int workers)
{
    b1i_part_walk w = {0};
    int64_t positions = 0;
    for (int i = 0; i < s->sequences; i++) positions += s->sequence[i].position + s->sequence[i].rows;
    b1i_share(positions * s->c->kv_heads, 1, worker, workers, &w.begin, &w.end);
    return w;
}

bool b1i_next_part(const b1i_cpu_state *s, b1i_part_walk *w, b1i_part *out)
{
    while (w->at < w->end && w->sequence < s->sequences) {
        const b1i_sequence *q = &s->sequence[w->sequence];
        const int64_t start = w->at;
        const int from = w->range * q->range, limit = q->position + q->rows;
        *out = (b1i_part){q, w->head, w->range, from, from + q->range < limit ? from + q->range : limit};
        w->at += out->to - from;
        if (++w->range == q->ranges) w->range = 0, w->head++;
        if (w->head == s->c->kv_heads) w->head = 0, w->sequence++;
        if (start >= w->begin) return true;
    }
    return false;
}

/* Parts lie as [range][row × heads + head]. */
void b1i_merge_row(const b1i_cpu_state *s, int row, float *out)
{
    const int hd = s->c->head_dim, heads = s->c->heads;
    const int64_t stride = (int64_t)s->n * heads;
    for (int h = 0; h < heads; h++) {
        int64_t i = (int64_t)row * heads + h;
        s->kernels->attention_merge(s->part_max + i, s->part_sum + i, stride, s->part_out + i * hd, stride * hd,
                                    b1i_sequence_of(s, row)->ranges, hd, out + h * hd);
    }
}

/* ---- stages of the separate list ---- */

static void st_embed(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    int64_t begin, end;
    b1i_share(s->n, 1, worker, workers, &begin, &end);
    for (int64_t r = begin; r < end; r++)
        b1i_packed_row(&s->w->row16[st->op->weight], s->tokens[r], b1i_row(s, st->op->out, (int)r));
}

static void st_rmsnorm(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    int64_t begin, end;
    b1i_share(s->n, 1, worker, workers, &begin, &end);
    for (int64_t r = begin; r < end; r++)
        s->kernels->rmsnorm(b1i_row(s, st->op->in[0], (int)r), s->w->vector[st->op->weight], s->c->hidden,
                            s->c->norm_eps, b1i_row(s, st->op->out, (int)r));
}

/* The linear op's input in the kernel's type, rows shared out. */
static void st_convert(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    b1i_act x = b1i_shared_act(s, st->op);
    int64_t begin, end;
    b1i_share(x.rows, 1, worker, workers, &begin, &end);
    for (int64_t r = begin; r < end; r++)
        s->kernels->convert(b1i_row(s, st->op->in[0], (int)r + b1i_op_first_row(s, st->op)), &x, (int)r);
}

static void st_linear(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    b1i_act x;
    if (s->n == 1) {
        x = b1i_private_act(s, st->op, worker);
        s->kernels->convert(b1i_row(s, st->op->in[0], 0), &x, 0);
    } else {
        x = b1i_shared_act(s, st->op);
    }
    int64_t begin, end;
    b1i_share(s->w->row16[st->op->weight].panels, 1, worker, workers, &begin, &end);
    b1i_linear_panels(s, st->op, &x, false, st->op->out, begin, end);
}

static void st_headnorm(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const int hd = s->c->head_dim, heads = b1i_value_cols(s->c, st->op->out) / hd;
    int64_t begin, end;
    b1i_share((int64_t)s->n * heads, 1, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        float *x = b1i_row(s, st->op->out, (int)(i / heads)) + i % heads * hd;
        s->kernels->rmsnorm(x, s->w->vector[st->op->weight], hd, s->c->norm_eps, x);
    }
}

static void st_rope(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const int hd = s->c->head_dim, heads = b1i_value_cols(s->c, st->op->out) / hd;
    int64_t begin, end;
    b1i_share((int64_t)s->n * heads, 1, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int r = (int)(i / heads);
        s->kernels->rope(b1i_row(s, st->op->out, r) + i % heads * hd, hd, s->cos + r * s->rope_stride,
                         s->sin + r * s->rope_stride);
    }
}

static void st_kv_append(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const int hd = s->c->head_dim, heads = s->c->kv_heads;
    int64_t begin, end;
    b1i_share(heads, 1, worker, workers, &begin, &end);
    for (int64_t h = begin; h < end; h++) {
        for (int r = 0; r < s->n; r++) {
            b1i_kv_head kv = b1i_kv_at(b1i_sequence_of(s, r)->kv, st->op->layer, (int)h);
            s->kernels->kv_put(&kv, b1i_position_of(s, r), b1i_row(s, st->op->in[0], r) + h * hd,
                               b1i_row(s, st->op->in[1], r) + h * hd);
        }
    }
}

/* Decode: the parts are merged in a stage of their own. */
static void st_attend_parts(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const int hd = s->c->head_dim, group = s->c->heads / s->c->kv_heads;
    b1i_part_walk walk = b1i_parts_of(s, worker, workers);
    for (b1i_part p; b1i_next_part(s, &walk, &p);)
        for (int r = p.of->row; r < p.of->row + p.of->rows; r++) {
            const int64_t at = b1i_part_index(s, &p, r);
            b1i_attend(s, st->op->layer, p.head, r, 1, b1i_row(s, b1i_v_q, r) + p.head * group * hd, s->stride[b1i_v_q],
                       p.from, p.to, s->part_max + at, s->part_sum + at, s->part_out + at * hd);
        }
}

static void st_merge(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    int64_t begin, end;
    b1i_share(s->n, 1, worker, workers, &begin, &end);
    for (int64_t r = begin; r < end; r++) b1i_merge_row(s, (int)r, b1i_row(s, st->op->out, (int)r));
}

/* Rows [row, row + rows) of one KV head's group attend over everything they see. */
static void attend_rows(const b1i_cpu_state *s, int layer, int head, int row, int rows, int worker)
{
    const int hd = s->c->head_dim, group = s->c->heads / s->c->kv_heads;
    const attend_room room = attend_room_of(s, worker);
    const int begin = s->first[row] / B1I_KV_BLOCK * B1I_KV_BLOCK, end = s->limit[row + rows - 1];
    b1i_attend(s, layer, head, row, rows, b1i_row(s, b1i_v_q, row) + head * group * hd, s->stride[b1i_v_q], begin, end,
               room.max, room.sum, room.out);
    for (int i = 0; i < rows * group; i++) {
        float *to = b1i_row(s, b1i_v_att, row + i / group) + (head * group + i % group) * hd, inverse = 1 / room.sum[i];
        for (int d = 0; d < hd; d++) to[d] = room.out[i * hd + d] * inverse;
    }
}

/* Longer passes: (KV head, a few rows) shared out, each over all that it sees. */
void b1i_st_attend_rows(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    const int tiles = (s->n + B1I_ATTEND_ROWS - 1) / B1I_ATTEND_ROWS, heads = s->c->kv_heads;
    int64_t count = (int64_t)tiles * heads;
    for (int64_t i = worker; i < count; i += workers) { /* interleaved: later rows see more */
        int row = (int)(i / heads) * B1I_ATTEND_ROWS;
        int rows = s->n - row < B1I_ATTEND_ROWS ? s->n - row : B1I_ATTEND_ROWS;
        attend_rows(s, st->op->layer, (int)(i % heads), row, rows, worker);
    }
}

/* This worker's columns of every row. */
static void st_add(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    int64_t begin, end;
    b1i_share(b1i_value_cols(s->c, st->op->out), 16, worker, workers, &begin, &end);
    for (int r = 0; r < s->n && begin < end; r++)
        s->kernels->add(b1i_row(s, st->op->in[0], r) + begin, b1i_row(s, st->op->in[1], r) + begin, end - begin);
}

static void st_silu_mul(const b1i_cpu_state *s, const b1i_stage *st, int worker, int workers)
{
    int64_t begin, end;
    b1i_share(s->c->ffn, 16, worker, workers, &begin, &end);
    for (int r = 0; r < s->n && begin < end; r++)
        s->kernels->silu_mul(b1i_row(s, st->op->in[0], r) + begin, b1i_row(s, st->op->in[1], r) + begin, end - begin,
                             b1i_row(s, st->op->out, r) + begin);
}

/* ---- the list ---- */

/* Stages of an op: for one row, for few, for many; NULL ends. */
static const b1i_stage_fn op_stages[b1i_op_count][b1i_rows_count][3] = {
    [b1i_op_embed] = {{st_embed}, {st_embed}, {st_embed}},
    [b1i_op_rmsnorm] = {{st_rmsnorm}, {st_rmsnorm}, {st_rmsnorm}},
    [b1i_op_linear] = {{st_linear}, {st_convert, st_linear}, {st_convert, st_linear}},
    [b1i_op_headnorm] = {{st_headnorm}, {st_headnorm}, {st_headnorm}},
    [b1i_op_rope] = {{st_rope}, {st_rope}, {st_rope}},
    [b1i_op_kv_append] = {{st_kv_append}, {st_kv_append}, {st_kv_append}},
    [b1i_op_attention] = {{st_attend_parts, st_merge}, {st_attend_parts, st_merge}, {b1i_st_attend_rows}},
    [b1i_op_add] = {{st_add}, {st_add}, {st_add}},
    [b1i_op_silu_mul] = {{st_silu_mul}, {st_silu_mul}, {st_silu_mul}},
};

void b1i_stages_add_op(b1i_stage_list *list, const b1i_op *op, b1i_rows rows, int item)
{
    for (const b1i_stage_fn *fn = op_stages[op->id][rows]; *fn; fn++)
        list->stages[list->count++] = (b1i_stage){*fn, op, item, op->id == b1i_op_linear && !fn[1], 0};
}

b1_status b1i_stages_separate(const b1i_plan *plan, b1i_rows rows, b1i_stage_list *out, b1_error *err)
{
    *out = (b1i_stage_list){b1i_calloc((size_t)plan->op_count * 2, sizeof *out->stages), 0};
    if (!out->stages) return b1i_fail_memory(err, (size_t)plan->op_count * 2 * sizeof *out->stages);
    for (int i = 0; i < plan->op_count; i++) b1i_stages_add_op(out, &plan->ops[i], rows, i);
    return B1_OK;
}

void b1i_stages_free(b1i_stage_list *list)
{
    b1i_free(list->stages);
    *list = (b1i_stage_list){0};
}
