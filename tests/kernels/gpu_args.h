/* SPDX-License-Identifier: MIT
 *
 * What tests/test_gpu.c, its kernels and the driver that stands in for one share.
 */
#ifndef B1I_TEST_GPU_ARGS_H
#define B1I_TEST_GPU_ARGS_H

#include <stdint.h>

/* k_test_step: out[i] = 3 · in[(7 i + 1) mod count] + value, for i < count; 7 does not divide count.
 * k_test_fault: writes to an address that is none. */
typedef struct test_gpu_args {
    uint64_t in, out; /* uint32 [count] */
    uint32_t count, value;
} test_gpu_args;

#endif
