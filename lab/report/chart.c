/* SPDX-License-Identifier: MIT
 *
 * Rows and series as figures. See chart.h.
 */
#include "lab/report/chart.h"

#include "lab/report/gnuplot.h"

#include <math.h>
#include <string.h>

enum { WIDE = 760, ROW = 21, FOOT = 52, KEY_LINE = 19, WIDTH = 490, HEIGHT = 320, TICKS_MOST = 16 };

void b1i_chart_begin(b1i_chart *c, b1i_plots *plots, b1i_plot_sort sort, const char *stem, const char *title)
{
    *c = (b1i_chart){.least = INFINITY, .most = -INFINITY, .x_least = INFINITY, .x_most = -INFINITY};
    c->figure = b1i_plots_add(plots, sort, stem);
    if (!c->figure) return;
    b1i_text_put(&c->figure->title, title);
    b1i_plot_note(c->figure, title);
}

static const char *color_of(int color)
{
    if (color == B1I_CHART_INK) return b1i_ink_color;
    if (color == B1I_CHART_MUTED) return b1i_muted_color;
    return b1i_series_colors[color % B1I_SERIES_COLORS];
}

/* The begin of a block of the plot command, whose data follow. */
static void begin_block(b1i_chart *c, const char *using)
{
    b1i_text_printf(&c->plot, "%s'%s.dat' index %d using %s", c->blocks ? ", \\\n     " : "", c->figure->name,
                    c->blocks, using);
    c->blocks++;
}

static void put_title(b1i_chart *c, const char *title)
{
    b1i_text quoted = {0};
    if (title) b1i_plot_quote(&quoted, title);
    if (!title || (c->plot.data && strstr(c->plot.data, b1i_text_get(&quoted)))) {
        b1i_text_put(&c->plot, " notitle");
    } else {
        b1i_text_put(&c->plot, " title ");
        b1i_text_put(&c->plot, b1i_text_get(&quoted));
        c->titles++;
        if (strlen(title) > c->longest) c->longest = strlen(title);
    }
    c->plot.broken |= quoted.broken;
    b1i_text_free(&quoted);
}

static void widen(b1i_chart *c, double value)
{
    if (!isfinite(value)) return;
    c->least = fmin(c->least, value);
    c->most = fmax(c->most, value);
}

/* ---- rows ---- */

void b1i_chart_head(b1i_chart *c, const char *words)
{
    if (!c->figure) return;
    c->rows++;
    b1i_text_put(&c->labels, "set label ");
    b1i_plot_quote(&c->labels, words);
    b1i_text_printf(&c->labels, " at screen 0.012, first %d left font 'sans-serif:Bold,13' textcolor rgb '%s'\n",
                    -c->rows, b1i_ink_color);
}

void b1i_chart_row(b1i_chart *c, const char *words)
{
    if (!c->figure) return;
    c->rows++;
    b1i_text_put(&c->ticks, c->ticks.count ? ", " : "");
    b1i_plot_quote_tic(&c->ticks, words);
    b1i_text_printf(&c->ticks, " %d", -c->rows);
    b1i_plot_note(c->figure, words);
}

void b1i_chart_mark(b1i_chart *c, b1i_look look, double value, double low, double high)
{
    if (!c->figure || !isfinite(value)) return;
    const bool bar = isfinite(low) && isfinite(high) && high > low;
    widen(c, value);
    if (bar) widen(c, low), widen(c, high);
    b1i_text_printf(&c->figure->data, "%d\t%.6f\t%.6f\t%.6f\n\n\n", -c->rows, value, bar ? low : value,
                    bar ? high : value);
    begin_block(c, bar ? "2:1:3:4 with xerrorbars" : "2:1 with points");
    b1i_text_printf(&c->plot, " lc rgb '%s' pt %d ps 0.8 lw 1.4", color_of(look.color),
                    b1i_plot_mark(look.shape, look.open));
    put_title(c, look.title);
}

void b1i_chart_box(b1i_chart *c, b1i_look look, double from, double to)
{
    if (!c->figure || !(to > from)) return;
    widen(c, from);
    widen(c, to);
    b1i_text_printf(&c->figure->data, "%d\t%.6f\t%.6f\n\n\n", -c->rows, from, to);
    begin_block(c, "(($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder");
    b1i_text_printf(&c->plot, " lc rgb '%s'", color_of(look.color));
    put_title(c, look.title);
}

void b1i_chart_at(b1i_chart *c, double value)
{
    if (!c->figure || !isfinite(value)) return;
    widen(c, value);
    b1i_text_printf(&c->labels, "set arrow from %.6g, graph 0 to %.6g, graph 1 nohead dt 3 lc rgb '%s' lw 1\n", value,
                    value, b1i_muted_color);
}

void b1i_chart_include(b1i_chart *c, double value) { widen(c, value); }

/* The head of the script, with a key above a plot of `inner` pixels: in two columns where its words have room. */
static void begin_script(b1i_chart *c, int width, int inner)
{
    b1i_plot *f = c->figure;
    const bool two = c->titles > 3 && (int)c->longest * 8 + 60 < width / 2;
    const int lines = two ? (c->titles + 1) / 2 : c->titles, top = lines ? 14 + KEY_LINE * lines : 14;
    const int height = top + inner + FOOT;
    b1i_plot_head(f, width, height);
    if (lines)
        b1i_text_printf(&f->script, "set key at screen 0.012, screen %.4f left top vertical maxrows %d\n",
                        1 - 4.0 / height, lines);
    else
        b1i_text_put(&f->script, "unset key\n");
    b1i_text_printf(&f->script, "set tmargin at screen %.4f\nset bmargin at screen %.4f\n", 1 - (double)top / height,
                    (double)FOOT / height);
}

static b1_status finish(b1i_chart *c, b1_error *err)
{
    b1_status st = B1_OK;
    if (c->plot.broken || c->ticks.broken || c->labels.broken || !c->figure) st = b1i_fail_memory(err, c->plot.count);
    if (st == B1_OK) b1i_text_printf(&c->figure->script, "plot %s\n", b1i_text_get(&c->plot));
    b1i_text_free(&c->plot);
    b1i_text_free(&c->ticks);
    b1i_text_free(&c->labels);
    return st;
}

/* A range that shows differences; gnuplot chooses the tics. */
static void tight_range(b1i_plot *f, char axis, double least, double most)
{
    double pad = fmax((most - least) * 0.08, fabs(most) * 1e-3);
    b1i_text_printf(&f->script, "set %crange [%.6g:%.6g]\n", axis, least - pad, most + pad);
}

b1_status b1i_chart_rows_end(b1i_chart *c, const char *axis, bool tight, b1_error *err)
{
    b1i_plot *f = c->figure;
    if (!f) return finish(c, err);
    f->wide = true;
    begin_script(c, WIDE, ROW * c->rows + 12);
    b1i_text_put(&f->script, "set xlabel ");
    b1i_plot_quote(&f->script, axis);
    b1i_text_printf(&f->script, "\nset yrange [%.1f:-0.4]\nset ytics scale 0 (%s)\n%s", -c->rows - 0.6,
                    b1i_text_get(&c->ticks), b1i_text_get(&c->labels));
    if (tight && !(c->least > 0 && c->most / c->least > 8))
        tight_range(f, 'x', c->least, c->most);
    else
        b1i_plot_range(f, 'x', c->least, c->most, false);
    return finish(c, err);
}

/* ---- points ---- */

void b1i_chart_series(b1i_chart *c, b1i_look look, bool line)
{
    if (!c->figure) return;
    if (c->blocks) b1i_text_put(&c->figure->data, "\n\n");
    if (look.title) b1i_plot_note(c->figure, look.title);
    begin_block(c, line ? "1:2:3:4 with yerrorlines" : "1:2:3:4 with yerrorbars");
    b1i_text_printf(&c->plot, " lc rgb '%s' pt %d ps 0.7 lw 1.4", color_of(look.color),
                    b1i_plot_mark(look.shape, look.open));
    if (line) b1i_text_printf(&c->plot, " dt %d", b1i_plot_dash(look.shape));
    put_title(c, look.title);
}

void b1i_chart_point(b1i_chart *c, double x, double y, double low, double high)
{
    if (!c->figure || !isfinite(x) || !isfinite(y)) return;
    const bool bar = isfinite(low) && isfinite(high) && high > low;
    widen(c, y);
    if (bar) widen(c, low), widen(c, high);
    c->x_least = fmin(c->x_least, x);
    c->x_most = fmax(c->x_most, x);
    b1i_text_printf(&c->figure->data, "%.10g\t%.6f\t%.6f\t%.6f\n", x, y, bar ? low : y, bar ? high : y);
}

/* Where points lie, by their data. */
static void ticks_at_points(b1i_chart *c)
{
    double seen[TICKS_MOST], x;
    int count = 0, k;
    for (const char *at = b1i_text_get(&c->figure->data); *at && count < TICKS_MOST; at++) {
        if (*at != '#' && sscanf(at, "%lf", &x) == 1 && *at != '\n') {
            for (k = 0; k < count && seen[k] != x; k++) continue;
            if (k == count) seen[count++] = x;
        }
        at += strcspn(at, "\n");
        if (!*at) break;
    }
    b1i_text_put(&c->figure->script, "set xtics (");
    for (k = 0; k < count; k++) b1i_text_printf(&c->figure->script, "%s'%.10g' %.10g", k ? ", " : "", seen[k], seen[k]);
    b1i_text_put(&c->figure->script, ")\n");
}

b1_status b1i_chart_points_end(b1i_chart *c, const b1i_axes *axes, b1_error *err)
{
    b1i_plot *f = c->figure;
    if (!f) return finish(c, err);
    f->wide = axes->wide;
    begin_script(c, axes->wide ? WIDE : WIDTH, axes->wide ? HEIGHT + 40 : HEIGHT);
    b1i_text_put(&f->script, "set xlabel ");
    b1i_plot_quote(&f->script, axes->x);
    b1i_text_put(&f->script, "\nset ylabel ");
    b1i_plot_quote(&f->script, axes->y);
    b1i_text_put(&f->script, "\n");
    if (axes->log_x || !(c->x_least > 0))
        b1i_plot_range(f, 'x', c->x_least, c->x_most, axes->log_x);
    else
        tight_range(f, 'x', 0, c->x_most);
    if (axes->tight)
        tight_range(f, 'y', c->least, c->most);
    else
        b1i_plot_range(f, 'y', c->least, c->most, axes->log_y);
    if (axes->ticks_at_points) ticks_at_points(c);
    if (axes->guide)
        b1i_text_printf(&c->plot, ", \\\n     %s lc rgb '%s' dt 3 lw 0.8 notitle", axes->guide, b1i_muted_color);
    return finish(c, err);
}
