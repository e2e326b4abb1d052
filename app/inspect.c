/* SPDX-License-Identifier: MIT
 *
 * batchone inspect: what a model is, what a step of it must move, and how fast that could be, without loading it.
 * Opens the tokenizer too, so that a damaged vocabulary is found here and not in a run.
 */
#include "app/app.h"
#include "app/ceiling_file.h"
#include "app/output.h"
#include "lab/gpus.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

typedef struct inspect_options {
    bool json, synthetic;
    const char *weights, *device;
} inspect_options;

#define AT(field) offsetof(inspect_options, field)
static const b1i_option options[] = {
    {"json", 0, b1i_option_flag, AT(json), NULL, "print one JSON document", 0, 0, NULL},
    {"synthetic", 0, b1i_option_flag, AT(synthetic), NULL, "MODEL is a built-in shape, as for bench", 0, 0, NULL},
    {"weights", 0, b1i_option_text, AT(weights), "FORMAT", "format of a shape's matrices (bf16)", 0, 0, NULL},
    {"device", 0, b1i_option_device, AT(device), "NAME", "whose memory and ceiling: cpu, cuda, cuda:N, auto (auto)", 0,
     0, b1i_device_word},
    {0},
};

static const int CONTEXTS[] = {128, 2048, 8192, 16384, 32768, 131072};
enum { CONTEXT_COUNT = sizeof CONTEXTS / sizeof *CONTEXTS };

typedef struct facts {
    const b1_inspection *inspection;
    b1_model_info info;
    const b1_tensor_type *types;
    int type_count;
    int contexts;        /* how many of CONTEXTS the model was made for; at least 1 */
    b1i_device device;   /* whose ceiling and memory it is */
    b1_error unfit;      /* why its memory is unknown: it cannot run the model */
    double ceiling_gbps; /* 0: unknown */
    char ceiling_date[64];
    int vocabulary;   /* of the tokenizer; 0: none */
    const char *chat; /* NULL: none that is known */
} facts;

static uint64_t traffic(const facts *f, int context)
{
    return f->info.weight_bytes + b1_inspection_kv_bytes(f->inspection, context);
}

/* Milliseconds that `gbps` needs for a step; NaN where it is unknown. */
static double floor_ms(const facts *f, int context, double gbps)
{
    return gbps > 0 ? (double)traffic(f, context) / gbps / 1e6 : NAN;
}

/* Bytes that the engine takes there; 0: unknown. */
static uint64_t memory(const facts *f, int context)
{
    uint64_t bytes;
    return b1_inspection_device_bytes(f->inspection, f->device.name, context, &bytes, NULL) == B1_OK ? bytes : 0;
}

/* Whether weights and KV fit into so many GB. */
static bool fits(const facts *f, int context, double memory_gb)
{
    return (double)(f->info.stored_bytes + b1_inspection_kv_bytes(f->inspection, context)) < memory_gb * 1e9;
}

/* ---- JSON ---- */

static json_t *type_list(const facts *f)
{
    json_t *list = json_array();
    for (int i = 0; list && i < f->type_count; i++) {
        const b1_tensor_type *t = &f->types[i];
        json_array_append_new(list, json_pack("{s:s,s:i,s:I,s:I}", "format", t->format, "tensors", t->tensors,
                                              "parameters", (json_int_t)t->parameters, "bytes", (json_int_t)t->bytes));
    }
    return list;
}

static json_t *context_list(const facts *f)
{
    json_t *list = json_array();
    for (int i = 0; list && i < f->contexts; i++) {
        int c = CONTEXTS[i];
        uint64_t bytes = memory(f, c);
        json_array_append_new(list, json_pack("{s:i,s:I,s:I,s:o,s:o}", "context", c, "traffic_bytes",
                                              (json_int_t)traffic(f, c), "kv_bytes",
                                              (json_int_t)b1_inspection_kv_bytes(f->inspection, c), "memory_bytes",
                                              bytes ? json_integer((json_int_t)bytes) : json_null(), "t_floor_ms",
                                              b1i_json_number(floor_ms(f, c, f->ceiling_gbps))));
    }
    return list;
}

static json_t *gpu_list(const facts *f, json_t *gpus)
{
    json_t *list = json_array(), *gpu;
    size_t i;
    json_array_foreach(gpus, i, gpu)
    {
        json_t *copy = json_copy(gpu), *floors = json_array();
        double gbps = json_number_value(json_object_get(gpu, "gbps"));
        double memory_gb = json_number_value(json_object_get(gpu, "memory_gb"));
        for (int k = 0; k < f->contexts; k++)
            json_array_append_new(floors, json_pack("{s:i,s:b,s:f}", "context", CONTEXTS[k], "fits",
                                                    fits(f, CONTEXTS[k], memory_gb), "t_floor_ms",
                                                    floor_ms(f, CONTEXTS[k], gbps)));
        json_object_set_new(copy, "steps", floors);
        json_array_append_new(list, copy);
    }
    return list;
}

static json_t *document(const facts *f, json_t *gpus)
{
    const b1_model_info *m = &f->info;
    json_t *ceiling = json_null(), *tokenizer = json_null();
    if (f->ceiling_gbps > 0)
        ceiling = json_pack("{s:f,s:s,s:s}", "ceiling_gbps", f->ceiling_gbps, "date", f->ceiling_date, "device",
                            f->device.name);
    if (f->vocabulary) tokenizer = json_pack("{s:i,s:s?}", "vocab", f->vocabulary, "chat", f->chat);
    return json_pack("{s:s,s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:I,s:I,s:I,s:o,s:o,s:s,s:o,s:o,s:o}", "schema",
                     "batchone.inspect/1", "model", m->name, "architecture", m->architecture, "weights", m->weights,
                     "layers", m->layers, "hidden", m->hidden, "ffn", m->ffn, "heads", m->heads, "kv_heads",
                     m->kv_heads, "head_dim", m->head_dim, "vocab", m->vocab, "context_max", m->context_max,
                     "parameters", (json_int_t)m->parameters, "weight_bytes", (json_int_t)m->weight_bytes,
                     "stored_bytes", (json_int_t)m->stored_bytes, "tokenizer", tokenizer, "tensors", type_list(f),
                     "device", f->device.name, "contexts", context_list(f), "machine", ceiling, "gpus",
                     gpu_list(f, gpus));
}

/* ---- text ---- */

static void print_model(const facts *f)
{
    const b1_model_info *m = &f->info;
    char a[24], b[24];
    printf("%s: %s, %.1f M parameters, %s\n", m->name, m->architecture, (double)m->parameters / 1e6, m->weights);
    printf(
        "%d layers, hidden %d, ffn %d, %d heads over %d of keys and values, head_dim %d, vocabulary %d, context %d\n",
        m->layers, m->hidden, m->ffn, m->heads, m->kv_heads, m->head_dim, m->vocab, m->context_max);
    if (f->vocabulary)
        printf("tokenizer: %d ids, chat template %s\n", f->vocabulary, f->chat ? f->chat : "unknown");
    else
        printf("tokenizer: none\n");
    printf("a step reads %s of weights, stored as %s\n\n", b1i_human_bytes(m->weight_bytes, a),
           b1i_human_bytes(m->stored_bytes, b));
    printf("%-8s %8s %14s %12s\n", "format", "tensors", "parameters", "bytes");
    for (int i = 0; i < f->type_count; i++)
        printf("%-8s %8d %14llu %12s\n", f->types[i].format, f->types[i].tensors,
               (unsigned long long)f->types[i].parameters, b1i_human_bytes(f->types[i].bytes, a));
}

static void print_contexts(const facts *f)
{
    char a[24], b[24], c[24], head[40] = "t_floor here";
    bool cpu = f->device.ordinal == B1I_DEVICE_CPU;
    if (!cpu) snprintf(head, sizeof head, "on %s", f->device.name);
    printf("\n%-8s %12s %12s %12s %14s\n", "context", "a step", "of it KV", "memory", head);
    for (int i = 0; i < f->contexts; i++) {
        int context = CONTEXTS[i];
        double ms = floor_ms(f, context, f->ceiling_gbps);
        char time[32] = "unknown";
        uint64_t bytes = memory(f, context);
        if (isfinite(ms)) snprintf(time, sizeof time, "%.2f ms", ms);
        printf("%-8d %12s %12s %12s %14s\n", context, b1i_human_bytes(traffic(f, context), a),
               b1i_human_bytes(b1_inspection_kv_bytes(f->inspection, context), b),
               bytes ? b1i_human_bytes(bytes, c) : "unknown", time);
    }
    if (f->unfit.status != B1_OK)
        printf("memory is unknown: %s\n", f->unfit.message);
    else if (!cpu)
        printf("memory is what an engine on %s takes there\n", f->device.name);
    if (f->ceiling_gbps > 0)
        printf("by the ceiling of %.1f GB/s, measured %s\n", f->ceiling_gbps, f->ceiling_date);
    else if (!cpu)
        printf("\"batchone ceiling --device %s\" measures it; then t_floor is known\n", f->device.name);
    else
        printf("\"batchone ceiling\" measures this machine; then t_floor is known\n");
}

static void print_gpus(const facts *f, json_t *gpus)
{
    json_t *gpu;
    size_t i;
    printf("\n%-26s %8s  t_floor in ms by the datasheet's bandwidth, at context\n%-26s %8s", "GPU", "GB/s", "", "");
    for (int k = 0; k < f->contexts; k++) printf(" %8d", CONTEXTS[k]);
    putchar('\n');
    json_array_foreach(gpus, i, gpu)
    {
        double gbps = json_number_value(json_object_get(gpu, "gbps"));
        double memory_gb = json_number_value(json_object_get(gpu, "memory_gb"));
        printf("%-26s %8g", json_string_value(json_object_get(gpu, "name")), gbps);
        for (int k = 0; k < f->contexts; k++)
            if (fits(f, CONTEXTS[k], memory_gb))
                printf(" %8.3f", floor_ms(f, CONTEXTS[k], gbps));
            else
                printf(" %8s", "-");
        putchar('\n');
    }
    printf("- does not fit into its memory\n");
}

/* ---- the command ---- */

/* A directory need not have a tokenizer; one that is there must be sound. */
static bool has_tokenizer(const char *model)
{
    char path[4096];
    struct stat there;
    if (stat(model, &there) != 0 || !S_ISDIR(there.st_mode)) return true;
    return (size_t)snprintf(path, sizeof path, "%s/tokenizer.json", model) < sizeof path && stat(path, &there) == 0;
}

/* A GPU that "auto" took and that cannot run the model gives way to the CPU, as for run. */
static void take_device(facts *f)
{
    uint64_t bytes;
    if (b1_inspection_device_bytes(f->inspection, f->device.name, CONTEXTS[0], &bytes, &f->unfit) == B1_OK) return;
    if (!f->device.open) return;
    f->device = b1i_device_cpu();
    f->unfit = (b1_error){0};
}

static b1_status gather(const inspect_options *o, const char *model, b1_inspection **inspection,
                        b1_tokenizer **tokenizer, facts *f, b1_error *err)
{
    b1_status st;
    B1I_TRY(o->synthetic ? b1_inspect_synthetic(model, o->weights, inspection, err)
                         : b1_inspect(model, inspection, err));
    if (!o->synthetic && has_tokenizer(model)) B1I_TRY(b1_tokenizer_open(model, tokenizer, err));
    f->inspection = *inspection;
    b1_inspection_info(*inspection, &f->info);
    f->types = b1_inspection_types(*inspection, &f->type_count);
    for (f->contexts = 1; f->contexts < CONTEXT_COUNT && CONTEXTS[f->contexts] <= f->info.context_max;) f->contexts++;
    take_device(f);
    f->ceiling_gbps = b1i_ceiling_recall(&f->device, f->ceiling_date, sizeof f->ceiling_date);
    f->vocabulary = *tokenizer ? b1_tokenizer_vocab(*tokenizer) : 0;
    f->chat = *tokenizer ? b1_tokenizer_chat_family(*tokenizer) : NULL;
    return B1_OK;
fail:
    return st;
}

static int run(const b1i_command *self, char **arguments)
{
    inspect_options o = {0};
    const char *model = NULL;
    b1_error err = {0};
    b1_inspection *inspection = NULL;
    b1_tokenizer *tokenizer = NULL;
    json_t *gpus = NULL;
    facts f = {0};
    int count, code = b1i_options_parse(self, arguments, &o, &model, 1, 1, &count);
    if (code != B1I_PARSED) return code;
    if (b1i_means_shape(model)) o.synthetic = true;
    if (o.weights && !o.synthetic) {
        b1i_print_error("inspect: --weights is for a built-in shape: give --synthetic too");
        return B1I_EXIT_USAGE;
    }
    b1_status st;
    B1I_TRY(b1i_device_choose(o.device, NULL, 0, &f.device, &err));
    B1I_TRY(gather(&o, model, &inspection, &tokenizer, &f, &err));
    if (!(gpus = b1i_gpus())) B1I_TRY(b1i_fail_memory(&err, 4096));
    if (o.json) {
        B1I_TRY(b1i_json_write(document(&f, gpus), stdout, &err));
    } else {
        print_model(&f);
        print_contexts(&f);
        print_gpus(&f, gpus);
    }
fail:
    code = st == B1_OK ? B1I_EXIT_OK : b1i_report(&err);
    json_decref(gpus);
    b1_tokenizer_close(tokenizer);
    b1_inspection_free(inspection);
    return code;
}

const b1i_command b1i_command_inspect = {
    .name = "inspect",
    .operands = "MODEL",
    .summary = "Shows what a model is, what a step moves, and how fast that could be.",
    .notes = "Nothing is loaded, but the whole header and the tokenizer are checked. t_floor is the time that memory\n"
             "alone needs for a step: its bytes over the bandwidth.",
    .options = options,
    .run = run,
};
