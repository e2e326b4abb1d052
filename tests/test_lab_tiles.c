/* SPDX-License-Identifier: MIT
 *
 * The experiment `tiles` on the CPU: its fixtures' sums, every variant against the oracle, what traces show and which
 * are refused, and the whole experiment with and without a wrong output.
 */
#include "base/base.h"
#include "base/threads.h"
#include "lab/evidence.h"
#include "lab/experiments/tiles.h"
#include "lab/oracle_tiles.h"

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define OK(call) assert_int_equal(call, B1_OK)

enum { LANES = B1I_TILES_LANES, JOBS = B1I_TILES_JOBS };

/* ---- fixtures ---- */

static void the_sums_are_the_fixtures(void **state)
{
    (void)state;
    static const uint64_t sums[b1i_tiles_fixtures] = {611328, 748032, 611328};
    uint32_t x[JOBS];
    for (int f = 0; f < b1i_tiles_fixtures; f++)
        for (uint32_t divisor = 1; divisor <= B1I_TILES_DIVISOR_MOST; divisor *= 2) {
            uint64_t sum = 0;
            assert_int_equal(b1i_tiles_rounds((b1i_tiles_fixture)f, divisor, x) * divisor, sums[f]);
            for (int i = 0; i < JOBS; i++) {
                assert_true(x[i] > 0);
                sum += x[i];
            }
            assert_int_equal(sum * divisor, sums[f]);
        }
}

static void the_ragged_jobs_are_as_documented(void **state)
{
    (void)state;
    uint32_t ragged[JOBS], equal[JOBS], of[3] = {0}, changes = 0;
    b1i_tiles_rounds(b1i_tiles_ragged, 1, ragged);
    b1i_tiles_rounds(b1i_tiles_ragged_equal, 1, equal);
    for (int i = 0; i < JOBS; i++) {
        const int c = ragged[i] == 512 ? 0 : ragged[i] == 1024 ? 1 : 2;
        if (c == 2) assert_int_equal(ragged[i], 4096);
        of[c]++;
        changes += i > 0 && ragged[i] != ragged[i - 1];
        assert_true(equal[i] == ragged[i] * 398 / 487 || equal[i] == ragged[i] * 398 / 487 + 1);
    }
    assert_int_equal(of[0], 309);
    assert_int_equal(of[1], 192);
    assert_int_equal(of[2], 96);
    assert_true(changes > 200); /* shuffled */
}

static void producers_are_some_and_not_all(void **state)
{
    (void)state;
    for (unsigned units = 2; units < 200; units++)
        for (uint64_t a = 1; a < 1000000; a *= 7) {
            const uint32_t n = b1i_tiles_producers(units, a, 1000);
            assert_true(n >= 1 && n < units);
        }
    assert_int_equal(b1i_tiles_producers(132, 611328, (uint64_t)JOBS * 256), 106);
}

/* ---- the oracle, against another implementation's figures ---- */

static void the_oracle_knows_these(void **state)
{
    (void)state;
    uint32_t out[2 * LANES], again[2 * LANES];
    b1i_oracle_tiles((uint32_t[]){3, 5}, 2, 2, out);
    assert_int_equal(out[0], 0x9782f5e8);
    assert_int_equal(out[158], 0xc354c2ba);
    assert_int_equal(out[159], 0xe3fd34fb);
    assert_int_equal(out[255], 0xdab27613);
    assert_int_equal(out[LANES], 0x6c940d8b);
    assert_int_equal(out[LANES + 255], 0xac28d5b3);
    memcpy(again, out, sizeof out);
    OK(b1i_oracle_tiles_equal("x", again, out, 2, NULL));
    b1_error err;
    again[300] ^= 1;
    again[301] ^= 1;
    assert_int_equal(b1i_oracle_tiles_equal("x", again, out, 2, &err), B1_DEVICE);
    assert_non_null(strstr(err.message, "x: 2 of 512 words"));
    assert_non_null(strstr(err.message, "job 1, lane 44"));
}

/* ---- variants on a device of so many workers ---- */

typedef struct rig {
    b1i_lab_device *device;
    b1i_tiles_args args;
    uint32_t *want, *got;
    b1i_tiles_mark *marks;
    b1i_trace_span *spans;
} rig;

static const b1i_device CPU = {.ordinal = B1I_DEVICE_CPU, .name = "cpu"};

static void rig_open(rig *r, int workers, uint32_t jobs)
{
    uint32_t rounds[JOBS];
    const size_t bytes = (size_t)jobs * LANES * 4;
    *r = (rig){.args = {.jobs = jobs, .consume = 2, .producers = workers > 1 ? (uint32_t)workers / 2 : 0}};
    OK(b1i_lab_device_open(&CPU, workers, &r->device, NULL));
    b1i_tiles_rounds(b1i_tiles_ragged, B1I_TILES_DIVISOR_MOST, rounds);
    OK(b1i_lab_alloc(r->device, jobs * 4, "rounds", &r->args.iterations, NULL));
    OK(b1i_lab_put(r->device, r->args.iterations, rounds, jobs * 4, NULL));
    OK(b1i_lab_alloc(r->device, bytes, "between", &r->args.between, NULL));
    OK(b1i_lab_alloc(r->device, bytes, "out", &r->args.out, NULL));
    OK(b1i_lab_alloc(r->device, (B1I_TILES_READY + jobs) * 4, "counters", &r->args.counters, NULL));
    r->want = malloc(bytes);
    r->got = malloc(bytes);
    r->marks = malloc(2 * (size_t)jobs * sizeof *r->marks);
    r->spans = malloc(2 * (size_t)jobs * sizeof *r->spans);
    b1i_oracle_tiles(rounds, jobs, r->args.consume, r->want);
}

static void rig_close(rig *r)
{
    free(r->want);
    free(r->got);
    free(r->marks);
    free(r->spans);
    b1i_lab_device_close(r->device);
}

/* Runs the variant, and compares its output with the oracle's; with a trace, that is read into marks. */
static void rig_run(rig *r, b1i_tiles_variant variant, b1i_lab_mode mode, int invocations, bool traced)
{
    b1i_lab_op ops[B1I_TILES_OPS_MOST];
    b1i_lab_work *work;
    b1i_tiles_args args = r->args;
    const size_t bytes = (size_t)args.jobs * LANES * 4, marks = 2 * (size_t)args.jobs * sizeof *r->marks;
    if (traced) OK(b1i_lab_alloc(r->device, marks, "trace", &args.trace, NULL));
    const int count = b1i_tiles_ops(variant, &args, (unsigned)b1i_lab_device_units(r->device), 1024, ops);
    assert_int_equal(count, variant == b1i_tiles_fused ? 1 : 2);
    OK(b1i_lab_work_create(r->device, mode, ops, count, 1, &work, NULL));
    for (int i = 0; i < invocations; i++) {
        if (traced) OK(b1i_lab_fill(r->device, args.trace, 0, marks, NULL));
        OK(b1i_lab_fill(r->device, args.between, 0x5a, bytes, NULL));
        OK(b1i_lab_fill(r->device, args.out, 0xa5, bytes, NULL));
        OK(b1i_lab_work_submit(work, 1, NULL));
        OK(b1i_lab_get(r->device, r->got, args.out, bytes, NULL));
        OK(b1i_oracle_tiles_equal("output", r->got, r->want, args.jobs, NULL));
    }
    OK(b1i_lab_work_submit(work, traced ? 0 : 5, NULL)); /* one upon the other */
    OK(b1i_lab_get(r->device, r->got, args.out, bytes, NULL));
    OK(b1i_oracle_tiles_equal("output", r->got, r->want, args.jobs, NULL));
    if (traced) OK(b1i_lab_get(r->device, r->marks, args.trace, marks, NULL));
    b1i_lab_work_destroy(work);
    b1i_lab_free(r->device, args.trace);
}

static void every_variant_gives_what_the_oracle_says(void **state)
{
    (void)state;
    static const uint32_t jobs[] = {1, 2, 7, 33, JOBS};
    for (int workers = 1; workers <= 5; workers++)
        for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
            rig r;
            rig_open(&r, workers, jobs[j]);
            for (int v = 0; v < b1i_tiles_variants; v++)
                for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++)
                    if (v != b1i_tiles_semaphore || workers > 1)
                        rig_run(&r, (b1i_tiles_variant)v, (b1i_lab_mode)mode, 2, false);
            rig_close(&r);
        }
}

/* However few or many produce. */
static void the_semaphore_never_stands_still(void **state)
{
    (void)state;
    rig r;
    rig_open(&r, 6, 61);
    for (r.args.producers = 1; r.args.producers < 6; r.args.producers++)
        for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++)
            rig_run(&r, b1i_tiles_semaphore, (b1i_lab_mode)mode, 20, false);
    rig_close(&r);
}

static int64_t fact(const json_t *facts, const char *key) { return json_integer_value(json_object_get(facts, key)); }

static void traces_show_what_the_variants_do(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 3; workers++) {
        rig r;
        rig_open(&r, workers, JOBS);
        for (int v = 0; v < b1i_tiles_variants; v++)
            for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++) {
                if (v == b1i_tiles_semaphore && workers == 1) continue;
                b1_error err = {0};
                rig_run(&r, (b1i_tiles_variant)v, (b1i_lab_mode)mode, 1, true);
                if (b1i_tiles_trace_spans((b1i_tiles_variant)v, r.marks, JOBS, r.spans, &err) != B1_OK)
                    fail_msg("%s: %s", b1i_tiles_variant_names[v], err.message);
                json_t *facts = b1i_trace_facts(r.spans, 2 * JOBS);
                assert_non_null(facts);
                assert_int_equal(fact(facts, "jobs"), JOBS);
                assert_true(json_is_true(json_object_get(facts, "complete")));
                assert_true(fact(facts, "units") >= 1 && fact(facts, "units") <= workers);
                assert_true(fact(facts, "span_ns") > 0);
                if (v == b1i_tiles_separate) assert_int_equal(fact(facts, "early_jobs"), 0);
                if (v == b1i_tiles_fused || v == b1i_tiles_queue) assert_true(fact(facts, "early_jobs") > 0);
                if (v == b1i_tiles_separate || v == b1i_tiles_fused) assert_int_equal(fact(facts, "units"), workers);
                if (v == b1i_tiles_semaphore) assert_true(fact(facts, "units") >= 2);
                json_decref(facts);
            }
        rig_close(&r);
    }
}

/* ---- traces that are refused ---- */

/* Three jobs on two units; A 10 long, B 5. */
static void plain_marks(b1i_tiles_mark m[6])
{
    const b1i_tiles_mark marks[6] = {
        {100, 110, 0, 1}, {100, 110, 1, 1}, {115, 125, 0, 1}, {110, 115, 0, 1}, {110, 115, 1, 1}, {125, 130, 0, 1},
    };
    memcpy(m, marks, sizeof marks);
}

static void refused(b1i_tiles_variant variant, const b1i_tiles_mark m[6], const char *why)
{
    b1_error err = {0};
    b1i_trace_span spans[6];
    assert_int_equal(b1i_tiles_trace_spans(variant, m, 3, spans, &err), B1_DEVICE);
    if (!strstr(err.message, why)) fail_msg("\"%s\" has no \"%s\"", err.message, why);
}

static void wrong_traces_are_refused(void **state)
{
    (void)state;
    b1i_tiles_mark m[6];
    b1i_trace_span spans[6];
    plain_marks(m);
    OK(b1i_tiles_trace_spans(b1i_tiles_fused, m, 3, spans, NULL));
    assert_true(spans[4].job == 2 && spans[4].stage == 'A' && spans[5].stage == 'B' && spans[5].end_ns == 130);
    refused(b1i_tiles_separate, m, "before the last A ends");
    refused(b1i_tiles_semaphore, m, "both on unit 0");
    m[4].times = 0;
    refused(b1i_tiles_fused, m, "stage B of job 1 0 times");
    m[4].times = 2;
    refused(b1i_tiles_fused, m, "stage B of job 1 2 times");
    plain_marks(m);
    m[5].end_ns = 124;
    refused(b1i_tiles_queue, m, "ends before it begins");
    plain_marks(m);
    m[4].begin_ns = 109;
    refused(b1i_tiles_queue, m, "before its A ends");
    plain_marks(m);
    m[3].unit = 1;
    refused(b1i_tiles_queue, m, "expected one");
    plain_marks(m);
    m[2].begin_ns = 114;
    refused(b1i_tiles_queue, m, "at once");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sums_are_the_fixtures),
        cmocka_unit_test(the_ragged_jobs_are_as_documented),
        cmocka_unit_test(producers_are_some_and_not_all),
        cmocka_unit_test(the_oracle_knows_these),
        cmocka_unit_test(every_variant_gives_what_the_oracle_says),
        cmocka_unit_test(the_semaphore_never_stands_still),
        cmocka_unit_test(traces_show_what_the_variants_do),
        cmocka_unit_test(wrong_traces_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
