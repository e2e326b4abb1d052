/* SPDX-License-Identifier: MIT
 *
 * The generation loop. See generate.h.
 */
#include "app/generate.h"

#include "app/app.h"
#include "app/output.h"
#include "lab/stats.h"

#include <string.h>

enum { CEILING_BUDGET_NS = 45000000 }; /* the promise is 50 ms */

const char *const b1i_stop_names[] = {"eos", "length", "string", "cancelled"};

/* Masks what must never come: end tokens where they are to be ignored, and rows of the LM head that are no token. */
static b1_status mask_tokens(b1i_generator *g, int rows, b1_error *err)
{
    int ends, count = 0;
    const int32_t *end = b1_engine_end_tokens(g->engine, &ends);
    int32_t *ids = b1i_malloc(((size_t)rows + (size_t)ends) * sizeof *ids);
    if (!ids) return b1i_fail_memory(err, ((size_t)rows + (size_t)ends) * sizeof *ids);
    for (int i = 0; i < ends; i++)
        if (g->options->ignore_eos && end[i] >= 0 && end[i] < rows) ids[count++] = end[i];
    for (int i = 0; i < rows; i++)
        if (!b1_tokenizer_has(g->tokenizer, i)) ids[count++] = i;
    b1_status st = B1_OK;
    if (g->sampler && count)
        st = b1_sampler_mask(g->sampler, ids, count, err);
    else if (!g->sampler)
        st = b1_session_mask(g->session, ids, count, err);
    b1i_free(ids);
    return st;
}

b1_status b1i_generator_open(b1_engine *engine, b1_session *session, const b1i_generate_options *options,
                             b1i_generator *out, b1_error *err)
{
    b1_status st;
    b1_model_info info;
    b1_engine_info(engine, &info);
    *out = (b1i_generator){
        .engine = engine, .session = session, .tokenizer = b1_engine_tokenizer(engine), .options = options};
    if (!out->tokenizer)
        return b1i_fail(err, B1_UNSUPPORTED, "%s has no tokenizer, so text cannot be turned into tokens", info.name);
    B1I_TRY(b1_sampler_create(&options->sampling, info.vocab, &out->sampler, err));
    if (options->sampling.temperature <= 0 && options->sampling.repetition_penalty == 1) {
        b1_sampler_free(out->sampler); /* it has checked the options */
        out->sampler = NULL;
    }
    B1I_TRY(mask_tokens(out, info.vocab, err));
    size_t room = b1_tokenizer_piece_max(out->tokenizer) + 8;
    if (!(out->piece = b1i_malloc(room))) {
        st = b1i_fail_memory(err, room);
        goto fail;
    }
    return B1_OK;
fail:
    b1i_generator_close(out);
    return st;
}

void b1i_generator_close(b1i_generator *g)
{
    b1_sampler_free(g->sampler);
    b1i_free(g->piece);
    b1i_free(g->tokens);
    b1i_free(g->text);
    b1i_free(g->step_ns);
    b1i_free(g->host_ns);
    *g = (b1i_generator){0};
}

/* ---- text: streaming and stop strings ---- */

/* Looks for the stop string that is complete first, the new text beginning at `from`. Cuts the text before it. */
static bool cut_at_stop(b1i_generator *g, size_t from)
{
    size_t best_end = SIZE_MAX, best_start = 0;
    for (size_t i = 0; i < g->options->stop->count; i++) {
        const char *stop = g->options->stop->items[i];
        size_t length = strlen(stop), start = from >= length - 1 ? from - (length - 1) : 0;
        const char *hit = g->text_bytes > start ? memmem(g->text + start, g->text_bytes - start, stop, length) : NULL;
        if (!hit) continue;
        size_t begin = (size_t)(hit - g->text), end = begin + length;
        if (end < best_end || (end == best_end && begin < best_start)) best_end = end, best_start = begin;
    }
    if (best_end == SIZE_MAX) return false;
    g->text_bytes = best_start;
    return true;
}

/* How many bytes at the text's end could still become a stop string. */
static size_t held_back(const b1i_generator *g)
{
    size_t most = 0;
    for (size_t i = 0; i < g->options->stop->count; i++) {
        const char *stop = g->options->stop->items[i];
        size_t length = strlen(stop) - 1;
        if (length > g->text_bytes) length = g->text_bytes;
        while (length > most && memcmp(g->text + g->text_bytes - length, stop, length) != 0) length--;
        if (length > most) most = length;
    }
    return most;
}

/* Writes the text up to `end`. */
static b1_status write_text(b1i_generator *g, size_t end, bool stream, b1_error *err)
{
    if (!stream || end <= g->written) return B1_OK;
    b1_status st = b1i_write_text(g->text + g->written, end - g->written, err);
    if (st == B1_OK) g->written = end;
    return st;
}

static b1_status add_text(b1i_generator *g, size_t bytes, b1_error *err)
{
    if (!b1i_grow(&g->text, &g->text_room, g->text_bytes + bytes + 1, 1))
        return b1i_fail_memory(err, g->text_bytes + bytes + 1);
    memcpy(g->text + g->text_bytes, g->piece, bytes);
    g->text_bytes += bytes;
    return B1_OK;
}

/* ---- the loop ---- */

static bool is_end(const b1i_generator *g, int32_t token)
{
    int count;
    const int32_t *end = b1_engine_end_tokens(g->engine, &count);
    for (int i = 0; i < count; i++)
        if (end[i] == token) return true;
    return false;
}

static b1_status start(b1i_generator *g, const int32_t *prompt, int count, b1_error *err)
{
    g->prompt_count = g->token_count = 0;
    g->text_bytes = g->step_count = g->written = 0;
    g->prefill_ns = g->first_token_ns = 0;
    g->stop = b1i_stop_length;
    int context = b1_session_context(g->session);
    if (count < 1) return b1i_fail(err, B1_ARGUMENT, "the prompt is empty, but a model needs at least one token");
    if (count > context)
        return b1i_fail(err, B1_ARGUMENT,
                        "the prompt has %d tokens, but the context holds %d: shorten it or give a larger --context",
                        count, context);
    if (!b1i_grow(&g->tokens, &g->token_room, (size_t)context, sizeof *g->tokens))
        return b1i_fail_memory(err, (size_t)context * sizeof *g->tokens);
    memcpy(g->tokens, prompt, (size_t)count * sizeof *prompt);
    g->prompt_count = count;
    return B1_OK;
}

/* The next token, after `total` tokens. */
static b1_status choose(b1i_generator *g, int total, int32_t *token, b1_error *err)
{
    if (!g->sampler) return b1_session_argmax(g->session, token, err);
    const float *logits = b1_session_logits(g->session);
    if (!logits) return b1i_fail(err, B1_DEVICE, "the device did not hand over the logits");
    return b1_sampler_next(g->sampler, logits, g->tokens, total, token, err);
}

/* Chooses the next token and turns it into text; *ended says that generation is over. */
static b1_status next_token(b1i_generator *g, b1_decode_stream *decode, bool stream, bool *ended, b1_error *err)
{
    uint64_t begin = b1i_now_ns();
    int total = g->prompt_count + g->token_count;
    int32_t token;
    if (!b1i_grow(&g->host_ns, &g->host_room, (size_t)g->token_count + 1, sizeof *g->host_ns))
        return b1i_fail_memory(err, sizeof *g->host_ns);
    g->host_ns[g->token_count] = 0;
    size_t bytes = 0, from = g->text_bytes;
    b1_status st;
    B1I_TRY(choose(g, total, &token, err));
    g->tokens[total] = token;
    g->token_count++;
    if (g->token_count == 1) g->first_token_ns = b1i_now_ns() - b1i_command_start_ns;
    if (!g->options->ignore_eos && is_end(g, token)) {
        g->stop = b1i_stop_eos;
        *ended = true;
        if (!g->options->special) return B1_OK;
    }
    B1I_TRY(b1_tokenizer_stream(g->tokenizer, decode, token, g->options->special, g->piece, &bytes, err));
    B1I_TRY(add_text(g, bytes, err));
    if (bytes && cut_at_stop(g, from)) {
        g->stop = b1i_stop_string;
        *ended = true;
    }
    if (!*ended) B1I_TRY(write_text(g, g->text_bytes - held_back(g), stream, err));
    g->host_ns[g->token_count - 1] = (double)(b1i_now_ns() - begin);
    return B1_OK;
fail:
    return st;
}

static b1_status loop(b1i_generator *g, b1_decode_stream *decode, bool stream, b1_error *err)
{
    int context = b1_session_context(g->session);
    b1_status st;
    bool ended = false;
    uint64_t begin = b1i_now_ns();
    B1I_TRY(b1_session_prompt(g->session, g->tokens, g->prompt_count, err));
    g->prefill_ns = b1i_now_ns() - begin;
    for (;;) {
        if (g->token_count >= g->options->limit || g->prompt_count + g->token_count >= context) return B1_OK;
        if (b1i_cancel_asked()) return b1i_fail(err, B1_CANCELLED, "cancelled");
        B1I_TRY(next_token(g, decode, stream, &ended, err));
        if (ended || g->token_count >= g->options->limit || g->prompt_count + g->token_count >= context) return B1_OK;
        if (!b1i_grow(&g->step_ns, &g->step_room, g->step_count + 1, sizeof *g->step_ns))
            return b1i_fail_memory(err, sizeof *g->step_ns);
        begin = b1i_now_ns();
        B1I_TRY(b1_session_step(g->session, g->tokens[g->prompt_count + g->token_count - 1], err));
        g->step_ns[g->step_count++] = (double)(b1i_now_ns() - begin);
    }
fail:
    return st;
}

b1_status b1i_generate(b1i_generator *g, const int32_t *prompt, int count, bool stream, b1_error *err)
{
    b1_decode_stream decode = {0};
    b1_status st;
    B1I_TRY(start(g, prompt, count, err));
    b1i_cancel_watch(g->session);
    st = loop(g, &decode, stream, err);
    b1i_cancel_watch(NULL);
    if (st == B1_CANCELLED) {
        g->stop = b1i_stop_cancelled;
        b1_session_uncancel(g->session);
        if (stream && g->written < g->text_bytes - held_back(g)) return B1_OK; /* nobody takes the text */
    } else if (st != B1_OK) {
        goto fail;
    }
    if (g->stop != b1i_stop_string) {
        size_t from = g->text_bytes;
        B1I_TRY(add_text(g, b1_tokenizer_stream_flush(&decode, g->piece), err));
        if (g->text_bytes > from && cut_at_stop(g, from)) g->stop = b1i_stop_string;
    }
    return write_text(g, g->text_bytes, stream, err);
fail:
    return st;
}

/* ---- how near it came ---- */

b1_status b1i_generator_gap(b1i_generator *g, b1i_gap *out, b1_error *err)
{
    *out = (b1i_gap){0};
    /* The i-th step (from 0) runs at prompt_count + 1 + i positions. */
    int context = g->prompt_count + (int)(g->step_count + 1) / 2;
    out->traffic_bytes = b1_session_traffic_bytes(g->session, context);
    b1_status st = b1_session_read_ceiling(g->session, CEILING_BUDGET_NS, &out->ceiling_gbps, err);
    if (st != B1_OK && st != B1_MEMORY) return st;
    if (g->step_count == 0) return B1_OK;
    size_t tokens = (size_t)g->token_count;
    double *work = b1i_malloc((g->step_count + tokens) * sizeof *work);
    if (!work) return b1i_fail_memory(err, (g->step_count + tokens) * sizeof *work);
    double *host = work + g->step_count;
    memcpy(work, g->step_ns, g->step_count * sizeof *work);
    memcpy(host, g->host_ns, tokens * sizeof *work);
    out->median_ms = b1i_median(work, g->step_count) / 1e6;
    out->p99_ms = b1i_percentile(work, g->step_count, 99) / 1e6;
    out->max_ms = work[g->step_count - 1] / 1e6;
    out->host_ms = b1i_median(host, tokens) / 1e6;
    b1i_free(work);
    if (out->ceiling_gbps > 0) out->r_ceiling = (double)out->traffic_bytes / out->ceiling_gbps / (out->median_ms * 1e6);
    out->measured = true;
    return B1_OK;
}

void b1i_gap_print(const b1i_gap *gap)
{
    const char *dim = b1i_colours(stderr) ? "\033[2m" : "", *plain = *dim ? "\033[0m" : "";
    char size[24];
    b1i_human_bytes(gap->traffic_bytes, size);
    if (!gap->measured) {
        fprintf(stderr, "%sno decode step, so no R_ceiling; a step here would move %s%s\n", dim, size, plain);
        return;
    }
    if (gap->ceiling_gbps <= 0) {
        fprintf(stderr, "%s%.2f ms a token (p99 %.2f), a step moves %s; no packed weights, so no R_ceiling%s\n", dim,
                gap->median_ms, gap->p99_ms, size, plain);
        return;
    }
    double floor_ms = (double)gap->traffic_bytes / gap->ceiling_gbps / 1e6, rest = gap->median_ms - floor_ms;
    fprintf(stderr, "%s%.2f ms a token (p99 %.2f), R_ceiling %.2f: %s a step take %.2f ms at the measured %.1f GB/s, ",
            dim, gap->median_ms, gap->p99_ms, gap->r_ceiling, size, floor_ms, gap->ceiling_gbps);
    if (rest > 0)
        fprintf(stderr, "the other %.2f ms are arithmetic and waiting", rest);
    else
        fprintf(stderr, "more than it took: a cache helped, or the reading was disturbed");
    fprintf(stderr, "; sampling and text take %.2f ms more%s\n", gap->host_ms, plain);
}
