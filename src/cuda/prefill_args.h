/* SPDX-License-Identifier: MIT
 *
 * What the host and the kernels of prefill share: the structs that these kernels take. Layouts are those of args.h.
 * Rows are the tokens of a pass, `position` is that of the first; strides are in elements.
 */
#ifndef B1I_CUDA_PREFILL_ARGS_H
#define B1I_CUDA_PREFILL_ARGS_H

#include "cuda/args.h"

enum {
    B1I_PREFILL_TILE = 16,     /* rows of a query tile: one warp's */
    B1I_PREFILL_WARPS = 8,     /* query tiles of a block; of 256 dimensions half as many */
    B1I_PREFILL_SPLIT = 256,   /* most blocks of an attention launch that is split over the context */
    B1I_PREFILL_SPLIT_MIN = 16 /* fewest blocks of the KV cache that a part is worth */
};

/* ---- k_prefill_begin: grid rows ---- */
typedef struct b1i_prefill_begin_args {
    uint64_t tokens; /* int32 [rows] */
    b1i_tile_matrix embedding;
    uint64_t x; /* f32 [rows][x_stride] */
    int64_t x_stride;
    uint64_t inverse;  /* f32 [half] */
    uint64_t cos, sin; /* f32 [rows][half] */
    int32_t half, position;
    float rope_factor;
} b1i_prefill_begin_args;

/* ---- k_unpack_<format>: panels of a tile matrix to plain rows of bf16 ---- */
typedef struct b1i_unpack_args {
    uint64_t from, panel_stride; /* of the first panel */
    uint64_t high, low;          /* bf16 [16 · panels][32 · blocks]; low is not written where bf16 is exact */
    int32_t panels, blocks, block_bytes, scales, offsets;
} b1i_unpack_args;

/* ---- k_prefill_rmsnorm: grid rows; f32 → bf16 ---- */
typedef struct b1i_prefill_norm_args {
    uint64_t x, weight, out;
    int64_t x_stride, out_stride;
    int32_t cols;
    float eps;
} b1i_prefill_norm_args;

/* ---- k_prefill_heads: a warp a head; grid (⌈(heads + 2 · kv_heads) / 4⌉, rows) ---- */
typedef struct b1i_prefill_heads_args {
    uint64_t q, k, v; /* f32 [rows][stride] */
    int64_t q_stride, k_stride, v_stride;
    uint64_t q_bias, k_bias, v_bias; /* f32 or 0 */
    uint64_t q_norm, k_norm;         /* f32 [head_dim] or 0 */
    uint64_t cos, sin;               /* f32 [rows][head_dim / 2] */
    uint64_t kv, head_bytes;         /* of the layer; of one KV head */
    uint64_t q_out;                  /* bf16 [rows][heads][dim], zeros past head_dim: q · scale · log2 e */
    int32_t heads, kv_heads, head_dim, dim, position;
    float scale, eps; /* 1 / √head_dim */
} b1i_prefill_heads_args;

/* ---- k_prefill_attention_<D>: grid (⌈⌈rows / 16⌉ · group / warps⌉, KV heads, splits); k_prefill_merge: grid (⌈rows /
 * 16⌉ · group, KV heads) ---- */
typedef struct b1i_prefill_attention_args {
    uint64_t q;              /* bf16 [rows][group · kv_heads][dim] as k_prefill_heads leaves it */
    uint64_t kv, head_bytes; /* of the layer; of one KV head */
    uint64_t out;            /* bf16 [rows][out_stride] */
    int64_t out_stride;
    uint64_t part; /* f32 [KV heads][grid.x][splits][warps][16][dim + 2]: weighted values, maximum (base 2), sum */
    int32_t rows, position, group, kv_heads, head_dim, dim, window, splits, warps, grid_x;
} b1i_prefill_attention_args;

/* ---- k_prefill_silu_mul: grid (⌈cols / 1024⌉, rows); k_prefill_bias: the same, x += bias ---- */
typedef struct b1i_prefill_cols_args {
    uint64_t a, b, out; /* gate, up → bf16; or x and the bias */
    int64_t a_stride, b_stride, out_stride;
    int32_t cols;
} b1i_prefill_cols_args;

#endif
