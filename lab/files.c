/* SPDX-License-Identifier: MIT
 *
 * Small help with a run's files. See files.h.
 */
#include "lab/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

enum { FOLDERS_DEEP = 8 };
#define FILE_MOST_BYTES ((size_t)1 << 30)

char *b1i_lab_join(const char *directory, const char *name)
{
    size_t room = strlen(directory) + strlen(name) + 2;
    char *path = b1i_malloc(room);
    if (path) snprintf(path, room, "%s/%s", directory, name);
    return path;
}

b1_status b1i_lab_read(const char *directory, const char *name, char **text, size_t *bytes, b1_error *err)
{
    *text = NULL;
    char *path = b1i_lab_join(directory, name);
    if (!path) return b1i_fail_memory(err, strlen(directory));
    b1_error why = {0};
    b1_status st = b1i_read_file(path, FILE_MOST_BYTES, text, bytes, &why);
    if (st == B1_MODEL)
        st = b1i_fail(err, B1_IO, "%s", why.message);
    else if (st != B1_OK && err)
        *err = why;
    b1i_free(path);
    return st;
}

b1_status b1i_lab_parse(const char *text, size_t bytes, const char *name, json_t **out, b1_error *err)
{
    json_error_t error = {0};
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*out && (json_error_code(&error) == json_error_out_of_memory || !error.text[0]))
        return b1i_fail_memory(err, bytes);
    if (!*out)
        return b1i_fail(err, B1_IO, "%s: is no valid JSON at line %d, column %d: %s", name, error.line, error.column,
                        error.text);
    if (json_is_object(*out)) return B1_OK;
    json_decref(*out);
    *out = NULL;
    return b1i_fail(err, B1_IO, "%s: is no JSON object", name);
}

b1_status b1i_lab_read_json(const char *directory, const char *name, json_t **out, b1_error *err)
{
    char *text;
    size_t bytes;
    *out = NULL;
    b1_status st = b1i_lab_read(directory, name, &text, &bytes, err);
    if (st == B1_OK) st = b1i_lab_parse(text, bytes, name, out, err);
    b1i_free(text);
    return st;
}

bool b1i_lab_name_ok(const char *name)
{
    if (!*name) return false;
    for (const char *part = name;; part++) {
        size_t length = strcspn(part, "/");
        if (length == 0 || (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        for (utf8proc_ssize_t i = 0, bytes; i < (utf8proc_ssize_t)length; i += bytes) {
            utf8proc_int32_t code;
            bytes = utf8proc_iterate((const utf8proc_uint8_t *)part + i, (utf8proc_ssize_t)length - i, &code);
            if (bytes < 1 || code < ' ' || code == 0x7f) return false;
        }
        part += length;
        if (!*part) return true;
    }
}

json_t *b1i_lab_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

double b1i_lab_number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *b1i_lab_text_at(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

json_t *b1i_lab_text(const char *text) { return text && *text ? json_string(text) : json_null(); }

int b1i_lab_whole(const char *text, size_t most)
{
    size_t bytes = strlen(text);
    if (bytes <= most) return (int)bytes;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80) most--;
    return (int)most;
}

bool b1i_lab_is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) return false;
    return true;
}

/* ---- what lies in a directory ---- */

void b1i_names_free(b1i_names *names)
{
    for (size_t i = 0; i < names->count; i++) b1i_free(names->items[i]);
    b1i_free(names->items);
    *names = (b1i_names){0};
}

static b1_status add_name(b1i_names *names, const char *folder, const char *name, const char *suffix, b1_error *err)
{
    size_t room = strlen(folder) + strlen(name) + 2;
    if (!b1i_grow(&names->items, &names->room, names->count + 1, sizeof *names->items))
        return b1i_fail_memory(err, names->count * sizeof *names->items);
    char *full = b1i_malloc(room);
    if (!full) return b1i_fail_memory(err, room);
    snprintf(full, room, "%s%s%s", folder, name, suffix);
    names->items[names->count++] = full;
    return B1_OK;
}

/* Takes `fd` over. */
static b1_status list_folder(int fd, const char *folder, int depth, b1i_names *names, b1_error *err)
{
    b1_status st = B1_OK;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        st = b1i_fail(err, B1_IO, "the folder %s cannot be read: %s", folder, strerror(errno));
        close(fd);
        return st;
    }
    for (const struct dirent *entry; st == B1_OK && (entry = readdir(dir));) {
        struct stat is;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (fstatat(dirfd(dir), entry->d_name, &is, AT_SYMLINK_NOFOLLOW) != 0) {
            st = b1i_fail(err, B1_IO, "%s%s cannot be looked at: %s", folder, entry->d_name, strerror(errno));
            break;
        }
        const char *suffix = S_ISREG(is.st_mode) ? "" : S_ISDIR(is.st_mode) ? "/" : "@";
        B1I_TRY(add_name(names, folder, entry->d_name, suffix, err));
        if (*suffix != '/') continue;
        int below = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0 || depth >= FOLDERS_DEEP) {
            st = b1i_fail(err, B1_IO, "the folder %s%s cannot be read: %s", folder, entry->d_name,
                          below < 0 ? strerror(errno) : "too deep");
            if (below >= 0) close(below);
            break;
        }
        st = list_folder(below, names->items[names->count - 1], depth + 1, names, err);
    }
fail:
    closedir(dir);
    return st;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

b1_status b1i_lab_list(const char *directory, b1i_names *out, b1_error *err)
{
    *out = (b1i_names){0};
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return b1i_fail(err, B1_IO, "%s cannot be read: %s", directory, strerror(errno));
    b1_status st = list_folder(fd, "", 0, out, err);
    if (st != B1_OK) b1i_names_free(out);
    if (st == B1_OK && out->count) qsort(out->items, out->count, sizeof *out->items, by_name);
    return st;
}
