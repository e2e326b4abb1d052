/* SPDX-License-Identifier: MIT
 *
 * A work as a cell of the lab. See lab.h.
 *
 * The preflight runs each set once; then the output is made wrong, and what check() compares at the end was left by
 * invocations that were measured; only sets that none of them came to are run for it. As cells may share buffers, each
 * then runs its sets once more, alone.
 */
#include "lab/lab.h"
#include "lab/work.h"

static b1_status poison(b1i_lab_work_cell *cell, b1_error *err)
{
    cell->fresh = 0;
    return cell->poison ? cell->poison(cell->user, err) : B1_OK;
}

/* Runs what is left for each set to have run since the output was made wrong, and compares. */
static b1_status compare(b1i_lab_work_cell *cell, b1_error *err)
{
    b1_status st = B1_OK;
    if (cell->fresh < cell->sets) {
        B1I_TRY(b1i_lab_work_submit(cell->work, cell->sets - (int)cell->fresh, err));
        cell->fresh = cell->sets;
    }
    B1I_TRY(b1i_lab_device_wait(b1i_lab_get_device(cell->lab), err));
    if (cell->check) B1I_TRY(cell->check(cell->user, err));
fail:
    return st;
}

/* Edges from one kernel to the next: what mode pdl makes programmatic. */
static int kernel_edges(const b1i_lab_work_cell *cell)
{
    int edges = 0;
    for (int i = 1; i < cell->count; i++) edges += cell->ops[i - 1].kernel && cell->ops[i].kernel;
    return edges;
}

/* The driver's graph has the nodes that it must have, and programmatic edges where it must. */
static b1_status check_graph(b1i_lab_work_cell *cell, b1_error *err)
{
    json_t *graph = NULL;
    b1_status st = b1i_lab_work_graph(cell->work, &graph, err);
    if (st != B1_OK || !graph) return st;
    const json_int_t all = json_integer_value(json_object_get(graph, "nodes"));
    const json_int_t kernels = json_integer_value(json_object_get(graph, "kernel_nodes"));
    const json_int_t memsets = json_integer_value(json_object_get(graph, "memset_nodes"));
    if ((cell->kernels >= 0 && kernels != cell->kernels) || (cell->memsets >= 0 && memsets != cell->memsets) ||
        kernels + memsets != all || all != cell->count) {
        st = b1i_fail(err, B1_DEVICE,
                      "the driver's graph has %d nodes, %d of them kernels and %d memsets; expected are %d of %d "
                      "operations, %d and %d",
                      (int)all, (int)kernels, (int)memsets, cell->count, cell->count, cell->kernels, cell->memsets);
    }
    const json_int_t programmatic = json_integer_value(json_object_get(graph, "programmatic_edges"));
    const int wanted = cell->mode == b1i_lab_pdl ? kernel_edges(cell) : 0;
    if (st == B1_OK && programmatic != wanted) {
        st = b1i_fail(err, B1_DEVICE, "the driver's graph of mode %s has %d programmatic edges; expected are %d",
                      b1i_lab_mode_names[cell->mode], (int)programmatic, wanted);
    }
    json_decref(graph);
    return st;
}

static b1_status prepare(void *user, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_lab_work_cell *cell = user;
    const bool made = !cell->work; /* else it is the twin of one that was prepared */
    if (made) {
        B1I_TRY(b1i_lab_work_create(b1i_lab_get_device(cell->lab), (b1i_lab_mode)cell->mode, cell->ops, cell->count,
                                    cell->sets, &cell->work, err));
        B1I_TRY(check_graph(cell, err));
    }
    B1I_TRY(poison(cell, err));
    B1I_TRY(compare(cell, err));
    B1I_TRY(poison(cell, err));
    return B1_OK;
fail:
    if (made) b1i_lab_work_cell_end(cell);
    return st;
}

static b1_status single(void *user, int depth, double *ns, b1_error *err)
{
    b1i_lab_work_cell *cell = user;
    (void)depth; /* always one */
    cell->fresh++;
    return b1i_lab_work_single(cell->work, ns, err);
}

static b1_status enqueue(void *user, int depth, double *ns, b1_error *err)
{
    b1i_lab_work_cell *cell = user;
    cell->fresh += depth;
    return b1i_lab_work_enqueue(cell->work, depth, ns, err);
}

static b1_status interval(void *user, int depth, double *ns, b1_error *err)
{
    b1i_lab_work_cell *cell = user;
    cell->fresh += depth;
    return b1i_lab_work_interval(cell->work, depth, ns, err);
}

static b1_status check(void *user, b1_error *err)
{
    b1_status st;
    B1I_TRY(compare(user, err));
    B1I_TRY(poison(user, err));
    B1I_TRY(compare(user, err));
fail:
    return st;
}

const b1i_lab_driver b1i_lab_work_driver = {
    .prepare = prepare,
    .measure = {[b1i_host_single] = single, [b1i_host_enqueue] = enqueue, [b1i_device_interval] = interval},
    .check = check,
};

void b1i_lab_work_cell_end(b1i_lab_work_cell *cell)
{
    b1i_lab_work_destroy(cell->work);
    cell->work = NULL;
}
