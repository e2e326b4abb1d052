/* SPDX-License-Identifier: MIT
 *
 * Order statistics of samples. Nothing is assumed of their distribution; NaN is the caller's fault.
 */
#ifndef LAB_STATS_H
#define LAB_STATS_H

#include <stddef.h>
#include <stdint.h>

/* The p-th percentile, 0 ≤ p ≤ 100, of `values` [count], linearly interpolated between the two nearest samples: p = 50
 * is the median, of an even count the mean of the middle two. `values` are sorted in place. NaN where count is 0. */
double b1i_percentile(double *values, size_t count, double p);
/* The median; `values` are sorted in place. */
double b1i_median(double *values, size_t count);

/* The 95 % interval of the p-th percentile from order statistics: samples number *low and *high of `count` in order,
 * from 1, such that the true percentile lies below sample *low in at most 2.5 % of cases and above sample *high in at
 * most 2.5 %, whatever the distribution (binomial). 0: so few samples give no such bound. */
void b1i_percentile_interval(size_t count, double p, size_t *low, size_t *high);

/* The 95 % interval of median(a) / median(b) by the paired percentile bootstrap: `resamples` times `count` pairs
 * (a[i], b[i]) are drawn with replacement, and low and high are the 2.5th and 97.5th percentile of the ratios. Draw k
 * of resample r is pair floor(m · count / 2^64) with m = mix64(seed + r · count + k), so that anybody can repeat it.
 * `work` [2 · count + resamples], of no type yet (malloc). NaN where count is 0 or a median of b is 0. */
void b1i_bootstrap_ratio(const double *a, const double *b, size_t count, size_t resamples, uint64_t seed, double *work,
                         double *low, double *high);

#endif
