/* SPDX-License-Identifier: MIT
 *
 * Two-stage jobs under four ways of dealing them out (tiles_args.h says what a job is). A block has 256 threads, a lane
 * each, and reserves so much shared memory that an SM holds one block: what differs between the kernels is then the
 * order of the jobs alone.
 *
 * Every stage ends in a barrier. With a trace, thread 0 reads globaltimer before its part of the stage and after that
 * barrier; without one the kernels are the same but for this branch.
 */
#include "common.cuh"
#include "tiles_args.h"

namespace {

enum stage : uint32_t { A, B };

__device__ __forceinline__ uint32_t rounds(uint32_t x, uint32_t count)
{
#pragma unroll 4
    for (uint32_t i = 0; i < count; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x = 1664525u * x + i;
    }
    return x;
}

__device__ __forceinline__ uint64_t begin(const b1i_tiles_args &a)
{
    return a.trace && threadIdx.x == 0 ? global_ns() : 0;
}

__device__ __forceinline__ void end(const b1i_tiles_args &a, stage s, uint32_t job, uint64_t began)
{
    __syncthreads(); /* orders what all lanes left before B's reads, and before the end that is noted */
    if (!a.trace || threadIdx.x != 0) return;
    b1i_tiles_mark *mark = ptr<b1i_tiles_mark>(a.trace) + s * a.jobs + job;
    mark->begin_ns = began;
    mark->end_ns = global_ns();
    mark->unit = sm_id();
    atomicAdd(&mark->times, 1);
}

__device__ __forceinline__ void produce(const b1i_tiles_args &a, uint32_t job)
{
    const uint64_t began = begin(a);
    const uint32_t at = B1I_TILES_LANES * job + threadIdx.x;
    ptr<uint32_t>(a.between)[at] = rounds(2654435769u * (at + 1), ptr<const uint32_t>(a.iterations)[job]);
    end(a, A, job, began);
}

__device__ __forceinline__ void consume(const b1i_tiles_args &a, uint32_t job)
{
    const uint64_t began = begin(a);
    const uint32_t *between = ptr<uint32_t>(a.between) + B1I_TILES_LANES * job;
    const uint32_t x = between[threadIdx.x] + 7 * between[(threadIdx.x + 97) % B1I_TILES_LANES];
    ptr<uint32_t>(a.out)[B1I_TILES_LANES * job + threadIdx.x] = rounds(x, a.consume);
    end(a, B, job, began);
}

/* One more of the counter `word`, the same for the whole block. */
__device__ __forceinline__ uint32_t take(const b1i_tiles_args &a, uint32_t word)
{
    __shared__ uint32_t taken;
    __syncthreads(); /* orders everybody's read of the one before in front of this write */
    if (threadIdx.x == 0) taken = atomicAdd(ptr<uint32_t>(a.counters) + word, 1);
    __syncthreads(); /* orders the write before everybody's read */
    return taken;
}

/* Call after the barrier that ends A: what every lane left is then before the store for whoever sees it. */
__device__ __forceinline__ void announce(const b1i_tiles_args &a, uint32_t job)
{
    if (threadIdx.x != 0) return;
    uint32_t *ready = ptr<uint32_t>(a.counters) + B1I_TILES_READY + job;
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(ready) : "memory");
}

__device__ __forceinline__ void wait_for(const b1i_tiles_args &a, uint32_t job)
{
    if (threadIdx.x == 0) {
        const uint32_t *ready = ptr<uint32_t>(a.counters) + B1I_TILES_READY + job;
        uint32_t seen;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(ready) : "memory");
        } while (!seen);
    }
    __syncthreads(); /* orders what thread 0 has seen before everybody's reads */
}

} // namespace

/* separate: a block a job, first all A, then, a kernel later, all B */
extern "C" __global__ void __launch_bounds__(B1I_TILES_LANES) k_tiles_a(const __grid_constant__ b1i_tiles_args a)
{
    produce(a, blockIdx.x);
}
extern "C" __global__ void __launch_bounds__(B1I_TILES_LANES) k_tiles_b(const __grid_constant__ b1i_tiles_args a)
{
    consume(a, blockIdx.x);
}

/* fused: a block a job, its B after its own A */
extern "C" __global__ void __launch_bounds__(B1I_TILES_LANES) k_tiles_fused(const __grid_constant__ b1i_tiles_args a)
{
    produce(a, blockIdx.x);
    consume(a, blockIdx.x);
}

/* queue: blocks that stay and take the next job, A and B, until there is none */
extern "C" __global__ void __launch_bounds__(B1I_TILES_LANES) k_tiles_queue(const __grid_constant__ b1i_tiles_args a)
{
    for (uint32_t job; (job = take(a, B1I_TILES_HEAD)) < a.jobs;) {
        produce(a, job);
        consume(a, job);
    }
}

/* semaphore: the first `producers` blocks to begin take jobs for A, the others, which lie on other SMs, for B; both in
 * the order of the jobs. It cannot come to a standstill: a producer waits for nobody; a block becomes a consumer only
 * after all producers have begun; and a consumer waits only for a job that stands before it in the same order, which a
 * producer has or will take. The grid is no larger than what the GPU holds at once, so that no block begins late on an
 * SM that a block of the other kind has left. More than `producers` blocks; nothing else may run on the GPU. */
extern "C" __global__ void __launch_bounds__(B1I_TILES_LANES) k_tiles_semaphore(const __grid_constant__ b1i_tiles_args a)
{
    if (take(a, B1I_TILES_ARRIVED) < a.producers) {
        for (uint32_t job; (job = take(a, B1I_TILES_HEAD)) < a.jobs;) {
            produce(a, job);
            announce(a, job);
        }
    } else {
        for (uint32_t job; (job = take(a, B1I_TILES_TAIL)) < a.jobs;) {
            wait_for(a, job);
            consume(a, job);
        }
    }
}
