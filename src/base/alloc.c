/* SPDX-License-Identifier: MIT
 *
 * Allocation: the C library's, counted, with a failure that a test can order. Pages of their own for what is large
 * and streamed.
 *
 * Invariant: `live` is the number of allocations that were handed out and not given back, pages included.
 */
#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_BYTES = 2 << 20 };

static atomic_long live;
static atomic_long fail_in = -1; /* allocations until the ordered failure; negative: none ordered */

void b1i_alloc_fail_at(long n) { atomic_store(&fail_in, n); }
long b1i_alloc_live(void) { return atomic_load(&live); }

static bool ordered_failure(void)
{
    return atomic_load_explicit(&fail_in, memory_order_relaxed) >= 0 && atomic_fetch_sub(&fail_in, 1) == 0;
}

static void *counted(void *memory)
{
    if (memory) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return memory;
}

void *b1i_malloc(size_t bytes) { return ordered_failure() ? NULL : counted(malloc(bytes ? bytes : 1)); }

void *b1i_calloc(size_t count, size_t bytes)
{
    size_t all;
    if (ordered_failure() || __builtin_mul_overflow(count, bytes, &all)) return NULL;
    return counted(calloc(all ? all : 1, 1));
}

void *b1i_realloc(void *memory, size_t bytes)
{
    if (!memory) return b1i_malloc(bytes);
    return ordered_failure() ? NULL : realloc(memory, bytes ? bytes : 1);
}

void b1i_free(void *memory)
{
    if (memory) atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(memory);
}

void b1_free(void *memory) { b1i_free(memory); }

char *b1i_strndup(const char *text, size_t bytes)
{
    size_t n = strnlen(text, bytes);
    char *copy = b1i_malloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

char *b1i_strdup(const char *text) { return b1i_strndup(text, strlen(text)); }

bool b1i_grow(void *array_pointer, size_t *capacity, size_t need, size_t element)
{
    if (need <= *capacity) return true;
    size_t larger = *capacity > SIZE_MAX / 2 ? need : *capacity * 2, bytes;
    if (larger < need) larger = need;
    if (larger < 8) larger = 8;
    if (__builtin_mul_overflow(larger, element, &bytes)) return false;
    void *old;
    memcpy(&old, array_pointer, sizeof old); /* any object pointer: all have one representation here */
    void *grown = b1i_realloc(old, bytes);
    if (!grown) return false;
    memcpy(array_pointer, &grown, sizeof grown);
    *capacity = larger;
    return true;
}

/* Whole pages that hold `bytes`; 0 where no address space holds them. */
static size_t pages_length(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > PTRDIFF_MAX - HUGE_BYTES - page) return 0;
    return bytes ? (bytes + page - 1) / page * page : page;
}

void *b1i_pages_alloc(size_t bytes)
{
    size_t length = pages_length(bytes);
    if (!length || ordered_failure()) return NULL;
    size_t slack = length >= HUGE_BYTES ? HUGE_BYTES : 0;
    uint8_t *at = mmap(NULL, length + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    if (slack) {
        size_t head = (HUGE_BYTES - (uintptr_t)at % HUGE_BYTES) % HUGE_BYTES;
        if (head) munmap(at, head);
        if (slack > head) munmap(at + head + length, slack - head);
        at += head;
        madvise(at, length, MADV_HUGEPAGE); /* a wish: without huge pages it is only slower */
    }
    return counted(at);
}

void b1i_pages_free(void *memory, size_t bytes)
{
    if (!memory) return;
    munmap(memory, pages_length(bytes));
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
}
