/* SPDX-License-Identifier: MIT
 *
 * base: what every other room stands on: status and error sentences, memory (with failures that a test can order),
 * mapped files, big pages, clock, how much memory there is. Nothing of models or tensors.
 */
#ifndef B1I_BASE_H
#define B1I_BASE_H

#include "batchone/batchone.h"

#define B1I_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* Fills `err` (may be NULL) with the sentence and returns `status`. */
b1_status b1i_fail(b1_error *err, b1_status status, const char *format, ...) B1I_PRINTF(3, 4);
/* So that compilers see, across files, that it returns its status: what a failed call did not set is not read. */
static inline b1_status b1i_fail_status(b1_status status, b1_status same)
{
    (void)same;
    return status;
}
#define b1i_fail(err, status, ...) b1i_fail_status(status, (b1i_fail)(err, status, __VA_ARGS__))
/* The sentence for an allocation of `bytes` that failed. */
b1_status b1i_fail_memory(b1_error *err, size_t bytes);
#define b1i_fail_memory(err, bytes) b1i_fail_status(B1_MEMORY, (b1i_fail_memory)(err, bytes))

/* Forwards a failure; every function has one `fail:` label and a `b1_status st`. */
#define B1I_TRY(call)                          \
    do {                                       \
        if ((st = (call)) != B1_OK) goto fail; \
    } while (0)

/* ---- memory ---- */

/* As malloc, calloc, realloc, free, strdup; NULL on failure. Every allocation of the library goes through these. */
void *b1i_malloc(size_t bytes);
void *b1i_calloc(size_t count, size_t bytes);
void *b1i_realloc(void *memory, size_t bytes);
void b1i_free(void *memory);
char *b1i_strdup(const char *text);
char *b1i_strndup(const char *text, size_t bytes);
/* Grows *array so that it holds at least `need` elements of `element` bytes; *capacity is kept. false: no memory. */
bool b1i_grow(void *array_pointer, size_t *capacity, size_t need, size_t element);
/* The n-th allocation from now on (0 is the next) fails once; -1 switches that off. For tests; process-wide. */
void b1i_alloc_fail_at(long n);
/* Allocations alive now, for leak checks in tests. */
long b1i_alloc_live(void);

/* Zeroed memory in pages of its own, aligned to 2 MiB where it is that large, huge pages asked for. NULL on failure. */
void *b1i_pages_alloc(size_t bytes);
void b1i_pages_free(void *memory, size_t bytes);

/* Bytes that can be taken now without swapping: MemAvailable or what the cgroup leaves, whichever is less. */
uint64_t b1i_memory_available(void);

/* ---- mapped files ---- */

typedef struct b1i_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t size;
    char *path; /* owned */
} b1i_map;
/* Read-only, private. B1_MODEL where the file is missing, no regular file, or cannot be mapped. */
b1_status b1i_map_open(const char *path, b1i_map *out, b1_error *err);
void b1i_map_close(b1i_map *map);
/* The pages that lie wholly inside [offset, offset + bytes) need not stay resident. */
void b1i_map_release(const b1i_map *map, size_t offset, size_t bytes);
/* A whole small file, NUL-terminated, freed with b1i_free(); B1_MODEL where it is missing or over `limit` bytes. */
b1_status b1i_read_file(const char *path, size_t limit, char **text, size_t *bytes, b1_error *err);

/* ---- arithmetic that must not wrap ---- */
static inline bool b1i_mul(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool b1i_add(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_add_overflow(a, b, out); }

/* ---- clock ---- */
uint64_t b1i_now_ns(void); /* CLOCK_MONOTONIC */

/* ---- random numbers: splitmix64, for fillers, synthetic weights and the sampler ---- */
static inline uint64_t b1i_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

#endif
