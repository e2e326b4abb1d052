/* SPDX-License-Identifier: MIT
 *
 * The tables of a study beside that of its groups: causes, formats, batches, cells that are no headline, cells without
 * figures.
 */
#include "lab/report/page.h"

#include <math.h>
#include <string.h>

#define ANALYSIS "analysis.json"

/* ---- causes ---- */

static void cause_row(b1i_page *page, const b1i_report_run *run, const b1i_report_group *g, int decimals)
{
    double ms[b1i_causes];
    if (!b1i_report_causes(run, g, ms)) return;
    b1i_page_row(page, run, g->file, g->executor);
    b1i_page_number(page, run, ANALYSIS, g->context, 0);
    for (int k = 0; k < b1i_causes; k++) {
        const bool profile = k == b1i_cause_kernels, launch = k == b1i_cause_launch;
        char graph[B1I_REPORT_WORDS], name[2 * B1I_REPORT_WORDS];
        snprintf(name, sizeof name, "%sprofile.json", g->folder);
        const bool known =
            profile  ? isfinite(b1i_report_number(g->profile, "kernel_ms"))
            : launch ? b1i_report_graph_of(g->executor, graph, sizeof graph) && b1i_report_group_find(run, g, graph)
                     : true;
        b1i_page_number(page, run, profile ? name : launch ? ANALYSIS : g->file, known ? ms[k] : NAN, decimals);
    }
    b1i_page_number(page, run, ANALYSIS, g->t_obs_ms, decimals);
    b1i_text_put(&page->html, "</tr>\n");
}

static void causes(b1i_page *page, const b1i_report_run *run)
{
    static const bool numbers[] = {false, true, true, true, true, true, true, true};
    const char *heads[] = {"executor",
                           "context",
                           b1i_cause_names[0],
                           b1i_cause_names[1],
                           b1i_cause_names[2],
                           b1i_cause_names[3],
                           b1i_cause_names[4],
                           "step",
                           NULL};
    int decimals = b1i_page_group_decimals(run);
    double ms[b1i_causes];
    bool any = false;
    for (size_t i = 0; i < run->group_count; i++) any |= b1i_report_causes(run, &run->groups[i], ms);
    if (!any) return;
    b1i_page_table(
        page, "Step time by cause, ms:",
        "what is known of each, in this order, each bounded by what is left; – where nobody measured it. The "
        "ceiling is the median of the sessions’ ceilings and the step the median of their steps; R_ceiling is "
        "the median of the sessions’ own ratios, so the two need not agree where ceilings differ.");
    b1i_page_columns(page, heads, numbers);
    for (size_t i = 0; i < run->group_count; i++) {
        if (!b1i_page_group_begins(run, i)) continue;
        b1i_page_group_head(page, &run->groups[i], 8);
        for (size_t k = i; k < run->group_count; k++)
            if (b1i_report_group_beside(&run->groups[k], &run->groups[i]))
                cause_row(page, run, &run->groups[k], decimals);
    }
    b1i_page_body_end(page);
}

/* ---- graphs over streams ---- */

static void graph_row(b1i_page *page, const b1i_report_run *run, const b1i_report_group *g,
                      const b1i_report_group *graph)
{
    char words[2 * B1I_REPORT_WORDS];
    snprintf(words, sizeof words, "%s, %s, %s", g->model, g->weights, g->executor);
    b1i_page_row(page, run, ANALYSIS, words);
    b1i_page_number(page, run, ANALYSIS, g->batch, 0);
    b1i_page_number(page, run, ANALYSIS, g->context, 0);
    b1i_page_number(page, run, ANALYSIS, g->t_obs_ms, 3);
    b1i_page_number(page, run, ANALYSIS, graph->t_obs_ms, 3);
    b1i_page_number(page, run, ANALYSIS, g->t_obs_ms / graph->t_obs_ms, 3);
    b1i_page_number(page, run, ANALYSIS, g->t_obs_ms - graph->t_obs_ms, 3);
    b1i_text_put(&page->html, "</tr>\n");
}

static void graphs(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"launched kernel by kernel",
                                        "batch",
                                        "context",
                                        "stream, ms",
                                        "graph, ms",
                                        "stream / graph",
                                        "difference, ms",
                                        NULL};
    static const bool numbers[] = {false, true, true, true, true, true, true};
    bool any = false;
    for (size_t i = 0; i < run->group_count; i++) {
        const b1i_report_group *g = &run->groups[i];
        char name[B1I_REPORT_WORDS];
        const b1i_report_group *graph = g->t_obs_ms > 0 && b1i_report_graph_of(g->executor, name, sizeof name)
                                            ? b1i_report_group_find(run, g, name)
                                            : NULL;
        if (!graph) continue;
        if (!any) {
            b1i_page_table(page, "Graphs over streams:",
                           "of the same kernels, in processes of their own; the difference bounds the launch tax from "
                           "above and is divided by no count of kernels.");
            b1i_page_columns(page, heads, numbers);
        }
        any = true;
        graph_row(page, run, g, graph);
    }
    if (any) b1i_page_body_end(page);
}

/* ---- formats and batches ---- */

/* The last cell of a comparison's row, and its end: whether it is a headline. Older analyses do not say. */
static void standing(b1i_page *page, const json_t *row)
{
    const json_t *headline = json_object_get(row, "headline");
    b1i_html(&page->html, "<td>%s</td></tr>\n",
             json_is_true(headline)    ? "ok"
             : json_is_false(headline) ? "no headline"
                                       : "–");
}

static void formats(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"weights",  "model",   "executor", "context",
                                        "batch",    "against", "expected", "expected, as published",
                                        "realised", "share",   "stands",   NULL};
    static const bool numbers[] = {false, false, false, true, true, false, true, true, true, true, false};
    const json_t *list = json_object_get(run->analysis, "weights"), *row;
    size_t i;
    if (json_array_size(list) == 0) return;
    b1i_page_table(
        page, "Weight formats:",
        "how many times as fast a step would be by its bytes (W with its scales, and K) against those of the "
        "format it is held against; as published, by a quarter of the bf16 weights and the whole K; and was.");
    b1i_page_columns(page, heads, numbers);
    json_array_foreach(list, i, row)
    {
        double bytes = b1i_report_number(row, "bytes_ratio");
        b1i_page_row(page, run, ANALYSIS, b1i_report_word(row, "weights"));
        b1i_html(&page->html, "<td>%s</td><td>%s</td>", b1i_report_word(row, "model"),
                 b1i_report_word(row, "executor"));
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "context"), 0);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "batch"), 0);
        b1i_html(&page->html, "<td>%s</td>", b1i_report_word(row, "against"));
        b1i_page_number(page, run, ANALYSIS, bytes, 2);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "paper_ratio"), 2);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "speedup"), 2);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "speedup") / bytes, 2);
        standing(page, row);
    }
    b1i_page_body_end(page);
}

static void batches(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {
        "executor", "model", "weights", "context", "batch", "step over batch 1", "throughput over batch 1",
        "stands",   NULL};
    static const bool numbers[] = {false, false, false, true, true, true, true, false};
    const json_t *list = json_object_get(run->analysis, "batch"), *row;
    size_t i;
    if (json_array_size(list) == 0) return;
    b1i_page_table(page, "Batches:", "several sequences in one step, each with its own keys and values.");
    b1i_page_columns(page, heads, numbers);
    json_array_foreach(list, i, row)
    {
        b1i_page_row(page, run, ANALYSIS, b1i_report_word(row, "executor"));
        b1i_html(&page->html, "<td>%s</td><td>%s</td>", b1i_report_word(row, "model"), b1i_report_word(row, "weights"));
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "context"), 0);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "batch"), 0);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "step_ratio"), 3);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "throughput"), 2);
        standing(page, row);
    }
    b1i_page_body_end(page);
}

/* ---- cells apart ---- */

static void cell_name(const json_t *cell, char *name, size_t bytes)
{
    snprintf(name, bytes, "%.60s, %.40s, %.20s, context %.0f, batch %.0f, session %.0f", b1i_report_word(cell, "model"),
             b1i_report_word(cell, "executor"), b1i_report_word(cell, "weights"), b1i_report_number(cell, "context"),
             b1i_report_number(cell, "batch"), b1i_report_number(cell, "session"));
}

static bool is_apart(const json_t *cell)
{
    const char *verdict = b1i_report_word(cell, "verdict");
    return verdict[0] && strcmp(verdict, "ok") != 0;
}

static void apart_row(b1i_page *page, const b1i_report_run *run, const json_t *cell)
{
    const json_t *modes = json_object_get(cell, "modes"), *clocks = json_object_get(modes, "sm_mhz");
    char name[260];
    cell_name(cell, name, sizeof name);
    b1i_page_row(page, run, ANALYSIS, name);
    b1i_html(&page->html, "<td>%s</td>", b1i_report_word(cell, "verdict"));
    b1i_page_number(page, run, ANALYSIS, b1i_report_number(cell, "t_obs_ms"), 3);
    b1i_page_number(page, run, ANALYSIS, b1i_report_number(modes, "low_ms"), 3);
    b1i_page_number(page, run, ANALYSIS, b1i_report_number(modes, "high_ms"), 3);
    b1i_page_number(page, run, ANALYSIS, b1i_report_number(modes, "step"), 0);
    b1i_text_put(&page->html, "<td class=\"n\">");
    for (size_t i = 0; i < json_array_size(clocks); i++) {
        b1i_text_put(&page->html, i ? ", " : "");
        b1i_page_value(&page->html, json_array_get(clocks, i));
    }
    b1i_text_put(&page->html, json_array_size(clocks) ? "</td></tr>\n" : "–</td></tr>\n");
}

static void apart(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {
        "cell", "verdict", "step, ms", "lower level, ms", "upper level, ms", "changes at step", "SM, MHz", NULL};
    static const bool numbers[] = {false, false, true, true, true, true, true};
    const json_t *list = json_object_get(run->analysis, "cells"), *cell;
    size_t i;
    bool any = false;
    json_array_foreach(list, i, cell)
    {
        if (!is_apart(cell)) continue;
        if (!any) {
            b1i_page_table(page, "Cells to be read with care:",
                           "drifting: their steps have two levels or a trend, and their median is the figure of "
                           "neither; noisy: the memory's speed did not hold still.");
            b1i_page_columns(page, heads, numbers);
        }
        any = true;
        apart_row(page, run, cell);
    }
    if (any) b1i_page_body_end(page);
}

static bool is_absent(const json_t *cell) { return strcmp(b1i_report_word(cell, "status"), "ok") != 0; }

static void absent(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"cell", "status", "why", NULL};
    static const bool numbers[] = {false, false, false};
    const json_t *list = json_object_get(run->analysis, "cells"), *cell;
    size_t i;
    bool any = false;
    json_array_foreach(list, i, cell)
    {
        char name[260], file[120];
        if (!is_absent(cell)) continue;
        if (!any) {
            b1i_page_table(page, "Cells without figures:", "they are kept, with the reason that was given.");
            b1i_page_columns(page, heads, numbers);
        }
        any = true;
        cell_name(cell, name, sizeof name);
        b1i_report_cell_file(b1i_report_word(cell, "id"), "cell.json", file, sizeof file);
        b1i_page_row(page, run, file, name);
        b1i_html(&page->html, "<td>%s</td>", b1i_report_word(cell, "status"));
        b1i_page_words(page, b1i_report_word(cell, "message"));
        b1i_text_put(&page->html, "</tr>\n");
    }
    if (any) b1i_page_body_end(page);
}

void b1i_page_study(b1i_page *page, const b1i_report_run *run)
{
    b1i_page_groups(page, run);
    causes(page, run);
    graphs(page, run);
    formats(page, run);
    batches(page, run);
    apart(page, run);
    absent(page, run);
}
