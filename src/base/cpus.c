/* SPDX-License-Identifier: MIT
 *
 * Which CPUs this process may use, physical cores first. The topology is hwloc's; where it knows nothing of a CPU,
 * that CPU is taken for a core of its own.
 */
#include "base/system.h"
#include "base/threads.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

/* core[cpu]: a number that hardware threads of one core share, -1 unknown. Read once: it costs milliseconds. */
static int core[CPU_SETSIZE];
static pthread_once_t core_once = PTHREAD_ONCE_INIT;

static void read_cores(void)
{
    hwloc_topology_t t;
    for (int i = 0; i < CPU_SETSIZE; i++) core[i] = -1;
    if (hwloc_topology_init(&t)) return;
    /* of all that it could find out, only cores */
    hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(t, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
#if HWLOC_API_VERSION >= 0x00020800
    hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS |
                                    HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
#endif
    if (!hwloc_topology_load(t)) {
        int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);
        for (int c = 0; c < n && c < CPU_SETSIZE; c++) {
            hwloc_const_cpuset_t set = hwloc_get_obj_by_type(t, HWLOC_OBJ_CORE, (unsigned)c)->cpuset;
            for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
                if (cpu < CPU_SETSIZE) core[cpu] = c;
            }
        }
    }
    hwloc_topology_destroy(t);
}

int b1i_cpu_order(int *cpus, int max, int *cores)
{
    cpu_set_t allowed;
    int count = 0;
    bool taken[CPU_SETSIZE] = {false}, used[CPU_SETSIZE] = {false}; /* by CPU; by core */
    *cores = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) {
        CPU_ZERO(&allowed); /* more CPUs than a cpu_set_t holds, or refused: only how many are online is known */
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        for (long i = 0; i < online && i < CPU_SETSIZE; i++) CPU_SET((size_t)i, &allowed);
    }
    pthread_once(&core_once, read_cores);
    for (int i = 0; i < CPU_SETSIZE && count < max; i++) {
        if (!CPU_ISSET((size_t)i, &allowed) || (core[i] >= 0 && used[core[i]])) continue;
        if (core[i] >= 0) used[core[i]] = true;
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
