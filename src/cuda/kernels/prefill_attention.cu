/* SPDX-License-Identifier: MIT
 *
 * Attention of a prefill pass: many query rows of one sequence over its KV cache, causal, with a window where the model
 * has one.
 *
 * A warp takes 16 rows of one query head (a tile) and all D dimensions; the 8 tiles of a block are those of one KV
 * head, the group's heads first, so that a block reads each block of the cache once for all of them, through a ring in
 * shared memory that cp.async fills. The cache lies in the order of B fragments (args.h): 32 lanes read 16 bytes each
 * without conflict, keys of q Kᵀ and values of P V alike, and the scores come out of the first product in the very
 * lanes that feed the second: lane 4g + t holds positions 8t … 8t + 7 of rows g and g + 8. No shuffle but the row
 * maximum's.
 *
 * Precision: q (times scale · log2 e) and P are bf16, the rest is f32; the sum is that of the rounded P, so that
 * weights add up to one. Relative to f32 attention an output is off by 2^-9 of the values that it mixes at most, and
 * scores by 2^-9 of Σ |q k|.
 * Masked keys and values may hold anything: scores are replaced, values of positions that no row of the tile sees are
 * zeroed before they are multiplied.
 *
 * Few tiles would leave most of the GPU idle over a long context: then the context is split over gridDim.z, and
 * k_prefill_merge adds the parts up in their order. Tried on paper and left: two tiles a warp (halves the reads of
 * shared memory, which bound this kernel at about 80 % of mma.sync's rate, but spills at D = 128).
 */
#include "common.cuh"
#include "cuda/prefill_args.h"

/* Positions [first, limit) that a row sees. */
struct span {
    int first, limit;
};
__device__ __forceinline__ span span_of(const b1i_prefill_attention_args &a, int row)
{
    span s;
    s.limit = a.position + row + 1;
    s.first = a.window > 0 && s.limit > a.window ? s.limit - a.window : 0;
    return s;
}

/* A warp's tile: q as A fragments, the weighted values and, of rows g and g + 8, running maximum and sum (this lane's
 * share of the sum). With 256 dimensions q does not fit beside the values: it is read again for each block of the
 * cache, from L1. */
template <int D> struct tile {
    static constexpr bool KEEP = D < 256;
    uint4 q[KEEP ? D / 32 : 1][2]; /* row g, row g + 8: 8 dimensions from 32i + 8t */
    const uint4 *q_from[2];
    float o[D / 8][4];
    float most[2], sum[2];

    __device__ __forceinline__ void init(const b1i_prefill_attention_args &a, int row, int head, int lane)
    {
        const int g = lane / 4, t = lane % 4, heads = a.group * a.kv_heads;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int64_t at = min(row + g + 8 * r, a.rows - 1); /* rows past the last do its work again, for nobody */
            q_from[r] = ptr<const uint4>(a.q) + ((at * heads + head) * D + 8 * t) / 8;
            if (KEEP) {
#pragma unroll
                for (int i = 0; i < D / 32; i++) q[i][r] = q_from[r][4 * i];
            }
            most[r] = -INFINITY;
            sum[r] = 0;
        }
#pragma unroll
        for (int i = 0; i < D / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
    }

    /* One block of 32 positions from `begin`. MASKED: some row does not see all of them. */
    template <bool MASKED>
    __device__ __forceinline__ void step(const b1i_prefill_attention_args &a, const uint4 *block, int begin, int row,
                                         int last_row, int lane)
    {
        const int g = lane / 4, t = lane % 4;
        float s[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++) s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0;
#pragma unroll
        for (int i = 0; i < D / 32; i++) {
            const uint4 u = KEEP ? q[KEEP ? i : 0][0] : __ldg(q_from[0] + 4 * i),
                        w = KEEP ? q[KEEP ? i : 0][1] : __ldg(q_from[1] + 4 * i);
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const uint4 k = block[(n * (D / 32) + i) * 32 + lane];
                mma_bf16(s[n], u.x, w.x, u.y, w.y, k.x, k.y);
                mma_bf16(s[n], u.z, w.z, u.w, w.w, k.z, k.w);
            }
        }
        if (MASKED) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const span see = span_of(a, row + g + 8 * r);
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    const int p = begin + 8 * t + n;
                    if (p < see.first || p >= see.limit) s[n / 2][2 * r + n % 2] = -INFINITY;
                }
            }
        }
        uint32_t p[4][2]; /* [positions 2n, 2n + 1][row g, row g + 8] */
        bool moved = false;
        float factor[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float top = most[r];
#pragma unroll
            for (int n = 0; n < 8; n++) top = fmaxf(top, s[n / 2][2 * r + n % 2]);
            top = fmaxf(top, __shfl_xor_sync(B1I_FULL, top, 1));
            top = fmaxf(top, __shfl_xor_sync(B1I_FULL, top, 2));
            const float base = top == -INFINITY ? 0 : top; /* a row that has seen nothing yet */
            factor[r] = power2(most[r] - base);
            moved |= top != most[r];
            most[r] = top;
            sum[r] *= factor[r];
#pragma unroll
            for (int n = 0; n < 4; n++) {
                p[n][r] = pack_bf16(power2(s[n][2 * r] - base), power2(s[n][2 * r + 1] - base));
                sum[r] += bf16_low(p[n][r]) + bf16_high(p[n][r]);
            }
        }
        if (__any_sync(B1I_FULL, moved)) {
#pragma unroll
            for (int i = 0; i < D / 8; i++) {
                o[i][0] *= factor[0];
                o[i][1] *= factor[0];
                o[i][2] *= factor[1];
                o[i][3] *= factor[1];
            }
        }
        uint32_t keep[4] = {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu};
        if (MASKED) { /* what no row of the tile sees would be 0 · anything */
            const int first = span_of(a, row).first, limit = span_of(a, last_row).limit;
#pragma unroll
            for (int n = 0; n < 8; n++) {
                const int at = begin + 8 * t + n;
                if (at < first || at >= limit) keep[n / 2] &= n % 2 ? 0x0000ffffu : 0xffff0000u;
            }
        }
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            uint4 v = block[D * 4 + i * 32 + lane]; /* values follow 32 · D keys */
            if (MASKED) {
                v.x &= keep[0];
                v.y &= keep[1];
                v.z &= keep[2];
                v.w &= keep[3];
            }
            mma_bf16(o[i], p[0][0], p[0][1], p[1][0], p[1][1], v.x, v.y);
            mma_bf16(o[i], p[2][0], p[2][1], p[3][0], p[3][1], v.z, v.w);
        }
    }

    /* The lanes' shares of the sums become the rows'. */
    __device__ __forceinline__ void end()
    {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            sum[r] += __shfl_xor_sync(B1I_FULL, sum[r], 1);
            sum[r] += __shfl_xor_sync(B1I_FULL, sum[r], 2);
        }
    }
    __device__ __forceinline__ void store(const b1i_prefill_attention_args &a, int row, int head, int lane)
    {
        const int g = lane / 4, t = lane % 4;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if (row + g + 8 * r >= a.rows) continue;
            const float inverse = 1 / sum[r];
            uint16_t *out = ptr<uint16_t>(a.out) + (row + g + 8 * r) * a.out_stride + head * a.head_dim;
#pragma unroll
            for (int i = 0; i < D / 8; i++)
                if (8 * i + 2 * t < a.head_dim)
                    *(uint32_t *)(out + 8 * i + 2 * t) = pack_bf16(o[i][2 * r] * inverse, o[i][2 * r + 1] * inverse);
        }
    }
    __device__ __forceinline__ void store_part(float *part, int lane)
    {
        const int g = lane / 4, t = lane % 4;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float *to = part + (g + 8 * r) * (D + 2);
#pragma unroll
            for (int i = 0; i < D / 8; i++)
                *(float2 *)(to + 8 * i + 2 * t) = make_float2(o[i][2 * r], o[i][2 * r + 1]);
            if (t == 0) *(float2 *)(to + D) = make_float2(most[r], sum[r]);
        }
    }
};

/* Blocks of the cache that rows [row, last_row] see, and of them split z's. */
__device__ __forceinline__ void blocks_of(const b1i_prefill_attention_args &a, int row, int last_row, int &from, int &to)
{
    const int begin = span_of(a, row).first / 32, end = (span_of(a, last_row).limit + 31) / 32;
    const int each = (end - begin + a.splits - 1) / a.splits;
    from = begin + (int)blockIdx.z * each;
    to = min(from + each, end);
}

/* Shared memory: STAGES blocks of 128 · D bytes. Reads the cache's blocks that its rows see once, q once. */
template <int D, int WARPS, int STAGES> __device__ __forceinline__ void attend(const b1i_prefill_attention_args &a)
{
    constexpr int UNITS = 8 * D; /* of 16 bytes in a block: keys, then values */
    extern __shared__ __align__(128) uint4 ring_memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int items = (a.rows + 15) / 16 * a.group, first = blockIdx.x * WARPS, item = first + warp;
    const int last = min(first + WARPS, items) - 1;
    int from, to;
    blocks_of(a, first / a.group * 16, min(last / a.group * 16 + 15, a.rows - 1), from, to);

    const bool busy = item < items;
    const int row = item / a.group * 16, last_row = min(row + 15, a.rows - 1);
    const int head = blockIdx.y * a.group + item % a.group;
    const span low = span_of(a, row), high = span_of(a, last_row); /* seen by some, low.first on; by all, high.first on */
    const uint4 *cache = ptr<const uint4>(a.kv + blockIdx.y * a.head_bytes);

    auto load = [&](int b) {
        if (b < to) {
            const uint4 *source = cache + (int64_t)b * UNITS;
            uint4 *target = ring_memory + (b - from) % STAGES * UNITS;
#pragma unroll
            for (int i = 0; i < UNITS / (32 * WARPS); i++)
                async_load16(target + i * 32 * WARPS + threadIdx.x, source + i * 32 * WARPS + threadIdx.x);
        }
        async_commit(); /* an empty group too, so that groups count blocks */
    };
    tile<D> mine;
    if (busy) mine.init(a, row, head, lane);
    for (int i = 0; i < STAGES - 1; i++) load(from + i);
    for (int b = from; b < to; b++) {
        async_wait<STAGES - 2>();
        __syncthreads(); /* block b is there for all warps, and all are done with the slot that is filled next */
        load(b + STAGES - 1);
        const int begin = 32 * b;
        if (!busy || begin >= high.limit || begin + 32 <= low.first) continue;
        const uint4 *block = ring_memory + (b - from) % STAGES * UNITS;
        if (begin >= high.first && begin + 32 <= low.limit)
            mine.template step<false>(a, block, begin, row, last_row, lane);
        else
            mine.template step<true>(a, block, begin, row, last_row, lane);
    }
    async_wait<0>();
    if (!busy) return;
    mine.end();
    if (a.splits == 1) {
        mine.store(a, row, head, lane);
    } else {
        const int64_t slot =
            (((int64_t)blockIdx.y * a.grid_x + blockIdx.x) * a.splits + blockIdx.z) * WARPS + warp;
        mine.store_part(ptr<float>(a.part) + slot * 16 * (D + 2), lane);
    }
}

extern "C" __global__ void __launch_bounds__(256) k_prefill_attention_64(const b1i_prefill_attention_args a)
{
    attend<64, 8, 4>(a);
}
extern "C" __global__ void __launch_bounds__(256) k_prefill_attention_96(const b1i_prefill_attention_args a)
{
    attend<96, 8, 4>(a);
}
extern "C" __global__ void __launch_bounds__(256) k_prefill_attention_128(const b1i_prefill_attention_args a)
{
    attend<128, 8, 4>(a);
}
extern "C" __global__ void __launch_bounds__(128) k_prefill_attention_256(const b1i_prefill_attention_args a)
{
    attend<256, 4, 3>(a);
}

/* One block a tile, a warp four of its rows. Parts that saw nothing have a sum of 0 and are not read further. */
extern "C" __global__ void __launch_bounds__(128) k_prefill_merge(const b1i_prefill_attention_args a)
{
    const int item = blockIdx.x, lane = threadIdx.x % 32, width = a.dim + 2;
    const int head = blockIdx.y * a.group + item % a.group;
    const int64_t slot = ((int64_t)blockIdx.y * a.grid_x + item / a.warps) * a.splits * a.warps + item % a.warps;
    for (int i = 0; i < 4; i++) {
        const int r = threadIdx.x / 32 * 4 + i, row = item / a.group * 16 + r;
        if (row >= a.rows) return;
        const float *part = ptr<const float>(a.part) + (slot * 16 + r) * width;
        const int64_t next = (int64_t)a.warps * 16 * width;
        float most = -INFINITY, sum = 0, o[8] = {0};
        for (int s = 0; s < a.splits; s++) most = fmaxf(most, part[s * next + a.dim]);
        for (int s = 0; s < a.splits; s++) {
            const float *at = part + s * next, share = at[a.dim + 1];
            if (share == 0) continue; /* NaN goes on */
            const float factor = power2(at[a.dim] - most);
            sum += factor * share;
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (lane + 32 * j < a.head_dim) o[j] += factor * at[lane + 32 * j];
        }
        uint16_t *out = ptr<uint16_t>(a.out) + row * a.out_stride + head * a.head_dim;
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (lane + 32 * j < a.head_dim) out[lane + 32 * j] = __bfloat16_as_ushort(__float2bfloat16_rn(o[j] / sum));
    }
}
