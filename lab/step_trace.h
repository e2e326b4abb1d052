/* SPDX-License-Identifier: MIT
 *
 * What was seen of some steps, as the part of a step's profile (step_profile.h) that follows from it. No profiler is
 * known here.
 */
#ifndef LAB_STEP_TRACE_H
#define LAB_STEP_TRACE_H

#include "base/base.h"

#include <jansson.h>

enum { b1i_step_kernel, b1i_step_memset, b1i_step_copy, b1i_step_graph, b1i_step_whats };

typedef struct b1i_step_record {
    int what;
    const char *name;          /* of a kernel */
    int layer;                 /* of a kernel: −1 none, −2 not known */
    uint64_t begin_ns, end_ns; /* begin 0 where only the time is known */
} b1i_step_record;
enum { B1I_LAYER_NONE = -1, B1I_LAYER_UNKNOWN = -2 };

typedef struct b1i_step_seen {
    const b1i_step_record *records; /* [count], by their beginnings */
    size_t count;
    double launch_ns, sync_ns; /* of the host; negative: not seen */
} b1i_step_seen;

/* Where the layers lie in the kernels of a step, by what repeats. */
typedef struct b1i_layers {
    size_t first, end; /* kernels [first, end) are the layers' */
    int least, most;   /* kernels of a layer */
} b1i_layers;
/* Looks for `layers` repetitions in names [count], which need not be of one length. The beginning of a layer is where
 * most repeats, the earliest of several. false: nothing occurs once (or equally often) a layer, or layers < 2. */
bool b1i_layers_find(const char *const *names, size_t count, int layers, b1i_layers *out);

/* "kernels", "sequence_sha256", "kernels_per_step", "kernels_per_layer", "outside", "kernel_ms", "gap_ms",
 * "overlap_ms", "launch_ms", "sync_ms", "host_over_kernel", "activities" of steps [count ≥ 1], and "message" where they
 * are not alike, else null. Kernels whose layer is not known are given to `layers` by b1i_layers_find(). */
b1_status b1i_step_trace_json(const b1i_step_seen *steps, size_t count, int layers, json_t **out, b1_error *err);

#endif
