/* SPDX-License-Identifier: MIT
 *
 * BPE: a word becomes symbols, and the pair of neighbours whose merge comes first is joined until none is left. Merges
 * come first by their rank, or by the score of the token they make (SentencePiece); among equals the leftmost does.
 * Symbols are a doubly linked list, candidates a binary heap: n log n for a word of n bytes, however long.
 *
 * A byte or character without a token becomes bytes <0xNN> where there is byte fallback, else the unknown token where
 * there is one (a run of them once, with fuse_unk), else nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer_impl.h"

/* ---- heap ---- */

static b1_status heap_push(b1i_scratch *s, b1i_candidate c, b1_error *err)
{
    if (!b1i_grow(&s->heap, &s->heap_capacity, s->heap_count + 1, sizeof *s->heap))
        return b1i_fail_memory(err, (s->heap_count + 1) * sizeof *s->heap);
    size_t i = s->heap_count++;
    for (size_t up; i && s->heap[up = (i - 1) / 2].key > c.key; i = up) s->heap[i] = s->heap[up];
    s->heap[i] = c;
    return B1_OK;
}

static b1i_candidate heap_pop(b1i_scratch *s)
{
    b1i_candidate top = s->heap[0], last = s->heap[--s->heap_count];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < s->heap_count) {
        if (child + 1 < s->heap_count && s->heap[child + 1].key < s->heap[child].key) child++;
        if (s->heap[child].key >= last.key) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* ---- symbols ---- */

static bool usable(const b1_tokenizer *t, int32_t id)
{
    return id >= 0 && (t->token[id].kind == b1i_token_normal || t->token[id].kind == b1i_token_user);
}

static int32_t find_usable(const b1_tokenizer *t, const char *text, size_t bytes)
{
    int32_t id = b1i_vocab_find(t, text, bytes);
    return usable(t, id) ? id : -1;
}

static b1_status add_symbol(b1i_scratch *s, int32_t *count, int32_t id, size_t begin, size_t bytes, b1_error *err)
{
    int32_t i = *count;
    if (!b1i_grow(&s->symbol, &s->symbol_capacity, (size_t)i + 1, sizeof *s->symbol))
        return b1i_fail_memory(err, ((size_t)i + 1) * sizeof *s->symbol);
    s->symbol[i] = (b1i_symbol){id, i - 1, i + 1, (uint32_t)begin, (uint32_t)bytes};
    *count = i + 1;
    return B1_OK;
}

/* The symbols for a character [bytes] without a token of its own. */
static b1_status add_unknown(b1i_scratch *s, int32_t *count, const char *text, size_t begin, size_t bytes,
                             b1_error *err)
{
    b1_status st;
    const b1_tokenizer *t = s->t;
    bool all = !t->byte_level;
    for (size_t i = 0; i < bytes && all; i++) all = t->byte_id[(uint8_t)text[begin + i]] >= 0;
    for (size_t i = 0; i < bytes && all; i++)
        B1I_TRY(add_symbol(s, count, t->byte_id[(uint8_t)text[begin + i]], begin + i, 1, err));
    if (all || t->unknown < 0) return B1_OK;
    b1i_symbol *last = *count ? &s->symbol[*count - 1] : NULL;
    if (t->fuse_unknown && last && last->id == t->unknown && last->begin + last->bytes == begin) {
        last->bytes += (uint32_t)bytes;
        return B1_OK;
    }
    B1I_TRY(add_symbol(s, count, t->unknown, begin, bytes, err));
    return B1_OK;
fail:
    return st;
}

static b1_status make_symbols(b1i_scratch *s, const char *text, size_t bytes, int32_t *count, b1_error *err)
{
    b1_status st;
    const b1_tokenizer *t = s->t;
    *count = 0;
    for (size_t i = 0, n; i < bytes; i += n) {
        uint32_t code;
        bool cut;
        int step = t->byte_level ? 1 : b1i_utf8_step(text + i, bytes - i, &code, &cut);
        n = (size_t)(step > 0 ? step : -step);
        int32_t id = t->byte_level ? t->byte_id[(uint8_t)text[i]] : find_usable(t, text + i, n);
        if (id >= 0 || t->score_rank) {
            B1I_TRY(add_symbol(s, count, id, i, n, err));
        } else {
            B1I_TRY(add_unknown(s, count, text, i, n, err));
        }
    }
    if (*count) s->symbol[*count - 1].next = -1;
    return B1_OK;
fail:
    return st;
}

/* Puts the pair that begins at symbol `left` on the heap, where it merges. */
static b1_status consider(b1i_scratch *s, const char *text, int32_t left, b1_error *err)
{
    const b1_tokenizer *t = s->t;
    if (left < 0 || s->symbol[left].next < 0) return B1_OK;
    const b1i_symbol *l = &s->symbol[left];
    const b1i_symbol *r = &s->symbol[l->next];
    uint32_t rank, bytes = l->bytes + r->bytes;
    int32_t id;
    if (t->score_rank) {
        id = bytes > t->piece_max ? -1 : find_usable(t, text + l->begin, bytes);
        if (id < 0) return B1_OK;
        rank = t->score_rank[id];
    } else {
        const b1i_merge *m = b1i_merges_find(t, l->id, r->id);
        if (!m) return B1_OK;
        rank = m->rank;
        id = m->id;
    }
    return heap_push(s, (b1i_candidate){(uint64_t)rank << 32 | (uint32_t)left, id, (int32_t)bytes}, err);
}

static b1_status merge_all(b1i_scratch *s, const char *text, int32_t count, b1_error *err)
{
    b1_status st;
    s->heap_count = 0;
    for (int32_t i = 0; i + 1 < count; i++) B1I_TRY(consider(s, text, i, err));
    while (s->heap_count) {
        b1i_candidate c = heap_pop(s);
        b1i_symbol *l = &s->symbol[(uint32_t)c.key];
        if (!l->bytes || l->next < 0) continue;
        b1i_symbol *r = &s->symbol[l->next];
        if (l->bytes + r->bytes != (uint32_t)c.bytes) continue; /* one of the two has grown since */
        l->id = c.id;
        l->bytes += r->bytes;
        l->next = r->next;
        r->bytes = 0; /* gone */
        if (l->next >= 0) s->symbol[l->next].previous = (int32_t)(uint32_t)c.key;
        B1I_TRY(consider(s, text, l->previous, err));
        B1I_TRY(consider(s, text, (int32_t)(uint32_t)c.key, err));
    }
    return B1_OK;
fail:
    return st;
}

/* The token of a whole word, spelled as the vocabulary does; *id is -1 where there is none. */
static b1_status whole_word(b1i_scratch *s, const char *text, size_t bytes, int32_t *id, b1_error *err)
{
    if (!s->t->byte_level) {
        *id = find_usable(s->t, text, bytes);
        return B1_OK;
    }
    s->word.bytes = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c[4];
        if (!b1i_buffer_put(&s->word, c, (size_t)b1i_utf8_put(c, b1i_alphabet_char((uint8_t)text[i]))))
            return b1i_fail_memory(err, s->word.bytes);
    }
    *id = find_usable(s->t, s->word.text, s->word.bytes);
    return B1_OK;
}

/* Merging by score: symbols that stayed without a token become bytes or the unknown token. */
static b1_status push_unknown(b1i_scratch *s, const char *text, const b1i_symbol *symbol, b1_error *err)
{
    b1_status st;
    bool all = true;
    for (uint32_t i = 0; i < symbol->bytes; i++) all = all && s->t->byte_id[(uint8_t)text[symbol->begin + i]] >= 0;
    for (uint32_t i = 0; i < symbol->bytes && all; i++)
        B1I_TRY(b1i_scratch_push(s, s->t->byte_id[(uint8_t)text[symbol->begin + i]], err));
    if (!all && s->t->unknown >= 0) B1I_TRY(b1i_scratch_push(s, s->t->unknown, err));
    return B1_OK;
fail:
    return st;
}

b1_status b1i_bpe_word(b1i_scratch *s, const char *text, size_t bytes, b1_error *err)
{
    b1_status st;
    int32_t count, id = -1;
    if (bytes > INT32_MAX) /* symbols count in 32 bits */
        return b1i_fail(err, B1_ARGUMENT, "a word of %zu bytes once normalised, expected at most %d", bytes, INT32_MAX);
    if (s->t->ignore_merges && bytes <= s->t->piece_max) {
        B1I_TRY(whole_word(s, text, bytes, &id, err));
        if (id >= 0) return b1i_scratch_push(s, id, err);
    }
    B1I_TRY(make_symbols(s, text, bytes, &count, err));
    B1I_TRY(merge_all(s, text, count, err));
    for (int32_t i = count ? 0 : -1; i >= 0; i = s->symbol[i].next) {
        if (s->symbol[i].id >= 0) {
            B1I_TRY(b1i_scratch_push(s, s->symbol[i].id, err));
        } else {
            B1I_TRY(push_unknown(s, text, &s->symbol[i], err));
        }
    }
    return B1_OK;
fail:
    return st;
}
