/* SPDX-License-Identifier: MIT
 *
 * What cells of several experiments need. See cells.h.
 */
#include "lab/experiments/cells.h"

#include "lab/evidence.h"
#include "lab/machine.h"
#include "lab/profile.h"
#include "lab/run.h"

#include <stdio.h>

b1_status b1i_cells_mode_fits(b1i_lab_device *device, b1i_lab_mode mode, int kernels, b1_error *err)
{
    if (mode != b1i_lab_pdl) return B1_OK;
    if (!b1i_lab_device_gpu(device))
        return b1i_fail(err, B1_UNSUPPORTED, "the CPU has no programmatic launch: its workers meet between operations");
    if (kernels > 1) return B1_OK;
    return b1i_fail(
        err, B1_UNSUPPORTED,
        "an edge is programmatic between two kernels, and this graph has one: as mode graph it is the same");
}

b1_status b1i_cells_room(b1i_lab_device *device, const char *what, uint64_t bytes, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_gpu *gpu = b1i_lab_device_gpu(device);
    uint64_t free_bytes = b1i_memory_available();
    if (gpu) B1I_TRY(b1i_gpu_free_bytes(gpu, &free_bytes, err));
    if (bytes > free_bytes / 4) {
        st =
            b1i_fail(err, B1_MEMORY, "%s takes %.0f MiB, and only a quarter of the %.0f MiB that are free may be taken",
                     what, (double)bytes / 0x1p20, (double)free_bytes / 0x1p20);
    }
fail:
    return st;
}

uint64_t b1i_cells_cache_bytes(b1i_lab_device *device)
{
    b1i_gpu *gpu = b1i_lab_device_gpu(device);
    uint64_t bytes = gpu ? b1i_gpu_get_info(gpu)->l2_bytes : b1i_machine_cache_bytes();
    return bytes ? bytes : 64ull << 20;
}

unsigned b1i_cells_alone_bytes(b1i_gpu *gpu) { return (unsigned)b1i_gpu_get_info(gpu)->shared_bytes_sm / 2 + 1024; }

b1_status b1i_cells_twins(b1i_lab *lab, const char *place, b1_error *err)
{
    char name[96];
    snprintf(name, sizeof name, "%s/separate_stream", place);
    b1_status st = b1i_lab_add_twin(lab, name, err);
    if (st != B1_OK) return st;
    snprintf(name, sizeof name, "%s/fused_graph", place);
    return b1i_lab_add_twin(lab, name, err);
}

/* Adds what making the graph took; `graph` is taken over, and returned. */
static json_t *with_setup(json_t *graph, const b1i_lab_setup *setup)
{
    json_t *took = json_pack("{sI sI sI}", "capture_ns", (json_int_t)setup->capture_ns, "instantiate_ns",
                             (json_int_t)setup->instantiate_ns, "upload_ns", (json_int_t)setup->upload_ns);
    if (took && json_object_set_new(graph, "setup", took) == 0) return graph;
    json_decref(graph);
    return NULL;
}

b1_status b1i_cells_graph(b1i_lab *lab, const char *cell, b1i_lab_work *work, b1_error *err)
{
    b1_status st;
    b1i_evidence *evidence = b1i_lab_get_evidence(lab);
    json_t *graph = NULL;
    char file[192], name[224], *path = NULL;
    if (!b1i_lab_cell_ok(lab, cell)) return B1_OK;
    B1I_TRY(b1i_lab_work_graph(work, &graph, err));
    if (!graph) return B1_OK;
    graph = with_setup(graph, b1i_lab_work_setup(work));
    if (!graph) return b1i_fail_memory(err, 0);
    b1i_lab_file_name(cell, file, sizeof file);
    snprintf(name, sizeof name, "graphs/%s.json", file);
    st = b1i_evidence_json(evidence, name, graph, err);
    graph = NULL; /* taken over */
    if (st != B1_OK) goto fail;
    snprintf(name, sizeof name, "graphs/%s.dot", file);
    B1I_TRY(b1i_evidence_path(evidence, name, &path, err));
    st = b1i_lab_work_dot(work, path, err);
fail:
    json_decref(graph);
    b1i_free(path);
    return st;
}

b1_status b1i_cells_graphs(b1i_lab *lab, void *state, b1_error *err)
{
    (void)state;
    b1_status st = B1_OK;
    for (size_t i = 0; st == B1_OK && i < lab->plan.count; i++) {
        const b1i_lab_work_cell *cell = b1i_profile_work(lab, i);
        if (cell) st = b1i_cells_graph(lab, lab->plan.cells[i].name, cell->work, err);
    }
    return st;
}
