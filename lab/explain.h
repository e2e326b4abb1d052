/* SPDX-License-Identifier: MIT
 *
 * Where the time of a step goes: a few interventions that separate the causes, and what follows from them.
 *
 * {"schema": "batchone.explain/1", "model", "architecture", "device", "device_name", "weights", "executor", "context",
 *  "threads", "layers", "kernels", "verdict", "t_obs_ms", "p10_ms", "p90_ms", "cv", "weight_bytes", "stored_bytes",
 *  "kv_bytes", "ceiling_gbps", "peak_gbps", "r_ceiling", "t_arithmetic_ms", "version", "date" (as a cell has them),
 *  "t_floor_ms" (at the ceiling), "parts_ms": {"memory", "launch", "synchronisation", "kernels", "attention", "host"}
 *  (each at least 0, adding up to t_obs_ms; memory is the smaller of (W + K) / ceiling and t_obs; explain_parts.h says
 *  what each means), "dispatch": of the CPU {"dispatches", "meetings" (of a step), "dispatch_us", "meeting_us" (empty
 *  ones)}, "profile": the sums of a step-profile and "attention_ms", or null, "interventions": [{"what": "executor" |
 *  "context" | "threads" | "weights", "setting", "status" (a cell's, or "skipped"), "verdict", "message", "weights",
 *  "t_obs_ms", "ceiling_gbps", "weight_bytes", "kv_bytes", "kernels"}], "best": {"setting", "t_obs_ms"} (over executors
 *  and threads, the weights being the same), "predictions": [{"gpu", "gbps", "fits", "t_ms": [low, high] or null,
 *  "how"}], "prices": [{"device", "per_hour", "currency", "per_million_tokens": [low, high] or null, "date",
 *  "excludes"}], "sentences": [text]}
 */
#ifndef LAB_EXPLAIN_H
#define LAB_EXPLAIN_H

#include "lab/setting.h"

typedef struct b1i_explain_options {
    b1i_setting setting;       /* executor NULL: the device's fastest; context 0: 2048, less where the model has less */
    const char *const *prices; /* "NAME=2.49EUR", an hour; NAME of data/gpus.json or "this" */
    size_t price_count;
    bool (*cancelled)(void);
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    void *progress_user;
} b1i_explain_options;

b1_status b1i_explain(const b1i_explain_options *options, json_t **out, b1_error *err);

#endif
