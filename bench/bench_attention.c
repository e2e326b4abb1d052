/* SPDX-License-Identifier: MIT
 *
 * Attention alone, at the shape of Llama 3 8B (32 query heads, 8 KV heads of 128): microseconds a layer inside a graph
 * of 32 layers, the merge of the context's parts included. Every layer has keys and values of its own, random and
 * together more than twice the L2 cache, so that each is read from memory. The median of 30 launches of the graph after
 * 5, by events around it, divided by its layers; once with programmatic edges, once with plain ones. A context counts
 * all positions that a query sees, its own included.
 * Use: bench_attention [-c CONTEXT,…] [-l LAYERS] [-d ORDINAL] [-o FILE]
 */
#include "base/threads.h"
#include "cuda/cuda.h"
#include "lab/device.h"
#include "lab/machine.h"
#include "tests/tiny_model.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARMUP = 5, SAMPLES = 30, CONTEXTS_MAX = 16 };

static const tiny_shape llama3_8b = {
    "llama-3-8b-attention", b1i_arch_llama, 32, 32, 32, 32, 8, 128, 32, 0, false, false, true};

static void check(b1_status st, const b1_error *err)
{
    if (st == B1_OK) return;
    fprintf(stderr, "bench_attention: %s\n", err->message);
    exit(1);
}
#define must(call)             \
    do {                       \
        b1_error err_ = {0};   \
        b1_error *err = &err_; \
        check(call, err);      \
    } while (0)

typedef struct bench {
    b1i_gpu *gpu;
    b1i_model *model;
    b1i_plan plan;
    b1i_cuda_weights weights;
    b1i_cuda_machine machine;
    const b1i_cuda_program *program;
    b1i_gpu_event *from, *to;
} bench;

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void bench_open(bench *b, const tiny_shape *shape, int ordinal)
{
    *b = (bench){.model = tiny_model(shape, b1i_bf16, NULL, 1)};
    must(b1i_gpu_open(ordinal, &b->gpu, err));
    must(b1i_cuda_load_kernels(b->gpu, err));
    must(b1i_pool_reserve(2, err));
    must(b1i_plan_build(b->model, &b->plan, err));
    must(b1i_cuda_weights_load(b->gpu, b->model, &b->plan, 2, NULL, NULL, &b->weights, err));
    must(b1i_cuda_machine_create(&b->weights, &b->machine, err));
    must(b1i_cuda_program_get(&b->machine, b1i_cuda_fused, b1i_cuda_one, &b->program, err));
    must(b1i_gpu_event_create(b->gpu, true, &b->from, err));
    must(b1i_gpu_event_create(b->gpu, true, &b->to, err));
}

static void bench_close(bench *b)
{
    b1i_gpu_event_destroy(b->gpu, b->from);
    b1i_gpu_event_destroy(b->gpu, b->to);
    b1i_cuda_machine_free(&b->machine);
    b1i_cuda_weights_free(&b->weights);
    b1i_plan_free(&b->plan);
    b1i_gpu_close(b->gpu);
    tiny_model_free(b->model);
}

/* Microseconds a layer, the median; the step's parameters have been set. `samples` gets all of them. */
static double measure(bench *b, bool programmatic, json_t *samples)
{
    b1i_gpu_graph *graph = NULL;
    uint64_t ns[SAMPLES];
    const double layers = (double)b->model->config.layers;
    const b1i_cuda_program *program;
    int count = 0;
    must(
        b1i_cuda_program_get(&b->machine, programmatic ? b1i_cuda_early : b1i_cuda_fused, b1i_cuda_one, &program, err));
    b1i_gpu_launch *launches = malloc((size_t)program->count * sizeof *launches); /* attention's alone */
    if (!launches) abort();
    for (int i = 0; i < program->count; i++)
        if (b->plan.groups[program->launches[i].item].id == b1i_group_attention)
            launches[count++] = program->launches[i];
    must(b1i_gpu_graph_create(b->gpu, launches, count, programmatic, &graph, err));
    free(launches);
    for (int i = -WARMUP; i < SAMPLES; i++) {
        must(b1i_gpu_event_record(b->gpu, b->from, err));
        must(b1i_gpu_graph_run(b->gpu, graph, err));
        must(b1i_gpu_event_record(b->gpu, b->to, err));
        must(b1i_gpu_event_sync(b->gpu, b->to, err));
        if (i >= 0) must(b1i_gpu_event_ns(b->gpu, b->from, b->to, &ns[i], err));
    }
    b1i_gpu_graph_destroy(b->gpu, graph);
    for (int i = 0; i < SAMPLES; i++) json_array_append_new(samples, json_real((double)ns[i] / 1e3 / layers));
    qsort(ns, SAMPLES, sizeof *ns, ascending);
    return (double)(ns[SAMPLES / 2 - 1] + ns[SAMPLES / 2]) / 2 / 1e3 / layers;
}

/* Random q, k and v, and one step's parameters at the context's last position. */
static void stage(bench *b, const b1i_cuda_kv *kv, int context)
{
    static const b1i_value values[] = {b1i_v_q, b1i_v_k, b1i_v_v};
    for (int i = 0; i < 3; i++) {
        const size_t cols = (size_t)b->machine.stride[values[i]];
        float *x = malloc(cols * sizeof *x);
        if (!x) abort();
        for (size_t j = 0; j < cols; j++)
            x[j] = (float)((int32_t)b1i_mix64((uint64_t)i << 32 | j) >> 8) * (1.7f / (1 << 23));
        must(b1i_gpu_upload(b->gpu, b->machine.value[values[i]], x, cols * sizeof *x, err));
        free(x);
    }
    *b->machine.staged =
        (b1i_step_params){.n = 1, .serial = ++b->machine.serial, .row = {{1, context - 1, kv->data, kv->head_bytes}}};
    must(b1i_gpu_run(b->gpu, &b->program->launches[0], err));
    must(b1i_gpu_sync(b->gpu, err));
}

static json_t *bench_context(bench *b, int context)
{
    const b1i_config *c = &b->model->config;
    const b1i_gpu_info *gpu = b1i_gpu_get_info(b->gpu);
    const uint64_t bytes = b1i_traffic_kv(c, context, b1i_type_bf16);
    b1i_cuda_kv kv;
    if (bytes < 2 * gpu->l2_bytes) {
        fprintf(stderr, "bench_attention: %d layers at %d positions are %.0f MB, less than twice the L2 cache\n",
                c->layers, context, (double)bytes / 1e6);
        exit(1);
    }
    must(b1i_cuda_kv_create(b->gpu, c, context, &kv, err));
    must(b1i_cuda_kv_fill(b->gpu, c, &kv, context, err));
    must(b1i_gpu_sync(b->gpu, err));
    stage(b, &kv, context);
    json_t *with = json_array(), *without = json_array();
    const bool can = gpu->major >= 9;
    const double plain = measure(b, false, without), pdl = can ? measure(b, true, with) : 0;
    b1i_cuda_kv_free(b->gpu, &kv);
    const double best = can ? pdl : plain, gbps = (double)bytes / c->layers / best / 1e3;
    printf("context %6d: %7.2f µs a layer with programmatic edges, %7.2f with plain ones; %.0f GB/s\n", context, pdl,
           plain, gbps);
    json_t *row = json_pack("{s:i,s:f,s:s,s:f,s:f,s:o,s:o}", "context", context, "graph_us_per_layer", best, "edges",
                            can ? "programmatic" : "plain", "plain_edges_us_per_layer", plain, "gbps", gbps,
                            "samples_us", can ? with : json_incref(without), "plain_edges_samples_us", without);
    if (!can) json_decref(with);
    return row;
}

static void write_document(const char *path, json_t *document)
{
    char part[4096];
    (void)snprintf(part, sizeof part, "%s.part", path);
    if (json_dump_file(document, part, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0 || rename(part, path) != 0) {
        fprintf(stderr, "bench_attention: %s cannot be written\n", path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    int contexts[CONTEXTS_MAX] = {2048, 16384}, count = 2, ordinal = 0, option;
    const char *out = NULL;
    tiny_shape shape = llama3_8b;
    bench b;
    while ((option = getopt(argc, argv, "c:l:d:o:")) != -1) {
        if (option == 'c') {
            count = 0;
            for (char *at = optarg; *at && count < CONTEXTS_MAX; at += *at == ',')
                contexts[count++] = (int)strtol(at, &at, 10);
        } else if (option == 'l') {
            shape.layers = atoi(optarg);
        } else if (option == 'd') {
            ordinal = atoi(optarg);
        } else if (option == 'o') {
            out = optarg;
        } else {
            return 2;
        }
    }
    bench_open(&b, &shape, ordinal);
    json_t *machine = b1i_machine_record(), *before = b1i_device_state(ordinal), *rows = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(rows, bench_context(&b, contexts[i]));
    json_object_set_new(machine, "gpu", b1i_device_record(ordinal, before, b1i_device_state(ordinal)));
    json_t *document = json_pack("{s:s,s:o,s:i,s:i,s:i,s:i,s:o}", "schema", "batchone.attention/1", "machine", machine,
                                 "head_dim", shape.head_dim, "heads", shape.heads, "kv_heads", shape.kv_heads, "layers",
                                 shape.layers, "rows", rows);
    if (!document) abort();
    if (out) write_document(out, document);
    json_decref(document);
    bench_close(&b);
    b1i_pool_end();
    return 0;
}
