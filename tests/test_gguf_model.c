/* SPDX-License-Identifier: MIT
 *
 * GGUF files to models: the configuration that comes out, where each weight lies, and a sentence for everything that
 * would change the arithmetic.
 */
#include "loader_files.h"
#include "model/loaders.h"
#include "plan/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static gspec g;
static b1_error err;

static void assert_words(const char *words)
{
    char copy[200], *state = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, "|", &state); word; word = strtok_r(NULL, "|", &state))
        if (!strstr(err.message, word)) fail_msg("\"%s\" does not say \"%s\"", err.message, word);
}

static void refuse_path(const char *path, const char *words)
{
    b1i_model *m = (b1i_model *)&g;
    long live = b1i_alloc_live();
    memset(&err, 0, sizeof err);
    assert_int_equal(b1i_model_open(path, B1I_LOAD_TENSORS, &m, &err), B1_MODEL);
    assert_null(m);
    assert_int_equal(b1i_alloc_live(), live);
    assert_words(words);
    assert_words(path);
}

static void refuse(const char *words)
{
    refuse_path(g_write(&g, "bad.gguf"), words);
    g_clear(&g);
}

static b1i_model *accept(void)
{
    b1i_model *m = NULL;
    if (b1i_model_open(g_write(&g, "good.gguf"), B1I_LOAD_TENSORS, &m, &err) != B1_OK)
        fail_msg("refused: %s", err.message);
    g_clear(&g);
    return m;
}

static float value_at(const b1i_tensor *t, int64_t row, int64_t col)
{
    uint8_t scratch[256];
    float values[64];
    b1i_tensor_rows_f32(t, row, 1, scratch, values);
    return values[col];
}

/* ---- what comes out ---- */

static void test_configuration(void **state)
{
    (void)state;
    g_tiny(&g, "llama");
    b1i_model *m = accept();
    const b1i_config *c = &m->config;
    assert_int_equal(c->arch, b1i_arch_llama);
    assert_string_equal(c->name, "Tiny");
    assert_int_equal(c->layers, 2);
    assert_int_equal(c->hidden, 8);
    assert_int_equal(c->ffn, 12);
    assert_int_equal(c->heads, 2);
    assert_int_equal(c->kv_heads, 1);
    assert_int_equal(c->head_dim, 4);
    assert_int_equal(c->vocab, 6);
    assert_int_equal(c->context_max, 64);
    assert_float_equal(c->norm_eps, 1e-5f, 0);
    assert_true(c->rope.theta == 5000);
    assert_int_equal(c->rope.kind, b1i_rope_plain);
    assert_int_equal(c->sliding_window, 0);
    assert_false(c->tied);
    assert_false(c->qk_norm);
    assert_int_equal(m->map_count, 1);
    b1i_model_close(m);
}

static void test_weights(void **state)
{
    (void)state;
    g_tiny(&g, "llama");
    b1i_model *m = accept();
    const b1i_tensor *v = b1i_model_layer(m, 1, b1i_w_v), *up = b1i_model_layer(m, 0, b1i_w_up);
    assert_string_equal(v->name, "blk.1.attn_v.weight");
    assert_int_equal(v->format, b1i_f16);
    assert_int_equal(v->rows, 4);
    assert_int_equal(v->cols, 8);
    assert_int_equal(up->format, b1i_bf16);
    assert_int_equal(up->rows, 12);
    /* g_build: element k of tensor t is t + 1 + k / 64 */
    assert_float_equal(value_at(&m->embedding, 5, 7), 1 + 47.0 / 64, 0);
    assert_float_equal(value_at(b1i_model_layer(m, 0, b1i_w_attn_norm), 0, 3), 2 + 3.0 / 64, 0);
    assert_float_equal(value_at(b1i_model_layer(m, 1, b1i_w_down), 2, 1), 19 + 25.0 / 64, 0);
    assert_float_equal(value_at(&m->head, 0, 0), 21, 0);
    assert_int_equal(b1i_model_layer(m, 0, b1i_w_q_bias)->rows, 0);
    assert_int_equal(b1i_model_layer(m, 0, b1i_w_q_norm)->rows, 0);
    b1i_model_close(m);
}

/* llama: file rows 0, 2 of a head of 4 are its first half; Q by heads, K by KV heads, V as it is. Qwen: as they are. */
static void test_permutation(void **state)
{
    (void)state;
    g_tiny(&g, "llama");
    b1i_model *m = accept();
    static const int file_row[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    const b1i_tensor *q = b1i_model_layer(m, 0, b1i_w_q), *k = b1i_model_layer(m, 0, b1i_w_k);
    assert_int_equal(q->permuted_heads, 2);
    assert_int_equal(k->permuted_heads, 1);
    assert_int_equal(b1i_model_layer(m, 0, b1i_w_v)->permuted_heads, 0);
    assert_int_equal(b1i_model_layer(m, 0, b1i_w_o)->permuted_heads, 0);
    for (int row = 0; row < 8; row++) assert_float_equal(value_at(q, row, 0), 3 + (float)file_row[row] * 8 / 64, 0);
    for (int row = 0; row < 4; row++) assert_float_equal(value_at(k, row, 0), 4 + (float)file_row[row] * 8 / 64, 0);
    b1i_model_close(m);
    g_tiny(&g, "qwen2");
    m = accept();
    q = b1i_model_layer(m, 0, b1i_w_q);
    assert_int_equal(q->permuted_heads, 0);
    for (int row = 0; row < 8; row++) assert_float_equal(value_at(q, row, 0), 3 + (float)row * 8 / 64, 0);
    b1i_model_close(m);
}

static void test_qwen(void **state)
{
    (void)state;
    g_tiny(&g, "qwen2");
    b1i_model *m = accept();
    assert_int_equal(m->config.arch, b1i_arch_qwen2);
    assert_int_equal(b1i_model_layer(m, 1, b1i_w_q_bias)->cols, 8);
    assert_int_equal(b1i_model_layer(m, 1, b1i_w_k_bias)->cols, 4);
    assert_int_equal(b1i_model_layer(m, 1, b1i_w_v_bias)->rows, 1);
    assert_int_equal(b1i_model_layer(m, 1, b1i_w_o_bias)->rows, 0);
    b1i_model_close(m);
    g_tiny(&g, "qwen3");
    m = accept();
    assert_int_equal(m->config.arch, b1i_arch_qwen3);
    assert_true(m->config.qk_norm);
    assert_int_equal(b1i_model_layer(m, 1, b1i_w_q_norm)->cols, 4);
    b1i_model_close(m);
    g_tiny(&g, "qwen2");
    g_drop(&g, "blk.1.attn_k.bias");
    refuse("blk.1.attn_k.bias is missing");
    g_tiny(&g, "qwen3");
    g_drop(&g, "blk.0.attn_q_norm.weight");
    refuse("blk.0.attn_q_norm.weight is missing");
}

/* W counts layers, norms, final norm, head, and one row of the embedding where it is untied. */
static void test_traffic(void **state)
{
    (void)state;
    const uint64_t layer = 32 + 256 + 128 + 64 + 256 + 32 + 384 + 192 + 384;
    g_tiny(&g, "llama");
    b1i_model *m = accept();
    assert_int_equal(b1i_traffic_weights(m), 2 * layer + 32 + 192 + 32);
    b1i_model_close(m);
    g_tiny(&g, "llama");
    g_drop(&g, "output.weight");
    m = accept();
    assert_true(m->config.tied);
    assert_int_equal(m->head.rows, 0);
    assert_int_equal(b1i_traffic_weights(m), 2 * layer + 32 + 192);
    b1i_model_close(m);
}

static void test_defaults_and_oddities(void **state)
{
    (void)state;
    g_tiny(&g, "llama");
    g_drop_key(&g, "general.name");
    g_drop_key(&g, "llama.rope.freq_base");
    g_drop_key(&g, "llama.rope.dimension_count");
    g_drop_key(&g, "llama.vocab_size");
    const char *tokens[] = {"a", "b", "c", "d", "e", "f"};
    g_strings(&g, "tokenizer.ggml.tokens", 6, tokens);
    g_u16(&g, "llama.block_count", 2);
    g_f64(&g, "llama.attention.layer_norm_rms_epsilon", 1e-6);
    g_u32(&g, "llama.expert_count", 0);
    g_bool(&g, "llama.attention.causal", 1);
    g_u32(&g, "llama.attention.sliding_window", 16);
    g_string(&g, "other.key", "is nobody's");
    g_tensor(&g, "blk.0.attn_rot_embd.weight", G_F32, 2, 0);
    b1i_model *m = accept();
    assert_string_equal(m->config.name, "good");
    assert_true(m->config.rope.theta == 10000);
    assert_int_equal(m->config.vocab, 6);
    assert_float_equal(m->config.norm_eps, 1e-6f, 0);
    assert_int_equal(m->config.sliding_window, 16);
    b1i_model_close(m);
    /* fewer tokens than rows are padding; heads wider than hidden / heads; more heads than fit into hidden */
    g_tiny(&g, "qwen3");
    g_strings(&g, "tokenizer.ggml.tokens", 4, tokens);
    g_u32(&g, "qwen3.attention.key_length", 6);
    g_u32(&g, "qwen3.attention.value_length", 6);
    g_u32(&g, "qwen3.rope.dimension_count", 6);
    for (int i = 0; i < g.tensor_count; i++) {
        gtensor *t = &g.tensors[i];
        int axis = strstr(t->name, "output.weight") && strstr(t->name, "blk") ? 0 : 1;
        if (strstr(t->name, "_norm.weight") && strstr(t->name, ".attn_") && t->shape[0] == 4) t->shape[0] = 6;
        if (strstr(t->name, "attn_q.w") || (strstr(t->name, "attn_output"))) t->shape[axis] = 12;
        if (strstr(t->name, "attn_k.w") || strstr(t->name, "attn_v.w")) t->shape[1] = 6;
        t->size = g_size(t->type, t->shape[0] * t->shape[1]);
    }
    m = accept();
    assert_int_equal(m->config.head_dim, 6);
    assert_int_equal(b1i_model_layer(m, 0, b1i_w_o)->cols, 12);
    b1i_model_close(m);
}

/* ---- RoPE ---- */

static void test_rope_scaling(void **state)
{
    (void)state;
    b1i_model *m;
    g_tiny(&g, "llama");
    g_string(&g, "llama.rope.scaling.type", "linear");
    g_f32(&g, "llama.rope.scaling.factor", 4);
    m = accept();
    assert_int_equal(m->config.rope.kind, b1i_rope_linear);
    assert_true(m->config.rope.factor == 4);
    b1i_model_close(m);
    g_tiny(&g, "llama");
    g_f32(&g, "llama.rope.scale_linear", 2); /* the older spelling */
    m = accept();
    assert_int_equal(m->config.rope.kind, b1i_rope_linear);
    assert_true(m->config.rope.factor == 2);
    b1i_model_close(m);
    g_tiny(&g, "llama");
    g_string(&g, "llama.rope.scaling.type", "none");
    g_f32(&g, "llama.rope.scaling.factor", 4);
    m = accept();
    assert_int_equal(m->config.rope.kind, b1i_rope_plain);
    b1i_model_close(m);
    g_tiny(&g, "qwen2");
    g_string(&g, "qwen2.rope.scaling.type", "yarn");
    g_f32(&g, "qwen2.rope.scaling.factor", 4);
    g_u32(&g, "qwen2.rope.scaling.original_context_length", 32);
    g_f32(&g, "qwen2.rope.scaling.attn_factor", 0.5f);
    m = accept();
    assert_int_equal(m->config.rope.kind, b1i_rope_yarn);
    assert_int_equal(m->config.rope.original_context, 32);
    assert_true(m->config.rope.beta_fast == 32 && m->config.rope.beta_slow == 1 && m->config.rope.truncate);
    assert_true(fabs(m->config.rope.attention_factor - 0.5 * (0.1 * log(4) + 1)) < 1e-12);
    b1i_model_close(m);
    g_tiny(&g, "llama");
    g_string(&g, "llama.rope.scaling.type", "yarn");
    g_f32(&g, "llama.rope.scaling.factor", 4);
    g_f32(&g, "llama.rope.scaling.yarn_attn_factor", 1.25f);
    g_f32(&g, "llama.rope.scaling.yarn_beta_fast", 16);
    m = accept();
    assert_true(m->config.rope.attention_factor == 1.25 && m->config.rope.beta_fast == 16);
    assert_int_equal(m->config.rope.original_context, 64);
    b1i_model_close(m);
    g_tiny(&g, "llama");
    g_string(&g, "llama.rope.scaling.type", "longrope");
    refuse("llama.rope.scaling.type|longrope");
    g_tiny(&g, "llama");
    g_string(&g, "llama.rope.scaling.type", "yarn");
    g_f32(&g, "llama.rope.scaling.factor", -4);
    refuse("scaling factor|-4");
    g_tiny(&g, "llama");
    g_f32(&g, "llama.rope.scaling.yarn_log_multiplier", 0.1f);
    refuse("yarn_log_multiplier");
    g_tiny(&g, "llama");
    g_string(&g, "llama.rope.scaling.type", "linear");
    g_f32(&g, "llama.rope.scaling.factor", 4);
    g_f32(&g, "llama.rope.scaling.attn_factor", 0.5f);
    refuse("llama.rope.scaling.attn_factor is 0.5|without yarn");
    g_tiny(&g, "llama");
    g_u32(&g, "llama.rope.dimension_count", 2);
    refuse("RoPE turns 2");
    g_tiny(&g, "llama");
    g_f32(&g, "llama.rope.freq_base", 0);
    refuse("theta");
}

static void test_rope_factors(void **state)
{
    (void)state;
    g_tiny(&g, "llama");
    g_tensor(&g, "rope_freqs.weight", G_F32, 2, 0);
    b1i_model *m = accept();
    assert_non_null(m->config.rope.freq_factors);
    assert_int_equal(m->config.rope.kind, b1i_rope_plain);
    assert_float_equal(m->config.rope.freq_factors[1], 22 + 1.0f / 64, 0);
    b1i_model_close(m);
    g_tiny(&g, "llama");
    g_tensor(&g, "rope_freqs.weight", G_F32, 4, 0);
    refuse("rope_freqs.weight is not [2]");
    g_tiny(&g, "llama");
    g_tensor(&g, "rope_freqs.weight", G_F16, 2, 0);
    refuse("rope_freqs.weight is not [2]");
    g_tiny(&g, "llama");
    g_tensor(&g, "rope_freqs.weight", G_F32, 2, 0);
    g_f32(&g, "llama.rope.scaling.factor", 4);
    refuse("rope_freqs.weight|rope.scaling");
    g_tiny(&g, "llama");
    g_tensor(&g, "rope_freqs.weight", G_F32, 2, 0);
    bytes b = {0};
    const float bad[2] = {1, -0.0f};
    g_build(&g, &b);
    memcpy(b.data + b.size - 32, bad, 8);
    refuse_path(write_file("bad.gguf", b.data, b.size), "rope_freqs.weight holds -0 at 1");
    free_bytes(&b);
    g_clear(&g);
}

/* ---- what is refused ---- */

static void test_architecture(void **state)
{
    (void)state;
    g_tiny(&g, "llama");
    g_string(&g, "general.architecture", "gemma3");
    refuse("architecture \"gemma3\"");
    g_tiny(&g, "llama");
    g_drop_key(&g, "general.architecture");
    refuse("general.architecture is missing");
    g_tiny(&g, "llama");
    g_string(&g, "general.type", "adapter");
    refuse("general.type|adapter");
    g_tiny(&g, "llama");
    g_u32(&g, "general.quantization_version", 1);
    refuse("quantization_version is 1");
    g_tiny(&g, "llama");
    g.tensor_count = 0;
    refuse("no tensors");
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
        const char *words;
    } cases[] = {
        {"llama.block_count", 0, "number of layers is 0"},
        {"llama.block_count", 3, "3 layers need 29 tensors"},
        {"llama.block_count", 1, "blk.1.|beyond the model's 1"},
        {"llama.block_count", 0xffffffff, "llama.block_count is 4294967295"},
        {"llama.block_count", 0x7fffffff, "number of layers"},
        {"llama.embedding_length", 16, "heads of 8 and 8, of which RoPE turns 4"},
        {"llama.feed_forward_length", 16, "ffn_gate.weight|[8, 12]|[8, 16]"},
        {"llama.attention.head_count", 3, "8 does not divide evenly into 3 heads"},
        {"llama.attention.head_count", 0, "number of heads is 0"},
        {"llama.attention.head_count_kv", 2, "blk.0.attn_k.weight|[8, 4]|[8, 8]"},
        {"llama.attention.head_count_kv", 0, "number of KV heads is 0"},
        {"llama.context_length", 0, "longest context is 0"},
        {"llama.vocab_size", 7, "token_embd.weight|[8, 6]|[8, 7]"},
        {"llama.attention.key_length", 6, "heads of 6 and 6, of which RoPE turns 4"},
        {"llama.attention.value_length", 2, "heads of 4 and 2"},
        {"llama.expert_count", 8, "llama.expert_count is 8"},
        {"llama.attention.causal", 0, "llama.attention.causal is 0"},
        {"llama.attention.surprise", 1, "llama.attention.surprise is not known"},
        {"general.file_type", 0x40000000, "general.file_type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        g_tiny(&g, "llama");
        g_u32(&g, cases[i].key, cases[i].value);
        refuse(cases[i].words);
    }
    g_tiny(&g, "llama");
    g_u32(&g, "llama.embedding_length", 16);
    g_u32(&g, "llama.attention.key_length", 4);
    g_u32(&g, "llama.attention.value_length", 4);
    refuse("token_embd.weight|[8, 6]|[16, 6]");
    g_tiny(&g, "llama");
    g_u32(&g, "llama.attention.head_count", 4);
    g_u32(&g, "llama.attention.head_count_kv", 3);
    g_u32(&g, "llama.rope.dimension_count", 2);
    refuse("4 heads do not divide evenly into 3 KV heads");
    g_tiny(&g, "llama");
    g_u32(&g, "llama.attention.key_length", 3);
    g_u32(&g, "llama.rope.dimension_count", 3);
    refuse("head dimension is 3");
    g_tiny(&g, "llama");
    g_f32(&g, "llama.attention.layer_norm_rms_epsilon", 0);
    refuse("epsilon is 0");
    g_tiny(&g, "llama");
    g_string(&g, "llama.block_count", "2");
    refuse("llama.block_count is of type string");
    g_tiny(&g, "llama");
    g_drop_key(&g, "llama.feed_forward_length");
    refuse("llama.feed_forward_length is missing");
    g_tiny(&g, "llama");
    const char *tokens[] = {"a", "b", "c", "d", "e", "f", "g"};
    g_strings(&g, "tokenizer.ggml.tokens", 7, tokens);
    refuse("7 entries|llama.vocab_size is 6");
}

static void test_every_missing_tensor(void **state)
{
    (void)state;
    g_tiny(&g, "llama");
    int count = g.tensor_count;
    g_clear(&g);
    for (int i = 0; i < count; i++) {
        g_tiny(&g, "llama");
        char words[100];
        snprintf(words, sizeof words, "tensor %s is missing", g.tensors[i].name);
        if (strcmp(g.tensors[i].name, "output.weight") == 0) {
            g_clear(&g);
            continue;
        }
        g_drop(&g, g.tensors[i].name);
        refuse(words);
    }
}

static void test_extra_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *name;
        uint64_t cols;
    } cases[] = {
        {"llama", "blk.0.attn_q_norm.weight", 4},
        {"llama", "blk.0.attn_q.bias", 8},
        {"llama", "blk.1.ffn_gate_inp.weight", 8},
        {"llama", "blk.0.ffn_down.bias", 8},
        {"llama", "blk.0.attn_sinks.weight", 2},
        {"qwen2", "blk.0.attn_output.bias", 8},
        {"qwen2", "blk.0.attn_q_norm.weight", 4},
        {"qwen3", "blk.0.attn_q.bias", 8},
        {"llama", "output.bias", 6},
        {"llama", "rope_factors_long.weight", 2},
        {"llama", "blk.00.attn_norm.weight", 8},
        {"llama", "blk.x.attn_norm.weight", 8},
        {"llama", "blk.0.attn_norm.weigh", 8},
        {"llama", "blk.", 8},
        {"llama", "blk.0.", 8},
        {"llama", "blk.99999999999.attn_norm.weight", 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        g_tiny(&g, cases[i].arch);
        g_tensor(&g, cases[i].name, G_F32, cases[i].cols, 0);
        char words[120];
        snprintf(words, sizeof words, "tensor %s has no place in this %s model", cases[i].name, cases[i].arch);
        refuse(words);
    }
    g_tiny(&g, "llama");
    g_tensor(&g, "blk.2.attn_norm.weight", G_F32, 8, 0);
    refuse("blk.2.attn_norm.weight|beyond the model's 2");
}

static void test_shapes(void **state)
{
    (void)state;
    g_tiny(&g, "llama");
    gtensor *t = g_find(&g, "blk.1.ffn_down.weight");
    t->shape[0] = 8;
    t->shape[1] = 12;
    refuse("blk.1.ffn_down.weight|[8, 12]|[12, 8]");
    g_tiny(&g, "llama");
    t = g_find(&g, "blk.1.attn_norm.weight");
    t->dims = 2;
    t->shape[0] = 4;
    t->shape[1] = 2;
    refuse("blk.1.attn_norm.weight|[4, 2]|[8]");
    g_tiny(&g, "llama");
    t = g_find(&g, "blk.1.attn_q.weight");
    t->dims = 3;
    t->shape[1] = 4;
    t->shape[2] = 2;
    refuse("blk.1.attn_q.weight|[8, 4, 2]|[8, 8]");
}

/* ---- split files ---- */

static const char *part_name(int i, int of)
{
    static char name[40];
    snprintf(name, sizeof name, "tiny-%05d-of-%05d.gguf", i + 1, of);
    return name;
}

/* Writes the tiny model as `of` parts; part 1 holds the keys. `change` may spoil part `at`. */
static const char *write_split(int of, int at, void (*change)(gspec *))
{
    gspec part;
    static char first[512];
    g_tiny(&g, "llama");
    int done = 0, all = g.tensor_count;
    for (int i = 0; i < of; i++) {
        if (i == 0) {
            part = g;
            part.tensor_count = 0;
        } else
            part = (gspec){.version = 3, .alignment = 32};
        g_u16(&part, "split.no", (uint16_t)i);
        g_u16(&part, "split.count", (uint16_t)of);
        g_i32(&part, "split.tensors.count", all);
        int end = all * (i + 1) / of;
        for (; done < end; done++) part.tensors[part.tensor_count++] = g.tensors[done];
        if (i == at && change) change(&part);
        const char *path = g_write(&part, part_name(i, of));
        if (i == 0) snprintf(first, sizeof first, "%s", path);
        if (i == 0)
            g = part; /* its keys may have moved */
        else
            g_clear(&part);
    }
    g_clear(&g);
    return first;
}

static void wrong_number(gspec *part) { g_u16(part, "split.no", 0); }
static void wrong_count(gspec *part) { g_u16(part, "split.count", 4); }
static void wrong_total(gspec *part) { g_i32(part, "split.tensors.count", 99); }
static void one_less(gspec *part) { part->tensor_count--; }
/* One tensor again in the place of another, so that their number stays. */
static void twice(gspec *part)
{
    part->tensor_count--;
    g_tensor(part, "token_embd.weight", G_F32, 8, 6);
}
static void no_total(gspec *part) { g_drop_key(part, "split.tensors.count"); }
static void beyond(gspec *part) { g_u16(part, "split.no", 7); }

static void test_split(void **state)
{
    (void)state;
    b1i_model *m;
    const char *first = write_split(3, -1, NULL);
    if (b1i_model_open(first, B1I_LOAD_TENSORS, &m, &err) != B1_OK) fail_msg("refused: %s", err.message);
    assert_int_equal(m->map_count, 3);
    assert_int_equal(m->embedding.map, 0);
    assert_int_equal(m->head.map, 2);
    assert_true(m->head.data >= m->maps[2].data && m->head.data < m->maps[2].data + m->maps[2].size);
    b1i_model_close(m);
    refuse_path(in_folder(part_name(1, 3)), "part 2 of 3|open the first");
    refuse_path(write_split(3, 2, wrong_number), "part 1 of 3");
    refuse_path(write_split(3, 1, wrong_count), "part 2 of 4");
    refuse_path(write_split(3, 0, wrong_total), "tiny-00002-of-00003.gguf: split.tensors.count is 21|says 99");
    refuse_path(write_split(3, 1, one_less), "split.tensors.count is 21|hold 20");
    refuse_path(write_split(3, 0, no_total), "split.tensors.count is missing");
    refuse_path(write_split(3, 0, beyond), "split.no 7");
    err.message[0] = 0;
    assert_int_equal(b1i_model_open(write_split(3, 1, twice), B1I_LOAD_TENSORS, &m, &err), B1_MODEL);
    assert_words("tiny-00002-of-00003.gguf|token_embd.weight is there twice");
    assert_int_equal(b1i_model_open(write_split(3, 2, wrong_total), B1I_LOAD_TENSORS, &m, &err), B1_MODEL);
    assert_words("tiny-00003-of-00003.gguf|split.tensors.count is 99|says 21");
    first = write_split(3, -1, NULL);
    char other[512];
    snprintf(other, sizeof other, "%s", in_folder("renamed.gguf"));
    assert_int_equal(rename(first, other), 0);
    refuse_path(other, "-00001-of-00003.gguf");
    first = write_split(3, -1, NULL);
    assert_int_equal(unlink(in_folder(part_name(2, 3))), 0);
    assert_int_equal(b1i_model_open(first, B1I_LOAD_TENSORS, &m, &err), B1_MODEL);
    assert_words("tiny-00003-of-00003.gguf|No such file");
    /* one byte short, in the last part */
    first = write_split(3, -1, NULL);
    assert_int_equal(truncate(in_folder(part_name(2, 3)), 500), 0);
    assert_int_equal(b1i_model_open(first, B1I_LOAD_TENSORS, &m, &err), B1_MODEL);
    assert_words("tiny-00003-of-00003.gguf");
}

/* ---- failures and noise ---- */

static void test_allocation_failures(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", write_split(2, -1, NULL));
    long live = b1i_alloc_live(), n = 0;
    b1i_model *m;
    b1_status st;
    do {
        b1i_alloc_fail_at(n++);
        st = b1i_model_open(path, B1I_LOAD_TENSORS, &m, &err);
        b1i_alloc_fail_at(-1);
        if (st != B1_OK) {
            assert_int_equal(st, B1_MEMORY);
            assert_int_equal(b1i_alloc_live(), live);
        }
    } while (st != B1_OK);
    assert_true(n > 8);
    b1i_model_close(m);
    assert_int_equal(b1i_alloc_live(), live);
}

static void test_noise(void **state)
{
    (void)state;
    bytes b = {0}, original = {0};
    g_tiny(&g, "qwen2");
    g_string(&g, "qwen2.rope.scaling.type", "yarn");
    g_f32(&g, "qwen2.rope.scaling.factor", 4);
    g_header(&g, &original);
    size_t header = original.size;
    original.size = 0;
    g_build(&g, &original);
    g_clear(&g);
    put(&b, original.data, original.size);
    if (!original.data || !b.data) return;
    uint64_t seed = 5;
    int refused = 0;
    for (int round = 0; round < 2000; round++) {
        memcpy(b.data, original.data, original.size);
        for (int i = 0; i < 1 + round % 3; i++) {
            seed = b1i_mix64(seed);
            b.data[seed % header] = seed >> 40 & 1 ? (uint8_t)(seed >> 48) : (uint8_t)(seed >> 44 & 1 ? 0xff : 0);
        }
        b1i_model *m;
        b1_status st = b1i_model_open(write_file("noise.gguf", b.data, b.size), B1I_LOAD_TENSORS, &m, &err);
        assert_true(st == B1_OK || (st == B1_MODEL && err.message[0]));
        refused += st != B1_OK;
        b1i_model_close(m);
    }
    assert_true(refused > 1000);
    free_bytes(&b);
    free_bytes(&original);
}

/* ---- with a tokenizer ---- */

static void test_tokenizer(void **state)
{
    (void)state;
    static const char path[] = B1I_SOURCE_DIR "/fuzz/corpus/gguf/llama";
    long live = b1i_alloc_live(), n = 0;
    b1i_model *m;
    b1_status st;
    do {
        b1i_alloc_fail_at(n++);
        st = b1i_model_open(path, B1I_LOAD_TENSORS | B1I_LOAD_TOKENIZER, &m, &err);
        b1i_alloc_fail_at(-1);
        if (st != B1_OK) {
            if (st != B1_MEMORY) fail_msg("allocation %ld: %s", n - 1, err.message);
            assert_int_equal(b1i_alloc_live(), live);
        }
    } while (st != B1_OK);
    assert_true(n > 12);
    assert_int_equal(m->config.vocab, 260);
    assert_int_equal(b1_tokenizer_vocab(m->tokenizer), 260);
    int32_t *ids = NULL;
    int count = 0;
    assert_int_equal(b1_tokenizer_encode(m->tokenizer, "Hello", 5, 0, &ids, &count, &err), B1_OK);
    assert_int_equal(count, 2);
    assert_int_equal(ids[0], 258); /* "Hell" */
    b1_free(ids);
    b1i_model_close(m);
    assert_int_equal(b1i_alloc_live(), live);
    /* a model without these keys has no tokenizer; a damaged one has an error */
    g_tiny(&g, "llama");
    assert_int_equal(b1i_model_open(g_write(&g, "none.gguf"), B1I_LOAD_TENSORS | B1I_LOAD_TOKENIZER, &m, &err), B1_OK);
    assert_null(m->tokenizer);
    b1i_model_close(m);
    g_string(&g, "tokenizer.ggml.model", "gpt2");
    assert_int_equal(b1i_model_open(g_write(&g, "damaged.gguf"), B1I_LOAD_TENSORS | B1I_LOAD_TOKENIZER, &m, &err),
                     B1_MODEL);
    assert_words("damaged.gguf");
    g_clear(&g);
}

/* No model, but a tokenizer. */
static void test_vocabulary_alone(void **state)
{
    (void)state;
    static const char path[] = B1I_SOURCE_DIR "/fuzz/corpus/gguf/vocabulary";
    b1i_model *m = NULL;
    refuse_path(path, "has no tensors");
    assert_int_equal(b1i_model_open(path, B1I_LOAD_TOKENIZER, &m, &err), B1_OK);
    assert_int_equal(b1_tokenizer_vocab(m->tokenizer), 265);
    b1i_model_close(m);
}

/* ---- the default model ---- */

static void test_default_model(void **state)
{
    (void)state;
    const char *path = getenv("B1_TEST_MODEL");
    if (!path) path = B1I_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    if (access(path, R_OK) != 0) {
        print_message("skipped: there is no %s\n", path);
        skip();
    }
    b1i_model *m = NULL;
    uint64_t begin = b1i_now_ns();
    if (b1i_model_open(path, B1I_LOAD_TENSORS, &m, &err) != B1_OK) fail_msg("refused: %s", err.message);
    print_message("opened in %.1f ms\n", (double)(b1i_now_ns() - begin) / 1e6);
    const b1i_config *c = &m->config;
    assert_int_equal(c->layers, 30);
    assert_int_equal(c->hidden, 576);
    assert_int_equal(c->ffn, 1536);
    assert_int_equal(c->heads, 9);
    assert_int_equal(c->kv_heads, 3);
    assert_int_equal(c->head_dim, 64);
    assert_int_equal(c->vocab, 49152);
    assert_int_equal(c->context_max, 8192);
    assert_true(c->rope.theta == 100000 && c->rope.kind == b1i_rope_plain && c->tied);
    assert_int_equal(m->embedding.format, b1i_q8_0);
    assert_int_equal(m->embedding.data - m->maps[0].data, 1785664);
    const b1i_tensor *v = b1i_model_layer(m, 9, b1i_w_v), *q = b1i_model_layer(m, 9, b1i_w_q);
    assert_int_equal(v->format, b1i_q4_1);
    assert_int_equal(v->data - m->maps[0].data, 98291008);
    assert_int_equal(b1i_tensor_bytes(v), 69120);
    assert_int_equal(q->permuted_heads, 9);
    /* all the file but its header, the padding of its tensors (all are multiples of 32) and nothing else */
    uint64_t w = b1i_traffic_weights(m);
    assert_int_equal(w, 98362432 - 1785664);
    /* 30 positions in bf16, as a short run has them */
    uint64_t traffic = w + b1i_traffic_kv(c, 30, b1i_type_bf16);
    assert_true(traffic > 96500000 && traffic < 98000000);
    b1i_model_close(m);
}

static int make(void **state)
{
    (void)state;
    folder_make("gguf-model");
    return 0;
}

static int clean(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configuration),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_qwen),
        cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_defaults_and_oddities),
        cmocka_unit_test(test_rope_scaling),
        cmocka_unit_test(test_rope_factors),
        cmocka_unit_test(test_architecture),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_every_missing_tensor),
        cmocka_unit_test(test_extra_tensors),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_tokenizer),
        cmocka_unit_test(test_vocabulary_alone),
        cmocka_unit_test(test_default_model),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
