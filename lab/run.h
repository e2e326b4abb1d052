/* SPDX-License-Identifier: MIT
 *
 * A run that is under way: what lab.c, rounds.c and run.c share.
 */
#ifndef LAB_RUN_H
#define LAB_RUN_H

#include "lab/evidence.h"
#include "lab/lab.h"
#include "lab/plan.h"

/* A cell's driver; its place is that of the cell in the plan. */
typedef struct b1i_lab_driven {
    const b1i_lab_driver *driver;
    void *user;
    int depth_most;
    double least_ns; /* of an invocation while warming up; 0: not measured */
} b1i_lab_driven;

struct b1i_lab {
    const b1i_experiment *experiment;
    const b1i_lab_options *options;
    struct b1i_lab_device *device;
    b1i_evidence *evidence;
    b1i_lab_plan plan;     /* as it is made, or of the run that is resumed once it was compared */
    b1i_lab_driven *cells; /* [plan.count] */
    size_t cells_room;
    double tick_ns; /* of the GPU's globaltimer; 0: not measured */
    bool started;   /* all cells are there: none may be added */
    bool resumed;   /* the plan is one that was written before */
};

/* Prepares each cell; those that cannot run are so marked in the plan. B1_CANCELLED. */
b1_status b1i_lab_prepare(b1i_lab *lab, b1_error *err);
/* Warms up. `choose`: sets the cells' depth and the plan's warm clock as well. */
b1_status b1i_lab_warm_up(b1i_lab *lab, bool choose, b1_error *err);
/* Measures the rounds `first` … plan.rounds, each appended to the samples before the next begins. *last is the last
 * that was measured whole. */
b1_status b1i_lab_measure(b1i_lab *lab, int first, int *last, b1_error *err);
/* Compares what the cells left with their oracles. */
b1_status b1i_lab_check(b1i_lab *lab, b1_error *err);

#endif
