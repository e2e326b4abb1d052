/* SPDX-License-Identifier: MIT
 *
 * Small help with a run's files: names, reading, JSON.
 */
#ifndef LAB_FILES_H
#define LAB_FILES_H

#include "base/base.h"

#include <jansson.h>

/* "directory/name", freed with b1i_free(); NULL: no memory. */
char *b1i_lab_join(const char *directory, const char *name);
/* A whole file of the directory, NUL-terminated, freed with b1i_free(). B1_IO names it. */
b1_status b1i_lab_read(const char *directory, const char *name, char **text, size_t *bytes, b1_error *err);
/* A JSON object from text or from a file of the directory; keys that are there twice are an error. B1_IO names it. */
b1_status b1i_lab_parse(const char *text, size_t bytes, const char *name, json_t **out, b1_error *err);
b1_status b1i_lab_read_json(const char *directory, const char *name, json_t **out, b1_error *err);
/* Whether `name` may stand in a run's directory: relative, no empty, "." or ".." part, no control character. */
bool b1i_lab_name_ok(const char *name);
/* A number, null where it is not finite; NULL: no memory. */
json_t *b1i_lab_number(double value);
/* The number and the text of an object's key: NaN and "" where it has no such. */
double b1i_lab_number_at(const json_t *object, const char *key);
const char *b1i_lab_text_at(const json_t *object, const char *key);
/* A string, null where there is none or it is empty; NULL: no memory. */
json_t *b1i_lab_text(const char *text);
/* The bytes of a text, at most `most`, that are whole characters of UTF-8. */
int b1i_lab_whole(const char *text, size_t most);
/* Whether a text has no control character. */
bool b1i_lab_is_plain(const char *text);
/* The names (relative, folders with a '/' at their end) of all that lies in the directory, sorted by strcmp; what is
 * neither a file nor a folder has an '@' at its end. */
typedef struct b1i_names {
    char **items;
    size_t count, room;
} b1i_names;
b1_status b1i_lab_list(const char *directory, b1i_names *out, b1_error *err);
void b1i_names_free(b1i_names *names);

#endif
