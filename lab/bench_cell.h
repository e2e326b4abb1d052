/* SPDX-License-Identifier: MIT
 *
 * A cell of the bench as an object of its document (batchone.bench/1).
 */
#ifndef LAB_BENCH_CELL_H
#define LAB_BENCH_CELL_H

#include "lab/bench.h"

#include <jansson.h>

/* Where the status is not ok, `message` says why and there are no figures. */
typedef struct b1i_cell {
    const char *model, *device, *weights, *executor, *status;
    const char *message; /* NULL where the status is ok */
    int context, threads;
    int batch; /* sequences of a step, whose keys and values kv_bytes are; 0: one */
    uint64_t weight_bytes, stored_bytes, kv_bytes;
    uint64_t device_bytes; /* what the engine's memory was planned to be; 0: unknown */
    double prefill;        /* tokens a second; 0: not measured */
    double peak_gbps;      /* of the device's datasheet; 0: unknown */
    b1i_bench_result result;
    json_t *jitter, *energy; /* jitter.h's and energy.h's documents, whose references stay the caller's; NULL: none */
} b1i_cell;

/* A new reference; NULL: no memory. */
json_t *b1i_cell_json(const b1i_cell *cell);

#endif
