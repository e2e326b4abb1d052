/* SPDX-License-Identifier: MIT
 *
 * The instruction sets that a build may have: their tables, and whether this machine can run them (asked by code of
 * the baseline).
 */
#ifndef B1I_ISA_H
#define B1I_ISA_H

#include "cpu/kernels.h"

/* Best first; X(name). avx512bf16 multiplies bfloat16 pairs itself, which on Sapphire Rapids takes 2.1 cycles for 32
 * products where two conversions and two f32 FMAs take 2 and keep the activations in f32; so it is there to be named.
 */
#if defined(__x86_64__)
#define B1I_ISAS(X) X(avx512vnni) X(avx512bf16) X(avx512) X(avxvnni) X(avx2) X(generic)
#elif defined(__aarch64__)
#define B1I_ISAS(X) X(neondot) X(neon) X(generic)
#else
#define B1I_ISAS(X) X(generic)
#endif

#define B1I_ISA_DECLARE(name)                    \
    extern const b1i_kernels b1i_kernels_##name; \
    bool b1i_supported_##name(void);
B1I_ISAS(B1I_ISA_DECLARE)
#undef B1I_ISA_DECLARE

#endif
