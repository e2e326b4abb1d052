/* SPDX-License-Identifier: MIT
 *
 * The experiment attention: every variant against the oracle at odd contexts, head shapes and parts, on the CPU and on
 * a GPU where there is one; parts out of the unified maximum's range; what the oracle takes and what it does not; that
 * the engine's kernel is launched as the engine launches it; the experiment's cells.
 */
#include "base/threads.h"
#include "cuda/cuda.h"
#include "lab/experiments/attention.h"
#include "tests/lab_rig.h"
#include "tests/tiny_model.h"

#include <math.h>

/* ---- an input, its output, and what is right ---- */

typedef struct input {
    const b1i_attn_shape *shape;
    int positions;
    uint16_t *q, *k, *v; /* one allocation */
} input;

static input input_of(const b1i_attn_shape *shape, int positions)
{
    const size_t q = b1i_attn_count(shape, positions, b1i_attn_q), kv = b1i_attn_count(shape, positions, b1i_attn_k);
    input in = {shape, positions, test_malloc((q + 2 * kv) * sizeof(uint16_t)), NULL, NULL};
    in.k = in.q + q;
    in.v = in.k + kv;
    b1i_attn_make(in.q, shape, positions, 3, b1i_attn_q);
    b1i_attn_make(in.k, shape, positions, 3, b1i_attn_k);
    b1i_attn_make(in.v, shape, positions, 3, b1i_attn_v);
    return in;
}

static void fits(const char *what, const input *in, const float *out, const b1i_oracle_bounds *bounds)
{
    const size_t dim = (size_t)in->shape->dim;
    double *all = test_malloc((3 * dim + 2 * (size_t)in->positions) * sizeof *all);
    const b1i_oracle_head want = {all, all + dim, all + 2 * dim};
    for (size_t h = 0; h < (size_t)(in->shape->kv_heads * in->shape->group); h++) {
        const size_t from = h / (size_t)in->shape->group * (size_t)in->positions * dim;
        b1i_oracle_attention(in->q + h * dim, in->k + from, in->v + from, (int)dim, in->positions, all + 3 * dim,
                             &want);
        OK(b1i_oracle_attention_fits(what, out + h * dim, &want, 1, (int)dim, bounds, &err));
    }
    test_free(all);
}

static uint64_t put_halves(b1i_lab_device *device, const uint16_t *from, size_t count)
{
    uint64_t at;
    OK(b1i_lab_alloc(device, count * sizeof *from, "a test's array", &at, &err));
    OK(b1i_lab_put(device, at, from, count * sizeof *from, &err));
    return at;
}

static b1i_attn_args make_args(b1i_lab_device *device, const input *in, int parts, size_t past)
{
    const b1i_attn_shape *s = in->shape;
    const size_t q = b1i_attn_count(s, in->positions, b1i_attn_q), kv = b1i_attn_count(s, in->positions, b1i_attn_k);
    const int stride = (in->positions + B1I_ATTN_TILE - 1) / B1I_ATTN_TILE * B1I_ATTN_TILE;
    const size_t heads = (size_t)(s->kv_heads * s->group);
    return (b1i_attn_args){.q = put_halves(device, in->q, q),
                           .k = put_halves(device, in->k, kv),
                           .v = put_halves(device, in->v, kv),
                           .out = rig_floats(device, q + past, NULL),
                           .scores = rig_floats(device, heads * (size_t)stride, NULL),
                           .part = rig_floats(device, (size_t)parts * q, NULL),
                           .figures = rig_floats(device, (size_t)parts * heads * 2, NULL),
                           .positions = in->positions,
                           .stride = stride,
                           .kv_heads = s->kv_heads,
                           .group = s->group,
                           .dim = s->dim,
                           .parts = parts,
                           .scale = (float)(M_LOG2E / sqrt(s->dim))};
}

static void free_args(b1i_lab_device *device, const b1i_attn_args *a)
{
    const uint64_t made[] = {a->q, a->k, a->v, a->out, a->scores, a->part, a->figures};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) b1i_lab_free(device, made[i]);
}

/* Runs the variant twice on the input and compares; nothing past the output is written. */
static void variant_fits(b1i_lab_device *device, b1i_attn_variant variant, b1i_lab_mode mode, const input *in,
                         const b1i_attn_args *a)
{
    enum { PAST = 64, TIMES = 2 };
    const size_t count = b1i_attn_count(in->shape, in->positions, b1i_attn_q);
    const b1i_oracle_bounds bounds =
        b1i_attn_bounds(variant, b1i_lab_device_gpu(device), in->shape->dim, in->positions, a->parts);
    float *out = test_malloc((count + PAST) * sizeof *out);
    b1i_lab_op ops[B1I_ATTN_OPS_MOST];
    b1i_lab_work *work;
    char what[160];
    snprintf(what, sizeof what, "%s, %d parts of %d positions, %d × %d heads of %d", b1i_attn_variant_names[variant],
             a->parts, in->positions, in->shape->kv_heads, in->shape->group, in->shape->dim);
    const int n = b1i_attn_ops(variant, a, ops);
    assert_int_equal(n, b1i_attn_kernels(variant));
    OK(b1i_lab_work_create(device, mode, ops, n, 1, &work, &err));
    for (int again = 0; again < TIMES; again++) {
        OK(b1i_lab_fill(device, a->out, 0xff, (count + PAST) * sizeof *out, &err));
        OK(b1i_lab_work_submit(work, 1, &err));
        OK(b1i_lab_get(device, out, a->out, (count + PAST) * sizeof *out, &err));
        fits(what, in, out, &bounds);
        for (size_t i = count; i < count + PAST; i++) assert_true(isnan(out[i]));
    }
    b1i_lab_work_destroy(work);
    test_free(out);
}

/* ---- the variants ---- */

static const b1i_attn_shape odd_shapes[] = {
    {"one", 1, 1, 64, 1}, {"three", 2, 3, 128, 1}, {"seven", 2, 7, 64, 1}, {"eight", 1, 8, 128, 1}};

static void odd_sizes(b1i_lab_device *device)
{
    static const int contexts[] = {1, 2, 15, 16, 17, 33, 64, 65, 129, 257};
    for (size_t s = 0; s < sizeof odd_shapes / sizeof *odd_shapes; s++)
        for (size_t n = 0; n < sizeof contexts / sizeof *contexts; n++) {
            const input in = input_of(&odd_shapes[s], contexts[n]);
            const int tiles = (contexts[n] + B1I_ATTN_TILE - 1) / B1I_ATTN_TILE, three = tiles < 3 ? tiles : 3;
            for (int all = 0; all < 1 + (tiles > three); all++) {
                const b1i_attn_args a = make_args(device, &in, all ? tiles : three, 64);
                for (int v = 0; v < b1i_attn_engine; v++)
                    for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++)
                        variant_fits(device, (b1i_attn_variant)v, (b1i_lab_mode)mode, &in, &a);
                free_args(device, &a);
            }
            test_free(in.q);
        }
    if (!b1i_lab_device_gpu(device)) return;
    const input in = input_of(&odd_shapes[1], 2000);
    const b1i_attn_args a = make_args(device, &in, B1I_ATTN_PARTS_MOST, 64);
    for (int v = 0; v < b1i_attn_engine; v++)
        variant_fits(device, (b1i_attn_variant)v, v == b1i_attn_onepass ? b1i_lab_graph : b1i_lab_pdl, &in, &a);
    free_args(device, &a);
    test_free(in.q);
}

static void every_variant_is_right(void **state)
{
    (void)state;
    each_device(odd_sizes);
}

/* ---- the unified maximum ---- */

static uint16_t times_power(uint16_t bf16, int by) { return (uint16_t)(bf16 + (by << 7)); } /* times 2^by */

/* One key is so large that its part's maximum lies far above the others': that part alone is not relative to the
 * unified one, and the merge weighs. */
static void one_part_out_of_range(b1i_lab_device *device)
{
    enum { POSITIONS = 160, PARTS = 5, AT = 70, HEADS = 6 };
    input in = input_of(&odd_shapes[1], POSITIONS);
    for (int h = 0; h < in.shape->kv_heads; h++)
        for (int d = 0; d < in.shape->dim; d++) {
            uint16_t *x = in.k + ((size_t)h * POSITIONS + AT) * (size_t)in.shape->dim + d;
            /* as a query of the group, so that its score is the largest there is; and 16 times that */
            *x = times_power(in.q[(size_t)(h * in.shape->group) * (size_t)in.shape->dim + (size_t)d], 4);
        }
    const b1i_attn_args a = make_args(device, &in, PARTS, 64);
    float figures[PARTS][HEADS][2];
    for (int v = b1i_attn_split; v <= b1i_attn_fallback; v++)
        variant_fits(device, (b1i_attn_variant)v, b1i_lab_stream, &in, &a);
    variant_fits(device, b1i_attn_unified, b1i_lab_stream, &in, &a);
    OK(b1i_lab_get(device, figures, a.figures, sizeof figures, &err));
    for (int p = 0; p < PARTS; p++)
        for (int h = 0; h < HEADS; h++) {
            const bool out = p == AT / (POSITIONS / PARTS);
            if (!out) assert_true(figures[p][h][0] == a.unified);
            if (out && h % 3 == 0) assert_true(figures[p][h][0] > a.unified + B1I_ATTN_RANGE);
            assert_true(figures[p][h][1] > 0);
        }
    free_args(device, &a);
    test_free(in.q);
}

/* Wherever the unified maximum lies, the output is right, whether weights overflow, vanish, or some do. */
static void any_maximum(b1i_lab_device *device)
{
    static const float maxima[] = {-1e30f, -300, -120, -60, -40, 10, 55, 64, 70, 100, 140, 300, 1e30f};
    const input in = input_of(&odd_shapes[2], 200);
    b1i_attn_args a = make_args(device, &in, 4, 64);
    for (size_t i = 0; i < sizeof maxima / sizeof *maxima; i++) {
        a.unified = maxima[i];
        variant_fits(device, b1i_attn_unified, b1i_lab_stream, &in, &a);
    }
    free_args(device, &a);
    test_free(in.q);
}

static void what_is_out_of_range_is_done_again(void **state)
{
    (void)state;
    each_device(one_part_out_of_range);
    each_device(any_maximum);
}

/* The experiment's own: all of it within the range, and all of it out. */
static void the_data_are_in_range(void **state)
{
    (void)state;
    enum { POSITIONS = 500, PARTS = 3, FIGURES = PARTS * 14 };
    const b1i_device cpu = b1i_device_cpu();
    b1i_lab_device *device;
    float figures[FIGURES][2];
    OK(b1i_lab_device_open(&cpu, 2, &device, &err));
    const input in = input_of(&odd_shapes[2], POSITIONS);
    const b1i_attn_args a = make_args(device, &in, PARTS, 64);
    variant_fits(device, b1i_attn_unified, b1i_lab_graph, &in, &a);
    OK(b1i_lab_get(device, figures, a.figures, sizeof figures, &err));
    for (int i = 0; i < FIGURES; i++) assert_true(figures[i][0] == a.unified);
    variant_fits(device, b1i_attn_fallback, b1i_lab_graph, &in, &a);
    OK(b1i_lab_get(device, figures, a.figures, sizeof figures, &err));
    for (int i = 0; i < FIGURES; i++) assert_true(fabsf(figures[i][0]) > 1 && fabsf(figures[i][0]) < B1I_ATTN_RANGE);
    free_args(device, &a);
    test_free(in.q);
    b1i_lab_device_close(device);
}

/* ---- the oracle ---- */

/* q = (2, 0, 0, 0), k₀ = (1, 0, 0, 0), k₁ = 0: scores 1 and 0; v₀ = (1, 0, −2, 0), v₁ = (0, 1, −2, 0). */
static void the_oracle_knows_this(void **state)
{
    (void)state;
    const uint16_t q[] = {0x4000, 0, 0, 0}, k[] = {0x3f80, 0, 0, 0, 0, 0, 0, 0};
    const uint16_t v[] = {0x3f80, 0, 0xc000, 0, 0, 0x3f80, 0xc000, 0};
    const float right[] = {0.73105858f, 0.26894142f, -2, 0};
    const b1i_oracle_bounds bounds = {1e-7, 1e-7, 0};
    double scratch[4], all[12];
    const b1i_oracle_head want = {all, all + 4, all + 8};
    b1i_oracle_attention(q, k, v, 4, 2, scratch, &want);
    OK(b1i_oracle_attention_fits("four", right, &want, 1, 4, &bounds, &err));
    for (int i = 0; i < 4; i++) assert_true(fabs(want.by_value[i] - fabs((double)right[i])) < 1e-7);
    const double t = (1 + 0) * 0.73105858 + (0 + 1) * 0.26894142; /* both have 1 */
    assert_true(fabs(want.by_score[1] - 0.26894142 * (1 + t)) < 1e-6);
}

static void the_oracle_catches(void **state)
{
    (void)state;
    enum { POSITIONS = 300, DIM = 64 };
    const input in = input_of(&odd_shapes[0], POSITIONS);
    const b1i_oracle_bounds bounds = b1i_attn_bounds(b1i_attn_split, true, DIM, POSITIONS, 4);
    double scratch[2 * POSITIONS], all[3 * DIM];
    const b1i_oracle_head want = {all, all + DIM, all + 2 * DIM};
    float out[DIM];
    int at = 0;
    b1i_oracle_attention(in.q, in.k, in.v, DIM, POSITIONS, scratch, &want);
    for (int i = 0; i < DIM; i++) {
        out[i] = (float)want.y[i];
        if (fabs(want.y[i]) > fabs(want.y[at])) at = i;
    }
    OK(b1i_oracle_attention_fits("all", out, &want, 1, DIM, &bounds, &err));
    const float right = out[at];
    const float wrong[] = {NAN, INFINITY, 0, right * 1.001f, right * 0.999f, -right};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char place[64];
        out[at] = wrong[i];
        assert_int_equal(b1i_oracle_attention_fits("all", out, &want, 1, DIM, &bounds, &err), B1_DEVICE);
        snprintf(place, sizeof place, "all: dimension %d of head 0", at);
        assert_non_null(strstr(err.message, place));
    }
    out[at] = right;
    /* One position fewer, and the scale forgotten. */
    b1i_oracle_attention(in.q, in.k, in.v, DIM, POSITIONS - 1, scratch, &want);
    assert_int_equal(b1i_oracle_attention_fits("all", out, &want, 1, DIM, &bounds, &err), B1_DEVICE);
    for (int d = 0; d < DIM; d++) in.q[d] = times_power(in.q[d], 3);
    b1i_oracle_attention(in.q, in.k, in.v, DIM, POSITIONS, scratch, &want);
    assert_int_equal(b1i_oracle_attention_fits("all", out, &want, 1, DIM, &bounds, &err), B1_DEVICE);
    test_free(in.q);
}

/* ---- the engine's kernel ---- */

static float float_of(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static uint16_t cut(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x8000) >> 16);
}

/* What the engine's kernel does to one row, for a driver that stands in for one. */
static void engine_body(const void *args, int worker, int workers)
{
    b1i_attention_args a;
    memcpy(&a, args, sizeof a);
    assert_int_equal(worker, 0);
    assert_int_equal(workers, 1);
    const b1i_step_params *step = (const b1i_step_params *)(uintptr_t)a.step;
    const b1i_step_row *row = &step->row[0];
    const float *q = (const float *)(uintptr_t)a.q, *k = (const float *)(uintptr_t)a.k,
                *v = (const float *)(uintptr_t)a.v, *cosine = (const float *)(uintptr_t)a.cos,
                *sine = (const float *)(uintptr_t)a.sin;
    const int dim = a.head_dim, n = row->position + 1;
    assert_true(step->n == 1 && a.prologue && !a.q_norm && !a.k_norm && a.window == 0);
    for (int d = 0; d < dim / 2; d++) assert_true(cosine[d] == 1 && sine[d] == 0);
    float *s = test_malloc((size_t)n * sizeof *s), y[128];
    for (int h = 0; h < a.kv_heads * a.group; h++) {
        const uint16_t *cache =
            (const uint16_t *)(uintptr_t)(row->kv + (uint64_t)(a.layer * a.kv_heads + h / a.group) * row->head_bytes);
        const float *own[] = {k + h / a.group * dim, v + h / a.group * dim};
        float most = -INFINITY, sum = 0;
        for (int p = 0; p < n; p++) {
            const uint16_t *block = cache + (size_t)(p / B1I_KV_TILE) * 2 * B1I_KV_TILE * (size_t)dim;
            s[p] = 0;
            for (int d = 0; d < dim; d++) {
                const float x = float_of(block[b1i_cuda_key_index(dim, p % B1I_KV_TILE, d)]);
                s[p] += q[h * dim + d] * (p == n - 1 ? own[0][d] : x);
            }
            s[p] *= a.scale;
            if (s[p] > most) most = s[p];
        }
        memset(y, 0, sizeof y);
        for (int p = 0; p < n; p++) {
            const uint16_t *block = cache + (size_t)(2 * (p / B1I_KV_TILE) + 1) * B1I_KV_TILE * (size_t)dim;
            const float w = expf(s[p] - most);
            sum += w;
            for (int d = 0; d < dim; d++) {
                const float x = float_of(block[b1i_cuda_value_index(dim, p % B1I_KV_TILE, d)]);
                y[d] += w * (p == n - 1 ? own[1][d] : x);
            }
        }
        for (int d = 0; d < dim; d++) ((uint16_t *)(uintptr_t)a.out)[h * dim + d] = cut(y[d] / sum);
    }
    test_free(s);
}

/* The engine's own launch of the attention of layer 1, of a model with these heads. */
static b1i_gpu_launch launch_of_engine(b1i_gpu *gpu, const b1i_attn_shape *shape, b1i_cuda_form form)
{
    const tiny_shape tiny = {
        "heads", b1i_arch_llama, 2,     32,  32, shape->kv_heads * shape->group, shape->kv_heads, shape->dim, 32,
        0,       false,          false, true};
    b1i_model *model = tiny_model(&tiny, b1i_bf16, NULL, 1);
    b1i_plan plan;
    b1i_cuda_weights weights;
    b1i_cuda_machine machine;
    const b1i_cuda_program *program;
    b1i_gpu_launch found = {0};
    OK(b1i_cuda_load_kernels(gpu, &err));
    OK(b1i_pool_reserve(2, &err));
    OK(b1i_plan_build(model, &plan, &err));
    OK(b1i_cuda_weights_load(gpu, model, &plan, 2, NULL, NULL, &weights, &err));
    OK(b1i_cuda_machine_create(&weights, &machine, &err));
    OK(b1i_cuda_program_get(&machine, form, b1i_cuda_one, &program, &err));
    for (int i = 0; i < program->count; i++)
        if (plan.groups[program->launches[i].item].id == b1i_group_attention) found = program->launches[i];
    b1i_cuda_machine_free(&machine);
    b1i_cuda_weights_free(&weights);
    b1i_plan_free(&plan);
    tiny_model_free(model);
    return found;
}

static b1i_attention_args without_addresses(const void *args)
{
    b1i_attention_args a;
    memcpy(&a, args, sizeof a);
    a.step = a.q = a.k = a.v = a.cos = a.sin = a.out = a.part = a.begun = 0;
    return a;
}

static void the_engine_is_launched_as_it_is(void **state)
{
    (void)state;
    if (!rig_has_gpu()) skip();
    static const b1i_attn_shape own[] = {
        {"llama-3-8b", 8, 4, 128, 2}, {"qwen2.5-7b", 4, 7, 128, 2}, {"llama-3.2-1b", 8, 4, 64, 2}};
    b1i_lab_device *device;
    const b1i_device first = b1i_device_at(0);
    OK(b1i_lab_device_open(&first, 0, &device, &err));
    for (int i = 0; i < 3; i++)
        for (int early = 0; early < 2; early++) {
            b1i_gpu *gpu = b1i_lab_device_gpu(device), *other;
            b1i_attn_of_engine engine;
            b1i_lab_op op;
            if (early && b1i_gpu_get_info(gpu)->major < 9) continue;
            OK(b1i_attn_engine_make(device, &own[i], 40, 2, &engine, &err));
            b1i_attn_engine_op(device, &engine, &own[i], 1, early, 0, &op);
            OK(b1i_gpu_open(0, &other, &err));
            const b1i_gpu_launch want = launch_of_engine(other, &own[i], early ? b1i_cuda_early : b1i_cuda_fused);
            assert_int_equal(op.grid, want.grid[0]);
            assert_int_equal(op.grid_y, want.grid[1]);
            assert_int_equal(1, want.grid[2]);
            assert_int_equal(op.threads, want.threads);
            assert_int_equal(op.shared_bytes, want.shared_bytes);
            assert_int_equal(op.arg_bytes, want.arg_bytes);
            assert_string_equal(op.kernel, b1i_gpu_kernel_name(want.kernel));
            const b1i_attention_args a = without_addresses(op.args), b = without_addresses(want.args);
            assert_memory_equal(&a, &b, sizeof a);
            b1i_gpu_close(other);
            b1i_attn_engine_free(device, &engine);
        }
    b1i_lab_device_close(device);
}

/* ---- the experiment ---- */

static void cells_are_right(bool gpu)
{
    lab_rig r;
    lab_rig_open(&r, &b1i_experiment_attention, gpu, true);
    assert_int_equal(r.lab.plan.count, 2 * 2 * (6 * 3 + 2));
    for (size_t i = 0; i < r.lab.plan.count; i++) {
        const b1_status st = lab_rig_drive(&r, i);
        const char *variant = rig_word(&r, i, "variant");
        const bool stream = strcmp(rig_word(&r, i, "mode"), "stream") == 0,
                   pdl = !strcmp(rig_word(&r, i, "mode"), "pdl");
        const bool engine = strcmp(variant, "engine") == 0;
        const json_int_t layers = rig_fact(&r, i, "layers"), n = rig_fact(&r, i, "n");
        if (!gpu && (pdl || engine)) {
            assert_int_equal(st, B1_UNSUPPORTED);
            assert_non_null(strstr(err.message, pdl ? "programmatic" : "batchone explain"));
        } else {
            ok(st, r.lab.plan.cells[i].name, __LINE__);
        }
        assert_int_equal(layers, stream ? 1 : 2);
        assert_int_equal(rig_fact(&r, i, "bytes"),
                         4 * n * rig_fact(&r, i, "kv_heads") * rig_fact(&r, i, "head_dim") * layers);
        const json_int_t kernels = !strcmp(variant, "math") ? 3 : !strcmp(variant, "onepass") || engine ? 1 : 2;
        assert_int_equal(rig_fact(&r, i, "kernels"), kernels * layers);
        const json_t *figures = json_object_get(r.lab.plan.cells[i].facts, "figures");
        assert_int_equal(json_array_size(figures), 2 + (strcmp(variant, "split") != 0) + stream);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(r.lab.plan.cells[i].name, r.lab.plan.cells[j].name);
    }
    lab_rig_close(&r);
}

static void the_cells_are_right(void **state)
{
    (void)state;
    cells_are_right(false);
    if (rig_has_gpu()) cells_are_right(true);
}

/* On a GPU: the driver's graphs are what they must be, and are in the directory. What stands in for one would take a
 * minute to run all rounds; its graphs were looked at where the cells were. */
static void graphs_are_evidence(void **state)
{
    (void)state;
    if (!rig_has_gpu() || rig_stands_in()) skip();
    static const rig_graph graphs[] = {
        {"llama-3-8b-context-24-math_graph", 6, 0, 0},
        {"qwen2.5-7b-context-90-split_pdl", 4, 0, 3},
        {"qwen2.5-7b-context-90-engine_pdl", 2, 0, 1},
    };
    lab_rig_run(&b1i_experiment_attention, graphs, sizeof graphs / sizeof *graphs);
}

static void a_wrong_output_is_caught(void **state)
{
    (void)state;
    rig_plant(&b1i_experiment_attention, "llama-3-8b/context=90/split_graph", 4096 + 77);
    rig_plant(&b1i_experiment_attention, "qwen2.5-7b/context=24/math_stream", 5);
}

/* Every allocation of a cell may fail, and nothing is left behind. */
static void nothing_leaks(void **state)
{
    (void)state;
    rig_nothing_leaks(&b1i_experiment_attention);
}

int main(void)
{
    b1i_lab_op ops[B1I_ATTN_OPS_MOST];
    for (int dim = 64; dim <= 128; dim += 64) {
        const b1i_attn_args some = {.positions = 32, .stride = 32, .kv_heads = 1, .group = 1, .dim = dim, .parts = 2};
        for (int v = 0; v <= b1i_attn_unified; v++) rig_teach(ops, b1i_attn_ops((b1i_attn_variant)v, &some, ops));
        ops[0] = (b1i_lab_op){.kernel = dim == 64 ? "k_attention_64" : "k_attention_128",
                              .body = engine_body,
                              .arg_bytes = sizeof(b1i_attention_args)};
        rig_teach(ops, 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_is_right),   cmocka_unit_test(what_is_out_of_range_is_done_again),
        cmocka_unit_test(the_data_are_in_range),    cmocka_unit_test(the_oracle_knows_this),
        cmocka_unit_test(the_oracle_catches),       cmocka_unit_test(the_engine_is_launched_as_it_is),
        cmocka_unit_test(the_cells_are_right),      cmocka_unit_test(graphs_are_evidence),
        cmocka_unit_test(a_wrong_output_is_caught), cmocka_unit_test(nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
