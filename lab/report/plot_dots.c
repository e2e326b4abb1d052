/* SPDX-License-Identifier: MIT
 *
 * Plots of the cells that have no place on the run's axis: a row a cell, under the name of its case, a point at its
 * median with a bar from p10 to p90. One plot a latency.
 */
#include "lab/report/gnuplot.h"
#include "lab/report/plots.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 760, ROW = 21, AROUND = 78 };

static bool belongs(const b1i_report_cell *c, b1i_lab_kind kind)
{
    return c->kind == kind && c->n > 0 && !c->twin && !isfinite(c->x);
}

static bool any(const b1i_report_run *run, b1i_lab_kind kind)
{
    for (size_t i = 0; i < run->count; i++)
        if (belongs(&run->cells[i], kind)) return true;
    return false;
}

/* Cells of the case that `first` is the first of, and whether it is that. */
static bool begins_case(const b1i_report_run *run, b1i_lab_kind kind, size_t first)
{
    if (!belongs(&run->cells[first], kind)) return false;
    for (size_t i = 0; i < first; i++)
        if (belongs(&run->cells[i], kind) && strcmp(run->cells[i].panel, run->cells[first].panel) == 0) return false;
    return true;
}

typedef struct dots {
    const b1i_report_run *run;
    b1i_lab_kind kind;
    b1i_plot *figure;
    b1i_text ticks, labels, plot;
    int rows;
    double least, most;
} dots;

static void put_cell(dots *d, const b1i_report_cell *c)
{
    d->rows++;
    b1i_plot_note(d->figure, c->name);
    b1i_text_printf(&d->figure->data, "%d\t%.6f\t%.6f\t%.6f\n\n\n", -d->rows, c->median / 1e3, c->p10 / 1e3,
                    c->p90 / 1e3);
    b1i_text_put(&d->ticks, d->ticks.count ? ", " : "");
    b1i_plot_quote_tic(&d->ticks, c->variant);
    b1i_text_printf(&d->ticks, " %d", -d->rows);
    d->least = fmin(d->least, c->p10 / 1e3);
    d->most = fmax(d->most, c->p90 / 1e3);
}

static void put_case(dots *d, size_t first)
{
    const b1i_report_run *run = d->run;
    if (run->cells[first].panel[0]) {
        d->rows++;
        b1i_text_put(&d->labels, "set label ");
        b1i_plot_quote(&d->labels, run->cells[first].panel);
        b1i_text_printf(&d->labels,
                        " at graph 0, first %d left offset 0.6,0 font 'sans-serif:Bold,13' textcolor rgb '%s'\n",
                        -d->rows, b1i_ink_color);
    }
    for (size_t i = first; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        if (!belongs(c, d->kind) || strcmp(c->panel, run->cells[first].panel) != 0) continue;
        int index = 0;
        for (const char *at = b1i_text_get(&d->plot); (at = strstr(at, " index ")); at++) index++;
        put_cell(d, c);
        b1i_text_printf(&d->plot,
                        "%s'%s.dat' index %d using 2:1:3:4 with xerrorbars lc rgb '%s' pt %d ps 0.7 lw 1.4 notitle",
                        index ? ", \\\n     " : "", d->figure->name, index,
                        b1i_series_colors[c->color % B1I_SERIES_COLORS], b1i_plot_mark(c->mode, false));
    }
}

static void put_script(dots *d)
{
    b1i_plot *f = d->figure;
    b1i_plot_head(f, WIDTH, AROUND + ROW * d->rows);
    b1i_text_printf(&f->script, "unset key\nset xlabel 'µs'\nset yrange [%.1f:-0.4]\nset ytics scale 0 (%s)\n%s",
                    -d->rows - 0.6, b1i_text_get(&d->ticks), b1i_text_get(&d->labels));
    b1i_plot_range(f, 'x', d->least, d->most, false);
    b1i_text_printf(&f->script, "plot %s\n", b1i_text_get(&d->plot));
}

static b1_status draw(const b1i_report_run *run, b1i_lab_kind kind, b1i_plots *plots, b1_error *err)
{
    b1_status st = B1_OK;
    dots d = {.run = run, .kind = kind, .least = INFINITY};
    if (!any(run, kind)) return B1_OK;
    if (!(d.figure = b1i_plots_add(plots, b1i_plot_latency, b1i_lab_kind_names[kind])))
        return b1i_fail_memory(err, sizeof *d.figure);
    const char *title = b1i_report_kind_titles[kind];
    d.figure->kind = kind;
    d.figure->wide = true;
    b1i_text_put(&d.figure->title, title);
    b1i_text_printf(&d.figure->description,
                    "Microseconds of each cell: a point at its median, a bar from p10 to p90. The plots stand in the "
                    "table \"%s\".",
                    title);
    b1i_plot_note(d.figure, title);
    b1i_plot_note(d.figure, "row, µs: median, p10, p90");
    for (size_t i = 0; i < run->count; i++)
        if (begins_case(run, kind, i)) put_case(&d, i);
    put_script(&d);
    if (d.ticks.broken || d.labels.broken || d.plot.broken) st = b1i_fail_memory(err, d.plot.count);
    b1i_text_free(&d.ticks);
    b1i_text_free(&d.labels);
    b1i_text_free(&d.plot);
    return st;
}

b1_status b1i_plot_dots(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1_status st;
    for (int kind = 0; kind < b1i_lab_kinds; kind++) B1I_TRY(draw(run, (b1i_lab_kind)kind, plots, err));
    return B1_OK;
fail:
    return st;
}
