/* SPDX-License-Identifier: MIT
 *
 * The experiment `ceiling`: how fast memory is read, written and copied, by several ways to do it, over working sets
 * from what each unit's first cache holds to several times the last cache.
 *
 * A unit (an SM's only block, or a worker) has a part of its own, a power of two of 16 KiB, and goes over it several
 * times in one invocation, so that a small working set, too, takes long beside a launch. Bandwidth is
 * logical bytes over time: of a copy what is read and what is written, of all passes; what of a write goes to memory
 * later, after the invocation, no time of it shows.
 *
 * What reads gives a sum that depends on every word of every pass. What writes is looked at after each sample, in three
 * tiles that were made wrong before it, and as a whole in the preflight and at the end: all cells share two buffers.
 */
#include "lab/experiments/ceiling.h"

#include "lab/experiments/cells.h"
#include "lab/experiments/words.h"
#include "lab/work.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { POISON = 0xff, SIZES_MOST = 20, SPOTS = 3, RING_LEAST = 6 };
#define MIB (1ull << 20)

typedef enum band_what { band_read, band_write, band_copy } band_what;

/* A way to do it. A device that has not got it leaves it out, but for bulk copies, which the CPU is said not to have.
 */
typedef struct band_method {
    const char *name, *kernel;
    b1i_lab_body body;
    band_what what;
    bool mixes; /* the CPU's body gives the exclusive or, not the sum */
    bool bulk;
    unsigned threads;
} band_method;

static const band_method methods[] = {
    {"read/load4", "k_band_read4", b1i_band_read4, band_read, .threads = B1I_BAND_THREADS},
    {"read/load8", "k_band_read8", b1i_band_read8, band_read, .mixes = true, .threads = B1I_BAND_THREADS},
    {"read/load16", "k_band_read16", b1i_band_read16, band_read, .threads = B1I_BAND_THREADS},
    {"read/load16x8", "k_band_read16x8", NULL, band_read, .threads = B1I_BAND_THREADS},
    {"read/load16x8_past_l1", "k_band_read16x8_past_l1", NULL, band_read, .threads = B1I_BAND_THREADS},
    {"read/wide", NULL, b1i_band_read_wide, band_read, .mixes = true},
    {"read/bulk", "k_band_read_bulk", NULL, band_read, .bulk = true, .threads = B1I_BAND_READERS + 32},
    {"write/store4", "k_band_write4", NULL, band_write, .threads = B1I_BAND_THREADS},
    {"write/store16", "k_band_write16", b1i_band_write16, band_write, .threads = B1I_BAND_THREADS},
    {"write/store16_streaming", "k_band_write16_streaming", b1i_band_write16_streaming, band_write,
     .threads = B1I_BAND_THREADS},
    {"write/bulk", "k_band_write_bulk", NULL, band_write, .bulk = true, .threads = 256},
    {"copy/load16x4", "k_band_copy16x4", NULL, band_copy, .threads = B1I_BAND_THREADS},
    {"copy/memcpy", NULL, b1i_band_copy, band_copy, .threads = 0},
    {"copy/load16_streaming", NULL, b1i_band_copy16_streaming, band_copy, .threads = 0},
    {"copy/bulk", "k_band_copy_bulk", NULL, band_copy, .bulk = true, .threads = 32},
};
enum { METHODS = sizeof methods / sizeof *methods };

typedef struct ceiling ceiling;

typedef struct cell {
    ceiling *of;
    const band_method *method;
    b1i_band_args args;
    b1i_lab_work *work;
    uint64_t samples; /* so far */
    char name[80];
} cell;

struct ceiling {
    b1i_lab *lab;
    b1i_lab_device *device;
    b1i_gpu *gpu;
    int units;
    uint32_t part_most;
    uint64_t from, to, out; /* 0: not made yet */
    uint64_t bytes;         /* of `from` and of `to` */
    b1i_words_sum *sums;    /* of each `units` tiles of `from` */
    cell cells[SIZES_MOST * METHODS];
    int cell_count;
};

static bool mixes(const cell *c) { return !c->of->gpu && c->method->mixes; }
static uint64_t set_bytes(const cell *c) { return (uint64_t)c->args.part * (uint64_t)c->of->units; }

/* ---- memory ---- */

static void free_buffers(ceiling *b)
{
    b1i_lab_free(b->device, b->from);
    b1i_lab_free(b->device, b->to);
    b1i_lab_free(b->device, b->out);
    b1i_free(b->sums);
    b->from = b->to = b->out = 0;
    b->sums = NULL;
}

/* As large as the largest working set, or as memory has room for. */
static b1_status make_buffers(ceiling *b, b1_error *err)
{
    b1_status st;
    const uint64_t piece = (uint64_t)b->units * B1I_BAND_TILE;
    uint64_t bytes = (uint64_t)b->units * b->part_most;
    if (b->sums) return B1_OK;
    while ((st = b1i_cells_room(b->device, "the ceiling's two buffers", 2 * bytes, err)) == B1_MEMORY && bytes > piece)
        bytes /= 2;
    if (st != B1_OK) return st;
    B1I_TRY(b1i_lab_alloc(b->device, (size_t)b->units * sizeof(uint64_t), "the ceiling's sums", &b->out, err));
    B1I_TRY(b1i_lab_alloc(b->device, (size_t)bytes, "what the ceiling writes", &b->to, err));
    B1I_TRY(b1i_lab_alloc(b->device, (size_t)bytes, "what the ceiling reads", &b->from, err));
    b->sums = b1i_calloc((size_t)(bytes / piece), sizeof *b->sums);
    if (!b->sums) {
        st = b1i_fail_memory(err, (size_t)(bytes / piece) * sizeof *b->sums);
        goto fail;
    }
    st = b1i_words_put(b->device, b->from, bytes, piece, b->sums, err);
    b->bytes = bytes;
fail:
    if (st != B1_OK) free_buffers(b);
    return st;
}

/* Whether the buffers, which are there, hold the cell's working set. */
static b1_status set_fits(const cell *c, b1_error *err)
{
    if (set_bytes(c) <= c->of->bytes) return B1_OK;
    return b1i_fail(err, B1_MEMORY, "the buffers are of %.0f MiB, for no more than a quarter of memory may be taken",
                    (double)c->of->bytes / 0x1p20);
}

/* ---- what an invocation leaves ---- */

static b1_status check_sum(const cell *c, b1_error *err)
{
    b1_status st;
    const ceiling *b = c->of;
    const size_t bytes = (size_t)b->units * sizeof(uint64_t);
    uint64_t is = 0, must = 0, *out = b1i_malloc(bytes);
    if (!out) return b1i_fail_memory(err, bytes);
    B1I_TRY(b1i_lab_get(b->device, out, b->out, bytes, err));
    if (b1i_lab_plant) b1i_lab_plant(c->name, out, bytes);
    for (int u = 0; u < b->units; u++) is = mixes(c) ? is ^ out[u] : is + out[u];
    for (uint32_t i = 0; i < c->args.part / B1I_BAND_TILE; i++)
        must = mixes(c) ? must ^ b->sums[i].mix : must + b->sums[i].sum;
    if (!mixes(c)) {
        is = (uint32_t)is;
        must = (uint32_t)(must * c->args.passes);
    }
    if (is != must)
        st = b1i_fail(err, B1_DEVICE, "%s: the words that were read give %llx, and should give %llx", c->name,
                      (unsigned long long)is, (unsigned long long)must);
fail:
    b1i_free(out);
    return st;
}

static b1_status check_range(const cell *c, uint64_t offset, uint64_t bytes, b1_error *err)
{
    const b1i_words_rule rule = {c->method->what == band_write ? b1i_words_tile : b1i_words_own, B1I_BAND_TILE,
                                 B1I_BAND_STEP, c->args.seed};
    return b1i_words_check(c->of->device, c->name, &rule, c->of->to, offset, bytes, err);
}

/* The first tile, the last one, and another one for each sample. */
static uint64_t spot_of(const cell *c, int spot)
{
    const uint64_t tiles = set_bytes(c) / B1I_BAND_TILE;
    return B1I_BAND_TILE * (spot == 0 ? 0 : spot == 1 ? tiles - 1 : b1i_mix64(c->samples) % tiles);
}

/* Makes wrong what the next invocations must make right: everything, or the spots. */
static b1_status poison(const cell *c, bool all, b1_error *err)
{
    b1_status st = B1_OK;
    const ceiling *b = c->of;
    if (c->method->what == band_read)
        return b1i_lab_fill(b->device, b->out, POISON, (size_t)b->units * sizeof(uint64_t), err);
    if (all) return b1i_lab_fill(b->device, b->to, POISON, (size_t)set_bytes(c), err);
    for (int i = 0; i < SPOTS; i++) B1I_TRY(b1i_lab_fill(b->device, b->to + spot_of(c, i), POISON, B1I_BAND_TILE, err));
fail:
    return st;
}

static b1_status look(const cell *c, bool all, b1_error *err)
{
    b1_status st = B1_OK;
    if (c->method->what == band_read) return check_sum(c, err);
    if (all) return check_range(c, 0, set_bytes(c), err);
    for (int i = 0; i < SPOTS; i++) B1I_TRY(check_range(c, spot_of(c, i), B1I_BAND_TILE, err));
fail:
    return st;
}

/* ---- a cell ---- */

static b1_status method_fits(const cell *c, b1_error *err)
{
    const ceiling *b = c->of;
    const band_method *m = c->method;
    if (!b->gpu && m->bulk)
        return b1i_fail(err, B1_UNSUPPORTED, "the CPU has no engine that copies in bulk beside its workers");
    if (!b->gpu && !b1i_band_streams && strstr(m->name, "streaming"))
        return b1i_fail(err, B1_UNSUPPORTED, "stores that pass the caches are known here of x86 alone");
    if (b->gpu && m->bulk && b1i_gpu_get_info(b->gpu)->major < 9)
        return b1i_fail(err, B1_UNSUPPORTED, "bulk copies need compute capability 9.0 or later; this GPU has %d.%d",
                        b1i_gpu_get_info(b->gpu)->major, b1i_gpu_get_info(b->gpu)->minor);
    return B1_OK;
}

static b1_status make_work(cell *c, b1_error *err)
{
    b1_status st = B1_OK;
    ceiling *b = c->of;
    const band_method *m = c->method;
    b1i_lab_op op = {.kernel = m->kernel,
                     .body = m->body,
                     .grid = (unsigned)b->units,
                     .threads = m->threads,
                     .arg_bytes = sizeof c->args};
    c->args.from = b->from;
    c->args.to = b->to;
    c->args.out = b->out;
    if (b->gpu && m->bulk) {
        const int room = b1i_gpu_get_info(b->gpu)->shared_bytes_block - 1024 - B1I_BAND_EXTRA;
        c->args.slots = (uint32_t)(room / B1I_BAND_TILE < B1I_BAND_SLOTS ? room / B1I_BAND_TILE : B1I_BAND_SLOTS);
        if (c->args.slots < RING_LEAST)
            return b1i_fail(err, B1_UNSUPPORTED, "a block's shared memory, %d bytes, has no room for a ring",
                            b1i_gpu_get_info(b->gpu)->shared_bytes_block);
        op.shared_bytes = c->args.slots * B1I_BAND_TILE + B1I_BAND_EXTRA;
    }
    memcpy(op.args, &c->args, sizeof c->args);
    B1I_TRY(b1i_lab_work_create(b->device, b1i_lab_stream, &op, 1, 1, &c->work, err));
fail:
    return st;
}

/* One invocation alone, whose output is looked at as a whole. */
static b1_status run_whole(cell *c, b1_error *err)
{
    b1_status st;
    B1I_TRY(poison(c, true, err));
    B1I_TRY(b1i_lab_work_submit(c->work, 1, err));
    B1I_TRY(b1i_lab_device_wait(c->of->device, err));
    B1I_TRY(look(c, true, err));
fail:
    return st;
}

static b1_status prepare(void *user, b1_error *err)
{
    b1_status st;
    cell *c = user;
    if (c->work) return B1_OK; /* the twin of one that is */
    B1I_TRY(method_fits(c, err));
    B1I_TRY(make_buffers(c->of, err));
    B1I_TRY(set_fits(c, err));
    B1I_TRY(make_work(c, err));
    B1I_TRY(run_whole(c, err));
    return B1_OK;
fail:
    b1i_lab_work_destroy(c->work);
    c->work = NULL;
    return st;
}

static b1_status sample(cell *c, b1i_lab_kind kind, int depth, double *ns, b1_error *err)
{
    b1_status st;
    c->samples++;
    B1I_TRY(poison(c, false, err));
    B1I_TRY(kind == b1i_host_single ? b1i_lab_work_single(c->work, ns, err)
                                    : b1i_lab_work_interval(c->work, depth, ns, err));
    B1I_TRY(look(c, false, err));
fail:
    return st;
}

static b1_status single(void *user, int depth, double *ns, b1_error *err)
{
    return sample(user, b1i_host_single, depth, ns, err);
}

static b1_status interval(void *user, int depth, double *ns, b1_error *err)
{
    return sample(user, b1i_device_interval, depth, ns, err);
}

static b1_status check(void *user, b1_error *err) { return run_whole(user, err); }

/* Submission alone moves no byte: that latency would say nothing here. */
static const b1i_lab_driver driver = {
    .prepare = prepare,
    .measure = {[b1i_host_single] = single, [b1i_device_interval] = interval},
    .check = check,
};

/* ---- the experiment ---- */

/* What an invocation moves at least, so that its launch is small beside it. */
static uint64_t least_bytes(const ceiling *b)
{
    const bool quick = b1i_lab_get_options(b->lab)->quick;
    return b->gpu ? (quick ? 256 : 2048) * MIB : (quick ? 2 : 16) * MIB;
}

static json_t *facts_of(const cell *c, uint64_t cache)
{
    static const char *const whats[] = {"read", "write", "copy"};
    const uint64_t n = set_bytes(c), footprint = c->method->what == band_copy ? 2 * n : n;
    return json_pack("{sI ss ss ss sI sI sI sI sI}", "n", (json_int_t)n, "variant", c->method->name, "mode",
                     b1i_lab_mode_names[b1i_lab_stream], "what", whats[c->method->what], "bytes",
                     (json_int_t)(footprint * c->args.passes), "passes", (json_int_t)c->args.passes, "part_bytes",
                     (json_int_t)c->args.part, "footprint_bytes", (json_int_t)footprint, "cache_bytes",
                     (json_int_t)cache);
}

static b1_status add_cell(ceiling *b, const band_method *m, uint32_t part, b1_error *err)
{
    cell *c = &b->cells[b->cell_count++];
    *c = (cell){.of = b, .method = m};
    c->args.part = part;
    c->args.seed = (uint32_t)b1i_mix64((uint64_t)b->cell_count);
    c->args.passes = (uint32_t)(least_bytes(b) / set_bytes(c)) | 1;
    snprintf(c->name, sizeof c->name, "n=%llu/%s", (unsigned long long)set_bytes(c), m->name);
    const b1i_lab_cell_spec spec = {
        .name = c->name, .driver = &driver, .user = c, .facts = facts_of(c, b1i_cells_cache_bytes(b->device))};
    if (!spec.facts) return b1i_fail_memory(err, 0);
    return b1i_lab_add(b->lab, &spec, err);
}

static bool has(const ceiling *b, const band_method *m) { return b->gpu ? m->kernel != NULL : m->body != NULL; }

/* The largest part: so that all together are four times the CPU's last cache, or, where it is quick, 4 MiB; of a GPU,
 * whose L2 keeps a part of what is larger, eight times. But the buffers are at most a quarter of the device's memory,
 * and a part 1 GiB. What is free now is not asked, for a run that is resumed
 * has the same cells. */
static uint32_t largest_part(const ceiling *b)
{
    const uint64_t units = (uint64_t)b->units;
    const bool small = !b->gpu && b1i_lab_get_options(b->lab)->quick;
    const uint64_t wanted = small ? 4 * MIB * units : (b->gpu ? 8 : 4) * b1i_cells_cache_bytes(b->device);
    const uint64_t memory = b->gpu ? b1i_gpu_get_info(b->gpu)->memory_bytes
                                   : (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t part = B1I_BAND_TILE;
    while (part * units < wanted && part < 1024 * MIB && 4 * part * units <= memory / 4) part *= 2;
    return part;
}

static b1_status open_ceiling(b1i_lab *lab, void **state, b1_error *err)
{
    b1_status st = B1_OK;
    char name[80];
    ceiling *b = b1i_calloc(1, sizeof *b);
    if (!b) return b1i_fail_memory(err, sizeof *b);
    *state = b;
    b->lab = lab;
    b->device = b1i_lab_get_device(lab);
    b->gpu = b1i_lab_device_gpu(b->device);
    b->units = b1i_lab_device_units(b->device);
    b->part_most = largest_part(b);
    const uint32_t step = b1i_lab_get_options(lab)->quick ? 16 : 2;
    uint32_t part = B1I_BAND_TILE;
    for (bool last = false; !last; part *= step) {
        last = part >= b->part_most;
        if (last) part = b->part_most;
        for (int i = 0; i < METHODS; i++) {
            const bool reported = !b->gpu && methods[i].bulk && part == B1I_BAND_TILE;
            if (has(b, &methods[i]) || reported) B1I_TRY(add_cell(b, &methods[i], part, err));
        }
    }
    for (int i = 0; i < 2; i++) { /* twins of the smallest and of the largest working set */
        snprintf(name, sizeof name, "n=%llu/read/load16",
                 (unsigned long long)((i ? b->part_most : (uint64_t)B1I_BAND_TILE) * (uint64_t)b->units));
        B1I_TRY(b1i_lab_add_twin(lab, name, err));
    }
fail:
    return st;
}

static void close_ceiling(b1i_lab *lab, void *state)
{
    (void)lab;
    ceiling *b = state;
    if (!b) return;
    for (int i = 0; i < b->cell_count; i++) b1i_lab_work_destroy(b->cells[i].work);
    free_buffers(b);
    b1i_free(b);
}

const b1i_experiment b1i_experiment_ceiling = {
    .name = "ceiling",
    .summary = "bandwidth of reading, writing and copying, by method and working set",
    .open = open_ceiling,
    .close = close_ceiling,
};
