/* SPDX-License-Identifier: MIT
 *
 * The safetensors container: a file for each rule.
 */
#include "loader_files.h"
#include "model/safetensors.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static b1_error err;

static void assert_words(const char *words)
{
    char copy[200], *state = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, "|", &state); word; word = strtok_r(NULL, "|", &state))
        if (!strstr(err.message, word)) fail_msg("\"%s\" does not say \"%s\"", err.message, word);
}

static void refuse(const char *path, const char *words)
{
    b1i_safetensors *s = (b1i_safetensors *)&err;
    long live = b1i_alloc_live();
    memset(&err, 0, sizeof err);
    assert_int_equal(b1i_safetensors_open(path, &s, &err), B1_MODEL);
    assert_null(s);
    assert_int_equal(b1i_alloc_live(), live);
    assert_words(path);
    assert_words(words);
}

/* A file of this header and so many bytes of data is refused with these words. */
static void refuse_text(const char *header, size_t data_bytes, const char *words)
{
    refuse(s_write_raw("bad.safetensors", header, data_bytes), words);
}

static b1i_safetensors *accept(const char *path)
{
    b1i_safetensors *s = NULL;
    if (b1i_safetensors_open(path, &s, &err) != B1_OK) fail_msg("refused: %s", err.message);
    return s;
}

#define A "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define B ",\"b\":{\"dtype\":\"F16\",\"shape\":[3,1],\"data_offsets\":[8,14]}"

static void test_valid(void **state)
{
    (void)state;
    b1i_safetensors *s = accept(s_write_raw("good.safetensors", A B "}", 14));
    assert_int_equal(s->tensor_count, 2);
    assert_string_equal(s->tensors[1].name, "b");
    assert_int_equal(s->tensors[1].format, b1i_f16);
    assert_int_equal(s->tensors[1].dims, 2);
    assert_int_equal(s->tensors[1].shape[0], 3);
    assert_int_equal(s->tensors[1].shape[3], 1);
    assert_int_equal(s->tensors[1].bytes, 6);
    /* byte i of the data is i, wherever the header ends */
    assert_int_equal(s->map.data[s->tensors[1].offset], 8);
    b1i_safetensors_close(s);
    /* in the file's order or not, the tensors come by offset */
    s = accept(s_write_raw("good.safetensors",
                           "{\"z\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[5,8]},"
                           "\"m\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[1,5]},"
                           "\"n\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                           8));
    assert_string_equal(s->tensors[0].name, "n");
    assert_string_equal(s->tensors[1].name, "m");
    assert_true(s->tensors[1].readable && s->tensors[1].format == b1i_bf16);
    assert_false(s->tensors[2].readable);
    assert_string_equal(s->tensors[2].dtype, "U8");
    b1i_safetensors_close(s);
}

static void test_valid_oddities(void **state)
{
    (void)state;
    /* padded with spaces, with metadata, a scalar, tensors without elements wherever they may lie */
    b1i_safetensors *s = accept(s_write_raw("good.safetensors",
                                            "{\"__metadata__\":{\"format\":\"pt\"},"
                                            "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[4,4]},"
                                            "\"one\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                                            "\"nil\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[0,0]},"
                                            "\"end\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[4,6]},"
                                            "\"last\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[6,6]}}    \n ",
                                            6));
    assert_int_equal(s->tensor_count, 5);
    assert_string_equal(s->tensors[0].name, "nil");
    assert_string_equal(s->tensors[1].name, "one");
    assert_int_equal(s->tensors[1].dims, 0);
    assert_int_equal(s->tensors[1].bytes, 4);
    assert_int_equal(s->tensors[2].bytes, 0);
    b1i_safetensors_close(s);
    s = accept(s_write_raw("good.safetensors", "{}", 0));
    assert_int_equal(s->tensor_count, 0);
    b1i_safetensors_close(s);
    /* every dtype of the format, four elements each */
    static const struct {
        const char *name;
        int bytes;
    } dtypes[] = {{"F64", 32}, {"F32", 16}, {"F16", 8}, {"BF16", 8}, {"I64", 32},    {"I32", 16},    {"I16", 8},
                  {"I8", 4},   {"U64", 32}, {"U8", 4},  {"BOOL", 4}, {"F8_E4M3", 4}, {"F8_E5M2", 4}, {"F4", 2}};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        sspec spec = {.spaces = 7};
        s_tensor(&spec, "t", dtypes[i].name, "[2,2]", (size_t)dtypes[i].bytes);
        s = accept(s_write(&spec, "good.safetensors"));
        assert_string_equal(s->tensors[0].dtype, dtypes[i].name);
        b1i_safetensors_close(s);
    }
}

static void test_header_length(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {UINT64_MAX, (uint64_t)1 << 63, 100000001, 1000, 0, 1};
    static const char *const words[] = {"claims 18446744073709551615 bytes",
                                        "claims 9223372036854775808",
                                        "100000001",
                                        "claims 1000 bytes, but 69 remain",
                                        "does not begin",
                                        "does not begin"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bytes b = {0};
        put_u64(&b, lengths[i]);
        put(&b, A "}        ", strlen(A) + 9);
        b.size = 77;
        refuse(write_file("bad.safetensors", b.data, b.size), words[i]);
        free_bytes(&b);
    }
    refuse(write_file("bad.safetensors", "1234567", 7), "7 bytes are no safetensors file");
    refuse(write_file("bad.safetensors", "", 0), "0 bytes are no safetensors file");
    refuse(in_folder("nowhere.safetensors"), "No such file");
}

static void test_json(void **state)
{
    (void)state;
    refuse_text("[]", 0, "does not begin with \"{\"");
    refuse_text(" {}", 0, "does not begin with \"{\"");
    refuse_text(A, 8, "no valid JSON");
    refuse_text(A "} x", 8, "no valid JSON");
    refuse_text(A ",\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "duplicate");
    refuse_text("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "duplicate");
    refuse_text("{\"\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unable to decode byte 0xff");
    refuse_text("{\"a\":7}", 0, "tensor a has no dtype");
    refuse_text("{\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "tensor a has no dtype");
    refuse_text("{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype \"F31\"");
    refuse_text("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "tensor a has no shape");
    refuse_text("{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "tensor a has no shape");
    refuse_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "dimension 0");
    refuse_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,2.0],\"data_offsets\":[0,8]}}", 8, "dimension 1");
    refuse_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", 8, "dimension 0");
    refuse_text("{\"__metadata__\":[],\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
                "__metadata__");
    refuse_text("{\"__metadata__\":{\"x\":1}}", 0, "__metadata__|\"x\"");
}

static void test_offsets(void **state)
{
    (void)state;
    static const struct {
        const char *offsets, *words;
    } cases[] = {
        {"", "not a begin and an end"},
        {"0", "not a begin and an end"},
        {"0,8,8", "not a begin and an end"},
        {"8,0", "not a begin and an end"},
        {"-8,0", "not a begin and an end"},
        {"0,8.0", "not a begin and an end"},
        {"0,7", "span 7 bytes, but its shape and dtype F32 take 8"},
        {"0,9223372036854775807", "span 9223372036854775807 bytes"},
        {"4,12", "leaves a hole after 0"},
        {"9223372036854775000,9223372036854775008", "leaves a hole after 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[200];
        snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%s]}}",
                 cases[i].offsets);
        refuse_text(header, 12, cases[i].words);
    }
    refuse_text(A "}", 9, "end at data offset 8, but the file has 9");
    refuse_text(A "}", 7, "tensor a ends at data offset 8, but the file has 7");
    refuse_text(A B "}", 13, "tensor b ends at data offset 14");
    refuse_text(A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[6,10]}}", 10, "tensor b|overlaps");
    refuse_text(A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "overlaps");
    refuse_text(A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[10,14]}}", 14, "tensor b|hole");
    refuse_text(A ",\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}", 8, "tensor b|overlaps");
}

static void test_sizes(void **state)
{
    (void)state;
    refuse_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "overflows");
    refuse_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "overflows");
    refuse_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[9999999999999999999999],\"data_offsets\":[0,0]}}", 0, "too big");
    refuse_text("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "do not fill whole bytes");
}

static void test_every_truncation(void **state)
{
    (void)state;
    sspec spec = {.metadata = "{\"format\":\"pt\"}"};
    s_tensor(&spec, "one", "F32", "[3,2]", 24);
    s_tensor(&spec, "two", "BF16", "[5]", 10);
    const char *path = s_write(&spec, "whole.safetensors");
    b1i_safetensors *s = accept(path);
    bytes b = {0};
    put(&b, s->map.data, s->map.size);
    b1i_safetensors_close(s);
    for (size_t size = 0; size < b.size; size++) refuse(write_file("bad.safetensors", b.data, size), "");
    free_bytes(&b);
}

/* Opens with each allocation failing in turn; `json` makes jansson's count too, which calls some of them a wrong token.
 * Returns how many there were. */
static long fail_each(const char *path, bool json)
{
    long live = b1i_alloc_live(), n = 0;
    b1i_safetensors *s;
    b1_status st;
    do {
        b1i_alloc_fail_at(n++);
        st = b1i_safetensors_open(path, &s, &err);
        b1i_alloc_fail_at(-1);
        if (st != B1_OK) {
            assert_true(st == B1_MEMORY || (json && st == B1_MODEL));
            assert_null(s);
            assert_int_equal(b1i_alloc_live(), live);
        }
    } while (st != B1_OK);
    b1i_safetensors_close(s);
    assert_int_equal(b1i_alloc_live(), live);
    return n;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    const char *path = s_write_raw("good.safetensors", A B ",\"__metadata__\":{\"a\":\"b\"}}", 14);
    assert_true(fail_each(path, false) > 3);
    json_set_alloc_funcs(b1i_malloc, b1i_free);
    assert_true(fail_each(path, true) > 30);
    json_set_alloc_funcs(malloc, free);
}

static void test_noise(void **state)
{
    (void)state;
    bytes b = {0}, original = {0};
    sspec spec = {.metadata = "{\"format\":\"pt\"}", .spaces = 3};
    s_tensor(&spec, "one", "F32", "[3,2]", 24);
    s_tensor(&spec, "two", "BF16", "[5]", 10);
    b1i_safetensors *s = accept(s_write(&spec, "whole.safetensors"));
    put(&original, s->map.data, s->map.size);
    b1i_safetensors_close(s);
    put(&b, original.data, original.size);
    if (!original.data || !b.data) return;
    uint64_t seed = 3;
    int refused = 0;
    for (int round = 0; round < 3000; round++) {
        memcpy(b.data, original.data, original.size);
        for (int i = 0; i < 1 + round % 3; i++) {
            static const uint8_t usual[] = {'0', '9', '[', ']',  '{', '}', '"',  ',',
                                            ':', '-', 0,   0xff, 'e', '1', '\\', ' '};
            seed = b1i_mix64(seed);
            b.data[seed % (original.size - 34)] = usual[seed >> 40 & 15];
        }
        b1_status st = b1i_safetensors_open(write_file("noise.safetensors", b.data, b.size), &s, &err);
        assert_true(st == B1_OK || (st == B1_MODEL && err.message[0]));
        refused += st != B1_OK;
        b1i_safetensors_close(s);
    }
    assert_true(refused > 1500);
    free_bytes(&b);
    free_bytes(&original);
}

static int make(void **state)
{
    (void)state;
    folder_make("safetensors");
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
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_valid_oddities),
        cmocka_unit_test(test_header_length),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
