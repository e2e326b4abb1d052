/* SPDX-License-Identifier: MIT
 *
 * The experiment `pointwise`, and its chain as operations.
 */
#ifndef LAB_EXPERIMENTS_POINTWISE_H
#define LAB_EXPERIMENTS_POINTWISE_H

#include "lab/lab.h"
#include "lab/work.h"

extern const b1i_experiment b1i_experiment_pointwise;

enum { B1I_POINTWISE_OPS_MOST = 3 };

/* float [count] each, at 16-byte boundaries; the fused chain needs neither a nor b. */
typedef struct b1i_pointwise_arrays {
    uint64_t x, a, b, y;
    int64_t count;
} b1i_pointwise_arrays;

/* Fills `ops` and returns how many there are: three, or one where it is fused. */
int b1i_pointwise_ops(bool fused, const b1i_pointwise_arrays *at, b1i_lab_op *ops);

#endif
