/* SPDX-License-Identifier: MIT
 *
 * The experiment `rms-softmax`: an RMS-scaled softmax over rows as five kernels, as one, and as one whose blocks stay,
 * each as stream, graph and pdl, over numbers of rows and widths.
 *
 * All cells of a size read the same x, and the separate ones go through the same z and the same figures of rows; each
 * has a y of its own, so that what its check finds there is its own work.
 */
#include "lab/experiments/rms_softmax.h"

#include "lab/experiments/cells.h"
#include "lab/oracle.h"

#include <stdio.h>
#include <string.h>

enum {
    CELLS_A_SIZE = b1i_softmax_variants * b1i_lab_modes,
    SIZES_MOST = 12,
    ARRAYS = 2 + CELLS_A_SIZE, /* of a size, at most */
    POISON = 0xff              /* as floats they are no numbers */
};

static const int rows_all[] = {1, 128, 1024, 0}, widths_all[] = {256, 1000, 4096, 12345, 0};
static const int rows_quick[] = {1, 48, 0}, widths_quick[] = {31, 1000, 0};

typedef struct softmax softmax;

typedef struct size {
    int rows, width;
    uint64_t x, z;       /* float [rows][width]; 0: not made yet */
    uint64_t row_values; /* float [3][rows]: square means, maxima, sums */
} size;

typedef struct cell {
    b1i_lab_work_cell work; /* first, for it is what the driver of works takes */
    softmax *of;
    size *size;
    b1i_softmax_variant variant;
    uint64_t y, next;
    b1i_lab_op ops[B1I_SOFTMAX_OPS_MOST];
    char name[64];
} cell;

struct softmax {
    b1i_lab *lab;
    b1i_lab_device *device;
    b1i_lab_driver driver;
    size sizes[SIZES_MOST];
    cell cells[SIZES_MOST * CELLS_A_SIZE];
    int size_count, cell_count;
};

static size_t elements(const size *s) { return (size_t)s->rows * (size_t)s->width; }
static size_t array_bytes(const size *s) { return elements(s) * sizeof(float); }

/* Few of a row's elements are large, so that its softmax is not flat; rows differ in their size. */
static void make_x(float *x, const size *s)
{
    for (size_t i = 0; i < elements(s); i++) {
        const float u = (float)((int64_t)(b1i_mix64(i) >> 40) - (1 << 23)) * 0x1p-23f;
        x[i] = u * u * u * (float)(1 + i / (size_t)s->width % 7);
    }
}

/* ---- memory ---- */

static void free_size(softmax *p, size *s)
{
    b1i_lab_free(p->device, s->x);
    b1i_lab_free(p->device, s->z);
    b1i_lab_free(p->device, s->row_values);
    s->x = s->z = s->row_values = 0;
}

static b1_status make_size(softmax *p, size *s, b1_error *err)
{
    b1_status st = B1_OK;
    float *x = NULL;
    char what[64];
    if (s->x) return B1_OK;
    snprintf(what, sizeof what, "rms-softmax of %d rows of %d", s->rows, s->width);
    B1I_TRY(b1i_cells_room(p->device, what, ARRAYS * (uint64_t)array_bytes(s), err));
    x = b1i_malloc(array_bytes(s));
    if (!x) {
        st = b1i_fail_memory(err, array_bytes(s));
        goto fail;
    }
    make_x(x, s);
    B1I_TRY(b1i_lab_alloc(p->device, array_bytes(s), what, &s->z, err));
    B1I_TRY(b1i_lab_alloc(p->device, 3 * (size_t)s->rows * sizeof(float), what, &s->row_values, err));
    B1I_TRY(b1i_lab_alloc(p->device, array_bytes(s), what, &s->x, err));
    B1I_TRY(b1i_lab_put(p->device, s->x, x, array_bytes(s), err));
fail:
    if (st != B1_OK) free_size(p, s);
    b1i_free(x);
    return st;
}

/* Blocks of the persistent kernel that a GPU holds at once; 1 on the CPU, whose workers need none. */
static b1_status resident_blocks(b1i_lab_device *device, int width, unsigned *blocks, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_gpu *gpu = b1i_lab_device_gpu(device);
    b1i_gpu_kernel *kernel;
    const size_t shared = b1i_softmax_shared_bytes(b1i_softmax_persistent, width);
    int of_unit = 0;
    *blocks = 1;
    if (!gpu) return B1_OK;
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_softmax_persistent", shared, &kernel, err));
    B1I_TRY(b1i_gpu_occupancy(gpu, kernel, (int)b1i_softmax_threads(width), shared, &of_unit, err));
    *blocks = (unsigned)of_unit * (unsigned)b1i_lab_device_units(device);
    if (!*blocks) st = b1i_fail(err, B1_UNSUPPORTED, "a row of %d floats does not fit on an SM", width);
fail:
    return st;
}

static b1_status make_ops(cell *c, b1_error *err)
{
    b1_status st;
    const size *s = c->size;
    const uint64_t row_bytes = (uint64_t)s->rows * sizeof(float);
    unsigned blocks;
    B1I_TRY(resident_blocks(c->of->device, s->width, &blocks, err));
    const b1i_softmax_args args = {.x = s->x,
                                   .z = s->z,
                                   .y = c->y,
                                   .square_mean = s->row_values,
                                   .most = s->row_values + row_bytes,
                                   .sum = s->row_values + 2 * row_bytes,
                                   .next = c->next,
                                   .rows = s->rows,
                                   .width = s->width};
    b1i_softmax_ops(c->variant, &args, blocks, c->ops);
    c->work.ops = c->ops;
fail:
    return st;
}

/* ---- a cell ---- */

static void free_cell(cell *c)
{
    b1i_lab_work_cell_end(&c->work);
    b1i_lab_free(c->of->device, c->y);
    b1i_lab_free(c->of->device, c->next);
    c->y = c->next = 0;
}

static b1_status prepare(void *user, b1_error *err)
{
    b1_status st;
    cell *c = user;
    b1i_lab_device *device = c->of->device;
    const bool made = !c->work.work; /* else it is the twin of one that was prepared */
    if (made) {
        B1I_TRY(b1i_cells_mode_fits(device, (b1i_lab_mode)c->work.mode, c->work.kernels, err));
        B1I_TRY(make_size(c->of, c->size, err));
        B1I_TRY(b1i_lab_alloc(device, array_bytes(c->size), c->name, &c->y, err));
        B1I_TRY(b1i_lab_alloc(device, sizeof(uint32_t), c->name, &c->next, err));
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
    B1I_TRY(b1i_lab_fill(c->of->device, c->y, POISON, array_bytes(s), err));
    B1I_TRY(b1i_lab_fill(c->of->device, c->next, POISON, sizeof(uint32_t), err));
    if (c->variant == b1i_softmax_separate) {
        B1I_TRY(b1i_lab_fill(c->of->device, s->z, POISON, array_bytes(s), err));
        B1I_TRY(b1i_lab_fill(c->of->device, s->row_values, POISON, 3 * (size_t)s->rows * sizeof(float), err));
    }
fail:
    return st;
}

static b1_status check(void *user, b1_error *err)
{
    b1_status st;
    const cell *c = user;
    const size *s = c->size;
    const size_t bytes = array_bytes(s);
    float *x = b1i_malloc(2 * bytes), *y;
    if (!x) return b1i_fail_memory(err, 2 * bytes);
    y = x + elements(s);
    B1I_TRY(b1i_lab_get(c->of->device, y, c->y, bytes, err));
    if (b1i_lab_plant) b1i_lab_plant(c->name, y, bytes);
    make_x(x, s);
    st = b1i_oracle_rms_softmax(c->name, x, y, s->rows, s->width,
                                b1i_softmax_adds(b1i_lab_device_gpu(c->of->device) != NULL, s->width), err);
fail:
    b1i_free(x);
    return st;
}

/* ---- the experiment ---- */

/* What an invocation moves: the five kernels read and write 1 + 2 + 1 + 1 + 2 times the array, and the figures of rows
 * seven times: three are written, one is read twice. */
static uint64_t bytes_of(const cell *c)
{
    const uint64_t all = array_bytes(c->size);
    if (c->variant != b1i_softmax_separate) return 2 * all;
    return 7 * (all + (uint64_t)c->size->rows * sizeof(float));
}

static json_t *facts_of(const cell *c)
{
    const size *s = c->size;
    return json_pack("{sI si si ss ss sI si si}", "n", (json_int_t)elements(s), "rows", s->rows, "width", s->width,
                     "variant", b1i_softmax_variant_names[c->variant], "mode", b1i_lab_mode_names[c->work.mode],
                     "bytes", (json_int_t)bytes_of(c), "kernels", c->work.kernels, "memsets", c->work.memsets);
}

static b1_status add_cell(softmax *p, size *s, b1i_softmax_variant variant, int mode, b1_error *err)
{
    cell *c = &p->cells[p->cell_count++];
    const int kernels = variant == b1i_softmax_separate ? 5 : 1, memsets = variant == b1i_softmax_persistent;
    *c = (cell){.of = p, .size = s, .variant = variant};
    c->work = (b1i_lab_work_cell){.lab = p->lab,
                                  .mode = mode,
                                  .count = kernels + memsets,
                                  .sets = 1,
                                  .kernels = kernels,
                                  .memsets = memsets,
                                  .check = check,
                                  .poison = poison,
                                  .user = c};
    snprintf(c->name, sizeof c->name, "%dx%d/%s_%s", s->rows, s->width, b1i_softmax_variant_names[variant],
             b1i_lab_mode_names[mode]);
    const b1i_lab_cell_spec spec = {.name = c->name, .driver = &p->driver, .user = &c->work, .facts = facts_of(c)};
    if (!spec.facts) return b1i_fail_memory(err, 0);
    return b1i_lab_add(p->lab, &spec, err);
}

static b1_status add_size(softmax *p, int rows, int width, b1_error *err)
{
    b1_status st = B1_OK;
    char place[32];
    size *s = &p->sizes[p->size_count++];
    *s = (size){.rows = rows, .width = width};
    for (int v = 0; v < b1i_softmax_variants; v++)
        for (int mode = 0; mode < b1i_lab_modes; mode++) B1I_TRY(add_cell(p, s, (b1i_softmax_variant)v, mode, err));
    snprintf(place, sizeof place, "%dx%d", rows, width);
    B1I_TRY(b1i_cells_twins(p->lab, place, err));
fail:
    return st;
}

static b1_status open_softmax(b1i_lab *lab, void **state, b1_error *err)
{
    b1_status st = B1_OK;
    softmax *p = b1i_calloc(1, sizeof *p);
    if (!p) return b1i_fail_memory(err, sizeof *p);
    *state = p;
    p->lab = lab;
    p->device = b1i_lab_get_device(lab);
    p->driver = b1i_lab_work_driver;
    p->driver.prepare = prepare;
    const bool quick = b1i_lab_get_options(lab)->quick;
    const int *rows = quick ? rows_quick : rows_all, *widths = quick ? widths_quick : widths_all;
    for (int r = 0; rows[r]; r++)
        for (int w = 0; widths[w]; w++) B1I_TRY(add_size(p, rows[r], widths[w], err));
fail:
    return st;
}

static void close_softmax(b1i_lab *lab, void *state)
{
    (void)lab;
    softmax *p = state;
    if (!p) return;
    for (int i = 0; i < p->cell_count; i++) free_cell(&p->cells[i]);
    for (int i = 0; i < p->size_count; i++) free_size(p, &p->sizes[i]);
    b1i_free(p);
}

const b1i_experiment b1i_experiment_rms_softmax = {
    .name = "rms-softmax",
    .summary = "an RMS-scaled softmax over rows: separate kernels, one, and one that stays",
    .open = open_softmax,
    .after = b1i_cells_graphs,
    .close = close_softmax,
};
