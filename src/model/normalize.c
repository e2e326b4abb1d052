/* SPDX-License-Identifier: MIT
 *
 * Normalising: Unicode forms (utf8proc's tables), lower case, replacement, a prefix, stripping.
 *
 * Unicode forms go through code points: decompose each, order runs of combining marks, compose. The ordering is our
 * own, for it must not be quadratic in the length of a run of marks.
 */
#include <string.h>
#include <utf8proc.h>

#include "model/tokenizer_impl.h"

typedef struct codes {
    utf8proc_int32_t *code;
    size_t count, capacity;
} codes;

static uint8_t combining_class(utf8proc_int32_t code) { return (uint8_t)utf8proc_get_property(code)->combining_class; }

/* Sorts marks [count] by their class, stably; `room` [count]. */
static void order_marks(utf8proc_int32_t *mark, size_t count, utf8proc_int32_t *room)
{
    size_t start[257] = {0};
    bool sorted = true;
    for (size_t i = 1; i < count && sorted; i++) sorted = combining_class(mark[i - 1]) <= combining_class(mark[i]);
    if (sorted) return;
    for (size_t i = 0; i < count; i++) start[combining_class(mark[i]) + 1]++;
    for (int c = 0; c < 256; c++) start[c + 1] += start[c];
    for (size_t i = 0; i < count; i++) room[start[combining_class(mark[i])]++] = mark[i];
    memcpy(mark, room, count * sizeof *mark);
}

static b1_status decompose(const b1i_buffer *text, utf8proc_option_t options, codes *out, b1_error *err)
{
    enum { ONE_CHARACTER_MAX = 32 };
    for (size_t i = 0; i < text->bytes;) {
        uint32_t code = 0xfffd;
        bool cut;
        int boundary, n = b1i_utf8_step(text->text + i, text->bytes - i, &code, &cut);
        i += (size_t)(n > 0 ? n : -n);
        if (!b1i_grow(&out->code, &out->capacity, out->count + ONE_CHARACTER_MAX, sizeof *out->code))
            return b1i_fail_memory(err, (out->count + ONE_CHARACTER_MAX) * sizeof *out->code);
        utf8proc_ssize_t got = utf8proc_decompose_char((utf8proc_int32_t)code, out->code + out->count,
                                                       ONE_CHARACTER_MAX, options, &boundary);
        if (got < 0 || got > ONE_CHARACTER_MAX) { /* no character is that long: kept as it is */
            out->code[out->count] = (utf8proc_int32_t)code;
            got = 1;
        }
        out->count += (size_t)got;
    }
    return B1_OK;
}

/* The text is in every composed form already: below U+0300, or U+0080 for the others. */
static bool needs_nothing(const b1i_buffer *text, const b1i_step *step)
{
    uint8_t low = step->compose && !step->compatible ? 0xcc : 0x80;
    for (size_t i = 0; i < text->bytes; i++)
        if ((uint8_t)text->text[i] >= low) return false;
    return true;
}

static b1_status unicode_form(b1i_scratch *s, const b1i_step *step, b1_error *err)
{
    b1_status st;
    codes c = {0}, room = {0};
    if (needs_nothing(&s->text, step)) return B1_OK;
    utf8proc_option_t options = UTF8PROC_STABLE | (step->compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                (step->compatible ? UTF8PROC_COMPAT : 0);
    B1I_TRY(decompose(&s->text, options, &c, err));
    for (size_t i = 0, n; i < c.count; i += n) {
        for (n = 0; i + n < c.count && combining_class(c.code[i + n]); n++) continue;
        if (n < 2) {
            n += !n;
            continue;
        }
        if (!b1i_grow(&room.code, &room.capacity, n, sizeof *room.code)) {
            st = b1i_fail_memory(err, n * sizeof *room.code);
            goto fail;
        }
        order_marks(c.code + i, n, room.code);
    }
    if (step->compose && c.count) {
        utf8proc_ssize_t n = utf8proc_normalize_utf32(c.code, (utf8proc_ssize_t)c.count, options);
        if (n >= 0) c.count = (size_t)n;
    }
    s->text.bytes = 0;
    st = B1_OK;
    for (size_t i = 0; i < c.count; i++) {
        char out[4];
        if (b1i_buffer_put(&s->text, out, (size_t)b1i_utf8_put(out, (uint32_t)c.code[i]))) continue;
        st = b1i_fail_memory(err, s->text.bytes);
        break;
    }
fail:
    b1i_free(c.code);
    b1i_free(room.code);
    return st;
}

/* Rewrites s->text through s->other. */
static void take_other(b1i_scratch *s)
{
    b1i_buffer keep = s->text;
    s->text = s->other;
    s->other = keep;
}

static b1_status lowercase(b1i_scratch *s, b1_error *err)
{
    s->other.bytes = 0;
    for (size_t i = 0; i < s->text.bytes;) {
        uint32_t code = 0xfffd;
        bool cut;
        char out[8];
        int n = b1i_utf8_step(s->text.text + i, s->text.bytes - i, &code, &cut), length;
        i += (size_t)(n > 0 ? n : -n);
        if (code == 0x130) { /* the one character whose lower case is two */
            length = b1i_utf8_put(out, 'i');
            length += b1i_utf8_put(out + length, 0x307);
        } else {
            length = b1i_utf8_put(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
        }
        if (!b1i_buffer_put(&s->other, out, (size_t)length)) return b1i_fail_memory(err, s->other.bytes);
    }
    take_other(s);
    return B1_OK;
}

static b1_status replace(b1i_scratch *s, const b1i_step *step, b1_error *err)
{
    b1_status st;
    const char *text = s->text.text;
    size_t bytes = s->text.bytes, done = 0, at = 0, last = SIZE_MAX, b, e;
    uint32_t code;
    bool found, cut;
    s->other.bytes = 0;
    while (at <= bytes) {
        B1I_TRY(b1i_step_match(s, step, text, bytes, at, &b, &e, &found, err));
        if (!found) break;
        if (b == e && e == last) {
            int n = at < bytes ? b1i_utf8_step(text + at, bytes - at, &code, &cut) : 1;
            at += (size_t)(n > 0 ? n : -n);
            continue;
        }
        if (!b1i_buffer_put(&s->other, text + done, b - done) ||
            !b1i_buffer_put(&s->other, step->text, step->text_bytes))
            return b1i_fail_memory(err, s->other.bytes + bytes);
        at = last = done = e;
    }
    if (!b1i_buffer_put(&s->other, text + done, bytes - done)) return b1i_fail_memory(err, s->other.bytes + bytes);
    take_other(s);
    return B1_OK;
fail:
    return st;
}

static b1_status prepend(b1i_scratch *s, const b1i_step *step, b1_error *err)
{
    s->other.bytes = 0;
    if (!b1i_buffer_put(&s->other, step->text, step->text_bytes) ||
        !b1i_buffer_put(&s->other, s->text.text, s->text.bytes))
        return b1i_fail_memory(err, step->text_bytes + s->text.bytes);
    take_other(s);
    return B1_OK;
}

static void strip(b1i_buffer *text, const b1i_step *step)
{
    size_t begin = 0, end = 0, at = 0;
    bool inside = false, cut;
    while (at < text->bytes) {
        uint32_t code = 0xfffd;
        int n = b1i_utf8_step(text->text + at, text->bytes - at, &code, &cut);
        at += (size_t)(n > 0 ? n : -n);
        if (b1i_is_space(code)) {
            if (!inside) begin = at;
        } else {
            inside = true;
            end = at;
        }
    }
    if (!step->left) begin = 0;
    if (!step->right || !inside) end = step->right && !inside ? begin : text->bytes;
    text->bytes = end - begin;
    memmove(text->text, text->text + begin, text->bytes);
}

b1_status b1i_normalize(b1i_scratch *s, const b1i_steps *steps, bool first, b1_error *err)
{
    b1_status st = B1_OK;
    for (int i = 0; i < steps->count && s->text.bytes; i++) {
        const b1i_step *step = &steps->step[i];
        switch (step->kind) {
        case b1i_step_unicode:
            st = unicode_form(s, step, err);
            break;
        case b1i_step_lowercase:
            st = lowercase(s, err);
            break;
        case b1i_step_replace:
            st = replace(s, step, err);
            break;
        case b1i_step_prepend:
            if (step->when == b1i_always || first) st = prepend(s, step, err);
            break;
        case b1i_step_strip:
            strip(&s->text, step);
            break;
        default:
            break;
        }
        if (st != B1_OK) return st;
    }
    return B1_OK;
}
