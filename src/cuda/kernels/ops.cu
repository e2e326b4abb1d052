/* SPDX-License-Identifier: MIT
 *
 * The ops that move little: the step's beginning, and each op of the plan as a kernel of its own for the separate
 * executors. One row of the step is blockIdx.y (k_begin: blockIdx.x); rows past the step's are left at once. Norms take
 * one block a row; what has no sum takes as many blocks as its columns fill. Any number of threads that is a multiple
 * of 32, at most 1024.
 */
#include "common.cuh"

#include "tile.cuh"

namespace {

__device__ __forceinline__ int step_rows(uint64_t step) { return __ldcg(&ptr<const b1i_step_params>(step)->n); }

/* Adds up over the block; every thread gets the sum. */
__device__ float block_sum(float x)
{
    __shared__ float sums[32];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads(); /* orders the warps' sums before everybody's reads */
    float total = 0;
    for (int w = 0; w < blockDim.x / 32; w++) total += sums[w];
    return total;
}

} // namespace

/* The step's parameters from pinned to device memory; the embedding of its rows; cos and sin of their positions, as the
 * CPU computes them: the angle is a product in f32. */
extern "C" __global__ void __launch_bounds__(1024) k_begin(const __grid_constant__ b1i_begin_args a)
{
    const int r = blockIdx.x;
    release_next();
    wait_inputs();
    /* Pinned memory is far: one warp reads it, once. */
    constexpr int WORDS = sizeof(b1i_step_params) / 8;
    __shared__ union {
        uint64_t word[WORDS];
        b1i_step_params params;
    } staged;
    for (int i = threadIdx.x; threadIdx.x < 32 && i < WORDS; i += 32) {
        const uint64_t word = ((const volatile uint64_t *)a.staged)[i];
        staged.word[i] = word;
        if (r == 0) ptr<uint64_t>(a.step)[i] = word;
    }
    __syncthreads(); /* orders the parameters before everybody's reads */
    if (r >= staged.params.n) return;
    const int token = staged.params.row[r].token, position = staged.params.row[r].position;
    float *x = ptr<float>(a.x) + r * a.x_stride;
    for (int c = threadIdx.x; c < a.embedding.cols; c += blockDim.x) x[c] = tile_value(a.embedding, token, c);
    for (int j = threadIdx.x; j < a.half; j += blockDim.x) {
        const float angle = (float)position * ptr<const float>(a.inverse)[j];
        ptr<float>(a.cos)[r * a.half + j] = cosf(angle) * a.rope_factor;
        ptr<float>(a.sin)[r * a.half + j] = sinf(angle) * a.rope_factor;
    }
}

/* out = a / rms(a) · weight, as bf16 */
extern "C" __global__ void __launch_bounds__(1024) k_rmsnorm(const __grid_constant__ b1i_small_args a)
{
    const int r = blockIdx.y;
    release_next();
    wait_inputs();
    if (r >= step_rows(a.step)) return;
    const float *x = ptr<const float>(a.a) + r * a.a_stride, *w = ptr<const float>(a.weight);
    float sum = 0;
    for (int c = threadIdx.x; c < a.cols; c += blockDim.x) sum += x[c] * x[c];
    const float inverse = 1 / sqrtf(block_sum(sum) / (float)a.cols + a.eps);
    __nv_bfloat16 *out = ptr<__nv_bfloat16>(a.out) + r * a.out_stride;
    for (int c = threadIdx.x; c < a.cols; c += blockDim.x) out[c] = __float2bfloat16_rn(x[c] * inverse * w[c]);
}

/* Heads of a, in place: a / rms(a) · weight; a warp a head. */
extern "C" __global__ void __launch_bounds__(1024) k_headnorm(const __grid_constant__ b1i_small_args a)
{
    const int r = blockIdx.y, lane = threadIdx.x % 32;
    release_next();
    wait_inputs();
    if (r >= step_rows(a.step)) return;
    const int head = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (head >= a.heads) return;
    float *x = ptr<float>(a.a) + r * a.a_stride + head * a.head_dim;
    const float *w = ptr<const float>(a.weight);
    float sum = 0;
    for (int d = lane; d < a.head_dim; d += 32) sum += x[d] * x[d];
    const float inverse = 1 / sqrtf(warp_sum(sum) / (float)a.head_dim + a.eps);
    for (int d = lane; d < a.head_dim; d += 32) x[d] = x[d] * inverse * w[d];
}

/* Pairs (j, j + head_dim / 2) of the heads of a turn by the row's angle; a thread a pair. */
extern "C" __global__ void __launch_bounds__(1024) k_rope(const __grid_constant__ b1i_small_args a)
{
    const int r = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    release_next();
    wait_inputs();
    if (r >= step_rows(a.step) || i >= a.heads * a.half) return;
    const int head = i / a.half, j = i % a.half;
    float *x = ptr<float>(a.a) + r * a.a_stride + head * a.head_dim + j;
    const float c = ptr<const float>(a.cos)[r * a.half + j], s = ptr<const float>(a.sin)[r * a.half + j];
    const float u = x[0], v = x[a.half];
    x[0] = u * c - v * s;
    x[a.half] = v * c + u * s;
}

/* Keys a and values b into the cache of the row's sequence; a thread a dimension (of dim_padded). */
template <int D> __device__ __forceinline__ void kv_append(const b1i_small_args &a)
{
    const int r = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    release_next();
    wait_inputs();
    if (r >= step_rows(a.step) || i >= a.heads * D) return;
    const int head = i / D, d = i % D;
    const b1i_step_row *row = &ptr<const b1i_step_params>(a.step)->row[r];
    const int position = __ldcg(&row->position);
    const uint64_t head_bytes = __ldcg(&row->head_bytes);
    __nv_bfloat16 *cache = ptr<__nv_bfloat16>(__ldcg(&row->kv) + ((int64_t)a.layer * a.heads + head) * head_bytes) +
                           (int64_t)(position / B1I_KV_TILE) * 2 * B1I_KV_TILE * D;
    const float k = d < a.head_dim ? ptr<const float>(a.a)[r * a.a_stride + head * a.head_dim + d] : 0;
    const float v = d < a.head_dim ? ptr<const float>(a.b)[r * a.b_stride + head * a.head_dim + d] : 0;
    cache[key_index(position % B1I_KV_TILE, d, D)] = __float2bfloat16_rn(k);
    cache[B1I_KV_TILE * D + value_index(position % B1I_KV_TILE, d)] = __float2bfloat16_rn(v);
}
extern "C" __global__ void __launch_bounds__(1024) k_kv_append(const __grid_constant__ b1i_small_args a)
{
    if (a.dim_padded == 64) kv_append<64>(a);
    if (a.dim_padded == 96) kv_append<96>(a);
    if (a.dim_padded == 128) kv_append<128>(a);
    if (a.dim_padded == 256) kv_append<256>(a);
}

/* a += b */
extern "C" __global__ void __launch_bounds__(1024) k_add(const __grid_constant__ b1i_small_args a)
{
    const int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    release_next();
    wait_inputs();
    if (r >= step_rows(a.step) || c >= a.cols) return;
    ptr<float>(a.a)[r * a.a_stride + c] += ptr<const float>(a.b)[r * a.b_stride + c];
}

/* out = silu(a) · b, as bf16 */
extern "C" __global__ void __launch_bounds__(1024) k_silu_mul(const __grid_constant__ b1i_small_args a)
{
    const int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    release_next();
    wait_inputs();
    if (r >= step_rows(a.step) || c >= a.cols) return;
    const float gate = ptr<const float>(a.a)[r * a.a_stride + c];
    ptr<__nv_bfloat16>(a.out)[r * a.out_stride + c] =
        __float2bfloat16_rn(gate / (1 + expf(-gate)) * ptr<const float>(a.b)[r * a.b_stride + c]);
}
