/* SPDX-License-Identifier: MIT
 *
 * The fixtures of `tiles`, and its variants as lists of operations.
 */
#include "lab/experiments/tiles.h"

#include <math.h>
#include <string.h>

const char *const b1i_tiles_fixture_names[] = {"balanced", "ragged", "ragged-equal"};
const char *const b1i_tiles_fixture_spread[] = {
    "597 jobs of 1024",
    "309 jobs of 512, 192 of 1024, 96 of 4096, in an order shuffled once and for all",
    "the ragged jobs, in their order, times 398/487, so that the sum is the balanced one's",
};
const char *const b1i_tiles_variant_names[] = {"separate", "fused", "queue", "semaphore"};

/* The classes of a ragged job. 309 + 192 + 96 jobs, 309·512 + 192·1024 + 96·4096 = 748 032. */
static const struct {
    uint32_t jobs, rounds;
} classes[] = {{309, 512}, {192, 1024}, {96, 4096}};
/* 611 328 : 748 032 in lowest terms */
enum { BALANCED = 1024, EQUAL_OF = 398, EQUAL_IN = 487 };

static void shuffle(uint32_t *x, uint32_t count)
{
    for (uint32_t i = count; i-- > 1;) {
        const uint32_t j = (uint32_t)(b1i_mix64(i) % (i + 1)), t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
}

static void ragged(uint32_t *x)
{
    uint32_t n = 0;
    for (size_t c = 0; c < sizeof classes / sizeof *classes; c++)
        for (uint32_t i = 0; i < classes[c].jobs; i++) x[n++] = classes[c].rounds;
    shuffle(x, n);
}

/* x[i] · of / in, rounded so that every prefix's sum is off by less than one. */
static void scale(uint32_t *x, uint32_t count, uint64_t of, uint64_t in)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t before = sum * of / in;
        sum += x[i];
        x[i] = (uint32_t)(sum * of / in - before);
    }
}

uint64_t b1i_tiles_rounds(b1i_tiles_fixture fixture, uint32_t divisor, uint32_t iterations[B1I_TILES_JOBS])
{
    uint64_t sum = 0;
    if (fixture == b1i_tiles_balanced)
        for (int i = 0; i < B1I_TILES_JOBS; i++) iterations[i] = BALANCED;
    else
        ragged(iterations);
    if (fixture == b1i_tiles_ragged_equal)
        scale(iterations, B1I_TILES_JOBS, EQUAL_OF, (uint64_t)EQUAL_IN * divisor);
    else
        scale(iterations, B1I_TILES_JOBS, 1, divisor);
    for (int i = 0; i < B1I_TILES_JOBS; i++) sum += iterations[i];
    return sum;
}

uint32_t b1i_tiles_producers(unsigned units, uint64_t produced, uint64_t consumed)
{
    const double part = (double)produced / (double)(produced + consumed);
    return (uint32_t)fmin(fmax(round(part * units), 1), units - 1);
}

/* ---- operations ---- */

typedef struct step {
    const char *kernel;
    b1i_lab_body body;
} step;
static const step steps[b1i_tiles_variants][2] = {
    [b1i_tiles_separate] = {{"k_tiles_a", b1i_tiles_cpu_a}, {"k_tiles_b", b1i_tiles_cpu_b}},
    [b1i_tiles_fused] = {{"k_tiles_fused", b1i_tiles_cpu_fused}},
    [b1i_tiles_queue] = {{"k_tiles_queue", b1i_tiles_cpu_queue}},
    [b1i_tiles_semaphore] = {{"k_tiles_semaphore", b1i_tiles_cpu_semaphore}},
};

int b1i_tiles_ops(b1i_tiles_variant variant, const b1i_tiles_args *args, unsigned units, unsigned shared_bytes,
                  b1i_lab_op ops[B1I_TILES_OPS_MOST])
{
    const bool stays = variant == b1i_tiles_queue || variant == b1i_tiles_semaphore;
    int count = 0;
    _Static_assert(sizeof *args <= B1I_LAB_ARGS_MAX, "args fit");
    memset(ops, 0, B1I_TILES_OPS_MOST * sizeof *ops);
    if (stays) { /* the counters' reset is part of every invocation */
        ops[count].fill = args->counters;
        ops[count++].fill_bytes = (B1I_TILES_READY + (variant == b1i_tiles_semaphore ? args->jobs : 0)) * 4;
    }
    for (int i = 0; i < 2 && steps[variant][i].kernel; i++) {
        b1i_lab_op *op = &ops[count++];
        op->kernel = steps[variant][i].kernel;
        op->body = steps[variant][i].body;
        op->grid = stays ? units : args->jobs;
        op->threads = B1I_TILES_LANES;
        op->shared_bytes = shared_bytes;
        op->arg_bytes = sizeof *args;
        memcpy(op->args, args, sizeof *args);
    }
    return count;
}
