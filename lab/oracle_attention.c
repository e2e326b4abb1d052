/* SPDX-License-Identifier: MIT
 *
 * The oracle of `attention`. See oracle_attention.h.
 */
#include "lab/oracle_attention.h"

#include <math.h>
#include <string.h>

static const double LEAST = 0x1p-126; /* what lies below the normal floats may be lost */

static double bf16(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return (double)f;
}

void b1i_oracle_attention(const uint16_t *q, const uint16_t *k, const uint16_t *v, int dim, int count, double *scratch,
                          const b1i_oracle_head *head)
{
    double *score = scratch, *terms = scratch + count, most = -INFINITY, all = 0, mean = 0;
    for (int p = 0; p < count; p++) {
        const uint16_t *key = k + (size_t)p * (size_t)dim;
        double dot = 0, size = 0;
        for (int d = 0; d < dim; d++) {
            const double x = bf16(q[d]) * bf16(key[d]);
            dot += x;
            size += fabs(x);
        }
        score[p] = dot / sqrt(dim);
        terms[p] = size / sqrt(dim);
        if (score[p] > most) most = score[p];
    }
    for (int p = 0; p < count; p++) {
        terms[p] += most - score[p];
        score[p] = exp(score[p] - most);
        all += score[p];
    }
    for (int p = 0; p < count; p++) mean += score[p] / all * terms[p];
    for (int d = 0; d < dim; d++) head->y[d] = head->by_score[d] = head->by_value[d] = 0;
    for (int p = 0; p < count; p++) {
        const uint16_t *value = v + (size_t)p * (size_t)dim;
        const double w = score[p] / all, by = terms[p] + mean;
        for (int d = 0; d < dim; d++) {
            const double x = w * bf16(value[d]);
            head->y[d] += x;
            head->by_score[d] += fabs(x) * by;
            head->by_value[d] += fabs(x);
        }
    }
}

/* To first order. A weight w_p = e_p / Σ e is off by the error of e_p and by that of the sum, which is the mean of all
 * errors, weighted by w: of scores, that is `score` (t_p + t) of it; of the rest, twice `value`. What is of second
 * order is below a fiftieth of these while score · t and value are below 1 in 200. */
b1_status b1i_oracle_attention_fits(const char *what, const float *is, const b1i_oracle_head *want, int heads, int dim,
                                    const b1i_oracle_bounds *bounds, b1_error *err)
{
    for (int i = 0; i < heads * dim; i++) {
        double off = 1.02 * (bounds->score * want->by_score[i] + 2 * bounds->value * want->by_value[i]);
        off += bounds->out * (fabs(want->y[i]) + off) + LEAST;
        if (fabs((double)is[i] - want->y[i]) <= off) continue;
        return b1i_fail(err, B1_DEVICE, "%s: dimension %d of head %d is %.9g, and the oracle has %.9g, within %.2g",
                        what, i % dim, i / dim, (double)is[i], want->y[i], off);
    }
    return B1_OK;
}
