/* SPDX-License-Identifier: MIT
 *
 * What the GPU tests share: one GPU for all tests of a program, a model with its weights, buffers and programs on it,
 * the values of a step put and got as rows of floats, a step's parameters, and the KV cache element by element (by
 * args.h's formulas, written here once more). Include cmocka and tests/model_fixture.h before.
 *
 * Without a GPU every test skips; where B1_REQUIRE_GPU is set it fails instead. A pattern as the program's argument
 * chooses tests. B1_GPU_QUICK (a sanitizer looks on) leaves out repetitions.
 */
#ifndef CUDA_RIG_H
#define CUDA_RIG_H

#include "base/threads.h"
#include "cuda/cuda.h"

static b1i_gpu *the_gpu;
static char why_no_gpu[1000];

static inline bool quick_here(void) { return getenv("B1_GPU_QUICK") || slow_here(); }

/* Group setups: that there is a GPU; and one open for all tests. */
static inline int gpu_look(void **state)
{
    b1_error err = {0};
    (void)state;
    if (b1i_gpu_count(&err) > 0) return 0;
    (void)snprintf(why_no_gpu, sizeof why_no_gpu, "%s", *err.message ? err.message : "there is no GPU");
    if (!getenv("B1_REQUIRE_GPU")) return 0;
    print_error("a GPU is required: %s\n", why_no_gpu);
    return 1;
}

static inline int gpu_open(void **state)
{
    b1_error err = {0};
    int failed = gpu_look(state);
    if (failed || *why_no_gpu) return failed;
    if (b1i_gpu_open(0, &the_gpu, &err) == B1_OK && b1i_cuda_load_kernels(the_gpu, &err) == B1_OK) return 0;
    print_error("the GPU cannot be used: %s\n", err.message);
    return 1;
}

static inline int gpu_close(void **state)
{
    (void)state;
    b1i_gpu_close(the_gpu);
    the_gpu = NULL;
    return 0;
}

#define need_gpu()                                      \
    do {                                                \
        if (*why_no_gpu) {                              \
            print_message("skipped: %s\n", why_no_gpu); \
            skip();                                     \
        }                                               \
    } while (0)

/* ---- random numbers ---- */

static uint64_t seed_now = 1;

/* $B1_SEED, or the clock; printed, so that a failure can be had again. */
static inline void seed_start(void)
{
    const char *given = getenv("B1_SEED");
    seed_now = given ? strtoull(given, NULL, 0) : b1i_now_ns();
    printf("seed: B1_SEED=%llu\n", (unsigned long long)seed_now);
}
/* Uniform in [−1, 1). */
static inline float uniform(void) { return (float)((double)(b1i_mix64(seed_now++) >> 11) * 0x1p-52 - 1); }

static inline float bf16_of(float x) { return b1i_bf16_to_f32(b1i_f32_to_bf16(x)); }
static inline float larger(float a, float b) { return a > b ? a : b; }

/* ---- a model on the GPU ---- */

typedef struct cuda_rig {
    b1i_model *model; /* not owned */
    const b1i_config *c;
    b1i_plan plan;
    b1i_cuda_weights w;
    b1i_cuda_machine m;
} cuda_rig;

static inline void cuda_rig_open(cuda_rig *r, b1i_model *model)
{
    *r = (cuda_rig){.model = model, .c = &model->config};
    must(b1i_pool_reserve(b1i_cpu_count(), err));
    must(b1i_cuda_supports(model, err));
    must(b1i_plan_build(model, &r->plan, err));
    must(b1i_cuda_weights_load(the_gpu, model, &r->plan, b1i_cpu_count(), NULL, NULL, &r->w, err));
    must(b1i_cuda_machine_create(&r->w, &r->m, err));
}

static inline void cuda_rig_close(cuda_rig *r)
{
    b1i_cuda_machine_free(&r->m);
    b1i_cuda_weights_free(&r->w);
    b1i_plan_free(&r->plan);
    *r = (cuda_rig){0};
}

static inline const b1i_cuda_program *cuda_rig_program(cuda_rig *r, b1i_cuda_form form, int rows)
{
    const b1i_cuda_program *p = NULL;
    must(b1i_cuda_program_get(&r->m, form, rows == 1 ? b1i_cuda_one : b1i_cuda_few, &p, err));
    assert_true(p && p->count > 0);
    return p;
}

/* The ops [*first, *first + *count) of an item of a form. */
static inline void cuda_rig_item(const cuda_rig *r, b1i_cuda_form form, int item, int *first, int *count)
{
    *first = form != b1i_cuda_separate ? r->plan.groups[item].first : item;
    *count = form != b1i_cuda_separate ? r->plan.groups[item].count : 1;
}
static inline int cuda_rig_items(const cuda_rig *r, b1i_cuda_form form)
{
    return form != b1i_cuda_separate ? r->plan.group_count : r->plan.op_count;
}

/* ---- values: [8][stride] on the device, [8][cols] of floats here ---- */

static inline int value_bytes(b1i_value v) { return b1i_cuda_value_is_bf16(v) ? 2 : 4; }
static inline bool value_there(const b1i_cuda_machine *m, int v) { return v != b1i_v_logits && m->value[v] != 0; }
static inline size_t value_size(const b1i_cuda_machine *m, int v)
{
    return (size_t)B1I_CUDA_ROWS * (size_t)m->stride[v] * (size_t)value_bytes((b1i_value)v);
}

/* Every element of `v` as `rows` [8][cols] says (rounded where it is kept as bf16), or NaN where rows is NULL; zeros
 * past the columns. */
static inline void value_put(const b1i_cuda_machine *m, b1i_value v, const float *rows)
{
    const int cols = b1i_value_cols(&m->w->model->config, v);
    uint8_t *raw = calloc(1, value_size(m, v));
    assert_non_null(raw);
    for (int row = 0; row < B1I_CUDA_ROWS; row++)
        for (int i = 0; i < cols; i++) {
            size_t at = (size_t)row * (size_t)m->stride[v] + (size_t)i;
            float x = rows ? rows[(size_t)row * (size_t)cols + (size_t)i] : 0;
            if (b1i_cuda_value_is_bf16(v))
                ((uint16_t *)raw)[at] = rows ? b1i_f32_to_bf16(x) : 0xffff;
            else if (rows)
                ((float *)raw)[at] = x;
            else
                ((uint32_t *)raw)[at] = 0xffffffffu;
        }
    must(b1i_gpu_upload(m->gpu, m->value[v], raw, value_size(m, v), err));
    free(raw);
}

/* The value's memory as it is; the caller frees it. */
static inline uint8_t *value_raw(const b1i_cuda_machine *m, b1i_value v)
{
    uint8_t *raw = malloc(value_size(m, v));
    assert_non_null(raw);
    must(b1i_gpu_download(m->gpu, raw, m->value[v], value_size(m, v), err));
    return raw;
}

static inline float value_at(const b1i_cuda_machine *m, b1i_value v, const uint8_t *raw, int row, int64_t col)
{
    size_t at = (size_t)row * (size_t)m->stride[v] + (size_t)col;
    return b1i_cuda_value_is_bf16(v) ? b1i_bf16_to_f32(((const uint16_t *)raw)[at]) : ((const float *)raw)[at];
}

static inline void poison_values(const b1i_cuda_machine *m)
{
    for (int v = b1i_v_x; v < b1i_value_count; v++)
        if (value_there(m, v)) value_put(m, (b1i_value)v, NULL);
}

/* ---- steps ---- */

/* n rows at consecutive positions of one cache. */
static inline void stage_rows(cuda_rig *r, const b1i_cuda_kv *kv, const int32_t *tokens, int n, int position,
                              int logits_from, b1i_gpu_ptr logits, b1i_gpu_ptr mask)
{
    const size_t row_bytes = (size_t)r->c->vocab * sizeof(float);
    b1i_step_params p = {.n = n, .logits_from = logits_from, .serial = ++r->m.serial};
    for (int i = 0; i < n; i++) {
        p.row[i] = (b1i_step_row){tokens[i], position + i, kv->data, kv->head_bytes, 0, mask};
        if (i >= logits_from) p.row[i].logits = logits + (size_t)(i - logits_from) * row_bytes;
    }
    *r->m.staged = p;
}

/* Launches whose item lies in [from, to], one by one; waits. */
static inline void run_items(const b1i_cuda_program *p, int from, int to)
{
    for (int i = 0; i < p->count; i++)
        if (p->launches[i].item >= from && p->launches[i].item <= to) must(b1i_gpu_run(the_gpu, &p->launches[i], err));
    must(b1i_gpu_sync(the_gpu, err));
}

/* ---- the KV cache, by the formulas of args.h ---- */

static inline size_t kv_at(const b1i_cuda_kv *kv, int head, bool value, int position, int d)
{
    const size_t D = (size_t)kv->dim, p = (size_t)position % 32, e = (size_t)d;
    size_t key = ((p % 8 / 2 * D / 32 + e / 32) * 32 + (2 * (p / 8) + p % 2) * 4 + e % 32 / 8) * 8 + e % 8;
    size_t val = (e / 8 * 32 + e % 8 * 4 + p / 8) * 8 + p % 8;
    return (size_t)head * kv->head_bytes / 2 + (size_t)position / 32 * 64 * D + (value ? 32 * D + val : key);
}

/* The whole cache; the caller frees it. */
static inline uint16_t *kv_get(b1i_gpu *gpu, const b1i_cuda_kv *kv)
{
    uint16_t *raw = malloc(kv->bytes);
    assert_non_null(raw);
    must(b1i_gpu_download(gpu, raw, kv->data, kv->bytes, err));
    return raw;
}
static inline void kv_put(b1i_gpu *gpu, const b1i_cuda_kv *kv, const uint16_t *raw)
{
    must(b1i_gpu_upload(gpu, kv->data, raw, kv->bytes, err));
}

#endif
