/* SPDX-License-Identifier: MIT
 *
 * What the command writes and reads. Standard output carries results alone; everything else goes to stderr.
 */
#include "app/output.h"

#include "app/app.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BAR_WIDTH = 30, BAR_NS = 50000000 };

bool b1i_colours(FILE *file)
{
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return !(off && *off) && isatty(fileno(file)) && terminal && strcmp(terminal, "dumb") != 0;
}

static void print_line(const char *head, const char *format, va_list values)
{
    char line[1400];
    vsnprintf(line, sizeof line, format, values);
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = ' '; /* one sentence, one line, whatever a file's name holds */
    fprintf(stderr, "%s%s\n", head, line);
}

void b1i_print_error(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_line(b1i_colours(stderr) ? "\033[1;31mbatchone:\033[0m " : "batchone: ", format, values);
    va_end(values);
}

void b1i_print_hint(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_line("  ", format, values);
    va_end(values);
}

void b1i_note_print(const b1_session *session)
{
    static bool said;
    const char *note = b1_session_note(session);
    if (!note || said) return;
    said = true;
    fprintf(stderr, "batchone: %s\n", note);
}

int b1i_exit_code(b1_status status)
{
    switch (status) {
    case B1_OK:
        return B1I_EXIT_OK;
    case B1_ARGUMENT:
        return B1I_EXIT_USAGE;
    case B1_MODEL:
        return B1I_EXIT_MODEL;
    case B1_MEMORY:
        return B1I_EXIT_MEMORY;
    case B1_CANCELLED:
        return B1I_EXIT_CANCELLED;
    default:
        return B1I_EXIT_FAILED;
    }
}

int b1i_report(const b1_error *err)
{
    b1i_print_error("%s", err->message[0] ? err->message : b1_status_text(err->status));
    return b1i_exit_code(err->status);
}

/* ---- progress ---- */

bool b1i_progress_bar(void *user, const char *what, uint64_t done, uint64_t total)
{
    b1i_progress *p = user;
    uint64_t now = b1i_now_ns();
    if (b1i_cancel_asked()) return false;
    if (!isatty(STDERR_FILENO) || now - p->drawn_ns < BAR_NS) return true;
    p->drawn_ns = now;
    p->shown = true;
    if (total == 0) {
        fprintf(stderr, "\r\033[K%s", what);
        fflush(stderr);
        return true;
    }
    int full = (int)((double)done / (double)total * BAR_WIDTH);
    fprintf(stderr, "\r\033[K%-10s [%.*s%.*s] %3d %%", what, full, "##############################", BAR_WIDTH - full,
            "..............................", (int)(100.0 * (double)done / (double)total)); /* 100 when all is done */
    fflush(stderr);
    return true;
}

void b1i_progress_show(void *user, const char *what, uint64_t done, uint64_t total)
{
    b1i_progress_bar(user, what, done, total);
}

void b1i_progress_end(b1i_progress *p)
{
    if (!p->shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    p->shown = false;
}

/* ---- text ---- */

b1_status b1i_write_text(const char *text, size_t bytes, b1_error *err)
{
    while (bytes > 0) {
        ssize_t n = write(STDOUT_FILENO, text, bytes);
        if (n < 0 && errno == EINTR && b1i_cancel_asked()) return b1i_fail(err, B1_CANCELLED, "cancelled");
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return b1i_fail(err, B1_IO, "standard output cannot be written: %s", strerror(errno));
        text += n;
        bytes -= (size_t)n;
    }
    return B1_OK;
}

/* ---- input ---- */

b1_status b1i_read_all(FILE *file, const char *name, char **data, size_t *bytes, b1_error *err)
{
    char *text = NULL;
    size_t room = 0, count = 0, got;
    do {
        if (!b1i_grow(&text, &room, count + 65536, 1)) {
            b1i_free(text);
            return b1i_fail_memory(err, count + 65536);
        }
        got = fread(text + count, 1, room - count, file);
        count += got;
    } while (got > 0 && !b1i_cancel_asked());
    if (b1i_cancel_asked() || ferror(file)) {
        b1_status st = b1i_cancel_asked() ? b1i_fail(err, B1_CANCELLED, "cancelled while reading %s", name)
                                          : b1i_fail(err, B1_IO, "%s cannot be read: %s", name, strerror(errno));
        b1i_free(text);
        return st;
    }
    *data = text;
    *bytes = count;
    return B1_OK;
}

/* ---- files that are complete or absent ---- */

b1_status b1i_outfile_open(const char *path, b1i_outfile *out, b1_error *err)
{
    *out = (b1i_outfile){.file = stdout};
    if (strcmp(path, "-") == 0) return B1_OK;
    size_t room = strlen(path) + 16;
    int fd = -1;
    out->file = NULL;
    if (!(out->path = b1i_strdup(path)) || !(out->temporary = b1i_malloc(room))) {
        b1i_outfile_discard(out);
        return b1i_fail_memory(err, room);
    }
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) {
        /* A device or a pipe (/dev/stdout, a named pipe) cannot be replaced; it is written as it is. */
        b1i_free(out->temporary);
        out->temporary = NULL;
        out->file = fopen(path, "we");
    } else {
        snprintf(out->temporary, room, "%s.XXXXXX", path);
        fd = mkstemp(out->temporary);
        if (fd < 0) out->temporary[0] = 0;
        mode_t mask = umask(0);
        umask(mask);
        if (fd >= 0 && fchmod(fd, 0666 & ~mask) == 0) out->file = fdopen(fd, "w");
    }
    if (out->file) return B1_OK;
    b1_status st = b1i_fail(err, B1_IO, "%s cannot be written: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    b1i_outfile_discard(out);
    return st;
}

b1_status b1i_outfile_commit(b1i_outfile *out, b1_error *err)
{
    b1_status st = B1_OK;
    const char *name = out->path ? out->path : "standard output";
    bool good = fflush(out->file) == 0 && !ferror(out->file);
    if (out->path) {
        good = fclose(out->file) == 0 && good;
        out->file = NULL;
        if (good && out->temporary) good = rename(out->temporary, out->path) == 0;
    }
    if (!good) st = b1i_fail(err, B1_IO, "%s cannot be written: %s", name, strerror(errno));
    if (good && out->temporary) out->temporary[0] = 0;
    b1i_outfile_discard(out);
    return st;
}

void b1i_outfile_discard(b1i_outfile *out)
{
    if (out->path && out->file) fclose(out->file);
    if (out->temporary && out->temporary[0]) unlink(out->temporary);
    b1i_free(out->path);
    b1i_free(out->temporary);
    *out = (b1i_outfile){0};
}

/* ---- JSON ---- */

b1_status b1i_json_write(json_t *document, FILE *file, b1_error *err)
{
    if (!document) return b1i_fail(err, B1_MEMORY, "not enough memory for the JSON document");
    int bad = json_dumpf(document, file, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(document);
    if (bad || fputc('\n', file) == EOF || fflush(file) != 0)
        return b1i_fail(err, B1_IO, "the JSON document cannot be written: %s", strerror(errno));
    return B1_OK;
}

int b1i_column_width(const json_t *rows, const char *key, int least)
{
    size_t width = (size_t)least;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const size_t length = json_string_length(json_object_get(json_array_get(rows, i), key));
        width = length > width ? length : width;
    }
    return (int)width;
}

json_t *b1i_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

const char *b1i_human_bytes(uint64_t bytes, char *text)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1000 && unit < 4; unit++) value /= 1000;
    snprintf(text, 24, unit == 0 ? "%.0f %s" : value < 100 ? "%.2f %s" : "%.1f %s", value, units[unit]);
    return text;
}

bool b1i_cache_path(const char *name, bool make, char *path, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[3000];
    if (cache && cache[0] == '/')
        snprintf(folder, sizeof folder, "%s", cache);
    else if (home && home[0] == '/')
        snprintf(folder, sizeof folder, "%s/.cache", home);
    else
        return false;
    if (make) mkdir(folder, 0700);
    size_t length = strlen(folder);
    snprintf(folder + length, sizeof folder - length, "/batchone");
    if (make && mkdir(folder, 0700) != 0 && errno != EEXIST) return false;
    return (size_t)snprintf(path, bytes, "%s/%s", folder, name) < bytes;
}

bool b1i_is_shape(const char *name)
{
    for (int i = 0; b1_shape_name(i); i++)
        if (strcmp(b1_shape_name(i), name) == 0) return true;
    return false;
}

bool b1i_means_shape(const char *model) { return b1i_is_shape(model) && access(model, F_OK) != 0; }

const char *b1i_own_path(char *path, size_t bytes)
{
    ssize_t n = readlink("/proc/self/exe", path, bytes - 1);
    path[n > 0 ? n : 0] = 0;
    return n > 0 ? path : NULL;
}
