/* SPDX-License-Identifier: MIT
 *
 * Oracles: what the outputs of experiments must be, computed in double precision, one element after the other, by code
 * that shares nothing with the kernels or with their bodies on the CPU; the arithmetic is written down here once more.
 *
 * How far an output may lie from it follows from the number of roundings to float on its way, each of which changes a
 * value by at most u = 2^−24 of it; the derivations stand beside the code. Not finite is never right.
 *
 * B1_DEVICE: an element is wrong; the sentence says which of `what`, what it is and what it should be.
 */
#ifndef LAB_ORACLE_H
#define LAB_ORACLE_H

#include "base/base.h"

/* y of x [count] each: a = 1.5 x + 0.25, b = a / (1 + |a|), y = 0.75 b − 0.125. */
b1_status b1i_oracle_pointwise(const char *what, const float *x, const float *y, size_t count, b1_error *err);

/* y of x [rows][width] each: z = x / √(mean of x² over the row + 1e−6), y = exp(z) / Σ exp(z) over the row. `adds`: how
 * many additions a term of either sum passes through at most. */
b1_status b1i_oracle_rms_softmax(const char *what, const float *x, const float *y, int rows, int width, int adds,
                                 b1_error *err);

#endif
