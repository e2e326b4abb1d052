/* SPDX-License-Identifier: MIT
 *
 * What the kernels of launch.cu do, by workers.
 *
 * Who waits polls, and after a while gives its CPU away between polls, for the one that it waits for may need it; after
 * ten seconds it gives up, and the output says so.
 */
#include "base/threads.h"
#include "lab/experiments/launch.h"

#include <sched.h>
#include <stdatomic.h>

enum { POLLS = 512, LOAD_CHUNK = 65536 };
#define GIVE_UP_NS 10000000000ull

typedef _Atomic uint32_t word;

static uint64_t *out_of(const b1i_sync_args *a) { return (uint64_t *)(uintptr_t)a->out; }
static word *line_of(const b1i_sync_args *a, uint32_t i)
{
    return (word *)(uintptr_t)(a->lines + (uint64_t)i * B1I_SYNC_LINE);
}
/* The line past the units': that those who are timed are done, how many workers of the load have begun, and what keeps
 * their reads alive. */
static word *done_of(const b1i_sync_args *a, int workers) { return line_of(a, (uint32_t)workers); }
static word *begun_of(const b1i_sync_args *a, int workers) { return done_of(a, workers) + 1; }
static word *seen_of(const b1i_sync_args *a, int workers) { return done_of(a, workers) + 2; }

static void add(const b1i_sync_args *a, int what, uint64_t value)
{
    atomic_fetch_add_explicit((_Atomic uint64_t *)(out_of(a) + what), value, memory_order_relaxed);
}

/* Until the word has reached `target`; false: it was given up. */
static bool await(const word *w, uint32_t target, memory_order order)
{
    uint64_t deadline = 0;
    for (int polls = 1; (int32_t)(atomic_load_explicit(w, order) - target) < 0; polls++) {
        if (polls < POLLS) {
            b1i_cpu_relax();
            continue;
        }
        const uint64_t now = b1i_now_ns();
        if (!deadline) deadline = now + GIVE_UP_NS;
        if (now > deadline) return false;
        sched_yield();
    }
    return true;
}

void b1i_null_body(const void *args, int worker, int workers)
{
    (void)args;
    (void)worker;
    (void)workers;
}

/* Before its first turn: the load is under way. false: it was given up. */
static bool await_load(const b1i_sync_args *a, int loads, int workers)
{
    return !a->load || await(begun_of(a, workers), (uint32_t)loads, memory_order_relaxed);
}

/* Reads the worker's part in a circle until the others are done. */
static void be_load(const b1i_sync_args *a, int worker, int workers)
{
    const uint64_t whole = a->load_bytes / LOAD_CHUNK;
    const char *part = (const char *)(uintptr_t)(a->load + a->load_bytes * (uint64_t)worker);
    word *done = done_of(a, workers);
    uint64_t chunks = 0, seen = 0;
    do {
        seen ^= b1i_read_stream(part + chunks % whole * LOAD_CHUNK, LOAD_CHUNK);
        if (chunks++ == 0) atomic_fetch_add_explicit(begun_of(a, workers), 1, memory_order_relaxed);
    } while (!atomic_load_explicit(done, memory_order_relaxed));
    add(a, B1I_SYNC_LOADED, chunks * LOAD_CHUNK);
    atomic_fetch_xor_explicit(seen_of(a, workers), (uint32_t)seen, memory_order_relaxed);
}

void b1i_barrier_body(const void *args, int worker, int workers)
{
    const b1i_sync_args *a = args;
    const uint32_t turns = a->warm + a->turns, members = a->members;
    uint64_t *out = out_of(a), wrong = 0;
    word *counter = (word *)(void *)(out + B1I_SYNC_COUNTER);
    if (worker >= (int)members) {
        if (a->load) be_load(a, worker, workers);
        return;
    }
    if (worker == 0) {
        wrong = !await_load(a, workers - (int)members, workers);
        out[B1I_SYNC_START] = b1i_now_ns();
    }
    for (uint32_t i = 0; i < turns && !wrong; i++) {
        if (worker == 0 && i == a->warm) out[B1I_SYNC_FROM] = b1i_now_ns();
        if (a->check) atomic_store_explicit(line_of(a, (uint32_t)worker), i + 1, memory_order_relaxed);
        atomic_fetch_add_explicit(counter, 1, memory_order_acq_rel);
        wrong += !await(counter, (i + 1) * members, memory_order_acquire);
        if (a->check)
            wrong +=
                atomic_load_explicit(line_of(a, ((uint32_t)worker + 1 + i) % members), memory_order_relaxed) < i + 1;
    }
    if (worker == 0) {
        out[B1I_SYNC_TO] = b1i_now_ns();
        atomic_store_explicit(done_of(a, workers), 1, memory_order_relaxed);
    }
    out[B1I_SYNC_SEEN + worker] = turns;
    if (wrong) add(a, B1I_SYNC_WRONG, wrong);
}

void b1i_flag_body(const void *args, int worker, int workers)
{
    const b1i_sync_args *a = args;
    const memory_order look = a->ordered ? memory_order_acquire : memory_order_relaxed;
    const memory_order tell = a->ordered ? memory_order_release : memory_order_relaxed;
    const uint32_t turns = a->warm + a->turns, partner = a->partner;
    const bool begins = worker == 0;
    uint64_t *out = out_of(a);
    bool wrong = false;
    if (!begins && worker != (int)partner) {
        if (a->load) be_load(a, worker, workers);
        return;
    }
    word *own = line_of(a, begins ? 0 : partner), *other = line_of(a, begins ? partner : 0);
    uint32_t turn = 1;
    if (begins) {
        wrong = !await_load(a, workers - 2, workers);
        out[B1I_SYNC_START] = b1i_now_ns();
    }
    for (; turn <= turns && !wrong; turn++) {
        if (begins && turn == a->warm + 1) out[B1I_SYNC_FROM] = b1i_now_ns();
        if (begins) atomic_store_explicit(other, turn, tell);
        wrong = !await(own, turn, look);
        if (!begins) atomic_store_explicit(other, turn, tell);
    }
    if (begins) {
        out[B1I_SYNC_TO] = b1i_now_ns();
        atomic_store_explicit(done_of(a, workers), 1, memory_order_relaxed);
    }
    out[B1I_SYNC_SEEN + worker] = turn - 1;
    if (wrong) add(a, B1I_SYNC_WRONG, 1);
}
