/* SPDX-License-Identifier: MIT
 *
 * The experiment `pointwise`: a chain of three elementwise kernels against the same arithmetic as one, each as stream,
 * graph and pdl.
 *
 * All cells of a size read the same x, and the separate ones go through the same a and b; each has a y of its own, so
 * that what its check finds there is its own work. Pointers stay as they are from one invocation to the next, and a
 * small size stays in the caches; cells "rotating/…" go round several sets of all arrays, whose x and y alone exceed
 * twice the last cache. As graphs these are as many graphs, so that a launch finds its graph no warmer than its arrays.
 */
#include "lab/experiments/pointwise.h"

#include "lab/experiments/cells.h"
#include "lab/kernels/pointwise_args.h"
#include "lab/lab.h"
#include "lab/oracle.h"

#include <stdio.h>
#include <string.h>

enum {
    VARIANTS = 2, /* separate, fused */
    CELLS_A_SIZE = VARIANTS * b1i_lab_modes,
    SIZES_MOST = 8,
    ARRAYS = 3 + CELLS_A_SIZE, /* of a size, at most */
    SETS_QUICK = 4,
    SETS_MOST = 4096, /* a graph of the driver's each */
    POISON = 0xff     /* as floats they are no numbers */
};

static const int64_t sizes_all[] = {256, 32768, 1048576, 16777216, 0}, sizes_quick[] = {256, 32768, 0};
static const char *const variants[VARIANTS] = {"separate", "fused"};

typedef struct pointwise pointwise;

/* A size, with fixed or rotating arrays, each [sets][count] with `stride` bytes between sets. */
typedef struct size {
    int64_t count;
    bool rotating;
    int sets;
    size_t stride;
    uint64_t x, a, b; /* 0: not made yet */
} size;

typedef struct cell {
    b1i_lab_work_cell work; /* first, for it is what the driver of works takes */
    pointwise *of;
    size *size;
    bool fused;
    uint64_t y;
    b1i_lab_op *ops; /* [sets][work.count] */
    char name[64];
} cell;

struct pointwise {
    b1i_lab *lab;
    b1i_lab_device *device;
    b1i_lab_driver driver;
    size sizes[SIZES_MOST];
    cell cells[SIZES_MOST * CELLS_A_SIZE];
    int size_count, cell_count;
};

/* The x of a set: even over [−4, 4), in steps that a float has. */
static void make_x(float *x, int64_t count, int set)
{
    const uint64_t first = (uint64_t)set * (uint64_t)count;
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)((int64_t)(b1i_mix64(first + (uint64_t)i) >> 40) - (1 << 23)) * 0x1p-21f;
}

/* ---- memory ---- */

static void free_size(pointwise *p, size *s)
{
    b1i_lab_free(p->device, s->x);
    b1i_lab_free(p->device, s->a);
    b1i_lab_free(p->device, s->b);
    s->x = s->a = s->b = 0;
}

static b1_status make_size(pointwise *p, size *s, b1_error *err)
{
    b1_status st = B1_OK;
    float *x = NULL;
    char what[64];
    const size_t bytes = s->stride * (size_t)s->sets;
    if (s->x) return B1_OK;
    snprintf(what, sizeof what, "pointwise with n = %lld in %d sets", (long long)s->count, s->sets);
    B1I_TRY(b1i_cells_room(p->device, what, ARRAYS * (uint64_t)bytes, err));
    x = b1i_malloc(s->stride);
    if (!x) {
        st = b1i_fail_memory(err, s->stride);
        goto fail;
    }
    B1I_TRY(b1i_lab_alloc(p->device, bytes, what, &s->a, err));
    B1I_TRY(b1i_lab_alloc(p->device, bytes, what, &s->b, err));
    B1I_TRY(b1i_lab_alloc(p->device, bytes, what, &s->x, err));
    for (int set = 0; set < s->sets; set++) {
        make_x(x, s->count, set);
        B1I_TRY(b1i_lab_put(p->device, s->x + (uint64_t)set * s->stride, x, (size_t)s->count * sizeof *x, err));
    }
fail:
    if (st != B1_OK) free_size(p, s);
    b1i_free(x);
    return st;
}

static b1_status make_ops(cell *c, b1_error *err)
{
    const size *s = c->size;
    const size_t all = (size_t)c->work.count * (size_t)s->sets;
    c->ops = b1i_calloc(all, sizeof *c->ops);
    if (!c->ops) return b1i_fail_memory(err, all * sizeof *c->ops);
    for (int set = 0; set < s->sets; set++) {
        const uint64_t at = (uint64_t)set * s->stride;
        const b1i_pointwise_arrays arrays = {s->x + at, s->a + at, s->b + at, c->y + at, s->count};
        b1i_pointwise_ops(c->fused, &arrays, c->ops + (size_t)set * (size_t)c->work.count);
    }
    c->work.ops = c->ops;
    return B1_OK;
}

/* ---- a cell ---- */

static b1_status sets_fit(const cell *c, b1_error *err)
{
    if (c->size->sets <= SETS_MOST) return B1_OK;
    return b1i_fail(err, B1_UNSUPPORTED,
                    "arrays of %lld floats would need %d sets to exceed twice the last cache; at most %d are made",
                    (long long)c->size->count, c->size->sets, SETS_MOST);
}

static void free_cell(cell *c)
{
    b1i_lab_work_cell_end(&c->work);
    b1i_lab_free(c->of->device, c->y);
    b1i_free(c->ops);
    c->y = 0;
    c->ops = NULL;
}

static b1_status prepare(void *user, b1_error *err)
{
    b1_status st;
    cell *c = user;
    size *s = c->size;
    const bool made = !c->work.work; /* else it is the twin of one that was prepared */
    if (made) {
        B1I_TRY(b1i_cells_mode_fits(c->of->device, c->work.mode, c->work.kernels, err));
        B1I_TRY(sets_fit(c, err));
        B1I_TRY(make_size(c->of, s, err));
        B1I_TRY(b1i_lab_alloc(c->of->device, s->stride * (size_t)s->sets, c->name, &c->y, err));
        B1I_TRY(make_ops(c, err));
    }
    B1I_TRY(b1i_lab_work_driver.prepare(&c->work, err));
    return B1_OK;
fail:
    if (made) free_cell(c);
    return st;
}

static b1_status poison(void *user, b1_error *err)
{
    b1_status st;
    cell *c = user;
    const size *s = c->size;
    const size_t bytes = s->stride * (size_t)s->sets;
    B1I_TRY(b1i_lab_fill(c->of->device, c->y, POISON, bytes, err));
    if (!c->fused) {
        B1I_TRY(b1i_lab_fill(c->of->device, s->a, POISON, bytes, err));
        B1I_TRY(b1i_lab_fill(c->of->device, s->b, POISON, bytes, err));
    }
fail:
    return st;
}

static b1_status check_set(const cell *c, int set, float *x, float *y, b1_error *err)
{
    b1_status st;
    const size *s = c->size;
    const size_t bytes = (size_t)s->count * sizeof *y;
    B1I_TRY(b1i_lab_get(c->of->device, y, c->y + (uint64_t)set * s->stride, bytes, err));
    if (b1i_lab_plant) b1i_lab_plant(c->name, y, bytes);
    make_x(x, s->count, set);
    st = b1i_oracle_pointwise(c->name, x, y, (size_t)s->count, err);
fail:
    return st;
}

static b1_status check(void *user, b1_error *err)
{
    b1_status st = B1_OK;
    const cell *c = user;
    const size_t bytes = 2 * c->size->stride;
    float *x = b1i_malloc(bytes);
    if (!x) return b1i_fail_memory(err, bytes);
    for (int set = 0; st == B1_OK && set < c->size->sets; set++) st = check_set(c, set, x, x + c->size->count, err);
    b1i_free(x);
    return st;
}

/* ---- the experiment ---- */

/* So many sets that x and y of all of them exceed twice the last cache. */
static int sets_of(const pointwise *p, int64_t count, bool rotating)
{
    if (!rotating) return 1;
    if (b1i_lab_get_options(p->lab)->quick) return SETS_QUICK;
    const uint64_t set = 2 * (uint64_t)count * sizeof(float), sets = 2 * b1i_cells_cache_bytes(p->device) / set + 1;
    return sets < 2 ? 2 : sets > 1 << 30 ? 1 << 30 : (int)sets;
}

static json_t *facts_of(const cell *c)
{
    const size *s = c->size;
    const json_int_t n = s->count, bytes = 8 * n * c->work.kernels;
    json_t *facts = json_pack("{sI ss ss sI si}", "n", n, "variant", variants[c->fused], "mode",
                              b1i_lab_mode_names[c->work.mode], "bytes", bytes, "kernels", c->work.kernels);
    if (facts && s->rotating) {
        const uint64_t cache = b1i_cells_cache_bytes(c->of->device), set = (c->fused ? 8 : 16) * (uint64_t)n;
        json_t *more =
            json_pack("{si sI sI sb}", "sets", s->sets, "sets_bytes", (json_int_t)(set * (uint64_t)s->sets),
                      "cache_bytes", (json_int_t)cache, "exceeds_cache_twice", set * (uint64_t)s->sets > 2 * cache);
        if (!more || json_object_update(facts, more)) {
            json_decref(facts);
            facts = NULL;
        }
        json_decref(more);
    }
    return facts;
}

static b1_status add_cell(pointwise *p, size *s, bool fused, int mode, b1_error *err)
{
    cell *c = &p->cells[p->cell_count++];
    const int kernels = fused ? 1 : 3;
    *c = (cell){.of = p, .size = s, .fused = fused};
    c->work = (b1i_lab_work_cell){.lab = p->lab,
                                  .mode = mode,
                                  .count = kernels,
                                  .sets = s->sets,
                                  .kernels = kernels,
                                  .memsets = 0,
                                  .check = check,
                                  .poison = poison,
                                  .user = c};
    snprintf(c->name, sizeof c->name, "%sn=%lld/%s_%s", s->rotating ? "rotating/" : "", (long long)s->count,
             variants[fused], b1i_lab_mode_names[mode]);
    const b1i_lab_cell_spec spec = {.name = c->name, .driver = &p->driver, .user = &c->work, .facts = facts_of(c)};
    if (!spec.facts) return b1i_fail_memory(err, 0);
    return b1i_lab_add(p->lab, &spec, err);
}

static b1_status add_size(pointwise *p, int64_t count, bool rotating, b1_error *err)
{
    b1_status st = B1_OK;
    char place[32];
    size *s = &p->sizes[p->size_count++];
    *s = (size){.count = count, .rotating = rotating, .sets = sets_of(p, count, rotating)};
    s->stride = ((size_t)count * sizeof(float) + 255) & ~(size_t)255;
    for (int v = 0; v < VARIANTS; v++)
        for (int mode = 0; mode < b1i_lab_modes; mode++) B1I_TRY(add_cell(p, s, v == 1, mode, err));
    snprintf(place, sizeof place, "n=%lld", (long long)count);
    if (!rotating) B1I_TRY(b1i_cells_twins(p->lab, place, err));
fail:
    return st;
}

static b1_status open_pointwise(b1i_lab *lab, void **state, b1_error *err)
{
    b1_status st = B1_OK;
    pointwise *p = b1i_calloc(1, sizeof *p);
    if (!p) return b1i_fail_memory(err, sizeof *p);
    *state = p;
    p->lab = lab;
    p->device = b1i_lab_get_device(lab);
    p->driver = b1i_lab_work_driver;
    p->driver.prepare = prepare;
    const int64_t *counts = b1i_lab_get_options(lab)->quick ? sizes_quick : sizes_all;
    for (int rotating = 0; rotating < 2; rotating++)
        for (int i = 0; counts[i]; i++) B1I_TRY(add_size(p, counts[i], rotating == 1, err));
fail:
    return st;
}

static void close_pointwise(b1i_lab *lab, void *state)
{
    (void)lab;
    pointwise *p = state;
    if (!p) return;
    for (int i = 0; i < p->cell_count; i++) free_cell(&p->cells[i]);
    for (int i = 0; i < p->size_count; i++) free_size(p, &p->sizes[i]);
    b1i_free(p);
}

const b1i_experiment b1i_experiment_pointwise = {
    .name = "pointwise",
    .summary = "a chain of three elementwise kernels against the same arithmetic as one",
    .open = open_pointwise,
    .after = b1i_cells_graphs,
    .close = close_pointwise,
};
