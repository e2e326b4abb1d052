/* SPDX-License-Identifier: MIT
 *
 * What a model needs, without loading it: its header is checked in full, its tokenizer too, and no weight is read.
 *
 * Invariant: an inspection keeps the checked model (mapped, not resident) for as long as it lives; the strings that
 * it hands out are the model's or its own.
 */
#include "engine/engine.h"

#include <stdlib.h>

struct b1_inspection {
    b1i_model *model;
    b1_tensor_type types[b1i_format_count]; /* by bytes, most first */
    int type_count;
    char weights[16];
    uint64_t parameters;
    double load_ms;
};

static int compare_bytes(const void *a, const void *b)
{
    const b1_tensor_type *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void count_types(b1_inspection *in)
{
    b1_tensor_type all[b1i_format_count] = {0};
    const b1i_model *m = in->model;
    int slots = b1i_slot_count(m);
    for (int slot = 0; slot < slots; slot++) {
        if (b1i_slot_is_alias(m, slot)) continue; /* the embedding, once */
        const b1i_tensor *t = b1i_slot_tensor(m, slot);
        if (t->rows == 0) continue;
        b1_tensor_type *type = &all[t->format];
        type->tensors++;
        type->parameters += (uint64_t)t->rows * (uint64_t)t->cols;
        type->bytes += b1i_tensor_bytes(t);
    }
    for (int f = 0; f < b1i_format_count; f++) {
        if (all[f].tensors == 0) continue;
        all[f].format = b1i_formats[f].name;
        in->types[in->type_count++] = all[f];
    }
    qsort(in->types, (size_t)in->type_count, sizeof *in->types, compare_bytes);
}

/* Takes `model` over, also on failure. */
static b1_status inspect(b1i_model *model, uint64_t start_ns, b1_inspection **out, b1_error *err)
{
    b1_inspection *in = b1i_calloc(1, sizeof *in);
    if (!in) {
        b1i_model_close(model);
        return b1i_fail_memory(err, sizeof *in);
    }
    in->model = model;
    count_types(in);
    b1i_model_weights_name(model, in->weights, &in->parameters);
    in->load_ms = (double)(b1i_now_ns() - start_ns) / 1e6;
    *out = in;
    return B1_OK;
}

b1_status b1_inspect(const char *model, b1_inspection **out, b1_error *err)
{
    uint64_t start = b1i_now_ns();
    b1i_model *m;
    *out = NULL;
    b1_status st = b1i_model_open(model, B1I_LOAD_TENSORS | B1I_LOAD_TOKENIZER, &m, err);
    return st == B1_OK ? inspect(m, start, out, err) : st;
}

b1_status b1_inspect_synthetic(const char *shape, const char *weights, b1_inspection **out, b1_error *err)
{
    uint64_t start = b1i_now_ns();
    b1i_model *m;
    *out = NULL;
    b1_status st = b1i_model_synthetic(shape, weights ? weights : "bf16", &m, err);
    return st == B1_OK ? inspect(m, start, out, err) : st;
}

void b1_inspection_info(const b1_inspection *in, b1_model_info *out)
{
    b1i_model_describe(in->model, in->weights, in->parameters, in->load_ms, out);
}

const b1_tensor_type *b1_inspection_types(const b1_inspection *in, int *count)
{
    *count = in->type_count;
    return in->types;
}

uint64_t b1_inspection_kv_bytes(const b1_inspection *in, int context)
{
    return b1i_traffic_kv(&in->model->config, context, b1i_type_bf16);
}

uint64_t b1_inspection_memory_bytes(const b1_inspection *in, int context)
{
    return b1i_memory_needed(in->model, context, b1i_type_bf16);
}

b1_status b1_inspection_device_bytes(const b1_inspection *in, const char *device, int context, uint64_t *bytes,
                                     b1_error *err)
{
    b1_status st;
    b1i_device_kind kind;
    int ordinal;
    b1i_gpu_info gpu;
    b1i_cuda_budget budget;
    *bytes = 0;
    B1I_TRY(b1i_device_parse(device, &kind, &ordinal, err));
    if (kind == b1i_on_auto)
        return b1i_fail(err, B1_ARGUMENT, "memory is a device's own: name it, cpu, cuda or cuda:N, not auto");
    if (context < 1) return b1i_fail(err, B1_ARGUMENT, "a context of %d positions: expected at least 1", context);
    if (kind == b1i_on_cpu) {
        *bytes = b1_inspection_memory_bytes(in, context);
        return B1_OK;
    }
    B1I_TRY(b1i_gpu_describe(ordinal, &gpu, err));
    B1I_TRY(b1i_cuda_supports(in->model, err));
    B1I_TRY(b1i_cuda_plan_memory(in->model, context, &gpu, UINT64_MAX, &budget, err));
    *bytes = budget.total;
    return B1_OK;
fail:
    return st;
}

void b1_inspection_free(b1_inspection *in)
{
    if (!in) return;
    b1i_model_close(in->model);
    b1i_free(in);
}
