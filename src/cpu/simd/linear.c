/* SPDX-License-Identifier: MIT
 *
 * y = W x over a range of panels. A panel is read from memory by its first tile of rows of x, and stays in the cache
 * for the others. Each element is one tile's sum in a fixed order, whatever the range.
 */
#include "cpu/simd/simd.h"

/* sum + bias + what y holds, to the panel's rows that exist. */
static void finish(const b1i_linear *args, int64_t first, const float *sum, float *y)
{
    int64_t left = args->w->rows - first;
    float bias[16], old[16];
    vf v = vf_load(sum);
    y += first;
    if (left >= B1I_PANEL) {
        if (args->bias) v = vf_add(v, vf_load(args->bias + first));
        if (args->add) v = vf_add(v, vf_load(y));
        vf_store(y, v);
        return;
    }
    for (int i = 0; i < 16; i++) {
        bias[i] = args->bias && i < left ? args->bias[first + i] : 0;
        old[i] = args->add && i < left ? y[i] : 0;
    }
    vf_store_part(y, left, vf_add(vf_add(v, vf_load(bias)), vf_load(old)));
}

void B1I_NAME(linear)(const b1i_linear *args, int64_t begin, int64_t end)
{
    const b1i_packed *w = args->w;
    bool dense = w->format <= b1i_bf16;
    float sums[16 * 16] __attribute__((aligned(64)));
    for (int64_t p = begin; p < end; p++) {
        const uint8_t *panel = w->data + (size_t)p * w->panel_bytes;
        for (int row = 0, rows; row < args->x->rows; row += rows) {
            int left = args->x->rows - row, most = dense ? B1I_DENSE_TILE : B1I_QUANT_TILE;
            rows = left >= most ? most : left >= 4 && most >= 4 ? 4 : left >= 2 ? 2 : 1;
            if (dense)
                B1I_NAME(dense_tile)(w->format, panel, w->cols, args->x, row, rows, sums);
            else
                B1I_NAME(quant_tile)(w->format, panel, w->cols, args->x, row, rows, sums);
            for (int t = 0; t < rows; t++)
                finish(args, p * B1I_PANEL, sums + 16 * t, args->y + (row + t) * args->y_stride);
        }
    }
}
