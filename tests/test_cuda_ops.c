/* SPDX-License-Identifier: MIT
 *
 * Every CUDA kernel as a program launches it, alone: an item's inputs are fresh random values, its outputs are
 * poisoned with NaN, its launches run, and each output is compared with the same ops in double. Real and ragged
 * shapes, every weight format, 1 to 8 rows of one sequence and of several.
 *
 * How far an output may lie off follows from types, lengths and the reference alone (u = 2^-24, b1i_op_tolerance):
 *   norm       what its f32 operations can make of an element at most, see norm_row()
 *   linear     its tolerance for f32 of the largest output, for its input is bf16 here and there; where the input is
 *              normalised inside the launch, the weight times the step from one bf16 to the next of every element that
 *              lies within its own bound of the edge between them and may have been rounded the other way
 *   silu_mul   what gate's and up's bounds make of it: |silu'| is at most 1.1
 *   attention  its tolerance for bf16 keys and values, length the positions seen (head_dim at least)
 *   a value that is kept as bf16: half a unit in the last place, 2^-8 of itself, on top
 * Appended keys and values are compared bit by bit; a key that lies within its bound of a rounding edge may be either.
 * Nothing but an item's outputs may change: the other values, rows and columns past the step's, the rest of the KV
 * cache, the memory around the logits. Positions of the cache past the end hold NaN. Where the reference is not finite,
 * the output is not either.
 *
 * Longer than 800 lines, for every item's reference, poisoning and comparison work on one state of the machine, and a
 * file a kernel would repeat it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/model_fixture.h"

#include "tests/cuda_rig.h"
#include "tests/tiny_model.h"

enum { N = B1I_CUDA_ROWS, GUARD = 64, JUNK = 0xffff, SEQUENCES = 3 };

static int workers = 2;

/* A value here: rows of doubles, and how far each may be off: 0 but where an op of the item at hand made it. */
typedef struct value {
    double *x, *bound; /* [8][cols] */
} value;

/* What the rows of a random value are like: kinds take turns, row by row. */
typedef enum row_kind { kind_even, kind_tiny, kind_zero, kind_huge, kind_wide, kind_infinite, row_kinds } row_kind;

typedef struct bench {
    cuda_rig r;
    b1i_cuda_form form;
    const b1i_cuda_program *program;
    value val[b1i_value_count];
    b1i_cuda_kv kv[SEQUENCES];
    uint16_t *before[SEQUENCES], *after[SEQUENCES]; /* the caches */
    b1i_gpu_ptr logits_block, mask;
    uint32_t *mask_here;
    float *cos, *sin; /* [8][half], as the device has them */
    int n, logits_from;
    int sequence[N], position[N], filled[SEQUENCES];
    bool kinds; /* rows are of all kinds, the first of first_kind; otherwise they are even */
    int first_kind;
    bool hole; /* the last position before a step's first row holds NaN */
    const char *what;
} bench;

/* ---- making one ---- */

/* Random keys and values at [0, length), junk past it (for a hole, at length − 1 too), zeros past head_dim; positions
 * from `filled` on are junk already. */
static void fill_cache(bench *b, int s, int length)
{
    const b1i_cuda_kv *kv = &b->kv[s];
    const int heads = b->r.c->layers * b->r.c->kv_heads, end = length > b->filled[s] ? length : b->filled[s];
    for (int h = 0; h < heads; h++)
        for (int p = 0; p < end; p++)
            for (int d = 0; d < b->r.c->head_dim; d++) {
                const bool good = p < length - b->hole;
                b->before[s][kv_at(kv, h, false, p, d)] = good ? b1i_f32_to_bf16(uniform() * 2) : JUNK;
                b->before[s][kv_at(kv, h, true, p, d)] = good ? b1i_f32_to_bf16(uniform()) : JUNK;
            }
    b->filled[s] = length + N;
    kv_put(the_gpu, kv, b->before[s]);
}

static void bench_open(bench *b, b1i_model *m, int64_t context)
{
    *b = (bench){0};
    cuda_rig_open(&b->r, m);
    const b1i_config *c = b->r.c;
    for (int v = b1i_v_x; v < b1i_value_count; v++) {
        size_t count = (size_t)N * (size_t)b1i_value_cols(c, (b1i_value)v);
        b->val[v].x = calloc(count, sizeof(double));
        b->val[v].bound = calloc(count, sizeof(double));
        assert_true(b->val[v].x && b->val[v].bound);
    }
    for (int s = 0; s < SEQUENCES; s++) {
        must(b1i_cuda_kv_create(the_gpu, c, context + 40 * s, &b->kv[s], err));
        assert_int_equal(b->kv[s].dim, b1i_cuda_dim(c->head_dim));
        b->before[s] = malloc(b->kv[s].bytes);
        assert_non_null(b->before[s]);
        memset(b->before[s], 0, b->kv[s].bytes);
        b->filled[s] = (int)b->kv[s].capacity;
        fill_cache(b, s, 0);
    }
    const size_t words = ((size_t)c->vocab + 31) / 32;
    must(b1i_gpu_alloc(the_gpu, ((size_t)N * (size_t)c->vocab + 2 * GUARD) * sizeof(float), "logits of a test",
                       &b->logits_block, err));
    must(b1i_gpu_alloc(the_gpu, words * 4, "mask of a test", &b->mask, err));
    b->mask_here = calloc(words, 4);
    b->cos = calloc((size_t)N * (size_t)c->head_dim / 2, sizeof(float));
    b->sin = calloc((size_t)N * (size_t)c->head_dim / 2, sizeof(float));
    assert_true(b->mask_here && b->cos && b->sin);
}

static void bench_close(bench *b)
{
    for (int v = b1i_v_x; v < b1i_value_count; v++) {
        free(b->val[v].x);
        free(b->val[v].bound);
    }
    for (int s = 0; s < SEQUENCES; s++) {
        b1i_cuda_kv_free(the_gpu, &b->kv[s]);
        free(b->before[s]);
        free(b->after[s]);
    }
    b1i_gpu_free(the_gpu, b->logits_block);
    b1i_gpu_free(the_gpu, b->mask);
    free(b->mask_here);
    free(b->cos);
    free(b->sin);
    cuda_rig_close(&b->r);
}

static int cols_of(const bench *b, b1i_value v) { return b1i_value_cols(b->r.c, v); }
static double *row_of(const bench *b, b1i_value v, int row)
{
    return b->val[v].x + (size_t)row * (size_t)cols_of(b, v);
}
static double *bound_of(const bench *b, b1i_value v, int row)
{
    return b->val[v].bound + (size_t)row * (size_t)cols_of(b, v);
}

/* A factor for column i of a row. What is huge in f32 has squares that can be added up. */
static float factor_of(row_kind kind, size_t i, size_t cols, bool bf16)
{
    switch (kind) {
    case kind_tiny:
        return 1e-30f;
    case kind_zero:
        return 0;
    case kind_huge:
        return bf16 ? 1e30f : 1e15f;
    case kind_wide:
        return ldexpf(1, -(int)(b1i_mix64(seed_now++) % 45));
    case kind_infinite:
        return i == cols / 2 ? INFINITY : 1;
    default:
        return 1;
    }
}

/* Fresh random values of about `scale`, in all eight rows; on the device too. */
static void randomise(bench *b, b1i_value v, float scale)
{
    const size_t cols = (size_t)cols_of(b, v), count = (size_t)N * cols;
    const bool bf16 = b1i_cuda_value_is_bf16(v);
    float *rows = malloc(count * sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < count; i++) {
        row_kind kind = b->kinds ? (row_kind)(((size_t)b->first_kind + i / cols) % row_kinds) : kind_even;
        rows[i] = uniform() * scale * factor_of(kind, i % cols, cols, bf16);
        if (bf16) rows[i] = bf16_of(rows[i]);
        b->val[v].x[i] = (double)rows[i];
        b->val[v].bound[i] = 0;
    }
    value_put(&b->r.m, v, rows);
    free(rows);
}

/* ---- a step ---- */

/* Rows of sequence 0 at `position`, or of all in turn, each its sequence's next. */
static void choose_rows(bench *b, int n, int position, bool several)
{
    int lengths[SEQUENCES] = {position, several ? position / 2 : 0, several ? position * 3 / 4 + 1 : 0};
    b->n = n;
    for (int s = 0; s < SEQUENCES; s++) fill_cache(b, s, lengths[s]);
    for (int i = 0; i < n; i++) {
        b->sequence[i] = several ? i % SEQUENCES : 0;
        b->position[i] = lengths[b->sequence[i]]++;
    }
}

static b1i_gpu_ptr logits_at(const bench *b) { return b->logits_block + GUARD * sizeof(float); }

/* Runs item 0 with these rows: parameters, embedding, cos and sin; checks all that it gives. */
static void begin(bench *b, int logits_from, bool masked)
{
    const b1i_config *c = b->r.c;
    const int half = c->head_dim / 2;
    b1i_cuda_machine *m = &b->r.m;
    int32_t tokens[N];
    b->logits_from = logits_from;
    for (int i = 0; i < N; i++) tokens[i] = (int32_t)(b1i_mix64(seed_now++) % (uint64_t)c->vocab);
    tokens[b->n - 1] = c->vocab - 1;
    stage_rows(&b->r, &b->kv[0], tokens, b->n, 0, logits_from, logits_at(b), masked ? b->mask : 0);
    for (int i = 0; i < b->n; i++) {
        m->staged->row[i].position = b->position[i];
        m->staged->row[i].kv = b->kv[b->sequence[i]].data;
        m->staged->row[i].head_bytes = b->kv[b->sequence[i]].head_bytes;
    }
    value_put(&b->r.m, b1i_v_x, NULL);
    run_items(b->program, 0, 0);

    uint8_t *x = value_raw(&b->r.m, b1i_v_x), *scratch = malloc((size_t)c->hidden * 4);
    float *want = malloc((size_t)c->hidden * sizeof *want), *inverse = malloc((size_t)c->head_dim * sizeof *inverse);
    float factor;
    assert_true(scratch && want && inverse);
    for (int row = 0; row < N; row++) {
        if (row < b->n) b1i_tensor_rows_f32(&b->r.model->embedding, tokens[row], 1, scratch, want);
        for (int64_t i = 0; i < m->stride[b1i_v_x]; i++) {
            uint32_t got, right = row < b->n ? 0 : 0xffffffffu;
            memcpy(&got, x + ((size_t)row * (size_t)m->stride[b1i_v_x] + (size_t)i) * 4, 4);
            if (i >= c->hidden) right = 0;
            if (row < b->n && i < c->hidden) memcpy(&right, &want[i], 4);
            if (got != right && !(got << 1 == 0 && right << 1 == 0))
                fail_msg("%s: embedding of row %d, column %d: %08x, not %08x", b->what, row, (int)i, got, right);
        }
    }
    must(b1i_gpu_download(the_gpu, b->cos, m->cos, (size_t)b->n * (size_t)half * 4, err));
    must(b1i_gpu_download(the_gpu, b->sin, m->sin, (size_t)b->n * (size_t)half * 4, err));
    b1i_rope_frequencies(c, inverse, &factor);
    for (int row = 0; row < b->n; row++)
        for (int j = 0; j < half; j++) {
            float angle = (float)b->position[row] * inverse[j];
            double off = fmax(fabs((double)b->cos[row * half + j] - cos((double)angle) * (double)factor),
                              fabs((double)b->sin[row * half + j] - sin((double)angle) * (double)factor));
            if (!(off <= 8 * 0x1p-24 * (double)factor))
                fail_msg("%s: cos or sin of position %d, pair %d lies %g off", b->what, b->position[row], j, off);
        }
    free(x);
    free(scratch);
    free(want);
    free(inverse);
}

/* ---- the ops in double ---- */

static double largest(const double *x, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++) most = fmax(most, fabs(x[i]));
    return most;
}

static float *vector_here(const bench *b, int slot)
{
    const b1i_tensor *t = b1i_slot_tensor(b->r.model, slot);
    float *w = malloc((size_t)t->cols * sizeof *w);
    uint8_t *scratch = malloc((size_t)t->cols * 4);
    assert_true(w && scratch);
    b1i_tensor_rows_f32(t, 0, 1, scratch, w);
    free(scratch);
    return w;
}

/* in → out of `count`; the bound is what the kernels' f32 can make of an element, and what the input's bounds become.
 *
 * No term of the sum of squares is negative, so its relative error is at most u times the longest chain of roundings
 * behind a term: in k_rmsnorm a product, count / 1024 sums in a thread, 5 in a warp, 31 over the warps; in the linear
 * kernels of several rows 4 for a thread's four squares, count / 128 sums, 5 in a warp; in all others less than one of
 * these. That is 38 + count / 128 at most, the quotients rounded up; the division by `count` and eps's sum make it 40.
 * The root halves it; the root itself, the reciprocal and two products add 4. */
static void norm_row(const float *w, const double *in, const double *in_bound, int count, double eps, double *out,
                     double *bound)
{
    const double own = 0x1p-24 * (24 + count / 256.0), least = 0x1p-148; /* products may underflow */
    double sum = 0, before = largest(in_bound, count);
    for (int i = 0; i < count; i++) sum += in[i] * in[i];
    const double inverse = 1 / sqrt(sum / count + eps);
    for (int i = 0; i < count; i++) {
        out[i] = in[i] * inverse * (double)w[i];
        bound[i] = own * fabs(out[i]) + least + 2 * before * inverse * fabs((double)w[i]);
    }
}

static void op_norm(bench *b, const b1i_op *op, int length)
{
    float *w = vector_here(b, op->weight);
    const int cols = cols_of(b, op->out);
    double *copy = malloc(2 * (size_t)length * sizeof *copy);
    assert_non_null(copy);
    for (int row = 0; row < b->n; row++)
        for (int at = 0; at < cols; at += length) { /* in and out may be one */
            memcpy(copy, row_of(b, op->in[0], row) + at, (size_t)length * sizeof *copy);
            memcpy(copy + length, bound_of(b, op->in[0], row) + at, (size_t)length * sizeof *copy);
            norm_row(w, copy, copy + length, length, (double)b->r.c->norm_eps, row_of(b, op->out, row) + at,
                     bound_of(b, op->out, row) + at);
        }
    free(copy);
    free(w);
}

/* An element that may be rounded to either of two bf16. */
typedef struct edge {
    int at;
    double apart; /* those two */
} edge;

typedef struct product {
    const b1i_tensor *t;
    double *x;   /* [8][cols], rounded to bf16 */
    edge *edges; /* [8][cols], of which a row has edge_count */
    int edge_count[N];
    float *bias;
    double *y, *bound; /* the bound is what the edges give */
    int from, n;
} product;

/* The rows' elements as bf16. Rounding is monotonic: what lies within the bound becomes one from `low` to `high`. */
static void round_input(const bench *b, b1i_value in, product *p)
{
    const int cols = cols_of(b, in);
    for (int r = 0; r < b->n; r++)
        for (int i = 0; i < cols; i++) {
            const double x = row_of(b, in, r)[i], off = bound_of(b, in, r)[i];
            const double low = (double)bf16_of((float)(x - off)), high = (double)bf16_of((float)(x + off));
            p->x[r * cols + i] = (double)bf16_of((float)x);
            if (low < high) p->edges[r * cols + p->edge_count[r]++] = (edge){i, high - low};
        }
}

static void product_share(void *arg, int worker, int all)
{
    const product *p = arg;
    const int64_t cols = p->t->cols;
    int64_t first, end;
    float *w = malloc((size_t)cols * sizeof *w);
    uint8_t *scratch = malloc((size_t)cols * 4 + 512);
    if (!w || !scratch) abort();
    b1i_share(p->t->rows, 1, worker, all, &first, &end);
    for (int64_t o = first; o < end; o++) {
        b1i_tensor_rows_f32(p->t, o, 1, scratch, w);
        for (int r = p->from; r < p->n; r++) {
            double sum[4] = {0}, other = 0;
            int64_t i = 0;
            const double *x = p->x + (int64_t)r * cols;
            const edge *e = p->edges + (int64_t)r * cols;
            for (; i + 4 <= cols; i += 4)
                for (int j = 0; j < 4; j++) sum[j] += (double)w[i + j] * x[i + j];
            for (; i < cols; i++) sum[0] += (double)w[i] * x[i];
            p->y[(int64_t)r * p->t->rows + o] = sum[0] + sum[1] + sum[2] + sum[3] + (p->bias ? (double)p->bias[o] : 0);
            for (int k = 0; k < p->edge_count[r]; k++) other += fabs((double)w[e[k].at]) * e[k].apart;
            p->bound[(int64_t)r * p->t->rows + o] = other;
        }
    }
    free(w);
    free(scratch);
}

static void op_linear(bench *b, const b1i_op *op)
{
    const b1i_tensor *t = b1i_slot_tensor(b->r.model, op->weight);
    const size_t cols = (size_t)t->cols;
    product p = {.t = t,
                 .x = malloc((size_t)N * cols * sizeof *p.x),
                 .edges = malloc((size_t)N * cols * sizeof *p.edges),
                 .bias = op->bias == b1i_slot_none ? NULL : vector_here(b, op->bias),
                 .y = b->val[op->out].x,
                 .bound = b->val[op->out].bound,
                 .from = op->out == b1i_v_logits ? b->logits_from : 0,
                 .n = b->n};
    assert_true(p.x && p.edges);
    round_input(b, op->in[0], &p);
    b1i_pool_run(workers, product_share, &p);
    for (int row = p.from; row < b->n; row++) {
        const double own =
            (double)b1i_op_tolerance(op->id, b1i_type_f32, t->cols) * largest(row_of(b, op->out, row), (int)t->rows);
        for (int64_t o = 0; o < t->rows; o++) bound_of(b, op->out, row)[o] += own;
    }
    free(p.x);
    free(p.edges);
    free(p.bias);
}

static void op_rope(bench *b, const b1i_op *op)
{
    const int hd = b->r.c->head_dim, half = hd / 2;
    for (int row = 0; row < b->n; row++)
        for (int at = 0; at < cols_of(b, op->out); at += hd) {
            double *x = row_of(b, op->out, row) + at, *e = bound_of(b, op->out, row) + at;
            const double own = (double)b1i_op_tolerance(op->id, b1i_type_f32, 1) * largest(x, hd);
            for (int j = 0; j < half; j++) {
                double c = (double)b->cos[row * half + j], s = (double)b->sin[row * half + j], p = x[j],
                       q = x[j + half];
                x[j] = p * c - q * s;
                x[j + half] = q * c + p * s;
                e[j] = e[j + half] = own + e[j] + e[j + half];
            }
        }
}

/* Appended keys and values, bit by bit, and nothing else changed in any cache. */
static void op_append(bench *b, const b1i_op *op)
{
    const b1i_config *c = b->r.c;
    for (int s = 0; s < SEQUENCES; s++) {
        const b1i_cuda_kv *kv = &b->kv[s];
        free(b->after[s]);
        b->after[s] = kv_get(the_gpu, kv);
        for (int row = 0; row < b->n; row++)
            for (int h = 0; h < c->kv_heads && b->sequence[row] == s; h++)
                for (int which = 0; which < 2; which++)
                    for (int d = 0; d < c->head_dim; d++) {
                        size_t at = kv_at(kv, op->layer * c->kv_heads + h, which == 1, b->position[row], d);
                        double x = row_of(b, op->in[which], row)[h * c->head_dim + d];
                        double off = bound_of(b, op->in[which], row)[h * c->head_dim + d];
                        float got = b1i_bf16_to_f32(b->after[s][at]);
                        if (!(got >= bf16_of((float)(x - off)) && got <= bf16_of((float)(x + off))))
                            fail_msg("%s: %s of row %d, head %d, element %d: %g, not %g ± %g as bf16", b->what,
                                     which ? "value" : "key", row, h, d, (double)got, x, off);
                        b->before[s][at] = b->after[s][at];
                    }
        for (size_t i = 0; i < kv->bytes / 2; i++)
            if (b->before[s][i] != b->after[s][i])
                fail_msg("%s: element %zu of the cache of sequence %d changed from %04x to %04x", b->what, i, s,
                         b->before[s][i], b->after[s][i]);
    }
}

typedef struct attending {
    bench *b;
    const b1i_op *op;
} attending;

static void attend_share(void *arg, int worker, int all)
{
    const attending *a = arg;
    bench *b = a->b;
    const b1i_config *c = b->r.c;
    const int hd = c->head_dim, group = c->heads / c->kv_heads;
    int64_t first, end;
    b1i_share((int64_t)b->n * c->kv_heads, 1, worker, all, &first, &end);
    for (int64_t i = first; i < end; i++) {
        const int row = (int)(i / c->kv_heads), h = (int)(i % c->kv_heads), s = b->sequence[row];
        const int limit = b->position[row] + 1, window = c->sliding_window;
        const int from = window > 0 && limit > window ? limit - window : 0, count = limit - from;
        const b1i_cuda_kv *kv = &b->kv[s];
        float *keys = malloc(2 * (size_t)count * (size_t)hd * sizeof *keys),
              *values = keys + (size_t)count * (size_t)hd;
        double *score = malloc((size_t)count * sizeof *score);
        if (!keys || !score) abort();
        for (int p = 0; p < count; p++)
            for (int d = 0; d < hd; d++) {
                int head = a->op->layer * c->kv_heads + h;
                keys[p * hd + d] = b1i_bf16_to_f32(b->after[s][kv_at(kv, head, false, from + p, d)]);
                values[p * hd + d] = b1i_bf16_to_f32(b->after[s][kv_at(kv, head, true, from + p, d)]);
            }
        for (int g = 0; g < group; g++) {
            const double *q = row_of(b, a->op->in[0], row) + (h * group + g) * hd;
            double *out = row_of(b, a->op->out, row) + (h * group + g) * hd, top = -INFINITY, total = 0;
            for (int p = 0; p < count; p++) {
                double dot = 0;
                for (int d = 0; d < hd; d++) dot += q[d] * (double)keys[p * hd + d];
                score[p] = dot / sqrt(hd);
                top = fmax(top, score[p]);
            }
            for (int d = 0; d < hd; d++) out[d] = 0;
            for (int p = 0; p < count; p++) {
                double e = exp(score[p] - top);
                total += e;
                for (int d = 0; d < hd; d++) out[d] += e * (double)values[p * hd + d];
            }
            for (int d = 0; d < hd; d++) out[d] /= total;
        }
        free(keys);
        free(score);
    }
}

static void op_attention(bench *b, const b1i_op *op)
{
    const b1i_config *c = b->r.c;
    attending a = {b, op};
    for (int s = 0; s < SEQUENCES; s++) {
        if (b->after[s]) continue;
        b->after[s] = kv_get(the_gpu, &b->kv[s]);
        assert_memory_equal(b->after[s], b->before[s], b->kv[s].bytes);
    }
    b1i_pool_run(workers, attend_share, &a);
    for (int row = 0; row < b->n; row++) {
        int seen = b->position[row] + 1;
        if (c->sliding_window > 0 && seen > c->sliding_window) seen = c->sliding_window;
        const int length = seen > c->head_dim ? seen : c->head_dim;
        double off = (double)b1i_op_tolerance(op->id, b1i_type_bf16, length) *
                     largest(row_of(b, op->out, row), cols_of(b, op->out));
        for (int i = 0; i < cols_of(b, op->out); i++) bound_of(b, op->out, row)[i] = off;
    }
}

static void op_elements(bench *b, const b1i_op *op)
{
    const double u8 = (double)b1i_op_tolerance(op->id, b1i_type_f32, 1);
    for (int row = 0; row < b->n; row++) {
        const double *p = row_of(b, op->in[0], row), *q = row_of(b, op->in[1], row);
        const double *ep = bound_of(b, op->in[0], row), *eq = bound_of(b, op->in[1], row);
        double *out = row_of(b, op->out, row), *e = bound_of(b, op->out, row);
        for (int i = 0; i < cols_of(b, op->out); i++) {
            if (op->id == b1i_op_add) {
                double off = ep[i] + eq[i] + u8 * (fabs(p[i]) + fabs(q[i]));
                out[i] = p[i] + q[i];
                e[i] = off;
            } else {
                double silu = p[i] / (1 + exp(-p[i]));
                out[i] = silu * q[i];
                e[i] = 1.1 * ep[i] * (fabs(q[i]) + eq[i]) + fabs(silu) * eq[i] + u8 * fabs(out[i]);
            }
        }
    }
}

static void do_op(bench *b, const b1i_op *op)
{
    switch (op->id) {
    case b1i_op_rmsnorm:
        op_norm(b, op, b->r.c->hidden);
        break;
    case b1i_op_headnorm:
        op_norm(b, op, b->r.c->head_dim);
        break;
    case b1i_op_linear:
        op_linear(b, op);
        break;
    case b1i_op_rope:
        op_rope(b, op);
        break;
    case b1i_op_kv_append:
        op_append(b, op);
        break;
    case b1i_op_attention:
        op_attention(b, op);
        break;
    case b1i_op_add:
    case b1i_op_silu_mul:
        op_elements(b, op);
        break;
    default:
        fail_msg("op %d has no check", (int)op->id);
    }
}

/* ---- an item ---- */

/* Of a fused item only what later items read is there. */
static bool is_seen(const bench *b, int first, int count, b1i_value v)
{
    if (b->form == b1i_cuda_separate || b->r.plan.ops[first + count - 1].out == v) return true;
    const bool qkv = b->r.plan.ops[first + count - 1].id == b1i_op_linear;
    return qkv && (v == b1i_v_q || v == b1i_v_k || v == b1i_v_v);
}

/* Further off than it may be; finite where it should not be, or the other way round. */
static bool is_off(double got, double want, double off)
{
    return isfinite(want) ? !(fabs(got - want) <= off) : isfinite(got);
}

static void check_value(const bench *b, b1i_value v, const uint8_t *raw)
{
    const bool bf16 = b1i_cuda_value_is_bf16(v);
    for (int row = 0; row < b->n; row++)
        for (int i = 0; i < cols_of(b, v); i++) {
            double want = row_of(b, v, row)[i], off = bound_of(b, v, row)[i];
            double got = (double)value_at(&b->r.m, v, raw, row, i);
            if (bf16) off += 0x1p-8 * (fabs(want) + off) + 0x1p-133;
            if (is_off(got, want, off))
                fail_msg("%s: %s of row %d, column %d is %.9g, not %.9g ± %.3g", b->what, b1i_value_names[v], row, i,
                         got, want, off);
        }
}

/* All of a value's memory but rows [0, n) of its columns where it is an output. */
static void check_untouched(const bench *b, b1i_value v, const uint8_t *before, const uint8_t *after, bool output)
{
    const size_t bytes = (size_t)value_bytes(v), stride = (size_t)b->r.m.stride[v];
    for (size_t row = 0; row < N; row++)
        for (size_t i = 0; i < stride; i++) {
            if (output && row < (size_t)b->n && i < (size_t)cols_of(b, v)) continue;
            size_t at = (row * stride + i) * bytes;
            if (memcmp(before + at, after + at, bytes) != 0)
                fail_msg("%s: %s, row %zu, column %zu was written", b->what, b1i_value_names[v], row, i);
        }
}

/* -2 where one is not finite. */
static int first_best(const float *l, int count, const uint32_t *mask)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (!isfinite(l[i])) return -2;
    for (int i = 0; i < count; i++)
        if (!(mask && mask[i / 32] >> (i % 32) & 1) && (best < 0 || l[i] > l[best])) best = i;
    return best;
}

/* Logits, what lies around them, and the step's result. */
static void check_logits(bench *b, bool masked)
{
    const size_t vocab = (size_t)b->r.c->vocab, rows = (size_t)(b->n - b->logits_from);
    const size_t all = N * vocab + 2 * GUARD;
    float *got = malloc(all * sizeof *got);
    assert_non_null(got);
    must(b1i_gpu_download(the_gpu, got, b->logits_block, all * sizeof *got, err));
    for (size_t i = 0; i < all; i++) {
        if (i >= GUARD && i < GUARD + rows * vocab) continue;
        uint32_t bits;
        memcpy(&bits, &got[i], 4);
        if (bits != 0xffffffffu) fail_msg("%s: memory %zd floats from the logits was written", b->what, i - GUARD);
    }
    bool bad = false;
    for (int row = b->logits_from; row < b->n; row++) {
        const float *l = got + GUARD + (size_t)(row - b->logits_from) * vocab;
        for (size_t i = 0; i < vocab; i++) {
            double want = row_of(b, b1i_v_logits, row)[i], off = bound_of(b, b1i_v_logits, row)[i];
            if (is_off((double)l[i], want, off))
                fail_msg("%s: logit %zu of row %d is %.9g, not %.9g ± %.3g", b->what, i, row, (double)l[i], want, off);
        }
        int best = first_best(l, (int)vocab, masked ? b->mask_here : NULL);
        bad |= best == -2;
        if (b->r.m.result->token[row] != best)
            fail_msg("%s: the largest logit of row %d is said to be %d's, and is %d's%s", b->what, row,
                     (int)b->r.m.result->token[row], best, masked ? " (some are masked)" : "");
    }
    assert_int_equal(b->r.m.result->serial, b->r.m.serial);
    assert_int_equal(b->r.m.result->bad, bad);
    free(got);
}

static void check_item(bench *b, int item, const char *what, bool masked)
{
    static char text[300];
    uint8_t *before[b1i_value_count] = {0}, *after;
    bool output[b1i_value_count] = {false}, input[b1i_value_count] = {false};
    int first, count;
    cuda_rig_item(&b->r, b->form, item, &first, &count);
    const b1i_op *ops = b->r.plan.ops + first;
    snprintf(text, sizeof text, "%s, item %d (%s)", what, item,
             b->form != b1i_cuda_separate ? b1i_group_names[b->r.plan.groups[item].id] : b1i_op_classes[ops->id].name);
    b->what = text;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < b1i_op_classes[ops[i].id].inputs; j++)
            if (!output[ops[i].in[j]]) input[ops[i].in[j]] = true;
        if (ops[i].out != b1i_v_none) output[ops[i].out] = true;
    }
    for (int v = b1i_v_x; v < b1i_value_count; v++) {
        if (!value_there(&b->r.m, v)) continue;
        if (input[v] || !output[v])
            randomise(b, (b1i_value)v, 2);
        else
            value_put(&b->r.m, (b1i_value)v, NULL);
        before[v] = value_raw(&b->r.m, (b1i_value)v);
    }
    must(b1i_gpu_fill(the_gpu, b->logits_block, 0xff, ((size_t)N * (size_t)b->r.c->vocab + 2 * GUARD) * 4, err));
    for (int s = 0; s < SEQUENCES; s++) {
        free(b->after[s]);
        b->after[s] = NULL;
    }
    run_items(b->program, item, item);
    for (int i = 0; i < count; i++) do_op(b, &ops[i]);
    for (int v = b1i_v_x; v < b1i_value_count; v++) {
        if (!before[v]) continue;
        after = value_raw(&b->r.m, (b1i_value)v);
        if (output[v] && is_seen(b, first, count, (b1i_value)v)) check_value(b, (b1i_value)v, after);
        check_untouched(b, (b1i_value)v, before[v], after, output[v]);
        free(after);
        free(before[v]);
    }
    if (output[b1i_v_logits]) check_logits(b, masked);
}

static bool is_attention(const bench *b, int item)
{
    int first, count;
    cuda_rig_item(&b->r, b->form, item, &first, &count);
    b1i_op_id id = b->r.plan.ops[first].id;
    return id == b1i_op_headnorm || id == b1i_op_rope || id == b1i_op_kv_append || id == b1i_op_attention;
}

static bool is_linear(const bench *b, int item)
{
    int first, count;
    cuda_rig_item(&b->r, b->form, item, &first, &count);
    for (int i = first; i < first + count; i++)
        if (b->r.plan.ops[i].id == b1i_op_linear) return true;
    return false;
}

/* A third of the tokens, and the one that would win. */
static void make_mask(bench *b)
{
    const int vocab = b->r.c->vocab, words = (vocab + 31) / 32;
    for (int i = 0; i < words; i++) b->mask_here[i] = (uint32_t)b1i_mix64(seed_now++) & 0x49249249u;
    for (int i = 0; i < N; i++) {
        int32_t t = b->r.m.result->token[i];
        if (t >= 0 && t < vocab) b->mask_here[t / 32] |= 1u << (t % 32);
    }
    b->mask_here[(vocab - 2) / 32] &= ~(1u << ((vocab - 2) % 32)); /* one is left in any case */
    must(b1i_gpu_upload(the_gpu, b->mask, b->mask_here, (size_t)words * 4, err));
}

/* ---- every item of a model ---- */

typedef struct case_of {
    char name[96];
    tiny_shape shape;
    b1i_format_id format;
    const b1i_format_id *own;
    b1i_cuda_form form;
} case_of;

static const char *const form_names[] = {"separate", "fused"};

static void check_rows(bench *b, const case_of *k, int n, int position, bool several)
{
    char what[200];
    snprintf(what, sizeof what, "%s, %d rows at %d%s", k->name, n, position, several ? " of several sequences" : "");
    b->what = what;
    b->program = cuda_rig_program(&b->r, b->form, n);
    choose_rows(b, n, position, several);
    begin(b, n > 2 ? n - 2 : 0, false);
    const int items = cuda_rig_items(&b->r, b->form);
    for (int item = 1; item < items; item++) check_item(b, item, what, false);
    /* the head again: another range of rows, and with a mask */
    make_mask(b);
    begin(b, 0, true);
    check_item(b, items - 1, what, true);
}

static void test_items(void **state)
{
    const case_of *k = *state;
    need_gpu();
    bench b;
    b1i_model *m = tiny_model(&k->shape, k->format, k->own, seed_now += 1000);
    bench_open(&b, m, 160);
    b.form = k->form;
    static const int rows[] = {1, 2, 3, 5, 8}, quick[] = {1, 3};
    const bool large = (int64_t)k->shape.hidden * k->shape.ffn > 4 << 20;
    for (int i = 0; i < (quick_here() ? 2 : 5); i++) {
        const int n = quick_here() ? quick[i] : rows[i];
        if (large && n != 1 && n != 3 && n != 8) continue;
        check_rows(&b, k, n, i * 31 + 1, n == 3);
    }
    bench_close(&b);
    tiny_model_free(m);
}

/* Linear items where a row's magnitudes are tiny, huge, far apart, zero or not finite: one row of each kind, then rows
 * of all kinds at once. */
static void test_magnitudes(void **state)
{
    const case_of *k = *state;
    char what[200];
    need_gpu();
    bench b;
    b1i_model *m = tiny_model(&k->shape, k->format, NULL, seed_now += 1000);
    bench_open(&b, m, 64);
    b.form = k->form;
    for (int i = 0; i < 2 * row_kinds; i++) {
        const int n = i < row_kinds ? 1 : N - i % row_kinds;
        snprintf(what, sizeof what, "%s, %d rows from kind %d on", k->name, n, i % row_kinds);
        b.what = what;
        b.program = cuda_rig_program(&b.r, b.form, n);
        choose_rows(&b, n, 7, false);
        begin(&b, 0, false);
        b.kinds = true;
        b.first_kind = i % row_kinds;
        for (int item = 1; item < cuda_rig_items(&b.r, b.form); item++)
            if (is_linear(&b, item)) check_item(&b, item, what, false);
        b.kinds = false;
    }
    bench_close(&b);
    tiny_model_free(m);
}

/* ---- attention alone ---- */

static void check_context(bench *b, const case_of *k, int n, int context, bool several)
{
    char what[200];
    snprintf(what, sizeof what, "%s, %d rows, context %d%s", k->name, n, context, several ? ", several sequences" : "");
    b->what = what;
    b->program = cuda_rig_program(&b->r, b->form, n);
    choose_rows(b, n, context > n ? context - n : 0, several);
    begin(b, n - 1, false);
    for (int item = 1; item < cuda_rig_items(&b->r, b->form); item++)
        if (is_attention(b, item)) check_item(b, item, what, false);
}

static void test_attention(void **state)
{
    const case_of *k = *state;
    need_gpu();
    static const int contexts[] = {1, 2, 31, 32, 33, 127, 2048, 5000};
    bench b;
    b1i_model *m = tiny_model(&k->shape, k->format, NULL, seed_now += 1000);
    bench_open(&b, m, 5016);
    b.form = k->form;
    for (int i = 0; i < (quick_here() ? 6 : 8); i++) {
        const int64_t work = (int64_t)contexts[i] * k->shape.heads * k->shape.head_dim;
        check_context(&b, k, 1, contexts[i], false);
        if (work < 40 << 20) check_context(&b, k, 2 + i % 7, contexts[i], false);
        if (work < 10 << 20) check_context(&b, k, 8, contexts[i], i % 2 == 0);
    }
    /* a NaN that is seen goes through the merge, and the step after it is good again */
    for (int hole = k->shape.window != 1; hole >= 0; hole--) {
        b.hole = hole;
        check_context(&b, k, 3, 600, false);
    }
    bench_close(&b);
    tiny_model_free(m);
}

/* The longest context that is promised. */
static void test_long(void **state)
{
    const case_of *k = *state;
    enum { LONG = 131072 };
    need_gpu();
    if (quick_here()) skip();
    bench b;
    b1i_model *m = tiny_model(&k->shape, k->format, NULL, seed_now += 1000);
    bench_open(&b, m, LONG + 2 * N);
    b.form = k->form;
    check_context(&b, k, 1, LONG, false);
    check_context(&b, k, N, LONG, false);
    bench_close(&b);
    tiny_model_free(m);
}

/* ---- the result of a step ---- */

/* All logits equal: the lowest token that is not masked. A NaN or an infinity in one row says so. */
static void test_result(void **state)
{
    const case_of *k = *state;
    need_gpu();
    bench b;
    b1i_model *m = tiny_model(&k->shape, k->format, NULL, seed_now += 1000);
    bench_open(&b, m, 64);
    b.form = k->form;
    const int items = cuda_rig_items(&b.r, b.form), cols = cols_of(&b, b1i_v_x);
    const b1i_value in = b.form != b1i_cuda_separate ? b1i_v_x : b1i_v_norm;
    float *rows = calloc((size_t)N * (size_t)cols, sizeof *rows);
    assert_non_null(rows);
    for (int n = 1; n <= N; n += 3) {
        b.what = k->name;
        b.program = cuda_rig_program(&b.r, b.form, n);
        choose_rows(&b, n, 3, false);
        for (int masked = 0; masked < 40; masked += 13) {
            const int words = (k->shape.vocab + 31) / 32;
            memset(b.mask_here, 0, (size_t)words * 4);
            for (int i = 0; i < masked; i++) b.mask_here[i / 32] |= 1u << (i % 32);
            must(b1i_gpu_upload(the_gpu, b.mask, b.mask_here, (size_t)words * 4, err));
            begin(&b, 0, true);
            value_put(&b.r.m, in, rows);
            run_items(b.program, items - 1, items - 1);
            for (int r = 0; r < n; r++) assert_int_equal(b.r.m.result->token[r], masked);
            assert_int_equal(b.r.m.result->bad, 0);
            assert_int_equal(b.r.m.result->serial, b.r.m.serial);
        }
        for (int bad = 0; bad < 2; bad++) {
            begin(&b, n - 1, false);
            rows[(size_t)(n - 1) * (size_t)cols + (size_t)cols / 2] = bad ? INFINITY : NAN;
            value_put(&b.r.m, in, rows);
            rows[(size_t)(n - 1) * (size_t)cols + (size_t)cols / 2] = 0;
            run_items(b.program, items - 1, items - 1);
            assert_int_equal(b.r.m.result->serial, b.r.m.serial);
            assert_true(b.r.m.result->bad);
            /* and the step after it is good again */
            begin(&b, 0, false);
            value_put(&b.r.m, in, rows);
            run_items(b.program, items - 1, items - 1);
            assert_int_equal(b.r.m.result->bad, 0);
        }
    }
    free(rows);
    bench_close(&b);
    tiny_model_free(m);
}

/* ---- the same bits every time ---- */

/* The whole program a hundred times on the same cache: logits, every value and the appended keys are the same. */
static void test_repeats(void **state)
{
    const case_of *k = *state;
    need_gpu();
    bench b;
    b1i_model *m = tiny_model(&k->shape, k->format, NULL, seed_now += 1000);
    bench_open(&b, m, 2100);
    b.form = k->form;
    for (int n = 1; n <= N; n += n == 1 ? 4 : 3) {
        uint8_t *first[b1i_value_count] = {0};
        const size_t bytes = (size_t)n * (size_t)k->shape.vocab * sizeof(float);
        float *want = malloc(bytes), *got = malloc(bytes);
        uint16_t *cache = NULL;
        assert_true(want && got);
        b.what = k->name;
        b.program = cuda_rig_program(&b.r, b.form, n);
        choose_rows(&b, n, 2000, false);
        for (int i = 0; i < (quick_here() ? 5 : 100); i++) {
            if (i == 0) begin(&b, 0, false); /* stages the rows */
            b.r.m.staged->serial = ++b.r.m.serial;
            if (i % 10 == 0) poison_values(&b.r.m);
            run_items(b.program, 0, 1 << 30);
            must(b1i_gpu_download(the_gpu, i ? got : want, logits_at(&b), bytes, err));
            if (i) assert_memory_equal(got, want, bytes);
            uint16_t *now = kv_get(the_gpu, &b.kv[0]);
            if (i) assert_memory_equal(now, cache, b.kv[0].bytes);
            free(cache);
            cache = now;
            for (int v = b1i_v_x; v < b1i_value_count && i % 10 == 0; v++) {
                if (!value_there(&b.r.m, v)) continue;
                uint8_t *raw = value_raw(&b.r.m, (b1i_value)v);
                if (i) assert_memory_equal(raw, first[v], value_size(&b.r.m, v));
                free(first[v]);
                first[v] = raw;
            }
        }
        for (int v = b1i_v_x; v < b1i_value_count; v++) free(first[v]);
        free(want);
        free(got);
        free(cache);
    }
    bench_close(&b);
    tiny_model_free(m);
}

/* ---- filler ---- */

/* The filler is the CPU's: b1i_mix64 of layer and head, position, dimension. */
static void test_fill(void **state)
{
    const case_of *k = *state;
    need_gpu();
    b1i_model *m = tiny_model(&k->shape, k->format, NULL, 1);
    const b1i_config *c = &m->config;
    b1i_cuda_kv kv;
    must(b1i_cuda_kv_create(the_gpu, c, 100, &kv, err));
    for (int count = 0; count <= 100; count += count < 31 ? 31 : count < 33 ? 1 : 67) {
        uint16_t *before = malloc(kv.bytes);
        assert_non_null(before);
        memset(before, 0, kv.bytes);
        kv_put(the_gpu, &kv, before);
        must(b1i_cuda_kv_fill(the_gpu, c, &kv, count, err));
        must(b1i_gpu_sync(the_gpu, err));
        uint16_t *raw = kv_get(the_gpu, &kv);
        for (int64_t i = 0; i < (int64_t)c->layers * c->kv_heads; i++)
            for (int p = 0; p < count; p++)
                for (int d = 0; d < c->head_dim; d++) {
                    uint64_t x = b1i_mix64(((uint64_t)i << 40) ^ ((uint64_t)p << 16) ^ (uint64_t)d);
                    float key = (float)((int32_t)x >> 8) * (1.7f / (1 << 23));
                    float val = (float)((int32_t)(x >> 32) >> 8) * (1.7f / (1 << 23));
                    before[kv_at(&kv, (int)i, false, p, d)] = b1i_f32_to_bf16(key);
                    before[kv_at(&kv, (int)i, true, p, d)] = b1i_f32_to_bf16(val);
                }
        for (size_t i = 0; i < kv.bytes / 2; i++)
            if (raw[i] != before[i])
                fail_msg("%s: filler of %d positions, element %zu: %04x, not %04x", k->name, count, i, raw[i],
                         before[i]);
        free(before);
        free(raw);
    }
    b1i_cuda_kv_free(the_gpu, &kv);
    tiny_model_free(m);
}

/* ---- the tables ---- */

enum { CASES_MAX = 300 };
static case_of cases[CASES_MAX];
static struct CMUnitTest tests[CASES_MAX];
static size_t count;

static void add(CMUnitTestFunction fn, const tiny_shape *s, b1i_format_id f, const b1i_format_id *own,
                b1i_cuda_form form, const char *kind)
{
    if (count == CASES_MAX) abort();
    case_of *k = &cases[count];
    *k = (case_of){.shape = *s, .format = f, .own = own, .form = form};
    snprintf(k->name, sizeof k->name, "%s %s %s %s", kind, s->name, own ? "mixed" : b1i_formats[f].name,
             form_names[form]);
    tests[count++] = (struct CMUnitTest){k->name, fn, NULL, NULL, k};
}

/*   name          arch       layers hidden ffn heads kv hd  vocab window bias  qk_norm tied */
#define L  b1i_arch_llama
#define Q2 b1i_arch_qwen2
#define Q3 b1i_arch_qwen3
#define M  b1i_arch_mistral
static const tiny_shape every_format = {"256x512", L, 1, 256, 512, 4, 2, 64, 131, 0, false, false, true},
                        every_bias = {"256x768-bias", Q2, 1, 256, 768, 6, 1, 128, 97, 0, true, false, false};
/* Of block formats the widths are whole blocks of 32. */
static const tiny_shape blocks[] = {
    {"smollm", L, 1, 576, 1536, 9, 3, 64, 997, 0, false, false, true},
    {"qwen-0.5b", Q2, 1, 896, 4864, 14, 2, 64, 151, 0, true, false, false},
};
/* Of plain formats they need not be. */
static const tiny_shape ragged[] = {
    {"60x88", L, 1, 60, 88, 3, 1, 24, 67, 0, false, false, false},
    {"16x32", L, 1, 16, 32, 1, 1, 16, 37, 0, false, false, true},
    {"104x37-bias", Q2, 1, 104, 37, 5, 5, 16, 50, 0, true, false, false},
    {"512-norms", Q3, 1, 512, 256, 8, 8, 32, 160, 0, false, true, false},
    {"250-window", M, 1, 250, 258, 8, 4, 32, 64, 24, false, false, false},
};
static const tiny_shape large[] = {
    {"qwen-7b", Q2, 1, 3584, 4736, 28, 4, 128, 1021, 0, true, false, false},
    {"llama-8b", L, 1, 4096, 14336, 32, 8, 128, 2048, 0, false, false, false},
    {"151x4864", L, 1, 4864, 896, 4, 4, 64, 151, 0, false, false, true},
};
/* More columns than a linear block's threads keep in registers: normed ones, bf16 ones. */
static const tiny_shape kept[] = {
    {"4352x256", L, 1, 4352, 256, 2, 1, 128, 67, 0, false, false, false},
    {"256x8448", L, 1, 256, 8448, 2, 1, 128, 67, 0, false, false, false},
};
/* q8_0 q, bf16 k, q4_0 v, f32 o, q4_1 gate, f16 up, q5_0 down: nothing can be joined */
static const b1i_format_id mixed[b1i_layer_weights] = {
    [b1i_w_q] = b1i_q8_0,    [b1i_w_k] = b1i_bf16, [b1i_w_v] = b1i_q4_0,    [b1i_w_o] = b1i_f32,
    [b1i_w_gate] = b1i_q4_1, [b1i_w_up] = b1i_f16, [b1i_w_down] = b1i_q5_0,
};

static const tiny_shape attention[] = {
    {"hd64 group 1", L, 1, 32, 32, 3, 3, 64, 64, 0, false, false, true},
    {"hd64 group 4", L, 1, 32, 32, 32, 8, 64, 64, 0, false, false, true},
    {"hd80 group 8", L, 1, 32, 32, 16, 2, 80, 64, 0, false, false, true},
    {"hd96 group 7", L, 1, 32, 32, 14, 2, 96, 64, 0, false, false, true},
    {"hd128 group 4", L, 1, 32, 32, 32, 8, 128, 64, 0, false, false, true},
    {"hd128 group 7", L, 1, 32, 32, 28, 4, 128, 64, 0, false, false, true},
    {"hd128 group 16", L, 1, 32, 32, 16, 1, 128, 64, 0, false, false, true},
    {"hd128 group 64", L, 1, 32, 32, 64, 1, 128, 64, 0, false, false, true},
    {"hd256 group 1", L, 1, 32, 32, 2, 2, 256, 64, 0, false, false, true},
    {"hd256 group 8", L, 1, 32, 32, 8, 1, 256, 64, 0, false, false, true},
    {"hd16 group 8", L, 1, 32, 32, 16, 2, 16, 64, 0, false, false, true},
    {"hd24 group 3", L, 1, 32, 32, 3, 1, 24, 64, 0, false, false, true},
    {"hd32 group 1", L, 1, 32, 32, 2, 2, 32, 64, 0, false, false, true},
    {"hd128 norms", Q3, 1, 32, 32, 16, 8, 128, 64, 0, false, true, true},
    {"hd80 norms", Q3, 1, 32, 32, 4, 2, 80, 64, 0, false, true, true},
    {"hd256 norms", Q3, 1, 32, 32, 4, 1, 256, 64, 0, false, true, true},
    {"hd64 window 24", M, 1, 32, 32, 8, 2, 64, 64, 24, false, false, true},
    {"hd128 window 1000", M, 1, 32, 32, 8, 2, 128, 64, 1000, false, false, true},
    {"hd96 window 1", M, 1, 32, 32, 4, 2, 96, 64, 1, false, false, true},
};
static const tiny_shape longest = {"hd128 group 8", L, 1, 32, 32, 8, 1, 128, 64, 0, false, false, true};
static const tiny_shape filler[] = {
    {"hd64", L, 2, 32, 32, 4, 2, 64, 64, 0, false, false, true},
    {"hd80", L, 2, 32, 32, 4, 1, 80, 64, 0, false, false, true},
    {"hd24", L, 3, 32, 32, 3, 3, 24, 64, 0, false, false, true},
    {"hd256", L, 1, 32, 32, 2, 2, 256, 64, 0, false, false, true},
};
static const tiny_shape whole = {"576-two", L, 2, 576, 1536, 9, 3, 64, 997, 0, false, false, true},
                        whole_norms = {"512-two-norms", Q3, 2, 512, 256, 8, 2, 128, 160, 0, false, true, false},
                        whole_bias = {"256-two-bias", Q2, 2, 256, 768, 14, 2, 64, 97, 0, true, false, false};

#define EACH(i, list) for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++)

int main(int argc, char **argv)
{
    const b1i_format_id plain[] = {b1i_bf16, b1i_f16, b1i_f32}, blocked[] = {b1i_bf16, b1i_q8_0, b1i_q4_1, b1i_q5_0};
    const b1i_format_id tiles[] = {b1i_f16, b1i_q8_0, b1i_q4_k, b1i_q6_k}; /* multiplied as f16 */
    for (int form = 0; form <= b1i_cuda_fused; form++) { /* early is fused in another order, which graphs test */
        const b1i_cuda_form x = (b1i_cuda_form)form;
        for (int f = 0; f < b1i_format_count; f++) {
            add(test_items, &every_format, (b1i_format_id)f, NULL, x, "items");
            add(test_items, &every_bias, (b1i_format_id)f, NULL, x, "items");
        }
        EACH(s, blocks)
        EACH(f, blocked) add(test_items, &blocks[s], blocked[f], NULL, x, "items");
        EACH(s, ragged)
        EACH(f, plain) add(test_items, &ragged[s], plain[f], NULL, x, "items");
        EACH(s, large) add(test_items, &large[s], b1i_bf16, NULL, x, "items");
        add(test_items, &large[0], b1i_q8_0, NULL, x, "items");
        add(test_items, &every_bias, b1i_q6_k, mixed, x, "items");
        for (int f = 0; f < b1i_format_count; f++)
            add(test_magnitudes, &every_format, (b1i_format_id)f, NULL, x, "magnitudes");
        EACH(s, kept)
        EACH(f, tiles)
        {
            add(test_items, &kept[s], tiles[f], NULL, x, "items");
            add(test_magnitudes, &kept[s], tiles[f], NULL, x, "magnitudes");
        }
        EACH(s, attention) add(test_attention, &attention[s], b1i_bf16, NULL, x, "attention");
        add(test_long, &longest, b1i_bf16, NULL, x, "long");
        add(test_result, &ragged[0], b1i_bf16, NULL, x, "result");
        add(test_result, &ragged[0], b1i_f16, NULL, x, "result");
        add(test_result, &blocks[0], b1i_q8_0, NULL, x, "result");
        add(test_result, &blocks[0], b1i_q4_1, NULL, x, "result");
        add(test_repeats, &whole, b1i_bf16, NULL, x, "repeats");
        add(test_repeats, &whole_norms, b1i_f16, NULL, x, "repeats");
        add(test_repeats, &whole_bias, b1i_q4_k, NULL, x, "repeats");
    }
    EACH(s, filler) add(test_fill, &filler[s], b1i_bf16, NULL, b1i_cuda_separate, "filler");
    seed_start();
    workers = b1i_cpu_count();
    b1_error err = {0};
    if (b1i_pool_reserve(workers, &err) != B1_OK) {
        printf("%s\n", err.message);
        return 1;
    }
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    int failed = _cmocka_run_group_tests("cuda ops", tests, count, gpu_open, gpu_close);
    b1i_pool_end();
    return failed;
}
