/* SPDX-License-Identifier: MIT
 *
 * safetensors as a container: one mapped file, its header checked in full before use. Knows no architecture.
 */
#ifndef B1I_SAFETENSORS_H
#define B1I_SAFETENSORS_H

#include "model/format.h"

typedef struct b1i_safetensor {
    const char *name; /* owned by the header */
    const char *dtype;
    bool readable;        /* the dtype is one of our formats */
    b1i_format_id format; /* where readable */
    int dims;             /* may exceed 4; rank 0 is one value */
    uint64_t shape[4];    /* the first four, 1 past dims */
    uint64_t offset;      /* from the file's start, of any alignment */
    uint64_t bytes;
} b1i_safetensor;

typedef struct b1i_safetensors {
    b1i_map map;
    struct json_t *header;
    b1i_safetensor *tensors; /* by offset */
    size_t tensor_count;
} b1i_safetensors;

/* B1_MODEL with the file, tensor and offset at fault. */
b1_status b1i_safetensors_open(const char *path, b1i_safetensors **out, b1_error *err);
void b1i_safetensors_close(b1i_safetensors *file);

#endif
