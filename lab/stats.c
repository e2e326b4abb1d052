/* SPDX-License-Identifier: MIT
 *
 * Order statistics: sort, then interpolate.
 */
#include "lab/stats.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double b1i_percentile(double *values, size_t count, double p)
{
    if (count == 0) return NAN;
    qsort(values, count, sizeof *values, by_value);
    double at = p / 100 * (double)(count - 1);
    size_t low = (size_t)at;
    if (low + 1 >= count) return values[count - 1];
    return values[low] + (at - (double)low) * (values[low + 1] - values[low]);
}

double b1i_median(double *values, size_t count) { return b1i_percentile(values, count, 50); }

/* The probability that at most k of n independent trials with probability q succeed. */
static double binomial_at_most(size_t k, size_t n, double q)
{
    double sum = 0;
    for (size_t i = 0; i <= k && i <= n; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) + (double)i * log(q) +
                   (double)(n - i) * log1p(-q));
    return sum;
}

void b1i_percentile_interval(size_t count, double p, size_t *low, size_t *high)
{
    const double q = p / 100, tail = 0.025;
    *low = *high = 0;
    if (q <= 0 || q >= 1) return;
    /* The percentile is below sample number `low` where fewer than `low` samples are below the percentile. */
    while (*low < count && binomial_at_most(*low, count, q) <= tail) ++*low;
    for (size_t at = count; at >= 1 && binomial_at_most(at - 1, count, q) >= 1 - tail; at--) *high = at;
}

/* The places of `values` [count] in their order, by insertion: counts are small. */
static void rank(const double *values, size_t count, uint32_t *order)
{
    for (size_t i = 0; i < count; i++) {
        size_t k = i;
        for (; k > 0 && values[order[k - 1]] > values[i]; k--) order[k] = order[k - 1];
        order[k] = (uint32_t)i;
    }
}

/* The median of a sample that has values[i] times[i] times, `count` in all. */
static double median_of_drawn(const double *values, const uint32_t *order, const uint32_t *times, size_t count)
{
    size_t low = (count - 1) / 2, seen = 0, i = 0;
    while (seen + times[order[i]] <= low) seen += times[order[i++]];
    double first = values[order[i]];
    if (count % 2) return first;
    while (seen + times[order[i]] <= low + 1) seen += times[order[i++]];
    return first + 0.5 * (values[order[i]] - first); /* as b1i_median() */
}

void b1i_bootstrap_ratio(const double *a, const double *b, size_t count, size_t resamples, uint64_t seed, double *work,
                         double *low, double *high)
{
    double *ratio = work;
    uint32_t *order_a = (uint32_t *)(work + resamples), *order_b = order_a + count, *times = order_b + count;
    *low = *high = NAN;
    if (count == 0) return;
    rank(a, count, order_a);
    rank(b, count, order_b);
    for (size_t r = 0; r < resamples; r++) {
        memset(times, 0, count * sizeof *times);
        for (size_t k = 0; k < count; k++) {
            uint64_t m = b1i_mix64(seed + r * count + k);
            times[(size_t)(((unsigned __int128)m * count) >> 64)]++;
        }
        double below = median_of_drawn(b, order_b, times, count);
        if (!(below > 0)) return;
        ratio[r] = median_of_drawn(a, order_a, times, count) / below;
    }
    *low = b1i_percentile(ratio, resamples, 2.5);
    *high = b1i_percentile(ratio, resamples, 97.5);
}
