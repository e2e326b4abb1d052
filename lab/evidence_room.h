/* SPDX-License-Identifier: MIT
 *
 * What the parts of the evidence share.
 */
#ifndef LAB_EVIDENCE_ROOM_H
#define LAB_EVIDENCE_ROOM_H

#include "lab/evidence.h"

struct b1i_evidence {
    char *directory;
    int fd;           /* of the directory, locked */
    json_t *commands; /* an array: the records so far */
    bool ended;       /* sealed or failed: nothing may be written */
};

/* B1_ARGUMENT: the run has ended, or no file may be named so. */
b1_status b1i_evidence_may_write(const b1i_evidence *evidence, const char *name, b1_error *err);
/* Frees what json_dumps() returned. */
void b1i_json_text_free(char *text);

/* Tests set this: it is called before and after each change of the directory. */
extern void (*b1i_evidence_hook)(const char *what);

#endif
