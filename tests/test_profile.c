/* SPDX-License-Identifier: MIT
 *
 * Profiling of a run: what CUPTI records is reconciled with what the invocations are made of, Nsight Compute's reports
 * are read, and a profiler that is missing, refuses or counts nothing is a sentence and no failure. On a GPU, or on the
 * driver and the CUPTI that stand in for one's; the reports without any.
 */
#include "lab/profile.h"

#include "lab/evidence.h"
#include "lab/kernels/probe_args.h"
#include "tests/lab_rig.h"

#include <sys/stat.h>

/* ---- an experiment of works that spin ---- */

enum { OPS = 4, SETS = 5, MODES = 3 };

typedef struct spinning {
    b1i_lab_op ops[SETS * OPS];
    b1i_lab_work_cell cells[MODES + 1];
    uint64_t memory;
} spinning;

static b1_status open_spinning(b1i_lab *lab, void **state, b1_error *e)
{
    b1_status st;
    static const char *const names[] = {"spin/stream", "spin/graph", "spin/pdl", "turns/graph"};
    spinning *s = b1i_calloc(1, sizeof *s);
    *state = s;
    assert_non_null(s);
    B1I_TRY(b1i_lab_alloc(b1i_lab_get_device(lab), 64, "a test", &s->memory, e));
    for (int i = 0; i < SETS * OPS; i++) {
        const b1i_spin_args a = {1000};
        if (i % OPS == 1) {
            s->ops[i] = (b1i_lab_op){.fill = s->memory, .fill_bytes = 4};
        } else {
            s->ops[i] = (b1i_lab_op){.kernel = "k_spin", .grid = 1, .threads = 1, .arg_bytes = sizeof a};
            memcpy(s->ops[i].args, &a, sizeof a);
        }
    }
    for (int i = 0; i <= MODES; i++) {
        const int mode = i < MODES ? i : b1i_lab_graph;
        s->cells[i] = (b1i_lab_work_cell){.lab = lab,
                                          .mode = mode,
                                          .ops = s->ops,
                                          .count = OPS,
                                          .sets = i < MODES ? 1 : SETS,
                                          .kernels = 3,
                                          .memsets = 1};
        const b1i_lab_cell_spec spec = {
            .name = names[i], .driver = &b1i_lab_work_driver, .user = &s->cells[i], .facts = json_object()};
        B1I_TRY(b1i_lab_add(lab, &spec, e));
    }
    B1I_TRY(b1i_lab_add_twin(lab, names[0], e));
fail:
    return st;
}

static void close_spinning(b1i_lab *lab, void *state)
{
    spinning *s = state;
    for (int i = 0; i <= MODES; i++) b1i_lab_work_cell_end(&s->cells[i]);
    b1i_lab_free(b1i_lab_get_device(lab), s->memory);
    b1i_free(s);
}

static const b1i_experiment experiment = {
    .name = "spinning", .summary = "", .open = open_spinning, .close = close_spinning};

/* ---- a run of it ---- */

static char top[32], path[4096];

static void enter(void **state)
{
    (void)state;
    if (!rig_has_gpu()) skip();
    strcpy(top, "/tmp/b1-prof-XXXXXX");
    assert_non_null(mkdtemp(top));
}

static void leave(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", top);
    assert_int_equal(system(command), 0);
}

/* The file `name` of a whole run, which verifies. */
static json_t *run(const char *name, bool ncu)
{
    char out[64];
    int failed = -1;
    bool holds = false;
    snprintf(out, sizeof out, "%s/run", top);
    const b1i_lab_options options = {
        .out = out, .device = b1i_device_at(0), .quick = true, .ncu = ncu, .executable = "/proc/self/exe"};
    OK(b1i_lab_run(&experiment, &options, &failed, &err));
    assert_int_equal(failed, 0);
    OK(b1i_evidence_verify(out, rig_say, NULL, &holds, &err));
    assert_true(holds);
    snprintf(path, sizeof path, "%s/%s", out, name);
    json_t *file = json_load_file(path, 0, NULL);
    assert_non_null(file);
    return file;
}

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}
static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* ---- CUPTI ---- */

static bool cupti_found(const json_t *file)
{
    const json_t *cupti = json_object_get(file, "cupti");
    const bool found = json_is_true(json_object_get(cupti, "found"));
    if (!found) print_message("%s\n", word(cupti, "message"));
    return found;
}

static void check_cell(const json_t *cell, bool graphs, bool lost)
{
    const json_t *seen = json_object_get(cell, "seen"), *want = json_object_get(cell, "expected");
    const json_t *records = json_object_get(cell, "records");
    const bool as_graph = graphs && strcmp(word(cell, "mode"), "stream") != 0;
    print_message("%s: %lld kernels, %lld memsets, %lld graphs: %s\n", word(cell, "cell"), number(seen, "kernels"),
                  number(seen, "memsets"), number(seen, "graphs"), word(cell, "message"));
    assert_int_equal(number(want, "kernels"), as_graph ? 0 : 3 * B1I_PROFILE_RUNS);
    assert_int_equal(number(want, "memsets"), as_graph ? 0 : B1I_PROFILE_RUNS);
    assert_int_equal(number(want, "graphs"), as_graph ? B1I_PROFILE_RUNS : 0);
    assert_int_equal(json_is_true(json_object_get(cell, "reconciled")), !lost);
    if (!lost) assert_true(json_equal(seen, want));
    if (lost) assert_true(*word(cell, "message") && number(cell, "dropped") == 1);
    json_int_t last = 0;
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *r = json_array_get(records, i);
        assert_int_equal(json_object_size(r), strcmp(word(r, "did"), "kernel") == 0 ? 4 : 3);
        if (strcmp(word(r, "did"), "kernel") == 0) assert_string_equal(word(r, "name"), "k_spin");
        assert_true(number(r, "begin_ns") >= last && number(r, "end_ns") >= number(r, "begin_ns"));
        last = number(r, "begin_ns");
    }
}

static void check_activities(bool lost)
{
    json_t *file = run("profile/activities.json", false);
    assert_true(cupti_found(file) || !rig_stands_in());
    const json_t *passes = json_object_get(file, "passes");
    for (size_t i = 0; i < json_array_size(passes); i++) {
        const json_t *pass = json_array_get(passes, i), *cells = json_object_get(pass, "cells");
        assert_string_equal(word(pass, "pass"), i ? "graph-level" : "node-level");
        assert_int_equal(json_array_size(cells), MODES + 1); /* no twin */
        for (size_t c = 0; c < json_array_size(cells); c++) check_cell(json_array_get(cells, c), i == 1, lost);
    }
    if (cupti_found(file)) assert_int_equal(json_array_size(passes), 2);
    json_decref(file);
}

static void activities(void **state)
{
    enter(state);
    check_activities(false);
    leave();
}

static void lost_records(void **state)
{
    enter(state);
    if (rig_stands_in()) {
        setenv("FAKE_CUPTI_LOSES", "1", 1);
        check_activities(true);
        unsetenv("FAKE_CUPTI_LOSES");
    }
    leave();
}

static void refused(void **state)
{
    enter(state);
    if (rig_stands_in()) {
        setenv("FAKE_CUPTI_REFUSES", "1", 1);
        json_t *file = run("profile/activities.json", false);
        assert_false(cupti_found(file));
        assert_non_null(strstr(word(json_object_get(file, "cupti"), "message"), "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
        assert_int_equal(json_array_size(json_object_get(file, "passes")), 0);
        json_decref(file);
        unsetenv("FAKE_CUPTI_REFUSES");
    }
    leave();
}

/* Without a library: in a process of its own, for one that was opened stays so. */
static int run_without(void)
{
    b1i_lab_device *d;
    const b1i_device gpu = b1i_device_at(0);
    if (b1i_lab_device_open(&gpu, 0, &d, &err)) return 1;
    const b1_status st = b1i_gpu_activities_begin(b1i_lab_device_gpu(d), false, &err);
    b1i_gpu_activities none;
    b1_error again = {0};
    if (b1i_gpu_activities_end(b1i_lab_device_gpu(d), &none, &again) == B1_OK) return 1;
    b1i_lab_device_close(d);
    printf("%s\n", err.message);
    return st == B1_UNSUPPORTED ? 42 : 1;
}

static void missing(void **state)
{
    enter(state);
    static const char *const values[][2] = {{"none", "says none"}, {"/none/libcupti.so", "/none/libcupti.so"}};
    for (size_t i = 0; !getenv("B1_EMULATED") && i < 2; i++) {
        char command[256], text[1024];
        snprintf(command, sizeof command, "BATCHONE_CUPTI=%s /proc/%ld/exe --without", values[i][0], (long)getpid());
        FILE *f = popen(command, "r");
        assert_non_null(f);
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        assert_int_equal(WEXITSTATUS(pclose(f)), 42);
        assert_non_null(strstr(text, values[i][1]));
    }
    leave();
}

/* ---- Nsight Compute ---- */

static const char HEADER[] =
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",\"Block "
    "Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric "
    "Value\"\n";
#define ROW(id, kernel, metric, unit, value)                      \
    "\"" id "\",\"77\",\"batchone\",\"127.0.0.1\",\"" kernel      \
    "\",\"1\",\"7\",\"(256, 1, 1)\",\"(1, 1, 1)\",\"0\",\"9.0\"," \
    "\"Command line profiler metrics\",\"" metric "\",\"" unit "\",\"" value "\"\n"

static json_t *rows_of(const char *body, char *message, size_t bytes)
{
    char *text = malloc(strlen(HEADER) + strlen(body) + 1000);
    assert_non_null(text);
    sprintf(text,
            "==PROF== Connected to process 77 (/x/batchone)\n"
            "==PROF== Disconnected from process 77\n%s%s",
            *body ? HEADER : "", body);
    json_t *rows = b1i_profile_ncu_rows(text, message, bytes);
    free(text);
    assert_non_null(rows);
    return rows;
}

static void reports(void **state)
{
    (void)state;
    char message[200];
    json_t *rows = rows_of(ROW("0", "k_one", "dram__bytes_read.sum", "Mbyte", "1,234.50")
                               ROW("0", "k_one", "profiler__replayer_passes", "pass", "3")
                                   ROW("0", "k_one", "lts__t_bytes.sum", "byte", "96")
                                       ROW("1", "k_two", "profiler__replayer_passes", "pass", "1")
                                           ROW("1", "k_two \"\"x\"\", y", "dram__bytes_read.sum", "Kbyte", "nan")
                                               ROW("2", "k_three", "dram__bytes_read.sum", "sector", "5"),
                           message, sizeof message);
    assert_string_equal(message, "");
    assert_int_equal(json_array_size(rows), 4);
    const json_t *row = json_array_get(rows, 0);
    assert_int_equal(number(row, "kernel_id"), 0);
    assert_int_equal(number(row, "replays"), 3);
    assert_string_equal(word(row, "kernel"), "k_one");
    assert_string_equal(word(row, "unit"), "Mbyte");
    assert_true(json_real_value(json_object_get(row, "value")) == 1234.5);
    assert_true(json_real_value(json_object_get(row, "bytes")) == 1234500000.0);
    assert_true(json_real_value(json_object_get(json_array_get(rows, 1), "bytes")) == 96);
    row = json_array_get(rows, 2);
    assert_string_equal(word(row, "kernel"), "k_two \"x\", y");
    assert_int_equal(number(row, "replays"), 1);
    assert_true(json_is_null(json_object_get(row, "value")) && json_is_null(json_object_get(row, "bytes")));
    row = json_array_get(rows, 3);
    assert_true(json_is_null(json_object_get(row, "replays")) && json_is_null(json_object_get(row, "bytes")));
    assert_true(json_real_value(json_object_get(row, "value")) == 5);
    json_decref(rows);

    rows = rows_of("", message, sizeof message);
    assert_string_equal(message, "there is no report");
    json_decref(rows);
    rows = rows_of("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", message, sizeof message);
    assert_string_equal(message, "ERR_NVGPUCTRPERM - The user does not have permission");
    json_decref(rows);
    /* Rows that are cut or of another shape are none. */
    rows = rows_of("\"0\",\"77\",\"batch\n\"x\",\"1\"\n\"\n", message, sizeof message);
    assert_int_equal(json_array_size(rows), 0);
    assert_string_equal(message, "the report has no rows");
    json_decref(rows);
}

/* A program of that name that writes `body` into its --log-file. */
static void make_ncu(const char *body, int code)
{
    snprintf(path, sizeof path, "%s/ncu", top);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n[ \"$2\" = --log-file ] || exit 9\n"
            "cat > \"$3\" <<'END'\n%s%sEND\nexit %d\n",
            *body ? HEADER : "", body, code);
    fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
}

static json_t *run_ncu(const char *body, int code)
{
    char *before = strdup(getenv("PATH"));
    make_ncu(body, code);
    snprintf(path, sizeof path, "%s:%s", top, before);
    setenv("PATH", path, 1);
    json_t *file = run("profile/ncu.json", true);
    setenv("PATH", before, 1);
    free(before);
    assert_true(json_is_true(json_object_get(file, "found")));
    assert_int_equal(json_array_size(json_object_get(file, "cells")), 2 * (MODES + 1));
    return file;
}

#define KERNEL(id) \
    ROW(id, "k_spin", "dram__bytes_read.sum", "Kbyte", "1.5") ROW(id, "k_spin", "lts__t_bytes.sum", "byte", "64")

static void counts(void **state)
{
    enter(state);
    json_t *file = run_ncu(
        KERNEL("0") KERNEL("1") KERNEL("2") KERNEL("3") KERNEL("4") KERNEL("5") KERNEL("6") KERNEL("7") KERNEL("8"), 0);
    const json_t *cell = json_array_get(json_object_get(file, "cells"), 1),
                 *each = json_object_get(cell, "per_invocation");
    assert_string_equal(word(cell, "cache_control"), "none");
    assert_true(json_is_null(json_object_get(cell, "message")));
    assert_true(json_is_true(json_object_get(cell, "reconciled")));
    assert_true(json_number_value(json_object_get(each, "dram__bytes_read.sum")) == 4500);
    assert_true(json_number_value(json_object_get(each, "lts__t_bytes.sum")) == 192);
    assert_true(json_is_null(json_object_get(each, "dram__bytes_write.sum")));
    /* The record of the command says nothing of where things lie on this machine. */
    snprintf(path, sizeof path, "%s/run/commands.json", top);
    json_t *commands = json_load_file(path, 0, NULL);
    char *text = json_dumps(commands, 0);
    assert_non_null(text);
    assert_null(strstr(text, top));
    assert_null(strstr(text, "\"/"));
    assert_non_null(strstr(text, "\"exe\""));
    assert_non_null(strstr(text, "\"DIR.raw/"));
    free(text);
    json_decref(commands);
    /* The raw report lies beside the run, under its hash. */
    const json_t *raw = json_object_get(cell, "raw");
    snprintf(path, sizeof path, "%s/run.raw/%s.csv", top, word(raw, "sha256"));
    struct stat is;
    assert_int_equal(stat(path, &is), 0);
    assert_int_equal(is.st_size, number(raw, "bytes"));
    json_decref(file);
    leave();
}

/* Of kernels that are not all there no sum is one of an invocation. */
static void counts_some(void **state)
{
    enter(state);
    json_t *file = run_ncu(KERNEL("0") KERNEL("1"), 0);
    const json_t *cell = json_array_get(json_object_get(file, "cells"), 0);
    assert_string_equal(word(cell, "message"), "2 of 9 kernels were counted");
    assert_true(json_is_false(json_object_get(cell, "reconciled")));
    assert_true(json_is_null(json_object_get(json_object_get(cell, "per_invocation"), "lts__t_bytes.sum")));
    json_decref(file);
    leave();
}

static void counts_nothing(void **state)
{
    enter(state);
    json_t *file = run_ncu(ROW("0", "k_spin", "dram__bytes_read.sum", "byte", "n/a"), 0);
    const json_t *cell = json_array_get(json_object_get(file, "cells"), 0);
    assert_string_equal(word(cell, "message"), "none of the counters is finite");
    assert_true(json_is_false(json_object_get(cell, "reconciled")));
    json_decref(file);
    leave();
}

static void ncu_fails(void **state)
{
    enter(state);
    json_t *file = run_ncu("==ERROR== nothing may be counted\n", 1);
    const json_t *cell = json_array_get(json_object_get(file, "cells"), 0);
    assert_string_equal(word(cell, "message"), "nothing may be counted");
    assert_int_equal(number(cell, "exit_code"), 1);
    json_decref(file);
    leave();
}

static void ncu_missing(void **state)
{
    enter(state);
    char *before = strdup(getenv("PATH"));
    setenv("PATH", "/none", 1);
    json_t *file = run("profile/ncu.json", true);
    setenv("PATH", before, 1);
    free(before);
    assert_true(json_is_false(json_object_get(file, "found")));
    assert_non_null(strstr(word(file, "message"), "ncu-version.stderr"));
    json_decref(file);
    leave();
}

/* ---- a cell alone ---- */

static void a_cell_alone(void **state)
{
    enter(state);
    const b1i_lab_options options = {.device = b1i_device_at(0), .quick = true};
    const long live = b1i_alloc_live(), gpu_live = b1i_gpu_alloc_live();
    OK(b1i_profile_cell(&experiment, &options, "turns/graph", &err));
    assert_int_equal(b1i_profile_cell(&experiment, &options, "no/such", &err), B1_ARGUMENT);
    assert_non_null(strstr(err.message, "no/such"));
    assert_int_equal(b1i_profile_cell(&experiment, &options, "a/a spin/stream", &err), B1_ARGUMENT);
    assert_int_equal(b1i_alloc_live(), live);
    assert_int_equal(b1i_gpu_alloc_live(), gpu_live);
    leave();
}

/* ---- what is said of the records ---- */

static void count_line(void *lines, const char *line)
{
    ++*(int *)lines;
    assert_non_null(strstr(line, "of one does not follow"));
}

/* Counts, and that they are as expected, follow from the records. */
static void counts_are_of_the_records(void **state)
{
    (void)state;
    static const char *const text = "{'passes':[{'cells':[{'cell':'one','dropped':%d,'reconciled':%s,'message':%s,"
                                    "'expected':{'kernels':2,'memsets':1,'copies':0,'graphs':0},"
                                    "'seen':{'kernels':%d,'memsets':1,'copies':0,'graphs':0},"
                                    "'records':[{'did':'kernel'},{'did':'memset'},{'did':'kernel'}%s]}]}]}";
    static const struct {
        int dropped;
        const char *reconciled, *message;
        int kernels;
        const char *more;
        int lines;
    } cases[] = {
        {0, "true", "null", 2, "", 0},
        {1, "false", "'lost'", 2, "", 0},
        {0, "false", "'more'", 3, ",{'did':'kernel'}", 0},
        {0, "true", "null", 3, "", 1},
        {0, "true", "null", 3, ",{'did':'kernel'}", 1},
        {1, "true", "null", 2, "", 1},
        {0, "true", "'why'", 2, "", 1},
        {0, "false", "null", 2, "", 1},
        {0, "true", "null", 2, ",{'did':'copy'}", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1000];
        int lines = 0;
        snprintf(json, sizeof json, text, cases[i].dropped, cases[i].reconciled, cases[i].message, cases[i].kernels,
                 cases[i].more);
        for (char *c = json; *c; c++)
            if (*c == '\'') *c = '"';
        json_t *activities = json_loads(json, 0, NULL);
        assert_non_null(activities);
        b1i_profile_check(activities, count_line, &lines);
        if (lines != cases[i].lines) fail_msg("case %zu: %d lines", i, lines);
        json_decref(activities);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--without") == 0) return run_without();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports),     cmocka_unit_test(activities),     cmocka_unit_test(lost_records),
        cmocka_unit_test(refused),     cmocka_unit_test(missing),        cmocka_unit_test(counts),
        cmocka_unit_test(counts_some), cmocka_unit_test(counts_nothing), cmocka_unit_test(ncu_fails),
        cmocka_unit_test(ncu_missing), cmocka_unit_test(a_cell_alone),   cmocka_unit_test(counts_are_of_the_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
