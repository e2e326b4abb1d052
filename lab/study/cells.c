/* SPDX-License-Identifier: MIT
 *
 * Folders of cells: written whole or not at all, with a manifest of their own. See measure.h.
 */
#include "lab/evidence_room.h"
#include "lab/files.h"
#include "lab/study/measure.h"
#include "lab/study/plan.h"
#include "lab/verify_room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MOST = 64 };

typedef struct folder {
    char *cells, *part, *whole; /* DIRECTORY/cells; …/ID.PID.part; …/ID */
    int fd;                     /* of part; −1 */
    json_t *files;              /* of its manifest */
} folder;

static b1_status cannot(const char *path, const char *what, b1_error *err)
{
    return b1i_fail(err, B1_IO, "%s cannot be %s: %s", path, what, strerror(errno));
}

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    return good;
}

static b1_status open_folder(const char *directory, const char *id, folder *f, b1_error *err)
{
    char name[NAME_MOST + 64];
    struct stat is;
    *f = (folder){.fd = -1};
    if (!b1i_lab_name_ok(id) || strchr(id, '/') || strlen(id) > NAME_MOST)
        return b1i_fail(err, B1_ARGUMENT, "no cell can be named \"%s\"", id);
    snprintf(name, sizeof name, "%s.%ld.part", id, (long)getpid());
    if (!(f->cells = b1i_lab_join(directory, "cells")) || !(f->part = b1i_lab_join(f->cells, name)) ||
        !(f->whole = b1i_lab_join(f->cells, id)) || !(f->files = json_array()))
        return b1i_fail_memory(err, strlen(directory) + sizeof name);
    if (mkdir(f->cells, 0777) != 0 && errno != EEXIST) return cannot(f->cells, "made", err);
    if (lstat(f->whole, &is) == 0) return b1i_fail(err, B1_ARGUMENT, "%s is there already", f->whole);
    b1i_cell_remove(f->part);
    if (mkdir(f->part, 0777) != 0) return cannot(f->part, "made", err);
    f->fd = open(f->part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return f->fd < 0 ? cannot(f->part, "opened", err) : B1_OK;
}

static void close_folder(folder *f)
{
    if (f->fd >= 0) close(f->fd);
    json_decref(f->files);
    b1i_free(f->cells);
    b1i_free(f->part);
    b1i_free(f->whole);
}

static b1_status add_entry(const folder *f, const char *name, b1_error *err)
{
    char hex[65], *path = b1i_lab_join(f->part, name);
    uint64_t bytes;
    if (!path) return b1i_fail_memory(err, strlen(f->part));
    b1_status st = b1i_sha256_file(path, hex, &bytes, err);
    b1i_free(path);
    if (st == B1_OK && json_array_append_new(f->files, json_pack("{s:s,s:I,s:s}", "path", name, "size",
                                                                 (json_int_t)bytes, "sha256", hex)) != 0)
        st = b1i_fail(err, B1_MEMORY, "not enough memory for the manifest of %s", f->part);
    return st;
}

static b1_status write_json(const folder *f, const char *name, const json_t *json, b1_error *err)
{
    char *text = json ? json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) : NULL;
    if (!text) return b1i_fail(err, B1_MEMORY, "not enough memory for %s", name);
    size_t bytes = strlen(text);
    text[bytes] = '\n'; /* in the place of the NUL */
    int fd = openat(f->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    bool good = fd >= 0 && write_all(fd, text, bytes + 1) && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        why = errno;
    }
    b1i_json_text_free(text);
    return good ? B1_OK : b1i_fail(err, B1_IO, "%s/%s cannot be written: %s", f->part, name, strerror(why));
}

static b1_status write_folder(folder *f, const b1i_cell_file *files, size_t count, b1_error *err)
{
    b1_status st = B1_OK;
    json_t *manifest = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!files[i].json) continue;
        B1I_TRY(write_json(f, files[i].name, files[i].json, err));
        B1I_TRY(add_entry(f, files[i].name, err));
    }
    manifest = json_pack("{s:s,s:O}", "schema", "batchone.manifest/1", "files", f->files);
    B1I_TRY(write_json(f, "manifest.json", manifest, err));
    if (fsync(f->fd) != 0) {
        st = cannot(f->part, "written", err);
        goto fail;
    }
    if (rename(f->part, f->whole) != 0) {
        st = errno == EEXIST || errno == ENOTEMPTY ? b1i_fail(err, B1_ARGUMENT, "%s is there already", f->whole)
                                                   : cannot(f->whole, "made", err);
        goto fail;
    }
    if (!sync_folder(f->cells)) st = cannot(f->cells, "written", err);
fail:
    json_decref(manifest);
    return st;
}

b1_status b1i_cell_write(const char *directory, const char *id, const b1i_cell_file *files, size_t count, b1_error *err)
{
    folder f;
    b1_status st = open_folder(directory, id, &f, err);
    if (st == B1_OK) {
        st = write_folder(&f, files, count, err);
        if (st != B1_OK) b1i_cell_remove(f.part);
    }
    close_folder(&f);
    for (size_t i = 0; i < count; i++) json_decref(files[i].json);
    return st;
}

void b1i_cell_remove(const char *path)
{
    b1i_names names;
    if (b1i_lab_list(path, &names, NULL) == B1_OK) {
        for (size_t i = 0; i < names.count; i++) {
            char *file = b1i_lab_join(path, names.items[i]);
            if (file) unlink(file);
            b1i_free(file);
        }
        b1i_names_free(&names);
    }
    rmdir(path);
}

b1_status b1i_cell_whole(const char *directory, const char *id, void (*say)(void *user, const char *line), void *user,
                         bool *holds, b1_error *err)
{
    char name[NAME_MOST + 16];
    *holds = false;
    if ((size_t)snprintf(name, sizeof name, "cells/%s", id) >= sizeof name)
        return b1i_fail(err, B1_ARGUMENT, "no cell can be named \"%s\"", id);
    char *where = b1i_lab_join(directory, name);
    if (!where) return b1i_fail_memory(err, strlen(directory));
    b1i_verification v = {.directory = where, .say = say, .user = user, .holds = true};
    b1_status st = b1i_verify_files(&v, err);
    b1i_verify_end(&v);
    b1i_free(where);
    *holds = st == B1_OK && v.holds;
    return st;
}

void b1i_study_sweep(const char *directory)
{
    char *cells = b1i_lab_join(directory, "cells");
    DIR *dir = cells ? opendir(cells) : NULL;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char id[NAME_MOST + 1];
        size_t length = strlen(entry->d_name), to_dot = strcspn(entry->d_name, ".");
        if (length < 5 || strcmp(entry->d_name + length - 5, ".part") != 0 || to_dot >= sizeof id) continue;
        snprintf(id, sizeof id, "%.*s", (int)to_dot, entry->d_name);
        if (!b1i_study_has(directory, id)) continue;
        char *path = b1i_lab_join(cells, entry->d_name);
        if (path) b1i_cell_remove(path);
        b1i_free(path);
    }
    if (dir) closedir(dir);
    b1i_free(cells);
}
