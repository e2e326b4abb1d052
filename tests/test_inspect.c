/* SPDX-License-Identifier: MIT
 *
 * b1_inspect: sizes of a tiny model counted by hand, of the default model by its file, and what is refused.
 */
#include "base/base.h"
#include "loader_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static gspec g;
static b1_error err;

static b1_inspection *inspect(const char *path)
{
    b1_inspection *in = NULL;
    if (b1_inspect(path, &in, &err) != B1_OK) fail_msg("refused: %s", err.message);
    return in;
}

static void test_tiny(void **state)
{
    (void)state;
    g_tiny(&g, "llama");
    long live = b1i_alloc_live();
    b1_inspection *in = inspect(g_write(&g, "tiny.gguf"));
    b1_model_info info;
    int count = 0;
    b1_inspection_info(in, &info);
    assert_string_equal(info.name, "Tiny");
    assert_string_equal(info.architecture, "llama");
    assert_string_equal(info.weights, "f32+");
    assert_int_equal(info.layers, 2);
    assert_int_equal(info.head_dim, 4);
    assert_int_equal(info.context_max, 64);
    const uint64_t f32_layer = 8 + 64 + 32 + 64 + 8 + 96 + 96, f32_outer = 48 + 8 + 48;
    assert_int_equal(info.parameters, 2 * (f32_layer + 32 + 96) + f32_outer);
    /* one row of the untied embedding */
    assert_int_equal(info.weight_bytes, 2 * (f32_layer * 4 + (32 + 96) * 2) + (8 + 8 + 48) * 4);
    assert_true(info.stored_bytes >= info.weight_bytes);
    const b1_tensor_type *types = b1_inspection_types(in, &count);
    assert_int_equal(count, 3);
    assert_string_equal(types[0].format, "f32");
    assert_int_equal(types[0].tensors, 2 * 7 + 3);
    assert_int_equal(types[0].parameters, 2 * f32_layer + f32_outer);
    assert_int_equal(types[0].bytes, 4 * types[0].parameters);
    assert_string_equal(types[1].format, "bf16");
    assert_int_equal(types[1].bytes, 2 * 96 * 2);
    assert_string_equal(types[2].format, "f16");
    assert_int_equal(types[2].tensors, 2);
    /* 2 · layers · kv_heads · head_dim · context · 2 bytes */
    assert_int_equal(b1_inspection_kv_bytes(in, 10), 2 * 2 * 1 * 4 * 10 * 2);
    assert_true(b1_inspection_memory_bytes(in, 64) > b1_inspection_memory_bytes(in, 1));
    assert_true(b1_inspection_memory_bytes(in, 64) > info.stored_bytes + b1_inspection_kv_bytes(in, 64));
    /* the CPU's by name; a GPU's where there is one; neither by "auto" */
    static const char *const unnamed[] = {"auto", "cuda:01", "tpu"};
    uint64_t need = 1;
    assert_int_equal(b1_inspection_device_bytes(in, "cpu", 64, &need, &err), B1_OK);
    assert_int_equal(need, b1_inspection_memory_bytes(in, 64));
    assert_int_equal(b1_inspection_device_bytes(in, "cpu", 0, &need, &err), B1_ARGUMENT);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(b1_inspection_device_bytes(in, unnamed[i], 64, &need, &err), B1_ARGUMENT);
        assert_int_equal(need, 0);
        assert_non_null(strstr(err.message, unnamed[i]));
    }
    assert_int_equal(b1_inspection_device_bytes(in, "cuda:999", 64, &need, NULL), B1_UNSUPPORTED);
    b1_inspection_free(in);
    assert_int_equal(b1i_alloc_live(), live);
    g_clear(&g);
}

static void test_refused(void **state)
{
    (void)state;
    b1_inspection *in = (b1_inspection *)&g;
    assert_int_equal(b1_inspect("/no/such/model.gguf", &in, &err), B1_MODEL);
    assert_null(in);
    assert_non_null(strstr(err.message, "/no/such/model.gguf"));
    assert_int_equal(b1_inspect("/dev/null", &in, &err), B1_MODEL);
    assert_non_null(strstr(err.message, "/dev/null"));
    assert_int_equal(b1_inspect(folder, &in, &err), B1_MODEL);
    assert_non_null(strstr(err.message, "config.json"));
    assert_int_equal(b1_inspect("/no/such/model.gguf", &in, NULL), B1_MODEL);
    assert_int_equal(b1_inspect_synthetic("no-such-shape", "bf16", &in, &err), B1_ARGUMENT);
    assert_null(in);
    /* a damaged vocabulary is found, though no token is asked for */
    g_tiny(&g, "llama");
    g_string(&g, "tokenizer.ggml.model", "gpt2");
    assert_int_equal(b1_inspect(g_write(&g, "damaged.gguf"), &in, &err), B1_MODEL);
    g_clear(&g);
    b1_inspection_free(NULL);
}

/* 14.14 GB, one row of the embedding in place of the whole. */
static void test_synthetic(void **state)
{
    (void)state;
    b1_inspection *in = NULL;
    b1_model_info info;
    assert_int_equal(b1_inspect_synthetic("qwen2.5-7b", NULL, &in, &err), B1_OK);
    b1_inspection_info(in, &info);
    assert_true(info.weight_bytes > 14130000000u && info.weight_bytes < 14150000000u);
    assert_true(b1_inspection_kv_bytes(in, 2048) == 117440512);
    b1_inspection_free(in);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    g_tiny(&g, "qwen2");
    const char *path = g_write(&g, "tiny.gguf");
    long live = b1i_alloc_live(), n = 0;
    b1_inspection *in;
    b1_status st;
    do {
        b1i_alloc_fail_at(n++);
        st = b1_inspect(path, &in, &err);
        b1i_alloc_fail_at(-1);
        assert_true(st == B1_OK || (st == B1_MEMORY && !in && b1i_alloc_live() == live));
    } while (st != B1_OK);
    assert_true(n > 8);
    b1_inspection_free(in);
    assert_int_equal(b1i_alloc_live(), live);
    g_clear(&g);
}

static void test_default_model(void **state)
{
    (void)state;
    const char *path = getenv("B1_TEST_MODEL");
    if (!path) path = B1I_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (access(path, R_OK) != 0) {
        print_message("skipped: there is no %s\n", path);
        skip();
    }
    b1_inspection *in = inspect(path);
    b1_model_info info;
    int count = 0;
    b1_inspection_info(in, &info);
    assert_string_equal(info.weights, "q4_1+");
    assert_int_equal(info.weight_bytes, 96576768);
    assert_int_equal(info.parameters, 134515008);
    const b1_tensor_type *types = b1_inspection_types(in, &count);
    assert_int_equal(count, 3);
    assert_string_equal(types[0].format, "q4_1");
    assert_int_equal(types[0].tensors, 210);
    assert_int_equal(types[1].tensors, 1);
    assert_int_equal(types[2].tensors, 61);
    print_message("inspected in %.1f ms\n", info.load_ms);
    b1_inspection_free(in);
}

static int make(void **state)
{
    (void)state;
    folder_make("inspect");
    return 0;
}

static int clean(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_synthetic),     cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_default_model),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
