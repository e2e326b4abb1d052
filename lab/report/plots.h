/* SPDX-License-Identifier: MIT
 *
 * The plots of a run: for each the data and the gnuplot script that draws it. Made from the run's analysis and traces
 * alone, so that whoever has them can make the same again.
 *
 * Twins (a/a) are in no plot. Three latencies never share one.
 */
#ifndef LAB_REPORT_PLOTS_H
#define LAB_REPORT_PLOTS_H

#include "lab/report/run.h"
#include "lab/report/text.h"

typedef enum b1i_plot_sort {
    b1i_plot_latency, /* of an experiment */
    b1i_plot_bandwidth,
    b1i_plot_traffic,
    b1i_plot_timeline,
    b1i_plot_attention,
    b1i_plot_causes, /* of a study */
    b1i_plot_ratio,
    b1i_plot_graphs,
    b1i_plot_formats,
    b1i_plot_batch,
    b1i_plot_profile,
    b1i_plot_jitter,
    b1i_plot_pairs,  /* of an A/B */
    b1i_plot_floors, /* of all runs together */
    b1i_plot_intervals,
    b1i_plot_ladder,
    b1i_plot_beside
} b1i_plot_sort;

typedef struct b1i_plot {
    b1i_plot_sort sort;
    b1i_lab_kind kind; /* of a latency */
    char name[64];     /* of its files: NAME.dat, NAME.gp, NAME.svg */
    b1i_text title, description;
    b1i_text data, script;
    bool wide; /* takes the page's width */
} b1i_plot;

typedef struct b1i_plots {
    b1i_plot *items; /* [count] */
    size_t count, room;
} b1i_plots;

b1_status b1i_plots_make(const b1i_report_run *run, b1i_plots *out, b1_error *err);
void b1i_plots_free(b1i_plots *plots);
/* Whether each row of the plots/ *.dat of a run's directory is one that is made anew; `say` gets a line for each file
 * that has another. */
b1_status b1i_plots_check(const char *directory, void (*say)(void *user, const char *line), void *user, b1_error *err);

/* What several runs show together, with the published beside them. */
b1_status b1i_plots_together(const b1i_report_run *runs, size_t count, b1i_plots *out, b1_error *err);

/* ---- for the files that draw ---- */
/* B1_MEMORY where a text of them is broken. */
b1_status b1i_plots_whole(const b1i_plots *plots, b1_error *err);
/* A new figure named "NN-stem"; NULL: no memory. */
b1i_plot *b1i_plots_add(b1i_plots *plots, b1i_plot_sort sort, const char *stem);
/* The script's head: terminal, output, axes in the page's colours. */
void b1i_plot_head(b1i_plot *figure, int width, int height);
/* `words` as a string of gnuplot. */
void b1i_plot_quote(b1i_text *script, const char *words);
/* As the words of a tic, which gnuplot would read as a format. */
void b1i_plot_quote_tic(b1i_text *script, const char *words);
/* A line of comment in the data. */
void b1i_plot_note(b1i_plot *figure, const char *words);
/* Sets the range of an axis ('x', 'y') around [least, most], which are positive: logarithmic where they span more than
 * a factor of eight (or `log`), else from zero. Returns whether it is logarithmic. */
bool b1i_plot_range(b1i_plot *figure, char axis, double least, double most, bool log);
/* Point type, filled or open, and dash of a mode. */
int b1i_plot_mark(int mode, bool open);
int b1i_plot_dash(int mode);
/* "32 Ki" of 32768, "256", … */
void b1i_plot_number(double value, char *text, size_t bytes);

b1_status b1i_plot_lines(const b1i_report_run *run, b1i_plots *plots, b1_error *err);
b1_status b1i_plot_dots(const b1i_report_run *run, b1i_plots *plots, b1_error *err);
b1_status b1i_plot_bytes(const b1i_report_run *run, b1i_plots *plots, b1_error *err);
b1_status b1i_plot_timelines(const b1i_report_run *run, b1i_plots *plots, b1_error *err);
b1_status b1i_plot_attention_layers(const b1i_report_run *run, b1i_plots *plots, b1_error *err);
b1_status b1i_plot_study(const b1i_report_run *run, b1i_plots *plots, b1_error *err);
b1_status b1i_plot_steps(const b1i_report_run *run, b1i_plots *plots, b1_error *err); /* profile, jitter */
b1_status b1i_plot_ab(const b1i_report_run *run, b1i_plots *plots, b1_error *err);

#endif
