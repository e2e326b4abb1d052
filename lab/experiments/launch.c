/* SPDX-License-Identifier: MIT
 *
 * The experiment `launch`: what it costs to start work, to pass from one piece of it to the next, and to meet.
 *
 *   nodes=K/MODE          K null kernels as a stream's launches, as a graph, and as a graph with programmatic edges,
 *                         whose kernel lets the next one start at once; what one node costs follows from two lengths
 *   wide/nodes=K/MODE     the same with a block on each SM
 *   loaded/…              the same chains while a load beside saturates memory: launch_beside.c; loaded/load is what
 *                         that load reads meanwhile
 *   setup/…               a graph's capture, instantiation, upload, first and steady replay: launch_setup.c
 *   barrier/…, flag/…     inside one kernel, idle and beside a load: launch_sync.c
 *
 * On the CPU a launch is a dispatch and join of the pool, a graph a prebuilt plan whose workers meet between nodes.
 */
#include "lab/experiments/launch.h"

#include "lab/experiments/cells.h"

#include <stdio.h>
#include <string.h>

enum { WIDE_THREADS = 256, RATE_NODES = 64, RATE_DEPTH = 8 };
#define MIB (1ull << 20)

typedef enum chain_shape { shape_null, shape_wide, shapes } chain_shape;
static const char *const shape_names[shapes] = {"null", "wide"};
static const char *const shape_prefix[shapes] = {"", "wide/"};

struct b1i_chain_cell {
    b1i_lab_work_cell work; /* first, for it is what the driver of works takes */
    b1i_launch *of;
    b1i_chain_cell *next;
    chain_shape shape;
    bool loaded;
    bool rate; /* what is measured is the load: ns a MiB */
    b1i_lab_op *ops;
    char name[48];
};

static const int nodes_all[] = {1, 4, 16, 64, 256, 0}, nodes_quick[] = {1, 16, 64, 0};

/* ---- what the cells share ---- */

b1_status b1i_launch_load(b1i_launch *l, b1_error *err)
{
    b1_status st;
    if (l->load) return B1_OK;
    B1I_TRY(b1i_cells_room(l->device, "the memory that the load reads", l->load_bytes, err));
    B1I_TRY(b1i_lab_alloc(l->device, (size_t)l->load_bytes, "the memory that the load reads", &l->load, err));
    b1i_words_sum sum;
    st = b1i_words_put(l->device, l->load, l->load_bytes, l->load_bytes, &sum, err);
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
                                   .shared_bytes = B1I_LAUNCH_SHARED,
                                   .arg_bytes = sizeof(b1i_null_args)};
    }
    return B1_OK;
}

/* At least 8 last caches, so that no node finds what it reads in one; the CPU's last caches are large, and its memory
 * slow: there 4, and where it is quick 8 MiB, which a cache may hold. Each unit has a part. */
static uint64_t load_bytes(const b1i_launch *l)
{
    const uint64_t grain = l->gpu ? 64 * MIB : 8 * MIB, parts = (uint64_t)l->units * MIB / 4;
    const uint64_t cache = b1i_cells_cache_bytes(l->device);
    uint64_t least = l->gpu ? 8 * cache : l->quick ? 8 * MIB : 4 * cache;
    if (l->gpu && !l->quick && least < 1024 * MIB) least = 1024 * MIB;
    if (least < parts) least = parts;
    return (least + grain - 1) / grain * grain;
}

/* ---- beside a load ---- */

static b1_status beside(b1i_chain_cell *c, b1i_lab_kind kind, int depth, double *ns, double *gbps, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_launch_beside_start(c->of, err));
    st = b1i_lab_work_driver.measure[kind](&c->work, depth, ns, err);
    const b1_status stopped = b1i_launch_beside_stop(c->of, c->name, gbps, st == B1_OK ? err : NULL);
    if (st == B1_OK) st = stopped;
fail:
    return st;
}

/* Whether there is a load, and the chain passes beside it. */
static b1_status try_load(b1i_chain_cell *c, b1_error *err)
{
    b1_status st;
    double ns, gbps;
    B1I_TRY(b1i_launch_beside(c->of, b1i_launch_spare(c->of), err));
    st = beside(c, b1i_host_single, 1, &ns, &gbps, err);
fail:
    return st;
}

/* ---- a chain ---- */

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
    if (c->shape == shape_wide) {
        memcpy(c->ops, b1i_launch_nulls(c->of, c->work.mode), (size_t)nodes * sizeof *c->ops);
        for (int i = 0; i < nodes; i++) {
            c->ops[i].grid = (unsigned)c->of->units;
            c->ops[i].threads = WIDE_THREADS;
        }
    }
    c->work.ops = c->shape == shape_null ? b1i_launch_nulls(c->of, c->work.mode) : c->ops;
    B1I_TRY(b1i_lab_work_driver.prepare(&c->work, err));
    st = check_edges(c, err);
    if (st == B1_OK && c->loaded) st = try_load(c, err);
    if (st != B1_OK) b1i_lab_work_cell_end(&c->work);
fail:
    return st;
}

static b1_status beside_single(void *user, int depth, double *ns, b1_error *err)
{
    double gbps;
    return beside(user, b1i_host_single, depth, ns, &gbps, err);
}

static b1_status beside_enqueue(void *user, int depth, double *ns, b1_error *err)
{
    double gbps;
    return beside(user, b1i_host_enqueue, depth, ns, &gbps, err);
}

static b1_status beside_interval(void *user, int depth, double *ns, b1_error *err)
{
    double gbps;
    return beside(user, b1i_device_interval, depth, ns, &gbps, err);
}

static b1_status rate(void *user, int depth, double *ns, b1_error *err)
{
    double gbps = 0;
    b1_status st = beside(user, b1i_device_interval, depth, ns, &gbps, err);
    if (st == B1_OK) *ns = (double)MIB / gbps;
    return st;
}

/* ---- the cells ---- */

static json_t *term(int sign, const char *cell, const char *kind) { return json_pack("[iss]", sign, cell, kind); }

static void name_of(char *name, size_t bytes, const b1i_chain_cell *c, int nodes)
{
    snprintf(name, bytes, "%s%snodes=%d/%s", c->loaded ? "loaded/" : "", shape_prefix[c->shape], nodes,
             b1i_lab_mode_names[c->work.mode]);
}

/* What a node costs: the difference of the longest chain and the shortest that there is of this mode. Submitting a
 * graph is one call whatever its nodes are, so that their number shows in no such difference. */
static b1_status add_slope(const b1i_chain_cell *c, int shortest, json_t *figures, b1_error *err)
{
    char other[sizeof c->name];
    name_of(other, sizeof other, c, shortest);
    for (int k = 0; k < b1i_lab_kinds; k++) {
        if (k == b1i_host_enqueue && c->work.mode != b1i_lab_stream) continue;
        json_t *figure = json_pack("{ss ss ss s[oo] si}", "name", "of one node", "unit", "ns", "kind",
                                   b1i_lab_kind_names[k], "numerator", term(1, c->name, b1i_lab_kind_names[k]),
                                   term(-1, other, b1i_lab_kind_names[k]), "denominator", c->work.count - shortest);
        if (json_array_append_new(figures, figure)) return b1i_fail_memory(err, 0);
    }
    return B1_OK;
}

static json_t *plain_facts(const b1i_chain_cell *c)
{
    const b1i_launch *l = c->of;
    json_t *facts =
        json_pack("{si si ss ss ss}", "n", c->work.count, "nodes", c->work.count, "variant",
                  c->rate ? "load" : shape_names[c->shape], "mode", b1i_lab_mode_names[c->work.mode], "load",
                  !c->loaded ? "idle"
                  : l->gpu   ? "a kernel reads beside"
                             : "threads read beside");
    int bad = !facts;
    if (facts && c->loaded) bad |= json_object_set_new(facts, "load_bytes", json_integer((json_int_t)l->load_bytes));
    if (facts && c->rate) {
        bad |= json_object_set_new(facts, "bytes", json_integer((json_int_t)MIB));
        bad |= json_object_set_new(facts, "sample",
                                   json_string("the load alone: the time of a MiB of it, while the chain runs"));
        bad |= json_object_set_new(facts, "from", json_string("the clock of each part of the load, when it begins"));
        bad |= json_object_set_new(facts, "to", json_string("the same, when it was told to stop"));
    }
    if (!bad) return facts;
    json_decref(facts);
    return NULL;
}

static b1_status make_facts(const b1i_chain_cell *c, const int *lengths, json_t **out, b1_error *err)
{
    b1_status st = B1_OK;
    const int nodes = c->work.count, shortest = lengths[c->work.mode == b1i_lab_pdl ? 1 : 0];
    json_t *figures = json_array();
    bool longest = false;
    for (int i = 0; lengths[i]; i++) longest = lengths[i] == nodes;
    *out = plain_facts(c);
    if (!*out || !figures) {
        st = b1i_fail_memory(err, 0);
        goto fail;
    }
    if (longest && shortest < nodes && !c->rate) B1I_TRY(add_slope(c, shortest, figures, err));
    if (c->shape == shape_null && !c->loaded && c->work.mode != b1i_lab_stream && nodes >= shortest)
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

static b1_status add_chain(b1i_launch *l, b1i_chain_cell like, const int *lengths, int nodes, int mode, b1_error *err)
{
    b1i_chain_cell *c = b1i_malloc(sizeof *c);
    if (!c) return b1i_fail_memory(err, sizeof *c);
    *c = like;
    c->next = l->chains;
    l->chains = c;
    c->of = l;
    c->work = (b1i_lab_work_cell){
        .lab = l->lab, .mode = mode, .count = nodes, .sets = 1, .kernels = nodes, .memsets = 0, .user = c};
    name_of(c->name, sizeof c->name, c, nodes);
    if (c->rate) snprintf(c->name, sizeof c->name, "loaded/load");
    b1i_lab_cell_spec spec = {
        .name = c->name,
        .driver = c->rate     ? &l->rate_driver
                  : c->loaded ? &l->beside_driver
                              : &l->chain_driver,
        .user = &c->work,
        .depth_most = c->rate ? RATE_DEPTH : 0,
    };
    b1_status st = make_facts(c, lengths, &spec.facts, err);
    return st == B1_OK ? b1i_lab_add(l->lab, &spec, err) : st;
}

static b1_status add_chains(b1i_launch *l, b1i_chain_cell like, const int *lengths, b1_error *err)
{
    b1_status st = B1_OK;
    for (int i = 0; lengths[i]; i++)
        for (int mode = 0; mode < b1i_lab_modes; mode++) B1I_TRY(add_chain(l, like, lengths, lengths[i], mode, err));
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
    l->beside_driver = l->rate_driver = l->chain_driver;
    l->beside_driver.measure[b1i_host_single] = beside_single;
    l->beside_driver.measure[b1i_host_enqueue] = beside_enqueue;
    l->beside_driver.measure[b1i_device_interval] = beside_interval;
    l->rate_driver.measure[b1i_host_single] = l->rate_driver.measure[b1i_host_enqueue] = NULL;
    l->rate_driver.measure[b1i_device_interval] = rate;
    const int *lengths = l->quick ? nodes_quick : nodes_all;
    B1I_TRY(make_nulls(l, err));
    B1I_TRY(add_chains(l, (b1i_chain_cell){.shape = shape_null}, lengths, err));
    /* The CPU's dispatch is to all workers anyway. */
    if (l->gpu) B1I_TRY(add_chains(l, (b1i_chain_cell){.shape = shape_wide}, nodes_quick, err));
    B1I_TRY(add_chains(l, (b1i_chain_cell){.shape = shape_null, .loaded = true}, nodes_quick, err));
    if (l->gpu) B1I_TRY(add_chains(l, (b1i_chain_cell){.shape = shape_wide, .loaded = true}, nodes_quick, err));
    B1I_TRY(add_chain(l, (b1i_chain_cell){.loaded = true, .rate = true}, nodes_quick, RATE_NODES, b1i_lab_stream, err));
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
        st = b1i_cells_graph(lab, c->name, c->work.work, err);
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
        b1i_free(c->ops);
        b1i_free(c);
    }
    b1i_launch_end_setups(l);
    b1i_launch_end_syncs(l);
    b1i_launch_end_beside(l);
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
