/* SPDX-License-Identifier: MIT
 *
 * What an experiment runs, on either device: a device of the lab with memory and a queue of its own, and works, each a
 * short list of operations that is submitted as a whole, in one of three modes.
 *
 *                stream                          graph                           pdl
 *   GPU          a launch an operation           one captured graph              a graph with programmatic edges
 *   CPU          a dispatch and join of the      one dispatch; the workers stay  B1_UNSUPPORTED
 *                pool an operation               and meet between operations
 *
 * The CPU's queue is emptied by a thread that is the pool's worker 0 while it works, so that submitting and doing are
 * two things there as well: a submission is a place in the queue and the waking of that thread. Where all CPUs are
 * workers, who waits for the queue soon sleeps, and host single has his waking in it.
 *
 * A device and all that was made with it belong to one thread. Works are destroyed before their device.
 */
#ifndef LAB_WORK_H
#define LAB_WORK_H

#include "gpu/gpu.h"
#include "lab/device.h"

typedef enum b1i_lab_mode { b1i_lab_stream, b1i_lab_graph, b1i_lab_pdl, b1i_lab_modes } b1i_lab_mode;
extern const char *const b1i_lab_mode_names[b1i_lab_modes]; /* "stream", "graph", "pdl" */

/* ---- the device ---- */
typedef struct b1i_lab_device b1i_lab_device;

/* `threads` of the CPU (0: all that may be used); the GPU takes none. */
b1_status b1i_lab_device_open(const b1i_device *which, int threads, b1i_lab_device **out, b1_error *err);
void b1i_lab_device_close(b1i_lab_device *device);      /* NULL is fine */
b1i_gpu *b1i_lab_device_gpu(b1i_lab_device *device);    /* NULL: it is the CPU */
int b1i_lab_device_units(const b1i_lab_device *device); /* SMs, or workers */
/* Waits until all that was submitted is done; an error of any of it is said here. */
b1_status b1i_lab_device_wait(b1i_lab_device *device, b1_error *err);

/* Memory of the device, at least 256-byte aligned, by its address there. B1_MEMORY says what was wanted for `what`. */
b1_status b1i_lab_alloc(b1i_lab_device *device, size_t bytes, const char *what, uint64_t *out, b1_error *err);
void b1i_lab_free(b1i_lab_device *device, uint64_t memory); /* 0 is fine */
/* These wait for all that was submitted. */
b1_status b1i_lab_put(b1i_lab_device *device, uint64_t to, const void *from, size_t bytes, b1_error *err);
b1_status b1i_lab_get(b1i_lab_device *device, void *to, uint64_t from, size_t bytes, b1_error *err);
b1_status b1i_lab_fill(b1i_lab_device *device, uint64_t to, uint8_t byte, size_t bytes, b1_error *err);

/* ---- works ---- */
enum { B1I_LAB_ARGS_MAX = 256 };
/* The CPU's side of an operation: the part of `worker` of `workers`; `args` is the very struct that a kernel gets. */
typedef void (*b1i_lab_body)(const void *args, int worker, int workers);

/* One operation. With neither kernel nor body it sets fill_bytes at `fill` to zero (a memset node of a graph). */
typedef struct b1i_lab_op {
    const char *kernel; /* extern "C" name of lab/kernels/ *.cu, a string that stays */
    b1i_lab_body body;
    unsigned grid, threads, shared_bytes; /* the GPU's */
    unsigned grid_y, grid_z;              /* of the grid; 0 is 1 */
    uint64_t fill;
    size_t fill_bytes;
    unsigned arg_bytes;
    _Alignas(16) unsigned char args[B1I_LAB_ARGS_MAX];
} b1i_lab_op;

/* What making a work's graph took (of several sets: the first's), each from just before its first to just after its
 * last call, on a device where nothing is under way; 0 where there is none. GPU: cuStreamBeginCapture …
 * cuStreamEndCapture; cuGraphInstantiate; cuGraphUpload and the wait for it. CPU, mode graph: `capture_ns` is the
 * making of the plan. */
typedef b1i_gpu_graph_setup b1i_lab_setup;

typedef struct b1i_lab_work b1i_lab_work;

/* `ops` [sets][count], copied: invocation i of the work does the list i % sets. Several sets differ in their buffers,
 * so that nothing of one invocation lies in a cache for the next. B1_UNSUPPORTED: the device has no such mode. */
b1_status b1i_lab_work_create(b1i_lab_device *device, b1i_lab_mode mode, const b1i_lab_op *ops, int count, int sets,
                              b1i_lab_work **out, b1_error *err);
void b1i_lab_work_destroy(b1i_lab_work *work); /* NULL is fine; waits for the device */
/* Submits; does not wait. */
b1_status b1i_lab_work_submit(b1i_lab_work *work, int invocations, b1_error *err);
/* The three latencies. Each waits for the device before it starts and before it returns.
 * single: from the submission of one to its completion. enqueue: submission of `invocations`, without their completion,
 * over their number. interval: the device's own time from the beginning of the first to the end of the last, over their
 * number: on a GPU between two events, on the CPU from the first worker's start to the last one's end; where the
 * device had to wait for the host in between, that is part of it. */
b1_status b1i_lab_work_single(b1i_lab_work *work, double *ns, b1_error *err);
b1_status b1i_lab_work_enqueue(b1i_lab_work *work, int invocations, double *ns_each, b1_error *err);
b1_status b1i_lab_work_interval(b1i_lab_work *work, int invocations, double *ns_each, b1_error *err);

const b1i_lab_setup *b1i_lab_work_setup(const b1i_lab_work *work);
/* What the graph is, read back from the driver: {"nodes", "kernel_nodes", "memset_nodes", "edges",
 * "programmatic_edges"}; NULL where the work has no graph of the driver's. A new reference. */
b1_status b1i_lab_work_graph(b1i_lab_work *work, json_t **out, b1_error *err);
/* The graph as DOT; B1_UNSUPPORTED where there is none. */
b1_status b1i_lab_work_dot(b1i_lab_work *work, const char *path, b1_error *err);

/* The SM's clock in MHz now, by a short kernel that reads clock64 against globaltimer (`tick_ns`: globaltimer's
 * resolution, measured); 0 on the CPU. Waits. */
b1_status b1i_lab_probe_clock(b1i_lab_device *device, double *sm_mhz, double *tick_ns, b1_error *err);

#endif
