/* SPDX-License-Identifier: MIT
 *
 * What CUPTI records of a run's works. See profile.h.
 *
 * Each cell's work is made anew in each pass, for CUPTI must see a graph being made; of a work that takes turns between
 * sets only as many sets are made as there are invocations.
 */
#include "lab/profile.h"

#include "lab/evidence.h"
#include "lab/run.h"
#include "lab/work.h"

b1i_lab_work_cell *b1i_profile_work(const b1i_lab *lab, size_t i)
{
    const b1i_lab_driven *driven = &lab->cells[i];
    if (lab->plan.cells[i].status != b1i_cell_ok || lab->plan.cells[i].twin_of >= 0) return NULL;
    if (driven->driver->measure[b1i_host_single] != b1i_lab_work_driver.measure[b1i_host_single]) return NULL;
    return driven->user;
}

/* ---- one cell in one pass ---- */

enum { DID = b1i_gpu_did_graph + 1 };
static const char *const did_names[DID] = {
    [b1i_gpu_did_kernel] = "kernel",
    [b1i_gpu_did_memset] = "memset",
    [b1i_gpu_did_copy] = "copy",
    [b1i_gpu_did_graph] = "graph",
};
static const char *const did_plurals[DID] = {
    [b1i_gpu_did_kernel] = "kernels",
    [b1i_gpu_did_memset] = "memsets",
    [b1i_gpu_did_copy] = "copies",
    [b1i_gpu_did_graph] = "graphs",
};

typedef struct pass {
    b1i_lab *lab;
    bool graphs;
    bool begun;
    uint64_t origin; /* the first record's beginning */
} pass;

static int sets_of(const b1i_lab_work_cell *cell)
{
    return cell->sets < B1I_PROFILE_RUNS ? cell->sets : B1I_PROFILE_RUNS;
}

size_t b1i_profile_kernels(const b1i_lab_work_cell *cell)
{
    size_t kernels = 0;
    for (int run = 0; run < B1I_PROFILE_RUNS; run++) {
        const b1i_lab_op *ops = cell->ops + (size_t)(run % sets_of(cell)) * (size_t)cell->count;
        for (int i = 0; i < cell->count; i++) kernels += ops[i].kernel != NULL;
    }
    return kernels;
}

/* What the invocations are made of: their operations, or of a graph in a pass of graphs themselves. */
static void expect(const b1i_lab_work_cell *cell, bool graphs, size_t want[DID])
{
    for (int i = 0; i < DID; i++) want[i] = 0;
    if (graphs && cell->mode != b1i_lab_stream) {
        want[b1i_gpu_did_graph] = B1I_PROFILE_RUNS;
        return;
    }
    want[b1i_gpu_did_kernel] = b1i_profile_kernels(cell);
    want[b1i_gpu_did_memset] = (size_t)cell->count * B1I_PROFILE_RUNS - want[b1i_gpu_did_kernel];
}

/* Runs the invocations while CUPTI records. The recording has ended when this returns. */
static b1_status record(const pass *p, const b1i_lab_work_cell *cell, b1i_gpu_activities *out, b1_error *err)
{
    b1_status st;
    b1i_lab_work *work = NULL;
    b1i_gpu *gpu = b1i_lab_device_gpu(p->lab->device);
    *out = (b1i_gpu_activities){0};
    st = b1i_gpu_activities_begin(gpu, p->graphs, err);
    if (st != B1_OK) return st;
    st = b1i_lab_work_create(p->lab->device, (b1i_lab_mode)cell->mode, cell->ops, cell->count, sets_of(cell), &work,
                             err);
    if (st == B1_OK) st = b1i_lab_work_submit(work, B1I_PROFILE_RUNS, err);
    b1_status ended = b1i_gpu_activities_end(gpu, out, st == B1_OK ? err : NULL);
    b1i_lab_work_destroy(work);
    return st != B1_OK ? st : ended;
}

static json_t *time_json(const pass *p, const b1i_gpu_activity *a, uint64_t ns)
{
    return a->begin_ns || a->end_ns ? json_integer((json_int_t)(ns - p->origin)) : json_null();
}

static json_t *records_json(const pass *p, const b1i_gpu_activities *seen)
{
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < seen->count; i++) {
        const b1i_gpu_activity *a = &seen->items[i];
        json_t *row = json_pack("{s:s,s:o,s:o}", "did", did_names[a->did], "begin_ns", time_json(p, a, a->begin_ns),
                                "end_ns", time_json(p, a, a->end_ns));
        if (row && a->did == b1i_gpu_did_kernel) json_object_set_new(row, "name", json_string(a->name));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *counts_json(const size_t count[DID])
{
    json_t *counts = json_object();
    for (int i = 0; i < DID; i++) json_object_set_new(counts, did_plurals[i], json_integer((json_int_t)count[i]));
    return counts;
}

static json_t *cell_json(pass *p, const char *name, const b1i_lab_work_cell *cell)
{
    b1_error why = {0};
    b1i_gpu_activities seen;
    size_t want[DID], count[DID] = {0};
    bool same = record(p, cell, &seen, &why) == B1_OK && seen.dropped == 0;
    expect(cell, p->graphs, want);
    for (size_t i = 0; i < seen.count; i++) {
        count[seen.items[i].did]++;
        if (!p->origin) p->origin = seen.items[i].begin_ns;
    }
    for (int i = 0; i < DID; i++) same = same && count[i] == want[i];
    if (!same && !*why.message)
        b1i_fail(&why, B1_DEVICE, "what CUPTI recorded is not what the invocations are made of");
    json_t *row =
        json_pack("{s:s,s:s,s:o,s:o,s:I,s:b,s:o,s:o}", "cell", name, "mode", b1i_lab_mode_names[cell->mode], "expected",
                  counts_json(want), "seen", counts_json(count), "dropped", (json_int_t)seen.dropped, "reconciled",
                  same, "message", same ? json_null() : json_string(why.message), "records", records_json(p, &seen));
    b1i_gpu_activities_free(&seen);
    return row;
}

/* ---- the passes ---- */

static b1_status run_pass(pass *p, json_t *passes, b1_error *err)
{
    const b1i_lab_plan *plan = &p->lab->plan;
    json_t *cells = json_array();
    json_t *made = json_pack("{s:s,s:o}", "pass", p->graphs ? "graph-level" : "node-level", "cells", cells);
    b1_status st = B1_OK;
    if (json_array_append_new(passes, made) != 0)
        return b1i_fail(err, B1_MEMORY, "not enough memory for what CUPTI recorded");
    for (size_t i = 0; i < plan->count; i++) {
        const b1i_lab_work_cell *cell = b1i_profile_work(p->lab, i);
        B1I_TRY(b1i_lab_may_go_on(p->lab, err));
        b1i_lab_say(p->lab, "profiling", i + (p->graphs ? plan->count : 0), 2 * plan->count);
        if (cell && json_array_append_new(cells, cell_json(p, plan->cells[i].name, cell)) != 0)
            return b1i_fail(err, B1_MEMORY, "not enough memory for what CUPTI recorded");
    }
fail:
    return st;
}

/* Whether CUPTI records here at all; else why not. */
static bool cupti_works(b1i_gpu *gpu, b1_error *why)
{
    b1i_gpu_activities none;
    if (b1i_gpu_activities_begin(gpu, false, why) != B1_OK) return false;
    b1_status st = b1i_gpu_activities_end(gpu, &none, why);
    b1i_gpu_activities_free(&none);
    return st == B1_OK;
}

/* The cells that were measured, and are no works that could be run here. */
static json_t *not_profiled(const b1i_lab *lab)
{
    json_t *names = json_array();
    for (size_t i = 0; names && i < lab->plan.count; i++) {
        const b1i_lab_plan_cell *cell = &lab->plan.cells[i];
        if (cell->status == b1i_cell_ok && cell->twin_of < 0 && !b1i_profile_work(lab, i))
            json_array_append_new(names, json_string(cell->name));
    }
    return names;
}

static b1_status run_cupti(b1i_lab *lab, b1_error *err)
{
    b1_status st = B1_OK;
    b1_error why = {0};
    json_t *passes = json_array();
    const bool works = cupti_works(b1i_lab_device_gpu(lab->device), &why);
    for (int graphs = 0; works && graphs < 2; graphs++) {
        pass p = {.lab = lab, .graphs = graphs};
        B1I_TRY(run_pass(&p, passes, err));
    }
    json_t *all = json_pack("{s:s,s:{s:b,s:o,s:o},s:i,s:o,s:O}", "schema", "batchone.activities/1", "cupti", "found",
                            works, "version", works ? json_integer(b1i_gpu_cupti_version()) : json_null(), "message",
                            works ? json_null() : json_string(why.message), "invocations", B1I_PROFILE_RUNS,
                            "not_profiled", not_profiled(lab), "passes", passes);
    st = all ? b1i_evidence_json(lab->evidence, "profile/activities.json", all, err)
             : b1i_fail(err, B1_MEMORY, "not enough memory for what CUPTI recorded");
fail:
    json_decref(passes);
    return st;
}

b1_status b1i_profile_run(b1i_lab *lab, b1_error *err)
{
    if (!b1i_lab_device_gpu(lab->device)) return B1_OK;
    b1_status st = run_cupti(lab, err);
    if (st == B1_OK && lab->options->ncu) st = b1i_profile_ncu(lab, err);
    return st;
}

/* ---- a cell for a profiler around this process ---- */

static b1_status run_cell(b1i_lab *lab, const char *name, b1_error *err)
{
    b1_status st;
    const int at = b1i_lab_plan_find(&lab->plan, name);
    if (at < 0) {
        return b1i_fail(err, B1_ARGUMENT, "%s has no cell \"%s\" on %s", lab->experiment->name, name,
                        lab->options->device.name);
    }
    b1i_gpu *gpu = b1i_lab_device_gpu(lab->device);
    const b1i_lab_work_cell *cell = b1i_profile_work(lab, (size_t)at);
    if (!cell) return b1i_fail(err, B1_ARGUMENT, "the cell \"%s\" is no work that could be run alone", name);
    B1I_TRY(lab->cells[at].driver->prepare(lab->cells[at].user, err));
    if (gpu) B1I_TRY(b1i_gpu_profiler(gpu, true, err));
    B1I_TRY(b1i_lab_work_submit(cell->work, B1I_PROFILE_RUNS, err));
    B1I_TRY(b1i_lab_device_wait(lab->device, err));
    if (gpu) B1I_TRY(b1i_gpu_profiler(gpu, false, err));
fail:
    return st;
}

b1_status b1i_profile_cell(const b1i_experiment *experiment, const b1i_lab_options *options, const char *cell,
                           b1_error *err)
{
    b1_status st;
    void *state = NULL;
    b1i_lab lab = {.experiment = experiment, .options = options};
    lab.plan.quick = options->quick;
    lab.plan.threads = options->threads;
    lab.plan.rounds = B1I_LAB_ROUNDS_LEAST;
    B1I_TRY(b1i_lab_device_open(&options->device, options->threads, &lab.device, err));
    st = experiment->open(&lab, &state, err);
    lab.started = true;
    if (st == B1_OK) st = run_cell(&lab, cell, err);
    if (state) experiment->close(&lab, state);
fail:
    b1i_lab_device_close(lab.device);
    b1i_lab_plan_free(&lab.plan);
    b1i_free(lab.cells);
    return st;
}
