/* SPDX-License-Identifier: MIT
 *
 * Executors: what runs a plan. A class is a struct of functions; an instance belongs to one session, owns its KV cache,
 * and begins with a pointer to its class. What an executor cannot do is a status with a sentence.
 */
#ifndef B1I_EXEC_H
#define B1I_EXEC_H

#include "cpu/state.h"
#include "gpu/gpu.h"

#include <stdatomic.h>

typedef struct b1i_executor b1i_executor;
typedef struct b1i_executor_class b1i_executor_class;
struct b1i_cuda_device; /* exec/cuda.h */

/* What an instance is made for. */
typedef struct b1i_exec_env {
    const b1i_resident *resident; /* CPU executors: packed as the class's layout says */
    struct b1i_cuda_device *cuda; /* CUDA executors */
    int workers;                  /* reserved in the pool */
    int context;                  /* positions of the KV cache */
    b1i_type kv;                  /* its type */
    bool all_logits;              /* logits of every row of a pass are kept, not of its last one */
    bool op_times;
    b1i_precision precision; /* of the reference; others have their own */
} b1i_exec_env;

/* n rows: consecutive positions of one sequence, or one position of each of n ≤ 8 sequences. */
typedef struct b1i_step {
    const int32_t *tokens; /* [n] */
    int n;                 /* 1 … max_rows */
    int position;          /* of the first; of several sequences: see positions */
    int logits_from; /* logits of rows [logits_from, n): n − 1, or with all_logits any; of several sequences 0 */
    int stop_after;  /* index of the last op (or group) to run; -1: all. For tests, in steps of at most 8 rows */
    /* NULL: the rows are of the executor that the step is given to. Otherwise row r is of sequence `of[r]`, at
     * positions[r]: different instances of one class and engine, the first of which does the step. Its logits are then
     * row 0 of the last step of of[r]. Both live until the wait. */
    b1i_executor *const *of; /* [n] */
    const int *positions;    /* [n] */
} b1i_step;

struct b1i_executor_class {
    const char *name;
    const char *device;   /* "cpu", "cuda" */
    b1i_type kv;          /* type of a session's KV cache unless it asks for another */
    b1i_layout_id layout; /* of the matrices in the CPU's memory that it reads */
    bool by_group;        /* its items (times, stop_after) are the plan's groups, not its ops */
    int form, mode;       /* CUDA: b1i_cuda_form, and how its launches are submitted */
    /* `gpu` is NULL on the CPU. */
    b1_status (*supports)(const b1i_model *model, const b1i_gpu_info *gpu, b1_error *err);
    /* Makes the KV cache too. B1_MEMORY with a sentence where it does not fit. */
    b1_status (*create)(const b1i_executor_class *class, const b1i_exec_env *env, b1i_executor **out, b1_error *err);
    int (*max_rows)(const b1i_executor *e); /* of a step */
    /* Starts a step; wait ends it, by the same thread. Where submit fails nothing is to be waited for. B1_CANCELLED,
     * or any failure: the step's KV is undefined from its position on. */
    b1_status (*submit)(b1i_executor *e, const b1i_step *step, b1_error *err);
    b1_status (*wait)(b1i_executor *e, b1_error *err);
    void (*cancel)(b1i_executor *e, bool on); /* from any thread */
    /* Positions [0, count) of the KV cache become filler: keys and values uniform in ±1.7. */
    b1_status (*fill)(b1i_executor *e, int count, b1_error *err);
    /* f32 [vocab] of the last step in the CPU's memory; `row` counts from its logits_from. Valid until the next step.
     */
    b1_status (*logits)(b1i_executor *e, int row, const float **out, b1_error *err);
    /* The token of that row with the largest logit that is not masked; see b1i_argmax(). */
    b1_status (*argmax)(b1i_executor *e, int row, int32_t *token, b1_error *err);
    b1_status (*mask)(b1i_executor *e, const int32_t *ids, int count, b1_error *err); /* as b1_session_mask() */
    const uint64_t *(*times)(const b1i_executor *e); /* ns of every item of the last step; NULL without op_times */
    void (*launches)(b1i_executor *e, int *counts);  /* of a step of one row: added to counts [items] */
    b1_status (*read_ceiling)(b1i_executor *e, uint64_t budget_ns, double *gbps, b1_error *err);
    const char *(*note)(const b1i_executor *e); /* as b1_session_note() */
    /* The graph that steps run, of one row or of few (2 … 8): as a DOT file, and what the driver says of it. NULL where
     * the executor runs no graph. */
    b1_status (*graph_dot)(b1i_executor *e, const char *path, b1_error *err);
    b1_status (*graph_describe)(b1i_executor *e, bool few, b1i_gpu_graph_info *out, b1_error *err);
    void (*destroy)(b1i_executor *e);
};

/* All of this build, NULL-terminated, by device, in the order of preference where a model is supported. */
extern const b1i_executor_class *const b1i_executor_classes[];
/* By its own name; NULL: none. */
const b1i_executor_class *b1i_executor_class_by_name(const char *device, const char *name);
/* The class that `name` means on the device, aliases included; NULL: the first there that supports the model. `gpu` is
 * NULL on the CPU. B1_ARGUMENT: no executor has that name; B1_UNSUPPORTED: it runs on the other device only, or does
 * not support the model. */
b1_status b1i_executor_choose(const char *device, const char *name, const b1i_model *model, const b1i_gpu_info *gpu,
                              const b1i_executor_class **out, b1_error *err);
/* Whether `name` means an executor of the device. */
bool b1i_executor_known(const char *device, const char *name);

extern const b1i_executor_class b1i_executor_reference, b1i_executor_separate, b1i_executor_fused,
    b1i_executor_persistent;
extern const b1i_executor_class b1i_executor_separate_stream, b1i_executor_separate_graph, b1i_executor_fused_stream,
    b1i_executor_fused_graph, b1i_executor_fused_pdl;

/* ---- choosing a token, on the CPU ---- */

/* Tokens that are never chosen. */
typedef struct b1i_mask {
    uint32_t *bits; /* [⌈vocab / 32⌉]: bit i % 32 of word i / 32; NULL: none is masked */
    int vocab;
    int count; /* masked tokens */
} b1i_mask;
static inline size_t b1i_mask_words(int vocab) { return ((size_t)vocab + 31) / 32; }
/* Masks exactly `ids`; on failure the mask is as it was. */
b1_status b1i_mask_set(b1i_mask *mask, const int32_t *ids, int count, b1_error *err);
void b1i_mask_free(b1i_mask *mask);
/* B1_ARGUMENT where every token is masked. */
b1_status b1i_mask_check(const b1i_mask *mask, b1_error *err);
/* The largest of logits [vocab] that is not masked, the lowest id where several are. B1_NUMERIC where one, masked or
 * not, is not finite; B1_ARGUMENT where all are masked. */
b1_status b1i_argmax(const float *logits, const b1i_mask *mask, int32_t *token, b1_error *err);

#endif
