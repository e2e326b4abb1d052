/* SPDX-License-Identifier: MIT
 *
 * Whether a run has the traces that it must have, and each in both of its files. See trace_room.h.
 */
#include "lab/files.h"
#include "lab/plan.h"
#include "lab/trace_room.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 600 };

typedef struct checking {
    const char *directory;
    const json_t *files;
    void (*say)(void *user, const char *line);
    void *user;
} checking;

__attribute__((format(printf, 2, 3))) static void differs(const checking *c, const char *format, ...)
{
    char line[2 * PATH_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    c->say(c->user, line);
}

static const char *path_of(const checking *c, size_t i)
{
    return json_string_value(json_object_get(json_array_get(c->files, i), "path"));
}

static bool is_there(const checking *c, const char *path)
{
    for (size_t i = 0; i < json_array_size(c->files); i++)
        if (strcmp(path_of(c, i), path) == 0) return true;
    return false;
}

/* Each cell that was measured and says that it is traced has its trace. */
static b1_status check_cells(const checking *c, b1_error *err)
{
    b1i_lab_plan plan;
    b1_status st = b1i_lab_plan_read(c->directory, &plan, err);
    if (st != B1_OK) return st;
    for (size_t i = 0; i < plan.count; i++) {
        const b1i_lab_plan_cell *cell = &plan.cells[i];
        char name[256], csv[300];
        if (cell->status != b1i_cell_ok || cell->twin_of >= 0) continue;
        if (!json_is_true(json_object_get(cell->facts, "traced"))) continue;
        b1i_lab_file_name(cell->name, name, sizeof name);
        snprintf(csv, sizeof csv, "traces/%s.csv", name);
        if (!is_there(c, csv)) differs(c, "%s: is missing, and the cell \"%s\" is one that is traced", csv, cell->name);
    }
    b1i_lab_plan_free(&plan);
    return B1_OK;
}

/* The Perfetto file beside a trace says what its CSV says. What cannot be read is a difference. */
static b1_status check_trace(const checking *c, const char *csv, b1_error *err)
{
    char beside[PATH_BYTES];
    b1_error why = {0};
    b1i_trace_span *spans = NULL;
    char *events = NULL, *kept = NULL, *path = b1i_lab_join(c->directory, csv);
    size_t count, bytes, kept_bytes;
    snprintf(beside, sizeof beside, "%.*s.perfetto.json", (int)(strlen(csv) - 4), csv);
    b1_status st = path ? b1i_trace_read(path, &spans, &count, &why) : b1i_fail_memory(&why, strlen(csv));
    if (st == B1_OK) st = b1i_trace_perfetto(spans, count, &events, &bytes, &why);
    if (st == B1_OK) st = b1i_lab_read(c->directory, beside, &kept, &kept_bytes, &why);
    if (st == B1_OK && (bytes != kept_bytes || memcmp(events, kept, bytes) != 0))
        differs(c, "%s: is not what %s gives", beside, csv);
    b1i_free(kept);
    b1i_free(events);
    b1i_free(spans);
    b1i_free(path);
    if (st == B1_MEMORY) return b1i_fail(err, st, "%s", why.message);
    if (st != B1_OK) differs(c, "%s", why.message);
    return B1_OK;
}

/* Whether the CSV of a trace's "….perfetto.json" is there. */
static bool has_csv(const checking *c, const char *events)
{
    char csv[PATH_BYTES];
    const size_t end = strlen(".perfetto.json"), length = strlen(events);
    if (length <= end || strcmp(events + length - end, ".perfetto.json") != 0) return false;
    snprintf(csv, sizeof csv, "%.*s.csv", (int)(length - end), events);
    return is_there(c, csv);
}

b1_status b1i_traces_check(const char *directory, const json_t *files, void (*say)(void *user, const char *line),
                           void *user, b1_error *err)
{
    const checking c = {directory, files, say, user};
    b1_status st = check_cells(&c, err);
    for (size_t i = 0; i < json_array_size(files) && st == B1_OK; i++) {
        const char *name = path_of(&c, i), *end = strrchr(name, '.');
        if (strncmp(name, "traces/", 7) != 0) continue;
        if (end && strcmp(end, ".csv") == 0) st = check_trace(&c, name, err);
        if (end && strcmp(end, ".json") == 0 && !has_csv(&c, name)) differs(&c, "%s: has no CSV beside it", name);
    }
    return st;
}
