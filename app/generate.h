/* SPDX-License-Identifier: MIT
 *
 * Generation: a prompt in, tokens and text out, with the times of every step. Used by `run` once and by the chat once
 * a turn.
 *
 * Invariants: prompt and generated tokens together never exceed the session's context; the text that was streamed is
 * a prefix of the final text (what could still become a stop string is held back); the text holds no stop string.
 */
#ifndef APP_GENERATE_H
#define APP_GENERATE_H

#include "app/options.h"
#include "base/base.h"

typedef struct b1i_generate_options {
    b1_sampler_options sampling;
    const b1i_texts *stop; /* none of them empty */
    int limit;             /* most tokens; the context may end it before */
    bool ignore_eos;       /* end tokens are never produced */
    bool special;          /* special tokens are part of the text */
} b1i_generate_options;

typedef enum b1i_stop { b1i_stop_eos, b1i_stop_length, b1i_stop_string, b1i_stop_cancelled } b1i_stop;
extern const char *const b1i_stop_names[]; /* "eos", "length", "string", "cancelled" */

typedef struct b1i_generator {
    b1_engine *engine;
    b1_session *session;
    const b1_tokenizer *tokenizer;
    const b1i_generate_options *options;
    b1_sampler *sampler; /* NULL: greedy without a penalty, where the session itself chooses */
    char *piece;         /* [b1_tokenizer_piece_max() + 8] */

    /* Of the last call of b1i_generate(). */
    int32_t *tokens; /* [prompt_count + token_count]: the prompt, then all that was generated, an end token and the
                      * tokens of a stop string included */
    int prompt_count, token_count;
    char *text;      /* [text_bytes], valid UTF-8 */
    double *step_ns; /* [step_count] host time of each decode step */
    double *host_ns; /* [token_count] sampling and text of each token */
    size_t token_room, text_bytes, text_room, step_count, step_room, host_room;
    size_t written; /* bytes of the text that were streamed */
    b1i_stop stop;
    uint64_t prefill_ns, first_token_ns; /* the latter counts from the command's start; 0: no token came */
} b1i_generator;

/* `options` must outlive the generator. B1_UNSUPPORTED where the model has no tokenizer. */
b1_status b1i_generator_open(b1_engine *engine, b1_session *session, const b1i_generate_options *options,
                             b1i_generator *out, b1_error *err);
void b1i_generator_close(b1i_generator *generator);

/* Generates after `prompt` [1 ≤ count ≤ context]. Where `stream`, text goes to standard output as it comes.
 * A cancelled generation is a success with its stop. */
b1_status b1i_generate(b1i_generator *generator, const int32_t *prompt, int count, bool stream, b1_error *err);

/* How near the steps of the last generation came to the memory's speed. */
typedef struct b1i_gap {
    bool measured; /* false: no decode step, and all but traffic_bytes is 0 */
    double median_ms, p99_ms, max_ms;
    uint64_t traffic_bytes;         /* of the steps' median context */
    double ceiling_gbps, r_ceiling; /* 0 where there is nothing to read: the executor packs no weights */
    double host_ms;                 /* sampling and text of one token, beside the step; median */
} b1i_gap;
/* Reads the ceiling too, in at most 50 ms. */
b1_status b1i_generator_gap(b1i_generator *generator, b1i_gap *out, b1_error *err);
/* The sentence for a person, on stderr. */
void b1i_gap_print(const b1i_gap *gap);

#endif
