/* SPDX-License-Identifier: MIT
 *
 * The RMS-scaled softmax as operations, and their bodies on the CPU. A row is one worker's. Sums are kept in LANES
 * parts, which a compiler may put into vectors and which make long sums more exact.
 */
#include "lab/experiments/rms_softmax.h"

#include "base/threads.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { LANES = 16, THREADS_LEAST = 64, THREADS_MOST = 1024, ELEMENTS_A_THREAD = 4 };

const char *const b1i_softmax_variant_names[b1i_softmax_variants] = {"separate", "fused", "persistent"};

static float *floats(uint64_t address) { return (float *)(uintptr_t)address; }

/* ---- rows ---- */

static const float *x_of(const b1i_softmax_args *a, int64_t row) { return floats(a->x) + row * a->width; }
static float *z_of(const b1i_softmax_args *a, int64_t row) { return floats(a->z) + row * a->width; }
static float *y_of(const b1i_softmax_args *a, int64_t row) { return floats(a->y) + row * a->width; }

static float add_lanes(const float *lane)
{
    float all = 0;
    for (int l = 0; l < LANES; l++) all += lane[l];
    return all;
}

static float square_mean_of(const float *x, int width)
{
    float lane[LANES] = {0};
    int i = 0;
    for (; i + LANES <= width; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l] * x[i + l];
    for (int l = 0; i + l < width; l++) lane[l] += x[i + l] * x[i + l];
    return add_lanes(lane) / (float)width;
}

static void scale_to(float *z, const float *x, float square_mean, int width)
{
    const float scale = 1.0f / sqrtf(square_mean + B1I_SOFTMAX_EPSILON);
    for (int i = 0; i < width; i++) z[i] = x[i] * scale;
}

static float larger(float a, float b) { return a > b ? a : b; }

static float most_of(const float *z, int width)
{
    float lane[LANES];
    int i = 0;
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    for (; i + LANES <= width; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = larger(lane[l], z[i + l]);
    for (int l = 0; i + l < width; l++) lane[l] = larger(lane[l], z[i + l]);
    for (int l = 1; l < LANES; l++) lane[0] = larger(lane[0], lane[l]);
    return lane[0];
}

static void row_square_mean(const b1i_softmax_args *a, int64_t row)
{
    floats(a->square_mean)[row] = square_mean_of(x_of(a, row), a->width);
}

static void row_scale(const b1i_softmax_args *a, int64_t row)
{
    scale_to(z_of(a, row), x_of(a, row), floats(a->square_mean)[row], a->width);
}

static void row_max(const b1i_softmax_args *a, int64_t row) { floats(a->most)[row] = most_of(z_of(a, row), a->width); }

static void row_exp_sum(const b1i_softmax_args *a, int64_t row)
{
    const float *z = z_of(a, row);
    const float most = floats(a->most)[row];
    float lane[LANES] = {0};
    for (int i = 0; i < a->width; i++) lane[i % LANES] += expf(z[i] - most);
    floats(a->sum)[row] = add_lanes(lane);
}

static void row_normalise(const b1i_softmax_args *a, int64_t row)
{
    const float *z = z_of(a, row);
    const float most = floats(a->most)[row], sum = floats(a->sum)[row];
    float *y = y_of(a, row);
    for (int i = 0; i < a->width; i++) y[i] = expf(z[i] - most) / sum;
}

/* All of it; y's row holds on its way what the separate operations keep in z. */
static void row_whole(const b1i_softmax_args *a, int64_t row)
{
    const float *x = x_of(a, row);
    float *y = y_of(a, row), lane[LANES] = {0};
    scale_to(y, x, square_mean_of(x, a->width), a->width);
    const float most = most_of(y, a->width);
    for (int i = 0; i < a->width; i++) {
        y[i] = expf(y[i] - most);
        lane[i % LANES] += y[i];
    }
    const float sum = add_lanes(lane);
    for (int i = 0; i < a->width; i++) y[i] /= sum;
}

/* ---- bodies ---- */

static void each_row(const b1i_softmax_args *a, int worker, int workers, void (*f)(const b1i_softmax_args *, int64_t))
{
    int64_t begin, end;
    b1i_share(a->rows, 1, worker, workers, &begin, &end);
    for (int64_t row = begin; row < end; row++) f(a, row);
}

static void body_square_mean(const void *args, int w, int workers) { each_row(args, w, workers, row_square_mean); }
static void body_scale(const void *args, int w, int workers) { each_row(args, w, workers, row_scale); }
static void body_max(const void *args, int w, int workers) { each_row(args, w, workers, row_max); }
static void body_exp_sum(const void *args, int w, int workers) { each_row(args, w, workers, row_exp_sum); }
static void body_normalise(const void *args, int w, int workers) { each_row(args, w, workers, row_normalise); }
static void body_fused(const void *args, int w, int workers) { each_row(args, w, workers, row_whole); }

static void body_persistent(const void *args, int worker, int workers)
{
    const b1i_softmax_args *a = args;
    _Atomic uint32_t *next = (_Atomic uint32_t *)(uintptr_t)a->next;
    uint32_t row;
    (void)worker;
    (void)workers;
    while ((row = atomic_fetch_add_explicit(next, 1, memory_order_relaxed)) < (uint32_t)a->rows) row_whole(a, row);
}

/* ---- operations ---- */

unsigned b1i_softmax_threads(int width)
{
    unsigned threads = THREADS_LEAST;
    while (threads < THREADS_MOST && threads * ELEMENTS_A_THREAD < (unsigned)width) threads *= 2;
    return threads;
}

unsigned b1i_softmax_shared_bytes(b1i_softmax_variant variant, int width)
{
    return variant == b1i_softmax_separate ? 0 : (unsigned)width * (unsigned)sizeof(float);
}

/* GPU: a thread's elements one after the other, then two trees of 32. CPU: a lane's, then the lanes. Of n terms, the
 * first is added to a zero. */
int b1i_softmax_adds(bool gpu, int width)
{
    const int parts = gpu ? (int)b1i_softmax_threads(width) : LANES;
    return (width + parts - 1) / parts + (gpu ? 5 + 5 : LANES);
}

static void set_op(b1i_lab_op *op, const char *kernel, b1i_lab_body body, unsigned grid, unsigned shared_bytes,
                   const b1i_softmax_args *args)
{
    *op = (b1i_lab_op){.kernel = kernel,
                       .body = body,
                       .grid = grid,
                       .threads = b1i_softmax_threads(args->width),
                       .shared_bytes = shared_bytes,
                       .arg_bytes = sizeof *args};
    memcpy(op->args, args, sizeof *args);
}

int b1i_softmax_ops(b1i_softmax_variant variant, const b1i_softmax_args *args, unsigned resident, b1i_lab_op *ops)
{
    const unsigned rows = (unsigned)args->rows, shared = b1i_softmax_shared_bytes(variant, args->width);
    switch (variant) {
    case b1i_softmax_fused:
        set_op(&ops[0], "k_softmax_fused", body_fused, rows, shared, args);
        return 1;
    case b1i_softmax_persistent:
        ops[0] = (b1i_lab_op){.fill = args->next, .fill_bytes = sizeof(uint32_t)};
        set_op(&ops[1], "k_softmax_persistent", body_persistent, resident < rows ? resident : rows, shared, args);
        return 2;
    default:
        set_op(&ops[0], "k_softmax_square_mean", body_square_mean, rows, 0, args);
        set_op(&ops[1], "k_softmax_scale", body_scale, rows, 0, args);
        set_op(&ops[2], "k_softmax_max", body_max, rows, 0, args);
        set_op(&ops[3], "k_softmax_exp_sum", body_exp_sum, rows, 0, args);
        set_op(&ops[4], "k_softmax_normalise", body_normalise, rows, 0, args);
        return 5;
    }
}
