/* SPDX-License-Identifier: MIT
 *
 * Weight formats: how numbers lie in a file. One table row per format: sizes, and a plain dequantiser that is the
 * oracle of every kernel. No layout of ours is known here.
 */
#ifndef B1I_FORMAT_H
#define B1I_FORMAT_H

#include "base/base.h"

/* X(name, elements of a block, bytes of a block, GGUF's type number) */
#define B1I_FORMATS(X)    \
    X(f32, 1, 4, 0)       \
    X(f16, 1, 2, 1)       \
    X(bf16, 1, 2, 30)     \
    X(q8_0, 32, 34, 8)    \
    X(q4_0, 32, 18, 2)    \
    X(q4_1, 32, 20, 3)    \
    X(q5_0, 32, 22, 6)    \
    X(q5_1, 32, 24, 7)    \
    X(q4_k, 256, 144, 12) \
    X(q5_k, 256, 176, 13) \
    X(q6_k, 256, 210, 14)

typedef enum b1i_format_id {
#define B1I_FORMAT_ENUM(name, elements, bytes, gguf) b1i_##name,
    B1I_FORMATS(B1I_FORMAT_ENUM)
#undef B1I_FORMAT_ENUM
        b1i_format_count
} b1i_format_id;

typedef struct b1i_format {
    const char *name;
    int block; /* elements of a block; a row is a whole number of blocks */
    int block_bytes;
    int gguf_type;
    /* values [count] of `count` elements (whole blocks) at `blocks`, which may be unaligned */
    void (*dequantise)(const uint8_t *blocks, int64_t count, float *values);
    /* `count` elements (whole blocks) of random weights with a standard deviation of about `scale`, from `seed` */
    void (*random)(uint64_t seed, int64_t count, float scale, uint8_t *blocks);
} b1i_format;

extern const b1i_format b1i_formats[b1i_format_count];
/* NULL where there is none. */
const b1i_format *b1i_format_by_name(const char *name);
const b1i_format *b1i_format_by_gguf(uint32_t type);

static inline uint64_t b1i_format_bytes(b1i_format_id f, uint64_t elements)
{
    return elements / (uint64_t)b1i_formats[f].block * (uint64_t)b1i_formats[f].block_bytes;
}

/* IEEE half, bfloat16 (round to nearest even; NaN stays NaN) */
float b1i_f16_to_f32(uint16_t h);
uint16_t b1i_f32_to_f16(float f);
static inline float b1i_bf16_to_f32(uint16_t h)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)h << 16};
    return v.f;
}
uint16_t b1i_f32_to_bf16(float f);

#endif
