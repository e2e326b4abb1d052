/* SPDX-License-Identifier: MIT
 *
 * The experiment `launch`: what it costs to start work, to pass from one piece of it to the next, and to meet.
 *
 *   nodes=K/MODE          K null kernels as a stream's launches, as a graph, and as a graph with programmatic edges,
 *                         whose kernel lets the next one start at once; what one node costs follows from two lengths
 *   wide/nodes=K/MODE     the same with a block on each SM
 *   loaded/nodes=K/MODE   the same memory read by K kernels, each its part: memory is saturated but for what each
 *                         passage from a kernel to the next costs
 *   setup/…               a graph's capture, instantiation, upload, first and steady replay: launch_setup.c
 *   barrier/…, flag/…     inside one kernel, idle and beside a load: launch_sync.c
 *
 * On the CPU a launch is a dispatch and join of the pool, a graph a prebuilt plan whose workers meet between nodes.
 */
#include "lab/experiments/launch.h"

#include "lab/experiments/cells.h"

#include <stdio.h>
#include <string.h>

enum { POISON = 0xff, WIDE_THREADS = 256 };
#define MIB (1ull << 20)

typedef enum chain_shape { shape_null, shape_wide, shape_loaded, shapes } chain_shape;
static const char *const shape_names[shapes] = {"null", "wide", "loaded"};
static const char *const shape_prefix[shapes] = {"", "wide/", "loaded/"};

struct b1i_chain_cell {
    b1i_lab_work_cell work; /* first, for it is what the driver of works takes */
    b1i_launch *of;
    b1i_chain_cell *next;
    chain_shape shape;
    uint64_t sums; /* uint32 [nodes][units] */
    b1i_lab_op *ops;
    char name[48];
};

static const int nodes_all[] = {1, 4, 16, 64, 256, 0}, nodes_quick[] = {1, 16, 64, 0}, nodes_loaded[] = {1, 16, 64, 0};

/* ---- what the cells share ---- */

b1_status b1i_launch_load(b1i_launch *l, b1_error *err)
{
    b1_status st;
    if (l->load) return B1_OK;
    B1I_TRY(b1i_cells_room(l->device, "the memory that the load reads", l->load_bytes, err));
    B1I_TRY(b1i_lab_alloc(l->device, (size_t)l->load_bytes, "the memory that the load reads", &l->load, err));
    st = b1i_words_put(l->device, l->load, l->load_bytes, l->load_bytes / B1I_LAUNCH_PIECES, l->sums, err);
    if (st == B1_OK) return B1_OK;
    b1i_lab_free(l->device, l->load);
    l->load = 0;
fail:
    return st;
}

const b1i_lab_op *b1i_launch_nulls(const b1i_launch *l, int mode)
{
    return l->nulls + (mode == b1i_lab_pdl ? B1I_LAUNCH_NODES_MOST : 0);
}

static b1_status make_nulls(b1i_launch *l, b1_error *err)
{
    const size_t count = 2 * (size_t)B1I_LAUNCH_NODES_MOST;
    l->nulls = b1i_calloc(count, sizeof *l->nulls);
    if (!l->nulls) return b1i_fail_memory(err, count * sizeof *l->nulls);
    for (size_t i = 0; i < count; i++) {
        l->nulls[i] = (b1i_lab_op){.kernel = i < B1I_LAUNCH_NODES_MOST ? "k_null" : "k_null_early",
                                   .body = b1i_null_body,
                                   .grid = 1,
                                   .threads = B1I_NULL_THREADS,
                                   .arg_bytes = sizeof(b1i_null_args)};
    }
    return B1_OK;
}

/* At least 8 last caches, so that no node finds what it reads in one; the CPU's last caches are large, and its memory
 * slow: there 4, and where it is quick 8 MiB, which a cache may hold. Each unit has a part. */
static uint64_t load_bytes(const b1i_launch *l)
{
    const uint64_t grain = B1I_LAUNCH_PIECES * (l->gpu ? MIB : MIB / 8), parts = (uint64_t)l->units * MIB / 4;
    const uint64_t cache = b1i_cells_cache_bytes(l->device);
    uint64_t least = l->gpu ? 8 * cache : l->quick ? 8 * MIB : 4 * cache;
    if (l->gpu && !l->quick && least < 1024 * MIB) least = 1024 * MIB;
    if (least < parts) least = parts;
    return (least + grain - 1) / grain * grain;
}

/* ---- a chain ---- */

static b1_status make_chain(b1i_chain_cell *c, b1_error *err)
{
    b1_status st;
    b1i_launch *l = c->of;
    const int nodes = c->work.count;
    const size_t row = (size_t)l->units * sizeof(uint32_t);
    const uint64_t part = l->load_bytes / (uint64_t)nodes;
    B1I_TRY(b1i_launch_load(l, err));
    if (!c->sums) B1I_TRY(b1i_lab_alloc(l->device, row * (size_t)nodes, "the sums of a chain", &c->sums, err));
    for (int i = 0; i < nodes; i++) {
        const b1i_chain_args args = {l->load + (uint64_t)i * part, part, c->sums + (uint64_t)i * row};
        c->ops[i] = (b1i_lab_op){.kernel = "k_chain",
                                 .body = b1i_chain_body,
                                 .grid = (unsigned)l->units,
                                 .threads = B1I_CHAIN_THREADS,
                                 .arg_bytes = sizeof args};
        memcpy(c->ops[i].args, &args, sizeof args);
    }
fail:
    return st;
}

/* The driver's graph is a chain, and its edges are programmatic where they should be. */
static b1_status check_edges(const b1i_chain_cell *c, b1_error *err)
{
    json_t *graph = NULL;
    b1_status st = b1i_lab_work_graph(c->work.work, &graph, err);
    if (st != B1_OK || !graph) return st;
    const int edges = (int)json_integer_value(json_object_get(graph, "edges")), must = c->work.count - 1;
    const int early = (int)json_integer_value(json_object_get(graph, "programmatic_edges"));
    const int must_early = c->work.mode == b1i_lab_pdl ? must : 0;
    if (edges != must || early != must_early)
        st =
            b1i_fail(err, B1_DEVICE, "%s: the driver's graph has %d edges, %d of them programmatic; expected %d and %d",
                     c->name, edges, early, must, must_early);
    json_decref(graph);
    return st;
}

static b1_status prepare(void *user, b1_error *err)
{
    b1_status st;
    b1i_chain_cell *c = user;
    const int nodes = c->work.count;
    if (c->work.work) return B1_OK; /* the twin of one that is */
    B1I_TRY(b1i_cells_mode_fits(c->of->device, (b1i_lab_mode)c->work.mode, nodes, err));
    if (c->shape != shape_null && !c->ops) {
        c->ops = b1i_calloc((size_t)nodes, sizeof *c->ops);
        if (!c->ops) return b1i_fail_memory(err, (size_t)nodes * sizeof *c->ops);
    }
    if (c->shape == shape_loaded) B1I_TRY(make_chain(c, err));
    if (c->shape == shape_wide) {
        memcpy(c->ops, b1i_launch_nulls(c->of, c->work.mode), (size_t)nodes * sizeof *c->ops);
        for (int i = 0; i < nodes; i++) {
            c->ops[i].grid = (unsigned)c->of->units;
            c->ops[i].threads = WIDE_THREADS;
        }
    }
    c->work.ops = c->shape == shape_null ? b1i_launch_nulls(c->of, c->work.mode) : c->ops;
    B1I_TRY(b1i_lab_work_driver.prepare(&c->work, err));
    if ((st = check_edges(c, err)) != B1_OK) b1i_lab_work_cell_end(&c->work);
fail:
    return st;
}

static b1_status poison(void *user, b1_error *err)
{
    const b1i_chain_cell *c = user;
    const size_t bytes = (size_t)c->work.count * (size_t)c->of->units * sizeof(uint32_t);
    return b1i_lab_fill(c->of->device, c->sums, POISON, bytes, err);
}

/* What the units of a node read together is the sum of the node's pieces. */
static b1_status check(void *user, b1_error *err)
{
    b1_status st;
    const b1i_chain_cell *c = user;
    const b1i_launch *l = c->of;
    const int nodes = c->work.count, pieces = B1I_LAUNCH_PIECES / nodes;
    const size_t bytes = (size_t)nodes * (size_t)l->units * sizeof(uint32_t);
    uint32_t *sums = b1i_malloc(bytes);
    if (!sums) return b1i_fail_memory(err, bytes);
    B1I_TRY(b1i_lab_get(l->device, sums, c->sums, bytes, err));
    if (b1i_lab_plant) b1i_lab_plant(c->name, sums, bytes);
    for (int i = 0; i < nodes; i++) {
        uint32_t is = 0, must = 0;
        for (int u = 0; u < l->units; u++) is += sums[i * l->units + u];
        for (int p = 0; p < pieces; p++) must += l->sums[i * pieces + p].sum;
        if (is == must) continue;
        st = b1i_fail(err, B1_DEVICE, "%s: the words that node %d read add up to %08x, and should to %08x", c->name, i,
                      is, must);
        goto fail;
    }
fail:
    b1i_free(sums);
    return st;
}

/* ---- the cells ---- */

static json_t *term(int sign, const char *cell, const char *kind) { return json_pack("[iss]", sign, cell, kind); }

/* What a node costs: the difference of the longest chain and the shortest that there is of this mode. */
static b1_status add_slope(const b1i_chain_cell *c, int shortest, json_t *figures, b1_error *err)
{
    char other[48];
    snprintf(other, sizeof other, "%snodes=%d/%s", shape_prefix[c->shape], shortest, b1i_lab_mode_names[c->work.mode]);
    for (int k = 0; k < b1i_lab_kinds; k++) {
        json_t *figure = json_pack("{ss ss ss s[oo] si}", "name", "of one node", "unit", "ns", "kind",
                                   b1i_lab_kind_names[k], "numerator", term(1, c->name, b1i_lab_kind_names[k]),
                                   term(-1, other, b1i_lab_kind_names[k]), "denominator", c->work.count - shortest);
        if (json_array_append_new(figures, figure)) return b1i_fail_memory(err, 0);
    }
    return B1_OK;
}

static b1_status make_facts(const b1i_chain_cell *c, const int *lengths, json_t **out, b1_error *err)
{
    b1_status st = B1_OK;
    const int nodes = c->work.count, shortest = lengths[c->work.mode == b1i_lab_pdl ? 1 : 0];
    json_t *figures = json_array();
    bool longest = false;
    for (int i = 0; lengths[i]; i++) longest = lengths[i] == nodes;
    *out = json_pack("{si si ss ss ss}", "n", nodes, "nodes", nodes, "variant", shape_names[c->shape], "mode",
                     b1i_lab_mode_names[c->work.mode], "load", c->shape == shape_loaded ? "reading" : "idle");
    if (!*out || !figures) {
        st = b1i_fail_memory(err, 0);
        goto fail;
    }
    if (c->shape == shape_loaded && json_object_set_new(*out, "bytes", json_integer((json_int_t)c->of->load_bytes))) {
        st = b1i_fail_memory(err, 0);
        goto fail;
    }
    if (longest && shortest < nodes) B1I_TRY(add_slope(c, shortest, figures, err));
    if (c->shape == shape_null && c->work.mode != b1i_lab_stream && nodes >= shortest)
        B1I_TRY(b1i_launch_pays(c->of, nodes, c->work.mode, figures, err));
    if (json_array_size(figures) && json_object_set(*out, "figures", figures)) st = b1i_fail_memory(err, 0);
fail:
    json_decref(figures);
    if (st != B1_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return st;
}

static b1_status add_chain(b1i_launch *l, chain_shape shape, const int *lengths, int nodes, int mode, b1_error *err)
{
    b1i_chain_cell *c = b1i_calloc(1, sizeof *c);
    if (!c) return b1i_fail_memory(err, sizeof *c);
    c->next = l->chains;
    l->chains = c;
    c->of = l;
    c->shape = shape;
    c->work = (b1i_lab_work_cell){
        .lab = l->lab, .mode = mode, .count = nodes, .sets = 1, .kernels = nodes, .memsets = 0, .user = c};
    if (shape == shape_loaded) {
        c->work.check = check;
        c->work.poison = poison;
    }
    snprintf(c->name, sizeof c->name, "%snodes=%d/%s", shape_prefix[shape], nodes, b1i_lab_mode_names[mode]);
    b1i_lab_cell_spec spec = {.name = c->name, .driver = &l->chain_driver, .user = &c->work};
    b1_status st = make_facts(c, lengths, &spec.facts, err);
    return st == B1_OK ? b1i_lab_add(l->lab, &spec, err) : st;
}

static b1_status add_chains(b1i_launch *l, chain_shape shape, const int *lengths, b1_error *err)
{
    b1_status st = B1_OK;
    for (int i = 0; lengths[i]; i++)
        for (int mode = 0; mode < b1i_lab_modes; mode++) B1I_TRY(add_chain(l, shape, lengths, lengths[i], mode, err));
fail:
    return st;
}

static b1_status open_launch(b1i_lab *lab, void **state, b1_error *err)
{
    b1_status st;
    b1i_launch *l = b1i_calloc(1, sizeof *l);
    if (!l) return b1i_fail_memory(err, sizeof *l);
    *state = l;
    l->lab = lab;
    l->device = b1i_lab_get_device(lab);
    l->gpu = b1i_lab_device_gpu(l->device);
    l->units = b1i_lab_device_units(l->device);
    l->quick = b1i_lab_get_options(lab)->quick;
    l->load_bytes = load_bytes(l);
    l->chain_driver = b1i_lab_work_driver;
    l->chain_driver.prepare = prepare;
    const int *lengths = l->quick ? nodes_quick : nodes_all;
    B1I_TRY(make_nulls(l, err));
    B1I_TRY(add_chains(l, shape_null, lengths, err));
    if (l->gpu) B1I_TRY(add_chains(l, shape_wide, nodes_quick, err)); /* the CPU's dispatch is to all workers anyway */
    B1I_TRY(add_chains(l, shape_loaded, nodes_loaded, err));
    for (int i = 0; lengths[i]; i++) {
        B1I_TRY(b1i_launch_add_setups(l, lengths[i], b1i_lab_graph, err));
        B1I_TRY(b1i_launch_add_setups(l, lengths[i], b1i_lab_pdl, err));
    }
    B1I_TRY(b1i_launch_add_syncs(l, err));
    B1I_TRY(b1i_lab_add_twin(lab, "nodes=16/stream", err));
    B1I_TRY(b1i_lab_add_twin(lab, "nodes=16/graph", err));
    B1I_TRY(b1i_lab_add_twin(lab, "barrier/idle", err));
fail:
    return st;
}

static b1_status after(b1i_lab *lab, void *state, b1_error *err)
{
    b1_status st = B1_OK;
    const b1i_launch *l = state;
    for (const b1i_chain_cell *c = l->chains; st == B1_OK && c; c = c->next)
        if (b1i_lab_cell_ok(lab, c->name)) st = b1i_cells_graph(lab, c->name, c->work.work, err);
    return st;
}

static void close_launch(b1i_lab *lab, void *state)
{
    (void)lab;
    b1i_launch *l = state;
    if (!l) return;
    while (l->chains) {
        b1i_chain_cell *c = l->chains;
        l->chains = c->next;
        b1i_lab_work_cell_end(&c->work);
        b1i_lab_free(l->device, c->sums);
        b1i_free(c->ops);
        b1i_free(c);
    }
    b1i_launch_end_setups(l);
    b1i_launch_end_syncs(l);
    b1i_lab_free(l->device, l->load);
    b1i_free(l->nulls);
    b1i_free(l);
}

const b1i_experiment b1i_experiment_launch = {
    .name = "launch",
    .summary = "what launches, graphs, barriers and flags cost, idle and beside a load",
    .open = open_launch,
    .after = after,
    .close = close_launch,
};
