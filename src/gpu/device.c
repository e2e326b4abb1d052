/* SPDX-License-Identifier: MIT
 *
 * A b1i_gpu: a device with a context and a stream of its own, and what becomes of the driver's errors.
 *
 * Invariant: after an error that a context does not survive the gpu is poisoned, and every later call but close and the
 * frees returns that error's sentence without asking the driver again. CUDA promises a process nothing after such an
 * error, and other contexts may fail with it: each gpu finds that out by itself when the driver says so, and its
 * sentence has that of the first. Nothing is refused that the driver still does.
 */
#include "gpu/gpu.h"

#if B1_CUDA

#include "gpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

/* Errors after which each call on the context fails. */
static bool sticky(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case 226: /* CONTAINED, since 13.0 */
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case 721: /* TENSOR_MEMORY_LEAK, since 12.9 */
    case CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

/* What the gpus of this process share: how many are open, and the sentence of the first sticky error of any. */
static struct {
    pthread_mutex_t lock;
    int open;
    b1_error first;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool process_failed(void)
{
    pthread_mutex_lock(&process.lock);
    const bool failed = *process.first.message;
    pthread_mutex_unlock(&process.lock);
    return failed;
}

static void count_open(int more)
{
    pthread_mutex_lock(&process.lock);
    process.open += more;
    pthread_mutex_unlock(&process.lock);
}

/* Which kernel it was: an error is seen at the first call after it, so that of several the last one is named. */
static void name_running(const b1i_gpu *gpu, char *text, size_t size)
{
    if (gpu->running == 0)
        snprintf(text, size, "while no kernel ran");
    else if (gpu->running == 1)
        snprintf(text, size, "in kernel %s", gpu->running_name);
    else
        snprintf(text, size, "in one of the %d kernels up to %s (in a stream, CUDA_LAUNCH_BLOCKING=1 shows which one)",
                 gpu->running, gpu->running_name);
    const size_t used = strlen(text);
    if (gpu->beside_name && used < size)
        snprintf(text + used, size - used, ", or in kernel %s, which ran beside", gpu->beside_name);
}

/* With the gpu's lock held. The kernel is named even where the error came from elsewhere, for nobody knows. */
static void poison(b1i_gpu *gpu, const char *text, const char *doing)
{
    char kernel[448];
    name_running(gpu, kernel, sizeof kernel);
    pthread_mutex_lock(&process.lock);
    if (*process.first.message) {
        b1i_fail(
            &gpu->poison, B1_DEVICE,
            "GPU %d (%s) failed %s, or because of an earlier error in this process: %s, seen while %s; the earlier "
            "one: %s",
            gpu->info.ordinal, gpu->info.name, kernel, text, doing, process.first.message);
    } else {
        b1i_fail(&gpu->poison, B1_DEVICE,
                 "GPU %d (%s) failed %s%s: %s, seen while %s; to use it again, start a new process", gpu->info.ordinal,
                 gpu->info.name, kernel, process.open > 1 ? ", or in another engine of this process" : "", text, doing);
        process.first = gpu->poison;
    }
    pthread_mutex_unlock(&process.lock);
    gpu->poisoned = true;
}

b1_status b1i_gpu_check(b1i_gpu *gpu, CUresult result, const char *doing, b1_error *err)
{
    if (result == CUDA_SUCCESS) return B1_OK;
    const char *text = b1i_driver_text(gpu->cu, result);
    /* A context that cannot be had after such an error is lost to it, by whatever name. */
    if (!sticky(result) && (gpu->stream || !process_failed())) {
        b1_status st = result == CUDA_ERROR_OUT_OF_MEMORY ? B1_MEMORY : B1_DEVICE;
        return b1i_fail(err, st, "GPU %d (%s) failed while %s: %s", gpu->info.ordinal, gpu->info.name, doing, text);
    }
    pthread_mutex_lock(&gpu->lock);
    if (!gpu->poisoned) poison(gpu, text, doing);
    pthread_mutex_unlock(&gpu->lock);
    return b1i_gpu_state(gpu, err);
}

b1_status b1i_gpu_state(const b1i_gpu *gpu, b1_error *err)
{
    /* The lock is no part of what the caller sees of a gpu. */
    pthread_mutex_t *lock = (pthread_mutex_t *)&gpu->lock;
    pthread_mutex_lock(lock);
    bool poisoned = gpu->poisoned;
    pthread_mutex_unlock(lock);
    return poisoned ? b1i_fail(err, B1_DEVICE, "%s", gpu->poison.message) : B1_OK; /* written once */
}

void b1i_gpu_submitted(b1i_gpu *gpu, int kernels, const char *name)
{
    pthread_mutex_lock(&gpu->lock);
    gpu->running = kernels && gpu->running < 1000000000 ? gpu->running + kernels : kernels;
    gpu->running_name = name;
    pthread_mutex_unlock(&gpu->lock);
}

/* ---- the context ---- */

b1_status b1i_gpu_begin(b1i_gpu *gpu, b1_error *err)
{
    b1_status st = b1i_gpu_state(gpu, err);
    if (st) return st;
    return b1i_gpu_check(gpu, gpu->cu->cuCtxPushCurrent(gpu->context), "taking its context", err);
}

void b1i_gpu_end(b1i_gpu *gpu)
{
    CUcontext ours;
    gpu->cu->cuCtxPopCurrent(&ours);
}

b1_status b1i_gpu_enter(b1i_gpu *gpu, b1_error *err) { return b1i_gpu_begin(gpu, err); }
void b1i_gpu_leave(b1i_gpu *gpu) { b1i_gpu_end(gpu); }

static CUresult create_context(const b1i_driver *cu, CUcontext *out, CUdevice device)
{
    unsigned flags = CU_CTX_SCHED_SPIN | CU_CTX_MAP_HOST;
#if CUDA_VERSION >= 13000
    return cu->cuCtxCreate(out, NULL, flags, device);
#else
    return cu->cuCtxCreate(out, flags, device);
#endif
}

/* Makes the context and all that lies in it; it is current, and stays so where this succeeds. */
static b1_status open_context(b1i_gpu *gpu, b1_error *err)
{
    b1_status st = B1_OK;
    CUdevice device;
    B1I_TRY(b1i_driver_device(gpu->cu, gpu->info.ordinal, &device, err));
    B1I_TRY(b1i_gpu_check(gpu, create_context(gpu->cu, &gpu->context, device), "making a context", err));
    size_t free_bytes = 0, total = 0;
    st = b1i_gpu_check(gpu, gpu->cu->cuStreamCreate(&gpu->stream, CU_STREAM_NON_BLOCKING), "making a stream", err);
    if (!st) st = b1i_gpu_check(gpu, gpu->cu->cuMemGetInfo(&free_bytes, &total), "asking for its free memory", err);
    gpu->info.free_bytes = free_bytes;
    b1i_gpu_end(gpu);
fail:
    return st;
}

b1_status b1i_gpu_open(int ordinal, b1i_gpu **out, b1_error *err)
{
    *out = NULL;
    b1_status st = B1_OK;
    b1i_gpu_info info;
    B1I_TRY(b1i_gpu_describe(ordinal, &info, err));
    b1i_gpu *gpu = b1i_calloc(1, sizeof *gpu);
    if (!gpu) return b1i_fail_memory(err, sizeof *gpu);
    gpu->cu = b1i_driver_get(NULL);
    gpu->info = info;
    pthread_mutex_init(&gpu->lock, NULL);
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    gpu->blocking = blocking && strcmp(blocking, "1") == 0;
    count_open(1);
    st = open_context(gpu, err);
    if (st)
        b1i_gpu_close(gpu);
    else
        *out = gpu;
fail:
    return st;
}

/* Memory is freed one by one, so that the count of what is alive holds; the rest goes with the context. */
void b1i_gpu_close(b1i_gpu *gpu)
{
    if (!gpu) return;
    while (gpu->memory) {
        if (gpu->memory->device)
            b1i_gpu_free(gpu, gpu->memory->device);
        else
            b1i_gpu_host_free(gpu, gpu->memory->host);
    }
    if (gpu->context) {
        bool pushed = gpu->cu->cuCtxPushCurrent(gpu->context) == CUDA_SUCCESS;
        for (const b1i_gpu_module *m = gpu->modules; m; m = m->next) gpu->cu->cuModuleUnload(m->module);
        if (gpu->beside) gpu->cu->cuStreamDestroy(gpu->beside);
        if (gpu->stream) gpu->cu->cuStreamDestroy(gpu->stream);
        if (pushed) b1i_gpu_end(gpu);
        gpu->cu->cuCtxDestroy(gpu->context);
    }
    for (b1i_gpu_module *m = gpu->modules, *next; m; m = next) {
        next = m->next;
        b1i_free(m);
    }
    for (b1i_gpu_kernel *k = gpu->kernels, *next; k; k = next) {
        next = k->next;
        b1i_free(k);
    }
    pthread_mutex_destroy(&gpu->lock);
    b1i_free(gpu);
    count_open(-1);
}

const b1i_gpu_info *b1i_gpu_get_info(const b1i_gpu *gpu) { return &gpu->info; }
void *b1i_gpu_stream(b1i_gpu *gpu) { return gpu->stream; }

b1_status b1i_gpu_free_bytes(b1i_gpu *gpu, uint64_t *bytes, b1_error *err)
{
    *bytes = 0;
    size_t free_bytes = 0, total = 0;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    st = b1i_gpu_check(gpu, gpu->cu->cuMemGetInfo(&free_bytes, &total), "asking for its free memory", err);
    b1i_gpu_end(gpu);
    *bytes = free_bytes;
    return st;
}

/* ---- waiting ---- */

b1_status b1i_gpu_sync(b1i_gpu *gpu, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    st = b1i_gpu_check(gpu, gpu->cu->cuStreamSynchronize(gpu->stream), "waiting for it", err);
    if (!st) b1i_gpu_submitted(gpu, 0, NULL);
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_query(b1i_gpu *gpu, bool *done, b1_error *err)
{
    *done = false;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    CUresult result = gpu->cu->cuStreamQuery(gpu->stream);
    *done = result == CUDA_SUCCESS;
    if (result != CUDA_ERROR_NOT_READY) st = b1i_gpu_check(gpu, result, "asking whether it is done", err);
    if (*done) b1i_gpu_submitted(gpu, 0, NULL);
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_profiler(b1i_gpu *gpu, bool on, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    CUresult result = gpu->cu->cuStreamSynchronize(gpu->stream);
    if (!result) result = on ? gpu->cu->cuProfilerStart() : gpu->cu->cuProfilerStop();
    st = b1i_gpu_check(gpu, result, on ? "starting the profiler" : "stopping the profiler", err);
    b1i_gpu_end(gpu);
    return st;
}

void b1i_gpu_seen_done(b1i_gpu *gpu) { b1i_gpu_submitted(gpu, 0, NULL); }

#endif
