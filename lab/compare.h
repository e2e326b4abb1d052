/* SPDX-License-Identifier: MIT
 *
 * Two studies, old and new: whether a cell became slower. Cells are matched by model's name and architecture, weights,
 * executor, context, batch and device model; threads, binary and versions of stacks are reported, not matched.
 *
 * Of each matched group the ratio new / old of t_obs and of R_ceiling (geometric means over sessions), with the 95 %
 * interval over sessions (bootstrap.h: unpaired, on the logarithm, studentised). Where for both it lies wholly beyond
 * 5 % worse, the group is a regression: a time alone may be the machine's, whose memory was slower that day. Beyond 5 %
 * better for both is faster, within 5 % for both the same, and all else undecided; so is a group of fewer than five
 * sessions on either side, or where one side's cells are of several numbers of threads or versions of a stack. Sessions
 * that drift or were throttled are among them, and counted: what they scatter widens the interval.
 */
#ifndef LAB_COMPARE_H
#define LAB_COMPARE_H

#include "base/base.h"

#include <jansson.h>

#define B1I_COMPARE_LIMIT 1.05
enum { B1I_COMPARE_SESSIONS = 5, B1I_COMPARE_RESAMPLES = 10000 };

/* {"schema": "batchone.compare/1", "old", "new": {"directory", "run", "device", "device_name", "binary_sha256",
 *  "version"}, "limit", "resamples", "seed", "groups": [{"model", "architecture", "weights", "executor", "context",
 *  "batch", "device_name", "threads": [old, new], "stack_version": [old, new], "sessions": [old, new] (with figures),
 *  "drifting": [old, new], "throttled": [old, new] (how many of these sessions), "t_obs_ms": [old, new] (geometric
 *  means; null: none), "time_ratio", "time_interval", "r_ceiling": [old, new], "ceiling_ratio", "ceiling_interval",
 *  "verdict": "regression" | "faster" | "same" | "undecided" | "not measured", "message"}], "unmatched": {"old": [{the
 *  keys that are matched}], "new"}, "regressions"}.
 * B1_ARGUMENT: a directory is no study that verifies. */
b1_status b1i_compare(const char *old_directory, const char *new_directory, json_t **out, b1_error *err);
/* The same of two analyses of studies, without "old" and "new". */
b1_status b1i_compare_analyses(const json_t *old_analysis, const json_t *new_analysis, json_t **out, b1_error *err);

#endif
