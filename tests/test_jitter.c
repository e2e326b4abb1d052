/* SPDX-License-Identifier: MIT
 *
 * Jitter: percentiles, histogram and late steps of times that are made up, what is seen of a thread that gives its CPU
 * away, that a document which was changed no longer agrees with itself, and steps of an engine that follow one another.
 */
#include "lab/jitter.h"

#include "lab/energy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/model_fixture.h"

static b1_error error;

#define OK(call)                                                                            \
    do {                                                                                    \
        b1_status ok_ = (call);                                                             \
        if (ok_) fail_msg("line %d: %s: %s", __LINE__, b1_status_name(ok_), error.message); \
    } while (0)

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool is_null(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    assert_non_null(value);
    return json_is_null(value);
}

static char said[1000];

static void keep(void *user, const char *line)
{
    (void)user;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

static bool agrees(const json_t *json)
{
    said[0] = 0;
    b1i_jitter_check(json, keep, NULL);
    return !*said;
}

/* The document of these times. */
static json_t *of_times(const double *ms, size_t count, double deadline_ms)
{
    json_t *json;
    b1i_jitter *j;
    OK(b1i_jitter_open(B1I_DEVICE_CPU, deadline_ms, &j, &error));
    for (size_t i = 0; i < count; i++) OK(b1i_jitter_took(j, ms[i] * 1e6, &error));
    OK(b1i_jitter_json(j, &json, &error));
    b1i_jitter_close(j);
    return json;
}

/* ---- times that are made up ---- */

enum { MANY = 2000 };

/* A millisecond each, a thousandth longer each time; five of them late, three of those in a row. */
static void fill(double *ms)
{
    for (int i = 0; i < MANY; i++) ms[i] = 1 + 1e-6 * (double)(i * 7 % MANY);
    ms[100] = 3;
    ms[1000] = 2.5;
    ms[1001] = 40;
    ms[1002] = 2.25;
    ms[1999] = 5;
}

static void figures(void **state)
{
    (void)state;
    double ms[MANY];
    fill(ms);
    json_t *json = of_times(ms, MANY, 2);
    assert_true(agrees(json));
    assert_true(number(json, "steps") == MANY && number(json, "deadline_ms") == 2);
    assert_true(number(json, "missed") == 5 && number(json, "missed_in_a_row") == 3);
    assert_true(fabs(number(json, "p50_ms") - 1.001) < 1e-5 && fabs(number(json, "p99_ms") - 1.00198) < 1e-4);
    assert_true(number(json, "p999_ms") >= 3 && number(json, "p999_ms") < 3.01 && number(json, "max_ms") == 40);
    const json_t *bins = json_object_get(json, "histogram"), *outliers = json_object_get(json, "outliers");
    double steps = 0, last = 0;
    for (size_t i = 0; i < json_array_size(bins); i++) {
        const json_t *bin = json_array_get(bins, i);
        assert_true(number(bin, "from_ms") >= last && number(bin, "to_ms") > number(bin, "from_ms"));
        assert_true(number(bin, "to_ms") <= number(bin, "from_ms") * 1.0101 && number(bin, "steps") > 0);
        last = number(bin, "to_ms") * (1 - 1e-12);
        steps += number(bin, "steps");
    }
    assert_true(steps == MANY);
    assert_true(number(outliers, "steps") == 5 && number(outliers, "switched") == 0);
    static const int order[] = {1001, 1999, 100, 1000, 1002};
    const json_t *worst = json_object_get(outliers, "worst");
    assert_int_equal(json_array_size(worst), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *one = json_array_get(worst, i);
        assert_true(number(one, "step") == order[i] && fabs(number(one, "ms") / ms[order[i]] - 1) < 1e-12);
        assert_true(json_is_true(json_object_get(one, "late")));
        assert_true(is_null(one, "switches") && is_null(one, "machine"));
    }
    json_decref(json);
}

/* A percentile that so few steps cannot show is not told. */
static void few_steps(void **state)
{
    (void)state;
    double ms[MANY];
    fill(ms);
    json_t *json = of_times(ms, 30, 0);
    assert_true(agrees(json) && is_null(json, "p99_ms") && is_null(json, "p999_ms"));
    assert_true(is_null(json, "deadline_ms") && is_null(json, "missed") && is_null(json, "missed_in_a_row"));
    assert_true(number(json_object_get(json, "outliers"), "steps") == 0);
    json_decref(json);
    json = of_times(ms, 101, 0);
    assert_true(agrees(json) && !is_null(json, "p99_ms") && is_null(json, "p999_ms") && number(json, "max_ms") == 3);
    json_decref(json);
    static const double odd[][3] = {{1, 0, 0}, {5, 5, 5}, {0, 0, 0}, {1e-6, 1, 1e6}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        json = of_times(odd[i], i ? 3 : 1, 1);
        if (!agrees(json)) fail_msg("times %zu: %s", i, said);
        json_decref(json);
    }
}

static void more_outliers_than_are_listed(void **state)
{
    (void)state;
    double ms[200];
    for (int i = 0; i < 200; i++) ms[i] = i % 4 ? 1 : 2 + i % 7;
    json_t *json = of_times(ms, 200, 0);
    const json_t *outliers = json_object_get(json, "outliers"), *worst = json_object_get(outliers, "worst");
    assert_true(number(outliers, "steps") == 50 && agrees(json));
    assert_int_equal(json_array_size(worst), 32);
    for (size_t i = 1; i < 32; i++) {
        const json_t *a = json_array_get(worst, i - 1), *b = json_array_get(worst, i);
        assert_true(number(a, "ms") > number(b, "ms") ||
                    (number(a, "ms") == number(b, "ms") && number(a, "step") < number(b, "step")));
    }
    assert_true(number(json_array_get(worst, 0), "ms") == 8);
    json_decref(json);
}

/* A deadline that the median misses makes no outliers. */
static void nearly_all_are_late(void **state)
{
    (void)state;
    double ms[100];
    for (int i = 0; i < 100; i++) ms[i] = i == 50 ? 3 : i == 60 ? 0.1 : 2;
    json_t *json = of_times(ms, 100, 1);
    const json_t *outliers = json_object_get(json, "outliers");
    assert_true(number(json, "missed") == 99 && number(json, "missed_in_a_row") == 60 && agrees(json));
    assert_true(number(outliers, "steps") == 1 && number(outliers, "above_ms") == 2.5);
    json_decref(json);
}

static void what_was_changed_does_not_agree(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        double value;
        const char *says;
    } changes[] = {
        {"steps", 1999, "add up"}, {"p50_ms", 0.5, "p50_ms"}, {"p99_ms", 20, "p99_ms"}, {"p999_ms", 1.001, "p999_ms"},
        {"max_ms", 20, "max_ms"},  {"missed", 4, "missed"},   {"missed", 6, "missed"},
    };
    double ms[MANY];
    fill(ms);
    json_t *json = of_times(ms, MANY, 2);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        json_t *other = json_deep_copy(json);
        json_object_set_new(other, changes[i].key, json_real(changes[i].value));
        if (agrees(other) || !strstr(said, changes[i].says)) fail_msg("%s: %s", changes[i].key, said);
        json_decref(other);
    }
    json_object_set_new(json_array_get(json_object_get(json_object_get(json, "outliers"), "worst"), 0), "ms",
                        json_real(30));
    assert_true(!agrees(json) && strstr(said, "worst"));
    json_decref(json);
}

/* ---- what is seen of the machine ---- */

static void switches_are_counted(void **state)
{
    (void)state;
    json_t *json;
    b1i_jitter *j;
    OK(b1i_jitter_open(B1I_DEVICE_CPU, 0, &j, &error));
    for (int i = 0; i < 40; i++) {
        b1i_jitter_before(j);
        if (i == 30) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        OK(b1i_jitter_took(j, i == 30 ? 9e6 : 1e6, &error));
    }
    OK(b1i_jitter_json(j, &json, &error));
    const json_t *one = json_array_get(json_object_get(json_object_get(json, "outliers"), "worst"), 0);
    const json_t *thread = json_object_get(json_object_get(one, "switches"), "thread"),
                 *process = json_object_get(json_object_get(one, "switches"), "process");
    assert_true(number(one, "step") == 30);
    assert_true(json_integer_value(json_array_get(thread, 0)) >= 1);
    assert_true(json_integer_value(json_array_get(process, 0)) >= json_integer_value(json_array_get(thread, 0)));
    const json_t *machine = json_object_get(one, "machine");
    assert_int_equal(json_object_size(machine), 3);
    assert_true(number(machine, "cpu") >= 0 && number(machine, "throttled") >= 0);
    json_decref(json);
    b1i_jitter_close(j);
}

static void no_step_and_no_memory(void **state)
{
    (void)state;
    json_t *json;
    b1i_jitter *j;
    OK(b1i_jitter_open(B1I_DEVICE_CPU, 0, &j, &error));
    assert_int_equal(b1i_jitter_json(j, &json, &error), B1_ARGUMENT);
    assert_null(json);
    b1i_alloc_fail_at(0);
    assert_int_equal(b1i_jitter_took(j, 1, &error), B1_MEMORY);
    b1i_alloc_fail_at(-1);
    OK(b1i_jitter_took(j, 1, &error));
    b1i_alloc_fail_at(0);
    assert_int_equal(b1i_jitter_json(j, &json, &error), B1_MEMORY);
    b1i_alloc_fail_at(0);
    b1i_jitter *none;
    assert_int_equal(b1i_jitter_open(B1I_DEVICE_CPU, 0, &none, &error), B1_MEMORY);
    b1i_alloc_fail_at(-1);
    assert_null(none);
    b1i_jitter_close(j);
    b1i_jitter_close(NULL);
}

/* ---- steps of an engine ---- */

static bool at_once(void) { return true; }

static void steps_that_follow_one_another(void **state)
{
    (void)state;
    static const fixture_name model = {"llama3-tied", "llama", ""};
    b1_engine *engine = fixture_open(&model, NULL, 2);
    b1_session *sessions[1];
    const b1_session_options o = {.executor = "fused", .context = 32};
    json_t *jitter, *energy;
    must(b1_session_create(engine, &o, &sessions[0], err));
    b1i_steps steps = {sessions, 1, 64, 32, 0};
    b1i_endurance how = {.ordinal = B1I_DEVICE_CPU, .steps = 1500, .deadline_ms = 1e6};
    OK(b1i_endure(&steps, &how, &jitter, &energy, &error));
    assert_true(number(jitter, "steps") >= 1500 && number(jitter, "missed") == 0 && agrees(jitter));
    assert_true(number(jitter, "p999_ms") >= number(jitter, "p50_ms"));
    assert_int_equal(b1_session_position(sessions[0]), 31);
    b1i_energy *counter;
    OK(b1i_energy_open(B1I_DEVICE_CPU, &counter, &error));
    if (!counter) assert_true(json_is_null(energy));
    b1i_energy_close(counter);
    json_decref(jitter);
    json_decref(energy);
    how.steps = 0; /* for energy alone */
    OK(b1i_endure(&steps, &how, &jitter, &energy, &error));
    assert_true(json_is_null(jitter));
    json_decref(energy);
    how.steps = 5;
    how.cancelled = at_once;
    assert_int_equal(b1i_endure(&steps, &how, &jitter, &energy, &error), B1_CANCELLED);
    assert_true(!jitter && !energy);
    b1_session_close(sessions[0]);
    b1_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures),
        cmocka_unit_test(few_steps),
        cmocka_unit_test(more_outliers_than_are_listed),
        cmocka_unit_test(nearly_all_are_late),
        cmocka_unit_test(what_was_changed_does_not_agree),
        cmocka_unit_test(switches_are_counted),
        cmocka_unit_test(no_step_and_no_memory),
        cmocka_unit_test(steps_that_follow_one_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
