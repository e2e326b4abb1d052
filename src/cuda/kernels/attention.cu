/* SPDX-License-Identifier: MIT
 *
 * Attention of a decode step: q/k norm, RoPE and the append of the step's keys and values, softmax(q Kᵀ) V over each
 * row's positions, and the merge of the context's parts.
 *
 * k_attention_<D>, D = head_dim padded to 64, 96, 128 or 256.
 * Launch: grid (splits, KV heads, rows · ⌈group / 8⌉), 32 · B1I_ATTENTION_WARPS threads; dynamic shared memory as
 * program.c's add_attention() says. Rows past the step's are left at once. Bytes moved: the visible keys and values of
 * a KV head once for up to 8 query heads of its group; further heads and rows of the same sequence take them from L2.
 *
 * A block has one KV head, up to 8 of its query heads and one part of the context; its warps take blocks of 32
 * positions in turn through rings of their own. Launched early, these fill before the kernel that makes q has ended: only
 * positions of this very step depend on it, and those are put into shared memory from the step's own k and v. Scores are
 * mma.m16n8k16 with the eight heads as rows 0-7 in bf16 and what bf16 lost of them as rows 8-15, so that q has 16 bits
 * at no cost; the same holds for the probabilities. Scores, sums and maxima are f32.
 *
 * Of the blocks that have a part of the same heads, the one that begins last merges all parts, in their order: the
 * others run already and wait for nobody, so that it may wait for what they write, and the result does not depend on who
 * it is. Whether a part is there, each 16 bytes of it say themselves: they are empty (ones) until they are written, and
 * the merger empties them again. So the way from a part's last position to the result crosses L2 twice, to write and to
 * read; counting the parts that are done would cross it two times more.
 */
#include "common.cuh"

namespace {

constexpr int WARPS = B1I_ATTENTION_WARPS, THREADS = WARPS * 32, HEADS = B1I_HEADS_PASS;
constexpr float LOG2E = 1.4426950408889634f;

template <int D> struct shape {
    static constexpr int TILE = B1I_KV_TILE * D;       /* elements of a block's keys, and of its values */
    static constexpr int SLOT = TILE * 2;              /* bytes */
    static constexpr int SLOTS = B1I_ATTENTION_SLOTS(D, B1I_SMALL);
    static constexpr int PAIRS = (D / 2 + 31) / 32;    /* RoPE pairs of a lane */
    static constexpr int WARP_BYTES = SLOTS * SLOT;
    static constexpr int Q_STRIDE = D % 64 ? D : D + 32; /* elements; keeps two heads on different banks */
    static constexpr int O_STRIDE = D + 8;             /* the same of a warp's results, stored in pairs */
};

/* What one block does. */
struct job {
    int row, pass, head, heads; /* of the step; of the group; KV head; query heads of this pass */
    int first, limit;           /* visible positions */
    int parts;                  /* of the context: no more than give each warp a block of 32 positions */
    int begin, end;             /* blocks of 32 positions of this part */
    const char *kv;             /* the layer's keys and values of the head */
    int fresh; /* lane r < 8: position of row r of the step, where its key and value fall into this part; else −1 */
};

/* All that is read of the step's parameters is asked for at once. False: the block has no row, or no part of it. */
__device__ __forceinline__ bool make_job(const b1i_attention_args &a, const b1i_step_params *step, job &j)
{
    const int passes = (a.group + HEADS - 1) / HEADS, lane = threadIdx.x % 32;
    const b1i_step_row *row = step->row;
    j.row = blockIdx.z / (unsigned)passes;
    j.pass = blockIdx.z % (unsigned)passes;
    j.head = blockIdx.y;
    j.heads = min(HEADS, a.group - j.pass * HEADS);
    const int n = __ldcg(&step->n), position = __ldcg(&row[lane % B1I_CUDA_ROWS].position);
    const uint64_t kv = __ldcg(&row[lane % B1I_CUDA_ROWS].kv), head_bytes = __ldcg(&row[j.row].head_bytes);
    if (j.row >= n) return false;
    const uint64_t mine = __shfl_sync(B1I_FULL, kv, j.row);
    j.limit = __shfl_sync(B1I_FULL, position, j.row) + 1;
    j.first = a.window > 0 ? max(0, j.limit - a.window) : 0;
    const int from = j.first / B1I_KV_TILE, count = (j.limit + B1I_KV_TILE - 1) / B1I_KV_TILE - from;
    j.parts = min(a.splits, (count + WARPS - 1) / WARPS);
    if ((int)blockIdx.x >= j.parts) return false;
    j.begin = from + count * (int)blockIdx.x / j.parts;
    j.end = from + count * ((int)blockIdx.x + 1) / j.parts;
    j.kv = ptr<const char>(mine) + (int64_t)(a.layer * a.kv_heads + j.head) * (int64_t)head_bytes;
    const bool falls = a.prologue && lane < n && kv == mine && position < j.limit && position >= j.begin * B1I_KV_TILE &&
                       position < j.end * B1I_KV_TILE;
    j.fresh = lane < B1I_CUDA_ROWS && falls ? position : -1;
    return true;
}

/* A lane's pairs (j, j + head_dim / 2) of one head. */
template <int D> struct pairs {
    static constexpr int COUNT = shape<D>::PAIRS;
    float low[COUNT], high[COUNT];

    __device__ __forceinline__ void load(const float *x, int half, int lane)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int j = lane + 32 * i;
            low[i] = j < half ? __ldcg(x + j) : 0;
            high[i] = j < half ? __ldcg(x + j + half) : 0;
        }
    }
    __device__ __forceinline__ void scale(float factor)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) low[i] *= factor, high[i] *= factor;
    }
    /* x / rms(x) · weight */
    __device__ __forceinline__ void norm(const float *weight, int half, float eps, int lane)
    {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < COUNT; i++) sum += low[i] * low[i] + high[i] * high[i];
        const float inverse = 1 / sqrtf(warp_sum(sum) / (float)(2 * half) + eps);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int j = lane + 32 * i;
            low[i] = j < half ? low[i] * inverse * weight[j] : 0;
            high[i] = j < half ? high[i] * inverse * weight[j + half] : 0;
        }
    }
    /* Turns by the angles whose cos is in turns.low and sin in turns.high. */
    __device__ __forceinline__ void turn(const pairs &turns)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const float u = low[i], v = high[i];
            low[i] = u * turns.low[i] - v * turns.high[i];
            high[i] = v * turns.low[i] + u * turns.high[i];
        }
    }
    /* cos and sin of a row of the step. They are there from the step's beginning on. */
    __device__ __forceinline__ void load_turns(const b1i_attention_args &a, int row, int lane)
    {
        const int half = a.head_dim / 2;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int j = lane + 32 * i;
            low[i] = j < half ? __ldcg(ptr<const float>(a.cos) + row * half + j) : 0;
            high[i] = j < half ? __ldcg(ptr<const float>(a.sin) + row * half + j) : 0;
        }
    }
};

/* x as the sum of two bf16, the lesser of them `low` elements further on. */
__device__ __forceinline__ void put_split(__nv_bfloat16 *to, int low, float x)
{
    const __nv_bfloat16 high = __float2bfloat16_rn(x);
    to[0] = high;
    to[low] = __float2bfloat16_rn(x - __bfloat162float(high));
}

/* The block's queries, times scale · log2 e, as bf16 [2][8][Q_STRIDE]: their high parts, then what bf16 lost of them, with
 * zeros past head_dim and past the pass's heads. `mine` holds what was loaded of heads warp and warp + WARPS. */
template <int D>
__device__ __forceinline__ void make_queries(const b1i_attention_args &a, const job &j, pairs<D> (&mine)[HEADS / WARPS],
                                             const pairs<D> &turns, __nv_bfloat16 *queries)
{
    constexpr int LOW = HEADS * shape<D>::Q_STRIDE;
    const int lane = threadIdx.x % 32, half = a.head_dim / 2;
#pragma unroll
    for (int k = 0; k < HEADS / WARPS; k++) {
        const int h = threadIdx.x / 32 + k * WARPS;
        __nv_bfloat16 *to = queries + h * shape<D>::Q_STRIDE;
        if (h >= j.heads || a.head_dim < D) {
            for (int d = lane; d < D; d += 32) to[d] = to[LOW + d] = __float2bfloat16_rn(0);
            __syncwarp(); /* the zeros before the values of other lanes */
        }
        if (h >= j.heads) continue;
        if (a.prologue && a.q_norm) mine[k].norm(ptr<const float>(a.q_norm), half, a.eps, lane);
        if (a.prologue) mine[k].turn(turns);
        mine[k].scale(a.scale * LOG2E);
#pragma unroll
        for (int i = 0; i < shape<D>::PAIRS; i++)
            if (lane + 32 * i < half) {
                put_split(to + lane + 32 * i, LOW, mine[k].low[i]);
                put_split(to + lane + 32 * i + half, LOW, mine[k].high[i]);
            }
    }
}

/* What a warp holds between asking for the queries and using them. */
template <int D> struct asked {
    pairs<D> turns, queries[HEADS / WARPS]; /* of heads warp and warp + WARPS */
    pairs<D> key, key_turns;                /* of the step's row `warp`, where it falls into this part */
    float value[D / 32];
};

template <int D>
__device__ __forceinline__ void ask_row(const b1i_attention_args &a, const job &j, int r, int lane, asked<D> &h)
{
    const float *v = ptr<const float>(a.v) + r * a.v_stride + j.head * a.head_dim;
    h.key.load(ptr<const float>(a.k) + r * a.k_stride + j.head * a.head_dim, a.head_dim / 2, lane);
    h.key_turns.load_turns(a, r, lane);
#pragma unroll
    for (int i = 0; i < D / 32; i++) h.value[i] = lane + 32 * i < a.head_dim ? __ldcg(v + lane + 32 * i) : 0;
}

/* All that lies in the way of the first product is asked for before any of it is used. */
template <int D>
__device__ __forceinline__ void ask(const b1i_attention_args &a, const job &j, int warp, int lane, asked<D> &h)
{
    const float *q = ptr<const float>(a.q) + j.row * a.q_stride +
                     (int64_t)(j.head * a.group + j.pass * HEADS) * a.head_dim;
#pragma unroll
    for (int k = 0; k < HEADS / WARPS; k++)
        if (warp + k * WARPS < j.heads) h.queries[k].load(q + (warp + k * WARPS) * a.head_dim, a.head_dim / 2, lane);
    if (__shfl_sync(B1I_FULL, j.fresh, warp) >= 0) ask_row(a, j, warp, lane, h);
}

/* Key and value of row `r` of the step, as bf16 [2][D], into shared memory. */
template <int D>
__device__ __forceinline__ void make_new(const b1i_attention_args &a, int r, int lane, asked<D> &h, __nv_bfloat16 *fresh)
{
    const int half = a.head_dim / 2;
    __nv_bfloat16 *keys = fresh + r * 2 * D, *values = keys + D;
    if (a.k_norm) h.key.norm(ptr<const float>(a.k_norm), half, a.eps, lane);
    h.key.turn(h.key_turns);
    if (a.head_dim < D) {
        for (int d = lane; d < D; d += 32) keys[d] = __float2bfloat16_rn(0);
        __syncwarp(); /* the zeros before the values of other lanes */
    }
#pragma unroll
    for (int i = 0; i < D / 32; i++) values[lane + 32 * i] = __float2bfloat16_rn(h.value[i]);
#pragma unroll
    for (int i = 0; i < shape<D>::PAIRS; i++)
        if (lane + 32 * i < half) {
            keys[lane + 32 * i] = __float2bfloat16_rn(h.key.low[i]);
            keys[lane + 32 * i + half] = __float2bfloat16_rn(h.key.high[i]);
        }
}

/* The row's own key and value into the cache, for later steps. */
template <int D>
__device__ __forceinline__ void append(const job &j, int position, int lane, const __nv_bfloat16 *fresh)
{
    const __nv_bfloat16 *keys = fresh + j.row * 2 * D, *values = keys + D;
    __nv_bfloat16 *cache = (__nv_bfloat16 *)(j.kv + (int64_t)(position / B1I_KV_TILE) * 2 * shape<D>::SLOT);
#pragma unroll 1
    for (int d = lane; d < D; d += 32) {
        cache[key_index(position % B1I_KV_TILE, d, D)] = keys[d];
        cache[shape<D>::TILE + value_index(position % B1I_KV_TILE, d)] = values[d];
    }
}

/* Puts the step's own keys (which = 0) or values (1) of block `block` into its slot. `mine` is the job's fresh. */
template <int D>
__device__ __forceinline__ void patch(__nv_bfloat16 *slot, int which, int block, const __nv_bfloat16 *fresh, int mine,
                                      bool refilled, int lane)
{
    unsigned rows = __ballot_sync(B1I_FULL, mine >= 0 && mine / B1I_KV_TILE == block);
    if (!rows) return;
    for (; rows; rows &= rows - 1) {
        const int r = __ffs(rows) - 1, position = __shfl_sync(B1I_FULL, mine, r) % B1I_KV_TILE;
        const __nv_bfloat16 *from = fresh + (r * 2 + which) * D;
#pragma unroll 1
        for (int d = lane; d < D; d += 32) slot[which ? value_index(position, d) : key_index(position, d, D)] = from[d];
    }
    if (refilled) fence_async();
    __syncwarp(); /* the patch before other lanes' reads */
}

/* A fragments of the queries: high parts in rows 0-7, low parts in rows 8-15. Of 256 dimensions there are more than
 * registers hold beside the sums: they are read from shared memory each time. */
template <int D> struct query {
    static constexpr bool KEPT = D < 256;
    static constexpr int LOW = HEADS * shape<D>::Q_STRIDE / 8;
    const uint4 *q; /* of this lane's head: 8 of each 32 dimensions */
    uint4 hi[KEPT ? D / 32 : 1], lo[KEPT ? D / 32 : 1];
    __device__ __forceinline__ void load(const __nv_bfloat16 *queries, int lane)
    {
        q = (const uint4 *)(queries + lane / 4 * shape<D>::Q_STRIDE) + lane % 4;
#pragma unroll
        for (int k = 0; KEPT && k < D / 32; k++) hi[k] = q[4 * k], lo[k] = q[LOW + 4 * k];
    }
    /* Of the dimensions 32k … 32k + 31. */
    __device__ __forceinline__ void get(int k, uint4 &high, uint4 &low) const
    {
        high = KEPT ? hi[KEPT ? k : 0] : q[4 * k];
        low = KEPT ? lo[KEPT ? k : 0] : q[LOW + 4 * k];
    }
};

/* Softmax of a warp's positions so far, for head lane / 4. */
template <int D> struct state {
    float o[D / 8][4]; /* dimensions 8i + 2(lane % 4) + 0, 1: of the probabilities' high parts, then of their low */
    float most, sum;   /* maximum of the scores (base 2), the same in the head's four lanes; this lane's sum */

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < D / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0;
        most = -INFINITY;
        sum = 0;
    }
    /* Scores of 32 keys: s[u][e] is that of position 8(lane % 4) + 2u + e. */
    static __device__ __forceinline__ void scores(const uint4 *keys, const query<D> &q, int lane, float (&s)[4][2])
    {
        float c[2][4][4] = {}; /* two chains of products a tile */
#pragma unroll
        for (int k = 0; k < D / 32; k++) {
            uint4 hi, lo;
            q.get(k, hi, lo);
#pragma unroll
            for (int u = 0; u < 4; u++) {
                const uint4 b = keys[(u * (D / 32) + k) * 32 + lane];
                mma_bf16(c[0][u], hi.x, lo.x, hi.y, lo.y, b.x, b.y);
                mma_bf16(c[1][u], hi.z, lo.z, hi.w, lo.w, b.z, b.w);
            }
        }
#pragma unroll
        for (int u = 0; u < 4; u++) {
            s[u][0] = (c[0][u][0] + c[1][u][0]) + (c[0][u][2] + c[1][u][2]);
            s[u][1] = (c[0][u][1] + c[1][u][1]) + (c[0][u][3] + c[1][u][3]);
        }
    }
    /* Scores become probabilities, p[u] pairs of them as high and low parts; what was summed is scaled. */
    __device__ __forceinline__ void soften(float (&s)[4][2], uint32_t (&hi)[4], uint32_t (&lo)[4])
    {
        float m = most;
#pragma unroll
        for (int u = 0; u < 4; u++) m = fmaxf(m, fmaxf(s[u][0], s[u][1]));
        m = fmaxf(m, __shfl_xor_sync(B1I_FULL, m, 1));
        m = fmaxf(m, __shfl_xor_sync(B1I_FULL, m, 2));
        const float base = m == -INFINITY ? 0 : m, scale = power2(most - base);
        if (__any_sync(B1I_FULL, most != m && most != -INFINITY)) { /* before, all sums are 0 */
            sum *= scale;
#pragma unroll
            for (int i = 0; i < D / 8; i++) o[i][0] *= scale, o[i][1] *= scale, o[i][2] *= scale, o[i][3] *= scale;
        }
        most = m;
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const float p = power2(s[u][0] - base), r = power2(s[u][1] - base);
            sum += p + r;
            hi[u] = pack_bf16(p, r);
            lo[u] = pack_bf16_rest(p, r, hi[u]);
        }
    }
    /* Adds the values; those of positions from `valid` (0 … 8 of this lane's 8) on may hold anything. */
    __device__ __forceinline__ void gather(const uint4 *values, const uint32_t (&hi)[4], const uint32_t (&lo)[4], int valid,
                                           int lane)
    {
        uint32_t keep[4];
#pragma unroll
        for (int u = 0; u < 4; u++) keep[u] = valid >= 2 * u + 2 ? B1I_FULL : valid == 2 * u + 1 ? 0xffffu : 0;
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            const uint4 b = values[i * 32 + lane];
            mma_bf16(o[i], hi[0], lo[0], hi[1], lo[1], b.x & keep[0], b.y & keep[1]);
            mma_bf16(o[i], hi[2], lo[2], hi[3], lo[3], b.z & keep[2], b.w & keep[3]);
        }
    }
    /* Of the pass's heads, as f32 [8][O_STRIDE] values, then [8] maxima, [8] sums. */
    __device__ __forceinline__ void store(float *to, int heads, int lane)
    {
        const int g = lane / 4, t = lane % 4;
        sum += __shfl_xor_sync(B1I_FULL, sum, 1);
        sum += __shfl_xor_sync(B1I_FULL, sum, 2);
        if (g >= heads) return;
#pragma unroll
        for (int i = 0; i < D / 8; i++)
            *(float2 *)(to + g * shape<D>::O_STRIDE + 8 * i + 2 * t) = make_float2(o[i][0] + o[i][2], o[i][1] + o[i][3]);
        if (t == 0) {
            to[HEADS * shape<D>::O_STRIDE + g] = most;
            to[HEADS * shape<D>::O_STRIDE + HEADS + g] = sum;
        }
    }
};

/* The factor on a part's values and sum, given the maximum over all parts. */
__device__ __forceinline__ float part_scale(float most, float all) { return most == -INFINITY ? 0 : power2(most - all); }

/* Four values of the result, as bf16. */
__device__ __forceinline__ void put_out(const b1i_attention_args &a, const job &j, int head, int d, float4 v, float sum)
{
    const float inverse = 1 / sum;
    __nv_bfloat16 *out = ptr<__nv_bfloat16>(a.out) + j.row * a.out_stride +
                         (int64_t)(j.head * a.group + j.pass * HEADS + head) * a.head_dim + d;
    if (a.head_dim % 4 == 0) { /* so all or none of the four are there, and they lie on 8 bytes */
        if (d < a.head_dim)
            *(uint2 *)out = make_uint2(pack_bf16(v.x * inverse, v.y * inverse), pack_bf16(v.z * inverse, v.w * inverse));
        return;
    }
    const float f[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (d + e < a.head_dim) out[e] = __float2bfloat16_rn(f[e] * inverse);
}

/* One head's results of all warps, each in its own part of shared memory, become the block's: to `part`, or, where the
 * context has no other part, to the result. By one warp. */
template <int D>
__device__ __forceinline__ void merge_warps(const b1i_attention_args &a, const job &j, const char *memory, int head,
                                            int lane, float *part)
{
    constexpr int MOST = HEADS * shape<D>::O_STRIDE, WIDE = (D / 4 + 31) / 32;
    float scale[WARPS], most = -INFINITY, sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        scale[w] = ((const float *)(memory + w * shape<D>::WARP_BYTES))[MOST + head];
        most = fmaxf(most, scale[w]);
    }
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        scale[w] = part_scale(scale[w], most);
        sum += scale[w] * ((const float *)(memory + w * shape<D>::WARP_BYTES))[MOST + HEADS + head];
    }
#pragma unroll
    for (int i = 0; i < WIDE; i++) {
        const int d = (lane + 32 * i) * 4;
        if (d >= D) continue;
        float4 v = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float *from = (const float *)(memory + w * shape<D>::WARP_BYTES) + head * shape<D>::O_STRIDE;
            const float4 x = *(const float4 *)(from + d);
            v.x += scale[w] * x.x, v.y += scale[w] * x.y, v.z += scale[w] * x.z, v.w += scale[w] * x.w;
        }
        if (j.parts == 1)
            put_out(a, j, head, d, v, sum);
        else
            put_unit((float4 *)(part + head * D + d), v);
    }
    if (j.parts > 1 && lane == 0) put_unit((float4 *)(part + HEADS * D) + head, make_float4(most, sum, 0, 0));
}

/* Integers in the order of the floats. */
__device__ __forceinline__ int to_ordered(float x)
{
    const int i = __float_as_int(x);
    return i ^ (i >> 31 & 0x7fffffff);
}
__device__ __forceinline__ float from_ordered(int i) { return __int_as_float(i ^ (i >> 31 & 0x7fffffff)); }

/* One head's parts become the result, by one warp. `parts` [j.parts][8 · D values, 8 · (maximum, sum, 0, 0)] are emptied
 * again. All maxima and sums, and the values of sixteen parts, are asked for at once: what counts here is how often
 * memory is waited for. */
template <int D>
__device__ __forceinline__ void merge_parts(const b1i_attention_args &a, const job &j, float *parts, int head, int lane)
{
    constexpr int PART = B1I_ATTENTION_PART(D), BATCH = 16, WIDE = (D / 4 + 31) / 32, OWN = B1I_SPLITS_MAX / 32;
    float4 own[OWN]; /* maximum and sum of parts lane and lane + 32; then the part's weight */
    float4 v[WIDE];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < WIDE; i++) v[i] = make_float4(0, 0, 0, 0);
    for (int from = 0; from < j.parts; from += BATCH) {
        float4 x[BATCH][WIDE];
        bool there;
        do {
            there = true;
#pragma unroll
            for (int k = 0; k < OWN; k++)
                if (from == 0 && lane + 32 * k < j.parts)
                    own[k] = get_unit((const float4 *)(parts + (lane + 32 * k) * PART + HEADS * D) + head);
                else if (from == 0)
                    own[k] = make_float4(-INFINITY, 0, 0, 0);
#pragma unroll
            for (int s = 0; s < BATCH; s++)
#pragma unroll
                for (int i = 0; i < WIDE; i++)
                    x[s][i] = from + s < j.parts && (lane + 32 * i) * 4 < D
                                  ? get_unit((const float4 *)(parts + (from + s) * PART + head * D) + lane + 32 * i)
                                  : make_float4(0, 0, 0, 0);
#pragma unroll
            for (int k = 0; k < OWN; k++) there &= !unit_empty(own[k]);
#pragma unroll
            for (int s = 0; s < BATCH; s++)
#pragma unroll
                for (int i = 0; i < WIDE; i++) there &= !unit_empty(x[s][i]);
        } while (!__all_sync(B1I_FULL, there));
        /* All of this is there: it is emptied while the way to memory is free. */
#pragma unroll
        for (int s = 0; s < BATCH; s++)
#pragma unroll
            for (int i = 0; i < WIDE; i++)
                if (from + s < j.parts && (lane + 32 * i) * 4 < D)
                    put_unit((float4 *)(parts + (from + s) * PART + head * D) + lane + 32 * i, empty_unit());
        if (from == 0) {
#pragma unroll
            for (int k = 0; k < OWN; k++)
                if (lane + 32 * k < j.parts)
                    put_unit((float4 *)(parts + (lane + 32 * k) * PART + HEADS * D) + head, empty_unit());
            float most = own[0].x;
#pragma unroll
            for (int k = 1; k < OWN; k++) most = fmaxf(most, own[k].x);
            most = from_ordered(__reduce_max_sync(B1I_FULL, to_ordered(most)));
#pragma unroll
            for (int k = 0; k < OWN; k++) {
                own[k].x = part_scale(own[k].x, most);
                sum += own[k].x * own[k].y;
            }
            sum = warp_sum(sum);
        }
        const float mine = from < 32 ? own[0].x : own[OWN - 1].x;
#pragma unroll
        for (int s = 0; s < BATCH; s++) {
            const float w = __shfl_sync(B1I_FULL, mine, (from + s) % 32);
#pragma unroll
            for (int i = 0; i < WIDE; i++) {
                v[i].x += w * x[s][i].x, v[i].y += w * x[s][i].y;
                v[i].z += w * x[s][i].z, v[i].w += w * x[s][i].w;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < WIDE; i++)
        if ((lane + 32 * i) * 4 < D) put_out(a, j, head, (lane + 32 * i) * 4, v[i], sum);
}

template <int D> __device__ __forceinline__ void attention(const b1i_attention_args &a)
{
    using S = shape<D>;
    extern __shared__ __align__(128) char memory[];
    __shared__ uint64_t barriers[WARPS * S::SLOTS];
    __shared__ __align__(16) __nv_bfloat16 queries[2 * HEADS * S::Q_STRIDE];
    __shared__ __align__(16) __nv_bfloat16 fresh[B1I_CUDA_ROWS * 2 * D];
    __shared__ bool last; /* whether this block merges */
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const b1i_step_params *step = ptr<const b1i_step_params>(a.step);

    release_next();
    ring<S::SLOTS, S::SLOT> blocks;
    blocks.init(memory + warp * S::WARP_BYTES, barriers + warp * S::SLOTS, lane);
    job j;
    if (!make_job(a, step, j)) return;
    asked<D> h;
    if (a.prologue) h.turns.load_turns(a, j.row, lane);
    /* Keys and values take turns in the ring: chunk c of this warp is those of block j.begin + warp + c / 2 · WARPS. */
    const int first = j.begin + warp, chunks = first < j.end ? (j.end - first + WARPS - 1) / WARPS * 2 : 0;
    const char *from = j.kv + (int64_t)first * 2 * S::SLOT;
#pragma unroll 1
    for (int turn = 0; turn < 2; turn++)
        if (turn == a.early) {
            wait_inputs();
            ask<D>(a, j, warp, lane, h);
        } else {
            for (int c = 0; c < S::SLOTS; c++)
                blocks.prime(c, from + (int64_t)(c / 2) * WARPS * 2 * S::SLOT + c % 2 * S::SLOT,
                             c < chunks ? S::SLOT : 0, lane);
        }
    const int64_t place = (int64_t)blockIdx.z * gridDim.y + blockIdx.y;
    unsigned *begun = ptr<unsigned>(a.begun) + place, before = 0;
    if (warp == WARPS - 1 && j.parts > 1 && lane == 0) before = atomicAdd(begun, 1);
    make_queries<D>(a, j, h.queries, h.turns, queries);
#pragma unroll 1
    for (int r = warp; r < B1I_CUDA_ROWS; r += WARPS) {
        if (__shfl_sync(B1I_FULL, j.fresh, r) < 0) continue;
        if (r != warp) ask_row(a, j, r, lane, h);
        make_new<D>(a, r, lane, h, fresh);
    }
    __syncthreads(); /* orders queries, new keys and values before everybody's reads */

    query<D> q;
    q.load(queries, lane);
    state<D> softmax;
    softmax.clear();
    for (int c = 0; c < chunks; c += 2) {
        const int block = first + c / 2 * WARPS, start = block * B1I_KV_TILE;
        float s[4][2];
        uint32_t hi[4], lo[4];
        blocks.wait();
        patch<D>((__nv_bfloat16 *)blocks.data(), 0, block, fresh, j.fresh, c + S::SLOTS < chunks, lane);
        softmax.scores((const uint4 *)blocks.data(), q, lane, s);
        int ahead = c + S::SLOTS;
        blocks.refill(from + (int64_t)(ahead / 2) * WARPS * 2 * S::SLOT + ahead % 2 * S::SLOT,
                      ahead < chunks ? S::SLOT : 0, lane);
        if (start < j.first || start + B1I_KV_TILE > j.limit)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int position = start + lane % 4 * 8 + i;
                if (position < j.first || position >= j.limit) s[i / 2][i % 2] = -INFINITY;
            }
        softmax.soften(s, hi, lo);
        blocks.wait();
        patch<D>((__nv_bfloat16 *)blocks.data(), 1, block, fresh, j.fresh, ahead + 1 < chunks, lane);
        softmax.gather((const uint4 *)blocks.data(), hi, lo, j.limit - start - lane % 4 * 8, lane);
        ahead++;
        blocks.refill(from + (int64_t)(ahead / 2) * WARPS * 2 * S::SLOT + ahead % 2 * S::SLOT,
                      ahead < chunks ? S::SLOT : 0, lane);
    }

    softmax.store((float *)(memory + warp * S::WARP_BYTES), j.heads, lane);
    if (warp == WARPS - 1 && lane == 0) last = before + 1 == (unsigned)j.parts && j.parts > 1;
    float *parts = ptr<float>(a.part) + place * a.splits * B1I_ATTENTION_PART(D);
    __syncthreads(); /* orders the warps' results, and `last`, before the merge; now each warp has heads of its own */
#pragma unroll 1
    for (int head = warp; head < j.heads; head += WARPS)
        merge_warps<D>(a, j, memory, head, lane, parts + blockIdx.x * B1I_ATTENTION_PART(D));
    const int own = __shfl_sync(B1I_FULL, j.fresh, j.row);
    if (own >= 0 && j.pass == 0 && warp == WARPS - 1) append<D>(j, own, lane, fresh);
    if (!last) return;
    if (threadIdx.x == 0) *begun = 0;
#pragma unroll 1
    for (int head = warp; head < j.heads; head += WARPS) merge_parts<D>(a, j, parts, head, lane);
}

} // namespace

#define B1I_ATTENTION(D)                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) k_attention_##D(const __grid_constant__ b1i_attention_args a) \
    {                                                                                                             \
        attention<D>(a);                                                                                          \
    }
B1I_ATTENTION(64)
B1I_ATTENTION(96)
B1I_ATTENTION(128)
B1I_ATTENTION(256)
