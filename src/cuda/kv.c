/* SPDX-License-Identifier: MIT
 *
 * Owns the KV cache of a session on the device: its sizes, its memory, the order of its elements (args.h), its filler.
 */
#include "cuda/cuda.h"

#include <stdio.h>
#include <string.h>

int b1i_cuda_dim(int head_dim)
{
    static const int dims[] = {64, 96, 128, 256};
    if (head_dim < 1) return 0;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        if (head_dim <= dims[i]) return dims[i];
    return 0;
}

size_t b1i_cuda_key_index(int dim, int position, int d)
{
    int tile = position % 8 / 2, group = d / 32;
    int lane = (2 * (position / 8) + position % 2) * 4 + d % 32 / 8;
    return (size_t)(((tile * (dim / 32) + group) * 32 + lane) * 8 + d % 8);
}

size_t b1i_cuda_value_index(int dim, int position, int d)
{
    (void)dim;
    return (size_t)((d / 8 * 32 + d % 8 * 4 + position / 8) * 8 + position % 8);
}

/* Sizes that do not fit in 64 bits become the largest: nothing has that much memory. */
static size_t times(size_t a, size_t b)
{
    uint64_t product;
    return b1i_mul(a, b, &product) ? (size_t)product : SIZE_MAX;
}

static int64_t capacity_of(int64_t context) { return (context + B1I_KV_TILE - 1) / B1I_KV_TILE * B1I_KV_TILE; }

/* Keys and values, bf16. */
static size_t head_bytes(const b1i_config *c, int64_t context)
{
    return times((size_t)capacity_of(context), (size_t)b1i_cuda_dim(c->head_dim) * 2 * sizeof(uint16_t));
}

size_t b1i_cuda_kv_bytes(const b1i_config *c, int64_t context)
{
    return times(times((size_t)c->layers, (size_t)c->kv_heads), head_bytes(c, context));
}

b1_status b1i_cuda_kv_create(b1i_gpu *gpu, const b1i_config *c, int64_t context, b1i_cuda_kv *kv, b1_error *err)
{
    b1_status st;
    char what[80];
    *kv = (b1i_cuda_kv){.bytes = b1i_cuda_kv_bytes(c, context),
                        .head_bytes = head_bytes(c, context),
                        .capacity = capacity_of(context),
                        .dim = b1i_cuda_dim(c->head_dim)};
    (void)snprintf(what, sizeof what, "the KV cache of %lld positions", (long long)context);
    B1I_TRY(b1i_gpu_alloc(gpu, kv->bytes, what, &kv->data, err));
    B1I_TRY(b1i_gpu_fill(gpu, kv->data, 0, kv->bytes, err));
    return B1_OK;
fail:
    b1i_cuda_kv_free(gpu, kv);
    return st;
}

void b1i_cuda_kv_free(b1i_gpu *gpu, b1i_cuda_kv *kv)
{
    if (kv->data) b1i_gpu_free(gpu, kv->data);
    *kv = (b1i_cuda_kv){0};
}

enum { FILL_THREADS = 256, FILL_HEADS = 32768 };

b1_status b1i_cuda_kv_fill(b1i_gpu *gpu, const b1i_config *c, const b1i_cuda_kv *kv, int count, b1_error *err)
{
    b1_status st;
    const int64_t heads = (int64_t)c->layers * c->kv_heads;
    b1i_gpu_launch launch = {.threads = FILL_THREADS, .arg_bytes = sizeof(b1i_fill_args)};
    const b1i_fill_args args = {.kv = kv->data,
                                .head_bytes = kv->head_bytes,
                                .heads = (int32_t)heads,
                                .head_dim = c->head_dim,
                                .dim_padded = kv->dim,
                                .count = count};
    if (count < 1) return B1_OK;
    if (count > kv->capacity)
        return b1i_fail(err, B1_CONTEXT, "cannot fill %d positions: the KV cache holds %lld", count,
                        (long long)kv->capacity);
    launch.grid[0] = (unsigned)((count + B1I_KV_TILE - 1) / B1I_KV_TILE);
    launch.grid[1] = (unsigned)(heads < FILL_HEADS ? heads : FILL_HEADS);
    launch.grid[2] = 1;
    memcpy(launch.args, &args, sizeof args);
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_kv_fill", 0, &launch.kernel, err));
    B1I_TRY(b1i_gpu_run(gpu, &launch, err));
    B1I_TRY(b1i_gpu_sync(gpu, err));
fail:
    return st;
}
