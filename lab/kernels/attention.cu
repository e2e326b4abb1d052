/* SPDX-License-Identifier: MIT
 *
 * Attention of one decode step, in the ways that are compared. Head dimensions of 64 and 128, up to 8 query heads a KV
 * head. A layer's keys and values, 4 · kv_heads · positions · dim bytes, are read once by each way.
 *
 *   math      k_attention_scores_D, k_attention_softmax, k_attention_values_D: scores and probabilities go through memory,
 *             16 more bytes a query head and position
 *   one pass  k_attention_part_D with one part: a block a KV head
 *   split     k_attention_part_D with several parts, then k_attention_merge_D, which weighs the parts by their maxima
 *   unified   k_attention_unified_D, k_attention_merge_unified_D: all weights are relative to one maximum that was known
 *             before, so that nothing is rescaled while walking, and parts are added. A part that finds its own maximum
 *             more than B1I_ATTN_RANGE powers of 2 off walks once more, with its own; then the merge weighs.
 *
 * Split and unified differ in nothing else. A block that walks has B1I_ATTN_WARPS warps and one KV head; its warps take
 * tiles of 16 positions in turn, each through a ring of its own that cp.async fills, and hold all query heads of the
 * group: those are rows 0-7 of mma.m16n8k16. Rows 8-15 are zero in the scores; of the probabilities, which are bf16
 * there, they hold what bf16 lost, so that weights have 16 bits at no cost. 2 · 96 KB on their way on an SM are more
 * than bandwidth times latency.
 *
 * Every kernel waits for the one before it ahead of its first read: what of that could overlap in an engine, where keys
 * and values do not depend on it but for one position, is left out here in all ways alike.
 */
#include "attention_args.h"
#include "common.cuh"

namespace {

constexpr int WARPS = B1I_ATTN_WARPS, THREADS = WARPS * 32, TILE = B1I_ATTN_TILE, HEADS = B1I_ATTN_GROUP_MOST;
constexpr unsigned ALL = 0xffffffffu;

template <int D> struct shape {
    static constexpr int ROW = D * 2;         /* bytes of a position's key, or value */
    static constexpr int CHUNKS = D / 8;      /* of 16 bytes */
    static constexpr int HALF = TILE * ROW;   /* bytes of a tile's keys, or values */
    static constexpr int STAGES = B1I_ATTN_STAGES(D);
    static constexpr int O_STRIDE = D + 8;    /* floats; keeps rows that are stored at once on different banks */
    static constexpr int MOST = HEADS * O_STRIDE;
};

/* ---- instructions ---- */

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* 16 bytes into shared memory, of which the first `bytes` are read and the others zero. */
__device__ __forceinline__ void async_copy(void *to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

/* c += A (16 × 16) · B (16 × 8): rows 0-7 of A in a0 and a2, rows 8-15 in a1 and a3. */
__device__ __forceinline__ void mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* Four 8 × 8 matrices, transposed; lane l gives the address of row l % 8 of matrix l / 8. */
__device__ __forceinline__ uint4 load_transposed(const void *p)
{
    uint4 r;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                 : "r"(shared_address(p))
                 : "memory");
    return r;
}

/* Two floats as bf16, `low` in the low half; and what that lost, as bf16 again. */
__device__ __forceinline__ uint32_t pack(float low, float high)
{
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
__device__ __forceinline__ float low_of(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ uint32_t pack_rest(float low, float high, uint32_t packed)
{
    return pack(low - low_of(packed), high - high_of(packed));
}

/* 2 to the x, to 2 units in the last place. */
__device__ __forceinline__ float power2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

struct add {
    static __device__ float of(float a, float b) { return a + b; }
};
struct larger {
    static __device__ float of(float a, float b) { return fmaxf(a, b); }
};
template <class F> __device__ __forceinline__ float warp_all(float x)
{
#pragma unroll
    for (int o = 16; o; o >>= 1) x = F::of(x, __shfl_xor_sync(ALL, x, o));
    return x;
}
/* Of the four lanes that have the same head. */
template <class F> __device__ __forceinline__ float head_all(float x)
{
    x = F::of(x, __shfl_xor_sync(ALL, x, 1));
    return F::of(x, __shfl_xor_sync(ALL, x, 2));
}
/* x of all threads of a block of whole warps, combined; every thread gets it. `none` changes nothing. */
template <class F> __device__ float block_all(float x, float none)
{
    __shared__ float warps[32];
    x = warp_all<F>(x);
    __syncthreads(); /* orders the reads of the call before this one ahead of these writes */
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads(); /* orders the writes before everybody's reads */
    return warp_all<F>(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : none);
}

/* ---- scores ---- */

/* The group's queries as A fragments: of head lane / 4, 8 of each 32 dimensions. Which of the 16 columns of a product
 * they are taken for does not matter, as keys are read in the same order. */
template <int D> struct query {
    uint4 r[D / 32];
    __device__ __forceinline__ void load(const b1i_attn_args &a, int head, int lane)
    {
        const int g = lane / 4;
        const uint4 *q = ptr<const uint4>(a.q) + (int64_t)(head * a.group + g) * shape<D>::CHUNKS + lane % 4;
#pragma unroll
        for (int j = 0; j < D / 32; j++) r[j] = g < a.group ? q[4 * j] : make_uint4(0, 0, 0, 0);
    }
};

/* s[u][e] is the score of head lane / 4 and position 8u + 2 (lane % 4) + e of the tile; key(u, j) gives 16 bytes of
 * position 8u + lane / 4: those from dimension 32j + 8 (lane % 4) on. */
template <int D, class K>
__device__ __forceinline__ void make_scores(const query<D> &q, float scale, K key, float (&s)[2][2])
{
    float c[2][2][4] = {}; /* two chains of products each */
#pragma unroll
    for (int j = 0; j < D / 32; j++)
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const uint4 b = key(u, j);
            mma(c[0][u], q.r[j].x, 0, q.r[j].y, 0, b.x, b.y);
            mma(c[1][u], q.r[j].z, 0, q.r[j].w, 0, b.z, b.w);
        }
#pragma unroll
    for (int u = 0; u < 2; u++) {
        s[u][0] = (c[0][u][0] + c[1][u][0]) * scale;
        s[u][1] = (c[0][u][1] + c[1][u][1]) * scale;
    }
}

/* ---- a walk over positions ---- */

/* The tile whose first position is `first` into a stage: keys, then values. Chunks change places, so that what is read
 * at once lies on different banks: two rows' halves of 64 bytes of the keys, eight rows' chunks of the values. */
template <int D>
__device__ __forceinline__ void fetch(const b1i_attn_args &a, const char *keys, const char *values, int first, char *to,
                                      int lane)
{
    using S = shape<D>;
#pragma unroll
    for (int i = 0; i < TILE * S::CHUNKS / 32; i++) {
        const int row = (lane + 32 * i) / S::CHUNKS, c = (lane + 32 * i) % S::CHUNKS;
        const bool there = first + row < a.positions;
        const int64_t from = (int64_t)(there ? first + row : 0) * S::ROW + c * 16;
        async_copy(to + row * S::ROW + (c ^ row % 2 * 4) * 16, keys + from, there ? 16 : 0);
        async_copy(to + S::HALF + row * S::ROW + (c ^ row % 8) * 16, values + from, there ? 16 : 0);
    }
}

/* What a warp has summed, for head lane / 4. */
template <int D> struct state {
    float o[D / 8][4]; /* dimensions 8i + 2 (lane % 4) + 0, 1: of the weights' high parts, then of their low */
    float most, sum;   /* largest score, of the head's four lanes or (unified) of this one; this lane's sum of weights */

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < D / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
        most = -INFINITY;
        sum = 0;
    }
    /* What the tile's weights are relative to. A tile has at least one position. */
    template <bool UNIFIED> __device__ __forceinline__ float base(const float (&s)[2][2], float unified)
    {
        float m = fmaxf(fmaxf(most, fmaxf(s[0][0], s[0][1])), fmaxf(s[1][0], s[1][1]));
        if (UNIFIED) {
            most = m;
            return unified;
        }
        m = head_all<larger>(m);
        if (__any_sync(ALL, m != most)) {
            const float scale = power2(most - m);
            sum *= scale;
#pragma unroll
            for (int i = 0; i < D / 8; i++) o[i][0] *= scale, o[i][1] *= scale, o[i][2] *= scale, o[i][3] *= scale;
        }
        return most = m;
    }
    __device__ __forceinline__ void gather(const float (&s)[2][2], float base, const char *values, int lane)
    {
        using S = shape<D>;
        const int row = lane % 16; /* of the values: matrices 0 and 2 are positions 0-7, 1 and 3 positions 8-15 */
        uint32_t hi[2], lo[2];
#pragma unroll
        for (int u = 0; u < 2; u++) {
            const float p = power2(s[u][0] - base), r = power2(s[u][1] - base);
            sum += p + r;
            hi[u] = pack(p, r);
            lo[u] = pack_rest(p, r, hi[u]);
        }
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            const uint4 b = load_transposed(values + row * S::ROW + ((2 * i + lane / 16) ^ row % 8) * 16);
            mma(o[2 * i], hi[0], lo[0], hi[1], lo[1], b.x, b.y);
            mma(o[2 * i + 1], hi[0], lo[0], hi[1], lo[1], b.z, b.w);
        }
    }
    /* As f32 [HEADS][O_STRIDE], then what they are relative to and sums, [HEADS] each. */
    __device__ __forceinline__ void store(float *to, float base, int lane)
    {
        const int g = lane / 4, t = lane % 4;
        sum = head_all<add>(sum);
#pragma unroll
        for (int i = 0; i < D / 8; i++)
            *(float2 *)(to + g * shape<D>::O_STRIDE + 8 * i + 2 * t) = make_float2(o[i][0] + o[i][2], o[i][1] + o[i][3]);
        if (t == 0) {
            to[shape<D>::MOST + g] = base;
            to[shape<D>::MOST + HEADS + g] = sum;
        }
    }
};

/* Tiles begin + warp, begin + warp + WARPS, … before `end`. */
template <int D, bool UNIFIED>
__device__ __forceinline__ void walk(const b1i_attn_args &a, const query<D> &q, int head, int begin, int end, char *ring,
                                     state<D> &w)
{
    using S = shape<D>;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int64_t start = (int64_t)head * a.positions * S::ROW;
    const char *keys = ptr<const char>(a.k) + start, *values = ptr<const char>(a.v) + start;
    int ahead = begin + warp, stage = 0;
    w.clear();
    for (int i = 0; i < S::STAGES; i++, ahead += WARPS) {
        if (ahead < end) fetch<D>(a, keys, values, ahead * TILE, ring + i * 2 * S::HALF, lane);
        async_commit();
    }
    for (int tile = begin + warp; tile < end; tile += WARPS, ahead += WARPS) {
        char *at = ring + stage * 2 * S::HALF;
        float s[2][2];
        async_wait<S::STAGES - 1>();
        __syncwarp(); /* orders every lane's copies before everybody's reads */
        make_scores<D>(
            q, a.scale,
            [&](int u, int j) {
                return *(const uint4 *)(at + (8 * u + g) * S::ROW + ((4 * j + t) ^ g % 2 * 4) * 16);
            },
            s);
        if (tile * TILE + TILE > a.positions)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (tile * TILE + i / 2 * 8 + 2 * t + i % 2 >= a.positions) s[i / 2][i % 2] = -INFINITY;
        const float base = w.template base<UNIFIED>(s, a.unified);
        w.gather(s, base, at + S::HALF, lane);
        __syncwarp(); /* orders the lanes' reads before the copies that overwrite them */
        if (ahead < end) fetch<D>(a, keys, values, ahead * TILE, at, lane);
        async_commit();
        stage = stage + 1 == S::STAGES ? 0 : stage + 1;
    }
}

/* Whether a head's maximum over the block lies too far from the unified one; the same for all threads. */
template <int D> __device__ __forceinline__ bool out_of_range(const b1i_attn_args &a, const state<D> &w)
{
    __shared__ float tops[WARPS][HEADS];
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
    const float top = head_all<larger>(w.most);
    if (threadIdx.x % 4 == 0) tops[warp][g] = top;
    __syncthreads(); /* orders the warps' maxima before everybody's reads */
    float most = tops[0][g];
#pragma unroll
    for (int i = 1; i < WARPS; i++) most = fmaxf(most, tops[i][g]);
    const bool within = most >= a.unified - B1I_ATTN_RANGE && most <= a.unified + B1I_ATTN_RANGE;
    return __any_sync(ALL, g < a.group && !within);
}

/* One head's results of all warps become the block's, by one warp. `weigh`: they are relative to different maxima. */
template <int D>
__device__ __forceinline__ void merge_warps(const b1i_attn_args &a, const char *memory, int head, int h, int part,
                                            bool weigh, int lane)
{
    float scale[WARPS], most = -INFINITY, sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        scale[w] = ((const float *)(memory + w * B1I_ATTN_RING))[shape<D>::MOST + h];
        most = fmaxf(most, scale[w]);
    }
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        scale[w] = weigh ? power2(scale[w] - most) : 1;
        sum += scale[w] * ((const float *)(memory + w * B1I_ATTN_RING))[shape<D>::MOST + HEADS + h];
    }
    const int row = head * a.group + h, heads = a.kv_heads * a.group;
    if (lane * 4 < D) {
        float4 v = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float *from = (const float *)(memory + w * B1I_ATTN_RING) + h * shape<D>::O_STRIDE;
            const float4 x = *(const float4 *)(from + lane * 4);
            v.x += scale[w] * x.x, v.y += scale[w] * x.y, v.z += scale[w] * x.z, v.w += scale[w] * x.w;
        }
        if (a.part)
            ptr<float4>(a.part)[((int64_t)part * heads + row) * (D / 4) + lane] = v;
        else
            ptr<float4>(a.out)[(int64_t)row * (D / 4) + lane] = make_float4(v.x / sum, v.y / sum, v.z / sum, v.w / sum);
    }
    if (a.part && lane == 0) ptr<float2>(a.figures)[part * heads + row] = make_float2(most, sum);
}

template <int D, bool UNIFIED> __device__ __forceinline__ void part(const b1i_attn_args &a)
{
    extern __shared__ __align__(128) char memory[]; /* [WARPS][B1I_ATTN_RING] */
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int head = blockIdx.x / (unsigned)a.parts, index = blockIdx.x % (unsigned)a.parts;
    const int tiles = (a.positions + TILE - 1) / TILE;
    const int begin = tiles * index / a.parts, end = tiles * (index + 1) / a.parts;
    char *ring = memory + warp * B1I_ATTN_RING;
    query<D> q;
    state<D> w;
    release_next();
    wait_inputs();
    q.load(a, head, lane);
    walk<D, UNIFIED>(a, q, head, begin, end, ring, w);
    const bool weigh = !UNIFIED || out_of_range<D>(a, w);
    if (UNIFIED && weigh) walk<D, false>(a, q, head, begin, end, ring, w);
    async_wait<0>(); /* of groups that are empty: every tile was waited for */
    __syncwarp();    /* orders the lanes' last reads of the ring before the results that overwrite it */
    w.store((float *)ring, weigh ? w.most : a.unified, lane);
    __syncthreads(); /* orders the warps' results before the merge; now each warp has heads of its own */
    for (int h = warp; h < a.group; h += WARPS) merge_warps<D>(a, memory, head, h, index, weigh, lane);
}

/* ---- parts become the result: a block a query head ---- */

/* By one warp: the factors on all parts, and the sum of their weights. */
template <bool UNIFIED> __device__ __forceinline__ void weigh_parts(const b1i_attn_args &a, int head, float *factor, float *sum)
{
    constexpr int OWN = B1I_ATTN_PARTS_MOST / 32;
    const int lane = threadIdx.x % 32, heads = a.kv_heads * a.group;
    float2 own[OWN];
    bool same = true;
#pragma unroll
    for (int k = 0; k < OWN; k++) {
        const int p = lane + 32 * k;
        own[k] = p < a.parts ? ptr<const float2>(a.figures)[p * heads + head] : make_float2(-INFINITY, 0);
        same &= p >= a.parts || own[k].x == a.unified;
    }
    const bool plain = UNIFIED && __all_sync(ALL, same);
    float most = -INFINITY, total = 0;
    if (!plain) {
#pragma unroll
        for (int k = 0; k < OWN; k++) most = fmaxf(most, own[k].x);
        most = warp_all<larger>(most);
    }
#pragma unroll
    for (int k = 0; k < OWN; k++) {
        const float f = plain ? 1 : power2(own[k].x - most);
        factor[lane + 32 * k] = f;
        total += f * own[k].y;
    }
    total = warp_all<add>(total);
    if (lane == 0) *sum = total;
}

template <int D, bool UNIFIED> __device__ __forceinline__ void merge(const b1i_attn_args &a)
{
    constexpr int LANES = D / 4, ROWS = B1I_ATTN_MERGE_THREADS / LANES, N = B1I_ATTN_PARTS_MOST / ROWS;
    __shared__ float factor[B1I_ATTN_PARTS_MOST], sum;
    __shared__ float4 rows[ROWS][LANES];
    const int head = blockIdx.x, heads = a.kv_heads * a.group, row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    float4 x[N], v = make_float4(0, 0, 0, 0);
    release_next();
    wait_inputs();
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int p = row + k * ROWS;
        x[k] = p < a.parts ? ptr<const float4>(a.part)[((int64_t)p * heads + head) * LANES + lane] : v;
    }
    if (threadIdx.x < 32) weigh_parts<UNIFIED>(a, head, factor, &sum);
    __syncthreads(); /* orders factors and sum before everybody's reads */
#pragma unroll
    for (int k = 0; k < N; k++) {
        const float f = factor[row + k * ROWS];
        v.x += f * x[k].x, v.y += f * x[k].y, v.z += f * x[k].z, v.w += f * x[k].w;
    }
    rows[row][lane] = v;
    __syncthreads(); /* orders the rows before the first one's reads */
    if (row) return;
#pragma unroll
    for (int r = 1; r < ROWS; r++) {
        const float4 y = rows[r][lane];
        v.x += y.x, v.y += y.y, v.z += y.z, v.w += y.w;
    }
    ptr<float4>(a.out)[(int64_t)head * LANES + lane] = make_float4(v.x / sum, v.y / sum, v.z / sum, v.w / sum);
}

/* ---- unfused ---- */

/* Grid: KV heads · ⌈tiles / WARPS⌉; a warp a tile, straight from memory. */
template <int D> __device__ __forceinline__ void scores(const b1i_attn_args &a)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int tiles = a.stride / TILE, groups = (tiles + WARPS - 1) / WARPS;
    const int head = blockIdx.x / (unsigned)groups, tile = blockIdx.x % (unsigned)groups * WARPS + threadIdx.x / 32;
    query<D> q;
    uint4 b[2][D / 32];
    float s[2][2];
    release_next();
    wait_inputs();
    if (tile >= tiles) return;
#pragma unroll
    for (int u = 0; u < 2; u++) {
        const int position = min(tile * TILE + 8 * u + g, a.positions - 1);
        const uint4 *k = ptr<const uint4>(a.k) + ((int64_t)head * a.positions + position) * shape<D>::CHUNKS + t;
#pragma unroll
        for (int j = 0; j < D / 32; j++) b[u][j] = __ldg(k + 4 * j);
    }
    q.load(a, head, lane);
    make_scores<D>(q, a.scale, [&](int u, int j) { return b[u][j]; }, s);
    if (g >= a.group) return;
    float *to = ptr<float>(a.scores) + (int64_t)(head * a.group + g) * a.stride + tile * TILE + 2 * t;
    *(float2 *)to = make_float2(s[0][0], s[0][1]);
    *(float2 *)(to + 8) = make_float2(s[1][0], s[1][1]);
}

__device__ __forceinline__ void unpack(uint4 x, float (&f)[8])
{
    f[0] = low_of(x.x), f[1] = high_of(x.x), f[2] = low_of(x.y), f[3] = high_of(x.y);
    f[4] = low_of(x.z), f[5] = high_of(x.z), f[6] = low_of(x.w), f[7] = high_of(x.w);
}

/* Grid: KV heads · D / B1I_ATTN_SLICE; a block has 16 dimensions of all positions, two threads a position. */
template <int D> __device__ __forceinline__ void values(const b1i_attn_args &a)
{
    constexpr int AT_ONCE = B1I_ATTN_THREADS_ROW / 2, SLICES = D / B1I_ATTN_SLICE;
    __shared__ float warps[B1I_ATTN_THREADS_ROW / 32][HEADS][B1I_ATTN_SLICE];
    const int head = blockIdx.x / SLICES, slice = blockIdx.x % SLICES, c = threadIdx.x % 2;
    const uint4 *v = ptr<const uint4>(a.v) + (int64_t)head * a.positions * shape<D>::CHUNKS + slice * 2 + c;
    const float *p = ptr<const float>(a.scores) + (int64_t)head * a.group * a.stride;
    float sum[HEADS][8] = {};
    release_next();
    wait_inputs();
#pragma unroll 4
    for (int at = threadIdx.x / 2; at < a.positions; at += AT_ONCE) {
        float f[8];
        unpack(__ldg(v + (int64_t)at * shape<D>::CHUNKS), f);
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            const float w = h < a.group ? p[(int64_t)h * a.stride + at] : 0;
#pragma unroll
            for (int e = 0; e < 8; e++) sum[h][e] += w * f[e];
        }
    }
#pragma unroll
    for (int h = 0; h < HEADS; h++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            float x = sum[h][e];
#pragma unroll
            for (int o = 16; o > 1; o >>= 1) x += __shfl_xor_sync(ALL, x, o);
            if (threadIdx.x % 32 < 2) warps[threadIdx.x / 32][h][c * 8 + e] = x;
        }
    __syncthreads(); /* orders the warps' sums before the reads below */
    const int h = threadIdx.x / B1I_ATTN_SLICE, d = threadIdx.x % B1I_ATTN_SLICE;
    if (h >= a.group) return;
    float x = 0;
    for (int w = 0; w < B1I_ATTN_THREADS_ROW / 32; w++) x += warps[w][h][d];
    ptr<float>(a.out)[(int64_t)(head * a.group + h) * D + slice * B1I_ATTN_SLICE + d] = x;
}

} // namespace

/* A block a query head: scores become probabilities, in place. */
extern "C" __global__ void __launch_bounds__(B1I_ATTN_THREADS_ROW)
    k_attention_softmax(const __grid_constant__ b1i_attn_args a)
{
    float *s = ptr<float>(a.scores) + (int64_t)blockIdx.x * a.stride, most = -INFINITY, sum = 0;
    release_next();
    wait_inputs();
    for (int i = threadIdx.x; i < a.positions; i += blockDim.x) most = fmaxf(most, s[i]);
    most = block_all<larger>(most, -INFINITY);
    for (int i = threadIdx.x; i < a.positions; i += blockDim.x) {
        const float e = power2(s[i] - most);
        s[i] = e; /* here and below a thread reads what it wrote itself: no barrier is needed */
        sum += e;
    }
    sum = block_all<add>(sum, 0);
    for (int i = threadIdx.x; i < a.positions; i += blockDim.x) s[i] /= sum;
}

#define B1I_ATTN_KERNEL(name, threads, body)                                                                 \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ b1i_attn_args a) { body(a); }
#define B1I_ATTN_KERNELS(D)                                                                              \
    B1I_ATTN_KERNEL(k_attention_scores_##D, THREADS, scores<D>)                                          \
    B1I_ATTN_KERNEL(k_attention_values_##D, B1I_ATTN_THREADS_ROW, values<D>)                             \
    B1I_ATTN_KERNEL(k_attention_part_##D, THREADS, (part<D, false>))                                     \
    B1I_ATTN_KERNEL(k_attention_unified_##D, THREADS, (part<D, true>))                                   \
    B1I_ATTN_KERNEL(k_attention_merge_##D, B1I_ATTN_MERGE_THREADS, (merge<D, false>))                    \
    B1I_ATTN_KERNEL(k_attention_merge_unified_##D, B1I_ATTN_MERGE_THREADS, (merge<D, true>))
B1I_ATTN_KERNELS(64)
B1I_ATTN_KERNELS(128)
