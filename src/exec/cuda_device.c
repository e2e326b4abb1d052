/* SPDX-License-Identifier: MIT
 *
 * Owns what the CUDA executors of one engine share, and the sum of its memory, which is made before anything is
 * allocated.
 */
#include "exec/cuda.h"

#include <stdio.h>

b1_status b1i_cuda_plan_memory(const b1i_model *m, int context, const b1i_gpu_info *gpu, uint64_t free_bytes,
                               b1i_cuda_budget *out, b1_error *err)
{
    const b1i_config *c = &m->config;
    *out = (b1i_cuda_budget){
        .weights = b1i_cuda_weight_bytes(m),
        .kv = b1i_cuda_kv_bytes(c, context),
        .buffers = b1i_cuda_machine_bytes(m, gpu->sms) + (uint64_t)c->vocab * sizeof(float) + B1I_CUDA_DRIVER_BYTES,
        .prefill = b1i_cuda_prefill_bytes(m),
    };
    out->total = out->weights + out->buffers;
    if (!b1i_add(out->total, out->kv, &out->total)) out->total = UINT64_MAX;
    if (out->total > free_bytes)
        return b1i_fail(err, B1_MEMORY,
                        "%s does not fit on %s: weights %.2f GB + KV cache of %d positions %.2f GB + buffers %.2f GB = "
                        "%.2f GB, and %.2f GB are free there; a shorter context or smaller weights may fit",
                        c->name, gpu->name, (double)out->weights / 1e9, context, (double)out->kv / 1e9,
                        (double)out->buffers / 1e9, (double)out->total / 1e9, (double)free_bytes / 1e9);
    if (out->prefill > free_bytes - out->total) out->prefill = 0;
    out->total += out->prefill;
    return B1_OK;
}

b1_status b1i_cuda_device_open(int ordinal, const b1i_model *model, const b1i_plan *plan, int context,
                               b1i_cuda_device **out, b1_error *err)
{
    b1_status st;
    uint64_t free_bytes = 0;
    *out = NULL;
    b1i_cuda_device *d = b1i_calloc(1, sizeof *d);
    if (!d) return b1i_fail_memory(err, sizeof *d);
    d->model = model;
    d->plan = plan;
    (void)snprintf(d->name, sizeof d->name, "cuda:%d", ordinal);
    B1I_TRY(b1i_cuda_supports(model, err));
    B1I_TRY(b1i_gpu_open(ordinal, &d->gpu, err));
    B1I_TRY(b1i_gpu_free_bytes(d->gpu, &free_bytes, err));
    B1I_TRY(b1i_cuda_plan_memory(model, context, b1i_gpu_get_info(d->gpu), free_bytes, &d->budget, err));
    B1I_TRY(b1i_cuda_load_kernels(d->gpu, err));
    *out = d;
    return B1_OK;
fail:
    b1i_cuda_device_close(d);
    return st;
}

b1_status b1i_cuda_device_load(b1i_cuda_device *d, int workers, b1_progress_fn progress, void *user, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_cuda_weights_load(d->gpu, d->model, d->plan, workers, progress, user, &d->weights, err));
    d->loaded = true;
    B1I_TRY(b1i_cuda_machine_create(&d->weights, &d->machine, err));
    d->made = true;
    return B1_OK;
fail:
    return st;
}

void b1i_cuda_device_close(b1i_cuda_device *d)
{
    if (!d) return;
    if (d->gpu) (void)b1i_gpu_sync(d->gpu, NULL); /* a step is waited for but for its last kernel's end */
    b1i_gpu_graph **graphs = &d->graph[0][0];
    for (size_t i = 0; i < sizeof d->graph / sizeof *graphs; i++)
        if (graphs[i]) b1i_gpu_graph_destroy(d->gpu, graphs[i]);
    if (d->prefill) b1i_cuda_prefill_free(d->prefill);
    if (d->made) b1i_cuda_machine_free(&d->machine);
    if (d->loaded) b1i_cuda_weights_free(&d->weights);
    b1i_gpu_close(d->gpu);
    b1i_free(d);
}

b1_status b1i_cuda_device_prefill(b1i_cuda_device *d, b1_error *err)
{
    b1_error why = {0};
    if (d->prefill_tried) return B1_OK;
    if (d->budget.prefill == 0) {
        d->prefill_tried = true;
        (void)b1i_fail(&d->note, B1_MEMORY,
                       "prompts are evaluated %d tokens at a time: the %.2f GB that prefill needs are not free beside "
                       "the model",
                       B1I_CUDA_ROWS, (double)b1i_cuda_prefill_bytes(d->model) / 1e9);
        return B1_OK;
    }
    b1_status st = b1i_cuda_prefill_create(&d->weights, &d->prefill, &why);
    if (st != B1_OK && st != B1_UNSUPPORTED) {
        if (err) *err = why;
        return st;
    }
    d->prefill_tried = true;
    if (st == B1_UNSUPPORTED)
        (void)b1i_fail(&d->note, st, "prompts are evaluated %d tokens at a time: %s", B1I_CUDA_ROWS, why.message);
    return B1_OK;
}

b1_status b1i_cuda_device_graph(b1i_cuda_device *d, int form, int width, b1i_gpu_graph **out, b1_error *err)
{
    b1_status st;
    const b1i_cuda_program *p = NULL;
    b1i_gpu_graph **slot = &d->graph[form][width], *graph = NULL;
    const unsigned recording = b1i_gpu_recording();
    if (!*slot || (recording && d->graph_recording[form][width] != recording)) {
        B1I_TRY(b1i_cuda_program_get(&d->machine, (b1i_cuda_form)form, width, &p, err));
        B1I_TRY(b1i_gpu_graph_create(d->gpu, p->launches, p->count, b1i_cuda_programmatic(form), &graph, err));
        if (*slot) b1i_gpu_graph_destroy(d->gpu, *slot);
        *slot = graph;
        d->graph_recording[form][width] = recording;
    }
    *out = *slot;
    return B1_OK;
fail:
    return st;
}
