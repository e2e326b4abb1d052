/* SPDX-License-Identifier: MIT
 *
 * The CUDA executors as an engine has them, on every fixture model.
 *
 * op by op: the executor runs up to an item of its plan, its values become those of the CPU's reference ops in the
 *   executor's precision (inputs of linear ops and KV in bf16), which do that item alone; outputs lie within the sum
 *   of the ops' tolerances of the largest output, plus half a unit in the last place (2^-8 of itself) where a value is
 *   kept as bf16, and a whole one for an appended key. Values are poisoned with NaN before each run.
 * whole models: as tests/test_models.c, whose head derives the tolerances, with u = 2^-8: near the reference of its
 *   precision in prefill, in passes of a few rows and in steps, near transformers, the same bits every time.
 * sessions: interleaved, in one step, rewound, at the context's end, cancelled; tokens chosen on the GPU; graphs read
 *   back from the driver; each allocation of device memory failing in turn.
 * SmolLM2: where the GPU's choice is not that of the CPU's reference of its precision, the reference's gap between
 *   the two is a near-tie: as tests/test_greedy.c, with the rounding error of bf16: uniform in half a unit of the last
 *   place, which is 2^-7 of the power of two below a value; over mantissas that power is √(3 / (8 ln 2)) of the value
 *   in the mean square, so e = 2^-7 √(3 / (8 ln 2)) / √12 = 0.0017 of a value, and s = e √60 = 0.013 of the logits'
 *   spread. Both sides round alike, but past the first sum that lies on an edge their roundings part.
 *
 * Longer than 800 lines, for its four parts share the engines, references and tolerances of a fixture, which take long
 * to make on a GPU.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/reference.h"
#include "engine/engine.h"
#include "exec/cuda.h"
#include "tests/model_fixture.h"

#include "tests/cuda_rig.h"
#include "tests/greedy_fixture.h"

enum { PASS = 128, STEPS = 24, CONTEXT = 512 };

static const char *const executors[] = {"separate_stream", "separate_graph", "fused_stream", "fused_graph",
                                        "fused_pdl"};
enum { EXECUTORS = sizeof executors / sizeof *executors };

/* ---- an engine on the GPU and the CPU's answers, kept while tests of one fixture follow each other ---- */

typedef struct fixture_rig {
    const fixture_name *name;
    fixture f;
    b1_engine *engine;
    b1_model_info info;
    float *want; /* [position][vocab]: the reference with inputs of linear ops and KV in bf16; NULL until asked for */
} fixture_rig;

static fixture_rig rig;

static b1_engine *open_engine(const char *path, const char *device)
{
    const b1_engine_options options = {.device = device, .context = CONTEXT};
    b1_engine *engine = NULL;
    must(b1_engine_open(path, &options, &engine, err));
    return engine;
}

static void rig_close(void)
{
    b1_engine_close(rig.engine);
    fixture_free(&rig.f);
    free(rig.want);
    rig = (fixture_rig){0};
}

static void rig_open(const fixture_name *n)
{
    if (rig.name == n && rig.engine) return;
    rig_close();
    rig.name = n;
    rig.f = fixture_read(n);
    if (quick_here() && rig.f.count > 72) rig.f.count = 72;
    rig.engine = open_engine(fixture_path(n), "cuda");
    b1_engine_info(rig.engine, &rig.info);
    assert_int_equal(rig.info.vocab, rig.f.vocab);
    assert_non_null(strstr(rig.info.device, "cuda"));
}

static int close_all(void **state)
{
    (void)state;
    rig_close();
    return 0;
}

static b1_session *session_with(b1_engine *engine, const b1_session_options *o)
{
    b1_session *s = NULL;
    must(b1_session_create(engine, o, &s, err));
    return s;
}

static b1_session *session_of(b1_engine *engine, const char *executor, int context, bool all_logits)
{
    const b1_session_options o = {.executor = executor, .context = context, .all_logits = all_logits};
    b1_session *s = session_with(engine, &o);
    assert_string_equal(b1_session_executor(s), executor);
    return s;
}

static b1i_cuda_executor *inside(b1_session *s) { return (b1i_cuda_executor *)(void *)b1i_session_executor(s); }

/* ---- op by op ---- */

typedef struct ops_rig {
    b1_session *session;
    b1i_cuda_executor *e;
    b1i_cuda_machine *m;
    const b1i_model *model;
    const b1i_plan *plan;
    b1i_resident resident;
    b1i_cpu_state ref;
    b1i_kv kv;
    const char *what;
} ops_rig;

static void ops_open(ops_rig *r, const char *executor)
{
    *r = (ops_rig){.session = session_of(rig.engine, executor, 400, true)};
    r->e = inside(r->session);
    r->m = &r->e->device->machine;
    r->model = r->e->device->model;
    r->plan = r->e->device->plan;
    must(b1i_resident_create(r->model, r->plan, &r->resident, err));
    must(b1i_cpu_state_create(&r->resident, b1i_kernels_best(), 1, B1I_CUDA_ROWS, &r->ref, err));
    must(b1i_kv_create(&r->model->config, 400, b1i_type_bf16, &r->kv, err));
    r->ref.precision = (b1i_precision){b1i_type_bf16, b1i_type_bf16};
    r->ref.kv = &r->kv;
}

static void ops_close(ops_rig *r)
{
    b1i_cpu_state_free(&r->ref);
    b1i_kv_free(&r->kv);
    b1i_resident_free(&r->resident);
    b1_session_close(r->session);
}

static void ops_run(ops_rig *r, const b1i_step *step)
{
    b1i_executor *e = b1i_session_executor(r->session);
    must(r->e->class->submit(e, step, err));
    must(r->e->class->wait(e, err));
}

/* The GPU's values and the cache's positions [0, end) become the reference's. */
static void copy_values(ops_rig *r, int end)
{
    const b1i_config *c = &r->model->config;
    float k[256], v[256];
    for (int i = b1i_v_x; i < b1i_value_count; i++) {
        if (!value_there(r->m, i)) continue;
        uint8_t *raw = value_raw(r->m, (b1i_value)i);
        for (int row = 0; row < r->ref.n; row++)
            for (int col = 0; col < b1i_value_cols(c, (b1i_value)i); col++)
                b1i_row(&r->ref, (b1i_value)i, row)[col] = value_at(r->m, (b1i_value)i, raw, row, col);
        free(raw);
    }
    uint16_t *cache = kv_get(r->m->gpu, &r->e->kv);
    for (int h = 0; h < c->layers * c->kv_heads; h++) {
        b1i_kv_head head = b1i_kv_at(&r->kv, h / c->kv_heads, h % c->kv_heads);
        for (int p = 0; p < end; p++) {
            for (int d = 0; d < c->head_dim; d++) {
                k[d] = b1i_bf16_to_f32(cache[kv_at(&r->e->kv, h, false, p, d)]);
                v[d] = b1i_bf16_to_f32(cache[kv_at(&r->e->kv, h, true, p, d)]);
            }
            b1i_ref_kv_put(&head, p, k, v);
        }
    }
    free(cache);
}

static void compare(const ops_rig *r, b1i_value v, float tolerance)
{
    const int cols = b1i_value_cols(&r->model->config, v);
    const float step = b1i_cuda_value_is_bf16(v) ? 0x1p-8f : 0;
    uint8_t *raw = value_raw(r->m, v);
    float most = 0;
    for (int row = 0; row < r->ref.n; row++)
        for (int i = 0; i < cols; i++) most = larger(most, fabsf(b1i_row(&r->ref, v, row)[i]));
    for (int row = 0; row < r->ref.n; row++)
        for (int i = 0; i < cols; i++) {
            float want = b1i_row(&r->ref, v, row)[i], got = value_at(r->m, v, raw, row, i);
            if (!(fabsf(got - want) <= (tolerance + step * tolerance) * most + step * fabsf(want)))
                fail_msg("%s: %s, row %d, column %d is %.9g, the reference has %.9g; the largest %g, tolerance %g",
                         r->what, b1i_value_names[v], row, i, (double)got, (double)want, (double)most,
                         (double)tolerance);
        }
    free(raw);
}

static void compare_logits(const ops_rig *r, int rows, float tolerance)
{
    const int vocab = r->model->config.vocab;
    for (int row = 0; row < rows; row++) {
        const float *want = b1i_row(&r->ref, b1i_v_logits, row), *got = NULL;
        float most = 0;
        must(r->e->class->logits(b1i_session_executor(r->session), row, &got, err));
        for (int i = 0; i < vocab; i++) most = larger(most, fabsf(want[i]));
        float off = distance(got, want, vocab);
        if (!(off <= tolerance * most))
            fail_msg("%s: logits of row %d lie %g of %g off, tolerance %g", r->what, row, (double)off, (double)most,
                     (double)tolerance);
    }
}

/* Appended keys (within a unit in the last place) and values. */
static void compare_cache(ops_rig *r, int layer, float tolerance)
{
    const b1i_config *c = &r->model->config;
    uint16_t *cache = kv_get(r->m->gpu, &r->e->kv);
    for (int h = 0; h < c->kv_heads; h++) {
        const b1i_kv_head head = b1i_kv_at(&r->kv, layer, h);
        for (int p = b1i_position_of(&r->ref, 0); p <= b1i_position_of(&r->ref, r->ref.n - 1); p++)
            for (int which = 0; which < 2; which++) {
                float most = 0;
                for (int d = 0; d < c->head_dim; d++) most = larger(most, fabsf(b1i_ref_kv_get(&head, which, p, d)));
                for (int d = 0; d < c->head_dim; d++) {
                    float want = b1i_ref_kv_get(&head, which, p, d), bound = 0;
                    float got = b1i_bf16_to_f32(cache[kv_at(&r->e->kv, layer * c->kv_heads + h, which, p, d)]);
                    if (!which && tolerance > 0) bound = 0x1p-7f * fabsf(want) + tolerance * most;
                    if (!(fabsf(got - want) <= bound))
                        fail_msg("%s: %s of head %d at %d, element %d is %g, the reference has %g", r->what,
                                 which ? "value" : "key", h, p, d, (double)got, (double)want);
                }
            }
    }
    free(cache);
}

static void check_item(ops_rig *r, b1i_step step, int item, const char *what)
{
    const bool groups = r->e->class->by_group;
    const int first = groups ? r->plan->groups[item].first : item, count = groups ? r->plan->groups[item].count : 1;
    char text[300];
    snprintf(text, sizeof text, "%s, item %d (%s)", what, item,
             groups ? b1i_group_names[r->plan->groups[item].id] : b1i_op_classes[r->plan->ops[item].id].name);
    r->what = text;
    b1i_cpu_state_step(&r->ref, step.tokens, step.n, step.position, step.logits_from);
    poison_values(r->m);
    step.stop_after = item - 1;
    if (item > 0) ops_run(r, &step);
    copy_values(r, step.position + step.n);
    float tolerance = 0, appended = 0;
    bool normed = false;
    for (int i = first; i < first + count; i++) {
        const b1i_op *op = &r->plan->ops[i];
        b1i_type type = b1i_type_f32;
        if (op->id == b1i_op_rmsnorm) normed = true;
        if (op->id == b1i_op_linear && normed) type = b1i_type_bf16; /* rounded inside the launch */
        if (op->id == b1i_op_attention) type = b1i_type_bf16;
        b1i_ref_ops[op->id](&r->ref, op, 0, 1);
        if (op->id == b1i_op_kv_append) appended = tolerance;
        tolerance += b1i_op_tolerance(op->id, type,
                                      op->in[0] == b1i_v_tokens ? 1 : b1i_value_cols(&r->model->config, op->in[0]));
    }
    poison_values(r->m);
    step.stop_after = item;
    ops_run(r, &step);
    for (int i = first; i < first + count; i++) {
        const b1i_op *op = &r->plan->ops[i];
        /* of a fused group only what later groups read is there */
        const bool qkv = r->plan->ops[first + count - 1].id == b1i_op_linear && first + count < r->plan->op_count;
        if (op->id == b1i_op_kv_append) compare_cache(r, op->layer, appended);
        if (op->out == b1i_v_logits)
            compare_logits(r, step.n - step.logits_from, tolerance);
        else if (op->out != b1i_v_none && (!groups || i == first + count - 1 || (qkv && op->id == b1i_op_linear)))
            compare(r, op->out, tolerance);
    }
}

typedef struct one_case {
    char name[80];
    const fixture_name *fixture;
    const char *executor;
} one_case;

static void test_ops(void **state)
{
    const one_case *k = *state;
    static const int rows[] = {1, 2, 8}, positions[] = {70, 0, 29};
    need_gpu();
    rig_open(k->fixture);
    ops_rig r;
    ops_open(&r, k->executor);
    for (int i = 0; i < (quick_here() ? 2 : 3); i++) {
        const int n = rows[i], position = positions[i] + n <= rig.f.count ? positions[i] : 0;
        char what[200];
        for (int at = 0; at < position; at++) { /* what comes before */
            b1i_step before = {rig.f.tokens + at, 1, at, 0, -1, NULL, NULL};
            if (position - at >= 8) before.n = 8, before.logits_from = 7;
            ops_run(&r, &before);
            at += before.n - 1;
        }
        b1i_step step = {rig.f.tokens + position, n, position, n > 2 ? n - 2 : 0, -1, NULL, NULL};
        snprintf(what, sizeof what, "%s, %d rows at %d", k->name, n, position);
        for (int item = 0; item < r.e->items; item++) check_item(&r, step, item, what);
    }
    ops_close(&r);
}

/* ---- whole models ---- */

/* Feeds positions [from, to) in passes of `pass`; rows of logits to out [position][vocab]. A pass of 1 is a step. */
static void evaluate(b1_session *s, const fixture *f, int from, int to, int pass, float *out)
{
    assert_int_equal(b1_session_position(s), from);
    for (int at = from; at < to; at += pass) {
        int n = to - at < pass ? to - at : pass;
        if (n == 1)
            must(b1_session_step(s, f->tokens[at], err));
        else
            must(b1_session_feed(s, f->tokens + at, n, err));
        for (int row = 0; row < n; row++) {
            const float *l = b1_session_logits_at(s, n - 1 - row);
            if (!l) continue; /* a pass took fewer than were fed */
            memcpy(out + (size_t)(at + row) * (size_t)f->vocab, l, (size_t)f->vocab * sizeof *l);
        }
        assert_non_null(b1_session_logits(s));
    }
    assert_int_equal(b1_session_position(s), to);
}

static float *rows_of(const fixture *f)
{
    float *out = calloc((size_t)f->count * (size_t)f->vocab, sizeof *out);
    assert_non_null(out);
    return out;
}

static float check_near(const float *a, const float *b, int from, int to, float tolerance, const char *what)
{
    const fixture *f = &rig.f;
    float worst = 0;
    for (int p = from; p < to; p++) {
        float off = distance(a + (size_t)p * (size_t)f->vocab, b + (size_t)p * (size_t)f->vocab, f->vocab) / f->most;
        if (!(off <= tolerance))
            fail_msg("%s: position %d lies %g off, tolerance %g", what, p, (double)off, (double)tolerance);
        worst = fmaxf(worst, off);
    }
    return worst;
}

static float near_f32(void) { return 1e-4f + 6 * 2.5f * 0x1p-8f / sqrtf(12) * sqrtf(6 * (float)rig.info.layers + 1); }

/* The reference's logits at every position, in the precision of the GPU. */
static const float *reference_rows(void)
{
    if (rig.want) return rig.want;
    float *want = rows_of(&rig.f);
    b1_engine *engine = open_engine(fixture_path(rig.name), "cpu");
    const b1_session_options o = {
        .executor = "reference", .context = CONTEXT, .kv = "bf16", .activations = "bf16", .all_logits = true};
    b1_session *s = session_with(engine, &o);
    evaluate(s, &rig.f, 0, rig.f.count, PASS, want);
    b1_session_close(s);
    b1_engine_close(engine);
    return rig.want = want;
}

/* Passes of `pass` over the last positions, twice: near `want`, and the same bits. */
static void check_tail(b1_session *s, const float *want, int pass, float *got, float *again, const char *what)
{
    const fixture *f = &rig.f;
    const int tail = f->count - STEPS;
    const size_t bytes = (size_t)STEPS * (size_t)f->vocab * sizeof(float), at = (size_t)tail * (size_t)f->vocab;
    char text[200];
    snprintf(text, sizeof text, "%s, passes of %d", what, pass);
    must(b1_session_rewind(s, tail, err));
    evaluate(s, f, tail, f->count, pass, got);
    check_near(got, want, tail, f->count, near_f32() / 2, text);
    must(b1_session_rewind(s, tail, err));
    evaluate(s, f, tail, f->count, pass, again);
    assert_memory_equal(got + at, again + at, bytes);
}

static void test_model(void **state)
{
    const one_case *k = *state;
    need_gpu();
    rig_open(k->fixture);
    const fixture *f = &rig.f;
    const float *want = reference_rows();
    float *got = rows_of(f), *again = rows_of(f);
    const size_t bytes = (size_t)f->count * (size_t)f->vocab * sizeof *got;
    b1_session *s = session_of(rig.engine, k->executor, CONTEXT, true);

    /* prefill where there is cuBLASLt; without it passes of 8, which are fed one by one here to have all logits */
    const int pass = b1_session_note(s) ? 8 : PASS;
    evaluate(s, f, 0, f->count, pass, got);
    const int real = b1_session_note(s) ? 8 : pass; /* the note may come with the first long pass */
    if (real != pass) {
        must(b1_session_rewind(s, 0, err));
        evaluate(s, f, 0, f->count, real, got);
    }
    float own = check_near(got, want, 0, f->count, near_f32() / 2, k->name);
    float f32 = check_near(got, f->logits, 0, f->count, near_f32(), k->name);
    print_message("%s: passes of %d: %.1e of its reference (tolerance %.1e), %.1e of f32 (%.1e)\n", k->name, real,
                  (double)own, (double)near_f32() / 2, (double)f32, (double)near_f32());
    must(b1_session_rewind(s, 0, err));
    evaluate(s, f, 0, f->count, real, again);
    assert_memory_equal(got, again, bytes);
    for (int i = 1; i <= 8; i += i == 1 ? 4 : 3) check_tail(s, want, i, got, again, k->name);

    /* all of it one by one, into the same cache, against the same */
    must(b1_session_rewind(s, 0, err));
    evaluate(s, f, 0, f->count, 1, again);
    check_near(again, want, 0, f->count, near_f32() / 2, k->name);
    b1_session_close(s);
    free(got);
    free(again);
}

/* ---- sessions ---- */

static const fixture_name tied = {"llama3-tied", "llama", ""}, odd = {"llama-odd", "llama", ""},
                          quantised = {"gguf-llama-mixed", "llama", "/model.gguf"},
                          window = {"mistral-window", "mistral", ""}, qwen = {"qwen3", "qwen3", ""};

static float *logits_copy(const b1_session *s)
{
    const float *l = b1_session_logits(s);
    float *copy = malloc((size_t)rig.f.vocab * sizeof *copy);
    assert_true(l && copy);
    return memcpy(copy, l, (size_t)rig.f.vocab * sizeof *copy);
}

static void same_bits(const b1_session *s, const float *want)
{
    assert_non_null(b1_session_logits(s));
    assert_memory_equal(b1_session_logits(s), want, (size_t)rig.f.vocab * sizeof *want);
}

/* Two sessions in turn give what each gives alone; tokens of the second are the first's, shifted. */
static void test_interleaved(void **state)
{
    const one_case *k = *state;
    enum { COUNT = 20, HEAD = 30 };
    need_gpu();
    rig_open(k->fixture);
    float *alone[2][COUNT];
    b1_session *s[2] = {session_of(rig.engine, k->executor, 100, false),
                        session_of(rig.engine, k->executor, 200, false)};
    const int32_t *tokens[2] = {rig.f.tokens, rig.f.tokens + 7};
    for (int i = 0; i < 2; i++) {
        must(b1_session_prompt(s[i], tokens[i], HEAD, err));
        for (int j = 0; j < COUNT; j++) {
            must(b1_session_step(s[i], tokens[i][HEAD + j], err));
            alone[i][j] = logits_copy(s[i]);
        }
        must(b1_session_rewind(s[i], HEAD, err));
    }
    for (int j = 0; j < COUNT; j++)
        for (int i = 0; i < 2; i++) {
            must(b1_session_step(s[i], tokens[i][HEAD + j], err));
            same_bits(s[i], alone[i][j]);
            if (j > 0) continue;
            b1_session *third = session_of(rig.engine, k->executor, 40, false); /* comes and goes between */
            must(b1_session_prompt(third, tokens[1 - i], 9, err));
            b1_session_close(third);
        }
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < COUNT; j++) free(alone[i][j]);
        b1_session_close(s[i]);
    }
}

/* Tokens of several sessions at different positions in one step: each as near to its own step as two passes may lie,
 * and what it appended serves the next step. */
static void test_one_step(void **state)
{
    const one_case *k = *state;
    enum { COUNT = 5 };
    static const int heads[COUNT] = {3, 31, 32, 50, 1};
    need_gpu();
    rig_open(k->fixture);
    b1_session *s[COUNT];
    int32_t tokens[COUNT], next[COUNT];
    float *want[COUNT][2];
    for (int i = 0; i < COUNT; i++) {
        s[i] = session_of(rig.engine, k->executor, 100, i == 1);
        must(b1_session_prompt(s[i], rig.f.tokens + i, heads[i], err));
        tokens[i] = rig.f.tokens[i + heads[i]];
        next[i] = rig.f.tokens[i + heads[i] + 1];
        must(b1_session_step(s[i], tokens[i], err));
        want[i][0] = logits_copy(s[i]);
        must(b1_session_step(s[i], next[i], err));
        want[i][1] = logits_copy(s[i]);
    }
    const float near = near_f32() / 2 * rig.f.most;
    for (int n = COUNT; n > 1; n -= 2) {
        for (int i = 0; i < n; i++) must(b1_session_rewind(s[i], heads[i], err));
        for (int round = 0; round < 2; round++) {
            must(b1_sessions_step(s, round ? next : tokens, n, err));
            for (int i = 0; i < n; i++) {
                const float *l = b1_session_logits(s[i]);
                int32_t token = -1;
                assert_non_null(l);
                assert_int_equal(b1_session_position(s[i]), heads[i] + round + 1);
                if (!(distance(l, want[i][round], rig.f.vocab) <= near))
                    fail_msg("%s: session %d of %d lies %g off its own step, tolerance %g", k->name, i, n,
                             (double)distance(l, want[i][round], rig.f.vocab), (double)near);
                must(b1_session_argmax(s[i], &token, err));
                assert_int_equal(token, argmax(l, rig.f.vocab));
            }
        }
    }
    for (int i = 0; i < COUNT; i++) {
        free(want[i][0]);
        free(want[i][1]);
        b1_session_close(s[i]);
    }
}

/* What lies past a rewind leaves no trace; a prefix is reused; the filler is forgotten. */
static void test_prefix(void **state)
{
    const one_case *k = *state;
    need_gpu();
    rig_open(k->fixture);
    const fixture *f = &rig.f;
    const int half = f->count / 2;
    int32_t *wrong = malloc((size_t)f->count * sizeof *wrong);
    assert_non_null(wrong);
    for (int i = 0; i < f->count; i++) wrong[i] = i < half ? f->tokens[i] : (f->tokens[i] + 1) % f->vocab;
    b1_session *s = session_of(rig.engine, k->executor, CONTEXT, false);
    must(b1_session_prompt(s, f->tokens, half, err));
    for (int i = half; i < f->count; i++) must(b1_session_step(s, f->tokens[i], err));
    float *clean = logits_copy(s);
    must(b1_session_rewind(s, f->count - 1, err));
    assert_null(b1_session_logits(s));
    must(b1_session_step(s, f->tokens[f->count - 1], err));
    same_bits(s, clean);
    must(b1_session_prompt(s, wrong, f->count, err));
    b1_timings t;
    b1_session_timings(s, &t);
    assert_int_equal(t.feed_tokens, f->count - half);
    assert_true(distance(clean, b1_session_logits(s), f->vocab) > 0.01f * f->most);
    must(b1_session_rewind(s, half, err));
    for (int i = half; i < f->count; i++) must(b1_session_step(s, f->tokens[i], err));
    same_bits(s, clean);
    /* filler, and the same again from the start */
    must(b1_session_fill(s, CONTEXT - 1, err));
    assert_null(b1_session_logits(s));
    must(b1_session_step(s, f->tokens[0], err));
    float *filled = logits_copy(s);
    must(b1_session_rewind(s, CONTEXT - 1, err));
    must(b1_session_step(s, f->tokens[0], err));
    same_bits(s, filled);
    must(b1_session_prompt(s, f->tokens, half, err));
    b1_session_timings(s, &t);
    assert_int_equal(t.feed_tokens, half);
    for (int i = half; i < f->count; i++) must(b1_session_step(s, f->tokens[i], err));
    same_bits(s, clean);
    free(clean);
    free(filled);
    free(wrong);
    b1_session_close(s);
}

/* The context's end, around a block of 32 positions: refused past it, the bits of a longer context before it. */
static void test_context(void **state)
{
    const one_case *k = *state;
    static const int sizes[] = {1, 2, 31, 32, 33, 64, 65};
    need_gpu();
    rig_open(k->fixture);
    const fixture *f = &rig.f;
    b1_session *wide = session_of(rig.engine, k->executor, CONTEXT, false);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int max = sizes[i];
        b1_session *s = session_of(rig.engine, k->executor, max, false);
        assert_refused(B1_CONTEXT, "context", b1_session_prompt(s, f->tokens, max + 1, err));
        if (max > 1) must(b1_session_prompt(s, f->tokens, max - 1, err));
        if (max > 1) assert_refused(B1_CONTEXT, "context", b1_session_feed(s, f->tokens + max - 1, 2, err));
        must(b1_session_step(s, f->tokens[max - 1], err));
        float *full = logits_copy(s);
        must(b1_session_rewind(wide, 0, err));
        if (max > 1) must(b1_session_feed(wide, f->tokens, max - 1, err));
        must(b1_session_step(wide, f->tokens[max - 1], err));
        same_bits(wide, full);
        assert_refused(B1_CONTEXT, "context", b1_session_step(s, 0, err));
        assert_int_equal(b1_session_position(s), max);
        same_bits(s, full);
        must(b1_session_rewind(s, max - 1, err));
        must(b1_session_step(s, f->tokens[max - 1], err));
        same_bits(s, full);
        free(full);
        b1_session_close(s);
    }
    b1_session_close(wide);
}

/* A step and a pass of five rows, a hundred times: the same bits. */
static void test_repeats(void **state)
{
    const one_case *k = *state;
    need_gpu();
    rig_open(k->fixture);
    const fixture *f = &rig.f;
    b1_session *s = session_of(rig.engine, k->executor, CONTEXT, false);
    for (int n = 1; n <= 5; n += 4) {
        float *want = NULL;
        for (int i = 0; i < (quick_here() ? 10 : 100); i++) {
            must(b1_session_rewind(s, 0, err));
            must(b1_session_prompt(s, f->tokens, 40, err));
            must(b1_session_feed(s, f->tokens + 40, n, err));
            if (!want) want = logits_copy(s);
            same_bits(s, want);
        }
        free(want);
    }
    b1_session_close(s);
}

/* The GPU's choice is that of its logits, with masks and without. */
static void test_choice(void **state)
{
    const one_case *k = *state;
    need_gpu();
    rig_open(k->fixture);
    const int vocab = rig.f.vocab;
    int32_t *ids = malloc((size_t)vocab * sizeof *ids), token;
    assert_non_null(ids);
    b1_session *s = session_of(rig.engine, k->executor, CONTEXT, false);
    must(b1_session_prompt(s, rig.f.tokens, 20, err));
    for (int masked = 0; masked < vocab; masked++) {
        float *l = logits_copy(s);
        for (int i = 0; i < masked; i++) l[ids[i]] = -INFINITY;
        must(b1_session_argmax(s, &token, err));
        assert_int_equal(token, argmax(l, vocab));
        free(l);
        ids[masked] = token; /* the next mask takes this one too: set before the next step, or after it */
        if (masked % 2) must(b1_session_mask(s, ids, masked + 1, err));
        must(b1_session_step(s, rig.f.tokens[20 + masked % 30], err));
        if (masked % 2 == 0) must(b1_session_mask(s, ids, masked + 1, err));
    }
    assert_refused(B1_ARGUMENT, "mask", b1_session_argmax(s, &token, err)); /* all of them */
    must(b1_session_mask(s, NULL, 0, err));
    must(b1_session_argmax(s, &token, err));
    assert_int_equal(token, argmax(b1_session_logits(s), vocab));
    free(ids);
    b1_session_close(s);
}

static void test_cancel(void **state)
{
    const one_case *k = *state;
    need_gpu();
    rig_open(k->fixture);
    b1_session *s = session_of(rig.engine, k->executor, CONTEXT, false);
    must(b1_session_prompt(s, rig.f.tokens, 20, err));
    must(b1_session_step(s, rig.f.tokens[20], err));
    float *want = logits_copy(s);
    must(b1_session_rewind(s, 20, err));
    b1_session_cancel(s);
    assert_refused(B1_CANCELLED, "cancel", b1_session_step(s, rig.f.tokens[20], err));
    assert_refused(B1_CANCELLED, "cancel", b1_session_feed(s, rig.f.tokens + 20, 40, err));
    assert_int_equal(b1_session_position(s), 20);
    assert_null(b1_session_logits(s));
    b1_session_uncancel(s);
    must(b1_session_step(s, rig.f.tokens[20], err));
    same_bits(s, want);
    free(want);
    b1_session_close(s);
}

/* ---- graphs ---- */

static int count_of(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)); text += strlen(word)) n++;
    return n;
}

/* The driver's graph is the program: a chain of kernels, with programmatic edges where they are meant to be. */
static void check_graph(b1_session *s, bool few)
{
    b1i_cuda_executor *e = inside(s);
    b1i_gpu_graph_info g = {0};
    const b1i_cuda_program *p = NULL;
    must(e->class->graph_describe(b1i_session_executor(s), few, &g, err));
    must(b1i_cuda_program_get(&e->device->machine, (b1i_cuda_form)e->class->form, few ? b1i_cuda_few : b1i_cuda_one, &p,
                              err));
    int expected = 0;
    for (int i = 1; i < p->count; i++) expected += !p->launches[i].full_edge;
    const bool programmatic = strcmp(e->class->name, "fused_pdl") == 0;
    print_message("%s, %s: %d nodes, %d edges, %d of them programmatic\n", e->class->name,
                  few ? "2 to 8 rows" : "one row", g.nodes, g.edges, g.programmatic_edges);
    assert_int_equal(g.nodes, p->count);
    assert_int_equal(g.kernel_nodes, p->count);
    assert_int_equal(g.edges, p->count - 1);
    assert_int_equal(g.programmatic_edges, programmatic ? expected : 0);
    if (programmatic) assert_true(expected >= p->count / 2);
}

static void test_graph(void **state)
{
    const one_case *k = *state;
    need_gpu();
    rig_open(k->fixture);
    b1_session *s = session_of(rig.engine, k->executor, 100, false);
    b1i_cuda_executor *e = inside(s);
    const char *path = "graph-of-test.dot";
    must(b1_session_prompt(s, rig.f.tokens, 5, err));
    if (e->class->mode == b1i_cuda_stream) {
        assert_refused(B1_UNSUPPORTED, "graph", b1_session_graph_dot(s, path, err));
        b1_session_close(s);
        return;
    }
    check_graph(s, false);
    check_graph(s, true);
    /* one graph for every step and session: it is the same object after others ran, and their steps are right */
    b1i_gpu_graph *before = NULL, *after = NULL;
    must(b1i_cuda_device_graph(e->device, e->class->form, b1i_cuda_one, &before, err));
    b1_session *t = session_of(rig.engine, k->executor, 300, false);
    must(b1_session_prompt(t, rig.f.tokens + 3, 41, err));
    must(b1_session_step(t, rig.f.tokens[44], err));
    must(b1_session_step(s, rig.f.tokens[5], err));
    must(b1i_cuda_device_graph(e->device, e->class->form, b1i_cuda_one, &after, err));
    assert_ptr_equal(before, after);
    b1_session_close(t);

    must(b1_session_graph_dot(s, path, err));
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    static char text[4 << 20];
    text[fread(text, 1, sizeof text - 1, in)] = 0;
    fclose(in);
    (void)remove(path);
    assert_non_null(strstr(text, "digraph"));
    b1i_gpu_graph_info g = {0};
    must(e->class->graph_describe(b1i_session_executor(s), false, &g, err));
    assert_true(count_of(text, "->") >= g.edges);
    assert_refused(B1_IO, "no-such-folder", b1_session_graph_dot(s, "no-such-folder/x.dot", err));
    b1_session_close(s);
}

/* About five launches a layer: none of a model whose matrices are all of one kind is split. */
static void test_launches(void **state)
{
    const one_case *k = *state;
    need_gpu();
    rig_open(k->fixture);
    b1_session *s = session_of(rig.engine, "fused_graph", 100, false);
    for (int few = 0; few < 2; few++) {
        b1i_gpu_graph_info g = {0};
        must(inside(s)->class->graph_describe(b1i_session_executor(s), few, &g, err));
        assert_in_range(g.nodes, 4 * rig.info.layers, 5 * rig.info.layers + 3);
    }
    b1_session_close(s);
}

/* Times of the plan's items, where they are asked for; the same logits. */
static void test_times(void **state)
{
    const one_case *k = *state;
    need_gpu();
    rig_open(k->fixture);
    const b1_session_options o = {.executor = k->executor, .context = 100, .op_times = true};
    b1_session *s = session_with(rig.engine, &o), *t = session_of(rig.engine, k->executor, 100, false);
    int count;
    for (int i = 0; i < 3; i++) {
        must(b1_session_prompt(i ? t : s, rig.f.tokens, 5, err));
        must(b1_session_step(i ? t : s, rig.f.tokens[5], err));
        if (i == 0) continue;
        assert_memory_equal(b1_session_logits(t), b1_session_logits(s), (size_t)rig.f.vocab * sizeof(float));
    }
    const b1_plan_op *ops = b1_session_plan(s, &count);
    assert_int_equal(count, inside(s)->items);
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += ops[i].time_ns;
    assert_in_range(sum, 1000, 1000000000);
    b1_session_close(s);
    b1_session_close(t);
}

/* ---- memory ---- */

/* Opens, prefills, steps, in a way that allocates all there is to allocate. */
static b1_status whole_life(const fixture_name *n, const char *executor, long *most, b1_error *err)
{
    b1_status st;
    b1_engine *engine = NULL;
    b1_session *s = NULL;
    int32_t token;
    const b1_engine_options options = {.device = "cuda", .executor = executor, .context = 64};
    const b1_session_options so = {.executor = executor, .context = 64};
    B1I_TRY(b1_engine_open(fixture_path(n), &options, &engine, err));
    B1I_TRY(b1_session_create(engine, &so, &s, err));
    B1I_TRY(b1_session_prompt(s, rig.f.tokens, 30, err));
    B1I_TRY(b1_session_mask(s, rig.f.tokens, 1, err));
    B1I_TRY(b1_session_step(s, rig.f.tokens[30], err));
    B1I_TRY(b1_session_argmax(s, &token, err));
    if (!b1_session_logits(s)) st = b1i_fail(err, B1_DEVICE, "no logits");
fail:
    *most = b1i_gpu_alloc_live();
    b1_session_close(s);
    b1_engine_close(engine);
    return st;
}

/* Each allocation of device and pinned memory fails in turn: a sentence, no leak, and the next try is good. */
static void test_failures(void **state)
{
    const one_case *k = *state;
    need_gpu();
    rig_close();
    rig.f = fixture_read(k->fixture);
    const long before = b1i_gpu_alloc_live();
    enum { QUIET = 8, MOST = 200 }; /* tries without a failure that end it: prefill may be done without */
    long most = 0, all, failed = 0, quiet = 0, n = 0;
    must(whole_life(k->fixture, k->executor, &all, err));
    assert_int_equal(b1i_gpu_alloc_live(), before);
    assert_true(all > 0);
    for (; quiet < QUIET && n < MOST; n++) {
        b1_error err = {0};
        b1i_gpu_alloc_fail_at(n);
        b1_status st = whole_life(k->fixture, k->executor, &most, &err);
        b1i_gpu_alloc_fail_at(-1);
        if (st != B1_OK && (st != B1_MEMORY || !*err.message))
            fail_msg("allocation %ld failed: %s: %s", n, b1_status_name(st), err.message);
        failed += st != B1_OK;
        quiet = st == B1_OK ? quiet + 1 : 0;
        if (n == 0) assert_int_equal(st, B1_MEMORY);
        assert_int_equal(b1i_gpu_alloc_live(), before);
    }
    assert_true(n < MOST && failed > all / 2);
    print_message("%s: %ld allocations live, %ld failures said so\n", k->name, all, failed);
    must(whole_life(k->fixture, k->executor, &most, err));
    assert_int_equal(b1i_gpu_alloc_live(), before);
    rig_close();
}

/* ---- the default model ---- */

typedef struct greedy_rig {
    int vocab, stride;
    prompt prompts[PROMPTS];
    float *logits[PROMPTS]; /* the reference's in bf16, [TOKENS][vocab]; NULL until asked for */
    b1_engine *engine;
} greedy_rig;
static greedy_rig greedy;

/* The reference is fed prompt and tokens in one pass. */
static void greedy_reference(void)
{
    b1_model_info info;
    b1_engine *engine = open_engine(model_path(), "cpu");
    const b1_session_options o = {
        .executor = "reference", .context = 256, .kv = "bf16", .activations = "bf16", .all_logits = true};
    b1_session *s = session_with(engine, &o);
    b1_engine_info(engine, &info);
    greedy.vocab = info.vocab;
    read_prompts(greedy.prompts, &greedy.stride);
    for (int i = 0; i < PROMPTS; i++) {
        const prompt *p = &greedy.prompts[i];
        const size_t row = (size_t)info.vocab;
        greedy.logits[i] = malloc(TOKENS * row * sizeof(float));
        assert_non_null(greedy.logits[i]);
        must(b1_session_rewind(s, 0, err));
        must(b1_session_feed(s, p->ids, p->prompt_count + TOKENS - 1, err));
        for (int j = 0; j < TOKENS; j++) {
            const float *l = b1_session_logits_at(s, TOKENS - 1 - j);
            assert_non_null(l);
            memcpy(greedy.logits[i] + (size_t)j * row, l, row * sizeof *l);
        }
    }
    b1_session_close(s);
    b1_engine_close(engine);
    greedy.engine = open_engine(model_path(), "cuda");
}

static int greedy_close(void **state)
{
    (void)state;
    b1_engine_close(greedy.engine);
    for (int i = 0; i < PROMPTS; i++) free(greedy.logits[i]);
    greedy = (greedy_rig){0};
    return 0;
}

/* The GPU generates step by step along the fixture's tokens. */
static void test_greedy(void **state)
{
    const one_case *k = *state;
    const double noise = 0x1p-7 * sqrt(3 / (8 * log(2)) / 12) * sqrt(60), tie = 3 * sqrt(2) * noise;
    need_gpu();
    if (access(model_path(), R_OK) != 0 || quick_here()) {
        print_message("skipped: %s is missing (B1_TEST_MODEL names another), or this run is a quick one\n",
                      model_path());
        skip();
    }
    rig_close();
    if (!greedy.engine) greedy_reference();
    b1_session *s = session_of(greedy.engine, k->executor, 256, false);
    int different = 0;
    double worst = 0, mean = 0;
    for (int which = 0; which < PROMPTS; which++) {
        const prompt *p = &greedy.prompts[which];
        must(b1_session_prompt(s, p->ids, p->prompt_count, err));
        for (int i = 0; i < TOKENS; i++) {
            const float *want = greedy.logits[which] + (size_t)i * (size_t)greedy.vocab, *l = b1_session_logits(s);
            int32_t got = -1;
            const int right = argmax(want, greedy.vocab);
            assert_non_null(l);
            must(b1_session_argmax(s, &got, err));
            assert_int_equal(got, argmax(l, greedy.vocab));
            double scale = spread(want, NULL, greedy.vocab), off = spread(l, want, greedy.vocab) / scale;
            mean += off / (PROMPTS * TOKENS);
            worst = off > worst ? off : worst;
            if (got != right) {
                double gap = (double)(want[right] - want[got]) / scale;
                different++;
                print_message("%s, prompt %d, token %d: %d in place of %d, gap %.4f of the spread\n", k->name, which, i,
                              (int)got, right, gap);
                if (!(gap <= tie)) fail_msg("that is no near-tie: more than %.3f", tie);
            }
            if (i + 1 < TOKENS) must(b1_session_step(s, p->tokens[i], err));
        }
    }
    b1_session_close(s);
    print_message("%s: %d of %d tokens differ from the reference in bf16; logits off by %.5f of their spread, at most "
                  "%.5f (tolerance %.4f and %.4f)\n",
                  k->name, different, PROMPTS * TOKENS, mean, worst, noise, 4 * noise);
    assert_true(mean <= noise && worst <= 4 * noise);
}

/* ---- the tables ---- */

#define FIXTURE_NAME(id, folder, arch, file) static const fixture_name name_##id = {folder, arch, file};
MODEL_FIXTURES(FIXTURE_NAME)
#undef FIXTURE_NAME

enum { CASES_MAX = 400 };
static one_case cases[CASES_MAX];
static struct CMUnitTest tests[CASES_MAX];
static size_t count;

static void add_to(CMUnitTestFunction fn, const char *kind, const fixture_name *n, const char *executor,
                   CMFixtureFunction teardown)
{
    if (count == CASES_MAX) abort();
    one_case *k = &cases[count];
    k->fixture = n;
    k->executor = executor;
    snprintf(k->name, sizeof k->name, "%s %s %s", kind, n->folder, executor);
    tests[count++] = (struct CMUnitTest){k->name, fn, NULL, teardown, k};
}
static void add(CMUnitTestFunction fn, const char *kind, const fixture_name *n, const char *executor)
{
    add_to(fn, kind, n, executor, NULL);
}

int main(int argc, char **argv)
{
    static const fixture_name smollm = {"smollm2", "llama", ""};
#define FIXTURE_TESTS(id, folder, arch, file)                                           \
    for (int e = 0; e < EXECUTORS; e++) add(test_ops, "ops", &name_##id, executors[e]); \
    for (int e = 0; e < EXECUTORS; e++) add(test_model, "model", &name_##id, executors[e]);
    MODEL_FIXTURES(FIXTURE_TESTS)
#undef FIXTURE_TESTS
    for (int e = 0; e < EXECUTORS; e++) {
        add(test_interleaved, "interleaved", &tied, executors[e]);
        add(test_prefix, "prefix", &tied, executors[e]);
        add(test_context, "context", &tied, executors[e]);
        add(test_graph, "graph", &tied, executors[e]);
    }
    add(test_launches, "launches", &tied, "fused");
    for (int e = 0; e < EXECUTORS; e++) {
        add(test_one_step, "one step", &odd, executors[e]);
        add(test_choice, "choice", &odd, executors[e]);
        add(test_cancel, "cancel", &odd, executors[e]);
    }
    for (int e = 0; e < EXECUTORS; e++) {
        add(test_repeats, "repeats", &quantised, executors[e]);
        add(test_graph, "graph", &quantised, executors[e]);
        add(test_times, "times", &quantised, executors[e]);
    }
    for (int e = 0; e < EXECUTORS; e++) {
        add(test_one_step, "one step", &window, executors[e]);
        add(test_prefix, "prefix", &window, executors[e]);
    }
    for (int e = 0; e < EXECUTORS; e++) {
        add(test_one_step, "one step", &qwen, executors[e]);
        add(test_repeats, "repeats", &qwen, executors[e]);
    }
    add(test_failures, "failures", &tied, "fused_pdl");
    for (int e = 0; e < EXECUTORS; e++)
        add_to(test_greedy, "greedy", &smollm, executors[e], e + 1 == EXECUTORS ? greedy_close : NULL);
    printf("kernels of the CPU: %s\n", b1i_kernels_best()->name);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    int failed = _cmocka_run_group_tests("cuda engine", tests, count, gpu_look, close_all);
    b1i_pool_end();
    return failed;
}
