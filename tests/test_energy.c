/* SPDX-License-Identifier: MIT
 *
 * Energy: RAPL's counters in a sysfs made for the test, with wraps, parts that are not counted and files that may not
 * be read; joules a token from tick to tick; and NVML's counter where a driver stands in for a GPU's.
 */
#include "lab/energy.h"

#include "base/threads.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static b1_error err;
static char root[32];

#define OK(call)                                                                          \
    do {                                                                                  \
        b1_status ok_ = (call);                                                           \
        if (ok_) fail_msg("line %d: %s: %s", __LINE__, b1_status_name(ok_), err.message); \
    } while (0)

/* ---- a sysfs ---- */

static void put(const char *zone, const char *file, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/class/powercap/%s", root, zone);
    if (mkdir(path, 0700) != 0 && access(path, F_OK) != 0) fail_msg("%s", path);
    snprintf(path, sizeof path, "%s/class/powercap/%s/%s", root, zone, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    assert_int_equal(fclose(f), 0);
}

static void put_zone(const char *zone, const char *name, const char *uj, const char *range)
{
    put(zone, "name", name);
    put(zone, "energy_uj", uj);
    if (range) put(zone, "max_energy_range_uj", range);
}

static void remove_file(const char *zone, const char *file)
{
    char path[256];
    snprintf(path, sizeof path, "%s/class/powercap/%s/%s", root, zone, file);
    assert_int_equal(unlink(path), 0);
}

static int enter(void **state)
{
    char path[64];
    (void)state;
    strcpy(root, "/tmp/b1-energy-XXXXXX");
    if (!mkdtemp(root)) return 1;
    snprintf(path, sizeof path, "%s/class", root);
    if (mkdir(path, 0700) != 0) return 1;
    snprintf(path, sizeof path, "%s/class/powercap", root);
    return mkdir(path, 0700);
}

static int leave(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static b1i_energy *open_here(void)
{
    b1i_energy *e;
    OK(b1i_energy_open_at(root, B1I_DEVICE_CPU, &e, &err));
    return e;
}

/* ---- RAPL ---- */

static void nothing_is_absent(void **state)
{
    (void)state;
    const long live = b1i_alloc_live();
    assert_null(open_here());
    put_zone("intel-rapl:0", "psys", "5", NULL); /* the whole board */
    put_zone("intel-rapl:0:0", "core", "5", NULL);
    put("intel-rapl:1", "name", "package-1"); /* its counter is not to be read */
    put_zone("intel-rapl:2", "package-2", "none", NULL);
    assert_null(open_here());
    json_t *json;
    const b1i_energy_work work = {.tokens = 1};
    OK(b1i_energy_measure(NULL, &work, 1000, &json, &err));
    assert_true(json_is_null(json));
    assert_int_equal(b1i_alloc_live(), live);
}

static void packages_add_up(void **state)
{
    (void)state;
    double joules, tick;
    put_zone("intel-rapl:0", "package-0", "1000000", "262143328850");
    put_zone("intel-rapl:1", "package-1", "262143000000", "262143328850");
    put_zone("intel-rapl:2", "psys", "0", NULL);
    put_zone("intel-rapl:0:0", "core", "0", NULL);
    b1i_energy *e = open_here();
    assert_non_null(e);
    assert_string_equal(b1i_energy_source(e), "rapl package");
    OK(b1i_energy_take(e, &joules, &tick, &err));
    assert_true(joules == 0 && tick == 0);
    put("intel-rapl:0", "energy_uj", "3500000");
    put("intel-rapl:2", "energy_uj", "9000000");
    put("intel-rapl:0:0", "energy_uj", "9000000");
    OK(b1i_energy_take(e, &joules, &tick, &err));
    assert_true(fabs(joules - 2.5) < 1e-9 && fabs(tick - 2.5) < 1e-9);
    put("intel-rapl:1", "energy_uj", "1000000"); /* past its range, which is 0.32885 J away */
    OK(b1i_energy_take(e, &joules, &tick, &err));
    assert_true(fabs(joules - 1.32885) < 1e-9 && fabs(tick - 2.5) < 1e-9);
    remove_file("intel-rapl:0", "energy_uj");
    assert_int_equal(b1i_energy_take(e, &joules, &tick, &err), B1_SYSTEM);
    assert_non_null(strstr(err.message, "rapl package"));
    b1i_energy_close(e);
}

/* ---- steps ---- */

static struct {
    long steps, ticks, looks, fails_at, asked;
    uint64_t uj; /* of a step */
    bool unreadable;
} run;

/* A step of half a millisecond; each third one the counter tells of all before. */
static b1_status step(void *user, b1_error *e)
{
    char text[32];
    (void)user;
    if (++run.steps == run.fails_at) return b1i_fail(e, B1_DEVICE, "the step fails as it was told to");
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    if (run.unreadable && run.steps == 2) remove_file("intel-rapl:0", "energy_uj");
    if (run.uj && run.steps % 3 == 0) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)run.uj * (unsigned long long)run.steps);
        put("intel-rapl:0", "energy_uj", text);
        run.ticks++;
    }
    return B1_OK;
}

static void looked(void *user)
{
    (void)user;
    run.looks++;
}

static bool fewer_than_seven(void *user)
{
    (void)user;
    return run.steps < 7;
}

static bool cancel_soon(void) { return ++run.asked > 5; }

static double number(const json_t *json, const char *key) { return json_number_value(json_object_get(json, key)); }

enum { LEAST_NS = 40000000 };

static void joules_of_tokens(void **state)
{
    (void)state;
    json_t *json;
    memset(&run, 0, sizeof run);
    run.uj = 7000;
    put_zone("intel-rapl:0", "package-0", "0", NULL);
    put_zone("intel-rapl:0:1", "dram", "77", NULL); /* stands still */
    b1i_energy *e = open_here();
    put("intel-rapl:0", "energy_uj", "1"); /* what was before does not count */
    const b1i_energy_work work = {.step = step, .tokens = 4, .looked = looked};
    OK(b1i_energy_measure(e, &work, LEAST_NS, &json, &err));
    assert_string_equal(json_string_value(json_object_get(json, "source")), "rapl package");
    const double tokens = number(json, "tokens");
    assert_true(tokens > 0 && tokens <= 4.0 * (double)run.steps && fmod(tokens, 4) == 0);
    /* Looks fall between ticks: by one tick, three steps, at either end. */
    const double off = 3 * 4 / tokens;
    assert_true(fabs(number(json, "joules_per_token") / (7e-3 / 4) - 1) <= off + 1e-9);
    assert_true(number(json, "seconds") >= LEAST_NS / 1e9);
    assert_true(run.looks >= 3); /* the first tick, one past the time, and one more */
    const json_t *counters = json_object_get(json, "counters");
    assert_int_equal(json_array_size(counters), 2);
    assert_true(json_equal(json_object_get(json_array_get(counters, 0), "joules_per_token"),
                           json_object_get(json, "joules_per_token")));
    assert_true(json_is_null(json_object_get(json_array_get(counters, 1), "joules_per_token")));
    json_decref(json);
    b1i_energy_close(e);
}

static void as_many_steps_as_are_wanted(void **state)
{
    (void)state;
    json_t *json;
    memset(&run, 0, sizeof run);
    const b1i_energy_work work = {.step = step, .tokens = 1, .more = fewer_than_seven};
    OK(b1i_energy_measure(NULL, &work, LEAST_NS, &json, &err));
    assert_true(json_is_null(json));
    assert_int_equal(run.steps, 7);
}

/* A counter that can no longer be read is as one that stands still: absent. */
static void a_counter_that_stops(void **state)
{
    (void)state;
    json_t *json;
    memset(&run, 0, sizeof run);
    run.unreadable = true;
    put_zone("intel-rapl:0", "package-0", "5", NULL);
    b1i_energy *e = open_here();
    const b1i_energy_work work = {.step = step, .tokens = 1};
    OK(b1i_energy_measure(e, &work, 1000, &json, &err));
    assert_true(json_is_null(json));
    b1i_energy_close(e);
}

static void failures(void **state)
{
    (void)state;
    json_t *json;
    memset(&run, 0, sizeof run);
    put_zone("intel-rapl:0", "package-0", "5", NULL);
    b1i_energy *e = open_here();
    b1i_energy_work work = {.step = step, .tokens = 1};
    run.fails_at = 3;
    assert_int_equal(b1i_energy_measure(e, &work, 1000, &json, &err), B1_DEVICE);
    assert_int_equal(run.steps, 3);
    work.cancelled = cancel_soon;
    assert_int_equal(b1i_energy_measure(e, &work, 1000, &json, &err), B1_CANCELLED);
    b1i_energy_close(e);
    const long live = b1i_alloc_live();
    b1i_alloc_fail_at(0);
    assert_int_equal(b1i_energy_open_at(root, B1I_DEVICE_CPU, &e, &err), B1_MEMORY);
    b1i_alloc_fail_at(-1);
    assert_null(e);
    assert_int_equal(b1i_alloc_live(), live);
}

/* ---- NVML ---- */

static void of_a_gpu(void **state)
{
    (void)state;
    b1i_energy *e;
    json_t *json;
    if (b1i_device_gpus(NULL) < 1) skip();
    put_zone("intel-rapl:0", "package-0", "0", NULL);
    OK(b1i_energy_open_at(root, 0, &e, &err));
    if (!e && !getenv("B1_FAKE_CUDA")) skip(); /* a GPU without a counter */
    assert_non_null(e);
    assert_string_equal(b1i_energy_source(e), "nvml");
    memset(&run, 0, sizeof run);
    run.uj = 10;
    const b1i_energy_work work = {.step = step, .tokens = 1};
    OK(b1i_energy_measure(e, &work, getenv("B1_FAKE_CUDA") ? 100000000 : 1000000000, &json, &err));
    assert_true(json_is_object(json));
    assert_int_equal(json_array_size(json_object_get(json, "counters")), 2);
    const double watts = number(json, "joules_per_token") * number(json, "tokens") / number(json, "seconds");
    print_message("%.1f W\n", watts);
    assert_true(watts > 10 && watts < 2000);
    /* A tick of 20 ms is seen some ms late. */
    if (getenv("B1_FAKE_CUDA")) assert_true(fabs(watts / 300 - 1) < 0.3);
    json_decref(json);
    b1i_energy_close(e);

    json_t *moment = b1i_device_moment(0), *now = b1i_device_state(0);
    assert_int_equal(json_object_size(moment), 5);
    assert_int_equal(json_object_size(now), 8);
    assert_true(number(now, "sm_mhz") > 0);
    if (getenv("B1_FAKE_CUDA")) {
        json_t *throttle = json_pack("[s,s]", "power_cap", "thermal");
        assert_true(json_equal(json_object_get(moment, "throttle"), throttle));
        json_decref(throttle);
    }
    json_decref(moment);
    json_decref(now);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, enter, leave)

int main(void)
{
    setenv("FAKE_NVML_MW", "300000", 1);
    const struct CMUnitTest tests[] = {
        EACH(nothing_is_absent),    EACH(packages_add_up), EACH(joules_of_tokens), EACH(as_many_steps_as_are_wanted),
        EACH(a_counter_that_stops), EACH(failures),        EACH(of_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
