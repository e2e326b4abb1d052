/* SPDX-License-Identifier: MIT
 *
 * Layouts: how a packed weight lies in memory. A layout is data: a descriptor and a packer that fills any range.
 *
 * Layout "plain": rows as in the file, one after the other (the reference's, and every vector's).
 * Layout "row16": panels of 16 rows × all columns, contiguous. Inside a panel, columns advance in blocks; one 32-bit
 * lane belongs to one row, so that a SIMD register (or two, or four) holds the same columns of 16 rows, an input is
 * broadcast to all lanes, and the scales of 16 rows are applied at once. Rows are padded with zeros to 16, columns
 * of f32, f16 and bf16 to an even number. Sizes per format are those of the file's format (row padding apart), so
 * that a step streams no more than it must.
 */
#ifndef B1I_LAYOUT_H
#define B1I_LAYOUT_H

#include "model/model.h"

/* Types of activations (the input of a linear op) and of KV. */
typedef enum b1i_type { b1i_type_f32, b1i_type_bf16, b1i_type_f16, b1i_type_i8 } b1i_type;

typedef enum b1i_layout_id { b1i_layout_plain, b1i_layout_row16, b1i_layout_count } b1i_layout_id;

enum { B1I_PANEL = 16 };

typedef struct b1i_layout {
    const char *name;
    int panel_rows; /* 1 or 16 */
    /* Bytes of one panel of `cols` columns; a multiple of 64 for row16. */
    size_t (*panel_bytes)(b1i_format_id format, int64_t cols);
    /* Packs rows [panel·panel_rows, +panel_rows) from `rows` (file bytes of the panel's rows that exist, `count` of
     * them, in logical order) into `out` [panel_bytes]. */
    void (*pack)(b1i_format_id format, int64_t cols, const uint8_t *rows, int count, uint8_t *out);
    /* Row `lane` of a panel back as f32 [cols]: the embedding lookup, and the packer's test. Exactly what
     * b1i_formats[format].dequantise gives for the file's row. */
    void (*unpack_row)(b1i_format_id format, int64_t cols, const uint8_t *panel, int lane, float *out);
} b1i_layout;

extern const b1i_layout b1i_layouts[b1i_layout_count];

/* A packed weight. Panels lie one after the other. */
typedef struct b1i_packed {
    b1i_format_id format;
    b1i_layout_id layout;
    int64_t rows, cols;
    int64_t panels;
    size_t panel_bytes;
    uint8_t *data; /* 64-byte aligned */
} b1i_packed;

/* Fills panels [begin, end) of `out` from `t`; `out`'s fields other than data are set by b1i_packed_shape. `scratch`
 * holds panel_rows file rows. Thread-safe for disjoint ranges. */
void b1i_packed_shape(const b1i_tensor *t, b1i_layout_id layout, b1i_packed *out);
size_t b1i_packed_bytes(const b1i_packed *p); /* panels × panel_bytes */
void b1i_pack_panels(const b1i_tensor *t, b1i_packed *out, int64_t begin, int64_t end, uint8_t *scratch);
/* Row `row` as f32 [cols]. */
void b1i_packed_row(const b1i_packed *p, int64_t row, float *out);

#endif
