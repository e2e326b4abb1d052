/* SPDX-License-Identifier: MIT
 *
 * gpu: NVIDIA GPUs through the CUDA driver, which is opened at run time: devices, contexts, memory, kernels, launches,
 * graphs, events. No op of a model is known here, and no type of CUDA's is seen outside this room.
 *
 * A b1i_gpu is one device with a context and a stream of its own; each engine has one. Calls on one b1i_gpu may come
 * from any thread, one at a time. What is submitted goes to that stream, but for what b1i_gpu_beside_start() starts.
 *
 * Errors: B1_UNSUPPORTED where there is no driver, no such device, or a driver or device that this build does not fit;
 * B1_MEMORY where the device or pinned memory runs out (with the sum); B1_DEVICE for everything else, with the
 * driver's own name of the error and the kernel that was running. After a sticky error (an illegal address, a failed
 * assertion, …) the b1i_gpu is poisoned: each later call returns the same sentence. A context of its own does not keep
 * others from it (docs/decisions/0004): every other b1i_gpu of the process, those opened later too, must be expected to
 * fail with B1_DEVICE and a sentence that has the first one's, from the first call at which the driver says so; only a
 * new process is sure of the GPU. Closing and freeing work as ever.
 */
#ifndef B1I_GPU_H
#define B1I_GPU_H

#include "base/base.h"

typedef struct b1i_gpu b1i_gpu;
typedef uint64_t b1i_gpu_ptr; /* device memory; 0: none */

typedef struct b1i_gpu_info {
    int ordinal;
    char name[96], uuid[48];
    int driver;       /* CUDA version of the driver: 13000 is 13.0 */
    int major, minor; /* compute capability */
    int sms;
    uint64_t l2_bytes, memory_bytes, free_bytes;
    int shared_bytes_block, shared_bytes_sm; /* most that a block may opt in to; of an SM */
} b1i_gpu_info;

/* The GPU that a device's name means: "cuda" is 0, "cuda:N" is N (no leading zero, at most three digits); −1: none. */
int b1i_gpu_ordinal(const char *name);
/* The CUDA version of the toolkit that compiled the kernels: 13000 is 13.0; 0: this build has none. */
int b1i_gpu_toolkit(void);
/* How many devices there are; 0 with a sentence in `err` where there is no driver or it is too old. */
int b1i_gpu_count(b1_error *err);
/* Without making a context; free_bytes is NVML's where it is there, else 0. */
b1_status b1i_gpu_describe(int ordinal, b1i_gpu_info *out, b1_error *err);

b1_status b1i_gpu_open(int ordinal, b1i_gpu **out, b1_error *err);
void b1i_gpu_close(b1i_gpu *gpu);                         /* NULL is fine; frees what is left of its memory */
const b1i_gpu_info *b1i_gpu_get_info(const b1i_gpu *gpu); /* free_bytes: as it was when opened */
b1_status b1i_gpu_free_bytes(b1i_gpu *gpu, uint64_t *bytes, b1_error *err);
/* Why the GPU is poisoned, as B1_DEVICE; B1_OK where it is not. */
b1_status b1i_gpu_state(const b1i_gpu *gpu, b1_error *err);

/* ---- memory: plain allocations, 256-byte aligned at least; `what` is named where it cannot be had ---- */
b1_status b1i_gpu_alloc(b1i_gpu *gpu, size_t bytes, const char *what, b1i_gpu_ptr *out, b1_error *err);
void b1i_gpu_free(b1i_gpu *gpu, b1i_gpu_ptr memory);
/* Pinned host memory that kernels see too: *device is its address there (may be NULL). Zeroed. */
b1_status b1i_gpu_host_alloc(b1i_gpu *gpu, size_t bytes, const char *what, void **host, b1i_gpu_ptr *device,
                             b1_error *err);
void b1i_gpu_host_free(b1i_gpu *gpu, void *host);
/* The n-th allocation from now on (device or pinned; 0 is the next) fails once; -1 switches that off. For tests. */
void b1i_gpu_alloc_fail_at(long n);
long b1i_gpu_alloc_live(void); /* allocations alive in this process */

/* These wait for the stream and for the copy. */
b1_status b1i_gpu_upload(b1i_gpu *gpu, b1i_gpu_ptr to, const void *from, size_t bytes, b1_error *err);
b1_status b1i_gpu_download(b1i_gpu *gpu, void *to, b1i_gpu_ptr from, size_t bytes, b1_error *err);
b1_status b1i_gpu_fill(b1i_gpu *gpu, b1i_gpu_ptr to, uint8_t byte, size_t bytes, b1_error *err);
/* Does not wait; `from` is pinned and stays as it is until an event recorded after it is done. */
b1_status b1i_gpu_upload_async(b1i_gpu *gpu, b1i_gpu_ptr to, const void *from, size_t bytes, b1_error *err);
/* Within the device, after all that was submitted before; does not wait. The two do not overlap. */
b1_status b1i_gpu_copy_async(b1i_gpu *gpu, b1i_gpu_ptr to, b1i_gpu_ptr from, size_t bytes, b1_error *err);

/* ---- kernels ---- */
typedef struct b1i_gpu_kernel b1i_gpu_kernel;
typedef struct b1i_gpu_kernel_info {
    int registers, local_bytes, static_shared_bytes, max_threads;
} b1i_gpu_kernel_info;

/* Loads a fatbin (kept by the caller) once; kernels are found in all that were loaded. `name` is for messages. */
b1_status b1i_gpu_load(b1i_gpu *gpu, const char *name, const void *fatbin, b1_error *err);
/* The kernel `name` (extern "C"), allowed `shared_bytes` of dynamic shared memory; the same object for the same name,
 * its allowance the largest that was asked for. Owned by the gpu. */
b1_status b1i_gpu_kernel_get(b1i_gpu *gpu, const char *name, size_t shared_bytes, b1i_gpu_kernel **out, b1_error *err);
const char *b1i_gpu_kernel_name(const b1i_gpu_kernel *kernel);
b1_status b1i_gpu_kernel_describe(b1i_gpu *gpu, b1i_gpu_kernel *kernel, b1i_gpu_kernel_info *out, b1_error *err);
/* Blocks of `threads` with `shared_bytes` that fit on an SM at once. */
b1_status b1i_gpu_occupancy(b1i_gpu *gpu, b1i_gpu_kernel *kernel, int threads, size_t shared_bytes, int *blocks,
                            b1_error *err);

/* One launch: every kernel takes one struct by value. Without a kernel it sets fill_bytes at `fill` to zero: a memset,
 * which is a node of its own in a graph; then nothing else of it counts. */
enum { B1I_GPU_ARGS_MAX = 512 };
typedef struct b1i_gpu_launch {
    b1i_gpu_kernel *kernel; /* NULL: a memset */
    b1i_gpu_ptr fill;
    size_t fill_bytes;
    unsigned grid[3];
    unsigned threads;
    unsigned shared_bytes;
    bool full_edge; /* the edge to this launch is a full dependency even where a graph's edges are programmatic */
    int item;       /* of the plan (op or group), for times and stop-after */
    unsigned arg_bytes;
    _Alignas(16) unsigned char args[B1I_GPU_ARGS_MAX];
} b1i_gpu_launch;

/* On the gpu's stream; does not wait. */
b1_status b1i_gpu_run(b1i_gpu *gpu, const b1i_gpu_launch *launch, b1_error *err);
/* The same for `times` lists of `launches` [sets][count], from list `first` on, in turn: whatever their number, little
 * but the driver's own calls. */
b1_status b1i_gpu_run_each(b1i_gpu *gpu, const b1i_gpu_launch *launches, int count, int sets, int first, int times,
                           b1_error *err);
/* A launch of a kernel in a second stream, made when it is first asked for: it runs while the first stream goes on.
 * Nothing but b1i_gpu_beside_wait() waits for it, and the driver where memory is given back; so it must end by itself.
 * B1_UNSUPPORTED where launches are blocking (CUDA_LAUNCH_BLOCKING=1): then nothing runs beside anything. */
b1_status b1i_gpu_beside_start(b1i_gpu *gpu, const b1i_gpu_launch *launch, b1_error *err);
b1_status b1i_gpu_beside_wait(b1i_gpu *gpu, b1_error *err);
/* Waits for all that was submitted. Sleeps no longer than it must: spins. */
b1_status b1i_gpu_sync(b1i_gpu *gpu, b1_error *err);
/* Whether all that was submitted is done: B1_OK and *done, or why the gpu is poisoned. Does not wait. */
b1_status b1i_gpu_query(b1i_gpu *gpu, bool *done, b1_error *err);
/* The caller has seen by itself (in pinned memory) that all that was submitted is done, but for its last kernel's end:
 * an error that is seen from now on is no earlier kernel's. */
void b1i_gpu_seen_done(b1i_gpu *gpu);
/* The driver's handle of the stream and of the context, for libraries such as cuBLASLt. */
void *b1i_gpu_stream(b1i_gpu *gpu);
/* Makes the gpu's context current in this thread (for such libraries) until b1i_gpu_leave(), which gives back what was
 * current before; where it fails there is nothing to leave. */
b1_status b1i_gpu_enter(b1i_gpu *gpu, b1_error *err);
void b1i_gpu_leave(b1i_gpu *gpu);

/* ---- events ---- */
typedef struct b1i_gpu_event b1i_gpu_event;
b1_status b1i_gpu_event_create(b1i_gpu *gpu, bool timing, b1i_gpu_event **out, b1_error *err);
void b1i_gpu_event_destroy(b1i_gpu *gpu, b1i_gpu_event *event);
b1_status b1i_gpu_event_record(b1i_gpu *gpu, b1i_gpu_event *event, b1_error *err);
b1_status b1i_gpu_event_sync(b1i_gpu *gpu, b1i_gpu_event *event, b1_error *err);
/* Both done. */
b1_status b1i_gpu_event_ns(b1i_gpu *gpu, b1i_gpu_event *from, b1i_gpu_event *to, uint64_t *ns, b1_error *err);

/* ---- graphs: a chain of launches, captured and instantiated once ---- */
typedef struct b1i_gpu_graph b1i_gpu_graph;
typedef struct b1i_gpu_graph_info { /* read back from the driver's graph */
    int nodes, kernel_nodes, memset_nodes, edges, programmatic_edges;
} b1i_gpu_graph_info;
/* What its making took, each from just before its first to just after its last call: cuStreamBeginCapture …
 * cuStreamEndCapture; cuGraphInstantiate; cuGraphUpload and the wait for it. */
typedef struct b1i_gpu_graph_setup {
    uint64_t capture_ns, instantiate_ns, upload_ns;
} b1i_gpu_graph_setup;

/* `programmatic`: each edge between kernels but those of full_edge launches lets its kernel start before the one before
 * it has ended (compute capability 9.0 on; B1_UNSUPPORTED before). Waits for all that was submitted. */
b1_status b1i_gpu_graph_create(b1i_gpu *gpu, const b1i_gpu_launch *launches, int count, bool programmatic,
                               b1i_gpu_graph **out, b1_error *err);
void b1i_gpu_graph_destroy(b1i_gpu *gpu, b1i_gpu_graph *graph);
void b1i_gpu_graph_get_setup(const b1i_gpu_graph *graph, b1i_gpu_graph_setup *out);
b1_status b1i_gpu_graph_run(b1i_gpu *gpu, b1i_gpu_graph *graph, b1_error *err); /* on the stream; does not wait */
/* The same for `times` of the `graphs` [sets], from graph `first` on, in turn. */
b1_status b1i_gpu_graph_run_each(b1i_gpu *gpu, b1i_gpu_graph *const *graphs, int sets, int first, int times,
                                 b1_error *err);
b1_status b1i_gpu_graph_describe(b1i_gpu *gpu, b1i_gpu_graph *graph, b1i_gpu_graph_info *out, b1_error *err);
/* The graph as a DOT file, written under a temporary name and renamed. */
b1_status b1i_gpu_graph_dot(b1i_gpu *gpu, b1i_gpu_graph *graph, const char *path, b1_error *err);

/* ---- the device's state, through NVML where it is there; -1 (or 0 in throttle) where it does not say ---- */
typedef struct b1i_gpu_clocks {
    int sm_mhz, memory_mhz, power_mw, temperature_c;
    uint64_t throttle; /* NVML's reasons, without "idle" and "applications clocks" */
} b1i_gpu_clocks;
void b1i_gpu_clocks_read(int ordinal, b1i_gpu_clocks *out);
typedef struct b1i_gpu_health {
    int ecc;                                /* 1: on; 0: off */
    int64_t ecc_corrected, ecc_uncorrected; /* errors since the driver was loaded */
    int processes;                          /* that have a compute context on it, of everybody that NVML may see */
    int listed;                             /* whether this one is among them, by its number */
} b1i_gpu_health;
void b1i_gpu_health_read(int ordinal, b1i_gpu_health *out); /* -1: NVML does not say */
/* Millijoules that the GPU took since the driver was loaded; false: NVML does not say. */
bool b1i_gpu_energy_read(int ordinal, uint64_t *millijoules);

/* ---- what the device did, by CUPTI's activity records: for a pass of its own, for it costs time ---- */
typedef enum b1i_gpu_did {
    b1i_gpu_did_kernel,
    b1i_gpu_did_memset,
    b1i_gpu_did_copy,
    b1i_gpu_did_graph,
    b1i_gpu_did_launch, /* a call of the driver, on the host, that launches: a kernel, a memset, a graph */
    b1i_gpu_did_wait,   /* one that waits or asks whether something has ended */
} b1i_gpu_did;
typedef struct b1i_gpu_activity {
    b1i_gpu_did did;
    uint32_t graph;            /* the graph that it was, or was a node of; 0: none */
    uint64_t begin_ns, end_ns; /* both 0: not known */
    char name[64];             /* of a kernel, cut where it is longer; else "" */
} b1i_gpu_activity;
typedef struct b1i_gpu_activities {
    b1i_gpu_activity *items; /* [count], by their beginnings */
    size_t count, dropped;   /* dropped: records that CUPTI or memory lost */
} b1i_gpu_activities;
/* Records from now on; `graphs`: a graph is one record and its nodes have none, else each of its nodes has one. Graphs
 * are made after this. One recording at a time in a process. B1_UNSUPPORTED: there is no CUPTI, or it refuses. */
b1_status b1i_gpu_activities_begin(b1i_gpu *gpu, bool graphs, b1_error *err);
/* The same, of calls that launch or wait, and of nothing else: these records cost the host more. */
b1_status b1i_gpu_calls_begin(b1i_gpu *gpu, b1_error *err);
/* Waits, and ends it; also after a failure. *out is freed by b1i_gpu_activities_free(). */
b1_status b1i_gpu_activities_end(b1i_gpu *gpu, b1i_gpu_activities *out, b1_error *err);
void b1i_gpu_activities_free(b1i_gpu_activities *activities);
/* Now, on the clock of the records; 0: no CUPTI was opened. */
uint64_t b1i_gpu_activities_now(void);
/* Which recording of the nodes of graphs runs now, counted from 1; 0: none. A graph that was made before it is to be
 * made anew, or its nodes may be missing from the records. */
unsigned b1i_gpu_recording(void);
/* CUPTI's version, as it counts; 0: none was opened. */
unsigned b1i_gpu_cupti_version(void);
/* Tells a profiler that is around this process (Nsight Compute) where to begin and to end. */
b1_status b1i_gpu_profiler(b1i_gpu *gpu, bool on, b1_error *err);

/* ---- the read ceiling ---- */
/* GB/s of reading `bytes` of `memory`, the best of plain loads and bulk copies, each the median of `passes` timed by
 * events; *method is "plain" or "bulk". */
b1_status b1i_gpu_read_ceiling(b1i_gpu *gpu, b1i_gpu_ptr memory, size_t bytes, int passes, double *gbps,
                               const char **method, b1_error *err);

#endif
