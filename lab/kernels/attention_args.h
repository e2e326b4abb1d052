/* SPDX-License-Identifier: MIT
 *
 * Attention of one decode step over one layer, and what the kernels of attention.cu and their bodies on the CPU are
 * given. Query head h belongs to KV head h / group:
 *
 *   s[h][p] = q[h] · k[h / group][p] · scale        out[h] = Σ_p 2^(s[h][p] − b) v[h / group][p] / Σ_p 2^(s[h][p] − b)
 *
 * for any b; `scale` has log2 e in it, so that scores are powers of 2. Keys and values lie as a static cache has them:
 * [KV head][position][dimension], bf16.
 */
#ifndef LAB_KERNELS_ATTENTION_ARGS_H
#define LAB_KERNELS_ATTENTION_ARGS_H

#include <stdint.h>

enum {
    B1I_ATTN_WARPS = 4,         /* of a block that walks over positions */
    B1I_ATTN_TILE = 16,         /* positions that a warp takes at once */
    B1I_ATTN_GROUP_MOST = 8,    /* query heads of a KV head */
    B1I_ATTN_PARTS_MOST = 64,   /* of the context */
    B1I_ATTN_RANGE = 60,        /* powers of 2 that a part's maximum may lie from the unified one */
    B1I_ATTN_RING = 24576,      /* bytes of a warp's ring */
    B1I_ATTN_SLICE = 16,        /* dimensions of a block of the unfused values */
    B1I_ATTN_THREADS_ROW = 512, /* of a block of the unfused softmax and values */
    B1I_ATTN_MERGE_THREADS = 256
};
/* Tiles that a warp has on their way. */
#define B1I_ATTN_STAGES(dim) (B1I_ATTN_RING / (2 * B1I_ATTN_TILE * (dim)*2))

/* Each kernel and body reads and writes those that it needs; the others may be 0. */
typedef struct b1i_attn_args {
    uint64_t q;       /* bf16 [kv_heads · group][dim] */
    uint64_t k, v;    /* bf16 [kv_heads][positions][dim] */
    uint64_t out;     /* f32 [kv_heads · group][dim] */
    uint64_t scores;  /* f32 [kv_heads · group][stride]: scores, then probabilities */
    uint64_t part;    /* f32 [parts][kv_heads · group][dim]: a part's weighted values; 0: there is one part, and it
                       * writes `out` */
    uint64_t figures; /* f32 [parts][kv_heads · group][2]: what a part's weights are relative to (a power of 2), and
                       * their sum */
    int32_t positions, stride; /* stride: positions, rounded up to a tile */
    int32_t kv_heads, group, dim, parts;
    float scale;
    float unified; /* the maximum that all parts share, as a power of 2 */
} b1i_attn_args;

#endif
