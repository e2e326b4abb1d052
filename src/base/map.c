/* SPDX-License-Identifier: MIT
 *
 * Files as they are read: mapped whole, or copied whole where small. Only regular files: a directory, pipe or device
 * is refused with a sentence, and opening one never waits.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static b1_status open_regular(const char *path, int *fd, size_t *size, b1_error *err)
{
    struct stat s;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0) return b1i_fail(err, B1_MODEL, "%s: cannot be opened: %s", path, strerror(errno));
    if (fstat(*fd, &s)) {
        b1i_fail(err, B1_MODEL, "%s: cannot be examined: %s", path, strerror(errno));
    } else if (!S_ISREG(s.st_mode)) {
        b1i_fail(err, B1_MODEL, "%s: is %s, expected a regular file", path,
                 S_ISDIR(s.st_mode) ? "a directory" : "a device, pipe or socket");
    } else if (s.st_size < 0 || (uint64_t)s.st_size > SIZE_MAX / 2) {
        b1i_fail(err, B1_MODEL, "%s: has an impossible size of %lld bytes", path, (long long)s.st_size);
    } else {
        *size = (size_t)s.st_size;
        return B1_OK;
    }
    close(*fd);
    *fd = -1;
    return B1_MODEL;
}

b1_status b1i_map_open(const char *path, b1i_map *out, b1_error *err)
{
    b1_status st;
    int fd = -1;
    void *data = MAP_FAILED;
    *out = (b1i_map){0};
    B1I_TRY(open_regular(path, &fd, &out->size, err));
    if (out->size) {
        data = mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            st = b1i_fail(err, B1_MODEL, "%s: cannot be mapped (%zu bytes): %s", path, out->size, strerror(errno));
            goto fail;
        }
    }
    out->path = b1i_strdup(path);
    if (!out->path) {
        st = b1i_fail_memory(err, strlen(path) + 1);
        goto fail;
    }
    out->data = out->size ? data : NULL;
    close(fd);
    return B1_OK;
fail:
    if (data != MAP_FAILED) munmap(data, out->size);
    if (fd >= 0) close(fd);
    *out = (b1i_map){0};
    return st;
}

void b1i_map_close(b1i_map *map)
{
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    b1i_free(map->path);
    *map = (b1i_map){0};
}

void b1i_map_release(const b1i_map *map, size_t offset, size_t bytes)
{
    if (offset >= map->size) return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t end = bytes < map->size - offset ? offset + bytes : map->size;
    size_t begin = (offset + page - 1) / page * page;
    if (end < map->size) end = end / page * page; /* nothing of ours lies behind the file's end */
    if (begin < end) madvise((void *)(uintptr_t)(map->data + begin), end - begin, MADV_DONTNEED);
}

b1_status b1i_read_file(const char *path, size_t limit, char **text, size_t *bytes, b1_error *err)
{
    b1_status st;
    int fd = -1;
    size_t size = 0, at = 0;
    *text = NULL;
    *bytes = 0;
    B1I_TRY(open_regular(path, &fd, &size, err));
    if (size > limit) {
        st = b1i_fail(err, B1_MODEL, "%s: has %zu bytes, expected at most %zu", path, size, limit);
        goto fail;
    }
    *text = b1i_malloc(size + 1);
    if (!*text) {
        st = b1i_fail_memory(err, size + 1);
        goto fail;
    }
    while (at < size) {
        ssize_t n = read(fd, *text + at, size - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            st = b1i_fail(err, B1_MODEL, "%s: cannot be read at byte %zu: %s", path, at, strerror(errno));
            goto fail;
        }
        if (n == 0) break; /* it became shorter meanwhile */
        at += (size_t)n;
    }
    (*text)[at] = 0;
    *bytes = at;
    close(fd);
    return B1_OK;
fail:
    b1i_free(*text);
    *text = NULL;
    if (fd >= 0) close(fd);
    return st;
}
