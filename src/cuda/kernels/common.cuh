/* SPDX-License-Identifier: MIT
 *
 * What kernels share: asynchronous copies into shared memory (bulk copies on an mbarrier from compute capability 9.0
 * on, cp.async before), programmatic launch, mma, conversions, and the addresses of args.h's layouts. Every function
 * is one instruction or a few; nothing here knows an op.
 */
#ifndef B1I_COMMON_CUH
#define B1I_COMMON_CUH

#include "cuda/args.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define B1I_BULK 1
#else
#define B1I_BULK 0
#endif

/* Whether blocks of this architecture get little shared memory; see B1I_SHARED_SMALL. */
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
#define B1I_SMALL 1
#else
#define B1I_SMALL 0
#endif

#define B1I_FULL 0xffffffffu

template <class T> __device__ __forceinline__ T *ptr(uint64_t address) { return reinterpret_cast<T *>(address); }
__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* ---- programmatic dependent launch: no-ops where there is none ---- */
/* Lets the next kernel of the stream start, once every block has had a thread here or has ended; it still waits, in
 * wait_inputs(), for this one to end. */
__device__ __forceinline__ void release_next()
{
#if B1I_BULK
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
/* Returns when the kernels before have ended and what they wrote is visible. Only weights, positions of the KV
 * cache that an earlier step wrote, and what the step's beginning writes (its parameters, cos and sin) may be read
 * before. */
__device__ __forceinline__ void wait_inputs()
{
#if B1I_BULK
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* ---- mbarriers ---- */
__device__ __forceinline__ void barrier_init(uint64_t *b, int count)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}
/* Makes initialised barriers visible to the copy engine. */
__device__ __forceinline__ void barrier_init_done()
{
#if B1I_BULK
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
__device__ __forceinline__ void barrier_arrive(uint64_t *b)
{
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(shared_address(b)) : "memory");
}
#if B1I_BULK
#define B1I_LOOK "mbarrier.try_wait.parity.shared::cta.b64" /* sleeps for a while */
#else
#define B1I_LOOK "mbarrier.test_wait.parity.shared.b64"
#endif
__device__ __forceinline__ void barrier_wait(uint64_t *b, int parity)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "again:\n" B1I_LOOK " p, [%0], %1;\n"
                 "@p bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(shared_address(b)),
                 "r"(parity)
                 : "memory");
}

/* ---- bulk copies (9.0) ---- */
/* Copies `bytes` (a multiple of 16) that are read once into shared memory; `b` completes when they are there. */
__device__ __forceinline__ void bulk_load(void *to, const void *from, int bytes, uint64_t *b)
{
#if B1I_BULK
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
                 "[%3], %4;" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(b)), "l"(policy)
                 : "memory");
#endif
}

/* ---- cp.async (8.0) ---- */
__device__ __forceinline__ void async_load16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* The barrier completes a phase when this lane's copies so far, and those of the other lanes that it counts, are there.
 */
__device__ __forceinline__ void async_arrive(uint64_t *b)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(b)) : "memory");
}
template <int N> __device__ __forceinline__ void async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

/* ---- a warp's own ring of slots in shared memory ----
 * The warp that consumes a slot refills it, so that no producer and no second barrier is needed. prime() each of the
 * SLOTS slots once, in order; then, for every chunk: wait(), read data(), refill(). A fill of 0 bytes stands for "no
 * more chunks" (so that the groups of cp.async can be counted) and must not be waited for. The __syncwarp() in fill
 * orders the lanes' reads of a slot before the copy that overwrites it. */
template <int SLOTS, int SLOT_BYTES> struct ring {
    char *slots;
    uint64_t *full; /* [SLOTS] */
    int at, phase;

    __device__ __forceinline__ void init(char *memory, uint64_t *barriers, int lane)
    {
        slots = memory;
        full = barriers;
        at = phase = 0;
        if (B1I_BULK && lane == 0) {
            for (int i = 0; i < SLOTS; i++) barrier_init(full + i, 1);
            barrier_init_done();
        }
        __syncwarp();
    }
    __device__ __forceinline__ void prime(int slot, const void *from, int bytes, int lane)
    {
        char *to = slots + slot * SLOT_BYTES;
        if (B1I_BULK) {
            if (lane == 0 && bytes > 0) bulk_load(to, from, bytes, full + slot);
        } else {
            for (int i = lane * 16; i < bytes; i += 512) async_load16(to + i, (const char *)from + i);
            async_commit();
        }
    }
    __device__ __forceinline__ void wait()
    {
        if (B1I_BULK) {
            barrier_wait(full + at, phase);
        } else {
            async_wait<SLOTS - 1>();
            __syncwarp();
        }
    }
    __device__ __forceinline__ char *data() const { return slots + at * SLOT_BYTES; }
    __device__ __forceinline__ void refill(const void *from, int bytes, int lane)
    {
        __syncwarp();
        prime(at, from, bytes, lane);
        if (++at == SLOTS) {
            at = 0;
            phase ^= 1;
        }
    }
};
/* ---- a block's ring: one warp fills, READERS warps empty it in the same order ---- */
template <int SLOT_BYTES, int READERS> struct stream {
    char *slots;
    uint64_t *full, *empty; /* [count] each */

    /* By one thread; a barrier of the block must follow. */
    __device__ __forceinline__ void init(int count)
    {
        for (int i = 0; i < count; i++) {
            barrier_init(full + i, B1I_BULK ? 1 : 32);
            barrier_init(empty + i, READERS);
        }
        barrier_init_done();
    }
    /* Chunk `i` from `from`, by all lanes of the filling warp; waits until its slot is free. */
    __device__ __forceinline__ void fill(int slot, bool again, int phase, const char *from, int bytes, int lane)
    {
        if (again) barrier_wait(empty + slot, phase);
        if (B1I_BULK) {
            if (lane == 0) bulk_load(slots + slot * SLOT_BYTES, from, bytes, full + slot);
        } else {
            for (int at = lane * 16; at < bytes; at += 512) async_load16(slots + slot * SLOT_BYTES + at, from + at);
            async_arrive(full + slot);
        }
    }
    __device__ __forceinline__ const char *wait(int slot, int phase) const
    {
        barrier_wait(full + slot, phase);
        return slots + slot * SLOT_BYTES;
    }
    /* The warp is done with the slot. */
    __device__ __forceinline__ void release(int slot, int lane)
    {
        __syncwarp(); /* orders the lanes' reads before the arrival */
        if (lane == 0) barrier_arrive(empty + slot);
    }
};

/* Shared memory that a lane wrote by ordinary stores is ordered before copies that the warp issues later. */
__device__ __forceinline__ void fence_async()
{
#if B1I_BULK
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* ---- arithmetic ---- */
/* c += A(16 × 16, bf16) · B(16 × 8, bf16) */
__device__ __forceinline__ void mma_bf16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                         uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
/* Two floats as bf16, round to nearest even: `low` in the low half. */
__device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
__device__ __forceinline__ float bf16_low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float bf16_high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
/* What pack_bf16 lost, as bf16 again: x = hi + lo to 16 bits. */
__device__ __forceinline__ uint32_t pack_bf16_rest(float low, float high, uint32_t packed)
{
    return pack_bf16(low - bf16_low(packed), high - bf16_high(packed));
}

/* Adds one to a counter that blocks meet at and returns what it was: what this block wrote (before a barrier that this
 * thread passed) is seen by who arrives later, and what earlier arrivals wrote is seen by this block. */
__device__ __forceinline__ unsigned arrive(unsigned *counter)
{
    unsigned before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

/* Sixteen bytes that say themselves whether they were written: one access each, as of one thread, so that a reader who
 * finds them not empty has all of them: their second float says it. Results of arithmetic are never empty: a NaN that
 * they make is 0x7fffffff, and one that came from a bf16 would have zeros in its low half even if it were kept. */
__device__ __forceinline__ void put_unit(float4 *to, float4 v)
{
    asm volatile("{\n.reg .b64 low, high;\n.reg .b128 all;\nmov.b64 low, {%1, %2};\nmov.b64 high, {%3, %4};\n"
                 "mov.b128 all, {low, high};\nst.relaxed.gpu.global.b128 [%0], all;\n}" ::"l"(to),
                 "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
__device__ __forceinline__ float4 get_unit(const float4 *from)
{
    float4 v;
    asm volatile("{\n.reg .b64 low, high;\n.reg .b128 all;\nld.relaxed.gpu.global.b128 all, [%4];\n"
                 "mov.b128 {low, high}, all;\nmov.b64 {%0, %1}, low;\nmov.b64 {%2, %3}, high;\n}"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}
__device__ __forceinline__ float4 empty_unit()
{
    const float ones = __uint_as_float(B1I_FULL);
    return make_float4(ones, ones, ones, ones);
}
__device__ __forceinline__ bool unit_empty(float4 v) { return __float_as_uint(v.y) == B1I_FULL; }

/* 2 to the x, to 2 units in the last place. */
__device__ __forceinline__ float power2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float warp_sum(float x)
{
    for (int o = 16; o; o >>= 1) x += __shfl_xor_sync(B1I_FULL, x, o);
    return x;
}

/* Element of a block of the KV cache of `dim` dimensions (padded); see args.h. */
__device__ __forceinline__ int key_index(int position, int d, int dim)
{
    return (((position % 8 / 2) * (dim / 32) + d / 32) * 32 + (2 * (position / 8) + position % 2) * 4 + d % 32 / 8) * 8 +
           d % 8;
}
__device__ __forceinline__ int value_index(int position, int d)
{
    return ((d / 8) * 32 + (d % 8) * 4 + position / 8) * 8 + position % 8;
}

#endif
