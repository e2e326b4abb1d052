/* SPDX-License-Identifier: MIT
 *
 * Kernels of a prefill pass but its attention: embedding and RoPE's angles, weights from tile layout to plain rows for
 * the GEMM library, RMSNorm, heads (bias, norm, RoPE, append to the KV cache), SiLU, bias. A pass is bound by its GEMMs;
 * these only must not be far from memory speed. None has a shape of its own: any hidden size and head_dim up to 256.
 *
 * Columns past a value's own are zeros since the buffers were made, and no kernel writes them.
 */
#include "cuda/prefill_args.h"
#include "unpack.cuh"

/* Sum over the block of 256 threads, in a fixed order; every thread gets it. */
__device__ __forceinline__ float block_sum(float x)
{
    __shared__ float parts[8];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads(); /* parts are written before they are read */
    float sum = 0;
    for (int i = 0; i < 8; i++) sum += parts[i];
    return sum;
}

/* One block a row. x = the token's row of the embedding; cos and sin of the row's position, the angle in f32 as the
 * CPU computes it (a product, then accurate functions: angles reach the context's length). */
extern "C" __global__ void __launch_bounds__(256) k_prefill_begin(const b1i_prefill_begin_args a)
{
    const int row = blockIdx.x, token = ptr<const int32_t>(a.tokens)[row];
    const char *panel = ptr<const char>(a.embedding.data + (uint64_t)(token / 16) * a.embedding.panel_stride);
    float *x = ptr<float>(a.x) + row * a.x_stride;
    for (int c = threadIdx.x; c < a.embedding.blocks * 8; c += 256) { /* zeros past the columns */
        const char *block = panel + (int64_t)(c / 8) * a.embedding.block_bytes;
        *(float4 *)(x + 4 * c) = tile_row4(a.embedding, block, token % 16, c % 8);
    }
    const float position = (float)(a.position + row);
    for (int j = threadIdx.x; j < a.half; j += 256) {
        const float angle = position * ptr<const float>(a.inverse)[j];
        ptr<float>(a.cos)[(int64_t)row * a.half + j] = cosf(angle) * a.rope_factor;
        ptr<float>(a.sin)[(int64_t)row * a.half + j] = sinf(angle) * a.rope_factor;
    }
}

/* ---- unpacking ---- */

/* Columns of row g + 8r: lane 4g + t holds u[j] = columns 16j + 4t … + 3. Neighbours swap halves, so that each lane
 * writes 16 bytes and four lanes 64 bytes in a row. */
__device__ __forceinline__ void store_row(uint16_t *row, int lane, const uint2 (&u)[2])
{
    const int t = lane % 4, odd = t & 1;
    const uint2 keep = odd ? u[1] : u[0], send = odd ? u[0] : u[1];
    uint2 got;
    got.x = __shfl_xor_sync(B1I_FULL, send.x, 1);
    got.y = __shfl_xor_sync(B1I_FULL, send.y, 1);
    const uint4 all = odd ? make_uint4(got.x, got.y, keep.x, keep.y) : make_uint4(keep.x, keep.y, got.x, got.y);
    *(uint4 *)(row + (odd ? 12 + 4 * t : 4 * t)) = all;
}

/* A warp takes UNROLL blocks of a panel, loads first. What bf16 does not hold is split: w = high + low, exact for f16,
 * to 16 bits for the others. Reads the panels once, past the L2's favour, so that the rows that are written stay there
 * for the GEMM. Grid: ⌈panels · ⌈blocks / UNROLL⌉ / 8⌉ blocks of 8 warps. */
template <int FORMAT> __device__ __forceinline__ void unpack(const b1i_unpack_args &a)
{
    constexpr int UNROLL = FORMAT == b1i_tile_f32 ? 2 : 4;
    const int lane = threadIdx.x % 32, chunks = (a.blocks + UNROLL - 1) / UNROLL;
    const int64_t item = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
    const int panel = (int)(item / chunks), first = (int)(item % chunks) * UNROLL;
    if (panel >= a.panels) return; /* whole warps */
    const char *from = ptr<const char>(a.from + (uint64_t)panel * a.panel_stride);
    const int64_t stride = 32 * (int64_t)a.blocks, row = (int64_t)panel * 16 + lane / 4;
    float4 w[UNROLL][2][2];
#pragma unroll
    for (int i = 0; i < UNROLL; i++)
        if (first + i < a.blocks)
            tile_lane<FORMAT>(from + (int64_t)(first + i) * a.block_bytes, lane, a.scales, a.offsets, w[i]);
#pragma unroll
    for (int i = 0; i < UNROLL; i++) {
        if (first + i >= a.blocks) break;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int64_t at = (row + 8 * r) * stride + 32 * (first + i);
            uint2 high[2], low[2];
            for (int j = 0; j < 2; j++) {
                const float4 v = w[i][j][r];
                high[j] = make_uint2(pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
                low[j] = make_uint2(pack_bf16_rest(v.x, v.y, high[j].x), pack_bf16_rest(v.z, v.w, high[j].y));
            }
            store_row(ptr<uint16_t>(a.high) + at, lane, high);
            if (FORMAT != b1i_tile_bf16) store_row(ptr<uint16_t>(a.low) + at, lane, low);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) k_unpack_bf16(const b1i_unpack_args a) { unpack<b1i_tile_bf16>(a); }
extern "C" __global__ void __launch_bounds__(256) k_unpack_f16(const b1i_unpack_args a) { unpack<b1i_tile_f16>(a); }
extern "C" __global__ void __launch_bounds__(256) k_unpack_f32(const b1i_unpack_args a) { unpack<b1i_tile_f32>(a); }
extern "C" __global__ void __launch_bounds__(256) k_unpack_i8(const b1i_unpack_args a) { unpack<b1i_tile_i8>(a); }
extern "C" __global__ void __launch_bounds__(256) k_unpack_i4(const b1i_unpack_args a) { unpack<b1i_tile_i4>(a); }

/* ---- between the GEMMs ---- */

/* One block a row: y = x / √(mean(x²) + eps) · weight, as bf16. */
extern "C" __global__ void __launch_bounds__(256) k_prefill_rmsnorm(const b1i_prefill_norm_args a)
{
    const float *x = ptr<const float>(a.x) + blockIdx.x * a.x_stride, *weight = ptr<const float>(a.weight);
    uint16_t *out = ptr<uint16_t>(a.out) + blockIdx.x * a.out_stride;
    float sum = 0;
    for (int i = threadIdx.x; i < a.cols; i += 256) sum += x[i] * x[i];
    const float inverse = 1 / sqrtf(block_sum(sum) / (float)a.cols + a.eps);
    for (int i = threadIdx.x; i < a.cols; i += 256)
        out[i] = __bfloat16_as_ushort(__float2bfloat16_rn(x[i] * inverse * weight[i]));
}

/* A warp a head of a row: bias; for q and k norm and RoPE, whose pairs (j, j + half) one lane holds. q goes, times
 * scale · log2 e, to where attention reads it; k and v go to the cache. All as bf16. */
extern "C" __global__ void __launch_bounds__(128) k_prefill_heads(const b1i_prefill_heads_args a)
{
    constexpr int PAIRS = 4; /* a lane's, of 128 at most */
    const int lane = threadIdx.x % 32, item = blockIdx.x * 4 + threadIdx.x / 32, row = blockIdx.y;
    if (item >= a.heads + 2 * a.kv_heads) return; /* whole warps */
    const bool is_q = item < a.heads, is_v = item >= a.heads + a.kv_heads;
    const int head = is_q ? item : is_v ? item - a.heads - a.kv_heads : item - a.heads, half = a.head_dim / 2;
    const float *x = (is_q   ? ptr<const float>(a.q) + row * a.q_stride
                      : is_v ? ptr<const float>(a.v) + row * a.v_stride
                             : ptr<const float>(a.k) + row * a.k_stride) +
                     head * a.head_dim;
    const uint64_t bias = is_q ? a.q_bias : is_v ? a.v_bias : a.k_bias, norm = is_q ? a.q_norm : is_v ? 0 : a.k_norm;
    float u[PAIRS], v[PAIRS], sum = 0;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const int j = lane + 32 * i;
        u[i] = v[i] = 0;
        if (j >= half) continue;
        u[i] = x[j];
        v[i] = x[j + half];
        if (bias) {
            u[i] += ptr<const float>(bias)[head * a.head_dim + j];
            v[i] += ptr<const float>(bias)[head * a.head_dim + j + half];
        }
        sum += u[i] * u[i] + v[i] * v[i];
    }
    const float inverse = norm ? 1 / sqrtf(warp_sum(sum) / (float)a.head_dim + a.eps) : 1;
    const int position = a.position + row;
    uint16_t *cache = ptr<uint16_t>(a.kv + (uint64_t)head * a.head_bytes) + (int64_t)(position / 32) * 64 * a.dim;
    uint16_t *q_out = ptr<uint16_t>(a.q_out) + ((int64_t)row * a.heads + head) * a.dim;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const int j = lane + 32 * i;
        if (j >= half) continue;
        float y = u[i], z = v[i];
        if (norm) {
            y = y * inverse * ptr<const float>(norm)[j];
            z = z * inverse * ptr<const float>(norm)[j + half];
        }
        if (!is_v) {
            const float cs = ptr<const float>(a.cos)[(int64_t)row * half + j],
                        sn = ptr<const float>(a.sin)[(int64_t)row * half + j], first = y;
            y = first * cs - z * sn;
            z = z * cs + first * sn;
        }
        if (is_q) {
            const float scale = a.scale * 1.4426950408889634f;
            y *= scale;
            z *= scale;
        }
        uint16_t *const to_y = is_q   ? q_out + j
                               : is_v ? cache + 32 * a.dim + value_index(position % 32, j)
                                      : cache + key_index(position % 32, j, a.dim),
                        *const to_z = is_q   ? q_out + j + half
                                      : is_v ? cache + 32 * a.dim + value_index(position % 32, j + half)
                                             : cache + key_index(position % 32, j + half, a.dim);
        *to_y = __bfloat16_as_ushort(__float2bfloat16_rn(y));
        *to_z = __bfloat16_as_ushort(__float2bfloat16_rn(z));
    }
}

/* silu(gate) · up, as bf16; four columns a thread, the last ones one by one. */
extern "C" __global__ void __launch_bounds__(256) k_prefill_silu_mul(const b1i_prefill_cols_args a)
{
    const float *gate = ptr<const float>(a.a) + blockIdx.y * a.a_stride, *up = ptr<const float>(a.b) + blockIdx.y * a.b_stride;
    uint16_t *out = ptr<uint16_t>(a.out) + blockIdx.y * a.out_stride;
    const int c = (blockIdx.x * 256 + threadIdx.x) * 4;
    if (c + 4 <= a.cols) {
        const float4 g = *(const float4 *)(gate + c), u = *(const float4 *)(up + c);
        *(uint2 *)(out + c) = make_uint2(pack_bf16(g.x / (1 + expf(-g.x)) * u.x, g.y / (1 + expf(-g.y)) * u.y),
                                         pack_bf16(g.z / (1 + expf(-g.z)) * u.z, g.w / (1 + expf(-g.w)) * u.w));
    } else {
        for (int i = c; i < a.cols; i++)
            out[i] = __bfloat16_as_ushort(__float2bfloat16_rn(gate[i] / (1 + expf(-gate[i])) * up[i]));
    }
}

/* x += bias, in every row. */
extern "C" __global__ void __launch_bounds__(256) k_prefill_bias(const b1i_prefill_cols_args a)
{
    float *x = ptr<float>(a.a) + blockIdx.y * a.a_stride;
    const int c = (blockIdx.x * 256 + threadIdx.x) * 4;
    for (int i = c; i < c + 4 && i < a.cols; i++) x[i] += ptr<const float>(a.b)[i];
}
