/* SPDX-License-Identifier: MIT
 *
 * The loaders behind b1i_model_open(): each fills a b1i_model from its kind of files. On failure *out is NULL.
 * `parts` is a set of B1I_LOAD_*.
 */
#ifndef B1I_LOADERS_H
#define B1I_LOADERS_H

#include "model/model.h"

/* A .gguf file, or the first of a split one. */
b1_status b1i_model_open_gguf(const char *path, unsigned parts, b1i_model **out, b1_error *err);
/* A Hugging Face directory: config.json, safetensors, tokenizer.json. */
b1_status b1i_model_open_hf(const char *directory, unsigned parts, b1i_model **out, b1_error *err);

#endif
