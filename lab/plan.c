/* SPDX-License-Identifier: MIT
 *
 * The plan of a run. See plan.h.
 */
#include "lab/plan.h"

#include "lab/files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA "batchone.plan/1"
enum { CELLS_MOST = 10000, ROUNDS_MOST = 1000000, DEPTH_MOST = 1000000 };

const char *const b1i_cell_status_names[b1i_cell_statuses] = {"ok", "unsupported", "out_of_memory", "failed"};

void b1i_lab_plan_free(b1i_lab_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        b1i_free(plan->cells[i].name);
        b1i_free(plan->cells[i].message);
        json_decref(plan->cells[i].facts);
    }
    b1i_free(plan->cells);
    b1i_free(plan->experiment);
    b1i_free(plan->device_name);
    *plan = (b1i_lab_plan){0};
}

/* ---- order ---- */

size_t b1i_lab_plan_order(const b1i_lab_plan *plan, int round, size_t *order)
{
    size_t count = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->cells[i].status == b1i_cell_ok) order[count++] = i;
    uint64_t stream = b1i_mix64(plan->seed ^ b1i_mix64((uint64_t)round));
    for (size_t left = count; left > 1; left--) {
        size_t pick = (size_t)(((unsigned __int128)b1i_mix64(stream + left) * left) >> 64);
        size_t kept = order[pick];
        order[pick] = order[left - 1];
        order[left - 1] = kept;
    }
    return count;
}

size_t b1i_lab_plan_rows(const b1i_lab_plan *plan)
{
    size_t rows = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->cells[i].status == b1i_cell_ok) rows += (size_t)__builtin_popcount(plan->cells[i].kinds);
    return rows;
}

int b1i_lab_plan_find(const b1i_lab_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->cells[i].name, name) == 0) return (int)i;
    return -1;
}

/* ---- to JSON ---- */

static json_t *kinds_json(unsigned kinds)
{
    json_t *list = json_array();
    for (int k = 0; list && k < b1i_lab_kinds; k++)
        if (kinds & 1u << k && json_array_append_new(list, json_string(b1i_lab_kind_names[k])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *cell_json(const b1i_lab_plan *plan, const b1i_lab_plan_cell *c)
{
    return json_pack("{s:s,s:s,s:o,s:o,s:i,s:o,s:O}", "cell", c->name, "status", b1i_cell_status_names[c->status],
                     "message", b1i_lab_text(c->message), "kinds", kinds_json(c->kinds), "depth", c->depth, "twin_of",
                     b1i_lab_text(c->twin_of < 0 ? NULL : plan->cells[c->twin_of].name), "facts", c->facts);
}

json_t *b1i_lab_plan_json(const b1i_lab_plan *plan)
{
    json_t *cells = json_array();
    for (size_t i = 0; cells && i < plan->count; i++)
        if (json_array_append_new(cells, cell_json(plan, &plan->cells[i])) != 0) {
            json_decref(cells);
            cells = NULL;
        }
    return json_pack("{s:s,s:s,s:s,s:s,s:o,s:b,s:i,s:i,s:I,s:o,s:o,s:o}", "schema", SCHEMA, "run", plan->run,
                     "experiment", plan->experiment, "device", plan->device, "device_name",
                     b1i_lab_text(plan->device_name), "quick", plan->quick, "threads", plan->threads, "rounds",
                     plan->rounds, "seed", (json_int_t)plan->seed, "warm_sm_mhz",
                     plan->warm_mhz > 0 ? json_real(plan->warm_mhz) : json_null(), "binary_sha256",
                     b1i_lab_text(plan->binary), "cells", cells);
}

/* ---- from JSON ---- */

static bool copy_text(const json_t *value, char *to, size_t bytes)
{
    const char *text = json_is_null(value) ? "" : json_string_value(value);
    return text && (size_t)snprintf(to, bytes, "%s", text) < bytes;
}

/* The bits of a list of kinds; 0: it is wrong. */
static unsigned read_kinds(const json_t *list)
{
    unsigned kinds = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int k = 0;
        while (k < b1i_lab_kinds && (!name || strcmp(name, b1i_lab_kind_names[k]) != 0)) k++;
        if (k == b1i_lab_kinds || kinds & 1u << k) return 0;
        kinds |= 1u << k;
    }
    return kinds;
}

static int read_status(const char *name)
{
    for (int i = 0; i < b1i_cell_statuses; i++)
        if (strcmp(name, b1i_cell_status_names[i]) == 0) return i;
    return -1;
}

static b1_status read_cell(b1i_lab_plan *plan, json_t *j, b1_error *err)
{
    const char *name, *status, *message = NULL, *twin = NULL;
    json_t *kinds, *facts, *twin_of, *why;
    json_int_t depth;
    if (json_unpack(j, "{s:s,s:s,s:o,s:o,s:I,s:o,s:o!}", "cell", &name, "status", &status, "message", &why, "kinds",
                    &kinds, "depth", &depth, "twin_of", &twin_of, "facts", &facts) != 0)
        return b1i_fail(err, B1_IO, "plan.json: cell %zu is not as it must be", plan->count);
    message = json_string_value(why);
    twin = json_string_value(twin_of);
    b1i_lab_plan_cell c = {.status = (b1i_cell_status)read_status(status),
                           .kinds = read_kinds(kinds),
                           .depth = (int)depth,
                           .twin_of = twin ? b1i_lab_plan_find(plan, twin) : -1};
    if (read_status(status) < 0 || !c.kinds || depth < 1 || depth > DEPTH_MOST || (twin && c.twin_of < 0) ||
        !json_is_object(facts) || b1i_lab_plan_find(plan, name) >= 0 || (message != NULL) != (c.status != b1i_cell_ok))
        return b1i_fail(err, B1_IO, "plan.json: the cell \"%s\" is not as it must be", name);
    if (!b1i_grow(&plan->cells, &plan->room, plan->count + 1, sizeof *plan->cells))
        return b1i_fail_memory(err, sizeof *plan->cells * plan->count);
    plan->cells[plan->count++] = c;
    b1i_lab_plan_cell *kept = &plan->cells[plan->count - 1];
    kept->facts = json_incref(facts);
    if (!(kept->name = b1i_strdup(name)) || (message && !(kept->message = b1i_strdup(message))))
        return b1i_fail_memory(err, strlen(name));
    return B1_OK;
}

static b1_status read_plan(json_t *j, b1i_lab_plan *out, b1_error *err)
{
    const char *schema, *experiment;
    json_t *run, *device, *name, *cells, *warm, *binary;
    json_int_t seed, threads, rounds;
    int quick;
    if (json_unpack(j, "{s:s,s:o,s:s,s:o,s:o,s:b,s:I,s:I,s:I,s:o,s:o,s:o!}", "schema", &schema, "run", &run,
                    "experiment", &experiment, "device", &device, "device_name", &name, "quick", &quick, "threads",
                    &threads, "rounds", &rounds, "seed", &seed, "warm_sm_mhz", &warm, "binary_sha256", &binary, "cells",
                    &cells) != 0)
        return b1i_fail(err, B1_IO, "plan.json: a key is missing, of another type, or unknown");
    if (strcmp(schema, SCHEMA) != 0)
        return b1i_fail(err, B1_IO, "plan.json: the schema is \"%s\", not " SCHEMA, schema);
    out->quick = quick;
    out->seed = (uint64_t)seed;
    out->warm_mhz = json_is_null(warm) ? 0 : json_number_value(warm);
    if (!copy_text(run, out->run, sizeof out->run) || !copy_text(binary, out->binary, sizeof out->binary) ||
        !copy_text(device, out->device, sizeof out->device) || seed < 0 || rounds < B1I_LAB_ROUNDS_LEAST ||
        rounds > ROUNDS_MOST || threads < 0 || threads > INT_MAX || !json_is_array(cells) ||
        json_array_size(cells) > CELLS_MOST || !(json_is_null(warm) || out->warm_mhz > 0) ||
        !(json_is_null(name) || json_is_string(name)))
        return b1i_fail(err, B1_IO, "plan.json: a value is out of its range");
    out->threads = (int)threads;
    out->rounds = (int)rounds;
    if (!(out->experiment = b1i_strdup(experiment)) ||
        (json_is_string(name) && !(out->device_name = b1i_strdup(json_string_value(name)))))
        return b1i_fail_memory(err, strlen(experiment));
    for (size_t i = 0; i < json_array_size(cells); i++) {
        b1_status st = read_cell(out, json_array_get(cells, i), err);
        if (st != B1_OK) return st;
    }
    return B1_OK;
}

b1_status b1i_lab_plan_read(const char *directory, b1i_lab_plan *out, b1_error *err)
{
    json_t *j;
    *out = (b1i_lab_plan){0};
    b1_status st = b1i_lab_read_json(directory, "plan.json", &j, err);
    if (st == B1_OK) st = read_plan(j, out, err);
    json_decref(j);
    if (st != B1_OK) b1i_lab_plan_free(out);
    return st;
}
