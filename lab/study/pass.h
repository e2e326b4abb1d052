/* SPDX-License-Identifier: MIT
 *
 * A pass over what a directory has planned, cells of a study or sessions of an A/B: each that is not there yet in a
 * fresh process of this command. What is there decides what is left to do. Whoever starts the processes holds the
 * directory's lock, and they with it, so that none is joined by another that outlived its pass; those that are started
 * elsewhere take none, so that they may run anywhere.
 */
#ifndef LAB_STUDY_PASS_H
#define LAB_STUDY_PASS_H

#include "lab/study.h"
#include "lab/study/process.h"

enum { B1I_PASS_WORDS = 3 };

typedef struct b1i_pass {
    const b1i_study_options *options;
    const char *experiment;           /* of environment.json */
    const char *verb[B1I_PASS_WORDS]; /* "study", "run", "--cell": the id and --out follow */
    const char *name;                 /* of the records: "cell" */
    const char *run, *binary;         /* of the plan */
    json_t *plan_options;             /* borrowed */
    size_t count;
    const char *(*id)(void *user, size_t at);
    const char *(*model)(void *user, size_t at); /* those of one model take about as long as each other */
    void (*say)(void *user, size_t at, char *what, size_t bytes);
    /* Writes the folder of one whose process left none. */
    b1_status (*lost)(void *user, size_t at, const char *status, const char *message, b1_error *err);
    void *user;
} b1i_pass;

/* B1_CANCELLED leaves what was done. */
b1_status b1i_pass_run(const b1i_pass *pass, b1_error *err);
/* Seals the directory with the analysis, which is taken over, its plots, and the environment where no pass left one.
 * Of the pass only options, experiment, run, binary and plan_options are asked. */
b1_status b1i_pass_seal(const b1i_pass *pass, b1i_evidence *evidence, json_t *analysis, b1_error *err);

#endif
