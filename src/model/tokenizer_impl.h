/* SPDX-License-Identifier: MIT
 *
 * The tokenizer's own rooms: what a b1_tokenizer is, and how its files call each other.
 *
 *   text ─ replace invalid UTF-8 ─ cut out added tokens ─ normalise ─ cut out added tokens that want normalised text
 *        ─ pre-tokenise into words ─ BPE ─ ids
 *
 * A tokenizer is immutable once it was handed out. What a call needs meanwhile stands in a b1i_scratch of its own.
 *
 * Invariants of a tokenizer that was handed out: every id of a table or a special lies in [0, vocab); no two tokens
 * have the same text; every merge joins two tokens of the vocabulary to a third.
 */
#ifndef B1I_TOKENIZER_IMPL_H
#define B1I_TOKENIZER_IMPL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "model/tokenizer.h"
#include "model/utf8.h"

enum { B1I_VOCAB_MAX = 1 << 22, B1I_TOKEN_BYTES_MAX = 1 << 20, B1I_STEPS_MAX = 16, B1I_ENDS_MAX = 8 };

/* The numbers are those of GGUF's token types. */
typedef enum b1i_token_kind {
    b1i_token_none, /* a hole between ids */
    b1i_token_normal,
    b1i_token_unknown,
    b1i_token_control, /* special: never made from text without B1_ENCODE_SPECIAL, left out when decoding */
    b1i_token_user,    /* added, not special: always found in text, but for the chat format's marks */
    b1i_token_unused,
    b1i_token_byte, /* <0xNN> */
    b1i_token_kinds
} b1i_token_kind;

typedef struct b1i_token {
    const char *text; /* [bytes], not NUL-terminated */
    uint32_t bytes;
    uint8_t kind;
} b1i_token;

typedef struct b1i_slot {
    int32_t id; /* -1: empty */
    uint32_t hash;
} b1i_slot;

/* Memory that lives as long as the tokenizer, given back at once. */
typedef struct b1i_arena {
    struct b1i_arena_block *blocks;
    size_t used, size; /* of the first block */
} b1i_arena;
void *b1i_arena_take(b1i_arena *arena, size_t bytes); /* aligned to 8; NULL: no memory */
void b1i_arena_free(b1i_arena *arena);

/* ---- steps: the stages of normalising and pre-tokenising as data ---- */

typedef enum b1i_behaviour {
    b1i_isolated,
    b1i_removed,
    b1i_merged_with_previous,
    b1i_merged_with_next,
    b1i_contiguous
} b1i_behaviour;

typedef enum b1i_when { b1i_never, b1i_first, b1i_always } b1i_when;

typedef enum b1i_step_kind {
    b1i_step_unicode,   /* normalise: NFC, NFD, NFKC, NFKD */
    b1i_step_lowercase, /* normalise */
    b1i_step_replace,   /* both: every match of the pattern becomes `text` */
    b1i_step_prepend,   /* normalise: put `text` first, where there is any text */
    b1i_step_strip,     /* normalise: white space at the ends */
    b1i_step_split,     /* pre-tokenise: by matches of the pattern */
    b1i_step_prefix,    /* pre-tokenise: put `text` first where the piece does not begin with it */
} b1i_step_kind;

typedef struct b1i_step {
    b1i_step_kind kind;
    const char *text; /* [text_bytes] */
    size_t text_bytes;
    const char *literal; /* [literal_bytes]: the pattern where it is a plain string */
    size_t literal_bytes;
    pcre2_code *regex; /* else */
    b1i_behaviour behaviour;
    bool invert, compose, compatible, left, right;
    b1i_when when;
} b1i_step;

typedef struct b1i_steps {
    b1i_step step[B1I_STEPS_MAX];
    int count;
} b1i_steps;

/* ---- added tokens ---- */

typedef struct b1i_added {
    const char *text; /* what to find: normalised where `normalized` */
    uint32_t bytes;
    int32_t id;
    bool special, lstrip, rstrip, single_word;
} b1i_added;

/* Sorted by bytes; `first` [257] gives the range of each first byte. */
typedef struct b1i_added_set {
    b1i_added *item;
    int count;
    int32_t first[257];
} b1i_added_set;

/* ---- the tokenizer ---- */

typedef struct b1i_merge {
    uint64_t pair; /* left id, right id; ~0: empty */
    uint32_t rank;
    int32_t id;
} b1i_merge;

typedef enum b1i_chat_family { b1i_chat_none, b1i_chat_chatml, b1i_chat_llama3, b1i_chat_mistral } b1i_chat_family;

typedef struct b1i_chat {
    b1i_chat_family family; /* none: the other fields mean nothing but `why` */
    const char *why;        /* what was not understood */
    int32_t open, header,
        close;   /* ChatML: open, close; Llama-3: all three; Mistral: open, close, or -1: they are text */
    int32_t eos; /* Mistral: behind an answer */
    bool bos, trim;
    const char *system;                       /* the system message where the conversation begins with none, or NULL */
    const char *generation;                   /* behind the last `open`: where the answer begins */
    bool drop_thinking;                       /* ChatML: answers before the last question lose what ends in </think> */
    const char *before, *after;               /* Mistral: around what the user says, [INST] and [/INST] included */
    const char *answer_before, *answer_after; /* Mistral: around an answer and its eos */
    bool system_last, answer_trim; /* Mistral: the system text stands before the last question, not the first */
} b1i_chat;

struct b1_tokenizer {
    b1i_arena arena;
    char *path; /* for sentences */
    b1i_token *token;
    int vocab;
    b1i_slot *slot; /* open addressing by text */
    uint32_t slot_mask;

    b1i_merge *merge; /* open addressing by pair */
    uint32_t merge_mask;
    uint32_t *score_rank; /* [vocab] merging by score instead: smaller merges first; NULL: by `merge` */

    bool byte_level;    /* tokens are spelled in the byte-level alphabet */
    bool byte_fallback; /* characters without a token become <0xNN> */
    bool ignore_merges, fuse_unknown;
    int32_t byte_id[256]; /* byte-level: the token of that byte; else <0xNN>; -1: none */
    int32_t unknown, bos;
    bool bos_default;
    int32_t end[B1I_ENDS_MAX];
    int end_count;

    b1i_steps normalize, split;
    b1i_added *added; /* while loading */
    size_t added_count, added_capacity;
    b1i_added_set raw, normalized; /* found before normalising, and after */

    const char *from, *to; /* decoding replaces `from` by `to` in every token; NULL: nothing is replaced */
    size_t from_bytes, to_bytes;
    bool strip_first; /* decoding drops one space at the start */
    size_t piece_max;

    const char *chat_template; /* NUL-terminated, or NULL */
    b1i_chat chat;
};

b1_status b1i_tokenizer_new(const char *path, b1_tokenizer **out, b1_error *err);

/* ---- tokenizer_vocab.c ---- */
/* `count` ids, all of them holes at first, and room for their texts in the table. */
b1_status b1i_vocab_reserve(b1_tokenizer *t, int64_t count, b1_error *err);
/* The id must be a hole, the text (kept, not copied) non-empty UTF-8 and new. */
b1_status b1i_vocab_add(b1_tokenizer *t, int64_t id, const char *text, size_t bytes, b1i_token_kind kind,
                        b1_error *err);
int32_t b1i_vocab_find(const b1_tokenizer *t, const char *text, size_t bytes); /* -1: none */
b1_status b1i_merges_reserve(b1_tokenizer *t, uint64_t count, b1_error *err);
/* Merge number `rank`, its parts and their sum all of the vocabulary. Those that make a special token are checked and
 * left out: text is never that. */
b1_status b1i_merges_add(b1_tokenizer *t, uint32_t rank, const char *left, size_t left_bytes, const char *right,
                         size_t right_bytes, b1_error *err);
const b1i_merge *b1i_merges_find(const b1_tokenizer *t, int32_t left, int32_t right);
/* Fills the tables that depend on the whole: byte ids, added tokens, the longest piece, the chat family. */
b1_status b1i_tokenizer_finish(b1_tokenizer *t, b1_error *err);
b1_status b1i_tokenizer_add_end(b1_tokenizer *t, int64_t id, b1_error *err);
/* A text token as short printable ASCII for sentences, into `out` [48]. */
const char *b1i_show(const char *text, size_t bytes, char *out);

/* The byte-level alphabet: the byte that a character stands for, or -1; and the character of a byte. */
int b1i_alphabet_byte(uint32_t code);
uint32_t b1i_alphabet_char(uint8_t byte);

/* ---- pretokenize.c, normalize.c, added.c, bpe.c ---- */

typedef struct b1i_buffer {
    char *text;
    size_t bytes, capacity;
} b1i_buffer;
bool b1i_buffer_put(b1i_buffer *b, const char *text, size_t bytes);

typedef struct b1i_piece {
    size_t begin, end;
    bool match; /* while splitting: a match of the pattern, or what lies between two */
} b1i_piece;
typedef struct b1i_pieces {
    b1i_piece *piece;
    size_t count, capacity;
} b1i_pieces;

typedef struct b1i_symbol {
    int32_t id, previous, next; /* id -1: a character without a token (merging by score) */
    uint32_t begin, bytes;
} b1i_symbol;
typedef struct b1i_candidate {
    uint64_t key; /* rank, then position: the smallest merges first */
    int32_t id;   /* what it makes */
    int32_t bytes;
} b1i_candidate;

typedef struct b1i_scratch {
    const b1_tokenizer *t;
    b1i_buffer text, other, word; /* being worked on, the next stage's, a word as its tokens spell it */
    b1i_pieces pieces, parts;
    b1i_symbol *symbol;
    size_t symbol_capacity;
    b1i_candidate *heap;
    size_t heap_count, heap_capacity;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    int32_t *ids;
    size_t count, capacity;
} b1i_scratch;

b1_status b1i_scratch_open(b1i_scratch *s, const b1_tokenizer *t, b1_error *err);
void b1i_scratch_close(b1i_scratch *s);
b1_status b1i_scratch_push(b1i_scratch *s, int32_t id, b1_error *err);

/* Compiles a tokenizer's pattern (Oniguruma's spelling, as these files have it). */
b1_status b1i_regex_compile(const char *pattern, size_t bytes, const char *path, pcre2_code **out, b1_error *err);
/* The next match at or behind `from`; *found is false past the last. */
b1_status b1i_step_match(b1i_scratch *s, const b1i_step *step, const char *text, size_t bytes, size_t from,
                         size_t *begin, size_t *end, bool *found, b1_error *err);
/* A step of its own kind at the list's end; NULL where there is no room (the sentence is there). */
b1i_step *b1i_steps_add(b1i_steps *steps, b1i_step_kind kind, const char *path, b1_error *err);
void b1i_steps_close(b1i_steps *steps);
/* Normalises s->text in place of itself; `first`: it begins the whole text. */
b1_status b1i_normalize(b1i_scratch *s, const b1i_steps *steps, bool first, b1_error *err);
/* Cuts s->text into s->pieces. */
b1_status b1i_pretokenize(b1i_scratch *s, const b1i_steps *steps, bool first, b1_error *err);

b1_status b1i_added_note(b1_tokenizer *t, int32_t id, bool special, bool lstrip, bool rstrip, bool single_word,
                         bool normalized, b1_error *err);
b1_status b1i_added_finish(b1_tokenizer *t, b1_error *err);
/* The first added token at or behind `from`: its span [*begin, *end), white space that it takes included. */
const b1i_added *b1i_added_find(const b1i_added_set *set, const char *text, size_t bytes, size_t from, bool special,
                                size_t *begin, size_t *end);

/* Appends the ids of one word to s->ids. */
b1_status b1i_bpe_word(b1i_scratch *s, const char *text, size_t bytes, b1_error *err);

/* ---- tokenizer.c ---- */
/* Appends the ids of a valid text to s->ids. `first`: nothing stands before it. */
b1_status b1i_encode_text(b1i_scratch *s, const char *text, size_t bytes, bool special, bool first, b1_error *err);
/* The bytes of a token as decoded, into `out` [piece_max], its length returned. */
size_t b1i_token_bytes(const b1_tokenizer *t, int32_t id, char *out);

/* ---- chat_template.c ---- */
/* Reads the family and its details out of t->chat_template. What is not understood is family none, not a failure. */
b1_status b1i_chat_recognise(b1_tokenizer *t, b1_error *err);

#endif
