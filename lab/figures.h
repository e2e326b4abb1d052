/* SPDX-License-Identifier: MIT
 *
 * Figures that follow from the medians of several cells: what one node of a chain costs, after how many replays a graph
 * has paid for itself. An experiment says how in a cell's facts:
 *
 *   "figures": [{"name", "unit", "kind", "whole", "numerator": [[1 or -1, CELL, KIND], …], "denominator": the same, or
 * a number}]
 *
 * `whole`, where it is there and true: the value is rounded up to a whole number, and no less than 1.
 */
#ifndef LAB_FIGURES_H
#define LAB_FIGURES_H

#include <jansson.h>

/* Of `cells`, the rows of an analysis, an array [{"cell", "name", "unit", "kind", "value", "numerator_ns",
 * "denominator" (ns, or the number), "message"}] in the order of the cells, twins left out. Where a median is missing,
 * or the denominator is not above zero, the value is null and the message says why; else the message is null. NULL: no
 * memory. */
json_t *b1i_figures_make(const json_t *cells);

#endif
