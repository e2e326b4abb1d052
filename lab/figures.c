/* SPDX-License-Identifier: MIT
 *
 * Figures from the medians of several cells. See figures.h.
 */
#include "lab/figures.h"

#include "lab/files.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 320 };

/* The median of a cell's latency; NaN where there is none. */
static double median_of(const json_t *cells, const char *cell, const char *kind)
{
    size_t i;
    json_t *row;
    json_array_foreach(cells, i, row)
    {
        if (strcmp(b1i_lab_text_at(row, "cell"), cell) != 0 || strcmp(b1i_lab_text_at(row, "kind"), kind) != 0)
            continue;
        const json_t *median = json_object_get(row, "median_ns");
        return json_is_number(median) ? json_number_value(median) : NAN;
    }
    return NAN;
}

/* A number, or the sum of terms; NaN with a message where one of them has no figure. */
static double sum_of(const json_t *cells, const json_t *side, char *message)
{
    double sum = 0;
    size_t i;
    json_t *term;
    if (json_is_number(side)) return json_number_value(side);
    if (!json_array_size(side)) {
        snprintf(message, MESSAGE_BYTES, "it is not said of what");
        return NAN;
    }
    json_array_foreach(side, i, term)
    {
        const char *cell = json_string_value(json_array_get(term, 1)),
                   *kind = json_string_value(json_array_get(term, 2));
        double sign = json_number_value(json_array_get(term, 0)), median = NAN;
        if (cell && kind) median = median_of(cells, cell, kind);
        if (isnan(median)) {
            snprintf(message, MESSAGE_BYTES, "%.160s has no %.40s", cell ? cell : "a term", kind ? kind : "figure");
            return NAN;
        }
        sum += sign < 0 ? -median : median;
    }
    return sum;
}

static json_t *figure_of(const json_t *cells, const char *cell, const json_t *said)
{
    char message[MESSAGE_BYTES] = "";
    const double over = sum_of(cells, json_object_get(said, "numerator"), message);
    const double under = *message ? NAN : sum_of(cells, json_object_get(said, "denominator"), message);
    if (!*message && !(under > 0)) snprintf(message, sizeof message, "never: there is no gain");
    double value = *message ? NAN : over / under;
    if (json_is_true(json_object_get(said, "whole"))) value = value > 1 ? ceil(value) : isnan(value) ? NAN : 1;
    return json_pack("{s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:o}", "cell", cell, "name", b1i_lab_text_at(said, "name"), "unit",
                     b1i_lab_text_at(said, "unit"), "kind", b1i_lab_text_at(said, "kind"), "value",
                     b1i_lab_number(value), "numerator_ns", b1i_lab_number(over), "denominator", b1i_lab_number(under),
                     "message", *message ? json_string(message) : json_null());
}

json_t *b1i_figures_make(const json_t *cells)
{
    json_t *out = json_array(), *row, *said;
    const char *before = "";
    size_t i, k;
    if (!out) return NULL;
    json_array_foreach(cells, i, row)
    {
        const char *cell = b1i_lab_text_at(row, "cell");
        const bool seen = strcmp(cell, before) == 0; /* a cell's rows follow one another */
        before = cell;
        if (seen || strncmp(cell, "a/a ", 4) == 0) continue;
        json_array_foreach(json_object_get(json_object_get(row, "facts"), "figures"), k, said)
        {
            if (json_array_append_new(out, figure_of(cells, cell, said)) == 0) continue;
            json_decref(out);
            return NULL;
        }
    }
    return out;
}
