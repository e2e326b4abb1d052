/* SPDX-License-Identifier: MIT
 *
 * The oracle of `attention`: what a query head's output must be, in double precision, one position after the other, by
 * code that shares nothing with the kernels or with their bodies on the CPU. See oracle.h.
 */
#ifndef LAB_ORACLE_ATTENTION_H
#define LAB_ORACLE_ATTENTION_H

#include "base/base.h"

/* Of a head: w_p = exp(s_p) / Σ exp(s), s_p = q · k_p / √dim; y_d = Σ w_p v_pd. How far off y may be follows from two
 * sums, with t_p = Σ |q_i k_pi| / √dim + (largest s − s_p) and t their mean weighted by w: by_score = Σ w_p |v_pd| (t_p
 * + t), by_value = Σ w_p |v_pd|. [dim] each. */
typedef struct b1i_oracle_head {
    double *y, *by_score, *by_value;
} b1i_oracle_head;

/* Numbers are bf16. `q` [dim]; `k`, `v` [count][dim]; `scratch` [2 · count]. */
void b1i_oracle_attention(const uint16_t *q, const uint16_t *k, const uint16_t *v, int dim, int count, double *scratch,
                          const b1i_oracle_head *head);

/* Relative errors of who is compared: of a score, by its terms' magnitudes and by how far it lies below the largest; of
 * a weight and of a sum of weighted values, together; of the output's own rounding. */
typedef struct b1i_oracle_bounds {
    double score, value, out;
} b1i_oracle_bounds;

/* B1_DEVICE: of `is` [heads][dim], which element of `what` is wrong, what it is and what it should be. `want`'s arrays
 * are [heads][dim]. */
b1_status b1i_oracle_attention_fits(const char *what, const float *is, const b1i_oracle_head *want, int heads, int dim,
                                    const b1i_oracle_bounds *bounds, b1_error *err);

#endif
