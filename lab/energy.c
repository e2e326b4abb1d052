/* SPDX-License-Identifier: MIT
 *
 * Energy by counters. See energy.h.
 */
#include "lab/energy.h"

#include "gpu/gpu.h"
#include "lab/files.h"
#include "lab/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ZONES = 64,              /* looked at: packages, and parts of each */
    PARTS = 8,               /* of a package */
    ADDENDS = 32,            /* packages of a machine, at most */
    LOOK_NS = 10000000,      /* between two looks at the counters for a tick, while steps run */
    GIVE_UP_NS = 2000000000, /* past the least time: a counter that stands still so long does not move */
};

/* One number that only grows, but for its wraps: a file of RAPL's, or NVML's. */
typedef struct addend {
    char path[256];  /* "": NVML's */
    uint64_t last;   /* as it was read last */
    uint64_t modulo; /* it wraps there; 0: not known */
} addend;

typedef struct counter {
    const char *source;
    double unit_j;
    addend addends[ADDENDS];
    int count;
    double joules; /* since it was opened */
    double tick;   /* the largest that was seen */
    double taken;  /* joules at the last take */
} counter;

enum { NVML, RAPL_PACKAGE, RAPL_DRAM, COUNTERS };

struct b1i_energy {
    int ordinal, count;
    counter counters[COUNTERS]; /* [count]; the first is the device's own */
};

/* ---- reading ---- */

static bool read_number(const char *path, uint64_t *out)
{
    char line[64], *end;
    if (!b1i_machine_first_line(path, line, sizeof line)) return false;
    *out = strtoull(line, &end, 10);
    return end != line;
}

static bool read_addend(const b1i_energy *e, const addend *a, uint64_t *out)
{
    return *a->path ? read_number(a->path, out) : b1i_gpu_energy_read(e->ordinal, out);
}

/* Adds what the counter grew since it was read last. */
static b1_status read_counter(const b1i_energy *e, counter *c, bool *moved, b1_error *err)
{
    double grown = 0;
    for (int i = 0; i < c->count; i++) {
        addend *a = &c->addends[i];
        uint64_t now;
        if (!read_addend(e, a, &now))
            return b1i_fail(err, B1_SYSTEM, "the energy counter of %s can no longer be read", c->source);
        if (now >= a->last)
            grown += (double)(now - a->last);
        else if (a->modulo > a->last)
            grown += (double)(a->modulo - a->last) + (double)now;
        a->last = now;
    }
    *moved = grown > 0;
    c->joules += grown * c->unit_j;
    c->tick = fmax(c->tick, grown * c->unit_j);
    return B1_OK;
}

/* ---- finding ---- */

static void add_nvml(b1i_energy *e)
{
    counter *c = &e->counters[e->count];
    *c = (counter){.source = "nvml", .unit_j = 1e-3, .count = 1};
    if (e->ordinal != B1I_DEVICE_CPU && b1i_gpu_energy_read(e->ordinal, &c->addends[0].last)) e->count++;
}

/* Adds the zone at `folder` to the counter where its name begins with `name` and it can be read. */
static void add_zone(counter *c, const char *folder, const char *name)
{
    char path[320], text[64];
    addend a = {0};
    snprintf(path, sizeof path, "%s/name", folder);
    if (c->count == ADDENDS || !b1i_machine_first_line(path, text, sizeof text)) return;
    if (strncmp(text, name, strlen(name)) != 0) return;
    if ((size_t)snprintf(a.path, sizeof a.path, "%s/energy_uj", folder) >= sizeof a.path) return;
    if (!read_number(a.path, &a.last)) return;
    snprintf(path, sizeof path, "%s/max_energy_range_uj", folder);
    if (!read_number(path, &a.modulo)) a.modulo = 0;
    c->addends[c->count++] = a;
}

/* Packages are the zones intel-rapl:N (of AMD's too), their DRAM is one of their parts intel-rapl:N:M. */
static void add_rapl(b1i_energy *e, const char *sysfs)
{
    counter package = {.source = "rapl package", .unit_j = 1e-6}, dram = {.source = "rapl dram", .unit_j = 1e-6};
    char folder[256];
    for (int zone = 0; zone < ZONES; zone++) {
        snprintf(folder, sizeof folder, "%s/class/powercap/intel-rapl:%d", sysfs, zone);
        add_zone(&package, folder, "package");
        for (int part = 0; part < PARTS; part++) {
            snprintf(folder, sizeof folder, "%s/class/powercap/intel-rapl:%d:%d", sysfs, zone, part);
            add_zone(&dram, folder, "dram");
        }
    }
    if (package.count) e->counters[e->count++] = package;
    if (dram.count) e->counters[e->count++] = dram;
}

b1_status b1i_energy_open_at(const char *sysfs, int ordinal, b1i_energy **out, b1_error *err)
{
    *out = NULL;
    b1i_energy *e = b1i_calloc(1, sizeof *e);
    if (!e) return b1i_fail_memory(err, sizeof *e);
    e->ordinal = ordinal;
    add_nvml(e);
    /* A GPU without a counter of its own has none: the CPU's would stand for it. */
    if (ordinal == B1I_DEVICE_CPU || e->count) add_rapl(e, sysfs);
    if (e->count)
        *out = e;
    else
        b1i_free(e);
    return B1_OK;
}

b1_status b1i_energy_open(int ordinal, b1i_energy **out, b1_error *err)
{
    return b1i_energy_open_at("/sys", ordinal, out, err);
}

void b1i_energy_close(b1i_energy *energy) { b1i_free(energy); }
const char *b1i_energy_source(const b1i_energy *energy) { return energy->counters[0].source; }

b1_status b1i_energy_take(b1i_energy *energy, double *joules, double *resolution_j, b1_error *err)
{
    counter *c = &energy->counters[0];
    bool moved;
    b1_status st = read_counter(energy, c, &moved, err);
    *joules = c->joules - c->taken;
    *resolution_j = c->tick;
    c->taken = c->joules;
    return st;
}

/* ---- of steps ---- */

/* What a counter said at its first and at its last tick. */
typedef struct mark {
    uint64_t ns;
    double joules;
    int64_t tokens;
} mark;
typedef struct ticks {
    mark first, last;
    int count; /* after the first; -1: there was none */
} ticks;

/* A counter that can no longer be read has said nothing. */
static void look(b1i_energy *e, ticks *t, uint64_t now, int64_t tokens)
{
    for (int i = 0; i < e->count; i++) {
        bool moved;
        if (read_counter(e, &e->counters[i], &moved, NULL) != B1_OK) {
            t[i] = (ticks){.count = -1};
            continue;
        }
        if (!moved) continue;
        t[i].last = (mark){now, e->counters[i].joules, tokens};
        if (t[i].count++ < 0) t[i].first = t[i].last;
    }
}

static json_t *counter_json(const counter *c, const ticks *t)
{
    const int64_t tokens = t->count > 0 ? t->last.tokens - t->first.tokens : 0;
    if (tokens < 1)
        return json_pack("{s:s,s:n,s:i,s:n}", "source", c->source, "joules_per_token", "tokens", 0, "seconds");
    return json_pack("{s:s,s:o,s:I,s:f}", "source", c->source, "joules_per_token",
                     b1i_lab_number((t->last.joules - t->first.joules) / (double)tokens), "tokens", (json_int_t)tokens,
                     "seconds", (double)(t->last.ns - t->first.ns) / 1e9);
}

static b1_status document(const b1i_energy *e, const ticks *t, json_t **out, b1_error *err)
{
    json_t *counters = json_array(), *all = NULL;
    for (int i = 0; counters && i < e->count; i++)
        if (json_array_append_new(counters, counter_json(&e->counters[i], &t[i])) != 0) goto fail;
    all = json_deep_copy(json_array_get(counters, 0));
    if (!all) goto fail;
    if (json_is_null(json_object_get(all, "joules_per_token"))) {
        json_decref(all);
        all = json_null();
    } else if (json_object_set(all, "counters", counters) != 0) {
        goto fail;
    }
    json_decref(counters);
    *out = all;
    return B1_OK;
fail:
    json_decref(all);
    json_decref(counters);
    return b1i_fail(err, B1_MEMORY, "not enough memory for the document");
}

/* Whether the first counter was seen for so long, or stands still. */
static bool seen(const ticks *first, uint64_t ns, uint64_t least_ns)
{
    return ns >= least_ns + GIVE_UP_NS || (first->count > 0 && first->last.ns - first->first.ns >= least_ns);
}

/* Runs steps, and looks for a tick, and past the least time for another. Between the two there is no look, for one at
 * NVML may take as long as some steps, in which the GPU idles. */
static b1_status run(b1i_energy *energy, const b1i_energy_work *work, uint64_t least_ns, ticks t[COUNTERS],
                     b1_error *err)
{
    b1_status st = B1_OK;
    ticks old[COUNTERS] = {{.count = 0}}; /* of movements that may be of many ticks */
    const uint64_t start = b1i_now_ns();
    uint64_t now = start, looked = start;
    bool fresh = true; /* the last look was a short while ago */
    int64_t tokens = 0;
    if (energy) look(energy, old, start, 0);
    for (bool done = !energy; !done || (work->more && work->more(work->user));) {
        if (work->cancelled && work->cancelled()) return b1i_fail(err, B1_CANCELLED, "cancelled while measuring");
        B1I_TRY(work->step(work->user, err));
        tokens += work->tokens;
        now = b1i_now_ns();
        if (done || now - looked < LOOK_NS) continue;
        if (t->count == 0 && now - t->first.ns < least_ns) {
            fresh = false;
            continue;
        }
        look(energy, fresh ? t : old, now, tokens);
        fresh = true;
        looked = now;
        done = seen(t, now - start, least_ns);
        if (work->looked) work->looked(work->user);
    }
fail:
    return st;
}

b1_status b1i_energy_measure(b1i_energy *energy, const b1i_energy_work *work, uint64_t least_ns, json_t **out,
                             b1_error *err)
{
    ticks t[COUNTERS] = {{.count = -1}, {.count = -1}, {.count = -1}};
    *out = json_null();
    b1_status st = run(energy, work, least_ns, t, err);
    return st == B1_OK && energy ? document(energy, t, out, err) : st;
}
