/* SPDX-License-Identifier: MIT
 *
 * What the kernels of probe.cu are given. In all *_args.h of this folder an address is 64 bits of the device's
 * memory; on the CPU, where the same structs go to the bodies of operations, it is a pointer's value.
 */
#ifndef LAB_KERNELS_PROBE_ARGS_H
#define LAB_KERNELS_PROBE_ARGS_H

#include <stdint.h>

/* k_spin: one thread that returns `ns` nanoseconds of globaltimer after it began. */
typedef struct b1i_spin_args {
    uint64_t ns;
} b1i_spin_args;

/* k_clock: one thread; over at least `ns` of globaltimer the cycles of clock64, and the smallest step of globaltimer
 * that it saw. */
typedef struct b1i_clock_args {
    uint64_t ns;
    uint64_t out; /* uint64 [3]: cycles, nanoseconds, tick */
} b1i_clock_args;

#endif
