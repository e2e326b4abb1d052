/* SPDX-License-Identifier: MIT
 *
 * What the CPU's executors share: an instance's memory and the small functions that are the same for all.
 */
#ifndef B1I_EXEC_CPU_H
#define B1I_EXEC_CPU_H

#include "cpu/stages.h"
#include "exec/exec.h"

/* Workers that have done a stage, since the first step. */
typedef struct b1i_counter {
    _Alignas(64) atomic_uint_fast64_t done;
} b1i_counter;

struct b1i_executor {
    const b1i_executor_class *class;
    b1i_cpu_state state;
    b1i_kv kv; /* the state's */
    b1i_mask mask;
    b1i_stage_list lists[b1i_rows_count]; /* the reference has none */
    int items;
    uint64_t *times; /* [items] or NULL */
    atomic_bool cancelled;
    /* persistent: for one row and for few, a counter a stage, each on a cache line of its own, and what they all are
     * between two steps */
    b1i_counter *counters[2];
    uint64_t counted[2];
    void *counter_pages;
    size_t counter_bytes;
    unsigned patience; /* looks before a waiting worker gives its CPU away */
};

b1_status b1i_cpu_supports(const b1i_model *model, const b1i_gpu_info *gpu, b1_error *err);
b1_status b1i_cpu_create(const b1i_executor_class *class, const b1i_exec_env *env, b1i_executor **out, b1_error *err);
int b1i_cpu_max_rows(const b1i_executor *e);
b1_status b1i_cpu_wait(b1i_executor *e, b1_error *err);
void b1i_cpu_cancel(b1i_executor *e, bool on);
b1_status b1i_cpu_fill(b1i_executor *e, int count, b1_error *err);
b1_status b1i_cpu_logits(b1i_executor *e, int row, const float **out, b1_error *err);
b1_status b1i_cpu_argmax(b1i_executor *e, int row, int32_t *token, b1_error *err);
b1_status b1i_cpu_mask(b1i_executor *e, const int32_t *ids, int count, b1_error *err);
const uint64_t *b1i_cpu_times(const b1i_executor *e);
void b1i_cpu_launches(b1i_executor *e, int *counts);
b1_status b1i_cpu_read_ceiling(b1i_executor *e, uint64_t budget_ns, double *gbps, b1_error *err);
const char *b1i_cpu_note(const b1i_executor *e);
void b1i_cpu_destroy(b1i_executor *e);
/* Sets the step at hand; B1_CANCELLED where one of its sequences is cancelled. */
b1_status b1i_cpu_begin(b1i_executor *e, const b1i_step *step, b1_error *err);
bool b1i_cpu_cancelled(const b1i_executor *e, const b1i_step *step);
/* Gives every sequence of the step its logits. */
void b1i_cpu_end(b1i_executor *e, const b1i_step *step);
/* Runs a list stage by stage, a fork and a join each. */
b1_status b1i_cpu_fork_join(b1i_executor *e, const b1i_step *step, b1_error *err);

/* The class of a CPU executor: what differs is named, the rest is above. */
#define B1I_CPU_EXECUTOR(id, kv_type, layout_id, groups, create_fn, submit_fn) \
    const b1i_executor_class b1i_executor_##id = {                             \
        .name = #id,                                                           \
        .device = "cpu",                                                       \
        .kv = kv_type,                                                         \
        .layout = layout_id,                                                   \
        .by_group = groups,                                                    \
        .supports = b1i_cpu_supports,                                          \
        .create = create_fn,                                                   \
        .max_rows = b1i_cpu_max_rows,                                          \
        .submit = submit_fn,                                                   \
        .wait = b1i_cpu_wait,                                                  \
        .cancel = b1i_cpu_cancel,                                              \
        .fill = b1i_cpu_fill,                                                  \
        .logits = b1i_cpu_logits,                                              \
        .argmax = b1i_cpu_argmax,                                              \
        .mask = b1i_cpu_mask,                                                  \
        .times = b1i_cpu_times,                                                \
        .launches = b1i_cpu_launches,                                          \
        .read_ceiling = b1i_cpu_read_ceiling,                                  \
        .note = b1i_cpu_note,                                                  \
        .destroy = b1i_cpu_destroy,                                            \
    }

#endif
