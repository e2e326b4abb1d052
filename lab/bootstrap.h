/* SPDX-License-Identifier: MIT
 *
 * Intervals of 95 % over sessions. Draw k of resample r is item floor(m · count / 2^64) with m = mix64(seed + r · count
 * + k), as in stats.h, so that anybody can repeat it.
 *
 * The studentised bootstrap (bootstrap-t) takes of each resample t* = (mean* − mean) / se*, and its interval is mean −
 * t*_{97.5} se … mean − t*_{2.5} se. Of a few sessions a resample often has one value many times and so hardly any
 * spread, and a t* beyond all measure; with one session far from the others a third of the resamples of six do not have
 * it. So it is smoothed: each value drawn is moved by (v − 1/2) · s, where s is the standard deviation of the values
 * and v = (mix64(m) >> 11) / 2^53. Of normal values it covers 0.94 to 0.96 from four sessions on and 0.97 with two or
 * three, where it is wide; the percentile interval covers 0.85 at six and 0.90 at ten.
 */
#ifndef LAB_BOOTSTRAP_H
#define LAB_BOOTSTRAP_H

#include "base/base.h"

typedef struct b1i_interval {
    double value, low, high;
} b1i_interval;

/* The mean of `values` [count ≥ 1], studentised. All equal: low = high = value. count 1: low and high are NaN. */
b1_status b1i_bootstrap_t(const double *values, size_t count, size_t resamples, uint64_t seed, b1i_interval *out,
                          b1_error *err);
/* The plain percentile interval of the mean, of the same draws, unmoved. */
b1_status b1i_bootstrap_percentile(const double *values, size_t count, size_t resamples, uint64_t seed,
                                   b1i_interval *out, b1_error *err);
/* mean(b) − mean(a), unpaired, studentised by sqrt(se_a² + se_b²). Draw k of a is draw k of count a_count + b_count,
 * that of b is draw a_count + k. A count of 1: low and high are NaN. */
b1_status b1i_bootstrap_t_difference(const double *a, size_t a_count, const double *b, size_t b_count, size_t resamples,
                                     uint64_t seed, b1i_interval *out, b1_error *err);

#endif
