/* SPDX-License-Identifier: MIT
 *
 * The experiment `attention`: attention of one decode step, in every way there is, by head shape and context.
 *
 * An invocation of mode stream is one layer; of the graphs, all layers that there are here, one after the other in one
 * graph: "layers" says how many. Each layer has queries, keys and values of its own, and there are so many that they do
 * not fit into the device's cache together; a batch of mode stream goes round them. So every layer's keys and values
 * come from memory, in every mode. What lies between the operations of a layer is one for all, as in an engine.
 */
#include "lab/experiments/attention.h"

#include "base/threads.h"
#include "lab/experiments/cells.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SHAPES = 3,
    SHAPES_QUICK = 2,
    SIZES_MOST = 4 * SHAPES,
    LAYERS_MOST = 32,
    LAYERS_GPU = 8, /* at least, so that what a graph costs is shared by some */
    LAYERS_CPU = 2,
    POISON = 0xff /* as floats and as bf16 they are no numbers */
};

static const b1i_attn_shape shapes[SHAPES] = {
    {"llama-3-8b", 8, 4, 128, 32},
    {"qwen2.5-7b", 4, 7, 128, 28},
    {"llama-3.2-1b", 8, 4, 64, 16},
};
static const int contexts_all[] = {2048, 4096, 8192, 16384, 0}, contexts_quick[] = {24, 90, 0};

typedef struct attention attention;

typedef struct size {
    const b1i_attn_shape *shape;
    int positions, layers, parts;
    uint64_t q, k, v;               /* bf16 [layers]; q 0: not made yet */
    uint64_t scores, part, figures; /* of the layer at hand */
    b1i_attn_of_engine engine;      /* kv 0: not made yet */
    double *want;                   /* [3][layers][heads][dim]: outputs, and what bounds them */
} size;

typedef struct cell {
    b1i_lab_work_cell work; /* first, for it is what the driver of works takes */
    attention *of;
    size *size;
    b1i_attn_variant variant;
    uint64_t out;    /* f32, of the engine bf16 [layers][heads][dim] */
    b1i_lab_op *ops; /* [layers][kernels] */
    char name[64];
} cell;

struct attention {
    b1i_lab *lab;
    b1i_lab_device *device;
    b1i_lab_driver driver;
    size sizes[SIZES_MOST];
    cell cells[SIZES_MOST * b1i_attn_variants * b1i_lab_modes];
    int size_count, cell_count;
};

static size_t heads_of(const size *s) { return (size_t)s->shape->kv_heads * (size_t)s->shape->group; }
/* Elements of a layer. */
static size_t q_count(const size *s) { return b1i_attn_count(s->shape, s->positions, b1i_attn_q); }
static size_t kv_count(const size *s) { return b1i_attn_count(s->shape, s->positions, b1i_attn_k); }
static uint64_t kv_bytes(const b1i_attn_shape *shape, int positions)
{
    return 2 * sizeof(uint16_t) * (uint64_t)b1i_attn_count(shape, positions, b1i_attn_k);
}
static int stride_of(const size *s) { return (s->positions + B1I_ATTN_TILE - 1) / B1I_ATTN_TILE * B1I_ATTN_TILE; }

/* ---- what is right ---- */

typedef struct asked {
    const size *size;
    const uint16_t *q, *k, *v; /* of the layer */
    double *scratch;           /* [workers][2 · positions] */
    int layer;
} asked;

static b1i_oracle_head want_of(const size *s, int layer)
{
    const size_t all = (size_t)s->layers * q_count(s);
    double *y = s->want + (size_t)layer * q_count(s);
    return (b1i_oracle_head){y, y + all, y + 2 * all};
}

static void ask_heads(void *arg, int worker, int workers)
{
    const asked *a = arg;
    const b1i_attn_shape *shape = a->size->shape;
    const size_t dim = (size_t)shape->dim;
    const b1i_oracle_head want = want_of(a->size, a->layer);
    int64_t begin, end;
    b1i_share((int64_t)heads_of(a->size), 1, worker, workers, &begin, &end);
    for (int64_t h = begin; h < end; h++) {
        const size_t at = (size_t)h * dim, from = (size_t)(h / shape->group) * (size_t)a->size->positions * dim;
        const b1i_oracle_head head = {want.y + at, want.by_score + at, want.by_value + at};
        b1i_oracle_attention(a->q + at, a->k + from, a->v + from, shape->dim, a->size->positions,
                             a->scratch + (size_t)worker * 2 * (size_t)a->size->positions, &head);
    }
}

/* ---- memory ---- */

static void free_size(attention *p, size *s)
{
    const uint64_t made[] = {s->q, s->k, s->v, s->scores, s->part, s->figures};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) b1i_lab_free(p->device, made[i]);
    b1i_attn_engine_free(p->device, &s->engine);
    b1i_free(s->want);
    s->q = s->k = s->v = s->scores = s->part = s->figures = 0;
    s->want = NULL;
}

static b1_status alloc_size(attention *p, size *s, const char *what, b1_error *err)
{
    b1_status st = B1_OK;
    const size_t heads = heads_of(s), layers = (size_t)s->layers, parts = (size_t)s->parts;
    const size_t wants = 3 * layers * q_count(s) * sizeof *s->want;
    B1I_TRY(b1i_cells_room(p->device, what, layers * kv_bytes(s->shape, s->positions), err));
    s->want = b1i_calloc(1, wants);
    if (!s->want) return b1i_fail_memory(err, wants);
    B1I_TRY(b1i_lab_alloc(p->device, layers * kv_count(s) * sizeof(uint16_t), what, &s->k, err));
    B1I_TRY(b1i_lab_alloc(p->device, layers * kv_count(s) * sizeof(uint16_t), what, &s->v, err));
    B1I_TRY(b1i_lab_alloc(p->device, heads * (size_t)stride_of(s) * sizeof(float), what, &s->scores, err));
    B1I_TRY(b1i_lab_alloc(p->device, parts * q_count(s) * sizeof(float), what, &s->part, err));
    B1I_TRY(b1i_lab_alloc(p->device, parts * heads * 2 * sizeof(float), what, &s->figures, err));
    B1I_TRY(b1i_lab_alloc(p->device, layers * q_count(s) * sizeof(uint16_t), what, &s->q, err));
fail:
    return st;
}

/* Makes each layer, gives it to the device, and asks the oracle. */
static b1_status fill_size(attention *p, size *s, b1_error *err)
{
    b1_status st = B1_OK;
    const bool gpu = b1i_lab_device_gpu(p->device);
    const int workers = gpu ? b1i_cpu_count() : b1i_lab_device_units(p->device);
    const size_t q = q_count(s), kv = kv_count(s), scratch = (size_t)workers * 2 * (size_t)s->positions;
    asked a = {.size = s};
    uint16_t *data = b1i_malloc((q + 2 * kv) * sizeof *data);
    a.scratch = b1i_malloc(scratch * sizeof *a.scratch);
    if (!data || !a.scratch) {
        st = b1i_fail_memory(err, (q + 2 * kv) * sizeof *data + scratch * sizeof *a.scratch);
        goto fail;
    }
    B1I_TRY(b1i_pool_reserve(workers, err));
    a.q = data;
    a.k = data + q;
    a.v = data + q + kv;
    for (a.layer = 0; a.layer < s->layers; a.layer++) {
        B1I_TRY(b1i_lab_may_go_on(p->lab, err));
        b1i_attn_make(data, s->shape, s->positions, a.layer, b1i_attn_q);
        b1i_attn_make(data + q, s->shape, s->positions, a.layer, b1i_attn_k);
        b1i_attn_make(data + q + kv, s->shape, s->positions, a.layer, b1i_attn_v);
        const size_t at = (size_t)a.layer * sizeof *data;
        B1I_TRY(b1i_lab_put(p->device, s->q + at * q, a.q, q * sizeof *data, err));
        B1I_TRY(b1i_lab_put(p->device, s->k + at * kv, a.k, kv * sizeof *data, err));
        B1I_TRY(b1i_lab_put(p->device, s->v + at * kv, a.v, kv * sizeof *data, err));
        b1i_pool_run(workers, ask_heads, &a);
    }
fail:
    b1i_free(data);
    b1i_free(a.scratch);
    return st;
}

static b1_status make_size(attention *p, size *s, b1_error *err)
{
    b1_status st;
    char what[96];
    if (s->q) return B1_OK;
    snprintf(what, sizeof what, "attention of %s over %d positions in %d layers", s->shape->name, s->positions,
             s->layers);
    B1I_TRY(alloc_size(p, s, what, err));
    B1I_TRY(fill_size(p, s, err));
    return B1_OK;
fail:
    free_size(p, s);
    return st;
}

static b1_status make_engine(attention *p, size *s, b1_error *err)
{
    b1_status st;
    if (s->engine.kv) return B1_OK;
    if (b1i_lab_device_gpu(p->device)) {
        B1I_TRY(b1i_cells_room(p->device, "the engine's attention",
                               (uint64_t)s->layers * b1i_attn_engine_kv_bytes(s->shape, s->positions), err));
    }
    B1I_TRY(b1i_attn_engine_make(p->device, s->shape, s->positions, s->layers, &s->engine, err));
fail:
    return st;
}

/* ---- a cell ---- */

static size_t out_bytes(const cell *c)
{
    const size_t count = (size_t)c->size->layers * q_count(c->size);
    return count * (c->variant == b1i_attn_engine ? sizeof(uint16_t) : sizeof(float));
}

static void make_ops(cell *c)
{
    const size *s = c->size;
    const size_t q = q_count(s), kv = kv_count(s);
    for (int layer = 0; layer < s->layers; layer++) {
        b1i_lab_op *ops = c->ops + layer * b1i_attn_kernels(c->variant);
        const uint64_t out = c->out + (uint64_t)layer * out_bytes(c) / (uint64_t)s->layers;
        const uint64_t at = (uint64_t)layer * sizeof(uint16_t);
        if (c->variant == b1i_attn_engine) {
            b1i_attn_engine_op(c->of->device, &s->engine, s->shape, layer, c->work.mode == b1i_lab_pdl, out, ops);
            continue;
        }
        const b1i_attn_args args = {.q = s->q + at * q,
                                    .k = s->k + at * kv,
                                    .v = s->v + at * kv,
                                    .out = out,
                                    .scores = s->scores,
                                    .part = s->part,
                                    .figures = s->figures,
                                    .positions = s->positions,
                                    .stride = stride_of(s),
                                    .kv_heads = s->shape->kv_heads,
                                    .group = s->shape->group,
                                    .dim = s->shape->dim,
                                    .parts = s->parts,
                                    .scale = (float)(M_LOG2E / sqrt(s->shape->dim))};
        b1i_attn_ops(c->variant, &args, ops);
    }
    c->work.ops = c->ops;
}

static void free_cell(cell *c)
{
    b1i_lab_work_cell_end(&c->work);
    b1i_lab_free(c->of->device, c->out);
    b1i_free(c->ops);
    c->work.ops = c->ops = NULL;
    c->out = 0;
}

static b1_status prepare(void *user, b1_error *err)
{
    b1_status st;
    cell *c = user;
    const bool made = !c->work.work; /* else it is the twin of one that was prepared */
    if (made) {
        const size_t ops = (size_t)c->size->layers * (size_t)b1i_attn_kernels(c->variant);
        B1I_TRY(b1i_cells_mode_fits(c->of->device, (b1i_lab_mode)c->work.mode, c->work.count, err));
        if (c->variant == b1i_attn_engine) B1I_TRY(make_engine(c->of, c->size, err));
        B1I_TRY(make_size(c->of, c->size, err));
        c->ops = b1i_calloc(ops, sizeof *c->ops);
        if (!c->ops) {
            st = b1i_fail_memory(err, ops * sizeof *c->ops);
            goto fail;
        }
        B1I_TRY(b1i_lab_alloc(c->of->device, out_bytes(c), c->name, &c->out, err));
        make_ops(c);
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
    const cell *c = user;
    const size *s = c->size;
    b1i_lab_device *device = c->of->device;
    B1I_TRY(b1i_lab_fill(device, c->out, POISON, out_bytes(c), err));
    if (c->variant == b1i_attn_engine) return B1_OK; /* what it has between launches is empty */
    B1I_TRY(b1i_lab_fill(device, s->scores, POISON, heads_of(s) * (size_t)stride_of(s) * sizeof(float), err));
    B1I_TRY(b1i_lab_fill(device, s->part, POISON, (size_t)s->parts * q_count(s) * sizeof(float), err));
    B1I_TRY(b1i_lab_fill(device, s->figures, POISON, (size_t)s->parts * heads_of(s) * 2 * sizeof(float), err));
fail:
    return st;
}

/* bf16 [count] in the second half of `x` become floats [count] in all of it. */
static void widen(float *x, size_t count)
{
    const uint16_t *from = (const uint16_t *)x + count;
    for (size_t i = 0; i < count; i++) {
        uint16_t half; /* float i lies on no half after i */
        memcpy(&half, from + i, sizeof half);
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(x + i, &bits, sizeof bits);
    }
}

static b1_status check(void *user, b1_error *err)
{
    b1_status st;
    const cell *c = user;
    const size *s = c->size;
    const bool gpu = b1i_lab_device_gpu(c->of->device), engine = c->variant == b1i_attn_engine;
    const size_t count = (size_t)s->layers * q_count(s), bytes = count * sizeof(float);
    const b1i_oracle_bounds bounds =
        b1i_attn_bounds(c->variant, gpu, s->shape->dim, s->positions, engine ? s->engine.parts : s->parts);
    float *out = b1i_malloc(bytes);
    char what[sizeof c->name + 32];
    if (!out) return b1i_fail_memory(err, bytes);
    B1I_TRY(b1i_lab_get(c->of->device, engine ? (char *)out + bytes / 2 : (char *)out, c->out, out_bytes(c), err));
    if (engine) widen(out, count);
    if (b1i_lab_plant) b1i_lab_plant(c->name, out, bytes);
    for (int layer = 0; layer < s->layers; layer++) {
        const b1i_oracle_head want = want_of(s, layer);
        snprintf(what, sizeof what, "%s: layer %d", c->name, layer);
        B1I_TRY(b1i_oracle_attention_fits(what, out + (size_t)layer * q_count(s), &want, (int)heads_of(s),
                                          s->shape->dim, &bounds, err));
    }
fail:
    b1i_free(out);
    return st;
}

/* ---- the experiment ---- */

static void name_of(char *name, size_t bytes, const size *s, b1i_attn_variant variant, int mode)
{
    snprintf(name, bytes, "%s/context=%d/%s_%s", s->shape->name, s->positions, b1i_attn_variant_names[variant],
             b1i_lab_mode_names[mode]);
}

static json_t *figure(const char *name, const char *here, const char *less, b1i_lab_kind kind, double denominator)
{
    const char *of = b1i_lab_kind_names[kind];
    json_t *terms = less ? json_pack("[[iss][iss]]", 1, here, of, -1, less, of) : json_pack("[[iss]]", 1, here, of);
    return json_pack("{ss ss ss so sf}", "name", name, "unit", "ns", "kind", of, "numerator", terms, "denominator",
                     denominator);
}

/* A layer; what all layers of the model take beyond split-KV; and, from the host, their submission. */
static json_t *figures_of(const cell *c)
{
    const size *s = c->size;
    const bool stream = c->work.mode == b1i_lab_stream;
    const double here = stream ? 1 : s->layers, all = here / s->shape->layers;
    char split[sizeof c->name];
    json_t *figures = json_array();
    name_of(split, sizeof split, s, b1i_attn_split, c->work.mode);
    int bad = !figures;
    bad |= json_array_append_new(figures, figure("of one layer", c->name, NULL, b1i_host_single, here));
    bad |= json_array_append_new(figures, figure("of one layer", c->name, NULL, b1i_device_interval, here));
    if (c->variant != b1i_attn_split) {
        bad |= json_array_append_new(figures,
                                     figure("beyond split, all layers", c->name, split, b1i_device_interval, all));
    }
    if (stream) {
        bad |= json_array_append_new(figures, figure("submission of all layers", c->name, NULL, b1i_host_enqueue, all));
    }
    if (!bad) return figures;
    json_decref(figures);
    return NULL;
}

static json_t *facts_of(const cell *c)
{
    const size *s = c->size;
    const int layers = c->work.mode == b1i_lab_stream ? 1 : s->layers;
    json_t *figures = figures_of(c);
    if (!figures) return NULL;
    return json_pack("{si ss si si si ss ss si si sI sI si si so}", "n", s->positions, "shape", s->shape->name, "heads",
                     (int)heads_of(s), "kv_heads", s->shape->kv_heads, "head_dim", s->shape->dim, "variant",
                     b1i_attn_variant_names[c->variant], "mode", b1i_lab_mode_names[c->work.mode], "layers", layers,
                     "model_layers", s->shape->layers, "bytes",
                     (json_int_t)(kv_bytes(s->shape, s->positions) * (uint64_t)layers), "layer_bytes",
                     (json_int_t)kv_bytes(s->shape, s->positions), "kernels", c->work.kernels, "parts", s->parts,
                     "figures", figures);
}

static b1_status add_cell(attention *p, size *s, b1i_attn_variant variant, int mode, b1_error *err)
{
    cell *c = &p->cells[p->cell_count++];
    const int each = b1i_attn_kernels(variant), count = mode == b1i_lab_stream ? each : each * s->layers;
    *c = (cell){.of = p, .size = s, .variant = variant};
    c->work = (b1i_lab_work_cell){.lab = p->lab,
                                  .mode = mode,
                                  .count = count,
                                  .sets = mode == b1i_lab_stream ? s->layers : 1,
                                  .kernels = count,
                                  .check = check,
                                  .poison = poison,
                                  .user = c};
    name_of(c->name, sizeof c->name, s, variant, mode);
    const b1i_lab_cell_spec spec = {.name = c->name, .driver = &p->driver, .user = &c->work, .facts = facts_of(c)};
    if (!spec.facts) return b1i_fail_memory(err, 0);
    return b1i_lab_add(p->lab, &spec, err);
}

/* Layers that do not fit into the device's cache together, even where it holds half of what it may. */
static int layers_for(attention *p, const b1i_attn_shape *shape, int positions, bool quick)
{
    const int least = quick || !b1i_lab_device_gpu(p->device) ? LAYERS_CPU : LAYERS_GPU;
    if (quick) return least;
    const uint64_t wanted = 2 * b1i_cells_cache_bytes(p->device) / kv_bytes(shape, positions) + 1;
    return wanted > LAYERS_MOST ? LAYERS_MOST : (int)wanted < least ? least : (int)wanted;
}

static b1_status add_size(attention *p, const b1i_attn_shape *shape, int positions, bool quick, b1_error *err)
{
    b1_status st = B1_OK;
    char twin[64];
    size *s = &p->sizes[p->size_count++];
    *s = (size){.shape = shape, .positions = positions, .layers = layers_for(p, shape, positions, quick)};
    s->parts = b1i_attn_parts(p->device, shape, positions);
    for (int v = 0; v < b1i_attn_variants; v++)
        for (int mode = 0; mode < b1i_lab_modes; mode++) B1I_TRY(add_cell(p, s, (b1i_attn_variant)v, mode, err));
    name_of(twin, sizeof twin, s, b1i_attn_math, b1i_lab_stream);
    B1I_TRY(b1i_lab_add_twin(p->lab, twin, err));
    name_of(twin, sizeof twin, s, b1i_attn_split, b1i_lab_graph);
    B1I_TRY(b1i_lab_add_twin(p->lab, twin, err));
fail:
    return st;
}

static b1_status open_attention(b1i_lab *lab, void **state, b1_error *err)
{
    b1_status st = B1_OK;
    attention *p = b1i_calloc(1, sizeof *p);
    if (!p) return b1i_fail_memory(err, sizeof *p);
    *state = p;
    p->lab = lab;
    p->device = b1i_lab_get_device(lab);
    p->driver = b1i_lab_work_driver;
    p->driver.prepare = prepare;
    const bool quick = b1i_lab_get_options(lab)->quick;
    const int *contexts = quick ? contexts_quick : contexts_all;
    for (int i = 0; i < (quick ? SHAPES_QUICK : SHAPES); i++)
        for (int n = 0; contexts[n]; n++) B1I_TRY(add_size(p, &shapes[i], contexts[n], quick, err));
fail:
    return st;
}

static void close_attention(b1i_lab *lab, void *state)
{
    (void)lab;
    attention *p = state;
    if (!p) return;
    for (int i = 0; i < p->cell_count; i++) free_cell(&p->cells[i]);
    for (int i = 0; i < p->size_count; i++) free_size(p, &p->sizes[i]);
    b1i_free(p);
}

const b1i_experiment b1i_experiment_attention = {
    .name = "attention",
    .summary = "attention of a decode step: unfused, one pass, split, with a unified maximum, and the engine's",
    .open = open_attention,
    .after = b1i_cells_graphs,
    .close = close_attention,
};
