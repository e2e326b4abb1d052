/* SPDX-License-Identifier: MIT
 *
 * A tokenizer from a GGUF file's keys: `gpt2` (byte-level BPE with merges) and `llama` (SentencePiece BPE with scores
 * and byte fallback). The file names its pre-tokeniser and does not spell it: the table below does.
 *
 * Refused: other models, unknown pre-tokenisers, arrays whose lengths disagree, token types outside 1 to 6, scores
 * that are no numbers, byte-level tokens outside the alphabet, special ids outside the vocabulary.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer_impl.h"

#define META "\xe2\x96\x81" /* U+2581, SentencePiece's space */

/* ---- pre-tokenisers ---- */

enum { PATTERNS_MAX = 6 };

typedef struct splitter {
    const char *patterns[PATTERNS_MAX]; /* one after the other, each isolating its matches */
} splitter;

#define WORDS         " ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define GPT2          "'s|'t|'re|'ve|'m|'ll|'d|" WORDS
#define ENDINGS       "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES        "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER         "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER         "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NO_WORD       "[^\\r\\n\\p{L}\\p{N}]?"
#define CASED(ending) NO_WORD UPPER "*" LOWER "+" ending "|" NO_WORD UPPER "+" LOWER "*" ending

static const splitter split_gpt2 = {{GPT2}};
static const splitter split_digits_gpt2 = {{"\\p{N}", GPT2}};
static const splitter split_plain = {{"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}};
static const splitter split_falcon = {{"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}};
static const splitter split_llama3 = {
    {ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES}};
static const splitter split_qwen2 = {
    {ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES}};
static const splitter split_qwen35 = {
    {ENDINGS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES}};
static const splitter split_tekken = {{CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES}};
static const splitter split_gpt4o = {{CASED(ENDINGS "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES}};
static const splitter split_deepseek_coder = {{"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                                               "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+",
                                               "\\p{N}"}};
static const splitter split_deepseek_v3 = {
    {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
     " ?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES}};

/* The letters that have case, as this family's files list them. */
#define CASED_LETTERS                                                                                      \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}"        \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}" \
    "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}"        \
    "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"      \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}"      \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}"                 \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}"                \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}"      \
    "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}"        \
    "\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}"                 \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}"                 \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"       \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}"      \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}"                     \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}"                 \
    "\\x{1e900}-\\x{1e943}"
static const splitter split_deepseek_llm = {
    {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
     "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+", "\\s+$",
     "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+", "\\p{N}+"}};

typedef struct pre_tokenizer {
    const char *name;
    const splitter *split;
    bool ignore_merges, nfc, bos;
    bool foreign; /* normal tokens outside the byte-level alphabet are in this family's files; text never makes them */
} pre_tokenizer;

static const pre_tokenizer pre_tokenizers[] = {
    {"default", &split_plain, false, false, false, false},
    {"gpt-2", &split_gpt2, false, false, false, false},
    {"phi-2", &split_gpt2, false, false, false, false},
    {"mpt", &split_gpt2, false, false, false, false},
    {"olmo", &split_gpt2, false, false, false, false},
    {"jais", &split_gpt2, false, false, false, false},
    {"smollm", &split_digits_gpt2, false, false, false, false},
    {"starcoder", &split_digits_gpt2, false, false, false, false},
    {"refact", &split_digits_gpt2, false, false, false, false},
    {"codeshell", &split_digits_gpt2, false, false, false, false},
    {"exaone", &split_digits_gpt2, false, false, false, false},
    {"command-r", &split_digits_gpt2, false, false, true, true},
    {"falcon", &split_falcon, false, false, false, false},
    {"llama-bpe", &split_llama3, true, false, true, false},
    {"llama-v3", &split_llama3, true, false, true, false},
    {"llama3", &split_llama3, true, false, true, false},
    {"falcon3", &split_llama3, true, false, false, false},
    {"pixtral", &split_llama3, true, false, true, false},
    {"smaug-bpe", &split_llama3, false, false, true, false},
    {"dbrx", &split_llama3, false, false, false, false},
    {"qwen2", &split_qwen2, false, true, false, false},
    {"deepseek-r1-qwen", &split_qwen2, false, true, true, false},
    {"megrez", &split_qwen2, false, true, false, false},
    {"qwen35", &split_qwen35, false, false, false, false},
    {"tekken", &split_tekken, true, false, true, false},
    {"gpt-4o", &split_gpt4o, false, false, false, false},
    {"llama4", &split_gpt4o, false, false, true, false},
    {"deepseek-llm", &split_deepseek_llm, false, false, true, false},
    {"deepseek-coder", &split_deepseek_coder, false, false, true, false},
    {"deepseek-v3", &split_deepseek_v3, false, false, true, false},
};

static const pre_tokenizer *find_pre(b1i_gguf_string_view name)
{
    for (size_t i = 0; i < sizeof pre_tokenizers / sizeof *pre_tokenizers; i++) {
        const pre_tokenizer *p = &pre_tokenizers[i];
        if (strlen(p->name) == name.bytes && !memcmp(p->name, name.text, name.bytes)) return p;
    }
    return NULL;
}

/* ---- arrays ---- */

/* The array of that name; `item` and the length must fit, count 0 fits all. */
static b1_status find_array(const b1i_gguf *g, const char *name, b1i_gguf_type item, uint64_t count, bool needed,
                            const b1i_gguf_key **out, b1_error *err)
{
    const b1i_gguf_key *k = b1i_gguf_find(g, name);
    *out = k;
    if (!k && !needed) return B1_OK;
    if (!k) return b1i_fail(err, B1_MODEL, "%s: %s is missing", g->map.path, name);
    bool fits = k->item == item || (item == b1i_gguf_i32 && k->item == b1i_gguf_u32);
    if (k->type != b1i_gguf_array || !fits)
        return b1i_fail(err, B1_MODEL, "%s: %s has the wrong type, expected an array of %s", g->map.path, name,
                        item == b1i_gguf_string ? "strings"
                        : item == b1i_gguf_f32  ? "f32"
                                                : "i32");
    if (count && k->count != count)
        return b1i_fail(err, B1_MODEL, "%s: %s has %llu items, but there are %llu tokens", g->map.path, name,
                        (unsigned long long)k->count, (unsigned long long)count);
    return B1_OK;
}

/* Normal tokens of a byte-level vocabulary consist of the alphabet. */
static b1_status check_alphabet(const b1_tokenizer *t, int32_t id, b1_error *err)
{
    const b1i_token *k = &t->token[id];
    char shown[48];
    for (size_t i = 0; i < k->bytes;) {
        uint32_t code = 0;
        bool cut;
        i += (size_t)b1i_utf8_step(k->text + i, k->bytes - i, &code, &cut); /* it was found to be UTF-8 */
        if (b1i_alphabet_byte(code) < 0)
            return b1i_fail(err, B1_MODEL, "%s: token %d (%s) has U+%04X, which is not of the byte-level alphabet",
                            t->path, id, b1i_show(k->text, k->bytes, shown), code);
    }
    return B1_OK;
}

static b1_status read_tokens(b1_tokenizer *t, const b1i_gguf *g, bool foreign, b1_error *err)
{
    b1_status st;
    const b1i_gguf_key *tokens, *types;
    b1i_gguf_string_view v;
    B1I_TRY(find_array(g, "tokenizer.ggml.tokens", b1i_gguf_string, 0, true, &tokens, err));
    B1I_TRY(find_array(g, "tokenizer.ggml.token_type", b1i_gguf_i32, tokens->count, false, &types, err));
    if (tokens->count > B1I_VOCAB_MAX)
        return b1i_fail(err, B1_MODEL, "%s: %llu tokens, expected at most %d", t->path,
                        (unsigned long long)tokens->count, B1I_VOCAB_MAX);
    B1I_TRY(b1i_vocab_reserve(t, (int64_t)tokens->count, err));
    char *room = b1i_arena_take(&t->arena, tokens->value_bytes);
    if (!room) return b1i_fail_memory(err, tokens->value_bytes);
    b1i_gguf_walk w = {tokens->value, 0};
    for (int32_t id = 0; b1i_gguf_next_string(tokens, &w, &v); id++) {
        int32_t type = b1i_token_normal;
        if (types) memcpy(&type, types->value + 4 * (size_t)id, 4);
        if (type < b1i_token_normal || type >= b1i_token_kinds)
            return b1i_fail(err, B1_MODEL, "%s: token %d has the type %d, expected 1 to %d", t->path, id, type,
                            b1i_token_kinds - 1);
        if (v.bytes) memcpy(room, v.text, v.bytes);
        B1I_TRY(b1i_vocab_add(t, id, room, v.bytes, (b1i_token_kind)type, err));
        room += v.bytes;
        if (type == b1i_token_normal && t->byte_level && !foreign) B1I_TRY(check_alphabet(t, id, err));
        bool special = type == b1i_token_control || type == b1i_token_unknown;
        if (special || type == b1i_token_user) B1I_TRY(b1i_added_note(t, id, special, false, false, false, false, err));
    }
    return B1_OK;
fail:
    return st;
}

static b1_status read_merges(b1_tokenizer *t, const b1i_gguf *g, b1_error *err)
{
    b1_status st;
    const b1i_gguf_key *merges;
    b1i_gguf_string_view v;
    char shown[48];
    B1I_TRY(find_array(g, "tokenizer.ggml.merges", b1i_gguf_string, 0, true, &merges, err));
    B1I_TRY(b1i_merges_reserve(t, merges->count, err));
    b1i_gguf_walk w = {merges->value, 0};
    for (uint32_t rank = 0; b1i_gguf_next_string(merges, &w, &v); rank++) {
        const char *space = v.bytes ? memchr(v.text, ' ', v.bytes) : NULL;
        size_t left = space ? (size_t)(space - v.text) : 0;
        if (!space || memchr(space + 1, ' ', v.bytes - left - 1))
            return b1i_fail(err, B1_MODEL, "%s: merge %u is %s, expected two tokens with one space between", t->path,
                            rank, b1i_show(v.text, v.bytes, shown));
        B1I_TRY(b1i_merges_add(t, rank, v.text, left, space + 1, v.bytes - left - 1, err));
    }
    return B1_OK;
fail:
    return st;
}

/* ---- merging by score ---- */

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int by_score(const void *left, const void *right)
{
    const scored *a = left, *b = right;
    return a->score != b->score ? (a->score > b->score ? -1 : 1) : (a->id > b->id) - (a->id < b->id);
}

static b1_status read_scores(b1_tokenizer *t, const b1i_gguf *g, b1_error *err)
{
    b1_status st;
    const b1i_gguf_key *scores;
    size_t count = (size_t)t->vocab;
    scored *order = NULL;
    B1I_TRY(find_array(g, "tokenizer.ggml.scores", b1i_gguf_f32, count, true, &scores, err));
    order = b1i_malloc(count * sizeof *order);
    t->score_rank = b1i_malloc(count * sizeof *t->score_rank);
    if (!order || !t->score_rank) {
        st = b1i_fail_memory(err, count * sizeof *order);
        goto fail;
    }
    for (size_t i = 0; i < count; i++) {
        order[i].id = (int32_t)i;
        memcpy(&order[i].score, scores->value + 4 * i, 4);
        if (isfinite(order[i].score)) continue;
        st = b1i_fail(err, B1_MODEL, "%s: the score of token %zu is not finite", t->path, i);
        goto fail;
    }
    qsort(order, count, sizeof *order, by_score);
    for (size_t i = 0; i < count; i++) /* equal scores have equal rank: then the leftmost merges first */
        t->score_rank[order[i].id] =
            i && order[i].score == order[i - 1].score ? t->score_rank[order[i - 1].id] : (uint32_t)i;
    st = B1_OK;
fail:
    b1i_free(order);
    return st;
}

/* ---- specials ---- */

static b1_status special_id(const b1_tokenizer *t, const b1i_gguf *g, const char *name, int32_t *out, b1_error *err)
{
    int64_t id;
    b1_status st = b1i_gguf_int(g, name, false, -1, &id, err);
    if (st != B1_OK) return st;
    if (id >= t->vocab || (id < 0 && b1i_gguf_find(g, name)))
        return b1i_fail(err, B1_MODEL, "%s: %s is %lld, expected 0 to %d", t->path, name, (long long)id, t->vocab - 1);
    *out = (int32_t)id;
    return B1_OK;
}

static b1_status read_specials(b1_tokenizer *t, const b1i_gguf *g, bool bos_default, b1_error *err)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    static const char *const checked[] = {"tokenizer.ggml.padding_token_id", "tokenizer.ggml.seperator_token_id",
                                          "tokenizer.ggml.mask_token_id"};
    b1_status st;
    int32_t id;
    B1I_TRY(special_id(t, g, "tokenizer.ggml.bos_token_id", &t->bos, err));
    for (int i = 0; i < 3; i++) {
        B1I_TRY(special_id(t, g, ends[i], &id, err));
        if (id >= 0) B1I_TRY(b1i_tokenizer_add_end(t, id, err));
        B1I_TRY(special_id(t, g, checked[i], &id, err));
    }
    /* A byte-level file names as unknown what its configuration does; the BPE model itself uses it only where the
     * token is of that type. */
    B1I_TRY(special_id(t, g, "tokenizer.ggml.unknown_token_id", &id, err));
    if (id >= 0 && (!t->byte_level || t->token[id].kind == b1i_token_unknown)) t->unknown = id;
    B1I_TRY(b1i_gguf_boolean(g, "tokenizer.ggml.add_bos_token", false, bos_default, &t->bos_default, err));
    if (t->bos < 0) t->bos_default = false;
    return B1_OK;
fail:
    return st;
}

static b1_status read_template(b1_tokenizer *t, const b1i_gguf *g, b1_error *err)
{
    b1i_gguf_string_view v = {0};
    b1_status st = b1i_gguf_text(g, "tokenizer.chat_template", false, &v, err);
    if (st != B1_OK || !v.bytes) return st;
    if (!b1i_utf8_valid(v.text, v.bytes) || memchr(v.text, 0, v.bytes))
        return b1i_fail(err, B1_MODEL, "%s: tokenizer.chat_template is not UTF-8 text", t->path);
    char *copy = b1i_arena_take(&t->arena, v.bytes + 1);
    if (!copy) return b1i_fail_memory(err, v.bytes + 1);
    memcpy(copy, v.text, v.bytes);
    copy[v.bytes] = 0;
    t->chat_template = copy;
    return B1_OK;
}

/* ---- the two models ---- */

static b1_status read_byte_level(b1_tokenizer *t, const b1i_gguf *g, b1_error *err)
{
    b1_status st;
    char shown[48];
    b1i_gguf_string_view name = {"default", 7};
    B1I_TRY(b1i_gguf_text(g, "tokenizer.ggml.pre", false, &name, err));
    if (!name.text) name = (b1i_gguf_string_view){"default", 7};
    const pre_tokenizer *pre = find_pre(name);
    if (!pre)
        return b1i_fail(err, B1_MODEL, "%s: tokenizer.ggml.pre is %s, a pre-tokeniser that is not known here", t->path,
                        b1i_show(name.text, name.bytes, shown));
    t->byte_level = true;
    t->ignore_merges = pre->ignore_merges;
    if (pre->nfc) {
        b1i_step *step = b1i_steps_add(&t->normalize, b1i_step_unicode, t->path, err);
        if (!step) return B1_MODEL;
        step->compose = true;
    }
    for (int i = 0; i < PATTERNS_MAX && pre->split->patterns[i]; i++) {
        const char *pattern = pre->split->patterns[i];
        b1i_step *step = b1i_steps_add(&t->split, b1i_step_split, t->path, err);
        if (!step) return B1_MODEL;
        B1I_TRY(b1i_regex_compile(pattern, strlen(pattern), t->path, &step->regex, err));
    }
    B1I_TRY(read_tokens(t, g, pre->foreign, err));
    B1I_TRY(read_merges(t, g, err));
    return read_specials(t, g, pre->bos, err);
fail:
    return st;
}

static b1_status read_sentencepiece(b1_tokenizer *t, const b1i_gguf *g, b1_error *err)
{
    b1_status st;
    bool prefix;
    t->byte_fallback = true;
    B1I_TRY(b1i_gguf_boolean(g, "tokenizer.ggml.add_space_prefix", false, true, &prefix, err));
    b1i_step *step = b1i_steps_add(&t->normalize, b1i_step_replace, t->path, err);
    if (!step) return B1_MODEL;
    *step = (b1i_step){.kind = b1i_step_replace, .literal = " ", .literal_bytes = 1, .text = META, .text_bytes = 3};
    if (prefix) {
        if (!(step = b1i_steps_add(&t->normalize, b1i_step_prepend, t->path, err))) return B1_MODEL;
        *step = (b1i_step){.kind = b1i_step_prepend, .when = b1i_first, .text = META, .text_bytes = 3};
    }
    t->from = META;
    t->from_bytes = 3;
    t->to = " ";
    t->to_bytes = 1;
    t->strip_first = prefix;
    B1I_TRY(read_tokens(t, g, true, err));
    B1I_TRY(read_scores(t, g, err));
    return read_specials(t, g, true, err);
fail:
    return st;
}

b1_status b1i_tokenizer_from_gguf(const b1i_gguf *g, b1_tokenizer **out, b1_error *err)
{
    b1_status st;
    b1_tokenizer *t = NULL;
    b1i_gguf_string_view model = {0};
    char shown[48];
    *out = NULL;
    B1I_TRY(b1i_tokenizer_new(g->map.path, &t, err));
    B1I_TRY(b1i_gguf_text(g, "tokenizer.ggml.model", true, &model, err));
    if (model.bytes == 4 && !memcmp(model.text, "gpt2", 4)) {
        B1I_TRY(read_byte_level(t, g, err));
    } else if (model.bytes == 5 && !memcmp(model.text, "llama", 5)) {
        B1I_TRY(read_sentencepiece(t, g, err));
    } else {
        st = b1i_fail(err, B1_MODEL, "%s: tokenizer.ggml.model is %s, expected gpt2 or llama", t->path,
                      b1i_show(model.text, model.bytes, shown));
        goto fail;
    }
    B1I_TRY(read_template(t, g, err));
    B1I_TRY(b1i_tokenizer_finish(t, err));
    *out = t;
    return B1_OK;
fail:
    b1_tokenizer_close(t);
    return st;
}
