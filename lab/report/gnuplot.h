/* SPDX-License-Identifier: MIT
 *
 * gnuplot as a program beside us: scripts in, pictures out, and how a picture becomes a part of the page.
 *
 * Only scripts that this process wrote are run: one that lies in a run's directory is a stranger's program.
 */
#ifndef LAB_REPORT_GNUPLOT_H
#define LAB_REPORT_GNUPLOT_H

#include "lab/report/text.h"

/* B1_UNSUPPORTED: gnuplot is not installed; the sentence names its package. */
b1_status b1i_gnuplot_find(b1_error *err);
/* Runs `script`, a file in `folder`, there and without anybody's settings. B1_IO: it failed, with what it said. */
b1_status b1i_gnuplot_run(const char *folder, const char *script, b1_error *err);

/* The colours that scripts may use; on the page each is a variable of its style sheet. */
enum { B1I_SERIES_COLORS = 8 };
extern const char *const b1i_series_colors[B1I_SERIES_COLORS]; /* "#0b62c4" … */
extern const char *const b1i_ink_color, *const b1i_muted_color, *const b1i_grid_color;

/* gnuplot's `svg` as an element of the page: shapes and words alone, colours by the page's style, marks from
 * b1i_svg_marks(). B1_IO: it is not what gnuplot writes. */
b1_status b1i_svg_embed(b1i_text *html, const char *svg, const char *id, const char *title, const char *description,
                        b1_error *err);
/* What the marks of all pictures refer to; once a page. */
void b1i_svg_marks(b1i_text *html);

#endif
