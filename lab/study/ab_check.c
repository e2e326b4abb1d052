/* SPDX-License-Identifier: MIT
 *
 * The sessions of an A/B checked: each whole, of the plan, and saying what its steps and profiles say. See ab.h.
 */
#include "lab/files.h"
#include "lab/study/ab_room.h"
#include "lab/study/measure.h"
#include "lab/study/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const ARMS[] = {"a", "b"}, *const CELLS[] = {"a.json", "b.json"};

typedef struct check {
    const char *directory;
    const b1i_ab_planned *plan;
    void (*say)(void *user, const char *line);
    void *user;
    const char *id, *file; /* of the session that is looked at */
    bool holds;
} check;

__attribute__((format(printf, 2, 3))) static void differs(check *c, const char *format, ...)
{
    char line[900];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    c->holds = false;
    if (c->say) c->say(c->user, line);
}

static void say_of_folder(void *user, const char *line)
{
    check *c = user;
    differs(c, "cells/%s/%s", c->id, line);
}

static void say_of_file(void *user, const char *line)
{
    check *c = user;
    differs(c, "cells/%s/%s: %s", c->id, c->file, line);
}

/* A file of the session; NULL where there is none. */
static b1_status read_file(const check *c, const char *file, json_t **out, b1_error *err)
{
    char name[96];
    b1_error why = {0};
    snprintf(name, sizeof name, "cells/%s/%s", c->id, file);
    b1_status st = b1i_lab_read_json(c->directory, name, out, &why);
    return st == B1_MEMORY ? b1i_fail(err, st, "%s", why.message) : B1_OK;
}

/* ---- an arm ---- */

static b1_status check_identity(check *c, const b1i_setting *setting, const json_t *cell, b1_error *err)
{
    char id[B1I_SETTING_ID];
    json_t *json = b1i_setting_json(setting);
    b1_status st = json ? b1i_setting_id(setting, c->plan->binary, id, err) : b1i_fail_memory(err, sizeof *setting);
    if (st == B1_OK) {
        if (!json_equal(json, json_object_get(cell, "setting")) || strcmp(b1i_lab_text_at(cell, "id"), id) != 0)
            say_of_file(c, "was measured with another setting than the plan has");
        if (strcmp(b1i_lab_text_at(cell, "binary_sha256"), c->plan->binary) != 0)
            say_of_file(c, "was measured by another build than the plan's");
    }
    json_decref(json);
    return st;
}

static b1_status check_arm(check *c, const b1i_ab_session *s, int arm, b1_error *err)
{
    json_t *cell = NULL;
    b1i_setting setting = {0};
    b1_status st;
    c->file = CELLS[arm];
    B1I_TRY(read_file(c, c->file, &cell, err));
    if (!cell) {
        say_of_file(c, "is missing or no JSON object");
        return B1_OK;
    }
    B1I_TRY(b1i_ab_arm(c->plan, arm, s->number, &setting, err));
    B1I_TRY(check_identity(c, &setting, cell, err));
    b1i_cell_check(cell, say_of_file, c);
fail:
    b1i_setting_free(&setting);
    json_decref(cell);
    return st;
}

/* ---- a session ---- */

static void check_order(check *c, const b1i_ab_session *s, const json_t *session)
{
    const json_t *order = json_object_get(session, "order");
    const char *first = json_string_value(json_array_get(order, 0)),
               *last = json_string_value(json_array_get(order, 1));
    const json_t *number = json_object_get(session, "session");
    if (strcmp(b1i_lab_text_at(session, "schema"), "batchone.session/1") != 0 ||
        strcmp(b1i_lab_text_at(session, "id"), s->id) != 0 || !json_is_integer(number) ||
        json_integer_value(number) != s->number || json_array_size(order) != 2 || !first || !last ||
        strcmp(first, ARMS[s->b_first]) != 0 || strcmp(last, ARMS[!s->b_first]) != 0)
        say_of_file(c, "is not the session that the plan has");
}

static b1_status check_kernels(check *c, const json_t *session, b1_error *err)
{
    json_t *profiles[2] = {NULL, NULL}, *made = NULL;
    b1_status st;
    B1I_TRY(read_file(c, "a-profile.json", &profiles[0], err));
    B1I_TRY(read_file(c, "b-profile.json", &profiles[1], err));
    made = c->plan->launch_only ? b1i_ab_kernels(profiles[0], profiles[1]) : json_null();
    if (!made)
        st = b1i_fail(err, B1_MEMORY, "not enough memory for a profile");
    else if (!json_equal(made, json_object_get(session, "kernels")))
        say_of_file(c, "its kernels do not follow from the profiles");
fail:
    json_decref(made);
    json_decref(profiles[0]);
    json_decref(profiles[1]);
    return st;
}

static b1_status check_session(check *c, const b1i_ab_session *s, b1_error *err)
{
    b1_status st;
    json_t *session = NULL;
    bool whole;
    c->id = s->id;
    c->file = "session.json";
    B1I_TRY(b1i_cell_whole(c->directory, s->id, say_of_folder, c, &whole, err));
    B1I_TRY(read_file(c, c->file, &session, err));
    check_order(c, s, session);
    if (strcmp(b1i_lab_text_at(session, "status"), "ok") == 0) {
        B1I_TRY(check_kernels(c, session, err));
        B1I_TRY(check_arm(c, s, 0, err));
        B1I_TRY(check_arm(c, s, 1, err));
    } else if (!*b1i_lab_text_at(session, "status") || !*b1i_lab_text_at(session, "message")) {
        say_of_file(c, "has no status, or one without a reason");
    }
fail:
    json_decref(session);
    return st;
}

static bool planned(const b1i_ab_planned *plan, const char *name, size_t length)
{
    for (size_t i = 0; i < plan->count; i++)
        if (strlen(plan->sessions[i].id) == length && strncmp(plan->sessions[i].id, name, length) == 0) return true;
    return false;
}

/* Folders that no session of the plan has. */
static b1_status check_others(check *c, b1_error *err)
{
    b1i_names names;
    b1_status st = b1i_lab_list(c->directory, &names, err);
    for (size_t i = 0; i < names.count && st == B1_OK; i++) {
        const char *name = names.items[i];
        if (strncmp(name, "cells/", 6) != 0 || !name[6]) continue;
        size_t length = strcspn(name + 6, "/");
        if (name[6 + length] == '/' && !name[6 + length + 1] && !planned(c->plan, name + 6, length))
            differs(c, "%.200s: is no session of the plan", name);
    }
    b1i_names_free(&names);
    return st;
}

b1_status b1i_ab_check(const char *directory, void (*say)(void *user, const char *line), void *user, bool *holds,
                       bool *whole, b1_error *err)
{
    b1_status st;
    b1_error why = {0};
    b1i_ab_planned plan;
    check c = {directory, &plan, say, user, NULL, NULL, true};
    *holds = *whole = false;
    if ((st = b1i_ab_read(directory, &plan, &why)) != B1_OK) {
        if (st == B1_MEMORY) return b1i_fail(err, st, "%s", why.message);
        differs(&c, "%s", why.message);
        return B1_OK;
    }
    *whole = true;
    for (size_t i = 0; i < plan.count; i++) {
        if (b1i_study_has(directory, plan.sessions[i].id))
            B1I_TRY(check_session(&c, &plan.sessions[i], err));
        else
            *whole = false;
    }
    B1I_TRY(check_others(&c, err));
    *holds = c.holds;
fail:
    b1i_ab_free(&plan);
    return st;
}
