/* SPDX-License-Identifier: MIT
 *
 * An A/B from its plan to its seal. See ab.h.
 */
#include "lab/environment.h"
#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/study/ab_room.h"
#include "lab/study/measure.h"
#include "lab/study/pass.h"
#include "lab/study/plan.h"

#include <stdio.h>
#include <string.h>

#define SEED_BITS ((1ull << 53) - 1)
enum { SESSIONS_MOST = 1000 };

/* ---- the plan ---- */

static json_t *sessions_json(const b1i_ab_planned *plan, int count, b1_status *st, b1_error *err)
{
    json_t *list = json_array();
    for (int i = 0; list && i < count; i++) {
        const bool b_first = i % 2;
        char id[B1I_SETTING_ID];
        if ((*st = b1i_ab_id(plan, i + 1, b_first, id, err)) != B1_OK) break;
        json_array_append_new(list, json_pack("{s:s,s:i,s:[s,s]}", "id", id, "session", i + 1, "order",
                                              b_first ? "b" : "a", b_first ? "a" : "b"));
    }
    return list;
}

static b1_status plan_json(const b1i_ab_options *o, const char *run, json_t **out, b1_error *err)
{
    const b1i_device *device = &o->run.device;
    const bool known = b1i_ab_launch_only(&o->a, &o->b), launch_only = known || o->launch_only;
    const uint64_t seed = (o->seed ? o->seed : b1i_mix64(b1i_now_ns())) & SEED_BITS;
    b1i_ab_planned plan = {.arms = {o->a, o->b}}; /* borrowed */
    b1i_gpu_facts facts = {.uuid = ""};
    char binary[65], name[256];
    uint64_t bytes;
    b1_status st = b1i_sha256_file(o->run.executable ? o->run.executable : "/proc/self/exe", binary, &bytes, err);
    if (st != B1_OK) return st;
    plan.binary = binary;
    for (int i = 0; i < 2; i++) {
        plan.arms[i].session = 0;
        plan.arms[i].profile = launch_only && plan.arms[i].stack; /* batchone's own is profiled after both arms */
    }
    b1i_environment_device_name(device, name, sizeof name);
    if (device->ordinal != B1I_DEVICE_CPU) b1i_device_facts(device->ordinal, &facts, NULL);
    json_t *cells = sessions_json(&plan, o->sessions, &st, err);
    *out = json_pack("{s:s,s:s,s:s,s:s,s:o,s:s,s:s,s:{s:i,s:i,s:I},s:o,s:o,s:b,s:o}", "schema", "batchone.ab-plan/1",
                     "run", run, "device", device->name, "device_name", name, "gpu_uuid", b1i_lab_text(facts.uuid),
                     "version", b1_version(), "binary_sha256", binary, "options", "sessions", o->sessions, "resamples",
                     o->resamples ? o->resamples : B1I_AB_RESAMPLES, "seed", (json_int_t)seed, "a",
                     b1i_setting_json(&plan.arms[0]), "b", b1i_setting_json(&plan.arms[1]), "launch_only", launch_only,
                     "cells", cells);
    if (st == B1_OK && !*out) st = b1i_fail(err, B1_MEMORY, "not enough memory for the plan");
    return st;
}

b1_status b1i_ab_same_draws(const char *directory, int resamples, uint64_t seed, b1_error *err)
{
    b1i_ab_planned plan;
    b1_status st = b1i_ab_read(directory, &plan, err);
    if (st != B1_OK) return st;
    if (resamples && resamples != plan.resamples)
        st = b1i_fail(err, B1_ARGUMENT, "%s was begun with %d resamples and cannot be resumed with %d", directory,
                      plan.resamples, resamples);
    else if (seed && (seed & SEED_BITS) != plan.seed)
        st = b1i_fail(err, B1_ARGUMENT, "%s was begun with the seed %llu and cannot be resumed with %llu", directory,
                      (unsigned long long)plan.seed, (unsigned long long)seed);
    b1i_ab_free(&plan);
    return st;
}

/* Whether the directory's plan is this one, but for the run's name and what nobody asked for. */
static b1_status same_plan(const b1i_ab_options *o, b1_error *err)
{
    b1_status st;
    json_t *found = NULL, *made = NULL;
    static const char *const keys[] = {"device", "a", "b", "launch_only", "cells", "binary_sha256"};
    B1I_TRY(b1i_lab_read_json(o->run.out, "plan.json", &found, err));
    B1I_TRY(plan_json(o, "", &made, err));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(found, keys[i]), json_object_get(made, keys[i]))) {
            st = i == 4
                     ? b1i_fail(err, B1_ARGUMENT, "the plan of %s has %zu sessions, and it alone says how many: not %d",
                                o->run.out, json_array_size(json_object_get(found, keys[i])), o->sessions)
                     : b1i_fail(err, B1_ARGUMENT, "%s was begun with another %s and cannot be resumed with this one",
                                o->run.out, i == 5 ? "build of batchone" : keys[i]);
            goto fail;
        }
    st = b1i_ab_same_draws(o->run.out, o->resamples, o->seed, err);
fail:
    json_decref(found);
    json_decref(made);
    return st;
}

static b1_status check_options(const b1i_ab_options *o, b1_error *err)
{
    if (o->sessions < 1 || o->sessions > SESSIONS_MOST || (o->resamples && o->resamples < 100))
        return b1i_fail(err, B1_ARGUMENT, "an A/B has 1 to %d sessions, and at least 100 resamples", SESSIONS_MOST);
    if (strcmp(o->a.model, o->b.model) != 0 || strcmp(o->a.device, o->b.device) != 0)
        return b1i_fail(err, B1_ARGUMENT, "A and B are of two models or devices, which no A/B compares");
    return B1_OK;
}

b1_status b1i_ab_plan(const b1i_ab_options *o, b1_error *err)
{
    b1_status st;
    b1i_evidence *evidence = NULL;
    json_t *plan = NULL;
    char run[40];
    bool begun;
    B1I_TRY(check_options(o, err));
    B1I_TRY(b1i_environment_name(run, sizeof run, err));
    B1I_TRY(plan_json(o, run, &plan, err));
    B1I_TRY(b1i_study_directory(&o->run, &evidence, &begun, err));
    if (begun) {
        st = same_plan(o, err);
    } else {
        st = b1i_evidence_json(evidence, "plan.json", plan, err);
        plan = NULL;
    }
fail:
    json_decref(plan);
    b1i_evidence_close(evidence);
    return st;
}

b1_status b1i_ab_each(const char *directory, void (*say)(void *user, const char *id, bool done), void *user,
                      b1_error *err)
{
    b1i_ab_planned plan;
    b1_status st = b1i_ab_read(directory, &plan, err);
    for (size_t i = 0; i < plan.count; i++)
        say(user, plan.sessions[i].id, b1i_study_has(directory, plan.sessions[i].id));
    b1i_ab_free(&plan);
    return st;
}

/* ---- sessions ---- */

/* The plan, if it is of this build and device. */
static b1_status read_here(const b1i_study_options *options, b1i_ab_planned *plan, b1_error *err)
{
    b1_error why = {0};
    b1_status st = b1i_ab_read(options->out, plan, err);
    if (st != B1_OK) return st;
    const b1i_study_planned here = {
        .device = plan->device, .binary = plan->binary, .device_name = b1i_ab_device_name(plan)};
    if ((st = b1i_study_plan_here(&here, options->executable, &why)) == B1_OK) return st;
    b1i_ab_free(plan);
    return b1i_fail(err, st, "%s: %s", options->out, why.message);
}

b1_status b1i_ab_run_session(const b1i_study_options *options, const char *id, b1_error *err)
{
    b1i_ab_planned plan;
    const b1i_ab_session *session = NULL;
    b1_status st = read_here(options, &plan, err);
    if (st != B1_OK) return st;
    for (size_t i = 0; i < plan.count; i++)
        if (strcmp(plan.sessions[i].id, id) == 0) session = &plan.sessions[i];
    if (!session)
        st = b1i_fail(err, B1_ARGUMENT, "the plan of %s has no session %.40s", options->out, id);
    else if (!b1i_study_has(options->out, id))
        st = b1i_ab_measure(&plan, session, options, err);
    if (session && st == B1_ARGUMENT && b1i_study_has(options->out, id)) st = B1_OK; /* another process was quicker */
    b1i_ab_free(&plan);
    return st;
}

typedef struct all {
    const b1i_study_options *options;
    b1i_ab_planned plan;
} all;

static const char *id_of(void *user, size_t at) { return ((all *)user)->plan.sessions[at].id; }
static const char *model_of(void *user, size_t at)
{
    (void)at;
    return ((all *)user)->plan.arms[0].model;
}

static void say(void *user, size_t at, char *what, size_t bytes)
{
    const b1i_ab_planned *p = &((all *)user)->plan;
    snprintf(what, bytes, "session %d of %zu, %s first", p->sessions[at].number, p->count,
             p->sessions[at].b_first ? "b" : "a");
}

static b1_status write_lost(void *user, size_t at, const char *status, const char *message, b1_error *err)
{
    const all *a = user;
    const b1i_ab_session *s = &a->plan.sessions[at];
    const b1i_cell_file file = {"session.json", b1i_ab_document(s, status, message, 0, false, json_null())};
    if (!file.json) return b1i_fail(err, B1_MEMORY, "not enough memory for the session's document");
    return b1i_cell_write(a->options->out, s->id, &file, 1, err);
}

b1_status b1i_ab_run_all(const b1i_study_options *options, b1_error *err)
{
    all a = {.options = options};
    b1_status st = read_here(options, &a.plan, err);
    if (st != B1_OK) return st;
    b1i_study_options there = *options; /* the plan's device, whatever the command was told */
    there.device = b1i_study_device(a.plan.device);
    const b1i_pass pass = {.options = &there,
                           .experiment = "ab",
                           .verb = {"ab", "run", "--session"},
                           .name = "session",
                           .run = a.plan.run,
                           .binary = a.plan.binary,
                           .plan_options = json_object_get(a.plan.json, "options"),
                           .count = a.plan.count,
                           .id = id_of,
                           .model = model_of,
                           .say = say,
                           .lost = write_lost,
                           .user = &a};
    st = b1i_pass_run(&pass, err);
    b1i_ab_free(&a.plan);
    return st;
}

/* ---- the seal ---- */

static b1_status seal(b1i_evidence *evidence, const b1i_study_options *options, const b1i_ab_planned *plan,
                      b1_error *err)
{
    json_t *analysis;
    b1i_study_options there = *options;
    there.device = b1i_study_device(plan->device);
    const b1i_pass pass = {.options = &there,
                           .experiment = "ab",
                           .run = plan->run,
                           .binary = plan->binary,
                           .plan_options = json_object_get(plan->json, "options")};
    b1_status st = b1i_ab_analyse(options->out, &analysis, err);
    return st == B1_OK ? b1i_pass_seal(&pass, evidence, analysis, err) : st;
}

b1_status b1i_ab_collect(const b1i_study_options *options, void (*say_it)(void *user, const char *line), void *user,
                         bool *holds, b1_error *err)
{
    b1_status st;
    b1i_ab_planned plan = {0};
    b1i_evidence *evidence = NULL;
    const b1i_evidence_state is = b1i_evidence_look(options->out);
    *holds = false;
    if (is == b1i_evidence_sealed) return b1i_evidence_verify(options->out, say_it, user, holds, err);
    if (is == b1i_evidence_none) return b1i_fail(err, B1_IO, "there is no %s", options->out);
    B1I_TRY(b1i_ab_read(options->out, &plan, err));
    B1I_TRY(b1i_evidence_resume(options->out, &evidence, err));
    b1i_study_sweep(options->out);
    B1I_TRY(b1i_ab_check(options->out, &plan, say_it, user, holds, err));
    if (*holds) B1I_TRY(seal(evidence, options, &plan, err));
fail:
    if (st != B1_OK) *holds = false;
    b1i_evidence_close(evidence);
    b1i_ab_free(&plan);
    return st;
}
