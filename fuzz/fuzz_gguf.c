/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a GGUF file: container, values, model, tokenizer. What a loader accepts is then used: the first and
 * last row of every weight is read, a text is encoded and decoded.
 */
#include "memory_file.h"
#include "model/loaders.h"
#include "model/tokenizer.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_values(const b1i_gguf *g)
{
    static volatile uint8_t sink __attribute__((unused));
    for (size_t i = 0; i < g->key_count; i++) {
        const b1i_gguf_key *key = &g->keys[i];
        b1i_gguf_walk walk = {key->value, 0};
        b1i_gguf_string_view text;
        while (b1i_gguf_next_string(key, &walk, &text))
            if (text.bytes > 0) sink = (uint8_t)text.text[text.bytes - 1];
        if (key->value_bytes > 0) sink = key->value[key->value_bytes - 1];
    }
    for (size_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].bytes > 0) sink = g->map.data[g->tensors[i].offset + g->tensors[i].bytes - 1];
}

static void read_weight(const b1i_tensor *t)
{
    if (t->rows == 0) return;
    uint8_t *scratch = b1i_malloc((size_t)b1i_format_bytes(t->format, (uint64_t)t->cols));
    float *values = b1i_malloc((size_t)t->cols * sizeof *values);
    if (scratch && values) {
        b1i_tensor_rows_f32(t, 0, 1, scratch, values);
        b1i_tensor_rows_f32(t, t->rows - 1, 1, scratch, values);
    }
    b1i_free(scratch);
    b1i_free(values);
}

static void use_model(const b1i_model *m)
{
    float inverse[1 << 11], factor;
    read_weight(&m->embedding);
    read_weight(&m->final_norm);
    read_weight(&m->head);
    for (int i = 0; i < m->config.layers * b1i_layer_weights; i++) read_weight(&m->layer[i]);
    b1i_rope_frequencies(&m->config, inverse, &factor);
}

static void use_tokenizer(const b1_tokenizer *t)
{
    static const char text[] = "Hello, w\xc3\xb6rld 123\n\n  <s> \xe4\xbd\xa0\xff";
    int32_t *ids = NULL;
    int count = 0;
    if (b1_tokenizer_encode(t, text, sizeof text - 1, B1_ENCODE_SPECIAL | B1_ENCODE_BOS, &ids, &count, NULL) == B1_OK) {
        char *back = NULL;
        size_t bytes;
        if (b1_tokenizer_decode(t, ids, count, true, &back, &bytes, NULL) == B1_OK) b1_free(back);
        b1_free(ids);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = memory_file(data, size);
    b1_error err;
    b1i_gguf *g = NULL;
    b1i_model *m = NULL;
    b1_tokenizer *t = NULL;
    long live = b1i_alloc_live();
    if (b1i_gguf_open(path, &g, &err) == B1_OK) {
        walk_values(g);
        if (b1i_tokenizer_from_gguf(g, &t, &err) == B1_OK) use_tokenizer(t);
        b1_tokenizer_close(t);
        b1i_gguf_close(g);
        if (b1i_model_open_gguf(path, B1I_LOAD_TENSORS, &m, &err) == B1_OK) use_model(m);
        b1i_model_close(m);
    } else if (err.status != B1_MODEL || !err.message[0])
        abort();
    if (b1i_alloc_live() != live) abort();
    return 0;
}
