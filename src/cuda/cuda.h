/* SPDX-License-Identifier: MIT
 *
 * cuda: the plan on one NVIDIA GPU: weights in tile layout, the KV cache, the buffers of a step, and programs (lists
 * of launches) that executors submit to a stream or make a graph of. No type of CUDA's is seen here; kernels/ holds the
 * kernels, args.h what both sides share.
 */
#ifndef B1I_CUDA_H
#define B1I_CUDA_H

#include "cuda/args.h"
#include "gpu/gpu.h"
#include "plan/plan.h"

#include <pthread.h>

/* ---- resident weights: owned by an engine, immutable ---- */
typedef struct b1i_cuda_weights {
    b1i_gpu *gpu;
    const b1i_model *model;
    const b1i_plan *plan;
    b1i_tile_matrix *matrix; /* [slots]; panels 0 for vectors and absent weights; the tied head is the embedding's */
    b1i_gpu_ptr *vector;     /* [slots]: f32, padded with zeros to a multiple of 32; 0 for matrices and absent ones */
    b1i_gpu_ptr arena, vectors;
    size_t arena_bytes, vector_bytes;
} b1i_cuda_weights;

/* The tile format of a file's format, and the shape of the packed matrix (data 0, panel_stride of panels that lie one
 * after the other). */
void b1i_tile_shape(const b1i_tensor *t, b1i_tile_matrix *out);
/* Packs `count` (1 … 16) rows of a file's format (logical order, `rows` bytes as in the file) into one panel at `out`
 * [blocks × block_bytes]. */
void b1i_tile_pack(b1i_format_id format, const b1i_tile_matrix *m, const uint8_t *rows, int count, uint8_t *out);
/* Element (row, col) of a packed panel as f32: the packer's test. */
float b1i_tile_get(const b1i_tile_matrix *m, const uint8_t *panel, int row, int col);

uint64_t b1i_cuda_weight_bytes(const b1i_model *model); /* arena and vectors */
/* Bytes of it that a step reads (an untied embedding's one row). */
uint64_t b1i_cuda_stored_bytes(const b1i_model *model);
/* Packs and uploads with all of `workers`; progress as b1_progress_fn. Whether q, k and v (and gate and up) lie so that
 * one launch streams them is what b1i_cuda_joined_qkv() and b1i_cuda_joined_gate_up() say. */
b1_status b1i_cuda_weights_load(b1i_gpu *gpu, const b1i_model *model, const b1i_plan *plan, int workers,
                                b1_progress_fn progress, void *user, b1i_cuda_weights *out, b1_error *err);
void b1i_cuda_weights_free(b1i_cuda_weights *w);
/* q, k, v of a layer lie panel after panel and have one block shape; gate and up are interleaved panel by panel (each
 * has panel_stride = 2 panels) and have one block shape. */
bool b1i_cuda_joined_qkv(const b1i_model *model, int layer);
bool b1i_cuda_joined_gate_up(const b1i_model *model, int layer);

/* ---- the KV cache of a session ---- */
typedef struct b1i_cuda_kv {
    b1i_gpu_ptr data;
    size_t bytes, head_bytes; /* heads of a layer, then layers, each head_bytes apart */
    int64_t capacity;         /* positions, a multiple of 32 */
    int dim;                  /* D: head_dim padded */
} b1i_cuda_kv;
int b1i_cuda_dim(int head_dim); /* 64, 96, 128, 256; 0: not supported */
size_t b1i_cuda_kv_bytes(const b1i_config *config, int64_t context);
/* Zeroed: what is past the last position must be finite. */
b1_status b1i_cuda_kv_create(b1i_gpu *gpu, const b1i_config *config, int64_t context, b1i_cuda_kv *out, b1_error *err);
void b1i_cuda_kv_free(b1i_gpu *gpu, b1i_cuda_kv *kv);
/* Element of a block, as in args.h. */
size_t b1i_cuda_key_index(int dim, int position, int d);
size_t b1i_cuda_value_index(int dim, int position, int d);

/* ---- the machine: buffers of a step and its programs; one an engine, used by one session at a time ---- */
/* early: fused, for programmatic launch; its kernels stream before they wait for their inputs. */
typedef enum b1i_cuda_form { b1i_cuda_separate, b1i_cuda_fused, b1i_cuda_early, b1i_cuda_forms } b1i_cuda_form;
enum { b1i_cuda_one, b1i_cuda_few, b1i_cuda_widths }; /* programs for one row, and for 2 … 8 */

typedef struct b1i_cuda_program {
    b1i_gpu_launch *launches;
    int count;
} b1i_cuda_program;

typedef struct b1i_cuda_machine {
    const b1i_cuda_weights *w;
    b1i_gpu *gpu;
    pthread_mutex_t lock; /* held from a step's submit to its wait */
    b1i_gpu_ptr block;    /* the memory behind all of these */
    size_t block_bytes, part_bytes;
    b1i_gpu_ptr value[b1i_value_count]; /* [8][stride]: f32; norm, att and act bf16. No logits: a session has its own */
    int64_t stride[b1i_value_count];    /* elements, a multiple of 32; zeros past the value's columns */
    b1i_gpu_ptr step, cos, sin, inverse, part, begun, head_arrived, best;
    float rope_factor;
    b1i_step_params *staged; /* pinned: the next step's parameters */
    b1i_gpu_ptr staged_device;
    volatile b1i_step_result *result; /* pinned */
    b1i_gpu_ptr result_device;
    uint32_t serial;
    int splits;                                                /* of the context in attention */
    b1i_cuda_program program[b1i_cuda_forms][b1i_cuda_widths]; /* made on first use */
} b1i_cuda_machine;

/* Whether the GPU engine can run this model. */
b1_status b1i_cuda_supports(const b1i_model *model, b1_error *err);
uint64_t b1i_cuda_machine_bytes(const b1i_model *model, int sms);
b1_status b1i_cuda_machine_create(const b1i_cuda_weights *w, b1i_cuda_machine *out, b1_error *err);
void b1i_cuda_machine_free(b1i_cuda_machine *m);
/* The launches of a step, in order; belongs to the machine. Items are the plan's ops (separate) or groups (fused). */
b1_status b1i_cuda_program_get(b1i_cuda_machine *m, b1i_cuda_form form, int width, const b1i_cuda_program **out,
                               b1_error *err);
/* Whether a value is kept as bf16. */
bool b1i_cuda_value_is_bf16(b1i_value v);
/* Positions [0, count) of the cache with the same filler as on the CPU. */
b1_status b1i_cuda_kv_fill(b1i_gpu *gpu, const b1i_config *config, const b1i_cuda_kv *kv, int count, b1_error *err);

/* ---- prefill: many rows of one sequence in a pass ---- */
typedef struct b1i_cuda_prefill b1i_cuda_prefill;
enum { B1I_CUDA_PREFILL_ROWS = 512 };
uint64_t b1i_cuda_prefill_bytes(const b1i_model *model);
/* Opens cuBLASLt; B1_UNSUPPORTED where it is not found, with where it was looked for. */
b1_status b1i_cuda_prefill_create(const b1i_cuda_weights *w, b1i_cuda_prefill **out, b1_error *err);
void b1i_cuda_prefill_free(b1i_cuda_prefill *p);
/* Evaluates `n` (1 … 512) tokens at positions [position, position + n) of `kv`; their logits, of rows [logits_from,
 * n), go to `logits` (device, f32 [n − logits_from][vocab]). Waits. The caller holds the machine's lock. */
b1_status b1i_cuda_prefill_run(b1i_cuda_prefill *p, const b1i_cuda_kv *kv, const int32_t *tokens, int n, int position,
                               int logits_from, b1i_gpu_ptr logits, b1_error *err);

/* Loads the fatbins of this build into the gpu. */
b1_status b1i_cuda_load_kernels(b1i_gpu *gpu, b1_error *err);

#endif
