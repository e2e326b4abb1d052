/* SPDX-License-Identifier: MIT
 *
 * An A/B: settings as text, its plan, sessions in processes of their own, what collecting and verifying catch, and the
 * analysis of sessions that were made by hand. This program is its own command: `ab run` makes it measure a session, or
 * die as the environment tells it to.
 */
#include "lab/ab.h"
#include "lab/bootstrap.h"
#include "lab/study/ab_room.h"
#include "lab/study/measure.h"
#include "lab/study/plan.h"
#include "tests/study_rig.h"

#include <math.h>
#include <signal.h>

#define HOW      "B1_TEST_AB_HOW" /* what the process of a session shall do */
#define COUNT(x) (sizeof(x) / sizeof *(x))

static b1i_setting base_of(const char *device)
{
    return (b1i_setting){.model = model,
                         .device = (char *)(uintptr_t)device,
                         .executor = (char *)(uintptr_t)(strcmp(device, "cpu") == 0 ? "fused" : "fused_graph"),
                         .context = 64,
                         .threads = 1,
                         .batch = 1,
                         .warmup = 2,
                         .steps = 8};
}

/* ---- settings ---- */

static void settings_are_read_over_a_base(void **state)
{
    (void)state;
    static const struct {
        const char *device, *text, *means;
    } cases[] = {
        {"cpu", "", "executor=fused,weights=as-is,threads=1,context=64,batch=1"},
        {"cpu", "executor=separate,threads=2", "executor=separate,weights=as-is,threads=2,context=64,batch=1"},
        {"cpu", "weights=q4_0,context=2048,batch=8", "executor=fused,weights=q4_0,threads=1,context=2048,batch=8"},
        {"cpu", "weights=as-is,threads=0", "executor=fused,weights=as-is,threads=0,context=64,batch=1"},
        {"cuda:1", "executor=separate", "executor=separate_graph,weights=as-is,threads=1,context=64,batch=1"},
        {"cuda:1", "executor=fused_pdl", "executor=fused_pdl,weights=as-is,threads=1,context=64,batch=1"},
        {"cpu", "threads=3,stack=a,b=c, d", "weights=as-is,threads=3,context=64,batch=1,stack=a,b=c, d"},
        {"cpu", "stack=x", "weights=as-is,threads=1,context=64,batch=1,stack=x"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        b1i_setting base = base_of(cases[i].device), s;
        OK(b1i_ab_settings(cases[i].text, &base, &s, &err));
        char *text = b1i_ab_text(&s);
        assert_string_equal(text, cases[i].means);
        assert_string_equal(s.model, model);
        assert_int_equal(s.steps, 8);
        b1i_free(text);
        b1i_setting_free(&s);
    }
}

static void settings_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"threads", "KEY=VALUE"},
        {"threads=", "KEY=VALUE"},
        {"=2", "KEY=VALUE"},
        {",", "KEY=VALUE"},
        {"threads=2,", "comma"},
        {"threads=-1", "whole number"},
        {"threads=2x", "whole number"},
        {"batch=9", "1 to 8"},
        {"batch=0", "1 to 8"},
        {"context=0", "whole number"},
        {"threads=1,threads=2", "twice"},
        {"speed=9", "\"speed\" is no setting"},
        {"executor=warp", "persistent"},
        {"executor=fused_pdl", "on cpu"},
        {"model=x", "\"model\" is no setting"},
        {"stack=", "no command"},
        {"executor=fused,stack=x", "stack"},
        {"device=cpu", "is no setting"},
    };
    b1i_setting base = base_of("cpu"), s;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (b1i_ab_settings(cases[i][0], &base, &s, &err) != B1_ARGUMENT) fail_msg("\"%s\" is taken", cases[i][0]);
        if (!strstr(err.message, cases[i][1])) fail_msg("\"%s\": %s", cases[i][0], err.message);
        assert_null(s.model);
    }
}

static void only_launch_differs_where_kernels_are_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool only;
    } cases[] = {
        {"executor=separate_stream", "executor=separate_graph", true},
        {"executor=fused_stream", "executor=fused_pdl", true},
        {"executor=fused_stream", "executor=separate_graph", false},
        {"executor=fused_graph", "executor=fused_graph,threads=2", false},
        {"executor=fused_graph", "executor=fused_graph", false},
        {"executor=fused_stream,batch=4", "executor=fused_graph", false},
        {"executor=fused_stream,weights=q4_0", "executor=fused_graph", false},
        {"stack=x", "stack=y", false},
    };
    b1i_setting base = base_of("cuda:0"), a, b;
    for (size_t i = 0; i < COUNT(cases); i++) {
        OK(b1i_ab_settings(cases[i].a, &base, &a, &err));
        OK(b1i_ab_settings(cases[i].b, &base, &b, &err));
        assert_int_equal(b1i_ab_launch_only(&a, &b), cases[i].only);
        b1i_setting_free(&a);
        b1i_setting_free(&b);
    }
}

/* ---- the plan ---- */

static b1i_study_options options_of(const char *out)
{
    return (b1i_study_options){.out = out, .device = b1i_device_cpu(), .executable = self};
}

static b1_status plan_with(const char *out, const char *a, const char *b, int sessions, bool launch_only, bool resume)
{
    b1i_setting base = base_of("cpu");
    b1i_ab_options o = {
        .run = options_of(out), .sessions = sessions, .resamples = 1000, .seed = 7, .launch_only = launch_only};
    b1_status st;
    o.run.resume = resume;
    B1I_TRY(b1i_ab_settings(a, &base, &o.a, &err));
    B1I_TRY(b1i_ab_settings(b, &base, &o.b, &err));
    st = b1i_ab_plan(&o, &err);
fail:
    b1i_setting_free(&o.a);
    b1i_setting_free(&o.b);
    return st;
}

/* The plan of a_plan_alternates_and_is_kept again, drawn otherwise. */
static b1_status plan_drawn(const char *out, int resamples, uint64_t seed)
{
    b1i_setting base = base_of("cpu");
    b1i_ab_options o = {.run = options_of(out), .sessions = 5, .resamples = resamples, .seed = seed};
    b1_status st;
    o.run.resume = true;
    B1I_TRY(b1i_ab_settings("threads=1", &base, &o.a, &err));
    B1I_TRY(b1i_ab_settings("threads=2", &base, &o.b, &err));
    st = b1i_ab_plan(&o, &err);
fail:
    b1i_setting_free(&o.a);
    b1i_setting_free(&o.b);
    return st;
}

typedef struct ids {
    char id[16][B1I_SETTING_ID];
    int count, done;
} ids;

static void take_id(void *user, const char *id, bool done)
{
    ids *l = user;
    snprintf(l->id[l->count++], sizeof l->id[0], "%s", id);
    l->done += done;
}

static ids ids_of(const char *out)
{
    ids l = {.count = 0};
    OK(b1i_ab_each(out, take_id, &l, &err));
    return l;
}

static void a_plan_alternates_and_is_kept(void **state)
{
    (void)state;
    const char *out = at("plan");
    b1i_ab_planned plan;
    OK(plan_with(out, "threads=1", "threads=2", 5, false, false));
    OK(b1i_ab_read(out, &plan, &err));
    assert_int_equal(plan.count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(plan.sessions[i].number, i + 1);
        assert_int_equal(plan.sessions[i].b_first, i % 2);
        for (int k = 0; k < i; k++) assert_string_not_equal(plan.sessions[i].id, plan.sessions[k].id);
    }
    assert_int_equal(plan.arms[0].threads, 1);
    assert_int_equal(plan.arms[1].threads, 2);
    assert_int_equal(plan.seed, 7);
    b1i_ab_free(&plan);
    ids before = ids_of(out);
    assert_int_equal(before.done, 0);
    assert_int_equal(plan_with(out, "threads=1", "threads=2", 5, false, false), B1_ARGUMENT);
    HAS("--resume");
    OK(plan_with(out, "threads=1", "threads=2", 5, false, true));
    assert_int_equal(plan_with(out, "threads=1", "threads=3", 5, false, true), B1_ARGUMENT);
    HAS("another b");
    assert_int_equal(plan_with(out, "threads=1", "threads=2", 6, false, true), B1_ARGUMENT);
    HAS("has 5 sessions, and it alone says how many: not 6");
    static const struct {
        int resamples;
        uint64_t seed;
        const char *message;
    } draws[] = {{0, 0, NULL}, {1000, 7, NULL}, {2000, 0, "1000 resamples"}, {0, 8, "the seed 7"}};
    for (size_t i = 0; i < COUNT(draws); i++) {
        b1_status st = b1i_ab_same_draws(out, draws[i].resamples, draws[i].seed, &err);
        assert_int_equal(st, draws[i].message ? B1_ARGUMENT : B1_OK);
        if (st != B1_OK) HAS(draws[i].message);
        st = plan_drawn(out, draws[i].resamples, draws[i].seed);
        assert_int_equal(st, draws[i].message ? B1_ARGUMENT : B1_OK);
    }
    assert_int_equal(plan_with(at("none"), "", "", 0, false, false), B1_ARGUMENT);
    assert_int_equal(b1i_evidence_look(at("none")), b1i_evidence_none);
}

static void a_plan_that_was_changed_is_refused(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "{\"schema\":\"batchone.study-plan/1\"}",
        "{\"launch_only\":0}",
        "{\"cells\":[]}",
        "{\"device\":\"cuda:0\"}",
        "{\"options\":{\"sessions\":2,\"resamples\":0,\"seed\":1}}",
        "{\"binary_sha256\":\"aa\"}",
        "{\"a\":{}}",
    };
    const char *out = at("changed");
    b1i_ab_planned plan;
    OK(plan_with(out, "", "", 2, false, false));
    for (size_t i = 0; i < COUNT(changes); i++) {
        json_t *json, *change = json_loads(changes[i], 0, NULL);
        char *path = b1i_lab_join(out, "plan.json");
        OK(b1i_lab_read_json(out, "plan.json", &json, &err));
        json_t *other = json_deep_copy(json);
        json_object_update(other, change);
        json_dump_file(other, path, 0);
        if (b1i_ab_read(out, &plan, &err) != B1_ARGUMENT) fail_msg("%s is taken", changes[i]);
        json_dump_file(json, path, 0);
        json_decref(json);
        json_decref(other);
        json_decref(change);
        b1i_free(path);
    }
    OK(b1i_ab_read(out, &plan, &err));
    b1i_ab_free(&plan);
}

/* ---- sessions by hand ---- */

/* What differs from a usual session. */
typedef struct made {
    double a, b;         /* ms */
    const char *status;  /* of arm b; NULL: ok */
    const char *verdict; /* of arm b; NULL: ok */
    const char *version; /* of the command */
    const char *uuid;    /* of the device */
    const char *stack;   /* version of arm b's; NULL: it is batchone */
    const char *lost;    /* the session's process died so */
    const char *same;    /* "yes", "no": the kernels; NULL: not compared */
} made;

static json_t *cell_by_hand(double ms, const made *m, bool b)
{
    const char *status = b && m->status ? m->status : "ok", *ok = strcmp(status, "ok") == 0 ? "ok" : NULL;
    return json_pack("{s:s,s:s,s:s?,s:o,s:o,s:f,s:s,s:s,s:s,s:s?,s:o,s:{s:i}}", "model", "hand", "status", status,
                     "verdict", ok && b && m->verdict ? m->verdict : ok, "message",
                     ok ? json_null() : json_string("no room"), "t_obs_ms", ok ? json_real(ms) : json_null(), "cv",
                     0.01, "binary_sha256", "aa", "version", m->version ? m->version : "1", "device_name", "hand",
                     "device_uuid", m->uuid, "source",
                     b && m->stack ? json_pack("{s:s,s:s,s:s}", "stack", "x", "version", m->stack, "command", "c")
                                   : json_string("batchone"),
                     "setting", "warmup", 2);
}

/* The analysis of an A/B of these sessions. */
static json_t *analysis_of(const char *name, const made *sessions, int count, bool launch_only)
{
    const char *out = at(name);
    b1i_ab_planned plan;
    json_t *analysis;
    remove_all(out);
    OK(plan_with(out, "", "", count, launch_only, false));
    OK(b1i_ab_read(out, &plan, &err));
    for (int i = 0; i < count; i++) {
        const made *m = &sessions[i];
        json_t *kernels = json_null();
        if (launch_only && m->same)
            kernels = json_pack("{s:{},s:{},s:b}", "a", "b", "same", strcmp(m->same, "yes") == 0);
        else if (launch_only)
            kernels = json_pack("{s:{s:s},s:{},s:n}", "a", "message", "no profiler", "b", "same");
        const b1i_cell_file files[] = {
            {"a.json", m->lost ? NULL : cell_by_hand(m->a, m, false)},
            {"b.json", m->lost ? NULL : cell_by_hand(m->b, m, true)},
            {"session.json",
             b1i_ab_document(&plan.sessions[i], m->lost ? "out_of_memory" : "ok", m->lost, 1, false, kernels)}};
        OK(b1i_cell_write(out, plan.sessions[i].id, files, 3, &err));
    }
    OK(b1i_ab_analyse(out, &analysis, &err));
    b1i_ab_free(&plan);
    return analysis;
}

static double number(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double item(const json_t *j, const char *key, size_t i)
{
    const json_t *value = json_array_get(json_object_get(j, key), i);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *text(const json_t *j, const char *key)
{
    const char *value = json_string_value(json_object_get(j, key));
    return value ? value : "";
}

#define NEAR(x, y) assert_true(fabs((double)(x) - (double)(y)) <= 1e-9 * fabs((double)(y)))

static const made USUAL[] = {{.a = 12, .b = 10},   {.a = 13, .b = 10},  {.a = 11, .b = 10},
                             {.a = 12.5, .b = 10}, {.a = 12, .b = 9.5}, {.a = 12.2, .b = 10.1}};

static void figures_follow_from_the_pairs(void **state)
{
    (void)state;
    double logs[6], sum = 0, off[6], orders[2] = {0, 0};
    b1i_interval t, plain, difference;
    json_t *j = analysis_of("usual", USUAL, 6, false);
    for (int i = 0; i < 6; i++) {
        logs[i] = log(USUAL[i].a / USUAL[i].b);
        off[i] = USUAL[i].a - USUAL[i].b;
        sum += logs[i] / 6;
        orders[i % 2] += logs[i] / 3;
        const json_t *pair = json_array_get(json_object_get(j, "pairs"), (size_t)i);
        NEAR(json_number_value(json_array_get(pair, 0)), USUAL[i].a);
        NEAR(json_number_value(json_array_get(pair, 1)), USUAL[i].b);
    }
    OK(b1i_bootstrap_t(logs, 6, 1000, 7, &t, &err));
    OK(b1i_bootstrap_percentile(logs, 6, 1000, 7, &plain, &err));
    OK(b1i_bootstrap_t(off, 6, 1000, 7, &difference, &err));
    NEAR(number(j, "speedup"), exp(sum));
    NEAR(item(j, "interval", 0), exp(t.low));
    NEAR(item(j, "interval", 1), exp(t.high));
    NEAR(item(j, "percentile_interval", 1), exp(plain.high));
    NEAR(number(j, "difference_ms"), difference.value);
    NEAR(item(j, "difference_interval", 0), difference.low);
    NEAR(number(j, "order_effect"), exp(orders[0] - orders[1]));
    NEAR(number(j, "min"), 1.1);
    NEAR(number(j, "max"), 1.3);
    NEAR(number(json_object_get(j, "a_ms"), "mean"), 12.116666666666667);
    NEAR(number(json_object_get(j, "b_ms"), "median"), 10);
    NEAR(number(json_object_get(j, "b_ms"), "cv_within"), 0.01);
    assert_int_equal(number(j, "sessions"), 6);
    assert_int_equal(number(j, "planned"), 6);
    assert_int_equal(number(j, "seed"), 7);
    assert_string_equal(text(j, "verdict"), "ok");
    assert_true(json_is_true(json_object_get(j, "headline")));
    assert_true(json_is_false(json_object_get(j, "upper_bound")));
    assert_string_equal(json_string_value(json_array_get(json_array_get(json_object_get(j, "orders"), 1), 0)), "b");
    assert_int_equal(json_array_size(json_object_get(j, "rigs")), 1);
    json_decref(j);
}

static void expect(const char *name, const made *sessions, int count, bool launch_only, const char *verdict,
                   const char *message)
{
    json_t *j = analysis_of(name, sessions, count, launch_only);
    assert_string_equal(text(j, "verdict"), verdict);
    if (!strstr(text(j, "message"), message)) fail_msg("%s: %s", verdict, text(j, "message"));
    assert_int_equal(json_is_true(json_object_get(j, "headline")), strcmp(verdict, "ok") == 0);
    json_decref(j);
}

static void verdicts_are_the_first_that_holds(void **state)
{
    (void)state;
    const made one[] = {{.a = 2, .b = 1}}, two[] = {{.a = 2, .b = 1}, {.a = 2.1, .b = 1}};
    const made bad[] = {{.a = 2, .b = 1}, {.a = 2, .b = 1, .status = "out_of_memory"}, {.a = 2, .b = 1}};
    const made dead[] = {{.lost = "it was killed"}, {.a = 2, .b = 1}};
    const made none[] = {{.lost = "it was killed"}};
    const made drifts[] = {{.a = 2, .b = 1}, {.a = 2, .b = 1, .verdict = "drifting"}};
    const made noisy[] = {{.a = 2, .b = 1}, {.a = 2, .b = 1, .verdict = "noisy"}};
    const made same[] = {{.a = 2, .b = 1, .same = "yes"}, {.a = 2.1, .b = 1, .same = "yes"}};
    const made differ[] = {{.a = 2, .b = 1, .same = "yes"}, {.a = 2, .b = 1, .same = "no"}};
    const made part[] = {{.a = 2, .b = 1, .same = "yes"}, {.a = 2, .b = 1}};
    const made ordered[] = {{.a = 2.4, .b = 1},  {.a = 2, .b = 1},    {.a = 2.41, .b = 1},
                            {.a = 2.01, .b = 1}, {.a = 2.39, .b = 1}, {.a = 1.99, .b = 1}};
    expect("v", ordered, 6, false, "ok", "the order matters: A / B is 1.200 times");
    expect("v", one, 1, false, "one session", "next one");
    expect("v", two, 2, false, "ok", "");
    expect("v", bad, 3, false, "failed", "session 2: b: out_of_memory: no room");
    expect("v", dead, 2, false, "failed", "session 1: it was killed");
    expect("v", none, 1, false, "failed", "it was killed");
    expect("v", drifts, 2, false, "drifting", "1 of 4 arms");
    expect("v", noisy, 2, false, "ok", "");
    expect("v", same, 2, true, "ok", "");
    expect("v", differ, 2, true, "kernels differ", "1 of 2");
    expect("v", part, 2, true, "kernels not compared", "no profiler");
    json_t *j = analysis_of("v", one, 1, false);
    assert_true(json_is_null(json_array_get(json_object_get(j, "interval"), 0)));
    NEAR(number(j, "speedup"), 2);
    json_decref(j);
    j = analysis_of("v", same, 2, true);
    assert_true(json_is_true(json_object_get(j, "upper_bound")));
    json_decref(j);
    j = analysis_of("v", part, 2, true);
    assert_true(json_is_false(json_object_get(j, "upper_bound")));
    json_decref(j);
    j = analysis_of("v", differ, 2, true);
    assert_true(json_is_false(json_object_get(j, "upper_bound")));
    json_decref(j);
}

static void rigs_are_never_pooled(void **state)
{
    (void)state;
    const made versions[] = {{.a = 3, .b = 1}, {.a = 3, .b = 1}, {.a = 2, .b = 1, .version = "2"}};
    const made cards[] = {{.a = 3, .b = 1, .uuid = "GPU-1"}, {.a = 2, .b = 1, .uuid = "GPU-2"}};
    const made stacks[] = {{.a = 3, .b = 1, .stack = "4"}, {.a = 2, .b = 1, .stack = "5"}};
    json_t *j = analysis_of("rigs", versions, 3, false), *rigs = json_object_get(j, "rigs");
    assert_string_equal(text(j, "verdict"), "rigs differ");
    assert_true(json_is_null(json_object_get(j, "speedup")));
    assert_true(json_is_null(json_object_get(j, "a_ms")));
    assert_int_equal(json_array_size(rigs), 2);
    NEAR(number(json_array_get(rigs, 0), "speedup"), 3);
    NEAR(number(json_array_get(rigs, 1), "speedup"), 2);
    assert_int_equal(item(json_array_get(rigs, 1), "numbers", 0), 3);
    json_decref(j);
    expect("rigs", stacks, 2, false, "rigs differ", "2 rigs");
    expect("rigs", cards, 2, false, "rigs differ", "2 rigs");
}

/* ---- measured ---- */

static bool collected(const char *out)
{
    b1i_study_options o = options_of(out);
    bool all;
    said[0] = 0;
    OK(b1i_ab_collect(&o, keep_line, NULL, &all, &err));
    return all;
}

/* A sealed one of two sessions, each in a process of its own; made once. */
static const char *sealed(void)
{
    static bool done;
    const char *out = at("sealed");
    b1i_study_options o = options_of(out);
    if (done) return out;
    done = true;
    OK(plan_with(out, "executor=separate", "executor=fused", 2, true, false));
    OK(b1i_ab_run_all(&o, &err));
    if (!collected(out)) fail_msg("%s", said);
    return out;
}

static json_t *read_of(const char *out, const char *id, const char *file)
{
    char name[96];
    json_t *json;
    snprintf(name, sizeof name, "cells/%s/%s", id, file);
    OK(b1i_lab_read_json(out, name, &json, &err));
    return json;
}

static void sessions_run_in_processes_of_their_own(void **state)
{
    (void)state;
    if (emulated()) skip();
    const char *out = sealed();
    ids l = ids_of(out);
    json_t *analysis, *commands;
    if (!holds(out)) fail_msg("%s", said);
    assert_int_equal(l.done, 2);
    OK(b1i_lab_read_json(out, "analysis.json", &analysis, &err));
    if (number(analysis, "sessions") != 2) fail_msg("%s", text(analysis, "message"));
    assert_string_equal(text(analysis, "verdict"), "kernels differ"); /* separate and fused */
    json_decref(analysis);
    OK(b1i_lab_read_json(out, "commands.json", &commands, &err));
    assert_int_equal(json_array_size(json_object_get(commands, "commands")), 2);
    json_decref(commands);
    for (int i = 0; i < 2; i++) {
        json_t *session = read_of(out, l.id[i], "session.json"), *a = read_of(out, l.id[i], "a.json"),
               *b = read_of(out, l.id[i], "b.json"), *profile = read_of(out, l.id[i], "a-profile.json");
        assert_true(json_is_true(json_object_get(session, "shared_engine")));
        assert_string_equal(text(a, "executor"), "separate");
        assert_string_equal(text(b, "executor"), "fused");
        assert_int_equal(number(a, "session"), i + 1);
        assert_true(json_is_true(json_object_get(profile, "found")));
        json_decref(session);
        json_decref(a);
        json_decref(b);
        json_decref(profile);
    }
    b1i_study_options o = options_of(out);
    OK(b1i_ab_run_session(&o, l.id[0], &err)); /* there already */
    assert_int_equal(b1i_ab_run_session(&o, "0000000000000000", &err), B1_ARGUMENT);
    HAS("no session");
    if (!collected(out)) fail_msg("%s", said); /* sealed: verified */
}

/* Sets a key of a file of the first session and mends both manifests; what verify then says is in `said`. */
static void forge(const char *file, const char *key, json_t *value)
{
    const char *out = at("forged");
    char name[96], folder[300];
    copy_run(sealed(), out);
    ids l = ids_of(out);
    json_t *json = read_of(out, l.id[0], file);
    json_object_set_new(json, key, value);
    snprintf(folder, sizeof folder, "%s/cells/%s", out, l.id[0]);
    char *path = b1i_lab_join(folder, file);
    json_dump_file(json, path, 0);
    b1i_free(path);
    json_decref(json);
    mend(folder, file);
    snprintf(name, sizeof name, "cells/%s/%s", l.id[0], file);
    mend(out, name);
    snprintf(name, sizeof name, "cells/%s/manifest.json", l.id[0]);
    mend(out, name);
    if (holds(out)) fail_msg("a forged %s of %s holds", key, file);
}

static void what_does_not_follow_is_found(void **state)
{
    (void)state;
    if (emulated()) skip();
    forge("a.json", "t_obs_ms", json_real(0.123));
    SAID("t_obs_ms");
    forge("b.json", "binary_sha256", json_string("aa"));
    SAID("build");
    forge("b.json", "id", json_string("0000000000000000"));
    SAID("is the cell");
    forge("b.json", "setting", json_object());
    SAID("another setting");
    forge("b.json", "device", json_string("cuda:0"));
    SAID("its device");
    forge("b.json", "device_name", json_string("a faster one"));
    SAID("a faster one");
    forge("b.json", "executor", json_string("persistent"));
    SAID("its executor");
    forge("b.json", "context", json_integer(4096));
    SAID("its context");
    forge("b.json", "batch", json_integer(4));
    SAID("its batch");
    forge("b.json", "source", json_pack("{s:s,s:s}", "stack", "x", "version", "1"));
    SAID("the stack of its setting");
    forge("b.json", "version", json_string("0.0.0"));
    SAID("analysis.json");
    forge("a.json", "status", json_string("fine"));
    SAID("status");
    forge("session.json", "order", json_pack("[s,s]", "b", "a"));
    SAID("not the session");
    forge("session.json", "session", json_integer(2));
    SAID("not the session");
    forge("session.json", "status", json_null());
    SAID("no status");
    forge("session.json", "kernels", json_null());
    SAID("kernels");
    forge("b-profile.json", "sequence_sha256", json_string("aa"));
    SAID("kernels");
}

/* Sets the first rig's device_uuid, or takes it away, and mends the manifest. */
static bool holds_with_uuid(json_t *uuid)
{
    const char *out = at("older");
    json_t *analysis;
    copy_run(sealed(), out);
    OK(b1i_lab_read_json(out, "analysis.json", &analysis, &err));
    json_t *rig = json_array_get(json_object_get(analysis, "rigs"), 0);
    if (uuid)
        json_object_set_new(rig, "device_uuid", uuid);
    else
        json_object_del(rig, "device_uuid");
    char *path = b1i_lab_join(out, "analysis.json");
    json_dump_file(analysis, path, 0);
    b1i_free(path);
    json_decref(analysis);
    mend(out, "analysis.json");
    return holds(out);
}

static void an_analysis_of_before_holds(void **state)
{
    (void)state;
    if (emulated()) skip();
    assert_false(holds_with_uuid(json_string("GPU-1")));
    SAID("device_uuid");
    if (!holds_with_uuid(NULL)) fail_msg("%s", said);
}

static void what_is_missing_or_more_is_found(void **state)
{
    (void)state;
    const char *out = at("more");
    char path[300], *file;
    copy_run(sealed(), out);
    ids l = ids_of(out);
    file = b1i_lab_join(out, "manifest.json");
    assert_int_equal(remove(file), 0);
    b1i_free(file);
    assert_false(holds(out));
    SAID("incomplete");
    snprintf(path, sizeof path, "%s/cells/0123456789abcdef", out);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(collected(out));
    SAID("is not of the plan");
    assert_int_equal(rmdir(path), 0);
    snprintf(path, sizeof path, "%s/cells/%s", out, l.id[1]);
    remove_all(path);
    snprintf(path, sizeof path, "%s/cells/%s.77.part", out, l.id[1]); /* of a process that was killed */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(collected(out));
    SAID("was not measured");
    assert_null(strstr(said, "is not of the plan"));
    b1i_study_options o = options_of(out);
    OK(b1i_ab_run_session(&o, l.id[1], &err));
    if (!collected(out) || !holds(out)) fail_msg("%s", said);
}

static void a_process_that_dies_is_a_session_with_the_reason(void **state)
{
    (void)state;
    if (emulated()) skip();
    const char *out = at("dead");
    b1i_study_options o = options_of(out);
    json_t *analysis;
    OK(plan_with(out, "", "", 2, false, false));
    setenv(HOW, "die", 1);
    b1_status st = b1i_ab_run_all(&o, &err);
    unsetenv(HOW);
    OK(st);
    if (!collected(out) || !holds(out)) fail_msg("%s", said);
    OK(b1i_lab_read_json(out, "analysis.json", &analysis, &err));
    assert_string_equal(text(analysis, "verdict"), "failed");
    assert_non_null(strstr(text(analysis, "message"), "it died as it was told to"));
    assert_true(json_is_null(json_object_get(analysis, "speedup")));
    json_decref(analysis);
}

static bool now(void) { return true; }

static void a_cancelled_one_is_resumed(void **state)
{
    (void)state;
    const char *out = at("cancelled");
    b1i_study_options o = options_of(out);
    OK(plan_with(out, "", "threads=2", 1, false, false));
    o.cancelled = now;
    assert_int_equal(b1i_ab_run_all(&o, &err), B1_CANCELLED);
    assert_int_equal(ids_of(out).done, 0);
    OK(plan_with(out, "", "threads=2", 1, false, true));
    o.cancelled = NULL;
    OK(b1i_ab_run_all(&o, &err));
    if (!collected(out) || !holds(out)) fail_msg("%s", said);
    ids l = ids_of(out);
    json_t *session = read_of(out, l.id[0], "session.json");
    assert_true(json_is_false(json_object_get(session, "shared_engine"))); /* other threads, another engine */
    json_decref(session);
}

/* An arm that cannot run is kept with the reason; the other one is measured. */
static void an_arm_that_cannot_run_is_kept(void **state)
{
    (void)state;
    const char *out = at("refused");
    b1i_study_options o = options_of(out);
    json_t *analysis;
    OK(plan_with(out, "weights=q4_0", "", 1, false, false));
    ids l = ids_of(out);
    OK(b1i_ab_run_session(&o, l.id[0], &err));
    if (!collected(out) || !holds(out)) fail_msg("%s", said);
    json_t *a = read_of(out, l.id[0], "a.json"), *b = read_of(out, l.id[0], "b.json");
    assert_string_equal(text(a, "status"), "unsupported");
    assert_string_equal(text(b, "status"), "ok");
    OK(b1i_lab_read_json(out, "analysis.json", &analysis, &err));
    assert_string_equal(text(analysis, "verdict"), "failed");
    json_decref(analysis);
    json_decref(a);
    json_decref(b);
}

/* ---- memory ---- */

static b1_status settings_once(void)
{
    b1i_setting base = base_of("cpu"), s;
    b1_status st = b1i_ab_settings("executor=separate,weights=q4_0,threads=2", &base, &s, &err);
    b1i_setting_free(&s);
    return st;
}

static b1_status analyse_once(void)
{
    json_t *j;
    b1_status st = b1i_ab_analyse(at("usual"), &j, &err);
    json_decref(j);
    return st;
}

static b1_status check_once(void)
{
    b1i_ab_planned plan;
    bool all;
    b1_status st = b1i_ab_read(at("sealed"), &plan, &err);
    if (st == B1_OK) st = b1i_ab_check(at("sealed"), &plan, NULL, NULL, &all, &err);
    b1i_ab_free(&plan);
    return st;
}

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    static b1_status (*const works[])(void) = {settings_once, analyse_once, check_once};
    sealed();
    json_decref(analysis_of("usual", USUAL, 6, false));
    for (size_t i = 0; i < COUNT(works); i++) {
        long at_once = b1i_alloc_live();
        b1_status st = B1_MEMORY;
        for (long n = 0; st == B1_MEMORY && n < 4000; n++) {
            b1i_alloc_fail_at(n);
            st = works[i]();
            b1i_alloc_fail_at(-1);
            if (b1i_alloc_live() != at_once) fail_msg("work %zu: allocation %ld leaks", i, n);
            if (st != B1_OK && st != B1_MEMORY) fail_msg("work %zu: allocation %ld: %s", i, n, err.message);
        }
        OK(st);
    }
}

/* ---- this program as the command ---- */

static int child(char **arguments)
{
    const char *how = getenv(HOW);
    if (how && strcmp(how, "die") == 0) {
        fputs("it died as it was told to\n", stderr);
        return 9;
    }
    const b1i_study_options o = options_of(arguments[6]);
    b1_status st = b1i_ab_run_session(&o, arguments[4], &err);
    if (st != B1_OK) fprintf(stderr, "%s\n", err.message);
    return st != B1_OK;
}

int main(int count, char **arguments)
{
    find_self();
    if (count == 7 && strcmp(arguments[1], "ab") == 0) return child(arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_read_over_a_base),
        cmocka_unit_test(settings_that_are_none_are_refused),
        cmocka_unit_test(only_launch_differs_where_kernels_are_the_same),
        cmocka_unit_test(a_plan_alternates_and_is_kept),
        cmocka_unit_test(a_plan_that_was_changed_is_refused),
        cmocka_unit_test(figures_follow_from_the_pairs),
        cmocka_unit_test(verdicts_are_the_first_that_holds),
        cmocka_unit_test(rigs_are_never_pooled),
        cmocka_unit_test(sessions_run_in_processes_of_their_own),
        cmocka_unit_test(what_does_not_follow_is_found),
        cmocka_unit_test(an_analysis_of_before_holds),
        cmocka_unit_test(what_is_missing_or_more_is_found),
        cmocka_unit_test(a_process_that_dies_is_a_session_with_the_reason),
        cmocka_unit_test(a_cancelled_one_is_resumed),
        cmocka_unit_test(an_arm_that_cannot_run_is_kept),
        cmocka_unit_test(no_allocation_may_fail_unseen),
    };
    return cmocka_run_group_tests_name("ab", tests, setup, remove_home);
}
