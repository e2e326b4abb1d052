/* SPDX-License-Identifier: MIT
 *
 * Preparing, warming up, measuring, checking. See lab.h and run.h.
 */
#include "lab/machine.h"
#include "lab/run.h"
#include "lab/samples.h"
#include "lab/stats.h"
#include "lab/work.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    BATCH_NS = 1000000, /* what a batch should take */
    BATCH_MOST = 256,
    WARM_LEAST = 3,  /* batches of each cell */
    WARM_BEFORE = 2, /* invocations before each cell's measurement */
    PROBES = 5,      /* of the warm clock, whose median counts */
};
#define WARM_NS       500000000ull /* of warming up at least */
#define WARM_QUICK_NS 30000000ull

/* ---- preparing ---- */

static b1i_cell_status status_of(b1_status st)
{
    return st == B1_OK            ? b1i_cell_ok
           : st == B1_UNSUPPORTED ? b1i_cell_unsupported
           : st == B1_MEMORY      ? b1i_cell_out_of_memory
                                  : b1i_cell_failed;
}

/* Sets what became of a cell; in a resumed run it must be what it was. */
static b1_status settle(b1i_lab *lab, size_t i, b1_status st, const char *message, b1_error *err)
{
    b1i_lab_plan_cell *c = &lab->plan.cells[i];
    if (lab->resumed) {
        if (st == B1_OK || c->status != b1i_cell_ok) return B1_OK; /* one that could not run then is not begun now */
        return b1i_fail(err, st, "the cell \"%s\" ran before and cannot now: %s", c->name, message);
    }
    c->status = status_of(st);
    if (st == B1_OK) return B1_OK;
    c->message = b1i_strdup(message[0] ? message : b1_status_text(st));
    return c->message ? B1_OK : b1i_fail_memory(err, strlen(message));
}

b1_status b1i_lab_prepare(b1i_lab *lab, b1_error *err)
{
    for (size_t i = 0; i < lab->plan.count; i++) {
        b1i_lab_plan_cell *c = &lab->plan.cells[i];
        const b1i_lab_driven *d = &lab->cells[i];
        b1_error why = {0};
        b1_status st = b1i_lab_may_go_on(lab, err);
        if (st != B1_OK) return st;
        b1i_lab_say(lab, "preparing", i, lab->plan.count);
        if (c->twin_of >= 0) {
            const b1i_lab_plan_cell *of = &lab->plan.cells[c->twin_of];
            c->status = of->status;
            if (of->message && !c->message && !(c->message = b1i_strdup(of->message)))
                return b1i_fail_memory(err, strlen(of->message));
            continue;
        }
        st = d->driver->prepare && !(lab->resumed && c->status != b1i_cell_ok) ? d->driver->prepare(d->user, &why)
                                                                               : B1_OK;
        if (st == B1_CANCELLED) return b1i_fail(err, st, "%s", why.message);
        if ((st = settle(lab, i, st, why.message, err)) != B1_OK) return st;
    }
    return B1_OK;
}

/* ---- measuring one ---- */

static b1_status measure(const b1i_lab *lab, size_t i, int kind, int depth, double *ns, b1_error *err)
{
    const b1i_lab_driven *d = &lab->cells[i];
    b1_status st = d->driver->measure[kind](d->user, kind == b1i_host_single ? 1 : depth, ns, err);
    if (st == B1_OK && (!isfinite(*ns) || *ns < 0))
        st = b1i_fail(err, B1_DEVICE, "the cell \"%s\" measured no time (%s)", lab->plan.cells[i].name,
                      b1i_lab_kind_names[kind]);
    return st;
}

/* The kind by which a cell is warmed up: a batch where it has one. */
static int warm_kind(const b1i_lab_plan_cell *c)
{
    if (c->kinds & 1u << b1i_device_interval) return b1i_device_interval;
    return c->kinds & 1u << b1i_host_enqueue ? b1i_host_enqueue : b1i_host_single;
}

/* ---- warming up ---- */

/* By the shortest invocation so far. */
static int depth_for(b1i_lab_driven *d, double ns)
{
    int most = d->depth_most > 0 ? d->depth_most : BATCH_MOST;
    if (!(d->least_ns > 0) || ns < d->least_ns) d->least_ns = ns;
    double fits = d->least_ns > 0 ? BATCH_NS / d->least_ns : most;
    return fits >= most ? most : fits < 1 ? 1 : (int)fits;
}

/* A batch of each cell that runs. With `choose` the depth follows the invocation's time. */
static b1_status warm_pass(b1i_lab *lab, bool choose, b1_error *err)
{
    for (size_t i = 0; i < lab->plan.count; i++) {
        b1i_lab_plan_cell *c = &lab->plan.cells[i];
        double ns;
        if (c->status != b1i_cell_ok) continue;
        b1_status st = b1i_lab_may_go_on(lab, err);
        if (st != B1_OK) return st;
        if ((st = measure(lab, i, warm_kind(c), c->depth, &ns, err)) != B1_OK) return st;
        if (choose) c->depth = c->twin_of < 0 ? depth_for(&lab->cells[i], ns) : lab->plan.cells[c->twin_of].depth;
    }
    return B1_OK;
}

static b1_status probe(b1i_lab *lab, double *mhz, b1_error *err)
{
    *mhz = 0;
    if (lab->options->device.ordinal == B1I_DEVICE_CPU) return B1_OK;
    return b1i_lab_probe_clock(lab->device, mhz, &lab->tick_ns, err);
}

b1_status b1i_lab_warm_up(b1i_lab *lab, bool choose, b1_error *err)
{
    b1_status st = B1_OK;
    double mhz[PROBES];
    uint64_t least = lab->options->quick ? WARM_QUICK_NS : WARM_NS, began = b1i_now_ns(), gone = 0;
    for (int pass = 0; pass < WARM_LEAST || gone < least; pass++) {
        b1i_lab_say(lab, "warming up", gone < least ? gone : least, least);
        B1I_TRY(warm_pass(lab, choose && pass < WARM_LEAST, err));
        gone = b1i_now_ns() - began;
        if (!b1i_lab_plan_rows(&lab->plan)) break;
    }
    for (int i = 0; i < PROBES; i++) B1I_TRY(probe(lab, &mhz[i], err));
    if (choose) lab->plan.warm_mhz = b1i_median(mhz, PROBES);
fail:
    return st;
}

/* ---- rounds ---- */

typedef struct rows {
    b1i_sample *items;
    size_t count, room;
    char *text;
    size_t bytes, text_room;
} rows;

/* One cell's rows of a round, after a few invocations that bring its own data and code near. */
static b1_status measure_cell(b1i_lab *lab, size_t i, int round, rows *r, b1_error *err)
{
    const b1i_lab_plan_cell *c = &lab->plan.cells[i];
    b1_status st;
    double ns, mhz;
    size_t first = r->count;
    B1I_TRY(measure(lab, i, warm_kind(c), c->depth < WARM_BEFORE ? c->depth : WARM_BEFORE, &ns, err));
    if (!b1i_grow(&r->items, &r->room, r->count + b1i_lab_kinds, sizeof *r->items)) {
        st = b1i_fail_memory(err, sizeof *r->items * r->room);
        goto fail;
    }
    for (int k = 0; k < b1i_lab_kinds; k++) {
        if (!(c->kinds & 1u << k)) continue;
        B1I_TRY(measure(lab, i, k, c->depth, &ns, err));
        r->items[r->count++] = (b1i_sample){.cell = (uint32_t)i, .kind = (b1i_lab_kind)k, .round = round, .ns = ns};
    }
    B1I_TRY(probe(lab, &mhz, err));
    for (size_t at = first; at < r->count; at++) r->items[at].sm_mhz = mhz;
fail:
    return st;
}

static b1_status keep_round(b1i_lab *lab, rows *r, uint64_t throttles, b1_error *err)
{
    r->bytes = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (!b1i_grow(&r->text, &r->text_room, r->bytes + B1I_SAMPLE_TEXT, 1))
            return b1i_fail_memory(err, r->text_room);
        r->items[i].cpu_throttles = throttles;
        r->bytes += b1i_sample_text(&lab->plan, &r->items[i], r->text + r->bytes);
    }
    return b1i_evidence_append(lab->evidence, r->text, r->bytes, err);
}

static b1_status measure_round(b1i_lab *lab, int round, size_t *order, rows *r, b1_error *err)
{
    b1_status st;
    size_t count = b1i_lab_plan_order(&lab->plan, round, order);
    bool cpu = lab->options->device.ordinal == B1I_DEVICE_CPU;
    uint64_t throttles = cpu ? b1i_machine_throttle_count() : 0;
    r->count = 0;
    for (size_t i = 0; i < count; i++) {
        B1I_TRY(b1i_lab_may_go_on(lab, err));
        b1i_lab_say(lab, "measuring", (uint64_t)(round - 1) * count + i, (uint64_t)lab->plan.rounds * count);
        B1I_TRY(measure_cell(lab, order[i], round, r, err));
    }
    B1I_TRY(keep_round(lab, r, cpu ? b1i_machine_throttle_count() - throttles : 0, err));
fail:
    return st;
}

b1_status b1i_lab_measure(b1i_lab *lab, int first, int *last, b1_error *err)
{
    b1_status st = B1_OK;
    rows r = {0};
    size_t *order = b1i_malloc((lab->plan.count + 1) * sizeof *order);
    if (!order) return b1i_fail_memory(err, lab->plan.count * sizeof *order);
    for (int round = first; round <= lab->plan.rounds && b1i_lab_plan_rows(&lab->plan); round++) {
        B1I_TRY(measure_round(lab, round, order, &r, err));
        *last = round;
    }
fail:
    b1i_free(r.items);
    b1i_free(r.text);
    b1i_free(order);
    return st;
}

/* ---- checking ---- */

b1_status b1i_lab_check(b1i_lab *lab, b1_error *err)
{
    for (size_t i = 0; i < lab->plan.count; i++) {
        const b1i_lab_plan_cell *c = &lab->plan.cells[i];
        const b1i_lab_driven *d = &lab->cells[i];
        b1_error why = {0};
        if (c->status != b1i_cell_ok || c->twin_of >= 0 || !d->driver->check) continue;
        b1i_lab_say(lab, "checking", i, lab->plan.count);
        b1_status st = d->driver->check(d->user, &why);
        if (st == B1_CANCELLED) return b1i_fail(err, st, "%s", why.message);
        if (st != B1_OK) return b1i_fail(err, st, "the cell \"%s\" after its measurement: %s", c->name, why.message);
    }
    return B1_OK;
}
