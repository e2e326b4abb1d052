/* SPDX-License-Identifier: MIT
 *
 * One session of an A/B: both arms in this process, in the session's order, and after both their profiles, so that
 * neither arm is timed with a profiler in the process. See ab.h.
 */
#include "lab/files.h"
#include "lab/machine.h"
#include "lab/step_profile.h"
#include "lab/study/ab_room.h"
#include "lab/study/measure.h"

#include <string.h>

typedef struct session {
    const b1i_ab_planned *plan;
    const b1i_ab_session *planned;
    b1i_measure_options how;
    b1i_setting arms[2];
    b1i_subject *subject; /* the last arm's; NULL: it could not be opened */
    json_t *cells[2], *profiles[2];
    bool shared; /* both arms ran on one engine */
} session;

/* ---- the kernels of both ---- */

static json_t *copy_of(const json_t *profile, const char *key)
{
    json_t *value = json_object_get(profile, key);
    return value ? json_incref(value) : json_null();
}

static json_t *kernels_of(const json_t *profile)
{
    return json_pack("{s:o,s:o,s:o,s:o}", "by", copy_of(profile, "by"), "kernels_per_step",
                     copy_of(profile, "kernels_per_step"), "sequence_sha256", copy_of(profile, "sequence_sha256"),
                     "message", copy_of(profile, "message"));
}

json_t *b1i_ab_kernels(const json_t *a, const json_t *b)
{
    bool both = json_is_true(json_object_get(a, "found")) && json_is_true(json_object_get(b, "found"));
    return json_pack("{s:o,s:o,s:o}", "a", kernels_of(a), "b", kernels_of(b), "same",
                     both ? json_boolean(b1i_step_profile_same(a, b)) : json_null());
}

/* ---- measuring ---- */

/* Makes the subject one that the arm can be measured on; without one the arm measures itself, and says why it cannot.
 */
static b1_status take_subject(session *s, int arm, bool second, b1_error *err)
{
    b1_error why = {0};
    s->shared = second && s->subject && b1i_subject_fits(s->subject, &s->arms[arm]);
    if (s->shared) return B1_OK;
    b1i_subject_close(s->subject);
    s->subject = NULL;
    b1_status st = b1i_subject_open(&s->arms[arm], &s->how, &s->subject, &why);
    if (st != B1_CANCELLED) return B1_OK;
    if (err) *err = why;
    return st;
}

static b1_status measure_arm(session *s, int arm, bool second, b1_error *err)
{
    const b1i_setting *setting = &s->arms[arm];
    json_t **profile = setting->stack ? &s->profiles[arm] : NULL;
    b1_status st = take_subject(s, arm, second, err);
    if (st != B1_OK) return st;
    if (!s->subject) return b1i_setting_measure(setting, &s->how, &s->cells[arm], profile, err);
    return b1i_subject_measure(s->subject, setting, &s->how, &s->cells[arm], profile, err);
}

static bool cell_ok(const json_t *cell)
{
    const char *status = json_string_value(json_object_get(cell, "status"));
    return status && strcmp(status, "ok") == 0;
}

/* Of our own engine; a stack has given its profile already. The arm that ran last has the subject, so it goes first. */
static b1_status profile_arms(session *s, b1_error *err)
{
    b1_status st = B1_OK;
    const int last = !s->planned->b_first;
    for (int k = 0; k < 2 && st == B1_OK; k++) {
        int arm = k == 0 ? last : !last;
        if (s->arms[arm].stack || !cell_ok(s->cells[arm])) continue;
        st = take_subject(s, arm, true, err);
        if (st == B1_OK && s->subject) st = b1i_subject_profile(s->subject, &s->arms[arm], &s->profiles[arm], err);
    }
    return st;
}

static b1_status measure(session *s, b1_error *err)
{
    const int first = s->planned->b_first;
    b1_status st;
    B1I_TRY(measure_arm(s, first, false, err));
    B1I_TRY(measure_arm(s, !first, true, err));
    if (!s->plan->launch_only) return B1_OK;
    bool shared = s->shared;
    B1I_TRY(profile_arms(s, err));
    s->shared = shared;
fail:
    return st;
}

/* ---- writing ---- */

json_t *b1i_ab_document(const b1i_ab_session *planned, const char *status, const char *message, double elapsed_s,
                        bool shared, json_t *kernels)
{
    char date[32];
    const char *first = planned->b_first ? "b" : "a", *second = planned->b_first ? "a" : "b";
    b1i_machine_date(date, sizeof date);
    return json_pack("{s:s,s:s,s:i,s:[s,s],s:s,s:s?,s:s,s:f,s:b,s:o}", "schema", "batchone.session/1", "id",
                     planned->id, "session", planned->number, "order", first, second, "status", status, "message",
                     message, "date", date, "elapsed_s", elapsed_s, "shared_engine", shared, "kernels", kernels);
}

static b1_status write_session(session *s, const char *directory, double elapsed_s, b1_error *err)
{
    json_t *kernels = s->plan->launch_only ? b1i_ab_kernels(s->profiles[0], s->profiles[1]) : json_null();
    json_t *document = b1i_ab_document(s->planned, "ok", NULL, elapsed_s, s->shared, kernels);
    if (!document) return b1i_fail(err, B1_MEMORY, "not enough memory for the session's document");
    const b1i_cell_file files[] = {{"a.json", s->cells[0]},
                                   {"b.json", s->cells[1]},
                                   {"a-profile.json", s->profiles[0]},
                                   {"b-profile.json", s->profiles[1]},
                                   {"session.json", document}};
    b1_status st = b1i_cell_write(directory, s->planned->id, files, sizeof files / sizeof *files, err);
    memset(s->cells, 0, sizeof s->cells);
    memset(s->profiles, 0, sizeof s->profiles);
    return st;
}

static void end(session *s)
{
    b1i_subject_close(s->subject);
    for (int i = 0; i < 2; i++) {
        json_decref(s->cells[i]);
        json_decref(s->profiles[i]);
        b1i_setting_free(&s->arms[i]);
    }
}

b1_status b1i_ab_measure(const b1i_ab_planned *plan, const b1i_ab_session *planned, const b1i_study_options *options,
                         b1_error *err)
{
    b1_status st = B1_OK;
    uint64_t began = b1i_now_ns();
    session s = {.plan = plan, .planned = planned, .how = {.cancelled = options->cancelled}};
    for (int i = 0; i < 2; i++) B1I_TRY(b1i_ab_arm(plan, i, planned->number, &s.arms[i], err));
    B1I_TRY(measure(&s, err));
    B1I_TRY(write_session(&s, options->out, (double)(b1i_now_ns() - began) / 1e9, err));
fail:
    end(&s);
    return st;
}
