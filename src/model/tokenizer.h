/* SPDX-License-Identifier: MIT
 *
 * The tokenizer's inside doors: how loaders make one. Its use is in the public header.
 */
#ifndef B1I_TOKENIZER_H
#define B1I_TOKENIZER_H

#include "model/gguf.h"

/* From an open GGUF file's keys; nothing of the file is kept. */
b1_status b1i_tokenizer_from_gguf(const b1i_gguf *gguf, b1_tokenizer **out, b1_error *err);
/* From a Hugging Face directory: tokenizer.json, and the chat template and the names of the special tokens in
 * tokenizer_config.json and chat_template.jinja where they are. */
b1_status b1i_tokenizer_from_directory(const char *directory, b1_tokenizer **out, b1_error *err);
/* From the text of a tokenizer.json alone. `path` is for messages. */
b1_status b1i_tokenizer_from_json(const char *text, size_t bytes, const char *path, b1_tokenizer **out, b1_error *err);
/* -1: none. */
int b1i_tokenizer_bos(const b1_tokenizer *t);
/* End tokens that the tokenizer itself knows (eos, eot, …); the count is returned, at most `max` are written. */
int b1i_tokenizer_end_tokens(const b1_tokenizer *t, int *ids, int max);

#endif
