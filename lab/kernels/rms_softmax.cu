/* SPDX-License-Identifier: MIT
 *
 * An RMS-scaled softmax over rows: five kernels, one, and one whose blocks stay. A block has a row at a time; any
 * number of threads that is a multiple of 32, at most 1024. Widths are any, so rows begin at no boundary but a float's:
 * every access is of 4 bytes, neighbours by neighbouring threads.
 *
 * k_softmax_fused and k_softmax_persistent keep the row in shared memory, `width` floats of it: the row is read once
 * and written once, 8 bytes an element, where the five kernels move 28 (4, 8, 4, 4, 8) and the rows' figures.
 */
#include "common.cuh"
#include "rms_softmax_args.h"

namespace {

struct add {
    static __device__ float of(float a, float b) { return a + b; }
};
struct larger {
    static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

/* x of all threads, combined; every thread gets it. `none` changes nothing. */
template <class F> __device__ float block_all(float x, float none)
{
    __shared__ float warps[32];
    for (int o = 16; o; o >>= 1) x = F::of(x, __shfl_xor_sync(0xffffffffu, x, o));
    __syncthreads(); /* orders the reads of the call before this one ahead of these writes */
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads(); /* orders the writes before everybody's reads */
    x = threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : none;
    for (int o = 16; o; o >>= 1) x = F::of(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

__device__ __forceinline__ float scale_of(float square_mean) { return 1.0f / sqrtf(square_mean + B1I_SOFTMAX_EPSILON); }

__device__ __forceinline__ int64_t row_at(const b1i_softmax_args &a) { return (int64_t)blockIdx.x * a.width; }

/* One row by one block; `kept` [width]. */
__device__ void whole_row(const b1i_softmax_args &a, int row, float *kept)
{
    const float *x = ptr<const float>(a.x) + (int64_t)row * a.width;
    float *y = ptr<float>(a.y) + (int64_t)row * a.width;
    float squares = 0, most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) {
        kept[i] = x[i]; /* here and below a thread reads of `kept` what it wrote itself: no barrier is needed */
        squares += kept[i] * kept[i];
    }
    const float scale = scale_of(block_all<add>(squares, 0) / a.width);
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) {
        kept[i] *= scale;
        most = fmaxf(most, kept[i]);
    }
    most = block_all<larger>(most, -INFINITY);
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) {
        kept[i] = expf(kept[i] - most);
        sum += kept[i];
    }
    sum = block_all<add>(sum, 0);
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) y[i] = kept[i] / sum;
}

} // namespace

/* ---- separate: a block a row ---- */

extern "C" __global__ void __launch_bounds__(1024) k_softmax_square_mean(const __grid_constant__ b1i_softmax_args a)
{
    release_next();
    wait_inputs();
    const float *x = ptr<const float>(a.x) + row_at(a);
    float squares = 0;
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) squares += x[i] * x[i];
    squares = block_all<add>(squares, 0);
    if (threadIdx.x == 0) ptr<float>(a.square_mean)[blockIdx.x] = squares / a.width;
}

extern "C" __global__ void __launch_bounds__(1024) k_softmax_scale(const __grid_constant__ b1i_softmax_args a)
{
    release_next();
    wait_inputs();
    const float *x = ptr<const float>(a.x) + row_at(a);
    float *z = ptr<float>(a.z) + row_at(a);
    const float scale = scale_of(ptr<const float>(a.square_mean)[blockIdx.x]);
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) z[i] = x[i] * scale;
}

extern "C" __global__ void __launch_bounds__(1024) k_softmax_max(const __grid_constant__ b1i_softmax_args a)
{
    release_next();
    wait_inputs();
    const float *z = ptr<const float>(a.z) + row_at(a);
    float most = -INFINITY;
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) most = fmaxf(most, z[i]);
    most = block_all<larger>(most, -INFINITY);
    if (threadIdx.x == 0) ptr<float>(a.most)[blockIdx.x] = most;
}

extern "C" __global__ void __launch_bounds__(1024) k_softmax_exp_sum(const __grid_constant__ b1i_softmax_args a)
{
    release_next();
    wait_inputs();
    const float *z = ptr<const float>(a.z) + row_at(a);
    const float most = ptr<const float>(a.most)[blockIdx.x];
    float sum = 0;
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) sum += expf(z[i] - most);
    sum = block_all<add>(sum, 0);
    if (threadIdx.x == 0) ptr<float>(a.sum)[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(1024) k_softmax_normalise(const __grid_constant__ b1i_softmax_args a)
{
    release_next();
    wait_inputs();
    const float *z = ptr<const float>(a.z) + row_at(a);
    float *y = ptr<float>(a.y) + row_at(a);
    const float most = ptr<const float>(a.most)[blockIdx.x], sum = ptr<const float>(a.sum)[blockIdx.x];
    for (int i = threadIdx.x; i < a.width; i += blockDim.x) y[i] = expf(z[i] - most) / sum;
}

/* ---- one kernel ---- */

/* A block a row: `rows` blocks. */
extern "C" __global__ void __launch_bounds__(1024) k_softmax_fused(const __grid_constant__ b1i_softmax_args a)
{
    extern __shared__ float kept[];
    whole_row(a, blockIdx.x, kept);
}

/* As many blocks as are resident at once; each takes rows until there is none. */
extern "C" __global__ void __launch_bounds__(1024) k_softmax_persistent(const __grid_constant__ b1i_softmax_args a)
{
    extern __shared__ float kept[];
    __shared__ uint32_t taken;
    while (true) {
        if (threadIdx.x == 0) taken = atomicAdd(ptr<uint32_t>(a.next), 1u);
        __syncthreads(); /* orders the number before everybody's reads */
        const uint32_t row = taken;
        if (row >= (uint32_t)a.rows) return;
        whole_row(a, (int)row, kept); /* its barriers order everybody's read of the number before the next one */
    }
}
