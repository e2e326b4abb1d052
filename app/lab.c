/* SPDX-License-Identifier: MIT
 *
 * batchone lab: runs an experiment and leaves a directory of evidence; a table of what it found goes to stdout.
 */
#include "lab/lab.h"

#include "app/app.h"
#include "app/output.h"
#include "lab/analysis.h"
#include "lab/files.h"
#include "lab/profile.h"

#include <stdio.h>
#include <string.h>

enum { NAME_WIDTH = 31 }; /* with "throttled, host" a row has 80 columns */

typedef struct lab_options {
    const char *out, *device, *profile_cell;
    bool quick, resume, ncu, json;
    int64_t rounds, threads;
} lab_options;

#define AT(field) offsetof(lab_options, field)
static const b1i_option options[] = {
    {"out", 'o', b1i_option_text, AT(out), "DIR", "the directory to make (needed)", 0, 0, NULL},
    {"device", 0, b1i_option_device, AT(device), "NAME", "cpu, cuda, cuda:N or auto (auto)", 0, 0, b1i_device_word},
    {"quick", 0, b1i_option_flag, AT(quick), NULL, "small sizes, for a look", 0, 0, NULL},
    {"resume", 0, b1i_option_flag, AT(resume), NULL, "go on with an incomplete run in DIR", 0, 0, NULL},
    {"rounds", 0, b1i_option_integer, AT(rounds), "N", "rounds to measure, 21 or more (21)", B1I_LAB_ROUNDS_LEAST, 1e6,
     NULL},
    {"threads", 't', b1i_option_integer, AT(threads), "N", "threads (as many as cores may be used)", 1, 4096, NULL},
    {"ncu", 0, b1i_option_flag, AT(ncu), NULL, "count bytes by Nsight Compute as well", 0, 0, NULL},
    {"profile-cell", 0, b1i_option_text, AT(profile_cell), "CELL",
     "run that cell alone, for a profiler; needs no --out", 0, 0, NULL},
    {"json", 0, b1i_option_flag, AT(json), NULL, "print the analysis as one JSON document", 0, 0, NULL},
    {0},
};

static void print_experiments(void)
{
    char list[512] = "";
    for (int i = 0; b1i_experiments[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", b1i_experiments[i]->name);
    }
    b1i_print_hint("experiments: %s", list);
}

/* ---- the table ---- */

static double number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }
/* Microseconds with about four figures. */
static const char *microseconds(double ns, char *to, size_t bytes)
{
    double us = ns / 1e3;
    snprintf(to, bytes, us < 10 ? "%.3f" : us < 100 ? "%.2f" : us < 1e4 ? "%.1f" : "%.0f", us);
    return to;
}

/* The end of a long name tells more than its beginning. */
static void print_name(const char *name)
{
    size_t length = strlen(name);
    if (length > NAME_WIDTH)
        printf("…%s", name + length - NAME_WIDTH + 1);
    else
        printf("%-*s", NAME_WIDTH, name);
}

static void print_row(const json_t *row)
{
    static const struct {
        const char *kind, *shown;
    } kinds[] = {{"host_single", "single"}, {"host_enqueue", "enqueue"}, {"device_interval", "device"}};
    const char *kind = b1i_lab_text_at(row, "kind");
    char median[24], low[24], high[24];
    for (size_t i = 0; i < 3; i++)
        if (strcmp(kinds[i].kind, kind) == 0) kind = kinds[i].shown;
    print_name(b1i_lab_text_at(row, "cell"));
    printf(" %-7s %8s %7s–%-7s %s%s\n", kind, microseconds(number(row, "median_ns"), median, sizeof median),
           microseconds(number(row, "p10_ns"), low, sizeof low), microseconds(number(row, "p90_ns"), high, sizeof high),
           b1i_lab_text_at(row, "verdict"), json_is_true(json_object_get(row, "host_bound")) ? ", host" : "");
}

/* Whether a row before this one has the same text there. */
static bool said_before(const json_t *rows, size_t at, const char *key)
{
    for (size_t i = 0; i < at; i++) {
        const json_t *row = json_array_get(rows, i);
        if (number(row, "n") == 0 &&
            strcmp(b1i_lab_text_at(row, key), b1i_lab_text_at(json_array_get(rows, at), key)) == 0)
            return true;
    }
    return false;
}

/* Cells without figures, and each reason once. */
static void print_absent(const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (number(row, "n") > 0 || said_before(rows, i, "cell")) continue;
        print_name(b1i_lab_text_at(row, "cell"));
        printf(" %s\n", b1i_lab_text_at(row, "verdict"));
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (number(row, "n") > 0 || said_before(rows, i, "message")) continue;
        printf("%s: %s\n", b1i_lab_text_at(row, "verdict"), b1i_lab_text_at(row, "message"));
    }
}

static void print_table(const json_t *analysis, const char *out)
{
    const json_t *rows = json_object_get(analysis, "cells"), *pairs = json_object_get(analysis, "a_a");
    printf("%-*s %-7s %9s %7s %-7s %s\n", NAME_WIDTH, "cell", "kind", "µs", "p10", " p90", "verdict");
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (number(json_array_get(rows, i), "n") > 0) print_row(json_array_get(rows, i));
    print_absent(rows);
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i), *interval = json_object_get(pair, "interval");
        printf("a/a %s, %s: %.3f [%.3f, %.3f]\n", b1i_lab_text_at(pair, "cell"), b1i_lab_text_at(pair, "kind"),
               number(pair, "ratio"), json_number_value(json_array_get(interval, 0)),
               json_number_value(json_array_get(interval, 1)));
    }
    printf("%s: batchone verify checks it, batchone report shows it\n", out);
}

/* ---- the command ---- */

static b1_status print_result(const lab_options *o, b1_error *err)
{
    json_t *analysis;
    b1_status st = b1i_analysis_read(o->out, &analysis, err);
    if (st != B1_OK) return st;
    if (o->json) return b1i_json_write(analysis, stdout, err);
    print_table(analysis, o->out);
    json_decref(analysis);
    return B1_OK;
}

static int run_lab(const lab_options *o, const b1i_experiment *experiment)
{
    b1_error err = {0};
    b1i_progress bar = {0};
    char path[4096];
    int failed = 0;
    b1i_lab_options l = {.out = o->out,
                         .threads = (int)o->threads,
                         .rounds = (int)o->rounds,
                         .quick = o->quick,
                         .resume = o->resume,
                         .ncu = o->ncu,
                         .executable = b1i_own_path(path, sizeof path),
                         .cancelled = b1i_cancel_asked,
                         .progress = b1i_progress_show,
                         .progress_user = &bar};
    b1_status st = b1i_device_choose(o->device, NULL, 0, &l.device, &err);
    if (st == B1_OK) st = b1i_lab_run(experiment, &l, &failed, &err);
    b1i_progress_end(&bar);
    if (st == B1_OK) st = print_result(o, &err);
    if (st != B1_OK) {
        int code = b1i_report(&err);
        if (st == B1_CANCELLED) b1i_print_hint("the same command with --resume goes on with it");
        return code;
    }
    if (!failed) return B1I_EXIT_OK;
    b1i_print_error("lab: %d cell%s failed", failed, failed == 1 ? "" : "s");
    return B1I_EXIT_FAILED;
}

/* What Nsight Compute starts, or anybody with another profiler. */
static int profile_cell(const lab_options *o, const b1i_experiment *experiment)
{
    b1_error err = {0};
    b1i_lab_options l = {.threads = (int)o->threads, .quick = o->quick};
    b1_status st = b1i_device_choose(o->device, NULL, 0, &l.device, &err);
    if (st == B1_OK) st = b1i_profile_cell(experiment, &l, o->profile_cell, &err);
    return st == B1_OK ? B1I_EXIT_OK : b1i_report(&err);
}

static int run(const b1i_command *self, char **arguments)
{
    lab_options o = {0};
    const char *name;
    int count, code = b1i_options_parse(self, arguments, &o, &name, 1, 1, &count);
    if (code != B1I_PARSED) return code;
    const b1i_experiment *experiment = b1i_experiment_find(name);
    if (!experiment) {
        b1i_print_error("lab: there is no experiment \"%s\"", name);
        print_experiments();
        return B1I_EXIT_USAGE;
    }
    if (o.profile_cell) return profile_cell(&o, experiment);
    if (!o.out || !*o.out) {
        b1i_print_error("lab: --out DIR is missing: the directory to make");
        return B1I_EXIT_USAGE;
    }
    return run_lab(&o, experiment);
}

const b1i_command b1i_command_lab = {
    .name = "lab",
    .operands = "EXPERIMENT",
    .summary = "Runs an experiment and leaves a directory that anybody can check.",
    .notes =
        "Experiments: pointwise, rms-softmax, tiles, launch, ceiling, attention. Each cell is measured in shuffled\n"
        "rounds; host single, host enqueue and device interval are three latencies, in microseconds here; \"host\"\n"
        "marks a device interval that is the host's. DIR must not exist; Ctrl-C leaves it incomplete, and --resume\n"
        "goes on with it.",
    .options = options,
    .run = run,
};
