/* SPDX-License-Identifier: MIT
 *
 * The cells of a study checked and merged: what is sealed is what held. See study.h.
 */
#include "lab/evidence.h"
#include "lab/study/check.h"
#include "lab/study/pass.h"
#include "lab/study/plan.h"

static bool planned(const void *plan, const char *id) { return b1i_study_plan_find(plan, id) >= 0; }

b1_status b1i_study_check(const char *directory, const b1i_study_planned *plan,
                          void (*say)(void *user, const char *line), void *user, bool *holds, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_check c = {.directory = directory,
                   .binary = plan->binary,
                   .device_name = plan->device_name,
                   .say = say,
                   .user = user,
                   .holds = true};
    *holds = false;
    for (size_t i = 0; i < plan->count; i++) {
        bool there;
        B1I_TRY(b1i_check_folder(&c, plan->cells[i].id, &there, err));
        if (there) B1I_TRY(b1i_check_cell(&c, "cell.json", &plan->cells[i].setting, err));
    }
    B1I_TRY(b1i_check_others(&c, planned, plan, err));
    *holds = c.holds;
fail:
    return st;
}

static b1_status seal(b1i_evidence *evidence, const b1i_study_options *options, const b1i_study_planned *plan,
                      b1_error *err)
{
    json_t *analysis;
    b1i_study_options there = *options;
    there.device = plan->where;
    const b1i_pass pass = {.options = &there,
                           .experiment = "study",
                           .run = plan->run,
                           .binary = plan->binary,
                           .plan_options = json_object_get(plan->json, "options")};
    b1_status st = b1i_study_analyse(options->out, plan, &analysis, err);
    return st == B1_OK ? b1i_pass_seal(&pass, evidence, analysis, err) : st;
}

b1_status b1i_study_collect(const b1i_study_options *options, void (*say)(void *user, const char *line), void *user,
                            bool *holds, b1_error *err)
{
    b1_status st;
    b1i_study_planned plan = {0};
    b1i_evidence *evidence = NULL;
    const b1i_evidence_state is = b1i_evidence_look(options->out);
    *holds = false;
    if (is == b1i_evidence_sealed) return b1i_evidence_verify(options->out, say, user, holds, err);
    if (is == b1i_evidence_none) return b1i_fail(err, B1_IO, "there is no %s", options->out);
    B1I_TRY(b1i_study_plan_read(options->out, &plan, err));
    B1I_TRY(b1i_evidence_resume(options->out, &evidence, err));
    b1i_study_sweep(options->out);
    B1I_TRY(b1i_study_check(options->out, &plan, say, user, holds, err));
    if (*holds) B1I_TRY(seal(evidence, options, &plan, err));
fail:
    if (st != B1_OK) *holds = false;
    b1i_evidence_close(evidence);
    b1i_study_plan_free(&plan);
    return st;
}
