/* SPDX-License-Identifier: MIT
 *
 * External programs of a run: started without a shell, their output and exit code kept.
 */
#include "lab/evidence_room.h"
#include "lab/files.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { NOT_STARTED = 127, NAME_MOST = 200 };

void b1i_json_text_free(char *text)
{
    json_free_t release;
    json_get_alloc_funcs(NULL, &release);
    release(text);
}

/* Where an output of the program goes: a file of the directory, or one outside of it. */
typedef struct sink {
    char name[NAME_MOST + 16]; /* in the directory */
    char *path;
    bool outside;
} sink;

static b1_status open_sink(b1i_evidence *e, const char *name, const char *suffix, bool outside, sink *s, b1_error *err)
{
    b1_status st = B1_OK;
    *s = (sink){.outside = outside};
    snprintf(s->name, sizeof s->name, "profile/%s.%s", name, suffix);
    if (!outside) {
        B1I_TRY(b1i_evidence_path(e, s->name, &s->path, err));
        return B1_OK;
    }
    const char *folder = getenv("TMPDIR");
    if (!(s->path = b1i_lab_join(folder && *folder ? folder : "/tmp", "batchone-XXXXXX")))
        return b1i_fail_memory(err, NAME_MOST);
    int fd = mkstemp(s->path);
    if (fd < 0) return b1i_fail(err, B1_IO, "%s cannot be made: %s", s->path, strerror(errno));
    close(fd);
fail:
    return st;
}

static void close_sink(sink *s)
{
    if (s->path && s->outside) unlink(s->path);
    b1i_free(s->path);
}

/* {"file"} or {"sha256", "bytes"} of a sink. */
static json_t *sink_json(const sink *s)
{
    char hex[65];
    uint64_t bytes;
    if (!s->outside) return json_pack("{s:s}", "file", s->name);
    if (b1i_sha256_file(s->path, hex, &bytes, NULL) != B1_OK) return json_null();
    return json_pack("{s:s,s:I}", "sha256", hex, "bytes", (json_int_t)bytes);
}

/* The program's exit code, 128 + its signal, or NOT_STARTED with the reason in *why. */
static int run_program(const char *const *argv, const sink *out, const sink *bad, int *why)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status, flags = O_WRONLY | O_CREAT | O_TRUNC;
    if ((*why = posix_spawn_file_actions_init(&files)) != 0) return NOT_STARTED;
    if ((*why = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0)) == 0 &&
        (*why = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out->path, flags, 0666)) == 0 &&
        (*why = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, bad->path, flags, 0666)) == 0)
        *why = posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    if (*why != 0) return NOT_STARTED;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return NOT_STARTED;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A word as it is kept: what lies beside the run's directory, in "DIR.raw", or by an absolute path in it, begins with
 * "DIR"; of any other absolute path only the last name is kept: where things lie on this machine is nobody's
 * business. */
static json_t *word_json(const char *directory, const char *word)
{
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/') length--;
    const bool within = strncmp(word, directory, length) == 0;
    if (within && (strncmp(word + length, ".raw/", 5) == 0 || (*word == '/' && (!word[length] || word[length] == '/'))))
        return json_sprintf("DIR%s", word + length);
    const char *last = strrchr(word, '/');
    return json_string(*word == '/' && last[1] ? last + 1 : word);
}

json_t *b1i_evidence_words(const b1i_evidence *e, const char *const *argv)
{
    const char *directory = e->directory;
    json_t *words = json_array();
    for (int i = 0; words && argv[i]; i++)
        if (json_array_append_new(words, word_json(directory, argv[i])) != 0) {
            json_decref(words);
            return NULL;
        }
    return words;
}

/* A program that could not be started leaves no output of its own: the reason stands in its stderr. */
static void say_why(const sink *out, const sink *bad, const char *program, int why)
{
    FILE *f = fopen(out->path, "we");
    if (f) fclose(f);
    f = fopen(bad->path, "we");
    if (!f) return;
    fprintf(f, "%s could not be started: %s\n", program, strerror(why));
    fclose(f);
}

b1_status b1i_evidence_command(b1i_evidence *e, const char *name, const char *const *argv, bool private_output,
                               int *exit_code, b1_error *err)
{
    b1_status st;
    sink out = {0}, bad = {0};
    int why = 0;
    *exit_code = NOT_STARTED;
    if (strlen(name) > NAME_MOST || strchr(name, '/')) return b1i_fail(err, B1_ARGUMENT, "no name of a command");
    B1I_TRY(open_sink(e, name, "stdout", private_output, &out, err));
    B1I_TRY(open_sink(e, name, "stderr", private_output, &bad, err));
    uint64_t began = b1i_now_ns();
    *exit_code = run_program(argv, &out, &bad, &why);
    double seconds = (double)(b1i_now_ns() - began) / 1e9;
    if (why) say_why(&out, &bad, argv[0], why);
    if (json_array_append_new(e->commands,
                              json_pack("{s:s,s:o,s:b,s:i,s:f,s:o,s:o}", "name", name, "argv",
                                        b1i_evidence_words(e, argv), "started", why == 0, "exit_code", *exit_code,
                                        "seconds", seconds, "stdout", sink_json(&out), "stderr", sink_json(&bad))) != 0)
        st = b1i_fail(err, B1_MEMORY, "not enough memory for the record of %s", argv[0]);
fail:
    close_sink(&out);
    close_sink(&bad);
    return st;
}
