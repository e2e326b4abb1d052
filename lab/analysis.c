/* SPDX-License-Identifier: MIT
 *
 * The analysis of a run's directory. See analysis.h.
 */
#include "lab/analysis.h"

#include "lab/evidence.h"
#include "lab/figures.h"
#include "lab/files.h"
#include "lab/samples.h"
#include "lab/stats.h"
#include "lab/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA "batchone.analysis/1"
enum {
    INTERVAL_BELOW = 64, /* samples: from so many on a p90 needs no interval */
    RESAMPLES = 10000,
    THIRDS_LEAST = 9, /* samples that can drift */
};

#define NOISY       0.20 /* (p90 − p10) / median */
#define DRIFT       0.05
#define HOST_BOUND  1.05 /* interval / enqueue */
#define FIGURES_FAR 1e-9 /* relative: what another machine's arithmetic may differ by */

/* Of one cell and kind. */
typedef struct series {
    double *ns, *sorted, *clock; /* [room]; ns in the order measured */
    size_t count, clocks;
    int throttled;
} series;

typedef struct analysis {
    const char *directory;
    b1i_lab_plan plan;
    b1i_samples samples;
    double *work;    /* [5 · (rounds + 1) + RESAMPLES] */
    double *medians; /* [cells · kinds], NaN where there is none */
    series s;
    json_t *out, *cells, *pairs, *traces, *figures;
} analysis;

static b1_status no_memory(b1_error *err) { return b1i_fail(err, B1_MEMORY, "not enough memory for the analysis"); }

/* ---- a cell ---- */

static void gather(analysis *a, size_t cell, int kind)
{
    series *s = &a->s;
    s->count = s->clocks = 0;
    s->throttled = 0;
    for (size_t i = 0; i < a->samples.count; i++) {
        const b1i_sample *row = &a->samples.rows[i];
        if (row->cell != cell || (int)row->kind != kind) continue;
        s->ns[s->count++] = row->ns;
        if (row->sm_mhz > 0) s->clock[s->clocks++] = row->sm_mhz;
        s->throttled += b1i_sample_throttled(&a->plan, row);
    }
}

static double part_of(series *s, size_t first, size_t count, double p)
{
    memcpy(s->sorted, s->ns + first, count * sizeof *s->ns);
    return b1i_percentile(s->sorted, count, p);
}

/* Whether the last third lies elsewhere than the first, by more than either scatters. */
static bool drifts(series *s, double median)
{
    if (s->count < THIRDS_LEAST) return false;
    size_t third = s->count / 3, last = s->count - third;
    double moved = fabs(part_of(s, 0, third, 50) - part_of(s, last, third, 50));
    double early = part_of(s, 0, third, 90) - part_of(s, 0, third, 10);
    double late = part_of(s, last, third, 90) - part_of(s, last, third, 10);
    return moved > DRIFT * median && moved > fmax(early, late);
}

static json_t *interval(series *s)
{
    size_t low, high;
    b1i_percentile_interval(s->count, 90, &low, &high);
    part_of(s, 0, s->count, 50); /* sorts */
    return json_pack("[o,o]", low ? json_real(s->sorted[low - 1]) : json_null(),
                     high ? json_real(s->sorted[high - 1]) : json_null());
}

/* The row of a cell that has no figures. */
static json_t *row_without(const b1i_lab_plan_cell *c, int kind)
{
    return json_pack("{s:s,s:s,s:i,s:n,s:n,s:n,s:i,s:b,s:n,s:n,s:i,s:s,s:s?,s:O}", "cell", c->name, "kind",
                     b1i_lab_kind_names[kind], "n", 0, "median_ns", "p10_ns", "p90_ns", "depth", c->depth, "host_bound",
                     0, "gbps", "sm_mhz", "throttled", 0, "verdict", b1i_cell_status_names[c->status], "message",
                     c->message, "facts", c->facts);
}

static json_t *row_of(analysis *a, size_t cell, int kind)
{
    const b1i_lab_plan_cell *c = &a->plan.cells[cell];
    series *s = &a->s;
    double p10 = part_of(s, 0, s->count, 10), median = part_of(s, 0, s->count, 50), p90 = part_of(s, 0, s->count, 90);
    double enqueue = a->medians[cell * b1i_lab_kinds + b1i_host_enqueue];
    double bytes = json_number_value(json_object_get(c->facts, "bytes"));
    bool bound = kind == b1i_device_interval && median <= HOST_BOUND * enqueue; /* NaN: no */
    const char *verdict = s->throttled                 ? "throttled"
                          : drifts(s, median)          ? "drifting"
                          : p90 - p10 > NOISY * median ? "noisy"
                                                       : "ok";
    json_t *row = json_pack("{s:s,s:s,s:i,s:f,s:f,s:f,s:i,s:b,s:o,s:o,s:i,s:s,s:n,s:O}", "cell", c->name, "kind",
                            b1i_lab_kind_names[kind], "n", (int)s->count, "median_ns", median, "p10_ns", p10, "p90_ns",
                            p90, "depth", kind == b1i_host_single ? 1 : c->depth, "host_bound", bound, "gbps",
                            b1i_lab_number(bytes > 0 && kind != b1i_host_enqueue ? bytes / median : NAN), "sm_mhz",
                            b1i_lab_number(b1i_median(s->clock, s->clocks)), "throttled", s->throttled, "verdict",
                            verdict, "message", "facts", c->facts);
    if (row && s->count < INTERVAL_BELOW && json_object_set_new(row, "p90_interval_ns", interval(s)) != 0) {
        json_decref(row);
        row = NULL;
    }
    return row;
}

static b1_status cells(analysis *a, b1_error *err)
{
    for (size_t i = 0; i < a->plan.count; i++)
        for (int k = 0; k < b1i_lab_kinds; k++) {
            const b1i_lab_plan_cell *c = &a->plan.cells[i];
            a->medians[i * b1i_lab_kinds + (size_t)k] = NAN;
            if (!(c->kinds & 1u << k)) continue;
            gather(a, i, k);
            if (a->s.count) a->medians[i * b1i_lab_kinds + (size_t)k] = part_of(&a->s, 0, a->s.count, 50);
            json_t *row = c->status == b1i_cell_ok ? row_of(a, i, k) : row_without(c, k);
            if (json_array_append_new(a->cells, row) != 0) return no_memory(err);
        }
    return B1_OK;
}

/* ---- twins ---- */

static json_t *pair_row(analysis *a, size_t twin, int kind)
{
    const b1i_lab_plan_cell *c = &a->plan.cells[twin], *of = &a->plan.cells[c->twin_of];
    size_t n = (size_t)a->plan.rounds, k = (size_t)kind;
    double *first = a->work, *second = first + n, *work = second + n, low = NAN, high = NAN;
    uint64_t seed = b1i_mix64(a->plan.seed + twin * b1i_lab_kinds + k) >> 11;
    gather(a, (size_t)c->twin_of, kind);
    memcpy(second, a->s.ns, n * sizeof *second);
    gather(a, twin, kind);
    memcpy(first, a->s.ns, n * sizeof *first);
    double ratio = a->medians[twin * b1i_lab_kinds + k] / a->medians[(size_t)c->twin_of * b1i_lab_kinds + k];
    b1i_bootstrap_ratio(first, second, n, RESAMPLES, seed, work, &low, &high);
    return json_pack("{s:s,s:s,s:s,s:o,s:[o,o],s:I,s:i}", "cell", of->name, "twin", c->name, "kind",
                     b1i_lab_kind_names[kind], "ratio", b1i_lab_number(ratio), "interval", b1i_lab_number(low),
                     b1i_lab_number(high), "seed", (json_int_t)seed, "resamples", RESAMPLES);
}

static b1_status pairs(analysis *a, b1_error *err)
{
    for (size_t i = 0; i < a->plan.count; i++)
        for (int k = 0; k < b1i_lab_kinds; k++) {
            const b1i_lab_plan_cell *c = &a->plan.cells[i];
            if (c->twin_of < 0 || c->status != b1i_cell_ok || a->plan.cells[c->twin_of].status != b1i_cell_ok ||
                !(c->kinds & a->plan.cells[c->twin_of].kinds & 1u << k))
                continue;
            if (json_array_append_new(a->pairs, pair_row(a, i, k)) != 0) return no_memory(err);
        }
    return B1_OK;
}

/* ---- traces ---- */

/* The cell whose name as a file's is traces/NAME.csv; −1: none. */
static int cell_of_trace(const b1i_lab_plan *plan, const char *file)
{
    char name[256], expected[300];
    for (size_t i = 0; i < plan->count; i++) {
        b1i_lab_file_name(plan->cells[i].name, name, sizeof name);
        snprintf(expected, sizeof expected, "traces/%s.csv", name);
        if (strcmp(expected, file) == 0) return (int)i;
    }
    return -1;
}

static b1_status add_trace(analysis *a, const char *file, b1_error *err)
{
    b1_status st;
    b1i_trace_span *spans = NULL;
    size_t count;
    json_t *facts = NULL;
    int cell = cell_of_trace(&a->plan, file);
    double untraced = cell < 0 ? NAN : a->medians[(size_t)cell * b1i_lab_kinds + b1i_device_interval];
    char *path = b1i_lab_join(a->directory, file);
    if (!path) return no_memory(err);
    B1I_TRY(b1i_trace_read(path, &spans, &count, err));
    if (!(facts = b1i_trace_facts(spans, count))) {
        st = no_memory(err);
        goto fail;
    }
    double span = json_number_value(json_object_get(facts, "span_ns"));
    if (json_object_set_new(facts, "file", json_string(file)) != 0 ||
        json_object_set_new(facts, "cell", cell < 0 ? json_null() : json_string(a->plan.cells[cell].name)) != 0 ||
        json_object_set_new(facts, "untraced_ns", b1i_lab_number(untraced)) != 0 ||
        json_object_set_new(facts, "ratio", b1i_lab_number(span / untraced)) != 0 ||
        json_array_append(a->traces, facts) != 0)
        st = no_memory(err);
fail:
    json_decref(facts);
    b1i_free(spans);
    b1i_free(path);
    return st;
}

static b1_status traces(analysis *a, b1_error *err)
{
    b1i_names names;
    b1_status st = b1i_lab_list(a->directory, &names, err);
    for (size_t i = 0; i < names.count && st == B1_OK; i++) {
        const char *name = names.items[i], *end = strrchr(name, '.');
        if (strncmp(name, "traces/", 7) == 0 && end && strcmp(end, ".csv") == 0) st = add_trace(a, name, err);
    }
    b1i_names_free(&names);
    return st;
}

/* ---- all ---- */

static b1_status make_room(analysis *a, b1_error *err)
{
    size_t n = (size_t)a->plan.rounds + 1;
    a->work = b1i_malloc((7 * n + RESAMPLES) * sizeof *a->work);
    a->medians = b1i_malloc((a->plan.count * b1i_lab_kinds + 1) * sizeof *a->medians);
    a->cells = json_array();
    a->pairs = json_array();
    a->traces = json_array();
    if (!a->work || !a->medians || !a->cells || !a->pairs || !a->traces) return no_memory(err);
    a->s = (series){
        .ns = a->work + 4 * n + RESAMPLES, .sorted = a->work + 5 * n + RESAMPLES, .clock = a->work + 6 * n + RESAMPLES};
    return B1_OK;
}

b1_status b1i_analysis_make(const char *directory, json_t **out, b1_error *err)
{
    b1_status st;
    char hash[65], *samples = b1i_lab_join(directory, "samples.jsonl");
    uint64_t bytes;
    analysis a = {.directory = directory};
    *out = NULL;
    if (!samples) return no_memory(err);
    B1I_TRY(b1i_lab_plan_read(directory, &a.plan, err));
    B1I_TRY(b1i_samples_read(directory, &a.plan, true, &a.samples, err));
    B1I_TRY(b1i_sha256_file(samples, hash, &bytes, err));
    B1I_TRY(make_room(&a, err));
    B1I_TRY(cells(&a, err));
    B1I_TRY(pairs(&a, err));
    B1I_TRY(traces(&a, err));
    if (!(a.figures = b1i_figures_make(a.cells))) {
        st = no_memory(err);
        goto fail;
    }
    *out = json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:O,s:O,s:O,s:O}", "schema", SCHEMA, "run", a.plan.run, "experiment",
                     a.plan.experiment, "device", a.plan.device, "rounds", a.plan.rounds, "samples_sha256", hash,
                     "cells", a.cells, "a_a", a.pairs, "traces", a.traces, "figures", a.figures);
    if (!*out) st = no_memory(err);
fail:
    json_decref(a.cells);
    json_decref(a.pairs);
    json_decref(a.traces);
    json_decref(a.figures);
    b1i_free(samples);
    b1i_free(a.work);
    b1i_free(a.medians);
    b1i_samples_free(&a.samples);
    b1i_lab_plan_free(&a.plan);
    return st;
}

b1_status b1i_analysis_read(const char *directory, json_t **out, b1_error *err)
{
    return b1i_lab_read_json(directory, "analysis.json", out, err);
}

/* ---- comparing ---- */

typedef struct comparison {
    void (*say)(void *user, const char *line);
    void *user;
    bool equal;
} comparison;

static void differs(comparison *c, const char *where, const json_t *stored, const json_t *made)
{
    char line[400], one[96] = "absent", other[96] = "absent";
    const json_t *values[] = {stored, made};
    char *texts[] = {one, other};
    for (int i = 0; i < 2; i++)
        if (values[i]) {
            size_t n = json_dumpb(values[i], texts[i], 90, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
            texts[i][n < 90 ? n : 90] = 0;
        }
    snprintf(line, sizeof line, "analysis.json: %s is %s, and what it is made from gives %s", where, one, other);
    c->equal = false;
    if (c->say) c->say(c->user, line);
}

static bool same_number(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) return json_integer_value(a) == json_integer_value(b);
    double x = json_number_value(a), y = json_number_value(b);
    return fabs(x - y) <= FIGURES_FAR * fmax(fabs(x), fabs(y));
}

static void compare(comparison *c, const char *where, const json_t *stored, const json_t *made);

static void compare_objects(comparison *c, const char *where, const json_t *stored, const json_t *made)
{
    char below[200];
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)made, key, value)
    {
        snprintf(below, sizeof below, "%s%s%s", where, *where ? "." : "", key);
        compare(c, below, json_object_get(stored, key), value);
    }
    json_object_foreach((json_t *)(uintptr_t)stored, key, value)
    {
        if (json_object_get(made, key)) continue;
        snprintf(below, sizeof below, "%s%s%s", where, *where ? "." : "", key);
        differs(c, below, value, NULL);
    }
}

/* A number that is stored as 5 where 5.0 is made is the same number. */
static void compare(comparison *c, const char *where, const json_t *stored, const json_t *made)
{
    char below[200];
    if (json_is_number(stored) && json_is_number(made)) {
        if (!same_number(stored, made)) differs(c, where, stored, made);
    } else if (json_is_object(stored) && json_is_object(made)) {
        compare_objects(c, where, stored, made);
    } else if (json_is_array(stored) && json_is_array(made)) {
        size_t n = json_array_size(stored), m = json_array_size(made);
        for (size_t i = 0; i < n || i < m; i++) {
            snprintf(below, sizeof below, "%s[%zu]", where, i);
            compare(c, below, json_array_get(stored, i), json_array_get(made, i));
        }
    } else if (!json_equal(stored, made)) {
        differs(c, where, stored, made);
    }
}

bool b1i_analysis_equal(const json_t *stored, const json_t *made, void (*say)(void *user, const char *line), void *user)
{
    comparison c = {say, user, true};
    compare(&c, "", stored, made);
    return c.equal;
}
