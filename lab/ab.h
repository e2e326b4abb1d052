/* SPDX-License-Identifier: MIT
 *
 * A/B: two settings, in pairs, each pair in a fresh process that loads the model anew and measures both, in an order
 * that alternates (a b, b a, …). The speed-up is the geometric mean over sessions of median(A) / median(B); its 95 %
 * interval is the studentised bootstrap over sessions on the logarithm; steps are never resampled.
 *
 *   plan.json   {"schema": "batchone.ab-plan/1", "run", "device", "device_name", "gpu_uuid", "version",
 * "binary_sha256", "options": {"sessions", "resamples", "seed"}, "a", "b" (settings), "launch_only" (they differ in how
 * the same kernels are launched), "cells": [{"id", "session", "order": ["a", "b"]}]} cells/ID/   a.json, b.json
 * (batchone.cell/1), session.json {"schema": "batchone.session/1", "session", "order", "kernels": {"a", "b" (names and
 * counts by CUPTI), "same"} or null, …}, manifest.json analysis.json {"schema": "batchone.ab/1", "run", "model",
 * "device", "device_name", "context", "a", "b" (settings as text), "sessions", "resamples", "seed", "speedup",
 * "interval" [low, high], "percentile_interval", "pairs" [[a_ms, b_ms]], "orders", "difference_ms", "median", "mean",
 * "min", "max" (of the sessions' ratios), "a_ms"/"b_ms": {"mean", "median", "cv_within", "cv_across"}, "verdict": "ok"
 * | "one session" | "kernels differ" | "kernels not compared" | "rigs differ" | "failed", "message", "upper_bound" (the
 *               difference bounds the launch tax from above; launch_only alone)}
 *   and what every directory of evidence has.
 */
#ifndef LAB_AB_H
#define LAB_AB_H

#include "lab/study.h"

typedef struct b1i_ab_options {
    b1i_study_options run; /* out, device, executable, resume, … */
    b1i_setting a, b;      /* session 0 */
    int sessions, resamples;
    uint64_t seed; /* 0: by the clock */
} b1i_ab_options;

enum { B1I_AB_RESAMPLES = 10000 };

/* "executor=…,weights=…,threads=…,context=…,batch=…,stack=…" over `base`; stack comes last and takes the rest.
 * B1_ARGUMENT names what is unknown. "" changes nothing. */
b1_status b1i_ab_settings(const char *text, const b1i_setting *base, b1i_setting *out, b1_error *err);
/* Runs the sessions that are not there yet, then analysis and seal. */
b1_status b1i_ab_run(const b1i_ab_options *options, b1_error *err);
/* One session of a planned A/B, in this process. */
b1_status b1i_ab_run_session(const b1i_study_options *options, const char *id, b1_error *err);
/* analysis.json from plan and cells. */
b1_status b1i_ab_analyse(const char *directory, json_t **out, b1_error *err);

#endif
