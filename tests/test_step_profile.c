/* SPDX-License-Identifier: MIT
 *
 * The profile of a step: where layers lie in what repeats, the figures of records that are made up, the executors of
 * the CPU by their own times, CUPTI on a driver that stands in for a GPU's, and where there is a GPU on that.
 */
#include "lab/step_profile.h"

#include "lab/kernels/probe_args.h"
#include "lab/step_cupti.h"
#include "lab/step_trace.h"
#include "tests/lab_rig.h"

#include <math.h>

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(b) + 1e-12; }

/* ---- where the layers lie ---- */

/* Kernels named by letters. */
static const char *names_of(const char *letters, const char *names[])
{
    static char all[256][2];
    for (size_t i = 0; letters[i]; i++) {
        all[(unsigned char)letters[i]][0] = letters[i];
        names[i] = all[(unsigned char)letters[i]];
    }
    return letters;
}

static void layers_by_what_repeats(void **state)
{
    (void)state;
    static const struct {
        const char *kernels;
        int layers, first, end, least, most; /* first −1: none */
    } cases[] = {
        {"enqaonfnqaonfnh", 2, 1, 13, 6, 6}, /* norms within, before and after the layers */
        {"eqaofqaofqaofh", 3, 1, 13, 4, 4},   {"eqaofqaofqaof", 3, 1, 13, 4, 4}, {"qaqaqa", 3, 0, 6, 2, 2},
        {"exqaofqasofqaofh", 3, 2, 15, 4, 5}, /* one has a kernel more */
        {"eqqaqqaqqah", 3, 1, 10, 3, 3},      /* one occurs twice a layer, one once */
        {"xqqqqqqh", 3, 1, 7, 2, 2},          /* what occurs equally often in each */
        {"eqaofqaofqaofh", 4, -1, 0, 0, 0},   {"eqaofh", 1, -1, 0, 0, 0},        {"", 2, -1, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *names[64];
        b1i_layers found;
        const size_t count = strlen(names_of(cases[i].kernels, names));
        const bool any = b1i_layers_find(names, count, cases[i].layers, &found);
        if (any != (cases[i].first >= 0)) fail_msg("%s: %d", cases[i].kernels, any);
        if (!any) continue;
        if ((int)found.first != cases[i].first || (int)found.end != cases[i].end || found.least != cases[i].least ||
            found.most != cases[i].most)
            fail_msg("%s: [%zu, %zu), %d to %d", cases[i].kernels, found.first, found.end, found.least, found.most);
    }
}

/* ---- records that are made up ---- */

enum { KERNELS = 8, STEPS = 3 };

/* A step at `at`: kernel i of e q a q a h takes 100 (i + 1) ns; 50 ns lie between two, but the last two overlap by 20.
 * A memset fills the first gap. `slower` is added to the first kernel. */
static size_t make_step(b1i_step_record *r, uint64_t at, uint64_t slower)
{
    static const char *const names[] = {"e", "q", "a", "q", "a", "h"};
    size_t used = 0;
    for (int i = 0; i < 6; i++) {
        const uint64_t ns = 100 * (uint64_t)(i + 1) + (i ? 0 : slower);
        if (i == 5) at -= 70;
        r[used++] = (b1i_step_record){b1i_step_kernel, names[i], B1I_LAYER_UNKNOWN, at, at + ns};
        at += ns;
        if (i == 0) r[used++] = (b1i_step_record){b1i_step_memset, NULL, B1I_LAYER_UNKNOWN, at, at + 50};
        at += 50;
    }
    return used;
}

static void figures(void **state)
{
    (void)state;
    b1i_step_record records[STEPS][KERNELS];
    b1i_step_seen seen[STEPS];
    json_t *json;
    for (int s = 0; s < STEPS; s++) {
        seen[s] = (b1i_step_seen){records[s], make_step(records[s], 5000 + 10000 * (uint64_t)s, 10 * (uint64_t)s), 300,
                                  s == 1 ? 900 : 800};
    }
    OK(b1i_step_trace_json(seen, STEPS, 2, &json, &err));
    assert_true(number(json, "kernels_per_step") == 6 && number(json, "outside") == 2);
    const json_t *per = json_object_get(json, "kernels_per_layer");
    assert_true(number(per, "min") == 2 && number(per, "max") == 2);
    /* By the middle step, whose first kernel takes 110. */
    assert_true(near(number(json, "kernel_ms"), 2110e-6) && near(number(json, "gap_ms"), 150e-6));
    assert_true(near(number(json, "overlap_ms"), 20e-6));
    assert_true(near(number(json, "launch_ms"), 300e-6) && near(number(json, "sync_ms"), 800e-6));
    assert_true(near(number(json, "host_over_kernel"), 1100.0 / 2110));
    assert_true(json_is_null(json_object_get(json, "message")));
    const json_t *rows = json_object_get(json, "kernels"), *q = json_array_get(rows, 1);
    assert_int_equal(json_array_size(rows), 4);
    assert_string_equal(json_string_value(json_object_get(q, "name")), "q");
    assert_true(number(q, "count") == 2 && number(q, "ns") == 300 && number(q, "total_ns") == 600);
    assert_true(json_is_true(json_object_get(q, "layer")));
    assert_true(json_is_false(json_object_get(json_array_get(rows, 0), "layer")));
    assert_true(number(json_array_get(rows, 0), "ns") == 110);
    /* printf 'e\nq\na\nq\na\nh\n' | sha256sum */
    assert_string_equal(json_string_value(json_object_get(json, "sequence_sha256")),
                        "4c7bda2647e62c7c72e4a8acf1b48f7e4c88cb15b016b3f0c049a4b618c05820");
    const json_t *activities = json_object_get(json, "activities"), *second = json_array_get(activities, 1);
    assert_int_equal(json_array_size(activities), 7);
    assert_string_equal(json_string_value(json_object_get(second, "kind")), "memset");
    assert_true(json_is_null(json_object_get(second, "name")) && number(second, "begin_ns") == 100);

    json_t *other;
    records[1][4].name = "b";
    OK(b1i_step_trace_json(seen, STEPS, 2, &other, &err));
    assert_non_null(strstr(json_string_value(json_object_get(other, "message")), "1 of 3 steps"));
    assert_true(near(number(json_array_get(json_object_get(other, "kernels"), 0), "ns"), 110)); /* of 100 and 120 */
    json_decref(other);
    records[1][4].name = "a";
    records[0][4].name = "b";
    OK(b1i_step_trace_json(seen, 1, 2, &other, &err));
    json_object_set_new(json, "found", json_true());
    json_object_set_new(other, "found", json_true());
    assert_true(b1i_step_profile_same(json, json) && !b1i_step_profile_same(json, other));
    /* Of a stack that gives no order. */
    json_object_del(json, "sequence_sha256");
    assert_true(b1i_step_profile_same(json, json) && !b1i_step_profile_same(json, other));
    json_object_set_new(json, "found", json_false());
    assert_true(!b1i_step_profile_same(json, json));
    json_decref(other);
    json_decref(json);
}

static void no_memory(void **state)
{
    (void)state;
    b1i_step_record records[KERNELS];
    const b1i_step_seen seen = {records, make_step(records, 5000, 0), -1, -1};
    const long live = b1i_alloc_live();
    for (long at = 0;; at++) {
        json_t *json;
        b1i_alloc_fail_at(at);
        const b1_status st = b1i_step_trace_json(&seen, 1, 2, &json, &err);
        b1i_alloc_fail_at(-1);
        assert_true((st == B1_OK) == (json != NULL));
        /* Without its own, where the layers lie is not known. */
        if (st == B1_OK && number(json, "outside") == 2) at = -2;
        json_decref(json);
        assert_int_equal(b1i_alloc_live(), live);
        if (at == -2) break;
        assert_true(st == B1_MEMORY || st == B1_OK);
    }
}

/* ---- the executors of the CPU ---- */

static const char MODEL[] = B1I_SOURCE_DIR "/tests/fixtures/models/llama3-tied";

static const char *cpu_executor(int index)
{
    const char *device = b1_executor_device(index);
    return device && strcmp(device, "cpu") == 0 ? b1_executor_name(index) : NULL;
}

static json_t *profile_of(b1_engine *e, const char *executor, int batch)
{
    json_t *json;
    const b1_session_options how = {.executor = executor};
    OK(b1i_step_profile(e, &how, batch, 32, 100, 4, &json, &err));
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "schema")), "batchone.step-profile/1");
    return json;
}

static json_t *kernels_of(b1_engine *e, const char *executor, int layers)
{
    b1_session *s;
    const b1_session_options how = {.executor = executor, .context = 32};
    OK(b1_session_create(e, &how, &s, &err));
    json_t *kernels = b1i_step_kernels(s, layers);
    b1_session_close(s);
    return kernels;
}

static void profile_on_the_cpu(b1_engine *engine, const char *executor)
{
    json_t *json = profile_of(engine, executor, 1), *again = profile_of(engine, executor, 1);
    json_t *kernels = kernels_of(engine, executor, 2);
    const json_t *per = json_object_get(json, "kernels_per_layer");
    assert_true(json_is_true(json_object_get(json, "found")));
    assert_string_equal(json_string_value(json_object_get(json, "by")), "executor");
    assert_true(number(per, "min") > 0 && number(per, "min") == number(per, "max"));
    assert_true(number(json, "kernels_per_step") == 2 * number(per, "min") + number(json, "outside"));
    assert_true(number(json, "kernel_ms") > 0 && number(json, "unprofiled_ms") > 0);
    assert_true(near(number(json, "distortion"), number(json, "profiled_ms") / number(json, "unprofiled_ms")));
    assert_true(number(json, "utilisation") > 0);
    assert_true(json_is_null(json_object_get(json, "gap_ms")) && json_is_null(json_object_get(json, "launch_ms")));
    assert_true(b1i_step_profile_same(json, again));
    if (strcmp(executor, "persistent") == 0)
        assert_true(number(kernels, "step") == 1 && number(kernels, "layer_max") == 0);
    else
        assert_true(number(kernels, "step") == 2 * number(kernels, "layer_min") + number(kernels, "outside") &&
                    number(kernels, "step") >= number(json, "kernels_per_step"));
    json_decref(kernels);
    json_decref(again);
    json_decref(json);
}

static void of_the_cpu(void **state)
{
    (void)state;
    json_t *json, *other;
    b1_engine *engine;
    const b1_engine_options o = {.device = "cpu", .threads = 2, .context = 64};
    const b1_session_options how = {.executor = "fused"};
    OK(b1_engine_open(MODEL, &o, &engine, &err));
    for (int i = 0; cpu_executor(i); i++) profile_on_the_cpu(engine, cpu_executor(i));
    json = profile_of(engine, "fused", 1);
    other = profile_of(engine, "separate", 1);
    assert_false(b1i_step_profile_same(json, other));
    json_decref(json);
    json_decref(other);
    json = profile_of(engine, "fused", 2);
    other = profile_of(engine, "fused", 1);
    assert_true(json_is_true(json_object_get(json, "found")) && number(json, "batch") == 2);
    assert_true(b1i_step_profile_same(json, other));
    json_decref(json);
    json_decref(other);
    json = kernels_of(engine, "fused", 3);
    assert_true(json_is_null(json)); /* it has no third layer */
    assert_int_equal(b1i_step_profile(engine, &how, 0, 32, 0, 4, &json, &err), B1_ARGUMENT);
    assert_int_equal(b1i_step_profile(engine, &how, 1, 2000000000, 0, 4, &json, &err), B1_MEMORY);
    assert_null(json);
    b1_engine_close(engine);
}

/* ---- CUPTI ---- */

/* Three kernels that spin and a memset, as a work of the lab. */
typedef struct spinning {
    b1i_lab_device *device;
    b1i_lab_mode mode;
    b1i_lab_op ops[4];
    b1i_lab_work *work;
    unsigned recording; /* in which it was made */
    int steps, fails_at;
} spinning;

static b1_status spin(void *user, double *ns, b1_error *e)
{
    spinning *s = user;
    b1_status st = B1_OK;
    if (++s->steps == s->fails_at) return b1i_fail(e, B1_DEVICE, "the step fails as it was told to");
    if (!s->work || (b1i_gpu_recording() && b1i_gpu_recording() != s->recording)) {
        b1i_lab_work_destroy(s->work);
        s->work = NULL;
        B1I_TRY(b1i_lab_work_create(s->device, s->mode, s->ops, 4, 1, &s->work, e));
        s->recording = b1i_gpu_recording();
    }
    const uint64_t start = b1i_now_ns();
    B1I_TRY(b1i_lab_work_submit(s->work, 1, e));
    B1I_TRY(b1i_lab_device_wait(s->device, e));
    *ns = (double)(b1i_now_ns() - start);
fail:
    return st;
}

static void settle(void *user)
{
    const spinning *s = user;
    OK(b1i_lab_device_wait(s->device, &err));
}

static void spin_open(spinning *s, b1i_lab_mode mode)
{
    uint64_t memory;
    const b1i_device gpu = b1i_device_at(0);
    memset(s, 0, sizeof *s);
    s->mode = mode;
    OK(b1i_lab_device_open(&gpu, 0, &s->device, &err));
    OK(b1i_lab_alloc(s->device, 64, "a test", &memory, &err));
    for (int i = 0; i < 4; i++) {
        const b1i_spin_args a = {1000 * ((uint64_t)i + 1)};
        s->ops[i] = (b1i_lab_op){.kernel = "k_spin", .grid = 1, .threads = 1, .arg_bytes = sizeof a};
        if (i == 1) s->ops[i] = (b1i_lab_op){.fill = memory, .fill_bytes = 4};
        if (i != 1) memcpy(s->ops[i].args, &a, sizeof a);
    }
}

static void spin_close(spinning *s)
{
    const uint64_t memory = s->ops[1].fill;
    b1i_lab_work_destroy(s->work);
    b1i_lab_free(s->device, memory);
    b1i_lab_device_close(s->device);
}

static b1_status trace_of(spinning *s, json_t **json)
{
    double ns[4];
    const b1i_step_source source = {s, spin, settle};
    *json = NULL;
    return b1i_step_cupti(b1i_lab_device_gpu(s->device), &source, 3, 4, ns, json, &err);
}

static void by_cupti(void **state)
{
    (void)state;
    if (!rig_has_gpu()) skip();
    json_t *first = NULL;
    for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++) {
        spinning s;
        json_t *json;
        spin_open(&s, (b1i_lab_mode)mode);
        double ns;
        OK(spin(&s, &ns, &err)); /* a graph that was made before */
        const b1_status st = trace_of(&s, &json);
        spin_close(&s);
        if (st == B1_UNSUPPORTED && !rig_stands_in()) {
            print_message("%s\n", err.message);
            skip();
        }
        ok(st, "trace_of", __LINE__);
        assert_true(json_is_null(json_object_get(json, "message")));
        assert_true(number(json, "kernels_per_step") == 3 && number(json, "outside") == 0);
        assert_int_equal(json_array_size(json_object_get(json, "activities")), 4);
        assert_true(number(json, "launch_ms") > 0 && number(json, "sync_ms") >= 0 && number(json, "gap_ms") >= 0);
        if (rig_stands_in()) {
            assert_true(near(number(json, "kernel_ms"), 8e-3) && number(json, "overlap_ms") == 0);
            assert_true(near(number(json, "launch_ms"), mode == b1i_lab_graph ? 2e-3 : 8e-3));
        } else {
            assert_true(number(json, "kernel_ms") > 8e-3 && number(json, "kernel_ms") < 1);
        }
        json_object_set_new(json, "found", json_true());
        if (first) assert_true(b1i_step_profile_same(first, json));
        if (first) json_decref(json);
        if (!first) first = json;
    }
    json_decref(first);
}

static void cupti_fails(void **state)
{
    (void)state;
    if (!rig_has_gpu() || !rig_stands_in()) skip();
    spinning s;
    json_t *json;
    spin_open(&s, b1i_lab_stream);
    setenv("FAKE_CUPTI_REFUSES", "1", 1);
    assert_int_equal(trace_of(&s, &json), B1_UNSUPPORTED);
    unsetenv("FAKE_CUPTI_REFUSES");
    setenv("FAKE_CUPTI_LOSES", "1", 1);
    assert_int_equal(trace_of(&s, &json), B1_DEVICE);
    assert_non_null(strstr(err.message, "lost"));
    unsetenv("FAKE_CUPTI_LOSES");
    s.fails_at = s.steps + 5;
    assert_int_equal(trace_of(&s, &json), B1_DEVICE);
    assert_non_null(strstr(err.message, "told to"));
    assert_null(json);
    s.fails_at = 0;
    OK(trace_of(&s, &json)); /* the recordings before have ended */
    json_decref(json);
    spin_close(&s);
}

/* The engine on a GPU: what a stream and a graph run is the same, and as many kernels as the plan says. */
static void of_a_gpu(void **state)
{
    (void)state;
    if (!rig_has_gpu() || rig_stands_in()) skip();
    static const char *const executors[] = {"separate_stream", "separate_graph", "fused_stream", "fused_graph"};
    json_t *profiles[4];
    b1_engine *engine;
    const b1_engine_options o = {.device = "cuda:0", .context = 64};
    const b1_status st = b1_engine_open(MODEL, &o, &engine, &err);
    if (st == B1_UNSUPPORTED) skip();
    ok(st, "b1_engine_open", __LINE__);
    for (int i = 0; i < 4; i++) {
        json_t *kernels = kernels_of(engine, executors[i], 2);
        profiles[i] = profile_of(engine, executors[i], 1);
        const json_t *per = json_object_get(profiles[i], "kernels_per_layer");
        if (!json_is_true(json_object_get(profiles[i], "found"))) {
            print_message("%s\n", json_string_value(json_object_get(profiles[i], "message")));
            skip();
        }
        assert_true(number(profiles[i], "kernels_per_step") == number(kernels, "step"));
        assert_true(number(per, "min") == number(kernels, "layer_min"));
        assert_true(number(profiles[i], "outside") == number(kernels, "outside"));
        assert_true(number(profiles[i], "kernel_ms") > 0 && number(profiles[i], "launch_ms") > 0);
        json_decref(kernels);
    }
    assert_true(b1i_step_profile_same(profiles[0], profiles[1]) && b1i_step_profile_same(profiles[2], profiles[3]));
    assert_true(!b1i_step_profile_same(profiles[0], profiles[2]));
    for (int i = 0; i < 4; i++) json_decref(profiles[i]);
    b1_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_by_what_repeats),
        cmocka_unit_test(figures),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(of_the_cpu),
        cmocka_unit_test(by_cupti),
        cmocka_unit_test(cupti_fails),
        cmocka_unit_test(of_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
