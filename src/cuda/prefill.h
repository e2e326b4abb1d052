/* SPDX-License-Identifier: MIT
 *
 * The parts of a prefill pass that are not GEMMs, one function each, for prefill.c and for tests. All go to the gpu's
 * stream and do not wait.
 */
#ifndef B1I_CUDA_PREFILL_H
#define B1I_CUDA_PREFILL_H

#include "cuda/cuda.h"
#include "cuda/prefill_args.h"

typedef struct b1i_prefill_kernels {
    b1i_gpu *gpu;
    b1i_gpu_kernel *begin, *unpack[b1i_tile_count], *norm, *heads, *attention, *merge, *silu, *bias;
    int dim; /* of the KV cache: which attention kernel */
    int warps;
    unsigned attention_shared;
} b1i_prefill_kernels;

/* The kernels for heads of `dim` (64, 96, 128 or 256) dimensions in the cache. */
b1_status b1i_prefill_kernels_get(b1i_gpu *gpu, int dim, b1i_prefill_kernels *out, b1_error *err);

b1_status b1i_prefill_begin(const b1i_prefill_kernels *k, const b1i_prefill_begin_args *a, int rows, b1_error *err);
b1_status b1i_prefill_norm(const b1i_prefill_kernels *k, const b1i_prefill_norm_args *a, int rows, b1_error *err);
b1_status b1i_prefill_heads(const b1i_prefill_kernels *k, const b1i_prefill_heads_args *a, int rows, b1_error *err);
b1_status b1i_prefill_silu(const b1i_prefill_kernels *k, const b1i_prefill_cols_args *a, int rows, b1_error *err);
b1_status b1i_prefill_bias(const b1i_prefill_kernels *k, const b1i_prefill_cols_args *a, int rows, b1_error *err);
/* Panels [first, first + count) of `m` as plain rows [16 · count][32 · blocks]; `low` is for formats that bf16 does not
 * hold exactly (b1i_prefill_exact). */
b1_status b1i_prefill_unpack(const b1i_prefill_kernels *k, const b1i_tile_matrix *m, int first, int count,
                             b1i_gpu_ptr high, b1i_gpu_ptr low, b1_error *err);
/* Sets dim, splits, warps and grid_x, which depend on the other fields alone; out's columns past the heads are left. */
b1_status b1i_prefill_attention(const b1i_prefill_kernels *k, b1i_prefill_attention_args *a, b1_error *err);
/* Bytes of b1i_prefill_attention_args.part. */
size_t b1i_prefill_part_bytes(int dim);
static inline bool b1i_prefill_exact(const b1i_tile_matrix *m) { return m->format == b1i_tile_bf16; }

#endif
