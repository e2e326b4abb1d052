/* SPDX-License-Identifier: MIT
 *
 * A run's directory while it grows. See evidence.h.
 *
 * Who writes holds a lock of the directory. A file appears by a rename, whole; samples.jsonl grows by one write a
 * round. The manifest's rename is the last change: after it, and after failed.json's, every function refuses.
 */
#include "lab/evidence.h"

#include "lab/evidence_room.h"
#include "lab/files.h"
#include "lab/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART ".part"
enum {
    NAME_MOST = 240,
    FLAGS = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, /* no link is followed, no pipe waited for */
};

void (*b1i_evidence_hook)(const char *what);

static void step(const char *what)
{
    if (b1i_evidence_hook) b1i_evidence_hook(what);
}

/* ---- what a directory is ---- */

static bool there(const char *directory, const char *name)
{
    char path[4096];
    struct stat is;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", directory, name) >= sizeof path) return false;
    return lstat(path, &is) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), of_end = strlen(end);
    return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

/* Whether nothing but leftovers of a run that was killed at its first file is there. */
static bool empty(const char *directory)
{
    DIR *dir = opendir(directory);
    bool only = dir != NULL;
    for (const struct dirent *entry; only && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        only = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "environment.json" PART) == 0;
    }
    if (dir) closedir(dir);
    return only;
}

b1i_evidence_state b1i_evidence_look(const char *directory)
{
    struct stat is;
    if (lstat(directory, &is) != 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG ? b1i_evidence_none : b1i_evidence_foreign;
    if (stat(directory, &is) != 0 || !S_ISDIR(is.st_mode)) return b1i_evidence_foreign;
    if (there(directory, "manifest.json")) return b1i_evidence_sealed;
    if (there(directory, "failed.json")) return b1i_evidence_failed;
    if (there(directory, "environment.json") || there(directory, "plan.json") || empty(directory))
        return b1i_evidence_incomplete;
    return b1i_evidence_foreign;
}

/* ---- opening ---- */

static b1_status open_directory(const char *directory, b1i_evidence **out, b1_error *err)
{
    b1i_evidence *e = b1i_calloc(1, sizeof *e);
    b1_status st = B1_OK;
    if (!e) return b1i_fail_memory(err, sizeof *e);
    e->fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!(e->directory = b1i_strdup(directory)) || !(e->commands = json_array()))
        st = b1i_fail_memory(err, strlen(directory));
    else if (e->fd < 0)
        st = b1i_fail(err, B1_IO, "%s cannot be opened: %s", directory, strerror(errno));
    else if (flock(e->fd, LOCK_EX | LOCK_NB) != 0)
        st = b1i_fail(err, B1_ARGUMENT,
                      "%s is being written by another run, or a cell of one that was killed is still running: try "
                      "again when it has ended",
                      directory);
    if (st != B1_OK) {
        b1i_evidence_close(e);
        return st;
    }
    *out = e;
    return B1_OK;
}

b1_status b1i_evidence_create(const char *directory, b1i_evidence **out, b1_error *err)
{
    *out = NULL;
    if (mkdir(directory, 0777) != 0)
        return b1i_fail(err, errno == EEXIST ? B1_ARGUMENT : B1_IO, "the directory %s cannot be made: %s", directory,
                        strerror(errno));
    step("create");
    return open_directory(directory, out, err);
}

/* The records that the run has so far. */
static b1_status take_commands(b1i_evidence *e, b1_error *err)
{
    json_t *document, *list;
    b1_status st = b1i_lab_read_json(e->directory, "commands.json", &document, err);
    if (st != B1_OK) return st;
    list = json_object_get(document, "commands");
    if (json_is_array(list) && json_array_extend(e->commands, list) != 0)
        st = b1i_fail(err, B1_MEMORY, "not enough memory for the records of commands");
    json_decref(document);
    return st;
}

b1_status b1i_evidence_resume(const char *directory, b1i_evidence **out, b1_error *err)
{
    *out = NULL;
    b1i_evidence *e;
    b1_status st = open_directory(directory, &e, err);
    if (st != B1_OK) return st;
    b1i_names names = {0};
    if (b1i_evidence_look(directory) != b1i_evidence_incomplete) {
        st = b1i_fail(err, B1_ARGUMENT, "%s is no incomplete run", directory);
        goto fail;
    }
    B1I_TRY(b1i_lab_list(directory, &names, err));
    for (size_t i = 0; i < names.count; i++)
        if (ends_with(names.items[i], PART) && unlinkat(e->fd, names.items[i], 0) != 0) {
            st = b1i_fail(err, B1_IO, "%s/%s cannot be removed: %s", directory, names.items[i], strerror(errno));
            goto fail;
        }
    if (there(directory, "commands.json")) B1I_TRY(take_commands(e, err));
    *out = e;
    e = NULL;
fail:
    b1i_names_free(&names);
    b1i_evidence_close(e);
    return st;
}

void b1i_evidence_close(b1i_evidence *e)
{
    if (!e) return;
    if (e->fd >= 0) {
        flock(e->fd, LOCK_UN); /* of processes that were given it, too */
        close(e->fd);
    }
    b1i_free(e->directory);
    json_decref(e->commands);
    b1i_free(e);
}

const char *b1i_evidence_directory(const b1i_evidence *e) { return e->directory; }

/* ---- files ---- */

b1_status b1i_evidence_may_write(const b1i_evidence *e, const char *name, b1_error *err)
{
    const char *slash = strchr(name, '/');
    if (e->ended) return b1i_fail(err, B1_ARGUMENT, "%s is sealed: %s cannot be written", e->directory, name);
    if (!b1i_lab_name_ok(name) || strlen(name) > NAME_MOST || ends_with(name, PART) ||
        (slash && strchr(slash + 1, '/')))
        return b1i_fail(err, B1_ARGUMENT, "a run's file cannot be named \"%s\"", name);
    return B1_OK;
}

static b1_status cannot_write(const b1i_evidence *e, const char *name, b1_error *err)
{
    return b1i_fail(err, B1_IO, "%s/%s cannot be written: %s", e->directory, name, strerror(errno));
}

static b1_status make_folder(b1i_evidence *e, const char *name, b1_error *err)
{
    char folder[NAME_MOST + 1];
    struct stat is;
    const char *slash = strchr(name, '/');
    if (!slash) return B1_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - name), name);
    if (mkdirat(e->fd, folder, 0777) != 0 && errno != EEXIST) return cannot_write(e, folder, err);
    if (fstatat(e->fd, folder, &is, AT_SYMLINK_NOFOLLOW) != 0) return cannot_write(e, folder, err);
    if (!S_ISDIR(is.st_mode)) return b1i_fail(err, B1_IO, "%s/%s is no folder of the run", e->directory, folder);
    return B1_OK;
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

b1_status b1i_evidence_text(b1i_evidence *e, const char *name, const char *text, size_t bytes, b1_error *err)
{
    char part[NAME_MOST + sizeof PART];
    b1_status st;
    int fd = -1;
    bool good = false;
    B1I_TRY(b1i_evidence_may_write(e, name, err));
    B1I_TRY(make_folder(e, name, err));
    snprintf(part, sizeof part, "%s" PART, name);
    step(part);
    fd = openat(e->fd, part, O_WRONLY | O_CREAT | O_TRUNC | FLAGS, 0666);
    good = fd >= 0 && write_all(fd, text, bytes);
    if (fd >= 0) good = close(fd) == 0 && good;
    step(name);
    good = good && renameat(e->fd, part, e->fd, name) == 0;
    if (good) {
        step("renamed");
        return B1_OK;
    }
    st = cannot_write(e, name, err);
    if (fd >= 0) unlinkat(e->fd, part, 0);
fail:
    return st;
}

b1_status b1i_evidence_json(b1i_evidence *e, const char *name, json_t *value, b1_error *err)
{
    char *text = value ? json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(value);
    if (!text) return b1i_fail(err, B1_MEMORY, "not enough memory for %s", name);
    size_t bytes = strlen(text);
    text[bytes] = '\n'; /* in the place of the NUL */
    b1_status st = b1i_evidence_text(e, name, text, bytes + 1, err);
    b1i_json_text_free(text);
    return st;
}

b1_status b1i_evidence_path(b1i_evidence *e, const char *name, char **path, b1_error *err)
{
    b1_status st;
    *path = NULL;
    B1I_TRY(b1i_evidence_may_write(e, name, err));
    B1I_TRY(make_folder(e, name, err));
    if (!(*path = b1i_lab_join(e->directory, name))) st = b1i_fail_memory(err, strlen(name));
fail:
    return st;
}

b1_status b1i_evidence_append(b1i_evidence *e, const char *lines, size_t bytes, b1_error *err)
{
    const char *name = "samples.jsonl";
    struct stat is = {0};
    b1_status st = b1i_evidence_may_write(e, name, err);
    if (st != B1_OK) return st;
    step("append");
    int fd = openat(e->fd, name, O_WRONLY | O_CREAT | O_APPEND | FLAGS, 0666);
    if (fd < 0 || fstat(fd, &is) != 0) st = cannot_write(e, name, err);
    if (st == B1_OK && !write_all(fd, lines, bytes)) {
        st = cannot_write(e, name, err);
        if (ftruncate(fd, is.st_size) != 0) st = cannot_write(e, name, err); /* resume cuts it */
    }
    if (fd >= 0 && close(fd) != 0 && st == B1_OK) st = cannot_write(e, name, err);
    if (st == B1_OK) step("appended");
    return st;
}

b1_status b1i_evidence_cut(b1i_evidence *e, uint64_t bytes, b1_error *err)
{
    b1_status st = b1i_evidence_may_write(e, "samples.jsonl", err);
    if (st != B1_OK) return st;
    int fd = openat(e->fd, "samples.jsonl", O_WRONLY | FLAGS);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) st = cannot_write(e, "samples.jsonl", err);
    if (fd >= 0) close(fd);
    return st;
}

b1_status b1i_sha256_file(const char *path, char hex[65], uint64_t *bytes, b1_error *err)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_LENGTH], buffer[65536];
    SHA2_CTX hash;
    struct stat is;
    ssize_t n = -1;
    *bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &is) != 0) {
        b1_status st = b1i_fail(err, B1_IO, "%s cannot be read: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return st;
    }
    SHA256Init(&hash);
    while (S_ISREG(is.st_mode) && (n = read(fd, buffer, sizeof buffer)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        SHA256Update(&hash, buffer, (size_t)n);
        *bytes += (uint64_t)n;
    }
    int why = errno;
    close(fd);
    if (n != 0)
        return b1i_fail(err, B1_IO, "%s cannot be read: %s", path,
                        S_ISREG(is.st_mode) ? strerror(why) : "it is no regular file");
    SHA256Final(digest, &hash);
    for (size_t i = 0; i < sizeof digest; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = 0;
    return B1_OK;
}

/* ---- the end ---- */

/* The manifest of all that is there; folders that are empty go. */
static b1_status make_manifest(b1i_evidence *e, json_t *files, b1_error *err)
{
    b1_status st;
    b1i_names names;
    char *path = NULL;
    B1I_TRY(b1i_lab_list(e->directory, &names, err));
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i];
        uint64_t bytes;
        char hex[65];
        if (ends_with(name, "/")) {
            unlinkat(e->fd, name, AT_REMOVEDIR); /* one that is in use stays */
            continue;
        }
        if (!b1i_lab_name_ok(name) || ends_with(name, "@") || ends_with(name, PART)) {
            st = b1i_fail(err, B1_IO, "%s/%s does not belong to the run", e->directory, name);
            goto fail;
        }
        b1i_free(path);
        if (!(path = b1i_lab_join(e->directory, name))) {
            st = b1i_fail_memory(err, strlen(name));
            goto fail;
        }
        B1I_TRY(b1i_sha256_file(path, hex, &bytes, err));
        if (json_array_append_new(
                files, json_pack("{s:s,s:I,s:s}", "path", name, "size", (json_int_t)bytes, "sha256", hex)) != 0) {
            st = b1i_fail(err, B1_MEMORY, "not enough memory for the manifest");
            goto fail;
        }
    }
fail:
    b1i_free(path);
    b1i_names_free(&names);
    return st;
}

static b1_status write_commands(b1i_evidence *e, b1_error *err)
{
    return b1i_evidence_json(e, "commands.json",
                             json_pack("{s:s,s:O}", "schema", "batchone.commands/1", "commands", e->commands), err);
}

b1_status b1i_evidence_record(b1i_evidence *e, json_t *record, b1_error *err)
{
    if (json_array_append_new(e->commands, record) != 0)
        return b1i_fail(err, B1_MEMORY, "not enough memory for the record of a command");
    return write_commands(e, err);
}

b1_status b1i_evidence_seal(b1i_evidence *e, b1_error *err)
{
    b1_status st;
    json_t *files = NULL;
    B1I_TRY(write_commands(e, err));
    if (!(files = json_array())) {
        st = b1i_fail_memory(err, sizeof *files);
        goto fail;
    }
    B1I_TRY(make_manifest(e, files, err));
    B1I_TRY(b1i_evidence_json(e, "manifest.json",
                              json_pack("{s:s,s:O}", "schema", "batchone.manifest/1", "files", files), err));
    e->ended = true;
fail:
    json_decref(files);
    return st;
}

void b1i_evidence_fail(b1i_evidence *e, b1_status status, const char *reason)
{
    char date[32];
    b1i_machine_date(date, sizeof date);
    if (e->ended) return;
    write_commands(e, NULL);
    b1i_evidence_json(e, "failed.json",
                      json_pack("{s:s,s:s,s:s,s:s}", "schema", "batchone.failed/1", "status", b1_status_name(status),
                                "reason", reason, "date", date),
                      NULL);
    e->ended = true;
}
