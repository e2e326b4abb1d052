/* SPDX-License-Identifier: MIT
 *
 * For tests of experiments: the devices of this machine one after the other, and an experiment that is opened without a
 * run around it, so that a test can drive its cells.
 */
#ifndef TESTS_LAB_RIG_H
#define TESTS_LAB_RIG_H

#include "lab/run.h"
#include "lab/work.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static b1_error err; /* of the call that failed */

#define OK(call) ok((call), #call, __LINE__)
static inline void ok(b1_status st, const char *call, int line)
{
    if (st) fail_msg("line %d: %s: %s: %s", line, call, b1_status_name(st), err.message);
}

/* Whether there is a GPU, or a driver that stands in for one. */
static inline bool rig_has_gpu(void) { return b1i_device_gpus(NULL) > 0; }
static inline bool rig_stands_in(void) { return getenv("B1_FAKE_CUDA") != NULL; }

/* Teaches the driver that stands in for a GPU's the kernels of `ops`, which it then runs as their bodies. */
static inline void rig_teach(const b1i_lab_op *ops, int count)
{
    if (!rig_stands_in()) return;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    bool (*teach)(const char *, size_t, b1i_lab_body) = NULL;
    assert_non_null(library);
    *(void **)&teach = dlsym(library, "fake_cuda_teach");
    assert_non_null(teach);
    for (int i = 0; i < count; i++) assert_true(!ops[i].kernel || teach(ops[i].kernel, ops[i].arg_bytes, ops[i].body));
}

/* Calls `with` with the CPU of one to three workers, and with the first GPU where there is one. */
static inline void each_device(void (*with)(b1i_lab_device *device))
{
    b1i_lab_device *device;
    const b1i_device cpu = b1i_device_cpu(), gpu = b1i_device_at(0);
    for (int threads = 1; threads <= 3; threads++) {
        OK(b1i_lab_device_open(&cpu, threads, &device, &err));
        with(device);
        b1i_lab_device_close(device);
    }
    if (!rig_has_gpu()) return;
    OK(b1i_lab_device_open(&gpu, 0, &device, &err));
    with(device);
    b1i_lab_device_close(device);
}

/* float [count] of the device, poisoned or from `from`. */
static inline uint64_t rig_floats(b1i_lab_device *device, size_t count, const float *from)
{
    uint64_t at;
    OK(b1i_lab_alloc(device, count * sizeof(float), "a test's array", &at, &err));
    OK(b1i_lab_fill(device, at, 0xff, count * sizeof(float), &err));
    if (from) OK(b1i_lab_put(device, at, from, count * sizeof(float), &err));
    return at;
}

/* ---- an experiment without a run ---- */
typedef struct lab_rig {
    b1i_lab lab;
    b1i_lab_options options;
    void *state;
} lab_rig;

static inline void lab_rig_open(lab_rig *r, const b1i_experiment *experiment, bool gpu, bool quick)
{
    memset(r, 0, sizeof *r);
    r->options = (b1i_lab_options){.device = gpu ? b1i_device_at(0) : b1i_device_cpu(), .threads = 2, .quick = quick};
    r->lab.experiment = experiment;
    r->lab.options = &r->options;
    OK(b1i_lab_device_open(&r->options.device, r->options.threads, &r->lab.device, &err));
    OK(experiment->open(&r->lab, &r->state, &err));
}

static inline void lab_rig_close(lab_rig *r)
{
    r->lab.experiment->close(&r->lab, r->state);
    b1i_lab_plan_free(&r->lab.plan);
    b1i_free(r->lab.cells);
    b1i_lab_device_close(r->lab.device);
}

/* Prepares the cell; every kind once, two deep; checks. */
static inline b1_status lab_rig_drive(lab_rig *r, size_t cell)
{
    b1i_lab_driven *d = &r->lab.cells[cell];
    b1_status st = d->driver->prepare(d->user, &err);
    for (int k = 0; st == B1_OK && k < b1i_lab_kinds; k++) {
        double ns = -1;
        if (d->driver->measure[k]) st = d->driver->measure[k](d->user, 2, &ns, &err);
        assert_true(st != B1_OK || ns > 0 || !d->driver->measure[k]);
    }
    return st == B1_OK && d->driver->check ? d->driver->check(d->user, &err) : st;
}

static inline json_int_t rig_fact(const lab_rig *r, size_t cell, const char *key)
{
    const json_t *value = json_object_get(r->lab.plan.cells[cell].facts, key);
    if (!json_is_integer(value)) fail_msg("%s has no %s", r->lab.plan.cells[cell].name, key);
    return json_integer_value(value);
}

static inline const char *rig_word(const lab_rig *r, size_t cell, const char *key)
{
    const char *value = json_string_value(json_object_get(r->lab.plan.cells[cell].facts, key));
    if (!value) fail_msg("%s has no %s", r->lab.plan.cells[cell].name, key);
    return value;
}

/* Drives every cell: all are right but those of mode pdl on the CPU, which has it not, and of a single kernel; and
 * names are unique. */
static inline void rig_drive_all(lab_rig *r)
{
    const b1i_lab_plan *plan = &r->lab.plan;
    const bool gpu = b1i_lab_device_gpu(r->lab.device);
    for (size_t i = 0; i < plan->count; i++) {
        const b1_status st = lab_rig_drive(r, i);
        const bool pdl = strcmp(rig_word(r, i, "mode"), "pdl") == 0;
        if (pdl && (!gpu || rig_fact(r, i, "kernels") == 1)) {
            assert_int_equal(st, B1_UNSUPPORTED);
            assert_non_null(strstr(err.message, "programmatic"));
        } else {
            ok(st, plan->cells[i].name, __LINE__);
        }
        for (size_t j = 0; j < i; j++) assert_string_not_equal(plan->cells[i].name, plan->cells[j].name);
        assert_int_equal(strncmp(plan->cells[i].name, "a/a ", 4) == 0, plan->cells[i].twin_of >= 0);
    }
}

/* Every allocation of the experiment's first cell may fail, and nothing is left behind. */
static inline void rig_nothing_leaks(const b1i_experiment *experiment)
{
    const long before = b1i_alloc_live();
    for (long at = 0;; at++) {
        lab_rig r;
        lab_rig_open(&r, experiment, false, true);
        b1i_alloc_fail_at(at);
        const b1_status st = lab_rig_drive(&r, 0);
        b1i_alloc_fail_at(-1);
        lab_rig_close(&r);
        assert_int_equal(b1i_alloc_live(), before);
        if (st == B1_OK) break;
        assert_int_equal(st, B1_MEMORY);
        assert_true(at < 1000);
    }
}

/* ---- wrong outputs ---- */
static const char *plant_in; /* of this cell */
static size_t plant_at;      /* this float is off by a thousandth */

static inline void plant(const char *what, void *output, size_t bytes)
{
    if (strcmp(what, plant_in) == 0 && plant_at < bytes / sizeof(float)) ((float *)output)[plant_at] *= 1.001f;
}

/* The cell `name` with a wrong output fails, with its name in the sentence; any other passes. */
static inline void rig_plant(const b1i_experiment *experiment, const char *name, size_t at)
{
    lab_rig r;
    lab_rig_open(&r, experiment, false, true);
    const int cell = b1i_lab_plan_find(&r.lab.plan, name);
    assert_true(cell > 0);
    plant_in = name;
    plant_at = at;
    b1i_lab_plant = plant;
    assert_int_equal(lab_rig_drive(&r, (size_t)cell), B1_DEVICE);
    assert_non_null(strstr(err.message, name));
    OK(lab_rig_drive(&r, 0));
    b1i_lab_plant = NULL;
    OK(lab_rig_drive(&r, (size_t)cell));
    b1i_lab_plant = plant; /* right before, wrong in what was measured */
    assert_int_equal(r.lab.cells[cell].driver->check(r.lab.cells[cell].user, &err), B1_DEVICE);
    b1i_lab_plant = NULL;
    lab_rig_close(&r);
}

/* ---- a whole run on a GPU ---- */
static inline void rig_say(void *user, const char *line)
{
    (void)user;
    print_message("%s\n", line);
}

typedef struct rig_graph {
    const char *name; /* of a file in graphs/, without a suffix */
    int kernels, memsets, programmatic;
} rig_graph;

/* What the driver said of a graph of the run, and that it wrote it. */
static inline void rig_graph_fits(const char *run, const rig_graph *want)
{
    char path[256];
    snprintf(path, sizeof path, "%s/graphs/%s.dot", run, want->name);
    assert_int_equal(access(path, R_OK), 0);
    snprintf(path, sizeof path, "%s/graphs/%s.json", run, want->name);
    json_t *graph = json_load_file(path, 0, NULL);
    assert_non_null(graph);
    assert_int_equal(json_integer_value(json_object_get(graph, "kernel_nodes")), want->kernels);
    assert_int_equal(json_integer_value(json_object_get(graph, "memset_nodes")), want->memsets);
    assert_int_equal(json_integer_value(json_object_get(graph, "edges")), want->kernels + want->memsets - 1);
    assert_int_equal(json_integer_value(json_object_get(graph, "programmatic_edges")), want->programmatic);
    assert_true(json_integer_value(json_object_get(json_object_get(graph, "setup"), "instantiate_ns")) > 0);
    json_decref(graph);
}

/* Runs the experiment, which fails in no cell and holds; its directory has these graphs. */
static inline void lab_rig_run(const b1i_experiment *experiment, const rig_graph *graphs, size_t count)
{
    char top[] = "/tmp/b1_lab_XXXXXX", run[64], command[64];
    int failed = -1;
    bool holds = false;
    assert_non_null(mkdtemp(top));
    snprintf(run, sizeof run, "%s/run", top);
    const b1i_lab_options options = {.out = run, .device = b1i_device_at(0), .quick = true};
    OK(b1i_lab_run(experiment, &options, &failed, &err));
    assert_int_equal(failed, 0);
    OK(b1i_evidence_verify(run, rig_say, NULL, &holds, &err));
    assert_true(holds);
    for (size_t i = 0; i < count; i++) rig_graph_fits(run, &graphs[i]);
    snprintf(command, sizeof command, "rm -r %s", top);
    assert_int_equal(system(command), 0);
}

#endif
