/* SPDX-License-Identifier: MIT
 *
 * Intervals over sessions. Draws are those of stats.h: draw k of resample r is item floor(m · count / 2^64) with
 * m = mix64(seed + r · count + k), so that anybody can repeat them.
 */
#ifndef LAB_BOOTSTRAP_H
#define LAB_BOOTSTRAP_H

#include "base/base.h"

typedef struct b1i_interval {
    double value, low, high;
} b1i_interval;

/* The mean of `values` [count ≥ 2] with its 95 % interval by the studentised bootstrap (bootstrap-t): of each resample
 * t* = (mean* − mean) / se*, and the interval is mean − t*_{97.5} se … mean − t*_{2.5} se. Resamples without spread
 * have no t* and are left out. All equal: low = high = value. count 1: low and high are NaN. */
b1_status b1i_bootstrap_t(const double *values, size_t count, size_t resamples, uint64_t seed, b1i_interval *out,
                          b1_error *err);
/* The plain percentile interval of the mean. */
b1_status b1i_bootstrap_percentile(const double *values, size_t count, size_t resamples, uint64_t seed,
                                   b1i_interval *out, b1_error *err);
/* mean(b) − mean(a), unpaired, studentised. Counts of at least 2. */
b1_status b1i_bootstrap_t_difference(const double *a, size_t a_count, const double *b, size_t b_count, size_t resamples,
                                     uint64_t seed, b1i_interval *out, b1_error *err);

#endif
