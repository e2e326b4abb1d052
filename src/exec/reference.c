/* SPDX-License-Identifier: MIT
 *
 * The executor `reference`: the plan's ops one by one in plain C, f32 with f32 KV unless a precision says otherwise.
 */
#include "cpu/reference.h"
#include "base/threads.h"
#include "exec/cpu.h"

#include <string.h>

typedef struct work {
    const b1i_cpu_state *state;
    const b1i_op *op;
} work;

static void run_share(void *arg, int worker, int workers)
{
    const work *w = arg;
    b1i_ref_ops[w->op->id](w->state, w->op, worker, workers);
}

static b1_status submit(b1i_executor *e, const b1i_step *step, b1_error *err)
{
    const b1i_plan *plan = e->state.w->plan;
    b1i_cpu_state_step(&e->state, step->tokens, step->n, step->position, step->logits_from);
    for (int i = 0; i < plan->op_count && (step->stop_after < 0 || i <= step->stop_after); i++) {
        work w = {&e->state, &plan->ops[i]};
        if (atomic_load_explicit(&e->cancelled, memory_order_relaxed)) return b1i_fail(err, B1_CANCELLED, "cancelled");
        uint64_t start = e->times ? b1i_now_ns() : 0;
        b1i_pool_run(e->state.workers, run_share, &w);
        if (e->times) e->times[i] = b1i_now_ns() - start;
    }
    return B1_OK;
}

B1I_CPU_EXECUTOR(reference, b1i_type_f32, b1i_layout_plain, false, b1i_cpu_create, submit);
