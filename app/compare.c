/* SPDX-License-Identifier: MIT
 *
 * batchone compare: whether a new study has cells that are slower than those of an old one; its exit code is for CI.
 */
#include "lab/compare.h"
#include "lab/files.h"

#include "app/app.h"
#include "app/output.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct compare_options {
    bool json;
} compare_options;

#define AT(field) offsetof(compare_options, field)
static const b1i_option options[] = {
    {"json", 0, b1i_option_flag, AT(json), NULL, "print one JSON document", 0, 0, NULL},
    {0},
};

static double number(const json_t *value) { return json_is_number(value) ? json_number_value(value) : NAN; }
static double item(const json_t *j, const char *key, size_t at)
{
    return number(json_array_get(json_object_get(j, key), at));
}

/* "1.234 [1.200, 1.270]", or as much of it as is known. */
static const char *ratio(const json_t *j, const char *key, const char *interval, char *to, size_t bytes)
{
    double value = number(json_object_get(j, key));
    if (!isfinite(value))
        snprintf(to, bytes, "-");
    else if (!isfinite(item(j, interval, 0)))
        snprintf(to, bytes, "%.3f", value);
    else
        snprintf(to, bytes, "%.3f [%.3f, %.3f]", value, item(j, interval, 0), item(j, interval, 1));
    return to;
}

static const char *milliseconds(double ms, char *to, size_t bytes)
{
    snprintf(to, bytes, isfinite(ms) ? "%.3f" : "-", ms);
    return to;
}

/* "    drifting: 2 of 6 and 0 of 6 sessions", where there is one. */
static void print_unsteady(const json_t *g, const char *key)
{
    if (!(item(g, key, 0) + item(g, key, 1) > 0)) return;
    printf("    %s: %.0f of %.0f and %.0f of %.0f sessions\n", key, item(g, key, 0), item(g, "sessions", 0),
           item(g, key, 1), item(g, "sessions", 1));
}

/* Of the names of models and executors. */
typedef struct widths {
    int model, executor;
} widths;

static void print_group(const json_t *g, const widths *w)
{
    char time[64], ceiling[64], before_ms[24], now_ms[24];
    printf("%-*s %-8s %-*s %7.0f %5.0f %9s %9s  %-24s %-24s %s%s%s\n", w->model, b1i_lab_text_at(g, "model"),
           b1i_lab_text_at(g, "weights"), w->executor, b1i_lab_text_at(g, "executor"),
           number(json_object_get(g, "context")), number(json_object_get(g, "batch")),
           milliseconds(item(g, "t_obs_ms", 0), before_ms, sizeof before_ms),
           milliseconds(item(g, "t_obs_ms", 1), now_ms, sizeof now_ms),
           ratio(g, "time_ratio", "time_interval", time, sizeof time),
           ratio(g, "ceiling_ratio", "ceiling_interval", ceiling, sizeof ceiling), b1i_lab_text_at(g, "verdict"),
           *b1i_lab_text_at(g, "message") ? ": " : "", b1i_lab_text_at(g, "message"));
    print_unsteady(g, "drifting");
    print_unsteady(g, "throttled");
    if (item(g, "threads", 0) != item(g, "threads", 1))
        printf("    threads: %.0f and %.0f\n", item(g, "threads", 0), item(g, "threads", 1));
    const json_t *versions = json_object_get(g, "stack_version");
    const json_t *before = json_array_get(versions, 0), *now = json_array_get(versions, 1);
    if (!json_equal(before, now))
        printf("    stack: %s and %s\n", json_is_string(before) ? json_string_value(before) : "-",
               json_is_string(now) ? json_string_value(now) : "-");
}

static void print_unmatched(const json_t *document, const char *side, const widths *w)
{
    const json_t *list = json_object_get(json_object_get(document, "unmatched"), side);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *g = json_array_get(list, i);
        printf("%-*s %-8s %-*s %7.0f %5.0f is in the %s study alone (%s)\n", w->model, b1i_lab_text_at(g, "model"),
               b1i_lab_text_at(g, "weights"), w->executor, b1i_lab_text_at(g, "executor"),
               number(json_object_get(g, "context")), number(json_object_get(g, "batch")), side,
               b1i_lab_text_at(g, "device_name"));
    }
}

/* "4 compared: 1 regression, …": how many groups have each verdict, and how many have no counterpart. */
static void print_summary(const json_t *document)
{
    static const struct {
        const char *verdict, *one, *many;
    } kinds[] = {{"regression", "regression", "regressions"},
                 {"faster", "faster", "faster"},
                 {"same", "same", "same"},
                 {"undecided", "undecided", "undecided"},
                 {"not measured", "not measured", "not measured"}};
    const json_t *groups = json_object_get(document, "groups"), *alone = json_object_get(document, "unmatched");
    printf("%zu compared", json_array_size(groups));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t count = 0;
        for (size_t k = 0; k < json_array_size(groups); k++)
            count += strcmp(b1i_lab_text_at(json_array_get(groups, k), "verdict"), kinds[i].verdict) == 0;
        if (!count && i == sizeof kinds / sizeof *kinds - 1) continue;
        printf("%s %zu %s", i ? "," : ":", count, count == 1 ? kinds[i].one : kinds[i].many);
    }
    printf("; %zu only in the old, %zu only in the new\n", json_array_size(json_object_get(alone, "old")),
           json_array_size(json_object_get(alone, "new")));
}

static void print_table(const json_t *document)
{
    const json_t *groups = json_object_get(document, "groups"), *before = json_object_get(document, "old"),
                 *now = json_object_get(document, "new");
    const widths w = {b1i_column_width(groups, "model", 12), b1i_column_width(groups, "executor", 15)};
    printf("old: %s (%s, %.12s)\nnew: %s (%s, %.12s)\n", b1i_lab_text_at(before, "directory"),
           b1i_lab_text_at(before, "version"), b1i_lab_text_at(before, "binary_sha256"),
           b1i_lab_text_at(now, "directory"), b1i_lab_text_at(now, "version"), b1i_lab_text_at(now, "binary_sha256"));
    puts("milliseconds are geometric means over sessions, where the table of a study has medians");
    printf("%-*s %-8s %-*s %7s %5s %9s %9s  %-24s %-24s %s\n", w.model, "model", "weights", w.executor, "executor",
           "context", "batch", "old ms", "new ms", "time, new / old", "R_ceiling, new / old", "verdict");
    for (size_t i = 0; i < json_array_size(groups); i++) print_group(json_array_get(groups, i), &w);
    print_unmatched(document, "old", &w);
    print_unmatched(document, "new", &w);
    print_summary(document);
}

static int run(const b1i_command *self, char **arguments)
{
    compare_options o = {0};
    const char *directories[2];
    b1_error err = {0};
    json_t *document = NULL;
    int count, code = b1i_options_parse(self, arguments, &o, directories, 2, 2, &count);
    if (code != B1I_PARSED) return code;
    b1_status st = b1i_compare(directories[0], directories[1], &document, &err);
    if (st != B1_OK) return b1i_report(&err);
    const int regressions = (int)json_integer_value(json_object_get(document, "regressions"));
    const bool none = json_array_size(json_object_get(document, "groups")) == 0;
    if (o.json) {
        st = b1i_json_write(document, stdout, &err);
    } else {
        print_table(document);
        json_decref(document);
    }
    if (st != B1_OK) return b1i_report(&err);
    if (none)
        b1i_print_error("compare: no cell of %s is in %s too: nothing was compared", directories[1], directories[0]);
    if (!regressions) return none ? B1I_EXIT_FAILED : B1I_EXIT_OK;
    b1i_print_error("compare: %d cell%s over 5 %% slower, by time and by R_ceiling", regressions,
                    regressions == 1 ? " is" : "s are");
    return B1I_EXIT_FAILED;
}

const b1i_command b1i_command_compare = {
    .name = "compare",
    .operands = "OLD NEW",
    .summary = "Compares two studies: exit code 1 where a cell became slower, or none is in both.",
    .notes =
        "A cell is a regression where the 95 % intervals of new over old, over sessions, lie wholly beyond 5 % worse,\n"
        "that of time and that of R_ceiling. With fewer than five sessions it is undecided, and no failure. Sessions\n"
        "that drift or were throttled count like the others; the line below a row says how many.",
    .options = options,
    .run = run,
};
