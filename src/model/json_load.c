/* SPDX-License-Identifier: MIT
 *
 * jansson reports most failed allocations as a parse error without a text; here they are of memory. Inside a token it
 * blames the token, which cannot be told apart.
 */
#include "model/json_load.h"

b1_status b1i_json_object(const char *text, size_t bytes, const char *what, json_t **out, b1_error *err)
{
    json_error_t error = {0};
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!*out && (json_error_code(&error) == json_error_out_of_memory || !error.text[0]))
        return b1i_fail_memory(err, bytes);
    if (!*out)
        return b1i_fail(err, B1_MODEL, "%s: is no valid JSON at line %d, column %d: %s", what, error.line, error.column,
                        error.text);
    if (json_is_object(*out)) return B1_OK;
    json_decref(*out);
    *out = NULL;
    return b1i_fail(err, B1_MODEL, "%s: is no JSON object", what);
}
