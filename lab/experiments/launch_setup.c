/* SPDX-License-Identifier: MIT
 *
 * What a graph costs before it gains anything: capture, instantiation, upload and the first replay, each of a graph
 * that is made anew for each sample, and beside them a replay of one that is in use. Each time begins just before its
 * first and ends just after its last call; nothing is asked of the graph and nothing written in between.
 */
#include "lab/experiments/launch.h"

#include "lab/experiments/cells.h"

#include <stdio.h>
#include <string.h>

enum { REPLAYS_BEFORE = 3 }; /* of a graph that is in use */

typedef enum setup_phase {
    phase_capture,
    phase_instantiate,
    phase_upload,
    phase_first,
    phase_steady,
    phases
} setup_phase;

static const struct {
    const char *name, *gpu_from, *gpu_to, *cpu_from, *cpu_to; /* cpu_from NULL: the CPU has no such phase */
} about[phases] = {
    {"capture", "cuStreamBeginCapture", "cuStreamEndCapture", "allocating the plan", "copying its last operation"},
    {"instantiate", "cuGraphInstantiate", "cuGraphInstantiate", NULL, NULL},
    {"upload", "cuGraphUpload", "cuStreamSynchronize", NULL, NULL},
    {"first_replay", "cuGraphLaunch, the first of this graph", "cuStreamSynchronize",
     "submitting the plan for the first time", "seeing that its last worker is done"},
    {"steady_replay", "cuGraphLaunch, after others of this graph", "cuStreamSynchronize",
     "submitting the plan, after others of it", "seeing that its last worker is done"},
};

struct b1i_setup_cell {
    b1i_launch *of;
    b1i_setup_cell *next;
    setup_phase phase;
    int nodes, mode;
    b1i_lab_work *work; /* of phase_steady */
};

static b1_status make(const b1i_setup_cell *c, b1i_lab_work **work, b1_error *err)
{
    return b1i_lab_work_create(c->of->device, (b1i_lab_mode)c->mode, b1i_launch_nulls(c->of, c->mode), c->nodes, 1,
                               work, err);
}

static b1_status prepare(void *user, b1_error *err)
{
    b1_status st;
    b1i_setup_cell *c = user;
    b1i_lab_work *work = NULL;
    double ns;
    if (c->work) return B1_OK;
    B1I_TRY(b1i_cells_mode_fits(c->of->device, (b1i_lab_mode)c->mode, c->nodes, err));
    if (!c->of->gpu && !about[c->phase].cpu_from)
        return b1i_fail(err, B1_UNSUPPORTED, "a plan of the CPU is ready when it is made: it has no phase \"%s\"",
                        about[c->phase].name);
    B1I_TRY(make(c, &work, err));
    for (int i = 0; i < REPLAYS_BEFORE; i++) B1I_TRY(b1i_lab_work_single(work, &ns, err));
    if (c->phase == phase_steady) {
        c->work = work;
        work = NULL;
    }
fail:
    b1i_lab_work_destroy(work);
    return st;
}

static b1_status measure(void *user, int depth, double *ns, b1_error *err)
{
    b1_status st;
    const b1i_setup_cell *c = user;
    b1i_lab_work *work = NULL;
    (void)depth;
    if (c->work) return b1i_lab_work_single(c->work, ns, err);
    B1I_TRY(make(c, &work, err));
    const b1i_lab_setup *setup = b1i_lab_work_setup(work);
    switch (c->phase) {
    case phase_capture:
        *ns = (double)setup->capture_ns;
        break;
    case phase_instantiate:
        *ns = (double)setup->instantiate_ns;
        break;
    case phase_upload:
        *ns = (double)setup->upload_ns;
        break;
    default:
        B1I_TRY(b1i_lab_work_single(work, ns, err));
    }
fail:
    b1i_lab_work_destroy(work);
    return st;
}

static const b1i_lab_driver driver = {.prepare = prepare, .measure = {[b1i_host_single] = measure}};

static void name_of(char *name, size_t bytes, int nodes, int mode, setup_phase phase)
{
    snprintf(name, bytes, "setup/nodes=%d/%s/%s", nodes, b1i_lab_mode_names[mode], about[phase].name);
}

static b1_status add_phase(b1i_launch *l, int nodes, int mode, setup_phase phase, b1_error *err)
{
    char name[64];
    b1i_setup_cell *c = b1i_calloc(1, sizeof *c);
    if (!c) return b1i_fail_memory(err, sizeof *c);
    *c = (b1i_setup_cell){.of = l, .next = l->setups, .phase = phase, .nodes = nodes, .mode = mode};
    l->setups = c;
    name_of(name, sizeof name, nodes, mode, phase);
    const char *from = l->gpu ? about[phase].gpu_from : about[phase].cpu_from;
    const char *to = l->gpu ? about[phase].gpu_to : about[phase].cpu_to;
    const b1i_lab_cell_spec spec = {.name = name,
                                    .driver = &driver,
                                    .user = c,
                                    .depth_most = 1,
                                    .facts = json_pack("{si si ss ss ss* ss*}", "n", nodes, "nodes", nodes, "variant",
                                                       about[phase].name, "mode", b1i_lab_mode_names[mode], "from",
                                                       from, "to", to)};
    if (!spec.facts) return b1i_fail_memory(err, 0);
    return b1i_lab_add(l->lab, &spec, err);
}

b1_status b1i_launch_add_setups(b1i_launch *l, int nodes, int mode, b1_error *err)
{
    b1_status st = B1_OK;
    for (int phase = 0; phase < phases; phase++) B1I_TRY(add_phase(l, nodes, mode, (setup_phase)phase, err));
fail:
    return st;
}

void b1i_launch_end_setups(b1i_launch *l)
{
    while (l->setups) {
        b1i_setup_cell *c = l->setups;
        l->setups = c->next;
        b1i_lab_work_destroy(c->work);
        b1i_free(c);
    }
}

/* All phases once, but for the steady replay, which the first one would have cost anyway. */
static json_t *setup_terms(const b1i_launch *l, int nodes, int mode)
{
    char name[64];
    json_t *terms = json_array();
    for (int phase = 0; terms && phase < phases; phase++) {
        if (!l->gpu && !about[phase].cpu_from) continue;
        name_of(name, sizeof name, nodes, mode, (setup_phase)phase);
        json_t *term = json_pack("[iss]", phase == phase_steady ? -1 : 1, name, b1i_lab_kind_names[b1i_host_single]);
        if (json_array_append_new(terms, term)) {
            json_decref(terms);
            terms = NULL;
        }
    }
    return terms;
}

b1_status b1i_launch_pays(const b1i_launch *l, int nodes, int mode, json_t *figures, b1_error *err)
{
    char stream[48], graph[48];
    snprintf(stream, sizeof stream, "nodes=%d/%s", nodes, b1i_lab_mode_names[b1i_lab_stream]);
    snprintf(graph, sizeof graph, "nodes=%d/%s", nodes, b1i_lab_mode_names[mode]);
    for (int k = 0; k < b1i_lab_kinds; k++) {
        const char *kind = b1i_lab_kind_names[k];
        json_t *figure = json_pack("{ss ss ss sb so s[[iss][iss]]}", "name", "pays for itself after", "unit", "replays",
                                   "kind", kind, "whole", 1, "numerator", setup_terms(l, nodes, mode), "denominator", 1,
                                   stream, kind, -1, graph, kind);
        if (json_array_append_new(figures, figure)) return b1i_fail_memory(err, 0);
    }
    return B1_OK;
}
