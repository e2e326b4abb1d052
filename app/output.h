/* SPDX-License-Identifier: MIT
 *
 * What the command writes: errors, the progress bar, files that are complete or absent, and what it reads from stdin.
 */
#ifndef APP_OUTPUT_H
#define APP_OUTPUT_H

#include "base/base.h"

#include <jansson.h>
#include <stdio.h>

/* "batchone: sentence" on stderr; a hint is a further line, indented. */
void b1i_print_error(const char *format, ...) B1I_PRINTF(1, 2);
void b1i_print_hint(const char *format, ...) B1I_PRINTF(1, 2);
/* The session's note, where it has one that was not said yet, on stderr. */
void b1i_note_print(const b1_session *session);
/* Prints the library's sentence and returns the exit code of its status. */
int b1i_report(const b1_error *err);
int b1i_exit_code(b1_status status);
/* Colours may be used on `file`: a terminal that can, and NO_COLOR is not set. */
bool b1i_colours(FILE *file);

/* Bytes of the longest text that `key` has in the rows, `least` at least: a column's width. */
int b1i_column_width(const json_t *rows, const char *key, int least);

/* A b1_progress_fn: draws a bar on stderr where that is a terminal, removes it when done, and cancels after Ctrl-C.
 * A total of 0 draws the words alone. `user` is a b1i_progress, zeroed. */
typedef struct b1i_progress {
    uint64_t drawn_ns;
    bool shown;
} b1i_progress;
bool b1i_progress_bar(void *user, const char *what, uint64_t done, uint64_t total);
/* The same for who asks about Ctrl-C elsewhere. */
void b1i_progress_show(void *user, const char *what, uint64_t done, uint64_t total);
void b1i_progress_end(b1i_progress *progress);

/* Writes to standard output past stdio, so that a write that a signal ended leaves nothing behind. B1_IO;
 * B1_CANCELLED where Ctrl-C ended a write that nobody took. */
b1_status b1i_write_text(const char *text, size_t bytes, b1_error *err);

/* All of `file` into *data [*bytes], freed with b1i_free(). B1_IO, B1_MEMORY, B1_CANCELLED. `name` is for messages. */
b1_status b1i_read_all(FILE *file, const char *name, char **data, size_t *bytes, b1_error *err);

/* A file that appears when it is complete: written under another name, then renamed. "-" is stdout. */
typedef struct b1i_outfile {
    FILE *file;
    char *path, *temporary; /* owned; NULL for stdout */
} b1i_outfile;
b1_status b1i_outfile_open(const char *path, b1i_outfile *out, b1_error *err);
/* Flushes and renames, or on failure removes. */
b1_status b1i_outfile_commit(b1i_outfile *out, b1_error *err);
/* Removes what was not committed; may be called after commit, and on a zeroed one. */
void b1i_outfile_discard(b1i_outfile *out);

/* Writes `document` (its reference is taken; NULL: no memory) with a line end. */
b1_status b1i_json_write(json_t *document, FILE *file, b1_error *err);
/* A number for a document, null where it is not finite. */
json_t *b1i_json_number(double value);

/* Bytes as a person reads them, "97.2 MB", into `text` [≥ 24]. */
const char *b1i_human_bytes(uint64_t bytes, char *text);

/* $XDG_CACHE_HOME/batchone/`name`, or ~/.cache/…, with its folder made where `make`; false: no such place. */
bool b1i_cache_path(const char *name, bool make, char *path, size_t bytes);

/* This command's own file, for its hash and for whoever starts it again, into `path`; NULL: not known. */
const char *b1i_own_path(char *path, size_t bytes);

/* Whether there is a built-in shape of this name; whether a MODEL argument means one: no such file is there. */
bool b1i_is_shape(const char *name);
bool b1i_means_shape(const char *model);

#endif
