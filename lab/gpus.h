/* SPDX-License-Identifier: MIT
 *
 * data/gpus.json, built into the command.
 */
#ifndef LAB_GPUS_H
#define LAB_GPUS_H

#include <jansson.h>

/* The array of {"name", "gbps", "memory_gb", "bf16_tflops" (where it is known), "source", "bf16_source"}; a new
 * reference, NULL: no memory. */
json_t *b1i_gpus(void);
/* The entry of the GPU that its driver calls `name` ("NVIDIA H100 80GB HBM3"); a new reference, NULL: not known. */
json_t *b1i_gpu_find(const char *name);
/* Its datasheet's bandwidth, GB/s; 0: not known. */
double b1i_gpu_peak(const char *name);
/* Its datasheet's dense bf16 rate of the tensor cores, 10^12 operations a second, of which a multiplication and an
 * addition are two; 0: not known. */
double b1i_gpu_tflops(const char *name);

#endif
