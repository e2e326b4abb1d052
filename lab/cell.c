/* SPDX-License-Identifier: MIT
 *
 * Sessions as the bench's subject. See cell.h.
 */
#include "lab/cell.h"

#include "lab/stats.h"

enum { PREFILL_RUNS = 3, BATCH_MOST = 8 };

static int32_t token_at(uint64_t i, int vocab) { return (int32_t)(b1i_mix64(i) % (uint64_t)vocab); }

/* ---- steps ---- */

b1_status b1i_steps_begin(b1i_steps *s, b1_error *err)
{
    b1_status st = B1_OK;
    if (s->batch < 1 || s->batch > BATCH_MOST)
        return b1i_fail(err, B1_ARGUMENT, "a batch of %d sessions: expected 1 to %d", s->batch, (int)BATCH_MOST);
    for (int i = 0; i < s->batch; i++) {
        B1I_TRY(b1_session_rewind(s->sessions[i], 0, err));
        if (s->context > 1) B1I_TRY(b1_session_fill(s->sessions[i], s->context - 1, err));
    }
fail:
    return st;
}

b1_status b1i_steps_one(b1i_steps *s, uint64_t *ns, b1_error *err)
{
    int32_t tokens[BATCH_MOST];
    for (int i = 0; i < s->batch; i++) tokens[i] = token_at(s->taken + (uint64_t)i, s->vocab);
    uint64_t start = b1i_now_ns();
    b1_status st = s->batch == 1 ? b1_session_step(s->sessions[0], tokens[0], err)
                                 : b1_sessions_step(s->sessions, tokens, s->batch, err);
    *ns = b1i_now_ns() - start;
    if (st == B1_OK) s->taken += (uint64_t)s->batch;
    for (int i = 0; st == B1_OK && i < s->batch; i++) st = b1_session_rewind(s->sessions[i], s->context - 1, err);
    return st;
}

/* ---- a cell ---- */

typedef struct cell {
    b1i_steps steps;
    b1i_ceiling *ceiling;
} cell;

static b1_status cell_step(void *user, uint64_t *ns, b1_error *err)
{
    cell *c = user;
    return b1i_steps_one(&c->steps, ns, err);
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
    cell c = {{sessions, batch, vocab, context, 0}, ceiling};
    b1_status st = b1i_steps_begin(&c.steps, err);
    if (st != B1_OK) return st;
    b1i_bench_subject subject = {&c, cell_step, cell_ceiling, b1_session_traffic_bytes(sessions[0], context),
                                 cell_throttles};
    b1i_bench_plan slices = *plan;
    for (int i = 1; i < batch; i++) subject.bytes += b1_session_kv_bytes(sessions[i], context);
    /* What a cache could hold from one step to the next would be read from there: each step then follows a reading of
     * the ceiling, which leaves nothing of it in the cache. */
    if (subject.bytes < 2 * b1i_ceiling_cache_bytes(ceiling)) slices.slice_most = 1;
    return b1i_bench_measure(&subject, &slices, out, err);
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
