/* SPDX-License-Identifier: MIT
 *
 * The vocabulary and the merges: building, checking, looking up. Both tables are open addressing with linear probing,
 * at most half full; the texts lie in the tokenizer's arena.
 *
 * Refused: empty or repeated tokens, tokens that are not UTF-8, ids outside the vocabulary, merges of what is no
 * token, repeated merges.
 */
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer_impl.h"

/* ---- arena ---- */

enum { BLOCK_BYTES = 1 << 16 };

struct b1i_arena_block {
    struct b1i_arena_block *next;
    uint64_t memory[]; /* aligned for all that is kept here */
};

void *b1i_arena_take(b1i_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - BLOCK_BYTES) return NULL;
    bytes = (bytes + 7) & ~(size_t)7;
    if (!arena->blocks || bytes > arena->size - arena->used) {
        size_t size = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
        struct b1i_arena_block *block = b1i_malloc(sizeof *block + size);
        if (!block) return NULL;
        if (size == bytes && arena->blocks) { /* a large piece alone: the open block stays in front */
            block->next = arena->blocks->next;
            arena->blocks->next = block;
            return block->memory;
        }
        *block = (struct b1i_arena_block){arena->blocks};
        arena->blocks = block;
        arena->used = 0;
        arena->size = size;
    }
    void *at = (char *)arena->blocks->memory + arena->used;
    arena->used += bytes;
    return at;
}

void b1i_arena_free(b1i_arena *arena)
{
    for (struct b1i_arena_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        b1i_free(block);
    }
    *arena = (b1i_arena){0};
}

/* ---- the byte-level alphabet: printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up ---- */

static bool stands_for_itself(uint32_t b) { return (b >= 33 && b <= 126) || (b >= 161 && b != 173 && b <= 255); }

uint32_t b1i_alphabet_char(uint8_t byte)
{
    if (stands_for_itself(byte)) return byte;
    return byte <= 32 ? 256u + byte : byte <= 160 ? 256u + 33u + (byte - 127u) : 256u + 67u;
}

int b1i_alphabet_byte(uint32_t code)
{
    if (code < 256) return stands_for_itself(code) ? (int)code : -1;
    if (code >= 256 + 68) return -1;
    uint32_t k = code - 256;
    return (int)(k < 33 ? k : k < 67 ? k - 33 + 127 : 173);
}

const char *b1i_show(const char *text, size_t bytes, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes && n < 40; i++) {
        uint8_t b = (uint8_t)text[i];
        out[n++] = b >= 32 && b < 127 ? (char)b : '?';
    }
    memcpy(out + n, bytes > n ? "..." : "", 4 - (bytes <= n ? 3 : 0));
    return out;
}

/* ---- tokens ---- */

static uint64_t hash_text(const char *text, size_t bytes)
{
    uint64_t h = bytes * 0x9e3779b97f4a7c15u, word;
    for (; bytes >= 8; text += 8, bytes -= 8) {
        memcpy(&word, text, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    for (word = 0; bytes; bytes--) word = word << 8 | (uint8_t)text[bytes - 1];
    return b1i_mix64(h ^ word);
}

/* A power of two of which `count` is at most half, less one. */
static uint32_t mask_for(uint64_t count)
{
    uint64_t size = 16;
    while (size < 2 * count) size *= 2;
    return (uint32_t)(size - 1);
}

b1_status b1i_vocab_reserve(b1_tokenizer *t, int64_t count, b1_error *err)
{
    if (count < 1 || count > B1I_VOCAB_MAX)
        return b1i_fail(err, B1_MODEL, "%s: a vocabulary of %lld ids, expected 1 to %d", t->path, (long long)count,
                        B1I_VOCAB_MAX);
    t->slot_mask = mask_for((uint64_t)count);
    size_t slots = ((size_t)t->slot_mask + 1) * sizeof *t->slot;
    t->token = b1i_calloc((size_t)count, sizeof *t->token);
    t->slot = b1i_malloc(slots);
    if (!t->token || !t->slot) return b1i_fail_memory(err, slots);
    memset(t->slot, 0xff, slots);
    t->vocab = (int)count;
    return B1_OK;
}

/* The text's slot, or the empty one where it belongs. */
static b1i_slot *find_slot(const b1_tokenizer *t, const char *text, size_t bytes, uint32_t hash)
{
    for (uint32_t i = hash;; i++) {
        b1i_slot *slot = &t->slot[i & t->slot_mask];
        if (slot->id < 0) return slot;
        if (slot->hash != hash) continue;
        const b1i_token *other = &t->token[slot->id];
        if (other->bytes == bytes && !memcmp(other->text, text, bytes)) return slot;
    }
}

int32_t b1i_vocab_find(const b1_tokenizer *t, const char *text, size_t bytes)
{
    return find_slot(t, text, bytes, (uint32_t)hash_text(text, bytes))->id;
}

b1_status b1i_vocab_add(b1_tokenizer *t, int64_t id, const char *text, size_t bytes, b1i_token_kind kind, b1_error *err)
{
    char shown[48];
    if (id < 0 || id >= t->vocab)
        return b1i_fail(err, B1_MODEL, "%s: token id %lld, expected 0 to %d", t->path, (long long)id, t->vocab - 1);
    if (!bytes || bytes > B1I_TOKEN_BYTES_MAX)
        return b1i_fail(err, B1_MODEL, "%s: token %lld has %zu bytes, expected 1 to %d", t->path, (long long)id, bytes,
                        B1I_TOKEN_BYTES_MAX);
    if (!b1i_utf8_valid(text, bytes))
        return b1i_fail(err, B1_MODEL, "%s: token %lld (%s) is not UTF-8", t->path, (long long)id,
                        b1i_show(text, bytes, shown));
    if (t->token[id].kind != b1i_token_none)
        return b1i_fail(err, B1_MODEL, "%s: two tokens have the id %lld, one of them %s", t->path, (long long)id,
                        b1i_show(text, bytes, shown));
    uint32_t hash = (uint32_t)hash_text(text, bytes);
    b1i_slot *slot = find_slot(t, text, bytes, hash);
    if (slot->id >= 0)
        return b1i_fail(err, B1_MODEL, "%s: tokens %d and %lld have the same text, %s", t->path, slot->id,
                        (long long)id, b1i_show(text, bytes, shown));
    *slot = (b1i_slot){(int32_t)id, hash};
    t->token[id] = (b1i_token){text, (uint32_t)bytes, (uint8_t)kind};
    return B1_OK;
}

/* ---- merges ---- */

b1_status b1i_merges_reserve(b1_tokenizer *t, uint64_t count, b1_error *err)
{
    if (count > 4 * (uint64_t)B1I_VOCAB_MAX)
        return b1i_fail(err, B1_MODEL, "%s: %llu merges, expected at most %d", t->path, (unsigned long long)count,
                        4 * B1I_VOCAB_MAX);
    t->merge_mask = mask_for(count);
    size_t bytes = ((size_t)t->merge_mask + 1) * sizeof *t->merge;
    t->merge = b1i_malloc(bytes);
    if (!t->merge) return b1i_fail_memory(err, bytes);
    memset(t->merge, 0xff, bytes);
    return B1_OK;
}

static b1i_merge *merge_slot(const b1_tokenizer *t, uint64_t pair)
{
    for (uint32_t i = (uint32_t)(b1i_mix64(pair) >> 16);; i++) {
        b1i_merge *m = &t->merge[i & t->merge_mask];
        if (m->pair == pair || m->pair == UINT64_MAX) return m;
    }
}

const b1i_merge *b1i_merges_find(const b1_tokenizer *t, int32_t left, int32_t right)
{
    const b1i_merge *m = merge_slot(t, (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    return m->pair == UINT64_MAX ? NULL : m;
}

static b1_status refuse_merge(const b1_tokenizer *t, uint32_t rank, const char *text, size_t bytes, b1_error *err)
{
    char shown[48];
    return b1i_fail(err, B1_MODEL, "%s: merge %u: %s is not in the vocabulary", t->path, rank,
                    b1i_show(text, bytes, shown));
}

b1_status b1i_merges_add(b1_tokenizer *t, uint32_t rank, const char *left, size_t left_bytes, const char *right,
                         size_t right_bytes, b1_error *err)
{
    b1_status st;
    char small[256], *sum = small;
    if (!left_bytes || !right_bytes)
        return b1i_fail(err, B1_MODEL, "%s: merge %u has an empty part, expected two tokens", t->path, rank);
    int32_t l = b1i_vocab_find(t, left, left_bytes), r = b1i_vocab_find(t, right, right_bytes);
    if (l < 0) return refuse_merge(t, rank, left, left_bytes, err);
    if (r < 0) return refuse_merge(t, rank, right, right_bytes, err);
    size_t bytes = left_bytes + right_bytes; /* both are token lengths: no overflow */
    if (bytes > sizeof small) sum = b1i_malloc(bytes);
    if (!sum) return b1i_fail_memory(err, bytes);
    memcpy(sum, left, left_bytes);
    memcpy(sum + left_bytes, right, right_bytes);
    int32_t id = b1i_vocab_find(t, sum, bytes);
    st = id < 0 ? refuse_merge(t, rank, sum, bytes, err) : B1_OK;
    if (sum != small) b1i_free(sum);
    if (st != B1_OK) return st;
    uint64_t pair = (uint64_t)(uint32_t)l << 32 | (uint32_t)r;
    b1i_merge *m = merge_slot(t, pair);
    if (m->pair == pair) return b1i_fail(err, B1_MODEL, "%s: merges %u and %u are the same", t->path, m->rank, rank);
    if (t->token[id].kind == b1i_token_normal || t->token[id].kind == b1i_token_user) *m = (b1i_merge){pair, rank, id};
    return B1_OK;
}

/* ---- the whole ---- */

b1_status b1i_tokenizer_new(const char *path, b1_tokenizer **out, b1_error *err)
{
    *out = NULL;
    b1_tokenizer *t = b1i_calloc(1, sizeof *t);
    if (!t) return b1i_fail_memory(err, sizeof *t);
    t->path = b1i_strdup(path);
    t->unknown = t->bos = -1;
    *out = t;
    return t->path ? B1_OK : b1i_fail_memory(err, strlen(path) + 1);
}

b1_status b1i_tokenizer_add_end(b1_tokenizer *t, int64_t id, b1_error *err)
{
    if (id < 0 || id >= t->vocab || t->token[id].kind == b1i_token_none)
        return b1i_fail(err, B1_MODEL, "%s: end token %lld is not in the vocabulary of %d", t->path, (long long)id,
                        t->vocab);
    for (int i = 0; i < t->end_count; i++)
        if (t->end[i] == id) return B1_OK;
    if (t->end_count < B1I_ENDS_MAX) t->end[t->end_count++] = (int32_t)id;
    return B1_OK;
}

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* The byte that a token of the form <0xNN> names, or -1. */
static int named_byte(const b1i_token *k)
{
    if (k->bytes != 6 || memcmp(k->text, "<0x", 3) || k->text[5] != '>') return -1;
    int high = hex_digit(k->text[3]), low = hex_digit(k->text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

static b1_status fill_bytes(b1_tokenizer *t, b1_error *err)
{
    memset(t->byte_id, 0xff, sizeof t->byte_id);
    for (int b = 0; t->byte_level && b < 256; b++) {
        char c[4];
        size_t n = (size_t)b1i_utf8_put(c, b1i_alphabet_char((uint8_t)b));
        int32_t id = b1i_vocab_find(t, c, n);
        if (id < 0 || (t->token[id].kind != b1i_token_normal && t->token[id].kind != b1i_token_user)) continue;
        t->byte_id[b] = id;
    }
    for (int id = 0; !t->byte_level && t->byte_fallback && id < t->vocab; id++) {
        b1i_token *k = &t->token[id];
        if (k->kind != b1i_token_normal && k->kind != b1i_token_byte) continue;
        int b = named_byte(k);
        if (b < 0 && k->kind == b1i_token_byte) {
            char shown[48];
            return b1i_fail(err, B1_MODEL, "%s: byte token %d is %s, expected the form <0x0A>", t->path, id,
                            b1i_show(k->text, k->bytes, shown));
        }
        if (b < 0) continue;
        k->kind = b1i_token_byte;
        t->byte_id[b] = id;
    }
    return B1_OK;
}

b1_status b1i_tokenizer_finish(b1_tokenizer *t, b1_error *err)
{
    b1_status st;
    B1I_TRY(fill_bytes(t, err));
    size_t longest = 4;
    for (int id = 0; id < t->vocab; id++)
        if (t->token[id].bytes > longest) longest = t->token[id].bytes;
    if (t->to_bytes > t->from_bytes && t->from_bytes) longest = longest / t->from_bytes * t->to_bytes + longest;
    t->piece_max = longest;
    B1I_TRY(b1i_added_finish(t, err));
    B1I_TRY(b1i_chat_recognise(t, err));
    return B1_OK;
fail:
    return st;
}
