/* SPDX-License-Identifier: MIT
 *
 * Between the tokenizer's tests: fixtures read with jansson (an independent reader), and comparisons that say where
 * two id lists part.
 */
#ifndef TOKENIZER_CASES_H
#define TOKENIZER_CASES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "model/tokenizer.h"

#define FIXTURES B1I_SOURCE_DIR "/tests/fixtures/tokenizer/"

static inline const char *default_model(void)
{
    const char *path = getenv("B1_TEST_MODEL");
    return path ? path : B1I_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

static inline json_t *read_fixture(const char *path)
{
    json_error_t e;
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, &e);
    if (!j) fail_msg("%s: %s", path, e.text);
    return j;
}

static inline b1_tokenizer *open_tokenizer(const char *path)
{
    b1_error err = {0};
    b1_tokenizer *t = NULL;
    if (b1_tokenizer_open(path, &t, &err) != B1_OK) fail_msg("%s", err.message);
    return t;
}

/* Two hex digits a byte; NUL-terminated, freed by the caller. */
static inline char *from_hex(json_t *hex, size_t *size)
{
    const char *text = json_string_value(hex);
    *size = strlen(text) / 2;
    char *out = malloc(*size + 1);
    assert_non_null(out);
    for (size_t i = 0; i < *size; i++) {
        unsigned value;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
        out[i] = (char)value;
    }
    out[*size] = 0;
    return out;
}

static inline int32_t *ids_of(json_t *list, int *count)
{
    *count = (int)json_array_size(list);
    int32_t *ids = malloc(((size_t)*count + 1) * sizeof *ids);
    assert_non_null(ids);
    for (int i = 0; i < *count; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return ids;
}

static inline void assert_ids(const char *what, const char *text, const int32_t *got, int got_count,
                              const int32_t *want, int want_count)
{
    int i = 0;
    while (i < got_count && i < want_count && got[i] == want[i]) i++;
    if (i < got_count || i < want_count)
        fail_msg("%s: \"%.60s\": id %d of %d is %d, expected %d of %d", what, text, i, got_count,
                 i < got_count ? got[i] : -1, i < want_count ? want[i] : -1, want_count);
}

static inline void assert_encodes(const b1_tokenizer *t, const char *what, const char *text, size_t size,
                                  unsigned flags, json_t *want)
{
    b1_error err = {0};
    int32_t *got;
    int got_count, want_count;
    if (b1_tokenizer_encode(t, text, size, flags, &got, &got_count, &err) != B1_OK)
        fail_msg("%s: %s", what, err.message);
    int32_t *ids = ids_of(want, &want_count);
    assert_ids(what, text, got, got_count, ids, want_count);
    free(ids);
    b1_free(got);
}

/* Ids of a C string, compared with those listed behind `flags`, ended by -1. */
static inline void assert_text(const b1_tokenizer *t, const char *text, unsigned flags, ...)
{
    b1_error err = {0};
    int32_t *got, want[64];
    int count, n = 0;
    va_list list;
    va_start(list, flags);
    while (n < 64 && (want[n] = va_arg(list, int)) >= 0) n++;
    va_end(list);
    if (b1_tokenizer_encode(t, text, strlen(text), flags, &got, &count, &err) != B1_OK) fail_msg("%s", err.message);
    assert_ids("ids", text, got, count, want, n);
    b1_free(got);
}

/* The same tokens one by one. */
static inline char *stream_all(const b1_tokenizer *t, const int32_t *ids, int count, bool special)
{
    b1_error err = {0};
    b1_decode_stream stream = {0};
    size_t piece = b1_tokenizer_piece_max(t) + 8, length = 0;
    char *out = malloc(piece * ((size_t)count + 1) + 1), *buffer = malloc(piece);
    assert_non_null(out);
    assert_non_null(buffer);
    for (int i = 0; i < count; i++) {
        size_t n;
        if (b1_tokenizer_stream(t, &stream, ids[i], special, buffer, &n, &err) != B1_OK) fail_msg("%s", err.message);
        assert_true(n <= piece);
        assert_true(stream.held_count >= 0 && stream.held_count <= 3);
        memcpy(out + length, buffer, n);
        length += n;
    }
    size_t n = b1_tokenizer_stream_flush(&stream, buffer);
    memcpy(out + length, buffer, n);
    out[length + n] = 0;
    assert_int_equal(b1_tokenizer_stream_flush(&stream, buffer), 0);
    free(buffer);
    return out;
}

static inline void assert_decodes(const b1_tokenizer *t, const char *what, const int32_t *ids, int count, bool special,
                                  const char *want, size_t want_bytes)
{
    b1_error err = {0};
    char *got;
    size_t size;
    if (b1_tokenizer_decode(t, ids, count, special, &got, &size, &err) != B1_OK) fail_msg("%s: %s", what, err.message);
    if (size != want_bytes || memcmp(got, want, size))
        fail_msg("%s: decodes to \"%.80s\", expected \"%.80s\"", what, got, want);
    assert_int_equal(got[size], 0);
    char *streamed = stream_all(t, ids, count, special);
    if (memcmp(streamed, want, want_bytes + 1))
        fail_msg("%s: streams \"%.80s\", expected \"%.80s\"", what, streamed, want);
    free(streamed);
    b1_free(got);
}

/* All of an expected.json. */
static inline void check_fixture(const b1_tokenizer *t, const char *name, json_t *expected)
{
    size_t i, size;
    json_t *c;
    json_array_foreach(json_object_get(expected, "cases"), i, c)
    {
        char *text = from_hex(json_object_get(c, "text"), &size);
        assert_encodes(t, name, text, size, 0, json_object_get(c, "plain"));
        assert_encodes(t, name, text, size, B1_ENCODE_SPECIAL, json_object_get(c, "special"));
        free(text);
    }
    json_array_foreach(json_object_get(expected, "decodes"), i, c)
    {
        int count;
        int32_t *ids = ids_of(json_object_get(c, "ids"), &count);
        char *skip = from_hex(json_object_get(c, "skip"), &size);
        assert_decodes(t, name, ids, count, false, skip, size);
        char *all = from_hex(json_object_get(c, "all"), &size);
        assert_decodes(t, name, ids, count, true, all, size);
        free(skip);
        free(all);
        free(ids);
    }
    json_t *bos = json_object_get(expected, "bos");
    if (!bos) return;
    int32_t *ids;
    int count;
    assert_int_equal(b1_tokenizer_encode(t, "", 0, B1_ENCODE_DEFAULT_BOS, &ids, &count, NULL), B1_OK);
    assert_int_equal(count, json_is_integer(bos));
    if (count) assert_int_equal(ids[0], json_integer_value(bos));
    b1_free(ids);
}

#endif
