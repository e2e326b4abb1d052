/* SPDX-License-Identifier: MIT
 *
 * Micro benchmark of the kernels: GB/s of packed weights (file format's bytes) per format and instruction set, with
 * data in the second-level cache and in memory, on 1 and 2 threads, beside the read ceiling; rows of x more than one
 * give tokens per second and multiplications per cycle; attention gives GB/s of keys and values.
 * Use: bench_linear [-i ISA] [-f FORMAT] [-c COLS] [-n ROWS_OF_X] [-m MEMORY_MB] [-a]
 */
#include "base/threads.h"
#include "cpu/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct job {
    const b1i_kernels *k;
    b1i_linear linear;
    b1i_attention *attention; /* [heads] where this is set */
    int heads;
    const uint8_t *stream; /* [bytes] where this is set */
    size_t bytes;
    volatile uint64_t sink;
} job;

static void work(void *arg, int worker, int workers)
{
    job *j = arg;
    int64_t begin, end;
    if (j->stream) {
        b1i_share((int64_t)j->bytes, 4096, worker, workers, &begin, &end);
        j->sink += b1i_read_stream(j->stream + begin, (size_t)(end - begin));
    } else if (j->attention) {
        b1i_share(j->heads, 1, worker, workers, &begin, &end);
        for (int64_t h = begin; h < end; h++) j->k->attention(&j->attention[h]);
    } else {
        b1i_share(j->linear.w->panels, 1, worker, workers, &begin, &end);
        j->k->linear(&j->linear, begin, end);
    }
}

static double pass(job *j, int workers)
{
    uint64_t start = b1i_now_ns();
    b1i_pool_run(workers, work, j);
    return (double)(b1i_now_ns() - start) * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kernel and stream take turns, for bandwidth moves; prints the medians and that of the ratios of neighbours. */
static double compare(job *kernel, job *stream, size_t bytes, int workers)
{
    enum { MOST = 2001 };
    static double k[MOST], s[MOST], ratio[MOST];
    int n = 0;
    double spent = 0;
    for (; n < 7 || (n < MOST && spent < 0.3); n++) {
        double before = pass(stream, workers);
        k[n] = pass(kernel, workers);
        s[n] = pass(stream, workers);
        ratio[n] = (before < s[n] ? before : s[n]) / k[n];
        spent += before + k[n] + s[n];
    }
    qsort(k, (size_t)n, sizeof *k, ascending);
    qsort(s, (size_t)n, sizeof *s, ascending);
    qsort(ratio, (size_t)n, sizeof *ratio, ascending);
    printf(" | %d: %6.2f GB/s of %6.2f (%.2f)", workers, (double)bytes / k[n / 2] * 1e-9,
           (double)bytes / s[n / 2] * 1e-9, ratio[n / 2]);
    return k[n / 2];
}

static void bench_format(const b1i_kernels *k, b1i_format_id format, int64_t cols, int n, size_t memory, int threads)
{
    const b1i_format *f = &b1i_formats[format];
    b1i_tensor t = {.format = format, .cols = cols, .seed = 1, .scale = 0.1f, .map = -1};
    size_t row_bytes = b1i_format_bytes(format, (uint64_t)cols);
    t.rows = (int64_t)(memory / row_bytes) / 32 * 32;
    if (t.rows == 0) t.rows = 32;
    b1i_packed p = {0};
    b1i_packed_shape(&t, b1i_layout_row16, &p);
    size_t bytes = b1i_packed_bytes(&p);
    p.data = b1i_pages_alloc(bytes);
    uint8_t *file = malloc(row_bytes * 16);
    for (int r = 0; r < 16; r++) f->random((uint64_t)r, cols, 0.1f, file + (size_t)r * row_bytes);
    for (int64_t i = 0; i < p.panels; i++)
        b1i_layouts[b1i_layout_row16].pack(format, cols, file, 16, p.data + (size_t)i * p.panel_bytes);
    b1i_act a = {.type = b1i_kernels_act(k, format), .rows = n, .cols = cols};
    a.stride = b1i_act_stride(a.type, cols);
    a.data = b1i_pages_alloc(a.stride * (size_t)n);
    float *x = malloc((size_t)cols * sizeof *x);
    for (int r = 0; r < n; r++) {
        for (int64_t c = 0; c < cols; c++) x[c] = (float)(b1i_mix64((uint64_t)c) >> 40) * 0x1p-24f - 0.5f;
        k->convert(x, &a, r);
    }
    float *y = b1i_pages_alloc((size_t)t.rows * (size_t)n * sizeof *y);
    job j = {.k = k, .linear = {&p, &a, NULL, y, t.rows, false}};
    job s = {.stream = p.data, .bytes = bytes / 64 * 64};
    printf("%-10s %-5s n %-3d %7.2f MB", k->name, f->name, n, (double)bytes / 1e6);
    for (int w = 1; w <= threads; w++) {
        double time = compare(&j, &s, bytes, w);
        printf(" %6.1f GMAC/s", (double)(t.rows * cols) * n / time * 1e-9);
    }
    printf("\n");
    b1i_pages_free(y, (size_t)t.rows * (size_t)n * sizeof *y);
    b1i_pages_free(a.data, a.stride * (size_t)n);
    b1i_pages_free(p.data, bytes);
    free(x);
    free(file);
}

static void bench_attention(const b1i_kernels *k, b1i_type type, int dim, int group, int context, size_t memory,
                            int threads)
{
    size_t size = type == b1i_type_f32 ? 4 : 2, head = (size_t)context * (size_t)dim * size;
    int heads = (int)(memory / (2 * head)) / 2 * 2;
    if (heads < 2) heads = 2;
    size_t bytes = 2 * head * (size_t)heads;
    uint8_t *kv = b1i_pages_alloc(bytes);
    for (size_t i = 0; i < bytes; i += 2) memcpy(kv + i, (uint8_t[]){(uint8_t)b1i_mix64(i), 0x3c}, 2);
    float *q = b1i_pages_alloc((size_t)(group * dim) * 4), *out = b1i_pages_alloc((size_t)(heads * group * dim) * 4);
    float *ms = b1i_pages_alloc((size_t)(heads * group) * 8);
    for (int i = 0; i < group * dim; i++) q[i] = (float)(b1i_mix64((uint64_t)i) >> 40) * 0x1p-24f - 0.5f;
    int limit = context, first = 0;
    b1i_attention *a = malloc((size_t)heads * sizeof *a);
    for (int h = 0; h < heads; h++)
        a[h] = (b1i_attention){.kv = {type, dim, kv + (size_t)h * 2 * head, kv + (size_t)h * 2 * head + head},
                               .q = q,
                               .q_stride = group * dim,
                               .n = 1,
                               .group = group,
                               .limit = &limit,
                               .first = &first,
                               .scale = 0.125f,
                               .begin = 0,
                               .end = context,
                               .max = ms + h * group,
                               .sum = ms + (heads + h) * group,
                               .out = out + h * group * dim};
    job j = {.k = k, .attention = a, .heads = heads};
    job s = {.stream = kv, .bytes = bytes / 64 * 64};
    printf("%-10s kv %-4s dim %d group %d context %d %7.2f MB", k->name, b1i_type_names[type], dim, group, context,
           (double)bytes / 1e6);
    for (int w = 1; w <= threads; w++) compare(&j, &s, bytes, w);
    printf("\n");
    free(a);
    b1i_pages_free(kv, bytes);
    b1i_pages_free(q, (size_t)(group * dim) * 4);
    b1i_pages_free(out, (size_t)(heads * group * dim) * 4);
    b1i_pages_free(ms, (size_t)(heads * group) * 8);
}

int main(int argc, char **argv)
{
    const char *isa = NULL, *format = NULL;
    int64_t cols = 2048;
    int n = 1, option, threads = b1i_cpu_count();
    double memory = 0;
    bool attention = false;
    while ((option = getopt(argc, argv, "i:f:c:n:m:t:a")) != -1) {
        if (option == 'i') isa = optarg;
        if (option == 'f') format = optarg;
        if (option == 'c') cols = atoll(optarg);
        if (option == 'n') n = atoi(optarg);
        if (option == 'm') memory = atof(optarg);
        if (option == 't') threads = atoi(optarg);
        if (option == 'a') attention = true;
    }
    if (b1i_pool_reserve(threads, NULL) != B1_OK) return 1;
    for (int i = 0; b1i_kernels_built[i]; i++) {
        const b1i_kernels *k = b1i_kernels_built[i];
        if (!k->supported() || (isa ? strcmp(isa, k->name) != 0 : k != b1i_kernels_best())) continue;
        for (int cached = 1; cached >= 0; cached--) {
            size_t bytes = memory > 0 ? (size_t)(memory * 1e6) : cached ? 600000 : 600000000;
            for (int g = 1; attention && g <= 8; g++) bench_attention(k, b1i_type_bf16, 64, g, 2048, bytes, threads);
            for (int f = 0; !attention && f < b1i_format_count; f++)
                if (!format || strcmp(format, b1i_formats[f].name) == 0)
                    bench_format(k, (b1i_format_id)f, cols, n, bytes, threads);
            if (memory > 0) break;
        }
    }
    b1i_pool_end();
    return 0;
}
