/* SPDX-License-Identifier: MIT
 *
 * Patterns and the pre-tokeniser: text is cut into words by the model's own steps. Patterns run in PCRE2 with Unicode
 * properties, JIT-compiled where that is allowed, under limits on backtracking, so that a bad pattern fails instead of
 * hanging.
 *
 * The patterns of these files are written for Oniguruma. Where PCRE2 would read the same spelling differently, it is
 * respelled (\s, \w, \h) or refused (nested classes, class intersections, a possessive interval). Characters newer than
 * PCRE2's Unicode tables (here and in normalize.c utf8proc's) count as unassigned: only their words may be cut
 * differently.
 */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer_impl.h"

enum { MATCH_LIMIT = 4000000, HEAP_LIMIT_KIB = 64 << 10, PATTERN_BYTES_MAX = 1 << 16 };

/* ---- PCRE2's memory is ours ---- */

static void *regex_malloc(size_t bytes, void *user)
{
    (void)user;
    return b1i_malloc(bytes);
}

static void regex_free(void *memory, void *user)
{
    (void)user;
    b1i_free(memory);
}

/* ---- spelling ---- */

/* What stands for an escape inside a class. */
static const struct respelling {
    char escape;
    const char *members;
} respellings[] = {
    {'s', "\\t-\\r\\x20\\x{85}\\p{Z}"},
    {'w',
     "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"
     "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"},
    {'h', "0-9A-Fa-f"},
};

static b1_status refuse_pattern(const char *path, const char *pattern, size_t bytes, const char *what, b1_error *err)
{
    char shown[48];
    return b1i_fail(err, B1_MODEL, "%s: pattern %s: %s", path, b1i_show(pattern, bytes, shown), what);
}

/* The bytes of an interval like {1,3} at `at`, or 0. */
static size_t interval(const char *at, size_t left)
{
    size_t n = 1;
    while (n < left && ((at[n] >= '0' && at[n] <= '9') || at[n] == ',')) n++;
    return n > 1 && n < left && at[n] == '}' ? n + 1 : 0;
}

static bool put_text(b1i_buffer *b, const char *text) { return b1i_buffer_put(b, text, strlen(text)); }

/* An escape at `at`: its length; what it becomes is appended. 0: no memory. */
static size_t respell_escape(const char *at, size_t left, bool in_class, b1i_buffer *out)
{
    if (left < 2) return b1i_buffer_put(out, at, 1) ? 1 : 0;
    for (size_t i = 0; i < sizeof respellings / sizeof *respellings; i++) {
        const struct respelling *r = &respellings[i];
        bool negated = at[1] == r->escape - 'a' + 'A';
        if (at[1] != r->escape && (!negated || in_class)) continue;
        bool ok = in_class ? put_text(out, r->members)
                           : put_text(out, negated ? "[^" : "[") && put_text(out, r->members) && put_text(out, "]");
        return ok ? 2 : 0;
    }
    size_t n = 2;
    if (strchr("pPx", at[1]) && left > 2 && at[2] == '{') /* a property or number: as it is, to its brace */
        while (n < left && at[n - 1] != '}') n++;
    return b1i_buffer_put(out, at, n) ? n : 0;
}

static b1_status respell(const char *pattern, size_t bytes, const char *path, b1i_buffer *out, b1_error *err)
{
    bool in_class = false;
    for (size_t i = 0, n; i < bytes; i += n) {
        const char *at = pattern + i;
        size_t left = bytes - i;
        n = 1;
        if (*at == '\\') {
            n = respell_escape(at, left, in_class, out);
            if (!n) return b1i_fail_memory(err, out->bytes + left);
            continue;
        }
        if (in_class) {
            if (*at == '[' && left > 1 && at[1] == ':') {
                while (n < left && at[n] != ']') n++;
                n += n < left;
            } else if (*at == '[') {
                return refuse_pattern(path, pattern, bytes, "a class inside a class is not supported", err);
            } else if (*at == '&' && left > 1 && at[1] == '&') {
                return refuse_pattern(path, pattern, bytes, "an intersection of classes is not supported", err);
            }
            in_class = *at != ']';
        } else if (*at == '[') {
            in_class = true;
            if (left > n && at[n] == '^') n++;
            if (left > n && at[n] == ']') n++; /* a bracket right at the start is a member */
        } else if (*at == '{') {
            size_t length = interval(at, left);
            if (length) n = length;
            if (length && length < left && at[length] == '+')
                return refuse_pattern(path, pattern, bytes, "a + behind an interval is not supported", err);
        }
        if (!b1i_buffer_put(out, at, n)) return b1i_fail_memory(err, out->bytes + left);
    }
    return B1_OK;
}

b1_status b1i_regex_compile(const char *pattern, size_t bytes, const char *path, pcre2_code **out, b1_error *err)
{
    b1_status st;
    b1i_buffer spelled = {0};
    pcre2_compile_context *how = NULL;
    int code;
    PCRE2_SIZE at;
    *out = NULL;
    if (bytes > PATTERN_BYTES_MAX) return refuse_pattern(path, pattern, bytes, "is too long", err);
    pcre2_general_context *memory = pcre2_general_context_create(regex_malloc, regex_free, NULL);
    if (memory) how = pcre2_compile_context_create(memory);
    if (!how) {
        st = b1i_fail_memory(err, bytes);
        goto fail;
    }
    pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    B1I_TRY(respell(pattern, bytes, path, &spelled, err));
    *out = pcre2_compile((PCRE2_SPTR)(spelled.text ? spelled.text : ""), spelled.bytes,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &at, how);
    if (!*out && code == PCRE2_ERROR_HEAP_FAILED) {
        st = b1i_fail_memory(err, bytes);
        goto fail;
    }
    if (!*out) {
        PCRE2_UCHAR why[160];
        pcre2_get_error_message(code, why, sizeof why);
        st = refuse_pattern(path, pattern, bytes, (const char *)why, err);
        goto fail;
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* where it is refused, the interpreter gives the same matches */
    st = B1_OK;
fail:
    b1i_free(spelled.text);
    pcre2_compile_context_free(how);
    pcre2_general_context_free(memory);
    return st;
}

/* ---- scratch ---- */

b1_status b1i_scratch_open(b1i_scratch *s, const b1_tokenizer *t, b1_error *err)
{
    *s = (b1i_scratch){.t = t};
    pcre2_general_context *memory = pcre2_general_context_create(regex_malloc, regex_free, NULL);
    if (memory) {
        s->match = pcre2_match_data_create(1, memory);
        s->limits = pcre2_match_context_create(memory);
    }
    pcre2_general_context_free(memory);
    if (!s->match || !s->limits) {
        b1i_scratch_close(s);
        return b1i_fail_memory(err, sizeof *s);
    }
    pcre2_set_match_limit(s->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(s->limits, HEAP_LIMIT_KIB);
    return B1_OK;
}

void b1i_scratch_close(b1i_scratch *s)
{
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->limits);
    b1i_free(s->text.text);
    b1i_free(s->other.text);
    b1i_free(s->word.text);
    b1i_free(s->pieces.piece);
    b1i_free(s->parts.piece);
    b1i_free(s->symbol);
    b1i_free(s->heap);
    b1i_free(s->ids);
    *s = (b1i_scratch){0};
}

b1_status b1i_scratch_push(b1i_scratch *s, int32_t id, b1_error *err)
{
    if (s->count == INT32_MAX) return b1i_fail(err, B1_ARGUMENT, "a text of more than %d tokens", INT32_MAX);
    if (!b1i_grow(&s->ids, &s->capacity, s->count + 1, sizeof *s->ids))
        return b1i_fail_memory(err, (s->count + 1) * sizeof *s->ids);
    s->ids[s->count++] = id;
    return B1_OK;
}

bool b1i_buffer_put(b1i_buffer *b, const char *text, size_t bytes)
{
    if (!b1i_grow(&b->text, &b->capacity, b->bytes + bytes + 1, 1)) return false;
    if (bytes) memcpy(b->text + b->bytes, text, bytes);
    b->bytes += bytes;
    return true;
}

/* ---- steps ---- */

b1i_step *b1i_steps_add(b1i_steps *steps, b1i_step_kind kind, const char *path, b1_error *err)
{
    if (steps->count == B1I_STEPS_MAX) {
        b1i_fail(err, B1_MODEL, "%s: more than %d normalising or pre-tokenising steps", path, B1I_STEPS_MAX);
        return NULL;
    }
    b1i_step *step = &steps->step[steps->count++];
    *step = (b1i_step){.kind = kind, .when = b1i_always};
    return step;
}

void b1i_steps_close(b1i_steps *steps)
{
    for (int i = 0; i < steps->count; i++) pcre2_code_free(steps->step[i].regex);
    steps->count = 0;
}

b1_status b1i_step_match(b1i_scratch *s, const b1i_step *step, const char *text, size_t bytes, size_t from,
                         size_t *begin, size_t *end, bool *found, b1_error *err)
{
    *found = false;
    if (!step->regex) {
        const char *at = from < bytes ? memmem(text + from, bytes - from, step->literal, step->literal_bytes) : NULL;
        if (!at) return B1_OK;
        *begin = (size_t)(at - text);
        *end = *begin + step->literal_bytes;
        *found = true;
        return B1_OK;
    }
    int n = pcre2_match(step->regex, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK, s->match, s->limits);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(step->regex, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match,
                        s->limits);
    if (n == PCRE2_ERROR_NOMATCH) return B1_OK;
    if (n == PCRE2_ERROR_NOMEMORY) return b1i_fail_memory(err, bytes);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->match);
    if (n < 0 || span[0] < from || span[1] < span[0] || span[1] > bytes) {
        PCRE2_UCHAR why[160] = "it matches outside the text";
        if (n < 0) pcre2_get_error_message(n, why, sizeof why);
        return b1i_fail(err, B1_MODEL, "%s: the pre-tokeniser's pattern fails at byte %zu of the text: %s", s->t->path,
                        from, (const char *)why);
    }
    *begin = span[0];
    *end = span[1];
    *found = true;
    return B1_OK;
}

static b1_status add_piece(b1i_pieces *list, size_t begin, size_t end, bool match, b1_error *err)
{
    if (!b1i_grow(&list->piece, &list->capacity, list->count + 1, sizeof *list->piece))
        return b1i_fail_memory(err, (list->count + 1) * sizeof *list->piece);
    list->piece[list->count++] = (b1i_piece){begin, end, match};
    return B1_OK;
}

/* Matches of the step in text [begin, end), and what lies between them, appended to `out` in order. An empty match
 * right behind another does not count; elsewhere it cuts. */
static b1_status find_parts(b1i_scratch *s, const b1i_step *step, size_t begin, size_t end, b1i_pieces *out,
                            b1_error *err)
{
    b1_status st;
    const char *text = s->text.text + begin;
    size_t bytes = end - begin, at = 0, done = 0, last = SIZE_MAX, b, e;
    uint32_t code;
    bool found, cut;
    while (at <= bytes) {
        B1I_TRY(b1i_step_match(s, step, text, bytes, at, &b, &e, &found, err));
        if (!found) break;
        if (b == e && e == last) {
            int n = at < bytes ? b1i_utf8_step(text + at, bytes - at, &code, &cut) : 1;
            at += (size_t)(n > 0 ? n : -n);
            continue;
        }
        if (b > done) B1I_TRY(add_piece(out, begin + done, begin + b, step->invert, err));
        B1I_TRY(add_piece(out, begin + b, begin + e, !step->invert, err));
        at = last = done = e;
    }
    if (done < bytes) B1I_TRY(add_piece(out, begin + done, end, step->invert, err));
    return B1_OK;
fail:
    return st;
}

/* Joins the parts [from, count) of one piece as the step's behaviour says, in place. */
static void join_parts(b1i_pieces *list, size_t from, b1i_behaviour behaviour)
{
    bool backward = behaviour == b1i_merged_with_next, previous = false;
    size_t count = list->count - from, kept = 0;
    b1i_piece *p = list->piece + from;
    for (size_t k = 0; k < count; k++) {
        b1i_piece part = p[backward ? count - 1 - k : k];
        bool join = kept && (behaviour == b1i_contiguous ? part.match == previous
                             : behaviour == b1i_isolated ? false
                             : behaviour == b1i_removed  ? false
                                                         : part.match && !previous);
        previous = part.match;
        if (behaviour == b1i_removed && part.match) continue;
        b1i_piece *last = backward ? p + count - kept : p + kept - 1; /* kept ones grow from the end backwards */
        if (join && backward) last->begin = part.begin;
        if (join && !backward) last->end = part.end;
        if (join) continue;
        kept++;
        p[backward ? count - kept : kept - 1] = part;
    }
    if (backward) memmove(p, p + count - kept, kept * sizeof *p);
    list->count = from + kept;
}

static void swap_pieces(b1i_scratch *s)
{
    b1i_pieces keep = s->pieces;
    s->pieces = s->parts;
    s->parts = keep;
}

static b1_status split(b1i_scratch *s, const b1i_step *step, b1_error *err)
{
    b1_status st;
    s->parts.count = 0;
    for (size_t i = 0; i < s->pieces.count; i++) {
        size_t from = s->parts.count;
        B1I_TRY(find_parts(s, step, s->pieces.piece[i].begin, s->pieces.piece[i].end, &s->parts, err));
        if (step->behaviour != b1i_isolated) join_parts(&s->parts, from, step->behaviour);
    }
    swap_pieces(s);
    return B1_OK;
fail:
    return st;
}

/* Steps that change the text: every piece is rewritten into s->other. */
static b1_status rewrite(b1i_scratch *s, const b1i_step *step, bool first, b1_error *err)
{
    b1_status st;
    s->other.bytes = 0;
    for (size_t i = 0; i < s->pieces.count; i++) {
        b1i_piece *piece = &s->pieces.piece[i];
        const char *text = s->text.text + piece->begin;
        size_t bytes = piece->end - piece->begin, at = 0, b, e, start = s->other.bytes;
        bool found = step->kind == b1i_step_replace;
        if (step->kind == b1i_step_prefix && (step->when == b1i_always || (first && piece->begin == 0)) &&
            !(bytes >= step->text_bytes && !memcmp(text, step->text, step->text_bytes)) &&
            !b1i_buffer_put(&s->other, step->text, step->text_bytes))
            return b1i_fail_memory(err, s->other.bytes + step->text_bytes);
        while (found) {
            B1I_TRY(b1i_step_match(s, step, text, bytes, at, &b, &e, &found, err));
            if (!found) break;
            if (!b1i_buffer_put(&s->other, text + at, b - at) ||
                !b1i_buffer_put(&s->other, step->text, step->text_bytes))
                return b1i_fail_memory(err, s->other.bytes + bytes);
            at = e;
        }
        if (!b1i_buffer_put(&s->other, text + at, bytes - at)) return b1i_fail_memory(err, s->other.bytes + bytes);
        *piece = (b1i_piece){start, s->other.bytes, false};
    }
    b1i_buffer keep = s->text;
    s->text = s->other;
    s->other = keep;
    return B1_OK;
fail:
    return st;
}

b1_status b1i_pretokenize(b1i_scratch *s, const b1i_steps *steps, bool first, b1_error *err)
{
    b1_status st;
    s->pieces.count = 0;
    B1I_TRY(add_piece(&s->pieces, 0, s->text.bytes, false, err));
    for (int i = 0; i < steps->count; i++) {
        const b1i_step *step = &steps->step[i];
        if (step->kind == b1i_step_split) {
            B1I_TRY(split(s, step, err));
        } else {
            B1I_TRY(rewrite(s, step, first, err));
        }
    }
    return B1_OK;
fail:
    return st;
}
