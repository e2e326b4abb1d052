/* SPDX-License-Identifier: MIT
 *
 * What the files of this room share: the driver's entry points, a b1i_gpu's parts, and how an error of the driver
 * becomes a sentence. Only for src/gpu/ *.c, only where there is CUDA.
 *
 * Every call on a b1i_gpu is bracketed by b1i_gpu_begin(), which makes its context current, and b1i_gpu_end(), which
 * gives the thread back the context that it had: an application that uses CUDA itself never sees ours.
 */
#ifndef B1I_GPU_DRIVER_H
#define B1I_GPU_DRIVER_H

#include "gpu/gpu.h"

#include <cuda.h>
#include <pthread.h>

/* Of cudaProfiler.h, which not every toolkit's folder has. */
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);

/* Names as <cuda.h> maps them: its macros name the version of each entry point that its types belong to, and are
 * expanded wherever a name of this list is used. */
/* clang-format off */
#define B1I_DRIVER_MAP(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) \
    X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem) \
    X(cuDeviceGetAttribute) \
    X(cuCtxCreate) X(cuCtxDestroy) X(cuCtxPushCurrent) X(cuCtxPopCurrent) \
    X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery) \
    X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer) \
    X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) \
    X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncGetAttribute) X(cuFuncSetAttribute) \
    X(cuFuncLoad) X(cuFuncGetParamInfo) X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuLaunchKernelEx) \
    X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize) X(cuEventElapsedTime) \
    X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) X(cuGraphDestroy) X(cuGraphInstantiate) \
    X(cuGraphExecDestroy) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphGetNodes) X(cuGraphGetEdges_v2) \
    X(cuGraphNodeGetType) X(cuGraphDebugDotPrint) \
    X(cuProfilerStart) X(cuProfilerStop)
/* clang-format on */

typedef struct b1i_driver {
#define B1I_DRIVER_MEMBER(name) __typeof__(name) *name;
    B1I_DRIVER_MAP(B1I_DRIVER_MEMBER)
#undef B1I_DRIVER_MEMBER
    int version; /* of the driver */
} b1i_driver;

/* The driver, opened and initialised once a process; NULL, with the sentence of the first attempt, where it is not
 * there or too old. */
const b1i_driver *b1i_driver_get(b1_error *err);
/* "CUDA_ERROR_X (text)" of the driver; static storage of the thread. */
const char *b1i_driver_text(const b1i_driver *cu, CUresult result);
/* Device `ordinal`, or a sentence that says how many there are. */
b1_status b1i_driver_device(const b1i_driver *cu, int ordinal, CUdevice *out, b1_error *err);
/* "GPU-" and 32 hexadecimal digits in the groups that NVML and nvidia-smi write; 41 bytes. */
void b1i_driver_write_uuid(char *out, size_t size, const CUuuid *uuid);
/* What NVML says is free on the device of this UUID; 0: nothing. */
uint64_t b1i_nvml_free_bytes(const char *uuid);

typedef struct b1i_gpu_memory {
    struct b1i_gpu_memory *next;
    CUdeviceptr device; /* 0: pinned */
    void *host;
    size_t bytes;
} b1i_gpu_memory;

typedef struct b1i_gpu_module {
    struct b1i_gpu_module *next;
    CUmodule module;
    const void *image; /* of the caller: loaded once */
} b1i_gpu_module;

struct b1i_gpu_kernel {
    struct b1i_gpu_kernel *next;
    CUfunction function;
    size_t shared_bytes; /* dynamic shared memory that is allowed */
    size_t own_bytes;    /* of shared memory, besides */
    size_t arg_bytes;    /* of its one parameter; 0: not known */
    char name[];
};

struct b1i_gpu {
    const b1i_driver *cu;
    b1i_gpu_info info;
    CUcontext context;
    CUstream stream;
    CUstream beside;      /* NULL until something was started there */
    pthread_mutex_t lock; /* of `memory`, `poison`, `running`, `beside_name` */
    b1i_gpu_memory *memory;
    b1i_gpu_module *modules;
    b1i_gpu_kernel *kernels;
    /* What was submitted since the last wait: how many kernels, the last one's name (a kernel's own, or static). */
    int running;
    const char *running_name;
    const char *beside_name; /* the kernel that was started beside and not waited for; NULL: none */
    bool blocking;           /* CUDA_LAUNCH_BLOCKING: a launch of a stream returns when its kernel has ended */
    bool poisoned;
    b1_error poison;
};

/* Fails where the gpu is poisoned; else its context is current until b1i_gpu_end(). */
b1_status b1i_gpu_begin(b1i_gpu *gpu, b1_error *err);
void b1i_gpu_end(b1i_gpu *gpu);
/* Turns what the driver returned into a status; `doing` ends "while …" of the sentence, e.g. "copying to the device".
 * Poisons the gpu where the error is one that a context does not survive. */
b1_status b1i_gpu_check(b1i_gpu *gpu, CUresult result, const char *doing, b1_error *err);
/* Whether the launch is one that its kernel can take. */
b1_status b1i_gpu_launch_fits(const b1i_gpu *gpu, const b1i_gpu_launch *launch, b1_error *err);
/* Gives the launch, which fits, to the stream (or to its capture); `early`: it may start before the one before it has
 * ended. A failure's sentence has `doing`, the kernel and its shape, `where`. */
b1_status b1i_gpu_start(b1i_gpu *gpu, const b1i_gpu_launch *launch, bool early, const char *doing, const char *where,
                        b1_error *err);
/* The launch's kernel's name; "memset". */
const char *b1i_gpu_launch_name(const b1i_gpu_launch *launch);
/* `kernels` (or memsets) more were submitted, the last of them `name`; 0: all that was submitted has ended. */
void b1i_gpu_submitted(b1i_gpu *gpu, int kernels, const char *name);
/* Shortest form of b1i_gpu_check in functions with `st` and `fail:`. */
#define B1I_CU(gpu, call, doing) B1I_TRY(b1i_gpu_check(gpu, (gpu)->cu->call, doing, err))

#endif
