/* SPDX-License-Identifier: MIT
 *
 * The executor `persistent`: one dispatch a step; the workers stay inside it and walk the stages, one counter for each
 * stage's dependency on the one before. While a worker waits it brings the first of its next weights into its own
 * second-level cache, for weights depend on nothing: memory stays busy across the boundary.
 *
 * Counters only grow: a stage is done when its counter has grown by the number of workers since the step began, so
 * nothing is reset between steps (a step that was stopped early, in a test, levels them). That number is the one that
 * the pool gives: in the child of a fork, whose threads are gone, it is fewer than were asked for.
 * Passes of more rows than a decode step go stage by stage through the pool, where a cancel is seen between stages.
 */
#include "base/threads.h"
#include "exec/cpu.h"

#include <sched.h>
#include <string.h>

/* What one worker fetches ahead at most, and between two looks at the counter. */
enum { AHEAD_BYTES = 256 << 10, AHEAD_PIECE = 2048 };

typedef struct work {
    b1i_executor *e;
    const b1i_stage_list *list;
    b1i_counter *counters; /* of the list's stages */
    uint64_t before;       /* what every counter was when the step began */
    int stop_after;
} work;

/* Looks at a counter after which a waiting worker offers its CPU at each: about 0.1 ms, far past what the end of a
 * stage takes. With more workers than CPUs it does so at once, for somebody must run who is waited for. */
enum { PATIENCE = 2000 };

/* Returns when the counter has reached `target`. Acquire: what the other workers wrote in that stage is seen. */
static void wait_for(b1i_counter *counter, uint64_t target, unsigned patience, const b1i_kernels *kernels,
                     const uint8_t *ahead, size_t bytes)
{
    size_t at = 0;
    if (bytes > AHEAD_BYTES) bytes = AHEAD_BYTES;
    for (unsigned spins = 0; atomic_load_explicit(&counter->done, memory_order_acquire) < target; spins++) {
        if (at < bytes) {
            size_t piece = bytes - at < AHEAD_PIECE ? bytes - at : AHEAD_PIECE;
            kernels->prefetch(ahead + at, piece);
            at += piece;
        } else {
            b1i_cpu_relax();
            if (spins >= patience) sched_yield();
        }
    }
}

static void run_share(void *arg, int worker, int workers)
{
    const work *w = arg;
    b1i_executor *e = w->e;
    const b1i_cpu_state *s = &e->state;
    const uint64_t target = w->before + (uint64_t)workers;
    uint64_t start = e->times && worker == 0 ? b1i_now_ns() : 0;
    for (int i = 0; i < w->list->count; i++) {
        const b1i_stage *stage = &w->list->stages[i];
        if (w->stop_after >= 0 && stage->item > w->stop_after) break;
        if (i > 0) {
            size_t bytes = 0;
            const uint8_t *ahead = b1i_stage_weights(s, stage, worker, workers, &bytes);
            wait_for(&w->counters[i - 1], target, e->patience, s->kernels, ahead, bytes);
        }
        stage->run(s, stage, worker, workers);
        /* release: this worker's part of the stage is seen by whoever sees the count */
        atomic_fetch_add_explicit(&w->counters[i].done, 1, memory_order_release);
        if (e->times && worker == 0) {
            uint64_t now = b1i_now_ns();
            e->times[stage->item] += now - start;
            start = now;
        }
    }
}

static b1_status submit(b1i_executor *e, const b1i_step *step, b1_error *err)
{
    if (step->n > B1I_DECODE_ROWS) return b1i_cpu_fork_join(e, step, err);
    b1_status st = b1i_cpu_begin(e, step, err);
    if (st != B1_OK) return st;
    const b1i_rows rows = b1i_rows_of(step->n);
    work w = {e, &e->lists[rows], e->counters[rows], e->counted[rows], step->stop_after};
    b1i_pool_run(e->state.workers, run_share, &w);
    e->counted[rows] = atomic_load_explicit(&w.counters[0].done, memory_order_relaxed);
    for (int i = 1; step->stop_after >= 0 && i < w.list->count; i++)
        atomic_store_explicit(&w.counters[i].done, e->counted[rows], memory_order_relaxed);
    b1i_cpu_end(e, step);
    return B1_OK;
}

static b1_status create(const b1i_executor_class *class, const b1i_exec_env *env, b1i_executor **out, b1_error *err)
{
    b1_status st = b1i_cpu_create(class, env, out, err);
    if (st != B1_OK) return st;
    b1i_executor *e = *out;
    size_t one = (size_t)e->lists[b1i_rows_one].count, few = (size_t)e->lists[b1i_rows_few].count;
    e->patience = env->workers > b1i_cpu_count() ? 0 : PATIENCE;
    e->counter_bytes = (one + few) * sizeof(b1i_counter);
    e->counter_pages = b1i_pages_alloc(e->counter_bytes);
    if (e->counter_pages) {
        e->counters[b1i_rows_one] = e->counter_pages;
        e->counters[b1i_rows_few] = e->counters[b1i_rows_one] + one;
        return B1_OK;
    }
    st = b1i_fail_memory(err, e->counter_bytes);
    b1i_cpu_destroy(e);
    *out = NULL;
    return st;
}

B1I_CPU_EXECUTOR(persistent, b1i_type_bf16, b1i_layout_row16, true, create, submit);
