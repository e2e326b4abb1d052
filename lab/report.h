/* SPDX-License-Identifier: MIT
 *
 * The report of one or several runs as one HTML file that needs nothing else: tables, plots, and where each number is
 * from.
 */
#ifndef LAB_REPORT_H
#define LAB_REPORT_H

#include "base/base.h"

/* Writes the run's plots as data and gnuplot scripts into plots/: after its analysis, before it is sealed. */
struct b1i_evidence;
b1_status b1i_report_plots(struct b1i_evidence *evidence, b1_error *err);

/* `directories` [count] of sealed runs into the file `out`; what gnuplot makes lies in OUT_files/ (without the suffix
 * .html), never in a run's directory. B1_UNSUPPORTED: gnuplot is not installed. */
b1_status b1i_report_write(const char *const *directories, size_t count, const char *out, b1_error *err);

#endif
