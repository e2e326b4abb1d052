/* SPDX-License-Identifier: MIT
 *
 * Two studies compared: what is matched, the verdicts, and a planted slowdown in directories that verify, whose cells
 * are documents as a measurement makes them, of times that were made up.
 */
#include "lab/compare.h"
#include "lab/study/cell.h"
#include "lab/study/measure.h"
#include "lab/study/plan.h"
#include "tests/lab_fake.h"

#include <math.h>

#define OK(call)                                          \
    do {                                                  \
        if ((call) != B1_OK) fail_msg("%s", err.message); \
    } while (0)
#define HAS(part) assert_non_null(strstr(err.message, part))
#define COUNT(x)  (sizeof(x) / sizeof *(x))

/* A number of [−1, 1), the same each time. */
static double noise(uint64_t i) { return (double)(b1i_mix64(i) >> 11) / (double)(1ull << 52) - 1; }

/* ---- analyses by hand ---- */

typedef struct side {
    int sessions;
    double ms, ceiling; /* R_ceiling */
    double scatter;     /* of both, relative */
    int threads;        /* 0: 2 */
    const char *stack;  /* version */
    bool fails;
    int drifting, throttled; /* the first sessions, and those after them */
} side;

#define SIDE(count, time, high, spread, ...)                                           \
    {                                                                                  \
        .sessions = count, .ms = time, .ceiling = high, .scatter = spread, __VA_ARGS__ \
    }

static json_t *row(const side *s, int session, const char *model, int context)
{
    double off = 1 + s->scatter * noise((uint64_t)session * 31 + (uint64_t)s->threads);
    const char *verdict = session <= s->drifting                  ? "drifting"
                          : session <= s->drifting + s->throttled ? "throttled"
                                                                  : "ok";
    return json_pack("{s:s,s:s,s:s,s:s,s:i,s:i,s:s,s:i,s:s?,s:i,s:s,s:s?,s:o,s:o,s:s?}", "model", model, "architecture",
                     "llama", "weights", "bf16", "executor", "fused", "context", context, "batch", 1, "device_name",
                     "d", "threads", s->threads ? s->threads : 2, "stack_version", s->stack, "session", session,
                     "status", s->fails ? "failed" : "ok", "verdict", s->fails ? NULL : verdict, "t_obs_ms",
                     s->fails ? json_null() : json_real(s->ms * off), "r_ceiling",
                     s->fails ? json_null() : json_real(s->ceiling / off), "message", s->fails ? "it broke" : NULL);
}

static json_t *analysis_of(const side *s, const char *model, int context)
{
    json_t *cells = json_array();
    for (int i = 1; i <= s->sessions; i++) json_array_append_new(cells, row(s, i, model, context));
    return json_pack("{s:o}", "cells", cells);
}

static json_t *compared(const side *before, const side *after)
{
    json_t *one = analysis_of(before, "m", 128), *two = analysis_of(after, "m", 128), *out;
    OK(b1i_compare_analyses(one, two, &out, &err));
    json_decref(one);
    json_decref(two);
    return out;
}

static const json_t *group(const json_t *document, size_t i)
{
    return json_array_get(json_object_get(document, "groups"), i);
}

static const char *text(const json_t *j, const char *key)
{
    const char *value = json_string_value(json_object_get(j, key));
    return value ? value : "";
}

static double item(const json_t *j, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(j, key), i));
}

static void verdicts_need_both_time_and_ceiling(void **state)
{
    (void)state;
    static const struct {
        side before, after;
        const char *verdict, *message;
    } cases[] = {
        {SIDE(6, 10, 0.8, 0.01), SIDE(6, 10, 0.8, 0.01), "same", ""},
        {SIDE(6, 10, 0.8, 0.01), SIDE(6, 12, 0.66, 0.01), "regression", ""},
        {SIDE(6, 12, 0.66, 0.01), SIDE(6, 10, 0.8, 0.01), "faster", ""},
        {SIDE(6, 10, 0.8, 0.01), SIDE(6, 12, 0.8, 0.01), "undecided", "slower by time"},
        {SIDE(6, 10, 0.8, 0.01), SIDE(6, 10.7, 0.75, 0.05), "undecided", "scatter"},
        {SIDE(6, 10, 0.8, 0.001), SIDE(6, 10.4, 0.77, 0.001), "same", ""},
        {SIDE(4, 10, 0.8, 0.01), SIDE(6, 20, 0.4, 0.01), "undecided", "4 and 6"},
        {SIDE(6, 10, 0.8, 0.01), SIDE(4, 20, 0.4, 0.01), "undecided", "6 and 4"},
        {SIDE(5, 10, 0.8, 0.01), SIDE(5, 20, 0.4, 0.01), "regression", ""},
        {SIDE(1, 10, 0.8, 0), SIDE(1, 20, 0.4, 0), "undecided", "1 and 1"},
        {SIDE(6, 10, 0.8, 0.01), SIDE(6, 0, 0, 0, .fails = true), "not measured",
         "new study has no figures of it: it broke"},
        {SIDE(6, 0, 0, 0, .fails = true), SIDE(6, 10, 0.8, 0.01), "not measured", "old study"},
        {SIDE(6, 10, 0.8, 0.01), SIDE(6, 20, 0.4, 0.01, .threads = 1), "regression", ""},
        {SIDE(6, 10, 0.8, 0.01, .stack = "1"), SIDE(6, 20, 0.4, 0.01, .stack = "2"), "regression", ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *j = compared(&cases[i].before, &cases[i].after);
        const json_t *g = group(j, 0);
        if (strcmp(text(g, "verdict"), cases[i].verdict) != 0 || !strstr(text(g, "message"), cases[i].message))
            fail_msg("case %zu: %s: %s", i, text(g, "verdict"), text(g, "message"));
        assert_int_equal(json_integer_value(json_object_get(j, "regressions")),
                         strcmp(cases[i].verdict, "regression") == 0);
        json_decref(j);
    }
}

/* Sessions that drift or were throttled stay in, and are counted. */
static void what_was_not_steady_is_counted(void **state)
{
    (void)state;
    const side before = SIDE(6, 10, 0.8, 0.01, .drifting = 2, .throttled = 1),
               after = SIDE(7, 12, 0.66, 0.01, .throttled = 4);
    json_t *j = compared(&before, &after);
    const json_t *g = group(j, 0);
    static const struct {
        const char *key;
        int old, new;
    } counts[] = {{"sessions", 6, 7}, {"drifting", 2, 0}, {"throttled", 1, 4}};
    for (size_t i = 0; i < COUNT(counts); i++) {
        assert_int_equal(item(g, counts[i].key, 0), counts[i].old);
        assert_int_equal(item(g, counts[i].key, 1), counts[i].new);
    }
    assert_string_equal(text(g, "verdict"), "regression");
    json_decref(j);
}

static void ratios_are_new_over_old(void **state)
{
    (void)state;
    const side before = SIDE(6, 10, 0.8, 0.01), after = SIDE(8, 20, 0.4, 0.01, .threads = 1);
    json_t *j = compared(&before, &after);
    const json_t *g = group(j, 0);
    assert_true(fabs(json_number_value(json_object_get(g, "time_ratio")) - 2) < 0.02);
    assert_true(fabs(json_number_value(json_object_get(g, "ceiling_ratio")) - 0.5) < 0.01);
    assert_true(item(g, "time_interval", 0) > 1.9 && item(g, "time_interval", 0) < item(g, "time_interval", 1));
    assert_true(item(g, "ceiling_interval", 1) < 0.52);
    assert_int_equal(item(g, "sessions", 0), 6);
    assert_int_equal(item(g, "sessions", 1), 8);
    assert_int_equal(item(g, "threads", 0), 2);
    assert_int_equal(item(g, "threads", 1), 1);
    assert_true(fabs(item(g, "t_obs_ms", 1) - 20) < 0.2);
    json_decref(j);
}

static void what_has_no_counterpart_is_named(void **state)
{
    (void)state;
    const side s = SIDE(5, 10, 0.8, 0.01);
    json_t *one = analysis_of(&s, "m", 128), *two = analysis_of(&s, "m", 128), *more = analysis_of(&s, "m", 512),
           *other = analysis_of(&s, "n", 128), *j;
    json_array_extend(json_object_get(one, "cells"), json_object_get(other, "cells"));
    json_array_extend(json_object_get(two, "cells"), json_object_get(more, "cells"));
    OK(b1i_compare_analyses(one, two, &j, &err));
    const json_t *unmatched = json_object_get(j, "unmatched");
    assert_int_equal(json_array_size(json_object_get(j, "groups")), 1);
    assert_int_equal(json_array_size(json_object_get(unmatched, "old")), 1);
    assert_int_equal(json_array_size(json_object_get(unmatched, "new")), 1);
    assert_string_equal(text(json_array_get(json_object_get(unmatched, "old"), 0), "model"), "n");
    json_decref(j);
    json_decref(one);
    json_decref(two);
    json_decref(more);
    json_decref(other);
}

static void rigs_of_one_study_are_not_pooled(void **state)
{
    (void)state;
    const side a = SIDE(5, 10, 0.8, 0.01), b = SIDE(5, 20, 0.4, 0.01, .threads = 1),
               c = SIDE(5, 10, 0.8, 0.01, .stack = "2");
    const side *const others[] = {&b, &c};
    for (int i = 0; i < 2; i++) {
        json_t *one = analysis_of(&a, "m", 128), *two = analysis_of(&a, "m", 128),
               *more = analysis_of(others[i], "m", 128), *j;
        json_array_extend(json_object_get(two, "cells"), json_object_get(more, "cells"));
        OK(b1i_compare_analyses(one, two, &j, &err));
        assert_string_equal(text(group(j, 0), "verdict"), "undecided");
        assert_non_null(strstr(text(group(j, 0), "message"), "several"));
        json_decref(j);
        json_decref(one);
        json_decref(two);
        json_decref(more);
    }
}

/* ---- directories ---- */

/* A cell as a measurement makes it: three slices of ten steps about `ms`. */
static json_t *cell_of(const b1i_study_planned *plan, const b1i_planned *planned, double ms, uint64_t salt)
{
    const b1i_setting *s = &planned->setting;
    b1i_measured m = {.setting = s,
                      .id = planned->id,
                      .binary = plan->binary,
                      .architecture = "llama",
                      .device_name = plan->device_name ? plan->device_name : "unknown",
                      .ordinal = B1I_DEVICE_CPU};
    b1i_bench_result *r = &m.cell.result;
    double drift;
    json_t *cell;
    m.cell = (b1i_cell){.model = s->model,
                        .device = s->device,
                        .weights = "bf16",
                        .executor = s->executor,
                        .status = "ok",
                        .context = s->context,
                        .threads = 2,
                        .weight_bytes = 100000000,
                        .kv_bytes = 1000000};
    assert_true(b1i_grow(&r->slices, &r->slice_room, 3, sizeof *r->slices));
    assert_true(b1i_grow(&r->step_ns, &r->step_room, 30, sizeof *r->step_ns));
    r->slice_count = 3;
    r->step_count = 30;
    r->warmup = s->warmup;
    for (size_t i = 0; i < 3; i++) r->slices[i] = (b1i_slice){50 + noise(salt * 3 + i) * 0.1, 10 * i, 10};
    for (size_t i = 0; i < 30; i++) r->step_ns[i] = floor(ms * 1e6 * (1 + 0.005 * noise(salt * 30 + i)));
    OK(b1i_bench_summarise(m.cell.weight_bytes + m.cell.kv_bytes, r, &drift, &err));
    r->verdict = b1i_bench_verdict(r, false, true, drift);
    m.source = json_string("batchone");
    m.kv_element_bytes = 2;
    OK(b1i_measured_json(&m, &cell, &err));
    b1i_bench_result_free(r);
    return cell;
}

/* A sealed study of two contexts; steps of the longer take `factor` times as long as they should. */
static const char *study_of(const char *name, int sessions, double factor)
{
    static const char *const executors[] = {"fused"}, *const formats[] = {NULL};
    static const int64_t lengths[] = {32, 64}, batches[] = {1};
    static const bool synthetic[] = {false};
    const char *models[] = {"hand"}, *out = at(name);
    const b1i_study_matrix matrix = {.models = models,
                                     .synthetic = synthetic,
                                     .model_count = 1,
                                     .weights = formats,
                                     .weight_count = 1,
                                     .contexts = lengths,
                                     .batches = batches,
                                     .context_count = 2,
                                     .batch_count = 1,
                                     .executors = executors,
                                     .executor_count = 1,
                                     .sessions = sessions,
                                     .warmup = 2,
                                     .steps = 30};
    b1i_study_options o = {.out = out, .device = b1i_device_cpu()};
    b1i_study_planned plan;
    bool all;
    OK(b1i_study_plan(&matrix, &o, &err));
    OK(b1i_study_plan_read(out, &plan, &err));
    for (size_t i = 0; i < plan.count; i++) {
        double ms = plan.cells[i].setting.context == 64 ? 4 * factor : 3;
        const b1i_cell_file file = {"cell.json", cell_of(&plan, &plan.cells[i], ms, i + 100)};
        OK(b1i_cell_write(out, plan.cells[i].id, &file, 1, &err));
    }
    b1i_study_plan_free(&plan);
    said[0] = 0;
    OK(b1i_study_collect(&o, keep_line, NULL, &all, &err));
    if (!all) fail_msg("%s", said);
    return out;
}

static void a_planted_slowdown_is_found(void **state)
{
    (void)state;
    const char *usual = study_of("usual", 6, 1), *again = study_of("again", 6, 1.01), *slow = study_of("slow", 6, 1.15);
    json_t *j;
    OK(b1i_compare(usual, again, &j, &err));
    assert_int_equal(json_integer_value(json_object_get(j, "regressions")), 0);
    assert_string_equal(text(group(j, 0), "verdict"), "same");
    assert_string_equal(text(json_object_get(j, "old"), "directory"), usual);
    json_decref(j);
    OK(b1i_compare(usual, slow, &j, &err));
    assert_int_equal(json_integer_value(json_object_get(j, "regressions")), 1);
    for (size_t i = 0; i < 2; i++) {
        const json_t *g = group(j, i);
        const bool longer = json_integer_value(json_object_get(g, "context")) == 64;
        assert_string_equal(text(g, "verdict"), longer ? "regression" : "same");
    }
    json_decref(j);
    OK(b1i_compare(slow, usual, &j, &err));
    assert_int_equal(json_integer_value(json_object_get(j, "regressions")), 0);
    json_decref(j);
}

static void what_does_not_verify_is_refused(void **state)
{
    (void)state;
    const char *good = study_of("good", 1, 1), *bad = study_of("bad", 1, 1);
    json_t *j;
    put_text(bad, "more.json", "{}");
    assert_int_equal(b1i_compare(good, bad, &j, &err), B1_ARGUMENT);
    HAS("more.json");
    assert_null(j);
    assert_int_equal(b1i_compare(at("nowhere"), good, &j, &err), B1_ARGUMENT);
    HAS("nowhere");
}

/* What the study's manifest and the cell's own find is one difference. */
static void a_difference_is_said_once(void **state)
{
    (void)state;
    const char *folder = study_of("once", 1, 1);
    b1i_study_planned plan;
    char name[100];
    bool all;
    OK(b1i_study_plan_read(folder, &plan, &err));
    (void)snprintf(name, sizeof name, "cells/%s/cell.json", plan.cells[0].id);
    put_text(folder, name, "{}");
    b1i_study_plan_free(&plan);
    said[0] = 0;
    OK(b1i_evidence_verify(folder, keep_line, NULL, &all, &err));
    assert_false(all);
    const char *first = strstr(said, "the manifest says");
    assert_non_null(first);
    assert_null(strstr(first + 1, "the manifest says"));
}

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    const side before = SIDE(5, 10, 0.8, 0.01), after = SIDE(5, 20, 0.4, 0.01);
    json_t *one = analysis_of(&before, "m", 128), *two = analysis_of(&after, "m", 128), *j;
    long live = b1i_alloc_live();
    b1_status st = B1_MEMORY;
    for (long n = 0; st == B1_MEMORY && n < 1000; n++) {
        b1i_alloc_fail_at(n);
        st = b1i_compare_analyses(one, two, &j, &err);
        b1i_alloc_fail_at(-1);
        json_decref(j);
        if (b1i_alloc_live() != live) fail_msg("allocation %ld leaks", n);
    }
    OK(st);
    json_decref(one);
    json_decref(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_steady_is_counted),   cmocka_unit_test(verdicts_need_both_time_and_ceiling),
        cmocka_unit_test(ratios_are_new_over_old),          cmocka_unit_test(what_has_no_counterpart_is_named),
        cmocka_unit_test(rigs_of_one_study_are_not_pooled), cmocka_unit_test(a_planted_slowdown_is_found),
        cmocka_unit_test(what_does_not_verify_is_refused),  cmocka_unit_test(a_difference_is_said_once),
        cmocka_unit_test(no_allocation_may_fail_unseen),
    };
    return cmocka_run_group_tests_name("compare", tests, make_home, remove_home);
}
