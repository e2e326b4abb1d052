/* SPDX-License-Identifier: MIT
 *
 * The page while it is written, and what its parts share: links from numbers to the files that they are from, and the
 * claims that its end lists with their evidence.
 */
#ifndef LAB_REPORT_PAGE_H
#define LAB_REPORT_PAGE_H

#include "lab/report/plots.h"
#include "lab/report/run.h"
#include "lab/report/text.h"

typedef struct b1i_page {
    b1i_text html;
    b1i_text claims;    /* rows of the last table */
    const char *files;  /* the folder beside the page, as written in its links */
    const char *folder; /* and where it is */
    int figure;         /* number of the last figure, for ids */
} b1i_page;

/* ---- page.c ---- */
/* The beginning of a link to `file` of the run; the caller ends it with "</a>". `row`: it is its row's first, and the
 * keyboard stops there; others of a row lead to the same place. */
void b1i_page_anchor(b1i_page *page, const b1i_report_run *run, const char *file, bool row);
/* A whole link, its words escaped. */
void b1i_page_link(b1i_page *page, const b1i_report_run *run, const char *file, const char *words);
/* <td> of a number with `decimals`, linked to its file; "–" where it is not finite. */
void b1i_page_number(b1i_page *page, const b1i_report_run *run, const char *file, double value, int decimals);
/* Decimals for a column of µs whose least is `least`. */
int b1i_page_decimals(double least);
/* <div><table> with its caption; `caption` and `note` are escaped. */
void b1i_page_table(b1i_page *page, const char *caption, const char *note);
void b1i_page_table_end(b1i_page *page);
/* <th scope="col"> */
void b1i_page_column(b1i_page *page, const char *words, bool number);
/* A claim and its evidence: names of files of the run, separated by spaces. */
void b1i_page_claim(b1i_page *page, const b1i_report_run *run, const char *files, const char *format, ...)
    B1I_PRINTF(4, 5);
/* A document as a table of paths and values, in a part that opens; `words` is its heading. NULL: nothing. */
void b1i_page_document(b1i_page *page, const b1i_report_run *run, const char *file, const json_t *document,
                       const char *words);
/* A value of a document as text: numbers as short as they are exact enough to read. */
void b1i_page_value(b1i_text *text, const json_t *value);

/* A file of the folder: written; its link. */
b1_status b1i_page_file(const char *folder, const char *name, const char *suffix, const b1i_text *text, b1_error *err);
void b1i_page_beside(b1i_page *page, const b1i_report_run *run, const char *name, const char *suffix,
                     const char *words);

/* ---- record.c: what the run is ---- */
void b1i_page_heading(b1i_page *page, const b1i_report_run *run);
void b1i_page_record(b1i_page *page, const b1i_report_run *run);
const char *b1i_page_date(const b1i_report_run *run); /* never NULL */

/* ---- tables.c: what it measured ---- */
void b1i_page_believe(b1i_page *page, const b1i_report_run *run); /* A/A */
void b1i_page_cells(b1i_page *page, const b1i_report_run *run, b1i_lab_kind kind);
/* The same as KIND.csv in `folder`, with a link to it; nothing where no cell of the kind was measured. */
b1_status b1i_page_csv(b1i_page *page, const b1i_report_run *run, b1i_lab_kind kind, const char *folder, b1_error *err);
void b1i_page_unmeasured(b1i_page *page, const b1i_report_run *run);
void b1i_page_traces(b1i_page *page, const b1i_report_run *run);
/* How far from 1 a ratio may lie that a variant showed against itself; NaN: no A/A cell of the kind. */
double b1i_page_doubt(const b1i_report_run *run, b1i_lab_kind kind);

/* ---- extras.c: what single experiments and profilers leave ---- */
void b1i_page_extras(b1i_page *page, const b1i_report_run *run);

/* ---- published.c: an original's rows beside ours ---- */
b1_status b1i_page_published(b1i_page *page, const b1i_report_run *run, b1_error *err);

/* ---- scope.c: the end ---- */
void b1i_page_scope(b1i_page *page, const b1i_report_run *runs, size_t count);
void b1i_page_claims_of(b1i_page *page, const b1i_report_run *run);

#endif
