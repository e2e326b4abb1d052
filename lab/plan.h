/* SPDX-License-Identifier: MIT
 *
 * plan.json: what a run measures, in which order. Written once, before the first round; the samples, their order, a
 * resumed run and the analysis all follow it.
 *
 * {"schema": "batchone.plan/1", "run", "experiment", "device", "device_name", "quick", "threads", "rounds", "seed",
 *  "warm_sm_mhz" (null on the CPU), "binary_sha256", "cells": [{"cell", "status", "message", "kinds", "depth",
 *  "twin_of" (null, or the cell that this one repeats), "facts"}]}
 */
#ifndef LAB_PLAN_H
#define LAB_PLAN_H

#include "lab/lab.h"

#include <jansson.h>

typedef enum b1i_cell_status {
    b1i_cell_ok,
    b1i_cell_unsupported,
    b1i_cell_out_of_memory,
    b1i_cell_failed,
    b1i_cell_statuses
} b1i_cell_status;
extern const char *const b1i_cell_status_names[b1i_cell_statuses];

typedef struct b1i_lab_plan_cell {
    char *name, *message; /* message: NULL where the cell is ok */
    json_t *facts;        /* an object */
    b1i_cell_status status;
    unsigned kinds; /* bit i: it has the latency i */
    int depth;
    int twin_of; /* −1: it is no twin */
} b1i_lab_plan_cell;

typedef struct b1i_lab_plan {
    char run[40], binary[72], device[24]; /* binary: "" where it is not known */
    char *experiment, *device_name;
    bool quick;
    int threads, rounds;
    uint64_t seed;            /* below 2^53, so that every reader of JSON keeps it */
    double warm_mhz;          /* 0: not measured */
    b1i_lab_plan_cell *cells; /* [count] */
    size_t count, room;
} b1i_lab_plan;

void b1i_lab_plan_free(b1i_lab_plan *plan);
/* NULL: no memory. */
json_t *b1i_lab_plan_json(const b1i_lab_plan *plan);
/* From plan.json of the directory. B1_IO: what is wrong with it. */
b1_status b1i_lab_plan_read(const char *directory, b1i_lab_plan *out, b1_error *err);
/* The index of a cell; −1: none. */
int b1i_lab_plan_find(const b1i_lab_plan *plan, const char *name);
/* The cells that round `round` (from 1) measures, in its order, into `order` [plan->count]; how many they are. */
size_t b1i_lab_plan_order(const b1i_lab_plan *plan, int round, size_t *order);
/* Samples of a round. */
size_t b1i_lab_plan_rows(const b1i_lab_plan *plan);

#endif
