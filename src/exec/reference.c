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

/* What a linear op's input is rounded to is one for all rows. */
static b1_status check_precision(const b1i_executor *e, const b1i_step *step, b1_error *err)
{
    const b1i_precision *p = &e->state.precision;
    for (int i = 0; step->of && i < step->n; i++)
        if (step->of[i]->state.precision.dense != p->dense || step->of[i]->state.precision.quant != p->quant)
            return b1i_fail(err, B1_ARGUMENT, "sessions 0 and %d of the step have activations of two types", i);
    return B1_OK;
}

static b1_status submit(b1i_executor *e, const b1i_step *step, b1_error *err)
{
    b1_status st;
    const b1i_plan *plan = e->state.w->plan;
    B1I_TRY(check_precision(e, step, err));
    B1I_TRY(b1i_cpu_begin(e, step, err));
    for (int i = 0; i < plan->op_count && (step->stop_after < 0 || i <= step->stop_after); i++) {
        work w = {&e->state, &plan->ops[i]};
        if (b1i_cpu_cancelled(e, step)) return b1i_fail(err, B1_CANCELLED, "cancelled");
        uint64_t start = e->times ? b1i_now_ns() : 0;
        b1i_pool_run(e->state.workers, run_share, &w);
        if (e->times) e->times[i] = b1i_now_ns() - start;
    }
    b1i_cpu_end(e, step);
    return B1_OK;
fail:
    return st;
}

B1I_CPU_EXECUTOR(reference, b1i_type_f32, b1i_layout_plain, false, b1i_cpu_create, submit);
