/* SPDX-License-Identifier: MIT
 *
 * y = W x for 1 to 8 rows, and what stands around it: RMSNorm before; bias, residual, SiLU or argmax after.
 *
 * k_linear_<format>_one   one row; its input lies in shared memory
 * k_linear_<format>_few   2 … 8 rows, the columns of mma's B; inputs are read as they are needed, from L1 and L2
 *
 * Launch: any grid of blocks of 32 · (B1I_LINEAR_WARPS + 1) threads, as many as SMs for the whole memory's speed, at most
 * panels / unit; dynamic shared memory as program.c's linear_shared() says. Bytes moved: the matrix once; the input once
 * a block (from L2).
 *
 * A block has a run of whole panels (16 rows). One warp streams them through a ring in chunks of up to 16 KB; the others
 * each multiply their part of every chunk's columns, so that none of them falls behind, and their sums are added up in
 * the order of the warps: results do not depend on timing. Products are mma.m16n8k16 with f32 sums; drained from shared
 * memory they are several times faster than memory is. What tile.cuh multiplies as f16 needs a row's largest magnitude
 * before its input can be staged or read.
 *
 * Launched early (programmatically), the ring fills before the kernel that makes the input has ended: weights do not
 * depend on it. Launched after it, the input is asked for first: behind a ring's worth of stream on every SM it would
 * arrive microseconds later.
 *
 * Lost: a ring for each warp with a run of chunks of its own, no shared order: the warps of a block ended up to 8 %
 * apart, and copies of 2 to 4 KB stream at 4.45 TB/s where 16 KB reach 4.6. Prefetching the next kernel's weights into
 * L2: slower in a prototype.
 */
#include "common.cuh"

#include "tile.cuh"

namespace {

constexpr int WARPS = B1I_LINEAR_WARPS, READERS = WARPS * 32, THREADS = READERS + 32, SLOT_BYTES = B1I_LINEAR_SLOT_BYTES;
using weight_stream = stream<SLOT_BYTES, WARPS>;
constexpr int KEPT = 4; /* groups of 4 columns of an input that a thread keeps between its two passes */

/* A barrier of the threads that multiply. */
__device__ __forceinline__ void sync_readers() { asm volatile("bar.sync 1, %0;" ::"n"(READERS) : "memory"); }

/* ---- inputs ---- */

/* Adds up over the block; every thread gets the sum. `sums` [WARPS] is free for others after the next barrier. */
__device__ __forceinline__ float block_sum(float x, float *sums)
{
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    sync_readers(); /* orders the warps' sums before everybody's reads */
    float total = 0;
    for (int w = 0; w < WARPS; w++) total += sums[w];
    return total;
}

__device__ __forceinline__ float square(float4 v) { return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }

__device__ __forceinline__ uint2 normed(float4 v, float4 w, float inverse)
{
    return make_uint2(pack_bf16(v.x * inverse * w.x, v.y * inverse * w.y),
                      pack_bf16(v.z * inverse * w.z, v.w * inverse * w.w));
}

/* Where the four columns 4i … 4i + 3 of an input lie in shared memory, in units of 8 bytes: a lane's columns of both
 * halves of a block of 32 are 16 bytes. */
__device__ __forceinline__ int staged_at(int i) { return (i / 8 * 4 + i % 4) * 2 + i / 4 % 2; }

/* What is staged: bf16, for the formats that tile.cuh multiplies as f16 times a power of two as that. */
template <bool F16> __device__ __forceinline__ uint2 staged_as(uint2 bf16, float by)
{
    return F16 ? make_uint2(f16_of_bf16(bf16.x, by), f16_of_bf16(bf16.y, by)) : bf16;
}

/* ---- the largest magnitude of a row, as the bits of a float: those of what is finite have the floats' order ---- */

__device__ __forceinline__ float larger(float most, float4 v, float4 w)
{
    return fmaxf(fmaxf(fmaxf(most, fabsf(v.x * w.x)), fabsf(v.y * w.y)), fmaxf(fabsf(v.z * w.z), fabsf(v.w * w.w)));
}
/* Eight bf16, even and odd columns apart; a NaN is the largest. */
__device__ __forceinline__ __nv_bfloat162 larger(__nv_bfloat162 most, float4 eight)
{
    const float f[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; i++) most = __hmax2_nan(most, __habs2(*(const __nv_bfloat162 *)&f[i]));
    return most;
}
__device__ __forceinline__ uint32_t bits_of(float most) { return __float_as_uint(most); }
__device__ __forceinline__ uint32_t bits_of(__nv_bfloat162 most)
{
    const uint32_t u = *(const uint32_t *)&most;
    return max(u << 16, u & 0xffff0000u);
}
__device__ __forceinline__ uint32_t bits_times(uint32_t most, float by)
{
    return __float_as_uint(__uint_as_float(most) * by);
}

/* Puts what the warp has where all read it after the next barrier. */
__device__ __forceinline__ void put_most(uint32_t bits, uint32_t *most)
{
    bits = __reduce_max_sync(B1I_FULL, bits);
    if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = bits;
}
__device__ __forceinline__ uint32_t get_most(const uint32_t *most)
{
    uint32_t bits = 0;
    for (int w = 0; w < WARPS; w++) bits = max(bits, most[w]);
    return bits;
}

/* ---- one row ---- */

/* What a thread holds of one row's input between asking for it and using it. */
struct held {
    float4 x[KEPT], norm[KEPT];
};

__device__ __forceinline__ void ask_norm(const b1i_linear_args &a, held &h)
{
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const int i = threadIdx.x + k * READERS;
        h.norm[k] = i < a.blocks * 8 ? __ldg(ptr<const float4>(a.norm) + i) : make_float4(0, 0, 0, 0);
    }
}
__device__ __forceinline__ void ask_input(const b1i_linear_args &a, held &h)
{
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const int i = threadIdx.x + k * READERS, count = a.input == b1i_in_norm ? a.blocks * 8 : a.blocks * 4;
        h.x[k] = i < count ? __ldcg(ptr<const float4>(a.x) + i) : make_float4(0, 0, 0, 0);
    }
}

/* The input of one row in `staged` [blocks × 64 bytes]; returns the power of two that it has (of F16). `sums` and
 * `most` [WARPS] are free for others after the next barrier. */
template <bool F16>
__device__ __forceinline__ power stage_norm(const b1i_linear_args &a, const held &h, uint2 *staged, float *sums,
                                            uint32_t *most)
{
    const float4 *x = ptr<const float4>(a.x), *w = ptr<const float4>(a.norm);
    const int groups = a.blocks * 8;
    float sum = 0, top = 0;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        sum += square(h.x[k]);
        if (F16) top = larger(top, h.x[k], h.norm[k]);
    }
    for (int i = threadIdx.x + KEPT * READERS; i < groups; i += READERS) {
        const float4 v = __ldcg(x + i);
        sum += square(v);
        if (F16) top = larger(top, v, w[i]);
    }
    if (F16) put_most(bits_of(top), most);
    const float inverse = 1 / sqrtf(block_sum(sum, sums) / (float)a.cols + a.eps);
    power p = {1, 1};
    if (F16) p = power_of(bits_times(get_most(most), inverse));
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const int i = threadIdx.x + k * READERS;
        if (i < groups) staged[staged_at(i)] = staged_as<F16>(normed(h.x[k], h.norm[k], inverse), p.by);
    }
    for (int i = threadIdx.x + KEPT * READERS; i < groups; i += READERS)
        staged[staged_at(i)] = staged_as<F16>(normed(__ldcg(x + i), w[i], inverse), p.by);
    return p;
}

template <bool F16> __device__ __forceinline__ void stage_eight(float4 f, int i, uint2 *staged, float by)
{
    staged[staged_at(2 * i)] = staged_as<F16>(make_uint2(__float_as_uint(f.x), __float_as_uint(f.y)), by);
    staged[staged_at(2 * i + 1)] = staged_as<F16>(make_uint2(__float_as_uint(f.z), __float_as_uint(f.w)), by);
}
template <bool F16>
__device__ __forceinline__ power stage_bf16(const b1i_linear_args &a, const held &h, uint2 *staged, uint32_t *most)
{
    const float4 *x = ptr<const float4>(a.x);
    const int eights = a.blocks * 4;
    power p = {1, 1};
    if (F16) {
        __nv_bfloat162 top = __float2bfloat162_rn(0);
#pragma unroll
        for (int k = 0; k < KEPT; k++) top = larger(top, h.x[k]);
#pragma unroll 4
        for (int i = threadIdx.x + KEPT * READERS; i < eights; i += READERS) top = larger(top, __ldcg(x + i));
        put_most(bits_of(top), most);
        sync_readers(); /* orders the warps' largest before everybody's reads */
        p = power_of(get_most(most));
    }
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        const int i = threadIdx.x + k * READERS;
        if (i < eights) stage_eight<F16>(h.x[k], i, staged, p.by);
    }
#pragma unroll 4
    for (int i = threadIdx.x + KEPT * READERS; i < eights; i += READERS)
        stage_eight<F16>(__ldcg(x + i), i, staged, p.by);
    return p;
}

/* ---- several rows: a warp each, what must be known of all of it ---- */

/* 1 / rms, and the largest magnitude of what is normed (of F16). */
template <bool F16> __device__ void look_at_norm(const b1i_linear_args &a, int n, float *inverse, uint32_t *most)
{
    const int lane = threadIdx.x % 32;
    for (int r = threadIdx.x / 32; r < B1I_CUDA_ROWS; r += WARPS) {
        float sum = 0, top = 0;
        const float4 *x = ptr<const float4>(a.x + (uint64_t)r * a.x_stride * sizeof(float));
        for (int i = lane; r < n && i < a.blocks * 8; i += 32) {
            sum += square(x[i]);
            if (F16) top = larger(top, x[i], ptr<const float4>(a.norm)[i]);
        }
        sum = warp_sum(sum);
        const uint32_t bits = F16 ? __reduce_max_sync(B1I_FULL, bits_of(top)) : 0;
        if (lane == 0) {
            inverse[r] = 1 / sqrtf(sum / (float)a.cols + a.eps);
            if (F16) most[r] = bits_times(bits, inverse[r]);
        }
    }
}

/* The largest magnitude. */
__device__ void look_at_bf16(const b1i_linear_args &a, int n, uint32_t *most)
{
    const int lane = threadIdx.x % 32;
    for (int r = threadIdx.x / 32; r < B1I_CUDA_ROWS; r += WARPS) {
        __nv_bfloat162 top = __float2bfloat162_rn(0);
        const float4 *x = ptr<const float4>(a.x + (uint64_t)r * a.x_stride * sizeof(uint16_t));
#pragma unroll 8
        for (int i = lane; r < n && i < a.blocks * 4; i += 32) top = larger(top, x[i]);
        const uint32_t bits = __reduce_max_sync(B1I_FULL, bits_of(top));
        if (lane == 0) most[r] = bits;
    }
}

/* ---- B fragments of a block of 32 columns: x, y for its first half, z, w for its second ---- */

template <bool FEW, bool F16> struct input;
template <bool F16> struct input<false, F16> {
    const uint4 *staged;
    __device__ __forceinline__ uint4 at(int block, int lane) const { return staged[block * 4 + lane % 4]; }
};
template <bool F16> struct input<true, F16> {
    const char *row; /* of this lane's column of B, or NULL: zeros */
    const float *norm;
    float inverse, by; /* 1 / rms; the power of two (of F16) */
    __device__ __forceinline__ uint4 at(int block, int lane) const
    {
        const int c = block * 32 + lane % 4 * 4;
        if (!row) return make_uint4(0, 0, 0, 0);
        uint2 first, second;
        if (norm) {
            const float *x = (const float *)row + c, *w = norm + c;
            first = normed(*(const float4 *)x, *(const float4 *)w, inverse);
            second = normed(*(const float4 *)(x + 16), *(const float4 *)(w + 16), inverse);
        } else {
            const uint16_t *x = (const uint16_t *)row + c;
            first = *(const uint2 *)x;
            second = *(const uint2 *)(x + 16);
        }
        first = staged_as<F16>(first, by);
        second = staged_as<F16>(second, by);
        return make_uint4(first.x, first.y, second.x, second.y);
    }
};

/* ---- the product ---- */

/* The panels that one block has. */
struct share {
    int first_panel, panels;
    __device__ __forceinline__ share(const b1i_linear_args &a)
    {
        const int b = blockIdx.x;
        first_panel = (b * a.units + min(b, a.units_more)) * a.unit;
        panels = (a.units + (b < a.units_more)) * a.unit;
    }
};

/* Sums of a panel that `warp` has. */
template <bool FEW>
__device__ __forceinline__ void put_part(float *part, int panel, int warp, int lane, const float (&c)[4])
{
    const int g = lane / 4, t = lane % 4;
    float *p = part + (panel * WARPS + warp) * B1I_TILE_ROWS * (FEW ? B1I_CUDA_ROWS : 1);
    if (FEW) {
        *(float2 *)(p + g * B1I_CUDA_ROWS + 2 * t) = make_float2(c[0], c[1]);
        *(float2 *)(p + (g + 8) * B1I_CUDA_ROWS + 2 * t) = make_float2(c[2], c[3]);
    } else if (t == 0) {
        p[g] = c[0];
        p[g + 8] = c[2];
    }
}

/* The block's panels, chunk by chunk: each warp's sums of its part of the columns. `back`: of the two columns of B that
 * a lane has sums of (of F16). */
template <class SUMS, bool FEW, bool F16>
__device__ __forceinline__ void multiply(const b1i_linear_args &a, const share &s, weight_stream &weights,
                                         const input<FEW, F16> &x, const float (&back)[2], float *part)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int slot = 0, phase = 0;
    for (int p = 0; p < s.panels; p++) {
        SUMS acc;
        acc.clear();
        for (int c = 0; c < a.chunks; c++) {
            const int first = c * a.chunk, count = min(a.chunk, a.blocks - first);
            const char *data = weights.wait(slot, phase);
#pragma unroll 2
            for (int b = warp; b < count; b += WARPS) acc.add(data + b * a.block_bytes, lane, x.at(first + b, lane));
            weights.release(slot, lane);
            if (++slot == a.slots) {
                slot = 0;
                phase ^= 1;
            }
        }
        float y[4];
        acc.total(y);
        for (int i = 0; F16 && i < 4; i++) y[i] *= back[i % 2];
        put_part<FEW>(part, p, warp, lane, y);
    }
}

/* Row `o` of the block's panel `p`, for row `r` of the step. */
template <bool FEW> __device__ __forceinline__ float get_sum(const float *part, int p, int o, int r)
{
    float y = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        y += part[((p * WARPS + w) * B1I_TILE_ROWS + o) * (FEW ? B1I_CUDA_ROWS : 1) + (FEW ? r : 0)];
    return y;
}

/* ---- what becomes of the sums ---- */

struct best {
    float value;
    int token; /* −1: none; −2: a logit that is not finite was seen */
};
__device__ __forceinline__ best better(best a, best b)
{
    if (a.token == -2 || b.token == -2) return best{0, -2};
    if (b.token < 0) return a;
    if (a.token < 0 || b.value > a.value || (b.value == a.value && b.token < a.token)) return b;
    return a;
}
/* The best of the block, in thread 0. `all` [WARPS]. */
__device__ best block_best(best b, best *all)
{
    for (int o = 16; o; o >>= 1)
        b = better(b, best{__shfl_xor_sync(B1I_FULL, b.value, o), __shfl_xor_sync(B1I_FULL, b.token, o)});
    sync_readers(); /* `all` may still be read from the row before */
    if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = b;
    sync_readers(); /* orders the warps' results before thread 0's reads */
    for (int w = 1; threadIdx.x == 0 && w < WARPS; w++) b = better(b, all[w]);
    return b;
}

template <bool FEW>
__device__ void put_logits(const b1i_linear_args &a, const share &s, const float *part, const b1i_step_params *step,
                           best *all)
{
    const int from = __ldcg(&step->logits_from), n = __ldcg(&step->n), vocab = a.out[0].rows;
    const float *bias = ptr<const float>(a.out[0].bias);
    const uint32_t *mask = ptr<const uint32_t>(__ldcg(&step->mask));
    float *logits = ptr<float>(__ldcg(&step->logits));
    best *found = ptr<best>(a.best);
    __shared__ bool last;
    for (int r = from; r < n; r++) {
        best mine = {0, -1};
        for (int i = threadIdx.x; i < s.panels * B1I_TILE_ROWS; i += READERS) {
            int token = s.first_panel * B1I_TILE_ROWS + i;
            if (token >= vocab) continue;
            float y = get_sum<FEW>(part, i / B1I_TILE_ROWS, i % B1I_TILE_ROWS, r) + (bias ? bias[token] : 0);
            logits[(int64_t)(r - from) * vocab + token] = y;
            if (!isfinite(y))
                mine = better(mine, best{0, -2});
            else if (!mask || !(mask[token / 32] >> token % 32 & 1))
                mine = better(mine, best{y, token});
        }
        mine = block_best(mine, all);
        if (threadIdx.x == 0) __stcg((float2 *)(found + blockIdx.x * B1I_CUDA_ROWS + r), *(float2 *)&mine);
    }
    sync_readers(); /* all threads' logits before thread 0's arrival */
    if (threadIdx.x == 0) last = arrive(ptr<unsigned>(a.arrived)) == gridDim.x - 1;
    sync_readers();
    if (!last) return;
    b1i_step_result *result = ptr<b1i_step_result>(a.result);
    int bad = 0;
    for (int r = from; r < n; r++) {
        best b = {0, -1};
        for (int i = threadIdx.x; i < gridDim.x; i += READERS) {
            float2 f = __ldcg((const float2 *)(found + i * B1I_CUDA_ROWS + r));
            b = better(b, *(best *)&f);
        }
        b = block_best(b, all);
        if (threadIdx.x == 0) result->token[r] = b.token;
        bad |= b.token == -2;
    }
    if (threadIdx.x == 0) {
        *ptr<unsigned>(a.arrived) = 0;
        result->bad = bad;
        __threadfence_system(); /* the result before its serial number, for the host */
        *(volatile uint32_t *)&result->serial = __ldcg(&step->serial);
    }
}

template <bool FEW>
__device__ void put_silu(const b1i_linear_args &a, const share &s, const float *part, int n)
{
    const b1i_linear_out &out = a.out[0];
    const int count = s.panels / 2 * B1I_TILE_ROWS;
    for (int i = threadIdx.x; i < count * n; i += READERS) {
        int r = i / count, o = i % count, pair = o / B1I_TILE_ROWS;
        int row = s.first_panel / 2 * B1I_TILE_ROWS + o;
        if (row >= out.rows) continue;
        float gate = get_sum<FEW>(part, 2 * pair, o % B1I_TILE_ROWS, r);
        float up = get_sum<FEW>(part, 2 * pair + 1, o % B1I_TILE_ROWS, r);
        ptr<__nv_bfloat16>(out.y)[r * out.y_stride + row] = __float2bfloat16_rn(gate / (1 + expf(-gate)) * up);
    }
}

template <bool FEW>
__device__ void put_rows(const b1i_linear_args &a, const share &s, const float *part, int n)
{
    const int count = s.panels * B1I_TILE_ROWS;
    for (int i = threadIdx.x; i < count * n; i += READERS) {
        int r = i / count, o = i % count, p = s.first_panel + o / B1I_TILE_ROWS, k = 0;
        while (k + 1 < a.outs && p >= a.out[k + 1].first_panel) k++;
        const b1i_linear_out &out = a.out[k];
        int row = (p - out.first_panel) * B1I_TILE_ROWS + o % B1I_TILE_ROWS;
        if (row >= out.rows) continue;
        float y = get_sum<FEW>(part, o / B1I_TILE_ROWS, o % B1I_TILE_ROWS, r);
        if (out.bias) y += ptr<const float>(out.bias)[row];
        float *to = ptr<float>(out.y) + r * out.y_stride + row;
        *to = a.epilogue == b1i_out_add ? __ldcg(to) + y : y;
    }
}

/* ---- the kernel ---- */

template <int FORMAT, bool FEW> __device__ __forceinline__ void linear(const b1i_linear_args &a)
{
    extern __shared__ __align__(128) char memory[];
    __shared__ uint64_t barriers[2 * B1I_LINEAR_SLOTS_MAX];
    constexpr int COUNT = WARPS > B1I_CUDA_ROWS ? WARPS : B1I_CUDA_ROWS;
    constexpr bool F16 = in_f16<FORMAT>;
    __shared__ float sums[COUNT];
    __shared__ union {
        uint32_t most[COUNT]; /* until the product */
        best bests[WARPS];    /* after it */
    } late;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    char *staged = memory + a.slots * SLOT_BYTES;
    float *part = (float *)(staged + (FEW ? 0 : a.blocks * 64));
    const b1i_step_params *step = ptr<const b1i_step_params>(a.step);
    weight_stream weights = {memory, barriers, barriers + B1I_LINEAR_SLOTS_MAX};
    const share s(a);
    held h;

    release_next();
    if (threadIdx.x == READERS) weights.init(a.slots);
    if (!FEW && warp < WARPS) {
        if (a.input == b1i_in_norm) ask_norm(a, h);
        if (!a.early) {
            wait_inputs();
            ask_input(a, h);
        }
    }
    __syncthreads(); /* the ring's barriers are there; without early launch, so are the requests for the input */
    if (warp == WARPS) {
        if (B1I_BULK && lane != 0) return;
        int slot = 0, phase = 0;
        const char *panel = ptr<const char>(a.weights) + (int64_t)s.first_panel * a.panel_stride;
        bool again = false;
        for (int p = 0; p < s.panels; p++, panel += a.panel_stride)
            for (int c = 0; c < a.chunks; c++) {
                weights.fill(slot, again, phase ^ 1, panel + c * a.chunk * a.block_bytes,
                             min(a.chunk, a.blocks - c * a.chunk) * a.block_bytes, lane);
                if (++slot == a.slots) {
                    slot = 0;
                    phase ^= 1;
                    again = true;
                }
            }
        if (!B1I_BULK) {
            async_commit();
            async_wait<0>(); /* no thread ends with copies under way */
        }
        return;
    }
    if (FEW || a.early) wait_inputs();

    const int n = FEW ? __ldcg(&step->n) : 1;
    input<FEW, F16> x;
    float back[2] = {1, 1};
    if constexpr (FEW) {
        if (a.input == b1i_in_norm)
            look_at_norm<F16>(a, n, sums, late.most);
        else if (F16)
            look_at_bf16(a, n, late.most);
        sync_readers(); /* orders what is known of the rows before everybody's reads */
        const int row = lane / 4, size = a.input == b1i_in_norm ? 4 : 2;
        x.row = row < n ? ptr<const char>(a.x) + row * a.x_stride * size : nullptr;
        x.norm = a.input == b1i_in_norm ? ptr<const float>(a.norm) : nullptr;
        x.inverse = sums[row];
        if constexpr (F16) {
            x.by = power_of(late.most[row]).by;
            for (int i = 0; i < 2; i++) back[i] = power_of(late.most[lane % 4 * 2 + i]).back;
        }
    } else {
        if (a.early) ask_input(a, h);
        const power p = a.input == b1i_in_norm ? stage_norm<F16>(a, h, (uint2 *)staged, sums, late.most)
                                               : stage_bf16<F16>(a, h, (uint2 *)staged, late.most);
        back[0] = back[1] = p.back;
        sync_readers(); /* orders the input before everybody's reads */
        x.staged = (const uint4 *)staged;
    }

    if constexpr (FORMAT != b1i_tile_i8)
        multiply<tile_sums<FORMAT>>(a, s, weights, x, back, part);
    else if (a.offsets)
        multiply<tile_sums<FORMAT, 1, 1>>(a, s, weights, x, back, part);
    else if (a.scales == 2)
        multiply<tile_sums<FORMAT, 2, 0>>(a, s, weights, x, back, part);
    else
        multiply<tile_sums<FORMAT, 1, 0>>(a, s, weights, x, back, part);
    sync_readers(); /* orders all parts before the sums over warps */
    if (a.epilogue == b1i_out_logits)
        put_logits<FEW>(a, s, part, step, late.bests);
    else if (a.epilogue == b1i_out_silu)
        put_silu<FEW>(a, s, part, n);
    else
        put_rows<FEW>(a, s, part, n);
}

} // namespace

#define B1I_LINEAR(name, format, few)                                                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) name(const __grid_constant__ b1i_linear_args a) \
    {                                                                                                      \
        linear<format, few>(a);                                                                            \
    }
B1I_LINEAR(k_linear_bf16_one, b1i_tile_bf16, false)
B1I_LINEAR(k_linear_bf16_few, b1i_tile_bf16, true)
B1I_LINEAR(k_linear_f16_one, b1i_tile_f16, false)
B1I_LINEAR(k_linear_f16_few, b1i_tile_f16, true)
B1I_LINEAR(k_linear_f32_one, b1i_tile_f32, false)
B1I_LINEAR(k_linear_f32_few, b1i_tile_f32, true)
B1I_LINEAR(k_linear_i8_one, b1i_tile_i8, false)
B1I_LINEAR(k_linear_i8_few, b1i_tile_i8, true)
