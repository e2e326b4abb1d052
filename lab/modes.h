/* SPDX-License-Identifier: MIT
 *
 * Whether the steps of one cell have two levels or a trend: then their median is no figure to compare with another.
 *
 * Two levels: the steps fall into two groups (each at least a fifth of them) whose means lie more than 5 % of the
 * median apart, and far beyond what either varies by itself (a gap of at least 4.5 of their standard deviations between
 * the means, by Ashman's D, and an empty place between the groups that is wider than any within them). A trend: the
 * medians of the first, second and last third rise or fall one after the other, from first to last by more than 5 % of
 * the median and by more than p90 − p10 of either third.
 */
#ifndef LAB_MODES_H
#define LAB_MODES_H

#include "base/base.h"

typedef enum b1i_modes_kind {
    b1i_modes_one,
    b1i_modes_levels,      /* first one level, from `step` on the other */
    b1i_modes_alternating, /* two, in no order */
    b1i_modes_trend
} b1i_modes_kind;
extern const char *const b1i_modes_names[]; /* "one", "levels", "alternating", "trend" */

typedef struct b1i_modes {
    b1i_modes_kind kind;
    double low_ns, high_ns; /* the levels' means; of a trend the lesser and the greater of the outer thirds' medians */
    size_t step;            /* of `levels`: index of the first step of the second level */
} b1i_modes;

/* Of steps [count] in the order they were taken. Fewer than 12 have one mode. */
b1_status b1i_modes_find(const double *ns, size_t count, b1i_modes *out, b1_error *err);

#endif
