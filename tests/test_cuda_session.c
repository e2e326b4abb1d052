/* SPDX-License-Identifier: MIT
 *
 * Engines and sessions on a GPU through the public API: what they say, limits, masks, several sequences in one step,
 * graphs, memory that runs out at every allocation, and a GPU that fails. Skips where there is no GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/model_fixture.h"

#include "engine/engine.h"
#include "tests/cuda_rig.h"

#include <pthread.h>
#include <unistd.h>

enum { THREADS = 2 };

static const fixture_name llama = {"llama3-tied", "llama", ""}, quantised = {"gguf-llama3", "llama", "/model.gguf"},
                          own_head = {"llama-own-head", "llama", ""}, qwen = {"qwen3", "qwen3", ""};

static b1_engine *cuda_open(const fixture_name *n, const char *executor)
{
    const b1_engine_options o = {.device = "cuda", .executor = executor, .threads = THREADS, .context = 512};
    b1_engine *engine = NULL;
    must(b1_engine_open(fixture_path(n), &o, &engine, err));
    return engine;
}

static b1_session *session_of(b1_engine *engine, const char *executor, bool all_logits)
{
    b1_session *s = NULL;
    must(b1_session_create(engine, &(b1_session_options){.executor = executor, .all_logits = all_logits}, &s, err));
    return s;
}

/* Executor `index` of the GPU that it supports, NULL past the last. */
static const char *cuda_executor(int index)
{
    int major = 0;
    b1i_gpu_info info;
    if (b1i_gpu_describe(0, &info, NULL) == B1_OK) major = info.major;
    for (int i = 0; b1_executor_name(i); i++)
        if (strcmp(b1_executor_device(i), "cuda") == 0 && (major >= 9 || strcmp(b1_executor_name(i), "fused_pdl") != 0))
            if (index-- == 0) return b1_executor_name(i);
    return NULL;
}

/* bf16 inputs and KV: as near to transformers' as the CPU's executors are. */
static void right(const fixture *f, const b1_session *s)
{
    const float *l = b1_session_logits(s);
    assert_non_null(l);
    float off = distance(l, fixture_logits(f, b1_session_position(s) - 1), f->vocab);
    if (!(off <= 0.12f * f->most)) fail_msg("%s: logits lie %g off", b1_session_executor(s), (double)off);
}

/* ---- what they say ---- */

static void test_info(void **state)
{
    b1_model_info info;
    b1_session *s = NULL;
    int count = 0;
    double gbps = 0;
    (void)state;
    need_gpu();
    b1_engine *e = cuda_open(&llama, NULL);
    b1_engine_info(e, &info);
    assert_string_equal(info.device, "cuda:0");
    assert_true(*info.device_name && info.stored_bytes >= info.weight_bytes / 2);
    assert_true(info.device_bytes > info.stored_bytes);
    s = session_of(e, NULL, false);
    assert_string_equal(b1_session_executor(s), e->executor->name);
    assert_int_equal(b1_session_kv_bytes(s, 100), 2 * 2 * 2 * 32 * 100 * 2);
    must(b1_session_read_ceiling(s, 10000000, &gbps, err));
    assert_true(gbps > 0);
    b1_session_plan(s, &count);
    assert_int_equal(count, e->plan.group_count);
    if (b1_session_note(s)) print_message("note: %s\n", b1_session_note(s));
    b1_session_close(s);

    assert_refused(B1_UNSUPPORTED, "f16", b1_session_create(e, &(b1_session_options){.kv = "f16"}, &s, err));
    assert_refused(B1_UNSUPPORTED, "f32", b1_session_create(e, &(b1_session_options){.kv = "f32"}, &s, err));
    assert_refused(B1_ARGUMENT, "q8_0", b1_session_create(e, &(b1_session_options){.kv = "q8_0"}, &s, err));
    assert_refused(B1_UNSUPPORTED, "persistent",
                   b1_session_create(e, &(b1_session_options){.executor = "persistent"}, &s, err));
    assert_refused(B1_ARGUMENT, "none", b1_session_create(e, &(b1_session_options){.executor = "none"}, &s, err));
    assert_refused(B1_MEMORY, "2147483647", b1_session_create(e, &(b1_session_options){.context = INT32_MAX}, &s, err));
    s = session_of(e, "separate", false);
    assert_string_equal(b1_session_executor(s), "separate_graph");
    b1_session_close(s);
    b1_engine_close(e);
    assert_refused(
        B1_UNSUPPORTED, "reference",
        b1_engine_open(fixture_path(&llama), &(b1_engine_options){.device = "cuda", .executor = "reference"}, &e, err));
    assert_refused(
        B1_MEMORY, "does not fit on",
        b1_engine_open(fixture_path(&llama), &(b1_engine_options){.device = "cuda", .context = INT32_MAX}, &e, err));
}

/* ---- a life ---- */

static void check_life(const fixture_name *n, const char *executor)
{
    fixture f = fixture_read(n);
    b1_engine *e = cuda_open(n, executor);
    b1_session *s = session_of(e, executor, false);
    float first[1024];
    b1_error why = {0};
    int32_t token;
    assert_true(f.vocab <= 1024);
    assert_refused(B1_ARGUMENT, "no logits", b1_session_argmax(s, &token, err));
    must(b1_session_prompt(s, f.tokens, 50, err)); /* many, few, one */
    right(&f, s);
    must(b1_session_prompt(s, f.tokens, 50, err));
    right(&f, s);
    must(b1_session_feed(s, f.tokens + 50, 5, err));
    right(&f, s);
    for (int i = 55; i < 70; i++) {
        must(b1_session_step(s, f.tokens[i], err));
        right(&f, s);
    }
    must(b1_session_prompt(s, f.tokens, 33, err));
    right(&f, s);
    assert_refused(B1_ARGUMENT, "vocabulary", b1_session_step(s, f.vocab, err));
    right(&f, s);
    /* the bench's way: filler, a step, back, the same step, bit for bit */
    must(b1_session_fill(s, 500, err));
    assert_null(b1_session_logits(s));
    must(b1_session_step(s, 5, err));
    memcpy(first, b1_session_logits(s), (size_t)f.vocab * sizeof *first);
    for (int i = 0; i < 5; i++) {
        must(b1_session_rewind(s, 500, err));
        must(b1_session_step(s, 5, err));
        assert_memory_equal(first, b1_session_logits(s), (size_t)f.vocab * sizeof *first);
    }
    must(b1_session_fill(s, 512, err));
    assert_refused(B1_CONTEXT, "full", b1_session_step(s, 5, err));
    must(b1_session_fill(s, 0, err));
    b1_session_cancel(s);
    assert_int_equal(b1_session_feed(s, f.tokens, 20, &why), B1_CANCELLED);
    assert_int_equal(b1_session_step(s, 1, &why), B1_CANCELLED);
    assert_int_equal(b1_session_position(s), 0);
    b1_session_uncancel(s);
    must(b1_session_feed(s, f.tokens, 20, err));
    right(&f, s);
    b1_session_close(s);
    b1_engine_close(e);
    fixture_free(&f);
}

static void test_life(void **state)
{
    (void)state;
    need_gpu();
    for (int i = 0; cuda_executor(i); i++) {
        check_life(&llama, cuda_executor(i));
        check_life(i % 2 ? &qwen : &quantised, cuda_executor(i));
    }
}

/* ---- the chosen token ---- */

static void test_argmax(void **state)
{
    (void)state;
    need_gpu();
    fixture f = fixture_read(&quantised);
    b1_engine *e = cuda_open(&quantised, NULL);
    for (int i = 0; cuda_executor(i); i++) {
        b1_session *s = session_of(e, cuda_executor(i), i % 2);
        b1_sampler *sampler = NULL;
        int32_t token = -7, want, ids[64];
        b1_error why = {0};
        must(b1_sampler_create(NULL, f.vocab, &sampler, err));
        for (int at = 0, count = 0; at < 60;) {
            const int n = at == 20 ? 20 : at == 45 ? 5 : 1;
            must(b1_session_feed(s, f.tokens + at, n, err));
            at += n;
            must(b1_session_argmax(s, &token, err)); /* under the mask of before the step: the GPU's */
            must(b1_sampler_next(sampler, b1_session_logits(s), NULL, 0, &want, err));
            assert_int_equal(token, want);
            ids[count++] = token;
            must(b1_session_mask(s, ids, count, err));
            must(b1_sampler_mask(sampler, &token, 1, err));
            must(b1_session_argmax(s, &token, err)); /* under a newer one */
            must(b1_sampler_next(sampler, b1_session_logits(s), NULL, 0, &want, err));
            assert_int_equal(token, want);
        }
        for (int j = 0; j < f.vocab; j++) ids[j] = j;
        must(b1_session_mask(s, ids, f.vocab, err));
        must(b1_session_step(s, 1, err));
        assert_int_equal(b1_session_argmax(s, &token, &why), B1_ARGUMENT);
        must(b1_session_mask(s, NULL, 0, err));
        must(b1_session_argmax(s, &token, err));
        assert_refused(B1_ARGUMENT, "64", b1_session_mask(s, (const int32_t[]){64}, 1, err));
        b1_sampler_free(sampler);
        b1_session_close(s);
    }
    b1_engine_close(e);
    fixture_free(&f);
}

/* ---- all rows, several sequences, several threads ---- */

static void test_rows(void **state)
{
    (void)state;
    need_gpu();
    fixture f = fixture_read(&llama);
    b1_engine *e = cuda_open(&llama, NULL);
    for (int i = 0; cuda_executor(i); i++) {
        b1_session *s = session_of(e, cuda_executor(i), true);
        /* rows of one: each is that of its position */
        for (int n = 2; n <= 8; n += 3) {
            must(b1_session_rewind(s, 0, err));
            must(b1_session_feed(s, f.tokens, n, err));
            for (int row = 0; row < n; row++)
                assert_true(distance(b1_session_logits_at(s, row), fixture_logits(&f, n - 1 - row), f.vocab) <=
                            0.12f * f.most);
            assert_null(b1_session_logits_at(s, n));
        }
        b1_session_close(s);
    }
    b1_engine_close(e);
    fixture_free(&f);
}

/* The choice of each is its own largest logit, but for token `masked` (negative: none). */
static void right_choice(const fixture *f, b1_session *s, int32_t masked)
{
    int32_t token = -1;
    const float *l = b1_session_logits(s);
    must(b1_session_argmax(s, &token, err));
    assert_int_not_equal(token, masked);
    for (int v = 0; v < f->vocab; v++) assert_true(v == masked || l[token] > l[v] || (l[token] == l[v] && token <= v));
}

/* Steps of several sessions, each at its own place, with logits and choice of its own. */
static void check_together(const fixture *f, b1_session **s)
{
    int32_t tokens[8], likeliest;
    for (int j = 0; j < 8; j++) {
        must(b1_session_prompt(s[j], f->tokens, 10 + 7 * j, err));
        tokens[j] = f->tokens[10 + 7 * j];
    }
    must(b1_session_step(s[2], tokens[2], err));
    must(b1_session_argmax(s[2], &likeliest, err));
    must(b1_session_rewind(s[2], 10 + 7 * 2, err));
    must(b1_session_mask(s[2], &likeliest, 1, err)); /* of this one alone */
    for (int n = 1; n <= 8; n++) {
        must(b1_sessions_step(s, tokens, n, err));
        for (int j = 0; j < n; j++) {
            assert_int_equal(b1_session_position(s[j]), 11 + 7 * j);
            right(f, s[j]);
            right_choice(f, s[j], j == 2 ? likeliest : -1);
            assert_null(b1_session_logits_at(s[j], 1));
            must(b1_session_rewind(s[j], 10 + 7 * j, err));
        }
    }
    /* one that is cancelled ends it for all */
    b1_error why = {0};
    b1_session_cancel(s[3]);
    assert_int_equal(b1_sessions_step(s, tokens, 5, &why), B1_CANCELLED);
    for (int j = 0; j < 5; j++) {
        assert_int_equal(b1_session_position(s[j]), 10 + 7 * j);
        assert_null(b1_session_logits(s[j]));
    }
    b1_session_uncancel(s[3]);
    must(b1_sessions_step(s, tokens, 5, err));
    for (int j = 0; j < 5; j++) right(f, s[j]);
}

static void test_together(void **state)
{
    (void)state;
    need_gpu();
    fixture f = fixture_read(&llama);
    b1_engine *e = cuda_open(&llama, NULL);
    for (int i = 0; cuda_executor(i); i++) {
        b1_session *s[8], *other = session_of(e, cuda_executor(i ? 0 : 1), false);
        for (int j = 0; j < 8; j++) s[j] = session_of(e, cuda_executor(i), j == 1);
        check_together(&f, s);
        b1_session *unlike[] = {s[0], other};
        assert_refused(B1_ARGUMENT, cuda_executor(i), b1_sessions_step(unlike, f.tokens, 2, err));
        b1_session_close(other);
        for (int j = 0; j < 8; j++) b1_session_close(s[j]);
    }
    b1_engine_close(e);
    fixture_free(&f);
}

typedef struct user {
    b1_engine *engine;
    const fixture *f;
    const float *want;
    bool right;
} user;

static void *use_engine(void *arg)
{
    user *u = arg;
    u->right = true;
    for (int round = 0; round < 3 && u->right; round++) {
        b1_session *s = NULL;
        u->right = b1_session_create(u->engine, NULL, &s, NULL) == B1_OK;
        for (int i = 0; u->right && i < 30; i++) u->right = b1_session_step(s, u->f->tokens[i], NULL) == B1_OK;
        const float *l = u->right ? b1_session_logits(s) : NULL;
        u->right = l && memcmp(l, u->want, (size_t)u->f->vocab * sizeof(float)) == 0;
        b1_session_close(s);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    need_gpu();
    fixture f = fixture_read(&llama);
    b1_engine *e = cuda_open(&llama, NULL);
    b1_session *s = session_of(e, NULL, false);
    float want[64];
    pthread_t threads[3];
    user users[3];
    assert_int_equal(f.vocab, 64);
    for (int i = 0; i < 30; i++) must(b1_session_step(s, f.tokens[i], err));
    memcpy(want, b1_session_logits(s), sizeof want);
    for (int i = 0; i < 3; i++) {
        users[i] = (user){e, &f, want, false};
        assert_int_equal(pthread_create(&threads[i], NULL, use_engine, &users[i]), 0);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 3; i++) assert_true(users[i].right);
    assert_memory_equal(b1_session_logits(s), want, sizeof want); /* its own, whatever the others did */
    b1_session_close(s);
    b1_engine_close(e);
    fixture_free(&f);
}

/* ---- times, graphs ---- */

static void test_times(void **state)
{
    (void)state;
    need_gpu();
    fixture f = fixture_read(&llama);
    b1_engine *e = cuda_open(&llama, NULL);
    for (int i = 0; cuda_executor(i); i++) {
        b1_session *s = NULL;
        int count = 0, timed = 0;
        uint64_t sum = 0;
        b1_timings t;
        must(b1_session_create(e, &(b1_session_options){.executor = cuda_executor(i), .op_times = true}, &s, err));
        must(b1_session_feed(s, f.tokens, 20, err));
        must(b1_session_step(s, f.tokens[20], err));
        right(&f, s);
        const b1_plan_op *plan = b1_session_plan(s, &count);
        for (int j = 0; j < count; j++) {
            sum += plan[j].time_ns;
            timed += plan[j].time_ns > 0;
        }
        b1_session_timings(s, &t);
        assert_true(timed > count / 2 && sum > 0 && sum <= 2 * t.last_step_ns);
        b1_session_close(s);
    }
    b1_engine_close(e);
    fixture_free(&f);
}

static void test_graphs(void **state)
{
    (void)state;
    need_gpu();
    b1_engine *e = cuda_open(&llama, NULL);
    char path[64], text[16] = "";
    (void)snprintf(path, sizeof path, "/tmp/batchone-graph-%d.dot", (int)getpid());
    for (int i = 0; cuda_executor(i); i++) {
        b1_session *s = session_of(e, cuda_executor(i), false);
        b1i_executor *x = b1i_session_executor(s);
        const b1i_executor_class *class = b1i_executor_class_by_name("cuda", cuda_executor(i));
        if (!class->graph_dot) {
            assert_refused(B1_UNSUPPORTED, "graph", b1_session_graph_dot(s, path, err));
        } else {
            must(b1_session_graph_dot(s, path, err));
            FILE *in = fopen(path, "r");
            assert_true(in && fgets(text, sizeof text, in) && strstr(text, "digraph"));
            fclose(in);
            unlink(path);
            assert_refused(B1_IO, "/no/such", b1_session_graph_dot(s, "/no/such/folder/x.dot", err));
            for (int few = 0; few < 2; few++) {
                b1i_gpu_graph_info info;
                const b1i_cuda_program *p = NULL;
                must(class->graph_describe(x, few, &info, err));
                must(b1i_cuda_program_get(&e->cuda->machine, (b1i_cuda_form) class->form, few, &p, err));
                int full = 0;
                for (int j = 1; j < p->count; j++) full += p->launches[j].full_edge;
                assert_int_equal(info.nodes, p->count);
                assert_int_equal(info.kernel_nodes, p->count);
                assert_int_equal(info.edges, p->count - 1);
                assert_int_equal(info.programmatic_edges,
                                 strcmp(class->name, "fused_pdl") == 0 ? p->count - 1 - full : 0);
            }
        }
        b1_session_close(s);
    }
    b1_engine_close(e);
}

/* ---- logits that are no numbers: see test_engine.c; here the GPU finds them ---- */

static void test_not_finite(void **state)
{
    (void)state;
    need_gpu();
    fixture f = fixture_read(&own_head);
    b1_engine *e = cuda_open(&own_head, NULL);
    const float nan_row[2] = {NAN, NAN};
    int32_t token = -7;
    b1_error why = {0};
    for (int i = 0; cuda_executor(i); i++) {
        b1_session *s = session_of(e, cuda_executor(i), false);
        b1i_gpu_ptr norm = e->cuda->weights.vector[b1i_slot_final_norm];
        float kept[2];
        must(b1_session_step(s, 1, err));
        must(b1_session_argmax(s, &token, err));
        must(b1i_gpu_download(e->cuda->gpu, kept, norm, sizeof kept, err));
        must(b1i_gpu_upload(e->cuda->gpu, norm, nan_row, sizeof nan_row, err));
        token = -7;
        must(b1_session_step(s, 2, err));
        assert_int_equal(b1_session_argmax(s, &token, &why), B1_NUMERIC);
        assert_int_equal(token, -7);
        must(b1i_gpu_upload(e->cuda->gpu, norm, kept, sizeof kept, err));
        must(b1_session_step(s, 2, err));
        must(b1_session_argmax(s, &token, err));
        b1_session_close(s);
    }
    b1_engine_close(e);
    fixture_free(&f);
}

/* ---- memory that runs out ---- */

/* Everything that allocates. */
static b1_status whole_life(b1_error *e)
{
    static const int32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, masked[] = {3};
    const b1_engine_options options = {.device = "cuda", .threads = THREADS, .context = 64};
    static const b1_session_options kinds[] = {{.all_logits = true}, {.op_times = true}, {.executor = "separate"}};
    b1_engine *engine = NULL;
    b1_session *s = NULL;
    b1_status st = b1_engine_open(fixture_path(&quantised), &options, &engine, e);
    assert_true((st == B1_OK) == (engine != NULL));
    for (int i = 0; st == B1_OK && i < 3; i++) {
        int32_t token;
        st = b1_session_create(engine, &kinds[i], &s, e);
        assert_true((st == B1_OK) == (s != NULL));
        if (st == B1_OK) st = b1_session_mask(s, masked, 1, e);
        if (st == B1_OK) st = b1_session_feed(s, tokens, 12, e);
        if (st == B1_OK) st = b1_session_step(s, 11, e);
        if (st == B1_OK) st = b1_session_argmax(s, &token, e);
        b1_session_close(s);
        if (st != B1_MEMORY) continue; /* the engine is whole: what failed works now */
        b1i_alloc_fail_at(-1);
        b1i_gpu_alloc_fail_at(-1);
        must(b1_session_create(engine, &kinds[i], &s, err));
        must(b1_session_feed(s, tokens, 12, err));
        must(b1_session_step(s, 11, err));
        b1_session_close(s);
    }
    b1_engine_close(engine);
    return st;
}

static void fail_in_turn(const char *what, void (*fail_at)(long n), long stride)
{
    enum { PAST_THE_LAST = 3 }; /* so many lives in a row that no failure reached: there are no more allocations */
    const long live = b1i_alloc_live(), device_live = b1i_gpu_alloc_live();
    long failed = 0, untouched = 0;
    for (long i = 0; untouched < PAST_THE_LAST; i += stride) {
        b1_error e = {0};
        fail_at(i);
        b1_status st = whole_life(&e);
        fail_at(-1);
        untouched = st == B1_OK ? untouched + 1 : 0;
        failed += st != B1_OK;
        if (st != B1_OK && (st != B1_MEMORY || !*e.message))
            fail_msg("%s allocation %ld failed and gave %s: %s", what, i, b1_status_name(st), e.message);
        if (b1i_alloc_live() != live || b1i_gpu_alloc_live() != device_live)
            fail_msg("%s allocation %ld failed and left %ld and %ld alive", what, i, b1i_alloc_live() - live,
                     b1i_gpu_alloc_live() - device_live);
        assert_in_range(i, 0, 10000);
    }
    print_message("each of %ld %s allocations failed once\n", failed, what);
    assert_true(failed > 5);
}

static void test_allocation_failures(void **state)
{
    b1_error e = {0};
    (void)state;
    need_gpu();
    assert_int_equal(whole_life(&e), B1_OK); /* what a process keeps is there from now on */
    fail_in_turn("device", b1i_gpu_alloc_fail_at, 1);
    fail_in_turn("host", b1i_alloc_fail_at, quick_here() ? 13 : 1);
}

/* ---- a GPU that fails ---- */

/* Twenty tokens in a session of a new engine, and whether they were had: right ones, or B1_DEVICE and why not. */
static bool begins(const fixture *f, const char *device)
{
    const b1_engine_options o = {.device = device, .threads = THREADS, .context = 512};
    b1_engine *e = NULL;
    b1_session *s = NULL;
    b1_error why = {0};
    b1_status st = b1_engine_open(fixture_path(&llama), &o, &e, &why);
    assert_true((e != NULL) == (st == B1_OK));
    if (st == B1_OK) st = b1_session_create(e, NULL, &s, &why);
    if (st == B1_OK) st = b1_session_feed(s, f->tokens, 20, &why);
    if (st == B1_OK) right(f, s);
    b1_session_close(s);
    b1_engine_close(e);
    if (st == B1_OK) return true;
    print_message("a new engine: %s\n", why.message);
    assert_int_equal(st, B1_DEVICE);
    assert_true(strlen(why.message) > 20);
    return false;
}

/* All that needs the GPU says `want`. */
static void lost(b1_engine *e, b1_session *s, const fixture *f, const char *want)
{
    b1_error next = {0};
    b1_session *none = NULL;
    double gbps;
    const int position = b1_session_position(s);
#define SAME(call)                               \
    do {                                         \
        assert_int_equal((call), B1_DEVICE);     \
        assert_string_equal(next.message, want); \
    } while (0)
    SAME(b1_session_step(s, f->tokens[1], &next));
    assert_int_equal(b1_session_position(s), position);
    assert_null(b1_session_logits(s));
    SAME(b1_session_feed(s, f->tokens, 20, &next));
    SAME(b1_session_fill(s, 5, &next));
    SAME(b1_session_read_ceiling(s, 1000, &gbps, &next));
    SAME(b1_session_create(e, NULL, &none, &next));
    assert_null(none);
#undef SAME
}

/* What another engine gives: right logits, or B1_DEVICE and a sentence that has the first one's. */
static bool goes_on(b1_engine *e, b1_session *s, const fixture *f, const char *first)
{
    b1_error why = {0};
    b1_status st = B1_OK;
    for (int i = 0; st == B1_OK && i < 10; i++) st = b1_session_step(s, f->tokens[i], &why);
    if (st == B1_OK) {
        right(f, s);
        return true;
    }
    print_message("another engine: %s\n", why.message);
    assert_int_equal(st, B1_DEVICE);
    assert_non_null(strstr(why.message, first));
    lost(e, s, f, why.message);
    return false;
}

/* Last of all tests: docs/decisions/0004 says what such an error leaves of a process. */
static void test_poisoned(void **state)
{
    (void)state;
    need_gpu();
    if (quick_here()) skip(); /* the sanitizer would find what this does on purpose */
    fixture f = fixture_read(&llama);
    assert_true(begins(&f, "cuda") && begins(&f, "cpu")); /* what a process keeps is there from now on */
    const long live = b1i_alloc_live(), device_live = b1i_gpu_alloc_live();
    b1_engine *e = cuda_open(&llama, NULL), *other = cuda_open(&llama, NULL), *cpu = NULL;
    b1_session *s = session_of(e, NULL, false), *t = session_of(e, NULL, false), *u = session_of(other, NULL, false),
               *c;
    b1_error first = {0};
    must(b1_engine_open(fixture_path(&llama), &(b1_engine_options){.device = "cpu", .threads = THREADS}, &cpu, err));
    c = session_of(cpu, NULL, false);
    must(b1_session_step(t, f.tokens[0], err));
    b1i_gpu_ptr *cache = &((b1i_cuda_executor *)b1i_session_executor(s))->kv.data, kept = *cache;
    *cache = 0x100; /* no address of anybody's */
    assert_int_equal(b1_session_step(s, f.tokens[0], &first), B1_DEVICE);
    *cache = kept;
    print_message("poisoned: %s\n", first.message);
    assert_non_null(strstr(first.message, "start a new process"));
    assert_int_equal(b1_session_position(s), 0);
    lost(e, s, &f, first.message);
    lost(e, t, &f, first.message);
    goes_on(other, u, &f, first.message);
    begins(&f, "cuda");
    must(b1_session_feed(c, f.tokens, 20, err)); /* the CPU's goes on */
    right(&f, c);
    b1_session_close(c);
    b1_session_close(u);
    b1_session_close(t);
    b1_session_close(s);
    b1_engine_close(cpu);
    b1_engine_close(e);
    b1_engine_close(other);
    const bool anew = begins(&f, "cuda");
    print_message("a new engine on the GPU %s\n", anew ? "works" : "does not work");
    assert_true(begins(&f, "cpu"));
    assert_true(begins(&f, "auto") || anew); /* the CPU where there is no GPU any more */
    assert_int_equal(b1i_gpu_alloc_live(), device_live);
    assert_int_equal(b1i_alloc_live(), live);
    fixture_free(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),       cmocka_unit_test(test_life),
        cmocka_unit_test(test_argmax),     cmocka_unit_test(test_rows),
        cmocka_unit_test(test_together),   cmocka_unit_test(test_threads),
        cmocka_unit_test(test_times),      cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_poisoned),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, gpu_look, NULL);
}
