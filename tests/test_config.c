/* SPDX-License-Identifier: MIT
 *
 * Hugging Face directories: config.json field by field, then whole directories with one file or several.
 */
#include "loader_files.h"
#include "model/hf.h"
#include "model/loaders.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static b1_error err;

static void assert_words(const char *words)
{
    char copy[400], *state = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, "|", &state); word; word = strtok_r(NULL, "|", &state))
        if (!strstr(err.message, word)) fail_msg("\"%s\" does not say \"%s\"", err.message, word);
}

/* ---- config.json ---- */

/* The fields of a tiny model, in single quotes. `extra` comes first, and its first field replaces the one of that name;
 * the field `without` is left out. */
static const char *config(const char *type, const char *extra, const char *without)
{
    static const char *const fields[] = {
        "'hidden_size':8",         "'intermediate_size':12", "'num_attention_heads':2", "'num_key_value_heads':1",
        "'num_hidden_layers':2",   "'vocab_size':6",         "'rms_norm_eps':1e-05",    "'max_position_embeddings':64",
        "'hidden_act':'silu'",     "'rope_theta':5000",      "'eos_token_id':5",        "'tie_word_embeddings':false",
        "'torch_dtype':'float32'", "'head_dim':4",
    };
    static char text[4000];
    size_t at =
        (size_t)snprintf(text, sizeof text, "{%s%s'model_type':'%s'", extra ? extra : "", extra ? "," : "", type);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        size_t name = strcspn(fields[i] + 1, "'");
        if (without && strlen(without) == name && memcmp(without, fields[i] + 1, name) == 0) continue;
        if (extra && strncmp(extra, fields[i], name + 3) == 0) continue; /* replaced */
        at += (size_t)snprintf(text + at, sizeof text - at, ",%s", fields[i]);
    }
    snprintf(text + at, sizeof text - at, "}");
    for (char *c = text; *c; c++)
        if (*c == '\'') *c = '"';
    return text;
}

static b1i_hf_config parse(const char *type, const char *extra, const char *without)
{
    b1i_hf_config c;
    const char *text = config(type, extra, without);
    if (b1i_hf_config_parse(text, strlen(text), "d/config.json", &c, &err) != B1_OK)
        fail_msg("%s: refused: %s", text, err.message);
    return c;
}

static void refuse(const char *type, const char *extra, const char *without, const char *words)
{
    b1i_hf_config c;
    const char *text = config(type, extra, without);
    memset(&err, 0, sizeof err);
    if (b1i_hf_config_parse(text, strlen(text), "d/config.json", &c, &err) != B1_MODEL) fail_msg("accepted: %s", text);
    assert_words("d/config.json");
    assert_words(words);
}

static void test_fields(void **state)
{
    (void)state;
    b1i_hf_config r = parse("llama", NULL, NULL);
    const b1i_config *c = &r.config;
    assert_int_equal(c->arch, b1i_arch_llama);
    assert_int_equal(c->layers, 2);
    assert_int_equal(c->hidden, 8);
    assert_int_equal(c->ffn, 12);
    assert_int_equal(c->heads, 2);
    assert_int_equal(c->kv_heads, 1);
    assert_int_equal(c->head_dim, 4);
    assert_int_equal(c->vocab, 6);
    assert_int_equal(c->context_max, 64);
    assert_float_equal(c->norm_eps, 1e-5f, 0);
    assert_true(c->rope.theta == 5000 && c->rope.kind == b1i_rope_plain);
    assert_false(c->tied || c->qk_norm || r.qkv_bias || r.o_bias);
    assert_int_equal(c->sliding_window, 0);
    assert_int_equal(c->end_count, 1);
    assert_int_equal(c->end_tokens[0], 5);
}

static void test_defaults(void **state)
{
    (void)state;
    static const char *const types[] = {"llama", "mistral", "qwen2", "qwen3"};
    for (int i = 0; i < 4; i++) {
        b1i_hf_config r = parse(types[i], NULL, "rope_theta");
        assert_true(r.config.rope.theta == 10000);
        assert_int_equal(r.config.arch, i);
        assert_int_equal(r.config.qk_norm, i == 3);
        assert_int_equal(r.qkv_bias, i == 2);
        assert_false(r.o_bias);
        assert_float_equal(parse(types[i], NULL, "rms_norm_eps").config.norm_eps, 1e-6f, 0);
        assert_int_equal(parse(types[i], NULL, "num_key_value_heads").config.kv_heads, 2);
        assert_int_equal(parse(types[i], NULL, "head_dim").config.head_dim, i == 3 ? 128 : 4);
        assert_int_equal(parse(types[i], "'head_dim':null", NULL).config.head_dim, 4);
        assert_int_equal(parse(types[i], "'head_dim':6", NULL).config.head_dim, 6);
        assert_true(parse(types[i], "'tie_word_embeddings':true", NULL).config.tied);
        assert_false(parse(types[i], NULL, "tie_word_embeddings").config.tied);
        parse(types[i], NULL, "hidden_act");
        assert_int_equal(parse(types[i], NULL, "eos_token_id").config.end_count, 0);
    }
}

static void test_architecture(void **state)
{
    (void)state;
    assert_int_equal(parse("mistral", "'architectures':['MistralForCausalLM']", NULL).config.arch, b1i_arch_mistral);
    refuse("llama", "'architectures':['MistralForCausalLM']", NULL, "MistralForCausalLM|llama");
    refuse("llama", "'architectures':['LlamaForSequenceClassification']", NULL, "LlamaForSequenceClassification");
    refuse("llama", "'architectures':[]", NULL, "architectures");
    refuse("llama", "'architectures':'LlamaForCausalLM'", NULL, "architectures is a string");
    refuse("gemma3", NULL, NULL, "model_type \"gemma3\"");
    refuse("qwen3_moe", NULL, NULL, "qwen3_moe");
    b1i_hf_config c;
    const char *none = "{\"hidden_size\":8}";
    assert_int_equal(b1i_hf_config_parse(none, strlen(none), "p", &c, &err), B1_MODEL);
    assert_words("neither architectures nor model_type");
    static const char *const texts[] = {"", "[]", "7", "{", "{\"a\":1,\"a\":2}", "{\"model_type\":\"\xff\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(b1i_hf_config_parse(texts[i], strlen(texts[i]), "p/config.json", &c, &err), B1_MODEL);
        assert_words("p/config.json: is no");
    }
    assert_int_equal(b1i_hf_config_parse("{\"a\0b\":1}", 9, "p/config.json", &c, &err), B1_MODEL);
}

static void test_sizes(void **state)
{
    (void)state;
    static const char *const needed[] = {"hidden_size",       "intermediate_size", "num_attention_heads",
                                         "num_hidden_layers", "vocab_size",        "max_position_embeddings"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        char extra[100], words[100];
        snprintf(words, sizeof words, "%s is missing, expected an integer", needed[i]);
        refuse("llama", NULL, needed[i], words);
        static const struct {
            const char *value, *words;
        } wrong[] = {{"8.0", "a real"}, {"'8'", "a string"}, {"[8]", "an array"},         {"true", "true"},
                     {"-1", "-1"},      {"0", " is 0"},      {"4294967304", "4294967304"}};
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            snprintf(extra, sizeof extra, "'%s':%s", needed[i], wrong[k].value);
            refuse("llama", extra, NULL, k < 5 || k == 6 ? needed[i] : "is 0, expected ");
            assert_words(wrong[k].words);
        }
    }
}

static void test_uneven(void **state)
{
    (void)state;
    refuse("llama", "'num_key_value_heads':4", NULL, "2 heads do not divide evenly into 4 KV heads");
    refuse("llama", "'num_key_value_heads':0", NULL, "number of KV heads is 0");
    refuse("llama", "'hidden_size':9", "head_dim", "hidden_size 9 does not divide evenly into 2 heads");
    refuse("llama", "'head_dim':5", NULL, "head dimension is 5");
    refuse("llama", "'head_dim':10000", NULL, "head dimension is 10000");
    refuse("llama", "'num_hidden_layers':1000000", NULL, "number of layers is 1000000");
    refuse("llama", "'vocab_size':1", NULL, "vocabulary's size is 1, expected 2 to");
    refuse("llama", "'intermediate_size':1", NULL, "feed-forward size is 1, expected 2 to");
    refuse("llama", "'rms_norm_eps':0", NULL, "epsilon is 0");
    refuse("llama", "'rms_norm_eps':'1e-5'", NULL, "rms_norm_eps is a string, expected a number");
    refuse("llama", "'rope_theta':-1", NULL, "theta");
    refuse("llama", "'rope_theta':'10000'", NULL, "rope_theta is a string");
}

static void test_unsupported(void **state)
{
    (void)state;
    refuse("llama", "'quantization_config':{'quant_method':'gptq','bits':4}", NULL, "quantization_config|gptq");
    refuse("llama", "'quantization_config':{'bits':4}", NULL, "quantization_config|an unnamed method");
    parse("llama", "'quantization_config':null", NULL);
    refuse("llama", "'hidden_act':'gelu'", NULL, "hidden_act is \"gelu\"");
    refuse("llama", "'mlp_bias':true", NULL, "mlp_bias");
    refuse("llama", "'mlp_bias':1", NULL, "mlp_bias is an integer, expected true or false");
    refuse("llama", "'partial_rotary_factor':0.5", NULL, "partial_rotary_factor is 0.5");
    refuse("llama", "'no_rope_layers':[1,0]", NULL, "no_rope_layers");
    refuse("mistral", "'attention_bias':true", NULL, "attention_bias");
    b1i_hf_config r = parse("llama", "'attention_bias':true", NULL);
    assert_true(r.qkv_bias && r.o_bias);
    r = parse("qwen3", "'attention_bias':true", NULL);
    assert_true(r.qkv_bias && r.o_bias);
    r = parse("qwen2", "'attention_bias':false", NULL);
    assert_true(r.qkv_bias && !r.o_bias);
}

/* ---- RoPE ---- */

static b1i_rope rope(const char *extra, const char *without) { return parse("llama", extra, without).config.rope; }

static void test_rope_places(void **state)
{
    (void)state;
    assert_true(rope("'rope_parameters':{'rope_theta':777.5,'rope_type':'default'}", "rope_theta").theta == 777.5);
    assert_true(rope("'rope_parameters':{'rope_theta':700,'rope_type':'default'}", NULL).theta == 700);
    assert_true(rope("'rope_scaling':{'type':'linear','factor':2}", NULL).theta == 5000);
    assert_int_equal(rope("'rope_scaling':{'type':'linear','factor':2}", NULL).kind, b1i_rope_linear);
    assert_int_equal(rope("'rope_scaling':{'rope_type':'linear','factor':2.5}", NULL).kind, b1i_rope_linear);
    assert_true(rope("'rope_scaling':{'rope_type':'linear','factor':2.5}", NULL).factor == 2.5);
    assert_int_equal(rope("'rope_scaling':null", NULL).kind, b1i_rope_plain);
    assert_int_equal(rope("'rope_scaling':{}", NULL).kind, b1i_rope_plain);
    assert_int_equal(rope("'rope_scaling':{'type':'default'}", NULL).kind, b1i_rope_plain);
    b1i_rope r = rope(
        "'rope_scaling':{'type':'linear','factor':2},'rope_parameters':{'rope_theta':9,'rope_type':'default'}", NULL);
    assert_true(r.kind == b1i_rope_linear && r.theta == 9);
    r = rope("'rope_scaling':null,'rope_parameters':{'rope_theta':9,'rope_type':'linear','factor':8}", NULL);
    assert_true(r.kind == b1i_rope_linear && r.theta == 9 && r.factor == 8);
}

static void test_rope_llama3(void **state)
{
    (void)state;
#define L3 "'rope_scaling':{'rope_type':'llama3','factor':8.0,'low_freq_factor':1.0,'high_freq_factor':4.0"
    b1i_rope r = rope(L3 ",'original_max_position_embeddings':32}", NULL);
    assert_int_equal(r.kind, b1i_rope_llama3);
    assert_true(r.factor == 8 && r.low_freq_factor == 1 && r.high_freq_factor == 4 && r.original_context == 32);
    assert_int_equal(rope(L3 "}", NULL).original_context, 64);
    refuse("llama", "'rope_scaling':{'rope_type':'llama3','factor':8,'low_freq_factor':1}", NULL,
           "rope_scaling.high_freq_factor is missing");
    refuse("llama", "'rope_scaling':{'rope_type':'llama3','low_freq_factor':1,'high_freq_factor':4}", NULL,
           "rope_scaling.factor is missing");
    refuse("llama", "'rope_scaling':{'rope_type':'llama3','factor':8,'low_freq_factor':4,'high_freq_factor':4}", NULL,
           "high_freq_factor is 4, expected above 4");
}

static void test_rope_yarn(void **state)
{
    (void)state;
#define YARN "'rope_scaling':{'type':'yarn','factor':4.0,'original_max_position_embeddings':16"
    b1i_rope r = rope(YARN "}", NULL);
    assert_int_equal(r.kind, b1i_rope_yarn);
    assert_true(r.factor == 4 && r.original_context == 16 && r.beta_fast == 32 && r.beta_slow == 1 && r.truncate);
    assert_true(fabs(r.attention_factor - (0.1 * log(4) + 1)) < 1e-12);
    r = rope(YARN ",'attention_factor':0.7,'beta_fast':20,'beta_slow':2.5,'truncate':false}", NULL);
    assert_true(r.attention_factor == 0.7 && r.beta_fast == 20 && r.beta_slow == 2.5 && !r.truncate);
    r = rope(YARN ",'mscale':0.707,'mscale_all_dim':0.9}", NULL);
    assert_true(fabs(r.attention_factor - (0.0707 * log(4) + 1) / (0.09 * log(4) + 1)) < 1e-12);
    r = rope(YARN ",'mscale':0.707}", NULL);
    assert_true(fabs(r.attention_factor - (0.1 * log(4) + 1)) < 1e-12);
    r = rope("'rope_parameters':{'rope_type':'yarn','rope_theta':1e6,'original_max_position_embeddings':16}", NULL);
    assert_true(r.factor == 4 && r.theta == 1e6);
    refuse("llama", "'rope_scaling':{'type':'yarn','factor':'4'}", NULL, "rope_scaling.factor is a string");
    refuse("llama", "'rope_scaling':{'type':'yarn','factor':4,'original_max_position_embeddings':0}", NULL,
           "original context is 0");
    refuse("llama", YARN ",'attention_factor':-1}", NULL, "attention factor is -1");
    refuse("llama", YARN ",'beta_fast':1,'beta_slow':2}", NULL, "beta_fast is 1, expected above 2");
}

static void test_rope_unknown(void **state)
{
    (void)state;
    refuse("llama", "'rope_scaling':{'type':'dynamic','factor':2}", NULL, "rope_scaling.rope_type \"dynamic\"");
    refuse("llama", "'rope_parameters':{'rope_type':'longrope','factor':2}", NULL,
           "rope_parameters.rope_type \"longrope\"");
    refuse("llama", "'rope_scaling':{'type':'mrope','mrope_section':[1,1]}", NULL, "mrope");
    refuse("llama", "'rope_scaling':{'type':'default','mrope_section':[1,1]}", NULL, "rope_scaling.mrope_section");
    refuse("llama", "'rope_parameters':{'full_attention':{'rope_theta':1000}}", NULL, "rope_parameters.full_attention");
    refuse("llama", "'rope_scaling':7", NULL, "rope_scaling is an integer, expected an object");
    refuse("llama", "'rope_scaling':{'type':7}", NULL, "rope_scaling.type is an integer");
    refuse("llama", "'rope_scaling':{'type':'linear'}", NULL, "rope_scaling.factor is missing");
    refuse("llama", "'rope_scaling':{'type':'linear','factor':0}", NULL, "scaling factor is 0");
    refuse("llama", "'rope_parameters':{'rope_type':'default','partial_rotary_factor':0.25}", NULL,
           "partial_rotary_factor is 0.25");
}

/* ---- sliding window ---- */

static int window(const char *type, const char *extra) { return parse(type, extra, NULL).config.sliding_window; }

static void test_window(void **state)
{
    (void)state;
    assert_int_equal(window("mistral", NULL), 0);
    assert_int_equal(window("mistral", "'sliding_window':null"), 0);
    assert_int_equal(window("mistral", "'sliding_window':4096"), 4096);
    assert_int_equal(window("llama", "'sliding_window':4096"), 0);
    assert_int_equal(window("qwen2", "'sliding_window':32,'use_sliding_window':false"), 0);
    assert_int_equal(window("qwen2", "'sliding_window':32"), 0);
    assert_int_equal(window("qwen2", "'sliding_window':32,'use_sliding_window':true,'max_window_layers':0"), 32);
    assert_int_equal(window("qwen2", "'sliding_window':32,'use_sliding_window':true,'max_window_layers':2"), 0);
    assert_int_equal(window("qwen2", "'sliding_window':32,'use_sliding_window':true"), 0); /* from layer 28 on */
    assert_int_equal(window("qwen3", "'sliding_window':null,'use_sliding_window':true,'max_window_layers':0"), 0);
    assert_int_equal(
        window("qwen3",
               "'sliding_window':32,'use_sliding_window':true,'layer_types':['sliding_attention','sliding_attention']"),
        32);
    assert_int_equal(window("qwen3", "'sliding_window':null,'layer_types':['full_attention','full_attention']"), 0);
    refuse("qwen2", "'sliding_window':32,'use_sliding_window':true,'max_window_layers':1", NULL, "1 of 2 layers slide");
    refuse("qwen3",
           "'sliding_window':32,'use_sliding_window':true,'layer_types':['full_attention','sliding_attention']", NULL,
           "1 of 2 layers slide");
    refuse("qwen3", "'sliding_window':32,'layer_types':['full_attention','sliding_attention']", NULL,
           "layer_types has 1 sliding");
    refuse("mistral", "'sliding_window':32,'layer_types':['full_attention','full_attention']", NULL,
           "layer_types has 0 sliding");
    refuse("llama", "'layer_types':['full_attention','chunked_attention']", NULL,
           "layer_types[1] is chunked_attention");
    refuse("llama", "'layer_types':['full_attention']", NULL, "one entry for each of 2 layers");
    refuse("llama", "'layer_types':['full_attention',7]", NULL, "layer_types[1] is no string");
    refuse("mistral", "'sliding_window':-1", NULL, "sliding_window is -1");
    refuse("mistral", "'sliding_window':'4096'", NULL, "sliding_window is a string");
    refuse("qwen2", "'use_sliding_window':1", NULL, "use_sliding_window is an integer");
}

/* ---- end tokens ---- */

static void test_end_tokens(void **state)
{
    (void)state;
    b1i_config c = parse("llama", "'eos_token_id':[4,5,4]", NULL).config;
    assert_int_equal(c.end_count, 2);
    assert_int_equal(c.end_tokens[0], 4);
    assert_int_equal(c.end_tokens[1], 5);
    static const char generation[] = "{\"eos_token_id\":[5,3],\"temperature\":0.6}";
    assert_int_equal(b1i_hf_generation_parse(generation, strlen(generation), "g", &c, &err), B1_OK);
    assert_int_equal(c.end_count, 3);
    assert_int_equal(c.end_tokens[2], 3);
    static const char number[] = "{\"eos_token_id\":0}";
    assert_int_equal(b1i_hf_generation_parse(number, strlen(number), "g", &c, &err), B1_OK);
    assert_int_equal(c.end_tokens[3], 0);
    static const char none[] = "{\"eos_token_id\":null}";
    assert_int_equal(b1i_hf_generation_parse(none, strlen(none), "g", &c, &err), B1_OK);
    assert_int_equal(c.end_count, 4);
    static const char text[] = "{\"eos_token_id\":\"</s>\"}";
    assert_int_equal(b1i_hf_generation_parse(text, strlen(text), "dir/g.json", &c, &err), B1_MODEL);
    assert_words("dir/g.json: eos_token_id is a string");
    assert_int_equal(b1i_hf_generation_parse("[", 1, "dir/g.json", &c, &err), B1_MODEL);
    /* ids that the model cannot produce */
    assert_int_equal(parse("llama", "'eos_token_id':[-1,6,5]", NULL).config.end_count, 1);
    refuse("llama", "'eos_token_id':2.5", NULL, "eos_token_id is a real");
    refuse("llama", "'eos_token_id':[1,[2]]", NULL, "eos_token_id is an array");
    refuse("llama", "'vocab_size':100,'eos_token_id':[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", "eos_token_id",
           "more than 16 end tokens");
}

/* ---- directories ---- */

static void put_config(const char *type, const char *extra)
{
    const char *text = config(type, extra, NULL);
    write_file("config.json", text, strlen(text));
}

static void remove_file(const char *name) { unlink(in_folder(name)); }

static b1i_model *open_directory(void)
{
    b1i_model *m = NULL;
    if (b1i_model_open(folder, B1I_LOAD_TENSORS, &m, &err) != B1_OK) fail_msg("refused: %s", err.message);
    return m;
}

static void refuse_directory(const char *words)
{
    b1i_model *m = (b1i_model *)&err;
    long live = b1i_alloc_live();
    memset(&err, 0, sizeof err);
    assert_int_equal(b1i_model_open(folder, B1I_LOAD_TENSORS, &m, &err), B1_MODEL);
    assert_null(m);
    assert_int_equal(b1i_alloc_live(), live);
    assert_words(folder);
    assert_words(words);
}

static void test_directory(void **state)
{
    (void)state;
    static const char *const types[] = {"llama", "mistral", "qwen2", "qwen3"};
    for (int i = 0; i < 4; i++) {
        sspec s;
        s_tiny(&s, types[i]);
        s_tensor(&s, "model.layers.0.self_attn.rotary_emb.inv_freq", "F64", "[2]", 16);
        s_write(&s, "model.safetensors");
        put_config(types[i], NULL);
        b1i_model *m = open_directory();
        assert_int_equal(m->config.arch, i);
        assert_string_equal(m->config.name, strrchr(folder, '/') + 1);
        assert_false(m->config.tied);
        assert_int_equal(m->map_count, 1);
        const b1i_tensor *q = b1i_model_layer(m, 1, b1i_w_q);
        assert_string_equal(q->name, "model.layers.1.self_attn.q_proj.weight");
        assert_int_equal(q->format, b1i_bf16);
        assert_int_equal(q->permuted_heads, 0);
        assert_int_equal(b1i_model_layer(m, 1, b1i_w_k)->format, b1i_f16);
        assert_int_equal(b1i_model_layer(m, 0, b1i_w_down)->rows, 8);
        assert_int_equal(b1i_model_layer(m, 0, b1i_w_down)->cols, 12);
        assert_int_equal(b1i_model_layer(m, 0, b1i_w_v_bias)->cols, i == 2 ? 4 : 0);
        assert_int_equal(b1i_model_layer(m, 0, b1i_w_o_bias)->rows, 0);
        assert_int_equal(b1i_model_layer(m, 0, b1i_w_q_norm)->cols, i == 3 ? 4 : 0);
        assert_int_equal(m->head.format, b1i_bf16);
        /* byte i of the data is i: the embedding is the first tensor, the first norm follows */
        assert_int_equal(m->embedding.data[0], 0);
        assert_int_equal(b1i_model_layer(m, 0, b1i_w_attn_norm)->data[0], 192);
        b1i_model_close(m);
    }
}

static void test_biases(void **state)
{
    (void)state;
    sspec s;
    s_tiny(&s, "qwen2"); /* its names with a bias of o make a biased llama */
    s_tensor(&s, "model.layers.0.self_attn.o_proj.bias", "F32", "[8]", 32);
    s_tensor(&s, "model.layers.1.self_attn.o_proj.bias", "F32", "[8]", 32);
    s_write(&s, "model.safetensors");
    put_config("llama", "'attention_bias':true");
    b1i_model *m = open_directory();
    assert_int_equal(b1i_model_layer(m, 1, b1i_w_o_bias)->cols, 8);
    assert_int_equal(b1i_model_layer(m, 1, b1i_w_q_bias)->cols, 8);
    b1i_model_close(m);
    put_config("llama", NULL);
    refuse_directory("self_attn.q_proj.bias has no place in this llama model");
    put_config("qwen2", NULL);
    refuse_directory("self_attn.o_proj.bias has no place in this qwen2 model");
}

static void test_tied(void **state)
{
    (void)state;
    sspec s;
    s_tiny(&s, "llama");
    s_write(&s, "model.safetensors");
    put_config("llama", "'tie_word_embeddings':true");
    b1i_model *m = open_directory(); /* a head that is there is used */
    assert_false(m->config.tied);
    assert_int_equal(m->head.rows, 6);
    b1i_model_close(m);
    s_drop(&s, "lm_head.weight");
    s_write(&s, "model.safetensors");
    m = open_directory();
    assert_true(m->config.tied);
    b1i_model_close(m);
    put_config("llama", NULL);
    refuse_directory("lm_head.weight is missing");
}

static void test_every_missing_tensor(void **state)
{
    (void)state;
    sspec s;
    put_config("qwen3", NULL);
    s_tiny(&s, "qwen3");
    int count = s.count;
    for (int i = 0; i < count; i++) {
        s_tiny(&s, "qwen3");
        char words[120];
        snprintf(words, sizeof words, "tensor %s is missing", s.tensors[i].name);
        s_drop(&s, s.tensors[i].name);
        s_tensor(&s, "other.rotary_emb.inv_freq", "F32", "[2]", 8);
        s_write(&s, "model.safetensors");
        refuse_directory(words);
    }
}

static void test_wrong_tensors(void **state)
{
    (void)state;
    sspec s;
    put_config("llama", NULL);
    static const char *const extra[] = {"model.layers.0.self_attn.q_norm.weight",
                                        "model.layers.1.mlp.down_proj.bias",
                                        "model.layers.0.mlp.gate.weight",
                                        "model.layers.01.input_layernorm.weight",
                                        "embed_tokens.weight",
                                        "model.layers.0.self_attn.q_proj.weight_scale"};
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        s_tiny(&s, "llama");
        s_tensor(&s, extra[i], "F32", "[8]", 32);
        s_write(&s, "model.safetensors");
        refuse_directory("has no place in this llama model");
        assert_words(extra[i]);
    }
    s_tiny(&s, "llama");
    s_tensor(&s, "model.layers.2.input_layernorm.weight", "F32", "[8]", 32);
    s_write(&s, "model.safetensors");
    refuse_directory("model.layers.2.input_layernorm.weight|beyond the model's 2");
    static const struct {
        const char *name, *dtype, *shape;
        size_t size;
        const char *words;
    } changes[] = {
        {"model.layers.1.mlp.down_proj.weight", "BF16", "[12,8]", 192, "[12, 8]|[8, 12]"},
        {"model.layers.1.self_attn.k_proj.weight", "F16", "[8,8]", 128, "[8, 8]|[4, 8]"},
        {"model.norm.weight", "F32", "[1,8]", 32, "[1, 8]|gives it [8]"},
        {"model.norm.weight", "F32", "[8,1]", 32, "[8, 1]|gives it [8]"},
        {"model.norm.weight", "F32", "[]", 4, "shape []|gives it [8]"},
        {"lm_head.weight", "BF16", "[6,8,1,1,1]", 96, "[6, 8, 1, 1]|[6, 8]"},
        {"lm_head.weight", "F8_E4M3", "[6,8]", 48, "dtype F8_E4M3"},
        {"lm_head.weight", "I32", "[6,8]", 192, "dtype I32"},
        {"model.embed_tokens.weight", "BF16", "[7,8]", 112, "[7, 8]|[6, 8]"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        s_tiny(&s, "llama");
        stensor *t = s_find(&s, changes[i].name);
        t->dtype = changes[i].dtype;
        t->shape = changes[i].shape;
        t->size = changes[i].size;
        s_write(&s, "model.safetensors");
        refuse_directory(changes[i].words);
        assert_words(changes[i].name);
    }
    put_config("llama", "'num_hidden_layers':4096");
    refuse_directory("4096 layers need 36866 tensors, but there are 21");
    s_tiny(&s, "llama");
    s_write(&s, "model.safetensors");
    assert_int_equal(truncate(in_folder("model.safetensors"), 1500), 0);
    put_config("llama", NULL);
    refuse_directory("model.safetensors");
}

static void test_missing_files(void **state)
{
    (void)state;
    remove_file("model.safetensors");
    remove_file("config.json");
    refuse_directory("holds no config.json");
    put_config("llama", NULL);
    refuse_directory("holds neither model.safetensors nor model.safetensors.index.json");
    sspec s;
    s_tiny(&s, "llama");
    s_write(&s, "model.safetensors");
    write_file("generation_config.json", "{\"eos_token_id\":[1,2]}", 22);
    b1i_model *m = open_directory();
    assert_int_equal(m->config.end_count, 3);
    assert_int_equal(m->config.end_tokens[2], 2);
    b1i_model_close(m);
    write_file("generation_config.json", "{", 1);
    refuse_directory("generation_config.json: is no valid JSON");
    remove_file("generation_config.json");
    remove_file("model.safetensors");
}

/* ---- shards ---- */

/* Writes the tiny llama into two shards and an index. `line` replaces the index's entry of lm_head.weight, or is added
 * where it names another. */
static void write_shards(const char *line, const char *left_out)
{
    sspec all, part[2];
    memset(part, 0, sizeof part);
    bytes b = {0};
    char text[300];
    s_tiny(&all, "llama");
    static const char head[] = "{\"metadata\":{\"total_size\":1},\"weight_map\":{";
    put(&b, head, strlen(head));
    for (int i = 0; i < all.count; i++) {
        const stensor *t = &all.tensors[i];
        sspec *p = &part[i >= all.count / 2];
        p->tensors[p->count++] = *t;
        if ((left_out && strcmp(left_out, t->name) == 0) || (line && strstr(line, t->name))) continue;
        snprintf(text, sizeof text, "\"%s\":\"part-%d.safetensors\",", t->name, i >= all.count / 2);
        put(&b, text, strlen(text));
    }
    if (line)
        put(&b, line, strlen(line));
    else
        b.size--;
    put(&b, "}}", 2);
    s_write(&part[0], "part-0.safetensors");
    s_write(&part[1], "part-1.safetensors");
    write_file("model.safetensors.index.json", b.data, b.size);
    free_bytes(&b);
}

static void test_shards(void **state)
{
    (void)state;
    put_config("llama", NULL);
    write_file("unnamed.safetensors", "nonsense", 8);
    write_shards(NULL, NULL);
    b1i_model *m = open_directory();
    assert_int_equal(m->map_count, 2);
    assert_int_equal(m->embedding.map, 0);
    assert_int_equal(m->head.map, 1);
    assert_true(m->head.data > m->maps[1].data && m->head.data < m->maps[1].data + m->maps[1].size);
    b1i_model_close(m);
    write_shards("\"a.rotary_emb.inv_freq\":\"part-0.safetensors\"", NULL);
    b1i_model_close(open_directory());
    write_shards("\"lm_head.weight\":\"/etc/passwd\"", NULL);
    refuse_directory("lm_head.weight|/etc/passwd|inside the directory");
    write_shards("\"lm_head.weight\":\"../part-1.safetensors\"", NULL);
    refuse_directory("lm_head.weight|../part-1.safetensors|inside the directory");
    write_shards("\"lm_head.weight\":\"x/../../part-1.safetensors\"", NULL);
    refuse_directory("lm_head.weight|inside the directory");
    write_shards("\"lm_head.weight\":\"\"", NULL);
    refuse_directory("lm_head.weight|inside the directory");
    write_shards("\"lm_head.weight\":7", NULL);
    refuse_directory("lm_head.weight|inside the directory");
    write_shards("\"lm_head.weight\":\"part-2.safetensors\"", NULL);
    refuse_directory("part-2.safetensors|No such file");
    write_shards("\"lm_head.weight\":\"part-0.safetensors\"", NULL);
    refuse_directory("part-1.safetensors: tensor lm_head.weight|puts it into part-0.safetensors");
    write_shards("\"ghost\":\"part-0.safetensors\"", NULL);
    refuse_directory("part-0.safetensors: tensor ghost is missing");
    write_shards(NULL, "model.embed_tokens.weight");
    refuse_directory("model.embed_tokens.weight|puts it nowhere");
    write_shards("\"lm_head.weight\":\"part-1.safetensors\",\"lm_head.weight\":\"part-0.safetensors\"", NULL);
    refuse_directory("index.json|duplicate");
    write_shards(NULL, NULL);
    assert_int_equal(truncate(in_folder("part-1.safetensors"), 2000), 0);
    refuse_directory("part-1.safetensors");
    write_file("model.safetensors.index.json", "{\"weight_map\":[]}", 17);
    refuse_directory("weight_map");
    write_file("model.safetensors.index.json", "{\"weight_map\":{}}", 17);
    refuse_directory("weight_map");
    /* a single file beside an index is taken */
    sspec s;
    s_tiny(&s, "llama");
    s_write(&s, "model.safetensors");
    m = open_directory();
    assert_int_equal(m->map_count, 1);
    b1i_model_close(m);
    remove_file("model.safetensors");
}

/* ---- with a tokenizer ---- */

static const char tokenizer[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":5,\"content\":\"</s>\",\"special\":true,\"single_word\":false,"
    "\"lstrip\":false,\"rstrip\":false,\"normalized\":false}],\"normalizer\":null,\"pre_tokenizer\":{\"type\":"
    "\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
    "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},"
    "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
    "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,"
    "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4},\"merges\":[\"a b\",[\"ab\",\"c\"]]}}";

static void test_tokenizer(void **state)
{
    (void)state;
    sspec s;
    b1i_model *m = NULL;
    s_tiny(&s, "llama");
    s_write(&s, "model.safetensors");
    put_config("llama", NULL);
    /* none: the model has none */
    assert_int_equal(b1i_model_open(folder, B1I_LOAD_TENSORS | B1I_LOAD_TOKENIZER, &m, &err), B1_OK);
    assert_null(m->tokenizer);
    b1i_model_close(m);
    write_file("tokenizer.json", tokenizer, strlen(tokenizer));
    long live = b1i_alloc_live(), n = 0;
    b1_status st;
    do {
        b1i_alloc_fail_at(n++);
        st = b1i_model_open(folder, B1I_LOAD_TENSORS | B1I_LOAD_TOKENIZER, &m, &err);
        b1i_alloc_fail_at(-1);
        if (st != B1_OK) {
            if (st != B1_MEMORY) fail_msg("allocation %ld: %s", n - 1, err.message);
            assert_int_equal(b1i_alloc_live(), live);
        }
    } while (st != B1_OK);
    assert_true(n > 20);
    int32_t *ids = NULL;
    int count = 0;
    assert_int_equal(b1_tokenizer_encode(m->tokenizer, "abcab", 5, 0, &ids, &count, &err), B1_OK);
    assert_int_equal(count, 2);
    assert_int_equal(ids[0], 4);
    assert_int_equal(ids[1], 3);
    b1_free(ids);
    b1i_model_close(m);
    assert_int_equal(b1i_alloc_live(), live);
    write_file("tokenizer.json", "{", 1);
    assert_int_equal(b1i_model_open(folder, B1I_LOAD_TENSORS | B1I_LOAD_TOKENIZER, &m, &err), B1_MODEL);
    assert_words("tokenizer.json");
    remove_file("tokenizer.json");
    remove_file("model.safetensors");
}

/* ---- failures and noise ---- */

static long fail_each(bool json)
{
    long live = b1i_alloc_live(), n = 0;
    b1i_model *m;
    b1_status st;
    do {
        b1i_alloc_fail_at(n++);
        st = b1i_model_open(folder, B1I_LOAD_TENSORS, &m, &err);
        b1i_alloc_fail_at(-1);
        if (st != B1_OK) {
            if (st != B1_MEMORY && !json) fail_msg("allocation %ld: %s", n - 1, err.message);
            assert_true(st == B1_MEMORY || st == B1_MODEL);
            assert_null(m);
            assert_int_equal(b1i_alloc_live(), live);
        }
    } while (st != B1_OK);
    b1i_model_close(m);
    assert_int_equal(b1i_alloc_live(), live);
    return n;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    put_config("llama", NULL);
    write_file("generation_config.json", "{\"eos_token_id\":[1,2]}", 22);
    write_shards(NULL, NULL);
    assert_true(fail_each(false) > 15);
    json_set_alloc_funcs(b1i_malloc, b1i_free); /* jansson calls some of its own failures a wrong token */
    assert_true(fail_each(true) > 100);
    json_set_alloc_funcs(malloc, free);
    remove_file("generation_config.json");
}

static void test_noise(void **state)
{
    (void)state;
    char text[4000];
    snprintf(text, sizeof text, "%s",
             config("qwen2",
                    "'rope_scaling':{'type':'yarn','factor':4.0,'truncate':true},'layer_types':['full_attention','full_"
                    "attention']",
                    NULL));
    size_t size = strlen(text);
    uint64_t seed = 9;
    int refused = 0;
    for (int round = 0; round < 5000; round++) {
        char noisy[4000];
        memcpy(noisy, text, size + 1);
        for (int i = 0; i < 1 + round % 3; i++) {
            static const char usual[] = "0123456789-.e[]{}\":,tfn ";
            seed = b1i_mix64(seed);
            noisy[seed % size] = usual[(seed >> 40) % (sizeof usual - 1)];
        }
        b1i_hf_config c;
        b1_status st = b1i_hf_config_parse(noisy, size, "noise", &c, &err);
        assert_true(st == B1_OK || (st == B1_MODEL && err.message[0]));
        refused += st != B1_OK;
    }
    assert_true(refused > 2000 && refused < 5000);
}

static int make(void **state)
{
    (void)state;
    folder_make("config");
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
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_architecture),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_rope_places),
        cmocka_unit_test(test_rope_llama3),
        cmocka_unit_test(test_rope_yarn),
        cmocka_unit_test(test_rope_unknown),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_end_tokens),
        cmocka_unit_test(test_directory),
        cmocka_unit_test(test_biases),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_every_missing_tensor),
        cmocka_unit_test(test_wrong_tensors),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_tokenizer),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
