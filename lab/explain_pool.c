/* SPDX-License-Identifier: MIT
 *
 * What handing work to the pool costs where there is none to do: a dispatch with its join, and a meeting of the workers
 * inside one. Medians of short batches, so that a batch in which the system took a CPU away does not count.
 */
#include "base/threads.h"
#include "lab/explain_parts.h"
#include "lab/stats.h"

#include <stdatomic.h>

enum { BATCHES = 25, DISPATCHES = 40, MEETINGS = 40, LONGEST_NS = 200000000 };

typedef struct meeting {
    atomic_int arrived; /* grows by the number of workers at each meeting */
    int times;
} meeting;

static void nothing(void *arg, int worker, int workers)
{
    (void)arg;
    (void)worker;
    (void)workers;
}

/* Each waits until all have arrived as often as itself; released by the last one's increment. */
static void meet(void *arg, int worker, int workers)
{
    meeting *m = arg;
    (void)worker;
    for (int i = 1; i <= m->times; i++) {
        atomic_fetch_add_explicit(&m->arrived, 1, memory_order_acq_rel);
        while (atomic_load_explicit(&m->arrived, memory_order_acquire) < i * workers) b1i_cpu_relax();
    }
}

static double one_dispatch(int workers)
{
    const uint64_t began = b1i_now_ns();
    for (int i = 0; i < DISPATCHES; i++) b1i_pool_run(workers, nothing, NULL);
    return (double)(b1i_now_ns() - began) / DISPATCHES / 1e6;
}

/* With the dispatch around them, which is taken off. */
static double one_meeting(int workers, double dispatch_ms)
{
    meeting m = {.times = MEETINGS};
    const uint64_t began = b1i_now_ns();
    b1i_pool_run(workers, meet, &m);
    const double ms = (double)(b1i_now_ns() - began) / 1e6 - dispatch_ms;
    return ms > 0 ? ms / MEETINGS : 0;
}

b1_status b1i_pool_costs(int workers, double *dispatch_ms, double *meeting_ms, b1_error *err)
{
    double seen[BATCHES];
    size_t count = 0;
    b1_status st = b1i_pool_reserve(workers, err);
    if (st != B1_OK) return st;
    const uint64_t began = b1i_now_ns();
    for (int i = 0; i < 3; i++) (void)one_dispatch(workers);
    while (count < BATCHES && (!count || b1i_now_ns() - began < LONGEST_NS / 2)) seen[count++] = one_dispatch(workers);
    *dispatch_ms = b1i_median(seen, count);
    count = 0;
    while (count < BATCHES && (!count || b1i_now_ns() - began < LONGEST_NS))
        seen[count++] = one_meeting(workers, *dispatch_ms);
    *meeting_ms = b1i_median(seen, count);
    if (*meeting_ms > *dispatch_ms) *meeting_ms = *dispatch_ms; /* a dispatch ends in a meeting */
    return B1_OK;
}
