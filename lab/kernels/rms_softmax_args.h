/* SPDX-License-Identifier: MIT
 *
 * An RMS-scaled softmax over rows, and what the kernels of rms_softmax.cu and their bodies on the CPU are given. Of a
 * row x [width]:
 *
 *   square_mean = Σ x² / width        z = x / √(square_mean + ε)        most = max z        sum = Σ exp(z − most)
 *   y = exp(z − most) / sum
 */
#ifndef LAB_KERNELS_RMS_SOFTMAX_ARGS_H
#define LAB_KERNELS_RMS_SOFTMAX_ARGS_H

#include <stdint.h>

#define B1I_SOFTMAX_EPSILON 1e-6f

/* Each kernel and body reads and writes those that it needs; the others may be 0. */
typedef struct b1i_softmax_args {
    uint64_t x, z, y;                /* float [rows][width] */
    uint64_t square_mean, most, sum; /* float [rows] */
    uint64_t next;                   /* uint32: rows that were taken; 0 when a persistent one begins */
    int32_t rows, width;
} b1i_softmax_args;

#endif
