/* SPDX-License-Identifier: MIT
 *
 * What the kernels of launch.cu, and the bodies that do the same on the CPU, are given. A unit is an SM or a worker.
 */
#ifndef LAB_KERNELS_LAUNCH_ARGS_H
#define LAB_KERNELS_LAUNCH_ARGS_H

#include <stdint.h>

enum {
    B1I_NULL_THREADS = 32,
    B1I_SYNC_THREADS = 1024,                      /* of k_barrier and k_flag, a block a SM */
    B1I_SYNC_MEMBERS = 128,                       /* those of them that meet; the others are the load */
    B1I_SYNC_LOADS = 8,                           /* in flight of each thread of the load: 112 KiB of an SM */
    B1I_SYNC_LINE = 256,                          /* bytes between words that different units write */
    B1I_BESIDE_READERS = 512,                     /* of k_load_beside, a block an SM, that read */
    B1I_BESIDE_THREADS = B1I_BESIDE_READERS + 32, /* and a warp that keeps the time */
    B1I_BESIDE_LOADS = 8,                         /* in flight of each reader: 64 KiB of an SM */
    B1I_BESIDE_STEP = 16 * B1I_BESIDE_READERS * B1I_BESIDE_LOADS
};

/* k_null, k_null_early */
typedef struct b1i_null_args {
    uint64_t unused;
} b1i_null_args;

/* What both of the following write, uint64 each, after the launch began with zeros. */
enum {
    B1I_SYNC_START,    /* when unit 0 began, of the device's clock in ns */
    B1I_SYNC_FROM,     /* when its last turn of warming up was over */
    B1I_SYNC_TO,       /* when its last timed turn was over */
    B1I_SYNC_LOADED,   /* bytes that the load read from START on */
    B1I_SYNC_WRONG,    /* meetings that were none, and waits that were given up */
    B1I_SYNC_WHERE,    /* k_flag: the SMs of the two players, 1 added, the second's << 32 */
    B1I_SYNC_COUNTER,  /* k_barrier: arrivals; k_flag: that the players are done */
    B1I_SYNC_SEEN = 8, /* [units]: turns that the unit took */
};

/* k_barrier: `members` units meet `warm` + `turns` times; on the GPU all meet, and each block's threads with it.
 * k_flag: unit 0 and unit `partner` answer each other so often. The units' other threads, on the CPU the other
 * workers, read each its part of `load` in a circle until those are done. */
typedef struct b1i_sync_args {
    uint64_t out;   /* uint64 [B1I_SYNC_SEEN + units], zeros */
    uint64_t lines; /* a uint32 every B1I_SYNC_LINE bytes, [units + 2], zeros */
    uint64_t load;  /* [units][load_bytes]; 0: no load */
    uint64_t load_bytes;
    uint32_t warm, turns;
    uint32_t members, partner;
    uint32_t check;   /* k_barrier: each looks after each meeting whether another one came */
    uint32_t ordered; /* k_flag: release and acquire instead of relaxed */
} b1i_sync_args;

/* What k_load_beside says to the host, in pinned memory, of each block; everything is of this launch where `turn` and
 * `running` are its turn. */
typedef struct b1i_beside_word {
    uint64_t running; /* the turn, once the block reads */
    uint64_t turn;    /* once the others of these are there */
    uint64_t bytes, ns;
    uint64_t expired; /* not told to stop: its time was over */
} b1i_beside_word;

/* k_load_beside: each block reads its part of `load` in a circle until the word at `stop` is `turn`, or `most_ns` are
 * over. */
typedef struct b1i_beside_args {
    uint64_t load;       /* [blocks][load_bytes], 256-byte aligned */
    uint64_t load_bytes; /* of a block, a multiple of B1I_BESIDE_STEP */
    uint64_t stop;       /* uint64, pinned */
    uint64_t relay;      /* uint64 [2] of the device: block 0 looks at `stop`, all others at the first of these, which
                          * is not `turn` before */
    uint64_t out;        /* b1i_beside_word [blocks], pinned */
    uint64_t turn;       /* another one for each launch, not 0 */
    uint64_t most_ns;
    uint64_t blocks;
} b1i_beside_args;

#endif
