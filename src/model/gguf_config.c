/* SPDX-License-Identifier: MIT
 *
 * A GGUF file's keys to a configuration.
 *
 * Refuses other architectures than llama (Mistral's files say llama too), qwen2 and qwen3, a key in the architecture's
 * name space that is not known here (it may change the arithmetic) or is known only in its neutral value, rotations of
 * a part of the head, and sizes that weights.c refuses.
 */
#include "model/gguf_config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    b1i_arch arch;
    bool qkv_bias, qk_norm;
} archs[] = {
    {"llama", b1i_arch_llama, false, false},
    {"qwen2", b1i_arch_qwen2, true, false},
    {"qwen3", b1i_arch_qwen3, false, true},
};
enum { ARCH_COUNT = sizeof archs / sizeof *archs };

/* What may follow "llama.": read below, harmless, or harmless only where it has the value that means "off". */
typedef enum key_use { key_read, key_harmless, key_neutral } key_use;
static const struct {
    const char *name;
    key_use use;
    double neutral;
} known[] = {
    {"context_length", key_read, 0},
    {"embedding_length", key_read, 0},
    {"block_count", key_read, 0},
    {"feed_forward_length", key_read, 0},
    {"vocab_size", key_read, 0},
    {"attention.head_count", key_read, 0},
    {"attention.head_count_kv", key_read, 0},
    {"attention.key_length", key_read, 0},
    {"attention.value_length", key_read, 0},
    {"attention.layer_norm_rms_epsilon", key_read, 0},
    {"attention.sliding_window", key_read, 0},
    {"rope.dimension_count", key_read, 0},
    {"rope.freq_base", key_read, 0},
    {"rope.scale_linear", key_read, 0},
    {"rope.scaling.type", key_read, 0},
    {"rope.scaling.factor", key_read, 0},
    {"rope.scaling.attn_factor", key_read, 0},
    {"rope.scaling.original_context_length", key_read, 0},
    {"rope.scaling.yarn_attn_factor", key_read, 0},
    {"rope.scaling.yarn_beta_fast", key_read, 0},
    {"rope.scaling.yarn_beta_slow", key_read, 0},
    {"rope.scaling.finetuned", key_harmless, 0},
    {"tensor_data_layout", key_harmless, 0},
    {"pooling_type", key_harmless, 0},
    {"attention.causal", key_neutral, 1},
    {"attention.layer_norm_epsilon", key_harmless, 0},
    {"expert_count", key_neutral, 0},
    {"expert_used_count", key_neutral, 0},
    {"use_parallel_residual", key_neutral, 0},
    {"rope.scaling.yarn_ext_factor", key_neutral, 1},
    {"rope.scaling.yarn_log_multiplier", key_neutral, 0},
};

static b1_status check_neutral(const b1i_gguf *g, const b1i_gguf_key *key, const char *name, double neutral,
                               b1_error *err)
{
    b1_status st;
    double number = 0;
    int64_t integer = 0;
    bool flag = false;
    if (key->type == b1i_gguf_bool) {
        B1I_TRY(b1i_gguf_boolean(g, name, true, false, &flag, err));
        number = flag;
    } else if (key->type == b1i_gguf_f32 || key->type == b1i_gguf_f64) {
        B1I_TRY(b1i_gguf_float(g, name, true, 0, &number, err));
    } else {
        B1I_TRY(b1i_gguf_int(g, name, true, 0, &integer, err));
        number = (double)integer;
    }
    if (number != neutral)
        return b1i_fail(err, B1_MODEL, "%s: key %s is %g; only %g is supported", g->map.path, name, number, neutral);
fail:
    return st;
}

/* No key of the architecture's own name space may be unknown. */
static b1_status check_keys(const b1i_gguf *g, const char *arch, b1_error *err)
{
    b1_status st;
    size_t prefix = strlen(arch) + 1;
    for (size_t i = 0; i < g->key_count; i++) {
        const b1i_gguf_string_view *name = &g->keys[i].name;
        if (name->bytes <= prefix || memcmp(name->text, arch, prefix - 1) != 0 || name->text[prefix - 1] != '.')
            continue;
        size_t k = 0, count = sizeof known / sizeof *known;
        while (k < count && (strlen(known[k].name) != name->bytes - prefix ||
                             memcmp(known[k].name, name->text + prefix, name->bytes - prefix) != 0))
            k++;
        if (k == count)
            return b1i_fail(err, B1_MODEL, "%s: key %.*s is not known for this architecture and may change the result",
                            g->map.path, (int)name->bytes, name->text);
        char full[96];
        snprintf(full, sizeof full, "%s.%s", arch, known[k].name);
        if (known[k].use == key_neutral) B1I_TRY(check_neutral(g, &g->keys[i], full, known[k].neutral, err));
    }
    return B1_OK;
fail:
    return st;
}

/* The keys of one architecture; `arch` is its prefix. */
typedef struct keys {
    const b1i_gguf *g;
    const char *arch;
    b1_error *err;
} keys;

static b1_status key_int(const keys *k, const char *name, bool needed, int fallback, int *out)
{
    char full[96];
    int64_t value;
    snprintf(full, sizeof full, "%s.%s", k->arch, name);
    b1_status st = b1i_gguf_int(k->g, full, needed, fallback, &value, k->err);
    if (st != B1_OK) return st;
    if (value < 0 || value > INT_MAX)
        return b1i_fail(k->err, B1_MODEL, "%s: key %s is %lld, expected 0 to %d", k->g->map.path, full,
                        (long long)value, INT_MAX);
    *out = (int)value;
    return B1_OK;
}

static b1_status key_float(const keys *k, const char *name, bool needed, double fallback, double *out)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", k->arch, name);
    return b1i_gguf_float(k->g, full, needed, fallback, out, k->err);
}

/* YaRN. yarn_attn_factor is the whole factor on cos and sin, as converters take it from a configuration's
 * attention_factor; without it, the rule's own. attn_factor comes on top of either. */
static b1_status read_yarn(const keys *k, b1i_config *c)
{
    b1i_rope *r = &c->rope;
    b1_status st;
    double top, own = r->factor > 1 ? 0.1 * log(r->factor) + 1 : 1;
    r->kind = b1i_rope_yarn;
    r->truncate = true;
    B1I_TRY(key_int(k, "rope.scaling.original_context_length", false, c->context_max, &r->original_context));
    B1I_TRY(key_float(k, "rope.scaling.yarn_beta_fast", false, 32, &r->beta_fast));
    B1I_TRY(key_float(k, "rope.scaling.yarn_beta_slow", false, 1, &r->beta_slow));
    B1I_TRY(key_float(k, "rope.scaling.yarn_attn_factor", false, own, &r->attention_factor));
    B1I_TRY(key_float(k, "rope.scaling.attn_factor", false, 1, &top));
    r->attention_factor *= top;
fail:
    return st;
}

static b1_status read_rope(const keys *k, b1i_config *c)
{
    b1i_rope *r = &c->rope;
    b1_status st;
    char name[96];
    b1i_gguf_string_view type;
    double older, top;
    snprintf(name, sizeof name, "%s.rope.scaling.type", k->arch);
    /* Files of models whose makers gave no base leave the key out; 10000 is what they mean, and what the format's
     * own runtime takes. */
    B1I_TRY(key_float(k, "rope.freq_base", false, 10000, &r->theta));
    B1I_TRY(key_float(k, "rope.scale_linear", false, 1, &older));
    B1I_TRY(key_float(k, "rope.scaling.factor", false, older, &r->factor));
    B1I_TRY(b1i_gguf_text(k->g, name, false, &type, k->err));
    if (r->factor == 0) r->factor = 1; /* "off" in some files */
    if (b1i_gguf_is(&type, "none"))
        r->kind = b1i_rope_plain;
    else if (!type.text || b1i_gguf_is(&type, "linear"))
        r->kind = r->factor == 1 ? b1i_rope_plain : b1i_rope_linear;
    else if (b1i_gguf_is(&type, "yarn"))
        B1I_TRY(read_yarn(k, c));
    else
        return b1i_fail(k->err, B1_MODEL, "%s: key %s is \"%.*s\"; none, linear and yarn are supported", k->g->map.path,
                        name, (int)type.bytes, type.text);
    B1I_TRY(key_float(k, "rope.scaling.attn_factor", false, 1, &top));
    if (r->kind != b1i_rope_yarn && top != 1)
        return b1i_fail(k->err, B1_MODEL, "%s: key %s.rope.scaling.attn_factor is %g; without yarn only 1 is supported",
                        k->g->map.path, k->arch, top);
fail:
    return st;
}

/* The vocabulary's size: the key, else the token list's length; where both are there, the list is not the longer. */
static b1_status read_vocab(const keys *k, b1i_config *c)
{
    b1_status st;
    const b1i_gguf_key *tokens = b1i_gguf_find(k->g, "tokenizer.ggml.tokens");
    int listed = tokens && tokens->type == b1i_gguf_array && tokens->count <= INT_MAX ? (int)tokens->count : 0;
    B1I_TRY(key_int(k, "vocab_size", false, listed, &c->vocab));
    if (listed > c->vocab)
        return b1i_fail(k->err, B1_MODEL, "%s: the token list has %d entries, but %s.vocab_size is %d", k->g->map.path,
                        listed, k->arch, c->vocab);
fail:
    return st;
}

static b1_status check_general(const b1i_gguf *g, b1_error *err)
{
    b1_status st;
    b1i_gguf_string_view type;
    int64_t quantization, file_type;
    B1I_TRY(b1i_gguf_text(g, "general.type", false, &type, err));
    if (type.text && !b1i_gguf_is(&type, "model"))
        return b1i_fail(err, B1_MODEL, "%s: key general.type is \"%.*s\", not \"model\"", g->map.path, (int)type.bytes,
                        type.text);
    B1I_TRY(b1i_gguf_int(g, "general.quantization_version", false, 2, &quantization, err));
    if (quantization != 2)
        return b1i_fail(err, B1_MODEL, "%s: key general.quantization_version is %lld; the blocks of 2 are known",
                        g->map.path, (long long)quantization);
    B1I_TRY(b1i_gguf_int(g, "general.file_type", false, 0, &file_type, err));
    if (file_type < 0 || file_type > 4095)
        return b1i_fail(err, B1_MODEL, "%s: key general.file_type is %lld, expected 0 to 4095", g->map.path,
                        (long long)file_type);
fail:
    return st;
}

b1_status b1i_gguf_config(const b1i_gguf *g, b1i_filling *f)
{
    b1i_config *c = &f->model->config;
    b1_status st;
    b1i_gguf_string_view arch, name;
    int i = 0, value_length, rotated;
    double eps;
    B1I_TRY(b1i_gguf_text(g, "general.architecture", true, &arch, f->err));
    while (i < ARCH_COUNT && !b1i_gguf_is(&arch, archs[i].name)) i++;
    if (i == ARCH_COUNT)
        return b1i_fail(f->err, B1_MODEL,
                        "%s: the architecture \"%.*s\" is not supported; llama (Mistral too), qwen2 and qwen3 are",
                        g->map.path, (int)arch.bytes, arch.text);
    c->arch = archs[i].arch;
    c->qk_norm = archs[i].qk_norm;
    f->qkv_bias = archs[i].qkv_bias;
    const keys k = {g, archs[i].name, f->err};
    B1I_TRY(check_general(g, f->err));
    B1I_TRY(check_keys(g, k.arch, f->err));
    B1I_TRY(b1i_gguf_text(g, "general.name", false, &name, f->err));
    if (name.bytes > 0)
        b1i_config_name(c, name.text, name.bytes);
    else
        b1i_config_name_path(c, g->map.path);
    B1I_TRY(key_int(&k, "block_count", true, 0, &c->layers));
    B1I_TRY(key_int(&k, "embedding_length", true, 0, &c->hidden));
    B1I_TRY(key_int(&k, "feed_forward_length", true, 0, &c->ffn));
    B1I_TRY(key_int(&k, "context_length", true, 0, &c->context_max));
    B1I_TRY(key_int(&k, "attention.head_count", true, 0, &c->heads));
    B1I_TRY(key_int(&k, "attention.head_count_kv", false, c->heads, &c->kv_heads));
    B1I_TRY(key_int(&k, "attention.sliding_window", false, 0, &c->sliding_window));
    B1I_TRY(key_float(&k, "attention.layer_norm_rms_epsilon", true, 0, &eps));
    c->norm_eps = (float)eps;
    B1I_TRY(key_int(&k, "attention.key_length", false, 0, &c->head_dim));
    if (c->head_dim == 0 && c->heads > 0) {
        if (c->hidden % c->heads != 0)
            return b1i_fail(f->err, B1_MODEL, "%s: the embedding length %d does not divide evenly into %d heads",
                            g->map.path, c->hidden, c->heads);
        c->head_dim = c->hidden / c->heads;
    }
    B1I_TRY(key_int(&k, "attention.value_length", false, c->head_dim, &value_length));
    B1I_TRY(key_int(&k, "rope.dimension_count", false, c->head_dim, &rotated));
    B1I_TRY(read_vocab(&k, c));
    B1I_TRY(read_rope(&k, c));
    B1I_TRY(b1i_config_check(c, g->map.path, f->err));
    if (value_length != c->head_dim || rotated != c->head_dim)
        return b1i_fail(f->err, B1_MODEL,
                        "%s: keys and values have heads of %d and %d, of which RoPE turns %d; they must be equal",
                        g->map.path, c->head_dim, value_length, rotated);
fail:
    return st;
}
