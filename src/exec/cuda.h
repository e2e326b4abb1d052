/* SPDX-License-Identifier: MIT
 *
 * The CUDA executors and what those of one engine share: a GPU with its own context, the weights, the machine with its
 * programs and graphs, prefill.
 *
 * Invariants: whatever calls the gpu of an open engine holds machine.lock (a step from its submit to its wait), for
 * calls on one b1i_gpu come one at a time. A graph, once made, serves every session and step until the engine closes.
 */
#ifndef B1I_EXEC_CUDA_H
#define B1I_EXEC_CUDA_H

#include "cuda/cuda.h"
#include "exec/exec.h"

/* How a class submits its launches (b1i_executor_class.mode). */
enum { b1i_cuda_stream, b1i_cuda_graph };
/* Whether a graph of the form has programmatic edges: only its kernels stream before they wait. */
static inline bool b1i_cuda_programmatic(int form) { return form == b1i_cuda_early; }

/* Set aside for what the driver takes and no one can ask for beforehand: the modules' code, the local memory of their
 * kernels, the instances of the graphs, cuBLASLt's own. */
enum { B1I_CUDA_DRIVER_BYTES = 192 * 1000 * 1000 };

/* Bytes of device memory that an engine with one session takes. */
typedef struct b1i_cuda_budget {
    uint64_t weights, kv, buffers; /* buffers: of a step, the session's logits, and B1I_CUDA_DRIVER_BYTES */
    uint64_t prefill;              /* scratch; 0 where it does not fit beside the rest: prefill is then done without */
    uint64_t total;
} b1i_cuda_budget;
/* B1_MEMORY with the sum where it exceeds `free_bytes`. */
b1_status b1i_cuda_plan_memory(const b1i_model *model, int context, const b1i_gpu_info *gpu, uint64_t free_bytes,
                               b1i_cuda_budget *out, b1_error *err);

typedef struct b1i_cuda_device {
    b1i_gpu *gpu;
    char name[16]; /* "cuda:0" */
    const b1i_model *model;
    const b1i_plan *plan;
    b1i_cuda_budget budget;
    b1i_cuda_weights weights;
    b1i_cuda_machine machine;
    bool loaded, made;                                     /* whether weights, machine are there */
    b1i_gpu_graph *graph[b1i_cuda_forms][b1i_cuda_widths]; /* NULL until first used */
    /* The recording of activities (b1i_gpu_recording()) that it was made in, and is made anew in another. */
    unsigned graph_recording[b1i_cuda_forms][b1i_cuda_widths];
    b1i_cuda_prefill *prefill; /* NULL: none, and note says why */
    bool prefill_tried;
    b1_error note; /* message "" where there is nothing to say */
} b1i_cuda_device;

/* Opens the GPU for the model and plans its memory; nothing of the model is there yet. B1_UNSUPPORTED: no such GPU, or
 * not for this model; B1_MEMORY: with the sum. `model` and `plan` must outlive it. */
b1_status b1i_cuda_device_open(int ordinal, const b1i_model *model, const b1i_plan *plan, int context,
                               b1i_cuda_device **out, b1_error *err);
/* Loads the weights and makes the machine. After a failure the device can only be closed. */
b1_status b1i_cuda_device_load(b1i_cuda_device *d, int workers, b1_progress_fn progress, void *user, b1_error *err);
void b1i_cuda_device_close(b1i_cuda_device *d); /* NULL is fine */

/* These with the machine's lock held. */
/* Makes prefill unless that was tried before. Only a failure that may not come again is one. */
b1_status b1i_cuda_device_prefill(b1i_cuda_device *d, b1_error *err);
b1_status b1i_cuda_device_graph(b1i_cuda_device *d, int form, int width, b1i_gpu_graph **out, b1_error *err);

/* An instance. */
typedef struct b1i_cuda_executor {
    const b1i_executor_class *class;
    b1i_cuda_device *device;
    b1i_cuda_kv kv;
    int items, logit_rows;
    b1i_gpu_ptr logits; /* f32 [logit_rows][vocab] */
    float *host;        /* pinned, the same */
    uint8_t *fetched;   /* [logit_rows]: the row of the last step lies in `host` */
    b1i_mask mask;
    b1i_gpu_ptr mask_bits;  /* its bits; 0 until there is a mask */
    b1i_gpu_event **events; /* [items + 1] or NULL: before the first item, and after each */
    int *marked;            /* [items + 1]: item of which events[i] is the end */
    uint64_t *times;        /* [items] or NULL */
    atomic_bool cancelled;
    /* the last step */
    int awaits; /* what its wait() waits for */
    int marks;  /* events recorded after the first */
    uint32_t serial;
    int last_row; /* of its logits */
    int n;
    b1i_executor *const *of; /* [n] or NULL: as of the step that is submitted */
    bool chosen;             /* `token` is the GPU's choice for the last row under the mask that is set now */
    int32_t token;
} b1i_cuda_executor;

static inline b1i_cuda_executor *b1i_cuda_of(b1i_executor *e) { return (b1i_cuda_executor *)e; }
/* The machine, from a step's submit to its wait. */
static inline void b1i_cuda_lock(b1i_cuda_executor *e) { pthread_mutex_lock(&e->device->machine.lock); }
static inline void b1i_cuda_unlock(b1i_cuda_executor *e) { pthread_mutex_unlock(&e->device->machine.lock); }

/* Functions of the classes; see exec.h. */
b1_status b1i_cuda_submit(b1i_executor *e, const b1i_step *step, b1_error *err);
b1_status b1i_cuda_wait(b1i_executor *e, b1_error *err);
void b1i_cuda_cancel(b1i_executor *e, bool on);
b1_status b1i_cuda_logits(b1i_executor *e, int row, const float **out, b1_error *err);
b1_status b1i_cuda_argmax(b1i_executor *e, int row, int32_t *token, b1_error *err);

#endif
