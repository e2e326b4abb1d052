/* SPDX-License-Identifier: MIT
 *
 * Attention of one decode step as operations, and their bodies on the CPU, which go over the same tiles, parts and
 * maxima as the kernels do. Sums are kept in LANES parts, which a compiler may put into vectors.
 */
#include "lab/experiments/attention.h"

#include "base/threads.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, DIM_MOST = 128, TILE = B1I_ATTN_TILE, GROUP = B1I_ATTN_GROUP_MOST, PIECE = 64, BLOCKS_A_UNIT = 2 };

/* Relative to no score of this experiment's data: every weight overflows. */
static const float FAR = -200;

const char *const b1i_attn_variant_names[b1i_attn_variants] = {"math",    "onepass",  "split",
                                                               "unified", "fallback", "engine"};

static float *floats(uint64_t address) { return (float *)(uintptr_t)address; }
static const uint16_t *halves(uint64_t address) { return (const uint16_t *)(uintptr_t)address; }

/* ---- rows ---- */

static void widen(float *to, const uint16_t *from, int count)
{
    for (int i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

static float dot(const float *x, const float *y, int count)
{
    float lane[LANES] = {0}, all = 0;
    for (int i = 0; i < count; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l] * y[i + l];
    for (int l = 0; l < LANES; l++) all += lane[l];
    return all;
}

static int tiles_of(const b1i_attn_args *a) { return (a->positions + TILE - 1) / TILE; }
static int valid_of(const b1i_attn_args *a, int tile)
{
    return a->positions - tile * TILE < TILE ? a->positions - tile * TILE : TILE;
}
static const uint16_t *tile_at(uint64_t all, const b1i_attn_args *a, int head, int tile)
{
    return halves(all) + ((size_t)head * (size_t)a->positions + (size_t)tile * TILE) * (size_t)a->dim;
}

/* ---- a walk over positions ---- */

typedef struct walk {
    float q[GROUP][DIM_MOST], o[GROUP][DIM_MOST];
    float most[GROUP], sum[GROUP];
    float keys[TILE][DIM_MOST], values[TILE][DIM_MOST]; /* of the tile at hand */
} walk;

static void take_tile(const b1i_attn_args *a, walk *w, int head, int tile)
{
    const uint16_t *k = tile_at(a->k, a, head, tile), *v = tile_at(a->v, a, head, tile);
    for (int i = 0; i < valid_of(a, tile); i++) {
        widen(w->keys[i], k + (size_t)i * (size_t)a->dim, a->dim);
        widen(w->values[i], v + (size_t)i * (size_t)a->dim, a->dim);
    }
}

/* One head over the tile; `unified`: relative to that, else to the largest so far. */
static void soften(const b1i_attn_args *a, walk *w, int g, int valid, const float *unified)
{
    float s[TILE], most = w->most[g], tile[DIM_MOST] = {0}, scale = 1, sum = 0;
    for (int i = 0; i < valid; i++) {
        s[i] = dot(w->q[g], w->keys[i], a->dim) * a->scale;
        if (s[i] > most) most = s[i];
    }
    if (!unified && most != w->most[g]) scale = exp2f(w->most[g] - most);
    w->most[g] = most;
    for (int i = 0; i < valid; i++) {
        const float p = exp2f(s[i] - (unified ? *unified : most));
        sum += p;
        for (int d = 0; d < a->dim; d++) tile[d] += p * w->values[i][d];
    }
    w->sum[g] = w->sum[g] * scale + sum;
    for (int d = 0; d < a->dim; d++) w->o[g][d] = w->o[g][d] * scale + tile[d];
}

static void walk_over(const b1i_attn_args *a, walk *w, int head, int begin, int end, const float *unified)
{
    for (int g = 0; g < a->group; g++) {
        widen(w->q[g], halves(a->q) + ((size_t)head * (size_t)a->group + (size_t)g) * (size_t)a->dim, a->dim);
        w->most[g] = -INFINITY;
        w->sum[g] = 0;
        memset(w->o[g], 0, sizeof w->o[g]);
    }
    for (int tile = begin; tile < end; tile++) {
        take_tile(a, w, head, tile);
        for (int g = 0; g < a->group; g++) soften(a, w, g, valid_of(a, tile), unified);
    }
}

static bool out_of_range(const b1i_attn_args *a, const walk *w)
{
    for (int g = 0; g < a->group; g++)
        if (!(fabsf(w->most[g] - a->unified) <= B1I_ATTN_RANGE)) return true;
    return false;
}

static void do_part(const b1i_attn_args *a, int head, int index, bool unified)
{
    walk w;
    const int64_t tiles = tiles_of(a), heads = (int64_t)a->kv_heads * a->group;
    const int begin = (int)(tiles * index / a->parts), end = (int)(tiles * (index + 1) / a->parts);
    walk_over(a, &w, head, begin, end, unified ? &a->unified : NULL);
    const bool weigh = !unified || out_of_range(a, &w);
    if (unified && weigh) walk_over(a, &w, head, begin, end, NULL);
    for (int g = 0; g < a->group; g++) {
        const int64_t row = (int64_t)head * a->group + g, at = index * heads + row;
        float *to = a->part ? floats(a->part) + at * a->dim : floats(a->out) + row * a->dim;
        for (int d = 0; d < a->dim; d++) to[d] = a->part ? w.o[g][d] : w.o[g][d] / w.sum[g];
        if (!a->part) continue;
        floats(a->figures)[2 * at] = weigh ? w.most[g] : a->unified;
        floats(a->figures)[2 * at + 1] = w.sum[g];
    }
}

static void each_part(const b1i_attn_args *a, int worker, int workers, bool unified)
{
    int64_t begin, end;
    b1i_share((int64_t)a->kv_heads * a->parts, 1, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) do_part(a, (int)(i / a->parts), (int)(i % a->parts), unified);
}

static void body_part(const void *args, int worker, int workers) { each_part(args, worker, workers, false); }
static void body_unified(const void *args, int worker, int workers) { each_part(args, worker, workers, true); }

/* ---- parts become the result ---- */

static void merge_head(const b1i_attn_args *a, int64_t row)
{
    const int64_t heads = (int64_t)a->kv_heads * a->group;
    float most = -INFINITY, sum = 0, o[DIM_MOST] = {0};
    for (int p = 0; p < a->parts; p++) {
        const float base = floats(a->figures)[2 * (p * heads + row)];
        if (base > most) most = base;
    }
    for (int p = 0; p < a->parts; p++) {
        const float *figures = floats(a->figures) + 2 * (p * heads + row);
        const float *from = floats(a->part) + (p * heads + row) * a->dim;
        const float factor = exp2f(figures[0] - most); /* 1, and exactly so, where all are relative to the same */
        sum += factor * figures[1];
        for (int d = 0; d < a->dim; d++) o[d] += factor * from[d];
    }
    for (int d = 0; d < a->dim; d++) floats(a->out)[row * a->dim + d] = o[d] / sum;
}

static void body_merge(const void *args, int worker, int workers)
{
    const b1i_attn_args *a = args;
    int64_t begin, end;
    b1i_share((int64_t)a->kv_heads * a->group, 1, worker, workers, &begin, &end);
    for (int64_t row = begin; row < end; row++) merge_head(a, row);
}

/* ---- unfused ---- */

static void body_scores(const void *args, int worker, int workers)
{
    const b1i_attn_args *a = args;
    const int tiles = tiles_of(a);
    float q[DIM_MOST], key[DIM_MOST];
    int64_t begin, end;
    b1i_share((int64_t)a->kv_heads * tiles, 1, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int head = (int)(i / tiles), tile = (int)(i % tiles);
        for (int n = 0; n < valid_of(a, tile); n++) {
            widen(key, tile_at(a->k, a, head, tile) + (size_t)n * (size_t)a->dim, a->dim);
            for (int g = 0; g < a->group; g++) {
                const int64_t row = (int64_t)head * a->group + g;
                widen(q, halves(a->q) + row * a->dim, a->dim);
                floats(a->scores)[row * a->stride + tile * TILE + n] = dot(q, key, a->dim) * a->scale;
            }
        }
    }
}

static void body_softmax(const void *args, int worker, int workers)
{
    const b1i_attn_args *a = args;
    int64_t begin, end;
    b1i_share((int64_t)a->kv_heads * a->group, 1, worker, workers, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        float *s = floats(a->scores) + row * a->stride, most = -INFINITY, lane[LANES] = {0}, sum = 0;
        for (int i = 0; i < a->positions; i++) most = s[i] > most ? s[i] : most;
        for (int i = 0; i < a->positions; i++) lane[i % LANES] += s[i] = exp2f(s[i] - most);
        for (int l = 0; l < LANES; l++) sum += lane[l];
        for (int i = 0; i < a->positions; i++) s[i] /= sum;
    }
}

/* B1I_ATTN_SLICE dimensions of a head, in pieces of PIECE positions. */
static void value_slice(const b1i_attn_args *a, int64_t row, int slice)
{
    const float *p = floats(a->scores) + row * a->stride;
    const uint16_t *v = tile_at(a->v, a, (int)(row / a->group), 0) + slice * B1I_ATTN_SLICE;
    float all[B1I_ATTN_SLICE] = {0}, x[B1I_ATTN_SLICE];
    for (int at = 0; at < a->positions; at += PIECE) {
        float piece[B1I_ATTN_SLICE] = {0};
        const int end = at + PIECE < a->positions ? at + PIECE : a->positions;
        for (int i = at; i < end; i++) {
            widen(x, v + (size_t)i * (size_t)a->dim, B1I_ATTN_SLICE);
            for (int d = 0; d < B1I_ATTN_SLICE; d++) piece[d] += p[i] * x[d];
        }
        for (int d = 0; d < B1I_ATTN_SLICE; d++) all[d] += piece[d];
    }
    memcpy(floats(a->out) + row * a->dim + slice * B1I_ATTN_SLICE, all, sizeof all);
}

static void body_values(const void *args, int worker, int workers)
{
    const b1i_attn_args *a = args;
    const int slices = a->dim / B1I_ATTN_SLICE;
    int64_t begin, end;
    b1i_share((int64_t)a->kv_heads * a->group * slices, 1, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) value_slice(a, i / slices, (int)(i % slices));
}

/* ---- operations ---- */

int b1i_attn_parts(b1i_lab_device *device, const b1i_attn_shape *shape, int positions)
{
    b1i_gpu *gpu = b1i_lab_device_gpu(device);
    const int tiles = (positions + TILE - 1) / TILE, units = b1i_lab_device_units(device);
    int blocks = BLOCKS_A_UNIT; /* of a GPU's SM: as many as have room, two at most; of a CPU's worker */
    if (gpu && b1i_gpu_get_info(gpu)->shared_bytes_sm < BLOCKS_A_UNIT * (B1I_ATTN_WARPS * B1I_ATTN_RING + 2048))
        blocks = 1;
    int parts = units * blocks / shape->kv_heads;
    if (parts > (tiles + B1I_ATTN_WARPS - 1) / B1I_ATTN_WARPS) parts = (tiles + B1I_ATTN_WARPS - 1) / B1I_ATTN_WARPS;
    if (parts < 2) parts = 2;
    if (parts > B1I_ATTN_PARTS_MOST) parts = B1I_ATTN_PARTS_MOST;
    return parts < tiles ? parts : tiles;
}

typedef struct step {
    const char *names[2]; /* of 64 and 128 dimensions */
    b1i_lab_body body;
    unsigned threads, shared_bytes;
} step;

#define NAMES(kernel)               \
    {                               \
        kernel "_64", kernel "_128" \
    }
enum { WALK_THREADS = B1I_ATTN_WARPS * 32, WALK_BYTES = B1I_ATTN_WARPS * B1I_ATTN_RING };
static const step scores = {NAMES("k_attention_scores"), body_scores, WALK_THREADS, 0};
static const step softmax = {{"k_attention_softmax", "k_attention_softmax"}, body_softmax, B1I_ATTN_THREADS_ROW, 0};
static const step values = {NAMES("k_attention_values"), body_values, B1I_ATTN_THREADS_ROW, 0};
static const step part = {NAMES("k_attention_part"), body_part, WALK_THREADS, WALK_BYTES};
static const step part_unified = {NAMES("k_attention_unified"), body_unified, WALK_THREADS, WALK_BYTES};
static const step merge = {NAMES("k_attention_merge"), body_merge, B1I_ATTN_MERGE_THREADS, 0};
static const step merge_unified = {NAMES("k_attention_merge_unified"), body_merge, B1I_ATTN_MERGE_THREADS, 0};

static void set_op(b1i_lab_op *op, const step *s, int grid, const b1i_attn_args *args)
{
    *op = (b1i_lab_op){.kernel = s->names[args->dim == 128],
                       .body = s->body,
                       .grid = (unsigned)grid,
                       .threads = s->threads,
                       .shared_bytes = s->shared_bytes,
                       .arg_bytes = sizeof *args};
    memcpy(op->args, args, sizeof *args);
}

int b1i_attn_ops(b1i_attn_variant variant, const b1i_attn_args *args, b1i_lab_op *ops)
{
    b1i_attn_args a = *args;
    const int heads = a.kv_heads * a.group;
    const bool plain = variant == b1i_attn_split;
    if (variant == b1i_attn_fallback) a.unified = FAR;
    switch (variant) {
    case b1i_attn_math:
        set_op(&ops[0], &scores, a.kv_heads * ((tiles_of(&a) + B1I_ATTN_WARPS - 1) / B1I_ATTN_WARPS), &a);
        set_op(&ops[1], &softmax, heads, &a);
        set_op(&ops[2], &values, a.kv_heads * (a.dim / B1I_ATTN_SLICE), &a);
        break;
    case b1i_attn_onepass:
        a.parts = 1;
        a.part = 0;
        set_op(&ops[0], &part, a.kv_heads, &a);
        break;
    default:
        set_op(&ops[0], plain ? &part : &part_unified, a.kv_heads * a.parts, &a);
        set_op(&ops[1], plain ? &merge : &merge_unified, heads, &a);
    }
    return b1i_attn_kernels(variant);
}

int b1i_attn_kernels(b1i_attn_variant variant)
{
    return variant == b1i_attn_math ? 3 : variant == b1i_attn_onepass || variant == b1i_attn_engine ? 1 : 2;
}

/* ---- errors ---- */

/* In units of u = 2^−24, a rounding to float.
 *   score  on a GPU 2 dim (a tensor core adds 16 exact products and cuts off, by no more than two units of what is
 *          largest, in a chain), on a CPU a lane's additions and the lanes'; 8: scale, difference, what moves with them
 *   value  exp2 4, division 2; a weight's distance from the unified maximum, 64; a factor and its use, 6, each time
 * that a maximum moves; what a weight is cut to by two bf16, 2^-17; additions of a chain, by tensor cores 34 a tile The
 * engine's queries are two bf16 each as well, and its output is bf16. */
b1i_oracle_bounds b1i_attn_bounds(b1i_attn_variant variant, bool gpu, int dim, int positions, int parts)
{
    const double u = 0x1p-24, tiles = ceil((double)positions / TILE);
    b1i_oracle_bounds b = {.score = (gpu ? 2 * dim + 8 : dim / LANES + LANES + 8) * u};
    if (variant == b1i_attn_onepass) parts = 1;
    const double chain = ceil(tiles / parts / (gpu ? B1I_ATTN_WARPS : 1)) + 1;
    switch (variant) {
    case b1i_attn_math:
        b.value = (gpu ? ceil(positions / 256.0) * 2 + 64 : PIECE + ceil((double)positions / LANES) + 32) * u;
        break;
    case b1i_attn_engine:
        b.score += 0x1p-16;
        b.value = 40 * chain * u + (parts + 128) * u + 0x1p-16;
        b.out = 0x1p-8;
        break;
    default:
        b.value = gpu ? 40 * chain * u + 256 * u + 0x1p-17 : (8 * chain + TILE + 2 * parts + 96) * u;
    }
    return b;
}
