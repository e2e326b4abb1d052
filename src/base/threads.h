/* SPDX-License-Identifier: MIT
 *
 * The worker pool: one a process, its threads pinned, physical cores first, within affinity and the cgroup's quota.
 * The caller is worker 0; a dispatch wakes the others, and returns when all are done (fork and join).
 * Workers spin for a short while between dispatches, then sleep.
 */
#ifndef B1I_THREADS_H
#define B1I_THREADS_H

#include "base/base.h"

/* CPUs that this process may use at once: affinity ∩ cgroup quota (rounded up), counted in physical cores where it
 * has several hardware threads a core. At least 1. */
int b1i_cpu_count(void);

typedef void (*b1i_work_fn)(void *arg, int worker, int workers);

/* Makes sure that the pool has `workers` (≥ 1) workers, the caller included. */
b1_status b1i_pool_reserve(int workers, b1_error *err);
/* Runs fn(arg, w, workers) for w in [0, workers) at once; the caller runs w = 0. Dispatches of different threads take
 * turns. `workers` must have been reserved. Ordering: all the caller wrote before is seen by the workers, all they
 * wrote is seen by the caller after. Not re-entrant. */
void b1i_pool_run(int workers, b1i_work_fn fn, void *arg);
/* Ends the threads; for leak checks. */
void b1i_pool_end(void);

/* A pause between polls of a shared flag. */
static inline void b1i_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

/* The part of [0, count) that is worker w's of n, in units of `unit`. */
static inline void b1i_share(int64_t count, int64_t unit, int worker, int workers, int64_t *begin, int64_t *end)
{
    int64_t units = (count + unit - 1) / unit;
    int64_t b = units * worker / workers * unit, e = units * (worker + 1) / workers * unit;
    *begin = b < count ? b : count;
    *end = e < count ? e : count;
}

/* ---- reading memory as fast as it goes: the ceiling ---- */
/* Reads [p, p + bytes) (bytes a multiple of 64, p 64-byte aligned) and returns something that depends on all of it. */
uint64_t b1i_read_stream(const void *p, size_t bytes);

#endif
