/* SPDX-License-Identifier: MIT
 *
 * Engines through the public API: what they say of themselves, several at once, options that are wrong, every
 * allocation failing in turn, and weights that make logits no numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "tests/loader_files.h"
#include "tests/model_fixture.h"

enum { THREADS = 2 };

static const fixture_name llama = {"llama3-tied", "llama", ""}, quantised = {"gguf-llama3", "llama", "/model.gguf"},
                          own_head = {"llama-own-head", "llama", ""}, sharded = {"llama-linear", "llama", ""},
                          qwen3 = {"gguf-qwen3", "qwen3", "/model.gguf"}, window = {"mistral-window", "mistral", ""};

/* ---- what an engine and its sessions say ---- */

static void test_info(void **state)
{
    /* llama3-tied: 2 layers, hidden 64, FFN 96, 4 heads of 32, 2 KV heads, 64 tokens; bf16, the norms too */
    const uint64_t layer = 2 * 64 * 128 + 2 * 64 * 64 + 3 * 64 * 96 + 2 * 64, all = 2 * layer + 64 + 64 * 64;
    (void)state;
    b1_engine *e = fixture_open(&llama, NULL, THREADS);
    b1_model_info info;
    b1_engine_info(e, &info);
    assert_int_equal(info.layers, 2);
    assert_int_equal(info.hidden, 64);
    assert_int_equal(info.ffn, 96);
    assert_int_equal(info.heads, 4);
    assert_int_equal(info.kv_heads, 2);
    assert_int_equal(info.head_dim, 32);
    assert_int_equal(info.vocab, 64);
    assert_int_equal(info.context_max, 256);
    assert_string_equal(info.weights, "bf16");
    assert_int_equal(info.parameters, all);
    assert_int_equal(info.weight_bytes, 2 * all);
    assert_true(info.stored_bytes >= info.weight_bytes && info.load_ms > 0);
    assert_int_equal(b1_engine_threads(e), THREADS);
    int count = 0;
    const int32_t *end = b1_engine_end_tokens(e, &count);
    assert_int_equal(count, 1);
    assert_int_equal(end[0], 2);

    static const struct {
        const char *executor, *kv;
        uint64_t size;
    } kinds[] = {{"fused", NULL, 2}, {"fused", "f32", 4}, {"fused", "f16", 2}, {"reference", NULL, 4}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const b1_session_options o = {.executor = kinds[i].executor, .kv = kinds[i].kv, .op_times = true};
        b1_session *s = NULL;
        int ops = 0;
        uint64_t read = 0, ns = 0;
        must(b1_session_create(e, &o, &s, err));
        const uint64_t kv = 2 * 2 * 2 * 32 * 100 * kinds[i].size; /* K and V, layers, KV heads, head_dim, positions */
        assert_int_equal(b1_session_kv_bytes(s, 100), kv);
        assert_int_equal(b1_session_traffic_bytes(s, 100), 2 * all + kv);
        assert_null(b1_session_logits_at(s, 0));
        must(b1_session_feed(s, (const int32_t[]){1, 2, 3}, 3, err));
        assert_non_null(b1_session_logits_at(s, 0));
        assert_null(b1_session_logits_at(s, 1)); /* without all_logits the last row alone */
        must(b1_session_step(s, 4, err));
        const b1_plan_op *plan = b1_session_plan(s, &ops);
        for (int j = 0; j < ops; j++) {
            assert_true(plan[j].name && plan[j].tensor && plan[j].layer >= -1 && plan[j].layer < 2);
            read += plan[j].weight_bytes;
            ns += plan[j].time_ns;
        }
        /* the embedding's one row is looked up besides the whole of it as the head */
        assert_in_range(read, 2 * all, 2 * all + 2 * 64);
        b1_timings t;
        b1_session_timings(s, &t);
        assert_true(ns > 0 && t.last_step_ns > 0 && t.feed_ns > 0 && t.feed_tokens == 3);
        b1_session_close(s);
    }
    b1_engine_close(e);
}

static void test_ceiling(void **state)
{
    (void)state;
    b1_engine *e = fixture_open(&quantised, "reference", THREADS);
    b1_session *s = NULL;
    double gbps = -1;
    b1_error error = {0};
    must(b1_session_create(e, &(b1_session_options){.executor = "reference"}, &s, err));
    assert_int_equal(b1_session_read_ceiling(s, 1000000, &gbps, &error), B1_MEMORY);
    b1_session_close(s);
    must(b1_session_create(e, &(b1_session_options){.executor = "persistent"}, &s, err));
    must(b1_session_read_ceiling(s, 20000000, &gbps, err));
    assert_true(gbps > 0 && gbps < 10000);
    b1_session_close(s);
    b1_engine_close(e);
}

/* ---- several at once ---- */

static void test_several(void **state)
{
    const fixture_name *names[] = {&llama, &quantised, &own_head, &sharded, &qwen3, &window};
    enum { COUNT = sizeof names / sizeof *names };
    b1_engine *engines[COUNT];
    b1_session *sessions[COUNT];
    fixture f[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        f[i] = fixture_read(names[i]);
        engines[i] = fixture_open(names[i], NULL, 1 + i % 2);
        must(b1_session_create(engines[i], NULL, &sessions[i], err));
        assert_string_equal(b1_session_executor(sessions[i]), "persistent");
    }
    for (int at = 0; at < (slow_here() ? 20 : 70); at++)
        for (int i = 0; i < COUNT; i++) {
            must(b1_session_step(sessions[i], f[i].tokens[at], err));
            assert_true(distance(b1_session_logits(sessions[i]), fixture_logits(&f[i], at), f[i].vocab) <=
                        0.12f * f[i].most);
        }
    for (int i = 0; i < COUNT; i++) {
        b1_session_close(sessions[i]);
        b1_engine_close(engines[i]);
        fixture_free(&f[i]);
    }
}

/* The thread count is no part of the result's meaning, and the same count gives the same bits in any engine. */
static void test_thread_counts(void **state)
{
    fixture f = fixture_read(&quantised);
    float last[64];
    (void)state;
    assert_int_equal(f.vocab, 64);
    for (int i = 0; cpu_executor(i); i++)
        for (int threads = 1; threads <= (slow_here() ? 2 : 5); threads++)
            for (int round = 0; round < 2; round++) {
                b1_session *s = NULL;
                b1_engine *e = fixture_open(&quantised, cpu_executor(i), threads);
                must(b1_session_create(e, NULL, &s, err));
                must(b1_session_feed(s, f.tokens, 60, err));
                must(b1_session_step(s, f.tokens[60], err));
                const float *l = b1_session_logits(s);
                assert_true(distance(l, fixture_logits(&f, 60), f.vocab) <= 0.12f * f.most);
                if (round == 1) assert_memory_equal(l, last, sizeof last);
                memcpy(last, l, sizeof last);
                b1_session_close(s);
                b1_engine_close(e);
            }
    fixture_free(&f);
}

/* ---- options ---- */

static void test_options(void **state)
{
    static const struct {
        b1_engine_options o;
        const char *word;
    } engines[] = {
        {{.executor = "fastest"}, "fastest"}, {{.device = "tpu"}, "tpu"}, {{.threads = -1}, "-1"},
        {{.threads = 1 << 20}, "1048576"},    {{.context = -5}, "-5"},    {{.weights = "q4_0"}, "q4_0"},
    };
    static const struct {
        b1_session_options o;
        const char *word;
    } sessions[] = {
        {{.executor = "fastest"}, "fastest"}, {{.executor = ""}, ""},  {{.kv = "q8_0"}, "q8_0"},
        {{.activations = "i4"}, "i4"},        {{.context = -1}, "-1"},
    };
    b1_error e;
    b1_engine *engine;
    b1_session *s;
    (void)state;
    long live = b1i_alloc_live();
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        engine = (b1_engine *)&e;
        e = (b1_error){0};
        assert_int_equal(b1_engine_open(fixture_path(&llama), &engines[i].o, &engine, &e), B1_ARGUMENT);
        assert_int_equal(e.status, B1_ARGUMENT);
        assert_non_null(strstr(e.message, engines[i].word));
        assert_null(engine);
    }
    assert_int_equal(b1_engine_open("/no/such/model.gguf", NULL, &engine, &e), B1_MODEL);
    assert_non_null(strstr(e.message, "/no/such/model.gguf"));
    assert_int_equal(b1_engine_open("/no/such/model.gguf", NULL, &engine, NULL), B1_MODEL);
    assert_int_equal(b1i_alloc_live(), live);

    engine = fixture_open(&llama, NULL, THREADS);
    live = b1i_alloc_live();
    for (size_t i = 0; i < sizeof sessions / sizeof *sessions; i++) {
        s = (b1_session *)&e;
        e = (b1_error){0};
        assert_int_equal(b1_session_create(engine, &sessions[i].o, &s, &e), B1_ARGUMENT);
        assert_non_null(strstr(e.message, sessions[i].word));
        assert_null(s);
    }
    /* more KV than there is memory */
    assert_int_equal(b1_session_create(engine, &(b1_session_options){.context = INT32_MAX}, &s, &e), B1_MEMORY);
    assert_null(s);
    assert_int_equal(b1i_alloc_live(), live);
    b1_engine_close(engine);
    engine = NULL;
    assert_int_equal(b1_engine_open(fixture_path(&llama), &(b1_engine_options){.context = INT32_MAX}, &engine, &e),
                     B1_MEMORY);
    assert_null(engine);
    b1_engine_close(NULL);
    b1_session_close(NULL);
}

/* ---- memory that runs out ---- */

/* Everything that allocates: an engine, a session of each executor, tokens through them. */
static b1_status whole_life(const fixture_name *n, const char *executor, b1_error *e)
{
    static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const b1_engine_options options = {.device = "cpu", .executor = "reference", .threads = THREADS, .context = 64};
    const b1_session_options o = {.executor = executor, .all_logits = true, .op_times = true};
    b1_engine *engine = NULL;
    b1_session *s = NULL;
    b1_status st = b1_engine_open(fixture_path(n), &options, &engine, e);
    assert_true((st == B1_OK) == (engine != NULL));
    if (st == B1_OK) {
        st = b1_session_create(engine, &o, &s, e);
        assert_true((st == B1_OK) == (s != NULL));
    }
    if (st == B1_OK) st = b1_session_feed(s, tokens, 10, e);
    if (st == B1_OK) st = b1_session_step(s, 11, e);
    b1_session_close(s);
    if (st == B1_MEMORY && engine) { /* the engine is whole: what failed works now */
        b1i_alloc_fail_at(-1);
        must(b1_session_create(engine, &o, &s, err));
        must(b1_session_step(s, 11, err));
        b1_session_close(s);
    }
    b1_engine_close(engine);
    return st;
}

static void fail_in_turn(const fixture_name *n, const char *executor)
{
    enum { PAST_THE_LAST = 8 }; /* so many lives in a row that no failure reached: there are no more allocations */
    b1_error e = {0};
    assert_int_equal(whole_life(n, executor, &e), B1_OK); /* the pool's threads are there from now on */
    const long live = b1i_alloc_live();
    long failed = 0, untouched = 0;
    for (long i = 0; untouched < PAST_THE_LAST; i++) {
        e = (b1_error){0};
        b1i_alloc_fail_at(i);
        b1_status st = whole_life(n, executor, &e);
        b1i_alloc_fail_at(-1);
        untouched = st == B1_OK ? untouched + 1 : 0;
        failed += st != B1_OK;
        if (st != B1_OK && (st != B1_MEMORY || !*e.message))
            fail_msg("%s: allocation %ld failed and gave %s: %s", n->folder, i, b1_status_name(st), e.message);
        if (b1i_alloc_live() != live)
            fail_msg("%s, %s: allocation %ld failed and left %ld alive", n->folder, executor, i,
                     b1i_alloc_live() - live);
        assert_in_range(i, 0, 10000);
    }
    print_message("%s, %s: each of %ld allocations failed once\n", n->folder, executor, failed);
    assert_true(failed > 5);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    for (int i = 0; cpu_executor(i); i++) fail_in_turn(&quantised, cpu_executor(i));
    fail_in_turn(&sharded, "persistent");
    fail_in_turn(&llama, "fused");
}

/* A step takes nothing from the heap: it cannot fail for want of memory, nor wait for an allocator. */
static void test_no_allocation_in_steps(void **state)
{
    fixture f = fixture_read(&quantised);
    b1_engine *engine = fixture_open(&quantised, NULL, THREADS);
    (void)state;
    for (int i = 0; cpu_executor(i); i++) {
        b1_session *s[2] = {NULL, NULL};
        for (int j = 0; j < 2; j++)
            must(b1_session_create(engine, &(b1_session_options){.executor = cpu_executor(i)}, &s[j], err));
        b1i_alloc_fail_at(0);
        must(b1_session_prompt(s[0], f.tokens, 40, err));
        for (int j = 40; j < 60; j++) must(b1_session_step(s[0], f.tokens[j], err));
        must(b1_sessions_step(s, f.tokens, 2, err));
        b1i_alloc_fail_at(-1);
        for (int j = 0; j < 2; j++) b1_session_close(s[j]);
    }
    b1_engine_close(engine);
    fixture_free(&f);
}

/* ---- logits that are no numbers ---- */

/* Copies a one-file model into the folder with element 0 of `tensor` (bf16) replaced by `bits`. */
static void patched_copy(const fixture_name *n, const char *tensor, uint16_t bits)
{
    char path[1100], key[100];
    char *text = NULL;
    size_t size = 0;
    unsigned long long offset = 0;
    uint64_t header = 0;
    snprintf(path, sizeof path, "%s/config.json", fixture_path(n));
    must(b1i_read_file(path, 1 << 20, &text, &size, err));
    write_file("config.json", text, size);
    b1i_free(text);
    snprintf(path, sizeof path, "%s/model.safetensors", fixture_path(n));
    must(b1i_read_file(path, 1 << 20, &text, &size, err));
    memcpy(&header, text, 8);
    snprintf(key, sizeof key, "\"%s\":{\"dtype\":\"BF16\"", tensor);
    const char *at = strstr(text + 8, key);
    if (!at || sscanf(strstr(at, "\"data_offsets\":["), "\"data_offsets\":[%llu", &offset) != 1)
        fail_msg("%s: no %s in it", path, tensor);
    memcpy(text + 8 + header + offset, &bits, 2);
    write_file("model.safetensors", text, size);
    b1i_free(text);
}

static void check_not_finite(const char *executor, const char *tensor, uint16_t bits, int32_t token)
{
    patched_copy(&own_head, tensor, bits);
    const b1_engine_options options = {.device = "cpu", .executor = executor, .threads = THREADS, .context = 64};
    const b1_sampler_options greedy = b1_sampler_defaults();
    b1_engine *engine = NULL;
    b1_session *s = NULL;
    b1_sampler *sampler = NULL;
    b1_error e = {0};
    int32_t next = -7;
    must(b1_engine_open(folder, &options, &engine, err));
    must(b1_session_create(engine, NULL, &s, err));
    must(b1_sampler_create(&greedy, 64, &sampler, err));
    must(b1_session_step(s, 9, err)); /* the session hands out what it computed; the sampler judges */
    b1_status before = b1_sampler_next(sampler, b1_session_logits(s), NULL, 0, &next, &e);
    if (token != 9) {
        assert_int_equal(before, B1_OK); /* a row of the embedding that is not looked up harms nobody */
        next = -7;
        must(b1_session_step(s, token, err));
    }
    assert_int_equal(b1_sampler_next(sampler, b1_session_logits(s), NULL, 0, &next, &e), B1_NUMERIC);
    assert_int_equal(e.status, B1_NUMERIC);
    assert_true(*e.message);
    assert_int_equal(next, -7);
    b1_sampler_free(sampler);
    b1_session_close(s);
    b1_engine_close(engine);
}

static void test_not_finite(void **state)
{
    (void)state;
    folder_make("not-finite");
    for (int i = 0; cpu_executor(i); i++) {
        check_not_finite(cpu_executor(i), "model.norm.weight", 0x7fc0, 9);         /* NaN everywhere */
        check_not_finite(cpu_executor(i), "lm_head.weight", 0x7f80, 9);            /* infinity in one logit */
        check_not_finite(cpu_executor(i), "model.embed_tokens.weight", 0x7fc0, 0); /* NaN in token 0's row */
        check_not_finite(cpu_executor(i), "model.layers.0.self_attn.k_proj.weight", 0x7fc0, 9);
        check_not_finite(cpu_executor(i), "model.layers.0.mlp.down_proj.weight", 0x7f80, 9);
    }
    folder_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_thread_counts),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_no_allocation_in_steps),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
