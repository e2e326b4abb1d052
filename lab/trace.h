/* SPDX-License-Identifier: MIT
 *
 * Traces of two-stage jobs: which SM (or worker) had which stage of which job, from when to when. A trace is a launch
 * of its own; its times never enter a table of latencies.
 *
 * CSV: "job,stage,unit,begin_ns,end_ns", one row a stage, stage A or B, times of the device's clock. Beside it the same
 * for Perfetto (JSON with "traceEvents", microseconds from the first A).
 */
#ifndef LAB_TRACE_H
#define LAB_TRACE_H

#include "base/base.h"

#include <jansson.h>

typedef struct b1i_trace_span {
    uint32_t job, unit;
    char stage; /* 'A' or 'B' */
    uint64_t begin_ns, end_ns;
} b1i_trace_span;

struct b1i_evidence;
/* traces/NAME.csv and traces/NAME.perfetto.json. */
b1_status b1i_trace_write(struct b1i_evidence *evidence, const char *name, const b1i_trace_span *spans, size_t count,
                          b1_error *err);
/* Reads a CSV; every row must be whole. The caller frees *out. */
b1_status b1i_trace_read(const char *path, b1i_trace_span **out, size_t *count, b1_error *err);
/* {"jobs", "units" (distinct), "early_jobs" (that begin B before the last A ends), "span_ns" (first A's begin to last
 * end), "complete" (each of the jobs 0 … jobs − 1 has one A and one B), "ordered" (no B begins before its A ends)}.
 * NULL: no memory. */
json_t *b1i_trace_facts(const b1i_trace_span *spans, size_t count);

#endif
