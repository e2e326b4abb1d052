/* SPDX-License-Identifier: MIT
 *
 * What an experiment says to the lab: its cells. See lab.h.
 */
#include "lab/lab.h"

#include "lab/run.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MOST = 160 };

const char *const b1i_lab_kind_names[b1i_lab_kinds] = {"host_single", "host_enqueue", "device_interval"};

void (*b1i_lab_plant)(const char *what, void *output, size_t bytes);

void b1i_lab_file_name(const char *cell, char *name, size_t bytes)
{
    size_t n = 0;
    for (; cell[n] && n + 1 < bytes; n++) {
        bool plain = isalnum((unsigned char)cell[n]) || cell[n] == '-' || cell[n] == '_' || (cell[n] == '.' && n > 0);
        name[n] = plain ? cell[n] : '-';
    }
    name[n] = 0;
}

/* A name goes into JSON, into files' names and into a terminal as it is. */
static bool name_fits(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (name[i] < ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\') return false;
    return length > 0 && length <= NAME_MOST;
}

/* Two cells may not share a file's name either. */
static bool taken(const b1i_lab *lab, const char *name)
{
    char mine[NAME_MOST + 1], other[NAME_MOST + 1];
    b1i_lab_file_name(name, mine, sizeof mine);
    for (size_t i = 0; i < lab->plan.count; i++) {
        b1i_lab_file_name(lab->plan.cells[i].name, other, sizeof other);
        if (strcmp(mine, other) == 0) return true;
    }
    return false;
}

/* Takes `facts` over, also where it fails. */
static b1_status add(b1i_lab *lab, const char *name, const b1i_lab_driven *driven, json_t *facts, int twin_of,
                     b1_error *err)
{
    b1i_lab_plan *plan = &lab->plan;
    b1_status st = B1_OK;
    b1i_lab_plan_cell cell = {.facts = facts ? facts : json_object(), .depth = 1, .twin_of = twin_of};
    for (int k = 0; k < b1i_lab_kinds; k++)
        if (driven->driver->measure[k]) cell.kinds |= 1u << k;
    if (lab->started || !name_fits(name) || taken(lab, name) || !cell.kinds || (facts && !json_is_object(facts)))
        st = b1i_fail(err, B1_ARGUMENT, "the lab cannot take a cell \"%s\": %s", name,
                      lab->started                      ? "the run has begun"
                      : !name_fits(name)                ? "its name must be up to 160 plain characters"
                      : !cell.kinds                     ? "it measures nothing"
                      : facts && !json_is_object(facts) ? "its facts are no object"
                                                        : "there is one of that name");
    if (st == B1_OK && (!cell.facts || !(cell.name = b1i_strdup(name)) ||
                        !b1i_grow(&lab->cells, &lab->cells_room, plan->count + 1, sizeof *lab->cells) ||
                        !b1i_grow(&plan->cells, &plan->room, plan->count + 1, sizeof *plan->cells)))
        st = b1i_fail_memory(err, sizeof *plan->cells * (plan->count + 1));
    if (st != B1_OK) {
        b1i_free(cell.name);
        json_decref(cell.facts);
        return st;
    }
    lab->cells[plan->count] = *driven;
    plan->cells[plan->count++] = cell;
    return B1_OK;
}

b1_status b1i_lab_add(b1i_lab *lab, const b1i_lab_cell_spec *spec, b1_error *err)
{
    b1i_lab_driven driven = {spec->driver, spec->user, spec->depth_most, 0};
    return add(lab, spec->name, &driven, spec->facts, -1, err);
}

b1_status b1i_lab_add_twin(b1i_lab *lab, const char *name, b1_error *err)
{
    char twin[NAME_MOST + 8];
    int of = b1i_lab_plan_find(&lab->plan, name);
    if (of < 0) return b1i_fail(err, B1_ARGUMENT, "the lab has no cell \"%s\" to repeat", name);
    snprintf(twin, sizeof twin, "a/a %s", name);
    b1i_lab_driven driven = lab->cells[of];
    return add(lab, twin, &driven, json_incref(lab->plan.cells[of].facts), of, err);
}

bool b1i_lab_cell_ok(const b1i_lab *lab, const char *name)
{
    int at = b1i_lab_plan_find(&lab->plan, name);
    return at >= 0 && lab->started && lab->plan.cells[at].status == b1i_cell_ok;
}

struct b1i_lab_device *b1i_lab_get_device(b1i_lab *lab) { return lab->device; }
struct b1i_evidence *b1i_lab_get_evidence(b1i_lab *lab) { return lab->evidence; }
const b1i_lab_options *b1i_lab_get_options(const b1i_lab *lab) { return lab->options; }

void b1i_lab_say(b1i_lab *lab, const char *what, uint64_t done, uint64_t total)
{
    const b1i_lab_options *o = lab->options;
    if (o->progress) o->progress(o->progress_user, what, done, total);
}

b1_status b1i_lab_may_go_on(const b1i_lab *lab, b1_error *err)
{
    if (!lab->options->cancelled || !lab->options->cancelled()) return B1_OK;
    return b1i_fail(err, B1_CANCELLED, "cancelled; %s is incomplete", lab->options->out);
}
