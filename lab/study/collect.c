/* SPDX-License-Identifier: MIT
 *
 * The cells of a study checked and merged: what is sealed is what held. See study.h.
 */
#include "lab/environment.h"
#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/report.h"
#include "lab/study/measure.h"
#include "lab/study/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct check {
    const char *directory;
    const b1i_study_planned *plan;
    void (*say)(void *user, const char *line);
    void *user;
    const char *id; /* of the cell that is looked at; NULL: none */
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

static void say_of_file(void *user, const char *line)
{
    check *c = user;
    differs(c, "cells/%s/%s", c->id, line);
}

static void say_line(void *user, const char *line) { differs(user, "%s", line); }

/* The cell is that of its setting, of this plan's build and device. */
static void check_identity(check *c, const b1i_planned *planned, const json_t *cell, b1_status *st, b1_error *err)
{
    const char *id = json_string_value(json_object_get(cell, "id"));
    const char *binary = json_string_value(json_object_get(cell, "binary_sha256"));
    const char *device = json_string_value(json_object_get(cell, "device_name"));
    json_t *setting = b1i_setting_json(&planned->setting);
    if (!setting) {
        *st = b1i_fail(err, B1_MEMORY, "not enough memory for a setting");
        return;
    }
    if (!id || strcmp(id, planned->id) != 0) differs(c, "cells/%s/cell.json: is the cell %.40s", c->id, id ? id : "?");
    if (!json_equal(setting, json_object_get(cell, "setting")))
        differs(c, "cells/%s/cell.json: was measured with another setting than the plan has", c->id);
    if (!binary || strcmp(binary, c->plan->binary) != 0)
        differs(c, "cells/%s/cell.json: was measured by another build than the plan's", c->id);
    if (c->plan->device_name && (!device || strcmp(device, c->plan->device_name) != 0))
        differs(c, "cells/%s/cell.json: was measured on %.100s, the plan is for %s", c->id,
                device ? device : "no device", c->plan->device_name);
    json_decref(setting);
}

/* What the cell says beside its setting must be of it. */
static void check_words(check *c, const b1i_planned *planned, const json_t *cell)
{
    const b1i_setting *s = &planned->setting;
    const struct {
        const char *key;
        int value;
    } numbers[] = {{"context", s->context}, {"batch", s->batch}, {"session", s->session}};
    const char *executor = json_string_value(json_object_get(cell, "executor"));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (json_integer_value(json_object_get(cell, numbers[i].key)) != numbers[i].value)
            differs(c, "cells/%s/cell.json: its %s is not that of its setting", c->id, numbers[i].key);
    if (!executor ||
        (s->executor ? strcmp(executor, s->executor) != 0 : s->stack && strncmp(executor, "stack:", 6) != 0))
        differs(c, "cells/%s/cell.json: its executor is not that of its setting", c->id);
}

static b1_status check_cell(check *c, const b1i_planned *planned, b1_error *err)
{
    b1_status st;
    json_t *cell = NULL;
    bool whole;
    b1_error why = {0};
    char name[B1I_SETTING_ID + 32];
    c->id = planned->id;
    if (!b1i_study_has(c->directory, planned->id)) {
        differs(c, "cells/%s: is not there: the cell was not measured", c->id);
        return B1_OK;
    }
    B1I_TRY(b1i_cell_whole(c->directory, planned->id, say_of_file, c, &whole, err));
    snprintf(name, sizeof name, "cells/%s/cell.json", planned->id);
    st = b1i_lab_read_json(c->directory, name, &cell, &why);
    if (st == B1_OK) {
        check_identity(c, planned, cell, &st, err);
        check_words(c, planned, cell);
        b1i_cell_check(cell, say_line, c);
    } else if (st != B1_MEMORY) {
        differs(c, "%s", why.message);
        st = B1_OK;
    } else if (err) {
        *err = why;
    }
fail:
    json_decref(cell);
    return st;
}

/* Folders that no cell of the plan has. */
static b1_status check_others(check *c, b1_error *err)
{
    b1i_names names;
    b1_status st = b1i_lab_list(c->directory, &names, err);
    for (size_t i = 0; i < names.count && st == B1_OK; i++) {
        const char *name = names.items[i];
        char id[B1I_SETTING_ID];
        if (strncmp(name, "cells/", 6) != 0 || !name[6]) continue;
        size_t length = strcspn(name + 6, "/");
        if (name[6 + length] != '/' || name[6 + length + 1]) continue; /* folders alone */
        const size_t to_dot = strcspn(name + 6, "./"); /* ID.PID.part: that it is not there yet was said */
        snprintf(id, sizeof id, "%.*s", (int)to_dot, name + 6);
        if (to_dot >= sizeof id || b1i_study_plan_find(c->plan, id) < 0 ||
            (to_dot < length && b1i_study_has(c->directory, id)))
            differs(c, "cells/%.*s: is no cell of the plan", (int)length, name + 6);
    }
    b1i_names_free(&names);
    return st;
}

b1_status b1i_study_check(const char *directory, const b1i_study_planned *plan,
                          void (*say)(void *user, const char *line), void *user, bool *holds, b1_error *err)
{
    b1_status st = B1_OK;
    check c = {directory, plan, say, user, NULL, true};
    for (size_t i = 0; i < plan->count && st == B1_OK; i++) st = check_cell(&c, &plan->cells[i], err);
    if (st == B1_OK) st = check_others(&c, err);
    *holds = st == B1_OK && c.holds;
    return st;
}

/* ---- the seal ---- */

static bool is_there(const char *directory, const char *name)
{
    json_t *json;
    bool there = b1i_lab_read_json(directory, name, &json, NULL) == B1_OK;
    json_decref(json);
    return there;
}

/* Where no process ran all cells, nobody wrote where they were merged. */
static b1_status write_environment(b1i_evidence *evidence, const b1i_study_options *options,
                                   const b1i_study_planned *plan, b1_error *err)
{
    if (is_there(options->out, "environment.json")) return B1_OK;
    const b1i_environment_facts facts = {.run = plan->run,
                                         .experiment = "study",
                                         .binary = plan->binary,
                                         .device = &plan->where,
                                         .options = json_incref(json_object_get(plan->json, "options")),
                                         .processes = json_array()};
    return b1i_evidence_json(evidence, "environment.json", b1i_environment_json(&facts), err);
}

static b1_status seal(b1i_evidence *evidence, const b1i_study_options *options, const b1i_study_planned *plan,
                      b1_error *err)
{
    b1_status st;
    json_t *analysis = NULL;
    B1I_TRY(write_environment(evidence, options, plan, err));
    B1I_TRY(b1i_study_analyse(options->out, plan, &analysis, err));
    B1I_TRY(b1i_evidence_json(evidence, "analysis.json", json_incref(analysis), err));
    B1I_TRY(b1i_report_plots(evidence, err));
    B1I_TRY(b1i_evidence_seal(evidence, err));
fail:
    json_decref(analysis);
    return st;
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
