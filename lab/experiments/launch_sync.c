/* SPDX-License-Identifier: MIT
 *
 * Meeting inside one kernel: a barrier of the whole grid, and a flag from one unit to another, idle and while the rest
 * of each SM (on the CPU: the other workers) reads memory as fast as it can.
 *
 * A sample is one launch that takes its turns many times, by the clock of the device, read inside, after turns of
 * warming up; so that a launch's own cost is no part of it. Each launch's output is looked at: every unit took every
 * turn, nobody gave up. The preflight also looks, after each meeting, whether another unit has come to it.
 *
 * One block lies on an SM, by a reservation of shared memory, and as many blocks are launched as there are SMs: all of
 * them are resident, or the cell is not run.
 */
#include "base/threads.h"
#include "lab/experiments/cells.h"
#include "lab/experiments/launch.h"

#include <stdio.h>
#include <string.h>

enum { LOAD_GRAIN = 65536, RATE_BYTES = 1 << 20 };

typedef enum sync_what { sync_barrier, sync_flag } sync_what;

struct b1i_sync_cell {
    b1i_launch *of;
    b1i_sync_cell *next;
    sync_what what;
    bool loaded, ordered;
    bool rate; /* what is measured is the load: ns a MiB */
    b1i_sync_args args;
    uint64_t memory; /* out, then lines */
    size_t bytes, out_bytes;
    uint64_t *out; /* as it was after the last launch */
    b1i_lab_work *work;
    char name[48];
};

static int members_of(const b1i_launch *l, sync_what what)
{
    if (what == sync_flag) return 2;
    if (l->gpu) return l->units;
    return l->units / 2 < 2 ? 2 : l->units / 2;
}

static b1_status units_fit(const b1i_sync_cell *c, b1_error *err)
{
    const b1i_launch *l = c->of;
    const int members = members_of(l, c->what);
    const char *unit = l->gpu ? "SM" : "worker";
    if (l->units < members)
        return b1i_fail(err, B1_UNSUPPORTED, "meeting takes two %ss, and this device has %d", unit, l->units);
    if (!l->gpu && l->units > b1i_cpu_count())
        return b1i_fail(err, B1_UNSUPPORTED,
                        "%d workers on %d CPUs take turns: those that wait would not run beside those they wait for",
                        l->units, b1i_cpu_count());
    if (!l->gpu && c->loaded && l->units == members)
        return b1i_fail(err, B1_UNSUPPORTED,
                        "two workers meet and a third one would have to be the load; this device has %d", l->units);
    return B1_OK;
}

/* Keeps a second block off an SM, and asks the driver whether it does. */
static b1_status reserve(const b1i_launch *l, const char *name, unsigned *shared_bytes, b1_error *err)
{
    b1_status st;
    int blocks = 0;
    b1i_gpu_kernel *kernel;
    *shared_bytes = b1i_cells_alone_bytes(l->gpu);
    B1I_TRY(b1i_gpu_kernel_get(l->gpu, name, *shared_bytes, &kernel, err));
    B1I_TRY(b1i_gpu_occupancy(l->gpu, kernel, B1I_SYNC_THREADS, *shared_bytes, &blocks, err));
    if (blocks != 1) st = b1i_fail(err, B1_UNSUPPORTED, "%s must have one block an SM, and %d would fit", name, blocks);
fail:
    return st;
}

/* A work of a launch and of the zeros before it. */
static b1_status make_work(const b1i_sync_cell *c, bool checked, b1i_lab_work **work, b1_error *err)
{
    b1_status st = B1_OK;
    const char *kernel = c->what == sync_flag ? "k_flag" : "k_barrier";
    b1i_sync_args args = c->args;
    args.check = checked;
    b1i_lab_op ops[2] = {{.fill = c->memory, .fill_bytes = c->bytes},
                         {.kernel = kernel,
                          .body = c->what == sync_flag ? b1i_flag_body : b1i_barrier_body,
                          .grid = (unsigned)c->of->units,
                          .threads = B1I_SYNC_THREADS,
                          .arg_bytes = sizeof args}};
    memcpy(ops[1].args, &args, sizeof args);
    if (c->of->gpu) B1I_TRY(reserve(c->of, kernel, &ops[1].shared_bytes, err));
    B1I_TRY(b1i_lab_work_create(c->of->device, b1i_lab_stream, ops, 2, 1, work, err));
fail:
    return st;
}

static b1_status make_memory(b1i_sync_cell *c, b1_error *err)
{
    b1_status st = B1_OK;
    const size_t units = (size_t)c->of->units;
    const size_t lines =
        ((B1I_SYNC_SEEN + units) * sizeof(uint64_t) + B1I_SYNC_LINE - 1) & ~(size_t)(B1I_SYNC_LINE - 1);
    c->out_bytes = (B1I_SYNC_SEEN + units) * sizeof(uint64_t);
    c->bytes = lines + (units + 2) * B1I_SYNC_LINE;
    if (!c->out) c->out = b1i_calloc(1, c->out_bytes);
    if (!c->out) return b1i_fail_memory(err, c->out_bytes);
    if (!c->memory) B1I_TRY(b1i_lab_alloc(c->of->device, c->bytes, c->name, &c->memory, err));
    c->args.out = c->memory;
    c->args.lines = c->memory + lines;
    if (c->loaded) {
        B1I_TRY(b1i_launch_load(c->of, err));
        c->args.load = c->of->load;
        c->args.load_bytes = c->of->load_bytes / units / LOAD_GRAIN * LOAD_GRAIN;
    }
fail:
    return st;
}

/* What the last launch left. */
static b1_status look(b1i_sync_cell *c, b1_error *err)
{
    const uint64_t turns = (uint64_t)c->args.warm + c->args.turns, *out = c->out;
    b1_status st = b1i_lab_get(c->of->device, c->out, c->args.out, c->out_bytes, err);
    if (st != B1_OK) return st;
    if (b1i_lab_plant) b1i_lab_plant(c->name, c->out, c->out_bytes);
    if (out[B1I_SYNC_WRONG])
        return b1i_fail(err, B1_DEVICE, "%s: %llu times a unit went on before the others had come, or gave up", c->name,
                        (unsigned long long)out[B1I_SYNC_WRONG]);
    for (int u = 0; u < c->of->units; u++) {
        const bool member = c->what == sync_flag ? u == 0 || u == (int)c->args.partner : u < (int)c->args.members;
        if (out[B1I_SYNC_SEEN + u] == (member ? turns : 0)) continue;
        return b1i_fail(err, B1_DEVICE, "%s: unit %d took %llu turns, expected %llu", c->name, u,
                        (unsigned long long)out[B1I_SYNC_SEEN + u], (unsigned long long)(member ? turns : 0));
    }
    const uint32_t first = (uint32_t)out[B1I_SYNC_WHERE], second = (uint32_t)(out[B1I_SYNC_WHERE] >> 32);
    if (c->of->gpu && c->what == sync_flag && (!first || !second || first == second))
        return b1i_fail(err, B1_DEVICE, "%s: the two blocks were to lie on two SMs, and lay on %d and %d", c->name,
                        (int)first - 1, (int)second - 1);
    if (out[B1I_SYNC_FROM] < out[B1I_SYNC_START] || out[B1I_SYNC_TO] <= out[B1I_SYNC_FROM])
        return b1i_fail(err, B1_DEVICE, "%s: the device's clock went from %llu to %llu", c->name,
                        (unsigned long long)out[B1I_SYNC_FROM], (unsigned long long)out[B1I_SYNC_TO]);
    if (c->loaded && !out[B1I_SYNC_LOADED]) return b1i_fail(err, B1_DEVICE, "%s: the load read nothing", c->name);
    return B1_OK;
}

static b1_status launch(b1i_sync_cell *c, b1i_lab_work *work, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_lab_work_submit(work, 1, err));
    B1I_TRY(b1i_lab_device_wait(c->of->device, err));
    st = look(c, err);
fail:
    return st;
}

static b1_status prepare(void *user, b1_error *err)
{
    b1_status st;
    b1i_sync_cell *c = user;
    b1i_lab_work *checked = NULL, *work = NULL;
    if (c->work) return B1_OK;
    B1I_TRY(units_fit(c, err));
    B1I_TRY(make_memory(c, err));
    B1I_TRY(make_work(c, true, &checked, err));
    B1I_TRY(launch(c, checked, err));
    B1I_TRY(make_work(c, false, &work, err));
    B1I_TRY(launch(c, work, err));
    c->work = work;
    work = NULL;
fail:
    b1i_lab_work_destroy(checked);
    b1i_lab_work_destroy(work);
    return st;
}

/* `depth` is not asked: a sample's turns are the cell's. */
static b1_status measure(void *user, int depth, double *ns, b1_error *err)
{
    b1i_sync_cell *c = user;
    (void)depth;
    b1_status st = launch(c, c->work, err);
    if (st != B1_OK) return st;
    const uint64_t *out = c->out;
    const double latencies = (double)c->args.turns * (c->what == sync_flag ? 2 : 1);
    *ns = c->rate ? (double)(out[B1I_SYNC_TO] - out[B1I_SYNC_START]) * RATE_BYTES / (double)out[B1I_SYNC_LOADED]
                  : (double)(out[B1I_SYNC_TO] - out[B1I_SYNC_FROM]) / latencies;
    return B1_OK;
}

static b1_status check(void *user, b1_error *err) { return look(user, err); }

static const b1i_lab_driver driver = {.prepare = prepare, .measure = {[b1i_device_interval] = measure}, .check = check};

/* ---- the cells ---- */

static json_t *facts_of(const b1i_sync_cell *c)
{
    const char *clock = c->of->gpu ? "globaltimer" : "the worker's clock";
    char from[96], to[96];
    if (c->rate)
        snprintf(from, sizeof from, "%s in unit 0, when it begins", clock);
    else
        snprintf(from, sizeof from, "%s in unit 0, after turn %u", clock, c->args.warm);
    snprintf(to, sizeof to, "%s in unit 0, after turn %u", clock, c->args.warm + c->args.turns);
    json_t *facts =
        json_pack("{si ss ss ss si ss ss ss}", "n", members_of(c->of, c->what), "variant",
                  c->what == sync_barrier ? "barrier"
                  : c->ordered            ? "flag, release and acquire"
                                          : "flag, relaxed",
                  "mode", "inside", "load", c->loaded ? "reading" : "idle", "turns", (int)c->args.turns, "sample",
                  c->rate                ? "the load alone: the time of a MiB of it, while the others meet"
                  : c->what == sync_flag ? "half a round trip, the mean of all turns of a launch"
                                         : "one meeting, the mean of all turns of a launch",
                  "from", from, "to", to);
    if (facts && c->rate && json_object_set_new(facts, "bytes", json_integer(RATE_BYTES))) {
        json_decref(facts);
        facts = NULL;
    }
    return facts;
}

static b1_status add_sync(b1i_launch *l, const char *name, b1i_sync_cell like, b1_error *err)
{
    b1i_sync_cell *c = b1i_malloc(sizeof *c);
    if (!c) return b1i_fail_memory(err, sizeof *c);
    *c = like;
    c->of = l;
    c->next = l->syncs;
    l->syncs = c;
    c->args.warm = 64;
    c->args.turns = l->gpu ? (l->quick ? 256 : 1000) : (l->quick ? 200 : 5000);
    c->args.members = (uint32_t)members_of(l, c->what);
    c->args.partner = l->gpu && l->units > 3 ? (uint32_t)l->units / 2 : 1;
    c->args.ordered = c->ordered;
    snprintf(c->name, sizeof c->name, "%s", name);
    const b1i_lab_cell_spec spec = {.name = name, .driver = &driver, .user = c, .depth_most = 1, .facts = facts_of(c)};
    if (!spec.facts) return b1i_fail_memory(err, 0);
    return b1i_lab_add(l->lab, &spec, err);
}

b1_status b1i_launch_add_syncs(b1i_launch *l, b1_error *err)
{
    static const struct {
        const char *name;
        b1i_sync_cell like;
    } all[] = {
        {"barrier/idle", {.what = sync_barrier}},
        {"barrier/loaded", {.what = sync_barrier, .loaded = true}},
        {"barrier/load", {.what = sync_barrier, .loaded = true, .rate = true}},
        {"flag/idle/relaxed", {.what = sync_flag}},
        {"flag/idle/ordered", {.what = sync_flag, .ordered = true}},
        {"flag/loaded/relaxed", {.what = sync_flag, .loaded = true}},
        {"flag/loaded/ordered", {.what = sync_flag, .loaded = true, .ordered = true}},
        {"flag/load", {.what = sync_flag, .loaded = true, .rate = true}},
    };
    b1_status st = B1_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) B1I_TRY(add_sync(l, all[i].name, all[i].like, err));
fail:
    return st;
}

void b1i_launch_end_syncs(b1i_launch *l)
{
    while (l->syncs) {
        b1i_sync_cell *c = l->syncs;
        l->syncs = c->next;
        b1i_lab_work_destroy(c->work);
        b1i_lab_free(l->device, c->memory);
        b1i_free(c->out);
        b1i_free(c);
    }
}
