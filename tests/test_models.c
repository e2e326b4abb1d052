/* SPDX-License-Identifier: MIT
 *
 * Whole models against transformers. Every fixture runs past its RoPE's original context, and each position counts.
 *
 * Tolerances, as max|Δ| over max|logit|:
 *   reference, f32 KV               1e-4 of transformers' fp32
 *   the same in passes of any size  1e-6 of itself: sums do not depend on what else is in the pass
 *   fast against transformers: the inputs of linear ops, keys and values are rounded, 6 times in a layer one after the
 *     other and once for the head. Each is off by a rounding error, uniform in ± u/2 of the largest value in its block
 *     (u is 1/127 for int8, 2^-8 for bf16): an rms of u/√12 times 2.5 (the largest of 32 over their rms), and the
 *     same share of every output's rms. Such errors are independent and add as squares; the largest of some thousand
 *     logits is off by 4 rms and is itself 4 rms large. Attention makes of an error e in a score s a factor exp(s e);
 *     scores of these models reach 6 to 8:   1e-4 + 6 · 2.5 u / √12 · √(6 layers + 1)
 *   fast against the reference of its precision (same KV type, inputs of linear ops rounded alike): half of that. Both
 *     round the same values, so they part only where an f32 sum lies so near a rounding edge that another order of
 *     summation crosses it; but past the first crossing later roundings part too. tests/test_exec.c compares op by op,
 *     without that.
 * An executor whose activations and KV are f32 has u = 0 and must be as near as the reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/kernels.h"
#include "tests/model_fixture.h"

enum { PASS = 128, THREADS = 2, STEPS = 24, SHORT = 72 /* positions where the machine is slow */ };

static const char *const fast[] = {"separate", "fused", "persistent"};

static b1_session *session_of(b1_engine *engine, const char *executor, const char *kv, const char *activations)
{
    const b1_session_options o = {
        .executor = executor, .context = 512, .kv = kv, .activations = activations, .all_logits = true};
    b1_session *s = NULL;
    must(b1_session_create(engine, &o, &s, err));
    assert_string_equal(b1_session_executor(s), executor);
    return s;
}

/* Feeds positions [from, to) in passes of `pass`; rows of logits to out [position][vocab]. A pass of 1 is a step. */
static void evaluate(b1_session *s, const fixture *f, int from, int to, int pass, float *out)
{
    assert_int_equal(b1_session_position(s), from);
    for (int at = from; at < to; at += pass) {
        int n = to - at < pass ? to - at : pass;
        if (pass == 1)
            must(b1_session_step(s, f->tokens[at], err));
        else
            must(b1_session_feed(s, f->tokens + at, n, err));
        for (int row = 0; row < n; row++) {
            const float *l = b1_session_logits_at(s, n - 1 - row);
            assert_non_null(l);
            memcpy(out + (size_t)(at + row) * (size_t)f->vocab, l, (size_t)f->vocab * sizeof *l);
        }
    }
    assert_int_equal(b1_session_position(s), to);
}

/* Positions [from, to) of a and b, each [position][vocab]. */
static float check_near(const fixture *f, const float *a, const float *b, int from, int to, float tolerance,
                        const char *what)
{
    float worst = 0;
    for (int p = from; p < to; p++) {
        float off = distance(a + (size_t)p * (size_t)f->vocab, b + (size_t)p * (size_t)f->vocab, f->vocab) / f->most;
        if (!(off <= tolerance))
            fail_msg("%s: position %d lies %g off, tolerance %g", what, p, (double)off, (double)tolerance);
        worst = fmaxf(worst, off);
    }
    return worst;
}

static float *rows_of(const fixture *f)
{
    float *out = calloc((size_t)f->count * (size_t)f->vocab, sizeof *out);
    assert_non_null(out);
    return out;
}

/* ---- the reference ---- */

static void check_info(b1_engine *engine, const fixture_name *n, const fixture *f)
{
    b1_model_info info;
    b1_engine_info(engine, &info);
    assert_string_equal(info.architecture, n->architecture);
    assert_int_equal(info.vocab, f->vocab);
    assert_null(b1_engine_tokenizer(engine));
}

static void test_reference(void **state)
{
    const fixture_name *n = *state;
    fixture f = fixture_read(n);
    assert_int_equal(f.first, 0);
    b1_engine *engine = fixture_open(n, "reference", THREADS);
    check_info(engine, n, &f);
    float *whole = rows_of(&f), *other = rows_of(&f);

    b1_session *s = session_of(engine, "reference", "f32", NULL);
    evaluate(s, &f, 0, f.count, PASS, whole);
    float off = check_near(&f, whole, f.logits, 0, f.count, 1e-4f, "reference against transformers");
    print_message("%s: %d positions, reference within %.1e of transformers\n", n->folder, f.count, (double)off);

    if (slow_here() && f.count > SHORT) f.count = SHORT;
    const int passes[] = {7, 1, 16};
    for (int i = 0; i < (slow_here() ? 1 : 3); i++) {
        must(b1_session_rewind(s, 0, err));
        evaluate(s, &f, 0, f.count, passes[i], other);
        check_near(&f, other, whole, 0, f.count, 1e-6f, "reference in smaller passes");
    }
    b1_session_close(s);
    b1_engine_close(engine);
    free(whole);
    free(other);
    fixture_free(&f);
}

/* ---- the fast executors ---- */

/* The coarsest rounding step of an input of a linear op of the kernels at hand, and of bf16 KV. */
static float rounding_step(const fixture_name *n)
{
    if (strstr(n->folder, "gguf-llama")) return 1.0f / 127;
    return 0x1p-8f;
}

static bool all_f32(const fixture_name *n)
{
    return !strstr(n->folder, "gguf-llama") && b1i_kernels_best()->dense_act == b1i_type_f32;
}

typedef struct rig {
    const fixture_name *name;
    fixture f;
    b1_engine *engine;
    b1_model_info info;
    float *want, *got, *again; /* [position][vocab] */
} rig;

static void rig_open(rig *r, const fixture_name *n)
{
    *r = (rig){.name = n, .f = fixture_read(n), .engine = fixture_open(n, NULL, THREADS)};
    if (slow_here() && r->f.count > SHORT) r->f.count = SHORT;
    b1_engine_info(r->engine, &r->info);
    r->want = rows_of(&r->f);
    r->got = rows_of(&r->f);
    r->again = rows_of(&r->f);
}

static void rig_close(rig *r)
{
    b1_engine_close(r->engine);
    fixture_free(&r->f);
    free(r->want);
    free(r->got);
    free(r->again);
}

/* One executor with one type of KV: near the reference of its precision in passes and in steps, near transformers, and
 * the same bits every time. */
static void check_executor(rig *r, const char *executor, const char *kv)
{
    const fixture *f = &r->f;
    const bool exact = all_f32(r->name) && strcmp(kv, "f32") == 0;
    const float u = exact ? 0 : rounding_step(r->name), depth = sqrtf(6 * (float)r->info.layers + 1);
    const float near_f32 = 1e-4f + 6 * 2.5f * u / sqrtf(12) * depth, near_own = exact ? 1e-4f : near_f32 / 2;
    const int tail = f->count - STEPS;
    char what[200];
    snprintf(what, sizeof what, "%s, %s, %s KV, %s", r->name->folder, executor, kv, b1i_kernels_best()->name);

    b1_session *s = session_of(r->engine, executor, kv, NULL);
    evaluate(s, f, 0, f->count, PASS, r->got);
    float own = check_near(f, r->got, r->want, 0, f->count, near_own, what);
    float f32 = check_near(f, r->got, f->logits, 0, f->count, near_f32, what);
    print_message("%s: %.1e of its reference (tolerance %.1e), %.1e of f32 (%.1e)\n", what, (double)own,
                  (double)near_own, (double)f32, (double)near_f32);

    /* the same again in the same session, and its end in steps and in passes of a few rows */
    must(b1_session_rewind(s, 0, err));
    evaluate(s, f, 0, f->count, PASS, r->again);
    assert_memory_equal(r->got, r->again, (size_t)f->count * (size_t)f->vocab * sizeof(float));
    for (int pass = 1; pass <= 5; pass += 4) {
        must(b1_session_rewind(s, tail, err));
        evaluate(s, f, tail, f->count, pass, r->got);
        check_near(f, r->got, r->want, tail, f->count, near_own, what);
        must(b1_session_rewind(s, tail, err));
        evaluate(s, f, tail, f->count, pass, r->again);
        assert_memory_equal(r->got, r->again, (size_t)f->count * (size_t)f->vocab * sizeof(float));
    }
    b1_session_close(s);

    /* and in another session */
    b1_session *t = session_of(r->engine, executor, kv, NULL);
    evaluate(t, f, 0, f->count, PASS, r->again);
    must(b1_session_rewind(t, tail, err));
    evaluate(t, f, tail, f->count, 5, r->again);
    assert_memory_equal(r->got, r->again, (size_t)f->count * (size_t)f->vocab * sizeof(float));
    b1_session_close(t);
}

static void check_executors(const fixture_name *n, const char *kv)
{
    rig r;
    rig_open(&r, n);
    b1_session *s = session_of(r.engine, "reference", kv, "kernels");
    evaluate(s, &r.f, 0, r.f.count, PASS, r.want);
    b1_session_close(s);
    static int turn; /* a slow machine takes the executors in turn */
    for (int i = 0; i < 3; i++)
        if (!slow_here() || i == turn % 3) check_executor(&r, fast[i], kv);
    turn++;
    rig_close(&r);
}

/* What a session takes by default; then all in f32, on the best kernels of this machine that can do that. */
static void test_executors(void **state)
{
    const char *chosen = getenv("BATCHONE_ISA");
    check_executors(*state, "bf16");
    if (slow_here()) return;
    for (int i = 0; b1i_kernels_built[i] && !chosen; i++)
        if (b1i_kernels_built[i]->supported() && b1i_kernels_built[i]->dense_act == b1i_type_f32) {
            setenv("BATCHONE_ISA", b1i_kernels_built[i]->name, 1);
            break;
        }
    check_executors(*state, "f32");
    if (!chosen) unsetenv("BATCHONE_ISA");
}

/* Every instruction set of this machine, on models that have what kernels find hard: odd sizes, a window over several
 * chunks, eight query heads a KV head, every block format. */
static void test_isas(void **state)
{
    static const struct {
        fixture_name name;
        const char *kv;
    } cases[] = {{{"llama-odd", "llama", ""}, "f32"},
                 {{"gguf-llama-mixed", "llama", "/model.gguf"}, "bf16"},
                 {{"mistral-window", "mistral", ""}, "f16"},
                 {{"llama-groups", "llama", ""}, "f32"}};
    (void)state;
    if (getenv("BATCHONE_ISA")) {
        print_message("BATCHONE_ISA chooses one instruction set: the others are not compared\n");
        skip();
    }
    for (int i = 0; b1i_kernels_built[i]; i++) {
        if (!b1i_kernels_built[i]->supported()) {
            print_message("%s: not on this machine\n", b1i_kernels_built[i]->name);
            continue;
        }
        setenv("BATCHONE_ISA", b1i_kernels_built[i]->name, 1);
        assert_ptr_equal(b1i_kernels_best(), b1i_kernels_built[i]);
        for (int j = 0; j < (slow_here() ? 2 : 4); j++) check_executors(&cases[j].name, cases[j].kv);
    }
    unsetenv("BATCHONE_ISA");
}

/* One feed of everything, whatever passes it takes inside, ends at the same logits. */
static void test_long_feed(void **state)
{
    static const fixture_name name = {"mistral-window", "mistral", ""};
    fixture f = fixture_read(&name);
    (void)state;
    b1_engine *engine = fixture_open(&name, "reference", THREADS);
    b1_session *s = session_of(engine, "reference", "f32", NULL);
    must(b1_session_feed(s, f.tokens, f.count, err));
    assert_int_equal(b1_session_position(s), f.count);
    assert_true(distance(b1_session_logits(s), fixture_logits(&f, f.count - 1), f.vocab) <= 1e-4f * f.most);
    for (int row = 0; row < f.count; row += 19) {
        const float *l = b1_session_logits_at(s, row); /* NULL before the last pass that the feed took */
        assert_true(l || row >= 300 % PASS);
        if (l) assert_true(distance(l, fixture_logits(&f, f.count - 1 - row), f.vocab) <= 1e-4f * f.most);
    }
    assert_null(b1_session_logits_at(s, f.count));
    assert_null(b1_session_logits_at(s, -1));
    b1_session_close(s);
    b1_engine_close(engine);
    fixture_free(&f);
}

/* What lies past a rewind leaves no trace: other tokens there first, then the right ones. */
static void check_prefix(const fixture_name *n, const char *executor)
{
    fixture f = fixture_read(n);
    const int half = f.count / 2;
    float *clean = malloc((size_t)f.vocab * sizeof *clean);
    int32_t *wrong = malloc((size_t)f.count * sizeof *wrong);
    assert_true(clean && wrong);
    memcpy(wrong, f.tokens, (size_t)f.count * sizeof *wrong);
    for (int i = half; i < f.count; i++) wrong[i] = (f.tokens[i] + 1) % f.vocab;
    b1_engine *engine = fixture_open(n, executor, THREADS);

    b1_session *s = session_of(engine, executor, NULL, NULL);
    must(b1_session_prompt(s, f.tokens, half, err));
    for (int i = half; i < f.count; i++) must(b1_session_step(s, f.tokens[i], err));
    memcpy(clean, b1_session_logits(s), (size_t)f.vocab * sizeof *clean);
    /* rewound by one, the same step gives the same bits */
    must(b1_session_rewind(s, f.count - 1, err));
    assert_null(b1_session_logits(s));
    must(b1_session_step(s, f.tokens[f.count - 1], err));
    assert_memory_equal(clean, b1_session_logits(s), (size_t)f.vocab * sizeof *clean);

    must(b1_session_prompt(s, wrong, f.count, err));
    assert_int_equal(b1_session_position(s), f.count);
    b1_timings t;
    b1_session_timings(s, &t);
    assert_int_equal(t.feed_tokens, f.count - half);
    assert_true(distance(clean, b1_session_logits(s), f.vocab) > 0.01f * f.most);
    must(b1_session_rewind(s, half, err));
    for (int i = half; i < f.count; i++) must(b1_session_step(s, f.tokens[i], err));
    assert_memory_equal(clean, b1_session_logits(s), (size_t)f.vocab * sizeof *clean);

    b1_session_close(s);
    b1_engine_close(engine);
    free(clean);
    free(wrong);
    fixture_free(&f);
}

static void test_prefix(void **state)
{
    static const fixture_name names[] = {{"llama3-tied", "llama", ""}, {"gguf-llama3", "llama", "/model.gguf"}};
    (void)state;
    for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
        check_prefix(&names[j], "reference");
        for (size_t i = 0; i < sizeof fast / sizeof *fast; i++) check_prefix(&names[j], fast[i]);
    }
}

#define FIXTURE_NAME(id, folder, arch, file) static fixture_name name_##id = {folder, arch, file};
MODEL_FIXTURES(FIXTURE_NAME)
#undef FIXTURE_NAME

int main(void)
{
    const struct CMUnitTest tests[] = {
#define FIXTURE_TESTS(id, folder, arch, file)                      \
    {folder " reference", test_reference, NULL, NULL, &name_##id}, \
        {folder " executors", test_executors, NULL, NULL, &name_##id},
        MODEL_FIXTURES(FIXTURE_TESTS)
#undef FIXTURE_TESTS
            cmocka_unit_test(test_isas),
        cmocka_unit_test(test_long_feed),
        cmocka_unit_test(test_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
