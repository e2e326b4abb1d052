/* SPDX-License-Identifier: MIT
 *
 * From logits to a token. Order: mask, repetition penalty, temperature, top-k, top-p, min-p, draw; temperature 0 takes
 * the largest after mask and penalty.
 *
 * Refuses logits that are not finite. The same logits, history and seed give the same tokens on every machine: the
 * exponential and the random numbers are ours, sums run in one fixed order, and products are not contracted into
 * fused multiply-adds.
 *
 * No full sort. A floor that cannot cut into the answer leaves few candidates: for top-k the k-th of the maxima of
 * blocks; for top-p the weight below which all tokens together cannot make up what is left out. The candidates are
 * counted into BINS by their distance from the largest, and only the bin in which a filter ends is sorted.
 * One draw is used per token, none at temperature 0.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

#include "base/base.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 1024, LANES = 16, BLOCK = 64 };

/* Weights below it are never drawn; the largest is 1. */
#define NEGLIGIBLE 2e-38f

typedef struct candidate {
    float logit;
    float weight; /* exp((logit − largest) / temperature) */
    int32_t id;
} candidate;

struct b1_sampler {
    b1_sampler_options options;
    int vocab;
    uint64_t draws;
    bool masked_any;
    uint8_t *masked;         /* [vocab] */
    float *work;             /* [vocab] logits after mask (−infinity) and penalty */
    float *weight;           /* [vocab] where top-k is off */
    candidate *all, *ending; /* [vocab] candidates; those of the bin where a filter ends */
};

b1_sampler_options b1_sampler_defaults(void)
{
    return (b1_sampler_options){.temperature = 0, .top_p = 1, .repetition_penalty = 1};
}

static b1_status check_options(const b1_sampler_options *o, int vocab, b1_error *err)
{
    if (vocab < 1) return b1i_fail(err, B1_ARGUMENT, "vocabulary of %d tokens, expected at least 1", vocab);
    if (!isfinite(o->temperature) || o->temperature < 0)
        return b1i_fail(err, B1_ARGUMENT, "temperature is %g, expected a finite number of at least 0", o->temperature);
    if (o->top_k < 0) return b1i_fail(err, B1_ARGUMENT, "top_k is %d, expected at least 0 (off)", o->top_k);
    if (!(o->top_p >= 0 && o->top_p <= 1)) return b1i_fail(err, B1_ARGUMENT, "top_p is %g, expected 0 to 1", o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1)) return b1i_fail(err, B1_ARGUMENT, "min_p is %g, expected 0 to 1", o->min_p);
    if (!isfinite(o->repetition_penalty) || o->repetition_penalty <= 0)
        return b1i_fail(err, B1_ARGUMENT, "repetition penalty is %g, expected a finite number above 0",
                        o->repetition_penalty);
    return B1_OK;
}

b1_status b1_sampler_create(const b1_sampler_options *options, int vocab, b1_sampler **out, b1_error *err)
{
    b1_status st;
    b1_sampler *s = NULL;
    b1_sampler_options o = options ? *options : b1_sampler_defaults();
    size_t n = (size_t)vocab;
    *out = NULL;
    B1I_TRY(check_options(&o, vocab, err));
    s = b1i_calloc(1, sizeof *s);
    if (!s) return b1i_fail_memory(err, sizeof *s);
    s->options = o;
    s->vocab = vocab;
    s->masked = b1i_calloc(n, sizeof *s->masked);
    s->work = b1i_malloc(n * sizeof *s->work);
    s->weight = b1i_malloc(n * sizeof *s->weight);
    s->all = b1i_malloc(n * sizeof *s->all);
    s->ending = b1i_malloc(n * sizeof *s->ending);
    if (!s->masked || !s->work || !s->weight || !s->all || !s->ending) {
        st = b1i_fail_memory(err, n * sizeof *s->all);
        goto fail;
    }
    *out = s;
    return B1_OK;
fail:
    b1_sampler_free(s);
    return st;
}

void b1_sampler_free(b1_sampler *s)
{
    if (!s) return;
    b1i_free(s->masked);
    b1i_free(s->work);
    b1i_free(s->weight);
    b1i_free(s->all);
    b1i_free(s->ending);
    b1i_free(s);
}

b1_status b1_sampler_mask(b1_sampler *s, const int32_t *ids, int count, b1_error *err)
{
    for (int i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= s->vocab)
            return b1i_fail(err, B1_ARGUMENT, "masked token %d, expected 0 to %d", (int)ids[i], s->vocab - 1);
    }
    for (int i = 0; i < count; i++) s->masked[ids[i]] = 1;
    s->masked_any = s->masked_any || count > 0;
    return B1_OK;
}

static b1_status check_finite(const float *logits, int n, b1_error *err)
{
    uint32_t bad = 0, u;
    for (int i = 0; i < n; i++) {
        memcpy(&u, &logits[i], sizeof u);
        bad |= (uint32_t)((u & 0x7f800000) == 0x7f800000);
    }
    if (!bad) return B1_OK;
    int i = 0;
    while (isfinite(logits[i])) i++;
    return b1i_fail(err, B1_NUMERIC, "the logit of token %d is %s", i, isnan(logits[i]) ? "not a number" : "infinite");
}

static float largest(const float *x, int n)
{
    float m[LANES], best;
    int i = 0;
    for (int k = 0; k < LANES; k++) m[k] = x[0];
    for (; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++) m[k] = x[i + k] > m[k] ? x[i + k] : m[k];
    }
    best = m[0];
    for (int k = 1; k < LANES; k++) best = m[k] > best ? m[k] : best;
    for (; i < n; i++) best = x[i] > best ? x[i] : best;
    return best;
}

/* The logits after mask and penalty: the caller's own where neither changes one. */
static b1_status adjust(b1_sampler *s, const float *logits, const int32_t *history, int count, const float **out,
                        b1_error *err)
{
    double penalty = s->options.repetition_penalty;
    *out = logits;
    for (int i = 0; i < count; i++) {
        if (history[i] < 0 || history[i] >= s->vocab)
            return b1i_fail(err, B1_ARGUMENT, "token %d at position %d of the history, expected 0 to %d",
                            (int)history[i], i, s->vocab - 1);
    }
    if (!s->masked_any && (penalty == 1 || count == 0)) return B1_OK;
    memcpy(s->work, logits, (size_t)s->vocab * sizeof *logits);
    for (int i = 0; i < count && penalty != 1; i++) { /* from the logit as it came: once, however often the token did */
        int32_t id = history[i];
        double v = logits[id] > 0 ? (double)logits[id] / penalty : (double)logits[id] * penalty;
        s->work[id] = (float)fmax(fmin(v, FLT_MAX), -FLT_MAX);
    }
    for (int i = 0; i < s->vocab && s->masked_any; i++) s->work[i] = s->masked[i] ? -INFINITY : s->work[i];
    *out = s->work;
    return B1_OK;
}

/* exp(x) for x ≤ 0, relative error below 3e-7; exp(−87), which is below NEGLIGIBLE, for all x below −87. */
static inline float exp_negative(float x)
{
    uint32_t size; /* the magnitude's bits order as the magnitude does; an integer minimum is no branch */
    memcpy(&size, &x, sizeof size);
    size &= 0x7fffffff;
    size = size < 0x42ae0000 ? size : 0x42ae0000; /* 87 */
    float z;
    memcpy(&z, &size, sizeof z);
    z = -z;
    float n = z * 1.44269504f - 0.5f; /* truncation below rounds it to nearest: it is negative */
    int32_t k = (int32_t)n;
    float r = z - (float)k * 0.693359375f; /* ln 2 in two parts, the first exact in few bits */
    r = r + (float)k * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t power = (uint32_t)(k + 127) << 23;
    float scale;
    memcpy(&scale, &power, sizeof scale);
    return p * scale;
}

static float usable_temperature(double t) { return t < 1e-30 ? 1e-30f : t > 1e30 ? 1e30f : (float)t; }

static int by_rank(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static inline int bin_of(float high, double per, float logit)
{
    double at = ((double)high - (double)logit) * per;
    return at < BINS - 1 ? (int)at : BINS - 1;
}

/* Keeps the shortest run of candidates in rank order (larger logit, then lower id) whose sum reaches `target`: the sum
 * of weights, or of ones where `counted`. At least one is kept. Returns how many. */
static int keep_best(b1_sampler *s, int n, double target, bool counted)
{
    double sums[BINS] = {0}, before = 0;
    float high = s->all[0].logit, low = high;
    for (int i = 1; i < n; i++) {
        high = s->all[i].logit > high ? s->all[i].logit : high;
        low = s->all[i].logit < low ? s->all[i].logit : low;
    }
    double span = (double)high - low, per = span > 0 ? BINS / span : 0;
    for (int i = 0; i < n; i++) sums[bin_of(high, per, s->all[i].logit)] += counted ? 1 : (double)s->all[i].weight;
    int last = 0, kept = 0, ending = 0;
    while (last < BINS - 1 && before + sums[last] < target) before += sums[last++];
    for (int i = 0; i < n; i++) {
        int b = bin_of(high, per, s->all[i].logit);
        if (b < last)
            s->all[kept++] = s->all[i];
        else if (b == last)
            s->ending[ending++] = s->all[i];
    }
    qsort(s->ending, (size_t)ending, sizeof *s->ending, by_rank);
    for (int i = 0; i < ending && (before < target || kept == 0); i++) {
        before += counted ? 1 : (double)s->ending[i].weight;
        s->all[kept++] = s->ending[i];
    }
    return kept;
}

/* Candidates whose value is at least `floor`, in order of their ids; weights are 0 where there are none yet. */
static int collect(b1_sampler *s, const float *x, const float *weight, float floor)
{
    const float *value = weight ? weight : x;
    int n = 0;
    for (int b = 0; b < s->vocab; b += BLOCK) {
        int end = s->vocab - b < BLOCK ? s->vocab : b + BLOCK, any = 0;
        for (int i = b; i < end; i++) any |= value[i] >= floor;
        for (int i = b; i < end && any; i++) {
            s->all[n] = (candidate){x[i], weight ? weight[i] : 0, i};
            n += value[i] >= floor;
        }
    }
    return n;
}

/* The k best of x, with their weights. */
static int take_top_k(b1_sampler *s, const float *x, float top, int k)
{
    float floor = -FLT_MAX, t = usable_temperature(s->options.temperature);
    int blocks = 0;
    for (int b = 0; b < s->vocab; b += BLOCK, blocks++)
        s->all[blocks] = (candidate){largest(x + b, s->vocab - b < BLOCK ? s->vocab - b : BLOCK), 0, b};
    if (k < blocks) { /* at least k tokens reach the k-th of the maxima */
        int kept = 0;
        for (int i = 0; i < blocks; i++) { /* a block that is masked whole has none */
            s->all[kept] = s->all[i];
            kept += s->all[i].logit != -INFINITY;
        }
        if (k < kept) {
            kept = keep_best(s, kept, k, true);
            floor = s->all[0].logit;
            for (int i = 1; i < kept; i++) floor = s->all[i].logit < floor ? s->all[i].logit : floor;
        }
    }
    int n = collect(s, x, NULL, floor);
    if (k < n) n = keep_best(s, n, k, true);
    for (int i = 0; i < n; i++) s->all[i].weight = exp_negative((s->all[i].logit - top) / t);
    return n;
}

/* Weights of all tokens, and those that top-p and min-p could keep. *whole is the sum of all weights. */
static int take_all(b1_sampler *s, const float *x, float top, double *whole)
{
    const b1_sampler_options *o = &s->options;
    float t = usable_temperature(o->temperature);
    double part[LANES] = {0};
    float *weight = s->weight;
    int i = 0, vocab = s->vocab;
    for (int v = 0; v < vocab; v++) weight[v] = exp_negative((x[v] - top) / t);
    for (; i + LANES <= vocab; i += LANES) {
        for (int k = 0; k < LANES; k++) part[k] += (double)weight[i + k];
    }
    for (int k = 0; i < vocab; i++, k++) part[k] += (double)weight[i];
    *whole = 0;
    for (int k = 0; k < LANES; k++) *whole += part[k];
    double floor = o->top_p < 1 ? (1 - o->top_p) * *whole / vocab / 2 : 0;
    floor = fmin(fmax(floor, o->min_p), 0.5);
    return collect(s, x, weight, fmaxf((float)floor * 0.999f, NEGLIGIBLE));
}

static double total(const candidate *c, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)c[i].weight;
    return sum;
}

static int32_t draw(b1_sampler *s, int n)
{
    double whole = total(s->all, n), at = 0;
    double u = (double)(b1i_mix64(b1i_mix64(s->options.seed) + s->draws++) >> 11) * 0x1p-53;
    int last = 0;
    for (int i = 0; i < n; i++) {
        if (s->all[i].weight < NEGLIGIBLE) continue;
        last = i;
        at += s->all[i].weight;
        if (at > u * whole) break;
    }
    return s->all[last].id;
}

b1_status b1_sampler_next(b1_sampler *s, const float *logits, const int32_t *history, int history_count, int32_t *token,
                          b1_error *err)
{
    const b1_sampler_options *o = &s->options;
    const float *x;
    b1_status st;
    int n = 0;
    B1I_TRY(check_finite(logits, s->vocab, err));
    B1I_TRY(adjust(s, logits, history, history_count, &x, err));
    float top = largest(x, s->vocab);
    if (top == -INFINITY) return b1i_fail(err, B1_ARGUMENT, "all %d tokens are masked", s->vocab);
    if (o->temperature == 0) {
        while (x[n] != top) n++;
        *token = n;
        return B1_OK;
    }
    double whole;
    if (o->top_k > 0) {
        n = take_top_k(s, x, top, o->top_k);
        whole = total(s->all, n);
    } else {
        n = take_all(s, x, top, &whole);
    }
    if (o->top_p < 1) n = keep_best(s, n, o->top_p * whole, false);
    if (o->min_p > 0) { /* the largest weight is 1 */
        int kept = 0;
        for (int i = 0; i < n; i++) {
            if ((double)s->all[i].weight >= o->min_p) s->all[kept++] = s->all[i];
        }
        n = kept;
    }
    *token = draw(s, n);
    return B1_OK;
fail:
    return st;
}
