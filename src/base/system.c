/* SPDX-License-Identifier: MIT
 *
 * Limits of memory and processor time: /proc/meminfo and the cgroups of this process, version 1 and 2, each level
 * from the process's own group up to the mount's root (a parent's limit binds as much). File-backed pages that a
 * group has cached are reclaimed before anything fails, so they count as available, as MemAvailable counts them.
 */
#include "base/system.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, TEXT_BYTES = 64 << 10 };

/* A text file of the kernel's, cut at `size` - 1 bytes. false: there is none. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t at = 0;
    ssize_t n;
    while (at < size - 1 && (n = read(fd, text + at, size - 1 - at)) > 0) at += (size_t)n;
    close(fd);
    text[at] = 0;
    return at > 0;
}

/* The number after `key` at the start of a line ("MemAvailable:  123 kB", "inactive_file 4096"). */
static bool field(const char *text, const char *key, uint64_t *value)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, key, n) && (line[n] == ' ' || line[n] == ':')) {
            *value = strtoull(line + n + 1, NULL, 10);
            return true;
        }
        if (!*line) break;
    }
    return false;
}

/* A number in a group's file; false: no file, or "max" or -1: no limit. */
static bool number(const char *group, const char *name, uint64_t *value)
{
    char path[PATH_BYTES + 64], text[64], *end;
    snprintf(path, sizeof path, "%s/%s", group, name);
    if (!read_text(path, text, sizeof text) || text[0] == '-') return false;
    *value = strtoull(text, &end, 10);
    return end != text;
}

/* Whether `word` is one of the comma-separated words of `list` [bytes]. */
static bool has_word(const char *list, size_t bytes, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= bytes; i++) {
        if ((i == 0 || list[i - 1] == ',') && !strncmp(list + i, word, n) && (i + n == bytes || list[i + n] == ','))
            return true;
    }
    return false;
}

/* This process's path in the hierarchy of `controller` ("" is version 2), from /proc/self/cgroup. */
static bool own_group(const char *root, const char *controller, char *text, char *path, size_t size)
{
    char file[PATH_BYTES];
    snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
    if (!read_text(file, text, TEXT_BYTES)) return false;
    for (char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) *next++ = 0;
        char *list = strchr(line, ':'), *at = list ? strchr(list + 1, ':') : NULL;
        if (!at) continue;
        list++;
        bool found = *controller ? has_word(list, (size_t)(at - list), controller) : at == list;
        if (found) return snprintf(path, size, "%s", at + 1) < (int)size;
    }
    return false;
}

/* Where the hierarchy of `controller` is mounted, and which group is its root there, from /proc/self/mountinfo. */
static bool mount_of(const char *root, const char *controller, char *text, char *mount, char *mounted, size_t size)
{
    char file[PATH_BYTES];
    snprintf(file, sizeof file, "%s/proc/self/mountinfo", root);
    if (!read_text(file, text, TEXT_BYTES)) return false;
    for (char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) *next++ = 0;
        char *tail = strstr(line, " - "), type[32], options[512], group[1024], at[1024];
        if (!tail || sscanf(line, "%*s %*s %*s %1023s %1023s", group, at) != 2) continue;
        if (sscanf(tail + 3, "%31s %*s %511s", type, options) != 2) continue;
        bool found = *controller ? !strcmp(type, "cgroup") && has_word(options, strlen(options), controller)
                                 : !strcmp(type, "cgroup2");
        if (!found) continue;
        return snprintf(mount, size, "%s%s", root, at) < (int)size && snprintf(mounted, size, "%s", group) < (int)size;
    }
    return false;
}

typedef void (*visit_fn)(const char *group, bool v2, void *user);

/* Calls visit for the process's group of `controller` and every group above it. */
static void walk_groups(const char *root, const char *controller, visit_fn visit, void *user)
{
    char *text = b1i_malloc(TEXT_BYTES + 4 * PATH_BYTES);
    if (!text) return;
    char *own = text + TEXT_BYTES, *mount = own + PATH_BYTES, *mounted = mount + PATH_BYTES, *at = mounted + PATH_BYTES;
    for (int v2 = 0; v2 < 2; v2++) {
        const char *name = v2 ? "" : controller;
        if (!own_group(root, name, text, own, PATH_BYTES)) continue;
        if (!mount_of(root, name, text, mount, mounted, PATH_BYTES)) continue;
        size_t n = strlen(mounted);
        if (n > 1 && !strncmp(own, mounted, n)) memmove(own, own + n, strlen(own + n) + 1);
        size_t shortest = strlen(mount), below = strcmp(own, "/") ? strlen(own) : 0;
        if (shortest + below >= PATH_BYTES) continue;
        memcpy(at, mount, shortest);
        memcpy(at + shortest, own, below);
        at[shortest + below] = 0;
        for (;;) {
            visit(at, v2, user); /* a group that is not visible from here has no files and sets no limit */
            if (strlen(at) <= shortest) break;
            *strrchr(at, '/') = 0;
        }
    }
    b1i_free(text);
}

static void memory_left(const char *group, bool v2, void *user)
{
    static const char *const limits[2][2] = {{"memory.limit_in_bytes", "memory.limit_in_bytes"},
                                             {"memory.max", "memory.high"}};
    static const char *const caches[2][2] = {{"total_inactive_file", "total_active_file"},
                                             {"inactive_file", "active_file"}};
    uint64_t *least = user, limit = UINT64_MAX, used = 0, cached = 0, value;
    for (int i = 0; i < 2; i++) {
        if (number(group, limits[v2][i], &value) && value < limit) limit = value;
    }
    if (limit >= *least && limit >= (UINT64_C(1) << 62)) return;
    if (limit == UINT64_MAX || !number(group, v2 ? "memory.current" : "memory.usage_in_bytes", &used)) return;
    char path[PATH_BYTES + 64], text[8192];
    snprintf(path, sizeof path, "%s/memory.stat", group);
    if (read_text(path, text, sizeof text)) {
        for (int i = 0; i < 2; i++) cached += field(text, caches[v2][i], &value) ? value : 0;
    }
    used -= cached < used ? cached : used;
    uint64_t left = used < limit ? limit - used : 0;
    if (left < *least) *least = left;
}

uint64_t b1i_memory_available_at(const char *root)
{
    char path[PATH_BYTES], text[8192];
    uint64_t least = UINT64_MAX, kilobytes;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (read_text(path, text, sizeof text) && field(text, "MemAvailable", &kilobytes))
        least = kilobytes * 1024;
    else
        least = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    walk_groups(root, "memory", memory_left, &least);
    return least;
}

uint64_t b1i_memory_available(void) { return b1i_memory_available_at(""); }

static void quota(const char *group, bool v2, void *user)
{
    int *least = user;
    unsigned long long granted = 0, period = 0;
    if (v2) {
        char path[PATH_BYTES + 64], text[128];
        snprintf(path, sizeof path, "%s/cpu.max", group);
        if (!read_text(path, text, sizeof text) || sscanf(text, "%llu %llu", &granted, &period) != 2) return;
    } else {
        uint64_t q, p;
        if (!number(group, "cpu.cfs_quota_us", &q) || !number(group, "cpu.cfs_period_us", &p)) return;
        granted = q;
        period = p;
    }
    if (!granted || !period) return;
    unsigned long long cpus = granted / period + (granted % period != 0);
    if (cpus < (1u << 20) && (*least == 0 || (int)cpus < *least)) *least = (int)cpus;
}

int b1i_cpu_quota_at(const char *root)
{
    int least = 0;
    walk_groups(root, "cpu", quota, &least);
    return least;
}
