/* SPDX-License-Identifier: MIT
 *
 * Added tokens: found in text before BPE, leftmost first, there the longest. Two sets, as the files have it: tokens
 * that are looked for in the text as it came, and those that are looked for once it is normalised (their own text
 * normalised too).
 *
 * A set is sorted by bytes; a search narrows a range of it byte by byte, so its cost does not grow with the set.
 */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer_impl.h"

b1_status b1i_added_note(b1_tokenizer *t, int32_t id, bool special, bool lstrip, bool rstrip, bool single_word,
                         bool normalized, b1_error *err)
{
    if (!b1i_grow(&t->added, &t->added_capacity, t->added_count + 1, sizeof *t->added))
        return b1i_fail_memory(err, (t->added_count + 1) * sizeof *t->added);
    t->added[t->added_count++] =
        (b1i_added){t->token[id].text, normalized ? 0 : t->token[id].bytes, id, special, lstrip, rstrip, single_word};
    return B1_OK;
}

static int by_bytes(const void *left, const void *right)
{
    const b1i_added *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->bytes < b->bytes ? a->bytes : b->bytes);
    if (order) return order;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? -1 : 1) : (a->id > b->id) - (a->id < b->id);
}

static void index_set(b1i_added_set *set)
{
    if (set->count) qsort(set->item, (size_t)set->count, sizeof *set->item, by_bytes);
    for (int byte = 0, i = 0; byte <= 256; byte++) {
        while (i < set->count && (uint8_t)set->item[i].text[0] < byte) i++;
        set->first[byte] = i;
    }
}

/* The token's text as it looks in normalised text, kept in the arena. */
static b1_status normalize_text(b1_tokenizer *t, b1i_scratch *s, b1i_added *a, b1_error *err)
{
    b1_status st;
    s->text.bytes = 0;
    if (!b1i_buffer_put(&s->text, t->token[a->id].text, t->token[a->id].bytes))
        return b1i_fail_memory(err, t->token[a->id].bytes);
    if ((st = b1i_normalize(s, &t->normalize, true, err)) != B1_OK) return st;
    char *text = b1i_arena_take(&t->arena, s->text.bytes);
    if (!text) return b1i_fail_memory(err, s->text.bytes);
    memcpy(text, s->text.text, s->text.bytes);
    a->text = text;
    a->bytes = (uint32_t)s->text.bytes;
    return B1_OK;
}

/* Splits the noted tokens into the two sets; one whose text normalises to nothing is never found. */
b1_status b1i_added_finish(b1_tokenizer *t, b1_error *err)
{
    b1_status st;
    b1i_scratch s = {0};
    size_t bytes = (t->added_count + 1) * sizeof *t->added;
    B1I_TRY(b1i_scratch_open(&s, t, err));
    t->raw.item = b1i_malloc(bytes);
    t->normalized.item = b1i_malloc(bytes);
    if (!t->raw.item || !t->normalized.item) {
        st = b1i_fail_memory(err, bytes);
        goto fail;
    }
    for (size_t i = 0; i < t->added_count; i++) {
        b1i_added *a = &t->added[i];
        b1i_added_set *set = a->bytes ? &t->raw : &t->normalized;
        if (!a->bytes) B1I_TRY(normalize_text(t, &s, a, err));
        if (a->bytes) set->item[set->count++] = *a;
    }
    index_set(&t->raw);
    index_set(&t->normalized);
    st = B1_OK;
fail:
    b1i_scratch_close(&s);
    b1i_free(t->added);
    t->added = NULL;
    t->added_count = t->added_capacity = 0;
    return st;
}

/* Item i has the byte b at `depth`, or lies before (-1) or behind (1) those that have; shorter ones lie before. */
static int side(const b1i_added *a, uint32_t depth, uint8_t b)
{
    if (a->bytes <= depth) return -1;
    uint8_t c = (uint8_t)a->text[depth];
    return c < b ? -1 : c > b;
}

/* The first item of [low, high) that is not before (edge 0) or not among (edge 1) those with byte b at `depth`. */
static int narrow(const b1i_added_set *set, int low, int high, uint32_t depth, uint8_t b, int edge)
{
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (side(&set->item[middle], depth, b) < edge) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest token at text + at. */
static const b1i_added *longest(const b1i_added_set *set, const char *text, size_t bytes, size_t at, bool special)
{
    const b1i_added *best = NULL;
    uint8_t b = (uint8_t)text[at];
    int low = set->first[b], high = set->first[b + 1];
    for (uint32_t depth = 1; low < high; depth++) {
        for (int i = low; i < high && set->item[i].bytes == depth; i++)
            if (special || !set->item[i].special) best = &set->item[i];
        if (at + depth == bytes) break;
        b = (uint8_t)text[at + depth];
        low = narrow(set, low, high, depth, b, 0);
        high = narrow(set, low, high, depth, b, 1);
    }
    return best;
}

/* The character that ends before `at`; U+FFFD where there is none. */
static uint32_t before(const char *text, size_t at, size_t *length)
{
    uint32_t code = 0xfffd;
    bool cut;
    size_t start = at;
    while (start && at - start < 4 && ((uint8_t)text[--start] & 0xc0) == 0x80) continue;
    *length = at - start;
    if (start < at) b1i_utf8_step(text + start, at - start, &code, &cut);
    return code;
}

static uint32_t behind(const char *text, size_t bytes, size_t at, size_t *length)
{
    uint32_t code = 0xfffd;
    bool cut;
    *length = 0;
    if (at == bytes) return code;
    int n = b1i_utf8_step(text + at, bytes - at, &code, &cut);
    *length = (size_t)(n > 0 ? n : -n);
    return code;
}

const b1i_added *b1i_added_find(const b1i_added_set *set, const char *text, size_t bytes, size_t from, bool special,
                                size_t *begin, size_t *end)
{
    size_t n;
    if (!set->count) return NULL;
    for (size_t at = from; at < bytes; at++) {
        const b1i_added *a = set->first[(uint8_t)text[at]] < set->first[(uint8_t)text[at] + 1]
                                 ? longest(set, text, bytes, at, special)
                                 : NULL;
        if (!a) continue;
        *begin = at;
        *end = at + a->bytes;
        if (a->single_word && ((*begin && b1i_is_word(before(text, *begin, &n))) ||
                               (*end < bytes && b1i_is_word(behind(text, bytes, *end, &n))))) {
            at = *end - 1; /* the search goes on behind it */
            continue;
        }
        while (a->lstrip && *begin > from && b1i_is_space(before(text, *begin, &n))) *begin -= n;
        while (a->rstrip && *end < bytes && b1i_is_space(behind(text, bytes, *end, &n))) *end += n;
        return a;
    }
    return NULL;
}
