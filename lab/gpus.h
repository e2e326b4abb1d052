/* SPDX-License-Identifier: MIT
 *
 * data/gpus.json, built into the command.
 */
#ifndef LAB_GPUS_H
#define LAB_GPUS_H

#include <jansson.h>

/* The array of {"name", "gbps", "memory_gb", "source"}; a new reference, NULL: no memory. */
json_t *b1i_gpus(void);
/* The datasheet's bandwidth, GB/s, of the GPU that its driver calls `name` ("NVIDIA H100 80GB HBM3"); 0: not known. */
double b1i_gpu_peak(const char *name);

#endif
