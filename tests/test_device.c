/* SPDX-License-Identifier: MIT
 *
 * Devices and executors by name, and the sum of a GPU's memory; needs no GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/model_fixture.h"

static const fixture_name llama = {"llama3-tied", "llama", ""};

static const b1i_gpu_info hopper = {.name = "Hopper", .major = 9, .sms = 132},
                          ampere = {.name = "Ampere", .major = 8, .minor = 6, .sms = 46};

static b1i_model *model_open(const char *path)
{
    b1i_model *m = NULL;
    must(b1i_model_open(path, B1I_LOAD_TENSORS, &m, err));
    return m;
}

static void test_names(void **state)
{
    static const struct {
        const char *name;
        b1i_device_kind kind;
        int ordinal;
    } good[] = {{NULL, b1i_on_auto, 0},      {"auto", b1i_on_auto, 0},   {"cpu", b1i_on_cpu, 0},
                {"cuda", b1i_on_cuda, 0},    {"cuda:0", b1i_on_cuda, 0}, {"cuda:7", b1i_on_cuda, 7},
                {"cuda:15", b1i_on_cuda, 15}};
    static const char *const bad[] = {
        "",      "tpu",   "CPU",       "cpu:0",  "cuda:",   "cuda:x",  "cuda:-1",  "cuda:1x",
        "cuda0", "cuda ", "cuda:1000", "auto:0", "cuda:00", "cuda:01", "cuda:0015"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        b1i_device_kind kind;
        int ordinal = -1;
        must(b1i_device_parse(good[i].name, &kind, &ordinal, err));
        assert_int_equal(kind, good[i].kind);
        assert_int_equal(ordinal, good[i].ordinal);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        b1i_device_kind kind;
        int ordinal;
        b1_error e = {0};
        b1_engine *engine = (b1_engine *)&e;
        char quoted[32];
        (void)snprintf(quoted, sizeof quoted, "'%s'", bad[i]);
        assert_int_equal(b1i_device_parse(bad[i], &kind, &ordinal, &e), B1_ARGUMENT);
        assert_non_null(strstr(e.message, quoted));
        assert_non_null(strstr(e.message, "cuda:"));
        assert_int_equal(b1_engine_open(fixture_path(&llama), &(b1_engine_options){.device = bad[i]}, &engine, &e),
                         B1_ARGUMENT);
        assert_null(engine);
    }
}

/* ---- executors ---- */

static void test_listed(void **state)
{
    static const char *const names[] = {"reference",    "separate",        "fused",
                                        "persistent",   "separate_stream", "separate_graph",
                                        "fused_stream", "fused_graph",     "fused_pdl"};
    enum { COUNT = sizeof names / sizeof *names };
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        const char *device = i < 4 ? "cpu" : "cuda";
        assert_string_equal(b1_executor_name(i), names[i]);
        assert_string_equal(b1_executor_device(i), device);
        const b1i_executor_class *class = b1i_executor_class_by_name(device, names[i]);
        assert_non_null(class);
        assert_string_equal(class->name, names[i]);
        assert_string_equal(class->device, device);
        assert_true((class->graph_dot != NULL) == (class->graph_describe != NULL));
        assert_null(b1i_executor_class_by_name(i < 4 ? "cuda" : "cpu", names[i]));
    }
    assert_null(b1_executor_name(COUNT));
    assert_null(b1_executor_device(COUNT));
    assert_null(b1_executor_name(-1));
    assert_null(b1_executor_device(-1));
    int classes = 0;
    while (b1i_executor_classes[classes]) classes++;
    assert_int_equal(classes, COUNT);
}

static void test_choice(void **state)
{
    static const struct {
        const char *device, *name;
        const b1i_gpu_info *gpu;
        const char *means; /* NULL: refused with this status and these words */
        b1_status status;
        const char *words[3];
    } cases[] = {
        {"cpu", NULL, NULL, "persistent", B1_OK, {NULL}},
        {"cpu", "fused", NULL, "fused", B1_OK, {NULL}},
        {"cuda", NULL, &hopper, "fused_pdl", B1_OK, {NULL}},
        {"cuda", NULL, &ampere, "fused_graph", B1_OK, {NULL}},
        {"cuda", "fused", &hopper, "fused_graph", B1_OK, {NULL}},
        {"cuda", "separate", &ampere, "separate_graph", B1_OK, {NULL}},
        {"cuda", "separate_stream", &ampere, "separate_stream", B1_OK, {NULL}},
        {"cuda", "fused_pdl", &ampere, NULL, B1_UNSUPPORTED, {"9.0", "Ampere", "fused_graph"}},
        {"cuda", "persistent", &hopper, NULL, B1_UNSUPPORTED, {"persistent", "cuda", "fused_graph and fused_pdl"}},
        {"cuda", "reference", &hopper, NULL, B1_UNSUPPORTED, {"reference", "cpu", "separate_stream, "}},
        {"cpu", "fused_pdl", NULL, NULL, B1_UNSUPPORTED, {"fused_pdl", "cuda", "reference, separate, fused and p"}},
        {"cpu", "fastest", NULL, NULL, B1_ARGUMENT, {"fastest", "reference, separate, fused and persistent", "cpu"}},
        {"cuda", "", &hopper, NULL, B1_ARGUMENT, {"''", "fused_pdl", "cuda"}},
    };
    (void)state;
    b1i_model *m = model_open(fixture_path(&llama));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const b1i_executor_class *class = &b1i_executor_fused;
        b1_error e = {0};
        b1_status st = b1i_executor_choose(cases[i].device, cases[i].name, m, cases[i].gpu, &class, &e);
        assert_int_equal(st, cases[i].status);
        assert_int_equal(e.status, cases[i].status);
        if (cases[i].means) {
            assert_string_equal(class->name, cases[i].means);
            continue;
        }
        assert_null(class);
        for (int w = 0; w < 3; w++)
            if (!strstr(e.message, cases[i].words[w])) fail_msg("no '%s' in: %s", cases[i].words[w], e.message);
    }
    assert_true(b1i_executor_known("cuda", "fused") && b1i_executor_known("cpu", "fused"));
    assert_false(b1i_executor_known("cuda", "persistent") || b1i_executor_known("cpu", "fused_pdl"));
    m->config.head_dim = 512; /* for no executor */
    const b1i_executor_class *class;
    b1_error e = {0};
    assert_int_equal(b1i_executor_choose("cuda", NULL, m, &hopper, &class, &e), B1_UNSUPPORTED);
    assert_non_null(strstr(e.message, "512"));
    assert_int_equal(b1i_executor_choose("cpu", NULL, m, NULL, &class, &e), B1_UNSUPPORTED);
    assert_null(class);
    b1i_model_close(m);
}

/* ---- engines without a GPU's help ---- */

static void refused(b1_engine_options o, b1_status want, const char *word)
{
    b1_engine *engine = (b1_engine *)&o;
    b1_error e = {0};
    o.threads = 2;
    assert_int_equal(b1_engine_open(fixture_path(&llama), &o, &engine, &e), want);
    assert_int_equal(e.status, want);
    if (!strstr(e.message, word)) fail_msg("no '%s' in: %s", word, e.message);
    assert_null(engine);
}

static void test_engines(void **state)
{
    b1_model_info info;
    b1_engine *e = NULL;
    b1_session *s = NULL;
    b1_error why = {0};
    (void)state;
    const long live = b1i_alloc_live();
    refused((b1_engine_options){.device = "cpu", .executor = "fused_graph"}, B1_UNSUPPORTED, "fused_graph");
    refused((b1_engine_options){.device = "cpu", .executor = "no"}, B1_ARGUMENT, "'no'");
    refused((b1_engine_options){.executor = "no"}, B1_ARGUMENT, "'no'");
    if (b1i_gpu_count(NULL) == 0) {
        refused((b1_engine_options){.device = "cuda"}, B1_UNSUPPORTED, "");
        refused((b1_engine_options){.device = "cuda:3", .executor = "fused"}, B1_UNSUPPORTED, "");
        refused((b1_engine_options){.executor = "fused_pdl"}, B1_UNSUPPORTED, ""); /* nowhere else */
    } else {
        refused((b1_engine_options){.device = "cuda:999"}, B1_UNSUPPORTED, "999");
    }
    assert_int_equal(b1i_alloc_live(), live);

    /* an executor that the CPU alone has takes "auto" there */
    must(b1_engine_open(fixture_path(&llama), &(b1_engine_options){.executor = "persistent", .threads = 2}, &e, err));
    b1_engine_info(e, &info);
    assert_string_equal(info.device, "cpu");
    assert_string_equal(info.device_name, b1_kernels_name());
    assert_true(info.device_bytes > info.stored_bytes);
    assert_int_equal(b1_session_create(e, &(b1_session_options){.executor = "fused_pdl"}, &s, &why), B1_UNSUPPORTED);
    assert_non_null(strstr(why.message, "cuda"));
    must(b1_session_create(e, &(b1_session_options){.executor = "reference", .activations = "bf16"}, &s, err));
    assert_null(b1_session_note(s));
    assert_int_equal(b1_session_graph_dot(s, "/no/where.dot", &why), B1_UNSUPPORTED);
    assert_non_null(strstr(why.message, "reference"));
    b1_session_close(s);
    b1_engine_close(e);
}

/* Inputs rounded to bf16 are no f32, and no int8 either. */
static void test_bf16_reference(void **state)
{
    static const fixture_name quantised = {"gguf-llama3", "llama", "/model.gguf"};
    static const char *const kinds[] = {"f32", "bf16", "kernels"};
    fixture f = fixture_read(&quantised);
    float rows[3][64];
    (void)state;
    assert_int_equal(f.vocab, 64);
    b1_engine *e = fixture_open(&quantised, "reference", 2);
    for (int i = 0; i < 3; i++) {
        b1_session *s = NULL;
        must(b1_session_create(e, &(b1_session_options){.activations = kinds[i]}, &s, err));
        must(b1_session_feed(s, f.tokens, 20, err));
        memcpy(rows[i], b1_session_logits(s), sizeof rows[i]);
        b1_session_close(s);
    }
    float bf16 = distance(rows[0], rows[1], 64), i8 = distance(rows[0], rows[2], 64);
    assert_true(bf16 > 0 && bf16 < 0.05f * f.most);
    assert_true(distance(rows[1], rows[2], 64) > 0 && i8 > 0);
    b1_engine_close(e);
    fixture_free(&f);
}

/* ---- memory ---- */

static void test_plan_memory(void **state)
{
    b1i_model *m = NULL;
    b1i_cuda_budget b;
    b1_error e = {0};
    (void)state;
    must(b1i_model_synthetic("llama-3.1-8b", "bf16", &m, err));
    must(b1i_cuda_plan_memory(m, 4096, &hopper, (uint64_t)140 << 30, &b, err));
    const uint64_t weights = 2 * (uint64_t)8030261248;
    assert_in_range(b.weights, weights, weights + weights / 100);
    assert_int_equal(b.kv, 2ull * 32 * 8 * 128 * 4096 * 2);
    assert_true(b.buffers > B1I_CUDA_DRIVER_BYTES && b.prefill > 0);
    assert_int_equal(b.total, b.weights + b.kv + b.buffers + b.prefill);
    assert_int_equal(b.total - b.prefill, b1i_cuda_weight_bytes(m) + b1i_cuda_kv_bytes(&m->config, 4096) +
                                              b1i_cuda_machine_bytes(m, hopper.sms) + 128256 * sizeof(float) +
                                              B1I_CUDA_DRIVER_BYTES);
    /* just enough; prefill's scratch does not fit; nothing fits */
    const uint64_t all = b.total, bare = b.total - b.prefill;
    must(b1i_cuda_plan_memory(m, 4096, &hopper, all, &b, err));
    assert_int_equal(b.total, all);
    must(b1i_cuda_plan_memory(m, 4096, &hopper, all - 1, &b, err));
    assert_int_equal(b.prefill, 0);
    assert_int_equal(b.total, bare);
    must(b1i_cuda_plan_memory(m, 4096, &hopper, bare, &b, err));
    assert_int_equal(b1i_cuda_plan_memory(m, 4096, &hopper, bare - 1, &b, &e), B1_MEMORY);
    static const char *const words[] = {"llama-3.1-8b", "Hopper", "16.0", "4096 positions", "0.54 GB", "shorter"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(e.message, words[i])) fail_msg("no '%s' in: %s", words[i], e.message);
    assert_int_equal(b1i_cuda_plan_memory(m, INT32_MAX, &hopper, (uint64_t)140 << 30, &b, &e), B1_MEMORY);
    assert_int_equal(b1i_cuda_plan_memory(m, 4096, &hopper, 0, &b, NULL), B1_MEMORY);
    b1i_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_listed),         cmocka_unit_test(test_choice),
        cmocka_unit_test(test_engines), cmocka_unit_test(test_bf16_reference), cmocka_unit_test(test_plan_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
