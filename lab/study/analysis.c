/* SPDX-License-Identifier: MIT
 *
 * The analysis of a study: what follows from its plan and its cells, and from nothing else. See study.h.
 */
#include "lab/files.h"
#include "lab/stats.h"
#include "lab/study/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the cells ---- */

/* Keys of cell.json that stand in the analysis as they are; bytes are those of a step. */
static const char *const KEYS[] = {
    "id",           "model",     "architecture",    "device_name",  "device_uuid",  "executor",   "weights",
    "context",      "threads",   "batch",           "session",      "status",       "verdict",    "message",
    "t_obs_ms",     "p10_ms",    "p90_ms",          "p99_ms",       "cv",           "t_floor_ms", "r_floor",
    "ceiling_gbps", "r_ceiling", "t_arithmetic_ms", "weight_bytes", "stored_bytes", "kv_bytes",   "modes"};

static json_t *bytes_of(const json_t *cell)
{
    const json_t *w = json_object_get(cell, "weight_bytes"), *k = json_object_get(cell, "kv_bytes");
    const json_int_t weights = json_integer_value(w), kv = json_integer_value(k);
    if (!json_is_integer(w) || !json_is_integer(k) || weights < 0 || kv < 0 || weights > INT64_MAX - kv)
        return json_null();
    return json_integer(weights + kv);
}

/* What the analysis keeps of a cell; NULL: no memory. */
static json_t *row_of(const json_t *cell)
{
    json_t *row = json_object();
    bool good = row != NULL;
    for (size_t i = 0; good && i < sizeof KEYS / sizeof *KEYS; i++) {
        json_t *value = json_object_get(cell, KEYS[i]);
        good = json_object_set_new(row, KEYS[i], value ? json_incref(value) : json_null()) == 0;
    }
    /* Rigs: outside stacks that differ in version are not one. */
    json_t *source = json_object_get(cell, "source"), *version = json_object_get(source, "version");
    good = good && json_object_set_new(row, "stack_version", version ? json_incref(version) : json_null()) == 0;
    good = good && json_object_set_new(row, "bytes", bytes_of(cell)) == 0;
    if (good) return row;
    json_decref(row);
    return NULL;
}

static b1_status read_rows(const char *directory, const b1i_study_planned *plan, json_t *rows, b1_error *err)
{
    b1_status st = B1_OK;
    for (size_t i = 0; i < plan->count && st == B1_OK; i++) {
        char name[B1I_SETTING_ID + 32];
        json_t *cell;
        snprintf(name, sizeof name, "cells/%s/cell.json", plan->cells[i].id);
        st = b1i_lab_read_json(directory, name, &cell, err);
        if (st == B1_OK && json_array_append_new(rows, row_of(cell)) != 0)
            st = b1i_fail(err, B1_MEMORY, "not enough memory for the analysis");
        json_decref(cell);
    }
    return st;
}

/* ---- groups: the same setting over its sessions ---- */

static const char *const SAME[] = {"model",   "architecture", "device_name", "executor",     "weights",
                                   "context", "threads",      "batch",       "stack_version"};

bool b1i_study_same(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++)
        if (!json_equal(json_object_get(a, SAME[i]), json_object_get(b, SAME[i]))) return false;
    return true;
}

typedef struct work {
    double *values; /* [rows] */
    const json_t *rows;
    json_t *groups;
} work;

/* The figures `key` of the group's cells that have one; how many. */
static size_t figures(const work *w, const json_t *group, const char *key)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(w->rows); i++) {
        const json_t *row = json_array_get(w->rows, i);
        double x = b1i_lab_number_at(row, key);
        if (b1i_study_same(row, group) && strcmp(b1i_lab_text_at(row, "status"), "ok") == 0 && isfinite(x))
            w->values[count++] = x;
    }
    return count;
}

static json_t *median_of(const work *w, const json_t *group, const char *key)
{
    size_t n = figures(w, group, key);
    return b1i_lab_number(b1i_median(w->values, n));
}

/* Sets mean, extremes and the spread across sessions of t_obs. */
static bool spread(const work *w, json_t *group)
{
    size_t n = figures(w, group, "t_obs_ms");
    double mean = n ? 0 : NAN, sum = 0, least = n ? INFINITY : NAN, most = n ? -INFINITY : NAN;
    for (size_t i = 0; i < n; i++) mean += w->values[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        sum += (w->values[i] - mean) * (w->values[i] - mean);
        least = fmin(least, w->values[i]);
        most = fmax(most, w->values[i]);
    }
    return !json_object_set_new(group, "ok", json_integer((json_int_t)n)) &&
           !json_object_set_new(group, "mean_ms", b1i_lab_number(mean)) &&
           !json_object_set_new(group, "min_ms", b1i_lab_number(least)) &&
           !json_object_set_new(group, "max_ms", b1i_lab_number(most)) &&
           !json_object_set_new(group, "cv_across",
                                n > 1 ? b1i_lab_number(sqrt(sum / (double)(n - 1)) / mean) : json_null());
}

/* Cells of the group, and whether their figures may stand as its own: none drifts or is throttled. */
static bool count_cells(const work *w, json_t *group)
{
    size_t sessions = 0, ok = 0, bad = 0;
    for (size_t i = 0; i < json_array_size(w->rows); i++) {
        const json_t *row = json_array_get(w->rows, i);
        const char *verdict = b1i_lab_text_at(row, "verdict");
        if (!b1i_study_same(row, group)) continue;
        sessions++;
        ok += strcmp(b1i_lab_text_at(row, "status"), "ok") == 0;
        bad += strcmp(verdict, "drifting") == 0 || strcmp(verdict, "throttled") == 0;
    }
    return !json_object_set_new(group, "sessions", json_integer((json_int_t)sessions)) &&
           !json_object_set_new(group, "headline", json_boolean(ok > 0 && bad == 0));
}

static json_t *group_of(const work *w, const json_t *row)
{
    json_t *group = json_object();
    bool good = group != NULL;
    for (size_t i = 0; good && i < sizeof SAME / sizeof *SAME; i++)
        good = json_object_set(group, SAME[i], json_object_get(row, SAME[i])) == 0;
    if (good) good = count_cells(w, group) && spread(w, group);
    static const struct {
        const char *key, *from;
    } medians[] = {{"t_obs_ms", "t_obs_ms"},
                   {"r_floor", "r_floor"},
                   {"r_ceiling", "r_ceiling"},
                   {"cv_within", "cv"},
                   {"ceiling_gbps", "ceiling_gbps"},
                   {"t_floor_ms", "t_floor_ms"},
                   {"bytes", "bytes"},
                   {"weight_bytes", "weight_bytes"},
                   {"kv_bytes", "kv_bytes"},
                   {"t_arithmetic_ms", "t_arithmetic_ms"}};
    for (size_t i = 0; good && i < sizeof medians / sizeof *medians; i++)
        good = json_object_set_new(group, medians[i].key, median_of(w, group, medians[i].from)) == 0;
    double per_s = good ? b1i_lab_number_at(group, "batch") / b1i_lab_number_at(group, "t_obs_ms") * 1e3 : 0;
    if (good && json_object_set_new(group, "tokens_per_s", b1i_lab_number(per_s)) == 0) return group;
    json_decref(group);
    return NULL;
}

static b1_status make_groups(work *w, b1_error *err)
{
    for (size_t i = 0; i < json_array_size(w->rows); i++) {
        const json_t *row = json_array_get(w->rows, i);
        bool known = false;
        for (size_t k = 0; k < json_array_size(w->groups) && !known; k++)
            known = b1i_study_same(json_array_get(w->groups, k), row);
        if (!known && json_array_append_new(w->groups, group_of(w, row)) != 0)
            return b1i_fail(err, B1_MEMORY, "not enough memory for the analysis");
    }
    return B1_OK;
}

/* ---- what several groups say ---- */

/* Whether two groups differ in the key `but` alone (of weights also in nothing that follows from them). */
static bool differ_in(const json_t *a, const json_t *b, const char *but)
{
    for (size_t i = 0; i < sizeof SAME / sizeof *SAME; i++)
        if (strcmp(SAME[i], but) != 0 && !json_equal(json_object_get(a, SAME[i]), json_object_get(b, SAME[i])))
            return false;
    return true;
}

/* What a group's format is compared with: bf16, or where there is none the most bytes; NULL: itself, or none. */
static const json_t *full_format(const work *w, const json_t *group)
{
    const json_t *best = NULL;
    for (size_t i = 0; i < json_array_size(w->groups); i++) {
        const json_t *other = json_array_get(w->groups, i);
        if (!differ_in(group, other, "weights") || !isfinite(b1i_lab_number_at(other, "t_obs_ms"))) continue;
        if (!best || (strcmp(b1i_lab_text_at(best, "weights"), "bf16") != 0 &&
                      (strcmp(b1i_lab_text_at(other, "weights"), "bf16") == 0 ||
                       b1i_lab_number_at(other, "bytes") > b1i_lab_number_at(best, "bytes"))))
            best = other;
    }
    return best && strcmp(b1i_lab_text_at(best, "weights"), b1i_lab_text_at(group, "weights")) != 0 ? best : NULL;
}

/* About four bits a weight, whatever its scales take: what the paper divides by four. */
static bool four_bits(const char *weights)
{
    static const char *const beginnings[] = {"q4_", "iq4", "nf4", "awq", "gptq", "int4", "fp4", "mxfp4", "exl2"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(weights, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return false;
}

/* Whether what two groups say together is a headline: what each says is one, and of more than one session. */
static json_t *both_headline(const json_t *a, const json_t *b)
{
    return json_boolean(json_is_true(json_object_get(a, "headline")) && json_is_true(json_object_get(b, "headline")) &&
                        b1i_lab_number_at(a, "ok") > 1 && b1i_lab_number_at(b, "ok") > 1);
}

static json_t *weights_row(const json_t *group, const json_t *full)
{
    double bytes = b1i_lab_number_at(full, "bytes") / b1i_lab_number_at(group, "bytes");
    double speedup = b1i_lab_number_at(full, "t_obs_ms") / b1i_lab_number_at(group, "t_obs_ms");
    double paper = NAN;
    if (strcmp(b1i_lab_text_at(full, "weights"), "bf16") == 0 && four_bits(b1i_lab_text_at(group, "weights")))
        paper = b1i_lab_number_at(full, "bytes") /
                (b1i_lab_number_at(full, "weight_bytes") / 4 + b1i_lab_number_at(group, "kv_bytes"));
    return json_pack("{s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:o,s:o,s:o,s:o,s:o}", "model", json_object_get(group, "model"),
                     "executor", json_object_get(group, "executor"), "context", json_object_get(group, "context"),
                     "threads", json_object_get(group, "threads"), "batch", json_object_get(group, "batch"), "weights",
                     json_object_get(group, "weights"), "against", json_object_get(full, "weights"), "bytes_ratio",
                     b1i_lab_number(bytes), "paper_ratio", b1i_lab_number(paper), "speedup", b1i_lab_number(speedup),
                     "realised", b1i_lab_number(speedup / bytes), "headline", both_headline(group, full));
}

static json_t *batch_row(const json_t *group, const json_t *one)
{
    double ratio = b1i_lab_number_at(group, "t_obs_ms") / b1i_lab_number_at(one, "t_obs_ms");
    return json_pack("{s:O,s:O,s:O,s:O,s:O,s:o,s:o,s:o}", "model", json_object_get(group, "model"), "executor",
                     json_object_get(group, "executor"), "weights", json_object_get(group, "weights"), "context",
                     json_object_get(group, "context"), "batch", json_object_get(group, "batch"), "step_ratio",
                     b1i_lab_number(ratio), "throughput", b1i_lab_number(b1i_lab_number_at(group, "batch") / ratio),
                     "headline", both_headline(group, one));
}

static b1_status make_comparisons(const work *w, json_t *weights, json_t *batches, b1_error *err)
{
    for (size_t i = 0; i < json_array_size(w->groups); i++) {
        const json_t *group = json_array_get(w->groups, i);
        if (!isfinite(b1i_lab_number_at(group, "t_obs_ms"))) continue;
        const json_t *full = full_format(w, group);
        bool good = !full || json_array_append_new(weights, weights_row(group, full)) == 0;
        for (size_t k = 0; good && b1i_lab_number_at(group, "batch") > 1 && k < json_array_size(w->groups); k++) {
            const json_t *one = json_array_get(w->groups, k);
            if (b1i_lab_number_at(one, "batch") == 1 && differ_in(group, one, "batch") &&
                isfinite(b1i_lab_number_at(one, "t_obs_ms")))
                good = json_array_append_new(batches, batch_row(group, one)) == 0;
        }
        if (!good) return b1i_fail(err, B1_MEMORY, "not enough memory for the analysis");
    }
    return B1_OK;
}

b1_status b1i_study_analyse(const char *directory, const b1i_study_planned *plan, json_t **out, b1_error *err)
{
    b1_status st;
    json_t *rows = json_array(), *groups = json_array(), *weights = json_array(), *batches = json_array();
    work w = {b1i_malloc((plan->count + 1) * sizeof *w.values), rows, groups};
    *out = NULL;
    if (!rows || !groups || !weights || !batches || !w.values) {
        st = b1i_fail_memory(err, plan->count * sizeof *w.values);
        goto fail;
    }
    B1I_TRY(read_rows(directory, plan, rows, err));
    B1I_TRY(make_groups(&w, err));
    B1I_TRY(make_comparisons(&w, weights, batches, err));
    *out = json_pack("{s:s,s:s,s:s,s:s?,s:O,s:O,s:O,s:O}", "schema", "batchone.study-analysis/1", "run", plan->run,
                     "device", plan->device, "device_name", plan->device_name, "cells", rows, "groups", groups,
                     "weights", weights, "batch", batches);
    if (!*out) st = b1i_fail(err, B1_MEMORY, "not enough memory for the analysis");
fail:
    b1i_free(w.values);
    json_decref(rows);
    json_decref(groups);
    json_decref(weights);
    json_decref(batches);
    return st;
}
