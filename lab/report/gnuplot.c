/* SPDX-License-Identifier: MIT
 *
 * Running gnuplot.
 */
#include "lab/report/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

b1_status b1i_gnuplot_find(b1_error *err)
{
    const char *path = getenv("PATH");
    char candidate[4096];
    for (const char *at = path ? path : "/usr/bin:/bin"; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        size_t length = strcspn(at, ":");
        int n = snprintf(candidate, sizeof candidate, "%.*s/gnuplot", (int)length, at);
        if (length && n < (int)sizeof candidate && access(candidate, X_OK) == 0) return B1_OK;
    }
    return b1i_fail(err, B1_UNSUPPORTED,
                    "a report needs gnuplot for its plots, and it is not installed: install the package gnuplot-nox");
}

/* Both standard outputs of the child go to `log`, its input is empty. */
static int start(const char *folder, const char *script, int log, pid_t *child)
{
    char *argv[] = {"gnuplot", "-d", (char *)(uintptr_t)script, NULL};
    posix_spawn_file_actions_t actions;
    int bad = posix_spawn_file_actions_init(&actions);
    if (bad) return bad;
    if (!bad) bad = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!bad) bad = posix_spawn_file_actions_adddup2(&actions, log, STDOUT_FILENO);
    if (!bad) bad = posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
    if (!bad) bad = posix_spawn_file_actions_addchdir_np(&actions, folder);
    if (!bad) bad = posix_spawnp(child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return bad;
}

/* The first words of what it said, on one line. */
static void first_words(FILE *log, char *words, size_t bytes)
{
    rewind(log);
    size_t n = fread(words, 1, bytes - 1, log);
    words[n] = 0;
    char *at = words + strspn(words, "\n\r\t ");
    memmove(words, at, strlen(at) + 1);
    for (at = words; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
}

b1_status b1i_gnuplot_run(const char *folder, const char *script, b1_error *err)
{
    pid_t child;
    int status = 0;
    char words[400];
    FILE *log = tmpfile();
    if (!log) return b1i_fail(err, B1_IO, "no temporary file for gnuplot's messages: %s", strerror(errno));
    int bad = start(folder, script, fileno(log), &child);
    while (!bad && waitpid(child, &status, 0) < 0)
        if (errno != EINTR) bad = errno;
    first_words(log, words, sizeof words);
    fclose(log);
    if (bad == ENOENT)
        return b1i_gnuplot_find(err) == B1_OK ? b1i_fail(err, B1_IO, "%s: is gone", folder) : B1_UNSUPPORTED;
    if (bad) return b1i_fail(err, B1_IO, "gnuplot cannot be run: %s", strerror(bad));
    if (WIFSIGNALED(status))
        return b1i_fail(err, B1_IO, "gnuplot was ended by signal %d at %s/%s", WTERMSIG(status), folder, script);
    if (WEXITSTATUS(status))
        return b1i_fail(err, B1_IO, "gnuplot failed (exit %d) at %s/%s: %s", WEXITSTATUS(status), folder, script,
                        words);
    return B1_OK;
}
