/* SPDX-License-Identifier: MIT
 *
 * Owns the engine: opens a model on the device that its options mean, refuses one that does not fit before anything is
 * loaded, keeps its weights resident.
 */
#include "engine/engine.h"

#include "base/threads.h"
#include "model/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { CONTEXT_DEFAULT = 4096 };

uint64_t b1i_memory_needed(const b1i_model *m, int context, b1i_type kv)
{
    const b1i_config *c = &m->config;
    uint64_t columns = 0, vectors = 0;
    for (int v = b1i_v_x; v < b1i_v_logits; v++) columns += (uint64_t)b1i_value_cols(c, (b1i_value)v);
    for (int slot = 0; slot < b1i_slot_count(m); slot++)
        if (b1i_slot_tensor(m, slot)->rows == 1) vectors += (uint64_t)b1i_slot_tensor(m, slot)->cols * sizeof(float);
    return b1i_resident_row16_bytes(m) + vectors + b1i_kv_cache_bytes(c, context, kv) +
           (columns * B1I_PREFILL_ROWS + (uint64_t)c->vocab) * sizeof(float);
}

/* Refuses a model that does not fit, with the sum. */
static b1_status check_memory(const b1i_model *m, int context, b1_error *err)
{
    uint64_t weights = b1i_resident_row16_bytes(m), kv = b1i_kv_cache_bytes(&m->config, context, b1i_type_bf16);
    uint64_t need = b1i_memory_needed(m, context, b1i_type_bf16), have = b1i_memory_available();
    if (need <= have) return B1_OK;
    return b1i_fail(
        err, B1_MEMORY,
        "%s does not fit: weights %.2f GB + KV cache of %d positions %.2f GB + buffers %.2f GB = %.2f GB, and "
        "%.2f GB are available; a shorter context or smaller weights may fit",
        m->config.name, (double)weights / 1e9, context, (double)kv / 1e9, (double)(need - weights - kv) / 1e9,
        (double)need / 1e9, (double)have / 1e9);
}

static bool contains(const int32_t *ids, int count, int32_t id)
{
    for (int i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

/* The union of config, generation config and tokenizer. */
static b1_status gather_end_tokens(b1_engine *e, b1_error *err)
{
    const b1i_config *c = &e->model->config;
    int own[B1I_END_TOKENS_MAX], own_count = 0;
    if (e->model->tokenizer) own_count = b1i_tokenizer_end_tokens(e->model->tokenizer, own, B1I_END_TOKENS_MAX);
    if (own_count > B1I_END_TOKENS_MAX) own_count = B1I_END_TOKENS_MAX;
    e->end_tokens = b1i_calloc((size_t)(c->end_count + own_count + 1), sizeof *e->end_tokens);
    if (!e->end_tokens) return b1i_fail_memory(err, sizeof *e->end_tokens);
    for (int i = 0; i < c->end_count + own_count; i++) {
        int id = i < c->end_count ? c->end_tokens[i] : own[i - c->end_count];
        if (!contains(e->end_tokens, e->end_count, id)) e->end_tokens[e->end_count++] = id;
    }
    return B1_OK;
}

/* ---- the device ---- */

b1_status b1i_device_parse(const char *name, b1i_device_kind *kind, int *ordinal, b1_error *err)
{
    *ordinal = 0;
    *kind = b1i_on_auto;
    if (!name || strcmp(name, "auto") == 0) return B1_OK;
    *kind = strcmp(name, "cpu") == 0 ? b1i_on_cpu : b1i_on_cuda;
    if (*kind == b1i_on_cpu) return B1_OK;
    const int number = b1i_gpu_ordinal(name);
    if (number < 0)
        return b1i_fail(err, B1_ARGUMENT, "no device is named '%s'; %s", name,
                        strncmp(name, "cuda:", 5) == 0 ? "after 'cuda:' stands a GPU's number, from 0"
                                                       : "there are cpu, cuda, cuda:N and auto");
    *ordinal = number;
    return B1_OK;
}

b1_status b1i_engine_choose(const b1_engine *e, const char *name, const b1i_executor_class **out, b1_error *err)
{
    return b1i_executor_choose(e->cuda ? "cuda" : "cpu", name, e->model,
                               e->cuda ? b1i_gpu_get_info(e->cuda->gpu) : NULL, out, err);
}

static b1_status open_cpu(b1_engine *e, const b1_engine_options *o, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_engine_choose(e, o->executor, &e->executor, err));
    B1I_TRY(check_memory(e->model, e->context, err));
    B1I_TRY(b1i_resident_create(e->model, &e->plan, &e->resident, err));
    if (e->executor->layout == b1i_layout_row16)
        B1I_TRY(b1i_resident_pack(&e->resident, e->threads, o->progress, o->progress_user, err));
    return B1_OK;
fail:
    return st;
}

static b1_status open_cuda(b1_engine *e, int ordinal, const b1_engine_options *o, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_cuda_device_open(ordinal, e->model, &e->plan, e->context, &e->cuda, err));
    B1I_TRY(b1i_engine_choose(e, o->executor, &e->executor, err));
    B1I_TRY(b1i_cuda_device_load(e->cuda, e->threads, o->progress, o->progress_user, err));
    return B1_OK;
fail:
    b1i_cuda_device_close(e->cuda);
    e->cuda = NULL;
    return st;
}

/* The first GPU, or the CPU where that cannot run the model. An executor that only one of them has decides. */
static b1_status open_auto(b1_engine *e, const b1_engine_options *o, b1_error *err)
{
    const bool cpu = !o->executor || b1i_executor_known("cpu", o->executor),
               cuda = !o->executor || b1i_executor_known("cuda", o->executor);
    b1_error why = {0};
    if (!cuda || (cpu && b1i_gpu_count(NULL) == 0)) return open_cpu(e, o, err);
    b1_status st = open_cuda(e, 0, o, &why);
    if (cpu && (st == B1_UNSUPPORTED || st == B1_MEMORY || st == B1_DEVICE)) {
        (void)snprintf(e->note, sizeof e->note, "the model runs on the CPU: %s", why.message);
        return open_cpu(e, o, err);
    }
    if (st != B1_OK && err) *err = why;
    return st;
}

/* ---- opening ---- */

static b1_status check_options(const b1_engine_options *o, b1_error *err)
{
    b1i_device_kind kind;
    int ordinal;
    b1_status st = b1i_device_parse(o->device, &kind, &ordinal, err);
    if (st != B1_OK) return st;
    if (o->threads < 0)
        return b1i_fail(err, B1_ARGUMENT, "%d threads: expected at least 1, or 0 for as many as may be used",
                        o->threads);
    if (o->context < 0) return b1i_fail(err, B1_ARGUMENT, "a context of %d positions: expected at least 1", o->context);
    return b1i_kernels_check(err);
}

static b1_status open_on_device(b1_engine *e, const b1_engine_options *o, b1_error *err)
{
    b1i_device_kind kind;
    int ordinal;
    b1_status st = b1i_device_parse(o->device, &kind, &ordinal, err);
    if (st != B1_OK) return st;
    return kind == b1i_on_cpu    ? open_cpu(e, o, err)
           : kind == b1i_on_cuda ? open_cuda(e, ordinal, o, err)
                                 : open_auto(e, o, err);
}

/* Takes the model over, also where it fails. */
static b1_status open_model(b1i_model *model, const b1_engine_options *o, uint64_t start, b1_engine **out,
                            b1_error *err)
{
    b1_status st;
    b1_engine *e = b1i_calloc(1, sizeof *e);
    if (!e) {
        b1i_model_close(model);
        return b1i_fail_memory(err, sizeof *e);
    }
    e->model = model;
    pthread_mutex_init(&e->packing, NULL);
    e->threads = o->threads ? o->threads : b1i_cpu_count();
    e->context = model->config.context_max < CONTEXT_DEFAULT ? model->config.context_max : CONTEXT_DEFAULT;
    if (o->context) e->context = o->context;
    B1I_TRY(gather_end_tokens(e, err));
    B1I_TRY(b1i_plan_build(model, &e->plan, err));
    B1I_TRY(b1i_pool_reserve(e->threads, err));
    B1I_TRY(open_on_device(e, o, err));
    b1i_model_weights_name(model, e->weights, &e->parameters);
    e->load_ms = (double)(b1i_now_ns() - start) / 1e6;
    *out = e;
    return B1_OK;
fail:
    b1_engine_close(e);
    return st;
}

b1_status b1_engine_open(const char *path, const b1_engine_options *options, b1_engine **out, b1_error *err)
{
    const b1_engine_options none = {0}, *o = options ? options : &none;
    uint64_t start = b1i_now_ns();
    b1i_model *model = NULL;
    b1_status st = B1_OK;
    *out = NULL;
    if ((st = check_options(o, err)) != B1_OK) return st;
    if (o->weights)
        return b1i_fail(err, B1_ARGUMENT,
                        "a weight format (%s) can be chosen for a synthetic model only; %s has its own", o->weights,
                        path);
    if ((st = b1i_model_open(path, B1I_LOAD_TENSORS | B1I_LOAD_TOKENIZER, &model, err)) != B1_OK) return st;
    return open_model(model, o, start, out, err);
}

b1_status b1_engine_open_synthetic(const char *shape, const b1_engine_options *options, b1_engine **out, b1_error *err)
{
    const b1_engine_options none = {0}, *o = options ? options : &none;
    uint64_t start = b1i_now_ns();
    b1i_model *model = NULL;
    b1_status st = B1_OK;
    *out = NULL;
    if ((st = check_options(o, err)) != B1_OK) return st;
    if ((st = b1i_model_synthetic(shape, o->weights ? o->weights : "bf16", &model, err)) != B1_OK) return st;
    return open_model(model, o, start, out, err);
}

void b1_engine_close(b1_engine *e)
{
    if (!e) return;
    b1i_cuda_device_close(e->cuda);
    b1i_resident_free(&e->resident);
    b1i_plan_free(&e->plan);
    b1i_model_close(e->model);
    b1i_free(e->end_tokens);
    pthread_mutex_destroy(&e->packing);
    b1i_free(e);
}

void b1i_model_describe(const b1i_model *m, const char *weights, uint64_t parameters, double load_ms,
                        b1_model_info *out)
{
    const b1i_config *c = &m->config;
    *out = (b1_model_info){
        .name = c->name,
        .architecture = b1i_arch_names[c->arch],
        .weights = weights,
        .layers = c->layers,
        .hidden = c->hidden,
        .ffn = c->ffn,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .head_dim = c->head_dim,
        .vocab = c->vocab,
        .context_max = c->context_max,
        .weight_bytes = b1i_traffic_weights(m),
        .stored_bytes = b1i_resident_stored_bytes(m),
        .parameters = parameters,
        .load_ms = load_ms,
    };
}

void b1_engine_info(const b1_engine *e, b1_model_info *out)
{
    b1i_model_describe(e->model, e->weights, e->parameters, e->load_ms, out);
    if (e->cuda) {
        out->stored_bytes = b1i_cuda_stored_bytes(e->model);
        out->device = e->cuda->name;
        out->device_name = b1i_gpu_get_info(e->cuda->gpu)->name;
        out->device_bytes = e->cuda->budget.total;
    } else {
        out->device = "cpu";
        out->device_name = b1_kernels_name();
        out->device_bytes = b1i_memory_needed(e->model, e->context, b1i_type_bf16);
    }
}

const b1_tokenizer *b1_engine_tokenizer(const b1_engine *e) { return e->model->tokenizer; }
int b1_engine_threads(const b1_engine *e) { return e->threads; }

const int32_t *b1_engine_end_tokens(const b1_engine *e, int *count)
{
    *count = e->end_count;
    return e->end_tokens;
}
