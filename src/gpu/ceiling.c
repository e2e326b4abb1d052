/* SPDX-License-Identifier: MIT
 *
 * The read ceiling of a device: how fast kernels that do nothing else read its memory. Two of them are tried, plain
 * loads and bulk copies, for which is faster differs between devices. Refuses memory that the L2 cache could hold a
 * part of that matters.
 */
#include "gpu/gpu.h"

#if B1_CUDA

#include "gpu/ceiling_args.h"
#include "gpu/driver.h"

#include <stdlib.h>
#include <string.h>

enum { L2_TIMES = 8, PASSES_MAX = 1000 };

/* Its kernels, so that whoever has a gpu can read its ceiling: src/cuda/fatbins.c puts them into the binary. */
extern const char b1i_fatbin_ceiling[] __attribute__((visibility("hidden")));

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The median of `passes` timed runs after one that is not timed. */
static b1_status median_ns(b1i_gpu *gpu, const b1i_gpu_launch *launch, int passes, double *out, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_gpu_event *from = NULL, *to = NULL;
    uint64_t *ns = b1i_calloc((size_t)passes, sizeof *ns);
    if (!ns) {
        st = b1i_fail_memory(err, (size_t)passes * sizeof *ns);
        goto fail;
    }
    B1I_TRY(b1i_gpu_event_create(gpu, true, &from, err));
    B1I_TRY(b1i_gpu_event_create(gpu, true, &to, err));
    B1I_TRY(b1i_gpu_run(gpu, launch, err));
    for (int i = 0; i < passes; i++) {
        B1I_TRY(b1i_gpu_event_record(gpu, from, err));
        B1I_TRY(b1i_gpu_run(gpu, launch, err));
        B1I_TRY(b1i_gpu_event_record(gpu, to, err));
        B1I_TRY(b1i_gpu_sync(gpu, err));
        B1I_TRY(b1i_gpu_event_ns(gpu, from, to, ns + i, err));
    }
    qsort(ns, (size_t)passes, sizeof *ns, by_value);
    int low = (passes - 1) / 2, high = passes / 2;
    *out = ((double)ns[low] + (double)ns[high]) / 2;
fail:
    b1i_gpu_event_destroy(gpu, from);
    b1i_gpu_event_destroy(gpu, to);
    b1i_free(ns);
    return st;
}

/* As many blocks of plain loads as the device holds at once. */
static b1_status plain_launch(b1i_gpu *gpu, b1i_gpu_launch *launch, b1_error *err)
{
    int blocks = 0;
    b1_status st = B1_OK;
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_read_plain", 0, &launch->kernel, err));
    B1I_TRY(b1i_gpu_occupancy(gpu, launch->kernel, B1I_READ_THREADS, 0, &blocks, err));
    launch->grid[0] = (unsigned)(gpu->info.sms * (blocks > 0 ? blocks : 1));
    launch->threads = B1I_READ_THREADS;
fail:
    return st;
}

/* A block for each SM, with as many slots as its shared memory holds. */
static b1_status bulk_launch(b1i_gpu *gpu, b1i_gpu_launch *launch, b1i_read_args *args, b1_error *err)
{
    int slots = (gpu->info.shared_bytes_block - B1I_READ_BARRIERS) / B1I_READ_TILE;
    args->slots = slots < B1I_READ_SLOTS ? slots : B1I_READ_SLOTS;
    launch->grid[0] = (unsigned)gpu->info.sms;
    launch->threads = 32;
    launch->shared_bytes = (unsigned)(args->slots * B1I_READ_TILE + B1I_READ_BARRIERS);
    return b1i_gpu_kernel_get(gpu, "k_read_bulk", launch->shared_bytes, &launch->kernel, err);
}

b1_status b1i_gpu_read_ceiling(b1i_gpu *gpu, b1i_gpu_ptr memory, size_t bytes, int passes, double *gbps,
                               const char **method, b1_error *err)
{
    *gbps = 0;
    *method = "plain";
    b1_status st = B1_OK;
    b1i_gpu_ptr sink = 0;
    b1i_read_args args = {.from = memory, .tiles = (int64_t)(bytes / B1I_READ_TILE)};
    if (passes < 1 || passes > PASSES_MAX)
        return b1i_fail(err, B1_ARGUMENT, "the read ceiling takes 1 to %d passes, not %d", PASSES_MAX, passes);
    if (memory % 16 != 0 || args.tiles < 1 || bytes < L2_TIMES * gpu->info.l2_bytes) {
        return b1i_fail(err, B1_ARGUMENT,
                        "the read ceiling needs more than %.0f MB: %d times the %.0f MB of L2 cache of GPU %d (%s)",
                        (double)bytes / 1e6, L2_TIMES, (double)gpu->info.l2_bytes / 1e6, gpu->info.ordinal,
                        gpu->info.name);
    }
    B1I_TRY(b1i_gpu_load(gpu, "ceiling", b1i_fatbin_ceiling, err));
    B1I_TRY(b1i_gpu_alloc(gpu, sizeof(uint32_t), "the read ceiling", &sink, err));
    args.sink = sink;
    for (int bulk = 0; bulk <= (gpu->info.major >= 9); bulk++) {
        double ns = 0;
        b1i_gpu_launch launch = {.grid = {1, 1, 1}, .arg_bytes = sizeof args};
        B1I_TRY(bulk ? bulk_launch(gpu, &launch, &args, err) : plain_launch(gpu, &launch, err));
        memcpy(launch.args, &args, sizeof args);
        B1I_TRY(median_ns(gpu, &launch, passes, &ns, err));
        double rate = ns > 0 ? (double)args.tiles * B1I_READ_TILE / ns : 0;
        if (rate <= *gbps) continue;
        *gbps = rate;
        *method = bulk ? "bulk" : "plain";
    }
fail:
    b1i_gpu_free(gpu, sink);
    return st;
}

#endif
