/* SPDX-License-Identifier: MIT
 *
 * Layout "tile" of args.h as kernels read it: the product of a block (16 rows × 32 columns) with B fragments, for each
 * format, and single elements.
 */
#ifndef B1I_TILE_CUH
#define B1I_TILE_CUH

#include "common.cuh"

/* The sums of 16 rows for the columns of B. add() takes one block in shared memory and the B fragments of its halves
 * (x, y and z, w); several accumulators keep the tensor cores' chains short. */
template <int FORMAT> struct tile_sums;

template <> struct tile_sums<b1i_tile_bf16> {
    float c[2][4];
    __device__ __forceinline__ void clear()
    {
        for (int i = 0; i < 4; i++) c[0][i] = c[1][i] = 0;
    }
    __device__ __forceinline__ void add(const char *block, int lane, uint4 x, int, int)
    {
        const uint4 *w = (const uint4 *)block + lane;
        const uint4 p = w[0], q = w[32];
        mma_bf16(c[0], p.x, p.y, p.z, p.w, x.x, x.y);
        mma_bf16(c[1], q.x, q.y, q.z, q.w, x.z, x.w);
    }
    __device__ __forceinline__ void total(float (&y)[4]) const
    {
        for (int i = 0; i < 4; i++) y[i] = c[0][i] + c[1][i];
    }
};

/* A half of an f16 block as the sum of two bf16 fragments: 8 + 3 bits, so exactly. */
template <> struct tile_sums<b1i_tile_f16> {
    float c[4][4];
    __device__ __forceinline__ void clear()
    {
        for (int i = 0; i < 16; i++) c[i / 4][i % 4] = 0;
    }
    __device__ __forceinline__ void half_block(float (&hi)[4], float (&lo)[4], uint4 w, uint32_t b0, uint32_t b1)
    {
        const uint32_t h[4] = {w.x, w.y, w.z, w.w};
        uint32_t a[4], r[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 f = __half22float2(*(const __half2 *)&h[i]);
            a[i] = pack_bf16(f.x, f.y);
            r[i] = pack_bf16_rest(f.x, f.y, a[i]);
        }
        mma_bf16(hi, a[0], a[1], a[2], a[3], b0, b1);
        mma_bf16(lo, r[0], r[1], r[2], r[3], b0, b1);
    }
    __device__ __forceinline__ void add(const char *block, int lane, uint4 x, int, int)
    {
        const uint4 *w = (const uint4 *)block + lane;
        half_block(c[0], c[1], w[0], x.x, x.y);
        half_block(c[2], c[3], w[32], x.z, x.w);
    }
    __device__ __forceinline__ void total(float (&y)[4]) const
    {
        for (int i = 0; i < 4; i++) y[i] = (c[0][i] + c[2][i]) + (c[1][i] + c[3][i]);
    }
};

/* f32 as the sum of three bf16 fragments: 24 bits. */
template <> struct tile_sums<b1i_tile_f32> {
    float c[3][4];
    __device__ __forceinline__ void clear()
    {
        for (int i = 0; i < 12; i++) c[i / 4][i % 4] = 0;
    }
    __device__ __forceinline__ void half_block(const float4 *w, uint32_t b0, uint32_t b1)
    {
        const float4 p = w[0], q = w[1];
        const float2 f[4] = {{p.x, p.y}, {p.z, p.w}, {q.x, q.y}, {q.z, q.w}};
        uint32_t a[3][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float x = f[i].x, y = f[i].y;
#pragma unroll
            for (int k = 0; k < 3; k++) {
                a[k][i] = pack_bf16(x, y);
                x -= bf16_low(a[k][i]);
                y -= bf16_high(a[k][i]);
            }
        }
#pragma unroll
        for (int k = 0; k < 3; k++) mma_bf16(c[k], a[k][0], a[k][1], a[k][2], a[k][3], b0, b1);
    }
    __device__ __forceinline__ void add(const char *block, int lane, uint4 x, int, int)
    {
        half_block((const float4 *)block + 2 * lane, x.x, x.y);
        half_block((const float4 *)block + 64 + 2 * lane, x.z, x.w);
    }
    __device__ __forceinline__ void total(float (&y)[4]) const
    {
        for (int i = 0; i < 4; i++) y[i] = c[0][i] + (c[1][i] + c[2][i]);
    }
};

/* int8 as bf16, exactly; the scale of a row is applied to the sums of a block (or a half), its offset to the sums of
 * the inputs, which a fragment of ones gives. */
template <> struct tile_sums<b1i_tile_i8> {
    float c[4];
    __device__ __forceinline__ void clear()
    {
        for (int i = 0; i < 4; i++) c[i] = 0;
    }
    /* Four int8 as two pairs of bf16. */
    static __device__ __forceinline__ void widen(uint32_t q, uint32_t &first, uint32_t &second)
    {
        first = pack_bf16((float)(int8_t)q, (float)(int8_t)(q >> 8));
        second = pack_bf16((float)(int8_t)(q >> 16), (float)((int32_t)q >> 24));
    }
    static __device__ __forceinline__ void product(float (&s)[4], uint32_t low, uint32_t high, uint32_t b0, uint32_t b1)
    {
        uint32_t a0, a1, a2, a3;
        widen(low, a0, a2);
        widen(high, a1, a3);
        mma_bf16(s, a0, a1, a2, a3, b0, b1);
    }
    __device__ __forceinline__ void scaled(const float (&s)[4], const float *line, int g)
    {
        const float d = line[g], e = line[g + 8];
        c[0] += d * s[0];
        c[1] += d * s[1];
        c[2] += e * s[2];
        c[3] += e * s[3];
    }
    __device__ __forceinline__ void add(const char *block, int lane, uint4 x, int scales, int offsets)
    {
        const uint4 q = ((const uint4 *)block)[lane];
        const float *line = (const float *)(block + 512);
        const int g = lane / 4;
        float s[4] = {0, 0, 0, 0};
        product(s, q.x, q.y, x.x, x.y);
        if (scales == 2) {
            scaled(s, line, g);
            line += B1I_TILE_ROWS;
            s[0] = s[1] = s[2] = s[3] = 0;
        }
        product(s, q.z, q.w, x.z, x.w);
        scaled(s, line, g);
        if (offsets) {
            const uint32_t one = 0x3f803f80u;
            float sum[4] = {0, 0, 0, 0};
            mma_bf16(sum, one, one, one, one, x.x, x.y);
            mma_bf16(sum, one, one, one, one, x.z, x.w);
            scaled(sum, line + B1I_TILE_ROWS, g);
        }
    }
    __device__ __forceinline__ void total(float (&y)[4]) const
    {
        for (int i = 0; i < 4; i++) y[i] = c[i];
    }
};

/* Element (row, col) of a matrix, one at a time: the embedding's rows. */
__device__ __forceinline__ float tile_value(const b1i_tile_matrix &m, int row, int col)
{
    const int r = row % B1I_TILE_ROWS, j = col % 32 / 16, t = col % 16 / 4, e = col % 4, lane = 4 * (r % 8) + t;
    const char *block = ptr<const char>(m.data) + (int64_t)(row / B1I_TILE_ROWS) * m.panel_stride +
                        (int64_t)(col / 32) * m.block_bytes;
    const int place = (j * 32 + lane) * 8 + (r / 8 + e / 2 * 2) * 2 + e % 2; /* of f32, f16, bf16 */
    if (m.format == b1i_tile_f32) return ((const float *)block)[place];
    if (m.format == b1i_tile_f16) return __half2float(((const __half *)block)[place]);
    if (m.format == b1i_tile_bf16) return __bfloat162float(((const __nv_bfloat16 *)block)[place]);
    const float *line = (const float *)(block + 512);
    const float q = (float)((const int8_t *)block)[lane * 16 + (j * 2 + r / 8) * 4 + e];
    const float offset = m.offsets ? line[m.scales * B1I_TILE_ROWS + r] : 0;
    return line[(m.scales == 2 ? j * B1I_TILE_ROWS : 0) + r] * q + offset;
}

#endif
