/* SPDX-License-Identifier: MIT
 *
 * Steps on a GPU while CUPTI records: their kernels, and in a second recording the host's calls.
 */
#ifndef LAB_STEP_CUPTI_H
#define LAB_STEP_CUPTI_H

#include "gpu/gpu.h"

#include <jansson.h>

/* What runs steps; graphs that it made before a recording (b1i_gpu_recording()) it makes anew. */
typedef struct b1i_step_source {
    void *user;
    b1_status (*step)(void *user, double *ns, b1_error *err); /* one step and its host time */
    void (*settle)(void *user);                               /* waits until the last step's kernels have ended */
} b1i_step_source;

/* The trace (step_trace.h) of `steps` steps, whose times go to step_ns [steps]. `gpu` is of the process, and need not
 * be that of the steps. B1_UNSUPPORTED: there is no CUPTI, or it refuses; B1_DEVICE: it lost records, or saw nothing of
 * a step; or what a step returned. */
b1_status b1i_step_cupti(b1i_gpu *gpu, const b1i_step_source *source, int layers, int steps, double *step_ns,
                         json_t **trace, b1_error *err);

#endif
