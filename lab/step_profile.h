/* SPDX-License-Identifier: MIT
 *
 * The profile of a step: what its kernels take and what lies between them. A pass of its own after the timing; none of
 * its times enters a latency.
 *
 * {"schema": "batchone.step-profile/1", "by": "cupti" | "executor" (the CPU's own times of ops) | a stack's word,
 * "found" (whether there is anything), "message" (why not, or what is odd), "batch", "context", "steps", "kernels":
 * [{"name", "count" (a step), "ns" (median of a launch), "total_ns" (of a step, median), "layer" (whether it belongs to
 * the layers; null: not known)}], "sequence_sha256" (of the kernels' names in order, of one step, each followed by a
 * line feed), "kernels_per_step", "kernels_per_layer": {"min", "max"} or null, "outside": how many of no layer, or
 * null, "kernel_ms" (sum, a step), "gap_ms" (between one kernel's end and the next one's begin, within a step),
 * "overlap_ms" (in which more than one ran), "launch_ms", "sync_ms" (host, a step: in calls that launch; from the last
 * of them to the step's end, in which it waits), "host_over_kernel" (both over kernel_ms), "profiled_ms",
 * "unprofiled_ms" (median step with and without the profiler), "distortion" (their ratio), "utilisation" (bytes /
 * unprofiled time / peak: an ordering, no truth), "activities": [{"kind": "kernel" | "memset" | "copy" | "graph",
 * "name", "begin_ns", "end_ns"}] of one step, from its first}
 *
 * Figures are medians over the steps; null: not seen. Of a graph, node-level records; what a graph-level pass would say
 * is not inferred from them. launch_ms and sync_ms come from a recording of their own. On the CPU a kernel is an op (or
 * a group of them) of the plan, whose time reaches from the end of the one before: gaps and calls are not seen.
 */
#ifndef LAB_STEP_PROFILE_H
#define LAB_STEP_PROFILE_H

#include "base/base.h"

#include <jansson.h>

/* Steps of `batch` sessions of `engine`, made as `how` says, at `context`: `steps` without the profiler, then as many
 * with it. A profiler that is missing or refuses is a document with a message, not a failure. The sessions that the
 * timing used should be closed, for these need as much memory. `peak_gbps` 0: unknown. */
b1_status b1i_step_profile(b1_engine *engine, const b1_session_options *how, int batch, int context, double peak_gbps,
                           int steps, json_t **out, b1_error *err);
/* {"step", "layer_min", "layer_max", "outside", "from": "plan"}: kernels of a step of one token, of the CPU dispatches
 * to its workers; null where nobody knows (NULL: no memory). */
json_t *b1i_step_kernels(b1_session *session, int layers);
/* Whether two profiles, a stack's too, ran the same kernels in the same order and number. */
bool b1i_step_profile_same(const json_t *a, const json_t *b);

#endif
