/* SPDX-License-Identifier: MIT
 *
 * The read ceiling of a GPU: what ceiling.h promises, on a GPU of the lab's own. For lab/ceiling.c alone.
 */
#ifndef LAB_GPU_CEILING_H
#define LAB_GPU_CEILING_H

#include "base/base.h"

typedef struct b1i_gpu_ceiling b1i_gpu_ceiling;

b1_status b1i_gpu_ceiling_open(int ordinal, uint64_t most_bytes, unsigned part, b1i_gpu_ceiling **out, b1_error *err);
void b1i_gpu_ceiling_close(b1i_gpu_ceiling *ceiling);
uint64_t b1i_gpu_ceiling_bytes(const b1i_gpu_ceiling *ceiling);
uint64_t b1i_gpu_ceiling_l2_bytes(const b1i_gpu_ceiling *ceiling);
uint64_t b1i_gpu_ceiling_throttles(const b1i_gpu_ceiling *ceiling);
const char *b1i_gpu_ceiling_method(const b1i_gpu_ceiling *ceiling);
b1_status b1i_gpu_ceiling_read(b1i_gpu_ceiling *ceiling, int passes, uint64_t budget_ns, bool (*cancelled)(void),
                               double *gbps, b1_error *err);
b1_status b1i_gpu_ceiling_glance(b1i_gpu_ceiling *ceiling, double *gbps, b1_error *err);

#endif
