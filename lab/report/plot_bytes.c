/* SPDX-License-Identifier: MIT
 *
 * Traffic against time: each cell's logical bytes and its device interval, with lines of equal GB/s to read them by.
 */
#include "lab/report/gnuplot.h"
#include "lab/report/plots.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 760, HEIGHT = 420 };

typedef struct span {
    double least, most;
} span;

static void widen(span *s, double value)
{
    s->least = fmin(s->least, value);
    s->most = fmax(s->most, value);
}

static bool belongs(const b1i_report_cell *c)
{
    return c->kind == b1i_device_interval && c->n > 0 && !c->twin && c->bytes > 0 && c->median > 0 &&
           isfinite(c->median);
}

static bool same_series(const b1i_report_cell *a, const b1i_report_cell *b)
{
    return strcmp(a->panel, b->panel) == 0 && strcmp(a->variant, b->variant) == 0;
}

static bool is_first(const b1i_report_run *run, size_t i)
{
    if (!belongs(&run->cells[i])) return false;
    for (size_t k = 0; k < i; k++)
        if (belongs(&run->cells[k]) && same_series(&run->cells[k], &run->cells[i])) return false;
    return true;
}

static bool ranges(const b1i_report_run *run, span *bytes, span *us, span *gbps)
{
    *bytes = *us = *gbps = (span){INFINITY, 0};
    for (size_t i = 0; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        if (!belongs(c)) continue;
        widen(bytes, c->bytes);
        widen(us, c->p10 / 1e3);
        widen(us, c->p90 / 1e3);
        widen(gbps, c->bytes / c->median);
    }
    return bytes->most > bytes->least && us->least > 0;
}

/* Lines of equal bandwidth, a decade apart, through where the cells lie. */
static int put_guides(b1i_plot *f, span bytes, span us, span gbps)
{
    int count = 0;
    for (double g = pow(10, floor(log10(gbps.least))); g <= gbps.most * 4 && count < 8; g *= 10) {
        double x = bytes.most * 1.3, y = x / g / 1e3;
        if (y > us.most * 1.3) x *= us.most * 1.3 / y, y = us.most * 1.3;
        if (y < us.least / 1.3 || x < bytes.least) continue;
        b1i_text_printf(
            &f->script,
            "set label '%g GB/s' at %.6g,%.6g right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '%s'\n", g, x,
            y, b1i_muted_color);
        b1i_text_printf(&f->script, "guide%d(x) = x / %g\n", count++, g * 1e3);
    }
    return count;
}

static void put_plot(const b1i_report_run *run, b1i_plot *f, int guides)
{
    int index = 0;
    b1i_text_put(&f->script, "plot ");
    for (int i = 0; i < guides; i++)
        b1i_text_printf(&f->script, "guide%d(x) lc rgb '%s' dt 3 lw 0.8 notitle, \\\n     ", i, b1i_muted_color);
    for (size_t i = 0; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        char title[2 * B1I_REPORT_WORDS + 4];
        if (!is_first(run, i)) continue;
        snprintf(title, sizeof title, "%s%s%s", c->panel, c->panel[0] ? ": " : "", c->variant);
        b1i_plot_note(f, title);
        for (size_t k = i; k < run->count; k++) {
            const b1i_report_cell *p = &run->cells[k];
            if (belongs(p) && same_series(p, c))
                b1i_text_printf(&f->data, "%.17g\t%.6f\t%.6f\t%.6f\n", p->bytes, p->median / 1e3, p->p10 / 1e3,
                                p->p90 / 1e3);
        }
        b1i_text_put(&f->data, "\n\n");
        b1i_text_printf(&f->script,
                        "%s'%s.dat' index %d using 1:2:3:4 with yerrorbars lc rgb '%s' pt %d ps 0.7 lw 1.2 title ",
                        index ? ", \\\n     " : "", f->name, index, b1i_series_colors[c->color % B1I_SERIES_COLORS],
                        b1i_plot_mark(c->mode, c->panel[0] != 0));
        b1i_plot_quote(&f->script, title);
        index++;
    }
    b1i_text_put(&f->script, "\n");
}

b1_status b1i_plot_bytes(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    span bytes, us, gbps;
    if (strcmp(run->experiment, "ceiling") == 0 || !ranges(run, &bytes, &us, &gbps)) return B1_OK;
    b1i_plot *f = b1i_plots_add(plots, b1i_plot_traffic, "traffic");
    if (!f) return b1i_fail_memory(err, sizeof *f);
    f->kind = b1i_device_interval;
    f->wide = true;
    b1i_text_put(&f->title, "Traffic against time");
    b1i_text_put(&f->description,
                 "Logical bytes of an invocation across, its device interval in microseconds upwards, a point for each "
                 "cell; dotted lines join what has the same bandwidth.");
    b1i_plot_head(f, WIDTH, HEIGHT);
    b1i_text_printf(&f->script,
                    "set key outside right top vertical reverse Left samplen 0.5 width 0 textcolor rgb '%s'\n"
                    "set xlabel 'logical bytes of an invocation'\nset ylabel 'µs'\nset format x '%%.0s %%cB'\n",
                    b1i_ink_color);
    b1i_text_printf(&f->script, "set logscale x\nset xrange [%.6g:%.6g]\n", bytes.least / 1.3, bytes.most * 1.3);
    b1i_plot_range(f, 'y', us.least, us.most, true);
    int guides = put_guides(f, bytes, us, gbps);
    b1i_plot_note(f, "Traffic against time");
    b1i_plot_note(f, "bytes, µs: median, p10, p90");
    put_plot(run, f, guides);
    return B1_OK;
}
