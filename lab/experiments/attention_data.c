/* SPDX-License-Identifier: MIT
 *
 * Queries, keys and values of `attention`: even over a range, of a width that makes scores vary by 2 (of the natural
 * logarithm), so that a few dozen of thousands of positions have most of the weight, as in a trained model; their
 * maximum lies far within B1I_ATTN_RANGE of 0. A layer's are its own.
 */
#include "lab/experiments/attention.h"

#include <string.h>

enum { PER_WORD = 4, LAYER_SHIFT = 44, KIND_SHIFT = 40 };

/* √3 times a standard deviation of 2 and of 1. */
static const float widths[] = {[b1i_attn_q] = 3.4641f, [b1i_attn_k] = 1.7321f, [b1i_attn_v] = 1.7321f};

/* Round to nearest, ties to even; of finite numbers. */
static uint16_t bf16_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

size_t b1i_attn_count(const b1i_attn_shape *shape, int positions, b1i_attn_data kind)
{
    return (size_t)shape->kv_heads * (size_t)(kind == b1i_attn_q ? shape->group : positions) * (size_t)shape->dim;
}

void b1i_attn_make(uint16_t *to, const b1i_attn_shape *shape, int positions, int layer, b1i_attn_data kind)
{
    const size_t count = b1i_attn_count(shape, positions, kind);
    const uint64_t from = (uint64_t)layer << LAYER_SHIFT | (uint64_t)kind << KIND_SHIFT;
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % PER_WORD == 0) word = b1i_mix64(from | i / PER_WORD);
        to[i] = bf16_of(((float)(word & 0xffff) - 32767.5f) * (widths[kind] / 32768));
        word >>= 16;
    }
}
