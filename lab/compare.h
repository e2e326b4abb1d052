/* SPDX-License-Identifier: MIT
 *
 * Two studies, old and new: whether a cell became slower. Groups are matched by model's architecture and name, weights,
 * executor, context, batch and device model; threads, binary and versions of stacks are reported, not matched.
 *
 * Of each matched group the ratio new / old of t_obs and of R_ceiling, with the 95 % interval over sessions (unpaired:
 * each study's sessions are resampled on their own, on the logarithm, studentised). Where for both the interval lies
 * wholly beyond 5 % worse, the group is a regression. With fewer than five sessions on either side it is `undecided`.
 */
#ifndef LAB_COMPARE_H
#define LAB_COMPARE_H

#include "base/base.h"

#include <jansson.h>

/* {"schema": "batchone.compare/1", "old", "new" (directory, run, device, binary, version), "groups": [{"model",
 *  "architecture", "weights", "executor", "context", "batch", "threads": [old, new], "sessions": [old, new],
 * "t_obs_ms": [old, new], "time_ratio", "time_interval", "r_ceiling": [old, new], "ceiling_ratio", "ceiling_interval",
 * "verdict": "regression" | "faster" | "same" | "undecided" | "not measured"}], "unmatched": {"old", "new"},
 * "regressions"}. Both must verify: B1_ARGUMENT else. */
b1_status b1i_compare(const char *old_directory, const char *new_directory, json_t **out, b1_error *err);

#endif
