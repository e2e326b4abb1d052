/* SPDX-License-Identifier: MIT
 *
 * gpu: sentences without a driver, and on a GPU memory, launches, graphs, events, the ceiling, failures and poison.
 *
 * ctest runs it twice: on what is here (test_gpu; what needs a GPU is skipped where there is none), and on a driver
 * that stands in for one (test_gpu_fake), which also fails at every call in turn. `test_gpu --there` says whether there
 * is a GPU and runs nothing.
 *
 * Longer than 800 lines, for all of it is run twice, on both drivers, and a file of its own for each part would double
 * that too.
 */
#include "cuda/cuda.h"
#include "kernels/gpu_args.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void absent(void **state)
{
    (void)state;
    b1_error e = {0};
    b1i_gpu *gpu = NULL;
    b1i_gpu_info info;
    b1i_gpu_clocks clocks;
    if (b1i_gpu_count(&e) > 0) skip();
    assert_int_equal(e.status, B1_UNSUPPORTED);
    assert_true(strlen(e.message) > 20);
    printf("no GPU: %s\n", e.message);
    assert_int_equal(b1i_gpu_open(0, &gpu, &e), B1_UNSUPPORTED);
    assert_null(gpu);
    assert_int_equal(b1i_gpu_describe(0, &info, &e), B1_UNSUPPORTED);
    assert_int_equal(info.sms, 0);
    b1i_gpu_clocks_read(0, &clocks);
    assert_int_equal(clocks.sm_mhz, -1);
    assert_int_equal(clocks.throttle, 0);
    b1i_gpu_close(NULL);
}

#if !B1_CUDA

int main(int argc, char **argv)
{
    b1_error e = {0};
    if (argc > 1 && strcmp(argv[1], "--there") == 0) {
        b1i_gpu_count(&e);
        fprintf(stderr, "no GPU test can run: %s\n", e.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(absent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        ".global test_gpu_fatbin\n"
        ".hidden test_gpu_fatbin\n"
        "test_gpu_fatbin:\n"
        ".incbin \"" B1I_TEST_FATBIN "\"\n"
        ".popsection\n");
extern const char test_gpu_fatbin[] __attribute__((visibility("hidden")));

enum { COUNT = 100000, CHAIN = 64 };

static b1_error err; /* of the call that failed */

#define OK(call) ok((call), #call, __LINE__)
static void ok(b1_status st, const char *call, int line)
{
    if (st) fail_msg("line %d: %s: %s: %s", line, call, b1_status_name(st), err.message);
}

static b1i_gpu *open_gpu(void)
{
    b1i_gpu *gpu = NULL;
    if (b1i_gpu_count(&err) == 0) skip();
    OK(b1i_gpu_open(0, &gpu, &err));
    OK(b1i_cuda_load_kernels(gpu, &err));
    OK(b1i_gpu_load(gpu, "tests", test_gpu_fatbin, &err));
    return gpu;
}

/* ---- a chain of k_test_step over two buffers ---- */

typedef struct chain {
    b1i_gpu_ptr a, b;
    b1i_gpu_kernel *kernel;
    b1i_gpu_launch launch[CHAIN];
} chain;

static b1_status chain_make(b1i_gpu *gpu, chain *c, b1_error *e)
{
    b1_status st = B1_OK;
    *c = (chain){0};
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_test_step", 0, &c->kernel, e));
    B1I_TRY(b1i_gpu_alloc(gpu, COUNT * sizeof(uint32_t), "a test", &c->a, e));
    B1I_TRY(b1i_gpu_alloc(gpu, COUNT * sizeof(uint32_t), "a test", &c->b, e));
    B1I_TRY(b1i_gpu_fill(gpu, c->a, 0, COUNT * sizeof(uint32_t), e));
    B1I_TRY(b1i_gpu_fill(gpu, c->b, 0xff, COUNT * sizeof(uint32_t), e));
    for (uint32_t i = 0; i < CHAIN; i++) {
        test_gpu_args args = {i % 2 ? c->b : c->a, i % 2 ? c->a : c->b, COUNT, i + 1};
        c->launch[i] = (b1i_gpu_launch){
            .kernel = c->kernel, .grid = {97, 1, 1}, .threads = 128, .item = (int)i, .arg_bytes = sizeof args};
        memcpy(c->launch[i].args, &args, sizeof args);
    }
fail:
    return st;
}

static void chain_free(b1i_gpu *gpu, chain *c)
{
    b1i_gpu_free(gpu, c->a);
    b1i_gpu_free(gpu, c->b);
}

/* What the chain makes of `values`, `times` over. */
static void chain_expect(uint32_t *values, int times)
{
    uint32_t *next = malloc(COUNT * sizeof *next);
    assert_non_null(next);
    for (int t = 0; t < times * CHAIN; t++) {
        for (uint32_t i = 0; i < COUNT; i++) next[i] = 3 * values[(7 * i + 1) % COUNT] + (uint32_t)(t % CHAIN) + 1;
        memcpy(values, next, COUNT * sizeof *next);
    }
    free(next);
}

static void chain_check(b1i_gpu *gpu, const chain *c, int times)
{
    uint32_t *want = calloc(COUNT, sizeof *want), *got = calloc(COUNT, sizeof *got);
    assert_true(want && got);
    chain_expect(want, times);
    OK(b1i_gpu_download(gpu, got, c->a, COUNT * sizeof *got, &err));
    assert_memory_equal(want, got, COUNT * sizeof *got);
    free(want);
    free(got);
}

/* ---- tests of a GPU, or of one that is made up ---- */

static void describes(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    int count = b1i_gpu_count(&err);
    for (int i = 0; i < count; i++) {
        b1i_gpu_info info;
        OK(b1i_gpu_describe(i, &info, &err));
        printf("GPU %d: %s, %s, driver %d, compute capability %d.%d, %d SMs, L2 %.1f MB, %.1f GB (%.1f free), shared "
               "memory %d of %d\n",
               i, info.name, info.uuid, info.driver, info.major, info.minor, info.sms, (double)info.l2_bytes / 1e6,
               (double)info.memory_bytes / 1e9, (double)info.free_bytes / 1e9, info.shared_bytes_block,
               info.shared_bytes_sm);
        assert_true(info.sms > 0 && info.major >= 7 && info.memory_bytes > 0 && strlen(info.uuid) == 40);
    }
    b1i_gpu_info info;
    assert_int_equal(b1i_gpu_describe(count, &info, &err), B1_UNSUPPORTED);
    assert_non_null(strstr(err.message, "there is no GPU"));
    assert_int_equal(b1i_gpu_describe(-1, &info, &err), B1_UNSUPPORTED);
    b1i_gpu *none = gpu;
    assert_int_equal(b1i_gpu_open(count, &none, &err), B1_UNSUPPORTED);
    assert_null(none);
    uint64_t free_bytes = 0;
    OK(b1i_gpu_free_bytes(gpu, &free_bytes, &err));
    assert_true(free_bytes > 0 && free_bytes <= b1i_gpu_get_info(gpu)->memory_bytes);
    assert_non_null(b1i_gpu_stream(gpu));
    OK(b1i_gpu_state(gpu, &err));
    OK(b1i_gpu_enter(gpu, &err));
    b1i_gpu_leave(gpu);
    b1i_gpu_clocks clocks;
    b1i_gpu_clocks_read(0, &clocks);
    printf("SM %d MHz, memory %d MHz, %d mW, %d degrees, throttle %llx\n", clocks.sm_mhz, clocks.memory_mhz,
           clocks.power_mw, clocks.temperature_c, (unsigned long long)clocks.throttle);
    b1i_gpu_health health;
    b1i_gpu_health_read(0, &health);
    printf("ECC %d, %lld and %lld errors; %d processes, this one listed: %d\n", health.ecc,
           (long long)health.ecc_corrected, (long long)health.ecc_uncorrected, health.processes, health.listed);
    assert_true(health.processes >= -1 && health.ecc >= -1 && health.ecc <= 1);
    b1i_gpu_close(gpu);
}

static void memory(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    long live = b1i_gpu_alloc_live();
    b1i_gpu_ptr a = 0, mapped = 0, none = 1;
    void *host = NULL;
    uint8_t bytes[1000], back[1000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
    OK(b1i_gpu_alloc(gpu, sizeof bytes, "a test", &a, &err));
    assert_true(a != 0);
    OK(b1i_gpu_host_alloc(gpu, sizeof bytes, "a test", &host, &mapped, &err));
    assert_true(mapped != 0);
    for (size_t i = 0; i < sizeof bytes; i++) assert_int_equal(((uint8_t *)host)[i], 0);
    assert_int_equal(b1i_gpu_alloc_live(), live + 2);
    OK(b1i_gpu_upload(gpu, a, bytes, sizeof bytes, &err));
    OK(b1i_gpu_download(gpu, back, a, sizeof back, &err));
    assert_memory_equal(bytes, back, sizeof back);
    OK(b1i_gpu_fill(gpu, a + 10, 0x5a, 20, &err));
    OK(b1i_gpu_download(gpu, back, a, sizeof back, &err));
    for (size_t i = 0; i < sizeof back; i++) assert_int_equal(back[i], i >= 10 && i < 30 ? 0x5a : bytes[i]);
    memset(host, 0x33, sizeof bytes);
    OK(b1i_gpu_upload_async(gpu, a, host, sizeof bytes, &err));
    OK(b1i_gpu_sync(gpu, &err));
    OK(b1i_gpu_download(gpu, back, mapped, sizeof back, &err));
    for (size_t i = 0; i < sizeof back; i++) assert_int_equal(back[i], 0x33);
    OK(b1i_gpu_upload(gpu, a, bytes, sizeof bytes, &err));
    OK(b1i_gpu_copy_async(gpu, a + 40, a, 40, &err));
    OK(b1i_gpu_copy_async(gpu, a, a + 80, 0, &err));
    OK(b1i_gpu_download(gpu, back, a, sizeof back, &err));
    for (size_t i = 0; i < sizeof back; i++) assert_int_equal(back[i], bytes[i >= 40 && i < 80 ? i - 40 : i]);
    OK(b1i_gpu_upload(gpu, a, bytes, 0, &err));
    /* More than any card has: the sentence has the sum, and nothing is left. */
    assert_int_equal(b1i_gpu_alloc(gpu, (size_t)1 << 45, "all the world", &none, &err), B1_MEMORY);
    assert_int_equal(none, 0);
    assert_non_null(strstr(err.message, "all the world: 35184.372 GB wanted"));
    printf("%s\n", err.message);
    for (int n = 0; n < 2; n++) {
        b1i_gpu_alloc_fail_at(0);
        assert_int_equal(n ? b1i_gpu_alloc(gpu, 100, "a test", &none, &err)
                           : b1i_gpu_host_alloc(gpu, 100, "a test", &host, NULL, &err),
                         B1_MEMORY);
        if (!n) assert_null(host);
    }
    assert_int_equal(b1i_gpu_alloc_live(), live + 2);
    b1i_gpu_free(gpu, a);
    b1i_gpu_free(gpu, 0);
    assert_int_equal(b1i_gpu_alloc_live(), live + 1);
    b1i_gpu_close(gpu); /* frees the pinned memory */
    assert_int_equal(b1i_gpu_alloc_live(), live);
}

static void launches(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    chain c;
    OK(chain_make(gpu, &c, &err));
    for (int i = 0; i < CHAIN; i++) OK(b1i_gpu_run(gpu, c.launch + i, &err));
    bool done = false;
    while (!done) OK(b1i_gpu_query(gpu, &done, &err));
    chain_check(gpu, &c, 1);

    b1i_gpu_kernel *same = NULL;
    b1i_gpu_kernel_info info;
    int blocks = 0;
    OK(b1i_gpu_kernel_get(gpu, "k_test_step", 60 << 10, &same, &err));
    assert_ptr_equal(same, c.kernel);
    assert_string_equal(b1i_gpu_kernel_name(same), "k_test_step");
    OK(b1i_gpu_kernel_describe(gpu, same, &info, &err));
    assert_true(info.registers > 0 && info.registers <= 255);
    OK(b1i_gpu_occupancy(gpu, same, 128, 60 << 10, &blocks, &err));
    assert_true(blocks >= 1 && blocks <= 32);
    assert_int_equal(b1i_gpu_kernel_get(gpu, "k_nothing", 0, &same, &err), B1_UNSUPPORTED);
    assert_non_null(strstr(err.message, "k_nothing"));
    assert_null(same);
    assert_int_equal(b1i_gpu_kernel_get(gpu, "k_test_step", 1 << 20, &same, &err), B1_UNSUPPORTED);
    /* What a kernel has besides counts. */
    const size_t block = (size_t)b1i_gpu_get_info(gpu)->shared_bytes_block, own = (size_t)info.static_shared_bytes;
    if (own > 0) {
        assert_int_equal(b1i_gpu_kernel_get(gpu, "k_test_step", block - own + 1, &same, &err), B1_UNSUPPORTED);
        assert_non_null(strstr(err.message, "shared memory"));
    }

    b1i_gpu_launch wrong = c.launch[0];
    wrong.arg_bytes -= 4;
    assert_int_equal(b1i_gpu_run(gpu, &wrong, &err), B1_DEVICE);
    assert_non_null(strstr(err.message, "k_test_step takes 24 bytes of arguments and is given 20"));
    wrong = c.launch[0];
    wrong.threads = 5000;
    assert_int_equal(b1i_gpu_run(gpu, &wrong, &err), B1_DEVICE);
    assert_non_null(strstr(err.message, "k_test_step"));
    wrong = c.launch[0];
    wrong.shared_bytes = 100 << 10;
    assert_int_equal(b1i_gpu_run(gpu, &wrong, &err), B1_DEVICE);
    OK(b1i_gpu_sync(gpu, &err)); /* a launch that failed is no poison */
    const char junk[64] = "no fatbin at all";
    assert_int_equal(b1i_gpu_load(gpu, "junk", junk, &err), B1_UNSUPPORTED);
    assert_non_null(strstr(err.message, "junk"));
    chain_free(gpu, &c);
    b1i_gpu_close(gpu);
}

/* Edges as they were asked for, and a replay that is right 20 times over. */
static void check_graph(b1i_gpu *gpu, bool programmatic)
{
    chain c;
    b1i_gpu_graph *graph = NULL;
    b1i_gpu_graph_info info;
    OK(chain_make(gpu, &c, &err));
    c.launch[5].full_edge = c.launch[40].full_edge = true;
    OK(b1i_gpu_graph_create(gpu, c.launch, CHAIN, programmatic, &graph, &err));
    OK(b1i_gpu_graph_describe(gpu, graph, &info, &err));
    assert_int_equal(info.nodes, CHAIN);
    assert_int_equal(info.kernel_nodes, CHAIN);
    assert_int_equal(info.edges, CHAIN - 1);
    assert_int_equal(info.programmatic_edges, programmatic ? CHAIN - 3 : 0);
    for (int i = 0; i < 20; i++) OK(b1i_gpu_graph_run(gpu, graph, &err));
    OK(b1i_gpu_sync(gpu, &err));
    chain_check(gpu, &c, 20);
    b1i_gpu_graph_destroy(gpu, graph);

    OK(b1i_gpu_graph_create(gpu, c.launch, 1, programmatic, &graph, &err));
    OK(b1i_gpu_graph_describe(gpu, graph, &info, &err));
    assert_true(info.nodes == 1 && info.edges == 0);
    b1i_gpu_graph_destroy(gpu, graph);
    assert_int_equal(b1i_gpu_graph_create(gpu, c.launch, 0, programmatic, &graph, &err), B1_ARGUMENT);
    chain_free(gpu, &c);
}

/* Memsets among kernels, in the stream and in a graph, whose lists take turns: counters at `a` from a first list, at
 * `b` from a second. */
static void memsets(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    const bool programmatic = b1i_gpu_get_info(gpu)->major >= 9;
    chain c;
    OK(chain_make(gpu, &c, &err));
    b1i_gpu_launch list[2][3], bad = {.fill = 0, .fill_bytes = 4};
    for (int i = 0; i < 2; i++) {
        list[i][0] = c.launch[i];
        list[i][1] = (b1i_gpu_launch){.fill = i ? c.a : c.b, .fill_bytes = 40};
        list[i][2] = c.launch[i];
    }
    for (int way = 0; way < 3; way++) {
        b1i_gpu_graph *graph[2] = {NULL, NULL};
        uint32_t word[2][12];
        OK(b1i_gpu_fill(gpu, c.a, 0, COUNT * sizeof(uint32_t), &err));
        OK(b1i_gpu_fill(gpu, c.b, 0xff, COUNT * sizeof(uint32_t), &err));
        for (int i = 0; way && i < 2; i++) {
            b1i_gpu_graph_info info;
            b1i_gpu_graph_setup setup;
            OK(b1i_gpu_graph_create(gpu, list[i], 2, way == 2 && programmatic, &graph[i], &err));
            OK(b1i_gpu_graph_describe(gpu, graph[i], &info, &err));
            assert_true(info.nodes == 2 && info.kernel_nodes == 1 && info.memset_nodes == 1);
            assert_true(info.edges == 1 && info.programmatic_edges == 0);
            b1i_gpu_graph_get_setup(graph[i], &setup);
            assert_true(setup.capture_ns > 0 && setup.instantiate_ns > 0 && setup.upload_ns > 0);
        }
        if (way) { /* 1, 0, 1: a is cleared last */
            OK(b1i_gpu_graph_run_each(gpu, graph, 2, 1, 3, &err));
        } else {
            const b1i_gpu_launch short_list[4] = {list[0][0], list[0][1], list[1][0], list[1][1]};
            OK(b1i_gpu_run_each(gpu, short_list, 2, 2, 1, 3, &err));
        }
        OK(b1i_gpu_download(gpu, word[0], c.a, sizeof word[0], &err));
        OK(b1i_gpu_download(gpu, word[1], c.b, sizeof word[1], &err));
        for (int i = 0; i < 12; i++) {
            assert_int_equal(word[0][i] == 0, i < 10);
            assert_true(i >= 10 || word[1][i] == 0);
        }
        for (int i = 0; i < 2; i++) b1i_gpu_graph_destroy(gpu, graph[i]);
    }
    OK(b1i_gpu_run_each(gpu, list[0], 3, 2, 0, 0, &err));
    OK(b1i_gpu_run(gpu, &list[0][1], &err));
    assert_int_equal(b1i_gpu_run(gpu, &bad, &err), B1_DEVICE);
    assert_non_null(strstr(err.message, "neither a kernel nor memory"));
    bad.fill = c.a;
    bad.fill_bytes = 0;
    assert_int_equal(b1i_gpu_run(gpu, &bad, &err), B1_DEVICE);
    OK(b1i_gpu_profiler(gpu, true, &err));
    OK(b1i_gpu_profiler(gpu, false, &err));
    chain_free(gpu, &c);
    b1i_gpu_close(gpu);
}

/* What goes wrong amid a capture leaves no graph, and a stream that takes launches, and another graph. */
static void check_bad_graphs(b1i_gpu *gpu, bool programmatic)
{
    for (int i = 0; i < 2; i++) {
        chain c;
        b1i_gpu_graph *graph = NULL;
        OK(chain_make(gpu, &c, &err));
        b1i_gpu_launch *bad = &c.launch[3], good = *bad;
        if (i == 0)
            bad->arg_bytes = 4; /* not for the driver to see */
        else
            bad->threads = 2048; /* more than any device takes */
        assert_int_equal(b1i_gpu_graph_create(gpu, c.launch, 5, programmatic, &graph, &err), B1_DEVICE);
        assert_true(strlen(err.message) > 20);
        assert_null(graph);
        *bad = good;
        for (int j = 0; j < CHAIN; j++) OK(b1i_gpu_run(gpu, c.launch + j, &err));
        OK(b1i_gpu_graph_create(gpu, c.launch, CHAIN, programmatic, &graph, &err));
        OK(b1i_gpu_graph_run(gpu, graph, &err));
        chain_check(gpu, &c, 2);
        b1i_gpu_graph_destroy(gpu, graph);
        chain_free(gpu, &c);
    }
}

static void graphs(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    check_graph(gpu, false);
    check_bad_graphs(gpu, false);
    b1i_gpu_close(gpu);
}

static void graphs_programmatic(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    if (b1i_gpu_get_info(gpu)->major >= 9) {
        check_graph(gpu, true);
        check_bad_graphs(gpu, true);
    } else {
        chain c;
        b1i_gpu_graph *graph = NULL;
        OK(chain_make(gpu, &c, &err));
        assert_int_equal(b1i_gpu_graph_create(gpu, c.launch, 2, true, &graph, &err), B1_UNSUPPORTED);
        assert_non_null(strstr(err.message, "9.0"));
        chain_free(gpu, &c);
    }
    b1i_gpu_close(gpu);
}

/* In a second stream: the same kernel with other buffers gives what it would have given alone. */
static void beside(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    chain c, other;
    OK(chain_make(gpu, &c, &err));
    OK(chain_make(gpu, &other, &err));
    OK(b1i_gpu_beside_wait(gpu, &err)); /* for nothing */
    OK(b1i_gpu_sync(gpu, &err));
    for (int i = 0; i < CHAIN; i++) {
        OK(b1i_gpu_beside_start(gpu, other.launch + i, &err));
        OK(b1i_gpu_run(gpu, c.launch + i, &err));
    }
    OK(b1i_gpu_beside_wait(gpu, &err));
    chain_check(gpu, &c, 1);
    chain_check(gpu, &other, 1);
    b1i_gpu_launch bad = *c.launch;
    bad.arg_bytes = 4;
    assert_int_equal(b1i_gpu_beside_start(gpu, &bad, &err), B1_DEVICE);
    bad = *c.launch;
    bad.threads = 2048;
    assert_int_equal(b1i_gpu_beside_start(gpu, &bad, &err), B1_DEVICE);
    assert_non_null(strstr(err.message, "beside"));
    const b1i_gpu_launch fill = {.fill = c.a, .fill_bytes = 4};
    assert_int_equal(b1i_gpu_beside_start(gpu, &fill, &err), B1_DEVICE);
    OK(b1i_gpu_beside_wait(gpu, &err));
    chain_free(gpu, &c);
    chain_free(gpu, &other);
    b1i_gpu_close(gpu);
}

static void dot(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    char folder[] = "/tmp/b1-gpu-XXXXXX", path[64], command[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/graph.dot", folder);
    chain c;
    b1i_gpu_graph *graph = NULL;
    OK(chain_make(gpu, &c, &err));
    OK(b1i_gpu_graph_create(gpu, c.launch, CHAIN, false, &graph, &err));
    OK(b1i_gpu_graph_dot(gpu, graph, path, &err));
    char *text = NULL;
    size_t bytes = 0;
    OK(b1i_read_file(path, 1 << 24, &text, &bytes, &err));
    assert_non_null(strstr(text, "digraph"));
    assert_non_null(strstr(text, "->"));
    b1i_free(text);
    struct stat info;
    snprintf(path, sizeof path, "%s/pipe", folder); /* is written as it is, like /dev/stdout, and not replaced */
    assert_int_equal(mkfifo(path, 0600), 0);
    int pipe = open(path, O_RDWR | O_CLOEXEC);
    assert_true(pipe >= 0 && fcntl(pipe, F_SETPIPE_SZ, 1 << 20) > 0);
    OK(b1i_gpu_graph_dot(gpu, graph, path, &err));
    assert_true(stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
    char begin[512] = "";
    assert_true(read(pipe, begin, sizeof begin - 1) > 0);
    assert_non_null(strstr(begin, "digraph"));
    close(pipe);
    snprintf(path, sizeof path, "%s/none/graph.dot", folder);
    assert_int_equal(b1i_gpu_graph_dot(gpu, graph, path, &err), B1_IO);
    snprintf(path, sizeof path, "%s/graph.dot.%ld.part", folder, (long)getpid());
    assert_int_not_equal(stat(path, &info), 0); /* nothing temporary is left */
    b1i_gpu_graph_destroy(gpu, graph);
    chain_free(gpu, &c);
    b1i_gpu_close(gpu);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

static void events(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    b1i_gpu_event *from = NULL, *to = NULL, *untimed = NULL;
    chain c;
    OK(chain_make(gpu, &c, &err));
    OK(b1i_gpu_event_create(gpu, true, &from, &err));
    OK(b1i_gpu_event_create(gpu, true, &to, &err));
    OK(b1i_gpu_event_create(gpu, false, &untimed, &err));
    OK(b1i_gpu_event_record(gpu, from, &err));
    for (int i = 0; i < CHAIN; i++) OK(b1i_gpu_run(gpu, c.launch + i, &err));
    OK(b1i_gpu_event_record(gpu, to, &err));
    OK(b1i_gpu_event_record(gpu, untimed, &err));
    OK(b1i_gpu_event_sync(gpu, untimed, &err));
    uint64_t ns = 0;
    OK(b1i_gpu_event_ns(gpu, from, to, &ns, &err));
    assert_true(ns > 1000 && ns < 10000000000u);
    printf("%d launches: %.1f us\n", CHAIN, (double)ns / 1e3);
    b1i_gpu_event_destroy(gpu, from);
    b1i_gpu_event_destroy(gpu, to);
    b1i_gpu_event_destroy(gpu, untimed);
    b1i_gpu_event_destroy(gpu, NULL);
    chain_free(gpu, &c);
    b1i_gpu_close(gpu);
}

static void ceiling(void **state)
{
    (void)state;
    b1i_gpu *gpu = open_gpu();
    const b1i_gpu_info *info = b1i_gpu_get_info(gpu);
    size_t bytes = (size_t)info->l2_bytes * 64;
    if (bytes > info->free_bytes / 2) bytes = info->free_bytes / 2;
    b1i_gpu_ptr at = 0;
    double gbps = 0;
    const char *method = NULL;
    long live = b1i_gpu_alloc_live();
    OK(b1i_gpu_alloc(gpu, bytes, "the test of the ceiling", &at, &err));
    OK(b1i_gpu_fill(gpu, at, 0x3c, bytes, &err));
    OK(b1i_gpu_read_ceiling(gpu, at, bytes, 5, &gbps, &method, &err));
    printf("read ceiling: %.0f GB/s (%s), of %.2f GB\n", gbps, method, (double)bytes / 1e9);
    assert_true(gbps > 10 && gbps < 40000);
    if (strcmp(info->name, "NVIDIA H200") == 0) assert_true(gbps > 4400 && gbps < 4900);
    assert_int_equal(b1i_gpu_read_ceiling(gpu, at, 1 << 20, 5, &gbps, &method, &err), B1_ARGUMENT);
    assert_int_equal(b1i_gpu_read_ceiling(gpu, at, bytes, 0, &gbps, &method, &err), B1_ARGUMENT);
    b1i_gpu_free(gpu, at);
    assert_int_equal(b1i_gpu_alloc_live(), live);
    b1i_gpu_close(gpu);
}

/* What steers the driver that stands in, where that is the one. */

static struct {
    long *fail_in, *live;
    int *fail_with, *depth, *spreads;
} fake;

static bool find_fake(void)
{
    void *library = getenv("B1_FAKE_CUDA") ? dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!library) return false;
    fake.fail_in = dlsym(library, "fake_cuda_fail_in");
    fake.fail_with = dlsym(library, "fake_cuda_fail_with");
    fake.live = dlsym(library, "fake_cuda_live");
    fake.depth = dlsym(library, "fake_cuda_depth");
    fake.spreads = dlsym(library, "fake_cuda_spreads");
    dlclose(library);
    return fake.fail_in && fake.fail_with && fake.live && fake.depth && fake.spreads;
}

/* ---- an error that a context does not survive ---- */

/* B1_DEVICE with a sentence, which is that of each later call. */
static void lost(b1i_gpu *gpu, b1_status st, const b1_error *why)
{
    b1_error later;
    bool done = true;
    b1i_gpu_ptr memory = 0;
    b1i_gpu_graph *graph = NULL;
    b1i_gpu_launch launch = {.grid = {1, 1, 1}, .threads = 1};
    assert_int_equal(st, B1_DEVICE);
#define SAME(call)                                        \
    do {                                                  \
        assert_int_equal((call), B1_DEVICE);              \
        assert_string_equal(later.message, why->message); \
    } while (0)
    SAME(b1i_gpu_state(gpu, &later));
    SAME(b1i_gpu_sync(gpu, &later));
    SAME(b1i_gpu_query(gpu, &done, &later));
    assert_false(done);
    SAME(b1i_gpu_alloc(gpu, 100, "a test", &memory, &later));
    SAME(b1i_gpu_upload(gpu, memory, "x", 1, &later));
    SAME(b1i_gpu_enter(gpu, &later));
    SAME(b1i_gpu_graph_create(gpu, &launch, 1, false, &graph, &later));
#undef SAME
}

/* The first such error of the process, of which each sentence speaks. */
static const char *origin(const b1_error *e)
{
    static const char earlier[] = "the earlier one: ";
    const char *at = strstr(e->message, earlier);
    return at ? at + strlen(earlier) : e->message;
}

/* Whether a gpu goes on after another's error, with right results; else it fails with B1_DEVICE and says why. */
static bool goes_on(b1i_gpu *gpu, chain *c, b1i_gpu_graph *graph, const b1_error *first)
{
    b1_error e = {0};
    b1_status st = B1_OK;
    for (int i = 0; st == B1_OK && i < CHAIN; i++) st = b1i_gpu_run(gpu, c->launch + i, &e);
    if (st == B1_OK) st = b1i_gpu_graph_run(gpu, graph, &e);
    if (st == B1_OK) st = b1i_gpu_sync(gpu, &e);
    if (st == B1_OK) {
        chain_check(gpu, c, 2);
        return true;
    }
    printf("another: %s\n", e.message);
    lost(gpu, st, &e);
    assert_string_equal(origin(&e), origin(first));
    return false;
}

/* Whether a new one can be had that works; else it says why not. */
static bool begins(const b1_error *first)
{
    b1_error e = {0};
    chain c = {0};
    b1i_gpu *gpu = NULL;
    b1i_gpu_graph *graph = NULL;
    bool good = false;
    b1_status st = b1i_gpu_open(0, &gpu, &e);
    assert_true((gpu != NULL) == (st == B1_OK));
    if (st == B1_OK) st = b1i_cuda_load_kernels(gpu, &e);
    if (st == B1_OK) st = b1i_gpu_load(gpu, "tests", test_gpu_fatbin, &e);
    if (st == B1_OK) st = chain_make(gpu, &c, &e);
    if (st == B1_OK) st = b1i_gpu_graph_create(gpu, c.launch, CHAIN, false, &graph, &e);
    if (st == B1_OK) {
        good = goes_on(gpu, &c, graph, first);
    } else {
        printf("a new one: %s\n", e.message);
        assert_int_equal(st, B1_DEVICE);
        assert_true(strlen(e.message) > 20);
    }
    b1i_gpu_graph_destroy(gpu, graph);
    b1i_gpu_close(gpu);
    return good;
}

/* An illegal address poisons a gpu: its sentence names the kernel and is that of every later call. The others of the
 * process, and new ones, either work or say why not; all can be closed, and nothing is left. Whether all worked. */
static bool check_poison(void)
{
    long live = b1i_gpu_alloc_live(), host_live = b1i_alloc_live();
    b1i_gpu *gpu = open_gpu(), *other = open_gpu();
    chain c;
    b1i_gpu_kernel *fault = NULL;
    b1i_gpu_ptr left = 0;
    b1i_gpu_graph *graph = NULL, *others = NULL;
    b1i_gpu_event *event = NULL;
    void *host = NULL;
    OK(chain_make(other, &c, &err));
    OK(b1i_gpu_graph_create(other, c.launch, CHAIN, false, &others, &err));
    OK(b1i_gpu_kernel_get(gpu, "k_test_fault", 0, &fault, &err));
    OK(b1i_gpu_alloc(gpu, 1000, "a test", &left, &err));
    OK(b1i_gpu_host_alloc(gpu, 1000, "a test", &host, NULL, &err));
    OK(b1i_gpu_event_create(gpu, true, &event, &err));
    b1i_gpu_launch launch = {.kernel = fault, .grid = {1, 1, 1}, .threads = 1, .arg_bytes = sizeof(test_gpu_args)};
    OK(b1i_gpu_graph_create(gpu, &launch, 1, false, &graph, &err));
    OK(b1i_gpu_run(gpu, &launch, &err));
    b1_error first = {0}, again = {0};
    b1_status st = b1i_gpu_sync(gpu, &first);
    printf("%s\n", first.message);
    assert_non_null(strstr(first.message, "in kernel k_test_fault"));
    assert_non_null(strstr(first.message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_non_null(strstr(first.message, "start a new process"));
    lost(gpu, st, &first);
    assert_int_equal(b1i_gpu_run(gpu, &launch, &again), B1_DEVICE);
    assert_int_equal(b1i_gpu_graph_run(gpu, graph, &again), B1_DEVICE);
    assert_int_equal(b1i_gpu_event_record(gpu, event, &again), B1_DEVICE);
    assert_string_equal(again.message, first.message);
    bool all = goes_on(other, &c, others, &first);
    all = begins(&first) && all;
    b1i_gpu_event_destroy(gpu, event);
    b1i_gpu_graph_destroy(gpu, graph);
    b1i_gpu_free(gpu, left);
    b1i_gpu_close(gpu); /* with its pinned memory */
    b1i_gpu_graph_destroy(other, others);
    chain_free(other, &c);
    b1i_gpu_close(other);
    all = begins(&first) && all;
    assert_int_equal(b1i_gpu_alloc_live(), live);
    assert_int_equal(b1i_alloc_live(), host_live);
    return all;
}

/* On drivers whose contexts share an error, and on those that keep it apart. */
static void poison(void **state)
{
    (void)state;
    if (b1i_gpu_count(&err) == 0) skip();
    if (!find_fake()) {
        printf("after the error all others %s\n", check_poison() ? "work" : "do not work");
        return;
    }
    for (int spreads = 1; spreads >= 0; spreads--) {
        *fake.spreads = spreads;
        assert_int_equal(check_poison(), !spreads);
        assert_int_equal(*fake.live, 0);
        assert_int_equal(*fake.depth, 0);
    }
}

/* ---- a life of a gpu in which something fails ---- */

static b1_status live_with(b1i_gpu *gpu, chain *c, b1_error *e)
{
    b1_status st = B1_OK;
    void *host = NULL;
    b1i_gpu_ptr mapped = 0;
    b1i_gpu_graph *graph = NULL;
    b1i_gpu_graph_info info;
    b1i_gpu_event *event = NULL;
    b1i_gpu_kernel_info described;
    uint64_t free_bytes = 0;
    uint32_t word = 7;
    int blocks = 0;
    B1I_TRY(b1i_cuda_load_kernels(gpu, e));
    B1I_TRY(b1i_gpu_load(gpu, "tests", test_gpu_fatbin, e));
    B1I_TRY(chain_make(gpu, c, e));
    B1I_TRY(b1i_gpu_host_alloc(gpu, 100, "a test", &host, &mapped, e));
    B1I_TRY(b1i_gpu_free_bytes(gpu, &free_bytes, e));
    B1I_TRY(b1i_gpu_kernel_get(gpu, "k_test_step", 100 << 10, &c->kernel, e));
    B1I_TRY(b1i_gpu_kernel_describe(gpu, c->kernel, &described, e));
    B1I_TRY(b1i_gpu_occupancy(gpu, c->kernel, 128, 0, &blocks, e));
    B1I_TRY(b1i_gpu_graph_create(gpu, c->launch, 3, b1i_gpu_get_info(gpu)->major >= 9, &graph, e));
    B1I_TRY(b1i_gpu_graph_describe(gpu, graph, &info, e));
    B1I_TRY(b1i_gpu_event_create(gpu, true, &event, e));
    const b1i_gpu_launch clear = {.fill = c->a, .fill_bytes = 4};
    B1I_TRY(b1i_gpu_run(gpu, &clear, e));
    B1I_TRY(b1i_gpu_profiler(gpu, true, e));
    B1I_TRY(b1i_gpu_profiler(gpu, false, e));
    B1I_TRY(b1i_gpu_run(gpu, c->launch, e));
    B1I_TRY(b1i_gpu_graph_run(gpu, graph, e));
    B1I_TRY(b1i_gpu_beside_start(gpu, c->launch, e));
    B1I_TRY(b1i_gpu_beside_wait(gpu, e));
    B1I_TRY(b1i_gpu_event_record(gpu, event, e));
    B1I_TRY(b1i_gpu_event_sync(gpu, event, e));
    B1I_TRY(b1i_gpu_upload_async(gpu, c->a, host, 100, e));
    B1I_TRY(b1i_gpu_copy_async(gpu, c->a + 50, c->a, 50, e));
    B1I_TRY(b1i_gpu_upload(gpu, c->a, &word, sizeof word, e));
    B1I_TRY(b1i_gpu_download(gpu, &word, c->a, sizeof word, e));
    B1I_TRY(b1i_gpu_sync(gpu, e));
fail:
    b1i_gpu_event_destroy(gpu, event);
    b1i_gpu_graph_destroy(gpu, graph);
    b1i_gpu_host_free(gpu, host);
    return st;
}

static b1_status life(b1_error *e)
{
    b1_status st = B1_OK;
    b1i_gpu *gpu = NULL;
    chain c = {0};
    b1i_gpu_ptr memory = 0;
    double gbps = 0;
    const char *method = NULL;
    B1I_TRY(b1i_gpu_open(0, &gpu, e));
    B1I_TRY(live_with(gpu, &c, e));
    size_t bytes = (size_t)b1i_gpu_get_info(gpu)->l2_bytes * 8;
    B1I_TRY(b1i_gpu_alloc(gpu, bytes, "a test", &memory, e));
    B1I_TRY(b1i_gpu_read_ceiling(gpu, memory, bytes, 2, &gbps, &method, e));
    b1i_gpu_free(gpu, memory);
fail:
    b1i_gpu_close(gpu); /* frees what is left */
    return st;
}

/* Each allocation of the device fails in turn, and where a life costs nothing each of the host. */
static void allocations_fail(void **state)
{
    (void)state;
    if (b1i_gpu_count(&err) == 0) skip();
    long gpu_live = b1i_gpu_alloc_live(), live = b1i_alloc_live();
    for (int host = 0; host <= find_fake(); host++) {
        void (*fail_at)(long) = host ? b1i_alloc_fail_at : b1i_gpu_alloc_fail_at;
        b1_status st = B1_MEMORY;
        int n = 0;
        for (; st && n < 200; n++) {
            b1_error e = {0};
            fail_at(n);
            st = life(&e);
            fail_at(-1);
            if (st) assert_int_equal(st, B1_MEMORY);
            if (st) assert_true(strlen(e.message) > 10);
            assert_int_equal(b1i_gpu_alloc_live(), gpu_live);
            assert_int_equal(b1i_alloc_live(), live);
        }
        assert_int_equal(st, B1_OK);
        assert_true(n > 4);
    }
}

/* Every call of the driver fails in turn, with an error that fits it and with one that poisons. */
static void driver_fails(void **state)
{
    (void)state;
    if (b1i_gpu_count(&err) == 0 || !find_fake()) skip();
    const int errors[] = {2 /* out of memory */, 1 /* invalid value */, 719 /* launch failed: sticky */};
    long live = b1i_alloc_live();
    assert_int_equal(*fake.live, 0);
    assert_int_equal(*fake.depth, 0);
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
        b1_status st = B1_DEVICE;
        int n = 0;
        for (; st && n < 500; n++) {
            b1_error e = {0};
            *fake.fail_with = errors[k];
            *fake.fail_in = n;
            st = life(&e);
            *fake.fail_in = -1;
            if (st) assert_true(st == B1_DEVICE || st == B1_MEMORY);
            if (st) assert_true(strlen(e.message) > 10);
            assert_int_equal(*fake.live, 0);
            assert_int_equal(*fake.depth, 0);
            assert_int_equal(b1i_gpu_alloc_live(), 0);
            assert_int_equal(b1i_alloc_live(), live);
        }
        assert_int_equal(st, B1_OK);
        printf("error %d at each of %d calls of the driver\n", errors[k], n - 1);
        assert_true(n > 60);
    }
}

/* Every call of a capture fails in turn: no graph is left, and the same gpu makes another and runs it. */
static void captures_fail(void **state)
{
    (void)state;
    if (b1i_gpu_count(&err) == 0 || !find_fake()) skip();
    b1i_gpu *gpu = open_gpu();
    chain c;
    b1i_gpu_graph *graph = NULL;
    int n = 0, times = 0;
    OK(chain_make(gpu, &c, &err));
    const long live = *fake.live, host_live = b1i_alloc_live();
    for (b1_status st = B1_DEVICE; st; n++) {
        b1_error e = {0};
        *fake.fail_with = 901 /* the capture is invalid */;
        *fake.fail_in = n;
        st = b1i_gpu_graph_create(gpu, c.launch, CHAIN, true, &graph, &e);
        *fake.fail_in = -1;
        if (st) {
            assert_int_equal(st, B1_DEVICE);
            assert_non_null(strstr(e.message, n > 1 && n <= CHAIN + 1 ? "k_test_step" : "graph"));
            assert_null(graph);
            assert_int_equal(*fake.live, live);
            assert_int_equal(b1i_alloc_live(), host_live);
            OK(b1i_gpu_graph_create(gpu, c.launch, CHAIN, true, &graph, &err));
        }
        OK(b1i_gpu_graph_run(gpu, graph, &err));
        for (int i = 0; i < CHAIN; i++) OK(b1i_gpu_run(gpu, c.launch + i, &err));
        times += 2;
        b1i_gpu_graph_destroy(gpu, graph);
        assert_int_equal(*fake.live, live);
        assert_int_equal(*fake.depth, 0);
    }
    chain_check(gpu, &c, times);
    assert_int_equal(n - 1, 2 + CHAIN + 1 + 3); /* wait, begin; launches; end; instantiate, upload, wait */
    chain_free(gpu, &c);
    b1i_gpu_close(gpu);
}

/* What b1i_gpu_count says in a process where `name` is `value`. */
static void in_another(const char *name, const char *value, char *out, size_t size)
{
    char command[512];
    snprintf(command, sizeof command, "%s=%s /proc/%ld/exe --there 2>&1", name, value, (long)getpid());
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = 0;
    assert_int_not_equal(pclose(f), 0);
}

static void old_driver(void **state)
{
    (void)state;
    if (!find_fake()) skip();
    if (getenv("B1_EMULATED")) skip(); /* this program's file is the emulator's to run */
    char text[1200];
    in_another("FAKE_CUDA_VERSION", "12020", text, sizeof text);
    assert_non_null(strstr(text, "is for CUDA 12.2, but this build needs"));
    in_another("FAKE_CUDA_DEVICES", "0", text, sizeof text);
    assert_non_null(strstr(text, "CUDA_VISIBLE_DEVICES"));
}

static int say_whether_there(void)
{
    b1i_gpu_info info;
    if (b1i_gpu_count(&err) == 0 || b1i_gpu_describe(0, &info, &err)) {
        fprintf(stderr, "no GPU test can run: %s\n", err.message);
        return 1;
    }
    printf("GPU tests run on %s\n", info.name);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--there") == 0) return say_whether_there();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent),
        cmocka_unit_test(describes),
        cmocka_unit_test(memory),
        cmocka_unit_test(launches),
        cmocka_unit_test(graphs),
        cmocka_unit_test(memsets),
        cmocka_unit_test(graphs_programmatic),
        cmocka_unit_test(beside),
        cmocka_unit_test(dot),
        cmocka_unit_test(events),
        cmocka_unit_test(ceiling),
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(captures_fail),
        cmocka_unit_test(driver_fails),
        cmocka_unit_test(old_driver),
        cmocka_unit_test(poison), /* last: nothing else need stand what a driver makes of it */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
