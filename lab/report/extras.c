/* SPDX-License-Identifier: MIT
 *
 * What profilers left, in passes apart from all timing.
 */
#include "lab/report/page.h"

#include <string.h>

static bool begins(const char *text, const char *head) { return strncmp(text, head, strlen(head)) == 0; }
static bool ends(const char *text, const char *tail)
{
    size_t n = strlen(text), m = strlen(tail);
    return n >= m && strcmp(text + n - m, tail) == 0;
}

void b1i_page_extras(b1i_page *page, const b1i_report_run *run)
{
    const json_t *list = json_object_get(run->manifest, "files"), *file;
    size_t i;
    bool any = false;
    b1i_html(&page->html, "<h3 id=\"run-%d-profile\">Profiling</h3>\n", run->number);
    json_array_foreach(list, i, file)
    {
        const char *path = b1i_report_string(file, "path");
        if (!path || !begins(path, "profile/") || !ends(path, ".json")) continue;
        json_t *document = b1i_report_run_json(run, path);
        b1i_page_document(page, run, path, document, path + strlen("profile/"));
        any |= document != NULL;
        json_decref(document);
    }
    if (!any) b1i_text_put(&page->html, "<p>No profiler ran, so this run has no counters.</p>\n");
    b1i_text_put(
        &page->html,
        "<p class=\"note\">Profilers run in passes of their own, never while something is timed. Counters of stores "
        "can "
        "miss dirty lines that are written back after a kernel’s end. A replay with cold caches proves no ratio of "
        "DRAM traffic for a warm loop, and counters are not to be set equal to the logical bytes. Times of nodes are "
        "never inferred from records of whole graphs.</p>\n");
}
