/* SPDX-License-Identifier: MIT
 *
 * Built-in shapes: published architectures with random weights, for measurements without a file. Every matrix has the
 * asked format, embedding and head included; norms are ones and biases small, both f32. Rows are made when they are
 * asked for, each from its own seed, so nothing is stored here. All layers have one layer's values, and the head has
 * the embedding's: they are made once and copied (of an 8B a tenth is made), and a step reads as many bytes from as
 * many places. There is no tokenizer and there are no end tokens: what random weights say has no end.
 */
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
#define PLAIN(base) {.kind = b1i_rope_plain, .theta = base}
#define LLAMA3(base, times) {.kind = b1i_rope_llama3, .theta = base, .factor = times, .original_context = 8192, \
                             .low_freq_factor = 1, .high_freq_factor = 4}
#define SHAPE(id, a, l, h, f, q, kv, d, v, eps, context, tie, qk, ...)                                            \
    {.name = id, .arch = b1i_arch_##a, .layers = l, .hidden = h, .ffn = f, .heads = q, .kv_heads = kv,            \
     .head_dim = d, .vocab = v, .norm_eps = eps, .context_max = context, .tied = tie, .qk_norm = qk, .rope = __VA_ARGS__}

/* As published in each model's config.json. */
static const b1i_config shapes[] = {
    /*    name            arch     layers hidden ffn  heads kv  dim   vocab  eps    context  tied  qk_norm rope */
    SHAPE("qwen2.5-7b",   qwen2,   28, 3584, 18944, 28, 4, 128, 152064, 1e-6f, 131072, false, false, PLAIN(1000000)),
    SHAPE("mistral-7b",   mistral, 32, 4096, 14336, 32, 8, 128,  32768, 1e-5f,  32768, false, false, PLAIN(1000000)),
    SHAPE("llama-3.1-8b", llama,   32, 4096, 14336, 32, 8, 128, 128256, 1e-5f, 131072, false, false, LLAMA3(500000, 8)),
    SHAPE("llama-3.2-1b", llama,   16, 2048,  8192, 32, 8,  64, 128256, 1e-5f, 131072, true,  false, LLAMA3(500000, 32)),
    SHAPE("qwen3-0.6b",   qwen3,   28, 1024,  3072, 16, 8, 128, 151936, 1e-6f,  40960, true,  true,  PLAIN(1000000)),
    SHAPE("smollm2-135m", llama,   30,  576,  1536,  9, 3,  64,  49152, 1e-5f,   8192, true,  false, PLAIN(100000)),
};
/* clang-format on */

enum { SHAPES = sizeof shapes / sizeof *shapes };

const char *b1_shape_name(int index) { return index >= 0 && index < SHAPES ? shapes[index].name : NULL; }

/* A size of the configuration, as the weights' table names them. */
typedef enum size_id { one, hidden, ffn, head_dim, q_size, kv_size } size_id;

static int64_t size_of(const b1i_config *c, size_id id)
{
    switch (id) {
    case hidden:
        return c->hidden;
    case ffn:
        return c->ffn;
    case head_dim:
        return c->head_dim;
    case q_size:
        return (int64_t)c->heads * c->head_dim;
    case kv_size:
        return (int64_t)c->kv_heads * c->head_dim;
    case one:
        break;
    }
    return 1;
}

typedef enum kind { norm, bias, qk_norm, matrix } kind;

static const struct {
    const char *name;
    kind kind;
    size_id rows, cols;
} weights_of_layer[b1i_layer_weights] = {
    [b1i_w_attn_norm] = {"input_layernorm.weight", norm, one, hidden},
    [b1i_w_q] = {"self_attn.q_proj.weight", matrix, q_size, hidden},
    [b1i_w_k] = {"self_attn.k_proj.weight", matrix, kv_size, hidden},
    [b1i_w_v] = {"self_attn.v_proj.weight", matrix, kv_size, hidden},
    [b1i_w_q_bias] = {"self_attn.q_proj.bias", bias, one, q_size},
    [b1i_w_k_bias] = {"self_attn.k_proj.bias", bias, one, kv_size},
    [b1i_w_v_bias] = {"self_attn.v_proj.bias", bias, one, kv_size},
    [b1i_w_q_norm] = {"self_attn.q_norm.weight", qk_norm, one, head_dim},
    [b1i_w_k_norm] = {"self_attn.k_norm.weight", qk_norm, one, head_dim},
    [b1i_w_o] = {"self_attn.o_proj.weight", matrix, hidden, q_size},
    [b1i_w_ffn_norm] = {"post_attention_layernorm.weight", norm, one, hidden},
    [b1i_w_gate] = {"mlp.gate_proj.weight", matrix, ffn, hidden},
    [b1i_w_up] = {"mlp.up_proj.weight", matrix, ffn, hidden},
    [b1i_w_down] = {"mlp.down_proj.weight", matrix, hidden, ffn},
};

/* `number` decides the seed: the embedding and the head are 1, a layer's tensors go on from there. A matrix keeps the
 * variance of its input. */
static b1i_tensor tensor(kind k, b1i_format_id format, int64_t rows, int64_t cols, uint64_t number)
{
    b1i_tensor t = {.format = k == matrix ? format : b1i_f32, .rows = rows, .cols = cols, .map = -1};
    t.seed = b1i_mix64(number);
    t.scale = k == matrix ? 1 / sqrtf((float)cols) : k == bias ? 0.02f : 0;
    return t;
}

static void fill_model(b1i_model *m, b1i_format_id format)
{
    const b1i_config *c = &m->config;
    const uint64_t outside = 1, inside = 2;
    m->embedding = tensor(matrix, format, c->vocab, c->hidden, outside);
    snprintf(m->embedding.name, sizeof m->embedding.name, "model.embed_tokens.weight");
    for (int l = 0; l < c->layers; l++) {
        for (int w = 0; w < b1i_layer_weights; w++) {
            kind k = weights_of_layer[w].kind;
            if (k == bias && c->arch != b1i_arch_qwen2) continue;
            if (k == qk_norm && !c->qk_norm) continue;
            if (!weights_of_layer[w].name) continue; /* the o bias: no built-in shape has one */
            b1i_tensor *t = &m->layer[(int64_t)l * b1i_layer_weights + w];
            *t = tensor(k, format, size_of(c, weights_of_layer[w].rows), size_of(c, weights_of_layer[w].cols),
                        inside + (uint64_t)w);
            snprintf(t->name, sizeof t->name, "model.layers.%d.%s", l, weights_of_layer[w].name);
        }
    }
    m->final_norm = tensor(norm, format, 1, c->hidden, outside);
    snprintf(m->final_norm.name, sizeof m->final_norm.name, "model.norm.weight");
    if (c->tied) return;
    m->head = tensor(matrix, format, c->vocab, c->hidden, outside);
    snprintf(m->head.name, sizeof m->head.name, "lm_head.weight");
}

/* "a, b, c" of the names that `name(i)` gives until NULL */
static const char *format_name(int i) { return i < b1i_format_count ? b1i_formats[i].name : NULL; }
static void list_names(const char *(*name)(int), char *text, size_t size)
{
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; name(i) && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", name(i));
}

b1_status b1i_model_synthetic(const char *shape, const char *weights, b1i_model **out, b1_error *err)
{
    char names[512];
    const b1i_config *c = NULL;
    *out = NULL;
    for (int i = 0; i < SHAPES && !c; i++) {
        if (!strcmp(shapes[i].name, shape)) c = &shapes[i];
    }
    if (!c) {
        list_names(b1_shape_name, names, sizeof names);
        return b1i_fail(err, B1_ARGUMENT, "%s: no built-in shape has this name; there are %s", shape, names);
    }
    const b1i_format *f = b1i_format_by_name(weights ? weights : "bf16");
    if (!f) {
        list_names(format_name, names, sizeof names);
        return b1i_fail(err, B1_ARGUMENT, "%s: no weight format has this name; there are %s", weights, names);
    }
    int64_t widths[] = {c->hidden, size_of(c, q_size), c->ffn};
    for (int i = 0; i < 3; i++) {
        if (widths[i] % f->block)
            return b1i_fail(err, B1_UNSUPPORTED,
                            "%s in %s: a row of %lld values is not a whole number of blocks of %d values", shape,
                            f->name, (long long)widths[i], f->block);
    }
    b1i_model *m = b1i_calloc(1, sizeof *m);
    if (!m) return b1i_fail_memory(err, sizeof *m);
    m->config = *c;
    m->layer = b1i_calloc((size_t)c->layers * b1i_layer_weights, sizeof *m->layer);
    if (!m->layer) {
        b1i_model_close(m);
        return b1i_fail_memory(err, (size_t)c->layers * b1i_layer_weights * sizeof *m->layer);
    }
    fill_model(m, (b1i_format_id)(f - b1i_formats));
    *out = m;
    return B1_OK;
}
