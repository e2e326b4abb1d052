/* SPDX-License-Identifier: MIT
 *
 * The protocol of a run on an experiment that does as it is told: rounds and their order, depth, cells that cannot run,
 * wrong outputs, cancellation, failures at each place.
 */
#include "lab/plan.h"
#include "lab/run.h"
#include "lab/samples.h"
#include "tests/lab_fake.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define HAS(part)   assert_non_null(strstr(err.message, part))

/* A run into home/NAME that ends well; its plan and samples. */
static void run_well(const char *name, b1i_lab_plan *plan, b1i_samples *samples)
{
    b1i_lab_options o = fake_options(at(name));
    remove_all(o.out);
    if (fake_run(&o) != B1_OK || !holds(o.out)) fail_msg("%s %s", err.message, said);
    assert_int_equal(b1i_lab_plan_read(o.out, plan, &err), B1_OK);
    assert_int_equal(b1i_samples_read(o.out, plan, true, samples, &err), B1_OK);
}

static void drop(b1i_lab_plan *plan, b1i_samples *samples)
{
    b1i_samples_free(samples);
    b1i_lab_plan_free(plan);
}

/* ---- rounds ---- */

static void each_round_has_every_cell_in_its_own_order(void **state)
{
    (void)state;
    b1i_lab_plan plan;
    b1i_samples s;
    fake_reset();
    fake.cells = 4;
    fake.twin = true;
    run_well("rounds", &plan, &s);
    assert_int_equal(s.rounds, 21);
    assert_int_equal(s.count, 21 * 5 * 3);
    int first[5] = {0}, same = 0;
    for (int round = 0; round < 21; round++) {
        int seen[5] = {0};
        for (int i = 0; i < 15; i++) {
            const b1i_sample *row = &s.rows[round * 15 + i];
            assert_int_equal(row->round, round + 1);
            assert_int_equal(row->kind, i % 3);
            seen[row->cell]++;
            same += round > 0 && row->cell == s.rows[(round - 1) * 15 + i].cell && row->kind == 0;
        }
        for (int c = 0; c < 5; c++) assert_int_equal(seen[c], 3);
        first[s.rows[round * 15].cell]++;
    }
    for (int c = 0; c < 5; c++) assert_true(first[c] >= 1 && first[c] <= 12);
    assert_true(same < 50); /* of 100; a fifth by chance */
    drop(&plan, &s);
}

/* The order is uniform: each cell stands at each place about equally often. */
static void orders_are_fair(void **state)
{
    (void)state;
    enum { CELLS = 5, ROUNDS = 20000 };
    b1i_lab_plan_cell cells[CELLS] = {{0}};
    b1i_lab_plan plan = {.cells = cells, .count = CELLS, .seed = 7};
    int at_place[CELLS][CELLS] = {{0}};
    size_t order[CELLS], again[CELLS];
    for (int round = 1; round <= ROUNDS; round++) {
        assert_int_equal(b1i_lab_plan_order(&plan, round, order), CELLS);
        b1i_lab_plan_order(&plan, round, again);
        assert_memory_equal(order, again, sizeof order);
        for (int i = 0; i < CELLS; i++) at_place[i][order[i]]++;
    }
    for (int i = 0; i < CELLS; i++)
        for (int c = 0; c < CELLS; c++) /* 4000 ± 57 by chance */
            assert_in_range(at_place[i][c], 3700, 4300);
    cells[2].status = b1i_cell_failed;
    assert_int_equal(b1i_lab_plan_order(&plan, 1, order), CELLS - 1);
}

static void a_seed_gives_one_order(void **state)
{
    (void)state;
    b1i_lab_plan one, other;
    b1i_samples a, b;
    fake_reset();
    fake.cells = 5;
    run_well("seed", &one, &a);
    run_well("seed", &other, &b);
    assert_int_equal(one.seed, 42);
    assert_string_not_equal(one.run, other.run);
    for (size_t i = 0; i < a.count; i++) assert_int_equal(a.rows[i].cell, b.rows[i].cell);
    drop(&one, &a);
    drop(&other, &b);
}

static void batches_take_about_a_millisecond(void **state)
{
    (void)state;
    static const struct {
        double ns;
        int depth; /* of cell 0: an interval takes 0.8 ns */
    } cases[] = {{5000, 248}, {100, 256}, {80000, 15}, {2e6, 1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        b1i_lab_plan plan;
        b1i_samples s;
        fake_reset();
        fake.twin = true;
        fake.ns = cases[i].ns;
        run_well("depth", &plan, &s);
        assert_true(plan.cells[0].depth <= cases[i].depth && plan.cells[0].depth >= cases[i].depth - 2);
        assert_int_equal(plan.cells[0].depth, plan.cells[2].depth); /* its twin's */
        assert_int_equal(fake.depth[0], plan.cells[0].depth);
        drop(&plan, &s);
    }
}

static void more_rounds_may_be_asked_for(void **state)
{
    (void)state;
    b1i_lab_plan plan;
    b1i_samples s;
    fake_reset();
    b1i_lab_options o = fake_options(at("more"));
    o.rounds = 20;
    assert_int_equal(fake_run(&o), B1_ARGUMENT);
    HAS("at least 21");
    assert_false(is_there(home, "more"));
    o.rounds = 33;
    assert_int_equal(fake_run(&o), B1_OK);
    assert_int_equal(b1i_lab_plan_read(o.out, &plan, &err), B1_OK);
    assert_int_equal(b1i_samples_read(o.out, &plan, true, &s, &err), B1_OK);
    assert_int_equal(s.rounds, 33);
    drop(&plan, &s);
}

/* ---- cells ---- */

static void a_cell_that_cannot_run_leaves_the_others(void **state)
{
    (void)state;
    b1i_lab_plan plan;
    b1i_samples s;
    json_t *a;
    int failed;
    fake_reset();
    fake.cells = 5;
    fake.prepare[0] = B1_MEMORY;
    fake.prepare[1] = B1_UNSUPPORTED;
    fake.prepare[3] = B1_NUMERIC; /* an oracle's no */
    fake.twin = true;             /* of cell 0 */
    b1i_lab_options o = fake_options(at("cannot"));
    assert_int_equal(b1i_lab_run(&fake_experiment, &o, &failed, &err), B1_OK);
    b1i_pool_end();
    assert_int_equal(failed, 1);
    assert_int_equal(fake.prepared, 5);
    assert_true(holds(o.out));
    assert_int_equal(b1i_lab_plan_read(o.out, &plan, &err), B1_OK);
    assert_int_equal(b1i_samples_read(o.out, &plan, true, &s, &err), B1_OK);
    static const b1i_cell_status is[] = {b1i_cell_out_of_memory, b1i_cell_unsupported, b1i_cell_ok,
                                         b1i_cell_failed,        b1i_cell_ok,          b1i_cell_out_of_memory};
    assert_int_equal(plan.count, COUNT(is));
    for (size_t i = 0; i < COUNT(is); i++) {
        assert_int_equal(plan.cells[i].status, is[i]);
        assert_int_equal(plan.cells[i].message != NULL, is[i] != b1i_cell_ok);
    }
    assert_int_equal(s.count, 21 * 2 * 3);
    drop(&plan, &s);
    assert_int_equal(b1i_lab_read_json(o.out, "analysis.json", &a, &err), B1_OK);
    assert_int_equal(json_array_size(json_object_get(a, "cells")), 6 * 3);
    json_decref(a);
}

static void a_run_of_nothing_is_whole(void **state)
{
    (void)state;
    b1i_lab_plan plan;
    b1i_samples s;
    fake_reset();
    fake.prepare[0] = fake.prepare[1] = B1_UNSUPPORTED;
    run_well("nothing", &plan, &s);
    assert_int_equal(s.count, 0);
    assert_true(is_there(at("nothing"), "samples.jsonl"));
    drop(&plan, &s);
}

static b1_status add_wrongly(b1i_lab *lab, void **state, b1_error *e)
{
    static const char *const names[] = {"", "size 1\n", "a\"b", "a\\b", "n\xc3\xa4me"};
    static const b1i_lab_driver none = {NULL, {NULL}, NULL};
    int user = 0;
    b1_error why;
    b1i_lab_cell_spec spec = {"good/one", &fake_driver, &user, 0, NULL};
    (void)state;
    assert_int_equal(b1i_lab_add(lab, &spec, e), B1_OK);
    assert_int_equal(b1i_lab_add(lab, &spec, &why), B1_ARGUMENT);
    spec.name = "good=one"; /* the same as a file's name */
    assert_int_equal(b1i_lab_add(lab, &spec, &why), B1_ARGUMENT);
    for (size_t i = 0; i < COUNT(names); i++) {
        spec.name = names[i];
        spec.facts = json_object();
        assert_int_equal(b1i_lab_add(lab, &spec, &why), B1_ARGUMENT);
    }
    spec.name = "no measure";
    spec.facts = NULL;
    spec.driver = &none;
    assert_int_equal(b1i_lab_add(lab, &spec, &why), B1_ARGUMENT);
    spec.driver = &fake_driver;
    spec.name = "facts";
    spec.facts = json_array();
    assert_int_equal(b1i_lab_add(lab, &spec, &why), B1_ARGUMENT);
    assert_int_equal(b1i_lab_add_twin(lab, "no such", &why), B1_ARGUMENT);
    assert_int_equal(b1i_lab_add_twin(lab, "good/one", &why), B1_OK);
    assert_int_equal(b1i_lab_add_twin(lab, "good/one", &why), B1_ARGUMENT);
    return b1i_fail(e, B1_UNSUPPORTED, "that is enough");
}

static void cells_are_looked_at(void **state)
{
    (void)state;
    static const b1i_experiment wrong = {"wrong", "", add_wrongly, NULL, fake_close};
    int failed;
    char name[12];
    b1i_lab_options o = fake_options(at("wrong"));
    assert_int_equal(b1i_lab_run(&wrong, &o, &failed, &err), B1_UNSUPPORTED);
    HAS("that is enough");
    b1i_lab_file_name("a/a n=256/x.y_z-", name, sizeof name);
    assert_string_equal(name, "a-a-n-256-x"); /* cut */
    b1i_lab_file_name(".x", name, sizeof name);
    assert_string_equal(name, "-x");
}

/* ---- what ends a run ---- */

static void failures_end_it(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        fake_reset();
        if (i == 0) fake.open = B1_IO;
        if (i == 1) fake.measure = B1_DEVICE;
        if (i == 2) fake.measure_fails_at = 400;
        if (i == 3) fake.check = B1_NUMERIC;
        if (i == 4) fake.after = B1_DEVICE;
        if (i == 5) fake.ns = -1; /* no time */
        b1i_lab_options o = fake_options(at("fails"));
        remove_all(o.out);
        o.resume = i % 2; /* of nothing: a run like any other */
        b1_status st = fake_run(&o);
        if (st == B1_OK) fail_msg("case %d ended well", i);
        assert_int_equal(fake.closed, i > 0);
        assert_int_equal(b1i_evidence_look(o.out), b1i_evidence_failed);
        assert_false(is_there(o.out, "analysis.json"));
        json_t *why;
        assert_int_equal(b1i_lab_read_json(o.out, "failed.json", &why, &err), B1_OK);
        assert_string_equal(json_string_value(json_object_get(why, "status")), b1_status_name(st));
        json_decref(why);
    }
}

static int asked, cancel_at;
static bool cancelled(void) { return ++asked == cancel_at; }

static void a_cancelled_run_can_be_resumed(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        fake_reset();
        b1i_lab_options o = fake_options(at("cancelled"));
        remove_all(o.out);
        asked = 0;
        cancel_at = i == 0 ? 1 : i == 1 ? 5 : 500;
        o.cancelled = cancelled;
        b1_status st = fake_run(&o);
        if (i == 2 && st == B1_OK) fail_msg("asked %d times only", asked);
        assert_int_equal(st, B1_CANCELLED);
        HAS("incomplete");
        assert_int_equal(fake.closed, 1);
        assert_int_equal(b1i_evidence_look(o.out), b1i_evidence_incomplete);
        o.cancelled = NULL;
        o.resume = true;
        assert_int_equal(fake_run(&o), B1_OK);
        assert_true(holds(o.out));
    }
}

static void progress_is_told(void *user, const char *what, uint64_t done, uint64_t total)
{
    int *calls = user;
    assert_true(what && done <= total);
    ++*calls;
}

static void progress_goes_forward(void **state)
{
    (void)state;
    int calls = 0;
    fake_reset();
    b1i_lab_options o = fake_options(at("progress"));
    o.progress = progress_is_told;
    o.progress_user = &calls;
    assert_int_equal(fake_run(&o), B1_OK);
    assert_true(calls > 42);
}

/* ---- memory ---- */

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    long refused = 0;
    fake_reset();
    b1i_lab_options o = fake_options(at("memory"));
    for (long n = 0, well = 0; well < 3; n++) {
        fake_reset();
        fake.twin = fake.trace = true;
        remove_all(o.out);
        long alive = b1i_alloc_live();
        b1i_alloc_fail_at(n);
        b1_status st = fake_run(&o);
        b1i_alloc_fail_at(-1);
        if (b1i_alloc_live() != alive) fail_msg("allocation %ld: %ld are left", n, b1i_alloc_live() - alive);
        /* One alone is what the run can do without, such as a reading of the cgroup's quota. */
        well = st == B1_OK ? well + 1 : 0;
        if (st == B1_OK) {
            assert_true(holds(o.out));
            continue;
        }
        assert_true(st == B1_MEMORY || st == B1_ARGUMENT || st == B1_SYSTEM);
        assert_true(b1i_evidence_look(o.out) != b1i_evidence_sealed);
        refused++;
    }
    assert_true(refused > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_round_has_every_cell_in_its_own_order),
        cmocka_unit_test(orders_are_fair),
        cmocka_unit_test(a_seed_gives_one_order),
        cmocka_unit_test(batches_take_about_a_millisecond),
        cmocka_unit_test(more_rounds_may_be_asked_for),
        cmocka_unit_test(a_cell_that_cannot_run_leaves_the_others),
        cmocka_unit_test(a_run_of_nothing_is_whole),
        cmocka_unit_test(cells_are_looked_at),
        cmocka_unit_test(failures_end_it),
        cmocka_unit_test(a_cancelled_run_can_be_resumed),
        cmocka_unit_test(progress_goes_forward),
        cmocka_unit_test(no_allocation_may_fail_unseen),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
