/* SPDX-License-Identifier: MIT
 *
 * Plots of a study: what a step's time is made of; R_ceiling by context; what a graph gains over a stream; formats,
 * expected against realised; batches. A figure a model, weights and batch.
 */
#include "lab/report/chart.h"

#include <math.h>
#include <string.h>

typedef bool belongs(const b1i_report_run *run, const b1i_report_group *g);

static bool measured(const b1i_report_run *run, const b1i_report_group *g)
{
    (void)run;
    return g->t_obs_ms > 0;
}

/* Whether group i is the first of its figure. */
static bool begins(const b1i_report_run *run, size_t i, belongs *in)
{
    if (!in(run, &run->groups[i])) return false;
    for (size_t k = 0; k < i; k++)
        if (in(run, &run->groups[k]) && b1i_report_group_beside(&run->groups[k], &run->groups[i])) return false;
    return true;
}

/* Whether group i is the first of its executor in the figure. */
static bool begins_series(const b1i_report_run *run, size_t i, size_t first, belongs *in)
{
    const b1i_report_group *g = &run->groups[i];
    if (!in(run, g) || !b1i_report_group_beside(g, &run->groups[first])) return false;
    for (size_t k = first; k < i; k++) {
        const b1i_report_group *o = &run->groups[k];
        if (in(run, o) && b1i_report_group_beside(o, g) && strcmp(o->executor, g->executor) == 0) return false;
    }
    return true;
}

static void title_of(char *title, size_t bytes, const char *what, const b1i_report_group *g)
{
    int used = snprintf(title, bytes, "%s: %s, %s", what, g->model, g->weights);
    if (g->batch > 1 && used > 0 && (size_t)used < bytes)
        snprintf(title + used, bytes - (size_t)used, ", batch %d", g->batch);
}

static int mark_of(const char *executor)
{
    static const char *const ends[] = {"_stream", "_graph", "_pdl"};
    for (int i = 0; i < 3; i++)
        if (strstr(executor, ends[i])) return i;
    return B1I_REPORT_NO_MODE;
}

/* ---- causes ---- */

static bool has_causes(const b1i_report_run *run, const b1i_report_group *g)
{
    double ms[b1i_causes];
    return b1i_report_causes(run, g, ms);
}

static void cause_row(b1i_chart *c, const b1i_report_run *run, const b1i_report_group *g)
{
    static const int colors[b1i_causes] = {0, 6, 5, 1, 7};
    double ms[b1i_causes], at = 0;
    b1i_report_causes(run, g, ms);
    b1i_chart_row(c, g->executor);
    for (int k = 0; k < b1i_causes; k++) {
        b1i_chart_box(c, (b1i_look){b1i_cause_names[k], colors[k], 0, false}, at, at + ms[k]);
        at += ms[k];
    }
    if (g->ok > 1)
        b1i_chart_mark(c, (b1i_look){"least to most of the sessions", B1I_CHART_INK, 0, false}, g->t_obs_ms, g->min_ms,
                       g->max_ms);
}

static b1_status draw_causes(const b1i_report_run *run, size_t first, b1i_plots *plots, b1_error *err)
{
    b1i_chart c;
    char title[2 * B1I_REPORT_WORDS], words[40];
    int context = -1;
    title_of(title, sizeof title, "Step time by cause", &run->groups[first]);
    b1i_chart_begin(&c, plots, b1i_plot_causes, "causes", title);
    for (size_t i = first; i < run->group_count; i++) {
        const b1i_report_group *g = &run->groups[i];
        if (!has_causes(run, g) || !b1i_report_group_beside(g, &run->groups[first])) continue;
        snprintf(words, sizeof words, "context %d", g->context);
        if (g->context != context) b1i_chart_head(&c, words);
        context = g->context;
        cause_row(&c, run, g);
    }
    if (c.figure)
        b1i_text_put(&c.figure->description,
                     "Milliseconds of a step, a bar for each executor under its context, stacked by cause. The bars "
                     "stand in the table \"Step time by cause\".");
    return b1i_chart_rows_end(&c, "ms a step", false, err);
}

/* ---- R_ceiling ---- */

static bool has_ratio(const b1i_report_run *run, const b1i_report_group *g)
{
    return measured(run, g) && isfinite(g->r_ceiling);
}

/* Whether the figure that group `first` begins has several contexts. */
static bool several_contexts(const b1i_report_run *run, size_t first)
{
    for (size_t i = first; i < run->group_count; i++)
        if (has_ratio(run, &run->groups[i]) && b1i_report_group_beside(&run->groups[i], &run->groups[first]) &&
            run->groups[i].context != run->groups[first].context)
            return true;
    return false;
}

static b1_status draw_ratio(const b1i_report_run *run, size_t first, b1i_plots *plots, b1_error *err)
{
    b1i_chart c;
    char title[2 * B1I_REPORT_WORDS];
    if (!several_contexts(run, first)) return B1_OK;
    title_of(title, sizeof title, "R_ceiling by context", &run->groups[first]);
    b1i_chart_begin(&c, plots, b1i_plot_ratio, "ratio", title);
    for (size_t i = first; i < run->group_count; i++) {
        const b1i_report_group *g = &run->groups[i];
        if (!begins_series(run, i, first, has_ratio)) continue;
        b1i_chart_series(&c, (b1i_look){g->executor, g->color, mark_of(g->executor), false}, true);
        for (size_t k = i; k < run->group_count; k++) {
            const b1i_report_group *p = &run->groups[k];
            if (has_ratio(run, p) && b1i_report_group_beside(p, g) && strcmp(p->executor, g->executor) == 0)
                b1i_chart_point(&c, p->context, p->r_ceiling, NAN, NAN);
        }
    }
    if (c.figure)
        b1i_text_put(&c.figure->description,
                     "The share of a step that memory at its measured speed accounts for, over the context, a line for "
                     "each executor.");
    b1i_chart_include(&c, 0); /* and so not logarithmic */
    b1i_chart_include(&c, 1);
    const b1i_axes axes = {.x = "context", .y = "R_ceiling", .log_x = true, .ticks_at_points = true, .guide = "1"};
    return b1i_chart_points_end(&c, &axes, err);
}

/* ---- graphs over streams ---- */

/* The graph's group beside a stream's. */
static const b1i_report_group *graph_of(const b1i_report_run *run, const b1i_report_group *g)
{
    char name[B1I_REPORT_WORDS];
    if (!measured(run, g) || !b1i_report_graph_of(g->executor, name, sizeof name)) return NULL;
    return b1i_report_group_find(run, g, name);
}

/* Of all models, weights and batches in one figure: its series are these and the family. */
static bool same_gain(const b1i_report_group *a, const b1i_report_group *b)
{
    return b1i_report_group_beside(a, b) && strcmp(a->executor, b->executor) == 0;
}

static bool begins_gain(const b1i_report_run *run, size_t i)
{
    if (!graph_of(run, &run->groups[i])) return false;
    for (size_t k = 0; k < i; k++)
        if (graph_of(run, &run->groups[k]) && same_gain(&run->groups[k], &run->groups[i])) return false;
    return true;
}

static b1_status end_graphs(b1i_chart *c, b1_error *err)
{
    const b1i_axes axes = {.x = "context",
                           .y = "stream / graph",
                           .log_x = true,
                           .ticks_at_points = true,
                           .guide = "1",
                           .tight = true,
                           .wide = true};
    if (c->figure)
        b1i_text_put(&c->figure->description,
                     "The step launched kernel by kernel over the step of the same kernels as one graph, by context.");
    b1i_chart_include(c, 1);
    return b1i_chart_points_end(c, &axes, err);
}

static b1_status draw_graphs(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_chart c = {0};
    int series = 0;
    for (size_t i = 0; i < run->group_count; i++) {
        const b1i_report_group *g = &run->groups[i];
        char words[2 * B1I_REPORT_WORDS];
        if (!begins_gain(run, i)) continue;
        if (series && series % B1I_CHART_SERIES == 0) B1I_TRY(end_graphs(&c, err));
        if (series % B1I_CHART_SERIES == 0)
            b1i_chart_begin(&c, plots, b1i_plot_graphs, "graphs", "What a graph gains over a stream, by context");
        snprintf(words, sizeof words, "%s, %s, %.*s, batch %d", g->model, g->weights,
                 (int)(strlen(g->executor) - strlen("_stream")), g->executor, g->batch);
        b1i_chart_series(&c, (b1i_look){words, series, series % 4, false}, true);
        series++;
        for (size_t k = i; k < run->group_count; k++) {
            const b1i_report_group *p = &run->groups[k], *o = graph_of(run, p);
            if (o && same_gain(p, g)) b1i_chart_point(&c, p->context, p->t_obs_ms / o->t_obs_ms, NAN, NAN);
        }
    }
    return series ? end_graphs(&c, err) : B1_OK;
fail:
    return st;
}

/* ---- formats ---- */

static b1_status draw_formats(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    const json_t *list = json_object_get(run->analysis, "weights"), *row;
    char head[2 * B1I_REPORT_WORDS], last[2 * B1I_REPORT_WORDS] = "";
    size_t i;
    b1i_chart c;
    if (json_array_size(list) == 0) return B1_OK;
    b1i_chart_begin(&c, plots, b1i_plot_formats, "formats", "Weight formats, expected against realised");
    json_array_foreach(list, i, row)
    {
        const char *model = b1i_report_string(row, "model"), *executor = b1i_report_string(row, "executor");
        const char *weights = b1i_report_string(row, "weights");
        double bytes = b1i_report_number(row, "bytes_ratio"), paper = b1i_report_number(row, "paper_ratio");
        snprintf(head, sizeof head, "%.60s, %.40s, context %.0f, batch %.0f", model ? model : "",
                 executor ? executor : "", b1i_report_number(row, "context"), b1i_report_number(row, "batch"));
        if (strcmp(head, last) != 0) b1i_chart_head(&c, head);
        memcpy(last, head, sizeof last);
        b1i_chart_row(&c, weights ? weights : "");
        b1i_chart_mark(&c, (b1i_look){"expected: bytes, scales and K included", 0, 1, true}, bytes, NAN, NAN);
        b1i_chart_mark(&c, (b1i_look){"expected: weights / 4 + K, as published", 1, 3, true}, paper, NAN, NAN);
        b1i_chart_mark(&c, (b1i_look){"realised", 2, 0, false}, b1i_report_number(row, "speedup"), NAN, NAN);
    }
    b1i_chart_at(&c, 1);
    if (c.figure)
        b1i_text_put(&c.figure->description,
                     "How many times as fast a step is in each weight format: what its bytes let expect, and what was "
                     "measured. The marks stand in the table \"Weight formats\".");
    return b1i_chart_rows_end(&c, "times as fast as the format it is held against", false, err);
}

/* ---- batches ---- */

static bool same_batches(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"model", "executor", "weights", "context"};
    for (int i = 0; i < 4; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i]))) return false;
    return true;
}

static b1_status end_batch(b1i_chart *c, b1_error *err)
{
    const b1i_axes axes = {
        .x = "sequences a step", .y = "throughput over batch 1", .ticks_at_points = true, .guide = "x", .wide = true};
    if (c->figure)
        b1i_text_put(&c->figure->description,
                     "Tokens a second over those of batch 1, by batch; on the dotted line a batch is free.");
    return b1i_chart_points_end(c, &axes, err);
}

static void batch_series(b1i_chart *c, const json_t *list, size_t first, int series)
{
    const json_t *row = json_array_get(list, first);
    const char *model = b1i_report_string(row, "model"), *executor = b1i_report_string(row, "executor");
    const char *weights = b1i_report_string(row, "weights");
    char words[2 * B1I_REPORT_WORDS];
    snprintf(words, sizeof words, "%.60s, %.20s, %.40s, context %.0f", model ? model : "", weights ? weights : "",
             executor ? executor : "", b1i_report_number(row, "context"));
    b1i_chart_series(c, (b1i_look){words, series, mark_of(executor ? executor : ""), false}, true);
    b1i_chart_point(c, 1, 1, NAN, NAN);
    for (size_t k = first; k < json_array_size(list); k++) {
        const json_t *p = json_array_get(list, k);
        if (same_batches(p, row) && b1i_report_number(p, "batch") > 1)
            b1i_chart_point(c, b1i_report_number(p, "batch"), b1i_report_number(p, "throughput"), NAN, NAN);
    }
}

static b1_status draw_batch(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1_status st = B1_OK;
    const json_t *list = json_object_get(run->analysis, "batch");
    int series = 0;
    b1i_chart c = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        bool told = false;
        for (size_t k = 0; k < i; k++) told |= same_batches(json_array_get(list, k), json_array_get(list, i));
        if (told) continue;
        if (series && series % B1I_CHART_SERIES == 0) B1I_TRY(end_batch(&c, err));
        if (series % B1I_CHART_SERIES == 0)
            b1i_chart_begin(&c, plots, b1i_plot_batch, "batch", "Throughput by batch, over that of batch 1");
        batch_series(&c, list, i, series++);
    }
    return series ? end_batch(&c, err) : B1_OK;
fail:
    return st;
}

/* ---- all ---- */

b1_status b1i_plot_study(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1_status st = B1_OK;
    for (size_t i = 0; i < run->group_count; i++)
        if (begins(run, i, has_causes)) B1I_TRY(draw_causes(run, i, plots, err));
    for (size_t i = 0; i < run->group_count; i++)
        if (begins(run, i, has_ratio)) B1I_TRY(draw_ratio(run, i, plots, err));
    B1I_TRY(draw_graphs(run, plots, err));
    B1I_TRY(draw_formats(run, plots, err));
    st = draw_batch(run, plots, err);
fail:
    return st;
}
