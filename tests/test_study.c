/* SPDX-License-Identifier: MIT
 *
 * A study: settings and their ids, modes that were planted, folders of cells, processes that die, what collecting and
 * verifying catch, and the analysis of cells that were made by hand. This program is its own command: `study run` makes
 * it measure a cell, or die as the environment tells it to.
 */
#include "lab/modes.h"
#include "lab/study/child.h"
#include "lab/study/measure.h"
#include "lab/study/plan.h"
#include "tests/study_rig.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define HOW     "B1_TEST_STUDY_HOW"  /* what the process of a cell shall do */
#define HOME_OF "B1_TEST_STUDY_HOME" /* where it leaves its number */

/* ---- settings ---- */

static b1i_setting setting_of(const char *executor, int context)
{
    return (b1i_setting){.model = model,
                         .device = (char *)(uintptr_t) "cpu",
                         .executor = (char *)(uintptr_t)executor,
                         .context = context,
                         .threads = 1,
                         .batch = 1,
                         .session = 1,
                         .warmup = 2,
                         .steps = 12};
}

static void a_setting_is_its_json(void **state)
{
    (void)state;
    b1i_setting s = setting_of("fused", 64), read, copy;
    char id[B1I_SETTING_ID], other[B1I_SETTING_ID];
    s.weights = (char *)(uintptr_t) "q4_0";
    json_t *json = b1i_setting_json(&s);
    assert_int_equal(json_object_size(json), 13);
    assert_true(json_is_null(json_object_get(json, "stack")));
    OK(b1i_setting_read(json, &read, &err));
    OK(b1i_setting_copy(&read, &copy, &err));
    json_t *again = b1i_setting_json(&copy);
    assert_true(json_equal(json, again));
    OK(b1i_setting_id(&s, "aa", id, &err));
    OK(b1i_setting_id(&copy, "aa", other, &err));
    assert_string_equal(id, other);
    assert_int_equal(strlen(id), 16);
    OK(b1i_setting_id(&s, "ab", other, &err));
    assert_string_not_equal(id, other);
    copy.context++;
    OK(b1i_setting_id(&copy, "aa", other, &err));
    assert_string_not_equal(id, other);
    json_decref(json);
    json_decref(again);
    b1i_setting_free(&read);
    s.deadline_ms = 2.5;
    json = b1i_setting_json(&s);
    assert_int_equal(json_object_size(json), 14);
    OK(b1i_setting_read(json, &read, &err));
    assert_true(read.deadline_ms == 2.5);
    json_decref(json);
    b1i_setting_free(&read);
    b1i_setting_free(&copy);
}

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void a_setting_that_is_none_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *change, *says;
    } changes[] = {
        {"{\"context\":0}", "\"context\" is 0: it must be a whole number from 1 to 10000000"},
        {"{\"context\":\"64\"}", "\"context\" is \"64\": it must be a whole number"},
        {"{\"context\":9223372036854775807}", "from 1 to 10000000"},
        {"{\"batch\":9}", "\"batch\" is 9: it must be a whole number from 1 to 8"},
        {"{\"threads\":-1}", "\"threads\" is -1"},
        {"{\"threads\":1.5}", "\"threads\" is 1.5"},
        {"{\"model\":\"\"}", "\"model\" is \"\": it must be not empty"},
        {"{\"model\":null}", "\"model\" is null: it must be a text"},
        {"{\"executor\":\"a\\u0007\"}", "without control characters"},
        {"{\"steps\":0}", "\"steps\" is 0"},
        {"{\"device\":\"gpu\"}", "\"device\" is \"gpu\": it must be cpu or cuda:N"},
        {"{\"device\":\"auto\"}", "cuda:N"},
        {"{\"contexts\":1}", "\"contexts\" is no key of a setting; there are model, synthetic"},
        {"{\"stack\":\"x\"}", "one of them must be null"},
        {"{\"weights\":4}", "\"weights\" is 4: it must be a text or null"},
        {"{\"profile\":1}", "\"profile\" is 1: it must be true or false"},
        {"{\"deadline_ms\":0}", "\"deadline_ms\" is 0: it must be a number above 0"},
        {"{\"deadline_ms\":\"1\"}", "\"deadline_ms\""},
        {"{\"session\":-1}", "\"session\""},
    };
    b1i_setting s = setting_of("fused", 64), read;
    for (size_t i = 0; i < COUNT(changes); i++) {
        json_t *json = b1i_setting_json(&s), *change = json_loads(changes[i].change, 0, NULL);
        json_object_update(json, change);
        if (b1i_setting_read(json, &read, &err) != B1_IO) fail_msg("%s is a setting", changes[i].change);
        HAS(changes[i].says);
        json_decref(json);
        json_decref(change);
    }
    json_t *json = b1i_setting_json(&s), *list = json_array();
    json_object_del(json, "warmup");
    assert_int_equal(b1i_setting_read(json, &read, &err), B1_IO);
    HAS("\"warmup\" is missing");
    assert_int_equal(b1i_setting_read(list, &read, &err), B1_IO);
    char long_one[200] = "";
    for (int i = 0; i < 60; i++) strcat(long_one, "é"); /* cut between two characters */
    json_object_set_new(json, "synthetic", json_string(long_one));
    assert_int_equal(b1i_setting_read(json, &read, &err), B1_IO);
    HAS("é…: it must be true or false");
    json_decref(json);
    json_decref(list);
}

static void a_format_has_a_name(void **state)
{
    (void)state;
    OK(b1i_setting_format(NULL, &err));
    OK(b1i_setting_format("q4_1", &err));
    assert_int_equal(b1i_setting_format("zzz", &err), B1_ARGUMENT);
    HAS("zzz: no weight format has this name; there are ");
    HAS("q4_1");
}

/* ---- modes ---- */

enum { STEPS = 30 };

/* A number of [-1, 1), the same each time. */
static double noise(size_t i) { return (double)(b1i_mix64(i) >> 11) / (double)(1ull << 52) - 1; }

static b1i_modes modes_of(double (*step)(size_t i))
{
    double ns[STEPS];
    b1i_modes m;
    for (size_t i = 0; i < STEPS; i++) ns[i] = step(i) * 1e6;
    OK(b1i_modes_find(ns, STEPS, &m, &err));
    return m;
}

static double steady(size_t i) { return 15 + 0.1 * noise(i); }
static double rough(size_t i) { return 15 + 4 * noise(i); }
static double settling(size_t i) { return (i < 16 ? 20.5 : 17.5) + 0.4 * noise(i); } /* as the paper's H100 did */
static double two_by_two(size_t i) { return (i / 2 % 2 ? 10 : 12) + 0.1 * noise(i); }
static double slower(size_t i) { return 10 + 0.1 * (double)i + 0.02 * noise(i); }
static double with_stragglers(size_t i) { return (i % 10 == 3 ? 30 : 15) + 0.1 * noise(i); }
static double near_levels(size_t i) { return (i < 15 ? 15 : 15.3) + 0.01 * noise(i); }

static void planted_modes_are_found(void **state)
{
    (void)state;
    b1i_modes m = modes_of(settling);
    assert_int_equal(m.kind, b1i_modes_levels);
    assert_int_equal(m.step, 16);
    assert_true(m.low_ns > 17.3e6 && m.low_ns < 17.7e6 && m.high_ns > 20.3e6 && m.high_ns < 20.7e6);
    m = modes_of(two_by_two);
    assert_int_equal(m.kind, b1i_modes_alternating);
    assert_true(m.low_ns > 9.9e6 && m.low_ns < 10.1e6 && m.high_ns > 11.9e6 && m.high_ns < 12.1e6);
    m = modes_of(slower);
    assert_int_equal(m.kind, b1i_modes_trend);
    assert_true(m.low_ns > 10.3e6 && m.low_ns < 10.6e6 && m.high_ns > 12.3e6 && m.high_ns < 12.6e6);
    static double (*const one[])(size_t) = {steady, rough, with_stragglers, near_levels};
    for (size_t i = 0; i < 4; i++) {
        m = modes_of(one[i]);
        if (m.kind != b1i_modes_one) fail_msg("series %zu: %s", i, b1i_modes_names[m.kind]);
    }
}

/* Normal noise has no modes: of many series at most one in a hundred is called so. */
static void noise_has_one_mode(void **state)
{
    (void)state;
    size_t called = 0;
    enum { SERIES = 2000 };
    for (size_t s = 0; s < SERIES; s++) {
        double ns[STEPS];
        b1i_modes m;
        for (size_t i = 0; i < STEPS; i++) {
            double sum = 0;
            for (size_t k = 0; k < 12; k++) sum += noise((s * STEPS + i) * 12 + k) / 2;
            ns[i] = 15e6 + 1.5e6 * sum;
        }
        OK(b1i_modes_find(ns, STEPS, &m, &err));
        called += m.kind != b1i_modes_one;
    }
    if (called > SERIES / 100) fail_msg("%zu of %d series", called, SERIES);
}

/* ---- folders of cells ---- */

static void a_cell_appears_whole_or_not_at_all(void **state)
{
    (void)state;
    const char *home_of = at("cells-whole");
    bool whole;
    remove_all(home_of);
    if (mkdir(home_of, 0700) != 0) abort();
    b1i_cell_file files[] = {{"cell.json", json_pack("{s:f}", "x", 1.5)}, {"profile.json", NULL}};
    OK(b1i_cell_write(home_of, "0123456789abcdef", files, 2, &err));
    said[0] = 0;
    OK(b1i_cell_whole(home_of, "0123456789abcdef", keep_line, NULL, &whole, &err));
    assert_true(whole && said[0] == 0);
    assert_false(is_there(home_of, "cells/0123456789abcdef/profile.json"));
    files[0].json = json_pack("{s:f}", "x", 2.5);
    assert_int_equal(b1i_cell_write(home_of, "0123456789abcdef", files, 1, &err), B1_ARGUMENT);
    HAS("there already");
    files[0].json = json_object();
    assert_int_equal(b1i_cell_write(home_of, "../out", files, 1, &err), B1_ARGUMENT);
    files[0].json = NULL;
    put_text(home_of, "cells/0123456789abcdef/cell.json", "{\"x\": 1.6}\n");
    OK(b1i_cell_whole(home_of, "0123456789abcdef", keep_line, NULL, &whole, &err));
    assert_false(whole);
    SAID("cell.json");
    static const char *const parts[] = {"cells/77.1.part", "cells/0123456789abcdef.1.part"};
    for (int i = 0; i < 2; i++) {
        char *path = b1i_lab_join(home_of, parts[i]);
        if (mkdir(path, 0700) != 0) abort();
        put_text(path, "cell.json", "{}");
        b1i_free(path);
    }
    b1i_study_sweep(home_of);
    assert_true(is_there(home_of, parts[0])); /* somebody may be writing it */
    assert_false(is_there(home_of, parts[1]));
    assert_true(is_there(home_of, "cells/0123456789abcdef"));
}

/* ---- plans ---- */

static b1i_study_options options_of(const char *out)
{
    return (b1i_study_options){.out = out, .device = b1i_device_cpu(), .executable = self};
}

/* The tiny model in these executors, at these contexts. */
static b1_status plan_of(const char *out, size_t executors, size_t contexts, int sessions, const char *stack,
                         bool resume)
{
    static const char *const names[] = {"fused", "separate", "reference"};
    static const int64_t lengths[] = {32, 64, 48}, batches[] = {1};
    static const bool synthetic[] = {false};
    const char *models[] = {model}, *stacks[] = {stack};
    const b1i_study_matrix matrix = {.models = models,
                                     .synthetic = synthetic,
                                     .model_count = 1,
                                     .contexts = lengths,
                                     .context_count = contexts,
                                     .batches = batches,
                                     .batch_count = 1,
                                     .executors = names,
                                     .executor_count = executors,
                                     .stacks = stacks,
                                     .stack_count = stack != NULL,
                                     .threads = 1,
                                     .sessions = sessions,
                                     .warmup = 2,
                                     .steps = 12};
    b1i_study_options o = options_of(out);
    o.resume = resume;
    return b1i_study_plan(&matrix, &o, &err);
}

typedef struct listed {
    int count, done;
    char ids[16][B1I_SETTING_ID];
    int sessions[16], contexts[16];
} listed;

static b1_status list_one(void *user, const char *id, const b1i_setting *setting, bool done, b1_error *e)
{
    listed *l = user;
    (void)e;
    snprintf(l->ids[l->count], sizeof l->ids[0], "%s", id);
    l->sessions[l->count] = setting->session;
    l->contexts[l->count++] = setting->context;
    l->done += done;
    return B1_OK;
}

static listed list_of(const char *out)
{
    listed l = {.count = 0};
    OK(b1i_study_each(out, list_one, &l, &err));
    return l;
}

static void a_plan_is_a_matrix_and_is_kept(void **state)
{
    (void)state;
    const char *out = at("planned");
    OK(plan_of(out, 2, 2, 2, NULL, false));
    listed l = list_of(out);
    assert_int_equal(l.count, 8);
    assert_int_equal(l.done, 0);
    static const int sessions[] = {1, 1, 1, 1, 2, 2, 2, 2}, contexts[] = {32, 32, 64, 64, 32, 32, 64, 64};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(l.sessions[i], sessions[i]);
        assert_int_equal(l.contexts[i], contexts[i]);
        for (int k = 0; k < i; k++) assert_string_not_equal(l.ids[i], l.ids[k]);
    }
    assert_int_equal(plan_of(out, 2, 2, 2, NULL, false), B1_ARGUMENT);
    HAS("--resume");
    OK(plan_of(out, 2, 2, 2, NULL, true));
    assert_int_equal(plan_of(out, 2, 1, 2, NULL, true), B1_ARGUMENT);
    HAS("other cells");
    const char *copy = at("planned-from-file");
    b1i_study_options o = options_of(copy);
    OK(b1i_study_plan_file(at("planned/plan.json"), &o, &err));
    listed same = list_of(copy);
    assert_int_equal(same.count, 8);
    assert_memory_equal(same.ids, l.ids, sizeof l.ids);
    o.out = at("planned-for-a-gpu");
    o.device = b1i_device_at(0);
    assert_int_equal(b1i_study_plan_file(at("planned/plan.json"), &o, &err), B1_ARGUMENT);
    HAS("--device");
}

/* A file of cells that is wrong says where, and what would be right. */
static void a_file_that_is_no_plan_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *change, *says;
    } changes[] = {
        {"{\"context\":0}", "by-hand-bad.json: cell 2 of 2: \"context\" is 0: it must be a whole number from 1"},
        {"{\"weights\":\"zzz\"}", "cell 2 of 2: \"weights\": zzz: no weight format has this name; there are "},
        {"{\"executor\":\"warp\"}", "cell 2 of 2: \"executor\" is \"warp\": on cpu there are "},
        {"{\"device\":\"cuda:1\"}", "cell 2 of 2: \"device\" is \"cuda:1\", and --device is cpu"},
        {"{\"context\":64}", "cell 2 of 2: it is planned twice: "},
    };
    const char *file = at("by-hand-bad.json");
    b1i_study_options o = options_of(at("never-made"));
    b1i_setting s = setting_of("fused", 64);
    for (size_t i = 0; i < COUNT(changes); i++) {
        json_t *other = b1i_setting_json(&s), *change = json_loads(changes[i].change, 0, NULL);
        json_object_update(other, change);
        json_t *plan = json_pack("{s:[o,o]}", "cells", b1i_setting_json(&s), other);
        assert_int_equal(json_dump_file(plan, file, 0), 0);
        assert_int_equal(b1i_study_plan_file(file, &o, &err), B1_ARGUMENT);
        HAS(changes[i].says);
        json_decref(plan);
        json_decref(change);
    }
    json_t *none = json_pack("{s:{}}", "cells");
    assert_int_equal(json_dump_file(none, file, 0), 0);
    json_decref(none);
    assert_int_equal(b1i_study_plan_file(file, &o, &err), B1_ARGUMENT);
    HAS("has no cells");
    assert_int_equal(truncate(file, 4), 0);
    assert_int_equal(b1i_study_plan_file(file, &o, &err), B1_ARGUMENT);
    HAS("no valid JSON");
    assert_int_equal(b1i_study_plan_file(at("no-such-file"), &o, &err), B1_ARGUMENT);
    HAS("no-such-file");
    listed l = {.count = 0};
    assert_int_equal(b1i_study_each(at("never-made"), list_one, &l, &err), B1_ARGUMENT);
    HAS("has no plan of a study");
}

static void a_plan_that_was_changed_is_refused(void **state)
{
    (void)state;
    const char *out = at("changed");
    b1i_study_options o = options_of(out);
    OK(plan_of(out, 1, 1, 1, NULL, false));
    json_t *plan = json_load_file(at("changed/plan.json"), 0, NULL);
    json_t *setting = json_object_get(json_array_get(json_object_get(plan, "cells"), 0), "setting");
    json_object_set_new(setting, "context", json_integer(33));
    json_dump_file(plan, at("changed/plan.json"), 0);
    assert_int_equal(b1i_study_run_all(&o, &err), B1_ARGUMENT);
    HAS("its setting and binary give");
    json_object_set_new(plan, "binary_sha256", json_string("aa"));
    json_object_set_new(plan, "cells", json_array());
    json_dump_file(plan, at("changed/plan.json"), 0);
    assert_int_equal(b1i_study_run_all(&o, &err), B1_ARGUMENT);
    HAS("another build");
    json_object_set_new(plan, "more", json_array());
    json_dump_file(plan, at("changed/plan.json"), 0);
    assert_int_equal(b1i_study_run_all(&o, &err), B1_ARGUMENT);
    HAS("or unknown");
    json_decref(plan);
}

/* ---- a whole study ---- */

static bool collected(const char *out)
{
    bool all = false;
    b1i_study_options o = options_of(out);
    said[0] = 0;
    OK(b1i_study_collect(&o, keep_line, NULL, &all, &err));
    assert_int_equal(all, said[0] == 0);
    return all;
}

static json_t *cell_of(const char *out, const char *id)
{
    char name[64];
    json_t *cell;
    snprintf(name, sizeof name, "cells/%s/cell.json", id);
    OK(b1i_lab_read_json(out, name, &cell, &err));
    return cell;
}

/* Each planned cell, in this process. */
static void run_here(const char *out)
{
    const listed l = list_of(out);
    b1i_study_options o = options_of(out);
    for (int i = 0; i < l.count; i++) OK(b1i_study_run_cell(&o, l.ids[i], &err));
}

/* A sealed one, made once. */
static const char *sealed(void)
{
    static bool made;
    const char *out = at("sealed");
    if (made) return out;
    made = true;
    OK(plan_of(out, 2, 1, 1, NULL, false));
    run_here(out);
    if (!collected(out)) fail_msg("%s", said);
    return out;
}

static void a_study_in_parts_holds(void **state)
{
    (void)state;
    const char *out = sealed();
    static const char *const keys[] = {
        "id",           "session",    "kind",          "architecture",    "dtype",       "attention", "batch",
        "layers",       "parameters", "kernels",       "source",          "device_name", "cv",        "modes",
        "energy",       "machine",    "binary_sha256", "version",         "date",        "elapsed_s", "slices",
        "weight_bytes", "kv_bytes",   "r_ceiling",     "t_arithmetic_ms", "setting",     "jitter",    "device_uuid"};
    if (!holds(out)) fail_msg("%s", said);
    listed l = list_of(out);
    assert_int_equal(l.done, 2);
    json_t *cell = cell_of(out, l.ids[0]);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(cell, keys[i])) fail_msg("the cell has no %s", keys[i]);
    assert_string_equal(json_string_value(json_object_get(cell, "status")), "ok");
    assert_string_equal(json_string_value(json_object_get(cell, "executor")), "fused");
    assert_int_equal(json_integer_value(json_object_get(cell, "kv_bytes")), 2 * TINY_LAYERS * 2 * 16 * 32 * 2);
    json_decref(cell);
    /* There already: nothing is measured, nothing is written. */
    run_here(out);
    if (!holds(out)) fail_msg("%s", said);
    b1i_study_options o = options_of(out);
    assert_int_equal(b1i_study_run_cell(&o, "0000000000000000", &err), B1_ARGUMENT);
    HAS("no cell");
    assert_int_equal(b1i_study_run_all(&o, &err), B1_ARGUMENT);
    HAS("no incomplete run");
    if (!collected(out)) fail_msg("%s", said);
}

/* Sets a key of the first cell and mends both manifests; what verify then says is in `said`. */
static void forge(const char *key, json_t *value)
{
    const char *out = at("forged");
    copy_run(sealed(), out);
    listed l = list_of(out);
    char name[64], path[300];
    json_t *cell = cell_of(out, l.ids[0]);
    json_object_set_new(cell, key, value);
    snprintf(path, sizeof path, "%s/cells/%s", out, l.ids[0]);
    snprintf(name, sizeof name, "cells/%s/cell.json", l.ids[0]);
    char *file = b1i_lab_join(out, name);
    json_dump_file(cell, file, 0);
    b1i_free(file);
    json_decref(cell);
    mend(path, "cell.json");
    mend(out, name);
    snprintf(name, sizeof name, "cells/%s/manifest.json", l.ids[0]);
    mend(out, name);
    if (holds(out)) fail_msg("a forged %s holds", key);
}

static void what_does_not_follow_is_found(void **state)
{
    (void)state;
    static const char *const figures[] = {"t_obs_ms", "p10_ms", "p90_ms", "p99_ms", "ceiling_gbps", "r_ceiling", "cv"};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        forge(figures[i], json_real(0.123));
        SAID(figures[i]);
    }
    forge("modes", json_pack("{s:s,s:f,s:f,s:n}", "kind", "trend", "low_ms", 1.0, "high_ms", 2.0, "step"));
    SAID("modes");
    forge("status", json_string("failed"));
    SAID("failed");
    forge("verdict", json_string("fine"));
    SAID("verdict");
    forge("id", json_string("0000000000000000"));
    SAID("is the cell");
    forge("session", json_integer(3));
    SAID("session");
    forge("executor", json_string("persistent"));
    SAID("executor");
    forge("device", json_string("cuda:0"));
    SAID("its device is not");
    forge("source", json_pack("{s:s,s:s}", "stack", "x", "version", "1"));
    SAID("the stack of its setting");
    forge("warmup", json_integer(1));
    SAID("warmed up");
    forge("weight_bytes", json_real(1e300));
    SAID("no weight_bytes");
    forge("kv_bytes", json_integer(-1));
    SAID("no weight_bytes or kv_bytes");
    forge("device_name", json_string("a faster one"));
    SAID("a faster one");
    forge("binary_sha256", json_string("aa"));
    SAID("build");
    forge("r_floor", json_real(0.5));
    SAID("r_floor");
    forge("slices", json_array());
    SAID("no steps");
    forge("dtype", json_string("f32"));
    SAID("dtype");
    forge("threads", json_integer(64));
    SAID("threads");
    forge("architecture", json_string("gpt"));
    SAID("analysis.json");
}

static void what_is_missing_or_more_is_found(void **state)
{
    (void)state;
    const char *out = at("parts");
    OK(plan_of(out, 2, 1, 1, NULL, false));
    listed l = list_of(out);
    b1i_study_options o = options_of(out);
    OK(b1i_study_run_cell(&o, l.ids[0], &err));
    assert_false(collected(out));
    SAID("was not measured");
    assert_false(holds(out));
    SAID("incomplete");
    OK(b1i_study_run_cell(&o, l.ids[1], &err));
    if (mkdir(at("parts/cells/1111111111111111"), 0700) != 0) abort();
    put_text(out, "cells/1111111111111111/cell.json", "{}");
    assert_false(collected(out));
    SAID("is not of the plan");
    remove_all(at("parts/cells/1111111111111111"));
    char name[64];
    snprintf(name, sizeof name, "cells/%s/cell.json", l.ids[1]);
    char *text = text_of(out, name), *step = strstr(text, "\"step_ns\"");
    step = strpbrk(step, "123456789");
    *step = *step == '1' ? '2' : '1';
    put_text(out, name, text);
    assert_false(collected(out));
    SAID("SHA-256");
    assert_false(is_there(out, "analysis.json"));
    *step = *step == '1' ? '2' : '1';
    b1i_free(text);
}

/* ---- processes ---- */

static void cells_have_processes_of_their_own(void **state)
{
    (void)state;
    if (emulated()) skip();
    const char *out = at("processes");
    b1i_study_options o = options_of(out);
    OK(plan_of(out, 1, 2, 1, NULL, false));
    listed l = list_of(out);
    setenv(HOW, "die", 1);
    OK(b1i_study_run_all(&o, &err));
    unsetenv(HOW);
    json_t *cell = cell_of(out, l.ids[0]), *commands;
    assert_string_equal(json_string_value(json_object_get(cell, "status")), "failed");
    const char *message = json_string_value(json_object_get(cell, "message"));
    assert_non_null(strstr(message, "exit code 9"));
    assert_non_null(strstr(message, "it died as it was told to"));
    assert_true(json_is_null(json_object_get(cell, "t_obs_ms")));
    assert_string_equal(json_string_value(json_object_get(cell, "architecture")), "llama");
    json_decref(cell);
    OK(b1i_lab_read_json(out, "commands.json", &commands, &err));
    const json_t *list = json_object_get(commands, "commands"), *first = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(json_integer_value(json_object_get(first, "exit_code")), 9);
    assert_string_equal(json_string_value(json_array_get(json_object_get(first, "argv"), 4)), l.ids[0]);
    json_decref(commands);
    if (!collected(out) || !holds(out)) fail_msg("%s", said);
}

static bool stop;
static bool stopped(void) { return stop; }

static void stop_soon(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    (void)what;
    assert_true(done <= total);
    assert_true(total == 0 || 2 * done >= total); /* of the first nothing is known; then one of two is done */
    stop = total > 0;
}

static void hear_for_how_long(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    if (strstr(what, " stack 32, for ")) *(bool *)user = true;
}

/* A cell of which nothing is known says for how long it has run: a silent stack is not a command that hangs. */
static void a_silent_cell_says_for_how_long(void **state)
{
    (void)state;
    if (emulated()) skip();
    bool said_so = false;
    b1i_study_options o = options_of(at("silent"));
    o.progress = hear_for_how_long;
    o.progress_user = &said_so;
    OK(plan_of(o.out, 0, 1, 1, "sleep 2", false));
    OK(b1i_study_run_all(&o, &err));
    assert_true(said_so);
}

static void a_study_is_killed_and_resumed(void **state)
{
    (void)state;
    if (emulated()) skip();
    const char *out = at("resumed");
    b1i_study_options o = options_of(out);
    o.cancelled = stopped;
    o.progress = stop_soon;
    OK(plan_of(out, 2, 1, 1, NULL, false));
    listed l = list_of(out);
    setenv(HOW, "kill", 1);
    stop = false;
    assert_int_equal(b1i_study_run_all(&o, &err), B1_CANCELLED);
    unsetenv(HOW);
    json_t *cell = cell_of(out, l.ids[0]);
    assert_non_null(strstr(json_string_value(json_object_get(cell, "message")), "signal 9"));
    json_decref(cell);
    assert_false(is_there(out, "device-after.json"));
    /* What another that was killed has left goes, the cells that are there stay. */
    char part[300];
    snprintf(part, sizeof part, "%s/cells/%s.9.part", out, l.ids[1]);
    if (mkdir(part, 0700) != 0) abort();
    o = options_of(out);
    OK(plan_of(out, 2, 1, 1, NULL, true));
    OK(b1i_study_run_all(&o, &err));
    if (!collected(out) || !holds(out)) fail_msg("%s", said);
    cell = cell_of(out, l.ids[1]);
    assert_string_equal(json_string_value(json_object_get(cell, "status")), "ok");
    json_decref(cell);
    json_t *environment, *commands;
    OK(b1i_lab_read_json(out, "environment.json", &environment, &err));
    assert_int_equal(json_array_size(json_object_get(environment, "processes")), 2);
    json_decref(environment);
    OK(b1i_lab_read_json(out, "commands.json", &commands, &err));
    assert_int_equal(json_array_size(json_object_get(commands, "commands")), 2);
    json_decref(commands);
}

/* The number in a file that a process writes, once it is there. */
static pid_t pid_in(const char *path)
{
    long pid = 0;
    for (int i = 0; i < 1000 && pid <= 0; i++) {
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%ld\n", &pid) != 1) pid = 0;
        if (f) fclose(f);
        if (pid <= 0) poll(NULL, 0, 10);
    }
    if (pid <= 0) fail_msg("%s does not come", path);
    return (pid_t)pid;
}

static void put_pid(const char *path, pid_t pid)
{
    FILE *f = fopen(path, "w");
    if (!f) abort();
    fprintf(f, "%ld\n", (long)pid);
    fclose(f);
}

/* Whether the study is refused for the sake of what still runs. */
static void expect_locked(const b1i_study_options *o)
{
    bool all;
    assert_int_equal(b1i_study_run_all(o, &err), B1_ARGUMENT);
    HAS("still running");
    assert_int_equal(b1i_study_collect(o, keep_line, NULL, &all, &err), B1_ARGUMENT);
    HAS("still running");
}

/* A killed study's cell, and the stack that it started in a group of its own, are joined by no other. */
static void what_outlives_its_study_runs_alone(void **state)
{
    (void)state;
    if (emulated()) skip();
    const char *out = at("outlived");
    b1i_study_options o = options_of(out);
    OK(plan_of(out, 1, 1, 1, NULL, false));
    char cell_file[300], stack_file[300];
    snprintf(cell_file, sizeof cell_file, "%s", at("cell.pid"));
    snprintf(stack_file, sizeof stack_file, "%s", at("stack.pid"));
    setenv(HOW, "linger", 1);
    setenv(HOME_OF, home, 1);
    pid_t study = fork();
    if (study == 0) _exit(b1i_study_run_all(&o, &err) != B1_OK);
    assert_true(study > 0);
    const pid_t cell = pid_in(cell_file), stack = pid_in(stack_file);
    unsetenv(HOW);
    expect_locked(&o);
    assert_int_equal(kill(study, SIGKILL), 0);
    assert_int_equal(waitpid(study, NULL, 0), study);
    expect_locked(&o);
    assert_int_equal(kill(cell, SIGKILL), 0);
    for (int i = 0; i < 1000 && kill(cell, 0) == 0; i++) poll(NULL, 0, 10);
    expect_locked(&o);
    assert_int_equal(kill(stack, SIGKILL), 0);
    b1_status st = B1_ARGUMENT;
    for (int i = 0; i < 1000 && st == B1_ARGUMENT; i++) {
        poll(NULL, 0, 10);
        st = b1i_study_run_all(&o, &err);
    }
    OK(st);
    if (!collected(out) || !holds(out)) fail_msg("%s", said);
}

/* What a cell has left running keeps nobody from sealing a study that ended well. */
static void what_a_cell_leaves_behind_locks_nothing(void **state)
{
    (void)state;
    if (emulated()) skip();
    const char *out = at("left");
    b1i_study_options o = options_of(out);
    OK(plan_of(out, 1, 1, 1, NULL, false));
    char file[300];
    snprintf(file, sizeof file, "%s", at("stack.pid"));
    unlink(file);
    setenv(HOW, "leave", 1);
    setenv(HOME_OF, home, 1);
    OK(b1i_study_run_all(&o, &err));
    unsetenv(HOW);
    const pid_t left = pid_in(file);
    assert_int_equal(kill(left, 0), 0);
    if (!collected(out) || !holds(out)) fail_msg("%s", said);
    assert_int_equal(kill(left, SIGKILL), 0);
}

/* ---- cells that do not run, and stacks ---- */

static json_t *measured(const b1i_setting *s)
{
    json_t *cell;
    const b1i_measure_options o = {NULL, NULL, NULL};
    OK(b1i_setting_measure(s, &o, &cell, NULL, &err));
    said[0] = 0;
    OK(b1i_cell_check(cell, s, keep_line, NULL, &err));
    if (said[0]) fail_msg("%s", said);
    return cell;
}

static void expect(b1i_setting s, const char *status, const char *reason)
{
    json_t *cell = measured(&s);
    const char *message = json_string_value(json_object_get(cell, "message"));
    assert_string_equal(json_string_value(json_object_get(cell, "status")), status);
    if (!strstr(message, reason)) fail_msg("no \"%s\" in: %s", reason, message);
    json_decref(cell);
}

static void what_cannot_run_is_a_cell_with_the_reason(void **state)
{
    (void)state;
    b1i_setting s = setting_of("fused", 32);
    s.weights = (char *)(uintptr_t) "q4_0";
    expect(s, "unsupported", "its own format");
    s = setting_of("fused_graph", 32);
    expect(s, "unsupported", "fused_graph");
    s = setting_of("fused", 32);
    s.model = (char *)(uintptr_t) "/no/such/model";
    expect(s, "failed", "/no/such/model");
    s = setting_of("fused", 32);
    s.model = (char *)(uintptr_t) "llama-3.1-8b";
    s.synthetic = true;
    s.weights = (char *)(uintptr_t) "f32";
    s.context = 131072;
    if (b1i_memory_available() < 30000000000) expect(s, "out_of_memory", "does not fit");
}

/* What the cell of a changed key is said to be. */
static void expect_said(const json_t *cell, const b1i_setting *s, const char *key, json_t *value, const char *line)
{
    json_t *changed = json_copy((json_t *)(uintptr_t)cell);
    json_object_set_new(changed, key, value);
    said[0] = 0;
    OK(b1i_cell_check(changed, s, keep_line, NULL, &err));
    if (!strstr(said, line)) fail_msg("of a forged %s: %s", key, said);
    json_decref(changed);
}

static void facts_follow_from_a_shape(void **state)
{
    (void)state;
    b1i_setting s = setting_of("fused", 32);
    s.model = (char *)(uintptr_t) "smollm2-135m";
    s.synthetic = true;
    s.batch = 2;
    json_t *cell = measured(&s);
    assert_string_equal(json_string_value(json_object_get(cell, "status")), "ok");
    static const char *const facts[] = {"layers", "parameters", "flops", "kv_bytes", "weight_bytes"};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        double value = json_number_value(json_object_get(cell, facts[i]));
        expect_said(cell, &s, facts[i], json_integer((json_int_t)(value + value / 5)), facts[i]);
    }
    expect_said(cell, &s, "model", json_string("llama-3.1-8b"), "its shape");
    expect_said(cell, &s, "architecture", json_string("gpt"), "its shape");
    const json_t *slices = json_object_get(cell, "slices");
    size_t steps = 0;
    for (size_t i = 0; i < json_array_size(slices); i++)
        steps += json_array_size(json_object_get(json_array_get(slices, i), "step_ns"));
    s.steps = (int)steps + 1;
    expect_said(cell, &s, "kernels", json_null(), "asks for");
    json_decref(cell);
}

static void several_sequences_read_their_own_keys(void **state)
{
    (void)state;
    b1i_setting s = setting_of("fused", 32);
    s.batch = 4;
    s.deadline_ms = 1e-3; /* every step is late */
    json_t *cell = measured(&s);
    assert_string_equal(json_string_value(json_object_get(cell, "status")), "ok");
    assert_int_equal(json_integer_value(json_object_get(cell, "batch")), 4);
    const json_t *jitter = json_object_get(cell, "jitter");
    assert_true(json_integer_value(json_object_get(jitter, "steps")) >= 12);
    assert_true(json_equal(json_object_get(jitter, "missed"), json_object_get(jitter, "steps")));
    assert_int_equal(json_integer_value(json_object_get(cell, "kv_bytes")), 4 * 2 * TINY_LAYERS * 2 * 16 * 32 * 2);
    json_decref(cell);
}

/* A stack whose steps take about 50 ms, of which it says a part. */
static const char *stack_that_says(const char *part)
{
    static char command[600];
    snprintf(command, sizeof command,
             "read line; echo '{\"stack\":\"sleeper\",\"version\":\"2\",\"attention\":\"none\"}'; i=0; "
             "while [ $i -lt 14 ]; do a=$(date +%%s%%N); sleep 0.05; b=$(date +%%s%%N); "
             "echo \"{\\\"step\\\":$i,\\\"ns\\\":$(((b-a)%s))}\"; i=$((i+1)); done",
             part);
    return command;
}

static void a_stack_is_measured_like_our_own(void **state)
{
    (void)state;
    if (emulated()) skip();
    b1i_setting s = setting_of(NULL, 32);
    s.stack = (char *)(uintptr_t)stack_that_says("*103/100");
    json_t *cell = measured(&s);
    if (strcmp(json_string_value(json_object_get(cell, "status")), "ok") != 0) /* a machine that is this busy */
        print_message("the stack: %s\n", json_string_value(json_object_get(cell, "message")));
    else
        assert_int_equal(json_array_size(json_array_get(json_object_get(cell, "harness_ns"), 0)), 12);
    assert_string_equal(json_string_value(json_object_get(cell, "executor")), "stack:sleeper");
    const json_t *source = json_object_get(cell, "source");
    assert_string_equal(json_string_value(json_object_get(source, "version")), "2");
    assert_string_equal(json_string_value(json_object_get(cell, "attention")), "none");
    json_decref(cell);
    s.stack = (char *)(uintptr_t)stack_that_says("/2");
    expect(s, "failed", "5 %");
    s.stack = (char *)(uintptr_t) "echo '{\"status\":\"unsupported\",\"message\":\"not this one\"}'";
    expect(s, "unsupported", "not this one");
}

/* ---- the analysis ---- */

/* A cell of that many ms and bytes as the analysis needs it. */
static void put_cell(const char *out, const b1i_planned *p, double ms, const char *verdict)
{
    json_t *cell = json_pack(
        "{s:s,s:s,s:s,s:s,s:n,s:s,s:s?,s:i,s:i,s:i,s:i,s:s,s:s?,s:n,s:o,s:f,s:i,s:i,s:n}", "id", p->id, "model", "m",
        "architecture", "llama", "device_name", "d", "device_uuid", "executor", p->setting.executor, "weights",
        p->setting.weights ? p->setting.weights : "bf16", "context", p->setting.context, "threads", 1, "batch",
        p->setting.batch, "session", p->setting.session, "status", ms > 0 ? "ok" : "failed", "verdict", verdict,
        "message", "t_obs_ms", ms > 0 ? json_real(ms) : json_null(), "cv", 0.01, "weight_bytes",
        p->setting.weights ? 500 : 1600, "kv_bytes", 100 * p->setting.batch, "modes");
    const b1i_cell_file file = {"cell.json", cell};
    OK(b1i_cell_write(out, p->id, &file, 1, &err));
}

static const json_t *group_with(const json_t *analysis, const char *weights, int batch)
{
    json_t *group;
    size_t i;
    json_array_foreach(json_object_get(analysis, "groups"), i, group)
    {
        if (strcmp(json_string_value(json_object_get(group, "weights")), weights) == 0 &&
            json_integer_value(json_object_get(group, "batch")) == batch)
            return group;
    }
    fail_msg("no group of %s, %d", weights, batch);
    return NULL;
}

static double figure(const json_t *j, const char *key) { return json_number_value(json_object_get(j, key)); }
static void about(double x, double y)
{
    if (!(x > y * (1 - 1e-9) && x < y * (1 + 1e-9))) fail_msg("%.12g is not %.12g", x, y);
}

/* Two formats, batches 1 and 4, three sessions: bf16 takes 10, 11, 12 ms, q4_0 5, 5.5 and fails; batch 4 is twice. */
static json_t *analysis_by_hand(const char *out)
{
    static const char *const executors[] = {"fused"}, *const formats[] = {NULL, "q4_0"};
    static const int64_t lengths[] = {32}, batches[] = {1, 4};
    static const bool synthetic[] = {true};
    const char *models[] = {"smollm2-135m"};
    const b1i_study_matrix matrix = {models, synthetic, 1, formats, 2, lengths, batches, 1,     2, executors,
                                     NULL,   1,         0, 1,       3, 2,       12,      false, 0};
    b1i_study_options o = options_of(out);
    b1i_study_planned plan;
    json_t *analysis;
    OK(b1i_study_plan(&matrix, &o, &err));
    OK(b1i_study_plan_read(out, &plan, &err));
    assert_int_equal(plan.count, 12);
    for (size_t i = 0; i < plan.count; i++) {
        const b1i_setting *s = &plan.cells[i].setting;
        double ms = (9 + s->session) * (s->weights ? 0.5 : 1) * (s->batch == 4 ? 2 : 1);
        const bool fails = s->weights && s->session == 3;
        put_cell(out, &plan.cells[i], fails ? 0 : ms, fails ? NULL : s->batch == 4 ? "drifting" : "ok");
    }
    OK(b1i_study_analyse(out, &plan, &analysis, &err));
    b1i_study_plan_free(&plan);
    return analysis;
}

static void the_analysis_follows_from_the_cells(void **state)
{
    (void)state;
    json_t *analysis = analysis_by_hand(at("by-hand"));
    assert_int_equal(json_array_size(json_object_get(analysis, "cells")), 12);
    assert_int_equal(json_array_size(json_object_get(analysis, "groups")), 4);
    const json_t *g = group_with(analysis, "bf16", 1);
    assert_int_equal(figure(g, "sessions"), 3);
    about(figure(g, "t_obs_ms"), 11);
    about(figure(g, "mean_ms"), 11);
    about(figure(g, "min_ms"), 10);
    about(figure(g, "max_ms"), 12);
    about(figure(g, "cv_within"), 0.01);
    about(figure(g, "cv_across"), 1.0 / 11);
    about(figure(g, "tokens_per_s"), 1e3 / 11);
    assert_true(json_is_true(json_object_get(g, "headline")));
    g = group_with(analysis, "q4_0", 1);
    assert_int_equal(figure(g, "sessions"), 3);
    assert_int_equal(figure(g, "ok"), 2);
    about(figure(g, "t_obs_ms"), 5.25);
    g = group_with(analysis, "bf16", 4);
    about(figure(g, "tokens_per_s"), 4e3 / 22);
    assert_false(json_is_true(json_object_get(g, "headline")));
    const json_t *weights = json_object_get(analysis, "weights"), *batch = json_object_get(analysis, "batch");
    assert_int_equal(json_array_size(weights), 2);
    assert_int_equal(json_array_size(batch), 2);
    const json_t *row = json_array_get(weights, 0);
    about(figure(row, "bytes_ratio"), 1700.0 / 600);
    about(figure(row, "paper_ratio"), 1700.0 / 500);
    about(figure(row, "speedup"), 11 / 5.25);
    about(figure(row, "realised"), 11 / 5.25 / (1700.0 / 600));
    assert_string_equal(json_string_value(json_object_get(row, "against")), "bf16");
    assert_true(json_is_true(json_object_get(row, "headline")));
    assert_true(json_is_false(json_object_get(json_array_get(weights, 1), "headline"))); /* of batch 4, which drifts */
    row = json_array_get(batch, 0);
    assert_true(json_is_false(json_object_get(row, "headline")));
    about(figure(row, "step_ratio"), 2);
    about(figure(row, "throughput"), 2);
    json_decref(analysis);
}

/* ---- memory ---- */

/* Every allocation of `work` fails once; it then returns B1_MEMORY or B1_IO, and nothing is left. */
static void fail_each_allocation(b1_status (*work)(void), const char *what)
{
    json_set_alloc_funcs(b1i_malloc, b1i_free);
    long refused = 0;
    for (long n = 0;; n += n < 100 ? 1 : 23) {
        long alive = b1i_alloc_live();
        b1i_alloc_fail_at(n);
        b1_status st = work();
        b1i_alloc_fail_at(-1);
        if (b1i_alloc_live() != alive) fail_msg("%s: allocation %ld: %ld are left", what, n, b1i_alloc_live() - alive);
        if (st == B1_OK) break;
        if (st != B1_MEMORY && st != B1_IO && st != B1_ARGUMENT)
            fail_msg("%s: allocation %ld: %s", what, n, err.message);
        refused++;
    }
    json_set_alloc_funcs(malloc, free);
    if (refused < 5) fail_msg("%s: only %ld allocations failed", what, refused);
}

static b1_status read_a_plan(void)
{
    b1i_study_planned plan;
    b1_status st = b1i_study_plan_read(at("sealed"), &plan, &err);
    b1i_study_plan_free(&plan);
    return st;
}

static b1_status make_an_analysis(void)
{
    b1i_study_planned plan;
    json_t *analysis = NULL;
    b1_status st = b1i_study_plan_read(at("by-hand-again"), &plan, &err);
    if (st == B1_OK) st = b1i_study_analyse(at("by-hand-again"), &plan, &analysis, &err);
    json_decref(analysis);
    b1i_study_plan_free(&plan);
    return st;
}

static b1_status write_a_cell(void)
{
    remove_all(at("written"));
    if (mkdir(at("written"), 0700) != 0) abort();
    const b1i_cell_file file = {"cell.json", json_pack("{s:f,s:[i,i]}", "x", 1.5, "y", 1, 2)};
    b1_status st = file.json ? b1i_cell_write(at("written"), "aa", &file, 1, &err) : B1_MEMORY;
    if (st != B1_OK) assert_false(is_there(at("written"), "cells/aa"));
    return st;
}

static b1_status fail_a_cell(void)
{
    b1i_setting s = setting_of("fused", 32);
    json_t *cell;
    b1_status st = b1i_setting_failed(&s, "failed", "as it was told to", &cell, &err);
    json_decref(cell);
    return st;
}

static void no_allocation_may_fail_unseen(void **state)
{
    (void)state;
    sealed();
    json_decref(analysis_by_hand(at("by-hand-again")));
    fail_each_allocation(read_a_plan, "a plan");
    fail_each_allocation(make_an_analysis, "an analysis");
    fail_each_allocation(write_a_cell, "a folder");
    fail_each_allocation(fail_a_cell, "a failed cell");
}

/* ---- this program as the command ---- */

/* Starts what a stack would be, and stays. */
/* Starts something that goes on by itself. */
static int leave(void)
{
    b1i_child stack;
    char *file = b1i_lab_join(getenv(HOME_OF), "stack.pid");
    if (b1i_child_start(&stack, "exec sleep 60", "", &err) != B1_OK) return 1;
    put_pid(file, stack.pid);
    b1i_free(file);
    return 0;
}

static int linger(void)
{
    if (leave() != 0) return 1;
    put_pid(b1i_lab_join(getenv(HOME_OF), "cell.pid"), getpid());
    return poll(NULL, 0, 60000);
}

static int child(char **arguments)
{
    const char *how = getenv(HOW);
    if (how && strcmp(how, "die") == 0) {
        fputs("it died as it was told to\n", stderr);
        return 9;
    }
    if (how && strcmp(how, "kill") == 0) raise(SIGKILL);
    if (how && strcmp(how, "linger") == 0) return linger();
    if (how && strcmp(how, "leave") == 0 && leave() != 0) return 1;
    const b1i_study_options o = options_of(arguments[6]);
    b1_status st = b1i_study_run_cell(&o, arguments[4], &err);
    if (st != B1_OK) fprintf(stderr, "%s\n", err.message);
    return st != B1_OK;
}

int main(int count, char **arguments)
{
    find_self();
    b1i_subject_ceiling_bytes = 64 << 20;
    if (count == 7 && strcmp(arguments[1], "study") == 0) return child(arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_setting_is_its_json),
        cmocka_unit_test(a_setting_that_is_none_is_refused),
        cmocka_unit_test(a_format_has_a_name),
        cmocka_unit_test(planted_modes_are_found),
        cmocka_unit_test(noise_has_one_mode),
        cmocka_unit_test(a_cell_appears_whole_or_not_at_all),
        cmocka_unit_test(a_plan_is_a_matrix_and_is_kept),
        cmocka_unit_test(a_file_that_is_no_plan_is_refused),
        cmocka_unit_test(a_plan_that_was_changed_is_refused),
        cmocka_unit_test(a_study_in_parts_holds),
        cmocka_unit_test(what_does_not_follow_is_found),
        cmocka_unit_test(what_is_missing_or_more_is_found),
        cmocka_unit_test(cells_have_processes_of_their_own),
        cmocka_unit_test(a_silent_cell_says_for_how_long),
        cmocka_unit_test(a_study_is_killed_and_resumed),
        cmocka_unit_test(what_outlives_its_study_runs_alone),
        cmocka_unit_test(what_a_cell_leaves_behind_locks_nothing),
        cmocka_unit_test(what_cannot_run_is_a_cell_with_the_reason),
        cmocka_unit_test(facts_follow_from_a_shape),
        cmocka_unit_test(several_sequences_read_their_own_keys),
        cmocka_unit_test(a_stack_is_measured_like_our_own),
        cmocka_unit_test(the_analysis_follows_from_the_cells),
        cmocka_unit_test(no_allocation_may_fail_unseen),
    };
    return cmocka_run_group_tests(tests, setup, remove_home);
}
