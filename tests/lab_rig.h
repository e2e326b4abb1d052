/* SPDX-License-Identifier: MIT
 *
 * For tests of experiments: the devices of this machine one after the other, and an experiment that is opened without a
 * run around it, so that a test can drive its cells.
 */
#ifndef TESTS_LAB_RIG_H
#define TESTS_LAB_RIG_H

#include "lab/run.h"
#include "lab/work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static b1_error err; /* of the call that failed */

#define OK(call) ok((call), #call, __LINE__)
static inline void ok(b1_status st, const char *call, int line)
{
    if (st) fail_msg("line %d: %s: %s: %s", line, call, b1_status_name(st), err.message);
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
    if (getenv("B1_FAKE_CUDA") || b1i_device_gpus(NULL) == 0) return;
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

static inline void lab_rig_open(lab_rig *r, const b1i_experiment *experiment, bool quick)
{
    memset(r, 0, sizeof *r);
    r->options = (b1i_lab_options){.device = b1i_device_cpu(), .threads = 2, .quick = quick};
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
        assert_true(st != B1_OK || ns > 0);
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

/* Drives every cell: all are right but those of mode pdl, which the CPU has not; and names are unique. */
static inline void rig_drive_all(lab_rig *r)
{
    const b1i_lab_plan *plan = &r->lab.plan;
    for (size_t i = 0; i < plan->count; i++) {
        const b1_status st = lab_rig_drive(r, i);
        if (strcmp(rig_word(r, i, "mode"), "pdl") == 0) {
            assert_int_equal(st, B1_UNSUPPORTED);
            assert_non_null(strstr(err.message, "programmatic"));
        } else {
            ok(st, plan->cells[i].name, __LINE__);
        }
        for (size_t j = 0; j < i; j++) assert_string_not_equal(plan->cells[i].name, plan->cells[j].name);
        assert_int_equal(strncmp(plan->cells[i].name, "a/a ", 4) == 0, plan->cells[i].twin_of >= 0);
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
    lab_rig_open(&r, experiment, true);
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

#endif
