/* SPDX-License-Identifier: MIT
 *
 * The sampler: greedy choice, each filter at its edges, penalty and mask, distributions on fixed seeds, refusals.
 */
#include "base/base.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static b1_sampler *make(b1_sampler_options o, int vocab)
{
    b1_sampler *s;
    b1_error e;
    if (b1_sampler_create(&o, vocab, &s, &e)) fail_msg("%s", e.message);
    return s;
}

static int32_t one(b1_sampler *s, const float *logits, const int32_t *history, int count)
{
    int32_t token = -1;
    b1_error e;
    if (b1_sampler_next(s, logits, history, count, &token, &e)) fail_msg("%s", e.message);
    return token;
}

/* The greedy choice of a fresh sampler. */
static int32_t greedy(double penalty, const float *logits, int vocab, const int32_t *history, int count)
{
    b1_sampler_options o = b1_sampler_defaults();
    o.repetition_penalty = penalty;
    b1_sampler *s = make(o, vocab);
    int32_t token = one(s, logits, history, count);
    b1_sampler_free(s);
    return token;
}

/* How often each token comes in `draws` draws. */
static void count(b1_sampler_options o, const float *logits, int vocab, int draws, int *hits)
{
    b1_sampler *s = make(o, vocab);
    memset(hits, 0, (size_t)vocab * sizeof *hits);
    for (int i = 0; i < draws; i++) hits[one(s, logits, NULL, 0)]++;
    b1_sampler_free(s);
}

/* Chi-square of the hits against the probabilities of `kept` tokens; tokens outside it must not come. */
static void expect(const int *hits, const double *p, int vocab, int draws, double bound)
{
    double chi = 0, sum = 0;
    for (int i = 0; i < vocab; i++) sum += p[i];
    for (int i = 0; i < vocab; i++) {
        if (p[i] == 0) {
            assert_int_equal(hits[i], 0);
            continue;
        }
        double e = draws * p[i] / sum;
        chi += (hits[i] - e) * (hits[i] - e) / e;
    }
    if (chi > bound) fail_msg("chi-square %g, bound %g", chi, bound);
}

static b1_sampler_options warm(double temperature)
{
    b1_sampler_options o = b1_sampler_defaults();
    o.temperature = temperature;
    o.seed = 11;
    return o;
}

static void argmax(void **state)
{
    (void)state;
    float x[200];
    for (int n = 1; n <= 200; n += 7) { /* every place, whatever the length */
        for (int best = 0; best < n; best++) {
            for (int i = 0; i < n; i++) x[i] = -5 - (float)(i % 3);
            x[best] = -4;
            assert_int_equal(greedy(1, x, n, NULL, 0), best);
        }
    }
    for (int i = 0; i < 200; i++) x[i] = 2;
    assert_int_equal(greedy(1, x, 200, NULL, 0), 0); /* equal: the lowest id */
    x[50] = x[60] = 3;
    assert_int_equal(greedy(1, x, 200, NULL, 0), 50);
    const float zeros[] = {-1, 0.0f, -0.0f}, swapped[] = {-1, -0.0f, 0.0f};
    assert_int_equal(greedy(1, zeros, 3, NULL, 0), 1);
    assert_int_equal(greedy(1, swapped, 3, NULL, 0), 1);
    const float wide[] = {-FLT_MAX, FLT_MAX, 0};
    assert_int_equal(greedy(1, wide, 3, NULL, 0), 1);
}

static void penalty(void **state)
{
    (void)state;
    const float x[] = {4, 3.9f, -1, -2};
    const int32_t first[] = {0}, again[] = {0, 0, 0}, both[] = {0, 1};
    assert_int_equal(greedy(1.1, x, 4, first, 1), 1);
    assert_int_equal(greedy(1.01, x, 4, again, 3), 0); /* once, not three times */
    assert_int_equal(greedy(1.1, x, 4, both, 2), 0);
    const float low[] = {-2, -3};
    assert_int_equal(greedy(2, low, 2, first, 1), 1); /* −2 becomes −4 */
    assert_int_equal(greedy(0.5, low, 2, (const int32_t[]){1}, 1), 1);
    const float huge[] = {FLT_MAX, -FLT_MAX, 0};
    assert_int_equal(greedy(1e-30, huge, 3, first, 1), 0); /* stays finite */
    assert_int_equal(greedy(1e30, huge, 3, (const int32_t[]){1}, 1), 0);

    /* in many calls of one sampler the marks of the last call do not count */
    b1_sampler_options o = b1_sampler_defaults();
    o.repetition_penalty = 1.1;
    b1_sampler *s = make(o, 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(one(s, x, first, 1), 1);
        assert_int_equal(one(s, x, NULL, 0), 0);
    }
    int32_t token;
    b1_error e;
    assert_int_equal(b1_sampler_next(s, x, (const int32_t[]){4}, 1, &token, &e), B1_ARGUMENT);
    assert_int_equal(b1_sampler_next(s, x, (const int32_t[]){-1}, 1, &token, &e), B1_ARGUMENT);
    assert_non_null(strstr(e.message, "-1"));
    b1_sampler_free(s);
}

static void mask(void **state)
{
    (void)state;
    const float x[] = {1, 5, 4, 3};
    int32_t token;
    b1_error e;
    b1_sampler *s = make(b1_sampler_defaults(), 4);
    assert_int_equal(b1_sampler_mask(s, (const int32_t[]){1}, 1, &e), B1_OK);
    assert_int_equal(one(s, x, NULL, 0), 2);
    assert_int_equal(b1_sampler_mask(s, (const int32_t[]){0, 4}, 2, &e), B1_ARGUMENT);
    assert_non_null(strstr(e.message, "4"));
    assert_int_equal(b1_sampler_mask(s, (const int32_t[]){2, 2}, 2, &e), B1_OK); /* adds to the first */
    assert_int_equal(one(s, x, NULL, 0), 3);
    assert_int_equal(b1_sampler_mask(s, (const int32_t[]){3}, 1, &e), B1_OK);
    assert_int_equal(one(s, x, NULL, 0), 0); /* the refused call masked nothing */
    assert_int_equal(b1_sampler_mask(s, (const int32_t[]){0}, 1, &e), B1_OK);
    assert_int_equal(b1_sampler_next(s, x, NULL, 0, &token, &e), B1_ARGUMENT);
    assert_non_null(strstr(e.message, "masked"));
    b1_sampler_free(s);

    b1_sampler_options o = warm(1);
    for (int k = 0; k < 3; k++) { /* with every path of the filters */
        o.top_k = k == 1 ? 2 : 0;
        o.top_p = k == 2 ? 0.9 : 1;
        s = make(o, 4);
        assert_int_equal(b1_sampler_mask(s, (const int32_t[]){1, 2}, 2, NULL), B1_OK);
        for (int i = 0; i < 100; i++) {
            int32_t t = one(s, x, NULL, 0);
            assert_true(t == 0 || t == 3);
        }
        b1_sampler_free(s);
    }
}

static void not_finite(void **state)
{
    (void)state;
    enum { N = 100 };
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    float x[N];
    int32_t token;
    b1_error e;
    for (int warmth = 0; warmth < 2; warmth++) {
        b1_sampler *s = make(warm(warmth), N);
        for (int k = 0; k < 4; k++) {
            for (int at = 0; at < N; at++) {
                for (int i = 0; i < N; i++) x[i] = (float)i;
                x[at] = bad[k];
                assert_int_equal(b1_sampler_next(s, x, NULL, 0, &token, &e), B1_NUMERIC);
                assert_int_equal(e.status, B1_NUMERIC);
            }
        }
        assert_non_null(strstr(e.message, "token 99 is infinite"));
        b1_sampler_free(s);
    }
}

static void bad_options(void **state)
{
    (void)state;
    static const struct {
        b1_sampler_options o;
        const char *word;
    } rows[] = {
        {{-1, 0, 1, 0, 1, 0}, "temperature"},
        {{NAN, 0, 1, 0, 1, 0}, "temperature"},
        {{INFINITY, 0, 1, 0, 1, 0}, "temperature"},
        {{1, -1, 1, 0, 1, 0}, "top_k"},
        {{1, 0, -0.1, 0, 1, 0}, "top_p"},
        {{1, 0, 1.1, 0, 1, 0}, "top_p"},
        {{1, 0, NAN, 0, 1, 0}, "top_p"},
        {{1, 0, 1, -0.1, 1, 0}, "min_p"},
        {{1, 0, 1, 1.5, 1, 0}, "min_p"},
        {{1, 0, 1, 0, 0, 0}, "repetition penalty"},
        {{1, 0, 1, 0, -1, 0}, "repetition penalty"},
        {{1, 0, 1, 0, INFINITY, 0}, "repetition penalty"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        b1_sampler *s = (b1_sampler *)&s;
        b1_error e;
        assert_int_equal(b1_sampler_create(&rows[i].o, 10, &s, &e), B1_ARGUMENT);
        assert_null(s);
        assert_non_null(strstr(e.message, rows[i].word));
    }
    b1_sampler *s;
    assert_int_equal(b1_sampler_create(NULL, 0, &s, NULL), B1_ARGUMENT);
    long before = b1i_alloc_live();
    for (int n = 0; n < 8; n++) {
        b1i_alloc_fail_at(n);
        b1_status st = b1_sampler_create(NULL, 10, &s, NULL);
        b1i_alloc_fail_at(-1);
        assert_int_equal(st, n < 6 ? B1_MEMORY : B1_OK);
        b1_sampler_free(s);
        assert_int_equal(b1i_alloc_live(), before);
    }
}

static const float shape[] = {0, 2, -1, 1.5f, 0.25f, 2.5f, -3, 1};
enum { SHAPE = 8, DRAWS = 40000 };

static void weights_of(double temperature, double *p)
{
    for (int i = 0; i < SHAPE; i++) p[i] = exp((double)shape[i] / temperature);
}

/* The bounds are the 0.1 % points of chi-square with 7, 2, … degrees of freedom. */
static void temperature(void **state)
{
    (void)state;
    int hits[SHAPE];
    double p[SHAPE];
    const double ts[] = {1, 0.5, 2};
    for (int k = 0; k < 3; k++) {
        count(warm(ts[k]), shape, SHAPE, DRAWS, hits);
        weights_of(ts[k], p);
        expect(hits, p, SHAPE, DRAWS, 24.3);
    }
    count(warm(1e-300), shape, SHAPE, 100, hits); /* as good as 0 */
    assert_int_equal(hits[5], 100);
    count(warm(1e300), shape, SHAPE, DRAWS, hits); /* all alike */
    for (int i = 0; i < SHAPE; i++) p[i] = 1;
    expect(hits, p, SHAPE, DRAWS, 24.3);
}

static void top_k(void **state)
{
    (void)state;
    int hits[SHAPE];
    double p[SHAPE];
    b1_sampler_options o = warm(1);
    o.top_k = 3;
    count(o, shape, SHAPE, DRAWS, hits);
    weights_of(1, p);
    p[0] = p[2] = p[4] = p[6] = p[7] = 0; /* 2.5, 2 and 1.5 stay */
    expect(hits, p, SHAPE, DRAWS, 13.8);
    o.top_k = 1;
    count(o, shape, SHAPE, 100, hits);
    assert_int_equal(hits[5], 100);
    o.top_k = 100;
    count(o, shape, SHAPE, DRAWS, hits);
    weights_of(1, p);
    expect(hits, p, SHAPE, DRAWS, 24.3);
    const float level[] = {1, 1, 1, 1}; /* equal: the lowest ids */
    o.top_k = 2;
    count(o, level, 4, 1000, hits);
    assert_int_equal(hits[0] + hits[1], 1000);
    assert_in_range(hits[0], 400, 600);
}

static void top_p(void **state)
{
    (void)state;
    float x[4];
    int hits[4];
    const double share[] = {0.1, 0.4, 0.2, 0.3};
    for (int i = 0; i < 4; i++) x[i] = (float)log(share[i]);
    static const struct {
        double p;
        int kept[4];
    } rows[] = {
        {0, {0, 1, 0, 0}},    {0.3, {0, 1, 0, 0}},  {0.39, {0, 1, 0, 0}}, {0.41, {0, 1, 0, 1}}, /* crosses: kept */
        {0.69, {0, 1, 0, 1}}, {0.71, {0, 1, 1, 1}}, {0.91, {1, 1, 1, 1}}, {1, {1, 1, 1, 1}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        b1_sampler_options o = warm(1);
        o.top_p = rows[r].p;
        count(o, x, 4, 4000, hits);
        double p[4];
        for (int i = 0; i < 4; i++) p[i] = rows[r].kept[i] * share[i];
        expect(hits, p, 4, 4000, 16.3);
    }
    const float second[] = {1, 1.5f, 0.9f}; /* the best is not the first of the candidates */
    b1_sampler_options best = warm(1);
    best.top_p = 0;
    count(best, second, 3, 100, hits);
    assert_int_equal(hits[1], 100);
    b1_sampler_options o = warm(1); /* of what top-k left: 0.4 and 0.3 of 0.7 */
    o.top_k = 2;
    o.top_p = 0.5;
    count(o, x, 4, 1000, hits);
    assert_int_equal(hits[1], 1000);
    o.top_p = 0.6;
    count(o, x, 4, 4000, hits);
    expect(hits, (const double[]){0, 0.4, 0, 0.3}, 4, 4000, 10.8);
}

static void min_p(void **state)
{
    (void)state;
    float x[4];
    int hits[4];
    const double share[] = {0.1, 0.4, 0.2, 0.3};
    for (int i = 0; i < 4; i++) x[i] = (float)log(share[i]);
    b1_sampler_options o = warm(1);
    o.min_p = 0.51; /* of the largest: 0.204 */
    count(o, x, 4, 4000, hits);
    expect(hits, (const double[]){0, 0.4, 0, 0.3}, 4, 4000, 10.8);
    o.min_p = 0.24;
    count(o, x, 4, 4000, hits);
    expect(hits, share, 4, 4000, 16.3);
    o.min_p = 1;
    count(o, x, 4, 100, hits);
    assert_int_equal(hits[1], 100);
    o.min_p = 0.26; /* with top-p, whichever cuts more */
    o.top_p = 0.5;
    count(o, x, 4, 4000, hits);
    expect(hits, (const double[]){0, 0.4, 0, 0.3}, 4, 4000, 10.8);
}

/* Filters on a large vocabulary against a full sort. */
static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static void large_vocabulary(void **state)
{
    (void)state;
    enum { N = 5003 };
    float *x = malloc(N * sizeof *x), *sorted = malloc(N * sizeof *sorted);
    double whole = 0;
    for (int i = 0; i < N; i++) {
        uint64_t r = b1i_mix64((uint64_t)i);
        x[i] = (float)(r % 100000) * 1e-4f - (float)(r >> 40 & 3); /* many are equal */
        whole += exp((double)x[i]);
    }
    memcpy(sorted, x, N * sizeof *x);
    qsort(sorted, N, sizeof *sorted, descending);
    const int ks[] = {1, 40, 79, 80, 1000} /* about the number of blocks */;
    for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
        b1_sampler_options o = warm(1e6); /* all that is kept is equally likely */
        o.top_k = ks[k];
        b1_sampler *s = make(o, N);
        float lowest = FLT_MAX;
        for (int i = 0; i < 12 * (ks[k] < 400 ? ks[k] : 40); i++) {
            float got = x[one(s, x, NULL, 0)];
            assert_true(got >= sorted[ks[k] - 1]);
            lowest = got < lowest ? got : lowest;
        }
        if (ks[k] < 400) assert_true(lowest == sorted[ks[k] - 1]);
        b1_sampler_free(s);
    }
    const double ps[] = {0.002, 0.02, 0.5};
    for (size_t k = 0; k < sizeof ps / sizeof *ps; k++) {
        double sum = 0;
        int kept = 0;
        while (sum < ps[k] * whole) sum += exp((double)sorted[kept++]);
        b1_sampler_options o = warm(1);
        o.top_p = ps[k];
        b1_sampler *s = make(o, N);
        float lowest = FLT_MAX;
        for (int i = 0; i < 1000; i++) {
            float got = x[one(s, x, NULL, 0)];
            assert_true(got >= sorted[kept]); /* one further, for sums rounded otherwise */
            lowest = got < lowest ? got : lowest;
        }
        assert_true(lowest <= sorted[kept - 1 - kept / 20]);
        b1_sampler_free(s);
    }
    free(x);
    free(sorted);
}

static void repeats(void **state)
{
    (void)state;
    int32_t tokens[3][32];
    for (int k = 0; k < 3; k++) {
        b1_sampler_options o = warm(1);
        o.seed = k == 2;
        b1_sampler *s = make(o, SHAPE);
        for (int i = 0; i < 32; i++) tokens[k][i] = one(s, shape, NULL, 0);
        b1_sampler_free(s);
    }
    assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
    assert_memory_not_equal(tokens[0], tokens[2], sizeof tokens[0]);
    /* the same on every machine and with every compiler */
    const int32_t known[12] = {5, 1, 5, 7, 3, 1, 7, 1, 5, 7, 5, 5};
    assert_memory_equal(tokens[0], known, sizeof known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argmax),      cmocka_unit_test(penalty),
        cmocka_unit_test(mask),        cmocka_unit_test(not_finite),
        cmocka_unit_test(bad_options), cmocka_unit_test(temperature),
        cmocka_unit_test(top_k),       cmocka_unit_test(top_p),
        cmocka_unit_test(min_p),       cmocka_unit_test(large_vocabulary),
        cmocka_unit_test(repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
