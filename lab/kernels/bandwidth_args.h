/* SPDX-License-Identifier: MIT
 *
 * What the kernels of bandwidth.cu, and the bodies that do the same on the CPU, are given. Each unit (an SM's only
 * block, or a worker) goes over a part of its own, again and again.
 */
#ifndef LAB_KERNELS_BANDWIDTH_ARGS_H
#define LAB_KERNELS_BANDWIDTH_ARGS_H

#include <stdint.h>

enum {
    B1I_BAND_TILE = 16384,   /* bytes of a bulk copy; parts are whole tiles, a power of two of them */
    B1I_BAND_THREADS = 1024, /* of a block of plain accesses */
    B1I_BAND_READERS = 256,  /* of a block of bulk reads, past its first warp, which orders the copies */
    B1I_BAND_SLOTS = 13,     /* most tiles of a block's ring: 208 KiB */
    B1I_BAND_EXTRA = 256     /* bytes of shared memory past the ring: two mbarriers a slot */
};

/* Reads `from`, writes `to`, or copies; those that read add up the 32-bit words of all passes. What is written is, word
 * by word of a tile, its place in the tile × B1I_BAND_STEP + seed. */
#define B1I_BAND_STEP 0x9e3779b1u
typedef struct b1i_band_args {
    uint64_t from, to; /* [units][part] bytes, 256-byte aligned */
    uint64_t out;      /* uint64 [units]: what a unit's reading gives */
    uint32_t part;     /* bytes of a unit */
    uint32_t passes;   /* odd, so that the sum of all passes says what the sum of one is */
    uint32_t seed;
    uint32_t slots; /* of the ring: 6 or more */
} b1i_band_args;

#endif
