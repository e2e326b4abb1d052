/* SPDX-License-Identifier: MIT
 *
 * Status names, error sentences, version and clock.
 *
 * A sentence may quote bytes of a hostile file (a tensor's name, a key), so it is made one line of valid UTF-8
 * before anyone sees it: control characters and broken sequences become '?', and a cut falls between characters.
 */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const status_names[] = {
#define NAME(name, text) #name,
    B1_STATUS_MAP(NAME)
#undef NAME
};

static const char *const status_texts[] = {
#define TEXT(name, text) text,
    B1_STATUS_MAP(TEXT)
#undef TEXT
};

enum { STATUS_COUNT = sizeof status_names / sizeof *status_names };

const char *b1_status_name(b1_status status)
{
    return (unsigned)status < STATUS_COUNT ? status_names[status] : "UNKNOWN";
}

const char *b1_status_text(b1_status status)
{
    return (unsigned)status < STATUS_COUNT ? status_texts[status] : "unknown status";
}

const char *b1_version(void) { return B1_VERSION; }

/* Bytes of the well-formed UTF-8 character at `s` [left ≥ 1], 0 where there is none. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
    static const struct {
        unsigned char first, last, low, high; /* lead byte's range, second byte's range */
        size_t bytes;
    } rows[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        if (s[0] < rows[r].first || s[0] > rows[r].last) continue;
        if (rows[r].bytes > left) return 0;
        if (rows[r].bytes > 1 && (s[1] < rows[r].low || s[1] > rows[r].high)) return 0;
        for (size_t i = 2; i < rows[r].bytes; i++) {
            if ((s[i] & 0xc0) != 0x80) return 0;
        }
        return rows[r].bytes;
    }
    return 0;
}

b1_status(b1i_fail)(b1_error *err, b1_status status, const char *format, ...)
{
    if (!err) return status;
    char text[2 * sizeof err->message]; /* apart from err->message, which may be an argument */
    va_list args;
    va_start(args, format);
    int made = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t length = made < 0 ? 0 : strlen(text), at = 0, out = 0;
    while (at < length) {
        const unsigned char *s = (const unsigned char *)text + at;
        size_t n = utf8_length(s, length - at);
        bool plain = n > 1 || (n == 1 && s[0] >= 0x20 && s[0] != 0x7f);
        size_t step = n ? n : 1, width = plain ? n : 1;
        if (out + width >= sizeof err->message) break;
        if (plain)
            memcpy(err->message + out, s, width);
        else
            err->message[out] = '?';
        at += step;
        out += width;
    }
    err->message[out] = 0;
    err->status = status;
    return status;
}

b1_status(b1i_fail_memory)(b1_error *err, size_t bytes)
{
    return b1i_fail(err, B1_MEMORY, "not enough memory: an allocation of %zu bytes failed", bytes);
}

uint64_t b1i_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
