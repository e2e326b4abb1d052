/* SPDX-License-Identifier: MIT
 *
 * Energy by counters alone: NVML's total of a GPU, RAPL's packages of the CPU (and DRAM). What is not readable is
 * absent, never estimated.
 */
#ifndef LAB_ENERGY_H
#define LAB_ENERGY_H

#include "lab/device.h"

typedef struct b1i_energy b1i_energy;
/* *out is NULL, with B1_OK, where the device has no counter that may be read. */
b1_status b1i_energy_open(int ordinal, b1i_energy **out, b1_error *err);
void b1i_energy_close(b1i_energy *energy);
const char *b1i_energy_source(const b1i_energy *energy); /* "nvml", "rapl package" … */
/* Joules since the last call, or since it was opened; a counter's wrap is seen to. The counter's own step is
 * *resolution_j: a run is long enough where it is many of them. */
b1_status b1i_energy_take(b1i_energy *energy, double *joules, double *resolution_j, b1_error *err);

#endif
