/* SPDX-License-Identifier: MIT
 *
 * Kernels of tests/test_gpu.c.
 */
#include "cuda/kernels/common.cuh"
#include "gpu_args.h"

/* Starts before its predecessor has ended and waits as every kernel of a program does: in a chain, an edge that orders
 * too little shows in the values. A block reads what other blocks wrote. */
extern "C" __global__ void k_test_step(test_gpu_args q)
{
    release_next();
    wait_inputs();
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < q.count; i += gridDim.x * blockDim.x)
        ptr<uint32_t>(q.out)[i] = 3 * __ldcg(ptr<const uint32_t>(q.in) + (7 * i + 1) % q.count) + q.value;
}

extern "C" __global__ void k_test_fault(test_gpu_args q)
{
    *ptr<volatile uint32_t>(16) = q.value;
}
