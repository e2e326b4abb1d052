/* SPDX-License-Identifier: MIT
 *
 * The parts of the experiment `tiles`: its fixtures (how many rounds each job has), its variants as operations of a
 * work, the CPU's bodies of these, and what a trace of one must show.
 */
#ifndef LAB_EXPERIMENTS_TILES_H
#define LAB_EXPERIMENTS_TILES_H

#include "lab/kernels/tiles_args.h"
#include "lab/lab.h"
#include "lab/trace.h"
#include "lab/work.h"

extern const b1i_experiment b1i_experiment_tiles;

enum {
    B1I_TILES_JOBS = 597,
    B1I_TILES_CONSUME = 256, /* rounds of B, of every job */
    B1I_TILES_DIVISOR_MOST = 256
};

/* ---- fixtures ---- */
typedef enum b1i_tiles_fixture {
    b1i_tiles_balanced,     /* 1024 rounds each: 611 328 */
    b1i_tiles_ragged,       /* 309 jobs of 512, 192 of 1024 and 96 of 4096, shuffled: 748 032 */
    b1i_tiles_ragged_equal, /* the same scaled by 398/487: 611 328 */
    b1i_tiles_fixtures
} b1i_tiles_fixture;
extern const char *const b1i_tiles_fixture_names[b1i_tiles_fixtures];
/* How the rounds are spread, as a phrase, in rounds before the division. */
extern const char *const b1i_tiles_fixture_spread[b1i_tiles_fixtures];
/* The producer's rounds of each job over `divisor` (1 to B1I_TILES_DIVISOR_MOST, a power of two); returns their sum,
 * which is the fixture's over the divisor, exactly. */
uint64_t b1i_tiles_rounds(b1i_tiles_fixture fixture, uint32_t divisor, uint32_t iterations[B1I_TILES_JOBS]);

/* ---- variants ---- */
typedef enum b1i_tiles_variant {
    b1i_tiles_separate,
    b1i_tiles_fused,
    b1i_tiles_queue,
    b1i_tiles_semaphore,
    b1i_tiles_variants
} b1i_tiles_variant;
extern const char *const b1i_tiles_variant_names[b1i_tiles_variants];

enum { B1I_TILES_OPS_MOST = 2 };
/* The operations of one invocation on a device of `units` units into `ops`; returns their number. Every block reserves
 * `shared_bytes`. The semaphore's args must have 1 ≤ producers < units. */
int b1i_tiles_ops(b1i_tiles_variant variant, const b1i_tiles_args *args, unsigned units, unsigned shared_bytes,
                  b1i_lab_op ops[B1I_TILES_OPS_MOST]);
/* How many of `units` (≥ 2) units do A in the semaphore: their part of all rounds, at least 1 and not all. */
uint32_t b1i_tiles_producers(unsigned units, uint64_t produced, uint64_t consumed);

/* The bodies, one for each kernel of tiles.cu; a worker's turn at a job is what a block is there. */
void b1i_tiles_cpu_a(const void *args, int worker, int workers);
void b1i_tiles_cpu_b(const void *args, int worker, int workers);
void b1i_tiles_cpu_fused(const void *args, int worker, int workers);
void b1i_tiles_cpu_queue(const void *args, int worker, int workers);
void b1i_tiles_cpu_semaphore(const void *args, int worker, int workers);

/* ---- traces ---- */
/* `marks` [2][jobs] as spans [2 · jobs], after these hold: each stage of each job was done once; no span ends before it
 * begins, nor a job's B before its A; no unit was in two stages at once, so that an SM held one block at a time; A and
 * B of a job were on one unit (fused, queue) or on two (semaphore); no B of `separate` began before the last A ended.
 * B1_DEVICE with what is wrong. */
b1_status b1i_tiles_trace_spans(b1i_tiles_variant variant, const b1i_tiles_mark *marks, uint32_t jobs,
                                b1i_trace_span *spans, b1_error *err);

#endif
