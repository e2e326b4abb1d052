/* SPDX-License-Identifier: MIT
 *
 * A chain of three elementwise kernels, and the same arithmetic as one. 256 threads a block, four elements a thread:
 * one access of 16 bytes to each array, and the last thread that has any takes the one to three that are left over.
 */
#include "common.cuh"
#include "pointwise_args.h"

namespace {

struct into {
    static __device__ float of(float x) { return B1I_CHAIN_IN_SCALE * x + B1I_CHAIN_IN_OFFSET; }
};
struct squash {
    static __device__ float of(float a) { return a / (1.0f + fabsf(a)); }
};
struct out_of {
    static __device__ float of(float b) { return B1I_CHAIN_OUT_SCALE * b + B1I_CHAIN_OUT_OFFSET; }
};
struct chain {
    static __device__ float of(float x) { return out_of::of(squash::of(into::of(x))); }
};

template <class F> __device__ __forceinline__ void each(const b1i_pointwise_args &a)
{
    release_next();
    wait_inputs();
    const float *from = ptr<const float>(a.from);
    float *to = ptr<float>(a.to);
    int64_t i = ((int64_t)blockIdx.x * B1I_POINTWISE_THREADS + threadIdx.x) * B1I_POINTWISE_EACH;
    if (i + B1I_POINTWISE_EACH <= a.count) {
        float4 v = *reinterpret_cast<const float4 *>(from + i);
        v = make_float4(F::of(v.x), F::of(v.y), F::of(v.z), F::of(v.w));
        *reinterpret_cast<float4 *>(to + i) = v;
    } else {
        for (; i < a.count; i++) to[i] = F::of(from[i]);
    }
}

} // namespace

/* Each moves 8 bytes an element: 24 the three together, 8 the fused one. */
extern "C" __global__ void __launch_bounds__(B1I_POINTWISE_THREADS)
    k_pointwise_in(const __grid_constant__ b1i_pointwise_args a)
{
    each<into>(a);
}

extern "C" __global__ void __launch_bounds__(B1I_POINTWISE_THREADS)
    k_pointwise_squash(const __grid_constant__ b1i_pointwise_args a)
{
    each<squash>(a);
}

extern "C" __global__ void __launch_bounds__(B1I_POINTWISE_THREADS)
    k_pointwise_out(const __grid_constant__ b1i_pointwise_args a)
{
    each<out_of>(a);
}

extern "C" __global__ void __launch_bounds__(B1I_POINTWISE_THREADS)
    k_pointwise_fused(const __grid_constant__ b1i_pointwise_args a)
{
    each<chain>(a);
}
