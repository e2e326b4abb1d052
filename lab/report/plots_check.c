/* SPDX-License-Identifier: MIT
 *
 * Whether the data that a run's plots are drawn from are what its analysis and traces give: each row that was kept is
 * one that is made anew, in whichever plot, for another version may group and order them in another way. Scripts have
 * no figures of the run and are not compared.
 */
#include "lab/files.h"
#include "lab/report/plots.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a figure may differ by: other compilers round elsewhere. */
#define FIGURES_FAR 1e-9
#define LAST_PLACE  1.01e-6

typedef struct rows {
    char **items; /* [count], sorted */
    size_t count, room;
} rows;

/* Cuts `text` into its lines, and keeps those that are data. */
static b1_status take_rows(rows *r, char *text, b1_error *err)
{
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        if (!*line || *line == '#') continue;
        if (!b1i_grow(&r->items, &r->room, r->count + 1, sizeof *r->items))
            return b1i_fail_memory(err, r->count * sizeof *r->items);
        r->items[r->count++] = line;
    }
    return B1_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Whether two rows have the same words, where a number may be written in another way. */
static bool near(const char *one, const char *other)
{
    for (;;) {
        char *end, *other_end;
        double x = strtod(one, &end), y = strtod(other, &other_end);
        if (end == one || other_end == other) return strcmp(one, other) == 0;
        if (!(fabs(x - y) <= LAST_PLACE + FIGURES_FAR * fmax(fabs(x), fabs(y)))) return false;
        one = end;
        other = other_end;
    }
}

static bool is_made(const rows *made, const char *row)
{
    if (made->count && bsearch(&row, made->items, made->count, sizeof row, by_text)) return true;
    for (size_t i = 0; i < made->count; i++)
        if (near(row, made->items[i])) return true;
    return false;
}

static b1_status check_file(const char *directory, const rows *made, const char *file,
                            void (*say)(void *user, const char *line), void *user, b1_error *err)
{
    char line[400], *text;
    size_t bytes;
    rows kept = {0};
    b1_status st = b1i_lab_read(directory, file, &text, &bytes, err);
    if (st != B1_OK) return st;
    bool same = strlen(text) == bytes;
    B1I_TRY(take_rows(&kept, text, err));
    for (size_t i = 0; i < kept.count && same; i++) same = is_made(made, kept.items[i]);
    snprintf(line, sizeof line, "%s: has a row that analysis.json and the traces do not give", file);
    if (!same) say(user, line);
fail:
    b1i_free(kept.items);
    b1i_free(text);
    return st;
}

b1_status b1i_plots_check(const char *directory, void (*say)(void *user, const char *line), void *user, b1_error *err)
{
    b1_status st;
    b1i_report_run run = {0};
    b1i_plots plots = {0};
    b1i_names names = {0};
    rows made = {0};
    B1I_TRY(b1i_lab_list(directory, &names, err));
    B1I_TRY(b1i_report_run_load(directory, &run, err));
    B1I_TRY(b1i_plots_make(&run, &plots, err));
    for (size_t i = 0; i < plots.count; i++)
        if (plots.items[i].data.data) B1I_TRY(take_rows(&made, plots.items[i].data.data, err));
    if (made.count) qsort(made.items, made.count, sizeof *made.items, by_text);
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i], *end = strrchr(name, '.');
        if (strncmp(name, "plots/", 6) != 0 || !end || strcmp(end, ".dat") != 0) continue;
        B1I_TRY(check_file(directory, &made, name, say, user, err));
    }
fail:
    b1i_free(made.items);
    b1i_names_free(&names);
    b1i_plots_free(&plots);
    b1i_report_run_free(&run);
    return st;
}
