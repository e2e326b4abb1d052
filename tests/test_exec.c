/* SPDX-License-Identifier: MIT
 *
 * Every executor against the reference of its precision, op by op: the executor runs up to an item of its plan, the
 * reference gets the executor's own values and runs that item alone, and the outputs are compared within the
 * tolerance of ops.def. Tiny models of every weight format, with and without biases, q/k norms and tying, for one
 * row, a few and many; buffers are poisoned with NaN before each run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/threads.h"
#include "cpu/reference.h"
#include "engine/engine.h"
#include "exec/cpu.h"
#include "tests/model_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct variant {
    const char *name;
    b1i_arch arch;
    int hidden, ffn, heads, kv_heads, head_dim, vocab, window;
    bool bias, qk_norm, tied;
} variant;

static const variant variants[] = {
    {"llama", b1i_arch_llama, 256, 512, 4, 2, 64, 131, 0, false, false, true},
    {"qwen2", b1i_arch_qwen2, 256, 768, 6, 1, 128, 97, 0, true, false, false},
    {"qwen3", b1i_arch_qwen3, 512, 256, 8, 8, 32, 160, 0, false, true, false},
    {"mistral", b1i_arch_mistral, 256, 256, 8, 4, 32, 64, 24, false, false, false},
};

static void tensor(b1i_tensor *t, const char *name, b1i_format_id format, int rows, int cols, uint64_t seed,
                   float scale)
{
    *t = (b1i_tensor){.format = format, .rows = rows, .cols = cols, .map = -1, .seed = seed, .scale = scale};
    snprintf(t->name, sizeof t->name, "%s", name);
}

static b1i_model *tiny_model(const variant *v, b1i_format_id format)
{
    b1i_model *m = b1i_calloc(1, sizeof *m);
    m->config = (b1i_config){.arch = v->arch,
                             .layers = 2,
                             .hidden = v->hidden,
                             .ffn = v->ffn,
                             .heads = v->heads,
                             .kv_heads = v->kv_heads,
                             .head_dim = v->head_dim,
                             .vocab = v->vocab,
                             .norm_eps = 1e-5f,
                             .context_max = 1024,
                             .sliding_window = v->window,
                             .tied = v->tied,
                             .qk_norm = v->qk_norm,
                             .rope = {.kind = b1i_rope_plain, .theta = 10000}};
    snprintf(m->config.name, sizeof m->config.name, "tiny-%s", v->name);
    int q = v->heads * v->head_dim, kv = v->kv_heads * v->head_dim;
    const struct {
        b1i_weight w;
        int rows, cols;
        bool there;
    } list[] = {{b1i_w_attn_norm, 1, v->hidden, true},
                {b1i_w_q, q, v->hidden, true},
                {b1i_w_k, kv, v->hidden, true},
                {b1i_w_v, kv, v->hidden, true},
                {b1i_w_q_bias, 1, q, v->bias},
                {b1i_w_k_bias, 1, kv, v->bias},
                {b1i_w_v_bias, 1, kv, v->bias},
                {b1i_w_q_norm, 1, v->head_dim, v->qk_norm},
                {b1i_w_k_norm, 1, v->head_dim, v->qk_norm},
                {b1i_w_o, v->hidden, q, true},
                {b1i_w_ffn_norm, 1, v->hidden, true},
                {b1i_w_gate, v->ffn, v->hidden, true},
                {b1i_w_up, v->ffn, v->hidden, true},
                {b1i_w_down, v->hidden, v->ffn, true}};
    m->layer = b1i_calloc(2 * b1i_layer_weights, sizeof *m->layer);
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++)
            if (list[i].there)
                tensor(&m->layer[l * b1i_layer_weights + (int)list[i].w], "layer", list[i].rows == 1 ? b1i_f32 : format,
                       list[i].rows, list[i].cols, (uint64_t)(1000 * (l + 1) + (int)i * 7919),
                       list[i].rows == 1 ? 0.5f : 1 / sqrtf((float)list[i].cols));
    tensor(&m->embedding, "embedding", format, v->vocab, v->hidden, 11, 1);
    tensor(&m->final_norm, "norm", b1i_f32, 1, v->hidden, 12, 0.5f);
    if (!v->tied) tensor(&m->head, "head", format, v->vocab, v->hidden, 13, 0.05f);
    return m;
}

typedef struct rig {
    b1i_model *model;
    b1i_plan plan;
    b1i_resident resident;
    b1i_executor *fast, *reference;
    int workers;
} rig;

enum { CONTEXT = 400 };

static void rig_open(rig *r, const variant *v, b1i_format_id format, const char *executor, b1i_type kv, int workers)
{
    *r = (rig){.model = tiny_model(v, format), .workers = workers};
    b1_error err = {0};
    assert_int_equal(b1i_plan_build(r->model, &r->plan, &err), B1_OK);
    assert_int_equal(b1i_resident_create(r->model, &r->plan, &r->resident, &err), B1_OK);
    assert_int_equal(b1i_pool_reserve(workers, &err), B1_OK);
    assert_int_equal(b1i_resident_pack(&r->resident, workers, NULL, NULL, &err), B1_OK);
    b1i_exec_env env = {.resident = &r->resident,
                        .workers = workers,
                        .context = CONTEXT,
                        .kv = kv,
                        .all_logits = true,
                        .precision = {b1i_kernels_act(b1i_kernels_best(), b1i_bf16), b1i_type_i8}};
    const b1i_executor_class *class = b1i_executor_class_by_name("cpu", executor);
    assert_int_equal(class->create(class, &env, &r->fast, &err), B1_OK);
    class = &b1i_executor_reference;
    assert_int_equal(class->create(class, &env, &r->reference, &err), B1_OK);
}

static void rig_close(rig *r)
{
    b1i_cpu_destroy(r->fast);
    b1i_cpu_destroy(r->reference);
    b1i_resident_free(&r->resident);
    b1i_plan_free(&r->plan);
    b1i_free(r->model->layer);
    b1i_free(r->model);
}

static void run(rig *r, const b1i_step *step)
{
    b1_error err = {0};
    for (int v = b1i_v_x; v < b1i_value_count; v++)
        for (int64_t i = 0; i < r->fast->state.stride[v] * B1I_PREFILL_ROWS; i++) r->fast->state.value[v][i] = NAN;
    assert_int_equal(r->fast->class->submit(r->fast, step, &err), B1_OK);
}

/* The executor's values become the reference's. Fused decode attention leaves its result in parts. */
static void copy_values(rig *r)
{
    const b1i_cpu_state *f = &r->fast->state, *t = &r->reference->state;
    for (int v = b1i_v_x; v < b1i_value_count; v++)
        memcpy(t->value[v], f->value[v], (size_t)f->stride[v] * B1I_PREFILL_ROWS * sizeof(float));
    memcpy(r->reference->kv.data, r->fast->kv.data, r->fast->kv.bytes);
}

static void merge_parts(rig *r)
{
    for (int row = 0; row < r->fast->state.n; row++)
        b1i_merge_row(&r->fast->state, row, b1i_row(&r->fast->state, b1i_v_att, row));
}

static void compare(rig *r, b1i_value v, int rows, float tolerance, const char *what)
{
    const int cols = b1i_value_cols(&r->model->config, v);
    float most = 0, off = 0;
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < cols; i++) {
            float a = b1i_row(&r->fast->state, v, row)[i], b = b1i_row(&r->reference->state, v, row)[i];
            most = fmaxf(most, fabsf(b));
            if (!(fabsf(a - b) <= off)) off = fabsf(a - b);
        }
    if (!(off <= tolerance * most))
        fail_msg("%s: %s lies %g of %g off, tolerance %g", what, b1i_value_names[v], (double)off, (double)most,
                 (double)tolerance);
}

/* Item `item` of the executor's plan as ops [first, first + count). */
static void check_item(rig *r, b1i_step step, int item, int first, int count, const char *what)
{
    const bool attention = r->fast->class->by_group && r->plan.ops[first + count - 1].id == b1i_op_attention;
    step.stop_after = item - 1;
    bool parts = false;
    if (item > 0) {
        run(r, &step);
        parts = r->fast->class->by_group && step.n <= B1I_DECODE_ROWS && r->plan.ops[first - 1].id == b1i_op_attention;
        if (parts) merge_parts(r);
    }
    copy_values(r);
    b1i_cpu_state_step(&r->reference->state, step.tokens, step.n, step.position, step.logits_from);
    float tolerance = 0;
    for (int i = first; i < first + count; i++) {
        const b1i_op *op = &r->plan.ops[i];
        b1i_type type = b1i_type_f32;
        if (op->id == b1i_op_linear)
            type = b1i_kernels_act(b1i_kernels_best(), b1i_slot_tensor(r->model, op->weight)->format);
        if (op->id == b1i_op_attention) type = r->fast->kv.type;
        b1i_ref_ops[op->id](&r->reference->state, op, 0, 1);
        tolerance += b1i_op_tolerance(op->id, type,
                                      op->in[0] == b1i_v_tokens ? 1 : b1i_value_cols(&r->model->config, op->in[0]));
    }
    step.stop_after = item;
    run(r, &step);
    if (attention && step.n <= B1I_DECODE_ROWS) merge_parts(r);
    for (int i = first; i < first + count; i++) {
        const b1i_op *op = &r->plan.ops[i];
        /* of a fused group only what later groups read is there */
        bool last = i == first + count - 1, qkv = op->out == b1i_v_q || op->out == b1i_v_k || op->out == b1i_v_v;
        bool seen = r->fast->class->by_group ? last || (qkv && !attention) : true;
        if (op->out != b1i_v_none && seen)
            compare(r, op->out, op->out == b1i_v_logits ? step.n - step.logits_from : step.n, tolerance, what);
    }
}

static void check_executor(const variant *v, b1i_format_id format, const char *executor, b1i_type kv, int n,
                           int position)
{
    rig r;
    int32_t tokens[B1I_PREFILL_ROWS];
    char what[200];
    b1_error err = {0};
    rig_open(&r, v, format, executor, kv, 3);
    for (int i = 0; i < B1I_PREFILL_ROWS; i++) tokens[i] = (i * 37 + 5) % v->vocab;
    for (int at = 0; at < position; at += B1I_PREFILL_ROWS) { /* what comes before */
        int rows = position - at < B1I_PREFILL_ROWS ? position - at : B1I_PREFILL_ROWS;
        b1i_step before = {tokens, rows, at, rows - 1, -1, NULL, NULL};
        assert_int_equal(r.fast->class->submit(r.fast, &before, &err), B1_OK);
    }
    b1i_step step = {tokens, n, position, n > 2 ? n - 2 : 0, -1, NULL, NULL};
    for (int item = 0; item < r.fast->items; item++) {
        int first = r.fast->class->by_group ? r.plan.groups[item].first : item,
            count = r.fast->class->by_group ? r.plan.groups[item].count : 1;
        snprintf(what, sizeof what, "%s %s %s kv %s, %d rows at %d, item %d (%s)", v->name, b1i_formats[format].name,
                 executor, b1i_type_names[kv], n, position, item,
                 r.fast->class->by_group ? b1i_group_names[r.plan.groups[item].id]
                                         : b1i_op_classes[r.plan.ops[item].id].name);
        check_item(&r, step, item, first, count, what);
    }
    rig_close(&r);
}

static const char *const executors[] = {"separate", "fused", "persistent"};

static void test_every_format(void **state)
{
    (void)state;
    for (int f = 0; f < b1i_format_count; f++)
        for (int e = 0; e < 3; e++) {
            if (slow_here() && f % 3 != e) continue;
            check_executor(&variants[0], (b1i_format_id)f, executors[e], b1i_type_bf16, 1, 70);
            check_executor(&variants[0], (b1i_format_id)f, executors[e], b1i_type_bf16, 20, 3);
        }
}

static void test_every_architecture(void **state)
{
    (void)state;
    const b1i_format_id formats[] = {b1i_bf16, b1i_q4_k};
    const int rows[] = {1, 3, 8, 33}, positions[] = {0, 61, 300};
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++)
        for (int e = 0; e < 3; e++)
            for (int n = 0; n < 4; n++) {
                if (slow_here() && (int)(v + (size_t)n) % 3 != e) continue;
                check_executor(&variants[v], formats[(v + (size_t)n) % 2], executors[e], (b1i_type)(n % 3), rows[n],
                               positions[(n + e) % 3]);
            }
}

/* The same step a hundred times gives the same bits, and so does another number of workers. */
static void test_repeatable(void **state)
{
    (void)state;
    float first[256];
    int32_t tokens[1] = {5};
    b1_error err = {0};
    for (int e = 0; e < 3; e++)
        for (int workers = 1; workers <= 4; workers++) {
            rig r;
            rig_open(&r, &variants[0], b1i_q4_0, executors[e], b1i_type_bf16, workers);
            for (int i = 0; i < 100; i++) {
                b1i_step step = {tokens, 1, i % 3, 0, -1, NULL, NULL};
                if (i < 3) step.position = i;
                assert_int_equal(r.fast->class->submit(r.fast, &step, &err), B1_OK);
                if (step.position != 2) continue;
                const float *logits = b1i_row(&r.fast->state, b1i_v_logits, 0);
                if (e == 0 && workers == 1 && i == 2) memcpy(first, logits, (size_t)variants[0].vocab * sizeof *first);
                assert_memory_equal(first, logits, (size_t)variants[0].vocab * sizeof *first);
            }
            rig_close(&r);
        }
}

/* Fewer workers than were reserved, as in the child of a fork: all the work is done, by those that are there. */
static void test_fewer_workers(void **state)
{
    (void)state;
    float want[256];
    int32_t tokens[4] = {5, 9, 2, 7};
    b1_error err = {0};
    for (int e = 0; e < 3; e++)
        for (int n = 1; n <= 4; n += 3) {
            const size_t bytes = (size_t)variants[0].vocab * sizeof *want;
            const b1i_step step = {tokens, n, 0, n - 1, -1, NULL, NULL};
            rig r;
            rig_open(&r, &variants[0], b1i_q4_0, executors[e], b1i_type_bf16, 3);
            assert_int_equal(r.fast->class->submit(r.fast, &step, &err), B1_OK);
            memcpy(want, b1i_row(&r.fast->state, b1i_v_logits, 0), bytes);
            b1i_pool_end();
            for (int i = 0; i < 4; i++) {
                if (i == 2) assert_int_equal(b1i_pool_reserve(3, &err), B1_OK);
                b1i_row(&r.fast->state, b1i_v_logits, 0)[0] = NAN;
                assert_int_equal(r.fast->class->submit(r.fast, &step, &err), B1_OK);
                assert_memory_equal(b1i_row(&r.fast->state, b1i_v_logits, 0), want, bytes);
            }
            rig_close(&r);
        }
}

/* A layer that has the first one's values by definition, but for one matrix, and a head that has the embedding's are
 * packed as if each were made. */
static void test_same_values(void **state)
{
    (void)state;
    b1_error err = {0};
    for (int f = 0; f < b1i_format_count; f++) {
        b1i_model *m = tiny_model(&variants[1], (b1i_format_id)f);
        b1i_plan plan;
        b1i_resident r;
        for (int w = 0; w < b1i_layer_weights; w++)
            if (w != b1i_w_up) m->layer[b1i_layer_weights + w].seed = m->layer[w].seed;
        m->head.seed = m->embedding.seed;
        m->head.scale = m->embedding.scale;
        assert_int_equal(b1i_slot_same(m, b1i_slot(1, b1i_w_down)), b1i_slot(0, b1i_w_down));
        assert_int_equal(b1i_slot_same(m, b1i_slot(1, b1i_w_up)), b1i_slot_none);
        assert_int_equal(b1i_slot_same(m, b1i_slot(0, b1i_w_down)), b1i_slot_none);
        assert_int_equal(b1i_slot_same(m, b1i_slot_head), b1i_slot_embedding);
        assert_int_equal(b1i_plan_build(m, &plan, &err), B1_OK);
        assert_int_equal(b1i_resident_create(m, &plan, &r, &err), B1_OK);
        assert_int_equal(b1i_resident_pack(&r, 2, NULL, NULL, &err), B1_OK);
        for (int slot = 0; slot < b1i_slot_count(m); slot++) {
            if (!b1i_slot_is_matrix(m, slot)) continue;
            b1i_packed own = r.row16[slot];
            const size_t bytes = b1i_packed_bytes(&own), row = (size_t)b1i_format_bytes(own.format, own.cols);
            uint8_t *scratch = malloc(row * B1I_PANEL + 64);
            own.data = aligned_alloc(64, (bytes + 63) / 64 * 64);
            assert_true(scratch && own.data);
            b1i_pack_panels(b1i_slot_tensor(m, slot), &own, 0, own.panels, scratch);
            assert_memory_equal(r.row16[slot].data, own.data, bytes);
            for (int other = 0; other < slot; other++) assert_ptr_not_equal(r.row16[other].data, r.row16[slot].data);
            free(own.data);
            free(scratch);
        }
        b1i_resident_free(&r);
        b1i_plan_free(&plan);
        b1i_free(m->layer);
        b1i_free(m);
    }
}

int main(void)
{
    printf("kernels: %s\n", b1i_kernels_best()->name);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_format), cmocka_unit_test(test_every_architecture),
        cmocka_unit_test(test_repeatable),   cmocka_unit_test(test_fewer_workers),
        cmocka_unit_test(test_same_values),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    b1i_pool_end();
    return failed;
}
