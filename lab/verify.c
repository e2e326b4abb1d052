/* SPDX-License-Identifier: MIT
 *
 * Verification of a run's directory: the manifest against what lies there, and what can be made again against what was
 * kept. Nothing is written. See evidence.h. What a run must have and what is checked of it follows from its kind, which
 * is the schema of its plan.
 */
#include "lab/analysis.h"
#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/plan.h"
#include "lab/profile.h"
#include "lab/report/plots.h"
#include "lab/study/ab_room.h"
#include "lab/study/plan.h"
#include "lab/trace_room.h"
#include "lab/verify_room.h"

#include <stdio.h>
#include <string.h>

/* The states of the device are documents of the run's device. */
static b1_status check_states(b1i_verification *v, b1_error *err)
{
    static const char *const names[] = {"device-before.json", "device-after.json"};
    b1_error why = {0};
    json_t *plan = NULL, *state = NULL;
    b1_status st = b1i_lab_read_json(v->directory, "plan.json", &plan, &why);
    for (int i = 0; i < 2 && st == B1_OK; i++) {
        if (!b1i_verify_find(v, names[i])) continue;
        st = b1i_lab_read_json(v->directory, names[i], &state, &why);
        const char *schema = json_string_value(json_object_get(state, "schema"));
        if (st == B1_OK && (!schema || strcmp(schema, "batchone.device/1") != 0 ||
                            !json_equal(json_object_get(state, "device"), json_object_get(plan, "device"))))
            b1i_verify_differs(v, "%s: is no batchone.device/1 of the device of plan.json", names[i]);
        json_decref(state);
    }
    json_decref(plan);
    return b1i_verify_difference(v, st, &why, err);
}

/* ---- what can be made again ---- */

static b1_status check_analysis(b1i_verification *v, b1_error *err)
{
    b1_error why = {0};
    json_t *stored = NULL, *made = NULL;
    b1_status st = b1i_lab_read_json(v->directory, "analysis.json", &stored, &why);
    if (st == B1_OK) st = b1i_analysis_make(v->directory, &made, &why);
    if (st == B1_OK) b1i_analysis_equal(stored, made, b1i_verify_say, v);
    json_decref(stored);
    json_decref(made);
    return b1i_verify_difference(v, st, &why, err);
}

static b1_status check_traces(b1i_verification *v, b1_error *err)
{
    b1_error why = {0};
    return b1i_verify_difference(v, b1i_traces_check(v->directory, v->files, b1i_verify_say, v, &why), &why, err);
}

static b1_status check_plots(b1i_verification *v, b1_error *err)
{
    b1_error why = {0};
    return b1i_verify_difference(v, b1i_plots_check(v->directory, b1i_verify_say, v, &why), &why, err);
}

static b1_status check_profile(b1i_verification *v, b1_error *err)
{
    b1_error why = {0};
    json_t *activities = NULL;
    if (!b1i_verify_find(v, "profile/activities.json")) return B1_OK;
    b1_status st = b1i_lab_read_json(v->directory, "profile/activities.json", &activities, &why);
    if (st == B1_OK) b1i_profile_check(activities, b1i_verify_say, v);
    json_decref(activities);
    return b1i_verify_difference(v, st, &why, err);
}

/* What plan and environment both say. */
static void compare_settings(b1i_verification *v, const json_t *plan, const json_t *environment)
{
    static const struct {
        const char *plan, *within, *environment;
    } both[] = {
        {"binary_sha256", NULL, "binary_sha256"}, {"quick", "options", "quick"},  {"threads", "options", "threads"},
        {"rounds", "options", "rounds"},          {"device_name", "gpu", "name"}, {"device_name", "machine", "cpu"},
    };
    const char *device = json_string_value(json_object_get(plan, "device"));
    const bool gpu = device && strcmp(device, "cpu") != 0;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        const char *within = both[i].within;
        if (within && strcmp(within, gpu ? "machine" : "gpu") == 0) continue;       /* the device is the other one */
        if (within && json_is_null(json_object_get(environment, within))) continue; /* a GPU that told nothing */
        const json_t *place = within ? json_object_get(environment, within) : environment;
        if (!json_equal(json_object_get(plan, both[i].plan), json_object_get(place, both[i].environment)))
            b1i_verify_differs(v, "environment.json: %s%s%s is not %s of plan.json", within ? within : "",
                               within ? "." : "", both[i].environment, both[i].plan);
    }
}

/* The environment is of the run that the plan is of. */
static b1_status check_run(b1i_verification *v, b1_error *err)
{
    b1_error why = {0};
    b1i_lab_plan plan = {0};
    json_t *environment = NULL, *settings = NULL;
    const char *run, *experiment, *device;
    b1_status st = b1i_lab_plan_read(v->directory, &plan, &why);
    if (st == B1_OK) st = b1i_lab_read_json(v->directory, "plan.json", &settings, &why);
    if (st == B1_OK) st = b1i_lab_read_json(v->directory, "environment.json", &environment, &why);
    if (st == B1_OK) {
        compare_settings(v, settings, environment);
        if (json_unpack(environment, "{s:s,s:s,s:s}", "run", &run, "experiment", &experiment, "device", &device) != 0)
            b1i_verify_differs(v, "environment.json: has no run, experiment or device");
        else if (strcmp(run, plan.run) != 0 || strcmp(experiment, plan.experiment) != 0 ||
                 strcmp(device, plan.device) != 0)
            b1i_verify_differs(v, "environment.json: is of the run %s (%s on %s), plan.json of %s (%s on %s)", run,
                               experiment, device, plan.run, plan.experiment, plan.device);
    }
    json_decref(environment);
    json_decref(settings);
    b1i_lab_plan_free(&plan);
    return b1i_verify_difference(v, st, &why, err);
}

/* Each command's output that is said to be a file is one of the manifest's. */
static b1_status check_commands(b1i_verification *v, b1_error *err)
{
    static const char *const streams[] = {"stdout", "stderr"};
    b1_error why = {0};
    json_t *document = NULL;
    b1_status st = b1i_lab_read_json(v->directory, "commands.json", &document, &why);
    const json_t *commands = json_object_get(document, "commands");
    if (st == B1_OK && !json_is_array(commands)) b1i_verify_differs(v, "commands.json: has no commands");
    for (size_t i = 0; i < json_array_size(commands); i++)
        for (int k = 0; k < 2; k++) {
            const json_t *stream = json_object_get(json_array_get(commands, i), streams[k]);
            const char *file = json_string_value(json_object_get(stream, "file"));
            if (!json_is_object(stream) && !json_is_null(stream))
                b1i_verify_differs(v, "commands.json: command %zu has no %s", i, streams[k]);
            else if (file && !b1i_verify_find(v, file))
                b1i_verify_differs(v, "commands.json: %s of command %zu is in %s, which is not there", streams[k], i,
                                   file);
        }
    json_decref(document);
    return b1i_verify_difference(v, st, &why, err);
}

/* ---- all ---- */

/* A directory that is not sealed: why. */
static void say_state(b1i_verification *v, b1i_evidence_state is)
{
    json_t *failed;
    if (is == b1i_evidence_incomplete) {
        b1i_verify_differs(v, "%s: is incomplete: no manifest.json seals it", v->directory);
    } else if (is == b1i_evidence_failed) {
        const char *reason = NULL;
        if (b1i_lab_read_json(v->directory, "failed.json", &failed, NULL) != B1_OK) failed = NULL;
        reason = json_string_value(json_object_get(failed, "reason"));
        b1i_verify_differs(v, "%s: is a run that failed: %s", v->directory,
                           reason ? reason : "for a reason that cannot be read");
        json_decref(failed);
    } else {
        b1i_verify_differs(v, "%s: is no run of the lab, no study and no A/B", v->directory);
    }
}

/* ---- a study ---- */

/* What plan and environment of a study, or of an A/B, both say. */
static b1_status check_place(b1i_verification *v, b1_error *err)
{
    static const char *const both[] = {"run", "device", "binary_sha256"};
    b1_error why = {0};
    json_t *plan = NULL, *environment = NULL;
    b1_status st = b1i_lab_read_json(v->directory, "plan.json", &plan, &why);
    if (st == B1_OK) st = b1i_lab_read_json(v->directory, "environment.json", &environment, &why);
    for (int i = 0; i < 3 && st == B1_OK; i++)
        if (!json_equal(json_object_get(plan, both[i]), json_object_get(environment, both[i])))
            b1i_verify_differs(v, "environment.json: %s is not that of plan.json", both[i]);
    json_decref(plan);
    json_decref(environment);
    return b1i_verify_difference(v, st, &why, err);
}

/* An analysis that was kept before the rows of `list` had a `key` is compared without it. */
static void leave_out_newer(const json_t *stored, json_t *made, const char *list, const char *key)
{
    const json_t *kept = json_object_get(stored, list);
    for (size_t i = 0; i < json_array_size(kept); i++)
        if (json_object_get(json_array_get(kept, i), key)) return;
    for (size_t i = 0; i < json_array_size(json_object_get(made, list)); i++)
        (void)json_object_del(json_array_get(json_object_get(made, list), i), key);
}

/* Its cells, and what follows from them. */
static b1_status check_study(b1i_verification *v, b1_error *err)
{
    b1_error why = {0};
    b1i_study_planned plan = {0};
    json_t *stored = NULL, *made = NULL;
    bool holds;
    b1_status st = b1i_study_plan_read(v->directory, &plan, &why);
    if (st == B1_OK) st = b1i_study_check(v->directory, &plan, b1i_verify_say, v, &holds, &why);
    if (st == B1_OK) st = b1i_lab_read_json(v->directory, "analysis.json", &stored, &why);
    if (st == B1_OK) st = b1i_study_analyse(v->directory, &plan, &made, &why);
    leave_out_newer(stored, made, "weights", "headline");
    leave_out_newer(stored, made, "batch", "headline");
    if (st == B1_OK) b1i_analysis_equal(stored, made, b1i_verify_say, v);
    json_decref(stored);
    json_decref(made);
    b1i_study_plan_free(&plan);
    return b1i_verify_difference(v, st, &why, err);
}

/* Its sessions, and what follows from them. */
static b1_status check_ab(b1i_verification *v, b1_error *err)
{
    b1_error why = {0};
    b1i_ab_planned plan = {0};
    json_t *stored = NULL, *made = NULL;
    bool holds;
    b1_status st = b1i_ab_read(v->directory, &plan, &why);
    if (st == B1_OK) st = b1i_ab_check(v->directory, &plan, b1i_verify_say, v, &holds, &why);
    if (st == B1_OK) st = b1i_lab_read_json(v->directory, "analysis.json", &stored, &why);
    if (st == B1_OK) st = b1i_ab_analyse(v->directory, &made, &why);
    leave_out_newer(stored, made, "rigs", "device_uuid");
    if (st == B1_OK) b1i_analysis_equal(stored, made, b1i_verify_say, v);
    json_decref(stored);
    json_decref(made);
    b1i_ab_free(&plan);
    return b1i_verify_difference(v, st, &why, err);
}

/* ---- kinds of runs ---- */

typedef b1_status (*checker)(b1i_verification *v, b1_error *err);
enum { REQUIRED_MOST = 8, CHECKS_MOST = 8 };

static const struct kind {
    const char *schema; /* of plan.json */
    const char *required[REQUIRED_MOST];
    checker checks[CHECKS_MOST];
    checker last; /* where all others hold: what follows from what they checked */
} KINDS[] = {
    {"batchone.plan/1",
     {"plan.json", "samples.jsonl", "analysis.json", "commands.json", "device-before.json", "device-after.json",
      "environment.json"},
     {check_run, check_states, check_commands, check_traces, check_profile, check_analysis},
     check_plots},
    {B1I_STUDY_PLAN,
     {"plan.json", "analysis.json", "commands.json", "environment.json"},
     {check_place, check_states, check_commands, check_study},
     check_plots},
    {"batchone.ab-plan/1",
     {"plan.json", "analysis.json", "commands.json", "environment.json"},
     {check_place, check_states, check_commands, check_ab},
     check_plots},
};

/* The kind of the run; of one that is none, and of a plan that cannot be read, the lab's, which says why. */
static b1_status kind_of(const b1i_verification *v, const struct kind **out, b1_error *err)
{
    json_t *plan;
    *out = &KINDS[0];
    b1_status st = b1i_lab_read_json(v->directory, "plan.json", &plan, err);
    const char *schema = json_string_value(json_object_get(plan, "schema"));
    for (size_t i = 0; schema && i < sizeof KINDS / sizeof *KINDS; i++)
        if (strcmp(schema, KINDS[i].schema) == 0) *out = &KINDS[i];
    json_decref(plan);
    return st == B1_MEMORY ? st : B1_OK;
}

static b1_status check_kind(b1i_verification *v, b1_error *err)
{
    const struct kind *kind;
    b1_status st;
    B1I_TRY(kind_of(v, &kind, err));
    for (int i = 0; i < REQUIRED_MOST && kind->required[i]; i++)
        if (!b1i_verify_find(v, kind->required[i]))
            b1i_verify_differs(v, "manifest.json: has no %s, which every such run has", kind->required[i]);
    for (int i = 0; i < CHECKS_MOST && kind->checks[i]; i++) B1I_TRY(kind->checks[i](v, err));
    if (v->holds && kind->last) B1I_TRY(kind->last(v, err));
fail:
    return st;
}

b1_status b1i_evidence_verify(const char *directory, void (*say)(void *user, const char *line), void *user, bool *holds,
                              b1_error *err)
{
    b1_status st = B1_OK;
    b1i_verification v = {.directory = directory, .say = say, .user = user, .holds = true};
    b1i_evidence_state is = b1i_evidence_look(directory);
    *holds = false;
    if (is == b1i_evidence_none) return b1i_fail(err, B1_ARGUMENT, "there is no %s", directory);
    if (is != b1i_evidence_sealed) {
        say_state(&v, is);
        return B1_OK;
    }
    B1I_TRY(b1i_verify_files(&v, err));
    B1I_TRY(check_kind(&v, err));
    *holds = v.holds;
fail:
    b1i_verify_end(&v);
    return st;
}
