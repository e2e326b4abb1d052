/* SPDX-License-Identifier: MIT
 *
 * What follows from several cells, what single cells time, the graphs that the driver had, and what profilers left in
 * passes apart from all timing.
 */
#include "lab/report/page.h"

#include <math.h>
#include <string.h>

#define ANALYSIS   "analysis.json"
#define ACTIVITIES "profile/activities.json"
#define NCU        "profile/ncu.json"

/* ---- what follows from several cells ---- */

static void figures(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"cell", "what", "of", "value", "unit", "note", NULL};
    static const bool numbers[] = {false, false, false, true, false, false};
    const json_t *list = json_object_get(run->analysis, "figures"), *figure;
    size_t i;
    if (json_array_size(list) == 0) return;
    b1i_page_table(page, "What follows from several cells:",
                   "differences and ratios of their medians, each by a rule in plan.json.");
    b1i_page_columns(page, heads, numbers);
    json_array_foreach(list, i, figure)
    {
        double value = b1i_report_number(figure, "value");
        const char *unit = b1i_report_string(figure, "unit");
        b1i_page_row(page, run, ANALYSIS, b1i_report_string(figure, "cell"));
        b1i_page_words(page, b1i_report_string(figure, "name"));
        b1i_html(&page->html, "<td>%s</td>", b1i_report_string(figure, "kind"));
        b1i_page_number(page, run, ANALYSIS, value, fabs(value) < 10 ? 2 : 1);
        b1i_html(&page->html, "<td>%s</td>", unit);
        b1i_page_words(page, b1i_report_string(figure, "message"));
        b1i_text_put(&page->html, "</tr>\n");
    }
    b1i_page_body_end(page);
}

/* ---- first and last call of what is timed, where a cell says them ---- */

static bool told_before(const b1i_report_run *run, size_t i)
{
    const char *from = b1i_report_string(run->cells[i].json, "facts.from"), *variant = run->cells[i].variant;
    for (size_t k = 0; k < i; k++) {
        const char *other = b1i_report_string(run->cells[k].json, "facts.from");
        if (run->cells[k].n > 0 && other && strcmp(other, from) == 0 && strcmp(run->cells[k].variant, variant) == 0)
            return true;
    }
    return false;
}

static void timed(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"cells", "from just before", "to just after", NULL};
    static const bool numbers[] = {false, false, false};
    bool any = false;
    for (size_t i = 0; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        if (c->n == 0 || c->twin || !b1i_report_string(c->json, "facts.from") || told_before(run, i)) continue;
        if (!any) {
            b1i_page_table(page, "What is timed", "in cells that have a first and a last call of their own.");
            b1i_page_columns(page, heads, numbers);
        }
        any = true;
        b1i_page_row(page, run, "plan.json", c->variant);
        b1i_page_words(page, b1i_report_string(c->json, "facts.from"));
        b1i_page_words(page, b1i_report_string(c->json, "facts.to"));
        b1i_text_put(&page->html, "</tr>\n");
    }
    if (any) b1i_page_body_end(page);
}

/* ---- graphs ---- */

static bool begins(const char *text, const char *head) { return strncmp(text, head, strlen(head)) == 0; }

static bool ends(const char *text, const char *tail)
{
    size_t n = strlen(text), m = strlen(tail);
    return n >= m && strcmp(text + n - m, tail) == 0;
}

static void graph_row(b1i_page *page, const b1i_report_run *run, const char *path, const json_t *graph)
{
    static const char *const keys[] = {"nodes", "kernel_nodes", "memset_nodes", "edges", "programmatic_edges", NULL};
    static const char *const setup[] = {"setup.capture_ns", "setup.instantiate_ns", "setup.upload_ns", NULL};
    char name[300];
    snprintf(name, sizeof name, "%s", path + strlen("graphs/"));
    name[strlen(name) - strlen(".json")] = 0;
    b1i_page_row(page, run, path, name);
    for (int i = 0; keys[i]; i++) b1i_page_number(page, run, path, b1i_report_number(graph, keys[i]), 0);
    for (int i = 0; setup[i]; i++) b1i_page_number(page, run, path, b1i_report_number(graph, setup[i]) / 1e3, 2);
    b1i_text_put(&page->html, "</tr>\n");
}

static void graphs(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"graph",        "nodes",
                                        "kernel nodes", "memset nodes",
                                        "edges",        "programmatic edges",
                                        "capture, µs",  "instantiation, µs",
                                        "upload, µs",   NULL};
    static const bool numbers[] = {false, true, true, true, true, true, true, true, true};
    const json_t *list = json_object_get(run->manifest, "files"), *file;
    size_t i;
    int count = 0;
    json_array_foreach(list, i, file)
    {
        const char *path = b1i_report_string(file, "path");
        json_t *graph = path && begins(path, "graphs/") && ends(path, ".json") ? b1i_report_run_json(run, path) : NULL;
        if (!graph) continue;
        if (!count++) {
            b1i_text_put(&page->html, "<details open><summary>Graphs, as the driver has them</summary>\n");
            b1i_page_table(
                page, "Graphs:", "nodes by the driver’s API, asserted before anything was timed; DOT beside each.");
            b1i_page_columns(page, heads, numbers);
        }
        graph_row(page, run, path, graph);
        json_decref(graph);
    }
    if (!count) return;
    b1i_page_body_end(page);
    b1i_text_put(&page->html, "</details>\n");
    b1i_page_claim(
        page, run, "plan.json manifest.json",
        "Each of %d graphs has the kernel and memset nodes that its variant must have; a cell whose graph had others "
        "would have failed.",
        count);
}

/* ---- profilers ---- */

static void counts(b1i_page *page, const b1i_report_run *run, const json_t *of)
{
    static const char *const keys[] = {"kernels", "memsets", "copies", "graphs", NULL};
    for (int i = 0; keys[i]; i++) b1i_page_number(page, run, ACTIVITIES, b1i_report_number(of, keys[i]), 0);
}

static void activity_pass(b1i_page *page, const b1i_report_run *run, const json_t *pass)
{
    static const char *const heads[] = {
        "cell",         "kernels due", "memsets due", "copies due", "graphs due", "kernels seen",
        "memsets seen", "copies seen", "graphs seen", "reconciled", NULL};
    static const bool numbers[] = {false, true, true, true, true, true, true, true, true, false};
    const json_t *cells = json_object_get(pass, "cells"), *cell;
    const char *name = b1i_report_string(pass, "pass");
    char caption[80];
    size_t i;
    int same = 0;
    bool graph_level = name && strcmp(name, "graph-level") == 0;
    if (json_array_size(cells) == 0) return;
    snprintf(caption, sizeof caption, "Activities by CUPTI, %.30s pass:", name ? name : "unnamed");
    b1i_page_table(page, caption,
                   graph_level ? "a launch of a graph is one record, and nothing is said of its nodes."
                               : "a record for each node of a graph.");
    b1i_page_columns(page, heads, numbers);
    json_array_foreach(cells, i, cell)
    {
        const char *message = b1i_report_string(cell, "message");
        same += json_is_true(json_object_get(cell, "reconciled"));
        b1i_page_row(page, run, ACTIVITIES, b1i_report_string(cell, "cell"));
        counts(page, run, json_object_get(cell, "expected"));
        counts(page, run, json_object_get(cell, "seen"));
        b1i_html(&page->html, "<td class=\"words\">%s</td></tr>\n",
                 json_is_true(json_object_get(cell, "reconciled")) ? "yes"
                 : message                                         ? message
                                                                   : "no");
    }
    b1i_page_body_end(page);
    b1i_page_claim(page, run, ACTIVITIES,
                   "In the %.30s pass CUPTI’s records of %d of %zu cells are invocations × nodes, kind by kind.",
                   name ? name : "unnamed", same, json_array_size(cells));
}

static void activities(b1i_page *page, const b1i_report_run *run, const json_t *document)
{
    const json_t *passes = json_object_get(document, "passes"), *pass;
    const char *message = b1i_report_string(document, "cupti.message");
    size_t i;
    if (message) b1i_html(&page->html, "<p>CUPTI recorded nothing: %s.</p>\n", message);
    json_array_foreach(passes, i, pass) activity_pass(page, run, pass);
}

static double logical_bytes(const b1i_report_run *run, const char *name)
{
    for (size_t i = 0; name && i < run->count; i++)
        if (strcmp(run->cells[i].name, name) == 0) return run->cells[i].bytes;
    return NAN;
}

static void ncu_cell(b1i_page *page, const b1i_report_run *run, const json_t *cell)
{
    const char *name = b1i_report_string(cell, "cell"), *control = b1i_report_string(cell, "cache_control");
    const char *message = b1i_report_string(cell, "message"), *metric;
    json_t *each = json_object_get(cell, "per_invocation"), *bytes;
    if (json_object_size(each) == 0) {
        b1i_page_row(page, run, NCU, name);
        b1i_html(&page->html, "<td class=\"words\">%s</td><td></td><td></td><td>%s</td><td></td></tr>\n",
                 message ? message : "no finite counter", control);
    }
    json_object_foreach(each, metric, bytes)
    {
        b1i_page_row(page, run, NCU, name);
        b1i_html(&page->html, "<td>%s</td>", metric);
        b1i_page_number(page, run, NCU, json_is_number(bytes) ? json_number_value(bytes) : NAN, 0);
        b1i_page_number(page, run, ANALYSIS, logical_bytes(run, name), 0);
        b1i_html(&page->html, "<td>%s</td><td>%s</td></tr>\n", control,
                 json_is_true(json_object_get(cell, "reconciled")) ? "yes" : "no");
    }
}

static void ncu(b1i_page *page, const b1i_report_run *run, const json_t *document)
{
    static const char *const heads[] = {
        "cell", "metric", "bytes of an invocation", "logical bytes", "cache control", "reconciled", NULL};
    static const bool numbers[] = {false, false, true, true, false, false};
    const json_t *cells = json_object_get(document, "cells"), *cell;
    const char *message = b1i_report_string(document, "message");
    size_t i;
    if (message) b1i_html(&page->html, "<p>Nsight Compute: %s.</p>\n", message);
    if (json_array_size(cells) == 0) return;
    b1i_page_table(page, "Counters by Nsight Compute,",
                   "normalised to one invocation; Mbyte = 10^6 bytes. Each kernel was replayed, "
                   "its caches as the cache control says.");
    b1i_page_columns(page, heads, numbers);
    json_array_foreach(cells, i, cell) ncu_cell(page, run, cell);
    b1i_page_body_end(page);
    b1i_page_document(page, run, NCU, document, "Every row of it, with kernel, replays and unit");
}

static void profile(b1i_page *page, const b1i_report_run *run)
{
    json_t *seen = b1i_report_run_json(run, ACTIVITIES), *counted = b1i_report_run_json(run, NCU);
    b1i_html(&page->html, "<h3 id=\"run-%d-profile\">Graphs and profiling</h3>\n", run->number);
    graphs(page, run);
    if (seen) activities(page, run, seen);
    if (counted) ncu(page, run, counted);
    if (!seen && !counted) b1i_text_put(&page->html, "<p>No profiler ran, so this run has no counters.</p>\n");
    json_decref(seen);
    json_decref(counted);
    b1i_text_put(
        &page->html,
        "<p class=\"note\">Profilers run in passes of their own, never while something is timed. Counters of stores "
        "can "
        "miss dirty lines that are written back after a kernel’s end. A replay with cold caches proves no ratio of "
        "DRAM "
        "traffic for a warm loop, and counters are not to be set equal to the logical bytes. Times of nodes are never "
        "inferred from records of whole graphs.</p>\n");
}

void b1i_page_extras(b1i_page *page, const b1i_report_run *run)
{
    figures(page, run);
    timed(page, run);
    profile(page, run);
}
