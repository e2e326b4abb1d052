/* SPDX-License-Identifier: MIT
 *
 * What the lab's kernels share: pointers from addresses, the device's clock, and programmatic launch, which is nothing
 * before compute capability 9.0.
 */
#ifndef LAB_KERNELS_COMMON_CUH
#define LAB_KERNELS_COMMON_CUH

#include <stdint.h>

template <class T> __device__ __forceinline__ T *ptr(uint64_t address) { return reinterpret_cast<T *>(address); }

/* The device's clock in nanoseconds; it goes in steps. */
__device__ __forceinline__ uint64_t global_ns()
{
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

__device__ __forceinline__ uint32_t sm_id()
{
    uint32_t id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

/* Lets the next kernel of the graph start once every block of this one has been here or has ended; what it reads of
 * this one it waits for itself. */
__device__ __forceinline__ void release_next()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* Returns when the kernel before has ended and what it wrote is visible. Every thread of a kernel waits, so that a
 * kernel that has ended is later than all before it. */
__device__ __forceinline__ void wait_inputs()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif
