/* SPDX-License-Identifier: MIT
 *
 * Programs of the CUDA machine on GPUs of every size, on a driver that stands in for one (tests/fake_cuda.c): each
 * launch of each form and width fits the GPU's shared memory and grid, and the blocks of a linear launch have all
 * panels between them, its chunks all blocks of columns in whole rounds of the warps. Nothing is run.
 * Also what is said of a BATCHONE_CUBLASLT that is no library: on this driver none works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cuda/cublaslt.h"
#include "cuda/cuda.h"
#include "tests/tiny_model.h"

typedef struct card {
    const char *name, *sms, *shared, *major;
} card;
static const card cards[] = {
    {"Orin (8.7)", "8", "166912", "8"},       {"RTX 3050 (8.6)", "20", "101376", "8"},
    {"RTX 3090 (8.6)", "82", "101376", "8"},  {"L4 (8.9)", "58", "101376", "8"},
    {"RTX 4090 (8.9)", "128", "101376", "8"}, {"RTX 5090 (12.0)", "170", "101376", "12"},
    {"A100 (8.0)", "108", "166912", "8"},     {"H200 (9.0)", "132", "232448", "9"},
    {"B200 (10.0)", "148", "232448", "10"},
};
/*   name          arch       layers hidden ffn heads kv hd  vocab window bias  qk_norm tied */
static const tiny_shape shapes[] = {
    {"smollm2-135m", b1i_arch_llama, 1, 576, 1536, 9, 3, 64, 49152, 0, false, false, true},
    {"qwen2.5-0.5b", b1i_arch_qwen2, 1, 896, 4864, 14, 2, 64, 151936, 0, true, false, true},
    {"llama-3.2-1b", b1i_arch_llama, 1, 2048, 8192, 32, 8, 64, 128256, 0, false, false, true},
    {"qwen3-4b", b1i_arch_qwen3, 1, 2560, 9728, 32, 8, 128, 151936, 0, false, true, true},
    {"qwen2.5-7b", b1i_arch_qwen2, 1, 3584, 18944, 28, 4, 128, 152064, 0, true, false, false},
    {"llama-3.1-8b", b1i_arch_llama, 1, 4096, 14336, 32, 8, 128, 128256, 0, false, false, false},
    {"llama-2-13b", b1i_arch_llama, 1, 5120, 13824, 40, 40, 128, 32000, 0, false, false, false},
    {"qwen2.5-72b", b1i_arch_qwen2, 1, 8192, 29568, 64, 8, 128, 152064, 0, true, false, false},
    {"one kv head", b1i_arch_llama, 1, 4096, 11008, 64, 1, 256, 262144, 0, false, false, false},
    {"ragged", b1i_arch_llama, 1, 60, 88, 3, 1, 24, 67, 0, false, false, false},
};
static const b1i_format_id formats[] = {b1i_bf16, b1i_f32, b1i_q8_0, b1i_q4_0, b1i_q4_1, b1i_q6_k};

/* Shared memory that a kernel has besides; ptxas says 384 to 512 bytes for linear. Attention has its queries as two
 * bf16, the keys and values of eight rows, and the barriers of its rings. */
static size_t static_shared(const b1i_gpu_launch *l, int dim)
{
    const char *name = b1i_gpu_kernel_name(l->kernel);
    if (strncmp(name, "k_linear_", 9) == 0) return 576;
    if (strncmp(name, "k_attention_", 12) == 0)
        return (size_t)(2 * 8 * (dim % 64 ? dim : dim + 32) * 2 + 8 * 2 * dim * 2 + 512);
    return 1024;
}

static void check_launch(const b1i_gpu_launch *l, const b1i_gpu_info *gpu, int dim, const char *what)
{
    const char *name = b1i_gpu_kernel_name(l->kernel);
    if (l->shared_bytes + static_shared(l, dim) > (size_t)gpu->shared_bytes_block)
        fail_msg("%s: %s takes %u bytes of shared memory and its own, of %d", what, name, l->shared_bytes,
                 gpu->shared_bytes_block);
    if (l->grid[0] < 1 || l->grid[1] < 1 || l->grid[2] < 1 || l->grid[1] > 65535 || l->grid[2] > 65535 ||
        l->threads < 32 || l->threads > 1024)
        fail_msg("%s: %s: %u×%u×%u blocks of %u threads", what, name, l->grid[0], l->grid[1], l->grid[2], l->threads);
    if (strncmp(name, "k_linear_", 9) != 0) return;
    b1i_linear_args a;
    memcpy(&a, l->args, sizeof a);
    int64_t panels = ((int64_t)l->grid[0] * a.units + a.units_more) * a.unit, want = 0;
    for (int i = 0; i < a.outs; i++) want += (a.out[i].rows + B1I_TILE_ROWS - 1) / B1I_TILE_ROWS * a.unit;
    if (l->grid[0] > B1I_CUDA_BLOCKS_MAX || panels != want || a.units < 1)
        fail_msg("%s: %s: %u blocks have %lld panels of %lld", what, name, l->grid[0], (long long)panels,
                 (long long)want);
    const int warps = (int)l->threads / 32 - 1;
    const int round = B1I_LINEAR_SLOT_BYTES / a.block_bytes > warps ? warps : 1;
    if (a.chunk < 1 || a.chunk % round != 0 || a.chunk * a.block_bytes > B1I_LINEAR_SLOT_BYTES ||
        (a.chunks - 1) * a.chunk >= a.blocks || a.chunks * a.chunk < a.blocks)
        fail_msg("%s: %s: %d chunks of %d blocks, of %d", what, name, a.chunks, a.chunk, a.blocks);
}

static void check_model(b1i_gpu *gpu, const card *c, const tiny_shape *s, b1i_format_id format)
{
    char what[160];
    b1_error err = {0};
    b1i_model *m = tiny_model(s, format, NULL, 1);
    const size_t slots = (size_t)b1i_slot_count(m);
    b1i_plan plan;
    b1i_cuda_machine machine;
    b1i_cuda_weights w = {.gpu = gpu, .model = m, .plan = &plan};
    assert_int_equal(b1i_plan_build(m, &plan, &err), B1_OK);
    w.matrix = calloc(slots, sizeof *w.matrix);
    w.vector = calloc(slots, sizeof *w.vector);
    assert_true(w.matrix && w.vector);
    for (int slot = 0; slot < (int)slots; slot++) {
        const b1i_tensor *t = b1i_slot_tensor(m, slot);
        if (t->rows > 1) b1i_tile_shape(t, &w.matrix[slot]);
        if (slot == b1i_slot(0, b1i_w_gate) || slot == b1i_slot(0, b1i_w_up)) w.matrix[slot].panel_stride *= 2;
    }
    assert_int_equal(b1i_cuda_machine_create(&w, &machine, &err), B1_OK);
    for (int form = 0; form < b1i_cuda_forms; form++)
        for (int width = 0; width < b1i_cuda_widths; width++) {
            const b1i_cuda_program *p = NULL;
            snprintf(what, sizeof what, "%s, %s in %s, form %d, %s", c->name, s->name, b1i_formats[format].name, form,
                     width == b1i_cuda_one ? "one row" : "few rows");
            if (b1i_cuda_program_get(&machine, (b1i_cuda_form)form, width, &p, &err) != B1_OK)
                fail_msg("%s: %s", what, err.message);
            for (int i = 0; i < p->count; i++)
                check_launch(&p->launches[i], b1i_gpu_get_info(gpu), b1i_cuda_dim(s->head_dim), what);
        }
    b1i_cuda_machine_free(&machine);
    free(w.matrix);
    free(w.vector);
    b1i_plan_free(&plan);
    tiny_model_free(m);
}

static void test_card(void **state)
{
    const card *c = *state;
    b1i_gpu *gpu = NULL;
    b1_error err = {0};
    if (!getenv("B1_FAKE_CUDA")) skip();
    setenv("FAKE_CUDA_SMS", c->sms, 1);
    setenv("FAKE_CUDA_SHARED", c->shared, 1);
    setenv("FAKE_CUDA_MAJOR", c->major, 1);
    assert_int_equal(b1i_gpu_open(0, &gpu, &err), B1_OK);
    assert_int_equal(b1i_cuda_load_kernels(gpu, &err), B1_OK);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
            if (b1i_formats[formats[f]].block > 1 &&
                (shapes[s].hidden % b1i_formats[formats[f]].block || shapes[s].ffn % b1i_formats[formats[f]].block))
                continue;
            check_model(gpu, c, &shapes[s], formats[f]);
        }
    b1i_gpu_close(gpu);
}

static void no_library_is_named(void **state)
{
    (void)state;
    b1i_gpu *gpu = NULL;
    b1i_cublaslt *lt = NULL;
    b1_error err = {0};
    if (!getenv("B1_FAKE_CUDA")) skip();
#ifdef __SANITIZE_ADDRESS__
    print_message("NVIDIA's library, where it is here, leaks when it does not start\n");
    skip();
#endif
    assert_int_equal(b1i_gpu_open(0, &gpu, &err), B1_OK);
    setenv("BATCHONE_CUBLASLT", "/etc/passwd", 1);
    assert_int_equal(b1i_cublaslt_open(gpu, &lt, &err), B1_UNSUPPORTED);
    assert_null(lt);
    assert_non_null(strstr(err.message, "BATCHONE_CUBLASLT (/etc/passwd: ")); /* and the loader's reason */
    unsetenv("BATCHONE_CUBLASLT");
    b1i_gpu_close(gpu);
}

int main(void)
{
    enum { CARDS = sizeof cards / sizeof *cards };
    struct CMUnitTest tests[CARDS + 1];
    for (size_t i = 0; i < CARDS; i++)
        tests[i] = (struct CMUnitTest){cards[i].name, test_card, NULL, NULL, (void *)(uintptr_t)&cards[i]};
    tests[CARDS] = (struct CMUnitTest)cmocka_unit_test(no_library_is_named);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
