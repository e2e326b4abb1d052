/* SPDX-License-Identifier: MIT
 *
 * Owns the session: its tokens, its KV cache, its executor; prefill in passes, decode, prefix reuse, filler.
 *
 * Invariants: positions [0, position) of the KV cache belong to tokens [0, position); `valid_rows` rows of logits are
 * valid and the last of them is that of the last position, or there are none. A pass that was cancelled or failed
 * leaves position and tokens as they were, and no logits.
 */
#include "engine/engine.h"

#include "base/threads.h"

#include <math.h>
#include <string.h>

enum { FILLER = -1 }; /* no token: a position of filler, never equal to a prefix */

struct b1_session {
    b1_engine *engine;
    b1i_executor *executor;
    b1i_kv kv;
    int32_t *tokens; /* [context] */
    int position, context;
    int logit_rows; /* rows that the executor keeps */
    int valid_rows; /* rows of logits that are valid now */
    int pass_rows;  /* rows of logits of the last pass */
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

/* The reference's precision: f32, or that of this machine's kernels. */
static b1_status choose_precision(const char *name, b1i_precision *out, b1_error *err)
{
    *out = (b1i_precision){b1i_type_f32, b1i_type_f32};
    if (!name || strcmp(name, "f32") == 0) return B1_OK;
    if (strcmp(name, "kernels") != 0)
        return b1i_fail(err, B1_ARGUMENT, "no activations '%s' for the reference; there are f32 and kernels", name);
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

static b1_status create(b1_session *s, const b1_session_options *o, b1_error *err)
{
    b1_status st;
    b1_engine *e = s->engine;
    const b1i_executor_class *class = e->executor;
    b1i_type kv;
    b1i_exec_env env = {&e->resident, e->threads, o->all_logits ? B1I_PREFILL_ROWS : 1, {0}, o->op_times};
    if (o->executor) class = b1i_executor_class_by_name(o->executor);
    if (!class)
        return b1i_fail(err, B1_ARGUMENT,
                        "no executor is named '%s'; there are reference, separate, fused and persistent", o->executor);
    B1I_TRY(class->supports(e->model, err));
    B1I_TRY(choose_kv(o->kv, class->kv, &kv, err));
    B1I_TRY(choose_precision(o->activations, &env.precision, err));
    s->context = o->context ? o->context : e->context;
    if (s->context < 1)
        B1I_TRY(b1i_fail(err, B1_ARGUMENT, "a context of %d positions: expected at least 1", s->context));
    uint64_t need = b1i_kv_cache_bytes(&e->model->config, s->context, kv), have = b1i_memory_available();
    if (need > have)
        B1I_TRY(
            b1i_fail(err, B1_MEMORY,
                     "a KV cache of %d positions needs %.2f GB and %.2f GB are available; a shorter context may fit",
                     s->context, (double)need / 1e9, (double)have / 1e9));
    if (class->layout == b1i_layout_row16) {
        pthread_mutex_lock(&e->packing);
        st = b1i_resident_pack(&e->resident, e->threads, NULL, NULL, err);
        pthread_mutex_unlock(&e->packing);
        if (st != B1_OK) goto fail;
    }
    s->logit_rows = env.logit_rows;
    s->tokens = b1i_calloc((size_t)s->context, sizeof *s->tokens);
    if (!s->tokens) B1I_TRY(b1i_fail_memory(err, (size_t)s->context * sizeof *s->tokens));
    B1I_TRY(b1i_kv_create(&e->model->config, s->context, kv, &s->kv, err));
    B1I_TRY(class->create(class, &env, &s->executor, err));
    class->bind(s->executor, &s->kv);
    B1I_TRY(list_plan(s, class->by_group, err));
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
    b1i_kv_free(&s->kv);
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
    b1i_step step = {tokens, n, s->position, s->logit_rows > 1 ? 0 : n - 1, -1};
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
    const int before = s->position;
    b1_status st = check_tokens(s, tokens, count, before, err);
    for (int at = 0; st == B1_OK && at < count; at += B1I_PREFILL_ROWS) {
        int n = count - at < B1I_PREFILL_ROWS ? count - at : B1I_PREFILL_ROWS;
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

/* ---- filler ---- */

typedef struct filling {
    const b1_session *session;
    int count;
} filling;

/* Keys and values of layers × heads shared out: uniform in ±1.7, so of variance about 1. */
static void fill_share(void *arg, int worker, int workers)
{
    const filling *f = arg;
    const b1i_kv *kv = &f->session->kv;
    const b1i_kernels *kernels = b1i_kernels_best();
    _Alignas(64) float k[512], v[512];
    int64_t begin, end;
    b1i_share((int64_t)kv->layers * kv->heads, 1, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        b1i_kv_head head = b1i_kv_at(kv, (int)(i / kv->heads), (int)(i % kv->heads));
        for (int pos = 0; pos < f->count; pos++) {
            for (int d = 0; d < kv->head_dim; d++) {
                uint64_t x = b1i_mix64(((uint64_t)i << 40) ^ ((uint64_t)pos << 16) ^ (uint64_t)d);
                k[d] = (float)((int32_t)x >> 8) * (1.7f / (1 << 23));
                v[d] = (float)((int32_t)(x >> 32) >> 8) * (1.7f / (1 << 23));
            }
            kernels->kv_put(&head, pos, k, v);
        }
    }
}

b1_status b1_session_fill(b1_session *s, int count, b1_error *err)
{
    if (count < 0 || count > s->context)
        return b1i_fail(err, B1_CONTEXT, "cannot fill %d positions: the session's context is %d", count, s->context);
    filling f = {s, count};
    b1i_pool_run(s->engine->threads, fill_share, &f);
    for (int i = 0; i < count; i++) s->tokens[i] = FILLER;
    s->position = count;
    s->valid_rows = 0;
    return B1_OK;
}

/* ---- looking at it ---- */

int b1_session_position(const b1_session *s) { return s->position; }
int b1_session_context(const b1_session *s) { return s->context; }
const char *b1_session_executor(const b1_session *s) { return class_of(s)->name; }
const float *b1_session_logits(const b1_session *s) { return b1_session_logits_at(s, 0); }

const float *b1_session_logits_at(const b1_session *s, int row)
{
    if (row < 0 || row >= s->valid_rows) return NULL;
    return class_of(s)->logits(s->executor, s->pass_rows - 1 - row);
}

uint64_t b1_session_kv_bytes(const b1_session *s, int context)
{
    return b1i_traffic_kv(&s->engine->model->config, context, s->kv.type);
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

/* ---- the ceiling on this session's own weights ---- */

/* Every worker reads its share of [data, data + bytes). */
typedef struct reading {
    const uint8_t *data;
    size_t bytes;
} reading;

static void read_share(void *arg, int worker, int workers)
{
    const reading *r = arg;
    int64_t begin, end;
    b1i_share((int64_t)r->bytes, 64, worker, workers, &begin, &end);
    volatile uint64_t sink = b1i_read_stream(r->data + begin, (size_t)(end - begin));
    (void)sink;
}

/* Bytes that one timed reading takes at most: long enough for the clock, short enough for several in the budget. */
enum { READING_BYTES = 128 << 20 };

b1_status b1_session_read_ceiling(b1_session *s, uint64_t budget_ns, double *gbps, b1_error *err)
{
    const b1i_resident *r = &s->engine->resident;
    const uint64_t start = b1i_now_ns();
    uint64_t longest = 0;
    *gbps = 0;
    /* Where this session does not read the arena, another may be packing it at this moment. */
    if (class_of(s)->layout != b1i_layout_row16)
        return b1i_fail(err, B1_MEMORY, "no packed weights to read: the executor %s reads the file's own",
                        class_of(s)->name);
    size_t at = 0, piece = r->arena_bytes < READING_BYTES ? r->arena_bytes : READING_BYTES;
    do {
        reading work = {r->arena + at, piece};
        uint64_t t0 = b1i_now_ns();
        b1i_pool_run(s->engine->threads, read_share, &work);
        uint64_t ns = b1i_now_ns() - t0;
        if ((double)piece / (double)ns > *gbps) *gbps = (double)piece / (double)ns;
        if (ns > longest) longest = ns;
        at += piece;
        if (at + piece > r->arena_bytes) at = 0;
    } while (b1i_now_ns() - start + longest < budget_ns);
    return B1_OK;
}
