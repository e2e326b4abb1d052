/* SPDX-License-Identifier: MIT
 *
 * What `study` and `ab` share: a directory that is planned, measured and collected, in one command or in parts.
 */
#ifndef APP_PARTS_H
#define APP_PARTS_H

#include "app/app.h"
#include "app/output.h"
#include "lab/study.h"

typedef struct b1i_parts {
    const char *command; /* "study" */
    b1i_study_options run;
    b1i_progress bar;
    char executable[4096];
} b1i_parts;

enum { B1I_WARMUP_USUAL = 5, B1I_STEPS_USUAL = 30 }; /* of a cell of either */

/* `parts` must stay where it is: the progress bar is drawn through it. */
void b1i_parts_begin(b1i_parts *parts, const char *command, const char *out, bool resume);
/* Prints what is wrong with the words, and returns the exit code. `hint` may be NULL. */
int b1i_parts_usage(const b1i_parts *parts, const char *what, const char *hint);
/* What comes next, on stdout: after `count` of `what` ("cell") were planned in the directory, or one was measured. */
void b1i_parts_planned(const b1i_parts *parts, const char *what, int count);
void b1i_parts_measured(const b1i_parts *parts, const char *id);
/* Takes what lies in `directory` from now on; false: there is none, which is printed. */
bool b1i_parts_turn_to(b1i_parts *parts, const char *directory);
/* Of a check: a line on stderr, `user` being the parts. */
void b1i_parts_line(void *user, const char *line);
/* The exit code of `st`; a failure's sentence is printed. */
int b1i_parts_end(b1i_parts *parts, b1_status st, const b1_error *err);

/* An option that was given, or not, and the parts that it has a meaning for, a bit each. */
typedef struct b1i_use {
    const char *name;
    bool given;
    unsigned parts;
} b1i_use;
/* Whether an option was given that has no meaning for any of `here`, of which `what` is the name; prints a sentence. */
bool b1i_parts_stray(const b1i_parts *parts, const b1i_use *uses, size_t count, unsigned here, const char *what);

#endif
