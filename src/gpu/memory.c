/* SPDX-License-Identifier: MIT
 *
 * Memory of a gpu: plain device allocations and pinned host memory, each known to its b1i_gpu until it is freed, and
 * copies that wait. Managed memory is not used: what does not fit must fail here and not at a fault.
 *
 * Invariant: `live` counts what was handed out and not given back, over all gpus of the process.
 */
#include "gpu/gpu.h"

#include <stdatomic.h>

static atomic_long live;
static atomic_long fail_in = -1; /* allocations until the ordered failure; negative: none ordered */

void b1i_gpu_alloc_fail_at(long n) { atomic_store(&fail_in, n); }
long b1i_gpu_alloc_live(void) { return atomic_load(&live); }

#if B1_CUDA

#include "gpu/driver.h"

#include <string.h>

static bool ordered_failure(void)
{
    return atomic_load_explicit(&fail_in, memory_order_relaxed) >= 0 && atomic_fetch_sub(&fail_in, 1) == 0;
}

/* What is wanted, what is free, and what this gpu's owner has taken. */
static b1_status fail_device(b1i_gpu *gpu, size_t bytes, const char *what, b1_error *err)
{
    size_t free_bytes = 0, total = 0, taken = 0;
    gpu->cu->cuMemGetInfo(&free_bytes, &total);
    pthread_mutex_lock(&gpu->lock);
    for (const b1i_gpu_memory *m = gpu->memory; m; m = m->next) taken += m->device ? m->bytes : 0;
    pthread_mutex_unlock(&gpu->lock);
    return b1i_fail(
        err, B1_MEMORY,
        "not enough device memory for %s: %.3f GB wanted; GPU %d (%s) has %.3f of %.3f GB free, and %.3f GB "
        "are taken by this engine",
        what, (double)bytes / 1e9, gpu->info.ordinal, gpu->info.name, (double)free_bytes / 1e9, (double)total / 1e9,
        (double)taken / 1e9);
}

static b1_status fail_pinned(size_t bytes, const char *what, b1_error *err)
{
    return b1i_fail(err, B1_MEMORY, "not enough pinned memory for %s: %.3f GB wanted, the machine has %.3f GB to spare",
                    what, (double)bytes / 1e9, (double)b1i_memory_available() / 1e9);
}

static void remember(b1i_gpu *gpu, b1i_gpu_memory *memory)
{
    pthread_mutex_lock(&gpu->lock);
    memory->next = gpu->memory;
    gpu->memory = memory;
    pthread_mutex_unlock(&gpu->lock);
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
}

/* Takes it out of the list; NULL where it is not there. */
static b1i_gpu_memory *forget(b1i_gpu *gpu, CUdeviceptr device, const void *host)
{
    pthread_mutex_lock(&gpu->lock);
    b1i_gpu_memory **at = &gpu->memory, *found;
    while (*at && ((*at)->device != device || (*at)->host != host)) at = &(*at)->next;
    found = *at;
    if (found) *at = found->next;
    pthread_mutex_unlock(&gpu->lock);
    if (found) atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    return found;
}

b1_status b1i_gpu_alloc(b1i_gpu *gpu, size_t bytes, const char *what, b1i_gpu_ptr *out, b1_error *err)
{
    *out = 0;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    b1i_gpu_memory *memory = b1i_calloc(1, sizeof *memory);
    if (!memory) {
        st = b1i_fail_memory(err, sizeof *memory);
        goto fail;
    }
    memory->bytes = bytes ? bytes : 1;
    CUresult result =
        ordered_failure() ? CUDA_ERROR_OUT_OF_MEMORY : gpu->cu->cuMemAlloc(&memory->device, memory->bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        st = fail_device(gpu, bytes, what, err);
        goto fail;
    }
    B1I_TRY(b1i_gpu_check(gpu, result, "allocating memory", err));
    remember(gpu, memory);
    *out = memory->device;
    memory = NULL;
fail:
    b1i_free(memory);
    b1i_gpu_end(gpu);
    return st;
}

void b1i_gpu_free(b1i_gpu *gpu, b1i_gpu_ptr pointer)
{
    if (!gpu || !pointer) return;
    b1i_gpu_memory *memory = forget(gpu, pointer, NULL);
    if (!memory) return;
    if (gpu->cu->cuCtxPushCurrent(gpu->context) == CUDA_SUCCESS) {
        gpu->cu->cuMemFree(memory->device); /* of a poisoned context it goes with the context */
        b1i_gpu_end(gpu);
    }
    b1i_free(memory);
}

b1_status b1i_gpu_host_alloc(b1i_gpu *gpu, size_t bytes, const char *what, void **host, b1i_gpu_ptr *device,
                             b1_error *err)
{
    *host = NULL;
    if (device) *device = 0;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    CUdeviceptr mapped = 0;
    b1i_gpu_memory *memory = b1i_calloc(1, sizeof *memory);
    if (!memory) {
        st = b1i_fail_memory(err, sizeof *memory);
        goto fail;
    }
    memory->bytes = bytes ? bytes : 1;
    unsigned flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
    CUresult result =
        ordered_failure() ? CUDA_ERROR_OUT_OF_MEMORY : gpu->cu->cuMemHostAlloc(&memory->host, memory->bytes, flags);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        st = fail_pinned(bytes, what, err);
        goto fail;
    }
    B1I_TRY(b1i_gpu_check(gpu, result, "allocating pinned memory", err));
    memset(memory->host, 0, memory->bytes);
    B1I_CU(gpu, cuMemHostGetDevicePointer(&mapped, memory->host, 0), "mapping pinned memory");
    remember(gpu, memory);
    *host = memory->host;
    if (device) *device = mapped;
    memory = NULL;
fail:
    if (memory && memory->host) gpu->cu->cuMemFreeHost(memory->host);
    b1i_free(memory);
    b1i_gpu_end(gpu);
    return st;
}

void b1i_gpu_host_free(b1i_gpu *gpu, void *host)
{
    if (!gpu || !host) return;
    b1i_gpu_memory *memory = forget(gpu, 0, host);
    if (!memory) return;
    if (gpu->cu->cuCtxPushCurrent(gpu->context) == CUDA_SUCCESS) {
        gpu->cu->cuMemFreeHost(memory->host);
        b1i_gpu_end(gpu);
    }
    b1i_free(memory);
}

/* ---- copies ---- */

/* Waits for what is in the stream, the copy that was put there last included. */
static b1_status finish(b1i_gpu *gpu, CUresult submitted, const char *doing, b1_error *err)
{
    b1_status st = b1i_gpu_check(gpu, submitted, doing, err);
    if (!st) st = b1i_gpu_check(gpu, gpu->cu->cuStreamSynchronize(gpu->stream), doing, err);
    if (!st) b1i_gpu_submitted(gpu, 0, NULL);
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_upload(b1i_gpu *gpu, b1i_gpu_ptr to, const void *from, size_t bytes, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    CUresult result = bytes ? gpu->cu->cuMemcpyHtoDAsync(to, from, bytes, gpu->stream) : CUDA_SUCCESS;
    return finish(gpu, result, "copying to it", err);
}

b1_status b1i_gpu_download(b1i_gpu *gpu, void *to, b1i_gpu_ptr from, size_t bytes, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    CUresult result = bytes ? gpu->cu->cuMemcpyDtoHAsync(to, from, bytes, gpu->stream) : CUDA_SUCCESS;
    return finish(gpu, result, "copying from it", err);
}

b1_status b1i_gpu_fill(b1i_gpu *gpu, b1i_gpu_ptr to, uint8_t byte, size_t bytes, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    CUresult result = bytes ? gpu->cu->cuMemsetD8Async(to, byte, bytes, gpu->stream) : CUDA_SUCCESS;
    return finish(gpu, result, "filling its memory", err);
}

b1_status b1i_gpu_upload_async(b1i_gpu *gpu, b1i_gpu_ptr to, const void *from, size_t bytes, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    if (bytes) st = b1i_gpu_check(gpu, gpu->cu->cuMemcpyHtoDAsync(to, from, bytes, gpu->stream), "copying to it", err);
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_copy_async(b1i_gpu *gpu, b1i_gpu_ptr to, b1i_gpu_ptr from, size_t bytes, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    if (bytes) st = b1i_gpu_check(gpu, gpu->cu->cuMemcpyDtoDAsync(to, from, bytes, gpu->stream), "copying in it", err);
    b1i_gpu_end(gpu);
    return st;
}

#endif
