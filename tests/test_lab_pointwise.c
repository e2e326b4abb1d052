/* SPDX-License-Identifier: MIT
 *
 * The experiment pointwise: its chain against the oracle at odd sizes, on the CPU and on a GPU where there is one; what
 * the oracle takes and what it does not; the experiment's cells.
 */
#include "lab/experiments/pointwise.h"
#include "lab/oracle.h"
#include "tests/lab_rig.h"

#include <math.h>

static float value(size_t i) { return ((float)(b1i_mix64(i) >> 40) - 0x1p23f) * 0x1p-21f; }

/* ---- the chain ---- */

static void chain_fits(b1i_lab_device *device, bool fused, b1i_lab_mode mode, size_t count)
{
    enum { PAST = 64 };
    float *x = test_malloc(count * sizeof *x), *y = test_malloc((count + PAST) * sizeof *y);
    b1i_lab_op ops[B1I_POINTWISE_OPS_MOST];
    b1i_lab_work *work;
    for (size_t i = 0; i < count; i++) x[i] = value(i);
    const b1i_pointwise_arrays at = {rig_floats(device, count, x), rig_floats(device, count + PAST, NULL),
                                     rig_floats(device, count + PAST, NULL), rig_floats(device, count + PAST, NULL),
                                     (int64_t)count};
    const int n = b1i_pointwise_ops(fused, &at, ops);
    assert_int_equal(n, fused ? 1 : 3);
    OK(b1i_lab_work_create(device, mode, ops, n, 1, &work, &err));
    OK(b1i_lab_work_submit(work, 1, &err));
    OK(b1i_lab_get(device, y, at.y, (count + PAST) * sizeof *y, &err));
    OK(b1i_oracle_pointwise("a chain", x, y, count, &err));
    for (size_t i = count; i < count + PAST; i++) assert_true(isnan(y[i])); /* nothing past the end */
    b1i_lab_work_destroy(work);
    b1i_lab_free(device, at.x);
    b1i_lab_free(device, at.a);
    b1i_lab_free(device, at.b);
    b1i_lab_free(device, at.y);
    test_free(x);
    test_free(y);
}

static void odd_sizes(b1i_lab_device *device)
{
    static const size_t counts[] = {1, 2, 3, 4, 5, 15, 16, 17, 31, 257, 1023, 1024, 1025, 4099, 100003};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int fused = 0; fused < 2; fused++)
            for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++)
                chain_fits(device, fused, (b1i_lab_mode)mode, counts[i]);
    if (b1i_lab_device_gpu(device)) chain_fits(device, false, b1i_lab_pdl, 100003);
}

static void the_chain_is_right(void **state)
{
    (void)state;
    each_device(odd_sizes);
}

/* ---- the oracle ---- */

static float chain_of(float x, bool fused)
{
    volatile float product = 1.5f * x, a = fused ? fmaf(1.5f, x, 0.25f) : product + 0.25f;
    volatile float bottom = 1 + fabsf(a), b = a / bottom, scaled = 0.75f * b;
    return fused ? fmaf(0.75f, b, -0.125f) : scaled - 0.125f;
}

/* With and without multiplications and additions that are one rounding; large, small and special values of x. */
static void the_oracle_takes_every_rounding(void **state)
{
    (void)state;
    static const float odd[] = {0.0f, -0.0f, 1e30f, -1e30f, 1e-40f, 3e38f, -1.0f / 6, -0.16666667f, -0.1666667f, 1.0f};
    for (int fused = 0; fused < 2; fused++) {
        for (size_t i = 0; i < 200000 + sizeof odd / sizeof *odd; i++) {
            const float x = i < 200000 ? value(i) : odd[i - 200000], y = chain_of(x, fused);
            if (fabsf(x) < 1e38f) OK(b1i_oracle_pointwise("a value", &x, &y, 1, &err));
        }
    }
}

static void the_oracle_catches(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static float x[COUNT], y[COUNT];
    for (size_t i = 0; i < COUNT; i++) y[i] = chain_of(x[i] = value(i), false);
    OK(b1i_oracle_pointwise("all", x, y, COUNT, &err));
    const float wrong[] = {NAN, INFINITY, -INFINITY, 0, y[777] * (1 + 3e-6f), y[777] * (1 - 3e-6f), y[778], x[777]};
    const float right = y[777];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        y[777] = wrong[i];
        assert_int_equal(b1i_oracle_pointwise("all", x, y, COUNT, &err), B1_DEVICE);
        assert_non_null(strstr(err.message, "all: element 777 of 1000"));
        OK(b1i_oracle_pointwise("some", x, y, 777, &err));
    }
    y[777] = right;
    OK(b1i_oracle_pointwise("all", x, y, COUNT, &err));
}

/* ---- the experiment ---- */

static void cells_are_right(bool gpu)
{
    lab_rig r;
    lab_rig_open(&r, &b1i_experiment_pointwise, gpu, true);
    assert_int_equal(r.lab.plan.count, 2 * (2 * 6 + 2));
    rig_drive_all(&r);
    int rotating = 0;
    for (size_t i = 0; i < r.lab.plan.count; i++) {
        const json_int_t n = rig_fact(&r, i, "n");
        const bool fused = strcmp(rig_word(&r, i, "variant"), "fused") == 0;
        assert_true(n == 256 || n == 32768);
        assert_int_equal(rig_fact(&r, i, "bytes"), fused ? 8 * n : 24 * n);
        assert_int_equal(rig_fact(&r, i, "kernels"), fused ? 1 : 3);
        if (strncmp(r.lab.plan.cells[i].name, "rotating/", 9) != 0) continue;
        rotating++;
        assert_true(rig_fact(&r, i, "sets") > 1 && rig_fact(&r, i, "cache_bytes") > 0);
        assert_true(json_is_false(json_object_get(r.lab.plan.cells[i].facts, "exceeds_cache_twice")));
    }
    assert_int_equal(rotating, 2 * 6);
    lab_rig_close(&r);
}

static void the_cells_are_right(void **state)
{
    (void)state;
    cells_are_right(false);
    if (rig_has_gpu()) cells_are_right(true);
}

/* On a GPU: the driver's graphs are what they must be, and are in the directory. */
static void graphs_are_evidence(void **state)
{
    (void)state;
    if (!rig_has_gpu()) skip();
    static const rig_graph graphs[] = {
        {"n-256-separate_graph", 3, 0, 0},
        {"n-32768-fused_graph", 1, 0, 0},
        {"rotating-n-256-separate_pdl", 3, 0, 2},
    };
    lab_rig_run(&b1i_experiment_pointwise, graphs, sizeof graphs / sizeof *graphs);
}

/* The sizes of the original; only what is planned, nothing is made. */
static void the_sizes_are_the_originals(void **state)
{
    (void)state;
    lab_rig r;
    lab_rig_open(&r, &b1i_experiment_pointwise, false, false);
    static const char *const names[] = {
        "n=256/separate_stream",  "n=32768/separate_graph",           "n=1048576/fused_stream",
        "n=16777216/fused_graph", "rotating/n=16777216/separate_pdl", "a/a n=1048576/fused_graph"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(b1i_lab_plan_find(&r.lab.plan, names[i]) >= 0);
    for (size_t i = 0; i < r.lab.plan.count; i++) {
        const json_t *exceeds = json_object_get(r.lab.plan.cells[i].facts, "exceeds_cache_twice");
        assert_true(!exceeds || json_is_true(exceeds));
    }
    lab_rig_close(&r);
}

static void a_wrong_output_is_caught(void **state)
{
    (void)state;
    rig_plant(&b1i_experiment_pointwise, "n=256/fused_graph", 255);
    rig_plant(&b1i_experiment_pointwise, "rotating/n=32768/separate_stream", 32767);
}

/* Every allocation of an experiment's cell may fail, and nothing is left behind. */
static void nothing_leaks(void **state)
{
    (void)state;
    rig_nothing_leaks(&b1i_experiment_pointwise);
}

int main(void)
{
    b1i_lab_op ops[B1I_POINTWISE_OPS_MOST];
    const b1i_pointwise_arrays none = {.count = 1};
    for (int fused = 0; fused < 2; fused++) rig_teach(ops, b1i_pointwise_ops(fused, &none, ops));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chain_is_right),       cmocka_unit_test(the_oracle_takes_every_rounding),
        cmocka_unit_test(the_oracle_catches),       cmocka_unit_test(the_cells_are_right),
        cmocka_unit_test(graphs_are_evidence),      cmocka_unit_test(the_sizes_are_the_originals),
        cmocka_unit_test(a_wrong_output_is_caught), cmocka_unit_test(nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
