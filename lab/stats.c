/* SPDX-License-Identifier: MIT
 *
 * Order statistics: sort, then interpolate.
 */
#include "lab/stats.h"

#include <math.h>
#include <stdlib.h>

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
