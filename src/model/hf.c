/* SPDX-License-Identifier: MIT
 *
 * A Hugging Face directory to a b1i_model: config.json, generation_config.json where there is one, model.safetensors
 * or the shards of model.safetensors.index.json, tokenizer.json where there is one. Files that none of these name are
 * ignored.
 *
 * Refuses shards outside the directory, tensors that the index names and its shard lacks or the other way round,
 * dtypes other than F32, F16 and BF16 (each tensor has its own), a missing lm_head where the configuration does not
 * tie it, and whatever weights.c refuses. An lm_head that is there is used, tied or not.
 *
 * Invariant: the containers live only while the model is filled; the maps pass to the model.
 */
#include "model/hf.h"
#include "model/json_load.h"
#include "model/loaders.h"
#include "model/safetensors.h"
#include "model/tokenizer.h"
#include "model/weights.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_MAX = 16 << 20, INDEX_MAX = 64 << 20 };

/* An open directory's shards. */
typedef struct shards {
    const char *directory;
    json_t *index; /* NULL: one file */
    b1i_safetensors **file;
    char **name; /* of each, relative to the directory */
    size_t count, file_capacity, name_capacity;
    b1_error *err;
} shards;

static void close_shards(shards *s)
{
    for (size_t i = 0; i < s->count; i++) {
        b1i_safetensors_close(s->file[i]);
        b1i_free(s->name[i]);
    }
    b1i_free(s->file);
    b1i_free(s->name);
    json_decref(s->index);
}

/* directory/name, freed with b1i_free(); NULL: no memory. */
static char *join(const char *directory, const char *name)
{
    size_t bytes = strlen(directory) + strlen(name) + 2;
    char *path = b1i_malloc(bytes);
    if (path) snprintf(path, bytes, "%s/%s", directory, name);
    return path;
}

static bool exists(const char *directory, const char *name, bool *no_memory)
{
    char *path = join(directory, name);
    *no_memory = !path;
    bool is = path && access(path, F_OK) == 0;
    b1i_free(path);
    return is;
}

/* ---- shards ---- */

static b1_status add_shard(shards *s, const char *name)
{
    b1_status st = B1_OK;
    b1i_safetensors *file = NULL;
    char *copy = NULL, *path = join(s->directory, name);
    if (!path) return b1i_fail_memory(s->err, strlen(s->directory) + strlen(name) + 2);
    B1I_TRY(b1i_safetensors_open(path, &file, s->err));
    copy = b1i_strdup(name);
    if (!copy || !b1i_grow(&s->file, &s->file_capacity, s->count + 1, sizeof(void *)) ||
        !b1i_grow(&s->name, &s->name_capacity, s->count + 1, sizeof(void *))) {
        st = b1i_fail_memory(s->err, (s->count + 1) * sizeof(void *));
        goto fail;
    }
    s->file[s->count] = file;
    s->name[s->count++] = copy;
    b1i_free(path);
    return B1_OK;
fail:
    b1i_safetensors_close(file);
    b1i_free(copy);
    b1i_free(path);
    return st;
}

/* Inside the directory: not absolute, no "..", something at all. */
static bool is_inside(const char *name)
{
    if (name[0] == 0 || name[0] == '/') return false;
    for (const char *at = name; at; at = strchr(at, '/')) {
        if (*at == '/') at++;
        size_t bytes = strcspn(at, "/");
        if (bytes == 0 || (bytes == 2 && memcmp(at, "..", 2) == 0)) return false;
    }
    return true;
}

static b1_status open_index(shards *s, const char *path)
{
    b1_status st;
    char *text = NULL;
    size_t bytes;
    const char *tensor;
    json_t *shard, *map;
    B1I_TRY(b1i_read_file(path, INDEX_MAX, &text, &bytes, s->err));
    B1I_TRY(b1i_json_object(text, bytes, path, &s->index, s->err));
    map = json_object_get(s->index, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0) {
        st = b1i_fail(s->err, B1_MODEL, "%s: weight_map is no object of tensors and their files", path);
        goto fail;
    }
    json_object_foreach(map, tensor, shard)
    {
        const char *name = json_string_value(shard);
        if (!name || !is_inside(name)) {
            st = b1i_fail(s->err, B1_MODEL, "%s: tensor %s lies in \"%s\", which is no file inside the directory", path,
                          tensor, name ? name : "");
            goto fail;
        }
        size_t i = 0;
        while (i < s->count && strcmp(s->name[i], name) != 0) i++;
        if (i == s->count) B1I_TRY(add_shard(s, name));
    }
fail:
    b1i_free(text);
    return st;
}

static b1_status open_shards(shards *s)
{
    static const char single[] = "model.safetensors", index[] = "model.safetensors.index.json";
    bool no_memory = false;
    if (exists(s->directory, single, &no_memory)) return add_shard(s, single);
    if (no_memory) return b1i_fail_memory(s->err, strlen(s->directory));
    if (!exists(s->directory, index, &no_memory) && !no_memory)
        return b1i_fail(s->err, B1_MODEL, "%s: holds neither %s nor %s", s->directory, single, index);
    char *path = no_memory ? NULL : join(s->directory, index);
    if (!path) return b1i_fail_memory(s->err, strlen(s->directory));
    b1_status st = open_index(s, path);
    b1i_free(path);
    return st;
}

/* ---- tensors ---- */

/* Old files carry RoPE's frequencies; they follow from the configuration. */
static bool is_harmless(const char *name)
{
    static const char end[] = "rotary_emb.inv_freq";
    size_t bytes = strlen(name), end_bytes = sizeof end - 1;
    return bytes >= end_bytes && strcmp(name + bytes - end_bytes, end) == 0;
}

/* Puts what shard `i` holds, and takes it off the index. */
static b1_status put_tensors(b1i_filling *f, shards *s, size_t i)
{
    b1_status st;
    const b1i_safetensors *file = s->file[i];
    json_t *map = json_object_get(s->index, "weight_map");
    for (size_t k = 0; k < file->tensor_count; k++) {
        const b1i_safetensor *t = &file->tensors[k];
        if (is_harmless(t->name)) continue;
        const char *named = json_string_value(json_object_get(map, t->name));
        if (map && (!named || strcmp(named, s->name[i]) != 0))
            return b1i_fail(f->err, B1_MODEL, "%s: tensor %s is there, but the index puts it %s%s", file->map.path,
                            t->name, named ? "into " : "nowhere", named ? named : "");
        if (!t->readable)
            return b1i_fail(f->err, B1_MODEL, "%s: tensor %s has the dtype %s; F32, F16 and BF16 are supported",
                            file->map.path, t->name, t->dtype);
        b1i_found found = {.name = t->name,
                           .name_bytes = strlen(t->name),
                           .format = t->format,
                           .dims = t->dims < 4 ? t->dims : 4,
                           .data = file->map.data + t->offset,
                           .map = (int)i,
                           .path = file->map.path};
        memcpy(found.shape, t->shape, sizeof found.shape);
        B1I_TRY(b1i_filling_put(f, &found));
        json_object_del(map, t->name);
    }
    return B1_OK;
fail:
    return st;
}

/* What is left of the index is in no shard. */
static b1_status check_index(const shards *s)
{
    const char *tensor;
    json_t *shard;
    json_object_foreach(json_object_get(s->index, "weight_map"), tensor, shard)
    {
        if (!is_harmless(tensor))
            return b1i_fail(s->err, B1_MODEL, "%s/%s: tensor %s is missing, but the index puts it there", s->directory,
                            json_string_value(shard), tensor);
    }
    return B1_OK;
}

static b1_status fill(b1i_model *m, shards *s, const b1i_hf_config *read)
{
    b1_status st;
    b1i_filling f = {m, b1i_spelling_hf, read->qkv_bias, read->o_bias, s->directory, s->err};
    uint64_t tensors = 0;
    B1I_TRY(open_shards(s));
    for (size_t i = 0; i < s->count; i++) tensors += s->file[i]->tensor_count;
    if (b1i_filling_least(&f) > tensors)
        return b1i_fail(s->err, B1_MODEL, "%s: %d layers need %llu tensors, but there are %llu", s->directory,
                        m->config.layers, (unsigned long long)b1i_filling_least(&f), (unsigned long long)tensors);
    B1I_TRY(b1i_filling_begin(&f));
    for (size_t i = 0; i < s->count; i++) B1I_TRY(put_tensors(&f, s, i));
    B1I_TRY(check_index(s));
    B1I_TRY(b1i_filling_end(&f));
    if (m->config.tied && !read->config.tied)
        return b1i_fail(s->err, B1_MODEL,
                        "%s: tensor lm_head.weight is missing, and tie_word_embeddings does not put the embedding in "
                        "its place",
                        s->directory);
fail:
    return st;
}

static b1_status take_maps(b1i_model *m, shards *s)
{
    m->maps = b1i_calloc(s->count + 1, sizeof *m->maps);
    if (!m->maps) return b1i_fail_memory(s->err, (s->count + 1) * sizeof *m->maps);
    m->map_count = (int)s->count;
    for (size_t i = 0; i < s->count; i++) {
        m->maps[i] = s->file[i]->map;
        s->file[i]->map = (b1i_map){0};
    }
    return B1_OK;
}

/* ---- the whole ---- */

static b1_status read_config(const char *directory, b1i_hf_config *out, b1_error *err)
{
    b1_status st;
    bool no_memory = false;
    char *path = join(directory, "config.json"), *text = NULL;
    size_t bytes;
    if (!path) return b1i_fail_memory(err, strlen(directory));
    if (access(path, F_OK) != 0) {
        st = b1i_fail(err, B1_MODEL, "%s: is no model directory: it holds no config.json", directory);
        goto fail;
    }
    B1I_TRY(b1i_read_file(path, CONFIG_MAX, &text, &bytes, err));
    B1I_TRY(b1i_hf_config_parse(text, bytes, path, out, err));
    b1i_config_name_path(&out->config, directory);
    if (exists(directory, "generation_config.json", &no_memory)) {
        b1i_free(text);
        b1i_free(path);
        text = NULL;
        path = join(directory, "generation_config.json");
        if (!path) return b1i_fail_memory(err, strlen(directory));
        B1I_TRY(b1i_read_file(path, CONFIG_MAX, &text, &bytes, err));
        B1I_TRY(b1i_hf_generation_parse(text, bytes, path, &out->config, err));
    } else if (no_memory)
        st = b1i_fail_memory(err, strlen(directory));
fail:
    b1i_free(text);
    b1i_free(path);
    return st;
}

b1_status b1i_model_open_hf(const char *directory, unsigned parts, b1i_model **out, b1_error *err)
{
    b1_status st;
    b1i_hf_config read = {0};
    shards s = {.directory = directory, .err = err};
    bool no_memory = false;
    *out = NULL;
    b1i_model *m = b1i_calloc(1, sizeof *m);
    if (!m) return b1i_fail_memory(err, sizeof *m);
    if (parts & B1I_LOAD_TENSORS) {
        B1I_TRY(read_config(directory, &read, err));
        m->config = read.config;
        B1I_TRY(fill(m, &s, &read));
    }
    if (parts & B1I_LOAD_TOKENIZER) {
        if (exists(directory, "tokenizer.json", &no_memory))
            B1I_TRY(b1i_tokenizer_from_directory(directory, &m->tokenizer, err));
        else if (no_memory)
            B1I_TRY(b1i_fail_memory(err, strlen(directory)));
    }
    B1I_TRY(take_maps(m, &s));
    close_shards(&s);
    *out = m;
    return B1_OK;
fail:
    close_shards(&s);
    b1i_model_close(m);
    return st;
}
