/* SPDX-License-Identifier: MIT
 *
 * The CPU as a device with a queue: a thread of its own empties it, and is the pool's worker 0 while it works. A place
 * of the queue is an operation of mode stream, which is dispatched to the pool and joined, or a whole invocation of
 * mode graph, which is dispatched once: its workers meet between operations.
 *
 * Who waits polls for a moment and then sleeps, for on a small machine it holds the CPU of the one that it waits for:
 * the submitter and the idle queue poll long only where there are more CPUs than workers.
 *
 * Handshakes: whoever is about to sleep says so and looks once more; whoever changes what he waits for looks afterwards
 * whether he sleeps. Both are exchanges or sequentially consistent, so that one of the two sees the other.
 */
#include "base/threads.h"
#include "lab/work_parts.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    PLACES = 4096, /* of the queue; a power of two */
    SPIN_NS = 100000,
    SPIN_LONG_NS = 10000000, /* of the submitter where it has a CPU of its own, as it spins for a GPU */
    SPIN_SHORT_NS = 5000,    /* where the CPU is needed by others */
    UNWRITTEN = 0xa5         /* new memory: no zeros that nobody wrote */
};

typedef struct place {
    b1i_lab_work *work; /* NULL: the thread ends */
    int set, op;        /* op: of mode stream */
    bool first, last;   /* of a timed submission */
} place;

typedef struct memory {
    struct memory *next;
    void *data;
    size_t bytes;
} memory;

typedef struct stamp {
    _Alignas(64) uint64_t from, to; /* of one worker, which alone writes it */
} stamp;

struct b1i_lab_cpu {
    int workers;
    bool spare;  /* more CPUs than workers */
    bool enough; /* a CPU for each worker */
    pthread_t thread;
    bool running;
    memory *memory;
    uint32_t submitted; /* the submitter's count of places; all counts wrap */
    place place[PLACES];
    _Alignas(64) _Atomic uint32_t tail; /* places that were submitted */
    _Atomic uint32_t asleep;            /* a futex: 1 while the thread sleeps or is about to */
    _Alignas(64) _Atomic uint32_t done; /* a futex: places that are done */
    _Atomic uint32_t wanted;            /* the submitter sleeps until `done` is that */
    _Alignas(64) _Atomic uint32_t arrived;
    _Atomic uint32_t phase; /* a futex: meetings that took place */
    _Atomic uint32_t waiting;
    stamp *stamp; /* [workers] */
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static void futex_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

/* Polls until *word is no longer `seen`, `ns` at most; whether it changed. */
static bool changes(_Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
    const uint64_t deadline = b1i_now_ns() + ns;
    for (int polls = 1;; polls++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
        if (polls % 32 == 0 && b1i_now_ns() >= deadline) return false;
        b1i_cpu_relax();
    }
}

/* ---- what a worker does ---- */

/* Returns when all workers have come; orders what each wrote before it before what any reads after it. */
static void meet(b1i_lab_cpu *cpu)
{
    const uint32_t phase = atomic_load_explicit(&cpu->phase, memory_order_relaxed);
    if (atomic_fetch_add(&cpu->arrived, 1) + 1 == (uint32_t)cpu->workers) {
        atomic_store_explicit(&cpu->arrived, 0, memory_order_relaxed);
        (void)atomic_exchange(&cpu->phase, phase + 1);
        if (atomic_load(&cpu->waiting)) futex_wake(&cpu->phase);
        return;
    }
    if (cpu->enough && changes(&cpu->phase, phase, SPIN_NS)) return;
    atomic_fetch_add(&cpu->waiting, 1);
    while (atomic_load(&cpu->phase) == phase) futex_wait(&cpu->phase, phase);
    atomic_fetch_sub(&cpu->waiting, 1);
}

static void do_op(const b1i_lab_op *op, int worker, int workers)
{
    if (op->body) {
        op->body(op->args, worker, workers);
        return;
    }
    int64_t begin, end;
    b1i_share((int64_t)op->fill_bytes, 64, worker, workers, &begin, &end);
    if (end > begin) memset((char *)(uintptr_t)op->fill + begin, 0, (size_t)(end - begin));
}

typedef struct job {
    b1i_lab_cpu *cpu;
    const place *place;
} job;

static void run_place(void *arg, int worker, int workers)
{
    const job *j = arg;
    const place *p = j->place;
    const b1i_lab_op *ops = p->work->ops + (size_t)p->set * (size_t)p->work->count;
    if (p->first) j->cpu->stamp[worker].from = b1i_now_ns();
    if (p->work->mode == b1i_lab_stream) {
        do_op(ops + p->op, worker, workers);
    } else {
        for (int i = 0; i < p->work->count; i++) {
            if (i && workers > 1) meet(j->cpu);
            do_op(ops + i, worker, workers);
        }
    }
    if (p->last) j->cpu->stamp[worker].to = b1i_now_ns();
}

/* ---- the queue's thread ---- */

/* Returns when there is a place past `done`. */
static void await_place(b1i_lab_cpu *cpu, uint32_t done)
{
    if (changes(&cpu->tail, done, cpu->spare ? SPIN_NS : SPIN_SHORT_NS)) return;
    while (atomic_load(&cpu->tail) == done) {
        (void)atomic_exchange(&cpu->asleep, 1);
        if (atomic_load(&cpu->tail) == done) futex_wait(&cpu->asleep, 1);
    }
    atomic_store(&cpu->asleep, 0);
}

static void *queue_main(void *arg)
{
    b1i_lab_cpu *cpu = arg;
    for (uint32_t done = 0;;) {
        if (atomic_load_explicit(&cpu->tail, memory_order_acquire) == done) await_place(cpu, done);
        job j = {cpu, &cpu->place[done % PLACES]};
        if (!j.place->work) return NULL;
        b1i_pool_run(cpu->workers, run_place, &j);
        (void)atomic_exchange(&cpu->done, ++done);
        if (atomic_load(&cpu->wanted) == done) futex_wake(&cpu->done);
    }
}

/* ---- the submitter ---- */

static bool reached(uint32_t count, uint32_t target) { return (int32_t)(count - target) >= 0; }

/* Waits until `target` places are done. */
static void await_done(b1i_lab_cpu *cpu, uint32_t target)
{
    const uint64_t deadline = b1i_now_ns() + (cpu->spare ? SPIN_LONG_NS : SPIN_SHORT_NS);
    for (int polls = 1;; polls++) {
        if (reached(atomic_load_explicit(&cpu->done, memory_order_acquire), target)) return;
        if (polls % 32 == 0 && b1i_now_ns() >= deadline) break;
        b1i_cpu_relax();
    }
    (void)atomic_exchange(&cpu->wanted, target);
    for (uint32_t done; !reached(done = atomic_load(&cpu->done), target);) futex_wait(&cpu->done, done);
}

static void put_place(b1i_lab_cpu *cpu, place p)
{
    /* The place is free when the one that had it before is done. */
    if (!reached(atomic_load_explicit(&cpu->done, memory_order_acquire), cpu->submitted + 1 - PLACES))
        await_done(cpu, cpu->submitted + 1 - PLACES);
    cpu->place[cpu->submitted % PLACES] = p;
    (void)atomic_exchange(&cpu->tail, ++cpu->submitted);
    if (atomic_load(&cpu->asleep) && atomic_exchange(&cpu->asleep, 0)) futex_wake(&cpu->asleep);
}

void b1i_lab_cpu_submit(b1i_lab_cpu *cpu, b1i_lab_work *work, int invocations, bool timed)
{
    const int places = work->mode == b1i_lab_stream ? work->count : 1;
    for (int i = 0; i < invocations; i++) {
        for (int op = 0; op < places; op++) {
            put_place(cpu, (place){.work = work,
                                   .set = work->next,
                                   .op = op,
                                   .first = timed && i == 0 && op == 0,
                                   .last = timed && i == invocations - 1 && op == places - 1});
        }
        work->next = (work->next + 1) % work->sets;
    }
}

void b1i_lab_cpu_wait(b1i_lab_cpu *cpu) { await_done(cpu, cpu->submitted); }

uint64_t b1i_lab_cpu_interval(const b1i_lab_cpu *cpu)
{
    uint64_t from = UINT64_MAX, to = 0;
    for (int i = 0; i < cpu->workers; i++) {
        if (cpu->stamp[i].from < from) from = cpu->stamp[i].from;
        if (cpu->stamp[i].to > to) to = cpu->stamp[i].to;
    }
    return to - from;
}

/* ---- the device ---- */

int b1i_lab_cpu_workers(const b1i_lab_cpu *cpu) { return cpu->workers; }

static b1_status start(b1i_lab_cpu *cpu, b1_error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's own threads' */
    const int rc = pthread_create(&cpu->thread, NULL, queue_main, cpu);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    cpu->running = rc == 0;
    return rc ? b1i_fail(err, B1_SYSTEM, "the queue's thread could not be started: %s", strerror(rc)) : B1_OK;
}

b1_status b1i_lab_cpu_open(int threads, b1i_lab_cpu **out, b1_error *err)
{
    *out = NULL;
    b1_status st = B1_OK;
    const int cpus = b1i_cpu_count();
    b1i_lab_cpu *cpu = b1i_pages_alloc(sizeof *cpu); /* aligned, and zero */
    if (!cpu) return b1i_fail_memory(err, sizeof *cpu);
    cpu->workers = threads > 0 ? threads : cpus;
    cpu->spare = cpu->workers < cpus;
    cpu->enough = cpu->workers <= cpus;
    B1I_TRY(b1i_pool_reserve(cpu->workers, err));
    cpu->stamp = b1i_pages_alloc((size_t)cpu->workers * sizeof *cpu->stamp);
    if (!cpu->stamp) {
        st = b1i_fail_memory(err, (size_t)cpu->workers * sizeof *cpu->stamp);
        goto fail;
    }
    B1I_TRY(start(cpu, err));
    *out = cpu;
    cpu = NULL;
fail:
    b1i_lab_cpu_close(cpu);
    return st;
}

void b1i_lab_cpu_close(b1i_lab_cpu *cpu)
{
    if (!cpu) return;
    if (cpu->running) {
        put_place(cpu, (place){.work = NULL});
        pthread_join(cpu->thread, NULL);
    }
    while (cpu->memory) b1i_lab_cpu_free(cpu, (uint64_t)(uintptr_t)cpu->memory->data);
    if (cpu->stamp) b1i_pages_free(cpu->stamp, (size_t)cpu->workers * sizeof *cpu->stamp);
    b1i_pages_free(cpu, sizeof *cpu);
}

/* ---- memory ---- */

static void touch(void *arg, int worker, int workers)
{
    const memory *m = arg;
    int64_t begin, end;
    b1i_share((int64_t)m->bytes, 4096, worker, workers, &begin, &end);
    if (end > begin) memset((char *)m->data + begin, UNWRITTEN, (size_t)(end - begin));
}

/* Every page is written, by the worker whose share it is: untouched pages all share one page of zeros. */
b1_status b1i_lab_cpu_alloc(b1i_lab_cpu *cpu, size_t bytes, const char *what, uint64_t *out, b1_error *err)
{
    *out = 0;
    const uint64_t available = b1i_memory_available();
    memory *m = b1i_calloc(1, sizeof *m);
    if (!m) return b1i_fail_memory(err, sizeof *m);
    m->bytes = bytes ? bytes : 1;
    m->data = m->bytes < available ? b1i_pages_alloc(m->bytes) : NULL;
    if (!m->data) {
        b1i_free(m);
        return b1i_fail(err, B1_MEMORY, "not enough memory for %s: %.3f GB wanted, the machine has %.3f GB to spare",
                        what, (double)bytes / 1e9, (double)available / 1e9);
    }
    b1i_lab_cpu_wait(cpu);
    b1i_pool_run(cpu->workers, touch, m);
    m->next = cpu->memory;
    cpu->memory = m;
    *out = (uint64_t)(uintptr_t)m->data;
    return B1_OK;
}

void b1i_lab_cpu_free(b1i_lab_cpu *cpu, uint64_t address)
{
    memory **at = &cpu->memory, *found;
    while (*at && (uint64_t)(uintptr_t)(*at)->data != address) at = &(*at)->next;
    found = *at;
    if (!found) return;
    *at = found->next;
    b1i_pages_free(found->data, found->bytes);
    b1i_free(found);
}
