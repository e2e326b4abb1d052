/* SPDX-License-Identifier: MIT
 *
 * The greedy choice from logits in the CPU's memory: what a sampler of temperature 0 without penalty gives.
 */
#include "exec/exec.h"

#include <math.h>
#include <string.h>

b1_status b1i_mask_set(b1i_mask *m, const int32_t *ids, int count, b1_error *err)
{
    const size_t bytes = b1i_mask_words(m->vocab) * sizeof *m->bits;
    for (int i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= m->vocab)
            return b1i_fail(err, B1_ARGUMENT, "masked token %d, expected 0 to %d", (int)ids[i], m->vocab - 1);
    if (!m->bits && count > 0 && !(m->bits = b1i_malloc(bytes))) return b1i_fail_memory(err, bytes);
    if (m->bits) memset(m->bits, 0, bytes);
    m->count = 0;
    for (int i = 0; i < count; i++) {
        uint32_t *word = &m->bits[ids[i] / 32], bit = (uint32_t)1 << ids[i] % 32;
        m->count += !(*word & bit);
        *word |= bit;
    }
    return B1_OK;
}

void b1i_mask_free(b1i_mask *m)
{
    b1i_free(m->bits);
    m->bits = NULL;
    m->count = 0;
}

b1_status b1i_mask_check(const b1i_mask *m, b1_error *err)
{
    return m->count < m->vocab ? B1_OK : b1i_fail(err, B1_ARGUMENT, "all %d tokens are masked", m->vocab);
}

static bool masked(const b1i_mask *m, int id) { return m->count > 0 && (m->bits[id / 32] >> id % 32 & 1); }

b1_status b1i_argmax(const float *x, const b1i_mask *m, int32_t *token, b1_error *err)
{
    int best = -1;
    for (int i = 0; i < m->vocab; i++)
        if (!isfinite(x[i]))
            return b1i_fail(err, B1_NUMERIC, "the logit of token %d is %s", i,
                            isnan(x[i]) ? "not a number" : "infinite");
    b1_status st = b1i_mask_check(m, err);
    if (st != B1_OK) return st;
    for (int i = 0; i < m->vocab; i++)
        if ((best < 0 || x[i] > x[best]) && !masked(m, i)) best = i;
    *token = best;
    return B1_OK;
}
