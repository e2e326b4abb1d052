/* SPDX-License-Identifier: MIT
 *
 * What follows from samples: quantiles, their intervals and the bootstrap against numpy and scipy; verdicts, marks and
 * traces of made-up runs; and what is refused.
 */
#include "lab/analysis.h"
#include "lab/samples.h"
#include "lab/stats.h"
#include "lab/trace_room.h"
#include "tests/lab_fake.h"
#include "tests/stats_cases.h"

#include <math.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define NEAR(a, b)  assert_true(fabs((a) - (b)) <= 1e-12 * fmax(1, fabs((double)(b))))
#define HAS(part)   assert_non_null(strstr(err.message, part))
#define KIND_COUNT  ((int)b1i_lab_kinds)

/* ---- statistics ---- */

static void percentiles_are_numpys(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(percentile_cases); i++) {
        const struct percentile_case *c = &percentile_cases[i];
        const double p[] = {10, 50, 90, 97.5}, q[] = {c->p10, c->p50, c->p90, c->p97_5};
        for (int k = 0; k < 4; k++) {
            double values[64];
            memcpy(values, c->values, sizeof values);
            NEAR(b1i_percentile(values, c->count, p[k]), q[k]);
        }
    }
}

static void intervals_of_percentiles_are_binomial(void **state)
{
    (void)state;
    size_t low, high;
    for (size_t i = 0; i < COUNT(interval_cases); i++) {
        const struct interval_case *c = &interval_cases[i];
        b1i_percentile_interval(c->count, c->p, &low, &high);
        assert_int_equal(low, c->low);
        assert_int_equal(high, c->high);
    }
    b1i_percentile_interval(0, 90, &low, &high);
    assert_true(low == 0 && high == 0);
    b1i_percentile_interval(50, 100, &low, &high);
    assert_true(low == 0 && high == 0);
}

static void bootstrap_intervals_are_numpys(void **state)
{
    (void)state;
    double *work = malloc(20000 * sizeof *work), low, high, again;
    for (size_t i = 0; i < COUNT(bootstrap_cases); i++) {
        const struct bootstrap_case *c = &bootstrap_cases[i];
        b1i_bootstrap_ratio(c->a, c->b, c->count, c->resamples, c->seed, work, &low, &high);
        NEAR(low, c->low);
        NEAR(high, c->high);
        b1i_bootstrap_ratio(c->a, c->b, c->count, c->resamples, c->seed, work, &again, &high);
        assert_true(again == low);
    }
    const double zeros[3] = {0};
    b1i_bootstrap_ratio(zeros, zeros, 3, 10, 1, work, &low, &high);
    assert_true(isnan(low) && isnan(high));
    b1i_bootstrap_ratio(zeros, zeros, 0, 10, 1, work, &low, &high);
    assert_true(isnan(low) && isnan(high));
    free(work);
}

/* ---- made-up runs ---- */

/* What a made-up run holds: a cell's time in a round. */
typedef struct made {
    double (*ns)(int cell, int kind, int round);
    double (*mhz)(int cell, int round); /* NULL: a CPU's */
    int throttles_in;                   /* a round in which the CPU throttled; 0: none */
    int rounds, cells;
    bool twin;              /* the last cell repeats the first */
    b1i_cell_status status; /* of the last cell */
} made;

static void add_cell(b1i_lab_plan *plan, const char *name)
{
    b1i_lab_plan_cell c = {
        .facts = json_pack("{s:I}", "bytes", (json_int_t)8000), .kinds = 7, .depth = 10, .twin_of = -1};
    c.name = b1i_strdup(name);
    assert_true(b1i_grow(&plan->cells, &plan->room, plan->count + 1, sizeof *plan->cells));
    plan->cells[plan->count++] = c;
}

static void write_json(const char *folder, const char *name, json_t *j)
{
    char *text = json_dumps(j, JSON_REAL_PRECISION(17));
    put_text(folder, name, text);
    free(text);
    json_decref(j);
}

static void make_plan(const made *m, b1i_lab_plan *plan)
{
    *plan = (b1i_lab_plan){.rounds = m->rounds, .seed = 99, .warm_mhz = m->mhz ? 1980 : 0};
    snprintf(plan->run, sizeof plan->run, "made");
    snprintf(plan->device, sizeof plan->device, "%s", m->mhz ? "cuda:0" : "cpu");
    plan->experiment = b1i_strdup("made-up");
    plan->device_name = b1i_strdup("a device");
    for (int i = 0; i < m->cells; i++) {
        char name[32];
        snprintf(name, sizeof name, "cell=%d", i);
        add_cell(plan, name);
    }
    b1i_lab_plan_cell *last = &plan->cells[m->cells - 1];
    if (m->twin) last->twin_of = 0;
    last->status = m->status;
    if (m->status != b1i_cell_ok) last->message = b1i_strdup("it cannot");
}

/* The folder home/made with its plan and samples. */
static const char *make_run(const made *m)
{
    b1i_lab_plan plan;
    const char *folder = at("made");
    char text[B1I_SAMPLE_TEXT], *path;
    make_plan(m, &plan);
    remove_all(folder);
    if (mkdir(folder, 0700) != 0) abort();
    write_json(folder, "plan.json", b1i_lab_plan_json(&plan));
    path = b1i_lab_join(folder, "samples.jsonl");
    FILE *f = fopen(path, "wb");
    size_t order[16];
    if (!f) abort();
    for (int round = 1; round <= m->rounds; round++) {
        size_t count = b1i_lab_plan_order(&plan, round, order);
        for (size_t i = 0; i < count; i++)
            for (int k = 0; k < KIND_COUNT; k++) {
                int cell = (int)order[i];
                b1i_sample s = {.cell = (uint32_t)cell,
                                .kind = (b1i_lab_kind)k,
                                .round = round,
                                .ns = m->ns(cell, k, round),
                                .sm_mhz = m->mhz ? m->mhz(cell, round) : 0,
                                .cpu_throttles = round == m->throttles_in ? 2 : 0};
                fwrite(text, 1, b1i_sample_text(&plan, &s, text), f);
            }
    }
    fclose(f);
    b1i_free(path);
    b1i_lab_plan_free(&plan);
    return folder;
}

static json_t *analyse(const made *m)
{
    json_t *a = NULL;
    b1_status st = b1i_analysis_make(make_run(m), &a, &err);
    if (st != B1_OK) fail_msg("%s", err.message);
    return a;
}

static const json_t *row_of(const json_t *analysis, int cell, int kind)
{
    return json_array_get(json_object_get(analysis, "cells"), (size_t)(cell * KIND_COUNT + kind));
}
static double figure(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}
static const char *word(const json_t *row, const char *key) { return json_string_value(json_object_get(row, key)); }
static bool is_null(const json_t *row, const char *key) { return json_is_null(json_object_get(row, key)); }

/* Within 1 % of its middle, without a trend. */
static double steady(int cell, int kind, int round)
{
    static const double of[] = {1000, 100, 800};
    return of[kind] * (1 + cell) * (1 + 0.001 * (round * 7 % 11));
}
static double noisy(int cell, int kind, int round) { return steady(cell, kind, round) * (round % 2 ? 1 : 1.4); }
static double drifting(int cell, int kind, int round) { return steady(cell, kind, round) * (1 + 0.004 * round); }
/* Rises by as much, but scatters more than it rises. */
static double wide(int cell, int kind, int round) { return drifting(cell, kind, round) * (round % 2 ? 1 : 1.15); }
static double host_bound(int cell, int kind, int round)
{
    return kind == b1i_device_interval ? 104 * (1 + 0.01 * cell) * (1 + 0 * round) : steady(0, kind, 11);
}

static void a_steady_cell_is_ok(void **state)
{
    (void)state;
    json_t *a = analyse(&(made){.ns = steady, .rounds = 21, .cells = 2});
    assert_string_equal(word(a, "experiment"), "made-up");
    assert_int_equal(json_array_size(json_object_get(a, "cells")), 6);
    const json_t *row = row_of(a, 1, b1i_host_single), *interval = json_object_get(row, "p90_interval_ns");
    assert_string_equal(word(row, "cell"), "cell=1");
    assert_string_equal(word(row, "kind"), "host_single");
    assert_string_equal(word(row, "verdict"), "ok");
    assert_true(is_null(row, "message") && is_null(row, "sm_mhz"));
    /* (round · 7) mod 11 of 21 rounds: every rest twice but 0. */
    NEAR(figure(row, "median_ns"), 2010);
    NEAR(figure(row, "p10_ns"), 2002);
    NEAR(figure(row, "p90_ns"), 2018);
    NEAR(json_number_value(json_array_get(interval, 0)), 2016); /* the sixteenth of 21 in order */
    assert_true(json_is_null(json_array_get(interval, 1)));
    NEAR(figure(row, "gbps"), 8000.0 / 2010);
    assert_true(is_null(row_of(a, 1, b1i_host_enqueue), "gbps"));
    assert_int_equal(figure(row, "n"), 21);
    assert_int_equal(figure(row, "depth"), 1);
    assert_int_equal(figure(row_of(a, 0, b1i_device_interval), "depth"), 10);
    assert_int_equal(figure(row, "throttled"), 0);
    json_decref(a);
}

static void many_samples_need_no_interval(void **state)
{
    (void)state;
    json_t *a = analyse(&(made){.ns = steady, .rounds = 63, .cells = 1});
    const json_t *interval = json_object_get(row_of(a, 0, 0), "p90_interval_ns");
    assert_true(json_is_number(json_array_get(interval, 0)) && json_is_number(json_array_get(interval, 1)));
    json_decref(a);
    a = analyse(&(made){.ns = steady, .rounds = 64, .cells = 1});
    assert_null(json_object_get(row_of(a, 0, 0), "p90_interval_ns"));
    json_decref(a);
}

static void verdicts_follow_the_samples(void **state)
{
    (void)state;
    const struct {
        double (*ns)(int cell, int kind, int round);
        const char *verdict;
    } cases[] = {{steady, "ok"}, {noisy, "noisy"}, {drifting, "drifting"}, {wide, "noisy"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *a = analyse(&(made){.ns = cases[i].ns, .rounds = 30, .cells = 1});
        assert_string_equal(word(row_of(a, 0, 0), "verdict"), cases[i].verdict);
        json_decref(a);
    }
}

static double falls_once(int cell, int round) { return cell == 1 && round == 5 ? 1841 : 1980; }
static double falls_less(int cell, int round) { return cell == 1 && round == 5 ? 1842 : 1980; }

static void a_throttled_sample_is_marked(void **state)
{
    (void)state;
    /* 93 % of 1980 is 1841.4. */
    json_t *a = analyse(&(made){.ns = steady, .mhz = falls_once, .rounds = 21, .cells = 2});
    assert_string_equal(word(row_of(a, 0, 0), "verdict"), "ok");
    NEAR(figure(row_of(a, 1, 0), "sm_mhz"), 1980);
    for (int k = 0; k < KIND_COUNT; k++) {
        assert_string_equal(word(row_of(a, 1, k), "verdict"), "throttled");
        assert_int_equal(figure(row_of(a, 1, k), "throttled"), 1);
        assert_int_equal(figure(row_of(a, 1, k), "n"), 21); /* marked, not dropped */
    }
    json_decref(a);
    char *text = text_of(at("made"), "samples.jsonl");
    int marks = 0;
    for (const char *c = text; (c = strstr(c, "\"throttled\":true")); c++) marks++;
    assert_int_equal(marks, KIND_COUNT);
    b1i_free(text);
    a = analyse(&(made){.ns = steady, .mhz = falls_less, .rounds = 21, .cells = 2});
    assert_string_equal(word(row_of(a, 1, 0), "verdict"), "ok");
    json_decref(a);
    a = analyse(&(made){.ns = drifting, .throttles_in = 3, .rounds = 21, .cells = 2});
    assert_string_equal(word(row_of(a, 0, 0), "verdict"), "throttled");
    assert_string_equal(word(row_of(a, 1, 2), "verdict"), "throttled");
    json_decref(a);
}

static void an_interval_that_is_the_hosts_is_marked(void **state)
{
    (void)state;
    /* Enqueue is 100 ns; the cells' intervals are 104, 105.04, 106.08. */
    json_t *a = analyse(&(made){.ns = host_bound, .rounds = 21, .cells = 3});
    for (int cell = 0; cell < 3; cell++)
        for (int k = 0; k < KIND_COUNT; k++)
            assert_int_equal(json_is_true(json_object_get(row_of(a, cell, k), "host_bound")),
                             cell == 0 && k == b1i_device_interval);
    json_decref(a);
}

static void cells_without_figures_stay(void **state)
{
    (void)state;
    for (int s = b1i_cell_unsupported; s < b1i_cell_statuses; s++) {
        json_t *a = analyse(&(made){.ns = steady, .rounds = 21, .cells = 2, .status = (b1i_cell_status)s});
        assert_int_equal(json_array_size(json_object_get(a, "cells")), 6);
        for (int k = 0; k < KIND_COUNT; k++) {
            const json_t *row = row_of(a, 1, k);
            assert_string_equal(word(row, "verdict"), b1i_cell_status_names[s]);
            assert_string_equal(word(row, "message"), "it cannot");
            assert_int_equal(figure(row, "n"), 0);
            assert_true(is_null(row, "median_ns") && is_null(row, "p10_ns") && is_null(row, "p90_ns"));
            assert_int_equal(figure(row_of(a, 0, k), "n"), 21);
        }
        json_decref(a);
    }
}

static double twin_is_two_percent_slower(int cell, int kind, int round)
{
    return steady(0, kind, round) * (cell == 1 ? 1.02 : 1);
}

static void a_twin_gives_a_ratio_with_its_interval(void **state)
{
    (void)state;
    json_t *a = analyse(&(made){.ns = twin_is_two_percent_slower, .rounds = 21, .cells = 2, .twin = true});
    const json_t *pairs = json_object_get(a, "a_a");
    assert_int_equal(json_array_size(pairs), KIND_COUNT);
    for (size_t k = 0; k < (size_t)KIND_COUNT; k++) {
        const json_t *pair = json_array_get(pairs, k), *interval = json_object_get(pair, "interval");
        assert_string_equal(word(pair, "cell"), "cell=0");
        assert_string_equal(word(pair, "twin"), "cell=1");
        assert_true(fabs(figure(pair, "ratio") - 1.02) < 1e-4);
        /* Paired rounds: the ratio is the same in each resample. */
        assert_true(fabs(json_number_value(json_array_get(interval, 0)) - 1.02) < 1e-3);
        assert_true(fabs(json_number_value(json_array_get(interval, 1)) - 1.02) < 1e-3);
        assert_int_equal(figure(pair, "resamples"), 10000);
    }
    json_decref(a);
    a = analyse(&(made){.ns = steady, .rounds = 21, .cells = 2, .twin = true, .status = b1i_cell_failed});
    assert_int_equal(json_array_size(json_object_get(a, "a_a")), 0);
    json_decref(a);
}

/* ---- traces ---- */

static const b1i_trace_span SPANS[] = {
    {0, 7, 'A', 1000, 1500}, {1, 9, 'A', 1100, 1900}, {0, 7, 'B', 1500, 1700},
    {1, 9, 'B', 1900, 2600}, {2, 7, 'A', 1700, 1800}, {2, 9, 'B', 2600, 2700},
};

static void traces_are_counted(void **state)
{
    (void)state;
    const char *folder = make_run(&(made){.ns = steady, .rounds = 21, .cells = 2});
    if (mkdir(at("made/traces"), 0700) != 0) abort();
    put_text(folder, "traces/cell-1.csv",
             "job,stage,unit,begin_ns,end_ns\n0,A,7,1000,1500\n1,A,9,1100,1900\n0,B,7,1500,1700\n1,B,9,1900,2600\n"
             "2,A,7,1700,1800\n2,B,9,2600,2700\n");
    put_text(folder, "traces/of-nothing.csv", "job,stage,unit,begin_ns,end_ns\n5,A,1,10,20\n");
    json_t *a = NULL;
    assert_int_equal(b1i_analysis_make(folder, &a, &err), B1_OK);
    const json_t *traces = json_object_get(a, "traces"), *t = json_array_get(traces, 0);
    assert_int_equal(json_array_size(traces), 2);
    assert_string_equal(word(t, "file"), "traces/cell-1.csv");
    assert_string_equal(word(t, "cell"), "cell=1");
    assert_int_equal(figure(t, "jobs"), 3);
    assert_int_equal(figure(t, "units"), 2);
    assert_int_equal(figure(t, "early_jobs"), 1); /* the last A ends at 1900 */
    assert_int_equal(figure(t, "span_ns"), 1700);
    assert_true(json_is_true(json_object_get(t, "complete")) && json_is_true(json_object_get(t, "ordered")));
    NEAR(figure(t, "ratio"), 1700 / figure(row_of(a, 1, b1i_device_interval), "median_ns"));
    t = json_array_get(traces, 1);
    assert_true(is_null(t, "cell") && is_null(t, "untraced_ns") && is_null(t, "ratio"));
    assert_true(json_is_false(json_object_get(t, "complete")));
    json_decref(a);
}

static void spans_that_are_not_whole_are_told(void **state)
{
    (void)state;
    b1i_trace_span spans[6];
    static const struct {
        b1i_trace_span with;
        int at;
        bool complete, ordered;
    } cases[] = {
        {{1, 9, 'A', 1900, 2600}, 3, false, false}, /* two As */
        {{4, 9, 'B', 1900, 2600}, 3, false, false}, /* of a job that is not there */
        {{1, 9, 'B', 1899, 2600}, 3, true, false},  /* begins before its A ends */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        memcpy(spans, SPANS, sizeof spans);
        spans[cases[i].at] = cases[i].with;
        json_t *facts = b1i_trace_facts(spans, 6);
        assert_int_equal(json_is_true(json_object_get(facts, "complete")), cases[i].complete);
        assert_int_equal(json_is_true(json_object_get(facts, "ordered")), cases[i].ordered);
        json_decref(facts);
    }
    json_t *none = b1i_trace_facts(SPANS, 0);
    assert_true(json_is_false(json_object_get(none, "complete")));
    json_decref(none);
}

static void perfetto_counts_from_the_first_a(void **state)
{
    (void)state;
    char *text;
    size_t bytes;
    assert_int_equal(b1i_trace_perfetto(SPANS, 6, &text, &bytes, &err), B1_OK);
    json_t *j = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
    const json_t *event = json_array_get(json_object_get(j, "traceEvents"), 3);
    assert_int_equal(json_array_size(json_object_get(j, "traceEvents")), 6);
    assert_string_equal(word(event, "name"), "B 1");
    NEAR(figure(event, "ts"), 0.9);
    NEAR(figure(event, "dur"), 0.7);
    assert_int_equal(figure(event, "tid"), 9);
    json_decref(j);
    b1i_free(text);
}

static void traces_that_are_cut_are_refused(void **state)
{
    (void)state;
    static const char whole[] = "job,stage,unit,begin_ns,end_ns\n0,A,7,1000,1500\n12,B,9,1100,1900\n";
    static const char *const wrong[] = {
        "",
        "job,stage,unit,begin_ns\n",
        "job,stage,unit,begin_ns,end_ns\n0,C,7,1000,1500\n",
        "job,stage,unit,begin_ns,end_ns\n0,A,7,1500,1000\n",
        "job,stage,unit,begin_ns,end_ns\n-1,A,7,1000,1500\n",
        "job,stage,unit,begin_ns,end_ns\n0,A,7,1000,1500 \n",
        "job,stage,unit,begin_ns,end_ns\n0,A,7,1000,1500,2\n",
        "job,stage,unit,begin_ns,end_ns\n4294967296,A,7,1000,1500\n",
        "job,stage,unit,begin_ns,end_ns\n0,A,7,1000,99999999999999999999\n",
        "job,stage,unit,begin_ns,end_ns\n0,A,07,1000,1500\n",
        "job,stage,unit,begin_ns,end_ns\n\n",
    };
    b1i_trace_span *spans;
    size_t count;
    for (size_t bytes = 0; bytes <= sizeof whole - 1; bytes++) {
        put_bytes(home, "t.csv", whole, bytes);
        b1_status st = b1i_trace_read(at("t.csv"), &spans, &count, &err);
        size_t lines = 0;
        for (size_t i = 0; i < bytes; i++) lines += whole[i] == '\n';
        bool good = bytes > 0 && whole[bytes - 1] == '\n';
        assert_int_equal(st, good ? B1_OK : B1_IO);
        if (good) assert_int_equal(count, lines - 1);
        b1i_free(spans);
    }
    for (size_t i = 0; i < COUNT(wrong); i++) {
        put_text(home, "t.csv", wrong[i]);
        assert_int_equal(b1i_trace_read(at("t.csv"), &spans, &count, &err), B1_IO);
        assert_null(spans);
    }
    assert_int_equal(b1i_trace_read(at("nothing.csv"), &spans, &count, &err), B1_IO);
}

/* ---- what is refused ---- */

/* Replaces the first `from` of a file by `to`. */
static void replace(const char *folder, const char *name, const char *from, const char *to)
{
    char *text = text_of(folder, name), *where = strstr(text, from);
    size_t room = strlen(text) + strlen(to) + 1;
    char *changed = malloc(room);
    assert_non_null(where);
    snprintf(changed, room, "%.*s%s%s", (int)(where - text), text, to, where + strlen(from));
    put_text(folder, name, changed);
    free(changed);
    b1i_free(text);
}

static void samples_must_be_the_plans(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *sentence;
    } cases[] = {
        {"host_single", "host_queue", "line 1: is host_queue"},
        {"\"round\":1,", "\"round\":2,", "line 1: is host_single"},
        {"\"round\":21,", "\"round\":22,", "round 22"},
        {"{\"cell\":\"cell=", "{\"cell\":\"cello", "line 1"},
        {"\"ns\":", "\"ns\":-", "line 1: ns is no time"},
        {"\"ns\":", "\"ms\":", "line 1: a key is missing"},
        {"\"ns\":", "\"extra\":1,\"ns\":", "line 1: a key is missing, of another type, or unknown"},
        {"\"ns\":", "\"ns\":5,\"ns\":", "line 1: is no valid JSON"},
        {"}\n", ",\"throttled\":true}\n", "line 1: \"throttled\" does not follow"},
        {"}\n", ",\"sm_mhz\":0}\n", "line 1: a clock"},
        {"}\n", "}", "line 1"},
        {"}\n", "}\n\n", "line 2"},
    };
    const made m = {.ns = steady, .rounds = 21, .cells = 2};
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *a = NULL;
        const char *folder = make_run(&m);
        replace(folder, "samples.jsonl", cases[i].from, cases[i].to);
        assert_int_equal(b1i_analysis_make(folder, &a, &err), B1_IO);
        assert_null(a);
        if (!strstr(err.message, cases[i].sentence)) fail_msg("case %zu: %s", i, err.message);
    }
}

/* Where the plan has a clock, a row without one is a throttled one that hides. */
static void clocks_cannot_be_left_out(void **state)
{
    (void)state;
    json_t *a = NULL;
    const char *folder = make_run(&(made){.ns = steady, .mhz = falls_less, .rounds = 21, .cells = 2});
    char *text = text_of(folder, "samples.jsonl"), *from = strstr(text, ",\"sm_mhz\""), *to = strpbrk(from + 1, ",}");
    memmove(from, to, strlen(to) + 1);
    put_text(folder, "samples.jsonl", text);
    b1i_free(text);
    assert_int_equal(b1i_analysis_make(folder, &a, &err), B1_IO);
    HAS("line 1: has no clock");
}

static void a_missing_row_is_missed(void **state)
{
    (void)state;
    const char *folder = make_run(&(made){.ns = steady, .rounds = 21, .cells = 2});
    char *text = text_of(folder, "samples.jsonl");
    json_t *a;
    size_t bytes = strlen(text), last = bytes - 1;
    while (text[last - 1] != '\n') last--;
    put_bytes(folder, "samples.jsonl", text, last); /* the last row */
    assert_int_equal(b1i_analysis_make(folder, &a, &err), B1_IO);
    HAS("21 rounds of 6 rows");
    put_bytes(folder, "samples.jsonl", text, bytes - 1); /* the last line end */
    assert_int_equal(b1i_analysis_make(folder, &a, &err), B1_IO);
    put_bytes(folder, "samples.jsonl", text, 0);
    assert_int_equal(b1i_analysis_make(folder, &a, &err), B1_IO);
    char *more = malloc(2 * bytes + 1);
    size_t first = (size_t)(strchr(text, '\n') + 1 - text);
    snprintf(more, 2 * bytes + 1, "%s%s", text, text);
    put_bytes(folder, "samples.jsonl", more, bytes + first); /* a row too many */
    assert_int_equal(b1i_analysis_make(folder, &a, &err), B1_IO);
    free(more);
    b1i_free(text);
}

static void a_plan_must_be_whole(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"batchone.plan/1", "batchone.plan/9"},
        {"\"rounds\": 21", "\"rounds\": 20"},
        {"\"rounds\": 21", "\"rounds\": \"21\""},
        {"\"quick\"", "\"quack\""},
        {"\"depth\": 10", "\"depth\": 0"},
        {"\"cell=1\"", "\"cell=0\""},
        {"\"status\": \"ok\"", "\"status\": \"fine\""},
        {"\"status\": \"ok\"", "\"status\": \"failed\""},
        {"\"twin_of\": null", "\"twin_of\": \"cell=1\""},
        {"\"kinds\": [\"host_single\"", "\"kinds\": [\"host_enqueue\""},
        {"\"seed\": 99", "\"seed\": -99"},
        {"\"seed\": 99", "\"seed\": 99, \"seed\": 99"},
        {"\"seed\": 99", "\"more\": 1, \"seed\": 99"},
        {"\"facts\": {", "\"facts\": [], \"facts2\": {"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *a;
        const char *folder = make_run(&(made){.ns = steady, .rounds = 21, .cells = 2});
        replace(folder, "plan.json", cases[i][0], cases[i][1]);
        b1_status st = b1i_analysis_make(folder, &a, &err);
        if (st != B1_IO || !strstr(err.message, "plan.json")) fail_msg("case %zu: %d %s", i, st, err.message);
    }
    remove_all(at("made"));
    json_t *a;
    assert_int_equal(b1i_analysis_make(at("made"), &a, &err), B1_IO);
}

/* ---- comparing ---- */

static int lines;
static void count_line(void *user, const char *line)
{
    (void)user;
    (void)line;
    lines++;
}

static void differences_are_told_one_by_one(void **state)
{
    (void)state;
    json_t *a = analyse(&(made){.ns = steady, .rounds = 21, .cells = 2}), *b = json_deep_copy(a);
    lines = 0;
    assert_true(b1i_analysis_equal(b, a, count_line, NULL));
    assert_int_equal(lines, 0);
    json_t *row = json_array_get(json_object_get(b, "cells"), 2);
    json_object_set_new(row, "median_ns", json_real(figure(row, "median_ns") * (1 + 1e-12)));
    assert_true(b1i_analysis_equal(b, a, count_line, NULL)); /* another machine's arithmetic */
    json_object_set_new(row, "median_ns", json_real(figure(row, "median_ns") * (1 + 1e-6)));
    json_object_set_new(row, "n", json_integer(22));
    json_object_set_new(row, "more", json_true());
    json_object_del(row, "depth");
    json_array_remove(json_object_get(b, "cells"), 5);
    assert_false(b1i_analysis_equal(b, a, count_line, NULL));
    assert_int_equal(lines, 5);
    json_decref(a);
    json_decref(b);
}

/* ---- memory ---- */

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    const char *folder = make_run(&(made){.ns = steady, .rounds = 21, .cells = 1});
    if (mkdir(at("made/traces"), 0700) != 0) abort();
    put_text(folder, "traces/cell-0.csv", "job,stage,unit,begin_ns,end_ns\n0,A,7,1000,1500\n0,B,7,1500,1501\n");
    json_set_alloc_funcs(b1i_malloc, b1i_free);
    long refused = 0;
    for (long n = 0;; n += n < 300 ? 1 : 37) {
        json_t *a = NULL;
        long alive = b1i_alloc_live();
        b1i_alloc_fail_at(n);
        b1_status st = b1i_analysis_make(folder, &a, &err);
        b1i_alloc_fail_at(-1);
        json_decref(a);
        if (b1i_alloc_live() != alive) fail_msg("allocation %ld: %ld are left", n, b1i_alloc_live() - alive);
        if (st == B1_OK) break;
        if (st != B1_MEMORY && st != B1_IO) fail_msg("allocation %ld: %s", n, err.message);
        refused++;
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(refused > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_numpys),
        cmocka_unit_test(intervals_of_percentiles_are_binomial),
        cmocka_unit_test(bootstrap_intervals_are_numpys),
        cmocka_unit_test(a_steady_cell_is_ok),
        cmocka_unit_test(many_samples_need_no_interval),
        cmocka_unit_test(verdicts_follow_the_samples),
        cmocka_unit_test(a_throttled_sample_is_marked),
        cmocka_unit_test(an_interval_that_is_the_hosts_is_marked),
        cmocka_unit_test(cells_without_figures_stay),
        cmocka_unit_test(a_twin_gives_a_ratio_with_its_interval),
        cmocka_unit_test(traces_are_counted),
        cmocka_unit_test(spans_that_are_not_whole_are_told),
        cmocka_unit_test(perfetto_counts_from_the_first_a),
        cmocka_unit_test(traces_that_are_cut_are_refused),
        cmocka_unit_test(samples_must_be_the_plans),
        cmocka_unit_test(clocks_cannot_be_left_out),
        cmocka_unit_test(a_missing_row_is_missed),
        cmocka_unit_test(a_plan_must_be_whole),
        cmocka_unit_test(differences_are_told_one_by_one),
        cmocka_unit_test(no_allocation_may_fail_unseen),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
