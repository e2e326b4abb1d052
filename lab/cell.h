/* SPDX-License-Identifier: MIT
 *
 * Sessions as the bench's subject: steps at exactly one context, and the prefill's speed.
 */
#ifndef LAB_CELL_H
#define LAB_CELL_H

#include "lab/bench.h"
#include "lab/ceiling.h"

/* Steps of `batch` sessions together, each at exactly one context. */
typedef struct b1i_steps {
    b1_session *const *sessions; /* [batch], 1 … 8 */
    int batch, vocab, context;
    uint64_t taken; /* tokens so far: the next one follows from it */
} b1i_steps;
/* Fills each session with context − 1 positions of filler; its content is lost. B1_ARGUMENT: the batch. */
b1_status b1i_steps_begin(b1i_steps *steps, b1_error *err);
/* One step, *ns its host time; then each session is rewound by one. */
b1_status b1i_steps_one(b1i_steps *steps, uint64_t *ns, b1_error *err);

/* Measures decode steps of `batch` sessions together at `context` (1 ≤ context ≤ each session's): one is a step of the
 * session alone, several (different ones of one engine and executor, at most 8) step as one and read the weights once.
 * Each is filled with context − 1 positions of filler, and rewound by one after each step. The bytes of a step are
 * W + batch · K. `ceiling` is that of the sessions' device. The sessions' content is lost. */
b1_status b1i_cell_measure(b1_session *const *sessions, int batch, b1i_ceiling *ceiling, int vocab, int context,
                           const b1i_bench_plan *plan, b1i_bench_result *out, b1_error *err);

/* Tokens a second of a prompt of `count` deterministic tokens in an empty session: the median of three, after one that
 * warms up. The session's content is lost. */
b1_status b1i_cell_prefill(b1_session *session, int vocab, int count, bool (*cancelled)(void), double *tokens_per_s,
                           b1_error *err);

#endif
