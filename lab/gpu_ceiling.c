/* SPDX-License-Identifier: MIT
 *
 * The read ceiling of a GPU. A glance reads one window: long beside a launch, short beside a cell, and so far above
 * the L2 that neither the pass before it nor anything else is left there.
 */
#include "lab/gpu_ceiling.h"

#include "gpu/gpu.h"
#include "lab/device.h"

enum {
    L2_TIMES_LEAST = 8,     /* the buffer, in L2s: less is refused by the reading */
    L2_TIMES_WINDOW = 16,   /* a glance's window, where the buffer is that large */
    READ_PASSES = 11,       /* of each method, in a reading of the whole buffer */
    GLANCE_PASSES = 5,      /* the same in a glance */
    WINDOW_PASS_NS = 500000 /* what a pass over a window should take at least */
};

#define MIB     (1ull << 20)
#define ALIGNED (2 * MIB)

struct b1i_gpu_ceiling {
    b1i_gpu *gpu;
    int ordinal;
    b1i_gpu_ptr data;
    uint64_t bytes, l2_bytes;
    uint64_t window, next; /* of glances */
    uint64_t at_open;      /* reasons to throttle that were there from the beginning */
    uint64_t throttles;    /* glances that saw another */
    const char *method;
};

static uint64_t align_down(uint64_t bytes) { return bytes - bytes % ALIGNED; }

/* The buffer, every byte of it written. */
static b1_status make_buffer(b1i_gpu_ceiling *c, uint64_t most_bytes, unsigned part, b1_error *err)
{
    uint64_t free_bytes = 0, least = L2_TIMES_LEAST * c->l2_bytes;
    b1_status st;
    B1I_TRY(b1i_gpu_free_bytes(c->gpu, &free_bytes, err));
    if (least < 64 * MIB) least = 64 * MIB;
    c->bytes = align_down(free_bytes / part < most_bytes ? free_bytes / part : most_bytes);
    if (c->bytes < least)
        return b1i_fail(err, B1_MEMORY,
                        "the ceiling of cuda:%d needs a buffer of at least %llu MiB, but of %llu MiB free only %llu "
                        "may be taken",
                        c->ordinal, (unsigned long long)(least / MIB), (unsigned long long)(free_bytes / MIB),
                        (unsigned long long)(c->bytes / MIB));
    B1I_TRY(b1i_gpu_alloc(c->gpu, (size_t)c->bytes, "the ceiling's buffer", &c->data, err));
    B1I_TRY(b1i_gpu_fill(c->gpu, c->data, 0x5a, (size_t)c->bytes, err));
    return B1_OK;
fail:
    return st;
}

b1_status b1i_gpu_ceiling_open(int ordinal, uint64_t most_bytes, unsigned part, b1i_gpu_ceiling **out, b1_error *err)
{
    b1_status st;
    double gbps;
    *out = NULL;
    b1i_gpu_ceiling *c = b1i_calloc(1, sizeof *c);
    if (!c) return b1i_fail_memory(err, sizeof *c);
    c->ordinal = ordinal;
    c->at_open = b1i_device_throttle(ordinal);
    B1I_TRY(b1i_gpu_open(ordinal, &c->gpu, err));
    c->l2_bytes = b1i_gpu_get_info(c->gpu)->l2_bytes;
    B1I_TRY(make_buffer(c, most_bytes, part, err));
    B1I_TRY(b1i_gpu_read_ceiling(c->gpu, c->data, (size_t)c->bytes, 3, &gbps, &c->method, err));
    c->window = (uint64_t)(gbps * WINDOW_PASS_NS); /* GB/s are bytes a ns */
    if (c->window < L2_TIMES_WINDOW * c->l2_bytes) c->window = L2_TIMES_WINDOW * c->l2_bytes;
    c->window = align_down(c->window) + ALIGNED;
    if (c->window > c->bytes) c->window = c->bytes;
    *out = c;
    return B1_OK;
fail:
    b1i_gpu_ceiling_close(c);
    return st;
}

void b1i_gpu_ceiling_close(b1i_gpu_ceiling *c)
{
    if (!c) return;
    if (c->data) b1i_gpu_free(c->gpu, c->data);
    b1i_gpu_close(c->gpu);
    b1i_free(c);
}

uint64_t b1i_gpu_ceiling_bytes(const b1i_gpu_ceiling *c) { return c->bytes; }
uint64_t b1i_gpu_ceiling_l2_bytes(const b1i_gpu_ceiling *c) { return c->l2_bytes; }
uint64_t b1i_gpu_ceiling_throttles(const b1i_gpu_ceiling *c) { return c->throttles; }
const char *b1i_gpu_ceiling_method(const b1i_gpu_ceiling *c) { return c->method; }

b1_status b1i_gpu_ceiling_read(b1i_gpu_ceiling *c, int passes, uint64_t budget_ns, bool (*cancelled)(void),
                               double *gbps, b1_error *err)
{
    uint64_t start = b1i_now_ns();
    *gbps = 0;
    for (int pass = 0; pass < passes || b1i_now_ns() - start < budget_ns; pass++) {
        double now;
        const char *method;
        if (cancelled && cancelled()) return b1i_fail(err, B1_CANCELLED, "cancelled while the ceiling was read");
        b1_status st = b1i_gpu_read_ceiling(c->gpu, c->data, (size_t)c->bytes, READ_PASSES, &now, &method, err);
        if (st != B1_OK) return st;
        if (now <= *gbps) continue;
        *gbps = now;
        c->method = method;
    }
    return B1_OK;
}

/* The state is asked for first: between the reading and the steps that follow the GPU shall not idle. */
b1_status b1i_gpu_ceiling_glance(b1i_gpu_ceiling *c, double *gbps, b1_error *err)
{
    *gbps = 0;
    if (b1i_device_throttle(c->ordinal) & ~c->at_open) c->throttles++;
    if (c->next + c->window > c->bytes) c->next = 0;
    b1i_gpu_ptr window = c->data + c->next;
    c->next += c->window;
    return b1i_gpu_read_ceiling(c->gpu, window, (size_t)c->window, GLANCE_PASSES, gbps, &c->method, err);
}
