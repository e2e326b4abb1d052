/* SPDX-License-Identifier: MIT
 *
 * Writes a tiny random Llama with a byte-level tokenizer as a Hugging Face directory: token i < 256 is byte i, 256 is
 * <s> and 257 is </s>. Small enough that a command over it takes milliseconds.
 */
#ifndef TESTS_CLI_MODEL_H
#define TESTS_CLI_MODEL_H

#include "base/base.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TINY_VOCAB = 258, TINY_HIDDEN = 64, TINY_FFN = 128, TINY_LAYERS = 2, TINY_CONTEXT = 512 };

/* The character that stands for a byte in a byte-level vocabulary: printable bytes are themselves, the others are
 * U+0100 and on, in order. Written as UTF-8 [≤ 3]. */
static void tiny_byte_name(int byte, char *out)
{
    int code = 256;
    for (int b = 0; b <= byte; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte && printable) code = byte;
        if (b < byte && !printable) code++;
    }
    if (code < 128)
        snprintf(out, 4, "%c", code);
    else
        snprintf(out, 4, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 63));
}

static void tiny_dump(json_t *document, const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (json_dump_file(document, path, 0) != 0) abort();
    json_decref(document);
}

static void tiny_tokenizer(const char *folder)
{
    json_t *vocab = json_object(), *added = json_array();
    char name[8];
    static const char *const specials[] = {"<s>", "</s>"};
    for (int i = 0; i < 256; i++) {
        tiny_byte_name(i, name);
        json_object_set_new(vocab, name, json_integer(i));
    }
    for (int i = 0; i < 2; i++) {
        json_object_set_new(vocab, specials[i], json_integer(256 + i));
        json_array_append_new(added,
                              json_pack("{s:i,s:s,s:b,s:b,s:b,s:b,s:b}", "id", 256 + i, "content", specials[i],
                                        "special", 1, "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0));
    }
    tiny_dump(json_pack("{s:s,s:o,s:n,s:{s:s,s:b,s:b,s:b},s:n,s:{s:s,s:b,s:b,s:b},s:{s:s,s:n,s:o,s:[]}}", "version",
                        "1.0", "added_tokens", added, "normalizer", "pre_tokenizer", "type", "ByteLevel",
                        "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "post_processor", "decoder", "type",
                        "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE",
                        "unk_token", "vocab", vocab, "merges"),
              folder, "tokenizer.json");
}

static void tiny_config(const char *folder)
{
    tiny_dump(json_pack("{s:[s],s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:f,s:i,s:s,s:b,s:i,s:i,s:s}", "architectures",
                        "LlamaForCausalLM", "model_type", "llama", "hidden_size", TINY_HIDDEN, "intermediate_size",
                        TINY_FFN, "num_attention_heads", 4, "num_key_value_heads", 2, "head_dim", 16,
                        "num_hidden_layers", TINY_LAYERS, "vocab_size", TINY_VOCAB, "rms_norm_eps", 1e-5, "rope_theta",
                        10000.0, "max_position_embeddings", TINY_CONTEXT, "hidden_act", "silu", "tie_word_embeddings",
                        0, "bos_token_id", 256, "eos_token_id", 257, "torch_dtype", "float32"),
              folder, "config.json");
}

/* Adds one f32 tensor to the header; *at is the end of the data so far. */
static void tiny_tensor(json_t *header, const char *name, int rows, int cols, int64_t *at)
{
    int64_t bytes = (int64_t)(rows ? rows : 1) * cols * 4;
    json_t *shape = rows ? json_pack("[i,i]", rows, cols) : json_pack("[i]", cols);
    json_object_set_new(header, name,
                        json_pack("{s:s,s:o,s:[I,I]}", "dtype", "F32", "shape", shape, "data_offsets", (json_int_t)*at,
                                  (json_int_t)*at + (json_int_t)bytes));
    *at += bytes;
}

static void tiny_weights(const char *folder)
{
    static const struct {
        const char *name;
        int rows, cols; /* rows 0: a vector */
    } layer[] = {
        {"input_layernorm", 0, TINY_HIDDEN},      {"self_attn.q_proj", 64, TINY_HIDDEN},
        {"self_attn.k_proj", 32, TINY_HIDDEN},    {"self_attn.v_proj", 32, TINY_HIDDEN},
        {"self_attn.o_proj", TINY_HIDDEN, 64},    {"post_attention_layernorm", 0, TINY_HIDDEN},
        {"mlp.gate_proj", TINY_FFN, TINY_HIDDEN}, {"mlp.up_proj", TINY_FFN, TINY_HIDDEN},
        {"mlp.down_proj", TINY_HIDDEN, TINY_FFN},
    };
    json_t *header = json_object();
    char path[512], name[128];
    int64_t at = 0;
    tiny_tensor(header, "model.embed_tokens.weight", TINY_VOCAB, TINY_HIDDEN, &at);
    tiny_tensor(header, "model.norm.weight", 0, TINY_HIDDEN, &at);
    tiny_tensor(header, "lm_head.weight", TINY_VOCAB, TINY_HIDDEN, &at);
    for (int l = 0; l < TINY_LAYERS; l++)
        for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", l, layer[i].name);
            tiny_tensor(header, name, layer[i].rows, layer[i].cols, &at);
        }
    char *text = json_dumps(header, JSON_COMPACT);
    uint64_t length = strlen(text);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(&length, 8, 1, f) != 1 || fwrite(text, 1, length, f) != length) abort();
    for (int64_t i = 0; i < at / 4; i++) {
        float x = (float)((double)(b1i_mix64((uint64_t)i) >> 40) / (1 << 24) - 0.5);
        if (fwrite(&x, 4, 1, f) != 1) abort();
    }
    fclose(f);
    free(text);
    json_decref(header);
}

static void tiny_model(const char *folder)
{
    tiny_tokenizer(folder);
    tiny_config(folder);
    tiny_weights(folder);
}

#endif
