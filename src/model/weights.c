/* SPDX-License-Identifier: MIT
 *
 * One table row a weight: its name in a GGUF file and in safetensors, and its shape as products of the
 * configuration's sizes. Filling, checking and messages all come from it.
 */
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- limits ---- */

enum {
    LAYERS_MAX = 4096,
    WIDTH_MAX = 1 << 20,
    FFN_MAX = 1 << 22,
    HEADS_MAX = 1 << 14,
    HEAD_DIM_MAX = 1 << 12,
    VOCAB_MAX = 1 << 24,
    CONTEXT_MAX = 1 << 30
};

static b1_status check_size(const char *path, const char *what, int value, int least, int max, b1_error *err)
{
    if (value >= least && value <= max) return B1_OK;
    return b1i_fail(err, B1_MODEL, "%s: the %s is %d, expected %d to %d", path, what, value, least, max);
}

static b1_status check_number(const char *path, const char *what, double value, double above, double max, b1_error *err)
{
    if (value > above && value <= max) return B1_OK;
    return b1i_fail(err, B1_MODEL, "%s: the %s is %g, expected above %g and at most %g", path, what, value, above, max);
}

static b1_status check_rope(const b1i_config *c, const char *path, b1_error *err)
{
    const b1i_rope *r = &c->rope;
    b1_status st;
    B1I_TRY(check_number(path, "RoPE base (theta)", r->theta, 1, 1e15, err));
    if (r->kind == b1i_rope_plain) return B1_OK;
    B1I_TRY(check_number(path, "RoPE scaling factor", r->factor, 0, 1e6, err));
    if (r->kind == b1i_rope_linear) return B1_OK;
    B1I_TRY(check_size(path, "RoPE scaling's original context", r->original_context, 1, CONTEXT_MAX, err));
    if (r->kind == b1i_rope_llama3) {
        B1I_TRY(check_number(path, "RoPE scaling's low_freq_factor", r->low_freq_factor, 0, 1e6, err));
        B1I_TRY(
            check_number(path, "RoPE scaling's high_freq_factor", r->high_freq_factor, r->low_freq_factor, 1e6, err));
    } else {
        B1I_TRY(check_number(path, "RoPE scaling's beta_slow", r->beta_slow, 0, 1e6, err));
        B1I_TRY(check_number(path, "RoPE scaling's beta_fast", r->beta_fast, r->beta_slow, 1e6, err));
        B1I_TRY(check_number(path, "RoPE scaling's attention factor", r->attention_factor, 0, 1e3, err));
    }
fail:
    return st;
}

b1_status b1i_config_check(const b1i_config *c, const char *path, b1_error *err)
{
    /* Matrices have two rows at least: one row is a vector everywhere else. */
    const struct {
        const char *what;
        int value, least, max;
    } sizes[] = {
        {"number of layers", c->layers, 1, LAYERS_MAX},    {"hidden size", c->hidden, 2, WIDTH_MAX},
        {"feed-forward size", c->ffn, 2, FFN_MAX},         {"number of heads", c->heads, 1, HEADS_MAX},
        {"number of KV heads", c->kv_heads, 1, HEADS_MAX}, {"head dimension", c->head_dim, 2, HEAD_DIM_MAX},
        {"vocabulary's size", c->vocab, 2, VOCAB_MAX},     {"longest context", c->context_max, 1, CONTEXT_MAX}};
    b1_status st;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        B1I_TRY(check_size(path, sizes[i].what, sizes[i].value, sizes[i].least, sizes[i].max, err));
    if (c->heads % c->kv_heads != 0)
        return b1i_fail(err, B1_MODEL, "%s: %d heads do not divide evenly into %d KV heads", path, c->heads,
                        c->kv_heads);
    if (c->head_dim % 2 != 0)
        return b1i_fail(err, B1_MODEL, "%s: the head dimension is %d, but RoPE needs an even one", path, c->head_dim);
    if (c->sliding_window < 0)
        return b1i_fail(err, B1_MODEL, "%s: the sliding window is %d positions", path, c->sliding_window);
    B1I_TRY(check_number(path, "RMSNorm's epsilon", (double)c->norm_eps, 0, 0.01, err));
    B1I_TRY(check_rope(c, path, err));
fail:
    return st;
}

/* ---- names and shapes ---- */

typedef enum size_id { size_none, size_hidden, size_ffn, size_q, size_kv, size_head_dim, size_vocab } size_id;
typedef enum need { need_always, need_qkv_bias, need_o_bias, need_qk_norm } need;
typedef enum permuted { permuted_no, permuted_q, permuted_k } permuted;

typedef struct weight_row {
    const char *name[2]; /* by b1i_spelling; after the layer's prefix */
    size_id rows, cols;  /* rows size_none: a vector */
    need when;
    permuted rows_permuted; /* in GGUF files of the llama architecture */
} weight_row;

/* clang-format off */
static const weight_row layer_rows[b1i_layer_weights] = {
    [b1i_w_attn_norm] = {{"attn_norm.weight",   "input_layernorm.weight"},          size_none,   size_hidden,   need_always,   permuted_no},
    [b1i_w_q]         = {{"attn_q.weight",      "self_attn.q_proj.weight"},         size_q,      size_hidden,   need_always,   permuted_q},
    [b1i_w_k]         = {{"attn_k.weight",      "self_attn.k_proj.weight"},         size_kv,     size_hidden,   need_always,   permuted_k},
    [b1i_w_v]         = {{"attn_v.weight",      "self_attn.v_proj.weight"},         size_kv,     size_hidden,   need_always,   permuted_no},
    [b1i_w_q_bias]    = {{"attn_q.bias",        "self_attn.q_proj.bias"},           size_none,   size_q,        need_qkv_bias, permuted_no},
    [b1i_w_k_bias]    = {{"attn_k.bias",        "self_attn.k_proj.bias"},           size_none,   size_kv,       need_qkv_bias, permuted_no},
    [b1i_w_v_bias]    = {{"attn_v.bias",        "self_attn.v_proj.bias"},           size_none,   size_kv,       need_qkv_bias, permuted_no},
    [b1i_w_q_norm]    = {{"attn_q_norm.weight", "self_attn.q_norm.weight"},         size_none,   size_head_dim, need_qk_norm,  permuted_no},
    [b1i_w_k_norm]    = {{"attn_k_norm.weight", "self_attn.k_norm.weight"},         size_none,   size_head_dim, need_qk_norm,  permuted_no},
    [b1i_w_o]         = {{"attn_output.weight", "self_attn.o_proj.weight"},         size_hidden, size_q,        need_always,   permuted_no},
    [b1i_w_o_bias]    = {{"attn_output.bias",   "self_attn.o_proj.bias"},           size_none,   size_hidden,   need_o_bias,   permuted_no},
    [b1i_w_ffn_norm]  = {{"ffn_norm.weight",    "post_attention_layernorm.weight"}, size_none,   size_hidden,   need_always,   permuted_no},
    [b1i_w_gate]      = {{"ffn_gate.weight",    "mlp.gate_proj.weight"},            size_ffn,    size_hidden,   need_always,   permuted_no},
    [b1i_w_up]        = {{"ffn_up.weight",      "mlp.up_proj.weight"},              size_ffn,    size_hidden,   need_always,   permuted_no},
    [b1i_w_down]      = {{"ffn_down.weight",    "mlp.down_proj.weight"},            size_hidden, size_ffn,      need_always,   permuted_no},
};
enum { OUTER_EMBEDDING, OUTER_NORM, OUTER_HEAD, OUTER_COUNT };
static const weight_row outer_rows[OUTER_COUNT] = {
    [OUTER_EMBEDDING] = {{"token_embd.weight",  "model.embed_tokens.weight"}, size_vocab, size_hidden, need_always, permuted_no},
    [OUTER_NORM]      = {{"output_norm.weight", "model.norm.weight"},         size_none,  size_hidden, need_always, permuted_no},
    [OUTER_HEAD]      = {{"output.weight",      "lm_head.weight"},            size_vocab, size_hidden, need_always, permuted_no},
};
/* clang-format on */
static const char *const layer_prefix[2] = {"blk.", "model.layers."};

static int64_t size_of(const b1i_config *c, size_id id)
{
    switch (id) {
    case size_hidden:
        return c->hidden;
    case size_ffn:
        return c->ffn;
    case size_q:
        return (int64_t)c->heads * c->head_dim;
    case size_kv:
        return (int64_t)c->kv_heads * c->head_dim;
    case size_head_dim:
        return c->head_dim;
    case size_vocab:
        return c->vocab;
    default:
        return 1;
    }
}

static bool needed(const b1i_filling *f, const weight_row *row)
{
    switch (row->when) {
    case need_qkv_bias:
        return f->qkv_bias;
    case need_o_bias:
        return f->o_bias;
    case need_qk_norm:
        return f->model->config.qk_norm;
    default:
        return true;
    }
}

static bool same_name(const char *name, size_t bytes, const char *wanted)
{
    return strlen(wanted) == bytes && memcmp(name, wanted, bytes) == 0;
}

/* The place of a tensor of this name: NULL where there is none; *layer is -1 outside the layers, and may be beyond
 * the model's. */
static const weight_row *row_of(const b1i_filling *f, const char *name, size_t bytes, int *layer)
{
    const char *prefix = layer_prefix[f->spelling];
    size_t at = strlen(prefix);
    *layer = -1;
    for (int i = 0; i < OUTER_COUNT; i++)
        if (same_name(name, bytes, outer_rows[i].name[f->spelling])) return &outer_rows[i];
    if (bytes <= at || memcmp(name, prefix, at) != 0) return NULL;
    size_t digits = at;
    int number = 0;
    while (at < bytes && name[at] >= '0' && name[at] <= '9' && at - digits < 6) number = number * 10 + name[at++] - '0';
    if (at == digits || at + 1 >= bytes || name[at] != '.' || (name[digits] == '0' && at - digits > 1)) return NULL;
    at++;
    for (int i = 0; i < b1i_layer_weights; i++)
        if (same_name(name + at, bytes - at, layer_rows[i].name[f->spelling])) {
            *layer = number;
            return &layer_rows[i];
        }
    return NULL;
}

static b1i_tensor *place_of(const b1i_filling *f, const weight_row *row, int layer)
{
    b1i_model *m = f->model;
    if (layer >= 0) return &m->layer[(int64_t)layer * b1i_layer_weights + (row - layer_rows)];
    return row == &outer_rows[OUTER_EMBEDDING] ? &m->embedding
           : row == &outer_rows[OUTER_NORM]    ? &m->final_norm
                                               : &m->head;
}

/* ---- filling ---- */

/* "[576, 49152]" */
static const char *shape_text(char *text, size_t bytes, int dims, const uint64_t *shape)
{
    size_t at = (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < dims && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
    if (at < bytes) snprintf(text + at, bytes - at, "]");
    return text;
}

static b1_status check_shape(const b1i_filling *f, const weight_row *row, const b1i_found *found)
{
    const b1i_config *c = &f->model->config;
    bool vector = row->rows == size_none, gguf = f->spelling == b1i_spelling_gguf;
    uint64_t rows = (uint64_t)size_of(c, row->rows), cols = (uint64_t)size_of(c, row->cols);
    uint64_t wanted[4] = {vector || gguf ? cols : rows, vector ? 1 : gguf ? rows : cols, 1, 1};
    int dims = vector ? 1 : 2;
    /* GGUF writers leave out trailing ones, or do not. */
    if ((gguf || found->dims == dims) && memcmp(wanted, found->shape, sizeof wanted) == 0) return B1_OK;
    char is[100], should[100];
    return b1i_fail(f->err, B1_MODEL, "%s: tensor %.*s has the shape %s, but the configuration gives it %s",
                    found->path, (int)found->name_bytes, found->name,
                    shape_text(is, sizeof is, found->dims, found->shape),
                    shape_text(should, sizeof should, dims, wanted));
}

b1_status b1i_filling_put(b1i_filling *f, const b1i_found *found)
{
    const b1i_config *c = &f->model->config;
    const char *arch = b1i_arch_names[c->arch];
    int name_bytes = (int)found->name_bytes, layer;
    const weight_row *row = row_of(f, found->name, found->name_bytes, &layer);
    if (!row || !needed(f, row))
        return b1i_fail(f->err, B1_MODEL,
                        "%s: tensor %.*s has no place in this %s model; to leave it out would change the result",
                        found->path, name_bytes, found->name, arch);
    if (layer >= c->layers)
        return b1i_fail(f->err, B1_MODEL, "%s: tensor %.*s belongs to a layer beyond the model's %d", found->path,
                        name_bytes, found->name, c->layers);
    b1i_tensor *t = place_of(f, row, layer);
    if (t->rows > 0)
        return b1i_fail(f->err, B1_MODEL, "%s: tensor %.*s is there twice", found->path, name_bytes, found->name);
    if (found->name_bytes >= sizeof t->name)
        return b1i_fail(f->err, B1_MODEL, "%s: tensor %.*s has a name of %zu bytes, more than %zu", found->path,
                        name_bytes, found->name, found->name_bytes, sizeof t->name - 1);
    b1_status st = check_shape(f, row, found);
    if (st != B1_OK) return st;
    memcpy(t->name, found->name, found->name_bytes);
    t->name[found->name_bytes] = 0;
    t->format = found->format;
    t->rows = row->rows == size_none ? 1 : size_of(c, row->rows);
    t->cols = size_of(c, row->cols);
    t->data = found->data;
    t->map = found->map;
    bool is_permuted = f->spelling == b1i_spelling_gguf && c->arch == b1i_arch_llama;
    if (is_permuted && row->rows_permuted != permuted_no)
        t->permuted_heads = row->rows_permuted == permuted_q ? c->heads : c->kv_heads;
    return B1_OK;
}

uint64_t b1i_filling_least(const b1i_filling *f)
{
    uint64_t per_layer = 0;
    for (int i = 0; i < b1i_layer_weights; i++) per_layer += needed(f, &layer_rows[i]);
    return 2 + per_layer * (uint64_t)f->model->config.layers;
}

b1_status b1i_filling_begin(b1i_filling *f)
{
    b1i_model *m = f->model;
    size_t count = (size_t)m->config.layers * b1i_layer_weights;
    m->layer = b1i_calloc(count, sizeof *m->layer);
    return m->layer ? B1_OK : b1i_fail_memory(f->err, count * sizeof *m->layer);
}

b1_status b1i_filling_end(b1i_filling *f)
{
    b1i_model *m = f->model;
    const char *missing = !m->embedding.rows    ? outer_rows[OUTER_EMBEDDING].name[f->spelling]
                          : !m->final_norm.rows ? outer_rows[OUTER_NORM].name[f->spelling]
                                                : NULL;
    if (missing) return b1i_fail(f->err, B1_MODEL, "%s: tensor %s is missing", f->path, missing);
    for (int layer = 0; layer < m->config.layers; layer++)
        for (int w = 0; w < b1i_layer_weights; w++)
            if (needed(f, &layer_rows[w]) && !b1i_model_layer(m, layer, (b1i_weight)w)->rows)
                return b1i_fail(f->err, B1_MODEL, "%s: tensor %s%d.%s is missing", f->path, layer_prefix[f->spelling],
                                layer, layer_rows[w].name[f->spelling]);
    m->config.tied = m->head.rows == 0;
    return B1_OK;
}

/* ---- names ---- */

void b1i_config_name(b1i_config *config, const char *text, size_t bytes)
{
    if (bytes >= sizeof config->name) {
        bytes = sizeof config->name - 1;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80) bytes--;
    }
    memcpy(config->name, text, bytes);
    config->name[bytes] = 0;
}

void b1i_config_name_path(b1i_config *config, const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    if (end - start > 5 && memcmp(path + end - 5, ".gguf", 5) == 0) end -= 5;
    b1i_config_name(config, path + start, end - start);
}
