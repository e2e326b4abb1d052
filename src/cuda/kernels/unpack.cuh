/* SPDX-License-Identifier: MIT
 *
 * Weights of the tile layout (args.h) as numbers: four columns of one row, for lookups, and what a lane of a warp owns
 * of a block, for unpacking. Both give exactly the value of the file's format in f32.
 */
#ifndef B1I_UNPACK_CUH
#define B1I_UNPACK_CUH

#include "common.cuh"

__device__ __forceinline__ float4 pairs_f32(float2 a, float2 b) { return make_float4(a.x, a.y, b.x, b.y); }
__device__ __forceinline__ float2 pair_bf16(uint32_t u) { return make_float2(bf16_low(u), bf16_high(u)); }
__device__ __forceinline__ float2 pair_f16(uint32_t u) { return __half22float2(*reinterpret_cast<const __half2 *>(&u)); }
/* Four signed bytes as scale · q + offset. */
__device__ __forceinline__ float4 four_i8(uint32_t q, float scale, float offset)
{
    return make_float4(fmaf((float)(int8_t)q, scale, offset), fmaf((float)(int8_t)(q >> 8), scale, offset),
                       fmaf((float)(int8_t)(q >> 16), scale, offset), fmaf((float)(int8_t)(q >> 24), scale, offset));
}

/* Nibbles 0, 4, 2 and 6: the columns of row g in a dword of i4; shifted by four, those of row g + 8. */
__device__ __forceinline__ float4 four_i4(uint32_t q, int less, float scale, float offset)
{
    return make_float4(fmaf((float)((int)(q & 15) - less), scale, offset),
                       fmaf((float)((int)(q >> 16 & 15) - less), scale, offset),
                       fmaf((float)((int)(q >> 8 & 15) - less), scale, offset),
                       fmaf((float)((int)(q >> 24 & 15) - less), scale, offset));
}
/* Scale and offset of a row of a block of i4. */
__device__ __forceinline__ float2 line_i4(const char *block, int row, int offsets)
{
    const float *lines = (const float *)(block + 256);
    if (offsets) return make_float2(lines[row], lines[16 + row]);
    return make_float2(__half2float(((const __half *)lines)[row]), 0);
}

/* Columns 4c … 4c + 3 (c < 8) of row `row` (< 16) of a block. */
__device__ __forceinline__ float4 tile_row4(const b1i_tile_matrix &m, const char *block, int row, int c)
{
    const int j = c / 4, lane = row % 8 * 4 + c % 4, half = row / 8;
    if (m.format == b1i_tile_f32) {
        const float2 *a = (const float2 *)(block + j * 1024 + lane * 32);
        return pairs_f32(a[half], a[2 + half]);
    }
    if (m.format == b1i_tile_i8) {
        const float *lines = (const float *)(block + 512);
        uint32_t q = *(const uint32_t *)(block + lane * 16 + (2 * j + half) * 4);
        return four_i8(q, lines[(m.scales == 2 ? j : 0) * 16 + row], m.offsets ? lines[m.scales * 16 + row] : 0);
    }
    if (m.format == b1i_tile_i4) {
        const uint32_t q = *(const uint32_t *)(block + lane * 8 + j * 4);
        const float2 line = line_i4(block, row, m.offsets);
        return four_i4(q >> 4 * half, m.offsets ? 0 : 8, line.x, line.y);
    }
    const uint32_t *a = (const uint32_t *)(block + j * 512 + lane * 16);
    uint32_t u = a[half], v = a[2 + half];
    return m.format == b1i_tile_bf16 ? pairs_f32(pair_bf16(u), pair_bf16(v)) : pairs_f32(pair_f16(u), pair_f16(v));
}

/* What lane 4g + t owns of a block: w[j][r] are columns 16j + 4t … + 3 of row g + 8r. Reads each byte once. */
template <int FORMAT>
__device__ __forceinline__ void tile_lane(const char *block, int lane, int scales, int offsets, float4 (&w)[2][2])
{
    const int g = lane / 4;
    if (FORMAT == b1i_tile_i8) {
        const float *lines = (const float *)(block + 512);
        const uint4 q = __ldcs((const uint4 *)(block + lane * 16));
        for (int r = 0; r < 2; r++) {
            float s0 = lines[g + 8 * r], s1 = scales == 2 ? lines[16 + g + 8 * r] : s0,
                  o = offsets ? lines[scales * 16 + g + 8 * r] : 0;
            w[0][r] = four_i8(r ? q.y : q.x, s0, o);
            w[1][r] = four_i8(r ? q.w : q.z, s1, o);
        }
    } else if (FORMAT == b1i_tile_i4) {
        const uint2 q = __ldcs((const uint2 *)(block + lane * 8));
        for (int r = 0; r < 2; r++) {
            const float2 line = line_i4(block, g + 8 * r, offsets);
            w[0][r] = four_i4(q.x >> 4 * r, offsets ? 0 : 8, line.x, line.y);
            w[1][r] = four_i4(q.y >> 4 * r, offsets ? 0 : 8, line.x, line.y);
        }
    } else if (FORMAT == b1i_tile_f32) {
        for (int j = 0; j < 2; j++) {
            const float4 *a = (const float4 *)(block + j * 1024 + lane * 32);
            const float4 u = __ldcs(a), v = __ldcs(a + 1); /* a0 a1, a2 a3 */
            w[j][0] = make_float4(u.x, u.y, v.x, v.y);
            w[j][1] = make_float4(u.z, u.w, v.z, v.w);
        }
    } else {
        for (int j = 0; j < 2; j++) {
            const uint4 a = __ldcs((const uint4 *)(block + j * 512 + lane * 16));
            if (FORMAT == b1i_tile_bf16) {
                w[j][0] = pairs_f32(pair_bf16(a.x), pair_bf16(a.z));
                w[j][1] = pairs_f32(pair_bf16(a.y), pair_bf16(a.w));
            } else {
                w[j][0] = pairs_f32(pair_f16(a.x), pair_f16(a.z));
                w[j][1] = pairs_f32(pair_f16(a.y), pair_f16(a.w));
            }
        }
    }
}

#endif
