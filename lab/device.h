/* SPDX-License-Identifier: MIT
 *
 * The devices of this machine: the words that name them, which of them a command means, what is known of a GPU and how
 * it does. No type of the GPU's room is seen here, so that the command may include it.
 */
#ifndef LAB_DEVICE_H
#define LAB_DEVICE_H

#include "base/base.h"

#include <jansson.h>

enum { B1I_DEVICE_CPU = -1 };

typedef struct b1i_device {
    int ordinal;   /* of the GPU; B1I_DEVICE_CPU */
    char name[24]; /* "cpu", "cuda:0" */
    bool open;     /* "auto" took a GPU: where that cannot run the model, the CPU is to be taken */
} b1i_device;

b1i_device b1i_device_cpu(void);
b1i_device b1i_device_at(int ordinal); /* of the CPU too; whether it is there is not asked */
/* "auto", "cpu", "cuda", NULL past the last: the words that need no number. */
const char *b1i_device_word(int index);
/* Whether `text` is one of them or "cuda:N". */
bool b1i_device_is_word(const char *text);

/* Executors of GPUs alone (separate_stream, fused_pdl, …) and of the CPU alone (reference,
 * persistent); others are of both. */
bool b1i_executor_is_gpu(const char *name);
bool b1i_executor_is_cpu(const char *name);
/* What `name` means on the kind of device: on a GPU separate and fused are their graphs. NULL: none of that kind has
 * that name. */
const char *b1i_executor_on(const char *name, bool gpu);

/* The device that `word` (NULL is "auto") and the `executors` [count] mean together. "auto" is what the executors ask
 * for, else the first GPU that can be used, else the CPU. B1_ARGUMENT: no such word, or an executor of another device;
 * B1_UNSUPPORTED: there is no such GPU. */
b1_status b1i_device_choose(const char *word, const char *const *executors, size_t count, b1i_device *out,
                            b1_error *err);

/* How many GPUs the driver shows; 0 with a sentence in `err` where there is none. */
int b1i_device_gpus(b1_error *err);

typedef struct b1i_gpu_facts {
    char name[96], uuid[48], driver[24]; /* the driver as "CUDA 13.0" */
    char compute_capability[16];         /* "9.0" */
    int sms;
    uint64_t l2_bytes, memory_bytes, free_bytes; /* free 0: not known */
} b1i_gpu_facts;
b1_status b1i_device_facts(int ordinal, b1i_gpu_facts *out, b1_error *err);

/* The GPU's part of a machine's record: {"name", "uuid", "driver", "compute_capability", "sms", "l2_bytes",
 * "memory_bytes", "before", "after"}; null where the GPU says nothing. `before` and `after` are b1i_device_state()
 * then, taken over. A new reference; NULL: no memory. */
json_t *b1i_device_record(int ordinal, json_t *before, json_t *after);
/* {"sm_mhz", "memory_mhz", "power_w", "temperature_c", "throttle": [reason, …], "ecc": {"on", "corrected",
 * "uncorrected"} (errors since the driver was loaded), "compute_processes" (with a context there), "other_processes"
 * (but this one)}, each null where NVML is silent. */
json_t *b1i_device_state(int ordinal);
/* Its first five alone, which take no longer to read than they must. */
json_t *b1i_device_moment(int ordinal);
/* Reasons to run slower than asked that the GPU gives now, as NVML's bits; those that are no throttling (idle, clocks
 * that were set, a display) left out. */
uint64_t b1i_device_throttle(int ordinal);

#endif
