/* SPDX-License-Identifier: MIT
 *
 * A session as the bench's subject. See cell.h.
 */
#include "lab/cell.h"

#include "lab/stats.h"

enum { PREFILL_RUNS = 3 };

typedef struct cell {
    b1_session *session;
    b1i_ceiling *ceiling;
    int vocab, context;
    uint64_t taken; /* steps so far: the next one's token follows from it */
} cell;

static int32_t token_at(uint64_t i, int vocab) { return (int32_t)(b1i_mix64(i) % (uint64_t)vocab); }

static b1_status cell_step(void *user, uint64_t *ns, b1_error *err)
{
    cell *c = user;
    uint64_t start = b1i_now_ns();
    b1_status st = b1_session_step(c->session, token_at(c->taken, c->vocab), err);
    *ns = b1i_now_ns() - start;
    if (st != B1_OK) return st;
    c->taken++;
    return b1_session_rewind(c->session, c->context - 1, err);
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

b1_status b1i_cell_measure(b1_session *session, b1i_ceiling *ceiling, int vocab, int context,
                           const b1i_bench_plan *plan, b1i_bench_result *out, b1_error *err)
{
    *out = (b1i_bench_result){0};
    cell c = {session, ceiling, vocab, context, 0};
    b1i_bench_subject subject = {&c, cell_step, cell_ceiling, b1_session_traffic_bytes(session, context),
                                 cell_throttles};
    b1_status st;
    b1i_bench_plan slices = *plan;
    /* What a cache could hold from one step to the next would be read from there: each step then follows a reading of
     * the ceiling, which leaves nothing of it in the cache. */
    if (subject.bytes < 2 * b1i_ceiling_cache_bytes(ceiling)) slices.slice_most = 1;
    B1I_TRY(b1_session_rewind(session, 0, err));
    if (context > 1) B1I_TRY(b1_session_fill(session, context - 1, err));
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
