/* SPDX-License-Identifier: MIT
 *
 * The components of a tokenizer.json around its model, as `tokenizers` defines them: normalizer, pre_tokenizer,
 * decoder, post_processor. A component that is not known here is refused by its name, for a step left out would give
 * other tokens without a word.
 */
#include <string.h>

#include "model/tokenizer_json.h"

#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define META         "\xe2\x96\x81" /* U+2581, SentencePiece's space */

enum { NESTING_MAX = 8 };

typedef struct part {
    const char *type;
    b1_status (*read)(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err);
    int kind;
} part;

/* Finds the reader of v's type; null is nothing. */
static b1_status dispatch(b1_tokenizer *t, b1i_json v, const char *what, const part *parts, size_t count, int depth,
                          b1_error *err)
{
    char shown[48] = "?";
    size_t bytes;
    bool plain;
    if (!v || *v == 'n') return B1_OK;
    b1i_json type = b1i_json_get(v, "type");
    if (!b1i_json_is(type, '"') || depth > NESTING_MAX)
        return b1i_fail(err, B1_MODEL, "%s: %s is %s without a type, or nested too deeply", t->path, what,
                        b1i_json_kind(v));
    for (size_t i = 0; i < count; i++)
        if (b1i_json_equals(type, parts[i].type)) return parts[i].read(t, v, parts[i].kind, depth, err);
    const char *raw = b1i_json_raw(type, &bytes, &plain);
    return b1i_fail(err, B1_MODEL, "%s: %s %s is not supported", t->path, what, b1i_show(raw, bytes, shown));
}

#define DISPATCH(t, v, what, parts, depth, err) dispatch(t, v, what, parts, sizeof(parts) / sizeof *(parts), depth, err)

/* {"String": …} or {"Regex": …}, or a bare string. */
static b1_status read_pattern(b1_tokenizer *t, b1i_json v, b1i_step *step, b1_error *err)
{
    b1_status st;
    const char *text;
    size_t bytes;
    b1i_json regex = b1i_json_get(v, "Regex"), literal = b1i_json_is(v, '"') ? v : b1i_json_get(v, "String");
    B1I_TRY(b1i_json_text(t, regex ? regex : literal, "a pattern", &text, &bytes, err));
    if (regex) return b1i_regex_compile(text, bytes, t->path, &step->regex, err);
    if (!bytes) return b1i_fail(err, B1_MODEL, "%s: an empty pattern is not supported", t->path);
    step->literal = text;
    step->literal_bytes = bytes;
    return B1_OK;
fail:
    return st;
}

static b1i_step *add_split(b1_tokenizer *t, b1i_behaviour behaviour, b1_error *err)
{
    b1i_step *step = b1i_steps_add(&t->split, b1i_step_split, t->path, err);
    if (step) step->behaviour = behaviour;
    return step;
}

/* ---- normalizer ---- */

enum { NFC, NFD, NFKC, NFKD };

static b1_status read_form(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    (void)v;
    (void)depth;
    b1i_step *step = b1i_steps_add(&t->normalize, b1i_step_unicode, t->path, err);
    if (!step) return B1_MODEL;
    step->compose = kind == NFC || kind == NFKC;
    step->compatible = kind == NFKC || kind == NFKD;
    return B1_OK;
}

static b1_status read_simple(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    (void)depth;
    b1i_step *step = b1i_steps_add(&t->normalize, (b1i_step_kind)kind, t->path, err);
    if (!step) return B1_MODEL;
    if (kind == b1i_step_strip) {
        B1I_TRY(b1i_json_flag(t, v, "strip_left", true, &step->left, err));
        B1I_TRY(b1i_json_flag(t, v, "strip_right", true, &step->right, err));
    } else if (kind == b1i_step_prepend) {
        B1I_TRY(b1i_json_text(t, b1i_json_get(v, "prepend"), "prepend", &step->text, &step->text_bytes, err));
    } else if (kind == b1i_step_replace) {
        B1I_TRY(read_pattern(t, b1i_json_get(v, "pattern"), step, err));
        B1I_TRY(b1i_json_text(t, b1i_json_get(v, "content"), "content", &step->text, &step->text_bytes, err));
    }
    return B1_OK;
fail:
    return st;
}

static b1_status read_normalizers(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err);
static const part normalizer_parts[] = {
    {"Sequence", read_normalizers, 0},
    {"NFC", read_form, NFC},
    {"NFD", read_form, NFD},
    {"NFKC", read_form, NFKC},
    {"NFKD", read_form, NFKD},
    {"Lowercase", read_simple, b1i_step_lowercase},
    {"Strip", read_simple, b1i_step_strip},
    {"Prepend", read_simple, b1i_step_prepend},
    {"Replace", read_simple, b1i_step_replace},
};

static b1_status read_normalizers(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    b1i_json item;
    (void)kind;
    for (b1i_json_walk w = {b1i_json_get(v, "normalizers"), false}; b1i_json_next(&w, NULL, &item);)
        B1I_TRY(DISPATCH(t, item, "normalizer", normalizer_parts, depth + 1, err));
    return B1_OK;
fail:
    return st;
}

b1_status b1i_json_normalizer(b1_tokenizer *t, b1i_json v, b1_error *err)
{
    return DISPATCH(t, v, "normalizer", normalizer_parts, 0, err);
}

/* ---- pre_tokenizer ---- */

static b1_status read_byte_level(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    bool prefix, regex;
    (void)kind;
    (void)depth;
    B1I_TRY(b1i_json_flag(t, v, "add_prefix_space", true, &prefix, err));
    B1I_TRY(b1i_json_flag(t, v, "use_regex", true, &regex, err));
    if (prefix) {
        b1i_step *step = b1i_steps_add(&t->split, b1i_step_prefix, t->path, err);
        if (!step) return B1_MODEL;
        step->text = " ";
        step->text_bytes = 1;
    }
    if (regex) {
        b1i_step *step = add_split(t, b1i_isolated, err);
        if (!step) return B1_MODEL;
        B1I_TRY(b1i_regex_compile(GPT2_PATTERN, strlen(GPT2_PATTERN), t->path, &step->regex, err));
    }
    t->byte_level = true;
    return B1_OK;
fail:
    return st;
}

static b1_status read_split(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    b1_status st;
    b1i_json behaviour = b1i_json_get(v, "behavior");
    int b = 0;
    (void)kind;
    (void)depth;
    while (b < 5 && !b1i_json_equals(behaviour, names[b])) b++;
    if (b == 5)
        return b1i_fail(err, B1_MODEL, "%s: the behavior of a Split is unknown, expected Isolated, Removed, …",
                        t->path);
    b1i_step *step = add_split(t, (b1i_behaviour)b, err);
    if (!step) return B1_MODEL;
    B1I_TRY(b1i_json_flag(t, v, "invert", false, &step->invert, err));
    B1I_TRY(read_pattern(t, b1i_json_get(v, "pattern"), step, err));
    return B1_OK;
fail:
    return st;
}

static b1_status read_digits(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    bool individual;
    (void)kind;
    (void)depth;
    B1I_TRY(b1i_json_flag(t, v, "individual_digits", false, &individual, err));
    b1i_step *step = add_split(t, individual ? b1i_isolated : b1i_contiguous, err);
    if (!step) return B1_MODEL;
    return b1i_regex_compile("\\p{N}", 5, t->path, &step->regex, err);
fail:
    return st;
}

/* `prepend_scheme`, or add_prefix_space of older files. */
static b1_status read_scheme(b1_tokenizer *t, b1i_json v, b1i_when *when, b1_error *err)
{
    static const char *const names[] = {"never", "first", "always"};
    bool prefix;
    b1i_json scheme = b1i_json_get(v, "prepend_scheme");
    b1_status st = b1i_json_flag(t, v, "add_prefix_space", true, &prefix, err);
    if (st != B1_OK) return st;
    *when = prefix ? b1i_always : b1i_never;
    if (!scheme || *scheme == 'n') return B1_OK;
    for (int i = 0; i < 3; i++) {
        if (!b1i_json_equals(scheme, names[i])) continue;
        *when = (b1i_when)i;
        return B1_OK;
    }
    return b1i_fail(err, B1_MODEL, "%s: prepend_scheme is unknown, expected never, first or always", t->path);
}

static b1_status read_metaspace(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    const char *space = META;
    size_t bytes = strlen(META);
    b1i_when when;
    bool cut;
    b1i_json replacement = b1i_json_get(v, "replacement");
    (void)kind;
    (void)depth;
    if (replacement) B1I_TRY(b1i_json_text(t, replacement, "replacement", &space, &bytes, err));
    if (!bytes) return b1i_fail(err, B1_MODEL, "%s: Metaspace has an empty replacement", t->path);
    B1I_TRY(read_scheme(t, v, &when, err));
    B1I_TRY(b1i_json_flag(t, v, "split", true, &cut, err));
    b1i_step *step = b1i_steps_add(&t->split, b1i_step_replace, t->path, err);
    if (!step) return B1_MODEL;
    step->literal = " ";
    step->literal_bytes = 1;
    step->text = space;
    step->text_bytes = bytes;
    if (when != b1i_never) {
        if (!(step = b1i_steps_add(&t->split, b1i_step_prefix, t->path, err))) return B1_MODEL;
        step->when = when;
        step->text = space;
        step->text_bytes = bytes;
    }
    if (cut) {
        if (!(step = add_split(t, b1i_merged_with_next, err))) return B1_MODEL;
        step->literal = space;
        step->literal_bytes = bytes;
    }
    return B1_OK;
fail:
    return st;
}

static b1_status read_pre_tokenizers(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err);
static const part pre_tokenizer_parts[] = {
    {"Sequence", read_pre_tokenizers, 0}, {"ByteLevel", read_byte_level, 0}, {"Split", read_split, 0},
    {"Digits", read_digits, 0},           {"Metaspace", read_metaspace, 0},
};

static b1_status read_pre_tokenizers(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    b1i_json item;
    (void)kind;
    for (b1i_json_walk w = {b1i_json_get(v, "pretokenizers"), false}; b1i_json_next(&w, NULL, &item);) {
        if (t->byte_level)
            return b1i_fail(err, B1_MODEL, "%s: a pre_tokenizer behind ByteLevel is not supported", t->path);
        B1I_TRY(DISPATCH(t, item, "pre_tokenizer", pre_tokenizer_parts, depth + 1, err));
    }
    return B1_OK;
fail:
    return st;
}

b1_status b1i_json_pre_tokenizer(b1_tokenizer *t, b1i_json v, b1_error *err)
{
    return DISPATCH(t, v, "pre_tokenizer", pre_tokenizer_parts, 0, err);
}

/* ---- decoder ---- */

enum { DECODE_BYTE_LEVEL, DECODE_BYTES, DECODE_FUSE, DECODE_REPLACE, DECODE_STRIP, DECODE_META };

static b1_status set_replacement(b1_tokenizer *t, const char *from, size_t from_bytes, const char *to, size_t to_bytes,
                                 b1_error *err)
{
    if (t->from) return b1i_fail(err, B1_MODEL, "%s: more than one Replace in the decoder is not supported", t->path);
    t->from = from;
    t->from_bytes = from_bytes;
    t->to = to;
    t->to_bytes = to_bytes;
    return B1_OK;
}

static b1_status read_strip(b1_tokenizer *t, b1i_json v, b1_error *err)
{
    int64_t start = 0, stop = 0;
    if (!b1i_json_equals(b1i_json_get(v, "content"), " ") || !b1i_json_int(b1i_json_get(v, "start"), &start) ||
        !b1i_json_int(b1i_json_get(v, "stop"), &stop) || start < 0 || start > 1 || stop)
        return b1i_fail(err, B1_MODEL, "%s: decoder Strip is supported for at most one space at the start only",
                        t->path);
    t->strip_first |= start == 1;
    return B1_OK;
}

static b1_status read_decoder(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    const char *from = META, *to;
    size_t from_bytes = strlen(META), to_bytes;
    b1i_when when;
    (void)depth;
    switch (kind) {
    case DECODE_BYTE_LEVEL:
        if (!t->byte_level)
            return b1i_fail(err, B1_MODEL, "%s: the decoder is ByteLevel but the pre_tokenizer is not", t->path);
        return B1_OK;
    case DECODE_REPLACE: {
        b1i_json pattern = b1i_json_get(v, "pattern");
        B1I_TRY(b1i_json_text(t, b1i_json_get(pattern, "String"), "pattern of a decoder", &from, &from_bytes, err));
        B1I_TRY(b1i_json_text(t, b1i_json_get(v, "content"), "content", &to, &to_bytes, err));
        if (!from_bytes) return b1i_fail(err, B1_MODEL, "%s: an empty pattern is not supported", t->path);
        return set_replacement(t, from, from_bytes, to, to_bytes, err);
    }
    case DECODE_STRIP:
        return read_strip(t, v, err);
    case DECODE_META:
        if (b1i_json_get(v, "replacement"))
            B1I_TRY(b1i_json_text(t, b1i_json_get(v, "replacement"), "replacement", &from, &from_bytes, err));
        if (!from_bytes) return b1i_fail(err, B1_MODEL, "%s: Metaspace has an empty replacement", t->path);
        B1I_TRY(read_scheme(t, v, &when, err));
        t->strip_first |= when != b1i_never;
        return set_replacement(t, from, from_bytes, " ", 1, err);
    default:
        return B1_OK; /* bytes are always joined; tokens too */
    }
fail:
    return st;
}

static b1_status read_decoders(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err);
static const part decoder_parts[] = {
    {"Sequence", read_decoders, 0},
    {"ByteLevel", read_decoder, DECODE_BYTE_LEVEL},
    {"ByteFallback", read_decoder, DECODE_BYTES},
    {"Fuse", read_decoder, DECODE_FUSE},
    {"Replace", read_decoder, DECODE_REPLACE},
    {"Strip", read_decoder, DECODE_STRIP},
    {"Metaspace", read_decoder, DECODE_META},
};

static b1_status read_decoders(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    b1i_json item;
    (void)kind;
    for (b1i_json_walk w = {b1i_json_get(v, "decoders"), false}; b1i_json_next(&w, NULL, &item);)
        B1I_TRY(DISPATCH(t, item, "decoder", decoder_parts, depth + 1, err));
    return B1_OK;
fail:
    return st;
}

b1_status b1i_json_decoder(b1_tokenizer *t, b1i_json v, b1_error *err)
{
    return DISPATCH(t, v, "decoder", decoder_parts, 0, err);
}

/* ---- post_processor: only whether BOS comes first ---- */

static b1_status read_template(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    b1i_json first;
    b1i_json_walk w = {b1i_json_get(v, "single"), false};
    const char *text;
    size_t bytes;
    (void)kind;
    (void)depth;
    b1i_json special = b1i_json_next(&w, NULL, &first) ? b1i_json_get(first, "SpecialToken") : NULL;
    if (!special) return B1_OK;
    B1I_TRY(b1i_json_text(t, b1i_json_get(special, "id"), "a special token of the template", &text, &bytes, err));
    t->bos = bytes ? b1i_vocab_find(t, text, bytes) : -1;
    if (t->bos < 0) return b1i_fail(err, B1_MODEL, "%s: the template's first token is not in the vocabulary", t->path);
    t->bos_default = true;
    return B1_OK;
fail:
    return st;
}

static b1_status read_offsets(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    (void)t;
    (void)v;
    (void)kind;
    (void)depth;
    (void)err;
    return B1_OK; /* ByteLevel as a post-processor only moves offsets */
}

static b1_status read_post_processors(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err);
static const part post_processor_parts[] = {
    {"Sequence", read_post_processors, 0},
    {"ByteLevel", read_offsets, 0},
    {"TemplateProcessing", read_template, 0},
};

static b1_status read_post_processors(b1_tokenizer *t, b1i_json v, int kind, int depth, b1_error *err)
{
    b1_status st;
    b1i_json item;
    (void)kind;
    for (b1i_json_walk w = {b1i_json_get(v, "processors"), false}; b1i_json_next(&w, NULL, &item);)
        B1I_TRY(DISPATCH(t, item, "post_processor", post_processor_parts, depth + 1, err));
    return B1_OK;
fail:
    return st;
}

b1_status b1i_json_post_processor(b1_tokenizer *t, b1i_json v, b1_error *err)
{
    return DISPATCH(t, v, "post_processor", post_processor_parts, 0, err);
}
