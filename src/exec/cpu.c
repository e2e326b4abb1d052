/* SPDX-License-Identifier: MIT
 *
 * Owns the instances of the CPU's executors: each with its KV cache, its buffers and its mask.
 */
#include "exec/cpu.h"

#include "base/threads.h"

#include <string.h>

/* The widest head that buffers on the stack are made for. */
enum { HEAD_DIM_MAX = 256 };

b1_status b1i_cpu_supports(const b1i_model *m, const b1i_gpu_info *gpu, b1_error *err)
{
    (void)gpu;
    const b1i_config *c = &m->config;
    if (c->head_dim > HEAD_DIM_MAX || c->head_dim % 2 != 0)
        return b1i_fail(err, B1_UNSUPPORTED, "%s: heads of %d dimensions; the CPU executors take even ones up to %d",
                        c->name, c->head_dim, HEAD_DIM_MAX);
    return B1_OK;
}

static b1_status make_lists(b1i_executor *e, const b1i_resident *w, b1_error *err)
{
    for (int rows = 0; rows < b1i_rows_count; rows++) {
        b1_status st = e->class->by_group ? b1i_stages_fused(w, e->state.kernels, (b1i_rows)rows, &e->lists[rows], err)
                                          : b1i_stages_separate(w->plan, (b1i_rows)rows, &e->lists[rows], err);
        if (st != B1_OK) return st;
    }
    return B1_OK;
}

static b1_status check_memory(const b1i_config *config, const b1i_exec_env *env, b1_error *err)
{
    uint64_t need = b1i_kv_cache_bytes(config, env->context, env->kv), have = b1i_memory_available();
    if (need <= have) return B1_OK;
    return b1i_fail(err, B1_MEMORY,
                    "a KV cache of %d positions needs %.2f GB and %.2f GB are available; a shorter context may fit",
                    env->context, (double)need / 1e9, (double)have / 1e9);
}

b1_status b1i_cpu_create(const b1i_executor_class *class, const b1i_exec_env *env, b1i_executor **out, b1_error *err)
{
    b1_status st;
    const b1i_plan *plan = env->resident->plan;
    const b1i_config *config = &env->resident->model->config;
    *out = NULL;
    b1i_executor *e = b1i_calloc(1, sizeof *e);
    if (!e) return b1i_fail_memory(err, sizeof *e);
    e->class = class;
    e->items = class->by_group ? plan->group_count : plan->op_count;
    e->mask.vocab = config->vocab;
    B1I_TRY(check_memory(config, env, err));
    B1I_TRY(b1i_kv_create(config, env->context, env->kv, &e->kv, err));
    B1I_TRY(b1i_cpu_state_create(env->resident, b1i_kernels_best(), env->workers,
                                 env->all_logits ? B1I_PREFILL_ROWS : B1I_DECODE_ROWS, &e->state, err));
    e->state.precision = env->precision;
    e->state.kv = &e->kv;
    if (class->layout == b1i_layout_row16) B1I_TRY(make_lists(e, env->resident, err));
    if (env->op_times) {
        e->times = b1i_calloc((size_t)e->items, sizeof *e->times);
        if (!e->times) B1I_TRY(b1i_fail_memory(err, (size_t)e->items * sizeof *e->times));
    }
    *out = e;
    return B1_OK;
fail:
    b1i_cpu_destroy(e);
    return st;
}

void b1i_cpu_destroy(b1i_executor *e)
{
    if (!e) return;
    for (int i = 0; i < b1i_rows_count; i++) b1i_stages_free(&e->lists[i]);
    b1i_cpu_state_free(&e->state);
    b1i_kv_free(&e->kv);
    b1i_mask_free(&e->mask);
    if (e->counter_pages) b1i_pages_free(e->counter_pages, e->counter_bytes);
    b1i_free(e->times);
    b1i_free(e);
}

int b1i_cpu_max_rows(const b1i_executor *e) { return e->state.max_rows; }

b1_status b1i_cpu_wait(b1i_executor *e, b1_error *err)
{
    (void)e;
    (void)err;
    return B1_OK;
}

void b1i_cpu_cancel(b1i_executor *e, bool on) { atomic_store_explicit(&e->cancelled, on, memory_order_relaxed); }
const uint64_t *b1i_cpu_times(const b1i_executor *e) { return e->times; }

/* A dispatch a stage, of the reference (which has no stages) an item; one for all where the workers stay inside. */
void b1i_cpu_launches(b1i_executor *e, int *counts)
{
    const b1i_stage_list *list = &e->lists[b1i_rows_one];
    if (e->counter_pages) {
        counts[0]++;
        return;
    }
    for (int i = 0; i < list->count; i++) counts[list->stages[i].item]++;
    for (int i = 0; list->count == 0 && i < e->items; i++) counts[i]++;
}

const char *b1i_cpu_note(const b1i_executor *e)
{
    (void)e;
    return NULL;
}

b1_status b1i_cpu_fill(b1i_executor *e, int count, b1_error *err)
{
    (void)err;
    b1i_kv_fill(&e->kv, e->state.kernels, e->state.workers, count);
    return B1_OK;
}

b1_status b1i_cpu_logits(b1i_executor *e, int row, const float **out, b1_error *err)
{
    (void)err;
    *out = b1i_row(&e->state, b1i_v_logits, row);
    return B1_OK;
}

b1_status b1i_cpu_argmax(b1i_executor *e, int row, int32_t *token, b1_error *err)
{
    return b1i_argmax(b1i_row(&e->state, b1i_v_logits, row), &e->mask, token, err);
}

b1_status b1i_cpu_mask(b1i_executor *e, const int32_t *ids, int count, b1_error *err)
{
    return b1i_mask_set(&e->mask, ids, count, err);
}

/* ---- a step ---- */

bool b1i_cpu_cancelled(const b1i_executor *e, const b1i_step *step)
{
    for (int i = 0; step->of && i < step->n; i++)
        if (atomic_load_explicit(&step->of[i]->cancelled, memory_order_relaxed)) return true;
    return atomic_load_explicit(&e->cancelled, memory_order_relaxed);
}

b1_status b1i_cpu_begin(b1i_executor *e, const b1i_step *step, b1_error *err)
{
    const b1i_kv *kv[B1I_DECODE_ROWS];
    if (b1i_cpu_cancelled(e, step)) return b1i_fail(err, B1_CANCELLED, "cancelled");
    if (e->times) memset(e->times, 0, (size_t)e->items * sizeof *e->times);
    if (!step->of) {
        b1i_cpu_state_step(&e->state, step->tokens, step->n, step->position, step->logits_from);
        return B1_OK;
    }
    for (int i = 0; i < step->n; i++) kv[i] = &step->of[i]->kv;
    b1i_cpu_state_step_rows(&e->state, step->tokens, kv, step->positions, step->n);
    return B1_OK;
}

void b1i_cpu_end(b1i_executor *e, const b1i_step *step)
{
    for (int i = 1; step->of && i < step->n; i++)
        memcpy(b1i_row(&step->of[i]->state, b1i_v_logits, 0), b1i_row(&e->state, b1i_v_logits, i),
               (size_t)e->state.c->vocab * sizeof(float));
}

/* ---- running a list ---- */

typedef struct work {
    const b1i_cpu_state *state;
    const b1i_stage *stage;
} work;

static void run_share(void *arg, int worker, int workers)
{
    const work *w = arg;
    w->stage->run(w->state, w->stage, worker, workers);
}

b1_status b1i_cpu_fork_join(b1i_executor *e, const b1i_step *step, b1_error *err)
{
    const b1i_stage_list *list = &e->lists[b1i_rows_of(step->n)];
    b1_status st = b1i_cpu_begin(e, step, err);
    for (int i = 0; st == B1_OK && i < list->count; i++) {
        work w = {&e->state, &list->stages[i]};
        if (step->stop_after >= 0 && w.stage->item > step->stop_after) break;
        if (b1i_cpu_cancelled(e, step)) return b1i_fail(err, B1_CANCELLED, "cancelled");
        uint64_t start = e->times ? b1i_now_ns() : 0;
        b1i_pool_run(e->state.workers, run_share, &w);
        if (e->times) e->times[w.stage->item] += b1i_now_ns() - start;
    }
    if (st == B1_OK) b1i_cpu_end(e, step);
    return st;
}

/* ---- the ceiling on the executor's own weights ---- */

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

b1_status b1i_cpu_read_ceiling(b1i_executor *e, uint64_t budget_ns, double *gbps, b1_error *err)
{
    const b1i_resident *r = e->state.w;
    const uint64_t start = b1i_now_ns();
    uint64_t longest = 0;
    *gbps = 0;
    /* Where this executor does not read the arena, another session may be packing it at this moment. */
    if (e->class->layout != b1i_layout_row16)
        return b1i_fail(err, B1_MEMORY, "no packed weights to read: the executor %s reads the file's own",
                        e->class->name);
    size_t at = 0, piece = r->arena_bytes < READING_BYTES ? r->arena_bytes : READING_BYTES;
    do {
        reading part = {r->arena + at, piece};
        uint64_t t0 = b1i_now_ns();
        b1i_pool_run(e->state.workers, read_share, &part);
        uint64_t ns = b1i_now_ns() - t0;
        if ((double)piece / (double)ns > *gbps) *gbps = (double)piece / (double)ns;
        if (ns > longest) longest = ns;
        at += piece;
        if (at + piece > r->arena_bytes) at = 0;
    } while (b1i_now_ns() - start + longest < budget_ns);
    return B1_OK;
}
