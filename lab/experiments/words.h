/* SPDX-License-Identifier: MIT
 *
 * Memory whose every 64-bit word is its own: word i is b1i_mix64(i). What reading, copying or writing it must give is
 * known from the words alone. This is the oracle of what reads memory; it shares no code with kernels or CPU bodies.
 */
#ifndef LAB_EXPERIMENTS_WORDS_H
#define LAB_EXPERIMENTS_WORDS_H

#include "lab/work.h"

/* Of a piece: the sum of its 32-bit words, and the exclusive or of its 64-bit words. */
typedef struct b1i_words_sum {
    uint32_t sum;
    uint64_t mix;
} b1i_words_sum;

/* Writes words 0, 1, … to `memory` [bytes], and what each piece of `piece` bytes gives to `sums` [bytes / piece]. Both
 * are multiples of 8, and `bytes` of `piece`. */
b1_status b1i_words_put(b1i_lab_device *device, uint64_t memory, uint64_t bytes, uint64_t piece, b1i_words_sum *sums,
                        b1_error *err);

/* What memory must hold. */
typedef enum b1i_words_kind {
    b1i_words_own, /* the words of b1i_words_put() */
    b1i_words_tile /* 32-bit words: (their place in a tile of `tile` bytes, a power of two) × step + seed */
} b1i_words_kind;
typedef struct b1i_words_rule {
    b1i_words_kind kind;
    uint32_t tile, step, seed;
} b1i_words_rule;

/* Compares [offset, offset + bytes) of `memory` with the rule: B1_DEVICE names `what`, the first byte that differs, and
 * both words. offset and bytes: multiples of 8. */
b1_status b1i_words_check(b1i_lab_device *device, const char *what, const b1i_words_rule *rule, uint64_t memory,
                          uint64_t offset, uint64_t bytes, b1_error *err);

#endif
