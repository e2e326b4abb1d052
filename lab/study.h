/* SPDX-License-Identifier: MIT
 *
 * The study: cells of model, device, executor or outside stack, weights, context, threads, batch and session, each
 * measured in a fresh process, and a sealed directory of evidence (evidence.h):
 *
 *   plan.json             {"schema": "batchone.study-plan/1", "run", "device", "device_name", "gpu_uuid", "version",
 *                          "binary_sha256", "options", "cells": [{"id", "setting": b1i_setting_json()}]}
 *   cells/ID/cell.json    batchone.cell/1 (study/measure.h)
 *   cells/ID/profile.json batchone.step-profile/1 (step_profile.h), where the setting asks for it
 *   cells/ID/manifest.json  its own, written last, before the folder is renamed to its name
 *   commands.json, environment.json, plots/; where one process ran all cells device-before.json, device-after.json
 *   analysis.json         batchone.study-analysis/1, which follows from plan and cells; verify makes it anew:
 *       {"schema", "run", "device", "device_name", "cells": [{"id", "model", "architecture", "device_name",
 *        "device_uuid", "executor", "weights", "context", "threads", "batch", "session", "status", "verdict",
 * "message", "t_obs_ms", "p10_ms", "p90_ms", "p99_ms", "cv", "t_floor_ms", "r_floor", "ceiling_gbps", "r_ceiling",
 *        "t_arithmetic_ms", "weight_bytes", "stored_bytes", "kv_bytes", "modes", "stack_version" (null: batchone),
 *        "bytes"}],
 *        "groups": [the same settings over their sessions: {"model", "architecture", "device_name", "executor",
 *        "weights", "context", "threads", "batch", "stack_version", "sessions", "ok" (cells with figures), "headline"
 *        (none drifts or is throttled), "t_obs_ms", "r_floor", "r_ceiling", "ceiling_gbps", "t_floor_ms",
 *        "t_arithmetic_ms", "bytes", "weight_bytes", "kv_bytes" (medians of the sessions'), "mean_ms", "min_ms",
 *        "max_ms", "cv_within" (median of the cells'), "cv_across" (null: one), "tokens_per_s" (batch over t_obs)}],
 *        "weights": [expected against realised: {"model", "executor", "context", "threads", "batch", "weights",
 *        "against" (the group of bf16, or of the most bytes), "bytes_ratio" (W + K, with scales), "paper_ratio"
 * (against bf16 weights / 4 + K; of four-bit formats, else null), "speedup", "realised" (speedup / bytes_ratio),
 *        "headline" (that of both groups, of more than one session each)}],
 *        "batch": [{"model", "executor", "weights", "context", "batch", "step_ratio" (t / t of batch 1), "throughput"
 *        (tokens a second over those of batch 1), "headline" (likewise)}]}
 *   manifest.json         seals it
 *
 * A cell that fails, does not fit or is refused is kept with its status and sentence; the others go on.
 */
#ifndef LAB_STUDY_H
#define LAB_STUDY_H

#include "lab/setting.h"

/* The matrix: every combination, in the order models, weights, contexts, batches, executors and then stacks, threads
 * once; sessions outermost, so that each session is a pass over all of it. */
typedef struct b1i_study_matrix {
    const char *const *models;
    const bool *synthetic; /* [models] */
    size_t model_count;
    const char *const *weights; /* NULL entry: as-is */
    size_t weight_count;
    const int64_t *contexts, *batches;
    size_t context_count, batch_count;
    const char *const *executors; /* resolved: no alias */
    const char *const *stacks;    /* commands */
    size_t executor_count, stack_count;
    int threads, sessions, warmup, steps;
    bool profile;
    double deadline_ms; /* 0: none */
} b1i_study_matrix;

typedef struct b1i_study_options {
    const char *out;
    b1i_device device;
    const char *executable; /* this command, which is started for each cell */
    bool resume;
    bool (*cancelled)(void);
    /* With the time left in `what`; total 0: how much is done of it cannot be told. */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    void *progress_user;
} b1i_study_options;

/* Makes the directory with plan.json and no cell. B1_ARGUMENT: it exists, or two cells are the same. */
b1_status b1i_study_plan(const b1i_study_matrix *matrix, const b1i_study_options *options, b1_error *err);
/* As the plan of another directory or a hand-made file has them: {"cells": [settings]} or a plan.json. */
b1_status b1i_study_plan_file(const char *file, const b1i_study_options *options, b1_error *err);
/* Calls `say` with each cell's id and setting, in the plan's order. */
b1_status b1i_study_each(const char *directory,
                         b1_status (*say)(void *user, const char *id, const b1i_setting *setting, bool done,
                                          b1_error *err),
                         void *user, b1_error *err);
/* Measures one planned cell in this process into cells/ID, which appears whole or not at all. A cell that is there
 * already is left as it is. B1_ARGUMENT: the plan has no such cell, or is of another build or device. */
b1_status b1i_study_run_cell(const b1i_study_options *options, const char *id, b1_error *err);
/* Starts a process for each planned cell that is not there yet. B1_CANCELLED leaves what was done. */
b1_status b1i_study_run_all(const b1i_study_options *options, b1_error *err);
/* Checks each cell's own manifest, that it is of its setting and that its figures follow from its steps; then analysis,
 * plots and seal. Of a sealed directory: verifies it. `say` gets a line for each thing that does not hold; *holds only
 * where there is none, and else nothing is written. */
b1_status b1i_study_collect(const b1i_study_options *options, void (*say)(void *user, const char *line), void *user,
                            bool *holds, b1_error *err);
/* Whether a cell of the analysis, or a group of it, is of the group. */
bool b1i_study_same(const json_t *cell, const json_t *group);

#endif
