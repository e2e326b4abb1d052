/* SPDX-License-Identifier: MIT
 *
 * A load of memory beside what is measured: on a GPU a kernel in a second stream, a block on each SM that leaves room
 * for others; on a CPU threads on CPUs that neither the pool nor the host's thread needs.
 *
 * A load has begun when all of it reads, and reads until it is told to stop. A kernel's also ends by itself after
 * MOST_NS, so that nothing can wait for it for ever; then what was measured beside it is no sample.
 */
#include "base/threads.h"
#include "lab/experiments/launch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { READERS_MOST = 64, CHUNK = 65536, STOP_BYTES = 256 };
#define MOST_NS  2000000000ull
#define BEGIN_NS 5000000000ull /* a load that has not begun by then never will */

typedef struct reader {
    pthread_t thread;
    b1i_beside *of;
    const char *part;
    uint64_t bytes, ns;
} reader;

struct b1i_beside {
    /* of the GPU */
    void *pinned; /* the word that stops, then b1i_beside_word [units] */
    b1i_gpu_ptr pinned_at, relay;
    b1i_beside_args args;
    b1i_gpu_launch launch;
    /* of the CPU */
    reader readers[READERS_MOST];
    int count;
    uint64_t part_bytes; /* that each reads in a circle */
    atomic_int begun, stop;
    _Atomic uint64_t seen; /* so that what was read is used */
};

int b1i_launch_spare(const b1i_launch *l)
{
    const int spare = b1i_cpu_count() - l->units - 1;
    return l->gpu || spare < 0 ? 0 : spare < READERS_MOST ? spare : READERS_MOST;
}

/* ---- making ---- */

static b1_status make_kernel(b1i_launch *l, b1i_beside *b, b1_error *err)
{
    b1_status st;
    const size_t words = (size_t)l->units * sizeof(b1i_beside_word);
    B1I_TRY(b1i_gpu_kernel_get(l->gpu, "k_load_beside", B1I_LAUNCH_SHARED, &b->launch.kernel, err));
    B1I_TRY(b1i_gpu_host_alloc(l->gpu, STOP_BYTES + words, "the words of a load", &b->pinned, &b->pinned_at, err));
    B1I_TRY(b1i_gpu_alloc(l->gpu, STOP_BYTES, "the words of a load", &b->relay, err));
    B1I_TRY(b1i_gpu_fill(l->gpu, b->relay, 0, STOP_BYTES, err));
    b->args = (b1i_beside_args){.load = l->load,
                                .load_bytes = l->load_bytes / (uint64_t)l->units / B1I_BESIDE_STEP * B1I_BESIDE_STEP,
                                .stop = b->pinned_at,
                                .relay = b->relay,
                                .out = b->pinned_at + STOP_BYTES,
                                .most_ns = MOST_NS,
                                .blocks = (uint64_t)l->units};
    b->launch.grid[0] = (unsigned)l->units;
    b->launch.grid[1] = b->launch.grid[2] = 1;
    b->launch.threads = B1I_BESIDE_THREADS;
    b->launch.shared_bytes = B1I_LAUNCH_SHARED;
    b->launch.arg_bytes = sizeof b->args;
fail:
    return st;
}

b1_status b1i_launch_beside(b1i_launch *l, int readers, b1_error *err)
{
    b1_status st;
    if (l->beside) return B1_OK;
    if (!l->gpu && readers < 1)
        return b1i_fail(err, B1_UNSUPPORTED,
                        "a load beside %d workers and the thread that submits takes another CPU, and there are %d",
                        l->units, b1i_cpu_count());
    B1I_TRY(b1i_launch_load(l, err));
    if (!(l->beside = b1i_calloc(1, sizeof *l->beside))) return b1i_fail_memory(err, sizeof *l->beside);
    b1i_beside *b = l->beside;
    if (l->gpu) {
        st = make_kernel(l, b, err);
    } else {
        b->count = readers < READERS_MOST ? readers : READERS_MOST;
        b->part_bytes = l->load_bytes / (uint64_t)b->count / CHUNK * CHUNK;
    }
    if (st != B1_OK) b1i_launch_end_beside(l);
fail:
    return st;
}

void b1i_launch_end_beside(b1i_launch *l)
{
    if (!l->beside) return;
    if (l->gpu) {
        b1i_gpu_free(l->gpu, l->beside->relay);
        b1i_gpu_host_free(l->gpu, l->beside->pinned);
    }
    b1i_free(l->beside);
    l->beside = NULL;
}

/* ---- a GPU's ---- */

static volatile uint64_t *stop_of(const b1i_beside *b) { return b->pinned; }
static volatile b1i_beside_word *words_of(const b1i_beside *b)
{
    return (volatile b1i_beside_word *)(void *)((char *)b->pinned + STOP_BYTES);
}

static void tell_stop(const b1i_beside *b) { __atomic_store_n(stop_of(b), b->args.turn, __ATOMIC_SEQ_CST); }

static bool all_run(const b1i_launch *l)
{
    const b1i_beside *b = l->beside;
    for (int u = 0; u < l->units; u++)
        if (__atomic_load_n(&words_of(b)[u].running, __ATOMIC_ACQUIRE) != b->args.turn) return false;
    return true;
}

static b1_status start_kernel(b1i_launch *l, b1_error *err)
{
    b1_status st;
    b1i_beside *b = l->beside;
    b->args.turn++;
    memcpy(b->launch.args, &b->args, sizeof b->args);
    B1I_TRY(b1i_gpu_beside_start(l->gpu, &b->launch, err));
    const uint64_t from = b1i_now_ns();
    while (!all_run(l)) {
        if (b1i_now_ns() - from > BEGIN_NS) {
            tell_stop(b);
            B1I_TRY(b1i_gpu_beside_wait(l->gpu, err)); /* an error of the kernel's own is the better reason */
            return b1i_fail(err, B1_DEVICE, "the load beside has not begun on all %d SMs within %d s", l->units,
                            (int)(BEGIN_NS / 1000000000));
        }
        b1i_cpu_relax();
    }
fail:
    return st;
}

static b1_status stop_kernel(b1i_launch *l, const char *name, double *gbps, b1_error *err)
{
    const b1i_beside *b = l->beside;
    const size_t bytes = (size_t)l->units * sizeof(b1i_beside_word);
    tell_stop(b);
    b1_status st = b1i_gpu_beside_wait(l->gpu, err);
    if (st != B1_OK) return st;
    b1i_beside_word *words = (b1i_beside_word *)(void *)((char *)b->pinned + STOP_BYTES);
    if (b1i_lab_plant) b1i_lab_plant(name, words, bytes);
    for (int u = 0; u < l->units; u++) {
        if (words[u].turn != b->args.turn || !words[u].bytes || !words[u].ns)
            return b1i_fail(err, B1_DEVICE, "%s: the load beside has read nothing on block %d", name, u);
        if (words[u].expired)
            return b1i_fail(err, B1_DEVICE,
                            "%s: the load beside had ended after %d s, before what was measured; what is submitted at "
                            "once takes too long for it",
                            name, (int)(MOST_NS / 1000000000));
        *gbps += (double)words[u].bytes / (double)words[u].ns;
    }
    return B1_OK;
}

/* ---- a CPU's ---- */

static void *read_on(void *user)
{
    reader *r = user;
    b1i_beside *b = r->of;
    const uint64_t whole = b->part_bytes / CHUNK, from = b1i_now_ns();
    uint64_t chunks = 0, seen = 0;
    do {
        seen ^= b1i_read_stream(r->part + chunks % whole * CHUNK, CHUNK);
        if (chunks++ == 0) atomic_fetch_add(&b->begun, 1);
    } while (!atomic_load_explicit(&b->stop, memory_order_relaxed));
    r->bytes = chunks * CHUNK;
    r->ns = b1i_now_ns() - from;
    atomic_fetch_xor(&b->seen, seen);
    return NULL;
}

static void join(b1i_beside *b, int count)
{
    atomic_store(&b->stop, 1);
    for (int i = 0; i < count; i++) pthread_join(b->readers[i].thread, NULL);
}

static b1_status start_threads(b1i_launch *l, b1_error *err)
{
    b1i_beside *b = l->beside;
    atomic_store(&b->begun, 0);
    atomic_store(&b->stop, 0);
    for (int i = 0; i < b->count; i++) {
        reader *r = &b->readers[i];
        r->of = b;
        r->part = (const char *)(uintptr_t)l->load + (uint64_t)i * b->part_bytes;
        if (pthread_create(&r->thread, NULL, read_on, r) == 0) continue;
        join(b, i);
        return b1i_fail(err, B1_MEMORY, "a thread that reads beside could not be started");
    }
    while (atomic_load(&b->begun) < b->count) b1i_cpu_relax();
    return B1_OK;
}

/* ---- either's ---- */

b1_status b1i_launch_beside_start(b1i_launch *l, b1_error *err)
{
    return l->gpu ? start_kernel(l, err) : start_threads(l, err);
}

b1_status b1i_launch_beside_stop(b1i_launch *l, const char *name, double *gbps, b1_error *err)
{
    b1i_beside *b = l->beside;
    *gbps = 0;
    if (l->gpu) return stop_kernel(l, name, gbps, err);
    join(b, b->count);
    for (int i = 0; i < b->count; i++) *gbps += (double)b->readers[i].bytes / (double)b->readers[i].ns;
    return B1_OK;
}
