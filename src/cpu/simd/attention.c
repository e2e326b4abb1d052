/* SPDX-License-Identifier: MIT
 *
 * Attention of the query heads that share one KV head, over one range of positions. (row, head) pairs go eight at a
 * time: scores of 256 positions to a buffer, their maximum and exponents, then the weighted values; a longer range
 * goes in parts of 256 with a running maximum. A block of 16 keys or values is brought into registers once for
 * B1I_HEADS (4 or 8) pairs.
 * Keys, then values, then the keys after them are asked for a few blocks ahead, as one stream: who attends to a range
 * of a long context attends to the next one after it.
 * Positions that a pair does not see weigh exactly 0; those that no pair of the eight sees are not read.
 */
#include "cpu/simd/simd.h"

enum { PAIRS = 8, PART = 256, MANY = B1I_HEADS, TURN = 8192 /* bytes of values that a turn takes */ };

/* What `PAIRS` pairs at most have at hand. */
typedef struct work {
    const b1i_attention *a;
    int count;                 /* pairs */
    const float *q[PAIRS];     /* [head_dim] */
    float *out[PAIRS];         /* [head_dim] */
    const uint8_t *far, *near; /* what to ask for meanwhile, line by line, into the second and the first-level cache */
    const uint8_t *later;      /* what to ask for while nothing is read: a line for each 16 exponents */
    int low[PAIRS], high[PAIRS]; /* visible positions in the part at hand; low >= high: none */
    float score[PAIRS][PART] __attribute__((aligned(64)));
} work;

/* ---- scores ---- */

/* Elements d and d + 1 of 16 keys, d even. */
B1I_OP void keys_at(b1i_type type, const uint8_t *block, int d, vf *k0, vf *k1)
{
    if (type == b1i_type_bf16) {
        vi both = vi_load(block + d * 32);
        v_keep(both);
        *k0 = vf_low_bf16(both);
        *k1 = vf_high_bf16(both);
    } else if (type == b1i_type_f16) {
        *k0 = vf_load_f16((const uint16_t *)block + d * 16);
        *k1 = vf_load_f16((const uint16_t *)block + d * 16 + 16);
    } else {
        *k0 = vf_load((const float *)block + d * 16);
        *k1 = vf_load((const float *)block + d * 16 + 16);
    }
}

/* Scores of U pairs against B blocks, which lie `bytes` apart. Sums of even and odd elements apart where registers
 * suffice. */
B1I_OP void score_blocks(b1i_type type, int U, int B, work *w, int first, const uint8_t *block, size_t bytes, int at)
{
    const int dim = w->a->kv.head_dim, step = type == b1i_type_f32 ? 64 : 32; /* bytes a dimension */
    const int odd = U * B <= B1I_SCORE_SUMS;
    const uint8_t *far = w->far, *near = w->near;
    const vf scale = vf_set(w->a->scale);
    const float *q[MANY];
    vf s[2][2][MANY];
    B1I_UNROLL for (int u = 0; u < U; u++)
    {
        q[u] = w->q[first + u];
        B1I_UNROLL for (int i = 0; i < B; i++) s[0][i][u] = s[odd][i][u] = vf_zero();
    }
    for (int d = 0; d < dim; d += 2) {
        vf k0[2], k1[2];
        B1I_UNROLL for (int i = 0; i < B; i++) { keys_at(type, block + (size_t)i * bytes, d, &k0[i], &k1[i]); }
        /* in the order of addresses, for prefetchers know a page by one direction */
        for (int line = 0; line < 2 * B * step; line += 64) {
            v_prefetch_far(far + B * d * step + line);
            v_prefetch(near + B * d * step + line);
        }
        B1I_UNROLL for (int u = 0; u < U; u++)
        {
            vf q0 = vf_set(q[u][d]), q1 = vf_set(q[u][d + 1]);
            B1I_UNROLL for (int i = 0; i < B; i++)
            {
                s[0][i][u] = vf_fma(k0[i], q0, s[0][i][u]);
                s[odd][i][u] = vf_fma(k1[i], q1, s[odd][i][u]);
            }
        }
    }
    B1I_UNROLL for (int u = 0; u < U; u++) B1I_UNROLL for (int i = 0; i < B; i++)
    {
        vf sum = odd ? vf_add(s[0][i][u], s[1][i][u]) : s[0][i][u];
        vf_store(w->score[first + u] + at + 16 * i, vf_mul(sum, scale));
    }
}

/* ---- values ---- */

/* 16 elements, or fewer at the row's end. */
B1I_OP vf value_at(b1i_type type, const uint8_t *row, int d, int n)
{
    const int size = type == b1i_type_f32 ? 4 : 2;
    uint8_t t[64];
    const uint8_t *p = row + d * size;
    if (n < 16) {
        memset(t, 0, sizeof t);
        memcpy(t, p, (size_t)(n * size));
        p = t;
    }
    if (type == b1i_type_f32) return vf_load((const float *)p);
    return type == b1i_type_bf16 ? vf_load_bf16((const uint16_t *)p) : vf_load_f16((const uint16_t *)p);
}

/* 32 elements: as they lie, or of bfloat16 the even and the odd ones, which takes half the work. */
B1I_OP void values_at(b1i_type type, const uint8_t *row, int d, vf *v)
{
    if (type == b1i_type_bf16) {
        vi both = vi_load(row + d * 2);
        v_keep(both);
        v[0] = vf_low_bf16(both);
        v[1] = vf_high_bf16(both);
        return;
    }
    v[0] = value_at(type, row, d, 16);
    v[1] = value_at(type, row, d + 16, 16);
}

/* Dimensions [d, d + 16·W) of U pairs, `count` positions; n < 16 elements where W is 1 and the row ends there. */
B1I_OP void value_slice(b1i_type type, int U, int W, work *w, int first, const uint8_t *rows, int at, int count, int d,
                        int n)
{
    const int dim = w->a->kv.head_dim, size = type == b1i_type_f32 ? 4 : 2;
    /* a line each turn, in the order of addresses; one slice of two asks, where two make a line */
    const int line = 16 * W * size >= 64 ? 16 * W * size : 64;
    const int64_t asked = (int64_t)(d * size / line) * count * line;
    const bool ask = 16 * W * size >= 64 || d % 32 == 0;
    const uint8_t *far = ask ? w->far + asked : rows, *near = ask ? w->near + asked : rows;
    const float *weight = w->score[first] + at;
    vf s[2][MANY];
    B1I_UNROLL for (int u = 0; u < U; u++) B1I_UNROLL for (int i = 0; i < W; i++)
    {
        const float *o = w->out[first + u] + d + 16 * i;
        s[i][u] = n < 16 ? vf_load_part(o, n) : vf_load(o);
    }
    for (int p = 0; p < count; p++) {
        vf v[2];
        v_prefetch_far(far + p * line);
        v_prefetch(near + p * line);
        if (W == 2)
            values_at(type, rows + p * dim * size, d, v);
        else
            v[0] = value_at(type, rows + p * dim * size, d, n);
        B1I_UNROLL for (int u = 0; u < U; u++)
        {
            vf e = vf_set(weight[u * PART + p]);
            B1I_UNROLL for (int i = 0; i < W; i++) s[i][u] = vf_fma(v[i], e, s[i][u]);
        }
    }
    B1I_UNROLL for (int u = 0; u < U; u++) B1I_UNROLL for (int i = 0; i < W; i++)
    {
        float *o = w->out[first + u] + d + 16 * i;
        if (n < 16)
            vf_store_part(o, n, s[i][u]);
        else
            vf_store(o, s[i][u]);
    }
}

B1I_OP void value_rows(b1i_type type, int U, work *w, int first, const uint8_t *rows, int at, int count)
{
    const int dim = w->a->kv.head_dim;
    int d = 0;
    if (B1I_VALUE_WIDTH == 2)
        for (; d + 32 <= dim; d += 32) value_slice(type, U, 2, w, first, rows, at, count, d, 16);
    for (; d + 16 <= dim; d += 16) value_slice(type, U, 1, w, first, rows, at, count, d, 16);
    if (d < dim) value_slice(type, U, 1, w, first, rows, at, count, d, dim - d);
}

/* The sums of bfloat16 values back to the order of the dimensions. */
static void order_values(b1i_type type, int dim, float *out)
{
    if (B1I_VALUE_WIDTH != 2 || type != b1i_type_bf16) return;
    for (int d = 0; d + 32 <= dim; d += 32) {
        float even[16], odd[16];
        memcpy(even, out + d, 64);
        memcpy(odd, out + d + 16, 64);
        for (int i = 0; i < 16; i++) {
            out[d + 2 * i] = even[i];
            out[d + 2 * i + 1] = odd[i];
        }
    }
}

/* ---- by type and number of pairs ---- */

#define BLOCKS(type, U)                                                                                       \
    static void score_##type##_##U(work *w, int first, const uint8_t *block, size_t bytes, int at, int count) \
    {                                                                                                         \
        if (B1I_KEY_BLOCKS == 2 && count == 2)                                                                \
            score_blocks(b1i_type_##type, U, B1I_KEY_BLOCKS, w, first, block, bytes, at);                     \
        else                                                                                                  \
            score_blocks(b1i_type_##type, U, 1, w, first, block, bytes, at);                                  \
    }                                                                                                         \
    static void value_##type##_##U(work *w, int first, const uint8_t *rows, int at, int count)                \
    {                                                                                                         \
        value_rows(b1i_type_##type, U, w, first, rows, at, count);                                            \
    }
#define TYPES(X) X(f32) X(bf16) X(f16)
#if B1I_HEADS == 8
#define MORE(type) BLOCKS(type, 5) BLOCKS(type, 6) BLOCKS(type, 7) BLOCKS(type, 8)
#define EACH(f)    f##_1, f##_2, f##_3, f##_4, f##_5, f##_6, f##_7, f##_8
#else
#define MORE(type)
#define EACH(f) f##_1, f##_2, f##_3, f##_4
#endif
#define ALL(type) BLOCKS(type, 1) BLOCKS(type, 2) BLOCKS(type, 3) BLOCKS(type, 4) MORE(type)
TYPES(ALL)

typedef void (*score_fn)(work *w, int first, const uint8_t *block, size_t bytes, int at, int count);
typedef void (*value_fn)(work *w, int first, const uint8_t *rows, int at, int count);
#define SCORES(type) [b1i_type_##type] = {EACH(score_##type)},
#define VALUES(type) [b1i_type_##type] = {EACH(value_##type)},
static const score_fn score_fns[3][MANY] = {TYPES(SCORES)};
static const value_fn value_fns[3][MANY] = {TYPES(VALUES)};

/* ---- softmax ---- */

/* Scores at [from, to) of the part, multiples of 16, to exponents, 0 where unseen; the running maximum and sum, and
 * what was summed before, are brought to the new maximum. */
static void exponents(work *w, int u, int part, int from, int to, float *max, float *sum)
{
    float *s = w->score[u];
    int low = w->low[u] - part, high = w->high[u] - part;
    if (low >= high) {
        memset(s + from, 0, (size_t)(to - from) * sizeof *s);
        return;
    }
    for (int i = from; i < low; i++) s[i] = -INFINITY;
    for (int i = high; i < to; i++) s[i] = -INFINITY;
    vf most = vf_load(s + from), total = vf_zero();
    for (int i = from + 16; i < to; i += 16) most = vf_max(most, vf_load(s + i));
    float top = vf_most(most), now = *max > top ? *max : top;
    vf base = vf_set(now);
    for (int i = from; i < to; i += 16) {
        vf e = vf_exp_below(vf_sub(vf_load(s + i), base));
        v_prefetch_far(w->later);
        w->later += 64;
        total = vf_add(total, e);
        vf_store(s + i, e);
    }
    if (*sum != 0 && now != *max) {
        float factor = expf(*max - now), *o = w->out[u];
        *sum *= factor;
        for (int d = 0; d < w->a->kv.head_dim; d++) o[d] *= factor;
    }
    *max = now;
    *sum += vf_sum(total);
}

/* Block i of the stream: `count` blocks of keys from position `from` on, as many of values, the next keys. */
static const uint8_t *stream_block(const b1i_attention *a, size_t bytes, int from, int count, int i)
{
    if (i < count) return a->kv.keys + (size_t)(from / 16 + i) * bytes;
    if (i < 2 * count) return a->kv.values + (size_t)(from / 16 + i - count) * bytes;
    return a->kv.keys + (size_t)(from / 16 + i - count) * bytes;
}

/* Positions [part, end) of at most PART. */
static void attend_part(work *w, int part, int end, float *max, float *sum)
{
    const b1i_attention *a = w->a;
    const size_t bytes = (size_t)a->kv.head_dim * B1I_KV_BLOCK * (a->kv.type == b1i_type_f32 ? 4 : 2);
    int from = end, to = part;
    for (int u = 0; u < w->count; u++) {
        int row = (int)((w->out[u] - a->out) / a->kv.head_dim) / a->group;
        w->low[u] = a->first[row] > part ? a->first[row] : part;
        w->high[u] = a->limit[row] < end ? a->limit[row] : end;
        if (w->low[u] >= w->high[u]) continue;
        from = w->low[u] < from ? w->low[u] : from;
        to = w->high[u] > to ? w->high[u] : to;
    }
    if (from >= to) return;
    from = from / 16 * 16;
    const int count = (to - from + 15) / 16, turn = bytes < TURN ? (int)(TURN / bytes) : 1;
    for (int i = 0, blocks, ahead = turn; i < 2 * count; i += blocks) {
        const uint8_t *block = stream_block(a, bytes, from, count, i);
        int at = from - part + i % count * 16, left = to - part - at, most = i < count ? B1I_KEY_BLOCKS : turn;
        blocks = count - i % count < most ? count - i % count : most;
        if (i == count) {
            const uint8_t *start = stream_block(a, bytes, from, count, i + most + ahead);
            w->later = start;
            for (int u = 0; u < w->count; u++)
                exponents(w, u, part, from - part, (to - part + 15) / 16 * 16, max + u, sum + u);
            ahead += (int)((size_t)(w->later - start) / bytes);
        }
        w->far = stream_block(a, bytes, from, count, i + blocks + ahead);
        w->near = stream_block(a, bytes, from, count, i + blocks);
        for (int u = 0, n; u < w->count; u += n) {
            n = w->count - u < MANY ? w->count - u : MANY;
            if (i < count)
                score_fns[a->kv.type][n - 1](w, u, block, bytes, at, blocks);
            else
                value_fns[a->kv.type][n - 1](w, u, block, at, left < 16 * blocks ? left : 16 * blocks);
            w->far = w->near = block;
        }
    }
}

void B1I_NAME(attention)(const b1i_attention *a)
{
    const int pairs = a->n * a->group, dim = a->kv.head_dim;
    work w;
    w.a = a;
    for (int first = 0; first < pairs; first += PAIRS) {
        w.count = pairs - first < PAIRS ? pairs - first : PAIRS;
        for (int u = 0; u < w.count; u++) {
            int pair = first + u;
            w.q[u] = a->q + pair / a->group * a->q_stride + (int64_t)(pair % a->group) * dim;
            w.out[u] = a->out + (int64_t)pair * dim;
            a->max[pair] = -INFINITY;
            a->sum[pair] = 0;
            memset(w.out[u], 0, (size_t)dim * sizeof(float));
        }
        for (int part = a->begin; part < a->end; part += PART)
            attend_part(&w, part, a->end - part < PART ? a->end : part + PART, a->max + first, a->sum + first);
        for (int u = 0; u < w.count; u++) order_values(a->kv.type, dim, w.out[u]);
    }
}

void B1I_NAME(attention_merge)(const float *max, const float *sum, int64_t ms_stride, const float *out,
                               int64_t out_stride, int chunks, int head_dim, float *result)
{
    float top = -INFINITY, total = 0;
    for (int c = 0; c < chunks; c++)
        if (sum[c * ms_stride] > 0 && max[c * ms_stride] > top) top = max[c * ms_stride];
    memset(result, 0, (size_t)head_dim * sizeof(float));
    for (int c = 0; c < chunks; c++) {
        if (sum[c * ms_stride] == 0) continue;
        float factor = expf(max[c * ms_stride] - top);
        const float *o = out + c * out_stride;
        total += sum[c * ms_stride] * factor;
        int d = 0;
        for (; d + 16 <= head_dim; d += 16)
            vf_store(result + d, vf_fma(vf_load(o + d), vf_set(factor), vf_load(result + d)));
        for (; d < head_dim; d++) result[d] += o[d] * factor;
    }
    if (total == 0) return;
    for (int d = 0; d < head_dim; d++) result[d] /= total;
}
