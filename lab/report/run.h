/* SPDX-License-Identifier: MIT
 *
 * A run as the report reads it: its documents, and its cells with their names taken apart.
 *
 * A cell's name is segments with '/' between: "n=256/separate_stream", "rotating/n=256/fused_pdl". "key=number" is a
 * parameter, the last other segment the variant, what is left the case. Of the parameters the one with the most values
 * in the run is the axis; the others belong to the case. "48x1000" is rows=48 and width=1000. A variant that ends in
 * "_stream", "_graph" or "_pdl" is a family in that mode; one that is such a word alone is its own family.
 *
 * A study has groups instead: the same setting over its sessions, with what its cells' own documents add. An A/B has
 * its analysis alone.
 *
 * The documents are a stranger's: what is missing or of another type is as if it were not known.
 */
#ifndef LAB_REPORT_RUN_H
#define LAB_REPORT_RUN_H

#include "lab/lab.h"

enum { B1I_REPORT_WORDS = 96, B1I_REPORT_NO_MODE = 3 };

/* By the analysis' schema; what has none is of the lab. */
typedef enum b1i_report_sort { b1i_report_lab, b1i_report_study, b1i_report_ab } b1i_report_sort;

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

/* Of a study; in the order of their contexts and batches, else as the analysis has them. */
typedef struct b1i_report_group {
    const json_t *json;
    const char *model, *architecture, *executor, *weights; /* never NULL */
    int context, threads, batch, sessions, ok;             /* ok: cells with figures */
    bool headline;
    /* NaN: not known. Medians of the sessions; kv_bytes are of the whole batch. */
    double t_obs_ms, r_floor, r_ceiling, mean_ms, min_ms, max_ms, cv_within, cv_across, tokens_per_s;
    double weight_bytes, kv_bytes, ceiling_gbps, peak_gbps;
    char file[B1I_REPORT_WORDS];   /* "cells/ID/cell.json" of its first cell with figures, else "analysis.json" */
    char folder[B1I_REPORT_WORDS]; /* "cells/ID/"; "": no cell has figures */
    json_t *cell, *profile;        /* that cell's documents; NULL: none */
    int color;                     /* of its executor: counted in the run */
} b1i_report_group;

typedef struct b1i_report_run {
    b1i_report_sort sort;
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
    b1i_report_group *groups; /* [group_count] */
    size_t group_count;
} b1i_report_run;

/* Reads a directory whose analysis is written. B1_IO: a document that must be there is not, or is no JSON. */
b1_status b1i_report_run_load(const char *directory, b1i_report_run *out, b1_error *err);
void b1i_report_run_free(b1i_report_run *run); /* a zeroed one is fine */
/* A JSON file of the directory, a new reference; NULL: there is none that can be read. */
json_t *b1i_report_run_json(const b1i_report_run *run, const char *name);
/* The same, where only memory may fail. */
b1_status b1i_report_run_read(const b1i_report_run *run, const char *name, json_t **out, b1_error *err);
/* What the device is called: a GPU's name, a CPU's model; never NULL. */
const char *b1i_report_run_device(const b1i_report_run *run);

/* The string, number, … at "key.key" of a document; NULL, NaN where there is none. */
const json_t *b1i_report_at(const json_t *document, const char *path);
const char *b1i_report_string(const json_t *document, const char *path);
const char *b1i_report_word(const json_t *document, const char *path); /* "" where there is none */
bool b1i_report_is(const json_t *document, const char *path, const char *word);
double b1i_report_number(const json_t *document, const char *path);

/* "host single", …; what is timed; and the word for a file's name */
extern const char *const b1i_report_kind_titles[b1i_lab_kinds];
extern const char *const b1i_report_kind_notes[b1i_lab_kinds];
/* Whether a measured cell of the kind is there. */
bool b1i_report_run_has(const b1i_report_run *run, b1i_lab_kind kind);

/* ---- groups.c: a study ---- */
b1_status b1i_report_groups_load(b1i_report_run *run, b1_error *err);
void b1i_report_groups_free(b1i_report_run *run);
/* "cells/ID/NAME", or "analysis.json" where the id is none that may be a folder's name. */
void b1i_report_cell_file(const char *id, const char *name, char *file, size_t bytes);
/* Whether the cell, one of the analysis', is of the group. */
bool b1i_report_cell_of(const b1i_report_group *g, const json_t *cell);
/* The same model, weights, threads and batch: what one figure shows. */
bool b1i_report_group_beside(const b1i_report_group *a, const b1i_report_group *b);
/* The group that differs from `g` in its executor alone, which is `executor`; NULL: none with figures. */
const b1i_report_group *b1i_report_group_find(const b1i_report_run *run, const b1i_report_group *g,
                                              const char *executor);
/* Of an executor "…_stream" the one that launches the same kernels from a graph; false: it is none. */
bool b1i_report_graph_of(const char *executor, char *out, size_t bytes);

/* What a step's time is made of, ms, adding up to t_obs: weights, keys and values at the measured ceiling; what its
 * kernels took beyond that, where a profiler saw them; what the graph of the same kernels saved, for one that is
 * launched kernel by kernel; and the rest. Each is bounded by what those before it left. */
typedef enum b1i_cause {
    b1i_cause_weights,
    b1i_cause_kv,
    b1i_cause_kernels,
    b1i_cause_launch,
    b1i_cause_rest,
    b1i_causes
} b1i_cause;
extern const char *const b1i_cause_names[b1i_causes];
/* false: the group has no figures. */
bool b1i_report_causes(const b1i_report_run *run, const b1i_report_group *g, double ms[b1i_causes]);

#endif
