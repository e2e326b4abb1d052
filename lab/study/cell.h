/* SPDX-License-Identifier: MIT
 *
 * cell.json from what was measured. For measure.c alone; measure.h says what stands in it.
 */
#ifndef LAB_STUDY_CELL_H
#define LAB_STUDY_CELL_H

#include "lab/bench_cell.h"
#include "lab/setting.h"

#define B1I_STACK_APART 0.05 /* of the harness's sum: what a stack says of its steps may differ so far */

enum { B1I_MEASURED_MESSAGE = 6000 };
typedef struct b1i_measured {
    const b1i_setting *setting;
    const char *id, *binary;        /* of the setting; SHA-256 of this command */
    b1i_cell cell;                  /* kv_bytes: of all sequences */
    const char *architecture;       /* NULL: not known */
    const char *attention;          /* NULL: not known */
    int layers;                     /* 0: not known */
    uint64_t parameters;            /* of the matrices that a step multiplies by; 0: not known */
    double flops, peak_tflops;      /* of a step; of the datasheet; 0: not known */
    uint64_t kv_element_bytes;      /* 0: not known */
    const char *device_name, *uuid; /* uuid NULL: the CPU has none */
    json_t *kernels, *source, *energy, *jitter, *harness_ns; /* taken over; NULL: null, of harness_ns no key */
    json_t *gpu_before, *gpu_after;                          /* b1i_device_state(), taken over; NULL of the CPU */
    int ordinal;
    double elapsed_s;
    char stack_name[96], stack_attention[96], message[B1I_MEASURED_MESSAGE]; /* room for what a stack says */
} b1i_measured;

/* A new reference in *out; the verdict is made `drifting` where the steps have two levels or a trend. B1_MEMORY. */
b1_status b1i_measured_json(b1i_measured *measured, json_t **out, b1_error *err);

/* Of the matrices that a step multiplies by: a tied embedding is its LM head, an untied one is only read a row of. */
uint64_t b1i_matrix_parameters(const b1_model_info *info);
/* Multiplications and additions of a step: its matrices, and of attention the scores and the sum of values. */
double b1i_step_flops(const b1_model_info *info, const b1i_setting *setting);
/* Of a position's keys and values. */
uint64_t b1i_kv_elements(const b1_model_info *info);

/* Lets go of what was taken over. */
void b1i_measured_drop(b1i_measured *measured);

#endif
