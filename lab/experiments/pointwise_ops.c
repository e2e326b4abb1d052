/* SPDX-License-Identifier: MIT
 *
 * The pointwise chain as operations, and their bodies on the CPU: each worker has a share of the elements, in whole
 * cache lines.
 */
#include "lab/experiments/pointwise.h"

#include "base/threads.h"
#include "lab/kernels/pointwise_args.h"

#include <math.h>
#include <string.h>

enum { LINE = 16 /* floats */ };

static inline float into(float x) { return B1I_CHAIN_IN_SCALE * x + B1I_CHAIN_IN_OFFSET; }
static inline float squash(float a) { return a / (1.0f + fabsf(a)); }
static inline float out_of(float b) { return B1I_CHAIN_OUT_SCALE * b + B1I_CHAIN_OUT_OFFSET; }
static inline float chain(float x) { return out_of(squash(into(x))); }

/* Inlined, so that `f` is no call and the loop becomes one of vectors. */
static inline __attribute__((always_inline)) void each(const b1i_pointwise_args *a, int worker, int workers,
                                                       float (*f)(float))
{
    const float *restrict from = (const float *)(uintptr_t)a->from;
    float *restrict to = (float *)(uintptr_t)a->to;
    int64_t begin, end;
    b1i_share(a->count, LINE, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) to[i] = f(from[i]);
}

static void body_in(const void *args, int worker, int workers) { each(args, worker, workers, into); }
static void body_squash(const void *args, int worker, int workers) { each(args, worker, workers, squash); }
static void body_out(const void *args, int worker, int workers) { each(args, worker, workers, out_of); }
static void body_fused(const void *args, int worker, int workers) { each(args, worker, workers, chain); }

static void set_op(b1i_lab_op *op, const char *kernel, b1i_lab_body body, uint64_t from, uint64_t to, int64_t count)
{
    const int64_t block = B1I_POINTWISE_THREADS * B1I_POINTWISE_EACH;
    const b1i_pointwise_args args = {from, to, count};
    *op = (b1i_lab_op){.kernel = kernel,
                       .body = body,
                       .grid = (unsigned)((count + block - 1) / block),
                       .threads = B1I_POINTWISE_THREADS,
                       .arg_bytes = sizeof args};
    memcpy(op->args, &args, sizeof args);
}

int b1i_pointwise_ops(bool fused, const b1i_pointwise_arrays *at, b1i_lab_op *ops)
{
    if (fused) {
        set_op(&ops[0], "k_pointwise_fused", body_fused, at->x, at->y, at->count);
        return 1;
    }
    set_op(&ops[0], "k_pointwise_in", body_in, at->x, at->a, at->count);
    set_op(&ops[1], "k_pointwise_squash", body_squash, at->a, at->b, at->count);
    set_op(&ops[2], "k_pointwise_out", body_out, at->b, at->y, at->count);
    return 3;
}
