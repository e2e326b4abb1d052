/* SPDX-License-Identifier: MIT
 *
 * Any bytes as config.json, and as generation_config.json. What is accepted has sizes that can be multiplied, and its
 * RoPE frequencies are finite.
 */
#include "model/hf.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    b1_error err;
    b1i_hf_config read;
    long live = b1i_alloc_live();
    b1_status st = b1i_hf_config_parse((const char *)data, size, "config.json", &read, &err);
    const b1i_config *c = &read.config;
    if (st == B1_OK) {
        static float inverse[1 << 11];
        float factor;
        if (c->layers < 1 || c->heads % c->kv_heads || c->head_dim % 2 || c->head_dim > 1 << 12) abort();
        b1i_rope_frequencies(c, inverse, &factor);
        for (int i = 0; i < c->head_dim / 2; i++)
            if (!isfinite(inverse[i])) abort();
        if (!isfinite(factor) || c->end_count > B1I_END_TOKENS_MAX) abort();
        st = b1i_hf_generation_parse((const char *)data, size, "generation_config.json", &read.config, &err);
        if (st != B1_OK && st != B1_MODEL) abort();
    } else if (st != B1_MODEL || !err.message[0])
        abort();
    if (b1i_alloc_live() != live) abort();
    return 0;
}
