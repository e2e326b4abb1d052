/* SPDX-License-Identifier: MIT
 *
 * The parts of a step from planted figures, what is predicted of other GPUs held against what a published study
 * measured there, prices, sentences, and one whole explanation of a tiny model.
 */
#include "lab/explain.h"
#include "lab/explain_parts.h"
#include "lab/gpus.h"
#include "tests/cli_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static b1_error err;
static json_t *gpus;

#define NEAR(a, b) assert_true(fabs((a) - (b)) <= 1e-9 * fmax(1, fabs((double)(b))))
#define OK(call) \
    if ((call) != B1_OK) fail_msg("%s", err.message)
#define HAS(part) \
    if (!strstr(err.message, part)) fail_msg("no \"%s\" in: %s", part, err.message)

static void adds_up(const b1i_step_parts *p, double t)
{
    const double all[] = {p->memory, p->launch, p->synchronisation, p->kernels, p->attention, p->host};
    double sum = 0;
    for (int i = 0; i < 6; i++) {
        assert_true(all[i] >= 0);
        sum += all[i];
    }
    NEAR(sum, t);
}

/* ---- parts ---- */

/* 9 GB of weights and 1 GB of keys at 5000 GB/s: 1.8 and 0.2 ms. */
static b1i_seen seen(double t) { return (b1i_seen){t, t, t, 5000, 9e9, 1e9, 2048}; }

/* Of a graph's 3 ms, attention is busy for 0.3, the others for 2.2; 0.4 ms lie between, 0.1 outside. */
static const b1i_profiled profile = {true, 0.3, 2.2, 0.4, 0, 3.0, 1};

static void a_graph_is_its_profile(void **state)
{
    (void)state;
    b1i_step_parts p;
    b1i_causes c = {.gpu = true, .form = b1i_form_graph, .base = seen(3), .graph = seen(3), .profile = profile};
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 3);
    NEAR(p.memory, 2);
    NEAR(p.launch, 0);
    NEAR(p.attention, 0.1);
    NEAR(p.kernels, 0.4);
    NEAR(p.synchronisation, 0.4);
    NEAR(p.host, 0.1);

    /* A profiler that makes everything between kernels slower changes the shares alone. */
    c.profile.between_ms = 0.8;
    c.profile.whole_ms = 3.5;
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 3);
    NEAR(p.kernels, 0.4);
    NEAR(p.synchronisation + p.host, 0.5);
    NEAR(p.synchronisation, 0.5 * 0.8 / 1.0);
}

static void a_stream_pays_for_launching(void **state)
{
    (void)state;
    b1i_step_parts p;
    b1i_causes c = {.gpu = true, .form = b1i_form_stream, .base = seen(4.5), .graph = seen(3), .profile = profile};
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 4.5);
    NEAR(p.launch, 1.5);
    NEAR(p.kernels, 0.4);
    NEAR(p.host, 0.1);
    c.base = seen(2.9); /* or it does not */
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 2.9);
    NEAR(p.launch, 0);
}

static void overlapped_kernels_wait_less(void **state)
{
    (void)state;
    b1i_step_parts p;
    b1i_causes c = {.gpu = true, .form = b1i_form_pdl, .base = seen(2.7), .graph = seen(3), .profile = profile};
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 2.7);
    NEAR(p.synchronisation, 0.1);
    NEAR(p.kernels, 0.4);
    c.base = seen(2.3); /* more was saved than lay between them */
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 2.3);
    NEAR(p.synchronisation, 0);
    NEAR(p.kernels, 0.2);
}

static void without_a_profile_the_context_tells(void **state)
{
    (void)state;
    b1i_step_parts p;
    b1i_seen fewer = {2.4, 2.4, 2.4, 5000, 9e9, 0.125e9, 256}; /* 1.825 ms of memory */
    b1i_causes c = {.gpu = true, .form = b1i_form_graph, .base = seen(3), .graph = seen(3), .fewer = fewer};
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 3);
    NEAR(p.attention, (1 - 0.575) * 2048 / (2048 - 256));
    NEAR(p.kernels, 1 - p.attention);
    c.graph = (b1i_seen){0};
    c.form = b1i_form_whole;
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 3);
    NEAR(p.synchronisation, 1 - p.attention);
}

static void a_cpu_dispatches_and_meets(void **state)
{
    (void)state;
    b1i_step_parts p;
    b1i_causes c = {.form = b1i_form_dispatches,
                    .base = seen(4),
                    .profile = {true, 0.7, 3.2, 0, 0, 4, 1},
                    .dispatches = 100,
                    .meetings = 100,
                    .dispatch_ms = 0.003,
                    .meeting_ms = 0.001};
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 4);
    NEAR(p.launch, 0.2);
    NEAR(p.synchronisation, 0.1);
    NEAR(p.attention, 0.5);
    NEAR(p.kernels, 3.2 - 1.8 - 0.3);
    NEAR(p.host, 0.1);
    c.profile.found = false;
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 4);
    NEAR(p.kernels, 1.7);
}

static void a_step_below_its_floor_is_memory(void **state)
{
    (void)state;
    b1i_step_parts p;
    b1i_causes c = {.form = b1i_form_dispatches,
                    .base = seen(1.9),
                    .profile = {true, 0.2, 1.7, 0, 0, 1.9, 1},
                    .dispatches = 10,
                    .meetings = 10,
                    .dispatch_ms = 0.003};
    b1i_step_parts_of(&c, &p);
    adds_up(&p, 1.9);
    NEAR(p.memory, 1.9);
}

static void whatever_is_measured_adds_up(void **state)
{
    (void)state;
    uint64_t n = 1;
    for (int i = 0; i < 20000; i++) {
        double r[16];
        for (int k = 0; k < 16; k++) r[k] = (double)(b1i_mix64(n++) >> 11) / 9007199254740992.0;
        b1i_causes c = {
            .gpu = i & 1,
            .form = (b1i_form)(b1i_mix64(n++) % 6),
            .base = {1 + 4 * r[0], 1, 5, 3000 + 3000 * r[1], 9e9 * r[2], 2e9 * r[3], 2048},
            .graph = {r[4] < 0.3 ? 0 : 1 + 4 * r[4], 1, 5, 3000 + 3000 * r[5], 9e9 * r[2], 2e9 * r[3], 2048},
            .fewer = {r[6] < 0.3 ? 0 : 1 + 4 * r[6], 1, 5, 4000, 9e9 * r[2], 1e8, 256},
            .profile = {r[7] < 0.7, r[8], 4 * r[9], r[10], r[11], 6 * r[12], 1},
            .dispatches = (int)(500 * r[13]),
            .meetings = (int)(500 * r[14]),
            .dispatch_ms = 0.02 * r[15],
            .meeting_ms = 0.01 * r[15]};
        b1i_step_parts p;
        b1i_step_parts_of(&c, &p);
        adds_up(&p, c.base.t_ms);
        NEAR(p.memory, fmin((c.base.weight_bytes + c.base.kv_bytes) / c.base.ceiling_gbps / 1e6, c.base.t_ms));
    }
}

static void forms_and_profiles_are_read(void **state)
{
    (void)state;
    assert_int_equal(b1i_form_of("separate_stream", true), b1i_form_stream);
    assert_int_equal(b1i_form_of("fused_graph", true), b1i_form_graph);
    assert_int_equal(b1i_form_of("fused_pdl", true), b1i_form_pdl);
    assert_int_equal(b1i_form_of("persistent", false), b1i_form_whole);
    assert_int_equal(b1i_form_of("fused", false), b1i_form_dispatches);
    assert_int_equal(b1i_form_of("reference", false), b1i_form_one);
    json_t *j = json_pack("{s:b,s:[{s:s,s:f},{s:s,s:f},{s:s,s:f}],s:f,s:f,s:f,s:f,s:f}", "found", 1, "kernels", "name",
                          "k_attention_4", "total_ns", 1e6, "name", "k_linear", "total_ns", 2e6, "name", "attention",
                          "total_ns", 1e6, "gap_ms", 0.5, "overlap_ms", 0.25, "profiled_ms", 6.0, "distortion", 1.2,
                          "kernel_ms", 4.4);
    b1i_profiled p = b1i_profiled_of(j);
    assert_true(p.found);
    NEAR(p.attention_ms, 2.2); /* scaled to the sum's own median */
    NEAR(p.others_ms, 2.2);
    NEAR(p.between_ms, 0.5);
    NEAR(p.overlap_ms, 0.25);
    NEAR(p.whole_ms, 6);
    json_object_set_new(j, "found", json_false());
    assert_false(b1i_profiled_of(j).found);
    assert_false(b1i_profiled_of(NULL).found);
    json_decref(j);
    j = json_pack("{s:s,s:f}", "status", "failed", "t_obs_ms", 1.0);
    assert_true(b1i_seen_of(j).t_ms == 0);
    json_decref(j);
}

static void the_pool_has_a_price(void **state)
{
    (void)state;
    double dispatch, meeting;
    for (int workers = 1; workers <= 2; workers++) {
        OK(b1i_pool_costs(workers, &dispatch, &meeting, &err));
        assert_true(dispatch >= 0 && meeting >= 0 && meeting <= dispatch && isfinite(dispatch));
    }
}

/* ---- other GPUs ---- */

static const json_t *of_gpu(const json_t *predictions, const char *name)
{
    for (size_t i = 0; i < json_array_size(predictions); i++) {
        const json_t *p = json_array_get(predictions, i);
        if (strcmp(json_string_value(json_object_get(p, "gpu")), name) == 0) return p;
    }
    return NULL;
}

static double bound(const json_t *p, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(p, key), i));
}

/* Qwen2.5-7B at 2048 as Chen's study (arXiv 2605.30571) has it: L4 64.48 ms and H100 14.83 ms eager, 11.78 in a graph.
 * Its bytes on the L4 count both embeddings, those on the H100 none. What launching costs the L4's memory hides. */
static void published_steps_lie_within(void **state)
{
    (void)state;
    const b1i_source l4 = {.gpu = true,
                           .name = "L4",
                           .seen = {64.48, 64.3, 64.7, 276, 15.23e9, 0.117e9, 2048},
                           .peak_gbps = 300,
                           .need_bytes = 16e9,
                           .layers = 28,
                           .launches = 280};
    json_t *list = b1i_predictions(&l4, gpus);
    const json_t *h100 = of_gpu(list, "H100 SXM");
    assert_true(bound(h100, "t_ms", 0) < 11.78 && bound(h100, "t_ms", 1) > 14.83);
    assert_true(bound(h100, "t_ms", 0) > 13.17 / 3.35); /* not below the datasheet's floor */
    assert_null(of_gpu(list, "L4"));
    assert_true(json_is_null(json_object_get(of_gpu(list, "Jetson Orin Nano 8GB Super"), "t_ms")));
    assert_false(json_is_true(json_object_get(of_gpu(list, "Jetson Orin Nano 8GB Super"), "fits")));
    json_decref(list);

    const b1i_source eager = {.gpu = true,
                              .name = "H100 SXM",
                              .seen = {14.83, 14.7, 14.95, 3100, 13.05e9, 0.117e9, 2048},
                              .peak_gbps = 3350,
                              .need_bytes = 16e9,
                              .layers = 28};
    list = b1i_predictions(&eager, gpus);
    const json_t *back = of_gpu(list, "L4");
    assert_true(bound(back, "t_ms", 0) < 64.48 && bound(back, "t_ms", 1) > 64.48);
    json_decref(list);
}

/* From a CPU: our own steps on an H200 (llama-3.1-8b and llama-3.2-1b, bf16, fused executors) lie within. */
static void a_cpu_knows_bytes_alone(void **state)
{
    (void)state;
    b1i_source s = {.seen = {500, 490, 510, 30, 15.01e9, 0.268e9, 2048}, .need_bytes = 16e9, .layers = 32};
    json_t *list = b1i_predictions(&s, gpus);
    const json_t *h200 = of_gpu(list, "H200");
    assert_true(bound(h200, "t_ms", 0) < 3.696 && bound(h200, "t_ms", 1) > 4.101);
    NEAR(bound(h200, "t_ms", 0), 15.278 / 4.8);
    json_decref(list);
    s = (b1i_source){.seen = {90, 89, 91, 30, 2.47e9, 0.067e9, 2048}, .need_bytes = 3e9, .layers = 16};
    list = b1i_predictions(&s, gpus);
    h200 = of_gpu(list, "H200");
    assert_true(bound(h200, "t_ms", 0) < 0.748 && bound(h200, "t_ms", 1) > 0.939);
    json_decref(list);
    s.flops = 1e13; /* arithmetic stands beside the bytes */
    list = b1i_predictions(&s, gpus);
    assert_true(bound(of_gpu(list, "H200"), "t_ms", 0) >= 1e13 / 989.5e12 * 1e3 * 0.999);
    json_decref(list);
}

static void prices_are_read(void **state)
{
    (void)state;
    b1i_price p[3];
    OK(b1i_price_read("h100=3.95USD", gpus, &p[0], &err));
    assert_string_equal(p[0].name, "H100 SXM");
    assert_string_equal(p[0].currency, "USD");
    OK(b1i_price_read("H200=4", gpus, &p[1], &err)); /* though another one begins so */
    assert_string_equal(p[1].name, "H200");
    assert_int_equal(b1i_price_read("This=.5", gpus, &p[2], &err), B1_ARGUMENT);
    OK(b1i_price_read("This=0.5", gpus, &p[2], &err));
    assert_string_equal(p[2].name, "this");
    static const struct {
        const char *text, *part;
    } bad[] = {{"L4", "NAME=NUMBER"},
               {"=2", "NAME=NUMBER"},
               {"L4=-2", "NAME=NUMBER"},
               {"L4=x", "NAME=NUMBER"},
               {"L4=0", "above 0"},
               {"L4=2usd", "three capitals"},
               {"L4=2DOLLAR", "three capitals"},
               {"A100=2", "A100-40 SXM"},
               {"TPU=2", "no GPU that is known"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        b1i_price none;
        assert_int_equal(b1i_price_read(bad[i].text, gpus, &none, &err), B1_ARGUMENT);
        HAS(bad[i].part);
    }
    /* Ten milliseconds a token: a million take 10 000 s, 2.78 hours. */
    const b1i_source s = {
        .gpu = true, .name = "L4", .seen = {10, 10, 10, 280, 2e9, 1e8, 2048}, .peak_gbps = 300, .need_bytes = 3e9};
    json_t *predictions = b1i_predictions(&s, gpus), *list = b1i_prices_json(p, 3, &s, predictions, "2026-11-30");
    const json_t *there = json_array_get(list, 0), *here = json_array_get(list, 2);
    NEAR(bound(here, "per_million_tokens", 0), 0.5 * 10 / 3.6);
    NEAR(bound(here, "per_million_tokens", 1), 0.5 * 10 / 3.6);
    NEAR(bound(there, "per_million_tokens", 1), 3.95 * bound(of_gpu(predictions, "H100 SXM"), "t_ms", 1) / 3.6);
    assert_string_equal(json_string_value(json_object_get(here, "date")), "2026-11-30");
    assert_true(json_is_null(json_object_get(here, "currency")));
    assert_non_null(json_string_value(json_object_get(here, "excludes")));
    json_decref(list);
    json_decref(predictions);
}

/* ---- words ---- */

static bool says(const json_t *sentences, const char *part)
{
    for (size_t i = 0; i < json_array_size(sentences); i++)
        if (strstr(json_string_value(json_array_get(sentences, i)), part)) return true;
    return false;
}

static json_t *row(const char *what, const char *executor, const char *weights, int context, double t)
{
    return json_pack("{s:s,s:{s:s,s:s,s:i,s:i},s:s,s:s,s:s,s:f,s:f,s:f,s:f}", "what", what, "setting", "executor",
                     executor, "weights", weights, "context", context, "threads", strcmp(what, "threads") == 0 ? 1 : 0,
                     "status", "ok", "verdict", "ok", "weights", weights, "t_obs_ms", t, "ceiling_gbps", 4600.0,
                     "weight_bytes", strcmp(weights, "q4_0") == 0 ? 4e9 : 15e9, "kv_bytes", context * 131072.0);
}

static void sentences_have_the_numbers(void **state)
{
    (void)state;
    json_t *rows = json_pack(
        "[o,o,o,o,o,o]", row("executor", "separate_stream", "bf16", 2048, 5.26),
        row("executor", "separate_graph", "bf16", 2048, 4.78), row("executor", "fused_graph", "bf16", 2048, 3.93),
        row("executor", "fused_pdl", "bf16", 2048, 3.70), row("context", "separate_stream", "bf16", 256, 5.10),
        row("weights", "separate_stream", "q4_0", 2048, 3.00));
    json_t *d = json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:{s:i},s:o,s:o,s:{s:{s:s,s:i},s:f},s:[],s:[]}",
        "model", "llama-3.1-8b", "weights", "bf16", "device", "cuda:0", "device_name", "NVIDIA H200", "executor",
        "separate_stream", "threads", 16, "context", 2048, "verdict", "ok", "t_obs_ms", 5.26, "t_floor_ms", 3.28,
        "weight_bytes", 15e9, "stored_bytes", 15e9, "kv_bytes", 2.68e8, "ceiling_gbps", 4650.0, "peak_gbps", 4800.0,
        "kernels", "step", 483, "interventions", rows, "parts_ms",
        json_pack("{s:f,s:f,s:f,s:f,s:f,s:f}", "memory", 3.28, "launch", 0.48, "synchronisation", 0.9, "kernels", 0.3,
                  "attention", 0.2, "host", 0.1),
        "best", "setting", "executor", "fused_pdl", "threads", 0, "t_obs_ms", 3.70, "predictions", "prices");
    assert_non_null(d);
    json_t *s = b1i_explain_sentences(d);
    static const char *const parts[] = {
        "llama-3.1-8b with bf16 weights on cuda:0 (NVIDIA H200)",
        "floor is 3.28 ms",
        "datasheet's 4800 GB/s",
        "memory 3.28 ms (62 %)",
        "Launching is 0.480 ms",
        "483 times in a step",
        "saves 0.850 ms: separate_graph",
        "From 256 to 2048 positions",
        "With q4_0 weights",
        "1.42 times as fast",
        "beyond memory is synchronisation",
        "There was no profile",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!says(s, parts[i])) fail_msg("nothing says \"%s\": %s", parts[i], json_dumps(s, JSON_INDENT(1)));
    for (size_t i = 0; i < json_array_size(s); i++) {
        const char *sentence = json_string_value(json_array_get(s, i));
        assert_true(sentence[strlen(sentence) - 1] == '.');
        assert_null(strstr(sentence, "nan"));
        assert_null(strstr(sentence, "inf "));
    }
    json_decref(s);
    json_object_set_new(d, "verdict", json_string("noisy"));
    s = b1i_explain_sentences(d);
    assert_true(says(s, "was noisy"));
    json_decref(s);
    json_decref(d);
}

/* ---- the whole ---- */

static char model[64];

static b1i_explain_options whole(void)
{
    return (b1i_explain_options){.setting = {.model = model,
                                             .device = (char *)(uintptr_t) "cpu",
                                             .context = 256,
                                             .threads = 1,
                                             .warmup = 2,
                                             .steps = 12}};
}

static int asked;
static bool after_some(void) { return asked-- == 0; }

static void a_tiny_model_is_explained(void **state)
{
    (void)state;
    if (getenv("B1_EMULATED")) skip(); /* readings of the ceiling take minutes there */
    static const char *const prices[] = {"this=1EUR", "L4=0.8"};
    static const char *const keys[] = {
        "schema",     "model",    "architecture",  "device",       "device_name", "weights",      "executor",
        "context",    "threads",  "t_obs_ms",      "weight_bytes", "kv_bytes",    "ceiling_gbps", "peak_gbps",
        "t_floor_ms", "parts_ms", "interventions", "best",         "predictions", "prices",       "sentences"};
    b1i_explain_options o = whole();
    o.prices = prices;
    o.price_count = 2;
    json_t *d, *part;
    const char *name;
    double sum = 0;
    OK(b1i_explain(&o, &d, &err));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(d, keys[i])) fail_msg("the document lacks %s", keys[i]);
    const double t = json_number_value(json_object_get(d, "t_obs_ms"));
    json_object_foreach(json_object_get(d, "parts_ms"), name, part)
    {
        assert_true(json_number_value(part) >= 0);
        sum += json_number_value(part);
    }
    NEAR(sum, t);
    assert_true(json_number_value(json_object_get(json_object_get(d, "best"), "t_obs_ms")) <= t);
    int executors = 0;
    for (size_t i = 0; i < json_array_size(json_object_get(d, "interventions")); i++) {
        const json_t *row_of = json_array_get(json_object_get(d, "interventions"), i);
        assert_string_equal(json_string_value(json_object_get(row_of, "status")), "ok");
        executors += strcmp(json_string_value(json_object_get(row_of, "what")), "executor") == 0;
    }
    assert_int_equal(executors, 4);
    assert_true(says(json_object_get(d, "sentences"), "floor"));
    assert_int_equal(json_array_size(json_object_get(d, "prices")), 2);
    assert_int_equal(json_array_size(json_object_get(d, "predictions")), json_array_size(gpus));
    json_decref(d);
}

static void what_cannot_be_explained(void **state)
{
    (void)state;
    if (getenv("B1_EMULATED")) skip();
    static const char *const price[] = {"TPU=1"};
    json_t *d;
    const long alive = b1i_alloc_live();
    b1i_explain_options o = whole();
    o.prices = price;
    o.price_count = 1;
    assert_int_equal(b1i_explain(&o, &d, &err), B1_ARGUMENT);
    HAS("TPU=1");
    assert_null(d);
    o = whole();
    o.setting.stack = (char *)(uintptr_t) "cat";
    assert_int_equal(b1i_explain(&o, &d, &err), B1_ARGUMENT);
    HAS("stack");
    o = whole();
    o.setting.model = (char *)(uintptr_t) "/nowhere.gguf";
    assert_int_equal(b1i_explain(&o, &d, &err), B1_MODEL);
    o = whole();
    o.setting.executor = (char *)(uintptr_t) "fused_pdl";
    assert_int_not_equal(b1i_explain(&o, &d, &err), B1_OK);
    o = whole();
    for (int after = 0; after < 40; after += 13) {
        o.cancelled = after_some;
        asked = after;
        assert_int_equal(b1i_explain(&o, &d, &err), B1_CANCELLED);
    }
    o.cancelled = NULL;
    for (long n = 0; n < 12; n += 2) { /* it fails, or a row has the reason */
        b1i_alloc_fail_at(n);
        if (b1i_explain(&o, &d, &err) != B1_OK) assert_int_equal(err.status, B1_MEMORY);
        json_decref(d);
    }
    b1i_alloc_fail_at(-1);
    assert_int_equal(b1i_alloc_live(), alive);
}

static int start(void **state)
{
    (void)state;
    strcpy(model, "/tmp/b1-explain-XXXXXX");
    if (!mkdtemp(model)) return -1;
    tiny_model(model);
    gpus = b1i_gpus();
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[96];
    json_decref(gpus);
    snprintf(command, sizeof command, "rm -r %s", model);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_is_its_profile),       cmocka_unit_test(a_stream_pays_for_launching),
        cmocka_unit_test(overlapped_kernels_wait_less), cmocka_unit_test(without_a_profile_the_context_tells),
        cmocka_unit_test(a_cpu_dispatches_and_meets),   cmocka_unit_test(a_step_below_its_floor_is_memory),
        cmocka_unit_test(whatever_is_measured_adds_up), cmocka_unit_test(forms_and_profiles_are_read),
        cmocka_unit_test(the_pool_has_a_price),         cmocka_unit_test(published_steps_lie_within),
        cmocka_unit_test(a_cpu_knows_bytes_alone),      cmocka_unit_test(prices_are_read),
        cmocka_unit_test(sentences_have_the_numbers),   cmocka_unit_test(a_tiny_model_is_explained),
        cmocka_unit_test(what_cannot_be_explained),
    };
    return cmocka_run_group_tests(tests, start, end);
}
