/* SPDX-License-Identifier: MIT
 *
 * Weight formats against the values of another implementation, 16-bit floats against their definitions, and the
 * distribution of random weights.
 */
#include "model/format.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void table(void **state)
{
    (void)state;
    assert_ptr_equal(b1i_format_by_name("q4_k"), &b1i_formats[b1i_q4_k]);
    assert_ptr_equal(b1i_format_by_gguf(30), &b1i_formats[b1i_bf16]);
    assert_null(b1i_format_by_name("q4_2"));
    assert_null(b1i_format_by_name("q4"));
    assert_null(b1i_format_by_gguf(4));
    assert_null(b1i_format_by_gguf(UINT32_MAX));
    assert_int_equal(b1i_format_bytes(b1i_q6_k, 1024), 840);
    assert_int_equal(b1i_format_bytes(b1i_f32, UINT64_C(1) << 34), UINT64_C(1) << 36);
    for (int f = 0; f < b1i_format_count; f++) {
        assert_ptr_equal(b1i_format_by_name(b1i_formats[f].name), &b1i_formats[f]);
        assert_ptr_equal(b1i_format_by_gguf((uint32_t)b1i_formats[f].gguf_type), &b1i_formats[f]);
    }
}

/* The value of a half from its definition; NaN and infinity apart. */
static double half_value(unsigned h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -size : size;
}

static void halves(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = b1i_f16_to_f32((uint16_t)h);
        bool special = (h & 0x7c00) == 0x7c00;
        if (special && h & 0x3ff) {
            assert_true(isnan(f));
            assert_true(b1i_f32_to_f16(f) == (h | 0x200)); /* the payload stays, made quiet */
            continue;
        }
        if (special)
            assert_true(isinf(f) && !signbit(f) == !(h >> 15));
        else
            assert_int_equal(bits_of(f), bits_of((float)half_value(h)));
        assert_int_equal(b1i_f32_to_f16(f), h);
    }
}

/* The nearest half of a finite f32, ties to the even one, found by search over the definition. */
static unsigned nearest_half(float f)
{
    double x = fabs((double)f);
    unsigned low = 0, high = 0x7c00; /* value(low) ≤ x; 0x7c00 stands for the next power of two, 65536 */
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (half_value(middle) <= x)
            low = middle;
        else
            high = middle;
    }
    double above = half_value(high) - x, below = x - half_value(low);
    unsigned best = above < below || (above == below && high % 2 == 0) ? high : low;
    if (x >= 65536) best = 0x7c00;
    return best | (signbit(f) ? 0x8000 : 0);
}

static void to_halves(void **state)
{
    (void)state;
    const float edges[] = {0,        -0.0f,          65504,          65519.996f, 65520,      65536,           1e10f,
                           0x1p-14f, 0x1.ffcp-15f,   0x1p-24f,       0x1p-25f,   0x1.8p-24f, 0x1.000002p-25f, 0x1p-149f,
                           1.0f,     1.00048828125f, 1.00146484375f, -2049,      2051};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        assert_int_equal(b1i_f32_to_f16(edges[i]), nearest_half(edges[i]));
    for (unsigned h = 0; h < 0x7bff; h++) { /* halfway between neighbours, and a step to either side */
        float middle = (float)((half_value(h) + half_value(h + 1)) / 2);
        for (int d = -1; d <= 1; d++) {
            float f = float_of(bits_of(middle) + (uint32_t)d);
            assert_int_equal(b1i_f32_to_f16(f), nearest_half(f));
        }
    }
    for (uint64_t i = 0; i < 200000; i++) {
        float f = float_of((uint32_t)b1i_mix64(i));
        if (isfinite(f)) assert_int_equal(b1i_f32_to_f16(f), nearest_half(f));
    }
    assert_int_equal(b1i_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(b1i_f32_to_f16(-INFINITY), 0xfc00);
    assert_true(isnan(b1i_f16_to_f32(b1i_f32_to_f16(float_of(0x7f800001)))));
}

static void bfloats(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = b1i_bf16_to_f32((uint16_t)h);
        assert_int_equal(bits_of(f), h << 16);
        if (!isnan(f)) assert_int_equal(b1i_f32_to_bf16(f), h);
        if ((h & 0x7f80) == 0x7f80) continue;
        uint32_t u = h << 16;
        assert_int_equal(b1i_f32_to_bf16(float_of(u | 0x7fff)), h);
        assert_int_equal(b1i_f32_to_bf16(float_of(u | 0x8000)), h + (h & 1)); /* a tie goes to the even one */
        assert_int_equal(b1i_f32_to_bf16(float_of(u | 0x8001)), h + 1);       /* infinity above the largest */
    }
    assert_int_equal(b1i_f32_to_bf16(float_of(0x7f800001)) & 0x7fff, 0x7fc0);
    assert_int_equal(b1i_f32_to_bf16(float_of(0xffffffff)), 0xffff);
}

/* Values of the fixture are exact: see the head of format.c, no order of operations gives another result. */
static void fixture(b1i_format_id id)
{
    char path[512];
    int32_t head[2];
    snprintf(path, sizeof path, "%s/tests/fixtures/formats/%s.bin", B1I_SOURCE_DIR, b1i_formats[id].name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, sizeof *head, 2, f), 2);
    size_t n = (size_t)head[0], bytes = (size_t)head[1];
    assert_int_equal(b1i_format_bytes(id, n), bytes);
    uint8_t *blocks = malloc(bytes + 1);
    float *expected = malloc(n * sizeof *expected), *got = malloc(n * sizeof *got);
    assert_int_equal(fread(blocks + 1, 1, bytes, f), bytes); /* at an odd address */
    assert_int_equal(fread(expected, sizeof *expected, n, f), n);
    fclose(f);
    b1i_formats[id].dequantise(blocks + 1, (int64_t)n, got);
    for (size_t i = 0; i < n; i++) {
        if (got[i] != expected[i])
            fail_msg("%s: element %zu is %a, expected %a", b1i_formats[id].name, i, (double)got[i],
                     (double)expected[i]);
    }
    free(blocks);
    free(expected);
    free(got);
}

static void fixtures(void **state)
{
    (void)state;
    for (int f = b1i_q8_0; f < b1i_format_count; f++) fixture((b1i_format_id)f);
}

static void dense(void **state)
{
    (void)state;
    float in[5] = {1, -2.5f, 0x1p-20f, 65504, 0}, out[5];
    uint8_t bytes[21];
    memcpy(bytes + 1, in, sizeof in);
    b1i_formats[b1i_f32].dequantise(bytes + 1, 5, out);
    assert_memory_equal(out, in, sizeof in);
    for (int f = b1i_f16; f <= b1i_bf16; f++) {
        for (int i = 0; i < 5; i++) {
            uint16_t h = f == b1i_f16 ? b1i_f32_to_f16(in[i]) : b1i_f32_to_bf16(in[i]);
            memcpy(bytes + 1 + 2 * i, &h, 2);
        }
        b1i_formats[f].dequantise(bytes + 1, 5, out);
        for (int i = 0; i < 5; i++) assert_true(fabsf(out[i] - in[i]) <= fabsf(in[i]) / 256);
    }
}

/* Random weights: standard deviation, mean, no value twice as far out as the format's spread explains, other weights
 * for another seed, the same for the same, and neighbouring sub-blocks of different scales. */
static void random_weights(void **state)
{
    (void)state;
    enum { N = 2048, ROWS = 64 };
    static uint8_t blocks[2][N * 4 + 1];
    static float y[N];
    const float scales[] = {0.02f, 1.0f, 0.008f};
    for (int f = 0; f < b1i_format_count; f++) {
        const b1i_format *k = &b1i_formats[f];
        size_t bytes = (size_t)b1i_format_bytes((b1i_format_id)f, N);
        int part = f == b1i_q6_k ? 16 : 32; /* elements that share a scale */
        for (int s = 0; s < 3; s++) {
            double sum = 0, squares = 0, most = 0, blocks_alike = 0;
            for (int r = 0; r < ROWS; r++) {
                blocks[0][bytes] = 0xa5;
                k->random((uint64_t)r, N, scales[s], blocks[0]);
                assert_int_equal(blocks[0][bytes], 0xa5);
                k->dequantise(blocks[0], N, y);
                double before = 0;
                for (int b = 0; b < N / part; b++) {
                    double peak = 0;
                    for (int i = 0; i < part; i++) {
                        double v = (double)y[part * b + i];
                        assert_true(isfinite(v));
                        sum += v;
                        squares += v * v;
                        peak = fmax(peak, fabs(v));
                    }
                    most = fmax(most, peak);
                    blocks_alike += peak == before;
                    before = peak;
                }
            }
            double deviation = sqrt(squares / (ROWS * N));
            if (fabs(deviation / (double)scales[s] - 1) > 0.02)
                fail_msg("%s: deviation %g, asked %g", k->name, deviation, (double)scales[s]);
            assert_true(fabs(sum / (ROWS * N)) < 0.01 * (double)scales[s]);
            assert_true(most < 5 * (double)scales[s]);
            if (k->block > 1) assert_true(blocks_alike < 0.1 * ROWS * N / part);
        }
        k->random(5, N, 0.02f, blocks[0]);
        k->random(5, N, 0.02f, blocks[1]);
        assert_memory_equal(blocks[0], blocks[1], bytes);
        k->random(6, N, 0.02f, blocks[1]);
        size_t same = 0;
        for (size_t i = 0; i < bytes; i++) same += blocks[0][i] == blocks[1][i];
        assert_true(same < bytes / 4);            /* not a shifted or partly equal stream */
        k->random(5, k->block, 0.02f, blocks[1]); /* one block alone */
    }
    b1i_formats[b1i_f16].random(1, N, 1e9f, blocks[0]); /* beyond the range of halves: the largest, not infinity */
    b1i_formats[b1i_f16].dequantise(blocks[0], N, y);
    for (int i = 0; i < N; i++) assert_true(isfinite(y[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),          cmocka_unit_test(halves),   cmocka_unit_test(to_halves),
        cmocka_unit_test(bfloats),        cmocka_unit_test(fixtures), cmocka_unit_test(dense),
        cmocka_unit_test(random_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
