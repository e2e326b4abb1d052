/* SPDX-License-Identifier: MIT
 *
 * Ways in which a worker reads, writes and copies its part of memory, as often as there are passes. Compiled as if for
 * a release in a debug build too, for what they measure is memory. Parts are whole tiles of 16 KiB.
 */
#include "base/threads.h"
#include "lab/experiments/ceiling.h"

#include <string.h>

#if defined(__clang__)
#define FAST
#else
#define FAST __attribute__((optimize("O3")))
#endif

typedef uint32_t quad __attribute__((vector_size(16), may_alias));
typedef uint64_t word64 __attribute__((may_alias));

enum { LANES = 8 };

/* What was written in a pass is there, and what is read in the next is read again. */
static inline void between_passes(void) { __asm__ volatile("" ::: "memory"); }
/* Keeps a compiler from taking several of these at once. */
#define ALONE(x) __asm__ volatile("" : "+r"(x))

static const char *from_of(const b1i_band_args *a, int worker)
{
    return (const char *)(uintptr_t)(a->from + (uint64_t)a->part * (uint64_t)worker);
}
static char *to_of(const b1i_band_args *a, int worker)
{
    return (char *)(uintptr_t)(a->to + (uint64_t)a->part * (uint64_t)worker);
}
static void give(const b1i_band_args *a, int worker, uint64_t value)
{
    ((uint64_t *)(uintptr_t)a->out)[worker] = value;
}

FAST void b1i_band_read4(const void *args, int worker, int workers)
{
    const b1i_band_args *a = args;
    const uint32_t *w = (const uint32_t *)(const void *)from_of(a, worker);
    uint32_t s[4] = {0};
    (void)workers;
    for (uint32_t pass = 0; pass < a->passes; pass++) {
        for (size_t i = 0; i < a->part / sizeof *w; i += 4) {
            for (int k = 0; k < 4; k++) {
                s[k] += w[i + (size_t)k];
                ALONE(s[k]);
            }
        }
        between_passes();
    }
    give(a, worker, (uint32_t)(s[0] + s[1] + s[2] + s[3]));
}

FAST void b1i_band_read8(const void *args, int worker, int workers)
{
    const b1i_band_args *a = args;
    const word64 *w = (const word64 *)(const void *)from_of(a, worker);
    uint64_t s[4] = {0};
    (void)workers;
    for (uint32_t pass = 0; pass < a->passes; pass++) {
        for (size_t i = 0; i < a->part / sizeof *w; i += 4) {
            for (int k = 0; k < 4; k++) {
                s[k] ^= w[i + (size_t)k];
                ALONE(s[k]);
            }
        }
        between_passes();
    }
    give(a, worker, s[0] ^ s[1] ^ s[2] ^ s[3]);
}

FAST void b1i_band_read16(const void *args, int worker, int workers)
{
    const b1i_band_args *a = args;
    const quad *q = (const quad *)(const void *)from_of(a, worker);
    quad s[LANES] = {{0}};
    (void)workers;
    for (uint32_t pass = 0; pass < a->passes; pass++) {
        for (size_t i = 0; i < a->part / sizeof *q; i += LANES)
            for (int k = 0; k < LANES; k++) s[k] += q[i + (size_t)k];
        between_passes();
    }
    for (int k = 1; k < LANES; k++) s[0] += s[k];
    give(a, worker, (uint32_t)(s[0][0] + s[0][1] + s[0][2] + s[0][3]));
}

void b1i_band_read_wide(const void *args, int worker, int workers)
{
    const b1i_band_args *a = args;
    uint64_t seen = 0;
    (void)workers;
    for (uint32_t pass = 0; pass < a->passes; pass++) {
        seen ^= b1i_read_stream(from_of(a, worker), a->part);
        between_passes();
    }
    give(a, worker, seen);
}

/* The words of a tile, four at a time: those at place 4·i. */
typedef struct tile_words {
    quad at, step;
} tile_words;

static inline tile_words tile_begin(const b1i_band_args *a)
{
    const uint32_t s = B1I_BAND_STEP;
    return (tile_words){{a->seed, a->seed + s, a->seed + 2 * s, a->seed + 3 * s}, {4 * s, 4 * s, 4 * s, 4 * s}};
}

FAST void b1i_band_write16(const void *args, int worker, int workers)
{
    const b1i_band_args *a = args;
    (void)workers;
    for (uint32_t pass = 0; pass < a->passes; pass++) {
        for (size_t tile = 0; tile < a->part; tile += B1I_BAND_TILE) {
            quad *to = (quad *)(void *)(to_of(a, worker) + tile);
            tile_words w = tile_begin(a);
            for (size_t i = 0; i < B1I_BAND_TILE / sizeof *to; i++, w.at += w.step) to[i] = w.at;
        }
        between_passes();
    }
}

void b1i_band_copy(const void *args, int worker, int workers)
{
    const b1i_band_args *a = args;
    (void)workers;
    for (uint32_t pass = 0; pass < a->passes; pass++) {
        memcpy(to_of(a, worker), from_of(a, worker), a->part);
        between_passes();
    }
}

#if defined(__x86_64__)

#include <emmintrin.h>

const bool b1i_band_streams = true;

static inline void stream(void *to, quad v) { _mm_stream_si128(to, (__m128i)v); }
/* What passed the caches is seen by who reads after this worker is done. */
static inline void stream_end(void) { _mm_sfence(); }

#else

const bool b1i_band_streams = false;

static inline void stream(void *to, quad v) { *(quad *)to = v; }
static inline void stream_end(void) {}

#endif

FAST void b1i_band_write16_streaming(const void *args, int worker, int workers)
{
    const b1i_band_args *a = args;
    (void)workers;
    for (uint32_t pass = 0; pass < a->passes; pass++) {
        for (size_t tile = 0; tile < a->part; tile += B1I_BAND_TILE) {
            quad *to = (quad *)(void *)(to_of(a, worker) + tile);
            tile_words w = tile_begin(a);
            for (size_t i = 0; i < B1I_BAND_TILE / sizeof *to; i++, w.at += w.step) stream(to + i, w.at);
        }
        between_passes();
    }
    stream_end();
}

FAST void b1i_band_copy16_streaming(const void *args, int worker, int workers)
{
    const b1i_band_args *a = args;
    (void)workers;
    for (uint32_t pass = 0; pass < a->passes; pass++) {
        const quad *from = (const quad *)(const void *)from_of(a, worker);
        quad *to = (quad *)(void *)to_of(a, worker);
        for (size_t i = 0; i < a->part / sizeof *to; i += LANES) {
            quad v[LANES];
            for (int k = 0; k < LANES; k++) v[k] = from[i + (size_t)k];
            for (int k = 0; k < LANES; k++) stream(to + i + k, v[k]);
        }
        between_passes();
    }
    stream_end();
}
