/* SPDX-License-Identifier: MIT
 *
 * What host and kernels share: the layouts of device memory and the structs that kernels take. Plain C that nvcc reads
 * too; addresses are 64-bit integers on both sides.
 *
 * ---- layout "tile": a weight matrix for mma.m16n8k16 ----
 * A panel is 16 rows × all columns; columns are padded with zeros to a multiple of 32 and advance in blocks of 32, rows
 * are padded with zeros to 16. Lane = 4·g + t of a warp (g < 8, t < 4) owns, in half j (j < 2) of a block, columns
 * 16j + 4t … 16j + 4t + 3 of rows g and g + 8: the four registers of the A fragment are
 *   a0 row g, columns +0 +1    a1 row g + 8, +0 +1    a2 row g, +2 +3    a3 row g + 8, +2 +3
 * so that B's are b0 = x[16j + 4t + 0, 1] and b1 = x[16j + 4t + 2, 3].
 *   bf16, f16   block of 1024 bytes: [j][lane] 16 bytes a0 a1 a2 a3
 *   f32         block of 2048 bytes: [j][lane] 32 bytes, the same order
 *   i8          block of 512 bytes: [lane] 16 bytes: j = 0 row g (4 columns), row g + 8, j = 1 row g, row g + 8; then
 *               `scales` lines of [16 rows] f32 (one for the block, or one for each half), then `offsets` (0 or 1; two
 *               scales have none) such lines. A weight is scale · q + offset.
 *   i4          block of 256 bytes: [lane] 8 bytes, a dword for each half, in which nibble k is the first and nibble
 *               k + 4 the second column of register ak; then a line of scales, with offsets in f32 and a line of them
 *               behind it, without in f16. A weight is scale · q + offset, or scale · (q − 8).
 * Quantised formats of a file are held in the last two, exactly at their values.
 * Panels lie `panel_stride` bytes apart (gate and up are interleaved panel by panel).
 *
 * ---- layout of the KV cache, bf16 ----
 * A head is a row of blocks of 32 positions; a block is keys, then values, 32 · D elements each, D = head_dim padded to
 * 64, 96, 128 or 256 (zeros past head_dim). In a block, of position p (< 32) and dimension d:
 *   key    ((p % 8 / 2 · D / 32 + d / 32) · 32 + (2 · (p / 8) + p % 2) · 4 + d % 32 / 8) · 8 + d % 8
 *   value  (d / 8 · 32 + d % 8 · 4 + p / 8) · 8 + p % 8
 * These are the orders in which 32 lanes read 16 bytes each as B fragments.
 */
#ifndef B1I_CUDA_ARGS_H
#define B1I_CUDA_ARGS_H

#include <stdint.h>

enum {
    B1I_CUDA_ROWS = 8,          /* most rows (tokens × sequences) of a step */
    B1I_TILE_COLS = 32,         /* columns of a block */
    B1I_TILE_ROWS = 16,         /* rows of a panel */
    B1I_KV_TILE = 32,           /* positions of a block of the KV cache */
    B1I_HEADS_PASS = 8,         /* query heads that attention takes at once */
    B1I_CUDA_BLOCKS_MAX = 4096, /* most blocks of a linear launch */
    B1I_SPLITS_MAX = 64         /* most parts of the context in attention */
};

/* ---- shapes of the two kernels that stream ----
 * A linear block has a ring that one warp fills and the others empty; an attention warp has a ring of its own. The
 * linear kernels before and after attention have rings that leave room for attention's blocks on their SMs
 * (B1I_LINEAR_SLOTS_BESIDE), so that both stream at once; the others have the longest that an SM takes, and the next
 * one's blocks start as these end. Where a block gets less shared memory, rings are shorter: linear's as program.c
 * finds that they fit, attention's on GPUs whose blocks get less than 160 KB (8.6, 8.9, 12.x). */
/* Warps that multiply, of a format; one more fills the ring. Integers have more to do for a byte. */
#define B1I_LINEAR_WARPS(format) ((format) == b1i_tile_i8 || (format) == b1i_tile_i4 ? 12 : 8)
#ifndef B1I_LINEAR_SLOT_BYTES
#define B1I_LINEAR_SLOT_BYTES 16384
#endif
#ifndef B1I_LINEAR_SLOTS
#define B1I_LINEAR_SLOTS 11
#endif
#ifndef B1I_LINEAR_SLOTS_BESIDE
#define B1I_LINEAR_SLOTS_BESIDE 6
#endif
#ifndef B1I_ATTENTION_RING
#define B1I_ATTENTION_RING 24576 /* bytes of a warp's ring, about */
#endif
enum {
    B1I_LINEAR_SLOTS_LEAST = 2,
    B1I_LINEAR_SLOTS_MAX = 16,
    B1I_ATTENTION_WARPS = 4,
    B1I_SHARED_SMALL = 160 << 10,
    B1I_PANELS_ONE = 80, /* most panels of a linear block, with one row, with more: fewer where their sums in shared */
    B1I_PANELS_FEW = 16  /* memory leave no room for a ring */
};

/* Slots of an attention warp's ring; a slot is the keys, or the values, of 32 positions. */
#define B1I_ATTENTION_SLOTS(dim, small) \
    ((small) ? ((dim) == 256   ? 1      \
                : (dim) == 128 ? 2      \
                : (dim) == 96  ? 3      \
                               : 4)      \
             : ((dim) == 256 ? 2 : B1I_ATTENTION_RING / (B1I_KV_TILE * (dim)*2)))

typedef enum b1i_tile_format {
    b1i_tile_bf16,
    b1i_tile_f16,
    b1i_tile_f32,
    b1i_tile_i8,
    b1i_tile_i4,
    b1i_tile_count
} b1i_tile_format;

typedef struct b1i_tile_matrix {
    uint64_t data, panel_stride;
    int32_t format;                     /* b1i_tile_format */
    int32_t rows, cols, panels, blocks; /* panels of 16 rows, blocks of 32 columns */
    int32_t block_bytes, scales, offsets;
} b1i_tile_matrix;

/* ---- the step at hand, in device memory: written by k_begin from pinned memory, read by all others ---- */
typedef struct b1i_step_row {
    int32_t token, position;
    uint64_t kv, head_bytes; /* the KV cache of the row's sequence; its heads (of a layer, then of the next) lie so far
                              * apart */
    uint64_t logits;         /* f32 [vocab], of rows from logits_from on */
    uint64_t mask; /* bit i of the uint32 words [vocab / 32 rounded up]: token i is never chosen; 0: none is masked */
} b1i_step_row;

typedef struct b1i_step_params {
    int32_t n;           /* rows, 1 … 8 */
    int32_t logits_from; /* logits of rows [logits_from, n) */
    uint32_t serial;     /* of the step: what the result is marked with */
    int32_t pad;
    b1i_step_row row[B1I_CUDA_ROWS];
} b1i_step_params;

/* What the step gives back, in pinned memory that the host polls: `serial` is written last. */
typedef struct b1i_step_result {
    int32_t token[B1I_CUDA_ROWS]; /* largest logit that is not masked, the lowest id where several are; by row */
    int32_t bad;                  /* a logit of some row is not finite */
    uint32_t serial;
} b1i_step_result;

/* ---- k_begin: the step's parameters, the embedding of its rows, RoPE's cos and sin; one block a row ---- */
typedef struct b1i_begin_args {
    uint64_t staged, step; /* b1i_step_params: pinned, device */
    b1i_tile_matrix embedding;
    uint64_t x; /* f32 [8][x_stride] */
    int64_t x_stride;
    uint64_t inverse;  /* f32 [half]: inverse frequencies */
    uint64_t cos, sin; /* f32 [8][half] */
    int32_t half;
    float rope_factor;
} b1i_begin_args;

/* ---- k_linear_<format>_<one|few> ---- */
enum { b1i_in_bf16, b1i_in_norm };                                 /* x is bf16; x is f32 and is normalised first */
enum { b1i_out_store, b1i_out_add, b1i_out_silu, b1i_out_logits }; /* what becomes of y = W x (+ bias) */

typedef struct b1i_linear_out {
    uint64_t y, bias; /* f32 [rows of the step][y_stride] (silu: bf16); f32 [rows] or 0 */
    int64_t y_stride;
    int32_t rows, first_panel; /* of the launch */
} b1i_linear_out;

typedef struct b1i_linear_args {
    uint64_t weights, panel_stride;
    int32_t blocks, block_bytes, scales, offsets;
    int32_t slots;             /* of the ring */
    int32_t chunk, chunks;     /* blocks of columns that fill a slot; such chunks of a panel */
    int32_t unit;              /* panels that stay in one block: 1; 2 for silu (gate, up) */
    int32_t units, units_more; /* every block has so many units, the first units_more blocks one more */
    int32_t early;             /* launched before its inputs are there: stream first, then wait for them */
    int32_t cols;              /* logical columns */
    int32_t input, epilogue, outs;
    uint64_t x; /* bf16 or f32 [rows][x_stride], zeros from cols to 32 · blocks */
    int64_t x_stride;
    uint64_t norm; /* f32 [32 · blocks], zeros past cols */
    float eps;
    uint64_t step; /* b1i_step_params */
    b1i_linear_out out[3];
    /* logits: partial argmax of each block and row, and who is last */
    uint64_t best;    /* {float value; int32 token} [grid][8] */
    uint64_t arrived; /* uint32, 0 between launches */
    uint64_t result;  /* b1i_step_result, pinned */
} b1i_linear_args;

/* ---- k_attention_<D>: grid (splits, KV heads, rows · ⌈group / 8⌉) ---- */
typedef struct b1i_attention_args {
    uint64_t step;
    uint64_t q, k, v; /* f32 [rows][stride] */
    int64_t q_stride, k_stride, v_stride;
    int32_t prologue; /* 1: norm (where there is one), RoPE and the append are done here; 0: q is ready, and the
                       * step's keys and values lie in the cache */
    int32_t head_dim, group, kv_heads, splits, window; /* window 0: none */
    float scale, eps;
    uint64_t q_norm, k_norm; /* f32 [head_dim] or 0 */
    uint64_t cos, sin;       /* f32 [8][head_dim / 2] */
    int32_t layer;           /* its first head in a sequence's cache is layer · kv_heads */
    int32_t early;           /* as of linear */
    uint64_t out;            /* bf16 [rows][out_stride] */
    int64_t out_stride;
    uint64_t part;  /* f32 [grid.z][KV heads][splits][B1I_ATTENTION_PART(D)], all bits 1 between launches: [8][D]
                     * weighted values, [8][4] maximum (base 2), sum, 0, 0 */
    uint64_t begun; /* uint32 [grid.z][KV heads], 0 between launches */
} b1i_attention_args;
#define B1I_ATTENTION_PART(D) (B1I_HEADS_PASS * ((D) + 4))

/* ---- one op a kernel ---- */
/* k_rmsnorm: f32 → bf16, one block a row. k_headnorm, k_rope: in place on f32 heads. k_silu_mul: f32 gate a, up b →
 * bf16. k_add: x a += b. k_kv_append: f32 keys a, values b → the cache. blockIdx.y is the row. */
typedef struct b1i_small_args {
    uint64_t step;
    uint64_t a, b, out, weight;
    int64_t a_stride, b_stride, out_stride;
    int32_t cols, head_dim, heads, half;
    float eps;
    int32_t dim_padded; /* D of the KV cache */
    uint64_t cos, sin;
    int32_t layer, pad;
} b1i_small_args;

/* ---- k_kv_fill: positions [0, count) of all heads with the session's filler ---- */
typedef struct b1i_fill_args {
    uint64_t kv, head_bytes;
    int32_t heads; /* layers × KV heads, each head_bytes apart */
    int32_t head_dim, dim_padded, count;
} b1i_fill_args;

#endif
