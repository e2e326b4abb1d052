/* SPDX-License-Identifier: MIT
 *
 * base: sentences, allocation, files, limits, CPUs, worker pool, read stream.
 */
#include "base/base.h"
#include "base/system.h"
#include "base/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/b1-base-XXXXXX";

static const char *at(const char *name)
{
    static char path[4][512];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* Writes a file below the test's folder, with the folders above it. */
static void put(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s", at(name));
    for (char *p = path + strlen(folder) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0755);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    b1i_pool_end();
    return system(command);
}

/* ---- sentences ---- */

static void sentences(void **state)
{
    (void)state;
    b1_error e;
    assert_int_equal(b1i_fail(&e, B1_MODEL, "%s: %d", "a", 7), B1_MODEL);
    assert_int_equal(e.status, B1_MODEL);
    assert_string_equal(e.message, "a: 7");
    assert_int_equal(b1i_fail(NULL, B1_IO, "x"), B1_IO);
    b1i_fail(&e, B1_MODEL, "outer: %s", e.message); /* its own message as an argument */
    assert_string_equal(e.message, "outer: a: 7");
    b1i_fail(&e, B1_MODEL, "[%s]", "a\n\x1b[2J\x7f\xff\xc3\xa9\xe2\x82\xc0\x80z");
    assert_string_equal(e.message, "[a??[2J??\xc3\xa9????z]");

    char wide[3000];
    for (size_t i = 0; i + 3 <= sizeof wide - 1; i += 3) memcpy(wide + i, "\xe2\x82\xac", 3);
    wide[2997] = 0;
    b1i_fail(&e, B1_MODEL, "x%s", wide);
    assert_int_equal(strlen(e.message), 1 + 3 * 332); /* 997: the next character would not leave room for the NUL */
    assert_memory_equal(e.message + 994, "\xe2\x82\xac", 4);

    assert_string_equal(b1_status_name(B1_MODEL), "MODEL");
    assert_string_equal(b1_status_text(B1_MEMORY), "not enough memory");
    assert_string_equal(b1_status_name((b1_status)999), "UNKNOWN");
    assert_non_null(strstr(b1_version(), "."));
}

/* ---- memory ---- */

static void ordered_failures(void **state)
{
    (void)state;
    long before = b1i_alloc_live();
    b1i_alloc_fail_at(1);
    void *a = b1i_malloc(8), *b = b1i_malloc(8), *c = b1i_malloc(0);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c); /* once only */
    assert_int_equal(b1i_alloc_live(), before + 2);
    b1i_alloc_fail_at(0);
    assert_null(b1i_realloc(a, 4096)); /* a is untouched */
    a = b1i_realloc(a, 4096);
    assert_non_null(a);
    b1i_alloc_fail_at(0);
    assert_null(b1i_calloc(3, 3));
    b1i_alloc_fail_at(0);
    assert_null(b1i_strdup("x"));
    b1i_alloc_fail_at(0);
    assert_null(b1i_pages_alloc(1));
    b1i_alloc_fail_at(0);
    b1i_alloc_fail_at(-1);
    void *d = b1i_calloc(4, 4);
    assert_non_null(d);
    assert_null(b1i_calloc(SIZE_MAX / 2, 4));
    assert_int_equal(b1i_alloc_live(), before + 3);
    b1i_free(a);
    b1i_free(c);
    b1_free(d);
    b1i_free(NULL);
    assert_int_equal(b1i_alloc_live(), before);
}

static void growing(void **state)
{
    (void)state;
    int *v = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 1000; i++) {
        assert_true(b1i_grow(&v, &capacity, (size_t)i + 1, sizeof *v));
        v[i] = i;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(v[i], i);
    assert_true(capacity >= 1000 && capacity < 3000);
    size_t kept = capacity;
    assert_false(b1i_grow(&v, &capacity, SIZE_MAX / 2, sizeof *v));
    b1i_alloc_fail_at(0);
    assert_false(b1i_grow(&v, &capacity, kept + 1, sizeof *v));
    assert_int_equal(capacity, kept);
    assert_int_equal(v[999], 999);
    b1i_free(v);
    char *s = b1i_strndup("abcdef", 3);
    assert_string_equal(s, "abc");
    b1i_free(s);
}

static void big_pages(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 4096, 5000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, (9 << 20) + 123};
    long before = b1i_alloc_live();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *p = b1i_pages_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % (sizes[i] >= 2 << 20 ? 2 << 20 : 4096), 0);
        for (size_t k = 0; k < sizes[i]; k += 1000) assert_int_equal(p[k], 0);
        if (sizes[i]) p[0] = p[sizes[i] - 1] = 1;
        assert_int_equal(b1i_alloc_live(), before + 1);
        b1i_pages_free(p, sizes[i]);
    }
    assert_int_equal(b1i_alloc_live(), before);
    assert_null(b1i_pages_alloc(SIZE_MAX));
    assert_null(b1i_pages_alloc(SIZE_MAX / 2));
    b1i_pages_free(NULL, 5);
}

/* ---- files ---- */

static void expect_refused(const char *path, const char *word)
{
    b1_error e = {0};
    b1i_map m;
    char *text;
    size_t bytes;
    assert_int_equal(b1i_map_open(path, &m, &e), B1_MODEL);
    assert_non_null(strstr(e.message, path));
    assert_non_null(strstr(e.message, word));
    assert_null(m.data);
    assert_null(m.path);
    e.message[0] = 0;
    assert_int_equal(b1i_read_file(path, 100, &text, &bytes, &e), B1_MODEL);
    assert_non_null(strstr(e.message, path));
    assert_non_null(strstr(e.message, word));
    assert_null(text);
}

static void mapping(void **state)
{
    (void)state;
    long before = b1i_alloc_live();
    expect_refused("/no/such/file", strerror(ENOENT));
    expect_refused("/tmp", "directory");
    expect_refused("/dev/null", "regular");
    const char *fifo = at("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_refused(fifo, "regular"); /* and does not wait for a writer */
    if (geteuid() != 0) {
        put("secret", "x");
        chmod(at("secret"), 0);
        expect_refused(at("secret"), strerror(EACCES));
    }

    b1i_map m;
    put("empty", "");
    assert_int_equal(b1i_map_open(at("empty"), &m, NULL), B1_OK);
    assert_null(m.data);
    assert_int_equal(m.size, 0);
    b1i_map_release(&m, 0, 10);
    b1i_map_close(&m);

    FILE *f = fopen(at("three-pages"), "w");
    for (int i = 0; i < 12288; i++) fputc(i % 251, f);
    fclose(f);
    b1i_alloc_fail_at(0);
    assert_int_equal(b1i_map_open(at("three-pages"), &m, NULL), B1_MEMORY);
    b1i_alloc_fail_at(-1);
    assert_int_equal(b1i_map_open(at("three-pages"), &m, NULL), B1_OK);
    assert_int_equal(m.size, 12288);
    b1i_map_release(&m, 5, 12000);
    b1i_map_release(&m, 5, SIZE_MAX);
    b1i_map_release(&m, SIZE_MAX, 1);
    for (int i = 0; i < 12288; i++) assert_int_equal(m.data[i], i % 251); /* what was released comes back */
    b1i_map_close(&m);
    assert_int_equal(b1i_alloc_live(), before);
}

static void small_files(void **state)
{
    (void)state;
    char *text;
    size_t bytes;
    b1_error e;
    put("ten", "0123456789");
    assert_int_equal(b1i_read_file(at("ten"), 10, &text, &bytes, NULL), B1_OK);
    assert_int_equal(bytes, 10);
    assert_string_equal(text, "0123456789");
    b1i_free(text);
    assert_int_equal(b1i_read_file(at("ten"), 9, &text, &bytes, &e), B1_MODEL);
    assert_non_null(strstr(e.message, "10 bytes"));
    assert_non_null(strstr(e.message, "at most 9"));
    assert_null(text);
    b1i_alloc_fail_at(0);
    assert_int_equal(b1i_read_file(at("ten"), 10, &text, &bytes, &e), B1_MEMORY);
    assert_null(text);
    b1i_alloc_fail_at(-1);
    put("none", "");
    assert_int_equal(b1i_read_file(at("none"), 0, &text, &bytes, NULL), B1_OK);
    assert_int_equal(bytes, 0);
    assert_string_equal(text, "");
    b1i_free(text);
}

/* ---- limits, shown a machine of our own ---- */

static void limits_v2(void **state)
{
    (void)state;
    put("v2/proc/meminfo", "MemTotal:       32000000 kB\nMemFree: 1 kB\nMemAvailable:   20000000 kB\n");
    assert_int_equal(b1i_memory_available_at(at("v2")), 20000000ull * 1024);
    assert_int_equal(b1i_cpu_quota_at(at("v2")), 0);

    put("v2/proc/self/cgroup", "0::/a/b\n");
    put("v2/proc/self/mountinfo", "24 1 8:1 / / rw - ext4 /dev/sda rw\n"
                                  "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    assert_int_equal(b1i_memory_available_at(at("v2")), 20000000ull * 1024);

    put("v2/sys/fs/cgroup/a/memory.max", "6000000000\n");
    put("v2/sys/fs/cgroup/a/memory.current", "5000000000\n");
    put("v2/sys/fs/cgroup/a/memory.stat", "anon 1000000000\nfile 4000000000\nactive_file 500000000\n"
                                          "inactive_file 3000000000\n");
    put("v2/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    put("v2/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("v2/sys/fs/cgroup/a/b/memory.current", "5000000000\n");
    put("v2/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(b1i_memory_available_at(at("v2")), 4500000000ull); /* the parent's limit binds */
    assert_int_equal(b1i_cpu_quota_at(at("v2")), 3);

    put("v2/sys/fs/cgroup/a/b/memory.max", "5100000000\n");
    put("v2/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(b1i_memory_available_at(at("v2")), 100000000ull); /* no memory.stat: nothing is reclaimable */
    assert_int_equal(b1i_cpu_quota_at(at("v2")), 1);
    put("v2/sys/fs/cgroup/a/b/memory.max", "4000000000\n");
    assert_int_equal(b1i_memory_available_at(at("v2")), 0); /* over its limit already */
}

static void limits_v1(void **state)
{
    (void)state;
    put("v1/proc/meminfo", "MemAvailable:   20000000 kB\n");
    put("v1/proc/self/cgroup", "5:cpuset:/other\n4:memory:/docker/xyz\n1:cpu,cpuacct:/docker/xyz\n");
    /* as a container sees it: its own group is the mount's root */
    put("v1/proc/self/mountinfo",
        "31 30 0:27 /docker/xyz /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "32 30 0:28 /docker/xyz /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
    put("v1/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("v1/sys/fs/cgroup/memory/memory.usage_in_bytes", "700000000\n");
    put("v1/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("v1/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(b1i_memory_available_at(at("v1")), 20000000ull * 1024);
    assert_int_equal(b1i_cpu_quota_at(at("v1")), 0);
    put("v1/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000000\n");
    put("v1/sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 200000000\n");
    put("v1/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
    assert_int_equal(b1i_memory_available_at(at("v1")), 500000000ull);
    assert_int_equal(b1i_cpu_quota_at(at("v1")), 4);
}

static void limits_here(void **state)
{
    (void)state;
    uint64_t bytes = b1i_memory_available();
    assert_true(bytes > 1 << 20 && bytes < UINT64_C(1) << 50);
    assert_true(b1i_memory_available_at("/no/such/root") > 0); /* no /proc: the C library's word */
}

static void cpu_counts(void **state)
{
    (void)state;
    cpu_set_t before, one;
    int cpus[CPU_SETSIZE], cores;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int allowed = CPU_COUNT(&before), n = b1i_cpu_order(cpus, CPU_SETSIZE, &cores);
    assert_int_equal(n, allowed);
    assert_true(cores >= 1 && cores <= n);
    assert_in_range(b1i_cpu_count(), 1, cores);
    for (int i = 0; i < n; i++) {
        assert_true(CPU_ISSET((size_t)cpus[i], &before));
        for (int k = 0; k < i; k++) assert_int_not_equal(cpus[i], cpus[k]);
    }
    assert_int_equal(b1i_cpu_order(cpus, 1, &cores), 1);
    int last = 0;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET((size_t)i, &before)) last = i;
    }
    CPU_ZERO(&one);
    CPU_SET((size_t)last, &one);
    if (sched_setaffinity(0, sizeof one, &one)) skip();
    assert_int_equal(b1i_cpu_order(cpus, CPU_SETSIZE, &cores), 1);
    assert_int_equal(cpus[0], last);
    assert_int_equal(b1i_cpu_count(), 1);
    sched_setaffinity(0, sizeof before, &before);
}

/* ---- the pool ---- */

enum { MANY = 16 };
typedef struct tally {
    long runs[MANY]; /* plain: the pool's ordering must make them visible */
    long input, seen[MANY];
    int workers;
} tally;

static void count_run(void *arg, int worker, int workers)
{
    tally *t = arg;
    assert_int_equal(workers, t->workers);
    t->runs[worker]++;
    t->seen[worker] = t->input;
}

static void dispatches(void **state)
{
    (void)state;
    const int counts[] = {1, 2, 4, 8, 2, 1, 3};
    tally t = {{0}, 0, {0}, 0};
    long expected[MANY] = {0};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int n = counts[k], rounds = n > 2 ? 100 : 2000;
        assert_int_equal(b1i_pool_reserve(n, NULL), B1_OK);
        t.workers = n;
        for (int i = 0; i < rounds; i++) {
            t.input++;
            if (i == rounds / 2) usleep(2000); /* long enough for the workers to fall asleep */
            b1i_pool_run(n, count_run, &t);
            for (int w = 0; w < n; w++) {
                expected[w]++;
                assert_int_equal(t.seen[w], t.input);
            }
        }
        assert_memory_equal(t.runs, expected, sizeof expected);
    }
}

static void bad_reserve(void **state)
{
    (void)state;
    b1_error e;
    assert_int_equal(b1i_pool_reserve(0, &e), B1_ARGUMENT);
    assert_int_equal(b1i_pool_reserve(-3, &e), B1_ARGUMENT);
    assert_int_equal(b1i_pool_reserve(1000000, &e), B1_ARGUMENT);
    assert_non_null(strstr(e.message, "1000000"));
}

static void *dispatcher(void *arg)
{
    tally *t = arg;
    for (int i = 0; i < 300; i++) {
        t->input++;
        b1i_pool_run(t->workers, count_run, t);
        for (int w = 0; w < t->workers; w++) {
            if (t->seen[w] != t->input) return "a worker missed a dispatch";
        }
    }
    return NULL;
}

static void two_dispatchers(void **state)
{
    (void)state;
    pthread_t threads[2];
    tally t[2] = {{.workers = 2}, {.workers = 3}};
    assert_int_equal(b1i_pool_reserve(3, NULL), B1_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, dispatcher, &t[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
        for (int w = 0; w < t[i].workers; w++) assert_int_equal(t[i].runs[w], 300);
    }
}

static void where(void *arg, int worker, int workers)
{
    (void)workers;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    ((cpu_set_t *)arg)[worker] = set;
}

static void pinning(void **state)
{
    (void)state;
    cpu_set_t before, after, sets[2];
    int cpus[CPU_SETSIZE], cores;
    if (b1i_cpu_order(cpus, CPU_SETSIZE, &cores) < 2) skip();
    b1i_pool_end();
    sched_getaffinity(0, sizeof before, &before);
    assert_int_equal(b1i_pool_reserve(2, NULL), B1_OK);
    b1i_pool_run(2, where, sets);
    assert_int_equal(CPU_COUNT(&sets[1]), 1);
    assert_true(CPU_ISSET((size_t)cpus[1], &sets[1]));
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after)); /* the caller keeps its affinity */
}

static void ends_and_starts(void **state)
{
    (void)state;
    tally t = {.workers = 4};
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(b1i_pool_reserve(4, NULL), B1_OK);
        b1i_pool_run(4, count_run, &t);
        b1i_pool_end();
        b1i_pool_end();
        for (int w = 0; w < 4; w++) assert_int_equal(t.runs[w], i);
    }
}

static void fork_child(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* starting threads in a child of a threaded process is beyond it */
#elif defined(__aarch64__)
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[64] = "";
    bool emulated = f && fgets(line, sizeof line, f) && fgets(line, sizeof line, f) && !strncmp(line, "vendor_id", 9);
    if (f) fclose(f);
    if (emulated) skip(); /* and beyond qemu-user too; it shows the x86 host's cpuinfo */
#endif
    if (getenv("B1_EMULATED")) skip(); /* and beyond qemu-user */
    tally t = {.workers = 2};
    assert_int_equal(b1i_pool_reserve(2, NULL), B1_OK);
    b1i_pool_run(2, count_run, &t);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        if (b1i_pool_reserve(2, NULL)) _exit(1);
        b1i_pool_run(2, count_run, &t);
        _exit(t.runs[0] == 2 && t.runs[1] == 2 ? 0 : 2);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    b1i_pool_run(2, count_run, &t);
    assert_int_equal(t.runs[1], 2);
}

static void shares(void **state)
{
    (void)state;
    const int64_t counts[] = {0, 1, 15, 16, 17, 1000, 4096}, units[] = {1, 16, 64};
    for (int c = 0; c < 7; c++) {
        for (int u = 0; u < 3; u++) {
            for (int workers = 1; workers < 9; workers++) {
                int64_t at_now = 0, begin, end, most = 0, least = INT64_MAX;
                for (int w = 0; w < workers; w++) {
                    b1i_share(counts[c], units[u], w, workers, &begin, &end);
                    assert_int_equal(begin, at_now); /* no hole, no overlap */
                    assert_true(end >= begin && end <= counts[c]);
                    assert_true(end == counts[c] || end % units[u] == 0);
                    at_now = end;
                    most = end - begin > most ? end - begin : most;
                    least = end - begin < least ? end - begin : least;
                }
                assert_int_equal(at_now, counts[c]);
                assert_true(most - least <= 2 * units[u]);
            }
        }
    }
}

/* ---- the stream ---- */

static void stream(void **state)
{
    (void)state;
    enum { WORDS = 4096 };
    uint64_t *p = b1i_pages_alloc(WORDS * 8), expected = 0;
    for (int i = 0; i < WORDS; i++) p[i] = b1i_mix64((uint64_t)i);
    for (int lines = 0; lines <= WORDS / 8; lines++) { /* every length of the tail */
        assert_true(b1i_read_stream(p, (size_t)lines * 64) == expected);
        for (int i = 0; i < 8 && lines < WORDS / 8; i++) expected ^= p[lines * 8 + i];
    }
    uint64_t whole = b1i_read_stream(p, WORDS * 8);
    for (int i = 0; i < WORDS; i += 7) { /* it depends on every word */
        p[i] ^= 1;
        assert_true(b1i_read_stream(p, WORDS * 8) != whole);
        p[i] ^= 1;
    }
    b1i_pages_free(p, WORDS * 8);
}

static void clock_and_numbers(void **state)
{
    (void)state;
    uint64_t a = b1i_now_ns(), product;
    usleep(1000);
    uint64_t b = b1i_now_ns();
    assert_true(b - a >= 1000000 && b - a < 5000000000u);
    assert_false(b1i_mul(UINT64_C(1) << 40, UINT64_C(1) << 30, &product));
    assert_true(b1i_mul(3, 5, &product) && product == 15);
    assert_false(b1i_add(UINT64_MAX, 1, &product));
    assert_true(b1i_mix64(0) == UINT64_C(0xe220a8397b1dcdaf)); /* the published first output of seed 0 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences),         cmocka_unit_test(ordered_failures), cmocka_unit_test(growing),
        cmocka_unit_test(big_pages),         cmocka_unit_test(mapping),          cmocka_unit_test(small_files),
        cmocka_unit_test(limits_v2),         cmocka_unit_test(limits_v1),        cmocka_unit_test(limits_here),
        cmocka_unit_test(cpu_counts),        cmocka_unit_test(dispatches),       cmocka_unit_test(bad_reserve),
        cmocka_unit_test(two_dispatchers),   cmocka_unit_test(pinning),          cmocka_unit_test(ends_and_starts),
        cmocka_unit_test(fork_child),        cmocka_unit_test(shares),           cmocka_unit_test(stream),
        cmocka_unit_test(clock_and_numbers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
