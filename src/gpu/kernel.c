/* SPDX-License-Identifier: MIT
 *
 * Modules, kernels and launches on the stream.
 *
 * A kernel's code is loaded when it is asked for, never at its first launch, and the size of its one parameter is
 * compared with what a launch brings: a host and a kernel that were compiled from different structs cannot meet.
 */
#include "gpu/gpu.h"

#if B1_CUDA

#include "gpu/driver.h"

#include <stdio.h>
#include <string.h>

/* What loading code gave; `name` is the fatbin's or the kernel's. Images that this device or driver cannot take are
 * nobody's failure. */
static b1_status check_code(b1i_gpu *gpu, CUresult result, const char *name, b1_error *err)
{
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
        result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND || result == CUDA_ERROR_INVALID_PTX ||
        result == CUDA_ERROR_INVALID_IMAGE) {
        return b1i_fail(err, B1_UNSUPPORTED,
                        "this build has no kernels (%s) for compute capability %d.%d, which GPU %d (%s) has: %s", name,
                        gpu->info.major, gpu->info.minor, gpu->info.ordinal, gpu->info.name,
                        b1i_driver_text(gpu->cu, result));
    }
    char doing[160];
    snprintf(doing, sizeof doing, "loading kernels (%s)", name);
    return b1i_gpu_check(gpu, result, doing, err);
}

b1_status b1i_gpu_load(b1i_gpu *gpu, const char *name, const void *fatbin, b1_error *err)
{
    for (const b1i_gpu_module *m = gpu->modules; m; m = m->next) {
        if (m->image == fatbin) return B1_OK;
    }
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    b1i_gpu_module *module = b1i_calloc(1, sizeof *module);
    if (!module) {
        st = b1i_fail_memory(err, sizeof *module);
        goto fail;
    }
    B1I_TRY(check_code(gpu, gpu->cu->cuModuleLoadData(&module->module, fatbin), name, err));
    module->image = fatbin;
    module->next = gpu->modules;
    gpu->modules = module;
    module = NULL;
fail:
    b1i_free(module);
    b1i_gpu_end(gpu);
    return st;
}

/* Finds the function in the modules, loads its code and asks for the size of its parameter. */
static b1_status find_function(b1i_gpu *gpu, b1i_gpu_kernel *kernel, b1_error *err)
{
    b1_status st = B1_OK;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    for (const b1i_gpu_module *m = gpu->modules; m && result == CUDA_ERROR_NOT_FOUND; m = m->next)
        result = gpu->cu->cuModuleGetFunction(&kernel->function, m->module, kernel->name);
    if (result == CUDA_ERROR_NOT_FOUND)
        return b1i_fail(err, B1_UNSUPPORTED, "this build has no kernel %s", kernel->name);
    B1I_TRY(check_code(gpu, result, kernel->name, err));
    B1I_TRY(check_code(gpu, gpu->cu->cuFuncLoad(kernel->function), kernel->name, err));
    size_t offset = 0, bytes = 0;
    if (gpu->cu->cuFuncGetParamInfo(kernel->function, 0, &offset, &bytes) == CUDA_SUCCESS) kernel->arg_bytes = bytes;
    int shared = 0, own = 0;
    B1I_CU(gpu, cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel->function),
           "describing a kernel");
    B1I_CU(gpu, cuFuncGetAttribute(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel->function), "describing a kernel");
    kernel->shared_bytes = (size_t)shared;
    kernel->own_bytes = (size_t)own;
fail:
    return st;
}

/* Kernels with dynamic shared memory ask for the largest carve-out: where two of them want different ones an SM must
 * drain before the second starts, and programmatic launch gains nothing. */
static b1_status allow_shared(b1i_gpu *gpu, b1i_gpu_kernel *kernel, size_t bytes, b1_error *err)
{
    b1_status st = B1_OK;
    if (bytes + kernel->own_bytes > (size_t)gpu->info.shared_bytes_block) {
        return b1i_fail(err, B1_UNSUPPORTED, "kernel %s needs %zu bytes of shared memory; GPU %d (%s) gives a block %d",
                        kernel->name, bytes + kernel->own_bytes, gpu->info.ordinal, gpu->info.name,
                        gpu->info.shared_bytes_block);
    }
    char doing[160];
    snprintf(doing, sizeof doing, "giving kernel %s %zu bytes of shared memory", kernel->name, bytes);
    if (bytes > kernel->shared_bytes) {
        B1I_CU(gpu, cuFuncSetAttribute(kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes),
               doing);
        kernel->shared_bytes = bytes;
    }
    if (bytes) {
        B1I_CU(gpu,
               cuFuncSetAttribute(kernel->function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                  CU_SHAREDMEM_CARVEOUT_MAX_SHARED),
               doing);
    }
fail:
    return st;
}

b1_status b1i_gpu_kernel_get(b1i_gpu *gpu, const char *name, size_t shared_bytes, b1i_gpu_kernel **out, b1_error *err)
{
    *out = NULL;
    b1i_gpu_kernel *made = NULL, *kernel = gpu->kernels;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    while (kernel && strcmp(kernel->name, name) != 0) kernel = kernel->next;
    if (!kernel) {
        size_t bytes = strlen(name) + 1;
        kernel = made = b1i_calloc(1, sizeof *made + bytes);
        if (!made) {
            st = b1i_fail_memory(err, sizeof *made + bytes);
            goto fail;
        }
        memcpy(made->name, name, bytes);
        B1I_TRY(find_function(gpu, made, err));
    }
    B1I_TRY(allow_shared(gpu, kernel, shared_bytes, err));
    if (made) {
        made->next = gpu->kernels;
        gpu->kernels = made;
        made = NULL;
    }
    *out = kernel;
fail:
    b1i_free(made);
    b1i_gpu_end(gpu);
    return st;
}

const char *b1i_gpu_kernel_name(const b1i_gpu_kernel *kernel) { return kernel->name; }

b1_status b1i_gpu_kernel_describe(b1i_gpu *gpu, b1i_gpu_kernel *kernel, b1i_gpu_kernel_info *out, b1_error *err)
{
    *out = (b1i_gpu_kernel_info){0};
    const struct {
        CUfunction_attribute which;
        int *to;
    } wanted[] = {{CU_FUNC_ATTRIBUTE_NUM_REGS, &out->registers},
                  {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &out->local_bytes},
                  {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &out->static_shared_bytes},
                  {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &out->max_threads}};
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        B1I_CU(gpu, cuFuncGetAttribute(wanted[i].to, wanted[i].which, kernel->function), "describing a kernel");
fail:
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_occupancy(b1i_gpu *gpu, b1i_gpu_kernel *kernel, int threads, size_t shared_bytes, int *blocks,
                            b1_error *err)
{
    *blocks = 0;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    st = b1i_gpu_check(
        gpu, gpu->cu->cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel->function, threads, shared_bytes),
        "asking how many blocks fit", err);
    b1i_gpu_end(gpu);
    return st;
}

const char *b1i_gpu_launch_name(const b1i_gpu_launch *launch)
{
    return launch->kernel ? launch->kernel->name : "memset";
}

b1_status b1i_gpu_launch_fits(const b1i_gpu *gpu, const b1i_gpu_launch *launch, b1_error *err)
{
    const b1i_gpu_kernel *kernel = launch->kernel;
    if (!kernel) {
        if (launch->fill && launch->fill_bytes) return B1_OK;
        return b1i_fail(err, B1_DEVICE, "a launch has neither a kernel nor memory to fill on GPU %d",
                        gpu->info.ordinal);
    }
    if (kernel->arg_bytes && launch->arg_bytes != kernel->arg_bytes) {
        return b1i_fail(err, B1_DEVICE, "kernel %s takes %zu bytes of arguments and is given %u", kernel->name,
                        kernel->arg_bytes, launch->arg_bytes);
    }
    if (launch->shared_bytes > kernel->shared_bytes) {
        return b1i_fail(err, B1_DEVICE, "kernel %s may have %zu bytes of shared memory and is given %u on GPU %d",
                        kernel->name, kernel->shared_bytes, launch->shared_bytes, gpu->info.ordinal);
    }
    return B1_OK;
}

static b1_status start_memset(b1i_gpu *gpu, const b1i_gpu_launch *launch, const char *doing, const char *where,
                              b1_error *err)
{
    CUresult result = gpu->cu->cuMemsetD8Async(launch->fill, 0, launch->fill_bytes, gpu->stream);
    if (result == CUDA_SUCCESS) return B1_OK;
    char text[128];
    snprintf(text, sizeof text, "%s a memset of %zu bytes%s", doing, launch->fill_bytes, where);
    return b1i_gpu_check(gpu, result, text, err);
}

static b1_status start_kernel(b1i_gpu *gpu, CUstream stream, const b1i_gpu_launch *launch, bool early,
                              const char *doing, const char *where, b1_error *err)
{
    CUlaunchAttribute serial = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                .value = {.programmaticStreamSerializationAllowed = 1}};
    const CUlaunchConfig config = {
        .gridDimX = launch->grid[0],
        .gridDimY = launch->grid[1],
        .gridDimZ = launch->grid[2],
        .blockDimX = launch->threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = launch->shared_bytes,
        .hStream = stream,
        .attrs = &serial,
        .numAttrs = early,
    };
    void *args[] = {(void *)launch->args}; /* which the driver copies */
    CUresult result = gpu->cu->cuLaunchKernelEx(&config, launch->kernel->function, args, NULL);
    if (result == CUDA_SUCCESS) return B1_OK;
    char text[256];
    snprintf(text, sizeof text, "%s kernel %s, %u×%u×%u blocks of %u threads%s", doing, launch->kernel->name,
             launch->grid[0], launch->grid[1], launch->grid[2], launch->threads, where);
    return b1i_gpu_check(gpu, result, text, err);
}

b1_status b1i_gpu_start(b1i_gpu *gpu, const b1i_gpu_launch *launch, bool early, const char *doing, const char *where,
                        b1_error *err)
{
    return launch->kernel ? start_kernel(gpu, gpu->stream, launch, early, doing, where, err)
                          : start_memset(gpu, launch, doing, where, err);
}

/* With the context current. Where launches are blocking each is told to be running alone. */
static b1_status run(b1i_gpu *gpu, const b1i_gpu_launch *launch, b1_error *err)
{
    b1_status st = b1i_gpu_launch_fits(gpu, launch, err);
    if (st) return st;
    if (!gpu->blocking) return b1i_gpu_start(gpu, launch, false, "launching", "", err);
    b1i_gpu_submitted(gpu, 1, b1i_gpu_launch_name(launch));
    st = b1i_gpu_start(gpu, launch, false, "launching", "", err);
    if (st == B1_OK) b1i_gpu_submitted(gpu, 0, NULL);
    return st;
}

b1_status b1i_gpu_run_each(b1i_gpu *gpu, const b1i_gpu_launch *launches, int count, int sets, int first, int times,
                           b1_error *err)
{
    if (count < 1 || sets < 1 || times < 1) return B1_OK;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    const long long all = (long long)count * times;
    if (!gpu->blocking)
        b1i_gpu_submitted(gpu, all < 1000000000 ? (int)all : 1000000000, b1i_gpu_launch_name(&launches[count - 1]));
    for (int i = 0; st == B1_OK && i < times; i++) {
        const b1i_gpu_launch *list = launches + (size_t)first * (size_t)count;
        for (int k = 0; st == B1_OK && k < count; k++) st = run(gpu, &list[k], err);
        first = first + 1 == sets ? 0 : first + 1;
    }
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_run(b1i_gpu *gpu, const b1i_gpu_launch *launch, b1_error *err)
{
    return b1i_gpu_run_each(gpu, launch, 1, 1, 0, 1, err);
}

/* ---- beside ---- */

static void set_beside(b1i_gpu *gpu, const char *name)
{
    pthread_mutex_lock(&gpu->lock);
    gpu->beside_name = name;
    pthread_mutex_unlock(&gpu->lock);
}

b1_status b1i_gpu_beside_start(b1i_gpu *gpu, const b1i_gpu_launch *launch, b1_error *err)
{
    if (gpu->blocking)
        return b1i_fail(err, B1_UNSUPPORTED, "nothing runs beside other kernels while CUDA_LAUNCH_BLOCKING=1 is set");
    if (!launch->kernel) return b1i_fail(err, B1_DEVICE, "what runs beside must be a kernel");
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    B1I_TRY(b1i_gpu_launch_fits(gpu, launch, err));
    if (!gpu->beside) B1I_CU(gpu, cuStreamCreate(&gpu->beside, CU_STREAM_NON_BLOCKING), "making a second stream");
    set_beside(gpu, launch->kernel->name);
    st = start_kernel(gpu, gpu->beside, launch, false, "launching", " beside", err);
    if (st) set_beside(gpu, NULL);
fail:
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_beside_wait(b1i_gpu *gpu, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    if (gpu->beside) B1I_CU(gpu, cuStreamSynchronize(gpu->beside), "waiting for what ran beside");
    set_beside(gpu, NULL);
fail:
    b1i_gpu_end(gpu);
    return st;
}

#endif
