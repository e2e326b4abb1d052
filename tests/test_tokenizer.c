/* SPDX-License-Identifier: MIT
 *
 * The tokenizer against `tokenizers`: every fixture's ids and decoded text, the default model's, and where `make peers`
 * was run the published ids of real vocabularies. Then the rules that hold for all of them: specials, BOS, prefix,
 * streaming, long texts, failing allocations.
 */
#include "tokenizer_cases.h"

#include <time.h>

static const char *const names[] = {
    "gpt2",
    "gpt2-prefix",
    "llama3",
    "qwen2",
    "smollm",
    "smollm-unk",
    "tekken",
    "smollm-unk-fused",
    "llama2",
    "llama2-new",
    "mistral-v3",
    "metaspace-always",
    "metaspace-never",
    "metaspace-first",
    "llama2-normalized",
    "metaspace-old",
    "normalizers",
    "nfd",
    "nfkd",
    "added",
    "added-spaces",
    "many-specials",
};

static void fixtures_equal(void **state)
{
    char path[512];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, FIXTURES "%s/tokenizer.json", names[i]);
        b1_tokenizer *t = open_tokenizer(path);
        snprintf(path, sizeof path, FIXTURES "%s/expected.json", names[i]);
        json_t *expected = read_fixture(path);
        check_fixture(t, names[i], expected);
        json_decref(expected);
        b1_tokenizer_close(t);
    }
}

/* One vocabulary, a pre-tokenizer for each behaviour of a Split. */
static void splits_equal(void **state)
{
    (void)state;
    json_t *base = read_fixture(FIXTURES "split/tokenizer.json"), *all = read_fixture(FIXTURES "split/variants.json"),
           *v;
    size_t i;
    json_array_foreach(json_object_get(all, "variants"), i, v)
    {
        b1_error err = {0};
        b1_tokenizer *t = NULL;
        const char *name = json_string_value(json_object_get(v, "name"));
        json_object_set(base, "pre_tokenizer", json_object_get(v, "pre_tokenizer"));
        char *text = json_dumps(base, JSON_COMPACT | JSON_ENSURE_ASCII);
        if (b1i_tokenizer_from_json(text, strlen(text), name, &t, &err) != B1_OK) fail_msg("%s", err.message);
        check_fixture(t, name, v);
        b1_tokenizer_close(t);
        free(text);
    }
    assert_true(i > 20);
    json_decref(base);
    json_decref(all);
}

static void default_model_equal(void **state)
{
    (void)state;
    if (access(default_model(), R_OK)) {
        print_message("skipped: %s is not there\n", default_model());
        skip();
    }
    b1_tokenizer *t = open_tokenizer(default_model());
    json_t *expected = read_fixture(FIXTURES "smollm2-135m/expected.json");
    check_fixture(t, "smollm2-135m", expected);
    json_decref(expected);
    assert_int_equal(b1_tokenizer_vocab(t), 49152);
    assert_true(b1_tokenizer_has(t, 0) && b1_tokenizer_has(t, 49151));
    assert_false(b1_tokenizer_has(t, -1) || b1_tokenizer_has(t, 49152));
    assert_text(t, "Hello  world 123\n\tdef f(x): return x**2  # caf\u00e9 \u4f60\u597d", 0, 19556, 216, 905, 216, 33,
                34, 35, 198, 197, 1604, 275, 24, 104, 727, 1003, 1792, 828, 34, 216, 907, 37366, 216, 18645, 250, 48392,
                138, -1);
    assert_text(t, "x", B1_ENCODE_DEFAULT_BOS, 104, -1);
    assert_text(t, "x", B1_ENCODE_BOS, 1, 104, -1);
    int ends[4];
    assert_int_equal(b1i_tokenizer_end_tokens(t, ends, 4), 1);
    assert_int_equal(ends[0], 2);
    b1_tokenizer_close(t);
}

static char *read_text(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *bytes = fread(text, 1, (1 << 20) - 1, f);
    text[*bytes] = 0;
    fclose(f);
    return text;
}

/* Texts stand between separators, ids in lines. */
static int check_published(const b1_tokenizer *t, const char *name, char *texts, char *lines)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    int checked = 0;
    for (char *text = texts, *line = lines; text && line; checked++) {
        char *next = strstr(text, separator), *end = strchr(line, '\n');
        int32_t want[2000], *got;
        int count = 0, got_count;
        if (next) *next = 0;
        if (end) *end = 0;
        for (char *at = line, *behind;; at = behind) {
            want[count] = (int32_t)strtol(at, &behind, 10);
            if (behind == at || count == 1999) break;
            count++;
        }
        assert_int_equal(b1_tokenizer_encode(t, text, strlen(text), 0, &got, &got_count, NULL), B1_OK);
        assert_ids(name, text, got, got_count, want, count);
        char *back;
        size_t bytes;
        assert_int_equal(b1_tokenizer_decode(t, got, got_count, true, &back, &bytes, NULL), B1_OK);
        assert_string_equal(back, text);
        b1_free(back);
        b1_free(got);
        text = next ? next + strlen(separator) : NULL;
        line = end ? end + 1 : NULL;
    }
    return checked;
}

static void published_equal(void **state)
{
    static const char *const vocabularies[] = {"llama-bpe",    "llama-spm", "qwen2",  "qwen35", "gpt-2",
                                               "phi-3",        "starcoder", "refact", "falcon", "deepseek-coder",
                                               "deepseek-llm", "command-r", "mpt"};
    char path[512];
    size_t bytes;
    (void)state;
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        snprintf(path, sizeof path, B1I_SOURCE_DIR "/build/peers/models/ggml-vocab-%s.gguf", vocabularies[i]);
        if (access(path, R_OK)) {
            print_message("skipped: %s is not there, `make peers` fetches it\n", path);
            skip();
        }
        b1_tokenizer *t = open_tokenizer(path);
        char *end = path + strlen(path);
        memcpy(end, ".inp", 5);
        char *texts = read_text(path, &bytes);
        memcpy(end, ".out", 5);
        char *lines = read_text(path, &bytes);
        assert_true(texts && lines);
        assert_true(check_published(t, vocabularies[i], texts, lines) > 40);
        free(texts);
        free(lines);
        b1_tokenizer_close(t);
    }
}

/* ---- rules ---- */

static void specials_are_text(void **state)
{
    (void)state;
    b1_tokenizer *t = open_tokenizer(FIXTURES "many-specials/tokenizer.json");
    int32_t *ids;
    int count;
    const char *text = "<|im_start|>user<|im_end|><|eot_id|><s>[INST]";
    assert_int_equal(b1_tokenizer_encode(t, text, strlen(text), 0, &ids, &count, NULL), B1_OK);
    assert_true(count > 20);
    for (int i = 0; i < count; i++) assert_true(ids[i] >= 11); /* the first eleven are the specials */
    assert_decodes(t, "text", ids, count, false, text, strlen(text));
    b1_free(ids);
    assert_text(t, "<|im_end|><|eot_id|>", B1_ENCODE_SPECIAL, 2, 6, -1);
    static const int32_t two[] = {2, 6};
    assert_decodes(t, "specials", two, 2, false, "", 0);
    assert_decodes(t, "specials", two, 2, true, "<|im_end|><|eot_id|>", 20);
    b1_tokenizer_close(t);
}

static void bos_comes_once(void **state)
{
    (void)state;
    b1_tokenizer *t = open_tokenizer(FIXTURES "many-specials/tokenizer.json");
    unsigned both = B1_ENCODE_BOS | B1_ENCODE_DEFAULT_BOS;
    assert_int_equal(b1i_tokenizer_bos(t), 3);
    assert_text(t, "", 0, -1);
    assert_text(t, "", both, 3, -1);
    assert_text(t, "<|eot_id|>", both | B1_ENCODE_SPECIAL, 3, 6, -1);
    assert_text(t, "<|begin_of_text|><|eot_id|>", both | B1_ENCODE_SPECIAL, 3, 6, -1);
    assert_text(t, "<|begin_of_text|>", B1_ENCODE_SPECIAL, 3, -1);
    b1_tokenizer_close(t);
    t = open_tokenizer(FIXTURES "qwen2/tokenizer.json");
    int32_t *ids;
    int count;
    b1_error err;
    assert_int_equal(b1i_tokenizer_bos(t), -1);
    assert_text(t, "", B1_ENCODE_DEFAULT_BOS, -1);
    assert_int_equal(b1_tokenizer_encode(t, "a", 1, B1_ENCODE_BOS, &ids, &count, &err), B1_ARGUMENT);
    assert_null(ids);
    assert_non_null(strstr(err.message, "BOS"));
    b1_tokenizer_close(t);
}

/* A prefix space stands before the text, not before what follows a special token. */
static void prefix_at_the_start_only(void **state)
{
    (void)state;
    b1_tokenizer *t = open_tokenizer(FIXTURES "llama2-new/tokenizer.json");
    int32_t *one, *two;
    int n, m;
    assert_int_equal(b1_tokenizer_encode(t, "the", 3, B1_ENCODE_BOS, &one, &n, NULL), B1_OK);
    assert_int_equal(b1_tokenizer_encode(t, "<s>the", 6, B1_ENCODE_SPECIAL, &two, &m, NULL), B1_OK);
    assert_decodes(t, "prefix", one + 1, n - 1, true, "the", 3);
    char *text;
    size_t bytes;
    assert_int_equal(b1_tokenizer_decode(t, one, n, true, &text, &bytes, NULL), B1_OK);
    assert_string_equal(text, "<s> the"); /* the prefix is there, and only the very first space is dropped */
    b1_free(text);
    assert_int_equal(b1_tokenizer_decode(t, two, m, true, &text, &bytes, NULL), B1_OK);
    assert_string_equal(text, "<s>the");
    b1_free(text);
    b1_free(one);
    b1_free(two);
    b1_tokenizer_close(t);
}

static void streams_hold_back(void **state)
{
    (void)state;
    b1_tokenizer *t = open_tokenizer(FIXTURES "llama2/tokenizer.json");
    b1_decode_stream s = {0};
    char *buffer = malloc(b1_tokenizer_piece_max(t) + 8);
    size_t n;
    static const uint8_t smile[] = {0xf0, 0x9f, 0x98, 0x80};
    for (int i = 0; i < 4; i++) { /* tokens 3 to 258 are <0x00> to <0xFF> */
        assert_int_equal(b1_tokenizer_stream(t, &s, 3 + smile[i], false, buffer, &n, NULL), B1_OK);
        assert_int_equal(n, i == 3 ? 4 : 0);
    }
    assert_memory_equal(buffer, smile, 4);
    assert_int_equal(b1_tokenizer_stream(t, &s, 3 + 0xe4, false, buffer, &n, NULL), B1_OK);
    assert_int_equal(b1_tokenizer_stream(t, &s, 3 + 0xbd, false, buffer, &n, NULL), B1_OK);
    assert_int_equal(n, 0);
    assert_int_equal(s.held_count, 2);
    assert_int_equal(b1_tokenizer_stream(t, &s, 3 + 'x', false, buffer, &n, NULL), B1_OK);
    assert_int_equal(n, 4);
    assert_memory_equal(buffer, "\xef\xbf\xbdx", 4);
    assert_int_equal(b1_tokenizer_stream(t, &s, 3 + 0xc3, false, buffer, &n, NULL), B1_OK);
    assert_int_equal(b1_tokenizer_stream_flush(&s, buffer), 3);
    assert_memory_equal(buffer, "\xef\xbf\xbd", 3);
    assert_int_equal(s.held_count, 0);
    b1_error err;
    assert_int_equal(b1_tokenizer_stream(t, &s, -1, false, buffer, &n, &err), B1_ARGUMENT);
    assert_int_equal(b1_tokenizer_stream(t, &s, b1_tokenizer_vocab(t), false, buffer, &n, &err), B1_ARGUMENT);
    assert_non_null(strstr(err.message, "expected 0 to"));
    free(buffer);
    b1_tokenizer_close(t);
}

/* Random ids: what comes out is UTF-8, the same at once and streamed. */
static void random_ids_decode(void **state)
{
    static const char *const some[] = {"gpt2", "llama2", "metaspace-always", "added"};
    uint64_t seed = 1;
    char path[512];
    (void)state;
    for (int k = 0; k < 4; k++) {
        snprintf(path, sizeof path, FIXTURES "%s/tokenizer.json", some[k]);
        b1_tokenizer *t = open_tokenizer(path);
        for (int round = 0; round < 200; round++) {
            int32_t ids[40];
            char *text;
            size_t bytes;
            for (int i = 0; i < 40; i++) ids[i] = (int32_t)((seed = b1i_mix64(seed)) % (uint64_t)b1_tokenizer_vocab(t));
            assert_int_equal(b1_tokenizer_decode(t, ids, 40, true, &text, &bytes, NULL), B1_OK);
            json_t *valid = json_stringn(text, bytes); /* NULL where it is no UTF-8 */
            assert_non_null(valid);
            json_decref(valid);
            assert_decodes(t, some[k], ids, 40, true, text, bytes);
            b1_free(text);
        }
        b1_tokenizer_close(t);
    }
}

/* A megabyte of one letter, of spaces, of combining marks out of order: linear or nearly. */
static void long_texts(void **state)
{
    enum { LENGTH = 1 << 20 };
    static const char *const some[] = {"gpt2", "llama3", "qwen2", "tekken", "llama2", "metaspace-always", "added"};
    static const char *const units[] = {"a", " ", "\u0301\u0323", "\n", "<", "1", "ab "};
    char path[512], *text = malloc(LENGTH);
    (void)state;
    assert_non_null(text);
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        snprintf(path, sizeof path, FIXTURES "%s/tokenizer.json", some[k]);
        b1_tokenizer *t = open_tokenizer(path);
        const char *unit = units[k];
        for (size_t i = 0; i < LENGTH; i++) text[i] = unit[i % strlen(unit)];
        int32_t *ids;
        int count;
        struct timespec a, b;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        assert_int_equal(b1_tokenizer_encode(t, text, LENGTH, 0, &ids, &count, NULL), B1_OK);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
        if (seconds > 8) fail_msg("%s: %.1f s for a megabyte of \"%s\"", some[k], seconds, unit);
        assert_true(count > 1000);
        b1_free(ids);
        b1_tokenizer_close(t);
    }
    free(text);
}

/* Every allocation of opening, encoding, decoding fails once: a sentence, no leak, and then it works. */
static void allocations_fail(void **state)
{
    static const char *const some[] = {"qwen2", "llama2", "normalizers", "metaspace-always", "added"};
    static const char text[] = "It's  na\u00efve\u0301 12 <mask> \u4f60\u597d \xff </tool_call> Norm\u00c9 x";
    char path[512];
    (void)state;
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        snprintf(path, sizeof path, FIXTURES "%s/tokenizer.json", some[k]);
        for (long n = 0;; n++) {
            b1_error err = {0};
            b1_tokenizer *t = NULL;
            int32_t *ids = NULL;
            char *back = NULL;
            int count = 0;
            size_t bytes;
            long live = b1i_alloc_live();
            b1i_alloc_fail_at(n);
            b1_status st = b1_tokenizer_open(path, &t, &err);
            if (st == B1_OK) st = b1_tokenizer_encode(t, text, sizeof text - 1, B1_ENCODE_SPECIAL, &ids, &count, &err);
            if (st == B1_OK) st = b1_tokenizer_decode(t, ids, count, true, &back, &bytes, &err);
            b1i_alloc_fail_at(-1);
            if (st != B1_OK) {
                assert_int_equal(st, B1_MEMORY);
                assert_true(strlen(err.message) > 10);
                assert_true(!t || !ids || !back);
            }
            b1_free(back);
            b1_free(ids);
            b1_tokenizer_close(t);
            assert_int_equal(b1i_alloc_live(), live);
            if (st == B1_OK) break;
            assert_true(n < 100000);
        }
    }
}

static void arguments_are_checked(void **state)
{
    b1_error err;
    b1_tokenizer *t = NULL;
    int32_t *ids, bad[] = {0, 100000};
    int count;
    char *text;
    size_t bytes;
    (void)state;
    assert_int_equal(b1_tokenizer_open(NULL, &t, &err), B1_ARGUMENT);
    assert_int_equal(b1_tokenizer_open(FIXTURES "nothing", &t, &err), B1_MODEL);
    assert_null(t);
    assert_non_null(strstr(err.message, "nothing"));
    t = open_tokenizer(FIXTURES "gpt2/tokenizer.json");
    assert_int_equal(b1_tokenizer_encode(NULL, "a", 1, 0, &ids, &count, &err), B1_ARGUMENT);
    assert_int_equal(b1_tokenizer_encode(t, NULL, 1, 0, &ids, &count, &err), B1_ARGUMENT);
    assert_int_equal(b1_tokenizer_encode(t, NULL, 0, 0, &ids, &count, &err), B1_OK);
    assert_int_equal(count, 0);
    assert_non_null(ids);
    b1_free(ids);
    assert_int_equal(b1_tokenizer_encode(t, "a", (size_t)1 << 40, 0, &ids, &count, &err), B1_ARGUMENT);
    assert_int_equal(b1_tokenizer_decode(t, bad, 2, true, &text, &bytes, &err), B1_ARGUMENT);
    assert_null(text);
    assert_non_null(strstr(err.message, "100000"));
    assert_int_equal(b1_tokenizer_decode(t, NULL, 0, true, &text, &bytes, &err), B1_OK);
    assert_string_equal(text, "");
    b1_free(text);
    b1_tokenizer_close(t);
    b1_tokenizer_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_equal),           cmocka_unit_test(splits_equal),
        cmocka_unit_test(default_model_equal),      cmocka_unit_test(published_equal),
        cmocka_unit_test(specials_are_text),        cmocka_unit_test(bos_comes_once),
        cmocka_unit_test(prefix_at_the_start_only), cmocka_unit_test(streams_hold_back),
        cmocka_unit_test(random_ids_decode),        cmocka_unit_test(long_texts),
        cmocka_unit_test(allocations_fail),         cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
