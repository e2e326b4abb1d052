/* SPDX-License-Identifier: MIT
 *
 * The engine's inside: resident weights that are packed once and shared by its sessions, on its one device.
 */
#ifndef B1I_ENGINE_H
#define B1I_ENGINE_H

#include "exec/cuda.h"
#include "exec/exec.h"

#include <pthread.h>

struct b1_engine {
    b1i_model *model;
    b1i_plan plan;
    b1i_cuda_device *cuda;              /* NULL: the engine is on the CPU */
    b1i_resident resident;              /* on the CPU */
    pthread_mutex_t packing;            /* the first session of an executor packs; others wait */
    const b1i_executor_class *executor; /* of sessions that name none */
    int threads, context;
    int32_t *end_tokens;
    int end_count;
    double load_ms;
    char weights[16]; /* "q4_1", "q4_1+" */
    uint64_t parameters;
    char note[1100]; /* why "auto" left a GPU that is there; "" where there is nothing to say */
};

/* What `device` of the options means. */
typedef enum b1i_device_kind { b1i_on_auto, b1i_on_cpu, b1i_on_cuda } b1i_device_kind;
/* NULL is "auto"; *ordinal is 0 where no number is given. B1_ARGUMENT with what there is. */
b1_status b1i_device_parse(const char *name, b1i_device_kind *kind, int *ordinal, b1_error *err);
/* The executor that `name` (NULL: the best) means on the engine's device. */
b1_status b1i_engine_choose(const b1_engine *e, const char *name, const b1i_executor_class **out, b1_error *err);

/* Norms and biases as f32. */
b1_status b1i_resident_create(const b1i_model *model, const b1i_plan *plan, b1i_resident *out, b1_error *err);
/* Packs every matrix into row16, in parallel, unless that is done; the file's pages are released on the way. */
b1_status b1i_resident_pack(b1i_resident *r, int workers, b1_progress_fn progress, void *user, b1_error *err);
void b1i_resident_free(b1i_resident *r);
/* Bytes of the arena that packing takes. */
uint64_t b1i_resident_row16_bytes(const b1i_model *model);
/* Bytes of the packed matrices, norms and biases that a step reads (an untied embedding's one row). */
uint64_t b1i_resident_stored_bytes(const b1i_model *model);
/* Format with most bytes among the matrices, "+" after it where others occur; and the number of parameters. */
void b1i_model_weights_name(const b1i_model *model, char out[16], uint64_t *parameters);
/* What the public header says of a model, as on the CPU and without a device; `weights` is kept by its owner. */
void b1i_model_describe(const b1i_model *model, const char *weights, uint64_t parameters, double load_ms,
                        b1_model_info *out);
/* Bytes of an engine with one session of `context` positions: packed weights, KV, the step's buffers. */
uint64_t b1i_memory_needed(const b1i_model *model, int context, b1i_type kv);

/* For tests. */
b1i_executor *b1i_session_executor(b1_session *session);

#endif
