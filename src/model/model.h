/* SPDX-License-Identifier: MIT
 *
 * A model as its files say: configuration, and where each weight lies in the mapped files. Nothing is converted and
 * nothing is copied here. Loaders: gguf_model.c, hf.c (config.json + safetensors), synthetic.c (built-in shapes).
 *
 * Invariants of a b1i_model that a loader handed out: every weight that the configuration needs is there, with the
 * shape that the configuration says; every tensor's bytes lie inside its file.
 */
#ifndef B1I_MODEL_H
#define B1I_MODEL_H

#include "model/format.h"

typedef enum b1i_arch { b1i_arch_llama, b1i_arch_mistral, b1i_arch_qwen2, b1i_arch_qwen3, b1i_arch_count } b1i_arch;
extern const char *const b1i_arch_names[b1i_arch_count];

typedef enum b1i_rope_kind { b1i_rope_plain, b1i_rope_linear, b1i_rope_llama3, b1i_rope_yarn } b1i_rope_kind;

typedef struct b1i_rope {
    b1i_rope_kind kind;
    double theta;
    double factor;                            /* linear, llama3, yarn */
    int original_context;                     /* llama3, yarn */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn; 32 and 1 where the file is silent */
    double attention_factor;                  /* yarn: cos and sin are multiplied by it; 0: 0.1·ln(factor) + 1 */
    bool truncate;                            /* yarn: correction range rounded outwards */
    const float *freq_factors; /* [head_dim / 2] divisors of the frequencies from a GGUF rope_freqs tensor, or NULL;
                                * owned by the model; the kind is then plain, for the factors hold the scaling */
} b1i_rope;

enum { B1I_END_TOKENS_MAX = 16 };

typedef struct b1i_config {
    b1i_arch arch;
    char name[128];
    int layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    float norm_eps;
    int context_max;    /* max_position_embeddings, llama.context_length */
    int sliding_window; /* positions, self included; 0: off */
    bool tied;          /* the LM head is the embedding */
    bool qk_norm;       /* per-head RMSNorm of q and k before RoPE */
    b1i_rope rope;
    int end_tokens[B1I_END_TOKENS_MAX]; /* union of config and generation config; the tokenizer's come on top */
    int end_count;
} b1i_config;

/* One weight. Rows are outputs, columns inputs; a vector is one row. */
typedef struct b1i_tensor {
    char name[96]; /* as in the file, for messages */
    b1i_format_id format;
    int64_t rows, cols;
    const uint8_t *data; /* row 0 in the mapped file, unaligned; NULL: synthetic */
    int map;             /* index into the model's maps, -1: synthetic */
    uint64_t seed;       /* synthetic: row r is random(seed + r) */
    float scale;         /* synthetic: standard deviation of the values; for a vector of rows == 1 in f32: all ones
                          * where scale is 0 */
    int permuted_heads;  /* > 0: rows of each of this many heads are interleaved (GGUF's llama Q and K): logical row
                          * h·d + j lies at file row h·d + (j < d/2 ? 2j : 2(j − d/2) + 1), d = rows / heads */
} b1i_tensor;

/* The weights of a layer, in the order a step reads them. */
typedef enum b1i_weight {
    b1i_w_attn_norm,
    b1i_w_q,
    b1i_w_k,
    b1i_w_v,
    b1i_w_q_bias, /* biases: absent (rows == 0) where the model has none */
    b1i_w_k_bias,
    b1i_w_v_bias,
    b1i_w_q_norm, /* [head_dim], qk_norm only */
    b1i_w_k_norm,
    b1i_w_o,
    b1i_w_o_bias,
    b1i_w_ffn_norm,
    b1i_w_gate,
    b1i_w_up,
    b1i_w_down,
    b1i_layer_weights
} b1i_weight;

struct b1_tokenizer;

typedef struct b1i_model {
    b1i_config config;
    b1i_tensor embedding, final_norm, head; /* head.rows == 0 where tied */
    b1i_tensor *layer;                      /* [layers × b1i_layer_weights] */
    b1i_map *maps;
    int map_count;
    float *freq_factors;            /* what config.rope.freq_factors points to */
    struct b1_tokenizer *tokenizer; /* NULL: none (synthetic); owned */
} b1i_model;

static inline const b1i_tensor *b1i_model_layer(const b1i_model *m, int layer, b1i_weight w)
{
    return &m->layer[(int64_t)layer * b1i_layer_weights + w];
}

/* Which parts to load. */
enum { B1I_LOAD_TENSORS = 1, B1I_LOAD_TOKENIZER = 2 };

/* A .gguf file or a Hugging Face directory, by what lies there. B1_MODEL with the file, tensor, field at fault. */
b1_status b1i_model_open(const char *path, unsigned parts, b1i_model **out, b1_error *err);
/* A built-in shape. B1_ARGUMENT: no such shape or format; B1_UNSUPPORTED: the format's blocks do not fit its rows. */
b1_status b1i_model_synthetic(const char *shape, const char *weights, b1i_model **out, b1_error *err);
void b1i_model_close(b1i_model *model);

/* File bytes of rows [row, row + count) of `t` in logical order (permutation undone) into `out`
 * [count × b1i_format_bytes(cols)]; synthetic rows are made. Thread-safe. */
void b1i_tensor_rows(const b1i_tensor *t, int64_t row, int64_t count, uint8_t *out);
/* The same as f32 [count × cols]. `scratch` is [b1i_format_bytes(cols)]. */
void b1i_tensor_rows_f32(const b1i_tensor *t, int64_t row, int64_t count, uint8_t *scratch, float *out);
uint64_t b1i_tensor_bytes(const b1i_tensor *t);
/* Whether every row of the two is the same by definition: synthetic ones of one seed. */
bool b1i_tensor_same(const b1i_tensor *a, const b1i_tensor *b);
/* The tensor's file pages may leave memory (it has been packed). */
void b1i_model_release(const b1i_model *model, const b1i_tensor *t);

/* Inverse frequencies [head_dim / 2] and the factor on cos and sin, by the configuration's RoPE kind. Formulas:
 * plain RoFormer; linear: f / factor; Llama 3: Meta's smooth interpolation between low and high frequency wavelengths;
 * YaRN: Peng et al. 2023, NTK-by-parts with ramp over [beta_slow, beta_fast] rotations. As transformers computes
 * them. */
void b1i_rope_frequencies(const b1i_config *config, float *inverse, float *cos_sin_factor);

#endif
