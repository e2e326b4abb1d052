/* SPDX-License-Identifier: MIT
 *
 * Which CPUs this process may use, physical cores first. The topology is hwloc's; where it knows nothing of a CPU,
 * that CPU is taken for a core of its own.
 */
#include "base/system.h"
#include "base/threads.h"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

/* core[cpu]: a number that hardware threads of one core share, -1 unknown */
static void read_cores(int core[CPU_SETSIZE])
{
    hwloc_topology_t t;
    for (int i = 0; i < CPU_SETSIZE; i++) core[i] = -1;
    if (hwloc_topology_init(&t)) return;
    hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE); /* not caches, not devices: quick */
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (!hwloc_topology_load(t)) {
        int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);
        for (int c = 0; c < n; c++) {
            hwloc_obj_t o = hwloc_get_obj_by_type(t, HWLOC_OBJ_CORE, (unsigned)c);
            unsigned cpu;
            hwloc_bitmap_foreach_begin(cpu, o->cpuset) if (cpu < CPU_SETSIZE) core[cpu] = c;
            hwloc_bitmap_foreach_end();
        }
    }
    hwloc_topology_destroy(t);
}

int b1i_cpu_order(int *cpus, int max, int *cores)
{
    cpu_set_t allowed;
    int core[CPU_SETSIZE], count = 0;
    bool taken[CPU_SETSIZE] = {false}, used[CPU_SETSIZE] = {false}; /* by CPU; by core */
    *cores = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) {
        CPU_ZERO(&allowed); /* more CPUs than a cpu_set_t holds, or refused: only how many are online is known */
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        for (long i = 0; i < online && i < CPU_SETSIZE; i++) CPU_SET((size_t)i, &allowed);
    }
    read_cores(core);
    for (int i = 0; i < CPU_SETSIZE && count < max; i++) {
        if (!CPU_ISSET((size_t)i, &allowed) || (core[i] >= 0 && core[i] < CPU_SETSIZE && used[core[i]])) continue;
        if (core[i] >= 0 && core[i] < CPU_SETSIZE) used[core[i]] = true;
        taken[i] = true;
        cpus[count++] = i;
    }
    *cores = count;
    for (int i = 0; i < CPU_SETSIZE && count < max; i++) {
        if (CPU_ISSET((size_t)i, &allowed) && !taken[i]) cpus[count++] = i;
    }
    if (count == 0 && max > 0) {
        cpus[0] = 0;
        count = *cores = 1;
    }
    return count;
}

int b1i_cpu_count(void)
{
    int cpus[CPU_SETSIZE], cores, quota = b1i_cpu_quota_at("");
    b1i_cpu_order(cpus, CPU_SETSIZE, &cores);
    return quota && quota < cores ? quota : cores;
}
