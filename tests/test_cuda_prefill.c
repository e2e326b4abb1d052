/* SPDX-License-Identifier: MIT
 *
 * Prefill on the GPU. Each of its kernels against plain C on random inputs, outputs poisoned before; then whole passes
 * against decode of the same tokens one by one, on the fixtures' models and on models of every format.
 *
 * Tolerances:
 *   unpacking         none: high and low are the roundings of the packer's own value
 *   element kernels   one rounding to bf16, 2^-8 of the result, and f32 noise
 *   attention         weights are rounded to bf16 and add up to one, so an output moves by less than 2^-9 · 2 max|v|,
 *                     and is rounded itself; but roundings are independent: the rms of all errors is 2^-8 of the rms of
 *                     all outputs at most (each of the two has 2^-9 / √3 at worst). q is bf16 here already
 *   a pass            half of what tests/test_models.c derives for executors that round to bf16 (u = 2^-8), as
 *                     both sides round the same values:   (1e-4 + 6 · 2.5 u / √12 · √(6 layers + 1)) / 2
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/prefill.h"
#include "model/model.h"
#include "tests/model_fixture.h"

#include "tests/cuda_rig.h"
#include "tests/tiny_model.h"

#include <math.h>

/* ---- device memory ---- */

static b1i_gpu_ptr device(const void *from, size_t bytes)
{
    b1i_gpu_ptr p = 0;
    must(b1i_gpu_alloc(the_gpu, bytes, "a test's buffer", &p, err));
    if (from)
        must(b1i_gpu_upload(the_gpu, p, from, bytes, err));
    else
        must(b1i_gpu_fill(the_gpu, p, 0xff, bytes, err)); /* NaN in f32 and in bf16 */
    return p;
}

static void *host(size_t bytes)
{
    void *p = calloc(1, bytes);
    assert_non_null(p);
    return p;
}

static void *fetch(b1i_gpu_ptr p, size_t bytes)
{
    void *to = host(bytes);
    must(b1i_gpu_sync(the_gpu, err));
    must(b1i_gpu_download(the_gpu, to, p, bytes, err));
    return to;
}

static float *random_floats(size_t count, float scale)
{
    float *x = host(count * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = scale * uniform();
    return x;
}

static b1i_prefill_kernels kernels(int dim)
{
    b1i_prefill_kernels k;
    must(b1i_prefill_kernels_get(the_gpu, dim, &k, err));
    return k;
}

/* One rounding to bf16, and `noise`. */
static void check_bf16(uint16_t got, double want, double noise, const char *what)
{
    double off = fabs((double)b1i_bf16_to_f32(got) - want);
    if (!(off <= 0x1p-8 * fabs(want) + noise)) fail_msg("%s: %g for %g", what, (double)b1i_bf16_to_f32(got), want);
}

/* ---- unpacking ---- */

/* A random matrix packed on the host, panels `gap` times their own size apart; NULL data outside panels is poison. */
static uint8_t *packed(b1i_format_id format, int rows, int cols, int gap, b1i_tile_matrix *m)
{
    b1i_tensor t = {.format = format, .rows = rows, .cols = cols, .map = -1, .seed = seed_now++, .scale = 0.3f};
    const size_t row_bytes = b1i_format_bytes(format, (uint64_t)cols);
    b1i_tile_shape(&t, m);
    m->panel_stride *= (uint64_t)gap;
    uint8_t *out = host((size_t)m->panels * m->panel_stride), *file = host(16 * row_bytes);
    memset(out, 0xff, (size_t)m->panels * m->panel_stride);
    for (int p = 0; p < m->panels; p++) {
        int count = rows - 16 * p < 16 ? rows - 16 * p : 16;
        b1i_tensor_rows(&t, 16 * p, count, file);
        b1i_tile_pack(format, m, file, count, out + (size_t)p * m->panel_stride);
    }
    free(file);
    return out;
}

static void check_unpack(b1i_format_id format, int rows, int cols, int gap)
{
    b1i_tile_matrix m;
    uint8_t *data = packed(format, rows, cols, gap, &m);
    const b1i_prefill_kernels k = kernels(64);
    const int first = m.panels > 2 ? 1 : 0, count = m.panels - first;
    const size_t width = (size_t)m.blocks * 32, elements = (size_t)count * 16 * width;
    const bool exact = b1i_prefill_exact(&m);
    m.data = device(data, (size_t)m.panels * m.panel_stride);
    b1i_gpu_ptr high = device(NULL, elements * 2), low = device(NULL, elements * 2);
    must(b1i_prefill_unpack(&k, &m, first, count, high, exact ? 0 : low, err));
    uint16_t *h = fetch(high, elements * 2), *l = fetch(low, elements * 2);
    for (int row = 0; row < 16 * count; row++)
        for (int col = 0; col < (int)width; col++) {
            const size_t at = (size_t)row * width + (size_t)col;
            const int file_row = 16 * first + row;
            float w = file_row < rows && col < cols
                          ? b1i_tile_get(&m, data + (size_t)(file_row / 16) * m.panel_stride, file_row % 16, col)
                          : 0;
            uint16_t want = b1i_f32_to_bf16(w), rest = exact ? 0xffff : b1i_f32_to_bf16(w - b1i_bf16_to_f32(want));
            if ((h[at] & 0x7fff) != 0 || (want & 0x7fff) != 0) assert_int_equal(h[at], want);
            if ((l[at] & 0x7fff) != 0 || (rest & 0x7fff) != 0) assert_int_equal(l[at], rest);
        }
    b1i_gpu_free(the_gpu, m.data);
    b1i_gpu_free(the_gpu, high);
    b1i_gpu_free(the_gpu, low);
    free(data);
    free(h);
    free(l);
}

static void test_unpack(void **state)
{
    (void)state;
    need_gpu();
    for (int f = 0; f < b1i_format_count; f++) {
        const int block = b1i_formats[f].block;
        check_unpack((b1i_format_id)f, 37, block == 1 ? 60 : block * 3, 1);
        check_unpack((b1i_format_id)f, 64, block == 1 ? 576 : 2 * block, 2); /* interleaved with another */
        check_unpack((b1i_format_id)f, 5, block == 1 ? 33 : block, 1);
    }
}

/* ---- element kernels ---- */

static void check_begin(b1i_format_id format, int cols)
{
    enum { VOCAB = 50, ROWS = 9, HALF = 12, POSITION = 131000 };
    b1i_tile_matrix m;
    uint8_t *data = packed(format, VOCAB, cols, 1, &m);
    const int64_t stride = 32 * (int64_t)m.blocks;
    int32_t tokens[ROWS];
    for (int i = 0; i < ROWS; i++) tokens[i] = i == 0 ? VOCAB - 1 : i * 7 % VOCAB;
    float *inverse = random_floats(HALF, 1);
    b1i_prefill_begin_args a = {.x_stride = stride, .half = HALF, .position = POSITION, .rope_factor = 1.3f};
    const b1i_prefill_kernels k = kernels(64);
    m.data = device(data, (size_t)m.panels * m.panel_stride);
    a.embedding = m;
    a.tokens = device(tokens, sizeof tokens);
    a.inverse = device(inverse, HALF * 4);
    a.x = device(NULL, ROWS * (size_t)stride * 4);
    a.cos = device(NULL, ROWS * HALF * 4);
    a.sin = device(NULL, ROWS * HALF * 4);
    must(b1i_prefill_begin(&k, &a, ROWS, err));
    float *x = fetch(a.x, ROWS * (size_t)stride * 4), *c = fetch(a.cos, ROWS * HALF * 4),
          *s = fetch(a.sin, ROWS * HALF * 4);
    for (int r = 0; r < ROWS; r++) {
        const uint8_t *panel = data + (size_t)(tokens[r] / 16) * m.panel_stride;
        for (int i = 0; i < stride; i++)
            assert_true(x[r * stride + i] == (i < cols ? b1i_tile_get(&m, panel, tokens[r] % 16, i) : 0));
        for (int j = 0; j < HALF; j++) {
            float angle = (float)(POSITION + r) * inverse[j];
            assert_true(fabs((double)c[r * HALF + j] - 1.3f * cos((double)angle)) < 1e-6);
            assert_true(fabs((double)s[r * HALF + j] - 1.3f * sin((double)angle)) < 1e-6);
        }
    }
    const b1i_gpu_ptr all[] = {m.data, a.tokens, a.inverse, a.x, a.cos, a.sin};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) b1i_gpu_free(the_gpu, all[i]);
    free(data);
    free(inverse);
    free(x);
    free(c);
    free(s);
}

static void test_begin(void **state)
{
    (void)state;
    need_gpu();
    for (int f = 0; f < b1i_format_count; f++)
        check_begin((b1i_format_id)f, b1i_formats[f].block == 1 ? 60 : b1i_formats[f].block * 2);
}

/* RMSNorm, SiLU and bias over `rows` rows of `cols` columns; what is past the columns stays as it was. */
static void check_cols(int rows, int cols)
{
    const int64_t stride = (cols + 31) / 32 * 32;
    const size_t count = (size_t)rows * (size_t)stride;
    const b1i_prefill_kernels k = kernels(64);
    float *x = random_floats(count, 3), *y = random_floats(count, 2), *weight = random_floats((size_t)stride, 1);
    b1i_gpu_ptr dx = device(x, count * 4), dy = device(y, count * 4), dw = device(weight, (size_t)stride * 4),
                out[2] = {device(NULL, count * 2), device(NULL, count * 2)};
    b1i_prefill_norm_args norm = {dx, dw, out[0], stride, stride, cols, 1e-5f};
    b1i_prefill_cols_args silu = {dx, dy, out[1], stride, stride, stride, cols}, bias = {dy, dw, 0, stride, 0, 0, cols};
    must(b1i_prefill_norm(&k, &norm, rows, err));
    must(b1i_prefill_silu(&k, &silu, rows, err));
    must(b1i_prefill_bias(&k, &bias, rows, err));
    uint16_t *n = fetch(out[0], count * 2), *s = fetch(out[1], count * 2);
    float *b = fetch(dy, count * 4);
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < cols; i++) sum += (double)x[r * stride + i] * x[r * stride + i];
        for (int64_t i = 0; i < stride; i++) {
            const int64_t at = r * stride + i;
            const double v = x[at];
            if (i >= cols) {
                assert_true(n[at] == 0xffff && s[at] == 0xffff && b[at] == y[at]);
                continue;
            }
            check_bf16(n[at], v / sqrt(sum / cols + 1e-5) * weight[i], 1e-5, "rmsnorm");
            check_bf16(s[at], v / (1 + exp(-v)) * y[at], 1e-5, "silu_mul");
            assert_true(b[at] == y[at] + weight[i]);
        }
    }
    const b1i_gpu_ptr all[] = {dx, dy, dw, out[0], out[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) b1i_gpu_free(the_gpu, all[i]);
    free(x);
    free(y);
    free(weight);
    free(n);
    free(s);
    free(b);
}

static void test_cols(void **state)
{
    (void)state;
    need_gpu();
    const int cols[] = {30, 64, 576, 1027, 4096};
    for (int i = 0; i < 5; i++) check_cols(i % 2 ? 512 : 9, cols[i]);
}

/* ---- heads ---- */

/* One head by plain C: bias, norm, RoPE. */
static void head_of(const float *x, const float *bias, const float *norm, const float *cs, const float *sn, int hd,
                    double *out)
{
    double sum = 0;
    for (int d = 0; d < hd; d++) {
        out[d] = (double)x[d] + (bias ? bias[d] : 0);
        sum += out[d] * out[d];
    }
    for (int d = 0; norm && d < hd; d++) out[d] = out[d] / sqrt(sum / hd + 1e-6) * norm[d];
    for (int j = 0; cs && j < hd / 2; j++) {
        double a = out[j], b = out[j + hd / 2];
        out[j] = a * cs[j] - b * sn[j];
        out[j + hd / 2] = b * cs[j] + a * sn[j];
    }
}

static void check_heads(int hd, int heads, int kv_heads, bool bias, bool norm, int rows, int position)
{
    const int dim = b1i_cuda_dim(hd), half = hd / 2, capacity = (position + rows + 31) / 32 * 32;
    const size_t Q = (size_t)(heads * hd), K = (size_t)(kv_heads * hd), n = (size_t)rows, h2 = (size_t)half;
    const b1i_cuda_kv kv = {.bytes = (size_t)kv_heads * (size_t)capacity * (size_t)dim * 4,
                            .head_bytes = (size_t)capacity * (size_t)dim * 4,
                            .capacity = capacity,
                            .dim = dim,
                            .data = device(NULL, (size_t)kv_heads * (size_t)capacity * (size_t)dim * 4)};
    float *in[10];
    const size_t sizes[10] = {n * Q, n * K, n * K, Q, K, K, (size_t)hd, (size_t)hd, n * h2, n * h2};
    b1i_gpu_ptr on[10];
    for (int i = 0; i < 10; i++) {
        in[i] = random_floats(sizes[i], 2);
        on[i] = device(in[i], sizes[i] * 4);
    }
    const size_t out_bytes = n * (size_t)(heads * dim) * 2;
    b1i_prefill_heads_args a = {on[0],
                                on[1],
                                on[2],
                                (int64_t)Q,
                                (int64_t)K,
                                (int64_t)K,
                                bias ? on[3] : 0,
                                bias ? on[4] : 0,
                                bias ? on[5] : 0,
                                norm ? on[6] : 0,
                                norm ? on[7] : 0,
                                on[8],
                                on[9],
                                kv.data,
                                kv.head_bytes,
                                device(NULL, out_bytes),
                                heads,
                                kv_heads,
                                hd,
                                dim,
                                position,
                                0.37f,
                                1e-6f};
    const b1i_prefill_kernels k = kernels(dim);
    must(b1i_prefill_heads(&k, &a, rows, err));
    uint16_t *q = fetch(a.q_out, out_bytes), *cache = fetch(kv.data, kv.bytes);
    size_t written = 0;
    for (size_t i = 0; i < kv.bytes / 2; i++) written += cache[i] != 0xffff;
    assert_int_equal(written, 2 * n * K);
    for (int r = 0; r < rows; r++) {
        const float *cs = in[8] + r * half, *sn = in[9] + r * half;
        double want[256];
        for (int h = 0; h < heads; h++) {
            head_of(in[0] + (size_t)r * Q + h * hd, bias ? in[3] + h * hd : NULL, norm ? in[6] : NULL, cs, sn, hd,
                    want);
            for (int d = 0; d < dim; d++) {
                uint16_t got = q[((size_t)r * (size_t)heads + (size_t)h) * (size_t)dim + (size_t)d];
                if (d >= hd)
                    assert_int_equal(got, 0xffff);
                else
                    check_bf16(got, want[d] * 0.37f * 1.4426950408889634, 2e-5, "q");
            }
        }
        for (int h = 0; h < kv_heads; h++) {
            const size_t at = (size_t)r * K + (size_t)(h * hd);
            head_of(in[1] + at, bias ? in[4] + h * hd : NULL, norm ? in[7] : NULL, cs, sn, hd, want);
            for (int d = 0; d < hd; d++) check_bf16(cache[kv_at(&kv, h, false, position + r, d)], want[d], 2e-5, "key");
            head_of(in[2] + at, bias ? in[5] + h * hd : NULL, NULL, NULL, NULL, hd, want);
            for (int d = 0; d < hd; d++)
                check_bf16(cache[kv_at(&kv, h, true, position + r, d)], want[d], 2e-5, "value");
        }
    }
    for (int i = 0; i < 10; i++) {
        b1i_gpu_free(the_gpu, on[i]);
        free(in[i]);
    }
    b1i_gpu_free(the_gpu, kv.data);
    b1i_gpu_free(the_gpu, a.q_out);
    free(q);
    free(cache);
}

static void test_heads(void **state)
{
    (void)state;
    need_gpu();
    check_heads(128, 4, 1, false, false, 40, 0);
    check_heads(64, 7, 1, true, false, 9, 50);
    check_heads(80, 3, 3, false, true, 33, 31);
    check_heads(96, 6, 2, true, true, 12, 100);
    check_heads(256, 2, 2, false, true, 17, 5);
    check_heads(24, 3, 1, true, false, 64, 3);
}

/* ---- attention ---- */

typedef struct shape {
    int head_dim, group, kv_heads, rows, position, window;
} shape;

/* One query row of a head in double. q holds scale · log2 e already. */
static void attend(const shape *s, const b1i_cuda_kv *kv, const uint16_t *cache, int head, int row, const uint16_t *q,
                   double *out)
{
    const int limit = s->position + row + 1, first = s->window > 0 && limit > s->window ? limit - s->window : 0;
    double *score = host((size_t)limit * sizeof *score), most = -INFINITY, sum = 0;
    for (int p = first; p < limit; p++) {
        for (int d = 0; d < s->head_dim; d++)
            score[p] += (double)b1i_bf16_to_f32(q[d]) * (double)b1i_bf16_to_f32(cache[kv_at(kv, head, false, p, d)]);
        most = fmax(most, score[p]);
    }
    for (int d = 0; d < s->head_dim; d++) out[d] = 0;
    for (int p = first; p < limit; p++) {
        double e = exp2(score[p] - most);
        sum += e;
        for (int d = 0; d < s->head_dim; d++) out[d] += e * (double)b1i_bf16_to_f32(cache[kv_at(kv, head, true, p, d)]);
    }
    for (int d = 0; d < s->head_dim; d++) out[d] /= sum;
    free(score);
}

static void check_attention(const shape *s)
{
    char what[160];
    const int dim = b1i_cuda_dim(s->head_dim), end = s->position + s->rows, capacity = (end + 31) / 32 * 32;
    const int heads = s->group * s->kv_heads, stride = (heads * s->head_dim + 31) / 32 * 32;
    const size_t q_count = (size_t)s->rows * (size_t)(heads * dim), out_count = (size_t)s->rows * (size_t)stride;
    b1i_cuda_kv kv = {.head_bytes = (size_t)capacity * (size_t)dim * 4, .capacity = capacity, .dim = dim};
    kv.bytes = kv.head_bytes * (size_t)s->kv_heads;
    uint16_t *cache = host(kv.bytes), *q = host(q_count * 2);
    for (int h = 0; h < s->kv_heads; h++)
        for (int p = 0; p < capacity; p++) /* past the last position anything may lie */
            for (int d = 0; d < (p < end ? s->head_dim : dim); d++)
                for (int value = 0; value < 2; value++)
                    cache[kv_at(&kv, h, value, p, d)] = p < end ? b1i_f32_to_bf16(2 * uniform()) : 0xffff;
    for (size_t i = 0; i < q_count; i++) /* scores of a spread of about 3 */
        q[i] = (int)(i % (size_t)dim) < s->head_dim ? b1i_f32_to_bf16(4.5f / sqrtf((float)s->head_dim) * uniform()) : 0;
    kv.data = device(cache, kv.bytes);
    b1i_prefill_attention_args a = {.q = device(q, q_count * 2),
                                    .kv = kv.data,
                                    .head_bytes = kv.head_bytes,
                                    .out = device(NULL, out_count * 2),
                                    .out_stride = stride,
                                    .part = device(NULL, b1i_prefill_part_bytes(dim)),
                                    .rows = s->rows,
                                    .position = s->position,
                                    .group = s->group,
                                    .kv_heads = s->kv_heads,
                                    .head_dim = s->head_dim,
                                    .window = s->window};
    const b1i_prefill_kernels k = kernels(dim);
    must(b1i_prefill_attention(&k, &a, err));
    (void)snprintf(what, sizeof what, "D %d (%d), group %d of %d, %d rows at %d, window %d, %d parts", dim, s->head_dim,
                   s->group, s->kv_heads, s->rows, s->position, s->window, a.splits);
    uint16_t *got = fetch(a.out, out_count * 2);
    double want[256], square = 0, error = 0;
    const int step =
        (int)((double)s->rows * heads * end / 4e6) + 1; /* of the (row, head) pairs; the reference is slow */
    for (int i = s->rows * heads - 1; i >= 0; i -= step) {
        const int row = i / heads, head = i % heads;
        attend(s, &kv, cache, head / s->group, row, q + (size_t)i * (size_t)dim, want);
        for (int d = 0; d < s->head_dim; d++) {
            double x = b1i_bf16_to_f32(got[(size_t)row * (size_t)stride + (size_t)(head * s->head_dim + d)]);
            if (!(fabs(x - want[d]) <= 2 * 0x1p-9 * 2 + 0x1p-9 * fabs(want[d]) + 1e-5))
                fail_msg("%s: row %d, head %d, dimension %d: %g for %g", what, row, head, d, x, want[d]);
            square += want[d] * want[d];
            error += (x - want[d]) * (x - want[d]);
        }
    }
    if (!(sqrt(error / square) <= 0x1p-8)) fail_msg("%s: errors of %g of the outputs", what, sqrt(error / square));
    for (int row = 0; row < s->rows; row++)
        for (int i = heads * s->head_dim; i < stride; i++) assert_int_equal(got[row * stride + i], 0xffff);
    uint16_t *again = host(out_count * 2);
    must(b1i_prefill_attention(&k, &a, err));
    must(b1i_gpu_sync(the_gpu, err));
    must(b1i_gpu_download(the_gpu, again, a.out, out_count * 2, err));
    assert_memory_equal(got, again, out_count * 2);
    const b1i_gpu_ptr all[] = {kv.data, a.q, a.out, a.part};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) b1i_gpu_free(the_gpu, all[i]);
    free(cache);
    free(q);
    free(got);
    free(again);
}

static void test_attention(void **state)
{
    (void)state;
    need_gpu();
    const shape shapes[] = {
        {128, 4, 2, 1, 0, 0},       {128, 4, 2, 16, 0, 0},      {128, 7, 1, 17, 5, 0},    {128, 1, 3, 100, 31, 0},
        {64, 4, 1, 512, 0, 0},      {64, 1, 1, 9, 1000, 0},     {128, 2, 2, 20, 1900, 0}, {64, 7, 2, 33, 2000, 0},
        {80, 3, 1, 50, 70, 0},      {96, 2, 2, 64, 32, 0},      {256, 2, 1, 40, 300, 0},  {256, 1, 1, 16, 3000, 0},
        {24, 3, 1, 77, 13, 0},      {128, 4, 1, 200, 0, 24},    {64, 1, 2, 90, 700, 100}, {64, 64, 1, 20, 40, 0},
        {128, 4, 2, 9, 5000, 4096}, {128, 4, 1, 12, 131060, 0}, {128, 1, 1, 31, 33, 1},   {256, 7, 1, 30, 1500, 64},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!quick_here() || shapes[i].position < 2000) check_attention(&shapes[i]);
}

/* ---- whole passes ---- */

/* Prefill of `w`, or NULL, with the sentence printed, where there is no cuBLASLt. */
static b1i_cuda_prefill *prefill_of(const b1i_cuda_weights *w)
{
    b1_error err = {0};
    b1i_cuda_prefill *p = NULL;
    b1_status st = b1i_cuda_prefill_create(w, &p, &err);
    if (st == B1_UNSUPPORTED) print_message("skipped: %s\n", err.message);
    if (st != B1_OK && st != B1_UNSUPPORTED) fail_msg("%s", err.message);
    return p;
}

/* Positions [0, count) in passes of `each` tokens; logits of all to out [count][vocab]. */
static void feed(cuda_rig *r, b1i_cuda_prefill *p, const b1i_cuda_kv *kv, const int32_t *tokens, int count, int each,
                 float *out)
{
    const size_t vocab = (size_t)r->c->vocab;
    for (int at = 0; at < count; at += each) {
        const int n = count - at < each ? count - at : each;
        b1i_gpu_ptr logits = device(NULL, (size_t)n * vocab * 4);
        must(b1i_cuda_prefill_run(p, kv, tokens + at, n, at, 0, logits, err));
        must(b1i_gpu_download(the_gpu, out + (size_t)at * vocab, logits, (size_t)n * vocab * 4, err));
        b1i_gpu_free(the_gpu, logits);
    }
}

static void decode(cuda_rig *r, const b1i_cuda_kv *kv, const int32_t *tokens, int count, float *out)
{
    const b1i_cuda_program *program = cuda_rig_program(r, b1i_cuda_separate, 1);
    const size_t bytes = (size_t)r->c->vocab * 4;
    b1i_gpu_ptr logits = device(NULL, bytes);
    for (int i = 0; i < count; i++) {
        stage_rows(r, kv, tokens + i, 1, i, 0, logits, 0);
        run_items(program, 0, r->plan.op_count);
        must(b1i_gpu_download(the_gpu, out + (size_t)i * bytes / 4, logits, bytes, err));
    }
    b1i_gpu_free(the_gpu, logits);
}

static void check_pass(b1i_model *model, const int32_t *tokens, int count, const char *what)
{
    cuda_rig r;
    b1i_cuda_kv one, many;
    cuda_rig_open(&r, model);
    b1i_cuda_prefill *p = prefill_of(&r.w);
    if (p) {
        const size_t values = (size_t)count * (size_t)r.c->vocab;
        float *want = host(values * 4), *got = host(values * 4), *again = host(values * 4), most = 0;
        must(b1i_cuda_kv_create(the_gpu, r.c, count, &one, err));
        must(b1i_cuda_kv_create(the_gpu, r.c, count, &many, err));
        decode(&r, &one, tokens, count, want);
        for (size_t i = 0; i < values; i++) most = larger(most, fabsf(want[i]));
        const float tolerance = (1e-4f + 15 * 0x1p-8f / sqrtf(12) * sqrtf((float)(6 * r.c->layers + 1))) / 2;
        const int each[] = {B1I_CUDA_PREFILL_ROWS, 37, 9};
        for (int i = 0; i < 3; i++) {
            feed(&r, p, &many, tokens, count, each[i], got);
            float off = distance(got, want, (int)values) / most;
            if (!(off <= tolerance))
                fail_msg("%s in passes of %d lies %g off decode, tolerance %g", what, each[i], (double)off,
                         (double)tolerance);
            if (i == 0) print_message("%s: %d positions within %.1e of decode\n", what, count, (double)off);
            feed(&r, p, &many, tokens, count, each[i], again);
            assert_memory_equal(got, again, values * 4);
        }
        b1i_cuda_kv_free(the_gpu, &one);
        b1i_cuda_kv_free(the_gpu, &many);
        free(want);
        free(got);
        free(again);
    }
    b1i_cuda_prefill_free(p);
    cuda_rig_close(&r);
}

static void test_fixture(void **state)
{
    const fixture_name *n = *state;
    b1i_model *model = NULL;
    need_gpu();
    fixture f = fixture_read(n);
    must(b1i_model_open(fixture_path(n), B1I_LOAD_TENSORS, &model, err));
    check_pass(model, f.tokens, quick_here() && f.count > 48 ? 48 : f.count, n->folder);
    b1i_model_close(model);
    fixture_free(&f);
}

static void test_formats(void **state)
{
    (void)state;
    need_gpu();
    const tiny_shape shapes[] = {
        {"plain", b1i_arch_llama, 2, 256, 512, 4, 2, 64, 131, 0, false, false, true},
        {"bias", b1i_arch_qwen2, 2, 512, 768, 7, 1, 128, 97, 0, true, false, false},
    };
    int32_t tokens[80];
    for (int f = 0; f < b1i_format_count; f++) {
        tiny_shape s = shapes[f % 2];
        if (s.heads * s.head_dim % b1i_formats[f].block != 0) s.heads = 8; /* rows of whole blocks */
        b1i_model *model = tiny_model(&s, (b1i_format_id)f, NULL, 77);
        for (int i = 0; i < 80; i++) tokens[i] = (i * 37 + 5) % s.vocab;
        check_pass(model, tokens, quick_here() ? 40 : 80, b1i_formats[f].name);
        tiny_model_free(model);
    }
}

/* Logits of the last rows only are those of a pass that gives all; arguments out of range are a sentence. */
static void test_logits(void **state)
{
    (void)state;
    need_gpu();
    const tiny_shape s = {"plain", b1i_arch_llama, 2, 256, 512, 4, 2, 64, 131, 0, false, false, true};
    b1i_model *model = tiny_model(&s, b1i_bf16, NULL, 5);
    cuda_rig r;
    b1i_cuda_kv kv;
    b1_error e = {0};
    int32_t tokens[40];
    float all[40 * 131], last[3 * 131];
    for (int i = 0; i < 40; i++) tokens[i] = i * 11 % s.vocab;
    cuda_rig_open(&r, model);
    b1i_cuda_prefill *p = prefill_of(&r.w);
    if (p) {
        must(b1i_cuda_kv_create(the_gpu, r.c, 40, &kv, err));
        feed(&r, p, &kv, tokens, 40, 40, all);
        b1i_gpu_ptr logits = device(NULL, sizeof last);
        must(b1i_cuda_prefill_run(p, &kv, tokens, 40, 0, 37, logits, err));
        must(b1i_gpu_download(the_gpu, last, logits, sizeof last, err));
        assert_true(distance(last, all + (size_t)37 * 131, 3 * 131) < 1e-3f); /* another shape, another order of sums */
        must(b1i_cuda_prefill_run(p, &kv, tokens, 40, 0, 40, 0, err));        /* none */
        assert_int_equal(b1i_cuda_prefill_run(p, &kv, tokens, 40, 60, 39, logits, &e), B1_ARGUMENT);
        assert_int_equal(b1i_cuda_prefill_run(p, &kv, tokens, 0, 0, 0, logits, &e), B1_ARGUMENT);
        assert_true(strlen(e.message) > 0);
        b1i_gpu_free(the_gpu, logits);
        b1i_cuda_kv_free(the_gpu, &kv);
    }
    b1i_cuda_prefill_free(p);
    cuda_rig_close(&r);
    tiny_model_free(model);
}

/* Without the library there is a sentence; without memory too; neither leaves anything behind. */
static void test_failures(void **state)
{
    (void)state;
    need_gpu();
    const tiny_shape s = {"plain", b1i_arch_llama, 1, 64, 64, 1, 1, 64, 32, 0, false, false, true};
    b1i_model *model = tiny_model(&s, b1i_f16, NULL, 5);
    cuda_rig r;
    b1_error e = {0};
    b1i_cuda_prefill *p = NULL;
    cuda_rig_open(&r, model);
    const long device_live = b1i_gpu_alloc_live();
    char *given = getenv("BATCHONE_CUBLASLT") ? strdup(getenv("BATCHONE_CUBLASLT")) : NULL;
    assert_int_equal(setenv("BATCHONE_CUBLASLT", "none", 1), 0);
    assert_int_equal(b1i_cuda_prefill_create(&r.w, &p, &e), B1_UNSUPPORTED);
    assert_null(p);
    assert_true(strstr(e.message, "BATCHONE_CUBLASLT"));
    if (given)
        setenv("BATCHONE_CUBLASLT", given, 1);
    else
        unsetenv("BATCHONE_CUBLASLT");
    free(given);
    p = prefill_of(&r.w);
    if (p) {
        b1i_cuda_prefill_free(p);
        b1i_gpu_alloc_fail_at(0);
        assert_int_equal(b1i_cuda_prefill_create(&r.w, &p, &e), B1_MEMORY);
        b1i_gpu_alloc_fail_at(-1);
        for (int n = 0; n < 20; n++) { /* each allocation of the host in turn */
            const long live = b1i_alloc_live();
            b1i_alloc_fail_at(n);
            b1_status st = b1i_cuda_prefill_create(&r.w, &p, &e);
            b1i_alloc_fail_at(-1);
            if (st == B1_OK) {
                b1i_cuda_prefill_free(p);
                break;
            }
            assert_int_equal(st, B1_MEMORY);
            assert_int_equal(b1i_alloc_live(), live);
        }
    }
    assert_int_equal(b1i_gpu_alloc_live(), device_live);
    cuda_rig_close(&r);
    tiny_model_free(model);
}

#define FIXTURE(id, folder, architecture, file) static const fixture_name fixture_##id = {folder, architecture, file};
MODEL_FIXTURES(FIXTURE)

int main(int argc, char **argv)
{
#define PASS(id, folder, architecture, file) \
    {"pass_" folder, test_fixture, NULL, NULL, (void *)(uintptr_t)&fixture_##id},
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unpack), cmocka_unit_test(test_begin),     cmocka_unit_test(test_cols),
        cmocka_unit_test(test_heads),  cmocka_unit_test(test_attention), cmocka_unit_test(test_formats),
        cmocka_unit_test(test_logits), cmocka_unit_test(test_failures),  MODEL_FIXTURES(PASS)};
    seed_start();
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    int failed = cmocka_run_group_tests_name("cuda prefill", tests, gpu_open, gpu_close);
    b1i_pool_end();
    return failed;
}
