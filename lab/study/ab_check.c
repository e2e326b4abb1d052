/* SPDX-License-Identifier: MIT
 *
 * The sessions of an A/B checked: each whole, of the plan, and saying what its steps and profiles say. See ab.h.
 */
#include "lab/files.h"
#include "lab/study/ab_room.h"
#include "lab/study/check.h"

#include <string.h>

static const char *const ARMS[] = {"a", "b"}, *const CELLS[] = {"a.json", "b.json"};

static b1_status check_arm(b1i_check *c, const b1i_ab_planned *plan, int arm, int session, b1_error *err)
{
    b1i_setting setting = {0};
    b1_status st = b1i_ab_arm(plan, arm, session, &setting, err);
    if (st == B1_OK) st = b1i_check_cell(c, CELLS[arm], &setting, err);
    b1i_setting_free(&setting);
    return st;
}

static void check_order(b1i_check *c, const b1i_ab_session *s, const json_t *session)
{
    const json_t *order = json_object_get(session, "order");
    const char *first = json_string_value(json_array_get(order, 0)),
               *last = json_string_value(json_array_get(order, 1));
    const json_t *number = json_object_get(session, "session");
    if (strcmp(b1i_lab_text_at(session, "schema"), "batchone.session/1") != 0 ||
        strcmp(b1i_lab_text_at(session, "id"), s->id) != 0 || !json_is_integer(number) ||
        json_integer_value(number) != s->number || json_array_size(order) != 2 || !first || !last ||
        strcmp(first, ARMS[s->b_first]) != 0 || strcmp(last, ARMS[!s->b_first]) != 0)
        b1i_check_differs(c, "is not the session that the plan has");
}

static b1_status check_kernels(b1i_check *c, const b1i_ab_planned *plan, const json_t *session, b1_error *err)
{
    json_t *profiles[2] = {NULL, NULL}, *made = NULL;
    b1_status st;
    B1I_TRY(b1i_check_read(c, "a-profile.json", false, &profiles[0], err));
    B1I_TRY(b1i_check_read(c, "b-profile.json", false, &profiles[1], err));
    made = plan->launch_only ? b1i_ab_kernels(profiles[0], profiles[1]) : json_null();
    c->file = "session.json";
    if (!made)
        st = b1i_fail(err, B1_MEMORY, "not enough memory for a profile");
    else if (!json_equal(made, json_object_get(session, "kernels")))
        b1i_check_differs(c, "its kernels do not follow from the profiles");
fail:
    json_decref(made);
    json_decref(profiles[0]);
    json_decref(profiles[1]);
    return st;
}

static b1_status check_session(b1i_check *c, const b1i_ab_planned *plan, const b1i_ab_session *s, b1_error *err)
{
    b1_status st;
    json_t *session = NULL;
    bool there;
    B1I_TRY(b1i_check_folder(c, s->id, &there, err));
    if (there) B1I_TRY(b1i_check_read(c, "session.json", true, &session, err));
    if (!session) return B1_OK;
    check_order(c, s, session);
    if (strcmp(b1i_lab_text_at(session, "status"), "ok") == 0) {
        B1I_TRY(check_kernels(c, plan, session, err));
        B1I_TRY(check_arm(c, plan, 0, s->number, err));
        B1I_TRY(check_arm(c, plan, 1, s->number, err));
    } else if (!*b1i_lab_text_at(session, "status") || !*b1i_lab_text_at(session, "message")) {
        b1i_check_differs(c, "has no status, or one without a reason");
    }
fail:
    json_decref(session);
    return st;
}

static bool planned(const void *user, const char *id)
{
    const b1i_ab_planned *plan = user;
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->sessions[i].id, id) == 0) return true;
    return false;
}

b1_status b1i_ab_check(const char *directory, const b1i_ab_planned *plan, void (*say)(void *user, const char *line),
                       void *user, bool *holds, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_check c = {.directory = directory,
                   .binary = plan->binary,
                   .device_name = b1i_ab_device_name(plan),
                   .say = say,
                   .user = user,
                   .holds = true};
    *holds = false;
    for (size_t i = 0; i < plan->count; i++) B1I_TRY(check_session(&c, plan, &plan->sessions[i], err));
    B1I_TRY(b1i_check_others(&c, planned, plan, err));
    *holds = c.holds;
fail:
    return st;
}
