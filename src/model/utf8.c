/* SPDX-License-Identifier: MIT
 *
 * UTF-8 steps. Well-formed is what Unicode's table 3-7 says: no surrogates, nothing overlong, nothing past U+10FFFF.
 * What is not well-formed is replaced by maximal subparts, so that counts of U+FFFD equal those of Python and of the
 * WHATWG decoder.
 */
#include "model/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* By the first byte: the length of the character, and the range of its second byte. */
static int lead(uint8_t b, uint8_t *low, uint8_t *high)
{
    *low = b == 0xe0 ? 0xa0 : b == 0xf0 ? 0x90 : 0x80;
    *high = b == 0xed ? 0x9f : b == 0xf4 ? 0x8f : 0xbf;
    return b < 0x80 ? 1 : b < 0xc2 ? 0 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : b < 0xf5 ? 4 : 0;
}

int b1i_utf8_step(const char *text, size_t bytes, uint32_t *code, bool *cut)
{
    const uint8_t *s = (const uint8_t *)text;
    uint8_t low, high;
    int length = lead(s[0], &low, &high);
    *cut = false;
    if (length == 1) *code = s[0];
    if (length == 1) return 1;
    if (length == 0) return -1;
    uint32_t c = s[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++, low = 0x80, high = 0xbf) {
        if ((size_t)i == bytes) {
            *cut = true;
            return -i;
        }
        if (s[i] < low || s[i] > high) return -i;
        c = c << 6 | (s[i] & 0x3fu);
    }
    *code = c;
    return length;
}

/* How many bytes at the start are ASCII, by words. */
static size_t ascii_run(const char *text, size_t bytes)
{
    size_t i = 0;
    for (uint64_t word; i + 8 <= bytes; i += 8) {
        memcpy(&word, text + i, 8);
        if (word & 0x8080808080808080u) break;
    }
    return i;
}

bool b1i_utf8_valid(const char *text, size_t bytes)
{
    uint32_t code;
    bool cut;
    for (size_t i = ascii_run(text, bytes); i < bytes;) {
        int n = b1i_utf8_step(text + i, bytes - i, &code, &cut);
        if (n < 0) return false;
        i += (size_t)n;
        if (n == 1) i += ascii_run(text + i, bytes - i);
    }
    return true;
}

int b1i_utf8_put(char *out, uint32_t code)
{
    int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t mark[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(mark[length] | code);
    return length;
}

size_t b1i_utf8_replace(const char *text, size_t bytes, char *out)
{
    size_t written = 0;
    uint32_t code;
    bool cut;
    for (size_t i = 0; i < bytes;) {
        int n = b1i_utf8_step(text + i, bytes - i, &code, &cut);
        size_t length = n > 0 ? (size_t)n : B1I_REPLACEMENT_BYTES;
        if (out) memcpy(out + written, n > 0 ? text + i : B1I_REPLACEMENT, length);
        written += length;
        i += (size_t)(n > 0 ? n : -n);
    }
    return written;
}

bool b1i_is_space(uint32_t code)
{
    if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
    if (code == 0x85) return true;
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

bool b1i_is_word(uint32_t code)
{
    if (code == 0x200c || code == 0x200d) return true;   /* joiners */
    if (code >= 0x24b6 && code <= 0x24e9) return true;   /* circled letters */
    if (code >= 0x1f130 && code <= 0x1f149) return true; /* squared, circled and boxed letters */
    if ((code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189)) return true;
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}
