/* SPDX-License-Identifier: MIT
 *
 * Two levels and trends of steps. See modes.h.
 */
#include "lab/modes.h"

#include "lab/stats.h"

#include <math.h>
#include <string.h>

#define APART  0.05 /* of the median: nearer levels are one */
#define ASHMAN 4.5  /* distance of the means over the root of the mean variance; halves of a normal one have 2.65 */
enum {
    COUNT_LEAST = 12,
    PART_LEAST = 5, /* a group has at least count / PART_LEAST steps */
    MISPLACED = 10, /* at most count / MISPLACED steps are on the wrong side of a change of level */
};

const char *const b1i_modes_names[] = {"one", "levels", "alternating", "trend"};

/* Mean and variance of values [from, to). */
static double mean_of(const double *values, size_t from, size_t to, double *variance)
{
    double mean = 0, sum = 0;
    for (size_t i = from; i < to; i++) mean += values[i] / (double)(to - from);
    for (size_t i = from; i < to; i++) sum += (values[i] - mean) * (values[i] - mean);
    *variance = sum / (double)(to - from);
    return mean;
}

/* Where sorted values fall apart best: the first index of the upper group, by the least variance within the two. */
static size_t best_split(const double *sorted, size_t count)
{
    size_t least = (count + PART_LEAST - 1) / PART_LEAST, best = least;
    double best_within = INFINITY;
    for (size_t k = least; k + least <= count; k++) {
        double low, high;
        mean_of(sorted, 0, k, &low);
        mean_of(sorted, k, count, &high);
        double within = (double)k * low + (double)(count - k) * high;
        if (within < best_within) {
            best_within = within;
            best = k;
        }
    }
    return best;
}

/* Whether nothing within either group is as far from its neighbour as the groups are: the middle three quarters of each
 * are asked, for its outermost steps may be stragglers. */
static bool gap_is_widest(const double *sorted, size_t count, size_t split)
{
    const double gap = sorted[split] - sorted[split - 1];
    size_t low = split / 8, high = count - (count - split) / 8;
    for (size_t i = low + 1; i < high; i++)
        if (i != split && sorted[i] - sorted[i - 1] >= gap) return false;
    return gap > 0;
}

static bool two_levels(const double *sorted, size_t count, double median, double *cut, b1i_modes *out)
{
    double low_variance, high_variance;
    size_t split = best_split(sorted, count);
    out->low_ns = mean_of(sorted, 0, split, &low_variance);
    out->high_ns = mean_of(sorted, split, count, &high_variance);
    *cut = (sorted[split - 1] + sorted[split]) / 2;
    double distance = out->high_ns - out->low_ns, spread = sqrt((low_variance + high_variance) / 2);
    return distance > APART * median && distance > ASHMAN * spread && gap_is_widest(sorted, count, split);
}

/* The place that divides the steps best into one level and then the other; *wrong are on its wrong side. */
static size_t change_of_level(const double *ns, size_t count, double cut, size_t *wrong)
{
    size_t above = 0, best = 0;
    for (size_t i = 0; i < count; i++) above += ns[i] > cut;
    *wrong = count;
    size_t before = 0; /* of the first k, those above */
    for (size_t k = 1; k < count; k++) {
        before += ns[k - 1] > cut;
        size_t rising = before + (count - k - (above - before)), falling = (k - before) + (above - before);
        size_t least = rising < falling ? rising : falling;
        if (least < *wrong) {
            *wrong = least;
            best = k;
        }
    }
    return best;
}

static bool trend(const double *ns, size_t count, double median, double *work, b1i_modes *out)
{
    double third[3], spread[3];
    for (size_t i = 0; i < 3; i++) {
        size_t first = count * i / 3, n = count * (i + 1) / 3 - first;
        memcpy(work, ns + first, n * sizeof *work);
        third[i] = b1i_median(work, n);
        spread[i] = b1i_percentile(work, n, 90) - b1i_percentile(work, n, 10);
    }
    double distance = fabs(third[2] - third[0]);
    out->low_ns = fmin(third[0], third[2]);
    out->high_ns = fmax(third[0], third[2]);
    return (third[1] - third[0]) * (third[2] - third[1]) >= 0 && distance > APART * median &&
           distance > fmax(spread[0], spread[2]);
}

b1_status b1i_modes_find(const double *ns, size_t count, b1i_modes *out, b1_error *err)
{
    *out = (b1i_modes){b1i_modes_one, 0, 0, 0};
    if (count < COUNT_LEAST) return B1_OK;
    double *work = b1i_malloc(count * sizeof *work), cut;
    if (!work) return b1i_fail_memory(err, count * sizeof *work);
    memcpy(work, ns, count * sizeof *work);
    double median = b1i_median(work, count);
    if (two_levels(work, count, median, &cut, out)) {
        size_t wrong;
        out->step = change_of_level(ns, count, cut, &wrong);
        out->kind = wrong * MISPLACED <= count ? b1i_modes_levels : b1i_modes_alternating;
    } else if (trend(ns, count, median, work, out)) {
        out->kind = b1i_modes_trend;
    }
    if (out->kind != b1i_modes_levels) out->step = 0;
    if (out->kind == b1i_modes_one) out->low_ns = out->high_ns = 0;
    b1i_free(work);
    return B1_OK;
}
