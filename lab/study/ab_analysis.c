/* SPDX-License-Identifier: MIT
 *
 * The analysis of an A/B: a function of its plan and sessions. See ab.h.
 */
#include "lab/bench.h"
#include "lab/bootstrap.h"
#include "lab/files.h"
#include "lab/stats.h"
#include "lab/study/ab_room.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ORDER_FAR 1.01 /* an effect of the order that is worth a sentence, where its interval excludes none */

/* A session with both medians. */
typedef struct pair {
    int number, rig;
    bool b_first;
    double ms[2], cv[2];
} pair;

typedef struct analysis {
    b1i_ab_planned plan;
    pair *pairs; /* [count] */
    size_t count;
    double *values, *sorted; /* [plan.count] each: room for one series */
    json_t *rigs;            /* array of what tells one rig from another */
    json_t *first_cell;      /* of the first pair, for the model's name */
    int verdicts[4];         /* arms by b1i_verdict */
    int compared, differing; /* sessions whose kernels were compared; of which they differ */
    int failed;              /* sessions without a pair */
    char message[1000];      /* why the first of them has none */
    b1i_interval order;      /* see order_effect() */
    char uncompared[400];    /* why the first kernels were not compared */
} analysis;

static b1_status no_memory(b1_error *err) { return b1i_fail(err, B1_MEMORY, "not enough memory for the analysis"); }

__attribute__((format(printf, 2, 3))) static void note(analysis *a, const char *format, ...)
{
    if (a->message[0]) return;
    va_list values;
    va_start(values, format);
    vsnprintf(a->message, sizeof a->message, format, values);
    va_end(values);
}

/* ---- sessions ---- */

/* What a stack says it is; of batchone the word alone. */
static json_t *maker_of(const json_t *cell)
{
    json_t *source = json_object_get(cell, "source");
    if (!json_is_object(source)) return source ? json_incref(source) : json_null();
    return json_pack("{s:s,s:s}", "stack", b1i_lab_text_at(source, "stack"), "version",
                     b1i_lab_text_at(source, "version"));
}

/* What both arms are of, null of none; where they differ, both. */
static json_t *common(const json_t *a, const json_t *b, const char *key)
{
    if (strcmp(b1i_lab_text_at(a, key), b1i_lab_text_at(b, key)) == 0) return b1i_lab_text(b1i_lab_text_at(a, key));
    return json_pack("[s,s]", b1i_lab_text_at(a, key), b1i_lab_text_at(b, key));
}

static json_t *warmup_of(const json_t *cell)
{
    json_t *warmup = json_object_get(json_object_get(cell, "setting"), "warmup");
    return warmup ? json_incref(warmup) : json_null();
}

static json_t *rig_of(const json_t *a, const json_t *b)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:[o,o]}", "binary_sha256", common(a, b, "binary_sha256"), "version",
                     common(a, b, "version"), "device_name", common(a, b, "device_name"), "device_uuid",
                     common(a, b, "device_uuid"), "a", maker_of(a), "b", maker_of(b), "warmup", warmup_of(a),
                     warmup_of(b));
}

/* The number of the session's rig, which is added where it is new; −1: no memory. */
static int find_rig(analysis *a, const json_t *first, const json_t *second)
{
    json_t *rig = rig_of(first, second);
    for (size_t i = 0; rig && i < json_array_size(a->rigs); i++)
        if (json_equal(json_array_get(a->rigs, i), rig)) {
            json_decref(rig);
            return (int)i;
        }
    return json_array_append_new(a->rigs, rig) == 0 ? (int)json_array_size(a->rigs) - 1 : -1;
}

static void count_verdict(analysis *a, const json_t *cell)
{
    for (int i = 0; i < 4; i++) a->verdicts[i] += strcmp(b1i_verdict_names[i], b1i_lab_text_at(cell, "verdict")) == 0;
}

/* Whether the arm has figures; else it is noted why not. */
static bool measured(analysis *a, const b1i_ab_session *s, const char *arm, const json_t *cell)
{
    if (strcmp(b1i_lab_text_at(cell, "status"), "ok") == 0 && b1i_lab_number_at(cell, "t_obs_ms") > 0) return true;
    note(a, "session %d: %s: %s: %s", s->number, arm, b1i_lab_text_at(cell, "status"),
         b1i_lab_text_at(cell, "message"));
    return false;
}

static b1_status take_pair(analysis *a, const b1i_ab_session *s, json_t *const cells[2], b1_error *err)
{
    const bool one = measured(a, s, "a", cells[0]), both = measured(a, s, "b", cells[1]) && one;
    if (!both) {
        a->failed++;
        return B1_OK;
    }
    pair *p = &a->pairs[a->count++];
    *p = (pair){.number = s->number, .rig = find_rig(a, cells[0], cells[1]), .b_first = s->b_first};
    for (int i = 0; i < 2; i++) {
        p->ms[i] = b1i_lab_number_at(cells[i], "t_obs_ms");
        p->cv[i] = b1i_lab_number_at(cells[i], "cv");
        count_verdict(a, cells[i]);
    }
    if (!a->first_cell) a->first_cell = json_incref(cells[0]);
    return p->rig < 0 ? no_memory(err) : B1_OK;
}

static void take_kernels(analysis *a, int number, const json_t *session)
{
    const json_t *kernels = json_object_get(session, "kernels"), *same = json_object_get(kernels, "same");
    a->compared += json_is_boolean(same);
    a->differing += json_is_false(same);
    if (!a->plan.launch_only || json_is_boolean(same) || a->uncompared[0]) return;
    const char *why = b1i_lab_text_at(json_object_get(kernels, "a"), "message");
    if (!*why) why = b1i_lab_text_at(json_object_get(kernels, "b"), "message");
    snprintf(a->uncompared, sizeof a->uncompared, "session %d: the kernels were not compared: %s", number,
             *why ? why : "there is no profile of both arms");
}

/* A file of the session; NULL where the session's process left none. */
static b1_status read_file(const char *directory, const char *id, const char *file, bool needed, json_t **out,
                           b1_error *err)
{
    char name[96];
    b1_error why = {0};
    snprintf(name, sizeof name, "cells/%s/%s", id, file);
    b1_status st = b1i_lab_read_json(directory, name, out, &why);
    if (st == B1_IO && !needed) return B1_OK;
    return st == B1_OK ? st : b1i_fail(err, st, "%s", why.message);
}

static b1_status take_session(analysis *a, const char *directory, const b1i_ab_session *s, b1_error *err)
{
    json_t *session = NULL, *cells[2] = {NULL, NULL};
    b1_status st;
    B1I_TRY(read_file(directory, s->id, "session.json", true, &session, err));
    const bool ran = strcmp(b1i_lab_text_at(session, "status"), "ok") == 0;
    B1I_TRY(read_file(directory, s->id, "a.json", ran, &cells[0], err));
    B1I_TRY(read_file(directory, s->id, "b.json", ran, &cells[1], err));
    if (!ran) {
        note(a, "session %d: %s", s->number, b1i_lab_text_at(session, "message"));
        a->failed++;
    } else {
        B1I_TRY(take_pair(a, s, cells, err));
        take_kernels(a, s->number, session);
    }
fail:
    json_decref(session);
    json_decref(cells[0]);
    json_decref(cells[1]);
    return st;
}

/* ---- figures ---- */

/* Of the pairs of one rig (−1: of all), into a->values; how many. */
static size_t gather(analysis *a, int rig, double (*of)(const pair *p))
{
    size_t n = 0;
    for (size_t i = 0; i < a->count; i++)
        if (rig < 0 || a->pairs[i].rig == rig) a->values[n++] = of(&a->pairs[i]);
    return n;
}

static double log_ratio(const pair *p) { return log(p->ms[0] / p->ms[1]); }
static double ratio(const pair *p) { return p->ms[0] / p->ms[1]; }
static double difference(const pair *p) { return p->ms[0] - p->ms[1]; }
static double a_ms(const pair *p) { return p->ms[0]; }
static double b_ms(const pair *p) { return p->ms[1]; }
static double a_cv(const pair *p) { return p->cv[0]; }
static double b_cv(const pair *p) { return p->cv[1]; }

static json_t *interval_json(const b1i_interval *i, bool logarithm)
{
    return json_pack("[o,o]", b1i_lab_number(logarithm ? exp(i->low) : i->low),
                     b1i_lab_number(logarithm ? exp(i->high) : i->high));
}

static double mean(const double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += values[i];
    return sum / (double)n;
}

/* Standard deviation over mean; NaN of one. */
static double cv(const double *values, size_t n)
{
    double m = mean(values, n), sum = 0;
    for (size_t i = 0; i < n; i++) sum += (values[i] - m) * (values[i] - m);
    return n > 1 ? sqrt(sum / (double)(n - 1)) / m : NAN;
}

static double quantile(analysis *a, size_t n, double p)
{
    memcpy(a->sorted, a->values, n * sizeof *a->sorted);
    return b1i_percentile(a->sorted, n, p);
}

static json_t *arm_json(analysis *a, double (*of)(const pair *p), double (*within)(const pair *p))
{
    size_t n = gather(a, -1, within);
    double inside = quantile(a, n, 50);
    gather(a, -1, of);
    return json_pack("{s:f,s:f,s:f,s:f,s:o,s:o}", "mean", mean(a->values, n), "median", quantile(a, n, 50), "min",
                     quantile(a, n, 0), "max", quantile(a, n, 100), "cv_within", b1i_lab_number(inside), "cv_across",
                     b1i_lab_number(cv(a->values, n)));
}

/* Speed-up and interval of a rig, by either bootstrap. */
static b1_status speedup(analysis *a, int rig, bool plain, b1i_interval *out, b1_error *err)
{
    size_t n = gather(a, rig, log_ratio), times = (size_t)a->plan.resamples;
    return plain ? b1i_bootstrap_percentile(a->values, n, times, a->plan.seed, out, err)
                 : b1i_bootstrap_t(a->values, n, times, a->plan.seed, out, err);
}

static json_t *numbers_of(const analysis *a, int rig)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < a->count; i++)
        if (rig < 0 || a->pairs[i].rig == rig) json_array_append_new(list, json_integer(a->pairs[i].number));
    return list;
}

/* Gives each rig its sessions and its own figures. */
static b1_status finish_rigs(analysis *a, b1_error *err)
{
    for (int i = 0; i < (int)json_array_size(a->rigs); i++) {
        b1i_interval is;
        b1_status st = speedup(a, i, false, &is, err);
        if (st != B1_OK) return st;
        json_t *more = json_pack("{s:o,s:f,s:o}", "numbers", numbers_of(a, i), "speedup", exp(is.value), "interval",
                                 interval_json(&is, true));
        int bad = json_object_update(json_array_get(a->rigs, (size_t)i), more);
        json_decref(more);
        if (bad) return no_memory(err);
    }
    return B1_OK;
}

/* Geometric mean of the sessions in which A ran first over that of the others, with its interval, into a->order; NaN
 * where one of them is missing. */
static b1_status order_effect(analysis *a, b1_error *err)
{
    size_t n[2] = {0, 0};
    double *first = a->values, *others = a->sorted;
    for (size_t i = 0; i < a->count; i++) {
        const int b = a->pairs[i].b_first;
        (b ? others : first)[n[b]++] = log_ratio(&a->pairs[i]);
    }
    a->order = (b1i_interval){NAN, NAN, NAN};
    if (!n[0] || !n[1]) return B1_OK;
    b1_status st =
        b1i_bootstrap_t_difference(others, n[1], first, n[0], (size_t)a->plan.resamples, a->plan.seed, &a->order, err);
    a->order = (b1i_interval){exp(a->order.value), exp(a->order.low), exp(a->order.high)};
    return st;
}

/* All figures of one rig, or none of several. */
static b1_status figures(analysis *a, json_t *out, b1_error *err)
{
    static const char *const keys[] = {"speedup",
                                       "interval",
                                       "percentile_interval",
                                       "difference_ms",
                                       "difference_interval",
                                       "median",
                                       "mean",
                                       "min",
                                       "max",
                                       "order_effect",
                                       "a_ms",
                                       "b_ms"};
    b1i_interval t, plain, off;
    b1_status st;
    int bad = 0;
    if (json_array_size(a->rigs) != 1) {
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) bad |= json_object_set_new(out, keys[i], json_null());
        return bad ? no_memory(err) : B1_OK;
    }
    B1I_TRY(speedup(a, -1, false, &t, err));
    B1I_TRY(speedup(a, -1, true, &plain, err));
    size_t n = gather(a, -1, difference);
    B1I_TRY(b1i_bootstrap_t(a->values, n, (size_t)a->plan.resamples, a->plan.seed, &off, err));
    gather(a, -1, ratio);
    json_t *more = json_pack("{s:f,s:o,s:o,s:f,s:o,s:f,s:f,s:f,s:f,s:o}", "speedup", exp(t.value), "interval",
                             interval_json(&t, true), "percentile_interval", interval_json(&plain, true),
                             "difference_ms", off.value, "difference_interval", interval_json(&off, false), "median",
                             quantile(a, n, 50), "mean", mean(a->values, n), "min", quantile(a, n, 0), "max",
                             quantile(a, n, 100), "order_effect", b1i_lab_number(a->order.value));
    bad = json_object_update(out, more);
    json_decref(more);
    bad |= json_object_set_new(out, "a_ms", arm_json(a, a_ms, a_cv));
    bad |= json_object_set_new(out, "b_ms", arm_json(a, b_ms, b_cv));
    if (bad) st = no_memory(err);
fail:
    return st;
}

/* ---- the document ---- */

static const char *verdict(analysis *a)
{
    const size_t rigs = json_array_size(a->rigs);
    if (a->failed || !a->count) return "failed";
    if (rigs > 1) {
        note(a, "the sessions are of %zu rigs and are not pooled", rigs);
        return "rigs differ";
    }
    if (a->plan.launch_only && a->differing) {
        note(a, "A and B did not run the same kernels in %d of %d sessions: more than their launch differs",
             a->differing, a->compared);
        return "kernels differ";
    }
    if (a->plan.launch_only && a->compared < (int)a->count) {
        note(a, "%s", a->uncompared);
        return "kernels not compared";
    }
    if (a->count < 2) {
        note(a, "one session says nothing of the next one");
        return "one session";
    }
    if (a->verdicts[b1i_verdict_drifting] + a->verdicts[b1i_verdict_throttled] > 0) {
        note(a, "%d of %zu arms had two levels, and %d were throttled", a->verdicts[b1i_verdict_drifting], 2 * a->count,
             a->verdicts[b1i_verdict_throttled]);
        return "drifting";
    }
    if (fabs(log(a->order.value)) > log(ORDER_FAR) && (a->order.low > 1 || a->order.high < 1))
        note(a, "the order matters: A / B is %.3f times (95 %%: %.3f to %.3f) as much where A ran first as elsewhere",
             a->order.value, a->order.low, a->order.high);
    return "ok";
}

/* Whether A and B were shown to differ in nothing but launch. */
static bool same_kernels(const analysis *a)
{
    return a->plan.launch_only && a->count > 0 && a->compared >= (int)a->count && a->differing == 0;
}

static json_t *pairs_json(const analysis *a)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < a->count; i++)
        json_array_append_new(list, json_pack("[f,f]", a->pairs[i].ms[0], a->pairs[i].ms[1]));
    return list;
}

static json_t *orders_json(const analysis *a)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < a->count; i++)
        json_array_append_new(list, a->pairs[i].b_first ? json_pack("[s,s]", "b", "a") : json_pack("[s,s]", "a", "b"));
    return list;
}

static json_t *verdicts_json(const analysis *a)
{
    return json_pack("{s:i,s:i,s:i,s:i}", b1i_verdict_names[0], a->verdicts[0], b1i_verdict_names[1], a->verdicts[1],
                     b1i_verdict_names[2], a->verdicts[2], b1i_verdict_names[3], a->verdicts[3]);
}

static b1_status document(analysis *a, json_t **out, b1_error *err)
{
    const b1i_ab_planned *p = &a->plan;
    const json_t *model = json_object_get(a->first_cell, "model");
    const char *words = verdict(a);
    const bool ok = strcmp(words, "ok") == 0;
    char *arms[2] = {b1i_ab_text(&p->arms[0]), b1i_ab_text(&p->arms[1])};
    json_t *j = NULL;
    b1_status st = B1_OK;
    if (arms[0] && arms[1])
        j = json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:s,s:s,s:b,s:i,s:I,s:i,s:i,s:o,s:o,s:o,s:b,s:o,s:O,s:s,s:b,s:o}",
                      "schema", "batchone.ab/1", "run", p->run, "model",
                      json_is_string(model) ? json_string_value(model) : p->arms[0].model, "device", p->device,
                      "device_name", p->device_name, "context", p->arms[0].context, "a", arms[0], "b", arms[1],
                      "launch_only", p->launch_only, "resamples", p->resamples, "seed", (json_int_t)p->seed, "planned",
                      (int)p->count, "sessions", (int)a->count, "pairs", pairs_json(a), "numbers", numbers_of(a, -1),
                      "orders", orders_json(a), "upper_bound", same_kernels(a), "verdicts", verdicts_json(a), "rigs",
                      a->rigs, "verdict", words, "headline", ok, "message", b1i_lab_text(a->message));
    b1i_free(arms[0]);
    b1i_free(arms[1]);
    if (!j) return no_memory(err);
    if ((st = figures(a, j, err)) == B1_OK)
        *out = j;
    else
        json_decref(j);
    return st;
}

b1_status b1i_ab_analyse(const char *directory, json_t **out, b1_error *err)
{
    b1_status st;
    analysis a = {.failed = 0};
    *out = NULL;
    B1I_TRY(b1i_ab_read(directory, &a.plan, err));
    a.pairs = b1i_calloc(a.plan.count, sizeof *a.pairs);
    a.values = b1i_malloc(a.plan.count * sizeof *a.values);
    a.sorted = b1i_malloc(a.plan.count * sizeof *a.sorted);
    a.rigs = json_array();
    if (!a.pairs || !a.values || !a.sorted || !a.rigs) {
        st = no_memory(err);
        goto fail;
    }
    for (size_t i = 0; i < a.plan.count; i++) B1I_TRY(take_session(&a, directory, &a.plan.sessions[i], err));
    B1I_TRY(finish_rigs(&a, err));
    B1I_TRY(order_effect(&a, err));
    B1I_TRY(document(&a, out, err));
fail:
    b1i_free(a.pairs);
    b1i_free(a.values);
    b1i_free(a.sorted);
    json_decref(a.rigs);
    json_decref(a.first_cell);
    b1i_ab_free(&a.plan);
    return st;
}
