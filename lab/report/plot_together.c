/* SPDX-License-Identifier: MIT
 *
 * Plots of several runs together, with the published study's figures beside them: R_floor against bandwidth, intervals
 * of A/B runs, the gain by the step's length, steps of one shape.
 */
#include "lab/report/chart.h"
#include "lab/report/gnuplot.h"
#include "lab/report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SERIES_MOST = 64, DIFFERENCE_MOST = 48 };

typedef struct together {
    const b1i_report_run *runs; /* [count] */
    size_t count;
    const json_t *published; /* its rows */
    const json_t *document;
    bool beside; /* a run is of a model that the published study measured */
} together;

static double item(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double peak_of(const together *t, const char *device)
{
    const json_t *list = json_object_get(t->document, "devices"), *entry;
    size_t i;
    json_array_foreach(list, i, entry) if (b1i_report_is(entry, "name", device)) return b1i_report_number(entry,
                                                                                                          "gbps");
    return NAN;
}

/* ---- R_floor against bandwidth ---- */

/* Of an executor in a run: a bandwidth and the share by it are of one group, and stay together. */
typedef struct pair {
    double x, y;
} pair;

typedef struct spread {
    double least, most;
    pair middle, pairs[SERIES_MOST];
    int count;
} spread;

static bool plain_weights(const char *weights)
{
    static const char *const plain[] = {"bf16", "f16", "f32", NULL};
    for (int i = 0; plain[i]; i++)
        if (strcmp(weights, plain[i]) == 0) return true;
    return false;
}

/* Whether the run has groups of weights that are not quantised; if so, only these count. */
static bool has_plain(const b1i_report_run *run)
{
    for (size_t i = 0; i < run->group_count; i++)
        if (plain_weights(run->groups[i].weights) && run->groups[i].t_obs_ms > 0) return true;
    return false;
}

static bool counts(const b1i_report_run *run, const b1i_report_group *g, bool datasheet)
{
    if (g->batch != 1 || !(g->t_obs_ms > 0) || (has_plain(run) && !plain_weights(g->weights))) return false;
    return datasheet ? g->r_floor > 0 && g->peak_gbps > 0
                     : !(g->peak_gbps > 0) && g->r_ceiling > 0 && g->ceiling_gbps > 0;
}

static int by_share(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    return x->y != y->y ? (x->y > y->y) - (x->y < y->y) : (x->x > y->x) - (x->x < y->x);
}

/* Of an executor in a run; count 0: nothing. */
static spread spread_of(const b1i_report_run *run, const char *executor, bool datasheet)
{
    spread s = {.least = INFINITY};
    for (size_t i = 0; i < run->group_count && s.count < SERIES_MOST; i++) {
        const b1i_report_group *g = &run->groups[i];
        if (!counts(run, g, datasheet) || strcmp(g->executor, executor) != 0) continue;
        double r = datasheet ? g->r_floor : g->r_ceiling;
        s.pairs[s.count++] = (pair){datasheet ? g->peak_gbps : g->ceiling_gbps, r};
        s.least = fmin(s.least, r);
        s.most = fmax(s.most, r);
    }
    if (!s.count) return s;
    qsort(s.pairs, (size_t)s.count, sizeof *s.pairs, by_share);
    const pair *low = &s.pairs[(s.count - 1) / 2], *high = &s.pairs[s.count / 2];
    s.middle = (pair){(low->x + high->x) / 2, (low->y + high->y) / 2};
    return s;
}

/* The executors of all runs, each once, in `names`. */
static int executors_of(const together *t, const char **names)
{
    int count = 0;
    for (size_t r = 0; r < t->count; r++)
        for (size_t i = 0; i < t->runs[r].group_count; i++) {
            int k = 0;
            while (k < count && strcmp(names[k], t->runs[r].groups[i].executor) != 0) k++;
            if (k == count && count < SERIES_MOST) names[count++] = t->runs[r].groups[i].executor;
        }
    return count;
}

static void put_executor(b1i_chart *c, const together *t, const char *executor, int color, bool datasheet)
{
    bool any = false;
    char words[B1I_REPORT_WORDS + 16];
    snprintf(words, sizeof words, "%.90s%s", executor, datasheet ? "" : ", R_ceiling");
    for (size_t r = 0; r < t->count; r++) {
        spread s = spread_of(&t->runs[r], executor, datasheet);
        if (!s.count) continue;
        if (!any)
            b1i_chart_series(c, (b1i_look){words, color, (color + color / B1I_SERIES_COLORS) % 4, !datasheet}, false);
        any = true;
        /* Neighbours stand a little apart. */
        b1i_chart_point(c, s.middle.x * pow(1.03, color % 7 - 3), s.middle.y, s.least, s.most);
    }
}

static void put_published_floors(b1i_chart *c, const together *t)
{
    static const char *const launches[] = {"eager", "graph"};
    const json_t *row;
    size_t i;
    for (int k = 0; k < 2; k++) {
        bool any = false;
        json_array_foreach(t->published, i, row)
        {
            const json_t *value = json_object_get(row, "value");
            const bool range = b1i_report_is(row, "quantity", "R_floor range"),
                       bf16 = b1i_report_is(row, "weights", "bf16");
            double x = peak_of(t, b1i_report_word(row, "device")), y = b1i_report_number(row, "value");
            if (!(range || b1i_report_is(row, "quantity", "R_floor")) || !b1i_report_is(row, "launch", launches[k]) ||
                !bf16)
                continue;
            if (!any)
                b1i_chart_series(c,
                                 (b1i_look){k ? "published, graphed (by 13.17 GB)"
                                              : "published, eager (H100 by 13.17 GB, L4 by 15.35 GB)",
                                            B1I_CHART_MUTED, k ? 1 : 0, true},
                                 false);
            any = true;
            if (range) y = (item(value, 0) + item(value, 1)) / 2;
            b1i_chart_point(c, x, y, range ? item(value, 0) : NAN, range ? item(value, 1) : NAN);
        }
    }
}

static b1_status draw_floors(const together *t, b1i_plots *plots, b1_error *err)
{
    const char *names[SERIES_MOST];
    int count = executors_of(t, names);
    b1i_chart c;
    if (count == 0) return B1_OK;
    b1i_chart_begin(&c, plots, b1i_plot_floors, "floors", "R_floor against bandwidth");
    for (int datasheet = 1; datasheet >= 0; datasheet--)
        for (int i = 0; i < count; i++) put_executor(&c, t, names[i], i, datasheet);
    if (t->beside) put_published_floors(&c, t);
    if (c.figure)
        b1i_text_put(&c.figure->description,
                     "The share of a step that the bytes explain, over the bandwidth of the device: a point for each "
                     "executor and device.");
    if (c.figure && t->beside) b1i_text_put(&c.figure->description, " The published ones stand beside.");
    b1i_chart_include(&c, 0); /* and so not logarithmic */
    b1i_chart_include(&c, 1);
    const b1i_axes axes = {.x = "GB/s: of the datasheet; of the measured ceiling where open",
                           .y = "share of the step",
                           .log_x = true,
                           .guide = "1",
                           .wide = true};
    return b1i_chart_points_end(&c, &axes, err);
}

/* ---- A/B ---- */

static bool has_speedup(const b1i_report_run *run)
{
    return run->sort == b1i_report_ab && isfinite(b1i_report_number(run->analysis, "speedup"));
}

static void ab_bounds(const b1i_report_run *run, double *low, double *high)
{
    const json_t *interval = json_object_get(run->analysis, "interval");
    *low = item(interval, 0);
    *high = item(interval, 1);
}

static void published_speedups(b1i_chart *c, const together *t)
{
    const json_t *row;
    size_t i;
    b1i_chart_head(c, "published: eager over graphed, Qwen2.5-7B");
    json_array_foreach(t->published, i, row)
    {
        char words[120];
        const json_t *interval = json_object_get(row, "interval");
        if (!b1i_report_is(row, "quantity", "speedup")) continue;
        snprintf(words, sizeof words, "%s at %.0f, batch %.0f, %s", b1i_report_word(row, "device"),
                 b1i_report_number(row, "context"), b1i_report_number(row, "batch"),
                 b1i_report_number(row, "sessions") == 1    ? "1 session"
                 : b1i_report_number(row, "sessions") == 10 ? "10 sessions"
                                                            : "N not said");
        b1i_chart_row(c, words);
        b1i_chart_mark(c, (b1i_look){"published", B1I_CHART_MUTED, 1, true}, b1i_report_number(row, "value"),
                       item(interval, 0), item(interval, 1));
    }
}

/* What differs, in a figure's words: "executor: separate_stream → separate_graph", cut where it would be too long. */
static void short_difference(const b1i_report_run *run, char *words, size_t bytes)
{
    static const char arrow[] = " → ";
    char all[600], line[700];
    size_t same = 0, at = 0;
    b1i_ab_difference(run, all, sizeof all);
    const char *b = strstr(all, arrow), *equals = strchr(all, '=');
    snprintf(line, sizeof line, "%s", all);
    if (b) {
        b += strlen(arrow);
        for (size_t i = 0; all[i] && all[i] == b[i]; i++)
            if (all[i] == ' ' || all[i] == '=') same = i + 1;
        if (equals && same > (size_t)(equals - all))
            snprintf(line, sizeof line, "%.*s: %.*s%s%s", (int)(equals - all), all,
                     (int)(b - all - (ptrdiff_t)strlen(arrow) - (ptrdiff_t)same), all + same, arrow, b + same);
    }
    for (int count = 0; line[at] && count < DIFFERENCE_MOST && at + 8 < bytes; count++) do
            at++;
        while ((line[at] & 0xc0) == 0x80);
    snprintf(words, bytes, "%.*s%s", (int)at, line, line[at] ? "…" : "");
}

static b1_status draw_intervals(const together *t, b1i_plots *plots, b1_error *err)
{
    b1i_chart c = {0};
    bool any = false;
    for (size_t r = 0; r < t->count; r++) {
        const b1i_report_run *run = &t->runs[r];
        char words[300];
        double low, high;
        if (!has_speedup(run)) continue;
        if (!any) b1i_chart_begin(&c, plots, b1i_plot_intervals, "intervals", "Speed-ups of B over A");
        any = true;
        snprintf(words, sizeof words, "%.40s at %.0f, %.40s", b1i_report_word(run->analysis, "model"),
                 b1i_report_number(run->analysis, "context"), b1i_report_run_device(run));
        b1i_chart_head(&c, words);
        short_difference(run, words, sizeof words);
        b1i_chart_row(&c, words);
        snprintf(words, sizeof words,
                 b1i_report_number(run->analysis, "sessions") == 1 ? "%.0f session, %s" : "%.0f sessions, %s",
                 b1i_report_number(run->analysis, "sessions"), b1i_report_word(run->analysis, "verdict"));
        b1i_chart_row(&c, words);
        ab_bounds(run, &low, &high);
        const bool ok = b1i_report_is(run->analysis, "verdict", "ok"), stands = b1i_ab_stands(run);
        const char *title = stands ? "here" : ok ? "here, the interval includes 1" : "here, no headline";
        b1i_chart_mark(&c, (b1i_look){title, ok ? 0 : 1, 0, !stands}, b1i_report_number(run->analysis, "speedup"), low,
                       high);
    }
    if (!any) return B1_OK;
    if (t->beside) published_speedups(&c, t);
    b1i_chart_at(&c, 1);
    if (c.figure)
        b1i_text_put(&c.figure->description,
                     "How many times as fast B is as A, with 95 % intervals over sessions, a row for each A/B, and the "
                     "published ones.");
    return b1i_chart_rows_end(&c, "A / B", true, err);
}

/* The published speed-ups of batch 1 over several sessions, at the eager step of the same device and rig. */
static void published_ladder(b1i_chart *c, const together *t)
{
    const json_t *row, *step;
    size_t i, k;
    b1i_chart_series(c, (b1i_look){"published (H100, L4)", B1I_CHART_MUTED, 1, true}, false);
    json_array_foreach(t->published, i, row)
    {
        const json_t *interval = json_object_get(row, "interval");
        if (!b1i_report_is(row, "quantity", "speedup") || !b1i_report_is(row, "rig", "ab")) continue;
        json_array_foreach(t->published, k, step)
        {
            if (b1i_report_is(step, "quantity", "step") && b1i_report_is(step, "rig", "ab") &&
                b1i_report_is(step, "launch", "eager") && b1i_report_is(step, "device", b1i_report_word(row, "device")))
                b1i_chart_point(c, b1i_report_number(step, "value"), b1i_report_number(row, "value"), item(interval, 0),
                                item(interval, 1));
        }
    }
}

/* By the step of A: where launching is the same, a longer step has less to gain. */
static b1_status draw_ladder(const together *t, b1i_plots *plots, b1_error *err)
{
    b1i_chart c;
    int count = 0;
    for (size_t r = 0; r < t->count; r++) count += has_speedup(&t->runs[r]);
    if (count < 2) return B1_OK;
    b1i_chart_begin(&c, plots, b1i_plot_ladder, "ladder", "Speed-up by the step of A");
    for (size_t r = 0; r < t->count; r++) {
        const b1i_report_run *run = &t->runs[r];
        char words[300];
        double low, high;
        if (!has_speedup(run)) continue;
        ab_bounds(run, &low, &high);
        snprintf(words, sizeof words, "%.40s at %.0f: ", b1i_report_word(run->analysis, "model"),
                 b1i_report_number(run->analysis, "context"));
        short_difference(run, words + strlen(words), sizeof words - strlen(words));
        b1i_chart_series(&c, (b1i_look){words, (int)r, (int)r / 8 % 4, !b1i_ab_stands(run)}, false);
        b1i_chart_point(&c, b1i_report_number(run->analysis, "a_ms.mean"), b1i_report_number(run->analysis, "speedup"),
                        low, high);
    }
    if (t->beside) published_ladder(&c, t);
    if (c.figure)
        b1i_text_put(&c.figure->description, "The speed-ups of the A/B runs over the milliseconds of a step of A.");
    b1i_chart_include(&c, 1);
    const b1i_axes axes = {
        .x = "ms a step of A", .y = "A / B", .log_x = true, .guide = "1", .tight = true, .wide = true};
    return b1i_chart_points_end(&c, &axes, err);
}

/* ---- steps of one shape ---- */

static bool published_step(const json_t *row)
{
    return b1i_report_is(row, "quantity", "step") && b1i_report_number(row, "batch") == 1 &&
           b1i_report_is(row, "model", "qwen2.5-7b");
}

static bool like_published(const b1i_report_group *g)
{
    return g->t_obs_ms > 0 && strcmp(g->model, "qwen2.5-7b") == 0 && g->context == 2048 && g->batch == 1;
}

static b1_status draw_beside(const together *t, b1i_plots *plots, b1_error *err)
{
    b1i_chart c = {0};
    const json_t *row;
    size_t i;
    bool any = false;
    for (size_t r = 0; r < t->count; r++)
        for (i = 0; i < t->runs[r].group_count; i++) any |= like_published(&t->runs[r].groups[i]);
    if (!any) return B1_OK;
    b1i_chart_begin(&c, plots, b1i_plot_beside, "beside", "Steps of Qwen2.5-7B at context 2048");
    for (size_t r = 0; r < t->count; r++) {
        const b1i_report_run *run = &t->runs[r];
        bool head = false;
        for (i = 0; i < run->group_count; i++) {
            const b1i_report_group *g = &run->groups[i];
            char words[2 * B1I_REPORT_WORDS];
            if (!like_published(g)) continue;
            if (!head) b1i_chart_head(&c, b1i_report_run_device(run));
            head = true;
            snprintf(words, sizeof words, "%s, %s", g->executor, g->weights);
            b1i_chart_row(&c, words);
            b1i_chart_mark(&c, (b1i_look){"here", 0, 0, false}, g->t_obs_ms, g->min_ms, g->max_ms);
        }
    }
    b1i_chart_head(&c, "published");
    json_array_foreach(t->published, i, row)
    {
        char words[160];
        if (!published_step(row)) continue;
        snprintf(words, sizeof words, "%s, %s, %s (section %s)", b1i_report_word(row, "device"),
                 b1i_report_word(row, "launch"), b1i_report_word(row, "weights"), b1i_report_word(row, "where"));
        b1i_chart_row(&c, words);
        b1i_chart_mark(&c, (b1i_look){"published", B1I_CHART_MUTED, 1, true}, b1i_report_number(row, "value"), NAN,
                       NAN);
    }
    if (c.figure)
        b1i_text_put(&c.figure->description,
                     "Milliseconds of a step of the same shape here and as published, a row for each device, stack and "
                     "format.");
    return b1i_chart_rows_end(&c, "ms a step", false, err);
}

b1_status b1i_plots_together(const b1i_report_run *runs, size_t count, b1i_plots *out, b1_error *err)
{
    json_t *document;
    *out = (b1i_plots){0};
    b1_status st = b1i_published_decode(&document, err);
    if (st != B1_OK) return st;
    const together t = {runs, count, json_object_get(document, "rows"), document,
                        b1i_decode_any(document, runs, count)};
    B1I_TRY(draw_floors(&t, out, err));
    B1I_TRY(draw_intervals(&t, out, err));
    B1I_TRY(draw_ladder(&t, out, err));
    B1I_TRY(draw_beside(&t, out, err));
    st = b1i_plots_whole(out, err);
fail:
    json_decref(document);
    if (st != B1_OK) b1i_plots_free(out);
    return st;
}
