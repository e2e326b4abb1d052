/* SPDX-License-Identifier: MIT
 *
 * A tokenizer from a Hugging Face directory: tokenizer.json, and around it what other files say of special tokens and
 * of the chat template. The template is chat_template.jinja where there is one, else tokenizer_config.json's.
 *
 * A special token that a configuration names and the vocabulary lacks is left out: it can be neither read nor made.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "model/tokenizer_json.h"

enum { CONFIG_BYTES_MAX = 16 << 20, TOKENIZER_BYTES_MAX = 1 << 29 };

/* A small file of the directory: its text, or NULL where it is not there. */
static b1_status read_file(const char *directory, const char *name, char **text, size_t *bytes, char **path,
                           b1_error *err)
{
    struct stat s;
    size_t size = strlen(directory) + strlen(name) + 2;
    *text = NULL;
    *bytes = 0;
    if (!*path && !(*path = b1i_malloc(strlen(directory) + 64))) return b1i_fail_memory(err, size);
    snprintf(*path, strlen(directory) + 64, "%s/%s", directory, name);
    if (stat(*path, &s)) return B1_OK;
    return b1i_read_file(*path, CONFIG_BYTES_MAX, text, bytes, err);
}

/* "<s>" or {"content": "<s>"}: the token's id, -1 where there is none. */
static b1_status named_token(b1_tokenizer *t, b1i_json v, int32_t *id, b1_error *err)
{
    const char *text;
    size_t bytes;
    *id = -1;
    if (b1i_json_is(v, '{')) v = b1i_json_get(v, "content");
    if (!b1i_json_is(v, '"')) return B1_OK;
    b1_status st = b1i_json_text(t, v, "a special token", &text, &bytes, err);
    if (st == B1_OK && bytes) *id = b1i_vocab_find(t, text, bytes);
    return st;
}

/* bos_token and eos_token of tokenizer_config.json or special_tokens_map.json. */
static b1_status read_named(b1_tokenizer *t, b1i_json root, b1_error *err)
{
    b1_status st;
    int32_t id;
    B1I_TRY(named_token(t, b1i_json_get(root, "bos_token"), &id, err));
    if (t->bos < 0) t->bos = id;
    B1I_TRY(named_token(t, b1i_json_get(root, "eos_token"), &id, err));
    if (id >= 0) B1I_TRY(b1i_tokenizer_add_end(t, id, err));
    return B1_OK;
fail:
    return st;
}

/* A string, or a list of {"name", "template"}: the one named default, else the first. */
static b1_status read_template(b1_tokenizer *t, b1i_json v, b1_error *err)
{
    b1i_json item, chosen = NULL;
    size_t bytes;
    if (!v || *v == 'n' || t->chat_template) return B1_OK;
    if (*v == '[') {
        for (b1i_json_walk w = {v, false}; b1i_json_next(&w, NULL, &item);)
            if (!chosen || b1i_json_equals(b1i_json_get(item, "name"), "default"))
                chosen = b1i_json_get(item, "template");
        if (!chosen) return B1_OK;
        v = chosen;
    }
    return b1i_json_text(t, v, "chat_template", &t->chat_template, &bytes, err);
}

static b1_status read_config(b1_tokenizer *t, b1i_json root, b1_error *err)
{
    b1_status st;
    B1I_TRY(read_named(t, root, err));
    b1i_json add = b1i_json_get(root, "add_bos_token");
    if (b1i_json_is(add, 't') && t->bos >= 0) t->bos_default = true;
    if (b1i_json_is(add, 'f')) t->bos_default = false;
    B1I_TRY(read_template(t, b1i_json_get(root, "chat_template"), err));
    return B1_OK;
fail:
    return st;
}

/* bos_token_id and eos_token_id of config.json, where nothing nearer names them. */
static b1_status read_ids(b1_tokenizer *t, b1i_json root, b1_error *err)
{
    int64_t id;
    if (t->bos < 0 && b1i_json_int(b1i_json_get(root, "bos_token_id"), &id) && id >= 0 && id < t->vocab &&
        t->token[id].kind != b1i_token_none)
        t->bos = (int32_t)id;
    if (!t->end_count && b1i_json_int(b1i_json_get(root, "eos_token_id"), &id) && id >= 0 && id < t->vocab &&
        t->token[id].kind != b1i_token_none)
        return b1i_tokenizer_add_end(t, id, err);
    return B1_OK;
}

static b1_status copy_template(b1_tokenizer *t, const char *text, size_t bytes, const char *path, b1_error *err)
{
    if (!b1i_utf8_valid(text, bytes) || memchr(text, 0, bytes))
        return b1i_fail(err, B1_MODEL, "%s: is not UTF-8 text", path);
    char *copy = b1i_arena_take(&t->arena, bytes + 1);
    if (!copy) return b1i_fail_memory(err, bytes + 1);
    memcpy(copy, text, bytes + 1);
    t->chat_template = copy;
    return B1_OK;
}

b1_status b1i_tokenizer_from_directory(const char *directory, b1_tokenizer **out, b1_error *err)
{
    static const struct {
        const char *name;
        b1_status (*read)(b1_tokenizer *t, b1i_json root, b1_error *err);
    } files[] = {
        {"tokenizer_config.json", read_config},
        {"special_tokens_map.json", read_named},
        {"config.json", read_ids},
        {"generation_config.json", read_ids},
    };
    b1_status st;
    b1i_map map = {0};
    b1_tokenizer *t = NULL;
    char *path = NULL, *text = NULL;
    size_t bytes;
    b1i_json root;
    *out = NULL;
    B1I_TRY(read_file(directory, "chat_template.jinja", &text, &bytes, &path, err));
    char *jinja = text;
    size_t jinja_bytes = bytes;
    text = NULL;
    snprintf(path, strlen(directory) + 64, "%s/tokenizer.json", directory);
    st = b1i_map_open(path, &map, err);
    if (st == B1_OK && map.size > TOKENIZER_BYTES_MAX)
        st = b1i_fail(err, B1_MODEL, "%s: %zu bytes, expected at most %d", path, map.size, TOKENIZER_BYTES_MAX);
    if (st == B1_OK) st = b1i_tokenizer_read_json((const char *)map.data, map.size, path, &t, err);
    if (st == B1_OK && jinja) {
        snprintf(path, strlen(directory) + 64, "%s/chat_template.jinja", directory);
        st = copy_template(t, jinja, jinja_bytes, path, err);
    }
    b1i_free(jinja);
    if (st != B1_OK) goto fail;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        B1I_TRY(read_file(directory, files[i].name, &text, &bytes, &path, err));
        if (!text) continue;
        B1I_TRY(b1i_json_check(text, bytes, path, &root, err));
        B1I_TRY(files[i].read(t, root, err));
        b1i_free(text);
        text = NULL;
    }
    B1I_TRY(b1i_tokenizer_finish(t, err));
    *out = t;
    t = NULL;
fail:
    b1_tokenizer_close(t);
    b1i_map_close(&map);
    b1i_free(text);
    b1i_free(path);
    return st;
}
