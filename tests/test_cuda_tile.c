/* SPDX-License-Identifier: MIT
 *
 * The layouts of device memory, proven without a GPU: what comes back out of a packed panel is exactly what the
 * dequantiser makes of the file's row; the KV cache's index functions are bijections; and mma.m16n8k16, emulated lane
 * by lane as the PTX ISA defines its fragments, gives the plain product when its registers are loaded as the kernels
 * load them. What needs a GPU is in test_cuda_weights.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda/cuda.h"

#include <math.h>
#include <string.h>

/* ---- files ---- */

static uint64_t counter = 1;
static uint64_t draw(void) { return b1i_mix64(counter++); }

/* Random bytes in every field, so that each sub-block differs; halves are kept finite. */
static void fill_file(b1i_format_id format, int64_t count, uint8_t *bytes)
{
    const b1i_format *f = &b1i_formats[format];
    size_t n = b1i_format_bytes(format, (uint64_t)count);
    if (f->block == 1) {
        f->random(draw(), count, 1.0f, bytes);
        return;
    }
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)draw();
    for (int64_t b = 0; b < count / f->block; b++) {
        uint8_t *block = bytes + b * f->block_bytes;
        uint8_t *halves = format == b1i_q6_k ? block + 208 : block;
        int two = format == b1i_q4_1 || format == b1i_q5_1 || format == b1i_q4_k || format == b1i_q5_k;
        for (int i = 0; i <= two; i++) halves[2 * i + 1] = (uint8_t)((halves[2 * i + 1] & 0x83) | 0x30);
    }
}

typedef struct panel {
    b1i_tile_matrix m;
    b1i_format_id format;
    int count; /* rows that there are, at most 16 */
    size_t row_bytes, bytes;
    uint8_t *file; /* [count][row_bytes], of that size exactly: a sanitizer sees what is read past it */
    uint8_t *packed;
} panel;

static panel panel_make(b1i_format_id format, int count, int cols)
{
    panel p = {.format = format, .count = count, .row_bytes = b1i_format_bytes(format, (uint64_t)cols)};
    b1i_tensor t = {.format = format, .rows = count, .cols = cols, .map = -1};
    b1i_tile_shape(&t, &p.m);
    assert_true(p.m.scales < 2 || (p.m.offsets == 0 && p.m.format == b1i_tile_i8)); /* there is no other product */
    p.bytes = (size_t)p.m.panel_stride;
    p.file = b1i_malloc(p.row_bytes * (size_t)count);
    p.packed = b1i_malloc(p.bytes);
    assert_true(p.file && p.packed);
    for (int r = 0; r < count; r++) fill_file(format, cols, p.file + (size_t)r * p.row_bytes);
    memset(p.packed, 0xa5, p.bytes);
    b1i_tile_pack(format, &p.m, p.file, count, p.packed);
    return p;
}

static void panel_free(panel *p)
{
    b1i_free(p->file);
    b1i_free(p->packed);
}

static void panel_row(const panel *p, int row, float *out)
{
    b1i_formats[p->format].dequantise(p->file + (size_t)row * p->row_bytes, p->m.cols, out);
}

/* ---- packing ---- */

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static void check_panel(b1i_format_id format, int count, int cols)
{
    panel p = panel_make(format, count, cols);
    float *want = b1i_malloc((size_t)cols * sizeof(float)), got;
    assert_int_equal(p.m.panels, 1);
    assert_int_equal(p.m.blocks, (cols + 31) / 32);
    assert_int_equal(p.m.panel_stride % 32, 0); /* a bulk copy asks for 16, memory is read by 32 */
    for (int r = 0; r < count; r++) {
        panel_row(&p, r, want);
        for (int c = 0; c < cols; c++) {
            got = b1i_tile_get(&p.m, p.packed, r, c);
            if (bits_of(got) != bits_of(want[c]))
                fail_msg("%s, %d rows of %d: (%d, %d) is %a, expected %a", b1i_formats[format].name, count, cols, r, c,
                         (double)got, (double)want[c]);
        }
    }
    /* padding weighs nothing */
    for (int r = 0; r < B1I_TILE_ROWS; r++)
        for (int c = r < count ? cols : 0; c < p.m.blocks * B1I_TILE_COLS; c++) {
            got = b1i_tile_get(&p.m, p.packed, r, c);
            assert_true(got == 0);
        }
    b1i_free(want);
    panel_free(&p);
}

static void packs_every_format(void **state)
{
    (void)state;
    for (int f = 0; f < b1i_format_count; f++) {
        const int block = b1i_formats[f].block;
        const int dense[] = {1, 8, 31, 32, 60, 256, 287, 576}, quants[] = {1, 2, 3, 9, 18}; /* of a block */
        const int widths = block == 1 ? 8 : 5;
        for (int w = 0; w < widths; w++)
            for (int count = 1; count <= B1I_TILE_ROWS; count++)
                check_panel((b1i_format_id)f, count, block == 1 ? dense[w] : quants[w] * block);
    }
}

/* NaN, infinities, zeros of both signs, subnormals: bits pass unchanged. */
static void passes_every_16_bits(void **state)
{
    (void)state;
    enum { COLS = 4096 };
    static uint16_t rows[B1I_TILE_ROWS][COLS];
    for (int i = 0; i < B1I_TILE_ROWS * COLS; i++) rows[i / COLS][i % COLS] = (uint16_t)i;
    b1i_tensor t = {.format = b1i_bf16, .rows = B1I_TILE_ROWS, .cols = COLS, .map = -1};
    b1i_tile_matrix m;
    b1i_tile_shape(&t, &m);
    uint8_t *packed = b1i_malloc(m.panel_stride);
    assert_non_null(packed);
    b1i_tile_pack(b1i_bf16, &m, (const uint8_t *)rows, B1I_TILE_ROWS, packed);
    for (int r = 0; r < B1I_TILE_ROWS; r++)
        for (int c = 0; c < COLS; c++) {
            float got = b1i_tile_get(&m, packed, r, c), want = b1i_bf16_to_f32(rows[r][c]);
            assert_int_equal(bits_of(got), bits_of(want));
        }
    b1i_free(packed);
}

/* ---- mma.m16n8k16, row.col: fragments as the PTX ISA numbers them, g = lane / 4, t = lane % 4 ----
 * A, four registers of two: a0 (g, 2t …), a1 (g + 8, 2t …), a2 (g, 2t + 8 …), a3 (g + 8, 2t + 8 …).
 * B, two registers of two: b0 (k = 2t …, n = g), b1 (k = 2t + 8 …, n = g).
 * C: c0, c1 (g, 2t …), c2, c3 (g + 8, 2t …). */
typedef struct fragments {
    double a[32][4][2], b[32][2][2], c[32][4];
} fragments;

static void mma(fragments *f)
{
    double A[16][16], B[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 2; i++) {
            A[g][2 * t + i] = f->a[lane][0][i];
            A[g + 8][2 * t + i] = f->a[lane][1][i];
            A[g][2 * t + 8 + i] = f->a[lane][2][i];
            A[g + 8][2 * t + 8 + i] = f->a[lane][3][i];
            B[2 * t + i][g] = f->b[lane][0][i];
            B[2 * t + 8 + i][g] = f->b[lane][1][i];
        }
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 16; k++) f->c[lane][i] += A[lane / 4 + i / 2 * 8][k] * B[k][lane % 4 * 2 + i % 2];
}

static float half_of(b1i_tile_format format, const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return format == b1i_tile_f16 ? b1i_f16_to_f32(bits) : b1i_bf16_to_f32(bits);
}

/* What lane `lane` loads of half j of a block, as its A registers; of i8 and i4 the bare integers. */
static void load_a(const b1i_tile_matrix *m, const uint8_t *block, int j, int lane, double a[4][2])
{
    for (int i = 0; i < 8; i++) {
        const int reg = i / 2, e = i % 2;
        if (m->format == b1i_tile_f32) {
            float v;
            memcpy(&v, block + (j * 32 + lane) * 32 + 4 * i, sizeof v);
            a[reg][e] = (double)v;
        } else if (m->format == b1i_tile_i8) {
            /* the dword of row g (a0, a2) or g + 8 (a1, a3): four columns */
            a[reg][e] = (int8_t)block[lane * 16 + 8 * j + 4 * (reg % 2) + 2 * (reg / 2) + e];
        } else if (m->format == b1i_tile_i4) {
            uint32_t dword;
            memcpy(&dword, block + lane * 8 + j * 4, sizeof dword);
            a[reg][e] = (int)(dword >> 4 * (reg + 4 * e) & 15) - (m->offsets ? 0 : 8);
        } else {
            a[reg][e] = (double)half_of((b1i_tile_format)m->format, block + (j * 32 + lane) * 16 + 2 * i);
        }
    }
}

/* The scale of a row for half j of a block, and its offset; 1 and 0 of the formats without. */
static double line_of(const b1i_tile_matrix *m, const uint8_t *block, int j, int row, double *offset)
{
    const uint8_t *lines = block + (m->format == b1i_tile_i8 ? 512 : 256);
    float f;
    uint16_t half;
    *offset = 0;
    if (!m->scales) return 1;
    if (m->format == b1i_tile_i4 && !m->offsets) {
        memcpy(&half, lines + 2 * row, sizeof half);
        return (double)b1i_f16_to_f32(half);
    }
    if (m->offsets) {
        memcpy(&f, lines + 64 * m->scales + 4 * row, sizeof f);
        *offset = (double)f;
    }
    memcpy(&f, lines + 64 * (m->scales == 2 ? j : 0) + 4 * row, sizeof f);
    return (double)f;
}

/* y[16][8] = panel · x of 8 rows, as k_linear does it. */
static void multiply(const panel *p, const double *x, int stride, double y[16][8])
{
    memset(y, 0, 16 * sizeof *y);
    for (int b = 0; b < p->m.blocks; b++) {
        const uint8_t *block = p->packed + (size_t)b * (size_t)p->m.block_bytes;
        for (int j = 0; j < 2; j++) {
            fragments f = {0};
            double sum[8] = {0};
            for (int lane = 0; lane < 32; lane++) {
                const int g = lane / 4, t = lane % 4;
                const double *from = x + g * stride + 32 * b + 16 * j + 4 * t;
                load_a(&p->m, block, j, lane, f.a[lane]);
                for (int i = 0; i < 4; i++) {
                    f.b[lane][i / 2][i % 2] = from[i];
                    sum[g] += from[i];
                }
            }
            mma(&f);
            for (int lane = 0; lane < 32; lane++)
                for (int i = 0; i < 4; i++) {
                    const int row = lane / 4 + i / 2 * 8, n = lane % 4 * 2 + i % 2;
                    double offset, scale = line_of(&p->m, block, j, row, &offset);
                    y[row][n] += f.c[lane][i] * scale + offset * sum[n];
                }
        }
    }
}

static void fragments_of_weights(void **state)
{
    (void)state;
    enum { COLS = 512, STRIDE = COLS + 32 };
    static double x[8 * STRIDE];
    static float w[COLS];
    for (int f = 0; f < b1i_format_count; f++)
        for (int odd = 0; odd < 2; odd++) {
            const int cols = odd && b1i_formats[f].block == 1 ? COLS - 12 : odd ? COLS / 2 : COLS;
            const int count = odd ? 11 : 16;
            panel p = panel_make((b1i_format_id)f, count, cols);
            double y[16][8];
            memset(x, 0, sizeof x);
            for (int n = 0; n < 8; n++)
                for (int c = 0; c < cols; c++) x[n * STRIDE + c] = (double)(int)(draw() % 33) - 16;
            multiply(&p, x, STRIDE, y);
            for (int r = 0; r < 16; r++)
                for (int n = 0; n < 8; n++) {
                    double want = 0, terms = 0;
                    if (r < count) panel_row(&p, r, w);
                    for (int c = 0; c < cols && r < count; c++) {
                        want += (double)w[c] * x[n * STRIDE + c];
                        terms += fabs((double)w[c] * x[n * STRIDE + c]);
                    }
                    if (!(fabs(y[r][n] - want) <= 1e-6 * terms))
                        fail_msg("%s: row %d of column %d is %g, expected %g", b1i_formats[f].name, r, n, y[r][n],
                                 want);
                }
            panel_free(&p);
        }
}

/* ---- the KV cache ---- */

static const int dims[] = {64, 96, 128, 256};

static void kv_indices(void **state)
{
    (void)state;
    static unsigned char seen[2][B1I_KV_TILE * 256];
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        const int D = dims[i];
        memset(seen, 0, sizeof seen);
        for (int p = 0; p < B1I_KV_TILE; p++)
            for (int d = 0; d < D; d++) {
                size_t k = b1i_cuda_key_index(D, p, d), v = b1i_cuda_value_index(D, p, d);
                assert_true(k < (size_t)(B1I_KV_TILE * D) && v < (size_t)(B1I_KV_TILE * D));
                assert_int_equal(seen[0][k]++, 0);
                assert_int_equal(seen[1][v]++, 0);
                /* the formulas as args.h has them */
                assert_int_equal(k, ((p % 8 / 2 * D / 32 + d / 32) * 32 + (2 * (p / 8) + p % 2) * 4 + d % 32 / 8) * 8 +
                                        d % 8);
                assert_int_equal(v, (d / 8 * 32 + d % 8 * 4 + p / 8) * 8 + p % 8);
            }
    }
}

/* Attention's two products over one block: scores of 16 queries as the first's C registers, which are the second's A
 * registers as they are, with no exchange between lanes. */
static void attend(int D, const double *q, const double *keys, const double *values, double *scores, double *out)
{
    double a[32][4][4]; /* C of score tile u */
    for (int u = 0; u < 4; u++) {
        fragments f = {0};
        for (int kk = 0; kk < D / 32; kk++)
            for (int m = 0; m < 2; m++) {
                for (int lane = 0; lane < 32; lane++) {
                    const int g = lane / 4, t = lane % 4, d = 32 * kk + 8 * t + 4 * m;
                    const double *piece = keys + ((u * (D / 32) + kk) * 32 + lane) * 8; /* x y z w, two each */
                    for (int e = 0; e < 2; e++) {
                        f.a[lane][0][e] = q[g * D + d + e];
                        f.a[lane][1][e] = q[(g + 8) * D + d + e];
                        f.a[lane][2][e] = q[g * D + d + 2 + e];
                        f.a[lane][3][e] = q[(g + 8) * D + d + 2 + e];
                        f.b[lane][0][e] = piece[4 * m + e];
                        f.b[lane][1][e] = piece[4 * m + 2 + e];
                    }
                }
                mma(&f);
            }
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) {
                const int row = lane / 4 + i / 2 * 8, n = lane % 4 * 2 + i % 2;
                scores[row * B1I_KV_TILE + 8 * (n / 2) + 2 * u + n % 2] = f.c[lane][i];
                a[lane][u][i] = f.c[lane][i];
            }
    }
    for (int d8 = 0; d8 < D / 8; d8++) {
        fragments f = {0};
        for (int kk = 0; kk < 2; kk++) {
            for (int lane = 0; lane < 32; lane++) {
                const double *piece = values + (d8 * 32 + lane) * 8;
                for (int e = 0; e < 2; e++) {
                    f.a[lane][0][e] = a[lane][2 * kk][e];
                    f.a[lane][1][e] = a[lane][2 * kk][2 + e];
                    f.a[lane][2][e] = a[lane][2 * kk + 1][e];
                    f.a[lane][3][e] = a[lane][2 * kk + 1][2 + e];
                    f.b[lane][0][e] = piece[4 * kk + e];
                    f.b[lane][1][e] = piece[4 * kk + 2 + e];
                }
            }
            mma(&f);
        }
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) out[(lane / 4 + i / 2 * 8) * D + 8 * d8 + lane % 4 * 2 + i % 2] = f.c[lane][i];
    }
}

static void fragments_of_the_cache(void **state)
{
    (void)state;
    static double q[16 * 256], k[B1I_KV_TILE * 256], v[B1I_KV_TILE * 256], out[16 * 256], scores[16 * B1I_KV_TILE];
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        const int D = dims[i];
        for (int n = 0; n < 16 * D; n++) q[n] = (double)(int)(draw() % 17) - 8;
        for (int n = 0; n < B1I_KV_TILE * D; n++) k[n] = (double)(int)(draw() % 17) - 8;
        for (int n = 0; n < B1I_KV_TILE * D; n++) v[n] = (double)(int)(draw() % 17) - 8;
        attend(D, q, k, v, scores, out);
        /* small integers: both sides are exact */
        for (int r = 0; r < 16; r++) {
            double plain[B1I_KV_TILE] = {0};
            for (int p = 0; p < B1I_KV_TILE; p++) {
                for (int d = 0; d < D; d++) plain[p] += q[r * D + d] * k[b1i_cuda_key_index(D, p, d)];
                assert_true(scores[r * B1I_KV_TILE + p] == plain[p]);
            }
            for (int d = 0; d < D; d++) {
                double want = 0;
                for (int p = 0; p < B1I_KV_TILE; p++) want += plain[p] * v[b1i_cuda_value_index(D, p, d)];
                assert_true(out[r * D + d] == want);
            }
        }
    }
}

static void kv_sizes(void **state)
{
    (void)state;
    const int heads[][2] = {{64, 64}, {80, 96}, {96, 96}, {128, 128}, {256, 256}, {32, 64}, {257, 0}, {0, 0}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) assert_int_equal(b1i_cuda_dim(heads[i][0]), heads[i][1]);
    b1i_config c = {.layers = 32, .kv_heads = 8, .head_dim = 128};
    assert_int_equal(b1i_cuda_kv_bytes(&c, 2048), (size_t)2 * 32 * 8 * 128 * 2048 * 2);
    assert_int_equal(b1i_cuda_kv_bytes(&c, 2049), (size_t)2 * 32 * 8 * 128 * 2080 * 2);
    c = (b1i_config){.layers = 4096, .kv_heads = 16384, .head_dim = 256};
    assert_int_equal(b1i_cuda_kv_bytes(&c, INT32_MAX), SIZE_MAX); /* not wrapped */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_every_format),     cmocka_unit_test(passes_every_16_bits),
        cmocka_unit_test(fragments_of_weights),   cmocka_unit_test(kv_indices),
        cmocka_unit_test(fragments_of_the_cache), cmocka_unit_test(kv_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
