/* SPDX-License-Identifier: MIT
 *
 * Works of the lab: what each mode does, what the three latencies say of works whose time is known, and that a
 * submission does not wait. On the CPU always; on a GPU, or on the driver that stands in for one, where there is one.
 *
 * How long something takes is asked of the CPU with as much tolerance as a shared machine needs: the least of several
 * readings has a bound from both sides, any other only from below.
 */
#include "lab/kernels/probe_args.h"
#include "lab/work.h"

#include "base/threads.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static b1_error err; /* of the call that failed */

#define OK(call) ok((call), #call, __LINE__)
static void ok(b1_status st, const char *call, int line)
{
    if (st) fail_msg("line %d: %s: %s: %s", line, call, b1_status_name(st), err.message);
}

static b1i_lab_device *open_cpu(int threads)
{
    b1i_lab_device *d = NULL;
    const b1i_device cpu = b1i_device_cpu();
    OK(b1i_lab_device_open(&cpu, threads, &d, &err));
    assert_null(b1i_lab_device_gpu(d));
    return d;
}

/* ---- bodies ---- */

/* Worker 0 spins by the clock; others have nothing to do. */
static void spin(const void *args, int worker, int workers)
{
    const b1i_spin_args *a = args;
    (void)workers;
    const uint64_t from = b1i_now_ns();
    while (worker == 0 && b1i_now_ns() - from < a->ns) b1i_cpu_relax();
}

typedef struct step_args {
    uint64_t in, out;
    uint32_t count, value;
} step_args;

/* out[i] = 3 in[(7 i + 1) mod count] + value: reads what other workers wrote in the operation before. */
static void step(const void *args, int worker, int workers)
{
    const step_args *a = args;
    const uint32_t *in = (const uint32_t *)(uintptr_t)a->in;
    uint32_t *out = (uint32_t *)(uintptr_t)a->out;
    int64_t begin, end;
    b1i_share(a->count, 1, worker, workers, &begin, &end);
    for (int64_t i = begin; i < end; i++) out[i] = 3 * in[(7 * i + 1) % a->count] + a->value;
}

/* Adds one to a counter of 64 bits, by each worker. */
typedef struct count_args {
    uint64_t at;
} count_args;
static void count(const void *args, int worker, int workers)
{
    const count_args *a = args;
    (void)worker;
    (void)workers;
    atomic_fetch_add((_Atomic uint64_t *)(uintptr_t)a->at, 1);
}

static b1i_lab_op op_of(b1i_lab_body body, const char *kernel, const void *args, size_t bytes)
{
    b1i_lab_op op = {.body = body, .kernel = kernel, .grid = 1, .threads = 1, .arg_bytes = (unsigned)bytes};
    memcpy(op.args, args, bytes);
    return op;
}

static b1i_lab_op spin_op(uint64_t ns)
{
    const b1i_spin_args a = {ns};
    return op_of(spin, "k_spin", &a, sizeof a);
}

/* ---- what a work does ---- */

enum { COUNT = 1000, CHAIN = 6, TIMES = 50 };

/* A chain over two buffers, in every mode, with `threads`: as one thread would have it. */
static void check_chain(int threads, b1i_lab_mode mode)
{
    b1i_lab_device *d = open_cpu(threads);
    uint64_t buffer[2];
    uint32_t want[COUNT], next[COUNT], got[COUNT];
    b1i_lab_op ops[CHAIN];
    b1i_lab_work *work = NULL;
    for (int i = 0; i < 2; i++) OK(b1i_lab_alloc(d, sizeof want, "a test", &buffer[i], &err));
    assert_true(buffer[0] % 256 == 0 && buffer[1] % 256 == 0);
    for (uint32_t i = 0; i < COUNT; i++) want[i] = i * i;
    OK(b1i_lab_put(d, buffer[0], want, sizeof want, &err));
    for (uint32_t i = 0; i < CHAIN; i++) {
        const step_args a = {buffer[i % 2], buffer[(i + 1) % 2], COUNT, i};
        ops[i] = op_of(step, NULL, &a, sizeof a);
    }
    OK(b1i_lab_work_create(d, mode, ops, CHAIN, 1, &work, &err));
    memset(ops, 0, sizeof ops); /* it has a copy */
    OK(b1i_lab_work_submit(work, TIMES, &err));
    OK(b1i_lab_get(d, got, buffer[0], sizeof got, &err)); /* waits */
    for (uint32_t t = 0; t < TIMES * CHAIN; t++) {
        for (uint32_t i = 0; i < COUNT; i++) next[i] = 3 * want[(7 * i + 1) % COUNT] + t % CHAIN;
        memcpy(want, next, sizeof want);
    }
    assert_memory_equal(got, want, sizeof want);
    b1i_lab_work_destroy(work);
    b1i_lab_free(d, buffer[0]); /* the other goes with the device */
    b1i_lab_device_close(d);
}

static void chains(void **state)
{
    (void)state;
    const long live = b1i_alloc_live();
    for (int threads = 1; threads <= 4; threads++) {
        check_chain(threads, b1i_lab_stream);
        check_chain(threads, b1i_lab_graph);
    }
    b1i_pool_end();
    assert_int_equal(b1i_alloc_live(), live);
}

/* Every worker does its part of every operation, none twice, through more places than the queue has. */
static void counts(void **state)
{
    (void)state;
    enum { MANY = 10000 };
    b1i_lab_device *d = open_cpu(2);
    uint64_t at, seen = 0;
    b1i_lab_work *work[2] = {NULL, NULL};
    OK(b1i_lab_alloc(d, 8, "a test", &at, &err));
    OK(b1i_lab_get(d, &seen, at, 8, &err));
    assert_true(seen == 0xa5a5a5a5a5a5a5a5u); /* nobody wrote it */
    OK(b1i_lab_fill(d, at, 0, 8, &err));
    const count_args a = {at};
    const b1i_lab_op ops[2] = {op_of(count, NULL, &a, sizeof a), op_of(count, NULL, &a, sizeof a)};
    for (int i = 0; i < 2; i++) OK(b1i_lab_work_create(d, (b1i_lab_mode)i, ops, 2, 1, &work[i], &err));
    OK(b1i_lab_work_submit(work[0], MANY, &err));
    OK(b1i_lab_work_submit(work[1], 0, &err));
    OK(b1i_lab_work_submit(work[1], MANY, &err));
    OK(b1i_lab_get(d, &seen, at, 8, &err));
    assert_int_equal(seen, 2 * 2 * 2 * MANY);
    for (int i = 0; i < 2; i++) b1i_lab_work_destroy(work[i]);
    b1i_lab_device_close(d);
}

/* Invocation i does set i mod sets, over all submissions and latencies; an operation without a body fills. */
static void sets_take_turns(void **state)
{
    (void)state;
    enum { SETS = 3 };
    b1i_lab_device *d = open_cpu(2);
    for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++) {
        uint64_t at, seen[SETS];
        double ns;
        b1i_lab_work *work = NULL;
        OK(b1i_lab_alloc(d, sizeof seen, "a test", &at, &err));
        OK(b1i_lab_fill(d, at, 0, sizeof seen, &err));
        b1i_lab_op ops[SETS];
        for (uint64_t i = 0; i < SETS; i++) {
            const count_args a = {at + 8 * i};
            ops[i] = op_of(count, NULL, &a, sizeof a);
        }
        OK(b1i_lab_work_create(d, (b1i_lab_mode)mode, ops, 1, SETS, &work, &err));
        OK(b1i_lab_work_submit(work, 4, &err));        /* 0 1 2 0 */
        OK(b1i_lab_work_single(work, &ns, &err));      /* 1 */
        OK(b1i_lab_work_enqueue(work, 2, &ns, &err));  /* 2 0 */
        OK(b1i_lab_work_interval(work, 3, &ns, &err)); /* 1 2 0 */
        OK(b1i_lab_get(d, seen, at, sizeof seen, &err));
        assert_int_equal(seen[0], 2 * 4);
        assert_int_equal(seen[1], 2 * 3);
        assert_int_equal(seen[2], 2 * 3);
        b1i_lab_work_destroy(work);
        work = NULL;
        const b1i_lab_op fill = {.fill = at + 3, .fill_bytes = 18};
        unsigned char bytes[sizeof seen];
        OK(b1i_lab_fill(d, at, 0x77, sizeof seen, &err));
        OK(b1i_lab_work_create(d, (b1i_lab_mode)mode, &fill, 1, 1, &work, &err));
        OK(b1i_lab_work_submit(work, 1, &err));
        OK(b1i_lab_get(d, bytes, at, sizeof bytes, &err));
        for (size_t i = 0; i < sizeof bytes; i++) assert_int_equal(bytes[i], i >= 3 && i < 21 ? 0 : 0x77);
        b1i_lab_work_destroy(work);
        b1i_lab_free(d, at);
    }
    b1i_lab_device_close(d);
}

/* ---- what is refused ---- */

static void refused(void **state)
{
    (void)state;
    b1i_lab_device *d = open_cpu(1);
    b1i_lab_work *work = NULL;
    const long live = b1i_alloc_live();
    const b1i_lab_op good = spin_op(10);
    b1i_lab_op bad = good;
    double ns = 7, tick = 7;
    assert_int_equal(b1i_lab_work_create(d, b1i_lab_pdl, &good, 1, 1, &work, &err), B1_UNSUPPORTED);
    assert_non_null(strstr(err.message, "programmatic"));
    assert_null(work);
    bad.body = NULL;
    assert_int_equal(b1i_lab_work_create(d, b1i_lab_graph, &bad, 1, 1, &work, &err), B1_UNSUPPORTED);
    assert_non_null(strstr(err.message, "k_spin"));
    bad.kernel = NULL;
    assert_int_equal(b1i_lab_work_create(d, b1i_lab_graph, &bad, 1, 1, &work, &err), B1_ARGUMENT);
    bad = good;
    bad.arg_bytes = B1I_LAB_ARGS_MAX + 1;
    assert_int_equal(b1i_lab_work_create(d, b1i_lab_graph, &bad, 1, 1, &work, &err), B1_ARGUMENT);
    assert_int_equal(b1i_lab_work_create(d, b1i_lab_graph, &good, 0, 1, &work, &err), B1_ARGUMENT);
    assert_int_equal(b1i_lab_work_create(d, b1i_lab_graph, &good, 1, 0, &work, &err), B1_ARGUMENT);
    assert_int_equal(b1i_alloc_live(), live);
    OK(b1i_lab_work_create(d, b1i_lab_graph, &good, 1, 1, &work, &err));
    assert_int_equal(b1i_lab_work_enqueue(work, 0, &ns, &err), B1_ARGUMENT);
    assert_int_equal(b1i_lab_work_interval(work, -1, &ns, &err), B1_ARGUMENT);
    assert_int_equal(b1i_lab_work_dot(work, "/tmp/none.dot", &err), B1_UNSUPPORTED);
    json_t *graph = (json_t *)&err;
    OK(b1i_lab_work_graph(work, &graph, &err));
    assert_null(graph);
    OK(b1i_lab_probe_clock(d, &ns, &tick, &err));
    assert_true(ns == 0 && tick == 0);
    b1i_lab_work_destroy(work);
    b1i_lab_work_destroy(NULL);

    uint64_t at = 7;
    assert_int_equal(b1i_lab_alloc(d, (size_t)1 << 50, "all the world", &at, &err), B1_MEMORY);
    assert_int_equal(at, 0);
    assert_non_null(strstr(err.message, "all the world: 1125899.907 GB wanted"));
    b1i_lab_free(d, 0);
    assert_int_equal(b1i_alloc_live(), live);
    b1i_lab_device_close(d);
    b1i_lab_device_close(NULL);
    const b1i_device cpu = b1i_device_cpu(), far = b1i_device_at(500);
    assert_int_equal(b1i_lab_device_open(&cpu, 1 << 20, &d, &err), B1_ARGUMENT);
    assert_null(d);
    assert_int_equal(b1i_lab_device_open(&far, 0, &d, &err), B1_UNSUPPORTED);
    assert_null(d);
}

static b1_status life(const b1i_device *which, b1_error *e)
{
    b1_status st = B1_OK;
    b1i_lab_device *d = NULL;
    b1i_lab_work *work = NULL;
    uint64_t at = 0;
    double ns, tick;
    json_t *graph = NULL;
    B1I_TRY(b1i_lab_device_open(which, 1, &d, e));
    B1I_TRY(b1i_lab_alloc(d, 3 << 20, "a test", &at, e));
    b1i_lab_op ops[4] = {spin_op(10), {.fill = at, .fill_bytes = 4}, spin_op(20), {.fill = at, .fill_bytes = 4}};
    for (int mode = 0; mode <= b1i_lab_graph; mode++) {
        B1I_TRY(b1i_lab_work_create(d, (b1i_lab_mode)mode, ops, 2, 2, &work, e));
        B1I_TRY(b1i_lab_work_single(work, &ns, e));
        B1I_TRY(b1i_lab_work_enqueue(work, 3, &ns, e));
        B1I_TRY(b1i_lab_work_interval(work, 3, &ns, e));
        B1I_TRY(b1i_lab_work_graph(work, &graph, e));
        json_decref(graph);
        graph = NULL;
        b1i_lab_work_destroy(work);
        work = NULL;
    }
    B1I_TRY(b1i_lab_probe_clock(d, &ns, &tick, e));
fail:
    b1i_lab_work_destroy(work);
    b1i_lab_device_close(d);
    return st;
}

/* Each allocation of lives fails in turn. Some fail without harm: what is free is then guessed. */
static void fail_each(const b1i_device *which)
{
    const long live = b1i_alloc_live(), gpu_live = b1i_gpu_alloc_live();
    int failures = 0, successes = 0;
    for (int n = 0; n < 200 && successes < 12; n++) {
        b1_error e = {0};
        b1i_alloc_fail_at(n);
        const b1_status st = life(which, &e);
        b1i_alloc_fail_at(-1);
        failures += st != B1_OK;
        successes += st == B1_OK;
        if (st) assert_int_equal(st, B1_MEMORY);
        if (st) assert_true(strlen(e.message) > 10);
        assert_int_equal(b1i_alloc_live(), live);
        assert_int_equal(b1i_gpu_alloc_live(), gpu_live);
    }
    printf("%d allocations failed\n", failures);
    assert_true(failures >= 8 && successes == 12);
}

static void allocations_fail(void **state)
{
    (void)state;
    const b1i_device cpu = b1i_device_cpu();
    fail_each(&cpu);
}

/* ---- latencies ---- */

typedef enum latency { SINGLE, ENQUEUE, INTERVAL } latency;

enum { READINGS = 15 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Some readings, sorted: the first is their least, for what a shared machine adds is never less than nothing. */
static const double *readings(b1i_lab_work *work, latency which, int depth)
{
    static double sorted[READINGS];
    for (int i = 0; i < READINGS; i++) {
        double ns = 0;
        if (which == SINGLE)
            OK(b1i_lab_work_single(work, &ns, &err));
        else if (which == ENQUEUE)
            OK(b1i_lab_work_enqueue(work, depth, &ns, &err));
        else
            OK(b1i_lab_work_interval(work, depth, &ns, &err));
        sorted[i] = ns;
    }
    qsort(sorted, READINGS, sizeof *sorted, by_value);
    return sorted;
}

/* The least of as many as it takes to come below `enough`, within reason: a busy machine has its quiet moments. */
static double least(b1i_lab_work *work, latency which, int depth, double enough)
{
    double best = readings(work, which, depth)[0];
    for (int i = 0; i < 30 && best >= enough; i++) {
        const double again = readings(work, which, depth)[0];
        if (again < best) best = again;
    }
    return best;
}

static double middle(b1i_lab_work *work, latency which, int depth)
{
    return readings(work, which, depth)[READINGS / 2];
}

static b1i_lab_work *spin_work(b1i_lab_device *d, b1i_lab_mode mode, uint64_t ns)
{
    b1i_lab_work *work = NULL;
    const b1i_lab_op op = spin_op(ns);
    OK(b1i_lab_work_create(d, mode, &op, 1, 1, &work, &err));
    return work;
}

/* Works of a known time on the CPU: no latency is less than it, and none much more. */
static void known_on_the_cpu(void **state)
{
    (void)state;
    b1i_lab_device *d = open_cpu(1);
    for (int mode = b1i_lab_stream; mode <= b1i_lab_graph; mode++) {
        b1i_lab_work *work = spin_work(d, (b1i_lab_mode)mode, 2000000);
        const double single = least(work, SINGLE, 1, 2e6 * 1.10), interval = least(work, INTERVAL, 2, 2e6 * 1.02);
        const double enqueue = least(work, ENQUEUE, 4, 2e5);
        printf("%s: 2 ms of spinning: single %.3f, interval %.3f ms, enqueue %.3f us\n", b1i_lab_mode_names[mode],
               single / 1e6, interval / 1e6, enqueue / 1e3);
        assert_true(interval >= 2e6 && interval < 2e6 * 1.02);
        assert_true(single >= 2e6 && single < 2e6 * 1.10);
        assert_true(enqueue > 0 && enqueue < 2e5); /* a submission is no execution */
        b1i_lab_work_destroy(work);
    }
    /* An enqueue costs the same whatever is enqueued. */
    b1i_lab_work *brief = spin_work(d, b1i_lab_stream, 10000), *tardy = spin_work(d, b1i_lab_stream, 1000000);
    const double a = least(brief, ENQUEUE, 64, 1e5), b = least(tardy, ENQUEUE, 64, 1e5);
    printf("enqueue of 10 us: %.3f us, of 1 ms: %.3f us\n", a / 1e3, b / 1e3);
    assert_true(a < 1e5 && b < 1e5);
    b1i_lab_work_destroy(brief);
    b1i_lab_work_destroy(tardy);
    b1i_lab_device_close(d);
}

/* Workers wait for each other and for work while there are more of them than CPUs, and the submitter besides. */
static void crowded(void **state)
{
    (void)state;
    const int threads = b1i_cpu_count() + 3;
    b1i_lab_device *d = open_cpu(threads);
    assert_int_equal(b1i_lab_device_units(d), threads);
    uint64_t at, seen = 0;
    OK(b1i_lab_alloc(d, 8, "a test", &at, &err));
    OK(b1i_lab_fill(d, at, 0, 8, &err));
    const count_args a = {at};
    b1i_lab_op ops[5];
    for (int i = 0; i < 5; i++) ops[i] = op_of(count, NULL, &a, sizeof a);
    b1i_lab_work *work = NULL;
    double ns;
    OK(b1i_lab_work_create(d, b1i_lab_graph, ops, 5, 1, &work, &err));
    assert_true(b1i_lab_work_setup(work)->capture_ns > 0);
    for (int i = 0; i < 100; i++) {
        OK(b1i_lab_work_single(work, &ns, &err));
        if (i % 10 == 0) usleep(2000); /* everybody falls asleep */
        OK(b1i_lab_work_interval(work, 2, &ns, &err));
        assert_true(ns > 0);
    }
    OK(b1i_lab_get(d, &seen, at, 8, &err));
    assert_int_equal(seen, 100 * 3 * 5 * threads);
    b1i_lab_work_destroy(work);
    b1i_lab_device_close(d);
    b1i_pool_end();
}

/* ---- on a GPU ---- */

static const b1i_device *gpu_device(void)
{
    static b1i_device first;
    if (b1i_device_gpus(NULL) == 0) skip();
    first = b1i_device_at(0);
    return &first;
}

static b1i_lab_device *open_gpu(void)
{
    b1i_lab_device *d = NULL;
    OK(b1i_lab_device_open(gpu_device(), 0, &d, &err));
    assert_non_null(b1i_lab_device_gpu(d));
    assert_true(b1i_lab_device_units(d) > 0);
    return d;
}

static bool stand_in(void) { return getenv("B1_FAKE_CUDA") != NULL; }

static bool within(double value, double want, double part)
{
    return value > want * (1 - part) && value < want * (1 + part);
}

/* Kernels that spin by globaltimer. */
static void known_on_a_gpu(void **state)
{
    (void)state;
    b1i_lab_device *d = open_gpu();
    const bool pdl = b1i_gpu_get_info(b1i_lab_device_gpu(d))->major >= 9;
    for (int mode = b1i_lab_stream; mode <= (pdl ? b1i_lab_pdl : b1i_lab_graph); mode++) {
        const uint64_t lengths[] = {200000, 1000000, 5000000};
        for (size_t i = 0; i < 3; i++) {
            b1i_lab_work *work = spin_work(d, (b1i_lab_mode)mode, lengths[i]);
            const double want = (double)lengths[i], interval = middle(work, INTERVAL, 8);
            printf("%s, %.0f us: interval %.3f us\n", b1i_lab_mode_names[mode], want / 1e3, interval / 1e3);
            assert_true(within(interval, want, 0.02));
            b1i_lab_work_destroy(work);
        }
        b1i_lab_work *work = spin_work(d, (b1i_lab_mode)mode, 2000000);
        const double single = middle(work, SINGLE, 1);
        printf("%s, 2 ms: single %.3f us\n", b1i_lab_mode_names[mode], single / 1e3);
        if (!stand_in()) assert_true(within(single, 2e6, 0.02));
        b1i_lab_work_destroy(work);
        /* Submission does not cost what is submitted: under a hundredth of the millisecond. */
        b1i_lab_work *brief = spin_work(d, (b1i_lab_mode)mode, 10000);
        b1i_lab_work *tardy = spin_work(d, (b1i_lab_mode)mode, 1000000);
        const double a = middle(brief, ENQUEUE, 64), b = middle(tardy, ENQUEUE, 64);
        printf("%s: enqueue of 10 us: %.3f us, of 1 ms: %.3f us\n", b1i_lab_mode_names[mode], a / 1e3, b / 1e3);
        if (!stand_in()) assert_true(a < 1e4 && b < 1e4);
        b1i_lab_work_destroy(brief);
        b1i_lab_work_destroy(tardy);
    }
    b1i_lab_device_close(d);
}

/* What the driver's graph is; a memset is a node. */
static void graphs_of_a_gpu(void **state)
{
    (void)state;
    b1i_lab_device *d = open_gpu();
    uint64_t at, seen = 0;
    OK(b1i_lab_alloc(d, 8, "a test", &at, &err));
    OK(b1i_lab_fill(d, at, 0xff, 8, &err));
    const b1i_lab_op ops[] = {spin_op(1000), {.fill = at, .fill_bytes = 4}, spin_op(1000), spin_op(1000)};
    const bool pdl = b1i_gpu_get_info(b1i_lab_device_gpu(d))->major >= 9;
    for (int mode = b1i_lab_stream; mode <= b1i_lab_pdl; mode++) {
        b1i_lab_work *work = NULL;
        json_t *graph = NULL;
        if (mode == b1i_lab_pdl && !pdl) {
            assert_int_equal(b1i_lab_work_create(d, b1i_lab_pdl, ops, 4, 1, &work, &err), B1_UNSUPPORTED);
            continue;
        }
        OK(b1i_lab_work_create(d, (b1i_lab_mode)mode, ops, 4, 1, &work, &err));
        OK(b1i_lab_work_graph(work, &graph, &err));
        const b1i_lab_setup *s = b1i_lab_work_setup(work);
        if (mode == b1i_lab_stream) {
            assert_null(graph);
            assert_true(s->capture_ns == 0 && s->instantiate_ns == 0 && s->upload_ns == 0);
        } else {
            json_t *want = json_pack("{s:i,s:i,s:i,s:i,s:i}", "nodes", 4, "kernel_nodes", 3, "memset_nodes", 1, "edges",
                                     3, "programmatic_edges", mode == b1i_lab_pdl);
            assert_true(json_equal(graph, want));
            json_decref(want);
            assert_true(s->capture_ns > 0 && s->instantiate_ns > 0 && s->upload_ns > 0);
            char path[64];
            snprintf(path, sizeof path, "/tmp/b1-work-%ld.dot", (long)getpid());
            OK(b1i_lab_work_dot(work, path, &err));
            assert_int_equal(unlink(path), 0);
        }
        json_decref(graph);
        OK(b1i_lab_fill(d, at, 0xff, 8, &err));
        OK(b1i_lab_work_submit(work, 1, &err));
        OK(b1i_lab_device_wait(d, &err));
        OK(b1i_lab_get(d, &seen, at, 8, &err));
        assert_true(seen == 0xffffffff00000000u);
        b1i_lab_work_destroy(work);
    }
    b1i_lab_device_close(d);
}

static void clock_of_a_gpu(void **state)
{
    (void)state;
    b1i_lab_device *d = open_gpu();
    for (int i = 0; i < 5; i++) {
        double mhz = 0, tick = 0;
        OK(b1i_lab_probe_clock(d, &mhz, &tick, &err));
        printf("SM clock %.1f MHz, globaltimer's tick %.0f ns\n", mhz, tick);
        assert_true(mhz > 200 && mhz < 4000 && tick > 0 && tick < 10000);
    }
    b1i_lab_device_close(d);
}

static void what_a_gpu_refuses(void **state)
{
    (void)state;
    b1i_lab_device *d = open_gpu();
    b1i_lab_work *work = NULL;
    b1i_lab_op op = spin_op(10);
    const long live = b1i_alloc_live(), gpu_live = b1i_gpu_alloc_live();
    op.kernel = NULL;
    assert_int_equal(b1i_lab_work_create(d, b1i_lab_stream, &op, 1, 1, &work, &err), B1_UNSUPPORTED);
    op.kernel = "k_no_such";
    assert_int_equal(b1i_lab_work_create(d, b1i_lab_stream, &op, 1, 1, &work, &err), B1_UNSUPPORTED);
    assert_non_null(strstr(err.message, "k_no_such"));
    op = spin_op(10);
    op.threads = 2048;
    assert_int_equal(b1i_lab_work_create(d, b1i_lab_graph, &op, 1, 1, &work, &err), B1_DEVICE);
    OK(b1i_lab_work_create(d, b1i_lab_stream, &op, 1, 1, &work, &err));
    assert_int_equal(b1i_lab_work_submit(work, 1, &err), B1_DEVICE);
    assert_non_null(strstr(err.message, "k_spin"));
    b1i_lab_work_destroy(work);
    assert_int_equal(b1i_gpu_alloc_live(), gpu_live);
    uint64_t at;
    assert_int_equal(b1i_lab_alloc(d, (size_t)1 << 45, "all the world", &at, &err), B1_MEMORY);
    b1i_lab_device_close(d);
    (void)live;
}

/* Each call of the driver fails in turn, with an error that fits it and with one that poisons. */
static void driver_fails(void **state)
{
    (void)state;
    const b1i_device *which = gpu_device();
    if (!stand_in()) skip();
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    long *fail_in = dlsym(library, "fake_cuda_fail_in"), *objects = dlsym(library, "fake_cuda_live");
    int *fail_with = dlsym(library, "fake_cuda_fail_with");
    assert_true(fail_in && objects && fail_with);
    const long live = b1i_alloc_live();
    for (int error = 1; error < 720; error += 718) {
        b1_status st = B1_DEVICE;
        int n = 0;
        for (; st && n < 500; n++) {
            b1_error e = {0};
            *fail_with = error;
            *fail_in = n;
            st = life(which, &e);
            *fail_in = -1;
            if (st) assert_true(st == B1_DEVICE || st == B1_UNSUPPORTED);
            if (st) assert_true(strlen(e.message) > 10);
            assert_int_equal(*objects, 0);
            assert_int_equal(b1i_alloc_live(), live);
        }
        printf("error %d at each of %d calls of the driver\n", error, n - 1);
        assert_true(st == B1_OK && n > 40);
    }
    dlclose(library);
}

static void lives_of_a_gpu(void **state)
{
    (void)state;
    const b1i_device *which = gpu_device();
    if (!stand_in()) skip(); /* each costs a context */
    fail_each(which);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains),
        cmocka_unit_test(counts),
        cmocka_unit_test(sets_take_turns),
        cmocka_unit_test(refused),
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(known_on_the_cpu),
        cmocka_unit_test(crowded),
        cmocka_unit_test(known_on_a_gpu),
        cmocka_unit_test(graphs_of_a_gpu),
        cmocka_unit_test(clock_of_a_gpu),
        cmocka_unit_test(what_a_gpu_refuses),
        cmocka_unit_test(lives_of_a_gpu),
        cmocka_unit_test(driver_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
