/* SPDX-License-Identifier: MIT
 *
 * The table of one instruction set.
 */
#include "cpu/simd/isa.h"
#include "cpu/simd/simd.h"

#define B1I_TEXT(x)     #x
#define B1I_TEXT_OF(x)  B1I_TEXT(x)
#define B1I_JOIN(a, b)  a##b
#define B1I_JOIN2(a, b) B1I_JOIN(a, b)

#ifdef VB_DOT
#define B1I_DENSE_ACT b1i_type_bf16
#else
#define B1I_DENSE_ACT b1i_type_f32
#endif

const b1i_kernels B1I_JOIN2(b1i_kernels_, B1I_ISA) = {
    .name = B1I_TEXT_OF(B1I_ISA),
    .supported = B1I_JOIN2(b1i_supported_, B1I_ISA),
    .dense_act = B1I_DENSE_ACT,
    .linear = B1I_NAME(linear),
    .convert = B1I_NAME(convert),
    .rmsnorm = B1I_NAME(rmsnorm),
    .rope = B1I_NAME(rope),
    .kv_put = B1I_NAME(kv_put),
    .attention = B1I_NAME(attention),
    .attention_merge = B1I_NAME(attention_merge),
    .silu_mul = B1I_NAME(silu_mul),
    .add = B1I_NAME(add),
    .prefetch = B1I_NAME(prefetch),
};
