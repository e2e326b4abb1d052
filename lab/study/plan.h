/* SPDX-License-Identifier: MIT
 *
 * plan.json of a study as it is read. See study.h.
 */
#ifndef LAB_STUDY_PLAN_H
#define LAB_STUDY_PLAN_H

#include "lab/evidence.h"
#include "lab/study.h"

#define B1I_STUDY_PLAN "batchone.study-plan/1"

typedef struct b1i_planned {
    char id[B1I_SETTING_ID];
    b1i_setting setting;
} b1i_planned;

typedef struct b1i_study_planned {
    json_t *json; /* the document; its texts are borrowed below */
    const char *run, *device, *binary;
    b1i_device where;               /* `device` */
    const char *device_name, *uuid; /* NULL: not known where it was planned, or none */
    b1i_planned *cells;             /* [count] */
    size_t count, room;
} b1i_study_planned;

/* B1_ARGUMENT: the directory has none, or what is wrong with it; also where an id is not that of its setting. */
b1_status b1i_study_plan_read(const char *directory, b1i_study_planned *out, b1_error *err);
void b1i_study_plan_free(b1i_study_planned *plan);
/* −1: none. */
int b1i_study_plan_find(const b1i_study_planned *plan, const char *id);
/* Makes the directory for a plan, or opens one that was begun and has none. *begun: it has one, and *evidence is NULL.
 * B1_ARGUMENT: it is there, and not to be resumed. */
b1_status b1i_study_directory(const b1i_study_options *options, b1i_evidence **evidence, bool *begun, b1_error *err);
/* "cpu", "cuda:N" of a plan as the device it names. */
b1i_device b1i_study_device(const char *name);
/* Whether the folder of the cell is there. */
bool b1i_study_has(const char *directory, const char *id);
/* Removes what processes that were killed, or were slower than others, left of cells that are there. What others may
 * still be writing stays. */
void b1i_study_sweep(const char *directory);
/* B1_ARGUMENT: the plan is of another build of this command, or of another device than this machine has. */
b1_status b1i_study_plan_here(const b1i_study_planned *plan, const char *executable, b1_error *err);

/* The analysis of the directory's cells. */
b1_status b1i_study_analyse(const char *directory, const b1i_study_planned *plan, json_t **out, b1_error *err);
/* Says of each planned cell what does not hold, and of folders that no cell has; *holds where there is none. */
b1_status b1i_study_check(const char *directory, const b1i_study_planned *plan,
                          void (*say)(void *user, const char *line), void *user, bool *holds, b1_error *err);

#endif
