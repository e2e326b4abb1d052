/* SPDX-License-Identifier: MIT
 *
 * What cells of several experiments need: why a mode has no meaning, how much memory they may take, and their graphs as
 * files.
 */
#ifndef LAB_EXPERIMENTS_CELLS_H
#define LAB_EXPERIMENTS_CELLS_H

#include "lab/lab.h"
#include "lab/work.h"

/* B1_UNSUPPORTED where `mode` is pdl and the device has no programmatic launch, or the work has a single kernel: only
 * an edge from one kernel to the next can be programmatic. */
b1_status b1i_cells_mode_fits(b1i_lab_device *device, b1i_lab_mode mode, int kernels, b1_error *err);

/* B1_MEMORY where `bytes` are more than a quarter of what the device has free. */
b1_status b1i_cells_room(b1i_lab_device *device, const char *what, uint64_t bytes, b1_error *err);

/* Bytes of the device's last cache: a GPU's L2; a CPU's caches past the first level together, which are no less than
 * its last. Where it is not known, 64 MiB. */
uint64_t b1i_cells_cache_bytes(b1i_lab_device *device);

/* Shared memory of a block that leaves no room for a second one on an SM. */
unsigned b1i_cells_alone_bytes(b1i_gpu *gpu);

/* Twins of the slowest and of the fastest way to submit what "PLACE/…" does: separate_stream, fused_graph. */
b1_status b1i_cells_twins(b1i_lab *lab, const char *place, b1_error *err);

/* graphs/CELL.dot and graphs/CELL.json (what the driver says of its nodes and edges, what making it took); nothing
 * where the cell was not measured or its work has no graph of the driver's. */
b1_status b1i_cells_graph(b1i_lab *lab, const char *cell, b1i_lab_work *work, b1_error *err);
/* Of all cells that are works: the after() of an experiment that has nothing else to leave. `state` is not asked. */
b1_status b1i_cells_graphs(b1i_lab *lab, void *state, b1_error *err);

#endif
