/* SPDX-License-Identifier: MIT
 *
 * Sessions through the public API, on every executor: the context's limits, prefix reuse, rewind, filler, tokens that
 * do not exist, cancel, sessions side by side and in one step, and what a session says of itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/model_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 2 };

static const fixture_name llama = {"llama3-tied", "llama", ""}, quantised = {"gguf-llama3", "llama", "/model.gguf"},
                          window = {"mistral-window", "mistral", ""};

typedef struct rig {
    fixture f;
    b1_engine *engine;
    const char *executor;
} rig;

static rig rig_open(const fixture_name *n, const char *executor)
{
    return (rig){fixture_read(n), fixture_open(n, executor, THREADS), executor};
}

static void rig_close(rig *r)
{
    b1_engine_close(r->engine);
    fixture_free(&r->f);
}

static b1_session *create(const rig *r, int context)
{
    const b1_session_options o = {.executor = r->executor, .context = context};
    b1_session *s = NULL;
    must(b1_session_create(r->engine, &o, &s, err));
    assert_int_equal(b1_session_context(s), context ? context : 512);
    assert_int_equal(b1_session_position(s), 0);
    assert_null(b1_session_logits(s));
    return s;
}

/* Copies the logits that the session has now; the caller frees them. */
static float *logits_now(const rig *r, const b1_session *s)
{
    const float *l = b1_session_logits(s);
    float *copy = malloc((size_t)r->f.vocab * sizeof *copy);
    assert_true(l && copy);
    return memcpy(copy, l, (size_t)r->f.vocab * sizeof *copy);
}

static void same_bits(const rig *r, const b1_session *s, const float *want)
{
    assert_non_null(b1_session_logits(s));
    assert_memory_equal(b1_session_logits(s), want, (size_t)r->f.vocab * sizeof *want);
}

/* Logits are transformers' at the last position, as near as int8 activations and bf16 KV allow. */
static void right_logits(const rig *r, const b1_session *s)
{
    const float *want = fixture_logits(&r->f, b1_session_position(s) - 1);
    assert_non_null(b1_session_logits(s));
    assert_true(distance(b1_session_logits(s), want, r->f.vocab) <=
                (strcmp(r->executor, "reference") == 0 ? 1e-4f : 0.12f) * r->f.most);
}

/* ---- the context's end ---- */

static void check_limits(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor);
    /* around a KV block, and where a chunk of positions ends */
    const int sizes[] = {1, 2, 15, 16, 17, 64, 65};
    b1_session *wide = create(&r, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int max = sizes[i];
        b1_session *s = create(&r, max);
        /* max + 1: refused, and the session is as it was */
        assert_refused(B1_CONTEXT, "context", b1_session_prompt(s, r.f.tokens, max + 1, err));
        assert_int_equal(b1_session_position(s), 0);
        if (max > 1) {
            must(b1_session_prompt(s, r.f.tokens, max - 1, err));
            right_logits(&r, s);
            assert_refused(B1_CONTEXT, "context", b1_session_feed(s, r.f.tokens + max - 1, 2, err));
            assert_int_equal(b1_session_position(s), max - 1);
            right_logits(&r, s);
        }
        must(b1_session_step(s, r.f.tokens[max - 1], err));
        right_logits(&r, s);
        float *full = logits_now(&r, s);
        must(b1_session_rewind(wide, 0, err));
        if (max > 1) must(b1_session_feed(wide, r.f.tokens, max - 1, err));
        must(b1_session_step(wide, r.f.tokens[max - 1], err));
        same_bits(&r, wide, full);
        /* full: nothing wraps around */
        assert_refused(B1_CONTEXT, "context", b1_session_step(s, 0, err));
        assert_refused(B1_CONTEXT, "context", b1_session_feed(s, r.f.tokens, 1, err));
        assert_int_equal(b1_session_position(s), max);
        same_bits(&r, s, full);
        must(b1_session_rewind(s, max - 1, err));
        must(b1_session_step(s, r.f.tokens[max - 1], err));
        same_bits(&r, s, full);
        must(b1_session_prompt(s, r.f.tokens, max, err));
        right_logits(&r, s);
        free(full);
        b1_session_close(s);
    }
    b1_session_close(wide);
    rig_close(&r);
}

/* ---- prefix reuse ---- */

static int evaluated(const b1_session *s)
{
    b1_timings t;
    b1_session_timings(s, &t);
    return t.feed_tokens;
}

static void check_prefix(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor);
    b1_session *s = create(&r, 0);
    must(b1_session_prompt(s, r.f.tokens, 50, err));
    assert_int_equal(evaluated(s), 50);
    right_logits(&r, s);
    must(b1_session_prompt(s, r.f.tokens, 50, err)); /* equal: the last token again */
    assert_int_equal(evaluated(s), 1);
    assert_int_equal(b1_session_position(s), 50);
    right_logits(&r, s);
    must(b1_session_prompt(s, r.f.tokens, 33, err)); /* shorter */
    assert_int_equal(evaluated(s), 1);
    assert_int_equal(b1_session_position(s), 33);
    right_logits(&r, s);
    must(b1_session_prompt(s, r.f.tokens, 1, err));
    assert_int_equal(b1_session_position(s), 1);
    right_logits(&r, s);
    must(b1_session_prompt(s, r.f.tokens, 70, err)); /* longer than what is left of it */
    assert_int_equal(evaluated(s), 69);
    right_logits(&r, s);
    for (int i = 70; i < 75; i++) must(b1_session_step(s, r.f.tokens[i], err));
    must(b1_session_prompt(s, r.f.tokens, 90, err)); /* steps count as prefix too */
    assert_int_equal(evaluated(s), 15);
    right_logits(&r, s);
    b1_session_close(s);
    rig_close(&r);
}

/* ---- rewind, filler ---- */

static void check_rewind(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor);
    b1_session *s = create(&r, 0);
    assert_refused(B1_ARGUMENT, "-1", b1_session_rewind(s, -1, err));
    assert_refused(B1_ARGUMENT, "1", b1_session_rewind(s, 1, err));
    must(b1_session_rewind(s, 0, err));
    must(b1_session_feed(s, r.f.tokens, 40, err));
    assert_refused(B1_ARGUMENT, "41", b1_session_rewind(s, 41, err));
    float *before = logits_now(&r, s);
    must(b1_session_rewind(s, 40, err)); /* nothing is forgotten */
    same_bits(&r, s, before);
    must(b1_session_rewind(s, 20, err));
    assert_null(b1_session_logits(s));
    assert_int_equal(b1_session_position(s), 20);
    must(b1_session_feed(s, r.f.tokens + 20, 30, err));
    right_logits(&r, s);
    must(b1_session_rewind(s, 0, err));
    must(b1_session_feed(s, r.f.tokens, 40, err));
    same_bits(&r, s, before);
    free(before);
    b1_session_close(s);
    rig_close(&r);
}

static void check_fill(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor);
    b1_session *s = create(&r, 300), *t = create(&r, 300);
    assert_refused(B1_CONTEXT, "301", b1_session_fill(s, 301, err));
    b1_error e = {0};
    assert_int_not_equal(b1_session_fill(s, -1, &e), B1_OK);
    assert_int_equal(b1_session_position(s), 0);
    must(b1_session_fill(s, 290, err));
    assert_int_equal(b1_session_position(s), 290);
    assert_null(b1_session_logits(s));
    must(b1_session_step(s, 5, err));
    float *first = logits_now(&r, s);
    for (int i = 0; i < r.f.vocab; i++) assert_true(isfinite(first[i]));
    for (int i = 0; i < 3; i++) { /* as a bench does */
        must(b1_session_rewind(s, 290, err));
        must(b1_session_step(s, 5, err));
        same_bits(&r, s, first);
    }
    must(b1_session_feed(t, r.f.tokens, 50, err)); /* deterministic, whatever was there before */
    must(b1_session_fill(t, 290, err));
    must(b1_session_step(t, 5, err));
    same_bits(&r, t, first);
    /* filler is no prefix */
    must(b1_session_prompt(t, r.f.tokens, 60, err));
    assert_int_equal(evaluated(t), 60);
    right_logits(&r, t);
    must(b1_session_fill(t, 300, err));
    assert_refused(B1_CONTEXT, "context", b1_session_step(t, 5, err));
    must(b1_session_fill(t, 0, err));
    must(b1_session_feed(t, r.f.tokens, 60, err));
    right_logits(&r, t);
    free(first);
    b1_session_close(s);
    b1_session_close(t);
    rig_close(&r);
}

/* ---- tokens that do not exist ---- */

static void check_tokens(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor);
    const int32_t bad[] = {r.f.vocab, -1, INT32_MAX, INT32_MIN};
    b1_session *s = create(&r, 0);
    must(b1_session_feed(s, r.f.tokens, 10, err));
    float *before = logits_now(&r, s);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char word[16];
        int32_t list[5];
        snprintf(word, sizeof word, "%d", (int)bad[i]);
        memcpy(list, r.f.tokens, sizeof list);
        list[3] = bad[i];
        assert_refused(B1_ARGUMENT, word, b1_session_step(s, bad[i], err));
        assert_refused(B1_ARGUMENT, word, b1_session_feed(s, list, 5, err));
        assert_refused(B1_ARGUMENT, word, b1_session_prompt(s, list, 5, err));
        assert_int_equal(b1_session_step(s, bad[i], NULL), B1_ARGUMENT);
        assert_int_equal(b1_session_position(s), 10);
        same_bits(&r, s, before);
    }
    b1_error e = {0};
    assert_int_equal(b1_session_feed(s, r.f.tokens, 0, &e), B1_ARGUMENT);
    assert_int_equal(b1_session_feed(s, r.f.tokens, -1, &e), B1_ARGUMENT);
    assert_int_equal(b1_session_prompt(s, r.f.tokens, 0, &e), B1_ARGUMENT);
    assert_int_equal(b1_session_position(s), 10);
    must(b1_session_step(s, r.f.tokens[10], err)); /* the last id of the vocabulary is one */
    right_logits(&r, s);
    must(b1_session_step(s, r.f.vocab - 1, err));
    free(before);
    b1_session_close(s);
    rig_close(&r);
}

/* ---- cancel ---- */

static void *cancel_soon(void *session)
{
    const struct timespec wait = {0, 3000000};
    nanosleep(&wait, NULL);
    b1_session_cancel(session);
    return NULL;
}

static void check_cancel(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor);
    pthread_t thread;
    b1_error e = {0};
    b1_status st = B1_OK;
    b1_session *s = create(&r, 0);
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, s), 0);
    while (st == B1_OK) {
        must(b1_session_rewind(s, 0, err));
        st = b1_session_feed(s, r.f.tokens, r.f.count, &e);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(st, B1_CANCELLED);
    assert_int_equal(e.status, B1_CANCELLED);
    /* whole passes only, and none until it is lifted */
    int at = b1_session_position(s);
    assert_in_range(at, 0, r.f.count - 1);
    assert_int_equal(b1_session_step(s, r.f.tokens[at], &e), B1_CANCELLED);
    assert_int_equal(b1_session_feed(s, r.f.tokens + at, 1, &e), B1_CANCELLED);
    assert_int_equal(b1_session_position(s), at);
    b1_session_uncancel(s);
    must(b1_session_feed(s, r.f.tokens + at, r.f.count - at, err));
    right_logits(&r, s);
    b1_session_close(s);
    rig_close(&r);
}

/* ---- sessions side by side ---- */

static void check_pair(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor);
    b1_session *s = create(&r, 0), *t = create(&r, 100);
    float *last[40];
    for (int i = 0; i < 40; i++) {
        must(b1_session_step(s, r.f.tokens[i], err));
        last[i] = logits_now(&r, s);
    }
    /* again in s; t runs between with the same tokens, ten behind */
    must(b1_session_rewind(s, 0, err));
    for (int i = 0; i < 50; i++) {
        if (i < 40) {
            must(b1_session_step(s, r.f.tokens[i], err));
            same_bits(&r, s, last[i]);
        }
        if (i >= 10) {
            must(b1_session_step(t, r.f.tokens[i - 10], err));
            same_bits(&r, t, last[i - 10]);
        }
    }
    b1_session_close(t);
    same_bits(&r, s, last[39]);
    b1_session_close(s);
    for (int i = 0; i < 40; i++) free(last[i]);
    rig_close(&r);
}

/* ---- several sessions in one step ---- */

enum { TOGETHER = 8 };
/* Around KV blocks and parts of the context. */
static const int heads[TOGETHER] = {3, 16, 31, 64, 65, 1, 50, 15};

static b1_session *at_head(const rig *r, int i)
{
    b1_session *s = create(r, i == 1 ? heads[i] + 2 : 0); /* one is full after two steps */
    must(b1_session_prompt(s, r->f.tokens + i, heads[i], err));
    return s;
}

/* To the bit where a row's sums do not depend on how many rows there are; kernels of dense weights take several rows'
 * sums in another order. */
static void as_alone(const rig *r, const b1_session *s, const float *want, bool bits)
{
    assert_non_null(b1_session_logits(s));
    if (bits)
        same_bits(r, s, want);
    else
        assert_true(distance(b1_session_logits(s), want, r->f.vocab) <= 0.01f * r->f.most);
}

/* Every one gets what it gets alone, and what it appended serves the step after. */
static void check_together(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor);
    b1_session *s[TOGETHER];
    int32_t tokens[2][TOGETHER];
    float *want[2][TOGETHER];
    const bool bits = strcmp(executor, "reference") == 0 || n == &quantised;
    for (int i = 0; i < TOGETHER; i++) {
        s[i] = at_head(&r, i);
        for (int round = 0; round < 2; round++) {
            tokens[round][i] = r.f.tokens[i + heads[i] + round];
            must(b1_session_step(s[i], tokens[round][i], err));
            want[round][i] = logits_now(&r, s[i]);
        }
    }
    static const int counts[] = {8, 5, 2, 1};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const int count = counts[c];
        for (int i = 0; i < count; i++) must(b1_session_rewind(s[i], heads[i], err));
        for (int round = 0; round < 2; round++) {
            must(b1_sessions_step(s, tokens[round], count, err));
            for (int i = 0; i < count; i++) {
                as_alone(&r, s[i], want[round][i], bits || count == 1);
                assert_null(b1_session_logits_at(s[i], 1));
                assert_int_equal(b1_session_position(s[i]), heads[i] + round + 1);
            }
        }
        assert_refused(B1_CONTEXT, "context", b1_sessions_step(s, tokens[0], count > 1 ? count : 2, err));
    }
    for (int i = 0; i < TOGETHER; i++) {
        as_alone(&r, s[i], want[1][i], bits); /* the last refusal moved none of them */
        free(want[0][i]);
        free(want[1][i]);
        b1_session_close(s[i]);
    }
    rig_close(&r);
}

static void check_together_refused(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor), second = rig_open(n, executor);
    const b1_session_options unlike = {.executor = strcmp(executor, "fused") ? "fused" : "separate"};
    const b1_session_options f16 = {.executor = executor, .kv = "f16"};
    const int32_t tokens[9] = {1, 2, 3}, outside[] = {1, -1, 3};
    b1_error e = {0};
    b1_session *s[3] = {create(&r, 0), create(&r, 0), NULL}, *other = NULL, *engine = create(&second, 0);
    must(b1_session_create(r.engine, &unlike, &other, err));
    must(b1_session_create(r.engine, &f16, &s[2], err)); /* a cache of another type is none of the others' business */
    must(b1_sessions_step(s, tokens, 3, err));
    float *kept = logits_now(&r, s[0]);
    assert_refused(B1_ARGUMENT, "0", b1_sessions_step(s, tokens, 0, err));
    assert_refused(B1_ARGUMENT, "9", b1_sessions_step(s, tokens, 9, err));
    assert_refused(B1_ARGUMENT, "same", b1_sessions_step((b1_session *[]){s[0], s[1], s[0]}, tokens, 3, err));
    assert_refused(B1_ARGUMENT, "engines", b1_sessions_step((b1_session *[]){s[0], engine}, tokens, 2, err));
    assert_refused(B1_ARGUMENT, unlike.executor, b1_sessions_step((b1_session *[]){s[0], other}, tokens, 2, err));
    assert_refused(B1_ARGUMENT, "vocabulary", b1_sessions_step(s, outside, 3, err));
    same_bits(&r, s[0], kept);
    if (strcmp(executor, "reference") == 0) {
        const b1_session_options rounded = {.executor = executor, .activations = "bf16"};
        b1_session *t = NULL;
        must(b1_session_create(r.engine, &rounded, &t, err));
        assert_refused(B1_ARGUMENT, "activations", b1_sessions_step((b1_session *[]){s[0], t}, tokens, 2, err));
        b1_session_close(t);
        assert_int_equal(b1_session_position(s[0]), 1);
        must(b1_session_rewind(s[0], 0, err));
        must(b1_session_step(s[0], tokens[0], err));
    }
    /* one that is cancelled ends it for all, and none has moved */
    b1_session_cancel(s[1]);
    assert_int_equal(b1_sessions_step(s, tokens, 2, &e), B1_CANCELLED);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(b1_session_position(s[i]), 1);
        assert_null(b1_session_logits(s[i]));
    }
    b1_session_uncancel(s[1]);
    for (int i = 0; i < 2; i++) must(b1_session_rewind(s[i], 0, err));
    must(b1_sessions_step(s, tokens, 2, err));
    same_bits(&r, s[0], kept);
    free(kept);
    for (int i = 0; i < 3; i++) b1_session_close(s[i]);
    b1_session_close(other);
    b1_session_close(engine);
    rig_close(&second);
    rig_close(&r);
}

typedef struct user {
    const rig *r;
    const float *want;
    bool right;
} user;

static void *use_engine(void *arg)
{
    user *u = arg;
    const b1_session_options o = {.executor = u->r->executor};
    u->right = true;
    for (int round = 0; round < 3 && u->right; round++) {
        b1_session *s = NULL;
        u->right = b1_session_create(u->r->engine, &o, &s, NULL) == B1_OK;
        for (int i = 0; u->right && i < 30; i++) u->right = b1_session_step(s, u->r->f.tokens[i], NULL) == B1_OK;
        u->right = u->right && memcmp(b1_session_logits(s), u->want, (size_t)u->r->f.vocab * sizeof(float)) == 0;
        b1_session_close(s);
    }
    return NULL;
}

/* Threads that share an engine, opened for the reference, so that they also race for the packing. */
static void check_threads(const fixture_name *n, const char *executor)
{
    rig r = rig_open(n, executor), shared = rig_open(n, "reference");
    b1_session *s = create(&r, 0);
    for (int i = 0; i < 30; i++) must(b1_session_step(s, r.f.tokens[i], err));
    float *want = logits_now(&r, s);
    b1_session_close(s);
    shared.executor = executor;
    pthread_t threads[3];
    user users[3];
    for (int i = 0; i < 3; i++) {
        users[i] = (user){&shared, want, false};
        assert_int_equal(pthread_create(&threads[i], NULL, use_engine, &users[i]), 0);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 3; i++) assert_true(users[i].right);
    free(want);
    rig_close(&shared);
    rig_close(&r);
}

typedef void (*check_fn)(const fixture_name *n, const char *executor);

static void on_all(check_fn check, const fixture_name *n)
{
    for (int i = 0; cpu_executor(i); i++) check(n, cpu_executor(i));
}

static void test_limits(void **state) { (void)state, on_all(check_limits, &llama); }
static void test_prefix(void **state) { (void)state, on_all(check_prefix, &quantised); }
static void test_rewind(void **state) { (void)state, on_all(check_rewind, &llama); }
static void test_fill(void **state) { (void)state, on_all(check_fill, &quantised); }
static void test_tokens(void **state) { (void)state, on_all(check_tokens, &llama); }
static void test_cancel(void **state) { (void)state, on_all(check_cancel, &window); }
static void test_pair(void **state) { (void)state, on_all(check_pair, &quantised); }
static void test_threads(void **state) { (void)state, on_all(check_threads, &quantised); }

static void test_together(void **state)
{
    (void)state;
    on_all(check_together, &llama);
    on_all(check_together, &window);
    on_all(check_together, &quantised);
    on_all(check_together_refused, &quantised);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits), cmocka_unit_test(test_prefix),  cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_fill),   cmocka_unit_test(test_tokens),  cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_pair),   cmocka_unit_test(test_threads), cmocka_unit_test(test_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
