/* SPDX-License-Identifier: MIT
 *
 * A step kernel by kernel (separate_stream) beside the sum of its kernels' own times: what launching costs it. Times
 * are medians over steps at a context of 2048:
 *   step_ms     the host's time of a step, no event in it
 *   kernels_ms  of another session, with op_times: the sum of the times between the events around its launches. Where
 *               the GPU has to wait for a launch that waiting is in it: it is never less than what the kernels take
 *   graph_ms    the host's time of the same launches as one graph (separate_graph), where the GPU waits for none
 * Use: bench_eager [-d DEVICE] [-n STEPS] [-o FILE] [SHAPE…]
 */
#include "engine/engine.h"
#include "lab/device.h"
#include "lab/machine.h"
#include "lab/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 2048, STEPS_MAX = 1000, WARMUP = 5 };
static b1_error err;

static void must(b1_status st)
{
    if (st == B1_OK) return;
    fprintf(stderr, "bench_eager: %s\n", err.message);
    exit(1);
}

static double kernels_ms(const b1_session *s)
{
    int count;
    uint64_t ns = 0;
    const b1_plan_op *ops = b1_session_plan(s, &count);
    for (int i = 0; i < count; i++) ns += ops[i].time_ns;
    return (double)ns / 1e6;
}

/* The median of a step's time, or with op_times of its kernels' sum; of a graph its launches too. */
static double median_ms(b1_engine *engine, const b1_session_options *o, int steps, int *launches)
{
    double ms[STEPS_MAX];
    b1_session *s = NULL;
    b1_timings t;
    must(b1_session_create(engine, o, &s, &err));
    must(b1_session_fill(s, o->context - 1, &err));
    for (int i = -WARMUP; i < steps; i++) {
        must(b1_session_step(s, 100 + i, &err));
        b1_session_timings(s, &t);
        if (i >= 0) ms[i] = o->op_times ? kernels_ms(s) : (double)t.last_step_ns / 1e6;
        must(b1_session_rewind(s, o->context - 1, &err));
    }
    if (strcmp(o->executor, "separate_graph") == 0) {
        b1i_gpu_graph_info info;
        must(b1i_executor_separate_graph.graph_describe(b1i_session_executor(s), false, &info, &err));
        *launches = info.kernel_nodes;
    }
    b1_session_close(s);
    return b1i_median(ms, (size_t)steps);
}

static json_t *measure(const char *shape, const char *device, int steps, char *name, size_t room)
{
    const b1_engine_options options = {.device = device, .executor = "separate_stream", .context = CONTEXT};
    b1_session_options o = {.executor = "separate_stream", .context = CONTEXT};
    b1_engine *engine = NULL;
    b1_model_info info;
    int launches = 0;
    must(b1_engine_open_synthetic(shape, &options, &engine, &err));
    b1_engine_info(engine, &info);
    (void)snprintf(name, room, "%s", info.device);
    const double step = median_ms(engine, &o, steps, &launches);
    o.op_times = true;
    const double kernels = median_ms(engine, &o, steps, &launches);
    o = (b1_session_options){.executor = "separate_graph", .context = CONTEXT};
    const double graph = median_ms(engine, &o, steps, &launches);
    b1_engine_close(engine);
    printf("%-14s %6d: step %.3f ms, kernels %.3f ms, as a graph %.3f ms, %d launches, step / kernels %.3f\n", shape,
           CONTEXT, step, kernels, graph, launches, step / kernels);
    return json_pack("{s:s,s:s,s:i,s:f,s:f,s:f,s:i,s:f}", "model", shape, "weights", "bf16", "context", CONTEXT,
                     "step_ms", step, "kernels_ms", kernels, "graph_ms", graph, "launches", launches, "ratio",
                     step / kernels);
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"llama-3.2-1b", "llama-3.1-8b"};
    const char *device = "cuda", *out = NULL;
    char name[64] = "";
    int steps = 30, option;
    while ((option = getopt(argc, argv, "d:n:o:")) != -1) {
        if (option == 'd')
            device = optarg;
        else if (option == 'n')
            steps = atoi(optarg);
        else if (option == 'o')
            out = optarg;
        else
            steps = 0;
    }
    if (steps < 1 || steps > STEPS_MAX) {
        fprintf(stderr, "usage: bench_eager [-d DEVICE] [-n STEPS] [-o FILE] [SHAPE...]\n");
        return 2;
    }
    const int ordinal = strncmp(device, "cuda:", 5) == 0 ? atoi(device + 5) : 0, given = argc - optind;
    json_t *rows = json_array(), *before = b1i_device_state(ordinal), *machine = b1i_machine_record();
    for (int i = 0; i < (given ? given : 2); i++)
        json_array_append_new(rows, measure(given ? argv[optind + i] : usual[i], device, steps, name, sizeof name));
    json_object_set_new(machine, "gpu", b1i_device_record(ordinal, before, b1i_device_state(ordinal)));
    json_t *document =
        json_pack("{s:s,s:o,s:s,s:o}", "schema", "batchone.eager/1", "machine", machine, "device", name, "rows", rows);
    if (!document) abort();
    if (out && json_dump_file(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0) {
        fprintf(stderr, "bench_eager: %s cannot be written\n", out);
        return 1;
    }
    json_decref(document);
    return 0;
}
