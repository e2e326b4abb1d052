/* SPDX-License-Identifier: MIT
 *
 * Processes one after the other, with the time that is left. See pass.h.
 */
#include "lab/study/pass.h"

#include "lab/environment.h"
#include "lab/files.h"
#include "lab/machine.h"
#include "lab/report.h"
#include "lab/study/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WHAT = 200, PARTS = 1000 }; /* of the bar, each of them */
#define PART_MOST 0.99             /* of one that takes longer than was expected */

typedef struct runner {
    const b1i_pass *pass;
    const b1i_study_options *options;
    b1i_evidence *evidence;
    json_t *before; /* processes of this run before this one */
    char date[32];
    uint64_t began_ns;
    double *seconds; /* [count]: what each took; 0: not known */
    size_t at, done; /* the one that runs; those that are there */
} runner;

static const char *id_of(const runner *r, size_t at) { return r->pass->id(r->pass->user, at); }
static bool has(const runner *r, size_t at) { return b1i_study_has(r->options->out, id_of(r, at)); }

/* What number i may take: as those of its model did, or as all did; 0: nothing is known. */
static double expected(const runner *r, size_t i)
{
    const b1i_pass *p = r->pass;
    double like = 0, all = 0;
    size_t like_count = 0, count = 0;
    for (size_t k = 0; k < p->count; k++) {
        if (!(r->seconds[k] > 0)) continue;
        all += r->seconds[k];
        count++;
        if (strcmp(p->model(p->user, k), p->model(p->user, i)) != 0) continue;
        like += r->seconds[k];
        like_count++;
    }
    return like_count ? like / (double)like_count : count ? all / (double)count : 0;
}

/* What those that are left may take; < 0: nothing is known. */
static double time_left(const runner *r)
{
    double left = expected(r, r->at);
    if (left <= 0) return -1;
    for (size_t i = r->at + 1; i < r->pass->count; i++)
        if (!has(r, i)) left += expected(r, i);
    return left;
}

/* The bar counts the one that runs by its time; where nothing is known of that, and none is done, there is no bar. */
static void tell(const runner *r, double already)
{
    const size_t count = r->pass->count;
    char what[WHAT], left[64] = "";
    const double seconds = time_left(r) - already, one = expected(r, r->at);
    if (!r->options->progress) return;
    if (seconds >= 60)
        snprintf(left, sizeof left, ", %.0f min left", seconds / 60);
    else if (seconds >= 0)
        snprintf(left, sizeof left, ", %.0f s left", seconds);
    else if (already >= 1) /* nothing is known of its like, or it takes longer than they did */
        snprintf(left, sizeof left, ", for %.0f s", already);
    r->pass->say(r->pass->user, r->at, what, sizeof what - sizeof left);
    strcat(what, left);
    const double part = one > 0 ? fmin(already / one, PART_MOST) : 0;
    r->options->progress(r->options->progress_user, what, (uint64_t)(PARTS * ((double)r->done + part)),
                         r->done || one > 0 ? (uint64_t)PARTS * count : 0);
}

static void tick(void *user, double seconds) { tell(user, seconds); }

static b1_status run_one(runner *r, b1_error *err)
{
    const b1i_pass *p = r->pass;
    const char *id = id_of(r, r->at);
    const char *argv[] = {r->options->executable, p->verb[0], p->verb[1], p->verb[2], id, "--out",
                          r->options->out,        NULL};
    const b1i_process_watch watch = {r->options->cancelled, tick, r};
    b1i_process_result result;
    b1_status st;
    char name[96];
    snprintf(name, sizeof name, "%s-%s", p->name, id);
    tell(r, 0);
    B1I_TRY(b1i_process_run(r->evidence, name, argv, &watch, &result, err));
    if (r->options->cancelled && r->options->cancelled()) /* by the same signal as this process */
        return b1i_fail(err, B1_CANCELLED, "cancelled");
    r->seconds[r->at] = result.seconds;
    if (!has(r, r->at)) {
        const bool ok = strcmp(result.status, "ok") == 0;
        B1I_TRY(p->lost(p->user, r->at, ok ? "failed" : result.status,
                        ok ? "its process ended well and left nothing" : result.message, err));
    }
    r->done++;
fail:
    return st;
}

/* ---- the records ---- */

static json_t *processes(const runner *r, bool ended, double *elapsed)
{
    json_t *all = r->before ? json_deep_copy(r->before) : json_array();
    double mine = (double)(b1i_now_ns() - r->began_ns) / 1e9;
    *elapsed = 0;
    if (all && json_array_append_new(all, json_pack("{s:s,s:o}", "date", r->date, "elapsed_s",
                                                    ended ? json_real(mine) : json_null())) != 0) {
        json_decref(all);
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(all); i++)
        *elapsed += json_number_value(json_object_get(json_array_get(all, i), "elapsed_s"));
    return all;
}

static b1_status write_environment(const runner *r, bool ended, b1_error *err)
{
    const b1i_pass *p = r->pass;
    b1i_environment_facts facts = {.run = p->run,
                                   .experiment = p->experiment,
                                   .binary = p->binary,
                                   .device = &r->options->device,
                                   .options = json_incref(p->plan_options)};
    facts.processes = processes(r, ended, &facts.elapsed_s);
    return b1i_evidence_json(r->evidence, "environment.json", b1i_environment_json(&facts), err);
}

static bool is_there(const b1i_study_options *options, const char *name)
{
    json_t *json;
    bool there = b1i_lab_read_json(options->out, name, &json, NULL) == B1_OK;
    json_decref(json);
    return there;
}

static b1_status prepare(runner *r, b1_error *err)
{
    b1_status st;
    json_t *environment;
    if (b1i_lab_read_json(r->options->out, "environment.json", &environment, NULL) == B1_OK) {
        const json_t *list = json_object_get(environment, "processes");
        if (json_is_array(list)) r->before = json_deep_copy(list);
        json_decref(environment);
    }
    B1I_TRY(write_environment(r, false, err));
    if (!is_there(r->options, "device-before.json"))
        B1I_TRY(b1i_evidence_json(r->evidence, "device-before.json", b1i_environment_state(&r->options->device), err));
    b1i_study_sweep(r->options->out);
    for (size_t i = 0; i < r->pass->count; i++) r->done += has(r, i);
fail:
    return st;
}

static b1_status run_rest(runner *r, b1_error *err)
{
    b1_status st = B1_OK;
    for (r->at = 0; r->at < r->pass->count; r->at++)
        if (!has(r, r->at)) B1I_TRY(run_one(r, err));
    B1I_TRY(b1i_evidence_json(r->evidence, "device-after.json", b1i_environment_state(&r->options->device), err));
fail:
    if (st == B1_OK || st == B1_CANCELLED) {
        b1_status written = write_environment(r, true, st == B1_OK ? err : NULL);
        if (st == B1_OK) st = written;
    }
    return st;
}

b1_status b1i_pass_run(const b1i_pass *pass, b1_error *err)
{
    b1_status st;
    runner r = {.pass = pass, .options = pass->options, .began_ns = b1i_now_ns()};
    b1i_machine_date(r.date, sizeof r.date);
    if (!(r.seconds = b1i_calloc(pass->count + 1, sizeof *r.seconds)))
        return b1i_fail_memory(err, pass->count * sizeof *r.seconds);
    B1I_TRY(b1i_evidence_resume(pass->options->out, &r.evidence, err));
    B1I_TRY(prepare(&r, err));
    B1I_TRY(run_rest(&r, err));
fail:
    b1i_evidence_close(r.evidence);
    json_decref(r.before);
    b1i_free(r.seconds);
    return st;
}

/* Where no process ran all of them, nobody wrote where they were merged. */
static b1_status write_place(const b1i_pass *p, b1i_evidence *evidence, b1_error *err)
{
    if (is_there(p->options, "environment.json")) return B1_OK;
    const b1i_environment_facts facts = {.run = p->run,
                                         .experiment = p->experiment,
                                         .binary = p->binary,
                                         .device = &p->options->device,
                                         .options = json_incref(p->plan_options),
                                         .processes = json_array()};
    return b1i_evidence_json(evidence, "environment.json", b1i_environment_json(&facts), err);
}

b1_status b1i_pass_seal(const b1i_pass *pass, b1i_evidence *evidence, json_t *analysis, b1_error *err)
{
    b1_status st = write_place(pass, evidence, err);
    if (st != B1_OK) {
        json_decref(analysis);
        return st;
    }
    B1I_TRY(b1i_evidence_json(evidence, "analysis.json", analysis, err));
    B1I_TRY(b1i_report_plots(evidence, err));
    B1I_TRY(b1i_evidence_seal(evidence, err));
fail:
    return st;
}
