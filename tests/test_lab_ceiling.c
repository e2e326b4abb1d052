/* SPDX-License-Identifier: MIT
 *
 * The experiment ceiling: known words and what is said of wrong ones; its bodies; its cells on the CPU and on a GPU
 * where there is one, and a wrong output of each kind.
 */
#include "base/threads.h"
#include "lab/experiments/ceiling.h"
#include "lab/experiments/words.h"
#include "tests/lab_rig.h"

/* ---- words ---- */

static void words_on(b1i_lab_device *device)
{
    enum { PIECES = 3 };
    const uint64_t piece = 40, bytes = PIECES * piece, wrong = 1;
    b1i_words_sum sums[PIECES];
    uint64_t memory, words[PIECES * 5];
    OK(b1i_lab_alloc(device, bytes, "words", &memory, &err));
    OK(b1i_words_put(device, memory, bytes, piece, sums, &err));
    OK(b1i_lab_get(device, words, memory, bytes, &err));
    for (size_t p = 0; p < PIECES; p++) {
        uint64_t mix = 0;
        uint32_t sum = 0;
        for (size_t i = p * 5; i < p * 5 + 5; i++) {
            assert_true(words[i] == b1i_mix64(i));
            mix ^= words[i];
            sum += (uint32_t)(words[i] & 0xffffffff) + (uint32_t)(words[i] >> 32);
        }
        assert_true(sums[p].mix == mix && sums[p].sum == sum);
    }
    const b1i_words_rule own = {.kind = b1i_words_own}, tile = {b1i_words_tile, 16, 5, 7};
    OK(b1i_words_check(device, "a test", &own, memory, 0, bytes, &err));
    OK(b1i_lab_put(device, memory + 72, &wrong, sizeof wrong, &err));
    OK(b1i_words_check(device, "a test", &own, memory, 0, 72, &err));
    OK(b1i_words_check(device, "a test", &own, memory, 80, 40, &err));
    assert_int_equal(b1i_words_check(device, "a test", &own, memory, 0, bytes, &err), B1_DEVICE);
    assert_non_null(strstr(err.message, "a test: at byte 72"));
    const uint32_t in_tile[4] = {7, 12, 17, 22};
    for (uint64_t i = 0; i < 4; i++) OK(b1i_lab_put(device, memory + 16 * i, in_tile, sizeof in_tile, &err));
    OK(b1i_words_check(device, "a test", &tile, memory, 0, 64, &err));
    assert_int_equal(b1i_words_check(device, "a test", &tile, memory, 8, 64, &err), B1_DEVICE);
    b1i_lab_free(device, memory);
}

static void words_are_known(void **state)
{
    (void)state;
    each_device(words_on);
}

/* ---- bodies ---- */

static void bodies_on(b1i_lab_device *device)
{
    enum { PART = 2 * B1I_BAND_TILE, PASSES = 3 };
    static const struct {
        b1i_lab_body body;
        enum { SUM, MIX, TILE, COPY } gives;
    } cases[] = {{b1i_band_read4, SUM},    {b1i_band_read8, MIX},
                 {b1i_band_read16, SUM},   {b1i_band_read_wide, MIX},
                 {b1i_band_write16, TILE}, {b1i_band_write16_streaming, TILE},
                 {b1i_band_copy, COPY},    {b1i_band_copy16_streaming, COPY}};
    if (b1i_lab_device_gpu(device)) return;
    const size_t units = (size_t)b1i_lab_device_units(device), bytes = units * PART;
    uint64_t from, to, *out = test_malloc(units * sizeof *out);
    b1i_words_sum *want = test_malloc(units * sizeof *want);
    OK(b1i_lab_alloc(device, bytes, "words", &from, &err));
    OK(b1i_lab_alloc(device, bytes + 64, "what is written", &to, &err));
    OK(b1i_words_put(device, from, bytes, PART, want, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const b1i_words_rule own = {.kind = b1i_words_own}, tile = {b1i_words_tile, B1I_BAND_TILE, B1I_BAND_STEP, 99};
        b1i_band_args args = {
            .from = from, .to = to, .out = (uint64_t)(uintptr_t)out, .part = PART, .passes = PASSES, .seed = 99};
        b1i_lab_op op = {.body = cases[i].body, .arg_bytes = sizeof args};
        b1i_lab_work *work;
        memcpy(op.args, &args, sizeof args);
        OK(b1i_lab_fill(device, to, 0x5a, bytes + 64, &err));
        OK(b1i_lab_work_create(device, b1i_lab_graph, &op, 1, 1, &work, &err));
        OK(b1i_lab_work_submit(work, 1, &err));
        OK(b1i_lab_device_wait(device, &err));
        for (size_t u = 0; u < units && cases[i].gives <= MIX; u++)
            assert_true(out[u] == (cases[i].gives == SUM ? (uint32_t)(PASSES * want[u].sum) : want[u].mix));
        if (cases[i].gives == TILE) OK(b1i_words_check(device, "written", &tile, to, 0, bytes, &err));
        if (cases[i].gives == COPY) OK(b1i_words_check(device, "copied", &own, to, 0, bytes, &err));
        for (size_t k = 0; k < 64; k++) assert_int_equal(((uint8_t *)(uintptr_t)to)[bytes + k], 0x5a);
        OK(b1i_words_check(device, "read", &own, from, 0, bytes, &err));
        b1i_lab_work_destroy(work);
    }
    b1i_lab_free(device, from);
    b1i_lab_free(device, to);
    test_free(out);
    test_free(want);
}

static void bodies_do_what_they_say(void **state)
{
    (void)state;
    each_device(bodies_on);
}

/* ---- the experiment's cells ---- */

static void cells_are_right_on(bool gpu)
{
    lab_rig r;
    json_int_t before = 0;
    size_t twins = 0, bulk = 0;
    lab_rig_open(&r, &b1i_experiment_ceiling, gpu, true);
    const b1i_lab_plan *plan = &r.lab.plan;
    for (size_t i = 0; i < plan->count; i++) {
        const b1i_lab_plan_cell *c = &plan->cells[i];
        const b1_status st = lab_rig_drive(&r, i);
        if (strstr(c->name, "/bulk") && st == B1_UNSUPPORTED) {
            bulk++;
            assert_non_null(strstr(err.message, "bulk"));
        } else if (!gpu && !b1i_band_streams && strstr(c->name, "_streaming")) {
            assert_int_equal(st, B1_UNSUPPORTED);
        } else {
            ok(st, c->name, __LINE__);
        }
        twins += c->twin_of >= 0;
        if (c->twin_of >= 0) continue;
        const json_int_t n = rig_fact(&r, i, "n"), passes = rig_fact(&r, i, "passes");
        assert_true(n >= before);
        before = n;
        assert_true(passes % 2 == 1);
        assert_int_equal(rig_fact(&r, i, "bytes"), n * passes * (strstr(c->name, "/copy/") ? 2 : 1));
        assert_int_equal(rig_fact(&r, i, "part_bytes") * b1i_lab_device_units(r.lab.device), n);
    }
    assert_int_equal(twins, 2);
    if (!gpu) assert_int_equal(bulk, 3);
    lab_rig_close(&r);
}

static void cells_are_right(void **state)
{
    (void)state;
    cells_are_right_on(false);
    if (rig_has_gpu() && !rig_stands_in()) cells_are_right_on(true);
}

static const char *wrong_in; /* the cell whose output has a wrong bit */
static bool wrong_last;      /* in its last byte, else in its first */

static void flip(const char *what, void *output, size_t bytes)
{
    if (strcmp(what, wrong_in) == 0) ((unsigned char *)output)[wrong_last ? bytes - 1 : 0] ^= 0x10;
}

static void wrong_outputs_are_caught(void **state)
{
    static const struct {
        const char *cell;
        bool last;
    } cases[] = {{"n=32768/read/load4", false},   {"n=32768/read/wide", true},    {"n=524288/read/load16", false},
                 {"n=32768/write/store16", true}, {"n=524288/copy/memcpy", true}, {"n=524288/copy/memcpy", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_rig r;
        lab_rig_open(&r, &b1i_experiment_ceiling, false, true);
        const int cell = b1i_lab_plan_find(&r.lab.plan, cases[i].cell);
        assert_true(cell >= 0);
        const b1i_lab_driven *d = &r.lab.cells[cell];
        double ns;
        wrong_in = cases[i].cell;
        wrong_last = cases[i].last;
        b1i_lab_plant = flip;
        assert_int_equal(lab_rig_drive(&r, (size_t)cell), B1_DEVICE);
        assert_non_null(strstr(err.message, wrong_in));
        b1i_lab_plant = NULL;
        OK(lab_rig_drive(&r, (size_t)cell));
        b1i_lab_plant = flip; /* right in the preflight, wrong in a sample and at the end */
        assert_int_equal(d->driver->measure[b1i_device_interval](d->user, 1, &ns, &err), B1_DEVICE);
        assert_int_equal(d->driver->check(d->user, &err), B1_DEVICE);
        b1i_lab_plant = NULL;
        lab_rig_close(&r);
    }
}

static void memory_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed && n < 4000; n += n < 64 ? 1 : 97) {
        lab_rig r = {.options = {.device = b1i_device_cpu(), .threads = 1, .quick = true}};
        const long live = b1i_alloc_live();
        r.lab.experiment = &b1i_experiment_ceiling;
        r.lab.options = &r.options;
        OK(b1i_lab_device_open(&r.options.device, r.options.threads, &r.lab.device, &err));
        b1i_alloc_fail_at(n);
        b1_status st = b1i_experiment_ceiling.open(&r.lab, &r.state, &err);
        for (size_t i = 0; st == B1_OK && i < r.lab.plan.count && i < 3; i++) st = lab_rig_drive(&r, i);
        b1i_alloc_fail_at(-1);
        assert_true(st == B1_OK || st == B1_MEMORY);
        failed = st != B1_OK;
        lab_rig_close(&r);
        assert_int_equal(b1i_alloc_live(), live);
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_known), cmocka_unit_test(bodies_do_what_they_say),
        cmocka_unit_test(cells_are_right), cmocka_unit_test(wrong_outputs_are_caught),
        cmocka_unit_test(memory_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
