/* SPDX-License-Identifier: MIT
 *
 * Small model files for the loaders' tests, made in memory, changed where a test wants them wrong, and written to a
 * folder of their own. A change is made to the description, so that a file is wrong in one place only.
 */
#ifndef LOADER_FILES_H
#define LOADER_FILES_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- bytes ---- */

typedef struct bytes {
    uint8_t *data;
    size_t size, capacity;
} bytes;

static inline void put(bytes *b, const void *data, size_t size)
{
    if (b->size + size > b->capacity) {
        b->capacity = (b->size + size) * 2;
        b->data = realloc(b->data, b->capacity);
        assert(b->data);
    }
    if (size > 0) memcpy(b->data + b->size, data, size);
    b->size += size;
}

static inline void put_u32(bytes *b, uint32_t v) { put(b, &v, 4); }
static inline void put_u64(bytes *b, uint64_t v) { put(b, &v, 8); }
static inline void put_zeros(bytes *b, size_t count)
{
    const uint8_t zero = 0;
    while (count-- > 0) put(b, &zero, 1);
}
static inline void put_string(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}
static inline void free_bytes(bytes *b)
{
    free(b->data);
    *b = (bytes){0};
}

/* ---- a folder ---- */

static char folder[256];

static inline void folder_make(const char *name)
{
    const char *tmp = getenv("TMPDIR"), *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/batchone-%s-XXXXXX", tmp ? tmp : memory, name);
    char *made = mkdtemp(folder);
    assert(made);
    (void)made;
}

/* The path of a file in the folder; four at a time. */
static inline const char *in_folder(const char *name)
{
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static inline const char *write_file(const char *name, const void *data, size_t size)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    assert(f);
    size_t written = fwrite(data, 1, size, f);
    assert(written == size);
    (void)written;
    fclose(f);
    return path;
}

static inline void folder_remove(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) fprintf(stderr, "%s stays behind\n", folder);
}

/* ---- GGUF ---- */

enum { T_U8, T_I8, T_U16, T_I16, T_U32, T_I32, T_F32, T_BOOL, T_STRING, T_ARRAY, T_U64, T_I64, T_F64 };
enum { G_F32 = 0, G_F16 = 1, G_Q4_0 = 2, G_Q8_0 = 8, G_BF16 = 30 };

typedef struct gkey {
    char name[80];
    uint32_t type;
    bytes value;
} gkey;

typedef struct gtensor {
    char name[80];
    uint32_t type, dims;
    uint64_t shape[6];
    size_t size; /* bytes of data */
} gtensor;

typedef struct gspec {
    uint32_t version, alignment;
    gkey keys[64];
    int key_count;
    gtensor tensors[64];
    int tensor_count;
} gspec;

static inline void g_clear(gspec *g)
{
    for (int i = 0; i < g->key_count; i++) free_bytes(&g->keys[i].value);
    g->key_count = g->tensor_count = 0;
}

/* The key of this name, emptied; a new one where there is none. */
static inline gkey *g_key(gspec *g, const char *name, uint32_t type)
{
    int i = 0;
    while (i < g->key_count && strcmp(g->keys[i].name, name) != 0) i++;
    if (i == g->key_count) {
        assert(g->key_count < 64);
        g->keys[g->key_count++] = (gkey){0};
        snprintf(g->keys[i].name, sizeof g->keys[i].name, "%s", name);
    }
    g->keys[i].type = type;
    g->keys[i].value.size = 0;
    return &g->keys[i];
}

static inline void g_u32(gspec *g, const char *name, uint32_t v) { put_u32(&g_key(g, name, T_U32)->value, v); }
static inline void g_u16(gspec *g, const char *name, uint16_t v) { put(&g_key(g, name, T_U16)->value, &v, 2); }
static inline void g_i32(gspec *g, const char *name, int32_t v) { put(&g_key(g, name, T_I32)->value, &v, 4); }
static inline void g_u64(gspec *g, const char *name, uint64_t v) { put_u64(&g_key(g, name, T_U64)->value, v); }
static inline void g_f32(gspec *g, const char *name, float v) { put(&g_key(g, name, T_F32)->value, &v, 4); }
static inline void g_f64(gspec *g, const char *name, double v) { put(&g_key(g, name, T_F64)->value, &v, 8); }
static inline void g_bool(gspec *g, const char *name, uint8_t v) { put(&g_key(g, name, T_BOOL)->value, &v, 1); }
static inline void g_string(gspec *g, const char *name, const char *v)
{
    put_string(&g_key(g, name, T_STRING)->value, v);
}
static inline void g_strings(gspec *g, const char *name, int count, const char *const *list)
{
    bytes *b = &g_key(g, name, T_ARRAY)->value;
    put_u32(b, T_STRING);
    put_u64(b, (uint64_t)count);
    for (int i = 0; i < count; i++) put_string(b, list[i]);
}
static inline void g_ints(gspec *g, const char *name, int count, const int32_t *list)
{
    bytes *b = &g_key(g, name, T_ARRAY)->value;
    put_u32(b, T_I32);
    put_u64(b, (uint64_t)count);
    put(b, list, (size_t)count * 4);
}

static inline void g_drop_key(gspec *g, const char *name)
{
    for (int i = 0; i < g->key_count; i++)
        if (strcmp(g->keys[i].name, name) == 0) {
            free_bytes(&g->keys[i].value);
            memmove(&g->keys[i], &g->keys[i + 1], (size_t)(--g->key_count - i) * sizeof *g->keys);
            return;
        }
    assert(!"no such key");
}

static inline gtensor *g_find(gspec *g, const char *name)
{
    for (int i = 0; i < g->tensor_count; i++)
        if (strcmp(g->tensors[i].name, name) == 0) return &g->tensors[i];
    assert(!"no such tensor");
    return NULL;
}

static inline void g_drop(gspec *g, const char *name)
{
    gtensor *t = g_find(g, name);
    g->tensor_count--;
    memmove(t, t + 1, (size_t)(g->tensors + g->tensor_count - t) * sizeof *t);
}

static inline size_t g_size(uint32_t type, uint64_t elements)
{
    switch (type) {
    case G_F16:
    case G_BF16:
        return elements * 2;
    case G_Q4_0:
        return elements / 32 * 18;
    case G_Q8_0:
        return elements / 32 * 34;
    default:
        return elements * 4;
    }
}

/* rows 0: a vector of `cols` */
static inline void g_tensor(gspec *g, const char *name, uint32_t type, uint64_t cols, uint64_t rows)
{
    assert(g->tensor_count < 64);
    gtensor *t = &g->tensors[g->tensor_count++];
    *t = (gtensor){.type = type, .dims = rows ? 2 : 1, .shape = {cols, rows ? rows : 1, 1, 1, 1, 1}};
    t->size = g_size(type, cols * (rows ? rows : 1));
    snprintf(t->name, sizeof t->name, "%s", name);
}

/* The header alone, padded; tensor data follow. */
static inline void g_header(const gspec *g, bytes *out)
{
    put(out, "GGUF", 4);
    put_u32(out, g->version);
    put_u64(out, (uint64_t)g->tensor_count);
    put_u64(out, (uint64_t)g->key_count);
    for (int i = 0; i < g->key_count; i++) {
        put_string(out, g->keys[i].name);
        put_u32(out, g->keys[i].type);
        put(out, g->keys[i].value.data, g->keys[i].value.size);
    }
    uint64_t offset = 0;
    for (int i = 0; i < g->tensor_count; i++) {
        const gtensor *t = &g->tensors[i];
        put_string(out, t->name);
        put_u32(out, t->dims);
        put(out, t->shape, t->dims * 8);
        put_u32(out, t->type);
        put_u64(out, offset);
        offset += (t->size + g->alignment - 1) / g->alignment * g->alignment;
    }
}

/* The whole file. Byte k of tensor t's data is a small float's, f16's or whatever the format makes of t + k. */
static inline void g_build(const gspec *g, bytes *out)
{
    out->size = 0;
    g_header(g, out);
    for (int i = 0; i < g->tensor_count; i++) {
        put_zeros(out, (g->alignment - out->size % g->alignment) % g->alignment);
        for (size_t k = 0; k < g->tensors[i].size / 4 && g->tensors[i].type == G_F32; k++) {
            float v = (float)i + (float)k / 64 + 1;
            put(out, &v, 4);
        }
        if (g->tensors[i].type != G_F32) put_zeros(out, g->tensors[i].size);
    }
    put_zeros(out, (g->alignment - out->size % g->alignment) % g->alignment);
}

static inline const char *g_write(const gspec *g, const char *name)
{
    bytes b = {0};
    g_build(g, &b);
    const char *path = write_file(name, b.data, b.size);
    free_bytes(&b);
    return path;
}

/* A model of two layers: hidden 8, 2 heads of 4, 1 KV head, FFN 12, 6 tokens. `arch` is llama, qwen2 or qwen3. */
static inline void g_tiny(gspec *g, const char *arch)
{
    char name[80];
    *g = (gspec){.version = 3, .alignment = 32};
    g_string(g, "general.architecture", arch);
    g_string(g, "general.name", "Tiny");
#define KEY(suffix) (snprintf(name, sizeof name, "%s." suffix, arch), name)
    g_u32(g, KEY("block_count"), 2);
    g_u32(g, KEY("context_length"), 64);
    g_u32(g, KEY("embedding_length"), 8);
    g_u32(g, KEY("feed_forward_length"), 12);
    g_u32(g, KEY("attention.head_count"), 2);
    g_u32(g, KEY("attention.head_count_kv"), 1);
    g_f32(g, KEY("attention.layer_norm_rms_epsilon"), 1e-5f);
    g_f32(g, KEY("rope.freq_base"), 5000);
    g_u32(g, KEY("rope.dimension_count"), 4);
    g_u32(g, KEY("vocab_size"), 6);
#undef KEY
    g_tensor(g, "token_embd.weight", G_F32, 8, 6);
    for (int i = 0; i < 2; i++) {
#define NAME(suffix) (snprintf(name, sizeof name, "blk.%d." suffix, i), name)
        g_tensor(g, NAME("attn_norm.weight"), G_F32, 8, 0);
        g_tensor(g, NAME("attn_q.weight"), G_F32, 8, 8);
        g_tensor(g, NAME("attn_k.weight"), G_F32, 8, 4);
        g_tensor(g, NAME("attn_v.weight"), G_F16, 8, 4);
        if (strcmp(arch, "qwen2") == 0) {
            g_tensor(g, NAME("attn_q.bias"), G_F32, 8, 0);
            g_tensor(g, NAME("attn_k.bias"), G_F32, 4, 0);
            g_tensor(g, NAME("attn_v.bias"), G_F32, 4, 0);
        }
        if (strcmp(arch, "qwen3") == 0) {
            g_tensor(g, NAME("attn_q_norm.weight"), G_F32, 4, 0);
            g_tensor(g, NAME("attn_k_norm.weight"), G_F32, 4, 0);
        }
        g_tensor(g, NAME("attn_output.weight"), G_F32, 8, 8);
        g_tensor(g, NAME("ffn_norm.weight"), G_F32, 8, 0);
        g_tensor(g, NAME("ffn_gate.weight"), G_F32, 8, 12);
        g_tensor(g, NAME("ffn_up.weight"), G_BF16, 8, 12);
        g_tensor(g, NAME("ffn_down.weight"), G_F32, 12, 8);
#undef NAME
    }
    g_tensor(g, "output_norm.weight", G_F32, 8, 0);
    g_tensor(g, "output.weight", G_F32, 8, 6);
}

/* ---- safetensors ---- */

typedef struct stensor {
    char name[80];
    const char *dtype, *shape; /* "F32", "[8, 6]" */
    size_t size;
} stensor;

typedef struct sspec {
    stensor tensors[64];
    int count;
    const char *metadata; /* JSON or NULL */
    int spaces;           /* padding after the header */
} sspec;

static inline void s_tensor(sspec *s, const char *name, const char *dtype, const char *shape, size_t size)
{
    assert(s->count < 64);
    stensor *t = &s->tensors[s->count++];
    *t = (stensor){.dtype = dtype, .shape = shape, .size = size};
    snprintf(t->name, sizeof t->name, "%s", name);
}

static inline stensor *s_find(sspec *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->tensors[i].name, name) == 0) return &s->tensors[i];
    assert(!"no such tensor");
    return NULL;
}

static inline void s_drop(sspec *s, const char *name)
{
    stensor *t = s_find(s, name);
    s->count--;
    memmove(t, t + 1, (size_t)(s->tensors + s->count - t) * sizeof *t);
}

/* A file from the header's text and so many bytes of data, byte i being i. */
static inline const char *s_write_raw(const char *name, const char *header, size_t data_bytes)
{
    bytes b = {0};
    put_u64(&b, strlen(header));
    put(&b, header, strlen(header));
    for (size_t i = 0; i < data_bytes; i++) {
        uint8_t v = (uint8_t)i;
        put(&b, &v, 1);
    }
    const char *path = write_file(name, b.data, b.size);
    free_bytes(&b);
    return path;
}

static inline const char *s_write(const sspec *s, const char *name)
{
    bytes h = {0};
    char line[300];
    size_t at = 0;
    put(&h, "{", 1);
    if (s->metadata) {
        snprintf(line, sizeof line, "\"__metadata__\":%s%s", s->metadata, s->count ? "," : "");
        put(&h, line, strlen(line));
    }
    for (int i = 0; i < s->count; i++) {
        const stensor *t = &s->tensors[i];
        snprintf(line, sizeof line, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", i ? "," : "",
                 t->name, t->dtype, t->shape, at, at + t->size);
        put(&h, line, strlen(line));
        at += t->size;
    }
    put(&h, "}", 1);
    for (int i = 0; i < s->spaces; i++) put(&h, " ", 1);
    put(&h, "", 1);
    const char *path = s_write_raw(name, (const char *)h.data, at);
    free_bytes(&h);
    return path;
}

/* The same tiny model by Hugging Face's names, untied. `type` is llama, mistral, qwen2 or qwen3. */
static inline void s_tiny(sspec *s, const char *type)
{
    char name[80];
    *s = (sspec){0};
    s_tensor(s, "model.embed_tokens.weight", "F32", "[6,8]", 192);
    for (int i = 0; i < 2; i++) {
#define NAME(suffix) (snprintf(name, sizeof name, "model.layers.%d." suffix, i), name)
        s_tensor(s, NAME("input_layernorm.weight"), "F32", "[8]", 32);
        s_tensor(s, NAME("self_attn.q_proj.weight"), "BF16", "[8,8]", 128);
        s_tensor(s, NAME("self_attn.k_proj.weight"), "F16", "[4,8]", 64);
        s_tensor(s, NAME("self_attn.v_proj.weight"), "F32", "[4,8]", 128);
        s_tensor(s, NAME("self_attn.o_proj.weight"), "F32", "[8,8]", 256);
        if (strcmp(type, "qwen2") == 0) {
            s_tensor(s, NAME("self_attn.q_proj.bias"), "F32", "[8]", 32);
            s_tensor(s, NAME("self_attn.k_proj.bias"), "F32", "[4]", 16);
            s_tensor(s, NAME("self_attn.v_proj.bias"), "BF16", "[4]", 8);
        }
        if (strcmp(type, "qwen3") == 0) {
            s_tensor(s, NAME("self_attn.q_norm.weight"), "F32", "[4]", 16);
            s_tensor(s, NAME("self_attn.k_norm.weight"), "F32", "[4]", 16);
        }
        s_tensor(s, NAME("post_attention_layernorm.weight"), "BF16", "[8]", 16);
        s_tensor(s, NAME("mlp.gate_proj.weight"), "BF16", "[12,8]", 192);
        s_tensor(s, NAME("mlp.up_proj.weight"), "BF16", "[12,8]", 192);
        s_tensor(s, NAME("mlp.down_proj.weight"), "BF16", "[8,12]", 192);
#undef NAME
    }
    s_tensor(s, "model.norm.weight", "F32", "[8]", 32);
    s_tensor(s, "lm_head.weight", "BF16", "[6,8]", 96);
}

#endif
