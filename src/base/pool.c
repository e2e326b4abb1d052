/* SPDX-License-Identifier: MIT
 *
 * The worker pool: fork and join over pinned threads.
 *
 * One word carries a dispatch: its number and how many workers take part. A worker that does not take part never
 * looks at the job, so the next dispatch may overwrite it as soon as those that do have finished.
 *
 * Between dispatches a worker polls the word for SPIN_NS, then sleeps on its own flag, and is woken only by a dispatch
 * that it takes part in. With more workers than CPUs nobody polls: a polling thread would hold the CPU of the thread
 * that it waits for.
 *
 * The caller is worker 0. It keeps its affinity, but where it stands on another worker's CPU it is moved to its own,
 * for a pinned worker cannot step aside.
 */
#include "base/system.h"
#include "base/threads.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    COUNT_BITS = 10,
    WORKERS_MAX = (1 << COUNT_BITS) - 2,
    STOP = (1 << COUNT_BITS) - 1, /* in place of the number of workers: end */
    SPIN_NS = 100000,
    MOVE_NS = 5000000 /* least time between two moves of the caller */
};

typedef struct worker {
    _Alignas(64) _Atomic uint32_t asleep; /* a futex: 1 while it sleeps or is about to */
    pthread_t thread;
    int index;
} worker;

static struct {
    pthread_mutex_t turn; /* held through a dispatch, and while the pool changes */
    int workers;          /* caller included; 1: no thread */
    int order[CPU_SETSIZE];
    int cpus;                     /* of `order`; 0: not looked up yet */
    int granted;                  /* CPUs at once: cpus, or the cgroup's quota */
    short worker_on[CPU_SETSIZE]; /* the worker that is pinned to a CPU; 0: none */
    uint64_t moved_ns;
    b1i_work_fn fn;
    void *arg;
    worker worker[WORKERS_MAX];
    _Alignas(64) _Atomic uint64_t word; /* dispatch number << COUNT_BITS | workers */
    _Atomic bool spin;
    _Alignas(64) _Atomic uint32_t pending; /* a futex: workers that have not finished */
    _Atomic uint32_t caller_asleep;
} pool = {.turn = PTHREAD_MUTEX_INITIALIZER, .workers = 1};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static void futex_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

/* Before one of these flags is looked past, it must be seen: store, then load, in that order. An exchange and not a
 * sequentially consistent store, for QEMU lets such a store of aarch64 pass a later load on an x86-64 host, and both
 * sides then sleep. */
static void raise_flag(_Atomic uint32_t *flag) { (void)atomic_exchange(flag, 1); }

static bool concerns(uint64_t word, int index) { return (int)(word & STOP) > index; }

/* The next word after `seen` that concerns this worker. */
static uint64_t next_word(worker *w, uint64_t seen)
{
    uint64_t deadline = 0;
    for (int polls = 0;; polls++) {
        uint64_t now = atomic_load_explicit(&pool.word, memory_order_acquire);
        if (now != seen && concerns(now, w->index)) return now;
        bool spin = atomic_load_explicit(&pool.spin, memory_order_relaxed);
        if (spin && polls % 32 == 0) {
            uint64_t t = b1i_now_ns();
            if (!deadline) deadline = t + SPIN_NS;
            spin = t < deadline;
        }
        if (spin) {
            b1i_cpu_relax();
            continue;
        }
        /* The flag goes up before the word is read again, the dispatcher changes the word before it reads the flag:
         * one of the two sees the other (both sequentially consistent). */
        raise_flag(&w->asleep);
        now = atomic_load(&pool.word);
        if (now == seen || !concerns(now, w->index)) {
            while (atomic_load(&w->asleep)) futex_wait(&w->asleep, 1);
        }
        atomic_store(&w->asleep, 0);
        deadline = 0;
        polls = -1;
    }
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    uint64_t word = 0;
    for (;;) {
        word = next_word(w, word);
        int workers = (int)(word & STOP);
        if (workers == STOP) return NULL;
        pool.fn(pool.arg, w->index, workers);
        if (atomic_fetch_sub(&pool.pending, 1) == 1 && atomic_load(&pool.caller_asleep)) futex_wake(&pool.pending);
    }
}

/* In a child of fork() the threads do not exist. */
static void forget_threads(void)
{
    pthread_mutex_init(&pool.turn, NULL);
    pool.workers = 1;
    pool.cpus = 0;
    memset(pool.worker_on, 0, sizeof pool.worker_on);
    atomic_store(&pool.word, 0);
}
static void register_fork(void) { pthread_atfork(NULL, NULL, forget_threads); }

static void look_up_cpus(void)
{
    int cores, quota = b1i_cpu_quota_at("");
    pool.cpus = b1i_cpu_order(pool.order, CPU_SETSIZE, &cores);
    pool.granted = quota && quota < pool.cpus ? quota : pool.cpus;
}

/* Worker `index` as a new thread, with every signal blocked, so that they reach the program's own threads. */
static int start_worker(int index)
{
    worker *w = &pool.worker[index];
    pthread_attr_t attributes;
    sigset_t all, before;
    cpu_set_t set;
    w->index = index;
    atomic_store(&w->asleep, 0);
    int rc = pthread_attr_init(&attributes);
    if (rc) return rc;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* a fault of the thread itself, which the program may answer */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&w->thread, &attributes, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (rc == 0 && index < pool.cpus) {
        int cpu = pool.order[index];
        CPU_ZERO(&set);
        CPU_SET((size_t)cpu, &set);
        if (pthread_setaffinity_np(w->thread, sizeof set, &set) == 0) pool.worker_on[cpu] = (short)index;
    }
    return rc;
}

b1_status b1i_pool_reserve(int workers, b1_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    b1_status st = B1_OK;
    if (workers < 1 || workers > WORKERS_MAX)
        return b1i_fail(err, B1_ARGUMENT, "%d threads, expected 1 to %d", workers, WORKERS_MAX);
    if (workers == 1) return B1_OK;
    pthread_once(&once, register_fork);
    pthread_mutex_lock(&pool.turn);
    if (!pool.cpus) look_up_cpus();
    while (pool.workers < workers) {
        int rc = start_worker(pool.workers);
        if (rc) {
            st = b1i_fail(err, B1_SYSTEM, "thread %d of %d could not be started: %s", pool.workers + 1, workers,
                          strerror(rc));
            break;
        }
        pool.workers++;
    }
    pthread_mutex_unlock(&pool.turn);
    return st;
}

/* Moves the caller to its own CPU where it stands on another worker's. */
static void leave_workers_cpu(int workers)
{
    int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE || !pool.worker_on[here] || pool.worker_on[here] >= workers) return;
    uint64_t now = b1i_now_ns();
    if (now - pool.moved_ns < MOVE_NS) return;
    pool.moved_ns = now;
    cpu_set_t before, own;
    CPU_ZERO(&own);
    CPU_SET((size_t)pool.order[0], &own);
    if (sched_getaffinity(0, sizeof before, &before) || !CPU_ISSET((size_t)pool.order[0], &before)) return;
    if (sched_setaffinity(0, sizeof own, &own) == 0) sched_setaffinity(0, sizeof before, &before);
}

static void publish(uint32_t count, int workers)
{
    uint64_t word = atomic_load_explicit(&pool.word, memory_order_relaxed);
    (void)atomic_exchange(&pool.word, ((word >> COUNT_BITS) + 1) << COUNT_BITS | count); /* as raise_flag */
    for (int i = 1; i < workers; i++) {
        worker *w = &pool.worker[i];
        if (atomic_load(&w->asleep) && atomic_exchange(&w->asleep, 0)) futex_wake(&w->asleep);
    }
}

static void join(bool spin)
{
    uint64_t deadline = spin ? b1i_now_ns() + SPIN_NS : 0;
    for (int polls = 1; spin && atomic_load_explicit(&pool.pending, memory_order_acquire); polls++) {
        b1i_cpu_relax();
        if (polls % 32 == 0) spin = b1i_now_ns() < deadline;
    }
    /* As a worker's sleep: the flag goes up before the count is read again. */
    raise_flag(&pool.caller_asleep);
    for (uint32_t left; (left = atomic_load(&pool.pending)) != 0;) futex_wait(&pool.pending, left);
    atomic_store(&pool.caller_asleep, 0);
}

void b1i_pool_run(int workers, b1i_work_fn fn, void *arg)
{
    if (workers <= 1) {
        fn(arg, 0, 1);
        return;
    }
    pthread_mutex_lock(&pool.turn);
    if (workers > pool.workers) workers = pool.workers; /* a caller's mistake; all the work is done all the same */
    bool spin = workers <= pool.granted;
    if (spin) leave_workers_cpu(workers);
    pool.fn = fn;
    pool.arg = arg;
    atomic_store_explicit(&pool.spin, spin, memory_order_relaxed);
    atomic_store_explicit(&pool.pending, (uint32_t)workers - 1, memory_order_relaxed);
    publish((uint32_t)workers, workers);
    fn(arg, 0, workers);
    join(spin);
    pthread_mutex_unlock(&pool.turn);
}

void b1i_pool_end(void)
{
    pthread_mutex_lock(&pool.turn);
    publish(STOP, pool.workers);
    for (int i = 1; i < pool.workers; i++) pthread_join(pool.worker[i].thread, NULL);
    pool.workers = 1;
    pool.cpus = 0;
    memset(pool.worker_on, 0, sizeof pool.worker_on);
    atomic_store(&pool.word, 0);
    pthread_mutex_unlock(&pool.turn);
}
