/* SPDX-License-Identifier: MIT
 *
 * Two kinds of figure that several plots are made as: rows, each with a name, on which marks and boxes lie along one
 * axis; and series of points over x and y.
 *
 * Each series or mark is a block of its own in the data. A chart that met the end of memory takes nothing more, and its
 * end says so.
 */
#ifndef LAB_REPORT_CHART_H
#define LAB_REPORT_CHART_H

#include "lab/report/plots.h"

typedef struct b1i_chart {
    b1i_plot *figure; /* NULL: no memory */
    b1i_text plot;    /* what the script draws, block by block */
    b1i_text ticks, labels;
    int blocks, rows, titles; /* titles: entries of the key */
    size_t longest;           /* of them, bytes */
    double least, most, x_least, x_most;
} b1i_chart;

/* How a mark looks: its entry in the key (NULL or one that is there already: none), its colour (of the series, or
 * B1I_CHART_INK, B1I_CHART_MUTED), its shape (b1i_plot_mark) and whether it is open. */
enum { B1I_CHART_INK = -1, B1I_CHART_MUTED = -2 };
typedef struct b1i_look {
    const char *title;
    int color, shape;
    bool open;
} b1i_look;

void b1i_chart_begin(b1i_chart *c, b1i_plots *plots, b1i_plot_sort sort, const char *stem, const char *title);

/* ---- rows ---- */
void b1i_chart_head(b1i_chart *c, const char *words); /* a line of its own, in bold */
void b1i_chart_row(b1i_chart *c, const char *words);
/* On the last row; bounds that are not finite are left out. */
void b1i_chart_mark(b1i_chart *c, b1i_look look, double value, double low, double high);
void b1i_chart_box(b1i_chart *c, b1i_look look, double from, double to);
/* A dotted line at `value`, across all rows; before the end. */
void b1i_chart_at(b1i_chart *c, double value);
/* The range has `value` in it: of rows, of y. */
void b1i_chart_include(b1i_chart *c, double value);
/* From zero, or `tight` around what was drawn; logarithmic where it spans much. */
b1_status b1i_chart_rows_end(b1i_chart *c, const char *axis, bool tight, b1_error *err);

/* ---- points ---- */
/* As many series as can be told from each other. */
enum { B1I_CHART_SERIES = 8 };
/* A series, whose points follow; `line` joins them, with the dash of `look.shape`. */
void b1i_chart_series(b1i_chart *c, b1i_look look, bool line);
void b1i_chart_point(b1i_chart *c, double x, double y, double low, double high);
typedef struct b1i_axes {
    const char *x, *y;
    bool log_x, log_y, ticks_at_points; /* of x */
    const char *guide;                  /* a gnuplot function of x that is drawn dotted; NULL: none */
    bool tight;                         /* y need not begin at zero */
    bool wide;                          /* the figure takes the page's width */
} b1i_axes;
b1_status b1i_chart_points_end(b1i_chart *c, const b1i_axes *axes, b1_error *err);

#endif
