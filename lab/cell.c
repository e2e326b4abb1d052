/* SPDX-License-Identifier: MIT
 *
 * Sessions as the bench's subject. See cell.h.
 */
#include "lab/cell.h"

#include "lab/stats.h"

enum { PREFILL_RUNS = 3, BATCH_MOST = 8 };

typedef struct cell {
    b1_session *const *sessions; /* [batch] */
    b1i_ceiling *ceiling;
    int batch, vocab, context;
    uint64_t taken; /* tokens so far: the next one follows from it */
} cell;

static int32_t token_at(uint64_t i, int vocab) { return (int32_t)(b1i_mix64(i) % (uint64_t)vocab); }

static b1_status cell_step(void *user, uint64_t *ns, b1_error *err)
{
    cell *c = user;
    int32_t tokens[BATCH_MOST];
    for (int i = 0; i < c->batch; i++) tokens[i] = token_at(c->taken + (uint64_t)i, c->vocab);
    uint64_t start = b1i_now_ns();
    b1_status st = c->batch == 1 ? b1_session_step(c->sessions[0], tokens[0], err)
                                 : b1_sessions_step(c->sessions, tokens, c->batch, err);
    *ns = b1i_now_ns() - start;
    if (st == B1_OK) c->taken += (uint64_t)c->batch;
    for (int i = 0; st == B1_OK && i < c->batch; i++) st = b1_session_rewind(c->sessions[i], c->context - 1, err);
    return st;
}

static b1_status cell_ceiling(void *user, double *gbps, b1_error *err)
{
    cell *c = user;
    return b1i_ceiling_glance(c->ceiling, gbps, err);
}

static uint64_t cell_throttles(void *user)
{
    cell *c = user;
    return b1i_ceiling_throttles(c->ceiling);
}

b1_status b1i_cell_measure(b1_session *const *sessions, int batch, b1i_ceiling *ceiling, int vocab, int context,
                           const b1i_bench_plan *plan, b1i_bench_result *out, b1_error *err)
{
    *out = (b1i_bench_result){0};
    if (batch < 1 || batch > BATCH_MOST)
        return b1i_fail(err, B1_ARGUMENT, "a batch of %d sessions: expected 1 to %d", batch, (int)BATCH_MOST);
    cell c = {sessions, ceiling, batch, vocab, context, 0};
    b1i_bench_subject subject = {&c, cell_step, cell_ceiling, b1_session_traffic_bytes(sessions[0], context),
                                 cell_throttles};
    b1_status st;
    b1i_bench_plan slices = *plan;
    for (int i = 1; i < batch; i++) subject.bytes += b1_session_kv_bytes(sessions[i], context);
    /* What a cache could hold from one step to the next would be read from there: each step then follows a reading of
     * the ceiling, which leaves nothing of it in the cache. */
    if (subject.bytes < 2 * b1i_ceiling_cache_bytes(ceiling)) slices.slice_most = 1;
    for (int i = 0; i < batch; i++) {
        B1I_TRY(b1_session_rewind(sessions[i], 0, err));
        if (context > 1) B1I_TRY(b1_session_fill(sessions[i], context - 1, err));
    }
    B1I_TRY(b1i_bench_measure(&subject, &slices, out, err));
    return B1_OK;
fail:
    return st;
}

b1_status b1i_cell_prefill(b1_session *session, int vocab, int count, bool (*cancelled)(void), double *tokens_per_s,
                           b1_error *err)
{
    double seconds[PREFILL_RUNS + 1];
    b1_status st = B1_OK;
    *tokens_per_s = 0;
    int32_t *tokens = b1i_malloc((size_t)count * sizeof *tokens);
    if (!tokens) return b1i_fail_memory(err, (size_t)count * sizeof *tokens);
    for (int i = 0; i < count; i++) tokens[i] = token_at((uint64_t)i, vocab);
    for (int run = 0; run <= PREFILL_RUNS; run++) {
        if (cancelled && cancelled()) {
            st = b1i_fail(err, B1_CANCELLED, "cancelled while measuring");
            goto fail;
        }
        B1I_TRY(b1_session_rewind(session, 0, err));
        uint64_t start = b1i_now_ns();
        B1I_TRY(b1_session_prompt(session, tokens, count, err));
        seconds[run] = (double)(b1i_now_ns() - start) / 1e9;
    }
    *tokens_per_s = count / b1i_median(seconds + 1, PREFILL_RUNS);
fail:
    b1i_free(tokens);
    return st;
}
