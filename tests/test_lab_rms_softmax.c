/* SPDX-License-Identifier: MIT
 *
 * The experiment rms-softmax: every variant against the oracle at odd numbers of rows and widths, on the CPU and on a
 * GPU where there is one; what the oracle takes and what it does not; the experiment's cells.
 */
#include "lab/experiments/rms_softmax.h"
#include "lab/oracle.h"
#include "tests/lab_rig.h"

#include <math.h>

static float value(size_t i) { return ((float)(b1i_mix64(i) >> 40) - 0x1p23f) * 0x1p-22f; }

/* ---- the variants ---- */

/* Rows of every kind: even ones, all the same, all zero, one that has a single large element (whose others vanish in
 * float), tiny and huge ones. */
static void fill_row(float *x, size_t row, int width)
{
    for (int i = 0; i < width; i++) {
        const float u = value(row * 100003 + (size_t)i);
        switch (row % 7) {
        case 1:
            x[i] = 3;
            break;
        case 2:
            x[i] = 0;
            break;
        case 3:
            x[i] = i == width / 2 ? 1000 : u * 1e-3f;
            break;
        case 4:
            x[i] = u * 1e-12f;
            break;
        case 5:
            x[i] = u * 1e12f;
            break;
        default:
            x[i] = u * u * u;
        }
    }
}

static void softmax_fits(b1i_lab_device *device, b1i_softmax_variant variant, b1i_lab_mode mode, int rows, int width)
{
    enum { PAST = 64, TIMES = 2 };
    const size_t count = (size_t)rows * (size_t)width;
    float *x = test_malloc(count * sizeof *x), *y = test_malloc((count + PAST) * sizeof *y);
    b1i_lab_op ops[B1I_SOFTMAX_OPS_MOST];
    b1i_lab_work *work;
    for (int r = 0; r < rows; r++) fill_row(x + (size_t)r * (size_t)width, (size_t)r, width);
    const b1i_softmax_args a = {.x = rig_floats(device, count, x),
                                .z = rig_floats(device, count, NULL),
                                .y = rig_floats(device, count + PAST, NULL),
                                .square_mean = rig_floats(device, (size_t)rows, NULL),
                                .most = rig_floats(device, (size_t)rows, NULL),
                                .sum = rig_floats(device, (size_t)rows, NULL),
                                .next = rig_floats(device, 1, NULL),
                                .rows = rows,
                                .width = width};
    const int n = b1i_softmax_ops(variant, &a, 3, ops);
    assert_int_equal(n, variant == b1i_softmax_separate ? 5 : variant == b1i_softmax_fused ? 1 : 2);
    OK(b1i_lab_work_create(device, mode, ops, n, 1, &work, &err));
    for (int again = 0; again < TIMES; again++) {
        OK(b1i_lab_fill(device, a.y, 0xff, (count + PAST) * sizeof *y, &err));
        OK(b1i_lab_work_submit(work, 1, &err));
        OK(b1i_lab_get(device, y, a.y, (count + PAST) * sizeof *y, &err));
        OK(b1i_oracle_rms_softmax(b1i_softmax_variant_names[variant], x, y, rows, width,
                                  b1i_softmax_adds(b1i_lab_device_gpu(device) != NULL, width), &err));
        for (size_t i = count; i < count + PAST; i++) assert_true(isnan(y[i])); /* nothing past the end */
    }
    b1i_lab_work_destroy(work);
    const uint64_t made[] = {a.x, a.z, a.y, a.square_mean, a.most, a.sum, a.next};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) b1i_lab_free(device, made[i]);
    test_free(x);
    test_free(y);
}

static void odd_sizes(b1i_lab_device *device)
{
    static const int rows[] = {1, 2, 7, 31}, widths[] = {1, 2, 15, 16, 17, 31, 33, 257, 1000, 4099};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (int v = 0; v < b1i_softmax_variants; v++)
                for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++)
                    softmax_fits(device, (b1i_softmax_variant)v, (b1i_lab_mode)mode, rows[r], widths[w]);
    if (!b1i_lab_device_gpu(device)) return;
    softmax_fits(device, b1i_softmax_separate, b1i_lab_pdl, 31, 4099);
    for (int v = 0; v < b1i_softmax_variants; v++)
        softmax_fits(device, (b1i_softmax_variant)v, b1i_lab_graph, 300, 12345);
}

static void every_variant_is_right(void **state)
{
    (void)state;
    each_device(odd_sizes);
}

/* A kernel's block has room for its row, and no width has fewer additions than a part of it has elements. */
static void launches_fit(void **state)
{
    (void)state;
    for (int width = 1; width < 20000; width += width < 70 ? 1 : 97) {
        const unsigned threads = b1i_softmax_threads(width);
        assert_true(threads >= 64 && threads <= 1024 && (threads & (threads - 1)) == 0);
        assert_true(threads == 1024 || threads * 4 >= (unsigned)width);
        assert_int_equal(b1i_softmax_shared_bytes(b1i_softmax_separate, width), 0);
        assert_int_equal(b1i_softmax_shared_bytes(b1i_softmax_persistent, width), 4 * width);
        assert_true(b1i_softmax_adds(true, width) >= 10 + (width + 1023) / 1024);
        assert_true(b1i_softmax_adds(false, width) >= 16 + width / 16);
    }
}

/* ---- the oracle ---- */

/* One after the other, in float. */
static void softmax_of(const float *x, float *y, int width)
{
    float squares = 0, most = -INFINITY, sum = 0;
    for (int i = 0; i < width; i++) squares += x[i] * x[i];
    const float scale = 1.0f / sqrtf(squares / (float)width + 1e-6f);
    for (int i = 0; i < width; i++) most = fmaxf(most, y[i] = x[i] * scale);
    for (int i = 0; i < width; i++) sum += y[i] = expf(y[i] - most);
    for (int i = 0; i < width; i++) y[i] /= sum;
}

static void the_oracle_catches(void **state)
{
    (void)state;
    enum { ROWS = 7, WIDTH = 1000, COUNT = ROWS * WIDTH };
    static float x[COUNT], y[COUNT];
    for (int r = 0; r < ROWS; r++) {
        fill_row(x + (size_t)r * WIDTH, (size_t)r, WIDTH);
        softmax_of(x + (size_t)r * WIDTH, y + (size_t)r * WIDTH, WIDTH);
    }
    OK(b1i_oracle_rms_softmax("all", x, y, ROWS, WIDTH, WIDTH, &err));
    const int adds = b1i_softmax_adds(false, WIDTH), at = 6 * WIDTH + 321;
    const float right = y[at];
    const float wrong[] = {NAN, INFINITY, 0, right * (1 + 2e-5f), right * (1 - 2e-5f), y[at + 1], x[at]};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        y[at] = wrong[i];
        assert_int_equal(b1i_oracle_rms_softmax("all", x, y, ROWS, WIDTH, adds, &err), B1_DEVICE);
        assert_non_null(strstr(err.message, "all: element 321 of 1000 of row 6"));
    }
    y[at] = right;
    /* A row without its scale, one whose ε is forgotten (which only a tiny row shows), one that belongs elsewhere. */
    float other[WIDTH];
    for (int i = 0; i < WIDTH; i++) other[i] = 2 * x[i];
    assert_int_equal(b1i_oracle_rms_softmax("all", other, y + WIDTH, 1, WIDTH, adds, &err), B1_DEVICE);
    for (int i = 0; i < WIDTH; i++) other[i] = x[4 * WIDTH + i] * 1e12f;
    softmax_of(other, other, WIDTH);
    assert_int_equal(b1i_oracle_rms_softmax("tiny", x + 4 * WIDTH, other, 1, WIDTH, adds, &err), B1_DEVICE);
}

/* What was found by hand: x = (3, 4), root = √12.5; y₀ = 1 / (1 + exp(1 / √12.5)), but for ε. */
static void the_oracle_knows_these(void **state)
{
    (void)state;
    const float x[] = {3, 4}, one = 7, y[] = {0.42975699f, 0.57024301f}, all = 1;
    OK(b1i_oracle_rms_softmax("two", x, y, 1, 2, 1, &err));
    OK(b1i_oracle_rms_softmax("one", &one, &all, 1, 1, 1, &err));
}

/* ---- the experiment ---- */

static void cells_are_right(bool gpu)
{
    lab_rig r;
    lab_rig_open(&r, &b1i_experiment_rms_softmax, gpu, true);
    assert_int_equal(r.lab.plan.count, 4 * (9 + 2));
    rig_drive_all(&r);
    for (size_t i = 0; i < r.lab.plan.count; i++) {
        const json_int_t n = rig_fact(&r, i, "n"), rows = rig_fact(&r, i, "rows");
        const bool separate = strcmp(rig_word(&r, i, "variant"), "separate") == 0;
        const bool persistent = strcmp(rig_word(&r, i, "variant"), "persistent") == 0;
        assert_int_equal(n, rows * rig_fact(&r, i, "width"));
        assert_true(n <= 48 * 1000);
        assert_int_equal(rig_fact(&r, i, "bytes"), separate ? 28 * n + 28 * rows : 8 * n);
        assert_int_equal(rig_fact(&r, i, "kernels"), separate ? 5 : 1);
        assert_int_equal(rig_fact(&r, i, "memsets"), persistent);
    }
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
        {"1x31-separate_pdl", 5, 0, 4},
        {"48x1000-fused_graph", 1, 0, 0},
        {"48x1000-persistent_graph", 1, 1, 0},
    };
    lab_rig_run(&b1i_experiment_rms_softmax, graphs, sizeof graphs / sizeof *graphs);
}

static void a_wrong_output_is_caught(void **state)
{
    (void)state;
    rig_plant(&b1i_experiment_rms_softmax, "48x1000/fused_graph", 47999);
    rig_plant(&b1i_experiment_rms_softmax, "1x31/persistent_stream", 0);
}

/* Every allocation of a cell may fail, and nothing is left behind. */
static void nothing_leaks(void **state)
{
    (void)state;
    rig_nothing_leaks(&b1i_experiment_rms_softmax);
}

int main(void)
{
    b1i_lab_op ops[B1I_SOFTMAX_OPS_MOST];
    const b1i_softmax_args none = {.rows = 1, .width = 1};
    for (int v = 0; v < b1i_softmax_variants; v++)
        rig_teach(ops, b1i_softmax_ops((b1i_softmax_variant)v, &none, 1, ops));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_is_right),   cmocka_unit_test(launches_fit),
        cmocka_unit_test(the_oracle_catches),       cmocka_unit_test(the_oracle_knows_these),
        cmocka_unit_test(the_cells_are_right),      cmocka_unit_test(graphs_are_evidence),
        cmocka_unit_test(a_wrong_output_is_caught), cmocka_unit_test(nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
