/* SPDX-License-Identifier: MIT
 *
 * The lab without a model: order statistics, the protocol of a cell on made-up times, the ceiling's buffer.
 */
#include "base/base.h"
#include "base/threads.h"
#include "lab/bench.h"
#include "lab/ceiling.h"
#include "lab/machine.h"
#include "lab/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) <= 1e-9 * fmax(1, fabs((double)(b))))

/* ---- statistics ---- */

static void percentiles_interpolate(void **state)
{
    (void)state;
    double one[] = {7}, even[] = {4, 1, 3, 2}, odd[] = {30, 10, 20}, eleven[] = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    NEAR(b1i_median(one, 1), 7);
    NEAR(b1i_percentile(one, 1, 99), 7);
    NEAR(b1i_median(even, 4), 2.5);
    NEAR(b1i_median(odd, 3), 20);
    NEAR(b1i_percentile(odd, 3, 0), 10);
    NEAR(b1i_percentile(odd, 3, 100), 30);
    NEAR(b1i_percentile(odd, 3, 75), 25);
    NEAR(b1i_percentile(eleven, 11, 10), 1);
    NEAR(b1i_percentile(eleven, 11, 99), 9.9);
    assert_true(isnan(b1i_median(one, 0)));
}

/* ---- the protocol ---- */

/* A machine whose memory and steps do as they are told. */
typedef struct fake {
    int steps, readings; /* so far */
    uint64_t step_ns;
    double (*gbps)(int reading);           /* of the n-th reading, from 0 */
    double (*slower)(const struct fake *); /* factor on a step's time; NULL: 1 */
    int fails_at;                          /* the step that fails; 0: none */
} fake;

static b1_status fake_step(void *user, uint64_t *ns, b1_error *err)
{
    fake *f = user;
    f->steps++;
    if (f->fails_at && f->steps == f->fails_at) return b1i_fail(err, B1_DEVICE, "step %d failed", f->steps);
    *ns = (uint64_t)((double)f->step_ns * (f->slower ? f->slower(f) : 1));
    return B1_OK;
}

static b1_status fake_ceiling(void *user, double *gbps, b1_error *err)
{
    fake *f = user;
    (void)err;
    *gbps = f->gbps(f->readings++);
    return B1_OK;
}

static double steady(int reading) { return 50 + reading * 0; }
static double alternating(int reading) { return reading % 2 ? 33 : 60; }
static double flips_once(int reading) { return reading < 3 ? 60 : 33; }
static double slower_at_last(const fake *f) { return f->steps > 40 + 20 ? 1.2 : 1; }

/* 100 MB at 50 GB/s are 2 ms: steps of 2.5 ms give R_ceiling 0.8. */
static const uint64_t BYTES = 100000000, STEP_NS = 2500000;

static b1_status measure(fake *f, b1i_bench_result *out)
{
    b1i_bench_subject subject = {f, fake_step, fake_ceiling, BYTES, NULL};
    b1i_bench_plan plan = {.warmup = 5, .steps = 30};
    return b1i_bench_measure(&subject, &plan, out, NULL);
}

static void a_steady_cell_is_ok(void **state)
{
    (void)state;
    fake f = {.step_ns = STEP_NS, .gbps = steady};
    b1i_bench_result r;
    assert_int_equal(measure(&f, &r), B1_OK);
    assert_int_equal(r.verdict, b1i_verdict_ok);
    assert_int_equal(r.warmup, 40); /* 100 ms of them */
    assert_int_equal(r.step_count, 30);
    assert_int_equal(r.slice_count, 6);
    assert_int_equal(f.readings, 7); /* neighbours share one */
    NEAR(r.t_obs_ms, 2.5);
    NEAR(r.p99_ms, 2.5);
    NEAR(r.ceiling_gbps, 50);
    NEAR(r.r_ceiling, 0.8);
    b1i_bench_result_free(&r);
}

static void long_steps_make_slices_of_one(void **state)
{
    (void)state;
    fake f = {.step_ns = 75000000, .gbps = steady};
    b1i_bench_result r;
    assert_int_equal(measure(&f, &r), B1_OK);
    assert_int_equal(r.warmup, 5);
    assert_int_equal(r.slice_count, 30);
    for (size_t i = 0; i < r.slice_count; i++) {
        assert_int_equal(r.slices[i].first, i);
        assert_int_equal(r.slices[i].steps, 1);
    }
    b1i_bench_result_free(&r);
}

static void a_slice_may_be_held_to_one_step(void **state)
{
    (void)state;
    fake f = {.step_ns = STEP_NS, .gbps = steady};
    b1i_bench_subject subject = {&f, fake_step, fake_ceiling, BYTES, NULL};
    b1i_bench_plan plan = {.warmup = 5, .steps = 30, .slice_most = 1};
    b1i_bench_result r;
    assert_int_equal(b1i_bench_measure(&subject, &plan, &r, NULL), B1_OK);
    assert_int_equal(r.slice_count, 30);
    assert_int_equal(f.readings, 31);
    b1i_bench_result_free(&r);
}

static void a_slice_across_a_flip_is_measured_again(void **state)
{
    (void)state;
    fake f = {.step_ns = STEP_NS, .gbps = flips_once};
    b1i_bench_result r;
    assert_int_equal(measure(&f, &r), B1_OK);
    assert_int_equal(f.readings, 8);
    assert_int_equal(f.steps, 40 + 7 * 6); /* one slice of five thrown away; each has a step that does not count */
    assert_int_equal(r.step_count, 30);
    NEAR(r.slices[1].ceiling_gbps, 60);
    NEAR(r.slices[2].ceiling_gbps, 33);
    b1i_bench_result_free(&r);
}

static void a_ceiling_that_never_agrees_is_noisy(void **state)
{
    (void)state;
    fake f = {.step_ns = STEP_NS, .gbps = alternating};
    b1i_bench_result r;
    assert_int_equal(measure(&f, &r), B1_OK);
    assert_int_equal(r.verdict, b1i_verdict_noisy);
    assert_int_equal(f.readings, 1 + 9 + 5); /* eight further tries of the first slice, then no more */
    NEAR(r.ceiling_gbps, 46.5);
    b1i_bench_result_free(&r);
}

static void faster_than_memory_is_noisy(void **state)
{
    (void)state;
    fake f = {.step_ns = 1900000, .gbps = steady};
    b1i_bench_result r;
    assert_int_equal(measure(&f, &r), B1_OK);
    assert_true(r.r_ceiling > 1.03);
    assert_int_equal(r.verdict, b1i_verdict_noisy);
    b1i_bench_result_free(&r);
}

static void a_cell_that_gets_slower_is_drifting(void **state)
{
    (void)state;
    fake f = {.step_ns = STEP_NS, .gbps = steady, .slower = slower_at_last};
    b1i_bench_result r;
    assert_int_equal(measure(&f, &r), B1_OK);
    assert_int_equal(r.verdict, b1i_verdict_drifting);
    b1i_bench_result_free(&r);
}

static double slower_in_the_middle(const fake *f) { return f->steps > 40 + 10 && f->steps <= 40 + 20 ? 1.3 : 1; }
static double slower_at_both_ends(const fake *f)
{
    return f->steps > 40 + 20 ? 1.2 : f->steps > 40 && f->steps <= 40 + 10 ? 1.4 : 1;
}

static void what_goes_up_and_down_is_no_drift(void **state)
{
    (void)state;
    double (*const shapes[])(const fake *) = {slower_in_the_middle, slower_at_both_ends};
    for (int i = 0; i < 2; i++) {
        fake f = {.step_ns = STEP_NS, .gbps = steady, .slower = shapes[i]};
        b1i_bench_result r;
        assert_int_equal(measure(&f, &r), B1_OK);
        assert_int_equal(r.verdict, b1i_verdict_ok);
        b1i_bench_result_free(&r);
    }
}

/* A GPU that gives a new reason to throttle during the thirtieth step after the warm-up. */
static uint64_t throttled_late(void *user) { return ((fake *)user)->steps >= 40 + 30; }
static uint64_t throttled_all_along(void *user)
{
    (void)user;
    return 3;
}

static void a_device_that_slows_down_is_throttled(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fake f = {.step_ns = STEP_NS, .gbps = steady};
        b1i_bench_subject subject = {&f, fake_step, fake_ceiling, BYTES, i ? throttled_all_along : throttled_late};
        b1i_bench_plan plan = {.warmup = 5, .steps = 30};
        b1i_bench_result r;
        assert_int_equal(b1i_bench_measure(&subject, &plan, &r, NULL), B1_OK);
        assert_int_equal(r.verdict, i ? b1i_verdict_ok : b1i_verdict_throttled);
        b1i_bench_result_free(&r);
    }
}

static bool asked_to_stop(void) { return true; }

static void failures_end_it(void **state)
{
    (void)state;
    fake f = {.step_ns = STEP_NS, .gbps = steady, .fails_at = 47};
    b1i_bench_result r;
    b1_error err = {0};
    b1i_bench_subject subject = {&f, fake_step, fake_ceiling, BYTES, NULL};
    b1i_bench_plan plan = {.warmup = 5, .steps = 30};
    assert_int_equal(b1i_bench_measure(&subject, &plan, &r, &err), B1_DEVICE);
    assert_string_equal(err.message, "step 47 failed");
    b1i_bench_result_free(&r);
    plan.cancelled = asked_to_stop;
    assert_int_equal(b1i_bench_measure(&subject, &plan, &r, &err), B1_CANCELLED);
    b1i_bench_result_free(&r);
}

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    long alive = b1i_alloc_live(), refused = 0;
    for (long n = 0;; n++) {
        fake f = {.step_ns = STEP_NS, .gbps = steady};
        b1i_bench_result r;
        b1i_alloc_fail_at(n);
        b1_status st = measure(&f, &r);
        b1i_alloc_fail_at(-1);
        b1i_bench_result_free(&r);
        assert_int_equal(b1i_alloc_live(), alive);
        if (st == B1_OK) break;
        assert_int_equal(st, B1_MEMORY);
        refused++;
    }
    assert_true(refused >= 3);
}

/* ---- the ceiling ---- */

static void a_ceiling_is_read(void **state)
{
    (void)state;
    b1i_ceiling *ceiling;
    b1_error err = {0};
    double gbps = 0, glance = 0;
    assert_int_equal(b1i_ceiling_open(1 << 20, &ceiling, &err), B1_MEMORY);
    assert_null(ceiling);
    assert_non_null(strstr(err.message, "64 MiB"));
    assert_int_equal(b1i_ceiling_open(64 << 20, &ceiling, &err), B1_OK);
    assert_int_equal(b1i_ceiling_bytes(ceiling), 64 << 20);
    assert_int_equal(b1i_ceiling_read(ceiling, 1, 2, 0, NULL, &gbps, &err), B1_OK);
    assert_int_equal(b1i_ceiling_glance(ceiling, &glance, &err), B1_OK);
    assert_null(b1i_ceiling_method(ceiling));
    assert_int_equal(b1i_ceiling_cache_bytes(ceiling), b1i_machine_cache_bytes());
    assert_true(gbps > 0.01 && gbps < 100000);
    assert_true(glance > 0.01 && glance < 100000);
    assert_int_equal(b1i_ceiling_read(ceiling, 1, 1, 0, asked_to_stop, &gbps, &err), B1_CANCELLED);
    b1i_ceiling_close(ceiling);
    b1i_pool_end();
}

static void the_machine_has_a_record(void **state)
{
    (void)state;
    char date[32];
    json_t *record = b1i_machine_record();
    assert_non_null(record);
    assert_true(json_is_string(json_object_get(record, "cpu")));
    assert_true(json_is_null(json_object_get(record, "gpu")));
    assert_true(json_integer_value(json_object_get(record, "cores")) >= 1);
    assert_true(json_integer_value(json_object_get(record, "memory_bytes")) > 1 << 20);
    json_decref(record);
    b1i_machine_date(date, sizeof date);
    assert_int_equal(strlen(date), 20);
    assert_int_equal(date[19], 'Z');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_interpolate),
        cmocka_unit_test(a_steady_cell_is_ok),
        cmocka_unit_test(long_steps_make_slices_of_one),
        cmocka_unit_test(a_slice_may_be_held_to_one_step),
        cmocka_unit_test(a_slice_across_a_flip_is_measured_again),
        cmocka_unit_test(a_ceiling_that_never_agrees_is_noisy),
        cmocka_unit_test(faster_than_memory_is_noisy),
        cmocka_unit_test(a_cell_that_gets_slower_is_drifting),
        cmocka_unit_test(what_goes_up_and_down_is_no_drift),
        cmocka_unit_test(a_device_that_slows_down_is_throttled),
        cmocka_unit_test(failures_end_it),
        cmocka_unit_test(no_allocation_may_fail_unseen),
        cmocka_unit_test(a_ceiling_is_read),
        cmocka_unit_test(the_machine_has_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
