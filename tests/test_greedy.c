/* SPDX-License-Identifier: MIT
 *
 * The default model's first 64 greedy tokens on five prompts against transformers in fp32 (tests/fixtures/greedy.json,
 * made by tools/make_greedy_fixture.py).
 *
 * The reference in f32 must choose the same 320 tokens, with the same gaps between the two best logits. The fast
 * executors round the inputs of linear ops to int8: e = 2.5 / (127 √12) = 0.0057 of their rms (a rounding error is
 * uniform, and the largest of 32 values is 2.5 times their rms). The final state is a sum of what 60 sublayers add;
 * were each off by e of the whole, independently, logits would be off by s = e √60 = 0.044 of their spread (the
 * standard deviation over the vocabulary, a common shift apart). Checked here: s on average, 4 s at any token. The
 * difference of two logits is off by √2 s, so a difference of tokens is a near-tie where the reference's gap between
 * the two is within three times that, 0.19 of the spread. A fast executor then goes on from the reference's token.
 * About one token in fifty differs; more than 13 of the 320 is an error, not rounding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/model_fixture.h"

#include "tests/greedy_fixture.h"

enum { DIFFERENT_MAX = 13 };

typedef struct rig {
    b1_engine *engine;
    int vocab, stride;
    prompt prompts[PROMPTS];
    float *logits[PROMPTS]; /* the reference's, [TOKENS][vocab] */
} rig;

static int open_rig(void **state)
{
    static rig r;
    *state = NULL;
    if (slow_here()) {
        print_message("skipped: the whole model takes minutes under a sanitizer or an emulator\n");
        return 0;
    }
    if (access(model_path(), R_OK) != 0) {
        print_message("skipped: %s is missing (B1_TEST_MODEL names another)\n", model_path());
        return 0;
    }
    read_prompts(r.prompts, &r.stride);

    const b1_engine_options options = {.device = "cpu", .context = 256};
    b1_model_info info;
    must(b1_engine_open(model_path(), &options, &r.engine, err));
    b1_engine_info(r.engine, &info);
    r.vocab = info.vocab;
    for (int i = 0; i < PROMPTS; i++) {
        r.logits[i] = malloc((size_t)TOKENS * (size_t)r.vocab * sizeof(float));
        assert_non_null(r.logits[i]);
        assert_in_range(r.prompts[i].final_count, (r.vocab + r.stride - 1) / r.stride, STRIDE_MAX);
    }
    *state = &r;
    return 0;
}

static int close_rig(void **state)
{
    rig *r = *state;
    if (!r) return 0;
    b1_engine_close(r->engine);
    for (int i = 0; i < PROMPTS; i++) free(r->logits[i]);
    return 0;
}

/* The reference is fed prompt and tokens in one pass: each row's argmax is the next token, as in a generation. */
static void reference_prompt(rig *r, int which, b1_session *s)
{
    const prompt *p = &r->prompts[which];
    const int vocab = r->vocab, rows = p->prompt_count + TOKENS - 1;
    float most = 0, off = 0;
    must(b1_session_rewind(s, 0, err));
    must(b1_session_feed(s, p->ids, rows, err));
    for (int i = 0; i < TOKENS; i++) {
        const float *l = b1_session_logits_at(s, TOKENS - 1 - i);
        assert_non_null(l);
        memcpy(r->logits[which] + (size_t)i * (size_t)vocab, l, (size_t)vocab * sizeof *l);
        int best = argmax(l, vocab), second = best == 0 ? 1 : 0;
        for (int j = 0; j < vocab; j++)
            if (j != best && l[j] > l[second]) second = j;
        if (best != p->tokens[i])
            fail_msg("prompt %d: token %d is %d, transformers has %d", which, i, best, (int)p->tokens[i]);
        most = fmaxf(most, fabsf(l[best]));
        off = fmaxf(off, fabsf(l[best] - l[second] - p->gap[i]));
    }
    const float *last = b1_session_logits(s);
    for (int j = 0; j * r->stride < vocab; j++) off = fmaxf(off, fabsf(last[j * r->stride] - p->final[j]));
    print_message("prompt %d: reference off by %.1e of %.1f\n", which, (double)off, (double)most);
    assert_true(off <= 1e-4f * most);
}

static void test_reference(void **state)
{
    rig *r = *state;
    if (!r) skip();
    b1_session *s = NULL;
    const b1_session_options o = {.executor = "reference", .kv = "f32", .all_logits = true};
    must(b1_session_create(r->engine, &o, &s, err));
    for (int i = 0; i < PROMPTS; i++) reference_prompt(r, i, s);

    /* the same in steps */
    const prompt *p = &r->prompts[0];
    must(b1_session_prompt(s, p->ids, p->prompt_count, err));
    for (int i = 0; i < 4; i++) {
        const float *l = b1_session_logits(s);
        assert_int_equal(argmax(l, r->vocab), p->tokens[i]);
        assert_true(distance(l, r->logits[0] + (size_t)i * (size_t)r->vocab, r->vocab) < 1e-3f);
        must(b1_session_step(s, p->tokens[i], err));
    }
    b1_session_close(s);
}

/* A fast executor generates, step by step; where it leaves the reference it is put back on its way. */
static void check_fast(rig *r, const char *executor)
{
    const double noise = 2.5 / (127 * sqrt(12)) * sqrt(60), tie = 3 * sqrt(2) * noise;
    const b1_session_options o = {.executor = executor};
    b1_session *s = NULL;
    int different = 0;
    double worst = 0, mean = 0;
    must(b1_session_create(r->engine, &o, &s, err));
    for (int which = 0; which < PROMPTS; which++) {
        const prompt *p = &r->prompts[which];
        must(b1_session_prompt(s, p->ids, p->prompt_count, err));
        for (int i = 0; i < TOKENS; i++) {
            const float *want = r->logits[which] + (size_t)i * (size_t)r->vocab, *l = b1_session_logits(s);
            int got = argmax(l, r->vocab);
            double scale = spread(want, NULL, r->vocab), off = spread(l, want, r->vocab) / scale;
            mean += off / (PROMPTS * TOKENS);
            worst = off > worst ? off : worst;
            if (got != p->tokens[i]) {
                double gap = (double)(want[p->tokens[i]] - want[got]) / scale;
                different++;
                print_message("%s, prompt %d, token %d: %d in place of %d, gap %.4f of the spread\n", executor, which,
                              i, got, (int)p->tokens[i], gap);
                if (!(gap <= tie)) fail_msg("that is no near-tie: more than %.3f", tie);
            }
            if (i + 1 < TOKENS) must(b1_session_step(s, p->tokens[i], err));
        }
    }
    b1_session_close(s);
    print_message("%s: %d of %d tokens differ; logits off by %.4f of their spread, at most %.4f\n", executor, different,
                  PROMPTS * TOKENS, mean, worst);
    assert_true(mean <= noise && worst <= 4 * noise);
    assert_in_range(different, 0, DIFFERENT_MAX);
}

static void test_fast(void **state)
{
    rig *r = *state;
    if (!r) skip();
    check_fast(r, "separate");
    check_fast(r, "fused");
    check_fast(r, "persistent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference), cmocka_unit_test(test_fast)};
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
