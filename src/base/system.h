/* SPDX-License-Identifier: MIT
 *
 * What the system grants this process: memory and processor time of its cgroups, and its CPUs. Each takes the root
 * under which /proc and the cgroup mounts are looked up, so that a test can show it another machine; "" is this one.
 */
#ifndef B1I_SYSTEM_H
#define B1I_SYSTEM_H

#include "base/base.h"

/* As b1i_memory_available(). */
uint64_t b1i_memory_available_at(const char *root);
/* Whole CPUs that the cgroup's quota pays for, rounded up; 0: no quota. */
int b1i_cpu_quota_at(const char *root);

/* The CPUs that this thread's affinity allows: one of each physical core first, then the cores' other hardware
 * threads. At most `max` are written to `cpus`; returns their number (≥ 1 where max ≥ 1); *cores is how many of
 * them are distinct physical cores. */
int b1i_cpu_order(int *cpus, int max, int *cores);

#endif
