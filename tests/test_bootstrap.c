/* SPDX-License-Identifier: MIT
 *
 * Intervals over sessions: how often they hold the truth of made-up sources, against a second computation by the words
 * of the header, and at their edges.
 */
#include "lab/bootstrap.h"

#include "lab/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal(call, B1_OK)
enum { SOURCES = 2000, RESAMPLES = 2000, FEWER = 800, MOST = 32 };

/* ---- sources ---- */

static double uniform(uint64_t at) { return ((double)(b1i_mix64(at) >> 11) + 0.5) * 0x1p-53; }

static double normal(uint64_t at)
{
    return sqrt(-2 * log(uniform(2 * at))) * cos(6.283185307179586 * uniform(2 * at + 1));
}

static void fill(double *values, size_t count, uint64_t source)
{
    for (size_t i = 0; i < count; i++) values[i] = normal(source * 64 + i);
}

typedef b1_status (*interval_of)(const double *values, size_t count, size_t resamples, uint64_t seed, b1i_interval *out,
                                 b1_error *err);

/* The part of the sources whose interval holds their mean, 0. */
static double coverage(interval_of make, size_t count, size_t resamples, double *widest)
{
    int held = 0;
    if (widest) *widest = 0;
    for (uint64_t i = 0; i < SOURCES; i++) {
        double values[MOST], squares = 0;
        b1i_interval is;
        fill(values, count, i + 1000003 * count);
        OK(make(values, count, resamples, b1i_mix64(i), &is, NULL));
        assert_true(is.low <= is.value && is.value <= is.high);
        held += is.low <= 0 && 0 <= is.high;
        for (size_t k = 0; k < count; k++) squares += (values[k] - is.value) * (values[k] - is.value);
        double se = sqrt(squares / (double)(count - 1) / (double)count);
        if (widest) *widest = fmax(*widest, (is.high - is.low) / se);
    }
    return (double)held / SOURCES;
}

static void the_studentised_interval_covers_at_six_and_ten(void **state)
{
    (void)state;
    static const size_t counts[] = {6, 10};
    for (int i = 0; i < 2; i++) {
        double widest, held = coverage(b1i_bootstrap_t, counts[i], RESAMPLES, &widest);
        if (held < 0.93 || held > 0.97) fail_msg("%zu sessions: covers %.4f", counts[i], held);
        if (widest > 12) fail_msg("%zu sessions: an interval of %.1f standard errors", counts[i], widest);
    }
}

static void the_percentile_interval_covers_too_little(void **state)
{
    (void)state;
    double six = coverage(b1i_bootstrap_percentile, 6, FEWER, NULL),
           ten = coverage(b1i_bootstrap_percentile, 10, FEWER, NULL);
    if (six > 0.89 || six < 0.83) fail_msg("6 sessions: covers %.4f", six);
    if (ten > 0.92 || ten < 0.87) fail_msg("10 sessions: covers %.4f", ten);
}

/* With two or three it is wide, and does not claim what it cannot know. */
static void few_sessions_never_cover_less(void **state)
{
    (void)state;
    for (size_t count = 2; count <= 5; count++) {
        double held = coverage(b1i_bootstrap_t, count, FEWER, NULL);
        if (held < 0.93) fail_msg("%zu sessions: covers %.4f", count, held);
    }
}

/* Five sessions against seven, of which the second scatter three times as much. */
static void differences_cover(void **state)
{
    (void)state;
    int held = 0;
    for (uint64_t i = 0; i < SOURCES; i++) {
        double a[5], b[7];
        b1i_interval is;
        fill(a, 5, i + 5000011);
        fill(b, 7, i + 7000003);
        for (int k = 0; k < 7; k++) b[k] = 4 + 3 * b[k];
        OK(b1i_bootstrap_t_difference(a, 5, b, 7, FEWER, b1i_mix64(i), &is, NULL));
        held += is.low <= 4 && 4 <= is.high;
    }
    if (held < 0.93 * SOURCES || held > 0.97 * SOURCES) fail_msg("covers %.4f", (double)held / SOURCES);
}

/* ---- by the header's words ---- */

/* Where resample r of [count] from draw `at` has its mean, and its standard error. */
static double resample(const double *values, size_t count, uint64_t at, double spread, double *se)
{
    double drawn[MOST], mean = 0, squares = 0, n = (double)count;
    for (size_t k = 0; k < count; k++) {
        uint64_t m = b1i_mix64(at + k);
        size_t item = (size_t)floor((double)(m >> 11) * 0x1p-53 * n);
        drawn[k] = values[item] + ((double)(b1i_mix64(m) >> 11) / 9007199254740992.0 - 0.5) * spread;
        mean += drawn[k] / n;
    }
    for (size_t k = 0; k < count; k++) squares += (drawn[k] - mean) * (drawn[k] - mean);
    *se = sqrt(squares / (n - 1) / n);
    return mean;
}

static double deviation(const double *values, size_t count, double *mean)
{
    double squares = 0;
    *mean = 0;
    for (size_t k = 0; k < count; k++) *mean += values[k] / (double)count;
    for (size_t k = 0; k < count; k++) squares += (values[k] - *mean) * (values[k] - *mean);
    return sqrt(squares / (double)(count - 1));
}

#define NEAR(a, b) assert_true(fabs((a) - (b)) <= 1e-9 * fmax(1, fabs(b)))

static void intervals_are_what_the_header_says(void **state)
{
    (void)state;
    enum { R = 999, A = 6, B = 9 };
    double a[A], b[B], t[R], plain[R], both[R], ma, mb, se, other;
    const uint64_t seed = 77;
    b1i_interval is;
    fill(a, A, 1);
    fill(b, B, 2);
    for (int k = 0; k < B; k++) b[k] = 100 + 2 * b[k];
    const double da = deviation(a, A, &ma), db = deviation(b, B, &mb);
    for (uint64_t r = 0; r < R; r++) {
        plain[r] = resample(a, A, seed + r * A, 0, &se);
        double mean = resample(a, A, seed + r * A, da, &se);
        t[r] = (mean - ma) / se;
        double x = resample(a, A, seed + r * (A + B), da, &se), y = resample(b, B, seed + r * (A + B) + A, db, &other);
        both[r] = (y - x - (mb - ma)) / sqrt(se * se + other * other);
    }
    OK(b1i_bootstrap_t(a, A, R, seed, &is, NULL));
    NEAR(is.value, ma);
    NEAR(is.low, ma - b1i_percentile(t, R, 97.5) * da / sqrt(A));
    NEAR(is.high, ma - b1i_percentile(t, R, 2.5) * da / sqrt(A));
    OK(b1i_bootstrap_percentile(a, A, R, seed, &is, NULL));
    NEAR(is.low, b1i_percentile(plain, R, 2.5));
    NEAR(is.high, b1i_percentile(plain, R, 97.5));
    OK(b1i_bootstrap_t_difference(a, A, b, B, R, seed, &is, NULL));
    NEAR(is.value, mb - ma);
    NEAR(is.low, mb - ma - b1i_percentile(both, R, 97.5) * sqrt(da * da / A + db * db / B));
    NEAR(is.high, mb - ma - b1i_percentile(both, R, 2.5) * sqrt(da * da / A + db * db / B));
}

/* ---- edges ---- */

static void values_without_spread_are_their_own_interval(void **state)
{
    (void)state;
    const double same[] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, other[] = {0.4, 0.4};
    b1i_interval is;
    OK(b1i_bootstrap_t(same, 6, 100, 1, &is, NULL));
    assert_true(is.value == 0.1 && is.low == 0.1 && is.high == 0.1);
    OK(b1i_bootstrap_percentile(same, 6, 100, 1, &is, NULL));
    NEAR(is.low, 0.1);
    NEAR(is.high, 0.1);
    OK(b1i_bootstrap_t_difference(same, 6, other, 2, 100, 1, &is, NULL));
    assert_true(is.low == is.value && is.high == is.value);
    NEAR(is.value, 0.3);
}

static void one_value_has_no_interval(void **state)
{
    (void)state;
    const double one[] = {3}, two[] = {1, 2};
    b1_error err;
    b1i_interval is;
    OK(b1i_bootstrap_t(one, 1, 100, 1, &is, NULL));
    assert_true(is.value == 3 && isnan(is.low) && isnan(is.high));
    OK(b1i_bootstrap_percentile(one, 1, 100, 1, &is, NULL));
    assert_true(is.value == 3 && isnan(is.low) && isnan(is.high));
    OK(b1i_bootstrap_t_difference(one, 1, two, 2, 100, 1, &is, NULL));
    assert_true(is.value == -1.5 && isnan(is.low) && isnan(is.high));
    assert_int_equal(b1i_bootstrap_t(one, 0, 100, 1, &is, &err), B1_ARGUMENT);
    assert_int_equal(b1i_bootstrap_percentile(two, 2, 0, 1, &is, &err), B1_ARGUMENT);
    assert_int_equal(b1i_bootstrap_t_difference(two, 2, one, 0, 100, 1, &is, &err), B1_ARGUMENT);
    b1i_alloc_fail_at(0);
    assert_int_equal(b1i_bootstrap_t(two, 2, 100, 1, &is, &err), B1_MEMORY);
    b1i_alloc_fail_at(-1);
}

/* One session that is far from nine others makes the interval wide, never beyond measure. */
static void one_session_that_is_far_off_is_borne(void **state)
{
    (void)state;
    double values[6] = {0.001, -0.001, 0.0005, -0.0005, 0.0002, 1};
    b1i_interval is;
    OK(b1i_bootstrap_t(values, 6, 10000, 1, &is, NULL));
    assert_true(is.low < 0.01 && is.low > -0.2);
    assert_true(is.high > 0.5 && is.high < 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_studentised_interval_covers_at_six_and_ten),
        cmocka_unit_test(the_percentile_interval_covers_too_little),
        cmocka_unit_test(few_sessions_never_cover_less),
        cmocka_unit_test(differences_cover),
        cmocka_unit_test(intervals_are_what_the_header_says),
        cmocka_unit_test(values_without_spread_are_their_own_interval),
        cmocka_unit_test(one_value_has_no_interval),
        cmocka_unit_test(one_session_that_is_far_off_is_borne),
    };
    return cmocka_run_group_tests_name("bootstrap", tests, NULL, NULL);
}
