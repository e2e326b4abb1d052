/* SPDX-License-Identifier: MIT
 *
 * What the parts of verification share.
 */
#ifndef LAB_VERIFY_ROOM_H
#define LAB_VERIFY_ROOM_H

#include "base/base.h"

#include <jansson.h>

typedef struct b1i_verification {
    const char *directory;
    void (*say)(void *user, const char *line);
    void *user;
    bool holds;
    json_t *files;   /* of the manifest: an array of entries that are as they must be */
    json_t *by_path; /* the same by their paths, and true for each folder "x/" that one is in */
    json_t *said;    /* the lines so far, as keys: what two manifests find is one difference */
} b1i_verification;

/* A line for the user, made printable and said once; nothing holds any more. */
__attribute__((format(printf, 2, 3))) void b1i_verify_differs(b1i_verification *v, const char *format, ...);
void b1i_verify_say(void *verification, const char *line); /* the same of a whole line */
/* A failure to read what the run left is a difference; one of memory is not. */
b1_status b1i_verify_difference(b1i_verification *v, b1_status st, const b1_error *why, b1_error *err);
/* The manifest's entry of a file; NULL: none. */
const json_t *b1i_verify_find(const b1i_verification *v, const char *path);

/* Reads the manifest into files and by_path, and checks that exactly its files are there, as it says. */
b1_status b1i_verify_files(b1i_verification *v, b1_error *err);
void b1i_verify_end(b1i_verification *v);

#endif
