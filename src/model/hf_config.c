/* SPDX-License-Identifier: MIT
 *
 * config.json and generation_config.json to a b1i_config.
 *
 * Refuses, naming the field: other model types than archs[] lists, missing sizes, numbers of a wrong type, RoPE of a
 * type that is not known or with parameters that are not, layers of which only some slide, biases in the MLP, other
 * activations than SiLU, quantised weights.
 *
 * Where a field is missing, the default that transformers documents for the architecture holds: rope_theta 10000 for
 * all four, rms_norm_eps 1e-6, hidden_act silu, tie_word_embeddings false, head_dim 128 for qwen3 and hidden/heads
 * for the others. Sizes have no default. A sliding window is on only where the file says so.
 */
#include "model/hf.h"
#include "model/json_load.h"
#include "model/weights.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *class_name, *type;
    b1i_arch arch;
} archs[] = {
    {"LlamaForCausalLM", "llama", b1i_arch_llama},
    {"MistralForCausalLM", "mistral", b1i_arch_mistral},
    {"Qwen2ForCausalLM", "qwen2", b1i_arch_qwen2},
    {"Qwen3ForCausalLM", "qwen3", b1i_arch_qwen3},
};
enum { ARCH_COUNT = sizeof archs / sizeof *archs };

/* ---- fields ---- */

/* A JSON object of a file. `prefix` names it in messages: "" or "rope_scaling.". */
typedef struct fields {
    const json_t *object;
    const char *prefix, *path;
    b1_error *err;
} fields;

/* NULL where the field is missing or null. */
static const json_t *field(const fields *f, const char *name)
{
    const json_t *value = json_object_get(f->object, name);
    return json_is_null(value) ? NULL : value;
}

static const char *kind_of(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a real",    [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null"};
    return names[json_typeof(value)];
}

static b1_status wrong(const fields *f, const char *name, const json_t *value, const char *wanted)
{
    return b1i_fail(f->err, B1_MODEL, "%s: %s%s is %s, expected %s", f->path, f->prefix, name,
                    value ? kind_of(value) : "missing", wanted);
}

static b1_status get_int(const fields *f, const char *name, bool needed, int fallback, int *out)
{
    const json_t *value = field(f, name);
    *out = fallback;
    if (!value) return needed ? wrong(f, name, NULL, "an integer") : B1_OK;
    if (!json_is_integer(value)) return wrong(f, name, value, "an integer");
    json_int_t number = json_integer_value(value);
    if (number < 0 || number > INT_MAX)
        return b1i_fail(f->err, B1_MODEL, "%s: %s%s is %lld, expected 0 to %d", f->path, f->prefix, name,
                        (long long)number, INT_MAX);
    *out = (int)number;
    return B1_OK;
}

static b1_status get_number(const fields *f, const char *name, bool needed, double fallback, double *out)
{
    const json_t *value = field(f, name);
    *out = fallback;
    if (!value) return needed ? wrong(f, name, NULL, "a number") : B1_OK;
    if (!json_is_number(value)) return wrong(f, name, value, "a number");
    *out = json_number_value(value);
    return B1_OK;
}

static b1_status get_bool(const fields *f, const char *name, bool fallback, bool *out)
{
    const json_t *value = field(f, name);
    *out = fallback;
    if (!value) return B1_OK;
    if (!json_is_boolean(value)) return wrong(f, name, value, "true or false");
    *out = json_is_true(value);
    return B1_OK;
}

/* NULL where it is missing; the text is the JSON's. */
static b1_status get_text(const fields *f, const char *name, const char **out)
{
    const json_t *value = field(f, name);
    *out = NULL;
    if (!value) return B1_OK;
    if (!json_is_string(value)) return wrong(f, name, value, "a string");
    *out = json_string_value(value);
    return B1_OK;
}

/* ---- architecture ---- */

static int arch_by(const char *text, bool by_type)
{
    for (int i = 0; i < ARCH_COUNT; i++)
        if (strcmp(by_type ? archs[i].type : archs[i].class_name, text) == 0) return i;
    return -1;
}

/* `architectures` names the class, model_type the family; one may be missing, both must agree. */
static b1_status read_arch(const fields *f, b1i_arch *out)
{
    b1_status st;
    const char *type, *class_name = NULL;
    const json_t *list = field(f, "architectures");
    B1I_TRY(get_text(f, "model_type", &type));
    if (list) {
        if (json_array_size(list) != 1 || !json_is_string(json_array_get(list, 0)))
            return wrong(f, "architectures", list, "an array of one string");
        class_name = json_string_value(json_array_get(list, 0));
    }
    if (!type && !class_name)
        return b1i_fail(f->err, B1_MODEL, "%s: neither architectures nor model_type says what the model is", f->path);
    int by_class = class_name ? arch_by(class_name, false) : -1, by_type = type ? arch_by(type, true) : -1;
    if (class_name && by_class < 0)
        return b1i_fail(f->err, B1_MODEL,
                        "%s: the architecture \"%s\" is not supported; LlamaForCausalLM, MistralForCausalLM, "
                        "Qwen2ForCausalLM and Qwen3ForCausalLM are",
                        f->path, class_name);
    if (type && by_type < 0)
        return b1i_fail(f->err, B1_MODEL,
                        "%s: the model_type \"%s\" is not supported; llama, mistral, qwen2 and qwen3 are", f->path,
                        type);
    if (type && class_name && by_type != by_class)
        return b1i_fail(f->err, B1_MODEL, "%s: architectures says %s, but model_type says %s", f->path, class_name,
                        type);
    *out = archs[type ? by_type : by_class].arch;
fail:
    return st;
}

/* What would change the arithmetic, and is not done here. */
static b1_status check_unsupported(const fields *f)
{
    b1_status st;
    const char *act, *method = NULL;
    bool mlp_bias;
    double partial;
    const json_t *quantised = field(f, "quantization_config");
    if (quantised) {
        if (json_is_object(quantised)) {
            fields q = {quantised, "quantization_config.", f->path, f->err};
            B1I_TRY(get_text(&q, "quant_method", &method));
        }
        return b1i_fail(f->err, B1_MODEL, "%s: quantization_config: weights quantised with %s are not supported yet",
                        f->path, method ? method : "an unnamed method");
    }
    B1I_TRY(get_text(f, "hidden_act", &act));
    if (act && strcmp(act, "silu") != 0)
        return b1i_fail(f->err, B1_MODEL, "%s: hidden_act is \"%s\"; silu is supported", f->path, act);
    B1I_TRY(get_bool(f, "mlp_bias", false, &mlp_bias));
    if (mlp_bias) return b1i_fail(f->err, B1_MODEL, "%s: mlp_bias is true; a biased MLP is not supported", f->path);
    B1I_TRY(get_number(f, "partial_rotary_factor", false, 1, &partial));
    if (partial != 1)
        return b1i_fail(f->err, B1_MODEL, "%s: partial_rotary_factor is %g; RoPE of whole heads is supported", f->path,
                        partial);
    if (field(f, "no_rope_layers"))
        return b1i_fail(f->err, B1_MODEL, "%s: no_rope_layers: layers without RoPE are not supported", f->path);
fail:
    return st;
}

static b1_status read_biases(const fields *f, b1i_hf_config *out)
{
    bool biased;
    b1_status st = get_bool(f, "attention_bias", false, &biased);
    if (st != B1_OK) return st;
    switch (out->config.arch) {
    case b1i_arch_qwen2:
        out->qkv_bias = true;
        break; /* by its architecture, and no bias of o */
    case b1i_arch_mistral:
        if (biased)
            return b1i_fail(f->err, B1_MODEL, "%s: attention_bias is true, but Mistral's attention has no biases",
                            f->path);
        break;
    default:
        out->qkv_bias = out->o_bias = biased;
    }
    return B1_OK;
}

/* ---- RoPE ---- */

/* Parameters of RoPE that are known; any other may change the arithmetic. */
static const char *const rope_names[] = {
    "rope_type", "type",      "rope_theta",       "factor",           "original_max_position_embeddings",
    "beta_fast", "beta_slow", "attention_factor", "mscale",           "mscale_all_dim",
    "truncate",  "finetuned", "low_freq_factor",  "high_freq_factor", "partial_rotary_factor",
};

static b1_status check_rope_names(const fields *r)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)r->object, name, value)
    {
        size_t i = 0, count = sizeof rope_names / sizeof *rope_names;
        while (i < count && strcmp(rope_names[i], name) != 0) i++;
        if (i == count && !json_is_null(value))
            return b1i_fail(r->err, B1_MODEL, "%s: %s%s is a parameter of RoPE that is not known", r->path, r->prefix,
                            name);
    }
    return B1_OK;
}

/* The factor on cos and sin: the file's, or 0.1·mscale·ln(factor) + 1 over the same with mscale_all_dim. */
static b1_status read_yarn(const fields *r, b1i_rope *rope)
{
    b1_status st;
    double mscale, all;
    B1I_TRY(get_number(r, "beta_fast", false, 32, &rope->beta_fast));
    B1I_TRY(get_number(r, "beta_slow", false, 1, &rope->beta_slow));
    B1I_TRY(get_bool(r, "truncate", true, &rope->truncate));
    B1I_TRY(get_number(r, "mscale", false, 0, &mscale));
    B1I_TRY(get_number(r, "mscale_all_dim", false, 0, &all));
    if (rope->beta_fast == 0) rope->beta_fast = 32;
    if (rope->beta_slow == 0) rope->beta_slow = 1;
    double steps = rope->factor > 1 ? 0.1 * log(rope->factor) : 0;
    double attention = mscale != 0 && all != 0 ? (mscale * steps + 1) / (all * steps + 1) : steps + 1;
    B1I_TRY(get_number(r, "attention_factor", false, attention, &rope->attention_factor));
fail:
    return st;
}

/* The rule of the scaling, from its object. */
static b1_status read_scaling(const fields *f, const fields *r, b1i_config *c)
{
    b1_status st;
    b1i_rope *rope = &c->rope;
    const char *type, *older;
    double partial;
    B1I_TRY(get_text(r, "rope_type", &type));
    B1I_TRY(get_text(r, "type", &older));
    if (!type) type = older ? older : "default";
    static const char *const kinds[] = {"default", "linear", "llama3", "yarn"};
    static const b1i_rope_kind ids[] = {b1i_rope_plain, b1i_rope_linear, b1i_rope_llama3, b1i_rope_yarn};
    int k = 0;
    while (k < 4 && strcmp(kinds[k], type) != 0) k++;
    if (k == 4)
        return b1i_fail(r->err, B1_MODEL,
                        "%s: %srope_type \"%s\" is not supported; default, linear, llama3 and yarn are", r->path,
                        r->prefix, type);
    rope->kind = ids[k];
    B1I_TRY(check_rope_names(r));
    B1I_TRY(get_number(r, "partial_rotary_factor", false, 1, &partial));
    if (partial != 1)
        return b1i_fail(r->err, B1_MODEL, "%s: %spartial_rotary_factor is %g; RoPE of whole heads is supported",
                        r->path, r->prefix, partial);
    if (rope->kind == b1i_rope_plain) return B1_OK;
    B1I_TRY(get_int(r, "original_max_position_embeddings", false, c->context_max, &rope->original_context));
    B1I_TRY(get_int(f, "original_max_position_embeddings", false, rope->original_context, &rope->original_context));
    double ratio = rope->original_context > 0 ? (double)c->context_max / rope->original_context : 0;
    B1I_TRY(get_number(r, "factor", rope->kind != b1i_rope_yarn, ratio, &rope->factor));
    if (rope->kind == b1i_rope_llama3) {
        B1I_TRY(get_number(r, "low_freq_factor", true, 0, &rope->low_freq_factor));
        B1I_TRY(get_number(r, "high_freq_factor", true, 0, &rope->high_freq_factor));
    } else if (rope->kind == b1i_rope_yarn)
        B1I_TRY(read_yarn(r, rope));
fail:
    return st;
}

/* Scaling stands in rope_scaling or, in newer files, in rope_parameters; the first that is not empty holds. theta may
 * stand in either or beside them. */
static b1_status read_rope(const fields *f, b1i_config *c)
{
    static const char *const names[] = {"rope_scaling", "rope_parameters"};
    static const char *const prefixes[] = {"rope_scaling.", "rope_parameters."};
    b1_status st;
    bool scaled = false;
    B1I_TRY(get_number(f, "rope_theta", false, 10000, &c->rope.theta));
    for (int i = 1; i >= 0; i--) {
        const json_t *object = field(f, names[i]);
        if (object && !json_is_object(object)) return wrong(f, names[i], object, "an object");
        fields r = {object, prefixes[i], f->path, f->err};
        B1I_TRY(get_number(&r, "rope_theta", false, c->rope.theta, &c->rope.theta));
    }
    for (int i = 0; i < 2 && !scaled; i++) {
        fields r = {field(f, names[i]), prefixes[i], f->path, f->err};
        scaled = json_object_size(r.object) > 0;
        if (scaled) B1I_TRY(read_scaling(f, &r, c));
    }
fail:
    return st;
}

/* ---- sliding window ---- */

/* How many of the layers slide by `layer_types`; -1 where the file has none. */
static b1_status count_sliding(const fields *f, int layers, int *sliding)
{
    const json_t *types = field(f, "layer_types");
    *sliding = -1;
    if (!types) return B1_OK;
    if (!json_is_array(types) || json_array_size(types) != (size_t)layers)
        return b1i_fail(f->err, B1_MODEL, "%s: layer_types is no array of one entry for each of %d layers", f->path,
                        layers);
    *sliding = 0;
    for (int i = 0; i < layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        if (type && strcmp(type, "sliding_attention") == 0)
            ++*sliding;
        else if (!type || strcmp(type, "full_attention") != 0)
            return b1i_fail(f->err, B1_MODEL,
                            "%s: layer_types[%d] is %s; full_attention and sliding_attention are known", f->path, i,
                            type ? type : "no string");
    }
    return B1_OK;
}

/* Mistral slides in all layers where the window is a number; Qwen in the layers from max_window_layers on, where
 * use_sliding_window is true; Llama never. */
static b1_status read_window(const fields *f, b1i_config *c)
{
    b1_status st;
    int window, listed, first = c->layers, sliding;
    bool used = false, qwen = c->arch == b1i_arch_qwen2 || c->arch == b1i_arch_qwen3;
    B1I_TRY(get_int(f, "sliding_window", false, 0, &window));
    B1I_TRY(count_sliding(f, c->layers, &listed));
    if (qwen) {
        B1I_TRY(get_bool(f, "use_sliding_window", false, &used));
        B1I_TRY(get_int(f, "max_window_layers", false, 28, &first));
        sliding = !used || window == 0 ? 0 : listed >= 0 ? listed : first < c->layers ? c->layers - first : 0;
    } else
        sliding = c->arch == b1i_arch_mistral && window > 0 ? c->layers : 0;
    if (sliding != 0 && sliding != c->layers)
        return b1i_fail(f->err, B1_MODEL, "%s: sliding_window: %d of %d layers slide; all or none of them is supported",
                        f->path, sliding, c->layers);
    if (listed >= 0 && listed != sliding)
        return b1i_fail(f->err, B1_MODEL, "%s: layer_types has %d sliding layers, but the other fields make it %d",
                        f->path, listed, sliding);
    c->sliding_window = sliding > 0 ? window : 0;
fail:
    return st;
}

/* ---- end tokens ---- */

static b1_status add_end(const fields *f, const json_t *value, b1i_config *c)
{
    if (!json_is_integer(value)) return wrong(f, "eos_token_id", value, "an integer or an array of them");
    json_int_t id = json_integer_value(value);
    if (id < 0 || id >= c->vocab) return B1_OK; /* can never be produced, so it never ends anything */
    for (int i = 0; i < c->end_count; i++)
        if (c->end_tokens[i] == (int)id) return B1_OK;
    if (c->end_count == B1I_END_TOKENS_MAX)
        return b1i_fail(f->err, B1_MODEL, "%s: eos_token_id: more than %d end tokens", f->path, B1I_END_TOKENS_MAX);
    c->end_tokens[c->end_count++] = (int)id;
    return B1_OK;
}

static b1_status read_ends(const fields *f, b1i_config *c)
{
    b1_status st = B1_OK;
    const json_t *value = field(f, "eos_token_id");
    if (!value) return B1_OK;
    if (!json_is_array(value)) return add_end(f, value, c);
    for (size_t i = 0; i < json_array_size(value); i++) B1I_TRY(add_end(f, json_array_get(value, i), c));
fail:
    return st;
}

/* ---- the files ---- */

static b1_status read_sizes(const fields *f, b1i_config *c)
{
    b1_status st;
    double eps;
    const json_t *head_dim = json_object_get(f->object, "head_dim");
    B1I_TRY(get_int(f, "num_hidden_layers", true, 0, &c->layers));
    B1I_TRY(get_int(f, "hidden_size", true, 0, &c->hidden));
    B1I_TRY(get_int(f, "intermediate_size", true, 0, &c->ffn));
    B1I_TRY(get_int(f, "num_attention_heads", true, 0, &c->heads));
    B1I_TRY(get_int(f, "num_key_value_heads", false, c->heads, &c->kv_heads));
    B1I_TRY(get_int(f, "vocab_size", true, 0, &c->vocab));
    B1I_TRY(get_int(f, "max_position_embeddings", true, 0, &c->context_max));
    B1I_TRY(get_number(f, "rms_norm_eps", false, 1e-6, &eps));
    c->norm_eps = (float)eps;
    B1I_TRY(get_int(f, "head_dim", false, c->arch == b1i_arch_qwen3 && !head_dim ? 128 : 0, &c->head_dim));
    if (c->head_dim == 0 && c->heads > 0) {
        if (c->hidden % c->heads != 0)
            return b1i_fail(f->err, B1_MODEL,
                            "%s: hidden_size %d does not divide evenly into %d heads, and there is no head_dim",
                            f->path, c->hidden, c->heads);
        c->head_dim = c->hidden / c->heads;
    }
fail:
    return st;
}

b1_status b1i_hf_config_parse(const char *text, size_t bytes, const char *path, b1i_hf_config *out, b1_error *err)
{
    b1_status st;
    json_t *root = NULL;
    b1i_config *c = &out->config;
    memset(out, 0, sizeof *out);
    B1I_TRY(b1i_json_object(text, bytes, path, &root, err));
    const fields f = {root, "", path, err};
    B1I_TRY(read_arch(&f, &c->arch));
    c->qk_norm = c->arch == b1i_arch_qwen3;
    B1I_TRY(check_unsupported(&f));
    B1I_TRY(read_sizes(&f, c));
    B1I_TRY(read_biases(&f, out));
    B1I_TRY(get_bool(&f, "tie_word_embeddings", false, &c->tied));
    B1I_TRY(read_rope(&f, c));
    B1I_TRY(read_window(&f, c));
    B1I_TRY(b1i_config_check(c, path, err));
    B1I_TRY(read_ends(&f, c));
fail:
    json_decref(root);
    return st;
}

b1_status b1i_hf_generation_parse(const char *text, size_t bytes, const char *path, b1i_config *config, b1_error *err)
{
    b1_status st;
    json_t *root = NULL;
    B1I_TRY(b1i_json_object(text, bytes, path, &root, err));
    const fields f = {root, "", path, err};
    B1I_TRY(read_ends(&f, config));
fail:
    json_decref(root);
    return st;
}
