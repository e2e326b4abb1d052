/* SPDX-License-Identifier: MIT
 *
 * A fresh process of this command for each cell or session: started, waited for, and kept in commands.json with its
 * words, exit code and the end of its stderr.
 */
#ifndef LAB_STUDY_PROCESS_H
#define LAB_STUDY_PROCESS_H

#include "lab/evidence.h"

enum { B1I_PROCESS_MESSAGE = 1000 };

typedef struct b1i_process_result {
    const char *status;                /* "ok" (exit code 0), "failed", "out_of_memory" (the system killed it) */
    char message[B1I_PROCESS_MESSAGE]; /* why; "" where it is ok */
    double seconds;
} b1i_process_result;

typedef struct b1i_process_watch {
    bool (*cancelled)(void);                  /* may be NULL */
    void (*tick)(void *user, double seconds); /* about each second; may be NULL */
    void *user;
} b1i_process_watch;

/* Runs argv (NULL at its end; argv[0] a path) under the name `name` in the records. It and all that it starts hold the
 * directory's lock, also where this process is killed. B1_CANCELLED: its group was ended;
 * B1_MEMORY, B1_IO of the record. A program that cannot be started has failed. */
b1_status b1i_process_run(b1i_evidence *evidence, const char *name, const char *const *argv,
                          const b1i_process_watch *watch, b1i_process_result *out, b1_error *err);

#endif
