/* SPDX-License-Identifier: MIT
 *
 * Text that grows.
 */
#include "lab/report/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

void b1i_text_free(b1i_text *text)
{
    b1i_free(text->data);
    *text = (b1i_text){0};
}

b1_status b1i_text_status(const b1i_text *text, b1_error *err)
{
    return text->broken ? b1i_fail(err, B1_MEMORY, "not enough memory for a text of %zu bytes", text->count) : B1_OK;
}

const char *b1i_text_get(const b1i_text *text) { return text->data ? text->data : ""; }

/* Room for `more` bytes and a NUL. */
static bool grow(b1i_text *text, size_t more)
{
    size_t need = text->count + more + 1;
    if (text->broken) return false;
    if (need > text->room && !b1i_grow(&text->data, &text->room, need < 256 ? 256 : need, 1)) text->broken = true;
    return !text->broken;
}

void b1i_text_bytes(b1i_text *text, const char *bytes, size_t count)
{
    if (!grow(text, count)) return;
    memcpy(text->data + text->count, bytes, count);
    text->count += count;
    text->data[text->count] = 0;
}

void b1i_text_put(b1i_text *text, const char *plain) { b1i_text_bytes(text, plain, strlen(plain)); }

void b1i_text_printf(b1i_text *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int count = vsnprintf(NULL, 0, format, values);
    va_end(values);
    if (count < 0 || !grow(text, (size_t)count)) return;
    va_start(values, format);
    vsnprintf(text->data + text->count, (size_t)count + 1, format, values);
    va_end(values);
    text->count += (size_t)count;
}

void b1i_html_escape(b1i_text *text, const char *words)
{
    const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)(words ? words : "");
    while (*at) {
        utf8proc_int32_t code;
        utf8proc_ssize_t bytes = utf8proc_iterate(at, -1, &code);
        if (bytes < 1 || code < 0)
            b1i_text_put(text, "\xef\xbf\xbd");
        else if (strchr("&<>\"'", (int)(code < 128 ? code : 1)))
            b1i_text_printf(text, "&#%d;", (int)code);
        else if (code < ' ' || (code >= 0x7f && code < 0xa0))
            b1i_text_put(text, " ");
        else
            b1i_text_bytes(text, (const char *)at, (size_t)bytes);
        at += bytes < 1 ? 1 : bytes;
    }
}

void b1i_html(b1i_text *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    for (const char *at = format; *at;) {
        size_t plain = strcspn(at, "%");
        b1i_text_bytes(text, at, plain);
        at += plain;
        if (!*at) break;
        at++;
        if (*at == 's')
            b1i_html_escape(text, va_arg(values, const char *));
        else if (*at == 'd')
            b1i_text_printf(text, "%d", va_arg(values, int));
        else if (*at == 'z' && at[1] == 'u')
            b1i_text_printf(text, "%zu", va_arg(values, size_t)), at++;
        else
            b1i_text_bytes(text, "%", 1);
        at++;
    }
    va_end(values);
}

void b1i_html_href(b1i_text *text, const char *path)
{
    if (path[0] == '/') b1i_text_put(text, ".");
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        if ((c < 128 && isalnum(c)) || strchr("-_.~/", c))
            b1i_text_bytes(text, path, 1);
        else
            b1i_text_printf(text, "%%%02X", c);
    }
}

void b1i_csv_field(b1i_text *text, const char *words)
{
    if (!words[strcspn(words, ",\"\n\r")]) {
        b1i_text_put(text, words);
        return;
    }
    b1i_text_put(text, "\"");
    for (; *words; words++) b1i_text_bytes(text, *words == '"' ? "\"\"" : words, *words == '"' ? 2 : 1);
    b1i_text_put(text, "\"");
}
