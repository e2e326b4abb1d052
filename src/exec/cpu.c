/* SPDX-License-Identifier: MIT
 *
 * Owns the instances of the CPU's executors and the table of all executors.
 */
#include "exec/cpu.h"

#include "base/threads.h"

#include <string.h>

const b1i_executor_class *const b1i_executor_classes[] = {
    &b1i_executor_persistent, &b1i_executor_fused, &b1i_executor_separate, &b1i_executor_reference, NULL,
};

const b1i_executor_class *b1i_executor_class_by_name(const char *name)
{
    for (int i = 0; b1i_executor_classes[i]; i++)
        if (strcmp(b1i_executor_classes[i]->name, name) == 0) return b1i_executor_classes[i];
    return NULL;
}

const b1i_executor_class *b1i_executor_class_best(const b1i_model *model)
{
    int i = 0;
    while (b1i_executor_classes[i + 1] && b1i_executor_classes[i]->supports(model, NULL) != B1_OK) i++;
    return b1i_executor_classes[i];
}

const char *b1_executor_name(int index)
{
    static const char *const order[] = {"reference", "separate", "fused", "persistent"};
    return index >= 0 && index < 4 ? order[index] : NULL;
}

/* The widest head that buffers on the stack are made for. */
enum { HEAD_DIM_MAX = 256 };

b1_status b1i_cpu_supports(const b1i_model *m, b1_error *err)
{
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

b1_status b1i_cpu_create(const b1i_executor_class *class, const b1i_exec_env *env, b1i_executor **out, b1_error *err)
{
    b1_status st;
    const b1i_plan *plan = env->resident->plan;
    *out = NULL;
    b1i_executor *e = b1i_calloc(1, sizeof *e);
    if (!e) return b1i_fail_memory(err, sizeof *e);
    e->class = class;
    e->items = class->by_group ? plan->group_count : plan->op_count;
    B1I_TRY(b1i_cpu_state_create(env->resident, b1i_kernels_best(), env->workers, env->logit_rows, &e->state, err));
    e->state.precision = env->precision;
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
    if (e->counter_pages) b1i_pages_free(e->counter_pages, e->counter_bytes);
    b1i_free(e->times);
    b1i_free(e);
}

void b1i_cpu_bind(b1i_executor *e, b1i_kv *kv) { e->state.kv = kv; }

b1_status b1i_cpu_wait(b1i_executor *e, b1_error *err)
{
    (void)e;
    (void)err;
    return B1_OK;
}

void b1i_cpu_cancel(b1i_executor *e, bool on) { atomic_store_explicit(&e->cancelled, on, memory_order_relaxed); }
const float *b1i_cpu_logits(const b1i_executor *e, int row) { return b1i_row(&e->state, b1i_v_logits, row); }
const uint64_t *b1i_cpu_times(const b1i_executor *e) { return e->times; }

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
    b1i_cpu_state_step(&e->state, step->tokens, step->n, step->position, step->logits_from);
    if (e->times) memset(e->times, 0, (size_t)e->items * sizeof *e->times);
    for (int i = 0; i < list->count; i++) {
        work w = {&e->state, &list->stages[i]};
        if (step->stop_after >= 0 && w.stage->item > step->stop_after) break;
        if (atomic_load_explicit(&e->cancelled, memory_order_relaxed)) return b1i_fail(err, B1_CANCELLED, "cancelled");
        uint64_t start = e->times ? b1i_now_ns() : 0;
        b1i_pool_run(e->state.workers, run_share, &w);
        if (e->times) e->times[w.stage->item] += b1i_now_ns() - start;
    }
    return B1_OK;
}
