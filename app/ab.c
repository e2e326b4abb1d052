/* SPDX-License-Identifier: MIT
 *
 * batchone ab: two settings in pairs, each pair in a fresh process, as a directory that anybody can check; and the
 * parts of it by themselves, for whoever runs the sessions elsewhere: plan, run, collect.
 */
#include "lab/ab.h"

#include "app/parts.h"
#include "lab/analysis.h"
#include "lab/bench.h"
#include "lab/files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OPERANDS_MOST = 2, SESSIONS_USUAL = 10, CONTEXT_USUAL = 2048 };

typedef struct ab_options {
    const char *out, *model, *device, *a, *b, *session, *list;
    int64_t context, sessions, resamples, seed, threads, warmup, steps; /* 0, and of warm-up -1: not given */
    bool synthetic, launch_only, resume, json;
} ab_options;

#define AT(field) offsetof(ab_options, field)
static const b1i_option options[] = {
    {"out", 'o', b1i_option_text, AT(out), "DIR", "the directory to make", 0, 0, NULL},
    {"model", 'm', b1i_option_text, AT(model), "MODEL", "a model's file, or a built-in shape", 0, 0, NULL},
    {"synthetic", 0, b1i_option_flag, AT(synthetic), NULL, "the model is a built-in shape with random weights", 0, 0,
     NULL},
    {"device", 0, b1i_option_device, AT(device), "NAME", "cpu, cuda, cuda:N or auto (auto)", 0, 0, b1i_device_word},
    {"a", 0, b1i_option_text, AT(a), "SETTINGS", "executor=…,weights=…,threads=…,context=…,batch=…,stack=COMMAND", 0, 0,
     NULL},
    {"b", 0, b1i_option_text, AT(b), "SETTINGS", "the same of B", 0, 0, NULL},
    {"context", 'c', b1i_option_integer, AT(context), "N", "positions a step reads (2048)", 1, 1e7, NULL},
    {"threads", 't', b1i_option_integer, AT(threads), "N", "threads (as many as cores may be used)", 1, 4096, NULL},
    {"sessions", 0, b1i_option_integer, AT(sessions), "N", "pairs, each in a fresh process (10)", 1, 1000, NULL},
    {"resamples", 0, b1i_option_integer, AT(resamples), "N", "of the bootstrap (10000)", 100, 1e7, NULL},
    {"seed", 0, b1i_option_integer, AT(seed), "N", "of the bootstrap (by the clock)", 1, 9e15, NULL},
    {"warmup", 0, b1i_option_integer, AT(warmup), "N", "least steps before the clock starts (5)", 0, 1e6, NULL},
    {"steps", 0, b1i_option_integer, AT(steps), "N", "least samples of an arm (30)", 1, 1e6, NULL},
    {"launch-only", 0, b1i_option_flag, AT(launch_only), NULL,
     "A and B are to run the same kernels: their profiles must show it", 0, 0, NULL},
    {"resume", 0, b1i_option_flag, AT(resume), NULL, "go on with an incomplete A/B in DIR", 0, 0, NULL},
    {"list", 0, b1i_option_text, AT(list), "DIR", "plan: print the ids of the sessions there", 0, 0, NULL},
    {"session", 0, b1i_option_text, AT(session), "ID", "run: the session to measure", 0, 0, NULL},
    {"json", 0, b1i_option_flag, AT(json), NULL, "print the analysis as one JSON document", 0, 0, NULL},
    {0},
};

typedef struct ab {
    const ab_options *o;
    b1i_parts parts;
} ab;

/* What options may have a meaning for. */
enum { PLAN = 1, THERE = 2, LIST = 4, RUN = 8, COLLECT = 16, SEAL = 32 };

/* Prints the first option that `here` knows nothing of. */
static bool stray(const ab *s, unsigned here, const char *what)
{
    const ab_options *o = s->o;
    const b1i_use uses[] = {{"out", o->out, PLAN | THERE | RUN},
                            {"model", o->model, PLAN},
                            {"synthetic", o->synthetic, PLAN},
                            {"device", o->device, PLAN | THERE},
                            {"a", o->a, PLAN},
                            {"b", o->b, PLAN},
                            {"context", o->context, PLAN},
                            {"threads", o->threads, PLAN},
                            {"sessions", o->sessions, PLAN},
                            {"resamples", o->resamples, PLAN | THERE},
                            {"seed", o->seed, PLAN | THERE},
                            {"warmup", o->warmup >= 0, PLAN},
                            {"steps", o->steps, PLAN},
                            {"launch-only", o->launch_only, PLAN},
                            {"resume", o->resume, PLAN | THERE},
                            {"list", o->list, LIST},
                            {"session", o->session, RUN},
                            {"json", o->json, SEAL | COLLECT}};
    return b1i_parts_stray(&s->parts, uses, sizeof uses / sizeof *uses, here, what);
}

static int ended(ab *s, b1_status st, const b1_error *err) { return b1i_parts_end(&s->parts, st, err); }
static int usage(const ab *s, const char *what, const char *hint) { return b1i_parts_usage(&s->parts, what, hint); }

/* ---- the result ---- */

static double bound(const json_t *j, const char *key, size_t at)
{
    const json_t *value = json_array_get(json_object_get(j, key), at);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The settings of an arm; threads are left out where all may be used. */
static void print_settings(const char *arm, const char *settings)
{
    static const char all[] = ",threads=0";
    const char *at = strstr(settings, all); /* a stack's command comes last, and has none before these */
    if (at && at[sizeof all - 1] == ',')
        printf("%s: %.*s%s\n", arm, (int)(at - settings), settings, at + sizeof all - 1);
    else
        printf("%s: %s\n", arm, settings);
}

static void print_pairs(const json_t *analysis)
{
    const json_t *pairs = json_object_get(analysis, "pairs"), *orders = json_object_get(analysis, "orders");
    printf("%-8s %-6s %11s %11s %9s\n", "session", "order", "A ms/step", "B ms/step", "A / B");
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i), *order = json_array_get(orders, i);
        double a = json_number_value(json_array_get(pair, 0)), b = json_number_value(json_array_get(pair, 1));
        printf("%-8.0f %s %s    %11.4f %11.4f %9.4f\n",
               json_number_value(json_array_get(json_object_get(analysis, "numbers"), i)),
               json_string_value(json_array_get(order, 0)), json_string_value(json_array_get(order, 1)), a, b, a / b);
    }
}

static void print_interval(const json_t *j, const char *key)
{
    if (isfinite(bound(j, key, 0)))
        printf(" [%.4f, %.4f]", bound(j, key, 0), bound(j, key, 1));
    else
        printf(" without an interval");
}

static void print_arm(const json_t *analysis, const char *arm, const char *key)
{
    const json_t *j = json_object_get(analysis, key);
    printf("%s: mean %.4f ms, median %.4f, CV within sessions %.2f %%", arm, b1i_lab_number_at(j, "mean"),
           b1i_lab_number_at(j, "median"), 100 * b1i_lab_number_at(j, "cv_within"));
    if (isfinite(b1i_lab_number_at(j, "cv_across")))
        printf(", across sessions %.2f %%", 100 * b1i_lab_number_at(j, "cv_across"));
    putchar('\n');
}

/* How many arms were not steady, where some were. */
static void print_unsteady(const json_t *analysis)
{
    const json_t *counts = json_object_get(analysis, "verdicts");
    const char *before = "";
    for (int i = b1i_verdict_throttled; i > b1i_verdict_ok; i--) {
        const double count = b1i_lab_number_at(counts, b1i_verdict_names[i]);
        if (!(count > 0)) continue;
        if (!*before) printf("of %zu arms ", 2 * json_array_size(json_object_get(analysis, "pairs")));
        printf("%s%.0f %s %s", before, count, count == 1 ? "was" : "were", b1i_verdict_names[i]);
        before = ", ";
    }
    if (*before) putchar('\n');
}

static void print_figures(const json_t *analysis)
{
    printf("B is %.4f times as fast as A", b1i_lab_number_at(analysis, "speedup"));
    print_interval(analysis, "interval");
    printf(" (95 %%, over %.0f sessions)%s\n", b1i_lab_number_at(analysis, "sessions"),
           bound(analysis, "interval", 0) <= 1 && bound(analysis, "interval", 1) >= 1
               ? ": no difference was shown, for the interval includes 1"
               : "");
    printf("median %.4f, mean %.4f, range %.4f to %.4f; plain percentile interval",
           b1i_lab_number_at(analysis, "median"), b1i_lab_number_at(analysis, "mean"),
           b1i_lab_number_at(analysis, "min"), b1i_lab_number_at(analysis, "max"));
    print_interval(analysis, "percentile_interval");
    printf("\nA − B: %.4f ms", b1i_lab_number_at(analysis, "difference_ms"));
    print_interval(analysis, "difference_interval");
    puts(json_is_true(json_object_get(analysis, "upper_bound")) ? ", an upper bound of the launch tax" : "");
    print_arm(analysis, "A", "a_ms");
    print_arm(analysis, "B", "b_ms");
}

static void print_rigs(const json_t *analysis)
{
    const json_t *rigs = json_object_get(analysis, "rigs");
    for (size_t i = 0; i < json_array_size(rigs); i++) {
        const json_t *rig = json_array_get(rigs, i);
        printf("rig %zu (%s %s, %.12s, %zu sessions): %.4f", i + 1, b1i_lab_text_at(rig, "device_name"),
               b1i_lab_text_at(rig, "device_uuid"), b1i_lab_text_at(rig, "binary_sha256"),
               json_array_size(json_object_get(rig, "numbers")), b1i_lab_number_at(rig, "speedup"));
        print_interval(rig, "interval");
        putchar('\n');
    }
}

/* *failed: a session has no pair. */
static b1_status print_result(ab *s, bool *failed, b1_error *err)
{
    json_t *analysis;
    b1_status st = b1i_analysis_read(s->parts.run.out, &analysis, err);
    if (st != B1_OK) return st;
    b1i_progress_end(&s->parts.bar);
    *failed = strcmp(b1i_lab_text_at(analysis, "verdict"), "failed") == 0;
    if (s->o->json) return b1i_json_write(analysis, stdout, err);
    print_settings("A", b1i_lab_text_at(analysis, "a"));
    print_settings("B", b1i_lab_text_at(analysis, "b"));
    print_pairs(analysis);
    if (isfinite(b1i_lab_number_at(analysis, "speedup")))
        print_figures(analysis);
    else
        print_rigs(analysis);
    print_unsteady(analysis);
    printf("verdict: %s%s%s\n%s: batchone verify checks it, batchone report shows it\n",
           b1i_lab_text_at(analysis, "verdict"), *b1i_lab_text_at(analysis, "message") ? ": " : "",
           b1i_lab_text_at(analysis, "message"), s->parts.run.out);
    json_decref(analysis);
    return B1_OK;
}

/* ---- the plan ---- */

/* The executor that the text names, into `name`; false: none. */
static bool executor_in(const char *settings, char name[32])
{
    const char *at = settings;
    for (; at && *at && strncmp(at, "stack=", 6) != 0; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, "executor=", 9) == 0) {
            size_t length = strcspn(at + 9, ",");
            if (length >= 32) return false;
            memcpy(name, at + 9, length);
            name[length] = 0;
            return true;
        }
    return false;
}

static b1_status choose_device(ab *s, b1_error *err)
{
    char names[2][32];
    const char *executors[2];
    size_t count = 0;
    if (executor_in(s->o->a, names[0])) executors[count++] = names[0];
    if (executor_in(s->o->b, names[1])) executors[count++] = names[1];
    return b1i_device_choose(s->o->device, executors, count, &s->parts.run.device, err);
}

static b1_status arm(const char *name, const char *settings, const b1i_setting *base, b1i_setting *out, b1_error *err)
{
    b1_error why = {0};
    b1_status st = b1i_ab_settings(settings, base, out, &why);
    if (st != B1_OK) return b1i_fail(err, st, "--%s: %s", name, why.message);
    if (!out->weights || out->stack || out->synthetic) return B1_OK;
    return b1i_fail(err, B1_ARGUMENT, "--%s: weights=%s is for built-in shapes; a model's file has its own format",
                    name, out->weights);
}

/* Sessions of a model that cannot be read would all fail for the same reason. */
static b1_status look_at(const char *model, bool synthetic, b1_error *err)
{
    b1_inspection *inspection = NULL;
    b1_status st = B1_OK;
    if (synthetic && !b1i_is_shape(model))
        return b1i_fail(err, B1_ARGUMENT, "there is no built-in shape \"%s\"", model);
    if (!synthetic) st = b1_inspect(model, &inspection, err);
    b1_inspection_free(inspection);
    return st;
}

static b1_status make_plan(ab *s, b1_error *err)
{
    const ab_options *o = s->o;
    b1_status st = choose_device(s, err);
    if (st != B1_OK) return st;
    const bool gpu = s->parts.run.device.ordinal != B1I_DEVICE_CPU;
    const b1i_setting base = {.model = (char *)(uintptr_t)o->model,
                              .synthetic = o->synthetic || b1i_means_shape(o->model),
                              .device = s->parts.run.device.name,
                              .executor = gpu ? "fused_graph" : "fused",
                              .context = o->context ? (int)o->context : CONTEXT_USUAL,
                              .threads = (int)o->threads,
                              .batch = 1,
                              .warmup = o->warmup >= 0 ? (int)o->warmup : B1I_WARMUP_USUAL,
                              .steps = o->steps ? (int)o->steps : B1I_STEPS_USUAL};
    b1i_ab_options options_of = {.sessions = o->sessions ? (int)o->sessions : SESSIONS_USUAL,
                                 .resamples = (int)o->resamples,
                                 .seed = (uint64_t)o->seed,
                                 .launch_only = o->launch_only};
    options_of.run = s->parts.run;
    B1I_TRY(look_at(o->model, base.synthetic, err));
    B1I_TRY(arm("a", o->a, &base, &options_of.a, err));
    B1I_TRY(arm("b", o->b, &base, &options_of.b, err));
    B1I_TRY(b1i_ab_plan(&options_of, err));
fail:
    b1i_setting_free(&options_of.a);
    b1i_setting_free(&options_of.b);
    return st;
}

/* What is missing to plan; NULL: nothing. */
static const char *missing(const ab_options *o)
{
    if (!o->out) return "--out DIR is missing: the directory to make";
    if (!o->model) return "--model is missing";
    return o->a && o->b ? NULL : "--a or --b is missing: the settings of either arm, such as executor=fused,threads=2";
}

/* ---- the commands ---- */

static void print_id(void *user, const char *id, bool done)
{
    (void)user;
    (void)done;
    puts(id);
}

static void count_id(void *user, const char *id, bool done)
{
    (void)id;
    (void)done;
    ++*(int *)user;
}

static int plan(ab *s)
{
    b1_error err = {0};
    int sessions = 0;
    if (s->o->list && stray(s, LIST, "plan --list DIR")) return B1I_EXIT_USAGE;
    if (s->o->list) return ended(s, b1i_ab_each(s->o->list, print_id, NULL, &err), &err);
    if (stray(s, PLAN, "plan")) return B1I_EXIT_USAGE;
    if (missing(s->o)) return usage(s, missing(s->o), "or --list DIR prints the ids there");
    b1_status st = make_plan(s, &err);
    if (st == B1_OK) st = b1i_ab_each(s->o->out, count_id, &sessions, &err);
    if (st == B1_OK) b1i_parts_planned(&s->parts, "session", sessions);
    return ended(s, st, &err);
}

static int run_session(ab *s)
{
    b1_error err = {0};
    if (stray(s, RUN, "run")) return B1I_EXIT_USAGE;
    if (!s->o->session || !s->o->out) return usage(s, "run needs --session ID and --out DIR", NULL);
    int code = ended(s, b1i_ab_run_session(&s->parts.run, s->o->session, &err), &err);
    if (code == B1I_EXIT_OK) b1i_parts_measured(&s->parts, s->o->session);
    return code;
}

/* The exit code of sessions that were measured, `st` being what became of that. */
static int finish(ab *s, b1_status st, b1_error *err)
{
    bool holds = false, failed = false;
    if (st == B1_OK) st = b1i_ab_collect(&s->parts.run, b1i_parts_line, &s->parts, &holds, err);
    if (st == B1_OK && holds) st = print_result(s, &failed, err);
    int code = ended(s, st, err);
    if (st == B1_CANCELLED) b1i_print_hint("the same command with --resume goes on with it");
    if (code != B1I_EXIT_OK || (holds && !failed)) return code;
    b1i_print_error(holds ? "ab: a session of %s has no pair" : "ab: %s does not hold: nothing was sealed",
                    s->parts.run.out);
    return B1I_EXIT_FAILED;
}

static int all(ab *s)
{
    b1_error err = {0};
    const ab_options *o = s->o;
    const bool begun = o->resume && o->out && !o->model && !o->a && !o->b; /* the plan that is there */
    if (stray(s, SEAL | (begun ? THERE : PLAN), begun ? "--resume without --model" : "")) return B1I_EXIT_USAGE;
    if (!begun && missing(o)) return usage(s, missing(o), NULL);
    b1_status st = begun ? b1i_ab_same_draws(o->out, (int)o->resamples, (uint64_t)o->seed, &err) : make_plan(s, &err);
    if (st == B1_OK) st = b1i_ab_run_all(&s->parts.run, &err);
    return finish(s, st, &err);
}

static int collect(ab *s, const char *directory)
{
    b1_error err = {0};
    if (stray(s, COLLECT, "collect")) return B1I_EXIT_USAGE;
    if (!b1i_parts_turn_to(&s->parts, directory)) return B1I_EXIT_USAGE;
    return finish(s, B1_OK, &err);
}

static int dispatch(ab *s, const char *const *words, int count)
{
    if (!count) return all(s);
    if (strcmp(words[0], "plan") == 0 && count == 1) return plan(s);
    if (strcmp(words[0], "run") == 0 && count == 1) return run_session(s);
    if (strcmp(words[0], "collect") == 0 && count == 2) return collect(s, words[1]);
    return usage(s, "there is plan, run, collect DIR, or no word at all", "\"batchone ab --help\" lists what there is");
}

static int run(const b1i_command *self, char **arguments)
{
    ab_options o = {.warmup = -1};
    ab s = {.o = &o};
    const char *words[OPERANDS_MOST] = {NULL};
    int count, code = b1i_options_parse(self, arguments, &o, words, 0, OPERANDS_MOST, &count);
    if (code != B1I_PARSED) return code;
    b1i_parts_begin(&s.parts, self->name, o.out, o.resume);
    return dispatch(&s, words, count);
}

const b1i_command b1i_command_ab = {
    .name = "ab",
    .operands = "[plan|run|collect DIR]",
    .summary = "Compares two settings in pairs, each pair in a fresh process.",
    .notes =
        "ab --model M --a SETTINGS --b SETTINGS --out DIR measures both in each session, in alternating order. The\n"
        "speed-up is the geometric mean of A's median over B's, its interval a studentised bootstrap over sessions.\n"
        "The parts by themselves: ab plan --out DIR, ab plan --list DIR, ab run --session ID --out DIR, ab collect "
        "DIR.",
    .options = options,
    .run = run,
};
