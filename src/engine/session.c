/* SPDX-License-Identifier: MIT
 *
 * Owns the session: its tokens and its executor, which holds the KV cache; prefill in passes, decode, alone or with
 * other sessions, prefix reuse, filler.
 *
 * Invariants: positions [0, position) of the KV cache belong to tokens [0, position); `valid_rows` rows of logits are
 * valid and the last of them is that of the last position, or there are none. A pass that was cancelled or failed
 * leaves position and tokens as they were, and no logits.
 */
#include "engine/engine.h"

#include <string.h>

enum { FILLER = -1 }; /* no token: a position of filler, never equal to a prefix */

struct b1_session {
    b1_engine *engine;
    b1i_executor *executor;
    b1i_type kv;     /* type of the cache */
    int32_t *tokens; /* [context] */
    int position, context;
    bool all_logits; /* of every row of a pass */
    int valid_rows;  /* rows of logits that are valid now */
    int pass_rows;   /* rows of logits of the last pass */
    b1_timings timings;
    b1_plan_op *plan;
    int plan_count;
};

b1i_executor *b1i_session_executor(b1_session *s) { return s->executor; }

static const b1i_executor_class *class_of(const b1_session *s)
{
    return *(const b1i_executor_class *const *)s->executor;
}

/* ---- making one ---- */

static b1_status choose_kv(const char *name, b1i_type fallback, b1i_type *out, b1_error *err)
{
    *out = fallback;
    if (!name) return B1_OK;
    for (int t = b1i_type_f32; t <= b1i_type_f16; t++)
        if (strcmp(name, b1i_type_names[t]) == 0) {
            *out = (b1i_type)t;
            return B1_OK;
        }
    return b1i_fail(err, B1_ARGUMENT, "no KV cache of type '%s'; there are f32, bf16 and f16", name);
}

/* The reference's precision: f32, or that of this machine's kernels, or of the CUDA executors. */
static b1_status choose_precision(const char *name, b1i_precision *out, b1_error *err)
{
    *out = (b1i_precision){b1i_type_f32, b1i_type_f32};
    if (!name || strcmp(name, "f32") == 0) return B1_OK;
    if (strcmp(name, "bf16") == 0) {
        *out = (b1i_precision){b1i_type_bf16, b1i_type_bf16};
        return B1_OK;
    }
    if (strcmp(name, "kernels") != 0)
        return b1i_fail(err, B1_ARGUMENT, "no activations '%s' for the reference; there are f32, bf16 and kernels",
                        name);
    *out = (b1i_precision){b1i_kernels_act(b1i_kernels_best(), b1i_bf16), b1i_type_i8};
    return B1_OK;
}

/* Names and weight bytes of the executor's items. */
static b1_status list_plan(b1_session *s, bool by_group, b1_error *err)
{
    const b1i_model *m = s->engine->model;
    const b1i_plan *plan = &s->engine->plan;
    s->plan_count = by_group ? plan->group_count : plan->op_count;
    s->plan = b1i_calloc((size_t)s->plan_count, sizeof *s->plan);
    if (!s->plan) return b1i_fail_memory(err, (size_t)s->plan_count * sizeof *s->plan);
    for (int i = 0; i < s->plan_count; i++) {
        int first = by_group ? plan->groups[i].first : i, count = by_group ? plan->groups[i].count : 1;
        b1_plan_op *op = &s->plan[i];
        op->name = by_group ? b1i_group_names[plan->groups[i].id] : b1i_op_classes[plan->ops[i].id].name;
        op->layer = plan->ops[first].layer;
        op->tensor = "";
        for (int j = first; j < first + count; j++) {
            const b1i_op *o = &plan->ops[j];
            op->weight_bytes += b1i_op_weight_bytes(m, o);
            if (o->weight != b1i_slot_none && !*op->tensor) op->tensor = b1i_slot_tensor(m, o->weight)->name;
        }
    }
    return B1_OK;
}

/* Of each item of the plan. */
static b1_status count_launches(b1_session *s, b1_error *err)
{
    int *counts = b1i_calloc((size_t)s->plan_count, sizeof *counts);
    if (!counts) return b1i_fail_memory(err, (size_t)s->plan_count * sizeof *counts);
    class_of(s)->launches(s->executor, counts);
    for (int i = 0; i < s->plan_count; i++) s->plan[i].launches = counts[i];
    b1i_free(counts);
    return B1_OK;
}

/* The CPU's packed weights, once an executor reads them. */
static b1_status pack(b1_engine *e, const b1i_executor_class *class, b1_error *err)
{
    if (class->layout != b1i_layout_row16) return B1_OK;
    pthread_mutex_lock(&e->packing);
    b1_status st = b1i_resident_pack(&e->resident, e->threads, NULL, NULL, err);
    pthread_mutex_unlock(&e->packing);
    return st;
}

static b1_status create(b1_session *s, const b1_session_options *o, b1_error *err)
{
    b1_status st;
    b1_engine *e = s->engine;
    const b1i_executor_class *class = e->executor;
    b1i_exec_env env = {.resident = &e->resident,
                        .cuda = e->cuda,
                        .workers = e->threads,
                        .context = o->context ? o->context : e->context,
                        .all_logits = o->all_logits,
                        .op_times = o->op_times};
    if (o->executor) B1I_TRY(b1i_engine_choose(e, o->executor, &class, err));
    B1I_TRY(choose_kv(o->kv, class->kv, &env.kv, err));
    B1I_TRY(choose_precision(o->activations, &env.precision, err));
    if (env.context < 1)
        B1I_TRY(b1i_fail(err, B1_ARGUMENT, "a context of %d positions: expected at least 1", env.context));
    B1I_TRY(pack(e, class, err));
    s->context = env.context;
    s->kv = env.kv;
    s->all_logits = o->all_logits;
    B1I_TRY(class->create(class, &env, &s->executor, err));
    s->tokens = b1i_calloc((size_t)s->context, sizeof *s->tokens);
    if (!s->tokens) B1I_TRY(b1i_fail_memory(err, (size_t)s->context * sizeof *s->tokens));
    B1I_TRY(list_plan(s, class->by_group, err));
    B1I_TRY(count_launches(s, err));
    return B1_OK;
fail:
    return st;
}

b1_status b1_session_create(b1_engine *engine, const b1_session_options *options, b1_session **out, b1_error *err)
{
    const b1_session_options none = {0};
    *out = NULL;
    b1_session *s = b1i_calloc(1, sizeof *s);
    if (!s) return b1i_fail_memory(err, sizeof *s);
    s->engine = engine;
    b1_status st = create(s, options ? options : &none, err);
    if (st == B1_OK)
        *out = s;
    else
        b1_session_close(s);
    return st;
}

void b1_session_close(b1_session *s)
{
    if (!s) return;
    if (s->executor) class_of(s)->destroy(s->executor);
    b1i_free(s->tokens);
    b1i_free(s->plan);
    b1i_free(s);
}

/* ---- evaluating ---- */

static b1_status check_tokens(const b1_session *s, const int32_t *tokens, int count, int position, b1_error *err)
{
    const int vocab = s->engine->model->config.vocab;
    if (count < 1) return b1i_fail(err, B1_ARGUMENT, "no tokens to evaluate: expected at least one");
    if (count > s->context - position)
        return b1i_fail(err, B1_CONTEXT, "the context is full: %d positions are taken and %d more are asked for, of %d",
                        position, count, s->context);
    for (int i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return b1i_fail(err, B1_ARGUMENT, "token %d at index %d lies outside the vocabulary of %d", (int)tokens[i],
                            i, vocab);
    return B1_OK;
}

/* The next n positions in one pass. */
static b1_status evaluate(b1_session *s, const int32_t *tokens, int n, b1_error *err)
{
    const b1i_step step = {
        .tokens = tokens, .n = n, .position = s->position, .logits_from = s->all_logits ? 0 : n - 1, .stop_after = -1};
    b1_status st = class_of(s)->submit(s->executor, &step, err);
    if (st == B1_OK) st = class_of(s)->wait(s->executor, err);
    if (st != B1_OK) {
        s->valid_rows = 0;
        return st;
    }
    memmove(s->tokens + s->position, tokens, (size_t)n * sizeof *tokens);
    s->position += n;
    s->valid_rows = s->pass_rows = n - step.logits_from;
    return B1_OK;
}

b1_status b1_session_feed(b1_session *s, const int32_t *tokens, int count, b1_error *err)
{
    const uint64_t start = b1i_now_ns();
    const int before = s->position, most = class_of(s)->max_rows(s->executor);
    b1_status st = check_tokens(s, tokens, count, before, err);
    for (int at = 0; st == B1_OK && at < count; at += most) {
        int n = count - at < most ? count - at : most;
        st = evaluate(s, tokens + at, n, err);
    }
    s->timings.feed_ns = b1i_now_ns() - start;
    s->timings.feed_tokens = s->position - before;
    return st;
}

b1_status b1_session_step(b1_session *s, int32_t token, b1_error *err)
{
    uint64_t start = b1i_now_ns();
    b1_status st = check_tokens(s, &token, 1, s->position, err);
    if (st == B1_OK) st = evaluate(s, &token, 1, err);
    s->timings.last_step_ns = b1i_now_ns() - start;
    return st;
}

b1_status b1_session_prompt(b1_session *s, const int32_t *tokens, int count, b1_error *err)
{
    b1_status st = check_tokens(s, tokens, count, 0, err);
    if (st != B1_OK) return st;
    int same = 0;
    while (same < s->position && same < count - 1 && s->tokens[same] == tokens[same]) same++;
    s->position = same;
    s->valid_rows = 0;
    return b1_session_feed(s, tokens + same, count - same, err);
}

b1_status b1_session_rewind(b1_session *s, int position, b1_error *err)
{
    if (position < 0 || position > s->position)
        return b1i_fail(err, B1_ARGUMENT, "cannot rewind to position %d: the session holds %d", position, s->position);
    if (position < s->position) s->valid_rows = 0;
    s->position = position;
    return B1_OK;
}

void b1_session_cancel(b1_session *s) { class_of(s)->cancel(s->executor, true); }
void b1_session_uncancel(b1_session *s) { class_of(s)->cancel(s->executor, false); }

b1_status b1_session_fill(b1_session *s, int count, b1_error *err)
{
    if (count < 0 || count > s->context)
        return b1i_fail(err, B1_CONTEXT, "cannot fill %d positions: the session's context is %d", count, s->context);
    s->valid_rows = 0;
    b1_status st = class_of(s)->fill(s->executor, count, err);
    for (int i = 0; i < count; i++) s->tokens[i] = FILLER;
    s->position = st == B1_OK ? count : 0;
    return st;
}

/* ---- several sequences ---- */

enum { TOGETHER = 8 }; /* B1I_CUDA_ROWS and B1I_DECODE_ROWS: the rows of a decode step on both devices */
_Static_assert((int)B1I_CUDA_ROWS == (int)B1I_DECODE_ROWS, "a step takes as many sessions on every device");

static b1_status check_together(b1_session *const *sessions, const int32_t *tokens, int n, b1_error *err)
{
    if (n < 1 || n > TOGETHER)
        return b1i_fail(err, B1_ARGUMENT, "a step of %d sessions: expected 1 to %d", n, (int)TOGETHER);
    for (int i = 0; i < n; i++) {
        const b1_session *s = sessions[i], *first = sessions[0];
        if (s->engine != first->engine)
            return b1i_fail(err, B1_ARGUMENT, "sessions 0 and %d of the step are of two engines", i);
        if (class_of(s) != class_of(first))
            return b1i_fail(err, B1_ARGUMENT, "session 0 of the step runs %s, and session %d %s", class_of(first)->name,
                            i, class_of(s)->name);
        for (int j = 0; j < i; j++)
            if (sessions[j] == s)
                return b1i_fail(err, B1_ARGUMENT, "sessions %d and %d of the step are one and the same", j, i);
        b1_status st = check_tokens(s, &tokens[i], 1, s->position, err);
        if (st != B1_OK) return st;
    }
    return B1_OK;
}

b1_status b1_sessions_step(b1_session *const *sessions, const int32_t *tokens, int n, b1_error *err)
{
    b1i_executor *executors[TOGETHER] = {NULL};
    int positions[TOGETHER] = {0};
    const uint64_t start = b1i_now_ns();
    b1_status st = check_together(sessions, tokens, n, err);
    if (st != B1_OK) return st;
    for (int i = 0; i < n; i++) {
        executors[i] = sessions[i]->executor;
        positions[i] = sessions[i]->position;
    }
    const b1i_step step = {.tokens = tokens, .n = n, .stop_after = -1, .of = executors, .positions = positions};
    st = class_of(sessions[0])->submit(executors[0], &step, err);
    if (st == B1_OK) st = class_of(sessions[0])->wait(executors[0], err);
    const uint64_t ns = b1i_now_ns() - start;
    for (int i = 0; i < n; i++) {
        b1_session *s = sessions[i];
        s->valid_rows = s->pass_rows = st == B1_OK;
        s->timings.last_step_ns = ns;
        if (st == B1_OK) s->tokens[s->position++] = tokens[i];
    }
    return st;
}

/* ---- looking at it ---- */

int b1_session_position(const b1_session *s) { return s->position; }
int b1_session_context(const b1_session *s) { return s->context; }
const char *b1_session_executor(const b1_session *s) { return class_of(s)->name; }
const float *b1_session_logits(const b1_session *s) { return b1_session_logits_at(s, 0); }

const float *b1_session_logits_at(const b1_session *s, int row)
{
    const float *logits = NULL;
    if (row < 0 || row >= s->valid_rows) return NULL;
    return class_of(s)->logits(s->executor, s->pass_rows - 1 - row, &logits, NULL) == B1_OK ? logits : NULL;
}

b1_status b1_session_argmax(b1_session *s, int32_t *token, b1_error *err)
{
    if (s->valid_rows == 0)
        return b1i_fail(err, B1_ARGUMENT, "the session has no logits to choose from: no token has been evaluated");
    return class_of(s)->argmax(s->executor, s->pass_rows - 1, token, err);
}

b1_status b1_session_mask(b1_session *s, const int32_t *ids, int count, b1_error *err)
{
    return class_of(s)->mask(s->executor, ids, count, err);
}

const char *b1_session_note(const b1_session *s)
{
    const char *note = class_of(s)->note(s->executor);
    return note || !*s->engine->note ? note : s->engine->note;
}

b1_status b1_session_graph_dot(b1_session *s, const char *path, b1_error *err)
{
    if (!class_of(s)->graph_dot)
        return b1i_fail(err, B1_UNSUPPORTED,
                        "the executor %s runs no graph; on cuda separate_graph, fused_graph and "
                        "fused_pdl do",
                        class_of(s)->name);
    return class_of(s)->graph_dot(s->executor, path, err);
}

uint64_t b1_session_kv_bytes(const b1_session *s, int context)
{
    return b1i_traffic_kv(&s->engine->model->config, context, s->kv);
}

uint64_t b1_session_traffic_bytes(const b1_session *s, int context)
{
    return b1i_traffic_weights(s->engine->model) + b1_session_kv_bytes(s, context);
}

void b1_session_timings(const b1_session *s, b1_timings *out) { *out = s->timings; }

const b1_plan_op *b1_session_plan(const b1_session *s, int *count)
{
    const uint64_t *times = class_of(s)->times(s->executor);
    for (int i = 0; times && i < s->plan_count; i++) s->plan[i].time_ns = times[i];
    *count = s->plan_count;
    return s->plan;
}

b1_status b1_session_read_ceiling(b1_session *s, uint64_t budget_ns, double *gbps, b1_error *err)
{
    return class_of(s)->read_ceiling(s->executor, budget_ns, gbps, err);
}
