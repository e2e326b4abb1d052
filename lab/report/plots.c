/* SPDX-License-Identifier: MIT
 *
 * What all plots share: their list, the script's head, ranges, marks.
 */
#include "lab/report/plots.h"

#include "lab/report/gnuplot.h"

#include <math.h>
#include <string.h>

void b1i_plots_free(b1i_plots *plots)
{
    for (size_t i = 0; i < plots->count; i++) {
        b1i_plot *f = &plots->items[i];
        b1i_text_free(&f->title);
        b1i_text_free(&f->description);
        b1i_text_free(&f->data);
        b1i_text_free(&f->script);
    }
    b1i_free(plots->items);
    *plots = (b1i_plots){0};
}

b1i_plot *b1i_plots_add(b1i_plots *plots, b1i_plot_sort sort, const char *stem)
{
    if (!b1i_grow(&plots->items, &plots->room, plots->count + 1, sizeof *plots->items)) return NULL;
    b1i_plot *f = &plots->items[plots->count++];
    *f = (b1i_plot){.sort = sort};
    snprintf(f->name, sizeof f->name, "%02zu-%s", plots->count, stem);
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
                    "set xlabel offset 0,0.5 textcolor rgb '%s'\n"
                    "set ylabel textcolor rgb '%s'\n"
                    "set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '%s'\n",
                    width, height, f->name, b1i_muted_color, b1i_muted_color, b1i_grid_color, b1i_muted_color,
                    b1i_muted_color, b1i_ink_color);
}

static void quote(b1i_text *script, const char *words, bool tic)
{
    b1i_text_put(script, "'");
    for (; *words; words++) {
        if (*words == '\'' || (tic && *words == '%')) b1i_text_bytes(script, words, 1);
        b1i_text_bytes(script, (unsigned char)*words < ' ' ? " " : words, 1);
    }
    b1i_text_put(script, "'");
}

void b1i_plot_quote(b1i_text *script, const char *words) { quote(script, words, false); }
void b1i_plot_quote_tic(b1i_text *script, const char *words) { quote(script, words, true); }

void b1i_plot_note(b1i_plot *f, const char *words)
{
    b1i_text_put(&f->data, "# ");
    for (; *words; words++) b1i_text_bytes(&f->data, (unsigned char)*words < ' ' ? " " : words, 1);
    b1i_text_put(&f->data, "\n");
}

/* Words at 1, 2 and 5 where there are few decades, else at each decade. */
static void put_log_ticks(b1i_plot *f, char axis, double least, double most)
{
    static const double steps[] = {1, 2, 5};
    bool few = log10(most / least) < 2.2, any = false;
    b1i_text_printf(&f->script, "set %ctics (", axis);
    for (int decade = -9; decade < 15; decade++)
        for (int i = 0; i < (few ? 3 : 1); i++) {
            double at = steps[i] * pow(10, decade);
            if (at < least || at > most) continue;
            b1i_text_printf(&f->script, "%s'%.10g' %.10g", any ? ", " : "", at, at);
            any = true;
        }
    b1i_text_put(&f->script, ")\n");
}

bool b1i_plot_range(b1i_plot *f, char axis, double least, double most, bool log)
{
    log |= least > 0 && most / least > 8;
    if (log)
        b1i_text_printf(&f->script, "set logscale %c\nset %crange [%.6g:%.6g]\n", axis, axis, least / 1.3, most * 1.3);
    else
        b1i_text_printf(&f->script, "set %crange [0:%.6g]\n", axis, most * 1.08);
    if (log) put_log_ticks(f, axis, least / 1.3, most * 1.3);
    return log;
}

int b1i_plot_mark(int mode, bool open)
{
    static const int marks[] = {7, 5, 9, 13};
    return (open ? -1 : 0) + marks[mode >= 0 && mode <= B1I_REPORT_NO_MODE ? mode : B1I_REPORT_NO_MODE];
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

b1_status b1i_plots_whole(const b1i_plots *plots, b1_error *err)
{
    b1_status st;
    for (size_t i = 0; i < plots->count; i++) {
        B1I_TRY(b1i_text_status(&plots->items[i].title, err));
        B1I_TRY(b1i_text_status(&plots->items[i].description, err));
        B1I_TRY(b1i_text_status(&plots->items[i].data, err));
        B1I_TRY(b1i_text_status(&plots->items[i].script, err));
    }
    return B1_OK;
fail:
    return st;
}

static b1_status of_lab(const b1i_report_run *run, b1i_plots *out, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_plot_timelines(run, out, err));
    B1I_TRY(strcmp(run->experiment, "attention") == 0 ? b1i_plot_attention_layers(run, out, err)
                                                      : b1i_plot_lines(run, out, err));
    B1I_TRY(b1i_plot_dots(run, out, err));
    st = b1i_plot_bytes(run, out, err);
fail:
    return st;
}

static b1_status of_study(const b1i_report_run *run, b1i_plots *out, b1_error *err)
{
    b1_status st = b1i_plot_study(run, out, err);
    return st == B1_OK ? b1i_plot_steps(run, out, err) : st;
}

b1_status b1i_plots_make(const b1i_report_run *run, b1i_plots *out, b1_error *err)
{
    static b1_status (*const of[])(const b1i_report_run *, b1i_plots *, b1_error *) = {
        [b1i_report_lab] = of_lab, [b1i_report_study] = of_study, [b1i_report_ab] = b1i_plot_ab};
    b1_status st;
    *out = (b1i_plots){0};
    B1I_TRY(of[run->sort](run, out, err));
    B1I_TRY(b1i_plots_whole(out, err));
    return B1_OK;
fail:
    b1i_plots_free(out);
    return st;
}
