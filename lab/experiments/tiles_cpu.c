/* SPDX-License-Identifier: MIT
 *
 * The kernels of tiles.cu on the CPU's workers. Where a GPU starts a block a job, in the order in which SMs come free,
 * the jobs are dealt to the workers by their number here: job j is worker (j mod workers)'s. Only the queue and the
 * semaphore give a job to who is free.
 */
#include "base/threads.h"
#include "lab/experiments/tiles.h"

#include <sched.h>
#include <string.h>

enum { LANES = B1I_TILES_LANES, SPINS = 200 };

static uint32_t *words(uint64_t address) { return (uint32_t *)(uintptr_t)address; } /* NOLINT: as in tiles_args.h */

static uint64_t begin(const b1i_tiles_args *a) { return a->trace ? b1i_now_ns() : 0; }

static void end(const b1i_tiles_args *a, bool second, uint32_t job, int worker, uint64_t began)
{
    if (!a->trace) return;
    b1i_tiles_mark *mark = (b1i_tiles_mark *)(uintptr_t)a->trace + (second ? a->jobs : 0) + job; /* NOLINT */
    mark->begin_ns = began;
    mark->end_ns = b1i_now_ns();
    mark->unit = (uint32_t)worker;
    __atomic_fetch_add(&mark->times, 1, __ATOMIC_RELAXED);
}

static void rounds(uint32_t x[LANES], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (int l = 0; l < LANES; l++) {
            uint32_t y = x[l];
            y ^= y << 13;
            y ^= y >> 17;
            y ^= y << 5;
            x[l] = 1664525u * y + i;
        }
}

static void produce(const b1i_tiles_args *a, uint32_t job, int worker)
{
    const uint64_t began = begin(a);
    uint32_t x[LANES];
    for (uint32_t l = 0; l < LANES; l++) x[l] = 2654435769u * (LANES * job + l + 1);
    rounds(x, words(a->iterations)[job]);
    memcpy(words(a->between) + (size_t)LANES * job, x, sizeof x);
    end(a, false, job, worker, began);
}

static void consume(const b1i_tiles_args *a, uint32_t job, int worker)
{
    const uint64_t began = begin(a);
    const uint32_t *between = words(a->between) + (size_t)LANES * job;
    uint32_t x[LANES];
    for (int l = 0; l < LANES; l++) x[l] = between[l] + 7 * between[(l + 97) % LANES];
    rounds(x, a->consume);
    memcpy(words(a->out) + (size_t)LANES * job, x, sizeof x);
    end(a, true, job, worker, began);
}

static uint32_t take(const b1i_tiles_args *a, int word)
{
    return __atomic_fetch_add(words(a->counters) + word, 1, __ATOMIC_RELAXED);
}

void b1i_tiles_cpu_a(const void *args, int worker, int workers)
{
    const b1i_tiles_args *a = args;
    for (uint32_t job = (uint32_t)worker; job < a->jobs; job += (uint32_t)workers) produce(a, job, worker);
}

void b1i_tiles_cpu_b(const void *args, int worker, int workers)
{
    const b1i_tiles_args *a = args;
    for (uint32_t job = (uint32_t)worker; job < a->jobs; job += (uint32_t)workers) consume(a, job, worker);
}

void b1i_tiles_cpu_fused(const void *args, int worker, int workers)
{
    const b1i_tiles_args *a = args;
    for (uint32_t job = (uint32_t)worker; job < a->jobs; job += (uint32_t)workers) {
        produce(a, job, worker);
        consume(a, job, worker);
    }
}

void b1i_tiles_cpu_queue(const void *args, int worker, int workers)
{
    const b1i_tiles_args *a = args;
    (void)workers;
    for (uint32_t job; (job = take(a, B1I_TILES_HEAD)) < a->jobs;) {
        produce(a, job, worker);
        consume(a, job, worker);
    }
}

/* It cannot come to a standstill, as in tiles.cu: the roles go by who came first. A worker that waits gives its CPU
 * away, for there may be fewer CPUs than workers. */
void b1i_tiles_cpu_semaphore(const void *args, int worker, int workers)
{
    const b1i_tiles_args *a = args;
    uint32_t *ready = words(a->counters) + B1I_TILES_READY;
    (void)workers;
    if (take(a, B1I_TILES_ARRIVED) < a->producers) {
        for (uint32_t job; (job = take(a, B1I_TILES_HEAD)) < a->jobs;) {
            produce(a, job, worker);
            __atomic_store_n(&ready[job], 1, __ATOMIC_RELEASE);
        }
        return;
    }
    for (uint32_t job; (job = take(a, B1I_TILES_TAIL)) < a->jobs;) {
        for (int spins = 0; !__atomic_load_n(&ready[job], __ATOMIC_ACQUIRE); spins++) {
            if (spins < SPINS)
                b1i_cpu_relax();
            else
                sched_yield();
        }
        consume(a, job, worker);
    }
}
