/* SPDX-License-Identifier: MIT
 *
 * Plots of what single cells of a study hold beside their times: the profile of a step, and the histogram of many.
 */
#include "lab/report/chart.h"

#include <math.h>
#include <string.h>

static void group_name(const b1i_report_group *g, char *name, size_t bytes)
{
    snprintf(name, bytes, "%.40s, %.20s, context %d, batch %d", g->model, g->weights, g->context, g->batch);
}

/* ---- profile ---- */

static bool has_profile(const b1i_report_group *g) { return b1i_report_number(g->profile, "kernel_ms") > 0; }

/* Milliseconds of a step in kernels of the layers; NaN: the profile does not say which these are. */
static double layer_ms(const b1i_report_group *g)
{
    const json_t *list = json_object_get(g->profile, "kernels"), *kernel;
    size_t i;
    double ns = 0;
    bool known = false;
    json_array_foreach(list, i, kernel)
    {
        known |= json_is_boolean(json_object_get(kernel, "layer"));
        if (json_is_true(json_object_get(kernel, "layer"))) ns += b1i_report_number(kernel, "total_ns");
    }
    return known ? ns / 1e6 : NAN;
}

static void profile_row(b1i_chart *c, const b1i_report_group *g)
{
    double all = b1i_report_number(g->profile, "kernel_ms"), layers = layer_ms(g);
    double gap = b1i_report_number(g->profile, "gap_ms");
    if (!isfinite(layers) || layers > all) layers = all;
    b1i_chart_row(c, g->executor);
    b1i_chart_box(c, (b1i_look){"kernels of the layers", 0, 0, false}, 0, layers);
    b1i_chart_box(c, (b1i_look){"other kernels", 6, 0, false}, layers, all);
    b1i_chart_box(c, (b1i_look){"between kernels", 1, 0, false}, all, all + gap);
    b1i_chart_mark(c, (b1i_look){"the step without the profiler", B1I_CHART_INK, 3, true},
                   b1i_report_number(g->profile, "unprofiled_ms"), NAN, NAN);
}

static b1_status draw_profiles(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1i_chart c = {0};
    char name[160], last[160] = "";
    bool any = false;
    for (size_t i = 0; i < run->group_count; i++) {
        const b1i_report_group *g = &run->groups[i];
        if (!has_profile(g)) continue;
        if (!any) b1i_chart_begin(&c, plots, b1i_plot_profile, "profile", "A step by its kernels");
        any = true;
        group_name(g, name, sizeof name);
        if (strcmp(name, last) != 0) b1i_chart_head(&c, name);
        memcpy(last, name, sizeof last);
        profile_row(&c, g);
    }
    if (!any) return B1_OK;
    if (c.figure)
        b1i_text_put(&c.figure->description,
                     "Milliseconds of a step in its kernels and between them by the profiler, and the step without it. "
                     "The figures stand in the table \"Profiles\".");
    return b1i_chart_rows_end(&c, "ms a step", false, err);
}

/* ---- jitter ---- */

static b1_status end_jitter(b1i_chart *c, b1_error *err)
{
    const b1i_axes axes = {.x = "ms a step", .y = "steps", .log_x = true, .log_y = true, .wide = true};
    if (c->figure)
        b1i_text_put(&c->figure->description,
                     "How many steps took how long: a point for each bin of 1 %, by milliseconds. The percentiles "
                     "stand in the table \"Jitter\".");
    return b1i_chart_points_end(c, &axes, err);
}

static void put_histogram(b1i_chart *c, const b1i_report_group *g, const json_t *list, int series)
{
    const json_t *bin;
    char name[160], words[260];
    size_t i;
    group_name(g, name, sizeof name);
    snprintf(words, sizeof words, "%.60s, %s", g->executor, name);
    b1i_chart_series(c, (b1i_look){words, series, series % 4, false}, false);
    json_array_foreach(list, i, bin)
    {
        double from = b1i_report_number(bin, "from_ms"), to = b1i_report_number(bin, "to_ms");
        double steps = b1i_report_number(bin, "steps");
        if (steps > 0) b1i_chart_point(c, (from + to) / 2, steps, NAN, NAN);
    }
}

static b1_status draw_jitter(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_chart c = {0};
    int series = 0;
    for (size_t i = 0; i < run->group_count; i++) {
        const json_t *list = b1i_report_at(run->groups[i].cell, "jitter.histogram");
        if (!(b1i_report_number(json_array_get(list, 0), "steps") > 0)) continue;
        if (series && series % B1I_CHART_SERIES == 0) B1I_TRY(end_jitter(&c, err));
        if (series % B1I_CHART_SERIES == 0)
            b1i_chart_begin(&c, plots, b1i_plot_jitter, "jitter", "Steps by their time");
        put_histogram(&c, &run->groups[i], list, series++);
    }
    return series ? end_jitter(&c, err) : B1_OK;
fail:
    return st;
}

b1_status b1i_plot_steps(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1_status st = draw_profiles(run, plots, err);
    return st == B1_OK ? draw_jitter(run, plots, err) : st;
}
