/* SPDX-License-Identifier: MIT
 *
 * Two studies beside each other. See compare.h.
 */
#include "lab/compare.h"

#include "lab/bootstrap.h"
#include "lab/evidence.h"
#include "lab/files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEED = 1, OLD = 0, NEW = 1 };

static b1_status no_memory(b1_error *err) { return b1i_fail(err, B1_MEMORY, "not enough memory to compare"); }

/* ---- cells ---- */

static const char *const MATCHED[] = {"model",   "architecture", "weights",    "executor",
                                      "context", "batch",        "device_name"};
static const char *const REPORTED[] = {"threads", "stack_version"}; /* what makes a rig of its own within a study */
enum { MATCHED_COUNT = sizeof MATCHED / sizeof *MATCHED, REPORTED_COUNT = sizeof REPORTED / sizeof *REPORTED };

static bool same(const json_t *a, const json_t *b, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i]))) return false;
    return true;
}

static bool matches(const json_t *a, const json_t *b) { return same(a, b, MATCHED, MATCHED_COUNT); }

static json_t *value_of(const json_t *cell, const char *key)
{
    json_t *value = json_object_get(cell, key);
    return value ? json_incref(value) : json_null();
}

static double figure(const json_t *cell, const char *key)
{
    const char *status = json_string_value(json_object_get(cell, "status"));
    double x = json_number_value(json_object_get(cell, key));
    return status && strcmp(status, "ok") == 0 && x > 0 ? x : NAN;
}

/* ---- a group ---- */

typedef struct side {
    const json_t *cells;     /* of its analysis */
    double *values;          /* [cells]: room for logarithms of one figure */
    size_t count;            /* of them */
    const json_t *any;       /* a cell of the group, one with figures where there is one */
    bool mixed;              /* cells with figures are of several rigs */
    int drifting, throttled; /* of them; they count like the others */
} side;

/* The logarithms of a figure of the group's cells, and which rig they are of. */
static void gather(side *s, const json_t *like, const char *key)
{
    bool measured = false;
    s->count = 0;
    s->any = NULL;
    s->mixed = false;
    s->drifting = s->throttled = 0;
    for (size_t i = 0; i < json_array_size(s->cells); i++) {
        const json_t *cell = json_array_get(s->cells, i);
        if (!matches(cell, like)) continue;
        double x = figure(cell, key);
        if (!s->any) s->any = cell;
        if (isnan(x)) continue;
        if (!measured) s->any = cell;
        s->mixed = s->mixed || !same(cell, s->any, REPORTED, REPORTED_COUNT);
        measured = true;
        s->drifting += strcmp(b1i_lab_text_at(cell, "verdict"), "drifting") == 0;
        s->throttled += strcmp(b1i_lab_text_at(cell, "verdict"), "throttled") == 0;
        s->values[s->count++] = log(x);
    }
}

static double center(const side *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) sum += s->values[i];
    return exp(sum / (double)s->count); /* NaN of none */
}

/* new / old of one figure, with its interval; all NaN where a side has none. */
static b1_status ratio_of(side sides[2], const json_t *like, const char *key, b1i_interval *out, double centers[2],
                          b1_error *err)
{
    for (int i = 0; i < 2; i++) {
        gather(&sides[i], like, key);
        centers[i] = center(&sides[i]);
    }
    *out = (b1i_interval){NAN, NAN, NAN};
    if (!sides[OLD].count || !sides[NEW].count) return B1_OK;
    b1_status st = b1i_bootstrap_t_difference(sides[OLD].values, sides[OLD].count, sides[NEW].values, sides[NEW].count,
                                              B1I_COMPARE_RESAMPLES, SEED, out, err);
    *out = (b1i_interval){exp(out->value), exp(out->low), exp(out->high)};
    return st;
}

/* Wholly within 5 % either way. */
static bool within(const b1i_interval *i) { return i->low >= 1 / B1I_COMPARE_LIMIT && i->high <= B1I_COMPARE_LIMIT; }

static const char *verdict_of(const side sides[2], const b1i_interval *time, const b1i_interval *ceiling, char *message,
                              size_t bytes)
{
    const double limit = B1I_COMPARE_LIMIT;
    static const char *const names[] = {"old", "new"};
    for (int i = 0; i < 2; i++) {
        if (sides[i].count) continue;
        const char *why = json_string_value(json_object_get(sides[i].any, "message"));
        snprintf(message, bytes, "the %s study has no figures of it%s%.300s", names[i], why ? ": " : "",
                 why ? why : "");
        return "not measured";
    }
    for (int i = 0; i < 2; i++) {
        if (!sides[i].mixed) continue;
        snprintf(message, bytes, "the %s study has it with several numbers of threads or versions of a stack",
                 names[i]);
        return "undecided";
    }
    if (sides[OLD].count < B1I_COMPARE_SESSIONS || sides[NEW].count < B1I_COMPARE_SESSIONS) {
        snprintf(message, bytes, "%zu and %zu sessions are too few: at least %d are needed", sides[OLD].count,
                 sides[NEW].count, B1I_COMPARE_SESSIONS);
        return "undecided";
    }
    if (time->low > limit && ceiling->high < 1 / limit) return "regression";
    if (time->high < 1 / limit && ceiling->low > limit) return "faster";
    if (within(time) && within(ceiling)) return "same";
    if (time->low > limit)
        snprintf(message, bytes,
                 "slower by time, not by R_ceiling: the memory was slower too, or the sessions scatter");
    else
        snprintf(message, bytes, "the sessions scatter too much to tell 5 %%");
    return "undecided";
}

static json_t *pair(json_t *a, json_t *b) { return json_pack("[o,o]", a, b); }

static json_t *interval_json(const b1i_interval *i) { return pair(b1i_lab_number(i->low), b1i_lab_number(i->high)); }

/* The keys that are matched. */
static json_t *keys_of(const json_t *cell)
{
    json_t *out = json_object();
    for (size_t i = 0; out && i < MATCHED_COUNT; i++)
        if (json_object_set_new(out, MATCHED[i], value_of(cell, MATCHED[i])) != 0) {
            json_decref(out);
            return NULL;
        }
    return out;
}

static b1_status add_group(side sides[2], const json_t *like, json_t *groups, int *regressions, b1_error *err)
{
    b1i_interval time, ceiling;
    double times[2], ceilings[2];
    char message[500] = "";
    b1_status st;
    json_t *out = keys_of(like), *figures;
    if (!out) return no_memory(err);
    B1I_TRY(ratio_of(sides, like, "r_ceiling", &ceiling, ceilings, err));
    B1I_TRY(ratio_of(sides, like, "t_obs_ms", &time, times, err));
    const char *verdict = verdict_of(sides, &time, &ceiling, message, sizeof message);
    figures = json_pack("{s:o,s:o,s:[i,i],s:[i,i],s:[i,i],s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o}", "threads",
                        pair(value_of(sides[OLD].any, "threads"), value_of(sides[NEW].any, "threads")), "stack_version",
                        pair(value_of(sides[OLD].any, "stack_version"), value_of(sides[NEW].any, "stack_version")),
                        "sessions", (int)sides[OLD].count, (int)sides[NEW].count, "drifting", sides[OLD].drifting,
                        sides[NEW].drifting, "throttled", sides[OLD].throttled, sides[NEW].throttled, "t_obs_ms",
                        pair(b1i_lab_number(times[0]), b1i_lab_number(times[1])), "time_ratio",
                        b1i_lab_number(time.value), "time_interval", interval_json(&time), "r_ceiling",
                        pair(b1i_lab_number(ceilings[0]), b1i_lab_number(ceilings[1])), "ceiling_ratio",
                        b1i_lab_number(ceiling.value), "ceiling_interval", interval_json(&ceiling), "verdict", verdict,
                        "message", b1i_lab_text(message));
    if (json_object_update(out, figures) != 0 || json_array_append(groups, out) != 0) st = no_memory(err);
    json_decref(figures);
    *regressions += strcmp(verdict, "regression") == 0;
fail:
    json_decref(out);
    return st;
}

/* ---- all ---- */

/* The first of `cells` that is of the same group as number `at`, which may be it. */
static bool is_first(const json_t *cells, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (matches(json_array_get(cells, i), json_array_get(cells, at))) return false;
    return true;
}

static bool has(const json_t *cells, const json_t *like)
{
    for (size_t i = 0; i < json_array_size(cells); i++)
        if (matches(json_array_get(cells, i), like)) return true;
    return false;
}

/* Groups of `mine` that the others lack. */
static json_t *unmatched(const json_t *mine, const json_t *others)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(mine); i++) {
        const json_t *cell = json_array_get(mine, i);
        if (is_first(mine, i) && !has(others, cell) && json_array_append_new(list, keys_of(cell)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

b1_status b1i_compare_analyses(const json_t *old_analysis, const json_t *new_analysis, json_t **out, b1_error *err)
{
    b1_status st = B1_OK;
    side sides[2] = {{.cells = json_object_get(old_analysis, "cells")},
                     {.cells = json_object_get(new_analysis, "cells")}};
    json_t *groups = json_array();
    int regressions = 0;
    *out = NULL;
    for (int i = 0; i < 2; i++)
        if (!(sides[i].values = b1i_malloc((json_array_size(sides[i].cells) + 1) * sizeof *sides[i].values)) ||
            !groups) {
            st = no_memory(err);
            goto fail;
        }
    for (size_t i = 0; i < json_array_size(sides[NEW].cells); i++) {
        const json_t *cell = json_array_get(sides[NEW].cells, i);
        if (is_first(sides[NEW].cells, i) && has(sides[OLD].cells, cell))
            B1I_TRY(add_group(sides, cell, groups, &regressions, err));
    }
    *out = json_pack("{s:s,s:f,s:i,s:i,s:O,s:{s:o,s:o},s:i}", "schema", "batchone.compare/1", "limit",
                     B1I_COMPARE_LIMIT, "resamples", B1I_COMPARE_RESAMPLES, "seed", SEED, "groups", groups, "unmatched",
                     "old", unmatched(sides[OLD].cells, sides[NEW].cells), "new",
                     unmatched(sides[NEW].cells, sides[OLD].cells), "regressions", regressions);
    if (!*out) st = no_memory(err);
fail:
    json_decref(groups);
    b1i_free(sides[0].values);
    b1i_free(sides[1].values);
    return st;
}

/* ---- directories ---- */

typedef struct first_line {
    char text[400];
} first_line;

static void keep_first(void *user, const char *line)
{
    first_line *f = user;
    if (!f->text[0]) snprintf(f->text, sizeof f->text, "%s", line);
}

/* The analysis of a study that verifies, and what is said of it. */
static b1_status read_study(const char *directory, json_t **analysis, json_t **about, b1_error *err)
{
    first_line why = {""};
    b1_error reason = {0};
    json_t *plan = NULL;
    bool holds;
    *analysis = *about = NULL;
    b1_status st = b1i_evidence_verify(directory, keep_first, &why, &holds, &reason);
    if (st != B1_OK) return b1i_fail(err, st == B1_IO ? B1_ARGUMENT : st, "%s", reason.message);
    if (!holds) return b1i_fail(err, B1_ARGUMENT, "%s does not verify: %s", directory, why.text);
    B1I_TRY(b1i_lab_read_json(directory, "analysis.json", analysis, err));
    B1I_TRY(b1i_lab_read_json(directory, "plan.json", &plan, err));
    const char *schema = json_string_value(json_object_get(*analysis, "schema"));
    if (!schema || strcmp(schema, "batchone.study-analysis/1") != 0) {
        st = b1i_fail(err, B1_ARGUMENT, "%s is no study", directory);
        goto fail;
    }
    json_t *name = json_string(directory); /* NULL: no UTF-8 */
    *about =
        json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "directory", name ? name : json_null(), "run", value_of(plan, "run"),
                  "device", value_of(plan, "device"), "device_name", value_of(plan, "device_name"), "binary_sha256",
                  value_of(plan, "binary_sha256"), "version", value_of(plan, "version"));
    if (!*about) st = no_memory(err);
fail:
    json_decref(plan);
    return st;
}

b1_status b1i_compare(const char *old_directory, const char *new_directory, json_t **out, b1_error *err)
{
    json_t *analyses[2] = {NULL, NULL}, *about[2] = {NULL, NULL}, *made = NULL;
    b1_status st;
    *out = NULL;
    B1I_TRY(read_study(old_directory, &analyses[OLD], &about[OLD], err));
    B1I_TRY(read_study(new_directory, &analyses[NEW], &about[NEW], err));
    B1I_TRY(b1i_compare_analyses(analyses[OLD], analyses[NEW], &made, err));
    if (json_object_set(made, "old", about[OLD]) != 0 || json_object_set(made, "new", about[NEW]) != 0)
        st = no_memory(err);
    else
        *out = json_incref(made);
fail:
    for (int i = 0; i < 2; i++) {
        json_decref(analyses[i]);
        json_decref(about[i]);
    }
    json_decref(made);
    return st;
}
