/* SPDX-License-Identifier: MIT
 *
 * A session as the bench's subject: steps at exactly one context, and the prefill's speed.
 */
#ifndef LAB_CELL_H
#define LAB_CELL_H

#include "lab/bench.h"
#include "lab/ceiling.h"

/* Measures decode steps of `session` at `context` (1 ≤ context ≤ the session's): it is filled with context − 1
 * positions of filler, and rewound by one after each step. `ceiling` is that of the session's device. The session's
 * content is lost. */
b1_status b1i_cell_measure(b1_session *session, b1i_ceiling *ceiling, int vocab, int context,
                           const b1i_bench_plan *plan, b1i_bench_result *out, b1_error *err);

/* Tokens a second of a prompt of `count` deterministic tokens in an empty session: the median of three, after one that
 * warms up. The session's content is lost. */
b1_status b1i_cell_prefill(b1_session *session, int vocab, int count, bool (*cancelled)(void), double *tokens_per_s,
                           b1_error *err);

#endif
