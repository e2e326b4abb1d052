/* SPDX-License-Identifier: MIT
 *
 * What the kernels of tiles.cu and the bodies of tiles_cpu.c are given, and what a job is.
 *
 * A job is 256 lanes in two stages, each of them rounds of
 *     x ^= x << 13;  x ^= x >> 17;  x ^= x << 5;  x = 1664525·x + i        (i counts the stage's rounds, mod 2^32)
 * A: lane l of job j starts with x = 2654435769·(256·j + l + 1), does iterations[j] rounds, and leaves x in
 *    between[j][l].
 * B: lane l starts with between[j][l] + 7·between[j][(l + 97) mod 256], does `consume` rounds, and leaves x in
 *    out[j][l]. So it needs another lane's A, which only the barrier at the end of A gives it.
 */
#ifndef LAB_KERNELS_TILES_ARGS_H
#define LAB_KERNELS_TILES_ARGS_H

#include <stdint.h>

enum { B1I_TILES_LANES = 256 };

/* Counters, all 0 when an invocation begins: words of `counters`, each head in a line of its own. */
enum {
    B1I_TILES_HEAD = 0,     /* next job, or next job to produce */
    B1I_TILES_TAIL = 32,    /* next job to consume */
    B1I_TILES_ARRIVED = 64, /* blocks that have begun */
    B1I_TILES_READY = 96    /* [jobs]: 1 once its A is done */
};

/* What a traced stage leaves. */
typedef struct b1i_tiles_mark {
    uint64_t begin_ns, end_ns;
    uint32_t unit;  /* SM, or worker */
    uint32_t times; /* that this stage of this job was done */
} b1i_tiles_mark;

typedef struct b1i_tiles_args {
    uint64_t iterations; /* uint32 [jobs] */
    uint64_t between;    /* uint32 [jobs][256] */
    uint64_t out;        /* uint32 [jobs][256] */
    uint64_t counters;   /* uint32 [B1I_TILES_READY + jobs] */
    uint64_t trace;      /* b1i_tiles_mark [2][jobs], A's first; 0: nothing is traced */
    uint32_t jobs, consume;
    uint32_t producers; /* semaphore: blocks, or workers, that do A; the others do B */
} b1i_tiles_args;

#endif
