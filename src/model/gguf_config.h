/* SPDX-License-Identifier: MIT
 *
 * A GGUF file's keys to a configuration.
 */
#ifndef B1I_GGUF_CONFIG_H
#define B1I_GGUF_CONFIG_H

#include "model/gguf.h"
#include "model/weights.h"

/* Fills f->model->config, checked, and says which biases the architecture has. */
b1_status b1i_gguf_config(const b1i_gguf *g, b1i_filling *f);

static inline bool b1i_gguf_is(const b1i_gguf_string_view *view, const char *text)
{
    size_t i = 0;
    while (i < view->bytes && text[i] != 0 && view->text[i] == text[i]) i++;
    return i == view->bytes && text[i] == 0;
}

#endif
