/* SPDX-License-Identifier: MIT
 *
 * A/B: two settings, in pairs, each pair in a fresh process that loads the model anew and measures both, in an order
 * that alternates (a b, b a, …). The speed-up is the geometric mean over sessions of median(A) / median(B); its 95 %
 * interval is the studentised bootstrap over sessions on the logarithm (bootstrap.h); steps are never resampled.
 *
 *   plan.json   {"schema": "batchone.ab-plan/1", "run", "device", "device_name", "gpu_uuid", "version",
 *               "binary_sha256", "options": {"sessions", "resamples", "seed"}, "a", "b" (settings of session 0),
 *               "launch_only" (they differ in how the same kernels are launched), "cells": [{"id", "session",
 *               "order": ["a", "b"]}]}
 *   cells/ID/   a.json, b.json (batchone.cell/1), a-profile.json, b-profile.json (step_profile.h; of launch_only),
 *               session.json {"schema": "batchone.session/1", "id", "session", "order", "status" ("ok" where its
 *               process wrote both arms, each with a status of its own), "message", "date", "elapsed_s",
 *               "shared_engine" (both arms ran on one engine), "kernels": {"a", "b" ({"by", "kernels_per_step",
 *               "sequence_sha256", "message"}), "same"} or null}, manifest.json
 *   analysis.json  {"schema": "batchone.ab/1", "run", "model", "device", "device_name", "context", "a", "b" (settings
 *               as text), "launch_only", "resamples", "seed", "planned" (sessions), "sessions" (those with a pair),
 *               "speedup", "interval" [low, high], "percentile_interval", "pairs" [[a_ms, b_ms]], "numbers" (of the
 *               pairs' sessions), "orders" (of them), "difference_ms" (mean of a_ms − b_ms), "difference_interval",
 *               "upper_bound" (the kernels were shown to be the same: the difference bounds the launch tax from above),
 * "median", "mean", "min", "max" (of the sessions' ratios), "order_effect" (geometric mean of the sessions that ran A
 * first over that of the others; null: there are none), "a_ms", "b_ms": {"mean", "median", "min", "max", "cv_within"
 * (median over sessions of a cell's), "cv_across" (null: one session)}, "verdicts": {"ok", "noisy", "drifting",
 * "throttled"} (how many arms), "rigs": [{"binary_sha256", "version", "device_name", "device_uuid" (null: the CPU has
 * none), "a", "b" (of a stack its name and version), "warmup", "numbers", "speedup", "interval"}], "verdict",
 * "headline" (whether the verdict is ok), "message"} and what every directory of evidence has.
 *
 * Verdicts, the first that holds: failed (a session could not measure both), rigs differ (sessions of several rigs:
 * never pooled, the figures are null and stand in "rigs"), kernels differ, kernels not compared (of launch_only), one
 * session, drifting (an arm had two levels or was throttled), ok. The message says why; of ok it is null, or that the
 * order of the arms matters: order_effect is off by over 1 %, and its interval (b1i_bootstrap_t_difference) excludes 1.
 */
#ifndef LAB_AB_H
#define LAB_AB_H

#include "lab/study.h"

typedef struct b1i_ab_options {
    b1i_study_options run; /* out, device, executable, resume, … */
    b1i_setting a, b;      /* session 0 */
    int sessions;
    int resamples;    /* 0: B1I_AB_RESAMPLES, or those of a plan that is there */
    uint64_t seed;    /* 0: by the clock, or that of a plan that is there */
    bool launch_only; /* A and B are said to differ only in launch; of batchone's own executors it is known */
} b1i_ab_options;

enum { B1I_AB_RESAMPLES = 10000 };

/* "executor=…,weights=…,threads=…,context=…,batch=…,stack=…" over `base`; stack comes last and takes the rest.
 * B1_ARGUMENT names what is unknown. "" changes nothing. */
b1_status b1i_ab_settings(const char *text, const b1i_setting *base, b1i_setting *out, b1_error *err);
/* The same the other way round, all of it; freed with b1i_free(). NULL: no memory. */
char *b1i_ab_text(const b1i_setting *setting);
/* Whether the two run the same kernels, as far as their names say it. */
bool b1i_ab_launch_only(const b1i_setting *a, const b1i_setting *b);

/* Makes the directory with plan.json and no session. B1_ARGUMENT: it exists, and is not to be resumed or has another
 * plan. */
b1_status b1i_ab_plan(const b1i_ab_options *options, b1_error *err);
/* B1_ARGUMENT: the plan of the directory has other resamples or another seed than these; 0: whatever it has. */
b1_status b1i_ab_same_draws(const char *directory, int resamples, uint64_t seed, b1_error *err);
/* Calls `say` with the id of each session of the plan, in order; `done`: it is there. */
b1_status b1i_ab_each(const char *directory, void (*say)(void *user, const char *id, bool done), void *user,
                      b1_error *err);
/* One session of a planned A/B, in this process. One that is there already is left as it is. */
b1_status b1i_ab_run_session(const b1i_study_options *options, const char *id, b1_error *err);
/* Starts a process for each session of a planned A/B that is not there yet. B1_CANCELLED leaves what was done. */
b1_status b1i_ab_run_all(const b1i_study_options *options, b1_error *err);
/* Checks the sessions; then analysis, plots and seal. As b1i_study_collect(). */
b1_status b1i_ab_collect(const b1i_study_options *options, void (*say)(void *user, const char *line), void *user,
                         bool *holds, b1_error *err);

/* analysis.json from plan and cells. */
b1_status b1i_ab_analyse(const char *directory, json_t **out, b1_error *err);

#endif
