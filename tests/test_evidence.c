/* SPDX-License-Identifier: MIT
 *
 * A run's directory: killed at each change and resumed, tampered with in every way that comes to mind, resumed wrongly,
 * and the records of external programs.
 */
#include "lab/evidence_room.h"
#include "lab/plan.h"
#include "tests/lab_fake.h"

#include <signal.h>
#include <sys/wait.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define HAS(part)   assert_non_null(strstr(err.message, part))
#define SAID(part)  said_has(part, __LINE__)

static void said_has(const char *part, int line)
{
    if (!strstr(said, part)) fail_msg("line %d: no \"%s\" in: %s", line, part, said);
}

static void run_well(const char *folder)
{
    b1i_lab_options o = fake_options(folder);
    if (fake_run(&o) != B1_OK) fail_msg("%s", err.message);
}

/* ---- killed ---- */

static int steps_left; /* until this process kills itself */
static void die(const char *what)
{
    (void)what;
    if (steps_left-- == 0) raise(SIGKILL);
}

/* Runs in a process of its own, which dies at its step `at` (−1: never); true where it ended well. */
static bool run_apart(const char *folder, bool resume, int step)
{
    pid_t pid = fork();
    if (pid == 0) {
        b1i_lab_options o = fake_options(folder);
        o.resume = resume;
        steps_left = step;
        b1i_evidence_hook = step < 0 ? NULL : die;
        _exit(fake_run(&o) == B1_OK ? 0 : 1);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) fail_msg("a run failed; the reason is in %s", folder);
    return WIFEXITED(status);
}

/* The rows but those of the last round, which need not be kept. */
static void all_but_the_last_round(char *rows)
{
    char *last = strrchr(rows, '\n'), mark[40];
    int round = 0;
    if (!last) {
        *rows = 0;
        return;
    }
    last[1] = 0;
    for (char *c = rows; (c = strstr(c, "\"round\":")); c++) round = atoi(c + 8);
    snprintf(mark, sizeof mark, "\"round\":%d,", round);
    char *cut = strstr(rows, mark);
    while (cut > rows && cut[-1] != '\n') cut--;
    *cut = 0;
}

static void killed_at_any_change_it_can_be_resumed(void **state)
{
    (void)state;
    int killed = 0, sealed = 0, kept = 0;
    fake_reset();
    fake.trace = true;
    for (int step = 0;; step += step < 12 || step > 54 ? 1 : 5) {
        const char *folder = at("killed");
        remove_all(folder);
        bool ended = run_apart(folder, false, step);
        if (!ended && b1i_evidence_look(folder) == b1i_evidence_sealed) sealed++; /* killed after its last change */
        if (ended || b1i_evidence_look(folder) == b1i_evidence_sealed) {
            assert_true(holds(folder));
            if (ended) break;
            continue;
        }
        killed++;
        assert_int_equal(b1i_evidence_look(folder), b1i_evidence_incomplete);
        assert_false(holds(folder));
        SAID("incomplete");
        b1i_lab_options again = fake_options(folder);
        assert_int_equal(fake_run(&again), B1_ARGUMENT);
        HAS("--resume");
        char *before = text_of(folder, "samples.jsonl");
        assert_true(run_apart(folder, true, -1));
        if (!holds(folder)) fail_msg("killed at step %d: %s", step, said);
        if (before) {
            all_but_the_last_round(before);
            char *after = text_of(folder, "samples.jsonl");
            assert_int_equal(strncmp(before, after, strlen(before)), 0);
            kept += *before != 0;
            b1i_free(after);
        }
        b1i_free(before);
    }
    assert_true(killed > 30 && sealed == 1 && kept > 5);
}

static void a_round_that_is_cut_is_measured_again(void **state)
{
    (void)state;
    fake_reset();
    const char *folder = at("cut");
    assert_false(run_apart(folder, false, 40));
    char *whole = text_of(folder, "samples.jsonl");
    size_t bytes = strlen(whole), rows = 0;
    for (size_t i = 0; i < bytes; i++) rows += whole[i] == '\n';
    assert_true(rows >= 12 && rows % 6 == 0);
    static const size_t off[] = {1, 30, 100, 300};
    for (size_t i = 0; i < COUNT(off); i++) {
        copy_run(at("cut"), at("cut-again"));
        put_bytes(at("cut-again"), "samples.jsonl", whole, bytes - off[i]);
        assert_true(run_apart(at("cut-again"), true, -1));
        assert_true(holds(at("cut-again")));
        char *after = text_of(at("cut-again"), "samples.jsonl");
        whole[bytes - 1] = 0;
        all_but_the_last_round(whole);
        assert_int_equal(strncmp(whole, after, strlen(whole)), 0);
        b1i_free(whole);
        b1i_free(after);
        whole = text_of(at("cut"), "samples.jsonl");
    }
    b1i_free(whole);
}

static void samples_that_are_not_the_plans_are_not_resumed(void **state)
{
    (void)state;
    fake_reset();
    const char *folder = at("alien");
    assert_false(run_apart(folder, false, 40));
    char *rows = text_of(folder, "samples.jsonl");
    memcpy(strstr(rows, "host_enqueue"), "host_encueue", 12);
    put_text(folder, "samples.jsonl", rows);
    b1i_lab_options o = fake_options(folder);
    o.resume = true;
    assert_int_equal(fake_run(&o), B1_IO);
    HAS("line 2");
    assert_int_equal(b1i_evidence_look(folder), b1i_evidence_incomplete); /* and nothing was lost */
    char *after = text_of(folder, "samples.jsonl");
    assert_string_equal(rows, after);
    b1i_free(rows);
    b1i_free(after);
}

/* ---- what may not be resumed or written over ---- */

static void a_resumed_run_is_the_same_run(void **state)
{
    (void)state;
    fake_reset();
    const char *folder = at("same");
    assert_false(run_apart(folder, false, 30));
    const b1i_lab_options usual = fake_options(folder);
    for (int i = 0; i < 5; i++) {
        b1i_lab_options o = usual;
        o.resume = true;
        fake_reset();
        if (i == 0) o.rounds = 30;
        if (i == 1) o.quick = false;
        if (i == 2) o.threads = 2;
        if (i == 3) o.executable = "/proc/self/exe";
        if (i == 4) fake.cells = 3;
        assert_int_equal(fake_run(&o), B1_ARGUMENT);
        HAS("cannot be resumed");
        assert_int_equal(b1i_evidence_look(folder), b1i_evidence_incomplete);
    }
    fake_reset();
    fake.prepare[1] = B1_MEMORY; /* a cell that ran before */
    b1i_lab_options o = usual;
    o.resume = true;
    assert_int_equal(fake_run(&o), B1_MEMORY);
    HAS("ran before");
}

static void what_is_gone_or_no_file_is_not_resumed(void **state)
{
    (void)state;
    fake_reset();
    const char *folder = at("gone");
    assert_false(run_apart(folder, false, 40));
    b1i_lab_options o = fake_options(folder);
    o.resume = true;
    if (rename(at("gone/device-before.json"), at("kept")) != 0) abort();
    assert_int_equal(fake_run(&o), B1_IO);
    HAS("device-before.json is gone");
    if (rename(at("kept"), at("gone/device-before.json")) != 0 || unlink(at("gone/samples.jsonl")) != 0 ||
        mkfifo(at("gone/samples.jsonl"), 0600) != 0)
        abort();
    assert_int_equal(fake_run(&o), B1_IO); /* and waits for nobody */
    HAS("samples.jsonl cannot be written");
    folder = at("linked"); /* a folder that leads out of the run */
    fake_reset();
    assert_false(run_apart(folder, false, 40));
    o = fake_options(folder);
    o.resume = true;
    if (mkdir(at("outside"), 0700) != 0 || symlink(at("outside"), at("linked/plots")) != 0) abort();
    assert_int_equal(fake_run(&o), B1_IO);
    HAS("no folder of the run");
    if (rmdir(at("outside")) != 0) fail_msg("something was written into it");
}

static void nothing_is_written_over(void **state)
{
    (void)state;
    fake_reset();
    run_well(at("whole"));
    if (mkdir(at("other"), 0700) != 0) abort();
    put_text(at("other"), "letter.txt", "x");
    put_text(home, "file", "x");
    static const struct {
        const char *name, *says;
    } cases[] = {{"whole", "a whole run"}, {"other", "no run of the lab"}, {"file", "no run of the lab"}};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int resume = 0; resume < 2; resume++) {
            b1i_lab_options o = fake_options(at(cases[i].name));
            o.resume = resume;
            assert_int_equal(fake_run(&o), B1_ARGUMENT);
            HAS(cases[i].says);
        }
    assert_true(holds(at("whole")));
    assert_false(holds(at("other")));
    SAID("no run of the lab, no study and no A/B");
    bool all;
    assert_int_equal(b1i_evidence_verify(at("nowhere"), keep_line, NULL, &all, &err), B1_ARGUMENT);
    b1i_lab_options o = fake_options(at("no/such/folder"));
    assert_int_equal(fake_run(&o), B1_IO);
}

static void two_runs_do_not_share_a_directory(void **state)
{
    (void)state;
    b1i_evidence *one, *other;
    assert_int_equal(b1i_evidence_create(at("locked"), &one, &err), B1_OK);
    assert_int_equal(b1i_evidence_resume(at("locked"), &other, &err), B1_ARGUMENT);
    HAS("another run");
    assert_null(other);
    b1i_evidence_close(one);
    assert_int_equal(b1i_evidence_resume(at("locked"), &other, &err), B1_OK);
    b1i_evidence_close(other);
}

static void a_sealed_run_takes_nothing_more(void **state)
{
    (void)state;
    b1i_evidence *e;
    char *path;
    int code;
    const char *const argv[] = {"true", NULL};
    assert_int_equal(b1i_evidence_create(at("sealed"), &e, &err), B1_OK);
    assert_int_equal(b1i_evidence_seal(e, &err), B1_OK);
    assert_int_equal(b1i_evidence_text(e, "x", "x", 1, &err), B1_ARGUMENT);
    assert_int_equal(b1i_evidence_json(e, "x", json_object(), &err), B1_ARGUMENT);
    assert_int_equal(b1i_evidence_append(e, "x", 1, &err), B1_ARGUMENT);
    assert_int_equal(b1i_evidence_cut(e, 0, &err), B1_ARGUMENT);
    assert_int_equal(b1i_evidence_path(e, "x/y", &path, &err), B1_ARGUMENT);
    assert_int_equal(b1i_evidence_command(e, "x", argv, false, &code, &err), B1_ARGUMENT);
    assert_int_equal(b1i_evidence_seal(e, &err), B1_ARGUMENT);
    b1i_evidence_fail(e, B1_IO, "late");
    assert_false(is_there(at("sealed"), "failed.json"));
    b1i_evidence_close(e);
}

static void names_stay_inside(void **state)
{
    (void)state;
    static const char *const names[] = {"",     "/x", "../x",   "a/../x", "a/b/c", "./x",
                                        "a//x", "a/", "x.part", "a\nb",   ".."};
    b1i_evidence *e;
    assert_int_equal(b1i_evidence_create(at("names"), &e, &err), B1_OK);
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(b1i_evidence_text(e, names[i], "x", 1, &err), B1_ARGUMENT);
    assert_int_equal(b1i_evidence_text(e, "a/x", "x", 1, &err), B1_OK);
    b1i_evidence_close(e);
}

static void a_failed_run_is_kept_with_its_reason(void **state)
{
    (void)state;
    fake_reset();
    fake.check = B1_NUMERIC;
    b1i_lab_options o = fake_options(at("failed"));
    assert_int_equal(fake_run(&o), B1_NUMERIC);
    assert_true(is_there(at("failed"), "failed.json") && is_there(at("failed"), "samples.jsonl"));
    assert_false(is_there(at("failed"), "analysis.json") || is_there(at("failed"), "manifest.json"));
    assert_false(holds(at("failed")));
    SAID("check fails as it was told to");
    o.resume = true;
    fake.check = B1_OK;
    assert_int_equal(fake_run(&o), B1_ARGUMENT);
    HAS("failed");
}

/* ---- tampering ---- */

/* The file's entry of the manifest made right again, as a forger would. */
static void mend(const char *folder, const char *name)
{
    char hex[65], *path = b1i_lab_join(folder, name);
    uint64_t bytes;
    json_t *m, *entry;
    size_t i;
    assert_int_equal(b1i_sha256_file(path, hex, &bytes, &err), B1_OK);
    assert_int_equal(b1i_lab_read_json(folder, "manifest.json", &m, &err), B1_OK);
    json_array_foreach(json_object_get(m, "files"), i, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "path")), name) != 0) continue;
        json_object_set_new(entry, "size", json_integer((json_int_t)bytes));
        json_object_set_new(entry, "sha256", json_string(hex));
    }
    char *text = json_dumps(m, 0);
    put_text(folder, "manifest.json", text);
    free(text);
    json_decref(m);
    b1i_free(path);
}

/* A fresh copy of the whole run. */
static const char *fresh(void)
{
    copy_run(at("good"), at("bad"));
    return at("bad");
}

static void replace(const char *folder, const char *name, const char *from, const char *to)
{
    char *text = text_of(folder, name), *where = strstr(text, from);
    size_t room = strlen(text) + strlen(to) + 1;
    char *changed = malloc(room);
    if (!where) fail_msg("no %s in %s", from, name);
    snprintf(changed, room, "%.*s%s%s", (int)(where - text), text, to, where + strlen(from));
    put_text(folder, name, changed);
    free(changed);
    b1i_free(text);
}

static void make_good(void)
{
    fake_reset();
    fake.trace = fake.twin = true;
    fake.prepare[1] = B1_UNSUPPORTED;
    if (!is_there(home, "good")) run_well(at("good"));
    if (!holds(at("good"))) fail_msg("%s", said);
}

static void a_bit_of_any_file_is_missed(void **state)
{
    (void)state;
    b1i_names names;
    make_good();
    assert_int_equal(b1i_lab_list(at("good"), &names, &err), B1_OK);
    assert_true(names.count > 10);
    for (size_t i = 0; i < names.count; i++) {
        char *text, *path = b1i_lab_join(at("good"), names.items[i]);
        size_t bytes;
        const char *name = names.items[i];
        b1i_free(path);
        if (name[strlen(name) - 1] == '/') continue;
        assert_int_equal(b1i_lab_read(at("good"), name, &text, &bytes, &err), B1_OK);
        for (int how = 0; how < 5; how++) {
            const char *folder = fresh();
            size_t kept = how == 3 ? bytes - 2 : how == 4 ? 0 : bytes;
            size_t where = how == 0 ? 0 : how == 1 ? bytes / 2 : bytes - 2;
            text[where] ^= how < 3 ? 1 : 0;
            put_bytes(folder, name, text, kept);
            text[where] ^= how < 3 ? 1 : 0;
            if (holds(folder)) fail_msg("%s: change %d was not seen", name, how);
        }
        const char *folder = fresh();
        remove_all(at("bad/x"));
        path = b1i_lab_join(folder, name);
        if (unlink(path) != 0) abort();
        b1i_free(path);
        assert_false(holds(folder));
        SAID(strcmp(name, "manifest.json") == 0 ? "incomplete" : name);
        b1i_free(text);
    }
    b1i_names_free(&names);
}

static void the_states_of_the_device_are_of_its_plan(void **state)
{
    static const char *const wrong[] = {"", "{", "[]", "{}", "{\"schema\":\"batchone.device/1\",\"device\":\"x\"}"};
    (void)state;
    make_good();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_text(fresh(), i % 2 ? "device-before.json" : "device-after.json", wrong[i]);
        mend(at("bad"), i % 2 ? "device-before.json" : "device-after.json");
        assert_false(holds(at("bad")));
        SAID(i % 2 ? "device-before.json: " : "device-after.json: ");
    }
}

/* Numbers that would be those of the run if they were cut to 32 bits. */
static void numbers_are_not_cut(void **state)
{
    static const char *const changes[][3] = {{"plan.json", "\"rounds\": ", "\"rounds\": 4294967296"},
                                             {"plan.json", "\"depth\": ", "\"depth\": 4294967296"},
                                             {"samples.jsonl", "\"round\":1,", "\"round\":4294967297,"}};
    (void)state;
    make_good();
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        replace(fresh(), changes[i][0], changes[i][1], changes[i][2]);
        mend(at("bad"), changes[i][0]);
        assert_false(holds(at("bad")));
        SAID(i == 2 ? "in round 4294967297" : "plan.json: ");
    }
}

static void what_does_not_belong_is_told(void **state)
{
    (void)state;
    make_good();
    put_text(fresh(), "extra.txt", "x");
    assert_false(holds(at("bad")));
    SAID("extra.txt: is not in the manifest");
    put_text(fresh(), ".hidden", "");
    assert_false(holds(at("bad")));
    fresh();
    if (mkdir(at("bad/sub"), 0700) != 0) abort();
    assert_false(holds(at("bad")));
    SAID("sub/: is a folder");
    put_text(at("bad/sub"), "extra", "x");
    assert_false(holds(at("bad")));
    SAID("sub/extra: is not in the manifest");
    put_text(fresh(), "traces/more.csv", "x");
    assert_false(holds(at("bad")));
    put_text(fresh(), "plan.json.part", "x");
    assert_false(holds(at("bad")));
    put_text(fresh(), "\xff\xfe\n\xc2\x9b", "x"); /* no UTF-8, and a terminal's command */
    assert_false(holds(at("bad")));
    SAID("?????: is not in the manifest");
    fresh();
    if (symlink("plan.json", at("bad/link")) != 0) abort();
    assert_false(holds(at("bad")));
    SAID("link: is neither a file nor a folder");
    fresh(); /* a link in a file's place, to the same bytes */
    if (rename(at("bad/plan.json"), at("plan-elsewhere")) != 0 ||
        symlink(at("plan-elsewhere"), at("bad/plan.json")) != 0)
        abort();
    assert_false(holds(at("bad")));
    fresh();
    if (rename(at("bad/traces"), at("traces-elsewhere")) != 0 || symlink(at("traces-elsewhere"), at("bad/traces")) != 0)
        abort();
    assert_false(holds(at("bad")));
    SAID("size-0-plain.csv: is missing");
    fresh();
    if (mkfifo(at("bad/pipe"), 0600) != 0) abort();
    assert_false(holds(at("bad")));
    fresh();
    if (rename(at("bad/analysis.json"), at("bad/analysis2.json")) != 0) abort();
    assert_false(holds(at("bad")));
    SAID("analysis2.json");
    SAID("analysis.json: is missing");
}

static void a_manifest_is_strict(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"batchone.manifest/1", "batchone.manifest/2", "schema"},
        {"\"files\"", "\"more\": 1, \"files\"", "exactly schema and files"},
        {"\"schema\"", "\"schema\": \"batchone.manifest/1\", \"schema\"", "no valid JSON"},
        {"\"size\"", "\"more\": 1, \"size\"", "exactly path, size and sha256"},
        {"\"size\"", "\"sise\"", "exactly path, size and sha256"},
        {"\"size\": ", "\"size\": -", "size or sha256"},
        {"\"size\": ", "\"size\": 1", "the manifest says 1"},
        {"\"path\": \"analysis.json\"", "\"path\": \"./analysis.json\"", "no path"},
        {"\"path\": \"analysis.json\"", "\"path\": \"../analysis.json\"", "no path"},
        {"\"path\": \"analysis.json\"", "\"path\": \"/etc/passwd\"", "no path"},
        {"\"path\": \"analysis.json\"", "\"path\": \"traces/../analysis.json\"", "no path"},
        {"\"path\": \"analysis.json\"", "\"path\": \"manifest.json\"", "no path"},
        {"\"path\": \"analysis.json\"", "\"path\": \"\"", "no path"},
        {"\"path\": \"analysis.json\"", "\"path\": \"ana\\u0000lysis.json\"", "no valid JSON"},
        {"\"path\": \"analysis.json\"", "\"path\": \"\xff\"", "no valid JSON"},
        {"\"path\": \"analysis.json\"", "\"path\": \"commands.json\"", "twice"},
        {"\"sha256\": \"", "\"sha256\": \"A", "size or sha256"},
        {"\"sha256\": \"", "\"sha256\": \"0", "size or sha256"},
    };
    make_good();
    for (size_t i = 0; i < COUNT(cases); i++) {
        replace(fresh(), "manifest.json", cases[i][0], cases[i][1]);
        if (holds(at("bad"))) fail_msg("case %zu was not seen", i);
        SAID(cases[i][2]);
    }
    /* The same in other spacing is the same. */
    json_t *m;
    assert_int_equal(b1i_lab_read_json(fresh(), "manifest.json", &m, &err), B1_OK);
    char *text = json_dumps(m, JSON_INDENT(5) | JSON_SORT_KEYS);
    put_text(at("bad"), "manifest.json", text);
    assert_true(holds(at("bad")));
    /* A file and its entry dropped together. */
    json_array_clear(json_object_get(m, "files"));
    free(text);
    text = json_dumps(m, 0);
    put_text(at("bad"), "manifest.json", text);
    assert_false(holds(at("bad")));
    SAID("has no environment.json");
    free(text);
    json_decref(m);
}

/* A forger who mends the manifest as well. */
static void figures_follow_from_the_samples(void **state)
{
    (void)state;
    static const char *const keys[] = {"n", "median_ns", "p10_ns", "p90_ns", "gbps", "throttled"};
    make_good();
    for (size_t i = 0; i < COUNT(keys); i++) {
        json_t *a;
        char where[64];
        assert_int_equal(b1i_lab_read_json(fresh(), "analysis.json", &a, &err), B1_OK);
        json_t *row = json_array_get(json_object_get(a, "cells"), 0);
        double value = json_number_value(json_object_get(row, keys[i]));
        json_object_set_new(row, keys[i], json_real(value * 1.0001 + 0.001));
        char *text = json_dumps(a, 0);
        put_text(at("bad"), "analysis.json", text);
        mend(at("bad"), "analysis.json");
        assert_false(holds(at("bad")));
        snprintf(where, sizeof where, "analysis.json: cells[0].%s is ", keys[i]);
        SAID(where);
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
        free(text);
        json_decref(a);
    }
    static const char *const forged[][3] = {
        {"\"verdict\": \"ok\"", "\"verdict\": \"fine\"", "verdict"},
        {"\"host_bound\": false", "\"host_bound\": true", "host_bound"},
        {"\"ratio\": ", "\"ratio\": 1", "a_a[0].ratio"},
        {"\"early_jobs\": ", "\"early_jobs\": 1", "traces[0].early_jobs"},
        {"\"verdict\": \"unsupported\"", "\"verdict\": \"ok\"", "verdict"},
        {"\"experiment\"", "\"more\": 1, \"experiment\"", "more"},
    };
    for (size_t i = 0; i < COUNT(forged); i++) {
        replace(fresh(), "analysis.json", forged[i][0], forged[i][1]);
        mend(at("bad"), "analysis.json");
        assert_false(holds(at("bad")));
        SAID(forged[i][2]);
    }
}

static void other_files_are_compared_too(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        {"samples.jsonl", "\"ns\":", "\"ns\":1", "analysis.json: samples_sha256"},
        {"samples.jsonl", "\"round\":1,", "\"round\":2,", "line 1"},
        {"traces/size-0-plain.csv", "0,B,3,210,300\n", "", "size-0-plain.perfetto.json: is not what"},
        {"traces/size-0-plain.csv", "1,B,4,330,400\n", "", "traces[0].complete"},
        {"traces/size-0-plain.csv", "400\n", "400", "is no whole row"},
        {"traces/size-0-plain.perfetto.json", "\"dur\":0.1", "\"dur\":0.2", "is not what"},
        {"environment.json", "\"run\": \"", "\"run\": \"1", "environment.json: is of the run"},
        {"environment.json", "\"experiment\": \"fake\"", "\"experiment\": \"true\"", "environment.json: is of the run"},
        {"plan.json", "\"seed\": ", "\"seed\": 1", "samples.jsonl: line"},
        {"plan.json", "\"run\": \"", "\"run\": \"1", "environment.json: is of the run"},
        {"commands.json", "[]", "[{\"stdout\": {\"file\": \"profile/x.stdout\"}, \"stderr\": null}]",
         "which is not there"},
        {"commands.json", "[]", "5", "has no commands"},
        {"environment.json", "\"binary_sha256\": null", "\"binary_sha256\": \"0\"", "binary_sha256 is not"},
        {"environment.json", "\"rounds\": ", "\"rounds\": 1", "options.rounds is not"},
        {"environment.json", "\"cpu\": \"", "\"cpu\": \"i", "machine.cpu is not device_name"},
    };
    make_good();
    for (size_t i = 0; i < COUNT(cases); i++) {
        replace(fresh(), cases[i][0], cases[i][1], cases[i][2]);
        mend(at("bad"), cases[i][0]);
        if (holds(at("bad"))) fail_msg("case %zu was not seen", i);
        SAID(cases[i][3]);
    }
}

/* A file and its entry of the manifest, both gone. */
static void drop(const char *folder, const char *name)
{
    json_t *m, *files;
    assert_int_equal(b1i_lab_read_json(folder, "manifest.json", &m, &err), B1_OK);
    files = json_object_get(m, "files");
    for (size_t i = json_array_size(files); i-- > 0;)
        if (strcmp(json_string_value(json_object_get(json_array_get(files, i), "path")), name) == 0)
            json_array_remove(files, i);
    char *text = json_dumps(m, 0), *path = b1i_lab_join(folder, name);
    put_text(folder, "manifest.json", text);
    if (unlink(path) != 0) abort();
    b1i_free(path);
    free(text);
    json_decref(m);
}

/* A trace of which nothing is left, in the analysis neither. */
static void a_whole_trace_is_missed(void **state)
{
    (void)state;
    make_good();
    drop(fresh(), "traces/size-0-plain.csv");
    drop(at("bad"), "traces/size-0-plain.perfetto.json");
    remove(at("bad/traces"));
    json_t *analysis;
    assert_int_equal(b1i_lab_read_json(at("bad"), "analysis.json", &analysis, &err), B1_OK);
    json_object_set_new(analysis, "traces", json_array());
    char *text = json_dumps(analysis, 0);
    put_text(at("bad"), "analysis.json", text);
    mend(at("bad"), "analysis.json");
    free(text);
    json_decref(analysis);
    assert_false(holds(at("bad")));
    SAID("traces/size-0-plain.csv: is missing, and the cell \"size=0/plain\" is one that is traced");
    assert_null(strstr(said, "analysis.json")); /* nothing else gives it away */
}

/* The data of each plot follow from the analysis and the traces. */
static void figures_of_plots_are_compared(void **state)
{
    (void)state;
    b1i_names names;
    int plots = 0;
    make_good();
    assert_int_equal(b1i_lab_list(at("good"), &names, &err), B1_OK);
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i], *end = strrchr(name, '.');
        if (strncmp(name, "plots/", 6) != 0 || !end || strcmp(end, ".dat") != 0) continue;
        char *text = text_of(fresh(), name), *digit = strrchr(text, '.') - 1;
        *digit = *digit == '9' ? '8' : (char)(*digit + 1);
        put_text(at("bad"), name, text);
        mend(at("bad"), name);
        if (holds(at("bad"))) fail_msg("%s was not compared", name);
        SAID("has a row that analysis.json and the traces do not give");
        b1i_free(text);
        plots++;
    }
    b1i_names_free(&names);
    assert_true(plots > 1);
}

/* ---- what a run tells of itself ---- */

static void a_run_tells_what_it_was(void **state)
{
    (void)state;
    json_t *e, *list, *p;
    fake_reset();
    const char *folder = at("told");
    assert_false(run_apart(folder, false, 40));
    b1i_lab_options o = fake_options(folder);
    o.resume = true;
    assert_int_equal(fake_run(&o), B1_OK);
    assert_int_equal(b1i_lab_read_json(folder, "environment.json", &e, &err), B1_OK);
    static const char *const keys[] = {"run",       "experiment",       "device",   "options", "version",
                                       "machine",   "container",        "gpu",      "cuda",    "libraries",
                                       "elapsed_s", "elapsed_excludes", "processes"};
    for (size_t i = 0; i < COUNT(keys); i++) assert_non_null(json_object_get(e, keys[i]));
    assert_true(json_number_value(json_object_get(e, "elapsed_s")) > 0);
    assert_true(json_array_size(json_object_get(e, "libraries")) > 1);
    list = json_object_get(e, "processes");
    assert_int_equal(json_array_size(list), 2);
    p = json_array_get(list, 0);
    assert_int_equal(json_integer_value(json_object_get(p, "first_round")), 1);
    assert_true(json_is_null(json_object_get(p, "last_round")) && json_is_null(json_object_get(p, "outputs_checked")));
    p = json_array_get(list, 1);
    assert_true(json_integer_value(json_object_get(p, "first_round")) > 1);
    assert_int_equal(json_integer_value(json_object_get(p, "last_round")), 21);
    assert_true(json_is_true(json_object_get(p, "outputs_checked")));
    json_decref(e);
}

/* ---- external programs ---- */

static void commands_are_kept(void **state)
{
    (void)state;
    b1i_evidence *e;
    int code;
    const char *folder = at("commands");
    const char *const speaks[] = {"sh", "-c", "echo out; echo bad >&2; exit 3", NULL};
    const char *const missing[] = {"no-such-program-here", "--version", NULL};
    const char *const killed[] = {"sh", "-c", "kill -9 $$", NULL};
    const char *const secret[] = {"printf", "abc", NULL};
    assert_int_equal(b1i_evidence_create(folder, &e, &err), B1_OK);
    assert_int_equal(b1i_evidence_command(e, "speaks", speaks, false, &code, &err), B1_OK);
    assert_int_equal(code, 3);
    assert_int_equal(b1i_evidence_command(e, "missing", missing, false, &code, &err), B1_OK);
    assert_int_equal(code, 127);
    assert_int_equal(b1i_evidence_command(e, "killed", killed, false, &code, &err), B1_OK);
    assert_int_equal(code, 128 + 9);
    assert_int_equal(b1i_evidence_command(e, "secret", secret, true, &code, &err), B1_OK);
    assert_int_equal(code, 0);
    char raw[300], log[300];
    snprintf(raw, sizeof raw, "%s/profile", folder);
    snprintf(log, sizeof log, "%s.raw/7.part", folder);
    const char *const paths[] = {"/bin/sh", "-c", "exit 0", raw, log, "/some/where/batchone", "a/b", folder, "/", NULL};
    assert_int_equal(b1i_evidence_command(e, "paths", paths, false, &code, &err), B1_OK);
    assert_int_equal(code, 0);
    assert_int_equal(b1i_evidence_command(e, "../x", secret, false, &code, &err), B1_ARGUMENT);
    char *out = text_of(folder, "profile/speaks.stdout"), *bad = text_of(folder, "profile/speaks.stderr");
    char *why = text_of(folder, "profile/missing.stderr");
    assert_string_equal(out, "out\n");
    assert_string_equal(bad, "bad\n");
    /* An emulator's vfork is a fork: that it was not started, and why, stays in the child. */
    if (!getenv("B1_EMULATED")) assert_non_null(strstr(why, "no-such-program-here"));
    assert_false(is_there(folder, "profile/secret.stdout"));
    b1i_free(out);
    b1i_free(bad);
    b1i_free(why);
    assert_int_equal(b1i_evidence_seal(e, &err), B1_OK);
    b1i_evidence_close(e);
    json_t *j;
    assert_int_equal(b1i_lab_read_json(folder, "commands.json", &j, &err), B1_OK);
    const json_t *list = json_object_get(j, "commands"), *c = json_array_get(list, 3);
    assert_int_equal(json_array_size(list), 5);
    static const char *const kept[] = {"sh",  "-c",  "exit 0", "DIR/profile", "DIR.raw/7.part", "batchone",
                                       "a/b", "DIR", "/"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_string_equal(json_string_value(json_array_get(json_object_get(json_array_get(list, 4), "argv"), i)),
                            kept[i]);
    assert_string_equal(json_string_value(json_object_get(json_object_get(c, "stdout"), "sha256")),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    c = json_array_get(list, 1);
    if (!getenv("B1_EMULATED")) assert_true(json_is_false(json_object_get(c, "started")));
    c = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_array_get(json_object_get(c, "argv"), 1)), "-c");
    assert_int_equal(json_integer_value(json_object_get(c, "exit_code")), 3);
    json_decref(j);
}

static void hashes_are_sha256(void **state)
{
    (void)state;
    char hex[65];
    uint64_t bytes;
    put_text(home, "abc", "abc");
    assert_int_equal(b1i_sha256_file(at("abc"), hex, &bytes, &err), B1_OK);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); /* FIPS 180-2 */
    assert_int_equal(bytes, 3);
    put_text(home, "abc", "");
    assert_int_equal(b1i_sha256_file(at("abc"), hex, &bytes, &err), B1_OK);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(b1i_sha256_file(home, hex, &bytes, &err), B1_IO);
    assert_int_equal(b1i_sha256_file(at("nothing"), hex, &bytes, &err), B1_IO);
}

static void no_allocation_of_verify_may_fail_unseen(void **state)
{
    (void)state;
    make_good();
    json_set_alloc_funcs(b1i_malloc, b1i_free);
    long refused = 0;
    for (long n = 0;; n += n < 400 ? 1 : 61) {
        long alive = b1i_alloc_live();
        bool all = false;
        said[0] = 0;
        b1i_alloc_fail_at(n);
        b1_status st = b1i_evidence_verify(at("good"), keep_line, NULL, &all, &err);
        b1i_alloc_fail_at(-1);
        if (b1i_alloc_live() != alive) fail_msg("allocation %ld: %ld are left", n, b1i_alloc_live() - alive);
        if (st == B1_OK && all) break;
        refused++;
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_any_change_it_can_be_resumed),
        cmocka_unit_test(a_round_that_is_cut_is_measured_again),
        cmocka_unit_test(samples_that_are_not_the_plans_are_not_resumed),
        cmocka_unit_test(a_resumed_run_is_the_same_run),
        cmocka_unit_test(what_is_gone_or_no_file_is_not_resumed),
        cmocka_unit_test(nothing_is_written_over),
        cmocka_unit_test(two_runs_do_not_share_a_directory),
        cmocka_unit_test(a_sealed_run_takes_nothing_more),
        cmocka_unit_test(names_stay_inside),
        cmocka_unit_test(a_failed_run_is_kept_with_its_reason),
        cmocka_unit_test(a_bit_of_any_file_is_missed),
        cmocka_unit_test(numbers_are_not_cut),
        cmocka_unit_test(the_states_of_the_device_are_of_its_plan),
        cmocka_unit_test(what_does_not_belong_is_told),
        cmocka_unit_test(a_manifest_is_strict),
        cmocka_unit_test(figures_follow_from_the_samples),
        cmocka_unit_test(other_files_are_compared_too),
        cmocka_unit_test(a_whole_trace_is_missed),
        cmocka_unit_test(figures_of_plots_are_compared),
        cmocka_unit_test(a_run_tells_what_it_was),
        cmocka_unit_test(commands_are_kept),
        cmocka_unit_test(hashes_are_sha256),
        cmocka_unit_test(no_allocation_of_verify_may_fail_unseen),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
