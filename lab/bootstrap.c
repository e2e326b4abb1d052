/* SPDX-License-Identifier: MIT
 *
 * The bootstrap over sessions. See bootstrap.h.
 */
#include "lab/bootstrap.h"

#include "lab/stats.h"

#include <math.h>

typedef struct moments {
    double mean, variance; /* of the values, by count − 1; NaN of one */
} moments;

/* What resamples are drawn from. */
typedef struct source {
    const double *values;
    size_t count;
    double spread; /* standard deviation by which draws are moved; 0: not at all */
    moments of;
} source;

static moments sums(double sum, double squares, size_t count)
{
    double n = (double)count, mean = sum / n;
    return (moments){mean, count > 1 ? fmax(0, squares - n * mean * mean) / (n - 1) : NAN};
}

static source source_of(const double *values, size_t count)
{
    source s = {values, count, 0, {0, 0}};
    double squares = 0, sum = 0;
    bool equal = true;
    for (size_t i = 0; i < count; i++) sum += values[i];
    for (size_t i = 0; i < count; i++) {
        double off = values[i] - sum / (double)count;
        squares += off * off;
        equal = equal && values[i] == values[0];
    }
    s.of.mean = equal ? values[0] : sum / (double)count;
    s.of.variance = count < 2 ? NAN : equal ? 0 : squares / (double)(count - 1);
    s.spread = count < 2 ? 0 : sqrt(s.of.variance);
    return s;
}

/* Mean and variance of a resample, whose first draw is number `at`, less the source's mean. */
static moments draw(const source *s, uint64_t at)
{
    double sum = 0, squares = 0;
    for (size_t k = 0; k < s->count; k++) {
        uint64_t m = b1i_mix64(at + k);
        double x = s->values[(size_t)(((unsigned __int128)m * s->count) >> 64)] - s->of.mean;
        x += ((double)(b1i_mix64(m) >> 11) * 0x1p-53 - 0.5) * s->spread;
        sum += x;
        squares += x * x;
    }
    return sums(sum, squares, s->count);
}

static b1_status take_room(size_t count, size_t resamples, double **work, b1_error *err)
{
    if (count == 0 || resamples == 0)
        return b1i_fail(err, B1_ARGUMENT, "an interval needs values and at least one resample");
    *work = b1i_malloc(resamples * sizeof **work);
    return *work ? B1_OK : b1i_fail_memory(err, resamples * sizeof **work);
}

/* The interval that the t* of all resamples give; without spread it is the value alone. */
static b1i_interval studentised(double value, double se, double *t, size_t resamples)
{
    b1i_interval is = {value, value, value};
    if (!(se > 0)) return is;
    is.high = value - b1i_percentile(t, resamples, 2.5) * se;
    is.low = value - b1i_percentile(t, resamples, 97.5) * se;
    return is;
}

/* t* = off / se*; a resample that has no spread at all is further off than any that has. */
static double ratio(double off, double se)
{
    if (se > 0) return off / se;
    return off > 0 ? HUGE_VAL : off < 0 ? -HUGE_VAL : 0;
}

b1_status b1i_bootstrap_t(const double *values, size_t count, size_t resamples, uint64_t seed, b1i_interval *out,
                          b1_error *err)
{
    double *t = NULL, n = (double)count;
    b1_status st = take_room(count, resamples, &t, err);
    if (st != B1_OK) return st;
    const source s = source_of(values, count);
    *out = (b1i_interval){s.of.mean, NAN, NAN};
    if (count > 1) {
        for (size_t r = 0; r < resamples; r++) {
            moments m = draw(&s, seed + r * count);
            t[r] = ratio(m.mean, sqrt(m.variance / n));
        }
        *out = studentised(s.of.mean, sqrt(s.of.variance / n), t, resamples);
    }
    b1i_free(t);
    return B1_OK;
}

b1_status b1i_bootstrap_percentile(const double *values, size_t count, size_t resamples, uint64_t seed,
                                   b1i_interval *out, b1_error *err)
{
    double *means = NULL;
    b1_status st = take_room(count, resamples, &means, err);
    if (st != B1_OK) return st;
    source s = source_of(values, count);
    s.spread = 0;
    *out = (b1i_interval){s.of.mean, NAN, NAN};
    if (count > 1) {
        for (size_t r = 0; r < resamples; r++) means[r] = s.of.mean + draw(&s, seed + r * count).mean;
        out->low = b1i_percentile(means, resamples, 2.5);
        out->high = b1i_percentile(means, resamples, 97.5);
    }
    b1i_free(means);
    return B1_OK;
}

b1_status b1i_bootstrap_t_difference(const double *a, size_t a_count, const double *b, size_t b_count, size_t resamples,
                                     uint64_t seed, b1i_interval *out, b1_error *err)
{
    double *t = NULL;
    b1_status st = take_room(a_count < b_count ? a_count : b_count, resamples, &t, err);
    if (st != B1_OK) return st;
    const source x = source_of(a, a_count), y = source_of(b, b_count);
    *out = (b1i_interval){y.of.mean - x.of.mean, NAN, NAN};
    if (a_count > 1 && b_count > 1) {
        for (size_t r = 0; r < resamples; r++) {
            uint64_t at = seed + r * (a_count + b_count);
            moments p = draw(&x, at), q = draw(&y, at + a_count);
            t[r] = ratio(q.mean - p.mean, sqrt(p.variance / (double)a_count + q.variance / (double)b_count));
        }
        double se = sqrt(x.of.variance / (double)a_count + y.of.variance / (double)b_count);
        *out = studentised(out->value, se, t, resamples);
    }
    b1i_free(t);
    return B1_OK;
}
