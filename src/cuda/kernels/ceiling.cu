/* SPDX-License-Identifier: MIT
 *
 * The read ceiling: kernels that read memory and do nothing else. Both read `tiles` tiles of 16 KiB, each byte once;
 * what they read must be far larger than L2.
 *
 * One H200 gave 4.50 TB/s with plain loads and 4.60 to 4.70 with bulk copies.
 */
#include "cuda/kernels/common.cuh"
#include "gpu/ceiling_args.h"

/* Plain 16-byte loads: each thread has 4 in flight, a block a tile, and 8 blocks 128 KiB. The blocks walk over
 * the memory side by side. */
extern "C" __global__ void __launch_bounds__(B1I_READ_THREADS) k_read_plain(b1i_read_args q)
{
    constexpr int LOADS = B1I_READ_TILE / 16 / B1I_READ_THREADS;
    uint32_t seen = 0;
    for (int64_t t = blockIdx.x; t < q.tiles; t += gridDim.x) {
        const char *tile = ptr<const char>(q.from) + t * B1I_READ_TILE + threadIdx.x * 16;
        uint4 v[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w)
                         : "l"(tile + i * 16 * B1I_READ_THREADS));
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++) seen |= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    }
    if (seen == 0x80000001u) *ptr<uint32_t>(q.sink) = seen; /* what was loaded is used */
}

/* Bulk copies into a ring: one thread of each SM's only block keeps `slots` of them in flight, of a share of the tiles
 * that is contiguous; nobody looks at what arrives. Dynamic shared memory: the slots, then an mbarrier for each. Empty
 * before compute capability 9.0. */
extern "C" __global__ void __launch_bounds__(32) k_read_bulk(b1i_read_args q)
{
#if B1I_BULK
    extern __shared__ __align__(128) char memory[];
    uint64_t *full = reinterpret_cast<uint64_t *>(memory + q.slots * B1I_READ_TILE);
    if (threadIdx.x) return;
    for (int i = 0; i < q.slots; i++) barrier_init(full + i, 1);
    barrier_init_done();
    int64_t from = q.tiles * blockIdx.x / gridDim.x, to = q.tiles * (blockIdx.x + 1) / gridDim.x;
    int slot = 0, parity = 1;
    for (int64_t t = from; t < to + q.slots; t++) { /* the last `slots` turns only wait */
        if (t >= from + q.slots) barrier_wait(full + slot, parity);
        if (t < to) {
            bulk_load(memory + slot * B1I_READ_TILE, ptr<const char>(q.from) + t * B1I_READ_TILE, B1I_READ_TILE,
                      full + slot);
        }
        if (++slot == q.slots) {
            slot = 0;
            parity ^= 1;
        }
    }
#endif
}
