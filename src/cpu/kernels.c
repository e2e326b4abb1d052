/* SPDX-License-Identifier: MIT
 *
 * Owns the choice of an instruction set. Compiled for the baseline, so that asking is safe anywhere.
 */
#include "cpu/simd/isa.h"

#include <stdlib.h>
#include <string.h>

const char *const b1i_type_names[4] = {"f32", "bf16", "f16", "i8"};

bool b1i_supported_generic(void) { return true; }

#if defined(__x86_64__)
#include <cpuid.h>

enum {
    has_avx2 = 1,
    has_avxvnni = 2,
    has_avx512 = 4,
    has_vnni = 8,
    has_bf16 = 16,
};

static unsigned xgetbv(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool all(unsigned word, unsigned bits) { return (word & bits) == bits; }

/* What both the processor and the system (saved registers) allow. */
static unsigned features(void)
{
    unsigned a, b, c, d, a1 = 0, b1, c1, d1, found = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C)) return 0;
    unsigned saved = xgetbv();
    if (!all(saved, 6) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (a >= 1) __cpuid_count(7, 1, a1, b1, c1, d1);
    if (!all(b, bit_AVX2 | bit_BMI2)) return 0;
    found |= has_avx2;
    if (a1 & 1u << 4) found |= has_avxvnni;
    if (!all(saved, 0xe6) || !all(b, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ)) return found;
    found |= has_avx512;
    if (c & 1u << 11) found |= has_vnni;
    if (a1 & 1u << 5) found |= has_bf16;
    return found;
}

bool b1i_supported_avx2(void) { return all(features(), has_avx2); }
bool b1i_supported_avxvnni(void) { return all(features(), has_avx2 | has_avxvnni); }
bool b1i_supported_avx512(void) { return all(features(), has_avx512); }
bool b1i_supported_avx512vnni(void) { return all(features(), has_avx512 | has_vnni); }
bool b1i_supported_avx512bf16(void) { return all(features(), has_avx512 | has_vnni | has_bf16); }

#elif defined(__aarch64__)
#include <sys/auxv.h>

bool b1i_supported_neon(void) { return true; }
/* HWCAP_ASIMDDP, HWCAP_ASIMDHP */
bool b1i_supported_neondot(void) { return (getauxval(AT_HWCAP) & (1ul << 20 | 1ul << 10)) == (1ul << 20 | 1ul << 10); }
#endif

#define B1I_ISA_ENTRY(name) &b1i_kernels_##name,
const b1i_kernels *const b1i_kernels_built[] = {B1I_ISAS(B1I_ISA_ENTRY) NULL};
#undef B1I_ISA_ENTRY

const char *b1_kernels_name(void) { return b1i_kernels_best()->name; }

b1_status b1i_kernels_check(b1_error *err)
{
    const char *wish = getenv("BATCHONE_ISA"), *name = b1i_kernels_best()->name;
    if (!wish || !*wish || strcmp(wish, name) == 0) return B1_OK;
    return b1i_fail(
        err, B1_ARGUMENT,
        "BATCHONE_ISA=%s: this build has no such kernels or this machine cannot run them; without it, %s run", wish,
        name);
}

const b1i_kernels *b1i_kernels_best(void)
{
    const char *wish = getenv("BATCHONE_ISA");
    const b1i_kernels *best = NULL;
    for (int i = 0; b1i_kernels_built[i]; i++) {
        const b1i_kernels *k = b1i_kernels_built[i];
        if (!k->supported()) continue;
        if (!best) best = k;
        if (wish && strcmp(wish, k->name) == 0) return k;
    }
    return best;
}
