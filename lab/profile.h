/* SPDX-License-Identifier: MIT
 *
 * Profiling of a run's cells, in passes of its own after all timing: none of its times is a latency.
 *
 *   profile/activities.json  what CUPTI recorded of the GPU: {"schema": "batchone.activities/1", "cupti": {"found",
 *                            "version", "message"}, "passes": [{"pass": "node-level" | "graph-level", "cells":
 *                            [{"cell", "mode", "invocations", "expected": {"kernels", "memsets", "graphs"}, "seen":
 *                            {the same and "copies"}, "dropped", "reconciled", "message", "records": [{"did",
 *                            "name" (of a kernel), "begin_ns", "end_ns" (from the pass's first)}]}]}]}
 *                            In a graph-level pass a graph is one record; nothing is said of its nodes then.
 *   profile/ncu.json         what Nsight Compute counted, where it was asked for: see there
 *
 * A profiler that is missing, refuses, or counts nothing finite is a sentence in these files and no failure.
 */
#ifndef LAB_PROFILE_H
#define LAB_PROFILE_H

#include "lab/lab.h"

/* Profiles the cells that are works, where the device is a GPU; nothing on the CPU. After the rounds, the checks and
 * the experiment's after(), before the seal. With options->ncu also by Nsight Compute. */
b1_status b1i_profile_run(b1i_lab *lab, b1_error *err);

/* What the command that Nsight Compute starts does (`batchone lab EXPERIMENT --profile-child CELL`): prepares that cell
 * alone, and runs B1I_PROFILE_CHILD_RUNS invocations between cuProfilerStart and cuProfilerStop. Nothing is written. */
enum { B1I_PROFILE_CHILD_RUNS = 3 };
b1_status b1i_profile_child(const b1i_experiment *experiment, const b1i_lab_options *options, const char *cell,
                            b1_error *err);

#endif
