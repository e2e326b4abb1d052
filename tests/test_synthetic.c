/* SPDX-License-Identifier: MIT
 *
 * Built-in shapes: their published sizes, every weight that the configuration needs, refusals; and the rows of any
 * tensor, in logical order.
 */
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Parameters as the models' cards and weight files state them. */
static const struct {
    const char *shape;
    b1i_arch arch;
    uint64_t parameters;
    bool tied;
    double theta, factor;
    int context;
} published[] = {
    {"qwen2.5-7b", b1i_arch_qwen2, 7615616512, false, 1e6, 0, 131072},
    {"mistral-7b", b1i_arch_mistral, 7248023552, false, 1e6, 0, 32768},
    {"llama-3.1-8b", b1i_arch_llama, 8030261248, false, 5e5, 8, 131072},
    {"llama-3.2-1b", b1i_arch_llama, 1235814400, true, 5e5, 32, 131072},
    {"qwen3-0.6b", b1i_arch_qwen3, 596049920, true, 1e6, 0, 40960},
    {"smollm2-135m", b1i_arch_llama, 134515008, true, 1e5, 0, 8192},
};
enum { SHAPES = sizeof published / sizeof *published };

static b1i_model *open_shape(const char *shape, const char *weights)
{
    b1i_model *m;
    b1_error e;
    if (b1i_model_synthetic(shape, weights, &m, &e)) fail_msg("%s", e.message);
    return m;
}

static void add(const b1i_tensor *t, b1i_format_id matrices, uint64_t *parameters)
{
    if (t->rows == 0) return;
    *parameters += (uint64_t)t->rows * (uint64_t)t->cols;
    assert_true(strlen(t->name) > 5);
    assert_null(t->data);
    assert_int_equal(t->map, -1);
    assert_int_equal(t->format, t->rows == 1 ? b1i_f32 : matrices);
}

static void sizes(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++) {
        assert_string_equal(b1_shape_name(i), published[i].shape);
        b1i_model *m = open_shape(published[i].shape, i % 2 ? "q8_0" : NULL);
        b1i_format_id f = i % 2 ? b1i_q8_0 : b1i_bf16;
        const b1i_config *c = &m->config;
        uint64_t parameters = 0;
        add(&m->embedding, f, &parameters);
        add(&m->head, f, &parameters);
        add(&m->final_norm, f, &parameters);
        for (int l = 0; l < c->layers; l++) {
            for (int w = 0; w < b1i_layer_weights; w++) add(b1i_model_layer(m, l, w), f, &parameters);
        }
        assert_int_equal(parameters, published[i].parameters);
        assert_int_equal(c->arch, published[i].arch);
        assert_int_equal(c->tied, published[i].tied);
        assert_int_equal(m->head.rows == 0, c->tied);
        assert_true(c->rope.theta == published[i].theta);
        assert_int_equal(c->rope.kind, published[i].factor > 0 ? b1i_rope_llama3 : b1i_rope_plain);
        assert_true(c->rope.factor == published[i].factor);
        assert_int_equal(c->context_max, published[i].context);
        assert_int_equal(c->sliding_window, 0);
        assert_int_equal(c->heads % c->kv_heads, 0);
        assert_int_equal(c->qk_norm, c->arch == b1i_arch_qwen3);
        assert_true(c->norm_eps == (c->arch >= b1i_arch_qwen2 ? 1e-6f : 1e-5f));
        assert_int_equal(b1i_model_layer(m, c->layers - 1, b1i_w_q_bias)->rows, c->arch == b1i_arch_qwen2);
        assert_int_equal(b1i_model_layer(m, 0, b1i_w_q_norm)->rows, c->qk_norm);
        assert_int_equal(b1i_model_layer(m, 0, b1i_w_o_bias)->rows, 0);
        assert_null(m->tokenizer);
        b1i_model_close(m);
    }
    assert_null(b1_shape_name(SHAPES));
    assert_null(b1_shape_name(-1));
    b1i_model_close(NULL);
}

static void refusals(void **state)
{
    (void)state;
    b1i_model *m = (b1i_model *)&m;
    b1_error e;
    long before = b1i_alloc_live();
    assert_int_equal(b1i_model_synthetic("no-such-shape", NULL, &m, &e), B1_ARGUMENT);
    assert_null(m);
    assert_non_null(strstr(e.message, "no-such-shape"));
    assert_non_null(strstr(e.message, "smollm2-135m")); /* what there is */
    assert_int_equal(b1i_model_synthetic("llama-3.2-1b", "q3_k", &m, &e), B1_ARGUMENT);
    assert_non_null(strstr(e.message, "q3_k"));
    assert_non_null(strstr(e.message, "q6_k"));
    assert_int_equal(b1i_model_synthetic("smollm2-135m", "q4_k", &m, &e), B1_UNSUPPORTED);
    assert_non_null(strstr(e.message, "smollm2-135m"));
    assert_non_null(strstr(e.message, "576"));
    assert_non_null(strstr(e.message, "256"));
    for (int i = 0; i < b1i_format_count; i++) {
        bool fits = b1i_formats[i].block <= 64;
        assert_int_equal(b1i_model_synthetic("smollm2-135m", b1i_formats[i].name, &m, NULL),
                         fits ? B1_OK : B1_UNSUPPORTED);
        b1i_model_close(m);
        assert_int_equal(b1i_model_synthetic("qwen2.5-7b", b1i_formats[i].name, &m, NULL), B1_OK);
        b1i_model_close(m);
    }
    for (int n = 0; n < 3; n++) {
        b1i_alloc_fail_at(n);
        b1_status st = b1i_model_synthetic("smollm2-135m", NULL, &m, &e);
        b1i_alloc_fail_at(-1);
        assert_int_equal(st, n < 2 ? B1_MEMORY : B1_OK);
        b1i_model_close(m);
        m = NULL;
        assert_int_equal(b1i_alloc_live(), before);
    }
}

static void random_rows(void **state)
{
    (void)state;
    b1i_model *m = open_shape("smollm2-135m", "q4_0");
    const b1i_tensor *t = b1i_model_layer(m, 3, b1i_w_gate), *up = b1i_model_layer(m, 3, b1i_w_up);
    enum { COLS = 576, BYTES = COLS / 32 * 18 };
    uint8_t rows[4][BYTES], again[BYTES], scratch[BYTES];
    float y[4 * COLS], vector[COLS];
    assert_int_equal(b1i_tensor_bytes(t), 1536 * BYTES);
    b1i_tensor_rows(t, 100, 4, rows[0]);
    for (int r = 0; r < 4; r++) { /* a row is the same however it is asked for */
        b1i_tensor_rows(t, 100 + r, 1, again);
        assert_memory_equal(rows[r], again, BYTES);
        b1i_tensor_rows(up, 100 + r, 1, again);
        assert_memory_not_equal(rows[r], again, BYTES);
        b1i_tensor_rows(t, 101 + r, 1, again);
        assert_memory_not_equal(rows[r], again, BYTES);
    }
    b1i_tensor_rows_f32(t, 100, 4, scratch, y);
    double squares = 0;
    for (int i = 0; i < 4 * COLS; i++) squares += (double)y[i] * (double)y[i];
    assert_true(fabs(squares / 4 - 1) < 0.1); /* a row of length about 1 */
    b1i_tensor_rows_f32(b1i_model_layer(m, 0, b1i_w_attn_norm), 0, 1, (uint8_t *)y, vector);
    for (int i = 0; i < COLS; i++) assert_true(vector[i] == 1);
    b1i_model_release(m, t); /* nothing to release */
    /* every layer has the first one's values; two weights of a layer have not */
    for (int w = 0; w < b1i_layer_weights; w++) {
        assert_true(b1i_tensor_same(b1i_model_layer(m, 0, w), b1i_model_layer(m, 29, w)) ==
                    (b1i_model_layer(m, 0, w)->rows > 0));
        for (int v = 0; v < w; v++) assert_false(b1i_tensor_same(b1i_model_layer(m, 0, v), b1i_model_layer(m, 0, w)));
    }
    assert_false(b1i_tensor_same(&m->embedding, t));
    b1i_model_close(m);

    m = open_shape("qwen2.5-7b", "bf16");
    assert_true(b1i_tensor_same(&m->embedding, &m->head));
    t = b1i_model_layer(m, 0, b1i_w_k_bias);
    assert_int_equal(t->cols, 512);
    b1i_tensor_rows_f32(t, 0, 1, (uint8_t *)y, vector);
    squares = 0;
    for (int i = 0; i < 512; i++) squares += (double)vector[i] * (double)vector[i];
    assert_true(sqrt(squares / 512) > 0.015 && sqrt(squares / 512) < 0.025);
    b1i_model_close(m);
}

/* Rows of a tensor in a file, at an odd address, with and without the interleaving of a GGUF's Q and K. */
static void file_rows(void **state)
{
    (void)state;
    enum { ROWS = 12, COLS = 4, HEADS = 2 };
    uint8_t bytes[1 + ROWS * COLS * 4], scratch[COLS * 4];
    float values[ROWS * COLS], got[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) values[i] = (float)i;
    memcpy(bytes + 1, values, sizeof values);
    b1i_tensor t = {.format = b1i_f32, .rows = ROWS, .cols = COLS, .data = bytes + 1};
    b1i_tensor_rows(&t, 2, 3, (uint8_t *)got);
    assert_memory_equal(got, values + 2 * COLS, 3 * COLS * sizeof *got);
    t.permuted_heads = HEADS;
    b1i_tensor_rows_f32(&t, 0, ROWS, scratch, got);
    /* a head of 6 rows lies as 0 3 1 4 2 5 of its logical rows */
    const int at[ROWS] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
    for (int r = 0; r < ROWS; r++) assert_true(got[r * COLS] == values[at[r] * COLS]);
    float some[2 * COLS];
    b1i_tensor_rows(&t, 5, 2, (uint8_t *)some);
    assert_memory_equal(some, got + 5 * COLS, sizeof some);
}

static void opening(void **state)
{
    (void)state;
    b1i_model *m = (b1i_model *)&m;
    b1_error e;
    assert_int_equal(b1i_model_open("/no/such/model.gguf", B1I_LOAD_TENSORS, &m, &e), B1_MODEL);
    assert_null(m);
    assert_non_null(strstr(e.message, "/no/such/model.gguf"));
    assert_int_equal(b1i_model_open("/dev/null", B1I_LOAD_TENSORS, &m, &e), B1_MODEL);
    assert_non_null(strstr(e.message, "/dev/null"));
    assert_int_equal(b1i_model_open("/dev", B1I_LOAD_TENSORS, &m, &e), B1_MODEL);
    assert_non_null(strstr(e.message, "/dev"));
    assert_string_equal(b1i_arch_names[b1i_arch_qwen3], "qwen3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),     cmocka_unit_test(refusals), cmocka_unit_test(random_rows),
        cmocka_unit_test(file_rows), cmocka_unit_test(opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
