/* SPDX-License-Identifier: MIT
 *
 * Order statistics of samples. Nothing is assumed of their distribution; NaN is the caller's fault.
 */
#ifndef LAB_STATS_H
#define LAB_STATS_H

#include <stddef.h>

/* The p-th percentile, 0 ≤ p ≤ 100, of `values` [count], linearly interpolated between the two nearest samples: p = 50
 * is the median, of an even count the mean of the middle two. `values` are sorted in place. NaN where count is 0. */
double b1i_percentile(double *values, size_t count, double p);
/* The median; `values` are sorted in place. */
double b1i_median(double *values, size_t count);

#endif
