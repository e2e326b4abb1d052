/* SPDX-License-Identifier: MIT
 *
 * The experiment launch: its bodies against known outputs; a load beside, on the CPU, on a GPU where there is one, and
 * on a driver that stands in for one; its cells, and a wrong output of each kind; the figures that follow from several
 * cells.
 */
#include "base/threads.h"
#include "lab/experiments/launch.h"
#include "lab/figures.h"
#include "tests/lab_rig.h"

#include <math.h>

/* ---- a load beside ---- */

/* What k_load_beside does, where a kernel has ended when its launch returns. */
static void load_beside(const void *args, int worker, int workers)
{
    const b1i_beside_args *a = args;
    b1i_beside_word *out = (b1i_beside_word *)(uintptr_t)a->out;
    (void)worker;
    (void)workers;
    assert_true(a->turn != *(const uint64_t *)(uintptr_t)a->stop);
    for (uint64_t u = 0; u < a->blocks; u++)
        out[u] = (b1i_beside_word){.running = a->turn, .turn = a->turn, .bytes = a->load_bytes, .ns = 1000};
}

static void teach_nulls(void)
{
    static bool taught;
    const b1i_lab_op ops[] = {
        {.kernel = "k_null", .body = b1i_null_body, .arg_bytes = sizeof(b1i_null_args)},
        {.kernel = "k_null_early", .body = b1i_null_body, .arg_bytes = sizeof(b1i_null_args)},
        {.kernel = "k_load_beside", .body = load_beside, .arg_bytes = sizeof(b1i_beside_args)},
    };
    if (!taught) rig_teach(ops, 3);
    taught = true;
}

/* Threads beside a CPU, whether or not it has one to spare; a kernel beside a GPU. */
static void a_load_reads_beside(void **state)
{
    (void)state;
    teach_nulls();
    for (int gpu = 0; gpu <= rig_has_gpu(); gpu++) {
        lab_rig r;
        lab_rig_open(&r, &b1i_experiment_launch, gpu, true);
        b1i_launch *l = r.state;
        if (!gpu) assert_int_equal(b1i_launch_beside(l, 0, &err), B1_UNSUPPORTED);
        OK(b1i_launch_beside(l, 2, &err));
        for (int i = 0; i < 3; i++) {
            double gbps = -1;
            OK(b1i_launch_beside_start(l, &err));
            OK(b1i_launch_beside_stop(l, "a test", &gbps, &err));
            assert_true(gbps > 0);
        }
        lab_rig_close(&r);
    }
}

/* ---- meeting, by workers ---- */

enum { UNITS = 3, LOAD_BYTES = 1 << 16, LINES = UNITS + 2 };

typedef struct meeting {
    uint64_t out[B1I_SYNC_SEEN + UNITS];
    _Alignas(B1I_SYNC_LINE) unsigned char lines[LINES * B1I_SYNC_LINE];
} meeting;

static void meet(meeting *m, b1i_lab_body body, int workers, b1i_sync_args args)
{
    b1i_lab_device *device;
    b1i_lab_work *work;
    const b1i_device cpu = b1i_device_cpu();
    uint64_t load;
    memset(m, 0, sizeof *m);
    args.out = (uint64_t)(uintptr_t)m->out;
    args.lines = (uint64_t)(uintptr_t)m->lines;
    OK(b1i_lab_device_open(&cpu, workers, &device, &err));
    OK(b1i_lab_alloc(device, (size_t)workers * LOAD_BYTES, "a load", &load, &err));
    if (args.load_bytes) args.load = load;
    b1i_lab_op op = {.body = body, .arg_bytes = sizeof args};
    memcpy(op.args, &args, sizeof args);
    OK(b1i_lab_work_create(device, b1i_lab_stream, &op, 1, 1, &work, &err));
    OK(b1i_lab_work_submit(work, 1, &err));
    OK(b1i_lab_device_wait(device, &err));
    b1i_lab_work_destroy(work);
    b1i_lab_device_close(device);
    assert_int_equal(m->out[B1I_SYNC_WRONG], 0);
    assert_true(m->out[B1I_SYNC_START] <= m->out[B1I_SYNC_FROM]);
    assert_true(m->out[B1I_SYNC_FROM] < m->out[B1I_SYNC_TO]);
    assert_int_equal(m->out[B1I_SYNC_LOADED] > 0, args.load_bytes > 0);
}

static void workers_meet_and_answer(void **state)
{
    static meeting m;
    (void)state;
    for (int workers = 2; workers <= UNITS; workers++)
        for (int loaded = 0; loaded <= (workers > 2); loaded++) {
            b1i_sync_args args = {
                .load_bytes = loaded ? LOAD_BYTES : 0, .warm = 3, .turns = 40, .partner = 1, .check = 1};
            args.members = (uint32_t)(loaded ? 2 : workers);
            meet(&m, b1i_barrier_body, workers, args);
            for (uint32_t u = 0; u < UNITS; u++)
                assert_int_equal(m.out[B1I_SYNC_SEEN + u], u < args.members ? args.warm + args.turns : 0);
            for (args.ordered = 0; args.ordered < 2; args.ordered++) {
                meet(&m, b1i_flag_body, workers, args);
                for (uint32_t u = 0; u < UNITS; u++)
                    assert_int_equal(m.out[B1I_SYNC_SEEN + u], u < 2 ? args.warm + args.turns : 0);
            }
        }
}

/* ---- the experiment's cells ---- */

/* Why a cell of two workers, or of a GPU, may be unsupported; NULL: it may not. */
static const char *excuse(const char *name, bool gpu)
{
    if (gpu) return strstr(name, "nodes=1/pdl") ? "programmatic" : NULL;
    if (strstr(name, "/pdl")) return "programmatic";
    if (strstr(name, "/instantiate") || strstr(name, "/upload")) return "no phase";
    if (strstr(name, "loaded/nodes=") || strcmp(name, "loaded/load") == 0)
        return b1i_cpu_count() < 2 + 2 ? "another CPU" : NULL;
    if (b1i_cpu_count() < 2 && (strstr(name, "barrier/") || strstr(name, "flag/"))) return "take turns";
    if (strncmp(name, "barrier/load", 12) == 0 || strncmp(name, "flag/load", 9) == 0) return "a third one";
    return NULL;
}

static void cells_are_right_on(bool gpu)
{
    lab_rig r;
    size_t twins = 0, timed = 0;
    lab_rig_open(&r, &b1i_experiment_launch, gpu, true);
    const b1i_lab_plan *plan = &r.lab.plan;
    for (size_t i = 0; i < plan->count; i++) {
        const char *name = plan->cells[i].name, *why = excuse(name, gpu);
        const b1_status st = lab_rig_drive(&r, i);
        if (why) {
            assert_int_equal(st, B1_UNSUPPORTED);
            assert_non_null(strstr(err.message, why));
        } else {
            ok(st, name, __LINE__);
        }
        twins += plan->cells[i].twin_of >= 0;
        if (why || strncmp(name, "setup/", 6) != 0) continue;
        timed++;
        assert_non_null(rig_word(&r, i, "from"));
        assert_non_null(rig_word(&r, i, "to"));
    }
    assert_int_equal(twins, 3);
    /* All phases of three lengths as graph and of two as pdl; of a plan: capture, first and steady replay. */
    assert_int_equal(timed, gpu ? 5 * 5 : 3 * 3);
    lab_rig_close(&r);
}

static void cells_are_right(void **state)
{
    (void)state;
    cells_are_right_on(false);
    if (rig_has_gpu() && !rig_stands_in()) cells_are_right_on(true);
}

static const char *wrong_in; /* the cell whose output has a wrong bit */
static size_t wrong_byte;

static void flip(const char *what, void *output, size_t bytes)
{
    if (strcmp(what, wrong_in) == 0 && wrong_byte < bytes) ((unsigned char *)output)[wrong_byte] ^= 1;
}

static void wrong_outputs_are_caught(void **state)
{
    static const struct {
        const char *cell;
        size_t byte;
    } cases[] = {{"barrier/idle", 8 * B1I_SYNC_WRONG},
                 {"barrier/idle", 8 * (B1I_SYNC_SEEN + 1)},
                 {"flag/idle/ordered", 8 * B1I_SYNC_SEEN}};
    (void)state;
    if (b1i_cpu_count() < 2) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lab_rig r;
        lab_rig_open(&r, &b1i_experiment_launch, false, true);
        const int cell = b1i_lab_plan_find(&r.lab.plan, cases[i].cell);
        assert_true(cell >= 0);
        wrong_in = cases[i].cell;
        wrong_byte = cases[i].byte;
        b1i_lab_plant = flip;
        assert_int_equal(lab_rig_drive(&r, (size_t)cell), B1_DEVICE);
        assert_non_null(strstr(err.message, wrong_in));
        b1i_lab_plant = NULL;
        OK(lab_rig_drive(&r, (size_t)cell));
        b1i_lab_plant = flip; /* right in the preflight, wrong in what was measured */
        assert_int_equal(r.lab.cells[cell].driver->check(r.lab.cells[cell].user, &err), B1_DEVICE);
        b1i_lab_plant = NULL;
        lab_rig_close(&r);
    }
}

/* A load that had ended too early makes no sample; and it is told so of each kind. */
static void expire(const char *what, void *output, size_t bytes)
{
    if (strcmp(what, wrong_in) == 0) ((b1i_beside_word *)output)[bytes / sizeof(b1i_beside_word) - 1].expired = 1;
}

static void loaded_cells_are_right(void **state)
{
    lab_rig r;
    size_t loaded = 0;
    (void)state;
    if (!rig_has_gpu()) skip();
    teach_nulls();
    lab_rig_open(&r, &b1i_experiment_launch, true, true);
    for (size_t i = 0; i < r.lab.plan.count; i++) {
        const char *name = r.lab.plan.cells[i].name;
        const b1i_lab_driven *d = &r.lab.cells[i];
        if (strncmp(name, "loaded/", 7) != 0) continue;
        loaded++;
        const b1_status st = lab_rig_drive(&r, i);
        if (excuse(name, true)) {
            assert_int_equal(st, B1_UNSUPPORTED);
            continue;
        }
        ok(st, name, __LINE__);
        wrong_in = name;
        b1i_lab_plant = expire;
        for (int k = 0; k < b1i_lab_kinds; k++) {
            double ns;
            if (!d->driver->measure[k]) continue;
            assert_int_equal(d->driver->measure[k](d->user, 1, &ns, &err), B1_DEVICE);
            assert_non_null(strstr(err.message, "had ended"));
            assert_non_null(strstr(err.message, name));
        }
        b1i_lab_plant = NULL;
    }
    assert_int_equal(loaded, 2 * 3 * 3 + 1);
    lab_rig_close(&r);
}

static void memory_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed && n < 4000; n += n < 64 ? 1 : 97) {
        const long live = b1i_alloc_live();
        b1i_lab lab = {0};
        b1i_lab_options options = {.device = b1i_device_cpu(), .threads = 1, .quick = true};
        void *made = NULL;
        lab.experiment = &b1i_experiment_launch;
        lab.options = &options;
        OK(b1i_lab_device_open(&options.device, options.threads, &lab.device, &err));
        b1i_alloc_fail_at(n);
        const b1_status st = b1i_experiment_launch.open(&lab, &made, &err);
        b1i_alloc_fail_at(-1);
        assert_true(st == B1_OK || st == B1_MEMORY);
        failed = st != B1_OK;
        b1i_experiment_launch.close(&lab, made);
        b1i_lab_plan_free(&lab.plan);
        b1i_free(lab.cells);
        b1i_lab_device_close(lab.device);
        assert_int_equal(b1i_alloc_live(), live);
    }
    assert_false(failed);
}

/* ---- figures ---- */

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

static void figures_follow_from_medians(void **state)
{
    (void)state;
    json_t *cells = parse(
        "[{\"cell\":\"one\",\"kind\":\"host_single\",\"median_ns\":100,\"facts\":{}},"
        " {\"cell\":\"four\",\"kind\":\"host_single\",\"median_ns\":160.5,\"facts\":{\"figures\":["
        "  {\"name\":\"of one\",\"unit\":\"ns\",\"kind\":\"host_single\",\"numerator\":[[1,\"four\",\"host_single\"],"
        "   [-1,\"one\",\"host_single\"]],\"denominator\":3},"
        "  "
        "{\"name\":\"pays\",\"unit\":\"replays\",\"kind\":\"host_single\",\"numerator\":[[1,\"one\",\"host_single\"]],"
        "   \"denominator\":[[1,\"four\",\"host_single\"],[-1,\"one\",\"host_single\"]]},"
        "  {\"name\":\"whole\",\"whole\":true,\"numerator\":[[1,\"one\",\"host_single\"]],\"denominator\":60.5},"
        "  "
        "{\"name\":\"least\",\"whole\":true,\"numerator\":[[1,\"one\",\"host_single\"],[-1,\"four\",\"host_single\"]],"
        "   \"denominator\":1},"
        "  {\"name\":\"never\",\"whole\":true,\"unit\":\"replays\",\"numerator\":[[1,\"one\",\"host_single\"]],"
        "   \"denominator\":[[1,\"one\",\"host_single\"],[-1,\"four\",\"host_single\"]]},"
        "  {\"name\":\"absent\",\"numerator\":[[1,\"five\",\"host_single\"]],\"denominator\":1},"
        "  {\"name\":\"null\",\"numerator\":[[1,\"none\",\"host_single\"]],\"denominator\":1},"
        "  {\"name\":\"empty\",\"numerator\":[],\"denominator\":1},"
        "  {\"name\":\"bad\",\"numerator\":[7,\"x\"],\"denominator\":\"y\"}, 5]}},"
        " {\"cell\":\"four\",\"kind\":\"host_enqueue\",\"median_ns\":1,\"facts\":{\"figures\":[{\"name\":\"twice\"}]}},"
        " {\"cell\":\"none\",\"kind\":\"host_single\",\"median_ns\":null,\"facts\":{}},"
        " {\"cell\":\"a/a four\",\"kind\":\"host_single\",\"median_ns\":1,\"facts\":{\"figures\":[{\"name\":\"of a "
        "twin\"}]}}]");
    json_t *figures = b1i_figures_make(cells);
    static const double values[] = {60.5 / 3, 100 / 60.5, 2, 1};
    assert_int_equal(json_array_size(figures), 10);
    for (size_t i = 0; i < 10; i++) {
        json_t *f = json_array_get(figures, i), *value = json_object_get(f, "value");
        assert_string_equal(json_string_value(json_object_get(f, "cell")), "four");
        if (i < 4)
            assert_true(fabs(json_real_value(value) - values[i]) < 1e-12);
        else
            assert_true(json_is_null(value));
        assert_int_equal(json_is_string(json_object_get(f, "message")), i >= 4);
    }
    json_decref(figures);
    json_decref(cells);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_reads_beside),
        cmocka_unit_test(workers_meet_and_answer),
        cmocka_unit_test(cells_are_right),
        cmocka_unit_test(wrong_outputs_are_caught),
        cmocka_unit_test(loaded_cells_are_right),
        cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(figures_follow_from_medians),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
