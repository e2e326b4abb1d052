/* SPDX-License-Identifier: MIT
 *
 * Layout "tile" of args.h as kernels read it: the product of a block (16 rows × 32 columns) with B fragments, for each
 * format, and single elements.
 */
#ifndef B1I_TILE_CUH
#define B1I_TILE_CUH

#include "common.cuh"

/* ---- products in f16 ----
 * Formats f16, i8 and i4 are multiplied as f16: the first needs no conversion, the others two instructions for two
 * weights and none that runs at a quarter of the rate, as those from integers to floats do. The input is rounded to bf16 as for the
 * others, then taken times a power of two, one for each row of the step, that puts the row's largest magnitude at 2^14
 * to 2^15. So it is f16 exactly where it is at least 2^-31 of the largest, and 2^-39 of that off at most where it is
 * less. Infinities and NaNs stay what they are. The sums are multiplied by the inverse. */
template <int FORMAT> constexpr bool in_f16 =
    FORMAT == b1i_tile_f16 || FORMAT == b1i_tile_i8 || FORMAT == b1i_tile_i4;

/* c += A(16 × 16, f16) · B(16 × 8, f16) */
__device__ __forceinline__ void mma_f16(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                        uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* Two floats as f16, round to nearest even: `low` in the low half. */
__device__ __forceinline__ uint32_t pack_f16(float low, float high)
{
    uint32_t d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
/* a − b of two pairs of f16. */
__device__ __forceinline__ uint32_t sub_f16(uint32_t a, uint32_t b)
{
    uint32_t d;
    asm("sub.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

/* a · b + c of pairs of f16, rounded once. */
__device__ __forceinline__ uint32_t fma_f16(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
/* a & mask | 0x6400 twice, as one instruction. */
__device__ __forceinline__ uint32_t below_1024(uint32_t a, uint32_t mask)
{
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(0x64006400u));
    return d;
}

struct power {
    float by, back; /* two normal numbers, each the other's inverse */
};
/* Of a row whose largest magnitude is that of the float `bits`. Exponents below 2^-112 are taken as that. */
__device__ __forceinline__ power power_of(uint32_t bits)
{
    const int by = min(127 + 127 + 14 - (int)(bits >> 23 & 255), 253);
    return power{__uint_as_float((uint32_t)by << 23), __uint_as_float((uint32_t)(254 - by) << 23)};
}
/* Two bf16 times a power of two as f16. */
__device__ __forceinline__ uint32_t f16_of_bf16(uint32_t pair, float by)
{
    return pack_f16(bf16_low(pair) * by, bf16_high(pair) * by);
}

/* ---- the product of a block ----
 * The sums of 16 rows for the columns of B. add() takes one block in shared memory and the B fragments of its halves
 * (x, y and z, w), f16 where in_f16 says so; several accumulators keep the tensor cores' chains short. `together`, 2 to
 * 4: blocks that a warp does at once; `bytes`: of a block. SCALES and OFFSETS are those of i8, OFFSETS that of i4. */
template <int FORMAT, int SCALES = 0, int OFFSETS = 0> struct tile_sums;

/* bf16 and f16: fragments as they lie. */
template <bool F16> struct fragment_sums {
    static constexpr int bytes = 1024, together = 2;
    float c[2][4];
    __device__ __forceinline__ void clear()
    {
        for (int i = 0; i < 4; i++) c[0][i] = c[1][i] = 0;
    }
    static __device__ __forceinline__ void product(float (&s)[4], uint4 w, uint32_t b0, uint32_t b1)
    {
        if (F16)
            mma_f16(s, w.x, w.y, w.z, w.w, b0, b1);
        else
            mma_bf16(s, w.x, w.y, w.z, w.w, b0, b1);
    }
    __device__ __forceinline__ void add(const char *block, int lane, uint4 x)
    {
        const uint4 *w = (const uint4 *)block + lane;
        const uint4 p = w[0], q = w[32];
        product(c[0], p, x.x, x.y);
        product(c[1], q, x.z, x.w);
    }
    __device__ __forceinline__ void total(float (&y)[4]) const
    {
        for (int i = 0; i < 4; i++) y[i] = c[0][i] + c[1][i];
    }
};
template <> struct tile_sums<b1i_tile_bf16> : fragment_sums<false> {};
template <> struct tile_sums<b1i_tile_f16> : fragment_sums<true> {};

/* f32 as the sum of three bf16 fragments: 24 bits. */
template <> struct tile_sums<b1i_tile_f32> {
    static constexpr int bytes = 2048, together = 2;
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
    __device__ __forceinline__ void add(const char *block, int lane, uint4 x)
    {
        half_block((const float4 *)block + 2 * lane, x.x, x.y);
        half_block((const float4 *)block + 64 + 2 * lane, x.z, x.w);
    }
    __device__ __forceinline__ void total(float (&y)[4]) const
    {
        for (int i = 0; i < 4; i++) y[i] = c[0][i] + (c[1][i] + c[2][i]);
    }
};

/* Integers: the scale of a row is applied to the sums of a block (or a half), its offset to the sums of the inputs,
 * which a fragment of ones gives. */
struct scaled_sums {
    float c[4];
    __device__ __forceinline__ void clear()
    {
        for (int i = 0; i < 4; i++) c[i] = 0;
    }
    __device__ __forceinline__ void scaled(const float (&s)[4], float d, float e)
    {
        c[0] += d * s[0];
        c[1] += d * s[1];
        c[2] += e * s[2];
        c[3] += e * s[3];
    }
    __device__ __forceinline__ void scaled(const float (&s)[4], const float *line, int g)
    {
        scaled(s, line[g], line[g + 8]);
    }
    __device__ __forceinline__ void shifted(uint4 x, const float *line, int g)
    {
        const uint32_t one = 0x3c003c00u;
        float sum[4] = {0, 0, 0, 0};
        mma_f16(sum, one, one, one, one, x.x, x.y);
        mma_f16(sum, one, one, one, one, x.z, x.w);
        scaled(sum, line, g);
    }
    __device__ __forceinline__ void total(float (&y)[4]) const
    {
        for (int i = 0; i < 4; i++) y[i] = c[i];
    }
};

template <int SCALES, int OFFSETS> struct tile_sums<b1i_tile_i8, SCALES, OFFSETS> : scaled_sums {
    static constexpr int bytes = 512 + (SCALES + OFFSETS) * 64, together = 2;
    /* Two of four bytes q + 128 as f16: below a byte 0x64, such a byte is the f16 1024 + 128 + q. */
    static __device__ __forceinline__ uint32_t widen(uint32_t bytes, int select)
    {
        return sub_f16(__byte_perm(bytes, 0x64646464u, select), 0x64806480u);
    }
    static __device__ __forceinline__ void product(float (&s)[4], uint32_t low, uint32_t high, uint32_t b0, uint32_t b1)
    {
        low ^= 0x80808080u;
        high ^= 0x80808080u;
        mma_f16(s, widen(low, 0x4140), widen(high, 0x4140), widen(low, 0x4342), widen(high, 0x4342), b0, b1);
    }
    __device__ __forceinline__ void add(const char *block, int lane, uint4 x)
    {
        const uint4 q = ((const uint4 *)block)[lane];
        const float *line = (const float *)(block + 512);
        const int g = lane / 4;
        float s[4] = {0, 0, 0, 0};
        product(s, q.x, q.y, x.x, x.y);
        if (SCALES == 2) {
            scaled(s, line, g);
            s[0] = s[1] = s[2] = s[3] = 0;
        }
        product(s, q.z, q.w, x.z, x.w);
        scaled(s, line + (SCALES - 1) * B1I_TILE_ROWS, g);
        if (OFFSETS) shifted(x, line + SCALES * B1I_TILE_ROWS, g);
    }
};

template <int SCALES, int OFFSETS> struct tile_sums<b1i_tile_i4, SCALES, OFFSETS> : scaled_sums {
    static constexpr int bytes = 256 + (OFFSETS ? 128 : 32), together = 4;
    /* Two nibbles as f16: below 0x64, q is the f16 1024 + q, and four bits higher 1024 + 16 q. */
    static __device__ __forceinline__ uint32_t low(uint32_t q)
    {
        return sub_f16(below_1024(q, 0x000f000fu), OFFSETS ? 0x64006400u : 0x64086408u);
    }
    static __device__ __forceinline__ uint32_t high(uint32_t q)
    {
        return fma_f16(below_1024(q, 0x00f000f0u), 0x2c002c00u, OFFSETS ? 0xd400d400u : 0xd480d480u);
    }
    static __device__ __forceinline__ void product(float (&s)[4], uint32_t q, uint32_t b0, uint32_t b1)
    {
        mma_f16(s, low(q), high(q), low(q >> 8), high(q >> 8), b0, b1);
    }
    __device__ __forceinline__ void add(const char *block, int lane, uint4 x)
    {
        const uint2 q = ((const uint2 *)block)[lane];
        const float *line = (const float *)(block + 256);
        const int g = lane / 4;
        float s[4] = {0, 0, 0, 0};
        product(s, q.x, x.x, x.y);
        product(s, q.y, x.z, x.w);
        if (OFFSETS) {
            scaled(s, line, g);
            shifted(x, line + B1I_TILE_ROWS, g);
        } else {
            const __half *half = (const __half *)line;
            scaled(s, __half2float(half[g]), __half2float(half[g + 8]));
        }
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
    if (m.format == b1i_tile_i4) {
        const uint32_t dword = ((const uint32_t *)block)[lane * 2 + j];
        const float *line = (const float *)(block + 256);
        const int q = (int)(dword >> 4 * (e / 2 * 2 + r / 8 + e % 2 * 4) & 15);
        if (m.offsets) return line[r] * (float)q + line[B1I_TILE_ROWS + r];
        return __half2float(((const __half *)line)[r]) * (float)(q - 8);
    }
    const float *line = (const float *)(block + 512);
    const float q = (float)((const int8_t *)block)[lane * 16 + (j * 2 + r / 8) * 4 + e];
    const float offset = m.offsets ? line[m.scales * B1I_TILE_ROWS + r] : 0;
    return line[(m.scales == 2 ? j * B1I_TILE_ROWS : 0) + r] * q + offset;
}

#endif
