/* SPDX-License-Identifier: MIT
 *
 * Profiling of a run's cells, in passes of its own after all timing: none of its times is a latency, and none of its
 * counts is of a measured invocation.
 *
 *   profile/activities.json  what CUPTI recorded of the GPU:
 *       {"schema": "batchone.activities/1", "cupti": {"found", "version", "message"}, "invocations", "passes":
 * [{"pass": "node-level" | "graph-level", "cells": [{"cell", "mode", "expected": {"kernels", "memsets", "copies",
 *        "graphs"}, "seen": {the same}, "dropped", "reconciled", "message", "records": [{"did", "name" (of a kernel),
 *        "begin_ns", "end_ns" (from the pass's first; null: not known)}]}]}]}
 *       In the graph-level pass a launch of a graph is one record, and nothing is said of its nodes.
 *   profile/ncu.json         what Nsight Compute counted, where options->ncu asks for it:
 *       {"schema": "batchone.ncu/1", "found", "message", "invocations", "cells": [{"cell", "cache_control",
 *        "exit_code", "message", "raw": {"sha256", "bytes"}, "expected_kernels", "seen_kernels", "reconciled", "rows":
 *        [{"kernel_id", "kernel", "replays", "metric", "value", "unit", "bytes"}], "per_invocation": {metric: bytes}}]}
 *       `value` and `unit` are as they were printed, `bytes` follow from them (Mbyte = 10^6); null: not finite. The raw
 *       reports lie beside the directory, in DIR.raw/SHA256.csv.
 *
 * A profiler that is missing, refuses, or counts nothing finite is a sentence in these files and no failure.
 */
#ifndef LAB_PROFILE_H
#define LAB_PROFILE_H

#include "lab/lab.h"

/* Profiles the cells that are works, where the device is a GPU; nothing on the CPU. After the rounds, the checks and
 * the experiment's after(), before the seal. B1_CANCELLED. */
b1_status b1i_profile_run(b1i_lab *lab, b1_error *err);

/* Whether the counts and "reconciled" of profile/activities.json follow from its records; `say` gets a line for each
 * cell where they do not. */
void b1i_profile_check(const json_t *activities, void (*say)(void *user, const char *line), void *user);

/* For a profiler around this process: prepares the cell alone and runs B1I_PROFILE_RUNS invocations between
 * cuProfilerStart and cuProfilerStop. Nothing is written. B1_ARGUMENT: there is no such cell, or it is no work. */
enum { B1I_PROFILE_RUNS = 3 };
b1_status b1i_profile_cell(const b1i_experiment *experiment, const b1i_lab_options *options, const char *cell,
                           b1_error *err);

/* The work of the plan's cell i; NULL: it is none, or one that could not be prepared, or a twin. */
b1i_lab_work_cell *b1i_profile_work(const b1i_lab *lab, size_t i);
/* Kernels of B1I_PROFILE_RUNS invocations of it. */
size_t b1i_profile_kernels(const b1i_lab_work_cell *cell);

/* The part of b1i_profile_run() that is Nsight Compute's. */
b1_status b1i_profile_ncu(b1i_lab *lab, b1_error *err);
/* The rows of a report, as `ncu --csv` writes it with its messages, as in ncu.json's "rows"; *message is why there is
 * none, or an error that stands in it. A new reference; NULL: no memory. */
json_t *b1i_profile_ncu_rows(const char *text, char *message, size_t message_bytes);

#endif
