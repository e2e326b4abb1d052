/* SPDX-License-Identifier: MIT
 *
 * Sessions as the bench's subject: steps at exactly one context, and the prefill's speed.
 */
#ifndef LAB_CELL_H
#define LAB_CELL_H

#include "lab/bench.h"
#include "lab/ceiling.h"

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
