/* SPDX-License-Identifier: MIT
 *
 * What ceiling.c and its kernels share. Plain C that nvcc reads too.
 */
#ifndef B1I_GPU_CEILING_ARGS_H
#define B1I_GPU_CEILING_ARGS_H

#include <stdint.h>

enum {
    B1I_READ_TILE = 16384,  /* bytes of a bulk copy, and of what a block of plain loads takes in turn */
    B1I_READ_SLOTS = 13,    /* most bulk copies in flight of a block: 208 KiB of an SM's 227 */
    B1I_READ_THREADS = 256, /* of a block of plain loads */
    B1I_READ_BARRIERS = 128 /* bytes of shared memory past the slots: an mbarrier each */
};

/* k_read_plain, k_read_bulk: reads `tiles` tiles at `from`, 16-byte aligned. */
typedef struct b1i_read_args {
    uint64_t from;
    int64_t tiles;
    uint64_t sink; /* a uint32 that may be written (plain) */
    int32_t slots; /* of the ring (bulk) */
    int32_t pad;
} b1i_read_args;

#endif
