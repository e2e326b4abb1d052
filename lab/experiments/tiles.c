/* SPDX-License-Identifier: MIT
 *
 * The experiment `tiles`: 597 jobs of two stages, B after its own job's A, and what the order in which they are dealt
 * out costs: separate (all B after all A), fused (a job's B after its own A), queue (blocks that stay and take jobs
 * from an atomic counter, whose reset is in every invocation), semaphore (A and B of a job on different SMs).
 *
 * At most one block lies on an SM, by a reservation of shared memory; the driver's occupancy is asked, and anything but
 * one fails the cells. Every cell has buffers of its own, so that what its check sees is what its invocations left.
 *
 * Afterwards each variant is traced, in launches whose times enter no table.
 */
#include "lab/experiments/tiles.h"
#include "lab/evidence.h"
#include "lab/experiments/cells.h"
#include "lab/oracle_tiles.h"

#include <stdio.h>
#include <string.h>

enum {
    JOBS = B1I_TILES_JOBS,
    WORDS = JOBS * B1I_TILES_LANES,
    MODES = 2, /* stream, graph */
    CELLS = b1i_tiles_fixtures * b1i_tiles_variants * MODES,
    COUNTERS = B1I_TILES_READY + JOBS
};

typedef struct tiles tiles;
typedef struct cell {
    b1i_lab_work_cell work; /* first: the user of b1i_lab_work_driver */
    tiles *all;
    b1i_tiles_fixture fixture;
    b1i_tiles_variant variant;
    char name[48];
    b1i_tiles_args args;
    b1i_lab_op ops[B1I_TILES_OPS_MOST];
} cell;

struct tiles {
    b1i_lab *lab;
    b1i_lab_device *device;
    unsigned units, shared_bytes;
    uint32_t divisor, consume;
    int resident[b1i_tiles_variants]; /* most blocks of any of its kernels that an SM holds at once; 0: the CPU */
    uint32_t rounds[b1i_tiles_fixtures][JOBS];
    uint64_t sum[b1i_tiles_fixtures];
    uint64_t rounds_at[b1i_tiles_fixtures]; /* on the device */
    uint32_t *want[b1i_tiles_fixtures];     /* the oracle's output */
    uint32_t *got;                          /* an output, for its check */
    b1i_lab_driver driver;
    cell cells[CELLS];
};

/* ---- a cell ---- */

static b1_status check_output(void *user, b1_error *err)
{
    b1_status st;
    const cell *c = user;
    tiles *t = c->all;
    B1I_TRY(b1i_lab_get(t->device, t->got, c->args.out, WORDS * sizeof *t->got, err));
    if (b1i_lab_plant) b1i_lab_plant(c->name, t->got, WORDS * sizeof *t->got);
    B1I_TRY(b1i_oracle_tiles_equal(c->name, t->got, t->want[c->fixture], JOBS, err));
fail:
    return st;
}

static b1_status poison_output(void *user, b1_error *err)
{
    b1_status st;
    const cell *c = user;
    B1I_TRY(b1i_lab_fill(c->all->device, c->args.between, 0x5a, WORDS * sizeof(uint32_t), err));
    B1I_TRY(b1i_lab_fill(c->all->device, c->args.out, 0xa5, WORDS * sizeof(uint32_t), err));
fail:
    return st;
}

static b1_status make_buffers(cell *c, b1_error *err)
{
    b1_status st;
    b1i_lab_device *device = c->all->device;
    B1I_TRY(b1i_lab_alloc(device, WORDS * sizeof(uint32_t), "what A leaves", &c->args.between, err));
    B1I_TRY(b1i_lab_alloc(device, WORDS * sizeof(uint32_t), "the jobs' output", &c->args.out, err));
    B1I_TRY(b1i_lab_alloc(device, COUNTERS * sizeof(uint32_t), "the jobs' counters", &c->args.counters, err));
fail:
    return st;
}

static b1_status prepare(void *user, b1_error *err)
{
    b1_status st = B1_OK;
    cell *c = user;
    const tiles *t = c->all;
    if (c->variant == b1i_tiles_semaphore && t->units < 2)
        return b1i_fail(err, B1_UNSUPPORTED, "A and B of a job on different units need two, and here is one");
    if (t->resident[c->variant] > 1)
        return b1i_fail(err, B1_DEVICE, "%s: %d blocks that reserve %u bytes of shared memory fit on an SM, expected 1",
                        c->name, t->resident[c->variant], t->shared_bytes);
    if (!c->args.counters) B1I_TRY(make_buffers(c, err));
    c->work.count = b1i_tiles_ops(c->variant, &c->args, t->units, t->shared_bytes, c->ops);
    B1I_TRY(b1i_lab_work_driver.prepare(&c->work, err));
fail:
    return st;
}

/* Of each variant the graph, whose launches are the fewest. */
static bool is_traced(const cell *c) { return c->work.mode == b1i_lab_graph; }

static json_t *make_facts(const tiles *t, const cell *c)
{
    const bool gpu = b1i_lab_device_gpu(t->device), stays = c->variant >= b1i_tiles_queue;
    json_t *f = json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:i, s:s, s:s, s:i}", "fixture", b1i_tiles_fixture_names[c->fixture],
        "variant", b1i_tiles_variant_names[c->variant], "mode", b1i_lab_mode_names[c->work.mode], "jobs", (int)JOBS,
        "lanes", (int)B1I_TILES_LANES, "producer_iterations", (json_int_t)t->sum[c->fixture], "consumer_iterations",
        (json_int_t)JOBS * t->consume, "iterations_divided_by", (int)t->divisor, "iterations_undivided",
        b1i_tiles_fixture_spread[c->fixture], "dealt",
        stays ? "to who is free" : (gpu ? "a block a job, by the GPU" : "job j to worker j mod workers"), "units",
        (int)t->units);
    int bad = !f;
    if (f && is_traced(c)) bad |= json_object_set_new(f, "traced", json_true());
    if (f && gpu) {
        bad |= json_object_set_new(f, "blocks_per_sm", json_integer(t->resident[c->variant]));
        bad |= json_object_set_new(f, "reserved_shared_bytes", json_integer((json_int_t)t->shared_bytes));
        bad |= json_object_set_new(f, "blocks", json_integer(stays ? (json_int_t)t->units : JOBS));
    }
    if (f && c->variant == b1i_tiles_semaphore) {
        bad |= json_object_set_new(f, "producers", json_integer((json_int_t)c->args.producers));
        bad |= json_object_set_new(f, "consumers", json_integer((json_int_t)t->units - (json_int_t)c->args.producers));
    }
    if (!bad) return f;
    json_decref(f);
    return NULL;
}

static b1_status add_cell(tiles *t, cell *c, b1_error *err)
{
    const bool stays = c->variant >= b1i_tiles_queue;
    c->all = t;
    snprintf(c->name, sizeof c->name, "%s/%s_%s", b1i_tiles_fixture_names[c->fixture],
             b1i_tiles_variant_names[c->variant], b1i_lab_mode_names[c->work.mode]);
    c->args.iterations = t->rounds_at[c->fixture];
    c->args.jobs = JOBS;
    c->args.consume = t->consume;
    if (c->variant == b1i_tiles_semaphore && t->units > 1)
        c->args.producers = b1i_tiles_producers(t->units, t->sum[c->fixture], (uint64_t)JOBS * t->consume);
    c->work.lab = t->lab;
    c->work.ops = c->ops;
    c->work.sets = 1;
    c->work.kernels = c->variant == b1i_tiles_separate ? 2 : 1;
    c->work.memsets = stays ? 1 : 0;
    c->work.check = check_output;
    c->work.poison = poison_output;
    c->work.user = c;
    b1i_lab_cell_spec spec = {.name = c->name, .driver = &t->driver, .user = c, .facts = make_facts(t, c)};
    return spec.facts ? b1i_lab_add(t->lab, &spec, err) : b1i_fail_memory(err, sizeof(json_t));
}

/* ---- the experiment ---- */

/* Two blocks with more than a half of an SM's shared memory each do not fit; one does, for a block may have all but a
 * little of it on every GPU. */
static b1_status look_at_occupancy(tiles *t, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_gpu *gpu = b1i_lab_device_gpu(t->device);
    const b1i_gpu_info *info = b1i_gpu_get_info(gpu);
    const b1i_tiles_args args = {.jobs = JOBS};
    t->shared_bytes = b1i_cells_alone_bytes(gpu);
    if (t->shared_bytes > (unsigned)info->shared_bytes_block)
        return b1i_fail(err, B1_UNSUPPORTED,
                        "a block of this GPU cannot have %u bytes of shared memory (%d at most), so "
                        "that nothing keeps a second one off its SM",
                        t->shared_bytes, info->shared_bytes_block);
    for (int v = 0; v < b1i_tiles_variants; v++) {
        b1i_lab_op ops[B1I_TILES_OPS_MOST];
        const int count = b1i_tiles_ops((b1i_tiles_variant)v, &args, t->units, t->shared_bytes, ops);
        for (int i = 0; i < count; i++) {
            b1i_gpu_kernel *kernel;
            int blocks;
            if (!ops[i].kernel) continue;
            B1I_TRY(b1i_gpu_kernel_get(gpu, ops[i].kernel, t->shared_bytes, &kernel, err));
            B1I_TRY(b1i_gpu_occupancy(gpu, kernel, B1I_TILES_LANES, t->shared_bytes, &blocks, err));
            if (blocks < 1)
                return b1i_fail(err, B1_DEVICE, "no block of %s fits on an SM", b1i_gpu_kernel_name(kernel));
            if (blocks > t->resident[v]) t->resident[v] = blocks;
        }
    }
fail:
    return st;
}

static b1_status make_fixtures(tiles *t, b1_error *err)
{
    b1_status st = B1_OK;
    if (!(t->got = b1i_malloc(WORDS * sizeof *t->got))) return b1i_fail_memory(err, WORDS * sizeof *t->got);
    for (int f = 0; f < b1i_tiles_fixtures; f++) {
        t->sum[f] = b1i_tiles_rounds((b1i_tiles_fixture)f, t->divisor, t->rounds[f]);
        t->want[f] = b1i_malloc(WORDS * sizeof *t->want[f]);
        if (!t->want[f]) return b1i_fail_memory(err, WORDS * sizeof *t->want[f]);
        b1i_oracle_tiles(t->rounds[f], JOBS, t->consume, t->want[f]);
        B1I_TRY(b1i_lab_alloc(t->device, sizeof t->rounds[f], "the jobs' rounds", &t->rounds_at[f], err));
        B1I_TRY(b1i_lab_put(t->device, t->rounds_at[f], t->rounds[f], sizeof t->rounds[f], err));
    }
fail:
    return st;
}

static b1_status tiles_open(b1i_lab *lab, void **state, b1_error *err)
{
    b1_status st = B1_OK;
    const bool quick = b1i_lab_get_options(lab)->quick;
    tiles *t = b1i_calloc(1, sizeof *t);
    if (!t) return b1i_fail_memory(err, sizeof *t);
    *state = t;
    t->lab = lab;
    t->device = b1i_lab_get_device(lab);
    t->units = (unsigned)b1i_lab_device_units(t->device);
    t->driver = b1i_lab_work_driver;
    t->driver.prepare = prepare;
    t->divisor = b1i_lab_device_gpu(t->device) ? (quick ? 4 : 1) : (quick ? B1I_TILES_DIVISOR_MOST : 16);
    t->consume = B1I_TILES_CONSUME / t->divisor;
    if (b1i_lab_device_gpu(t->device)) B1I_TRY(look_at_occupancy(t, err));
    B1I_TRY(make_fixtures(t, err));
    for (int i = 0; i < CELLS; i++) {
        cell *c = &t->cells[i];
        c->fixture = (b1i_tiles_fixture)(i / (b1i_tiles_variants * MODES));
        c->variant = (b1i_tiles_variant)(i / MODES % b1i_tiles_variants);
        c->work.mode = i % MODES ? b1i_lab_graph : b1i_lab_stream;
        B1I_TRY(add_cell(t, c, err));
    }
    B1I_TRY(b1i_lab_add_twin(lab, "balanced/separate_stream", err));
    B1I_TRY(b1i_lab_add_twin(lab, "ragged/queue_graph", err));
fail:
    return st;
}

static void tiles_close(b1i_lab *lab, void *state)
{
    tiles *t = state;
    (void)lab;
    if (!t) return;
    for (int i = 0; i < CELLS; i++) {
        b1i_lab_work_cell_end(&t->cells[i].work);
        b1i_lab_free(t->device, t->cells[i].args.between);
        b1i_lab_free(t->device, t->cells[i].args.out);
        b1i_lab_free(t->device, t->cells[i].args.counters);
    }
    for (int f = 0; f < b1i_tiles_fixtures; f++) {
        b1i_lab_free(t->device, t->rounds_at[f]);
        b1i_free(t->want[f]);
    }
    b1i_free(t->got);
    b1i_free(t);
}

/* ---- traces ---- */

enum { MARKS = 2 * JOBS };

/* One invocation of the cell's variant with a trace, from poisoned buffers; its marks, and its output checked. */
static b1_status run_traced(cell *c, uint64_t trace, b1i_tiles_mark *marks, b1_error *err)
{
    b1_status st;
    const tiles *t = c->all;
    b1i_lab_op ops[B1I_TILES_OPS_MOST];
    b1i_lab_work *work = NULL;
    b1i_tiles_args args = c->args;
    args.trace = trace;
    const int count = b1i_tiles_ops(c->variant, &args, t->units, t->shared_bytes, ops);
    B1I_TRY(b1i_lab_work_create(t->device, (b1i_lab_mode)c->work.mode, ops, count, 1, &work, err));
    /* The first launch of kernels and graphs has costs of its own. */
    for (int i = 0; i < 2; i++) {
        B1I_TRY(b1i_lab_fill(t->device, trace, 0, MARKS * sizeof *marks, err));
        B1I_TRY(poison_output(c, err));
        B1I_TRY(b1i_lab_work_submit(work, 1, err));
        B1I_TRY(b1i_lab_device_wait(t->device, err));
    }
    B1I_TRY(b1i_lab_get(t->device, marks, trace, MARKS * sizeof *marks, err));
    B1I_TRY(check_output(c, err));
fail:
    b1i_lab_work_destroy(work);
    return st;
}

static b1_status trace_cell(cell *c, uint64_t trace, b1i_tiles_mark *marks, b1i_trace_span *spans, b1_error *err)
{
    b1_status st;
    char name[64];
    b1_error why = {0};
    B1I_TRY(run_traced(c, trace, marks, err));
    if ((st = b1i_tiles_trace_spans(c->variant, marks, JOBS, spans, &why)) != B1_OK)
        return b1i_fail(err, st, "%s: %s", c->name, why.message);
    b1i_lab_file_name(c->name, name, sizeof name);
    B1I_TRY(b1i_trace_write(b1i_lab_get_evidence(c->all->lab), name, spans, MARKS, err));
fail:
    return st;
}

static b1_status tiles_after(b1i_lab *lab, void *state, b1_error *err)
{
    b1_status st = B1_OK;
    tiles *t = state;
    uint64_t trace = 0;
    b1i_trace_span *spans = NULL;
    b1i_tiles_mark *marks = b1i_malloc(MARKS * sizeof *marks);
    if (!marks || !(spans = b1i_malloc(MARKS * sizeof *spans))) {
        st = b1i_fail_memory(err, MARKS * sizeof *spans);
        goto fail;
    }
    B1I_TRY(b1i_lab_alloc(t->device, MARKS * sizeof *marks, "the trace", &trace, err));
    for (int i = 0; i < CELLS; i++) {
        cell *c = &t->cells[i];
        b1i_lab_say(lab, "traces", (uint64_t)i, CELLS);
        B1I_TRY(b1i_lab_may_go_on(lab, err));
        if (!is_traced(c) || !b1i_lab_cell_ok(lab, c->name)) continue;
        B1I_TRY(b1i_cells_graph(lab, c->name, c->work.work, err));
        B1I_TRY(trace_cell(c, trace, marks, spans, err));
    }
fail:
    b1i_lab_free(t->device, trace);
    b1i_free(spans);
    b1i_free(marks);
    return st;
}

const b1i_experiment b1i_experiment_tiles = {
    .name = "tiles",
    .summary = "two-stage jobs, balanced and ragged: separate, fused, from a queue, through a semaphore",
    .open = tiles_open,
    .after = tiles_after,
    .close = tiles_close,
};
