/* SPDX-License-Identifier: MIT
 *
 * Weights and KV cache on the GPU: models of every format come back exactly as their files' rows, from where the
 * matrices say that they lie; padding is zero; sizes are those that were planned; cancelling and every allocation that
 * fails leave nothing behind; the filler is the CPU's bit by bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/model_fixture.h"

#include "tests/cuda_rig.h"
#include "tests/tiny_model.h"

enum { WORKERS = 2 };

static const tiny_shape shapes[] = {
    {"llama", b1i_arch_llama, 2, 256, 512, 4, 2, 64, 131, 0, false, false, true},
    {"qwen2", b1i_arch_qwen2, 2, 256, 768, 6, 1, 128, 97, 0, true, false, false},
    {"qwen3", b1i_arch_qwen3, 1, 512, 256, 8, 8, 32, 160, 0, false, true, false},
};
/* Widths that are no multiple of a tile; dense formats only. */
static const tiny_shape ragged = {"ragged", b1i_arch_qwen2, 2, 60, 100, 5, 1, 12, 77, 0, true, false, false};

/* ---- a model there and back ---- */

typedef struct image {
    const b1i_cuda_weights *w;
    uint8_t *arena, *vectors, *covered;
} image;

static image image_get(const b1i_cuda_weights *w)
{
    image i = {w, malloc(w->arena_bytes), malloc(w->vector_bytes), calloc(1, w->arena_bytes)};
    assert_true(i.arena && i.vectors && i.covered);
    must(b1i_gpu_download(the_gpu, i.arena, w->arena, w->arena_bytes, err));
    must(b1i_gpu_download(the_gpu, i.vectors, w->vectors, w->vector_bytes, err));
    return i;
}

static void image_free(image *i)
{
    free(i->arena);
    free(i->vectors);
    free(i->covered);
}

/* Every panel of the slot's matrix against one that is packed here. */
static void check_matrix(image *i, int slot)
{
    const b1i_tensor *t = b1i_slot_tensor(i->w->model, slot);
    const b1i_tile_matrix *m = &i->w->matrix[slot];
    const size_t bytes = (size_t)m->blocks * (size_t)m->block_bytes;
    uint8_t *rows = malloc(16 * (size_t)b1i_format_bytes(t->format, (uint64_t)t->cols)), *want = malloc(bytes);
    assert_true(rows && want);
    assert_int_equal(m->rows, t->rows);
    assert_int_equal(m->cols, t->cols);
    for (int p = 0; p < m->panels; p++) {
        const int left = m->rows - 16 * p, count = left < 16 ? left : 16;
        const size_t at = (size_t)(m->data - i->w->arena) + (size_t)p * (size_t)m->panel_stride;
        assert_true(at + bytes <= i->w->arena_bytes && at % 16 == 0);
        b1i_tensor_rows(t, 16 * p, count, rows);
        b1i_tile_pack(t->format, m, rows, count, want);
        if (memcmp(i->arena + at, want, bytes)) fail_msg("panel %d of %s (slot %d) differs", p, t->name, slot);
        for (size_t b = 0; b < bytes; b++) i->covered[at + b]++;
    }
    free(rows);
    free(want);
}

static void check_vector(image *i, int slot)
{
    const b1i_tensor *t = b1i_slot_tensor(i->w->model, slot);
    const size_t cols = (size_t)t->cols, at = (size_t)(i->w->vector[slot] - i->w->vectors);
    float *want = calloc((cols + 31) / 32 * 32, sizeof(float));
    uint8_t *row = malloc(8 * cols);
    assert_true(want && row && i->w->vector[slot] >= i->w->vectors);
    assert_true(at + (cols + 31) / 32 * 32 * 4 <= i->w->vector_bytes && at % 128 == 0);
    b1i_tensor_rows_f32(t, 0, 1, row, want);
    assert_memory_equal(i->vectors + at, want, (cols + 31) / 32 * 32 * sizeof(float));
    free(want);
    free(row);
}

/* One launch can stream what is said to be joined. */
static void check_joins(const b1i_cuda_weights *w, int layer, bool qkv, bool gate_up)
{
    const b1i_tile_matrix *m = w->matrix;
    const b1i_tile_matrix *q = &m[b1i_slot(layer, b1i_w_q)], *k = &m[b1i_slot(layer, b1i_w_k)],
                          *v = &m[b1i_slot(layer, b1i_w_v)], *gate = &m[b1i_slot(layer, b1i_w_gate)],
                          *up = &m[b1i_slot(layer, b1i_w_up)];
    const uint64_t panel = (uint64_t)gate->blocks * (uint64_t)gate->block_bytes;
    assert_int_equal(b1i_cuda_joined_qkv(w->model, layer), qkv);
    assert_int_equal(b1i_cuda_joined_gate_up(w->model, layer), gate_up);
    assert_int_equal(q->panel_stride, (uint64_t)q->blocks * (uint64_t)q->block_bytes);
    if (qkv) {
        assert_int_equal(k->data, q->data + (uint64_t)q->panels * q->panel_stride);
        assert_int_equal(v->data, k->data + (uint64_t)k->panels * k->panel_stride);
    }
    assert_int_equal(gate->panel_stride, gate_up ? 2 * panel : panel);
    if (gate_up) {
        assert_int_equal(up->data, gate->data + panel);
        assert_int_equal(up->panel_stride, 2 * panel);
    }
}

static void check_image(const b1i_cuda_weights *w)
{
    const b1i_model *m = w->model;
    image i = image_get(w);
    uint64_t streamed = 0;
    assert_int_equal(w->arena_bytes + w->vector_bytes, b1i_cuda_weight_bytes(m));
    for (int slot = 0; slot < b1i_slot_count(m); slot++) {
        const b1i_tensor *t = b1i_slot_tensor(m, slot);
        assert_true(t->rows > 1 || w->matrix[slot].panels == 0);
        assert_true(t->rows == 1 || w->vector[slot] == 0);
        if (slot == b1i_slot_head && m->config.tied) {
            assert_memory_equal(&w->matrix[slot], &w->matrix[b1i_slot_embedding], sizeof *w->matrix);
            continue;
        }
        if (t->rows > 1) {
            check_matrix(&i, slot);
            const b1i_tile_matrix *t_ = &w->matrix[slot];
            uint64_t panel = (uint64_t)t_->blocks * (uint64_t)t_->block_bytes;
            streamed += slot == b1i_slot_embedding && !m->config.tied ? panel / 16 : panel * (uint64_t)t_->panels;
        } else if (t->rows == 1) {
            check_vector(&i, slot);
        }
    }
    for (size_t b = 0; b < w->arena_bytes; b++)
        if (i.covered[b] != 1 && (i.covered[b] || i.arena[b]))
            fail_msg("byte %zu of the arena is not as it must be", b);
    assert_int_equal(b1i_cuda_stored_bytes(m), streamed + w->vector_bytes);
    image_free(&i);
}

static bool count_up(void *user, const char *what, uint64_t done, uint64_t total)
{
    uint64_t *last = user;
    assert_non_null(what);
    assert_true(done > last[0] && done <= total);
    last[0] = done;
    last[1] = total;
    return true;
}

static void load(const b1i_model *m, b1i_cuda_weights *w)
{
    uint64_t last[2] = {0, 0};
    must(b1i_pool_reserve(WORKERS, err));
    must(b1i_cuda_weights_load(the_gpu, m, NULL, WORKERS, count_up, last, w, err));
    assert_true(last[0] > 0 && last[0] == last[1]);
}

static void there_and_back(void **state)
{
    (void)state;
    need_gpu();
    const long live = b1i_gpu_alloc_live(), host = b1i_alloc_live();
    for (int f = 0; f < b1i_format_count; f++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            b1i_model *m = tiny_model(&shapes[s], (b1i_format_id)f, NULL, 17 * (uint64_t)f + s);
            b1i_cuda_weights w;
            load(m, &w);
            check_image(&w);
            for (int l = 0; l < shapes[s].layers; l++) check_joins(&w, l, true, true);
            b1i_cuda_weights_free(&w);
            tiny_model_free(m);
        }
    assert_int_equal(b1i_gpu_alloc_live(), live);
    assert_int_equal(b1i_alloc_live(), host);
}

static void ragged_there_and_back(void **state)
{
    (void)state;
    need_gpu();
    for (int f = b1i_f32; f <= b1i_bf16; f++) {
        b1i_model *m = tiny_model(&ragged, (b1i_format_id)f, NULL, 99);
        b1i_cuda_weights w;
        load(m, &w);
        check_image(&w);
        check_joins(&w, 1, true, true);
        b1i_cuda_weights_free(&w);
        tiny_model_free(m);
    }
}

/* Matrices of a layer in formats of their own: what differs in shape is not joined, what only differs in name is. */
static void mixed_formats(void **state)
{
    (void)state;
    need_gpu();
    static const struct {
        b1i_format_id q, k, v, gate, up;
        bool qkv, gate_up;
    } cases[] = {{b1i_q4_k, b1i_q4_k, b1i_q6_k, b1i_q4_k, b1i_q4_k, false, true},
                 {b1i_q4_k, b1i_q4_1, b1i_q4_k, b1i_q5_1, b1i_q5_k, true, true},
                 {b1i_q8_0, b1i_q5_0, b1i_q8_0, b1i_q4_0, b1i_q4_k, true, false},
                 {b1i_q5_k, b1i_q4_k, b1i_q5_k, b1i_q8_0, b1i_q4_0, false, false},
                 {b1i_bf16, b1i_f16, b1i_bf16, b1i_bf16, b1i_f32, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        b1i_format_id own[b1i_layer_weights];
        for (int n = 0; n < b1i_layer_weights; n++) own[n] = b1i_format_count;
        own[b1i_w_q] = cases[i].q;
        own[b1i_w_k] = cases[i].k;
        own[b1i_w_v] = cases[i].v;
        own[b1i_w_gate] = cases[i].gate;
        own[b1i_w_up] = cases[i].up;
        b1i_model *m = tiny_model(&shapes[1], b1i_q8_0, own, 5 + i);
        b1i_cuda_weights w;
        load(m, &w);
        check_image(&w);
        for (int l = 0; l < shapes[1].layers; l++) check_joins(&w, l, cases[i].qkv, cases[i].gate_up);
        b1i_cuda_weights_free(&w);
        tiny_model_free(m);
    }
}

/* Rows of mapped files, those that GGUF permutes among them, and pages that are let go on the way. */
static void from_files(void **state)
{
    (void)state;
    need_gpu();
    static const fixture_name names[] = {
#define NAME(id, folder, arch, file) {folder, arch, file},
        MODEL_FIXTURES(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        b1i_model *m = NULL;
        b1i_cuda_weights w;
        must(b1i_model_open(fixture_path(&names[i]), B1I_LOAD_TENSORS, &m, err));
        load(m, &w);
        check_image(&w);
        b1i_cuda_weights_free(&w);
        b1i_model_close(m);
    }
}

/* A synthetic model whose layers, and whose embedding and head, have the same values by definition: what is copied on
 * the device lies there as what is made. One matrix of the last layer has values of its own. */
static void same_values(void **state)
{
    (void)state;
    need_gpu();
    for (int f = 0; f < b1i_format_count; f++) {
        b1i_model *m = tiny_model(&shapes[1], (b1i_format_id)f, NULL, 7);
        for (int w = 0; w < b1i_layer_weights; w++)
            if (w != b1i_w_up || f % 2) m->layer[b1i_layer_weights + w].seed = m->layer[w].seed;
        m->head.seed = m->embedding.seed;
        m->head.scale = m->embedding.scale;
        assert_int_equal(b1i_slot_same(m, b1i_slot(1, b1i_w_q)), b1i_slot(0, b1i_w_q));
        assert_int_equal(b1i_slot_same(m, b1i_slot_head), b1i_slot_embedding);
        b1i_cuda_weights w;
        load(m, &w);
        check_image(&w);
        b1i_cuda_weights_free(&w);
        tiny_model_free(m);
    }
}

/* More than the loader's buffers hold: each is used more than once, and some end within a matrix. */
static void larger_than_the_buffers(void **state)
{
    (void)state;
    need_gpu();
    if (quick_here()) skip();
    static const tiny_shape large = {"large", b1i_arch_llama, 1, 1024, 18944, 16, 4, 64, 65000, 0, false, false, false};
    b1i_model *m = tiny_model(&large, b1i_bf16, NULL, 3);
    b1i_cuda_weights w;
    load(m, &w);
    assert_true(w.arena_bytes > (size_t)300 << 20);
    check_image(&w);
    b1i_cuda_weights_free(&w);
    tiny_model_free(m);
}

/* ---- what fails ---- */

static bool stop(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)done;
    (void)total;
    return (*(int *)user)-- > 0;
}

static void cancelled(void **state)
{
    (void)state;
    need_gpu();
    b1i_model *m = tiny_model(&shapes[0], b1i_bf16, NULL, 1);
    const long live = b1i_gpu_alloc_live(), host = b1i_alloc_live();
    must(b1i_pool_reserve(WORKERS, err));
    for (int after = 0; after < 4; after++) {
        b1i_cuda_weights w;
        b1_error err = {0};
        int left = after;
        assert_int_equal(b1i_cuda_weights_load(the_gpu, m, NULL, WORKERS, stop, &left, &w, &err), B1_CANCELLED);
        assert_true(*err.message);
        assert_int_equal(b1i_gpu_alloc_live(), live);
        assert_int_equal(b1i_alloc_live(), host);
    }
    tiny_model_free(m);
}

/* Makes the n-th allocation fail, on the device or here, until there is none that fails. */
static void every_allocation_fails(bool device)
{
    b1i_model *m = tiny_model(&shapes[1], b1i_q4_k, NULL, 1);
    const long live = b1i_gpu_alloc_live(), host = b1i_alloc_live();
    int failed = 0;
    for (long n = 0;; n++, failed++) {
        b1i_cuda_weights w;
        b1i_cuda_kv kv;
        b1_error err = {0};
        (device ? b1i_gpu_alloc_fail_at : b1i_alloc_fail_at)(n);
        b1_status st = b1i_cuda_weights_load(the_gpu, m, NULL, WORKERS, NULL, NULL, &w, &err);
        if (st == B1_OK) {
            st = b1i_cuda_kv_create(the_gpu, &m->config, 100, &kv, &err);
            if (st == B1_OK) b1i_cuda_kv_free(the_gpu, &kv);
            b1i_cuda_weights_free(&w);
        }
        (device ? b1i_gpu_alloc_fail_at : b1i_alloc_fail_at)(-1);
        assert_int_equal(b1i_gpu_alloc_live(), live);
        assert_int_equal(b1i_alloc_live(), host);
        if (st == B1_OK) break;
        assert_int_equal(st, B1_MEMORY);
        assert_true(*err.message);
    }
    assert_true(failed >= 5);
    tiny_model_free(m);
}

static void allocations_fail(void **state)
{
    (void)state;
    need_gpu();
    must(b1i_pool_reserve(WORKERS, err));
    every_allocation_fails(true);
    every_allocation_fails(false);
}

/* ---- the KV cache's filler ---- */

static void check_fill(int head_dim, int context, int count)
{
    const b1i_config c = {.layers = 3, .kv_heads = 2, .heads = 4, .head_dim = head_dim};
    b1i_cuda_kv kv;
    must(b1i_cuda_kv_create(the_gpu, &c, context, &kv, err));
    assert_int_equal(kv.bytes, b1i_cuda_kv_bytes(&c, context));
    assert_int_equal(kv.bytes, 6 * kv.head_bytes);
    must(b1i_cuda_kv_fill(the_gpu, &c, &kv, count, err));
    uint16_t *raw = malloc(kv.bytes);
    assert_non_null(raw);
    must(b1i_gpu_download(the_gpu, raw, kv.data, kv.bytes, err));
    for (int head = 0; head < 6; head++)
        for (int p = 0; p < kv.capacity; p++)
            for (int d = 0; d < kv.dim; d++) {
                /* as the session fills it on the CPU */
                uint64_t x = b1i_mix64(((uint64_t)head << 40) ^ ((uint64_t)p << 16) ^ (uint64_t)d);
                const bool there = p < count && d < head_dim;
                float k = there ? (float)((int32_t)x >> 8) * (1.7f / (1 << 23)) : 0;
                float v = there ? (float)((int32_t)(x >> 32) >> 8) * (1.7f / (1 << 23)) : 0;
                const uint16_t *block = raw + (size_t)head * kv.head_bytes / 2 + (size_t)(p / 32 * 64 * kv.dim);
                assert_int_equal(block[b1i_cuda_key_index(kv.dim, p % 32, d)], b1i_f32_to_bf16(k));
                assert_int_equal(block[32 * kv.dim + (int)b1i_cuda_value_index(kv.dim, p % 32, d)], b1i_f32_to_bf16(v));
            }
    free(raw);
    b1i_cuda_kv_free(the_gpu, &kv);
}

static void filler(void **state)
{
    (void)state;
    need_gpu();
    const int cases[][3] = {{64, 64, 64}, {80, 100, 45}, {96, 33, 33}, {128, 70, 7}, {256, 65, 64}, {12, 40, 39}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_fill(cases[i][0], cases[i][1], cases[i][2]);
    b1_error refused = {0};
    const b1i_config c = {.layers = 1, .kv_heads = 1, .heads = 1, .head_dim = 64};
    b1i_cuda_kv kv;
    must(b1i_cuda_kv_create(the_gpu, &c, 32, &kv, err));
    must(b1i_cuda_kv_fill(the_gpu, &c, &kv, 0, err));
    assert_int_equal(b1i_cuda_kv_fill(the_gpu, &c, &kv, 33, &refused), B1_CONTEXT);
    b1i_cuda_kv_free(the_gpu, &kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back), cmocka_unit_test(ragged_there_and_back),
        cmocka_unit_test(mixed_formats),  cmocka_unit_test(from_files),
        cmocka_unit_test(same_values),    cmocka_unit_test(larger_than_the_buffers),
        cmocka_unit_test(cancelled),      cmocka_unit_test(allocations_fail),
        cmocka_unit_test(filler),
    };
    return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
