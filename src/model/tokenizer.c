/* SPDX-License-Identifier: MIT
 *
 * The tokenizer's public face: opening by what lies at a path, encoding, decoding at once and as a stream.
 *
 * Decoding is the same whether tokens come at once or one by one: bytes are joined over tokens, and what is no UTF-8
 * becomes U+FFFD by maximal subparts. Added tokens decode to their own text.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model/tokenizer_impl.h"

enum { TEXT_BYTES_MAX = 1 << 30, JSON_BYTES_MAX = 1 << 29 };

b1_status b1_tokenizer_open(const char *path, b1_tokenizer **out, b1_error *err)
{
    b1_status st;
    struct stat s;
    b1i_map map = {0};
    b1i_gguf *gguf = NULL;
    if (out) *out = NULL;
    if (!path || !out) return b1i_fail(err, B1_ARGUMENT, "b1_tokenizer_open: path or out is NULL");
    if (!stat(path, &s) && S_ISDIR(s.st_mode)) return b1i_tokenizer_from_directory(path, out, err);
    B1I_TRY(b1i_map_open(path, &map, err));
    if (map.size >= 4 && !memcmp(map.data, "GGUF", 4)) {
        b1i_map_close(&map);
        B1I_TRY(b1i_gguf_open(path, &gguf, err));
        st = b1i_tokenizer_from_gguf(gguf, out, err);
    } else if (map.size > JSON_BYTES_MAX) {
        st = b1i_fail(err, B1_MODEL, "%s: %zu bytes, expected a GGUF file or a tokenizer.json of at most %d", path,
                      map.size, JSON_BYTES_MAX);
    } else {
        st = b1i_tokenizer_from_json((const char *)map.data, map.size, path, out, err);
    }
fail:
    b1i_gguf_close(gguf);
    b1i_map_close(&map);
    return st;
}

void b1_tokenizer_close(b1_tokenizer *t)
{
    if (!t) return;
    b1i_steps_close(&t->normalize);
    b1i_steps_close(&t->split);
    b1i_free(t->added);
    b1i_free(t->raw.item);
    b1i_free(t->normalized.item);
    b1i_free(t->score_rank);
    b1i_free(t->merge);
    b1i_free(t->slot);
    b1i_free(t->token);
    b1i_free(t->path);
    b1i_arena_free(&t->arena);
    b1i_free(t);
}

int b1_tokenizer_vocab(const b1_tokenizer *t) { return t ? t->vocab : 0; }

bool b1_tokenizer_has(const b1_tokenizer *t, int32_t id)
{
    return t && id >= 0 && id < t->vocab && t->token[id].kind != b1i_token_none &&
           t->token[id].kind != b1i_token_unused;
}
int b1i_tokenizer_bos(const b1_tokenizer *t) { return t->bos; }

int b1i_tokenizer_end_tokens(const b1_tokenizer *t, int *ids, int max)
{
    for (int i = 0; i < t->end_count && i < max; i++) ids[i] = t->end[i];
    return t->end_count;
}

/* ---- encoding ---- */

/* A text without added tokens of the raw set: normalise, cut out the other set, then words and BPE. */
static b1_status encode_segment(b1i_scratch *s, const char *text, size_t bytes, bool special, bool first, b1_error *err)
{
    b1_status st;
    const b1_tokenizer *t = s->t;
    b1i_buffer whole = {0};
    s->text.bytes = 0;
    if (!b1i_buffer_put(&s->text, text, bytes)) return b1i_fail_memory(err, bytes);
    B1I_TRY(b1i_normalize(s, &t->normalize, first, err));
    if (t->normalized.count) { /* the pieces need s->text for themselves */
        whole = s->text;
        s->text = (b1i_buffer){0};
    }
    for (size_t at = 0, end = whole.text ? whole.bytes : s->text.bytes, b, e; at < end; at = e) {
        const b1i_added *a =
            whole.text ? b1i_added_find(&t->normalized, whole.text, whole.bytes, at, special, &b, &e) : NULL;
        if (!a) b = e = end;
        if (whole.text && b > at) {
            s->text.bytes = 0;
            if (!b1i_buffer_put(&s->text, whole.text + at, b - at)) {
                st = b1i_fail_memory(err, b - at);
                goto fail;
            }
        }
        if (b > at) {
            B1I_TRY(b1i_pretokenize(s, &t->split, first && at == 0, err));
            for (size_t i = 0; i < s->pieces.count; i++) {
                const b1i_piece *p = &s->pieces.piece[i];
                B1I_TRY(b1i_bpe_word(s, s->text.text + p->begin, p->end - p->begin, err));
            }
        }
        if (a) B1I_TRY(b1i_scratch_push(s, a->id, err));
    }
    st = B1_OK;
fail:
    b1i_free(whole.text);
    return st;
}

b1_status b1i_encode_text(b1i_scratch *s, const char *text, size_t bytes, bool special, bool first, b1_error *err)
{
    b1_status st;
    for (size_t at = 0, b, e; at < bytes; at = e) {
        const b1i_added *a = b1i_added_find(&s->t->raw, text, bytes, at, special, &b, &e);
        if (!a) b = e = bytes;
        if (b > at) B1I_TRY(encode_segment(s, text + at, b - at, special, first && at == 0, err));
        if (a) B1I_TRY(b1i_scratch_push(s, a->id, err));
    }
    return B1_OK;
fail:
    return st;
}

b1_status b1_tokenizer_encode(const b1_tokenizer *t, const char *text, size_t bytes, unsigned flags, int32_t **ids,
                              int *count, b1_error *err)
{
    b1_status st;
    b1i_scratch s = {0};
    char *fixed = NULL;
    if (ids) *ids = NULL;
    if (count) *count = 0;
    if (!t || !ids || !count || (!text && bytes))
        return b1i_fail(err, B1_ARGUMENT, "b1_tokenizer_encode: tokenizer, text, ids or count is NULL");
    if (bytes > TEXT_BYTES_MAX / 3)
        return b1i_fail(err, B1_ARGUMENT, "a text of %zu bytes, expected at most %d", bytes, TEXT_BYTES_MAX / 3);
    if ((flags & B1_ENCODE_BOS) && t->bos < 0)
        return b1i_fail(err, B1_ARGUMENT, "%s: BOS is asked for, but this tokenizer has none", t->path);
    B1I_TRY(b1i_scratch_open(&s, t, err));
    if (!b1i_utf8_valid(text, bytes)) {
        size_t length = b1i_utf8_replace(text, bytes, NULL);
        fixed = b1i_malloc(length);
        if (!fixed) {
            st = b1i_fail_memory(err, length);
            goto fail;
        }
        bytes = b1i_utf8_replace(text, bytes, fixed);
        text = fixed;
    }
    bool bos = (flags & B1_ENCODE_BOS) || ((flags & B1_ENCODE_DEFAULT_BOS) && t->bos_default);
    if (bos) B1I_TRY(b1i_scratch_push(&s, t->bos, err));
    B1I_TRY(b1i_encode_text(&s, text, bytes, flags & B1_ENCODE_SPECIAL, true, err));
    if (!s.ids && !b1i_grow(&s.ids, &s.capacity, 1, sizeof *s.ids)) { /* no ids are an array too */
        st = b1i_fail_memory(err, sizeof *s.ids);
        goto fail;
    }
    if (bos && s.count > 1 && s.ids[1] == t->bos) memmove(s.ids, s.ids + 1, --s.count * sizeof *s.ids);
    *ids = s.ids;
    *count = (int)s.count;
    s.ids = NULL;
    st = B1_OK;
fail:
    b1i_free(fixed);
    b1i_scratch_close(&s);
    return st;
}

/* ---- decoding ---- */

/* Byte-level: every character of the alphabet is a byte; a token with another one is its own text. */
static size_t alphabet_bytes(const b1i_token *k, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < k->bytes;) {
        uint32_t code = 0xfffd;
        bool cut;
        int length = b1i_utf8_step(k->text + i, k->bytes - i, &code, &cut), b = b1i_alphabet_byte(code);
        if (b < 0) {
            memcpy(out, k->text, k->bytes);
            return k->bytes;
        }
        out[n++] = (char)b;
        i += (size_t)(length > 0 ? length : -length);
    }
    return n;
}

static size_t replaced_bytes(const b1_tokenizer *t, const b1i_token *k, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < k->bytes;) {
        if (k->bytes - i >= t->from_bytes && !memcmp(k->text + i, t->from, t->from_bytes)) {
            memcpy(out + n, t->to, t->to_bytes);
            n += t->to_bytes;
            i += t->from_bytes;
        } else {
            out[n++] = k->text[i++];
        }
    }
    return n;
}

size_t b1i_token_bytes(const b1_tokenizer *t, int32_t id, char *out)
{
    const b1i_token *k = &t->token[id];
    switch ((b1i_token_kind)k->kind) {
    case b1i_token_normal:
        if (t->byte_level) return alphabet_bytes(k, out);
        break;
    case b1i_token_byte:
        for (int b = 0; b < 256; b++) {
            if (t->byte_id[b] != id) continue;
            *out = (char)b;
            return 1;
        }
        break;
    case b1i_token_none:
    case b1i_token_unused:
        return 0;
    default:
        break;
    }
    if (t->from && k->kind != b1i_token_control && k->kind != b1i_token_unknown) return replaced_bytes(t, k, out);
    memcpy(out, k->text, k->bytes);
    return k->bytes;
}

size_t b1_tokenizer_piece_max(const b1_tokenizer *t) { return t ? 3 * t->piece_max : 0; }

/* How many bytes at the end are a character that is not complete yet. */
static size_t incomplete_tail(const char *text, size_t bytes)
{
    uint32_t code;
    bool cut;
    for (size_t n = bytes < 3 ? bytes : 3; n; n--)
        if (b1i_utf8_step(text + bytes - n, n, &code, &cut) == -(int)n && cut) return n;
    return 0;
}

/* The token's bytes behind those held; what is complete goes to `out`, what is not is held. */
static size_t stream_token(const b1_tokenizer *t, b1_decode_stream *stream, int32_t id, char *raw, char *out)
{
    size_t held = stream->held_count < 0 ? 0 : stream->held_count > 3 ? 3 : (size_t)stream->held_count;
    memcpy(raw, stream->held, held);
    char *piece = raw + held;
    size_t bytes = b1i_token_bytes(t, id, piece);
    if (bytes && !stream->started) {
        stream->started = true;
        if (t->strip_first && *piece == ' ') memmove(piece, piece + 1, --bytes);
    }
    bytes += held;
    held = incomplete_tail(raw, bytes);
    memcpy(stream->held, raw + bytes - held, held);
    stream->held_count = (int)held;
    return b1i_utf8_replace(raw, bytes - held, out);
}

b1_status b1_tokenizer_stream(const b1_tokenizer *t, b1_decode_stream *stream, int32_t id, bool special, char *buffer,
                              size_t *bytes, b1_error *err)
{
    char small[512], *raw = small;
    if (bytes) *bytes = 0;
    if (!t || !stream || !buffer || !bytes)
        return b1i_fail(err, B1_ARGUMENT, "b1_tokenizer_stream: tokenizer, stream, buffer or bytes is NULL");
    if (id < 0 || id >= t->vocab)
        return b1i_fail(err, B1_ARGUMENT, "%s: token %d, expected 0 to %d", t->path, id, t->vocab - 1);
    if (!special && (t->token[id].kind == b1i_token_control || t->token[id].kind == b1i_token_unknown)) return B1_OK;
    if (t->piece_max + 4 > sizeof small) raw = b1i_malloc(t->piece_max + 4);
    if (!raw) return b1i_fail_memory(err, t->piece_max + 4);
    *bytes = stream_token(t, stream, id, raw, buffer);
    if (raw != small) b1i_free(raw);
    return B1_OK;
}

size_t b1_tokenizer_stream_flush(b1_decode_stream *stream, char *buffer)
{
    if (!stream || !buffer || stream->held_count <= 0) return 0;
    stream->held_count = 0;
    memcpy(buffer, B1I_REPLACEMENT, B1I_REPLACEMENT_BYTES);
    return B1I_REPLACEMENT_BYTES;
}

b1_status b1_tokenizer_decode(const b1_tokenizer *t, const int32_t *ids, int count, bool special, char **text,
                              size_t *bytes, b1_error *err)
{
    b1_status st;
    b1i_buffer out = {0};
    b1_decode_stream stream = {0};
    if (text) *text = NULL;
    if (bytes) *bytes = 0;
    if (!t || !text || !bytes || count < 0 || (!ids && count))
        return b1i_fail(err, B1_ARGUMENT, "b1_tokenizer_decode: tokenizer, ids, text or bytes is NULL");
    size_t room = b1_tokenizer_piece_max(t) + 8;
    for (int i = 0; i <= count; i++) {
        size_t n = 0;
        if (!b1i_grow(&out.text, &out.capacity, out.bytes + room, 1)) {
            st = b1i_fail_memory(err, out.bytes + room);
            goto fail;
        }
        if (i == count) {
            n = b1_tokenizer_stream_flush(&stream, out.text + out.bytes);
        } else {
            B1I_TRY(b1_tokenizer_stream(t, &stream, ids[i], special, out.text + out.bytes, &n, err));
        }
        out.bytes += n;
    }
    out.text[out.bytes] = 0;
    *text = out.text;
    *bytes = out.bytes;
    return B1_OK;
fail:
    b1i_free(out.text);
    return st;
}
