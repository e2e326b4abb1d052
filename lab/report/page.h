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
/* <thead> of these columns (NULL ends them), and the beginning of the body; the end of both. */
void b1i_page_columns(b1i_page *page, const char *const *words, const bool *numbers);
void b1i_page_body_end(b1i_page *page);
/* The beginning of a row: <tr> and its head, linked to the file; the caller ends it with "</tr>". */
void b1i_page_row(b1i_page *page, const b1i_report_run *run, const char *file, const char *words);
/* <td> of words, escaped, that may take several lines. */
void b1i_page_words(b1i_page *page, const char *words);
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

/* ---- write.c, body.c ---- */
/* Makes a folder beside the page, or takes one that is no run's. */
b1_status b1i_page_folder(const char *path, b1_error *err);
b1_status b1i_page_body(b1i_page *page, const b1i_report_run *runs, size_t count, b1_error *err);

/* ---- draw.c: pictures ---- */
/* Draws the plots of one kind into `folder`, each as a figure of the page; nothing where there is none. `run` has the
 * number 0 where they are of all runs together. */
b1_status b1i_page_draw(b1i_page *page, const b1i_report_run *run, const b1i_plots *plots, bool timelines,
                        const char *folder, b1_error *err);

/* ---- record.c: what the run is ---- */
/* What tells it from the page's others: the experiment, and the directory where that is called otherwise. */
void b1i_page_title(const b1i_report_run *run, char *words, size_t bytes);
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

/* ---- decode.c: the published study ---- */
/* Its document (data/published/decode.json); a new reference. */
b1_status b1i_published_decode(json_t **out, b1_error *err);
/* Whether an executor launches as a row says ("eager", "graph"; "": either). */
bool b1i_decode_launch(const char *executor, const char *launch);
/* Whether a run is of a model that it measured. */
bool b1i_decode_any(const json_t *document, const b1i_report_run *runs, size_t count);
/* The attention of a layer, of a run of that experiment. */
void b1i_page_decode_attention(b1i_page *page, const b1i_report_run *run, const json_t *document);
/* The rows of it that correspond to groups and A/B runs, beside ours; then all of them. */
b1_status b1i_page_decode(b1i_page *page, const b1i_report_run *runs, size_t count, b1_error *err);

/* ---- step_time.c, study.c, steps.c: a study ---- */
void b1i_page_groups(b1i_page *page, const b1i_report_run *run);
/* Whether what the group says may be claimed: it is a headline, none of its cells is noisy, and it is not faster than
 * memory allows. */
bool b1i_page_group_stands(const b1i_report_run *run, const b1i_report_group *g);
/* Of tables by group: decimals for milliseconds, whether group `i` is the first of those beside it, and their head. */
int b1i_page_group_decimals(const b1i_report_run *run);
bool b1i_page_group_begins(const b1i_report_run *run, size_t i);
void b1i_page_group_head(b1i_page *page, const b1i_report_group *g, int columns);
void b1i_page_study(b1i_page *page, const b1i_report_run *run);
/* A list of the analysis as a CSV beside the page, and a link to it; nothing where it has no rows. */
b1_status b1i_page_list_csv(b1i_page *page, const b1i_report_run *run, const char *list, const char *folder,
                            b1_error *err);
void b1i_page_steps(b1i_page *page, const b1i_report_run *run); /* profile, jitter, energy */
void b1i_page_study_claims(b1i_page *page, const b1i_report_run *run);

/* ---- ab.c: an A/B ---- */
void b1i_page_ab(b1i_page *page, const b1i_report_run *run);
/* What A has and B has not, "→", and the other way round, of their settings: "executor=fused_stream → …". */
void b1i_ab_difference(const b1i_report_run *run, char *words, size_t bytes);
/* Whether its speed-up carries a claim: the verdict is ok and the interval leaves 1 out. */
bool b1i_ab_stands(const b1i_report_run *run);
void b1i_page_ab_claims(b1i_page *page, const b1i_report_run *run);

/* ---- scope.c: the end ---- */
void b1i_page_scope(b1i_page *page, const b1i_report_run *runs, size_t count);
void b1i_page_claims_of(b1i_page *page, const b1i_report_run *run);

#endif
