/* SPDX-License-Identifier: MIT
 *
 * Where the time of a step goes: a few interventions that separate the causes, and what follows from them.
 *
 * {"schema": "batchone.explain/1", "model", "architecture", "device", "device_name", "weights", "executor", "context",
 *  "threads", "t_obs_ms", "weight_bytes", "kv_bytes", "ceiling_gbps", "peak_gbps", "t_floor_ms" (at the ceiling),
 *  "parts_ms": {"memory", "launch", "synchronisation", "kernels", "attention", "host"} (each at least 0, adding up to
 *  t_obs_ms; memory is the smaller of (W + K) / ceiling and t_obs), "interventions": [{"what", "setting", "status",
 *  "t_obs_ms", "ceiling_gbps", "message"}], "best": {setting, "t_obs_ms"}, "predictions": [{"gpu", "gbps", "fits",
 *  "t_ms": [low, high], "how"}], "prices": [{"device", "per_hour", "currency", "per_million_tokens", "date",
 *  "excludes"}], "sentences": [text]}
 */
#ifndef LAB_EXPLAIN_H
#define LAB_EXPLAIN_H

#include "lab/setting.h"

typedef struct b1i_explain_options {
    b1i_setting setting;       /* executor NULL: the device's fastest; context 0: 2048, less where the model has less */
    const char *const *prices; /* "NAME=2.49", per hour; NAME of data/gpus.json or "this" */
    size_t price_count;
    bool (*cancelled)(void);
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    void *progress_user;
} b1i_explain_options;

b1_status b1i_explain(const b1i_explain_options *options, json_t **out, b1_error *err);

#endif
