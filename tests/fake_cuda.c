/* SPDX-License-Identifier: MIT
 *
 * A CUDA driver without a GPU, as libcuda.so.1: what src/gpu asks of one, in this process's memory. It runs the kernels
 * of tests/kernels/gpu.cu in C and treats all others as done at once. Strict where a driver is lenient: a
 * call without a current context fails, a stream that is captured takes launches and memsets alone, a failed launch
 * spoils its capture, and every object is counted.
 *
 * A test steers it through the variables below, found with dlsym, and through the environment: FAKE_CUDA_VERSION,
 * FAKE_CUDA_DEVICES, FAKE_CUDA_MAJOR, FAKE_CUDA_SMS, FAKE_CUDA_SHARED (bytes that a block may opt in to).
 */
#include "cuda/args.h"
#include "kernels/gpu_args.h"
#include "lab/kernels/probe_args.h"

#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH = 16, LAUNCH_BYTES = 512, NODES = 256 };

struct CUctx_st {
    CUresult sticky;
};
struct CUstream_st {
    CUgraph captured; /* while it is captured */
    bool spoilt;      /* something failed since the capture began */
};
struct CUevent_st {
    bool recorded;
    double ms;
};
struct CUmod_st {
    char unused;
};
struct CUfunc_st {
    const char *name;
    size_t arg_bytes;
    int shared;
};
struct CUgraphNode_st {
    CUfunction function; /* NULL: a memset */
    unsigned char args[LAUNCH_BYTES];
    CUdeviceptr to;
    unsigned char byte;
    size_t bytes;
};
struct CUgraph_st {
    size_t nodes, edges;
    struct CUgraphNode_st node[NODES];
    CUgraphNode from[NODES], to[NODES];
    CUgraphEdgeData edge[NODES];
};
struct CUgraphExec_st {
    struct CUgraph_st graph; /* a copy: the graph may go first */
    unsigned id;
};

static struct CUfunc_st functions[] = {
    {"k_test_step", sizeof(test_gpu_args), 48 << 10},
    {"k_test_fault", sizeof(test_gpu_args), 48 << 10},
    {"k_spin", sizeof(b1i_spin_args), 48 << 10},
    {"k_clock", sizeof(b1i_clock_args), 48 << 10},
    {"k_read_plain", 32, 48 << 10},
    {"k_read_bulk", 32, 48 << 10},
    {"k_begin", sizeof(b1i_begin_args), 48 << 10},
#define LINEAR(format)                                                \
    {"k_linear_" #format "_one", sizeof(b1i_linear_args), 48 << 10},  \
    {                                                                 \
        "k_linear_" #format "_few", sizeof(b1i_linear_args), 48 << 10 \
    }
    LINEAR(bf16),
    LINEAR(f16),
    LINEAR(f32),
    LINEAR(i8),
    LINEAR(i4),
    {"k_attention_64", sizeof(b1i_attention_args), 48 << 10},
    {"k_attention_96", sizeof(b1i_attention_args), 48 << 10},
    {"k_attention_128", sizeof(b1i_attention_args), 48 << 10},
    {"k_attention_256", sizeof(b1i_attention_args), 48 << 10},
    {"k_rmsnorm", sizeof(b1i_small_args), 48 << 10},
    {"k_headnorm", sizeof(b1i_small_args), 48 << 10},
    {"k_rope", sizeof(b1i_small_args), 48 << 10},
    {"k_kv_append", sizeof(b1i_small_args), 48 << 10},
    {"k_add", sizeof(b1i_small_args), 48 << 10},
    {"k_silu_mul", sizeof(b1i_small_args), 48 << 10},
};

/* Kernels that a test taught, and what they do: see fake_cuda_teach(). */
enum { TAUGHT = 32 };
typedef void (*fake_cuda_body)(const void *params, int worker, int workers);
static struct CUfunc_st taught[TAUGHT];
static fake_cuda_body bodies[TAUGHT];
static size_t taught_count;

/* ---- what a test steers and reads ---- */

/* A kernel `name`, a string that stays, of one parameter of `arg_bytes`, that is run as body(parameter, 0, 1). */
bool fake_cuda_teach(const char *name, size_t arg_bytes, fake_cuda_body body);
bool fake_cuda_teach(const char *name, size_t arg_bytes, fake_cuda_body body)
{
    if (taught_count == TAUGHT) return false;
    taught[taught_count] = (struct CUfunc_st){name, arg_bytes, 48 << 10};
    bodies[taught_count++] = body;
    return true;
}

long fake_cuda_fail_in = -1; /* calls until one fails; negative: none */
int fake_cuda_fail_with = CUDA_ERROR_OUT_OF_MEMORY;
long fake_cuda_live; /* objects and allocations */
int fake_cuda_depth; /* contexts that are pushed */
size_t fake_cuda_memory = (size_t)1 << 40;
double fake_cuda_ms; /* the device's clock */
/* Told what was done: a kernel, a memset, a copy, or a whole graph (0 … 3), of which graph, from when to when. */
void (*fake_cuda_did)(int what, const char *name, unsigned graph, double begin_ms, double end_ms);
int fake_cuda_spreads; /* whether a sticky error of one context is every other's too, and those made later */

static CUcontext stack[DEPTH];
static CUresult spread; /* the sticky error of all */

/* Whether a call of the driver that takes no context may go on. */
static CUresult entered(void)
{
    if (fake_cuda_fail_in >= 0 && fake_cuda_fail_in-- == 0) return (CUresult)fake_cuda_fail_with;
    return CUDA_SUCCESS;
}

/* An error that the current context keeps. */
static void stick(CUresult error)
{
    stack[fake_cuda_depth - 1]->sticky = error;
    if (fake_cuda_spreads) spread = error;
}

static CUresult stuck(CUcontext context)
{
    if (!fake_cuda_spreads) spread = CUDA_SUCCESS;
    return spread ? spread : context ? context->sticky : CUDA_SUCCESS;
}

static CUresult in_context(void)
{
    if (fake_cuda_depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = stuck(stack[fake_cuda_depth - 1]);
    if (r) return r;
    r = entered();
    if (r == CUDA_ERROR_LAUNCH_FAILED) stick(r);
    return r;
}

/* The same for a call on a stream that a capture does not allow. */
static CUresult in_stream(CUstream stream)
{
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = in_context();
    if (r || !stream->captured) return r;
    stream->spoilt = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

#define ENTER(check)                   \
    do {                               \
        CUresult entered_ = (check)(); \
        if (entered_) return entered_; \
    } while (0)

static void *make(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) abort();
    fake_cuda_live++;
    return p;
}

static CUresult unmake(void *p)
{
    free(p);
    fake_cuda_live--;
    return CUDA_SUCCESS;
}

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* ---- the driver and its devices ---- */

CUresult cuInit(unsigned int flags)
{
    (void)flags;
    return setting("FAKE_CUDA_DEVICES", 2) ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = setting("FAKE_CUDA_VERSION", CUDA_VERSION);
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **out)
{
    *out = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
           : error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                               : "CUDA_ERROR_OTHER";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **out)
{
    (void)error;
    *out = "as a fake driver says";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER(entered);
    *count = setting("FAKE_CUDA_DEVICES", 2);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(entered);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    ENTER(entered);
    (void)device;
    snprintf(name, (size_t)length, "Fake GPU");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    ENTER(entered);
    for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(i * 17 + device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    ENTER(entered);
    (void)device;
    *bytes = fake_cuda_memory;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    ENTER(entered);
    (void)device;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = setting("FAKE_CUDA_MAJOR", 9);
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = setting("FAKE_CUDA_SMS", 4);
        break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = 1 << 20;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = setting("FAKE_CUDA_SHARED", 227 << 10);
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        *value = setting("FAKE_CUDA_SHARED", 227 << 10) + (1 << 10);
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

/* ---- contexts and streams ---- */

#if CUDA_VERSION >= 13000
CUresult cuCtxCreate(CUcontext *out, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
    (void)params;
#else
CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device)
{
#endif
    (void)flags, (void)device;
    if (stuck(NULL)) return stuck(NULL);
    ENTER(entered);
    if (fake_cuda_depth == DEPTH) return CUDA_ERROR_INVALID_VALUE;
    *out = make(sizeof **out);
    stack[fake_cuda_depth++] = *out;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext context) { return unmake(context); }

CUresult cuCtxPushCurrent(CUcontext context)
{
    if (fake_cuda_depth == DEPTH) return CUDA_ERROR_INVALID_VALUE;
    stack[fake_cuda_depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    if (fake_cuda_depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--fake_cuda_depth];
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    ENTER(in_context);
    (void)flags;
    *out = make(sizeof **out);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) { return unmake(stream); }

CUresult cuStreamSynchronize(CUstream stream) { return in_stream(stream); }
CUresult cuStreamQuery(CUstream stream) { return in_stream(stream); }

static void tell(int what, const char *name, unsigned graph, double begin_ms);

/* ---- memory ---- */

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    ENTER(in_context);
    *free_bytes = fake_cuda_memory / 2;
    *total = fake_cuda_memory;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    ENTER(in_context);
    if (bytes > fake_cuda_memory / 2) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUdeviceptr)(uintptr_t)memset(make(bytes), 0xa5, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr memory) { return unmake((void *)(uintptr_t)memory); }

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    ENTER(in_context);
    (void)flags;
    *out = memset(make(bytes), 0xa5, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *memory) { return unmake(memory); }

CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *memory, unsigned int flags)
{
    ENTER(in_context);
    (void)flags;
    *out = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    CUresult r = in_stream(stream);
    if (r) return r;
    memcpy((void *)(uintptr_t)to, from, bytes);
    tell(2, "", 0, fake_cuda_ms);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CUresult r = in_stream(stream);
    if (r) return r;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    tell(2, "", 0, fake_cuda_ms);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CUresult r = in_stream(stream);
    if (r) return r;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    tell(2, "", 0, fake_cuda_ms);
    return CUDA_SUCCESS;
}

/* ---- modules and kernels ---- */

CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    ENTER(in_context);
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic != 0xba55ed50u || (uintptr_t)image % 8) return CUDA_ERROR_INVALID_IMAGE;
    *out = make(sizeof **out);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) { return unmake(module); }

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    ENTER(in_context);
    (void)module;
    for (size_t i = 0; i < taught_count; i++) {
        if (strcmp(taught[i].name, name) != 0) continue;
        *out = taught + i;
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].name, name) != 0) continue;
        *out = functions + i;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncLoad(CUfunction function)
{
    ENTER(in_context);
    (void)function;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    if (index) return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    *bytes = function->arg_bytes;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    ENTER(in_context);
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? function->shared : 32;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    ENTER(in_context);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) function->shared = value;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared)
{
    ENTER(in_context);
    (void)function;
    const int sm = setting("FAKE_CUDA_SHARED", 227 << 10) + (1 << 10), fit = sm / ((int)shared + (1 << 10));
    *blocks = threads > 0 ? 2048 / threads : 0;
    if (fit < *blocks) *blocks = fit;
    return CUDA_SUCCESS;
}

/* The kernels of the lab's probes, on the device's clock: 1500 MHz, a tick of 32 ns. */
static bool run_probe(const char *name, const void *params)
{
    if (strcmp(name, "k_spin") == 0) {
        b1i_spin_args q;
        memcpy(&q, params, sizeof q);
        fake_cuda_ms += (double)q.ns / 1e6;
    } else if (strcmp(name, "k_clock") == 0) {
        b1i_clock_args q;
        memcpy(&q, params, sizeof q);
        const uint64_t ns = (q.ns + 31) / 32 * 32, seen[] = {ns * 3 / 2, ns, 32};
        memcpy((void *)(uintptr_t)q.out, seen, sizeof seen);
        fake_cuda_ms += (double)ns / 1e6;
    } else {
        return false;
    }
    return true;
}

static void tell(int what, const char *name, unsigned graph, double begin_ms)
{
    if (fake_cuda_did) fake_cuda_did(what, name, graph, begin_ms, fake_cuda_ms);
}

/* Runs a kernel at once; what goes wrong in it is seen by the calls after it. */
static void run_kernel(CUfunction function, const void *params)
{
    if (run_probe(function->name, params)) return;
    fake_cuda_ms += 0.5;
    if (function >= taught && function < taught + taught_count) bodies[function - taught](params, 0, 1);
    if (strcmp(function->name, "k_test_fault") == 0) stick(CUDA_ERROR_ILLEGAL_ADDRESS);
    if (strcmp(function->name, "k_test_step") != 0) return;
    test_gpu_args q;
    memcpy(&q, params, sizeof q);
    const uint32_t *in = (const uint32_t *)(uintptr_t)q.in;
    uint32_t *out = (uint32_t *)(uintptr_t)q.out;
    for (uint32_t i = 0; i < q.count; i++) out[i] = 3 * in[(7 * i + 1) % q.count] + q.value;
}

static void run(CUfunction function, const void *params, unsigned graph)
{
    const double begin = fake_cuda_ms;
    run_kernel(function, params);
    tell(0, function->name, graph, begin);
}

static void clear(CUdeviceptr to, unsigned char byte, size_t bytes, unsigned graph)
{
    const double begin = fake_cuda_ms;
    memset((void *)(uintptr_t)to, byte, bytes);
    fake_cuda_ms += 0.001;
    tell(1, "", graph, begin);
}

/* From the node before the last to the last. */
static CUgraphEdgeData *add_edge(CUgraph graph)
{
    CUgraphNode node = &graph->node[graph->nodes - 1];
    graph->from[graph->edges] = node - 1;
    graph->to[graph->edges] = node;
    return &graph->edge[graph->edges++];
}

/* A launch of a captured stream: a node, and the edge that leads to it. */
static CUresult add_node(CUgraph graph, const CUlaunchConfig *config, CUfunction function, const void *params)
{
    if (graph->nodes == NODES) return CUDA_ERROR_OUT_OF_MEMORY;
    CUgraphNode node = &graph->node[graph->nodes++];
    node->function = function;
    memcpy(node->args, params, function->arg_bytes);
    if (graph->nodes == 1) return CUDA_SUCCESS;
    CUgraphEdgeData *edge = add_edge(graph);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) continue;
        if (!config->attrs[i].value.programmaticStreamSerializationAllowed) continue;
        if (!(node - 1)->function) return CUDA_ERROR_INVALID_VALUE; /* a memset starts nothing early */
        edge->type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
        edge->from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    }
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
    CUstream stream = config->hStream;
    CUresult r = in_context();
    (void)extra;
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!r && (!config->gridDimX || !config->gridDimY || !config->gridDimZ || !config->blockDimX ||
               config->blockDimX > 1024 || (int)config->sharedMemBytes > function->shared))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && stream->spoilt) r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!r && stream->captured)
        r = add_node(stream->captured, config, function, params[0]);
    else if (!r)
        run(function, params[0], 0);
    if (r && stream->captured) stream->spoilt = true;
    return r;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUgraph graph = stream->captured;
    CUresult r = in_context();
    if (!r && stream->spoilt) r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!r && graph && graph->nodes == NODES) r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r) {
        if (graph) stream->spoilt = true;
    } else if (graph) {
        graph->node[graph->nodes++] = (struct CUgraphNode_st){.to = to, .byte = byte, .bytes = bytes};
        if (graph->nodes > 1) add_edge(graph);
    } else {
        clear(to, byte, bytes, 0);
    }
    return r;
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    ENTER(in_context);
    (void)flags;
    *out = make(sizeof **out);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) { return unmake(event); }

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult r = in_stream(stream);
    if (r) return r;
    event->recorded = true;
    event->ms = fake_cuda_ms;
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER(in_context);
    (void)event;
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    ENTER(in_context);
    if (!from->recorded || !to->recorded) return CUDA_ERROR_INVALID_HANDLE;
    *ms = (float)(to->ms - from->ms);
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult r = in_stream(stream);
    if (r) return r;
    if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_INVALID_VALUE;
    stream->captured = make(sizeof *stream->captured);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) { return unmake(graph); }

/* Ends the capture whatever it returns. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *out)
{
    CUgraph graph = stream->captured;
    CUresult r = in_context();
    *out = NULL;
    if (!graph) return CUDA_ERROR_ILLEGAL_STATE;
    if (!r && stream->spoilt) r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->captured = NULL;
    stream->spoilt = false;
    if (r)
        unmake(graph);
    else
        *out = graph;
    return r;
}

CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    ENTER(in_context);
    static unsigned id;
    (void)flags;
    *out = make(sizeof **out);
    (*out)->graph = *graph;
    (*out)->id = ++id;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) { return unmake(exec); }

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    (void)exec;
    return in_stream(stream);
}

/* In the order of the nodes, which is that of a chain. */
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUresult r = in_stream(stream);
    if (r) return r;
    const double begin = fake_cuda_ms;
    for (size_t i = 0; i < exec->graph.nodes; i++) {
        const struct CUgraphNode_st *n = &exec->graph.node[i];
        if (n->function)
            run(n->function, n->args, exec->id);
        else
            clear(n->to, n->byte, n->bytes, exec->id);
    }
    tell(3, "", exec->id, begin);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    ENTER(in_context);
    if (nodes) {
        if (*count < graph->nodes) return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < graph->nodes; i++) nodes[i] = &graph->node[i];
    }
    *count = graph->nodes;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count)
{
    ENTER(in_context);
    if (from) {
        if (!to || !edges || *count < graph->edges) return CUDA_ERROR_INVALID_VALUE;
        memcpy(from, graph->from, graph->edges * sizeof *from);
        memcpy(to, graph->to, graph->edges * sizeof *to);
        memcpy(edges, graph->edge, graph->edges * sizeof *edges);
    }
    *count = graph->edges;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    ENTER(in_context);
    *type = node->function ? CU_GRAPH_NODE_TYPE_KERNEL : CU_GRAPH_NODE_TYPE_MEMSET;
    return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
    ENTER(in_context);
    (void)flags;
    FILE *f = fopen(path, "w");
    if (!f) return CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(f, "digraph dot {\n");
    for (size_t i = 0; i < graph->edges; i++)
        fprintf(f, "\"%ld\" -> \"%ld\"\n", (long)(graph->from[i] - graph->node), (long)(graph->to[i] - graph->node));
    fprintf(f, "}\n");
    fclose(f);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
CUresult cuProfilerStart(void) { return in_context(); }
CUresult cuProfilerStop(void) { return in_context(); }
