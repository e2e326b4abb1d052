/* SPDX-License-Identifier: MIT
 *
 * batchone: batch-1 LLM decode near the memory floor. The whole public C API.
 *
 * Objects and who owns them
 *   b1_engine     one model with resident weights; immutable after it is opened and shared between threads.
 *   b1_session    one token sequence with its KV cache; belongs to one thread at a time. Only
 *                 b1_session_cancel() may be called from another thread or from a signal handler.
 *   b1_tokenizer  immutable, shared between threads; the engine's own lives as long as the engine.
 *   b1_sampler    belongs to one thread.
 * Whatever a function hands out through a `**out` belongs to the caller and is given back with the matching
 * *_close() or *_free(); all of these take NULL. Strings and arrays returned as `const` belong to the object.
 *
 * Errors: every function that can fail returns b1_status (0 is success) and, where `err` is not NULL, fills it with
 * one sentence that names the file, tensor, offset or option at fault. On failure `*out` is NULL. The library never
 * exits, aborts or prints.
 */
#ifndef BATCHONE_H
#define BATCHONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define B1_API __attribute__((visibility("default")))
#else
#define B1_API
#endif

/* ---- status ---------------------------------------------------------------------------------------------------- */

#define B1_STATUS_MAP(X)                                                                         \
    X(OK, "success")                                                                             \
    X(ARGUMENT, "an argument or option is wrong")                                                \
    X(MODEL, "a model or tokenizer file is missing, damaged or of a kind that is not supported") \
    X(MEMORY, "not enough memory")                                                               \
    X(UNSUPPORTED, "this executor or device cannot do that")                                     \
    X(IO, "a file could not be read or written")                                                 \
    X(CANCELLED, "cancelled")                                                                    \
    X(CONTEXT, "the context is full")                                                            \
    X(NUMERIC, "the logits are not finite")                                                      \
    X(DEVICE, "the device failed")                                                               \
    X(SYSTEM, "the operating system refused a resource")

typedef enum b1_status {
#define B1_STATUS_ENUM(name, text) B1_##name,
    B1_STATUS_MAP(B1_STATUS_ENUM)
#undef B1_STATUS_ENUM
} b1_status;

typedef struct b1_error {
    b1_status status;
    char message[1000]; /* one UTF-8 sentence, NUL-terminated */
} b1_error;

/* The status's name ("MODEL"); its meaning as a phrase. Never NULL. */
B1_API const char *b1_status_name(b1_status status);
B1_API const char *b1_status_text(b1_status status);
B1_API const char *b1_version(void);
/* The CPU kernels that engines of this process use: "avx512vnni", "avx2", "neondot", "generic", …: the best that this
 * machine supports, or what the environment variable BATCHONE_ISA names. */
B1_API const char *b1_kernels_name(void);

/* ---- engine ---------------------------------------------------------------------------------------------------- */

typedef struct b1_engine b1_engine;
typedef struct b1_session b1_session;
typedef struct b1_tokenizer b1_tokenizer;
typedef struct b1_sampler b1_sampler;

/* Progress of long work: `done` of `total` bytes. Return false to cancel. Called from the thread that opened. */
typedef bool (*b1_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

typedef struct b1_engine_options {
    const char *device;   /* "cpu"; "cuda" or "cuda:N", an NVIDIA GPU (the first, or number N from 0); "auto" or NULL:
                           * the first GPU where there is one that this build can use, the executor is one of its
                           * own, and the model is supported there and fits; otherwise the CPU. Weights, KV caches
                           * and steps are on that device alone. */
    const char *executor; /* packs the weights for this executor while opening; NULL is the fastest that supports the
                           * model. Sessions may name others of the same device: what those need is packed on first
                           * use. On cuda "separate" and "fused" mean separate_graph and fused_graph. */
    const char *weights;  /* synthetic models only: format of every matrix, "bf16" where NULL */
    int threads;          /* 0: as many as affinity and the cgroup's CPU quota allow, physical cores first */
    int context;          /* positions that the memory check plans for; 0 is min(4096, the model's) */
    b1_progress_fn progress; /* NULL: none */
    void *progress_user;
} b1_engine_options;

/* Opens `model`: a .gguf file (the first of a split one) or a Hugging Face directory. `options` may be NULL.
 * B1_MODEL: what is wrong in which file; B1_MEMORY: does not fit, with the sum that shows why; B1_ARGUMENT: an option
 * is wrong; B1_UNSUPPORTED: the executor or device cannot run this model, or there is no such device; B1_DEVICE: the
 * device failed; B1_CANCELLED: `progress` returned false. A GPU that failed in a way that cannot be mended (an illegal
 * address, …) poisons its engine: each later call on it or its sessions that needs the GPU returns the same sentence as
 * B1_DEVICE. Other engines on GPUs in this process, and those opened later, must be expected to fail so too, with a
 * sentence of their own: the driver gives such a process up, and only a new one is sure of the GPU. Engines on the CPU
 * go on, and closing works as ever. */
B1_API b1_status b1_engine_open(const char *model, const b1_engine_options *options, b1_engine **out, b1_error *err);

/* Opens a built-in published architecture with random weights; b1_shape_name(i) lists them, NULL past the last. Its
 * layers have one layer's values, its head the embedding's, each in memory of its own. It has no tokenizer.
 * B1_ARGUMENT: no such shape or format; B1_UNSUPPORTED: rows of this shape are no whole number of the format's blocks.
 */
B1_API b1_status b1_engine_open_synthetic(const char *shape, const b1_engine_options *options, b1_engine **out,
                                          b1_error *err);
B1_API const char *b1_shape_name(int index);

/* All sessions of the engine must be closed before. */
B1_API void b1_engine_close(b1_engine *engine);

typedef struct b1_model_info {
    const char *name;         /* the model's own name, or its file's */
    const char *architecture; /* "llama", "mistral", "qwen2", "qwen3" */
    const char *weights;      /* "q4_1", or "mixed" where matrices differ: the format with most bytes, then "+" */
    int layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    int context_max;       /* the longest context the model was made for */
    uint64_t weight_bytes; /* W: bytes of weights that a step reads, in the format's own size */
    uint64_t stored_bytes; /* the same as packed in the device's memory */
    uint64_t parameters;
    double load_ms;
    const char *device;      /* "cpu", "cuda:0"; NULL of an inspection */
    const char *device_name; /* "NVIDIA H200"; on the CPU the kernels that run, as b1_kernels_name() */
    uint64_t device_bytes;   /* memory of the device that was planned for the engine with one session of its context:
                              * weights, KV cache, buffers; 0 of an inspection */
} b1_model_info;

B1_API void b1_engine_info(const b1_engine *engine, b1_model_info *out);
/* The engine's tokenizer; NULL where the model has none. */
B1_API const b1_tokenizer *b1_engine_tokenizer(const b1_engine *engine);
/* End tokens: the union of config, generation config and tokenizer. *count is set. */
B1_API const int32_t *b1_engine_end_tokens(const b1_engine *engine, int *count);
B1_API int b1_engine_threads(const b1_engine *engine);

/* Names of all executors, those of the CPU first; NULL past the last. Whether this machine has the device is not
 * asked. */
B1_API const char *b1_executor_name(int index);
/* The kind of device that the executor of the same index runs on: "cpu" or "cuda"; NULL past the last. */
B1_API const char *b1_executor_device(int index);

/* ---- what a model needs, without loading it -------------------------------------------------------------------- */

typedef struct b1_inspection b1_inspection;
typedef struct b1_tensor_type {
    const char *format;
    int tensors;
    uint64_t parameters, bytes;
} b1_tensor_type;

/* Checks the whole header of a model and reads its sizes. `info.stored_bytes` is that of the fastest CPU executor. */
B1_API b1_status b1_inspect(const char *model, b1_inspection **out, b1_error *err);
B1_API b1_status b1_inspect_synthetic(const char *shape, const char *weights, b1_inspection **out, b1_error *err);
B1_API void b1_inspection_info(const b1_inspection *inspection, b1_model_info *out);
B1_API const b1_tensor_type *b1_inspection_types(const b1_inspection *inspection, int *count);
/* K: bytes of keys and values that a step at `context` positions reads, bf16. */
B1_API uint64_t b1_inspection_kv_bytes(const b1_inspection *inspection, int context);
/* Bytes of memory that an engine on the CPU with one session of `context` positions takes. */
B1_API uint64_t b1_inspection_memory_bytes(const b1_inspection *inspection, int context);
/* The same on `device`, "cpu", "cuda" or "cuda:N", to *bytes: on a GPU the weights as they are kept there, KV cache,
 * buffers, and prefill's scratch, which an engine goes without where it does not fit. How much of the memory is free
 * is not asked. B1_ARGUMENT: no device has that name ("auto" is none); B1_UNSUPPORTED: there is no such GPU, or it
 * cannot run the model. *bytes is 0 then. */
B1_API b1_status b1_inspection_device_bytes(const b1_inspection *inspection, const char *device, int context,
                                            uint64_t *bytes, b1_error *err);
B1_API void b1_inspection_free(b1_inspection *inspection);

/* ---- session --------------------------------------------------------------------------------------------------- */

typedef struct b1_session_options {
    const char *executor;    /* NULL: the engine's; another must be one of the engine's device */
    int context;             /* most positions it can hold; 0 is the engine's */
    const char *kv;          /* "bf16", "f16", "f32"; NULL is the executor's default (reference f32, others bf16); on
                              * cuda bf16 is all there is (B1_UNSUPPORTED) */
    const char *activations; /* the reference only: inputs of linear ops in "f32" (NULL), or rounded as this machine's
                              * "kernels" round them, or all of them to "bf16" as the CUDA executors do */
    bool all_logits;         /* keep the logits of every row of the last pass, not of its last row only (tests). A pass
                              * has 128 tokens at most; on cuda 512, or 8 without cuBLASLt */
    bool op_times;           /* record the time of every op; slower. On cuda the executor then launches kernel by
                              * kernel, with an event after each op, and passes of more than 8 tokens are not timed */
} b1_session_options;

/* B1_MEMORY, B1_UNSUPPORTED (with the executor's sentence), B1_ARGUMENT, B1_DEVICE. */
B1_API b1_status b1_session_create(b1_engine *engine, const b1_session_options *options, b1_session **out,
                                   b1_error *err);
B1_API void b1_session_close(b1_session *session);

/* Makes the session hold exactly `tokens` [count ≥ 1], reusing the longest common prefix that is cached (at least the
 * last token is evaluated again, so that its logits exist). Many tokens go through one pass.
 * B1_CONTEXT: count exceeds the session's context; B1_CANCELLED: the whole chunks evaluated so far stay cached. */
B1_API b1_status b1_session_prompt(b1_session *session, const int32_t *tokens, int count, b1_error *err);
/* Appends `tokens` [count ≥ 1]. */
B1_API b1_status b1_session_feed(b1_session *session, const int32_t *tokens, int count, b1_error *err);
/* One decode step: appends `token` and computes its logits. */
B1_API b1_status b1_session_step(b1_session *session, int32_t token, b1_error *err);
/* One decode step of n different sessions of one engine and executor together, 1 ≤ n ≤ 8: session i appends tokens[i],
 * and the weights are read once for all. Each session's logits are as after b1_session_step(), but that sums may be
 * taken in another order, and its own position moves on; times of ops are the first one's. A session that is cancelled
 * ends the step. B1_ARGUMENT: n, a session that is there twice, or sessions of several engines, executors or, on the
 * reference, activations; B1_UNSUPPORTED, with the executor's sentence, where it takes no step of several sequences. On
 * a failure no session has moved. */
B1_API b1_status b1_sessions_step(b1_session *const *sessions, const int32_t *tokens, int n, b1_error *err);
/* Forgets every position from `position` on; 0 ≤ position ≤ b1_session_position(). */
B1_API b1_status b1_session_rewind(b1_session *session, int position, b1_error *err);
/* Makes the session hold `count` positions of deterministic filler (keys and values in the range of real ones, no
 * evaluation), for measurements at a stated context. The filler's tokens are never reused as a prefix. */
B1_API b1_status b1_session_fill(b1_session *session, int count, b1_error *err);
/* Ends a running feed soon with B1_CANCELLED, and every later feed or step until b1_session_uncancel(). A step that
 * runs may be ended or finished; on cuda a pass that runs is finished. */
B1_API void b1_session_cancel(b1_session *session);
B1_API void b1_session_uncancel(b1_session *session);

/* Tokens held so far, and the most it can hold. */
B1_API int b1_session_position(const b1_session *session);
B1_API int b1_session_context(const b1_session *session);
/* Logits [vocab] of the last token, f32, valid until the next call that changes the session; NULL where there are
 * none: before the first evaluation, after a rewind to an earlier position, a fill, a pass that failed.
 * With all_logits, `row` counts back from the last token, within the last pass: 0 is the last.
 * On cuda they are copied from the GPU when they are asked for; NULL too where the GPU fails to hand them over, and the
 * next call that evaluates says why. */
B1_API const float *b1_session_logits(const b1_session *session);
B1_API const float *b1_session_logits_at(const b1_session *session, int row);
/* The token with the largest logit after the last one held, the lowest id where several are equal, of those that are
 * not masked: what a sampler of temperature 0 without penalty gives. On cuda the GPU has chosen it in the step, and the
 * logits stay there. B1_NUMERIC: a logit is not finite; B1_ARGUMENT: the session has no logits, or every token is
 * masked. *token is set on success only. */
B1_API b1_status b1_session_argmax(b1_session *session, int32_t *token, b1_error *err);
/* b1_session_argmax() never gives these ids ([count], copied), and may give all others: an earlier mask is replaced,
 * count 0 lifts it. The logits are not changed. B1_ARGUMENT: an id outside the vocabulary; the mask is as before. */
B1_API b1_status b1_session_mask(b1_session *session, const int32_t *ids, int count, b1_error *err);
B1_API const char *b1_session_executor(const b1_session *session);
/* Something that its user should know once, as a sentence, such as a library that is missing and what that costs; NULL
 * where there is nothing. Belongs to the session. */
B1_API const char *b1_session_note(const b1_session *session);
/* Writes the graph that the session's steps run as a DOT file, read back from the driver. B1_UNSUPPORTED: the executor
 * runs no graph; B1_IO: the file cannot be written. */
B1_API b1_status b1_session_graph_dot(b1_session *session, const char *path, b1_error *err);
/* W + K of a step at `context` positions, in bytes, and K alone (with this session's KV type). */
B1_API uint64_t b1_session_traffic_bytes(const b1_session *session, int context);
B1_API uint64_t b1_session_kv_bytes(const b1_session *session, int context);

typedef struct b1_timings {
    uint64_t last_step_ns; /* host time of the last b1_session_step */
    uint64_t feed_ns;      /* of the last feed or prompt */
    int feed_tokens;       /* tokens that it evaluated */
} b1_timings;
B1_API void b1_session_timings(const b1_session *session, b1_timings *out);

/* Reads the session's packed weights with all the engine's threads in pieces of 128 MiB, or all where they are less,
 * as many as fit into `budget_ns` and one at least; *gbps is that of the fastest. On cuda a piece is at most 4 GiB,
 * read by the better of plain loads and bulk copies, and *gbps is a median; where the weights are not far larger than
 * the GPU's L2 cache, other memory is read in their place (B1_MEMORY where there is none). B1_MEMORY where the executor
 * packs no weights (reference). */
B1_API b1_status b1_session_read_ceiling(b1_session *session, uint64_t budget_ns, double *gbps, b1_error *err);

/* ---- the plan: the step as a list of ops ----------------------------------------------------------------------- */

typedef struct b1_plan_op {
    const char *name;   /* "rmsnorm", "linear", …; of a fused plan "qkv", "attention", … */
    const char *tensor; /* the weight it reads, or "" */
    int layer;          /* -1 outside the layers */
    uint64_t weight_bytes;
    uint64_t time_ns; /* of the last step, where op_times is on */
    int launches;     /* of a step of one token: kernels; on the CPU dispatches to the workers (`persistent` has one, at
                       * its first op) */
} b1_plan_op;
/* The ops of this session's plan in order, valid until the next call that evaluates. */
B1_API const b1_plan_op *b1_session_plan(const b1_session *session, int *count);

/* ---- tokenizer ------------------------------------------------------------------------------------------------- */

/* From a Hugging Face directory, a tokenizer.json, or a GGUF file (one without tensors included). */
B1_API b1_status b1_tokenizer_open(const char *path, b1_tokenizer **out, b1_error *err);
B1_API void b1_tokenizer_close(b1_tokenizer *tokenizer);
B1_API int b1_tokenizer_vocab(const b1_tokenizer *tokenizer); /* ids lie in [0, vocab) */
/* Whether `id` is a token that text may hold: false past the vocabulary, in its holes, and for ids that the file marks
 * unused (padding). A sampler masks those. */
B1_API bool b1_tokenizer_has(const b1_tokenizer *tokenizer, int32_t id);

enum {
    B1_ENCODE_SPECIAL = 1,    /* text that spells a special token becomes that token; without it, it is plain text */
    B1_ENCODE_BOS = 2,        /* put BOS first, once */
    B1_ENCODE_DEFAULT_BOS = 4 /* put BOS first where the model's own tokenizer does */
};
/* `text` need not be NUL-terminated; invalid UTF-8 becomes U+FFFD. *ids [*count] is freed with b1_free(). */
B1_API b1_status b1_tokenizer_encode(const b1_tokenizer *tokenizer, const char *text, size_t bytes, unsigned flags,
                                     int32_t **ids, int *count, b1_error *err);
/* Decodes; special tokens are left out unless `special`. *text is NUL-terminated, [*bytes], valid UTF-8, freed with
 * b1_free(). B1_ARGUMENT: an id outside the vocabulary. */
B1_API b1_status b1_tokenizer_decode(const b1_tokenizer *tokenizer, const int32_t *ids, int count, bool special,
                                     char **text, size_t *bytes, b1_error *err);

/* Streaming decode: one token in, the text that is complete now out (an incomplete UTF-8 sequence is held back, at
 * most 3 bytes). Starts zeroed; `started` is set by the first token that gives text. */
typedef struct b1_decode_stream {
    unsigned char held[8];
    int held_count;
    bool started;
} b1_decode_stream;
B1_API size_t b1_tokenizer_piece_max(const b1_tokenizer *tokenizer);
/* The text goes to `buffer` [≥ b1_tokenizer_piece_max() + 8 bytes], its length to *bytes; it is not NUL-terminated and
 * may be empty. B1_ARGUMENT: an id outside the vocabulary. */
B1_API b1_status b1_tokenizer_stream(const b1_tokenizer *tokenizer, b1_decode_stream *stream, int32_t id, bool special,
                                     char *buffer, size_t *bytes, b1_error *err);
/* What is still held, as one U+FFFD, to `buffer` [≥ 3 bytes]; returns its length, 0 where nothing is held. */
B1_API size_t b1_tokenizer_stream_flush(b1_decode_stream *stream, char *buffer);

typedef struct b1_chat_message {
    const char *role;    /* "system", "user", "assistant" */
    const char *content; /* UTF-8; text that spells a special token stays text */
} b1_chat_message;
/* "chatml", "llama3", "mistral", or NULL where the model has no template that is known. */
B1_API const char *b1_tokenizer_chat_family(const b1_tokenizer *tokenizer);
/* Ids of the conversation so far, ending where the assistant's answer begins. B1_UNSUPPORTED: the model's template
 * is not one of the families; the sentence says so and offers the raw prompt. */
B1_API b1_status b1_tokenizer_chat(const b1_tokenizer *tokenizer, const b1_chat_message *messages, int count,
                                   int32_t **ids, int *id_count, b1_error *err);
B1_API void b1_free(void *memory);

/* ---- sampler --------------------------------------------------------------------------------------------------- */

/* Order: mask, repetition penalty, temperature, top-k, top-p (of what top-k left), min-p (against the largest), draw.
 * The same logits, history and seed give the same tokens on every machine. */
typedef struct b1_sampler_options {
    double temperature;        /* 0 is argmax */
    int top_k;                 /* 0: off */
    double top_p;              /* keeps the token that crosses; 1: off, 0 keeps one */
    double min_p;              /* 0: off */
    double repetition_penalty; /* 1: off; once per distinct token of the history */
    uint64_t seed;
} b1_sampler_options;
/* Temperature 0, the others off, seed 0. */
B1_API b1_sampler_options b1_sampler_defaults(void);
/* `options` may be NULL: the defaults. B1_ARGUMENT: an option out of its range, named. */
B1_API b1_status b1_sampler_create(const b1_sampler_options *options, int vocab, b1_sampler **out, b1_error *err);
B1_API void b1_sampler_free(b1_sampler *sampler);
/* Never produces these ids ([count], copied): end tokens with --ignore-eos, padding rows. */
B1_API b1_status b1_sampler_mask(b1_sampler *sampler, const int32_t *ids, int count, b1_error *err);
/* `logits` [vocab] are not changed. `history` [history_count] are the tokens so far (for the penalty).
 * B1_NUMERIC: NaN or infinity among the logits; B1_ARGUMENT: an id outside the vocabulary, or every token is masked.
 * Equal logits: the lowest id wins. */
B1_API b1_status b1_sampler_next(b1_sampler *sampler, const float *logits, const int32_t *history, int history_count,
                                 int32_t *token, b1_error *err);

#ifdef __cplusplus
}
#endif
#endif
