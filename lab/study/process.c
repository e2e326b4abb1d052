/* SPDX-License-Identifier: MIT
 *
 * Processes of this command. See process.h.
 *
 * The system's killer for lack of memory says nothing to its victim's parent but SIGKILL: its counter tells it from
 * another's kill.
 *
 * A process inherits the lock of the directory, and so does all that it starts, such as a stack in a group of its own:
 * the lock belongs to the open file, and is free when the last of them has ended. What outlives this process, because
 * that was killed, measures alone to its end.
 */
#include "lab/study/process.h"

#include "lab/evidence_room.h"
#include "lab/study/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHELL_SIGNALS = 128, SIGNALS_MOST = 32, STDERR_KEPT = 400 };
static const uint64_t look_ns = 250000000, tick_ns = 1000000000, end_ns = 10000000000;

/* Processes that were killed for lack of memory since the system began, or in this cgroup. */
static uint64_t oom_kills(void)
{
    static const char *const files[] = {"/proc/vmstat", "/sys/fs/cgroup/memory.events"};
    uint64_t most = 0;
    char line[128];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *f = fopen(files[i], "re");
        while (f && fgets(line, sizeof line, f))
            if (strncmp(line, "oom_kill ", 9) == 0) most += strtoull(line + 9, NULL, 10);
        if (f) fclose(f);
    }
    return most;
}

/* The words as one of the shell's, "exec" before them; freed with b1i_free(). NULL: no memory. */
static char *command_line(const char *const *argv)
{
    size_t room = 6;
    for (int i = 0; argv[i]; i++) {
        room += 3;
        for (const char *c = argv[i]; *c; c++) room += *c == '\'' ? 4 : 1;
    }
    char *line = b1i_malloc(room), *at = line;
    if (!line) return NULL;
    at = stpcpy(at, "exec");
    for (int i = 0; argv[i]; i++) {
        at = stpcpy(at, " '");
        for (const char *c = argv[i]; *c; c++) {
            if (*c == '\'')
                at = stpcpy(at, "'\\''");
            else
                *at++ = *c;
        }
        *at++ = '\'';
    }
    *at = 0;
    return line;
}

/* Until it says no more: what it prints is let go. */
static b1_status listen(b1i_child *child, const b1i_process_watch *watch, b1_error *err)
{
    uint64_t began = b1i_now_ns(), told = 0;
    for (;;) {
        char *line;
        size_t bytes;
        switch (b1i_child_line(child, b1i_now_ns() + look_ns, watch->cancelled, &line, &bytes)) {
        case b1i_heard_end:
            return B1_OK;
        case b1i_heard_cancel:
            return b1i_fail(err, B1_CANCELLED, "cancelled");
        case b1i_heard_no_memory:
            return b1i_fail_memory(err, B1I_CHILD_LINE_MOST);
        case b1i_heard_too_much:
            return b1i_fail(err, B1_SYSTEM, "it printed a line without end");
        case b1i_heard_line:
        case b1i_heard_nothing:
            break;
        }
        uint64_t now = b1i_now_ns();
        if (watch->tick && now - told >= tick_ns) {
            told = now;
            watch->tick(watch->user, (double)(now - began) / 1e9);
        }
    }
}

static void judge(const b1i_child_end *end, bool killed, const char *words, b1i_process_result *out)
{
    const bool shell = end->code > SHELL_SIGNALS && end->code <= SHELL_SIGNALS + SIGNALS_MOST;
    const int signal = end->signal ? end->signal : shell ? end->code - SHELL_SIGNALS : 0;
    char how[200];
    if (!signal && !end->ended_here && end->code == 0) {
        out->status = "ok";
        return;
    }
    out->status = signal == SIGKILL && killed ? "out_of_memory" : "failed";
    if (end->ended_here)
        snprintf(how, sizeof how, "its process did not end and was ended");
    else if (signal == SIGKILL && killed)
        snprintf(how, sizeof how, "its process was killed by the system, whose memory had run out");
    else if (signal)
        snprintf(how, sizeof how, "its process was ended by signal %d (%s)", signal, strsignal(signal));
    else
        snprintf(how, sizeof how, "its process ended with exit code %d", end->code);
    size_t length = strlen(words), skip = length > STDERR_KEPT ? length - STDERR_KEPT : 0;
    while (skip && skip < length && ((unsigned char)words[skip] & 0xc0) == 0x80) skip++;
    snprintf(out->message, sizeof out->message, "%s%s%s", how, length ? ": " : "", words + skip);
}

static b1_status keep(b1i_evidence *e, const char *name, const char *const *argv, const b1i_child_end *end,
                      const char *words, const b1i_process_result *r, b1_error *err)
{
    json_t *record =
        json_pack("{s:s,s:o,s:b,s:i,s:f,s:s,s:n,s:o}", "name", name, "argv", b1i_evidence_words(e, argv), "started",
                  end != NULL, "exit_code",
                  !end          ? 127
                  : end->signal ? SHELL_SIGNALS + end->signal
                                : end->code,
                  "seconds", r->seconds, "status", r->status, "stdout", "stderr", json_pack("{s:s}", "text", words));
    if (!record) return b1i_fail(err, B1_MEMORY, "not enough memory for the record of %s", name);
    return b1i_evidence_record(e, record, err);
}

b1_status b1i_process_run(b1i_evidence *e, const char *name, const char *const *argv, const b1i_process_watch *watch,
                          b1i_process_result *out, b1_error *err)
{
    b1_status st;
    b1_error why = {0};
    b1i_child child;
    char *words = NULL, *line = command_line(argv);
    *out = (b1i_process_result){.status = "failed"};
    if (!line) return b1i_fail_memory(err, 64);
    uint64_t began = b1i_now_ns(), kills = oom_kills();
    const int lock = fcntl(e->fd, F_DUPFD, 3); /* unlike e->fd it stays open in the process, behind its three streams */
    st = lock < 0 ? b1i_fail(&why, B1_SYSTEM, "it could not be given the lock of its directory: %s", strerror(errno))
                  : b1i_child_start(&child, line, "", &why);
    if (lock >= 0) close(lock);
    b1i_free(line);
    if (st == B1_MEMORY) B1I_TRY(b1i_fail(err, st, "%s", why.message));
    if (st != B1_OK) {
        snprintf(out->message, sizeof out->message, "%s", why.message);
        return keep(e, name, argv, NULL, why.message, out, err);
    }
    st = listen(&child, watch, err);
    b1i_child_end end = b1i_child_close(&child, st == B1_OK ? b1i_now_ns() + end_ns : 0, NULL);
    words = b1i_child_last_words(&child);
    out->seconds = (double)(b1i_now_ns() - began) / 1e9;
    if (st == B1_OK && !words) st = b1i_fail_memory(err, B1I_CHILD_TAIL);
    if (st == B1_OK) {
        judge(&end, oom_kills() > kills, words, out);
        st = keep(e, name, argv, &end, words, out, err);
    }
fail:
    b1i_free(words);
    return st;
}
