/* SPDX-License-Identifier: MIT
 *
 * The GPU as a device of the lab: works as lists of launches or as graphs, and the clock of its SMs.
 *
 * A submission is one call into the GPU's room, whatever its number of invocations, so that a batch's time is that of
 * the driver's calls.
 */
#include "lab/work_parts.h"

#include "lab/fatbins.h"
#include "lab/kernels/probe_args.h"

#include <string.h>

enum { PROBE_NS = 50000 };

b1_status b1i_lab_gpu_open(b1i_lab_device *device, int ordinal, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_gpu_open(ordinal, &device->gpu, err));
    B1I_TRY(b1i_lab_load_kernels(device->gpu, err));
    B1I_TRY(b1i_gpu_event_create(device->gpu, true, &device->from, err));
    B1I_TRY(b1i_gpu_event_create(device->gpu, true, &device->to, err));
    B1I_TRY(b1i_gpu_alloc(device->gpu, 3 * sizeof(uint64_t), "the clock's probe", &device->clock, err));
fail:
    return st;
}

void b1i_lab_gpu_close(b1i_lab_device *device)
{
    b1i_gpu_free(device->gpu, device->clock);
    b1i_gpu_event_destroy(device->gpu, device->to);
    b1i_gpu_event_destroy(device->gpu, device->from);
    b1i_gpu_close(device->gpu);
    device->gpu = NULL;
}

/* The operation as a launch; its kernel is allowed the shared memory that it asks for. */
static b1_status make_launch(b1i_gpu *gpu, const b1i_lab_op *op, b1i_gpu_launch *out, b1_error *err)
{
    *out = (b1i_gpu_launch){.fill = op->fill, .fill_bytes = op->fill_bytes};
    if (!op->kernel && op->body) return b1i_fail(err, B1_UNSUPPORTED, "an operation has no meaning on a GPU");
    if (!op->kernel) return B1_OK;
    *out = (b1i_gpu_launch){.grid = {op->grid, op->grid_y ? op->grid_y : 1, op->grid_z ? op->grid_z : 1},
                            .threads = op->threads,
                            .shared_bytes = op->shared_bytes,
                            .arg_bytes = op->arg_bytes};
    memcpy(out->args, op->args, op->arg_bytes);
    return b1i_gpu_kernel_get(gpu, op->kernel, op->shared_bytes, &out->kernel, err);
}

static b1_status make_graphs(b1i_lab_work *work, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_gpu *gpu = work->device->gpu;
    work->graphs = b1i_calloc((size_t)work->sets, sizeof(b1i_gpu_graph *));
    if (!work->graphs) return b1i_fail_memory(err, (size_t)work->sets * sizeof(b1i_gpu_graph *));
    for (int i = 0; i < work->sets; i++) {
        B1I_TRY(b1i_gpu_graph_create(gpu, work->launches + (size_t)i * (size_t)work->count, work->count,
                                     work->mode == b1i_lab_pdl, &work->graphs[i], err));
    }
    b1i_gpu_graph_get_setup(work->graphs[0], &work->setup);
    b1i_free(work->launches); /* the graphs have copies */
    work->launches = NULL;
fail:
    return st;
}

b1_status b1i_lab_gpu_create(b1i_lab_work *work, const b1i_lab_op *ops, b1_error *err)
{
    b1_status st = B1_OK;
    const size_t count = (size_t)work->count * (size_t)work->sets;
    work->launches = b1i_calloc(count, sizeof *work->launches);
    if (!work->launches) return b1i_fail_memory(err, count * sizeof *work->launches);
    for (size_t i = 0; i < count; i++) B1I_TRY(make_launch(work->device->gpu, &ops[i], &work->launches[i], err));
    if (work->mode != b1i_lab_stream) B1I_TRY(make_graphs(work, err));
fail:
    return st;
}

void b1i_lab_gpu_destroy(b1i_lab_work *work)
{
    for (int i = 0; work->graphs && i < work->sets; i++) b1i_gpu_graph_destroy(work->device->gpu, work->graphs[i]);
    b1i_free(work->graphs);
    b1i_free(work->launches);
}

b1_status b1i_lab_gpu_submit(b1i_lab_work *work, int invocations, b1_error *err)
{
    b1i_gpu *gpu = work->device->gpu;
    const int first = work->next;
    if (invocations < 1) return B1_OK;
    work->next = (int)(((long long)first + invocations) % work->sets);
    if (work->mode != b1i_lab_stream)
        return b1i_gpu_graph_run_each(gpu, work->graphs, work->sets, first, invocations, err);
    return b1i_gpu_run_each(gpu, work->launches, work->count, work->sets, first, invocations, err);
}

b1_status b1i_lab_gpu_interval(b1i_lab_work *work, int invocations, double *ns, b1_error *err)
{
    b1_status st;
    b1i_lab_device *d = work->device;
    uint64_t took = 0;
    B1I_TRY(b1i_gpu_event_record(d->gpu, d->from, err));
    B1I_TRY(b1i_lab_gpu_submit(work, invocations, err));
    B1I_TRY(b1i_gpu_event_record(d->gpu, d->to, err));
    B1I_TRY(b1i_gpu_sync(d->gpu, err));
    B1I_TRY(b1i_gpu_event_ns(d->gpu, d->from, d->to, &took, err));
    *ns = (double)took;
fail:
    return st;
}

/* ---- what the driver says of the graphs ---- */

b1_status b1i_lab_work_graph(b1i_lab_work *work, json_t **out, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_gpu_graph_info info = {0}, other;
    *out = NULL;
    if (!work->graphs) return B1_OK;
    B1I_TRY(b1i_gpu_graph_describe(work->device->gpu, work->graphs[0], &info, err));
    for (int i = 1; i < work->sets; i++) {
        B1I_TRY(b1i_gpu_graph_describe(work->device->gpu, work->graphs[i], &other, err));
        if (memcmp(&info, &other, sizeof info) != 0)
            return b1i_fail(err, B1_DEVICE, "the graph of set %d of a work is another one than that of set 0", i);
    }
    *out = json_pack("{s:i,s:i,s:i,s:i,s:i}", "nodes", info.nodes, "kernel_nodes", info.kernel_nodes, "memset_nodes",
                     info.memset_nodes, "edges", info.edges, "programmatic_edges", info.programmatic_edges);
    if (!*out) st = b1i_fail(err, B1_MEMORY, "not enough memory for the description of a graph");
fail:
    return st;
}

b1_status b1i_lab_work_dot(b1i_lab_work *work, const char *path, b1_error *err)
{
    if (!work->graphs) {
        return b1i_fail(err, B1_UNSUPPORTED, "a work of mode %s%s has no graph that a driver could write as DOT",
                        b1i_lab_mode_names[work->mode], work->device->cpu ? " on the CPU" : "");
    }
    return b1i_gpu_graph_dot(work->device->gpu, work->graphs[0], path, err);
}

/* ---- the clock ---- */

b1_status b1i_lab_probe_clock(b1i_lab_device *device, double *sm_mhz, double *tick_ns, b1_error *err)
{
    b1_status st = B1_OK;
    *sm_mhz = *tick_ns = 0;
    if (device->cpu) return B1_OK;
    const b1i_clock_args args = {.ns = PROBE_NS, .out = device->clock};
    uint64_t seen[3] = {0};
    b1i_gpu_launch launch = {.grid = {1, 1, 1}, .threads = 1, .arg_bytes = sizeof args};
    memcpy(launch.args, &args, sizeof args);
    B1I_TRY(b1i_gpu_kernel_get(device->gpu, "k_clock", 0, &launch.kernel, err));
    B1I_TRY(b1i_gpu_run(device->gpu, &launch, err));
    B1I_TRY(b1i_gpu_download(device->gpu, seen, device->clock, sizeof seen, err));
    if (!seen[1]) return b1i_fail(err, B1_DEVICE, "the clock's probe saw no time pass");
    *sm_mhz = (double)seen[0] * 1e3 / (double)seen[1];
    *tick_ns = (double)seen[2];
fail:
    return st;
}
