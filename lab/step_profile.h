/* SPDX-License-Identifier: MIT
 *
 * The profile of a step: what its kernels take and what lies between them. A pass of its own after the timing; none of
 * its times enters a latency.
 *
 * {"schema": "batchone.step-profile/1", "by": "cupti" | "executor" (the CPU's own times of ops) | a stack's word,
 * "found", "message", "steps", "kernels": [{"name", "count" (a step), "ns" (median of a launch), "total_ns" (of a
 * step), "layer" (whether it belongs to the layers)}], "sequence_sha256" (of the names in order, of one step),
 * "kernels_per_step", "kernels_per_layer": {"min", "max"}, "outside": how many of no layer, "kernel_ms" (sum, a step),
 * "gap_ms" (between one kernel's end and the next one's begin, within a step), "overlap_ms" (kernels that ran at once),
 * "launch_ms", "sync_ms" (host, a step: in calls that launch, that wait; null: not seen), "host_over_kernel",
 * "profiled_ms", "unprofiled_ms" (median step with and without the profiler, same session), "distortion" (their ratio),
 * "utilisation" (bytes / unprofiled time / peak: an ordering, no truth), "activities": [{"kind": "kernel" | "memset" |
 * "copy" | "graph", "name", "begin_ns", "end_ns"}] of one step} Of a graph, node-level records; what a graph-level pass
 * would say is not inferred from them.
 */
#ifndef LAB_STEP_PROFILE_H
#define LAB_STEP_PROFILE_H

#include "base/base.h"

#include <jansson.h>

/* Steps of `session` at `context`, `steps` of them under the profiler and as many without. A profiler that is missing
 * or refuses is a document with a message, not a failure. */
b1_status b1i_step_profile(b1_session *session, int vocab, int context, int layers, double peak_gbps, int steps,
                           json_t **out, b1_error *err);
/* {"step", "layer_min", "layer_max", "outside", "from"} of a session without a profiler; null where nobody knows. */
json_t *b1i_step_kernels(b1_session *session, int layers);
/* Whether two profiles ran the same kernels in the same order and number. */
bool b1i_step_profile_same(const json_t *a, const json_t *b);

#endif
