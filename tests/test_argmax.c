/* SPDX-License-Identifier: MIT
 *
 * The greedy choice without a sampler is the sampler's: on logits of every kind, masked and not, and through sessions
 * of every CPU executor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/exec.h"
#include "tests/model_fixture.h"

enum { VOCAB = 301 };

static const fixture_name llama = {"llama3-tied", "llama", ""};

/* Both say the same of x [VOCAB] with `ids` masked: the status and its sentence, or the token. */
static void same(const float *x, const int32_t *ids, int count)
{
    b1_sampler *sampler = NULL;
    b1i_mask mask = {.vocab = VOCAB};
    b1_error a = {0}, b = {0};
    int32_t want = -7, got = -7;
    must(b1_sampler_create(NULL, VOCAB, &sampler, err));
    must(b1_sampler_mask(sampler, ids, count, err));
    must(b1i_mask_set(&mask, ids, count, err));
    b1_status wanted = b1_sampler_next(sampler, x, NULL, 0, &want, &a);
    assert_int_equal(b1i_argmax(x, &mask, &got, &b), wanted);
    assert_int_equal(got, want);
    assert_string_equal(b.message, a.message);
    b1i_mask_free(&mask);
    b1_sampler_free(sampler);
}

static uint64_t seed = 1;
static uint32_t random_below(uint32_t n) { return (uint32_t)(b1i_mix64(seed++) >> 33) % n; }

static void test_logits(void **state)
{
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    float x[VOCAB];
    int32_t ids[VOCAB];
    (void)state;
    for (int round = 0; round < 400; round++) {
        /* many equal ones, all equal, −0 beside 0, the extremes of f32 */
        uint32_t range = round % 5 == 0 ? 1 : round % 5 == 1 ? 3 : 100000;
        for (int i = 0; i < VOCAB; i++) {
            x[i] = (float)((int)random_below(range) - (int)(range / 2));
            if (x[i] == 0 && random_below(2)) x[i] = -0.0f;
            if (round % 7 == 3) x[i] = i % 2 ? -3.4028235e38f : x[i] * 1e30f;
        }
        int count = round % 3 == 0 ? 0 : (int)random_below(VOCAB);
        for (int i = 0; i < count; i++) ids[i] = (int32_t)random_below(VOCAB);
        if (round % 11 == 5) x[random_below(VOCAB)] = odd[round % 4];
        same(x, ids, count);
    }
    for (int i = 0; i < VOCAB; i++) ids[i] = i; /* all masked, all but one, all and one of them no number */
    same(x, ids, VOCAB);
    same(x, ids, VOCAB - 1);
    same(x, ids + 1, VOCAB - 1);
    x[9] = NAN;
    same(x, ids, VOCAB);
}

static void test_mask(void **state)
{
    b1i_mask m = {.vocab = VOCAB};
    b1_error e = {0};
    float x[VOCAB] = {0};
    int32_t token;
    (void)state;
    x[5] = 2, x[6] = 1;
    must(b1i_mask_set(&m, (const int32_t[]){5, 5, 300}, 3, err));
    assert_int_equal(m.count, 2);
    must(b1i_argmax(x, &m, &token, err));
    assert_int_equal(token, 6);
    const int32_t wrong[] = {VOCAB, -1, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) { /* refused whole */
        assert_int_equal(b1i_mask_set(&m, (const int32_t[]){6, wrong[i]}, 2, &e), B1_ARGUMENT);
        must(b1i_argmax(x, &m, &token, err));
        assert_int_equal(token, 6);
    }
    must(b1i_mask_set(&m, (const int32_t[]){6}, 1, err)); /* replaces */
    must(b1i_argmax(x, &m, &token, err));
    assert_int_equal(token, 5);
    must(b1i_mask_set(&m, NULL, 0, err));
    assert_int_equal(m.count, 0);
    b1i_mask_free(&m);
    b1i_mask_free(&m);
    b1i_alloc_fail_at(0);
    assert_int_equal(b1i_mask_set(&m, (const int32_t[]){6}, 1, &e), B1_MEMORY);
    b1i_alloc_fail_at(-1);
    assert_int_equal(m.count, 0);
}

/* Through a session, what a sampler with the same mask says of its logits. */
static void check_session(b1_engine *engine, const fixture *f, const char *executor, bool all_logits)
{
    b1_session *s = NULL;
    b1_error e = {0};
    int32_t token = -7, want, ids[40];
    b1_sampler *sampler = NULL;
    must(b1_session_create(engine, &(b1_session_options){.executor = executor, .all_logits = all_logits}, &s, err));
    assert_int_equal(b1_session_argmax(s, &token, &e), B1_ARGUMENT);
    assert_non_null(strstr(e.message, "no logits"));
    must(b1_sampler_create(NULL, f->vocab, &sampler, err));
    for (int at = 0; at < 40; at++) {
        if (at % 4 == 3)
            must(b1_session_step(s, f->tokens[at], err));
        else
            must(b1_session_prompt(s, f->tokens, at + 1, err));
        for (int i = 0; i < 2; i++) { /* before the best is masked, and after */
            must(b1_session_argmax(s, &token, err));
            must(b1_sampler_next(sampler, b1_session_logits(s), NULL, 0, &want, err));
            assert_int_equal(token, want);
            if (i == 1) break;
            ids[at] = token;
            must(b1_session_mask(s, ids, at + 1, err));
            must(b1_sampler_mask(sampler, &token, 1, err));
        }
    }
    must(b1_session_rewind(s, 3, err));
    assert_int_equal(b1_session_argmax(s, &token, &e), B1_ARGUMENT);
    assert_int_equal(b1_session_mask(s, (const int32_t[]){f->vocab}, 1, &e), B1_ARGUMENT);
    b1_sampler_free(sampler);
    b1_session_close(s);
}

static void test_sessions(void **state)
{
    fixture f = fixture_read(&llama);
    b1_engine *engine = fixture_open(&llama, NULL, 2);
    (void)state;
    for (int i = 0; cpu_executor(i); i++)
        for (int all = 0; all < 2; all++) check_session(engine, &f, cpu_executor(i), all);
    b1_engine_close(engine);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
