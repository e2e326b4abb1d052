/* SPDX-License-Identifier: MIT
 *
 * Ways to read, write and copy memory. One block an SM goes over its own part `passes` times: a part that fits L1 stays
 * there (where the access goes through it), parts that together fit L2 stay there, larger ones are memory's; of a part
 * that is little larger than L1 a good deal still comes from there, so that L2 shows where L1 is passed. All passes
 * are one loop of rows (what the block's threads take by one access each) that wraps at the part's end, so that a small
 * part leaves as many accesses in flight as a large one.
 */
#include "bandwidth_args.h"

#include "common.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define BULK 1
#else
#define BULK 0
#endif

namespace
{

/* ---- one access ---- */
__device__ __forceinline__ void load(uint32_t &v, const char *p)
{
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
}
__device__ __forceinline__ void load(uint2 &v, const char *p)
{
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
}
__device__ __forceinline__ void load(uint4 &v, const char *p)
{
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
}
/* 16 bytes that L1 does not keep: a part that L1 would hold is read from L2 again. */
struct past_l1 {
    uint4 v;
};
__device__ __forceinline__ void load(past_l1 &l, const char *p)
{
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(l.v.x), "=r"(l.v.y), "=r"(l.v.z), "=r"(l.v.w)
                 : "l"(p));
}
__device__ __forceinline__ void store(char *p, uint32_t v)
{
    asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ void store(char *p, uint4 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
/* Evicted first. */
__device__ __forceinline__ void store_streaming(char *p, uint4 v)
{
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
__device__ __forceinline__ uint32_t sum_of(uint32_t v) { return v; }
__device__ __forceinline__ uint32_t sum_of(uint2 v) { return v.x + v.y; }
__device__ __forceinline__ uint32_t sum_of(uint4 v) { return v.x + v.y + v.z + v.w; }
__device__ __forceinline__ uint32_t sum_of(past_l1 l) { return sum_of(l.v); }

/* The word at place `word` of a tile, of what is written. */
__device__ __forceinline__ uint32_t word_at(const b1i_band_args &a, uint32_t word)
{
    return word * B1I_BAND_STEP + a.seed;
}
__device__ __forceinline__ uint4 words_at(const b1i_band_args &a, uint32_t word)
{
    return make_uint4(word_at(a, word), word_at(a, word + 1), word_at(a, word + 2), word_at(a, word + 3));
}

/* The block's sum, from its threads', as its output. */
__device__ __forceinline__ void give_sum(const b1i_band_args &a, uint32_t sum)
{
    __shared__ uint32_t total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads(); /* orders the zero before the additions */
    sum = __reduce_add_sync(0xffffffffu, sum);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, sum);
    __syncthreads(); /* orders the additions before the reading */
    if (threadIdx.x == 0) ptr<uint64_t>(a.out)[blockIdx.x] = total;
}

/* ---- plain accesses ---- */

/* Reads with FLIGHT accesses of T of each thread in flight. */
template <class T, int FLIGHT> __device__ __forceinline__ void read(const b1i_band_args &a)
{
    constexpr uint32_t ROW = B1I_BAND_THREADS * sizeof(T);
    const char *from = ptr<const char>(a.from) + (uint64_t)a.part * blockIdx.x + threadIdx.x * sizeof(T);
    const uint32_t mask = a.part - 1;
    uint64_t rows = (uint64_t)(a.part / ROW) * a.passes;
    uint32_t at = 0, sum = 0;
#pragma unroll 1
    for (; rows >= FLIGHT; rows -= FLIGHT) {
        T v[FLIGHT];
#pragma unroll
        for (int i = 0; i < FLIGHT; i++) {
            load(v[i], from + at);
            at = (at + ROW) & mask;
        }
#pragma unroll
        for (int i = 0; i < FLIGHT; i++) sum += sum_of(v[i]);
    }
#pragma unroll 1
    for (; rows; rows--) {
        T v;
        load(v, from + at);
        at = (at + ROW) & mask;
        sum += sum_of(v);
    }
    give_sum(a, sum);
}

__device__ __forceinline__ void copy(const b1i_band_args &a)
{
    constexpr uint32_t ROW = B1I_BAND_THREADS * 16, FLIGHT = 4;
    const uint64_t offset = (uint64_t)a.part * blockIdx.x + threadIdx.x * 16;
    const char *from = ptr<const char>(a.from) + offset;
    char *to = ptr<char>(a.to) + offset;
    const uint32_t mask = a.part - 1;
    uint64_t rows = (uint64_t)(a.part / ROW) * a.passes;
    uint32_t at = 0;
#pragma unroll 1
    for (; rows >= FLIGHT; rows -= FLIGHT) {
        uint4 v[FLIGHT];
#pragma unroll
        for (uint32_t i = 0; i < FLIGHT; i++) load(v[i], from + ((at + i * ROW) & mask));
#pragma unroll
        for (uint32_t i = 0; i < FLIGHT; i++) store(to + ((at + i * ROW) & mask), v[i]);
        at = (at + FLIGHT * ROW) & mask;
    }
#pragma unroll 1
    for (; rows; rows--) {
        uint4 v;
        load(v, from + at);
        store(to + at, v);
        at = (at + ROW) & mask;
    }
}

/* ---- bulk copies: mbarriers and the copy engine of compute capability 9.0 ---- */
#if BULK

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrier_init(uint64_t *b, int count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint64_t *b, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(shared_address(b)),
                 "r"(parity)
                 : "memory");
}
/* A tile into shared memory; `b` completes when it is there. */
__device__ __forceinline__ void bulk_load(char *to, const char *from, uint64_t *b)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)),
                 "r"((int)B1I_BAND_TILE)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"((int)B1I_BAND_TILE), "r"(shared_address(b))
                 : "memory");
}
/* A tile out of it, as a group of its own. */
__device__ __forceinline__ void bulk_store(char *to, const char *from)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
                 "r"((int)B1I_BAND_TILE)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/* Returns when all but the last N groups have read what they store. */
template <int N> __device__ __forceinline__ void bulk_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
/* Returns when all groups are done and visible. */
__device__ __forceinline__ void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/* By one thread; a barrier of the block must follow. `count` arrivals complete a slot's phase. */
__device__ __forceinline__ void ring_init(uint64_t *barriers, uint32_t slots, int count)
{
    for (uint32_t i = 0; i < slots; i++) barrier_init(barriers + i, count);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); /* makes them visible to the copy engine */
}

/* The first warp's first thread orders tiles into the ring, ahead by as many as there are slots; the other warps add up
 * what has arrived, and say of each slot when they are done with it. */
__device__ __forceinline__ void read_bulk(const b1i_band_args &a, char *ring)
{
    uint64_t *full = reinterpret_cast<uint64_t *>(ring + a.slots * B1I_BAND_TILE), *empty = full + a.slots;
    const char *from = ptr<const char>(a.from) + (uint64_t)a.part * blockIdx.x;
    const uint64_t tiles = (uint64_t)(a.part / B1I_BAND_TILE) * a.passes;
    uint32_t slot = 0, phase = 0, at = 0, sum = 0;
    if (threadIdx.x == 0) {
        ring_init(full, a.slots, 1);
        ring_init(empty, a.slots, B1I_BAND_READERS / 32);
    }
    __syncthreads(); /* orders the barriers' beginning before their use */
    const bool reader = threadIdx.x >= 32;
    for (uint64_t t = 0; t < tiles && (reader || threadIdx.x == 0); t++) {
        char *tile = ring + slot * B1I_BAND_TILE;
        if (reader) {
            barrier_wait(full + slot, phase);
            const uint4 *v = reinterpret_cast<const uint4 *>(tile) + (threadIdx.x - 32);
#pragma unroll
            for (int i = 0; i < B1I_BAND_TILE / 16 / B1I_BAND_READERS; i++) sum += sum_of(v[i * B1I_BAND_READERS]);
            __syncwarp(); /* orders the lanes' reads before the arrival */
            if (threadIdx.x % 32 == 0) barrier_arrive(empty + slot);
        } else {
            if (t >= a.slots) barrier_wait(empty + slot, phase ^ 1);
            bulk_load(tile, from + at, full + slot);
            at = (at + B1I_BAND_TILE) & (a.part - 1);
        }
        if (++slot == a.slots) {
            slot = 0;
            phase ^= 1;
        }
    }
    give_sum(a, sum);
}

/* One thread stores the same tile of shared memory again and again, at most 8 at once. */
__device__ __forceinline__ void write_bulk(const b1i_band_args &a, char *ring)
{
    char *to = ptr<char>(a.to) + (uint64_t)a.part * blockIdx.x;
    const uint64_t tiles = (uint64_t)(a.part / B1I_BAND_TILE) * a.passes;
    uint32_t *words = reinterpret_cast<uint32_t *>(ring), at = 0;
    for (uint32_t i = threadIdx.x; i < B1I_BAND_TILE / 4; i += blockDim.x) words[i] = word_at(a, i);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); /* what was written, before the engine reads it */
    __syncthreads();                                             /* orders all threads' writing before the copies */
    if (threadIdx.x) return;
    for (uint64_t t = 0; t < tiles; t++) {
        bulk_store(to + at, ring);
        at = (at + B1I_BAND_TILE) & (a.part - 1);
        bulk_wait_read<8>();
    }
    bulk_wait();
}

/* One thread: a tile comes into the ring, and leaves it when it has come. Loads are ahead by slots − 1 − STORES, so
 * that the slot which a load takes was read by a store that at least STORES others have followed. */
template <int STORES> __device__ __forceinline__ void copy_bulk(const b1i_band_args &a, char *ring)
{
    uint64_t *full = reinterpret_cast<uint64_t *>(ring + a.slots * B1I_BAND_TILE);
    const char *from = ptr<const char>(a.from) + (uint64_t)a.part * blockIdx.x;
    char *to = ptr<char>(a.to) + (uint64_t)a.part * blockIdx.x;
    const uint64_t tiles = (uint64_t)(a.part / B1I_BAND_TILE) * a.passes;
    const uint32_t ahead = a.slots - 1 - STORES, mask = a.part - 1;
    uint32_t load_slot = 0, load_at = 0, slot = 0, phase = 0, at = 0;
    ring_init(full, a.slots, 1);
    for (uint64_t t = 0; t < tiles + ahead; t++) {
        if (t < tiles) {
            bulk_wait_read<STORES>();
            bulk_load(ring + load_slot * B1I_BAND_TILE, from + load_at, full + load_slot);
            load_at = (load_at + B1I_BAND_TILE) & mask;
            if (++load_slot == a.slots) load_slot = 0;
        }
        if (t >= ahead) {
            barrier_wait(full + slot, phase);
            bulk_store(to + at, ring + slot * B1I_BAND_TILE);
            at = (at + B1I_BAND_TILE) & mask;
            if (++slot == a.slots) {
                slot = 0;
                phase ^= 1;
            }
        }
    }
    bulk_wait();
}

#endif

} // namespace

#define PLAIN extern "C" __global__ void __launch_bounds__(B1I_BAND_THREADS, 1)

PLAIN k_band_read4(const __grid_constant__ b1i_band_args a) { read<uint32_t, 1>(a); }
PLAIN k_band_read8(const __grid_constant__ b1i_band_args a) { read<uint2, 1>(a); }
PLAIN k_band_read16(const __grid_constant__ b1i_band_args a) { read<uint4, 1>(a); }
PLAIN k_band_read16x8(const __grid_constant__ b1i_band_args a) { read<uint4, 8>(a); }
PLAIN k_band_read16x8_past_l1(const __grid_constant__ b1i_band_args a) { read<past_l1, 8>(a); }
PLAIN k_band_copy16x4(const __grid_constant__ b1i_band_args a) { copy(a); }

PLAIN k_band_write4(const __grid_constant__ b1i_band_args a)
{
    constexpr uint32_t ROW = B1I_BAND_THREADS * 4;
    char *to = ptr<char>(a.to) + (uint64_t)a.part * blockIdx.x + threadIdx.x * 4;
    uint32_t at = 0;
    for (uint64_t rows = (uint64_t)(a.part / ROW) * a.passes; rows; rows--) {
        store(to + at, word_at(a, at % B1I_BAND_TILE / 4 + threadIdx.x));
        at = (at + ROW) & (a.part - 1);
    }
}

/* A row of 16 bytes a thread is a tile, so that a thread stores the same words in each. */
template <bool STREAMING> __device__ __forceinline__ void write16(const b1i_band_args &a)
{
    static_assert(B1I_BAND_THREADS * 16 == B1I_BAND_TILE, "a row is a tile");
    char *to = ptr<char>(a.to) + (uint64_t)a.part * blockIdx.x + threadIdx.x * 16;
    const uint4 v = words_at(a, threadIdx.x * 4);
    uint32_t at = 0;
#pragma unroll 4
    for (uint64_t rows = (uint64_t)(a.part / B1I_BAND_TILE) * a.passes; rows; rows--) {
        STREAMING ? store_streaming(to + at, v) : store(to + at, v);
        at = (at + B1I_BAND_TILE) & (a.part - 1);
    }
}
PLAIN k_band_write16(const __grid_constant__ b1i_band_args a) { write16<false>(a); }
PLAIN k_band_write16_streaming(const __grid_constant__ b1i_band_args a) { write16<true>(a); }

/* The bulk kernels do nothing before compute capability 9.0. Dynamic shared memory: the ring, then the mbarriers. */
extern __shared__ __align__(128) char memory[];

extern "C" __global__ void __launch_bounds__(B1I_BAND_READERS + 32, 1)
    k_band_read_bulk(const __grid_constant__ b1i_band_args a)
{
#if BULK
    read_bulk(a, memory);
#endif
}

extern "C" __global__ void __launch_bounds__(256, 1) k_band_write_bulk(const __grid_constant__ b1i_band_args a)
{
#if BULK
    write_bulk(a, memory);
#endif
}

extern "C" __global__ void __launch_bounds__(32, 1) k_band_copy_bulk(const __grid_constant__ b1i_band_args a)
{
#if BULK
    if (threadIdx.x) return;
    a.slots < 10 ? copy_bulk<2>(a, memory) : copy_bulk<4>(a, memory);
#endif
}
