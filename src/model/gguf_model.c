/* SPDX-License-Identifier: MIT
 *
 * From GGUF containers to a b1i_model: the architecture's keys to a configuration, the tensors to its weights; one
 * file, or all parts of a split one.
 *
 * Refuses other architectures than llama (Mistral's files say llama too), qwen2 and qwen3, a key of the architecture
 * that is not known here (it may change the arithmetic), rotations of a part of the head, a part of a split file that
 * is not the first, parts that are missing or disagree, and whatever weights.c refuses.
 *
 * Invariant: the containers live only while the model is filled; the maps pass to the model.
 */
#include "model/gguf.h"
#include "model/loaders.h"
#include "model/tokenizer.h"
#include "model/weights.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- keys of the architecture ---- */

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

static bool is_text(const b1i_gguf_string_view *view, const char *text)
{
    return view->bytes == strlen(text) && memcmp(view->text, text, view->bytes) == 0;
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
    double older;
    snprintf(name, sizeof name, "%s.rope.scaling.type", k->arch);
    /* Files of models whose makers gave no base leave the key out; 10000 is what they mean, and what the format's
     * own runtime takes. */
    B1I_TRY(key_float(k, "rope.freq_base", false, 10000, &r->theta));
    B1I_TRY(key_float(k, "rope.scale_linear", false, 1, &older));
    B1I_TRY(key_float(k, "rope.scaling.factor", false, older, &r->factor));
    B1I_TRY(b1i_gguf_text(k->g, name, false, &type, k->err));
    if (r->factor == 0) r->factor = 1; /* "off" in some files */
    if (is_text(&type, "none"))
        r->kind = b1i_rope_plain;
    else if (!type.text || is_text(&type, "linear"))
        r->kind = r->factor == 1 ? b1i_rope_plain : b1i_rope_linear;
    else if (is_text(&type, "yarn"))
        B1I_TRY(read_yarn(k, c));
    else
        return b1i_fail(k->err, B1_MODEL, "%s: key %s is \"%.*s\"; none, linear and yarn are supported", k->g->map.path,
                        name, (int)type.bytes, type.text);
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
    if (type.text && !is_text(&type, "model"))
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

/* The whole configuration; `f`'s biases too. */
static b1_status read_config(const b1i_gguf *g, b1i_filling *f)
{
    b1i_config *c = &f->model->config;
    b1_status st;
    b1i_gguf_string_view arch, name;
    int i = 0, value_length, rotated;
    double eps;
    B1I_TRY(b1i_gguf_text(g, "general.architecture", true, &arch, f->err));
    while (i < ARCH_COUNT && !is_text(&arch, archs[i].name)) i++;
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

/* ---- tensors ---- */

/* The divisors of RoPE's frequencies: the one tensor that is read here, for it is part of the configuration. */
static b1_status put_rope_factors(b1i_filling *f, const b1i_found *found)
{
    b1i_model *m = f->model;
    uint64_t half = (uint64_t)m->config.head_dim / 2;
    if (found->format != b1i_f32 || found->shape[0] != half || found->shape[1] != 1 || found->shape[2] != 1 ||
        found->shape[3] != 1)
        return b1i_fail(f->err, B1_MODEL, "%s: tensor rope_freqs.weight is not [%llu] in f32", found->path,
                        (unsigned long long)half);
    if (m->config.rope.kind != b1i_rope_plain)
        return b1i_fail(f->err, B1_MODEL,
                        "%s: tensor rope_freqs.weight and the rope.scaling keys both scale RoPE; one of them may",
                        found->path);
    if (m->freq_factors) return b1i_fail(f->err, B1_MODEL, "%s: tensor rope_freqs.weight is there twice", found->path);
    m->freq_factors = b1i_malloc(half * sizeof(float));
    if (!m->freq_factors) return b1i_fail_memory(f->err, half * sizeof(float));
    memcpy(m->freq_factors, found->data, half * sizeof(float));
    m->config.rope.freq_factors = m->freq_factors;
    for (uint64_t i = 0; i < half; i++)
        if (!(m->freq_factors[i] > 0) || !isfinite(m->freq_factors[i]))
            return b1i_fail(f->err, B1_MODEL, "%s: tensor rope_freqs.weight holds %g at %llu, expected above 0",
                            found->path, (double)m->freq_factors[i], (unsigned long long)i);
    return B1_OK;
}

/* Old files carry RoPE's frequencies once a layer; they follow from the configuration. */
static bool is_harmless(const b1i_gguf_string_view *name)
{
    static const char *const ends[] = {".attn_rot_embd.weight", ".attn_rot_embd", ".rope_freqs"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t bytes = strlen(ends[i]);
        if (name->bytes > bytes && memcmp(name->text + name->bytes - bytes, ends[i], bytes) == 0) return true;
    }
    return false;
}

static b1_status put_tensors(b1i_filling *f, const b1i_gguf *g, int map)
{
    b1_status st;
    for (size_t i = 0; i < g->tensor_count; i++) {
        const b1i_gguf_tensor *t = &g->tensors[i];
        b1i_found found = {.name = t->name.text,
                           .name_bytes = t->name.bytes,
                           .format = t->format,
                           .dims = t->dims,
                           .data = g->map.data + t->offset,
                           .map = map,
                           .path = g->map.path};
        memcpy(found.shape, t->shape, sizeof found.shape);
        if (is_text(&t->name, "rope_freqs.weight"))
            B1I_TRY(put_rope_factors(f, &found));
        else if (!is_harmless(&t->name))
            B1I_TRY(b1i_filling_put(f, &found));
    }
    return B1_OK;
fail:
    return st;
}

/* ---- split files ---- */

typedef struct parts {
    b1i_gguf **part; /* [count], NULL until opened */
    int count;
} parts;

static void close_parts(parts *p)
{
    for (int i = 0; i < p->count; i++) b1i_gguf_close(p->part[i]);
    b1i_free(p->part);
}

static b1_status read_split(const b1i_gguf *g, int *number, int *count, int64_t *tensors, b1_error *err)
{
    b1_status st;
    int64_t no, of;
    B1I_TRY(b1i_gguf_int(g, "split.no", false, 0, &no, err));
    B1I_TRY(b1i_gguf_int(g, "split.count", false, 1, &of, err));
    B1I_TRY(b1i_gguf_int(g, "split.tensors.count", of > 1, (int64_t)g->tensor_count, tensors, err));
    if (of == 0 && no == 0) of = 1;
    if (of < 1 || of > 99999 || no < 0 || no >= of)
        return b1i_fail(err, B1_MODEL, "%s: split.no %lld of split.count %lld makes no sense", g->map.path,
                        (long long)no, (long long)of);
    *number = (int)no;
    *count = (int)of;
fail:
    return st;
}

/* Opens part `i` beside the first, whose name ends in `tail`. */
static b1_status open_part(parts *p, int i, size_t stem, b1_error *err)
{
    b1_status st;
    const char *first = p->part[0]->map.path;
    int number, count;
    int64_t tensors;
    size_t bytes = stem + sizeof "-00001-of-00001.gguf";
    char *path = b1i_malloc(bytes);
    if (!path) return b1i_fail_memory(err, bytes);
    snprintf(path, bytes, "%.*s-%05d-of-%05d.gguf", (int)stem, first, i + 1, p->count);
    B1I_TRY(b1i_gguf_open(path, &p->part[i], err));
    B1I_TRY(read_split(p->part[i], &number, &count, &tensors, err));
    if (number != i || count != p->count) {
        st = b1i_fail(err, B1_MODEL, "%s: says that it is part %d of %d, but %s makes it part %d of %d", path,
                      number + 1, count, first, i + 1, p->count);
        goto fail;
    }
fail:
    b1i_free(path);
    return st;
}

static b1_status open_all(const char *path, parts *p, b1_error *err)
{
    b1_status st;
    b1i_gguf *first = NULL;
    int number, count;
    int64_t tensors;
    char tail[32];
    B1I_TRY(b1i_gguf_open(path, &first, err));
    B1I_TRY(read_split(first, &number, &count, &tensors, err));
    if (number != 0) {
        st = b1i_fail(err, B1_MODEL, "%s: is part %d of %d of a split file; open the first part", path, number + 1,
                      count);
        goto fail;
    }
    p->part = b1i_calloc((size_t)count, sizeof(void *));
    if (!p->part) {
        st = b1i_fail_memory(err, (size_t)count * sizeof(void *));
        goto fail;
    }
    p->count = count;
    p->part[0] = first;
    if (count == 1) return B1_OK;
    snprintf(tail, sizeof tail, "-00001-of-%05d.gguf", count);
    size_t bytes = strlen(path), tail_bytes = strlen(tail);
    if (bytes < tail_bytes || strcmp(path + bytes - tail_bytes, tail) != 0)
        return b1i_fail(err, B1_MODEL, "%s: is the first of %d parts, so its name must end in %s", path, count, tail);
    for (int i = 1; i < count; i++) {
        st = open_part(p, i, bytes - tail_bytes, err);
        if (st != B1_OK) return st;
    }
    int64_t sum = 0;
    for (int i = 0; i < count; i++) sum += (int64_t)p->part[i]->tensor_count;
    if (sum != tensors)
        return b1i_fail(err, B1_MODEL, "%s: split.tensors.count is %lld, but the %d parts hold %lld tensors", path,
                        (long long)tensors, count, (long long)sum);
    return B1_OK;
fail:
    b1i_gguf_close(first);
    return st;
}

/* ---- the whole ---- */

static b1_status fill(b1i_model *m, const parts *p, b1_error *err)
{
    b1_status st;
    const b1i_gguf *first = p->part[0];
    b1i_filling f = {.model = m, .spelling = b1i_spelling_gguf, .path = first->map.path, .err = err};
    uint64_t tensors = 0;
    for (int i = 0; i < p->count; i++) tensors += p->part[i]->tensor_count;
    if (tensors == 0) return b1i_fail(err, B1_MODEL, "%s: has no tensors: a vocabulary, not a model", first->map.path);
    B1I_TRY(read_config(first, &f));
    if (b1i_filling_least(&f) > tensors)
        return b1i_fail(err, B1_MODEL, "%s: %d layers need %llu tensors, but there are %llu", first->map.path,
                        m->config.layers, (unsigned long long)b1i_filling_least(&f), (unsigned long long)tensors);
    B1I_TRY(b1i_filling_begin(&f));
    for (int i = 0; i < p->count; i++) B1I_TRY(put_tensors(&f, p->part[i], i));
    B1I_TRY(b1i_filling_end(&f));
fail:
    return st;
}

/* The maps pass from the containers to the model, in the parts' order. */
static b1_status take_maps(b1i_model *m, parts *p, b1_error *err)
{
    m->maps = b1i_calloc((size_t)p->count, sizeof *m->maps);
    if (!m->maps) return b1i_fail_memory(err, (size_t)p->count * sizeof *m->maps);
    m->map_count = p->count;
    for (int i = 0; i < p->count; i++) {
        m->maps[i] = p->part[i]->map;
        p->part[i]->map = (b1i_map){0};
    }
    return B1_OK;
}

static b1_status load_tokenizer(b1i_model *m, const b1i_gguf *g, b1_error *err)
{
    static const char prefix[] = "tokenizer.";
    bool any = false;
    for (size_t i = 0; i < g->key_count && !any; i++)
        any = g->keys[i].name.bytes >= sizeof prefix && memcmp(g->keys[i].name.text, prefix, sizeof prefix - 1) == 0;
    return any ? b1i_tokenizer_from_gguf(g, &m->tokenizer, err) : B1_OK;
}

b1_status b1i_model_open_gguf(const char *path, unsigned parts_wanted, b1i_model **out, b1_error *err)
{
    b1_status st;
    parts p = {0};
    *out = NULL;
    b1i_model *m = b1i_calloc(1, sizeof *m);
    if (!m) return b1i_fail_memory(err, sizeof *m);
    B1I_TRY(open_all(path, &p, err));
    if (parts_wanted & B1I_LOAD_TENSORS) B1I_TRY(fill(m, &p, err));
    if (parts_wanted & B1I_LOAD_TOKENIZER) B1I_TRY(load_tokenizer(m, p.part[0], err));
    B1I_TRY(take_maps(m, &p, err));
    close_parts(&p);
    *out = m;
    return B1_OK;
fail:
    close_parts(&p);
    b1i_model_close(m);
    return st;
}
