/* SPDX-License-Identifier: MIT
 *
 * Random weights for synthetic models: a few gigabytes a second, the same on every machine.
 *
 * Dense formats hold uniform values. Quantised ones hold random bits in every quant, and scales that differ from
 * block to block and from sub-block to sub-block, so that a kernel that takes a neighbour's scale is found out. Scales
 * come from a table of SCALES halves made once per call: spread over [1/2, 3/2] of the mean and of both signs, with
 * the root mean square that the asked standard deviation needs.
 */
#include "model/fillers.h"

#include <string.h>

#if defined(__clang__)
#define FAST
#else
#define FAST __attribute__((optimize("O3")))
#endif

enum { SCALES = 32 /* 16 pairs */, WORD = 8 };

typedef struct stream {
    uint64_t key, at;
} stream;

/* Seeds of neighbouring rows are neighbours: the key scatters them. */
static stream stream_of(uint64_t seed) { return (stream){b1i_mix64(seed), 0}; }
static inline uint64_t next(stream *s) { return b1i_mix64(s->key + s->at++); }

FAST static void fill_bytes(stream *s, uint8_t *out, size_t bytes)
{
    size_t whole = bytes / WORD;
    uint64_t first = s->key + s->at, word;
    for (size_t i = 0; i < whole; i++) {
        word = b1i_mix64(first + i);
        memcpy(out + WORD * i, &word, WORD);
    }
    word = b1i_mix64(first + whole);
    memcpy(out + WORD * whole, &word, bytes % WORD);
    s->at += whole + 1;
}

/* halves[i]: ±rms·(1/2 … 3/2) / sqrt(13 / 12), signs alternating where `both` */
static void make_scales(float rms, bool both, uint16_t halves[SCALES])
{
    const float norm = 0.96076892f; /* sqrt(12 / 13): the mean square of a uniform [1/2, 3/2] is 13/12 */
    for (int i = 0; i < SCALES; i++) {
        int pair = i / 2;
        float f = rms * norm * (0.5f + ((float)pair + 0.5f) / 16); /* 16 pairs */
        halves[i] = b1i_f32_to_f16(both && i % 2 ? -f : f);
    }
}

FAST void b1i_fill_f32(uint64_t seed, int64_t count, float scale, uint8_t *blocks)
{
    uint64_t key = b1i_mix64(seed);
    float unit = scale * 1.7320508f * 0x1p-31f; /* a uniform [−1, 1] has standard deviation 1 / sqrt 3 */
    for (int64_t i = 0; i < count; i++) {
        uint64_t word = b1i_mix64(key + (uint64_t)(i / 2));
        float f = (float)(int32_t)(uint32_t)(word >> 32 * (i % 2)) * unit;
        memcpy(blocks + 4 * i, &f, sizeof f);
    }
}

static inline uint16_t finite_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* As b1i_f32_to_f16() for what is no NaN, without a branch; beyond the range it gives the largest. */
static inline uint16_t finite_to_f16(float f)
{
    uint32_t u, half = 0x3f000000, tiny;
    memcpy(&u, &f, sizeof u);
    uint32_t sign = u >> 16 & 0x8000, size = u & 0x7fffffff;
    size = size < 0x477fe000 ? size : 0x477fe000; /* 65504 */
    float magnitude;
    memcpy(&magnitude, &size, sizeof magnitude);
    magnitude += 0.5f;
    memcpy(&tiny, &magnitude, sizeof tiny);
    uint32_t usual = (size + 0xfff + (size >> 13 & 1) - (112u << 23)) >> 13;
    return (uint16_t)(sign | (size < 0x38800000 ? tiny - half : usual));
}

/* Random 16-bit integers, turned into uniform values in their places. */
#define FILL_16(name, convert)                                                            \
    FAST void b1i_fill_##name(uint64_t seed, int64_t count, float scale, uint8_t *blocks) \
    {                                                                                     \
        stream s = stream_of(seed);                                                       \
        float unit = scale * 1.7320508f * 0x1p-15f;                                       \
        fill_bytes(&s, blocks, (size_t)count * 2);                                        \
        for (int64_t i = 0; i < count; i++) {                                             \
            int16_t v;                                                                    \
            memcpy(&v, blocks + 2 * i, sizeof v);                                         \
            uint16_t h = convert((float)v * unit);                                        \
            memcpy(blocks + 2 * i, &h, sizeof h);                                         \
        }                                                                                 \
    }

FILL_16(f16, finite_to_f16)
FILL_16(bf16, finite_to_bf16)

/* What distinguishes the formats of 32 elements: where the quants' mean lies, and their root mean square about it. */
typedef struct simple {
    int block_bytes;
    float deviation; /* of value / d */
    float middle;    /* formats with a minimum: it is −d·(middle ± 1/2); 0: no minimum */
} simple;

static void fill_simple(uint64_t seed, int64_t count, float scale, uint8_t *blocks, simple k)
{
    uint16_t d[SCALES];
    stream s = stream_of(seed);
    make_scales(scale / k.deviation, true, d);
    fill_bytes(&s, blocks, (size_t)(count / 32) * (size_t)k.block_bytes);
    for (int64_t b = 0; b < count / 32; b++) {
        uint8_t *block = blocks + b * k.block_bytes;
        uint64_t r = next(&s);
        memcpy(block, &d[r % SCALES], 2);
        if (k.middle == 0) continue;
        float part = (float)(r >> 8 & 15) / 15 - 0.5f;
        uint16_t m = b1i_f32_to_f16(-b1i_f16_to_f32(d[r % SCALES]) * (k.middle + part));
        memcpy(block + 2, &m, 2);
    }
}

/* Root mean squares of uniform quants: int8, 4 bits about 8, 4 bits about their mean, and so on. */
#define FILL_SIMPLE(name, bytes, deviation, middle)                                  \
    void b1i_fill_##name(uint64_t seed, int64_t count, float scale, uint8_t *blocks) \
    {                                                                                \
        fill_simple(seed, count, scale, blocks, (simple){bytes, deviation, middle}); \
    }
FILL_SIMPLE(q8_0, 34, 73.9f, 0)
FILL_SIMPLE(q4_0, 18, 4.64f, 0)
FILL_SIMPLE(q4_1, 20, 4.62f, 7.5f)
FILL_SIMPLE(q5_0, 22, 9.25f, 0)
FILL_SIMPLE(q5_1, 24, 9.24f, 15.5f)

/* Sub-block scales of 16 … 63 and minima near them: d·scale·q − dmin·min with dmin = d·(mean of q) has mean 0. */
static void fill_k(uint64_t seed, int64_t count, float scale, uint8_t *blocks, int block_bytes, float deviation,
                   float middle)
{
    uint16_t d[SCALES], dmin[SCALES];
    stream s = stream_of(seed);
    make_scales(scale / deviation, false, d);
    for (int i = 0; i < SCALES; i++) dmin[i] = b1i_f32_to_f16(b1i_f16_to_f32(d[i]) * middle);
    fill_bytes(&s, blocks, (size_t)(count / 256) * (size_t)block_bytes);
    for (int64_t b = 0; b < count / 256; b++) {
        uint8_t *block = blocks + b * block_bytes, *packed = block + 4;
        uint64_t r = next(&s), t = next(&s);
        int sc[8], m[8];
        for (int j = 0; j < 8; j++) {
            sc[j] = 16 + (int)((r >> 8 * j & 255) * 48 >> 8);
            m[j] = sc[j] ^ (int)(t >> 2 * j & 3);
        }
        memcpy(block, &d[t >> 32 & (SCALES - 1)], 2);
        memcpy(block + 2, &dmin[t >> 32 & (SCALES - 1)], 2);
        for (int j = 0; j < 4; j++) {
            packed[j] = (uint8_t)(sc[j] | sc[j + 4] >> 4 << 6);
            packed[j + 4] = (uint8_t)(m[j] | m[j + 4] >> 4 << 6);
            packed[j + 8] = (uint8_t)((sc[j + 4] & 15) | (m[j + 4] & 15) << 4);
        }
    }
}

void b1i_fill_q4_k(uint64_t seed, int64_t count, float scale, uint8_t *blocks)
{
    fill_k(seed, count, scale, blocks, 144, 193.3f, 7.5f);
}

void b1i_fill_q5_k(uint64_t seed, int64_t count, float scale, uint8_t *blocks)
{
    fill_k(seed, count, scale, blocks, 176, 387.3f, 15.5f);
}

/* Sub-block scales of ±(32 … 127). */
void b1i_fill_q6_k(uint64_t seed, int64_t count, float scale, uint8_t *blocks)
{
    uint16_t d[SCALES];
    stream s = stream_of(seed);
    make_scales(scale / 1555.8f, false, d);
    fill_bytes(&s, blocks, (size_t)(count / 256) * 210);
    for (int64_t b = 0; b < count / 256; b++) {
        uint8_t *block = blocks + b * 210;
        uint64_t r[2] = {next(&s), next(&s)}, t = next(&s);
        for (int j = 0; j < 16; j++) {
            int magnitude = 32 + (int)((r[j / 8] >> 8 * (j % 8) & 255) * 96 >> 8);
            block[192 + j] = (uint8_t)(int8_t)(t >> j & 1 ? -magnitude : magnitude);
        }
        memcpy(block + 208, &d[t >> 32 & (SCALES - 1)], 2);
    }
}
