/* SPDX-License-Identifier: MIT
 *
 * Cells against their settings and their plan. See check.h.
 */
#include "lab/study/check.h"

#include "lab/files.h"
#include "lab/study/measure.h"
#include "lab/study/plan.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void differs(b1i_check *c, const char *format, ...)
{
    char line[900];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    c->holds = false;
    if (c->say) c->say(c->user, line);
}

void b1i_check_differs(b1i_check *c, const char *format, ...)
{
    char what[700];
    va_list values;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    differs(c, "cells/%s/%s: %s", c->id, c->file, what);
}

/* ---- folders ---- */

static void say_of_folder(void *user, const char *line)
{
    b1i_check *c = user;
    differs(c, "cells/%s/%s", c->id, line);
}

b1_status b1i_check_folder(b1i_check *c, const char *id, bool *there, b1_error *err)
{
    bool whole;
    c->id = id;
    *there = b1i_study_has(c->directory, id);
    if (*there) return b1i_cell_whole(c->directory, id, say_of_folder, c, &whole, err);
    differs(c, "cells/%s: is not there: it was not measured", id);
    return B1_OK;
}

b1_status b1i_check_read(b1i_check *c, const char *file, bool needed, json_t **out, b1_error *err)
{
    char name[96];
    b1_error why = {0};
    c->file = file;
    snprintf(name, sizeof name, "cells/%s/%s", c->id, file);
    b1_status st = b1i_lab_read_json(c->directory, name, out, &why);
    if (st == B1_MEMORY) return b1i_fail(err, st, "%s", why.message);
    if (st != B1_OK && needed) differs(c, "%s", why.message);
    return B1_OK;
}

b1_status b1i_check_others(b1i_check *c, bool (*planned)(const void *plan, const char *id), const void *plan,
                           b1_error *err)
{
    b1i_names names;
    b1_status st = b1i_lab_list(c->directory, &names, err);
    for (size_t i = 0; i < names.count && st == B1_OK; i++) {
        const char *name = names.items[i];
        char id[B1I_SETTING_ID];
        if (strncmp(name, "cells/", 6) != 0 || !name[6]) continue;
        const size_t length = strcspn(name + 6, "/"), to_dot = strcspn(name + 6, "./");
        if (name[6 + length] != '/' || name[6 + length + 1]) continue; /* folders alone */
        snprintf(id, sizeof id, "%.*s", (int)to_dot, name + 6);
        if (to_dot >= sizeof id || !planned(plan, id) || (to_dot < length && b1i_study_has(c->directory, id)))
            differs(c, "cells/%.*s: is not of the plan", (int)length, name + 6);
    }
    b1i_names_free(&names);
    return st;
}

/* ---- a cell ---- */

/* What the cell says beside its setting, and where the setting has it. Of a text that the setting does not have the
 * cell may say what was chosen. */
typedef struct word {
    const char *key;
    size_t at;
} word;
static const word TEXTS[] = {{"device", offsetof(b1i_setting, device)},
                             {"executor", offsetof(b1i_setting, executor)},
                             {"weights", offsetof(b1i_setting, weights)}};
static const word NUMBERS[] = {{"context", offsetof(b1i_setting, context)},
                               {"batch", offsetof(b1i_setting, batch)},
                               {"session", offsetof(b1i_setting, session)}};

static bool is_text(const json_t *cell, const char *key, const char *text)
{
    return strcmp(b1i_lab_text_at(cell, key), text) == 0;
}

/* Whether the cell names the stack that it was measured with, and the setting's command; or batchone. */
static bool is_made_by(const json_t *cell, const char *command)
{
    const json_t *source = json_object_get(cell, "source");
    char name[96];
    if (!command) return !json_is_object(source) && strncmp(b1i_lab_text_at(cell, "executor"), "stack:", 6) != 0;
    snprintf(name, sizeof name, "stack:%s", json_is_object(source) ? b1i_lab_text_at(source, "stack") : "unknown");
    return is_text(cell, "executor", name) &&
           (json_is_object(source) ? is_text(source, "command", command) : !is_text(cell, "status", "ok"));
}

static void check_words(b1i_check *c, const b1i_setting *s, const json_t *cell)
{
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        const char *text = *(char *const *)((const char *)s + TEXTS[i].at);
        if (text && !is_text(cell, TEXTS[i].key, text))
            b1i_check_differs(c, "its %s is not that of its setting", TEXTS[i].key);
    }
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        if (json_integer_value(json_object_get(cell, NUMBERS[i].key)) !=
            *(const int *)((const char *)s + NUMBERS[i].at))
            b1i_check_differs(c, "its %s is not that of its setting", NUMBERS[i].key);
    if (!is_made_by(cell, s->stack)) b1i_check_differs(c, "its executor or source is not the stack of its setting");
}

static b1_status check_identity(b1i_check *c, const b1i_setting *setting, const json_t *cell, b1_error *err)
{
    char id[B1I_SETTING_ID];
    json_t *json = b1i_setting_json(setting);
    b1_status st = json ? b1i_setting_id(setting, c->binary, id, err) : b1i_fail_memory(err, sizeof *setting);
    if (st == B1_OK) {
        const char *own = b1i_lab_text_at(cell, "id"), *device = b1i_lab_text_at(cell, "device_name");
        if (strcmp(own, id) != 0) b1i_check_differs(c, "is the cell %.40s, not %s", *own ? own : "?", id);
        if (!json_equal(json, json_object_get(cell, "setting")))
            b1i_check_differs(c, "was measured with another setting than the plan has");
        if (!is_text(cell, "binary_sha256", c->binary))
            b1i_check_differs(c, "was measured by another build than the plan's");
        if (c->device_name && strcmp(device, c->device_name) != 0)
            b1i_check_differs(c, "was measured on %.100s, the plan is for %s", *device ? device : "no device",
                              c->device_name);
    }
    json_decref(json);
    return st;
}

static void say_of_cell(void *user, const char *line) { b1i_check_differs(user, "%s", line); }

b1_status b1i_check_cell(b1i_check *c, const char *file, const b1i_setting *setting, b1_error *err)
{
    json_t *cell = NULL;
    b1_status st = b1i_check_read(c, file, true, &cell, err);
    if (st != B1_OK || !cell) return st;
    B1I_TRY(check_identity(c, setting, cell, err));
    check_words(c, setting, cell);
    B1I_TRY(b1i_cell_check(cell, setting, say_of_cell, c, err));
fail:
    json_decref(cell);
    return st;
}
