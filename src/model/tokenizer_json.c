/* SPDX-License-Identifier: MIT
 *
 * A tokenizer.json: the BPE model and the added tokens. Its other components are read in tokenizer_json_parts.c.
 *
 * Refused: models that are not BPE, subword prefixes and suffixes, dropout, a missing `merges`, added tokens that
 * disagree with the vocabulary.
 */
#include <string.h>

#include "model/tokenizer_json.h"

b1_status b1i_json_text(b1_tokenizer *t, b1i_json v, const char *what, const char **text, size_t *bytes, b1_error *err)
{
    bool plain;
    if (!b1i_json_is(v, '"'))
        return b1i_fail(err, B1_MODEL, "%s: %s is %s, expected a string", t->path, what, b1i_json_kind(v));
    const char *raw = b1i_json_raw(v, bytes, &plain);
    char *copy = b1i_arena_take(&t->arena, *bytes + 1);
    if (!copy) return b1i_fail_memory(err, *bytes + 1);
    if (plain) {
        memcpy(copy, raw, *bytes);
    } else {
        *bytes = b1i_json_unescape(v, copy);
    }
    copy[*bytes] = 0;
    *text = copy;
    return B1_OK;
}

b1_status b1i_json_flag(const b1_tokenizer *t, b1i_json v, const char *name, bool fallback, bool *out, b1_error *err)
{
    return b1i_json_truth(t, b1i_json_get(v, name), name, fallback, out, err);
}

b1_status b1i_json_truth(const b1_tokenizer *t, b1i_json member, const char *name, bool fallback, bool *out,
                         b1_error *err)
{
    *out = b1i_json_is(member, 't') || (fallback && !b1i_json_is(member, 'f'));
    if (!member || strchr("tfn", *member)) return B1_OK;
    return b1i_fail(err, B1_MODEL, "%s: %s is %s, expected true or false", t->path, name, b1i_json_kind(member));
}

/* ---- vocabulary and added tokens ---- */

static b1_status token_id(const b1_tokenizer *t, b1i_json v, int64_t *id, b1_error *err)
{
    if (!b1i_json_int(v, id) || *id < 0 || *id >= B1I_VOCAB_MAX)
        return b1i_fail(err, B1_MODEL, "%s: a token id is %.*s, expected an integer from 0 to %d", t->path,
                        v && strchr("-0123456789", *v) ? (int)strspn(v, "-0123456789.") : 0, v ? v : "",
                        B1I_VOCAB_MAX - 1);
    return B1_OK;
}

static b1_status read_vocab(b1_tokenizer *t, b1i_json vocab, b1i_json added, b1_error *err)
{
    b1_status st;
    b1i_json key, value;
    int64_t id, count = 0;
    const char *text;
    size_t bytes;
    if (!b1i_json_is(vocab, '{'))
        return b1i_fail(err, B1_MODEL, "%s: model.vocab is %s, expected an object", t->path, b1i_json_kind(vocab));
    for (b1i_json_walk w = {vocab, false}; b1i_json_next(&w, &key, &value);) {
        B1I_TRY(token_id(t, value, &id, err));
        if (id >= count) count = id + 1;
    }
    for (b1i_json_walk w = {added, false}; b1i_json_next(&w, NULL, &value);) {
        B1I_TRY(token_id(t, b1i_json_get(value, "id"), &id, err));
        if (id >= count) count = id + 1;
    }
    B1I_TRY(b1i_vocab_reserve(t, count, err));
    for (b1i_json_walk w = {vocab, false}; b1i_json_next(&w, &key, &value);) {
        B1I_TRY(token_id(t, value, &id, err));
        B1I_TRY(b1i_json_text(t, key, "a token", &text, &bytes, err));
        B1I_TRY(b1i_vocab_add(t, id, text, bytes, b1i_token_normal, err));
    }
    return B1_OK;
fail:
    return st;
}

static b1_status read_added(b1_tokenizer *t, b1i_json v, b1_error *err)
{
    static const char *const names[] = {"special", "lstrip", "rstrip", "single_word", "normalized"};
    b1_status st;
    bool flag[5];
    int64_t id;
    const char *text;
    size_t bytes;
    char shown[48];
    if (!b1i_json_is(v, '{'))
        return b1i_fail(err, B1_MODEL, "%s: an added token is %s, expected an object", t->path, b1i_json_kind(v));
    B1I_TRY(token_id(t, b1i_json_get(v, "id"), &id, err));
    B1I_TRY(b1i_json_text(t, b1i_json_get(v, "content"), "content of an added token", &text, &bytes, err));
    for (int i = 0; i < 4; i++) B1I_TRY(b1i_json_flag(t, v, names[i], false, &flag[i], err));
    B1I_TRY(b1i_json_flag(t, v, names[4], !flag[0], &flag[4], err));
    int32_t known = bytes ? b1i_vocab_find(t, text, bytes) : -1;
    b1i_token *k = &t->token[id];
    if (known >= 0 && known != id)
        return b1i_fail(err, B1_MODEL, "%s: added token %s has the id %lld, but the vocabulary says %d", t->path,
                        b1i_show(text, bytes, shown), (long long)id, known);
    if (known < 0) {
        B1I_TRY(b1i_vocab_add(t, id, text, bytes, b1i_token_user, err));
    } else if (k->kind != b1i_token_normal) {
        return b1i_fail(err, B1_MODEL, "%s: added token %s is listed twice", t->path, b1i_show(text, bytes, shown));
    }
    k->kind = flag[0] ? b1i_token_control : b1i_token_user;
    return b1i_added_note(t, (int32_t)id, flag[0], flag[1], flag[2], flag[3], flag[4], err);
fail:
    return st;
}

/* ---- merges ---- */

/* A string's characters without copying where it has no escapes, else in `room`. */
static b1_status view(b1i_json v, b1i_buffer *room, const char **text, size_t *bytes, b1_error *err)
{
    bool plain;
    *text = b1i_json_raw(v, bytes, &plain);
    if (plain) return B1_OK;
    if (!b1i_grow(&room->text, &room->capacity, *bytes + 1, 1)) return b1i_fail_memory(err, *bytes + 1);
    *bytes = b1i_json_unescape(v, room->text);
    *text = room->text;
    return B1_OK;
}

/* "a b": exactly one space. */
static b1_status read_joined(b1_tokenizer *t, b1i_json v, uint32_t rank, b1i_buffer *room, b1_error *err)
{
    b1_status st;
    const char *text;
    size_t bytes;
    char shown[48];
    B1I_TRY(view(v, room, &text, &bytes, err));
    const char *space = memchr(text, ' ', bytes);
    size_t left = space ? (size_t)(space - text) : 0;
    if (!space || memchr(space + 1, ' ', bytes - left - 1))
        return b1i_fail(err, B1_MODEL, "%s: merge %u is %s, expected two tokens with one space between", t->path, rank,
                        b1i_show(text, bytes, shown));
    return b1i_merges_add(t, rank, text, left, space + 1, bytes - left - 1, err);
fail:
    return st;
}

/* ["a", "b"] */
static b1_status read_pair(b1_tokenizer *t, b1i_json v, uint32_t rank, b1i_buffer room[2], b1_error *err)
{
    b1_status st;
    b1i_json_walk w = {v, false};
    b1i_json part[3];
    const char *text[2];
    size_t bytes[2];
    int count = 0;
    while (count < 3 && b1i_json_next(&w, NULL, &part[count])) count++;
    if (count != 2 || !b1i_json_is(part[0], '"') || !b1i_json_is(part[1], '"'))
        return b1i_fail(err, B1_MODEL, "%s: merge %u is no pair of strings", t->path, rank);
    for (int i = 0; i < 2; i++) B1I_TRY(view(part[i], &room[i], &text[i], &bytes[i], err));
    return b1i_merges_add(t, rank, text[0], bytes[0], text[1], bytes[1], err);
fail:
    return st;
}

static b1_status read_merges(b1_tokenizer *t, b1i_json merges, b1_error *err)
{
    b1_status st;
    b1i_json item;
    b1i_buffer room[2] = {0};
    uint64_t count = 0;
    uint32_t rank = 0;
    if (!b1i_json_is(merges, '['))
        return b1i_fail(err, B1_MODEL, "%s: model.merges is %s, expected an array", t->path, b1i_json_kind(merges));
    for (b1i_json_walk w = {merges, false}; b1i_json_next(&w, NULL, &item);) count++;
    B1I_TRY(b1i_merges_reserve(t, count, err));
    for (b1i_json_walk w = {merges, false}; b1i_json_next(&w, NULL, &item); rank++) {
        if (*item == '"') {
            B1I_TRY(read_joined(t, item, rank, room, err));
        } else if (*item == '[') {
            B1I_TRY(read_pair(t, item, rank, room, err));
        } else {
            st = b1i_fail(err, B1_MODEL, "%s: merge %u is %s, expected a string or an array", t->path, rank,
                          b1i_json_kind(item));
            goto fail;
        }
    }
    st = B1_OK;
fail:
    b1i_free(room[0].text);
    b1i_free(room[1].text);
    return st;
}

/* ---- the model ---- */

/* A number that is zero, or null, or nothing. */
static bool is_zero(b1i_json v)
{
    if (!v || *v == 'n') return true;
    size_t digits = strspn(v, "-0.");
    return (*v == '-' || *v == '0') && !strchr("123456789", v[digits]);
}

static bool is_empty(b1i_json v) { return !v || *v == 'n' || b1i_json_equals(v, ""); }

/* The model's members. */
enum { TYPE, PREFIX, SUFFIX, DROPOUT, VOCAB, MERGES, UNKNOWN, IGNORE_MERGES, BYTE_FALLBACK, FUSE_UNKNOWN, MEMBERS };
static const char *const member_names[MEMBERS] = {
    "type",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "dropout",
    "vocab",
    "merges",
    "unk_token",
    "ignore_merges",
    "byte_fallback",
    "fuse_unk",
};

static b1_status check_model(const b1_tokenizer *t, const b1i_json *member, b1_error *err)
{
    if (member[TYPE] && !b1i_json_equals(member[TYPE], "BPE")) {
        char shown[48] = "?";
        size_t bytes;
        bool plain;
        const char *raw = b1i_json_is(member[TYPE], '"') ? b1i_json_raw(member[TYPE], &bytes, &plain) : NULL;
        if (raw) b1i_show(raw, bytes, shown);
        return b1i_fail(err, B1_MODEL, "%s: a %s model is not supported, expected BPE", t->path, shown);
    }
    for (int i = PREFIX; i <= SUFFIX; i++)
        if (!is_empty(member[i]))
            return b1i_fail(err, B1_MODEL, "%s: model.%s is not supported", t->path, member_names[i]);
    if (!is_zero(member[DROPOUT]))
        return b1i_fail(err, B1_MODEL, "%s: model.dropout is not supported, expected null", t->path);
    return B1_OK;
}

static b1_status read_unknown(b1_tokenizer *t, b1i_json v, b1_error *err)
{
    b1_status st;
    const char *text;
    size_t bytes;
    if (!v || *v == 'n') return B1_OK;
    B1I_TRY(b1i_json_text(t, v, "model.unk_token", &text, &bytes, err));
    t->unknown = bytes ? b1i_vocab_find(t, text, bytes) : -1;
    if (t->unknown < 0) return b1i_fail(err, B1_MODEL, "%s: model.unk_token is not in the vocabulary", t->path);
    return B1_OK;
fail:
    return st;
}

static b1_status read_model(b1_tokenizer *t, b1i_json model, b1i_json added, b1_error *err)
{
    b1_status st;
    b1i_json member[MEMBERS], item;
    if (!b1i_json_is(model, '{'))
        return b1i_fail(err, B1_MODEL, "%s: model is %s, expected an object", t->path, b1i_json_kind(model));
    b1i_json_members(model, member_names, MEMBERS, member);
    B1I_TRY(check_model(t, member, err));
    if (added && *added != '[' && *added != 'n')
        return b1i_fail(err, B1_MODEL, "%s: added_tokens is %s, expected an array", t->path, b1i_json_kind(added));
    B1I_TRY(read_vocab(t, member[VOCAB], added, err));
    for (b1i_json_walk w = {added, false}; b1i_json_next(&w, NULL, &item);) B1I_TRY(read_added(t, item, err));
    B1I_TRY(read_merges(t, member[MERGES], err));
    B1I_TRY(read_unknown(t, member[UNKNOWN], err));
    B1I_TRY(b1i_json_truth(t, member[IGNORE_MERGES], "ignore_merges", false, &t->ignore_merges, err));
    B1I_TRY(b1i_json_truth(t, member[BYTE_FALLBACK], "byte_fallback", false, &t->byte_fallback, err));
    B1I_TRY(b1i_json_truth(t, member[FUSE_UNKNOWN], "fuse_unk", false, &t->fuse_unknown, err));
    return B1_OK;
fail:
    return st;
}

b1_status b1i_tokenizer_read_json(const char *text, size_t bytes, const char *path, b1_tokenizer **out, b1_error *err)
{
    static const char *const names[] = {"model",         "added_tokens",   "normalizer",
                                        "pre_tokenizer", "post_processor", "decoder"};
    enum { MODEL, ADDED, NORMALIZER, PRE, POST, DECODER, COUNT };
    b1_status st;
    b1i_json root, part[COUNT];
    b1_tokenizer *t = NULL;
    *out = NULL;
    B1I_TRY(b1i_tokenizer_new(path, &t, err));
    B1I_TRY(b1i_json_check(text, bytes, path, &root, err));
    if (*root != '{') {
        st = b1i_fail(err, B1_MODEL, "%s: is %s, expected an object", path, b1i_json_kind(root));
        goto fail;
    }
    b1i_json_members(root, names, COUNT, part);
    B1I_TRY(read_model(t, part[MODEL], part[ADDED], err));
    B1I_TRY(b1i_json_normalizer(t, part[NORMALIZER], err));
    B1I_TRY(b1i_json_pre_tokenizer(t, part[PRE], err));
    B1I_TRY(b1i_json_decoder(t, part[DECODER], err));
    B1I_TRY(b1i_json_post_processor(t, part[POST], err));
    *out = t;
    return B1_OK;
fail:
    b1_tokenizer_close(t);
    return st;
}

b1_status b1i_tokenizer_from_json(const char *text, size_t bytes, const char *path, b1_tokenizer **out, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_tokenizer_read_json(text, bytes, path, out, err));
    B1I_TRY(b1i_tokenizer_finish(*out, err));
    return B1_OK;
fail:
    b1_tokenizer_close(*out);
    *out = NULL;
    return st;
}
