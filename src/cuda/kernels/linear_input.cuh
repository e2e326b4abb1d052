/* SPDX-License-Identifier: MIT
 *
 * Inputs of the linear kernels: from f32 that is normalised, or from bf16, to B fragments of bf16, or of f16 times a
 * power of two (tile.cuh says for which formats and why; F16 here).
 *
 * One row is staged in shared memory by the block, several are read and converted as they are needed. Both look at all
 * of a row first, at its sum of squares for the norm and at its largest magnitude for the power of two. By the threads
 * that multiply, all of them.
 */
#ifndef B1I_LINEAR_INPUT_CUH
#define B1I_LINEAR_INPUT_CUH

#include "tile.cuh"

namespace {

constexpr int READERS = WARPS * 32; /* WARPS is of the file that includes this one */
constexpr int KEPT = 4; /* times 16 bytes of an input that a thread keeps between its two passes */

/* A barrier of the threads that multiply. */
__device__ __forceinline__ void sync_readers() { asm volatile("bar.sync 1, %0;" ::"n"(READERS) : "memory"); }

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
/* Of pairs of bf16, the low halves' and the high halves' apart; a NaN is the largest. */
__device__ __forceinline__ uint32_t larger_bf16(uint32_t most, float pair)
{
    asm("{\n.reg .b32 magnitudes;\nabs.bf16x2 magnitudes, %1;\nmax.NaN.bf16x2 %0, %0, magnitudes;\n}"
        : "+r"(most)
        : "r"(__float_as_uint(pair)));
    return most;
}
__device__ __forceinline__ uint32_t larger_bf16(uint32_t most, float4 f)
{
    return larger_bf16(larger_bf16(larger_bf16(larger_bf16(most, f.x), f.y), f.z), f.w);
}
__device__ __forceinline__ uint32_t bits_of_bf16(uint32_t most) { return max(most << 16, most & 0xffff0000u); }
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
    if (F16) put_most(__float_as_uint(top), most);
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
        uint32_t top = 0;
#pragma unroll
        for (int k = 0; k < KEPT; k++) top = larger_bf16(top, h.x[k]);
#pragma unroll 4
        for (int i = threadIdx.x + KEPT * READERS; i < eights; i += READERS) top = larger_bf16(top, __ldcg(x + i));
        put_most(bits_of_bf16(top), most);
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
        const uint32_t bits = F16 ? __reduce_max_sync(B1I_FULL, __float_as_uint(top)) : 0;
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
        uint32_t top = 0;
        const float4 *x = ptr<const float4>(a.x + (uint64_t)r * a.x_stride * sizeof(uint16_t));
#pragma unroll 8
        for (int i = lane; r < n && i < a.blocks * 4; i += 32) top = larger_bf16(top, x[i]);
        const uint32_t bits = __reduce_max_sync(B1I_FULL, bits_of_bf16(top));
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

} // namespace

#endif
