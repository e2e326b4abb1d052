/* SPDX-License-Identifier: MIT
 *
 * batchone explain: where the time of a step goes on this device, in sentences, and the tables that they are made of.
 */
#include "lab/explain.h"
#include "lab/files.h"

#include "app/app.h"
#include "app/output.h"

#include <stdio.h>
#include <string.h>

typedef struct explain_options {
    const char *device, *executor, *weights;
    int64_t context, threads, warmup, steps;
    bool synthetic, json;
    b1i_texts prices;
} explain_options;

#define AT(field) offsetof(explain_options, field)
static const b1i_option options[] = {
    {"synthetic", 0, b1i_option_flag, AT(synthetic), NULL, "a built-in shape with random weights", 0, 0, NULL},
    {"device", 0, b1i_option_device, AT(device), "NAME", "cpu, cuda, cuda:N or auto (auto)", 0, 0, b1i_device_word},
    {"context", 'c', b1i_option_integer, AT(context), "N", "positions that the step reads (2048)", 1, 1e7, NULL},
    {"executor", 0, b1i_option_text, AT(executor), "NAME", "whose step is explained (the fastest here)", 0, 0,
     b1_executor_name},
    {"weights", 0, b1i_option_text, AT(weights), "F", "format of a shape's matrices (bf16)", 0, 0, NULL},
    {"threads", 't', b1i_option_integer, AT(threads), "N", "threads (as many as cores may be used)", 1, 4096, NULL},
    {"warmup", 0, b1i_option_integer, AT(warmup), "N", "least steps before the clock starts (5)", 0, 1e6, NULL},
    {"steps", 0, b1i_option_integer, AT(steps), "N", "least samples of each measurement (30)", 1, 1e6, NULL},
    {"price", 0, b1i_option_texts, AT(prices), "GPU=2.49", "price of an hour, of a GPU that is known or of \"this\"", 0,
     0, NULL},
    {"json", 0, b1i_option_flag, AT(json), NULL, "print one JSON document", 0, 0, NULL},
    {0},
};

/* ---- the tables ---- */

static double number(const json_t *from, const char *key) { return json_number_value(json_object_get(from, key)); }
static void print_intervention(const json_t *t)
{
    const json_t *setting = json_object_get(t, "setting");
    char threads[16] = "all";
    if (number(setting, "threads") > 0) snprintf(threads, sizeof threads, "%.0f", number(setting, "threads"));
    printf("%-9s %-15s %-8s %7s %7.0f ", b1i_lab_text_at(t, "what"), b1i_lab_text_at(setting, "executor"),
           *b1i_lab_text_at(t, "weights") ? b1i_lab_text_at(t, "weights") : b1i_lab_text_at(setting, "weights"),
           threads, number(setting, "context"));
    if (strcmp(b1i_lab_text_at(t, "status"), "ok") != 0)
        printf("%s: %s\n", b1i_lab_text_at(t, "status"), b1i_lab_text_at(t, "message"));
    else
        printf("%9.3f %9.1f %s\n", number(t, "t_obs_ms"), number(t, "ceiling_gbps"), b1i_lab_text_at(t, "verdict"));
}

static void print_prediction(const json_t *p)
{
    const json_t *t = json_object_get(p, "t_ms");
    printf("%-26s %8g ", b1i_lab_text_at(p, "gpu"), number(p, "gbps"));
    if (json_is_null(t))
        printf("%s\n", b1i_lab_text_at(p, "how"));
    else
        printf("%9.3f to %.3f\n", json_number_value(json_array_get(t, 0)), json_number_value(json_array_get(t, 1)));
}

static void print_document(const json_t *document)
{
    json_t *item;
    size_t i;
    json_array_foreach(json_object_get(document, "sentences"), i, item) printf("%s\n", json_string_value(item));
    printf("\n%-9s %-15s %-8s %7s %7s %9s %9s %s\n", "varied", "executor", "weights", "threads", "context", "ms/step",
           "ceiling", "verdict");
    json_array_foreach(json_object_get(document, "interventions"), i, item) print_intervention(item);
    printf("\n%-26s %8s %9s\n", "predicted", "GB/s", "ms/step");
    json_array_foreach(json_object_get(document, "predictions"), i, item) print_prediction(item);
}

/* ---- the command ---- */

/* Texts of a setting are never written through. */
static char *borrowed(const char *name) { return (char *)(uintptr_t)name; }

static b1_status explain_on(const explain_options *o, const char *model, const b1i_device *device, json_t **out,
                            b1_error *err)
{
    b1i_progress bar = {0};
    const bool cpu = device->ordinal == B1I_DEVICE_CPU;
    const char *executor = o->executor ? b1i_executor_on(o->executor, !cpu) : NULL;
    const b1i_explain_options l = {
        .setting = {.model = borrowed(model),
                    .synthetic = o->synthetic || b1i_means_shape(model),
                    .device = borrowed(device->name),
                    .executor = borrowed(executor),
                    .weights = borrowed(o->weights),
                    .context = (int)o->context,
                    .threads = (int)o->threads,
                    .warmup = (int)o->warmup,
                    .steps = (int)o->steps},
        .prices = o->prices.items,
        .price_count = o->prices.count,
        .cancelled = b1i_cancel_asked,
        .progress = b1i_progress_show,
        .progress_user = &bar,
    };
    b1_status st = b1i_explain(&l, out, err);
    b1i_progress_end(&bar);
    return st;
}

static b1_status explain(const explain_options *o, const char *model, json_t **out, b1_error *err)
{
    b1i_device device;
    b1_status st = b1i_device_choose(o->device, &o->executor, o->executor ? 1 : 0, &device, err);
    if (st != B1_OK) return st;
    st = explain_on(o, model, &device, out, err);
    if (!device.open || (st != B1_UNSUPPORTED && st != B1_MEMORY)) return st;
    b1i_print_hint("%s; the CPU is taken instead", err->message);
    device = b1i_device_cpu();
    return explain_on(o, model, &device, out, err);
}

static int run(const b1i_command *self, char **arguments)
{
    explain_options o = {0};
    const char *model;
    json_t *document = NULL;
    b1_error err = {0};
    int count, code = b1i_options_parse(self, arguments, &o, &model, 1, 1, &count);
    if (code != B1I_PARSED) return code;
    code = B1I_EXIT_OK;
    b1_status st = explain(&o, model, &document, &err);
    if (st == B1_OK && o.json) {
        st = b1i_json_write(json_incref(document), stdout, &err);
    } else if (st == B1_OK) {
        print_document(document);
    }
    if (st != B1_OK) code = b1i_report(&err);
    json_decref(document);
    b1i_options_free(self, &o);
    return code;
}

const b1i_command b1i_command_explain = {
    .name = "explain",
    .operands = "MODEL",
    .summary = "Says where the time of a decode step goes here, and what would change it.",
    .notes =
        "MODEL is a file, a directory or a built-in shape. Each executor of the device is measured, the fastest with\n"
        "fewer positions, fewer threads and other formats as well (random weights, of the same shape). The parts are\n"
        "memory, launch, synchronisation, kernels, attention and host; they add up to the step. Predictions for other\n"
        "GPUs are intervals. GPU names may be shortened: --price L4=0.80USD --price this=2.49.",
    .options = options,
    .run = run,
};
