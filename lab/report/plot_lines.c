/* SPDX-License-Identifier: MIT
 *
 * Plots over the run's axis: a line a variant, a point a cell with its p10 and p90; times, or GB/s of the experiment
 * `ceiling`. One plot for each case and latency.
 */
#include "lab/report/gnuplot.h"
#include "lab/report/plots.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 490, HEIGHT = 350, TICKS_MOST = 9 };

typedef struct lines {
    const b1i_report_run *run;
    b1i_lab_kind kind;
    const char *panel;
    bool bandwidth;
    double least, most, x_least, x_most;
} lines;

static bool belongs(const lines *l, const b1i_report_cell *c)
{
    return c->kind == l->kind && c->n > 0 && !c->twin && isfinite(c->x) && strcmp(c->panel, l->panel) == 0 &&
           (!l->bandwidth || c->gbps > 0);
}

/* value, low, high of a cell: µs, or GB/s, which p90 gives the least of. */
static void figures_of(const lines *l, const b1i_report_cell *c, double out[3])
{
    double bytes = c->gbps * c->median;
    out[0] = l->bandwidth ? c->gbps : c->median / 1e3;
    out[1] = l->bandwidth ? bytes / c->p90 : c->p10 / 1e3;
    out[2] = l->bandwidth ? bytes / c->p10 : c->p90 / 1e3;
}

/* The first cell of each variant stands for it. */
static bool is_first(const lines *l, size_t i)
{
    const b1i_report_cell *cells = l->run->cells;
    if (!belongs(l, &cells[i])) return false;
    for (size_t k = 0; k < i; k++)
        if (belongs(l, &cells[k]) && strcmp(cells[k].variant, cells[i].variant) == 0) return false;
    return true;
}

static void find_ranges(lines *l)
{
    l->least = l->x_least = INFINITY;
    l->most = l->x_most = 0;
    for (size_t i = 0; i < l->run->count; i++) {
        const b1i_report_cell *c = &l->run->cells[i];
        double v[3];
        if (!belongs(l, c)) continue;
        figures_of(l, c, v);
        l->least = fmin(l->least, v[1]);
        l->most = fmax(l->most, v[2]);
        l->x_least = fmin(l->x_least, c->x);
        l->x_most = fmax(l->x_most, c->x);
    }
}

/* The cells of one variant, by their place on the axis. */
static void put_series(const lines *l, b1i_plot *f, const char *variant)
{
    double after = -INFINITY;
    b1i_plot_note(f, variant);
    for (;;) {
        const b1i_report_cell *next = NULL;
        double v[3];
        for (size_t i = 0; i < l->run->count; i++) {
            const b1i_report_cell *c = &l->run->cells[i];
            if (belongs(l, c) && strcmp(c->variant, variant) == 0 && c->x > after && (!next || c->x < next->x))
                next = c;
        }
        if (!next) break;
        figures_of(l, next, v);
        b1i_text_printf(&f->data, "%.17g\t%.6f\t%.6f\t%.6f\n", next->x, v[0], v[1], v[2]);
        after = next->x;
    }
    b1i_text_put(&f->data, "\n\n");
}

/* Marks where something was measured, as many as have room. */
static void put_ticks(const lines *l, b1i_plot *f)
{
    double values[64], after = -INFINITY;
    int count = 0;
    while (count < 64) {
        double next = INFINITY;
        for (size_t i = 0; i < l->run->count; i++)
            if (belongs(l, &l->run->cells[i]) && l->run->cells[i].x > after) next = fmin(next, l->run->cells[i].x);
        if (!isfinite(next)) break;
        values[count++] = after = next;
    }
    int step = (count + TICKS_MOST - 1) / TICKS_MOST;
    b1i_text_put(&f->script, "set xtics (");
    for (int i = 0; i<count; i += step> 0 ? step : 1) {
        char words[32];
        b1i_plot_number(values[i], words, sizeof words);
        b1i_text_printf(&f->script, "%s'%s' %.17g", i ? ", " : "", words, values[i]);
    }
    b1i_text_put(&f->script, ")\n");
}

/* The axis in words: of the ceiling n is the working set in bytes. */
static const char *axis_words(const lines *l) { return l->bandwidth ? "working set" : l->run->axis; }

static void describe(const lines *l, b1i_plot *f)
{
    const char *title = b1i_report_kind_titles[l->kind];
    if (l->bandwidth)
        b1i_text_printf(&f->title, "Bandwidth by %s", axis_words(l));
    else
        b1i_text_printf(&f->title, "%s by %s", title, l->run->axis);
    if (l->panel[0]) b1i_text_printf(&f->title, ", %s", l->panel);
    b1i_text_printf(&f->description,
                    "%s over %s: a line for each variant, a point for each cell's median with a bar from p10 to p90. "
                    "The plots stand in the table \"%s\".",
                    l->bandwidth ? "GB/s" : "Microseconds", axis_words(l), title);
}

static void put_plot(const lines *l, b1i_plot *f)
{
    int index = 0;
    b1i_text_put(&f->script, "plot ");
    for (size_t i = 0; i < l->run->count; i++) {
        const b1i_report_cell *c = &l->run->cells[i];
        if (!is_first(l, i)) continue;
        put_series(l, f, c->variant);
        /* Neighbours stand a little apart, so that their bars can be told from each other. */
        b1i_text_printf(&f->script,
                        "%s'%s.dat' index %d using ($1*%.3f):2:3:4 with yerrorlines lc rgb '%s' dt %d pt %d "
                        "ps 0.6 lw 1.4 title ",
                        index ? ", \\\n     " : "", f->name, index, pow(1.035, index % 5 - 2),
                        b1i_series_colors[c->color % B1I_SERIES_COLORS], b1i_plot_dash(c->mode),
                        b1i_plot_mark(c->mode, false));
        b1i_plot_quote(&f->script, c->variant);
        index++;
    }
    b1i_text_put(&f->script, "\n");
}

static b1_status draw(lines *l, b1i_plots *plots, b1_error *err)
{
    find_ranges(l);
    if (!(l->most > 0) || !isfinite(l->most)) return B1_OK;
    b1i_plot *f = b1i_plots_add(plots, l->bandwidth ? b1i_plot_bandwidth : b1i_plot_latency,
                                l->bandwidth ? "bandwidth" : b1i_lab_kind_names[l->kind]);
    if (!f) return b1i_fail_memory(err, sizeof *f);
    f->kind = l->kind;
    describe(l, f);
    b1i_plot_head(f, WIDTH, HEIGHT);
    b1i_text_put(&f->script, "set xlabel ");
    b1i_plot_quote(&f->script, l->bandwidth ? "working set, bytes" : l->run->axis);
    b1i_text_printf(&f->script, "\nset ylabel '%s'\n", l->bandwidth ? "GB/s" : "µs");
    b1i_plot_range(f, 'x', l->x_least, l->x_most, true);
    b1i_plot_range(f, 'y', l->least, l->most, false);
    put_ticks(l, f);
    b1i_plot_note(f, b1i_text_get(&f->title));
    b1i_plot_note(f, l->bandwidth ? "x, GB/s: of the median, of p90, of p10" : "x, µs: median, p10, p90");
    put_plot(l, f);
    return B1_OK;
}

static b1_status draw_kind(const b1i_report_run *run, b1i_lab_kind kind, bool bandwidth, b1i_plots *plots,
                           b1_error *err)
{
    b1_status st = B1_OK;
    for (size_t i = 0; i < run->count; i++) {
        size_t k = 0;
        while (k < i && strcmp(run->cells[k].panel, run->cells[i].panel) != 0) k++;
        if (k < i) continue;
        lines l = {run, kind, run->cells[i].panel, bandwidth, 0, 0, 0, 0};
        B1I_TRY(draw(&l, plots, err));
    }
fail:
    return st;
}

b1_status b1i_plot_lines(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1_status st = B1_OK;
    if (strcmp(run->experiment, "ceiling") == 0) {
        bool device = b1i_report_run_has(run, b1i_device_interval);
        return draw_kind(run, device ? b1i_device_interval : b1i_host_single, true, plots, err);
    }
    for (int kind = 0; kind < b1i_lab_kinds; kind++) B1I_TRY(draw_kind(run, (b1i_lab_kind)kind, false, plots, err));
fail:
    return st;
}
