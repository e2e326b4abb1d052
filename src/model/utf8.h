/* SPDX-License-Identifier: MIT
 *
 * UTF-8: one step over text, validity, replacement as Unicode recommends it, and the few character classes that a
 * tokenizer needs outside its patterns.
 */
#ifndef B1I_UTF8_H
#define B1I_UTF8_H

#include "base/base.h"

enum { B1I_REPLACEMENT_BYTES = 3 };
#define B1I_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* One step over text [bytes ≥ 1]. Positive: the length of the character there, and *code is set. Negative: minus the
 * length of the bytes that one U+FFFD stands for (the longest prefix of a character, else one byte). *cut tells that
 * they are a prefix that only the text's end broke off. */
int b1i_utf8_step(const char *text, size_t bytes, uint32_t *code, bool *cut);
bool b1i_utf8_valid(const char *text, size_t bytes);
/* Writes `code` and returns its length, 1 to 4. */
int b1i_utf8_put(char *out, uint32_t code);
/* Copies with U+FFFD for what is invalid and returns the length; `out` is NULL to count only. At most 3 × bytes. */
size_t b1i_utf8_replace(const char *text, size_t bytes, char *out);

/* White_Space, and what regular expressions call a word character. */
bool b1i_is_space(uint32_t code);
bool b1i_is_word(uint32_t code);

#endif
