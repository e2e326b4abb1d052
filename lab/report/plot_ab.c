/* SPDX-License-Identifier: MIT
 *
 * The plot of an A/B: the ratio of each session, and the intervals over them.
 */
#include "lab/report/chart.h"
#include "lab/report/page.h"

#include <math.h>

static double item(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void interval_row(b1i_chart *c, const b1i_report_run *run, const char *words, const char *key, b1i_look look)
{
    const json_t *interval = json_object_get(run->analysis, key);
    if (json_array_size(interval) != 2 || !isfinite(item(interval, 0))) return;
    b1i_chart_row(c, words);
    b1i_chart_mark(c, look, b1i_report_number(run->analysis, "speedup"), item(interval, 0), item(interval, 1));
}

b1_status b1i_plot_ab(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    const json_t *pairs = json_object_get(run->analysis, "pairs"), *orders = json_object_get(run->analysis, "orders");
    const json_t *numbers = json_object_get(run->analysis, "numbers");
    b1i_chart c;
    char words[40];
    bool any = false;
    for (size_t i = 0; i < json_array_size(pairs); i++) any |= item(json_array_get(pairs, i), 1) > 0;
    if (!any) return B1_OK;
    b1i_chart_begin(&c, plots, b1i_plot_pairs, "pairs", "A over B by session");
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *pair = json_array_get(pairs, i), *order = json_array_get(orders, i);
        const char *name = json_string_value(json_is_array(order) ? json_array_get(order, 0) : order);
        bool b_first = name && name[0] == 'b';
        snprintf(words, sizeof words, "session %.0f", json_is_array(numbers) ? item(numbers, i) : (double)i + 1);
        b1i_chart_row(&c, words);
        b1i_chart_mark(&c, (b1i_look){b_first ? "B ran first" : "A ran first", b_first, b_first, b_first},
                       item(pair, 0) / item(pair, 1), NAN, NAN);
    }
    interval_row(&c, run, "95 % interval", "interval", (b1i_look){NULL, B1I_CHART_INK, 3, !b1i_ab_stands(run)});
    interval_row(&c, run, "plain percentile", "percentile_interval", (b1i_look){NULL, B1I_CHART_MUTED, 3, true});
    b1i_chart_at(&c, 1);
    if (c.figure)
        b1i_text_put(&c.figure->description,
                     "The median step of A over that of B, a mark a session, and the geometric mean with its 95 % "
                     "interval. The marks stand in the table \"Sessions\".");
    return b1i_chart_rows_end(&c, "A / B", true, err);
}
