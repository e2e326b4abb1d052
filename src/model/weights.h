/* SPDX-License-Identifier: MIT
 *
 * The loaders' common half: the names of weights in either kind of file, the shapes that a configuration gives them,
 * and the filling of a b1i_model with what a file holds.
 *
 * Refuses sizes beyond reason, a tensor that the configuration has no use for (to leave it out would change the
 * result), one whose shape differs, one that is there twice, and a model from which one is missing.
 */
#ifndef B1I_WEIGHTS_H
#define B1I_WEIGHTS_H

#include "model/model.h"

typedef enum b1i_spelling { b1i_spelling_gguf, b1i_spelling_hf } b1i_spelling;

/* A model that is being filled. */
typedef struct b1i_filling {
    b1i_model *model;
    b1i_spelling spelling;
    bool qkv_bias, o_bias; /* the architecture has them */
    const char *path;      /* of the whole model, for messages */
    b1_error *err;
} b1i_filling;

/* A tensor as a file's table has it, checked against the file's size there. */
typedef struct b1i_found {
    const char *name; /* not NUL-terminated */
    size_t name_bytes;
    b1i_format_id format;
    int dims;
    uint64_t shape[4]; /* in the file's order, which is the spelling's: GGUF has columns first. 1 past dims. */
    const uint8_t *data;
    int map;          /* index into the model's maps */
    const char *path; /* of the file, for messages */
} b1i_found;

/* Every size is in [1, its limit], heads are a multiple of KV heads, numbers are finite. */
b1_status b1i_config_check(const b1i_config *config, const char *path, b1_error *err);
/* The number of tensors that a model of this configuration has at least. */
uint64_t b1i_filling_least(const b1i_filling *f);
/* Makes room for the layers; the configuration has been checked. */
b1_status b1i_filling_begin(b1i_filling *f);
b1_status b1i_filling_put(b1i_filling *f, const b1i_found *found);
/* All that is needed is there. Sets config.tied. */
b1_status b1i_filling_end(b1i_filling *f);

/* `text` [bytes] into config.name, cut between UTF-8 characters. */
void b1i_config_name(b1i_config *config, const char *text, size_t bytes);
/* The same with the last component of `path`, without its ".gguf". */
void b1i_config_name_path(b1i_config *config, const char *path);

#endif
