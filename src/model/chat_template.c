/* SPDX-License-Identifier: MIT
 *
 * The chat family and its details, read out of the model's own template. Templates are Jinja programs; this does not
 * run them. It flattens one into what it writes, in order: texts, names of variables, and the tags between; branches
 * for tools are dropped, for no tools are given here. Then each family's shape is looked for, and whatever does not
 * have that shape is refused: a near guess at a template would be a silently wrong prompt.
 *
 * Details that differ between models of one family are read, not assumed: a default system message, what stands behind
 * the last header, trimming, spaces around [INST], which question carries the system text. Llama 3.1 puts today's date
 * into every system message; here it is the date that the template itself falls back to, so that one conversation
 * always gives the same ids.
 */
#include <string.h>

#include "model/tokenizer_impl.h"

enum { ITEMS_MAX = 400, TEMPLATE_BYTES_MAX = 1 << 18 };

typedef enum item_kind { TEXT, NAME, TAG } item_kind;

typedef struct item {
    item_kind kind;
    size_t at, bytes; /* in the buffer, NUL-terminated there */
} item;

typedef struct flat {
    b1i_buffer text;
    item item[ITEMS_MAX + 1]; /* the last is always an empty tag */
    int count;
    bool overflow, memory;
} flat;

static const char *text_of(const flat *f, int i) { return f->text.text + f->item[i].at; }

static void put(flat *f, const char *text, size_t bytes)
{
    if (!b1i_buffer_put(&f->text, text, bytes)) f->memory = true;
}

/* Appends an item; a text behind a text joins it. */
static void add(flat *f, item_kind kind, const char *text, size_t bytes)
{
    if (f->memory || (kind == TEXT && !bytes)) return;
    if (kind == TEXT && f->count && f->item[f->count - 1].kind == TEXT) {
        f->text.bytes--; /* its NUL */
        f->item[f->count - 1].bytes += bytes;
    } else {
        if (f->count == ITEMS_MAX) {
            f->overflow = true;
            return;
        }
        f->item[f->count++] = (item){kind, f->text.bytes, bytes};
    }
    put(f, text, bytes);
    put(f, "", 1);
}

/* ---- expressions ---- */

static size_t literal_end(const char *text, size_t bytes, size_t at)
{
    char quote = text[at];
    for (at++; at < bytes && text[at] != quote; at++) at += text[at] == '\\';
    return at < bytes ? at + 1 : bytes;
}

static void add_literal(flat *f, const char *text, size_t bytes)
{
    char small[4096];
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (c == '\\' && i + 1 < bytes) {
            c = text[++i];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        small[n++] = c;
        if (n == sizeof small || i + 1 == bytes) {
            add(f, TEXT, small, n);
            n = 0;
        }
    }
}

static void trim_span(const char **text, size_t *bytes)
{
    while (*bytes && strchr(" \t\r\n", **text)) ++*text, --*bytes;
    while (*bytes && strchr(" \t\r\n", (*text)[*bytes - 1])) --*bytes;
}

/* One term of a sum. */
static void add_term(flat *f, const char *text, size_t bytes)
{
    trim_span(&text, &bytes);
    if (!bytes || (bytes > 15 && !memcmp(text, "raise_exception", 15))) return;
    /* A quote alone is what is left of a text that was cut in two: it opens and closes nothing. */
    if (bytes > 1 && (*text == '\'' || *text == '"') && literal_end(text, bytes, 0) == bytes) {
        add_literal(f, text + 1, bytes - 2);
    } else {
        add(f, NAME, text, bytes);
    }
}

/* a + 'b' + c: its terms in order. */
static void add_sum(flat *f, const char *text, size_t bytes)
{
    size_t from = 0;
    int depth = 0;
    for (size_t i = 0; i < bytes;) {
        char c = text[i];
        if (c == '\'' || c == '"') {
            i = literal_end(text, bytes, i);
            continue;
        }
        depth += (c == '(' || c == '[') - (c == ')' || c == ']');
        if (!depth && (c == '+' || c == '~')) {
            add_term(f, text + from, i - from);
            from = i + 1;
        }
        i++;
    }
    add_term(f, text + from, bytes - from);
}

/* ---- tags ---- */

static bool contains(const char *text, size_t bytes, const char *what)
{
    return memmem(text, bytes, what, strlen(what)) != NULL;
}

static bool starts(const char *text, size_t bytes, const char *what)
{
    size_t n = strlen(what);
    return bytes >= n && !memcmp(text, what, n);
}

/* What a condition is without tools: 1 true, 0 false, -1: not about tools. */
static int without_tools(const char *text, size_t bytes)
{
    static const char *const roles[] = {"'user'", "\"user\"", "'assistant'", "\"assistant\""};
    if (!contains(text, bytes, "tool")) return -1;
    for (int i = 0; i < 4; i++)
        if (contains(text, bytes, roles[i])) return -1;
    return starts(text, bytes, "not ");
}

/* Where branches stand: for each open `if`, whether its present branch is dropped, and whether one was taken for sure.
 */
enum { IF_DEPTH = 32 };
typedef struct branches {
    int depth;
    bool decided[IF_DEPTH], dropped[IF_DEPTH], taken[IF_DEPTH];
} branches;

static bool dropping(const branches *b)
{
    for (int i = 0; i < b->depth; i++)
        if (b->dropped[i]) return true;
    return false;
}

/* Enters, changes or leaves a branch; false: no tag of that kind. A tag about tools leaves no item. */
static bool branch_tag(branches *b, const char *text, size_t bytes, bool *silent)
{
    bool opens = starts(text, bytes, "if "), again = starts(text, bytes, "elif "), other = starts(text, bytes, "else");
    *silent = false;
    if (starts(text, bytes, "endif")) {
        if (b->depth) b->depth--;
        *silent = b->decided[b->depth];
        b->decided[b->depth] = b->dropped[b->depth] = b->taken[b->depth] = false;
        return true;
    }
    if (!opens && !again && !other) return false;
    if (opens && b->depth == IF_DEPTH) return false;
    size_t skip = opens ? 3 : 5;
    int value = other ? -1 : without_tools(text + skip, bytes - skip);
    if (opens) b->depth++;
    int top = b->depth - 1;
    if (top < 0) return true;
    b->dropped[top] = b->taken[top] || value == 0;
    if (value == 1) b->taken[top] = true;
    if (opens) b->decided[top] = value >= 0;
    *silent = b->decided[top] || value >= 0;
    return true;
}

static void add_tag(flat *f, branches *b, const char *text, size_t bytes)
{
    bool silent;
    trim_span(&text, &bytes);
    if (branch_tag(b, text, bytes, &silent)) {
        if (!silent && !dropping(b)) add(f, TAG, text, bytes);
        return;
    }
    if (dropping(b)) return;
    if (starts(text, bytes, "set ") && (contains(text, bytes, "<|") || contains(text, bytes, "[INST]"))) {
        const char *equals = memchr(text, '=', bytes);
        add(f, TAG, "set", 3);
        if (equals) add_sum(f, equals + 1, bytes - (size_t)(equals + 1 - text));
    } else if (!starts(text, bytes, "set ")) {
        add(f, TAG, text, bytes);
    }
}

/* ---- the template ---- */

/* Data between blocks, as `transformers` has Jinja write it: blanks before a tag on its line and the line feed behind a
 * tag are left out, and all white space at a side with a minus. */
static void add_data(flat *f, const char *text, size_t bytes, bool minus_before, bool behind_tag, bool minus_behind,
                     bool before_tag)
{
    if (minus_before) {
        while (bytes && strchr(" \t\r\n", *text)) text++, bytes--;
    } else if (behind_tag && bytes && *text == '\n') {
        text++;
        bytes--;
    }
    size_t end = bytes;
    while (end && strchr(minus_behind ? " \t\r\n" : " \t", text[end - 1])) end--;
    if (minus_behind || (before_tag && (!end || text[end - 1] == '\n'))) bytes = end;
    add(f, TEXT, text, bytes);
}

static void flatten(flat *f, const char *text, size_t bytes)
{
    branches b = {0};
    bool minus = false, tag = false;
    for (size_t at = 0; at < bytes;) {
        const char *open = text + at, *end = text + bytes, *close;
        while ((open = memchr(open, '{', (size_t)(end - open))) && (open + 1 == end || !strchr("{%#", open[1]))) open++;
        size_t data = (open ? (size_t)(open - text) : bytes) - at;
        bool has_minus = open && open + 2 < end && open[2] == '-', is_tag = open && open[1] != '{';
        if (!dropping(&b)) add_data(f, text + at, data, minus, tag, has_minus, is_tag);
        if (!open) return;
        char closing[3] = {open[1] == '{' ? '}' : open[1], '}', 0};
        const char *inner = open + 2 + has_minus;
        for (close = inner; close + 1 < end && memcmp(close, closing, 2);)
            close = open[1] != '#' && (*close == '\'' || *close == '"')
                        ? close + literal_end(close, (size_t)(end - close), 0)
                        : close + 1;
        if (close + 1 >= end) return; /* never closed: what there is does not fit any family */
        minus = close > inner && close[-1] == '-';
        tag = is_tag;
        size_t length = (size_t)(close - inner) - minus;
        if (open[1] == '{' && !dropping(&b)) add_sum(f, inner, length);
        if (open[1] == '%') add_tag(f, &b, inner, length);
        at = (size_t)(close + 2 - text);
    }
}

/* ---- shapes ---- */

static bool is_text(const flat *f, int i) { return i >= 0 && i < f->count && f->item[i].kind == TEXT; }

static bool is_name(const flat *f, int i, const char *part)
{
    return i >= 0 && i < f->count && f->item[i].kind == NAME && strstr(text_of(f, i), part);
}

static bool text_is(const flat *f, int i, const char *text) { return is_text(f, i) && !strcmp(text_of(f, i), text); }

static bool text_ends(const flat *f, int i, const char *end)
{
    size_t n = strlen(end);
    return is_text(f, i) && f->item[i].bytes >= n && !strcmp(text_of(f, i) + f->item[i].bytes - n, end);
}

static bool text_begins(const flat *f, int i, const char *begin)
{
    return is_text(f, i) && !strncmp(text_of(f, i), begin, strlen(begin));
}

static const char *keep(b1_tokenizer *t, const char *text, size_t bytes, bool *memory)
{
    char *copy = b1i_arena_take(&t->arena, bytes + 1);
    if (!copy) {
        *memory = true;
        return NULL;
    }
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    return copy;
}

/* The id of a token that stands for itself in the vocabulary, -1: none. */
static int32_t marker(const b1_tokenizer *t, const char *text)
{
    int32_t id = b1i_vocab_find(t, text, strlen(text));
    return id >= 0 && (t->token[id].kind == b1i_token_control || t->token[id].kind == b1i_token_user) ? id : -1;
}

static bool has_trim(const char *name)
{
    const char *bar = strchr(name, '|');
    while (bar && *++bar == ' ') continue;
    return bar && !strncmp(bar, "trim", 4) && bar[4] != '(';
}

/* The text behind the tag that asks for the answer's beginning; its index, or -1. */
static int find_generation(const flat *f)
{
    for (int i = f->count - 1; i > 0; i--)
        if (is_text(f, i) && f->item[i - 1].kind == TAG && strstr(text_of(f, i - 1), "add_generation_prompt")) return i;
    return -1;
}

/* <|im_start|>role\ncontent<|im_end|>\n; a system message of its own for conversations without one. */
static const char *read_chatml(b1_tokenizer *t, const flat *f, b1i_chat *c, bool *memory)
{
    static const char system[] = "<|im_start|>system\n", close[] = "<|im_end|>";
    bool turns = false;
    c->open = marker(t, "<|im_start|>");
    c->close = marker(t, close);
    if (c->open < 0 || c->close < 0) return "<|im_start|> or <|im_end|> is no special token of the vocabulary";
    for (int i = 0; i < f->count; i++) {
        if (!turns && text_ends(f, i, "<|im_start|>") && is_name(f, i + 1, "role") && text_is(f, i + 2, "\n") &&
            is_name(f, i + 3, "content") && text_is(f, i + 4, "<|im_end|>\n")) {
            turns = true;
            c->trim = has_trim(text_of(f, i + 3));
        }
        const char *at = is_text(f, i) ? strstr(text_of(f, i), system) : NULL;
        if (!at) continue;
        at += strlen(system);
        const char *end = strstr(at, close);
        if (end && !c->system) {
            c->system = keep(t, at, (size_t)(end - at), memory);
        } else if (!end && (*at || (!is_name(f, i + 1, "content") && !is_name(f, i + 1, "system")))) {
            return "its system message is put together in a way that is not known here";
        }
    }
    if (!turns) return "its turns do not have ChatML's shape";
    int g = find_generation(f);
    if (g >= 0 && !text_begins(f, g, "<|im_start|>")) return "what it puts before an answer is not known here";
    const char *generation = g < 0 ? "assistant\n" : text_of(f, g) + strlen("<|im_start|>");
    c->generation = keep(t, generation, strlen(generation), memory);
    c->drop_thinking = strstr(t->chat_template, "split('</think>')") != NULL;
    return NULL;
}

/* The literal that the template gives to date_string. */
static const char *fallback_date(const char *text, size_t *bytes)
{
    for (const char *at = text; (at = strstr(at, "date_string")); at++) {
        const char *value = at + strlen("date_string");
        while (*value == ' ' || *value == '=') value++;
        if (*value != '"' && *value != '\'') continue;
        *bytes = literal_end(value, strlen(value), 0);
        if (*bytes < 2) continue;
        *bytes -= 2;
        return value + 1;
    }
    return NULL;
}

/* A system turn that is always written: what stands before the system message becomes c->system. */
static const char *read_llama3_system(b1_tokenizer *t, const flat *f, int i, const char *at, b1i_chat *c, bool *memory)
{
    static const char strange[] = "its system message is put together in a way that is not known here";
    b1i_buffer prefix = {0};
    bool ok = b1i_buffer_put(&prefix, at, strlen(at));
    if (is_name(f, i + 1, "date_string")) {
        size_t bytes;
        const char *date = fallback_date(t->chat_template, &bytes);
        if (date) ok = ok && b1i_buffer_put(&prefix, date, bytes);
        i++;
        if (is_text(f, i + 1)) ok = ok && b1i_buffer_put(&prefix, text_of(f, i + 1), f->item[i + 1].bytes);
        i += is_text(f, i + 1);
        if (!date) i = f->count; /* a date that cannot be known */
    }
    bool fits =
        (is_name(f, i + 1, "system_message") || is_name(f, i + 1, "content")) && text_begins(f, i + 2, "<|eot_id|>");
    if (!ok) *memory = true;
    if (ok && fits && !c->system) c->system = keep(t, prefix.text, prefix.bytes, memory);
    b1i_free(prefix.text);
    return fits || !ok ? NULL : strange;
}

static const char *read_llama3(b1_tokenizer *t, const flat *f, b1i_chat *c, bool *memory)
{
    static const char system[] = "<|start_header_id|>system<|end_header_id|>\n\n", open[] = "<|start_header_id|>";
    bool turns = false;
    c->open = marker(t, open);
    c->header = marker(t, "<|end_header_id|>");
    c->close = marker(t, "<|eot_id|>");
    if (c->open < 0 || c->header < 0 || c->close < 0)
        return "<|start_header_id|>, <|end_header_id|> or <|eot_id|> is no special token of the vocabulary";
    for (int i = 0; i < f->count; i++) {
        if (!turns && text_ends(f, i, open) && is_name(f, i + 1, "role") &&
            text_is(f, i + 2, "<|end_header_id|>\n\n") && is_name(f, i + 3, "content") &&
            text_begins(f, i + 4, "<|eot_id|>")) {
            turns = true;
            c->trim = has_trim(text_of(f, i + 3));
        }
        const char *at = is_text(f, i) ? strstr(text_of(f, i), system) : NULL;
        const char *why = at ? read_llama3_system(t, f, i, at + strlen(system), c, memory) : NULL;
        if (why) return why;
    }
    if (!turns) return "its turns do not have Llama-3's shape";
    int g = find_generation(f);
    if (g >= 0 && !text_is(f, g, "<|start_header_id|>assistant<|end_header_id|>\n\n"))
        return "what it puts before an answer is not known here";
    return NULL;
}

/* [INST] question [/INST] answer</s>; the spaces and the place of the system text differ by version. */
static const char *read_mistral(b1_tokenizer *t, const flat *f, b1i_chat *c, bool *memory)
{
    if (strstr(t->chat_template, "<<SYS>>") || strstr(t->chat_template, "[SYSTEM_PROMPT]"))
        return "its system message has marks of its own, which are not known here";
    c->open = marker(t, "[INST]");
    c->close = marker(t, "[/INST]");
    c->eos = t->end_count ? t->end[0] : -1;
    bool answers = false;
    for (int i = 0; i < f->count; i++) {
        if (!is_name(f, i, "content")) continue;
        const char *before = is_text(f, i - 1) ? text_of(f, i - 1) : "";
        const char *after = is_text(f, i + 1) ? text_of(f, i + 1) : "";
        if (strstr(before, "[INST]") && strstr(after, "[/INST]") && !c->before) {
            c->before = keep(t, before, strlen(before), memory);
            c->after = keep(t, after, strlen(after), memory);
            c->trim = has_trim(text_of(f, i));
        } else if (!strcmp(before, "\n\n") && is_name(f, i - 2, "system") && i > 3 && f->item[i - 4].kind == TAG) {
            c->system_last = strstr(text_of(f, i - 4), "loop.last") != NULL;
        } else if (is_name(f, i + 1, "eos_token") && !answers) {
            const char *end = is_text(f, i + 2) ? text_of(f, i + 2) : "";
            answers = true;
            c->answer_before = keep(t, before, strlen(before), memory);
            c->answer_after = keep(t, end, strlen(end), memory);
            c->answer_trim = has_trim(text_of(f, i));
        }
    }
    if (!*memory && (!c->before || !answers)) return "its turns do not have Mistral's shape";
    return c->eos < 0 ? "the end token that it writes is not known" : NULL;
}

static const struct family {
    b1i_chat_family id;
    const char *mark;
    const char *(*read)(b1_tokenizer *t, const flat *f, b1i_chat *c, bool *memory);
} families[] = {
    {b1i_chat_chatml, "<|im_start|>", read_chatml},
    {b1i_chat_llama3, "<|start_header_id|>", read_llama3},
    {b1i_chat_mistral, "[INST]", read_mistral},
};

/* The family's marks are made by their ids alone: from now on text that spells them stays text, also where the file
 * does not call them special. */
static void guard_marks(b1_tokenizer *t)
{
    const int32_t marks[] = {t->chat.open, t->chat.header, t->chat.close, t->chat.eos};
    b1i_added_set *const sets[] = {&t->raw, &t->normalized};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < sets[k]->count; i++)
            for (int m = 0; m < 4; m++)
                if (sets[k]->item[i].id == marks[m]) sets[k]->item[i].special = true;
}

b1_status b1i_chat_recognise(b1_tokenizer *t, b1_error *err)
{
    static const b1i_chat nothing = {.open = -1, .header = -1, .close = -1, .eos = -1};
    b1_status st = B1_OK;
    flat *f = NULL;
    bool memory = false;
    t->chat = nothing;
    t->chat.why = t->chat_template ? "it is not of the families known here" : "it has none";
    if (!t->chat_template) return B1_OK;
    size_t bytes = strlen(t->chat_template);
    if (bytes > TEMPLATE_BYTES_MAX) return B1_OK;
    f = b1i_calloc(1, sizeof *f);
    if (!f) return b1i_fail_memory(err, sizeof *f);
    flatten(f, t->chat_template, bytes);
    f->item[f->count] = (item){TAG, f->text.bytes, 0};
    put(f, "", 1);
    for (size_t i = 0; i < sizeof families / sizeof *families && !f->overflow && !f->memory; i++) {
        if (!strstr(t->chat_template, families[i].mark)) continue;
        b1i_chat c = nothing;
        c.why = families[i].read(t, f, &c, &memory);
        c.bos = strstr(t->chat_template, "bos_token") && t->bos >= 0;
        c.family = c.why ? b1i_chat_none : families[i].id;
        t->chat = c;
        break;
    }
    if (t->chat.family != b1i_chat_none) guard_marks(t);
    if (f->memory || memory) {
        st = b1i_fail_memory(err, bytes);
    } else if (t->chat.family != b1i_chat_none && t->chat.close >= 0 && t->chat.family != b1i_chat_mistral) {
        st = b1i_tokenizer_add_end(t, t->chat.close, err);
    }
    b1i_free(f->text.text);
    b1i_free(f);
    return st;
}
