/* SPDX-License-Identifier: MIT
 *
 * Devices by name, the executors of each, datasheets by the driver's names, and what a cell of a GPU looks like: all
 * that needs no GPU.
 */
#include "app/executors.h"
#include "lab/bench_cell.h"
#include "lab/ceiling.h"
#include "lab/device.h"
#include "lab/gpus.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void words_name_devices(void **state)
{
    (void)state;
    static const char *const good[] = {"cpu", "cuda", "cuda:0", "cuda:7", "cuda:12", "cuda:100", "auto"};
    static const char *const bad[] = {"",        "gpu",     "CPU",       "cuda:",    "cuda:x", "cuda:-1",
                                      "cuda:01", "cuda:1 ", "cuda:1000", "cuda:0x1", "cuda0",  "cpu:0"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(b1i_device_is_word(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        b1i_device d;
        b1_error err = {0};
        assert_false(b1i_device_is_word(bad[i]));
        assert_int_equal(b1i_device_choose(bad[i], NULL, 0, &d, &err), B1_ARGUMENT);
    }
    for (int i = 0; b1i_device_word(i); i++) assert_true(b1i_device_is_word(b1i_device_word(i)));
    assert_string_equal(b1i_device_at(B1I_DEVICE_CPU).name, "cpu");
    assert_string_equal(b1i_device_at(3).name, "cuda:3");
}

static b1_status choose(const char *word, const char *executor, const char *second, b1i_device *out, b1_error *err)
{
    const char *names[] = {executor, second};
    return b1i_device_choose(word, names, executor ? second ? 2 : 1 : 0, out, err);
}

static void executors_belong_to_devices(void **state)
{
    (void)state;
    b1i_device d;
    b1_error err = {0};
    assert_true(b1i_executor_is_gpu("fused_pdl") && b1i_executor_is_gpu("separate_stream"));
    assert_false(b1i_executor_is_gpu("fused") || b1i_executor_is_gpu("persistent") || b1i_executor_is_gpu("warp"));
    assert_true(b1i_executor_is_cpu("reference") && b1i_executor_is_cpu("persistent"));
    assert_false(b1i_executor_is_cpu("separate"));
    assert_int_equal(choose("cpu", "fused_graph", NULL, &d, &err), B1_ARGUMENT);
    assert_non_null(strstr(err.message, "fused_graph"));
    assert_int_equal(choose("cuda", "fused", "reference", &d, &err), B1_ARGUMENT);
    assert_non_null(strstr(err.message, "reference"));
    assert_int_equal(choose("cuda:1", "persistent", NULL, &d, &err), B1_ARGUMENT);
    assert_non_null(strstr(err.message, "persistent runs on the CPU"));
    assert_int_equal(choose(NULL, "reference", "fused_pdl", &d, &err), B1_ARGUMENT);
    assert_int_equal(choose("auto", "persistent", "fused_pdl", &d, &err), B1_ARGUMENT);
    assert_int_equal(choose("cpu", "fused", "persistent", &d, &err), B1_OK);
    assert_string_equal(d.name, "cpu");
    assert_false(d.open);
    assert_int_equal(choose("auto", "reference", "fused", &d, &err), B1_OK);
    assert_int_equal(d.ordinal, B1I_DEVICE_CPU);
    assert_int_equal(choose("auto", "fused", "persistent", &d, &err), B1_OK);
    assert_int_equal(d.ordinal, B1I_DEVICE_CPU);
}

static void a_missing_gpu_is_a_sentence(void **state)
{
    (void)state;
    b1i_device d;
    b1_error err = {0};
    b1i_ceiling *ceiling = (b1i_ceiling *)&d;
    assert_int_equal(choose("cuda:99", NULL, NULL, &d, &err), B1_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cuda:99"));
    if (b1i_device_gpus(&err) > 0) {
        print_message("the rest is for a machine without a GPU\n");
        skip();
    }
    assert_true(strlen(err.message) > 10);
    assert_int_equal(choose("cuda", NULL, NULL, &d, &err), B1_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cuda cannot be used: "));
    assert_int_equal(choose(NULL, "fused_pdl", NULL, &d, &err), B1_UNSUPPORTED);
    assert_non_null(strstr(err.message, "fused_pdl"));
    assert_int_equal(choose("auto", "fused", NULL, &d, &err), B1_OK);
    assert_string_equal(d.name, "cpu");
    assert_false(d.open);
    assert_int_equal(b1i_ceiling_open_gpu(0, 1 << 30, 2, &ceiling, &err), B1_UNSUPPORTED);
    assert_null(ceiling);
    json_t *record = b1i_device_record(0, b1i_device_state(0), NULL), *now = b1i_device_state(0);
    assert_true(json_is_null(record));
    assert_true(json_is_null(json_object_get(now, "sm_mhz")));
    assert_true(json_is_array(json_object_get(now, "throttle")));
    assert_int_equal(b1i_device_throttle(0), 0);
    json_decref(record);
    json_decref(now);
}

static void check_list(const b1i_device *device, const char *const *given, size_t count, const char *const *want)
{
    b1i_executors list;
    assert_int_equal(b1i_executors_of(device, given, count, &list, NULL), B1_OK);
    for (size_t i = 0; i < list.count; i++) assert_string_equal(list.names[i], want[i]);
    assert_null(want[list.count]);
}

static void lists_are_of_the_device(void **state)
{
    (void)state;
    const b1i_device cpu = b1i_device_cpu(), gpu = b1i_device_at(0);
    static const char *const all[] = {"fused", "all"}, *const some[] = {"separate", "fused", "persistent", "fused_pdl"};
    check_list(&cpu, NULL, 0, (const char *[]){"fused", "persistent", NULL});
    check_list(&gpu, NULL, 0, (const char *[]){"fused_graph", "fused_pdl", NULL});
    check_list(&cpu, all, 2, (const char *[]){"reference", "separate", "fused", "persistent", NULL});
    check_list(&cpu, some, 3, (const char *[]){"separate", "fused", "persistent", NULL});
    check_list(&gpu, some, 4, (const char *[]){"separate_graph", "fused_graph", "persistent", "fused_pdl", NULL});
    b1i_executors list;
    assert_int_equal(b1i_executors_of(&gpu, all, 2, &list, NULL), B1_OK);
    assert_true(list.count >= 5);
    for (size_t i = 0; i < list.count; i++) assert_false(b1i_executor_is_cpu(list.names[i]));
    const char *many[B1I_EXECUTORS_MOST + 1];
    for (size_t i = 0; i <= B1I_EXECUTORS_MOST; i++) many[i] = "fused";
    assert_int_equal(b1i_executors_of(&cpu, many, B1I_EXECUTORS_MOST + 1, &list, NULL), B1_ARGUMENT);
}

static void datasheets_go_by_the_whole_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double gbps;
    } cases[] = {
        {"NVIDIA H200", 4800},
        {"NVIDIA H100 80GB HBM3", 3350},
        {"NVIDIA A100-SXM4-80GB", 2039},
        {"NVIDIA A100-SXM4-40GB", 1555},
        {"A100-SXM4-40GB", 1555},
        {"NVIDIA GeForce RTX 4090", 1008},
        {"NVIDIA L4", 300},
        {"NVIDIA L40S", 864},
        {"NVIDIA L40", 0},
        {"NVIDIA H100 PCIe", 0},
        {"NVIDIA H200 MIG 1g.18gb", 0},
        {"NVIDIA GeForce RTX 3090 Ti", 0},
        {"NVIDIA GeForce RTX 4090 Laptop GPU", 0},
        {"Orin", 0},
        {"NVIDIA ", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (fabs(b1i_gpu_peak(cases[i].name) - cases[i].gbps) > 1e-9) print_error("%s\n", cases[i].name);
        assert_true(fabs(b1i_gpu_peak(cases[i].name) - cases[i].gbps) < 1e-9);
    }
    json_t *list = b1i_gpus(), *gpu;
    size_t i;
    assert_true(json_array_size(list) > 10);
    json_array_foreach(list, i, gpu)
    {
        assert_null(json_object_get(gpu, "driver_names"));
        assert_true(json_number_value(json_object_get(gpu, "gbps")) > 0);
        assert_true(!json_object_get(gpu, "bf16_tflops") == !json_object_get(gpu, "bf16_source"));
    }
    json_decref(list);
    assert_true(fabs(b1i_gpu_tflops("NVIDIA H200") - 989.5) < 1e-9);
    assert_true(fabs(b1i_gpu_tflops("H200 NVL") - 835.5) < 1e-9); /* the same memory, fewer watts */
    assert_true(b1i_gpu_tflops("NVIDIA GB10") == 0 && b1i_gpu_peak("NVIDIA GB10") > 0);
    assert_null(b1i_gpu_find("NVIDIA H200 MIG 1g.18gb"));
    gpu = b1i_gpu_find("NVIDIA L4");
    assert_string_equal(json_string_value(json_object_get(gpu, "name")), "L4");
    json_decref(gpu);
}

/* 14 GB in 4 ms on a GPU of 4800 GB/s. */
static void a_gpu_cell_has_its_floor(void **state)
{
    (void)state;
    b1i_bench_result r = {
        .t_obs_ms = 4, .p10_ms = 4, .p90_ms = 4, .p99_ms = 4, .ceiling_gbps = 4600, .r_ceiling = 0.76};
    b1i_cell c = {.model = "m",
                  .device = "cuda:0",
                  .weights = "bf16",
                  .executor = "fused_pdl",
                  .status = "ok",
                  .context = 2048,
                  .threads = 16,
                  .weight_bytes = 13900000000u,
                  .stored_bytes = 13900000000u,
                  .kv_bytes = 100000000u,
                  .device_bytes = 14500000000u,
                  .peak_gbps = 4800,
                  .result = r};
    json_t *j = b1i_cell_json(&c);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "device")), "cuda:0");
    assert_true(fabs(json_number_value(json_object_get(j, "t_floor_ms")) - 14e9 / 4800e6) < 1e-9);
    assert_true(fabs(json_number_value(json_object_get(j, "r_floor")) - 14e9 / 4800e6 / 4) < 1e-9);
    assert_true(json_integer_value(json_object_get(j, "device_bytes")) == 14500000000);
    json_decref(j);
    c.device_bytes = 0;
    c.peak_gbps = 0; /* a part of a GPU, and the CPU */
    j = b1i_cell_json(&c);
    static const char *const unknown[] = {"peak_gbps", "t_floor_ms", "r_floor", "device_bytes"};
    for (int i = 0; i < 4; i++) assert_true(json_is_null(json_object_get(j, unknown[i])));
    assert_true(json_is_number(json_object_get(j, "r_ceiling")));
    json_decref(j);
    c.peak_gbps = 4800;
    c.device_bytes = 14500000000u;
    c.status = "out_of_memory";
    c.message = "it does not fit";
    j = b1i_cell_json(&c);
    for (int i = 0; i < 4; i++) assert_true(json_is_null(json_object_get(j, unknown[i])));
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_name_devices),
        cmocka_unit_test(executors_belong_to_devices),
        cmocka_unit_test(a_missing_gpu_is_a_sentence),
        cmocka_unit_test(lists_are_of_the_device),
        cmocka_unit_test(datasheets_go_by_the_whole_name),
        cmocka_unit_test(a_gpu_cell_has_its_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
