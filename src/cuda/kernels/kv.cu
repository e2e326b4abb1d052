/* SPDX-License-Identifier: MIT
 *
 * The KV cache's filler. (What a step appends is written by attention, or by k_kv_append.)
 */
#include "common.cuh"

/* splitmix64's finaliser, as b1i_mix64() */
__device__ __forceinline__ uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* The bits of the filler of one position and dimension as bf16; `half` 0: key, 32: value. One exact conversion, one
 * rounded product and one rounding to bf16, as the session does them on the CPU. */
__device__ __forceinline__ uint32_t filler(uint64_t head, int position, int d, int half)
{
    uint64_t x = mix64((head << 40) ^ ((uint64_t)position << 16) ^ (uint64_t)d);
    float f = __fmul_rn((float)((int32_t)(uint32_t)(x >> half) >> 8), 1.7f / (1 << 23));
    return __bfloat16_as_ushort(__float2bfloat16_rn(f));
}

/* Positions [0, count) of every head become uniform in ±1.7; dimensions past head_dim and positions past count stay as
 * they are. Grid: (blocks of 32 positions, heads or fewer: each y takes every gridDim.y-th head), any multiple of 32
 * threads.
 *
 * Writes heads · count · D · 4 bytes. A thread makes the 16 bytes of one key (8 dimensions of a position) or of one
 * value (8 positions of a dimension), so that every store is whole, and hashes each element twice, once for either:
 * about 40 instructions for 2 bytes of memory, far less than the session that follows takes. */
extern "C" __global__ void k_kv_fill(b1i_fill_args a)
{
    const int D = a.dim_padded, first = (int)blockIdx.x * B1I_KV_TILE, pieces = B1I_KV_TILE * D / 8;
    for (int head = (int)blockIdx.y; head < a.heads; head += (int)gridDim.y) {
        uint4 *block = ptr<uint4>(a.kv + a.head_bytes * (uint64_t)head) + (size_t)blockIdx.x * (size_t)(2 * pieces);
        for (int i = (int)threadIdx.x; i < 2 * pieces; i += (int)blockDim.x) {
            const bool key = i < pieces;
            const int at = key ? i : i - pieces, lane = at % 32, n = lane / 4, t = lane % 4;
            /* Key: tile and group of 32 dimensions are at / 32. Value: at / 32 is the group of 8 dimensions. */
            const int position = first + (key ? 8 * (n / 2) + 2 * (at / 32 / (D / 32)) + n % 2 : 8 * t);
            const int d = key ? at / 32 % (D / 32) * 32 + 8 * t : at / 32 * 8 + n;
            if (position >= a.count || d >= a.head_dim) continue;
            uint4 was = block[i];
            uint32_t word[4] = {was.x, was.y, was.z, was.w};
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const int p = key ? position : position + e, dim = key ? d + e : d, shift = e % 2 * 16;
                if (p >= a.count || dim >= a.head_dim) continue;
                word[e / 2] = (word[e / 2] & ~(0xffffu << shift)) | filler((uint64_t)head, p, dim, key ? 0 : 32) << shift;
            }
            block[i] = make_uint4(word[0], word[1], word[2], word[3]);
        }
    }
}
