/* SPDX-License-Identifier: MIT
 *
 * The reference ops: plain C, written for reading, the oracle of every kernel. They compute in f32 (sums in f64) on
 * weights dequantised from the file's own bytes, and round inputs of linear ops to the types of the state's
 * precision, so that each executor has a reference of its own precision.
 */
#ifndef B1I_REFERENCE_H
#define B1I_REFERENCE_H

#include "cpu/state.h"

/* Does worker's share of an op of the plan on the step at hand. */
typedef void (*b1i_ref_fn)(const b1i_cpu_state *s, const b1i_op *op, int worker, int workers);
extern const b1i_ref_fn b1i_ref_ops[b1i_op_count];

/* x [count], rounded in place to what an input of this type can hold. */
void b1i_ref_round(b1i_type type, float *x, int64_t count);
/* One element of a key or value, and its place. */
float b1i_ref_kv_get(const b1i_kv_head *kv, bool value, int pos, int d);
void b1i_ref_kv_put(const b1i_kv_head *kv, int pos, const float *k, const float *v);

#endif
