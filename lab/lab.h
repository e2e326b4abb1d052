/* SPDX-License-Identifier: MIT
 *
 * The lab: experiments, and how each is run. An experiment gives cells, each one variant at one size. The lab prepares
 * them (buffers, and a preflight whose output an oracle checks), warms up, measures them in rounds whose order is
 * shuffled, lets their outputs be checked again, and leaves a directory of evidence (evidence.h) with its analysis
 * (analysis.h).
 *
 * Three latencies are three kinds and never share a column: see work.h.
 */
#ifndef LAB_LAB_H
#define LAB_LAB_H

#include "lab/bench.h" /* b1i_verdict */
#include "lab/device.h"

typedef enum b1i_lab_kind { b1i_host_single, b1i_host_enqueue, b1i_device_interval, b1i_lab_kinds } b1i_lab_kind;
extern const char *const b1i_lab_kind_names[b1i_lab_kinds]; /* "host_single", "host_enqueue", "device_interval" */
enum { B1I_LAB_ROUNDS_LEAST = 21 };

typedef struct b1i_lab b1i_lab;

/* How a cell is driven. `user` is the cell's. Each function may fail: B1_UNSUPPORTED and B1_MEMORY of prepare make the
 * cell unsupported or out_of_memory, any other of prepare failed, with the sentence; all others of the cells go on. A
 * failure of anything later ends the run. */
typedef struct b1i_lab_driver {
    /* Makes what the cell needs, runs it once and compares the output with the oracle's. */
    b1_status (*prepare)(void *user, b1_error *err);
    /* By kind; NULL for a kind that the cell has not. `depth` invocations, nanoseconds of one. */
    b1_status (*measure[b1i_lab_kinds])(void *user, int depth, double *ns, b1_error *err);
    /* Compares what the measured invocations left with the oracle's; NULL: there is nothing to compare. */
    b1_status (*check)(void *user, b1_error *err);
} b1i_lab_driver;

typedef struct b1i_lab_cell_spec {
    const char *name; /* "n=256/separate_stream"; unique; copied */
    const b1i_lab_driver *driver;
    void *user;     /* the experiment's, until its close */
    int depth_most; /* invocations of a batch at most; 0: as many as take about a millisecond, at most 256 */
    /* What a reader wants to know: {"n", "variant", "mode", "bytes" (logical, of one invocation: gives GB/s), "traced"
     * (true: where it was measured it has a trace, which is missed where there is none), …}; taken over. "from" and
     * "to" name the first and last call of what is timed where that is not the rule of work.h. */
    json_t *facts;
} b1i_lab_cell_spec;

/* A cell's name as a file's, without a suffix: what is no letter, digit, '-', '_' or '.' becomes '-', so that
 * "n=256/separate_stream" is "n-256-separate_stream". Cells whose names would meet so are refused. */
void b1i_lab_file_name(const char *cell, char *name, size_t bytes);

/* Adds a cell. Its place is its identity in a resumed run: an experiment adds the same cells in the same order for the
 * same options and device. */
b1_status b1i_lab_add(b1i_lab *lab, const b1i_lab_cell_spec *spec, b1_error *err);
/* Adds the cell `name` once more under the name "a/a NAME": the same driver and user, so a variant against itself. */
b1_status b1i_lab_add_twin(b1i_lab *lab, const char *name, b1_error *err);
/* Whether the cell was prepared and is measured. */
bool b1i_lab_cell_ok(const b1i_lab *lab, const char *name);

typedef struct b1i_lab_options {
    const char *out; /* the directory */
    b1i_device device;
    int threads; /* of the CPU; 0: all */
    int rounds;  /* at least B1I_LAB_ROUNDS_LEAST; 0: that many */
    bool quick;  /* small sizes, for a look and for tests */
    bool resume;
    bool ncu;                /* Nsight Compute as well */
    uint64_t seed;           /* of the shuffle; 0: by the clock */
    const char *executable;  /* of this command, for its hash and for profilers that start it */
    bool (*cancelled)(void); /* may be NULL */
    /* Called often with what is under way; may be NULL. */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    void *progress_user;
} b1i_lab_options;

typedef struct b1i_experiment {
    const char *name, *summary;
    /* Adds the cells. *state is given to the others. */
    b1_status (*open)(b1i_lab *lab, void **state, b1_error *err);
    /* After the rounds and the checks: traces, graphs as DOT, whatever else belongs into the directory. May be NULL. */
    b1_status (*after)(b1i_lab *lab, void *state, b1_error *err);
    /* Frees; after open failed too, if *state was set. */
    void (*close)(b1i_lab *lab, void *state);
} b1i_experiment;

/* The experiments, NULL past the last. */
extern const b1i_experiment *const b1i_experiments[];
const b1i_experiment *b1i_experiment_find(const char *name); /* NULL: none */

/* For experiments: */
struct b1i_lab_device;
struct b1i_evidence;
struct b1i_lab_device *b1i_lab_get_device(b1i_lab *lab);
struct b1i_evidence *b1i_lab_get_evidence(b1i_lab *lab);
const b1i_lab_options *b1i_lab_get_options(const b1i_lab *lab);
void b1i_lab_say(b1i_lab *lab, const char *what, uint64_t done, uint64_t total); /* progress */
/* B1_CANCELLED where that was asked for. */
b1_status b1i_lab_may_go_on(const b1i_lab *lab, b1_error *err);

/* Runs the experiment into options->out. B1_OK: it is sealed; *failed_cells counts those that failed (an oracle's no).
 * B1_ARGUMENT: the directory exists and was not to be resumed, or is another run's. B1_CANCELLED: incomplete, may be
 * resumed. Any other failure is kept in the directory as failed.json, with its reason and without a number. */
b1_status b1i_lab_run(const b1i_experiment *experiment, const b1i_lab_options *options, int *failed_cells,
                      b1_error *err);

/* A work as a cell: the driver of all three kinds on a b1i_lab_work that prepare() makes. */
struct b1i_lab_op;
typedef struct b1i_lab_work_cell {
    b1i_lab *lab;
    int mode; /* b1i_lab_mode */
    const struct b1i_lab_op *ops;
    int count, sets;
    int kernels, memsets; /* nodes that a graph of it must have: asserted against the driver's; −1: not asked */
    /* Compares the output of the invocations so far with the oracle's. */
    b1_status (*check)(void *user, b1_error *err);
    /* Makes the output wrong, so that the next check cannot pass by what was there before. May be NULL. */
    b1_status (*poison)(void *user, b1_error *err);
    void *user;
    struct b1i_lab_work *work; /* made by prepare(); freed by b1i_lab_work_cell_end() */
    long long fresh;           /* invocations since poison() */
} b1i_lab_work_cell;
extern const b1i_lab_driver b1i_lab_work_driver; /* user: a b1i_lab_work_cell */
void b1i_lab_work_cell_end(b1i_lab_work_cell *cell);

/* Tests set this: it is given each output before an oracle sees it, and may change it. */
extern void (*b1i_lab_plant)(const char *what, void *output, size_t bytes);

#endif
