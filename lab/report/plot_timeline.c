/* SPDX-License-Identifier: MIT
 *
 * Timelines of a run's traces: a panel a trace, each aligned to its own first A, all of a case on one scale; a row a
 * unit (SM or worker) that was seen, a box a stage of a job, and none left out.
 */
#include "lab/report/gnuplot.h"
#include "lab/report/plots.h"
#include "lab/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1040, TITLE = 30, FOOT = 54, ROWS_LEAST = 64, ROWS_MOST = 300, THIN = 40, PANELS_MOST = 24 };

typedef struct panel {
    char label[B1I_REPORT_WORDS];
    b1i_trace_span *spans; /* [count] */
    size_t count;
    uint32_t *units; /* [unit_count], ascending: the rows */
    size_t unit_count;
    uint64_t first_a;
    double span_us;
    size_t place; /* of its cell in the run */
} panel;

static int by_place(const void *a, const void *b)
{
    const panel *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* Where the trace's cell stands in the run; traces without one come last. */
static size_t place_of(const b1i_report_run *run, const json_t *trace)
{
    const char *cell = b1i_report_string(trace, "cell");
    size_t i = 0;
    while (i < run->count && (!cell || strcmp(run->cells[i].name, cell) != 0)) i++;
    return i;
}

/* What a trace is of: "ragged" and "fused_graph" of the cell "ragged/fused_graph", or of the file of that name. */
static void name_of(const json_t *trace, char *group, char *label)
{
    const char *name = b1i_report_string(trace, "cell"), *file = b1i_report_string(trace, "file");
    const char *base = file ? strrchr(file, '/') : NULL;
    if (!name) name = base ? base + 1 : file ? file : "trace";
    const char *cut = strrchr(name, '/');
    if (!cut) cut = strrchr(name, '-');
    snprintf(group, B1I_REPORT_WORDS, "%.*s", cut ? (int)(cut - name) : 0, name);
    snprintf(label, B1I_REPORT_WORDS, "%s", cut ? cut + 1 : name);
    char *suffix = strstr(label, ".csv");
    if (suffix) *suffix = 0;
}

static int by_unit(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static b1_status measure_panel(panel *p, b1_error *err)
{
    uint64_t last = 0;
    p->first_a = UINT64_MAX;
    if (!(p->units = b1i_calloc(p->count + 1, sizeof *p->units)))
        return b1i_fail_memory(err, p->count * sizeof *p->units);
    for (size_t i = 0; i < p->count; i++) {
        p->units[i] = p->spans[i].unit;
        if (p->spans[i].stage == 'A' && p->spans[i].begin_ns < p->first_a) p->first_a = p->spans[i].begin_ns;
        if (p->spans[i].end_ns > last) last = p->spans[i].end_ns;
    }
    if (p->first_a == UINT64_MAX) p->first_a = last;
    qsort(p->units, p->count, sizeof *p->units, by_unit);
    for (size_t i = 0; i < p->count; i++)
        if (i == 0 || p->units[i] != p->units[p->unit_count - 1]) p->units[p->unit_count++] = p->units[i];
    p->span_us = (double)(last - p->first_a) / 1e3;
    return B1_OK;
}

static size_t row_of(const panel *p, uint32_t unit)
{
    const uint32_t *at = bsearch(&unit, p->units, p->unit_count, sizeof unit, by_unit);
    return (size_t)(at - p->units);
}

static void free_panels(panel *panels, int count)
{
    for (int i = 0; i < count; i++) {
        b1i_free(panels[i].spans);
        b1i_free(panels[i].units);
    }
    b1i_free(panels);
}

static b1_status read_panel(const b1i_report_run *run, const json_t *trace, panel *p, b1_error *err)
{
    const char *file = b1i_report_string(trace, "file");
    char group[B1I_REPORT_WORDS];
    size_t room = strlen(run->directory) + (file ? strlen(file) : 0) + 2;
    char *path = file && !strstr(file, "..") ? b1i_malloc(room) : NULL;
    if (!file || strstr(file, ".."))
        return b1i_fail(err, B1_IO, "%s/analysis.json: a trace names no file", run->directory);
    if (!path) return b1i_fail_memory(err, room);
    name_of(trace, group, p->label);
    p->place = place_of(run, trace);
    snprintf(path, room, "%s/%s", run->directory, file);
    b1_status st = b1i_trace_read(path, &p->spans, &p->count, err);
    b1i_free(path);
    return st == B1_OK ? measure_panel(p, err) : st;
}

static int height_of(const panel *p)
{
    int rows = (int)(p->unit_count < 1000 ? p->unit_count : 1000) * 2;
    return rows < ROWS_LEAST ? ROWS_LEAST : rows > ROWS_MOST ? ROWS_MOST : rows;
}

/* One stage's spans as a block: begin and end in µs from the first A, the row. */
static void put_stage(b1i_plot *f, const panel *p, char stage)
{
    b1i_text_printf(&f->data, "# %s, stage %c: begin µs, end µs, row, unit, job\n", p->label, stage);
    for (size_t i = 0; i < p->count; i++) {
        const b1i_trace_span *s = &p->spans[i];
        if (s->stage != stage) continue;
        double begin = ((double)s->begin_ns - (double)p->first_a) / 1e3;
        double end = ((double)s->end_ns - (double)p->first_a) / 1e3;
        b1i_text_printf(&f->data, "%.3f\t%.3f\t%zu\t%u\t%u\n", begin, end, row_of(p, s->unit), s->unit, s->job);
    }
    b1i_text_put(&f->data, "\n\n");
}

/* The numbers of some units, at their rows. */
static void put_units(b1i_plot *f, const panel *p, int height)
{
    size_t room = (size_t)height / 18, step = 1;
    static const size_t steps[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 0};
    for (int i = 0; steps[i]; i++) {
        step = steps[i];
        if (p->unit_count / step <= room) break;
    }
    b1i_text_put(&f->script, "set ytics (");
    for (size_t i = 0; i < p->unit_count; i += step)
        b1i_text_printf(&f->script, "%s'%u' %zu", i ? ", " : "", p->units[i], i);
    b1i_text_put(&f->script, ")\n");
}

static void put_panel(b1i_plot *f, const panel *p, int index, int top, int height, int whole, bool last)
{
    double high = (double)(whole - top - TITLE) / whole, low = (double)(whole - top - TITLE - height) / whole;
    double half = p->unit_count > THIN ? 0.5 : 0.42; /* of a row: thin ones have no room for gaps */
    put_stage(f, p, 'A');
    put_stage(f, p, 'B');
    b1i_text_printf(&f->script,
                    "set tmargin at screen %.5f\nset bmargin at screen %.5f\nset yrange [%.1f:-0.5]\nset label 1 ",
                    high, low, (double)p->unit_count - 0.5);
    b1i_plot_quote(&f->script, p->label);
    b1i_text_printf(
        &f->script,
        " at graph 0, graph 1 offset 0,0.75 left font 'sans-serif:Bold,13' textcolor rgb '%s'\nset format x '%s'\n",
        b1i_ink_color, last ? "%g" : "");
    put_units(f, p, height);
    if (last) b1i_text_put(&f->script, "set xlabel 'µs from the first A of each panel'\n");
    for (int stage = 0; stage < 2; stage++)
        b1i_text_printf(&f->script,
                        "%s'%s.dat' index %d using (($1+$2)/2):3:1:2:($3-%g):($3+%g) with boxxyerror fs solid noborder "
                        "lc rgb '%s' notitle",
                        stage ? ", \\\n     " : "plot ", f->name, 2 * index + stage, half, half,
                        b1i_series_colors[stage]);
    b1i_text_put(&f->script, "\n");
}

static b1_status draw(const panel *panels, int count, const char *group, bool gpu, b1i_plots *plots, b1_error *err)
{
    int whole = FOOT, top = 0;
    double most = 0;
    b1i_plot *f = b1i_plots_add(plots, b1i_plot_timeline, "timeline");
    if (!f) return b1i_fail_memory(err, sizeof *f);
    for (int i = 0; i < count; i++) {
        whole += TITLE + height_of(&panels[i]);
        if (panels[i].span_us > most) most = panels[i].span_us;
    }
    f->wide = true;
    b1i_text_printf(&f->title, "Timelines%s%s", group[0] ? ", " : "", group);
    b1i_text_printf(
        &f->description,
        "%d panels, one a variant, each a launch of its own with instruments, aligned to its own first A, all "
        "on one scale of microseconds. A row is an SM or a worker, a box the interval of one stage of one job: "
        "A and B differ in colour.",
        count);
    b1i_plot_head(f, WIDTH, whole);
    b1i_text_printf(
        &f->script,
        "unset key\nset multiplot\nset lmargin at screen 0.06\nset rmargin at screen 0.985\n"
        "set ylabel '%s' offset 0.6,0\nunset grid\nset grid x lt 1 lc rgb '%s' lw 0.6\nset xrange [0:%.6g]\n",
        gpu ? "SM" : "worker", b1i_grid_color, most * 1.01);
    b1i_plot_note(f, b1i_text_get(&f->title));
    for (int i = 0; i < count; i++) {
        put_panel(f, &panels[i], i, top, height_of(&panels[i]), whole, i == count - 1);
        top += TITLE + height_of(&panels[i]);
    }
    b1i_text_put(&f->script, "unset multiplot\n");
    return B1_OK;
}

/* All traces of the case that trace `first` is the first of. */
static b1_status draw_group(const b1i_report_run *run, const json_t *traces, size_t first, b1i_plots *plots,
                            b1_error *err)
{
    b1_status st = B1_OK;
    char group[B1I_REPORT_WORDS], other[B1I_REPORT_WORDS], label[B1I_REPORT_WORDS];
    panel *panels = b1i_calloc(PANELS_MOST, sizeof *panels);
    int count = 0;
    if (!panels) return b1i_fail_memory(err, PANELS_MOST * sizeof *panels);
    name_of(json_array_get(traces, first), group, label);
    for (size_t i = first; i < json_array_size(traces) && count < PANELS_MOST; i++) {
        name_of(json_array_get(traces, i), other, label);
        if (strcmp(group, other) == 0) B1I_TRY(read_panel(run, json_array_get(traces, i), &panels[count++], err));
    }
    qsort(panels, (size_t)count, sizeof *panels, by_place);
    st = draw(panels, count, group, strcmp(run->device, "cpu") != 0, plots, err);
fail:
    free_panels(panels, count);
    return st;
}

/* The first place of the case that trace i is of. */
static size_t first_place(const b1i_report_run *run, const json_t *traces, size_t i)
{
    char group[B1I_REPORT_WORDS], other[B1I_REPORT_WORDS], label[B1I_REPORT_WORDS];
    size_t first = run->count;
    name_of(json_array_get(traces, i), group, label);
    for (size_t k = 0; k < json_array_size(traces); k++) {
        size_t place = place_of(run, json_array_get(traces, k));
        name_of(json_array_get(traces, k), other, label);
        if (strcmp(group, other) == 0 && place < first) first = place;
    }
    return first;
}

/* Whether trace i is of a case that none before it has. */
static bool begins_group(const json_t *traces, size_t i)
{
    char group[B1I_REPORT_WORDS], other[B1I_REPORT_WORDS], label[B1I_REPORT_WORDS];
    name_of(json_array_get(traces, i), group, label);
    for (size_t k = 0; k < i; k++) {
        name_of(json_array_get(traces, k), other, label);
        if (strcmp(group, other) == 0) return false;
    }
    return true;
}

/* Cases in the order of the run's cells. */
b1_status b1i_plot_timelines(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1_status st = B1_OK;
    const json_t *traces = json_object_get(run->analysis, "traces");
    size_t done = 0, total = 0, count = json_array_size(traces);
    for (size_t i = 0; i < count; i++) total += begins_group(traces, i);
    for (size_t place = 0; place <= run->count && done < total; place++)
        for (size_t i = 0; i < count; i++) {
            if (!begins_group(traces, i) || first_place(run, traces, i) != place) continue;
            B1I_TRY(draw_group(run, traces, i, plots, err));
            done++;
        }
fail:
    return st;
}
