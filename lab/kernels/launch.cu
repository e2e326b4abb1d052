/* SPDX-License-Identifier: MIT
 *
 * Kernels that show what launching and meeting cost. Each does as little beside as it can.
 *
 * A wait for another block ends by itself after POLLS looks, a few seconds: then the launch says so (B1I_SYNC_WRONG)
 * and hangs nobody.
 */
#include "launch_args.h"

#include "common.cuh"

namespace
{

constexpr int POLLS = 1 << 22;

__device__ __forceinline__ uint32_t look_acquire(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ uint32_t look_relaxed(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void tell_release(uint32_t *p, uint32_t v)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void tell_relaxed(uint32_t *p, uint32_t v)
{
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void arrive(uint32_t *counter)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

/* 16 bytes past L1, whose words are added up. */
__device__ __forceinline__ uint4 load16(const char *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
__device__ __forceinline__ uint32_t sum_of(uint4 v) { return v.x + v.y + v.z + v.w; }

__device__ __forceinline__ uint32_t *line(const b1i_sync_args &a, uint32_t i)
{
    return reinterpret_cast<uint32_t *>(a.lines + (uint64_t)i * B1I_SYNC_LINE);
}

/* The threads that meet, of their block alone; the load's never come here. */
__device__ __forceinline__ void meet_in_block()
{
    asm volatile("bar.sync 1, %0;" ::"n"((int)B1I_SYNC_MEMBERS) : "memory");
}

/* The load: reads the block's part in a circle until the block's members say stop. */
__device__ __forceinline__ void be_load(const b1i_sync_args &a, const volatile int *stop)
{
    constexpr uint32_t THREADS = B1I_SYNC_THREADS - B1I_SYNC_MEMBERS, ROW = THREADS * 16, STEP = ROW * B1I_SYNC_LOADS;
    const char *part = ptr<const char>(a.load) + a.load_bytes * blockIdx.x + (threadIdx.x - B1I_SYNC_MEMBERS) * 16;
    uint64_t at = 0, steps = 0;
    uint32_t sum = 0;
    for (; !*stop; steps++) {
        uint4 v[B1I_SYNC_LOADS];
#pragma unroll
        for (int i = 0; i < B1I_SYNC_LOADS; i++) v[i] = load16(part + at + i * ROW);
#pragma unroll
        for (int i = 0; i < B1I_SYNC_LOADS; i++) sum += sum_of(v[i]);
        at += STEP;
        if (at + STEP > a.load_bytes) at = 0;
    }
    atomicAdd(ptr<unsigned long long>(a.out) + B1I_SYNC_LOADED, steps * (16 * B1I_SYNC_LOADS));
    if (sum == 0x80000001u) line(a, gridDim.x + 1)[1] = sum; /* what was loaded is used; nobody reads it */
}

} // namespace

/* Nothing. */
extern "C" __global__ void k_null(const __grid_constant__ b1i_null_args a) {}

/* Nothing, and the next kernel need not wait for its end to start. */
extern "C" __global__ void k_null_early(const __grid_constant__ b1i_null_args a)
{
    release_next();
    wait_inputs();
}

/* A barrier of the whole grid, again and again: arrivals are counted by one counter that only grows. All blocks must be
 * resident, one an SM. A block's members meet, its first thread arrives and waits for the others' first threads, the
 * members meet again: what any member of any block wrote before is seen by all after. */
extern "C" __global__ void __launch_bounds__(B1I_SYNC_THREADS, 1) k_barrier(const __grid_constant__ b1i_sync_args a)
{
    __shared__ volatile int stop;
    uint64_t *out = ptr<uint64_t>(a.out);
    uint32_t *counter = reinterpret_cast<uint32_t *>(out + B1I_SYNC_COUNTER);
    const bool first = threadIdx.x == 0, keeper = first && blockIdx.x == 0;
    if (first) stop = 0;
    if (keeper) out[B1I_SYNC_START] = global_ns();
    __syncthreads(); /* orders the zero before the load's first look */
    if (threadIdx.x >= B1I_SYNC_MEMBERS) {
        if (a.load) be_load(a, &stop);
        return;
    }
    const uint32_t turns = a.warm + a.turns;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < turns; i++) {
        if (keeper && i == a.warm) out[B1I_SYNC_FROM] = global_ns();
        if (a.check && first) tell_relaxed(line(a, blockIdx.x), i + 1);
        meet_in_block(); /* orders what the members wrote before the arrival */
        if (first) {
            int polls = 0;
            arrive(counter);
            while (!wrong && (int32_t)(look_acquire(counter) - (i + 1) * gridDim.x) < 0) wrong = ++polls == POLLS;
        }
        meet_in_block(); /* orders the others' arrivals before what the members do next */
        if (a.check && first) wrong += look_relaxed(line(a, (blockIdx.x + 1 + i) % gridDim.x)) < i + 1;
    }
    if (keeper) out[B1I_SYNC_TO] = global_ns();
    if (!first) return;
    stop = 1;
    out[B1I_SYNC_SEEN + blockIdx.x] = turns;
    if (wrong) atomicAdd((unsigned long long *)out + B1I_SYNC_WRONG, (unsigned long long)wrong);
}

namespace
{

/* One of the two: says its turn in the other's line and waits for the answer in its own; block 0 begins. */
template <bool ORDERED> __device__ __forceinline__ void play(const b1i_sync_args &a)
{
    const bool begins = blockIdx.x == 0;
    uint64_t *out = ptr<uint64_t>(a.out);
    uint32_t *own = line(a, begins ? 0 : a.partner), *other = line(a, begins ? a.partner : 0);
    const uint32_t turns = a.warm + a.turns;
    uint32_t wrong = 0, turn = 1;
    for (; turn <= turns && !wrong; turn++) {
        int polls = 0;
        if (begins && turn == a.warm + 1) out[B1I_SYNC_FROM] = global_ns();
        if (begins) ORDERED ? tell_release(other, turn) : tell_relaxed(other, turn);
        while ((ORDERED ? look_acquire(own) : look_relaxed(own)) < turn && ++polls < POLLS) {
        }
        wrong = polls == POLLS;
        if (!begins) ORDERED ? tell_release(other, turn) : tell_relaxed(other, turn);
    }
    if (begins) out[B1I_SYNC_TO] = global_ns();
    out[B1I_SYNC_SEEN + blockIdx.x] = turn - 1;
    atomicAdd((unsigned long long *)out + B1I_SYNC_WHERE, (unsigned long long)(sm_id() + 1) << (begins ? 0 : 32));
    if (wrong) atomicAdd((unsigned long long *)out + B1I_SYNC_WRONG, 1ull);
}

} // namespace

/* Two blocks on two SMs answer each other through memory, one word each way; a round trip is two latencies of a flag.
 * One block an SM. */
extern "C" __global__ void __launch_bounds__(B1I_SYNC_THREADS, 1) k_flag(const __grid_constant__ b1i_sync_args a)
{
    __shared__ volatile int stop;
    uint64_t *out = ptr<uint64_t>(a.out);
    uint32_t *done = reinterpret_cast<uint32_t *>(out + B1I_SYNC_COUNTER);
    const bool first = threadIdx.x == 0;
    if (first) stop = 0;
    if (first && blockIdx.x == 0) out[B1I_SYNC_START] = global_ns();
    __syncthreads(); /* orders the zero before the load's first look */
    if (threadIdx.x >= B1I_SYNC_MEMBERS) {
        if (a.load) be_load(a, &stop);
        return;
    }
    if (!first) return;
    if (blockIdx.x == 0 || blockIdx.x == a.partner) {
        a.ordered ? play<true>(a) : play<false>(a);
        if (blockIdx.x == 0) tell_relaxed(done, 1);
    } else if (a.load) {
        for (int polls = 0; !look_relaxed(done) && polls < POLLS; polls++) __nanosleep(1000);
    }
    stop = 1;
}

namespace
{

__device__ __forceinline__ uint64_t look_system(uint64_t address)
{
    uint64_t v;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(address) : "memory");
    return v;
}
__device__ __forceinline__ void tell_system(uint64_t *p, uint64_t v)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Reads the block's part in a circle until the block's keeper says stop. */
__device__ __forceinline__ void read_beside(const b1i_beside_args &a, const volatile int *stop,
                                            unsigned long long *total)
{
    constexpr uint32_t ROW = B1I_BESIDE_READERS * 16;
    const char *part = ptr<const char>(a.load) + a.load_bytes * blockIdx.x + threadIdx.x * 16;
    uint64_t at = 0, steps = 0;
    uint32_t sum = 0;
    for (; !*stop; steps++) {
        uint4 v[B1I_BESIDE_LOADS];
#pragma unroll
        for (int i = 0; i < B1I_BESIDE_LOADS; i++) v[i] = load16(part + at + i * ROW);
#pragma unroll
        for (int i = 0; i < B1I_BESIDE_LOADS; i++) sum += sum_of(v[i]);
        at += B1I_BESIDE_STEP;
        if (at == a.load_bytes) at = 0;
    }
    atomicAdd(total, steps * (16 * B1I_BESIDE_LOADS));
    if (sum == 0x80000001u) ptr<uint32_t>(a.relay)[2] = sum; /* what was loaded is used; nobody needs it */
}

/* Until the launch is told to stop, which block 0 passes on, or its time is over: then true. */
__device__ __forceinline__ bool keep_until(const b1i_beside_args &a, uint64_t began)
{
    const uint64_t word = blockIdx.x == 0 ? a.stop : a.relay;
    bool expired = false;
    while (!expired && look_system(word) != a.turn) {
        expired = global_ns() - began > a.most_ns;
        __nanosleep(500);
    }
    if (blockIdx.x == 0) tell_system(ptr<uint64_t>(a.relay), a.turn);
    return expired;
}

} // namespace

/* A load of memory for what other streams run meanwhile: small enough for other blocks to lie beside it on an SM. */
extern "C" __global__ void __launch_bounds__(B1I_BESIDE_THREADS, 2)
    k_load_beside(const __grid_constant__ b1i_beside_args a)
{
    __shared__ volatile int stop;
    __shared__ unsigned long long bytes;
    const bool keeper = threadIdx.x == B1I_BESIDE_READERS;
    b1i_beside_word *out = ptr<b1i_beside_word>(a.out) + blockIdx.x;
    bool expired = false;
    if (keeper) {
        stop = 0;
        bytes = 0;
    }
    __syncthreads(); /* orders the zeros before the first look */
    const uint64_t began = global_ns();
    if (threadIdx.x < B1I_BESIDE_READERS) read_beside(a, &stop, &bytes);
    if (keeper) {
        tell_system(&out->running, a.turn);
        expired = keep_until(a, began);
        stop = 1;
    }
    __syncthreads(); /* orders what each read before the sum of it */
    if (!keeper) return;
    out->bytes = bytes;
    out->ns = global_ns() - began;
    out->expired = expired;
    tell_system(&out->turn, a.turn);
}
