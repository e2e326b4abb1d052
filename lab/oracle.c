/* SPDX-License-Identifier: MIT
 *
 * The oracles of the pointwise chain and of the RMS-scaled softmax. See oracle.h.
 */
#include "lab/oracle.h"

#include <math.h>
#include <stdio.h>

static const double U = 0x1p-24;      /* of a rounding to float */
static const double LEAST = 0x1p-126; /* what lies below the normal floats may be lost */

static b1_status wrong(const char *what, const char *place, float is, double should, double tolerance, b1_error *err)
{
    return b1i_fail(err, B1_DEVICE, "%s: %s is %.9g, and the oracle has %.9g, within %.2g", what, place, (double)is,
                    should, tolerance);
}

/* First order in u:
 *   a: the product is rounded and the sum is (or the sum alone, where they are one operation): u (|1.5 x| + |a|)
 *   b: b′(a) = 1 / (1 + |a|)², and two roundings, of 1 + |a| and of the quotient: error of a · b′ + 2 u |b|
 *   y: 0.75 · error of b + u (|0.75 b| + |y|)
 * Terms of second order are below 8 u of these. */
static void chain_of(double x, double *y, double *tolerance)
{
    double a = 1.5 * x + 0.25, bottom = 1 + fabs(a), b = a / bottom;
    *y = 0.75 * b - 0.125;
    double off_a = U * (fabs(1.5 * x) + fabs(a));
    double off_b = off_a / (bottom * bottom) + 2 * U * fabs(b);
    *tolerance = (0.75 * off_b + U * (fabs(0.75 * b) + fabs(*y))) * (1 + 8 * U) + LEAST;
}

b1_status b1i_oracle_pointwise(const char *what, const float *x, const float *y, size_t count, b1_error *err)
{
    for (size_t i = 0; i < count; i++) {
        double should, tolerance;
        chain_of((double)x[i], &should, &tolerance);
        if (fabs((double)y[i] - should) <= tolerance) continue;
        char place[64];
        snprintf(place, sizeof place, "element %zu of %zu", i, count);
        return wrong(what, place, y[i], should, tolerance, err);
    }
    return B1_OK;
}

/* Relative errors to first order, with d = adds:
 *   Σ x²    d + 1 (its terms are positive: each is off by the rounding of its square and by its additions)
 *   mean    + 1 by the division, + 1 by ε                          (d + 3) u
 *   scale   half of that by the root, and 2 by root and quotient   ((d + 3) / 2 + 2) u
 *   z       + 1                                                    ρ = ((d + 3) / 2 + 3) u
 *   exp(z − most)   |z| ρ by z, |z − most| u by the difference, 4 u by an exp that is right to two units in the last
 *           place: η. An error of `most` itself is no error: y does not depend on what is taken off.
 *   Σ exp   the mean of η, weighted by y, and d u
 *   y       η of its own, that of the sum, and the division's u
 * All of them together, E, change y by at most exp(E (1 + E)) − 1 of it. */
static b1_status softmax_row(const char *what, const float *x, const float *y, int row, int width, int adds,
                             b1_error *err)
{
    double squares = 0, most = -INFINITY, sum = 0, sum_off = 0;
    for (int i = 0; i < width; i++) squares += (double)x[i] * (double)x[i];
    double root = sqrt(squares / width + 1e-6), rho = ((adds + 3) / 2.0 + 3) * U;
    for (int i = 0; i < width; i++)
        if ((double)x[i] / root > most) most = (double)x[i] / root;
    for (int i = 0; i < width; i++) {
        double z = (double)x[i] / root, e = exp(z - most);
        sum += e;
        sum_off += e * (fabs(z) * rho + (most - z) * U + 4 * U);
    }
    for (int i = 0; i < width; i++) {
        double z = (double)x[i] / root, should = exp(z - most) / sum;
        double off = fabs(z) * rho + (most - z) * U + 4 * U + sum_off / sum + (adds + 1) * U;
        double tolerance = should * expm1(off * (1 + off)) + LEAST;
        if (fabs((double)y[i] - should) <= tolerance) continue;
        char place[64];
        snprintf(place, sizeof place, "element %d of %d of row %d", i, width, row);
        return wrong(what, place, y[i], should, tolerance, err);
    }
    return B1_OK;
}

b1_status b1i_oracle_rms_softmax(const char *what, const float *x, const float *y, int rows, int width, int adds,
                                 b1_error *err)
{
    b1_status st = B1_OK;
    for (int r = 0; st == B1_OK && r < rows; r++) {
        size_t at = (size_t)r * (size_t)width;
        st = softmax_row(what, x + at, y + at, r, width, adds, err);
    }
    return st;
}
