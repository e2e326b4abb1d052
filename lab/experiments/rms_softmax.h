/* SPDX-License-Identifier: MIT
 *
 * The experiment `rms-softmax`, and its workload as operations.
 */
#ifndef LAB_EXPERIMENTS_RMS_SOFTMAX_H
#define LAB_EXPERIMENTS_RMS_SOFTMAX_H

#include "lab/kernels/rms_softmax_args.h"
#include "lab/lab.h"
#include "lab/work.h"

extern const b1i_experiment b1i_experiment_rms_softmax;

typedef enum b1i_softmax_variant {
    b1i_softmax_separate,   /* five operations */
    b1i_softmax_fused,      /* one, a block a row; on the CPU each worker has a share of the rows */
    b1i_softmax_persistent, /* one whose blocks or workers take rows, after the reset of what counts them */
    b1i_softmax_variants
} b1i_softmax_variant;
extern const char *const b1i_softmax_variant_names[b1i_softmax_variants];

enum { B1I_SOFTMAX_OPS_MOST = 5 };

/* Fills `ops` for `args` and returns how many there are. `resident`: blocks of the persistent kernel. */
int b1i_softmax_ops(b1i_softmax_variant variant, const b1i_softmax_args *args, unsigned resident, b1i_lab_op *ops);

/* Of the kernels for rows of that width. */
unsigned b1i_softmax_threads(int width);
unsigned b1i_softmax_shared_bytes(b1i_softmax_variant variant, int width);
/* How many additions a term of a row's sum passes through at most, on a GPU and on the CPU. */
int b1i_softmax_adds(bool gpu, int width);

#endif
