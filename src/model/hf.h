/* SPDX-License-Identifier: MIT
 *
 * What a Hugging Face directory's small JSON files say.
 */
#ifndef B1I_HF_H
#define B1I_HF_H

#include "model/model.h"

typedef struct b1i_hf_config {
    b1i_config config;     /* without a name; `tied` as the file says */
    bool qkv_bias, o_bias; /* the architecture has them */
} b1i_hf_config;

/* config.json [bytes] of text; `path` is for messages. */
b1_status b1i_hf_config_parse(const char *text, size_t bytes, const char *path, b1i_hf_config *out, b1_error *err);
/* Adds the end tokens of a generation_config.json. */
b1_status b1i_hf_generation_parse(const char *text, size_t bytes, const char *path, b1i_config *config, b1_error *err);

#endif
