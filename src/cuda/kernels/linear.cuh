/* SPDX-License-Identifier: MIT
 *
 * y = W x for 1 to 8 rows, and what stands around it: RMSNorm before; bias, residual, SiLU or argmax after. Of the
 * formats of the file that includes it, which says how many WARPS multiply.
 *
 * k_linear_<format>_one   one row; its input lies in shared memory
 * k_linear_<format>_few   2 … 8 rows, the columns of mma's B; inputs are read as they are needed, from L1 and L2
 *
 * Launch: any grid of blocks of 32 · (WARPS + 1) threads, as many as SMs for the whole memory's speed, at most
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
#ifndef B1I_LINEAR_CUH
#define B1I_LINEAR_CUH

#include "linear_input.cuh"

namespace {

constexpr int THREADS = READERS + 32, SLOT_BYTES = B1I_LINEAR_SLOT_BYTES;
using weight_stream = stream<SLOT_BYTES, WARPS>;

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

/* The warp's blocks of a chunk, `together` at once: what is read and converted for one runs beside the products of
 * another. */
template <class SUMS, bool FEW, bool F16>
__device__ __forceinline__ void add_chunk(SUMS &acc, const char *data, int first, int count, int warp, int lane,
                                          const input<FEW, F16> &x)
{
    const auto add = [&](int b, int blocks) {
#pragma unroll
        for (int k = 0; k < blocks; k++, b += WARPS) acc.add(data + b * SUMS::bytes, lane, x.at(first + b, lane));
    };
    const int last = count - (SUMS::together - 1) * WARPS;
    int b = warp;
#pragma unroll 1
    for (; b < last; b += SUMS::together * WARPS) add(b, SUMS::together);
    if (SUMS::together == 4 && b + 2 * WARPS < count)
        add(b, 3);
    else if (SUMS::together >= 3 && b + WARPS < count)
        add(b, 2);
    else if (b < count)
        add(b, 1);
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
            add_chunk(acc, data, first, count, warp, lane, x);
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
    best *found = ptr<best>(a.best);
    __shared__ bool last;
    for (int r = from; r < n; r++) {
        const uint32_t *mask = ptr<const uint32_t>(__ldcg(&step->row[r].mask));
        float *logits = ptr<float>(__ldcg(&step->row[r].logits));
        best mine = {0, -1};
        for (int i = threadIdx.x; i < s.panels * B1I_TILE_ROWS; i += READERS) {
            int token = s.first_panel * B1I_TILE_ROWS + i;
            if (token >= vocab) continue;
            float y = get_sum<FEW>(part, i / B1I_TILE_ROWS, i % B1I_TILE_ROWS, r) + (bias ? bias[token] : 0);
            logits[token] = y;
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

    if constexpr (FORMAT != b1i_tile_i8 && FORMAT != b1i_tile_i4)
        multiply<tile_sums<FORMAT>>(a, s, weights, x, back, part);
    else if (a.offsets)
        multiply<tile_sums<FORMAT, 1, 1>>(a, s, weights, x, back, part);
    else if (FORMAT == b1i_tile_i8 && a.scales == 2)
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

#endif
