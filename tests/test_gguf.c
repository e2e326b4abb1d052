/* SPDX-License-Identifier: MIT
 *
 * The GGUF container: every rule has a file that breaks it and nothing else, and is refused by a sentence that names
 * the culprit; every oddity that is valid opens.
 */
#include "loader_files.h"
#include "model/gguf.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static gspec g;
static bytes file;
static b1_error err;

/* The sentence holds each of the words (separated by '|'), and the file's path. */
static void assert_words(const char *words, const char *path)
{
    char copy[200], *state = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, "|", &state); word; word = strtok_r(NULL, "|", &state))
        if (!strstr(err.message, word)) fail_msg("\"%s\" does not say \"%s\"", err.message, word);
    if (!strstr(err.message, path)) fail_msg("\"%s\" does not name %s", err.message, path);
}

static void refuse_bytes(const char *words)
{
    b1i_gguf *open = (b1i_gguf *)&g;
    const char *path = write_file("bad.gguf", file.data, file.size);
    long live = b1i_alloc_live();
    memset(&err, 0, sizeof err);
    assert_int_equal(b1i_gguf_open(path, &open, &err), B1_MODEL);
    assert_null(open);
    assert_int_equal(b1i_alloc_live(), live);
    assert_words(words, path);
}

static void refuse(const char *words)
{
    g_build(&g, &file);
    refuse_bytes(words);
    g_clear(&g);
}

static b1i_gguf *accept_bytes(void)
{
    b1i_gguf *open = NULL;
    const char *path = write_file("good.gguf", file.data, file.size);
    if (b1i_gguf_open(path, &open, &err) != B1_OK) fail_msg("refused: %s", err.message);
    return open;
}

static b1i_gguf *accept(void)
{
    g_build(&g, &file);
    g_clear(&g);
    return accept_bytes();
}

/* A tiny container: two keys, two tensors. */
static void start(void)
{
    g = (gspec){.version = 3, .alignment = 32};
    g_string(&g, "general.architecture", "llama");
    g_u32(&g, "a.number", 7);
    g_tensor(&g, "first.weight", G_F32, 5, 3);
    g_tensor(&g, "second.weight", G_Q8_0, 64, 2);
}

/* ---- header ---- */

static void test_magic_and_version(void **state)
{
    (void)state;
    start();
    g_build(&g, &file);
    file.data[0] = 'X';
    refuse_bytes("no GGUF file|58 47 55 46");
    g.version = 1;
    g_build(&g, &file);
    refuse_bytes("version 1");
    g.version = 4;
    g_build(&g, &file);
    refuse_bytes("version 4");
    g.version = 0x03000000;
    g_build(&g, &file);
    refuse_bytes("big-endian|version 3");
    g.version = 2;
    b1i_gguf *open = accept();
    assert_int_equal(open->version, 2);
    assert_int_equal(open->tensor_count, 2);
    b1i_gguf_close(open);
}

/* No prefix of a file is a file. */
static void test_every_truncation(void **state)
{
    (void)state;
    start();
    const char *list[] = {"ab", "", "c"};
    g_strings(&g, "some.list", 3, list);
    g_build(&g, &file);
    g_clear(&g);
    size_t whole = file.size;
    b1i_gguf_close(accept_bytes());
    /* 136 bytes of the second tensor in 160: its padding may be missing, one byte of it may not */
    assert_int_equal(g_size(G_Q8_0, 128), 136);
    for (size_t size = 0; size < whole - 24; size++) {
        file.size = size;
        refuse_bytes("");
    }
    file.size = whole - 25;
    refuse_bytes("second.weight");
    file.size = whole - 24;
    b1i_gguf_close(accept_bytes());
    file.size = whole;
    put_zeros(&file, 1);
    refuse_bytes("tensors end at byte");
}

static void test_counts(void **state)
{
    (void)state;
    static const uint64_t counts[] = {UINT64_MAX, INT64_MAX, (uint64_t)1 << 40, 1000, 100};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        start();
        g_build(&g, &file);
        memcpy(file.data + 8, &counts[i], 8);
        refuse_bytes(i < 4 ? "number of tensors" : "");
        g_build(&g, &file);
        memcpy(file.data + 16, &counts[i], 8);
        refuse_bytes(i < 4 ? "number of keys" : "");
        g_clear(&g);
    }
}

/* ---- keys ---- */

static void test_key_names(void **state)
{
    (void)state;
    start();
    g_u32(&g, "", 1);
    refuse("a key's name|is empty");
    start();
    g_u32(&g, "b.number", 1);
    memcpy(g.keys[2].name, "a.number", 8);
    refuse("key a.number is there twice");
    start();
    g_u32(&g, "bad\tname", 1);
    refuse("byte 0x09");
    start();
    g_u32(&g, "bad\xffname", 1);
    refuse("byte 0xff");
    start();
    g_build(&g, &file);
    const uint64_t long_name = (uint64_t)1 << 62;
    memcpy(file.data + 24, &long_name, 8);
    refuse_bytes("a key's name|claims 4611686018427387904 bytes");
    g_clear(&g);
}

static void test_value_types(void **state)
{
    (void)state;
    start();
    put_u32(&g_key(&g, "odd.key", 13)->value, 1);
    refuse("odd.key|unknown value type 13");
    start();
    bytes *b = &g_key(&g, "odd.list", T_ARRAY)->value;
    put_u32(b, 99);
    put_u64(b, 0);
    refuse("odd.list|unknown value type 99");
    start();
    g_bool(&g, "odd.flag", 2);
    refuse("odd.flag|neither 0 nor 1");
    start();
    b = &g_key(&g, "odd.flags", T_ARRAY)->value;
    put_u32(b, T_BOOL);
    put_u64(b, 3);
    put(b, "\0\1\7", 3);
    refuse("odd.flags|is 7");
    start();
    g_string(&g, "odd.text", "caf\xc3");
    refuse("odd.text|not UTF-8");
    start();
    bytes *text = &g_key(&g, "odd.zero", T_STRING)->value;
    put_u64(text, 3);
    put(text, "a\0b", 3);
    refuse("odd.zero|holds a zero byte");
    start();
    const char *list[] = {"caf\xc3\xa9", "surrogate \xed\xa0\x80"};
    g_strings(&g, "odd.texts", 2, list);
    refuse("odd.texts|not UTF-8|0xed");
}

static void test_array_counts(void **state)
{
    (void)state;
    static const uint32_t items[] = {T_U8, T_U16, T_F32, T_F64, T_BOOL, T_STRING, T_ARRAY};
    static const uint64_t counts[] = {UINT64_MAX, (uint64_t)1 << 61, (uint64_t)1 << 32, 5000};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            start();
            bytes *b = &g_key(&g, "long.list", T_ARRAY)->value;
            put_u32(b, items[i]);
            put_u64(b, counts[c]);
            refuse("long.list|that remain");
        }
    /* a string inside an array that reaches beyond the file */
    start();
    const char *list[] = {"ok", "x"};
    g_strings(&g, "some.list", 2, list);
    uint64_t beyond = 1 << 20;
    memcpy(g.keys[2].value.data + 12 + 8 + 2, &beyond, 8);
    refuse("claims 1048576 bytes");
}

static void put_nested(bytes *b, int depth)
{
    for (int i = 1; i < depth; i++) {
        put_u32(b, T_ARRAY);
        put_u64(b, 1);
    }
    put_u32(b, T_U8);
    put_u64(b, 1);
    put(b, "x", 1);
}

static void test_nested_arrays(void **state)
{
    (void)state;
    start();
    put_nested(&g_key(&g, "nested", T_ARRAY)->value, 4);
    b1i_gguf *open = accept();
    const b1i_gguf_key *key = b1i_gguf_find(open, "nested");
    assert_int_equal(key->item, b1i_gguf_array);
    assert_int_equal(key->value_bytes, 3 * 12 + 1);
    b1i_gguf_close(open);
    start();
    put_nested(&g_key(&g, "nested", T_ARRAY)->value, 5);
    refuse("nested|deeper than 4");
    start();
    put_nested(&g_key(&g, "nested", T_ARRAY)->value, 100000);
    refuse("nested|deeper than 4");
}

static void test_alignment(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, 1, 4, 12, 24, 33, 1u << 31};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        start();
        g_u32(&g, "general.alignment", bad[i]);
        refuse("general.alignment|power of two");
    }
    start();
    g_string(&g, "general.alignment", "32");
    refuse("general.alignment|string");
    static const uint32_t good[] = {8, 16, 64, 4096};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        start();
        g.alignment = good[i];
        g_u32(&g, "general.alignment", good[i]);
        b1i_gguf *open = accept();
        assert_int_equal(open->tensors[1].offset % good[i], 0);
        float first;
        memcpy(&first, open->map.data + open->tensors[0].offset + 4, 4);
        assert_float_equal(first, 1 + 1.0f / 64, 0);
        b1i_gguf_close(open);
    }
}

/* ---- tensors ---- */

static void test_tensor_table(void **state)
{
    (void)state;
    start();
    g.tensors[0].dims = 5;
    refuse("first.weight|5 dimensions");
    start();
    g.tensors[1].shape[0] = 48;
    g.tensors[1].shape[1] = 32;
    refuse("second.weight|rows of 48|32 of a q8_0 block");
    start();
    g.tensors[0].shape[0] = g.tensors[0].shape[1] = (uint64_t)1 << 32;
    refuse("first.weight|overflows");
    start();
    g.tensors[0].shape[0] = (uint64_t)1 << 62;
    g.tensors[0].dims = 1;
    refuse("first.weight|overflows");
    start();
    g.tensors[0].shape[0] = (uint64_t)1 << 40;
    g.tensors[0].dims = 1;
    refuse("first.weight|more than the whole file");
    start();
    g.tensors[0].type = 20;
    refuse("first.weight|IQ4_NL|number 20");
    start();
    g.tensors[0].type = 4; /* a number that was given up */
    refuse("first.weight|number 4");
    start();
    memcpy(g.tensors[1].name, "first.weight", 13);
    refuse("tensor first.weight is there twice");
    start();
    g.tensors[0].name[0] = 0;
    refuse("a tensor's name|is empty");
    start();
    memset(g.tensors[0].name, 'n', 65);
    g.tensors[0].name[65] = 0;
    refuse("a tensor's name|65 bytes");
}

static void test_tensor_offsets(void **state)
{
    (void)state;
    start();
    g.tensors[0].size = 100; /* the second's offset is then 128, not 64 */
    refuse("second.weight|offset 128, but 64");
    start();
    g.tensors[0].size = 30; /* and 32: the two overlap */
    refuse("second.weight|offset 32, but 64");
    start();
    g_header(&g, (file.size = 0, &file));
    size_t end = file.size;
    assert_int_not_equal(end % 32, 0);
    g_build(&g, &file);
    file.data[end] = 1;
    refuse_bytes("padding|0x01");
    g_clear(&g);
}

static void test_valid_oddities(void **state)
{
    (void)state;
    /* no tensors at all, with or without padding to where they would begin */
    start();
    g.tensor_count = 0;
    b1i_gguf *open = accept();
    assert_int_equal(open->tensor_count, 0);
    assert_int_equal(open->key_count, 2);
    b1i_gguf_close(open);
    file.size = 0;
    start();
    g.tensor_count = 0;
    g_header(&g, &file);
    g_clear(&g);
    b1i_gguf_close(accept_bytes());
    /* no keys */
    start();
    while (g.key_count > 0) g_drop_key(&g, g.keys[0].name);
    open = accept();
    assert_int_equal(open->key_count, 0);
    b1i_gguf_close(open);
    /* a scalar, a tensor without elements, trailing ones */
    start();
    g.tensors[0].dims = 0;
    g.tensors[0].size = 4;
    g_tensor(&g, "empty", G_F32, 0, 0);
    g_tensor(&g, "ones", G_F32, 2, 0);
    g.tensors[3].dims = 4;
    open = accept();
    assert_int_equal(open->tensors[0].bytes, 4);
    assert_int_equal(open->tensors[2].bytes, 0);
    assert_int_equal(open->tensors[3].bytes, 8);
    assert_int_equal(open->tensors[3].dims, 4);
    b1i_gguf_close(open);
    /* empty strings and arrays */
    start();
    g_string(&g, "empty.text", "");
    g_strings(&g, "empty.list", 0, NULL);
    open = accept();
    b1i_gguf_string_view text;
    assert_int_equal(b1i_gguf_text(open, "empty.text", true, &text, &err), B1_OK);
    assert_int_equal(text.bytes, 0);
    assert_non_null(text.text);
    assert_int_equal(b1i_gguf_find(open, "empty.list")->count, 0);
    b1i_gguf_close(open);
}

/* ---- values ---- */

static void test_values(void **state)
{
    (void)state;
    start();
    const int8_t i8 = -3;
    const uint8_t u8 = 250;
    const int16_t i16 = -300;
    const int64_t i64 = -(INT64_C(1) << 40);
    put(&g_key(&g, "i8", T_I8)->value, &i8, 1);
    put(&g_key(&g, "u8", T_U8)->value, &u8, 1);
    put(&g_key(&g, "i16", T_I16)->value, &i16, 2);
    put(&g_key(&g, "i64", T_I64)->value, &i64, 8);
    g_u16(&g, "u16", 65535);
    g_u32(&g, "u32", 4000000000u);
    g_i32(&g, "i32", -5);
    g_u64(&g, "u64", (uint64_t)1 << 50);
    g_u64(&g, "huge", UINT64_MAX);
    g_f32(&g, "f32", 0.25f);
    g_f64(&g, "f64", 1e300);
    g_f64(&g, "nan", 0.0 / 0.0);
    g_bool(&g, "yes", 1);
    g_string(&g, "text", "h\xc3\xa9llo");
    b1i_gguf *open = accept();
    static const struct {
        const char *name;
        int64_t value;
    } ints[] = {{"i8", -3},  {"u8", 250},         {"i16", -300},         {"u16", 65535},
                {"i32", -5}, {"u32", 4000000000}, {"i64", -(1ll << 40)}, {"u64", 1ll << 50}};
    int64_t value;
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        assert_int_equal(b1i_gguf_int(open, ints[i].name, true, 0, &value, &err), B1_OK);
        assert_int_equal(value, ints[i].value);
    }
    double number;
    bool flag;
    b1i_gguf_string_view text;
    assert_int_equal(b1i_gguf_float(open, "f32", true, 0, &number, &err), B1_OK);
    assert_true(number == 0.25);
    assert_int_equal(b1i_gguf_float(open, "f64", true, 0, &number, &err), B1_OK);
    assert_true(number == 1e300);
    assert_int_equal(b1i_gguf_boolean(open, "yes", true, false, &flag, &err), B1_OK);
    assert_true(flag);
    assert_int_equal(b1i_gguf_text(open, "text", true, &text, &err), B1_OK);
    assert_int_equal(text.bytes, 6);
    assert_memory_equal(text.text, "h\xc3\xa9llo", 6);
    /* missing: the fallback, or an error that names the key */
    assert_int_equal(b1i_gguf_int(open, "none", false, 42, &value, &err), B1_OK);
    assert_int_equal(value, 42);
    assert_int_equal(b1i_gguf_int(open, "none", true, 42, &value, &err), B1_MODEL);
    assert_words("key none is missing", open->map.path);
    assert_int_equal(b1i_gguf_text(open, "none", false, &text, &err), B1_OK);
    assert_null(text.text);
    /* a wrong type is never the fallback */
    assert_int_equal(b1i_gguf_int(open, "f32", false, 1, &value, &err), B1_MODEL);
    assert_words("key f32|type f32|integer", open->map.path);
    assert_int_equal(b1i_gguf_int(open, "yes", false, 1, &value, &err), B1_MODEL);
    assert_int_equal(b1i_gguf_int(open, "huge", false, 1, &value, &err), B1_MODEL);
    assert_words("huge|18446744073709551615", open->map.path);
    assert_int_equal(b1i_gguf_float(open, "u32", false, 1, &number, &err), B1_MODEL);
    assert_int_equal(b1i_gguf_float(open, "nan", false, 1, &number, &err), B1_MODEL);
    assert_words("nan|finite", open->map.path);
    assert_int_equal(b1i_gguf_boolean(open, "u8", false, true, &flag, &err), B1_MODEL);
    assert_int_equal(b1i_gguf_text(open, "u8", false, &text, &err), B1_MODEL);
    b1i_gguf_close(open);
}

static void test_string_walk(void **state)
{
    (void)state;
    start();
    const char *list[] = {"one", "", "three"};
    g_strings(&g, "list", 3, list);
    b1i_gguf *open = accept();
    const b1i_gguf_key *key = b1i_gguf_find(open, "list");
    b1i_gguf_walk walk = {key->value, 0};
    b1i_gguf_string_view view;
    for (int i = 0; i < 3; i++) {
        assert_true(b1i_gguf_next_string(key, &walk, &view));
        assert_int_equal(view.bytes, strlen(list[i]));
        assert_memory_equal(view.text, list[i], view.bytes);
    }
    assert_false(b1i_gguf_next_string(key, &walk, &view));
    assert_ptr_equal(walk.at, key->value + key->value_bytes);
    walk = (b1i_gguf_walk){b1i_gguf_find(open, "a.number")->value, 0};
    assert_false(b1i_gguf_next_string(b1i_gguf_find(open, "a.number"), &walk, &view));
    b1i_gguf_close(open);
}

/* A vocabulary of 150 000 entries is walked in a few milliseconds; the limit leaves room for slow machines. */
static void test_large_vocabulary_is_fast(void **state)
{
    (void)state;
    start();
    bytes *b = &g_key(&g, "tokenizer.ggml.tokens", T_ARRAY)->value;
    char token[32];
    put_u32(b, T_STRING);
    put_u64(b, 150000);
    for (int i = 0; i < 150000; i++) {
        snprintf(token, sizeof token, "\xc4\xa0token%d", i);
        put_string(b, token);
    }
    g_build(&g, &file);
    g_clear(&g);
    write_file("large.gguf", file.data, file.size);
    uint64_t begin = b1i_now_ns();
    b1i_gguf *open = accept_bytes();
    assert_true(b1i_now_ns() - begin < 500000000);
    assert_int_equal(b1i_gguf_find(open, "tokenizer.ggml.tokens")->count, 150000);
    b1i_gguf_close(open);
}

/* ---- failures and noise ---- */

static void test_allocation_failures(void **state)
{
    (void)state;
    start();
    const char *path = g_write(&g, "good.gguf");
    long live = b1i_alloc_live(), n = 0;
    b1i_gguf *open;
    b1_status st;
    do {
        b1i_alloc_fail_at(n++);
        st = b1i_gguf_open(path, &open, &err);
        b1i_alloc_fail_at(-1);
        if (st != B1_OK) {
            assert_int_equal(st, B1_MEMORY);
            assert_int_equal(b1i_alloc_live(), live);
        }
    } while (st != B1_OK);
    assert_true(n > 4);
    b1i_gguf_close(open);
    assert_int_equal(b1i_alloc_live(), live);
    g_clear(&g);
}

/* Any bytes in a header: opened or refused, never more. Under AddressSanitizer this says something. */
static void test_noise(void **state)
{
    (void)state;
    start();
    const char *list[] = {"one", "two", "three"};
    g_strings(&g, "list", 3, list);
    put_nested(&g_key(&g, "nested", T_ARRAY)->value, 3);
    g_build(&g, &file);
    g_clear(&g);
    bytes original = {0};
    put(&original, file.data, file.size);
    if (!original.data || !file.data) return;
    uint64_t seed = 1;
    int refused = 0;
    for (int round = 0; round < 3000; round++) {
        memcpy(file.data, original.data, original.size);
        for (int i = 0; i < 1 + round % 4; i++) {
            seed = b1i_mix64(seed);
            size_t at = seed % 340;
            static const uint8_t usual[] = {0, 1, 0x7f, 0x80, 0xff, 8, 9, 32};
            file.data[at] = seed >> 40 & 1 ? (uint8_t)(seed >> 48) : usual[(seed >> 44) % sizeof usual];
        }
        b1i_gguf *open;
        b1_status st = b1i_gguf_open(write_file("noise.gguf", file.data, file.size), &open, &err);
        assert_true(st == B1_OK || (st == B1_MODEL && err.message[0]));
        refused += st != B1_OK;
        b1i_gguf_close(open);
    }
    assert_true(refused > 1500);
    free_bytes(&original);
}

static int make(void **state)
{
    (void)state;
    folder_make("gguf");
    return 0;
}

static int clean(void **state)
{
    (void)state;
    folder_remove();
    free_bytes(&file);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_magic_and_version),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_key_names),
        cmocka_unit_test(test_value_types),
        cmocka_unit_test(test_array_counts),
        cmocka_unit_test(test_nested_arrays),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_tensor_table),
        cmocka_unit_test(test_tensor_offsets),
        cmocka_unit_test(test_valid_oddities),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_string_walk),
        cmocka_unit_test(test_large_vocabulary_is_fast),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
