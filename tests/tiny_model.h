/* SPDX-License-Identifier: MIT
 *
 * Models made by hand for the GPU tests: any sizes, random weights in any format or one a matrix, no file.
 */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct tiny_shape {
    const char *name;
    b1i_arch arch;
    int layers, hidden, ffn, heads, kv_heads, head_dim, vocab, window;
    bool bias, qk_norm, tied;
} tiny_shape;

static inline void tiny_tensor(b1i_tensor *t, const char *name, b1i_format_id format, int rows, int cols, uint64_t seed,
                               float scale)
{
    *t = (b1i_tensor){.format = format, .rows = rows, .cols = cols, .map = -1, .seed = seed, .scale = scale};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
}

/* Weights of `format`, but those of matrix w where own[w] is not b1i_format_count; own may be NULL. */
static inline b1i_model *tiny_model(const tiny_shape *s, b1i_format_id format, const b1i_format_id *own, uint64_t seed)
{
    b1i_model *m = b1i_calloc(1, sizeof *m);
    b1i_tensor *layer = b1i_calloc((size_t)s->layers * b1i_layer_weights, sizeof *layer);
    if (!m || !layer) abort();
    m->config = (b1i_config){.arch = s->arch,
                             .layers = s->layers,
                             .hidden = s->hidden,
                             .ffn = s->ffn,
                             .heads = s->heads,
                             .kv_heads = s->kv_heads,
                             .head_dim = s->head_dim,
                             .vocab = s->vocab,
                             .norm_eps = 1e-5f,
                             .context_max = 131072,
                             .sliding_window = s->window,
                             .tied = s->tied,
                             .qk_norm = s->qk_norm,
                             .rope = {.kind = b1i_rope_plain, .theta = 10000}};
    (void)snprintf(m->config.name, sizeof m->config.name, "tiny-%s", s->name);
    const int q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const struct {
        b1i_weight w;
        int rows, cols;
        bool there;
    } list[] = {{b1i_w_attn_norm, 1, s->hidden, true},
                {b1i_w_q, q, s->hidden, true},
                {b1i_w_k, kv, s->hidden, true},
                {b1i_w_v, kv, s->hidden, true},
                {b1i_w_q_bias, 1, q, s->bias},
                {b1i_w_k_bias, 1, kv, s->bias},
                {b1i_w_v_bias, 1, kv, s->bias},
                {b1i_w_q_norm, 1, s->head_dim, s->qk_norm},
                {b1i_w_k_norm, 1, s->head_dim, s->qk_norm},
                {b1i_w_o, s->hidden, q, true},
                {b1i_w_ffn_norm, 1, s->hidden, true},
                {b1i_w_gate, s->ffn, s->hidden, true},
                {b1i_w_up, s->ffn, s->hidden, true},
                {b1i_w_down, s->hidden, s->ffn, true}};
    m->layer = layer;
    for (int l = 0; l < s->layers; l++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            if (!list[i].there) continue;
            const bool vector = list[i].rows == 1;
            b1i_format_id f = vector ? b1i_f32 : own && own[list[i].w] != b1i_format_count ? own[list[i].w] : format;
            tiny_tensor(&layer[l * b1i_layer_weights + (int)list[i].w], "layer", f, list[i].rows, list[i].cols,
                        seed + (uint64_t)(l + 1) * 10000019 + (uint64_t)i * 1000003,
                        vector ? 0.5f : 1 / sqrtf((float)list[i].cols));
        }
    tiny_tensor(&m->embedding, "embedding", format, s->vocab, s->hidden, seed + 11, 1);
    tiny_tensor(&m->final_norm, "norm", b1i_f32, 1, s->hidden, seed + 7000003, 0.5f);
    if (!s->tied) tiny_tensor(&m->head, "head", format, s->vocab, s->hidden, seed + 13000027, 0.05f);
    return m;
}

static inline void tiny_model_free(b1i_model *m)
{
    b1i_free(m->layer);
    b1i_free(m);
}

#endif
