/* SPDX-License-Identifier: MIT
 *
 * The SIMD kernels of the CPU as a table per instruction set, chosen at run time. Every kernel source is written once
 * over the 16-lane vectors of simd.h and compiled once per instruction set.
 *
 * All of them work on n rows (tokens) of activations, f32 unless a type says otherwise; pointers are 64-byte aligned
 * and rows lie at strides that are multiples of 64 bytes. None allocates, none fails. Results depend only on the
 * arguments, never on which thread runs a range: a range boundary falls between panels, heads or KV chunks, and each
 * of those is summed in one fixed order.
 */
#ifndef B1I_KERNELS_H
#define B1I_KERNELS_H

#include "plan/layout.h"

extern const char *const b1i_type_names[4];

/* Activations as a linear op reads them. One row:
 *   f32:  float  [cols_padded]                      cols_padded: cols rounded up to 32, the rest zero
 *   bf16: uint16 [cols_padded]                      rounded to nearest even
 *   i8:   b1i_act_block[cols_padded / 32]: value = q · scale
 * i8, exactly, in f32: max = max|x| of the 32; where max < 2^-100: scale = 0 and every q = 0; otherwise
 * scale = max / 127 and q = x · (127 / max) rounded to nearest even (the quotient is rounded first). */
typedef struct b1i_act_block {
    int8_t q[32];
    float scale;
    float scaled_sum; /* scale · sum */
    int32_t sum;      /* Σ q */
    int16_t half[2];  /* Σ q of the first 16, of the last 16 */
} b1i_act_block;
typedef struct b1i_act {
    b1i_type type;
    int rows; /* n */
    int64_t cols;
    size_t stride; /* bytes from row to row, a multiple of 64 */
    uint8_t *data;
} b1i_act;

static inline int64_t b1i_act_padded(int64_t cols) { return (cols + 31) / 32 * 32; }
/* Bytes of a row, rounded up to 64. */
static inline size_t b1i_act_stride(b1i_type type, int64_t cols)
{
    size_t c = (size_t)b1i_act_padded(cols);
    size_t bytes = type == b1i_type_f32 ? 4 * c : type == b1i_type_i8 ? c / 32 * sizeof(b1i_act_block) : 2 * c;
    return (bytes + 63) / 64 * 64;
}
static inline const b1i_act_block *b1i_act_i8(const b1i_act *a, int row)
{
    return (const b1i_act_block *)(a->data + (size_t)row * a->stride);
}

/* KV cache of one layer and one KV head: blocks of 16 positions, so that a key block is a row16 panel.
 *   key block   [head_dim / 2][16 positions][2]  (bf16)   [head_dim][16 positions] (f32, f16)
 *   value block [16 positions][head_dim]
 * Block b holds positions 16b … 16b + 15. */
enum { B1I_KV_BLOCK = 16, B1I_KV_CHUNK = 256 /* positions that one attention partial covers, about */ };
typedef struct b1i_kv_head {
    b1i_type type; /* f32, bf16, f16 */
    int head_dim;
    uint8_t *keys;   /* [blocks] of 16·head_dim·size bytes */
    uint8_t *values; /* the same size */
} b1i_kv_head;

/* Partial attention of one KV head over one chunk of positions, for n rows × group query heads. */
typedef struct b1i_attention {
    b1i_kv_head kv;
    const float *q; /* [n] rows at q_stride floats; [group][head_dim] of this KV head */
    int64_t q_stride;
    int n, group;
    const int *limit; /* [n]: row r sees positions first[r] … limit[r] − 1 */
    const int *first; /* [n]: 0, or the sliding window's start */
    float scale;      /* 1 / sqrt(head_dim) */
    int begin, end;   /* positions of this chunk, begin a multiple of B1I_KV_BLOCK, any length */
    /* results, per (row, head of the group): running maximum and sum of exponents, and the weighted values before
     * division; a chunk without a visible position gives max −INFINITY, sum 0, values 0 */
    float *max, *sum; /* [n × group] */
    float *out;       /* [n × group × head_dim] */
} b1i_attention;

/* What a linear kernel adds to its product: y[r][row] = dot + bias[row] (NULL: none) + y[r][row] (add). */
typedef struct b1i_linear {
    const b1i_packed *w; /* row16 */
    const b1i_act *x;    /* type: kernels' act type for w->format; cols == w->cols */
    const float *bias;   /* [rows] or NULL */
    float *y;            /* row r at y + r·y_stride; only existing rows are written */
    int64_t y_stride;    /* floats */
    bool add;
} b1i_linear;

typedef struct b1i_kernels {
    const char *name;        /* "generic", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512bf16", "neon", "neondot" */
    bool (*supported)(void); /* by this machine */
    b1i_type dense_act;      /* activation type of f32, f16 and bf16 weights; quantised ones take i8 */

    /* Panels [begin, end) of y = W x. All n rows of x: a panel's weights are read from memory once. */
    void (*linear)(const b1i_linear *args, int64_t begin, int64_t end);
    /* x [cols] → out row r in its type. */
    void (*convert)(const float *x, b1i_act *out, int row);
    /* out = x / sqrt(mean(x²) + eps) · weight, [count] */
    void (*rmsnorm)(const float *x, const float *weight, int64_t count, float eps, float *out);
    /* In place on one head [head_dim]: pairs (j, j + head_dim / 2) rotated by cos, sin [head_dim / 2]. */
    void (*rope)(float *x, int head_dim, const float *cos, const float *sin);
    /* Key and value [head_dim] into position `pos`. */
    void (*kv_put)(const b1i_kv_head *kv, int pos, const float *k, const float *v);
    void (*attention)(const b1i_attention *args);
    /* Merges `chunks` partials of one (row, head): max and sum at stride ms_stride, out at out_stride floats;
     * result [head_dim]. Sum 0 in all gives zeros. */
    void (*attention_merge)(const float *max, const float *sum, int64_t ms_stride, const float *out, int64_t out_stride,
                            int chunks, int head_dim, float *result);
    /* out = gate / (1 + exp(−gate)) · up */
    void (*silu_mul)(const float *gate, const float *up, int64_t count, float *out);
    /* y += x */
    void (*add)(float *y, const float *x, int64_t count);
    /* Starts bringing [p, p + bytes) into the second-level cache. */
    void (*prefetch)(const void *p, size_t bytes);
} b1i_kernels;

/* Those that this build has, best first, NULL-terminated; `generic` is the last. */
extern const b1i_kernels *const b1i_kernels_built[];
/* The best that this machine supports; $BATCHONE_ISA names another one of them (unknown or unsupported: ignored). */
const b1i_kernels *b1i_kernels_best(void);
/* B1_ARGUMENT where $BATCHONE_ISA names kernels that are not to be had. */
b1_status b1i_kernels_check(b1_error *err);
static inline b1i_type b1i_kernels_act(const b1i_kernels *k, b1i_format_id format)
{
    return format <= b1i_bf16 ? k->dense_act : b1i_type_i8;
}

#endif
