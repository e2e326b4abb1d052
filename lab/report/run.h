/* SPDX-License-Identifier: MIT
 *
 * A run as the report reads it: its documents, and its cells with their names taken apart.
 *
 * A cell's name is segments with '/' between: "n=256/separate_stream", "rotating/n=256/fused_pdl". "key=number" is a
 * parameter, the last other segment the variant, what is left the case. Of the parameters the one with the most values
 * in the run is the axis; the others belong to the case. "48x1000" is rows=48 and width=1000. A variant that ends in
 * "_stream", "_graph" or "_pdl" is a family in that mode; one that is such a word alone is its own family.
 *
 * The documents are a stranger's: what is missing or of another type is as if it were not known.
 */
#ifndef LAB_REPORT_RUN_H
#define LAB_REPORT_RUN_H

#include "lab/lab.h"

enum { B1I_REPORT_WORDS = 96, B1I_REPORT_NO_MODE = 3 };

typedef struct b1i_report_cell {
    const json_t *json;
    const char *name, *verdict, *message; /* never NULL */
    b1i_lab_kind kind;
    int n, depth, throttled;
    bool host_bound, twin;
    /* ns, GB/s, MHz; NaN: not known. interval: of p90. */
    double median, p10, p90, low, high, gbps, bytes, sm_mhz;
    char panel[B1I_REPORT_WORDS], variant[B1I_REPORT_WORDS], family[B1I_REPORT_WORDS];
    int mode;  /* b1i_lab_mode, or B1I_REPORT_NO_MODE */
    int color; /* of its family: counted in the run */
    double x;  /* the axis' value; NaN: it has none */
} b1i_report_cell;

typedef struct b1i_report_run {
    char *directory; /* as it was given, without slashes at its end */
    char *name;      /* the directory's own name */
    char *href;      /* its path from the page's folder; "" where there is no page */
    int number;      /* of the report, from 1 */
    json_t *analysis;
    json_t *environment, *plan, *before, *after, *commands, *manifest; /* NULL: none */
    const char *experiment, *device;                                   /* never NULL */
    char axis[B1I_REPORT_WORDS];                                       /* the parameter; "": there is none */
    b1i_report_cell *cells;                                            /* [count], in the analysis' order */
    size_t count;
} b1i_report_run;

/* Reads a directory whose analysis is written. B1_IO: a document that must be there is not, or is no JSON. */
b1_status b1i_report_run_load(const char *directory, b1i_report_run *out, b1_error *err);
void b1i_report_run_free(b1i_report_run *run); /* a zeroed one is fine */
/* A JSON file of the directory, a new reference; NULL: there is none that can be read. */
json_t *b1i_report_run_json(const b1i_report_run *run, const char *name);
/* What the device is called: a GPU's name, a CPU's model; never NULL. */
const char *b1i_report_run_device(const b1i_report_run *run);

/* The string, number, … at "key.key" of a document; NULL, NaN where there is none. */
const json_t *b1i_report_at(const json_t *document, const char *path);
const char *b1i_report_string(const json_t *document, const char *path);
double b1i_report_number(const json_t *document, const char *path);

/* "host single", …; what is timed; and the word for a file's name */
extern const char *const b1i_report_kind_titles[b1i_lab_kinds];
extern const char *const b1i_report_kind_notes[b1i_lab_kinds];
/* Whether a measured cell of the kind is there. */
bool b1i_report_run_has(const b1i_report_run *run, b1i_lab_kind kind);

#endif
