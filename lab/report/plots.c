/* SPDX-License-Identifier: MIT
 *
 * What all plots share: their list, the script's head, ranges, marks.
 */
#include "lab/report/plots.h"

#include "lab/report/gnuplot.h"

#include <math.h>
#include <string.h>

void b1i_plots_free(b1i_plots *figures)
{
    for (size_t i = 0; i < figures->count; i++) {
        b1i_plot *f = &figures->items[i];
        b1i_text_free(&f->title);
        b1i_text_free(&f->description);
        b1i_text_free(&f->data);
        b1i_text_free(&f->script);
    }
    b1i_free(figures->items);
    *figures = (b1i_plots){0};
}

b1i_plot *b1i_plots_add(b1i_plots *figures, b1i_plot_sort sort, const char *stem)
{
    if (!b1i_grow(&figures->items, &figures->room, figures->count + 1, sizeof *figures->items)) return NULL;
    b1i_plot *f = &figures->items[figures->count++];
    *f = (b1i_plot){.sort = sort};
    snprintf(f->name, sizeof f->name, "%02zu-%s", figures->count, stem);
    return f;
}

void b1i_plot_head(b1i_plot *f, int width, int height)
{
    b1i_text_printf(&f->script,
                    "set terminal svg size %d,%d dynamic noenhanced font 'sans-serif,13' linewidth 1\n"
                    "set encoding utf8\n"
                    "set output '%s.svg'\n"
                    "set border 3 lc rgb '%s' lw 0.8\n"
                    "set tics nomirror out scale 0.5,0.25 textcolor rgb '%s'\n"
                    "set grid lt 1 lc rgb '%s' lw 0.6\n"
                    "set errorbars small\n"
                    "set pointintervalbox 1.4\n"
                    "set xlabel textcolor rgb '%s'\n"
                    "set ylabel textcolor rgb '%s'\n"
                    "set key tmargin left horizontal reverse Left samplen 2.2 width 1 textcolor rgb '%s'\n",
                    width, height, f->name, b1i_muted_color, b1i_muted_color, b1i_grid_color, b1i_muted_color,
                    b1i_muted_color, b1i_ink_color);
}

void b1i_plot_quote(b1i_text *script, const char *words)
{
    b1i_text_put(script, "'");
    for (; *words; words++) {
        if (*words == '\'') b1i_text_put(script, "'");
        b1i_text_bytes(script, (unsigned char)*words < ' ' ? " " : words, 1);
    }
    b1i_text_put(script, "'");
}

void b1i_plot_note(b1i_plot *f, const char *words)
{
    b1i_text_put(&f->data, "# ");
    for (; *words; words++) b1i_text_bytes(&f->data, (unsigned char)*words < ' ' ? " " : words, 1);
    b1i_text_put(&f->data, "\n");
}

bool b1i_plot_range(b1i_plot *f, char axis, double least, double most, bool log)
{
    log |= least > 0 && most / least > 8;
    if (log)
        b1i_text_printf(&f->script, "set logscale %c\nset %crange [%.6g:%.6g]\n", axis, axis, least / 1.3, most * 1.3);
    else
        b1i_text_printf(&f->script, "set %crange [0:%.6g]\n", axis, most * 1.08);
    return log;
}

int b1i_plot_mark(int mode)
{
    static const int marks[] = {6, 4, 8, 12};
    return marks[mode >= 0 && mode <= B1I_REPORT_NO_MODE ? mode : B1I_REPORT_NO_MODE];
}

int b1i_plot_dash(int mode)
{
    static const int dashes[] = {1, 2, 3, 1};
    return dashes[mode >= 0 && mode <= B1I_REPORT_NO_MODE ? mode : B1I_REPORT_NO_MODE];
}

void b1i_plot_number(double value, char *text, size_t bytes)
{
    static const char *const units[] = {"", " Ki", " Mi", " Gi", " Ti"};
    int unit = 0;
    double left = value;
    while (unit < 4 && left >= 1024 && fmod(left, 1024) == 0) left /= 1024, unit++;
    /* 1.5 Mi is said so, and not as 1536 Ki */
    while (unit > 0 && unit < 4 && left >= 1024) left /= 1024, unit++;
    snprintf(text, bytes, "%.6g%s", left, units[unit]);
}

b1_status b1i_plots_make(const b1i_report_run *run, b1i_plots *out, b1_error *err)
{
    b1_status st;
    *out = (b1i_plots){0};
    B1I_TRY(b1i_plot_timelines(run, out, err));
    B1I_TRY(b1i_plot_lines(run, out, err));
    B1I_TRY(b1i_plot_dots(run, out, err));
    B1I_TRY(b1i_plot_bytes(run, out, err));
    for (size_t i = 0; i < out->count; i++) {
        B1I_TRY(b1i_text_status(&out->items[i].title, err));
        B1I_TRY(b1i_text_status(&out->items[i].description, err));
        B1I_TRY(b1i_text_status(&out->items[i].data, err));
        B1I_TRY(b1i_text_status(&out->items[i].script, err));
    }
    return B1_OK;
fail:
    b1i_plots_free(out);
    return st;
}
