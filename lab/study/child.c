/* SPDX-License-Identifier: MIT
 *
 * A program in a process group of its own. See child.h. Its input is a file in memory, so that nothing here waits for a
 * program that does not read, and none is told of a pipe that broke.
 */
#include "lab/study/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utf8proc.h>

extern char **environ;

enum { LOOK_MS = 20, READ_BYTES = 1 << 16, READS_MOST = 16 };
static const uint64_t patience_ns = 1000000000; /* between asking the group to end and ending it */

/* ---- starting ---- */

static int spawn(b1i_child *c, const char *command, int in, int out, int bad)
{
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    static const int signals[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaddset(&usual, signals[i]);
    int bad_files = posix_spawn_file_actions_init(&files), bad_how = posix_spawnattr_init(&how);
    int why = bad_files ? bad_files : bad_how;
    if (!why) why = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    if (!why) why = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    if (!why) why = posix_spawn_file_actions_adddup2(&files, bad, STDERR_FILENO);
    if (!why) why = posix_spawnattr_setpgroup(&how, 0);
    if (!why) why = posix_spawnattr_setsigmask(&how, &none);
    if (!why) why = posix_spawnattr_setsigdefault(&how, &usual);
    if (!why)
        why = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!why) why = posix_spawn(&c->pid, argv[0], &files, &how, (char *const *)(uintptr_t)argv, environ);
    if (!bad_files) posix_spawn_file_actions_destroy(&files);
    if (!bad_how) posix_spawnattr_destroy(&how);
    return why;
}

/* A file in memory with the text, at its beginning; −1 with errno. */
static int text_file(const char *text)
{
    size_t bytes = strlen(text), at = 0;
    int fd = memfd_create("input", MFD_CLOEXEC);
    while (fd >= 0 && at < bytes) {
        ssize_t n = write(fd, text + at, bytes - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) goto fail;
        at += (size_t)n;
    }
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) == 0) return fd;
fail:
    if (fd >= 0) close(fd);
    return -1;
}

static void close_all(int *fds, int count)
{
    for (int i = 0; i < count; i++)
        if (fds[i] >= 0) close(fds[i]);
}

b1_status b1i_child_start(b1i_child *c, const char *command, const char *input, b1_error *err)
{
    *c = (b1i_child){.out = -1, .bad = -1};
    int fds[] = {-1, -1, -1, -1, -1}; /* both ends of its stdout, of its stderr, its stdin */
    int why = 0;
    if (pipe2(fds, O_CLOEXEC) != 0 || pipe2(fds + 2, O_CLOEXEC) != 0 || (fds[4] = text_file(input)) < 0 ||
        fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0 || fcntl(fds[2], F_SETFL, O_NONBLOCK) != 0)
        why = errno;
    if (!why) why = spawn(c, command, fds[4], fds[1], fds[3]);
    if (why) {
        close_all(fds, 5);
        c->pid = 0;
        return b1i_fail(err, why == ENOMEM ? B1_MEMORY : B1_SYSTEM, "it could not be started: %s", strerror(why));
    }
    c->out = fds[0];
    c->bad = fds[2];
    int theirs[] = {fds[1], fds[3], fds[4]};
    close_all(theirs, 3);
    return B1_OK;
}

/* ---- hearing ---- */

/* Whether the process has ended; it stays a zombie, so that its group's number is nobody else's. */
static bool has_ended(const b1i_child *c)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == c->pid;
}

/* Takes what can be read; 0 where there was none. A stream that ends is closed. */
static size_t take(int *fd, char *to, size_t room)
{
    if (*fd < 0) return 0;
    ssize_t n = read(*fd, to, room);
    if (n > 0) return (size_t)n;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    close(*fd);
    *fd = -1;
    return 0;
}

static void take_stderr(b1i_child *c)
{
    char piece[READ_BYTES];
    size_t n;
    for (int i = 0; i < READS_MOST && (n = take(&c->bad, piece, sizeof piece)) > 0; i++, c->said += n) {
        size_t skip = n > sizeof c->tail ? n - sizeof c->tail : 0;
        for (size_t k = skip; k < n; k++) c->tail[(c->said + k) % sizeof c->tail] = piece[k];
    }
}

/* The first whole line of the buffer that is not taken yet. */
static bool take_line(b1i_child *c, size_t looked, char **line, size_t *bytes)
{
    if (c->begin + looked >= c->used) return false;
    char *from = c->buffer + c->begin;
    char *end = memchr(from + looked, '\n', c->used - c->begin - looked);
    if (!end) return false;
    *end = 0;
    *line = from;
    *bytes = (size_t)(end - from);
    c->begin += *bytes + 1;
    return true;
}

/* Room for more of a line. */
static b1i_heard make_room(b1i_child *c)
{
    if (c->used - c->begin > B1I_CHILD_LINE_MOST) return b1i_heard_too_much;
    if (c->begin) memmove(c->buffer, c->buffer + c->begin, c->used - c->begin);
    c->used -= c->begin;
    c->begin = 0;
    return b1i_grow(&c->buffer, &c->room, c->used + READ_BYTES, 1) ? b1i_heard_line : b1i_heard_no_memory;
}

/* Waits for output, LOOK_MS at most. */
static void wait_for_output(const b1i_child *c)
{
    struct pollfd fds[] = {{.fd = c->out, .events = POLLIN}, {.fd = c->bad, .events = POLLIN}};
    (void)poll(fds, 2, LOOK_MS);
}

b1i_heard b1i_child_line(b1i_child *c, uint64_t until_ns, bool (*cancelled)(void), char **line, size_t *bytes)
{
    for (size_t looked = 0;;) {
        if (take_line(c, looked, line, bytes)) return b1i_heard_line;
        looked = c->used - c->begin;
        if (c->silent) return b1i_heard_end;
        b1i_heard heard = make_room(c);
        if (heard != b1i_heard_line) return heard;
        bool ended = has_ended(c); /* before the last look, which then misses nothing */
        size_t n = take(&c->out, c->buffer + c->used, READ_BYTES);
        uint64_t now = b1i_now_ns();
        c->used += n;
        if (n) c->stamp_ns = now;
        take_stderr(c);
        if (cancelled && cancelled()) return b1i_heard_cancel;
        c->silent = n == 0 && (ended || c->out < 0);
        if (n == 0 && !c->silent) {
            if (now >= until_ns) return b1i_heard_nothing;
            wait_for_output(c);
        } else if (now >= until_ns && !memchr(c->buffer + looked, '\n', c->used - looked)) {
            return b1i_heard_nothing; /* what drips is no line either */
        }
    }
}

/* ---- the end ---- */

static bool wait_until(b1i_child *c, uint64_t until_ns, bool (*cancelled)(void))
{
    char rest[READ_BYTES];
    while (!has_ended(c)) {
        if (b1i_now_ns() >= until_ns || (cancelled && cancelled())) return false;
        bool more = take(&c->out, rest, sizeof rest) > 0;
        take_stderr(c);
        if (more) continue;
        if (c->out < 0 && c->bad < 0)
            (void)poll(NULL, 0, LOOK_MS);
        else
            wait_for_output(c);
    }
    return true;
}

b1i_child_end b1i_child_close(b1i_child *c, uint64_t until_ns, bool (*cancelled)(void))
{
    b1i_child_end end = {0};
    int status = 0;
    if (c->pid > 0) {
        end.ended_here = !wait_until(c, until_ns, cancelled);
        if (end.ended_here) {
            kill(-c->pid, SIGTERM);
            (void)wait_until(c, b1i_now_ns() + patience_ns, NULL);
        }
        kill(-c->pid, SIGKILL);
        kill(c->pid, SIGKILL); /* it may have left its group, and would be waited for without end */
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
        }
        end.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        take_stderr(c);
        int ours[] = {c->out, c->bad};
        close_all(ours, 2);
    }
    c->pid = 0;
    c->out = c->bad = -1;
    b1i_free(c->buffer);
    c->buffer = NULL;
    c->begin = c->used = c->room = 0;
    c->silent = true;
    return end;
}

char *b1i_child_last_words(const b1i_child *c)
{
    size_t count = c->said < sizeof c->tail ? (size_t)c->said : sizeof c->tail, at = 0, out = 0;
    uint8_t raw[B1I_CHILD_TAIL];
    for (size_t i = 0; i < count; i++) raw[i] = (uint8_t)c->tail[(c->said - count + i) % sizeof c->tail];
    while (at < count && c->said > count && (raw[at] & 0xc0) == 0x80) at++; /* a character whose beginning is gone */
    char *text = b1i_malloc(count + 1);
    if (!text) return NULL;
    while (at < count) {
        utf8proc_int32_t code;
        utf8proc_ssize_t n = utf8proc_iterate(raw + at, (utf8proc_ssize_t)(count - at), &code);
        if (n < 1 || code <= ' ' || code == 0x7f) { /* what is no character, and ends of lines, are a space */
            if (out && text[out - 1] != ' ') text[out++] = ' ';
            at += n < 1 ? 1 : (size_t)n;
            continue;
        }
        memcpy(text + out, raw + at, (size_t)n);
        out += (size_t)n;
        at += (size_t)n;
    }
    while (out && text[out - 1] == ' ') out--;
    text[out] = 0;
    return text;
}
