/* SPDX-License-Identifier: MIT
 *
 * The experiment `tiles` on the CPU, and on a GPU where there is one: its fixtures' sums, every variant against the
 * oracle, what traces show and which are refused; the whole experiment, with and without a wrong output.
 */
#include "lab/evidence.h"
#include "lab/experiments/tiles.h"
#include "lab/oracle_tiles.h"
#include "tests/lab_rig.h"

#include <sys/stat.h>

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
    OK(b1i_oracle_tiles_equal("x", again, out, 2, &err));
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
    unsigned units, shared_bytes;
    uint32_t *want, *got;
    b1i_tiles_mark *marks;
    b1i_trace_span *spans;
} rig;

/* Of the CPU: `workers`. */
static void rig_open(rig *r, const b1i_device *which, int workers, uint32_t jobs)
{
    uint32_t rounds[JOBS];
    const size_t bytes = (size_t)jobs * LANES * 4;
    *r = (rig){.args = {.jobs = jobs, .consume = 2}};
    OK(b1i_lab_device_open(which, workers, &r->device, &err));
    b1i_gpu *gpu = b1i_lab_device_gpu(r->device);
    r->units = (unsigned)b1i_lab_device_units(r->device);
    r->args.producers = r->units / 2;
    r->shared_bytes = gpu ? (unsigned)b1i_gpu_get_info(gpu)->shared_bytes_sm / 2 + 1024 : 0;
    b1i_tiles_rounds(b1i_tiles_ragged, B1I_TILES_DIVISOR_MOST, rounds);
    OK(b1i_lab_alloc(r->device, jobs * 4, "rounds", &r->args.iterations, &err));
    OK(b1i_lab_put(r->device, r->args.iterations, rounds, jobs * 4, &err));
    OK(b1i_lab_alloc(r->device, bytes, "between", &r->args.between, &err));
    OK(b1i_lab_alloc(r->device, bytes, "out", &r->args.out, &err));
    OK(b1i_lab_alloc(r->device, (B1I_TILES_READY + jobs) * 4, "counters", &r->args.counters, &err));
    OK(b1i_lab_fill(r->device, r->args.counters, 0xff, (B1I_TILES_READY + jobs) * 4, &err));
    r->want = test_malloc(bytes);
    r->got = test_malloc(bytes);
    r->marks = test_malloc(2 * (size_t)jobs * sizeof *r->marks);
    r->spans = test_malloc(2 * (size_t)jobs * sizeof *r->spans);
    b1i_oracle_tiles(rounds, jobs, r->args.consume, r->want);
}

static void rig_close(rig *r)
{
    test_free(r->want);
    test_free(r->got);
    test_free(r->marks);
    test_free(r->spans);
    b1i_lab_device_close(r->device);
}

/* Runs the variant, and compares its output with the oracle's; with a trace, that is read into marks. */
static void rig_run(rig *r, b1i_tiles_variant variant, b1i_lab_mode mode, int invocations, bool traced)
{
    b1i_lab_op ops[B1I_TILES_OPS_MOST];
    b1i_lab_work *work;
    b1i_tiles_args args = r->args;
    const size_t bytes = (size_t)args.jobs * LANES * 4, marks = 2 * (size_t)args.jobs * sizeof *r->marks;
    if (traced) OK(b1i_lab_alloc(r->device, marks, "trace", &args.trace, &err));
    const int count = b1i_tiles_ops(variant, &args, r->units, r->shared_bytes, ops);
    assert_int_equal(count, variant == b1i_tiles_fused ? 1 : 2);
    OK(b1i_lab_work_create(r->device, mode, ops, count, 1, &work, &err));
    for (int i = 0; i < invocations; i++) {
        if (traced) OK(b1i_lab_fill(r->device, args.trace, 0, marks, &err));
        OK(b1i_lab_fill(r->device, args.between, 0x5a, bytes, &err));
        OK(b1i_lab_fill(r->device, args.out, 0xa5, bytes, &err));
        OK(b1i_lab_work_submit(work, 1, &err));
        OK(b1i_lab_get(r->device, r->got, args.out, bytes, &err));
        OK(b1i_oracle_tiles_equal("output", r->got, r->want, args.jobs, &err));
    }
    OK(b1i_lab_work_submit(work, traced ? 0 : 5, &err)); /* one upon the other */
    OK(b1i_lab_get(r->device, r->got, args.out, bytes, &err));
    OK(b1i_oracle_tiles_equal("output", r->got, r->want, args.jobs, &err));
    if (traced) OK(b1i_lab_get(r->device, r->marks, args.trace, marks, &err));
    b1i_lab_work_destroy(work);
    b1i_lab_free(r->device, args.trace);
}

static bool has(const rig *r, int variant) { return variant != b1i_tiles_semaphore || r->units > 1; }

/* Calls `with` with the CPU of 1 to `most` workers, and with the first GPU where there is one. */
static void each(int most, void (*with)(const b1i_device *which, int workers))
{
    const b1i_device cpu = b1i_device_cpu(), gpu = b1i_device_at(0);
    for (int workers = 1; workers <= most; workers++) with(&cpu, workers);
    if (rig_has_gpu()) with(&gpu, 0);
}

static void variants_fit(const b1i_device *which, int workers)
{
    static const uint32_t jobs[] = {1, 2, 7, 33, JOBS};
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        rig r;
        rig_open(&r, which, workers, jobs[j]);
        for (int v = 0; v < b1i_tiles_variants; v++)
            for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++)
                if (has(&r, v)) rig_run(&r, (b1i_tiles_variant)v, (b1i_lab_mode)mode, 2, false);
        rig_close(&r);
    }
}

static void every_variant_gives_what_the_oracle_says(void **state)
{
    (void)state;
    each(5, variants_fit);
}

/* However few or many produce. */
static void producers_vary(const b1i_device *which, int workers)
{
    rig r;
    if (which->ordinal == B1I_DEVICE_CPU && workers < 6) return;
    rig_open(&r, which, workers, 61);
    for (r.args.producers = 1; r.args.producers < r.units; r.args.producers++)
        for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++)
            rig_run(&r, b1i_tiles_semaphore, (b1i_lab_mode)mode, 20, false);
    rig_close(&r);
}

static void the_semaphore_never_stands_still(void **state)
{
    (void)state;
    each(6, producers_vary);
}

/* ---- traces ---- */

static int64_t fact(const json_t *facts, const char *key) { return json_integer_value(json_object_get(facts, key)); }

static void trace_shows(rig *r, int v, int mode)
{
    const bool cpu = !b1i_lab_device_gpu(r->device);
    rig_run(r, (b1i_tiles_variant)v, (b1i_lab_mode)mode, 2, true);
    OK(b1i_tiles_trace_spans((b1i_tiles_variant)v, r->marks, JOBS, r->spans, &err));
    json_t *facts = b1i_trace_facts(r->spans, 2 * JOBS);
    assert_non_null(facts);
    const int64_t units = fact(facts, "units"), early = fact(facts, "early_jobs");
    assert_int_equal(fact(facts, "jobs"), JOBS);
    assert_true(json_is_true(json_object_get(facts, "complete")));
    assert_true(units >= 1 && units <= r->units);
    assert_true(fact(facts, "span_ns") > 0);
    if (v == b1i_tiles_separate) assert_int_equal(early, 0);
    if (v == b1i_tiles_fused || v == b1i_tiles_queue) assert_true(early > 0);
    if (cpu && (v == b1i_tiles_separate || v == b1i_tiles_fused)) assert_int_equal(units, r->units);
    if (v == b1i_tiles_semaphore) assert_true(units >= 2);
    json_decref(facts);
}

static void traces_show(const b1i_device *which, int workers)
{
    rig r;
    rig_open(&r, which, workers, JOBS);
    for (int v = 0; v < b1i_tiles_variants; v++)
        for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++)
            if (has(&r, v)) trace_shows(&r, v, mode);
    rig_close(&r);
}

static void traces_show_what_the_variants_do(void **state)
{
    (void)state;
    each(3, traces_show);
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
    OK(b1i_tiles_trace_spans(b1i_tiles_fused, m, 3, spans, &err));
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

/* ---- files of traces ---- */

static void remove_tree(const char *path)
{
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", path);
    assert_int_equal(system(command), 0);
}

/* A folder that is not there yet. */
static void fresh_folder(char path[64])
{
    snprintf(path, 64, "/tmp/b1-tiles-XXXXXX");
    assert_non_null(mkdtemp(path));
    rmdir(path);
}

/* Cut anywhere, it is no whole row or no whole trace. */
static void a_cut_trace_is_refused(void **state)
{
    (void)state;
    char folder[64], file[128];
    b1i_evidence *evidence;
    b1i_tiles_mark m[6];
    b1i_trace_span spans[6], *read;
    size_t count;
    struct stat info;
    fresh_folder(folder);
    snprintf(file, sizeof file, "%s/traces/x.csv", folder);
    plain_marks(m);
    OK(b1i_tiles_trace_spans(b1i_tiles_fused, m, 3, spans, &err));
    OK(b1i_evidence_create(folder, &evidence, &err));
    OK(b1i_trace_write(evidence, "x", spans, 6, &err));
    b1i_evidence_close(evidence);
    OK(b1i_trace_read(file, &read, &count, &err));
    assert_int_equal(count, 6);
    for (int i = 0; i < 6; i++)
        assert_true(read[i].job == spans[i].job && read[i].stage == spans[i].stage && read[i].unit == spans[i].unit &&
                    read[i].begin_ns == spans[i].begin_ns && read[i].end_ns == spans[i].end_ns);
    b1i_free(read);
    assert_int_equal(stat(file, &info), 0);
    for (off_t size = info.st_size; size-- > 0;) {
        assert_int_equal(truncate(file, size), 0);
        if (b1i_trace_read(file, &read, &count, &err) == B1_OK) {
            json_t *facts = b1i_trace_facts(read, count);
            assert_true(json_is_false(json_object_get(facts, "complete")) || (count % 2 == 0 && count < 6));
            json_decref(facts);
        } else {
            assert_null(read);
        }
        b1i_free(read);
    }
    remove_tree(folder);
}

/* ---- the experiment ---- */

static const char *planted; /* the cell whose output's last bit flips */
static void flip(const char *what, void *output, size_t bytes)
{
    if (strcmp(what, planted) == 0) ((unsigned char *)output)[bytes - 1] ^= 0x80;
}

static void cells_are_complete(bool gpu, bool quick)
{
    lab_rig r;
    lab_rig_open(&r, &b1i_experiment_tiles, gpu, quick);
    int twins = 0;
    for (size_t i = 0; i < r.lab.plan.count; i++) {
        const json_int_t divisor = rig_fact(&r, i, "iterations_divided_by");
        const bool ragged = strcmp(rig_word(&r, i, "fixture"), "ragged") == 0;
        assert_int_equal(rig_fact(&r, i, "producer_iterations") * divisor, ragged ? 748032 : 611328);
        assert_int_equal(rig_fact(&r, i, "consumer_iterations") * divisor, JOBS * B1I_TILES_CONSUME);
        assert_int_equal(rig_fact(&r, i, "jobs"), JOBS);
        if (gpu) assert_int_equal(rig_fact(&r, i, "blocks_per_sm"), 1);
        twins += r.lab.plan.cells[i].twin_of >= 0;
    }
    assert_int_equal(r.lab.plan.count, 24 + twins);
    assert_true(twins > 0);
    for (size_t i = 0; quick && i < r.lab.plan.count; i++) /* a driver that stands in is slow */
        if (!gpu || !rig_stands_in() || strncmp(r.lab.plan.cells[i].name, "balanced/", 9) == 0)
            OK(lab_rig_drive(&r, i));
    lab_rig_close(&r);
}

static void the_cells_are_complete(void **state)
{
    (void)state;
    cells_are_complete(false, false);
    cells_are_complete(false, true);
    if (!rig_has_gpu()) return;
    if (!rig_stands_in()) cells_are_complete(true, false); /* the oracle takes seconds */
    cells_are_complete(true, true);
}

/* On a GPU: one kernel and one memset, or two kernels; and traces of all. */
static void graphs_are_evidence(void **state)
{
    (void)state;
    if (!rig_has_gpu() || rig_stands_in()) skip();
    static const rig_graph graphs[] = {
        {"balanced-separate_graph", 2, 0, 0},
        {"ragged-fused_graph", 1, 0, 0},
        {"ragged-queue_graph", 1, 1, 0},
        {"ragged-equal-semaphore_graph", 1, 1, 0},
    };
    lab_rig_run(&b1i_experiment_tiles, graphs, sizeof graphs / sizeof *graphs);
}

static void a_wrong_output_is_caught(void **state)
{
    (void)state;
    static const char *const names[] = {"balanced/separate_stream", "ragged/queue_graph",
                                        "ragged-equal/semaphore_graph"};
    lab_rig r;
    lab_rig_open(&r, &b1i_experiment_tiles, false, true);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int cell = b1i_lab_plan_find(&r.lab.plan, names[i]);
        assert_true(cell >= 0);
        planted = names[i];
        b1i_lab_plant = flip;
        assert_int_equal(lab_rig_drive(&r, (size_t)cell), B1_DEVICE);
        assert_non_null(strstr(err.message, names[i]));
        assert_non_null(strstr(err.message, "job 596, lane 255"));
        OK(lab_rig_drive(&r, (size_t)cell + 1));
        b1i_lab_plant = NULL;
        OK(lab_rig_drive(&r, (size_t)cell));
    }
    lab_rig_close(&r);
}

/* Traces, of every fixture and variant. */
static void the_whole_experiment_runs(void **state)
{
    (void)state;
    char folder[64], file[256];
    int failed;
    fresh_folder(folder);
    const b1i_lab_options options = {
        .out = folder, .device = b1i_device_cpu(), .threads = 2, .quick = true, .executable = "/proc/self/exe"};
    OK(b1i_lab_run(&b1i_experiment_tiles, &options, &failed, &err));
    assert_int_equal(failed, 0);
    for (int f = 0; f < b1i_tiles_fixtures; f++)
        for (int v = 0; v < b1i_tiles_variants; v++) {
            b1i_trace_span *spans;
            size_t count;
            snprintf(file, sizeof file, "%s/traces/%s-%s_graph.csv", folder, b1i_tiles_fixture_names[f],
                     b1i_tiles_variant_names[v]);
            OK(b1i_trace_read(file, &spans, &count, &err));
            assert_int_equal(count, 2 * JOBS);
            b1i_free(spans);
        }
    remove_tree(folder);
}

static b1_status open_with(lab_rig *r, int threads)
{
    *r = (lab_rig){.options = {.device = b1i_device_cpu(), .threads = threads, .quick = true}};
    r->lab.experiment = &b1i_experiment_tiles;
    r->lab.options = &r->options;
    b1_status st = b1i_lab_device_open(&r->options.device, threads, &r->lab.device, &err);
    return st == B1_OK ? b1i_experiment_tiles.open(&r->lab, &r->state, &err) : st;
}

static void one_worker_has_no_semaphore(void **state)
{
    (void)state;
    lab_rig r;
    OK(open_with(&r, 1));
    for (size_t i = 0; i < r.lab.plan.count; i++) {
        const b1_status st = lab_rig_drive(&r, i);
        assert_int_equal(st, strcmp(rig_word(&r, i, "variant"), "semaphore") == 0 ? B1_UNSUPPORTED : B1_OK);
    }
    lab_rig_close(&r);
}

/* One cell from its making to its trace. */
static b1_status drive_and_trace(lab_rig *r, const char *folder)
{
    const char *const name = "ragged/queue_graph";
    b1_status st = open_with(r, 2);
    if (st != B1_OK) return st;
    const int cell = b1i_lab_plan_find(&r->lab.plan, name);
    if ((st = lab_rig_drive(r, (size_t)cell)) != B1_OK) return st;
    for (size_t i = 0; i < r->lab.plan.count; i++)
        r->lab.plan.cells[i].status = (int)i == cell ? b1i_cell_ok : b1i_cell_failed;
    r->lab.started = true;
    if ((st = b1i_evidence_create(folder, &r->lab.evidence, &err)) != B1_OK) return st;
    return b1i_experiment_tiles.after(&r->lab, r->state, &err);
}

/* Every allocation may fail, and nothing is left behind. */
static void nothing_leaks(void **state)
{
    (void)state;
    const long before = b1i_alloc_live();
    b1_status st = B1_MEMORY;
    for (long at = 0; st != B1_OK; at++) {
        lab_rig r;
        char folder[64];
        fresh_folder(folder);
        b1i_alloc_fail_at(at);
        st = drive_and_trace(&r, folder);
        b1i_alloc_fail_at(-1);
        b1i_evidence_close(r.lab.evidence);
        lab_rig_close(&r);
        if (access(folder, F_OK) == 0) remove_tree(folder);
        assert_int_equal(b1i_alloc_live(), before);
        if (st != B1_OK) assert_int_equal(st, B1_MEMORY);
        assert_true(at < 1000);
    }
}

/* ---- what was published ---- */

static size_t published(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, B1I_SOURCE_DIR "/data/published/%s.json", name);
    json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(file);
    assert_true(json_is_string(json_object_get(file, "source")));
    assert_string_equal(json_string_value(json_object_get(json_object_get(file, "device"), "name")),
                        "NVIDIA H100 80GB HBM3");
    const size_t rows = json_array_size(json_object_get(file, "rows"));
    json_decref(file);
    return rows;
}

static void all_published_rows_are_there(void **state)
{
    (void)state;
    assert_int_equal(published("pointwise"), 16);
    assert_int_equal(published("tiles"), 12);
    assert_int_equal(published("traces"), 3);
}

/* A driver that stands in for a GPU's runs a kernel as one worker, who would wait for himself: here he is one after the
 * other, those who produce first. */
static void semaphore_in_turn(const void *args, int worker, int workers)
{
    const b1i_tiles_args *a = args;
    (void)workers;
    for (uint32_t i = 0; i <= a->producers; i++) b1i_tiles_cpu_semaphore(args, worker + (int)i, (int)a->producers + 1);
}

static void teach(void)
{
    const b1i_tiles_args args = {.jobs = 1};
    for (int v = 0; v < b1i_tiles_variants; v++) {
        b1i_lab_op ops[B1I_TILES_OPS_MOST];
        const int count = b1i_tiles_ops((b1i_tiles_variant)v, &args, 2, 0, ops);
        if (v == b1i_tiles_semaphore) ops[count - 1].body = semaphore_in_turn;
        rig_teach(ops, count);
    }
}

int main(void)
{
    teach();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sums_are_the_fixtures),
        cmocka_unit_test(the_ragged_jobs_are_as_documented),
        cmocka_unit_test(producers_are_some_and_not_all),
        cmocka_unit_test(the_oracle_knows_these),
        cmocka_unit_test(every_variant_gives_what_the_oracle_says),
        cmocka_unit_test(the_semaphore_never_stands_still),
        cmocka_unit_test(traces_show_what_the_variants_do),
        cmocka_unit_test(wrong_traces_are_refused),
        cmocka_unit_test(a_cut_trace_is_refused),
        cmocka_unit_test(the_cells_are_complete),
        cmocka_unit_test(graphs_are_evidence),
        cmocka_unit_test(a_wrong_output_is_caught),
        cmocka_unit_test(one_worker_has_no_semaphore),
        cmocka_unit_test(nothing_leaks),
        cmocka_unit_test(the_whole_experiment_runs),
        cmocka_unit_test(all_published_rows_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
