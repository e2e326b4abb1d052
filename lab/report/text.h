/* SPDX-License-Identifier: MIT
 *
 * Text that grows, and how words that come from files get into HTML and URLs: escaped, always.
 *
 * A text that met the end of memory is broken: it takes nothing more, and b1i_text_status() says so once at its end.
 */
#ifndef LAB_REPORT_TEXT_H
#define LAB_REPORT_TEXT_H

#include "base/base.h"

typedef struct b1i_text {
    char *data; /* NUL-terminated where not NULL */
    size_t count, room;
    bool broken;
} b1i_text;

void b1i_text_free(b1i_text *text);
b1_status b1i_text_status(const b1i_text *text, b1_error *err);
const char *b1i_text_get(const b1i_text *text); /* "" of an empty one */

void b1i_text_put(b1i_text *text, const char *plain);
void b1i_text_bytes(b1i_text *text, const char *bytes, size_t count);
void b1i_text_printf(b1i_text *text, const char *format, ...) B1I_PRINTF(2, 3);

/* `words` for HTML's content or a quoted attribute: & < > " ' as references; control characters as spaces; what is no
 * UTF-8 as U+FFFD. NULL is "". */
void b1i_html_escape(b1i_text *text, const char *words);
/* HTML as `format` has it, in which %s is escaped. Knows %s, %d, %zu and %% alone. */
void b1i_html(b1i_text *text, const char *format, ...) B1I_PRINTF(2, 3);
/* A path as a relative URL: all but letters, digits and - _ . ~ / as %XX, a colon too, so that none reads as a scheme;
 * before a slash at its beginning a dot. */
void b1i_html_href(b1i_text *text, const char *path);
/* One field of a CSV: quoted where it must be. */
void b1i_csv_field(b1i_text *text, const char *words);

#endif
