/* SPDX-License-Identifier: MIT
 *
 * An outside stack: any program that measures one cell and says so in lines of JSON.
 *
 * It is started by /bin/sh -c COMMAND in a process group of its own. It reads one line, after which its stdin ends:
 *   {"schema": "batchone.stack/1", "model", "synthetic", "architecture", "weights", "context", "batch", "warmup",
 *    "steps", "weight_bytes", "kv_bytes", "parameters", "device", "threads", "profile", "shape": {"layers", "hidden",
 *    "ffn", "heads", "kv_heads", "head_dim", "vocab"}}
 * ("weights" and "threads" are what as-is and all mean; "weight_bytes" is 0 of a format that is not known here: then
 * the stack's first line must have it) and answers with one line {"stack", "version", …(facts: "attention", "kernels",
 * …)}, then one line a step {"step", "ns"}, warm-up included, flushed at once, and may end with
 * {"profile": {…}} (step_profile.h). One that cannot run the cell answers {"status": "unsupported" | "out_of_memory" |
 * "failed", "message"} instead of any of its lines. Its stderr is kept (the last 4 KB, in the message of a failure).
 *
 * The harness stamps each line when it arrives, by a thread that goes before others where the system lets it. A stack
 * fails where it dies, says something else, lets the harness wait for a line longer than its patience, does not end, or
 * where the sum of its measured steps differs from the harness's by over 5 %.
 */
#ifndef LAB_STUDY_STACK_H
#define LAB_STUDY_STACK_H

#include "lab/setting.h"

typedef struct b1i_stack_result {
    char *name, *version;         /* as it calls itself; "unknown" where it did not come to that */
    char *message;                /* one line; NULL where the status is ok */
    const char *status;           /* "ok", "unsupported", "out_of_memory", "failed" */
    double *step_ns, *harness_ns; /* [count]: measured steps, as it says and as the harness saw them; where the status
                                   * is not ok they are those until then, for whoever looks for the reason */
    size_t count;
    json_t *facts;   /* its first line; NULL where there was none */
    json_t *profile; /* or NULL */
} b1i_stack_result;

/* `info` is the model's by inspection; kv_bytes of one sequence. B1_OK also where the stack failed: see status. Fails
 * with B1_CANCELLED (its group is ended) and B1_MEMORY. */
b1_status b1i_stack_run(const b1i_setting *setting, const b1_model_info *info, uint64_t kv_bytes,
                        bool (*cancelled)(void), b1i_stack_result *out, b1_error *err);
void b1i_stack_result_free(b1i_stack_result *result);

/* How long a line may take: 15 minutes before the first measured step, as loading and compiling come before it, and
 * after the last, where a profile may follow; two minutes between those. For tests. */
extern uint64_t b1i_stack_patience_ns, b1i_stack_step_patience_ns;

#endif
