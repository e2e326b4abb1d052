/* SPDX-License-Identifier: MIT
 *
 * Reading memory as fast as it goes. The same loop is compiled per vector width and chosen once: eight independent
 * accumulators keep as many loads in flight as the core allows, and a prefetch 4 KB ahead hides the page walk and
 * starts the next page, which the hardware's prefetchers do not cross. The result is the XOR of all 64-bit words,
 * whatever the width.
 */
#include "base/threads.h"

#include <stdatomic.h>
#include <string.h>

enum { AHEAD_BYTES = 4096, LINE_BYTES = 64, LANES = 8 };

#define TARGET(isa) __attribute__((target(isa)))
#if defined(__clang__)
#define FAST
#else
#define FAST __attribute__((optimize("O3"))) /* in a debug build too: what it measures is memory */
#endif

typedef uint64_t (*read_fn)(const uint8_t *p, size_t bytes);

static inline uint64_t fold(const void *lanes, size_t bytes)
{
    uint64_t x = 0, word;
    for (size_t i = 0; i < bytes; i += sizeof word) {
        memcpy(&word, (const uint8_t *)lanes + i, sizeof word);
        x ^= word;
    }
    return x;
}

/* bytes: a multiple of 64; p: 64-byte aligned */
#define READ_FUNCTION(name, attributes, width)                                                             \
    typedef uint64_t name##_vector __attribute__((vector_size(width), may_alias));                         \
    attributes static uint64_t name(const uint8_t *p, size_t bytes)                                        \
    {                                                                                                      \
        enum { STEP = LANES * width };                                                                     \
        name##_vector s[LANES] = {{0}};                                                                    \
        const uint8_t *end = p + bytes, *whole = p + bytes / STEP * STEP;                                  \
        for (; p < whole; p += STEP) {                                                                     \
            for (int k = 0; k < LANES; k++) s[k] ^= *(const name##_vector *)(const void *)(p + k * width); \
            for (int k = 0; k < STEP; k += LINE_BYTES) __builtin_prefetch(p + AHEAD_BYTES + k, 0, 3);      \
        }                                                                                                  \
        for (; p < end; p += width) s[0] ^= *(const name##_vector *)(const void *)p;                       \
        for (int k = 1; k < LANES; k++) s[0] ^= s[k];                                                      \
        return fold(&s[0], width);                                                                         \
    }

#if defined(__x86_64__)
READ_FUNCTION(read_avx512, TARGET("avx512f") FAST, 64)
READ_FUNCTION(read_avx2, TARGET("avx2") FAST, 32)
#endif
READ_FUNCTION(read_baseline, FAST, 16) /* SSE2, NEON */

static read_fn choose(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return read_avx512;
    if (__builtin_cpu_supports("avx2")) return read_avx2;
#endif
    return read_baseline;
}

uint64_t b1i_read_stream(const void *p, size_t bytes)
{
    static _Atomic(read_fn) chosen;
    read_fn f = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!f) {
        f = choose();
        atomic_store_explicit(&chosen, f, memory_order_relaxed);
    }
    return f(p, bytes);
}
