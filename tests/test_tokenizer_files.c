/* SPDX-License-Identifier: MIT
 *
 * Tokenizer files that are wrong in one place: each is refused by a sentence that names the file and what is wrong,
 * and leaks nothing. And oddities that are valid.
 */
#include "loader_files.h"
#include "tokenizer_cases.h"

/* ---- tokenizer.json ---- */

#define ADDED                                                                                                  \
    "[{\"id\":4,\"content\":\"<s>\",\"special\":true,\"lstrip\":false,\"rstrip\":false,\"single_word\":false," \
    "\"normalized\":false}]"
#define VOCAB  "{\"a\":0,\"b\":1,\"ab\":2,\"abb\":3}"
#define MERGES "[\"a b\",[\"ab\",\"b\"]]"
#define BYTES  "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"

typedef struct parts {
    const char *model, *added, *normalizer, *pre, *decoder, *post;
} parts;

static char *compose(const parts *p)
{
    char *text = NULL;
    assert_true(asprintf(&text,
                         "{\"version\":\"1.0\",\"added_tokens\":%s,\"normalizer\":%s,\"pre_tokenizer\":%s,"
                         "\"post_processor\":%s,\"decoder\":%s,\"model\":%s}",
                         p->added ? p->added : ADDED, p->normalizer ? p->normalizer : "null", p->pre ? p->pre : BYTES,
                         p->post ? p->post : "null", p->decoder ? p->decoder : "null",
                         p->model ? p->model : "{\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":" MERGES "}") > 0);
    return text;
}

static b1_tokenizer *accept(const parts *p)
{
    b1_error err = {0};
    b1_tokenizer *t = NULL;
    char *text = compose(p);
    if (b1i_tokenizer_from_json(text, strlen(text), "good.json", &t, &err) != B1_OK) fail_msg("%s", err.message);
    free(text);
    return t;
}

static void refuse_text(const char *text, size_t size, const char *words)
{
    b1_error err = {0};
    b1_tokenizer *t = (b1_tokenizer *)&err;
    long live = b1i_alloc_live();
    b1_status st = b1i_tokenizer_from_json(text, size, "bad.json", &t, &err);
    if (st != B1_MODEL) fail_msg("status %d for what should say \"%s\"", st, words);
    assert_null(t);
    assert_int_equal(b1i_alloc_live(), live);
    if (!strstr(err.message, words)) fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    if (!strstr(err.message, "bad.json")) fail_msg("\"%s\" does not name the file", err.message);
}

static void refuse(const parts *p, const char *words)
{
    char *text = compose(p);
    refuse_text(text, strlen(text), words);
    free(text);
}

#define MODEL(vocab, merges, more) "{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges more "}"

static void models_are_refused(void **state)
{
    static const struct {
        const char *model, *words;
    } cases[] = {
        {"{\"type\":\"WordPiece\",\"vocab\":{}}", "WordPiece"},
        {"{\"type\":\"Unigram\",\"vocab\":[]}", "Unigram"},
        {"{\"type\":\"WordLevel\",\"vocab\":{}}", "WordLevel"},
        {"null", "model is null"},
        {"{\"type\":\"BPE\",\"vocab\":" VOCAB "}", "merges is nothing"},
        {MODEL(VOCAB, "null", ""), "merges is null"},
        {MODEL("[]", "[]", ""), "vocab is an array"},
        {MODEL("{\"a\":0,\"b\":0}", "[]", ""), "two tokens have the id 0"},
        {MODEL("{\"a\":0,\"a\":1}", "[]", ""), "same text"},
        {MODEL("{\"a\":0,\"\":1}", "[]", ""), "token 1 has 0 bytes"},
        {MODEL("{\"a\":-1}", "[]", ""), "token id is -1"},
        {MODEL("{\"a\":1.5}", "[]", ""), "token id is 1.5"},
        {MODEL("{\"a\":99999999999999999999}", "[]", ""), "token id is 999"},
        {MODEL("{\"a\":\"0\"}", "[]", ""), "token id"},
        {MODEL("{\"a\":5000000}", "[]", ""), "5000000"},
        {MODEL(VOCAB, "[\"a c\"]", ""), "merge 0: c is not in the vocabulary"},
        {MODEL(VOCAB, "[\"b a\"]", ""), "merge 0: ba is not in the vocabulary"},
        {MODEL(VOCAB, "[\"ab\"]", ""), "merge 0 is ab"},
        {MODEL(VOCAB, "[\"a b b\"]", ""), "one space"},
        {MODEL(VOCAB, "[\" b\"]", ""), "empty part"},
        {MODEL(VOCAB, "[\"a b\",\"a b\"]", ""), "merges 0 and 1 are the same"},
        {MODEL(VOCAB, "[[\"a\"]]", ""), "no pair"},
        {MODEL(VOCAB, "[[\"a\",\"b\",\"b\"]]", ""), "no pair"},
        {MODEL(VOCAB, "[[\"a\",1]]", ""), "no pair"},
        {MODEL(VOCAB, "[1]", ""), "merge 0 is a number"},
        {MODEL(VOCAB, "[]", ",\"continuing_subword_prefix\":\"##\""), "continuing_subword_prefix"},
        {MODEL(VOCAB, "[]", ",\"end_of_word_suffix\":\"</w>\""), "end_of_word_suffix"},
        {MODEL(VOCAB, "[]", ",\"dropout\":0.1"), "dropout"},
        {MODEL(VOCAB, "[]", ",\"unk_token\":\"<unk>\""), "unk_token"},
        {MODEL(VOCAB, "[]", ",\"unk_token\":3"), "unk_token"},
        {MODEL(VOCAB, "[]", ",\"byte_fallback\":1"), "byte_fallback"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) refuse(&(parts){.model = cases[i].model}, cases[i].words);
    refuse(&(parts){.added = "[{\"id\":0,\"content\":\"b\"}]"}, "the vocabulary says 1");
    refuse(&(parts){.added = "[{\"id\":1,\"content\":\"x\"}]"}, "two tokens have the id 1");
    refuse(&(parts){.added = "[{\"content\":\"x\"}]"}, "token id");
    refuse(&(parts){.added = "[{\"id\":4}]"}, "content");
    refuse(&(parts){.added = "[{\"id\":4,\"content\":\"\"}]"}, "0 bytes");
    refuse(&(parts){.added = "[5]"}, "token id");
    refuse(&(parts){.added = "{}"}, "added_tokens");
    refuse(&(parts){.added = "[{\"id\":4,\"content\":\"x\"},{\"id\":4,\"content\":\"x\"}]"}, "twice");
}

static void components_are_refused(void **state)
{
    static const char *const normalizers[] = {"BertNormalizer", "Precompiled", "Nmt",
                                              "StripAccents",   "ByteLevel",   "Zx"};
    static const char *const pres[] = {
        "BertPreTokenizer", "Whitespace", "WhitespaceSplit", "Punctuation", "CharDelimiterSplit",
        "UnicodeScripts",   "Zx"};
    static const char *const posts[] = {"BertProcessing", "RobertaProcessing", "Zx"};
    static const char *const decoders[] = {"WordPiece", "BPEDecoder", "CTC", "Zx"};
    char one[128], list[256];
    (void)state;
#define EACH(names, field, key)                                                       \
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {                       \
        snprintf(one, sizeof one, "{\"type\":\"%s\"}", names[i]);                     \
        refuse(&(parts){.field = one}, names[i]);                                     \
        snprintf(list, sizeof list, "{\"type\":\"Sequence\",\"" key "\":[%s]}", one); \
        refuse(&(parts){.field = list}, names[i]);                                    \
    }
    EACH(normalizers, normalizer, "normalizers")
    EACH(pres, pre, "pretokenizers")
    EACH(posts, post, "processors")
    EACH(decoders, decoder, "decoders")
#undef EACH
    refuse(&(parts){.normalizer = "{}"}, "without a type");
    refuse(&(parts){.normalizer = "[]"}, "without a type");
    refuse(&(parts){.pre = "{\"type\":\"Sequence\",\"pretokenizers\":[" BYTES "," BYTES "]}"}, "behind ByteLevel");
    refuse(&(parts){.pre = "null", .decoder = "{\"type\":\"ByteLevel\"}"}, "pre_tokenizer is not");
    refuse(&(parts){.decoder = "{\"type\":\"Strip\",\"content\":\"x\",\"start\":1,\"stop\":0}"}, "Strip");
    refuse(&(parts){.decoder = "{\"type\":\"Strip\",\"content\":\" \",\"start\":2,\"stop\":0}"}, "Strip");
    refuse(&(parts){.pre = "{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\"}"}, "empty");
    refuse(&(parts){.pre = "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Sideways\"}"},
           "behavior");
    refuse(&(parts){.pre = "{\"type\":\"Metaspace\",\"prepend_scheme\":\"last\"}"}, "prepend_scheme");
    refuse(&(parts){.post = "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<x>\"}}]}"},
           "template");
}

static void patterns_are_refused(void **state)
{
    static const struct {
        const char *pattern, *words;
    } cases[] = {
        {"(", "parenthesis"},         {"[a", "terminating"},
        {"a{1,3}+", "interval"},      {"[a[b]]", "class inside a class"},
        {"[a-z&&b]", "intersection"}, {"\\\\C", "not allowed|disabled"},
        {"*", "quantifier"},          {"\\\\p{Zxx}", "property"},
    };
    char pre[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(pre, sizeof pre, "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"}",
                 cases[i].pattern);
        refuse(&(parts){.pre = pre}, i == 5 ? "pattern" : cases[i].words);
    }
}

/* A pattern that backtracks without end fails, it does not hang. */
static void backtracking_ends(void **state)
{
    (void)state;
    b1_tokenizer *t =
        accept(&(parts){.pre = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
                               "{\"Regex\":\"(a|a|ab)*[cd]\"},\"behavior\":\"Isolated\"}," BYTES "]}"});
    char text[201];
    int32_t *ids;
    int count;
    b1_error err;
    memset(text, 'a', 200);
    text[200] = 0;
    assert_int_equal(b1_tokenizer_encode(t, text, 200, 0, &ids, &count, &err), B1_MODEL);
    assert_null(ids);
    assert_non_null(strstr(err.message, "pattern"));
    b1_tokenizer_close(t);
}

static void json_is_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "empty"},
        {"  ", "ends where a value"},
        {"{", "string"},
        {"[]", "an array, expected an object"},
        {"{\"a\":1}x", "behind the document"},
        {"{\"a\" 1}", "':'"},
        {"{\"a\":1,}", "string"},
        {"{\"a\":[1,]}", "value"},
        {"{\"a\":01}", "number"},
        {"{\"a\":-}", "number"},
        {"{\"a\":1.}", "number"},
        {"{\"a\":1e}", "number"},
        {"{\"a\":tru}", "value"},
        {"{\"a\":\"\\x\"}", "escape"},
        {"{\"a\":\"\\u12g4\"}", "hexadecimal"},
        {"{\"a\":\"\\ud800\"}", "surrogate"},
        {"{\"a\":\"\\ud800\\u0041\"}", "surrogate"},
        {"{\"a\":\"\\udc00\"}", "surrogate"},
        {"{\"a\":\"\n\"}", "control"},
        {"{\"a\":\"\xff\"}", "UTF-8"},
        {"{\"a\":\"\xed\xa0\x80\"}", "UTF-8"},
        {"{\"a\":\"x", "inside a string"},
        {"{\"a\":[1 2]}", "','"},
        {"{\"a\":{]}", "string"},
        {"{}", "model is nothing"},
    };
    char deep[200];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse_text(cases[i].text, strlen(cases[i].text), cases[i].words);
    memset(deep, '[', sizeof deep);
    refuse_text(deep, sizeof deep, "too deeply");
    char *whole = compose(&(parts){0});
    for (size_t n = 0; n < strlen(whole); n++) { /* cut anywhere; the copy ends where the text does, for ASan */
        char *cut = malloc(n + 1);
        assert_non_null(cut);
        memcpy(cut, whole, n);
        cut = realloc(cut, n ? n : 1);
        refuse_text(cut, n, "");
        free(cut);
    }
    free(whole);
}

static void oddities_open(void **state)
{
    (void)state;
    b1_tokenizer *t = accept(&(parts){0});
    assert_text(t, "abb", 0, 3, -1); /* both spellings of merges, by rank */
    assert_text(t, "ab<s>x", B1_ENCODE_SPECIAL, 2, 4, -1);
    assert_text(t, "bxa", 0, 1, 0, -1); /* bytes without a token are left out */
    b1_tokenizer_close(t);
    t = accept(&(parts){.model = MODEL("{\"a\":0,\"b\":1,\"ab\":7}", "[]", "")}); /* no merges; holes */
    assert_int_equal(b1_tokenizer_vocab(t), 8);
    assert_text(t, "ab", 0, 0, 1, -1);
    static const int32_t hole[] = {0, 5, 1};
    assert_decodes(t, "hole", hole, 3, true, "ab", 2);
    b1_tokenizer_close(t);
    t = accept(&(parts){.model = MODEL(VOCAB, MERGES, ",\"ignore_merges\":true,\"dropout\":0.0,\"unk_token\":null")});
    assert_text(t, "abb", 0, 3, -1);
    b1_tokenizer_close(t);
    t = accept(&(parts){.model = "{\"vocab\":{\"\\u0061\":0,\"b\":1,\"\\u0061b\":2},\"merges\":[\"\\u0061 b\"]}"});
    assert_text(t, "ab", 0, 2, -1);
    b1_tokenizer_close(t);
    /* a special token that merges would make is never made from text */
    t = accept(&(parts){.model = MODEL(VOCAB, MERGES, ",\"ignore_merges\":true"),
                        .added = "[{\"id\":2,\"content\":\"ab\",\"special\":true}]"});
    assert_text(t, "ab", 0, 0, 1, -1);
    assert_text(t, "ab", B1_ENCODE_SPECIAL, 2, -1);
    b1_tokenizer_close(t);
}

/* ---- GGUF ---- */

static const char *const gpt2_tokens[] = {"<unk>", "<s>", "</s>", "a", "b", "ab", "\u0120", "\u0120a", "<tool>"};
static const int32_t gpt2_types[] = {2, 3, 3, 1, 1, 1, 1, 1, 4};
static const char *const gpt2_merges[] = {"a b", "\u0120 a"};

static void g_gpt2(gspec *g)
{
    *g = (gspec){.version = 3, .alignment = 32};
    g_string(g, "general.architecture", "llama");
    g_string(g, "tokenizer.ggml.model", "gpt2");
    g_string(g, "tokenizer.ggml.pre", "gpt-2");
    g_strings(g, "tokenizer.ggml.tokens", 9, gpt2_tokens);
    g_ints(g, "tokenizer.ggml.token_type", 9, gpt2_types);
    g_strings(g, "tokenizer.ggml.merges", 2, gpt2_merges);
    g_u32(g, "tokenizer.ggml.bos_token_id", 1);
    g_u32(g, "tokenizer.ggml.eos_token_id", 2);
}

static void g_floats(gspec *g, const char *name, int count, const float *list)
{
    g_ints(g, name, 0, NULL);
    gkey *k = g_key(g, name, T_ARRAY);
    put_u32(&k->value, T_F32);
    put_u64(&k->value, (uint64_t)count);
    put(&k->value, list, 4 * (size_t)count);
}

static const char *const spm_tokens[] = {"<unk>",   "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xA9>", "\u2581", "a",
                                         "\u2581a", "aa",  "b",    "<tool>", "c",      "bc",     "ab"};
static const int32_t spm_types[] = {2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1, 4, 1, 1, 1};
static const float spm_scores[] = {0, 0, 0, 0, 0, 0, -1, -2, -5, -4, -3, 0, -3, -6, -6};

static void g_spm(gspec *g)
{
    *g = (gspec){.version = 3, .alignment = 32};
    g_string(g, "general.architecture", "llama");
    g_string(g, "tokenizer.ggml.model", "llama");
    g_strings(g, "tokenizer.ggml.tokens", 15, spm_tokens);
    g_ints(g, "tokenizer.ggml.token_type", 15, spm_types);
    g_floats(g, "tokenizer.ggml.scores", 15, spm_scores);
    g_u32(g, "tokenizer.ggml.bos_token_id", 1);
    g_u32(g, "tokenizer.ggml.eos_token_id", 2);
    g_u32(g, "tokenizer.ggml.unknown_token_id", 0);
}

static b1_tokenizer *g_accept(gspec *g)
{
    b1_tokenizer *t = open_tokenizer(g_write(g, "good.gguf"));
    g_clear(g);
    return t;
}

static void g_refuse(gspec *g, const char *words)
{
    b1_error err = {0};
    b1_tokenizer *t = (b1_tokenizer *)&err;
    const char *path = g_write(g, "bad.gguf");
    long live = b1i_alloc_live();
    b1_status st = b1_tokenizer_open(path, &t, &err);
    if (st != B1_MODEL) fail_msg("status %d for what should say \"%s\"", st, words);
    assert_null(t);
    assert_int_equal(b1i_alloc_live(), live);
    if (!strstr(err.message, words)) fail_msg("\"%s\" does not say \"%s\"", err.message, words);
    if (!strstr(err.message, path)) fail_msg("\"%s\" does not name the file", err.message);
    g_clear(g);
}

static void gguf_byte_level(void **state)
{
    gspec g;
    (void)state;
    g_gpt2(&g);
    b1_tokenizer *t = g_accept(&g);
    assert_text(t, "ab a", 0, 5, 7, -1);
    assert_text(t, "a<s><tool>b<unk>", 0, 3, 8, 4, -1); /* letters without a token are left out */
    assert_text(t, "a<s><tool>b<unk>", B1_ENCODE_SPECIAL, 3, 1, 8, 4, 0, -1);
    assert_text(t, "a", B1_ENCODE_DEFAULT_BOS, 3, -1);
    assert_text(t, "a", B1_ENCODE_BOS, 1, 3, -1);
    static const int32_t ids[] = {1, 5, 7, 8, 0};
    assert_decodes(t, "skip", ids, 5, false, "ab a<tool>", 10);
    assert_decodes(t, "all", ids, 5, true, "<s>ab a<tool><unk>", 18);
    b1_tokenizer_close(t);
    g_gpt2(&g);
    g_bool(&g, "tokenizer.ggml.add_bos_token", 1);
    g_u32(&g, "tokenizer.ggml.unknown_token_id", 0);
    g_u32(&g, "tokenizer.ggml.eot_token_id", 8);
    t = g_accept(&g);
    assert_text(t, "axb", B1_ENCODE_DEFAULT_BOS, 1, 3, 0, 4, -1);
    int ends[4];
    assert_int_equal(b1i_tokenizer_end_tokens(t, ends, 4), 2);
    assert_int_equal(ends[1], 8);
    b1_tokenizer_close(t);
    g_gpt2(&g);
    g_u32(&g, "tokenizer.ggml.unknown_token_id", 1); /* a control token stands for no text */
    g_strings(&g, "tokenizer.ggml.merges", 0, NULL);
    t = g_accept(&g);
    assert_text(t, "axb", 0, 3, 4, -1);
    b1_tokenizer_close(t);
}

static void gguf_sentencepiece(void **state)
{
    gspec g;
    (void)state;
    g_spm(&g);
    b1_tokenizer *t = g_accept(&g);
    assert_text(t, "aaa", 0, 6, 9, 7, -1); /* the best score merges first, of equals the leftmost */
    assert_text(t, "a b", 0, 8, 6, 10, -1);
    assert_text(t, "babc", 0, 6, 10, 14, 12, -1); /* ab and bc have one score: the left one, though its id is higher */
    assert_text(t, " a", 0, 6, 8, -1);
    assert_text(t, "\n\u00e9", 0, 6, 3, 4, 5, -1);
    assert_text(t, "b\u00ea", 0, 6, 10, 0, -1); /* not all its bytes have a token: unknown */
    assert_text(t, "<s>a", 0, 6, 0, 0, 0, 7, -1);
    assert_text(t, "a<s>a", B1_ENCODE_SPECIAL, 8, 1, 7, -1); /* no prefix behind a special token */
    assert_text(t, "a<tool>a", 0, 8, 11, 7, -1);
    assert_text(t, "", B1_ENCODE_DEFAULT_BOS, 1, -1);
    assert_text(t, "a", B1_ENCODE_DEFAULT_BOS, 1, 8, -1);
    static const int32_t ids[] = {1, 8, 6, 10, 3, 4, 5, 4};
    assert_decodes(t, "skip", ids, 8, false, "a b\n\u00e9\ufffd", 9);
    assert_decodes(t, "all", ids, 8, true, "<s> a b\n\u00e9\ufffd", 13);
    b1_tokenizer_close(t);
    g_spm(&g);
    g_bool(&g, "tokenizer.ggml.add_space_prefix", 0);
    g_bool(&g, "tokenizer.ggml.add_bos_token", 0);
    t = g_accept(&g);
    assert_text(t, "aaa", B1_ENCODE_DEFAULT_BOS, 9, 7, -1);
    static const int32_t spaced[] = {8, 8};
    assert_decodes(t, "no prefix", spaced, 2, false, " a a", 4);
    b1_tokenizer_close(t);
}

#define G_REFUSE(base, words, ...) \
    do {                           \
        base(&g);                  \
        __VA_ARGS__;               \
        g_refuse(&g, words);       \
    } while (0)

/* The tokens with one replaced. */
static void g_token(gspec *g, int id, const char *text)
{
    const char *tokens[9];
    memcpy(tokens, gpt2_tokens, sizeof tokens);
    tokens[id] = text;
    g_strings(g, "tokenizer.ggml.tokens", 9, tokens);
}

static void g_type(gspec *g, int id, int32_t type)
{
    int32_t types[9];
    memcpy(types, gpt2_types, sizeof types);
    types[id] = type;
    g_ints(g, "tokenizer.ggml.token_type", 9, types);
}

static void g_score(gspec *g, int id, float score)
{
    float scores[15];
    memcpy(scores, spm_scores, sizeof scores);
    scores[id] = score;
    g_floats(g, "tokenizer.ggml.scores", 15, scores);
}

static void g_merge(gspec *g, const char *merge)
{
    const char *merges[] = {"a b", merge};
    g_strings(g, "tokenizer.ggml.merges", 2, merges);
}

static void gguf_is_refused(void **state)
{
    gspec g;
    const char *spm[15];
    (void)state;
    G_REFUSE(g_gpt2, "bert", g_string(&g, "tokenizer.ggml.model", "bert"));
    G_REFUSE(g_gpt2, "tokenizer.ggml.model", g_drop_key(&g, "tokenizer.ggml.model"));
    G_REFUSE(g_gpt2, "strange", g_string(&g, "tokenizer.ggml.pre", "strange"));
    G_REFUSE(g_gpt2, "tokenizer.ggml.tokens is missing", g_drop_key(&g, "tokenizer.ggml.tokens"));
    G_REFUSE(g_gpt2, "wrong type", g_string(&g, "tokenizer.ggml.tokens", "x"));
    G_REFUSE(g_gpt2, "wrong type", g_ints(&g, "tokenizer.ggml.tokens", 9, gpt2_types));
    G_REFUSE(g_gpt2, "vocabulary of 0", g_strings(&g, "tokenizer.ggml.tokens", 0, NULL);
             g_drop_key(&g, "tokenizer.ggml.token_type"));
    G_REFUSE(g_gpt2, "8 items, but there are 9", g_ints(&g, "tokenizer.ggml.token_type", 8, gpt2_types));
    G_REFUSE(g_gpt2, "type 0", g_type(&g, 3, 0));
    G_REFUSE(g_gpt2, "type 7", g_type(&g, 3, 7));
    G_REFUSE(g_gpt2, "type -1", g_type(&g, 3, -1));
    G_REFUSE(g_gpt2, "same text", g_token(&g, 4, "a"));
    G_REFUSE(g_gpt2, "0 bytes", g_token(&g, 4, ""));
    G_REFUSE(g_gpt2, "not UTF-8", g_token(&g, 4, "\xff"));
    G_REFUSE(g_gpt2, "U+0020", g_token(&g, 4, "b b"));
    G_REFUSE(g_gpt2, "U+2581", g_token(&g, 4, "\u2581"));
    G_REFUSE(g_gpt2, "merge 0: b is not in the vocabulary", g_token(&g, 4, "c"));
    G_REFUSE(g_gpt2, "merges is missing", g_drop_key(&g, "tokenizer.ggml.merges"));
    G_REFUSE(g_gpt2, "merge 1 is ab", g_merge(&g, "ab"));
    G_REFUSE(g_gpt2, "merge 1 is a b b", g_merge(&g, "a b b"));
    G_REFUSE(g_gpt2, "merge 1 is ,", g_merge(&g, ""));
    G_REFUSE(g_gpt2, "empty part", g_merge(&g, "a "));
    G_REFUSE(g_gpt2, "merges 0 and 1", g_merge(&g, "a b"));
    G_REFUSE(g_gpt2, "ba is not in", g_merge(&g, "b a"));
    G_REFUSE(g_gpt2, "bos_token_id is 9", g_u32(&g, "tokenizer.ggml.bos_token_id", 9));
    G_REFUSE(g_gpt2, "eos_token_id is -1", g_i32(&g, "tokenizer.ggml.eos_token_id", -1));
    G_REFUSE(g_gpt2, "padding_token_id", g_u32(&g, "tokenizer.ggml.padding_token_id", 0xffffffffu));
    G_REFUSE(g_gpt2, "eos_token_id", g_string(&g, "tokenizer.ggml.eos_token_id", "2"));
    G_REFUSE(g_gpt2, "chat_template", g_string(&g, "tokenizer.chat_template", "a\xff"));
    G_REFUSE(g_gpt2, "add_bos_token", g_u32(&g, "tokenizer.ggml.add_bos_token", 1));
    G_REFUSE(g_spm, "scores is missing", g_drop_key(&g, "tokenizer.ggml.scores"));
    G_REFUSE(g_spm, "11 items", g_floats(&g, "tokenizer.ggml.scores", 11, spm_scores));
    G_REFUSE(g_spm, "token 7 is not finite", g_score(&g, 7, (float)(0.0 / 0.0)));
    G_REFUSE(g_spm, "token 8 is not finite", g_score(&g, 8, (float)(1.0 / 0.0)));
    memcpy(spm, spm_tokens, sizeof spm);
    spm[3] = "<0xzz>";
    G_REFUSE(g_spm, "<0x0A>", g_strings(&g, "tokenizer.ggml.tokens", 15, spm));
}

static int setup(void **state)
{
    (void)state;
    folder_make("tokenizer");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_refused),   cmocka_unit_test(components_are_refused),
        cmocka_unit_test(patterns_are_refused), cmocka_unit_test(backtracking_ends),
        cmocka_unit_test(json_is_refused),      cmocka_unit_test(oddities_open),
        cmocka_unit_test(gguf_byte_level),      cmocka_unit_test(gguf_sentencepiece),
        cmocka_unit_test(gguf_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
