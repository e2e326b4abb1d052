/* SPDX-License-Identifier: MIT
 *
 * Packing: what comes back out of a panel is exactly what the dequantiser makes of the file's row, for every format,
 * ragged row counts and several widths; sizes are those of the format.
 */
#include "plan/row16.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const int64_t row_counts[] = {1, 15, 16, 17, 40};

/* Random bytes in every field, so that each sub-block differs; halves are kept finite. */
static void fill(b1i_format_id format, uint64_t seed, int64_t count, uint8_t *bytes)
{
    const b1i_format *f = &b1i_formats[format];
    size_t n = b1i_format_bytes(format, (uint64_t)count);
    if (f->block == 1) {
        f->random(seed, count, 1.0f, bytes);
        return;
    }
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)b1i_mix64(seed + i);
    for (int64_t b = 0; b < count / f->block; b++) {
        uint8_t *block = bytes + b * f->block_bytes;
        uint8_t *halves = format == b1i_q6_k ? block + 208 : block;
        int two = format == b1i_q4_1 || format == b1i_q5_1 || format == b1i_q4_k || format == b1i_q5_k;
        for (int i = 0; i <= two; i++) halves[2 * i + 1] = (uint8_t)((halves[2 * i + 1] & 0x83) | 0x30);
    }
}

static void check(b1i_format_id format, int64_t rows, int64_t cols, b1i_layout_id layout)
{
    size_t row_bytes = b1i_format_bytes(format, (uint64_t)cols);
    uint8_t *file = b1i_malloc(row_bytes * (size_t)rows), *scratch = b1i_malloc(row_bytes * B1I_PANEL);
    float *want = b1i_malloc((size_t)cols * sizeof(float)), *got = b1i_malloc((size_t)cols * sizeof(float));
    for (int64_t r = 0; r < rows; r++) fill(format, 977 * (uint64_t)(r + 1), cols, file + (size_t)r * row_bytes);
    b1i_tensor t = {.format = format, .rows = rows, .cols = cols, .data = file, .map = -1};
    b1i_packed p = {0};
    b1i_packed_shape(&t, layout, &p);
    assert_int_equal(p.panels, (rows + b1i_layouts[layout].panel_rows - 1) / b1i_layouts[layout].panel_rows);
    p.data = b1i_pages_alloc(b1i_packed_bytes(&p));
    assert_non_null(p.data);
    memset(p.data, 0xa5, b1i_packed_bytes(&p));
    for (int64_t i = p.panels; i-- > 0;) b1i_pack_panels(&t, &p, i, i + 1, scratch);
    for (int64_t r = 0; r < rows; r++) {
        b1i_formats[format].dequantise(file + (size_t)r * row_bytes, cols, want);
        b1i_packed_row(&p, r, got);
        assert_memory_equal(got, want, (size_t)cols * sizeof(float));
    }
    /* rows that the matrix lacks weigh nothing */
    for (int64_t r = rows; r < p.panels * b1i_layouts[layout].panel_rows; r++) {
        b1i_packed_row(&p, r, got);
        for (int64_t c = 0; c < cols; c++) assert_true(got[c] == 0);
    }
    b1i_pages_free(p.data, b1i_packed_bytes(&p));
    b1i_free(file);
    b1i_free(scratch);
    b1i_free(want);
    b1i_free(got);
}

static void round_trip(void **state)
{
    (void)state;
    for (int f = 0; f < b1i_format_count; f++) {
        int block = b1i_formats[f].block;
        int64_t widths[] = {block, 2 * block, 3 * block, block == 1 ? 31 : 5 * block, 768};
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++) {
                check((b1i_format_id)f, row_counts[r], widths[w], b1i_layout_row16);
                check((b1i_format_id)f, row_counts[r], widths[w], b1i_layout_plain);
            }
    }
}

static void sizes(void **state)
{
    (void)state;
    for (int f = 0; f < b1i_format_count; f++)
        for (int64_t cols = 256; cols <= 2048; cols += 256) {
            size_t file = 16 * b1i_format_bytes((b1i_format_id)f, (uint64_t)cols);
            size_t panel = b1i_layouts[b1i_layout_row16].panel_bytes((b1i_format_id)f, cols);
            assert_int_equal(panel % 64, 0);
            assert_in_range(panel, file, file + 32);
        }
}

static void permuted_rows(void **state)
{
    (void)state;
    enum { ROWS = 48, COLS = 64, HEADS = 3, D = ROWS / HEADS };
    float file[ROWS][COLS], got[COLS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++) file[r][c] = (float)(r * COLS + c);
    b1i_tensor t = {
        .format = b1i_f32, .rows = ROWS, .cols = COLS, .data = (const uint8_t *)file, .permuted_heads = HEADS};
    b1i_packed p = {0};
    b1i_packed_shape(&t, b1i_layout_row16, &p);
    p.data = b1i_pages_alloc(b1i_packed_bytes(&p));
    assert_non_null(p.data);
    uint8_t *scratch = b1i_malloc(B1I_PANEL * COLS * sizeof(float));
    b1i_pack_panels(&t, &p, 0, p.panels, scratch);
    for (int h = 0; h < HEADS; h++)
        for (int j = 0; j < D; j++) {
            b1i_packed_row(&p, h * D + j, got);
            int from = h * D + (j < D / 2 ? 2 * j : 2 * (j - D / 2) + 1);
            assert_memory_equal(got, file[from], sizeof got);
        }
    b1i_free(scratch);
    b1i_pages_free(p.data, b1i_packed_bytes(&p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(sizes),
        cmocka_unit_test(permuted_rows),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
