/* SPDX-License-Identifier: MIT
 *
 * The page's small parts: links, numbers, tables, claims.
 */
#include "lab/report/page.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DOCUMENT_ROWS_MOST = 400, PATH_MOST = 200 };

void b1i_page_anchor(b1i_page *page, const b1i_report_run *run, const char *file, bool row)
{
    b1i_text_put(&page->html, "<a href=\"");
    b1i_text_put(&page->html, run->href);
    b1i_html_href(&page->html, file);
    b1i_text_put(&page->html, row ? "\">" : "\" tabindex=\"-1\">");
}

void b1i_page_link(b1i_page *page, const b1i_report_run *run, const char *file, const char *words)
{
    b1i_page_anchor(page, run, file, true);
    b1i_html(&page->html, "%s</a>", words);
}

void b1i_page_number(b1i_page *page, const b1i_report_run *run, const char *file, double value, int decimals)
{
    if (!isfinite(value)) {
        b1i_text_put(&page->html, "<td class=\"n none\">–</td>");
        return;
    }
    b1i_text_put(&page->html, "<td class=\"n\">");
    b1i_page_anchor(page, run, file, false);
    b1i_text_printf(&page->html, "%.*f</a></td>", decimals, value);
}

int b1i_page_decimals(double least) { return least >= 1000 ? 1 : least >= 100 ? 2 : 3; }

void b1i_page_table(b1i_page *page, const char *caption, const char *note)
{
    b1i_html(&page->html,
             "<div class=\"scroll\" role=\"region\" aria-label=\"%s\" tabindex=\"0\"><table><caption><span><b>%s</b> %s"
             "</span></caption>\n",
             caption, caption, note);
}

void b1i_page_table_end(b1i_page *page) { b1i_text_put(&page->html, "</table></div>\n"); }

void b1i_page_column(b1i_page *page, const char *words, bool number)
{
    b1i_html(&page->html, number ? "<th scope=\"col\" class=\"n\">%s</th>" : "<th scope=\"col\">%s</th>", words);
}

void b1i_page_columns(b1i_page *page, const char *const *words, const bool *numbers)
{
    b1i_text_put(&page->html, "<thead><tr>");
    for (int i = 0; words[i]; i++) b1i_page_column(page, words[i], numbers[i]);
    b1i_text_put(&page->html, "</tr></thead><tbody>\n");
}

void b1i_page_body_end(b1i_page *page)
{
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
}

void b1i_page_row(b1i_page *page, const b1i_report_run *run, const char *file, const char *words)
{
    b1i_text_put(&page->html, "<tr><th scope=\"row\">");
    b1i_page_link(page, run, file, words ? words : "");
    b1i_text_put(&page->html, "</th>");
}

void b1i_page_words(b1i_page *page, const char *words) { b1i_html(&page->html, "<td class=\"words\">%s</td>", words); }

void b1i_page_claim(b1i_page *page, const b1i_report_run *run, const char *files, const char *format, ...)
{
    char words[700];
    va_list values;
    va_start(values, format);
    vsnprintf(words, sizeof words, format, values);
    va_end(values);
    b1i_html(&page->claims, "<tr><td><a href=\"#run-%d\">%s</a></td><td>%s</td><td>", run->number, run->name, words);
    while (*files) {
        char file[300];
        size_t length = strcspn(files, " ");
        snprintf(file, sizeof file, "%.*s", (int)length, files);
        b1i_text_printf(&page->claims, "<a href=\"%s", run->href);
        b1i_html_href(&page->claims, file);
        b1i_html(&page->claims, "\">%s</a>", file);
        files += length;
        files += strspn(files, " ");
        if (*files) b1i_text_put(&page->claims, "<br>");
    }
    b1i_text_put(&page->claims, "</td></tr>\n");
}

b1_status b1i_page_file(const char *folder, const char *name, const char *suffix, const b1i_text *text, b1_error *err)
{
    char path[4300];
    b1_status st;
    B1I_TRY(b1i_text_status(text, err));
    if ((size_t)snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix) >= sizeof path)
        return b1i_fail(err, B1_IO, "the path of %s in %s is too long", name, folder);
    unlink(path); /* an older report's, or a link to what is not the report's */
    FILE *f = fopen(path, "we");
    bool good = f && fwrite(b1i_text_get(text), 1, text->count, f) == text->count;
    if (f) good = fclose(f) == 0 && good;
    if (!good) st = b1i_fail(err, B1_IO, "%s cannot be written: %s", path, strerror(errno));
fail:
    return st;
}

void b1i_page_beside(b1i_page *page, const b1i_report_run *run, const char *name, const char *suffix, const char *words)
{
    char path[4300];
    if (run->number > 0)
        snprintf(path, sizeof path, "%s/run-%d/%s%s", page->files, run->number, name, suffix);
    else
        snprintf(path, sizeof path, "%s/together/%s%s", page->files, name, suffix);
    b1i_text_put(&page->html, "<a href=\"");
    b1i_html_href(&page->html, path);
    b1i_html(&page->html, "\">%s</a>", words);
}

void b1i_page_value(b1i_text *text, const json_t *value)
{
    if (json_is_string(value))
        b1i_html_escape(text, json_string_value(value));
    else if (json_is_integer(value))
        b1i_text_printf(text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        b1i_text_printf(text, "%.7g", json_real_value(value));
    else if (json_is_boolean(value))
        b1i_text_put(text, json_is_true(value) ? "yes" : "no");
    else
        b1i_text_put(text, "–");
}

static bool is_plain(const json_t *value) { return !json_is_object(value) && !json_is_array(value); }

/* A list of plain values is one row. */
static bool plain_list(const json_t *value)
{
    size_t i;
    const json_t *item;
    if (!json_is_array(value)) return false;
    json_array_foreach(value, i, item) if (!is_plain(item)) return false;
    return true;
}

static void put_row(b1i_page *page, const b1i_report_run *run, const char *file, const char *path, const json_t *value)
{
    b1i_html(&page->html, "<tr><th scope=\"row\">%s</th><td>", path);
    b1i_page_anchor(page, run, file, false);
    const char *end = strstr(path, "threads");
    if (end && strcmp(end, "threads") == 0 && json_is_integer(value) && json_integer_value(value) == 0)
        b1i_text_put(&page->html, "all"); /* what 0 asks for */
    else if (is_plain(value))
        b1i_page_value(&page->html, value);
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        b1i_text_put(&page->html, i ? ", " : "");
        b1i_page_value(&page->html, json_array_get(value, i));
    }
    if (json_is_array(value) && json_array_size(value) == 0) b1i_text_put(&page->html, "none");
    b1i_text_put(&page->html, "</a></td></tr>\n");
}

static void put_value(b1i_page *page, const b1i_report_run *run, const char *file, const char *path, json_t *value,
                      int *rows)
{
    char below[PATH_MOST];
    const char *key;
    json_t *item;
    size_t i;
    if (*rows >= DOCUMENT_ROWS_MOST) return;
    if (is_plain(value) || plain_list(value)) {
        put_row(page, run, file, path, value);
        ++*rows;
    }
    if (json_is_object(value)) json_object_foreach(value, key, item)
        {
            snprintf(below, sizeof below, "%s%s%s", path, path[0] ? " · " : "", key);
            put_value(page, run, file, below, item, rows);
        }
    if (json_is_array(value) && !plain_list(value)) json_array_foreach(value, i, item)
        {
            snprintf(below, sizeof below, "%s%s%zu", path, path[0] ? " · " : "", i + 1);
            put_value(page, run, file, below, item, rows);
        }
}

void b1i_page_document(b1i_page *page, const b1i_report_run *run, const char *file, const json_t *document,
                       const char *words)
{
    int rows = 0;
    if (!document) return;
    b1i_html(&page->html, "<details><summary>%s</summary>\n", words);
    b1i_page_table(page, file, "");
    b1i_text_put(&page->html,
                 "<thead><tr><th scope=\"col\">key</th><th scope=\"col\">value</th></tr></thead><tbody>\n");
    put_value(page, run, file, "", (json_t *)(uintptr_t)document, &rows);
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
    if (rows >= DOCUMENT_ROWS_MOST) {
        b1i_html(&page->html, "<p class=\"note\">The first %d values; all are in ", rows);
        b1i_page_link(page, run, file, file);
        b1i_text_put(&page->html, ".</p>\n");
    }
    b1i_text_put(&page->html, "</details>\n");
}
