/* SPDX-License-Identifier: MIT
 *
 * What the files of the experiment `launch` share.
 */
#ifndef LAB_EXPERIMENTS_LAUNCH_H
#define LAB_EXPERIMENTS_LAUNCH_H

#include "lab/experiments/words.h"
#include "lab/kernels/launch_args.h"
#include "lab/lab.h"
#include "lab/work.h"

enum {
    B1I_LAUNCH_NODES_MOST = 256,
    B1I_LAUNCH_PIECES = 64 /* of the load, each with a sum: a chain has a divisor of that many nodes */
};

typedef struct b1i_chain_cell b1i_chain_cell;
typedef struct b1i_setup_cell b1i_setup_cell;
typedef struct b1i_sync_cell b1i_sync_cell;

typedef struct b1i_launch {
    b1i_lab *lab;
    b1i_lab_device *device;
    b1i_gpu *gpu; /* NULL: the CPU */
    bool quick;
    int units;
    uint64_t load, load_bytes; /* load: 0 before b1i_launch_load() */
    b1i_words_sum sums[B1I_LAUNCH_PIECES];
    b1i_lab_op *nulls; /* [2][B1I_LAUNCH_NODES_MOST]: k_null, then k_null_early */
    b1i_lab_driver chain_driver;
    b1i_chain_cell *chains; /* lists, newest first */
    b1i_setup_cell *setups;
    b1i_sync_cell *syncs;
} b1i_launch;

/* Makes the memory that loads read, once. */
b1_status b1i_launch_load(b1i_launch *l, b1_error *err);
/* Null operations for a work of that mode. */
const b1i_lab_op *b1i_launch_nulls(const b1i_launch *l, int mode);

/* The phases of a graph's life, of `nodes` null kernels; see launch_setup.c. */
b1_status b1i_launch_add_setups(b1i_launch *l, int nodes, int mode, b1_error *err);
void b1i_launch_end_setups(b1i_launch *l);
/* Adds to a chain's facts what says after how many replays its graph has paid for itself. */
b1_status b1i_launch_pays(const b1i_launch *l, int nodes, int mode, json_t *figures, b1_error *err);

/* The grid's barrier and flags between two units; see launch_sync.c. */
b1_status b1i_launch_add_syncs(b1i_launch *l, b1_error *err);
void b1i_launch_end_syncs(b1i_launch *l);

/* The CPU's bodies; see launch_cpu.c. */
void b1i_null_body(const void *args, int worker, int workers);
void b1i_chain_body(const void *args, int worker, int workers);
void b1i_barrier_body(const void *args, int worker, int workers);
void b1i_flag_body(const void *args, int worker, int workers);

extern const b1i_experiment b1i_experiment_launch;

#endif
