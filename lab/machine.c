/* SPDX-License-Identifier: MIT
 *
 * The machine's record from /proc and /sys.
 */
#include "lab/machine.h"

#include "base/threads.h"

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { CPU_MAX = 4096, CACHE_MAX = 16 };

/* Instruction sets that a kernel here may use, as /proc/cpuinfo spells them. */
static const char *const SIMD[] = {
    "sse4_2",   "avx",      "avx2",        "fma",         "f16c",     "avx_vnni", "avx512f",  "avx512bw",
    "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16", "asimd",
    "asimddp",  "asimdhp",  "bf16",        "i8mm",        "sve",      "sve2",
};

bool b1i_machine_first_line(const char *path, char *line, size_t bytes)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool got = fgets(line, (int)bytes, f) != NULL;
    fclose(f);
    if (got) line[strcspn(line, "\n")] = 0;
    return got && line[0];
}

/* The value of the first /proc/cpuinfo line whose key is one of `keys` (NULL ends them). */
static bool cpuinfo(const char *const *keys, char *value, size_t bytes)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (f && !found && getline(&line, &room, f) > 0) {
        char *colon = strchr(line, ':');
        if (!colon) continue;
        char *end = colon;
        while (end > line && isspace((unsigned char)end[-1])) end--;
        *end = 0;
        for (int i = 0; keys[i] && !found; i++) found = strcmp(line, keys[i]) == 0;
        if (!found) continue;
        for (colon++; *colon == ' ';) colon++;
        snprintf(value, bytes, "%s", colon);
        value[strcspn(value, "\n")] = 0;
    }
    free(line);
    if (f) fclose(f);
    return found;
}

void b1i_machine_cpu(char *name, size_t bytes)
{
    static const char *const keys[] = {"model name", "Model", "Hardware", NULL};
    if (!cpuinfo(keys, name, bytes) && !b1i_machine_first_line("/sys/firmware/devicetree/base/model", name, bytes))
        snprintf(name, bytes, "unknown");
}

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *p = words; (p = strstr(p, word)); p += length)
        if ((p == words || p[-1] == ' ') && (p[length] == ' ' || p[length] == 0)) return true;
    return false;
}

static json_t *simd_list(void)
{
    static const char *const keys[] = {"flags", "Features", NULL};
    static char flags[8192];
    json_t *list = json_array();
    if (!list || !cpuinfo(keys, flags, sizeof flags)) return list;
    for (size_t i = 0; i < sizeof SIMD / sizeof *SIMD; i++)
        if (has_word(flags, SIMD[i])) json_array_append_new(list, json_string(SIMD[i]));
    return list;
}

typedef struct cache {
    int level;
    char kind[32], cpus[128];
    uint64_t bytes;
} cache;

/* The i-th cache of a CPU; false past the last. */
static bool cache_at(int cpu, int i, cache *c)
{
    char path[128], text[64];
    const char *at = "/sys/devices/system/cpu/cpu%d/cache/index%d/%s";
    snprintf(path, sizeof path, at, cpu, i, "level");
    if (!b1i_machine_first_line(path, text, sizeof text)) return false;
    c->level = atoi(text);
    snprintf(path, sizeof path, at, cpu, i, "type");
    if (!b1i_machine_first_line(path, c->kind, sizeof c->kind)) c->kind[0] = 0;
    snprintf(path, sizeof path, at, cpu, i, "shared_cpu_list");
    if (!b1i_machine_first_line(path, c->cpus, sizeof c->cpus)) c->cpus[0] = 0;
    snprintf(path, sizeof path, at, cpu, i, "size");
    c->bytes = 0;
    if (b1i_machine_first_line(path, text, sizeof text)) {
        char *unit;
        c->bytes = strtoull(text, &unit, 10);
        c->bytes <<= *unit == 'K' ? 10 : *unit == 'M' ? 20 : *unit == 'G' ? 30 : 0;
    }
    return true;
}

static json_t *cache_list(void)
{
    json_t *list = json_array();
    cache c;
    for (int i = 0; list && i < CACHE_MAX && cache_at(0, i, &c); i++)
        json_array_append_new(list, json_pack("{s:i,s:s,s:I,s:s}", "level", c.level, "kind", c.kind, "bytes",
                                              (json_int_t)c.bytes, "cpus", c.cpus));
    return list;
}

/* The first CPU of a list such as "0-3,8" that is allowed; -1: none. */
static int first_allowed(const char *list, const cpu_set_t *allowed)
{
    while (*list) {
        char *end;
        long from = strtol(list, &end, 10), to = from;
        if (end == list) return -1;
        if (*end == '-') to = strtol(end + 1, &end, 10);
        for (long cpu = from; cpu <= to && cpu < CPU_SETSIZE; cpu++)
            if (cpu >= 0 && CPU_ISSET((int)cpu, allowed)) return (int)cpu;
        list = *end == ',' ? end + 1 : end;
        if (*end != ',') return -1;
    }
    return -1;
}

uint64_t b1i_machine_cache_bytes(void)
{
    uint64_t sum = 0;
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) CPU_ZERO(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cache c;
        if (!CPU_ISSET(cpu, &allowed)) continue;
        for (int i = 0; i < CACHE_MAX && cache_at(cpu, i, &c); i++)
            if (c.level > 1 && strcmp(c.kind, "Instruction") != 0 && first_allowed(c.cpus, &allowed) == cpu)
                sum += c.bytes;
    }
    return sum;
}

uint64_t b1i_machine_throttle_count(void)
{
    static const char *const names[] = {"core_throttle_count", "package_throttle_count"};
    uint64_t sum = 0;
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    for (long cpu = 0; cpu < cpus && cpu < CPU_MAX; cpu++)
        for (size_t i = 0; i < 2; i++) {
            char path[128], text[32];
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/thermal_throttle/%s", cpu, names[i]);
            if (!b1i_machine_first_line(path, text, sizeof text)) break;
            sum += strtoull(text, NULL, 10);
        }
    return sum;
}

void b1i_machine_date(char *text, size_t bytes)
{
    time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(text, bytes, "%Y-%m-%dT%H:%M:%SZ", &utc)) snprintf(text, bytes, "unknown");
}

/* Who runs this machine, where it is a guest and says so. */
static json_t *hypervisor(void)
{
    static const char *const keys[] = {"flags", NULL};
    static char flags[8192];
    char name[128];
    if (b1i_machine_first_line("/sys/hypervisor/type", name, sizeof name)) return json_string(name);
    if (b1i_machine_first_line("/sys/class/dmi/id/sys_vendor", name, sizeof name) && strstr(name, "QEMU"))
        return json_string("kvm");
    if (cpuinfo(keys, flags, sizeof flags) && has_word(flags, "hypervisor")) return json_string("unnamed");
    return json_null();
}

static json_t *line_or_null(const char *path)
{
    char line[256];
    return b1i_machine_first_line(path, line, sizeof line) ? json_string(line) : json_null();
}

json_t *b1i_machine_record(void)
{
    char cpu[256], date[32], kernel[256] = "unknown", machine[80] = "unknown";
    struct utsname system;
    b1i_machine_cpu(cpu, sizeof cpu);
    b1i_machine_date(date, sizeof date);
    if (uname(&system) == 0) {
        snprintf(kernel, sizeof kernel, "%s %s", system.sysname, system.release);
        snprintf(machine, sizeof machine, "%s", system.machine);
    }
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return json_pack("{s:s,s:n,s:s,s:o,s:i,s:i,s:o,s:I,s:o,s:o,s:s,s:o,s:s,s:s,s:s}", "cpu", cpu, "gpu", "architecture",
                     machine, "simd", simd_list(), "cores", b1i_cpu_count(), "threads",
                     (int)sysconf(_SC_NPROCESSORS_ONLN), "caches", cache_list(), "memory_bytes",
                     (json_int_t)pages * page, "huge_pages",
                     line_or_null("/sys/kernel/mm/transparent_hugepage/enabled"), "governor",
                     line_or_null("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), "kernel", kernel,
                     "hypervisor", hypervisor(), "date", date, "version", b1_version(), "kernels", b1_kernels_name());
}
