/* SPDX-License-Identifier: MIT
 *
 * Small JSON documents through jansson, with this library's errors. A key that is there twice is an error.
 */
#ifndef B1I_JSON_LOAD_H
#define B1I_JSON_LOAD_H

#include "base/base.h"

#include <jansson.h>

/* `text` [bytes] must be an object; `what` begins the sentence ("config.json" with its path). The caller gives *out
 * back with json_decref(). */
b1_status b1i_json_object(const char *text, size_t bytes, const char *what, json_t **out, b1_error *err);

#endif
