/* SPDX-License-Identifier: MIT
 *
 * Outside stacks by their protocol: one that does as it should, and every way to do otherwise.
 */
#include "base/threads.h"
#include "lab/study/child.h"
#include "lab/study/measure.h"
#include "lab/study/stack.h"
#include "tests/lab_fake.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum { WARMUP = 2, STEPS = 6 };
#define COUNT(list) (sizeof(list) / sizeof *(list))

static const b1_model_info info = {.name = "tiny",
                                   .architecture = "llama",
                                   .weights = "q4_1",
                                   .layers = 2,
                                   .hidden = 64,
                                   .ffn = 192,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 16,
                                   .vocab = 320,
                                   .parameters = 12345,
                                   .weight_bytes = 6000000000};

/* What each script begins with: its input, its steps' times as they pass, and what it says of them. */
static const char prelude[] = "read -r cell || exit 3\n"
                              "last=$(date +%s%N)\n"
                              "hello() { echo '{\"stack\":\"toy\",\"version\":\"1.5\",\"attention\":\"none\"}'; "
                              "last=$(date +%s%N); }\n"
                              "say() { echo \"{\\\"step\\\":$1,\\\"ns\\\":$2}\"; }\n"
                              "step() { sleep 0.005; now=$(date +%s%N); say $1 $((now - last)); last=$now; }\n"
                              "steps() { i=$1; while [ $i -lt $2 ]; do step $i; i=$((i + 1)); done; }\n";

static b1i_setting setting;
static char *script;

static void make_setting(const char *body)
{
    size_t room = sizeof prelude + strlen(body);
    b1i_free(script);
    script = b1i_malloc(room);
    assert_non_null(script);
    (void)snprintf(script, room, "%s%s", prelude, body);
    setting = (b1i_setting){.model = (char *)(uintptr_t) "tiny",
                            .synthetic = true,
                            .device = (char *)(uintptr_t) "cpu",
                            .stack = script,
                            .context = 128,
                            .batch = 1,
                            .session = 1,
                            .warmup = WARMUP,
                            .steps = STEPS};
}

static b1i_stack_result run(const char *body)
{
    b1i_stack_result r;
    make_setting(body);
    if (b1i_stack_run(&setting, &info, 7777777777u, NULL, &r, &err) != B1_OK) fail_msg("%s: %s", body, err.message);
    return r;
}

/* One that should do well. Where this machine was busy, the time that passed here may be another than the stack's. */
static b1i_stack_result run_well(const char *body)
{
    for (int i = 0;; i++) {
        b1i_stack_result r = run(body);
        if (strcmp(r.status, "ok") == 0) return r;
        if (i == 20 || !strstr(r.message, "apart")) fail_msg("%s: %s, %s", body, r.status, r.message);
        b1i_stack_result_free(&r);
    }
}

static void expect(const char *body, const char *status, const char *const parts[4])
{
    b1i_stack_result r = run(body);
    if (strcmp(r.status, status) != 0) fail_msg("%s: %s, %s", body, r.status, r.message ? r.message : "");
    if (!r.message || strchr(r.message, '\n')) fail_msg("%s: the message is not one line", body);
    for (int i = 0; i < 4 && parts[i]; i++)
        if (!strstr(r.message, parts[i])) fail_msg("%s: no \"%s\" in: %s", body, parts[i], r.message);
    assert_non_null(r.name);
    assert_non_null(r.version);
    b1i_stack_result_free(&r);
}

/* ---- as it should be ---- */

static void a_stack_is_measured(void **state)
{
    (void)state;
    b1i_stack_result r = run_well("hello; echo noise >&2; steps 0 8");
    assert_null(r.message);
    assert_string_equal(r.name, "toy");
    assert_string_equal(r.version, "1.5");
    assert_string_equal(json_string_value(json_object_get(r.facts, "attention")), "none");
    assert_null(r.profile);
    assert_int_equal(r.count, STEPS);
    for (size_t i = 0; i < r.count; i++) {
        assert_true(r.step_ns[i] > 5e6);
        assert_true(r.harness_ns[i] >= 0); /* this process may be late with one, and early with the next */
    }
    b1i_stack_result_free(&r);
}

static void it_is_asked_for_the_cell(void **state)
{
    (void)state;
    make_setting("");
    char body[600];
    (void)snprintf(body, sizeof body, "printf '%%s\\n' \"$cell\" >%s; cat >%s; hello; steps 0 8", at("cell"),
                   at("rest"));
    b1i_stack_result r = run_well(body);
    b1i_stack_result_free(&r);
    json_t *cell;
    assert_int_equal(b1i_lab_read_json(home, "cell", &cell, &err), B1_OK);
    char *rest = text_of(home, "rest");
    assert_string_equal(rest, "");
    b1i_free(rest);
    json_t *wanted = json_pack(
        "{s:s,s:s,s:b,s:s,s:s,s:i,s:i,s:i,s:i,s:I,s:I,s:i,s:s,s:i,s:b,s:{s:i,s:i,s:i,s:i,s:i,s:i,s:i}}", "schema",
        "batchone.stack/1", "model", "tiny", "synthetic", 1, "architecture", "llama", "weights", "q4_1", "context", 128,
        "batch", 1, "warmup", WARMUP, "steps", STEPS, "weight_bytes", (json_int_t)6000000000, "kv_bytes",
        (json_int_t)7777777777, "parameters", 12345, "device", "cpu", "threads", b1i_cpu_count(), "profile", 0, "shape",
        "layers", 2, "hidden", 64, "ffn", 192, "heads", 4, "kv_heads", 2, "head_dim", 16, "vocab", 320);
    assert_non_null(wanted);
    assert_true(json_equal(cell, wanted));
    json_decref(cell);
    make_setting(body);
    setting.weights = (char *)(uintptr_t) "bf16";
    setting.threads = 3;
    setting.profile = true;
    assert_int_equal(b1i_stack_run(&setting, &info, 7777777777u, NULL, &r, &err), B1_OK);
    b1i_stack_result_free(&r);
    json_object_set_new(wanted, "weights", json_string("bf16"));
    json_object_set_new(wanted, "threads", json_integer(3));
    json_object_set_new(wanted, "profile", json_true());
    assert_int_equal(b1i_lab_read_json(home, "cell", &cell, &err), B1_OK);
    assert_true(json_equal(cell, wanted));
    json_decref(cell);
    json_decref(wanted);
}

static void it_may_give_a_profile(void **state)
{
    (void)state;
    b1i_stack_result r = run_well("hello; steps 0 8; echo '{\"profile\":{\"by\":\"toy\",\"found\":true}}'");
    assert_string_equal(json_string_value(json_object_get(r.profile, "by")), "toy");
    b1i_stack_result_free(&r);
    r = run_well("hello; steps 0 8; echo '{\"profile\":null}'");
    assert_null(r.profile);
    b1i_stack_result_free(&r);
}

static void it_may_say_much_on_stderr(void **state)
{
    (void)state;
    b1i_stack_result r = run_well("hello; head -c 3000000 /dev/zero >&2; steps 0 8");
    b1i_stack_result_free(&r);
}

static void without_warm_up_the_first_step_begins_at_its_name(void **state)
{
    (void)state;
    b1i_stack_result r;
    make_setting("hello; steps 0 6");
    setting.warmup = 0;
    assert_int_equal(b1i_stack_run(&setting, &info, 1, NULL, &r, &err), B1_OK);
    assert_int_equal(r.count, STEPS);
    b1i_stack_result_free(&r);
}

/* ---- cells that it cannot run ---- */

static void a_refusal_is_a_status(void **state)
{
    (void)state;
    static const struct {
        const char *body, *status, *parts[4];
    } rows[] = {
        {"echo '{\"status\":\"unsupported\",\"message\":\"no such head\"}'; exit 1", "unsupported", {"no such head"}},
        {"hello; printf '%s\\n' '{\"status\":\"out_of_memory\",\"message\":\"tried 3\\nGiB\"}'",
         "out_of_memory",
         {"tried 3?GiB"}},
        {"hello; steps 0 4; echo '{\"status\":\"failed\",\"message\":\"allocator\"}'", "failed", {"allocator"}},
        {"hello; steps 0 8; echo '{\"status\":\"failed\",\"message\":\"late\"}'", "failed", {"late"}},
        {"echo '{\"status\":\"unsupported\"}'", "unsupported", {"no reason"}},
        {"echo '{\"status\":\"perfect\",\"message\":\"x\"}'", "failed", {"\"perfect\"", "none of"}},
        {"echo '{\"status\":7}'", "failed", {"none of"}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) expect(rows[i].body, rows[i].status, rows[i].parts);
    b1i_stack_result r = run("echo noise >&2; echo '{\"stack\":\"s\",\"version\":\"2\",\"status\":\"unsupported\","
                             "\"message\":\"m\"}'");
    assert_string_equal(r.status, "unsupported");
    assert_string_equal(r.message, "m");
    assert_string_equal(r.name, "s");
    b1i_stack_result_free(&r);
    r = run("echo '{\"status\":\"unsupported\",\"message\":\"m\"}'");
    assert_string_equal(r.name, "unknown");
    assert_string_equal(r.version, "unknown");
    b1i_stack_result_free(&r);
}

/* ---- what it does wrong ---- */

static void whatever_goes_wrong_is_a_failed_cell(void **state)
{
    (void)state;
    static const struct {
        const char *body, *parts[4];
    } rows[] = {
        {"echo hurt >&2; exit 9", {"its name and version", "exit code 9", "its stderr ends: hurt"}},
        {"hello; steps 0 5; echo a b >&2; exit 9", {"step 5 of 8", "exit code 9", "a b"}},
        {"hello; steps 0 5", {"ended where step 5 of 8"}},
        {"hello; steps 0 5; kill -9 $$", {"step 5 of 8", "signal 9"}},
        {"hello; steps 0 3; sh -c 'kill -11 $$'; exit", {"step 3 of 8", "signal 11"}},
        {"hello; steps 0 8; exit 4", {"all its steps", "exit code 4"}},
        {"hello; steps 0 8; kill -15 $$", {"all its steps", "signal 15"}},
        {"echo Loading checkpoint; hello", {"\"Loading checkpoint\"", "its name and version"}},
        {"echo; hello", {"\"\"", "its name and version"}},
        {"echo '[1]'", {"\"[1]\""}},
        {"echo '{\"stack\":\"a\",\"stack\":\"b\",\"version\":\"1\"}'", {"{\"stack\":\"a\""}},
        {"echo '{\"version\":\"1\"}'", {"no \"stack\""}},
        {"echo '{\"stack\":\"\",\"version\":\"1\"}'", {"no \"stack\""}},
        {"echo '{\"stack\":7,\"version\":\"1\"}'", {"no \"stack\""}},
        {"printf '{\"stack\":\"a\\\\tb\",\"version\":\"1\"}\\n'", {"no \"stack\""}},
        {"printf '{\"stack\":\"%065d\",\"version\":\"1\"}\\n' 0", {"no \"stack\"", "64"}},
        {"echo '{\"stack\":\"a\"}'", {"no \"version\""}},
        {"hello; steps 1 8", {"something else where step 0 of 8"}},
        {"hello; steps 0 3; steps 4 9", {"something else where step 3 of 8"}},
        {"hello; echo '{\"step\":0.0,\"ns\":1}'", {"something else where step 0"}},
        {"hello; echo '{\"ns\":1}'", {"something else where step 0"}},
        {"hello; echo '{\"step\":0}'", {"no time of step 0"}},
        {"hello; say 0 0", {"no time of step 0"}},
        {"hello; say 0 -5", {"no time of step 0"}},
        {"hello; say 0 '\"5\"'", {"no time of step 0"}},
        {"hello; say 0 1e999", {"step 0 of 8"}},
        {"hello; steps 0 2; printf 'ab\\377\\000cd\\n'", {"\"ab?\"", "step 2 of 8"}},
        {"hello; steps 0 9", {"something else where a profile"}},
        {"hello; steps 0 8; echo '{\"profile\":[]}'", {"something else where a profile"}},
        {"hello; steps 0 8; echo '{\"profile\":{}}'; hello", {"went on after its profile"}},
        {"hello; i=0; while [ $i -lt 8 ]; do sleep 0.02; say $i 10000000; i=$((i + 1)); done",
         {"60.000 ms", "over 5 % apart"}},
        {"hello; sleep 0.1; i=0; while [ $i -lt 8 ]; do say $i 20000000; i=$((i + 1)); done",
         {"120.000 ms", "over 5 % apart"}},
        {"/nonexistent/stack 7", {"exit code 127", "/nonexistent/stack"}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) expect(rows[i].body, "failed", rows[i].parts);
    make_setting("");
    setting.stack = (char *)(uintptr_t) "exec 0<&-; exit 0"; /* one that does not even read */
    b1i_stack_result r;
    assert_int_equal(b1i_stack_run(&setting, &info, 1, NULL, &r, &err), B1_OK);
    assert_string_equal(r.status, "failed");
    b1i_stack_result_free(&r);
}

static void it_must_not_keep_the_harness_waiting(void **state)
{
    (void)state;
    static const struct {
        const char *body, *parts[4];
    } rows[] = {
        {"sleep 100", {"silent", "its name and version"}},
        {"hello; say 0 1; sleep 100", {"silent"}},
        {"trap '' TERM; echo waits >&2; hello; say 0 1; while :; do sleep 1; done", {"silent", "waits"}},
        {"hello; for i in 0 1 2 3 4 5 6 7; do say $i 1; done; exec >&-; sleep 100",
         {"all its steps", "did not end by itself"}},
        {"hello; exec >&-; sleep 100", {"ended where step 0"}},
        {"while printf x; do sleep 0.05; done", {"silent"}}, /* drips without an end */
        {"yes >&2", {"silent", "y y y"}},
    };
    uint64_t before = b1i_stack_patience_ns;
    b1i_stack_patience_ns = 300000000;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t began = b1i_now_ns();
        expect(rows[i].body, "failed", rows[i].parts);
        assert_true(b1i_now_ns() - began < 20000000000u);
    }
    b1i_stack_patience_ns = before;
}

/* What compiles does so before its steps count: these have less time than all before them. */
static void a_measured_step_has_less_time(void **state)
{
    (void)state;
    const uint64_t before = b1i_stack_step_patience_ns;
    b1i_stack_step_patience_ns = 250000000;
    b1i_stack_result r = run("sleep 0.4; hello; sleep 0.4; say 0 1; say 1 1; say 2 1; sleep 100");
    assert_string_equal(r.status, "failed");
    if (!strstr(r.message, "silent for 0.25 s where step 3 of 8")) fail_msg("%s", r.message);
    assert_int_equal(r.count, 1);
    b1i_stack_result_free(&r);
    b1i_stack_step_patience_ns = before;
}

/* Who stamps goes before others where it may; the stack never does. */
static void who_stamps_goes_first(void **state)
{
    (void)state;
    int policy;
    struct sched_param usual, first = {.sched_priority = 1};
    assert_int_equal(pthread_getschedparam(pthread_self(), &policy, &usual), 0);
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) != 0) skip();
    assert_int_equal(pthread_setschedparam(pthread_self(), policy, &usual), 0);
    char body[300];
    /* Field 41 of stat, the policy, of this process and of the stack. */
    (void)snprintf(body, sizeof body,
                   "sleep 0.1; of() { sed 's/.*) //' /proc/$1/stat | cut -d' ' -f39; }; "
                   "echo $(of %d) $(of $$) >%s; hello; steps 0 8",
                   (int)getpid(), at("policies"));
    b1i_stack_result r = run_well(body);
    b1i_stack_result_free(&r);
    char *text = text_of(home, "policies"), *expected = NULL;
    assert_true(asprintf(&expected, "%d %d\n", SCHED_FIFO, policy) > 0);
    assert_string_equal(text, expected);
    free(expected);
    b1i_free(text);
    int after;
    assert_int_equal(pthread_getschedparam(pthread_self(), &after, &usual), 0);
    assert_int_equal(after, policy);
}

static void a_huge_line_is_no_line(void **state)
{
    (void)state;
    static const char *const parts[4] = {"line of over 16777216 bytes", "step 0 of 8"};
    expect("hello; head -c 40000000 /dev/zero | tr '\\0' x", "failed", parts);
    static const char *const quoted[4] = {"xxxxxxxxxx…\"", "step 0 of 8"};
    expect("hello; head -c 1000000 /dev/zero | tr '\\0' x; echo", "failed", quoted);
    static const char *const characters[4] = {"\"xéé", "éé…\" where step 0 of 8"}; /* 120 bytes end within one */
    expect("hello; printf x; for i in $(seq 200); do printf é; done; echo", "failed", characters);
}

/* The end of what it said, whole characters alone. */
static void last_words_are_text(void **state)
{
    (void)state;
    static const char *const parts[4] = {"its stderr ends: ", "xé the end"};
    static const char body[] = "i=0; while [ $i -lt 3000 ]; do printf é; i=$((i + 1)); done >&2; "
                               "printf 'x\\303\\251\\n\\n\\r\\033 the\\377 end\\n' >&2; exit 1";
    expect(body, "failed", parts);
    b1i_stack_result r = run(body);
    assert_true(strlen(r.message) > 4000 && strlen(r.message) < 4400);
    json_t *text = json_string(r.message); /* which is NULL for what is no UTF-8 */
    assert_non_null(text);
    json_decref(text);
    b1i_stack_result_free(&r);
}

/* ---- its group ---- */

static bool alive(const char *name)
{
    char *text = text_of(home, name);
    if (!text) fail_msg("no %s", name);
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    b1i_free(text);
    for (int i = 0; i < 100; i++) {
        char path[40], line[200] = "";
        (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        FILE *f = fopen(path, "r");
        if (!f) return false;
        if (!fgets(line, sizeof line, f)) line[0] = 0;
        (void)fclose(f);
        const char *after = strrchr(line, ')');
        if (!after || after[2] == 'Z' || after[2] == 'X') return false; /* waits for whoever inherited it */
        (void)usleep(20000);
    }
    return true;
}

static void what_it_leaves_running_is_ended(void **state)
{
    (void)state;
    char body[300];
    (void)snprintf(body, sizeof body, "hello; sleep 100 & echo $! >%s; steps 0 8", at("left"));
    uint64_t began = b1i_now_ns();
    b1i_stack_result r = run_well(body); /* although its stdout is still open there */
    assert_true(b1i_now_ns() - began < 20000000000u);
    b1i_stack_result_free(&r);
    assert_false(alive("left"));
}

static int looks_left;
static bool cancel_soon(void) { return looks_left-- <= 0; }

static void cancelled_it_is_ended_with_all_its_own(void **state)
{
    (void)state;
    char body[300];
    (void)snprintf(body, sizeof body, "sleep 100 & echo $! >%s; hello; steps 0 3; sleep 100", at("cancelled"));
    make_setting(body);
    b1i_stack_result r;
    looks_left = 30;
    assert_int_equal(b1i_stack_run(&setting, &info, 1, cancel_soon, &r, &err), B1_CANCELLED);
    assert_null(r.step_ns);
    assert_false(alive("cancelled"));
    make_setting("hello; steps 0 8; exec >&-; sleep 100");
    looks_left = 30;
    assert_int_equal(b1i_stack_run(&setting, &info, 1, cancel_soon, &r, &err), B1_CANCELLED);
}

/* ---- cells ---- */

/* A cell of a format that the stack alone knows has the bytes that it says. */
static void a_format_may_be_its_own(void **state)
{
    (void)state;
    static const char toy[] = "echo '{\"stack\":\"toy\",\"version\":\"1\",\"weight_bytes\":12345678}'; steps 0 8";
    const b1i_measure_options options = {0};
    json_t *cell = NULL;
    for (int i = 0; i < 20; i++) {
        json_decref(cell);
        make_setting(toy);
        setting.model = (char *)(uintptr_t) "smollm2-135m";
        setting.weights = (char *)(uintptr_t) "toy3";
        assert_int_equal(b1i_setting_measure(&setting, &options, &cell, NULL, &err), B1_OK);
        if (strcmp(json_string_value(json_object_get(cell, "status")), "ok") == 0) break;
        assert_non_null(strstr(json_string_value(json_object_get(cell, "message")), "apart"));
    }
    assert_string_equal(json_string_value(json_object_get(cell, "weights")), "toy3");
    assert_int_equal(json_integer_value(json_object_get(cell, "weight_bytes")), 12345678);
    json_decref(cell);
}

/* ---- adapters ---- */

/* What tools/stacks/protocol.py makes of a stack that does well, prints, refuses, has no memory, breaks. */
static void adapters_speak_it(void **state)
{
    (void)state;
    static const char adapter[] = "import sys, time\n"
                                  "sys.path.insert(0, '" B1I_SOURCE_DIR "/tools/stacks')\n"
                                  "sys.dont_write_bytecode = True\n"
                                  "import protocol\n"
                                  "def measure(harness, how):\n"
                                  "    print('noise')\n"
                                  "    harness.is_called('py', 'no-such-package')\n"
                                  "    if how == 'refuse': raise protocol.unsupported('not\\nthis')\n"
                                  "    if how == 'memory': raise MemoryError()\n"
                                  "    if how == 'import': import no_such_module\n"
                                  "    if how == 'break': raise ValueError('broken')\n"
                                  "    protocol.warm(lambda: None, None, 0, 2)\n"
                                  "    harness.hello(tied=protocol.is_tied(harness.cell))\n"
                                  "    times = harness.steps(lambda: time.sleep(0.005), lambda: print('more'))\n"
                                  "    harness.say({'profile': {'count': len(times)}})\n"
                                  "protocol.serve(measure, sys.argv[1])\n";
    static const struct {
        const char *how, *status, *part;
    } rows[] = {{"refuse", "unsupported", "not this"},
                {"memory", "out_of_memory", "memory"},
                {"import", "unsupported", "no_such_module is not installed"},
                {"break", "failed", "ValueError: broken"}};
    char command[300];
    if (system("python3 -c 'import json' 2>/dev/null") != 0) skip();
    put_text(home, "adapter.py", adapter);
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)snprintf(command, sizeof command, "printf '%%s\n' \"$cell\" | python3 %s %s", at("adapter.py"),
                       rows[i].how);
        const char *const parts[4] = {rows[i].part};
        expect(command, rows[i].status, parts);
    }
    (void)snprintf(command, sizeof command, "printf '%%s\n' \"$cell\" | python3 %s well", at("adapter.py"));
    b1i_stack_result r = run_well(command);
    assert_string_equal(r.name, "py");
    assert_string_equal(r.version, "no-such-package none");
    assert_true(json_is_true(json_object_get(r.facts, "tied")));
    assert_int_equal(json_integer_value(json_object_get(r.profile, "count")), STEPS);
    b1i_stack_result_free(&r);
}

/* ---- memory ---- */

static void each_failed_allocation_is_reported(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "hello; say 0 1; say 1 1; say 2 1; exit 3",
        "echo '{\"stack\":\"s\",\"version\":\"1\",\"status\":\"unsupported\",\"message\":\"m\"}'",
    };
    json_set_alloc_funcs(b1i_malloc, b1i_free);
    for (size_t b = 0; b < COUNT(bodies); b++) {
        make_setting(bodies[b]);
        long before = b1i_alloc_live();
        for (long n = 0;; n++) {
            b1i_stack_result r;
            b1_error e = {0};
            b1i_alloc_fail_at(n);
            b1_status st = b1i_stack_run(&setting, &info, 1, NULL, &r, &e);
            b1i_alloc_fail_at(-1);
            if (st == B1_OK) {
                b1i_stack_result_free(&r);
                break;
            }
            assert_int_equal(st, B1_MEMORY);
            assert_int_equal(e.status, B1_MEMORY);
            assert_int_equal(b1i_alloc_live(), before);
            assert_true(n < 200);
        }
        assert_int_equal(b1i_alloc_live(), before);
    }
    json_set_alloc_funcs(malloc, free);
}

static void a_child_may_be_closed_twice(void **state)
{
    (void)state;
    b1i_child child;
    assert_int_equal(b1i_child_start(&child, "read -r x; echo \"$x\" >&2; exit 5", "héllo\n", &err), B1_OK);
    b1i_child_end end = b1i_child_close(&child, b1i_now_ns() + 20000000000u, NULL);
    assert_int_equal(end.code, 5);
    assert_false(end.ended_here);
    end = b1i_child_close(&child, 0, NULL);
    assert_int_equal(end.code, 0);
    char *words = b1i_child_last_words(&child);
    assert_string_equal(words, "héllo");
    b1i_free(words);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_is_measured),
        cmocka_unit_test(it_is_asked_for_the_cell),
        cmocka_unit_test(it_may_give_a_profile),
        cmocka_unit_test(it_may_say_much_on_stderr),
        cmocka_unit_test(without_warm_up_the_first_step_begins_at_its_name),
        cmocka_unit_test(a_refusal_is_a_status),
        cmocka_unit_test(whatever_goes_wrong_is_a_failed_cell),
        cmocka_unit_test(it_must_not_keep_the_harness_waiting),
        cmocka_unit_test(a_measured_step_has_less_time),
        cmocka_unit_test(who_stamps_goes_first),
        cmocka_unit_test(a_huge_line_is_no_line),
        cmocka_unit_test(last_words_are_text),
        cmocka_unit_test(what_it_leaves_running_is_ended),
        cmocka_unit_test(cancelled_it_is_ended_with_all_its_own),
        cmocka_unit_test(a_format_may_be_its_own),
        cmocka_unit_test(adapters_speak_it),
        cmocka_unit_test(each_failed_allocation_is_reported),
        cmocka_unit_test(a_child_may_be_closed_twice),
    };
    int failed = cmocka_run_group_tests(tests, make_home, remove_home);
    b1i_free(script);
    return failed;
}
