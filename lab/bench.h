/* SPDX-License-Identifier: MIT
 *
 * How one cell of the bench is measured: the protocol alone, on a subject that is given as two functions, so that a
 * test can drive it with made-up times.
 *
 *   warm up; then slices: ceiling, steps, ceiling, steps, ceiling, …
 *
 * A slice is a run of steps (a few tens of milliseconds, at least one step) between two readings of the ceiling; its
 * ceiling is their mean. Where they lie more than 5 % apart the memory's speed changed meanwhile, and the slice is
 * measured again, up to 8 times; then the cell is noisy. In a slice of several steps one more is run before them and
 * does not count, for it follows a reading and not a step.
 */
#ifndef LAB_BENCH_H
#define LAB_BENCH_H

#include "base/base.h"

typedef struct b1i_bench_subject {
    void *user;
    b1_status (*step)(void *user, uint64_t *ns, b1_error *err);    /* one step at the cell's context; its host time */
    b1_status (*ceiling)(void *user, double *gbps, b1_error *err); /* a short reading */
    uint64_t bytes;                                                /* W + K of a step */
    /* Grows where the device is throttled; NULL: the CPU's own count. */
    uint64_t (*throttles)(void *user);
} b1i_bench_subject;

typedef struct b1i_bench_plan {
    int warmup;              /* at least so many steps, and at least 100 ms of them */
    int steps;               /* at least so many samples */
    int slice_most;          /* steps of a slice at most; 0: as many as fit */
    bool (*cancelled)(void); /* asked before each step; may be NULL */
} b1i_bench_plan;

#define B1I_R_MOST 1.03 /* of R_ceiling: no memory gives more than it has, and readings scatter */
/* Whether a step of these two (NaN: not known) read less than it counts, or was not timed whole. */
static inline bool b1i_faster_than_memory(double r_floor, double r_ceiling)
{
    return r_floor > 1 || r_ceiling > B1I_R_MOST;
}

typedef enum b1i_verdict { b1i_verdict_ok, b1i_verdict_noisy, b1i_verdict_drifting, b1i_verdict_throttled } b1i_verdict;
/* "ok", "noisy", "drifting", "throttled" */
extern const char *const b1i_verdict_names[];

typedef struct b1i_slice {
    double ceiling_gbps;
    size_t first, steps; /* its samples are step_ns[first .. first + steps) */
} b1i_slice;

typedef struct b1i_bench_result {
    b1i_slice *slices; /* [slice_count] */
    double *step_ns;   /* [step_count], in the order they were taken */
    size_t slice_count, step_count, slice_room, step_room;
    int warmup;                              /* steps that were run before the first sample */
    double t_obs_ms, p10_ms, p90_ms, p99_ms; /* t_obs is the median of all steps */
    double ceiling_gbps;                     /* median of the slices' ceilings */
    double r_ceiling;                        /* median over slices of bytes / ceiling / median step */
    b1i_verdict verdict;
} b1i_bench_result;

/* Measures into *out, which the caller frees also after a failure. B1_CANCELLED, or what the subject returned. */
b1_status b1i_bench_measure(const b1i_bench_subject *subject, const b1i_bench_plan *plan, b1i_bench_result *out,
                            b1_error *err);
/* The figures that follow from the slices and steps of *out: t_obs … r_ceiling; *drift is how far the slices' ratios
 * went from their first third to their last. `bytes` of a step. */
b1_status b1i_bench_summarise(uint64_t bytes, b1i_bench_result *out, double *drift, b1_error *err);
/* The verdict on figures that were summarised: `quiet` where the readings around each slice agree. */
b1i_verdict b1i_bench_verdict(const b1i_bench_result *result, bool throttled, bool quiet, double drift);
/* Whether two readings of the ceiling agree. */
bool b1i_bench_agree(double before, double after);
void b1i_bench_result_free(b1i_bench_result *result);

#endif
