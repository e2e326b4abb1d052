/* SPDX-License-Identifier: MIT
 *
 * The kernels of every instruction set that this machine runs, against sums in double over the same rounded inputs, so
 * that tolerances follow from f32 arithmetic alone (u = 2^-24):
 *   dense linear      (2 · cols + 8) u Σ|w x|
 *   quantised linear  (4 · cols / 32 + 8) u · 3 max|w| Σ|x|       (sums inside a block are exact integers)
 *   attention         2 (δ + (positions / 16 + 16) u) max|v|, δ = (dim + 8) u max Σ|q k| scale: the scores' error
 *   RMSNorm, RoPE, SiLU: a few u of the result
 * Outputs are poisoned with NaN, and so are keys and values that no row may see.
 */
#include "cpu/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define U 0x1p-24

static uint64_t seed_now = 1;
/* Uniform in [−1, 1). */
static float uniform(void) { return (float)((double)(b1i_mix64(seed_now++) >> 11) * 0x1p-52 - 1); }

static void *aligned(size_t bytes)
{
    void *p = b1i_pages_alloc(bytes);
    assert_non_null(p);
    return p;
}

/* Runs `check` for each instruction set. */
static void each(void (*check)(const b1i_kernels *k))
{
    for (int i = 0; b1i_kernels_built[i]; i++)
        if (b1i_kernels_built[i]->supported()) check(b1i_kernels_built[i]);
}

static void names(void **state)
{
    (void)state;
    int count = 0;
    for (int i = 0; b1i_kernels_built[i]; i++, count++) {
        bool can = b1i_kernels_built[i]->supported();
        print_message("%-10s %s\n", b1i_kernels_built[i]->name, can ? "runs here" : "cannot run here: not tested");
    }
    assert_true(count > 0);
    assert_string_equal(b1i_kernels_built[count - 1]->name, "generic");
    assert_true(b1i_kernels_built[count - 1]->supported());
    assert_true(b1i_kernels_best()->supported());
}

/* ---- activations ---- */

static double act_value(const b1i_act *a, int row, int64_t c)
{
    const uint8_t *p = a->data + (size_t)row * a->stride;
    const b1i_act_block *b = b1i_act_i8(a, row) + c / 32;
    if (a->type == b1i_type_f32) return ((const float *)p)[c];
    if (a->type == b1i_type_bf16) return b1i_bf16_to_f32(((const uint16_t *)p)[c]);
    if (a->type == b1i_type_f16) return b1i_f16_to_f32(((const uint16_t *)p)[c]);
    return (double)b->q[c % 32] * b->scale;
}

static b1i_act act_of(b1i_type type, int rows, int64_t cols)
{
    b1i_act a = {.type = type, .rows = rows, .cols = cols, .stride = b1i_act_stride(type, cols)};
    a.data = aligned(a.stride * (size_t)rows);
    memset(a.data, 0xff, a.stride * (size_t)rows);
    return a;
}
static void act_free(b1i_act *a) { b1i_pages_free(a->data, a->stride * (size_t)a->rows); }

static void check_convert_i8(const b1i_act *a, const float *x)
{
    for (int64_t c = 0; c < b1i_act_padded(a->cols); c += 32) {
        const b1i_act_block *b = b1i_act_i8(a, 0) + c / 32;
        float max = 0;
        for (int64_t i = c; i < c + 32 && i < a->cols; i++) max = fmaxf(max, fabsf(x[i]));
        float scale = max < 0x1p-100f ? 0 : max / 127, inverse = max < 0x1p-100f ? 0 : 127 / max;
        int half[2] = {0};
        assert_memory_equal(&b->scale, &scale, 4);
        for (int i = 0; i < 32; i++) {
            float v = c + i < a->cols ? x[c + i] * inverse : 0;
            assert_int_equal(b->q[i], (int)rintf(v));
            half[i / 16] += b->q[i];
        }
        assert_int_equal(b->half[0], half[0]);
        assert_int_equal(b->half[1], half[1]);
        assert_int_equal(b->sum, half[0] + half[1]);
        assert_true(b->scaled_sum == scale * (float)b->sum);
    }
}

static void check_convert(const b1i_kernels *k)
{
    const int64_t widths[] = {1, 31, 32, 33, 576};
    static float x[576];
    for (size_t w = 0; w < 5; w++)
        for (int type = 0; type < 4; type++) {
            b1i_act a = act_of((b1i_type)type, 2, widths[w]);
            for (int64_t i = 0; i < widths[w]; i++) {
                x[i] = uniform() * (i / 32 % 3 == 1 ? 1e-36f : i / 32 % 3 == 2 ? 3e4f : 1);
                if (i >= 500) x[i] = 0;
            }
            k->convert(x, &a, 1);
            k->convert(x, &a, 0);
            assert_memory_equal(a.data, a.data + a.stride, (size_t)b1i_act_padded(widths[w]));
            if (type == b1i_type_i8) {
                check_convert_i8(&a, x);
            } else {
                for (int64_t c = 0; c < b1i_act_padded(widths[w]); c++) {
                    float v = c < widths[w] ? x[c] : 0;
                    if (type == b1i_type_bf16) v = b1i_bf16_to_f32(b1i_f32_to_bf16(v));
                    if (type == b1i_type_f16) v = b1i_f16_to_f32(b1i_f32_to_f16(v));
                    assert_true(act_value(&a, 0, c) == v);
                }
            }
            /* a NaN is not lost */
            x[0] = NAN;
            k->convert(x, &a, 0);
            assert_true(isnan(act_value(&a, 0, 0)));
            act_free(&a);
        }
}

static void convert(void **state)
{
    (void)state;
    each(check_convert);
}

/* ---- linear ---- */

typedef struct matrix {
    b1i_packed p;
    float *w; /* [rows][cols], dequantised */
} matrix;

static matrix matrix_of(b1i_format_id format, int64_t rows, int64_t cols)
{
    const b1i_format *f = &b1i_formats[format];
    size_t row_bytes = b1i_format_bytes(format, (uint64_t)cols);
    matrix m = {0};
    uint8_t *file = b1i_malloc(row_bytes * (size_t)rows), *scratch = b1i_malloc(row_bytes * B1I_PANEL);
    m.w = b1i_malloc((size_t)(rows * cols) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        f->random(seed_now++, cols, 1, file + (size_t)r * row_bytes);
        f->dequantise(file + (size_t)r * row_bytes, cols, m.w + r * cols);
    }
    b1i_tensor t = {.format = format, .rows = rows, .cols = cols, .data = file, .map = -1};
    b1i_packed_shape(&t, b1i_layout_row16, &m.p);
    m.p.data = aligned(b1i_packed_bytes(&m.p));
    b1i_pack_panels(&t, &m.p, 0, m.p.panels, scratch);
    b1i_free(file);
    b1i_free(scratch);
    return m;
}
static void matrix_free(matrix *m)
{
    b1i_pages_free(m->p.data, b1i_packed_bytes(&m->p));
    b1i_free(m->w);
}

enum { ROWS_MAX = 40, N_MAX = 33, Y_STRIDE = 48 };

static void check_sums(const matrix *m, const b1i_act *a, const float *bias, bool add, const float *y)
{
    int64_t cols = m->p.cols;
    bool dense = m->p.format <= b1i_bf16;
    for (int r = 0; r < a->rows; r++)
        for (int64_t o = 0; o < Y_STRIDE; o++) {
            double sum = 0, size = 0, most = 0, xs = 0;
            if (o >= m->p.rows) {
                assert_true(isnan(y[r * Y_STRIDE + o]));
                continue;
            }
            for (int64_t c = 0; c < cols; c++) {
                double w = m->w[o * cols + c], x = act_value(a, r, c);
                sum += w * x;
                size += fabs(w * x);
                xs += fabs(x);
                most = fmax(most, fabs(w));
            }
            if (bias) sum += bias[o];
            if (add) sum += 0.25 * (double)o;
            double tol =
                dense ? (2.0 * (double)cols + 8) * U * size : (4.0 * (double)cols / 32 + 8) * U * 3 * most * xs;
            tol += 4 * U * (fabs(sum) + 10 + size);
            if (!(fabs(y[r * Y_STRIDE + o] - sum) <= tol))
                fail_msg("%s, %lld columns, row %lld of x %d of %d: %.9g, not %.9g ± %.2g",
                         b1i_formats[m->p.format].name, (long long)cols, (long long)o, r, a->rows, y[r * Y_STRIDE + o],
                         sum, tol);
        }
}

static void poison(float *y, int rows, int64_t live, bool add)
{
    for (int r = 0; r < rows; r++)
        for (int64_t o = 0; o < Y_STRIDE; o++) y[r * Y_STRIDE + o] = add && o < live ? 0.25f * (float)o : NAN;
}

static void check_linear(const b1i_kernels *k, const matrix *m, int n, bool with_bias, bool add)
{
    static float y[N_MAX * Y_STRIDE], again[N_MAX * Y_STRIDE], bias[ROWS_MAX], x[1024];
    b1i_act a = act_of(b1i_kernels_act(k, m->p.format), n, m->p.cols);
    for (int r = 0; r < n; r++) {
        for (int64_t c = 0; c < m->p.cols; c++) x[c] = uniform() * 2;
        k->convert(x, &a, r);
    }
    for (int64_t o = 0; o < m->p.rows; o++) bias[o] = uniform();
    b1i_linear args = {&m->p, &a, with_bias ? bias : NULL, y, Y_STRIDE, add};
    poison(y, n, m->p.rows, add);
    k->linear(&args, 0, m->p.panels);
    check_sums(m, &a, args.bias, add, y);
    /* the same bits by single panels, last first */
    args.y = again;
    poison(again, n, m->p.rows, add);
    for (int64_t p = m->p.panels; p-- > 0;) k->linear(&args, p, p + 1);
    assert_memory_equal(y, again, (size_t)n * Y_STRIDE * sizeof(float));
    act_free(&a);
}

static void linear(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 15, 16, 17, 40};
    static const int64_t widths[3][4] = {{1, 2, 31, 514}, {32, 64, 96, 576}, {256, 512, 768, 256}};
    for (int f = 0; f < b1i_format_count; f++)
        for (int w = 0; w < 4; w++)
            for (int r = 0; r < 5; r++) {
                int block = b1i_formats[f].block;
                int64_t cols = widths[block == 1 ? 0 : block == 32 ? 1 : 2][w];
                matrix m = matrix_of((b1i_format_id)f, rows[r], cols);
                for (int i = 0; b1i_kernels_built[i]; i++) {
                    const b1i_kernels *k = b1i_kernels_built[i];
                    if (!k->supported()) continue;
                    check_linear(k, &m, 1, r % 2, w % 2);
                    check_linear(k, &m, 2 + (w + r) % 8, w % 2, r % 2);
                    if (rows[r] == 40 && w == 3)
                        for (int n = 2; n <= 9; n++) check_linear(k, &m, n, true, true);
                    if (rows[r] == 17) check_linear(k, &m, N_MAX, false, false);
                }
                matrix_free(&m);
            }
}

/* The largest quants against the largest activations: nothing saturates. */
static void check_extremes(const b1i_kernels *k)
{
    enum { COLS = 512 };
    static float x[COLS];
    for (int f = b1i_q8_0; f < b1i_format_count; f++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const b1i_format *format = &b1i_formats[f];
            size_t bytes = b1i_format_bytes((b1i_format_id)f, COLS);
            static uint8_t file[4096];
            static float w[COLS];
            memset(file, f == b1i_q8_0 ? 0x80 : 0xff, bytes);
            for (int b = 0; b < COLS / format->block; b++) {
                uint8_t *block = file + b * format->block_bytes, *half = f == b1i_q6_k ? block + 208 : block;
                bool two = f == b1i_q4_1 || f == b1i_q5_1 || f == b1i_q4_k || f == b1i_q5_k;
                memcpy(half, (uint8_t[]){0x00, 0x3c}, 2);
                if (two) memcpy(half + 2, (uint8_t[]){0x00, 0x00}, 2);
            }
            format->dequantise(file, COLS, w);
            b1i_tensor t = {.format = (b1i_format_id)f, .rows = 1, .cols = COLS, .data = file, .map = -1};
            b1i_packed p = {0};
            b1i_packed_shape(&t, b1i_layout_row16, &p);
            p.data = aligned(b1i_packed_bytes(&p));
            b1i_pack_panels(&t, &p, 0, 1, NULL);
            b1i_act a = act_of(b1i_type_i8, 1, COLS);
            double sum = 0;
            float y[16];
            for (int c = 0; c < COLS; c++) x[c] = (float)sign * 127;
            k->convert(x, &a, 0);
            for (int c = 0; c < COLS; c++) sum += (double)w[c] * act_value(&a, 0, c);
            b1i_linear args = {&p, &a, NULL, y, 16, false};
            k->linear(&args, 0, 1);
            assert_true(fabs(y[0] - sum) <= 64 * U * fabs(sum));
            act_free(&a);
            b1i_pages_free(p.data, b1i_packed_bytes(&p));
        }
}

static void extremes(void **state)
{
    (void)state;
    each(check_extremes);
}

/* ---- attention ---- */

enum { CTX_MAX = 704, DIM_MAX = 128, GROUP_MAX = 8, ROWS = 3 };

typedef struct attend_case {
    b1i_kv_head kv;
    int dim, group, context, n;
    int first[ROWS], limit[ROWS];
    float q[ROWS * GROUP_MAX * DIM_MAX], want[ROWS * GROUP_MAX * DIM_MAX];
    double tolerance;
    size_t bytes;
} attend_case;

static float rounded(b1i_type type, float v)
{
    if (type == b1i_type_bf16) return b1i_bf16_to_f32(b1i_f32_to_bf16(v));
    return type == b1i_type_f16 ? b1i_f16_to_f32(b1i_f32_to_f16(v)) : v;
}

/* The stated place of an element. */
static double kv_at(const b1i_kv_head *kv, bool value, int pos, int d)
{
    const uint8_t *base = value ? kv->values : kv->keys;
    int b = pos / 16 * 16 * kv->head_dim, p = pos % 16;
    int i = value ? p * kv->head_dim + d : kv->type == b1i_type_bf16 ? (d / 2 * 16 + p) * 2 + d % 2 : d * 16 + p;
    if (kv->type == b1i_type_f32) return ((const float *)base)[b + i];
    uint16_t h = ((const uint16_t *)base)[b + i];
    return kv->type == b1i_type_bf16 ? b1i_bf16_to_f32(h) : b1i_f16_to_f32(h);
}

/* Keys and values by the kernel, checked in place; those beyond the context stay NaN. */
static void fill_kv(const b1i_kernels *kernels, attend_case *c)
{
    float k[DIM_MAX], v[DIM_MAX];
    memset(c->kv.keys, 0xff, c->bytes);
    memset(c->kv.values, 0xff, c->bytes);
    for (int p = 0; p < c->context; p++) {
        for (int d = 0; d < c->dim; d++) {
            k[d] = uniform();
            v[d] = uniform();
        }
        kernels->kv_put(&c->kv, p, k, v);
        for (int d = 0; d < c->dim; d++) {
            assert_true(kv_at(&c->kv, false, p, d) == rounded(c->kv.type, k[d]));
            assert_true(kv_at(&c->kv, true, p, d) == rounded(c->kv.type, v[d]));
        }
    }
}

static void expect(attend_case *c)
{
    static double score[CTX_MAX], keys[CTX_MAX][DIM_MAX], values[CTX_MAX][DIM_MAX];
    double scale = 1 / sqrt(c->dim), largest = 0;
    for (int p = 0; p < c->context; p++)
        for (int d = 0; d < c->dim; d++) {
            keys[p][d] = kv_at(&c->kv, false, p, d);
            values[p][d] = kv_at(&c->kv, true, p, d);
        }
    for (int pair = 0; pair < c->n * c->group; pair++) {
        int row = pair / c->group;
        const float *q = c->q + (row * GROUP_MAX + pair % c->group) * DIM_MAX;
        double top = -INFINITY, total = 0;
        double out[DIM_MAX] = {0};
        for (int p = c->first[row]; p < c->limit[row]; p++) {
            double s = 0, size = 0;
            for (int d = 0; d < c->dim; d++) {
                s += q[d] * keys[p][d];
                size += fabs(q[d] * keys[p][d]);
            }
            score[p] = s * scale;
            top = fmax(top, score[p]);
            largest = fmax(largest, size * scale);
        }
        for (int p = c->first[row]; p < c->limit[row]; p++) {
            double e = exp(score[p] - top);
            total += e;
            for (int d = 0; d < c->dim; d++) out[d] += e * values[p][d];
        }
        for (int d = 0; d < c->dim; d++) c->want[pair * DIM_MAX + d] = total > 0 ? (float)(out[d] / total) : 0;
    }
    c->tolerance = 2 * ((c->dim + 8) * U * largest + (c->context / 16.0 + 16) * U);
}

/* Partials over ranges of `step` positions, merged. */
static void check_attention(const b1i_kernels *k, const attend_case *c, int step)
{
    enum { CHUNKS = CTX_MAX / 64, PAIRS = ROWS * GROUP_MAX };
    static float max[CHUNKS][PAIRS], sum[CHUNKS][PAIRS], out[CHUNKS][PAIRS * DIM_MAX];
    float got[DIM_MAX];
    static float q[ROWS * GROUP_MAX * DIM_MAX]; /* [n][group][dim] at a stride of GROUP_MAX · DIM_MAX */
    int chunks = (c->context + step - 1) / step;
    for (int r = 0; r < c->n; r++)
        for (int h = 0; h < c->group; h++)
            memcpy(q + r * GROUP_MAX * DIM_MAX + h * c->dim, c->q + (r * GROUP_MAX + h) * DIM_MAX,
                   (size_t)c->dim * sizeof(float));
    for (int i = 0; i < chunks; i++) {
        for (int j = 0; j < PAIRS; j++) max[i][j] = sum[i][j] = NAN;
        for (int j = 0; j < PAIRS * DIM_MAX; j++) out[i][j] = NAN;
        int end = (i + 1) * step < c->context ? (i + 1) * step : c->context;
        b1i_attention a = {c->kv,
                           q,
                           GROUP_MAX * DIM_MAX,
                           c->n,
                           c->group,
                           c->limit,
                           c->first,
                           1 / sqrtf((float)c->dim),
                           i * step,
                           end,
                           max[i],
                           sum[i],
                           out[i]};
        k->attention(&a);
        for (int pair = 0; pair < c->n * c->group; pair++) {
            int row = pair / c->group;
            int low = c->first[row] > i * step ? c->first[row] : i * step;
            if (low < c->limit[row] && low < end) continue;
            assert_true(max[i][pair] == -INFINITY && sum[i][pair] == 0);
            for (int d = 0; d < c->dim; d++) assert_true(out[i][pair * c->dim + d] == 0);
        }
    }
    for (int pair = 0; pair < c->n * c->group; pair++) {
        for (int d = 0; d < DIM_MAX; d++) got[d] = NAN;
        k->attention_merge(&max[0][pair], &sum[0][pair], PAIRS, &out[0][pair * c->dim], PAIRS * DIM_MAX, chunks, c->dim,
                           got);
        for (int d = 0; d < c->dim; d++)
            if (!(fabs((double)got[d] - c->want[pair * DIM_MAX + d]) <= c->tolerance))
                fail_msg("%s %s, dim %d, group %d, context %d, ranges of %d, pair %d, element %d: %g, not %g ± %.2g",
                         k->name, b1i_type_names[c->kv.type], c->dim, c->group, c->context, step, pair, d, got[d],
                         c->want[pair * DIM_MAX + d], c->tolerance);
    }
}

static void attention(void **state)
{
    (void)state;
    static const int dims[] = {24, 64, 80, 128}, groups[] = {1, 3, 4, 7, 8};
    static const int contexts[] = {1, 15, 16, 17, 255, 256, 257, 700};
    static attend_case c;
    size_t most = (size_t)CTX_MAX * DIM_MAX * 4;
    uint8_t *keys = aligned(most), *values = aligned(most);
    for (int i = 0; i < 4 * 8 * 3; i++) {
        c.dim = dims[i % 4];
        c.context = contexts[i / 4 % 8];
        c.kv = (b1i_kv_head){(b1i_type)(i / 32), c.dim, keys, values};
        c.bytes = most;
        for (int g = 0; g < 5; g++) {
            if (c.context > 257 && (g + i) % 3) continue;
            c.group = groups[g];
            c.n = (g + i) % 2 ? 1 : ROWS;
            for (int r = 0; r < c.n; r++) {
                c.limit[r] = c.context - (c.n - 1 - r) * (i % 3 ? 1 : 20);
                if (c.limit[r] < 0) c.limit[r] = 0;
                int window = i % 5 == 4 ? 100 : i % 5 == 3 ? 5 : c.context;
                c.first[r] = c.limit[r] > window ? c.limit[r] - window : 0;
            }
            for (int j = 0; j < ROWS * GROUP_MAX * DIM_MAX; j++) c.q[j] = uniform() * 3;
            bool filled = false;
            for (int isa = 0; b1i_kernels_built[isa]; isa++) {
                const b1i_kernels *k = b1i_kernels_built[isa];
                if (!k->supported()) continue;
                if (!filled || g == 0) {
                    fill_kv(k, &c);
                    expect(&c);
                    filled = true;
                }
                check_attention(k, &c, B1I_KV_CHUNK);
                check_attention(k, &c, g % 2 ? 64 : 704);
            }
        }
    }
    b1i_pages_free(keys, most);
    b1i_pages_free(values, most);
}

/* ---- the rest ---- */

static void check_rows(const b1i_kernels *k)
{
    static const int counts[] = {1, 16, 33, 576};
    static float x[576], w[576], y[592], z[592];
    for (int n = 0; n < 4; n++) {
        int count = counts[n];
        double square = 0;
        for (int i = 0; i < count; i++) {
            x[i] = uniform() * 4;
            w[i] = uniform();
            square += (double)x[i] * x[i];
        }
        double factor = 1 / sqrt(square / count + 1e-5);
        for (int i = 0; i < 592; i++) y[i] = z[i] = NAN;
        k->rmsnorm(x, w, count, 1e-5f, y);
        for (int i = 0; i < count; i++)
            assert_true(fabs(y[i] - x[i] * factor * w[i]) <= 24 * U * fabs(x[i] * w[i]) * factor);
        assert_true(isnan(y[count]));

        x[0] = count > 1 ? -90.0f : 88.0f;
        if (count > 2) x[2] = 100.0f;
        k->silu_mul(x, w, count, z);
        for (int i = 0; i < count; i++) {
            double want = x[i] / (1 + exp(-(double)x[i])) * w[i];
            assert_true(fabs(z[i] - want) <= 8 * U * fabs(want) + 1e-36);
        }
        assert_true(isnan(z[count]));

        for (int i = 0; i < count; i++) y[i] = w[i];
        k->add(y, x, count);
        for (int i = 0; i < count; i++) assert_true(y[i] == w[i] + x[i]);
        assert_true(isnan(y[count]));
    }
    float top[1] = {NAN}, up[1] = {1}, out[1];
    k->silu_mul(top, up, 1, out);
    assert_true(isnan(out[0]));
    k->prefetch(x, sizeof x);
}

static void check_rope(const b1i_kernels *k)
{
    static const int dims[] = {2, 24, 64, 80, 128};
    float x[129], y[129], c[64], s[64];
    for (int n = 0; n < 5; n++) {
        int half = dims[n] / 2;
        for (int j = 0; j < 129; j++) x[j] = y[j] = uniform();
        for (int j = 0; j < half; j++) {
            c[j] = cosf(3.0f * (float)j);
            s[j] = sinf(3.0f * (float)j);
        }
        k->rope(x, dims[n], c, s);
        for (int j = 0; j < half; j++) {
            assert_true(fabs(x[j] - ((double)y[j] * c[j] - (double)y[j + half] * s[j])) <= 4 * U);
            assert_true(fabs(x[j + half] - ((double)y[j + half] * c[j] + (double)y[j] * s[j])) <= 4 * U);
        }
        for (int j = 2 * half; j < 129; j++) assert_true(x[j] == y[j]);
    }
}

static void rows_of_ops(void **state)
{
    (void)state;
    each(check_rows);
    each(check_rope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),    cmocka_unit_test(convert),   cmocka_unit_test(linear),
        cmocka_unit_test(extremes), cmocka_unit_test(attention), cmocka_unit_test(rows_of_ops),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
