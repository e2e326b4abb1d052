/* SPDX-License-Identifier: MIT
 *
 * JSON read in place: a tokenizer.json has hundreds of thousands of strings, and a tree of nodes for them costs more
 * than all the rest of opening it. b1i_json_check() walks the document once; after that a value is a pointer to its
 * first character, and every function below may trust the text.
 */
#ifndef B1I_JSON_TEXT_H
#define B1I_JSON_TEXT_H

#include "base/base.h"

enum { B1I_JSON_DEPTH = 64 };

/* The text of a checked value; NULL: there is none. */
typedef const char *b1i_json;

/* Refuses what is not one JSON document in UTF-8 with at most B1I_JSON_DEPTH levels; the sentence names `path` and the
 * byte. *root is its value. The text need not be NUL-terminated. */
b1_status b1i_json_check(const char *text, size_t bytes, const char *path, b1i_json *root, b1_error *err);

static inline bool b1i_json_is(b1i_json v, char first) { return v && *v == first; } /* '{' '[' '"' 't' 'f' 'n' */
/* "an object", "null", "nothing", …: for sentences. */
const char *b1i_json_kind(b1i_json v);

/* Members or items in order: start with {v} where v is an object or array. `key` may be NULL. */
typedef struct b1i_json_walk {
    const char *at;
    bool started;
} b1i_json_walk;
bool b1i_json_next(b1i_json_walk *walk, b1i_json *key, b1i_json *value);

/* The first member of that name, or NULL; also where `v` is no object. */
b1i_json b1i_json_get(b1i_json v, const char *name);

/* The members of these names [count], in one pass: value[i] is the last of name[i], or NULL. */
void b1i_json_members(b1i_json v, const char *const *name, int count, b1i_json *value);

/* A string's characters: *bytes between the quotes, escapes not undone; `plain` tells that there are none. */
const char *b1i_json_raw(b1i_json v, size_t *bytes, bool *plain);
/* Undoes the escapes: at most the raw length is written, and returned. */
size_t b1i_json_unescape(b1i_json v, char *out);
bool b1i_json_equals(b1i_json v, const char *text); /* false where v is no string */
bool b1i_json_int(b1i_json v, int64_t *out);        /* false where v is no integer of 64 bits */

#endif
