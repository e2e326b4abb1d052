/* SPDX-License-Identifier: MIT
 *
 * A planned study measured: one cell in this process, or all of them, each in a process of its own. See study.h.
 *
 * A cell whose folder is there is done.
 */
#include "lab/study/measure.h"
#include "lab/study/pass.h"
#include "lab/study/plan.h"

#include <stdio.h>
#include <string.h>

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

/* Whether the plan is of this build and device. */
static b1_status plan_here(const b1i_study_options *options, const b1i_study_planned *plan, b1_error *err)
{
    b1_error why = {0};
    b1_status st = b1i_study_plan_here(plan, options->executable, &why);
    return st == B1_OK ? st : b1i_fail(err, st, "%s: %s", options->out, why.message);
}

b1_status b1i_study_run_cell(const b1i_study_options *options, const char *id, b1_error *err)
{
    b1i_study_planned plan;
    b1_status st = b1i_study_plan_read(options->out, &plan, err);
    if (st != B1_OK) return st;
    int at = b1i_study_plan_find(&plan, id);
    if (at < 0) {
        st = b1i_fail(err, B1_ARGUMENT, "the plan of %s has no cell %.40s", options->out, id);
        goto fail;
    }
    if (b1i_study_has(options->out, id)) goto fail;
    B1I_TRY(plan_here(options, &plan, err));
    B1I_TRY(measure_here(options, &plan.cells[at], err));
fail:
    b1i_study_plan_free(&plan);
    return st;
}

/* ---- all ---- */

typedef struct all {
    const b1i_study_options *options;
    b1i_study_planned plan;
} all;

static const char *id_of(void *user, size_t at) { return ((all *)user)->plan.cells[at].id; }
static const char *model_of(void *user, size_t at) { return ((all *)user)->plan.cells[at].setting.model; }

static void say(void *user, size_t at, char *what, size_t bytes)
{
    const b1i_setting *s = &((all *)user)->plan.cells[at].setting;
    const char *slash = strrchr(s->model, '/');
    snprintf(what, bytes, "%.40s %.24s %d", slash ? slash + 1 : s->model, s->executor ? s->executor : "stack",
             s->context);
}

static b1_status write_lost(void *user, size_t at, const char *status, const char *message, b1_error *err)
{
    const all *a = user;
    json_t *cell;
    b1_status st = b1i_setting_failed(&a->plan.cells[at].setting, status, message, &cell, err);
    if (st != B1_OK) return st;
    const b1i_cell_file file = {"cell.json", cell};
    return b1i_cell_write(a->options->out, a->plan.cells[at].id, &file, 1, err);
}

b1_status b1i_study_run_all(const b1i_study_options *options, b1_error *err)
{
    b1_status st;
    all a = {.options = options};
    B1I_TRY(b1i_study_plan_read(options->out, &a.plan, err));
    B1I_TRY(plan_here(options, &a.plan, err));
    b1i_study_options there = *options; /* the plan's device, whatever the command was told */
    there.device = a.plan.where;
    const b1i_pass pass = {.options = &there,
                           .experiment = "study",
                           .verb = {"study", "run", "--cell"},
                           .name = "cell",
                           .run = a.plan.run,
                           .binary = a.plan.binary,
                           .plan_options = json_object_get(a.plan.json, "options"),
                           .count = a.plan.count,
                           .id = id_of,
                           .model = model_of,
                           .say = say,
                           .lost = write_lost,
                           .user = &a};
    B1I_TRY(b1i_pass_run(&pass, err));
fail:
    b1i_study_plan_free(&a.plan);
    return st;
}
