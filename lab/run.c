/* SPDX-License-Identifier: MIT
 *
 * A run from its directory's making to its seal. See lab.h.
 *
 * What stands on disk decides where a resumed run goes on: without a plan from the beginning, else after the last whole
 * round. Its cells are prepared and warmed up anew in any case, so that what is checked at the end was made by this
 * process.
 */
#include "lab/run.h"

#include "lab/analysis.h"
#include "lab/environment.h"
#include "lab/files.h"
#include "lab/machine.h"
#include "lab/profile.h"
#include "lab/report.h"
#include "lab/samples.h"
#include "lab/work.h"

#include <stdio.h>
#include <string.h>

#define SEED_BITS ((1ull << 53) - 1)

/* ---- the directory ---- */

/* *fresh: it was made now. */
static b1_status take_directory(b1i_lab *lab, bool *fresh, b1_error *err)
{
    const b1i_lab_options *o = lab->options;
    b1i_evidence_state is = b1i_evidence_look(o->out);
    *fresh = is == b1i_evidence_none;
    if (*fresh) return b1i_evidence_create(o->out, &lab->evidence, err);
    if (is == b1i_evidence_incomplete && o->resume) return b1i_evidence_resume(o->out, &lab->evidence, err);
    return b1i_fail(err, B1_ARGUMENT, "%s is there already and is never written over: it is %s", o->out,
                    is == b1i_evidence_sealed       ? "a whole run"
                    : is == b1i_evidence_failed     ? "a run that failed"
                    : is == b1i_evidence_incomplete ? "an incomplete run, which --resume continues"
                                                    : "no run of the lab");
}

/* ---- the plan ---- */

static b1_status other_run(const b1i_lab *lab, const char *what, b1_error *err)
{
    return b1i_fail(err, B1_ARGUMENT, "%s was begun with another %s and cannot be resumed with this one",
                    lab->options->out, what);
}

/* Whether the plan that was found is of this experiment, device, binary and these options. */
static b1_status same_plan(const b1i_lab *lab, const b1i_lab_plan *found, b1_error *err)
{
    const b1i_lab_plan *p = &lab->plan;
    if (strcmp(found->experiment, p->experiment) != 0) return other_run(lab, "experiment", err);
    if (strcmp(found->device, p->device) != 0 || !found->device_name || strcmp(found->device_name, p->device_name) != 0)
        return other_run(lab, "device", err);
    if (found->quick != p->quick || found->threads != p->threads)
        return other_run(lab, "size or number of threads", err);
    if (lab->options->rounds && found->rounds != p->rounds) return other_run(lab, "number of rounds", err);
    if (strcmp(found->binary, p->binary) != 0) return other_run(lab, "build of batchone", err);
    bool same = found->count == p->count;
    for (size_t i = 0; same && i < p->count; i++)
        same = strcmp(found->cells[i].name, p->cells[i].name) == 0 && found->cells[i].kinds == p->cells[i].kinds &&
               found->cells[i].twin_of == p->cells[i].twin_of;
    return same ? B1_OK : other_run(lab, "list of cells", err);
}

/* The same of a run that was killed before its plan was written: what it was to be. */
static b1_status same_environment(const b1i_lab *lab, b1_error *err)
{
    json_t *environment;
    const char *experiment, *device;
    b1_status st = B1_OK;
    if (b1i_lab_read_json(lab->options->out, "environment.json", &environment, NULL) != B1_OK) return B1_OK;
    if (json_unpack(environment, "{s:s,s:s}", "experiment", &experiment, "device", &device) == 0) {
        if (strcmp(experiment, lab->plan.experiment) != 0) st = other_run(lab, "experiment", err);
        if (st == B1_OK && strcmp(device, lab->plan.device) != 0) st = other_run(lab, "device", err);
    }
    json_decref(environment);
    return st;
}

/* Takes the plan of the directory, where there is one, and the rounds that were measured. */
static b1_status take_plan(b1i_lab *lab, int *rounds, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_lab_plan found = {0};
    b1i_samples samples = {0};
    b1i_names names = {0};
    bool planned = false, measured = false, before = false;
    *rounds = 0;
    B1I_TRY(b1i_lab_list(lab->options->out, &names, err));
    for (size_t i = 0; i < names.count; i++) {
        planned = planned || strcmp(names.items[i], "plan.json") == 0;
        measured = measured || strcmp(names.items[i], "samples.jsonl") == 0;
        before = before || strcmp(names.items[i], "device-before.json") == 0;
    }
    if (!planned) {
        st = same_environment(lab, err);
        goto fail;
    }
    if (!before) {
        st = b1i_fail(err, B1_IO, "%s cannot be resumed: its device-before.json is gone", lab->options->out);
        goto fail;
    }
    B1I_TRY(b1i_lab_plan_read(lab->options->out, &found, err));
    B1I_TRY(same_plan(lab, &found, err));
    if (measured) {
        B1I_TRY(b1i_samples_read(lab->options->out, &found, false, &samples, err));
        B1I_TRY(b1i_evidence_cut(lab->evidence, samples.bytes, err));
        *rounds = samples.rounds;
    }
    b1i_lab_plan_free(&lab->plan);
    lab->plan = found;
    found = (b1i_lab_plan){0};
    lab->resumed = true;
fail:
    b1i_names_free(&names);
    b1i_samples_free(&samples);
    b1i_lab_plan_free(&found);
    return st;
}

/* The entries of the processes before this one, or NULL. A new reference. */
static json_t *processes_before(const b1i_lab *lab)
{
    json_t *environment, *list = NULL;
    if (b1i_lab_read_json(lab->options->out, "environment.json", &environment, NULL) != B1_OK) return NULL;
    list = json_incref(json_object_get(environment, "processes"));
    json_decref(environment);
    return json_is_array(list) ? list : (json_decref(list), NULL);
}

/* ---- from the plan to the seal ---- */

static b1_status start(b1i_lab *lab, b1_error *err)
{
    b1_status st;
    if (!lab->resumed) B1I_TRY(b1i_environment_device(lab, "device-before.json", err));
    B1I_TRY(b1i_lab_prepare(lab, err));
    B1I_TRY(b1i_lab_warm_up(lab, !lab->resumed, err));
    if (!lab->resumed) {
        B1I_TRY(b1i_evidence_json(lab->evidence, "plan.json", b1i_lab_plan_json(&lab->plan), err));
        B1I_TRY(b1i_evidence_append(lab->evidence, "", 0, err));
    }
fail:
    return st;
}

static b1_status finish(b1i_lab *lab, const json_t *before, b1i_process *now, void *state, b1_error *err)
{
    b1_status st;
    json_t *analysis = NULL;
    B1I_TRY(b1i_environment_device(lab, "device-after.json", err));
    B1I_TRY(b1i_lab_check(lab, err));
    now->checked = true;
    if (lab->experiment->after) B1I_TRY(lab->experiment->after(lab, state, err));
    B1I_TRY(b1i_profile_run(lab, err));
    now->ended = true;
    B1I_TRY(b1i_environment_write(lab, before, now, err));
    b1i_lab_say(lab, "sealing", 0, 1);
    B1I_TRY(b1i_analysis_make(lab->options->out, &analysis, err));
    B1I_TRY(b1i_evidence_json(lab->evidence, "analysis.json", json_incref(analysis), err));
    B1I_TRY(b1i_report_plots(lab->evidence, err));
    B1I_TRY(b1i_evidence_seal(lab->evidence, err));
fail:
    json_decref(analysis);
    return st;
}

/* A run in a directory that is open; *begun: a failure is the run's, not the command's. */
static b1_status run_in(b1i_lab *lab, bool fresh, b1i_process *now, bool *begun, b1_error *err)
{
    b1_status st;
    void *state = NULL;
    json_t *before = NULL;
    int rounds = 0;
    *begun = fresh;
    if (!fresh) before = processes_before(lab);
    if (fresh) B1I_TRY(b1i_environment_write(lab, NULL, now, err));
    B1I_TRY(lab->experiment->open(lab, &state, err));
    lab->started = true;
    B1I_TRY(take_plan(lab, &rounds, err));
    *begun = true;
    now->first_round = rounds + 1;
    if (!fresh) B1I_TRY(b1i_environment_write(lab, before, now, err));
    B1I_TRY(start(lab, err));
    now->last_round = rounds;
    st = b1i_lab_measure(lab, rounds + 1, &now->last_round, err);
    if (st == B1_CANCELLED) {
        now->ended = true; /* unchecked; and what is said of it may fail, for it was cancelled */
        b1i_environment_write(lab, before, now, NULL);
    }
    if (st == B1_OK) st = finish(lab, before, now, state, err);
fail:
    if (state || lab->started) lab->experiment->close(lab, state);
    json_decref(before);
    return st;
}

static int count_failed(const b1i_lab_plan *plan)
{
    int failed = 0;
    for (size_t i = 0; i < plan->count; i++)
        failed += plan->cells[i].status == b1i_cell_failed && plan->cells[i].twin_of < 0;
    return failed;
}

static uint64_t clock_seed(void) { return b1i_mix64(b1i_now_ns()); }

b1_status b1i_lab_run(const b1i_experiment *experiment, const b1i_lab_options *options, int *failed_cells,
                      b1_error *err)
{
    b1_status st;
    b1_error why = {0};
    bool begun = false, fresh;
    b1i_lab lab = {.experiment = experiment, .options = options};
    b1i_process now = {.first_round = 1, .began_ns = b1i_now_ns()};
    *failed_cells = 0;
    b1i_machine_date(now.date, sizeof now.date);
    lab.plan.quick = options->quick;
    lab.plan.threads = options->threads;
    lab.plan.rounds = options->rounds ? options->rounds : B1I_LAB_ROUNDS_LEAST;
    lab.plan.seed = (options->seed ? options->seed : clock_seed()) & SEED_BITS;
    if (lab.plan.rounds < B1I_LAB_ROUNDS_LEAST)
        return b1i_fail(err, B1_ARGUMENT, "%d rounds are too few: at least %d", lab.plan.rounds, B1I_LAB_ROUNDS_LEAST);
    B1I_TRY(b1i_environment_identify(&lab, &why));
    B1I_TRY(b1i_lab_device_open(&options->device, options->threads, &lab.device, &why));
    B1I_TRY(take_directory(&lab, &fresh, &why));
    st = run_in(&lab, fresh, &now, &begun, &why);
    if (st == B1_OK) *failed_cells = count_failed(&lab.plan);
    if (st != B1_OK && st != B1_CANCELLED && begun)
        b1i_evidence_fail(lab.evidence, st, why.message[0] ? why.message : b1_status_text(st));
fail:
    b1i_evidence_close(lab.evidence);
    b1i_lab_device_close(lab.device);
    b1i_lab_plan_free(&lab.plan);
    b1i_free(lab.cells);
    if (st != B1_OK && err) *err = why;
    return st;
}
