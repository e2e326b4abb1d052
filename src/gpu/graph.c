/* SPDX-License-Identifier: MIT
 *
 * Graphs: a chain of launches (kernels and memsets), captured and instantiated once; what it is read back from the
 * driver's graph.
 *
 * A programmatic edge leaves its kernel by the programmatic port: it lets the next kernel start when every block of
 * this one has called griddepcontrol.launch_dependents or ended, and griddepcontrol.wait there returns when this one
 * has ended and its writes are visible. The edges come from a capture of launches with programmatic stream
 * serialisation: given to cuGraphAddDependencies with their ports, the driver (580) made full dependencies of them. The
 * order over more than one edge is the kernels' business: each must wait before it ends.
 */
#include "gpu/gpu.h"

#if B1_CUDA

#include "gpu/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct b1i_gpu_graph {
    CUgraph graph;
    CUgraphExec exec;
    int kernels;           /* and memsets */
    const char *last_name; /* of the last of them */
    b1i_gpu_graph_setup setup;
};

/* The launches as a stream would have them, which the driver turns into nodes and edges. */
static b1_status capture(b1i_gpu *gpu, const b1i_gpu_launch *launches, int count, bool programmatic, b1_error *err)
{
    b1_status st = B1_OK;
    for (int i = 0; st == B1_OK && i < count; i++) {
        const bool early =
            programmatic && i > 0 && launches[i].kernel && launches[i - 1].kernel && !launches[i].full_edge;
        st = b1i_gpu_launch_fits(gpu, &launches[i], err);
        if (st == B1_OK) st = b1i_gpu_start(gpu, &launches[i], early, "adding", ", to a graph", err);
    }
    return st;
}

/* The stream is itself again when this returns, whatever failed. */
static b1_status build(b1i_gpu *gpu, CUgraph *graph, const b1i_gpu_launch *launches, int count, bool programmatic,
                       b1_error *err)
{
    b1_status st;
    B1I_CU(gpu, cuStreamBeginCapture_v2(gpu->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "making a graph");
    st = capture(gpu, launches, count, programmatic, err);
    if (st != B1_OK) {
        gpu->cu->cuStreamEndCapture(gpu->stream, graph); /* ends it; a graph, if it gives one, goes with *graph */
        goto fail;
    }
    B1I_CU(gpu, cuStreamEndCapture(gpu->stream, graph), "making a graph");
fail:
    return st;
}

/* Captures, instantiates and uploads, each timed on a stream where nothing is under way. */
static b1_status make(b1i_gpu *gpu, b1i_gpu_graph *graph, const b1i_gpu_launch *launches, int count, bool programmatic,
                      b1_error *err)
{
    b1_status st;
    b1i_gpu_graph_setup *setup = &graph->setup;
    B1I_CU(gpu, cuStreamSynchronize(gpu->stream), "waiting to make a graph");
    b1i_gpu_submitted(gpu, 0, NULL);
    uint64_t start = b1i_now_ns();
    B1I_TRY(build(gpu, &graph->graph, launches, count, programmatic, err));
    setup->capture_ns = b1i_now_ns() - start;
    start = b1i_now_ns();
    B1I_CU(gpu, cuGraphInstantiate(&graph->exec, graph->graph, 0), "instantiating a graph");
    setup->instantiate_ns = b1i_now_ns() - start;
    start = b1i_now_ns();
    B1I_CU(gpu, cuGraphUpload(graph->exec, gpu->stream), "uploading a graph");
    B1I_CU(gpu, cuStreamSynchronize(gpu->stream), "uploading a graph");
    setup->upload_ns = b1i_now_ns() - start;
fail:
    return st;
}

static void destroy(b1i_gpu *gpu, b1i_gpu_graph *graph)
{
    if (!graph) return;
    if (graph->exec) gpu->cu->cuGraphExecDestroy(graph->exec);
    if (graph->graph) gpu->cu->cuGraphDestroy(graph->graph);
    b1i_free(graph);
}

b1_status b1i_gpu_graph_create(b1i_gpu *gpu, const b1i_gpu_launch *launches, int count, bool programmatic,
                               b1i_gpu_graph **out, b1_error *err)
{
    *out = NULL;
    if (count < 1) return b1i_fail(err, B1_ARGUMENT, "a graph needs a launch");
    if (programmatic && gpu->info.major < 9) {
        return b1i_fail(err, B1_UNSUPPORTED,
                        "GPU %d (%s) has compute capability %d.%d; programmatic launch needs 9.0 or later",
                        gpu->info.ordinal, gpu->info.name, gpu->info.major, gpu->info.minor);
    }
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    b1i_gpu_graph *graph = b1i_calloc(1, sizeof *graph);
    if (!graph) {
        st = b1i_fail_memory(err, sizeof *graph);
        goto fail;
    }
    graph->kernels = count;
    graph->last_name = b1i_gpu_launch_name(&launches[count - 1]);
    B1I_TRY(make(gpu, graph, launches, count, programmatic, err));
    *out = graph;
    graph = NULL;
fail:
    destroy(gpu, graph);
    b1i_gpu_end(gpu);
    return st;
}

void b1i_gpu_graph_destroy(b1i_gpu *gpu, b1i_gpu_graph *graph)
{
    if (!gpu || !graph) return;
    if (gpu->cu->cuCtxPushCurrent(gpu->context) == CUDA_SUCCESS) {
        destroy(gpu, graph);
        b1i_gpu_end(gpu);
    } else {
        b1i_free(graph); /* of a dead context; the rest goes with it */
    }
}

b1_status b1i_gpu_graph_run_each(b1i_gpu *gpu, b1i_gpu_graph *const *graphs, int sets, int first, int times,
                                 b1_error *err)
{
    if (sets < 1 || times < 1) return B1_OK;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    const long long all = (long long)graphs[first]->kernels * times;
    b1i_gpu_submitted(gpu, all < 1000000000 ? (int)all : 1000000000, graphs[first]->last_name);
    for (int i = 0; st == B1_OK && i < times; i++) {
        st = b1i_gpu_check(gpu, gpu->cu->cuGraphLaunch(graphs[first]->exec, gpu->stream), "launching a graph", err);
        first = first + 1 == sets ? 0 : first + 1;
    }
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_graph_run(b1i_gpu *gpu, b1i_gpu_graph *graph, b1_error *err)
{
    return b1i_gpu_graph_run_each(gpu, &graph, 1, 0, 1, err);
}

void b1i_gpu_graph_get_setup(const b1i_gpu_graph *graph, b1i_gpu_graph_setup *out) { *out = graph->setup; }

/* ---- reading back ---- */

static b1_status count_nodes(b1i_gpu *gpu, CUgraph graph, b1i_gpu_graph_info *out, b1_error *err)
{
    b1_status st = B1_OK;
    CUgraphNode *nodes = NULL;
    size_t count = 0;
    B1I_CU(gpu, cuGraphGetNodes(graph, NULL, &count), "reading a graph's nodes");
    nodes = b1i_calloc(count, sizeof *nodes);
    if (!nodes) {
        st = b1i_fail_memory(err, count * sizeof *nodes);
        goto fail;
    }
    if (count) B1I_CU(gpu, cuGraphGetNodes(graph, nodes, &count), "reading a graph's nodes");
    out->nodes = (int)count;
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        B1I_CU(gpu, cuGraphNodeGetType(nodes[i], &type), "reading a graph's nodes");
        out->kernel_nodes += type == CU_GRAPH_NODE_TYPE_KERNEL;
        out->memset_nodes += type == CU_GRAPH_NODE_TYPE_MEMSET;
    }
fail:
    b1i_free(nodes);
    return st;
}

static b1_status count_edges(b1i_gpu *gpu, CUgraph graph, b1i_gpu_graph_info *out, b1_error *err)
{
    b1_status st = B1_OK;
    CUgraphNode *ends = NULL;
    CUgraphEdgeData *edges = NULL;
    size_t count = 0;
    B1I_CU(gpu, cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &count), "reading a graph's edges");
    ends = b1i_calloc(count, 2 * sizeof *ends);
    edges = b1i_calloc(count, sizeof *edges);
    if (!ends || !edges) {
        st = b1i_fail_memory(err, count * 2 * sizeof *ends);
        goto fail;
    }
    if (count) {
        B1I_CU(gpu, cuGraphGetEdges_v2(graph, ends, ends + count, edges, &count), "reading a graph's edges");
    }
    out->edges = (int)count;
    for (size_t i = 0; i < count; i++)
        out->programmatic_edges += edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
fail:
    b1i_free(ends);
    b1i_free(edges);
    return st;
}

b1_status b1i_gpu_graph_describe(b1i_gpu *gpu, b1i_gpu_graph *graph, b1i_gpu_graph_info *out, b1_error *err)
{
    *out = (b1i_gpu_graph_info){0};
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    st = count_nodes(gpu, graph->graph, out, err);
    if (!st) st = count_edges(gpu, graph->graph, out, err);
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_graph_dot(b1i_gpu *gpu, b1i_gpu_graph *graph, const char *path, b1_error *err)
{
    b1_status st = B1_OK;
    bool begun = false;
    int fd = -1;
    struct stat there;
    /* A device or a pipe (/dev/stdout) must not be replaced; it is written as it is. */
    const bool replaced = stat(path, &there) != 0 || S_ISREG(there.st_mode);
    size_t bytes = strlen(path) + 32;
    char *temporary = b1i_malloc(bytes);
    if (!temporary) return b1i_fail_memory(err, bytes);
    int length = snprintf(temporary, bytes, "%s", path);
    if (replaced) snprintf(temporary + length, bytes - (size_t)length, ".%ld.part", (long)getpid());
    B1I_TRY(b1i_gpu_begin(gpu, err));
    begun = true;
    /* Made here, for the driver does not say why it cannot. */
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        st = b1i_fail(err, B1_IO, "%s cannot be written: %s", path, strerror(errno));
        goto fail;
    }
    B1I_CU(gpu, cuGraphDebugDotPrint(graph->graph, temporary, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS),
           "writing a graph as DOT");
    if (replaced && rename(temporary, path))
        st = b1i_fail(err, B1_IO, "%s cannot be written: %s", path, strerror(errno));
fail:
    if (fd >= 0) close(fd);
    if (fd >= 0 && st && replaced) unlink(temporary);
    if (begun) b1i_gpu_end(gpu);
    b1i_free(temporary);
    return st;
}

#endif
