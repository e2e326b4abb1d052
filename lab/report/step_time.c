/* SPDX-License-Identifier: MIT
 *
 * The first table of a study, its groups with what a reader asks first before the rest; which of them stand, and the
 * claims that follow.
 */
#include "lab/bench.h"
#include "lab/report/page.h"

#include <math.h>
#include <string.h>

#define ANALYSIS "analysis.json"

int b1i_page_group_decimals(const b1i_report_run *run)
{
    double least = INFINITY;
    for (size_t i = 0; i < run->group_count; i++)
        if (run->groups[i].t_obs_ms > 0) least = fmin(least, run->groups[i].t_obs_ms);
    return least >= 100 ? 2 : 3;
}

bool b1i_page_group_begins(const b1i_report_run *run, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (b1i_report_group_beside(&run->groups[k], &run->groups[i])) return false;
    return true;
}

void b1i_page_group_head(b1i_page *page, const b1i_report_group *g, int columns)
{
    b1i_html(&page->html, "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"%d\"><span>%s, %s, batch %d", columns,
             g->model, g->weights, g->batch);
    if (g->threads > 0) b1i_html(&page->html, ", %d threads", g->threads);
    b1i_text_put(&page->html, "</span></th></tr>\n");
}

/* ---- what stands ---- */

/* The worst verdict of the group's cells. */
static const char *verdict_of(const b1i_report_run *run, const b1i_report_group *g)
{
    const json_t *list = json_object_get(run->analysis, "cells"), *cell;
    size_t i;
    for (int v = b1i_verdict_throttled; v > b1i_verdict_ok; v--)
        json_array_foreach(list, i,
                           cell) if (b1i_report_cell_of(g, cell) &&
                                     b1i_report_is(cell, "verdict", b1i_verdict_names[v])) return b1i_verdict_names[v];
    return isfinite(g->t_obs_ms) ? "ok" : "none";
}

static bool too_fast(const b1i_report_group *g) { return b1i_faster_than_memory(g->r_floor, g->r_ceiling); }

bool b1i_page_group_stands(const b1i_report_run *run, const b1i_report_group *g)
{
    return g->headline && g->t_obs_ms > 0 && !too_fast(g) && strcmp(verdict_of(run, g), "ok") == 0;
}

/* ---- the table ---- */

/* Its numbers: before the verdict, and after it. */
enum { CONTEXT, STEP, TOKENS, JOULES, R_CEILING, R_FLOOR, SESSIONS, LEAST, MOST, WITHIN, ACROSS, FLOOR, SUMS, COLUMNS };
static const char *const heads[COLUMNS] = {
    "context",       "step, ms",     "tokens a second", "J a token",    "R_ceiling",      "R_floor",       "sessions",
    "least session", "most session", "CV within, %",    "CV across, %", "byte floor, ms", "arithmetic, ms"};

static void values_of(const b1i_report_group *g, double values[COLUMNS])
{
    const bool several = g->ok > 1;
    values[CONTEXT] = g->context;
    values[STEP] = g->t_obs_ms;
    values[TOKENS] = g->tokens_per_s;
    values[JOULES] = b1i_report_number(g->cell, "energy.joules_per_token");
    values[R_CEILING] = g->r_ceiling;
    values[R_FLOOR] = g->r_floor;
    values[SESSIONS] = g->ok;
    values[LEAST] = several ? g->min_ms : NAN;
    values[MOST] = several ? g->max_ms : NAN;
    values[WITHIN] = 100 * g->cv_within;
    values[ACROSS] = 100 * g->cv_across;
    values[FLOOR] = b1i_report_number(g->cell, "t_floor_ms");
    values[SUMS] = b1i_report_number(g->cell, "t_arithmetic_ms");
}

/* Which columns have a number in any row. */
static int known_columns(const b1i_report_run *run, bool known[COLUMNS])
{
    int count = 0;
    for (int k = 0; k < COLUMNS; k++) known[k] = k == CONTEXT || k == STEP;
    for (size_t i = 0; i < run->group_count; i++) {
        double values[COLUMNS];
        values_of(&run->groups[i], values);
        for (int k = 0; k < COLUMNS; k++) known[k] |= run->groups[i].t_obs_ms > 0 && isfinite(values[k]);
    }
    for (int k = 0; k < COLUMNS; k++) count += known[k];
    return count;
}

static void put_verdict(b1i_page *page, const b1i_report_run *run, const b1i_report_group *g)
{
    const char *verdict = verdict_of(run, g);
    b1i_html(&page->html, strcmp(verdict, "ok") == 0 ? "<td>%s" : "<td><strong class=\"warn\">%s</strong>", verdict);
    if (too_fast(g)) b1i_text_put(&page->html, ", <strong class=\"warn\">faster than memory allows</strong>");
    b1i_text_put(&page->html, b1i_page_group_stands(run, g) ? "</td>" : ", no headline</td>");
}

static void group_row(b1i_page *page, const b1i_report_run *run, const b1i_report_group *g, const bool *known)
{
    const int ms = b1i_page_group_decimals(run);
    const int decimals[COLUMNS] = {0, ms, 1, 3, 3, 3, 0, ms, ms, 2, 2, ms, ms};
    double values[COLUMNS];
    values_of(g, values);
    b1i_page_row(page, run, ANALYSIS, g->executor);
    for (int k = 0; k < COLUMNS; k++) {
        const bool of_cell = k == JOULES || k == FLOOR || k == SUMS;
        if (known[k]) b1i_page_number(page, run, of_cell ? g->file : ANALYSIS, values[k], decimals[k]);
        if (k == STEP) put_verdict(page, run, g);
    }
    b1i_text_put(&page->html, "</tr>\n");
}

static void group_columns(b1i_page *page, const bool *known)
{
    b1i_text_put(&page->html, "<thead><tr>");
    b1i_page_column(page, "executor", false);
    for (int k = 0; k < COLUMNS; k++) {
        if (known[k]) b1i_page_column(page, heads[k], true);
        if (k == STEP) b1i_page_column(page, "verdict", false);
    }
    b1i_text_put(&page->html, "</tr></thead><tbody>\n");
}

void b1i_page_groups(b1i_page *page, const b1i_report_run *run)
{
    bool known[COLUMNS];
    const int columns = known_columns(run, known) + 2;
    b1i_page_table(
        page, "Step time:",
        "the median over sessions of the median step; R_ceiling and R_floor are the medians of the sessions’ "
        "own. CV: standard deviation over mean, of the steps of a session and of the sessions' medians.");
    group_columns(page, known);
    for (size_t i = 0; i < run->group_count; i++) {
        if (!b1i_page_group_begins(run, i)) continue;
        b1i_page_group_head(page, &run->groups[i], columns);
        for (size_t k = i; k < run->group_count; k++)
            if (b1i_report_group_beside(&run->groups[k], &run->groups[i]) && run->groups[k].t_obs_ms > 0)
                group_row(page, run, &run->groups[k], known);
    }
    b1i_page_body_end(page);
    b1i_text_put(&page->html,
                 "<p class=\"note\">The byte floor is weights, keys and values over the datasheet’s bandwidth; "
                 "the arithmetic floor is the operations of matrices and attention over its dense bf16 rate. A session "
                 "is a fresh process. What drifts, is noisy or was throttled is counted here and makes no headline. "
                 "Where R_floor is above 1 or R_ceiling above 1.03, a step read less than it counts, or was not timed "
                 "whole. A column that no row has a number for is left out.</p>\n");
}

/* ---- claims ---- */

static void fastest_claim(b1i_page *page, const b1i_report_run *run, size_t first)
{
    const b1i_report_group *of = &run->groups[first], *best = NULL;
    for (size_t i = first; i < run->group_count; i++) {
        const b1i_report_group *g = &run->groups[i];
        if (!b1i_report_group_beside(g, of) || g->context != of->context || !b1i_page_group_stands(run, g)) continue;
        if (!best || g->t_obs_ms < best->t_obs_ms) best = g;
    }
    if (!best) return;
    b1i_page_claim(
        page, run, ANALYSIS,
        "%s, %s, batch %d at context %d: the fastest that holds still is %s, %.3f ms a step, R_ceiling %.3f, "
        "over %d session%s.",
        best->model, best->weights, best->batch, best->context, best->executor, best->t_obs_ms, best->r_ceiling,
        best->ok, best->ok == 1 ? "" : "s");
}

/* Cells with figures, and what keeps some of them from a headline. */
static void cells_claim(b1i_page *page, const b1i_report_run *run)
{
    const json_t *list = json_object_get(run->analysis, "cells"), *cell;
    size_t i;
    int ok = 0, drifting = 0, noisy = 0;
    json_array_foreach(list, i, cell)
    {
        ok += strcmp(b1i_report_word(cell, "status"), "ok") == 0;
        drifting += strcmp(b1i_report_word(cell, "verdict"), "drifting") == 0;
        noisy += strcmp(b1i_report_word(cell, "verdict"), "noisy") == 0;
    }
    b1i_page_claim(page, run, "manifest.json plan.json analysis.json",
                   "%d of %zu cells have figures, each of which follows from its steps, as verified when this page was "
                   "made; %d drift and %d are noisy, and make no headline.",
                   ok, json_array_size(list), drifting, noisy);
}

/* How many comparisons of a list say themselves that they are none. */
static void comparisons_claim(b1i_page *page, const b1i_report_run *run, const char *key, const char *words)
{
    const json_t *list = json_object_get(run->analysis, key), *row;
    size_t i;
    int none = 0;
    json_array_foreach(list, i, row) none += json_is_false(json_object_get(row, "headline"));
    if (none)
        b1i_page_claim(page, run, ANALYSIS, "%d of %zu comparisons of %s are no headline: no claim is made of them.",
                       none, json_array_size(list), words);
}

void b1i_page_study_claims(b1i_page *page, const b1i_report_run *run)
{
    cells_claim(page, run);
    comparisons_claim(page, run, "weights", "formats");
    comparisons_claim(page, run, "batch", "batches");
    for (size_t i = 0; i < run->group_count; i++) {
        size_t k = 0;
        while (k < i && !(b1i_report_group_beside(&run->groups[k], &run->groups[i]) &&
                          run->groups[k].context == run->groups[i].context))
            k++;
        if (k == i) fastest_claim(page, run, i);
    }
}
