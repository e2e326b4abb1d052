/* SPDX-License-Identifier: MIT
 *
 * What the jobs of `tiles` must give, from their definition (kernels/tiles_args.h) and by no code of the kernels or of
 * the CPU's bodies.
 */
#ifndef LAB_ORACLE_TILES_H
#define LAB_ORACLE_TILES_H

#include "base/base.h"

enum { B1I_ORACLE_LANES = 256 };
/* out [jobs][256] of jobs with `iterations` [jobs] rounds of A and `consume` of B each. */
void b1i_oracle_tiles(const uint32_t *iterations, uint32_t jobs, uint32_t consume, uint32_t *out);
/* Whether `got` [jobs][256] is `want`, exactly; else B1_DEVICE with how many words differ and the first of them. `what`
 * is whose output it is. */
b1_status b1i_oracle_tiles_equal(const char *what, const uint32_t *got, const uint32_t *want, uint32_t jobs,
                                 b1_error *err);

#endif
