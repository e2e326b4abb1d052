/* SPDX-License-Identifier: MIT
 *
 * Owns the launches of prefill's kernels: grids, shared memory, and how attention is split.
 */
#include "cuda/prefill.h"

#include <stdio.h>
#include <string.h>

static int up(int a, int b) { return (a + b - 1) / b; }

/* Query tiles of a block of attention, and blocks of the cache in its ring: as k_prefill_attention_<D> has them. */
static int warps_of(int dim) { return dim == 256 ? B1I_PREFILL_WARPS / 2 : B1I_PREFILL_WARPS; }
static unsigned shared_of(int dim) { return (dim == 256 ? 3U : 4U) * 128U * (unsigned)dim; }

b1_status b1i_prefill_kernels_get(b1i_gpu *gpu, int dim, b1i_prefill_kernels *k, b1_error *err)
{
    b1_status st = B1_OK;
    char attention[40];
    static const char *const unpack[b1i_tile_count] = {"k_unpack_bf16", "k_unpack_f16", "k_unpack_f32", "k_unpack_i8",
                                                       "k_unpack_i4"};
    *k = (b1i_prefill_kernels){.gpu = gpu, .dim = dim, .warps = warps_of(dim), .attention_shared = shared_of(dim)};
    if (dim != 64 && dim != 96 && dim != 128 && dim != 256)
        return b1i_fail(err, B1_UNSUPPORTED, "no prefill attention of %d dimensions a head", dim);
    (void)snprintf(attention, sizeof attention, "k_prefill_attention_%d", dim);
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_prefill_begin", 0, &k->begin, err));
    for (int f = 0; f < b1i_tile_count; f++) B1I_TRY(b1i_gpu_kernel_get(gpu, unpack[f], 0, &k->unpack[f], err));
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_prefill_rmsnorm", 0, &k->norm, err));
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_prefill_heads", 0, &k->heads, err));
    B1I_TRY(b1i_gpu_kernel_get(gpu, attention, k->attention_shared, &k->attention, err));
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_prefill_merge", 0, &k->merge, err));
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_prefill_silu_mul", 0, &k->silu, err));
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_prefill_bias", 0, &k->bias, err));
fail:
    return st;
}

typedef struct grid {
    int x, y, z, threads;
    unsigned shared;
} grid;

static b1_status launch(const b1i_prefill_kernels *k, b1i_gpu_kernel *kernel, grid g, const void *args, size_t bytes,
                        b1_error *err)
{
    b1i_gpu_launch l = {.kernel = kernel,
                        .grid = {(unsigned)g.x, (unsigned)g.y, (unsigned)g.z},
                        .threads = (unsigned)g.threads,
                        .shared_bytes = g.shared,
                        .arg_bytes = (unsigned)bytes};
    memcpy(l.args, args, bytes);
    return b1i_gpu_run(k->gpu, &l, err);
}

_Static_assert(sizeof(b1i_prefill_heads_args) <= B1I_GPU_ARGS_MAX, "the largest struct fits a launch");

b1_status b1i_prefill_begin(const b1i_prefill_kernels *k, const b1i_prefill_begin_args *a, int rows, b1_error *err)
{
    return launch(k, k->begin, (grid){rows, 1, 1, 256, 0}, a, sizeof *a, err);
}

b1_status b1i_prefill_norm(const b1i_prefill_kernels *k, const b1i_prefill_norm_args *a, int rows, b1_error *err)
{
    return launch(k, k->norm, (grid){rows, 1, 1, 256, 0}, a, sizeof *a, err);
}

b1_status b1i_prefill_heads(const b1i_prefill_kernels *k, const b1i_prefill_heads_args *a, int rows, b1_error *err)
{
    return launch(k, k->heads, (grid){up(a->heads + 2 * a->kv_heads, 4), rows, 1, 128, 0}, a, sizeof *a, err);
}

b1_status b1i_prefill_silu(const b1i_prefill_kernels *k, const b1i_prefill_cols_args *a, int rows, b1_error *err)
{
    return launch(k, k->silu, (grid){up(a->cols, 1024), rows, 1, 256, 0}, a, sizeof *a, err);
}

b1_status b1i_prefill_bias(const b1i_prefill_kernels *k, const b1i_prefill_cols_args *a, int rows, b1_error *err)
{
    return launch(k, k->bias, (grid){up(a->cols, 1024), rows, 1, 256, 0}, a, sizeof *a, err);
}

b1_status b1i_prefill_unpack(const b1i_prefill_kernels *k, const b1i_tile_matrix *m, int first, int count,
                             b1i_gpu_ptr high, b1i_gpu_ptr low, b1_error *err)
{
    const int unroll = m->format == b1i_tile_f32 ? 2 : 4; /* blocks a warp, as in unpack() */
    const b1i_unpack_args a = {.from = m->data + (uint64_t)first * m->panel_stride,
                               .panel_stride = m->panel_stride,
                               .high = high,
                               .low = low,
                               .panels = count,
                               .blocks = m->blocks,
                               .block_bytes = m->block_bytes,
                               .scales = m->scales,
                               .offsets = m->offsets};
    const int64_t warps = (int64_t)count * up(m->blocks, unroll);
    return launch(k, k->unpack[m->format], (grid){(int)((warps + 7) / 8), 1, 1, 256, 0}, &a, sizeof a, err);
}

/* As many parts as keep B1I_PREFILL_SPLIT blocks busy, none smaller than is worth it. A function of the pass alone, so
 * that results do not depend on the device. */
static int splits_of(const b1i_prefill_attention_args *a)
{
    const int blocks = a->grid_x * a->kv_heads;
    int seen = a->position + a->rows;
    if (a->window > 0 && seen > a->window + a->rows) seen = a->window + a->rows;
    int most = up(seen, B1I_KV_TILE) / B1I_PREFILL_SPLIT_MIN, splits = B1I_PREFILL_SPLIT / blocks;
    if (splits > most) splits = most;
    return splits > 1 ? splits : 1;
}

size_t b1i_prefill_part_bytes(int dim)
{
    return (size_t)B1I_PREFILL_SPLIT * (size_t)warps_of(dim) * B1I_PREFILL_TILE * ((size_t)dim + 2) * sizeof(float);
}

b1_status b1i_prefill_attention(const b1i_prefill_kernels *k, b1i_prefill_attention_args *a, b1_error *err)
{
    b1_status st;
    const int tiles = up(a->rows, B1I_PREFILL_TILE) * a->group;
    a->dim = k->dim;
    a->warps = k->warps;
    a->grid_x = up(tiles, k->warps);
    a->splits = splits_of(a);
    B1I_TRY(launch(k, k->attention, (grid){a->grid_x, a->kv_heads, a->splits, 32 * k->warps, k->attention_shared}, a,
                   sizeof *a, err));
    if (a->splits > 1) B1I_TRY(launch(k, k->merge, (grid){tiles, a->kv_heads, 1, 128, 0}, a, sizeof *a, err));
    return B1_OK;
fail:
    return st;
}
