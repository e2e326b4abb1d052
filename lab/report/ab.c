/* SPDX-License-Identifier: MIT
 *
 * The page of an A/B: what it found and how far that carries, its sessions, the rigs where there are several.
 */
#include "lab/report/page.h"

#include <math.h>
#include <string.h>

#define ANALYSIS "analysis.json"

static double item(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double bound(const b1i_report_run *run, const char *key, size_t i)
{
    return item(json_object_get(run->analysis, key), i);
}

/* ---- what differs ---- */

/* Whether the settings have this one, between commas. */
static bool has(const char *settings, const char *one, size_t length)
{
    for (const char *at = settings; *at;) {
        size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, one, n) == 0) return true;
        at += n;
        at += *at == ',';
    }
    return false;
}

/* The settings of `from` that `other` has not. */
static void put_own(const char *from, const char *other, char *words, size_t bytes)
{
    bool any = false;
    for (const char *at = from; *at;) {
        size_t n = strcspn(at, ","), used = strlen(words);
        if (!has(other, at, n)) {
            snprintf(words + used, bytes - used, "%s%.*s", any ? "," : "", (int)n, at);
            any = true;
        }
        at += n;
        at += *at == ',';
    }
    size_t used = strlen(words);
    if (!any) snprintf(words + used, bytes - used, "the same");
}

void b1i_ab_difference(const b1i_report_run *run, char *words, size_t bytes)
{
    const char *a = b1i_report_word(run->analysis, "a"), *b = b1i_report_word(run->analysis, "b");
    if (bytes == 0) return;
    words[0] = 0;
    put_own(a, b, words, bytes);
    size_t used = strlen(words);
    snprintf(words + used, bytes - used, " → ");
    put_own(b, a, words, bytes);
}

bool b1i_ab_stands(const b1i_report_run *run)
{
    double low = bound(run, "interval", 0), high = bound(run, "interval", 1);
    return strcmp(b1i_report_word(run->analysis, "verdict"), "ok") == 0 && (low > 1 || high < 1);
}

/* ---- what it found ---- */

static void verdict(b1i_page *page, const b1i_report_run *run)
{
    const char *words = b1i_report_word(run->analysis, "verdict"), *message = b1i_report_word(run->analysis, "message");
    const bool ok = strcmp(words, "ok") == 0;
    b1i_text_put(&page->html, "<p>");
    b1i_html(&page->html, "A: <code>%s</code>. B: <code>%s</code>. ", b1i_report_word(run->analysis, "a"),
             b1i_report_word(run->analysis, "b"));
    if (!ok) b1i_html(&page->html, "<strong class=\"warn\">Verdict: %s</strong>, so this makes no headline. ", words);
    if (message[0]) b1i_html(&page->html, "%s ", message);
    b1i_text_put(&page->html, "</p>\n");
}

static void found_row(b1i_page *page, const b1i_report_run *run, const char *words, double value, const char *interval,
                      int decimals)
{
    b1i_page_row(page, run, ANALYSIS, words);
    b1i_page_number(page, run, ANALYSIS, value, decimals);
    for (size_t i = 0; i < 2; i++)
        b1i_page_number(page, run, ANALYSIS, interval ? bound(run, interval, i) : NAN, decimals);
    b1i_text_put(&page->html, "</tr>\n");
}

static void found(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"figure", "value", "from", "to", NULL};
    static const bool numbers[] = {false, true, true, true};
    const json_t *a = run->analysis;
    char note[200];
    snprintf(note, sizeof note, "over %.0f sessions; 95 %% intervals over sessions, %.0f resamples from the seed %lld.",
             b1i_report_number(a, "sessions"), b1i_report_number(a, "resamples"),
             (long long)json_integer_value(json_object_get(a, "seed")));
    b1i_page_table(page, "A over B:", note);
    b1i_page_columns(page, heads, numbers);
    found_row(page, run, "speed-up, studentised bootstrap", b1i_report_number(a, "speedup"), "interval", 4);
    found_row(page, run, "the same by the plain percentile interval", b1i_report_number(a, "speedup"),
              "percentile_interval", 4);
    found_row(page, run, "median of the sessions' ratios", b1i_report_number(a, "median"), NULL, 4);
    found_row(page, run, "mean of the sessions' ratios", b1i_report_number(a, "mean"), NULL, 4);
    b1i_page_row(page, run, ANALYSIS, "least and most of the sessions' ratios");
    b1i_text_put(&page->html, "<td class=\"n none\">–</td>");
    b1i_page_number(page, run, ANALYSIS, b1i_report_number(a, "min"), 4);
    b1i_page_number(page, run, ANALYSIS, b1i_report_number(a, "max"), 4);
    b1i_text_put(&page->html, "</tr>\n");
    found_row(page, run, "sessions that ran A first over the others", b1i_report_number(a, "order_effect"), NULL, 4);
    found_row(page, run, "difference, ms", b1i_report_number(a, "difference_ms"), "difference_interval", 4);
    b1i_page_body_end(page);
    b1i_text_put(&page->html,
                 "<p class=\"note\">The speed-up is the geometric mean over sessions of median A over median B. Orders "
                 "alternate, so that a trend within a session falls on both; the published study ran eager first in "
                 "each. The percentile interval covers too little at ten sessions and stands here for comparison with "
                 "it. ");
    if (json_is_true(json_object_get(a, "upper_bound")))
        b1i_text_put(&page->html,
                     "A and B ran the same kernels, so the difference is an upper bound of what launching them costs; "
                     "it is divided by no count of kernels.");
    b1i_text_put(&page->html, "</p>\n");
}

static void arms(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"arm",      "mean, ms",     "median, ms",   "least, ms",
                                        "most, ms", "CV within, %", "CV across, %", NULL};
    static const bool numbers[] = {false, true, true, true, true, true, true};
    static const char *const keys[] = {"a_ms", "b_ms"};
    b1i_page_table(page, "Arms:", "over sessions, of each session's median step.");
    b1i_page_columns(page, heads, numbers);
    for (int i = 0; i < 2; i++) {
        const json_t *arm = json_object_get(run->analysis, keys[i]);
        b1i_page_row(page, run, ANALYSIS, i ? "B" : "A");
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(arm, "mean"), 4);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(arm, "median"), 4);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(arm, "min"), 4);
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(arm, "max"), 4);
        b1i_page_number(page, run, ANALYSIS, 100 * b1i_report_number(arm, "cv_within"), 2);
        b1i_page_number(page, run, ANALYSIS, 100 * b1i_report_number(arm, "cv_across"), 2);
        b1i_text_put(&page->html, "</tr>\n");
    }
    b1i_page_body_end(page);
}

/* ---- sessions ---- */

/* The planned session that has the number. */
static const char *id_of(const b1i_report_run *run, double number)
{
    const json_t *list = json_object_get(run->plan, "cells"), *cell;
    size_t i;
    json_array_foreach(list, i, cell) if (b1i_report_number(cell, "session") == number) return b1i_report_word(cell,
                                                                                                               "id");
    return "";
}

static void sessions(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"session", "ran first", "A, ms", "B, ms", "A / B", NULL};
    static const bool numbers[] = {false, false, true, true, true};
    const json_t *pairs = json_object_get(run->analysis, "pairs"), *orders = json_object_get(run->analysis, "orders");
    const json_t *list = json_object_get(run->analysis, "numbers");
    if (json_array_size(pairs) == 0) return;
    b1i_page_table(page, "Sessions:", "each a fresh process that loads the model anew.");
    b1i_page_columns(page, heads, numbers);
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i), *order = json_array_get(orders, i);
        const char *first = json_string_value(json_is_array(order) ? json_array_get(order, 0) : order);
        double number = json_is_array(list) ? item(list, i) : (double)i + 1;
        const char *id = id_of(run, number);
        char words[32], file[120];
        snprintf(words, sizeof words, "%.0f", number);
        b1i_report_cell_file(id, "session.json", file, sizeof file);
        b1i_page_row(page, run, file, words);
        b1i_html(&page->html, "<td>%s</td>", first && first[0] == 'b' ? "B" : first ? "A" : "–");
        b1i_report_cell_file(id, "a.json", file, sizeof file);
        b1i_page_number(page, run, file, item(pair, 0), 4);
        b1i_report_cell_file(id, "b.json", file, sizeof file);
        b1i_page_number(page, run, file, item(pair, 1), 4);
        b1i_page_number(page, run, ANALYSIS, item(pair, 0) / item(pair, 1), 4);
        b1i_text_put(&page->html, "</tr>\n");
    }
    b1i_page_body_end(page);
}

static void rigs(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"rig", "device", "version", "binary", "A", "B", "speed-up", "from", "to", NULL};
    static const bool numbers[] = {false, false, false, false, false, false, true, true, true};
    const json_t *list = json_object_get(run->analysis, "rigs"), *rig;
    size_t i;
    if (json_array_size(list) < 2) return;
    b1i_page_table(page,
                   "Rigs:", "sessions that differ in binary, stack, version, warm-up or device are never pooled.");
    b1i_page_columns(page, heads, numbers);
    json_array_foreach(list, i, rig)
    {
        char words[24];
        snprintf(words, sizeof words, "%zu", i + 1);
        b1i_page_row(page, run, ANALYSIS, words);
        b1i_html(&page->html, "<td>%s %s</td><td>%s</td>", b1i_report_word(rig, "device_name"),
                 b1i_report_word(rig, "device_uuid"), b1i_report_word(rig, "version"));
        snprintf(words, sizeof words, "%.12s", b1i_report_word(rig, "binary_sha256"));
        b1i_html(&page->html, "<td>%s</td><td>%s</td><td>%s</td>", words, b1i_report_word(rig, "a"),
                 b1i_report_word(rig, "b"));
        b1i_page_number(page, run, ANALYSIS, b1i_report_number(rig, "speedup"), 4);
        for (size_t k = 0; k < 2; k++)
            b1i_page_number(page, run, ANALYSIS, item(json_object_get(rig, "interval"), k), 4);
        b1i_text_put(&page->html, "</tr>\n");
    }
    b1i_page_body_end(page);
}

void b1i_page_ab(b1i_page *page, const b1i_report_run *run)
{
    verdict(page, run);
    found(page, run);
    arms(page, run);
    sessions(page, run);
    rigs(page, run);
}

void b1i_page_ab_claims(b1i_page *page, const b1i_report_run *run)
{
    const json_t *a = run->analysis;
    double speedup = b1i_report_number(a, "speedup"), sessions_run = b1i_report_number(a, "sessions");
    char words[300];
    b1i_ab_difference(run, words, sizeof words);
    const bool ok = strcmp(b1i_report_word(a, "verdict"), "ok") == 0 && isfinite(speedup);
    if (ok && !b1i_ab_stands(run))
        b1i_page_claim(
            page, run, "analysis.json plan.json",
            "%s at context %.0f, %s: no difference is claimed; A / B is %.3f, and its 95 %% interval %.3f to "
            "%.3f over %.0f sessions includes 1.",
            b1i_report_word(a, "model"), b1i_report_number(a, "context"), words, speedup, bound(run, "interval", 0),
            bound(run, "interval", 1), sessions_run);
    else if (ok)
        b1i_page_claim(page, run, "analysis.json plan.json",
                       "%s at context %.0f, %s: B is %.3f times as fast as A, 95 %% interval %.3f to %.3f over %.0f "
                       "sessions.",
                       b1i_report_word(a, "model"), b1i_report_number(a, "context"), words, speedup,
                       bound(run, "interval", 0), bound(run, "interval", 1), sessions_run);
    else
        b1i_page_claim(page, run, "analysis.json plan.json", "%s at context %.0f, %s: no claim; the verdict is “%s”.",
                       b1i_report_word(a, "model"), b1i_report_number(a, "context"), words,
                       b1i_report_word(a, "verdict"));
}
