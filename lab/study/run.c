/* SPDX-License-Identifier: MIT
 *
 * A planned study measured: one cell in this process, or all of them, each in a process of its own. See study.h.
 *
 * What is there decides what is left to do: a cell whose folder is there is done. Whoever starts the processes holds
 * the directory's lock; those that measure take none, so that they may run anywhere.
 */
#include "lab/environment.h"
#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/machine.h"
#include "lab/study/measure.h"
#include "lab/study/plan.h"
#include "lab/study/process.h"

#include <stdio.h>
#include <string.h>

enum { WHAT = 200 };

/* ---- one cell, here ---- */

static bool load_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    const b1i_study_options *o = user;
    if (o->progress) o->progress(o->progress_user, what, done, total);
    return !o->cancelled || !o->cancelled();
}

static b1_status measure_here(const b1i_study_options *options, const b1i_planned *planned, b1_error *err)
{
    const b1i_measure_options o = {options->cancelled, load_progress, (void *)(uintptr_t)options};
    json_t *cell = NULL, *profile = NULL;
    b1_status st = b1i_setting_measure(&planned->setting, &o, &cell, &profile, err);
    if (st != B1_OK) return st;
    const b1i_cell_file files[] = {{"cell.json", cell}, {"profile.json", profile}};
    st = b1i_cell_write(options->out, planned->id, files, 2, err);
    /* Another process was quicker: its cell is as good. */
    return st == B1_ARGUMENT && b1i_study_has(options->out, planned->id) ? B1_OK : st;
}

b1_status b1i_study_run_cell(const b1i_study_options *options, const char *id, b1_error *err)
{
    b1i_study_planned plan;
    b1_error why = {0};
    b1_status st = b1i_study_plan_read(options->out, &plan, err);
    if (st != B1_OK) return st;
    int at = b1i_study_plan_find(&plan, id);
    if (at < 0) {
        st = b1i_fail(err, B1_ARGUMENT, "the plan of %s has no cell %.40s", options->out, id);
        goto fail;
    }
    if (b1i_study_has(options->out, id)) goto fail;
    if ((st = b1i_study_plan_here(&plan, options->executable, &why)) != B1_OK) {
        st = b1i_fail(err, st, "%s: %s", options->out, why.message);
        goto fail;
    }
    B1I_TRY(measure_here(options, &plan.cells[at], err));
fail:
    b1i_study_plan_free(&plan);
    return st;
}

/* ---- all ---- */

typedef struct runner {
    const b1i_study_options *options;
    b1i_study_planned plan;
    b1i_evidence *evidence;
    json_t *before; /* processes of this study before this one */
    char date[32];
    uint64_t began_ns;
    double *seconds; /* [plan.count]: what a cell took; 0: not known */
    size_t at, done; /* the cell that runs; cells that are there */
} runner;

/* What the cells that are left may take: each as those of its model did, or as all did; < 0: nothing is known. */
static double time_left(const runner *r)
{
    double all = 0, left = 0;
    size_t known = 0;
    for (size_t i = 0; i < r->plan.count; i++) {
        all += r->seconds[i];
        known += r->seconds[i] > 0;
    }
    if (!known) return -1;
    for (size_t i = r->at; i < r->plan.count; i++) {
        double sum = 0;
        size_t like = 0;
        if (i > r->at && b1i_study_has(r->options->out, r->plan.cells[i].id)) continue;
        for (size_t k = 0; k < r->plan.count; k++)
            if (r->seconds[k] > 0 && strcmp(r->plan.cells[k].setting.model, r->plan.cells[i].setting.model) == 0) {
                sum += r->seconds[k];
                like++;
            }
        left += like ? sum / (double)like : all / (double)known;
    }
    return left;
}

static void tell(const runner *r, double already)
{
    const b1i_setting *s = &r->plan.cells[r->at].setting;
    char what[WHAT], left[48] = "";
    double seconds = time_left(r) - already;
    if (!r->options->progress) return;
    if (seconds >= 60)
        snprintf(left, sizeof left, ", %.0f min left", seconds / 60);
    else if (seconds >= 0)
        snprintf(left, sizeof left, ", %.0f s left", seconds);
    const char *slash = strrchr(s->model, '/');
    snprintf(what, sizeof what, "%.40s %.24s %d%s", slash ? slash + 1 : s->model, s->executor ? s->executor : "stack",
             s->context, left);
    r->options->progress(r->options->progress_user, what, r->done, r->plan.count);
}

static void tick(void *user, double seconds) { tell(user, seconds); }

/* A cell whose process left none: why. */
static b1_status write_lost(const runner *r, const b1i_planned *planned, const b1i_process_result *result,
                            b1_error *err)
{
    json_t *cell;
    const bool ok = strcmp(result->status, "ok") == 0;
    b1_status st = b1i_setting_failed(&planned->setting, ok ? "failed" : result->status,
                                      ok ? "its process ended well and left no cell" : result->message, &cell, err);
    if (st != B1_OK) return st;
    const b1i_cell_file file = {"cell.json", cell};
    return b1i_cell_write(r->options->out, planned->id, &file, 1, err);
}

static b1_status run_one(runner *r, b1_error *err)
{
    const b1i_planned *planned = &r->plan.cells[r->at];
    const char *argv[] = {r->options->executable, "study", "run", "--cell", planned->id, "--out",
                          r->options->out,        NULL};
    const b1i_process_watch watch = {r->options->cancelled, tick, r};
    b1i_process_result result;
    b1_status st;
    char name[B1I_SETTING_ID + 8];
    snprintf(name, sizeof name, "cell-%s", planned->id);
    tell(r, 0);
    B1I_TRY(b1i_process_run(r->evidence, name, argv, &watch, &result, err));
    if (r->options->cancelled && r->options->cancelled()) /* by the same signal as this process */
        return b1i_fail(err, B1_CANCELLED, "cancelled");
    r->seconds[r->at] = result.seconds;
    if (!b1i_study_has(r->options->out, planned->id)) B1I_TRY(write_lost(r, planned, &result, err));
    r->done++;
fail:
    return st;
}

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
    b1i_environment_facts facts = {.run = r->plan.run,
                                   .experiment = "study",
                                   .binary = r->plan.binary,
                                   .device = &r->options->device,
                                   .options = json_incref(json_object_get(r->plan.json, "options"))};
    facts.processes = processes(r, ended, &facts.elapsed_s);
    return b1i_evidence_json(r->evidence, "environment.json", b1i_environment_json(&facts), err);
}

static bool is_there(const runner *r, const char *name)
{
    json_t *json;
    bool there = b1i_lab_read_json(r->options->out, name, &json, NULL) == B1_OK;
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
    if (!is_there(r, "device-before.json"))
        B1I_TRY(b1i_evidence_json(r->evidence, "device-before.json", b1i_environment_state(&r->options->device), err));
    b1i_study_sweep(r->options->out);
    for (size_t i = 0; i < r->plan.count; i++) r->done += b1i_study_has(r->options->out, r->plan.cells[i].id);
fail:
    return st;
}

static b1_status run_cells(runner *r, b1_error *err)
{
    b1_status st = B1_OK;
    for (r->at = 0; r->at < r->plan.count; r->at++)
        if (!b1i_study_has(r->options->out, r->plan.cells[r->at].id)) B1I_TRY(run_one(r, err));
    B1I_TRY(b1i_evidence_json(r->evidence, "device-after.json", b1i_environment_state(&r->options->device), err));
fail:
    if (st == B1_OK || st == B1_CANCELLED) {
        b1_status written = write_environment(r, true, st == B1_OK ? err : NULL);
        if (st == B1_OK) st = written;
    }
    return st;
}

b1_status b1i_study_run_all(const b1i_study_options *options, b1_error *err)
{
    b1_status st;
    b1_error why = {0};
    runner r = {.options = options, .began_ns = b1i_now_ns()};
    b1i_machine_date(r.date, sizeof r.date);
    B1I_TRY(b1i_study_plan_read(options->out, &r.plan, err));
    if ((st = b1i_study_plan_here(&r.plan, options->executable, &why)) != B1_OK) {
        st = b1i_fail(err, st, "%s: %s", options->out, why.message);
        goto fail;
    }
    if (!(r.seconds = b1i_calloc(r.plan.count + 1, sizeof *r.seconds))) {
        st = b1i_fail_memory(err, r.plan.count * sizeof *r.seconds);
        goto fail;
    }
    B1I_TRY(b1i_evidence_resume(options->out, &r.evidence, err));
    B1I_TRY(prepare(&r, err));
    B1I_TRY(run_cells(&r, err));
fail:
    b1i_evidence_close(r.evidence);
    json_decref(r.before);
    b1i_free(r.seconds);
    b1i_study_plan_free(&r.plan);
    return st;
}
