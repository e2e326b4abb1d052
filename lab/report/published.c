/* SPDX-License-Identifier: MIT
 *
 * data/published/, put into the binary by the assembler, and its rows beside ours: those whose experiment, size,
 * variant and mode are the same, with what differs said first. One table a latency here as well.
 */
#include "lab/report/page.h"

#include <math.h>
#include <string.h>

#define EMBED(name, file)                                                                                    \
    extern const char name##_begin[], name##_end[];                                                          \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".global " #name "_begin\n.global " #name "_end\n" #name "_begin:\n.incbin \"" file "\"\n" #name \
            "_end:\n.byte 0\n.popsection\n")
EMBED(b1i_published_pointwise, B1I_PUBLISHED "/pointwise.json");
EMBED(b1i_published_tiles, B1I_PUBLISHED "/tiles.json");
EMBED(b1i_published_traces, B1I_PUBLISHED "/traces.json");

static b1_status load(const char *begin, const char *end, json_t **out, b1_error *err)
{
    if ((*out = json_loadb(begin, (size_t)(end - begin), 0, NULL))) return B1_OK;
    return b1i_fail(err, B1_MEMORY, "not enough memory for the published rows");
}

static bool same(const json_t *row, const char *key, const char *word)
{
    const char *value = b1i_report_string(row, key);
    return value && strcmp(value, word) == 0;
}

/* Whether the cell is the row's: its size or fixture, family and mode, at full length. */
static bool corresponds(const b1i_report_cell *c, const json_t *row)
{
    static const char *const modes[] = {"stream", "graph", "pdl", ""};
    const char *fixture = b1i_report_string(row, "fixture");
    double divisor = b1i_report_number(c->json, "facts.iterations_divided_by");
    if (c->n == 0 || c->twin || !same(row, "variant", c->family) || !same(row, "mode", modes[c->mode])) return false;
    if (fixture) return strcmp(fixture, c->panel) == 0 && divisor == 1;
    return c->panel[0] == 0 && b1i_report_number(row, "n") == b1i_report_number(c->json, "facts.n");
}

static const b1i_report_cell *cell_of(const b1i_report_run *run, const json_t *row, int kind)
{
    for (size_t i = 0; i < run->count; i++)
        if (run->cells[i].kind == (b1i_lab_kind)kind && corresponds(&run->cells[i], row)) return &run->cells[i];
    return NULL;
}

static double published_us(const json_t *row, int kind)
{
    char key[40];
    snprintf(key, sizeof key, "%s_us", b1i_lab_kind_names[kind]);
    return b1i_report_number(row, key);
}

static void compare(b1i_page *page, const b1i_report_run *run, const json_t *document, int kind)
{
    const json_t *rows = json_object_get(document, "rows"), *row;
    size_t i;
    char caption[80];
    bool any = false;
    json_array_foreach(rows, i, row)
    {
        const b1i_report_cell *c = cell_of(run, row, kind);
        double published = published_us(row, kind);
        if (!c || !isfinite(published)) continue;
        if (!any) {
            snprintf(caption, sizeof caption, "%s, µs, beside the published:", b1i_report_kind_titles[kind]);
            b1i_page_table(page, caption, "medians.");
            b1i_text_put(&page->html, "<thead><tr>");
            b1i_page_column(page, "cell", false);
            b1i_page_column(page, "here, µs", true);
            b1i_page_column(page, "published, µs", true);
            b1i_page_column(page, "here over published", true);
            b1i_text_put(&page->html, "</tr></thead><tbody>\n");
        }
        any = true;
        b1i_text_put(&page->html, "<tr><th scope=\"row\">");
        b1i_page_link(page, run, "analysis.json", c->name);
        b1i_text_put(&page->html, "</th>");
        b1i_page_number(page, run, "analysis.json", c->median / 1e3, 3);
        b1i_text_printf(&page->html, "<td class=\"n\"><a href=\"#published-%d\" tabindex=\"-1\">%.3f</a></td>",
                        run->number, published);
        b1i_page_number(page, run, "analysis.json", c->median / 1e3 / published, 3);
        b1i_text_put(&page->html, "</tr>\n");
    }
    if (!any) return;
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
}

static const json_t *trace_of(const b1i_report_run *run, const json_t *row)
{
    const json_t *list = json_object_get(run->analysis, "traces"), *trace;
    size_t i;
    char cell[200];
    snprintf(cell, sizeof cell, "%s/%s_%s", b1i_report_string(row, "fixture"), b1i_report_string(row, "variant"),
             b1i_report_string(row, "mode"));
    json_array_foreach(list, i, trace) if (same(trace, "cell", cell)) return trace;
    return NULL;
}

static void trace_row(b1i_page *page, const b1i_report_run *run, const json_t *row, const json_t *trace)
{
    const char *file = b1i_report_string(trace, "file");
    if (!file) file = "analysis.json";
    b1i_text_put(&page->html, "<tr><th scope=\"row\">");
    b1i_page_link(page, run, file, b1i_report_string(trace, "cell"));
    b1i_text_put(&page->html, "</th><td class=\"n\">");
    b1i_page_anchor(page, run, file, false);
    b1i_text_printf(&page->html, "%.0f / %.0f</a></td>", b1i_report_number(trace, "early_jobs"),
                    b1i_report_number(trace, "jobs"));
    b1i_text_printf(&page->html, "<td class=\"n\"><a href=\"#published-%d\" tabindex=\"-1\">%.0f / %.0f</a></td>",
                    run->number, b1i_report_number(row, "early_jobs"), b1i_report_number(row, "jobs"));
    b1i_page_number(page, run, file, b1i_report_number(trace, "span_ns") / 1e3, 3);
    b1i_text_printf(&page->html, "<td class=\"n\"><a href=\"#published-%d\" tabindex=\"-1\">%.3f</a></td></tr>\n",
                    run->number, b1i_report_number(row, "instrumented_span_us"));
}

static void compare_traces(b1i_page *page, const b1i_report_run *run, const json_t *document)
{
    const json_t *rows = json_object_get(document, "rows"), *row;
    size_t i;
    bool any = false;
    json_array_foreach(rows, i, row) any |= trace_of(run, row) != NULL;
    if (!any) return;
    b1i_page_table(
        page, "Traces beside the published:", "jobs that start B before the last A completes, and instrumented spans.");
    b1i_text_put(&page->html, "<thead><tr>");
    b1i_page_column(page, "trace", false);
    b1i_page_column(page, "early jobs, here", true);
    b1i_page_column(page, "early jobs, published", true);
    b1i_page_column(page, "span here, µs", true);
    b1i_page_column(page, "span published, µs", true);
    b1i_text_put(&page->html, "</tr></thead><tbody>\n");
    json_array_foreach(rows, i, row) if (trace_of(run, row)) trace_row(page, run, row, trace_of(run, row));
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
}

/* What is not the same there and here. */
static void say_differences(b1i_page *page, const b1i_report_run *run, const json_t *document)
{
    b1i_html(
        &page->html,
        "<div id=\"published-%d\" class=\"source\"><p>Published (data/published/ of the source, built into batchone): "
        "%s. "
        "Device there: %s. %s</p>\n<p>What differs: the "
        "device here is %s; kernels, compiler, driver and host are others; the order of the rounds, the depth of a "
        "batch and the clocks are each run’s own. The ratio says that two runs differ by so much, not why.</p></div>\n",
        run->number, b1i_report_string(document, "source"), b1i_report_string(document, "device.name"),
        b1i_report_string(document, "note"), b1i_report_run_device(run));
}

static bool any_row(const b1i_report_run *run, const json_t *document)
{
    const json_t *rows = json_object_get(document, "rows"), *row;
    size_t i;
    json_array_foreach(rows, i,
                       row) for (int kind = 0; kind < b1i_lab_kinds;
                                 kind++) if (cell_of(run, row, kind) && isfinite(published_us(row, kind))) return true;
    return false;
}

b1_status b1i_page_published(b1i_page *page, const b1i_report_run *run, b1_error *err)
{
    b1_status st = B1_OK;
    json_t *document = NULL, *traces = NULL;
    if (strcmp(run->experiment, "attention") == 0) {
        B1I_TRY(b1i_published_decode(&document, err));
        b1i_html(&page->html, "<h3 id=\"run-%d-published\">Beside the published rows</h3>\n", run->number);
        b1i_page_decode_attention(page, run, document);
        goto fail;
    }
    if (strcmp(run->experiment, "pointwise") == 0)
        B1I_TRY(load(b1i_published_pointwise_begin, b1i_published_pointwise_end, &document, err));
    if (strcmp(run->experiment, "tiles") == 0) {
        B1I_TRY(load(b1i_published_tiles_begin, b1i_published_tiles_end, &document, err));
        B1I_TRY(load(b1i_published_traces_begin, b1i_published_traces_end, &traces, err));
    }
    if (!document) return B1_OK;
    b1i_html(&page->html, "<h3 id=\"run-%d-published\">Beside the published rows</h3>\n", run->number);
    if (any_row(run, document)) {
        say_differences(page, run, document);
        for (int kind = 0; kind < b1i_lab_kinds; kind++) compare(page, run, document, kind);
        if (traces) compare_traces(page, run, traces);
    } else {
        b1i_html(&page->html,
                 "<p>No cell of this run has the sizes of the rows that were published for %s, so none stands beside "
                 "them.</p>\n",
                 b1i_report_string(document, "device.name"));
    }
fail:
    json_decref(document);
    json_decref(traces);
    return st;
}
