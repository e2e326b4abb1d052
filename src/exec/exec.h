/* SPDX-License-Identifier: MIT
 *
 * Executors: what runs a plan. A class is a struct of functions; an instance belongs to one session and begins with a
 * pointer to its class. What an executor cannot do is a status with a sentence.
 */
#ifndef B1I_EXEC_H
#define B1I_EXEC_H

#include "cpu/state.h"

#include <stdatomic.h>

typedef struct b1i_executor b1i_executor;
typedef struct b1i_executor_class b1i_executor_class;

/* What an instance is made for. */
typedef struct b1i_exec_env {
    const b1i_resident *resident;
    int workers;             /* reserved in the pool */
    int logit_rows;          /* rows of one pass whose logits are kept */
    b1i_precision precision; /* of the reference; others have their own */
    bool op_times;
} b1i_exec_env;

/* n consecutive positions of one sequence. */
typedef struct b1i_step {
    const int32_t *tokens; /* [n] */
    int n;                 /* 1 … max_rows */
    int position;          /* of the first */
    int logits_from;       /* logits of rows [logits_from, n) */
    int stop_after;        /* index of the last op (or group) to run; -1: all. For tests */
} b1i_step;

struct b1i_executor_class {
    const char *name;
    const char *device;   /* "cpu" */
    b1i_type kv;          /* type of a session's KV cache unless it asks for another */
    b1i_layout_id layout; /* of the matrices that it reads */
    bool by_group;        /* its items (times, stop_after) are the plan's groups, not its ops */
    b1_status (*supports)(const b1i_model *model, b1_error *err);
    b1_status (*create)(const b1i_executor_class *class, const b1i_exec_env *env, b1i_executor **out, b1_error *err);
    /* The KV cache that steps use from now on. */
    void (*bind)(b1i_executor *e, b1i_kv *kv);
    /* Starts a step; wait ends it. B1_CANCELLED: the step's KV is undefined from its position on. */
    b1_status (*submit)(b1i_executor *e, const b1i_step *step, b1_error *err);
    b1_status (*wait)(b1i_executor *e, b1_error *err);
    void (*cancel)(b1i_executor *e, bool on); /* from any thread */
    /* Logits of the last step: `row` counts from its logits_from. */
    const float *(*logits)(const b1i_executor *e, int row);
    const uint64_t *(*times)(const b1i_executor *e); /* ns of every item of the last step; NULL without op_times */
    void (*destroy)(b1i_executor *e);
};

/* All of this build, NULL-terminated, in the order of preference where a model is supported. */
extern const b1i_executor_class *const b1i_executor_classes[];
const b1i_executor_class *b1i_executor_class_by_name(const char *name);
/* The first that supports the model. */
const b1i_executor_class *b1i_executor_class_best(const b1i_model *model);

extern const b1i_executor_class b1i_executor_reference, b1i_executor_separate, b1i_executor_fused,
    b1i_executor_persistent;

#endif
