/* SPDX-License-Identifier: MIT
 *
 * The tables of what a run measured: one a latency, so that none shares a column with another; A/A; traces; and the
 * cells without a number, with the reason.
 */
#include "lab/report/page.h"

#include <math.h>
#include <string.h>

#define ANALYSIS "analysis.json"

/* ---- A/A ---- */

/* |ratio − 1| of what is farthest from 1 in [ratio, its interval]. */
static double distance(const json_t *row, bool with_interval)
{
    const json_t *interval = json_object_get(row, "interval");
    double far = fabs(b1i_report_number(row, "ratio") - 1);
    for (size_t i = 0; with_interval && i < json_array_size(interval); i++)
        far = fmax(far, fabs(json_number_value(json_array_get(interval, i)) - 1));
    return far;
}

static double farthest(const b1i_report_run *run, b1i_lab_kind kind, bool with_interval)
{
    const json_t *list = json_object_get(run->analysis, "a_a"), *row;
    size_t i;
    double far = NAN;
    json_array_foreach(list, i, row)
    {
        const char *name = b1i_report_string(row, "kind");
        if (name && strcmp(name, b1i_lab_kind_names[kind]) == 0) far = fmax(far, distance(row, with_interval));
    }
    return far;
}

double b1i_page_doubt(const b1i_report_run *run, b1i_lab_kind kind) { return farthest(run, kind, true); }

static void say_doubt(b1i_page *page, const b1i_report_run *run, b1i_lab_kind kind)
{
    double doubt = b1i_page_doubt(run, kind), shown = farthest(run, kind, false);
    if (!isfinite(doubt)) return;
    b1i_html(&page->html, "<li><b>%s:</b> up to ", b1i_report_kind_titles[kind]);
    b1i_page_anchor(page, run, ANALYSIS, true);
    b1i_text_printf(&page->html, "%.2f&nbsp;%%</a> in the medians, ", 100 * shown);
    b1i_page_anchor(page, run, ANALYSIS, false);
    b1i_text_printf(
        &page->html,
        "%.2f&nbsp;%%</a> at the far end of the 95&nbsp;%% intervals. A difference between variants that is "
        "smaller than that is not to be believed.</li>\n",
        100 * doubt);
    b1i_page_claim(page, run, "analysis.json samples.jsonl",
                   "A variant against itself (A/A) differs by up to %.2f %% in %s, %.2f %% with the interval: smaller "
                   "differences are not to be believed.",
                   100 * shown,
                   kind == b1i_host_single    ? "host single"
                   : kind == b1i_host_enqueue ? "host enqueue"
                                              : "device interval",
                   100 * doubt);
}

static void a_a_row(b1i_page *page, const b1i_report_run *run, const json_t *row)
{
    const json_t *interval = json_object_get(row, "interval");
    const char *cell = b1i_report_string(row, "cell"), *kind = b1i_report_string(row, "kind");
    b1i_text_put(&page->html, "<tr><th scope=\"row\">");
    b1i_page_link(page, run, ANALYSIS, cell ? cell : "");
    b1i_html(&page->html, "</th><td>%s</td>", kind ? kind : "");
    b1i_page_number(page, run, ANALYSIS, b1i_report_number(row, "ratio"), 4);
    for (size_t i = 0; i < 2; i++) {
        const json_t *bound = json_array_get(interval, i);
        b1i_page_number(page, run, ANALYSIS, json_is_number(bound) ? json_number_value(bound) : NAN, 4);
    }
    b1i_text_put(&page->html, "</tr>\n");
}

void b1i_page_believe(b1i_page *page, const b1i_report_run *run)
{
    const json_t *list = json_object_get(run->analysis, "a_a"), *row;
    size_t i;
    b1i_html(&page->html, "<h3 id=\"run-%d-aa\">What can be believed: A/A</h3>\n", run->number);
    if (json_array_size(list) == 0) {
        b1i_text_put(&page->html,
                     "<p>No variant was measured against itself, so no difference here has a bound.</p>\n");
        return;
    }
    b1i_text_put(
        &page->html,
        "<p>A variant measured twice in the same rounds, as if it were two, differed from itself:</p>\n<ul>\n");
    for (int kind = 0; kind < b1i_lab_kinds; kind++) say_doubt(page, run, (b1i_lab_kind)kind);
    b1i_text_put(&page->html, "</ul>\n");
    b1i_page_table(page, "A/A",
                   "The median of the twin over the median of the cell that it repeats; 95 % interval by bootstrap.");
    b1i_text_put(
        &page->html,
        "<thead><tr><th scope=\"col\">cell</th><th scope=\"col\">latency</th><th scope=\"col\" class=\"n\">ratio"
        "</th><th scope=\"col\" class=\"n\">from</th><th scope=\"col\" class=\"n\">to</th></tr></thead><tbody>\n");
    json_array_foreach(list, i, row) a_a_row(page, run, row);
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
}

/* ---- cells ---- */

typedef struct columns {
    bool interval, gbps, depth, clock, throttled, ratio, bound;
    int decimals;
    double doubt;
} columns;

static bool belongs(const b1i_report_cell *c, b1i_lab_kind kind) { return c->kind == kind && c->n > 0 && !c->twin; }

/* What stands before the variant in a cell's name. */
static size_t group_length(const b1i_report_cell *c)
{
    const char *slash = strrchr(c->name, '/');
    return slash ? (size_t)(slash - c->name) : 0;
}

static bool same_group(const b1i_report_cell *a, const b1i_report_cell *b)
{
    size_t length = group_length(a);
    return length == group_length(b) && memcmp(a->name, b->name, length) == 0;
}

/* The first cell of its group and kind. */
static const b1i_report_cell *leader(const b1i_report_run *run, const b1i_report_cell *c)
{
    for (size_t i = 0; i < run->count; i++)
        if (belongs(&run->cells[i], c->kind) && same_group(&run->cells[i], c)) return &run->cells[i];
    return c;
}

/* The variants of a group that have a mode do the same work, each in its way; others are of different things. */
static bool comparable(const b1i_report_cell *c) { return c->mode != B1I_REPORT_NO_MODE; }

static columns columns_of(const b1i_report_run *run, b1i_lab_kind kind)
{
    columns k = {.doubt = b1i_page_doubt(run, kind)};
    double least = INFINITY;
    for (size_t i = 0; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        if (!belongs(c, kind)) continue;
        k.interval |= isfinite(c->low) || isfinite(c->high);
        k.gbps |= isfinite(c->gbps);
        k.depth |= c->depth > 1;
        k.clock |= c->sm_mhz > 0;
        k.throttled |= c->throttled > 0;
        k.ratio |= comparable(c) && leader(run, c) != c;
        k.bound |= c->host_bound;
        least = fmin(least, c->median / 1e3);
    }
    k.decimals = b1i_page_decimals(least);
    return k;
}

static void head(b1i_page *page, const columns *k)
{
    b1i_text_put(&page->html, "<thead><tr>");
    b1i_page_column(page, "cell", false);
    b1i_page_column(page, "n", true);
    b1i_page_column(page, "median, µs", true);
    b1i_page_column(page, "p10, µs", true);
    b1i_page_column(page, "p90, µs", true);
    if (k->interval) b1i_page_column(page, "95 % interval of p90, µs", true);
    if (k->ratio) b1i_page_column(page, "over the first", true);
    if (k->gbps) b1i_page_column(page, "GB/s", true);
    if (k->depth) b1i_page_column(page, "batch", true);
    if (k->clock) b1i_page_column(page, "SM, MHz", true);
    if (k->throttled) b1i_page_column(page, "throttled", true);
    b1i_page_column(page, "verdict", false);
    b1i_text_put(&page->html, "</tr></thead>\n");
}

static void interval(b1i_page *page, const b1i_report_run *run, const b1i_report_cell *c, int decimals)
{
    if (!isfinite(c->low) && !isfinite(c->high)) {
        b1i_text_put(&page->html, "<td class=\"n none\">–</td>");
        return;
    }
    b1i_text_put(&page->html, "<td class=\"n\">");
    b1i_page_anchor(page, run, ANALYSIS, false);
    if (!isfinite(c->high))
        b1i_text_printf(&page->html, "from %.*f", decimals, c->low / 1e3);
    else if (!isfinite(c->low))
        b1i_text_printf(&page->html, "to %.*f", decimals, c->high / 1e3);
    else
        b1i_text_printf(&page->html, "%.*f – %.*f", decimals, c->low / 1e3, decimals, c->high / 1e3);
    b1i_text_put(&page->html, "</a></td>");
}

/* Over the group's first; one within what A/A showed says so. */
static void ratio(b1i_page *page, const b1i_report_run *run, const b1i_report_cell *c, double doubt)
{
    const b1i_report_cell *first = leader(run, c);
    double value = c->median / first->median;
    if (first == c || !comparable(c) || !isfinite(value)) {
        b1i_text_put(&page->html,
                     first == c && comparable(c) ? "<td class=\"n none\">1</td>" : "<td class=\"n none\">–</td>");
        return;
    }
    b1i_text_put(&page->html, "<td class=\"n\">");
    b1i_page_anchor(page, run, ANALYSIS, false);
    b1i_text_printf(&page->html, "%s%.3f</a></td>", fabs(value - 1) <= doubt ? "≈ " : "", value);
}

static void verdict(b1i_page *page, const b1i_report_cell *c)
{
    bool good = strcmp(c->verdict, "ok") == 0;
    b1i_html(&page->html, good ? "<td>%s" : "<td><strong class=\"warn\">%s</strong>", c->verdict);
    if (c->host_bound) b1i_text_put(&page->html, ", host-bound");
    b1i_text_put(&page->html, "</td>");
}

static void cell_row(b1i_page *page, const b1i_report_run *run, const b1i_report_cell *c, const columns *k)
{
    size_t group = group_length(c);
    b1i_text_put(&page->html, "<tr><th scope=\"row\">");
    b1i_page_link(page, run, ANALYSIS, group ? c->name + group + 1 : c->name);
    b1i_text_put(&page->html, "</th>");
    b1i_page_number(page, run, "samples.jsonl", c->n, 0);
    b1i_page_number(page, run, ANALYSIS, c->median / 1e3, k->decimals);
    b1i_page_number(page, run, ANALYSIS, c->p10 / 1e3, k->decimals);
    b1i_page_number(page, run, ANALYSIS, c->p90 / 1e3, k->decimals);
    if (k->interval) interval(page, run, c, k->decimals);
    if (k->ratio) ratio(page, run, c, k->doubt);
    if (k->gbps) b1i_page_number(page, run, ANALYSIS, c->gbps, c->gbps < 10 ? 2 : 1);
    if (k->depth) b1i_page_number(page, run, ANALYSIS, c->depth > 0 ? c->depth : NAN, 0);
    if (k->clock) b1i_page_number(page, run, ANALYSIS, c->sm_mhz > 0 ? c->sm_mhz : NAN, 0);
    if (k->throttled) b1i_page_number(page, run, ANALYSIS, c->throttled, 0);
    verdict(page, c);
    b1i_text_put(&page->html, "</tr>\n");
}

static void group(b1i_page *page, const b1i_report_run *run, const b1i_report_cell *first, const columns *k)
{
    size_t length = group_length(first);
    b1i_text_put(&page->html, "<tbody>\n");
    if (length) {
        char words[2 * B1I_REPORT_WORDS];
        snprintf(words, sizeof words, "%.*s", (int)(length < sizeof words ? length : sizeof words - 1), first->name);
        int span = 6 + k->interval + k->ratio + k->gbps + k->depth + k->clock + k->throttled;
        b1i_html(&page->html, "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"%d\"><span>%s</span></th></tr>\n",
                 span, words);
    }
    for (size_t i = 0; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        if (belongs(c, first->kind) && same_group(c, first)) cell_row(page, run, c, k);
    }
    b1i_text_put(&page->html, "</tbody>\n");
}

static void notes(b1i_page *page, const columns *k)
{
    b1i_text_put(&page->html, "<p class=\"note\">");
    if (k->interval)
        b1i_text_put(
            &page->html,
            "So few samples bound p90 only roughly: the interval says how; “from” where they give no upper end. ");
    if (k->ratio) b1i_text_put(&page->html, "“Over the first”: the median over that of the group’s first row");
    if (k->ratio && isfinite(k->doubt))
        b1i_text_printf(&page->html, "; ≈ where it lies within the %.2f&nbsp;%% that A/A showed", 100 * k->doubt);
    if (k->ratio) b1i_text_put(&page->html, ". ");
    if (k->gbps)
        b1i_text_put(&page->html, "GB/s: logical bytes over the median, which are not the bytes that memory moved. ");
    if (k->bound)
        b1i_text_put(&page->html,
                     "Host-bound: within 5&nbsp;% of the enqueue time, so the device waited for the host. ");
    b1i_text_put(&page->html, "</p>\n");
}

void b1i_page_cells(b1i_page *page, const b1i_report_run *run, b1i_lab_kind kind)
{
    char caption[64];
    columns k = columns_of(run, kind);
    if (!b1i_report_run_has(run, kind)) return;
    snprintf(caption, sizeof caption, "%s, µs:", b1i_report_kind_titles[kind]);
    b1i_page_table(page, caption, b1i_report_kind_notes[kind]);
    head(page, &k);
    for (size_t i = 0; i < run->count; i++)
        if (belongs(&run->cells[i], kind) && leader(run, &run->cells[i]) == &run->cells[i])
            group(page, run, &run->cells[i], &k);
    b1i_page_table_end(page);
    notes(page, &k);
}

static bool same_reason(const b1i_report_cell *a, const b1i_report_cell *b)
{
    return a->n == 0 && b->n == 0 && strcmp(a->verdict, b->verdict) == 0 && strcmp(a->message, b->message) == 0;
}

/* The first of the rows without a number that have its reason. */
static bool begins_reason(const b1i_report_run *run, size_t i)
{
    if (run->cells[i].n > 0) return false;
    for (size_t k = 0; k < i; k++)
        if (same_reason(&run->cells[k], &run->cells[i])) return false;
    return true;
}

/* A cell has a row for each latency; its name is told once. */
static void reason_row(b1i_page *page, const b1i_report_run *run, size_t first)
{
    const b1i_report_cell *of = &run->cells[first], *last = NULL;
    b1i_html(&page->html, "<tr><th scope=\"row\" class=\"words\">");
    b1i_page_link(page, run, ANALYSIS, of->message[0] ? of->message : "no reason given");
    b1i_html(&page->html, "</th><td>%s</td><td class=\"words\">", of->verdict);
    for (size_t i = first; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        if (!same_reason(of, c) || (last && strcmp(last->name, c->name) == 0)) continue;
        b1i_html(&page->html, "%s%s", last ? ", " : "", c->name);
        last = c;
    }
    b1i_text_put(&page->html, "</td></tr>\n");
}

void b1i_page_unmeasured(b1i_page *page, const b1i_report_run *run)
{
    bool any = false;
    for (size_t i = 0; i < run->count; i++) {
        if (!begins_reason(run, i)) continue;
        if (!any) {
            b1i_page_table(page, "Cells without a number:", "they were not measured, and no figure here is theirs.");
            b1i_text_put(&page->html, "<thead><tr><th scope=\"col\">why</th><th scope=\"col\">verdict</th><th "
                                      "scope=\"col\">cells</th></tr></thead><tbody>\n");
        }
        any = true;
        reason_row(page, run, i);
    }
    if (!any) return;
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
}

/* ---- traces ---- */

static void trace_row(b1i_page *page, const b1i_report_run *run, const json_t *trace)
{
    const char *file = b1i_report_string(trace, "file");
    char name[300];
    snprintf(name, sizeof name, "%s", file ? file : "");
    double early = b1i_report_number(trace, "early_jobs"), jobs = b1i_report_number(trace, "jobs");
    double span = b1i_report_number(trace, "span_ns") / 1e3;
    b1i_text_put(&page->html, "<tr><th scope=\"row\">");
    b1i_page_link(page, run, name, strncmp(name, "traces/", 7) == 0 ? name + 7 : name);
    b1i_text_put(&page->html, "</th>");
    b1i_page_number(page, run, name, b1i_report_number(trace, "units"), 0);
    b1i_text_put(&page->html, "<td class=\"n\">");
    b1i_page_anchor(page, run, name, false);
    b1i_text_printf(&page->html, "%.0f / %.0f</a></td>", early, jobs);
    b1i_page_number(page, run, name, span, b1i_page_decimals(span));
    b1i_page_number(page, run, ANALYSIS, b1i_report_number(trace, "untraced_ns") / 1e3, b1i_page_decimals(span));
    b1i_page_number(page, run, ANALYSIS, b1i_report_number(trace, "ratio"), 3);
    b1i_html(&page->html, "<td>%s</td></tr>\n",
             json_is_true(json_object_get(trace, "complete")) ? "all jobs" : "incomplete");
    snprintf(name, sizeof name, "%s analysis.json", file ? file : "");
    b1i_page_claim(page, run, name, "%s: %.0f of %.0f jobs start B before the last A completes.", file ? file : "",
                   early, jobs);
}

void b1i_page_traces(b1i_page *page, const b1i_report_run *run)
{
    const json_t *list = json_object_get(run->analysis, "traces"), *trace;
    size_t i;
    if (json_array_size(list) == 0) return;
    b1i_page_table(
        page, "Traces:",
        "launches of their own, with instruments; their spans are no latencies and stand in no table of these.");
    b1i_text_put(&page->html, "<thead><tr>");
    b1i_page_column(page, "trace", false);
    b1i_page_column(page, "units seen", true);
    b1i_page_column(page, "jobs starting B before the last A completes", true);
    b1i_page_column(page, "instrumented span, µs", true);
    b1i_page_column(page, "untraced device interval, µs", true);
    b1i_page_column(page, "ratio", true);
    b1i_page_column(page, "seen", false);
    b1i_text_put(&page->html, "</tr></thead><tbody>\n");
    json_array_foreach(list, i, trace) trace_row(page, run, trace);
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
    b1i_text_put(&page->html,
                 "<p class=\"note\">Instruments change what they watch: schedules differ and tracing takes time of "
                 "its own, so a span is never compared with a latency of another variant.</p>\n");
}
