/* SPDX-License-Identifier: MIT
 *
 * The read ceiling: how fast this machine's memory gives bytes to its cores, by a plain read of a buffer that no cache
 * holds (eight times the last level cache, at least 1 GiB, at most 4 GiB, less where memory is short), in huge pages
 * where the system allows them. Of a GPU: how fast its memory gives bytes to its SMs, the better of plain loads and
 * bulk copies, in a context of its own, so that no error of an engine reaches it.
 *
 * Invariants: every page of the buffer is written before the first reading, for untouched pages all share one page of
 * zeros, which a cache holds; successive readings take successive windows of the buffer.
 */
#ifndef LAB_CEILING_H
#define LAB_CEILING_H

#include "base/base.h"

typedef struct b1i_ceiling b1i_ceiling;

/* `most_bytes` limits the buffer; 0: a half of the memory that is free now is the limit.
 * B1_MEMORY where not even 64 MiB can be had. */
b1_status b1i_ceiling_open(uint64_t most_bytes, b1i_ceiling **out, b1_error *err);
/* Of the GPU `ordinal`: a buffer of `most_bytes`, but no more than 1/`part` (≥ 2) of its free memory. B1_MEMORY where
 * that is not well above its L2; else what the driver says. */
b1_status b1i_ceiling_open_gpu(int ordinal, uint64_t most_bytes, unsigned part, b1i_ceiling **out, b1_error *err);
void b1i_ceiling_close(b1i_ceiling *ceiling);
uint64_t b1i_ceiling_bytes(const b1i_ceiling *ceiling);

/* GB/s of the best of at least `passes` whole passes and `budget_ns`, by `threads` workers. `cancelled` (may be NULL)
 * is asked between passes. Of a GPU, whose threads nobody counts, each pass is the median of some by both methods. */
b1_status b1i_ceiling_read(b1i_ceiling *ceiling, int threads, int passes, uint64_t budget_ns, bool (*cancelled)(void),
                           double *gbps, b1_error *err);
/* A short look, 10 to 20 ms, with all cores: the best of a few successive windows. They are at least 1.5 times the last
 * level cache together, so that nothing else is left in it. */
b1_status b1i_ceiling_glance(b1i_ceiling *ceiling, double *gbps, b1_error *err);

/* Of a GPU: how the best of the last reading read, "plain" or "bulk"; NULL of the CPU. */
const char *b1i_ceiling_method(const b1i_ceiling *ceiling);
/* Bytes of the caches between this memory and what computes; 0: unknown. */
uint64_t b1i_ceiling_cache_bytes(const b1i_ceiling *ceiling);
/* Grows where the CPU or the GPU was slowed down by heat or power. A GPU is looked at with each glance; what slowed it
 * already when the ceiling was opened does not count. */
uint64_t b1i_ceiling_throttles(const b1i_ceiling *ceiling);

#endif
