/* SPDX-License-Identifier: MIT
 *
 * Resident weights: what executors read during a step. Owned by the engine, immutable once packed.
 */
#ifndef B1I_RESIDENT_H
#define B1I_RESIDENT_H

#include "plan/plan.h"

typedef struct b1i_resident {
    const b1i_model *model;
    const b1i_plan *plan;
    b1i_packed *row16;     /* [slots]; data NULL until an executor that wants row16 is created, and for vectors */
    float **vector;        /* [slots]: norms and biases as f32, NULL for matrices and absent weights */
    uint8_t *vector_block; /* the memory behind the vectors, each 64-byte aligned */
    size_t vector_bytes;
    uint8_t *arena; /* all row16 data in the order of a step, contiguous; NULL until packed */
    size_t arena_bytes;
} b1i_resident;

#endif
