/* SPDX-License-Identifier: MIT
 *
 * JSON read in place. The grammar is RFC 8259's, and a lone surrogate escape is refused: it is no character.
 */
#include "model/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "model/utf8.h"

typedef struct checker {
    const char *text, *at, *end;
    const char *path;
    b1_error *err;
} checker;

static b1_status refuse(const checker *c, const char *what)
{
    return b1i_fail(c->err, B1_MODEL, "%s: byte %zu: not valid JSON: %s", c->path, (size_t)(c->at - c->text), what);
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

/* Four hexadecimal digits, or -1. */
static int hex4(const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static b1_status check_escape(checker *c)
{
    size_t left = (size_t)(c->end - c->at);
    if (left < 2) return refuse(c, "the text ends inside a string");
    if (c->at[1] != 'u') {
        if (!c->at[1] || !strchr("\"\\/bfnrt", c->at[1])) return refuse(c, "unknown escape");
        c->at += 2;
        return B1_OK;
    }
    int unit = left >= 6 ? hex4(c->at + 2) : -1;
    if (unit < 0) return refuse(c, "\\u without four hexadecimal digits");
    if (unit >= 0xdc00 && unit <= 0xdfff) return refuse(c, "lone surrogate");
    if (unit >= 0xd800 && unit <= 0xdbff) {
        int low = left >= 12 && c->at[6] == '\\' && c->at[7] == 'u' ? hex4(c->at + 8) : -1;
        if (low < 0xdc00 || low > 0xdfff) return refuse(c, "lone surrogate");
        c->at += 6;
    }
    c->at += 6;
    return B1_OK;
}

static b1_status check_string(checker *c)
{
    b1_status st;
    uint32_t code;
    bool cut;
    if (c->at == c->end || *c->at != '"') return refuse(c, "expected a string");
    for (c->at++; c->at < c->end;) {
        uint8_t b = (uint8_t)*c->at;
        if (b == '"') {
            c->at++;
            return B1_OK;
        }
        if (b == '\\') {
            if ((st = check_escape(c)) != B1_OK) return st;
        } else if (b < 0x20) {
            return refuse(c, "control character in a string");
        } else if (b < 0x80) {
            c->at++;
        } else {
            int n = b1i_utf8_step(c->at, (size_t)(c->end - c->at), &code, &cut);
            if (n < 0) return refuse(c, "invalid UTF-8");
            c->at += n;
        }
    }
    return refuse(c, "the text ends inside a string");
}

static bool digits(checker *c)
{
    const char *start = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') c->at++;
    return c->at > start;
}

static b1_status check_number(checker *c)
{
    if (*c->at == '-') c->at++;
    bool zero = c->at < c->end && *c->at == '0';
    const char *start = c->at;
    if (!digits(c) || (zero && c->at - start > 1)) return refuse(c, "malformed number");
    if (c->at < c->end && *c->at == '.') {
        c->at++;
        if (!digits(c)) return refuse(c, "malformed number");
    }
    if (c->at < c->end && (*c->at == 'e' || *c->at == 'E')) {
        c->at++;
        if (c->at < c->end && (*c->at == '+' || *c->at == '-')) c->at++;
        if (!digits(c)) return refuse(c, "malformed number");
    }
    return B1_OK;
}

static b1_status check_scalar(checker *c)
{
    static const char *const words[] = {"true", "false", "null"};
    if (*c->at == '"') return check_string(c);
    if (*c->at == '-' || (*c->at >= '0' && *c->at <= '9')) return check_number(c);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(c->end - c->at) >= n && !memcmp(c->at, words[i], n)) {
            c->at += n;
            return B1_OK;
        }
    }
    return refuse(c, "expected a value");
}

static b1_status check_key(checker *c)
{
    b1_status st;
    c->at = skip_space(c->at, c->end);
    if ((st = check_string(c)) != B1_OK) return st;
    c->at = skip_space(c->at, c->end);
    if (c->at == c->end || *c->at != ':') return refuse(c, "expected ':'");
    c->at++;
    return B1_OK;
}

/* Values one after the other, with the open brackets on a stack. */
static b1_status check_document(checker *c)
{
    b1_status st;
    char open[B1I_JSON_DEPTH];
    int depth = 0;
    for (;;) {
        c->at = skip_space(c->at, c->end);
        if (c->at == c->end) return refuse(c, "the text ends where a value is expected");
        if (*c->at == '{' || *c->at == '[') {
            if (depth == B1I_JSON_DEPTH) return refuse(c, "nested too deeply");
            char close = *c->at == '{' ? '}' : ']';
            open[depth++] = close;
            c->at = skip_space(c->at + 1, c->end);
            if (c->at == c->end || *c->at != close) {
                if (close == '}' && (st = check_key(c)) != B1_OK) return st;
                continue;
            }
        } else if ((st = check_scalar(c)) != B1_OK) {
            return st;
        }
        for (;;) { /* behind a value: closing brackets, then a comma */
            c->at = skip_space(c->at, c->end);
            if (!depth) return c->at == c->end ? B1_OK : refuse(c, "text behind the document");
            if (c->at == c->end) return refuse(c, "the text ends inside an object or array");
            if (*c->at != open[depth - 1]) break;
            depth--;
            c->at++;
        }
        if (*c->at != ',') return refuse(c, "expected ',' or a closing bracket");
        c->at++;
        if (open[depth - 1] == '}' && (st = check_key(c)) != B1_OK) return st;
    }
}

b1_status b1i_json_check(const char *text, size_t bytes, const char *path, b1i_json *root, b1_error *err)
{
    *root = NULL;
    if (!bytes) return b1i_fail(err, B1_MODEL, "%s: is empty, expected a JSON document", path);
    checker c = {text, text, text + bytes, path, err};
    b1_status st = check_document(&c);
    if (st == B1_OK) *root = skip_space(text, text + bytes);
    return st;
}

const char *b1i_json_kind(b1i_json v)
{
    if (!v) return "nothing";
    return *v == '{'   ? "an object"
           : *v == '[' ? "an array"
           : *v == '"' ? "a string"
           : *v == 'n' ? "null"
           : *v == 't' ? "true"
           : *v == 'f' ? "false"
                       : "a number";
}

/* In checked text: no bound is needed, for every value is closed. */
static const char *over_space(const char *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') at++;
    return at;
}

static const char *over_string(const char *at)
{
    for (at++; *at != '"'; at++) at += *at == '\\';
    return at + 1;
}

/* What over_value() stops at inside an object or array. */
static const bool structural[256] = {['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true};

static const char *over_value(const char *at)
{
    if (*at == '"') return over_string(at);
    if (*at != '{' && *at != '[') {
        while ((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || *at == '-' || *at == '+' || *at == '.' ||
               *at == 'E')
            at++;
        return at;
    }
    for (int depth = 0;;) {
        while (!structural[(uint8_t)*at]) at++;
        if (*at == '"') {
            at = over_string(at);
            continue;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
        if (!depth) return at;
    }
}

bool b1i_json_next(b1i_json_walk *walk, b1i_json *key, b1i_json *value)
{
    if (!walk->started) {
        if (!walk->at || (*walk->at != '{' && *walk->at != '[')) return false;
        walk->started = true;
        walk->at = over_space(walk->at + 1);
        if (*walk->at == '}' || *walk->at == ']') return false;
    } else {
        walk->at = over_space(walk->at);
        if (*walk->at != ',') return false;
        walk->at = over_space(walk->at + 1);
    }
    if (key) *key = NULL;
    const char *first = walk->at;
    if (*first == '"') { /* a key where a colon follows */
        const char *behind = over_space(over_string(first));
        if (*behind == ':') {
            if (key) *key = first;
            first = over_space(behind + 1);
        }
    }
    *value = first;
    walk->at = over_value(first);
    return true;
}

b1i_json b1i_json_get(b1i_json v, const char *name)
{
    b1i_json key, value;
    if (!b1i_json_is(v, '{')) return NULL;
    for (b1i_json_walk w = {v, false}; b1i_json_next(&w, &key, &value);)
        if (b1i_json_equals(key, name)) return value;
    return NULL;
}

void b1i_json_members(b1i_json v, const char *const *name, int count, b1i_json *value)
{
    b1i_json key, found;
    for (int i = 0; i < count; i++) value[i] = NULL;
    if (!b1i_json_is(v, '{')) return;
    for (b1i_json_walk w = {v, false}; b1i_json_next(&w, &key, &found);)
        for (int i = 0; i < count; i++)
            if (b1i_json_equals(key, name[i])) value[i] = found;
}

const char *b1i_json_raw(b1i_json v, size_t *bytes, bool *plain)
{
    const char *at = v + 1;
    *plain = true;
    for (; *at != '"'; at++) {
        if (*at != '\\') continue;
        *plain = false;
        at++;
    }
    *bytes = (size_t)(at - v - 1);
    return v + 1;
}

size_t b1i_json_unescape(b1i_json v, char *out)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    size_t n = 0;
    for (const char *at = v + 1; *at != '"';) {
        if (*at != '\\') {
            out[n++] = *at++;
            continue;
        }
        const char *known = strchr(from, at[1]);
        if (at[1] == 'u') {
            uint32_t code = (uint32_t)hex4(at + 2);
            if (code >= 0xd800 && code <= 0xdbff) {
                code = 0x10000 + ((code - 0xd800) << 10) + ((uint32_t)hex4(at + 8) - 0xdc00);
                at += 6;
            }
            n += (size_t)b1i_utf8_put(out + n, code);
            at += 6;
        } else {
            out[n++] = known ? to[known - from] : at[1];
            at += 2;
        }
    }
    return n;
}

bool b1i_json_equals(b1i_json v, const char *text)
{
    size_t bytes, want = strlen(text);
    bool plain;
    char small[256];
    if (!b1i_json_is(v, '"')) return false;
    const char *raw = b1i_json_raw(v, &bytes, &plain);
    if (plain) return bytes == want && !memcmp(raw, text, want);
    if (bytes > sizeof small) return false;
    return b1i_json_unescape(v, small) == want && !memcmp(small, text, want);
}

bool b1i_json_int(b1i_json v, int64_t *out)
{
    if (!v || (*v != '-' && (*v < '0' || *v > '9'))) return false;
    bool negative = *v == '-';
    int64_t value = 0;
    for (v += negative; *v >= '0' && *v <= '9'; v++) {
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_sub_overflow(value, *v - '0', &value)) return false;
    }
    if (*v == '.' || *v == 'e' || *v == 'E') return false;
    if (!negative && value == INT64_MIN) return false;
    *out = negative ? value : -value;
    return true;
}
