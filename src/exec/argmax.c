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

/* Logits are looked at in groups of a mask's word, so that the compiler may use its vectors where none is masked. */
enum { GROUP = 32 };

/* The largest of `count` unmasked logits (−∞: none); *bad is set where one of all is not finite. */
static float group_most(const float *x, int count, uint32_t masked_bits, uint32_t *bad)
{
    float most = -INFINITY;
    uint32_t wrong = 0;
    if (count == GROUP && masked_bits == 0) {
        for (int i = 0; i < GROUP; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i], sizeof bits);
            wrong |= (bits & 0x7f800000) == 0x7f800000; /* infinite or not a number */
            most = x[i] > most ? x[i] : most;
        }
    } else {
        for (int i = 0; i < count; i++) {
            wrong |= !isfinite(x[i]);
            if (!(masked_bits >> i & 1) && x[i] > most) most = x[i];
        }
    }
    *bad |= wrong;
    return most;
}

static b1_status not_finite(const float *x, int count, b1_error *err)
{
    int i = 0;
    while (i + 1 < count && isfinite(x[i])) i++;
    return b1i_fail(err, B1_NUMERIC, "the logit of token %d is %s", i, isnan(x[i]) ? "not a number" : "infinite");
}

b1_status b1i_argmax(const float *x, const b1i_mask *m, int32_t *token, b1_error *err)
{
    float most = -INFINITY;
    int group = 0;
    uint32_t bad = 0;
    for (int at = 0; at < m->vocab; at += GROUP) {
        const int count = m->vocab - at < GROUP ? m->vocab - at : GROUP;
        const float here = group_most(x + at, count, m->count > 0 ? m->bits[at / GROUP] : 0, &bad);
        if (here > most) most = here, group = at;
    }
    if (bad) return not_finite(x, m->vocab, err);
    b1_status st = b1i_mask_check(m, err);
    if (st != B1_OK) return st;
    while (x[group] != most || masked(m, group)) group++; /* of equals the lowest id */
    *token = group;
    return B1_OK;
}
