/* SPDX-License-Identifier: MIT
 *
 * The read ceiling, on the worker pool. See ceiling.h.
 */
#include "lab/ceiling.h"

#include "base/threads.h"
#include "lab/gpu_ceiling.h"
#include "lab/machine.h"

#include <stdatomic.h>
#include <string.h>

#define MIB (1ull << 20)

enum {
    LINE = 64,
    GLANCE_WINDOWS = 3,         /* windows a glance reads at least */
    GLANCE_WINDOW_NS = 6000000, /* what one of them should take: long beside a dispatch, short beside a step */
    BUFFER_LEAST_MIB = 64,
    WINDOW_LEAST_MIB = 32,
};

struct b1i_ceiling {
    b1i_gpu_ceiling *gpu; /* NULL: of the CPU; else nothing below is used */
    uint8_t *data;
    size_t bytes;
    size_t window; /* bytes of a glance's window; divides nothing, wraps at the end */
    size_t next;   /* where the next window begins */
    int glance;    /* windows of a glance */
};

typedef struct share {
    uint8_t *data;
    size_t bytes;
    _Atomic uint64_t sum; /* keeps the reads alive */
} share;

static void read_share(void *arg, int worker, int workers)
{
    share *s = arg;
    int64_t begin, end;
    b1i_share((int64_t)s->bytes, LINE, worker, workers, &begin, &end);
    if (end > begin) atomic_fetch_xor(&s->sum, b1i_read_stream(s->data + begin, (size_t)(end - begin)));
}

static void write_share(void *arg, int worker, int workers)
{
    share *s = arg;
    int64_t begin, end;
    b1i_share((int64_t)s->bytes, LINE, worker, workers, &begin, &end);
    if (end > begin) memset(s->data + begin, worker + 1, (size_t)(end - begin));
}

/* Reads [at, at + bytes) with `threads` workers; the time that took. */
static uint64_t read_ns(b1i_ceiling *c, size_t at, size_t bytes, int threads)
{
    share s = {c->data + at, bytes, 0};
    uint64_t start = b1i_now_ns();
    b1i_pool_run(threads, read_share, &s);
    uint64_t ns = b1i_now_ns() - start;
    return ns ? ns : 1;
}

b1_status b1i_ceiling_open(uint64_t most_bytes, b1i_ceiling **out, b1_error *err)
{
    *out = NULL;
    b1_status st = B1_OK;
    int cores = b1i_cpu_count();
    uint64_t want = 8 * b1i_machine_cache_bytes(), limit = most_bytes ? most_bytes : b1i_memory_available() / 2;
    want = want < 1024 * MIB ? 1024 * MIB : want > 4096 * MIB ? 4096 * MIB : want;
    if (want > limit) want = limit;
    want -= want % (2 * MIB);
    if (want < BUFFER_LEAST_MIB * MIB)
        return b1i_fail(err, B1_MEMORY, "the ceiling needs a buffer of at least %d MiB, but only %llu MiB may be taken",
                        BUFFER_LEAST_MIB, (unsigned long long)(limit / MIB));
    b1i_ceiling *c = b1i_calloc(1, sizeof *c);
    if (!c) return b1i_fail_memory(err, sizeof *c);
    c->bytes = (size_t)want;
    if (!(c->data = b1i_pages_alloc(c->bytes))) {
        st = b1i_fail_memory(err, c->bytes);
        goto fail;
    }
    B1I_TRY(b1i_pool_reserve(cores, err));
    share s = {c->data, c->bytes, 0};
    b1i_pool_run(cores, write_share, &s);
    c->window = WINDOW_LEAST_MIB * MIB;
    uint64_t ns = read_ns(c, 0, c->window, cores);
    double window = (double)c->window / (double)ns * GLANCE_WINDOW_NS;
    if (window > (double)c->bytes / 4) window = (double)c->bytes / 4;
    if (window > (double)c->window) c->window = (size_t)window & ~(size_t)(MIB - 1);
    uint64_t evict = b1i_machine_cache_bytes() * 3 / 2;
    c->glance = GLANCE_WINDOWS;
    if (evict > c->glance * c->window) c->glance = (int)((evict + c->window - 1) / c->window);
    *out = c;
    return B1_OK;
fail:
    b1i_ceiling_close(c);
    return st;
}

b1_status b1i_ceiling_open_gpu(int ordinal, uint64_t most_bytes, unsigned part, b1i_ceiling **out, b1_error *err)
{
    *out = NULL;
    b1i_ceiling *c = b1i_calloc(1, sizeof *c);
    if (!c) return b1i_fail_memory(err, sizeof *c);
    b1_status st = b1i_gpu_ceiling_open(ordinal, most_bytes, part, &c->gpu, err);
    if (st == B1_OK)
        *out = c;
    else
        b1i_ceiling_close(c);
    return st;
}

void b1i_ceiling_close(b1i_ceiling *c)
{
    if (!c) return;
    b1i_gpu_ceiling_close(c->gpu);
    if (c->data) b1i_pages_free(c->data, c->bytes);
    b1i_free(c);
}

uint64_t b1i_ceiling_bytes(const b1i_ceiling *c) { return c->gpu ? b1i_gpu_ceiling_bytes(c->gpu) : c->bytes; }
const char *b1i_ceiling_method(const b1i_ceiling *c) { return c->gpu ? b1i_gpu_ceiling_method(c->gpu) : NULL; }

uint64_t b1i_ceiling_cache_bytes(const b1i_ceiling *c)
{
    return c->gpu ? b1i_gpu_ceiling_l2_bytes(c->gpu) : b1i_machine_cache_bytes();
}

uint64_t b1i_ceiling_throttles(const b1i_ceiling *c)
{
    return c->gpu ? b1i_gpu_ceiling_throttles(c->gpu) : b1i_machine_throttle_count();
}

b1_status b1i_ceiling_read(b1i_ceiling *c, int threads, int passes, uint64_t budget_ns, bool (*cancelled)(void),
                           double *gbps, b1_error *err)
{
    *gbps = 0;
    if (c->gpu) return b1i_gpu_ceiling_read(c->gpu, passes, budget_ns, cancelled, gbps, err);
    b1_status st = b1i_pool_reserve(threads, err);
    if (st != B1_OK) return st;
    uint64_t start = b1i_now_ns(), best = UINT64_MAX;
    for (int pass = 0; pass < passes || b1i_now_ns() - start < budget_ns; pass++) {
        if (cancelled && cancelled()) return b1i_fail(err, B1_CANCELLED, "cancelled while the ceiling was read");
        uint64_t ns = read_ns(c, 0, c->bytes, threads);
        if (ns < best) best = ns;
    }
    *gbps = (double)c->bytes / (double)best;
    return B1_OK;
}

b1_status b1i_ceiling_glance(b1i_ceiling *c, double *gbps, b1_error *err)
{
    *gbps = 0;
    if (c->gpu) return b1i_gpu_ceiling_glance(c->gpu, gbps, err);
    int cores = b1i_cpu_count();
    b1_status st = b1i_pool_reserve(cores, err);
    if (st != B1_OK) return st;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < c->glance; i++) {
        if (c->next + c->window > c->bytes) c->next = 0;
        uint64_t ns = read_ns(c, c->next, c->window, cores);
        c->next += c->window;
        if (ns < best) best = ns;
    }
    *gbps = (double)c->window / (double)best;
    return B1_OK;
}
