/* SPDX-License-Identifier: MIT
 *
 * Energy by counters alone: NVML's total of a GPU, RAPL's packages of the CPU and their DRAM. What is not readable is
 * absent, never estimated. RAPL counts what the whole package does, other processes too.
 *
 * A counter moves in ticks (NVML's some ten times a second), so that what is read between two ticks is old. Energy a
 * token is therefore taken from one tick to another, of steps that follow one another.
 */
#ifndef LAB_ENERGY_H
#define LAB_ENERGY_H

#include "lab/device.h"

typedef struct b1i_energy b1i_energy;
/* Of the GPU `ordinal` NVML's counter; of the CPU, and beside NVML's, what RAPL has. *out is NULL, with B1_OK, where
 * there is no counter that may be read. */
b1_status b1i_energy_open(int ordinal, b1i_energy **out, b1_error *err);
/* The same with RAPL's files in `sysfs`/class/powercap, for tests. */
b1_status b1i_energy_open_at(const char *sysfs, int ordinal, b1i_energy **out, b1_error *err);
void b1i_energy_close(b1i_energy *energy); /* NULL is fine */
/* Of the first counter: "nvml", "rapl package", … */
const char *b1i_energy_source(const b1i_energy *energy);
/* Joules of the first counter since the last call, or since it was opened; a wrap is seen to. *resolution_j is the
 * largest tick that was seen so far (0: none yet): a run is long enough where it is many of them. */
b1_status b1i_energy_take(b1i_energy *energy, double *joules, double *resolution_j, b1_error *err);

/* What is measured: `step` runs one step, of `tokens` tokens. These may be NULL: `more`, whether it wants another step
 * whatever the counters say; `looked`, told that the counters were read, which delays the next step. */
typedef struct b1i_energy_work {
    void *user;
    b1_status (*step)(void *user, b1_error *err);
    int tokens;
    bool (*more)(void *user);
    void (*looked)(void *user);
    bool (*cancelled)(void);
} b1i_energy_work;
enum { B1I_ENERGY_NS = 1000000000 };
/* Runs steps until `least_ns` lie between two ticks of the first counter: {"joules_per_token", "source",
 * "tokens", "seconds" (between the two), "counters": [{"source", "joules_per_token", "tokens", "seconds"}]}, null and 0
 * of a counter that does not move. *out is JSON's null where the first one does not, or `energy` is NULL. B1_CANCELLED,
 * or what a step returned. */
b1_status b1i_energy_measure(b1i_energy *energy, const b1i_energy_work *work, uint64_t least_ns, json_t **out,
                             b1_error *err);

#endif
