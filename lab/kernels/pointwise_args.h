/* SPDX-License-Identifier: MIT
 *
 * The chain of pointwise.cu, and what its kernels and their bodies on the CPU are given:
 *
 *   a = 1.5 x + 0.25        b = a / (1 + |a|)        y = 0.75 b - 0.125
 */
#ifndef LAB_KERNELS_POINTWISE_ARGS_H
#define LAB_KERNELS_POINTWISE_ARGS_H

#include <stdint.h>

#define B1I_CHAIN_IN_SCALE   1.5f
#define B1I_CHAIN_IN_OFFSET  0.25f
#define B1I_CHAIN_OUT_SCALE  0.75f
#define B1I_CHAIN_OUT_OFFSET (-0.125f)

enum { B1I_POINTWISE_THREADS = 256, B1I_POINTWISE_EACH = 4 /* elements of a thread */ };

typedef struct b1i_pointwise_args {
    uint64_t from, to; /* float [count], at 16-byte boundaries; apart from each other */
    int64_t count;
} b1i_pointwise_args;

#endif
