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

enum { B1I_LAUNCH_NODES_MOST = 256 };
/* Shared memory that kernels which are to run beside each other ask for: with any of it they want the same carve-out of
 * an SM, and an SM that must change its carve-out drains first. */
enum { B1I_LAUNCH_SHARED = 16 };

typedef struct b1i_chain_cell b1i_chain_cell;
typedef struct b1i_setup_cell b1i_setup_cell;
typedef struct b1i_sync_cell b1i_sync_cell;
typedef struct b1i_beside b1i_beside;

typedef struct b1i_launch {
    b1i_lab *lab;
    b1i_lab_device *device;
    b1i_gpu *gpu; /* NULL: the CPU */
    bool quick;
    int units;
    uint64_t load, load_bytes; /* load: 0 before b1i_launch_load() */
    b1i_lab_op *nulls;         /* [2][B1I_LAUNCH_NODES_MOST]: k_null, then k_null_early */
    b1i_lab_driver chain_driver, beside_driver, rate_driver;
    b1i_beside *beside;     /* NULL before b1i_launch_beside() */
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

/* A load beside what is measured; see launch_beside.c. On the CPU it is as many threads as there are readers; how many
 * there are CPUs for is b1i_launch_spare(). Made once; B1_UNSUPPORTED where there can be none. */
int b1i_launch_spare(const b1i_launch *l);
b1_status b1i_launch_beside(b1i_launch *l, int readers, b1_error *err);
void b1i_launch_end_beside(b1i_launch *l);
/* Returns when all of it reads. Each start that succeeds is followed by a stop, which waits for its end: what it read,
 * and B1_DEVICE where it had not read all the time, of which the sentence says in the measurement of which cell. */
b1_status b1i_launch_beside_start(b1i_launch *l, b1_error *err);
b1_status b1i_launch_beside_stop(b1i_launch *l, const char *name, double *gbps, b1_error *err);

/* The CPU's bodies; see launch_cpu.c. */
void b1i_null_body(const void *args, int worker, int workers);
void b1i_barrier_body(const void *args, int worker, int workers);
void b1i_flag_body(const void *args, int worker, int workers);

extern const b1i_experiment b1i_experiment_launch;

#endif
