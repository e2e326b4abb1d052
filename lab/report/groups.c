/* SPDX-License-Identifier: MIT
 *
 * A study's groups, for the report, and what a step's time is made of.
 */
#include "lab/report/run.h"

#include "lab/stats.h"

#include <math.h>
#include <string.h>

const char *const b1i_cause_names[b1i_causes] = {"weights at the ceiling", "keys and values at the ceiling",
                                                 "kernels beyond that (by profile)", "launch, at most (stream − graph)",
                                                 "the rest"};

static int whole(const json_t *object, const char *key)
{
    return (int)json_integer_value(json_object_get(object, key));
}

/* ---- which cells are a group's ---- */

bool b1i_report_cell_of(const b1i_report_group *g, const json_t *cell)
{
    return strcmp(b1i_report_word(cell, "model"), g->model) == 0 &&
           strcmp(b1i_report_word(cell, "architecture"), g->architecture) == 0 &&
           strcmp(b1i_report_word(cell, "executor"), g->executor) == 0 &&
           strcmp(b1i_report_word(cell, "weights"), g->weights) == 0 && whole(cell, "context") == g->context &&
           whole(cell, "threads") == g->threads && whole(cell, "batch") == g->batch;
}

/* An id that may be a folder's name. */
static bool is_id(const char *id)
{
    return id[0] && strlen(id) < 64 && !id[strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz-_")];
}

void b1i_report_cell_file(const char *id, const char *name, char *file, size_t bytes)
{
    if (id && is_id(id))
        snprintf(file, bytes, "cells/%s/%s", id, name);
    else
        snprintf(file, bytes, "analysis.json");
}

/* The documents of the group's first cell with figures. */
static b1_status read_documents(const b1i_report_run *run, b1i_report_group *g, const json_t *cell, b1_error *err)
{
    b1_status st;
    char name[B1I_REPORT_WORDS];
    const char *id = b1i_report_word(cell, "id");
    if (g->folder[0] || !is_id(id)) return B1_OK;
    snprintf(g->folder, sizeof g->folder, "cells/%s/", id);
    snprintf(g->file, sizeof g->file, "cells/%s/cell.json", id);
    snprintf(name, sizeof name, "cells/%s/profile.json", id);
    B1I_TRY(b1i_report_run_read(run, g->file, &g->cell, err));
    B1I_TRY(b1i_report_run_read(run, name, &g->profile, err));
    g->peak_gbps = b1i_report_number(g->cell, "peak_gbps");
    g->weight_bytes = b1i_report_number(g->cell, "weight_bytes");
    g->kv_bytes = b1i_report_number(cell, "bytes") - g->weight_bytes;
fail:
    return st;
}

static b1_status read_cells_of(const b1i_report_run *run, b1i_report_group *g, double *ceilings, b1_error *err)
{
    b1_status st;
    const json_t *list = json_object_get(run->analysis, "cells"), *cell;
    size_t i, count = 0;
    json_array_foreach(list, i, cell)
    {
        if (!b1i_report_cell_of(g, cell) || !json_is_number(json_object_get(cell, "t_obs_ms"))) continue;
        B1I_TRY(read_documents(run, g, cell, err));
        if (isfinite(b1i_report_number(cell, "ceiling_gbps")))
            ceilings[count++] = b1i_report_number(cell, "ceiling_gbps");
    }
    g->ceiling_gbps = b1i_median(ceilings, count);
    return B1_OK;
fail:
    return st;
}

/* ---- groups ---- */

static b1i_report_group read_group(const json_t *json)
{
    return (b1i_report_group){
        .json = json,
        .model = b1i_report_word(json, "model"),
        .architecture = b1i_report_word(json, "architecture"),
        .executor = b1i_report_word(json, "executor"),
        .weights = b1i_report_word(json, "weights"),
        .context = whole(json, "context"),
        .threads = whole(json, "threads"),
        .batch = whole(json, "batch"),
        .sessions = whole(json, "sessions"),
        .ok = whole(json, "ok"),
        .headline = json_is_true(json_object_get(json, "headline")),
        .t_obs_ms = b1i_report_number(json, "t_obs_ms"),
        .r_floor = b1i_report_number(json, "r_floor"),
        .r_ceiling = b1i_report_number(json, "r_ceiling"),
        .mean_ms = b1i_report_number(json, "mean_ms"),
        .min_ms = b1i_report_number(json, "min_ms"),
        .max_ms = b1i_report_number(json, "max_ms"),
        .cv_within = b1i_report_number(json, "cv_within"),
        .cv_across = b1i_report_number(json, "cv_across"),
        .tokens_per_s = b1i_report_number(json, "tokens_per_s"),
        .weight_bytes = NAN,
        .kv_bytes = NAN,
        .ceiling_gbps = NAN,
        .peak_gbps = NAN,
        .file = "analysis.json",
    };
}

static bool comes_before(const b1i_report_group *a, const b1i_report_group *b)
{
    return a->context != b->context ? a->context < b->context : a->batch < b->batch;
}

/* By insertion, which keeps the order of equals. */
static void put_group(b1i_report_run *run, const b1i_report_group *g)
{
    size_t at = run->group_count++;
    for (; at > 0 && comes_before(g, &run->groups[at - 1]); at--) run->groups[at] = run->groups[at - 1];
    run->groups[at] = *g;
}

static void color_groups(b1i_report_run *run)
{
    int next = 0;
    for (size_t i = 0; i < run->group_count; i++) {
        size_t k = 0;
        while (k < i && strcmp(run->groups[k].executor, run->groups[i].executor) != 0) k++;
        run->groups[i].color = k < i ? run->groups[k].color : next++;
    }
}

b1_status b1i_report_groups_load(b1i_report_run *run, b1_error *err)
{
    b1_status st = B1_OK;
    const json_t *list = json_object_get(run->analysis, "groups"), *json;
    size_t i, cells = json_array_size(json_object_get(run->analysis, "cells"));
    double *ceilings = b1i_calloc(cells + 1, sizeof *ceilings);
    run->groups = b1i_calloc(json_array_size(list) + 1, sizeof *run->groups);
    if (!ceilings || !run->groups) {
        st = b1i_fail_memory(err, (json_array_size(list) + 1) * sizeof *run->groups);
        goto fail;
    }
    if (!json_is_array(list)) {
        st = b1i_fail(err, B1_IO, "%s/analysis.json: has no array \"groups\"", run->directory);
        goto fail;
    }
    json_array_foreach(list, i, json)
    {
        b1i_report_group g = read_group(json);
        put_group(run, &g);
    }
    color_groups(run);
    for (i = 0; i < run->group_count; i++) B1I_TRY(read_cells_of(run, &run->groups[i], ceilings, err));
fail:
    b1i_free(ceilings);
    return st;
}

void b1i_report_groups_free(b1i_report_run *run)
{
    for (size_t i = 0; run->groups && i < run->group_count; i++) {
        json_decref(run->groups[i].cell);
        json_decref(run->groups[i].profile);
    }
    b1i_free(run->groups);
    run->groups = NULL;
    run->group_count = 0;
}

/* ---- what belongs together ---- */

bool b1i_report_group_beside(const b1i_report_group *a, const b1i_report_group *b)
{
    return strcmp(a->model, b->model) == 0 && strcmp(a->weights, b->weights) == 0 && a->threads == b->threads &&
           a->batch == b->batch;
}

const b1i_report_group *b1i_report_group_find(const b1i_report_run *run, const b1i_report_group *g,
                                              const char *executor)
{
    for (size_t i = 0; i < run->group_count; i++) {
        const b1i_report_group *o = &run->groups[i];
        if (b1i_report_group_beside(g, o) && g->context == o->context && strcmp(o->executor, executor) == 0)
            return isfinite(o->t_obs_ms) ? o : NULL;
    }
    return NULL;
}

bool b1i_report_graph_of(const char *executor, char *out, size_t bytes)
{
    static const char stream[] = "_stream";
    size_t length = strlen(executor);
    if (strncmp(executor, "stack:", 6) == 0 || length < sizeof stream ||
        strcmp(executor + length - (sizeof stream - 1), stream) != 0)
        return false;
    snprintf(out, bytes, "%.*s_graph", (int)(length - (sizeof stream - 1)), executor);
    return true;
}

/* ---- causes ---- */

/* Takes `ms` of what is left. */
static double take(double *left, double ms)
{
    double taken = isfinite(ms) && ms > 0 ? fmin(ms, *left) : 0;
    *left -= taken;
    return taken;
}

bool b1i_report_causes(const b1i_report_run *run, const b1i_report_group *g, double ms[b1i_causes])
{
    double left = g->t_obs_ms, at = g->ceiling_gbps * 1e6;
    char graph[B1I_REPORT_WORDS];
    if (!(left > 0) || !(at > 0) || !isfinite(g->weight_bytes)) return false;
    ms[b1i_cause_weights] = take(&left, g->weight_bytes / at);
    ms[b1i_cause_kv] = take(&left, g->kv_bytes / at);
    double kernels = b1i_report_number(g->profile, "kernel_ms") - ms[b1i_cause_weights] - ms[b1i_cause_kv];
    ms[b1i_cause_kernels] = take(&left, kernels);
    bool launched = b1i_report_graph_of(g->executor, graph, sizeof graph);
    const b1i_report_group *other = launched ? b1i_report_group_find(run, g, graph) : NULL;
    ms[b1i_cause_launch] = take(&left, other ? g->t_obs_ms - other->t_obs_ms : 0);
    ms[b1i_cause_rest] = left;
    return true;
}
