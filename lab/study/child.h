/* SPDX-License-Identifier: MIT
 *
 * A program of the study in a process group of its own: one text in, lines out, each with the time it arrived, and the
 * end of its stderr. Whatever of its group is left when it ends is ended with it.
 */
#ifndef LAB_STUDY_CHILD_H
#define LAB_STUDY_CHILD_H

#include "base/base.h"

#include <signal.h>

#define B1I_CHILD_LINE_MOST ((size_t)16 << 20)
enum { B1I_CHILD_TAIL = 4096 };

typedef struct b1i_child {
    pid_t pid;
    int out, bad; /* what it prints, its stderr; −1: closed */
    char *buffer; /* [used]; [begin, used) is not taken yet */
    size_t begin, used, room;
    uint64_t stamp_ns; /* when the last of it was read */
    char tail[B1I_CHILD_TAIL];
    uint64_t said; /* bytes of stderr so far; the tail is a ring */
    bool silent;   /* nothing more comes */
} b1i_child;

/* Starts /bin/sh -c `command`, whose stdin is `input` and then ends. Its errors are the sentence's. B1_MEMORY,
 * B1_SYSTEM. */
b1_status b1i_child_start(b1i_child *child, const char *command, const char *input, b1_error *err);

typedef enum b1i_heard {
    b1i_heard_line,
    b1i_heard_end,       /* it ended, or closed its stdout */
    b1i_heard_nothing,   /* until `until_ns` */
    b1i_heard_too_much,  /* a line longer than B1I_CHILD_LINE_MOST */
    b1i_heard_no_memory, /* for the line */
    b1i_heard_cancel
} b1i_heard;
/* The next line, NUL-terminated and without its end, until the next call; when it had arrived is stamp_ns. */
b1i_heard b1i_child_line(b1i_child *child, uint64_t until_ns, bool (*cancelled)(void), char **line, size_t *bytes);

typedef struct b1i_child_end {
    bool ended_here; /* it had not ended by itself */
    int code;        /* its exit code; −1: a signal */
    int signal;      /* 0: none */
} b1i_child_end;
/* Waits until `until_ns` for it to end (0: not at all), ends it and its group, and frees what it had. May be called
 * on one that was not started. The tail stays. */
b1i_child_end b1i_child_close(b1i_child *child, uint64_t until_ns, bool (*cancelled)(void));
/* The end of its stderr as one line of UTF-8, freed with b1i_free(): "" where it said nothing; NULL: no memory. */
char *b1i_child_last_words(const b1i_child *child);

#endif
