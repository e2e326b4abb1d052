/* SPDX-License-Identifier: MIT
 *
 * batchone study: a matrix of cells, each measured in a fresh process, as a directory that anybody can check; and the
 * parts of it by themselves, for whoever runs the cells elsewhere: plan, run, collect, emit.
 */
#include "lab/study.h"

#include "app/app.h"
#include "app/executors.h"
#include "app/parts.h"
#include "app/study_table.h"
#include "lab/analysis.h"
#include "lab/files.h"
#include "lab/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS_MOST_BYTES = 1 << 20, OPERANDS_MOST = 3, SESSIONS_USUAL = 1 };

typedef struct study_options {
    const char *out, *plan, *device, *cell, *list, *hosts;
    b1i_texts models, executors, weights, stacks;
    b1i_integers contexts, batches;
    int64_t threads, sessions, warmup, steps; /* 0, and of warm-up -1: not given */
    double deadline_ms;
    bool synthetic, profile, resume, json;
} study_options;

static const char *executor_or_all(int index)
{
    const char *name = b1_executor_name(index);
    return name ? name : index == 0 || b1_executor_name(index - 1) ? "all" : NULL;
}

#define AT(field) offsetof(study_options, field)
static const b1i_option options[] = {
    {"out", 'o', b1i_option_text, AT(out), "DIR", "the directory to make", 0, 0, NULL},
    {"plan", 0, b1i_option_text, AT(plan), "FILE", "take the cells from there: {\"cells\": [settings]}", 0, 0, NULL},
    {"device", 0, b1i_option_device, AT(device), "NAME", "cpu, cuda, cuda:N or auto (auto)", 0, 0, b1i_device_word},
    {"models", 'm', b1i_option_words, AT(models), "NAME,…", "model files or built-in shapes", 0, 0, NULL},
    {"synthetic", 0, b1i_option_flag, AT(synthetic), NULL, "the models are built-in shapes with random weights", 0, 0,
     NULL},
    {"contexts", 'c', b1i_option_integers, AT(contexts), "N,…", "positions a step reads (2048,4096,8192,16384)", 1, 1e7,
     NULL},
    {"executors", 0, b1i_option_words, AT(executors), "NAME,…",
     "or all (fused,persistent; on a GPU fused_graph,fused_pdl)", 0, 0, executor_or_all},
    {"weights", 0, b1i_option_words, AT(weights), "F,…", "as-is, or formats of the shapes' matrices (as-is)", 0, 0,
     NULL},
    {"threads", 't', b1i_option_integer, AT(threads), "N", "threads (as many as cores may be used)", 1, 4096, NULL},
    {"batch", 0, b1i_option_integers, AT(batches), "N,…", "sequences of a step, up to 8 (1)", 1, 8, NULL},
    {"sessions", 0, b1i_option_integer, AT(sessions), "N", "how often each cell is measured (1)", 1, 1e4, NULL},
    {"warmup", 0, b1i_option_integer, AT(warmup), "N", "least steps before the clock starts (5)", 0, 1e6, NULL},
    {"steps", 0, b1i_option_integer, AT(steps), "N", "least samples of a cell (30)", 1, 1e6, NULL},
    {"stack", 0, b1i_option_texts, AT(stacks), "CMD", "measure this program too; without --executors it alone", 0, 0,
     NULL},
    {"profile", 0, b1i_option_flag, AT(profile), NULL, "profile a few steps of each cell after its timing", 0, 0, NULL},
    {"deadline-ms", 0, b1i_option_number, AT(deadline_ms), "X", "count steps without pauses that take longer", 1e-3,
     1e6, NULL},
    {"resume", 0, b1i_option_flag, AT(resume), NULL, "go on with an incomplete study in DIR", 0, 0, NULL},
    {"list", 0, b1i_option_text, AT(list), "DIR", "plan: print the ids of the cells there", 0, 0, NULL},
    {"cell", 0, b1i_option_text, AT(cell), "ID", "run: the cell to measure", 0, 0, NULL},
    {"hosts", 0, b1i_option_text, AT(hosts), "FILE", "emit ssh: hosts, one a line", 0, 0, NULL},
    {"json", 0, b1i_option_flag, AT(json), NULL, "print the analysis as one JSON document", 0, 0, NULL},
    {0},
};

typedef struct study {
    study_options *o;
    b1i_parts parts;
} study;

/* What options may have a meaning for. */
enum { MATRIX = 1, GIVEN = 2, THERE = 4, LIST = 8, RUN = 16, COLLECT = 32, EMIT = 64, SEAL = 128 };

/* Prints the first option that `here` knows nothing of. */
static bool stray(const study *s, unsigned here, const char *what)
{
    const study_options *o = s->o;
    enum { PLAN = MATRIX | GIVEN | THERE };
    const b1i_use uses[] = {{"out", o->out, PLAN | RUN},
                            {"plan", o->plan, GIVEN},
                            {"device", o->device, PLAN},
                            {"models", o->models.count, MATRIX},
                            {"synthetic", o->synthetic, MATRIX},
                            {"contexts", o->contexts.count, MATRIX},
                            {"executors", o->executors.count, MATRIX},
                            {"weights", o->weights.count, MATRIX},
                            {"threads", o->threads, MATRIX},
                            {"batch", o->batches.count, MATRIX},
                            {"sessions", o->sessions, MATRIX},
                            {"warmup", o->warmup >= 0, MATRIX},
                            {"steps", o->steps, MATRIX},
                            {"stack", o->stacks.count, MATRIX},
                            {"profile", o->profile, MATRIX},
                            {"deadline-ms", o->deadline_ms > 0, MATRIX},
                            {"resume", o->resume, PLAN},
                            {"list", o->list, LIST},
                            {"cell", o->cell, RUN},
                            {"hosts", o->hosts, EMIT},
                            {"json", o->json, SEAL | COLLECT}};
    return b1i_parts_stray(&s->parts, uses, sizeof uses / sizeof *uses, here, what);
}

/* ---- the result ---- */

static b1_status print_result(study *s, b1_error *err)
{
    json_t *analysis;
    b1_status st = b1i_analysis_read(s->parts.run.out, &analysis, err);
    if (st != B1_OK) return st;
    b1i_progress_end(&s->parts.bar);
    if (s->o->json) return b1i_json_write(analysis, stdout, err);
    const char *none = b1i_study_table(analysis, s->parts.run.out) ? "" : "no cell was measured; ";
    printf("%s: %sbatchone verify checks it, batchone report shows it\n", s->parts.run.out, none);
    json_decref(analysis);
    return B1_OK;
}

/* ---- the plan ---- */

static b1_status default_numbers(b1i_integers *list, const int64_t *usual, size_t count, b1_error *err)
{
    if (list->count) return B1_OK;
    if (!b1i_grow(&list->items, &list->room, count, sizeof *list->items)) return b1i_fail_memory(err, count * 8);
    for (size_t i = 0; i < count; i++) list->items[list->count++] = usual[i];
    return B1_OK;
}

/* The device; a plan may be for one that this machine lacks, if it is named. */
static b1_status choose_device(study *s, bool only_plan, b1_error *err)
{
    study_options *o = s->o;
    b1_error why = {0};
    b1_status st = b1i_device_choose(o->device, o->executors.items, o->executors.count, &s->parts.run.device, &why);
    if (st == B1_UNSUPPORTED && only_plan && o->device && strncmp(o->device, "cuda", 4) == 0) {
        s->parts.run.device = b1i_device_at(o->device[4] ? atoi(o->device + 5) : 0);
        return B1_OK;
    }
    if (st != B1_OK && err) *err = why;
    return st;
}

/* What no cell could be made of; of files only where they are to be read `here`. */
static b1_status check_models(const study_options *o, const bool *synthetic, bool here, b1_error *err)
{
    for (size_t i = 0; i < o->models.count; i++) {
        const char *model = o->models.items[i];
        if (synthetic[i] && !b1i_is_shape(model))
            return b1i_fail(err, B1_ARGUMENT, "there is no built-in shape \"%s\"", model);
        if (here && !synthetic[i] && access(model, F_OK) != 0)
            return b1i_fail(err, B1_MODEL, "\"%s\" is no file that is there, and no built-in shape", model);
    }
    for (size_t i = 0; i < o->stacks.count; i++)
        if (!*o->stacks.items[i]) return b1i_fail(err, B1_ARGUMENT, "--stack is empty: expected a command");
    return B1_OK;
}

/* A stack may have formats of its own; beside one they are no mistake. */
static b1_status check_weights(const study_options *o, const bool *synthetic, const char *const *weights, b1_error *err)
{
    const char *shape = NULL;
    bool as_is = false, bf16 = false;
    for (size_t i = 0; i < o->models.count && !shape; i++)
        if (synthetic[i]) shape = o->models.items[i];
    for (size_t i = 0; i < o->weights.count; i++) {
        b1_error why = {0};
        b1_status st = o->stacks.count ? B1_OK : b1i_setting_format(weights[i], &why);
        if (st == B1_OK && !o->stacks.count && weights[i] && !shape)
            return b1i_fail(err, B1_ARGUMENT, "--weights %s is for built-in shapes; a model's file has its own format",
                            weights[i]);
        if (st != B1_OK) return b1i_fail(err, st, "--weights: %s, or as-is", why.message);
        as_is = as_is || !weights[i];
        bf16 = bf16 || (weights[i] && strcmp(weights[i], "bf16") == 0);
    }
    if (shape && as_is && bf16)
        return b1i_fail(err, B1_ARGUMENT, "--weights: of the shape %s as-is and bf16 are the same: name one", shape);
    return B1_OK;
}

static b1_status plan_matrix(study *s, bool here, b1_error *err)
{
    static const int64_t contexts[] = {2048, 4096, 8192, 16384}, batches[] = {1};
    study_options *o = s->o;
    b1_status st;
    b1i_executors executors = {.count = 0};
    bool *synthetic = b1i_calloc(o->models.count + 1, sizeof *synthetic);
    const char **weights = b1i_calloc(o->weights.count + 1, sizeof *weights);
    if (!synthetic || !weights) B1I_TRY(b1i_fail_memory(err, o->models.count));
    for (size_t i = 0; i < o->models.count; i++) synthetic[i] = o->synthetic || b1i_means_shape(o->models.items[i]);
    for (size_t i = 0; i < o->weights.count; i++)
        weights[i] = strcmp(o->weights.items[i], "as-is") == 0 ? NULL : o->weights.items[i];
    B1I_TRY(check_models(o, synthetic, here, err));
    B1I_TRY(check_weights(o, synthetic, weights, err));
    B1I_TRY(default_numbers(&o->contexts, contexts, 4, err));
    B1I_TRY(default_numbers(&o->batches, batches, 1, err));
    if (o->executors.count || !o->stacks.count)
        B1I_TRY(b1i_executors_of(&s->parts.run.device, o->executors.items, o->executors.count, &executors, err));
    const b1i_study_matrix matrix = {.models = o->models.items,
                                     .synthetic = synthetic,
                                     .model_count = o->models.count,
                                     .weights = weights,
                                     .weight_count = o->weights.count,
                                     .contexts = o->contexts.items,
                                     .batches = o->batches.items,
                                     .context_count = o->contexts.count,
                                     .batch_count = o->batches.count,
                                     .executors = executors.names,
                                     .stacks = o->stacks.items,
                                     .executor_count = executors.count,
                                     .stack_count = o->stacks.count,
                                     .threads = (int)o->threads,
                                     .sessions = o->sessions ? (int)o->sessions : SESSIONS_USUAL,
                                     .warmup = o->warmup >= 0 ? (int)o->warmup : B1I_WARMUP_USUAL,
                                     .steps = o->steps ? (int)o->steps : B1I_STEPS_USUAL,
                                     .profile = o->profile,
                                     .deadline_ms = o->deadline_ms};
    B1I_TRY(b1i_study_plan(&matrix, &s->parts.run, err));
fail:
    b1i_free(synthetic);
    b1i_free(weights);
    return st;
}

static b1_status make_plan(study *s, bool only_plan, b1_error *err)
{
    b1_status st;
    if (s->o->resume && !s->o->models.count && !s->o->plan) return B1_OK; /* the one that is there */
    B1I_TRY(choose_device(s, only_plan, err));
    st = s->o->plan ? b1i_study_plan_file(s->o->plan, &s->parts.run, err) : plan_matrix(s, !only_plan, err);
fail:
    return st;
}

static b1_status print_id(void *user, const char *id, const b1i_setting *setting, bool done, b1_error *err)
{
    (void)user;
    (void)setting;
    (void)done;
    (void)err;
    puts(id);
    return B1_OK;
}

static b1_status count_id(void *user, const char *id, const b1i_setting *setting, bool done, b1_error *err)
{
    (void)id;
    (void)setting;
    (void)done;
    (void)err;
    ++*(int *)user;
    return B1_OK;
}

/* ---- the commands ---- */

static int ended(study *s, b1_status st, const b1_error *err) { return b1i_parts_end(&s->parts, st, err); }
static int usage(const study *s, const char *what, const char *hint) { return b1i_parts_usage(&s->parts, what, hint); }

/* Whether the options say a plan for `verb` ("plan", "" for all parts); else *code is the exit code. */
static bool plan_is_said(study *s, const char *verb, unsigned more, int *code)
{
    study_options *o = s->o;
    const unsigned from = o->plan ? GIVEN : o->models.count || !o->resume ? MATRIX : THERE;
    char what[64];
    (void)snprintf(what, sizeof what, "%s%s%s", verb, *verb && from != MATRIX ? " " : "",
                   from == GIVEN   ? "--plan FILE"
                   : from == THERE ? "--resume without --models"
                                   : "");
    *code = B1I_EXIT_USAGE;
    if (stray(s, from | more, what)) return false;
    if (!o->out)
        *code = usage(s, "--out DIR is missing: the directory to make",
                      *verb ? "or --list DIR prints the ids there" : NULL);
    else if (from == MATRIX && !o->models.count)
        *code = usage(s, "--models is missing", "or --plan FILE says the cells");
    else
        return true;
    return false;
}

static int plan(study *s)
{
    b1_error err = {0};
    int code, cells = 0;
    if (s->o->list && stray(s, LIST, "plan --list DIR")) return B1I_EXIT_USAGE;
    if (s->o->list) return ended(s, b1i_study_each(s->o->list, print_id, NULL, &err), &err);
    if (!plan_is_said(s, "plan", 0, &code)) return code;
    b1_status st = make_plan(s, true, &err);
    if (st == B1_OK) st = b1i_study_each(s->o->out, count_id, &cells, &err);
    if (st == B1_OK) b1i_parts_planned(&s->parts, "cell", cells);
    return ended(s, st, &err);
}

static int run_cell(study *s)
{
    b1_error err = {0};
    if (stray(s, RUN, "run")) return B1I_EXIT_USAGE;
    if (!s->o->cell || !s->o->out) return usage(s, "run needs --cell ID and --out DIR", NULL);
    int code = ended(s, b1i_study_run_cell(&s->parts.run, s->o->cell, &err), &err);
    if (code == B1I_EXIT_OK) b1i_parts_measured(&s->parts, s->o->cell);
    return code;
}

static b1_status collect_into(study *s, bool *holds, b1_error *err)
{
    *holds = false;
    return b1i_study_collect(&s->parts.run, b1i_parts_line, &s->parts, holds, err);
}

static int collect(study *s, const char *directory)
{
    b1_error err = {0};
    bool holds;
    if (stray(s, COLLECT, "collect")) return B1I_EXIT_USAGE;
    if (!b1i_parts_turn_to(&s->parts, directory)) return B1I_EXIT_USAGE;
    b1_status st = collect_into(s, &holds, &err);
    if (st == B1_OK && holds) st = print_result(s, &err);
    int code = ended(s, st, &err);
    if (code == B1I_EXIT_OK && !holds) {
        b1i_print_error("study: %s does not hold: nothing was merged", directory);
        code = B1I_EXIT_FAILED;
    }
    return code;
}

/* The lines of a file that say something. */
static b1_status read_hosts(const char *path, char **storage, b1i_texts *hosts, b1_error *err)
{
    size_t bytes;
    char *rest;
    b1_status st = b1i_read_file(path, HOSTS_MOST_BYTES, storage, &bytes, err);
    if (st != B1_OK) return st;
    for (char *line = strtok_r(*storage, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        line += strspn(line, " \t");
        line[strcspn(line, " \t")] = 0;
        if (!*line || *line == '#') continue;
        if (!b1i_grow(&hosts->items, &hosts->room, hosts->count + 1, sizeof *hosts->items))
            return b1i_fail_memory(err, bytes);
        hosts->items[hosts->count++] = line;
    }
    return B1_OK;
}

static int emit(study *s, const char *kind, const char *directory)
{
    b1_error err = {0};
    b1i_texts hosts = {0};
    char *storage = NULL;
    b1_status st = B1_OK;
    if (stray(s, EMIT, "emit")) return B1I_EXIT_USAGE;
    if (s->o->hosts) st = read_hosts(s->o->hosts, &storage, &hosts, &err);
    if (st == B1_OK) st = b1i_fleet_emit(kind, directory, s->parts.executable, hosts.items, hosts.count, stdout, &err);
    b1i_free(hosts.items);
    b1i_free(storage);
    return ended(s, st, &err);
}

static int all(study *s)
{
    b1_error err = {0};
    b1_status st;
    bool holds = true;
    int code;
    if (!plan_is_said(s, "", SEAL, &code)) return code;
    B1I_TRY(make_plan(s, false, &err));
    B1I_TRY(b1i_study_run_all(&s->parts.run, &err));
    B1I_TRY(collect_into(s, &holds, &err));
    if (holds) B1I_TRY(print_result(s, &err));
fail:
    code = ended(s, st, &err);
    if (st == B1_CANCELLED) b1i_print_hint("the same command with --resume goes on with it");
    if (code != B1I_EXIT_OK || holds) return code;
    b1i_print_error("study: %s does not hold", s->parts.run.out);
    return B1I_EXIT_FAILED;
}

static int dispatch(study *s, const char *const *words, int count)
{
    const char *verb = count ? words[0] : "";
    if (!count) return all(s);
    if (strcmp(verb, "plan") == 0 && count == 1) return plan(s);
    if (strcmp(verb, "run") == 0 && count == 1) return run_cell(s);
    if (strcmp(verb, "collect") == 0 && count == 2) return collect(s, words[1]);
    if (strcmp(verb, "emit") == 0 && count == 3) return emit(s, words[1], words[2]);
    return usage(s, "there is plan, run, collect DIR, emit KIND DIR, or no word at all",
                 "\"batchone study --help\" lists what there is");
}

static int run(const b1i_command *self, char **arguments)
{
    study_options o = {.warmup = -1};
    study s = {.o = &o};
    const char *words[OPERANDS_MOST] = {NULL};
    int count, code = b1i_options_parse(self, arguments, &o, words, 0, OPERANDS_MOST, &count);
    if (code == B1I_PARSED) {
        b1i_parts_begin(&s.parts, self->name, o.out, o.resume);
        code = dispatch(&s, words, count);
    }
    b1i_options_free(self, &o);
    return code;
}

const b1i_command b1i_command_study = {
    .name = "study",
    .operands = "[plan|run|collect DIR|emit KIND DIR]",
    .summary = "Measures a matrix of models, executors and contexts, each cell in a fresh process.",
    .notes =
        "study --models M --out DIR plans, measures and seals. The parts by themselves, for cells that run elsewhere:\n"
        "study plan --out DIR, study plan --list DIR, study run --cell ID --out DIR, study collect DIR, and\n"
        "study emit slurm|parallel|ssh DIR, which prints the script that runs them. A cell that fails is kept with\n"
        "the reason. --stack starts a program that reads a cell as a line of JSON and answers with a line a step.",
    .options = options,
    .run = run,
};
