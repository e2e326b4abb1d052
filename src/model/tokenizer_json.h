/* SPDX-License-Identifier: MIT
 *
 * Between the readers of Hugging Face files.
 */
#ifndef B1I_TOKENIZER_JSON_H
#define B1I_TOKENIZER_JSON_H

#include "model/json_text.h"
#include "model/tokenizer_impl.h"

/* A string's characters, in the tokenizer's arena and NUL-terminated; `what` names it where it is no string. */
b1_status b1i_json_text(b1_tokenizer *t, b1i_json v, const char *what, const char **text, size_t *bytes, b1_error *err);
/* A member that is true or false; absent or null is `fallback`. */
b1_status b1i_json_flag(const b1_tokenizer *t, b1i_json v, const char *name, bool fallback, bool *out, b1_error *err);

b1_status b1i_json_truth(const b1_tokenizer *t, b1i_json member, const char *name, bool fallback, bool *out,
                         b1_error *err);

/* The components around the model, each by its type; an unknown one is refused by its name. */
b1_status b1i_json_normalizer(b1_tokenizer *t, b1i_json v, b1_error *err);
b1_status b1i_json_pre_tokenizer(b1_tokenizer *t, b1i_json v, b1_error *err);
b1_status b1i_json_decoder(b1_tokenizer *t, b1i_json v, b1_error *err);
/* Sets BOS where a template puts one first. */
b1_status b1i_json_post_processor(b1_tokenizer *t, b1i_json v, b1_error *err);

/* As b1i_tokenizer_from_json, without b1i_tokenizer_finish(). */
b1_status b1i_tokenizer_read_json(const char *text, size_t bytes, const char *path, b1_tokenizer **out, b1_error *err);

#endif
