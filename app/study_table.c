/* SPDX-License-Identifier: MIT
 *
 * The table of a study. See study_table.h.
 */
#include "app/study_table.h"

#include "app/output.h"
#include "lab/bench.h"
#include "lab/files.h"
#include "lab/study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double number(const json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }

static const char *figure(const json_t *row, const char *key, const char *format, char *to, size_t bytes)
{
    const json_t *value = json_object_get(row, key);
    if (json_is_number(value))
        snprintf(to, bytes, format, json_number_value(value)); // NOLINT(clang-diagnostic-format-nonliteral)
    else
        snprintf(to, bytes, "-");
    return to;
}

static bool has_figures(const json_t *cell) { return strcmp(b1i_lab_text_at(cell, "status"), "ok") == 0; }

/* ---- a row ---- */

/* "noisy"; of several sessions "drifting 1 of 6, noisy 2 of 6"; and whether it is faster than memory allows. */
static void print_verdict(const json_t *g, const json_t *cells)
{
    const double sessions = number(g, "ok");
    const char *before = "  ";
    for (int i = b1i_verdict_throttled; i > b1i_verdict_ok; i--) {
        const char *name = b1i_verdict_names[i];
        int count = 0;
        for (size_t k = 0; k < json_array_size(cells); k++) {
            const json_t *cell = json_array_get(cells, k);
            count +=
                has_figures(cell) && b1i_study_same(cell, g) && strcmp(b1i_lab_text_at(cell, "verdict"), name) == 0;
        }
        if (!count) continue;
        printf("%s%s", before, name);
        if (sessions > 1) printf(" %d of %.0f", count, sessions);
        before = ", ";
    }
    if (b1i_faster_than_memory(number(g, "r_floor"), number(g, "r_ceiling"))) {
        printf("%sfaster than memory allows", before);
        before = ", ";
    }
    puts(*before == ' ' ? "  ok" : "");
}

/* Of all sessions the steps without pauses that took longer than was asked; a line where there are some. */
static void print_late(const json_t *g, const json_t *cells, const char *directory)
{
    double steps = 0, missed = 0, in_a_row = 0, most = 0, deadline = 0;
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *row = json_array_get(cells, i);
        char name[160];
        json_t *cell;
        if (!has_figures(row) || !b1i_study_same(row, g)) continue;
        (void)snprintf(name, sizeof name, "cells/%.100s/cell.json", b1i_lab_text_at(row, "id"));
        if (b1i_lab_read_json(directory, name, &cell, NULL) != B1_OK) continue;
        const json_t *jitter = json_object_get(cell, "jitter");
        if (json_is_number(json_object_get(jitter, "missed"))) {
            steps += number(jitter, "steps");
            missed += number(jitter, "missed");
            in_a_row = fmax(in_a_row, number(jitter, "missed_in_a_row"));
            most = fmax(most, number(jitter, "max_ms"));
            deadline = number(jitter, "deadline_ms");
        }
        json_decref(cell);
    }
    if (missed > 0)
        printf("    of %.0f steps in a row %.0f past the deadline of %g ms, at most %.0f in a row; max %.3f ms\n",
               steps, missed, deadline, in_a_row, most);
}

static void print_groups(const json_t *groups, const json_t *cells, const char *directory)
{
    char time[24], cv[24], floor[24], ceiling[24], tokens[24];
    const int model = b1i_column_width(groups, "model", 12), executor = b1i_column_width(groups, "executor", 15);
    printf("%-*s %-8s %-*s %7s %5s %8s %9s %7s %8s %9s %9s  %s\n", model, "model", "weights", executor, "executor",
           "context", "batch", "sessions", "ms/step", "cv", "R_floor", "R_ceiling", "tokens/s", "verdict");
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *g = json_array_get(groups, i);
        if (number(g, "ok") == 0) continue;
        printf("%-*s %-8s %-*s %7.0f %5.0f %8.0f %9s %7s %8s %9s %9s", model, b1i_lab_text_at(g, "model"),
               b1i_lab_text_at(g, "weights"), executor, b1i_lab_text_at(g, "executor"), number(g, "context"),
               number(g, "batch"), number(g, "ok"), figure(g, "t_obs_ms", "%.3f", time, sizeof time),
               figure(g, "cv_within", "%.4f", cv, sizeof cv), figure(g, "r_floor", "%.3f", floor, sizeof floor),
               figure(g, "r_ceiling", "%.3f", ceiling, sizeof ceiling),
               figure(g, "tokens_per_s", "%.1f", tokens, sizeof tokens));
        print_verdict(g, cells);
        print_late(g, cells, directory);
    }
}

/* ---- cells without figures ---- */

/* Whether both have none for the same reason. */
static bool same_reason(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"model", "weights", "executor", "status", "message"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i]))) return false;
    return true;
}

/* The first cell before `end` from `at` on that is without figures for the reason of `like`, and, with a key, has the
 * same value of it; `end`: none. */
static size_t find_like(const json_t *cells, size_t at, size_t end, const json_t *like, const char *key)
{
    for (; at < end; at++) {
        const json_t *cell = json_array_get(cells, at);
        if (same_reason(cell, like) && (!key || json_equal(json_object_get(cell, key), json_object_get(like, key))))
            break;
    }
    return at;
}

/* ", context 128, 512": the values that the cells of one reason have. */
static void print_values(const json_t *cells, size_t first, const char *key)
{
    const json_t *like = json_array_get(cells, first);
    const char *before = "";
    printf(", %s ", key);
    for (size_t i = first; (i = find_like(cells, i, json_array_size(cells), like, NULL)) < json_array_size(cells);
         i++) {
        const json_t *cell = json_array_get(cells, i);
        if (find_like(cells, first, i, cell, key) < i) continue;
        printf("%s%.0f", before, number(cell, key));
        before = " and ";
    }
}

static void print_failed(const json_t *cells)
{
    const size_t all = json_array_size(cells);
    for (size_t i = 0; i < all; i++) {
        const json_t *c = json_array_get(cells, i);
        size_t count = 0;
        if (has_figures(c) || find_like(cells, 0, i, c, NULL) < i) continue;
        for (size_t k = i; (k = find_like(cells, k, all, c, NULL)) < all; k++) count++;
        printf("%s %s %s", b1i_lab_text_at(c, "model"), b1i_lab_text_at(c, "weights"), b1i_lab_text_at(c, "executor"));
        print_values(cells, i, "context");
        print_values(cells, i, "batch");
        print_values(cells, i, "session");
        if (count > 1) printf(" (%zu cells)", count);
        printf(": %s: %s\n", b1i_lab_text_at(c, "status"), b1i_lab_text_at(c, "message"));
    }
}

int b1i_study_table(const json_t *analysis, const char *directory)
{
    const json_t *cells = json_object_get(analysis, "cells");
    int measured = 0;
    for (size_t i = 0; i < json_array_size(cells); i++) measured += has_figures(json_array_get(cells, i));
    if (measured) print_groups(json_object_get(analysis, "groups"), cells, directory);
    print_failed(cells);
    return measured;
}
