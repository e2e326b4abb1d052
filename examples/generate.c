/* SPDX-License-Identifier: MIT
 *
 * The whole of the C API that a program needs to generate text:
 *
 *     generate MODEL [PROMPT [TOKENS]]
 *
 * Build against an installed library:
 *
 *     cc generate.c $(pkg-config --cflags --libs batchone) -o generate
 */
#include <batchone/batchone.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_end(const b1_engine *engine, int32_t token)
{
    int count;
    const int32_t *ends = b1_engine_end_tokens(engine, &count);
    for (int i = 0; i < count; i++)
        if (ends[i] == token) return true;
    return false;
}

/* Up to `count` tokens after what the session holds, printed as they come. */
static b1_status generate(const b1_engine *engine, b1_session *session, b1_sampler *sampler, int count, b1_error *err)
{
    const b1_tokenizer *tokenizer = b1_engine_tokenizer(engine);
    b1_status st = B1_OK;
    b1_decode_stream stream = {.started = false};
    char *piece = malloc(b1_tokenizer_piece_max(tokenizer) + 8);
    if (!piece) return B1_MEMORY;

    for (int i = 0; i < count; i++) {
        int32_t token;
        size_t bytes;
        /* Greedy, without a repetition penalty: the history is of no interest. */
        if ((st = b1_sampler_next(sampler, b1_session_logits(session), NULL, 0, &token, err)) != B1_OK) break;
        if (is_end(engine, token)) break;
        if ((st = b1_tokenizer_stream(tokenizer, &stream, token, false, piece, &bytes, err)) != B1_OK) break;
        fwrite(piece, 1, bytes, stdout);
        fflush(stdout);
        if (i + 1 == count || b1_session_position(session) == b1_session_context(session)) break;
        if ((st = b1_session_step(session, token, err)) != B1_OK) break;
    }
    fwrite(piece, 1, b1_tokenizer_stream_flush(&stream, piece), stdout);
    putchar('\n');
    free(piece);
    return st;
}

int main(int argc, char **argv)
{
    const char *prompt = argc > 2 ? argv[2] : "The capital of France is";
    int tokens = argc > 3 ? atoi(argv[3]) : 32;
    b1_engine *engine = NULL;
    b1_session *session = NULL;
    b1_sampler *sampler = NULL;
    int32_t *ids = NULL;
    int count = 0;
    b1_error err = {.status = B1_OK};
    b1_status st = B1_ARGUMENT;
    b1_model_info info;
    b1_sampler_options sampling = b1_sampler_defaults(); /* greedy */

    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [PROMPT [TOKENS]]\n", argv[0]);
        return 2;
    }
    /* The weights: once, however many sessions there are. */
    if ((st = b1_engine_open(argv[1], NULL, &engine, &err)) != B1_OK) goto fail;
    b1_engine_info(engine, &info);
    if (!b1_engine_tokenizer(engine)) {
        snprintf(err.message, sizeof err.message, "%s has no tokenizer", argv[1]);
        st = B1_MODEL;
        goto fail;
    }
    /* One sequence of tokens, with its own keys and values. */
    if ((st = b1_session_create(engine, NULL, &session, &err)) != B1_OK) goto fail;
    if ((st = b1_sampler_create(&sampling, info.vocab, &sampler, &err)) != B1_OK) goto fail;

    if ((st = b1_tokenizer_encode(b1_engine_tokenizer(engine), prompt, strlen(prompt), B1_ENCODE_DEFAULT_BOS, &ids,
                                  &count, &err)) != B1_OK)
        goto fail;
    if ((st = b1_session_prompt(session, ids, count, &err)) != B1_OK) goto fail;
    fputs(prompt, stdout);
    st = generate(engine, session, sampler, tokens, &err);

fail:
    if (st != B1_OK) fprintf(stderr, "%s: %s\n", b1_status_text(st), err.message);
    b1_free(ids);
    b1_sampler_free(sampler);
    b1_session_close(session);
    b1_engine_close(engine);
    return st == B1_OK ? 0 : 1;
}
