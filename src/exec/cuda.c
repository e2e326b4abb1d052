/* SPDX-License-Identifier: MIT
 *
 * The CUDA executors: `separate` (an op a kernel) and `fused` (about five kernels a layer), each launched kernel by
 * kernel on a stream or as a graph, `fused` also as a graph with programmatic edges. This file makes and ends instances
 * and does what is no step; steps are cuda_step.c's.
 */
#include "exec/cuda.h"

static const b1i_cuda_executor *of_const(const b1i_executor *e) { return (const b1i_cuda_executor *)e; }

/* ---- making one ---- */

static b1_status supports(const b1i_model *m, const b1i_gpu_info *gpu, b1_error *err)
{
    (void)gpu;
    return b1i_cuda_supports(m, err);
}

static b1_status supports_pdl(const b1i_model *m, const b1i_gpu_info *gpu, b1_error *err)
{
    if (gpu->major < 9)
        return b1i_fail(err, B1_UNSUPPORTED,
                        "the executor fused_pdl needs a GPU of compute capability 9.0 and %s has %d.%d; fused_graph is "
                        "the fastest there",
                        gpu->name, gpu->major, gpu->minor);
    return b1i_cuda_supports(m, err);
}

static int max_rows(const b1i_executor *base)
{
    return of_const(base)->device->prefill ? B1I_CUDA_PREFILL_ROWS : B1I_CUDA_ROWS;
}

static b1_status check_memory(const b1i_cuda_executor *e, int context, b1_error *err)
{
    const b1i_config *c = &e->device->model->config;
    const uint64_t kv = b1i_cuda_kv_bytes(c, context);
    uint64_t need = (uint64_t)e->logit_rows * (uint64_t)c->vocab * sizeof(float), have = 0;
    b1_status st = b1i_gpu_free_bytes(e->device->gpu, &have, err);
    if (st != B1_OK) return st;
    if (!b1i_add(need, kv, &need)) need = UINT64_MAX;
    if (need <= have) return B1_OK;
    return b1i_fail(err, B1_MEMORY,
                    "a KV cache of %d positions and the logits need %.2f GB, and %.2f GB are free on %s; a shorter "
                    "context may fit",
                    context, (double)need / 1e9, (double)have / 1e9, e->device->name);
}

static b1_status make_events(b1i_cuda_executor *e, b1_error *err)
{
    const size_t count = (size_t)e->items + 1;
    e->times = b1i_calloc(count, sizeof *e->times);
    e->marked = b1i_calloc(count, sizeof *e->marked);
    e->events = b1i_calloc(count, sizeof *e->events);
    if (!e->times || !e->marked || !e->events) return b1i_fail_memory(err, count * sizeof *e->events);
    for (size_t i = 0; i < count; i++) {
        b1_status st = b1i_gpu_event_create(e->device->gpu, true, &e->events[i], err);
        if (st != B1_OK) return st;
    }
    return B1_OK;
}

/* Programs or graphs of both widths: a step makes nothing. */
static b1_status make_programs(b1i_cuda_executor *e, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_gpu_graph *graph;
    const b1i_cuda_program *program;
    const int form = e->class->form, mode = e->class->mode;
    for (int width = 0; st == B1_OK && width < b1i_cuda_widths; width++) {
        st = b1i_cuda_program_get(&e->device->machine, (b1i_cuda_form)form, width, &program, err);
        if (st == B1_OK && mode != b1i_cuda_stream && !e->events)
            st = b1i_cuda_device_graph(e->device, form, width, &graph, err);
    }
    return st;
}

static b1_status furnish(b1i_cuda_executor *e, const b1i_exec_env *env, b1_error *err)
{
    b1_status st;
    b1i_cuda_device *d = e->device;
    void *host = NULL;
    B1I_TRY(b1i_cuda_device_prefill(d, err));
    e->logit_rows = env->all_logits ? max_rows((const b1i_executor *)e) : 1;
    const size_t bytes = (size_t)e->logit_rows * (size_t)d->model->config.vocab * sizeof(float);
    B1I_TRY(check_memory(e, env->context, err));
    B1I_TRY(b1i_cuda_kv_create(d->gpu, &d->model->config, env->context, &e->kv, err));
    B1I_TRY(b1i_gpu_alloc(d->gpu, bytes, "the session's logits", &e->logits, err));
    B1I_TRY(b1i_gpu_host_alloc(d->gpu, bytes, "the session's logits", &host, NULL, err));
    e->host = host;
    e->fetched = b1i_calloc((size_t)e->logit_rows, 1);
    if (!e->fetched) B1I_TRY(b1i_fail_memory(err, (size_t)e->logit_rows));
    if (env->op_times) B1I_TRY(make_events(e, err));
    B1I_TRY(make_programs(e, err));
    return B1_OK;
fail:
    return st;
}

static void destroy(b1i_executor *base)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    if (!e) return;
    b1i_gpu *gpu = e->device->gpu;
    b1i_cuda_lock(e);
    for (int i = 0; e->events && i <= e->items; i++)
        if (e->events[i]) b1i_gpu_event_destroy(gpu, e->events[i]);
    if (e->mask_bits) b1i_gpu_free(gpu, e->mask_bits);
    if (e->logits) b1i_gpu_free(gpu, e->logits);
    if (e->host) b1i_gpu_host_free(gpu, e->host);
    b1i_cuda_kv_free(gpu, &e->kv);
    b1i_cuda_unlock(e);
    b1i_mask_free(&e->mask);
    b1i_free(e->events);
    b1i_free(e->marked);
    b1i_free(e->times);
    b1i_free(e->fetched);
    b1i_free(e);
}

static b1_status create(const b1i_executor_class *class, const b1i_exec_env *env, b1i_executor **out, b1_error *err)
{
    const b1i_plan *plan = env->cuda->plan;
    *out = NULL;
    if (env->kv != b1i_type_bf16)
        return b1i_fail(err, B1_UNSUPPORTED, "the CUDA executors keep keys and values in bf16, not in %s",
                        b1i_type_names[env->kv]);
    b1i_cuda_executor *e = b1i_calloc(1, sizeof *e);
    if (!e) return b1i_fail_memory(err, sizeof *e);
    e->class = class;
    e->device = env->cuda;
    e->items = class->by_group ? plan->group_count : plan->op_count;
    e->mask.vocab = env->cuda->model->config.vocab;
    b1i_cuda_lock(e);
    b1_status st = furnish(e, env, err);
    b1i_cuda_unlock(e);
    if (st == B1_OK)
        *out = (b1i_executor *)e;
    else
        destroy((b1i_executor *)e);
    return st;
}

/* ---- besides steps ---- */

static const uint64_t *times(const b1i_executor *base) { return of_const(base)->times; }

static void launches(b1i_executor *base, int *counts)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    const b1i_cuda_program *p = NULL;
    b1i_cuda_lock(e);
    if (b1i_cuda_program_get(&e->device->machine, (b1i_cuda_form)e->class->form, b1i_cuda_one, &p, NULL) == B1_OK)
        for (int i = 0; i < p->count; i++) counts[p->launches[i].item] += p->launches[i].kernel != NULL;
    b1i_cuda_unlock(e);
}

static b1_status mask(b1i_executor *base, const int32_t *ids, int count, b1_error *err)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    b1i_gpu *gpu = e->device->gpu;
    const size_t bytes = b1i_mask_words(e->mask.vocab) * sizeof *e->mask.bits;
    b1_status st = B1_OK;
    b1i_cuda_lock(e);
    if (count > 0 && !e->mask_bits) B1I_TRY(b1i_gpu_alloc(gpu, bytes, "the mask of tokens", &e->mask_bits, err));
    B1I_TRY(b1i_mask_set(&e->mask, ids, count, err));
    e->chosen = false; /* under another mask */
    if (e->mask.count > 0) B1I_TRY(b1i_gpu_upload(gpu, e->mask_bits, e->mask.bits, bytes, err));
fail:
    b1i_cuda_unlock(e);
    return st;
}

static b1_status fill(b1i_executor *base, int count, b1_error *err)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    b1_status st = B1_OK;
    b1i_cuda_lock(e);
    if (count > 0) st = b1i_cuda_kv_fill(e->device->gpu, &e->device->model->config, &e->kv, count, err);
    b1i_cuda_unlock(e);
    return st;
}

/* At most so much of the weights is read at once: far above any L2, and a millisecond on the fastest memory. Where the
 * weights are less than that many times the L2, memory of that size is read in their place, or the figure would be the
 * L2's. */
static const size_t CEILING_BYTES = (size_t)4 << 30, CEILING_UNIT = (size_t)1 << 20;
enum { CEILING_PASSES = 9, CEILING_L2_TIMES = 16 };

/* Passes until the budget is spent; the first is the warm-up, and counts where there is no time for another. */
static b1_status read_memory(b1i_gpu *gpu, b1i_gpu_ptr memory, size_t bytes, uint64_t budget_ns, double *gbps,
                             b1_error *err)
{
    const char *method = NULL;
    const uint64_t start = b1i_now_ns();
    b1_status st = b1i_gpu_read_ceiling(gpu, memory, bytes - bytes % CEILING_UNIT, 1, gbps, &method, err);
    const uint64_t once = b1i_now_ns() - start, times = once ? budget_ns / once : 0;
    if (st != B1_OK || times < 2) return st;
    const int passes = times - 1 < CEILING_PASSES ? (int)(times - 1) : CEILING_PASSES;
    return b1i_gpu_read_ceiling(gpu, memory, bytes - bytes % CEILING_UNIT, passes, gbps, &method, err);
}

static b1_status read_ceiling(b1i_executor *base, uint64_t budget_ns, double *gbps, b1_error *err)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    b1i_gpu *gpu = e->device->gpu;
    const b1i_cuda_weights *w = &e->device->weights;
    const size_t least = CEILING_L2_TIMES * (size_t)b1i_gpu_get_info(gpu)->l2_bytes + CEILING_UNIT;
    b1_status st = B1_OK;
    b1i_gpu_ptr scratch = 0;
    *gbps = 0;
    b1i_cuda_lock(e);
    if (w->arena_bytes < least) {
        B1I_TRY(b1i_gpu_alloc(gpu, least, "reading its bandwidth", &scratch, err));
        B1I_TRY(read_memory(gpu, scratch, least, budget_ns, gbps, err));
    } else {
        size_t bytes = w->arena_bytes < CEILING_BYTES ? w->arena_bytes : CEILING_BYTES;
        B1I_TRY(read_memory(gpu, w->arena, bytes, budget_ns, gbps, err));
    }
fail:
    if (scratch) b1i_gpu_free(gpu, scratch);
    b1i_cuda_unlock(e);
    return st;
}

static const char *note(const b1i_executor *base)
{
    const char *text = of_const(base)->device->note.message;
    return *text ? text : NULL;
}

static b1_status graph_of(b1i_cuda_executor *e, bool few, b1i_gpu_graph **out, b1_error *err)
{
    return b1i_cuda_device_graph(e->device, e->class->form, few ? b1i_cuda_few : b1i_cuda_one, out, err);
}

static b1_status graph_dot(b1i_executor *base, const char *path, b1_error *err)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    b1i_gpu_graph *graph = NULL;
    b1i_cuda_lock(e);
    b1_status st = graph_of(e, false, &graph, err);
    if (st == B1_OK) st = b1i_gpu_graph_dot(e->device->gpu, graph, path, err);
    b1i_cuda_unlock(e);
    return st;
}

static b1_status graph_describe(b1i_executor *base, bool few, b1i_gpu_graph_info *out, b1_error *err)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    b1i_gpu_graph *graph = NULL;
    b1i_cuda_lock(e);
    b1_status st = graph_of(e, few, &graph, err);
    if (st == B1_OK) st = b1i_gpu_graph_describe(e->device->gpu, graph, out, err);
    b1i_cuda_unlock(e);
    return st;
}

/* ---- the classes ---- */

#define CUDA_EXECUTOR(id, form_id, mode_id, supports_fn, dot_fn, describe_fn) \
    const b1i_executor_class b1i_executor_##id = {                            \
        .name = #id,                                                          \
        .device = "cuda",                                                     \
        .kv = b1i_type_bf16,                                                  \
        .layout = b1i_layout_plain,                                           \
        .by_group = (form_id) != b1i_cuda_separate,                           \
        .form = form_id,                                                      \
        .mode = mode_id,                                                      \
        .supports = supports_fn,                                              \
        .create = create,                                                     \
        .max_rows = max_rows,                                                 \
        .submit = b1i_cuda_submit,                                            \
        .wait = b1i_cuda_wait,                                                \
        .cancel = b1i_cuda_cancel,                                            \
        .fill = fill,                                                         \
        .logits = b1i_cuda_logits,                                            \
        .argmax = b1i_cuda_argmax,                                            \
        .mask = mask,                                                         \
        .times = times,                                                       \
        .launches = launches,                                                 \
        .read_ceiling = read_ceiling,                                         \
        .note = note,                                                         \
        .graph_dot = dot_fn,                                                  \
        .graph_describe = describe_fn,                                        \
        .destroy = destroy,                                                   \
    }

CUDA_EXECUTOR(separate_stream, b1i_cuda_separate, b1i_cuda_stream, supports, NULL, NULL);
CUDA_EXECUTOR(separate_graph, b1i_cuda_separate, b1i_cuda_graph, supports, graph_dot, graph_describe);
CUDA_EXECUTOR(fused_stream, b1i_cuda_fused, b1i_cuda_stream, supports, NULL, NULL);
CUDA_EXECUTOR(fused_graph, b1i_cuda_fused, b1i_cuda_graph, supports, graph_dot, graph_describe);
CUDA_EXECUTOR(fused_pdl, b1i_cuda_early, b1i_cuda_graph, supports_pdl, graph_dot, graph_describe);
