/* SPDX-License-Identifier: MIT
 *
 * Weight formats: conversions of 16-bit floats, and one dequantiser per format, written plainly from the format's
 * definition. They are the oracle of every kernel and packer; speed is not asked of them.
 *
 * All products of a scale and a quant are exact in f32 (11 bits of an f16 scale, at most 7 of a sub-block's scale, at
 * most 5 of a quant's magnitude), so a value is rounded at most once, in the sum with its minimum, and no order of
 * operations and no fused multiply-add changes it.
 *
 * Blocks may lie at any address: fields are read with memcpy. Files are little-endian, and so are our machines.
 */
#include "model/format.h"
#include "model/fillers.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "model files are little-endian");

static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float b1i_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f; /* subnormal: exact */
    return float_of(sign | bits_of(tiny));
}

uint16_t b1i_f32_to_f16(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x1ff)); /* a quiet NaN */
    if (u >= 0x477ff000) return (uint16_t)(sign | 0x7c00);                    /* 65520 and more round to infinity */
    if (u <
        0x38800000) /* below 2^-14: in [1/2, 1) f32 has the step of an f16 subnormal, so the sum rounds as it must */
        return (uint16_t)(sign | (bits_of(float_of(u) + 0.5f) - bits_of(0.5f)));
    u += 0xfff + (u >> 13 & 1);
    return (uint16_t)(sign | (u - (112u << 23)) >> 13);
}

uint16_t b1i_f32_to_bf16(float f)
{
    uint32_t u = bits_of(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40); /* a quiet NaN */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return b1i_f16_to_f32(h);
}

static void dequantise_f32(const uint8_t *b, int64_t count, float *y) { memcpy(y, b, (size_t)count * sizeof *y); }

static void dequantise_f16(const uint8_t *b, int64_t count, float *y)
{
    for (int64_t i = 0; i < count; i++) y[i] = half_at(b + 2 * i);
}

static void dequantise_bf16(const uint8_t *b, int64_t count, float *y)
{
    uint16_t h;
    for (int64_t i = 0; i < count; i++) {
        memcpy(&h, b + 2 * i, sizeof h);
        y[i] = b1i_bf16_to_f32(h);
    }
}

/* d f16, q int8[32]: d·q */
static void dequantise_q8_0(const uint8_t *b, int64_t count, float *y)
{
    for (; count > 0; count -= 32, b += 34, y += 32) {
        float d = half_at(b);
        for (int i = 0; i < 32; i++) y[i] = d * (float)(int8_t)b[2 + i];
    }
}

/* d f16, 16 bytes of nibbles, the low ones first: d·(q − 8) */
static void dequantise_q4_0(const uint8_t *b, int64_t count, float *y)
{
    for (; count > 0; count -= 32, b += 18, y += 32) {
        float d = half_at(b);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)((b[2 + i] & 15) - 8);
            y[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
        }
    }
}

/* d f16, m f16, nibbles: d·q + m */
static void dequantise_q4_1(const uint8_t *b, int64_t count, float *y)
{
    for (; count > 0; count -= 32, b += 20, y += 32) {
        float d = half_at(b), m = half_at(b + 2);
        for (int i = 0; i < 16; i++) {
            y[i] = d * (float)(b[4 + i] & 15) + m;
            y[i + 16] = d * (float)(b[4 + i] >> 4) + m;
        }
    }
}

/* Element i's five bits: the nibble, and bit i of the 32 high bits. */
static int five_bits(const uint8_t *high, const uint8_t *nibbles, int i)
{
    int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    return low | (high[i / 8] >> i % 8 & 1) << 4;
}

/* d f16, 32 high bits, nibbles: d·(q − 16) */
static void dequantise_q5_0(const uint8_t *b, int64_t count, float *y)
{
    for (; count > 0; count -= 32, b += 22, y += 32) {
        float d = half_at(b);
        for (int i = 0; i < 32; i++) y[i] = d * (float)(five_bits(b + 2, b + 6, i) - 16);
    }
}

/* d f16, m f16, 32 high bits, nibbles: d·q + m */
static void dequantise_q5_1(const uint8_t *b, int64_t count, float *y)
{
    for (; count > 0; count -= 32, b += 24, y += 32) {
        float d = half_at(b), m = half_at(b + 2);
        for (int i = 0; i < 32; i++) y[i] = d * (float)five_bits(b + 4, b + 8, i) + m;
    }
}

/* The 6-bit scale and minimum of sub-block j of 8, packed in 12 bytes: bytes 0-3 hold the low scales, 4-7 the low
 * minima, each with two bits in its top for the sub-block four further on, whose four low bits are in bytes 8-11. */
static void scale_of(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

/* d f16, dmin f16, 12 bytes of scales, 4 × 32 bytes of nibbles: each 32 bytes hold a sub-block in their low nibbles
 * and the next one in their high nibbles: d·scale·q − dmin·min */
static void dequantise_q4_k(const uint8_t *b, int64_t count, float *y)
{
    for (; count > 0; count -= 256, b += 144, y += 256) {
        float d = half_at(b), dmin = half_at(b + 2);
        for (int j = 0; j < 8; j++) {
            int scale, min;
            scale_of(b + 4, j, &scale, &min);
            const uint8_t *q = b + 16 + j / 2 * 32;
            for (int i = 0; i < 32; i++)
                y[32 * j + i] = d * (float)scale * (float)(q[i] >> 4 * (j & 1) & 15) - dmin * (float)min;
        }
    }
}

/* As q4_k, with 32 bytes of fifth bits before the nibbles: bit j of byte i belongs to element i of sub-block j. */
static void dequantise_q5_k(const uint8_t *b, int64_t count, float *y)
{
    for (; count > 0; count -= 256, b += 176, y += 256) {
        float d = half_at(b), dmin = half_at(b + 2);
        const uint8_t *high = b + 16;
        for (int j = 0; j < 8; j++) {
            int scale, min;
            scale_of(b + 4, j, &scale, &min);
            const uint8_t *q = b + 48 + j / 2 * 32;
            for (int i = 0; i < 32; i++) {
                int v = (q[i] >> 4 * (j & 1) & 15) | (high[i] >> j & 1) << 4;
                y[32 * j + i] = d * (float)scale * (float)v - dmin * (float)min;
            }
        }
    }
}

/* 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 int8 scales (one per 16 elements), d f16. Each half of 128
 * elements has 64 and 32 of these bytes; its quarter k takes nibble k / 2 of bytes 32·(k % 2) … and bit pair k:
 * d·scale·(q − 32) */
static void dequantise_q6_k(const uint8_t *b, int64_t count, float *y)
{
    for (; count > 0; count -= 256, b += 210, y += 256) {
        float d = half_at(b + 208);
        for (int e = 0; e < 256; e++) {
            int half = e / 128, quarter = e % 128 / 32, i = e % 32;
            int low = b[64 * half + 32 * (quarter % 2) + i] >> 4 * (quarter / 2) & 15;
            int high = b[128 + 32 * half + i] >> 2 * quarter & 3;
            y[e] = d * (float)(int8_t)b[192 + e / 16] * (float)((low | high << 4) - 32);
        }
    }
}

const b1i_format b1i_formats[b1i_format_count] = {
#define ROW(name, elements, bytes, gguf) {#name, elements, bytes, gguf, dequantise_##name, b1i_fill_##name},
    B1I_FORMATS(ROW)
#undef ROW
};

const b1i_format *b1i_format_by_name(const char *name)
{
    for (int i = 0; i < b1i_format_count; i++) {
        if (!strcmp(b1i_formats[i].name, name)) return &b1i_formats[i];
    }
    return NULL;
}

const b1i_format *b1i_format_by_gguf(uint32_t type)
{
    for (int i = 0; i < b1i_format_count; i++) {
        if ((uint32_t)b1i_formats[i].gguf_type == type) return &b1i_formats[i];
    }
    return NULL;
}
