/* SPDX-License-Identifier: MIT
 *
 * What follows from a run's samples and traces: a function of the files of its directory and of nothing else, so that
 * anybody can make it again.
 *
 * {"schema": "batchone.analysis/1", "run", "experiment", "device", "rounds", "samples_sha256" (of samples.jsonl),
 *  "cells": [{"cell", "kind", "n", "median_ns", "p10_ns", "p90_ns", "p90_interval_ns" ([low, high] of 95 %, a bound
 * null where so few samples give none; the key only where n < 64), "depth", "host_bound" (device_interval: within 5 %
 * of enqueue), "gbps" (facts' bytes over the median; null without), "sm_mhz" (median; null on the CPU), "throttled"
 * (samples so marked), "verdict", "message", "facts"}], "a_a": [{"cell", "twin", "kind", "ratio" (of the medians, twin
 * over cell), "interval" (95 %, b1i_bootstrap_ratio() with "seed" and "resamples")}], "traces": [b1i_trace_facts() with
 * "file", "cell" (the one whose b1i_lab_file_name() it has; null: none), "untraced_ns" (device_interval of the cell),
 * "ratio"], "figures": b1i_figures_make() of the cells}
 *
 * Verdicts: failed, out_of_memory, unsupported as planned (n 0, figures null); throttled: a sample was; drifting: the
 * medians of the first and the last third differ by more than 5 % and by more than the spread p90 − p10 of either
 * explains; noisy: p90 − p10 above 20 % of the median; else ok.
 */
#ifndef LAB_ANALYSIS_H
#define LAB_ANALYSIS_H

#include "base/base.h"

#include <jansson.h>

/* A new reference in *out. B1_IO: a file is missing or not as it must be; the sentence names it and the line. */
b1_status b1i_analysis_make(const char *directory, json_t **out, b1_error *err);
/* The one that the directory has, made by nobody anew. */
b1_status b1i_analysis_read(const char *directory, json_t **out, b1_error *err);
/* Compares two analyses figure by figure and calls `say` for each difference; true where there is none. */
bool b1i_analysis_equal(const json_t *stored, const json_t *made, void (*say)(void *user, const char *line),
                        void *user);

#endif
